"""What players receive is, packet for packet, what was published: told by ffmpeg's framemd5.

All cases run at once through one daemon. For each, one player comes before the publisher and has to get every packet;
another comes in the middle and has to get every packet from a key frame on. The publisher is an ffmpeg that copies the
file it is fed with; it is fed faster than real time, and held in the middle until the second player is there.
"""

import concurrent.futures
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import flv
import harness
import settings
from harness import AAC, H264, VIDEO, tone

# One case's times pass 24 bits after 7.2 s; the second players come after half of the time.
SECONDS = 20
SPEED = 6  # How much faster than real time.
STEP = 200  # Milliseconds of media that are fed at a time.
GROUP = 2000  # Milliseconds between key frames.


class Case:
    """A stream: how it is made, how it is published, and what became of it."""

    def __init__(self, name, protocol, media, current=False, window=0):
        self.name, self.stream, self.protocol, self.media, self.current = name, "live/" + name, protocol, media, current
        self.window = window  # Milliseconds.
        self.ffmpeg = self.file = self.failure = None
        self.publisher = self.early = self.late = None
        self.tags = []
        self.in_middle, self.go_on = threading.Event(), threading.Event()
        self.dropped = self.copied = 0

    def prepare(self, folder):
        self.file = harness.make_media(self.ffmpeg, self.media)
        with open(self.file, "rb") as file:
            self.tags = flv.parse(file.read())
        reference = harness.frame_hashes(self.ffmpeg, self.file, self.path(folder, "sent"))
        try:
            reference.wait()
        finally:
            reference.kill()

    def path(self, folder, what):
        return os.path.join(folder, "%s.%s.framemd5" % (self.name, what))

    def feed(self):
        """Writes the file into the publisher, a step of time after the other. Runs in a thread."""
        origin = next(tag.timestamp for tag in self.tags if tag.is_frame)
        begun, waited, step = time.monotonic(), 0.0, []
        middle = origin + SECONDS * 500
        with contextlib.suppress(BrokenPipeError), self.publisher.process.stdin as pipe:
            pipe.write(flv.header(0))
            for tag in self.tags:
                if step and tag.timestamp >= step[0].timestamp + STEP:
                    pipe.write(b"".join(tag.pack() for tag in step))
                    pipe.flush()
                    step = []
                    time.sleep(max((tag.timestamp - origin) / 1000 / SPEED - (time.monotonic() - begun - waited), 0))
                    if tag.timestamp >= middle and not self.in_middle.is_set():
                        held = time.monotonic()
                        self.in_middle.set()
                        self.go_on.wait()
                        waited += time.monotonic() - held
                step.append(tag)
            pipe.write(b"".join(tag.pack() for tag in step))


def media(video, audio, rate=48000, more=""):
    return " ".join([VIDEO if video else "", tone(rate) if audio else "", "-t %d" % SECONDS, video, audio, more])


H265 = "-c:v libx265 -preset ultrafast -x265-params keyint=50:log-level=error -pix_fmt yuv420p"
AV1 = "-c:v libsvtav1 -preset 11 -g 50 -pix_fmt yuv420p"
VP9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -pix_fmt yuv420p"

CASES = [
    Case("h264_aac", "http", media(H264, AAC)),
    Case("video_only", "flv", media(H264, "")),
    Case("audio_only", "http", media("", AAC)),
    Case("b_frames", "flv", media(H264.replace("-bf 0", "-bf 2"), AAC)),
    Case("three_hours", "http", media(H264, AAC, more="-output_ts_offset 10800")),
    Case("beyond_24_bits", "flv", media(H264, AAC, more="-output_ts_offset 16770")),
    Case("h264_mp3", "http", media(H264, "-c:a libmp3lame -b:a 64k", 44100)),
    Case("h264_g711", "flv", media(H264, "-c:a pcm_alaw", 8000)),
    Case("gathered_h264_aac", "http", media(H264, AAC), window=350),
    Case("gathered_b_frames", "flv", media(H264.replace("-bf 0", "-bf 2"), AAC), window=20),
    Case("gathered_audio_only", "http", media("", AAC), window=350),
    Case("current_h264_aac", "flv", media(H264, AAC), True),
    Case("hevc_aac", "http", media(H265, AAC), True),
    Case("hevc_aac_raw", "flv", media(H265, AAC), True),
    Case("av1_opus", "flv", media(AV1, "-c:a libopus"), True),
    Case("vp9_aac", "http", media(VP9, AAC), True),
    Case("opus_only", "flv", media("", "-c:a libopus"), True),
]


def start(case, daemon):
    """Starts the case's publisher and its feeder."""
    if case.protocol == "http":
        target = ["-method", "POST", daemon.url(case.stream)]
    else:
        listeners = [other for other in CASES if other.protocol == "flv"]
        target = ["tcp://%s:%d" % daemon.address("flv", listeners.index(case))]
    case.publisher = harness.Ffmpeg(case.ffmpeg, "-copyts", "-f", "flv", "-i", "pipe:0", "-c", "copy", "-f", "flv",
                                    *target, stdin=subprocess.PIPE)
    threading.Thread(target=case.feed, daemon=True).start()


