"""Bad input: a clear answer, one line in the log, every block back, and everybody else undisturbed.

Each case runs beside a steady stream, whose player has to get exactly what was published.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import tempfile
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady

GOOD, GOOD_TAGS = flv.stream(50)
BIG = flv.video_frame(2000, False, 50, 300000).pack()
ENCRYPTED = bytes([flv.VIDEO | 0x20]) + flv.video_frame(2000, False, 50, 500).pack()[1:]
# What a publisher that does not look at the answer goes on sending: more than the socket buffers hold.
MORE = b"".join(flv.video_frame(0, False, number, 10000).pack() for number in range(1000))

# What is sent, whether the publisher gets as far as being one, the status by HTTP, and what the log says.
STREAMS = [
    ("text", b"this is not FLV, not at all" * 20, False, 400, "not FLV"),
    ("mp4", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41" + bytes(1000), False, 400, "not FLV"),
    ("version 2", b"FLV\x02" + GOOD[4:], False, 400, "not FLV version 1"),
    ("version 0", b"FLV\x00" + GOOD[4:], False, 400, "not FLV version 1"),
    ("short offset", GOOD[:8] + b"\x05" + GOOD[9:], False, 400, "not FLV"),
    ("huge offset", GOOD[:5] + b"\xff\xff\xff\xff" + GOOD[9:], False, 400, "not FLV"),
    ("oversized first tag", flv.header() + BIG, False, 413, "tag too large"),
    ("oversized tag", GOOD + BIG, True, 413, "tag too large"),
    ("oversized tag's header only", GOOD + BIG[:11], True, 413, "tag too large"),
    ("largest size there is", GOOD + b"\x09\xff\xff\xff" + bytes(7), True, 413, "tag too large"),
    ("garbage after a good start", GOOD + b"\xff" * 1000, True, 400, "not FLV"),
    ("text after a good start", GOOD + b"A" * 1000, True, 400, "not FLV"),
    ("a second stream after the first", GOOD + GOOD, True, 400, "not FLV"),
    ("encrypted first tag", flv.header() + ENCRYPTED, False, 400, "encrypted tags"),
    ("encrypted tag", GOOD + ENCRYPTED, True, 400, "encrypted tags"),
]
# Streams that are cut short: within the file header, a tag's header, its payload, its trailer.
CUT = [
    ("header", GOOD[:5], False),
    ("header alone", GOOD[:13], False),
    ("first tag", GOOD[:20], False),
    ("tag header", GOOD + BIG[:6], True),
    ("payload", GOOD + flv.video_frame(2000, False, 50, 50000).pack()[:30000], True),
    ("trailer", GOOD[:-2], True),
]


class BadInputTest(unittest.TestCase):
    LISTEN = ("--flv", "127.0.0.1:0", "--flv", "127.0.0.1:0=short/raw", "--http", "127.0.0.1:0")
    # Who is at one of these may be silent for no longer; the steady stream may.
    SILENCE = ("--idle", "600", "--idle", "short/*=1")

    @contextlib.contextmanager
    def beside_steady(self, *options, complaints=1):
        """A daemon with a steady stream; at the end nothing of the bad input is left but its line in the log."""
        with Daemon("--frame-limit", "256K", *(options or ("--idle", "60")), listen=self.LISTEN) as daemon:
            with Steady(daemon) as steady:
                yield daemon
                harness.wait_until(lambda: len(daemon.complaints()) >= complaints, "the line in the log")
                harness.wait_until(lambda: [stream["name"] for stream in daemon.api()["streams"]] == [steady.name],
                                   lambda: "its stream to go: %s" % daemon.api()["streams"])
                steady.go_on()
            daemon.blocks_settled()
            self.assertEqual(len(daemon.complaints()), complaints, daemon.complaints())

    def check_line(self, daemon, peer, started, reason=None):
        """The one line says who it was, and why it ended."""
        line = harness.wait_until(daemon.complaints, "a line in the log")[0]
        self.assertEqual(line.message, "publisher ended" if started else "publish refused", line)
        self.assertEqual(line.fields["peer"], "%s:%d" % peer)
        if reason:
            self.assertEqual(line.fields["reason"], reason)
        self.assertTrue(line.fields["reason"])
        self.assertEqual(line.level, "warning")

    # On the raw port the answer is the end of the connection.

    def send_raw(self, data, started, reason=None, finish=False):
        with self.beside_steady() as daemon:
            with daemon.connect("flv") as peer:
                name = peer.getsockname()
                with contextlib.suppress(ConnectionError):
                    peer.sendall(data)
                    if finish:
                        peer.shutdown(socket.SHUT_WR)
                self.assertEqual(harness.read_to_end(peer), b"")
            self.check_line(daemon, name, started, reason)

    def test_raw(self):
        for name, data, started, _, reason in STREAMS:
            with self.subTest(name):
                self.send_raw(data, started, reason)

    def test_raw_that_goes_on_sending(self):
        self.send_raw(GOOD + b"\xff" * 100 + MORE, True)

    def test_raw_cut(self):
        for name, data, started in CUT:
            with self.subTest(name):
                self.send_raw(data, started, finish=True)

    def test_raw_reset(self):
        with self.beside_steady() as daemon:
            peer = daemon.connect("flv")
            name = peer.getsockname()
            peer.sendall(GOOD)
            daemon.wait_stream("live/flv-%d" % name[1])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            self.check_line(daemon, name, True)

    def test_raw_connects_and_closes(self):
        with self.beside_steady() as daemon, daemon.connect("flv") as peer:
            name = peer.getsockname()
            peer.close()
            self.check_line(daemon, name, False)

    def test_raw_sends_nothing(self):
        with self.beside_steady(*self.SILENCE) as daemon, daemon.connect("flv", 1) as peer:
            self.assertEqual(harness.read_to_end(peer), b"")
            self.check_line(daemon, peer.getsockname(), False)

    def test_raw_stops_sending(self):
        with self.beside_steady(*self.SILENCE) as daemon, daemon.connect("flv", 1) as peer:
            peer.sendall(GOOD + BIG[:8])
            self.assertEqual(harness.read_to_end(peer), b"")
            self.check_line(daemon, peer.getsockname(), True)

    # By HTTP the peer sees the status, even when it is still sending its body.

    def send_http(self, data, expected, coding="Transfer-Encoding: chunked", more=b"", reason=None):
        body = b"%x\r\n%s\r\n%s" % (len(data), data, more) if "chunked" in coding else data + more
        with self.beside_steady() as daemon:
            with daemon.connect() as peer:
                name = peer.getsockname()
                peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: test\r\n%s\r\n\r\n" % coding.encode())
                # Not reset either: a reset can overtake the answer.
                peer.sendall(body)
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), expected)
            self.check_line(daemon, name, True, reason)

    def test_http(self):
        for name, data, _, expected, reason in STREAMS:
            with self.subTest(name):
                self.send_http(data, expected, reason=reason)

    def test_http_with_a_length(self):
        for name, data, _, expected, reason in STREAMS:
            with self.subTest(name):
                self.send_http(data, expected, "Content-Length: 1000000", reason=reason)

    def test_http_that_goes_on_sending(self):
        for coding in ("Transfer-Encoding: chunked", "Content-Length: 100000000", "Connection: close"):
            with self.subTest(coding):
                more = b"%x\r\n%s\r\n" % (len(MORE), MORE)
                self.send_http(GOOD + b"\xff" * 100, 400, coding, more if "chunked" in coding else MORE)

    def test_http_cut_by_the_last_chunk(self):
        for name, data, _ in CUT:
            with self.subTest(name):
                self.send_http(data, 400, more=b"0\r\n\r\n")

    def test_http_empty_body(self):
        with self.beside_steady() as daemon, daemon.connect() as peer:
            peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n")
            self.assertEqual(harness.read_head(peer)[0], 400)

    def test_http_cut_by_the_end(self):
        for coding in ("Transfer-Encoding: chunked", "Content-Length: 1000000"):
            with self.subTest(coding), self.beside_steady() as daemon, daemon.connect() as peer:
                peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: test\r\n%s\r\n\r\n" % coding.encode())
                peer.sendall(b"%x\r\n%s" % (len(GOOD) + 5, GOOD) if "chunked" in coding else GOOD)
                daemon.wait_stream("live/a")
                peer.shutdown(socket.SHUT_WR)
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 400)
                self.check_line(daemon, peer.getsockname(), True)

    def test_http_stops_sending(self):
        with self.beside_steady(*self.SILENCE) as daemon, daemon.connect() as peer:
            peer.sendall(b"POST /short/a.flv HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n" + GOOD)
            self.assertEqual(harness.status_of(harness.read_to_end(peer)), 408)
            self.check_line(daemon, peer.getsockname(), True)

    def test_http_connects_and_closes(self):
        with self.beside_steady(complaints=0) as daemon:
            daemon.connect().close()


class OddButGoodTest(unittest.TestCase):
    """Input that looks strange, and has to be taken."""

    def relay(self, data, tags, protocol="flv", split=None):
        with Daemon() as daemon:
            with Steady(daemon) as steady, Publisher(daemon, "live/a" if protocol == "http" else None,
                                                     protocol) as publisher:
                publisher.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with Player(daemon, publisher.name) as player:
                    daemon.wait_player(publisher.name)
                    size = split or len(data)
                    for at in range(0, len(data), size):
                        publisher.send(data[at:at + size])
                    player.wait_tags(len(tags))
                    harness.check_same(player.tags, tags)
                    publisher.finish()
                steady.go_on()
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_byte_by_byte(self):
        data, tags = flv.stream(30, size=400)
        self.relay(data, tags, split=1)

    def test_small_chunks(self):
        data, tags = flv.stream(30, size=400)
        self.relay(data, tags, "http", split=50)

    def test_wrong_trailers(self):
        tags = flv.stream(50)[1]
        data = flv.header() + b"".join(tag.pack()[:-4] + b"\0\0\0\x07" for tag in tags)
        self.relay(data, tags)

    def test_empty_and_unknown_tags(self):
        tags = flv.stream(50)[1]
        odd = flv.Tag(flv.VIDEO, 0, b"").pack() + flv.Tag(15, 0, b"unknown" * 100).pack()
        self.relay(flv.header() + b"".join(odd + tag.pack() for tag in tags), tags)

    def test_stream_ids(self):
        """They are always 0, and mean nothing: some encoders put something there."""
        tags = flv.stream(50)[1]
        packed = [tag.pack() for tag in tags]
        self.relay(flv.header() + b"".join(data[:8] + b"\0\0\x01" + data[11:] for data in packed), tags)

    def test_large_frames(self):
        data, tags = flv.stream(6, size=900000)
        self.relay(data, tags)

    def test_metadata_around_its_limit(self):
        """It is kept for players that come later. Beyond the limit it is relayed in its place, and not kept."""
        most = 16384
        for count in (most, most + 1):
            with self.subTest(values=count), Daemon() as daemon:
                script = b"\x02\0\x0aonMetaData\x08\0\0\0\0" + b"\0\0\x05" * count + b"\0\0\x09"
                metadata = flv.Tag(flv.SCRIPT, 0, script)
                data, tags = flv.stream(50, with_metadata=False, gop=10)
                begin = flv.header()
                with Publisher(daemon) as publisher, Player(daemon, publisher.name) as player:
                    daemon.wait_player(publisher.name)
                    publisher.send(begin + metadata.pack() + data[len(begin):])
                    player.wait_tags(1 + len(tags))
                    harness.check_same(player.tags, [metadata] + tags)
                    with Player(daemon, publisher.name) as later:
                        later.wait_frame(tags[-1])
                    self.assertEqual([tag for tag in later.tags if tag.type == flv.SCRIPT], [metadata] * (count == most))
                daemon.blocks_settled()
                self.assertEqual(daemon.complaints(), [])

    def test_one_byte_frames_of_audio(self):
        tags = [flv.Tag(flv.AUDIO, number * 20, b"\x72") for number in range(200)]
        self.relay(flv.header(flv.HAS_AUDIO) + b"".join(tag.pack() for tag in tags), tags)


class KilledTest(unittest.TestCase):
    """Programs that are killed in the middle."""

    def setUp(self):
        self.ffmpeg = harness.find_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("no ffmpeg")
        self.media = harness.make_media(self.ffmpeg, " ".join([harness.VIDEO, harness.tone(48000), "-t 20",
                                                               harness.H264, harness.AAC]))

    def start(self, *arguments):
        process = harness.Ffmpeg(self.ffmpeg, *arguments)
        self.addCleanup(process.kill)
        return process

    def publish(self, daemon, name):
        if name == "live/raw":
            target = ("tcp://%s:%d" % daemon.address("flv", 1),)
        else:
            target = ("-method", "POST", daemon.url(name))
        return self.start("-re", "-i", self.media, "-c", "copy", "-f", "flv", *target)

    def test_publishers_and_players(self):
        listen = ("--flv", "127.0.0.1:0", "--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0")
        with Daemon("--wait", "1", listen=listen) as daemon:
            with Steady(daemon) as steady:
                for name in ("live/raw", "live/http"):
                    publisher = self.publish(daemon, name)
                    daemon.wait_stream(name)
                    players = [self.start("-i", daemon.url(name), "-c", "copy", "-f", "null", os.devnull)
                               for _ in range(3)]
                    daemon.wait_player(name, 3)
                    players[0].process.send_signal(signal.SIGKILL)
                    daemon.wait_stream(name, lambda stream: stream["subscribers"] == 2, "2 players")
                    publisher.process.send_signal(signal.SIGKILL)
                    players[1].process.send_signal(signal.SIGKILL)
                    daemon.wait_log("publisher ended", stream=name)
                    daemon.wait_log("player ended", 3, stream=name)
                    players[2].wait()
                steady.go_on()
            daemon.blocks_settled()

    def test_killed_daemon(self):
        """After a kill -9 the next daemon listens on the same ports at once, again and again."""
        host = harness.own_host()
        listen = ("--flv", host + ":0", "--http", host + ":0")
        for _ in range(5):
            daemon = harness.start_again(listen=listen)
            listen = []
            for protocol in ("flv", "http"):
                listen += ["--" + protocol, "%s:%d" % daemon.address(protocol)]
            with Steady(daemon) as steady:
                steady.go_on()
                daemon.kill()
                steady.abandon()
        with harness.start_again(listen=listen) as last:
            with Steady(last) as steady:
                steady.go_on()
            last.blocks_settled()


class OptionsTest(unittest.TestCase):
    WRONG = [
        ["--nonsense"], ["argument"], ["--flv"], ["--http", ""], ["--http", "8080"], ["--http", "localhost:8080"],
        ["--http", "127.0.0.1"], ["--http", "127.0.0.1:"], ["--http", "127.0.0.1:65536"], ["--http", "127.0.0.1:-1"],
        ["--http", "127.0.0.1:80x"], ["--http", "127.0.0.1:8080=live/a"], ["--http", "[::1:8080"],
        ["--http", "::1:8080"], ["--http", "127.0.0.256:80"], ["--flv", "127.0.0.1:0="],
        ["--flv", "127.0.0.1:0=/a"], ["--flv", "127.0.0.1:0=a//b"], ["--flv", "127.0.0.1:0=.a"],
        ["--flv", "127.0.0.1:0=api/a"], ["--flv", "127.0.0.1:0=a b"], ["--flv", "127.0.0.1:0=a/b/c/d/e"],
        ["--admin", "0.0.0.0:0"], ["--admin", "0.0.0.0:0", "--allow-remote"], ["--admin", "8081"], ["--admin", "unix:"],
        ["--admin", "unix:/" + "x" * 200], ["--http", "0.0.0.0:0"], ["--flv", "0.0.0.0:0"],
        ["--rtsp", "0.0.0.0:0"], ["--rtsp", "localhost:8554"],
        ["--rtsp", "127.0.0.1:0=live/a"], ["--http", "[::]:0"], ["--http", "192.0.2.1:8080"],
        ["--memory", "0"], ["--memory", "x"], ["--memory", "1T"], ["--memory", "-1"], ["--memory", ""],
        ["--memory", "99999999999999999999G"], ["--memory", "256MB"], ["--gop-size", "lots"],
        ["--player-buffer", "1"], ["--frame-limit", "16777216"], ["--frame-limit", "0"], ["--batch", "101"],
        ["--batch", "-1"], ["--batch", "2x"], ["--batch", "nan"], ["--wait", "soon"], ["--wait", "-1"],
        ["--idle", "0"], ["--stall", "0"], ["--max-connections", "0"], ["--max-connections", "1.5"],
        ["--merge-window", "351"], ["--merge-window", "-1"], ["--merge-window", ""], ["--merge-window", "20ms"],
        ["--merge-window", "1.5"], ["--merge-window", "live/a"], ["--merge-window", "live/a="],
        ["--merge-window", "live/a=351"], ["--merge-window", "automatic"], ["--merge-window", "live/a=aut"],
        ["--unwatched-interval", "101"], ["--unwatched-interval", "-1"], ["--merge-window-max", "351"],
        ["--merge-window-max", "auto"], ["--http", "127.0.0.1:0,merge-window=automatic"],
        ["--merge-window", "=20"], ["--merge-window", "a//b=20"],
        ["--merge-window", "live/a=20=20"], ["--http", "127.0.0.1:0,"], ["--http", "127.0.0.1:0,20"],
        ["--http", "127.0.0.1:0,merge-window"], ["--http", "127.0.0.1:0,merge-window="],
        ["--http", "127.0.0.1:0,merge-window=351"], ["--http", "127.0.0.1:0,merge-window=20,"],
        ["--rtsp", "127.0.0.1:0,"], ["--rtsp", "127.0.0.1:0,20"], ["--rtsp", "127.0.0.1:0,merge-window=351"],
        ["--http", ",merge-window=20"], ["--flv", "127.0.0.1:0,merge-window=20"],
        ["--log-level", "loud"], ["--status=yes"],
    ]

    def test_wrong(self):
        for arguments in self.WRONG:
            with self.subTest(arguments):
                status, out, err = harness.run_daemon(*arguments)
                self.assertEqual((status, out), (2, ""), err)
                self.assertRegex(err, r"\Asluiced: [^\n]+\n\Z")
                self.assertIn(arguments[0].partition("=")[0], err)

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            address = "127.0.0.1:%d" % holder.getsockname()[1]
            for option in ("--flv", "--http", "--admin"):
                listen = [] if option != "--admin" else ["--http", "127.0.0.1:0"]
                status, out, err = harness.run_daemon(*listen, option, address)
                self.assertEqual((status, out), (1, ""), err)
                errors = [line for line in map(harness.LogLine, err.splitlines()) if line.level == "error"]
                self.assertEqual(len(errors), 1, err)
                self.assertEqual(errors[0].fields["address"], address)
                self.assertEqual(errors[0].fields["reason"], os.strerror(98))

    def test_help_and_version(self):
        status, out, err = harness.run_daemon("--help")
        self.assertEqual((status, err), (0, ""))
        for option in ("--flv", "--http", "--admin", "--admin-token-file", "--allow-remote", "--memory", "--gop-size", "--player-buffer",
                       "--frame-limit", "--batch", "--merge-window", "--wait", "--idle", "--stall", "--max-connections", "--status",
                       "--log-level", "--config", "--check", "--print-config", "--help", "--version"):
            self.assertIn(option, out)
        status, out, err = harness.run_daemon("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"\Asluiced \d+\.\d+\.\d+\n\Z")

    def test_remote_when_allowed(self):
        with Daemon("--allow-remote", listen=("--http", "0.0.0.0:0")) as daemon:
            self.assertEqual(daemon.address()[0], "0.0.0.0")
            daemon.blocks_settled()

    def test_good_limits(self):
        with Daemon("--workers", "2", "--memory", "4M", "--gop-size", "100K", "--player-buffer", "2M", "--frame-limit",
                    "1K", "--batch", "0.5", "--wait", "0.5", "--idle", "86400", "--stall", "1.5", "--max-connections", "5",
                    "--log-level", "debug") as daemon:
            self.assertEqual(daemon.api()["pool"]["blocks_max"], 1024 * 7 // 8)

    def test_max_connections(self):
        most = 20
        with Daemon("--max-connections", str(most)) as daemon:
            with Steady(daemon) as steady:
                peers = [daemon.connect() for _ in range(most + 5)]
                daemon.wait_log("connections refused")
                for peer in peers[most:]:
                    self.assertEqual(harness.status_of(harness.read_to_end(peer)), 503)
                daemon.check_complaints(1)
                self.assertEqual(daemon.api()["refused"]["max_connections"], 7)
                for peer in peers:
                    peer.close()
                daemon.wait_log("accepting resumed")
                steady.go_on()
            daemon.blocks_settled()

    def test_few_open_files(self):
        """The limit that a shell gives is not what ends connections; where the host's does, they are told so."""
        few = ("--workers", "1")
        warning = "open file limit is below --max-connections"
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = os.path.join(folder.name, "sluiced.conf")

        def reload(daemon, most):
            with open(config, "w", encoding="ascii") as file:
                file.write("max-connections = %d;\n" % most)
            if daemon:
                self.assertEqual(len(json.loads(daemon.admin("POST", "/api/v1/reload")[2])["changes"]), 1)

        reload(None, 1000)
        with Daemon(*few, "--config", config, within=("prlimit", "--nofile=64:4096")) as daemon:
            peers = [daemon.connect() for _ in range(100)]
            for peer in peers:
                peer.sendall(b"GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            for peer in peers:
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 404)
            reload(daemon, 2000)
            for message in ("connections refused", warning):
                self.assertEqual(daemon.log(message), [])
            reload(daemon, 5000)
            daemon.wait_log(warning, open_files="4096")
        with Daemon(*few, within=("prlimit", "--nofile=64:64")) as daemon:
            line, = daemon.check_complaints(1)
            self.assertEqual(line.message, warning)
            peers = [daemon.connect() for _ in range(70)]
            self.assertEqual(harness.status_of(harness.read_to_end(peers[-1])), 503)
            line = daemon.wait_log("connections refused", reason="open file limit reached")
            self.assertGreater(daemon.api()["refused"]["max_connections"], 0)
            for peer in peers:
                peer.close()
            daemon.wait_log("accepting resumed")


if __name__ == "__main__":
    harness.main()
