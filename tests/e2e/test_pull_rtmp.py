"""Streams pulled by RTMP: from nginx, from ffmpeg as a server, and from one by script, which asks for a login or misbehaves."""

import base64
import contextlib
import hashlib
import os
import re
import socket
import threading
import unittest

import flv
import harness
import pulls
import rtmp
from harness import Daemon, Player, Publisher
from pulls import LISTEN
from rtmp_servers import ffmpeg_server, has_nginx, nginx

REJECT = "[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason="


def chunk(kind, payload, stream=0, timestamp=0):
    return b"".join(rtmp.chunked(kind, payload, stream=stream, timestamp=timestamp, channel=3))


def command(name, transaction, *values):
    return chunk(rtmp.COMMAND, b"".join(map(rtmp.amf, (name, transaction, *values))))


def refusal(description, code="NetConnection.Connect.Rejected"):
    return command("_error", 1, None, dict(level="error", code=code, description=description))


class Script:
    """A server with the simple handshake. What it answers to connect, and then to each name of a command that it sees, is
    the test's; the apps that clients named are kept."""

    def __init__(self, test, answer):
        self.apps, self._answer = [], answer
        self._peers, self._threads = [], []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._start(self._accept)
        test.addCleanup(self.close)

    def _start(self, work, *arguments):
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                self._start(self._serve, peer)

    def _read(self, peer, size):
        data = b""
        while len(data) < size:
            part = peer.recv(size - len(data))
            if not part:
                raise OSError("ended")
            data += part
        return data

    def _serve(self, peer):
        with peer, contextlib.suppress(OSError):
            first = self._read(peer, 1537)
            peer.sendall(b"\x03" + bytes(1536) + first[1:])
            self._read(peer, 1536)
            seen = b""
            for name in (b"connect", b"createStream", b"play"):
                while rtmp.amf(name.decode()) not in seen or len(seen) < 40:
                    part = peer.recv(65536)
                    if not part:
                        return
                    seen += part
                if name == b"connect":
                    # The headers of further chunks are in it.
                    app = re.search(rb"app\x02..([^\0]*?)\x00\x08flashVer", seen.replace(b"\xc3", b""), re.DOTALL)
                    self.apps.append(app.group(1).decode())
                    answer = self._answer(self.apps[-1])
                elif name == b"createStream":
                    answer = command("_result", 4, None, 1)
                else:
                    answer = command("onStatus", 0, None, dict(level="status", code="NetStream.Play.Start")) + self.media()
                peer.sendall(answer)
            while peer.recv(65536):
                pass

    @staticmethod
    def media():
        """A group of pictures, and audio."""
        tags = [*flv.first_tags(), *(tag for tag, _ in zip(flv.frames(size=1000), range(50)))]
        return b"".join(chunk(tag.type, tag.payload, 1, tag.timestamp) for tag in tags)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for peer in list(self._peers):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join()
        for peer in (self._listener, *self._peers):
            peer.close()


def login(user, password):
    """A server's part of "adobe", as ffmpeg computes a client's."""
    def encoded(value):
        return base64.b64encode(hashlib.md5(value.encode()).digest()).decode()

    def answer(app):
        query = dict(part.split("=", 1) for part in app.partition("?")[2].split("&")) if "?" in app else {}
        if "authmod" not in query:
            return refusal("[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : ")
        if "response" not in query:
            return refusal(REJECT + "needauth&user=%s&salt=ab12&challenge=cd34&opaque=cd34" % user)
        if (query["user"], query["opaque"]) == (user, "cd34") and query["response"] == encoded(
                encoded(user + "ab12" + password) + "cd34" + query["challenge"]):
            return command("_result", 1, None, dict(level="status", code="NetConnection.Connect.Success"))
        return refusal(REJECT + "authfailed&opaque=cd34")
    return answer


