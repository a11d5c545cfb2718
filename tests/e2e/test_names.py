"""Names: a stream's name is its publisher's, until that leaves; who comes back finds it free.

Environment: SLUICE_TEST_ROUNDS, how often each publisher comes back.
"""

import contextlib
import os
import socket
import struct
import threading
import unittest

import flv
import harness
import rtsp
from camera import Camera
from harness import Daemon, Player, Publisher
from relay import RtspPlayer, Source, WebSocketPlayer, check_rising, wait_number

ROUNDS = int(os.environ.get("SLUICE_TEST_ROUNDS", "15"))
NAMES = ["live/b%d" % i for i in range(6)]
TAKEN = "replaced by another publisher"
REFUSALS = ("publish refused", "request refused")


def listen(names):
    """A raw listener for each of the names, and one for each other protocol."""
    raw = [word for name in names for word in ("--flv", "127.0.0.1:0=%s" % name)]
    return (*raw, "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")


class Comer:
    """A publisher that comes and goes, by whatever protocol, and leaves with more behind it than is read at once."""

    FRAMES, SIZE = 40, 6000

    def __init__(self, daemon, at, rounds):
        self.daemon, self.at, self.rounds = daemon, at, rounds
        self.name, self.sent, self.error = NAMES[at], [], None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            for number in range(self.rounds):
                self._come((number + self.at) % 3, number)
        except (OSError, AssertionError) as error:
            self.error = error

    def _come(self, way, number):
        if way == 2:
            self._announce(number)
            return
        proto = ("flv", "http")[way]
        with Publisher(self.daemon, self.name, proto, at=self.at if way == 0 else 0) as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            # The same port may have been another publisher's, elsewhere.
            self.daemon.wait_log("publisher started", peer=publisher.address, stream=self.name, proto=proto)
            source = flv.frames(first=number * self.FRAMES, size=self.SIZE)
            tags = [next(source) for _ in range(self.FRAMES)]
            self.sent += tags
            publisher.send(b"".join(tag.pack() for tag in tags))

    def _announce(self, number):
        with rtsp.Client(self.daemon, self.name) as client:
            # Nothing is owed when it goes by a reset.
            if number % 2:
                client.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            status = client.ask("ANNOUNCE", body=rtsp.SDP).status
            if status != 200:
                raise AssertionError("ANNOUNCE is answered %d" % status)

    def join(self):
        self._thread.join()
        return self.error


class ComeBackTest(unittest.TestCase):
    """A publisher that has gone without a word, and is there again at once, finds its stream free."""

    def come_back(self, workers):
        with Daemon("--workers", str(workers), "--log-rate", "0", listen=listen(NAMES)) as daemon:
            players = [Player(daemon, name) for name in NAMES]
            for name in NAMES:
                daemon.wait_player(name)
            comers = [Comer(daemon, at, ROUNDS) for at in range(len(NAMES))]
            errors = [comer.join() for comer in comers]
            self.assertEqual(errors, [None] * len(NAMES))
            daemon.wait_log("publisher ended", len(NAMES) * ROUNDS)
            for words in REFUSALS:
                self.assertEqual(daemon.log(words), [])
            for comer, player in zip(comers, players):
                # All of what each has left behind, in order, in a time that goes up.
                player.wait(lambda player, comer=comer: len(player.frames) >= len(comer.sent), "all frames")
                harness.check_same([frame.payload for frame in player.frames], [tag.payload for tag in comer.sent])
                for kind in (flv.VIDEO, flv.AUDIO):
                    times = [frame.timestamp for frame in player.frames if frame.type == kind]
                    self.assertEqual(times, sorted(times))
                player.close()
            daemon.blocks_settled()

    def test_one_worker(self):
        self.come_back(1)

    def test_four_workers(self):
        self.come_back(4)

    def test_pulls(self):
        """The name is asked for with the last SETUP: while a publisher has just left."""
        names = ["live/p%d" % i for i in range(8)]
        publishers, started = {}, threading.Lock()
        data, _ = flv.stream(40, size=6000)

        def name_of(request):
            return "live/" + request.url.rpartition("127.0.0.1:%d/" % camera.port)[2].partition("/")[0]

        def describe(request):
            """Another publisher comes while the pull is on its way."""
            name = name_of(request)
            publisher = Publisher(self.daemon, name, "http")
            publisher.send(data)
            self.daemon.wait_log("publisher started", stream=name, proto="http")
            with started:
                publishers[name] = publisher
            return camera._answer(request)  # pylint: disable=protected-access

        def setup(request):
            publisher = publishers[name_of(request)]
            publisher.send(data[13:])
            publisher.close()
            return camera._answer(request)  # pylint: disable=protected-access

        camera = Camera(self, DESCRIBE=describe, SETUP=setup)
        pulls = [word for name in names for word in ("--pull", "%s=%s,on-demand" % (camera.url(name[5:]), name))]
        with Daemon("--workers", "2", "--log-level", "debug", "--log-rate", "0", *pulls,
                    listen=listen(NAMES[:1])) as self.daemon:
            camera.start()
            players = [Player(self.daemon, name) for name in names]
            for name in names:
                self.daemon.wait_log("pull", stream=name, state="playing")
            self.assertEqual(self.daemon.log("pull", state="waiting"), [])
            self.assertEqual(self.daemon.log("publish refused"), [])
            for player in players:
                # A frame of the camera's is of 200 bytes.
                player.wait(lambda player: any(len(frame.payload) < 1000 for frame in player.frames
                                               if frame.type == flv.VIDEO), "a frame of the camera's")
                player.close()
            camera.close()


