"""Recording: what is written is what was sent, whatever the disk does and however it ends; and it is played by HTTP."""

import contextlib
import glob
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

import flv
import harness
import preload
from harness import Daemon, Player, Publisher

SECONDS = 8
MEDIA = "%s %s -t %d %s %s" % (harness.VIDEO, harness.tone(44100), SECONDS, harness.H264, harness.AAC)
LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0")
NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z\.flv")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def probe(path):
    """What ffprobe says of a file. Of the file: made-up frames do not please its decoders."""
    done = subprocess.run(["ffprobe", "-v", "error", "-count_packets", "-show_entries",
                           "format=duration,size:stream=codec_type,nb_read_packets", "-of", "json", path],
                          capture_output=True, check=True)
    if b"[flv @" in done.stderr:
        raise AssertionError("ffprobe complains of %s: %s" % (path, done.stderr))
    return json.loads(done.stdout)


def packets_of(path):
    """ffmpeg's packets of a file: (kind, time, hash)."""
    done = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-copyts", "-i", path, "-map", "0", "-c", "copy", "-f",
                           "framemd5", "-"], capture_output=True, check=True)
    if done.stderr:
        raise AssertionError("ffmpeg complains of %s: %s" % (path, done.stderr))
    return harness.packets(done.stdout.decode())


def numbers_behind(data, name):
    """The numbers of an AMF array in onMetaData, found by its name."""
    at = data.index(struct.pack(">H", len(name)) + name.encode() + b"\x0a") + 2 + len(name) + 1
    count = int.from_bytes(data[at:at + 4], "big")
    return [struct.unpack(">d", data[at + 4 + 9 * i + 1:at + 13 + 9 * i])[0] for i in range(count)]


def places_of(data):
    """The key frames of a file, found by walking its tags: {place: timestamp}."""
    places, at = {}, 13
    for tag in flv.parse(data):
        if tag.is_key_frame:
            places[at] = tag.timestamp
        at += 15 + len(tag.payload)
    return places


def frames_of(paths):
    """The frames of recordings, one behind the other, as (type, payload); each begins at 0 with what decoders need."""
    frames = []
    for path in paths:
        tags = flv.parse(read(path))
        first = next(tag for tag in tags if tag.is_frame)
        before = tags[:tags.index(first)]
        if tags[0].type != flv.SCRIPT or first.timestamp != 0 or any(tag.timestamp for tag in before):
            raise AssertionError("%s begins with %r" % (path, tags[:4]))
        if any(tag.type == flv.VIDEO for tag in tags) and not (first.is_key_frame and flv.VIDEO_HEADER in before):
            raise AssertionError("%s does not begin with a key frame and its header" % path)
        frames += [(tag.type, tag.payload) for tag in tags if tag.is_frame]
    return frames


def whole_frames_of(path):
    """How many there are in a file that is being written: none while its last tag is not whole."""
    try:
        return sum(tag.is_frame for tag in flv.parse(read(path)))
    except flv.Broken:
        return 0


def pairs(tags):
    return [(tag.type, tag.payload) for tag in tags if tag.is_frame]


class RecordCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def daemon(self, *options, folder=None, pattern="*", listen=LISTEN):
        return Daemon("--record", "%s=%s" % (pattern, folder or self.folder), *options, listen=listen)

    def files(self, name, suffix=".flv", folder=None):
        return sorted(glob.glob(os.path.join(glob.escape(folder or self.folder), name, "*" + suffix)))

    def publish(self, daemon, data, name="live/cam", count=1):
        """A whole stream, and waits until it has been recorded."""
        with Publisher(daemon, name, "http") as publisher:
            publisher.send(data)
            self.assertEqual(publisher.finish(), 200)
        self.wait_recorded(daemon, count)

    @staticmethod
    def wait_recorded(daemon, count=1):
        daemon.wait_log("recorded", count)


