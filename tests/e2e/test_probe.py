"""sluice-probe: the same frames as FFmpeg sees, from files, by HTTP-FLV and by RTSP; what it says of damage."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import flv
import harness
import tool
from camera import Camera
from harness import Daemon, Publisher

H264_B = "-c:v libx264 -preset veryfast -g 25 -bf 2 -pix_fmt yuv420p"
TONE = harness.tone(44100)


def probe(*arguments, **options):
    return tool.run("sluice-probe", *arguments, **options)


def summary(*arguments, **options):
    status, out, errors = probe("--json", *arguments, **options)
    if errors:
        raise AssertionError(errors)
    return status, json.loads(out)


def frames_of(out):
    """What is compared, of the frames in JSON lines: {track: [(dts, pts, size, key)]}."""
    frames = {}
    for line in tool.lines(out):
        if line["type"] == "tag" and line["kind"] == "frame":
            frames.setdefault(line["track"], []).append((line["dts"], line["pts"], line["size"], line["key"]))
    return frames


def by_ffprobe(path):
    """The same as ffprobe sees it."""
    out = subprocess.run(["ffprobe", "-v", "error", "-show_packets", "-show_streams", "-of", "json", path],
                         capture_output=True, check=True).stdout
    said = json.loads(out)
    frames = {}
    for packet in said["packets"]:
        frames.setdefault(packet["codec_type"], []).append(
            (packet["dts"], packet["pts"], int(packet["size"]), packet["flags"].startswith("K")))
    return frames, {stream["codec_type"]: stream for stream in said["streams"]}


def by_framecrc(ffmpeg, path):
    """The same by an ffmpeg that comes without ffprobe."""
    out = subprocess.run([ffmpeg, "-v", "error", "-copyts", "-i", path, "-map", "0", "-c", "copy", "-f", "framecrc",
                          "-"], capture_output=True, check=True).stdout.decode()
    frames, kinds = {}, {}
    for line in out.splitlines():
        if line.startswith("#media_type "):
            stream, _, kind = line[len("#media_type "):].partition(":")
            kinds[stream] = kind.strip()
        elif line and not line.startswith("#"):
            stream, dts, pts, _, size, _, *flags = [word.strip() for word in line.split(",")]
            frames.setdefault(kinds[stream], []).append((int(dts), int(pts), int(size), "F=0x0" not in flags))
    return frames


def check_interrupted(test, *arguments):
    """Ctrl-C ends it in an orderly way, with the count of what it has said."""
    with tool.Running("sluice-probe", "--frames", "--json", *arguments) as running:
        head = [running.process.stdout.readline() for _ in range(10)]
        running.process.send_signal(signal.SIGINT)
        status, out, _ = running.wait()
        test.assertEqual(status, 0)
        tags = tool.lines(b"".join(head).decode() + out)
        test.assertEqual(tags[-1]["tags"], len(tags) - 1)


class FileTest(unittest.TestCase):
    """Frames and tracks of files, compared with FFmpeg's."""

    def compare(self, path, frames):
        status, out, errors = probe("--frames", "--json", path)
        self.assertEqual((status, errors), (0, ""))
        mine = frames_of(out)
        self.assertEqual(mine.keys(), frames.keys())
        for kind in frames:
            harness.check_same(mine[kind], frames[kind], "%s frames" % kind)
        return tool.lines(out)[-1]

    def test_with_ffprobe(self):
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg or not shutil.which("ffprobe"):
            self.skipTest("no ffmpeg with ffprobe")
        for arguments in (
                "%s %s -t 4 %s %s" % (harness.VIDEO, TONE, H264_B, harness.AAC),
                "%s -t 2 %s" % (harness.VIDEO, H264_B),
                "%s -t 2 -c:a pcm_alaw -ar 8000 -ac 1" % harness.tone(8000),
                "%s -t 2 -c:a pcm_mulaw -ar 8000 -ac 1" % harness.tone(8000)):
            with self.subTest(arguments):
                path = harness.make_media(ffmpeg, arguments)
                frames, streams = by_ffprobe(path)
                said = self.compare(path, frames)
                self.assertEqual({track["type"] for track in said["tracks"]}, streams.keys())
                for track in said["tracks"]:
                    self.compare_track(track, streams[track["type"]])

    def compare_track(self, track, stream):
        self.assertEqual(track["codec"], stream["codec_name"])
        if track["type"] == "video":
            self.assertEqual((track["width"], track["height"]), (stream["width"], stream["height"]))
            self.assertEqual(track["profile"], stream["profile"])
            self.assertEqual(float(track["level"]), stream["level"] / 10)
            self.assertAlmostEqual(track["frame_rate"], 25, places=1)
            self.assertEqual(track["key_interval"], {"least": 1, "mean": 1, "most": 1})
        else:
            self.assertEqual(track["sample_rate"], int(stream["sample_rate"]))
            self.assertEqual(track["channels"], stream["channels"])
            self.assertEqual(track.get("profile", "unknown"), stream.get("profile", "unknown"))

    def test_enhanced(self):
        """HEVC and Opus, which FLV knows by Enhanced RTMP's names."""
        ffmpeg = harness.find_current_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg that knows Enhanced RTMP")
        path = harness.make_media(ffmpeg, "%s %s -t 3 -pix_fmt yuv420p -c:v libx265 -preset ultrafast -x265-params "
                                  "keyint=25:log-level=none -c:a libopus -ar 48000" % (
                                      harness.VIDEO, harness.tone(48000)))
        said = self.compare(path, by_framecrc(ffmpeg, path))
        self.assertEqual([(track["codec"], track.get("profile")) for track in said["tracks"]],
                         [("hevc", "Main"), ("opus", None)])
        self.assertEqual((said["tracks"][0]["width"], said["tracks"][0]["height"]), (320, 180))

    def test_input_and_offsets(self):
        """Standard input says the same as a file; offsets are where the tags lie."""
        data, tags = flv.stream(60)
        with tempfile.NamedTemporaryFile(suffix=".flv") as file:
            file.write(data)
            file.flush()
            for more in ((), ("--frames",)):
                from_file = probe("--json", *more, file.name)
                from_input = probe("--json", *more, "-", data=data)
                self.assertEqual(from_file[0], 0)
                self.assertEqual(from_input[1].replace('"container":"FLV"', '"container":"FLV","input":"%s"' %
                                                       file.name), from_file[1])
        lines = tool.lines(from_file[1])
        self.assertEqual(len(lines), len(tags) + 1)
        at = 13
        for line, tag in zip(lines, tags):
            self.assertEqual((line["offset"], line["payload"], line["dts"]), (at, len(tag.payload), tag.timestamp))
            at += len(tag.pack())
        self.assertEqual(lines[-1]["size"], at)

    def test_text(self):
        data, _ = flv.stream(60)
        status, out, _ = probe("--frames", "-", data=data)
        lines = out.splitlines()
        self.assertEqual(status, 0)
        self.assertEqual(len([line for line in lines if " frame " in line]), 60)
        self.assertIn("video: h264 High@1.0, 128x96", out)
        self.assertIn("no errors", out)

    def test_limits(self):
        data, _ = flv.stream(200)
        self.assertEqual(sum(track["frames"] for track in summary("--count", 7, "-", data=data)[1]["tracks"]), 7)
        _, said = summary("--duration", "1.0", "-", data=data)
        self.assertEqual([track["frames"] for track in said["tracks"]], [25, 25])
        self.assertEqual(said["duration"], 1)


