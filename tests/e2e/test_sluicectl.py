"""sluicectl: what it shows, what it does, and how it says that it cannot."""

import contextlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import tempfile
import unittest

import flv
import harness
import tool
from harness import Daemon, Player, Publisher, Steady

SLUICECTL = os.environ.get("SLUICECTL") or os.path.join(harness.BUILD_DIR, "sluicectl")


def run(daemon, *arguments, environment=None):
    """(status, standard output, standard error)"""
    where = ("--admin", "%s:%d" % daemon.address("admin")) if daemon else ()
    done = subprocess.run([SLUICECTL, *where, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          timeout=harness.PATIENCE, env=dict(os.environ, **(environment or {})))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class SluicectlTest(unittest.TestCase):
    def check(self, daemon, *arguments, **options):
        """What it prints; asked again while a worker has not answered in time, which status tells by how it ends."""
        patience = harness.Patience()
        while True:
            status, out, err = run(daemon, *arguments, **options)
            if status == 0 or not patience.left() or err and "workers" not in err:
                break
        self.assertEqual((status, err), (0, ""), arguments)
        return out

    def row(self, text, word):
        return next(line.split() for line in text.splitlines() if word in line.split())

    def test_lists(self):
        with Daemon("--workers", "3", "--pull", "rtsp://127.0.0.1:1/none=live/pulled", "--forward",
                    "live/flv-*=http://127.0.0.1:1/none") as daemon:
            with Steady(daemon) as steady, contextlib.ExitStack() as stack:
                player, = daemon.api()["players"]
                text = self.check(daemon)
                self.assertIn("streams   1 live, 0 waiting", text)
                self.assertIn("players   1, 0 slow", text)
                self.assertEqual(self.row(self.check(daemon, "streams"), steady.name)[1:4],
                                 ["live", "flv", steady.publisher.address])
                row = self.row(self.check(daemon, "players"), steady.name)
                self.assertEqual(row[:5], [str(player["id"]), steady.name, player["address"], "http", "playing"])
                self.assertEqual(len(self.check(daemon, "players", "--slow").splitlines()), 1)
                for at in range(8):
                    stack.enter_context(Player(daemon, "live/w%d" % at))
                    daemon.wait_player("live/w%d" % at)
                for command in ("players", "streams"):
                    head, *rows = map(str.split, self.check(daemon, command).splitlines())
                    self.assertEqual(head[-1], "WORKER")
                    self.assertEqual(sorted(int(row[-1]) for row in rows),
                                     sorted(one["worker"] for one in daemon.api()[command]))
                self.assertIn(steady.publisher.address, self.check(daemon, "publishers"))
                self.assertIn("rtsp://127.0.0.1:1", self.check(daemon, "pulls"))
                self.assertEqual(self.row(self.check(daemon, "forwards"), steady.name)[1:3], ["http", "http://127.0.0.1:1"])
                text = self.check(daemon, "stream", steady.name)
                self.assertEqual(self.row(text, steady.name)[1], "live")
                self.assertIn(player["address"], text)
                for command in ("status", "streams", "players", "publishers", "pulls", "forwards", "bans", "certificates", "config", "version",
                                "workers"):
                    self.assertIsInstance(json.loads(self.check(daemon, "--json", command)), dict)
                self.assertEqual(json.loads(self.check(daemon, "stream", "--json", steady.name))["name"], steady.name)
                steady.go_on()

    def test_kick(self):
        data, tags = flv.stream(40)
        with Daemon() as daemon:
            with Steady(daemon) as steady, Player(daemon, steady.name) as player:
                daemon.wait_player(steady.name, 2)
                one, = [one for one in daemon.api()["players"] if one["address"] == player.address]
                self.assertEqual(self.check(daemon, "kick", "player", str(one["id"])), "")
                player.wait_end()
                steady.go_on()
            for what in ("publisher", "stream"):
                with Publisher(daemon, "live/" + what, "http") as publisher:
                    publisher.send(data)
                    daemon.wait_stream("live/" + what)
                    name = "live/stream"
                    if what == "publisher":
                        name = str(daemon.stream("live/publisher")["publisher"]["id"])
                    self.check(daemon, "kick", what, name, "--ban", "3600", "--to", "rtmp://127.0.0.1:1/a?b=c&d")
                    self.assertEqual(harness.read_head(publisher.peer)[0], 403)
                with Publisher(daemon, "live/" + what, "http") as again:
                    self.assertEqual(harness.read_head(again.peer)[0], 403)
                self.assertEqual(self.row(self.check(daemon, "bans"), "live/" + what)[1:4], ["127.0.0.1", "node", "kicked"])
                self.check(daemon, "unban", "live/" + what)
                self.assertNotIn("live/" + what, self.check(daemon, "bans"))
            daemon.blocks_settled()

    def test_reload(self):
        """What has changed is said; and of a file that is wrong, where."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "sluiced.conf")
            listen = 'http = "127.0.0.1:0";\n'
            with open(config, "w", encoding="ascii") as file:
                file.write(listen)
            with Daemon("--config", config, listen=()) as daemon:
                self.assertEqual(run(daemon, "reload"), (0, "", ""))
                with open(config, "w", encoding="ascii") as file:
                    file.write(listen + "idle = 20;\n")
                self.assertEqual(run(daemon, "reload"), (0, "idle: 15 -> 20 (now)\n", ""))
                with open(config, "w", encoding="ascii") as file:
                    file.write(listen + "idle = -1;\n")
                status, out, err = run(daemon, "reload")
                self.assertEqual((status, out), (1, ""))
                self.assertIn(config + ":2: idle: expected", err)

    def test_refusals(self):
        with Daemon() as daemon:
            for arguments in (("kick", "player", "1"), ("kick", "publisher", "x"), ("kick", "stream", "live/none"),
                              ("stream", "live/none"), ("stream", "../../x y?z"), ("kick", "player", "1", "--ban", "1"), ("kick", "player", "1", "--to", "rtmp://")):
                status, out, err = run(daemon, *arguments)
                self.assertEqual((status, out), (1, ""), arguments)
                self.assertRegex(err, r"\Asluicectl: 4\d\d: [^\n]+\n\Z")
            # Without a file there is nothing to be refused.
            self.assertEqual(run(daemon, "reload"), (0, "", ""))
        for arguments in ((), ("top",), ("reload",), ("kick", "player", "1")):
            status, out, err = run(None, "--admin", "127.0.0.1:1", *arguments)
            self.assertEqual(status, 3, arguments)
            self.assertRegex(err, r"\Asluicectl: 127.0.0.1:1: [^\n]+\n\Z")
        self.assertEqual(run(None, "--admin", "unix:/nonexistent/socket")[0], 3)

    def test_command_line(self):
        for arguments in (("nonsense",), ("--nonsense",), ("status", "x"), ("kick",), ("kick", "all", "1"), ("stream",),
                          ("--ban", "x"), ("--to", "http://127.0.0.1/"), ("--interval", "0"), ("--count", "-1"), ("--admin",),
                          ("--token-file", "/nonexistent")):
            status, out, err = run(None, *arguments)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertRegex(err, r"\Asluicectl: [^\n]+\n\Z")
        status, out, err = run(None, "--help")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("Usage: sluicectl", out)
        self.assertRegex(run(None, "--version")[1], r"\Asluicectl \d+\.\d+\.\d+\n\Z")

    def test_nobody_can_read_it(self):
        with Daemon() as daemon:
            for arguments in (("--help",), ("--version",), ("status",), ("--json", "streams")):
                where = ("--admin", "%s:%d" % daemon.address("admin"))
                with open("/dev/full", "wb") as full:
                    done = subprocess.run([SLUICECTL, *where, *arguments], stdin=subprocess.DEVNULL, stdout=full,
                                          stderr=subprocess.PIPE, check=False, timeout=harness.PATIENCE)
                self.assertEqual(done.returncode, 1, arguments)
                self.assertRegex(done.stderr.decode(), r"\Asluicectl: [^\n]+: No space left on device\n\Z")

    def test_token_and_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            token, path = os.path.join(folder, "token"), os.path.join(folder, "admin")
            with open(token, "w", encoding="ascii", opener=lambda *where: os.open(*where, 0o600)) as file:
                file.write("0123456789abcdef\nmore\n")
            with Daemon("--admin", "127.0.0.1:0", "--admin", "unix:" + path, "--admin-token-file", token) as daemon:
                status, _, err = run(daemon, "version")
                self.assertEqual(status, 1)
                self.assertIn("401", err)
                status, _, err = run(daemon, "top", "--count", "1")
                self.assertEqual(status, 1)
                self.assertRegex(err, r"\Asluicectl: 401: [^\n]+\n\Z")
                self.check(daemon, "version", "--token-file", token)
                self.check(None, "version", environment={"SLUICED_ADMIN": "unix:" + path})

    def test_something_else_answers(self):
        """What is no sluiced is said to be none."""
        with Daemon() as daemon:
            status, _, err = run(None, "--admin", "%s:%d" % daemon.address("http"), "version")
            self.assertEqual(status, 1)
            self.assertIn("404", err)
        with tool.hostile_server(b'HTTP/1.0 200 x\r\n\r\n{"changes": [1, null, "x"], "uptime_seconds": -1e300}') as port:
            where = ("--admin", "127.0.0.1:%d" % port)
            self.assertEqual(run(None, *where, "reload"), (0, "-\n-\nx\n", ""))
            self.assertEqual(run(None, *where, "status")[1].splitlines()[0], "sluiced -, up 0 s")

    def test_stopped_and_continued(self):
        """As by Ctrl-Z and fg, while an answer is waited for."""
        def state():
            with open("/proc/%d/stat" % process.pid, encoding="ascii") as file:
                return file.read().rpartition(") ")[2][0]

        with socket.create_server(("127.0.0.1", 0)) as server:
            process = subprocess.Popen([SLUICECTL, "--admin", "127.0.0.1:%d" % server.getsockname()[1], "version"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            server.settimeout(harness.PATIENCE)
            with server.accept()[0] as peer:
                peer.settimeout(harness.PATIENCE)
                peer.recv(65536)
                harness.wait_until(lambda: state() == "S", "it to wait")
                process.send_signal(signal.SIGSTOP)
                harness.wait_until(lambda: state() == "T", "it to stop")
                process.send_signal(signal.SIGCONT)
                harness.wait_until(lambda: state() in "SZ", "it to go on")
                peer.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"version": "1.2.3"}')
            out, _ = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 0, out)
        self.assertEqual(json.loads(out), {"version": "1.2.3"})

    def test_a_worker_hangs(self):
        """That is what status is asked for: by health checks, which look at nothing but how it ends."""
        for answers, expected in (("true", 0), ("false", 1)):
            document = b'{"workers": [{"answers": true}, {"answers": %s}]}' % answers.encode()
            with tool.hostile_server(b"HTTP/1.0 200 x\r\n\r\n" + document) as port:
                for more in ((), ("status",), ("--json",)):
                    status, out, err = run(None, "--admin", "127.0.0.1:%d" % port, *more)
                    self.assertEqual((status, err), (expected, ""), more)
                    self.assertIn("workers", out)

    def test_a_list_lacks_something(self):
        for partial, said in ((b"true", "sluicectl: a worker has not answered: what it has is missing\n"), (b"false", "")):
            document = b'{"partial": %s, "pulls": []}' % partial
            with tool.hostile_server(b"HTTP/1.0 200 x\r\n\r\n" + document) as port:
                status, _, err = run(None, "--admin", "127.0.0.1:%d" % port, "pulls")
                self.assertEqual((status, err), (0, said))

    def test_hostile_names(self):
        """What publishers and cameras say of themselves does not reach the operator's terminal as it is."""
        name = tool.HOSTILE.decode(errors="replace")
        shown = tool.HOSTILE_SHOWN.replace(r"\x9b1m\xff", "\ufffd1m\ufffd")
        for status, document in ((200, {"pulls": [{"stream": name, "from": name, "state": name, "reason": name}]}),
                                 (409, {"detail": "one\n" + name + "\n"})):
            answer = json.dumps(document, ensure_ascii=False)
            with tool.hostile_server(b"HTTP/1.0 %d x\r\n\r\n" % status + answer.encode()) as port:
                where = ("--admin", "127.0.0.1:%d" % port, "pulls")
                _, out, err = run(None, *where)
                self.assertIn("one\n" + shown + "\n" if status == 409 else shown + "\n", out + err)
                self.assertRegex(out + err, r"\A[ -~\n\ufffd]*\Z")
                status, out, _ = run(None, *where, "--json")
                self.assertRegex(out, r"\A[ -~\n\ufffd]*\Z")
                self.assertEqual(json.loads(out or "null"), document if status == 0 else None)

    def test_top(self):
        """On a terminal: the streams and players are there, it is redrawn, and q leaves the screen as it was."""
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                master, slave = pty.openpty()
                process = subprocess.Popen([SLUICECTL, "--admin", "%s:%d" % daemon.address("admin"), "--interval",
                                            "0.2", "top"], stdin=slave, stdout=slave, stderr=slave, close_fds=True)
                os.close(slave)
                try:
                    text = self.read_until(master, lambda text: text.count(b"\033[H") >= 3)
                    self.assertTrue(text.startswith(b"\033[?1049h"))
                    self.assertIn(steady.name.encode(), text)
                    self.assertIn(b"playing", text)
                    os.write(master, b"q")
                    text = self.read_until(master, lambda text: b"\033[?1049l" in text)
                    self.assertEqual(process.wait(harness.PATIENCE), 0)
                finally:
                    process.kill()
                    process.wait()
                    os.close(master)
                steady.go_on()

    def test_interrupted_while_it_asks(self):
        """To leave is no error, at whatever time."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(harness.PATIENCE)
            process = subprocess.Popen([SLUICECTL, "--admin", "127.0.0.1:%d" % server.getsockname()[1], "top"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            with server.accept()[0] as peer:
                peer.settimeout(harness.PATIENCE)
                self.assertTrue(peer.recv(65536))
                process.send_signal(signal.SIGINT)
                # Where it does not wait yet, it finds the end.
                peer.shutdown(socket.SHUT_WR)
                _, err = process.communicate(timeout=harness.PATIENCE)
            self.assertEqual((process.returncode, err), (0, b""))

    def read_until(self, master, condition):
        text, patience = b"", harness.Patience()
        while not condition(text):
            ready = select.select([master], [], [], patience.left())[0]
            self.assertTrue(ready, text[-2000:])
            with contextlib.suppress(OSError):
                text += os.read(master, 65536)
        return text


if __name__ == "__main__":
    harness.main()
