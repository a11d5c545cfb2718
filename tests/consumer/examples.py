"""Runs each example with a program that is somebody else's.

Usage: examples.py PROGRAMS SOURCE_DIR EXAMPLE
"""

import asyncio
import contextlib
import http.server
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

PROGRAMS, SOURCE_DIR, EXAMPLE = sys.argv[1:4]
SECONDS = 60
CAMERA = os.path.join(SOURCE_DIR, "tests", "e2e", "gst_camera.py")
# Four seconds: 100 pictures and some sound.
FFMPEG = ["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=4",
          "-f", "lavfi", "-i", "sine=duration=4", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-pix_fmt", "yuv420p",
          "-c:a", "aac"]


def program(name):
    return os.path.join(PROGRAMS, name)


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, check=False, **options)


class Case(unittest.TestCase):
    def start(self, *command, text=True):
        """A program that says in its first line where it listens. That line, and the process."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=text)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.stdout.readline(), process

    def port_of(self, *command):
        line, process = self.start(*command)
        found = re.search(r"(\d+)\s*$", line)
        if not found:
            self.fail(f"{command} said {line!r} in place of a port")
        return int(found[1]), process


class FlvTagsTest(Case):
    def test_ffmpeg_publishes(self):
        port, process = self.port_of(program("flv_tags"), "0")
        done = run(*FFMPEG, "-f", "flv", "-flvflags", "no_duration_filesize", f"tcp://127.0.0.1:{port}")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        lines = process.stdout.read().splitlines()
        self.assertEqual(process.wait(SECONDS), 0)
        self.assertGreaterEqual(len([line for line in lines if line.startswith("video ")]), 100)
        self.assertTrue(any(line.startswith("audio ") for line in lines))


class FindLinesTest(Case):
    def test_grep_finds_the_same(self):
        with tempfile.NamedTemporaryFile() as file:
            for number in range(200000):
                file.write(b"%d%s\n" % (number, b"x" * (number % 97)))
            file.write(b"y" * 40000 + b" 1234 " + b"z" * 20000 + b"\n" + b"the last 1234, without an end")
            file.flush()
            found, expected = run(program("find_lines"), "1234", file.name), run("grep", "-F", "1234", file.name)
        self.assertEqual((found.returncode, found.stderr), (0, b""))
        self.assertTrue(found.stdout.count(b"\n") > 100)
        self.assertEqual(found.stdout, expected.stdout)

    def test_what_is_no_file_is_refused(self):
        for path, message in (("/nonexistent", b"No such file"), ("/", b"Is a directory")):
            done = run(program("find_lines"), "a", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


class LibeventTest(Case):
    def test_curl_reads_what_was_counted(self):
        line, process = self.start(program("in_libevent"))
        port, url = re.search(r":(\d+), (http://\S+)", line).groups()
        with socket.create_connection(("127.0.0.1", int(port)), SECONDS) as sender:
            sender.sendall(b"a" * 1234567)
            done = run("curl", "-sS", "--retry", "20", "--retry-all-errors", url)
            while not done.stdout.startswith(b"1234567 bytes, 1 connections"):
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertLessEqual(int(done.stdout.split()[0]), 1234567)
                done = run("curl", "-sS", url)
        process.terminate()
        self.assertEqual(process.wait(SECONDS), 0)


class WebSocketEchoTest(Case):
    def test_the_client_of_python(self):
        import websockets

        async def talk(port):
            async with websockets.connect(f"ws://127.0.0.1:{port}/", max_size=None, max_queue=None) as client:
                messages = ["héllo", b"", b"\x00" * 65536, "x" * 1000000]
                for message in messages:
                    await client.send(message)
                self.assertEqual([await client.recv() for _ in messages], messages)
                await (await client.ping(b"are you there"))
                # More than it queues: it stops to read until this side does.
                sender = asyncio.create_task(self.send_all(client, 64))
                for _ in range(64):
                    self.assertEqual(len(await client.recv()), 500000)
                await sender
                await client.close(4000)
                self.assertEqual(client.close_code, 4000)
            with self.assertRaises(websockets.ConnectionClosedError) as closed:
                async with websockets.connect(f"ws://127.0.0.1:{port}/") as client:
                    await client.send("x" * (1 << 21))
                    await client.recv()
            self.assertEqual(closed.exception.rcvd.code, 1009)

        port, _ = self.port_of(program("websocket_echo"), "0")
        asyncio.run(asyncio.wait_for(talk(port), SECONDS))
        done = run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{port}/")
        self.assertEqual(done.stdout, b"426")

    @staticmethod
    async def send_all(client, count):
        for _ in range(count):
            await client.send(b"y" * 500000)


class HttpGetTest(Case):
    BODY = bytes(range(256)) * 20000

    def serve(self):
        body = self.BODY

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/missing":
                    self.send_error(404, "Not here")
                    return
                self.send_response(200)
                if self.path == "/length":
                    self.send_header("Content-Length", str(len(body)))
                elif self.path == "/chunked":
                    self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if self.path == "/chunked":
                    for at in range(0, len(body), 70000):
                        piece = body[at:at + 70000]
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.write(b"0\r\n\r\n")
                else:
                    self.wfile.write(body)
                self.close_connection = True

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def test_the_server_of_python(self):
        port = str(self.serve())
        for path in ("/length", "/chunked", "/close"):
            done = run(program("http_get"), "127.0.0.1", port, path)
            self.assertEqual((done.returncode, done.stderr), (0, b"200 OK\n"), path)
            self.assertEqual(done.stdout, self.BODY, path)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            done = run(program("http_get"), "127.0.0.1", str(unused.getsockname()[1]), "/")
        self.assertEqual((done.returncode, done.stderr), (1, b"http_get: Connection refused\n"))
        done = run(program("http_get"), "localhost", port, "/missing")
        self.assertEqual((done.returncode, done.stderr), (0, b"404 Not here\n"))
        with self.assertRaises(urllib.error.HTTPError) as same:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/missing")
        self.assertEqual(done.stdout, same.exception.read())


def make_certificate(folder):
    """A key, and a certificate for localhost."""
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    done = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-subj",
               "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    if done.returncode:
        raise AssertionError(done.stderr)
    return certificate, key


class TlsEchoTest(Case):
    def test_openssl_and_curl(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = make_certificate(folder)
            port, _ = self.port_of(program("tls_echo"), certificate, key, "0")
            address = f"127.0.0.1:{port}"
            for version in ("1_2", "1_3"):
                # s_client leaves when it has sent all, unless it is told to wait for the end of the echo.
                client = subprocess.Popen(["openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile", certificate,
                                           "-tls" + version, "-connect", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL)
                with client:
                    for text in (b"one\n", b"two\n" * 10000):
                        client.stdin.write(text)
                        client.stdin.flush()
                        self.assertEqual(client.stdout.read(len(text)), text)
                    client.kill()
            # What curl takes for its method comes back as an answer.
            done = run("curl", "-sS", "--cacert", certificate, "-X", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                       f"https://{address}/")
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, b"", b"hello"))
            # Without the certificate curl sends an alert. What is malformed is answered with one.
            self.assertEqual(run("curl", "-sS", f"https://{address}/").returncode, 60)
            with socket.create_connection(("127.0.0.1", port), SECONDS) as client:
                client.sendall(b"\x16\x03\x01\x00\x05hello")
                self.assertEqual(client.recv(100)[:1], b"\x15")
            done = run(program("tls_echo"), certificate, certificate, "0")
            self.assertEqual((done.returncode, done.stderr), (1, b"tls_echo: the certificate or the key cannot be used\n"))


class HttpsGetTest(Case):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"a page of many bytes\n" * 20000
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def shutdown_request(self, request):
            # Python does not send close_notify by itself.
            with contextlib.suppress(OSError):
                request.unwrap()
            super().shutdown_request(request)

    def test_the_server_of_python(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = make_certificate(folder)
            server = self.Server(("127.0.0.1", 0), self.Handler)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            port = str(server.server_address[1])
            done = run(program("https_get"), "localhost", port, "/", certificate)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.0 200 OK"), head)
            self.assertEqual(body, b"a page of many bytes\n" * 20000)
            # Nobody knows the certificate, or it is somebody else's.
            done = run(program("https_get"), "localhost", port, "/")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, b"self.signed certificate")
            done = run(program("https_get"), "127.0.0.2", port, "/", certificate)
            self.assertEqual(done.returncode, 1)

    def test_the_server_of_openssl(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = make_certificate(folder)
            for version in ("1_2", "1_3"):
                server = subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key,
                                           "-www", "-tls" + version], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.addCleanup(server.stdout.close)
                self.addCleanup(server.wait)
                self.addCleanup(server.kill)
                for line in server.stdout:
                    if line.startswith(b"ACCEPT"):
                        break
                port = line.split(b":")[-1].strip().decode()
                done = run(program("https_get"), "127.0.0.1", port, "/", certificate)
                self.assertIn(b"TLSv" + version.replace("_", ".").encode(), done.stdout)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_page_that_is_cut(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
            certificate, key = make_certificate(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)

            def answer():
                with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhalf")
                    connection.shutdown(socket.SHUT_RDWR)

            thread = threading.Thread(target=answer)
            thread.start()
            done = run(program("https_get"), "localhost", str(listener.getsockname()[1]), "/", certificate)
            thread.join()
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stdout.endswith(b"half"))
            self.assertIn(b"close_notify", done.stderr)


class RtspClientTest(Case):
    def test_the_server_of_gstreamer(self):
        with tempfile.TemporaryDirectory() as folder:
            film = os.path.join(folder, "film.flv")
            done = run(*FFMPEG, "-f", "flv", film)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            port, _ = self.port_of(sys.executable, CAMERA, f"( filesrc location={film} ! flvdemux name=d d.video ! queue ! h264parse"
                                   " ! rtph264pay name=pay0 pt=96 d.audio ! queue ! rtpmp4gpay name=pay1 pt=97 )")
            done = run(program("rtsp_client"), f"rtsp://127.0.0.1:{port}/cam", "100")
            refused = run(program("rtsp_client"), f"rtsp://127.0.0.1:{port}/none", "1")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), 100)
        for pattern in (r"video \d+, \d+ bytes in \d+ pieces, key", r"video \d+, \d+ bytes in \d+ pieces",
                        r"audio \d+, \d+ bytes in \d+ pieces, key"):
            self.assertTrue(any(re.fullmatch(pattern, line) for line in lines), pattern)
        self.assertFalse([line for line in lines if line.endswith("damaged")])
        self.assertEqual((refused.returncode, refused.stderr), (1, b"rtsp_client: DESCRIBE: 404\nrtsp_client: Protocol error\n"))


TESTS = {"find_lines": FindLinesTest, "flv_tags": FlvTagsTest, "http_get": HttpGetTest, "https_get": HttpsGetTest, "in_libevent": LibeventTest,
         "rtsp_client": RtspClientTest, "tls_echo": TlsEchoTest, "websocket_echo": WebSocketEchoTest}


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], TESTS[EXAMPLE].__name__])
