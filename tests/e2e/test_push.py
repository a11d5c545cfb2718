"""sluice-push: what it publishes arrives, what it plays is checked, and what it says of both is true."""

import itertools
import json
import os
import re
import signal
import socket
import tempfile
import threading
import unittest

import flv
import harness
import tool
from harness import Daemon, Player

# Of H.264 with B frames and AAC: RTP takes nothing made up.
REAL = os.path.join(harness.SOURCE_DIR, "tests", "vectors", "flv-h264-aac.flv")
ALL = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")


def push(*arguments, **options):
    """Status, and the last line's totals."""
    status, out, errors = tool.run("sluice-push", "--json", "--quiet", *arguments, **options)
    if errors:
        raise AssertionError(errors)
    return status, json.loads(out.splitlines()[-1])


def push_until(condition, what, *arguments):
    """The same, interrupted once the condition holds: however long that takes."""
    with tool.Running("sluice-push", "--json", "--quiet", *arguments) as running:
        harness.wait_until(condition, what)
        running.process.send_signal(signal.SIGINT)
        status, out, errors = running.wait()
    if errors:
        raise AssertionError(errors)
    return status, json.loads(out.splitlines()[-1])


def are_playing(daemon, count, frames):
    """So many players have been sent so many frames."""
    return len([one for one in daemon.api()["players"] if one["frames_sent"] > frames]) == count


def check_frames(player, tags):
    """Waits until a player has got the frames of these tags, and no others."""
    for kind, header in ((flv.VIDEO, 5), (flv.AUDIO, 2)):
        frames = [tag.payload[header:] for tag in tags if tag.is_frame and tag.type == kind]

        def played(player, kind=kind, header=header):
            return [tag.payload[header:] for tag in player.tags if tag.is_frame and tag.type == kind]
        player.wait(lambda player: len(played(player)) == len(frames), "the frames")
        harness.check_same(played(player), frames, "frames")


class Media(unittest.TestCase):
    """Tests that publish a file of a second and a half."""

    @classmethod
    def setUpClass(cls):
        cls.data, cls.tags = flv.stream(60, step=50)
        with tempfile.NamedTemporaryFile(suffix=".flv", delete=False) as file:
            file.write(cls.data)
            cls.file = file.name

    @classmethod
    def tearDownClass(cls):
        os.unlink(cls.file)

    def served(self, result, publishers, players=0):
        status, said = result
        self.assertEqual(status, 0, said)
        self.assertEqual((said["served"], said["failures"]), (True, []))
        self.assertEqual((said["publishers"]["served"], said["players"]["served"]), (publishers, players))
        self.assertEqual(said["payload_bytes_copied"], 0)
        for what in ("lost", "rtp_lost", "unmatched", "timestamps_back"):
            self.assertEqual(said["players"][what], 0, said)
        return said


def url_of(daemon, protocol, name):
    host, port = daemon.address(protocol)
    return "%s://%s:%d/%s%s" % (protocol, host, port, name, ".flv" if protocol == "http" else "")


