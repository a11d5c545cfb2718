"""RTMP on several workers, with slow players, publishers that return, and peers that mean harm."""

import contextlib
import random
import struct
import unittest

import flv
import harness
import rtmp
from harness import Daemon, Steady

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")


class RelayTest(unittest.TestCase):
    def client(self, daemon, **options):
        client = rtmp.Client(daemon, **options)
        self.addCleanup(client.peer.close)
        return client

    def publish(self, daemon, tags=()):
        publisher = self.client(daemon)
        self.assertEqual(publisher.begin("publish", "a")["code"], "NetStream.Publish.Start")
        self.send(publisher, [*flv.first_tags(audio=False), *tags])
        return publisher

    @staticmethod
    def send(publisher, tags):
        for tag in tags:
            publisher.send(tag.type, tag.payload, timestamp=tag.timestamp)

    def play(self, daemon, **options):
        player = self.client(daemon, **options)
        player.connect(publish=False)
        player.command("play", "a", stream=player.create_stream(), transaction=3)
        return player

    @staticmethod
    def video(count, **options):
        frames = flv.frames(audio=False, **options)
        return [next(frames) for _ in range(count)]

    def test_workers(self):
        """Players at other workers, early and late, get what those at the stream's own get."""
        tags = self.video(40, gop=10)
        with Daemon("--workers", "3", "--spread", "1", listen=LISTEN) as daemon:
            early = []
            for count in range(1, 5):
                early.append(self.play(daemon))
                daemon.wait_player("live/a", count)
            publisher = self.publish(daemon, tags[:25])
            got = [player.media(2 + 25) for player in early]
            late = []
            for count in range(5, 8):
                late.append(self.play(daemon))
                daemon.wait_player("live/a", count)
            places = {player["worker"] for player in daemon.api()["players"]}
            self.assertEqual(places, {0, 1, 2})
            self.assertEqual({player["protocol"] for player in daemon.api()["players"]}, {"rtmp"})
            self.send(publisher, tags[25:])
            for player, before in zip(early, got):
                messages = before + player.media(15)
                self.assertEqual([one.payload for one in messages[2:]], [tag.payload for tag in tags])
            for player in late:
                messages = player.media(2 + 20)
                self.assertEqual([one.payload for one in messages[2:]], [tag.payload for tag in tags[20:]])
            publisher.finish()
            for player in early + late:
                player.finish()
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_publisher_returns(self):
        """The connection stays, and times go on rising."""
        tags = self.video(10)
        with Daemon("--merge-window", "20", listen=LISTEN) as daemon:
            player = self.play(daemon)
            self.publish(daemon, tags).finish()
            got = player.media(2 + 10)
            self.publish(daemon, tags).finish()
            got += player.media(10)
            times = [one.timestamp for one in got if one.type == rtmp.VIDEO]
            self.assertEqual(times, sorted(times))
            self.assertEqual([one.payload for one in got[-10:]], [tag.payload for tag in tags])
            player.finish()
            daemon.blocks_settled()

    def test_slow_player(self):
        """It loses frames up to a key frame; its messages stay whole, with answers between them."""
        with Daemon("--player-buffer", "300K", "--frame-limit", "100K", "--gop-size", "100K", listen=LISTEN) as daemon:
            publisher = self.publish(daemon, self.video(1, size=50000))
            publisher.set_chunk_size(65536)
            player, other = self.play(daemon, receive_buffer=4096), self.play(daemon)
            daemon.wait_player("live/a", 2)
            other.media(3)
            sent = self.video(300, size=50000, gop=5, start=40)
            for tag in sent:
                self.send(publisher, [tag])
                self.assertEqual(other.media(1)[0].payload, tag.payload)
            player.send(rtmp.USER, struct.pack(">HI", 6, 7), stream=0, channel=2)
            daemon.wait_stream("live/a", lambda _: any(one["frames_dropped"] for one in daemon.api()["players"]), "slow")
            last, got, pong = sent[-1].payload, [], False
            tick = self.video(200, size=1000, gop=5, start=300 * 40)
            while last not in got:
                message = player.next()
                pong |= message.type == rtmp.USER and message.payload[:2] == b"\0\7"
                got.append(message.payload)
                if len(got) % 10 == 0 and tick:
                    last = tick[0].payload
                    self.send(publisher, [tick.pop(0)])
            self.assertTrue(pong)
            known = {tag.payload for tag in sent}
            frames = [flv.Tag(flv.VIDEO, 0, payload) for payload in got if payload in known]
            self.assertLess(len(frames), len(sent))
            numbers = [flv.number_of(frame) for frame in frames]
            self.assertEqual(numbers, sorted(numbers))
            for before, frame, number in zip(numbers, frames[1:], numbers[1:]):
                self.assertTrue(number == before + 1 or frame.is_key_frame, (before, number))


