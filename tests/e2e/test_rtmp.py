"""RTMP: what ffmpeg, rtmpdump and a client of the tests' own publish and play; what is refused, and with which words."""

import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

import flv
import harness
import rtmp
import rtmp_servers
import settings
from harness import AAC, H264, VIDEO, Daemon, tone
from hook_server import Hook, reply
from test_rights import RightsCase, sign, KEYS

LISTEN = ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
SECONDS = 8


def media(more=""):
    return harness.make_media(harness.find_ffmpeg(), " ".join([VIDEO, tone(48000), "-t %d" % SECONDS, H264, AAC, more]))


class FfmpegTest(unittest.TestCase):
    """Two publishers, by RTMP and by HTTP, and players by both, which came before: all get every packet."""

    CASES = {"b_frames": "-bf 2", "beyond_24_bits": "-output_ts_offset 16776", "five_hours": "-output_ts_offset 18000"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.ffmpeg = folder.name, harness.find_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("no ffmpeg")

    def hashes(self, source, name):
        process = harness.frame_hashes(self.ffmpeg, source, os.path.join(self.folder, name))
        self.addCleanup(process.kill)
        return process

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="ascii") as file:
            return harness.packets(file.read())

    def test_identity(self):
        wait = settings.long_wait(self.addCleanup)
        with Daemon(*wait.options, "--merge-window", "live/five_hours-http=50", listen=LISTEN) as daemon:
            players, publishers, names = [], [], []
            for case, more in self.CASES.items():
                file = media(more)
                self.hashes(file, case).wait()
                for way in ("rtmp", "http"):
                    name = "live/%s-%s" % (case, way)
                    target = rtmp.url(daemon, name) if way == "rtmp" else daemon.url(name)
                    players += [self.hashes(rtmp.url(daemon, name), name.replace("/", "-") + ".rtmp"),
                                self.hashes(daemon.url(name), name.replace("/", "-") + ".http")]
                    daemon.wait_player(name, 2)
                    publisher = harness.Ffmpeg(self.ffmpeg, "-copyts", "-i", file, "-c", "copy",
                                               *(["-method", "POST"] if way == "http" else []), "-f", "flv", target)
                    self.addCleanup(publisher.kill)
                    publishers.append(publisher)
                    names.append((case, name.replace("/", "-")))
            for publisher in publishers:
                publisher.wait()
            settings.end_wait(wait, daemon)
            for player in players:
                player.wait()
            self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])
        for case, name in names:
            sent = self.read(case)
            self.assertGreater(len(sent), 500)
            for way in ("rtmp", "http"):
                with self.subTest(case=case, name=name, way=way):
                    harness.check_same(self.read(name + "." + way), sent)

    @unittest.skipUnless(shutil.which("rtmpdump"), "no rtmpdump")
    def test_rtmpdump(self):
        """A client with digests in its handshake, which gives the tags as they came."""
        path = os.path.join(self.folder, "dump.flv")
        with Daemon("--wait", "1", listen=LISTEN) as daemon, rtmp.Client(daemon) as publisher:
            self.assertEqual(publisher.begin("publish", "cam")["code"], "NetStream.Publish.Start")
            tags = flv.first_tags()
            sent = flv.frames()
            for tag in tags:
                publisher.send(tag.type, tag.payload)
            dump = subprocess.Popen(["rtmpdump", "-q", "-v", "-r", rtmp.url(daemon, "live/cam"), "-o", path])
            self.addCleanup(dump.kill)
            tags += [next(sent) for _ in range(60)]
            daemon.wait_player("live/cam")
            for tag in tags[-60:]:
                publisher.send(tag.type, tag.payload, timestamp=tag.timestamp)
            publisher.finish()
            dump.wait(harness.PATIENCE)
        with open(path, "rb") as file:
            got = flv.parse(file.read())
        self.assertEqual([tag.payload for tag in got if tag.is_frame], [tag.payload for tag in tags if tag.is_frame])


    @unittest.skipUnless(rtmp_servers.has_nginx(), "nginx's RTMP module is not there: tools/install-deps test")
    def test_nginx(self):
        """nginx sends on what it gets to this server, and plays a stream of this server; ffmpeg sees both."""
        file = media("-t 4")
        self.hashes(file, "file").wait()
        wait = settings.long_wait(self.addCleanup)
        with Daemon(*wait.options, listen=LISTEN) as daemon:
            host, port = daemon.address("rtmp")
            both = "application in {{ live on; push rtmp://%s:%d/out; }} application from {{ live on; " \
                   "pull rtmp://%s:%d/live; }}" % (host, port, host, port)
            with rtmp_servers.nginx(both.replace("{{", "{").replace("}}", "}")) as url:
                player = self.hashes(rtmp.url(daemon, "out/a"), "pushed")
                daemon.wait_player("out/a")
                publishers = [harness.Ffmpeg(self.ffmpeg, "-re", "-copyts", "-i", file, "-c", "copy", "-f", "flv", target)
                              for target in (url.replace("/live/", "/in/") + "a", rtmp.url(daemon, "live/b"))]
                daemon.wait_stream("live/b")
                pulled = self.hashes(url.replace("/live/", "/from/") + "b", "pulled")
                for publisher in publishers:
                    self.addCleanup(publisher.kill)
                    publisher.wait()
                settings.end_wait(wait, daemon)
                player.wait()
                pulled.process.wait(harness.PATIENCE)
        for name in ("pushed", "pulled"):
            for kind in ("video", "audio"):
                sent, got = ([line.split(",")[-1].strip() for one, _, line in self.read(file) if one == kind]
                             for file in ("file", name))
                with self.subTest(name=name, kind=kind):
                    self.assertGreater(len(got), len(sent) // 4)
                    harness.check_same(got, sent[-len(got):])


class MessagesTest(unittest.TestCase):
    """A publisher by hand; what players get of it, by HTTP-FLV and by RTMP."""

    def publish(self, daemon, name, send, count):
        """The tags and the messages, so many, that players get."""
        with rtmp.Client(daemon) as player, rtmp.Client(daemon) as publisher, \
                harness.Player(daemon, "live/" + name) as other:
            player.connect(publish=False)
            player.command("play", name, stream=player.create_stream(), transaction=3)
            daemon.wait_player("live/" + name, 2)
            self.assertEqual(publisher.begin("publish", name)["code"], "NetStream.Publish.Start")
            send(publisher)
            other.wait_tags(count)
            got = player.media(count)
            publisher.finish()
        self.assertEqual([(tag.type, tag.timestamp, tag.payload) for tag in other.tags],
                         [(one.type, one.timestamp, one.payload) for one in got])
        self.assertEqual({one.chunks for one in got}, {1})
        return other.tags

    def check(self, daemon, name, tags, send):
        got = self.publish(daemon, name, send, len(tags))
        self.assertEqual([tag.payload for tag in got], [tag.payload for tag in tags])
        first = next(tag for tag in tags if tag.is_frame)
        began = next(tag for tag in got if tag.is_frame)
        self.assertEqual([tag.timestamp - began.timestamp for tag in got if tag.is_frame],
                         [tag.timestamp - first.timestamp for tag in tags if tag.is_frame])

    def check_sizes(self, *sizes):
        with Daemon(listen=LISTEN) as daemon:
            for size in sizes:
                for repeat in (True, False):
                    frames = flv.frames(start=5 * 3600 * 1000, size=9000)
                    tags = flv.first_tags() + [next(frames) for _ in range(12)]

                    def send(publisher, size=size, tags=tags, repeat=repeat):
                        publisher.set_chunk_size(size)
                        for tag in tags:
                            publisher.send(tag.type, tag.payload, timestamp=tag.timestamp, repeat=repeat)
                    with self.subTest(size=size, repeat=repeat):
                        self.check(daemon, "size-%d-%s" % (size, repeat), tags, send)
            return daemon.api()["pool"]["payload_bytes_copied"]

    def test_chunk_sizes(self):
        """Five hours after the beginning, so that times are extended: in every chunk, or in a message's first alone."""
        self.assertEqual(self.check_sizes(4096, 65536, 0x7fffffff), 0)

    def test_small_chunks(self):
        """Beyond some pieces, chunks of a few bytes are copied together."""
        self.assertLess(self.check_sizes(1, 128), 2 * 2 * 12 * 9200)

    def test_audio_inside_video(self):
        """The chunks of an audio message lie between those of a video message, which is then the later one."""
        frames = flv.frames(size=40000)
        tags = flv.first_tags()
        pairs = [(next(frames), next(frames)) for _ in range(10)]
        for video, audio in pairs:
            self.assertEqual((video.type, audio.type), (flv.VIDEO, flv.AUDIO))
            tags += [audio, video]

        def send(publisher):
            for tag in flv.first_tags():
                publisher.send(tag.type, tag.payload)
            for video, audio in pairs:
                chunks = rtmp.chunked(video.type, video.payload, timestamp=video.timestamp)
                inner = rtmp.chunked(audio.type, audio.payload, timestamp=audio.timestamp, channel=4)
                publisher.peer.sendall(b"".join(chunks[:100] + inner + chunks[100:]))
        with Daemon(listen=LISTEN) as daemon:
            self.check(daemon, "inside", tags, send)

    def test_aggregates_and_data(self):
        """Messages in one; metadata behind @setDataFrame, and in AMF 3's type; what is for servers goes to no player."""
        metadata = flv.metadata(width=128, height=96)
        frames = flv.frames()
        tags = flv.first_tags(with_metadata=False) + [next(frames) for _ in range(30)]

        def send(publisher):
            publisher.send(rtmp.DATA, rtmp.amf("@setDataFrame") + metadata.payload)
            publisher.send(rtmp.DATA, rtmp.amf("|RtmpSampleAccess") + rtmp.amf(True) * 2)
            whole = b""
            for tag in tags:
                whole += tag.pack()
            publisher.send(rtmp.AGGREGATE, whole)
            publisher.send(rtmp.DATA3, b"\0" + rtmp.amf("onTextData") + rtmp.amf({"text": "x"}))
            last = flv.video_frame(60000, True, 1, 100)
            publisher.send(last.type, last.payload, timestamp=60000)
            tags.append(flv.Tag(flv.SCRIPT, 0, rtmp.amf("onTextData") + rtmp.amf({"text": "x"})))
            tags.append(last)
        with Daemon(listen=LISTEN) as daemon:
            got = self.publish(daemon, "parts", send, len(tags) + 3)
        self.assertEqual([tag.payload for tag in got], [metadata.payload] + [tag.payload for tag in tags])

    def test_commands(self):
        """Ping, an unknown event, an unknown command, seek, pause: none ends the connection."""
        with Daemon(listen=LISTEN) as daemon, rtmp.Client(daemon) as publisher, rtmp.Client(daemon) as player:
            self.assertEqual(publisher.begin("publish", "cam")["code"], "NetStream.Publish.Start")
            frames = flv.frames(audio=False)
            for tag in flv.first_tags(audio=False) + [next(frames) for _ in range(30)]:
                publisher.send(tag.type, tag.payload, timestamp=tag.timestamp)
            self.assertEqual(player.begin("play", "cam")["code"], "NetStream.Play.Start")
            player.send(rtmp.USER, struct.pack(">HI", 31, 7), stream=0, channel=2)
            player.send(rtmp.USER, struct.pack(">HI", 6, 4711), stream=0, channel=2)
            while True:
                message = player.next()
                if message.type == rtmp.USER and message.payload[:2] == b"\0\7":
                    break
            self.assertEqual(message.payload[2:], struct.pack(">I", 4711))
            player.command("getTea", transaction=9)
            self.assertEqual(player.wait("_error")[3]["code"], "NetConnection.Call.Failed")
            player.command("seek", 0, stream=1, transaction=10)
            self.assertEqual(player.wait("_error")[3]["code"], "NetStream.Seek.Failed")
            player.command("getStreamLength", "cam", transaction=11)
            self.assertEqual(player.wait("_result")[3], 0)
            player.command("pause", True, 0, stream=1, transaction=12)
            self.assertEqual(player.wait_status()["code"], "NetStream.Pause.Notify")
            player.command("pause", False, 0, stream=1, transaction=13)
            self.assertEqual(player.wait_status()["code"], "NetStream.Unpause.Notify")
            while player.next().type != rtmp.VIDEO:
                pass
            player.finish()
            publisher.finish()
            self.assertEqual(daemon.complaints(), [])

    def test_acknowledgements(self):
        with Daemon(listen=LISTEN) as daemon, rtmp.Client(daemon) as publisher:
            publisher.send(rtmp.WINDOW, struct.pack(">I", 10000), stream=0, channel=2)
            publisher.begin("publish", "cam")
            frames = flv.frames(audio=False, size=6000)
            for tag in flv.first_tags(audio=False) + [next(frames) for _ in range(4)]:
                publisher.send(tag.type, tag.payload, timestamp=tag.timestamp)
            while True:
                message = publisher.next()
                if message.type == rtmp.ACKNOWLEDGEMENT:
                    break
            self.assertGreater(struct.unpack(">I", message.payload)[0], 5000)


class RefusalsTest(RightsCase):
    def refused(self, daemon, command, name, code, **connect):
        with rtmp.Client(daemon) as client:
            status = client.begin(command, name, **connect)
            self.assertEqual((status["level"], status["code"]), ("error", code))
            client.wait_end()
            return status["description"]

    def granted(self, daemon, command, name, **connect):
        with rtmp.Client(daemon) as client:
            status = client.begin(command, name, **connect)
            self.assertEqual(status["level"], "status", status)
            client.finish()

    def test_names(self):
        with Daemon("--wait", "0", listen=LISTEN) as daemon:
            self.refused(daemon, "publish", "../x", "NetStream.Publish.BadName")
            self.refused(daemon, "publish", "", "NetStream.Publish.BadName", app="")
            self.refused(daemon, "play", "no stream", "NetStream.Play.StreamNotFound")
            self.refused(daemon, "play", "absent", "NetStream.Play.StreamNotFound")
            with rtmp.Client(daemon) as first:
                first.begin("publish", "cam")
                first.send(rtmp.VIDEO, flv.VIDEO_HEADER.payload)
                self.refused(daemon, "publish", "cam", "NetStream.Publish.BadName")
                daemon.wait_log("publish refused", reason="name in use", proto="rtmp")
                # It publishes one stream.
                first.command("publish", "other", "live", stream=1, transaction=9)
                first.finish()
            self.assertEqual([line.fields["stream"] for line in daemon.log("publisher started")], ["live/cam"])
            daemon.blocks_settled()

    def test_taken_over(self):
        with Daemon("--same-name", "take-over", listen=LISTEN) as daemon, rtmp.Client(daemon) as first, \
                rtmp.Client(daemon) as second:
            first.begin("publish", "cam")
            first.send(rtmp.VIDEO, flv.VIDEO_HEADER.payload)
            self.assertEqual(second.begin("publish", "cam")["code"], "NetStream.Publish.Start")
            self.assertEqual(first.wait_status()["code"], "NetStream.Publish.BadName")
            first.wait_end()

    def test_limits(self):
        with Daemon("--max-streams", "1", "--max-players", "1", listen=LISTEN) as daemon, rtmp.Client(daemon) as one, \
                rtmp.Client(daemon) as player:
            one.begin("publish", "cam")
            self.refused(daemon, "publish", "cam2", "NetStream.Publish.Denied")
            for tag in flv.first_tags(audio=False):
                one.send(tag.type, tag.payload)
            frame = flv.video_frame(0, True, 1, 1000)
            one.send(frame.type, frame.payload)
            player.begin("play", "cam")
            self.refused(daemon, "play", "cam", "NetStream.Play.Failed")

    def test_rules(self):
        secret, now = KEYS["k1"], int(time.time())
        daemon = self.start(["all deny/* deny", "all token/* token=k1", "all mixed/* user=both,secret=k1"], LISTEN,
                            "--wait", "0")
        self.refused(daemon, "publish", "x", "NetStream.Publish.Denied", app="deny")
        self.refused(daemon, "play", "x", "NetStream.Play.Failed", app="deny")
        self.refused(daemon, "publish", "x", "NetStream.Publish.Denied", app="token")
        right, other = (sign(KEYS["k1"], "publish", "token/" + name, now + 1000) for name in "xy")
        self.refused(daemon, "publish", "x?token=" + other, "NetStream.Publish.Denied", app="token")
        self.granted(daemon, "publish", "x?token=" + right, app="token")
        self.granted(daemon, "publish", "x", app="token?token=" + right)
        self.granted(daemon, "publish", "x", app="token", url="rtmp://h/token?token=" + right)
        self.granted(daemon, "publish", "", app="token/x?token=" + right)
        self.granted(daemon, "publish", "?token=" + right, app="token/x")
        self.granted(daemon, "publish", "x?token=" + secret, app="mixed")
        self.granted(daemon, "publish", "x?user=both&pass=geheim:1", app="mixed")
        self.refused(daemon, "publish", "x?user=both&pass=geheim", "NetStream.Publish.Denied", app="mixed")
        self.refused(daemon, "publish", "x?user=viewer&pass=geheim3", "NetStream.Publish.Denied", app="mixed")
        self.check_secrets(daemon)

    def test_adobe(self):
        """ffmpeg's login; and that a challenge is of use to its address alone, and not without the password."""
        daemon = self.start(["publish live/* user", "play live/* allow"], LISTEN)
        described = self.refused(daemon, "publish", "x", "NetConnection.Connect.Rejected")
        self.assertIn("code=403 need auth; authmod=adobe", described)
        described = self.refused(daemon, "publish", "x", "NetConnection.Connect.Rejected",
                                 app="live?authmod=adobe&user=both")
        self.assertIn("?reason=needauth&user=both&salt=", described)
        opaque = described.partition("&opaque=")[2]
        for response in ("x", "QUJD"):
            described = self.refused(
                daemon, "publish", "x", "NetConnection.Connect.Rejected",
                app="live?authmod=adobe&user=both&challenge=0&response=%s&opaque=%s" % (response, opaque))
            self.assertIn("?reason=authfailed", described)
        daemon.wait_log("request refused", 2, status="401")
        self.assertEqual(len(daemon.log("request refused", status="401")), 2)
        file = media()
        for user, status in (("camera:geheim2", True), ("camera:geheim3", False), ("viewer:geheim3", False)):
            publisher = harness.Ffmpeg(harness.find_ffmpeg(), "-i", file, "-c", "copy", "-f", "flv",
                                       rtmp.url(daemon, "live/x", user=user))
            self.addCleanup(publisher.kill)
            self.assertEqual(publisher.process.wait(harness.PATIENCE) == 0, status, user)
        self.assertEqual(len(daemon.log("publisher started")), 1)
        self.check_secrets(daemon)

    def test_hooks(self):
        hook = Hook(self, reply(200))
        with Daemon("--hook-publish", hook.url, listen=LISTEN) as daemon:
            self.granted(daemon, "publish", "x?room=7&token=secret", app="live")
            self.assertEqual({name: hook.asked[0][name] for name in ("event", "protocol", "stream", "query")},
                             {"event": "publish", "protocol": "rtmp", "stream": "live/x", "query": "room=7&token=secret"})
            hook.reply = reply(403)
            self.refused(daemon, "publish", "x", "NetStream.Publish.Denied")

    def test_kick(self):
        with Daemon(listen=LISTEN) as daemon, rtmp.Client(daemon) as client:
            client.begin("publish", "cam")
            client.send(rtmp.VIDEO, flv.VIDEO_HEADER.payload)
            daemon.wait_stream("live/cam")
            self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/live/cam")[0], 204)
            self.assertEqual(client.wait_status()["code"], "NetStream.Publish.Denied")
            client.wait_end()


class BoundsTest(unittest.TestCase):
    """One beyond each bound ends the connection; what is within does not."""

    def ends(self, daemon, send, reason):
        before = len(daemon.log(reason=reason))
        with rtmp.Client(daemon) as client:
            with contextlib.suppress(OSError):
                send(client)
            client.wait_end()
        harness.wait_until(lambda: len(daemon.log(reason=reason)) > before, reason)

    def test_bounds(self):
        with Daemon("--frame-limit", "100K", listen=LISTEN) as daemon:
            def commands(client):
                client.connect()
                for number in range(64):
                    client.command("releaseStream", "x", transaction=number + 2)
            self.ends(daemon, commands, "too many commands")
            nested = b"\3\0\1a" * 17 + b"\5" + b"\0\0\t" * 17
            self.ends(daemon, lambda client: client.send(rtmp.COMMAND, rtmp.amf("connect") + rtmp.amf(1) + nested, 0),
                      "malformed RTMP command")
            self.ends(daemon, lambda client: client.send(rtmp.COMMAND, rtmp.amf("connect")[:-1], 0),
                      "malformed RTMP command")
            self.ends(daemon, lambda client: client.peer.sendall(b"\xc5" + bytes(100)), "malformed RTMP")
            self.ends(daemon, lambda client: client.peer.sendall(
                b"\4" + bytes(3) + (100 * 1024 + 1).to_bytes(3, "big") + b"\x09\1\0\0\0"), "tag too large")
            with rtmp.Client(daemon) as client:
                client.connect()
                for number in range(16):
                    self.assertEqual(client.create_stream(number + 2), number + 1)
                client.command("createStream", transaction=99)
                self.assertEqual(client.wait("_error")[3]["code"], "NetConnection.Call.Failed")
            daemon.blocks_settled()

    def test_the_largest_tag(self):
        with Daemon("--frame-limit", "100K", listen=LISTEN) as daemon, rtmp.Client(daemon) as client:
            client.begin("publish", "cam")
            client.send(rtmp.VIDEO, flv.VIDEO_HEADER.payload)
            client.send(rtmp.VIDEO, b"\x17\1" + bytes(100 * 1024 - 2))
            daemon.wait_stream("live/cam", lambda stream: stream["frames"]["video"] == 1, "a frame")
            client.send(rtmp.VIDEO, b"\x17\1" + bytes(100 * 1024 - 1))
            self.assertEqual(client.wait_status()["code"], "NetStream.Failed")
            daemon.wait_log("publisher ended", reason="tag too large")

    def test_no_rtmp(self):
        with Daemon(listen=LISTEN) as daemon:
            for data in (b"GET / HTTP/1.1\r\n\r\n", b"\6" + bytes(1536), b"\x16\3\1" + bytes(200)):
                with daemon.connect("rtmp") as peer:
                    peer.sendall(data)
                    harness.read_to_end(peer)


if __name__ == "__main__":
    harness.main()
