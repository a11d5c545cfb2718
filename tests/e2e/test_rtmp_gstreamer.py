"""RTMP with GStreamer at the other end: rtmp2sink publishes, rtmp2src plays."""

import os
import subprocess
import tempfile
import unittest

import harness
import rtmp
import settings
from harness import AAC, H264, VIDEO, tone
from test_rtsp_gstreamer import gstreamer_lacks

SECONDS = 3
ELEMENTS = ("rtmp2sink", "rtmp2src", "flvmux", "flvdemux")


def lacks():
    missing = gstreamer_lacks()
    return missing or " ".join(element for element in ELEMENTS if subprocess.run(
        ["gst-inspect-1.0", "--exists", element], check=False).returncode != 0)


class GstreamerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.ffmpeg = folder.name, harness.find_ffmpeg()
        self.file = harness.make_media(self.ffmpeg, " ".join([VIDEO, tone(48000), "-t %d" % SECONDS, H264, AAC]))

    def launch(self, pipeline):
        process = subprocess.Popen(["gst-launch-1.0", "-q", *pipeline.split()], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def frames(self, source, name):
        """An ffmpeg that notes each packet; what it has noted, by kind of track, without times."""
        path = os.path.join(self.folder, name)
        process = harness.frame_hashes(self.ffmpeg, source, path)
        self.addCleanup(process.kill)

        def read():
            process.wait()
            with open(path, encoding="ascii") as file:
                packets = harness.packets(file.read())
            return {kind: [line.split(",")[-1].strip() for one, _, line in packets if one == kind]
                    for kind in {kind for kind, _, _ in packets}}
        return read

    def test_both(self):
        """A publisher and a player of GStreamer, with players and a publisher of ffmpeg."""
        wait = settings.long_wait(self.addCleanup)
        sent = self.frames(self.file, "sent")()
        with harness.Daemon(*wait.options, listen=("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")) as daemon:
            by_rtmp = self.frames(rtmp.url(daemon, "live/a"), "rtmp")
            daemon.wait_player("live/a")
            sink = self.launch("filesrc location=%s ! flvdemux name=d flvmux name=m streamable=true ! rtmp2sink location=%s "
                               "d.video ! queue ! h264parse ! m. d.audio ! queue ! aacparse ! m." % (
                                   self.file, rtmp.url(daemon, "live/a")))
            taken = os.path.join(self.folder, "taken.flv")
            source = self.launch("rtmp2src location=%s ! filesink location=%s" % (rtmp.url(daemon, "live/b"), taken))
            daemon.wait_player("live/b")
            publisher = harness.Ffmpeg(self.ffmpeg, "-i", self.file, "-c", "copy", "-f", "flv", rtmp.url(daemon, "live/b"))
            self.addCleanup(publisher.kill)
            publisher.wait()
            self.assertEqual(sink.wait(harness.PATIENCE), 0)
            settings.end_wait(wait, daemon)
            harness.check_same(by_rtmp()["video"], sent["video"])
            self.assertEqual(source.wait(harness.PATIENCE), 0)
            self.assertEqual(daemon.complaints(), [])
        harness.check_same(self.frames(taken, "taken")()["video"], sent["video"])


if __name__ == "__main__":
    if lacks():
        harness.skip_file("GStreamer lacks " + lacks())
    harness.main()
