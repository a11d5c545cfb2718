"""Relaying takes no heap allocation, and its peers little of the heap: counted in the running daemon by a preloaded library."""

import fcntl
import itertools
import shutil
import ssl
import struct
import tempfile
import termios
import threading
import time
import unittest

import flv
import harness
import preload
import rtmp
import rtsp
import tls
from harness import Daemon, Player, Publisher

WARM_UP = 1500  # Frames: enough for every list to have grown to what it needs.
MEASURED = 2000  # Frames.
PLAYERS = 5
# Frames that the publisher may be ahead of its players. A player's queue begins with 16 slots, and what it has beyond 64 is given
# back: on a busy machine it would be taken again and again.
AHEAD = 30
# Tries at most to see so many frames without an allocation: each player's queue may grow in a window of its own.
WINDOWS = PLAYERS + 5
UNREAD = 64 << 10  # And bytes, where players count packets.


class RtspPlayer(rtsp.Player):
    """What counts are the RTP packets that come."""

    @property
    def tags(self):
        return self.payloads

    @property
    def peer(self):
        return self._client.peer

    def wait_tags(self, count):
        self.wait_packets(count)


class AllocationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.library = preload.build(cls.folder, "count_allocations", "-O1",
                                    *(["-DCOUNT_BY_HOOK"] if preload.is_sanitized() else []))

    def setUp(self):
        self.counter = preload.Counter(self.folder, self.library)
        self.addCleanup(self.counter.close)
        self.environment = dict(self.counter.environment)

    def allocations(self):
        return self.counter.count()

    def measure(self, protocol, *options, **stream):
        with Daemon(*options, environment=self.environment) as daemon:
            self.check_counter(daemon)
            ending = threading.Event()
            with Publisher(daemon, "live/a" if protocol == "http" else None, protocol) as publisher:
                players = [Player(daemon, publisher.name, "1.1" if number % 2 else "1.0")
                           for number in range(PLAYERS)]
                daemon.wait_player(publisher.name, PLAYERS)
                self.relay(players, ending, lambda: self.publish(publisher, players, ending, stream))
            daemon.blocks_settled()

    def measure_rtsp(self, publishes, *options, **stream):
        """One publisher, by either way, and players of both ways; that nothing is copied is seen at the end."""
        listen = ("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
        with Daemon(*options, listen=listen, environment=self.environment) as daemon:
            self.check_counter(daemon)
            ending = threading.Event()
            players = [Player(daemon, "live/a"), RtspPlayer(daemon, "live/a"), Player(daemon, "live/a", "1.0"),
                       RtspPlayer(daemon, "live/a")]
            daemon.wait_player("live/a", len(players))
            if publishes == "rtsp":
                with rtsp.Client(daemon) as publisher:
                    publisher.record()
                    self.relay(players, ending, lambda: self.record(publisher, players, ending, stream))
            else:
                with Publisher(daemon, "live/a", "http") as publisher:
                    self.relay(players, ending, lambda: self.publish(publisher, players, ending, stream))
            daemon.blocks_settled()

    def measure_rtmp(self, publishes, chunk, **stream):
        """One publisher, by either way, and players of both ways."""
        listen = ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
        with Daemon(listen=listen, environment=self.environment) as daemon:
            self.check_counter(daemon)
            ending = threading.Event()
            players = [Player(daemon, "live/a"), rtmp.Player(daemon, "live/a"), rtmp.Player(daemon, "live/a")]
            daemon.wait_player("live/a", len(players))
            with rtmp.Publisher(daemon, "live/a", chunk) if publishes == "rtmp" else \
                    Publisher(daemon, "live/a", "http") as publisher:
                publish = self.publish if publishes == "http" else self.publish_frames
                self.relay(players, ending, lambda: publish(publisher, players, ending, stream))
            daemon.blocks_settled()

    def check_counter(self, daemon):
        counted = self.allocations()
        self.assertGreater(counted, 0, "the start is not counted")
        daemon.api()
        self.assertGreater(self.allocations(), counted, "a connection is not counted")

    def relay(self, players, ending, publish):
        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        try:
            self.wait_all(players, WARM_UP)
            differences = self.count_windows(players)
        finally:
            ending.set()
            thread.join()
            for player in players:
                player.close()
        self.assertEqual(differences[-1], 0, "allocations, each during %d frames: %s" % (MEASURED, differences))

    def count_windows(self, players):
        """The allocations during so many frames; again when there were any.

        A busy machine may stop a player for longer than ever before, and a queue has to grow for it, once. What is
        taken for frames is taken in every window.
        """
        differences = []
        while len(differences) < WINDOWS and (not differences or differences[-1] > 0):
            before = self.allocations()
            self.wait_all(players, MEASURED)
            differences.append(self.allocations() - before)
        return differences

    @staticmethod
    def wait_all(players, count):
        """So many more for each of them: a picture is one tag and several packets."""
        for player, goal in [(player, len(player.tags) + count) for player in players]:
            player.wait_tags(goal)

    @staticmethod
    def pause(players, ending, sent):
        """Between two frames. Players are slower than the daemon, and queues would grow without end where they are much."""
        def is_behind(player):
            if isinstance(player, (Player, rtmp.Player)):
                return len(player.tags) + AHEAD < sent
            return struct.unpack("=i", fcntl.ioctl(player.peer, termios.FIONREAD, bytes(4)))[0] > UNREAD

        time.sleep(0.0005)
        while not ending.is_set() and any(is_behind(player) for player in players):
            time.sleep(0.001)

    def publish(self, publisher, players, ending, stream):
        publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
        self.publish_frames(publisher, players, ending, stream)

    def publish_frames(self, publisher, players, ending, stream):
        for number, tag in enumerate(flv.frames(**stream)):
            publisher.send(tag)
            if ending.is_set():
                break
            self.pause(players, ending, number)

    def record(self, client, players, ending, stream):
        """The same frames as RTP, pictures in fragments."""
        sequence = 0
        for number, tag in enumerate(flv.frames(**stream)):
            if tag.type == flv.AUDIO:
                data = tag.payload[2:]
                client.send_rtp(2, struct.pack(">HH", 16, len(data) << 3) + data, number // 2, tag.timestamp * 441 // 10,
                                payload_type=97)
            else:
                data, kind = tag.payload[10:], 5 if tag.is_key_frame else 1
                parts = [data[at:at + 1300] for at in range(0, len(data), 1300)]
                for at, part in enumerate(parts):
                    last = at == len(parts) - 1
                    client.send_rtp(0, bytes([0x7C, (at == 0) << 7 | last << 6 | kind]) + part, sequence,
                                    tag.timestamp * 90, marker=last)
                    sequence += 1
            if ending.is_set():
                break
            self.pause(players, ending, number)

    def test_raw(self):
        self.measure("flv")

    def test_http(self):
        self.measure("http")

    def test_recorded(self):
        self.measure("http", "--record", "*=" + self.folder)

    def test_large_frames(self):
        self.measure("http", size=60000)

    def test_flv_to_both(self):
        self.measure_rtsp("flv")

    def test_rtsp_to_both(self):
        self.measure_rtsp("rtsp")

    def test_flv_to_rtmp(self):
        self.measure_rtmp("http", 0)

    def test_rtmp(self):
        self.measure_rtmp("rtmp", 65536)

    def test_rtmp_in_pieces(self):
        self.measure_rtmp("rtmp", 4096, size=20000)

    def test_rtsp_to_both_with_a_window(self):
        self.measure_rtsp("rtsp", "--merge-window", "20", size=6000)



class BlockTest(unittest.TestCase):
    """A publisher without a cached group holds no block between two frames: its headers are copied out of theirs."""

    COPIED = 2048  # Bytes of a header, at most.

    def setUp(self):
        self.daemon = self.enterContext(Daemon("--gop-size", "0", listen=("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")))

    def held(self):
        return self.daemon.api()["pool"]["blocks_held"]

    def send(self, publisher, name, frames):
        """Frames of video, all of which have come."""
        for frame in frames:
            publisher.send(frame)
        self.daemon.wait_stream(name, lambda stream: stream["frames"]["video"] == len(frames), "all frames")

    def wait_for_none(self):
        harness.wait_until(lambda: self.held() == 0, lambda: "no block held; there are %d" % self.held())

    def test_both_headers(self):
        with Publisher(self.daemon, "live/a", "http") as one, rtmp.Publisher(self.daemon, "live/b") as other:
            one.send(flv.header())
            for publisher, name, first in (one, "live/a", flv.first_tags()), (other, "live/b", ()):
                for tag in first:
                    publisher.send(tag)
                publisher.send(flv.audio_frame(0, 0, 200))
                self.send(publisher, name, list(itertools.islice(flv.frames(audio=False), 10)))
            self.wait_for_none()

    def check_size(self, size):
        header = flv.Tag(flv.VIDEO, 0, flv.VIDEO_HEADER.payload + bytes(size - len(flv.VIDEO_HEADER.payload)))
        publisher = self.enterContext(Publisher(self.daemon, "live/a", "http"))
        publisher.send(flv.header(flv.HAS_VIDEO))
        publisher.send(header)
        self.send(publisher, "live/a", list(itertools.islice(flv.frames(audio=False), 10)))

    def test_largest_copy(self):
        self.check_size(self.COPIED)
        self.wait_for_none()

    def test_one_byte_more(self):
        self.check_size(self.COPIED + 1)
        self.assertGreater(self.held(), 0)


class HeldTest(unittest.TestCase):
    """What one more player or publisher takes of the heap, while media flow. Blocks are not on the heap."""

    FEW, MANY = 20, 100
    FRAMES = 8  # Fewer than players' queues have room for at first.
    PLAYER = 3 << 10
    PUBLISHER = 8 << 10  # Besides its cached group:
    GROUP = 4 << 10  # a list, and packets, which are made many at a time.
    IDLE_TLS = 20 << 10  # A connection with TLS, in all.

    @classmethod
    def setUpClass(cls):
        if preload.is_sanitized():
            raise unittest.SkipTest("a sanitizer's heap has other blocks")
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.library = preload.build(cls.folder, "count_heap", "-O1")

    def setUp(self):
        self.counter = preload.Counter(self.folder, self.library)
        self.addCleanup(self.counter.close)

    def start(self):
        daemon = self.enterContext(Daemon(listen=("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0"),
                                          environment=self.counter.environment))
        self.assertGreater(self.counter.count(), 0, "the start is not counted")
        return daemon

    def check(self, most, grow):
        """Bytes of each, by which the heap grows from few to many. What each was answered has been sent then."""
        grow(self.FEW)
        few = self.counter.count()
        grow(self.MANY)
        each = (self.counter.count() - few) / (self.MANY - self.FEW)
        self.assertGreater(each, most / 8, "they are not counted")
        self.assertLessEqual(each, most)

    def check_players(self, make):
        daemon, players = self.start(), []
        publisher = self.enterContext(Publisher(daemon, "live/a", "http"))
        publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
        frames = flv.frames()

        def grow(count):
            while len(players) < count:
                players.append(make(daemon, "live/a"))
                self.addCleanup(players[-1].close)
            daemon.wait_player("live/a", count)
            # What comes second is sent when the first has been, with the answers in front of it.
            for _ in range(2):
                sent = [next(frames) for _ in range(self.FRAMES)]
                for frame in sent:
                    publisher.send(frame.pack())
                for player in players:
                    player.wait_frame(sent[-1])

        self.check(self.PLAYER, grow)

    def test_http_player(self):
        self.check_players(Player)

    def test_rtmp_player(self):
        self.check_players(rtmp.Player)

    def check_publishers(self, make):
        daemon, publishers = self.start(), []

        def grow(count):
            while len(publishers) < count:
                name = "live/%d" % len(publishers)
                publishers.append(self.enterContext(make(daemon, name)))
                publishers[-1].send(next(flv.frames()))
                daemon.wait_stream(name, lambda stream: stream["frames"]["video"] > 0, "a frame")

        self.check(self.PUBLISHER + self.GROUP, grow)

    def test_rtmp_publisher(self):
        self.check_publishers(rtmp.Publisher)

    def check_idle(self, make, version=None, secure=True, most=IDLE_TLS):
        """Connections that say no more, with all that OpenSSL has of them. Fewer, since handshakes take their time."""
        self.FEW, self.MANY = 10, 40
        daemon = self.enterContext((tls.Daemon if secure else Daemon)(
            "--tls-handshakes-per-address", "0", "--first-data", "600", "--idle", "600", "--wait", "600",
            environment=self.counter.environment,
            listen=tls.LISTEN if secure else ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")))
        if version:
            daemon.client = {"of": tls.context(version)}
        idle = []

        def grow(count):
            while len(idle) < count:
                idle.append(make(daemon))
                self.addCleanup(idle[-1].close)

            # The handshakes' last messages, and the answers, have been sent a moment after they have arrived.
            def is_still():
                before = self.counter.count()
                time.sleep(0.2)
                return daemon.connections() >= count and self.counter.count() == before
            harness.wait_until(is_still, "the daemon to have nothing to do")

        self.check(most, grow)

    @staticmethod
    def http_client(daemon):
        peer = daemon.connect("http")
        peer.sendall(b"OPTIONS /a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
        if harness.status_of(peer.recv(65536)) != 204:
            raise AssertionError("no answer")
        return peer

    def test_idle_https(self):
        self.check_idle(self.http_client, ssl.TLSVersion.TLSv1_3)

    def test_idle_https_by_tls_1_2(self):
        self.check_idle(self.http_client, ssl.TLSVersion.TLSv1_2)

    def test_idle_http(self):
        self.check_idle(self.http_client, secure=False, most=self.PLAYER)

    def test_idle_rtmps(self):
        """Before the first byte of RTMP, which has to come within ten seconds."""
        self.check_idle(lambda daemon: daemon.connect("rtmp"))

    def test_waiting_rtmps_player(self):
        """Of a stream that is not there yet."""
        self.check_idle(lambda daemon: rtmp.Player(daemon, "live/a"))

    def test_waiting_rtmp_player(self):
        self.check_idle(lambda daemon: rtmp.Player(daemon, "live/a"), secure=False, most=self.PLAYER)

    def test_idle_rtsps(self):
        self.check_idle(lambda daemon: daemon.connect("rtsp"))


if __name__ == "__main__":
    if not preload.find_compiler():
        harness.skip_file("no C compiler")
    harness.main()
