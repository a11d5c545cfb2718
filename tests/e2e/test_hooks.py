"""Hooks: a server of the operator's is asked who may publish and play, and whatever it does, the daemon goes on."""

import contextlib
import os
import select
import socket
import tempfile
import threading
import unittest

import flv
import harness
from harness import Daemon, Steady
from hook_server import Hook, reply
from rtsp import SDP, Client

LISTEN = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
DATA = flv.header() + b"".join(tag.pack() for tag in flv.first_tags())


# What a server may answer, and whether that lets a client in.
REPLIES = {
    "200": (reply(200), True),
    "204": (reply(204, b""), True),
    "299 with a body": (reply(299, b"Content-Length: 4\r\n") + b"good", True),
    "403": (reply(403), False),
    "401": (reply(401, b"WWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n"), False),
    "500": (reply(500), False),
    "redirect": (None, False),  # is made for the server
    "nothing": ([None], False),
    "end": (b"", False),
    "garbage": (b"\0\xff\r\n\r\n" * 100, False),
    "half a head": ([b"HTTP/1.1 200 OK\r\nContent-", None], False),
    "a byte at a time": ([b"HTTP/1.1 200 OK\r\nX: "] + [b"x"] * 1000, False),
    "half a body": ([reply(200, b"Content-Length: 100\r\n") + b"x", None], False),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000, False),
    "an endless body": (reply(200, b"") + b"x" * 1000000, False),
    "no HTTP": (b"RTSP/1.0 200 OK\r\n\r\n", False),
}


