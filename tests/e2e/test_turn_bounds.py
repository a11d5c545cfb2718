"""What a worker does in one turn at most, one step and ten times beyond it: others do not notice, and all of it is done.

The library's own bounds have a unit test of the same name.
"""

import contextlib
import resource
import selectors
import unittest

import flv
import harness
import rtsp
from harness import Daemon, Publisher, Steady

LOOKS = 1024  # Sessions that a worker looks at in a turn: TICK_LOOKS in worker.c.
SENDS = 512  # Sends that io_uring takes at once: URING_SENDS in uring.h.
REPORTS = 256  # RTCP reports that a worker makes in a turn, or so: TICK_REPORTS in worker.c.
REQUESTS = 300
FRAMES = 40
SPARE = 400  # Descriptors of the test itself.


def allowed(count):
    """So many connections, as far as there may be descriptors; the daemon has as many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(count, hard - SPARE - REQUESTS)


class Crowd:
    """Many clients, in one thread: what each has been sent, and whether its connection has ended."""

    def __init__(self, daemon, count, request=b""):
        self.received = {}
        self.ended = set()
        self._selector = selectors.DefaultSelector()
        for _ in range(count):
            peer = daemon.connect("http")
            peer.sendall(request)
            peer.setblocking(False)
            self.received[peer] = b""
            self._selector.register(peer, selectors.EVENT_READ)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.received:
            peer.close()
        self._selector.close()

    def read(self, timeout=0.1):
        for key, _ in self._selector.select(timeout):
            try:
                data = key.fileobj.recv(1 << 16)
            except ConnectionError:
                data = b""
            if data:
                self.received[key.fileobj] += data
            else:
                self.ended.add(key.fileobj)
                self._selector.unregister(key.fileobj)

    def wait(self, condition, what):
        patience = harness.Patience()
        while not condition():
            if not patience.left():
                raise AssertionError("never: " + what)
            self.read()


class TurnBoundsTest(unittest.TestCase):
    def start(self):
        return Daemon("--workers", "1", "--max-connections", "20000")

    def request_all(self, daemon):
        """Connections that come meanwhile are accepted, and each request is answered."""
        with Crowd(daemon, REQUESTS, b"GET /none HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n") as asking:
            asking.wait(lambda: len(asking.ended) == REQUESTS, "%d answers" % REQUESTS)
            self.assertEqual({answer.split(b" ")[1] for answer in asking.received.values()}, {b"404"})

    def end_idle(self, count):
        with self.start() as daemon, Steady(daemon) as steady:
            with Crowd(daemon, allowed(count)) as idle:
                harness.wait_until(lambda: daemon.connections() > len(idle.received), "all connections")
                steady.go_on()
                self.request_all(daemon)
                idle.wait(lambda: len(idle.ended) == len(idle.received), "the end of %d idle clients" % count)
                steady.go_on()
                self.request_all(daemon)

    def play(self, count):
        tags = flv.first_tags()
        frames = flv.frames(size=200, audio=False)
        tags += [next(frames) for _ in range(FRAMES)]
        with self.start() as daemon, Steady(daemon) as steady:
            with Crowd(daemon, allowed(count), b"GET /live/a.flv HTTP/1.0\r\nHost: test\r\n\r\n") as players, \
                    Publisher(daemon, "live/a", "http") as publisher:
                daemon.wait_player("live/a", len(players.received))
                publisher.send(flv.header() + b"".join(tag.pack() for tag in tags))
                self.request_all(daemon)
                last = tags[-1].pack()
                players.wait(lambda: all(data.endswith(last) for data in players.received.values()), "the last frame")
                for data in players.received.values():
                    found = flv.parse(data.partition(b"\r\n\r\n")[2])
                    harness.check_same(found, tags, "tags")
                steady.go_on()

    def test_more_reports(self):
        """Players that have come within a second or so are due to be reported to in two ticks or three: each is."""
        with Daemon("--workers", "1", listen=rtsp.listen()) as daemon, Publisher(daemon, "live/a", "http") as publisher, \
                contextlib.ExitStack() as stack:
            data, _ = flv.stream(FRAMES)
            publisher.send(data)
            players = [stack.enter_context(rtsp.Client(daemon)) for _ in range(allowed(4 * REPORTS))]
            for player in players:
                player.play()
            for player in players:
                reported = set()
                while reported != {1, 3}:
                    message = player.frames.pop(0) if player.frames else player.next()
                    if not isinstance(message, rtsp.Reply) and message[0] % 2 == 1:
                        self.assertEqual(message[1][1], 200, "a sender report")
                        reported.add(message[0])
            publisher.close()
            for player in players:
                player.close()
            daemon.blocks_settled()

    def test_one_session_more(self):
        self.end_idle(LOOKS + 1)

    def test_ten_times_the_sessions(self):
        self.end_idle(10 * LOOKS)

    def test_one_player_more(self):
        self.play(SENDS + 1)

    def test_ten_times_the_players(self):
        self.play(10 * SENDS)


if __name__ == "__main__":
    harness.main()
