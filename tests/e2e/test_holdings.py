"""Bytes that are no frame yet are charged to the peer that sent them: nobody else loses a frame for want of their blocks.

Beside each attack a stream is published and played, whose player has to get exactly what was published.
"""

import contextlib
import json
import os
import resource
import select
import selectors
import struct
import tempfile
import time
import unittest

import flv
import harness
import preload
import rtmp
import rtsp
from camera import Camera
from harness import Daemon, Player, Publisher, Steady
from hook_server import Hook, reply

KIB, MIB = 1024, 1048576
BLOCK = 4096
LISTEN = ("--flv", "127.0.0.1:0=beside/a", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
# By default as many as CI's descriptors allow beside everything else, in a pool that is as much smaller.
CONNECTIONS = int(os.environ.get("SLUICE_TEST_HOSTILE", "400"))
MEMORY = os.environ.get("SLUICE_TEST_HOSTILE_MEMORY", "16M")
ANNOUNCE = ("ANNOUNCE %s RTSP/1.0\r\nCSeq: 1\r\n%sContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n")


class Hostile:
    """Connections that send a part of something each, as much as is taken, and never the rest."""

    def __init__(self, daemon, protocol, count, data, more=b"", first=None, source=None, receive_buffer=0):
        self.peers = []
        for _ in range(count):
            peer = daemon.connect(protocol, receive_buffer=receive_buffer, source=source)
            if first:
                first(peer)
            peer.setblocking(False)
            self.peers.append(peer)
        self._send(data)
        if more:
            self._send(more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.peers:
            peer.close()

    def _send(self, data):
        for peer in self.peers:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                peer.send(data)

    def trickle(self, byte=b"\0"):
        self._send(byte)

    def ended(self):
        """How many the daemon has ended; what it has answered is read."""
        count = 0
        for peer in self.peers:
            try:
                while peer.recv(65536):
                    pass
                count += 1
            except BlockingIOError:
                pass
            except ConnectionError:
                count += 1
        return count

    def ends(self, count):
        """The last bytes that came, of all, each of which is read as soon as it can be: what one is sent waits for no other."""
        ends, patience = {peer: b"" for peer in self.peers}, harness.Patience()
        with selectors.DefaultSelector() as selector:
            for peer in self.peers:
                selector.register(peer, selectors.EVENT_READ)
            while selector.get_map():
                if not patience.left():
                    raise AssertionError("%d connections do not end" % len(selector.get_map()))
                for key, _ in selector.select(1):
                    data = key.fileobj.recv(65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    ends[key.fileobj] = (ends[key.fileobj] + data)[-count:]
        return set(ends.values())


class HoldingsTest(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.keys = os.path.join(folder.name, "keys")
        with open(os.open(self.keys, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("k1:a secret\n")

    @contextlib.contextmanager
    def daemon(self, *options, memory=MEMORY):
        """One that asks for a token, but of the stream beside."""
        with Daemon("--token-keys", self.keys, "--rule=all beside/* allow", "--rule=play open/* allow",
                    "--rule=all slow/* allow", "--rule=all * token=k1", "--workers", "1", "--memory", memory,
                    *options, listen=LISTEN) as daemon:
            yield daemon

    @contextlib.contextmanager
    def beside(self, daemon):
        with Steady(daemon, name="beside/a", size=2000) as steady:
            yield steady
            steady.go_on()
        self.assertEqual([line for line in daemon.complaints() if line.message == "publisher ended" and
                          line.fields["stream"] == "beside/a"], [])

    def held(self, daemon):
        return daemon.api()["pool"]["bytes_held"]

    def budget(self, daemon):
        return daemon.api("/api/v1/config")["settings"]["memory"]

    def check_body(self, head, status, count=CONNECTIONS):
        """An unfinished body of whom nothing allows it: answered by the head, and never held."""
        with self.daemon() as daemon, self.beside(daemon) as steady:
            with Hostile(daemon, "rtsp", count, head.encode(), b"a" * 60000) as hostile:
                for peer in hostile.peers:
                    peer.setblocking(True)
                    self.assertIn(b" %d " % status, peer.recv(4096).split(b"\r\n")[0])
                    peer.setblocking(False)
                steady.go_on()
                self.assertLess(self.held(daemon), self.budget(daemon) / 4)
                self.assertEqual(daemon.api()["refused"]["memory"], 0)

    def test_rtsp_bodies_without_a_right(self):
        self.check_body(ANNOUNCE % ("rtsp://h/other/a", "", 65000), 401)

    def test_rtsp_bodies_that_are_no_descriptions(self):
        self.check_body("SET_PARAMETER rtsp://h/open/a RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 65000\r\n\r\n", 413, 20)

    def test_a_refused_body_is_dropped_and_the_next_request_answered(self):
        with self.daemon() as daemon, rtsp.Client(daemon, "other/a") as client:
            head = ANNOUNCE % (client.url, "", 50000)
            client.send_raw(head + "v" * 100)
            self.assertEqual(client.reply().status, 401)
            client.send_raw("v" * 49900 + "OPTIONS * RTSP/1.0\r\nCSeq: 2\r\n\r\n")
            reply = client.reply()
            self.assertEqual((reply.status, reply.headers["cseq"]), (200, "2"))

    def test_what_is_granted_to_a_head_is_for_its_message(self):
        """A body that is accepted by its head, and comes later, grants nothing to the request behind it."""
        with self.daemon() as daemon, rtsp.Client(daemon, "other/a") as client:
            client.send_raw("SET_PARAMETER %s RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 10\r\n\r\n12345" % client.url)
            harness.wait_until(lambda: self.held(daemon) > 0, "the head")
            client.send_raw("67890DESCRIBE %s RTSP/1.0\r\nCSeq: 2\r\n\r\n" % client.url)
            self.assertEqual([client.reply().status, client.reply().status], [451, 401])

    def test_rtsp_heads_and_frames(self):
        """What may not be judged by its head is within the quota: the largest holders are told to go."""
        for name, data in (("head", b"OPTIONS * RTSP/1.0\r\n" + b"A: %s\r\n" % (b"a" * 1000) * 15),
                           ("interleaved", b"$\0\xff\xf0" + bytes(60000))):
            with self.subTest(name), self.daemon() as daemon, self.beside(daemon) as steady:
                with Hostile(daemon, "rtsp", CONNECTIONS, data) as hostile:
                    harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                    steady.go_on()
                    self.assertGreater(hostile.ended(), 0)
                    refused = [line for line in daemon.complaints() if line.message == "request refused"]
                    self.assertLessEqual(len(refused), 60)
                    self.assertTrue(all(line.fields["status"] == "503" for line in refused), refused[:3])
                metrics = daemon.request("GET", "/metrics", protocol="admin")[2].decode()
                self.assertRegex(metrics, r'sluice_refused_total\{cause="memory"\} [1-9]')

    def test_http_heads(self):
        data = b"GET /open/a.flv HTTP/1.1\r\nHost: h\r\n" + b"A: %s\r\n" % (b"a" * 1000) * 6
        with self.daemon(memory="8M") as daemon, self.beside(daemon) as steady:
            with Hostile(daemon, "http", CONNECTIONS, data) as hostile:
                harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                steady.go_on()
                self.assertGreater(hostile.ended(), 0)

    def test_the_quota(self):
        """An eighth of the blocks, and not one more; whoever holds the most gives way, and others go on."""
        with self.daemon() as daemon:
            budget = self.budget(daemon)
            quota = (budget - budget // 8) // 8
            small = daemon.connect("rtsp")
            small.sendall(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n")
            large = b"$\0\xff\xf0" + bytes(60000)
            # Of 15 or 16 blocks each, by how they come.
            within = quota // (17 * BLOCK)
            with Hostile(daemon, "rtsp", within, large):
                harness.wait_until(lambda: self.held(daemon) >= within * 60000, "what they have sent")
                self.assertEqual(daemon.api()["refused"]["memory"], 0)
                with Hostile(daemon, "rtsp", quota // 60000 + 2 - within, large):
                    harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                    self.assertLessEqual(self.held(daemon), quota + 2 * 16 * BLOCK)
                small.sendall(b"\r\n")
                self.assertTrue(small.recv(4096).startswith(b"RTSP/1.0 200 "))
            small.close()

    def test_small_heads_of_another_address(self):
        """The quota is full of heads of a block each, of one address: heads of two blocks of another one get in."""
        with self.daemon(memory="8M") as daemon:
            refused = lambda: daemon.api()["refused"]["memory"]
            # At 8M the quota is 224 blocks.
            with Hostile(daemon, "rtsp", 260, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n", source="127.0.0.2"):
                harness.wait_until(lambda: refused() > 0, "an eviction")
                before = refused()
                head = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n" + b"A: %s\r\n" % (b"a" * 1000) * 5
                with Hostile(daemon, "rtsp", 10, head) as honest:
                    harness.wait_until(lambda: refused() >= before + 10, "further evictions")
                    for peer in honest.peers:
                        peer.settimeout(harness.PATIENCE)
                        with contextlib.suppress(ConnectionError):
                            peer.sendall(b"\r\n")
                        self.assertEqual(peer.recv(4096).split(b"\r\n")[0], b"RTSP/1.0 200 OK")

    def test_publishers_that_come_at_once(self):
        """Half of them have to go to another worker. What has come of their bodies by then is no reason to refuse them."""
        options = ("--workers", "2", "--memory", "4M", "--gop-size", "0")
        names = ["live/%d" % number for number in range(32)]
        sent = b"".join(tag.pack() for tag in (*flv.first_tags(), flv.video_frame(0, True, 0, 40000)))
        with Daemon(*options, listen=LISTEN) as daemon, contextlib.ExitStack() as stack:
            with daemon.standing_still():
                for name in names:
                    publisher = stack.enter_context(Publisher(daemon, name, "http"))
                    publisher.send(flv.header() + sent)

            def seen():
                everything = daemon.api()
                frames = sum(stream["frames"]["video"] for stream in everything["streams"])
                return everything if frames == len(names) or everything["refused"]["memory"] else None

            everything = harness.wait_until(seen, "their frames")
            self.assertEqual((everything["refused"]["memory"], daemon.complaints()), (0, []))

    def test_websocket_messages(self):
        """Nobody reads what players send: nothing of it is held; and one that is never whole ends in time."""
        upgrade = (b"GET /beside/a.flv HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        # 4000 bytes of a message of 4096.
        message = b"\x82\xfe\x10\x00\0\0\0\0" + bytes(4000)
        with self.daemon(memory="8M") as daemon, self.beside(daemon) as steady:
            with Hostile(daemon, "http", 40, upgrade, message) as hostile:
                steady.go_on()
                # A close frame: 1008, policy violation.
                self.assertEqual(hostile.ends(4), {b"\x88\x02\x03\xf0"})

    def check_unread(self, protocol, requests, first=None):
        """They ask for answers that they do not read: these are charged, and what there is beyond the pool stays small."""
        with self.daemon() as daemon, self.beside(daemon) as steady:
            before = harness.resident_kib(daemon.process.pid)
            with Hostile(daemon, protocol, 200, requests, first=first, receive_buffer=4096):
                harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                steady.go_on()
                if not preload.is_sanitized():  # A sanitizer keeps what is freed.
                    grown = (harness.resident_kib(daemon.process.pid) - before) * KIB
                    self.assertLess(grown, self.budget(daemon) + 8 * MIB)

    def test_rtsp_replies_that_are_not_read(self):
        self.check_unread("rtsp", b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n" * 2600)

    def test_rtmp_answers_that_are_not_read(self):
        def shake_hands(peer):
            peer.sendall(b"\3" + bytes(1536))
            answer = b""
            while len(answer) < 1 + 2 * 1536:
                answer += peer.recv(65536)
            peer.sendall(answer[1:1537])

        ping = rtmp.chunked(rtmp.USER, struct.pack(">HI", 6, 7), stream=0, channel=2)[0]
        self.check_unread("rtmp", ping * 18000, shake_hands)

    def test_rtsp_requests_that_are_never_whole(self):
        with self.daemon() as daemon, daemon.connect("rtsp") as peer:
            peer.sendall(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n")
            answer = harness.read_to_end(peer)
            self.assertTrue(answer.startswith(b"RTSP/1.0 408 "), answer)

    def publish_part(self, peer, name, size, have):
        peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: h\r\n\r\n" % name.encode())
        peer.sendall(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
        peer.sendall(flv.video_frame(0, True, 0, 1000).pack() + flv.video_frame(40, False, 1, size).pack()[:have])

    def test_unfinished_frames_of_publishers(self):
        """They hold more than there is, and trickle: the largest give way at once, the others for their pace."""
        options = ("--frame-limit", "1M", "--idle", "3", "--idle", "beside/*=60")
        with self.daemon(*options) as daemon, self.beside(daemon) as steady:
            with contextlib.ExitStack() as stack:
                peers = []
                for number in range(28):
                    peer = stack.enter_context(daemon.connect())
                    peer.settimeout(0.5)
                    peers.append(peer)
                    with contextlib.suppress(OSError):
                        self.publish_part(peer, "slow/%d" % number, MIB - 100, MIB - 500)
                harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                steady.go_on()

                def left():
                    for peer in peers:
                        with contextlib.suppress(OSError):
                            peer.send(b"\0")
                    return [stream["name"] for stream in daemon.api()["streams"] if stream["name"] != "beside/a"]
                harness.wait_until(lambda: not left(), lambda: "their end: %s" % left(), 0.5)
                steady.go_on()
            for reason in ("out of memory", "a frame came too slowly"):
                daemon.wait_log("publisher ended", reason=reason)

    def test_unfinished_frames_of_rtsp_publishers(self):
        """They hold more than there is, in packets of one picture without an end: the largest give way, and nothing is left of them."""
        sdp = rtsp.SDP[:rtsp.SDP.index("m=audio")]
        with self.daemon(memory="4M") as daemon, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(rtsp.Client(daemon, "slow/%d" % number)) for number in range(24)]
            for client in clients:
                client.record(sdp)
            with daemon.standing_still():
                for client in clients:
                    client.peer.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        for number in range(7):
                            client.send_rtp(0, b"\x65" + bytes(59999), number, 0, marker=False)
            harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
            daemon.wait_log("publisher ended", reason="out of memory")
            evicted = daemon.log("publisher ended", reason="out of memory")
            self.assertEqual({line.fields["video_frames"] for line in evicted}, {"0"})
            for client in clients:
                client.close()
            daemon.wait_log("publisher ended", len(clients))
            daemon.blocks_settled()

    def test_what_streams_keep(self):
        """Headers and last frames as large as frames may be: their publishers give way, and nobody else. Such metadata is not kept."""
        kinds = {
            "headers": lambda size: [flv.Tag(flv.VIDEO, 0, b"\x17\0\0\0\0" + bytes(size))],
            "metadata": lambda size: [flv.Tag(flv.SCRIPT, 0, flv.first_tags()[0].payload + bytes(size))],
            "tracks": lambda size: [flv.Tag(flv.VIDEO, 0, b"\x96\0hvc1%c" % track + bytes(size)) for track in range(6)],
            "frames": lambda size: [flv.VIDEO_HEADER, flv.video_frame(0, True, 0, size)],
        }
        for kind, make in kinds.items():
            with self.subTest(kind), self.daemon("--frame-limit", "3M") as daemon, self.beside(daemon) as steady:
                with contextlib.ExitStack() as stack:
                    for number in range(2 if kind == "tracks" else 8):
                        peer = stack.enter_context(daemon.connect())
                        with contextlib.suppress(ConnectionError):
                            peer.sendall(b"POST /slow/%d.flv HTTP/1.1\r\nHost: h\r\n\r\n" % number + flv.header())
                            for tag in make(2 * MIB):
                                peer.sendall(tag.pack())
                        steady.go_on()
                    if kind == "metadata":
                        daemon.wait_log("publisher started", 9)
                        harness.wait_until(lambda: daemon.api()["pool"]["bytes_held"] < MIB, "metadata that is relayed and gone")
                        self.assertEqual(daemon.api()["refused"]["memory"], 0)
                    elif kind != "frames":
                        harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                    steady.go_on()

    def recording(self, daemon):
        """The path of one of 2 MB of the stream beside/r."""
        with harness.Publisher(daemon, "beside/r", protocol="http") as publisher:
            tags = flv.first_tags() + [flv.video_frame(40 * i, True, i, 20000) for i in range(100)]
            publisher.send(flv.header() + b"".join(tag.pack() for tag in tags))
            publisher.finish()
        daemon.wait_log("recorded")
        return json.loads(daemon.request("GET", "/recordings/beside/r")[2])["recordings"][0]["path"]

    def test_downloads_beside_publishers_that_hold_much(self):
        """What publishers hold is no download's: it makes none fail, though it is more than all downloads may hold."""
        with tempfile.TemporaryDirectory() as folder, \
                self.daemon("--record", "beside/r=" + folder, "--frame-limit", "3M") as daemon:
            path = self.recording(daemon)
            budget = self.budget(daemon)
            share = (budget - budget // 8) // 4
            with contextlib.ExitStack() as stack:
                for number in range(2):
                    peer = stack.enter_context(daemon.connect())
                    peer.sendall(b"POST /slow/%d.flv HTTP/1.1\r\nHost: h\r\n\r\n" % number + flv.header() +
                                 flv.Tag(flv.VIDEO, 0, b"\x17\0\0\0\0" + bytes(2 * MIB)).pack())
                harness.wait_until(lambda: self.held(daemon) > share, "what the publishers hold")
                for _ in range(3):
                    status, _, body = daemon.request("GET", path)
                    self.assertEqual(status, 200)
                    self.assertGreater(len(body), 100 * 20000)
                self.assertEqual(daemon.api()["refused"]["memory"], 0)

    def test_recordings_that_are_read_slowly(self):
        """What is read from files for those who do not take it: the largest of these give way."""
        with tempfile.TemporaryDirectory() as folder, \
                self.daemon("--record", "beside/r=" + folder, memory="8M") as daemon:
            path = self.recording(daemon)
            with self.beside(daemon) as steady:
                with contextlib.ExitStack() as stack:
                    for number in range(2 * CONNECTIONS):
                        peer = stack.enter_context(daemon.connect(receive_buffer=4096))
                        peer.sendall(b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode())
                        if number % 5 == 0:
                            steady.go_on(1)
                    harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
                    steady.go_on()

    def test_pace(self):
        """A frame that has begun comes at 1024 bytes a second at least, whatever the pauses up to --idle."""
        with self.daemon("--idle", "3", "--first-data", "600") as daemon:
            with daemon.connect() as slow, daemon.connect() as fast:
                self.publish_part(slow, "slow/below", 200 * KIB, 1000)
                self.publish_part(fast, "slow/above", 200 * KIB, 1000)
                begun = time.monotonic()
                ended, sent = None, 0
                # Twice and half the least rate, also where a busy machine stretches the pauses, until the slower one has to be
                # gone.
                while ended is None:
                    due = int((time.monotonic() - begun) * 2 * KIB) + 512
                    fast.sendall(bytes(due - sent))
                    with contextlib.suppress(OSError):
                        slow.sendall(bytes((due - sent) // 4))
                    sent = due
                    if select.select([slow], [], [], 0.25)[0]:
                        ended = time.monotonic() - begun
                    self.assertEqual(select.select([fast], [], [], 0)[0], [])
                self.assertEqual(harness.status_of(slow.recv(4096)), 408)
                self.assertGreater(ended, 3)
                self.assertEqual([stream["name"] for stream in daemon.api()["streams"]], ["slow/above"])

    def test_pace_of_frames_in_packets(self):
        """The same of a frame whose packets come by RTSP, whatever small frames of another track come meanwhile."""
        with self.daemon("--idle", "3", "--first-data", "600") as daemon, rtsp.Client(daemon, "slow/rtsp") as client:
            client.record()
            client.send_rtp(0, b"\x65" + bytes(100), 0, 0)
            client.send_rtp(0, b"\x7c\x81" + bytes(1000), 1, 3600, marker=False)
            number = 0
            with contextlib.suppress(ConnectionError):
                # Reports come meanwhile.
                while not select.select([client.peer], [], [], 0.25)[0] or client.peer.recv(65536):
                    number += 1
                    client.send_rtp(2, struct.pack(">HH", 16, 8 << 3) + bytes(8), number, number * 11025, payload_type=97)
                    self.assertLess(number, harness.PATIENCE * 4)
            ended = daemon.wait_log("publisher ended", stream="slow/rtsp")
            self.assertEqual(ended.fields["reason"], "a frame came too slowly")
            self.assertGreater(number, 8)

    def test_unfinished_bodies_of_cameras(self):
        """Pulls are charged as others are until they publish: what cameras describe without an end is within the quota."""
        camera = Camera(self, DESCRIBE=lambda request: Camera.reply(
            request, 200, Content_Type="application/sdp", Content_Length=60000) + b"v=0\r\n" + b"a" * 50000).start()
        pulls = ["--pull=%s=live/%d" % (camera.url("cam%d" % number), number) for number in range(60)]
        with self.daemon(*pulls) as daemon, self.beside(daemon) as steady:
            budget = self.budget(daemon)
            harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")
            daemon.wait_log("pull", state="waiting", reason="out of memory")
            steady.go_on()
            own = 100 * BLOCK  # of the stream beside: its cached group, and frames on their way
            self.assertLessEqual(self.held(daemon), (budget - budget // 8) // 8 + 16 * BLOCK + own)

    def check_goes_on(self, daemon, peer, name, frames):
        """A publisher that was not read for longer than it may be silent: all of its frames are played."""
        with contextlib.closing(Player(daemon, name)) as player:
            player.wait_frame(frames[-1])
            more = flv.video_frame(40 * len(frames), True, 1000, 100)
            peer.sendall(more.pack())
            player.wait_frame(more)

    def test_requests_that_wait_for_a_hook(self):
        """A request waits in its block, which is charged: at 8M more than 224 of them are evicted, and nobody else."""
        requests = {"http": b"GET /open/a.flv HTTP/1.1\r\nHost: h\r\n\r\n",
                    "rtsp": b"DESCRIBE rtsp://h/open/a RTSP/1.0\r\nCSeq: 1\r\n\r\n"}
        for protocol, request in requests.items():
            hook = Hook(self, None)
            with self.subTest(protocol), self.daemon("--hook-play", hook.url, "--hook-timeout", "60", "--wait", "60",
                                                     memory="8M") as daemon:
                with Hostile(daemon, protocol, 200, request):
                    harness.wait_until(lambda: self.held(daemon) >= 200 * BLOCK, "what they wait in")
                    self.assertEqual(daemon.api()["refused"]["memory"], 0)
                    with Hostile(daemon, protocol, 60, request):
                        harness.wait_until(lambda: daemon.api()["refused"]["memory"] > 0, "an eviction")

    def test_who_waits_for_a_hook_is_not_silent(self):
        """A publisher that is asked about for long is not read meanwhile; that is not its silence."""
        hook = Hook(self, reply(200), delay=4)
        frames = [flv.video_frame(40 * number, number == 0, number, 10000) for number in range(20)]
        with self.daemon("--idle", "1", "--first-data", "1", "--hook-publish", hook.url, "--hook-timeout", "60",
                         "--wait", "60", "--gop-size", "1M") as daemon:
            for protocol, name in (("flv", "beside/a"), ("http", "slow/http")):
                with self.subTest(protocol), daemon.connect(protocol) as peer:
                    if protocol == "http":
                        peer.sendall(b"POST /slow/http.flv HTTP/1.1\r\nHost: h\r\n\r\n")
                    peer.sendall(flv.header() + b"".join(tag.pack() for tag in flv.first_tags() + frames))
                    self.check_goes_on(daemon, peer, name, frames)

    def test_who_is_not_read_is_not_silent(self):
        """The daemon stands still for longer than a publisher may be silent, or than its first data may take."""
        with self.daemon("--idle", "2", "--first-data", "2", "--gop-size", "1M") as daemon:
            frames = [flv.video_frame(40 * number, number == 0, number, 10000) for number in range(20)]
            with daemon.connect("http") as peer:
                with daemon.standing_still():
                    peer.sendall(b"POST /slow/http.flv HTTP/1.1\r\nHost: h\r\n\r\n")
                    peer.sendall(flv.header() + b"".join(tag.pack() for tag in flv.first_tags() + frames[:10]))
                    time.sleep(4)
                daemon.wait_stream("slow/http")
                with daemon.standing_still():
                    peer.sendall(b"".join(tag.pack() for tag in frames[10:]))
                    time.sleep(4)
                self.check_goes_on(daemon, peer, "slow/http", frames)


if __name__ == "__main__":
    harness.main()
