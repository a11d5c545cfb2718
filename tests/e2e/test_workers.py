"""Workers: connections arrive at any of them and go to their stream's, whatever they speak and however they are cut."""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import struct
import tempfile
import threading
import unittest

import flv
import harness
import rtsp
from harness import Daemon, Player, Publisher
from test_admin import ask_unix
from test_hooks import Hook, reply

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
COUNTS = (1, 2, 4)


def start(workers, *options):
    return Daemon("--workers", str(workers), *options, listen=LISTEN)


def head(method, name, *lines):
    return "\r\n".join(["%s /%s.flv HTTP/1.1" % (method, name), "Host: test", *lines, "", ""]).encode()


def digest(tags):
    return hashlib.md5(b"".join(tag.pack() for tag in tags)).hexdigest()


def owners(daemon, names):
    """The worker of each stream, as the API has it."""
    found = {stream["name"]: stream["worker"] for stream in daemon.api()["streams"]}
    return [found[name] for name in names]


class EverywhereTest(unittest.TestCase):
    """Every worker has streams, publishers and players of each protocol come to each of them, and all see the same."""

    STREAMS = 12

    def relay(self, workers):
        with start(workers) as daemon:
            names = ["live/s%d" % i for i in range(self.STREAMS)]
            # In turn they arrive at all workers: two of three are at the wrong one.
            players = {name: [Player(daemon, name) for _ in range(3)] for name in names}
            for name in names:
                daemon.wait_player(name, 3)
            self.assertEqual(set(owners(daemon, names)), set(range(workers)))
            by_rtsp = {name: rtsp.Player(daemon, name) for name in names[:4]}
            for name in by_rtsp:
                daemon.wait_player(name, 4)
            sent = {}
            publishers = []
            for i, name in enumerate(names):
                data, tags = flv.stream(120, first=i * 1000)
                sent[name] = tags
                publisher = Publisher(daemon, name, "http")
                publisher.send(data)
                publishers.append(publisher)
            for name in names:
                for player in players[name]:
                    player.wait_frame(sent[name][-1])
                    self.assertEqual(digest(player.tags), digest(sent[name]))
            for name, player in by_rtsp.items():
                player.wait_frame([tag for tag in sent[name] if tag.type == flv.AUDIO][-1])
            self.check_totals(daemon.api(), workers)
            for publisher in publishers:
                self.assertEqual(publisher.finish(), 200)
            for player in [*sum(players.values(), []), *by_rtsp.values()]:
                player.close()
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def check_totals(self, state, workers):
        self.assertEqual(len(state["workers"]), workers)
        for key in ("blocks_held", "blocks_total", "blocks_free", "blocks_max", "views"):
            self.assertEqual(state["pool"][key], sum(worker["pool"][key] for worker in state["workers"]), key)
        self.assertEqual(state["pool"]["payload_bytes_copied"], 0)
        self.assertEqual(len(state["players"]), 3 * self.STREAMS + 4)
        # Publishers and players, each at its stream's worker.
        for worker in state["workers"]:
            names = {stream["name"] for stream in state["streams"] if stream["worker"] == worker["worker"]}
            players = sum(player["stream"] in names for player in state["players"])
            self.assertEqual(worker["connections"], len(names) + players)
            self.assertEqual(worker["loop"]["connections"], worker["connections"])

    def test_one(self):
        self.relay(1)

    def test_two(self):
        self.relay(2)

    def test_four(self):
        self.relay(4)

    def test_raw_publishers(self):
        """Their stream's worker is known when they are accepted."""
        with start(4) as daemon:
            data, tags = flv.stream(60)
            publishers = [Publisher(daemon) for _ in range(16)]
            for publisher in publishers:
                publisher.send(data)
            for publisher in publishers:
                daemon.wait_stream(publisher.name)
            self.assertGreater(len(set(owners(daemon, [publisher.name for publisher in publishers]))), 1)
            for publisher in publishers:
                with Player(daemon, publisher.name) as player:
                    # What is cached, whole.
                    player.wait_frame(tags[-1])
                publisher.finish()
            daemon.blocks_settled()

    def test_rtsp_publishers(self):
        with start(4) as daemon:
            clients = [rtsp.Client(daemon, "live/r%d" % i) for i in range(8)]
            players = [Player(daemon, "live/r%d" % i) for i in range(8)]
            for client in clients:
                client.record()
                for i in range(20):
                    client.send_rtp(0, bytes([0x65 if i == 0 else 0x41]) + struct.pack(">I", i) * 50, i, i * 3600)
                    client.send_rtp(2, b"\0\x10" + struct.pack(">H", 100 << 3) + bytes(100), i, i * 1764,
                                    payload_type=97)
            for player in players:
                player.wait(lambda player: len(player.frames) >= 20, "20 frames")
            self.assertGreater(len(set(owners(daemon, ["live/r%d" % i for i in range(8)]))), 1)
            for client in [*clients, *players]:
                client.close()
            daemon.blocks_settled()