class PublishTest(Media):
    """What players of others get is the file."""

    def test_http_and_flv(self):
        """Tag for tag; raw FLV too. Twice, where it loops, with times that go on."""
        with Daemon("--wait", "30", listen=("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0")) as daemon:
            host, port = daemon.address("flv")
            for name, url in (("live/http", daemon.url("live/http")), ("live/raw", "flv://%s:%d" % (host, port))):
                with Player(daemon, name) as player:
                    self.served(push("--rate", 4, self.file, url), 1)
                    player.wait_frame(self.tags[-1])
                    harness.check_same(player.tags, self.tags, "tags")
            with Player(daemon, "live/loop") as player:
                with tool.Running("sluice-push", "--rate", 10, "--loop", self.file, daemon.url("live/loop")) as running:
                    player.wait(lambda player: len(player.frames) > 100, "its second round")
                    running.process.send_signal(signal.SIGINT)
                    status, out, _ = running.wait()
                self.assertEqual(status, 0, out)
                frames = [tag for tag in self.tags if tag.is_frame]
                again = [tag._replace(timestamp=tag.timestamp + 30 * 50) for tag in frames]
                harness.check_same(player.frames[:100], (frames + again)[:100], "frames")
            daemon.blocks_settled()

    def test_logins(self):
        """By RTSP and RTMP, with a login; every frame is the file's."""
        with tempfile.NamedTemporaryFile("w") as users:
            users.write("eve:secret\n")
            users.flush()
            with Daemon("--rtsp-users", users.name, "--rule", "publish * user", "--rule", "play * allow",
                        listen=ALL) as daemon:
                for protocol, refusal in (("rtsp", "wrong name or password"), ("rtmp", "the user or the password is wrong")):
                    with self.subTest(protocol):
                        self.log_in(daemon, protocol, refusal)
                daemon.blocks_settled()

    def log_in(self, daemon, protocol, refusal):
        url = url_of(daemon, protocol, "live/" + protocol).replace("://", "://eve:%s@")
        with open(REAL, "rb") as file:
            tags = flv.parse(file.read())
        with Player(daemon, "live/" + protocol) as player:
            self.served(push("--rate", 2, REAL, url % "secret"), 1)
            check_frames(player, tags)
        status, said = push("--retries", 0, REAL, url % "wrong")
        self.assertEqual(status, 1)
        self.assertIn(refusal, said["failures"][0])

    def test_names(self):
        """Streams are numbered, where it is said or behind the name."""
        with Daemon(listen=ALL) as daemon:
            for arguments, names in (
                    (("-n", 3, url_of(daemon, "http", "live/a")), ["live/a-1", "live/a-2", "live/a-3"]),
                    (("-n", 2, url_of(daemon, "rtsp", "b%d/c")), ["b1/c", "b2/c"]),
                    (("-n", 2, "--name", "d/%d/e", url_of(daemon, "http", "x")), ["d/1/e", "d/2/e"])):
                *options, url = arguments
                with tool.Running("sluice-push", "--loop", *options, REAL, url) as running:
                    harness.wait_until(lambda: sorted(stream["name"] for stream in daemon.api()["streams"]
                                                      if sum(stream["frames"].values()) > 0) == names, names)
                    running.process.send_signal(signal.SIGTERM)
                    self.assertEqual(running.wait()[0], 0)
                daemon.blocks_settled()


class PlayTest(Media):
    """Players look at every frame, whatever it came by and goes by."""

    def test_all_pairs(self):
        with Daemon(listen=ALL) as daemon:
            for publish, protocol in itertools.product(("http", "rtsp", "rtmp"), repeat=2):
                with self.subTest(publish=publish, play=protocol):
                    name = "%s%s/%%d" % (publish, protocol)
                    result = push_until(lambda: are_playing(daemon, 4, 80), "players", "-n", 2, "--players", 4,
                                        "--rate", 3, "--loop", "--ramp", "0.2", "--play", url_of(daemon, protocol, name),
                                        REAL, url_of(daemon, publish, name))
                    said = self.served(result, 2, 4)
                    self.assertEqual(said["players"]["startup_ms"]["samples"], 4)
                    self.assertGreater(said["players"]["latency_ms"]["samples"], 100)
                    self.assertGreater(said["publishers"]["tags"], 2 * 80)
            daemon.blocks_settled()

    def test_stalled(self):
        """Who reads nothing is not waited for, and when the server ends it that is no failure."""
        with Daemon("--stall", "4", listen=ALL) as daemon:
            with tempfile.NamedTemporaryFile(suffix=".flv") as file:
                # More than sockets hold.
                file.write(flv.stream(200, size=100000, step=10)[0])
                file.flush()
                _, said = result = push_until(lambda: len(daemon.log("player ended", reason="send timeout")) >= 2,
                                              "two to be ended", "--players", 2, "--stalled", 2, "--loop", file.name,
                                              daemon.url("live/a"))
            self.served(result, 1, 2)
            self.assertEqual(said["stalled"]["begun"], 2)
            self.assertEqual(len(daemon.log("player ended", reason="send timeout")), 2)
            daemon.blocks_settled()

    def test_others_streams(self):
        """Without publishers of its own: -n 0."""
        with Daemon(listen=ALL) as daemon, harness.Steady(daemon) as steady:
            for protocol in ("http", "rtsp", "rtmp"):
                # The one beside is there too.
                status, said = push_until(lambda: are_playing(daemon, 4, 80), "players", "-n", 0, "--players", 3,
                                          "--ramp", "0", url_of(daemon, protocol, steady.name))
                self.assertEqual((status, said["players"]["served"]), (0, 3), said)
                self.assertGreater(said["players"]["frames"], 30)