class HeldTest(unittest.TestCase):
    """A publisher that is there to stay keeps its name, whoever comes."""

    def test_refused(self):
        with Daemon("--workers", "2", listen=listen(NAMES)) as daemon:
            data, tags = flv.stream(20)
            with Publisher(daemon, NAMES[0], "http") as holder, Player(daemon, NAMES[0]) as player:
                holder.send(data)
                player.wait_frame(tags[-1])
                with Publisher(daemon, NAMES[0], "http") as other, rtsp.Client(daemon, NAMES[0]) as client, \
                        Publisher(daemon, NAMES[0]) as raw:
                    # More than is taken of one that waits.
                    raw.send(data)
                    other.send(flv.stream(100, size=6000)[0])
                    self.assertEqual(client.ask("ANNOUNCE", body=rtsp.SDP).status, 403)
                    self.assertEqual(harness.read_head(other.peer)[0], 409)
                    self.assertEqual(harness.read_to_end(raw.peer), b"")
                daemon.check_log(3, "publish refused", reason="name in use")
                last = flv.audio_frame(800, 9000, 100)
                holder.send(last)
                player.wait_frame(last)
                self.assertEqual(holder.finish(), 200)
            daemon.blocks_settled()


class ManyTest(unittest.TestCase):
    """However many want a name, few wait for it; others are refused as if they had waited."""

    FEW = 16  # of one address
    TRIES = 20

    def publish_all(self, daemon, body, count, name=NAMES[0]):
        """All ask while the publisher is there, and hear of its end in the same turn."""
        with contextlib.ExitStack() as stack:
            holder = Publisher(daemon, name, "http")
            holder.send(flv.stream(5)[0])
            daemon.wait_log("publisher started", peer=holder.address)
            peers = [stack.enter_context(daemon.connect()) for _ in range(count)]
            harness.wait_until(lambda: daemon.connections() == count + 1, "all connections")
            with daemon.standing_still():
                for peer in peers:
                    peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (
                        name.encode(), len(body), body))
                holder.close()
            return [harness.read_head(peer)[0] for peer in peers]

    def test_few_wait(self):
        """Who waits gets the name in turn: each of these has ended at once."""
        with Daemon("--workers", "1", listen=listen(NAMES)) as daemon:
            body = flv.stream(5)[0]
            for count in (self.FEW, self.FEW + 4):
                # On a busy machine some are read in a later turn, in which the name is free again: then it says nothing.
                for _ in range(self.TRIES):
                    statuses = self.publish_all(daemon, body, count)
                    self.assertEqual(statuses.count(200) + statuses.count(409), count)
                    if 0 < statuses.count(200) <= self.FEW:
                        break
                self.assertIn(statuses.count(200), range(1, self.FEW + 1))
            daemon.blocks_settled()

    def test_others_go_on(self):
        """Hundreds that want one name are all answered, and the names and streams of others are not concerned."""
        with Daemon("--workers", "1", listen=listen(NAMES)) as daemon, harness.Steady(daemon, name=NAMES[0]) as steady:
            with contextlib.ExitStack() as stack:
                peers = [stack.enter_context(daemon.connect()) for _ in range(400)]
                for peer in peers:
                    peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\n\r\n" % NAMES[0].encode())
                self.assertEqual(daemon.request("POST", "/live/free.flv", flv.stream(5)[0])[0], 200)
                steady.go_on()
                self.assertEqual({harness.read_head(peer)[0] for peer in peers}, {409})


