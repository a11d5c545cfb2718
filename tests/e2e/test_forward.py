"""Streams forwarded by HTTP, RTMP and RTSP: to another sluiced, to ffmpeg and nginx, to servers that refuse, and to one that does
not read."""

import contextlib
import os
import signal
import socket
import tempfile
import threading
import unittest

import flv
import harness
import rtmp_servers
from harness import Daemon, Player, Publisher, Steady
from test_upgrade import Upgraded

SECRET = "geheim"
LISTEN = ("--flv", "127.0.0.1:0=live/x", "--http", "127.0.0.1:0")


def forwards(daemon):
    return daemon.api("/api/v1/forwards")["forwards"]


def forward_of(daemon, stream):
    return next((forward for forward in forwards(daemon) if forward["stream"] == stream), None)


def wait_state(daemon, state, count=1, **fields):
    return daemon.wait_log("forward", count, state=state, **fields)


class Target:
    """A server that takes connections, and shows what they send."""

    def __init__(self, test):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(harness.PATIENCE)
        self.port = self.listener.getsockname()[1]
        test.addCleanup(self.listener.close)

    def url(self, path=""):
        return "http://127.0.0.1:%d/%s" % (self.port, path)

    def say_to_all(self, data):
        """Whoever connects is sent this, and nothing more."""
        def serve():
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                while True:
                    peer, _ = self.listener.accept()
                    stack.enter_context(peer).sendall(data)
        threading.Thread(target=serve, daemon=True).start()

    def accept(self):
        """(the connection, a request's head)"""
        peer, _ = self.listener.accept()
        peer.settimeout(harness.PATIENCE)
        head = b""
        while b"\r\n\r\n" not in head:
            byte = peer.recv(1)
            if not byte:
                raise AssertionError("no request: %r" % head)
            head += byte
        return peer, head.decode()


