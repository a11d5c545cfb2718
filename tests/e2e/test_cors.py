"""Pages of other origins: what they may read, play and publish, by the headers and in a Chromium."""

import glob
import http.server
import os
import shutil
import tempfile
import threading
import unittest

import browser
import flv
import harness
from harness import Daemon, Publisher, Steady

if not browser.find():
    harness.skip_file("chromium and chromedriver are not installed: tools/install-deps browser")

LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0")
PLAYER = "https://player.example"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
ALLOWED, EXPOSED = "Access-Control-Allow-Origin", "Access-Control-Expose-Headers"


class OriginCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def daemon(self, *origins):
        options = [word for origin in origins for word in ("--allow-origin", origin)]
        daemon = Daemon("--record", "*=" + self.folder, *options, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    def record(self, daemon):
        """The path of a recording that is there, and its bytes."""
        data, _ = flv.stream(30)
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            publisher.finish()
        daemon.wait_log("recorded")
        [path] = glob.glob(os.path.join(self.folder, "live/cam/*.flv"))
        with open(path, "rb") as file:
            return "/recordings/" + os.path.relpath(path, self.folder), file.read()


class HeaderTest(OriginCase):
    def check(self, headers, origin, credentials=False):
        """What a response says of the page: its origin, "*", or None."""
        self.assertEqual(headers[ALLOWED], origin)
        self.assertEqual(headers["Access-Control-Allow-Credentials"], "true" if credentials else None)
        self.assertEqual(headers["Vary"], None if origin == "*" else "Origin")

    def each(self, daemon, recording, headers, origin, credentials=False):
        """Of each kind of response."""
        for method, path, status in (("GET", recording, 200), ("HEAD", recording, 200), ("GET", "/recordings/live/cam", 200),
                                     ("GET", "/recordings/live/none", 404), ("HEAD", "/live/none.flv", 404),
                                     ("HEAD", "/live/raw.flv", 200), ("GET", "/nothing", 404)):
            with self.subTest("%s %s %s" % (method, path, headers)):
                got, answer, _ = daemon.request(method, path, headers=headers)
                self.assertEqual(got, status)
                self.check(answer, origin, credentials)
                is_file = path == recording
                self.assertEqual(EXPOSED in answer, is_file and origin is not None)
        with daemon.connect() as peer:
            lines = "".join("%s: %s\r\n" % header for header in headers.items())
            peer.sendall(("GET /live/raw.flv HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (
                "%s:%d" % daemon.address(), lines)).encode())
            status, answer, _ = harness.read_head(peer)
        self.assertEqual((status, answer.get(ALLOWED.lower())), (200, origin))

    def preflight(self, daemon, origin):
        status, headers, body = daemon.request("OPTIONS", "/live/raw.flv", headers={
            "Origin": origin, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"})
        self.assertEqual((status, body), (204, b""))
        return headers

    def test_by_default(self):
        """Pages of the same host, at any port, and no others."""
        daemon = self.daemon()
        recording, _ = self.record(daemon)
        same = "http://127.0.0.1:1"
        with Steady(daemon, name="live/raw") as steady:
            self.each(daemon, recording, {}, None)
            self.each(daemon, recording, {"Origin": PLAYER}, None)
            self.each(daemon, recording, {"Origin": "null"}, None)
            self.each(daemon, recording, {"Origin": same}, same)
            steady.go_on()
        self.assertIn("Authorization", self.preflight(daemon, same)["Access-Control-Allow-Headers"])
        for header in ("Origin", "Methods", "Headers"):
            self.assertIsNone(self.preflight(daemon, PLAYER)["Access-Control-Allow-" + header])
        daemon.blocks_settled()

    def test_named(self):
        daemon = self.daemon(PLAYER, "https://*.tv.example")
        recording, content = self.record(daemon)
        with Steady(daemon, name="live/raw") as steady:
            for origin in (PLAYER, "https://a.tv.example"):
                self.each(daemon, recording, {"Origin": origin}, origin, True)
            self.each(daemon, recording, {"Origin": PLAYER + ".evil"}, None)
            steady.go_on()
        answer = self.preflight(daemon, PLAYER)
        self.check(answer, PLAYER, True)
        self.assertIn("PUT", answer["Access-Control-Allow-Methods"].split(", "))
        status, answer, body = daemon.request("GET", recording, headers={"Origin": PLAYER, "Range": "bytes=3-8"})
        self.assertEqual((status, body), (206, content[3:9]))
        self.assertIn("Content-Range", answer[EXPOSED])
        # The longest that there may be.
        longest = "https://%s.tv.example" % ("a" * (127 - len("https://.tv.example")))
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(flv.stream(30)[0])
            daemon.wait_stream("live/cam")
            self.each_of_longest(daemon, recording, longest)
        daemon.blocks_settled()

    def each_of_longest(self, daemon, recording, origin):
        with daemon.connect() as peer:
            peer.sendall(b"GET /live/cam.flv HTTP/1.1\r\nHost: a\r\nOrigin: %s\r\n\r\n" % origin.encode())
            _, headers, data = harness.read_head(peer)
            while len(data) < 40:
                data += peer.recv(4096)
        self.assertEqual(headers[ALLOWED.lower()], origin)
        self.assertTrue(data.startswith(b"d\r\nFLV\x01\x05"))
        for path, longer in ((recording, origin), (recording, None), ("/live/cam.flv", origin)):
            _, headers, _ = daemon.request("HEAD", path, headers={"Origin": longer or origin + "a"})
            self.assertEqual(headers[ALLOWED], longer)

    def test_all(self):
        daemon = self.daemon("*")
        recording, _ = self.record(daemon)
        with Steady(daemon, name="live/raw") as steady:
            for headers in ({}, {"Origin": PLAYER}, {"Origin": "null"}):
                self.each(daemon, recording, headers, "*")
            steady.go_on()
        self.check(self.preflight(daemon, PLAYER), "*")

    def test_publishing(self):
        """A page can send without being asked by its browser, so that it has to be refused."""
        daemon = self.daemon(PLAYER)
        data, _ = flv.stream(30)
        for origin, status in (("https://evil.example", 403), ("null", 403), (PLAYER, 200), ("http://127.0.0.1", 200),
                               (None, 200)):
            with self.subTest(origin):
                headers = {"Content-Type": "text/plain", **({"Origin": origin} if origin else {})}
                self.assertEqual(daemon.request("POST", "/live/a.flv", data, headers)[0], status)
                if status == 403:
                    self.assertEqual(daemon.log("publisher started"), [])
        daemon.blocks_settled()

    def test_websocket(self):
        """Browsers let every page open a WebSocket, and say whose it is."""
        daemon = self.daemon(PLAYER)
        with Steady(daemon, name="live/raw") as steady:
            for origin, status in (("https://evil.example", 403), ("null", 403), (PLAYER, 101), ("http://127.0.0.1:1", 101),
                                   (None, 101)):
                with self.subTest(origin), daemon.connect() as peer:
                    headers = {"Host": "127.0.0.1:8080", **UPGRADE, **({"Origin": origin} if origin else {})}
                    peer.sendall(("GET /live/raw.flv HTTP/1.1\r\n%s\r\n" % "".join(
                        "%s: %s\r\n" % header for header in headers.items())).encode())
                    self.assertEqual(harness.read_head(peer)[0], status)
            steady.go_on()
        daemon.blocks_settled()

    def test_reload(self):
        """Another list holds for the requests that follow, on connections that there are, too."""
        config = os.path.join(self.folder, "sluiced.conf")

        def write(text):
            with open(config, "w", encoding="ascii") as file:
                file.write('http = "127.0.0.1:0";\n' + text)
        write("")
        with Daemon("--config", config, listen=()) as daemon:
            connection = daemon.connection()
            self.addCleanup(connection.close)
            for text, origin in (("", None), ('allow-origin = "%s";' % PLAYER, PLAYER), ("allow-origin = [];", None)):
                write(text)
                self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)
                connection.request("OPTIONS", "/live/a.flv", headers={"Origin": PLAYER})
                answer = connection.getresponse()
                answer.read()
                self.assertEqual(answer.headers[ALLOWED], origin)


FETCH = """
    const [url, options, done] = arguments;
    fetch(url, options).then(async (answer) => {
        const reader = answer.body.getReader(), first = await reader.read();
        reader.cancel();
        done({status: answer.status, range: answer.headers.get("Content-Range"), bytes: first.value.length});
    }).catch((error) => done({error: String(error)}));
"""
SOCKET = """
    const [url, done] = arguments, socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    socket.onmessage = (message) => { done({bytes: message.data.byteLength}); socket.close(); };
    socket.onerror = () => done({error: "no WebSocket"});
"""


class BrowserTest(OriginCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

        class Empty(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        cls.pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
        thread = threading.Thread(target=cls.pages.serve_forever)
        thread.start()
        cls.addClassCleanup(cls.pages.server_close)
        cls.addClassCleanup(thread.join)
        cls.addClassCleanup(cls.pages.shutdown)

    def page(self, host):
        """Opens a page of that host; its origin."""
        origin = "http://%s:%d" % (host, self.pages.server_address[1])
        self.browser.open(origin + "/")
        return origin

    def tries(self, daemon, recording):
        """What a page gets of a stream, of a recording's part with a header that is asked about first, by WebSocket."""
        base = "%s:%d" % daemon.address()
        part = {"headers": {"Range": "bytes=0-99", "Authorization": "Bearer x"}}
        return [self.browser.run_async(FETCH, "http://%s/live/raw.flv" % base, {}),
                self.browser.run_async(FETCH, "http://%s%s" % (base, recording), part),
                self.browser.run_async(SOCKET, "ws://%s/live/raw.flv" % base)]

    def test_pages(self):
        other = "http://localhost:%d" % self.pages.server_address[1]
        for origins, host, good in (((), "localhost", False), ((), "127.0.0.1", True), ((other,), "localhost", True),
                                    (("*",), "localhost", True), ((PLAYER,), "localhost", False)):
            with self.subTest("%s %s" % (origins, host)):
                shutil.rmtree(os.path.join(self.folder, "live"), ignore_errors=True)
                daemon = self.daemon(*origins)
                recording, content = self.record(daemon)
                with Steady(daemon, name="live/raw") as steady:
                    self.page(host)
                    stream, part, socket = self.tries(daemon, recording)
                    if good:
                        self.assertEqual(stream["status"], 200)
                        self.assertEqual(part, {"status": 206, "range": "bytes 0-99/%d" % len(content), "bytes": 100})
                        self.assertEqual(socket, {"bytes": 13})
                    else:
                        self.assertEqual({"error"}, set(stream) | set(part) | set(socket))
                    steady.go_on()
                daemon.stop()


if __name__ == "__main__":
    harness.main()
