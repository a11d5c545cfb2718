"""The administration: what the API says, whom it lets in, and what it does to publishers and players."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import stat
import tempfile
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady
from stopped_thread import StoppedThread

TOKEN = "correct horse battery staple"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=harness.PATIENCE)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask_unix(path, method, target):
    connection = UnixConnection(path)
    with contextlib.closing(connection):
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()


class DocumentsTest(unittest.TestCase):
    def test_what_it_says(self):
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                daemon.wait_stream(steady.name, lambda stream: stream["bits_per_second"] > 0, "with a rate")
                state = daemon.api()
                stream, = state["streams"]
                self.assertEqual((stream["name"], stream["state"]), (steady.name, "live"))
                publisher = stream["publisher"]
                self.assertEqual((publisher["address"], publisher["protocol"], publisher["stream"]),
                                 (steady.publisher.address, "flv", steady.name))
                self.assertEqual(publisher["bytes_received"], stream["bytes_received"])
                for kind, codec in (("video", "h264"), ("audio", "aac")):
                    track, = stream[kind].pop("tracks")
                    self.assertEqual((track["id"], track["codec"], track["default"], track["frames"]),
                                     (0, codec, True, stream["frames"][kind]))
                self.assertEqual(stream["video"], {"codec": "h264", "width": 320, "height": 180, "frame_rate": 25})
                self.assertEqual(stream["audio"], {"codec": "aac"})
                self.assertEqual((stream["subscribers"], stream["frames_dropped"]), (1, 0))
                for name in ("uptime_seconds", "bytes_received", "blocks_held"):
                    self.assertGreater(stream[name], 0, name)
                for counts in (stream["frames"], stream["gop"]):
                    self.assertTrue(all(count > 0 for count in counts.values()), counts)
                player, = state["players"]
                self.assertEqual((player["stream"], player["address"], player["protocol"], player["state"]),
                                 (steady.name, steady.player.address, "http", "playing"))
                self.assertGreater(player["bytes_sent"], 0)
                self.assertGreater(player["frames_sent"], 0)
                self.assertEqual((player["frames_dropped"], player["slow"]), (0, False))
                pool = state["pool"]
                self.assertEqual(pool["blocks_free"] + pool["blocks_kernel"] + pool["blocks_held"],
                                 pool["blocks_total"])
                self.assertLessEqual(pool["blocks_total"], pool["blocks_max"])
                self.assertGreater(pool["blocks_reserve"], 0)
                self.assertEqual((pool["block_size"], pool["payload_bytes_copied"]), (4096, 0))
                backends = ["epoll"] if harness.BACKEND == "epoll" else ["io_uring"]
                for worker in state["workers"]:
                    self.assertTrue(worker["answers"])
                    self.assertIn(worker["loop"]["backend"], backends)
                    self.assertEqual(worker["loop"]["connections"], 2 if worker["worker"] == stream["worker"] else 0)
                    self.assertGreater(worker["loop"]["turns"], 0)
                self.assertRegex(state["version"], r"^\d+\.\d+\.\d+$")
            self.assertEqual(daemon.blocks_settled()["players"], [])

    def test_each_document(self):
        with Daemon("--wait", "7") as daemon:
            with Steady(daemon) as steady:
                self.assertEqual([one["name"] for one in daemon.api("/api/v1/streams")["streams"]], [steady.name])
                publisher, = daemon.api("/api/v1/publishers")["publishers"]
                player, = daemon.api("/api/v1/players")["players"]
                for path in (steady.name, steady.name.replace("/", "%2F")):
                    stream = daemon.api("/api/v1/streams/" + path)
                    self.assertEqual((stream["name"], stream["publisher"]["id"]), (steady.name, publisher["id"]))
                    self.assertEqual([one["id"] for one in stream["players"]], [player["id"]])
                self.assertEqual(daemon.api("/api/v1/players/%d" % player["id"])["address"], steady.player.address)
                self.assertEqual(len({stream["id"], publisher["id"], player["id"]}), 3)
            self.assertEqual(daemon.api("/api/v1/pulls"), {"partial": False, "pulls": []})
            self.assertGreater(daemon.api("/api/v1/pool")["pool"]["blocks_max"], 0)
            workers = [one["worker"] for one in daemon.api("/api/v1/workers")["workers"]]
            self.assertEqual(workers, list(range(len(workers))))
            config = daemon.api("/api/v1/config")
            self.assertEqual((config["settings"]["wait"], config["settings"]["rtsp-users"]), (7, ""))
            self.assertEqual([one["protocol"] for one in config["listeners"]], ["flv", "http"])
            health = daemon.api("/api/v1/health")
            self.assertEqual((health["status"], health["workers"], health["workers_answering"]),
                             ("ok", len(workers), len(workers)))
            self.assertRegex(daemon.api("/api/v1/version")["version"], r"^\d+\.\d+\.\d+$")
            daemon.blocks_settled()

    def test_ids_are_not_used_again(self):
        with Daemon() as daemon:
            seen = set()
            for _ in range(3):
                with Steady(daemon) as steady:
                    stream = daemon.stream(steady.name)
                    player, = daemon.api()["players"]
                    new = {stream["id"], stream["publisher"]["id"], player["id"]}
                    self.assertEqual(len(new), 3)
                    self.assertFalse(new & seen)
                    seen |= new
                daemon.blocks_settled()


class ErrorsTest(unittest.TestCase):
    def problem(self, answer, status):
        """Checks that it is a problem document (RFC 9457), and returns its headers."""
        got, headers, body = answer
        self.assertEqual(got, status, body)
        self.assertEqual(headers["Content-Type"], "application/problem+json")
        document = json.loads(body)
        self.assertEqual((document["status"], document["type"]), (status, "about:blank"))
        self.assertTrue(document["title"] and document["detail"])
        return headers

    def test_statuses(self):
        with Daemon() as daemon:
            for path in ("/nothing", "/api", "/api/v1", "/api/v1/streams/", "/api/v1/streams/live/none",
                         "/api/v1/streams/..%2f..", "/api/v1/streams/a%00b", "/api/v1/players/1", "/api/v1/players/x", "/api/v1/publishers/1",
                         "/api/v1/players/99999999999999999999", "/api/v1/streamsx"):
                self.problem(daemon.admin("GET", path), 404)
            for path in ("/api/v1/players/123456", "/api/v1/publishers/123456", "/api/v1/streams/live/none",
                         "/api/v1/publishers/-1"):
                self.problem(daemon.admin("DELETE", path), 404)
            for method, path, allow in (("DELETE", "/api/v1/streams", "GET, HEAD"), ("POST", "/metrics", "GET, HEAD"),
                                        ("PUT", "/api/v1/streams/live/a", "GET, HEAD, DELETE"),
                                        ("PATCH", "/api/v1/publishers/1", "GET, HEAD, DELETE"),
                                        ("GET", "/api/v1/reload", "POST"),
                                        ("PATCH", "/api/v1/players/1", "GET, HEAD, DELETE"),
                                        ("OPTIONS", "/api/v1/pool", "GET, HEAD")):
                headers = self.problem(daemon.admin(method, path), 405)
                self.assertEqual(headers["Allow"], allow)
            for query in ("ban=x", "ban=-1", "ban=86401", "ban=1.5", "kick=1", "ban=1&ban=y"):
                self.problem(daemon.admin("DELETE", "/api/v1/streams/live/a?" + query), 400)
            self.problem(daemon.admin("DELETE", "/api/v1/players/1?ban=5"), 400)
            self.problem(daemon.admin("POST", "/api/v1/reload", b"x" * 100000), 413)
            self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)

    # What is no UTF-8 (also a lone surrogate), no JSON, or no text to show.
    ODD = [bytes([byte]) for byte in range(1, 256)] + [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf0\x9f", b"\xe2\x80\xae",
                                                       b"\\u0000", b"\\ud800"]

    @staticmethod
    def documents(daemon):
        """Every document there is: of strict UTF-8 and JSON."""
        found = {}
        for name in ("streams", "players", "publishers", "pulls", "forwards", "pool", "workers", "config", "health", "version", "snapshot",
                     "recordings"):
            status, _, body = daemon.admin("GET", "/api/v1/" + name)
            if status != 200:
                raise AssertionError("%s: %d %r" % (name, status, body))
            found[name] = json.loads(body.decode("utf-8", "strict"))
        return found

    def test_any_bytes_in_a_request(self):
        """Whatever is in a path or a query, as it is or escaped: the answer is a problem, or what was asked for, as JSON."""
        with Daemon() as daemon:
            for byte in [b"\0", *self.ODD]:
                escaped = b"".join(b"%%%02x" % one for one in byte)
                for method, path in ((b"GET", b"/api/v1/streams/a%s"), (b"DELETE", b"/api/v1/streams/%s"), (b"GET", b"/%sx"),
                                     (b"POST", b"/api/v1/recordings/live/a%s"), (b"GET", b"/api/v1/streams?a=%s"),
                                     (b"DELETE", b"/api/v1/players/1?ban=%s")):
                    for text in {byte, escaped}:
                        with self.subTest(path % text), daemon.connect("admin") as peer:
                            peer.sendall(b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                                         % (method, path % text))
                            head, _, body = harness.read_to_end(peer).partition(b"\r\n\r\n")
                            if head.startswith(b"HTTP/1.1 200") and path == b"/%sx":
                                self.assertIn(text, b"#?")  # The console.
                                continue
                            self.assertIn(b"json", head)
                            json.loads(body.decode("utf-8", "strict"))

    def test_any_bytes_in_settings(self):
        """Files may have any name; and what is wrong with a configuration may have any bytes."""
        with tempfile.TemporaryDirectory() as folder:
            odd = b"".join(byte for byte in self.ODD if byte not in b"/,=\n")[:200]
            path = os.path.join(os.fsencode(folder), b"d" + odd)
            os.mkdir(path)
            config = os.path.join(path, b"c")
            good = b'http = "127.0.0.1:0";\n'
            with open(config, "wb") as file:
                file.write(good)
            with Daemon("--config", config, "--record", b"live/*=" + path, listen=()) as daemon:
                self.assertIn("live/*=", str(self.documents(daemon)["config"]["settings"]["record"]))
                for byte in self.ODD:
                    with open(config, "wb") as file:
                        file.write(good + b'rule = "' + byte.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'";\n' + b"x" + byte)
                    status, headers, body = daemon.admin("POST", "/api/v1/reload")
                    self.assertEqual((status, headers["Content-Type"]), (422, "application/problem+json"), byte)
                    json.loads(body.decode("utf-8", "strict"))

    def check_problem_bytes(self, answer, status):
        """One answer, and nothing behind it."""
        head, _, body = answer.partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        headers = dict(header.split(": ", 1) for header in headers)
        self.assertEqual(line.split()[:2], ["HTTP/1.1", str(status)])
        self.assertEqual((headers["Content-Type"], headers["Connection"], headers["Server"]),
                         ("application/problem+json", "close", "sluiced"))
        self.assertEqual(int(headers["Content-Length"]), len(body))
        document = json.loads(body)
        self.assertEqual(document["status"], status)
        self.assertTrue(document["title"] and document["detail"])

    def test_limits_of_a_request(self):
        """What is no request, or over the limits of one, is told so as a problem, and ends the connection and nothing else."""
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                host = b" HTTP/1.1\r\nHost: localhost\r\n"
                for data, status in (
                        (b"GET /" + host + b"X: " + b"x" * 100000 + b"\r\n\r\n", 431),
                        (b"GET /" + b"x" * 100000 + host + b"\r\n", 414),
                        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", 431),
                        (b"GET /" + host + b"X: " + b"x" * 20000 + b"\r\n\r\n", 431),
                        (b"GET /" + b"x" * 20000 + host + b"\r\n", 414),
                        (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1\r\n\r\n", 400), (b"\0\1\2\3" * 100 + b"\r\n\r\n", 400),
                        (b"GET /" + host + b"no colon\r\n\r\n", 400),
                        (b"HEAD /" + host + b"no colon\r\n\r\n", 400),
                        (b"POST /api/v1/reload" + host + b"Content-Length: x\r\n\r\n", 400),
                        (b"POST /api/v1/reload" + host + b"Content-Length: 99999999\r\n\r\n", 413),
                        (b"POST /api/v1/reload" + host + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n", 413),
                        (b"POST /api/v1/reload" + host + b"Transfer-Encoding: chunked\r\n\r\nno number\r\n", 400),
                        (b"POST /api/v1/reload" + host + b"Transfer-Encoding: chunked\r\n\r\n10001\r\n" + b"x" * 0x10001, 413),
                        (b"GET / HTTP/2.0\r\n\r\n", 505),
                        (b"POST /api/v1/reload" + host + b"Transfer-Encoding: gzip\r\n\r\n", 501),
                        (b"POST /api/v1/reload" + host + b"Content-Length: 5\r\nExpect: miracles\r\n\r\n", 417),
                        (b"BREW /" + host + b"\r\n", 501),
                        (b"BREW /api/v1/version" + host + b"Content-Length: 50\r\n\r\nGET /api/v1/version" + host + b"\r\n", 501)):
                    with self.subTest(data[:60]), daemon.connect("admin") as peer:
                        with contextlib.suppress(ConnectionError):
                            peer.sendall(data)
                        answer = b""
                        with contextlib.suppress(ConnectionError):
                            while more := peer.recv(65536):
                                answer += more
                        self.check_problem_bytes(answer, status)
                steady.go_on()
            daemon.blocks_settled()

    def test_one_connection_too_many(self):
        """64 are kept. One more ends the one that has been waited for longest, and no other one."""
        with Daemon() as daemon, contextlib.ExitStack() as stack:
            peers = [stack.enter_context(daemon.connect("admin")) for _ in range(65)]
            # There was no deadline: the others are still there, whose heads began in the same moment.
            with contextlib.suppress(ConnectionError):
                self.assertEqual(peers[0].recv(1), b"")
            for peer in peers[1:]:  # for what asks no worker: the number of those questions is limited, too
                peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            for peer in peers[1:]:
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 200)

    def test_pipelined(self):
        """Requests in one piece, some with bodies, one of which waits for the workers: an answer for each, in order."""
        body = b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        requests = [b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\n" + body,
                    b"HEAD /api/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"DELETE /api/v1/players/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
                    b"PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]
        whole = b"".join(requests) + requests[0]
        with Daemon() as daemon:
            for cut in (0, 1, 100, 200, 300, 400):
                with self.subTest(cut), daemon.connect("admin") as peer:
                    peer.sendall(whole[:cut])
                    peer.sendall(whole[cut:])
                    answer = harness.read_to_end(peer)
                    self.assertEqual([int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)],
                                     [200, 200, 200, 404, 405, 200])
            # More of them than may wait: nothing is lost.
            with daemon.connect("admin") as peer:
                peer.sendall(requests[3] * 500 + requests[5])
                self.assertEqual(harness.read_to_end(peer).count(b"HTTP/1.1 404 "), 500)

    def test_expect(self):
        with Daemon() as daemon, daemon.connect("admin") as peer:
            peer.sendall(b"POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n"
                         b"Connection: close\r\n\r\n")
            self.assertEqual(peer.recv(4096), b"HTTP/1.1 100 Continue\r\n\r\n")
            peer.sendall(b"hello")
            self.assertEqual(harness.status_of(harness.read_to_end(peer)), 200)

    def test_peers_that_go(self):
        """While their request is under way, or while they are answered."""
        with Daemon("--workers", "2") as daemon:
            with contextlib.ExitStack() as stack:
                stack.enter_context(StoppedThread(daemon, "worker 1"))
                for _ in range(10):
                    with daemon.connect("admin") as peer:
                        peer.sendall(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
                # The last request that was accepted behind them has been answered.
                self.assertEqual(daemon.admin("GET", "/api/v1/openapi.json")[0], 200)
            for _ in range(10):
                with daemon.connect("admin", receive_buffer=4096) as peer:
                    peer.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
                    peer.recv(100)
            self.assertEqual(daemon.api("/api/v1/health")["status"], "ok")

    def test_head(self):
        with Daemon() as daemon:
            for path in ("/api/v1/version", "/api/v1/config"):
                _, _, body = daemon.admin("GET", path)
                status, headers, nothing = daemon.admin("HEAD", path)
                self.assertEqual((status, nothing), (200, b""))
                self.assertEqual(int(headers["Content-Length"]), len(body))

    def test_data_plane_has_no_api(self):
        """Who may play need not know who else does."""
        with Daemon() as daemon:
            for path in ("/api/v1/streams", "/api/v1/snapshot", "/metrics"):
                self.assertEqual(daemon.request("GET", path)[0], 404)


class HangTest(unittest.TestCase):
    def test_what_one_worker_may_have(self):
        """While one does not answer, what the others do not have may be there: 503, not 404."""
        with Daemon("--workers", "2") as daemon:
            paths = ("/api/v1/players/123456", "/api/v1/publishers/123456", "/api/v1/streams/live/none")
            with contextlib.ExitStack() as stack:
                stack.enter_context(StoppedThread(daemon, "worker 1"))
                connections = [stack.enter_context(contextlib.closing(daemon.connection(protocol="admin")))
                               for _ in paths]
                for connection, path in zip(connections, paths):
                    connection.request("GET", path)
                self.assertEqual([connection.getresponse().status for connection in connections], [503] * 3)
            for path in paths:
                self.assertEqual(daemon.admin("GET", path)[0], 404, path)

    def test_lists_say_what_they_lack(self):
        lists = ["/api/v1/" + name for name in ("streams", "players", "publishers", "pulls", "forwards", "recordings", "bans", "pool",
                                                "tls", "cluster", "cluster/pulls")]
        with Daemon("--workers", "2") as daemon, Steady(daemon) as steady:
            lists.append("/api/v1/streams/" + steady.name)
            other = 1 - daemon.stream(steady.name)["worker"]
            with contextlib.ExitStack() as stack:
                stack.enter_context(StoppedThread(daemon, "worker %d" % other))
                self.assertEqual(self.answers(daemon, lists), dict.fromkeys(lists, True))
            harness.wait_until(lambda: daemon.api("/api/v1/health")["status"] == "ok", "all workers")
            self.assertEqual(self.answers(daemon, lists), dict.fromkeys(lists, False))

    @staticmethod
    def answers(daemon, paths):
        """What each document says of itself; all are asked for at once, since each takes as long as a worker has time."""
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(contextlib.closing(daemon.connection(protocol="admin"))) for _ in paths]
            for connection, path in zip(connections, paths):
                connection.request("GET", path)
            return {path: json.load(connection.getresponse())["partial"] for connection, path in zip(connections, paths)}

    def test_time_that_stands_still(self):
        """A worker is not late because all of the process was stopped for a while, as a machine is that is suspended."""
        with Daemon("--workers", "1") as daemon:
            # It may be late by itself once, but not each time.
            self.assertIn(200, (self.while_stopped(daemon) for _ in range(5)))

    @staticmethod
    def while_stopped(daemon):
        """The answer to a request that is under way while the process stands still for longer than a worker has time."""
        with contextlib.closing(daemon.connection(protocol="admin")) as connection:
            with StoppedThread(daemon, "worker 0"):
                connection.request("GET", "/api/v1/streams")
                # No worker is asked for that: so what came before it is under way.
                daemon.admin("GET", "/api/v1/openapi.json")
                daemon.process.send_signal(signal.SIGSTOP)
                time.sleep(2.2)
            daemon.process.send_signal(signal.SIGCONT)
            return connection.getresponse().status


class GuardTest(unittest.TestCase):
    """Pages of other sites may neither look nor act; with a token, nobody may without it."""

    def test_host(self):
        with Daemon() as daemon:
            port = daemon.address("admin")[1]
            for host in ("localhost", "LocalHost:%d" % port, "127.0.0.1:%d" % port, "127.9.9.9", "[::1]:%d" % port):
                self.assertEqual(daemon.admin("GET", "/api/v1/version", headers={"Host": host})[0], 200, host)
            for host in ("evil.example", "evil.example:%d" % port, "localhost.evil.example", "127.0.0.1.evil.example",
                         "192.0.2.1", ""):
                status, headers, _ = daemon.admin("GET", "/api/v1/version", headers={"Host": host})
                self.assertEqual(status, 403, host)
                self.assertNotIn("Access-Control-Allow-Origin", headers)
            # That is no host at all.
            self.assertEqual(daemon.admin("GET", "/api/v1/version", headers={"Host": "127.0.0.1:%d:x" % port})[0], 400)

    def test_forged_requests(self):
        with Daemon() as daemon, Steady(daemon) as steady:
            player, = daemon.api()["players"]
            path = "/api/v1/players/%d" % player["id"]
            for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                            {"Origin": "http://localhost:1"}, {"Sec-Fetch-Site": "same-site"},
                            {"Origin": "http://evil.example", "Host": "evil.example"}):
                self.assertEqual(daemon.admin("DELETE", path, headers=headers)[0], 403, headers)
                self.assertEqual(daemon.admin("POST", "/api/v1/reload", headers=headers)[0], 403, headers)
            steady.go_on()
            host = "127.0.0.1:%d" % daemon.address("admin")[1]
            headers = {"Host": host, "Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}
            self.assertEqual(daemon.admin("POST", "/api/v1/reload", headers=headers)[0], 200)

    def test_token(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")
            with open(path, "w", encoding="ascii", opener=lambda *where: os.open(*where, 0o600)) as file:
                file.write(TOKEN + "\n")
            self.check_token(path)
            os.chmod(path, 0o644)
            with self.assertRaisesRegex(harness.NotStarted, "chmod 600"):
                Daemon("--admin", "127.0.0.1:0", "--admin-token-file", path).kill()

    def check_token(self, path):
        with Daemon("--admin", "0.0.0.0:0", "--admin-token-file", path) as daemon:
            for value in (None, "Bearer", "Bearer ", "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Basic " + TOKEN):
                headers = {"Authorization": value} if value is not None else {}
                status, headers, _ = daemon.admin("GET", "/metrics", headers=headers)
                self.assertEqual(status, 401, value)
                self.assertTrue(headers["WWW-Authenticate"].startswith("Bearer"))
            good = {"Authorization": "Bearer " + TOKEN, "Host": "any.example"}
            self.assertEqual(daemon.admin("GET", "/api/v1/version", headers=good)[0], 200)
            self.assertNotIn(TOKEN, str(daemon.log()))

    def test_refusals_in_the_log(self):
        """Who tries tokens gets so many lines, and others get theirs."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "token")
            with open(path, "w", encoding="ascii", opener=lambda *where: os.open(*where, 0o600)) as file:
                file.write(TOKEN + "\n")
            with Daemon("--admin", "127.0.0.1:0", "--admin-token-file", path) as daemon:
                def ask(count, source):
                    for _ in range(count):
                        with socket.create_connection(daemon.address("admin"), harness.PATIENCE, (source, 0)) as peer:
                            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                            self.assertEqual(harness.status_of(harness.read_to_end(peer)), 401)

                def lines(source):
                    return len([line for line in daemon.log("request refused", proto="admin", status="401")
                                if line.fields["peer"].startswith(source + ":")])
                ask(100, "127.0.0.2")
                ask(1, "127.0.0.3")
                harness.wait_until(lambda: lines("127.0.0.3") == 1, "the other address to be logged")
                harness.wait_until(lambda: sum(int(line.fields["count"]) for line in daemon.log("refusals not logged")) +
                                   lines("127.0.0.2") == 100, "all to be told of")
                # Twenty in ten seconds: a busy machine may need more than those for all.
                self.assertGreaterEqual(lines("127.0.0.2"), 20)
                self.assertLess(lines("127.0.0.2"), 100)

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "admin")
            for _ in range(2):
                # The second time, one lies there that was left behind.
                with Daemon("--admin", "unix:" + path, listen=("--http", "127.0.0.1:0")) as daemon:
                    status = os.stat(path)
                    self.assertTrue(stat.S_ISSOCK(status.st_mode))
                    self.assertEqual(stat.S_IMODE(status.st_mode), 0o600)
                    status, body = ask_unix(path, "GET", "/api/v1/version")
                    self.assertEqual((status, json.loads(body)["api"]), (200, "v1"))
                    with self.assertRaisesRegex(harness.NotStarted, "cannot listen"):
                        Daemon("--admin", "unix:" + path, listen=("--http", "127.0.0.1:0")).kill()
                    self.assertEqual(ask_unix(path, "GET", "/api/v1/health")[0], 200)
                self.assertFalse(os.path.exists(path))
                with socket.socket(socket.AF_UNIX) as left_behind:
                    left_behind.bind(path)


