"""HTTP: publishing in every form of body, playing, the statuses of what is refused, and requests meant to smuggle."""

import os
import socket
import tempfile
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady

STREAM_PATH = "/live/a.flv"


def head(method, path=STREAM_PATH, *lines, version="1.1"):
    """A request's head, as bytes."""
    return "\r\n".join(["%s %s HTTP/%s" % (method, path, version), "Host: test", *lines, "", ""]).encode()


def chunk(data, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def odd_pieces(data):
    """Cuts bytes into pieces of many sizes, none at the borders of tags."""
    at, size = 0, 1
    while at < len(data):
        yield data[at:at + size]
        at, size = at + size, size * 7 % 1009 + 1


class PublishTest(unittest.TestCase):
    """Each form of body, whole: the player that waited gets every tag, the publisher gets 200."""

    def publish(self, request, pieces, end=b"", finish=False, interim=False):
        data, tags = flv.stream(200)
        with Daemon() as daemon:
            with Player(daemon, "live/a") as player, daemon.connect() as peer:
                daemon.wait_player("live/a")
                peer.sendall(request(len(data)))
                if interim:
                    self.assertEqual(peer.recv(4096), b"HTTP/1.1 100 Continue\r\n\r\n")
                for piece in pieces(data):
                    peer.sendall(piece)
                peer.sendall(end)
                if finish:
                    peer.shutdown(socket.SHUT_WR)
                status, headers, rest = harness.read_head(peer)
                self.assertEqual(status, 200)
                while len(rest) < int(headers["content-length"]):
                    rest += peer.recv(4096)
                player.wait_tags(len(tags))
                harness.check_same(player.tags, tags)
                if headers["connection"] == "keep-alive":
                    peer.sendall(head("OPTIONS", "*", "Connection: close"))
                    self.assertEqual(harness.status_of(harness.read_to_end(peer)), 204)
                self.assertEqual(headers["connection"], "close" if finish else "keep-alive")
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_chunked(self):
        self.publish(lambda _: head("POST", STREAM_PATH, "Transfer-Encoding: chunked"),
                     lambda data: map(chunk, odd_pieces(data)), b"0\r\n\r\n")

    def test_chunked_with_extensions_and_trailer(self):
        self.publish(lambda _: head("POST", STREAM_PATH, "Transfer-Encoding: Chunked"),
                     lambda data: (chunk(piece, b';name="value"') for piece in odd_pieces(data)),
                     b"000\r\nX-Checksum: 1\r\n\r\n")

    def test_chunks_cut_anywhere(self):
        self.publish(lambda _: head("POST", STREAM_PATH, "Transfer-Encoding: chunked"),
                     lambda data: odd_pieces(b"".join(map(chunk, odd_pieces(data)))), b"0\r\n\r\n")

    def test_content_length(self):
        self.publish(lambda size: head("POST", STREAM_PATH, "Content-Length: %d" % size), odd_pieces)

    def test_put(self):
        self.publish(lambda size: head("PUT", STREAM_PATH, "Content-Length: %d" % size), odd_pieces)

    def test_until_close(self):
        self.publish(lambda _: head("POST"), odd_pieces, finish=True)

    def test_until_close_by_http_1_0(self):
        self.publish(lambda _: head("POST", version="1.0"), odd_pieces, finish=True)

    def test_expect_continue(self):
        self.publish(lambda size: head("POST", STREAM_PATH, "Content-Length: %d" % size, "Expect: 100-continue"),
                     odd_pieces, interim=True)

    def test_expect_continue_chunked(self):
        self.publish(lambda _: head("PUT", STREAM_PATH, "Transfer-Encoding: chunked", "Expect: 100-continue"),
                     lambda data: map(chunk, odd_pieces(data)), b"0\r\n\r\n", interim=True)

    def test_several_on_one_connection(self):
        data, _ = flv.stream(20)
        with Daemon() as daemon, daemon.connect() as peer:
            for _ in range(3):
                peer.sendall(head("POST", STREAM_PATH, "Content-Length: %d" % len(data)) + data)
                status, headers, rest = harness.read_head(peer)
                self.assertEqual((status, len(rest)), (200, int(headers["content-length"])))
            daemon.wait_log("publisher ended", 3)


class PlayTest(unittest.TestCase):
    def check_play(self, version, chunked):
        with Daemon() as daemon:
            with Steady(daemon) as steady, Player(daemon, steady.name, version=version) as player:
                player.wait_tags(100)
                self.assertEqual(player.status, 200)
                self.assertEqual(player.headers["content-type"], "video/x-flv")
                self.assertNotIn("access-control-allow-origin", player.headers)
                self.assertNotIn("content-length", player.headers)
                self.assertEqual(player.headers.get("transfer-encoding"), "chunked" if chunked else None)
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_http_1_1_is_chunked(self):
        self.check_play("1.1", True)

    def test_http_1_0_is_not_chunked(self):
        self.check_play("1.0", False)

    def test_body_ends_when_no_publisher_comes_again(self):
        data, tags = flv.stream(50)
        begin = flv.header() + b"".join(tag.pack() for tag in flv.first_tags())
        self.assertTrue(data.startswith(begin))
        with Daemon("--wait", "1") as daemon, Publisher(daemon, "live/a", "http") as first:
            # Nobody waits for the one that comes.
            first.send(begin)
            daemon.wait_stream("live/a")
            with Player(daemon, "live/a") as chunked, Player(daemon, "live/a", version="1.0") as plain:
                daemon.wait_player("live/a", 2)
                first.send(data[len(begin):])
                self.assertEqual(first.finish(), 200)
                for player in (chunked, plain):
                    player.wait_end()
                    self.assertIsNone(player.error)
                    self.assertEqual(player.rest, 0)
                    harness.check_same(player.tags, tags)
            daemon.blocks_settled()

    def test_404_after_wait(self):
        with Daemon("--wait", "1") as daemon:
            with daemon.connect() as peer:
                peer.sendall(head("GET"))
                line = daemon.wait_log("player started")
                self.assertEqual(line.fields["stream"], "live/a")
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 404)
            daemon.blocks_settled()
            daemon.check_complaints(1)
        with Daemon("--wait", "600") as daemon, Player(daemon, "live/a"):
            self.assertEqual(daemon.wait_player("live/a")["state"], "waiting")

    def test_late_player_begins_with_the_group(self):
        with Daemon() as daemon:
            with Steady(daemon, gop=10) as steady:
                steady.go_on()
                with Player(daemon, steady.name) as player:
                    player.wait_tags(60)
                    frames = player.frames
                self.assertEqual([tag[::2] for tag in player.tags[:3]], [tag[::2] for tag in flv.first_tags()])
                self.assertTrue(frames[0].is_key_frame)
                self.assertGreater(flv.number_of(frames[0]), 0)
                begin = steady.sent.index(frames[0])
                harness.check_same(frames, steady.sent[begin:begin + len(frames)])

    def test_query_is_allowed(self):
        with Daemon() as daemon, Steady(daemon) as steady, daemon.connect() as peer:
            peer.sendall(head("GET", "/%s.flv?token=1&x=/y" % steady.name))
            self.assertEqual(harness.read_head(peer)[0], 200)

    def test_head(self):
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                answer = harness.exchange(daemon, head("HEAD", "/%s.flv" % steady.name))
                self.assertEqual(harness.status_of(answer), 200)
                self.assertIn(b"Content-Type: video/x-flv\r\n", answer)
                self.assertTrue(answer.endswith(b"\r\n\r\n"))
                self.assertEqual(answer.count(b"\r\n\r\n"), 1)
                answer = harness.exchange(daemon, head("HEAD", "/live/nobody.flv"))
                self.assertEqual(harness.status_of(answer), 404)
                self.assertTrue(answer.endswith(b"\r\n\r\n"))
            daemon.blocks_settled()

    def test_a_refused_head_has_no_body(self):
        with Daemon() as daemon:
            for path in ("/nothing", "/live/no%20stream.flv"):
                answer = harness.exchange(daemon, head("HEAD", path))
                self.assertEqual(harness.status_of(answer), 404)
                self.assertGreater(answer.find(b"Content-Length: "), 0)
                self.assertTrue(answer.endswith(b"\r\n\r\n"), answer)
                # It is HEAD's alone.
                answer = harness.exchange(daemon, head("GET", path))
                self.assertFalse(answer.endswith(b"\r\n\r\n"), answer)

    def test_what_follows_a_head_has_a_body(self):
        with tempfile.TemporaryDirectory() as folder, Daemon("--record", "live/*=" + folder) as daemon:
            answer = harness.exchange(daemon, head("HEAD", "/recordings/live/none") + head("GET", "/nothing"))
            first, behind = answer.split(b"\r\n\r\n", 1)
            self.assertEqual(harness.status_of(first), 404)
            self.assertEqual(harness.status_of(behind), 404)
            self.assertFalse(behind.endswith(b"\r\n\r\n"), answer)

    def test_preflight(self):
        with Daemon("--allow-origin", "*") as daemon:
            for path in (STREAM_PATH, "*"):
                status, headers, body = daemon.request("OPTIONS", path, headers={
                    "Origin": "http://example.com", "Access-Control-Request-Method": "GET"})
                self.assertEqual((status, body), (204, b""))
                self.assertEqual(headers["Access-Control-Allow-Origin"], "*")
                self.assertIn("GET", headers["Access-Control-Allow-Methods"])
                self.assertNotIn("Access-Control-Allow-Credentials", headers)