class CutTest(unittest.TestCase):
    """Requests with something behind them, cut everywhere: all of it arrives where the stream is."""

    def test_post_at_every_cut(self):
        data, tags = flv.stream(3, size=60, audio_size=20)
        with start(2) as daemon:
            names = self.names_of_both(daemon)
            players = [Player(daemon, name) for name in names]
            for name in names:
                daemon.wait_player(name)
            request = [head("POST", name, "Content-Length: %d" % len(data)) + data for name in names]
            cuts = range(1, len(request[0]), 2)
            for at in cuts:
                for whole in request:
                    with daemon.connect() as peer:
                        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        peer.sendall(whole[:at])
                        if at % 4 == 1:
                            # Long enough for the first part to be read by itself.
                            daemon.request("GET", "/nothing")
                        peer.sendall(whole[at:])
                        self.assertEqual(harness.read_head(peer)[0], 200)
            expected = [tag.payload for tag in tags if tag.is_frame] * len(cuts)
            for player in players:
                player.wait(lambda player: len(player.frames) >= len(expected), "the frames of all publishers")
                harness.check_same([frame.payload for frame in player.frames], expected, "frames")
                player.close()
            daemon.blocks_settled()

    def names_of_both(self, daemon):
        """Two streams, of which each has a worker of its own."""
        names = ["live/n%d" % i for i in range(8)]
        players = [Player(daemon, name) for name in names]
        for name in names:
            daemon.wait_player(name)
        found = dict(zip(owners(daemon, names), names))
        for player in players:
            player.close()
        self.assertEqual(sorted(found), [0, 1])
        return [found[0], found[1]]

    def test_one_connection_goes_to_and_fro(self):
        """Pipelined requests for streams of both workers, and for none: answered in order, each with its stream."""
        data, tags = flv.stream(20)
        with start(2) as daemon:
            names = self.names_of_both(daemon)
            players = [Player(daemon, name) for name in names]
            for name in names:
                daemon.wait_player(name)
            rounds = 6
            publish = b"".join(head("POST", name, "Content-Length: %d" % len(data)) + data +
                               b"OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n" for name in names)
            with daemon.connect() as peer:
                peer.sendall(publish * rounds + b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answers = harness.read_to_end(peer)
            statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
            self.assertEqual(statuses, [200, 204, 200, 204] * rounds + [204])
            for player in players:
                player.wait(lambda player: len(player.frames) >= 20 * rounds, "all rounds")
                bytes_of = [frame.payload for frame in player.frames]
                self.assertEqual(bytes_of, [tag.payload for tag in tags if tag.is_frame] * rounds)
                player.close()
            daemon.blocks_settled()

    def test_rtsp_requests_in_one_piece(self):
        """What is owed is sent before the session moves, and what is behind the request goes along."""
        with start(4) as daemon, Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(flv.stream(30)[0])
            daemon.wait_stream("live/a", lambda stream: stream["frames"]["audio"] > 0)
            for _ in range(8):
                with rtsp.Client(daemon, "live/a") as client:
                    text = "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n" * 3
                    text += "DESCRIBE %s RTSP/1.0\r\nCSeq: 2\r\n\r\n" % client.url
                    text += "OPTIONS * RTSP/1.0\r\nCSeq: 3\r\n\r\n"
                    # Another worker's, perhaps; there is no such stream.
                    text += "SETUP %sx/trackID=0 RTSP/1.0\r\nCSeq: 4\r\n" % client.url
                    text += "Transport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n"
                    text += "OPTIONS * RTSP/1.0\r\nCSeq: 5\r\n\r\n"
                    client.send_raw(text)
                    replies = [client.reply() for _ in range(7)]
                    self.assertEqual([(reply.status, reply.headers["cseq"]) for reply in replies],
                                     [(200, "1")] * 3 + [(200, "2"), (200, "3"), (404, "4"), (200, "5")])
                    client.play()
                    client.next_rtp()
            publisher.finish()
            daemon.blocks_settled()


WEBSOCKET = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")


class EachWorkerTest(unittest.TestCase):
    """What is decided about a request is decided once, and what is done to the server is done by all workers."""

    NAMES = ["live/s%d" % i for i in range(8)]

    def test_decided_once(self):
        """A connection that came in elsewhere: one question to the hook, one line about a refusal."""
        hook = Hook(self, reply(200), delay=0.1)
        with start(4, "--hook-publish", hook.url, "--hook-play", hook.url, "--rule", "publish live/* allow",
                   "--rule", "play * allow") as daemon:
            with contextlib.ExitStack() as stack:
                for name in self.NAMES:
                    self.publish_and_play(daemon, name, stack)
                self.assertEqual(set(owners(daemon, self.NAMES)), set(range(4)))
            expected = [(event, protocol, name) for name in self.NAMES for event, protocol in (
                ("publish", "http"), ("play", "http"), ("play", "websocket"), ("play", "rtsp"))]
            self.assertEqual(sorted((one["event"], one["protocol"], one["stream"]) for one in hook.asked),
                             sorted(expected))
            for i in range(8):
                self.assertEqual(daemon.request("POST", "/closed/s%d.flv" % i, b"")[0], 403)
                with rtsp.Client(daemon, "closed/s%d" % i) as client:
                    self.assertEqual(client.ask("ANNOUNCE", body=rtsp.SDP).status, 403)
            self.assertEqual(len(hook.asked), len(expected))
            daemon.check_log(16, "request refused", status="403")
            daemon.blocks_settled()

    @staticmethod
    def publish_and_play(daemon, name, stack):
        publisher = stack.enter_context(Publisher(daemon, name, "http"))
        publisher.send(flv.stream(10)[0])
        stack.enter_context(Player(daemon, name))
        daemon.wait_player(name)
        stack.enter_context(rtsp.Client(daemon, name)).play()
        peer = stack.enter_context(daemon.connect())
        peer.sendall(head("GET", name, *WEBSOCKET))
        status = harness.read_head(peer)[0]
        if status != 101:
            raise AssertionError("%d, not WebSocket" % status)

    def test_kicks(self):
        """Whatever has an id is found at its worker."""
        with start(4) as daemon, contextlib.ExitStack() as stack:
            players = [stack.enter_context(Player(daemon, name)) for name in self.NAMES]
            publishers = [stack.enter_context(Publisher(daemon, name, "http")) for name in self.NAMES]
            for publisher, player in zip(publishers, players):
                publisher.send(flv.stream(10)[0])
                player.wait_tags(10)
            self.assertEqual(set(owners(daemon, self.NAMES)), set(range(4)))
            for one in daemon.api()["players"]:
                self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one["id"])[0], 204)
                self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one["id"])[0], 404)
            for player in players:
                player.wait_end()
            for name, publisher in zip(self.NAMES, publishers):
                self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/%s?ban=3600" % name)[0], 204)
                self.assertEqual(harness.read_head(publisher.peer)[0], 403)
                # From whichever worker it comes.
                for _ in range(4):
                    self.assertEqual(daemon.request("POST", "/%s.flv" % name, flv.header())[0], 403)
            daemon.blocks_settled()

    def test_reload(self):
        """Pulls go to the workers of their streams, each once; and to none where a listener cannot be opened."""
        listen = 'http = "127.0.0.1:0";\nadmin = "127.0.0.1:0";\nworkers = 4;\n'
        pulls = "pull = [%s];\n" % ", ".join('"rtsp://127.0.0.1:1/x=%s,on-demand"' % name for name in self.NAMES)
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as holder:
            config = os.path.join(folder, "sluiced.conf")
            taken = listen.replace('"127.0.0.1:0"', '["127.0.0.1:0", "127.0.0.1:%d"]' % holder.getsockname()[1], 1)

            def write(text):
                with open(config, "w", encoding="ascii") as file:
                    file.write(text)
            write(listen)
            with Daemon("--config", config, "--workers", "4", listen=()) as daemon:
                for text, status, count in ((taken + pulls, 503, 0), (listen + pulls + "wait = 9;", 200, 8),
                                            (taken + "wait = 8;", 503, 8), (listen, 200, 0)):
                    write(text)
                    before = daemon.api("/api/v1/config")
                    self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], status)
                    found = sorted(pull["stream"] for pull in daemon.api()["pulls"])
                    self.assertEqual(found, sorted(self.NAMES)[:count])
                    if status != 200:
                        self.assertEqual(daemon.api("/api/v1/config"), before)
                daemon.blocks_settled()