class DamageTest(unittest.TestCase):
    """It says where what is wrong, and goes on behind it."""

    def faults(self, data, status=1):
        got, said = summary("-", data=data)
        self.assertEqual(got, status, said)
        return [(fault["level"], fault["what"], fault["offset"]) for fault in said["faults"]], said

    def test_places(self):
        data, tags = flv.stream(40)
        at = [13]
        for tag in tags:
            at.append(at[-1] + len(tag.pack()))
        garbage = bytes(range(200))
        inserted = data[:at[20]] + garbage + data[at[20]:]
        faults, said = self.faults(inserted)
        self.assertEqual(faults, [("error", "damage", at[20])])
        self.assertEqual(said["tags"], len(tags))
        self.assertIn("200 bytes", said["faults"][0]["text"])

        faults, said = self.faults(data[:at[20] + 50] + data[at[20] + 60:])
        self.assertEqual(faults, [("error", "damage", at[20])])
        self.assertEqual(said["tags"], len(tags) - 1)

        faults, said = self.faults(data[:-30])
        self.assertEqual(faults, [("error", "truncated", at[-2])])
        self.assertEqual(said["tags"], len(tags) - 1)

        faults, said = self.faults(data[13:])
        self.assertEqual(faults, [("error", "signature", 0)])
        self.assertEqual(said["tags"], len(tags))

        faults, said = self.faults(data[:at[21] - 4] + b"\0\0\0\0" + data[at[21]:], status=0)
        self.assertEqual(faults, [("warning", "trailer", at[20])])

    def test_text_says_it_too(self):
        data, _ = flv.stream(40)
        status, out, _ = probe("-", data=data[:-30])
        self.assertEqual(status, 1)
        self.assertRegex(out, r"error at byte \d+: the end comes within a tag")

    def test_timestamps(self):
        """Steps back, gaps and jumps, each at its tag."""
        tags = flv.first_tags(audio=False)
        times = [0, 40, 80, 60, 100, 2100, 2140, 60000]
        tags += [flv.video_frame(time, number == 0, number, 300) for number, time in enumerate(times)]
        data = flv.header(flv.HAS_VIDEO)
        at = {}
        for tag in tags:
            at[tag.timestamp] = len(data)
            data += tag.pack()
        faults, said = self.faults(data)
        self.assertEqual(faults, [("error", "back", at[60]), ("warning", "gap", at[2100]),
                                  ("warning", "jump", at[60000])])
        track, = said["tracks"]
        self.assertEqual((track["timestamps_back"], track["gaps"], track["jumps"]), (1, 1, 1))

    def test_without_headers(self):
        data = flv.header() + b"".join(tag.pack() for tag in (flv.video_frame(0, True, 1, 300),
                                                              flv.audio_frame(0, 1, 100)))
        faults, _ = self.faults(data)
        self.assertEqual([fault[:2] for fault in faults], [("error", "header")] * 2)

    def test_metadata_beyond_its_limit(self):
        data, tags = flv.stream(10, with_metadata=False)
        for count, expected in ((16384, []), (16385, [("warning", "metadata", 13)])):
            script = b"\x02\0\x0aonMetaData\x08\0\0\0\0" + b"\0\0\x05" * count + b"\0\0\x09"
            faults, said = self.faults(data[:13] + flv.Tag(flv.SCRIPT, 0, script).pack() + data[13:], status=0)
            self.assertEqual(faults, expected)
            self.assertEqual(said["tags"], 1 + len(tags))

    def test_malformed_header(self):
        header = flv.Tag(flv.VIDEO, 0, b"\x17\0\0\0\0\x01\x64")
        data = flv.header() + header.pack() + flv.video_frame(0, True, 1, 300).pack()
        self.assertEqual(self.faults(data)[0], [("error", "header", 13)])


