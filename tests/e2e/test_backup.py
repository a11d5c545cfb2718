"""A stream without a publisher, for which another one stands in: what its players get, and what the other's do not notice."""

import os
import shutil
import tempfile

import flv
import harness
from harness import Daemon, Player, Publisher

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
OTHER = "live/other"


class Source:
    """A publisher of frames that are numbered from `first` on."""

    def __init__(self, daemon, name, first):
        self.publisher = Publisher(daemon, name, "http")
        self.frames = flv.frames(first=first, start=first)
        self.publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
        daemon.wait_stream(name, lambda stream: stream["publisher"], "with a publisher")

    def send(self, count):
        tags = [next(self.frames) for _ in range(count)]
        self.publisher.send(b"".join(tag.pack() for tag in tags))
        return tags

    def finish(self):
        return self.publisher.finish()


def parts(player):
    """The numbers of the frames, by the source that they are of."""
    found = []
    for tag in player.frames:
        number = flv.number_of(tag)
        if not found or number // 10000 != found[-1][0] // 10000:
            found.append([])
        found[-1].append(number)
    return found


class BackupTest(harness.SettledTest):
    def daemon(self, *options):
        return self.start("--wait", "60", *options, listen=LISTEN)

    def name_on(self, daemon, same):
        """A name whose worker is, or is not, that of the other stream."""
        for number in range(100):
            name = "live/main%d" % number
            if (self.worker(daemon, name) == self.worker(daemon, OTHER)) == same:
                return name
        raise AssertionError("all names are of one worker")

    def worker(self, daemon, name):
        with Publisher(daemon, name, "http") as publisher:
            publisher.send(flv.stream(2)[0])
            worker = daemon.wait_stream(name)["worker"]
            publisher.finish()
        return worker

    def check_times(self, player):
        for kind in (flv.VIDEO, flv.AUDIO):
            times = [tag.timestamp for tag in player.frames if tag.type == kind]
            self.assertEqual(times, sorted(set(times)))

    def wait_part(self, player, count, least=1):
        player.wait(lambda player: len(parts(player)) >= count and len(parts(player)[count - 1]) >= least,
                    "%d parts" % count)

    def to_and_fro(self, same, *options):
        """The publisher ends, the other stream stands in from a key frame on, the publisher comes again."""
        with Daemon("--workers", "3", listen=LISTEN) as probe:
            name = self.name_on(probe, same)
        daemon = self.daemon("--workers", "3", "--backup", "%s=%s" % (name, OTHER), *options)
        other = Source(daemon, OTHER, 10000)
        sent = other.send(60)
        first = Source(daemon, name, 0)
        first.send(60)
        with Player(daemon, name) as player, Player(daemon, OTHER) as watcher:
            self.wait_part(player, 1, 10)
            self.assertEqual((daemon.stream(name)["backup"], daemon.stream(name)["worker"] == daemon.stream(OTHER)["worker"]),
                             (None, same))
            first.finish()
            daemon.wait_log("backup started", stream=name, **{"from": OTHER})
            sent += other.send(60)
            self.wait_part(player, 2, 60)
            stream = daemon.stream(name)
            self.assertEqual((stream["state"], stream["publisher"], stream["backup"]), ("live", None, OTHER))
            self.assertEqual([publisher["stream"] for publisher in daemon.api("/api/v1/publishers")["publishers"]], [OTHER])
            self.assertRegex(daemon.admin("GET", "/metrics")[2].decode(), r"\nsluice_streams_on_backup 1\b")
            with Player(daemon, name) as late:
                late.wait(lambda late: len(late.frames) >= 2, "frames")
                self.assertEqual(flv.number_of(late.frames[0]) // 10000, 1)
            again = Source(daemon, name, 20000)
            again.send(60)
            self.wait_part(player, 3, 60)
            daemon.wait_log("backup ended", stream=name, reason="a publisher has come")
            sent += other.send(20)
            again.send(60)
            self.wait_part(player, 3, 120)
            watcher.wait_frame(sent[-1])
            self.assertEqual((daemon.stream(name)["backup"], daemon.stream(name)["publisher"]["protocol"]), (None, "http"))
            self.assertEqual([part[0] // 10000 for part in parts(player)], [0, 1, 2])
            for part in parts(player):
                # A picture and its sound have the same number.
                self.assertEqual(part, [part[0] + at // 2 for at in range(len(part))])
            starts = [next(tag for tag in player.frames if flv.number_of(tag) == part[0]) for part in parts(player)]
            self.assertEqual([(tag.type, tag.payload[0]) for tag in starts], [(flv.VIDEO, 0x17)] * 3)
            self.check_times(player)
            begin = sent.index(watcher.frames[0])
            self.assertEqual(watcher.frames, [tag for tag in sent[begin:] if tag.is_frame])
            self.assertEqual(daemon.log("player ended"), [line for line in daemon.log("player ended")
                                                          if line.fields["peer"] == late.address])
            # The source that stands in ends; another publisher of it comes; the players stay all the while.
            again.finish()
            self.wait_backups(daemon, name, 2)
            other.finish()
            daemon.wait_log("backup ended", stream=name, reason="its publisher has left")
            self.assertEqual(daemon.stream(name)["state"], "waiting")
            other = Source(daemon, OTHER, 30000)
            other.send(60)
            self.wait_backups(daemon, name, 3)
            player.wait(lambda player: player.frames[-1] and flv.number_of(player.frames[-1]) >= 30000, "the other's next")
            self.check_times(player)
        daemon.wait_log("backup ended", stream=name, reason="no players")
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
        other.finish()

    def wait_backups(self, daemon, name, count):
        daemon.wait_log("backup started", count, stream=name)

    def test_same_worker(self):
        self.to_and_fro(True)

    def test_other_worker(self):
        self.to_and_fro(False)

    def test_recording(self):
        """What the players get is recorded, each source in files of its own."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.to_and_fro(False, "--record", "live/main*=" + folder)

        def found():
            sources = []
            for path, _, files in os.walk(folder):
                for file in files:
                    if file.endswith(".flv"):
                        with open(os.path.join(path, file), "rb") as data:
                            tags = flv.parse(data.read())
                        sources.append(sorted({flv.number_of(tag) // 10000 for tag in tags if tag.is_frame}))
            return sorted(sources)
        harness.wait_until(lambda: found() == [[0], [1], [1], [2], [3]], lambda: "the recordings; there are %s" % found())

    def test_spread(self):
        """Some of the players are served by replicas."""
        daemon = self.daemon("--workers", "3", "--spread", "1", "--backup", "live/a=" + OTHER)
        first, other = Source(daemon, "live/a", 0), Source(daemon, OTHER, 10000)
        first.send(60)
        other.send(60)
        players = [Player(daemon, "live/a") for _ in range(4)]
        for player in players:
            self.stack.enter_context(player)
            self.wait_part(player, 1)
        first.finish()
        for player in players:
            self.wait_part(player, 2, 10)
        again = Source(daemon, "live/a", 20000)
        again.send(60)
        for player in players:
            self.wait_part(player, 3, 60)
            self.assertEqual([part[0] // 10000 for part in parts(player)], [0, 1, 2])
            self.check_times(player)
        again.finish()
        other.finish()

    def test_loop_and_absence(self):
        """Without a publisher of the other one players wait; a loop is two backups."""
        daemon = self.daemon("--workers", "2", "--backup", "live/a=live/b", "--backup", "live/b=live/a", "--backup",
                             "live/c=live/b")
        players = {name: Player(daemon, "live/" + name) for name in "abc"}
        for player in players.values():
            self.stack.enter_context(player)
        daemon.wait_player("live/c")
        self.assertEqual(daemon.log("backup started"), [])
        source = Source(daemon, "live/a", 0)
        source.send(60)
        self.wait_part(players["a"], 1, 10)
        self.wait_part(players["b"], 1, 10)
        self.assertEqual((daemon.stream("live/b")["backup"], daemon.stream("live/a")["backup"]), ("live/a", None))
        # The stream that is stood in for stands in for none.
        self.assertEqual(daemon.stream("live/c")["state"], "waiting")
        source.finish()
        daemon.wait_log("backup ended", stream="live/b", reason="its publisher has left")
        source = Source(daemon, "live/b", 10000)
        source.send(60)
        for name in "abc":
            self.wait_part(players[name], 2 if name != "c" else 1, 10)
        self.assertEqual([daemon.stream("live/" + name)["backup"] for name in "abc"], ["live/b", None, "live/b"])
        source.finish()

    def test_reload(self):
        """A backup that the configuration is without any more ends; a new one begins."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        config = os.path.join(folder, "sluiced.conf")

        def write(*backups):
            with open(config, "w", encoding="ascii") as file:
                file.write("backup = [%s];" % ", ".join('"%s"' % backup for backup in backups))
        write("live/a=live/b")
        daemon = self.daemon("--workers", "2", "--config", config)
        sources = [Source(daemon, "live/b", 10000), Source(daemon, "live/c", 20000)]
        for source in sources:
            source.send(60)
        player = self.stack.enter_context(Player(daemon, "live/a"))
        self.wait_part(player, 1)
        write("live/a=live/c")
        self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)
        self.wait_part(player, 2)
        self.assertEqual([part[0] // 10000 for part in parts(player)], [1, 2])
        self.check_times(player)
        for source in sources:
            source.finish()

    def on_demand(self, same):
        """The other stream is an on-demand pull: it starts when the publisher ends, stays while it stands in, and stops a while
        after the publisher has come again."""
        with Daemon("--workers", "3", listen=LISTEN) as probe:
            name = self.name_on(probe, same)
        origin = self.start("--wait", "60", listen=("--http", "127.0.0.1:0"))
        other = Source(origin, "camera", 10000)
        other.send(60)
        daemon = self.daemon("--workers", "3", "--log-level", "debug", "--backup", "%s=%s" % (name, OTHER),
                             "--pull", "%s=%s,on-demand" % (origin.url("camera"), OTHER),
                             "--pull", "%s=live/control,on-demand" % origin.url("camera"))
        first = Source(daemon, name, 0)
        first.send(60)
        with Player(daemon, name) as player:
            self.wait_part(player, 1, 10)
            self.assertEqual(daemon.log("pull", state="connecting"), [])
            first.finish()
            daemon.wait_log("pull", stream=OTHER, state="playing")
            self.wait_part(player, 2, 10)
            # Another pull without players stops; this one has none, and goes on. (The seat at another worker is one.)
            if same:
                with Player(daemon, "live/control") as control:
                    control.wait(lambda control: control.frames, "a frame")
                harness.wait_until(lambda: other.send(1) and daemon.log("pull", stream="live/control", state="idle"),
                                   "the end of the other pull")
            self.assertEqual((daemon.stream(name)["backup"], daemon.log("pull", stream=OTHER, state="idle")), (OTHER, []))
            self.assertEqual([one["stream"] for one in daemon.api()["players"]], [name])
            last = other.send(1)[-1]
            player.wait(lambda player: flv.number_of(player.frames[-1]) == flv.number_of(last), "the other's last")
            again = Source(daemon, name, 20000)
            again.send(60)
            self.wait_part(player, 3, 60)
            self.assertEqual([part[0] // 10000 for part in parts(player)], [0, 1, 2])
            starts = [next(tag for tag in player.frames if flv.number_of(tag) == part[0]) for part in parts(player)]
            self.assertEqual([(tag.type, tag.payload[0]) for tag in starts], [(flv.VIDEO, 0x17)] * 3)
            self.check_times(player)
            daemon.wait_log("pull", stream=OTHER, state="idle")
            self.assertEqual(len(daemon.log("pull", stream=OTHER, state="playing")), 1)
            again.finish()
            # The pull is started anew.
            daemon.wait_log("pull", 2, stream=OTHER, state="playing")
            self.wait_backups(daemon, name, 2)
        other.finish()

    def test_on_demand_same_worker(self):
        self.on_demand(True)

    def test_on_demand_other_worker(self):
        self.on_demand(False)

    def test_options(self):
        for backup, wrong in (("live/a", "expected NAME=OTHER"), ("live/a=", "expected NAME=OTHER"),
                              ("a b=c", "expected NAME=OTHER"), ("a=b=c", "expected NAME=OTHER"),
                              ("live/a=live/a", "no backup of its own")):
            status, _, text = harness.run_daemon("--check", "--backup", backup)
            self.assertEqual(status, 2)
            self.assertIn(wrong, text)
        status, _, text = harness.run_daemon("--check", "--backup", "a=b", "--backup", "a=c")
        self.assertEqual((status, "a second backup of that name" in text), (2, True))
        many = [word for number in range(1001) for word in ("--backup", "a%d=b" % number)]
        self.assertEqual(harness.run_daemon("--check", *many[:-2], "--http", "127.0.0.1:0")[0], 0)
        self.assertIn("more than 1000 backups", harness.run_daemon("--check", *many)[2])

    def test_ffmpeg(self):
        """Black, then white while black is away, then black again, for ffmpeg by HTTP-FLV and by RTSP."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        daemon = self.start("--wait", "2", "--workers", "2", "--backup", "live/a=" + OTHER, listen=LISTEN)

        def publish(name, color):
            source = harness.Ffmpeg(ffmpeg, "-re", "-f", "lavfi", "-i", "color=%s:size=160x90:rate=25" % color,
                                    "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "10",
                                    "-pix_fmt", "yuv420p", "-f", "flv", "-method", "POST", daemon.url(name))
            self.addCleanup(source.kill)
            daemon.wait_log("publisher started", stream=name)
            return source

        def play(kind, *source):
            target = os.path.join(folder, kind)
            player = harness.Ffmpeg(ffmpeg, *source, "-map", "0:v", "-fps_mode", "passthrough", "-vf", "scale=1:1",
                                    "-pix_fmt", "gray", "-flush_packets", "1", "-f", "rawvideo", target, "-map", "0:v", "-c",
                                    "copy", "-flush_packets", "1", "-f", "framemd5", target + ".md5")
            self.addCleanup(player.kill)
            return player, target

        def colors(target):
            """As runs: "bwb" """
            if not os.path.exists(target):
                return ""
            with open(target, "rb") as file:
                text = "".join("b" if value < 128 else "w" for value in file.read())
            return "".join(color for at, color in enumerate(text) if at == 0 or text[at - 1] != color)

        other, first = publish(OTHER, "white"), publish("live/a", "black")
        players = [play("http", "-i", daemon.url("live/a")),
                   play("rtsp", "-rtsp_transport", "tcp", "-i", "rtsp://%s:%d/live/a" % daemon.address("rtsp"))]
        for expected, step in (("b", first.kill), ("bw", lambda: publish("live/a", "black")), ("bwb", lambda: None)):
            for player, target in players:
                harness.wait_until(lambda target=target, expected=expected: colors(target) == expected,
                                   "%s of %s" % (expected, target))
            step()
        other.kill()
        for player, target in players:
            player.process.terminate()
            player.process.wait()
            with open(target + ".md5", encoding="ascii") as file:
                times = [dts for _, dts, _ in harness.packets(file.read())]
            # By RTSP, ffmpeg gives the frames before the first report one time.
            self.assertEqual(times, sorted(times))
            self.assertEqual(times[2:], sorted(set(times[2:])))
            self.assertEqual(colors(target), "bwb")


if __name__ == "__main__":
    harness.main()