class RecordTest(RecordCase):
    def test_what_is_sent_is_recorded(self):
        file = harness.make_media("ffmpeg", MEDIA)
        with self.daemon() as daemon:
            self.publish(daemon, read(file))
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])
        [recorded] = self.files("live/cam")
        self.assertRegex(os.path.basename(recorded), NAME)
        harness.check_same(packets_of(recorded), packets_of(file))
        shown = probe(recorded)
        self.assertEqual({stream["codec_type"] for stream in shown["streams"]}, {"video", "audio"})
        self.assertAlmostEqual(float(shown["format"]["duration"]), SECONDS, delta=0.1)
        self.assertEqual(self.files("live/cam", ".part"), [])

    def test_size_without_metadata(self):
        """Without onMetaData the API and the recording have the pictures' size by the SPS: of H.264 and HEVC."""
        ffmpeg = harness.find_current_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg that knows Enhanced RTMP")
        video = harness.VIDEO.replace("320x180", "334x186")
        for codec, options in (("h264", harness.H264), ("hevc", "-c:v libx265 -preset ultrafast -x265-params "
                               "keyint=25:log-level=none -pix_fmt yuv420p")):
            name = "live/" + codec
            tags = [tag for tag in flv.parse(read(harness.make_media(ffmpeg, "%s -t 2 %s" % (video, options))))
                    if tag.type != flv.SCRIPT]
            with self.daemon() as daemon, Publisher(daemon, name, "http") as publisher:
                publisher.send(flv.header(flv.HAS_VIDEO) + b"".join(tag.pack() for tag in tags))
                shown = daemon.wait_stream(name, lambda stream: stream["frames"]["video"] > 10, "frames")["video"]
                self.assertEqual((shown["codec"], shown["width"], shown["height"]), (codec, 334, 186))
                self.assertEqual(publisher.finish(), 200)
                self.wait_recorded(daemon)
            [path] = self.files(name)
            data = read(path)
            for key, size in ((b"width", 334), (b"height", 186)):
                self.assertEqual(data.partition(key)[2][:9], b"\0" + struct.pack(">d", size))

    def test_rtsp_is_recorded_as_players_get_it(self):
        file = harness.make_media("ffmpeg", MEDIA.replace("-t %d" % SECONDS, "-t 3"))
        with self.daemon(listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")) as daemon:
            with Player(daemon, "live/cam") as player:
                publisher = harness.Ffmpeg("ffmpeg", "-i", file, "-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp",
                                           "rtsp://%s:%d/live/cam" % daemon.address("rtsp"))
                try:
                    publisher.wait()
                finally:
                    publisher.kill()
                self.wait_recorded(daemon)
                [recorded] = self.files("live/cam")
                frames = [tag for tag in flv.parse(read(recorded)) if tag.is_frame]
                player.wait(lambda one: len(one.frames) >= len(frames), "its frames")
                start = player.frames[0].timestamp
                harness.check_same([tag._replace(timestamp=max(tag.timestamp - start, 0)) for tag in player.frames],
                                   frames)
        self.assertEqual([stream["nb_read_packets"] for stream in probe(recorded)["streams"]
                          if stream["codec_type"] == "video"], ["75"])

    def test_segments_by_time_join_without_loss(self):
        data, tags = flv.stream(1000, gop=25, start=5000)
        with self.daemon("--record-segment", "2") as daemon:
            self.publish(daemon, data, count=10)
            daemon.blocks_settled()
        files = self.files("live/cam")
        self.assertEqual(len(files), 10)
        harness.check_same(frames_of(files), pairs(tags))
        for path in files:
            shown = probe(path)
            self.assertAlmostEqual(float(shown["format"]["duration"]), 2, delta=0.05)

    def test_segments_by_size_join_without_loss(self):
        data, tags = flv.stream(600, gop=10, size=4000)
        with self.daemon("--record-size", "200K") as daemon:
            self.publish(daemon, data, count=5)
        files = self.files("live/cam")
        harness.check_same(frames_of(files), pairs(tags))
        for path in files[:-1]:
            self.assertGreaterEqual(os.path.getsize(path), 200 << 10)
            self.assertLess(os.path.getsize(path), 300 << 10)

    def test_sound_alone_is_cut_by_time(self):
        data, tags = flv.stream(250, video=False)
        with self.daemon("--record-segment", "3") as daemon:
            self.publish(daemon, data, count=4)
        files = self.files("live/cam")
        self.assertEqual(len(files), 4)
        harness.check_same(frames_of(files), pairs(tags))

    def test_time_that_goes_back_begins_a_new_file(self):
        data, tags = flv.stream(100, start=500000)
        again = [tag for tag, _ in zip(flv.frames(start=0, first=50), range(100))]
        with self.daemon("--time-jump", "0") as daemon:
            self.publish(daemon, data + b"".join(tag.pack() for tag in again), count=2)
        files = self.files("live/cam")
        self.assertEqual(len(files), 2)
        harness.check_same(frames_of(files), pairs(tags + again))

    def test_the_index_names_each_key_frame(self):
        file = harness.make_media("ffmpeg", MEDIA)
        with self.daemon() as daemon:
            self.publish(daemon, read(file))
        [recorded] = self.files("live/cam")
        data = read(recorded)
        places = places_of(data)
        self.assertEqual(len(places), SECONDS // 2)
        self.assertEqual(numbers_behind(data, "filepositions"), list(places))
        self.assertEqual(numbers_behind(data, "times"), [time_shown / 1000 for time_shown in places.values()])
        done = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-ss", "5", "-noaccurate_seek", "-copyts", "-i",
                               recorded, "-map", "0:v", "-c", "copy", "-frames:v", "1", "-f", "framemd5", "-"],
                              capture_output=True, check=True)
        [(_, start, _)] = harness.packets(done.stdout.decode())
        self.assertEqual(start, sorted(places.values())[2])

    def test_more_key_frames_than_there_is_room_for(self):
        """A segment of 60 s has room for 64 of them: of 600, every sixteenth is kept."""
        data, _ = flv.stream(1200, gop=1, step=40, size=100)
        with self.daemon("--record-segment", "60") as daemon:
            self.publish(daemon, data)
        [recorded] = self.files("live/cam")
        data = read(recorded)
        places = places_of(data)
        kept = numbers_behind(data, "filepositions")
        self.assertEqual(len(places), 600)
        self.assertTrue(32 <= len(kept) <= 64, kept)
        self.assertEqual([places[place] / 1000 for place in kept], numbers_behind(data, "times"))
        steps = {int(later - time_shown) for time_shown, later in zip(numbers_behind(data, "times"),
                                                                     numbers_behind(data, "times")[1:])}
        self.assertLessEqual(max(steps), 2)

    def test_a_recording_is_readable_while_it_is_written(self):
        data, tags = flv.stream(400)
        with self.daemon() as daemon, Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            [part] = harness.wait_until(lambda: self.files("live/cam", ".part"), "a part")
            harness.wait_until(lambda: whole_frames_of(part) == len(pairs(tags)), "all of it")
            harness.check_same(frames_of([part]), pairs(tags))
            shown = probe(part)
            self.assertEqual([stream["nb_read_packets"] for stream in shown["streams"]], ["200", "200"])
            recording = daemon.stream("live/cam")["recording"]
            self.assertEqual(recording["state"], "recording")
            self.assertEqual(recording["file"] + ".part", os.path.relpath(part, self.folder))
            self.assertEqual(recording["frames"], 400)
            self.assertEqual((recording["files"], recording["frames_dropped"], recording["error"]), (1, 0, None))
            publisher.finish()
            self.wait_recorded(daemon)

    def test_only_what_matches_is_recorded(self):
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        data, _ = flv.stream(20)
        with self.daemon("--record", "tv/*=" + other, pattern="live/*") as daemon:
            self.publish(daemon, data, "live/a")
            self.publish(daemon, data, "tv/b", count=2)
            with Publisher(daemon, "radio/c", "http") as publisher:
                publisher.send(data)
                self.assertIsNone(daemon.wait_stream("radio/c")["recording"])
        self.assertEqual(len(self.files("live/a")), 1)
        self.assertEqual(len(self.files("tv/b", folder=other)), 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["live", "other"])

    def test_modes_of_what_is_made(self):
        """0640 in 0750, less the umask; a folder that is there stays as it is."""
        data, _ = flv.stream(20)
        os.makedirs(os.path.join(self.folder, "there"))
        os.chmod(os.path.join(self.folder, "there"), 0o777)
        os.chmod(self.folder, 0o755)
        modes = lambda *names: [os.stat(os.path.join(self.folder, *name.split("/"))).st_mode & 0o777 for name in names]
        for mask, name, folder, file in ((0, "a/b", 0o750, 0o640), (0o077, "c/d", 0o700, 0o600), (0, "there/b", 0o750, 0o640)):
            before = os.umask(mask)
            try:
                running = self.daemon()
            finally:
                os.umask(before)
            with running as daemon:
                self.publish(daemon, data, name)
                [path] = self.files(name)
                self.assertEqual(modes(name, os.path.relpath(path, self.folder)), [folder, file], name)
        self.assertEqual(modes("a", "c", "there"), [0o750, 0o700, 0o777])
        self.assertEqual(os.stat(self.folder).st_mode & 0o777, 0o755)

    def test_names_of_all_kinds(self):
        names = ["x", "a.b-c_d/..e", "A/b/C/d", "/".join(["n" * 64] * 4), "live/cam.flv", "live/2026.flv.part", "-rf/--",
                 "a%20b", "a/../b", ".hidden", "a/./b"]
        data, _ = flv.stream(10)
        count = 0
        with self.daemon() as daemon:
            for name in names:
                with Publisher(daemon, name, "http") as publisher:
                    publisher.send(data)
                    with contextlib.suppress(OSError):
                        count += publisher.finish() == 200
            self.wait_recorded(daemon, count)
        found = [os.path.relpath(folder, self.folder) for folder, _, files in os.walk(self.folder) if files]
        self.assertEqual(sorted(found), sorted(["x", "A/b/C/d", "/".join(["n" * 64] * 4), "live/cam.flv",
                                                "live/2026.flv.part", "-rf/--"]))

    def test_a_stop_completes_recordings(self):
        with self.daemon() as daemon:
            with harness.Steady(daemon, name="live/raw") as steady:
                steady.go_on(50)
                steady.abandon()
                daemon.stop()
        files = self.files("live/*")
        self.assertEqual(len(files), 1)
        self.assertEqual(frames_of(files), pairs(steady.sent)[:len(frames_of(files))])
        self.assertGreater(float(probe(files[0])["format"]["duration"]), 0)

    def test_directories_that_cannot_be(self):
        plain = os.path.join(self.folder, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        for option in ("nothing", "=x", "a="):
            status, _, errors = harness.run_daemon("--record", option)
            self.assertEqual(status, 2)
            self.assertIn("--record: expected PATTERN=DIRECTORY", errors)
        # A pattern is a name with stars, as everywhere, and nothing else.
        for pattern in ("live/?", "live/[ab]", "live//a", "live/\\*", "!a", "a b"):
            status, _, errors = harness.run_daemon("--record", pattern + "=" + self.folder)
            self.assertEqual(status, 2)
            self.assertIn("in which * stands for any characters, and nothing else", errors)
        for path in (plain, os.path.join(self.folder, "missing")):
            status, _, errors = harness.run_daemon("--flv", "127.0.0.1:0", "--record", "*=" + path)
            self.assertEqual(status, 1)
            self.assertIn("cannot record", errors)


class CrashTest(RecordCase):
    def test_recordings_survive_a_kill(self):
        """Under load, again and again: what is there is readable to the last whole tag, and complete after the start."""
        sent = []
        for number in range(3):
            with self.daemon("--record-segment", "1") as daemon:
                steady = harness.Steady(daemon, pause=0.0005, name="live/raw", first=number * 100000)
                with steady:
                    steady.go_on(300)
                    steady.abandon()
                    daemon.kill()
                sent += pairs(steady.sent)
        # More than one, where some were being completed beside the next one.
        parts = {part[:-len(".part")]: pairs(flv.Parser().feed(read(part))) for part in self.files("live/*", ".part")}
        self.assertGreaterEqual(len(parts), 1)
        with self.daemon() as daemon:
            harness.wait_until(lambda: len(daemon.log("recording repaired") + daemon.log(
                "empty recording removed") + daemon.log("recording damaged")) == len(parts), "all parts' repair")
            self.assertEqual(self.files("live/*", ".part"), [])
            # What ends within its first frame has a byte of media: it is kept, and there is nothing to play.
            for line in daemon.complaints():
                self.assertEqual((line["event"], line["frames_salvaged"]), ("recording damaged", "0"))
        files = self.files("live/*")
        for path in files:
            shown = probe(path)
            self.assertEqual(int(shown["format"]["size"]), os.path.getsize(path))
            data = read(path)
            self.assertEqual(numbers_behind(data, "filepositions"), list(places_of(data)))
        for path, before in parts.items():
            self.assertEqual(before, frames_of([path]) if path in files else [])
        frames = frames_of(files)
        known = {frame: place for place, frame in enumerate(sent)}
        order = [known[frame] for frame in frames]
        self.assertEqual(order, sorted(order))
        self.assertGreater(len(frames), 3 * 100)

    def test_parts_are_cut_to_the_last_whole_tag(self):
        data, tags = flv.stream(200)
        with self.daemon() as daemon:
            self.publish(daemon, data)
        [whole] = self.files("live/cam")
        good = read(whole)
        os.unlink(whole)
        ends, at = [], 13
        for tag in flv.parse(good):
            at += 15 + len(tag.payload)
            ends.append(at)
        cases = {
            0: good[:ends[99] + 1], 1: good[:ends[99] + 14], 2: good[:ends[100] - 1],
            3: good[:ends[99]] + bytes(5000), 4: good[:ends[99] + 20] + bytes(5000), 5: good[:ends[99]],
            6: good[:7], 7: b"", 8: good[:ends[0]], 9: good[:100], 10: bytes(10000)}
        for number, content in cases.items():
            self.leave(number, content)
        with open(os.path.join(self.folder, "live/cam/mine.flv.part"), "wb") as file:
            file.write(b"nobody's business")
        with self.daemon() as daemon:
            daemon.wait_log("recording repaired", 6)
            daemon.wait_log("empty recording removed", 5)
        files = self.files("live/cam")
        self.assertEqual([int(os.path.basename(path)[17:19]) for path in files], [0, 1, 2, 3, 4, 5])
        for path in files:
            self.assertEqual(os.path.getsize(path), ends[99])
            harness.check_same(frames_of([path]), pairs(tags)[:97])
            self.assertGreater(float(probe(path)["format"]["duration"]), 1.9)
        self.assertEqual([os.path.basename(path) for path in self.files("live/cam", ".part")], ["mine.flv.part"])
        self.assertEqual(self.files("live/cam", ".damaged*"), [])

    def leave(self, number, content, suffix=".part"):
        """A file as a crash leaves it behind; the path that its recording is to have."""
        path = os.path.join(self.folder, "live/cam/2026-01-01T00-00-%02d.000Z.flv" % number)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + suffix, "wb") as file:
            file.write(content)
        return path

    def recorded(self, data):
        """What a recording of it is."""
        with self.daemon() as daemon:
            self.publish(daemon, data)
        [path] = self.files("live/cam")
        good = read(path)
        os.unlink(path)
        return good

    def repair(self, parts, *logged):
        """Starts a daemon for what was left, and waits for the last line of each; what the API and /metrics count."""
        with self.daemon() as daemon:
            harness.wait_until(lambda: sum(len(daemon.log(line)) for line in logged) >= parts, "repairs")
            self.assertEqual(self.files("live/cam", ".part"), [])
            self.assertEqual(self.files("live/cam", ".salvage"), [])
            _, _, body = daemon.request("GET", "/recordings/live/cam")
            listed = [entry["file"] for entry in json.loads(body)["recordings"]]
            self.assertEqual(listed, [os.path.basename(path) for path in self.files("live/cam")])
            for path in self.files("live/cam", ".damaged*"):
                status, _, _ = daemon.request("GET", "/recordings/live/cam/" + os.path.basename(path))
                self.assertEqual(status, 404)
            repairs = daemon.api("/api/v1/recordings")["repairs"]
            _, _, text = daemon.admin("GET", "/metrics")
            for result, count in repairs.items():
                self.assertIn('sluice_recording_repairs_total{result="%s"} %d\n' % (result, count), text.decode())
            return repairs

    def test_a_damaged_first_page_loses_nothing(self):
        """10 MB of media behind a page that is gone: what was there is kept, and all frames of it can be played."""
        data, tags = flv.stream(2600, size=8200)
        good = self.recorded(data)
        self.assertGreater(len(good), 10 << 20)
        broken = {0: os.urandom(4096) + good[4096:], 1: bytes(4096) + good[4096:], 2: b"\xff" + good[1:]}
        paths = {number: self.leave(number, content) for number, content in broken.items()}
        repairs = self.repair(len(broken), "recording damaged")
        self.assertEqual(repairs, {"repaired": 3, "damaged": 3, "empty": 0})
        for number, path in paths.items():
            self.assertEqual(read(path + ".damaged"), broken[number])
            harness.check_same(frames_of([path]), pairs(tags))
            found = read(path)
            self.assertEqual(numbers_behind(found, "filepositions"), list(places_of(found)))
            self.assertEqual(int(probe(path)["format"]["size"]), len(found))

    def test_damage_in_the_middle_keeps_what_lies_behind(self):
        data, tags = flv.stream(400, gop=20, size=2000)
        good = self.recorded(data)
        ends, at = [], 13
        for tag in flv.parse(good):
            at += 15 + len(tag.payload)
            ends.append(at)
        whole = pairs(flv.parse(good))
        middle = ends[200] + 40
        cases = {
            0: good[:middle] + os.urandom(4096) + good[middle + 4096:],  # A page.
            1: good[:middle] + bytes(4096) + good[middle + 4096:],
            2: good[:ends[200] + 1] + b"\xff" + good[ends[200] + 2:],  # A size that claims all that follows.
            3: good[:middle] + good[middle + 1:],  # A byte that is missing.
            4: good[:ends[99]] + os.urandom(3000)}  # An end that is no tag's beginning.
        paths = {number: self.leave(number, content) for number, content in cases.items()}
        self.assertEqual(self.repair(len(cases), "recording damaged"),
                         {"repaired": len(cases), "damaged": len(cases), "empty": 0})
        for number, path in paths.items():
            self.assertEqual(read(path + ".damaged"), cases[number])
            frames = frames_of([path])
            self.assertEqual([frame for frame in whole if frame in frames], frames)  # In order, none made up.
            probe(path)
            if number < 4:
                self.assertGreater(len(frames), len(whole) - 30)
                self.assertEqual(frames[-1], whole[-1])
                # Behind the gap video goes on with a key frame.
                numbers = [flv.number_of(flv.Tag(kind, 0, payload)) for kind, payload in frames if kind == flv.VIDEO]
                steps = [(before, after) for before, after in zip(numbers, numbers[1:]) if after != before + 1]
                self.assertEqual([after % 20 for _, after in steps], [0])

    def test_only_what_holds_no_media_is_removed(self):
        """A byte of a frame is media; headers and metadata are none. And nothing that is kept is overwritten."""
        good = self.recorded(flv.stream(50)[0])
        ends, at = [], 13
        for tag in flv.parse(good):
            at += 15 + len(tag.payload)
            ends.append(at)
        self.assertEqual([tag.is_frame for tag in flv.parse(good)][:4], [False, False, False, True])
        noise = os.urandom(10000)
        kept = {0: good[:ends[2] + 11 + 1], 1: noise, 2: b"FLV\x01" + noise, 3: good[:ends[2]] + noise}
        gone = {10: good[:ends[2]], 11: good[:ends[2] + 11], 12: good[:ends[0] - 5], 13: good[:13], 14: bytes(100)}
        paths = {number: self.leave(number, content) for number, content in {**kept, **gone}.items()}
        self.leave(1, b"an earlier one", ".flv.damaged".replace(".flv", ""))
        self.assertEqual(self.repair(len(kept) + len(gone), "recording damaged", "empty recording removed"),
                         {"repaired": 0, "damaged": len(kept), "empty": len(gone)})
        self.assertEqual(self.files("live/cam"), [])
        self.assertEqual(read(paths[1] + ".damaged"), b"an earlier one")
        for number, content in kept.items():
            self.assertEqual(read(paths[number] + (".damaged.2" if number == 1 else ".damaged")), content)
        self.assertEqual(sorted(os.listdir(os.path.dirname(paths[0]))),
                         sorted([os.path.basename(paths[number]) + ".damaged" for number in kept] +
                                [os.path.basename(paths[1]) + ".damaged.2"]))

    def test_a_name_that_is_taken_and_a_salvage_that_was_killed(self):
        """The recording that is there stays; what a killed process has left of a salvage is made anew."""
        data, tags = flv.stream(100)
        good = self.recorded(data)
        broken = bytes(100) + good[100:]
        taken = self.leave(0, broken)
        self.leave(0, b"a recording", "")
        begun = self.leave(1, broken)
        self.leave(1, b"a beginning", ".salvage")
        self.assertEqual(self.repair(2, "recording damaged"), {"repaired": 1, "damaged": 2, "empty": 0})
        self.assertEqual((read(taken), read(taken + ".damaged")), (b"a recording", broken))
        harness.check_same(frames_of([begun]), pairs(tags))

    def test_what_another_daemon_writes_is_left_alone(self):
        with self.daemon() as daemon, harness.Steady(daemon, name="live/raw") as steady:
            [part] = harness.wait_until(lambda: self.files("live/*", ".part"), "a part")
            with self.daemon():
                pass
            steady.go_on(50)
            self.assertEqual(self.files("live/*", ".part"), [part])