class KickTest(unittest.TestCase):
    def kick(self, daemon, path):
        status, _, body = daemon.admin("DELETE", "/api/v1/" + path)
        self.assertEqual((status, body), (204, b""))

    def test_player(self):
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                with Player(daemon, steady.name) as player:
                    player.wait_tags(10)
                    one, = [one for one in daemon.api()["players"] if one["address"] == player.address]
                    self.kick(daemon, "players/%d" % one["id"])
                    player.wait_end()
                    daemon.wait_log("player ended", peer=player.address, reason="kicked")
                    self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one["id"])[0], 404)
                steady.go_on()
            daemon.blocks_settled()

    def test_publishers(self):
        """Each protocol's publisher ends; its player waits, and is served by the next."""
        data, tags = flv.stream(40)
        with Daemon() as daemon:
            for protocol in ("flv", "http"):
                publisher = Publisher(daemon, "live/a" if protocol == "http" else None, protocol)
                with publisher, Player(daemon, publisher.name) as player:
                    publisher.send(data)
                    player.wait_tags(len(tags))
                    self.kick(daemon, "publishers/%d" % daemon.stream(publisher.name)["publisher"]["id"])
                    answer = harness.read_to_end(publisher.peer)
                    self.assertEqual(harness.status_of(answer) if protocol == "http" else answer,
                                     403 if protocol == "http" else b"")
                    daemon.wait_log("publisher ended", peer=publisher.address, reason="kicked")
                    self.assertEqual(daemon.stream(publisher.name)["state"], "waiting")
                    with Publisher(daemon, publisher.name, "http") as following:
                        following.send(data)
                        player.wait_tags(2 * len(tags) - len(flv.first_tags()))
                        self.assertEqual(following.finish(), 200)
            daemon.blocks_settled()

    def test_ban(self):
        data, tags = flv.stream(40)
        with Daemon() as daemon:
            with Publisher(daemon, "live/a", "http") as publisher, Player(daemon, "live/a") as player:
                publisher.send(data)
                player.wait_tags(len(tags))
                self.kick(daemon, "publishers/%d?ban=3600" % daemon.stream("live/a")["publisher"]["id"])
                self.assertEqual(harness.read_head(publisher.peer)[0], 403)
                with Publisher(daemon, "live/a", "http") as again:
                    self.assertEqual(harness.read_head(again.peer)[0], 403)
                with Publisher(daemon, "live/b", "http") as other:
                    other.send(data)
                    self.assertEqual(other.finish(), 200)
            daemon.blocks_settled()
            daemon.wait_log("publish refused", stream="live/a", reason="banned")

    def test_list_of_bans(self):
        """The first to end first; as many as there may be, and one more: the one that ends first makes room."""
        data, _ = flv.stream(2)
        with Daemon("--workers", "1") as daemon:
            self.assertEqual(daemon.api("/api/v1/bans"), {"partial": False, "bans": []})
            for number in range(257):
                with Publisher(daemon, "live/%d" % number, "http") as publisher:
                    publisher.send(data)
                    daemon.wait_stream("live/%d" % number)
                    self.kick(daemon, "streams/live/%d?ban=%d" % (number, 3600 if number == 0 else 600 + number))
            bans = daemon.api("/api/v1/bans")["bans"]
            self.assertEqual([ban["stream"] for ban in bans], ["live/%d" % number for number in [*range(2, 257), 0]])
            for ban in bans:
                self.assertEqual((ban["host"], ban["scope"], ban["reason"], ban["node"]), ("127.0.0.1", "node", "kicked", None))
                self.assertTrue(0 <= ban["age_seconds"] < 300 < ban["ends_in_seconds"] <= 3600)
            self.assertEqual(daemon.admin("DELETE", "/api/v1/bans/live/0")[0], 204)
            self.assertEqual(len(daemon.api("/api/v1/bans")["bans"]), 255)

    def test_ban_ends(self):
        data, _ = flv.stream(40)
        with Daemon() as daemon:
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(data)
                daemon.wait_stream("live/a")
                self.kick(daemon, "streams/live/a?ban=1")

            def publish():
                with Publisher(daemon, "live/a", "http") as again:
                    again.send(data)
                    return again.finish() == 200

            def admitted():
                with contextlib.suppress(OSError):
                    return publish()
                return False
            harness.wait_until(admitted, "the ban's end", 0.2)
            # Who comes late has not been refused at all.
            self.assertLessEqual({line.fields["reason"] for line in daemon.log("publish refused")},
                                 {"banned"})
            daemon.blocks_settled()

    def test_stream(self):
        data, tags = flv.stream(40)
        with Daemon() as daemon, contextlib.ExitStack() as stack:
            publisher = stack.enter_context(Publisher(daemon, "live/a", "http"))
            players = [stack.enter_context(Player(daemon, "live/a")) for _ in range(5)]
            publisher.send(data)
            for player in players:
                player.wait_tags(len(tags))
            self.kick(daemon, "streams/live%2Fa")
            for player in players:
                player.wait_end()
            self.assertEqual(harness.read_head(publisher.peer)[0], 403)
            daemon.blocks_settled()
            self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/live/a")[0], 404)


