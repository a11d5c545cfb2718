"""The merge window: what is due to players is gathered and leaves in few sends; what they get stays the same.

What ffmpeg has to say of it is in test_identity.py, players that do not keep up are in test_slow_player.py.
"""

import contextlib
import re
import struct
import threading
import time
import unittest

import flv
import harness
import rtsp
from harness import Daemon, Player, Publisher

WINDOW = 350
TWO_LISTENERS = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--http", "127.0.0.1:0,merge-window=20")


def player_state(daemon, player):
    """What the API says of this player."""
    return state_at(daemon, player.address)


def state_at(daemon, address):
    return next(one for one in daemon.api()["players"] if one["address"] == address)


def metric(daemon, name):
    """That of the only worker."""
    text = daemon.admin("GET", "/metrics")[2].decode()
    return float(re.search(r'^%s\{worker="0"\} (\S+)$' % name, text, re.MULTILINE).group(1))


class MergeWindowTest(unittest.TestCase):
    @contextlib.contextmanager
    def playing(self, *options, players=1, video=True, audio=True):
        """A daemon with a publisher and players that have all of what was sent: (daemon, publisher, players, sent)."""
        with Daemon(*options) as daemon:
            everyone = [Player(daemon, "live/a", "1.%d" % (number % 2)) for number in range(players)]
            daemon.wait_player("live/a", players)
            with Publisher(daemon, "live/a", "http") as publisher:
                source = flv.frames(video, audio)
                sent = flv.first_tags(video, audio) + [next(source) for _ in range(2)]
                publisher.send(flv.header() + b"".join(tag.pack() for tag in sent))
                for player in everyone:
                    player.wait_frame(sent[-1])
                yield daemon, publisher, everyone, sent, source
            for player in everyone:
                player.close()
            daemon.blocks_settled()

    def publish_slowly(self, publisher, source, sent, count):
        """So many frames, one at a time."""
        for _ in range(count):
            sent.append(next(source))
            publisher.send(sent[-1])
            time.sleep(0.005)

    def check_gathered(self, video, audio):
        """What comes does not change; that it comes in one send a window is test_coalesce.c's, which has a clock."""
        with self.playing("--merge-window", str(WINDOW), players=3, video=video, audio=audio) as (
                daemon, publisher, players, sent, source):
            self.publish_slowly(publisher, source, sent, 150)
            for player in players:
                player.wait_frame(sent[-1])
                harness.check_same(player.tags, sent, "tags")
            self.assertEqual(daemon.stream("live/a")["sends"],
                             sum(player_state(daemon, player)["sends"] for player in players))

    def test_few_sends(self):
        self.check_gathered(True, True)

    def test_few_sends_audio_only(self):
        self.check_gathered(False, True)

    def test_few_sends_by_rtsp(self):
        """Beside an HTTP player, in whose group it is."""
        with Daemon("--merge-window", str(WINDOW), listen=rtsp.listen()) as daemon:
            with Publisher(daemon, "live/a", "http") as publisher, Player(daemon, "live/a") as player, \
                    rtsp.Client(daemon) as client:
                source = flv.frames()
                sent = flv.first_tags() + [next(source) for _ in range(2)]
                publisher.send(flv.header() + b"".join(tag.pack() for tag in sent))
                player.wait_frame(sent[-1])
                client.play()
                self.check_rtp(client, sent[-2:])
                address = harness.address_text(client.peer)
                first = len(sent)
                self.publish_slowly(publisher, source, sent, 150)
                self.check_rtp(client, sent[first:])
                state = state_at(daemon, address)
                self.assertEqual((state["protocol"], state["merge_window_ms"]), ("rtsp", WINDOW))
                player.wait_frame(sent[-1])
                harness.check_same(player.tags, sent, "tags")
                publisher.close()
            daemon.blocks_settled()

    def check_rtp(self, client, sent):
        """The audio frames come, all of them, and no packet of video is missing."""
        numbers = [flv.number_of(tag) for tag in sent if tag.type == flv.AUDIO]
        video = []
        while numbers:
            packet = client.next_rtp()
            if packet.channel == 2:
                self.assertEqual(struct.unpack(">I", packet.payload[4:8])[0], numbers.pop(0))
            else:
                video.append(packet.sequence)
        self.assertEqual(video, [(video[0] + at) & 0xFFFF for at in range(len(video))])

    def test_frames_further_apart_than_the_window(self):
        """None waits for a window's end, since nothing would come. (On a busy machine some come too late, and then together.)"""
        window, count = 0.02, 60
        with self.playing("--workers", "1", "--merge-window", "20", video=False) as (
                daemon, publisher, (player,), sent, source):
            for _ in range(count):
                sent.append(next(source))
                publisher.send(sent[-1])
                time.sleep(0.025)
            player.wait_frame(sent[-1])
            harness.check_same(player.tags, sent, "tags")
            self.assertGreaterEqual(metric(daemon, "sluice_worker_merged_frames_total"), count)
            self.assertLess(metric(daemon, "sluice_worker_merge_delay_seconds_total"), count * window / 4)

    def test_which_window_holds_by_rtsp(self):
        """The same order, of listeners of its own."""
        listen = ("--http", "127.0.0.1:0,merge-window=5", "--rtsp", "127.0.0.1:0", "--rtsp", "127.0.0.1:0,merge-window=20")
        with Daemon("--merge-window", "50", "--merge-window", "live/b=100", listen=listen) as daemon:
            for name, windows in (("live/a", (50, 20)), ("live/b", (100, 100))):
                for at, window in enumerate(windows):
                    with rtsp.Client(daemon, name, at=at) as client:
                        client.send("DESCRIBE")
                        daemon.wait_player(name)
                        state = state_at(daemon, harness.address_text(client.peer))
                        self.assertEqual(state["merge_window_ms"], window)
                    harness.wait_until(lambda: not daemon.stream(name), "the player to leave")

    def test_without_a_window(self):
        with self.playing("--merge-window", "0") as (daemon, publisher, (player,), sent, source):
            before = player_state(daemon, player)["sends"]
            for _ in range(50):
                sent.append(next(source))
                publisher.send(sent[-1])
                player.wait_frame(sent[-1])
            self.assertEqual(player_state(daemon, player)["sends"] - before, 50)
            self.assertEqual(daemon.stream("live/a")["merge_window_ms"], 0)

    @contextlib.contextmanager
    def busy(self, daemon):
        """The worker's core is full: another stream comes and goes as fast as it can."""
        stop = threading.Event()
        load, _ = flv.stream(2000, size=20000)

        def publish():
            while not stop.is_set():
                with Publisher(daemon, "live/busy", "http") as publisher:
                    with contextlib.suppress(OSError):
                        publisher.send(load)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def test_automatic(self):
        """No window while the core is idle; on a full one frames wait for others, and none is changed."""
        with self.playing("--workers", "1", players=40) as (daemon, publisher, players, sent, source):
            player = players[0]
            harness.wait_until(lambda: daemon.stream("live/a")["merge_window_ms"] == 0, "no window")
            self.assertIs(daemon.stream("live/a")["merge_window_auto"], True)
            self.assertIs(player_state(daemon, player)["merge_window_auto"], True)

            def merged():
                self.publish_slowly(publisher, source, sent, 10)
                state = player_state(daemon, player)
                # Waits are counted in whole milliseconds, of which the first frames may have waited none.
                return state["merge_window_ms"] > 0 and metric(daemon, "sluice_worker_merge_delay_seconds_total") > 0

            with self.busy(daemon):
                harness.wait_until(merged, "frames that wait")
            for player in players:
                player.wait_frame(sent[-1])
                harness.check_same(player.tags, sent, "tags")
            self.assertGreater(metric(daemon, "sluice_worker_merged_frames_total"), 0)
            harness.wait_until(lambda: metric(daemon, "sluice_worker_merge_window_seconds") == 0, "the window to close")

    def test_never_automatic(self):
        """Neither with a window of 0, nor with a longest one of 0, nor for a player whose frames are not the load."""
        for options, is_auto in ((("--merge-window", "0"), False), (("--merge-window-max", "0"), True), ((), True),
                                 (("--merge-window", "20", "--merge-window", "live/*=0"), False)):
            with self.playing("--workers", "1", *options) as (daemon, publisher, (player,), sent, source):

                def is_loaded():
                    self.publish_slowly(publisher, source, sent, 10)
                    return metric(daemon, "sluice_worker_load_ratio") > 0.06

                with self.busy(daemon):
                    harness.wait_until(is_loaded, "a load")
                    state = player_state(daemon, player)
                player.wait_frame(sent[-1])
                harness.check_same(player.tags, sent, "tags")
                self.assertEqual((state["merge_window_ms"], state["merge_window_auto"]), (0, is_auto))
                self.assertEqual(metric(daemon, "sluice_worker_merged_frames_total"), 0)

    def test_automatic_listener(self):
        listen = ("--http", "127.0.0.1:0,merge-window=auto", "--http", "127.0.0.1:0")
        with Daemon("--merge-window", "50", "--merge-window-max", "0", listen=listen) as daemon:
            shown = daemon.api("/api/v1/config")["listeners"]
            self.assertEqual([(one["merge_window_ms"], one["merge_window_auto"]) for one in shown],
                             [(None, True), (None, False)])
            for at, (window, is_auto) in enumerate(((0, True), (50, False))):
                with Player(daemon, "live/a", at=at) as player:
                    daemon.wait_player("live/a")
                    state = player_state(daemon, player)
                    self.assertEqual((state["merge_window_ms"], state["merge_window_auto"]), (window, is_auto))
                harness.wait_until(lambda: not daemon.stream("live/a"), "the player to leave")

    def test_which_window_holds(self):
        """The stream's, or else the listener's, or else everybody's."""
        options = ("--merge-window", "50", "--merge-window", "live/b=100", "--merge-window", "live/c=3",
                   "--merge-window", "live/c=0")
        expected = {"live/a": (50, 20), "live/b": (100, 100), "live/c": (0, 0)}
        for order in (options, options[2:] + options[:2]):
            with Daemon(*order, listen=TWO_LISTENERS) as daemon, contextlib.ExitStack() as stack:
                players = {(name, at): stack.enter_context(Player(daemon, name, at=at))
                           for name in expected for at in (0, 1)}
                for name, windows in expected.items():
                    stream = daemon.wait_player(name, 2)
                    self.assertEqual(stream["merge_window_ms"], windows[0])
                    for at in (0, 1):
                        self.assertEqual(player_state(daemon, players[name, at])["merge_window_ms"], windows[at])
                # Players of one stream with different windows get the same.
                data, sent = flv.stream(200)
                with Publisher(daemon) as publisher:
                    publisher.send(data)
                    for at in (0, 1):
                        players["live/a", at].wait_frame(sent[-1])
                        harness.check_same(players["live/a", at].tags, sent, "tags")

    def test_listener_without_one(self):
        with Daemon("--merge-window", "50", listen=("--http", "127.0.0.1:0,merge-window=0", "--http", "[::1]:0,merge-window=7",
                                                    "--http", "127.0.0.1:0")) as daemon:
            for at, window in enumerate((0, 7, 50)):
                with Player(daemon, "live/a", at=at) as player:
                    harness.wait_until(lambda: daemon.stream("live/a"), "the player")
                    self.assertEqual(player_state(daemon, player)["merge_window_ms"], window)
                harness.wait_until(lambda: not daemon.stream("live/a"), "the player to leave")

    def test_last_frame_and_late_player(self):
        """What is gathered leaves by itself, and a player that comes late starts without anything new."""
        with self.playing("--merge-window", str(WINDOW)) as (daemon, publisher, (player,), sent, source):
            for count in (1, 2, 20):
                new = [next(source) for _ in range(count)]
                sent += new
                publisher.send(b"".join(tag.pack() for tag in new))
                player.wait_frame(sent[-1])
            with Player(daemon, "live/a") as late:
                late.wait_frame(sent[-1])
                harness.check_same(late.tags, sent, "tags")

    def test_restart_and_end(self):
        """Nothing that is gathered is lost when the publisher leaves, when another comes, or when the daemon stops."""
        with Daemon("--merge-window", str(WINDOW)) as daemon, contextlib.ExitStack() as stack:
            players = [stack.enter_context(Player(daemon, "live/a", version)) for version in ("1.1", "1.0")]
            daemon.wait_player("live/a", 2)
            for first in (0, 60, 120):
                data, sent = flv.stream(60, first=first)
                with Publisher(daemon, "live/a", "http") as publisher:
                    publisher.send(data)
                    self.assertEqual(publisher.finish(), 200)
                numbers = [(tag.type, flv.number_of(tag)) for tag in sent if tag.is_frame]
                for player in players:
                    player.wait(lambda it: len(it.frames) >= first + 60, "the frames")
                    self.assertEqual([(tag.type, flv.number_of(tag)) for tag in player.frames[first:]], numbers)
                    times = [tag.timestamp for tag in player.frames]
                    self.assertEqual(times, sorted(times))
            with Publisher(daemon, "live/a", "http") as publisher:
                data, sent = flv.stream(60, first=200)
                publisher.send(data)
                # The last publisher's frames were as many.
                daemon.wait_stream("live/a", lambda stream: stream["state"] == "live" and
                                   stream["frames"]["video"] + stream["frames"]["audio"] == 60)
                daemon.stop()
            for player in players:
                player.wait_end()
                self.assertIsNone(player.error)
                self.assertEqual(flv.number_of(player.frames[-1]), flv.number_of(sent[-1]))
                self.assertEqual(player.rest, 0)

    def test_leaving_while_gathered(self):
        """Players that go, and a publisher that is cut off, leave nothing behind: the helper looks at the pool."""
        with self.playing("--merge-window", str(WINDOW), players=4) as (daemon, publisher, players, sent, source):
            staying, going = players[0], players[1:]
            for player in going:
                self.publish_slowly(publisher, source, sent, 3)
                player.close()
                self.publish_slowly(publisher, source, sent, 3)
            harness.wait_until(lambda: daemon.stream("live/a")["subscribers"] == 1, "the players to leave")
            staying.wait_frame(sent[-1])
            harness.check_same(staying.tags, sent, "tags")
            self.publish_slowly(publisher, source, sent, 3)
            publisher.close()
            staying.wait_frame(sent[-1])

    def test_all_leave_while_gathered(self):
        with self.playing("--merge-window", str(WINDOW), players=2) as (_, publisher, players, sent, source):
            self.publish_slowly(publisher, source, sent, 3)
            for player in players:
                player.close()

    def test_much_does_not_wait(self):
        """A window that would gather more than a player's buffer costs nobody a frame."""
        limits = ("--player-buffer", "64K", "--frame-limit", "64K", "--gop-size", "64K")
        with self.playing("--merge-window", str(WINDOW), *limits) as (daemon, publisher, (player,), sent, _):
            for number in range(60):
                sent.append(flv.video_frame(100 + number, False, 100 + number, 6000))
                publisher.send(sent[-1])
                daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] == number + 2)
            player.wait_frame(sent[-1])
            harness.check_same(player.tags, sent, "tags")
            self.assertEqual(player_state(daemon, player)["frames_dropped"], 0)

    def test_little_memory(self):
        """Where blocks are short, frames are sent and not gathered: none is lost for want of memory."""
        with Daemon("--workers", "2", "--memory", "4M", "--gop-size", "32K", "--merge-window", str(WINDOW)) as daemon, \
                contextlib.ExitStack() as stack:
            names = ["live/%d" % number for number in range(40)]
            players = [stack.enter_context(Player(daemon, name)) for name in names]
            publishers = [stack.enter_context(Publisher(daemon, name, "http")) for name in names]
            sent = flv.first_tags() + [next(source) for source in [flv.frames(size=8000)] for _ in range(2)]
            for publisher in publishers:
                publisher.send(flv.header() + b"".join(tag.pack() for tag in sent))
            for player in players:
                player.wait_frame(sent[-1])
            for number in range(30):
                sent.append(flv.video_frame(100 + number, False, 100 + number, 8000))
                for publisher in publishers:
                    publisher.send(sent[-1])
                daemon.wait_stream(names[-1], lambda stream: stream["frames"]["video"] == number + 2)
            for player in players:
                player.wait_frame(sent[-1])
                harness.check_same(player.tags, sent, "tags")


if __name__ == "__main__":
    harness.main()
