"""Hooks that are told of ends and recordings: what they are told is true, and nothing ever waits for them."""

import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import tempfile
import threading
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady
from hook_server import Hook, reply
from rtsp import Client

LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
TIME = r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z"
DATA = flv.stream(30)[0]


def lost(daemon, count, **fields):
    """Waits until the log says that so many could not be told."""
    return daemon.wait_log("hook delivery failed", count, **fields)


def counts(daemon, event):
    """What the metrics say of one kind: (delivered, failed, dropped)."""
    text = daemon.admin("GET", "/metrics")[2].decode()
    return tuple(int(re.search(r'sluice_hook_notices_total\{event="%s",result="%s"\} (\d+)' % (event, result),
                               text).group(1)) for result in ("delivered", "failed", "dropped"))


class NoticeCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.hook = Hook(self, reply(204, b""))

    def start(self, *options, events=("unpublish", "stop", "record"), hook=None, **more):
        urls = [word for event in events for word in ("--hook-" + event, (hook or self.hook).url)]
        daemon = Daemon(*urls, *options, listen=more.pop("listen", LISTEN))
        self.addCleanup(daemon.stop)
        return daemon

    def told(self, count):
        """Waits for so many notices; the last one, without its time."""
        self.hook.wait(count)
        self.assertEqual(len(self.hook.asked), count)
        notice = dict(self.hook.asked[-1])
        self.assertRegex(notice.pop("time"), TIME)
        return notice

    def check_end(self, notice, event, name, protocol, address, number, reason):
        self.assertEqual(set(notice), {"event", "stream", "protocol", "address", "id", "seconds", "bytes", "reason"})
        self.assertEqual([notice[key] for key in ("event", "stream", "protocol", "address", "id", "reason")],
                         [event, name, protocol, address, number, reason])
        self.assertGreaterEqual(notice["seconds"], 0)


