"""Media are not copied: counted in the running daemon by a preloaded library, as bytes copied for each byte of payload.

That the count can fail is seen with a daemon that copies each payload once (copying.c).
"""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

import flv
import harness
import preload
import rtmp
import rtsp
from harness import Daemon, Player, Publisher
from test_spread import WebSocketPlayer

LISTEN = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0",
          "--rtsp", "127.0.0.1:0")
NAME = "live/a"
SIZE = 20000  # Bytes of a picture: headers are small beside it.
WARM_UP = 40  # Frames.
MEASURED = 200  # Frames.
AHEAD = 20  # Frames that the publisher may be ahead of its players.
MOST = 0.03  # Bytes copied for each of payload: headers, replies, messages between threads.
# Pictures of some 20 KB.
NOISE = ("-f lavfi -i testsrc=size=320x180:rate=25,noise=alls=30:allf=t -t 6 -c:v libx264 -preset ultrafast -g 25 -bf 2 "
         "-pix_fmt yuv420p -b:v 4M")
COPYING = os.environ.get("SLUICED_COPYING")
ECHO = os.environ.get("WEBSOCKET_ECHO") or os.path.join(harness.BUILD_DIR, "tests", "echo_messages")


def http(version="1.1"):
    return lambda daemon: Player(daemon, NAME, version)


def websocket(daemon):
    return contextlib.closing(WebSocketPlayer(daemon))


def by_rtsp(daemon):
    return contextlib.closing(rtsp.Player(daemon, NAME))


def by_rtmp(daemon):
    return contextlib.closing(rtmp.Player(daemon, NAME))


def rtp_of(client, sequences, number, tag):
    """A frame as RTP, pictures in fragments."""
    if tag.type == flv.AUDIO:
        data = tag.payload[2:]
        client.send_rtp(2, struct.pack(">HH", 16, len(data) << 3) + data, number, tag.timestamp * 441 // 10, payload_type=97)
        return
    data, kind = tag.payload[10:], 5 if tag.is_key_frame else 1
    parts = [data[at:at + 1300] for at in range(0, len(data), 1300)]
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        client.send_rtp(0, bytes([0x7C, (at == 0) << 7 | last << 6 | kind]) + part, next(sequences), tag.timestamp * 90,
                        marker=last)


class RtspPublisher:
    """Frames by RTSP, with the interface of Publisher as far as it is needed."""

    def __init__(self, daemon):
        self._client = rtsp.Client(daemon, NAME)
        self._client.record()
        self._sequences = iter(range(1 << 30))
        self._audio = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.close()

    def send(self, tag):
        if tag.type == flv.AUDIO:
            self._audio += 1
        rtp_of(self._client, self._sequences, self._audio, tag)


class FlvPublisher(Publisher):
    def __init__(self, daemon, protocol, name=NAME):
        super().__init__(daemon, name if protocol == "http" else None, protocol)
        super().send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))


class CopyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.library = preload.build(cls.folder, "count_copies", "-O2", "-fno-tree-loop-distribute-patterns")

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.counter = preload.Counter(self.folder, self.library)
        self.addCleanup(self.counter.close)

    def copied(self):
        return self.counter.count()

    def start(self, *options):
        """The daemon, whose copies are counted from here on."""
        self.counter.reset()
        daemon = self.stack.enter_context(Daemon(*options, listen=LISTEN, environment=self.counter.environment))
        before = self.copied()
        self.assertGreater(before, 0, "the start is not counted")
        daemon.api()
        self.assertGreater(self.copied(), before, "an answer is not counted")
        return daemon

    def join(self, daemon, makers):
        players = []
        for make in makers:
            players.append(self.stack.enter_context(make(daemon)))
            daemon.wait_player(NAME, len(players))
        return players

    @staticmethod
    def wait_all(players, frame):
        """Until all have this audio frame, whose bytes are no other's; by RTSP its time may be another."""
        for player in players:
            if isinstance(player, Player):
                player.wait(lambda player: any(tag.payload == frame.payload for tag in player.tags[-4 * AHEAD:]), "a frame")
            else:
                player.wait_frame(frame)

    def publish(self, publisher, players, frames, count):
        """So many frames, which all players have at the end. Bytes of payload."""
        size = 0
        for at in range(count):
            tag = next(frames)
            publisher.send(tag)
            size += len(tag.payload)
            if at % AHEAD == AHEAD - 1:
                self.wait_all(players, tag)
        return size

    def relay(self, publish, makers, *options):
        """A stream, and its players. Bytes copied for each byte of payload."""
        daemon = self.start(*options)
        players = self.join(daemon, makers)
        frames = flv.frames(size=SIZE)
        with publish(daemon) as publisher:
            self.publish(publisher, players, frames, WARM_UP)
            before = self.copied()
            size = self.publish(publisher, players, frames, MEASURED)
            copied = self.copied() - before
        self.stack.close()
        return copied / size

    def by_ffmpeg(self, ffmpeg, media):
        """A file that ffmpeg publishes by RTMP as fast as it can. Bytes copied, of its connection's begin and end as well."""
        daemon = self.start()
        players = self.join(daemon, [by_rtmp, http()])
        with open(media, "rb") as file:
            frames = [tag for tag in flv.parse(file.read()) if tag.is_frame]
        before = self.copied()
        publisher = harness.Ffmpeg(ffmpeg, "-i", media, "-c", "copy", "-f", "flv", rtmp.url(daemon, NAME))
        self.stack.callback(publisher.kill)
        publisher.wait()
        self.wait_all(players, frames[-1])
        copied = self.copied() - before
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
        self.stack.close()
        return copied / sum(len(frame.payload) for frame in frames)

    def move(self, streams):
        """Connections that most arrive at another worker than their stream's, with bytes that have come already."""
        daemon = self.start("--workers", "3")
        names = ["live/s%d" % number for number in range(streams)]
        players = []
        for name in names:
            players.append(self.stack.enter_context(Player(daemon, name)))
            daemon.wait_player(name)
        before, size = self.copied(), 0
        for name, player in zip(names, players):
            frames = flv.frames(size=SIZE)
            tags = [next(frames) for _ in range(AHEAD)]
            data = flv.header() + b"".join(tag.pack() for tag in [*flv.first_tags(), *tags])
            peer = self.stack.enter_context(contextlib.closing(daemon.connect("http")))
            peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % (
                name.encode(), len(data)) + data)
            size += sum(len(tag.payload) for tag in tags)
            self.wait_all([player], tags[-1])
        copied = self.copied() - before
        self.assertEqual({stream["worker"] for stream in daemon.api()["streams"]}, {0, 1, 2})
        self.stack.close()
        return copied / size

    def check(self, measure, *arguments):
        found = measure(*arguments)
        harness.SLUICED, right = COPYING, harness.SLUICED
        try:
            wrong = measure(*arguments)
        finally:
            harness.SLUICED = right
        print("%s: %.4f bytes copied for each of payload; by a daemon that copies, %.4f" % (self.id(), found, wrong))
        self.assertLess(found, MOST)
        self.assertGreater(wrong, 0.9, "a daemon that copies each payload is not found out")

    def test_raw_to_http(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "flv"), [http("1.1"), http("1.0")])

    def test_http_to_http(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "http"), [http("1.1"), http("1.0")])

    def test_http_to_websocket(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "http"), [websocket, websocket])

    def test_http_to_rtsp(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "http"), [by_rtsp, by_rtsp])

    def test_rtsp_to_rtsp(self):
        self.check(self.relay, RtspPublisher, [by_rtsp, by_rtsp])

    def test_rtsp_to_http(self):
        self.check(self.relay, RtspPublisher, [http("1.1"), http("1.0")])

    def test_rtmp_to_rtmp(self):
        """Whole messages, as ffmpeg sends them, and chunks of OBS."""
        for size in (65536, 4096):
            self.check(self.relay, lambda daemon, size=size: rtmp.Publisher(daemon, NAME, size), [by_rtmp, by_rtmp, http()])

    def test_rtmp_from_ffmpeg(self):
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        self.check(self.by_ffmpeg, ffmpeg, harness.make_media(ffmpeg, NOISE))

    def test_http_to_rtmp(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "http"), [by_rtmp, by_rtmp])

    def test_recorded(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "http"), [http()], "--record", "*=" + self.folder)

    def test_spread_to_other_workers(self):
        self.check(self.relay, lambda daemon: FlvPublisher(daemon, "http"), [http("1.1"), websocket, http("1.0"), http("1.1")],
                   "--workers", "2", "--spread", "1")

    def test_moves_to_other_workers(self):
        self.check(self.move, 12)

    def test_websocket_received(self):
        """What comes in masked messages, and goes back, by a user of the library."""
        message, count = bytes(range(256)) * 256, 60
        mask = b"\x37\xfa\x21\x3d"
        masked = bytes(a ^ b for a, b in zip(message, mask * (len(message) // 4)))
        with subprocess.Popen([ECHO, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=dict(os.environ, **self.counter.environment)) as echo:
            port = int(echo.stdout.readline().split()[1])
            with socket.create_connection(("127.0.0.1", port), timeout=harness.PATIENCE) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
                self.assertEqual(harness.read_head(peer)[0], 101)
                before = self.copied()
                for _ in range(count):
                    peer.sendall(b"\x82\xff" + struct.pack(">Q", len(message)) + mask + masked)
                    back = b""
                    while len(back) < 10 + len(message):
                        back += peer.recv(1 << 20)
                    self.assertEqual(back, b"\x82\x7f" + struct.pack(">Q", len(message)) + message)
                copied = self.copied() - before
            echo.stdin.close()
            self.assertIn(b"pool", echo.stdout.read())
        self.assertLess(copied / (count * len(message)), MOST)


if __name__ == "__main__":
    if not preload.find_compiler():
        harness.skip_file("no C compiler")
    if not COPYING:
        harness.skip_file("no daemon that copies (environment variable SLUICED_COPYING)")
    harness.main()
