"""TLS of the daemon's listeners: what is relayed, refused and counted, however the bytes are cut and the connections end.

The clients are by hand (tls.py) and by openssl s_client; test_tls_programs.py has other programs, test_tls_config.py certificates.
"""

import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import flv
import harness
import relay
import rtmp
import test_upgrade
import tls
import tls_storm
import websockets.sync.client
from harness import Player, Publisher
from test_proxy_protocol import v1, v2

GET = b"GET /%s HTTP/1.1\r\nHost: test\r\n\r\n"
OPTIONS = b"OPTIONS /a.flv HTTP/1.1\r\nHost: test\r\n\r\n"  # Behind which the connection stays.


class TlsCase(unittest.TestCase):
    """Each test has a daemon; what it leaves ends first, and then the daemon has to have let go of everything."""

    ends = False  # The daemon has been told to.
    may_copy = False  # Bytes that come one by one are put together to be looked at.

    def start(self, *options, workers=2, **more):
        daemon = tls.Daemon("--workers", str(workers), *options, **more)
        self.addCleanup(self.stop, daemon)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        return daemon

    def stop(self, daemon):
        try:
            if not self.ends:
                daemon.blocks_settled(self.may_copy)
        finally:
            daemon.stop()

    def connect(self, daemon, protocol="http", **client):
        return self.stack.enter_context(daemon.connect(protocol, **client))

    def plain(self, daemon, protocol="http", **more):
        return self.stack.enter_context(daemon.connect_plain(protocol, **more))


def head(method, name, *lines):
    return "\r\n".join(["%s /%s.flv HTTP/1.1" % (method, name), "Host: test", *lines, "", ""]).encode()


def hash_of(tags):
    """Of the tags as a file has them."""
    return hashlib.sha256(b"".join(tag.pack() for tag in tags)).hexdigest()


