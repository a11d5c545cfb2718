"""sluice-push and sluice-probe as clients of RTMP servers that are not ours: nginx and ffmpeg."""

import os
import socket
import tempfile
import unittest

import harness
import tool
from rtmp_servers import ffmpeg_server, has_nginx, nginx
from test_probe import by_ffprobe, frames_of

# H.264 with B frames, and AAC.
REAL = os.path.join(harness.SOURCE_DIR, "tests", "vectors", "flv-h264-aac.flv")


def totals(out):
    return tool.lines(out)[-1]


class FfmpegTest(unittest.TestCase):
    def setUp(self):
        self.ffmpeg = harness.find_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("no ffmpeg")

    def test_publish(self):
        """Every packet of the file, with its times, by the hashes of an ffmpeg that serves."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("sent", "got")]
            harness.frame_hashes(self.ffmpeg, REAL, paths[0]).wait()
            with ffmpeg_server(self.ffmpeg, "-copyts", "-map", "0", "-c", "copy", "-f", "framemd5", paths[1]) as (url, server):
                status, out, errors = tool.run("sluice-push", "--json", "--quiet", "--rate", 4, REAL, url)
                self.assertEqual((status, errors), (0, ""), out)
                server.wait()
            self.assertEqual(totals(out)["payload_bytes_copied"], 0)
            texts = []
            for path in paths:
                with open(path, encoding="utf-8") as file:
                    texts.append(file.read())
        for kind in ("video", "audio"):
            sent, got = ([packet[1:] for packet in harness.packets(text) if packet[0] == kind] for text in texts)
            self.assertGreater(len(sent), 5)
            harness.check_same(got, sent)

    def test_play(self):
        """Every packet that an ffmpeg sends that serves."""
        with ffmpeg_server(self.ffmpeg, "-i", REAL, "-c", "copy", target=True) as (url, server):
            status, out, errors = tool.run("sluice-probe", "--json", "--frames", url)
            self.assertEqual((status, errors), (0, ""), out)
            server.wait()
        expected, _ = by_ffprobe(REAL)
        for kind, frames in frames_of(out).items():
            self.assertEqual(frames, expected[kind], kind)
        self.assertEqual(sorted(frames_of(out)), sorted(expected))


@unittest.skipUnless(has_nginx(), "nginx's RTMP module is not there: tools/install-deps test")
class NginxTest(unittest.TestCase):
    def through(self, settings, count):
        """Publishers and players of so many streams each. The file is sent again and again, for players that have missed the
        first key frame: nginx keeps none."""
        with nginx(settings) as url:
            status, out, errors = tool.run("sluice-push", "--json", "--quiet", "-n", count, "--players", count, "--loop", "--ramp", 0,
                                           "--rate", 2, "--duration", 2, REAL, url + "%d?key=k")
        said = totals(out)
        self.assertEqual((status, errors, said["served"]), (0, "", True), said)
        for what in ("lost", "unmatched", "timestamps_back"):
            self.assertEqual(said["players"][what], 0, said)
        self.assertEqual((said["publishers"]["served"], said["players"]["served"]), (count, count))
        self.assertEqual((said["payload_bytes_copied"], said["failures"]), (0, []))

    def test_both(self):
        """nginx's own chunk size: messages come in parts of 4096 bytes, and none is copied."""
        self.through("", 3)

    def test_window(self):
        """A server that counts on acknowledgements and pings."""
        self.through("ack_window 5000; ping 1s; ping_timeout 1s;", 1)

    def test_no_app(self):
        with nginx() as url:
            wrong = url.replace("/live/", "/none/") + "a"
            for arguments in (("sluice-push", "--retries", 0, REAL, wrong), ("sluice-probe", wrong)):
                status, out, errors = tool.run(*arguments)
                self.assertEqual(status, 1 if arguments[0] == "sluice-push" else 3)
                self.assertRegex(out + errors, "the server has ended the connection|Connection reset")


class UsageTest(unittest.TestCase):
    def test_paths(self):
        """An app and a name are wanted."""
        for url in ("rtmp://127.0.0.1", "rtmp://127.0.0.1/live", "rtmp://127.0.0.1/live/"):
            for words in (("sluice-push", REAL, url), ("sluice-probe", url), ("sluice-push", "-n", 0, "--players", 1, url)):
                status, out, errors = tool.run(*words)
                self.assertEqual((status, out), (2, ""), words)
                self.assertIn("RTMP" if words[0] == "sluice-push" else "rtmp://", errors)
        status, _, errors = tool.run("sluice-push", "--name", "x", REAL, "rtmp://127.0.0.1/live/a")
        self.assertEqual(status, 2, errors)

    def test_not_rtmp(self):
        """Another server, one that says nothing, and nobody."""
        with tool.hostile_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            status, _, errors = tool.run("sluice-probe", "rtmp://127.0.0.1:%d/live/a" % port)
        self.assertEqual(status, 3)
        self.assertIn("not valid RTMP", errors)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            status, _, errors = tool.run("sluice-probe", "--timeout", 1,
                                         "rtmp://127.0.0.1:%d/live/a" % silent.getsockname()[1])
        self.assertEqual(status, 3)
        self.assertIn("nothing has come from the server", errors)
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            status, _, errors = tool.run("sluice-probe", "rtmp://127.0.0.1:%d/live/a" % nobody.getsockname()[1])
        self.assertEqual(status, 3)
        self.assertIn("refused", errors)


if __name__ == "__main__":
    tool.main("sluice-push", "sluice-probe")
