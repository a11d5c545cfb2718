"""mpegts.js in a headless Chromium plays a stream by WebSocket and by HTTP without a stall, and goes on after the
publisher has been restarted.

Environment: SLUICE_TEST_SECONDS, how long each is played before and after the restart.
"""

import http.server
import os
import threading
import unittest

import browser
import harness
from harness import Daemon

SECONDS = float(os.environ.get("SLUICE_TEST_SECONDS", "4"))

if not browser.find():
    harness.skip_file("chromium and chromedriver are not installed: tools/install-deps browser")
if not harness.find_ffmpeg():
    harness.skip_file("ffmpeg is not installed: tools/install-deps test")

# A player for each URL. What is counted of each: "waiting" is what a stall is to a video element; a picture that stands
# still is seen by its time.
PAGE = b"""<!doctype html><title>players</title><link rel="icon" href="data:,"><script src="/mpegts.js"></script><script>
const players = [];
function play(url) {
  const video = document.createElement("video");
  const one = {url, video, waits: 0, errors: [], best: 0, stood: 0, at: 0};
  video.muted = true;
  document.body.append(video);
  video.addEventListener("waiting", () => { one.waits += video.currentTime > 0.5; });
  const player = mpegts.createPlayer({type: "flv", isLive: true, url}, {
    enableStashBuffer: false, autoCleanupSourceBuffer: true});
  player.on(mpegts.Events.ERROR, (kind, detail) => one.errors.push(kind + ": " + detail));
  player.attachMediaElement(video);
  player.load();
  // A viewer's player begins with a second in hand.
  const begin = () => video.buffered.length && video.buffered.end(0) - video.buffered.start(0) > 1
    ? video.play() : setTimeout(begin, 50);
  begin();
  players.push(one);
}
setInterval(() => {
  const now = performance.now();
  for (const one of players) {
    if (one.at) one.stood = Math.max(one.stood, now - one.at);
    if (one.video.currentTime > one.best) {
      one.best = one.video.currentTime;
      one.at = now;
    }
  }
}, 20);
function look() {
  return players.map(({url, video, waits, errors, stood}) => ({url, waits, errors, stood, time: video.currentTime,
    width: video.videoWidth, shown: video.getVideoPlaybackQuality().totalVideoFrames,
    dropped: video.getVideoPlaybackQuality().droppedVideoFrames,
    ahead: video.buffered.length ? video.buffered.end(video.buffered.length - 1) - video.currentTime : 0}));
}
function forget() {
  for (const one of players) { one.waits = 0; one.stood = 0; one.at = performance.now(); }
}
</script><body></body>"""


class PageServer:
    """The page and the script that the daemon has."""

    def __init__(self, script):
        files = {"/": (b"text/html", PAGE), "/mpegts.js": (b"text/javascript", script)}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                kind, body = files.get(self.path, (b"text/plain", b""))
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", kind.decode())
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/" % self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class BrowserPlayTest(unittest.TestCase):
    def publish(self, daemon, media):
        encoder = harness.Ffmpeg(harness.find_ffmpeg(), "-re", "-stream_loop", "-1", "-i", media, "-c", "copy", "-f",
                                 "flv", "-flvflags", "no_duration_filesize", "-method", "POST", daemon.url("live/cam"))
        self.addCleanup(encoder.kill)
        return encoder

    def test_play(self):
        media = harness.make_media(harness.find_ffmpeg(), "%s %s -t 60 %s -g 25 %s" % (
            harness.VIDEO, harness.tone(44100), harness.H264.replace("-g 50", ""), harness.AAC))
        with Daemon("--wait", "60", "--same-name", "resume") as daemon, browser.Browser() as self.page:
            status, _, script = daemon.admin("GET", "/mpegts.js")
            self.assertEqual(status, 200, "this build is without mpegts.js: npm")
            server = PageServer(script)
            self.addCleanup(server.close)
            encoder = self.publish(daemon, media)
            daemon.wait_stream("live/cam")
            self.page.open(server.url)
            base = "%s:%d/live/cam.flv" % daemon.address()
            for url in ("ws://" + base, "http://" + base):
                self.page.run("play(arguments[0])", url)
            harness.wait_until(lambda: all(one["time"] > 0.5 for one in self.look()), lambda: "pictures: %s" % self.look())
            self.page.run("forget()")
            before = self.play_on("before the restart")
            encoder.kill()
            daemon.wait_log("publisher ended")
            self.publish(daemon, media)
            # What they had in hand may have run out meanwhile.
            harness.wait_until(lambda: all(one["time"] > start["time"] + 1.5 for one, start in zip(self.look(), before)),
                               lambda: "pictures after the restart: %s" % self.look())
            self.page.run("forget()")
            self.play_on("after the restart")
            state = daemon.api()
            self.assertEqual(sorted(one["protocol"] for one in state["players"]), ["http", "websocket"])
            for one in state["players"]:
                self.assertEqual((one["state"], one["frames_dropped"]), ("playing", 0))
            self.assertEqual(daemon.log("player ended"), [])

    def look(self):
        return self.page.run("return look()")

    def play_on(self, when):
        """Until each has played so long: without a stall."""
        start = self.look()
        # In steps, since it may be long.
        for step in range(1, 5):
            harness.wait_until(lambda step=step: all(now["time"] >= begin["time"] + SECONDS * step / 4
                                                     for now, begin in zip(self.look(), start)),
                               lambda: "%g s %s: %s" % (SECONDS, when, self.look()))
        now = self.look()
        for one, begin in zip(now, start):
            print("\n%s, %s: %.1f s, %d frames shown, %d dropped, %d stalls, longest step %.0f ms, %.2f s ahead" % (
                one["url"].partition(":")[0], when, one["time"] - begin["time"], one["shown"] - begin["shown"],
                one["dropped"] - begin["dropped"], one["waits"], one["stood"], one["ahead"]), flush=True)
        self.assertEqual([(one["waits"], one["errors"], one["width"]) for one in now], [(0, [], 320)] * 2)
        return now


if __name__ == "__main__":
    harness.main()
