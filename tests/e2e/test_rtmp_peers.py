"""RTMP with further programs at the other end: VLC as a player, node-media-server as the origin of a pull and as a target."""

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import flv
import harness
import rtmp
import rtmp_servers
import settings
from harness import AAC, H264, VIDEO, Daemon, tone

LISTEN = ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
NOBODY = 65534  # VLC refuses to run as root.
# tools/install-deps puts it there. Its RTMP server needs none of the packages that it names.
NODE_MEDIA_SERVER = os.path.join(harness.SOURCE_DIR, "build", "npm", "node-media-server-4.4.3.tgz")
SERVE = """
const [folder, port] = process.argv.slice(1);
require(folder + "/src/core/context.js").config = {bind: "127.0.0.1", rtmp: {port: Number(port)}, auth: {}};
new (require(folder + "/src/server/rtmp_server.js"))().run();
"""


class PeersTest(unittest.TestCase):
    def setUp(self):
        self.ffmpeg = harness.find_ffmpeg()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.media = harness.make_media(self.ffmpeg, " ".join([VIDEO, tone(48000), "-t 4", H264.replace("-bf 0", "-bf 2"),
                                                               AAC]))

    def hashes(self, source, name):
        """An ffmpeg that notes each packet."""
        process = harness.frame_hashes(self.ffmpeg, source, os.path.join(self.folder, name))
        self.addCleanup(process.kill)
        return process

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            return harness.packets(file.read())

    def sent(self):
        self.hashes(self.media, "sent").wait()
        packets = self.read("sent")
        self.assertGreater(len(packets), 250)
        return packets

    def publish(self, url, *options):
        publisher = harness.Ffmpeg(self.ffmpeg, *options, "-copyts", "-i", self.media, "-c", "copy", "-f", "flv", url)
        self.addCleanup(publisher.kill)
        return publisher

    def vlc(self, url, path):
        """A VLC that writes what it gets as it is, and ends with the stream."""
        os.chmod(self.folder, 0o777)
        with open(os.path.join(self.folder, "vlc.log"), "wb") as log:
            process = subprocess.Popen(["vlc", "-I", "dummy", "--demux", "dump", "--demuxdump-file", path, url, "vlc://quit"],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=dict(os.environ, HOME=self.folder), user=NOBODY if os.getuid() == 0 else None)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @unittest.skipUnless(shutil.which("vlc"), "no VLC: tools/install-deps rtmp")
    def test_vlc(self):
        """Every packet that ffmpeg publishes, at its time."""
        wait = settings.long_wait(self.addCleanup)
        taken = os.path.join(self.folder, "taken.flv")
        with Daemon(*wait.options, listen=LISTEN) as daemon:
            player = self.vlc(rtmp.url(daemon, "live/a"), taken)
            daemon.wait_player("live/a")
            self.publish(rtmp.url(daemon, "live/a")).wait()
            settings.end_wait(wait, daemon)
            self.assertEqual(player.wait(harness.PATIENCE), 0)
            self.assertEqual(daemon.complaints(), [])
        self.hashes(taken, "got").wait()
        harness.check_same(self.read("got"), self.sent())

    @contextlib.contextmanager
    def node_media_server(self):
        """Its URL without the stream's name."""
        with tarfile.open(NODE_MEDIA_SERVER) as archive:
            archive.extractall(self.folder)
        port = rtmp_servers.free_port()
        process = subprocess.Popen(["node", "-e", SERVE, os.path.join(self.folder, "package"), str(port)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            harness.wait_until(lambda: rtmp_servers.is_listening(port) or process.poll() is not None, "node-media-server")
            yield "rtmp://127.0.0.1:%d/live/" % port
        finally:
            process.kill()
            process.wait()

    @unittest.skipUnless(shutil.which("node") and os.path.exists(NODE_MEDIA_SERVER),
                         "no node-media-server: tools/install-deps rtmp")
    def test_node_media_server(self):
        """A stream is forwarded to it, and pulled from it again under another name: the same frames, from one on."""
        with open(self.media, "rb") as file:
            frames = [tag for tag in flv.parse(file.read()) if tag.is_frame]
        sent = [[tag.payload for tag in frames if tag.type == kind] for kind in (flv.VIDEO, flv.AUDIO)]
        with self.node_media_server() as url, \
                Daemon("--forward", "live/a=%sb" % url, "--pull", "%sb=live/c" % url, listen=LISTEN) as daemon, \
                contextlib.closing(harness.Player(daemon, "live/c")) as player:
            daemon.wait_player("live/c")
            publisher = self.publish(rtmp.url(daemon, "live/a"), "-re")
            player.wait(lambda player: {payloads[-1] for payloads in sent} <= {tag.payload for tag in player.frames[-20:]},
                        "the last frames")
            publisher.wait()
            got = [[tag.payload for tag in player.frames if tag.type == kind] for kind in (flv.VIDEO, flv.AUDIO)]
        for before, behind in zip(sent, got):
            self.assertGreater(len(behind), len(before) // 4)
            harness.check_same(behind, before[-len(behind):])


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    harness.main()
