"""What an operator's nights are made of: kills, descriptors that run out, slow attackers, idle crowds, bad links.

The short form runs in CI. SLUICE_TEST_LONG=1 runs the long one, and prints what it has measured: tests/reports/faults.md.
tests/README.md says how each can be made longer still.
"""

import contextlib
import glob
import multiprocessing
import os
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady, descriptors, resident_kib
from long_form import LONG, report, size
import tool

MEDIA = "%s %s -t 8 %s %s" % (harness.VIDEO, harness.tone(44100), harness.H264, harness.AAC)
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Visitor:
    """Somebody who asks again and again beside whatever happens, and is answered; how long that took, in seconds."""

    def __init__(self, daemon):
        self.took, self.error = [], None
        self._address = daemon.address("http")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._ending.wait(0.005):
                before = time.monotonic()
                with socket.create_connection(self._address, harness.PATIENCE) as peer:
                    peer.sendall(REQUEST)
                    if b" 404 " not in harness.read_to_end(peer):
                        raise AssertionError("no answer")
                self.took.append(time.monotonic() - before)
        except (OSError, AssertionError) as error:
            self.error = error

    def so_far(self, count):
        """The 99th percentile of the next ones."""
        first = len(self.took)
        harness.wait_until(lambda: self.error or len(self.took) >= first + count, "%d answers" % count)
        if self.error:
            raise AssertionError("a visitor: %r" % self.error)
        return statistics.quantiles(self.took[first:], n=100)[98]

    def end(self):
        self._ending.set()
        self._thread.join()


def attack(address, count, all_connected=None):
    """
    Sends the heads of so many requests byte by byte, two a second of each, until all have been ended: a process of its own.
    Spread over the time, as those of many hosts are, which do not send in the same moment.
    """
    selector, peers, parts = selectors.DefaultSelector(), [], 50
    for _ in range(count):
        peer = socket.create_connection(address, harness.PATIENCE)
        peer.setblocking(False)
        peer.send(b"GET /live/a.flv HTTP/1.1\r\n")
        selector.register(peer, selectors.EVENT_READ)
        peers.append(peer)
    if all_connected:
        all_connected.set()
    left, part, due = set(peers), 0, time.monotonic()
    while left:
        for key, _ in selector.select(max(due - time.monotonic(), 0)):
            with contextlib.suppress(ConnectionError):
                if key.fileobj.recv(4096):
                    continue
            selector.unregister(key.fileobj)
            key.fileobj.close()
            left.discard(key.fileobj)
        if time.monotonic() < due:
            continue
        due, part = due + 0.5 / parts, (part + 1) % parts
        for peer in peers[part::parts]:
            with contextlib.suppress(OSError):
                peer.send(b"x")


def frames_of(data):
    """The frames of a recording, up to the last whole tag."""
    return [tag for tag in flv.Parser().feed(data) if tag.is_frame]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_recording(path, probed):
    """It ends with a whole tag, and has frames; ffprobe, if asked, has nothing to say. The frames."""
    frames = [tag for tag in flv.parse(read(path)) if tag.is_frame]
    if not frames:
        raise AssertionError("%s has no frame" % path)
    if probed:
        done = subprocess.run(["ffprobe", "-v", "error", "-count_packets", "-show_entries", "stream=nb_read_packets", "-of",
                               "csv=p=0", path], capture_output=True, check=True)
        # A track that has been promised may have nothing yet.
        packets = sum(int(line.strip(b",")) for line in done.stdout.replace(b"N/A", b"0").split())
        if done.stderr or packets != len(frames):
            raise AssertionError("ffprobe of %s with %d frames: %d packets, %r" % (path, len(frames), packets, done.stderr))
    return frames


