"""RTSP with GStreamer at the other end: it publishes to ffmpeg's players, and plays what ffmpeg publishes."""

import os
import shutil
import subprocess
import tempfile
import unittest

import harness
import settings
from harness import AAC, H264, VIDEO, tone

SECONDS = 6
ELEMENTS = ("rtspclientsink", "rtspsrc", "rtppcmapay", "flvdemux", "h264parse", "aacparse", "rtph264depay", "rtpmp4gdepay")


def gstreamer_lacks():
    """What of GStreamer is missing; empty when all is there."""
    if not shutil.which("gst-launch-1.0"):
        return "gst-launch-1.0"
    missing = [element for element in ELEMENTS if subprocess.run(
        ["gst-inspect-1.0", "--exists", element], check=False).returncode != 0]
    return " ".join(missing)


class GstreamerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.wait = settings.long_wait(self.addCleanup)
        self.daemon = harness.Daemon(*self.wait.options, listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0"))
        self.addCleanup(self.daemon.stop)
        self.url = "rtsp://%s:%d/live/a" % self.daemon.address("rtsp")
        self.ffmpeg = harness.find_ffmpeg()

    def make(self, rate, audio):
        return harness.make_media(self.ffmpeg, " ".join([VIDEO, tone(rate), "-t %d" % SECONDS, H264, audio]))

    def launch(self, pipeline):
        process = subprocess.Popen(["gst-launch-1.0", "-e", *pipeline.split()], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def hashes(self, *source):
        """The frames' hashes by kind of track, decoded unless it is said otherwise."""
        target = os.path.join(self.folder, "frames")
        reader = harness.Ffmpeg(self.ffmpeg, *source, "-map", "0", "-fps_mode", "passthrough", "-f", "framemd5", target)
        self.addCleanup(reader.kill)
        return reader, target

    def read(self, target):
        with open(target, encoding="ascii") as file:
            packets = harness.packets(file.read())
        return {kind: [line.split(",")[-1].strip() for one, _, line in packets if one == kind]
                for kind in {kind for kind, _, _ in packets}}

    def test_publishes(self):
        self.publish(self.make(8000, "-c:a pcm_alaw"))

    def test_publishes_aac(self):
        """Its choice for AAC is MP4A-LATM. Packets are compared: a decoder makes noise from all that came before."""
        self.publish(self.make(48000, AAC), "-c:a", "copy")
        self.assertEqual(self.daemon.complaints(), [])

    def publish(self, file, *forms):
        """Over the connection; told 461, rtspclientsink 1.22 gives up, whatever else it is allowed to try. It is ended
        here, since when its source ends it sometimes waits for itself, for ever."""
        reference, sent = self.hashes("-i", file, *forms)
        reference.wait()
        sent = self.read(sent)
        player, played = self.hashes("-i", self.daemon.url("live/a"), *forms)
        self.daemon.wait_player("live/a")
        publisher = self.launch(
            "rtspclientsink name=s protocols=tcp location=%s filesrc location=%s ! flvdemux name=d "
            "d.video ! queue ! h264parse ! identity sync=true ! s. d.audio ! queue ! s." % (
                self.url, file))
        self.daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] == len(sent["video"])
                                and stream["frames"]["audio"] > len(sent["audio"]) * 3 // 4)
        publisher.kill()
        settings.end_wait(self.wait, self.daemon)
        player.wait()
        got = self.read(played)
        harness.check_same(got["video"], sent["video"])
        begin = sent["audio"].index(got["audio"][0])
        harness.check_same(got["audio"], sent["audio"][begin:begin + len(got["audio"])])
        self.assertGreater(len(got["audio"]), len(sent["audio"]) * 3 // 4)
        self.daemon.blocks_settled()

    def test_plays(self):
        file = self.make(48000, AAC)
        video, audio = os.path.join(self.folder, "video"), os.path.join(self.folder, "audio")
        player = self.launch(
            "rtspsrc name=s protocols=udp+tcp location=%s s. ! application/x-rtp,media=video ! rtph264depay ! "
            "video/x-h264,stream-format=byte-stream,alignment=au ! filesink location=%s s. ! "
            "application/x-rtp,media=audio ! rtpmp4gdepay ! aacparse ! audio/mpeg,stream-format=adts ! "
            "filesink location=%s" % (self.url, video, audio))
        self.daemon.wait_player("live/a")
        publisher = harness.Ffmpeg(self.ffmpeg, "-re", "-i", file, "-c", "copy", "-f", "rtsp", "-rtsp_transport",
                                   "tcp", self.url)
        self.addCleanup(publisher.kill)
        publisher.wait()
        settings.end_wait(self.wait, self.daemon)
        player.communicate(timeout=harness.PATIENCE)
        for kind, path, form in (("video", video, "h264"), ("audio", audio, "aac")):
            reader, got = self.hashes("-f", form, "-i", path)
            reader.wait()
            got = self.read(got)[kind]
            reference, sent = self.hashes("-i", file)
            reference.wait()
            sent = self.read(sent)[kind]
            self.assertGreater(len(got), len(sent) - 25)
            if kind == "video":
                harness.check_same(got, sent[:len(got)])
        self.daemon.blocks_settled()


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    LACKS = gstreamer_lacks()
    if LACKS:
        harness.skip_file("GStreamer lacks " + LACKS)
    harness.main()
