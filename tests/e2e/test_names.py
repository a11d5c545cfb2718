"""Names: a stream's name is its publisher's, until that leaves; who comes back finds it free.

Environment: SLUICE_TEST_ROUNDS, how often each publisher comes back.
"""

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

ROUNDS = int(os.environ.get("SLUICE_TEST_ROUNDS", "15"))
NAMES = ["live/b%d" % i for i in range(6)]
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
        with Publisher(self.daemon, self.name, ("flv", "http")[way], at=self.at if way == 0 else 0) as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            self.daemon.wait_log("publisher started", peer=publisher.address)
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
                self.assertEqual(len(daemon.log("publish refused", reason="the stream has a publisher")), 3)
                last = flv.audio_frame(9000, 9000, 100)
                holder.send(last)
                player.wait_frame(last)
                self.assertEqual(holder.finish(), 200)
            daemon.blocks_settled()


if __name__ == "__main__":
    harness.main()
