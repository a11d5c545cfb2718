"""A cluster: kicks and bans of operators, upgrades, and TLS between nodes."""

import contextlib
import tempfile
import unittest

import certificates
import harness
import redis_server
import rtmp
from cluster import Cluster, Marked, Wire, check_whole, wait_order
from harness import Player, wait_until
from test_upgrade import Upgraded

NAME = "live/a"


class ClusterCase(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def cluster(self, *options):
        return self.stack.enter_context(Cluster(*options))


class KickTest(ClusterCase):
    """As for one node, see test_admin.py: here they are asked for on another node than the publisher's."""

    def start(self, *names, options=()):
        nodes = self.cluster(*options)
        return nodes, [nodes.add(name) for name in names]

    def delete(self, node, path):
        return node.admin("DELETE", "/api/v1/" + path)[0]

    def refused(self, node, source="127.0.0.1"):
        """Whether a publisher from there is banned."""
        with node.connect(source=source) as peer:
            peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % NAME.encode())
            peer.settimeout(0.5)
            try:
                status, _, body = harness.read_head(peer)
            except TimeoutError:
                return False
            return (status, (body + harness.read_to_end(peer)).decode().strip()) == (403, "banned")

    def test_kick_and_ban(self):
        """A stream with its players, wherever they are; the host is banned on all nodes, also on one that joins."""
        nodes, (a, b, c) = self.start("a", "b", "c")
        first = self.stack.enter_context(Marked(a, NAME, 1))
        nodes.wait_owner(NAME, "a")
        players = [self.stack.enter_context(Player(node, NAME)) for node in (a, b, c)]
        for player in players:
            wait_order(player, 1)
        self.assertEqual(self.delete(c, "streams/%s?ban=600" % NAME), 204)
        first.check_ended(self, 403, "kicked")
        for player in players:
            player.wait_end()
        a.wait_log("publisher kicked", stream=NAME, ban_ms="600000")
        for node in (a, b, c, nodes.add("d")):
            wait_until(lambda node=node: self.refused(node), "a ban on each node")
        self.assertFalse(self.refused(b, "127.0.0.2"))
        for node in nodes.nodes:
            ban, = wait_until(lambda node=node: self.shared(node), "a ban that the engine has")
            self.assertEqual((ban["stream"], ban["host"], ban["reason"]), (NAME, "127.0.0.1", "kicked"))
            self.assertTrue(0 < ban["ends_in_seconds"] <= 600)
            # Which a node that joins later does not know.
            joined = node is nodes.nodes[-1]
            self.assertEqual((ban["node"], ban["age_seconds"] is None), (None if joined else "a", joined))
        # Lifted on one, for all.
        self.assertEqual(self.delete(b, "bans/" + NAME), 204)
        for node in nodes.nodes:
            wait_until(lambda node=node: not self.refused(node), "no ban on any node")

    def shared(self, node):
        return [ban for ban in node.api("/api/v1/bans")["bans"] if ban["scope"] == "cluster"]

    def test_unban_while_a_node_is_cut_off(self):
        """It learns of the end with its next connection. A ban that it has made meanwhile is its own, and stays."""
        nodes = self.cluster()
        way = self.stack.enter_context(Wire((nodes.engine.host, nodes.engine.port)))
        a, b = nodes.add("a"), nodes.add("b", engine=way.url)
        for node, name in ((a, NAME), (b, "live/own")):
            self.stack.enter_context(Marked(node, name, 1))
            nodes.wait_owner(name, node.name)
        self.assertEqual(self.delete(a, "streams/%s?ban=600" % NAME), 204)
        for node in (a, b):
            wait_until(lambda node=node: self.shared(node), "a ban that the engine has")
        way.hold()
        b.wait_log("cluster engine lost")
        self.assertEqual(self.delete(b, "streams/live/own?ban=600"), 204)
        b.wait_log("cluster not told", stream="live/own")
        self.assertEqual(self.delete(a, "bans/" + NAME), 204)
        self.assertTrue(self.refused(b))
        way.release()
        b.wait_log("bans lifted", reason="lifted in the cluster", bans="1")
        self.assertFalse(self.refused(b))
        self.assertEqual([(ban["stream"], ban["scope"], ban["node"]) for ban in b.api("/api/v1/bans")["bans"]],
                         [("live/own", "node", "b")])
        self.assertEqual(a.api("/api/v1/bans")["bans"], [])

    def test_publisher_of_another_node(self):
        """By the id of what this node fetches: its players wait for the next one."""
        nodes, (a, b) = self.start("a", "b")
        first = self.stack.enter_context(Marked(a, NAME, 1))
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1)
        self.assertEqual(self.delete(b, "publishers/%d?ban=1" % b.stream(NAME)["publisher"]["id"]), 204)
        first.check_ended(self, 403, "kicked")
        wait_until(lambda: not self.refused(b), "the end of the ban")
        self.stack.enter_context(Marked(b, NAME, 2))
        wait_order(player, 2)
        check_whole(self, player, [1, 2])

    def test_players_are_of_one_node(self):
        """By id; a name that no node has is none of an error. Without the engine a kick is this node's alone."""
        nodes, (a, b) = self.start("a", "b")
        self.stack.enter_context(Marked(a, NAME, 1))
        here, there = (self.stack.enter_context(Player(node, NAME)) for node in (a, b))
        wait_order(here, 1)
        wait_order(there, 1)
        self.assertEqual(self.delete(b, "players/%d" % next(
            player["id"] for player in b.api()["players"] if player["stream"] == NAME)), 204)
        there.wait_end()
        self.assertFalse(here.finished)
        self.assertEqual(self.delete(b, "streams/live/none"), 204)
        self.assertEqual(self.delete(b, "players/1"), 404)
        nodes.engine.stop()
        b.wait_log("cluster engine lost")
        self.delete(b, "streams/" + NAME)
        b.wait_log("cluster not told", stream=NAME)
        self.assertFalse(here.finished)


