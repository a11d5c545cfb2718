"""Players that do not keep up: they lose frames up to a key frame, and in the end their connection; the others lose
nothing, and memory stays bounded."""

import contextlib
import threading
import time
import unittest

import flv
import harness
import rtsp
from harness import Daemon, Player, Publisher, resident_kib
from long_form import size

MIB = 1 << 20
FRAME = 16000
BEHIND = 40  # Tags that a normal player may be behind: half of them are frames of video.
BUFFER = 2 * MIB
GROUP = 2 * MIB  # More than a group of pictures of the stream holds.
MEMORY = 64 * MIB
LIMITS = ("--memory", "64M", "--gop-size", "2M", "--player-buffer", "2M", "--frame-limit", "1M")
RECEIVE_BUFFER = 4096


class Source:
    """A fast publisher that goes on until it is told to end; large frames, a key frame every 20.

    It waits for the players that are to keep up, however busy the machine is: what they are behind stays far below
    the limit.
    """

    def __init__(self, daemon, normal=(), name="live/a", pause=0.001, behind=BEHIND, size=FRAME):
        self._behind = behind
        self.publisher = Publisher(daemon, name, "http")
        self._normal = normal
        self.sent = flv.first_tags()
        self._frames = flv.frames(step=20, gop=20, size=size)
        self._pause = pause
        self._ending = threading.Event()
        self._error = None
        self.publisher.send(flv.header() + b"".join(tag.pack() for tag in self.sent))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._ending.is_set():
                # There is nothing to be had before the first frame.
                for player in self._normal if len(self.sent) > len(flv.first_tags()) else ():
                    player.wait_tags(len(self.sent) - self._behind)
                tags = [next(self._frames) for _ in range(4)]
                self.sent += tags
                self.publisher.send(b"".join(tag.pack() for tag in tags))
                time.sleep(self._pause)
        except (OSError, AssertionError) as error:
            self._error = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join()
        self.publisher.close()

    def end(self):
        """Ends the stream, and gives all that was sent."""
        self._ending.set()
        self._thread.join()
        if self._error:
            raise AssertionError("the publisher was disturbed: %r" % self._error)
        return self.sent