class PullRtmpTest(pulls.PullTest):
    def test_from_another_sluiced(self):
        """With a user, a password and a query, which nothing shows; the same tags, none of them copied; players stay when it
        ends."""
        users = self.users("viewer:ge:heim")
        origin = Daemon("--wait", "60", "--rtsp-users", users, "--rule", "publish * allow", "--rule", "play * user",
                        listen=(*LISTEN, "--rtmp", "127.0.0.1:0"))
        self.addCleanup(origin.kill)
        place = "%s:%d" % origin.address("rtmp")
        daemon = self.puller({"live/x": "rtmp://viewer:ge%%3Aheim@%s/live/a?key=quiet" % place,
                              "live/y": "rtmp://viewer:falsch@%s/live/a" % place})
        data, tags = flv.stream(200)
        with Player(daemon, "live/x") as player, Publisher(origin, "live/a", "http") as publisher:
            publisher.send(data)
            player.wait_frame(tags[-1])
            begin = tags.index(player.frames[0])
            self.assertEqual(player.frames, [tag for tag in tags[begin:] if tag.is_frame])
            daemon.wait_log("pull", stream="live/y", state="waiting", reason="the user or the password is wrong")
            origin.kill()
            daemon.wait_log("pull", stream="live/x", state="waiting")
            self.assertEqual(daemon.log("player ended"), [])
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
        self.check_secrets(daemon, "viewer", "ge:heim", "ge%3Aheim", "quiet", "falsch")

    def test_from_ffmpeg(self):
        """Every packet of a file, by its hash."""
        self.pull_file(*self.media())

    def test_enhanced(self):
        """HEVC and Opus, which a current ffmpeg sends as Enhanced RTMP."""
        ffmpeg = harness.find_current_ffmpeg()
        if not ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        self.pull_file(ffmpeg, harness.make_media(ffmpeg, "%s %s -t 2 -pix_fmt yuv420p -c:v libx265 -preset ultrafast "
                                                  "-x265-params keyint=25:log-level=none -c:a libopus" % (
                                                      harness.VIDEO, harness.tone(48000))))

    def pull_file(self, ffmpeg, media):
        folder = self.folder()
        target = os.path.join(folder, "got")
        with ffmpeg_server(ffmpeg, "-re", "-i", media, "-c", "copy", target=True, name="live/a?key=quiet") as (url, server):
            daemon = self.puller({"live/x": url + ",on-demand"})
            with Player(daemon, "live/x") as player:
                player.wait(lambda player: player.frames, "frames")
                server.wait()
                daemon.wait_log("pull", stream="live/x", state="waiting")
                with open(target, "wb") as file:
                    file.write(flv.header() + b"".join(tag.pack() for tag in player.tags))
        texts = []
        for name, source in (("sent", media), ("got", target)):
            reader = harness.Ffmpeg(ffmpeg, "-i", source, "-map", "0", "-c", "copy", "-f", "framemd5",
                                    os.path.join(folder, name + ".md5"))
            self.addCleanup(reader.kill)
            reader.wait()
            with open(os.path.join(folder, name + ".md5"), encoding="ascii") as file:
                texts.append(sorted((kind, line.split(",")[-1]) for kind, _, line in harness.packets(file.read())))
        harness.check_same(texts[1], texts[0])
        self.check_secrets(daemon, "quiet")

    @unittest.skipUnless(has_nginx(), "nginx's RTMP module is not there: tools/install-deps test")
    def test_from_nginx(self):
        """Messages in parts of 4096 bytes, none of which is copied; and a server that ends."""
        ffmpeg, media = self.media()
        with nginx() as url:
            daemon = self.puller({"live/x": url + "a?key=quiet", "live/none": url.replace("/live/", "/none/") + "a"})
            publisher = harness.Ffmpeg(ffmpeg, "-re", "-stream_loop", "-1", "-i", media, "-c", "copy", "-f", "flv", url + "a")
            self.addCleanup(publisher.kill)
            with Player(daemon, "live/x") as player:
                player.wait(lambda player: len(player.frames) > 100, "100 frames")
                times = [frame.timestamp for frame in player.frames]
                self.assertEqual(times, sorted(times))
            pull = next(pull for pull in daemon.api()["pulls"] if pull["stream"] == "live/x")
            place = url.split("/live/")[0]
            self.assertEqual((pull["type"], pull["from"], pull["state"]), ("rtmp", place, "playing"))
            source = daemon.stream("live/x")["publisher"]
            self.assertEqual((source["protocol"], source["address"]), ("rtmp", place.split("//")[1]))
            self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
            daemon.wait_log("pull", stream="live/none", state="waiting")
            publisher.kill()
        daemon.wait_log("pull", stream="live/x", state="waiting")
        self.check_secrets(daemon, "quiet")

    def test_login(self):
        """Three connections for one attempt; a wrong password, and none."""
        server = Script(self, login("viewer", "ge:heim"))
        daemon = self.puller({"live/x": "rtmp://viewer:ge%%3Aheim@%s/live/a" % server.place,
                              "live/y": "rtmp://viewer:falsch@%s/live/a" % server.place,
                              "live/z": "rtmp://%s/live/a" % server.place})
        with Player(daemon, "live/x") as player:
            player.wait(lambda player: player.frames, "frames")
        for name, reason in (("live/y", "the user or the password is wrong"), ("live/z", "a user and a password are required")):
            line = daemon.wait_log("pull", stream=name, state="waiting")
            self.assertEqual((line.fields["reason"], line.fields["failures"]), (reason, "1"))
        self.assertEqual(daemon.log("pull", stream="live/x", state="waiting"), [])
        self.assertIn("live?authmod=adobe&user=viewer", server.apps)
        self.check_secrets(daemon, "viewer", "ge:heim", "ge%3Aheim", "falsch", "response=")
        server.close()

    def test_failures(self):
        """What a server answers in place of a stream is a state with a reason, and is tried again. None of its text is
        shown, which may contain the key."""
        frame = chunk(9, b"\x17\x01\0\0\0" + bytes(200 * 1024), 1)
        good = command("_result", 1, None, dict(level="status", code="NetConnection.Connect.Success"))
        answers = {"app": (refusal("no app of live/key", "NetConnection.Connect.InvalidApp"),
                           "connect refused: NetConnection.Connect.InvalidApp"),
                   "key": (refusal("", "live/app?quiet"), "connect refused"),
                   "other": (refusal("[ authmod=llnw ]"), "unknown kind of authentication"),
                   "again": (refusal(REJECT + "needauth&user=u"), "malformed challenge"),
                   "loop": (refusal("[ code=403 need auth; authmod=adobe ]"), "the user or the password is wrong"),
                   "garbage": (b"\xc7" * 3000, "not valid RTMP"),
                   "missing": (good + command("onStatus", 0, None, dict(level="error", code="NetStream.Play.StreamNotFound")),
                               "no such stream: NetStream.Play.StreamNotFound"),
                   "large": (good + frame, "a message is too long"),
                   "ended": (good + command("onStatus", 0, None, dict(level="status", code="NetStream.Play.Stop")),
                             "the server has ended the stream")}
        server = Script(self, lambda app: answers[app.partition("?")[0]][0])
        daemon = self.puller({"live/" + name: "rtmp://u:geheim@%s/%s/quiet" % (server.place, name) for name in answers},
                             "--frame-limit", "128K")
        for name, (_, reason) in answers.items():
            with self.subTest(name):
                line = daemon.wait_log("pull", stream="live/" + name, state="waiting")
                self.assertEqual(": ".join(filter(None, (line.fields["reason"], line.fields.get("detail")))), reason)
                self.assertEqual(line.fields["failures"], "1")
        self.check_secrets(daemon, "geheim", "quiet")
        server.close()


if __name__ == "__main__":
    harness.main()
