"""The console, in a headless Chromium: the table shows what there is, kick works, and the preview plays."""

import base64
import json
import os
import re
import tempfile
import unittest

import browser
import flv
import harness
from camera import Camera
from harness import Daemon, Player, Publisher, Steady

if not browser.find():
    harness.skip_file("chromium and chromedriver are not installed: tools/install-deps browser")

TEXTS = "return [...document.querySelectorAll(arguments[0])].map((row) => row.innerText)"


class ConsoleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.open("about:blank")
        self.browser.complaints()

    def open(self, daemon):
        self.browser.open("http://127.0.0.1:%d/" % daemon.address("admin")[1])
        harness.wait_until(lambda: self.text("#version"), "the page")

    def text(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).innerText", selector)

    def rows(self, selector):
        return self.browser.run(TEXTS, selector)

    def test_table(self):
        data, _ = flv.stream(40)
        with Daemon("--player-buffer", "256K", "--gop-size", "64K", "--frame-limit", "64K") as daemon:
            with Steady(daemon, pause=0.001) as steady, Publisher(daemon, "live/still", "http") as still:
                still.send(data)
                self.open(daemon)
                stream = "#stream-rows tr[data-stream='%s']" % steady.name
                harness.wait_until(lambda: self.rows(stream), "the stream's row")
                for word in (steady.name, "live", "h264 320x180", "aac", steady.publisher.address):
                    self.assertIn(word, self.text(stream))
                path = "return document.querySelector(arguments[0] + ' path').getAttribute('d')"
                harness.wait_until(lambda: self.browser.run(path, stream).count("L") >= 2, "a plot of some seconds")
                self.assertEqual(self.text("#players"), "1")
                harness.wait_until(lambda: any("silent" in row for row in self.rows("#stream-rows tr")),
                                   "the publisher that is silent")
                # One who takes nothing is marked.
                with Player(daemon, steady.name, receive_buffer=4096, reading=False) as slow:
                    marked = harness.wait_until(lambda: self.rows("#player-rows tr.slow"), "the slow player's mark")
                    self.assertEqual(len(marked), 1)
                    self.assertIn(slow.address, marked[0])
                    self.assertTrue(self.rows("#player-rows tr:not(.slow)"))
                harness.wait_until(lambda: len(self.rows("#player-rows tr")) == 1, "the slow player's end")
                self.assertEqual(self.browser.complaints(), [])
            harness.wait_until(lambda: not self.rows("#player-rows tr"), "no player any more")

    def test_kick(self):
        with Daemon() as daemon:
            with Steady(daemon) as steady, Player(daemon, steady.name) as player:
                daemon.wait_player(steady.name, 2)
                one, = [one for one in daemon.api()["players"] if one["address"] == player.address]
                self.open(daemon)
                harness.wait_until(lambda: len(self.rows("#player-rows tr")) == 2, "both players")
                self.browser.click("//tbody[@id='player-rows']/tr[@data-player='%d']//button" % one["id"])
                self.browser.accept()
                player.wait_end()
                daemon.wait_log("player ended", peer=player.address, reason="kicked")
                harness.wait_until(lambda: len(self.rows("#player-rows tr")) == 1, "one player less")
                self.assertEqual(self.browser.complaints(), [])
                steady.go_on()

    def test_pulls(self):
        """A row for each pull, with its state, its failures and what is left of its time, without secrets; those of the API
        can be removed."""
        camera = Camera(self, user=("keeper", "geheim")).start()
        with Daemon("--pull", "rtsp://u:geheim@127.0.0.1:1/geheim=live/idle,on-demand") as daemon:
            self.open(daemon)
            row = "#pull-rows tr[data-pull='live/%s']"
            harness.wait_until(lambda: self.rows(row % "idle"), "the configuration's pull")
            for name, url, more in (("cam", camera.url("geheim", "keeper:geheim"), {"ttl": 3600}),
                                    ("bad", "rtsp://u:geheim@127.0.0.1:1/geheim", {})):
                body = json.dumps({"url": url, "stream": "live/" + name, **more}).encode()
                self.assertEqual(daemon.admin("POST", "/api/v1/pulls", body, {"Content-Type": "application/json"})[0], 201)
            harness.wait_until(lambda: self.rows(row % "cam") and "playing" in self.text(row % "cam"), "the API's pull")
            cells = lambda name: self.rows(row % name + " td")
            self.assertEqual(cells("cam")[:5], ["live/cam", "rtsp", "rtsp://127.0.0.1:%d" % camera.port, "playing", "0"])
            self.assertRegex(cells("cam")[5], r"\A5\d min\Z")
            self.assertEqual(cells("cam")[6:], ["api", "", "remove"])
            self.assertEqual(cells("idle")[3:], ["idle", "0", "", "configuration, on-demand", "", ""])
            failing = harness.wait_until(
                lambda: next((row for row in [cells("bad")] if len(row) == 9 and re.match("waiting, again in [2-9] s", row[3])),
                             None), "a failure of the other one")
            self.assertGreaterEqual(int(failing[4]), 2)
            self.assertEqual(failing[5:], ["", "api", "Connection refused", "remove"])
            self.assertNotIn("geheim", self.browser.run("return document.documentElement.outerHTML"))
            self.browser.click("//tbody[@id='pull-rows']/tr[@data-pull='live/bad']//button")
            self.browser.accept()
            harness.wait_until(lambda: not self.rows(row % "bad"), "the end of the row")
            self.assertEqual({pull["stream"] for pull in daemon.api()["pulls"]}, {"live/cam", "live/idle"})
            self.assertEqual(self.browser.complaints(), [])
        camera.close()

    def test_record(self):
        """The button switches, and the row says what is."""
        with tempfile.TemporaryDirectory() as folder, Daemon("--record", "none=" + folder) as daemon:
            with Steady(daemon) as steady:
                self.open(daemon)
                row = "#stream-rows tr[data-stream='%s']" % steady.name
                harness.wait_until(lambda: self.rows(row), "the stream's row")
                for word, wish in (("record", "on"), ("stop recording", "off"), ("record", "on")):
                    self.browser.click("//tbody[@id='stream-rows']/tr//button[text()='%s']" % word)
                    harness.wait_until(lambda: daemon.stream(steady.name)["record"] == wish, wish)
                    harness.wait_until(lambda: re.search(r"\b%s\b" % wish, self.text(row + " td:nth-child(5)")),
                                       "the row: " + wish)
                self.assertEqual(self.browser.complaints(), [])
                steady.go_on()

    def test_policy(self):
        """Nothing runs in the page but its own scripts, and no other page may frame it."""
        with Daemon() as daemon:
            status, headers, _ = daemon.admin("GET", "/")
            self.assertEqual(status, 200)
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertIn("script-src 'self';", headers["Content-Security-Policy"])
            self.open(daemon)
            inline = ("const script = document.createElement('script'); script.textContent = 'window.ran = true';"
                      "document.body.append(script); return window.ran === undefined")
            self.assertTrue(self.browser.run(inline))
            self.assertTrue(any("Content Security Policy" in text for text in self.browser.complaints()))

    @unittest.skipUnless(harness.find_ffmpeg(), "ffmpeg is not installed")
    def test_preview(self):
        """The preview plays a real stream: its time advances, its picture has a size, and no frame is dropped."""
        media = harness.make_media(harness.find_ffmpeg(), "%s %s -t 60 %s -g 25 %s" % (
            harness.VIDEO, harness.tone(44100), harness.H264.replace("-g 50", ""), harness.AAC))
        with Daemon() as daemon:
            self.assertEqual(daemon.admin("GET", "/mpegts.js")[0], 200, "this build is without its preview: npm")
            encoder = harness.Ffmpeg(harness.find_ffmpeg(), "-re", "-i", media, "-c", "copy", "-f", "flv",
                                     "-flvflags", "no_duration_filesize", "-method", "POST", daemon.url("live/cam"))
            try:
                daemon.wait_stream("live/cam")
                self.open(daemon)
                harness.wait_until(lambda: self.rows("#stream-rows tr"), "the stream's row")
                self.browser.click("//tbody[@id='stream-rows']/tr//button[text()='preview']")
                self.check_video(daemon)
            finally:
                encoder.kill()

    def check_video(self, daemon):
        script = ("const v = document.getElementById('video');"
                  "return {time: v.currentTime, width: v.videoWidth, paused: v.paused, state: v.readyState,"
                  "        note: document.getElementById('preview-message').innerText}")
        look = lambda: self.browser.run(script)
        first = harness.wait_until(lambda: look() if look()["time"] > 0 else None, lambda: "a picture: %s" % look())
        self.assertEqual((first["width"], first["paused"]), (320, False))
        times = [first["time"]]
        # Five seconds of the stream, in steps: it does not jump and then stand.
        while times[-1] < first["time"] + 5:
            times.append(harness.wait_until(lambda: look()["time"] if look()["time"] > times[-1] + 0.5 else None,
                                            lambda: "the time to advance: %s %s" % (times, look())))
        self.assertEqual(look()["note"], "")
        player, = daemon.api()["players"]
        self.assertEqual((player["protocol"], player["state"], player["frames_dropped"]), ("websocket", "playing", 0))
        # Where a busy machine is late with the first picture, mpegts.js helps it along, and says so.
        self.assertEqual([text for text in self.browser.complaints() if "[StartupStallJumper]" not in text], [])
        folder = os.environ.get("SLUICE_TEST_PICTURES")
        if folder:
            with open(os.path.join(folder, "console.png"), "wb") as file:
                file.write(base64.b64decode(self.browser.screenshot()))
        self.browser.click("//button[@id='preview-close']")
        harness.wait_until(lambda: not daemon.api()["players"], "the preview's end")


if __name__ == "__main__":
    harness.main()