class SlowPlayerTest(unittest.TestCase):
    limits = LIMITS
    CROWD = size("STALLED", 200, 200)  # Players that stall at once.
    STALLED = 40
    APART = 10  # Tags: half a megabyte, a quarter of a group.

    def setUp(self):
        self.most_held = self.most_resident = 0

    def players_of(self, daemon, players):
        """What the API says of these players; notes what the pool holds at that moment."""
        state = daemon.api()
        pool = state["pool"]
        self.most_held = max(self.most_held, pool["blocks_held"])
        self.most_resident = max(self.most_resident, resident_kib(daemon.process.pid) << 10)
        self.assertLessEqual(pool["blocks_held"], pool["blocks_max"])
        self.assertLessEqual(pool["blocks_total"] * pool["block_size"], MEMORY)
        for player in state["players"]:
            self.assertLessEqual(player["queued_bytes"], BUFFER)
        addresses = {player.address for player in players}
        return [player for player in state["players"] if player["address"] in addresses]

    def wait_dropped(self, daemon, players, count=1):
        """Waits until each of the players has lost so many frames."""
        def look():
            found = self.players_of(daemon, players)
            return len(found) == len(players) and all(player["frames_dropped"] >= count for player in found)
        harness.wait_until(look, lambda: "frames dropped for all: %s" % self.players_of(daemon, players))

    def check_normal(self, player, sent):
        """It got exactly what was sent."""
        player.wait_frame(sent[-1])
        harness.check_same(player.tags, sent, "tags")

    def check_gaps(self, player, sent):
        """A slow player's stream: whole tags of what was sent, and a key frame behind each gap.

        Headers do not change here: it has had them, and is not sent them again, which some players never recover from.
        """
        self.assertEqual(player.tags[:3], sent[:3])
        self.assertTrue(all(tag.is_frame for tag in player.tags[3:]), "headers twice")
        where = {tag: index for index, tag in enumerate(sent) if tag.is_frame}
        gaps, last = 0, None
        for tag in player.tags[3:]:
            self.assertIn(tag, where, "a frame that was not sent")
            index = where[tag]
            if last is not None and index != last + 1:
                self.assertGreater(index, last)
                self.assertTrue(tag.is_key_frame, "behind a gap")
                gaps += 1
            last = index
        return gaps

    def test_stalled_players(self):
        with Daemon(*self.limits, "--stall", "5") as daemon:
            idle = resident_kib(daemon.process.pid) << 10
            normal = [Player(daemon, "live/a", version) for version in ("1.1", "1.0", "1.1")]
            stalled = [Player(daemon, "live/a", receive_buffer=RECEIVE_BUFFER, reading=False)
                       for _ in range(self.CROWD)]
            daemon.wait_player("live/a", 3 + self.CROWD)
            with Source(daemon, normal) as source:
                harness.wait_until(lambda: not self.players_of(daemon, stalled), "the stalled players to be ended")
                self.assertEqual(len(self.players_of(daemon, normal)), 3)
                sent = source.end()
                for player in normal:
                    self.check_normal(player, sent)
                for player in self.players_of(daemon, normal):
                    self.assertEqual(player["frames_dropped"], 0)
                self.assertEqual(daemon.stream("live/a")["frames_dropped"], 0)
                for player in stalled:
                    line = daemon.wait_log("player ended", peer=player.address)
                    self.assertGreater(int(line.fields["frames_dropped"]), 0, line)
                self.assertEqual(source.publisher.finish(), 200)
            # What the stalled ones hold they hold together: their budgets overlap.
            self.assertGreater(self.most_held, 0)
            self.assertLess(self.most_held * 4096, GROUP + 3 * BUFFER)
            # Of the whole process.
            if not harness.SANITIZED:
                self.assertLess(self.most_resident - idle, MEMORY * 1.05)
            for player in normal + stalled:
                player.close()
            daemon.blocks_settled()

    def test_slow_reader_beside_normal_ones(self):
        with Daemon(*self.limits) as daemon:
            normal = [Player(daemon, "live/a") for _ in range(3)]
            slow = Player(daemon, "live/a", receive_buffer=RECEIVE_BUFFER, reading=False)
            daemon.wait_player("live/a", 4)
            with Source(daemon, normal) as source:
                begun = threading.Event()
                harness.in_thread(self, lambda: self.drip(slow.peer, begun))
                begun.wait(harness.PATIENCE)
                self.wait_dropped(daemon, [slow], 100)
                sent = source.end()
                for player in normal:
                    self.check_normal(player, sent)
                self.assertEqual(source.publisher.finish(), 200)
            slow.close()
            for player in normal:
                player.close()
            daemon.blocks_settled()

    @staticmethod
    def drip(peer, begun):
        """Reads a little at a time, until the connection is closed."""
        while peer.recv(512):
            begun.set()
            time.sleep(0.001)

    def test_slow_player_recovers(self):
        for version in ("1.1", "1.0"):
            with self.subTest(version), Daemon(*self.limits) as daemon:
                with Player(daemon, "live/a") as normal, \
                        Player(daemon, "live/a", version, RECEIVE_BUFFER, reading=False) as slow:
                    daemon.wait_player("live/a", 2)
                    with Source(daemon, [normal]) as source:
                        self.wait_dropped(daemon, [slow], 100)
                        slow.start()
                        slow.wait(lambda player: len(player.tags) > 10 and player.tags[-1] in source.sent[-40:],
                                  "what is sent now")
                        sent = source.end()
                        slow.wait_frame(sent[-1])
                        self.check_normal(normal, sent)
                        self.assertGreater(self.check_gaps(slow, sent), 0)
                        self.assertEqual(source.publisher.finish(), 200)
                daemon.blocks_settled()

    def test_small_pool(self):
        """The budgets of all players together are far more than the memory: the publisher goes on all the same."""
        with Daemon("--workers", "2", "--memory", "4M", "--gop-size", "1M", "--player-buffer", "2M", "--frame-limit",
                    "1M") as daemon:
            stalled = [Player(daemon, "live/%d" % number, receive_buffer=RECEIVE_BUFFER, reading=False)
                       for number in range(8)]
            sources = []
            try:
                for number in range(8):
                    daemon.wait_player("live/%d" % number)
                    sources.append(Source(daemon, name="live/%d" % number, pause=0.01))
                self.wait_dropped(daemon, stalled)
                before = [len(source.sent) for source in sources]
                harness.wait_until(lambda: all(len(source.sent) > count + 500
                                               for source, count in zip(sources, before)), "the publishers to go on")
                for source in sources:
                    source.end()
                    self.assertEqual(source.publisher.finish(), 200)
            finally:
                for source in sources:
                    source.__exit__()
            for player in stalled:
                player.close()
            daemon.blocks_settled()


    def test_stalled_one_after_another(self):
        """Each of them waits with another part of the stream, which is far more than the memory."""
        for kind in ("http", "rtsp"):
            with self.subTest(kind), \
                    Daemon("--workers", "1", "--memory", "8M", "--gop-size", "3M", "--stall", "600",
                           listen=rtsp.listen()) as daemon, \
                    contextlib.ExitStack() as stalled:
                normal = Player(daemon, "live/a")
                daemon.wait_player("live/a")
                with Source(daemon, [normal], pause=0.01, size=100000) as source:
                    normal.wait_tags(10)
                    for _ in range(self.STALLED):
                        at = len(source.sent)
                        if kind == "http":
                            stalled.enter_context(Player(daemon, "live/a", receive_buffer=RECEIVE_BUFFER,
                                                         reading=False))
                        else:
                            client = rtsp.Client(daemon, receive_buffer=RECEIVE_BUFFER)
                            stalled.enter_context(client)
                            client.play((0,))
                        harness.wait_until(lambda at=at: len(source.sent) > at + self.APART, "the publisher to go on")
                    sent = source.end()
                    self.check_normal(normal, sent)
                    self.assertEqual(daemon.stream("live/a")["frames_dropped"], 0)
                    self.assertEqual(daemon.log("player ended"), [])
                    self.assertEqual(source.publisher.finish(), 200)
                normal.close()
                stalled.close()
                daemon.blocks_settled()