class UpgradeTest(ClusterCase):
    def test_streams_go_on(self):
        """The old process keeps its publisher, its players and those of other nodes, and the streams that it fetches, until they
        end. The new one is the node meanwhile, and has what comes."""
        nodes = self.cluster()
        b = nodes.add("b")
        upgraded = self.stack.enter_context(Upgraded(kind=lambda: nodes.add("a")))
        a, fetched = upgraded.daemon, "live/fetched"
        first = self.stack.enter_context(Marked(a, NAME, 1))
        self.stack.enter_context(Marked(b, fetched, 1))
        at_origin, at_edge = (self.stack.enter_context(Player(node, NAME)) for node in (a, b))
        of_other = self.stack.enter_context(Player(a, fetched))
        for player in (at_origin, at_edge, of_other):
            wait_order(player, 1)
        before = nodes.lease("a")
        upgraded.upgrade()
        a.wait_log("cluster left", node="a")
        wait_until(lambda: nodes.lease("a") > before, "the new process to be the node")
        for player in (at_origin, at_edge, of_other):
            count = len(player.frames)
            player.wait(lambda player, count=count: len(player.frames) > count + 40, "more frames")
        self.assertIsNone(first.error)
        # What comes belongs to the new process, also for other nodes; and it plays what others have.
        other = self.stack.enter_context(Marked(a, "live/new", 3))
        nodes.wait_owner("live/new", "a")
        late = [self.stack.enter_context(Player(b, "live/new")), self.stack.enter_context(Player(a, fetched))]
        wait_order(late[0], 3)
        wait_order(late[1], 1)
        self.assertIsNone(other.error)
        # The publisher comes again: it is the new process's, and players of other nodes go on.
        first.close()
        at_origin.wait_end()
        self.stack.enter_context(Marked(a, NAME, 2))
        wait_order(at_edge, 2)
        check_whole(self, at_edge, [1, 2])
        check_whole(self, at_origin, [1])
        self.assertIsNone(at_origin.error)
        of_other.close()
        a.wait_log("stopping", reason="no connections left")
        self.assertEqual([line.text for line in a.log("cluster node replaced") + a.log("publisher ended")
                          if "another" in line.text], [])

    def test_a_name_moves_from_the_old_process(self):
        """A publisher of the old process whose name is published on another node is superseded, as by any node."""
        nodes = self.cluster()
        b = nodes.add("b")
        upgraded = self.stack.enter_context(Upgraded(kind=lambda: nodes.add("a")))
        first = self.stack.enter_context(Marked(upgraded.daemon, NAME, 1))
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1)
        before = nodes.lease("a")
        upgraded.upgrade()
        wait_until(lambda: nodes.lease("a") > before, "the new process to be the node")
        self.stack.enter_context(Marked(b, NAME, 2))
        first.check_ended(self, 409, "published on another node")
        wait_order(player, 2)
        check_whole(self, player, [1, 2])