def attend(cases, daemon, folder):
    """Sees all cases through: lets the second player of each in, and notes what the API says meanwhile."""
    deadline = time.monotonic() + 2 * harness.PATIENCE
    while any(case.publisher.process.poll() is None for case in cases):
        state = daemon.api()
        streams = {stream["name"]: stream for stream in state["streams"]}
        for case in cases:
            stream = streams.get(case.stream)
            if stream:
                case.dropped = max(case.dropped, stream["frames_dropped"])
                case.copied = max(case.copied, state["pool"]["payload_bytes_copied"])
        for player in state["players"]:
            of_stream = next(case for case in cases if case.stream == player["stream"])
            of_stream.dropped = max(of_stream.dropped, player["frames_dropped"])
        for case in cases:
            stream = streams.get(case.stream)
            if case.in_middle.is_set() and case.late is None:
                case.late = harness.frame_hashes(case.ffmpeg, daemon.url(case.stream), case.path(folder, "late"))
            if case.late and stream and stream["subscribers"] == 2:
                case.go_on.set()
        if time.monotonic() > deadline:
            raise AssertionError("not done: %s" % [(case.name, streams.get(case.stream)) for case in cases
                                                   if case.publisher.process.poll() is None])
        time.sleep(0.05)


def conclude(case):
    """Waits for the case's programs; keeps what went wrong for its own test."""
    try:
        for process in (case.publisher, case.early, case.late):
            if process is None:
                raise AssertionError("the publisher ended before its middle: " + case.publisher.complaints())
            process.wait()
    except AssertionError as error:
        case.failure = str(error)


class IdentityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        system, current = harness.find_ffmpeg(), harness.find_current_ffmpeg()
        for case in CASES:
            case.ffmpeg = current if case.current else system
        cases = [case for case in CASES if case.ffmpeg]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as workers:
            list(workers.map(lambda case: case.prepare(cls.folder), cases))
        listen = ["--http", "127.0.0.1:0"]
        for case in CASES:
            if case.protocol == "flv":
                listen += ["--flv", "127.0.0.1:0=" + case.stream]
        windows = [word for case in CASES if case.window
                   for word in ("--merge-window", "%s=%d" % (case.stream, case.window))]
        wait = settings.long_wait(cls.addClassCleanup)
        with harness.Daemon(*wait.options, "--idle", "60", *windows, listen=listen) as daemon:
            try:
                cls.run_cases(cases, daemon, wait)
            finally:
                for case in cases:
                    case.go_on.set()
                    for process in (case.publisher, case.early, case.late):
                        if process:
                            process.kill()
            daemon.blocks_settled()
            cls.complaints = daemon.complaints()

    @classmethod
    def run_cases(cls, cases, daemon, wait):
        for case in cases:
            case.early = harness.frame_hashes(case.ffmpeg, daemon.url(case.stream), case.path(cls.folder, "early"))
            daemon.wait_player(case.stream)
            start(case, daemon)
        attend(cases, daemon, cls.folder)
        settings.end_wait(wait, daemon)
        for case in cases:
            conclude(case)

    def read(self, case, what):
        with open(case.path(self.folder, what), encoding="ascii") as file:
            return harness.packets(file.read())

    def check(self, case):
        if not case.ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        if case.failure:
            self.fail(case.failure)
        sent = self.read(case, "sent")
        self.assertGreaterEqual(len(sent), SECONDS * 25)
        harness.check_same(self.read(case, "early"), sent)
        self.check_late(case, sent, self.read(case, "late"))
        self.assertEqual(case.dropped, 0, "frames dropped")
        self.assertEqual(case.copied, 0, "payload bytes copied")

    def check_late(self, case, sent, late):
        kinds = {kind for kind, _, _ in sent}
        self.assertEqual({kind for kind, _, _ in late}, kinds)
        begun = {}
        for kind in kinds:
            whole = [packet for packet in sent if packet[0] == kind]
            part = [packet for packet in late if packet[0] == kind]
            harness.check_same(part, whole[-len(part):])
            begun[kind] = part[0][1]
            self.assertGreater(begun[kind], whole[0][1] + SECONDS * 250, "it came in the middle")
        if "video" in kinds:
            self.assertIn(begun["video"], {tag.timestamp for tag in case.tags if tag.is_key_frame})
            self.assertLessEqual(max(begun.values()) - min(begun.values()), GROUP)

    def test_no_complaints(self):
        self.assertEqual(self.complaints, [])


for a_case in CASES:
    setattr(IdentityTest, "test_" + a_case.name, lambda self, case=a_case: self.check(case))


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    harness.main()