class HarmTest(unittest.TestCase):
    def test_tiny_chunks(self):
        """Publishers of chunks of one byte, each of which is work, do not hold up another one."""
        message = b"".join(rtmp.chunked(rtmp.VIDEO, b"\x27\1\0\0\0" + bytes(300000), 1))
        with Daemon("--workers", "1", listen=LISTEN) as daemon, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(rtmp.Client(daemon)) for _ in range(8)]
            with Steady(daemon) as steady:
                for number, client in enumerate(clients):
                    client.begin("publish", str(number))
                    client.set_chunk_size(1)
                    client.peer.setblocking(False)
                for _ in range(4):
                    for client in clients:
                        with contextlib.suppress(BlockingIOError):
                            client.peer.send(message)
                    steady.go_on()
            self.assertEqual(len(daemon.log("publisher ended", levels=("warning",))), 0)

    def test_random(self):
        """Whatever comes, each connection ends or goes on, and nothing stays behind."""
        chance = random.Random(17)
        names = ("connect", "createStream", "publish", "play", "deleteStream", "closeStream", "pause", "seek", "FCPublish",
                 "releaseStream", "_error", "onStatus", "getStreamLength", "x")
        arguments = (None, True, False, 0, -1, 1e300, "", "a", "../", "?token=x", "x" * 2000, {}, {"app": "live"}, [1, "a"])
        with Daemon("--wait", "0", listen=LISTEN) as daemon:
            for _ in range(150):
                with rtmp.Client(daemon) as client, contextlib.suppress(OSError, rtmp.Ended):
                    if chance.random() < 0.7:
                        client.connect(chance.choice(("live", "", "live?a=b", "/")), publish=chance.random() < 0.5)
                    for _ in range(chance.randrange(12)):
                        stream, kind = chance.randrange(3), chance.choice((20, 20, 20, 17, 8, 9, 18, 15, 22, 4, 1, 2, 5, 99))
                        if kind == 20:
                            client.command(chance.choice(names), *chance.choices(arguments, k=chance.randrange(4)),
                                           stream=stream, transaction=chance.choice((0, 3, 4.5)),
                                           info=chance.choice(arguments))
                        else:
                            client.send(kind, chance.randbytes(chance.choice((0, 1, 4, 6, 40, 3000))), stream,
                                        chance.choice((0, 40, 0xffffff, 0xffffffff)), chance.choice((2, 3, 6)))
                    if chance.random() < 0.3:
                        client.peer.sendall(chance.randbytes(2000))
            with rtmp.Client(daemon) as client:
                self.assertEqual(client.begin("publish", "good")["code"], "NetStream.Publish.Start")
                client.finish()
            harness.wait_until(lambda: daemon.connections() == 0, "the end of all connections")

    def test_silence(self):
        """Handshake, connect and request each have their time."""
        with Daemon(listen=LISTEN) as daemon, contextlib.ExitStack() as stack:
            silent = stack.enter_context(rtmp.Client(daemon, handshake=False))
            shaken, connected, slow = (stack.enter_context(rtmp.Client(daemon)) for _ in range(3))
            connected.connect()
            slow.connect()
            slow.peer.sendall(b"\3\0\0\0\0\0\x20\x14")
            for client in (silent, shaken, connected, slow):
                client.wait_end()
            daemon.wait_log("request refused", 4, reason="request timeout")


if __name__ == "__main__":
    harness.main()
