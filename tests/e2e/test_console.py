"""The console, in a headless Chromium: it shows what there is, kick works, the preview plays; on screens of all sizes."""

import base64
import json
import os
import re
import shlex
import tempfile
import unittest

import browser
import certificates
import cluster
import console_scene
import console_server
import flv
import harness
import redis_server
import tls
from camera import Camera
from harness import Daemon, Player, Publisher, Steady

if not redis_server.REDIS:
    harness.skip_file("no redis-server")
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

    def visible(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).offsetParent !== null", selector)

    def attribute(self, selector, name):
        return self.browser.run("return document.querySelector(arguments[0]).getAttribute(arguments[1])", selector, name)

    def go(self, route):
        self.browser.run("location.hash = arguments[0]", route)

    def type(self, selector, text):
        """As if it had been typed there."""
        self.browser.run("const field = document.querySelector(arguments[0]); field.value = arguments[1];"
                         "field.dispatchEvent(new Event('input'))", selector, text)

    def choose(self, form):
        """How the URLs are shown."""
        self.browser.click("//fieldset[@id='url-forms']//input[@value='%s']" % form)

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
                path = "return document.querySelector(arguments[0] + ' .spark path').getAttribute('d')"
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
            cells = lambda name: self.rows(row % name + " > *")
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
                for wish in ("on", "off", "on"):
                    self.browser.click("//tbody[@id='stream-rows']/tr//button[text()='record']")
                    harness.wait_until(lambda: daemon.stream(steady.name)["record"] == wish, wish)
                    harness.wait_until(lambda: re.search(r"\b%s\b" % wish, self.text(row + " td:nth-child(5)")),
                                       "the row: " + wish)
                    pressed = row + " button[aria-pressed=%s]" % ("true" if wish == "on" else "false")
                    harness.wait_until(lambda: self.rows(pressed) == ["record"], "the button: " + wish)
                self.assertEqual(self.browser.complaints(), [])
                steady.go_on()

    def test_urls(self):
        """There is a URL for each listener, at the host of the page; the commands that are shown work as they are."""
        listen = ("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--flv", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
        with Daemon(listen=listen) as daemon:
            self.open(daemon)
            port = {name: daemon.address(name)[1] for name in ("http", "rtsp", "flv", "rtmp")}
            cells = lambda name, at: self.rows("#urls tr[data-protocol=%s] td:nth-child(%d) code" % (name, at))
            harness.wait_until(lambda: cells("http", 2), "the table")
            self.assertEqual(self.rows("#urls tbody th"), ["RTMP", "HTTP-FLV", "RTSP", "FLV over TCP"])
            self.type("#url-name", "cameras/door")
            flv_url = "127.0.0.1:%d/cameras/door.flv" % port["http"]
            rtsp_url = "rtsp://127.0.0.1:%d/cameras/door" % port["rtsp"]
            harness.wait_until(lambda: cells("http", 2) == ["http://" + flv_url], "the name")
            self.assertEqual(cells("http", 3), ["http://" + flv_url, "ws://" + flv_url])
            self.assertEqual((cells("rtsp", 2), cells("rtsp", 3)), ([rtsp_url], [rtsp_url]))
            rtmp_url = "rtmp://127.0.0.1:%d/cameras/door" % port["rtmp"]
            self.assertEqual((cells("rtmp", 2), cells("rtmp", 3)), ([rtmp_url], [rtmp_url]))
            self.assertEqual((cells("flv", 2), cells("flv", 3)), (["tcp://127.0.0.1:%d" % port["flv"]], []))
            # What is copied is what is shown.
            self.browser.allow("clipboardReadWrite", "clipboardSanitizedWrite")
            self.browser.run("window.kept = navigator.clipboard")
            self.check_copy("rtsp", rtsp_url)
            # A page by plain HTTP from another host is without it.
            self.browser.run("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
            self.check_copy("http", "http://" + flv_url)
            self.choose("obs")
            harness.wait_until(lambda: "Media Source" in self.text("#urls tr[data-protocol=http] td:nth-child(3)"), "the hints")
            server, key, command = cells("rtmp", 2)
            self.assertEqual((server + "/" + key, command), (rtmp_url, "curl http://127.0.0.1:%d/obs/cameras/door" % port["http"]))
            self.assertEqual(daemon.request("GET", "/obs/cameras/door")[0], 200)
            self.choose("ffmpeg")
            harness.wait_until(lambda: cells("http", 2)[0].startswith("ffmpeg "), "the commands")
            self.assertEqual(cells("rtsp", 3), ["ffplay -rtsp_transport tcp " + rtsp_url])
            for name in ("rtmp", "http", "rtsp"):
                self.run_command(daemon, cells(name, 2)[0])
            self.assertEqual(self.browser.complaints(), [])

    def check_copy(self, protocol, text):
        self.browser.click("//tr[@data-protocol='%s']/td[1]//button" % protocol)
        button = "#urls tr[data-protocol=%s] td:nth-child(2) button" % protocol
        harness.wait_until(lambda: self.rows(button) == ["copied"], "the copy")
        paste = "const done = arguments[0]; window.kept.readText().then(done, (error) => done(String(error)))"
        self.assertEqual(self.browser.run_async(paste), text)

    def run_command(self, daemon, command):
        """A command that publishes, with a file in the place of FILE."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("ffmpeg is not installed")
        media = harness.make_media(ffmpeg, "%s %s -t 60 %s -g 25 %s" % (
            harness.VIDEO, harness.tone(44100), harness.H264.replace("-g 50", ""), harness.AAC))
        words = [media if word == "FILE" else word for word in shlex.split(command)]
        encoder = harness.Ffmpeg(ffmpeg, *words[1:])
        try:
            daemon.wait_stream("cameras/door")
        finally:
            encoder.kill()
        harness.wait_until(lambda: not daemon.stream("cameras/door"), "the end of it")

    def test_stream_page(self):
        """What there is about one stream, and what can be done to it."""
        with tempfile.TemporaryDirectory() as folder, Daemon("--record", "live/*=" + folder) as daemon:
            with Steady(daemon) as steady, Player(daemon, steady.name) as player:
                daemon.wait_player(steady.name, 2)
                self.open(daemon)
                harness.wait_until(lambda: self.rows("#stream-rows a"), "the stream's row")
                self.browser.click("//tbody[@id='stream-rows']//a[text()='%s']" % steady.name)
                harness.wait_until(lambda: self.visible("#stream-content") and self.rows("#track-rows tr"), "the page")
                self.assertFalse(self.visible("#overview"))
                self.assertEqual((self.text("#stream-name"), self.text("#stream-state")), (steady.name, "live"))
                self.assertIn(steady.publisher.address, self.text("#stream-facts"))
                tracks = lambda: [row.split("\t") for row in self.rows("#track-rows tr")]
                self.assertEqual([row[:3] for row in tracks()],
                                 [["video 0, default", "h264", "320x180, 25 fps"], ["audio 0, default", "aac", ""]])
                harness.wait_until(lambda: all(re.match(r"[\d.]+\Z", row[3]) and "bit/s" in row[4] for row in tracks()), "rates")
                # The plot, and what it says.
                count = lambda name: sum(map(int, self.browser.run(
                    "return [...document.querySelectorAll('#stream-plots g')].map((bar) => bar.dataset[arguments[0]])", name)))
                harness.wait_until(lambda: count("frames") > 50 and count("keys") > 1, "bars")
                self.assertEqual(len(self.rows("#stream-plots g title")), 60)
                said = self.attribute("#stream-plots svg", "aria-label")
                self.assertRegex(said, r"\AFrame sizes of the last minute: \d+ frames, mean [\d.]+ \w+, largest 1.5 KiB, \d+ key")
                # Players with their queues; one of them is kicked.
                harness.wait_until(lambda: len(self.rows("#stream-player-rows tr")) == 2, "the players")
                row, = [row for row in self.rows("#stream-player-rows tr") if player.address in row]
                self.assertRegex(row, r"\d (Ki)?B, \d\.\d s")
                self.browser.click("//tbody[@id='stream-player-rows']/tr[contains(., '%s')]//button" % player.address)
                self.browser.accept()
                player.wait_end()
                self.assertRegex(self.text("#stream-urls"), re.escape("/%s.flv" % steady.name))
                steady.go_on()
                self.check_recordings(daemon, steady)
                self.browser.click("//div[@id='stream-actions']/button[text()='kick publisher']")
                self.browser.accept()
                daemon.wait_log("publisher ended", reason="kicked")
                steady.abandon()
            harness.wait_until(lambda: self.visible("#stream-gone"), "the end of the stream")
            # It is not there, and the page shows it as soon as it is. (That there is none yet is a 404.)
            self.go("#/streams/live%2Flater")
            harness.wait_until(lambda: self.text("#stream-name") == "live/later" and self.visible("#stream-gone"), "no stream")
            with Publisher(daemon, "live/later", "http") as publisher:
                publisher.send(flv.stream(40)[0])
                harness.wait_until(lambda: self.visible("#stream-content") and self.text("#stream-state") == "live", "the stream")
            self.assertEqual([text for text in self.browser.complaints() if "404" not in text], [])

    def check_recordings(self, daemon, steady):
        """What is recorded is said; a file that is complete has a link, behind which it is."""
        self.assertRegex(self.text("#recording-state"), r"\Arecording, 1 file, ")
        self.browser.click("//div[@id='stream-actions']/button[text()='record']")
        harness.wait_until(lambda: self.rows("#recording-files a"), "the file")
        self.assertIn("Not recorded: off.", self.text("#recording-state"))
        link, = self.browser.run("return [...document.querySelectorAll('#recording-files a')].map((link) => link.href)")
        self.assertTrue(link.startswith("http://127.0.0.1:%d/recordings/%s/" % (daemon.address()[1], steady.name)), link)
        status, _, body = daemon.request("GET", link[link.index("/recordings"):])
        self.assertEqual((status, body[:3]), (200, b"FLV"))

    def serve(self, *options, make=console_server.Server):
        """A daemon, and a server that shows many streams in its place."""
        daemon = self.enterContext(Daemon(*options))
        publisher = self.enterContext(Publisher(daemon, "live/one", "http"))
        publisher.send(flv.stream(40)[0])
        daemon.wait_stream("live/one", lambda stream: stream["video"] and stream["audio"], "media")
        self.enterContext(Player(daemon, "live/one"))
        daemon.wait_player("live/one")
        return self.enterContext(make(daemon))

    def test_many_streams(self):
        """10,000 streams, of which the page asks for one page: sorted, searched, and turned."""
        server = self.serve()
        self.open(server)
        names = lambda: self.rows("#stream-rows th")
        harness.wait_until(lambda: len(names()) == 50, "a page")
        self.assertEqual((names()[0], self.text("#range")), ("live/00000", "1\N{EN DASH}50 of 10,000"))
        self.assertTrue(self.browser.run("return document.getElementById('previous').disabled"))
        self.browser.click("//button[@id='next']")
        harness.wait_until(lambda: names()[0] == "live/00050" and len(names()) == 50, "the next page")
        self.assertTrue(self.text("#range").startswith("51"))
        self.browser.click("//button[@id='previous']")
        harness.wait_until(lambda: names()[0] == "live/00000", "the page before")
        # Each column, in both directions; what counts most comes first.
        heads = self.rows("#stream-heads button")
        self.assertEqual(len(heads), len(console_server.SORTS))
        for title, sort in (("in", "rate"), ("players", "players"), ("lost", "lost"), ("up", "uptime"), ("media", "media"),
                            ("state", "state"), ("publisher", "publisher"), ("recording", "recording"), ("stream", "name")):
            for _ in range(2):
                self.browser.click("//tr[@id='stream-heads']//button[text()='%s']" % title)
                order, = self.browser.run("return [...document.querySelectorAll('#stream-heads th')].map((head) =>"
                                          "head.getAttribute('aria-sort')).filter((order) => order && order !== 'none')")
                direction = {"ascending": "asc", "descending": "desc"}[order]
                harness.wait_until(lambda: (server.asked[-1]["sort"], server.asked[-1]["order"]) == (sort, direction), title)
                if sort in ("rate", "players", "lost"):
                    best = sorted(server.streams, key=console_server.SORTS[sort], reverse=direction == "desc")
                    harness.wait_until(lambda: names()[:3] == [one["name"] for one in best[:3]], "the order of " + title)
        self.type("#search", "live/0999")
        harness.wait_until(lambda: self.text("#range") == "1\N{EN DASH}10 of 10" and len(names()) == 10, "what was searched")
        self.type("#search", "none")
        harness.wait_until(lambda: self.visible("#no-streams"), "nothing")
        self.assertIn("none", self.text("#no-streams"))
        # The last page, when there are fewer streams.
        self.type("#search", "")
        harness.wait_until(lambda: len(names()) == 50, "all")
        for _ in range(3):
            self.browser.click("//button[@id='next']")
        harness.wait_until(lambda: self.text("#range").startswith("151"), "the fourth page")
        server.streams = server.streams[:60]
        harness.wait_until(lambda: len(names()) == 10 and self.text("#range") == "51\N{EN DASH}60 of 60", "the last page")
        self.assertEqual({query["limit"] for query in server.asked}, {"50"})
        self.assertEqual(self.browser.complaints(), [])

    def test_history(self):
        """Plots of an hour, with a gap where a worker has not answered, and texts that say the same."""
        server = self.serve()
        self.open(server)
        harness.wait_until(lambda: len(self.rows("#history figure")) == 4, "the plots")
        self.assertEqual(self.rows("#history figcaption > span:first-child"),
                         ["Input", "Output", "CPU per worker", "Dropped frames"])
        said = self.browser.run("return [...document.querySelectorAll('#history svg')].map((svg) => svg.getAttribute('aria-label'))")
        self.assertEqual(said[0], "Input, 1 h 0 min ago until now: now 4.59 Mbit/s, least 1.00 Mbit/s, most 4.59 Mbit/s")
        self.assertIn("most 22.95 Mbit/s", said[1])
        self.assertIn("worker 5 now 60 %", said[2])
        self.assertIn("of players now 0, least 0, most 7; of publishers now 0", said[3])
        lines = self.browser.run("return [...document.querySelectorAll('#history svg')].map((svg) =>"
                                 "[...svg.querySelectorAll('.line')].map((line) => line.getAttribute('d')))")
        self.assertEqual([len(one) for one in lines], [1, 1, 6, 2])
        self.assertEqual((lines[0][0].count("M"), lines[0][0].count("L")), (2, 357))
        self.assertEqual(self.rows("#history .now")[:2], ["4.59 Mbit/s", "22.95 Mbit/s"])
        self.assertEqual(self.browser.complaints(), [])

    def test_other_protocols(self):
        """RTMP's URLs and what OBS asks for; a protocol that the page does not know; a listener that the page's host is not."""
        server = self.serve()
        listener = lambda protocol, address: {"protocol": protocol, "address": address, "stream": None, "merge_window_ms": None,
                                               "merge_window_auto": False}
        server.config["listeners"] = [listener("srt", "[::]:9999"), listener("rtmp", "0.0.0.0:1935")]
        server.config["settings"]["rule"] = ["publish live/* allow"]
        self.open(server)
        cells = lambda name, at: self.rows("#urls tr[data-protocol=%s] td:nth-child(%d) code" % (name, at))
        url = "rtmp://127.0.0.1:1935/live/stream"
        harness.wait_until(lambda: (cells("rtmp", 2), cells("rtmp", 3)) == ([url], [url]), "RTMP")
        self.assertEqual(self.rows("#urls tbody th"), ["RTMP", "srt"])
        self.assertEqual(cells("srt", 2), ["srt://127.0.0.1:9999"])
        self.assertIn("?token=", self.text("#urls"))
        self.choose("obs")
        harness.wait_until(lambda: cells("rtmp", 2) == ["rtmp://127.0.0.1:1935/live", "stream"], "server and key")
        self.choose("ffmpeg")
        harness.wait_until(lambda: cells("rtmp", 3) == ["ffplay " + url], "a command")
        self.assertEqual(cells("rtmp", 2), ["ffmpeg -re -i FILE -c copy -f flv " + url])
        self.assertEqual(self.browser.complaints(), [])

    def test_forwards(self):
        """Those that fail come first, and there are not too many rows."""
        server = self.serve("--forward", "live/*=http://127.0.0.1:1/copy/*.flv")
        self.open(server.daemon)
        harness.wait_until(lambda: self.rows("#forward-rows tr.failing"), "the forward that fails")
        row = self.rows("#forward-rows tr > *")
        self.assertEqual(row[:3] + row[4:6] + row[7:], ["live/one", "http://127.0.0.1:1", "http", "0 B", "0", "Connection refused"])
        one, = server.daemon.api("/api/v1/forwards")["forwards"]
        forward = dict(one, to="rtmp://127.0.0.1:1935", type="rtmp", state="sending", step=None, failures=0, reason=None,
                       retry_seconds=None, bytes_sent=2048, frames_dropped=3)
        server.forwards = [forward] + [dict(forward, id=one["id"] + number, stream="live/two", state="waiting", retry_seconds=1.5,
                                            failures=4, reason="Connection refused") for number in range(2, 203)]
        self.open(server)
        rows = lambda: [row.split("\t") for row in self.rows("#forward-rows tr")]
        harness.wait_until(lambda: len(rows()) == 200, "the rows, as many as there may be")
        self.assertEqual(self.text("#more-forwards"), "and 2 more")
        self.assertEqual(rows()[0], ["live/two", "rtmp://127.0.0.1:1935", "rtmp", "waiting, again in 2 s", "2.0 KiB", "3", "4",
                                     "Connection refused"])
        server.forwards = [forward]
        harness.wait_until(lambda: rows() == [["live/one", "rtmp://127.0.0.1:1935", "rtmp", "sending", "2.0 KiB", "3", "0", ""]],
                           "one forward")
        server.forwards = []
        harness.wait_until(lambda: not self.visible("#forwards"), "none")
        self.assertEqual(self.browser.complaints(), [])

    def test_bans(self):
        """They are there while there are any, and can be lifted."""
        server = self.serve()
        self.open(server.daemon)
        self.assertFalse(self.visible("#bans"))
        self.assertEqual(server.daemon.admin("DELETE", "/api/v1/streams/live/one?ban=600")[0], 204)
        harness.wait_until(lambda: self.rows("#ban-rows tr > *")[:4] == ["live/one", "127.0.0.1", "this node", ""], "the ban")
        self.browser.run("window.confirm = () => true; document.querySelector('#ban-rows button').click()")
        harness.wait_until(lambda: not self.visible("#bans"), "none")
        self.assertEqual(server.daemon.api("/api/v1/bans"), {"partial": False, "bans": []})
        self.assertEqual(self.browser.complaints(), [])

    def test_certificates(self):
        """Days that are left, with a warning; and URLs of listeners with TLS."""
        with tempfile.TemporaryDirectory() as folder:
            soon, later = certificates.make(folder, "soon.example", days=10), certificates.make(folder, "later.example", days=400)
            with Daemon("--tls-certificate", "later.example=" + later.option, "--tls-certificate", soon.option,
                        listen=("--http", "127.0.0.1:0,tls", "--rtmp", "127.0.0.1:0,tls", "--rtsp", "127.0.0.1:0,tls",
                                "--flv", "127.0.0.1:0,tls")) as daemon:
                self.open(daemon)
                rows = lambda: [row.split("\t") for row in self.rows("#certificate-rows tr")]
                first, second = harness.wait_until(rows, "the certificates")
                self.assertEqual((first[:2], second[:2]), (["CN=soon.example"] * 2, ["later.example", "CN=later.example"]))
                self.assertIn(first[2], ("9 days", "10 days"))
                self.assertEqual(first[4], soon.sha256[:16])
                self.assertEqual(len(self.rows("#certificate-rows tr.failing")), 1)
                harness.wait_until(lambda: re.fullmatch(r"The certificate of CN=soon\.example expires in (9|10) days\.",
                                                        self.text("#message")), "the warning")
                self.assertEqual(self.rows("#urls tbody th"), ["RTMP, TLS", "HTTP-FLV, TLS", "RTSP, TLS", "FLV over TCP, TLS"])
                urls = self.rows("#urls code")
                for scheme in ("rtmps", "https", "wss", "rtsps", "tls"):
                    self.assertTrue(any(url.startswith(scheme + "://127.0.0.1:") for url in urls), (scheme, urls))
                self.assertFalse([url for url in urls if re.match("(rtmp|http|ws|rtsp|tcp):", url)])
                self.go("#/streams/live%2Fnone")
                harness.wait_until(lambda: "soon.example" in self.text("#message"), "the warning on each page")
                self.assertEqual([text for text in self.browser.complaints() if "404" not in text], [])

    def test_ktls(self):
        """Connections with TLS, and whether the kernel encrypts for them; also of a daemon whose forwards alone have TLS."""
        with tls.Daemon() as target:
            self.open(target)
            harness.wait_until(lambda: self.text("#tls-state") == "0 connections, kTLS is off", lambda: self.text("#tls-state"))
            with Daemon("--ktls", "always", "--tls-ca", tls.certificate().chain, "--forward",
                        "live/*=rtmps://localhost:%d/copy/*" % target.address("rtmp")[1],
                        listen=("--flv", "127.0.0.1:0=live/x", "--http", "127.0.0.1:0")) as daemon:
                self.open(daemon)
                harness.wait_until(lambda: self.visible("#certificates"), "the panel")
                self.assertEqual(self.text("#tls-state"), "0 connections, kTLS has not been tried")
                self.assertFalse(self.visible("#certificate-table"))
                with Steady(daemon, name="live/x", size=4000) as steady:
                    steady.go_on(60)
                    shown = harness.wait_until(lambda: daemon.api("/api/v1/tls")["connections"] and daemon.api("/api/v1/tls"), "TLS")
                    kernel = shown["ktls"]
                    wanted = "1 connection, " + ("1 encrypted by the kernel (kTLS)" if kernel["used"] else
                                                 "kTLS is not used: %s: %s" % (kernel["failed"], kernel["reason"]))
                    harness.wait_until(lambda: self.text("#tls-state") == wanted, lambda: self.text("#tls-state"))
        self.assertEqual(self.browser.complaints(), [])

    def test_ktls_states(self):
        """What it says where the kernel can encrypt, and where it cannot change keys."""
        server = self.serve()
        row = {"setting": "auto", "used": True, "sends": True, "changes_keys": True, "failed": None, "reason": None}
        unused = {**row, "used": False, "changes_keys": False, "failed": "key change", "reason": "Device or resource busy"}
        for tls_state, wanted in (((2500, 1200, row), "2,500 connections, 1,200 encrypted by the kernel (kTLS)"),
                                  ((1, 0, unused), "1 connection, kTLS is not used: key change: Device or resource busy")):
            server.documents["/api/v1/tls"] = dict(zip(("connections", "ktls_connections", "ktls"), tls_state))
            self.open(server)
            harness.wait_until(lambda wanted=wanted: self.text("#tls-state") == wanted, lambda: self.text("#tls-state"))

    def test_cluster(self):
        """Nodes with their load, pulls, and where streams are; and on each page that the engine is away."""
        with cluster.Cluster() as nodes:
            a, b = nodes.add("a"), nodes.add("b")
            with cluster.Marked(a, "live/a", 1), Player(b, "live/a") as player:
                cluster.wait_order(player, 1)
                self.open(b)
                harness.wait_until(lambda: self.text("#cluster-node") == "b, 2 nodes", "the link to the cluster")
                self.browser.click("//a[@id='cluster-node']")
                row = "#node-rows tr[data-node='%s'] > *"
                harness.wait_until(lambda: self.visible("#cluster-content") and [self.rows(row % one)[5:7] for one in "ab"] ==
                                   [["1", "1"], ["1", "1"]], "the load")
                self.assertEqual((self.text("#cluster h2"), self.text("#cluster-state")), ("Node b", "online"))
                self.assertEqual(self.rows(row % "a")[:3], ["a", "alive", "%s:%d" % a.address("http")])
                self.assertEqual(self.rows(row % "b")[1], "alive, this node")
                self.assertEqual(self.rows("#node-pull-rows tr > *")[:5], ["live/a", "playing", "a", "%s:%d" % a.address("http"), "origin"])
                self.assertEqual(self.rows("#location-rows tr > *")[:4], ["live/a", "a", "%s:%d" % a.address("http"), "yes"])
                self.type("#location-search", "none")
                harness.wait_until(lambda: self.visible("#no-locations") and not self.rows("#location-rows tr"), "a search in vain")
                self.type("#location-search", "LIVE")
                harness.wait_until(lambda: self.text("#location-range") == "1–1 of 1", "a search")
                self.assertFalse(self.visible("#message"))
                nodes.engine.stop()
                harness.wait_until(lambda: "The cluster's engine has been unavailable for" in self.text("#message"), "the warning")
                harness.wait_until(lambda: self.rows("#location-rows tr.waiting > *")[3:4] == ["no"], "that it is not confirmed")
                self.go("#/streams/live%2Fa")
                harness.wait_until(lambda: self.visible("#stream-content") and "unavailable" in self.text("#message"), "it on another page")
                self.assertEqual(self.browser.complaints(), [])

    def test_cluster_of_many(self):
        """Hundreds of nodes and pages of locations, on a telephone; what others say is text, whatever it is."""
        evil = "<img src=x onerror='document.title=1'>"
        with cluster.Cluster() as nodes:
            real = nodes.add("a")
            with cluster.Marked(real, "live/a", 1):
                harness.wait_until(lambda: real.api("/api/v1/cluster")["streams"]["own"] and real.api("/api/v1/cluster")["nodes"], "a stream")
                server = self.serve()
                document = real.api("/api/v1/cluster")
                one, = document["nodes"]
                location, = real.api("/api/v1/cluster/streams")["streams"]
                server.overview["cluster"] = dict(real.api("/api/v1/overview")["cluster"], node=evil)
        document["node"].update(name=evil, address=evil)
        document["engine"].update(last_error=evil, last_error_seconds=3.5, server=evil)
        document["nodes"] = [dict(one, name="%s%d" % (evil, at), alive=at != 250, address=evil) for at in range(300)]
        pull = dict(stream=evil, state="waiting", node=evil, address=evil, epoch=1, failures=3, reason=evil, **{"from": "origin"})
        server.documents = {
            "/api/v1/cluster": document, "/api/v1/cluster/pulls": {"pulls": [pull], "total": 201},
            "/api/v1/cluster/streams": {"streams": [dict(location, name="%s%d" % (evil, at), address=evil) for at in range(50)],
                                        "matching": 120}}
        self.browser.size(390, 844, touch=True)
        self.addCleanup(self.browser.size)
        self.open(server)
        self.go("#/cluster")
        harness.wait_until(lambda: self.visible("#cluster-content") and len(self.rows("#location-rows tr")) == 50, "the page")
        rows = self.rows("#node-rows tr")
        self.assertEqual((len(rows), self.text("#more-nodes"), self.text("#more-node-pulls")), (200, "and 100 more", "and 1 more"))
        self.assertTrue(rows[0].startswith(evil + "250"), rows[0])
        self.assertEqual(len(self.rows("#node-rows tr.failing")), 1)
        self.assertEqual(self.text("#location-range"), "1–50 of 120")
        self.browser.click("//button[@id='next-locations']")
        harness.wait_until(lambda: self.text("#location-range") == "51–100 of 120", "the next page")
        self.check_narrow("cluster")
        for table in ("#node-rows tr", "#node-pull-rows tr", "#location-rows tr"):
            self.check_sticky(table)
        self.check_named("cluster")
        self.assertEqual(self.browser.run("return [document.images.length, document.title]"), [0, "cluster - sluiced"])
        self.assertEqual(self.browser.complaints(), [])

    def test_token(self):
        """Without the token there is a form for it, and nothing else is shown; with it, all there is."""
        with tempfile.TemporaryDirectory() as folder:
            token = os.path.join(folder, "token")
            with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
                file.write("secret-of-the-test\n")
            with Daemon("--admin", "127.0.0.1:0", "--admin-token-file", token) as daemon:
                self.browser.open("http://127.0.0.1:%d/" % daemon.address("admin")[1])
                harness.wait_until(lambda: self.visible("#login"), "the form")
                self.assertEqual((self.text("#version"), self.rows("#urls code")), ("", []))
                self.assertTrue(self.text("#message"))
                for text in ("wrong", "secret-of-the-test"):
                    self.type("#token", text)
                    self.browser.click("//form[@id='login']/button")
                harness.wait_until(lambda: self.text("#version") and self.rows("#urls code"), "the page")
                harness.wait_until(lambda: not self.visible("#login") and not self.visible("#message"), "the end of the form")
                self.assertEqual([text for text in self.browser.complaints() if "401" not in text], [])
                self.browser.run("sessionStorage.clear()")

    def test_no_answer(self):
        """Workers that do not answer, and a server that does not, are said; the page goes on with what it has."""
        server = self.serve()
        self.open(server)
        harness.wait_until(lambda: len(self.rows("#stream-rows tr")) == 50, "a page")
        self.assertFalse(self.visible("#message"))
        server.overview["counts"].update(workers=3, workers_answering=2)
        harness.wait_until(lambda: self.text("#message") == "1 of 3 workers do not answer.", "the warning")
        server.refuses = True
        harness.wait_until(lambda: self.text("#message") == "The server does not answer.", "the failure")
        self.assertEqual(len(self.rows("#stream-rows tr")), 50)
        server.refuses = False
        server.overview["counts"].update(workers_answering=3)
        harness.wait_until(lambda: not self.visible("#message"), "an answer")

    def check_narrow(self, page):
        """Nothing is wider than the screen, and what is touched is large enough for a finger."""
        self.assertEqual(self.browser.run("return [document.documentElement.scrollWidth, innerWidth]"), [390, 390], page)
        small = self.browser.run("""
            return [...document.querySelectorAll('button, a, input:not([type=radio]), fieldset label')]
              .filter((one) => one.offsetParent !== null && !one.classList.contains('skip'))
              .map((one) => [one.outerHTML, one.getBoundingClientRect()])
              .filter(([, box]) => box.width < 44 || box.height < 44).map(([text, box]) => text + ' ' + box.width + 'x' + box.height)""")
        self.assertEqual(small, [], page)

    def check_sticky(self, rows):
        """A table that is scrolled shows its first column."""
        moved = self.browser.run("""
            const row = document.querySelector(arguments[0]), scroll = row.closest('.scroll');
            scroll.scrollLeft = 200;
            const left = (one) => one.getBoundingClientRect().left;
            return [scroll.scrollLeft, left(row.cells[0]) - left(scroll), left(row.cells[2]) < left(row.cells[0]) +
                row.cells[0].getBoundingClientRect().width]""", rows)
        self.assertEqual(moved, [200, 0, True], rows)

    def test_narrow(self):
        """A telephone of 390 pixels."""
        with tempfile.TemporaryDirectory() as folder, Daemon("--record", "live/*=" + folder) as daemon:
            with Publisher(daemon, "live/a-long-name-of-a-camera/behind-the-house", "http") as publisher:
                publisher.send(flv.stream(40)[0])
                daemon.wait_stream(publisher.name)
                with Player(daemon, publisher.name):
                    daemon.wait_player(publisher.name)
                    body = json.dumps({"url": "rtsp://127.0.0.1:1/", "stream": "live/pulled"}).encode()
                    daemon.admin("POST", "/api/v1/pulls", body, {"Content-Type": "application/json"})
                    self.browser.size(390, 844, touch=True)
                    self.addCleanup(self.browser.size)
                    self.open(daemon)
                    harness.wait_until(lambda: self.rows("#pull-rows tr") and self.rows("#urls code") and
                                       self.rows("#player-rows tr"), "the page")
                    self.check_narrow("overview")
                    for rows in ("#stream-rows tr", "#player-rows tr", "#pull-rows tr"):
                        self.check_sticky(rows)
                    # The name of the stream does not fit into a line.
                    line, high = self.browser.run("const head = document.querySelector('#stream-rows th');"
                                                  "return [parseFloat(getComputedStyle(head).lineHeight), head.clientHeight]")
                    self.assertGreater(high, 2 * line)
                    self.choose("ffmpeg")
                    self.check_narrow("commands")
                    self.browser.click("//tbody[@id='stream-rows']//a")
                    harness.wait_until(lambda: self.visible("#stream-content") and self.rows("#stream-player-rows tr"), "the stream")
                    self.check_narrow("stream")
                    self.check_sticky("#stream-player-rows tr")
                    self.assertEqual(self.browser.complaints(), [])

    def test_colours(self):
        """Dark and light as the user has it; in both, texts can be read (WCAG: a contrast of 4.5)."""
        self.addCleanup(self.browser.prefer, "light")
        contrasts = """
            const parse = (color) => color.match(/[\\d.]+/g).map(Number);
            const light = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
              .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
              .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
            const behind = (one) => {
              for (let at = one; at; at = at.parentElement) {
                const color = parse(getComputedStyle(at).backgroundColor);
                if (color.length === 3 || color[3] === 1) return color;
              }
              return [255, 255, 255];
            };
            const page = light(behind(document.body)), found = [];
            for (const one of document.querySelectorAll('main *, header *')) {
              const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
              if (!own || one.offsetParent === null || one.disabled) continue;
              const [low, high] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => a - b);
              if ((high + 0.05) / (low + 0.05) < 4.5) found.push(one.outerHTML);
            }
            return [page, found]"""
        with Daemon("--pull", "rtsp://127.0.0.1:1/x=live/pulled") as daemon, Steady(daemon) as steady:
            self.open(daemon)
            harness.wait_until(lambda: self.rows("#stream-rows tr") and self.rows("#pull-rows tr.failing"), "the page")
            for page in ("#/", "#/streams/" + steady.name.replace("/", "%2F")):
                self.go(page)
                harness.wait_until(lambda: self.visible("#stream-content") or self.visible("#stream-rows"), page)
                for scheme, is_right in (("dark", lambda light: light < 0.1), ("light", lambda light: light > 0.8)):
                    self.browser.prefer(scheme)
                    light, unreadable = self.browser.run(contrasts)
                    self.assertTrue(is_right(light), (scheme, light))
                    self.assertEqual(unreadable, [], (page, scheme))
            steady.go_on()

    def check_named(self, page):
        """What can be used has a name. The roles that there are."""
        nodes = self.browser.accessible()
        used = ("button", "link", "textbox", "searchbox", "radio", "img", "image", "region", "navigation")
        self.assertEqual([(role, name) for role, name in nodes if role in used and not name.strip()], [], page)
        # Those of a table are told from each other.
        names = [name for role, name in nodes if role == "button"]
        self.assertEqual(sorted(names), sorted(set(names)), page)
        return {"image" if role == "img" else role for role, _ in nodes}

    def test_keyboard_and_screen_reader(self):
        """Everything that can be used has a name, and can be used by keys."""
        with Daemon() as daemon, Steady(daemon) as steady:
            self.open(daemon)
            harness.wait_until(lambda: self.rows("#stream-rows tr") and self.rows("#urls code"), "the page")
            for page, what in (("#/", "#stream-rows"), ("#/streams/" + steady.name.replace("/", "%2F"), "#stream-content")):
                self.go(page)
                harness.wait_until(lambda: self.visible(what), page)
                self.assertLessEqual({"button", "link", "image", "table", "columnheader", "rowheader", "heading", "main"},
                                     self.check_named(page), page)
            self.go("#/")
            harness.wait_until(lambda: self.visible("#stream-rows"), "the overview")
            focus = "return [document.activeElement.className, document.activeElement.textContent]"
            self.browser.run("document.activeElement.blur(); window.getSelection().removeAllRanges(); window.scrollTo(0, 0)")
            self.browser.run("document.querySelector('#stream-heads th:nth-child(6) button').focus()")
            self.assertEqual(self.browser.run(focus)[1], "in")
            self.browser.press("\ue007")
            harness.wait_until(lambda: self.attribute("#stream-heads th:nth-child(6)", "aria-sort") == "descending", "the order")
            self.browser.press("\ue004")
            self.assertEqual(self.browser.run(focus)[1], "players")
            self.assertNotEqual(self.browser.run("return getComputedStyle(document.activeElement).outlineStyle"), "none")
            steady.go_on()
            self.assertEqual(self.browser.complaints(), [])

    def test_pictures(self):
        """The scene of the README's pictures: each page, at both sizes, in both colours. With SLUICE_TEST_PICTURES they are kept,
        with a minute of rates."""
        kept = (("#/", 1200, "light", "console"), ("#/", 390, "light", "console-phone"), ("#/", 390, "dark", None),
                ("#/", 1200, "dark", None), ("#/streams/live%2Fstudio", 1200, "dark", "console-stream"),
                ("#/streams/live%2Fstudio", 390, "dark", "console-phone-stream"),
                ("#/streams/live%2Fstudio", 390, "light", None), ("#/streams/live%2Fstudio", 1200, "light", None))
        for undo in (self.browser.size, lambda: self.browser.prefer("light"), lambda: self.browser.hide_scrollbars(False)):
            self.addCleanup(undo)
        self.browser.hide_scrollbars(True)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        scene = self.serve("--pull", "rtsp://127.0.0.1:1/=live/pulled", "--forward", "live/*=http://127.0.0.1:1/*",
                           "--record", "live/*=" + folder, make=console_scene.Scene)
        before = None
        for page, width, scheme, name in kept:
            with self.subTest(page=page, width=width, scheme=scheme):
                self.browser.size(width, 1010 if width > 390 else 844, touch=width == 390)
                self.browser.prefer(scheme)
                if page != before:
                    self.open(scene)
                    self.go(page)
                    scene.asked.clear()
                polls = 60 if os.environ.get("SLUICE_TEST_PICTURES") else 3
                harness.wait_until(lambda: len(scene.asked) >= polls, "%d answers" % polls)
                before = page
                self.check_scene(page, width)
                if name:
                    self.keep_picture(name)

    def check_scene(self, page, width):
        """Everything of it is shown, within the width of the screen."""
        if page == "#/":
            found = [len(self.rows(rows)) for rows in ("#stream-rows tr", "#pull-rows tr", "#forward-rows tr", "#history figure")]
            self.assertEqual(found, [len(console_scene.STREAMS), len(console_scene.PULLS), len(console_scene.FORWARDS), 4])
        else:
            self.assertEqual((len(self.rows("#track-rows tr")), len(self.rows("#stream-player-rows tr"))), (5, 48))
        self.assertEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
        if width > 390:
            # Nothing is behind a table's edge.
            wide = self.browser.run("return [...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > "
                                    "one.clientWidth).map((one) => one.innerText)")
            self.assertEqual(wide, [])
        self.assertEqual(self.browser.complaints(), [])
        self.browser.run("window.scrollTo(0, 0)")

    def keep_picture(self, name):
        folder = os.environ.get("SLUICE_TEST_PICTURES")
        if folder:
            with open(os.path.join(folder, name + ".png"), "wb") as file:
                file.write(base64.b64decode(self.browser.screenshot()))

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
        self.keep_picture("console")
        self.browser.click("//button[@id='preview-close']")
        harness.wait_until(lambda: not daemon.api()["players"], "the preview's end")


if __name__ == "__main__":
    harness.main()