class RestartTest(unittest.TestCase):
    """A player stays when its publisher goes, and gets the next one's frames, at times that go on rising.

    What the next one says before them is the same, and is not said twice.
    """

    def test_player(self):
        first, first_tags = flv.stream(100, start=5000)
        second, second_tags = flv.stream(100, start=200, first=1000)
        with Daemon() as daemon:
            with Player(daemon, "live/a") as player:
                daemon.wait_player("live/a")
                for data in (first, second):
                    with Publisher(daemon, "live/a", "http") as publisher:
                        publisher.send(data)
                        self.assertEqual(publisher.finish(), 200)
                player.wait_tags(len(first_tags) + len(second_tags) - len(flv.first_tags()))
                frames = player.frames
                sent = [tag for tag in first_tags + second_tags if tag.is_frame]
                harness.check_same([tag[::2] for tag in frames], [tag[::2] for tag in sent])
                harness.check_same(frames[:100], sent[:100])
                self.assertGreater(frames[100].timestamp, frames[99].timestamp)
                offset = frames[100].timestamp - sent[100].timestamp
                harness.check_same([tag.timestamp for tag in frames[100:]],
                                   [tag.timestamp + offset for tag in sent[100:]])
                times = [tag.timestamp for tag in player.tags[1:]]
                harness.check_same(times[3:], sorted(times[3:]), "times")
                self.assertEqual([tag.payload for tag in player.tags if not tag.is_frame],
                                 [tag.payload for tag in flv.first_tags()])
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_publisher_killed_inside_a_tag(self):
        first, first_tags = flv.stream(100)
        second, second_tags = flv.stream(100, first=1000)
        with Daemon() as daemon:
            with Player(daemon, "live/a") as player:
                daemon.wait_player("live/a")
                with Publisher(daemon, "live/a", "http") as publisher:
                    publisher.send(first[:-5])
                    player.wait_tags(len(first_tags) - 1)
                daemon.wait_log("publisher ended")
                with Publisher(daemon, "live/a", "http") as publisher:
                    publisher.send(second)
                    self.assertEqual(publisher.finish(), 200)
                player.wait_tags(len(first_tags) - 1 + len(second_tags) - len(flv.first_tags()))
                sent = [tag for tag in first_tags[:-1] + second_tags if tag.is_frame]
                harness.check_same([tag[::2] for tag in player.frames], [tag[::2] for tag in sent])
                times = [tag.timestamp for tag in player.frames]
                harness.check_same(times, sorted(times), "times")
            daemon.blocks_settled()
            daemon.check_complaints(1)

    def test_ffmpeg(self):
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        media = harness.make_media(ffmpeg, " ".join([harness.VIDEO, harness.tone(48000), "-t 4", harness.H264,
                                                     harness.AAC]))
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("sent", "played")]
            reference = harness.frame_hashes(ffmpeg, media, paths[0])
            self.addCleanup(reference.kill)
            reference.wait()
            with Daemon() as daemon:
                player = harness.frame_hashes(ffmpeg, daemon.url("live/a"), paths[1])
                self.addCleanup(player.kill)
                daemon.wait_player("live/a")
                for count in (1, 2):
                    publisher = harness.Ffmpeg(ffmpeg, "-copyts", "-i", media, "-c", "copy", "-f", "flv", "-method",
                                               "POST", daemon.url("live/a"))
                    self.addCleanup(publisher.kill)
                    publisher.wait()
                    daemon.wait_log("publisher ended", count)
                self.wait_taken(daemon)
                daemon.stop()
                player.wait()
            sent, played = [self.read(path) for path in paths]
        for kind in ("video", "audio"):
            times = [dts for a_kind, dts, _ in played if a_kind == kind]
            harness.check_same(times, sorted(times), "times")
            harness.check_same(self.hashes(played, kind), self.hashes(sent, kind) * 2)

    @staticmethod
    def wait_taken(daemon):
        """Waits until the only player has been sent everything."""
        def look():
            players = daemon.api()["players"]
            return len(players) == 1 and players[0]["queued_bytes"] == 0
        harness.wait_until(look, lambda: "the player to have taken all: %s" % daemon.api()["players"])

    @staticmethod
    def read(path):
        with open(path, encoding="ascii") as file:
            return harness.packets(file.read())

    @staticmethod
    def hashes(packets, kind):
        return [line.split(",")[4] for a_kind, _, line in packets if a_kind == kind]