class GatheredSlowPlayerTest(SlowPlayerTest):
    """The same with a merge window."""

    limits = (*LIMITS, "--merge-window", "20")
    CROWD = 20


class LateTest(unittest.TestCase):
    """What players get that were slow for a while, or are for good."""

    # Four tags in so many seconds, at most, and no more before who keeps up has them: the kernel has room for these, so
    # that nothing waits for such a player in the daemon, however long the player itself is kept waiting.
    PACE = {"pause": 0.02, "behind": 0}
    MOST = 200  # Tags, twice as many as are sent while something may wait.
    LOST = 300

    def setUp(self):
        self.daemon = self.enter(Daemon(*LIMITS[:2], "--catch-up", "0.5", "--behind", "600", "--stall", "600",
                                         listen=rtsp.listen()))

    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def wait_skipped(self, count, least):
        """Waits until so many players have skipped so many frames each."""
        def look():
            skipped = [player["drops"]["catch_up"] for player in self.daemon.api()["players"]]
            return len([one for one in skipped if one >= least]) == count
        harness.wait_until(look, "players that skip")

    def check_caught_up(self, places, live):
        """Where in the stream the frames were that came, one after the other: a gap, and then what was live.

        Another gap is that of a player that a busy machine kept from reading once more.
        """
        gaps = [(one, other) for one, other in zip(places, places[1:]) if other > one + 1]
        self.assertGreater(len(gaps), 0)
        behind, place = gaps[0]
        self.assertLess(behind, live - self.LOST)
        self.assertGreater(place, live - self.MOST)

    def test_catches_up(self):
        """By HTTP and RTSP: who has taken nothing for a while goes on with what is live, at a key frame."""
        normal = self.enter(Player(self.daemon, "live/a"))
        slow = [self.enter(Player(self.daemon, "live/a", version, RECEIVE_BUFFER, reading=False))
                for version in ("1.1", "1.0")]
        self.daemon.wait_player("live/a", 3)
        with Source(self.daemon, [normal], **self.PACE) as source:
            normal.wait_tags(10)
            client = self.enter(rtsp.Client(self.daemon, receive_buffer=RECEIVE_BUFFER))
            client.play((0,))
            self.wait_skipped(3, self.LOST)
            live = len(source.sent)
            for player in slow:
                player.start()
                player.wait(lambda player: len(player.tags) > 10 and player.tags[-1] in source.sent[-40:], "live")
            places = self.places_of_rtp(client, live)
            sent = source.end()
            where = {tag: index for index, tag in enumerate(sent) if tag.is_frame}
            for player in slow:
                player.wait_frame(sent[-1])
                self.check_caught_up([where[frame] for frame in player.frames], live)
                frames = player.frames
                after = next(at for at, frame in enumerate(frames) if at and where[frame] > where[frames[at - 1]] + 1)
                self.assertTrue(frames[after].is_key_frame)
                # What was there before is what the kernel had: by itself it would take 4 MB, a minute of many streams.
                self.assertLess(sum(len(frame.payload) for frame in frames[:after]), MIB)
            # Of every second tag, which is video.
            self.check_caught_up([place // 2 for place in places], live // 2)
            normal.wait_frame(sent[-1])
            harness.check_same(normal.tags, sent, "tags")
            self.assertEqual(self.daemon.log("player ended"), [])

    def places_of_rtp(self, client, live):
        """The places of the frames of video that come by RTP, until they are of what was sent later."""
        places = []
        while not places or places[-1] < live:
            payload = client.next_rtp().payload
            # The first fragment of a frame, and behind the unit's own header the number that all of it is made of.
            if payload[0] & 31 == 28 and payload[1] & 0x80:
                places.append(2 * int.from_bytes(payload[2:5], "big") + len(flv.first_tags()))
        return places

    def test_is_ended(self):
        """Who takes less than comes is told of once, and ended when that has lasted; who keeps up is not."""
        with Daemon(*LIMITS[:2], "--catch-up", "0.2", "--behind", "3", "--stall", "60") as daemon, \
                Player(daemon, "live/a") as normal, \
                Player(daemon, "live/a", receive_buffer=RECEIVE_BUFFER, reading=False) as slow:
            daemon.wait_player("live/a", 2)
            with Source(daemon, [normal], **self.PACE) as source:
                harness.in_thread(self, lambda: SlowPlayerTest.drip(slow.peer, threading.Event()))
                daemon.wait_log("player ended", peer=slow.address, reason="too far behind")
                said, = daemon.log("player is slow")
                self.assertEqual(said.fields["peer"], slow.address)
                self.assertGreater(int(said.fields["behind_ms"]), 0)
                sent = source.end()
                normal.wait_frame(sent[-1])
                harness.check_same(normal.tags, sent, "tags")
                self.assertEqual(len(daemon.log("player ended")), 1)


if __name__ == "__main__":
    harness.main()