def responses(peer, count):
    """So many, one behind the other: [(status, body)]."""
    data, found = b"", []
    while len(found) < count:
        end = data.find(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: (\d+)", data[:end]) if end >= 0 else None
        whole = end + 4 + int(size.group(1) if size else 0)
        if 0 <= end and whole <= len(data):
            found.append((harness.status_of(data), data[end + 4:whole]))
            data = data[whole:]
            continue
        more = peer.recv(65536)
        if not more:
            raise AssertionError("%d responses, and %r" % (len(found), data))
        data += more
    if data:
        raise AssertionError("more behind the responses: %r" % data)
    return found


def read_regular_end(peer):
    """To the end, which has to be a regular one."""
    data = b""
    while True:
        more = peer.recv(65536)
        if not more:
            return data
        data += more


class RelayTest(TlsCase):
    """Every protocol in and out; connections arrive at any worker, and go to their stream's with their TLS."""

    def relay(self, workers, **client):
        daemon = self.start(workers=workers)
        names = ["live/s%d" % i for i in range(8)]
        ways = ["http", "flv", "rtmp", "http"] * 2
        daemon.client = client
        players = {}
        sent, publishers = {}, []
        for i, (name, way) in enumerate(zip(names, ways)):
            data, tags = flv.stream(120, first=i * 1000)
            if way == "rtmp":
                publisher = self.stack.enter_context(rtmp.Client(daemon))
                self.assertEqual(publisher.begin("publish", name[5:])["code"], "NetStream.Publish.Start")
            else:
                publisher = Publisher(daemon, name if way == "http" else None, way, method="PUT" if i else "POST")
                names[i] = name = publisher.name
            if way == "flv":
                publisher.send(flv.header())
                daemon.wait_stream(name, lambda stream: True)
            players[name] = [Player(daemon, name) for _ in range(3)] + [rtmp.Player(daemon, name)]
            daemon.wait_player(name, 4)
            sent[name] = tags
            publishers.append(publisher)
            if way == "rtmp":
                for tag in tags:
                    publisher.send(tag.type, (b"\2\0\r@setDataFrame" if tag.type == 18 else b"") + tag.payload,
                                   timestamp=tag.timestamp)
            else:
                publisher.send(data if way == "http" else data[len(flv.header()):])
        self.assertEqual({stream["worker"] for stream in daemon.api()["streams"]}, set(range(workers)))
        for name in names:
            for player in players[name]:
                player.wait_frame(sent[name][-1])
                frames = [tag for tag in player.tags if tag.is_frame]
                harness.check_same(frames, [tag for tag in sent[name] if tag.is_frame])
        for publisher, way in zip(publishers, ways):
            finished = publisher.finish()
            self.assertEqual(finished, 200 if way == "http" else None)
        for player in sum(players.values(), []):
            player.close()
        daemon.check_log(len(names), "publisher ended")
        for line in daemon.log("publisher ended"):
            self.assertIn(line.fields["reason"], ("finished", "end of stream", "end of body", "closed by publisher"), line)
        self.assertEqual(daemon.complaints(), [])
        self.stack.close()

    def test_one_worker(self):
        self.relay(1)

    def test_two_workers(self):
        self.relay(2)

    def test_small_records(self):
        self.relay(2, record=100)

    def test_tls_1_2(self):
        self.relay(2, of=tls.context(ssl.TLSVersion.TLSv1_2))

    def test_websocket_and_rtsp(self):
        """A stream by RTSP, and one by HTTP, to players by WebSocket and RTSP that arrive at either worker."""
        self.may_copy = True  # The frames are small.
        daemon = self.start()
        for i, way in enumerate(("rtsp", "http", "rtsp", "http")):
            name = "live/w%d" % i
            with relay.Source(daemon, name, way, 0) as source, contextlib.ExitStack() as stack:
                source.send(5)
                daemon.wait_stream(name)
                viewers = []
                for _ in range(2):
                    # Python's ssl takes one thread at a time, and this client has two: it is given a connection.
                    viewers.append(stack.enter_context(websockets.sync.client.connect(
                        "ws://localhost/%s.flv" % name, sock=daemon.connect(), max_size=None)))
                listeners = [stack.enter_context(relay.RtspPlayer(daemon, name)) for _ in range(2)]
                daemon.wait_player(name, 4)
                source.send(200)
                for listener in listeners:
                    listener.wait_number(source.number - 1)
                    listener.check_rising(self)
                for viewer in viewers:
                    parser, numbers = flv.Parser(), []
                    while not numbers or numbers[-1] < source.number - 1:
                        numbers += [relay.number_of(tag) for tag in parser.feed(viewer.recv()) if tag.is_frame and tag.type == 8]
                    self.assertEqual(numbers, list(range(numbers[0], source.number)))
        self.stack.close()

    def test_websocket_identity(self):
        """What comes by wss is what was published, byte by byte: all frames have the same hash, whatever their and the records' size."""
        self.may_copy = True  # Records may end within the head of a tag.
        daemon = self.start()
        ways = itertools.product((300, 40000), (16384, 1000), (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2))
        for i, (size, record, version) in enumerate(ways):
            with self.subTest(size=size, record=record, version=version), contextlib.ExitStack() as stack:
                name, of = "live/h%d" % i, tls.context(version)
                _, tags = flv.stream(120, size=size, gop=200)
                tags = [tag for tag in tags if not tag.is_frame] + \
                    [flv.Tag(tag.type, tag.timestamp, tag.payload[:9] + random.Random(tag.timestamp).randbytes(len(tag.payload) - 9))
                     for tag in tags if tag.is_frame]
                daemon.client = {"of": of, "record": record}
                publisher = stack.enter_context(Publisher(daemon, name, "http"))
                publisher.send(flv.header() + b"".join(tag.pack() for tag in tags[:10]))
                daemon.wait_stream(name)
                # They arrive at either worker, and get the group from its beginning.
                viewers = [stack.enter_context(websockets.sync.client.connect(
                    "ws://localhost/%s.flv" % name, sock=daemon.connect(), max_size=None)) for _ in range(4)]
                daemon.wait_player(name, len(viewers))
                publisher.send(b"".join(tag.pack() for tag in tags[10:]))
                sent = [tag for tag in tags if tag.is_frame]
                for viewer in viewers:
                    parser, frames = flv.Parser(), []
                    while len(frames) < len(sent):
                        frames += [tag for tag in parser.feed(viewer.recv(harness.PATIENCE)) if tag.is_frame]
                    self.assertEqual(hash_of(frames), hash_of(sent))
                self.assertEqual(publisher.finish(), 200)
        daemon.client = {}
        self.stack.close()


class HttpTest(TlsCase):
    @contextlib.contextmanager
    def steady_streams(self, daemon):
        """Streams of both workers; their paths."""
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(harness.Steady(daemon, pause=0.02))]
            while len({stream["worker"] for stream in daemon.api()["streams"]}) < 2:
                streams.append(stack.enter_context(harness.Steady(daemon, pause=0.02)))
            yield [b"%s.flv" % stream.name.encode() for stream in (streams[0], streams[-1])]

    def test_keep_alive(self):
        """Requests one after the other on a connection, whose last is for a stream of another worker."""
        daemon = self.start("--log-rate", "0")
        with self.steady_streams(daemon) as names:
            for name in names:
                for _ in range(4):
                    peer = self.connect(daemon)
                    for _ in range(10):
                        peer.sendall(OPTIONS)
                        self.assertEqual(responses(peer, 1), [(204, b"")])
                    peer.sendall(GET % name)
                    self.assertEqual(harness.read_head(peer)[0], 200)
                    self.assertGreater(len(peer.recv(65536)), 0)
                    peer.close()
        self.stack.close()

    def test_pipelined(self):
        """Requests in one record, and in a record of a byte each; the last moves the connection while answers are sent."""
        daemon = self.start("--log-rate", "0")
        with self.steady_streams(daemon) as names:
            for record in (16384, 1):
                for name in names:
                    for _ in range(4):
                        peer = self.connect(daemon, record=record)
                        peer.sendall(OPTIONS * 5 + GET % name)
                        data = b""
                        while data.count(b"HTTP/1.1 204") < 5 or b"FLV\1" not in data:
                            more = peer.recv(65536)
                            self.assertTrue(more, data)
                            data += more
                        peer.close()
        self.stack.close()

    def test_publish(self):
        """By POST and PUT, chunked and with a length, with and without an invitation to go on."""
        daemon = self.start()
        data, tags = flv.stream(200)
        for i, (method, length, expects) in enumerate((m, l, e) for m in ("POST", "PUT") for l in (True, False)
                                                      for e in (True, False)):
            name = "live/p%d" % i
            with self.subTest(method=method, length=length, expects=expects), Player(daemon, name) as player:
                daemon.wait_player(name)
                lines = ["Content-Length: %d" % len(data) if length else "Transfer-Encoding: chunked"]
                lines += ["Expect: 100-continue"] if expects else []
                peer = self.connect(daemon)
                peer.sendall(head(method, name, *lines))
                if expects:
                    self.assertEqual(peer.recv(65536), b"HTTP/1.1 100 Continue\r\n\r\n")
                peer.sendall(data if length else b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
                self.assertEqual(harness.read_head(peer)[0], 200)
                player.wait_frame(tags[-1])
                harness.check_same(player.tags, tags)
                peer.close()
        self.stack.close()

    def test_half_close(self):
        """close_notify from the client, and the end of its socket behind that: the answers still come, and end regularly."""
        daemon = self.start("--log-rate", "0")
        data, _ = flv.stream(50)
        publish = head("PUT", "live/%s", "Content-Length: %d" % len(data)) + data
        for request, count, end in ((GET % b"nothing", 1, b"not found"), (GET % b"nothing" * 20, 1, b"not found"),
                                    (publish.replace(b"%s", b"one", 1), 1, b"200"),
                                    (publish.replace(b"%s", b"two", 1), 1, b"200")):
            for ends in (False, True):
                for stands in (False, True):
                    with self.subTest(request[:20], ends=ends, stands=stands):
                        peer = self.connect(daemon, hold=True)
                        with daemon.standing_still() if stands else contextlib.nullcontext():
                            peer.tls.write(request)
                            peer.notify()
                            if ends:
                                peer.socket.shutdown(socket.SHUT_WR)
                        answer = read_regular_end(peer)
                        self.assertEqual(answer.count(b"HTTP/1.1 "), count, answer)
                        self.assertIn(end, answer)
                        peer.close()
        self.stack.close()

    def test_the_last_bytes_wait_for_a_slow_client(self):
        """What is encrypted last waits for room in the socket for longer than a client has to close; whether it has ended or not."""
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start("--record", "live/*=" + folder)
            data, _ = flv.stream(120, size=10000)
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(data)
                self.assertEqual(publisher.finish(), 200)

            def listed():
                with daemon.connect() as peer:
                    peer.sendall(GET % b"recordings/live/a")
                    (status, body), = responses(peer, 1)
                # Until the first one is there, its folder is not.
                return json.loads(body)["recordings"] if status == 200 else None
            recording, = harness.wait_until(listed, "the recording")
            # What the kernel takes is not known: the clients read up to different places, wait, and go on.
            clients = []
            for place in range(0, recording["bytes"] - 100000, 8000):
                peer = self.connect(daemon, receive_buffer=4096)
                peer.sendall(b"GET %s HTTP/1.%d\r\nHost: test\r\n\r\n" % (recording["path"].encode(), len(clients) % 2))
                if len(clients) // 2 % 2:
                    peer.notify()
                status, _, body = harness.read_head(peer)
                self.assertEqual(status, 200)
                while len(body) < place:
                    body += peer.recv(65536)
                clients.append((peer, body))
            time.sleep(3.5)
            for peer, body in clients:
                while len(body) < recording["bytes"]:
                    more = peer.recv(65536)
                    self.assertTrue(more, "%d bytes of %d" % (len(body), recording["bytes"]))
                    body += more
                self.assertEqual(len(body), recording["bytes"])
            self.stack.close()


class CutTest(TlsCase):
    """Input one byte at a time, and records as large as there are."""

    def publish(self, daemon, data, tags, name, protocol, **client):
        with Player(daemon, name) if protocol == "http" else contextlib.nullcontext() as player:
            daemon.client = client
            with Publisher(daemon, name if protocol == "http" else None, protocol) as publisher:
                daemon.client = {}
                if protocol == "flv":
                    publisher.send(data[:13])
                    daemon.wait_stream(publisher.name, lambda stream: True)
                    player = self.stack.enter_context(Player(daemon, publisher.name))
                daemon.wait_player(publisher.name)
                publisher.send(data[13 if protocol == "flv" else 0:])
                player.wait_frame(tags[-1])
                self.assertEqual(publisher.finish(), 200 if protocol == "http" else None)
            harness.check_same(player.tags, tags)

    def test_cut(self):
        daemon = self.start()
        small, large = flv.stream(10, size=1000), flv.stream(40, size=200000)
        cuts = (({"record": 1}, small), ({"segment": 1}, small), ({"record": 1, "segment": 1}, small), ({}, large),
                ({"segment": 1399}, large))

        def copied():
            return daemon.api()["pool"]["payload_bytes_copied"]

        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            of = tls.context(version)
            for i, protocol in enumerate(("http", "flv", "http")):
                for j, (cut, source) in enumerate(cuts):
                    with self.subTest(version=version, protocol=protocol, cut=cut):
                        before = copied()
                        self.publish(daemon, *source, "live/%d-%d%d" % (version, i, j), protocol, of=of, **cut)
                        # Where many blocks with a few bytes each wait, those are put together: the last resort.
                        if 1 not in cut.values():
                            self.assertEqual(copied() - before, 0, "payload bytes were copied")
        self.may_copy = True  # Each publisher has been judged.
        self.stack.close()

    def test_everything_byte_by_byte(self):
        """The steps of RTMP and RTSP, too, with their handshakes of TLS."""
        daemon = self.start()
        for client in ({"record": 1}, {"segment": 1}):
            daemon.client = client
            with relay.Source(daemon, "live/rtsp", "rtsp", 0) as source:
                source.send(20)
                daemon.wait_stream("live/rtsp", lambda stream: stream["frames"]["audio"] >= 19, "its frames")
            with rtmp.Client(daemon) as publisher:
                self.assertEqual(publisher.begin("publish", "rtmp")["code"], "NetStream.Publish.Start")
                _, tags = flv.stream(10)
                for tag in tags:
                    publisher.send(tag.type, tag.payload, timestamp=tag.timestamp)
                daemon.wait_stream("live/rtmp", lambda stream: stream["frames"]["video"] >= 5, "its frames")
                publisher.finish()
        # The source by RTSP closes with reports unread, which resets its connection.
        self.assertEqual([line for line in daemon.complaints() if line.fields.get("reason") != "connection lost"], [])
        self.stack.close()


class EndTest(TlsCase):
    """What ends a stream, and what cuts it."""

    def test_publishers(self):
        daemon = self.start()
        data, tags = flv.stream(30)

        def publish(protocol, end, **client):
            daemon.client = client
            publisher = self.stack.enter_context(Publisher(daemon, "live/a" if protocol == "http" else None, protocol))
            publisher.send(data)
            daemon.wait_stream(publisher.name, lambda stream: stream["frames"]["audio"] == 15, "all frames")
            count = len(daemon.log("publisher ended"))
            end(publisher.peer)
            line = daemon.wait_log("publisher ended", count + 1)
            self.assertEqual(line.fields["stream"], publisher.name)
            return line.fields["reason"], line.level

        def cut(peer):
            peer.socket.shutdown(socket.SHUT_WR)

        def finish(peer):
            peer.shutdown(socket.SHUT_WR)

        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            of = tls.context(version)
            regular, level = publish("flv", finish, of=of)
            self.assertEqual(level, "info")
            self.assertEqual(publish("flv", tls.Peer.notify, of=of)[0], regular)
            for end in (cut, tls.Peer.reset):
                reason, level = publish("flv", end, of=of)
                self.assertEqual((reason, level), ("connection lost", "warning"))
                self.assertEqual(publish("http", end, of=of), ("connection lost", "warning"))
        # In the middle of a body, which has an end of its own.
        self.assertNotEqual(publish("http", finish)[0], regular)
        self.stack.close()

    def test_a_cut_tag(self):
        """A regular end within a tag is none."""
        daemon = self.start()
        data, _ = flv.stream(30)
        with Publisher(daemon) as publisher:
            publisher.send(data[:-3])
            publisher.peer.shutdown(socket.SHUT_WR)
            self.assertNotIn("finish", daemon.wait_log("publisher ended").fields["reason"])
        self.stack.close()

    def test_forged(self):
        """A record that was changed on its way ends the connection, with an alert; and what came before it counts."""
        daemon = self.start()
        data, tags = flv.stream(30)
        with Player(daemon, "live/a") as player, Publisher(daemon, "live/a", "http") as publisher:
            daemon.wait_player("live/a")
            publisher.send(data)
            player.wait_frame(tags[-1])
            record = bytearray(publisher.peer.encrypt(b"5\r\n12345\r\n"))
            record[-1] ^= 1
            publisher.peer.socket.sendall(record)
            with self.assertRaisesRegex(ssl.SSLError, "(?i)bad record mac"):
                while publisher.peer.recv(65536):
                    pass
        line = daemon.wait_log("publisher ended")
        self.assertEqual((line.level, line.fields["reason"]), ("warning", "decryption failed or bad record mac"))
        self.stack.close()

    def test_players_are_notified(self):
        """A stream's end, and the server's, is a regular end for players by HTTP and RTMP."""
        daemon = self.start("--wait", "0")
        data, tags = flv.stream(30)
        for _ in range(2):
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(data)
                daemon.wait_stream("live/a")
                peers = []
                for _ in range(2):
                    for version in (b"1.0", b"1.1"):
                        peer = self.connect(daemon)
                        peer.sendall(b"GET /live/a.flv HTTP/%s\r\nHost: test\r\n\r\n" % version)
                        peers.append(peer)
                daemon.wait_player("live/a", 4)
                publisher.finish()
            for peer in peers:
                self.assertIn(tags[-1].payload, read_regular_end(peer))
        with Publisher(daemon, "live/b", "http") as publisher:
            publisher.send(data)
            daemon.wait_stream("live/b")
            peer = self.connect(daemon)
            peer.sendall(b"GET /live/b.flv HTTP/1.1\r\nHost: test\r\n\r\n")
            self.assertEqual(harness.read_head(peer)[0], 200)
            self.ends = True
            daemon.process.send_signal(signal.SIGTERM)
            answer = read_regular_end(peer)
            self.assertTrue(answer.endswith(b"0\r\n\r\n"), (len(answer), answer[-200:]))
            self.assertEqual(harness.read_head(publisher.peer)[0], 503)


    def test_kicked(self):
        """Whatever the server closes gets close_notify: players and publishers that are kicked."""
        daemon = self.start()
        data, tags = flv.stream(30)
        with Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(data)
            daemon.wait_stream("live/a", lambda stream: stream["frames"]["audio"] == 15, "all frames")
            peers = [self.connect(daemon) for _ in range(2)]
            for peer, version in zip(peers, (b"1.0", b"1.1")):
                peer.sendall(b"GET /live/a.flv HTTP/%s\r\nHost: test\r\n\r\n" % version)
            by_rtmp = rtmp.Player(daemon, "live/a")
            daemon.wait_player("live/a", 3)
            by_rtmp.wait_frame(tags[-1])
            for one in daemon.api()["players"]:
                self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one["id"])[0], 204)
            for peer in peers:
                self.assertIn(tags[-1].payload, read_regular_end(peer))
            harness.wait_until(lambda: by_rtmp.error, "its end")
            self.assertIsInstance(by_rtmp.error, rtmp.Ended)
            by_rtmp.close()
        publisher = self.stack.enter_context(Publisher(daemon, None, "flv"))
        publisher.send(data)
        daemon.wait_stream(publisher.name, lambda stream: stream["frames"]["audio"] == 15, "all frames")
        one = daemon.stream(publisher.name)["publisher"]["id"]
        self.assertEqual(daemon.admin("DELETE", "/api/v1/publishers/%d" % one)[0], 204)
        self.assertEqual(read_regular_end(publisher.peer), b"")
        self.stack.close()


