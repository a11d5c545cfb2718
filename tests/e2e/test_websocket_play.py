"""WebSocket-FLV: what an independent WebSocket client gets is what HTTP players get, tag for tag.

The client is the Python package websockets.
"""

import contextlib
import socket
import threading
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady

try:
    from websockets.exceptions import ConnectionClosed, InvalidStatus
    from websockets.sync.client import connect
except ImportError:
    harness.skip_file("the Python package websockets is not installed: tools/install-deps test")

# Frames around the borders of a message's length: 7, 16 and 64 bits of it, with the tag's 15 bytes.
SIZES = [20, 125 - 15, 126 - 15, 127 - 15, 65535 - 15, 65536 - 15, 300000, 21]


class WebSocketPlayer:
    """Reads messages in a thread and takes them apart; each must be a whole tag, the first the header."""

    def __init__(self, daemon, name, at=0, **options):
        host, port = daemon.address("http", at)
        self.client = connect("ws://%s:%d/%s.flv" % (host, port, name), max_size=None, ping_interval=None,
                              compression=None, open_timeout=harness.PATIENCE, close_timeout=harness.PATIENCE,
                              **options)
        self.address = "%s:%d" % self.client.local_address
        self.tags, self.messages, self.code, self.error = [], 0, None, None
        self._parser = flv.Parser()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _run(self):
        try:
            while True:
                message = self.client.recv()
                self.messages += 1
                if isinstance(message, str):
                    raise AssertionError("a text message")
                tags = self._parser.feed(message)
                if self._parser.rest or len(tags) != (0 if self.messages == 1 else 1):
                    raise AssertionError("message %d is not one tag" % self.messages)
                self.tags += tags
        except ConnectionClosed as end:
            self.code = end.rcvd.code if end.rcvd else None
        except (AssertionError, flv.Broken) as error:
            self.error = error

    @property
    def flags(self):
        return self._parser.flags

    def wait_tags(self, count):
        harness.wait_until(lambda: len(self.tags) >= count or self.error, lambda: "%d tags" % count)
        if self.error:
            raise self.error

    def wait_end(self):
        self._thread.join(harness.PATIENCE)
        if self._thread.is_alive():
            raise AssertionError("the player's stream does not end")
        if self.error:
            raise self.error

    def close(self):
        with contextlib.suppress(ConnectionClosed):
            self.client.close()
        self._thread.join(harness.PATIENCE)


class Frames:
    """The frames that a server sends: opcode and payload, none of them fragmented or masked."""

    def __init__(self, peer, data=b""):
        self._peer, self._data = peer, data

    def _take(self, count):
        while len(self._data) < count:
            more = self._peer.recv(65536)
            if not more:
                raise AssertionError("the connection ended")
            self._data += more
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def next(self):
        first, second = self._take(2)
        if not first & 0x80 or second & 0x80:
            raise AssertionError("fragmented or masked: %02x %02x" % (first, second))
        size = {126: 2, 127: 8}.get(second & 0x7f, 0)
        length = int.from_bytes(self._take(size), "big") if size else second & 0x7f
        return first & 0x0f, self._take(length)


def join(daemon, name, **options):
    """A player that waits for its stream: the handshake is answered when there is one."""
    result = []
    def run():
        try:
            result.append(WebSocketPlayer(daemon, name, **options))
        except (InvalidStatus, OSError) as error:
            result.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait():
        thread.join(harness.PATIENCE)
        if not result or not isinstance(result[0], WebSocketPlayer):
            raise AssertionError("not connected: %r" % result)
        return result[0]
    return wait


def stream_of_sizes():
    tags = list(flv.first_tags())
    for turn in range(5):
        for at, size in enumerate(SIZES):
            number = turn * len(SIZES) + at
            tags.append(flv.video_frame(number * 40, at == 0, number, size))
            tags.append(flv.audio_frame(number * 40, number, 50))
    return flv.header() + b"".join(tag.pack() for tag in tags), tags


