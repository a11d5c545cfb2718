"""A node of a cluster that is stopped while there are others: its clients go there."""

import contextlib
import signal
import unittest

import harness
import redis_server
import rtmp
import rtsp
from cluster import Cluster, Marked, check_whole, wait_order
from harness import Player

NAME = "live/a"


class DrainTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def cluster(self, *options):
        return self.stack.enter_context(Cluster(*options))

    @staticmethod
    def drain(node):
        node.process.send_signal(signal.SIGTERM)

    def test_clients_go_elsewhere(self):
        """The node leaves the cluster, ends its publishers, sends new clients to another node, and ends with its last player."""
        nodes = self.cluster()
        a, b = nodes.add("a"), nodes.add("b")
        nodes.wait_acquainted()
        first = self.stack.enter_context(Marked(a, NAME, 1))
        self.stack.enter_context(Marked(b, "live/b", 3))
        here, there, stays = (self.stack.enter_context(Player(node, name)) for node, name in (
            (a, NAME), (b, NAME), (a, "live/b")))
        wait_order(here, 1)
        wait_order(there, 1)
        wait_order(stays, 3)
        self.drain(a)
        first.check_ended(self, 503, "server shutting down")
        nodes.wait_node("a", False)
        here.wait_end()
        self.assertIsNone(here.error)
        place = "http://%s:%d" % b.address()
        for method, path in (("GET", "/live/b.flv?token=x%20y"), ("HEAD", "/live/b.flv"), ("POST", "/%s.flv" % NAME)):
            status, headers, _ = a.request(method, path)
            self.assertEqual((status, headers["Location"]), (307, place + path))
        self.assertEqual(a.request("GET", "/none")[0], 404)
        self.assertEqual(a.admin("GET", "/api/v1/health")[0], 503)
        self.stack.enter_context(Marked(b, NAME, 2))
        wait_order(there, 2)
        check_whole(self, there, [1, 2])
        count = len(stays.frames)
        stays.wait(lambda player: len(player.frames) > count + 20, "more frames")
        stays.close()
        a.wait_log("stopping", reason="no connections left")
        a.wait_end()

    def test_time(self):
        """It ends after the drain time, or with another signal; at once where there is no other node."""
        nodes = self.cluster()
        a, b, c = nodes.add("a", "--drain", "0.5"), nodes.add("b"), nodes.add("c")
        nodes.wait_acquainted()
        self.stack.enter_context(Marked(c, NAME, 1))
        for node in (a, b):
            player = self.stack.enter_context(Player(node, NAME))
            wait_order(player, 1)
            self.drain(node)
            node.wait_log("draining")
            if node is b:
                self.assertIsNone(node.process.poll())
                self.drain(node)
            player.wait_end()
            player.close()
            node.wait_end()
        a.wait_log("stopping", reason="--drain expired")
        player = self.stack.enter_context(Player(c, NAME))
        wait_order(player, 1)
        self.drain(c)
        player.wait_end()
        player.close()
        c.wait_end()
        self.assertEqual(c.log("draining"), [])

    def test_all_at_once(self):
        """Where all are stopped, none waits for the others."""
        nodes = self.cluster("--drain", "600")
        a, b = nodes.add("a"), nodes.add("b")
        nodes.wait_acquainted()
        self.stack.enter_context(Marked(a, NAME, 1))
        self.stack.enter_context(Marked(b, "live/b", 2))
        for node, name, order in ((a, "live/b", 2), (b, NAME, 1)):
            wait_order(self.stack.enter_context(Player(node, name)), order)
            self.assertEqual(self.stack.enter_context(rtsp.Client(node)).ask("OPTIONS").status, 200)
        for node in (a, b):
            node.process.send_signal(signal.SIGTERM)
        for node in (a, b):
            node.wait_end()

    def test_other_protocols(self):
        """RTSP and RTMP: to another node's host, and the same port; not to another process on this host."""
        nodes = self.cluster()
        first, second = (".".join(("127", str(int(at) + 64 * host), *rest)) for host in (0, 1)
                         for _, at, *rest in (harness.own_host().split("."),))
        def add(name, host, rtsp_port=0, rtmp_port=0):
            return nodes.add(name, http=host + ":0", others=("--rtsp", "%s:%d" % (host, rtsp_port),
                                                             "--rtmp", "%s:%d" % (host, rtmp_port)))
        a = add("a", first)
        ports = a.address("rtsp")[1], a.address("rtmp")[1]
        b, alone = add("b", second, *ports), add("c", second)
        nodes.wait_acquainted()
        self.stack.enter_context(Marked(b, NAME, 1))
        clients = {}
        for name, command, more in (("able", "publish", {"capsEx": 1}), ("plain", "publish", {}), ("player", "play", {"capsEx": 1})):
            client = self.stack.enter_context(rtmp.Client(a))
            client.begin(command, "a" if command == "play" else name, app="live", **more)
            clients[name] = client
        nodes.wait_owner("live/able", "a")
        a.wait_player(NAME)
        self.drain(a)
        for name in ("able", "player"):
            status = clients[name].wait_status()
            while status["code"] != "NetConnection.Connect.ReconnectRequest":
                status = clients[name].wait_status()
            self.assertEqual(status["tcUrl"], "rtmp://%s:%d/live" % (second, ports[1]))
        clients["plain"].wait_end()
        nodes.wait_node("a", False)
        for method in ("DESCRIBE", "ANNOUNCE"):
            with rtsp.Client(a, NAME) as client:
                reply = client.ask(method, body=rtsp.SDP if method == "ANNOUNCE" else "")
                self.assertEqual((reply.status, reply.headers["location"]), (302, "rtsp://%s:%d/%s" % (second, ports[0], NAME)))
        with rtmp.Client(a) as client:
            status = client.begin("play", "a", app="live", capsEx=1)
            self.assertEqual(status["tcUrl"], "rtmp://%s:%d/live" % (second, ports[1]))
        for client in clients.values():
            client.peer.close()
        a.wait_end()
        # What is left is on one host.
        self.drain(b)
        b.wait_log("draining")
        with rtsp.Client(b, NAME) as client:
            self.assertEqual(client.ask("DESCRIBE").status, 503)
        self.assertEqual(b.request("GET", "/%s.flv" % NAME)[1]["Location"], "http://%s:%d/%s.flv" % (*alone.address(), NAME))


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
