"""FLV and RTSP in, FLV and RTSP out: what players decode is what was published, at the same times. By RTMP, too.

All cases run at once through one daemon. Each is published twice by ffmpeg, in FLV by HTTP and by RTSP, in real time,
since that is what RTSP's clocks are about; and each of the two streams is played in both ways, by players that came
first, and for some cases by players that come in the middle. B-frames, HEVC and Opus are published and played by RTMP as well.
"""

import bisect
import concurrent.futures
import os
import shutil
import statistics
import tempfile
import time
import unittest

import harness
import rtmp
import settings
from harness import AAC, H264, VIDEO, tone

# After 30 s ffmpeg keeps its RTSP sessions alive.
SECONDS = int(os.environ.get("SLUICE_TEST_SECONDS", 40))
GROUP = 50  # Pictures.
# ffmpeg forgets the times of the first pictures that come by RTP in several packets, and guesses them.
GUESSED = 2
# Seconds. FLV's milliseconds are rounded at both ends, by half of one each time; RTP's clock has 90,000 units at best.
APART = 0.001 + 1 / 90000
# What a decoder of Opus is to skip at the beginning. RTP does not say it, so ffmpeg may be off by it.
SKIPPED = 312 / 48000
# ffmpeg's RTP muxer gathers audio frames, and never sends those it has when the stream ends.
GATHERED = 8
# Audio frames that may pass while a player asks for one track after the other.
JOINING = 25
WAYS = ("flv", "rtsp")
ALL_WAYS = (*WAYS, "rtmp")
H265 = "-c:v libx265 -preset ultrafast -x265-params keyint=50:log-level=error -pix_fmt yuv420p"


def media(video, audio, rate=48000):
    return " ".join([VIDEO if video else "", tone(rate) if audio else "", "-t %d" % SECONDS, video, audio])


class Case:
    def __init__(self, name, arguments, current=False, late=False, ways=WAYS):
        self.name, self.media, self.current, self.late, self.ways = name, arguments, current, late, ways
        self.ffmpeg = self.file = self.failure = None
        self.players, self.publishers = {}, {}
        self.joined = {}  # Of late players: how many pictures had come before one and when it was playing.
        self.copied = self.dropped = 0

    def stream(self, way):
        return "live/%s-%s" % (self.name, way)

    def path(self, folder, what):
        return os.path.join(folder, "%s.%s" % (self.name, what))


CASES = [
    Case("h264_aac", media(H264, AAC), late=True),
    Case("b_frames", media(H264.replace("-bf 0", "-bf 2"), AAC, 44100), late=True, ways=ALL_WAYS),
    Case("video_only", media(H264, "")),
    Case("audio_only", media("", AAC)),
    Case("g711", media(H264, "-c:a pcm_alaw", 8000)),
    Case("hevc_aac", media(H265, AAC), True, ways=ALL_WAYS),
    Case("h264_opus", media(H264, "-c:a libopus"), True, ways=ALL_WAYS),
]


def decode(case, source, target):
    """An ffmpeg that writes each frame's time and hash, when it is decoded and as it came."""
    transport = ["-rtsp_transport", "tcp"] if source.startswith("rtsp") else []
    return harness.Ffmpeg(case.ffmpeg, *transport, "-i", source, "-map", "0", "-fps_mode", "passthrough",
                          "-enc_time_base:v", "1:90000", "-f", "framemd5", target + ".decoded",
                          "-map", "0", "-c", "copy", "-f", "framemd5", target + ".copied")


def read(path):
    """What framemd5 wrote: for each kind of track, the frames' times in seconds and their hashes."""
    kinds, bases, times, hashes = {}, {}, {}, {}
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("#media_type ") or line.startswith("#tb "):
                name, _, value = line.partition(" ")
                stream, _, value = value.partition(": ")
                if name == "#tb":
                    above, _, below = value.partition("/")
                    bases[stream] = int(above) / int(below)
                else:
                    kinds[stream] = value.strip()
            elif not line.startswith("#"):
                stream, _, time_shown, _, _, digest = [word.strip() for word in line.split(",")[:6]]
                times.setdefault(kinds[stream], []).append(int(time_shown) * bases[stream])
                hashes.setdefault(kinds[stream], []).append(digest)
    return times, hashes