class WebSocketPlayTest(unittest.TestCase):
    def check_relay(self, *options, listen):
        data, tags = stream_of_sizes()
        with Daemon(*options, listen=listen) as daemon:
            waiting = [join(daemon, "live/a") for _ in range(3)]
            with Player(daemon, "live/a") as reference, Publisher(daemon, "live/a", "http") as publisher:
                daemon.wait_player("live/a", 4)
                publisher.send(data)
                players = [wait() for wait in waiting]
                reference.wait_tags(len(tags))
                harness.check_same(reference.tags, tags)
                for player in players:
                    player.wait_tags(len(tags))
                    harness.check_same(player.tags, reference.tags)
                    self.assertEqual(player.flags, reference.flags)
                shown = [one["protocol"] for one in daemon.api()["players"]]
                self.assertEqual(sorted(shown), ["http", "websocket", "websocket", "websocket"])
                # One that comes late begins where an HTTP player does.
                with WebSocketPlayer(daemon, "live/a") as late, Player(daemon, "live/a") as other:
                    count = daemon.stream("live/a")["gop"]["frames"]
                    other.wait_tags(count)
                    late.wait_tags(count)
                    harness.check_same(late.tags[:count], other.tags[:count])
                for player in players:
                    player.close()
                    self.assertEqual(player.code, 1000)
                self.assertEqual(publisher.finish(), 200)
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_relay(self):
        self.check_relay(listen=("--http", "127.0.0.1:0"))

    def test_merge_window(self):
        self.check_relay(listen=("--http", "127.0.0.1:0,merge-window=50"))

    def test_pings(self):
        """They are answered while tags flow, between tags; a stream goes on behind hundreds of them."""
        with Daemon() as daemon:
            with Steady(daemon, pause=0.001) as steady, WebSocketPlayer(daemon, steady.name) as player:
                for count in range(200):
                    self.assertTrue(player.client.ping(b"%d" % count).wait(harness.PATIENCE))
                player.wait_tags(len(player.tags) + 20)
                player.client.send(b"what players say is not heard")
                player.client.send("neither is text")
                player.wait_tags(len(player.tags) + 20)
            daemon.blocks_settled()

    def test_pings_of_the_server(self):
        """The server sends a ping every half minute, between tags: it keeps proxies from taking a quiet player for dead."""
        upgrade = ("GET /%s.flv HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        with Daemon() as daemon, Steady(daemon, pause=0.02) as steady, daemon.connect() as peer:
            peer.sendall((upgrade % steady.name).encode())
            status, _, rest = harness.read_head(peer)
            self.assertEqual(status, 101)
            frames, pings, parser, tags_behind = Frames(peer, rest), 0, flv.Parser(), 0
            patience = harness.Patience()
            while tags_behind < 200:
                self.assertTrue(pings or patience.left(), "no ping")
                opcode, payload = frames.next()
                if opcode == 9:
                    pings += 1
                    self.assertEqual(payload, b"")
                else:
                    self.assertEqual(opcode, 2)
                    parser.feed(payload)
                    self.assertFalse(parser.rest)
                    tags_behind += pings > 0
            self.assertEqual(pings, 1)
            # Without an answer to it the stream goes on.
            steady.go_on()

    def test_close_codes(self):
        data, tags = flv.stream(40)
        with Daemon("--wait", "0.6") as daemon:
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(data)
                daemon.wait_stream("live/a")
                player = WebSocketPlayer(daemon, "live/a")
                player.wait_tags(len(tags))
                self.assertEqual(publisher.finish(), 200)
            player.wait_end()
            self.assertEqual(player.code, 1000)
            with Steady(daemon) as steady:
                # A message over the limit.
                with WebSocketPlayer(daemon, steady.name) as player:
                    player.client.send(b"x" * 10000)
                    player.wait_end()
                    self.assertEqual(player.code, 1009)
                # A frame that is not masked.
                with WebSocketPlayer(daemon, steady.name) as player:
                    player.client.socket.sendall(b"\x82\x01x")
                    player.wait_end()
                    self.assertEqual(player.code, 1002)
                steady.go_on()
            daemon.blocks_settled()

    def test_ends_once(self):
        """Its message is not whole in time, and in the same moment it has waited for its publisher for too long."""
        # Between two looks at deadlines, the first of which is half a second behind the daemon's start.
        with Daemon("--wait", "10.25", listen=("--http", "127.0.0.1:0")) as daemon, daemon.connect("http") as peer:
            peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                         b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n\x82\xfe")
            answer = harness.read_to_end(peer)
            # Where one of the two was looked at before the other, the answer is 404.
            late = daemon.wait_log("player ended").fields["reason"] == "closed by player"
            self.assertEqual((answer == b"", len(daemon.log("request refused"))), (late, 0 if late else 1))
            daemon.blocks_settled()

    def test_server_stops(self):
        data, tags = flv.stream(40)
        with Daemon() as daemon:
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(data)
                daemon.wait_stream("live/a")
                player = WebSocketPlayer(daemon, "live/a")
                player.wait_tags(len(tags))
                daemon.stop()
                player.wait_end()
                self.assertEqual(player.code, 1001)

    def test_refusals(self):
        upgrade = ("GET /live/a.flv HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: %s\r\n\r\n")
        with Daemon("--wait", "0") as daemon:
            answer = harness.exchange(daemon, (upgrade % "8").encode())
            self.assertEqual(harness.status_of(answer), 426)
            self.assertIn(b"Sec-WebSocket-Version: 13\r\n", answer)
            answer = harness.exchange(daemon, (upgrade % "13").replace("dGhl", "").encode())
            self.assertEqual(harness.status_of(answer), 400)
            with self.assertRaises(InvalidStatus) as refusal:
                WebSocketPlayer(daemon, "live/none")
            self.assertEqual(refusal.exception.response.status_code, 404)
            daemon.blocks_settled()

    def test_slow_player_loses_whole_tags(self):
        """One who does not read for a while finds a key frame where it lost something, and never half a tag."""
        with Daemon("--player-buffer", "256K", "--gop-size", "64K", "--frame-limit", "64K") as daemon:
            with Steady(daemon, pause=0.001) as steady:
                raw = socket.socket()
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                raw.connect(daemon.address())
                address = harness.address_text(raw)
                # The client would read ahead; so at first it is not there, but its question is.
                raw.sendall(b"GET /%s.flv HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
                            % steady.name.encode())
                harness.wait_until(lambda: [one for one in daemon.api()["players"] if one["address"] == address
                                            and one["drops"]["queue_full"]], "drops")
                status, _, data = harness.read_head(raw)
                self.assertEqual(status, 101)
                tags = self.read_messages(raw, data, 600)
                lost = [at for at in range(1, len(tags)) if tags[at].type == flv.VIDEO and tags[at].is_key_frame]
                self.assertTrue(lost)
                sent = set(steady.sent)
                # Headers come again behind a loss, at the time of the key frame.
                self.assertTrue(all(tag in sent for tag in tags if tag.is_frame))
                raw.close()
                steady.go_on()
            daemon.blocks_settled()

    def read_messages(self, peer, data, count):
        """Takes messages apart by hand: unmasked, binary, whole."""
        parser, tags = flv.Parser(), []
        peer.settimeout(harness.PATIENCE)
        while len(tags) < count:
            while len(data) < 10:
                data += peer.recv(65536)
            self.assertEqual(data[0], 0x82)
            size, at = data[1], 2
            if size >= 126:
                at = 4 if size == 126 else 10
                size = int.from_bytes(data[2:at], "big")
            while len(data) < at + size:
                data += peer.recv(65536)
            tags += parser.feed(data[at:at + size])
            self.assertEqual(parser.rest, 0)
            data = data[at + size:]
        return tags


if __name__ == "__main__":
    harness.main()
