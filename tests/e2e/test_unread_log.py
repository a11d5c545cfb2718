"""The log when nobody reads standard error: streams, the API and the end of the process do not wait for it."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import unittest

import harness
from harness import Daemon, Steady

REFUSED = 6000  # Some 140 bytes each: more than the pipe and the queue of 256 KiB hold.
PIPELINED = 100


def flood(daemon, count=REFUSED):
    """So many requests that are refused, of one connection: each is a line of the log."""
    request = b"PLAY rtsp://test/live/x RTSP/1.0\r\nCSeq: 1\r\n\r\n"
    with daemon.connect("rtsp") as peer:
        for _ in range(count // PIPELINED):
            peer.sendall(request * PIPELINED)
            answers = b""
            while answers.count(b"\r\n\r\n") < PIPELINED:
                more = peer.recv(65536)
                if not more:
                    raise AssertionError("the connection ended: %r" % answers[-200:])
                answers += more
            if answers.count(b"RTSP/1.0 454 ") != PIPELINED:
                raise AssertionError("not refused: %r" % answers[:200])


class UnreadTest(unittest.TestCase):
    LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")

    def start(self):
        daemon = Daemon("--log-rate", "0", listen=self.LISTEN)
        self.addCleanup(daemon.kill)
        fcntl.fcntl(daemon.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        return daemon

    def test_streams_go_on(self):
        """Lines that there is no room for are counted, and reported when there is."""
        daemon = self.start()
        with Steady(daemon) as steady:
            with daemon.unread_log():
                flood(daemon)
                steady.go_on()
                lost = daemon.api()["log_lines_lost"]
                self.assertGreater(lost, 0)
                metrics = daemon.admin("GET", "/metrics")[2].decode()
                self.assertRegex(metrics, r"\nsluice_log_lines_lost_total %d\n" % lost)
            self.assertEqual(daemon.wait_log("log lines lost").level, "warning")
            steady.go_on()
        lost = daemon.api()["log_lines_lost"]
        daemon.stop()
        reported = sum(int(line.fields["lines"]) for line in daemon.log("log lines lost"))
        self.assertEqual(reported, lost)
        # No line is lost without a word. Other lines than those of the flood may be among the lost ones.
        refused = len(daemon.log("request refused"))
        self.assertGreaterEqual(refused + reported, REFUSED)
        self.assertGreater(refused, 1000)
        self.assertLess(refused, REFUSED)
        self.assertEqual(daemon.log()[-1].message, "stopped")

    def test_the_end_does_not_wait(self):
        daemon = self.start()
        with daemon.unread_log():
            flood(daemon)
            daemon.process.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.process.wait(harness.PATIENCE), 0)

    def test_a_start_does_not_wait(self):
        """Standard error has no room from the beginning."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "admin")
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"\n" * 65536)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"\n")
        os.set_blocking(writing, True)
        with subprocess.Popen([harness.SLUICED, "--http", "127.0.0.1:0", "--admin", "unix:" + path], stderr=writing,
                              stdin=subprocess.DEVNULL) as process:
            os.close(writing)

            def health():
                with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(path)
                    peer.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    return harness.read_to_end(peer)
                return b""
            try:
                harness.wait_until(lambda: b'"status":"ok"' in health(), "the API")
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(harness.PATIENCE), 0)
            finally:
                process.kill()


if __name__ == "__main__":
    harness.main()