class KillTest(unittest.TestCase):
    KILLS, STREAMS = size("KILLS", 20, 100), size("STREAMS", 3, 10)
    PROBED = 20  # After so many kills ffprobe sees every recording, then one after each.

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.options = ("--record", "live/*=" + self.folder)
        self.daemon = Daemon(*self.options, listen=("--http", harness.own_host() + ":0"))
        self.address = "%s:%d" % self.daemon.address("http")
        self.addCleanup(lambda: self.daemon.kill())
        self.took, self.checked, self.probed = [], 0, 0

    def kill(self, looking):
        """Kills it and starts the next one at once; or, looking, when the parts have been read: {path: frames}."""
        parts, began = {}, time.monotonic()
        self.daemon.process.send_signal(signal.SIGKILL)
        if looking:
            self.daemon.process.wait()
            parts = {path[:-len(".part")]: frames_of(read(path)) for path in glob.glob(self.folder + "/live/*/*.flv.part")}
            began = time.monotonic()
        again = harness.start_again(*self.options, listen=("--http", self.address))
        self.took.append(time.monotonic() - began)
        self.daemon.kill()
        self.daemon = again
        return parts

    def check_recordings(self, parts, all_probed):
        """Of the daemon that was killed: each part has become a recording, with every whole tag that was there."""
        # One that was killed before a frame was on the disk is nothing.
        repaired = lambda: len(self.daemon.log("recording repaired"))
        harness.wait_until(
            lambda: repaired() + len(self.daemon.log("empty recording removed")) >= self.STREAMS,
            lambda: "the parts' repair: %s" % (self.daemon.log(levels=("error", "warning")), ))
        paths = glob.glob(self.folder + "/live/*/*.flv")
        self.assertGreaterEqual(len(paths), repaired())
        for number, path in enumerate(paths):
            probed = all_probed or number == 0
            frames = check_recording(path, probed)
            # What the kernel was still writing may have come behind what was seen.
            part = parts.get(path, [])
            harness.check_same(frames[:len(part)], part, "frames of a part")
            self.probed += probed
            self.checked += 1
            os.unlink(path)

    def test_kill_under_load(self):
        """Ready again at once, with the same ports; recordings are readable to the last whole tag, and miss none."""
        media = harness.make_media(harness.find_ffmpeg(), MEDIA)
        with tool.Running("sluice-push", "-n", self.STREAMS, "--players", 2 * self.STREAMS, "--loop", "--quiet", "--ramp", 0,
                          "--rate", 4, "--retries", 1000000, media, "http://%s/live/a-%%d.flv" % self.address) as push:
            for number in range(self.KILLS):
                self.daemon.wait_log("player started", 2 * self.STREAMS)
                # Parts with some frames in them.
                harness.wait_until(lambda: sum(
                    bool(stream["recording"]) and stream["recording"]["frames"] > 20
                    for stream in self.daemon.api()["streams"]) == self.STREAMS, "recordings under way")
                parts = self.kill(number % 2)
                self.check_recordings(parts, number < self.PROBED)
                self.assertIsNone(push.process.poll(), number)
        self.daemon.stop()
        self.assertEqual(glob.glob(self.folder + "/live/*/*.part"), [])
        self.assertGreater(self.checked, self.KILLS * self.STREAMS / 2)
        report("%d kills with %d streams: ready again after %.0f ms on average, %.0f ms at most; %d recordings end with a "
               "whole tag, %d of them seen by ffprobe", self.KILLS, self.STREAMS, statistics.mean(self.took) * 1000,
               max(self.took) * 1000, self.checked, self.probed)


