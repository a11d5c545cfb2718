"""Players of streams that nobody publishes: how long they wait, what they are told, and that nothing of them stays."""

import contextlib
import socket
import unittest

import flv
import harness
from camera import Camera
from harness import Daemon, Publisher
from rtsp import Client, Ended, Reply

LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
UPGRADE = (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
KINDS = ("http", "http/1.0", "websocket", "rtsp")


class Waiting:
    """A player of some kind that has asked, and reads when it is told to."""

    def __init__(self, daemon, kind, name):
        self.kind = kind
        self.client = Client(daemon, name) if kind == "rtsp" else None
        self.peer = self.client.peer if self.client else daemon.connect()
        if self.client:
            self.client.send("DESCRIBE")
        else:
            version = b"1.0" if kind == "http/1.0" else b"1.1"
            self.peer.sendall(b"GET /%s.flv HTTP/%s\r\nHost: a\r\n%s\r\n" % (
                name.encode(), version, UPGRADE if kind == "websocket" else b""))

    def answer(self):
        """The status, and what came behind the head."""
        if self.client:
            return self.client.reply().status, b""
        status, _, data = harness.read_head(self.peer)
        return status, data

    def play(self):
        """Reads until media come, and gives what has been read."""
        status, data = self.answer()
        if status not in (200, 101):
            raise AssertionError("%s: %d" % (self.kind, status))
        if self.client:
            if self.client.setup(0).status != 200 or self.client.ask("PLAY").status != 200:
                raise AssertionError("not played")
            self.client.next_rtp()
            return b""
        while b"FLV\x01" not in data or len(data) < 1000:
            more = self.peer.recv(65536)
            if not more:
                raise AssertionError("%s: the end" % self.kind)
            data += more
        return data

    def close(self):
        (self.client or self.peer).close()


class WaitTest(unittest.TestCase):
    def daemon(self, *options):
        daemon = Daemon("--workers", "3", *options, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    def several(self, daemon, count=10):
        """So many players of each kind, each two of a kind at the same stream."""
        players = [Waiting(daemon, kind, "live/%d" % (i // 2)) for i in range(count) for kind in KINDS]
        for player in players:
            self.addCleanup(player.close)
        return players

    def all_there(self, daemon, count):
        harness.wait_until(lambda: len(daemon.api()["players"]) == count, "%d players" % count)

    @staticmethod
    def settled(daemon):
        """Nothing is left: no stream, no player, no block."""
        state = daemon.blocks_settled()
        if state["players"] or state["streams"]:
            raise AssertionError(state)
        harness.wait_until(lambda: all(worker["connections"] == 0 for worker in daemon.api()["workers"]),
                           "no connection")

    def test_in_vain(self):
        """Who has waited for so long is told that there is no such stream, by whatever it asked."""
        for wait in ("0", "1"):
            daemon = self.daemon("--wait", wait)
            players = self.several(daemon)
            for player in players:
                self.assertEqual(player.answer()[0], 404, player.kind)
                player.close()
            self.settled(daemon)
            daemon.stop()

    def test_what_they_hold(self):
        """However long they wait, they hold no block: not that of their request either."""
        daemon = self.daemon("--wait", "3600")
        players = self.several(daemon)
        self.all_there(daemon, len(players))
        harness.wait_until(lambda: daemon.api()["pool"]["blocks_held"] == 0, "no block held")

    def test_leaving(self):
        """Who goes before a publisher comes, in whatever way, leaves nothing."""
        daemon = self.daemon("--wait", "3600")
        for way in ("close", "reset", "half"):
            players = self.several(daemon)
            self.all_there(daemon, len(players))
            for player in players:
                if way == "reset":
                    player.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                if way == "half":
                    player.peer.shutdown(socket.SHUT_WR)
                    harness.read_to_end(player.peer)
                player.close()
            self.settled(daemon)

    def test_kicked_and_stopped(self):
        daemon = self.daemon("--wait", "3600")
        players = self.several(daemon)
        self.all_there(daemon, len(players))
        for one in daemon.api()["players"]:
            self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one["id"])[0], 204)
        for player in players:
            harness.read_to_end(player.peer)
        self.settled(daemon)
        players = self.several(daemon)
        self.all_there(daemon, len(players))
        daemon.stop()
        for player in players:
            self.assertEqual(player.answer()[0], 503, player.kind)

    def test_a_publisher_comes(self):
        """All of them play, however long they have waited."""
        daemon = self.daemon("--wait", "3600")
        players = self.several(daemon, 2)
        self.all_there(daemon, len(players))
        with Publisher(daemon, "live/0", "http") as publisher:
            publisher.send(flv.stream(100)[0])
            for player in players:
                player.play()
                player.close()
            publisher.finish()
        self.settled(daemon)

    def test_a_publisher_goes(self):
        """When none comes again, all of them are ended."""
        daemon = self.daemon("--wait", "1")
        with Publisher(daemon, "live/0", "http") as publisher:
            publisher.send(flv.stream(100)[0])
            daemon.wait_stream("live/0")
            players = self.several(daemon, 2)
            played = [player.play() for player in players]
            publisher.finish()
        for player, data in zip(players, played):
            with contextlib.suppress(Ended):
                while player.client and isinstance(player.client.next(), (Reply, tuple)):
                    pass
            if not player.client:
                rest = data + harness.read_to_end(player.peer)
                # The last chunk, a close frame of 1000, or the end alone.
                if player.kind == "http":
                    self.assertTrue(rest.endswith(b"\r\n0\r\n\r\n"))
                elif player.kind == "websocket":
                    self.assertIn(b"\x03\xe8end of stream", rest[-30:])
            player.close()
        self.settled(daemon)


class DemandTest(unittest.TestCase):
    def pull(self, daemon, name):
        return next(pull for pull in daemon.api()["pulls"] if pull["stream"] == name)

    def test_players_of_every_kind(self):
        """Each of them has its stream fetched, and lets it go when it leaves."""
        cameras = {kind: Camera(self).start() for kind in KINDS}
        names = {kind: "live/%d" % i for i, kind in enumerate(KINDS)}
        daemon = Daemon("--wait", "60", *[word for kind in KINDS for word in (
            "--pull", "%s=%s,on-demand" % (cameras[kind].url(), names[kind]))], listen=LISTEN)
        self.addCleanup(daemon.stop)
        players = []
        for kind in KINDS:
            self.assertEqual((self.pull(daemon, names[kind])["state"], cameras[kind].connections), ("idle", 0))
            players.append(Waiting(daemon, kind, names[kind]))
        for player in players:
            player.play()
            self.assertEqual(self.pull(daemon, names[player.kind])["state"], "playing")
        for player in players:
            player.close()
        for kind in KINDS:
            cameras[kind].wait_request("TEARDOWN")
            harness.wait_until(lambda: self.pull(daemon, names[kind])["state"] == "idle", "%s: idle" % kind)
        WaitTest.settled(daemon)

    def test_no_camera(self):
        """What cannot be fetched is no such stream, after as long as players wait."""
        # A port that is taken, where nobody listens.
        nobody = socket.socket()
        self.addCleanup(nobody.close)
        nobody.bind(("127.0.0.1", 0))
        url = "rtsp://127.0.0.1:%d/cam" % nobody.getsockname()[1]
        daemon = Daemon("--wait", "1", "--pull", url + "=live/0,on-demand", listen=LISTEN)
        self.addCleanup(daemon.stop)
        for player in [Waiting(daemon, kind, "live/0") for kind in KINDS]:
            self.assertEqual(player.answer()[0], 404, player.kind)
            player.close()
        WaitTest.settled(daemon)


if __name__ == "__main__":
    harness.main()