def nearest(times, wanted):
    """The time that is next to it; the times go up."""
    at = bisect.bisect(times, wanted)
    return min(times[max(at - 1, 0):at + 1], key=lambda one: abs(one - wanted))


class IdentityTest(unittest.TestCase):
    cases = CASES

    @classmethod
    def start(cls, *options):
        return harness.Daemon(*options, listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0"))

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        system, current = harness.find_ffmpeg(), harness.find_current_ffmpeg()
        for case in cls.cases:
            case.ffmpeg = current if case.current else system
        cls.cases = [case for case in cls.cases if case.ffmpeg]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as workers:
            list(workers.map(cls.prepare, cls.cases))
        wait = settings.long_wait(cls.addClassCleanup)
        with cls.start(*wait.options, "--idle", "60") as daemon:
            try:
                cls.run_cases(daemon)
                settings.end_wait(wait, daemon)
                cls.conclude()
            finally:
                for case in cls.cases:
                    for process in [*case.players.values(), *case.publishers.values()]:
                        process.kill()
            daemon.blocks_settled()
            cls.complaints = daemon.complaints()

    @classmethod
    def prepare(cls, case):
        case.file = harness.make_media(case.ffmpeg, case.media)
        reference = decode(case, case.file, case.path(cls.folder, "sent"))
        try:
            reference.wait()
        finally:
            reference.kill()

    @classmethod
    def run_cases(cls, daemon):
        # Those last that late players come to, which all begin before any is waited for: the streams do not wait for them.
        for case in sorted(cls.cases, key=lambda case: case.late):
            for way in case.ways:
                urls = cls.urls(daemon, case, way)
                for out in case.ways:
                    case.players[way, out] = decode(case, urls[out], case.path(cls.folder, way + "-" + out))
                daemon.wait_player(case.stream(way), len(case.ways))
                target = {"flv": ["-f", "flv", "-method", "POST"], "rtsp": ["-f", "rtsp", "-rtsp_transport", "tcp"],
                          "rtmp": ["-f", "flv"]}
                case.publishers[way] = harness.Ffmpeg(case.ffmpeg, "-re", "-i", case.file, "-c", "copy", *target[way],
                                                      cls.target_urls(daemon, case, way)[way])
        late = [(case, way) for case in cls.cases for way in case.ways if case.late]
        for case, way in late:
            cls.join(daemon, case, way)
        for case, way in late:
            cls.wait_joined(daemon, case, way)
        deadline = time.monotonic() + SECONDS + harness.PATIENCE
        while any(publisher.process.poll() is None for case in cls.cases for publisher in case.publishers.values()):
            cls.look(daemon)
            if time.monotonic() > deadline:
                raise AssertionError("not done: %s" % daemon.api()["streams"])
            time.sleep(0.1)

    @classmethod
    def conclude(cls):
        for case in cls.cases:
            try:
                for process in [*case.publishers.values(), *case.players.values()]:
                    process.wait()
            except AssertionError as error:
                case.failure = str(error)

    @classmethod
    def urls(cls, daemon, case, way):
        """Of a case's stream, by each way out."""
        name = case.stream(way)
        return {"flv": daemon.url(name), "rtsp": "rtsp://%s:%d/%s" % (*daemon.address("rtsp"), name),
                "rtmp": rtmp.url(daemon, name)}

    @classmethod
    def target_urls(cls, daemon, case, way):
        """The same, for its publisher."""
        return cls.urls(daemon, case, way)

    @classmethod
    def join(cls, daemon, case, way):
        """Players that come when the second group is under way, one by each way out."""
        for out in case.ways:
            stream = daemon.wait_stream(case.stream(way), lambda stream: stream["frames"]["video"] > GROUP + 10)
            case.joined[way, out] = stream["frames"]["video"]
            case.players[way, out, "late"] = decode(case, cls.urls(daemon, case, way)[out],
                                                    case.path(cls.folder, way + "-" + out + "-late"))

    @classmethod
    def wait_joined(cls, daemon, case, way):
        """Waits until both are playing, beside those that have been there before."""
        name = case.stream(way)
        harness.wait_until(lambda: sum(player["stream"] == name and player["frames_sent"] > 0 for player in
                                       daemon.api()["players"]) == 2 * len(case.ways), "late players of " + name)
        now = daemon.stream(name)["frames"]["video"]
        for out in case.ways:
            case.joined[way, out] = case.joined[way, out], now

    @classmethod
    def look(cls, daemon):
        state = daemon.api()
        for case in cls.cases:
            for stream in state["streams"]:
                if stream["name"] in map(case.stream, case.ways):
                    case.dropped = max(case.dropped, stream["frames_dropped"])
                    case.copied = max(case.copied, state["pool"]["payload_bytes_copied"])
            for player in state["players"]:
                if player["stream"] in map(case.stream, case.ways):
                    case.dropped = max(case.dropped, player["frames_dropped"])

    def check(self, case):
        if not case.ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        if case.failure:
            self.fail(case.failure)
        sent = case.path(self.folder, "sent")
        for way in case.ways:
            for out in case.ways:
                with self.subTest(published=way, played=out):
                    got = case.path(self.folder, way + "-" + out)
                    self.check_frames(case, sent, got, way, out)
                    self.check_times(read(sent + ".decoded")[0], read(got + ".decoded")[0],
                                     SKIPPED if "opus" in case.name and out == "rtsp" else 0)
                    if case.late:
                        self.check_late(case, sent, got + "-late", way, out)
        self.assertEqual(case.dropped, 0, "frames dropped")
        self.assertEqual(case.copied, 0, "payload bytes copied")

    def check_frames(self, case, sent, got, way, out):
        frames, played = read(sent + ".decoded")[1], read(got + ".decoded")[1]
        packets, came = read(sent + ".copied")[1], read(got + ".copied")[1]
        self.assertEqual(set(played), set(frames))
        for kind in frames:
            most = GATHERED if way == "rtsp" and kind == "audio" else 0
            begin = 0
            if kind == "audio" and out == "rtsp":
                # It begins when the player has asked for everything, or with the first key picture.
                begin = packets[kind].index(came[kind][0])
                self.assertLess(begin, JOINING)
            if kind == "audio" and (begin or "opus" in case.name):
                # Decoders of AAC make noise from all that came before, and what a decoder of Opus is to skip at the
                # beginning, RTP does not say. So the packets must be the same.
                self.check_part(came[kind], packets[kind][begin:], most, kind)
            else:
                self.check_part(played[kind], frames[kind], most, kind)

    def check_part(self, got, sent, missing, kind):
        self.assertIn(len(sent) - len(got), range(missing + 1), kind)
        harness.check_same(got, sent[:len(got)], kind)

    def check_late(self, case, sent, got, way, out):
        """It begins with a key picture, within a group of what was live; and from there on nothing is missing."""
        frames, played = read(sent + ".decoded")[1], read(got + ".decoded")[1]
        begin = frames["video"].index(played["video"][0])
        least, most = case.joined[way, out]
        self.assertEqual(begin % GROUP, 0)
        self.assertIn(begin, range(least - GROUP, most + 1))
        self.check_part(played["video"], frames["video"][begin:], 0, "video")
        packets, came = read(sent + ".copied")[1]["audio"], read(got + ".copied")[1]["audio"]
        begin = packets.index(came[0])
        self.check_part(came, packets[begin:], GATHERED if way == "rtsp" else 0, "audio")

    def check_times(self, sent, got, skipped):
        """Every frame is where it was, on one clock for both tracks: that of the video, or else of the audio."""
        first = "video" if "video" in sent else "audio"
        counted = got[first][GUESSED:]
        if first == "video":
            apart = [other - one for one, other in zip(sent[first][GUESSED:], counted)]
        else:
            # Some of the source's frames may be before the first.
            shift = counted[0] - sent[first][GUESSED]
            apart = [other - nearest(sent[first], other - shift) for other in counted]
        clock = statistics.median(apart)
        for kind, times in sent.items():
            apart_most = APART + skipped * (kind == "audio")
            for other in got[kind][GUESSED:]:
                self.assertLessEqual(abs(nearest(times, other - clock) - (other - clock)), apart_most,
                                     "%s at %.4f; video and its source: %s" % (kind, other - clock, apart[:5]))

    def test_no_complaints(self):
        """Besides of clients that close with answers unread: that resets the connection, which may be noticed by what is sent next."""
        self.assertEqual([line for line in self.complaints if line.fields.get("reason") != "connection lost"], [])


for a_case in CASES:
    setattr(IdentityTest, "test_" + a_case.name, lambda self, case=a_case: self.check(case))


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    harness.main()
