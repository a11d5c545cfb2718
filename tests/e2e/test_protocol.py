"""A protocol that the daemon's sources do not know: tests/protocol/line.c, of which its table has a row. What the daemon does
for its own protocols it does for this one."""

import os
import sys

import flv
import harness
from harness import Player, Publisher
import test_activation
from test_upgrade import Upgraded

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--line", "127.0.0.1:0=live/a")


def say(peer, text, count=1):
    """Sends lines, and reads that many answers, or what comes before the end."""
    peer.sendall(text)
    data = b""
    while data.count(b"\n") < count:
        more = peer.recv(65536)
        if not more:
            break
        data += more
    return data.decode().splitlines()


class ProtocolTest(harness.SettledTest):
    def start(self, *options, listen=LISTEN):
        return super().start("--workers", "4", *options, listen=listen)

    def connect(self, daemon, **more):
        return self.stack.enter_context(daemon.connect("line", **more))

    def worker(self, daemon, at=0):
        return int(say(self.connect(daemon, at=at), b"x\n")[0].split()[0])

    def test_option(self):
        """The listener option is one like the others: help, presets, checks, values, suggestions."""
        _, text, _ = harness.run_daemon("--help")
        self.assertRegex(text, r"--line ADDR:PORT\[=STREAM\]\s+Send lines back")
        _, text, _ = harness.run_daemon("--print-config", "--line", "127.0.0.1:7000=live/a", "--line", "[::1]:7000")
        self.assertIn('\nline = ["127.0.0.1:7000=live/a", "[::1]:7000"]; # the command line\n', text)
        self.assertIn("\nhttp = []; # default\n", text)
        for value, expected in (("localhost", "expected ADDR:PORT[=STREAM]"), ("127.0.0.1:1=/", "a stream name")):
            status, _, text = harness.run_daemon("--check", "--line", value)
            self.assertEqual(status, 2)
            self.assertIn("--line: ", text)
            self.assertIn(expected, text)
        self.assertIn("did you mean --line", harness.run_daemon("--lime", "127.0.0.1:0")[2])
        self.assertIn("--line: ", harness.run_daemon("--check", "--line", "0.0.0.0:0")[2])

    def test_log_and_api(self):
        daemon = self.start()
        address = "%s:%d" % daemon.address("line")
        self.assertEqual(daemon.log("listening", proto="line")[0].fields["address"], address)
        listener, = [one for one in daemon.api("/api/v1/config")["listeners"] if one["protocol"] == "line"]
        self.assertEqual((listener["address"], listener["stream"]), (address, "live/a"))
        self.assertEqual(daemon.api("/api/v1/config")["settings"]["line"], ["127.0.0.1:0=live/a"])

    def test_worker_of_the_stream(self):
        """Connections go to the worker of the stream that the option names: always the same, and not all to one."""
        listen = [word for i in range(7) for word in ("--line", "127.0.0.1:0=live/%d" % i)]
        daemon = self.start(listen=listen)
        workers = [self.worker(daemon, at) for at in range(7)]
        self.assertEqual(workers, [self.worker(daemon, at) for at in range(7)])
        self.assertGreater(len(set(workers)), 1)

    def test_migration(self):
        """A session that moves takes along what has been read: the lines behind the one that moved it."""
        peer = self.connect(self.start())
        me = harness.address_text(peer)
        lines = say(peer, b"begin\n" + b"".join(b"go %d\n%d\n" % (i, i) for i in (3, 1, 0, 2, 2)) + b"end\n", 7)
        self.assertEqual([line.split(" ", 1)[1] for line in lines], [me + " " + text for text in "begin 3 1 0 2 2 end".split()])
        self.assertEqual([line.split()[0] for line in lines[1:]], "3 1 0 2 2 2".split())

    def test_proxy(self):
        """A PROXY header comes first, and names the client; what is no header is rejected in the protocol's words."""
        daemon = self.start("--proxy-from", "127.0.0.1")
        lines = say(self.connect(daemon), b"PROXY TCP4 10.1.2.3 10.0.0.1 4000 443\r\nhello\n")
        self.assertEqual(lines[0].split(" ", 1)[1], "10.1.2.3:4000 hello")
        self.assertEqual(say(self.connect(daemon), b"hello\n"), ["400 missing or malformed PROXY header"])
        daemon.wait_log("connection refused", proto="line")

    def test_limits(self):
        daemon = self.start("--max-connections-per-address", "1")
        first = self.connect(daemon)
        self.assertEqual(len(say(first, b"x\n")), 1)
        self.assertEqual(harness.read_to_end(self.connect(daemon)), b"429 too many connections from this address\n")
        daemon.wait_log("connection refused", proto="line")
        self.assertEqual(daemon.api()["refused"]["max_connections_per_address"], 1)

    def test_upgrade(self):
        """The socket goes to the next process, under the protocol's name; a connection stays with the old one."""
        with Upgraded(listen=LISTEN) as upgraded:
            daemon = upgraded.daemon
            with daemon.connect("line") as early:
                self.assertEqual(say(early, b"x\n")[0].split()[-1], "x")
                upgraded.upgrade()
                with daemon.connect("line") as late:
                    self.assertEqual(len(say(late, b"1\n2\n", 2)), 2)
                self.assertEqual(say(early, b"y\n")[0].split()[-1], "y")
            daemon.wait_end()

    def test_socket_of_a_service_manager(self):
        """LISTEN_FDNAMES has the protocol's name; another name is refused with the list of names."""
        with test_activation.listening() as made:
            words = (sys.executable, "-c", test_activation.GIVE, "1", "line", str(made.fileno()))
            with harness.Daemon(listen=(), within=words, pass_fds=[made.fileno()]) as daemon:
                self.assertEqual(daemon.address("line"), made.getsockname())
            with self.assertRaisesRegex(harness.NotStarted, "flv, http, rtsp, line and admin"):
                words = [word if word != "line" else "lines" for word in words]
                harness.Daemon(listen=(), within=words, pass_fds=[made.fileno()])

    def test_others_are_served(self):
        daemon = self.start()
        data, tags = flv.stream(20)
        with Publisher(daemon) as publisher:
            publisher.send(data)
            daemon.wait_stream(publisher.name)
            with Player(daemon, publisher.name) as player:
                player.wait_frame(tags[-1])


if __name__ == "__main__":
    harness.SLUICED = os.environ.get("SLUICED_LINE") or os.path.join(harness.BUILD_DIR, "tests", "sluiced_line")
    harness.main()
