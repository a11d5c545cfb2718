"""The time that players are told: it goes on whatever a publisher's timestamps do; and the time that publishers have."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher
from relay import RtspPlayer, Source, WebSocketPlayer, check_rising, wait_number

LISTEN = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
NAME = "live/a"
# In frames of 40 ms: an hour, a day, nearly as far as 32 bits go one way; and more than the threshold by little.
JUMPS = (90000, -90000, 2160000, -2160000, 100, -100)


class JumpTest(unittest.TestCase):
    def jump(self, way, jumps, count):
        """Players of all kinds and a recording see times that go on; the API, metrics and log say what has been done."""
        with tempfile.TemporaryDirectory() as folder:
            with Daemon("--record", "live/*=" + folder, listen=LISTEN) as daemon, contextlib.ExitStack() as stack:
                source = stack.enter_context(Source(daemon, NAME, way, 0, start=3000000))
                paused, sent = 0, time.monotonic()
                source.send(20)
                daemon.wait_stream(NAME, lambda stream: stream["frames"]["audio"] >= 20, "20 frames")
                player = stack.enter_context(Player(daemon, NAME))
                by_socket = stack.enter_context(WebSocketPlayer(daemon, NAME))
                by_rtsp = stack.enter_context(RtspPlayer(daemon, NAME))
                for number, by in enumerate(jumps):
                    source.start += by
                    source.send(20)
                    paused, sent = max(paused, time.monotonic() - sent), time.monotonic()
                    wait_number(player, source.number - 1)
                    # RTP's own clock is repaired where it is read.
                    if count:
                        self.assertEqual(daemon.stream(NAME)["publisher"]["timestamp_jumps"], number + 1)
                for other in (by_socket, by_rtsp):
                    other.wait_number(source.number - 1)
                check_rising(self, player.frames, paused)
                check_rising(self, by_socket.frames, paused)
                by_rtsp.check_rising(self, paused)
                self.check_length(player.frames, jumps, paused)
                if count:
                    self.check_compositions(player.frames)
                    daemon.check_log(len(JUMPS), "timestamps jumped", stream=NAME)
                    metrics = daemon.admin("GET", "/metrics")[2].decode()
                    self.assertIn("\nsluice_timestamp_jumps_total %d\n" % len(JUMPS), metrics)
                source.close()
                player.close()
                daemon.wait_log("recorded")
            self.check_recording(folder, jumps)

    def check_length(self, frames, jumps, paused):
        """Nothing of the jumps is left but the time that passed, which is far less than they are."""
        length = frames[-1].timestamp - frames[0].timestamp
        self.assertLess(length, (20 * (len(jumps) + 1) + 10 * len(jumps)) * 40 + len(jumps) * paused * 1000)

    def check_compositions(self, frames):
        """As the publisher has them: all the same."""
        self.assertEqual(len({frame.payload[2:5] for frame in frames[20:] if frame.type == flv.VIDEO}), 1)

    def check_recording(self, folder, jumps):
        """By ffprobe: each track's times go up, to what has been sent."""
        files = [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]
        self.assertEqual(len(files), 1)
        ffprobe = shutil.which("ffprobe")
        self.assertIsNotNone(ffprobe, "ffprobe is of the package ffmpeg: tools/install-deps test")
        for track in ("v", "a"):
            out = subprocess.run([ffprobe, "-v", "error", "-select_streams", track, "-show_entries", "packet=dts",
                                  "-of", "csv=p=0", files[0]], capture_output=True, check=True).stdout.decode()
            times = [int(line.strip(",")) for line in out.split()]
            self.assertGreaterEqual(len(times), 20 * (len(jumps) + 1) - 5)
            self.assertEqual(times, sorted(set(times)))
            self.assertLess(times[-1], 15000)

    def test_flv(self):
        self.jump("flv", JUMPS, True)

    def test_http(self):
        self.jump("http", JUMPS, True)

    def test_rtsp(self):
        """RTP's clock may go on by 10 s at once: such a gap is a camera's to have."""
        self.jump("rtsp", JUMPS[:4], False)

    def test_wrap(self):
        """What 32 bits do after 49 days is no jump, and nothing is changed."""
        first = (2 ** 32 - 400) // 40
        with Daemon(listen=LISTEN) as daemon, Source(daemon, NAME, "http", 0, start=first) as source, \
                Player(daemon, NAME) as player:
            source.send(10)
            wait_number(player, 9)
            source.start = -10
            source.send(10)
            wait_number(player, 19)
            times = [frame.timestamp for frame in player.frames if frame.type == flv.VIDEO]
            self.assertEqual(times, [(first + i) * 40 for i in range(10)] + [i * 40 for i in range(10)])
            self.assertEqual(daemon.stream(NAME)["publisher"]["timestamp_jumps"], 0)

    def test_left_alone(self):
        with Daemon("--time-jump", "0", listen=LISTEN) as daemon, Source(daemon, NAME, "http", 0) as source, \
                Player(daemon, NAME) as player:
            source.send(10)
            source.start = 100000
            source.send(10)
            wait_number(player, 19)
            self.assertEqual(player.frames[-1].timestamp, 100019 * 40)
            self.assertEqual(daemon.log("timestamps jumped"), [])


class FirstDataTest(unittest.TestCase):
    """A publisher that says something now and then, and never sends a frame, does not keep its name."""

    REASON = "frame timeout"

    def test_each_kind(self):
        with Daemon("--first-data", "1", "--idle", "600", listen=LISTEN) as daemon, \
                Publisher(daemon, "live/b", "http") as by_http, Publisher(daemon, NAME) as raw, \
                Source(daemon, "live/c", "rtsp", 0) as by_rtsp, Source(daemon, "live/d", "http", 0) as good:
            good.send(1)
            for publisher in (by_http, raw):
                publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            self.assertEqual(harness.read_head(by_http.peer)[0], 408)
            self.assertEqual(harness.read_to_end(raw.peer), b"")
            by_rtsp.check_ended(self, 0, "")
            daemon.wait_log("publisher ended", 3, reason=self.REASON)
            self.assertEqual({line.fields["stream"] for line in daemon.log("publisher ended")},
                             {"live/a", "live/b", "live/c"})
            good.send(1)
            daemon.wait_stream("live/d", lambda stream: stream["frames"]["audio"] == 2, "both frames")


if __name__ == "__main__":
    harness.main()