class DiskTest(unittest.TestCase):
    ROUNDS, STREAMS = size("FULL_DISKS", 1, 40), 5

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=False).returncode != 0:
            self.skipTest("no file system can be mounted")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        self.folder = folder

    def fill(self):
        """Takes all the room that there is: a file to be removed."""
        path = os.path.join(self.folder, "ballast")
        with open(path, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 12))
        return path

    def recordings(self, daemon, state):
        """How many streams are recorded in that state."""
        return sum(stream["recording"]["state"] == state for stream in daemon.api()["streams"])

    def full_once(self, daemon, steadies):
        """The disk is full, and is not any more; one publisher comes and goes meanwhile."""
        ballast = self.fill()
        harness.wait_until(lambda: self.recordings(daemon, "paused") == self.STREAMS, "all recordings to be paused", 0.1)
        passing = Publisher(daemon, "live/passing", "http")
        with passing:
            passing.send(flv.stream(50)[0])
            with Player(daemon, "live/passing") as player:
                player.wait_tags(20)
            self.assertEqual(passing.finish(), 200)
        for steady in steadies:
            steady.go_on()
        os.unlink(ballast)
        harness.wait_until(lambda: self.recordings(daemon, "recording") == self.STREAMS, "all recordings to go on", 0.1)

    def take_recordings(self):
        """Looks at what is whole, and removes it: how many frames of live/flv-*."""
        count = 0
        for path in glob.glob(self.folder + "/live/*/*.flv"):
            frames = check_recording(path, False)
            count += len(frames) if "/passing/" not in path else 0
            os.unlink(path)
        return count

    def test_the_disk_is_full_again_and_again(self):
        """Nobody who plays notices; recordings go on by themselves, each time, and account for every frame."""
        with Daemon("--record", "live/*=" + self.folder, "--record-segment", "1", "--player-buffer", "1M") as daemon:
            pid, frames, memory = daemon.process.pid, 0, 0
            with contextlib.ExitStack() as stack:
                steadies = [stack.enter_context(Steady(daemon, pause=0.01, size=400, gop=10))
                            for _ in range(self.STREAMS)]
                level = descriptors(pid)
                for number in range(self.ROUNDS):
                    self.full_once(daemon, steadies)
                    frames += self.take_recordings()
                    if number == self.ROUNDS // 10:
                        memory = resident_kib(pid)
                after = resident_kib(pid)
                # A recording that is completed and the next one may both be open.
                harness.wait_until(lambda: descriptors(pid) <= level + self.STREAMS, "descriptors to be closed")
                dropped = sum(stream["recording"]["frames_dropped"] for stream in daemon.api()["streams"])
            daemon.blocks_settled()
        frames += self.take_recordings()
        self.assertEqual(glob.glob(self.folder + "/live/*/*.part"), [])
        sent = sum(tag.is_frame for steady in steadies for tag in steady.sent)
        self.assertEqual(frames + dropped, sent)
        report("the disk was full %d times for %d recordings: %d frames, of which %d were not recorded; descriptors %d; "
               "memory %d KiB, then %d KiB", self.ROUNDS, self.STREAMS, sent, dropped, level, memory, after)


