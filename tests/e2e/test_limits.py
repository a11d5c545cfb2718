"""Limits on what there may be: connections of an address, streams, players of a stream. What is over them is refused in
the words of each protocol, told, counted by cause, and let in when there is room again."""

import contextlib
import os
import socket
import subprocess
import sys
import unittest

import flv
import harness
import rtsp
from harness import Daemon, Player, Publisher

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
UPGRADE = (b"GET /%s.flv HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


class LimitsTest(harness.SettledTest):
    def start(self, *options):
        """On two workers, over which limits hold as well."""
        return super().start("--workers", "2", *options, listen=LISTEN)

    def enter(self, context):
        return self.stack.enter_context(context)

    def check_refused(self, daemon, **expected):
        """The API's and the metrics' counts, which are those, and otherwise 0."""
        refused = daemon.api()["refused"]
        self.assertEqual(refused, dict(dict.fromkeys(refused, 0), **expected))
        metrics = daemon.admin("GET", "/metrics")[2].decode()
        for cause, count in refused.items():
            self.assertIn('sluice_refused_total{cause="%s"} %d\n' % (cause, count), metrics)

    def publish(self, daemon, name, protocol="http"):
        publisher = self.enter(Publisher(daemon, name, protocol))
        publisher.send(flv.stream(10)[0])
        daemon.wait_stream(publisher.name)
        return publisher

    def connect_from(self, daemon, host, protocol="http"):
        peer = self.enter(socket.socket())
        peer.bind((host, 0))
        peer.settimeout(harness.PATIENCE)
        peer.connect(daemon.address(protocol))
        return peer

    def test_connections_per_address(self):
        daemon = self.start("--max-connections-per-address", "3")
        first = [self.connect_from(daemon, "127.0.0.1", protocol) for protocol in ("http", "rtsp", "http")]
        harness.wait_until(lambda: sum(worker["connections"] for worker in daemon.api()["workers"]) == len(first),
                           "the first to be there")
        # The others send something, which nobody reads: the answer comes all the same.
        peer = self.connect_from(daemon, "127.0.0.1")
        peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
        self.assertEqual(harness.status_of(harness.read_to_end(peer)), 429)
        peer = self.connect_from(daemon, "127.0.0.1", "rtsp")
        self.assertTrue(harness.read_to_end(peer).startswith(b"RTSP/1.0 503 Service Unavailable\r\n"))
        self.assertEqual(harness.read_to_end(self.connect_from(daemon, "127.0.0.1", "flv")), b"")
        for protocol in ("http", "rtsp", "flv"):
            daemon.wait_log("connection refused", proto=protocol,
                            reason="too many connections from this address")
        # Others have their own, and who leaves makes room.
        other = self.connect_from(daemon, "127.0.0.2")
        other.sendall(b"GET /nothing HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        self.assertEqual(harness.status_of(harness.read_to_end(other)), 404)
        self.check_refused(daemon, max_connections_per_address=3)
        first[0].close()

        def is_let_in():
            with socket.create_connection(daemon.address("http")) as peer:
                with contextlib.suppress(ConnectionError):
                    peer.sendall(b"GET /nothing HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
                return harness.status_of(harness.read_to_end(peer)) == 404
        harness.wait_until(is_let_in, "room for one more")
        self.stack.close()

    def test_pulls_are_of_no_address(self):
        """A connection of the daemon's own that ends leaves what others have as it is."""
        with socket.create_server(("127.0.0.1", 0)) as camera:
            daemon = self.start("--http", "[::1]:0", "--max-connections-per-address", "1", "--pull",
                                "rtsp://127.0.0.1:%d/a=live/pulled" % camera.getsockname()[1])
            self.enter(daemon.connect("http", 1))
            camera.settimeout(harness.PATIENCE)
            camera.accept()[0].close()
            harness.wait_until(lambda: daemon.api()["pulls"][0]["failures"] > 0, "the pull to fail")
            with daemon.connect("http", 1) as peer:
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 429)
            self.stack.close()

    def test_streams(self):
        daemon = self.start("--max-streams", "2", "--wait", "60")
        first = self.publish(daemon, "live/a")
        waiting = self.enter(Player(daemon, "live/b"))
        daemon.wait_player("live/b")
        # Neither publishers nor players make another one; the two that there are can be had.
        self.assertEqual(daemon.request("GET", "/live/c.flv")[0], 503)
        self.assertEqual(daemon.request("POST", "/live/c.flv", b"x")[0], 503)
        with rtsp.Client(daemon, "live/c") as client:
            self.assertEqual(client.ask("DESCRIBE").status, 503)
            self.assertEqual(client.ask("ANNOUNCE", body=rtsp.SDP).status, 503)
        with Publisher(daemon) as raw:
            self.assertEqual(harness.read_to_end(raw.peer), b"")
        daemon.wait_log("connection refused", proto="flv", reason="too many streams")
        self.check_refused(daemon, max_streams=5)
        self.publish(daemon, "live/b")
        waiting.wait_tags(10)
        self.enter(Player(daemon, "live/a")).wait_tags(10)
        first.finish()
        self.stack.close()
        harness.wait_until(lambda: not daemon.api()["streams"], "the streams' end")
        self.publish(daemon, "live/c").finish()

    def test_players(self):
        daemon = self.start("--max-players", "3")
        self.publish(daemon, "live/a")
        self.publish(daemon, "live/b")
        players = [self.enter(Player(daemon, "live/a")) for _ in range(2)]
        self.enter(rtsp.Client(daemon)).play((0,))
        daemon.wait_player("live/a", 3)
        self.assertEqual(daemon.request("GET", "/live/a.flv")[0], 503)
        self.assertEqual(harness.status_of(harness.exchange(daemon, UPGRADE % b"live/a")), 503)
        with rtsp.Client(daemon) as client:
            self.assertEqual(client.ask("DESCRIBE").status, 453)
        self.check_refused(daemon, max_players=3)
        daemon.wait_log("request refused", reason="too many players of this stream")
        # Of another stream there may be as many; and one that leaves makes room.
        self.enter(Player(daemon, "live/b")).wait_tags(10)
        players[0].close()
        harness.wait_until(lambda: daemon.stream("live/a")["subscribers"] == 2, "one to leave")
        self.enter(Player(daemon, "live/a")).wait_tags(10)
        for player in players[1:]:
            player.wait_tags(10)
        self.stack.close()

    def test_no_limits(self):
        """Without limits nothing is refused."""
        daemon = self.start()
        for number in range(20):
            self.enter(Player(daemon, "live/a"))
            self.enter(Player(daemon, "live/%d" % number))
        daemon.wait_player("live/a", 20)
        self.check_refused(daemon)
        self.stack.close()


class ControlGroupTest(unittest.TestCase):
    MIB = 1 << 20

    def setUp(self):
        harness.need_namespace(self, "mount")

    def shown(self, cpu, memory, *options):
        """What --print-config has of workers and memory where control groups of both versions have these limits."""
        script = ("mount -t tmpfs tmpfs /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir cpu memory && "
                  "echo %d 100000 > cpu.max && echo %d > memory.max && echo %d > cpu/cpu.cfs_quota_us && "
                  "echo 100000 > cpu/cpu.cfs_period_us && echo %d > memory/memory.limit_in_bytes && exec \"$@\"" %
                  (cpu, memory, cpu, memory))
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", harness.SLUICED, *options,
                               "--print-config"], capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        shown = dict(line.partition(";")[0].split(" = ") for line in done.stdout.decode().splitlines())
        return shown["workers"], shown["memory"].strip('"')

    def test_defaults(self):
        """Workers and memory are by default no more than the control groups allow; what is given holds."""
        for options, workers, memory in (((), "1", "48M"), (("--workers", "2", "--memory", "128M"), "2", "128M")):
            self.assertEqual(self.shown(50000, 96 * self.MIB, *options), (workers, memory))

    def test_share(self):
        """A quarter of the limit, at least 256M, at most half of it; of several workers at least 64M each."""
        for limit, workers, memory in ((1024, 1, "256M"), (1027, 1, "256M"), (1028, 1, "257M"), (512, 1, "256M"), (511, 1, "255M"),
                                       (1024, 5, "320M"), (1280, 5, "320M"), (1284, 5, "321M"), (639, 5, "319M")):
            with self.subTest(limit=limit, workers=workers):
                self.assertEqual(self.shown(50000, limit * self.MIB, "--workers", str(workers)), (str(workers), memory))

    def test_machine(self):
        """Without a limit it is a quarter of the machine's memory; the log has it."""
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // self.MIB
        expected = min(max(256, machine // 4), machine // 2, 64 << 10)
        shown = self.shown(50000, 1 << 62)[1]
        self.assertIn(shown, ("%dM" % expected, "%gG" % (expected / 1024)))
        with Daemon("--workers", "1") as daemon:
            made, = daemon.log("loop created")
            memory = int(made.fields["memory"])
            self.assertLessEqual(memory, expected * self.MIB)
            self.assertGreaterEqual(memory, 4 * self.MIB)
        with Daemon("--workers", "1", "--memory", "32M") as daemon:
            made, = daemon.log("loop created")
            self.assertEqual(int(made.fields["memory"]), 32 * self.MIB)


class NetworkTest(unittest.TestCase):
    """IPv6 networks of 64 bits are one host for bans and for who resumes, as for limits: with addresses of our own."""

    INSIDE = "SLUICE_TEST_INSIDE"

    def test_networks(self):
        """Within a network namespace that has these addresses."""
        harness.need_namespace(self, "net")
        inside = NetworkInsideTest
        script = "ip link set lo up && %s && exec \"$@\"" % " && ".join(
            "ip -6 addr add %s/128 dev lo nodad" % address for address in (
                inside.ONE, inside.SAME, inside.OTHER, inside.DAEMON))
        done = subprocess.run(["unshare", "--net", "sh", "-c", script, "sh", sys.executable, os.path.abspath(__file__),
                               "NetworkInsideTest"], env={**os.environ, self.INSIDE: "1"}, capture_output=True,
                              timeout=harness.PATIENCE * 3, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn(b"Ran 2 tests", done.stderr)


class NetworkInsideTest(unittest.TestCase):
    """Run by NetworkTest, by name: see load_tests()."""

    ONE, SAME, OTHER, DAEMON = "2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "2001:db8:0:2::1"

    def publish(self, daemon, source, data, name="live/a"):
        """The publisher from that address, and the status where it is answered at once."""
        peer = socket.create_connection(daemon.address("http"), timeout=harness.PATIENCE, source_address=(source, 0))
        self.addCleanup(peer.close)
        peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (
            name.encode(), len(data), data))
        return peer

    def test_bans(self):
        data = flv.stream(40)[0]
        with Daemon("--allow-remote", listen=("--http", "[%s]:0" % self.DAEMON)) as daemon:
            self.publish(daemon, self.ONE, data)
            stream = daemon.wait_stream("live/a")
            status, _, _ = daemon.admin("DELETE", "/api/v1/publishers/%d?ban=3600" % stream["publisher"]["id"])
            self.assertEqual(status, 204)
            self.assertEqual(harness.read_head(self.publish(daemon, self.SAME, data))[0], 403)
            other = self.publish(daemon, self.OTHER, data)
            daemon.wait_stream("live/a", lambda stream: self.OTHER in (stream["publisher"] or {}).get("address", ""),
                               "another network's")
            other.close()

    def test_resume(self):
        data = flv.stream(40)[0]
        with Daemon("--allow-remote", "--same-name", "resume", "--resume", "600", "--wait", "0",
                    listen=("--http", "[%s]:0" % self.DAEMON)) as daemon:
            self.publish(daemon, self.ONE, data).close()
            daemon.wait_log("publisher ended")
            self.assertEqual(harness.read_head(self.publish(daemon, self.OTHER, data))[0], 409)
            self.publish(daemon, self.SAME, data)
            daemon.wait_stream("live/a", lambda stream: self.SAME in (stream["publisher"] or {}).get("address", ""),
                               "the same network's")


def load_tests(loader, tests, pattern):
    """All but those that NetworkTest runs in a network namespace."""
    del tests, pattern
    classes = [case for case in globals().values()
               if isinstance(case, type) and issubclass(case, unittest.TestCase) and case is not NetworkInsideTest]
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, classes))


if __name__ == "__main__":
    harness.main()
