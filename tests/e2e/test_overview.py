"""Parts of what there is, for the console: pages of hundreds of streams, the slow players first, the frames of a stream's last
minute, and the load of the last hour."""

import contextlib
import unittest
import urllib.parse

import flv
import harness
from harness import Daemon, Player, Publisher, Steady

WAITING = 300


class PagesTest(unittest.TestCase):
    """Hundreds of streams without a publisher, with a player each, on several workers; and some that are live."""

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.daemon = stack.enter_context(Daemon("--workers", "3", "--wait", "600", "--idle", "600"))
        cls.names = ["wait/%s%03d" % ("odd" if number % 2 else "even", number) for number in range(WAITING)]
        for name in cls.names:
            stack.enter_context(contextlib.closing(Player(cls.daemon, name, reading=False).peer))
        for number in range(2):
            stack.enter_context(contextlib.closing(Player(cls.daemon, "live/b", reading=False).peer))
        cls.live = []
        for name, count in (("live/a", 20), ("live/b", 40)):
            cls.live.append(stack.enter_context(Publisher(cls.daemon, name, "http")))
            cls.live[-1].send(flv.stream(count)[0])
            cls.daemon.wait_stream(name)
        harness.wait_until(lambda: cls.overview()["counts"]["players"] == WAITING + 2, "all players")

    @classmethod
    def overview(cls, **query):
        return cls.daemon.api("/api/v1/overview?" + urllib.parse.urlencode(query))

    def page(self, **query):
        page = self.daemon.api("/api/v1/streams?" + urllib.parse.urlencode(query))
        self.assertEqual(self.overview(**query)["matching"], page["matching"])
        return [stream["name"] for stream in page["streams"]], page["matching"]

    def test_sums(self):
        overview = self.overview()
        counts = overview["counts"]
        self.assertEqual([counts[key] for key in ("live", "waiting", "players", "workers", "workers_answering")],
                         [2, WAITING, WAITING + 2, 3, 3])
        self.assertEqual((len(overview["streams"]), overview["matching"], len(overview["players"])), (50, WAITING + 2, 100))

    def test_pages(self):
        """Page by page, each stream is there once, in the order of the names."""
        everything = sorted(self.names + ["live/a", "live/b"])
        got = []
        for offset in range(0, WAITING + 2, 70):
            page, matching = self.page(offset=offset, limit=70)
            self.assertEqual(matching, WAITING + 2)
            got += page
        self.assertEqual(got, everything)
        self.assertEqual(self.page(offset=WAITING + 2)[0], [])
        self.assertEqual(self.page(order="desc", limit=3)[0], everything[:-4:-1])
        self.assertEqual(self.page(limit=1)[0], everything[:1])
        # Without a query it is all of them, as ever.
        document = self.daemon.api("/api/v1/streams")
        self.assertEqual((len(document["streams"]), "matching" in document), (WAITING + 2, False))

    def test_search(self):
        self.assertEqual(self.page(search="ODD", limit=500), (sorted(name for name in self.names if "odd" in name), WAITING // 2))
        self.assertEqual(self.page(search="even010"), (["wait/even010"], 1))
        self.assertEqual(self.page(search=self.live[0].address), (["live/a"], 1))
        self.assertEqual(self.page(search="nothing"), ([], 0))
        self.assertEqual(self.page(search="x" * 64), ([], 0))

    def test_sort(self):
        """Those that differ come first or last, whichever worker has them; the others by name."""
        for sort, order, first in (("state", "asc", ["live/a", "live/b"]), ("players", "desc", ["live/b", self.names[0]]),
                                   ("media", "desc", ["live/a", "live/b"]), ("publisher", "asc", sorted(self.names)[:2]),
                                   ("players", "asc", ["live/a", sorted(self.names)[0]]),
                                   ("uptime", "desc", self.names[:1]), ("lost", "desc", ["live/a", "live/b"]),
                                   ("recording", "asc", ["live/a", "live/b"]), ("name", "asc", ["live/a", "live/b"])):
            with self.subTest(sort=sort, order=order):
                if sort == "uptime":
                    # They have come one after the other, some of them in the same millisecond.
                    page = self.daemon.api("/api/v1/streams?sort=uptime&order=desc")["streams"]
                    ages = [stream["uptime_seconds"] for stream in page]
                    self.assertEqual(ages, sorted(ages, reverse=True))
                    self.assertNotIn("live/b", [stream["name"] for stream in page])
                else:
                    self.assertEqual(self.page(sort=sort, order=order, limit=2)[0], first)

    def test_bounds(self):
        """What is one step beyond is refused, and so is what is not known."""
        for path in ("/api/v1/streams", "/api/v1/overview"):
            for good in ("limit=1", "limit=500", "offset=0", "offset=1000000", "search=" + "x" * 64, "search="):
                self.assertEqual(self.daemon.admin("GET", path + "?" + good)[0], 200, good)
            for bad in ("limit=0", "limit=501", "limit=x", "limit=", "offset=1000001", "offset=-1", "search=" + "x" * 65,
                        "sort=size", "sort=", "order=up", "page=1", "limit=1&limit=501"):
                self.assertEqual(self.daemon.admin("GET", path + "?" + bad)[0], 400, bad)
        for good in ("?players=1", "?players=500", ""):
            self.assertEqual(self.daemon.admin("GET", "/api/v1/streams/live%2Fb" + good)[0], 200, good)
        for bad in ("?players=0", "?players=501", "?limit=1"):
            self.assertEqual(self.daemon.admin("GET", "/api/v1/streams/live%2Fb" + bad)[0], 400, bad)

    def test_players_of_a_stream(self):
        """As many as are asked for; the stream says how many there are."""
        for most, count in ((1, 1), (2, 2), (500, 2)):
            stream = self.daemon.api("/api/v1/streams/live%%2Fb?players=%d" % most)
            self.assertEqual((len(stream["players"]), stream["subscribers"]), (count, 2))


class SpreadTest(unittest.TestCase):
    def test_spread(self):
        """A stream whose players other workers serve is there once, with all of them, and sorted by all of them."""
        with Daemon("--workers", "2", "--spread", "1", "--wait", "600") as daemon, contextlib.ExitStack() as stack:
            with Steady(daemon) as steady:
                for name, players in ((steady.name, 4), ("live/other", 3), ("live/third", 1)):
                    for _ in range(players):
                        stack.enter_context(Player(daemon, name))
                harness.wait_until(lambda: daemon.api("/api/v1/overview")["counts"]["players"] == 9, "all players")
                page = lambda: [(stream["name"], stream["subscribers"])
                                for stream in daemon.api("/api/v1/streams?sort=players&order=desc&limit=2")["streams"]]
                harness.wait_until(lambda: page() == [(steady.name, 5), ("live/other", 3)], lambda: "the order: %s" % page())
                stream = daemon.api("/api/v1/streams/%s?players=500" % urllib.parse.quote(steady.name, ""))
                self.assertEqual((len(stream["players"]), len({player["worker"] for player in stream["players"]})), (5, 2))
                self.assertGreater(sum(second["frames"] for second in stream["last_minute"]), 0)
                steady.go_on()


class OutgoingTest(unittest.TestCase):
    def test_failing_first(self):
        """Of pulls and forwards, a list that is too short for all has those that fail."""
        options = ("--workers", "2", "--pull", "rtsp://127.0.0.1:1/x=live/fails")
        idle = [word for number in range(6) for word in ("--pull", "rtsp://127.0.0.1:1/x=live/idle%d,on-demand" % number)]
        with Daemon(*options, *idle, "--forward", "live/*=http://127.0.0.1:1/*.flv") as daemon:
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(flv.stream(40)[0])
                failing = lambda kind: [one["stream"] for one in daemon.api("/api/v1/%s?limit=1" % kind)[kind]
                                        if one["state"] == "waiting"]
                harness.wait_until(lambda: failing("pulls") == ["live/fails"], "the pull that fails")
                harness.wait_until(lambda: failing("forwards") == ["live/a"], "the forward that fails")
                for limit, count in ((1, 1), (6, 6), (7, 7), (500, 7)):
                    answer = daemon.api("/api/v1/pulls?limit=%d" % limit)
                    self.assertEqual((len(answer["pulls"]), answer["total"]), (count, 7))
                self.assertEqual((len(daemon.api("/api/v1/pulls")["pulls"]), "total" in daemon.api("/api/v1/pulls")), (7, False))
                for kind in ("pulls", "forwards"):
                    for bad in ("limit=0", "limit=501", "limit=x", "offset=1"):
                        self.assertEqual(daemon.admin("GET", "/api/v1/%s?%s" % (kind, bad))[0], 400, bad)


class SlowFirstTest(unittest.TestCase):
    def test_slow_first(self):
        """A list that is too short for all has the slow players."""
        with Daemon("--player-buffer", "256K", "--gop-size", "64K", "--frame-limit", "64K", "--behind", "60") as daemon:
            with Steady(daemon, pause=0.001) as steady, Player(daemon, steady.name, receive_buffer=4096, reading=False) as slow:
                look = lambda: daemon.api("/api/v1/overview")
                harness.wait_until(lambda: look()["counts"]["slow_players"] == 1, "the slow player")
                with Player(daemon, steady.name) as another:
                    daemon.wait_player(steady.name, 3)
                    path = "/api/v1/streams/%s?players=1" % urllib.parse.quote(steady.name, "")
                    # Between two drops it is not slow.
                    first = lambda document: [(one["address"], one["slow"]) for one in document["players"]][:1]
                    harness.wait_until(lambda: first(daemon.api(path)) == [(slow.address, True)], "the slow one alone")
                    harness.wait_until(lambda: first(look()) == [(slow.address, True)], "the slow one first")
                    self.assertEqual(len(daemon.api(path)["players"]), 1)
                    addresses = [player["address"] for player in look()["players"]]
                    self.assertEqual(len(addresses), 3)
                    self.assertIn(another.address, addresses)


class MinuteTest(unittest.TestCase):
    def test_last_minute(self):
        """The sums over the seconds are those of the frames that were sent: of the video, if there is any."""
        first = flv.first_tags()
        source = flv.frames()
        frames = [tag._replace(payload=tag.payload + bytes(number % 90 + 500 * tag.is_key_frame))
                  for number, tag in zip(range(200), source)]
        video = [tag for tag in frames if tag.type == flv.VIDEO]
        sizes = [len(tag.payload) for tag in video]
        keys = [len(tag.payload) for tag in video if tag.is_key_frame]
        self.assertTrue(keys)
        with Daemon() as daemon, Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in first + frames))
            daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] == len(video), "all frames")
            minute = daemon.api("/api/v1/streams/live%2Fa")["last_minute"]
            self.assertEqual(len(minute), 60)
            total = lambda key: sum(second[key] for second in minute)
            most = lambda key: max(second[key] for second in minute)
            self.assertEqual((total("frames"), total("bytes"), total("key_frames"), most("largest"), most("largest_key")),
                             (len(video), sum(sizes), len(keys), max(sizes), max(keys)))
            # Lists of streams are without it.
            self.assertNotIn("last_minute", daemon.stream("live/a"))

    def test_audio_alone(self):
        frames = [tag for tag, _ in zip(flv.frames(video=False), range(50))]
        with Daemon() as daemon, Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(flv.header(4) + b"".join(tag.pack() for tag in frames))
            daemon.wait_stream("live/a", lambda stream: stream["frames"]["audio"] == len(frames), "all frames")
            minute = daemon.api("/api/v1/streams/live%2Fa")["last_minute"]
            self.assertEqual(sum(second["frames"] for second in minute), len(frames))
            self.assertEqual(sum(second["key_frames"] for second in minute), 0)


class HistoryTest(unittest.TestCase):
    def test_history(self):
        """The first sample is one of the first ten seconds. (test_history.c has a whole hour.)"""
        with Daemon("--workers", "2") as daemon, Steady(daemon) as steady:
            history = daemon.api("/api/v1/history")
            self.assertEqual((history["interval_seconds"], history["samples_max"], len(history["cpu"])), (10, 360, 2))
            look = lambda: [one for one in daemon.api("/api/v1/history")["received_bits_per_second"] if one]
            harness.wait_until(look, "a sample")
            history = daemon.api("/api/v1/history")
            series = [history[key] for key in ("received_bits_per_second", "sent_bits_per_second", "frames_dropped",
                                               "frames_lost")] + history["cpu"]
            self.assertEqual({len(one) for one in series}, {len(series[0])})
            self.assertGreater(max(value or 0 for value in series[0]), 0)
            self.assertGreater(max(value or 0 for value in series[1]), 0)
            self.assertEqual([value for value in series[2] if value], [])
            self.assertTrue(all(0 <= value <= 1.1 for one in history["cpu"] for value in one if value is not None))
            steady.go_on()


if __name__ == "__main__":
    harness.main()