class DiskTest(RecordCase):
    def mount(self, size):
        """A file system of that size; it must go before the folder that it is in."""
        folder = os.path.join(self.folder, "disk")
        os.mkdir(folder)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "tmpfs", folder], capture_output=True,
                              check=False)
        if done.returncode != 0:
            self.skipTest("no file system can be mounted: %s" % done.stderr.decode())
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def test_a_full_disk_does_not_hold_up_players(self):
        disk = self.mount(1 << 20)
        with self.daemon("--player-buffer", "1M", folder=disk) as daemon:
            with harness.Steady(daemon, pause=0.001, name="live/raw", size=8000) as steady:
                daemon.wait_log("recording paused")
                recording = lambda: daemon.stream(steady.name)["recording"]
                harness.wait_until(lambda: recording()["frames_dropped"] > 0, "frames left out")
                self.assertEqual(recording()["state"], "paused")
                self.assertEqual(recording()["error"], "No space left on device")
                self.assertLessEqual(recording()["queued_bytes"], (1 << 20) + (100 << 10))  # And the room for an index.
                subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
                daemon.wait_log("recording resumed")
                harness.wait_until(lambda: recording()["state"] == "recording", "recording")
                steady.go_on(100)
                dropped = recording()["frames_dropped"]
            self.wait_recorded(daemon)
            self.assertEqual(len(daemon.log("recording paused")), 1)
            daemon.blocks_settled()
        [path] = self.files("live/*", folder=disk)
        frames = frames_of([path])
        self.assertEqual(len(frames) + dropped, len(pairs(steady.sent)))
        # Whole groups are left out, so that what is there can be decoded.
        numbers = [flv.number_of(flv.Tag(kind, 0, payload)) for kind, payload in frames if kind == flv.VIDEO]
        for number, after in zip(numbers, numbers[1:]):
            self.assertTrue(after == number + 1 or after % 25 == 0, (number, after))
        probe(path)

    def test_what_a_full_disk_has_got_is_kept(self):
        """The stream ends while the disk is full: what was written is completed in place."""
        disk = self.mount(1 << 20)
        with self.daemon(folder=disk) as daemon:
            with harness.Steady(daemon, pause=0.001, name="live/raw", size=8000) as steady:
                daemon.wait_log("recording paused")
            daemon.wait_log("recording repaired")
            daemon.blocks_settled()
        [path] = self.files("live/*", folder=disk)
        frames = frames_of([path])
        self.assertGreater(len(frames), 100)
        harness.check_same(frames, pairs(steady.sent)[:len(frames)])
        probe(path)