class FlagsTest(unittest.TestCase):
    """The file header's flags are those of the tracks that come, whatever the publisher says."""

    def check(self, expected, **options):
        data, tags = flv.stream(100, **options)
        with Daemon() as daemon:
            with Player(daemon, "live/a") as early:
                daemon.wait_player("live/a")
                with Publisher(daemon, "live/a", "http") as publisher:
                    publisher.send(data)
                    daemon.wait_stream("live/a", lambda stream: sum(stream["frames"].values()) == 100, "100 frames")
                    early.wait_tags(len(tags))
                    with Player(daemon, "live/a") as late:
                        daemon.wait_player("live/a", 2)
                        if expected == flv.HAS_AUDIO:
                            publisher.send(flv.audio_frame(9000, 1, 100))
                        late.wait(lambda player: player.frames, "a frame")
                        self.assertEqual((early.flags, late.flags), (expected, expected))
                        harness.check_same(early.tags[:len(tags)], tags)
                    self.assertEqual(publisher.finish(), 200)
            daemon.blocks_settled()

    def test_both_with_flags_0(self):
        self.check(5, flags=0)

    def test_both_with_flags_0_without_metadata(self):
        self.check(5, flags=0, with_metadata=False)

    def test_both_with_flags_of_video(self):
        self.check(5, flags=1)

    def test_video_only_with_flags_5(self):
        self.check(1, flags=5, audio=False)

    def test_video_only_with_flags_0(self):
        self.check(1, flags=0, audio=False)

    def test_video_only_with_flags_5_without_metadata(self):
        self.check(1, flags=5, audio=False, with_metadata=False)

    def test_audio_only_with_flags_5(self):
        self.check(4, flags=5, video=False)

    def test_audio_only_with_flags_0_without_metadata(self):
        self.check(4, flags=0, video=False, with_metadata=False)

    def test_header_behind_first_frame(self):
        """A decoder's header that comes when another track has begun is with the frames, whoever joins when."""
        tags = [flv.AUDIO_HEADER, flv.audio_frame(0, 0, 100), flv.audio_frame(20, 1, 100), flv.VIDEO_HEADER,
                flv.audio_frame(40, 2, 100), flv.video_frame(40, True, 3, 500), flv.audio_frame(60, 4, 100)]
        with Daemon() as daemon, Publisher(daemon, "live/a", "http") as publisher:
            with Player(daemon, "live/a") as early:
                daemon.wait_player("live/a")
                publisher.send(flv.header() + b"".join(tag.pack() for tag in tags))
                early.wait_tags(len(tags))
                harness.check_same(early.tags, tags)
                with Player(daemon, "live/a") as late:
                    late.wait_frame(tags[-1])
                    begun = next(at for at, tag in enumerate(late.tags) if tag.is_key_frame)
                    self.assertIn(flv.VIDEO_HEADER.payload, [tag.payload for tag in late.tags[:begun]])


