"""Players of one stream on several workers: whoever serves them, they get the same, and it is one stream to everybody."""

import contextlib
import threading

import flv
import harness
import rtsp
import test_slow_player
from harness import Player, Publisher
from test_hooks import Hook, reply
from test_slow_player import Source

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
NAME = "live/a"
UPGRADE = (b"GET /%s.flv HTTP/%s\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


class WebSocketPlayer(Player):
    """The same tags, as messages."""

    REQUEST = UPGRADE

    def __init__(self, daemon):
        super().__init__(daemon, NAME)

    def _run(self):
        try:
            self.status, self.headers, data = harness.read_head(self.peer)
            while self.status == 101:
                tags, data = self._take(data)
                with self._news:
                    self.tags += tags
                    self._news.notify_all()
                more = self.peer.recv(65536)
                if not more:
                    break
                data += more
        except (OSError, flv.Broken) as error:
            self.error = error
        with self._news:
            self.finished = True
            self._news.notify_all()

    def _take(self, data):
        tags = []
        while len(data) >= 2:
            length, at = data[1], 2
            if length >= 126:
                at = 4 if length == 126 else 10
                length = int.from_bytes(data[2:at], "big")
            if len(data) < max(at, 2) or len(data) < at + length:
                break
            if data[0] == 0x82:
                tags += self._parser.feed(data[at:at + length])
            data = data[at + length:]
        return tags, data


class SpreadTest(harness.SettledTest):
    def start(self, workers, spread, *options):
        return super().start("--workers", str(workers), "--spread", str(spread), *options, listen=LISTEN)

    def check_settled(self, daemon):
        super().check_settled(daemon)
        if any(worker["lent_bytes"] for worker in daemon.api()["workers"]):
            raise AssertionError("something is lent still")

    def join(self, daemon, makers):
        """Players that come one after another, so that it is known who goes where."""
        before = daemon.stream(NAME)
        count = before["subscribers"] if before else 0
        players = []
        for make in makers:
            player = make(daemon)
            self.stack.callback(player.close)
            players.append(player)
            count += 1
            daemon.wait_player(NAME, count)
        return players

    def publish(self, daemon, tags=(), first=None, name=NAME):
        publisher = self.stack.enter_context(Publisher(daemon, name, "http"))
        publisher.send(flv.header() + b"".join(tag.pack() for tag in [*(first or flv.first_tags()), *tags]))
        return publisher

    @staticmethod
    def places(daemon):
        """The worker of each player, by its address."""
        return {player["address"]: player["worker"] for player in daemon.api()["players"]}


def http(version="1.1"):
    return lambda daemon: Player(daemon, NAME, version)


class SameTest(SpreadTest):
    """Each kind of player, early and late, at its stream's worker and at others."""

    KINDS = [http("1.1"), http("1.0"), WebSocketPlayer, http("1.1"), http("1.0"), WebSocketPlayer, http("1.1")]

    def check_same(self, daemon, players, what):
        places = self.places(daemon)
        self.assertGreater(len({places[player.address] for player in players}), 1)
        for player in players[1:]:
            harness.check_same(player.tags, players[0].tags, what)

    def test_early_and_late(self):
        daemon = self.start(3, 1)
        early = self.join(daemon, self.KINDS)
        by_rtsp = [rtsp.Player(daemon, NAME) for _ in range(4)]
        for player in by_rtsp:
            self.stack.callback(player.close)
        daemon.wait_player(NAME, len(early) + len(by_rtsp))
        frames = flv.frames(gop=20)
        sent = [next(frames) for _ in range(130)]
        publisher = self.publish(daemon, sent)
        for player in early:
            player.wait_frame(sent[-1])
        late = self.join(daemon, self.KINDS)
        late_by_rtsp = [rtsp.Player(daemon, NAME) for _ in range(4)]
        for player in late_by_rtsp:
            self.stack.callback(player.close)
        daemon.wait_stream(NAME, lambda stream: stream["subscribers"] == 2 * len(early) + 2 * len(by_rtsp), "all")
        harness.wait_until(lambda: all(player["state"] == "playing" for player in daemon.api()["players"]), "playing")
        for tag in (next(frames) for _ in range(61)):
            sent.append(tag)
            publisher.send(tag)
        sent.append(flv.audio_frame(sent[-1].timestamp, 99999, 200))
        publisher.send(sent[-1])
        for player in [*early, *late, *by_rtsp, *late_by_rtsp]:
            player.wait_frame(sent[-1])
        harness.check_same(early[0].tags, flv.first_tags() + sent, "tags")
        self.check_same(daemon, early, "early")
        self.check_same(daemon, late, "late")
        self.assertTrue(late[0].frames[0].is_key_frame)
        # What was cached for them is the newest group.
        self.assertEqual(late[0].frames, sent[120:])
        self.assertEqual(set(self.places(daemon).values()), {0, 1, 2})
        for group in (by_rtsp, late_by_rtsp):
            self.assertGreater(len({self.places(daemon)[player.address] for player in group}), 1)
            # The early ones begin with the group that there was when they had been told of the tracks.
            shortest = min((player.payloads for player in group), key=len)
            for player in group:
                harness.check_same(player.payloads[-len(shortest):], shortest, "packets")
        for player in late_by_rtsp:
            self.assertEqual(len(player.payloads), len(late_by_rtsp[0].payloads))
        self.check_one_stream(daemon, 2 * len(early) + 2 * len(by_rtsp), len(sent))
        self.assertEqual(daemon.complaints(), [])
        self.assertEqual(publisher.finish(), 200)

    def check_one_stream(self, daemon, players, frames):
        """It is counted once, and its players all."""
        state = daemon.api()
        stream, = state["streams"]
        self.assertEqual(stream["subscribers"], players)
        self.assertEqual(stream["frames"]["video"] + stream["frames"]["audio"], frames)
        self.assertEqual(len(state["players"]), players)
        self.assertEqual(len(daemon.api("/api/v1/publishers")["publishers"]), 1)
        self.assertEqual(len(daemon.api("/api/v1/streams/" + NAME)["players"]), players)
        # Each worker is asked by itself, and may count a send after the player has the bytes.
        harness.wait_until(lambda: daemon.stream(NAME)["sends"] == sum(player["sends"] for player in daemon.api()["players"]),
                           "the stream's sends are those of its players")
        self.assertGreater(sum(worker["lent_bytes"] for worker in state["workers"]), 0)
        metrics = daemon.admin("GET", "/metrics")[2].decode()
        for line in ('sluice_stream_players{stream="%s"} %d' % (NAME, players), "sluice_players %d" % players,
                     "sluice_received_bytes_total %d" % stream["bytes_received"], "sluice_publishers_total 1"):
            self.assertIn("\n%s\n" % line, metrics)


class LifeTest(SpreadTest):
    """Publishers that come and go, and what ends players, wherever they are."""

    def check_restart(self, daemon, players, end):
        """What the next publisher sends goes on in time, for everybody alike."""
        sent = []
        for first in (0, 1000):
            frames = flv.frames(first=first)
            tags = [next(frames) for _ in range(40)]
            sent += tags
            publisher = self.publish(daemon, tags)
            for player in players:
                player.wait(lambda player, tag=tags[-1]: player.frames and player.frames[-1].payload == tag.payload,
                            "the last frame of a publisher")
            end(publisher)
        for player in players:
            self.assertEqual([frame.payload for frame in player.frames], [tag.payload for tag in sent])
            times = [frame.timestamp for frame in player.frames if frame.type == flv.VIDEO]
            self.assertEqual(times, sorted(set(times)))
            harness.check_same(player.tags, players[0].tags, "tags")
        self.assertGreater(len(set(self.places(daemon).values())), 1)

    def test_restart(self):
        daemon = self.start(2, 1)
        players = self.join(daemon, [http(), http(), WebSocketPlayer, http("1.0")])
        self.check_restart(daemon, players, lambda publisher: self.assertEqual(publisher.finish(), 200))

    def test_resumes(self):
        """A stream that is kept for its publisher is kept for all of its players, longer than they would wait."""
        daemon = self.start(2, 1, "--same-name", "resume", "--resume", "60", "--wait", "0")
        # It comes before the players, which wait for nothing while there is none.
        publisher = self.publish(daemon)
        daemon.wait_stream(NAME)
        players = self.join(daemon, [http()] * 4)
        publisher.close()
        self.check_restart(daemon, players, lambda publisher: publisher.close())
        self.assertGreater(daemon.stream(NAME)["kept_seconds"], 0)
        for player in players:
            self.assertFalse(player.finished)
        # Who is sent away is not waited for.
        self.publish(daemon)
        daemon.wait_stream(NAME)
        self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/" + NAME)[0], 204)

    def test_nobody_comes(self):
        """Who waits in vain is told so where it is; and whose stream ends, ends."""
        daemon = self.start(2, 1, "--wait", "1")
        players = [make(daemon) for make in (http(), http())]
        for player in players:
            self.stack.callback(player.close)
            player.wait_end()
            self.assertEqual(player.status, 404)
        daemon.blocks_settled()
        publisher = self.publish(daemon, [tag for tag, _ in zip(flv.frames(), range(10))])
        daemon.wait_stream(NAME)
        players = self.join(daemon, [http(), http(), WebSocketPlayer])
        for player in players:
            player.wait_tags(13)
        self.assertEqual(publisher.finish(), 200)
        for player in players:
            player.wait_end()
            self.assertIsNone(player.error)
        daemon.wait_log("player ended", 3, reason="end of stream")

    def test_kicks(self):
        daemon = self.start(2, 1)
        players = self.join(daemon, [http()] * 6)
        frames = flv.frames()
        publisher = self.publish(daemon, [next(frames) for _ in range(10)])
        for player in players:
            player.wait_tags(13)
        places = self.places(daemon)
        ids = {player["address"]: player["id"] for player in daemon.api()["players"]}
        away = [next(player for player in players if places[player.address] == worker) for worker in (0, 1)]
        for player in away:
            one = ids[player.address]
            self.assertEqual(daemon.api("/api/v1/players/%d" % one)["worker"], places[player.address])
            self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one)[0], 204)
            player.wait_end()
            self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % one)[0], 404)
        rest = [player for player in players if player not in away]
        tag = next(frames)
        publisher.send(tag)
        for player in rest:
            player.wait_frame(tag)
        # The publisher alone: all others wait, and get what the next one sends.
        one, = daemon.api("/api/v1/publishers")["publishers"]
        self.assertEqual(daemon.admin("DELETE", "/api/v1/publishers/%d?ban=3600" % one["id"])[0], 204)
        self.assertEqual(harness.read_head(publisher.peer)[0], 403)
        self.assertEqual(daemon.request("POST", "/%s.flv" % NAME, flv.stream(4)[0])[0], 403)
        self.assertEqual(daemon.stream(NAME)["subscribers"], 4)
        # The stream, with all players.
        self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/" + NAME)[0], 204)
        for player in rest:
            player.wait_end()

    def test_replica_ends(self):
        """Without players there it goes; then there is another one, with what is cached."""
        daemon = self.start(2, 1)
        frames = flv.frames(gop=1000)
        sent = [next(frames) for _ in range(30)]
        publisher = self.publish(daemon, sent)
        daemon.wait_stream(NAME)
        first, = self.join(daemon, [http()])
        for _ in range(2):
            second, = self.join(daemon, [http()])
            sent.append(next(frames))
            publisher.send(sent[-1])
            second.wait_frame(sent[-1])
            harness.check_same(second.tags, flv.first_tags() + sent, "tags")
            second.close()
            harness.wait_until(lambda: all(worker["lent_bytes"] == 0 for worker in daemon.api()["workers"]),
                               "the replica to go")
        first.wait_frame(sent[-1])
        harness.check_same(first.tags, flv.first_tags() + sent, "tags")
        daemon.check_log(2, "replica created")
        self.assertEqual(publisher.finish(), 200)

    def test_stop_in_full_swing(self):
        """Nothing is lost when the server stops, and nobody waits for anybody."""
        daemon = self.start(3, 1)
        self.join(daemon, [http(), http("1.0"), WebSocketPlayer, http(), WebSocketPlayer])
        publisher = self.publish(daemon)
        players = [rtsp.Player(daemon, NAME) for _ in range(3)]
        frames = flv.frames()
        ending = threading.Event()

        def publish():
            with contextlib.suppress(OSError):
                while not ending.wait(0.001):
                    publisher.send(next(frames))
        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        daemon.wait_stream(NAME, lambda stream: stream["subscribers"] == 8, "all players")
        harness.wait_until(lambda: all(player.payloads for player in players), "RTSP")
        daemon.stop()
        ending.set()
        thread.join()
        for player in players:
            player.close()
        self.assertEqual([line.text for line in daemon.complaints()], [])
        self.doCleanups = self.stack.close