class PlaybackTest(RecordCase):
    def setUp(self):
        super().setUp()
        data, _ = flv.stream(2000, size=3000)
        self.running = self.daemon()
        self.running.__enter__()
        self.addCleanup(self.running.stop)
        self.publish(self.running, data)
        [self.path] = self.files("live/cam")
        self.name = os.path.basename(self.path)
        self.url = "/recordings/live/cam/" + self.name
        self.content = read(self.path)

    def get(self, path=None, method="GET", **headers):
        return self.running.request(method, path or self.url, headers={name.replace("_", "-"): value
                                                                       for name, value in headers.items()})

    def test_the_whole_file(self):
        status, headers, body = self.get()
        self.assertEqual((status, body), (200, self.content))
        self.assertEqual(headers["Content-Length"], str(len(self.content)))
        self.assertEqual(headers["Content-Type"], "video/x-flv")
        self.assertEqual(headers["Accept-Ranges"], "bytes")
        status, head, body = self.get(method="HEAD")
        self.assertEqual((status, body, head["Content-Length"]), (200, b"", str(len(self.content))))
        self.running.blocks_settled()

    def test_ranges(self):
        size = len(self.content)
        served = {"bytes=0-0": (0, 1), "bytes=0-99": (0, 100), "bytes=5000-": (5000, size), "bytes=-1": (size - 1, size),
                  "bytes=-5000": (size - 5000, size), "bytes=100000-200000": (100000, 200001),
                  "bytes=%d-" % (size - 1): (size - 1, size), "bytes=7-%d" % (10 * size): (7, size),
                  "bytes=-%d" % (2 * size): (0, size)}
        for text, (first, end) in served.items():
            status, headers, body = self.get(Range=text)
            self.assertEqual((status, headers["Content-Range"]), (206, "bytes %d-%d/%d" % (first, end - 1, size)), text)
            self.assertTrue(body == self.content[first:end], text)
        for text in ("bytes=%d-" % size, "bytes=-0", "bytes=%d-%d" % (size + 5, size + 9)):
            status, headers, body = self.get(Range=text)
            self.assertEqual((status, headers["Content-Range"], body), (416, "bytes */%d" % size, b""), text)
        for text in ("bytes=5-3", "bytes=a-b", "bytes=", "lines=1-2", "bytes=0-1,5-9", "bytes=--5", "bytes=1",
                     "bytes=99999999999999999999-"):
            status, _, body = self.get(Range=text)
            self.assertEqual((status, len(body)), (200, size), text)
        self.assertEqual(self.get(method="HEAD", Range="bytes=0-9")[1]["Content-Length"], str(size))
        self.running.blocks_settled()

    def test_conditions(self):
        _, headers, _ = self.get(method="HEAD")
        for validator in (headers["ETag"], headers["Last-Modified"]):
            self.assertEqual(self.get(Range="bytes=0-9", If_Range=validator)[0], 206)
        for stale in ('"other"', "W/" + headers["ETag"], "Thu, 01 Jan 1970 00:00:00 GMT"):
            status, _, body = self.get(Range="bytes=0-9", If_Range=stale)
            self.assertEqual((status, len(body)), (200, len(self.content)))
        for name, value in (("If_None_Match", headers["ETag"]), ("If_None_Match", "*"),
                            ("If_Modified_Since", headers["Last-Modified"])):
            status, _, body = self.get(**{name: value})
            self.assertEqual((status, body), (304, b""))
        self.assertEqual(self.get(If_None_Match='"other"')[0], 200)

    def test_one_connection_for_many_requests(self):
        connection = self.running.connection()
        for first in range(0, len(self.content), 400000):
            connection.request("GET", self.url, headers={"Range": "bytes=%d-%d" % (first, first + 399999)})
            response = connection.getresponse()
            self.assertEqual(response.status, 206)
            self.assertTrue(response.read() == self.content[first:first + 400000])
        connection.close()
        # And all of them at once.
        request = "GET %s HTTP/1.1\r\nHost: x\r\nRange: bytes=%d-%d\r\n%s\r\n"
        with self.running.connect() as peer:
            peer.sendall("".join(request % (self.url, n * 1000, n * 1000 + 999, "Connection: close\r\n" * (n == 9))
                                 for n in range(10)).encode())
            answer = harness.read_to_end(peer)
        bodies = answer.split(b"\r\n\r\n")
        self.assertEqual(answer.count(b" 206 Partial Content"), 10)
        self.assertTrue(bodies[-1] == self.content[9000:10000])

    def test_a_slow_reader_holds_little(self):
        with self.running.connect(receive_buffer=4096) as peer:
            peer.sendall(("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % self.url).encode())
            status, _, data = harness.read_head(peer)
            self.assertEqual(status, 200)
            harness.wait_until(lambda: self.running.api()["pool"]["bytes_held"] > 200000, "blocks that wait")
            for _ in range(20):
                self.assertLess(self.running.api()["pool"]["bytes_held"], 1 << 20)
                # One that takes nothing at all is ended after a while.
                data += peer.recv(65536)
            self.assertTrue(data + harness.read_to_end(peer) == self.content)
        with self.running.connect(receive_buffer=4096) as peer:
            peer.sendall(("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % self.url).encode())
            harness.read_head(peer)
        self.running.blocks_settled()

    def test_a_file_that_gets_shorter_ends_the_connection(self):
        os.truncate(self.path, 64 << 20)  # More than sockets take.
        with self.running.connect(receive_buffer=4096) as peer:
            peer.sendall(("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % self.url).encode())
            harness.read_head(peer)
            os.truncate(self.path, 1000)
            self.assertLess(len(harness.read_to_end(peer)), 64 << 20)
        self.running.wait_log("cannot read recording")

    def test_the_list(self):
        for path in ("/recordings/live/cam", "/recordings/live/cam/"):
            status, headers, body = self.get(path)
            self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
            listed = json.loads(body)
            self.assertEqual(listed["stream"], "live/cam")
            [entry] = listed["recordings"]
            self.assertEqual((entry["file"], entry["path"], entry["bytes"]), (self.name, self.url, len(self.content)))
            self.assertIsNone(listed["next"])
        self.assertEqual(self.get("/recordings/live/none")[0], 404)
        self.assertEqual(self.get("/recordings/live/cam", "HEAD")[2], b"")

    def test_the_list_in_pages(self):
        """Each recording is on one page, in their order, however many there are; what is asked for must make sense."""
        names = [self.name] + ["%d-01-01T00-00-00.%03dZ.flv" % (year, at) for year in (1999, 2999) for at in range(750)]
        for name in names[1:]:
            with open(os.path.join(os.path.dirname(self.path), name), "wb"):
                pass
        for query, sizes in (("", [1000, 501]), ("?token=x&limit=700", [700, 700, 101]), ("?limit=1000", [1000, 501])):
            listed, pages, after = [], [], ""
            while after is not None:
                status, _, body = self.get("/recordings/live/cam" + query + after)
                self.assertEqual(status, 200)
                page = json.loads(body)
                pages.append(len(page["recordings"]))
                listed += [entry["file"] for entry in page["recordings"]]
                after = page["next"] and ("&" if query else "?") + "after=" + page["next"]
            self.assertEqual(pages, sizes)
            self.assertEqual(listed, sorted(names))
        # A page that ends with the last one is the last.
        _, _, body = self.get("/recordings/live/cam?limit=2&after=" + sorted(names)[-3])
        page = json.loads(body)
        self.assertEqual(([entry["file"] for entry in page["recordings"]], page["next"]), (sorted(names)[-2:], None))
        for query in ("limit=0", "limit=1001", "limit=99999999999999999999", "limit=", "limit=-1", "limit=1x", "after=",
                      "after=../x", "after=" + self.name + "x"):
            self.assertEqual(self.get("/recordings/live/cam?" + query)[0], 400, query)

    def test_nothing_else_is_to_be_had(self):
        secret = os.path.join(self.folder, "secret")
        os.mkdir(secret)
        shutil.copy(self.path, secret)
        stamp = "2026-01-01T00-00-00.000Z.flv"
        os.symlink(os.path.join(secret, self.name), os.path.join(self.folder, "live/cam", stamp))
        os.symlink(secret, os.path.join(self.folder, "live/linked"))
        os.symlink("/", os.path.join(self.folder, "live/root"))
        os.mkfifo(os.path.join(self.folder, "live/cam", stamp.replace("01-01T", "01-02T")))
        os.mkdir(os.path.join(self.folder, "live/cam", stamp.replace("01-01T", "01-03T")))
        for path in ("live/cam/" + stamp, "live/linked/" + self.name, "live/linked", "live/root/etc", "live/root",
                     "../secret/" + self.name, "live/../live/cam/" + self.name, "live/cam/../cam/" + self.name,
                     "live/%2e%2e/secret/" + self.name, "live//cam/" + self.name, "/etc/passwd", "", ".", "live/cam/.",
                     "live/cam/" + stamp.replace("01-01T", "01-02T"), "live/cam/" + stamp.replace("01-01T", "01-03T"),
                     "live/cam/" + self.name + ".part", "live/cam/" + self.name + "/", self.name):
            status, _, body = self.get("/recordings/" + path)
            self.assertEqual(status, 404, path)
            self.assertNotIn(b"FLV", body)
        [entry] = json.loads(self.get("/recordings/live/cam")[2])["recordings"]
        self.assertEqual(entry["file"], self.name)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.get(method=method)[0], 405)
        self.assertEqual(read(self.path), self.content)

    def test_many_readers_beside_a_live_stream(self):
        failed = []

        def read_all():
            for _ in range(5):
                if self.get()[2] != self.content:
                    failed.append(True)
        with harness.Steady(self.running, name="live/raw") as steady:
            threads = [threading.Thread(target=read_all) for _ in range(4)]
            for thread in threads:
                thread.start()
            steady.go_on(50)
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])


class DirectoriesTest(RecordCase):
    """A stream's recordings may be in several directories, and one may have its folder for another stream's alone."""

    def setUp(self):
        super().setUp()
        self.other = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.other)
        # What matches the first pattern goes to self.folder.
        self.running = self.enterContext(self.daemon("--record", "*=" + self.other, pattern="live/cam/*"))

    def page(self, query=""):
        """A page of the list: its files with their sizes, and what the next one begins behind."""
        status, _, body = self.running.request("GET", "/recordings/live/cam/" + query)
        self.assertEqual(status, 200)
        page = json.loads(body)
        return [(entry["file"], entry["bytes"]) for entry in page["recordings"]], page["next"]

    def put(self, folder, day, size):
        name = "2026-01-0%dT00-00-00.000Z.flv" % day
        os.makedirs(os.path.join(folder, "live/cam"), exist_ok=True)
        with open(os.path.join(folder, "live/cam", name), "wb") as file:
            file.write(bytes(size))
        return name, size

    def test_a_folder_that_another_stream_has_made(self):
        data, _ = flv.stream(30)
        self.publish(self.running, data, "live/cam/low")
        self.publish(self.running, data, "live/cam", 2)
        self.assertEqual(len(self.files("live/cam/low")), 1)
        [path] = self.files("live/cam", folder=self.other)
        self.assertEqual(self.page(), ([(os.path.basename(path), os.path.getsize(path))], None))
        self.assertEqual(self.running.request("GET", "/recordings/live/none/")[0], 404)

    def test_recordings_in_both(self):
        files = [self.put(self.other, 1, 10), self.put(self.folder, 2, 20), self.put(self.other, 3, 30)]
        self.assertEqual(self.page(), (files, None))
        self.assertEqual(self.page("?limit=1"), (files[:1], files[0][0]))
        self.assertEqual(self.page("?limit=1&after=" + files[0][0]), (files[1:2], files[1][0]))
        self.assertEqual(self.page("?limit=2&after=" + files[0][0]), (files[1:], None))
        for name, size in files:
            self.assertEqual(len(self.running.request("GET", "/recordings/live/cam/" + name)[2]), size)
        # A name that both have is the first one's, as the file that is played.
        files[2] = self.put(self.folder, 3, 40)
        self.assertEqual(self.page(), (files, None))


class ListsTest(RecordCase):
    """Lists of folders that take for ever: a preloaded library makes them wait for the test."""

    def setUp(self):
        super().setUp()
        tools = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, tools)
        self.gate = os.path.join(tools, "gate")
        self.environment = {**preload.environment(preload.build(tools, "hold_folders", "-O1")), "SLUICE_TEST_HOLD": self.gate}

    def hold(self):
        """Waits until somebody is at the gate: the descriptor by which it is held."""
        def look():
            with contextlib.suppress(OSError):
                return os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK)
            return None
        return harness.wait_until(look, "a list that has begun")

    def start(self):
        """A daemon that has looked for parts to be repaired, in its folders one after the other: that takes lists, too."""
        last = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, last)
        part = os.path.join(last, "live", "2026-01-01T00-00-00.000Z.flv.part")
        os.mkdir(os.path.dirname(part))
        with open(part, "wb"):
            pass
        daemon = Daemon("--record", "*=" + self.folder, "--record", "none=" + last, "--workers", "1",
                        environment=self.environment)
        self.addCleanup(daemon.kill)
        daemon.wait_log("empty recording removed")
        return daemon

    def test_lists_hold_up_nothing_and_are_not_begun_for_nobody(self):
        data, tags = flv.stream(100)
        with self.start() as daemon:
            self.publish(daemon, data)
            [path] = self.files("live/cam")
            os.mkfifo(self.gate)
            with contextlib.ExitStack() as peers:
                lists = [peers.enter_context(daemon.connect()) for _ in range(50)]
                lists[0].sendall(b"GET /recordings/live/cam HTTP/1.1\r\nHost: x\r\n\r\n")
                held = self.hold()
                for peer in lists[1:]:
                    peer.sendall(b"GET /recordings/live/cam HTTP/1.1\r\nHost: x\r\n\r\n")
                # Some wait, and the others are told so.
                daemon.wait_log("request refused", reason="too many listings", status="503")
                told = harness.wait_until(lambda: select.select(lists, [], [], 0)[0], "a refusal")
                heads = [harness.read_head(peer)[:2] for peer in told]
                self.assertIn((503, "1"), [(status, headers.get("retry-after")) for status, headers in heads])
                # A stream that begins now is recorded as ever.
                self.publish(daemon, data, "live/other", 2)
                self.assertEqual(frames_of(self.files("live/other")), pairs(tags))
                for peer in lists:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            harness.wait_until(lambda: all(worker["connections"] == 0 for worker in daemon.api()["workers"]), "no peers")
            os.close(held)
            # Another list would wait at the gate, and the file behind it.
            status, _, body = daemon.request("GET", "/recordings/live/cam/" + os.path.basename(path))
            self.assertEqual((status, body), (200, read(path)))
            os.unlink(self.gate)
            status, _, body = daemon.request("GET", "/recordings/live/cam")
            self.assertEqual((status, len(json.loads(body)["recordings"])), (200, 1))
            daemon.blocks_settled()


class OffTest(unittest.TestCase):
    def test_without_a_directory_there_is_nothing(self):
        with Daemon() as daemon:
            for path in ("/recordings/live/cam/2026-01-01T00-00-00.000Z.flv", "/recordings/live/cam"):
                self.assertEqual(daemon.request("HEAD", path)[0], 404)


if __name__ == "__main__":
    if not shutil.which("ffmpeg") or not shutil.which("ffprobe"):
        harness.skip_file("no ffmpeg")
    harness.main()