class Relay:
    """Between a player and the daemon: cuts pieces out of what the daemon sends."""

    def __init__(self, daemon, cut):
        self._daemon, self._cut, self.number = daemon, cut, 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        peer, _ = self.server.accept()
        with peer, self._daemon.connect() as daemon:
            daemon.sendall(peer.recv(4096).replace(b"HTTP/1.1", b"HTTP/1.0"))
            try:
                status, _, data = harness.read_head(daemon)
                peer.sendall(b"HTTP/1.1 %d OK\r\nConnection: close\r\n\r\n" % status)
                parser = flv.Parser()
                begun = False
                while data:
                    tags = parser.feed(data)
                    if tags and not begun:
                        peer.sendall(flv.header())
                        begun = True
                    for tag in tags:
                        for sent in self._cut(tag, self.number + 1):
                            peer.sendall(sent.pack())
                        self.number += 1
                    data = daemon.recv(65536)
            except OSError:
                pass

    def is_over(self):
        return not self._thread.is_alive()

    def close(self):
        self.server.close()
        self._thread.join(harness.PATIENCE)


class FindingTest(Media):
    """What is wrong is found, counted, and told by the exit status."""

    def through(self, daemon, cut):
        relay = Relay(daemon, cut)
        try:
            # Or until the player has gone, because of what it was sent.
            status, said = push_until(lambda: relay.number > 100 or relay.is_over(), "the cuts", "--players", 1,
                                      "--rate", 2, "--loop", "--retries", 0, "--play",
                                      "http://127.0.0.1:%d/live/a.flv" % relay.port, self.file, daemon.url("live/a"))
        finally:
            relay.close()
        self.assertEqual(status, 1, said)
        self.assertEqual(said["publishers"]["served"], 1)
        return said["players"]

    def test_losses(self):
        with Daemon("--wait", "1", listen=ALL) as daemon:
            gone = []

            def lose(tag, number):
                if number % 10 == 0 and tag.is_frame and number < 80:
                    gone.append(tag)
                    return []
                return [tag]
            said = self.through(daemon, lose)
            self.assertEqual((said["lost"], said["unmatched"], said["timestamps_back"]), (len(gone), 0, 0))

    def test_timestamps_back(self):
        with Daemon("--wait", "1", listen=ALL) as daemon:
            said = self.through(daemon, lambda tag, number: [tag, tag._replace(timestamp=max(tag.timestamp - 500, 0))]
                                if number == 50 else [tag])
            self.assertGreater(said["timestamps_back"], 0)

    def test_framing(self):
        with Daemon("--wait", "1", listen=ALL) as daemon:
            broken = flv.Tag(0xC9, 0, b"no tag")
            said = self.through(daemon, lambda tag, number: [broken] if number == 50 else [tag])
            self.assertEqual(said["failures"], 1)

    def test_taken_name(self):
        """A second publisher of a name is refused, and says by whom and how."""
        with Daemon(listen=("--flv", "127.0.0.1:0=live/a", *ALL[2:])) as daemon:
            with harness.Steady(daemon, name="live/a"):
                for protocol, words in (("http", "409"), ("rtsp", "403"), ("rtmp", "publish refused: NetStream.Publish.")):
                    status, said = push("--retries", 0, REAL, url_of(daemon, protocol, "live/a"))
                    self.assertEqual((status, said["publishers"]["failed"]), (1, 1))
                    self.assertIn(words, said["failures"][0])

    def test_hostile_reason(self):
        """What a server says of itself: escaped where it is shown, and in JSON."""
        with tool.hostile_server(b"HTTP/1.1 403 " + tool.HOSTILE + b"\r\nContent-Length: 0\r\n\r\n") as port:
            arguments = ("--quiet", "--retries", 0, "--publishers", 0, "--players", 1, "http://127.0.0.1:%d/a.flv" % port)
            status, out, _ = tool.run("sluice-push", *arguments)
            self.assertEqual(status, 1)
            self.assertIn("the server answered 403 %s\n" % tool.HOSTILE_SHOWN, out)
            status, out, _ = tool.run("sluice-push", "--json", *arguments)
        self.assertRegex(out, r"\A[ -~\n\ufffd]*\Z")
        self.assertEqual(json.loads(out.splitlines()[-1])["failures"],
                         ["player 1: the server answered 403 " + tool.HOSTILE.decode(errors="replace")])

    def test_server_goes(self):
        """A server that is gone for a while: publishers and players come back, and that is counted."""
        first = Daemon(listen=("--http", harness.own_host() + ":0"))
        host, port = first.address("http")
        with tool.Running("sluice-push", "--json", "--players", 2, "--loop", "--ramp", 0, "--retries", 60, self.file,
                          first.url("live/a")) as running:
            first.wait_stream("live/a", lambda stream: stream["subscribers"] == 2, "two players")
            first.kill()
            with harness.start_again(listen=("--http", "%s:%d" % (host, port))) as second:
                second.wait_stream("live/a", lambda stream: stream["state"] == "live" and stream["subscribers"] == 2,
                                   "two players")
                # Frames that were sent to both after they came back.
                harness.wait_until(lambda: all(player["frames_sent"] > 10 for player in second.api()["players"]),
                                   "frames")
                running.process.send_signal(signal.SIGINT)
                status, out, _ = running.wait()
        said = tool.lines(out)[-1]
        self.assertEqual(status, 1)
        self.assertEqual((said["publishers"]["reconnects"], said["players"]["reconnects"]), (1, 2))
        self.assertEqual((said["publishers"]["failed"], said["players"]["failed"]), (0, 0), said)
        self.assertEqual(said["players"]["lost"], 0, said)

    def test_nobody_there(self):
        # A port that is taken, where nobody listens.
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            for scheme in ("flv", "http", "rtsp", "rtmp"):
                status, said = push("-n", 2, "--retries", 0, "--ramp", 0, self.file,
                                    "%s://127.0.0.1:%d/live/a" % (scheme, nobody.getsockname()[1]))
                self.assertEqual((status, said["publishers"]["failed"]), (1, 2))
                self.assertIn("refused", said["failures"][0])