class SlowTest(TlsCase):
    STALLED = 60

    def test_players_that_take_nothing(self):
        """They cost so much memory each and no more, and end as without TLS; a player that reads is not disturbed."""
        daemon = self.start("--memory", "64M", "--stall", "3", "--player-buffer", "2M", "--gop-size", "2M")
        with harness.Steady(daemon, size=16000, pause=0.002) as steady:
            before = harness.resident_kib(daemon.process.pid)
            peers = []
            for i in range(self.STALLED):
                protocol = ("http", "rtmp")[i % 2]
                if protocol == "http":
                    peer = self.connect(daemon, receive_buffer=4096)
                    peer.sendall(GET % b"%s.flv" % steady.name.encode())
                else:
                    client = self.stack.enter_context(rtmp.Client(daemon, receive_buffer=4096))
                    self.assertEqual(client.begin("play", steady.name[5:])["code"], "NetStream.Play.Start")
                    peer = client.peer
                peers.append(peer)
            harness.wait_until(lambda: len(daemon.log("player ended", reason="send timeout")) == self.STALLED,
                               lambda: "stalled players to end: %d" % len(daemon.log("player ended")))
            state = daemon.api()
            self.assertEqual(len(state["players"]), 1)
            if not harness.SANITIZED:
                # Of each, OpenSSL's memory and what is encrypted at a time; blocks of streams have a budget anyway.
                self.assertLess(harness.resident_kib(daemon.process.pid) - before, 66 * 1024 + self.STALLED * 100)
            steady.go_on(40)
        self.stack.close()

    def test_encrypted_bytes_count_to_the_buffer(self):
        """What waits encrypted for a player that takes nothing, and its queue, are together no more than --player-buffer."""
        buffer, overhead = 128 << 10, 2 << 10  # Of the records.
        daemon = self.start("--stall", "60", "--player-buffer", "128K", "--gop-size", "64K", "--frame-limit", "64K", workers=1)
        with harness.Steady(daemon, size=4000, pause=0.002) as steady:
            peer = self.connect(daemon, receive_buffer=4096)
            peer.sendall(GET % b"%s.flv" % steady.name.encode())

            def look():
                player = next((one for one in daemon.api()["players"] if one["frames_dropped"] > 20), None)
                if player:
                    self.assertLessEqual(player["queued_bytes"] + player["encrypted_bytes"], buffer + overhead)
                return player and player["drops"]["queue_full"] > 0 and player["encrypted_bytes"] > 0
            for _ in range(10):
                harness.wait_until(look, lambda: "a player that is full: %s" % daemon.api()["players"])
                steady.go_on(5)
        self.stack.close()

    def test_congested_players_keep_their_memory(self):
        """What is encrypted and waits for a player's network is not charged to the quota of requests: nobody is evicted for it."""
        daemon = self.start("--memory", "16M", "--stall", "60", "--player-buffer", "1M", "--gop-size", "1M", workers=1)
        with harness.Steady(daemon, size=16000, pause=0.002) as steady:
            clients = []
            for _ in range(95):
                clients.append(self.stack.enter_context(rtmp.Client(daemon, receive_buffer=4096)))
                self.assertEqual(clients[-1].begin("play", steady.name[5:])["code"], "NetStream.Play.Start")
            harness.wait_until(lambda: sum(player["frames_dropped"] > 0 for player in daemon.api()["players"]) >= 95,
                               "congested players")
            for _ in range(2):
                for client in clients:
                    client.send(3, struct.pack(">I", 1000), stream=0, channel=2)  # An acknowledgement.
                steady.go_on(10)
            self.assertEqual(len(daemon.api()["players"]), 96)
            self.assertEqual(daemon.refused("memory"), 0)
        self.stack.close()

    def test_clients_that_take_no_answers(self):
        """Requests without end, whose answers nobody takes: as without TLS, in time and memory."""
        daemon = self.start("--memory", "64M", "--log-rate", "0")
        peer = self.connect(daemon, receive_buffer=4096)
        peer.socket.settimeout(0.2)
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 << 20:
                peer.sendall(GET % b"nothing" * 1000)
                sent += 1
        self.assertLess(daemon.api()["pool"]["bytes_held"], 8 << 20)
        harness.wait_until(lambda: daemon.connections() == 0, "the connection's end")
        self.stack.close()


