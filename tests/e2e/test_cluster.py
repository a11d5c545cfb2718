"""A cluster: streams that are published on one node and played on another, while nodes, publishers and the engine come and go."""

import contextlib
import socket
import time
import unittest

import flv
import harness
import redis_server
import relay
import rtmp
import rtsp
from cluster import Cluster, Marked, Wire, check_whole, wait_order
from harness import Player, read_head, wait_until

NAME = "live/a"
MANY = 300 if harness.SANITIZED else 1000


def post(node, name=NAME):
    """A request to publish: the socket, behind its head."""
    peer = node.connect()
    peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % name.encode())
    return peer


def refusal(peer):
    """(status, reason)"""
    status, _, body = read_head(peer)
    return status, (body + harness.read_to_end(peer)).decode().strip()


def pulls(node, name=NAME):
    """How many nodes fetch the stream from this one."""
    return sum(player["stream"] == name and player["protocol"] == "cluster" for player in node.api()["players"])


class PlayTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def cluster(self, *options):
        return self.stack.enter_context(Cluster(*options))

    def test_one_pull_for_all_players(self):
        """However many come at once; and it ends when they have gone."""
        nodes = self.cluster("--linger", "1")
        way = self.stack.enter_context(Wire())
        a, b = nodes.add("a", way=way), nodes.add("b")
        self.stack.enter_context(Marked(a, NAME, 1))
        a.wait_stream(NAME)
        peers = [b.connect() for _ in range(MANY)]
        for peer in peers:
            peer.sendall(b"GET /%s.flv HTTP/1.1\r\nHost: a\r\n\r\n" % NAME.encode())
        for peer in peers:
            self.assertEqual(read_head(peer)[0], 200)
        b.wait_player(NAME, MANY)
        self.assertEqual((pulls(a), way.connections), (1, 1))
        self.assertEqual(a.stream(NAME)["subscribers"], 1)
        a.check_log(1, "player started", stream=NAME)
        with Player(b, NAME) as player:
            wait_order(player, 1)
            check_whole(self, player, [1])
        for peer in peers:
            peer.close()
        wait_until(lambda: pulls(a) == 0, "the pull to end")
        wait_until(lambda: b.stream(NAME) is None, "the stream to go")

    def test_all_protocols(self):
        """Published by each, played by each, on the other node; DESCRIBE and HEAD are answered there."""
        nodes = self.cluster("--wait", "0")
        a, b = nodes.add("a", "--workers", "2"), nodes.add("b", "--workers", "3")
        for way in ("http", "rtsp", "flv"):
            with self.subTest(published=way), contextlib.ExitStack() as stack:
                name = "live/%s" % way
                if way == "flv":
                    with relay.Source(a, None, "flv", 0) as source:
                        source.send(20)
                        name = source.publisher.name
                        nodes.wait_owner(name, "a")
                    continue
                source = stack.enter_context(Marked(a, name, 1, way))
                nodes.wait_owner(name, "a")
                a.wait_stream(name, lambda stream: stream["frames"]["audio"] > 10, "with frames")
                player = stack.enter_context(Player(b, name))
                by_rtsp = stack.enter_context(relay.RtspPlayer(b, name))
                by_rtmp = rtmp.Player(b, name)
                stack.callback(by_rtmp.close)
                wait_order(player, 1)
                by_rtmp.wait_tags(20)
                by_rtsp.wait_number(source.number + 20)
                by_rtsp.check_rising(self)
                self.assertEqual(b.request("HEAD", "/%s.flv" % name)[0], 200)
        with rtmp.Publisher(a, "live/rtmp") as publisher:
            source = flv.frames()
            for _ in range(100):
                publisher.send(next(source))
            nodes.wait_owner("live/rtmp", "a")
            self.assertEqual(b.request("HEAD", "/live/rtmp.flv")[0], 200)
            with rtsp.Client(b, "live/rtmp") as client:
                self.assertEqual(client.ask("DESCRIBE").status, 200)
        nodes.wait_owner("live/rtmp", "")
        self.assertEqual(b.request("HEAD", "/live/none.flv")[0], 404)
        self.assertEqual(b.request("GET", "/live/none.flv")[0], 404)

    def test_tiers(self):
        """c and d ask b, which asks a: one pull each. When b dies, they go on."""
        nodes = self.cluster()
        a, b = nodes.add("a"), nodes.add("b")
        c, d = nodes.add("c", "--cluster-parent", "b"), nodes.add("d", "--cluster-parent", "b")
        self.stack.enter_context(Marked(a, NAME, 1))
        players = [self.stack.enter_context(Player(node, NAME)) for node in (c, c, d, b)]
        for player in players:
            wait_order(player, 1)
        self.assertEqual(pulls(a), 1)
        self.assertEqual(pulls(b), 2)
        b.kill()
        count = len(players[0].frames), len(players[2].frames)
        players[0].wait(lambda player: len(player.frames) > count[0] + 20, "more frames")
        players[2].wait(lambda player: len(player.frames) > count[1] + 20, "more frames")
        for player in players[:3]:
            check_whole(self, player, [1])

    def test_publisher_moves(self):
        """From node to node and back; all players go on, wherever they are, and times rise."""
        nodes = self.cluster()
        list_of_nodes = [nodes.add(name) for name in "abc"]
        players = [self.stack.enter_context(Player(node, NAME)) for node in list_of_nodes]
        for order, at in enumerate((0, 1, 2, 0), 1):
            with Marked(list_of_nodes[at], NAME, order, start=order % 2 * 1000000):
                for player in players:
                    wait_order(player, order)
            nodes.wait_owner(NAME, "")
        for player in players:
            check_whole(self, player, [1, 2, 3, 4])

    def test_origin_is_killed(self):
        """Its publisher comes to another node: players on all others go on within 7 seconds."""
        nodes = self.cluster()
        a, b, c = (nodes.add(name) for name in "abc")
        players = [self.stack.enter_context(Player(node, NAME)) for node in (b, c)]
        first = Marked(a, NAME, 1)
        for player in players:
            wait_order(player, 1)
        killed = time.monotonic()
        a.kill()
        first.close()
        # As an encoder does, which tries again and again.
        while True:
            peer = post(c)
            peer.settimeout(0.5)
            try:
                status = read_head(peer)[0]
            except socket.timeout:
                status = None
            peer.close()
            if status is None or time.monotonic() - killed > 20:
                break
            self.assertEqual(status, 409)
        self.stack.enter_context(Marked(c, NAME, 2))
        for player in players:
            wait_order(player, 2, 1)
        self.assertLess(time.monotonic() - killed, 7 + (5 if harness.SANITIZED else 0))
        for player in players:
            wait_order(player, 2)
            check_whole(self, player, [1, 2])

    def test_edge_is_killed(self):
        """Its players come to another one, and play."""
        nodes = self.cluster()
        a, b, c = (nodes.add(name) for name in "abc")
        self.stack.enter_context(Marked(a, NAME, 1))
        with Player(b, NAME) as player:
            wait_order(player, 1)
            b.kill()
        with Player(c, NAME) as player:
            wait_order(player, 1)

    def test_superseded_origin(self):
        """An origin is stopped for longer than its lease, and its publisher comes to another node: of what it has still, no
        player of an edge gets anything behind what the other one has sent. It ends its publisher, and its players go on."""
        nodes = self.cluster()
        a, b, c = (nodes.add(name) for name in "abc")
        at_origin = self.stack.enter_context(Player(a, NAME))
        players = [self.stack.enter_context(Player(b, NAME)), self.stack.enter_context(Player(c, NAME))]
        first = self.stack.enter_context(Marked(a, NAME, 1))
        for player in [at_origin, *players]:
            wait_order(player, 1)
        with a.standing_still():
            nodes.wait_node("a", False)
            self.stack.enter_context(Marked(c, NAME, 2))
            for player in players:
                wait_order(player, 2)
        late = self.stack.enter_context(Player(b, NAME))
        first.check_ended(self, 409, "published on another node")
        wait_order(at_origin, 2)
        wait_order(late, 2, 50)
        for player in players:
            wait_order(player, 2, 50)
            check_whole(self, player, [1, 2])
        check_whole(self, at_origin, [1, 2])
        check_whole(self, late, [2])
        nodes.wait_owner(NAME, "c")

    def test_wrong_secret(self):
        """A node that does not know the secret gets nothing, and says why."""
        nodes = self.cluster()
        a, b = nodes.add("a"), nodes.add("b", "--wait", "2", secret="f" * 32)
        self.stack.enter_context(Marked(a, NAME, 1))
        nodes.wait_owner(NAME, "a")
        self.assertEqual(b.request("GET", "/%s.flv" % NAME)[0], 404)
        b.wait_log("edge", stream=NAME, reason="GET answered 403", detail="the signature is not accepted")
        self.assertEqual(pulls(a), 0)
        self.assertNotIn(Cluster.SECRET, a.last_lines() + b.last_lines())

    def test_stolen_address(self):
        """Another server has the address of a node: neither what it sends nor its epoch, above all others, is believed."""
        nodes, way = self.cluster("--wait", "10"), self.stack.enter_context(Wire())
        a, b = nodes.add("a", way=way), nodes.add("b")
        source = self.stack.enter_context(Marked(a, NAME, 1))
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1)
        with socket.create_server((harness.own_host(), 0)) as thief:
            thief.settimeout(harness.PATIENCE)
            way.lead_to(thief.getsockname())
            way.cut()
            for _ in range(2):
                with thief.accept()[0] as peer:
                    self.assertIn(b"\r\nSluice-Cluster: ", peer.recv(4096))
                    peer.sendall(b"HTTP/1.1 200 OK\r\nSluice-Epoch: %d\r\nSluice-Signature: %s\r\n\r\n%s" %
                                 ((1 << 53) - 1, b"0" * 64, flv.stream(10)[0]))
                    peer.settimeout(harness.PATIENCE)
                    with contextlib.suppress(ConnectionError):
                        self.assertEqual(peer.recv(1), b"")
            way.lead_to(a.address("http"))
        b.wait_log("edge", stream=NAME, detail="the answer is not signed by a node of this cluster")
        count = len(player.frames)
        player.wait(lambda player: len(player.frames) > count + 40, "more frames")
        check_whole(self, player, [1])
        self.assertIsNone(source.error)

    def test_rules_do_not_apply_to_nodes(self):
        """They are for the players, where those are."""
        nodes = self.cluster("--rule", "publish * allow", "--rule", "play * from 127.0.0.1 allow")
        a, b = nodes.add("a", "--rule", "play live/none allow"), nodes.add("b")
        self.stack.enter_context(Marked(a, NAME, 1))
        peer = b.connect(source="127.0.0.1")
        peer.sendall(b"GET /%s.flv HTTP/1.1\r\nHost: a\r\n\r\n" % NAME.encode())
        self.assertEqual(read_head(peer)[0], 200)
        peer.close()


class PublishTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def start(self, *options):
        nodes = self.stack.enter_context(Cluster(*options))
        return nodes, nodes.add("a"), nodes.add("b")

    def test_refuse(self):
        nodes, a, b = self.start("--same-name", "refuse")
        self.stack.enter_context(Marked(a, NAME, 1))
        nodes.wait_owner(NAME, "a")
        begun = time.monotonic()
        with post(b) as peer:
            self.assertEqual(refusal(peer), (409, "published on another node"))
        self.assertLess(time.monotonic() - begun, 6 + (5 if harness.SANITIZED else 0))
        with rtmp.Client(b) as client:
            self.assertEqual(client.begin("publish", "a", "live")["code"], "NetStream.Publish.BadName")
        with rtsp.Client(b, NAME) as client:
            self.assertEqual(client.ask("ANNOUNCE", body=rtsp.SDP).status, 403)
        nodes.wait_owner(NAME, "a")

    def test_refuse_waits_for_one_that_leaves(self):
        nodes, a, b = self.start("--same-name", "refuse")
        first = Marked(a, NAME, 1)
        nodes.wait_owner(NAME, "a")
        second = self.stack.enter_context(Marked(b, NAME, 2))
        first.close()
        nodes.wait_owner(NAME, "b")
        with Player(a, NAME) as player:
            wait_order(player, 2)
        self.assertIsNone(second.error)

    def test_take_over(self):
        nodes, a, b = self.start("--same-name", "take-over")
        player = self.stack.enter_context(Player(a, NAME))
        first = self.stack.enter_context(Marked(a, NAME, 1))
        wait_order(player, 1)
        self.stack.enter_context(Marked(b, NAME, 2))
        first.check_ended(self, 409, "published on another node")
        wait_order(player, 2)
        check_whole(self, player, [1, 2])
        nodes.wait_owner(NAME, "b")

    def test_resume(self):
        """The name is reserved for the host on all nodes; the same host may come to any, also to one that has fetched it."""
        nodes, a, b = self.start("--same-name", "resume", "--resume", "60")
        player = self.stack.enter_context(Player(b, NAME))
        first = Marked(a, NAME, 1)
        wait_order(player, 1)
        # It goes without a word.
        first.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        first.close()
        nodes.wait_owner(NAME, "")
        with b.connect(source="127.0.0.2") as peer:
            peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % NAME.encode())
            self.assertEqual(refusal(peer), (409, "name reserved"))
        self.stack.enter_context(Marked(b, NAME, 2))
        nodes.wait_owner(NAME, "b")
        wait_order(player, 2)
        check_whole(self, player, [1, 2])

    def test_engine_is_down(self):
        """Streams go on, and so do known locations; new names are accepted, by default."""
        nodes, a, b = self.start()
        self.stack.enter_context(Marked(a, NAME, 1))
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1)
        nodes.engine.stop()
        other = self.stack.enter_context(Marked(b, "live/b", 2))
        with Player(b, "live/b") as beside:
            wait_order(beside, 2)
        with Player(b, NAME) as late:
            wait_order(late, 1)
        count = len(player.frames)
        player.wait(lambda player: len(player.frames) > count + 50, "more frames")
        nodes.restart_engine()
        nodes.wait_owner("live/b", "b")
        nodes.wait_owner(NAME, "a")
        with Player(a, "live/b") as there:
            wait_order(there, 2)
        check_whole(self, player, [1])
        self.assertIsNone(other.error)

    def test_engine_is_full(self):
        """What takes no writes is no engine: leases would end, and no node would have a stream any more."""
        nodes, a, b = self.start("--linger", "0")
        self.stack.enter_context(Marked(a, NAME, 1))
        with Player(b, NAME) as player:
            wait_order(player, 1)
        nodes.engine.ask("CONFIG", "SET", "maxmemory", "1")
        for node in (a, b):
            node.wait_log("cluster engine lost", reason="the server's memory or disk is full")
        nodes.wait_node("a", there=False)
        with Player(b, NAME) as player:
            wait_order(player, 1)
        nodes.engine.ask("CONFIG", "SET", "maxmemory", "0")
        nodes.wait_owner(NAME, "a")

    def test_protected_mode(self):
        """The reason is one that helps; the real mode does not reject this host."""
        with socket.create_server((harness.own_host(), 0)) as server:
            server.settimeout(harness.PATIENCE)
            nodes = self.stack.enter_context(Cluster())
            node = nodes.start("a", engine="redis://%s:%d" % server.getsockname())
            with server.accept()[0] as peer:
                peer.sendall(b"-DENIED Redis is running in protected mode because ...\r\n")
                node.wait_log("cluster engine unavailable", reason="the server is in protected mode",
                              detail="give it a password, or set its protected-mode to no")

    def test_engine_is_down_and_new_names_are_refused(self):
        nodes, a, b = self.start("--cluster-down", "refuse")
        self.stack.enter_context(Marked(a, NAME, 1))
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1)
        nodes.engine.stop()
        def refused():
            with post(b, "live/b") as peer:
                return refusal(peer) == (503, "cluster engine unavailable")
        wait_until(refused, "a new name to be refused")
        count = len(player.frames)
        player.wait(lambda player: len(player.frames) > count + 50, "more frames")


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