class ExhaustionTest(unittest.TestCase):
    ROUNDS = size("EXHAUSTIONS", 1, 200)

    def test_descriptors_run_out(self):
        """Who is connected notices nothing, who comes is told, and is served once there is room: by itself, each time."""
        with Daemon(within=("prlimit", "--nofile=64:64")) as daemon, contextlib.ExitStack() as stack:
            steady = stack.enter_context(Steady(daemon))
            pid = daemon.process.pid
            level = descriptors(pid)
            for number in range(self.ROUNDS):
                self.run_out(daemon, steady)
                harness.wait_until(lambda: descriptors(pid) <= level + 1, "descriptors to be free again")
                if number == self.ROUNDS // 10:
                    memory = resident_kib(pid)
            for _ in range(20):
                self.assertEqual(daemon.request("GET", "/")[0], 404)
            steady.go_on()
            report("descriptors have run out %d times: %d, then %d; memory %d KiB, then %d KiB", self.ROUNDS, level,
                   descriptors(pid), memory, resident_kib(pid))

    def run_out(self, daemon, steady):
        with contextlib.ExitStack() as crowd:
            for _ in range(80):
                crowd.enter_context(daemon.connect())
            with daemon.connect() as late:
                self.assertIn(b" 503 ", harness.read_to_end(late))
            # Some are left for what the daemon itself has to open.
            self.assertLess(descriptors(daemon.process.pid), 64)
            steady.go_on(50)

    ATTACKERS = size("ATTACKERS", 1000, 5000)

    def test_slowloris(self):
        """A crowd that sends its heads byte by byte: each is ended at its deadline, and others are served meanwhile."""
        with Daemon() as daemon, Steady(daemon) as steady:
            visitor = Visitor(daemon)
            self.addCleanup(visitor.end)
            count = 1000 if LONG else 100
            before = visitor.so_far(count)
            context = multiprocessing.get_context("spawn")
            all_connected = context.Event()
            attackers = context.Process(target=attack, args=(daemon.address("http"), self.ATTACKERS, all_connected))
            attackers.start()
            self.addCleanup(attackers.kill)
            # Not as many as are there: where they take long, the first have been ended by then.
            harness.wait_until(all_connected.is_set, "all attackers to be connected")
            measured = []
            thread = threading.Thread(target=lambda: measured.append(visitor.so_far(count)), daemon=True)
            thread.start()
            attackers.join(harness.PATIENCE)
            self.assertEqual(attackers.exitcode, 0)
            thread.join()
            steady.go_on()
            self.assertIsNone(visitor.error)
            report("%d slow attackers: 99 %% of others are answered within %.1f ms, without attackers %.1f ms",
                   self.ATTACKERS, measured[0] * 1000, before * 1000)

    def test_slowloris_of_the_administration(self):
        """No more than so many of a crowd are kept, each until its deadline, and operators are answered meanwhile."""
        with Daemon() as daemon, Steady(daemon) as steady:
            before = descriptors(daemon.process.pid)
            context = multiprocessing.get_context("spawn")
            all_connected = context.Event()
            attackers = context.Process(target=attack, args=(daemon.address("admin"), 200, all_connected))
            attackers.start()
            self.addCleanup(attackers.kill)
            # Who comes while they do may be the one that has been waited for longest.
            harness.wait_until(all_connected.is_set, "all attackers to be connected")
            for _ in range(5):
                self.assertEqual(daemon.api("/api/v1/health")["status"], "ok")
            harness.wait_until(lambda: descriptors(daemon.process.pid) <= before + 64, "the others to be ended")
            # Nobody comes any more who would be let in for one of them.
            attackers.join(harness.PATIENCE)
            self.assertEqual(attackers.exitcode, 0)
            steady.go_on()
            self.assertEqual(daemon.api("/api/v1/health")["status"], "ok")

    IDLE, IDLE_KIB = size("IDLE", 2000, 10000), 16

    def test_idle_crowd(self):
        """What an idle connection costs, of each protocol."""
        listen = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
        for protocol, greeting in (("http", b""), ("rtsp", b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"), ("flv", b"")):
            with self.subTest(protocol), Daemon("--max-connections", "20000", "--idle", "600", listen=listen) as daemon, \
                    contextlib.ExitStack() as stack:
                before, begun = resident_kib(daemon.process.pid), time.monotonic()
                for _ in range(self.IDLE):
                    peer = stack.enter_context(daemon.connect(protocol))
                    if greeting:
                        peer.sendall(greeting)
                # By HTTP the first ones are ended for want of a request where this takes too long: then they cost less.
                harness.wait_until(lambda: daemon.connections() >= self.IDLE or protocol == "http" and
                                   time.monotonic() - begun > 8, "all to be connected")
                each = (resident_kib(daemon.process.pid) - before) / self.IDLE
                report("%d idle connections, %s: %.2f KiB each", self.IDLE, protocol, each)
                if not harness.SANITIZED:
                    self.assertLessEqual(each, self.IDLE_KIB)
                self.assertEqual(daemon.request("GET", "/")[0], 404)


class Link:
    """A network namespace, joined to this one by a pair of interfaces."""
    made = 0  # the kernel takes its time to remove a link, so no two have the same name

    def __init__(self, test):
        Link.made += 1
        self.name = "sluice-%d-%d" % (os.getpid(), Link.made)
        self.ours, self.theirs = ("10.%d.%d.%d" % (212 + Link.made % 8, os.getpid() % 250, i) for i in (1, 2))
        self.outside = "sl%d-%d" % (os.getpid() % 1000000, Link.made)
        if os.geteuid() != 0 or not shutil.which("ip") or subprocess.run(
                ["ip", "netns", "add", self.name], capture_output=True, check=False).returncode != 0:
            test.skipTest("no network namespaces here")
        test.addCleanup(subprocess.run, ["ip", "netns", "del", self.name], check=False)
        for command in ("ip link add %s type veth peer name inner netns %s" % (self.outside, self.name),
                        "ip addr add %s/30 dev %s" % (self.ours, self.outside), "ip link set %s up" % self.outside,
                        "ip -n %s addr add %s/30 dev inner" % (self.name, self.theirs),
                        "ip -n %s link set inner up" % self.name):
            subprocess.run(command.split(), check=True)

    def narrow(self, rate):
        """What we send to it is let through at this rate; None: at any."""
        subprocess.run(["tc", "qdisc", "del", "dev", self.outside, "root"], capture_output=True, check=False)
        if rate:
            subprocess.run(("tc qdisc add dev %s root tbf rate %s burst 16kb limit 64kb" % (self.outside, rate)).split(),
                           check=True)

    def lose(self, percent):
        """So many of the packets that come there are lost; of those that it sends, too."""
        rules = ("table inet loss { chain in { type filter hook input priority 0; numgen random mod 100 < %d drop; }\n"
                 " chain out { type filter hook output priority 0; numgen random mod 100 < %d drop; }\n}\n") % (percent, percent)
        subprocess.run(["ip", "netns", "exec", self.name, "nft", "-f", "-"], input=rules.encode(), check=True)

    def within(self, *command):
        return ["ip", "netns", "exec", self.name, *command]


class LinkTest(unittest.TestCase):
    def daemon(self, link, *options):
        return Daemon("--allow-remote", *options, listen=("--http", "127.0.0.1:0", "--http", link.ours + ":0",
                                                          "--flv", "127.0.0.1:0"))

    def test_a_narrow_link(self):
        """A player behind it gets whole frames, up to what the link takes; another one beside it gets all."""
        link = Link(self)
        link.narrow("1mbit")
        with self.daemon(link, "--player-buffer", "256K", "--gop-size", "256K", "--wait", "0") as daemon:
            with Steady(daemon, pause=0.004, size=6000, gop=25) as steady:
                host, port = daemon.address("http", 1)
                probe = subprocess.Popen(link.within(tool.path("sluice-probe"), "--frames", "http://%s:%d/%s.flv" % (
                    host, port, steady.name)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.addCleanup(probe.communicate)
                self.addCleanup(probe.kill)

                def narrow():
                    return next((player for player in daemon.api()["players"]
                                 if player["address"].startswith(link.theirs)), None)

                def behind():
                    player = narrow()
                    return player and player["frames_dropped"] > 0 and player["queued_bytes"] > 0

                harness.wait_until(behind, "the narrow player to lose frames, and to be behind")
                link.narrow(None)
                harness.wait_until(lambda: narrow()["queued_bytes"] < 65536, "the player to catch up")
                steady.go_on(50)
            said = probe.communicate(timeout=harness.PATIENCE)[0].decode()
            self.assertEqual(probe.returncode, 0, said[-2000:])

    def test_a_lossy_link(self):
        """Publishers and players behind one that loses packets: TCP repairs it, and no frame is lost or changed."""
        link = Link(self)
        if not shutil.which("nft"):
            self.skipTest("no nft")
        link.lose(3 if LONG else 1)
        media = harness.make_media(harness.find_ffmpeg(), MEDIA)
        with self.daemon(link) as daemon:
            host, port = daemon.address("http", 1)
            done = subprocess.run(link.within(
                tool.path("sluice-push"), "-n", "5", "--players", "10", "--rate", "1" if LONG else "4", "--quiet", media,
                "http://%s:%d/live/a-%%d.flv" % (host, port)), capture_output=True, timeout=120, check=False)
            said = done.stdout.decode() + done.stderr.decode()
            self.assertEqual(done.returncode, 0, said)
            self.assertRegex(said, r"publishers: 5 of 5 served;")
            self.assertRegex(said, r"players: 10 of 10 served; .* 0 lost, 0 unknown")
            report("5 publishers and 10 players over a link that loses packets: %s", said.strip().splitlines()[-1].strip())


if __name__ == "__main__":
    tool.main("sluice-push", "sluice-probe")