class ServerTest(unittest.TestCase):
    """Streams of the daemon."""

    def setUp(self):
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        path = harness.make_media(ffmpeg, "%s %s -t 4 %s %s" % (harness.VIDEO, TONE, H264_B, harness.AAC))
        with open(path, "rb") as file:
            self.data = file.read()
        self.tags = flv.parse(self.data)
        self.frames = frames_of(probe("--frames", "--json", path)[1])

    def play(self, daemon, url, *arguments):
        """What the probe says of a stream that begins before it and ends after it."""
        head = self.tags[:30]
        with Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in head))
            with tool.Running("sluice-probe", "--json", "--frames", *arguments, url) as running:
                harness.wait_until(lambda: [player for player in daemon.api()["players"]
                                            if player["state"] == "playing"], "a player")
                for tag in self.tags[len(head):]:
                    publisher.send(tag)
                publisher.finish()
                return running.wait()

    def test_http(self):
        with Daemon("--wait", "0") as daemon:
            status, out, errors = self.play(daemon, daemon.url("live/a"))
            self.assertEqual((status, errors), (0, ""))
            mine = frames_of(out)
            for kind in self.frames:
                harness.check_same(mine[kind], self.frames[kind], kind)
            said = tool.lines(out)[-1]
            self.assertEqual((said["container"], said["ended"]), ("HTTP-FLV", "the server has ended the stream"))
            daemon.blocks_settled()

    def test_rtsp(self):
        with tempfile.NamedTemporaryFile("w") as users:
            users.write("eve:se:cret@\n")
            users.flush()
            with Daemon("--wait", "0", "--rtsp-users", users.name, "--rule", "publish * allow", "--rule", "play * user",
                        listen=(
                    "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")) as daemon:
                host, port = daemon.address("rtsp")
                url = "rtsp://eve:se%%3Acret%%40@%s:%d/live/a" % (host, port)
                status, out, errors = self.play(daemon, url)
                self.assertEqual((status, errors), (0, ""), out[-1000:])
                mine = frames_of(out)
                for kind in self.frames:
                    # Times have an origin of their own, and the daemon need not send what came last.
                    shift = mine[kind][0][0] - self.frames[kind][0][0]
                    expected = [(dts + shift, pts - dts, key) for dts, pts, _, key in self.frames[kind]]
                    got = [(dts, pts - dts, key) for dts, pts, _, key in mine[kind]]
                    self.assertGreater(len(got), len(expected) - 5)
                    for one, other in zip(got, expected):
                        self.assertAlmostEqual(one[0], other[0], delta=2)
                        self.assertAlmostEqual(one[1], other[1], delta=2)
                        self.assertEqual(one[2], other[2])
                said = tool.lines(out)[-1]
                self.assertEqual([(track["codec"], track.get("width")) for track in said["tracks"]],
                                 [("h264", 320), ("aac", None)])
                status, _, errors = probe(url.replace("cret", "crat"))
                self.assertEqual(status, 3)
                self.assertIn("wrong name or password", errors)
                daemon.blocks_settled()

    def test_limits_and_interrupt(self):
        """A live stream ends when enough was seen, or when the user has seen enough."""
        with Daemon(listen=("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp",
                            "127.0.0.1:0")) as daemon:
            with harness.Steady(daemon) as steady:
                # A name may have addresses at which nobody listens: "localhost" is ::1, too.
                for url in (daemon.url(steady.name).replace("127.0.0.1", "localhost"),
                            "rtsp://%s:%d/%s" % (*daemon.address("rtsp"), steady.name),
                            "rtmp://%s:%d/%s" % (*daemon.address("rtmp"), steady.name)):
                    status, said = summary("--count", 30, url)
                    self.assertEqual((status, sum(track["frames"] for track in said["tracks"])), (0, 30))
                    check_interrupted(self, url)
            daemon.blocks_settled()

    def test_nobody_reads(self):
        """Of a live stream it ends when what it says goes nowhere, as with head(1) behind it; and says that it could not."""
        with Daemon() as daemon, harness.Steady(daemon) as steady:
            with tool.Running("sluice-probe", "--frames", daemon.url(steady.name)) as running:
                self.assertTrue(running.process.stdout.read(1))
                running.process.stdout.close()
                self.assertEqual(running.process.wait(harness.PATIENCE), 3)
                self.assertIn(b"standard output", running.process.stderr.read())
        with open("/dev/full", "wb") as full:
            path = os.path.join(harness.SOURCE_DIR, "tests", "vectors", "flv-h264-aac.flv")
            done = subprocess.run([tool.path("sluice-probe"), path], stdout=full, stderr=subprocess.PIPE, check=False,
                                  timeout=harness.PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (3, b"sluice-probe: standard output cannot be written to\n"))

    def test_cut_within_a_tag(self):
        """A server that breaks off within a tag."""
        with harness.socket.create_server(("127.0.0.1", 0)) as server:
            def serve():
                peer, _ = server.accept()
                with peer:
                    peer.recv(4096)
                    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\n\r\n" + self.data[:-8])
            harness.in_thread(self, serve)
            status, said = summary("http://127.0.0.1:%d/a.flv" % server.getsockname()[1])
        self.assertEqual(status, 1)
        self.assertEqual(said["tags"], len(self.tags) - 1)
        self.assertEqual([fault["what"] for fault in said["faults"]][0], "truncated")