class JudgedOnceTest(SpreadTest):
    def test_hooks_and_rules(self):
        """A player that goes on to another worker was asked about before, once."""
        hook = Hook(self, reply(200), delay=0.05)
        daemon = self.start(2, 1, "--hook-play", hook.url, "--rule", "publish * allow", "--rule", "play live/* allow")
        publisher = self.publish(daemon, [tag for tag, _ in zip(flv.frames(), range(10))])
        daemon.wait_stream(NAME)
        players = self.join(daemon, [http(), http(), WebSocketPlayer, http(), WebSocketPlayer])
        by_rtsp = [rtsp.Player(daemon, NAME) for _ in range(3)]
        daemon.wait_player(NAME, 8)
        for player in players:
            player.wait_tags(13)
        harness.wait_until(lambda: all(player.payloads for player in by_rtsp), "RTSP")
        self.assertEqual(sorted(one["protocol"] for one in hook.asked), ["http"] * 3 + ["rtsp"] * 3 + ["websocket"] * 2)
        self.assertEqual(len(set(self.places(daemon).values())), 2)
        for player in by_rtsp:
            player.close()
        self.assertEqual(publisher.finish(), 200)

    def test_most_players(self):
        """Of all workers together; and who leaves makes room."""
        daemon = self.start(2, 1, "--max-players", "4")
        publisher = self.publish(daemon, [tag for tag, _ in zip(flv.frames(), range(10))])
        daemon.wait_stream(NAME)
        players = self.join(daemon, [http()] * 4)
        self.assertEqual(len(set(self.places(daemon).values())), 2)
        self.assertEqual(daemon.request("GET", "/%s.flv" % NAME)[0], 503)
        with rtsp.Client(daemon, NAME) as client:
            self.assertEqual(client.ask("DESCRIBE").status, 453)
        places = self.places(daemon)
        for worker in (0, 1):
            next(player for player in players if places[player.address] == worker).close()
            daemon.wait_stream(NAME, lambda stream: stream["subscribers"] == 3, "one less")
            harness.wait_until(lambda: self.can_play(daemon), "room for one more")
        self.assertEqual(publisher.finish(), 200)

    def can_play(self, daemon):
        player = Player(daemon, NAME)
        self.stack.callback(player.close)
        harness.wait_until(lambda: player.status, "an answer")
        return player.status == 200

    def test_rtsp_goes_to_and_fro(self):
        """One connection asks for streams of both workers, of which some are spread, and for each again."""
        daemon = self.start(2, 1)
        names = ["live/n%d" % i for i in range(6)]
        publishers = [self.publish(daemon, [tag for tag, _ in zip(flv.frames(), range(10))], name=name)
                      for name in names]
        for name in names:
            daemon.wait_stream(name)
            self.stack.enter_context(Player(daemon, name))
            daemon.wait_player(name)
        self.assertEqual({stream["worker"] for stream in daemon.api()["streams"]}, {0, 1})
        with rtsp.Client(daemon, NAME) as client:
            base = client.url[:-len(NAME)]
            for name in names * 2:
                for _ in range(2):
                    self.assertEqual(client.ask("DESCRIBE", base + name).status, 200)
            client.url = base + names[0]
            client.play()
            client.next_rtp()
            self.assertEqual(daemon.stream(names[0])["subscribers"], 2)
            # Without a description before: the tracks are known where the session goes.
            with rtsp.Client(daemon, names[1]) as other:
                self.assertEqual(other.setup(0).status, 200)
                self.assertEqual(other.ask("PLAY").status, 200)
                other.next_rtp()
        for publisher in publishers:
            self.assertEqual(publisher.finish(), 200)