class FailureTest(unittest.TestCase):
    def test_peers_killed_on_their_way(self):
        """Nothing is left of those that go while they move, and the others do not notice."""
        with start(4) as daemon:
            with harness.Steady(daemon, name=None) as steady:
                reset = struct.pack("ii", 1, 0)
                for i in range(300):
                    peer = daemon.connect("rtsp" if i % 3 == 2 else "http")
                    if i % 2:
                        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    name = "live/k%d" % (i % 16)
                    if i % 3 == 0:
                        peer.sendall(head("POST", name, "Transfer-Encoding: chunked") + b"200\r\n" + flv.header())
                    elif i % 3 == 1:
                        peer.sendall(head("GET", name))
                    else:
                        peer.sendall(b"DESCRIBE rtsp://h/%s RTSP/1.0\r\nCSeq: 1\r\n\r\n" % name.encode())
                    peer.close()
                steady.go_on()
                daemon.wait_stream(steady.name, lambda stream: len(daemon.api()["streams"]) == 1, "the only one")
            daemon.blocks_settled()

    def test_publishers_that_come_back(self):
        """One that has gone without a word, and is there again at once, finds its stream free."""
        wrong = []

        def come_and_go(daemon, name):
            for _ in range(60):
                with rtsp.Client(daemon, name) as client:
                    status = client.ask("ANNOUNCE", body=rtsp.SDP).status
                    if status != 200:
                        wrong.append((name, status))

        with start(4) as daemon:
            threads = [threading.Thread(target=come_and_go, args=(daemon, "live/b%d" % i)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            daemon.blocks_settled()

    def test_most_connections(self):
        """The limit is for all workers together."""
        with start(4, "--max-connections", "6") as daemon:
            peers = []
            while len(peers) < 6:
                peer = daemon.connect()
                peer.sendall(head("GET", "live/x"))
                peers.append(peer)
                daemon.wait_log("player started", len(peers))
            with daemon.connect() as peer:
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 503)
            daemon.wait_log("connections refused")
            for peer in peers:
                peer.close()
            daemon.wait_log("accepting resumed")
            harness.wait_until(lambda: self.answers(daemon), "an answer")
            daemon.blocks_settled()

    @staticmethod
    def answers(daemon):
        try:
            return daemon.request("GET", "/nothing")
        except (OSError, http.client.HTTPException):
            return None

    def stop_under_load(self, number):
        """Players get whole tags and the end of their body, whatever is on its way."""
        with start(4) as daemon:
            ending = threading.Event()
            data, _ = flv.stream(40)

            def churn():
                while not ending.is_set():
                    with daemon.connect() as peer:
                        peer.sendall(head("POST", "live/c%d" % (peer.getsockname()[1] % 32),
                                          "Content-Length: %d" % len(data)) + data)
                        harness.read_head(peer)

            def ask():
                while not ending.is_set():
                    daemon.api()

            names = ["live/p%d" % i for i in range(8)]
            publishers = [Publisher(daemon, name, "http") for name in names]
            for publisher in publishers:
                publisher.send(data)
            players = [Player(daemon, name) for name in names for _ in range(4)]
            for player in players:
                player.wait_tags(10)
            threads = [threading.Thread(target=self.tolerant(work), daemon=True) for work in [churn] * 4 + [ask] * 2]
            for thread in threads:
                thread.start()
            daemon.wait_log("publisher ended", 20)
            daemon.process.send_signal(number)
            for player in players:
                player.wait_end()
                self.assertIsNone(player.error)
                self.assertEqual(player.rest, 0)
            daemon.process.wait(harness.PATIENCE)
            ending.set()
            for thread in threads:
                thread.join()
            for peer in [*publishers, *players]:
                peer.close()

    @staticmethod
    def tolerant(work):
        def run():
            # The daemon goes.
            with contextlib.suppress(OSError, AssertionError, ValueError, http.client.HTTPException):
                work()
        return run

    def test_stop_under_load(self):
        self.stop_under_load(signal.SIGTERM)

    def test_shares_too_small(self):
        status, _, error = harness.run_daemon("--memory", "8M", "--workers", "16")
        self.assertEqual(status, 2)
        self.assertIn("--memory: expected at least 1M for each of 16 workers", error)
        status, _, error = harness.run_daemon("--memory", "16M", "--workers", "4", "--frame-limit", "4M")
        self.assertEqual(status, 2)
        self.assertIn("--frame-limit", error)


class BackendTest(unittest.TestCase):
    """All workers have one backend, and one line of the log says why it is this one."""

    def setUp(self):
        harness.need_namespace(self, "net")

    def check(self, options, backend, reason, detail):
        """Without a network, not even loopback, no receive bundles can be tried, as on a kernel that has none."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "admin")
            with Daemon("--workers", "3", "--admin", "unix:" + path, *options, listen=("--http", "127.0.0.1:0"),
                        within=("unshare", "--net", "sh", "-c", "ip addr add 127.0.0.1/8 dev lo; exec \"$@\"", "sh")) as daemon:
                made, = daemon.log("loop created")
                self.assertEqual([made.fields.get(name) for name in ("backend", "workers", "reason", "detail")],
                                 [backend, "3", reason, detail])
                status, body = ask_unix(path, "GET", "/api/v1/snapshot")
                self.assertEqual(status, 200)
                self.assertEqual([worker["loop"]["backend"] for worker in json.loads(body)["workers"]], [backend] * 3)
                daemon.check_complaints(0)

    def test_auto(self):
        self.check(("--backend", "auto", "--batch", "0"), "epoll", "epoll costs less",
                   "no receive bundles, no batching window")
        self.check(("--backend", "auto"), "io_uring", "io_uring works", None)

    def test_requested(self):
        self.check(("--backend", "uring", "--batch", "0"), "io_uring", "requested", None)
        self.check(("--backend", "epoll"), "epoll", "requested", None)


if __name__ == "__main__":
    harness.main()