class CameraTest(unittest.TestCase):
    """RTSP servers that are others than the daemon."""

    def test_logins_and_keep_alives(self):
        """Asked in each way for a name; a session of two seconds is kept for longer."""
        for scheme, qop, public in (("MD5", False, "OPTIONS, DESCRIBE, SETUP, PLAY"),
                                    ("SHA-256", True, "OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER"),
                                    ("Basic", False, "OPTIONS, GET_PARAMETER")):
            with self.subTest(scheme):
                camera = Camera(self, user=("admin", "p:@ s"), scheme=scheme, qop=qop, timeout=2, public=public)
                camera.start()
                keeps = "GET_PARAMETER" if "GET_PARAMETER" in public else "OPTIONS"
                with tool.Running("sluice-probe", "--json", camera.url("cam", "admin:p%3A%40%20s")) as running:
                    camera.wait_request(keeps, 3)
                    running.process.send_signal(signal.SIGINT)
                    status, out, errors = running.wait()
                self.assertEqual((status, errors), (0, ""), out)
                said = json.loads(out)
                self.assertEqual([(track["type"], track["codec"], track["width"]) for track in said["tracks"]],
                                 [("video", "h264", 128)])
                self.assertGreater(said["tracks"][0]["frames"], 10)
                camera.wait_request("TEARDOWN")

    def leave(self, camera):
        """Why a player ended that had seen enough of a camera which goes on sending; the stream has no faults."""
        status, said = summary("--count", 10, camera.start().url())
        self.assertEqual((status, said["faults"]), (0, []))
        camera.wait_request("TEARDOWN")
        return said["ended"]

    def answered_late(self):
        def answer(_):
            first = camera.frame
            harness.wait_until(lambda: camera.frame >= first + 12, "twelve more pictures")
            return 200
        camera = Camera(self, TEARDOWN=answer)
        return self.leave(camera)

    def test_late_answer_to_teardown(self):
        """It is awaited for a second, however many packets come before it."""
        # This machine may be late by itself once, but not each time.
        self.assertIn("ended", (self.answered_late() for _ in range(5)))

    def test_no_answer_to_teardown(self):
        """The server's, and no fault of the stream."""
        self.assertEqual(self.leave(Camera(self, TEARDOWN=None)), "stopped")

    def test_refusals(self):
        for replies, words in (({"DESCRIBE": 404}, "DESCRIBE answered 404 Not Found"),
                               ({"SETUP": 453}, "SETUP answered 453"),
                               ({"PLAY": None}, "nothing has come")):
            with self.subTest(words):
                camera = Camera(self, **replies).start()
                status, out, errors = probe("--timeout", 1 if None in replies.values() else 60, camera.url())
                self.assertEqual((status, out), (3, ""))
                self.assertIn(words, errors)