class TlsTest(ClusterCase):
    def test_mutual(self):
        """A node fetches by https with its certificate; one without a certificate, or that does not trust the origin's, gets
        nothing where the origin asks for that."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        host = harness.own_host()
        authority, other = (certificates.make(folder, name, is_ca=True) for name in ("authority", "other"))
        server = certificates.make(folder, "server", issuer=authority, names="IP:" + host)
        client, stranger = (certificates.make(folder, name, issuer=issuer, names="DNS:" + name)
                            for name, issuer in (("client", authority), ("stranger", other)))
        nodes = self.cluster("--wait", "1")
        a = nodes.add("a", "--tls-certificate", server.option, "--tls-client-ca", authority.chain, http=host + ":0,tls")
        trusts = ("--tls-ca", authority.chain)
        b = nodes.add("b", *trusts, "--tls-client-certificate", client.option)
        c = nodes.add("c", *trusts, "--tls-client-certificate", stranger.option)
        d = nodes.add("d", "--tls-ca", other.chain)
        self.stack.enter_context(Marked(a, NAME, 1, "rtsp"))
        nodes.wait_owner(NAME, "a")
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1, 50)
        check_whole(self, player, [1])
        by_rtmp = rtmp.Player(b, NAME)
        self.stack.callback(by_rtmp.close)
        by_rtmp.wait_tags(20)
        for node in (c, d):
            self.assertEqual(node.request("GET", "/%s.flv" % NAME)[0], 404)
        c.wait_log("edge", stream=NAME, state="waiting", reason="TLS", detail="tlsv1 alert unknown ca", failures="1")
        d.wait_log("edge", stream=NAME, state="waiting", reason="TLS", detail="unable to get local issuer certificate", failures="1")
        self.assertIn("https %s:%d" % a.address(), nodes.engine.ask("GET", "sluice:node:a"))

    def test_engine(self):
        """The engine by TLS: a server that is not the right one gets no command, and no password."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        authority, other = (certificates.make(folder, name, is_ca=True) for name in ("authority", "other"))
        right, wrong = (certificates.make(folder, name, issuer=authority, names=names)
                        for name, names in (("right", "IP:" + harness.own_host()), ("wrong", "DNS:engine.example")))
        engine, impostor = (redis_server.Redis(password="geheim", certificate=(one.chain, one.key)) for one in (right, wrong))
        self.stack.callback(impostor.stop)
        trusts = ("--tls-ca", authority.chain)
        nodes = self.stack.enter_context(Cluster("--wait", "1", engine=engine))
        a, b = (nodes.add(name, *trusts) for name in "ab")
        self.stack.enter_context(Marked(a, NAME, 1))
        nodes.wait_owner(NAME, "a")
        player = self.stack.enter_context(Player(b, NAME))
        wait_order(player, 1, 50)
        check_whole(self, player, [1])
        commands = impostor.ask("INFO", "commandstats")
        c = nodes.start("c", *trusts, engine=impostor.url)
        d = nodes.start("d", "--tls-ca", other.chain)
        e = nodes.start("e", *trusts, engine="rediss://:geheim@%s:%d" % a.address("http"))
        for node, detail in ((c, "IP address mismatch"), (d, "unable to get local issuer certificate"), (e, "not TLS")):
            node.wait_log("cluster engine unavailable", reason="TLS", detail=detail)
        self.assertNotIn("cmdstat_hello", impostor.ask("INFO", "commandstats"))
        self.assertNotIn("cmdstat_hello", commands)
        # The connection is lost, and another one is made.
        engine.stop()
        for node in (a, b):
            node.wait_log("cluster engine lost")
        nodes.engine = redis_server.Redis(password="geheim", certificate=(right.chain, right.key), address=(engine.host, engine.port))
        for node in (a, b):
            nodes.wait_node(node.name)


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