class HookTest(unittest.TestCase):
    def start(self, hook, *options):
        url = hook.url if isinstance(hook, Hook) else hook
        daemon = Daemon("--hook-publish", url, "--hook-play", url, "--wait", "0", *options, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    # Of each protocol and action: whether the client is let in.

    @staticmethod
    def http_play(daemon):
        return {404: True, 403: False}[daemon.request("GET", "/live/a.flv")[0]]

    @staticmethod
    def http_publish(daemon):
        return {200: True, 403: False}[daemon.request("POST", "/live/a.flv", DATA)[0]]

    @staticmethod
    def rtsp_play(daemon):
        with Client(daemon) as client:
            return {404: True, 403: False}[client.setup(0).status]

    @staticmethod
    def rtsp_publish(daemon):
        with Client(daemon) as client:
            return {200: True, 403: False}[client.ask("ANNOUNCE", body=SDP).status]

    @staticmethod
    def flv_publish(daemon):
        with daemon.connect("flv") as peer:
            address = harness.address_text(peer)
            # Who is refused may be closed before it has said all.
            with contextlib.suppress(OSError):
                peer.sendall(DATA)
                peer.shutdown(socket.SHUT_WR)
                harness.read_to_end(peer)
        # The log is read by another thread of ours.
        lines = harness.wait_until(lambda: daemon.log("request refused", peer=address) or
                                   daemon.log("publisher ended", peer=address), "what became of the publisher")
        return lines[0].message == "publisher ended"

    def each(self):
        return [self.http_play, self.http_publish, self.rtsp_play, self.rtsp_publish, self.flv_publish]

    def check(self, daemon, granted):
        """All five at once, beside each other, so that time-outs are waited for once; one after the other by name."""
        results = {}

        def run(ask):
            results[ask.__name__] = ask(daemon)
        publishers = [self.http_publish, self.rtsp_publish, self.flv_publish]
        # Publishers of one name would be in each other's way.
        threads = [threading.Thread(target=run, args=(ask,)) for ask in self.each() if not granted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if granted:
            for ask in self.each():
                run(ask)
                if ask in publishers:
                    harness.wait_until(lambda: not (daemon.stream("live/a") or {}).get("state") == "live", "the end")
        self.assertEqual(results, {ask.__name__: granted for ask in self.each()})
        daemon.blocks_settled()

    def test_replies(self):
        for name, (answer, granted) in REPLIES.items():
            with self.subTest(name):
                good = Hook(self, reply(200))
                hook = Hook(self, answer)
                if name == "redirect":
                    hook.reply = reply(302, b"Location: %s\r\nContent-Length: 0\r\n" % good.url.encode())
                daemon = self.start(hook, "--hook-timeout", "0.5" if not granted else "10")
                self.check(daemon, granted)
                self.assertEqual(good.questions, [])
                # Who has been given up may not have read its question yet.
                hook.wait(5)
                self.assertEqual(len(hook.questions), 5)
                self.assertNotIn("geheim", "\n".join(line.text for line in daemon.log()))
                daemon.stop()

    def test_dead(self):
        """Nobody is there; and somebody who does not take the connection."""
        # A port that is taken, where nobody listens.
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            self.check(self.start("http://127.0.0.1:%d/" % nobody.getsockname()[1], "--hook-timeout", "1"), False)
        self.check(self.start("http://192.0.2.1:1/", "--hook-timeout", "0.5"), False)

    def test_questions(self):
        hook = Hook(self, reply(200))
        daemon = self.start(hook)
        for ask in self.each():
            ask(daemon)
        self.assertEqual([(one["event"], one["protocol"], one["stream"]) for one in hook.asked], [
            ("play", "http", "live/a"), ("publish", "http", "live/a"), ("play", "rtsp", "live/a"),
            ("publish", "rtsp", "live/a"), ("publish", "flv", "live/a")])
        for one, data in zip(hook.asked, hook.questions):
            self.assertRegex(one["address"], r"\A127\.0\.0\.1:\d+\Z")
            self.assertTrue(data.startswith(b"POST /hook?key=geheim HTTP/1.1\r\n"))
        # HEAD says what GET would, so it is asked about alike; and what is no stream is not.
        self.assertEqual(daemon.request("HEAD", "/live/a.flv")[0], 404)
        daemon.request("GET", "/live/..flv")
        self.assertEqual(len(hook.questions), 6)
        self.assertEqual((hook.asked[5]["event"], hook.asked[5]["stream"]), ("play", "live/a"))
        with Client(daemon) as client:
            client.ask("ANNOUNCE", body=SDP)
            client.setup(0, record=True)
            client.ask("RECORD")
        self.assertEqual(len(hook.questions), 7)
        daemon.blocks_settled()

    def test_head(self):
        """What a hook refuses to GET, HEAD does not tell: neither that a stream is live nor that it is not."""
        for code, live, absent in ((403, 403, 403), (204, 200, 404)):
            hook = Hook(self, reply(code))
            daemon = Daemon("--hook-play", hook.url, "--wait", "0", listen=LISTEN)
            self.addCleanup(daemon.stop)
            with harness.Publisher(daemon, "live/a") as publisher:
                publisher.send(flv.stream(20)[0])
                daemon.wait_stream("live/a")
                self.assertEqual([daemon.request("HEAD", "/live/%s.flv" % name)[0] for name in "ab"], [live, absent])
                self.assertEqual([one["stream"] for one in hook.asked], ["live/a", "live/b"])

    def test_websocket(self):
        """By its own name; and live streams are no recordings."""
        hook = Hook(self, reply(403))
        daemon = self.start(hook)
        answer = harness.exchange(daemon, b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                                  b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                  b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        self.assertEqual(harness.status_of(answer), 403)
        question, = hook.asked
        self.assertEqual((question["event"], question["protocol"], question["recording"]), ("play", "websocket", None))

    def test_streams_go_on(self):
        """While somebody waits for an answer, the others do not."""
        hook = Hook(self, reply(200))
        daemon = self.start(hook, "--hook-timeout", "60")
        with Steady(daemon, name="live/a") as steady:
            hook.reply = [None]
            peers = [daemon.connect() for _ in range(100)]
            for peer in peers:
                peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n")
            hook.wait(64)
            steady.go_on(50)
            # No more at a time.
            self.assertLessEqual(len(hook.questions), 2 + 64)
            for peer in peers:
                peer.close()
            steady.go_on()
        # The daemon's end is not held up by those that are asked.

    def test_what_comes_meanwhile(self):
        """More than is taken before the answer, and publishers that have ended by then."""
        hook = Hook(self, reply(200), delay=0.3)
        daemon = self.start(hook)
        source = flv.frames()
        data = DATA + b"".join(next(source).pack() for _ in range(400))
        self.assertGreater(len(data), 200000)
        for protocol in ("http", "flv"):
            count = len(daemon.log("publisher ended"))
            with daemon.connect(protocol) as peer:
                if protocol == "http":
                    peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(data))
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                answer = harness.read_to_end(peer)
            if protocol == "http":
                self.assertEqual(harness.status_of(answer), 200)
            line = daemon.wait_log("publisher ended", count + 1)
            self.assertEqual(int(line.fields["bytes"]), len(data) - 13, line)
        with daemon.connect("http") as peer:
            peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(DATA), DATA) +
                         b"GET /api/v1/streams HTTP/1.0\r\n\r\n")
            peer.shutdown(socket.SHUT_WR)
            self.assertEqual(harness.read_head(peer)[0], 200)
        daemon.blocks_settled()

    def test_another_client(self):
        """One client with more questions than are asked at a time, which get no answer, keeps nobody else from being asked."""
        hook = Hook(self, [None])
        daemon = self.start(hook, "--hook-timeout", "60")
        with contextlib.ExitStack() as stack:
            for _ in range(150):
                peer = stack.enter_context(daemon.connect())
                peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n")
            hook.wait(64)
            hook.reply = reply(200)
            for number in range(2, 5):
                with socket.create_connection(daemon.address("http"), harness.PATIENCE,
                                              source_address=("127.0.0.%d" % number, 0)) as other:
                    other.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n")
                    self.assertEqual(harness.read_head(other)[0], 404)
            self.assertEqual([one["address"].partition(":")[0] for one in hook.asked[64:]],
                             ["127.0.0.%d" % number for number in range(2, 5)])

    def test_waiting_behind_others(self):
        """64 are asked at a time: who waits for that is refused when its own time is over, without being asked."""
        hook = Hook(self, None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = os.path.join(folder.name, "sluiced.conf")

        def configure(seconds):
            with open(config, "w", encoding="ascii") as file:
                file.write('http = "127.0.0.1:0"; rtsp = "127.0.0.1:0"; flv = "127.0.0.1:0=live/a";\n'
                           'hook-play = "%s"; hook-publish = "%s"; hook-timeout = %s;' % (hook.url, hook.url, seconds))
        configure("60.0")
        with contextlib.ExitStack() as stack, Daemon("--config", config, listen=()) as daemon:
            asked = [stack.enter_context(daemon.connect()) for _ in range(64)]
            for peer in asked:
                peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n")
            hook.wait(64)
            configure("0.5")
            self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)
            for ask in self.each():
                self.assertFalse(ask(daemon), ask)
            self.assertEqual(select.select(asked, [], [], 0)[0], [])
            self.assertEqual(len(hook.questions), 64)

    def test_leaving(self):
        """Clients that go, and a daemon that is stopped, while the hook thinks."""
        hook = Hook(self, [None])
        daemon = self.start(hook, "--hook-timeout", "60")
        for protocol, data in (("http", b"GET /live/a.flv HTTP/1.0\r\n\r\n"),
                               ("http", b"POST /live/a.flv HTTP/1.0\r\n\r\n" + DATA), ("flv", DATA),
                               ("rtsp", b"DESCRIBE rtsp://a/live/a RTSP/1.0\r\nCSeq: 1\r\n\r\n")):
            count = len(hook.questions)
            with daemon.connect(protocol) as peer:
                peer.sendall(data)
                hook.wait(count + 1)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        daemon.blocks_settled()
        peers = [daemon.connect(protocol) for protocol in ("http", "flv", "rtsp")]
        peers[0].sendall(b"GET /live/a.flv HTTP/1.0\r\n\r\n")
        peers[1].sendall(DATA)
        peers[2].sendall(b"DESCRIBE rtsp://a/live/a RTSP/1.0\r\nCSeq: 1\r\n\r\n")
        hook.wait(7)
        daemon.stop()
        self.assertEqual(harness.status_of(harness.read_to_end(peers[0])), 503)
        for peer in peers:
            peer.close()


if __name__ == "__main__":
    harness.main()
