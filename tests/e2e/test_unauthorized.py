"""Connections that ask on and on and never publish or play end after a minute; those that are authorized stay."""

import base64
import concurrent.futures
import contextlib
import itertools
import os
import tempfile
import time
import unittest

import harness
import relay
import rtsp
from harness import Daemon

PAUSE = 2.0  # Between requests, far less than any idle timeout.
MOST = 180.0  # For a connection to be ended; the daemon's bound is 60 s.
LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")


class Holder:
    """One connection that repeats a request until it is ended."""

    def __init__(self, daemon, protocol, request):
        self.request = request
        self.peer = daemon.connect(protocol)

    def repeat(self):
        """Until the daemon ends it. The last answer."""
        deadline, answer = time.monotonic() + MOST, b""
        with contextlib.suppress(ConnectionError), self.peer:
            while time.monotonic() < deadline:
                self.peer.sendall(self.request)
                more = self.read_answer()
                if not more:
                    return answer
                answer = more
                time.sleep(PAUSE)
            raise AssertionError("%r is answered for ever: %r" % (self.request, answer))
        return answer

    def read_answer(self):
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = self.peer.recv(65536)
            if not more:
                return b""
            answer += more
        return answer


def rtsp_request(method, name="live/none", body=""):
    text = "%s rtsp://test/%s RTSP/1.0\r\nCSeq: 1\r\n" % (method, name)
    if body:
        text += "Content-Type: application/sdp\r\nContent-Length: %d\r\n" % len(body)
    return (text + "\r\n" + body).encode()


def http_request(method, path):
    return ("%s %s HTTP/1.1\r\nHost: test\r\n\r\n" % (method, path)).encode()


class UnauthorizedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def start(self, *options):
        folder = tempfile.mkdtemp(dir=self.folder)
        return self.stack.enter_context(Daemon("--record", "live/*=" + folder, "--wait", "1", *options, listen=LISTEN))

    def with_rules(self):
        path = os.path.join(self.folder, "users")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("one:geheim\n")
        return self.start("--rtsp-users", path, "--rule", "all open/* allow", "--rule", "all * user")

    def test_lifetime(self):
        """Each way to repeat a request; and beside them all those that stay, on connections that are older."""
        free, ruled = self.start(), self.with_rules()
        stay = [*self.stay_without_rules(free), *self.stay_with_rules(ruled)]
        holders = [Holder(*words) for words in itertools.chain.from_iterable((
            (daemon, "rtsp", rtsp_request("OPTIONS")),
            (daemon, "rtsp", rtsp_request("DESCRIBE", "open/none")),
            (daemon, "rtsp", rtsp_request("ANNOUNCE", "open/other", rtsp.SDP)),
            (daemon, "http", http_request("OPTIONS", "/live/none.flv")),
            (daemon, "http", http_request("DELETE", "/live/none.flv")),
            (daemon, "http", http_request("GET", "/recordings/open/none/2026-01-01T00-00-00.000Z.flv")),
        ) for daemon in (free, ruled))]
        with concurrent.futures.ThreadPoolExecutor(len(holders) + len(stay)) as pool:
            ends = [pool.submit(holder.repeat) for holder in holders]
            staying = [pool.submit(self.keep, ask, ends) for ask in stay]
            for holder, end in zip(holders, ends):
                with self.subTest(holder.request):
                    answer = end.result()
                    if answer.startswith(b"HTTP"):
                        # It is told so, rather than cut off.
                        self.assertIn(b"\r\nConnection: close\r\n", answer)
            for end in staying:
                self.assertGreater(end.result(), 0)

    @staticmethod
    def keep(ask, ends):
        """Asks as long as others are not ended, and once more. How often it was answered."""
        count = 0
        while not all(end.done() for end in ends):
            ask()
            count += 1
            time.sleep(PAUSE)
        ask()
        return count

    def client(self, daemon, name="live/a"):
        return self.stack.enter_context(rtsp.Client(daemon, name))

    def lists(self, daemon, status, headers):
        """Reads lists of recordings on one connection."""
        connection = self.stack.enter_context(contextlib.closing(daemon.connection()))

        def ask():
            connection.request("GET", "/recordings/live/a", headers=headers)
            response = connection.getresponse()
            response.read()
            self.assertEqual((response.status, response.headers["Connection"]), (status, "keep-alive"))
        return ask

    def stay_without_rules(self, daemon):
        source = self.stack.enter_context(relay.Source(daemon, "live/a", "rtsp", 0))
        source.send(10)
        player = self.client(daemon)
        player.play()

        def publish():
            source.send(1)
            self.assertEqual(source.client.ask("OPTIONS").status, 200)
        yield publish
        yield lambda: self.assertEqual(player.ask("OPTIONS").status, 200)
        daemon.wait_stream("live/a", lambda stream: stream["recording"], "recorded")
        yield self.lists(daemon, 200, {})

    def stay_with_rules(self, daemon):
        known = {"Authorization": "Basic " + base64.b64encode(b"one:geheim").decode()}
        client = self.client(daemon)
        self.assertEqual(client.ask("DESCRIBE", **known).status, 404)
        yield lambda: self.assertEqual(client.ask("OPTIONS").status, 200)
        yield self.lists(daemon, 404, known)

    def test_a_late_head(self):
        """A request has its full time from its first byte on, however long the connection was idle before."""
        daemon = self.start()
        head = http_request("OPTIONS", "/live/none.flv")
        for idle in (0, 8.5):
            with self.subTest(idle), daemon.connect() as peer:
                if idle:
                    peer.sendall(head)
                    self.assertEqual(harness.read_head(peer)[0], 204)
                began = time.monotonic()
                time.sleep(idle)
                peer.sendall(head[:10])
                late = time.monotonic() - began
                # Until what was left of the idle time is over, and a tick more.
                time.sleep(11.5 - late if idle else 5)
                peer.sendall(head[10:])
                # On a machine that stands still it may have come when the idle time was over.
                if late < 9.5:
                    self.assertEqual(harness.read_head(peer)[0], 204)


if __name__ == "__main__":
    harness.main()