class TakeOverTest(unittest.TestCase):
    """--same-name take-over: the publisher that comes has the stream, and its players go on."""

    def test_each_kind(self):
        """Each protocol takes over from each other one; who had the stream is told, and the log and the API say why."""
        ways = ("flv", "http", "rtsp", "flv", "rtsp", "http", "http", "flv")
        with Daemon("--workers", "2", "--same-name", "take-over", listen=listen(NAMES)) as daemon, \
                Player(daemon, NAMES[0]) as player:
            daemon.wait_player(NAMES[0])
            before = None
            for number, way in enumerate(ways):
                comer = Source(daemon, NAMES[0], way, number)
                comer.send(10)
                wait_number(player, comer.number - 1)
                if before:
                    before.check_ended(self, 409, TAKEN)
                    before.close()
                before = comer
            daemon.wait_log("publisher ended", len(ways) - 1)
            ended = daemon.log("publisher ended")
            self.assertEqual({line.fields["reason"] for line in ended}, {TAKEN})
            self.assertEqual([line.fields["proto"] for line in ended], list(ways[:-1]))
            shown = daemon.stream(NAMES[0])
            self.assertEqual((shown["previous_end"], shown["publisher"]["protocol"]), (TAKEN, ways[-1]))
            metrics = daemon.admin("GET", "/metrics")[2].decode()
            self.assertIn("\nsluice_publishers_displaced_total %d\n" % (len(ways) - 1), metrics)
            check_rising(self, player.frames)
            before.close()
            player.close()
            daemon.wait_log("publisher ended", len(ways))
            daemon.blocks_settled()

    def test_late_one(self):
        """Who has left again before it was heard of takes nothing over; nor does one that may not publish."""
        with Daemon("--workers", "4", "--same-name", "take-over", "--rule", "publish live/b0 from 127.0.0.1 allow",
                    "--rule", "play * allow", listen=listen(NAMES[:1])) as daemon, \
                Source(daemon, NAMES[0], "http", 0) as holder, Player(daemon, NAMES[0]) as player:
            holder.send(10)
            wait_number(player, holder.number - 1)
            for _ in range(8):
                with daemon.standing_still(), Publisher(daemon, NAMES[0], "http") as late:
                    late.send(flv.stream(10)[0])
            refused = daemon.request("POST", "/live/other.flv", b"")[0]
            self.assertEqual(refused, 403)
            daemon.wait_log("publish refused", 8)
            self.assertEqual(daemon.log("publisher ended"), [])
            holder.send(1)
            wait_number(player, holder.number - 1)
            holder.close()
            player.close()
            daemon.blocks_settled()

    def test_pull(self):
        """A publisher takes a stream from a pull, which does not take it back but waits for its turn."""
        camera = Camera(self)
        with Daemon("--same-name", "take-over", "--pull", "%s=%s" % (camera.url(), NAMES[0]), "--log-level", "debug",
                    listen=listen(NAMES)) as daemon:
            camera.start()
            daemon.wait_log("pull", stream=NAMES[0], state="playing")
            with Source(daemon, NAMES[0], "http", 0) as comer, Player(daemon, NAMES[0]) as player:
                comer.send(20)
                wait_number(player, comer.number - 1)
                daemon.wait_log("pull", stream=NAMES[0], state="waiting", reason=TAKEN)
                daemon.wait_log("pull", stream=NAMES[0], state="waiting", reason="name in use")
                comer.send(20)
                wait_number(player, comer.number - 1)
            daemon.wait_log("pull", 2, stream=NAMES[0], state="playing")
            camera.close()


