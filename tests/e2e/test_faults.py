"""What an operator's nights are made of: kills, descriptors that run out, slow attackers, idle crowds, churn, bad links.

The short form runs in CI. SLUICE_TEST_LONG=1 runs the long one, and prints what it has measured: tests/reports/faults.md.
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
from harness import Daemon, Player, Publisher, Steady
import tool

LONG = os.environ.get("SLUICE_TEST_LONG") == "1"
MEDIA = "%s %s -t 8 %s %s" % (harness.VIDEO, harness.tone(44100), harness.H264, harness.AAC)
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def report(text, *values):
    print("measured: " + text % values)


def resident_kib(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def connections(daemon):
    """Of all workers."""
    return sum(worker["connections"] for worker in daemon.api()["workers"])


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


def attack(address, count):
    """Sends the heads of so many requests byte by byte, until all have been ended: a process of its own."""
    selector, peers = selectors.DefaultSelector(), set()
    for _ in range(count):
        peer = socket.create_connection(address, harness.PATIENCE)
        peer.setblocking(False)
        peer.send(b"GET /live/a.flv HTTP/1.1\r\n")
        selector.register(peer, selectors.EVENT_READ)
        peers.add(peer)
    while peers:
        for key, _ in selector.select(0.5):
            with contextlib.suppress(ConnectionError):
                if key.fileobj.recv(4096):
                    continue
            selector.unregister(key.fileobj)
            key.fileobj.close()
            peers.discard(key.fileobj)
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.send(b"x")


class KillTest(unittest.TestCase):
    KILLS, STREAMS = (20, 10) if LONG else (2, 3)

    def test_kill_under_load(self):
        """Ready again at once, with the same ports; recordings are readable to the last whole tag."""
        media = harness.make_media(harness.find_ffmpeg(), MEDIA)
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            options = ("--record", "live/*=" + folder)
            daemon, took, repaired = Daemon(*options, listen=("--http", "127.0.0.1:0")), [], 0
            stack.callback(lambda: daemon.kill())
            address = "127.0.0.1:%d" % daemon.address("http")[1]
            with tool.Running("sluice-push", "-n", self.STREAMS, "--players", 2 * self.STREAMS, "--loop", "--quiet",
                              "--ramp", 0, "--retries", 1000000, media, "http://%s/live/a-%%d.flv" % address) as push:
                for number in range(self.KILLS):
                    daemon.wait_log("player started", 2 * self.STREAMS)
                    # Parts with some frames in them.
                    harness.wait_until(lambda: sum(
                        bool(stream["recording"]) and stream["recording"]["frames"] > 20
                        for stream in daemon.api()["streams"]) == self.STREAMS, "recordings under way")
                    before = time.monotonic()
                    daemon.process.send_signal(signal.SIGKILL)
                    again = Daemon(*options, listen=("--http", address))
                    took.append(time.monotonic() - before)
                    daemon.kill()
                    daemon = again
                    # One that was killed before a frame was on the disk is nothing.
                    harness.wait_until(lambda: len(daemon.log("recording repaired")) + len(
                        daemon.log("recording without a frame removed")) >= self.STREAMS, lambda: "the parts' repair: %s" % (
                            daemon.log(levels=("error", "warning")), ))
                    repaired += len(daemon.log("recording repaired"))
                    self.assertIsNone(push.process.poll(), number)
            report("%d kills with %d streams: ready again after %.0f ms on average, %.0f ms at most", self.KILLS,
                   self.STREAMS, statistics.mean(took) * 1000, max(took) * 1000)
            daemon.stop()
            paths = glob.glob(folder + "/live/*/*.flv")
            self.assertGreaterEqual(len(paths), repaired)
            self.assertGreater(repaired, self.KILLS * self.STREAMS / 2)
            self.assertEqual(glob.glob(folder + "/live/*/*.part"), [])
            for path in paths:
                with open(path, "rb") as file:
                    data = file.read()
                parser = flv.Parser()
                self.assertTrue(parser.feed(data))
                self.assertEqual(parser.rest, 0, path)
                done = subprocess.run(["ffprobe", "-v", "error", "-count_packets", "-show_entries",
                                       "stream=nb_read_packets", "-of", "csv=p=0", path], capture_output=True, check=True)
                self.assertEqual(done.stderr, b"", path)


class ExhaustionTest(unittest.TestCase):
    def test_descriptors_run_out(self):
        """Who is connected notices nothing, who comes waits, and is served once there is room: by itself."""
        with Daemon(within=("prlimit", "--nofile=64:64")) as daemon, contextlib.ExitStack() as stack:
            steady = stack.enter_context(Steady(daemon))
            crowd = contextlib.ExitStack()
            with crowd:
                for _ in range(80):
                    crowd.enter_context(daemon.connect())
                harness.wait_until(lambda: descriptors(daemon.process.pid) == 64, "no descriptor left")
                late = stack.enter_context(daemon.connect())
                late.sendall(REQUEST)
                steady.go_on(50)
            self.assertIn(b" 404 ", harness.read_to_end(late))
            harness.wait_until(lambda: descriptors(daemon.process.pid) < 40, "descriptors to be free again")
            for _ in range(20):
                self.assertEqual(daemon.request("GET", "/")[0], 404)
            steady.go_on()

    ATTACKERS = 1000 if LONG else 200

    def test_slowloris(self):
        """A crowd that sends its heads byte by byte: each is ended at its deadline, and others are served meanwhile."""
        with Daemon() as daemon, Steady(daemon) as steady:
            visitor = Visitor(daemon)
            self.addCleanup(visitor.end)
            count = 1000 if LONG else 100
            before = visitor.so_far(count)
            attackers = multiprocessing.get_context("spawn").Process(
                target=attack, args=(daemon.address("http"), self.ATTACKERS))
            attackers.start()
            self.addCleanup(attackers.kill)
            harness.wait_until(lambda: connections(daemon) >= self.ATTACKERS, "all attackers to be connected")
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
            attackers = multiprocessing.get_context("spawn").Process(target=attack, args=(daemon.address("admin"), 200))
            attackers.start()
            self.addCleanup(attackers.kill)
            harness.wait_until(lambda: descriptors(daemon.process.pid) >= before + 60, "a crowd to be connected")
            for _ in range(5):
                self.assertEqual(daemon.api("/api/v1/health")["status"], "ok")
            harness.wait_until(lambda: descriptors(daemon.process.pid) <= before + 64, "the others to be ended")
            # Nobody comes any more who would be let in for one of them.
            attackers.join(harness.PATIENCE)
            self.assertEqual(attackers.exitcode, 0)
            steady.go_on()
            self.assertEqual(daemon.api("/api/v1/health")["status"], "ok")

    IDLE, IDLE_KIB = (10000 if LONG else 2000), 16

    def test_idle_crowd(self):
        """What an idle connection costs, of each protocol."""
        listen = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
        for protocol, greeting in (("http", b""), ("rtsp", b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"), ("flv", b"")):
            with self.subTest(protocol), Daemon("--max-connections", "20000", listen=listen) as daemon, \
                    contextlib.ExitStack() as stack:
                before = resident_kib(daemon.process.pid)
                for _ in range(self.IDLE):
                    peer = stack.enter_context(daemon.connect(protocol))
                    if greeting:
                        peer.sendall(greeting)
                harness.wait_until(lambda: connections(daemon) >= self.IDLE, "all to be connected")
                each = (resident_kib(daemon.process.pid) - before) / self.IDLE
                report("%d idle connections, %s: %.2f KiB each", self.IDLE, protocol, each)
                # Sanitizers keep what is freed, and more.
                if "asan" not in harness.BUILD_DIR and "tsan" not in harness.BUILD_DIR:
                    self.assertLessEqual(each, self.IDLE_KIB)
                self.assertEqual(daemon.request("GET", "/")[0], 404)


class ChurnTest(unittest.TestCase):
    SECONDS, ROUNDS = (180, None) if LONG else (None, 150)

    def test_churn(self):
        """Publishers, players, requests and half requests come and go: descriptors and memory stay level."""
        data = flv.stream(60)[0]
        with Daemon(listen=("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")) as daemon:
            pid = daemon.process.pid

            def once(number):
                name = "live/churn-%d" % number
                with Publisher(daemon, name, "http") as publisher:
                    publisher.send(data)
                    with Player(daemon, name) as player:
                        player.wait_tags(3)
                        if number % 3:
                            publisher.finish()
                for protocol, text in (("http", b"GET /x HTTP/1.1\r\n"), ("rtsp", b"OPTIONS * RT"), ("flv", data[:5000])):
                    with daemon.connect(protocol) as peer:
                        peer.sendall(text)

            def settle():
                daemon.blocks_settled()
                harness.wait_until(lambda: connections(daemon) == 0, "all connections to end")
                return descriptors(pid), resident_kib(pid)

            number = 0
            for number in range(100):
                once(number)
            level, memory = settle()
            until = time.monotonic() + (self.SECONDS or 0)
            began, samples = time.monotonic(), []
            while (number < 100 + self.ROUNDS) if self.ROUNDS else (time.monotonic() < until):
                number += 1
                once(number)
                samples.append((time.monotonic() - began, resident_kib(pid)))
            after, grown = settle()
            # One connection of the administration's may still be closing.
            self.assertLessEqual(after, level + 1)
            half = samples[len(samples) // 2:]
            slope = statistics.linear_regression(*zip(*half)).slope * 3600 / 1024 if len(set(half)) > 2 else 0
            report("churn of %d rounds: descriptors %d, then %d; memory %d KiB, then %d KiB; in the second half %.2f MiB/h",
                   number, level, after, memory, grown, slope)
            if "asan" not in harness.BUILD_DIR and "tsan" not in harness.BUILD_DIR:
                self.assertLessEqual(grown - memory, 4096)


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

                def behind():
                    return next((player for player in daemon.api()["players"]
                                 if player["address"].startswith(link.theirs) and player["frames_dropped"] > 0), None)

                player = harness.wait_until(behind, "the narrow player to lose frames")
                self.assertGreater(player["queued_bytes"], 0)
                link.narrow(None)
                harness.wait_until(lambda: behind()["queued_bytes"] < 65536, "the player to catch up")
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