class EndTest(NoticeCase):
    def test_publishers(self):
        daemon = self.start(events=("unpublish",))
        for count, (protocol, name, reason) in enumerate((
                ("flv", "live/raw", "end of stream"), ("http", "live/a", "end of stream"), ("http", "live/a", "kicked"),
                ("flv", "live/raw", "truncated tag"), ("http", "live/b", "connection lost"))):
            with self.subTest(protocol + ", " + reason), Publisher(daemon, name, protocol) as publisher:
                publisher.send(DATA)
                daemon.wait_stream(name, lambda stream: stream["frames"]["audio"] == 15, "whole")
                shown = daemon.stream(name)["publisher"]
                if reason == "kicked":
                    daemon.admin("DELETE", "/api/v1/publishers/%d" % shown["id"])
                elif reason == "connection lost":
                    publisher.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    publisher.close()
                else:
                    if reason == "truncated tag":
                        publisher.send(b"\x09")
                    publisher.finish()
                notice = self.told(count + 1)
                self.check_end(notice, "unpublish", name, protocol, publisher.address, shown["id"], reason)
                self.assertEqual(notice["bytes"], len(DATA) - 13)
        with Client(daemon) as client:
            client.record()
            client.send_rtp(0, b"\x65" + bytes(100), 1, 0)
            harness.wait_until(lambda: (daemon.stream("live/a") or {}).get("state") == "live", "the stream")
            number, address = daemon.stream("live/a")["publisher"]["id"], harness.address_text(client.peer)
            client.ask("TEARDOWN")
        self.check_end(self.told(6), "unpublish", "live/a", "rtsp", address, number, self.hook.asked[-1]["reason"])
        # Who never had the stream, has not ended.
        with Publisher(daemon, "live/a", "http") as first:
            first.send(DATA)
            daemon.wait_stream("live/a")
            with Publisher(daemon, "live/a", "http") as second:
                self.assertEqual(harness.read_head(second.peer)[0], 409)
            first.finish()
        self.assertEqual(self.told(7)["address"], first.address)
        harness.wait_until(lambda: counts(daemon, "unpublish") == (7, 0, 0), "the count")
        daemon.blocks_settled()

    def test_players(self):
        daemon = self.start("--wait", "1", events=("stop",))
        with Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(DATA)
            daemon.wait_stream("live/a")
            for count, (protocol, reason) in enumerate((
                    ("http", "closed by player"), ("http", "kicked"), ("websocket", "closed by player"),
                    ("rtsp", "closed by player"), ("rtsp", "kicked"))):
                with self.subTest(protocol + ", " + reason):
                    if protocol == "rtsp":
                        client = Client(daemon)
                        client.play()
                        peer = client.peer
                    else:
                        client = peer = daemon.connect()
                        peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\n" + (
                            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" if protocol == "websocket" else b"") + b"\r\n")
                        harness.read_head(peer)
                    address = harness.address_text(peer)
                    player, = harness.wait_until(lambda: [one for one in daemon.api()["players"]
                                                          if one["address"] == address], "the player")
                    if reason == "kicked":
                        daemon.admin("DELETE", "/api/v1/players/%d" % player["id"])
                    client.close()
                    self.check_end(self.told(count + 1), "stop", "live/a", protocol, address, player["id"], reason)
                    self.assertGreater(self.hook.asked[-1]["bytes"], 0)
            with Player(daemon, "live/a") as player:
                player.wait_tags(30)
                publisher.finish()
                player.wait_end()
            self.assertEqual(self.told(6)["reason"], "end of stream")
        # Who has waited in vain has come and gone, too.
        self.assertEqual(daemon.request("GET", "/live/none.flv")[0], 404)
        notice = self.told(7)
        self.assertEqual((notice["reason"], notice["bytes"]), ("publisher timeout", 0))
        daemon.blocks_settled()

    def test_the_server_stops(self):
        """What ends with the server is told, and so is the recording."""
        daemon = self.start("--record", "*=" + self.folder)
        with Steady(daemon, name="live/raw") as steady:
            steady.abandon()
            daemon.stop()
        self.assertEqual(sorted((one["event"], one["stream"], one.get("reason")) for one in self.hook.asked), [
            ("record", "live/raw", None), ("stop", "live/raw", "end of stream"),
            ("unpublish", "live/raw", "server shutting down")])

    def test_another_url(self):
        """What a reload says, holds for what is told after it; and without a hook, nobody is told."""
        other = Hook(self, reply(200))
        config = os.path.join(self.folder, "sluiced.conf")

        def write(text):
            with open(config, "w", encoding="ascii") as file:
                file.write('http = "127.0.0.1:0";\n' + text)

        def publish():
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(DATA)
                self.assertEqual(publisher.finish(), 200)
        write('hook-unpublish = "%s";' % self.hook.url)
        daemon = self.start("--config", config, events=(), listen=())
        publish()
        self.told(1)
        for text in ('hook-unpublish = "%s";' % other.url, ""):
            write(text)
            self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)
            publish()
            other.wait(1)
        harness.wait_until(lambda: counts(daemon, "unpublish") == (2, 0, 0), "the count")
        self.assertEqual((len(self.hook.asked), len(other.asked)), (1, 1))