class SlowPlayerTest(unittest.TestCase):
    def test_is_visible(self):
        """One who reads nothing is told from one who reads: what is queued, for how long, what was dropped and why."""
        with Daemon("--player-buffer", "256K", "--gop-size", "64K", "--frame-limit", "64K", "--stall", "600") as daemon:
            with Steady(daemon, pause=0.001) as steady:
                with Player(daemon, steady.name, receive_buffer=4096, reading=False) as slow:
                    def look():
                        players = {one["address"]: one for one in daemon.api()["players"]}
                        one = players.get(slow.address)
                        return one if one and one["drops"]["queue_full"] and one["drops"]["until_key_frame"] else None
                    one = harness.wait_until(look, "drops of the slow player")
                    self.assertTrue(one["slow"])
                    self.assertEqual(one["frames_dropped"], sum(one["drops"].values()))
                    self.assertEqual((one["drops"]["no_memory"], one["drops"]["paused"]), (0, 0))
                    harness.wait_until(lambda: look()["stalled_ms"] > 0, "a stall that is counted")
                    other, = [one for one in daemon.api()["players"] if one["address"] == steady.player.address]
                    self.assertEqual((other["slow"], other["frames_dropped"]), (False, 0))
                steady.go_on()
            daemon.blocks_settled()


if __name__ == "__main__":
    harness.main()