class ForwardTest(unittest.TestCase):
    def daemon(self, *forward, options=()):
        arguments = [word for one in forward for word in ("--forward", one)]
        daemon = Daemon("--log-level", "debug", *options, *arguments, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    def target(self, *options):
        target = Daemon("--wait", "60", *options)
        self.addCleanup(target.stop)
        return target

    def url(self, target, path):
        return "http://%s:%d/%s" % (*target.address("http"), path)

    def test_same_frames(self):
        """Two targets get what a player gets, tag by tag, whatever the number of workers."""
        first, second = self.target(), self.target()
        daemon = self.daemon("live/*=" + self.url(first, "copy/*.flv"), "live/x=" + self.url(second, "live/x.flv"),
                             options=("--workers", "3"))
        with Player(first, "copy/x") as one, Player(second, "live/x") as other, Steady(daemon, name="live/x") as steady:
            for target in (first, second):
                wait_state(daemon, "sending", to="http://%s:%d" % target.address("http"))
            steady.go_on(40)
            for player in (one, other):
                player.wait_tags(40)
            listed = forwards(daemon)
            self.assertEqual([(one["stream"], one["state"], one["failures"], one["frames_dropped"]) for one in listed],
                             [("live/x", "sending", 0, 0)] * 2)
            self.assertEqual(sorted(one["target"] for one in listed), [1, 2])
            for player in (one, other):
                begin = steady.sent.index(player.frames[0])
                got = player.frames[:30]
                harness.check_same(got, [tag for tag in steady.sent[begin:] if tag.is_frame][:30])
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
        daemon.stop()
        for target in (first, second):
            target.blocks_settled()

    def test_ffmpeg_receives_http(self):
        self.check_ffmpeg("http")

    def test_ffmpeg_receives_rtmp(self):
        self.check_ffmpeg("rtmp")

    def test_ffmpeg_receives_rtsp(self):
        self.check_ffmpeg("rtsp")

    def check_ffmpeg(self, scheme):
        """A whole stream, to its end: ffmpeg gets each packet of the file, and the metadata."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        media = harness.make_media(ffmpeg, " ".join([harness.VIDEO, harness.tone(48000), "-t 4", harness.H264,
                                                     harness.AAC]))
        with open(media, "rb") as file:
            tags = [flv.metadata(videocodecid=7.0, audiocodecid=10.0, mark=1234.0), *flv.parse(file.read())[1:]]
        # Both tracks, so that it begins.
        begun = next(at for at, tag in enumerate(tags) if tag.is_frame and tag.timestamp > 0)
        url = "%s://127.0.0.1:%d/app/in" % (scheme, rtmp_servers.free_port())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(folder.cleanup)
        listen = ["-rtsp_flags", "listen"] if scheme == "rtsp" else ["-f", "flv", "-listen", "1"]
        receiver = harness.Ffmpeg(ffmpeg, *listen, "-i", url, *self.hashes(scheme, folder.name + "/got"), "-f", "ffmetadata",
                                  folder.name + "/metadata")
        self.addCleanup(receiver.kill)
        # It is tried again until ffmpeg listens.
        daemon = self.daemon("live/x=" + url, options=("--wait", "0"))
        publisher = Publisher(daemon, "live/x", "http")
        publisher.send(flv.header() + b"".join(tag.pack() for tag in tags[:begun]))
        wait_state(daemon, "sending", stream="live/x")
        for tag in tags[begun:]:
            publisher.send(tag)
        publisher.finish()
        receiver.wait()
        reader = harness.Ffmpeg(ffmpeg, "-i", media, *self.hashes(scheme, folder.name + "/sent"))
        self.addCleanup(reader.kill)
        reader.wait()
        for kind in ("video", "audio"):
            lines = []
            for name in ("got", "sent"):
                with open("%s/%s.%s" % (folder.name, name, kind), encoding="ascii") as file:
                    lines.append([line.split(",")[4].strip() for _, _, line in harness.packets(file.read())])
            self.assertGreater(len(lines[0]), 90)
            harness.check_same(*lines, kind)
        with open(folder.name + "/metadata", encoding="utf-8") as file:
            self.assertEqual("\nmark=1234\n" in file.read(), scheme != "rtsp")
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)

    def hashes(self, scheme, path):
        """Of each packet; by RTSP of each picture, since packets differ in form."""
        form = ["-fps_mode", "passthrough"] if scheme == "rtsp" else ["-c", "copy"]
        return ["-map", "0:v", *form, "-f", "framemd5", path + ".video", "-map", "0:a", "-c", "copy", "-f", "framemd5",
                path + ".audio"]

    def test_rtsp_with_a_login(self):
        """Digest."""
        self.check_login("rtsp", "ANNOUNCE answered 401: wrong user or password")

    def test_rtmp_with_a_login(self):
        """Adobe's, which takes three connections."""
        self.check_login("rtmp", "the user or the password is wrong")

    def check_login(self, scheme, refused):
        """Another sluiced that wants a user; a publisher that returns goes on over the same connection."""
        with open(os.path.join(harness.SOURCE_DIR, "tests", "vectors", "flv-h264-aac.flv"), "rb") as file:
            tags = flv.parse(file.read())
        frames = [tag for tag in tags if tag.is_frame]
        with tempfile.NamedTemporaryFile("w", suffix=".users") as users:
            self.write(users, "keeper:%s\n" % SECRET)
            target = Daemon("--wait", "60", "--rtsp-users", users.name, "--rule", "publish * user", "--rule", "play * allow",
                            listen=("--http", "127.0.0.1:0", "--" + scheme, "127.0.0.1:0"))
        self.addCleanup(target.stop)
        place = "%s:%d" % target.address(scheme)
        with tempfile.NamedTemporaryFile("w", suffix=".forwards") as file:
            self.write(file, "live/*=%s://keeper:%s@%s/copy/*\nlive/*=%s://keeper:wrong@%s/another/*\n" % (
                scheme, SECRET, place, scheme, place))
            daemon = self.daemon(options=("--forward-file", file.name, "--wait", "30"))
        with Player(target, "copy/x") as player:
            for count in (1, 2):
                with Publisher(daemon, "live/x", "http") as publisher:
                    publisher.send(flv.header() + b"".join(tag.pack() for tag in tags))
                    wait_state(daemon, "sending", to="%s://%s" % (scheme, place))
                    # By RTP a picture is known to be whole when the next one begins.
                    player.wait(lambda player, most=(len(frames) - 1) * count: len(player.frames) >= most, "the frames")
                    publisher.finish()
                daemon.wait_log("publisher ended", count)
            times = [[tag.timestamp for tag in player.frames if tag.type == kind] for kind in (flv.VIDEO, flv.AUDIO)]
            self.assertEqual(times, [sorted(one) for one in times])
        daemon.check_log(1, "forward", state="sending")
        reason, _, detail = refused.partition(": ")
        wait_state(daemon, "waiting", reason=reason, **({"detail": detail} if detail else {}))
        self.check_secrets(daemon, daemon.admin("GET", "/metrics")[2].decode())

    @unittest.skipUnless(rtmp_servers.has_nginx(), "nginx's RTMP module is not there: tools/install-deps test")
    def test_nginx_records(self):
        """nginx records what it gets: each frame, also one that is larger than the chunks were before."""
        source = flv.frames()
        large = [flv.video_frame(2000, True, 1, 1500000), flv.video_frame(2040, False, 2, 3000000)]
        frames = [next(source) for _ in range(60)] + large + [flv.video_frame(2080, False, 3, 100)]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        recording = "max_message 16M; application rec { live on; record all; record_path %s; }" % folder.name
        with rtmp_servers.nginx(recording) as url:
            daemon = self.daemon("live/*=" + url.replace("/live/", "/rec/") + "*?key=geheim", options=("--wait", "0"))
            with Publisher(daemon, "live/x", "http") as publisher:
                publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags() + frames[:40]))
                wait_state(daemon, "sending", stream="live/x")
                for tag in frames[40:]:
                    publisher.send(tag)
                publisher.finish()
            daemon.wait_log("forward ended", reason="end of stream", frames_dropped="0")
            path = os.path.join(folder.name, "x.flv")
            sent = [tag.payload for tag in frames]

            def recorded():
                with contextlib.suppress(OSError, flv.Broken), open(path, "rb") as file:
                    tags = flv.parse(file.read())
                    return len(tags) > len(sent) and tags
                return None
            tags = harness.wait_until(recorded, "a whole recording")
        harness.check_same([tag.payload for tag in tags if tag.is_frame], sent)
        for header in (flv.VIDEO_HEADER, flv.AUDIO_HEADER):
            self.assertIn(header.payload, [tag.payload for tag in tags])
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
        self.assertNotIn(SECRET, str(daemon.log()))

    @unittest.skipUnless(rtmp_servers.has_nginx(), "nginx's RTMP module is not there: tools/install-deps test")
    def test_nginx_refuses(self):
        """A name that has a publisher, and an application that is not there."""
        with rtmp_servers.nginx() as url:
            daemon = self.daemon("live/*=%sx" % url, "live/*=%sx" % url.replace("/live/", "/none/"),
                                 "live/*=%sx" % url.replace("127.0.0.1", "localhost"))
            with Publisher(daemon, "live/x", "http") as publisher:
                publisher.send(self.begin())
                wait_state(daemon, "sending", stream="live/x")
                daemon.wait_log("forward", 2, state="waiting")
                self.assertEqual([forward["state"] for forward in forwards(daemon)].count("sending"), 1)
                reasons = [line.fields["reason"] for line in daemon.log() if line.fields.get("state") == "waiting"]
                self.assertIn("publish refused", reasons)
                self.assertIn("the target has ended the connection", reasons)

    def test_publisher_returns(self):
        """The connection stays, as players do, and times rise; with the stream it ends, as the body does."""
        target = self.target()
        daemon = self.daemon("live/*=" + self.url(target, "copy/*.flv"), options=("--wait", "30"))
        with Player(target, "copy/x") as player:
            for count in (1, 2):
                with Publisher(daemon, "live/x", "http") as publisher:
                    publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
                    source = flv.frames()
                    before = len(player.tags)
                    for _ in range(30):
                        publisher.send(next(source))
                    player.wait_tags(before + 30)
                    publisher.finish()
                daemon.wait_log("publisher ended", count)
            times = [tag.timestamp for tag in player.frames]
            self.assertEqual(times, sorted(times))
            daemon.check_log(1, "forward", state="sending")
            daemon.stop()
            target.wait_log("publisher ended", stream="copy/x", reason="end of stream")

    def test_one_stream_for_a_url(self):
        """Without * in the URL the first stream is sent; when it ends, another one that has waited."""
        target = self.target()
        daemon = self.daemon("live/*=" + self.url(target, "live/key.flv"), options=("--wait", "0", "--workers", "2"))
        with Publisher(daemon, "live/b", "http") as second:
            with Publisher(daemon, "live/a", "http") as first:
                for publisher in (first, second):
                    publisher.send(self.begin())
                    wait_state(daemon, "sending", stream="live/a")
                daemon.wait_log("stream not forwarded", stream="live/b", reason="another stream is sent to that URL")
                self.assertEqual([forward["stream"] for forward in forwards(daemon)], ["live/a"])
                first.finish()
            wait_state(daemon, "sending", stream="live/b")

    def test_reload(self):
        """Those that are new begin at once, those that are gone end, the others are not touched."""
        first, second = self.target(), self.target()
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            line = 'forward = ["live/*=%s"%%s];' % self.url(first, "copy/*.flv")
            self.write(file, line % "")
            daemon = self.daemon(options=("--config", file.name))
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(self.begin())
                first.wait_stream("copy/a")
                self.write(file, line % (', "live/a=%s"' % self.url(second, "x.flv")))
                daemon.process.send_signal(signal.SIGHUP)
                second.wait_stream("x")
                self.assertEqual(sorted(forward["target"] for forward in forwards(daemon)), [1, 2])
                self.write(file, 'forward = ["live/a=%s"];' % self.url(second, "x.flv"))
                daemon.process.send_signal(signal.SIGHUP)
                first.wait_log("publisher ended", stream="copy/a", reason="end of stream")
                daemon.wait_log("forward removed", reason="the configuration is without it")
                self.assertEqual([(forward["target"], forward["state"]) for forward in forwards(daemon)],
                                 [(1, "sending")])
            daemon.check_log(2, "forward", state="sending")

    def test_hostile_targets(self):
        """What a target may send is bounded, by each protocol, and the other ones go on."""
        flood = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(70000)
        cases = [("http", b"SSH-2.0-x\r\n", "the target does not speak HTTP"), ("http", flood, "the target sends too much"),
                 ("rtmp", b"HTTP/1.1 400 Bad Request\r\n\r\n", "not valid RTMP"),
                 ("rtsp", bytes(70000), "malformed RTSP, or over a limit")]
        targets = [Target(self) for _ in cases]
        for target, (_, said, _) in zip(targets, cases):
            target.say_to_all(said)
        good = self.target()
        daemon = self.daemon("live/*=" + self.url(good, "copy/*.flv"), *(
            "live/x=%s://127.0.0.1:%d/app/x" % (case[0], target.port) for case, target in zip(cases, targets)))
        with Player(good, "copy/x") as player, Publisher(daemon, "live/x", "http") as publisher:
            publisher.send(self.begin())
            for _, _, reason in cases:
                wait_state(daemon, "waiting", reason=reason)
            player.wait_tags(30)
            self.assertEqual([one["state"] for one in forwards(daemon) if one["target"] == 1], ["sending"])

    def test_bound(self):
        """1000 forwards, and no more; when some end, others begin."""
        options = ["live/*=http://127.0.0.1:1/%d/*" % number for number in range(64)]
        daemon = self.daemon(*options, options=("--wait", "0", "--log-level", "info"))
        with contextlib.ExitStack() as stack:
            publishers = [stack.enter_context(Publisher(daemon, "live/%d" % number, "http")) for number in range(16)]
            for publisher in publishers:
                publisher.send(self.begin())
            daemon.wait_log("stream not forwarded", reason="too many forwards")
            harness.wait_until(lambda: len(forwards(daemon)) == 1000, "1000 forwards")
            publishers.pop(0).finish()
            harness.wait_until(lambda: len(forwards(daemon)) == 15 * 64, "those of all streams")

    def test_kicked(self):
        """A forward is a player: kicked, it comes back after a while; with its stream, too, and it takes no other with it."""
        target = self.target()
        daemon = self.daemon("live/*=" + self.url(target, "copy/*.flv"), options=("--wait", "60"))
        with Player(daemon, "live/x") as player, Publisher(daemon, "live/x", "http") as publisher:
            publisher.send(self.begin())
            wait_state(daemon, "sending")
            target.wait_stream("copy/x")
            forward, = [one for one in daemon.api()["players"] if one["address"].endswith(":%d" % target.address("http")[1])]
            self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % forward["id"])[0], 204)
            wait_state(daemon, "waiting", reason="kicked")
            wait_state(daemon, "sending", 2)
            self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/live%2Fx")[0], 204)
            wait_state(daemon, "waiting", 2, reason="kicked")
            player.wait_end()
            daemon.wait_log("publisher ended", reason="kicked")

    def test_upgrade(self):
        """A publisher that stays with the old process is forwarded by it, one that comes back by the new one."""
        target = self.target()
        source = flv.frames(start=2000)
        with Upgraded("--wait", "60", "--forward", "live/*=" + self.url(target, "copy/*.flv"), listen=LISTEN) as upgraded:
            daemon = upgraded.daemon
            with Player(target, "copy/x") as player, Publisher(daemon, "live/x", "http") as publisher:
                publisher.send(self.begin())
                player.wait_tags(20)
                upgraded.upgrade()
                self.assertEqual(forwards(daemon), [])
                for _ in range(30):
                    last = next(source)
                    publisher.send(last)
                player.wait_frame(last)
                publisher.finish()
                daemon.wait_log("forward removed", reason="end of stream")
                target.wait_log("publisher ended", stream="copy/x", reason="end of stream")
                count = len(player.tags)
                with Publisher(daemon, "live/x", "http") as publisher:
                    publisher.send(self.begin())
                    player.wait_tags(count + 20)
                    self.assertEqual(forward_of(daemon, "live/x")["state"], "sending")

    def write(self, file, text):
        file.seek(0)
        file.truncate()
        file.write(text)
        file.flush()

    def begin(self, count=30):
        """What a publisher sends first."""
        source = flv.frames()
        return b"".join([flv.header(), *(tag.pack() for tag in flv.first_tags()),
                         *(next(source).pack() for _ in range(count))])

    def test_retried(self):
        """A target that refuses is asked again; each reason is shown, and no secret."""
        target = Target(self)
        secret = target.url(SECRET + "/*?key=" + SECRET).replace("//", "//user%s:%s@" % (SECRET, SECRET))
        file = tempfile.NamedTemporaryFile("w", suffix=".forwards")
        self.addCleanup(file.close)
        file.write("# two\n\nlive/*=%s\n" % secret)
        file.flush()
        daemon = self.daemon(options=("--forward-file", file.name))
        source = flv.frames()
        with Publisher(daemon, "live/x", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            for _ in range(30):
                publisher.send(next(source))
            peer, head = target.accept()
            self.assertRegex(head, r"\APOST /geheim/x\?key=geheim HTTP/1\.1\r\n")
            self.assertIn("\r\nHost: 127.0.0.1:%d\r\n" % target.port, head)
            self.assertNotIn("Authorization", head)
            self.assertIn("\r\nExpect: 100-continue\r\n", head)
            self.assertIn("\r\nTransfer-Encoding: chunked\r\n", head)
            with peer:
                # A server of old does not know that; it is not asked again.
                peer.sendall(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
                self.assertEqual(peer.recv(1), b"")
            peer, head = target.accept()
            self.assertNotIn("Expect", head)
            with peer:
                peer.sendall(b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
                peer, head = target.accept()
            self.assertIn("\r\nAuthorization: Basic ", head)
            with peer:
                peer.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                wait_state(daemon, "waiting", stream="live/x", reason="POST answered 403")
            forward = forward_of(daemon, "live/x")
            self.assertEqual((forward["to"], forward["type"], forward["state"], forward["reason"]),
                             ("http://127.0.0.1:%d" % target.port, "http", "waiting", "POST answered 403"))
            self.assertGreaterEqual(forward["retry_seconds"], 0)
            target.accept()[0].close()
            wait_state(daemon, "waiting", 2, stream="live/x")
            self.assertEqual(forward_of(daemon, "live/x")["failures"], 2)
            peer, _ = target.accept()
            with peer:
                # Some answer at once. It may be asked to wait, and is sent on.
                peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while forward_of(daemon, "live/x")["state"] != "sending":
                    publisher.send(next(source))
                metrics = daemon.admin("GET", "/metrics")[2].decode()
                self.assertIn('sluice_forward_sending{stream="live/x",target="1"} 1\n', metrics)
                self.check_secrets(daemon, metrics)

    def check_secrets(self, daemon, metrics):
        with open("/proc/%d/cmdline" % daemon.process.pid, "rb") as file:
            title = file.read().decode()
        shown = str(daemon.api()) + str(daemon.api("/api/v1/config")) + metrics + title + str(daemon.log())
        self.assertNotIn(SECRET, shown)

    def test_slow(self):
        """A target that does not read loses frames up to a key frame, and another player none."""
        target = Target(self)
        daemon = self.daemon("live/x=" + target.url("x"), options=("--player-buffer", "1M", "--gop-size", "512K",
                                                                    "--frame-limit", "512K", "--stall", "60"))
        with Steady(daemon, name="live/x", pause=0.002, size=20000) as steady:
            peer, _ = target.accept()
            with peer:
                harness.wait_until(lambda: (steady.go_on(10), forward_of(daemon, "live/x")["frames_dropped"])[1],
                                   "frames are dropped")
                body = peer.makefile("rb")
                parser, frames = flv.Parser(), []
                while not self.has_gap(frames[-2:], [tag for tag in list(steady.sent) if tag.is_frame]):
                    frames += [tag for tag in parser.feed(self.read_chunk(body)) if tag.is_frame]
                self.assertTrue(frames[-1].is_key_frame, frames[-1])

    def read_chunk(self, body):
        data = body.read(int(body.readline(), 16))
        self.assertEqual(body.readline(), b"\r\n")
        return data

    def has_gap(self, last, sent):
        """Whether the second of two frames does not follow the first."""
        return len(last) == 2 and sent.index(last[1]) != sent.index(last[0]) + 1


if __name__ == "__main__":
    harness.main()
