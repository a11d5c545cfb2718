"""Chromium as a client of listeners with TLS: it plays by wss and https, and shows the console by https."""

import unittest

import browser
import harness
import test_browser_play
import tls
from harness import AAC, H264, VIDEO, tone
from test_tls_programs import ProgramCase


@unittest.skipUnless(browser.find(), "chromium and chromedriver are not installed: tools/install-deps browser")
class ChromiumTest(ProgramCase):
    """It trusts the daemon's certificate by the hash of its key, and no other one."""

    LOOK = ("const v = document.getElementById('video'), q = v.getVideoPlaybackQuality();"
            "return [{time: v.currentTime, width: v.videoWidth, shown: q.totalVideoFrames, dropped: q.droppedVideoFrames,"
            "         errors: [document.getElementById('preview-message').innerText].filter((text) => text)}]")

    def setUp(self):
        super().setUp()
        status, _, self.script = self.daemon.admin("GET", "/mpegts.js")
        self.assertEqual(status, 200, "this build is without mpegts.js: npm")
        self.page = self.enterContext(browser.Browser("--ignore-certificate-errors-spki-list=" + tls.certificate().pin))

    def encode(self, daemon):
        """Publishes without end."""
        media = harness.make_media(self.ffmpeg, "%s %s -t 60 %s -g 25 %s" % (VIDEO, tone(44100), H264.replace("-g 50", ""), AAC))
        encoder = harness.Ffmpeg(self.ffmpeg, "-re", "-stream_loop", "-1", "-i", media, "-c", "copy", "-f", "flv",
                                 "-flvflags", "no_duration_filesize", "-method", "POST", daemon.url("live/cam"))
        self.addCleanup(encoder.kill)
        daemon.wait_stream("live/cam")
        return encoder

    def check_playing(self, script):
        """What the browser says of each video: its time advances, and it has decoded that many pictures."""
        look = lambda: self.page.run(script)
        harness.wait_until(lambda: all(one["time"] > 0.5 for one in look()), lambda: "pictures: %s" % look())
        before = look()
        harness.wait_until(lambda: all(now["time"] > then["time"] + 2.5 for now, then in zip(look(), before)),
                           lambda: "the time to advance: %s" % look())
        for now, then in zip(look(), before):
            self.assertEqual((now["errors"], now["width"]), ([], 320))
            self.assertGreater(now["shown"], then["shown"] + 25)  # Of 62 at least.
            self.assertLess(now["dropped"], now["shown"])

    def test_play(self):
        """mpegts.js by wss and https."""
        encoder = self.encode(self.daemon)
        server = test_browser_play.PageServer(self.script)
        self.addCleanup(server.close)
        self.page.open(server.url)
        for protocol in ("ws", "http"):
            self.page.run("play(arguments[0])", self.daemon.url("live/cam", protocol=protocol))
        self.check_playing("return look()")
        self.assertEqual(sorted(one["protocol"] for one in self.daemon.api()["players"]), ["http", "websocket"])
        encoder.kill()
        self.page.close()
        self.daemon.blocks_settled()

    def test_console(self):
        """The console by https: its preview plays by wss, as a page by https has to."""
        with tls.Daemon("--admin", "127.0.0.1:0", "--admin", "127.0.0.1:0,tls") as daemon:
            encoder = self.encode(daemon)
            place = [line.fields["address"] for line in daemon.log("listening", proto="admin")][-1]
            self.page.open("https://%s/" % place)
            rows = "return document.querySelectorAll('#stream-rows tr').length"
            harness.wait_until(lambda: self.page.run(rows), "the stream's row")
            self.page.click("//tbody[@id='stream-rows']/tr//button[text()='preview']")
            self.check_playing(self.LOOK)
            self.assertEqual(self.page.run("return [location.protocol, isSecureContext]"), ["https:", True])
            self.assertEqual([one["protocol"] for one in daemon.api()["players"]], ["websocket"])
            self.assertEqual([text for text in self.page.complaints() if "[StartupStallJumper]" not in text], [])
            encoder.kill()

    def test_other_certificate(self):
        """It is refused, so the other tests show that the daemon's is accepted for its key."""
        fetch = "const done = arguments[1]; fetch(arguments[0]).then((answer) => done(answer.status), (error) => done(String(error)))"
        server = test_browser_play.PageServer(self.script)
        self.addCleanup(server.close)
        self.page.open(server.url)
        with tls.Daemon("--allow-origin", "*", rsa=2048) as other:
            self.assertIn("Failed to fetch", self.page.run_async(fetch, other.url("live/none")))
            other.wait_refused("tls_handshake_failed", 1)


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    harness.main()