class RecordTest(NoticeCase):
    def files(self, suffix=".flv"):
        return sorted(glob.glob(os.path.join(self.folder, "*", "*", "*" + suffix)))

    def check(self, notice, path, seconds, repaired):
        file = os.path.relpath(path, self.folder)
        stream, name = os.path.split(file)
        day, _, clock = name.removesuffix(".flv").partition("T")
        self.assertEqual(notice, {
            "event": "record", "stream": stream, "directory": self.folder, "file": file, "repaired": repaired,
            "start": day + "T" + clock.replace("-", ":"), "bytes": os.path.getsize(path), "seconds": seconds})

    def test_segments(self):
        data, _ = flv.stream(200, gop=25)
        daemon = self.start("--record", "*=" + self.folder, "--record-segment", "1", events=("record",))
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            publisher.finish()
        self.hook.wait(4)
        daemon.wait_log("recorded", 4)
        files = self.files()
        self.assertEqual(len(files), 4)
        notices = sorted(self.hook.asked, key=lambda one: one["file"])
        for notice, path in zip(notices, files):
            self.assertRegex(notice.pop("time"), TIME)
            self.check(notice, path, 1, False)
            # It is played by what it is called.
            self.assertEqual(len(daemon.request("GET", "/recordings/" + notice["file"])[2]), notice["bytes"])

    def test_repaired(self):
        """What a crash has left behind is told of when it has been repaired, with the next start."""
        data, tags = flv.stream(100, gop=25)
        last = data[-len(tags[-1].payload) - 4:]  # The payload, and the tag's size after it.
        options = ("--record", "*=" + self.folder)
        daemon = self.start(*options)
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            [part] = harness.wait_until(lambda: self.files(".part"), "a part")
            harness.wait_until(lambda: pathlib.Path(part).read_bytes().endswith(last), "all of it")
            daemon.kill()
        self.assertEqual(self.hook.asked, [])
        daemon = self.start(*options)
        notice = self.told(1)
        [path] = self.files()
        self.check(notice, path, 2, True)
        self.assertEqual(counts(daemon, "record"), (1, 0, 0))

    def test_without_a_hook(self):
        """Recordings are nobody's business then, and no failure."""
        daemon = self.start("--record", "*=" + self.folder, events=())
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(DATA)
            publisher.finish()
        daemon.wait_log("recorded")
        self.assertEqual(counts(daemon, "record"), (0, 0, 0))
        self.assertEqual(daemon.complaints(), [])


class FailureTest(NoticeCase):
    def publish(self, daemon, count=1, name="live/a"):
        """So many publishers, one behind the other, on one connection."""
        data, _ = flv.stream(2)
        request = b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (
            name.encode(), len(data), data)
        with daemon.connect() as peer:
            harness.in_thread(self, lambda: peer.sendall(request * count))
            answered, last = 0, b""
            while answered < count:
                more = peer.recv(65536)
                if not more:
                    raise AssertionError("ended behind %d answers" % answered)
                data = last + more
                answered += data.count(b"200 OK\r\n")
                last = data[-7:]

    def test_tried_again(self):
        """Told again with the same words, until it is taken."""
        self.hook.reply = reply(503)
        daemon = self.start(events=("unpublish",))
        self.publish(daemon)
        self.hook.wait(1)
        self.hook.reply = reply(200)
        self.hook.wait(2)
        self.assertEqual(self.hook.asked[0], self.hook.asked[1])
        harness.wait_until(lambda: counts(daemon, "unpublish") == (1, 0, 0), "the count")
        self.assertEqual(daemon.complaints(), [])

    def test_refused(self):
        """A refusal is not asked about again, and a redirect is not followed."""
        for number, (answer, reason) in enumerate((
                (reply(403), "rejected"), (reply(404), "rejected"),
                (reply(302, b"Location: %s\r\nContent-Length: 0\r\n" % self.hook.url.encode()), "rejected"))):
            self.hook.reply = answer
            daemon = self.start(events=("unpublish",))
            self.publish(daemon)
            self.assertEqual(lost(daemon, 1).fields["reason"], reason)
            self.assertEqual(counts(daemon, "unpublish"), (0, 1, 0))
            daemon.stop()
            self.assertEqual(len(self.hook.asked), number + 1)
            self.assertNotIn("geheim", "\n".join(line.text for line in daemon.log()))

    def test_silence(self):
        """A server that takes everything and says nothing: streams go on, few are told at a time, and the end comes."""
        self.hook.reply = [None]
        daemon = self.start("--hook-timeout", "60")
        with Steady(daemon, name="live/raw") as steady:
            for _ in range(50):
                with Player(daemon, steady.name) as player:
                    player.wait_tags(1)
            self.hook.wait(8)
            steady.go_on(50)
            self.assertEqual(len(self.hook.questions), 8)
            self.assertEqual(daemon.complaints(), [])
        # Publishing is not held up, either.
        self.publish(daemon)
        daemon.blocks_settled()
        daemon.stop()
        # The steady stream, its player, 50 players, and the last publisher.
        self.assertEqual(len(daemon.log("hook delivery failed", reason="server shutting down")), 53)

    def test_nobody_is_there(self):
        # A port that is taken, where nobody listens.
        nobody = socket.socket()
        self.addCleanup(nobody.close)
        nobody.bind(("127.0.0.1", 0))
        daemon = Daemon("--hook-unpublish", "http://127.0.0.1:%d/" % nobody.getsockname()[1], listen=LISTEN)
        self.publish(daemon)
        daemon.blocks_settled()
        daemon.stop()
        self.assertEqual(lost(daemon, 1).fields["reason"], "no answer")

    def test_too_many(self):
        """4096 may wait; more are lost at once, counted, and cost nothing further."""
        self.hook.reply = [None]
        config = os.path.join(self.folder, "sluiced.conf")
        with open(config, "w", encoding="ascii"):
            pass
        daemon = self.start("--config", config, "--hook-timeout", "60", "--log-rate", "0", events=("unpublish",))
        # Thousands of publishers in a moment are more lines than a log keeps: from now on there are only those that count.
        with open(config, "w", encoding="ascii") as file:
            file.write('log-level = "warning";')
        self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)
        threads = [threading.Thread(target=self.publish, args=(daemon, 150, "live/%d" % i)) for i in range(28)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counts(daemon, "unpublish"), (0, 0, 4200 - 4096))
        daemon.check_log(4200 - 4096, "hook delivery failed", reason="queue full")
        daemon.stop(signal.SIGINT)

    def test_answers_of_all_kinds(self):
        """Whatever it says, the daemon goes on, and stops."""
        for answer in (b"", b"\0\xff\r\n\r\n" * 100, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000,
                       reply(200, b"") + b"x" * 1000000, b"RTSP/1.0 200 OK\r\n\r\n", [b"HTTP/1.1 2", None]):
            self.hook.reply = answer
            daemon = self.start("--hook-timeout", "0.3")
            self.publish(daemon)
            self.hook.wait(1)
            daemon.blocks_settled()
            daemon.stop()
            lost(daemon, 1)
            self.hook.questions.clear()


