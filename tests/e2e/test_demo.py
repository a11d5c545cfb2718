"""What a user sees who runs it by hand: the status line, Ctrl-C, the names of streams, IPv6."""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0")


class Terminal:
    """A daemon that runs on a terminal of its own."""

    def __init__(self, *options):
        self.seen = b""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen([harness.SLUICED, *LISTEN, *options], stdin=subprocess.DEVNULL,
                                        stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def read(self):
        """Reads what is there; False when the terminal has nobody on it any more."""
        while select.select([self._master], [], [], 0.05)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.seen += data
        return True

    def wait(self, pattern):
        """Waits until the pattern has been seen; the last match."""
        def look():
            self.read()
            matches = list(re.finditer(pattern, self.seen))
            return matches[-1] if matches else None
        return harness.wait_until(look, lambda: "%r on the terminal:\n%r" % (pattern, self.seen[-2000:]))

    def connect(self, protocol):
        port = self.wait(rb"listening proto=%s address=127.0.0.1:(\d+)" % protocol.encode()).group(1)
        peer = socket.create_connection(("127.0.0.1", int(port)))
        peer.settimeout(harness.PATIENCE)
        return peer


class StatusTest(unittest.TestCase):
    STATUS = (rb"streams (\d+) \| (\d+\.\d+) Mbit/s \| (\d+) frames/s \| blocks held (\d+) / (\d+)"
              rb" \| subscribers (\d+)")

    @staticmethod
    def publish(peer):
        """Publishes until the connection is closed."""
        peer.sendall(b"".join(tag.pack() for tag in flv.first_tags()))
        for tag in flv.frames():
            peer.sendall(tag.pack())
            time.sleep(0.005)

    def test_status_line(self):
        with Terminal("--status") as terminal:
            terminal.wait(rb"ready")
            first = terminal.wait(self.STATUS)
            self.assertEqual([int(first.group(at)) for at in (1, 3, 6)], [0, 0, 0])
            with terminal.connect("http") as player, terminal.connect("flv") as publisher:
                publisher.sendall(flv.header())
                name = b"live/flv-%d" % publisher.getsockname()[1]
                player.sendall(b"GET /%s.flv HTTP/1.1\r\nHost: test\r\n\r\n" % name)
                terminal.wait(rb"player started")
                harness.in_thread(self, lambda: self.publish(publisher))
                status = self.wait_lively(terminal)
            self.assertGreater(float(status.group(2)), 0)
            self.assertGreater(int(status.group(4)), 0)
            self.assertGreater(int(status.group(5)), int(status.group(4)))
            # The line is drawn again in its place, and a line of the log does not run into it.
            self.assertIn(b"\r\x1b[K", terminal.seen)
            for line in re.findall(rb"[^\r\n]*player started[^\r\n]*", terminal.seen):
                self.assertRegex(line, rb"\A(\x1b\[K)?\d{4}-\d\d-\d\dT")
            self.check_end(terminal)

    def wait_lively(self, terminal):
        """Waits for a status line that shows the stream with its frames and its player."""
        def look():
            terminal.read()
            for match in re.finditer(self.STATUS, terminal.seen):
                if int(match.group(1)) == 1 and int(match.group(3)) > 0 and int(match.group(6)) == 1 \
                        and float(match.group(2)) > 0:
                    return match
            return None
        return harness.wait_until(look, lambda: "a status line with the stream: %r" % terminal.seen[-2000:])

    def check_end(self, terminal):
        terminal.process.send_signal(signal.SIGINT)
        harness.wait_until(lambda: not terminal.read() or terminal.process.poll() is not None, "the end")
        self.assertEqual(terminal.process.wait(harness.PATIENCE), 0)
        terminal.read()
        self.assertTrue(terminal.seen.endswith(b"\n"), terminal.seen[-200:])

    def test_not_on_a_terminal(self):
        """Into a file or a pipe, the status is plain lines."""
        with Daemon("--status") as daemon:
            lines = harness.wait_until(lambda: [line for line in daemon.log() if "Mbit/s" in line.text], "a status")
            self.assertRegex(lines[0].text.encode(), rb"\A" + self.STATUS + rb"\Z")


class SignalTest(unittest.TestCase):
    def end_while_running(self, number):
        data, tags = flv.stream(100)
        with Daemon() as daemon:
            with Publisher(daemon, "live/a", "http") as by_http, Publisher(daemon) as raw, \
                    Player(daemon, "live/a") as chunked, Player(daemon, "live/a", "1.0") as plain, \
                    Player(daemon, "live/none") as waiting, daemon.connect() as idle:
                daemon.wait_player("live/a", 2)
                daemon.wait_player("live/none")
                by_http.send(data)
                raw.send(data[:5000])
                for player in (chunked, plain):
                    player.wait_tags(len(tags))
                daemon.wait_stream(raw.name)
                daemon.stop(number)
                # The players' bodies end as they should, the publisher by HTTP is told.
                for player in (chunked, plain):
                    player.wait_end()
                    self.assertIsNone(player.error)
                    harness.check_same(player.tags, tags)
                    self.assertEqual(player.rest, 0)
                waiting.wait_end()
                self.assertEqual(waiting.status, 503)
                self.assertEqual(harness.read_head(by_http.peer)[0], 503)
                self.assertEqual(harness.read_to_end(raw.peer), b"")
                self.assertEqual(harness.read_to_end(idle), b"")
        return daemon

    def test_interrupt(self):
        daemon = self.end_while_running(signal.SIGINT)
        self.assertEqual(len(daemon.log("stopping", signal="SIGINT")), 1)
        self.assertEqual(daemon.log()[-1].message, "stopped")

    def test_terminate(self):
        daemon = self.end_while_running(signal.SIGTERM)
        self.assertEqual(len(daemon.log("stopping", signal="SIGTERM")), 1)

    def test_stalled_player_does_not_hold_the_end_up(self):
        with Daemon() as daemon:
            with Player(daemon, "live/a", receive_buffer=4096, reading=False), \
                    Publisher(daemon, "live/a", "http") as publisher:
                data, _ = flv.stream(1000, size=20000)
                publisher.send(data)
                daemon.wait_stream("live/a", lambda stream: sum(stream["frames"].values()) == 1000, "1000 frames")
                daemon.stop(signal.SIGINT)

    def test_hang_up_is_ignored(self):
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                daemon.process.send_signal(signal.SIGHUP)
                steady.go_on()
            daemon.blocks_settled()

    def test_closed_pipe(self):
        """Nobody reads the log any more: the streams go on."""
        with Daemon(listen=("--http", harness.own_host() + ":0")) as daemon:
            host, port = daemon.address()
        process = subprocess.Popen([harness.SLUICED, "--http", "%s:%d" % (host, port), "--flv", "127.0.0.1:0"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            for line in process.stderr:
                if b" ready" in line:
                    break
            process.stderr.close()
            for _ in range(3):
                with socket.create_connection((host, port)) as peer:
                    peer.sendall(b"GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n")
                    self.assertEqual(harness.read_head(peer)[0], 404)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(harness.PATIENCE), 0)
        finally:
            process.kill()
            process.wait()


class NamesTest(unittest.TestCase):
    def check_relay(self, daemon, name, publisher, at=0):
        data, tags = flv.stream(50)
        with publisher, Player(daemon, name, at=at) as player:
            daemon.wait_player(name)
            publisher.send(data)
            player.wait_tags(len(tags))
            harness.check_same(player.tags, tags)
            stream = daemon.stream(name)
            self.assertEqual((stream["state"], stream["subscribers"]), ("live", 1))
            self.assertEqual(stream["publisher"]["address"], harness.address_text(publisher.peer))
            line = daemon.wait_log("publisher started", stream=name)
            self.assertEqual(line.fields["peer"], harness.address_text(publisher.peer))
            line = daemon.wait_log("player started", stream=name)
            self.assertEqual(line.fields["peer"], harness.address_text(player.peer))

    def test_unnamed_publisher(self):
        with Daemon() as daemon:
            publisher = Publisher(daemon)
            self.check_relay(daemon, "live/flv-%d" % publisher.peer.getsockname()[1], publisher)
            daemon.blocks_settled()

    def test_named_listeners(self):
        listen = ("--flv", "127.0.0.1:0=live/first", "--flv", "127.0.0.1:0=a/b/c/Second_2-x.y", "--flv", "127.0.0.1:0",
                  "--http", "127.0.0.1:0")
        with Daemon(listen=listen) as daemon:
            for at, name in enumerate(("live/first", "a/b/c/Second_2-x.y")):
                self.check_relay(daemon, name, Publisher(daemon, name, at=at))
            publisher = Publisher(daemon, at=2)
            self.check_relay(daemon, publisher.name, publisher)
            daemon.blocks_settled()

    def test_several_http_listeners(self):
        with Daemon(listen=("--http", "127.0.0.1:0", "--http", "127.0.0.1:0")) as daemon:
            self.check_relay(daemon, "live/a", Publisher(daemon, "live/a", "http", at=1), at=0)
            self.check_relay(daemon, "live/a", Publisher(daemon, "live/a", "http", at=0), at=1)
            daemon.blocks_settled()

    @unittest.skipUnless(socket.has_ipv6, "no IPv6")
    def test_ipv6(self):
        listen = ("--flv", "[::1]:0", "--flv", "[::1]:0=live/six", "--http", "[::1]:0", "--http", "127.0.0.1:0")
        with Daemon(listen=listen) as daemon:
            self.assertEqual([host for protocol, host, _ in daemon.listening if protocol != "admin"], ["::1", "::1", "::1", "127.0.0.1"])
            publisher = Publisher(daemon)
            self.check_relay(daemon, publisher.name, publisher)
            self.check_relay(daemon, "live/six", Publisher(daemon, "live/six", at=1), at=1)
            self.check_relay(daemon, "live/http", Publisher(daemon, "live/http", "http"), at=1)
            daemon.blocks_settled()

    @unittest.skipUnless(socket.has_ipv6, "no IPv6")
    def test_ffmpeg_over_ipv6(self):
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        media = harness.make_media(ffmpeg, " ".join([harness.VIDEO, "-t 4", harness.H264]))
        with Daemon(listen=("--flv", "[::1]:0=live/six", "--http", "[::1]:0")) as daemon:
            with Player(daemon, "live/six") as player:
                daemon.wait_player("live/six")
                publisher = harness.Ffmpeg(ffmpeg, "-i", media, "-c", "copy", "-f", "flv",
                                           "tcp://[::1]:%d" % daemon.address("flv")[1])
                self.addCleanup(publisher.kill)
                publisher.wait()
                player.wait(lambda player: len(player.frames) == 100, "100 frames")
            daemon.blocks_settled()


if __name__ == "__main__":
    harness.main()
