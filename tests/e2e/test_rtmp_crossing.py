"""RTMP beside the other protocols: times that wrap, extended deltas, B-frames, several tracks, in both directions."""

import contextlib
import os
import struct
import tempfile
import unittest

import flv
import harness
import multitrack
import rtmp
import rtsp
import settings
import test_tracks
from harness import Daemon
from test_spread import NAME, WebSocketPlayer

LISTEN = ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
STEP, COUNT = 40, 20
WRAPS = {"24 bits": 1 << 24, "32 bits": 1 << 32}


def with_composition(tag, number):
    """A picture as of a stream with B-frames: it is shown later than it is decoded, by one to three steps."""
    shown = (1 + number % 3) * STEP
    return tag._replace(payload=tag.payload[:2] + shown.to_bytes(3, "big") + tag.payload[5:])


def across(limit):
    """Headers and frames, the half of them behind a limit of the timestamps."""
    source = flv.frames(start=limit - COUNT // 2 * STEP)
    tags = []
    for number in range(COUNT):
        tags += [with_composition(next(source), number), next(source)]
    return [tag._replace(timestamp=tag.timestamp % (1 << 32)) for tag in tags]


class WrapTest(unittest.TestCase):
    """Where timestamps of 24 and of 32 bits end, in the middle of a stream."""

    def check_tags(self, got, sent):
        frames = [tag for tag in got if tag.is_frame]
        first = frames[0].timestamp - sent[0].timestamp
        harness.check_same([tag._replace(timestamp=(tag.timestamp - first) % (1 << 32)) for tag in frames], sent)

    def check_pictures(self, client):
        """By RTSP: of each picture one or two packets, at the time when it is shown, on a clock of 32 bits."""
        times = []
        while len(times) < COUNT:
            packet = client.next_rtp()
            if packet.channel == 0 and packet.marker:
                times.append(packet.timestamp)
        shown = [(number + 1 + number % 3) * STEP for number in range(COUNT)]
        self.assertEqual([(time - times[0]) % (1 << 32) for time in times], [90 * (time - shown[0]) for time in shown])

    def test_wraps(self):
        """RTMP in; RTMP, HTTP-FLV, WebSocket-FLV and RTSP out: the same frames, one step apart across the limit."""
        for name, limit in WRAPS.items():
            sent = across(limit)
            with self.subTest(name), Daemon(listen=LISTEN) as daemon, contextlib.ExitStack() as stack:
                players = []
                for make in (rtmp.Player, harness.Player, lambda daemon, _: WebSocketPlayer(daemon)):
                    players.append(stack.enter_context(contextlib.closing(make(daemon, NAME))))
                    daemon.wait_player(NAME, len(players))
                publisher = stack.enter_context(rtmp.Publisher(daemon, NAME, 4096))
                publisher.send(sent[0])
                client = stack.enter_context(rtsp.Client(daemon, NAME))
                client.play()
                for tag in sent[1:]:
                    publisher.send(tag)
                for player in players:
                    player.wait_tags(len(flv.first_tags()) + len(sent))
                    self.check_tags(player.tags, sent)
                self.check_pictures(client)
                self.assertEqual(daemon.stream(NAME)["publisher"]["timestamp_jumps"], 0)
                self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)

    def test_rtsp_clock_wraps(self):
        """RTSP in, with a clock that begins again at 0; RTMP and HTTP-FLV out: times go on rising, and each picture is shown at its own."""
        with Daemon(listen=LISTEN) as daemon, contextlib.closing(rtmp.Player(daemon, NAME)) as player, \
                contextlib.closing(harness.Player(daemon, NAME)) as other:
            daemon.wait_player(NAME, 2)
            with rtsp.Client(daemon, NAME) as publisher:
                publisher.record()
                first = (1 << 32) - COUNT // 2 * STEP * 90
                for number in range(COUNT + 1):
                    picture = flv.video_frame(0, number == 0, number, 500).payload[9:]
                    publisher.send_rtp(0, (b"\x41" if number else b"\x65") + picture, number, first + number * STEP * 90)
                for one in (player, other):
                    wait_pictures(one, COUNT)
                    times = [tag.timestamp for tag in pictures(one)][:COUNT]
                    self.assertEqual(times, sorted(set(times)))
                    times = [shown_at(tag) for tag in pictures(one)][:COUNT]
                    self.assertEqual([time - times[0] for time in times], [STEP * number for number in range(COUNT)])