class LossTest(TlsCase):
    """Peers that vanish."""

    def test_at_any_point(self):
        """Reset behind each byte, nearly, of the handshake, of the first request, and of a publisher's and a player's bytes."""
        daemon = self.start("--log-rate", "0")
        data, _ = flv.stream(20)
        with harness.Steady(daemon) as steady:
            chance = random.Random(5)
            for i in range(150):
                protocol, name = chance.choice(("http", "flv", "rtmp", "rtsp")), "live/x%d" % (i % 5)
                limit = chance.choice((chance.randrange(1, 700), chance.randrange(1, 6000), 1 << 30))
                self.vanish(daemon, protocol, (name, steady.name.encode()), data, limit, chance)
            steady.go_on(40)
        self.assertEqual(daemon.log(levels=("error",)), [])
        # A peer that has gone is no lack of memory.
        self.assertEqual([line for line in daemon.complaints() if "memory" in line.fields.get("reason", "")], [])
        self.stack.close()

    def vanish(self, daemon, protocol, names, data, limit, chance):
        plain = daemon.connect_plain(protocol, receive_buffer=4096)
        real, left = plain.sendall, [limit]

        class Limited:
            """The socket, until so many bytes have been sent."""

            def sendall(self, part):
                real(part[:left[0]])
                left[0] -= len(part)
                if left[0] <= 0:
                    raise ConnectionAbortedError()

            def __getattr__(self, attribute):
                return getattr(plain, attribute)

        with contextlib.suppress(OSError):
            peer = tls.Peer(Limited(), of=tls.context())
            if protocol == "http" and chance.random() < 0.5:
                peer.sendall(head("PUT", names[0], "Content-Length: %d" % (len(data) + 5)) + data)
            elif protocol == "http":
                peer.sendall(GET % b"%s.flv" % names[1] + b"GET /")
                peer.recv(100)
            elif protocol == "flv":
                peer.sendall(data)
            elif protocol == "rtmp":
                peer.sendall(b"\3" + bytes(1536) + b"\3" * 300)
            else:
                peer.sendall(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\nDESCRIBE rtsp://h/%s RTSP/1.0\r\nCSeq: 2\r\n\r\n" % names[1])
        if chance.random() < 0.7:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        plain.close()

    def test_killed_programs(self):
        """kill -9 of openssl and ffmpeg."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("ffmpeg is not installed")
        daemon = self.start()
        media = harness.make_media(ffmpeg, "%s -t 20 %s" % (harness.VIDEO, harness.H264))
        with harness.Steady(daemon) as steady:
            for i in range(6):
                commands = [["openssl", "s_client", "-quiet", "-connect", "%s:%d" % daemon.address()],
                            [ffmpeg, "-v", "quiet", "-re", "-i", media, "-c", "copy", "-f", "flv", "-method", "PUT", daemon.url("live/k")],
                            [ffmpeg, "-v", "quiet", "-i", daemon.url(steady.name), "-f", "null", "-"]]
                processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                             for command in commands]
                processes[0].stdin.write(GET % b"%s.flv" % steady.name.encode())
                processes[0].stdin.flush()
                time.sleep(0.05 * i)
                for process in processes:
                    process.kill()
                    process.wait()
                    process.stdin.close()
            steady.go_on(40)
        self.stack.close()


PLAINTEXT = {"http": b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n", "rtsp": b"OPTIONS rtsp://h/live/a RTSP/1.0\r\nCSeq: 1\r\n\r\n",
             "rtmp": b"\3" + bytes(1536), "flv": b"FLV\1\5\0\0\0\x09\0\0\0\0"}


class RefusalTest(TlsCase):
    def test_plaintext(self):
        """On a port with TLS: answered in plaintext where the protocol has words, logged and counted."""
        self.may_copy = True
        daemon = self.start()
        count = 0
        for protocol, request in PLAINTEXT.items():
            for piece in (len(request), 1):
                with self.subTest(protocol, piece=piece):
                    peer = self.plain(daemon, protocol)
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with contextlib.suppress(ConnectionError):
                        for at in range(0, min(len(request), 60 if piece == 1 else len(request)), piece):
                            peer.sendall(request[at:at + piece])
                            time.sleep(0.002 if piece == 1 else 0)
                    answer = harness.read_to_end(peer)
                    count += 1
                    daemon.wait_refused("tls_plaintext", count)
                    daemon.wait_log("request refused", count, reason="this port requires TLS")
                    if piece == 1:
                        continue
                    if protocol in ("http", "rtsp"):
                        self.assertTrue(answer.startswith(b"HTTP/1.1 400 " if protocol == "http" else b"RTSP/1.0 400 "), answer)
                    if protocol == "http":
                        self.assertIn(b"this port requires TLS", answer)
        self.assertEqual(daemon.refused("tls_handshake_failed"), 0)
        self.stack.close()

    def test_tls_on_a_port_without(self):
        """As an answer of the protocol, with which the client says that this is no TLS; or an alert."""
        daemon = self.start(listen=("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0"))
        for count, protocol in zip((1, 3, 5, 7), ("http", "rtsp", "rtmp", "flv")):
            with self.subTest(protocol):
                with self.assertRaises((ssl.SSLError, tls.Truncated)) as caught:
                    self.connect(daemon, protocol)
                if protocol == "http":
                    self.assertRegex(str(caught.exception), "(?i)http.request|wrong.version")
                daemon.wait_refused("tls_hello", count)
                daemon.wait_log("request refused", count // 2 + 1, reason="TLS on a port without it")
                # By hand, to see the answer.
                peer = self.plain(daemon, protocol)
                peer.sendall(HELLO)
                answer = harness.read_to_end(peer)
                if protocol in ("http", "rtsp"):
                    self.assertIn(b" 400 ", answer.split(b"\r\n")[0])
                else:
                    self.assertEqual(answer, bytes((21, 3, 1, 0, 2, 2, 10)))
                peer.close()
        self.stack.close()

    def test_tls_on_an_administration_without(self):
        """As at the listeners for streams; the hello may come in pieces. Later bytes of a connection are no hello."""
        self.may_copy = True
        daemon = self.start()
        for count, at in enumerate((0, 1, 5, 100), 1):
            with self.subTest(at=at), self.plain(daemon, "admin") as peer:
                for part in (HELLO[:at], HELLO[at:]):
                    peer.sendall(part)
                    if at:  # So that the two arrive by themselves, as a rule.
                        time.sleep(0.1)
                answer = harness.read_to_end(peer)
                self.assertEqual(harness.status_of(answer), 400)
                self.assertIn(b"TLS on a port without it", answer)
                daemon.wait_refused("tls_hello", count)
                daemon.wait_log("request refused", count, proto="admin", status="400", reason="TLS on a port without it")
        # A client, which says why.
        with self.assertRaisesRegex(ssl.SSLError, "(?i)http.request|wrong.version"):
            tls.Peer(self.plain(daemon, "admin"))
        daemon.wait_refused("tls_hello", 5)
        with self.plain(daemon, "admin") as peer:
            peer.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(responses(peer, 1)[0][0], 404)
            peer.sendall(HELLO)
            self.assertIn(b"malformed", harness.read_to_end(peer))
        self.assertEqual(daemon.refused("tls_hello"), 5)
        self.stack.close()

    def test_failed_handshakes(self):
        """Garbage behind a hello, at once and later; old versions; and a health check, which is no failure."""
        daemon = self.start("--log-rate", "0")
        count = 0
        hello = tls.client_hello()
        for behind in (b"\x16\3\3\0\x20" + bytes(32), b"\x17\3\3\0\x20" + bytes(32), os.urandom(300), b"\x15\3\3\0\2\2\x28",
                       b"\x15\3\3\0\2\1\0", b"GET / HTTP/1.1\r\n\r\n"):
            for waits in (False, True):
                with self.subTest(behind[:6], waits=waits):
                    peer = self.plain(daemon)
                    peer.sendall(hello if waits else hello + behind)
                    if waits:
                        self.assertEqual(peer.recv(1), b"\x16")
                        peer.sendall(behind)
                    answer = harness.read_to_end(peer)
                    peer.close()
                    count += 1
                    daemon.wait_refused("tls_handshake_failed", count)
        # What is cut, and what only connects.
        for part in (b"", hello[:3], hello[:-1], hello):
            peer = self.plain(daemon)
            peer.sendall(part)
            peer.shutdown(socket.SHUT_WR)
            harness.read_to_end(peer)
            peer.close()
        self.assertEqual(daemon.refused("tls_handshake_failed"), count)
        self.assertEqual(daemon.refused("tls_plaintext"), 0)
        self.stack.close()

    def test_a_long_hello(self):
        """Without certificates of clients, 16 KiB are enough for a handshake: what is longer ends before all of it has come."""
        daemon = self.start("--log-rate", "0")
        for size in (16384, 16385):
            with self.subTest(size):
                peer = self.plain(daemon)
                hello = b"\1\1\0\0" + bytes(size - 4 - 4 * 5)
                peer.sendall(b"".join(b"\x16\3\1" + struct.pack(">H", len(part)) + part
                                      for part in (hello[:5000], hello[5000:10000], hello[10000:15000], hello[15000:])))
                if size > 16384:
                    # decode_error, in plaintext, since no keys have been agreed on.
                    self.assertEqual(harness.read_to_end(peer), bytes((21, 3, 3, 0, 2, 2, 50)))
                    daemon.wait_log("request refused", reason="the handshake is too large")
                else:
                    peer.shutdown(socket.SHUT_WR)
                    harness.read_to_end(peer)
                    self.assertEqual(daemon.refused("tls_handshake_failed"), 0)
                peer.close()
        self.assertEqual(daemon.refused("tls_handshake_failed"), 1)
        # In one record, which may not be as long (RFC 8446, 5.1).
        peer = self.plain(daemon)
        peer.sendall(b"\x16\3\1" + struct.pack(">H", 16385) + b"\1\0\x3f\xfd" + bytes(16381))
        self.assertEqual(harness.read_to_end(peer), bytes((21, 3, 3, 0, 2, 2, 22)))  # record_overflow
        daemon.wait_refused("tls_handshake_failed", 2)
        self.stack.close()

    def test_deadline(self):
        """A handshake has 10 s, whatever of it has come, and however slowly it goes on."""
        daemon = self.start()
        hello = tls.client_hello()
        begun = time.monotonic()
        silent = [self.plain(daemon) for _ in range(3)]
        for peer, part in zip(silent, (b"", hello[:40], hello)):
            peer.sendall(part)
        dribbling = self.plain(daemon)

        def dribble():
            for at in range(len(hello)):
                dribbling.sendall(hello[at:at + 1])
                time.sleep(0.5)
        harness.in_thread(self, dribble)
        for peer in silent:
            harness.read_to_end(peer)
            self.assertGreater(time.monotonic() - begun, 9)
        harness.read_to_end(dribbling)
        dribbling.close()
        daemon.wait_refused("tls_handshake_failed", 4)
        daemon.wait_log("request refused", 4, reason="handshake timeout")
        self.stack.close()

    def test_administration(self):
        """What fails at its listeners is counted, and logged, as at those for streams: by cause."""
        self.may_copy = True
        daemon = self.start("--admin", "127.0.0.1:0", "--admin", "127.0.0.1:0,tls")
        lines = daemon.log("listening", proto="admin")
        self.assertEqual([line.fields.get("tls") for line in lines], [None, "yes"])
        place = lines[1].fields["address"]
        address = ("127.0.0.1", int(place.rpartition(":")[2]))
        # Of OpenSSL: a version, and a cipher, that the daemon does not speak.
        for count, (words, reason) in enumerate(((("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"), "unsupported protocol"),
                                                 (("-tls1_2", "-cipher", "AES128-SHA"), "no shared cipher")), 1):
            done = subprocess.run(["openssl", "s_client", "-connect", place, *words], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=harness.PATIENCE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"alert", done.stderr)
            daemon.wait_refused("tls_handshake_failed", count)
            daemon.wait_log("request refused", proto="admin", status="400", reason=reason)
        for count, request in enumerate((b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"\0" * 20), 1):
            with socket.create_connection(address, harness.PATIENCE) as peer:
                peer.sendall(request)
                answer = harness.read_to_end(peer)
            self.assertEqual(answer[:13], b"HTTP/1.1 400 " if count == 1 else b"")
            daemon.wait_refused("tls_plaintext", count)
            daemon.wait_log("request refused", count, proto="admin", reason="this port requires TLS")
        # What only connects, and what goes within a handshake, is no failure; and neither is what comes behind one.
        for part in (b"", tls.client_hello()[:40], tls.client_hello()):
            with socket.create_connection(address, harness.PATIENCE) as peer:
                peer.sendall(part)
                peer.shutdown(socket.SHUT_WR)
                harness.read_to_end(peer)
        with tls.Peer(socket.create_connection(address, harness.PATIENCE)) as peer:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(peer.recv(13), b"HTTP/1.1 200 ")
            peer.socket.sendall(b"\x17\3\3\0\x20" + bytes(32))
            with contextlib.suppress(OSError, ssl.SSLError):
                while peer.recv(65536):
                    pass
        self.assertEqual((daemon.refused("tls_handshake_failed"), daemon.refused("tls_plaintext")), (2, 2))
        # close_notify within a handshake is one, also with the connection's end right behind it.
        for count, (waits, ends) in enumerate(((False, False), (False, True), (True, False), (True, True)), 1):
            with self.subTest(waits=waits, ends=ends), socket.create_connection(address, harness.PATIENCE) as peer:
                close_notify = b"\x15\3\3\0\2\1\0"
                peer.sendall(tls.client_hello() + (b"" if waits else close_notify))
                if waits:
                    self.assertEqual(peer.recv(1), b"\x16")
                    peer.sendall(close_notify)
                if ends:
                    peer.shutdown(socket.SHUT_WR)
                harness.read_to_end(peer)
                daemon.wait_refused("tls_handshake_failed", 2 + count)
                daemon.wait_log("request refused", count, proto="admin", reason="the stream has ended in the handshake")
        self.stack.close()

    def test_administration_of_those_who_do_not_read(self):
        """As many as are kept, but one, take no answers: all others are served, and those are ended."""
        daemon = self.start("--admin", "127.0.0.1:0", "--admin", "127.0.0.1:0,tls")
        address = ("127.0.0.1", int(daemon.log("listening", proto="admin")[1].fields["address"].rpartition(":")[2]))
        before = harness.descriptors(daemon.process.pid)
        peers = []
        for _ in range(62):
            plain = self.stack.enter_context(socket.socket())
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(harness.PATIENCE)
            plain.connect(address)
            peers.append(tls.Peer(plain))
            # More than may wait, each of which has an answer of 100 KB.
            peers[-1].sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1500)
        for _ in range(3):
            self.assertEqual(daemon.api("/api/v1/health")["status"], "ok")
        # They were served beside those, and not behind them.
        self.assertGreaterEqual(harness.descriptors(daemon.process.pid), before + len(peers))
        harness.wait_until(lambda: harness.descriptors(daemon.process.pid) <= before, "all to be ended")
        self.stack.close()

    def test_limits(self):
        """Of handshakes at a time, in all and of each address; those that are done do not count."""
        daemon = self.start("--tls-handshakes", "8", "--tls-handshakes-per-address", "5")
        done = []
        for _ in range(10):
            done.append(self.connect(daemon))
            # The daemon is done with a handshake a moment after the client.
            done[-1].sendall(OPTIONS)
            self.assertEqual(responses(done[-1], 1), [(204, b"")])
        under_way = [self.plain(daemon) for _ in range(5)]
        for peer in under_way:
            peer.sendall(tls.client_hello())
            self.assertEqual(peer.recv(1), b"\x16")
        with self.assertRaises(OSError):
            self.connect(daemon)
        daemon.wait_refused("tls_handshakes", 1)
        self.assertEqual(daemon.wait_log("request refused", reason="too many TLS handshakes").fields["status"], "503")
        other = [self.plain(daemon, source="127.0.0.2") for _ in range(3)]
        for peer in other:
            peer.sendall(tls.client_hello())
            self.assertEqual(peer.recv(1), b"\x16")
        with self.assertRaises(OSError):
            self.connect(daemon, source="127.0.0.3")
        daemon.wait_refused("tls_handshakes", 2)
        # Another goes on when one has gone, in whatever way.
        under_way.pop().close()
        harness.wait_until(lambda: daemon.connections() == 17, "it to be gone")
        done.append(self.connect(daemon))
        for peer in done[::5]:
            peer.sendall(GET % b"nothing")
            self.assertEqual(harness.read_head(peer)[0], 404)
        self.stack.close()


class StormTest(TlsCase):
    def test_storm(self):
        """Some thousand handshakes at once, most of which are over their limits: streams beside lose nothing, and clients get in."""
        daemon = self.start("--tls-handshakes", "200", "--tls-handshakes-per-address", "100")
        with harness.Steady(daemon) as steady:
            storm = tls_storm.Storm(daemon.address())
            storm.run(5000, 1)
            self.assertEqual(storm.answered + storm.refused, storm.begun)
            self.assertGreater(storm.answered, 100)
            self.assertEqual(daemon.refused("tls_handshakes"), storm.refused)
            steady.go_on(20)
            peer = self.connect(daemon)
            peer.sendall(OPTIONS)
            self.assertEqual(responses(peer, 1), [(204, b"")])
        self.assertEqual(daemon.log(levels=("error",)), [])
        self.stack.close()


class ProxyTest(TlsCase):
    """TLS behind the PROXY protocol: the header is in plaintext, before the handshake."""

    def test_header_and_handshake(self):
        daemon = self.start("--proxy-from", "127.0.0.1", "--rule", "all live/* from 10.1.2.0/24 allow", "--wait", "0",
                            "--tls-handshakes-per-address", "2")
        data, _ = flv.stream(10)
        for header in (v1(), v2()):
            for joined in (False, True):
                plain = self.plain(daemon)
                if joined:
                    plain = Joined(plain, header)
                else:
                    plain.sendall(header)
                peer = tls.Peer(plain)
                count = len(daemon.log("publisher started"))
                peer.sendall(head("PUT", "live/a", "Content-Length: %d" % len(data)) + data)
                self.assertEqual(harness.read_head(peer)[0], 200)
                daemon.wait_log("publisher started", count + 1, peer="10.1.2.3:4000")
                peer.close()
        plain = self.plain(daemon)
        plain.sendall(v1("10.9.9.9"))
        peer = tls.Peer(plain)
        peer.sendall(GET % b"live/a.flv")
        self.assertEqual(harness.read_head(peer)[0], 403)
        # Without the header, and with plaintext behind it.
        with self.assertRaises((tls.Truncated, ssl.SSLError, ConnectionError)):
            self.connect(daemon)
        daemon.wait_refused("proxy_from", 1)
        plain = self.plain(daemon)
        plain.sendall(v1() + GET % b"live/a.flv")
        self.assertIn(b"this port requires TLS", harness.read_to_end(plain))
        # The limit is of the client's address, not the proxy's.
        for i in range(2):
            plain = self.plain(daemon)
            plain.sendall(v1("10.1.2.7", 4001 + i) + tls.client_hello())
            self.assertEqual(plain.recv(1), b"\x16")
        plain = self.plain(daemon)
        plain.sendall(v1("10.1.2.7", 4009) + tls.client_hello())
        harness.read_to_end(plain)
        daemon.wait_refused("tls_handshakes", 1)
        plain = self.plain(daemon)
        plain.sendall(v1("10.1.2.8", 4009) + tls.client_hello())
        self.assertEqual(plain.recv(1), b"\x16")
        self.stack.close()


class Joined:
    """A socket whose first bytes are sent with what follows."""

    def __init__(self, plain, first):
        self._plain, self._first = plain, first

    def sendall(self, data):
        first, self._first = self._first, b""
        self._plain.sendall(first + data)

    def __getattr__(self, name):
        return getattr(self._plain, name)


class SessionTest(TlsCase):
    def test_resumption(self):
        """By tickets, at any worker; in TLS 1.2 and 1.3."""
        daemon = self.start()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            of, session = tls.context(version), None
            for i in range(6):
                peer = self.connect(daemon, of=of, session=session)
                peer.sendall(GET % b"nothing")
                self.assertEqual(harness.read_head(peer)[0], 404)
                self.assertEqual(peer.tls.session_reused, i > 0)
                session = peer.tls.session
                peer.close()
        self.stack.close()

    def test_key_updates(self):
        """openssl s_client's k and K, in the middle of a stream that it plays; and by a publisher."""
        daemon = self.start()
        with harness.Steady(daemon, size=4000) as steady:
            player = tls.OpensslPlayer(self, daemon, steady.name)
            daemon.wait_player(steady.name, 2)
            for requests in (False, True) * 10:
                player.set_key(requests)
                steady.go_on(4)
                end = steady.sent[-5]
                player.wait_bytes(end.payload, "frame at %d behind a new key" % end.timestamp)
            player.process.kill()
        self.stack.close()

    def test_upgrade(self):
        """Connections with TLS go on in the old process, and end there with notice; the new one takes new ones."""
        with test_upgrade.Upgraded("--workers", "2", "--drain", "30", kind=tls.Daemon, listen=tls.LISTEN) as upgraded:
            daemon, of, chance = upgraded.daemon, tls.context(), random.Random(3)
            data, tags = flv.stream(2000)
            with Publisher(daemon, "live/a", "http") as publisher, Player(daemon, "live/a") as player:
                publisher.send(data[:5000])
                player.wait_tags(5)
                first, idle = (self.enter(daemon.connect(of=of)) for _ in range(2))
                first.sendall(OPTIONS)
                self.assertEqual(responses(first, 1), [(204, b"")])
                under_way = self.enter(daemon.connect_plain())
                under_way.sendall(tls.client_hello()[:chance.randrange(1, 100)])
                upgraded.upgrade()
                publisher.send(data[5000:])
                player.wait_frame(tags[-1])
                harness.check_same(player.tags, tags)
                # Its ticket is of a key that the new process does not have.
                peer = self.enter(daemon.connect(of=of, session=first.tls.session))
                peer.sendall(OPTIONS)
                self.assertEqual(responses(peer, 1), [(204, b"")])
                self.assertFalse(peer.tls.session_reused)
                # One that is idle may still ask.
                idle.sendall(OPTIONS)
                responses(idle, 1)
                self.assertEqual(publisher.finish(), 200)
                player.wait_end()
                self.assertIsNone(player.error)

    def enter(self, peer):
        self.addCleanup(peer.close)
        return peer


HELLO = tls.client_hello()


if __name__ == "__main__":
    harness.main()