class RecordingsTest(NoticeCase):
    def test_who_plays_recordings_is_asked_about(self):
        daemon = self.start("--record", "*=" + self.folder, "--hook-play", self.hook.url, "--hook-publish",
                            self.hook.url, events=())
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(DATA)
            publisher.finish()
        daemon.wait_log("recorded")
        [path] = glob.glob(os.path.join(self.folder, "live/cam/*.flv"))
        name = os.path.basename(path)
        url = "/recordings/live/cam/" + name
        with open(path, "rb") as file:
            content = file.read()
        self.assertEqual(daemon.request("GET", url)[2], content)
        self.assertEqual(daemon.request("GET", url, headers={"Range": "bytes=5-9"})[2], content[5:10])
        self.assertEqual(daemon.request("HEAD", url)[1]["Content-Length"], str(len(content)))
        self.assertEqual(daemon.request("GET", "/recordings/live/cam")[0], 200)
        # Two of them on one connection.
        connection = daemon.connection()
        self.addCleanup(connection.close)
        for _ in range(2):
            connection.request("GET", url)
            self.assertEqual(connection.getresponse().read(), content)
        self.assertEqual([one.get("recording") for one in self.hook.asked], [None, name, name, name, "", name, name])
        self.assertEqual({(one["event"], one["stream"], one["protocol"]) for one in self.hook.asked[1:]},
                         {("play", "live/cam", "http")})
        self.hook.reply = reply(403)
        count = len(self.hook.asked)
        for method in ("GET", "HEAD"):
            for what in (url, "/recordings/live/cam", "/recordings/live/none/" + name):
                status, _, body = daemon.request(method, what)
                self.assertEqual((status, b"FLV" in body), (403, False))
        self.assertEqual(len(self.hook.asked), count + 6)
        # What can be nothing is not asked about.
        self.assertEqual(daemon.request("GET", "/recordings/../x")[0], 404)
        self.assertEqual(len(self.hook.asked), count + 6)
        # Nobody is let in by silence.
        self.hook.close()
        self.assertEqual(daemon.request("GET", url)[0], 403)
        daemon.blocks_settled()


if __name__ == "__main__":
    harness.main()