class NoGroupTest(unittest.TestCase):
    def test_waiting_player_gets_the_beginning(self):
        """Without a cached group, who has waited for the publisher still misses nothing."""
        data, tags = flv.stream(100)
        with Daemon("--gop-size", "0") as daemon:
            with Player(daemon, "live/a") as early, Publisher(daemon, "live/a", "http") as publisher:
                daemon.wait_player("live/a")
                publisher.send(data)
                early.wait_tags(len(tags))
                harness.check_same(early.tags[:len(tags)], tags)
                self.assertEqual(publisher.finish(), 200)
            daemon.blocks_settled()


class RefusedTest(unittest.TestCase):
    """Requests that are refused: the status, the end of the connection, one line in the log."""

    REQUESTS = [
        ("unknown path", 404, head("GET", "/nothing/here")),
        ("root", 404, head("GET", "/")),
        ("no name", 404, head("GET", "/.flv")),
        ("hidden name", 404, head("GET", "/live/.hidden.flv")),
        ("parent folder", 404, head("GET", "/live/../secret.flv")),
        ("percent", 404, head("GET", "/live/%2e%2e/a.flv")),
        ("name of the API", 404, head("POST", "/api/a.flv", "Content-Length: 0")),
        ("too many segments", 404, head("GET", "/a/b/c/d/e.flv")),
        ("long segment", 404, head("GET", "/live/%s.flv" % ("a" * 65))),
        ("empty segment", 404, head("GET", "/live//a.flv")),
        ("no request", 400, b"this is not HTTP\r\n\r\n"),
        ("binary", 400, bytes(range(128, 256)) + b"\r\n\r\n"),
        ("TLS", 400, bytes.fromhex("16030100c8010000c40303") + bytes(200)),
        ("no version", 400, b"GET /live/a.flv\r\n\r\n"),
        ("no host", 400, b"GET /live/a.flv HTTP/1.1\r\n\r\n"),
        ("two hosts", 400, head("GET", STREAM_PATH, "Host: other")),
        ("NUL in the target", 400, head("GET", "/live/a\0.flv")),
        ("no colon", 400, head("GET", STREAM_PATH, "Something")),
        ("long target", 414, head("GET", "/live/%s.flv" % ("a" * 3000))),
        ("long header", 431, head("GET", STREAM_PATH, "X-Long: " + "a" * 9000)),
        ("header without end", 431, head("GET", STREAM_PATH)[:-2] + b"X-Long: " + b"a" * 100000),
        ("many headers", 431, head("GET", STREAM_PATH, *["X-%d: 1" % number for number in range(101)])),
        ("coding", 501, head("POST", STREAM_PATH, "Transfer-Encoding: gzip, chunked")),
        ("version 2", 505, head("GET", version="2.0")),
        ("HTTP/2 preface", 505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        # Requests that one reader takes for one and another reader for two, or for another length.
        ("length and chunked", 400, head("POST", STREAM_PATH, "Content-Length: 5", "Transfer-Encoding: chunked")),
        ("chunked and length", 400, head("POST", STREAM_PATH, "Transfer-Encoding: chunked", "Content-Length: 0")),
        ("two lengths", 400, head("POST", STREAM_PATH, "Content-Length: 5", "Content-Length: 6")),
        ("same length twice", 400, head("POST", STREAM_PATH, "Content-Length: 5", "Content-Length: 5")),
        ("list of lengths", 400, head("POST", STREAM_PATH, "Content-Length: 5, 6")),
        ("signed length", 400, head("POST", STREAM_PATH, "Content-Length: +5")),
        ("negative length", 400, head("POST", STREAM_PATH, "Content-Length: -1")),
        ("hexadecimal length", 400, head("POST", STREAM_PATH, "Content-Length: 0x5")),
        ("empty length", 400, head("POST", STREAM_PATH, "Content-Length:")),
        ("huge length", 400, head("POST", STREAM_PATH, "Content-Length: 99999999999999999999")),
        ("chunked twice", 400, head("POST", STREAM_PATH, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")),
        ("chunked in HTTP/1.0", 400, head("POST", STREAM_PATH, "Transfer-Encoding: chunked", version="1.0")),
        ("space before the colon", 400, head("POST", STREAM_PATH, "Transfer-Encoding : chunked")),
        ("folded line", 400, head("POST", STREAM_PATH, "X-Folded: 1", " Transfer-Encoding: chunked")),
        ("bare LF", 400, head("POST").replace(b"\r\n", b"\n")),
        ("bare LF in one line", 400, b"POST /live/a.flv HTTP/1.1\r\nHost: test\nContent-Length: 5\r\n\r\n"),
        ("bare CR", 400, head("POST", STREAM_PATH, "X-CR: 1\rContent-Length: 5")),
        ("a part of a body", 400, head("PUT", STREAM_PATH, "Content-Length: 5", "Content-Range: bytes 0-4/10")),
        ("an unsatisfied part", 400, head("PUT", STREAM_PATH, "Content-Length: 5", "content-range: bytes */10")),
        ("compressed", 415, head("POST", STREAM_PATH, "Content-Length: 5", "Content-Encoding: gzip")),
        ("compressed twice", 415, head("PUT", STREAM_PATH, "Content-Length: 5", "Content-Encoding: identity", "content-encoding: br")),
        ("tunnel", 501, head("GET", "/live/a", "x-sessioncookie: 1", "Accept: application/x-rtsp-tunnelled", version="1.0")),
        ("tunnel's other half", 501, head("POST", "/live/a", "X-SessionCookie: 1", "Content-Length: 32767",
                                          "Content-Type: application/x-rtsp-tunnelled", version="1.0")),
        ("space in the request line", 400, b"POST  /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n"),
    ]
    # Bodies whose chunks can be read in two ways.
    CHUNKS = [
        ("size with 0x", b"0x5\r\nhello\r\n"),
        ("size with a sign", b"+5\r\nhello\r\n"),
        ("negative size", b"-5\r\nhello\r\n"),
        ("no size", b"\r\nhello\r\n"),
        ("space before the size", b" 5\r\nhello\r\n"),
        ("size beyond 64 bits", b"10000000000000005\r\nhello\r\n"),
        ("bare LF behind the size", b"5\nhello\r\n"),
        ("no line end behind the data", b"5\r\nhelloworld\r\n"),
        ("bare LF behind the data", b"5\r\nhello\n5\r\nworld\r\n"),
        ("letters", b"hello\r\n"),
    ]
    NEXT = head("OPTIONS", "*")

    def check(self, daemon, name, expected, data):
        """One answer, and none to the request that follows on the connection."""
        with self.subTest(name):
            before = len(daemon.complaints())
            answer = harness.exchange(daemon, data + self.NEXT)
            self.assertEqual(harness.status_of(answer), expected)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
            harness.wait_until(lambda: len(daemon.complaints()) > before, "a line in the log")
            self.assertEqual(len(daemon.complaints()), before + 1, daemon.complaints()[before:])
            self.assertIn("peer", daemon.complaints()[-1].fields)

    def test_requests(self):
        with Daemon("--wait", "0") as daemon:
            with Steady(daemon) as steady:
                for name, expected, data in self.REQUESTS:
                    self.check(daemon, name, expected, data)
                steady.go_on()
            daemon.blocks_settled()
            daemon.check_complaints(len(self.REQUESTS))

    def test_codings(self):
        """What is compressed is refused with what would be taken; "identity" is no coding, and is taken."""
        data, _ = flv.stream(10)
        with Daemon() as daemon:
            status, headers, _ = daemon.request("PUT", STREAM_PATH, data, {"Content-Encoding": "gzip"})
            self.assertEqual((status, headers["Accept-Encoding"]), (415, "identity"))
            self.assertEqual(daemon.request("PUT", STREAM_PATH, data, {"Content-Encoding": "Identity"})[0], 200)
            daemon.blocks_settled()

    def test_chunks(self):
        good, _ = flv.stream(10)
        publish = head("POST", STREAM_PATH, "Transfer-Encoding: chunked")
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                for name, data in self.CHUNKS:
                    self.check(daemon, name, 400, publish + chunk(good) + data)
                self.check(daemon, "size line without end", 413, publish + chunk(good) + b"5;" + b"x" * 5000)
                self.check(daemon, "long trailer", 431, publish + chunk(good) + b"0\r\n" + b"x: y\r\n" * 5000)
                steady.go_on()
            daemon.blocks_settled()

    def test_wrong_methods(self):
        with Daemon() as daemon:
            for method in ("DELETE", "PATCH"):
                status, headers, _ = daemon.request(method, STREAM_PATH)
                self.assertEqual(status, 405, method)
                self.assertIn("GET", headers["Allow"])
                self.assertNotIn(method, headers["Allow"])
            daemon.blocks_settled()

    def test_methods_of_paths(self):
        """OPTIONS and 405 name the methods of the path; a path that is not served, and "*", those of all paths."""
        stream, recording = "GET, HEAD, POST, PUT", "GET, HEAD"
        preflight = {"Origin": "http://example.com", "Access-Control-Request-Method": "GET"}
        with tempfile.TemporaryDirectory() as folder:
            with Daemon("--record", "*=" + folder, "--allow-origin", "*") as daemon:
                for path, wrong, expected in ((STREAM_PATH, "DELETE", stream), ("/recordings/live/a", "PUT", recording),
                                              ("/recordings/live/a/1.flv", "POST", recording), ("/none", None, stream),
                                              ("*", None, stream)):
                    status, headers, _ = daemon.request("OPTIONS", path, headers=preflight)
                    self.assertEqual((status, headers["Allow"]), (204, expected + ", OPTIONS"), path)
                    self.assertEqual(headers["Access-Control-Allow-Methods"], expected)
                    if wrong:
                        status, headers, _ = daemon.request(wrong, path)
                        self.assertEqual((status, headers["Allow"]), (405, expected + ", OPTIONS"), path)
                self.assertEqual(daemon.request("DELETE", "/none")[0], 404)
                daemon.blocks_settled()

    def test_refused_body_is_no_request(self):
        """What follows a refused request's head is its body, however it looks."""
        with Daemon() as daemon:
            for data in (head("DELETE", STREAM_PATH, "Content-Length: %d" % len(self.NEXT)) + self.NEXT,
                         head("PATCH", STREAM_PATH, "Transfer-Encoding: chunked") + chunk(self.NEXT)):
                answer = harness.exchange(daemon, data)
                self.assertEqual(harness.status_of(answer), 405)
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1)

    def test_tag_over_the_limit(self):
        good, _ = flv.stream(10)
        big = flv.video_frame(400, False, 10, 70000).pack()
        publish = head("POST", STREAM_PATH, "Transfer-Encoding: chunked")
        with Daemon("--frame-limit", "64K") as daemon:
            with Steady(daemon):
                self.check(daemon, "413", 413, publish + chunk(good + big))
            daemon.blocks_settled()


class SecondPublisherTest(unittest.TestCase):
    """A second publisher under a live name is refused; the first and its player notice nothing."""

    def test_by_http(self):
        data, _ = flv.stream(100)
        with Daemon() as daemon:
            with Steady(daemon) as steady:
                path = "/%s.flv" % steady.name
                for request in (head("POST", path, "Content-Length: %d" % len(data)) + data,
                                head("PUT", path, "Transfer-Encoding: chunked") + chunk(data) + b"0\r\n\r\n",
                                head("POST", path, "Content-Length: 1000000000", "Expect: 100-continue")):
                    answer = harness.exchange(daemon, request)
                    self.assertEqual(harness.status_of(answer), 409)
                    self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
                steady.go_on()
                publisher = daemon.stream(steady.name)["publisher"]
                self.assertEqual((publisher["address"], publisher["protocol"]), (steady.publisher.address, "flv"))
            daemon.blocks_settled()
            daemon.check_log(3, "publish refused", stream=steady.name)
            daemon.check_complaints(3)

    def test_on_raw_flv(self):
        data, _ = flv.stream(100)
        listen = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0")
        with Daemon(listen=listen) as daemon:
            with Steady(daemon, name="live/a") as steady:
                with daemon.connect("flv") as peer:
                    peer.sendall(data)
                    self.assertEqual(harness.read_to_end(peer), b"")
                steady.go_on()
            daemon.blocks_settled()
            daemon.check_log(1, "publish refused", stream="live/a")
            daemon.check_complaints(1)


class RequestsTest(unittest.TestCase):
    """Many requests on one connection, and one in many pieces."""

    def test_pipelined(self):
        with Daemon() as daemon:
            with daemon.connect() as peer:
                peer.sendall(self.requests(20) + head("OPTIONS", "*", "Connection: close"))
                answer = harness.read_to_end(peer)
                for last in [False] * 20 + [True]:
                    top, _, answer = answer.partition(b"\r\n\r\n")
                    self.assertEqual(harness.status_of(top), 204)
                    self.assertIn(b"Connection: close" if last else b"Connection: keep-alive", top)
                self.assertEqual(answer, b"")
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    @staticmethod
    def requests(count):
        return head("OPTIONS", "*") * count

    def test_pipelined_flood(self):
        """More requests at once than are buffered: they are answered all the same, in order."""
        count = 3000
        with Daemon() as daemon:
            with daemon.connect() as peer:
                harness.in_thread(self, lambda: peer.sendall(self.requests(count) + head("HEAD", "/none.flv")))
                answer = harness.read_to_end(peer)
                self.assertEqual(answer.count(b"HTTP/1.1 204 No Content\r\n"), count)
                self.assertEqual(answer.count(b"HTTP/1.1 404 Not Found\r\n"), 1)
            daemon.blocks_settled()

    def test_split_request(self):
        """A request that comes byte by byte."""
        with Daemon() as daemon, daemon.connect() as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in head("OPTIONS", "*", "Connection: close"):
                peer.sendall(bytes([byte]))
            self.assertEqual(harness.status_of(harness.read_to_end(peer)), 204)


if __name__ == "__main__":
    harness.main()