class SlowTest(test_slow_player.SlowPlayerTest):
    """What holds for players that do not keep up holds beside others on other workers."""

    limits = (*test_slow_player.LIMITS, "--workers", "2", "--spread", "2")
    # What stalls is below.
    test_stalled_players = test_slow_reader_beside_normal_ones = None


class MemoryTest(SpreadTest):
    MEMORY = 16 << 20

    def test_stalled_elsewhere(self):
        """Players at another worker take nothing, and what they hold would be all of the memory: those of the stream's
        own worker get every byte, and the others whole tags, with gaps, once they go on."""
        daemon = self.start(2, 3, "--memory", "16M", "--gop-size", "1M", "--player-buffer", "8M", "--frame-limit", "1M",
                            "--stall", "60")
        normal = self.join(daemon, [http()] * 3)
        make = lambda daemon: Player(daemon, NAME, receive_buffer=test_slow_player.RECEIVE_BUFFER, reading=False)
        stalled = self.join(daemon, [make] * 3)
        places = self.places(daemon)
        own, = {places[player.address] for player in normal}
        self.assertEqual({places[player.address] for player in stalled}, {1 - own})
        with Source(daemon, normal, NAME) as source:
            addresses = {player.address for player in stalled}
            most = 0

            def look():
                nonlocal most
                state = daemon.api()
                worker = state["workers"][own]
                most = max(most, worker["lent_bytes"])
                self.assertLessEqual(worker["pool"]["blocks_held"], worker["pool"]["blocks_max"])
                self.assertLessEqual(worker["pool"]["bytes_mapped"], self.MEMORY // 2)
                lost = [player["frames_dropped"] for player in state["players"] if player["address"] in addresses]
                return all(count > 1000 for count in lost)
            harness.wait_until(look, "frames dropped for those who take nothing")
            for player in stalled:
                player.start()
            for player in stalled:
                player.wait(lambda player: player.tags and player.tags[-1] in source.sent[-40:], "what is sent now")
            sent = source.end()
            for player in normal:
                player.wait_frame(sent[-1])
                harness.check_same(player.tags, sent, "tags")
            for player in stalled:
                player.wait_frame(sent[-1])
                self.assertGreater(test_slow_player.SlowPlayerTest.check_gaps(self, player, sent), 0)
            for player in daemon.api()["players"]:
                if player["address"] not in addresses:
                    self.assertEqual(player["frames_dropped"], 0)
            self.assertEqual(daemon.stream(NAME)["frames_dropped"], 0)
            # Three quarters of the blocks, with what came until it was noticed; of seven eighths of the memory.
            self.assertGreater(most, 0)
            self.assertLess(most, self.MEMORY // 2 * 7 // 8)
            self.assertEqual(source.publisher.finish(), 200)


if __name__ == "__main__":
    harness.main()