class DialectTest(unittest.TestCase):
    """What clients write in the further chunks of a message whose header has an extended timestamp that is a delta."""

    DELTA = 0x01020304  # As no bytes of the pictures are.
    DIALECTS = {"nothing": lambda delta, timestamp: b"", "the header's": lambda delta, timestamp: struct.pack(">I", delta),
                "the message's": lambda delta, timestamp: struct.pack(">I", timestamp)}

    def chunks(self, tag, again):
        """With a header of type 1, which has no message stream."""
        parts = [tag.payload[at:at + 4096] for at in range(0, len(tag.payload), 4096)]
        first = (b"\x46\xff\xff\xff" + len(tag.payload).to_bytes(3, "big") + bytes([tag.type]) +
                 struct.pack(">I", self.DELTA))
        return first + (b"\xc6" + again(self.DELTA, tag.timestamp)).join(parts)

    def test_deltas(self):
        start = 5 * 3600 * 1000
        times = [start, start + self.DELTA, start + self.DELTA + STEP]
        sent = [flv.video_frame(time, True, number, 20000) for number, time in enumerate(times)]
        with Daemon("--time-jump", "0", listen=LISTEN) as daemon:
            for number, (dialect, again) in enumerate(self.DIALECTS.items()):
                name = "live/%d" % number
                with self.subTest(dialect), contextlib.closing(rtmp.Player(daemon, name)) as player, \
                        rtmp.Client(daemon) as publisher:
                    daemon.wait_player(name)
                    self.assertEqual(publisher.begin("publish", str(number))["code"], "NetStream.Publish.Start")
                    publisher.set_chunk_size(4096)
                    publisher.send(flv.VIDEO, flv.VIDEO_HEADER.payload, timestamp=start)
                    publisher.send(flv.VIDEO, sent[0].payload, timestamp=start, repeat=dialect != "nothing")
                    publisher.peer.sendall(self.chunks(sent[1], again))
                    publisher.send(flv.VIDEO, sent[2].payload, timestamp=times[2], repeat=dialect != "nothing")
                    wait_pictures(player, len(sent))
                    got = pictures(player)
                    self.assertEqual([tag.payload for tag in got], [tag.payload for tag in sent])
                    self.assertEqual([tag.timestamp - got[0].timestamp for tag in got], [time - start for time in times])
            self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)


def shown_at(tag):
    return tag.timestamp + int.from_bytes(tag.payload[2:5], "big", signed=True)


def pictures(player):
    return [tag for tag in list(player.tags) if tag.type == flv.VIDEO and tag.is_frame]


def wait_pictures(player, count):
    harness.wait_until(lambda: len(pictures(player)) >= count, "%d pictures" % count)


class FfmpegTracksTest(unittest.TestCase):
    """A current ffmpeg publishes two videos with B-frames and two audios, and reads all of them again."""

    def test_two_videos_two_audios(self):
        ffmpeg = harness.find_current_ffmpeg()
        if not ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        folder = self.enterContext(tempfile.TemporaryDirectory())
        media = harness.make_media(ffmpeg, test_tracks.MEDIA)
        wait = settings.long_wait(self.addCleanup)
        readers = {}

        def read(way, source):
            readers[way] = harness.frame_hashes(ffmpeg, source, os.path.join(folder, way))
            self.addCleanup(readers[way].kill)

        with Daemon(*wait.options, listen=LISTEN) as daemon:
            read("sent", media)
            read("rtmp", rtmp.url(daemon, NAME + "?tracks=all"))
            read("http", daemon.url(NAME))
            with contextlib.closing(harness.Player(daemon, NAME)) as player:
                daemon.wait_player(NAME, 3)
                publisher = harness.Ffmpeg(ffmpeg, "-copyts", "-i", media, "-map", "0", "-c", "copy", "-f", "flv",
                                           rtmp.url(daemon, NAME))
                self.addCleanup(publisher.kill)
                publisher.wait()
                settings.end_wait(wait, daemon)
                for reader in readers.values():
                    reader.wait()
                tracks = {(kind, track) for _, kind, track, *_ in multitrack.split_all(player.tags)}
            self.assertEqual(tracks, {(flv.VIDEO, 0), (flv.VIDEO, 1), (flv.AUDIO, 0), (flv.AUDIO, 1)})
            self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
            self.assertEqual(daemon.complaints(), [])
        sent = test_tracks.FfmpegTest.read(os.path.join(folder, "sent"))
        self.assertEqual([len(sent[number]) for number in (0, 1)], [75, 75])
        for way in ("rtmp", "http"):
            with self.subTest(way):
                got = test_tracks.FfmpegTest.read(os.path.join(folder, way))
                harness.check_same(sorted(got.items()), sorted(sent.items()))


if __name__ == "__main__":
    harness.main()