class UsageTest(Media):
    def test_lines(self):
        """A line each second, and JSON too."""
        with Daemon(listen=ALL) as daemon:
            out = self.until_line(rb"1 publishing, .* Mbit/s, \d+ late  1 playing", "--players", 1, "--loop", self.file,
                                  daemon.url("live/a"))
            self.assertIn("publishers: 1 of 1 served", out)
            lines = tool.lines(self.until_line(b"second", "--json", "--loop", self.file, daemon.url("live/a")))
            self.assertEqual([line["type"] for line in lines], ["second"] * (len(lines) - 1) + ["total"])
            self.assertGreater(len(lines), 1)

    def test_timestamps_up_to_the_last(self):
        """A file whose times take all 32 bits lasts that long, and not no time at all."""
        tags = [flv.VIDEO_HEADER, flv.video_frame(0, True, 0, 100), flv.video_frame(0xFFFFFFFF, True, 1, 100)]
        with tempfile.NamedTemporaryFile(suffix=".flv") as file, Daemon() as daemon:
            file.write(flv.header(flv.HAS_VIDEO) + b"".join(tag.pack() for tag in tags))
            file.flush()
            result = push_until(lambda: are_playing(daemon, 1, 1), "a player with a frame", "--players", "1", file.name,
                                daemon.url("live/a"))
            self.served(result, 1, 1)

    def until_line(self, pattern, *arguments):
        """What it says in all, interrupted once a line is like that."""
        with tool.Running("sluice-push", *arguments) as running:
            said = [b""]
            while not re.search(pattern, said[-1]):
                said.append(running.process.stdout.readline())
                self.assertTrue(said[-1], said)
            running.process.send_signal(signal.SIGINT)
            status, out, _ = running.wait()
        self.assertEqual(status, 0, out)
        return b"".join(said).decode() + out

    def test_wrong(self):
        for arguments in ((), (self.file,), (self.file, "http://h/a", "x"), ("-n", "0", "http://h/a"),
                          ("-n", "x", self.file, "http://h/a"), ("--rate", "0", self.file, "http://h/a"),
                          (self.file, "rtmp://h/a"), (self.file, "a.flv"), ("--players", "1", self.file, "flv://h"),
                          ("-n", "0", "--players", "1", self.file, "http://h/a"),
                          ("--name", "a b", self.file, "http://h/a"), ("--nonsense", self.file, "http://h/a")):
            status, out, errors = tool.run("sluice-push", *arguments, backend=False)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertIn("sluice-push", errors)

    def test_not_to_be_had(self):
        with tempfile.NamedTemporaryFile(suffix=".flv") as file:
            file.write(self.data[:-10])
            file.flush()
            for path, words in (("/nowhere/none.flv", "No such file"), ("/", "directory"), (file.name, "damaged"),
                                (__file__, "not FLV")):
                status, _, errors = tool.run("sluice-push", path, "http://127.0.0.1:1/a")
                self.assertEqual(status, 3, path)
                self.assertIn(words, errors)
        status, _, errors = tool.run("sluice-push", self.file, "http://none.invalid/a")
        self.assertEqual(status, 3)
        self.assertIn("none.invalid", errors)


if __name__ == "__main__":
    tool.main("sluice-push")