class ResumeTest(unittest.TestCase):
    """--same-name resume: a stream is kept for its publisher, whoever else comes."""

    def test_players_are_kept(self):
        """Players of all kinds wait, though they would not wait otherwise, and go on in a time that goes up."""
        with Daemon("--same-name", "resume", "--resume", "60", "--wait", "0", listen=listen(NAMES)) as daemon:
            source = Source(daemon, NAMES[0], "http", 0)
            source.send(20)
            daemon.wait_stream(NAMES[0])
            with contextlib.ExitStack() as stack:
                player = stack.enter_context(Player(daemon, NAMES[0]))
                player.wait_tags(20)
                socket_player = stack.enter_context(WebSocketPlayer(daemon, NAMES[0]))
                by_rtsp = stack.enter_context(RtspPlayer(daemon, NAMES[0]))
                for way in ("rtsp", "flv", "http", "rtsp"):
                    last = source
                    last.close()
                    kept = daemon.wait_stream(NAMES[0], lambda stream: stream["kept_seconds"] > 0, "kept")
                    self.assertEqual((kept["state"], kept["subscribers"]), ("waiting", 3))
                    self.assertIsNotNone(kept["previous_end"])
                    # Two looks at deadlines later.
                    daemon.wait_stream(NAMES[0], lambda stream, kept=kept: stream["kept_seconds"] <
                                       kept["kept_seconds"] - 1.1, "kept a while")
                    source = Source(daemon, NAMES[0], way, last.number, start=5000 - last.number)
                    source.send(20)
                    wait_number(player, source.number - 1)
                    for other in (socket_player, by_rtsp):
                        other.wait_number(source.number - 1)
                    self.assertEqual(daemon.stream(NAMES[0])["kept_seconds"], 0)
                self.assertEqual(daemon.log("player ended"), [])
                check_rising(self, player.frames)
                check_rising(self, socket_player.frames)
                by_rtsp.check_rising(self)
                # Sent away, it is not waited for: with no time to wait, players end.
                publisher = daemon.stream(NAMES[0])["publisher"]
                self.assertEqual(daemon.admin("DELETE", "/api/v1/publishers/%d" % publisher["id"])[0], 204)
                player.wait_end()
                source.close()
            daemon.blocks_settled()

    def test_time_is_over(self):
        with Daemon("--same-name", "resume", "--resume", "1", "--wait", "0", listen=listen(NAMES)) as daemon, \
                Source(daemon, NAMES[0], "http", 0) as source, Player(daemon, NAMES[0]) as player:
            source.send(20)
            wait_number(player, 19)
            source.close()
            player.wait_end()
            self.assertIsNone(player.error)
            daemon.blocks_settled()

    def test_for_whom(self):
        """Another host is refused while the stream is kept; who comes from the first one gets it, without players too."""
        # Kept for as long as this takes, and in the end for a moment.
        with Daemon("--same-name", "resume", "--resume", "600", "--resume", NAMES[1] + "=1", listen=(
                "--http", "127.0.0.1:0", "--http", "[::1]:0", "--rtsp", "[::1]:0")) as daemon:
            with Source(daemon, NAMES[0], "http", 0) as source:
                source.send(5)
                daemon.wait_stream(NAMES[0], lambda stream: stream["frames"]["audio"] > 0, "frames")
            daemon.wait_stream(NAMES[0], lambda stream: stream["kept_seconds"] > 0, "kept")
            with Publisher(daemon, NAMES[0], "http", at=1) as other, rtsp.Client(daemon, NAMES[0]) as client:
                self.assertEqual(harness.read_head(other.peer)[0], 409)
                self.assertEqual(client.ask("ANNOUNCE", body=rtsp.SDP).status, 403)
            daemon.check_log(2, "publish refused", reason="name reserved")
            with Source(daemon, NAMES[0], "http", 5) as source:
                source.send(5)
                daemon.wait_stream(NAMES[0], lambda stream: stream["frames"]["audio"] > 0, "frames")
            with Source(daemon, NAMES[1], "http", 0) as source:
                source.send(5)
                daemon.wait_stream(NAMES[1], lambda stream: stream["frames"]["audio"] > 0, "frames")
            # Then it is everybody's.
            harness.wait_until(lambda: self.status_of_post(daemon) == 200, "the name to be free")

    @staticmethod
    def status_of_post(daemon):
        with Publisher(daemon, NAMES[1], "http", at=1) as publisher:
            publisher.send(flv.stream(5)[0])
            return publisher.finish()

    def test_lost_connection(self):
        """A connection that says nothing any more is taken for lost when its host is there again; one that does is not."""
        with Daemon("--same-name", "resume", "--idle", "600") as daemon, \
                Source(daemon, NAMES[0], "http", 0) as lost, Player(daemon, NAMES[0]) as player:
            lost.send(20)
            wait_number(player, 19)
            with Source(daemon, NAMES[0], "http", 20) as back:
                back.send(20)
                wait_number(player, 39)
                lost.check_ended(self, 409, TAKEN)
            with harness.Steady(daemon) as steady, Publisher(daemon, steady.name, "http") as other:
                self.assertEqual(harness.read_head(other.peer)[0], 409)
            check_rising(self, player.frames)
            player.close()
            # What is kept goes with the server.


if __name__ == "__main__":
    harness.main()