class RefusalTest(unittest.TestCase):
    """What cannot be had, and wrong usage."""

    def test_not_to_be_had(self):
        with Daemon("--wait", "0", listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp",
                                           "127.0.0.1:0")) as daemon:
            host, port = daemon.address("rtsp")
            # A port that is taken, where nobody listens.
            nobody = harness.socket.socket()
            self.addCleanup(nobody.close)
            nobody.bind(("127.0.0.1", 0))
            closed = nobody.getsockname()[1]
            for url, words in ((daemon.url("live/none"), "404"),
                               ("rtsp://%s:%d/live/none" % (host, port), "404"),
                               ("rtmp://%s:%d/live/none" % daemon.address("rtmp"), "no such stream"),
                               ("http://127.0.0.1:%d/a.flv" % closed, "refused"),
                               ("http://%s:%d/a.flv" % (host, port), "501"),
                               ("/nowhere/none.flv", "No such file"),
                               ("http://%s:%d/api/v1/streams" % daemon.address("admin"), "FLV")):
                status, out, errors = probe(url)
                self.assertEqual((status, out), (3, ""), (url, errors))
                self.assertIn(words, errors, url)
        status, _, errors = probe("-", data=b"no FLV at all")
        self.assertEqual(status, 3)
        self.assertIn("not FLV", errors)

    def test_silence(self):
        """A server that accepts and says nothing."""
        with harness.socket.create_server(("127.0.0.1", 0)) as server:
            status, _, errors = probe("--timeout", 1, "http://127.0.0.1:%d/a.flv" % server.getsockname()[1])
            self.assertEqual(status, 3)
            self.assertIn("nothing has come", errors)

    def test_hostile_reason(self):
        """What a server says of itself does not reach the terminal as it is; the status does."""
        with tool.hostile_server(b"HTTP/1.1 404 " + tool.HOSTILE + b"\r\nContent-Length: 0\r\n\r\n") as port:
            status, out, errors = probe("http://127.0.0.1:%d/a.flv" % port)
        self.assertEqual((status, out), (3, ""))
        self.assertEqual(errors, "sluice-probe: 127.0.0.1: the server answered 404 %s\n" % tool.HOSTILE_SHOWN)

    def test_usage(self):
        for arguments in ((), ("a", "b"), ("--nonsense", "a"), ("--count", "0", "a"), ("--count", "x", "a"),
                          ("--duration", "-1", "a"), ("--timeout", "0", "a"), ("--backend", "select", "a"),
                          ("ftp://host/a",), ("flv://host:9000",), ("http://host:99999/a",), ("rtsp://",)):
            status, out, errors = probe(*arguments, backend=False)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertIn("sluice-probe", errors, arguments)
        status, out, _ = probe("--help", backend=False)
        self.assertEqual(status, 0)
        self.assertIn("Usage: sluice-probe", out)
        self.assertRegex(probe("--version", backend=False)[1], r"^sluice-probe \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    tool.main("sluice-probe")
