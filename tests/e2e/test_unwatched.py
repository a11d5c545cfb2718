"""Streams without players: their publishers are read at intervals, nothing is lost, and a player sees nothing of it."""

import glob
import tempfile
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher

# A stream is read at intervals from the rate tick on that finds its tracks known, a second or two after its first frame.
SETTLED_SECONDS = 3
MOST_PAUSE = 3.5  # Seconds: five ticks without a byte take four at least.
FRAMES = 300
PAUSE = 0.01


def count_sleeps(daemon):
    """How often the worker has gone to sleep, as the kernel counts it. The control plane's timers are not counted."""
    for path in glob.glob("/proc/%d/task/*/status" % daemon.process.pid):
        with open(path, encoding="ascii") as status:
            fields = dict(line.split(":", 1) for line in status)
        if fields["Name"].split()[0] == "worker":
            return int(fields["voluntary_ctxt_switches"])
    raise AssertionError("the daemon has no thread named worker")


class Source:
    """A publisher that sends frames one by one, in real time."""

    def __init__(self, daemon, name=None, protocol="flv"):
        self.publisher = Publisher(daemon, name, protocol)
        self.name = self.publisher.name
        self.sent = flv.first_tags()
        self._frames = flv.frames()
        self.publisher.send(flv.header() + b"".join(tag.pack() for tag in self.sent))

    def send(self, count):
        for _ in range(count):
            tag = next(self._frames)
            self.publisher.send(tag)
            self.sent.append(tag)
            time.sleep(PAUSE)

    def settle(self):
        """Long enough that it is read at intervals."""
        end = time.monotonic() + SETTLED_SECONDS
        while time.monotonic() < end:
            self.send(1)


class UnwatchedTest(unittest.TestCase):

    def test_few_wake_ups(self):
        """Seen from outside: frames 10 ms apart wake up nothing but ten reads a second."""
        with Daemon("--unwatched-interval", "100", "--workers", "1") as daemon:
            source = Source(daemon)
            source.settle()
            before = count_sleeps(daemon)
            source.send(FRAMES)
            self.assertLess(count_sleeps(daemon) - before, FRAMES // 2)
            self.assertEqual(daemon.stream(source.name)["receive_interval_ms"], 100)
            self.assertRegex(daemon.admin("GET", "/metrics")[2].decode(), r"\nsluice_streams_at_interval 1\b")
            source.publisher.finish()

    def test_silence(self):
        """A publisher that sends nothing is not read at all."""
        with Daemon("--unwatched-interval", "100", "--workers", "1") as daemon:
            source = Source(daemon)
            interval = lambda: daemon.stream(source.name)["receive_interval_ms"]
            source.settle()
            self.assertEqual(interval(), 100)
            harness.wait_until(lambda: interval() == 0, "the interval's end")
            before = count_sleeps(daemon)
            time.sleep(SETTLED_SECONDS)
            self.assertLess(count_sleeps(daemon) - before, SETTLED_SECONDS * 10)
            self.assertEqual(interval(), 0)
            source.settle()
            self.assertEqual(interval(), 100)
            source.publisher.finish()

    def test_pause(self):
        """One that sends nothing for a moment is not silent yet: on a full core it may be read that late."""
        with Daemon("--unwatched-interval", "100", "--workers", "1") as daemon:
            source = Source(daemon)
            source.settle()
            silent = 0
            while silent < MOST_PAUSE:
                state = daemon.stream(source.name)
                silent = state["publisher"]["silent_seconds"]
                if silent < MOST_PAUSE:
                    self.assertEqual(state["receive_interval_ms"], 100, f"after {silent} s")
                time.sleep(PAUSE)
            source.publisher.finish()

    def test_players_come_and_go(self):
        """Each begins with a key frame, and has every frame from there on."""
        for protocol in ("flv", "http"):
            with self.subTest(protocol), Daemon("--unwatched-interval", "100") as daemon:
                source = Source(daemon, "live/unwatched" if protocol == "http" else None, protocol)
                for _ in range(2):
                    source.settle()
                    with Player(daemon, source.name) as player:
                        source.send(60)
                        player.wait_frame(source.sent[-1])
                        self.assertEqual(daemon.stream(source.name)["receive_interval_ms"], 0)
                        frames = player.frames
                        self.assertTrue(frames[0].is_key_frame)
                        at = source.sent.index(frames[0])
                        harness.check_same(frames, [tag for tag in source.sent[at:] if tag.is_frame], "frames")
                source.publisher.finish()

    def test_recorded(self):
        """An unwatched stream is on the disk, frame for frame, with the last one."""
        with tempfile.TemporaryDirectory(prefix="sluice-unwatched-") as folder:
            with Daemon("--unwatched-interval", "100", "--record", "live/*=" + folder) as daemon:
                source = Source(daemon)
                source.settle()
                source.send(FRAMES // 4)
                source.publisher.finish()
            files = glob.glob(folder + "/**/*.flv", recursive=True)
            self.assertEqual(len(files), 1)
            with open(files[0], "rb") as file:
                tags = flv.Parser().feed(file.read())
            harness.check_same([tag for tag in tags if tag.is_frame], [tag for tag in source.sent if tag.is_frame],
                               "recorded frames")

    def test_returning(self):
        """The end of an unwatched publisher is noticed, and its name is free for the next."""
        with Daemon("--unwatched-interval", "100") as daemon:
            for name in ("live/returning", "live/returning"):
                source = Source(daemon, name, "http")
                source.settle()
                source.publisher.close()
            daemon.wait_log("publisher ended", 2)


if __name__ == "__main__":
    harness.main()
