"""Everything at once: publishers and players of all protocols, and somebody who kicks, reloads, records and upgrades.

What is looked for is what sanitizers find, and what is not given back at the end. The short form runs in CI;
SLUICE_TEST_SOAK_MINUTES asks for a long one (tools/soak does), SLUICE_TEST_SEED for the same acts in the same order.
"""

import collections
import contextlib
import glob
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import flv
import harness
from harness import Player, Steady
import relay
import rtsp
from test_upgrade import Upgraded
import tool
import websockets

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
SECONDS = 60 * float(os.environ.get("SLUICE_TEST_SOAK_MINUTES", "0"))
SEED = int(os.environ.get("SLUICE_TEST_SEED", "1"))
MEDIA = "%s %s -t 8 %s %s" % (harness.VIDEO, harness.tone(44100), harness.H264, harness.AAC)
UPGRADE_EVERY = 20  # seconds, in the long form
DONE = (200, 204, 404, 409)  # What an operator may be told: what is asked for may be gone.


def address_of(daemon, protocol):
    return "%s:%d" % daemon.address(protocol)


class Load:
    """The sluice-push that run beside."""

    def __init__(self, daemon, media, folder):
        http, by_rtsp, raw = (address_of(daemon, protocol) for protocol in ("http", "rtsp", "flv"))
        self._folder, self.running, self._count = folder, [], 0
        self._commands = [
            ("-n", 3, "--players", 6, "--stalled", 2, media, "http://%s/live/a-%%d.flv" % http),
            ("-n", 2, "--players", 3, media, "rtsp://%s/live/r-%%d" % by_rtsp),
            ("-n", 2, media, "flv://%s" % raw),
            ("-n", 0, "--streams", 3, "--players", 3, "rtsp://%s/live/a-%%d" % by_rtsp),
            ("-n", 0, "--streams", 2, "--players", 3, "http://%s/live/r-%%d.flv" % http),
        ]
        for number in range(len(self._commands)):
            self.running.append(self._start(number))

    def _start(self, number):
        self._count += 1
        with open(os.path.join(self._folder, "push-%d" % self._count), "wb") as errors:
            publishes = self._commands[number][1] > 0
            return subprocess.Popen(
                [tool.path("sluice-push"), "--quiet", "--retries", "1000000", "--ramp", "0", *(["--loop"] if publishes else []),
                 *map(str, self._commands[number])],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)

    def restart(self, number):
        """One of them is killed, and comes again at once."""
        self.running[number].kill()
        self.running[number].wait()
        self.running[number] = self._start(number)

    def end(self):
        """None has ended by itself, and no sanitizer has said anything."""
        ended = [process.args for process in self.running if process.poll() is not None]
        for process in self.running:
            process.kill()
            process.wait()
        for path in glob.glob(self._folder + "/push-*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if "Sanitizer" in text or "runtime error" in text:
                raise AssertionError(text)
        if ended:
            raise AssertionError("ended by itself: %s" % ended)


class Soak:
    """What somebody does to a daemon beside its load, one act after the other."""

    def __init__(self, upgraded, load, config, folder):
        self.upgraded, self.daemon, self.load = upgraded, upgraded.daemon, load
        self.config, self.folder = config, folder
        self.random = random.Random(SEED)
        self.done = collections.Counter()
        self.number = 0
        self.acts = [self.kick, self.kick_one, self.reload, self.switch_recording, self.play_recordings, self.look,
                     self.watch, self.watch_websocket, self.watch_rtsp, self.publish, self.garbage, self.restart]

    def act(self, act):
        """Whatever the daemon does to its peers meanwhile, but for leaving them without an answer."""
        try:
            act()
        except TimeoutError:
            raise
        except (OSError, rtsp.Ended, websockets.exceptions.WebSocketException):
            self.done["of them broken off"] += 1
        self.done[act.__name__] += 1

    def ask(self, method, path):
        status = self.daemon.admin(method, path)[0]
        if status not in DONE:
            raise AssertionError("%s %s: %d" % (method, path, status))

    def stream(self):
        """The name of any stream; one that may not be there where there is none."""
        names = [stream["name"] for stream in self.daemon.api()["streams"]]
        return self.random.choice(names or ["live/a-1"])

    # An operator

    def kick(self):
        self.ask("DELETE", "/api/v1/streams/" + self.stream())

    def kick_one(self):
        kind = self.random.choice(["players", "publishers"])
        ids = [one["id"] for one in self.daemon.api("/api/v1/" + kind)[kind]]
        if ids:
            self.ask("DELETE", "/api/v1/%s/%d" % (kind, self.random.choice(ids)))

    def write_config(self, pull):
        with open(self.config, "w", encoding="ascii") as file:
            file.write("merge-window = [ \"%d\" ];\ncatch-up = %d;\nstall = %d;\nlog-rate = %d;\n" % (
                self.random.choice([0, 30]), self.random.choice([1, 10]), self.random.choice([2, 10]),
                self.random.choice([0, 200])))
            if pull:
                file.write("pull = [ \"rtsp://%s/live/r-1=pull/a%s\" ];\n" % (
                    address_of(self.daemon, "rtsp"), self.random.choice(["", ",on-demand"])))

    def reload(self):
        self.write_config(self.random.random() < 0.7)
        self.ask("POST", "/api/v1/reload")

    def switch_recording(self):
        self.ask(self.random.choice(["POST", "DELETE"]), "/api/v1/recordings/" + self.stream())

    def look(self):
        for path in ("streams", "players", "publishers", "recordings", "pulls", "pool", "workers", "config", "health"):
            self.ask("GET", "/api/v1/" + path)
        self.ask("GET", "/metrics")

    def upgrade(self):
        """Another process takes over, and the old one ends when its connections have."""
        before = self.upgraded.pids[-1] if self.upgraded.pids else self.daemon.process.pid
        handle = os.pidfd_open(before)
        try:
            self.upgraded.upgrade()
            if not select.select([handle], [], [], harness.PATIENCE)[0]:
                raise AssertionError("process %d does not end" % before)
        finally:
            os.close(handle)
        self.done["upgrade"] += 1

    # Others

    def restart(self):
        self.load.restart(self.random.randrange(len(self.load.running)))

    def leave(self, peer):
        """Closes a connection well, or resets it."""
        if self.random.random() < 0.5:
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()

    def play_recordings(self):
        paths = glob.glob(self.folder + "/live/*/*.flv")
        if not paths:
            return
        path = os.path.relpath(self.random.choice(paths), self.folder)
        self.daemon.request("GET", "/recordings/" + os.path.dirname(path))
        with self.daemon.connect() as peer:
            peer.sendall(("GET /recordings/%s HTTP/1.1\r\nHost: test\r\nRange: bytes=%d-\r\nConnection: close\r\n\r\n" % (
                path, self.random.randrange(20000))).encode())
            if self.random.random() < 0.5:
                harness.read_to_end(peer)
            else:
                peer.recv(100)
            self.leave(peer)
        if len(paths) > 50:
            os.unlink(self.random.choice(paths))

    def watch(self):
        with self.daemon.connect() as peer:
            peer.sendall(("GET /%s.flv HTTP/1.%d\r\nHost: test\r\n\r\n" % (
                self.stream(), self.random.randrange(2))).encode())
            for _ in range(self.random.randrange(5)):
                peer.recv(65536)
            self.leave(peer)

    def watch_websocket(self):
        with websockets.sync.client.connect("ws://%s/%s.flv" % (address_of(self.daemon, "http"), self.stream()),
                                            max_size=None, close_timeout=harness.PATIENCE) as peer:
            for _ in range(self.random.randrange(1, 20)):
                peer.recv(harness.PATIENCE)

    def watch_rtsp(self):
        with rtsp.Client(self.daemon, self.stream()) as client:
            if client.ask("DESCRIBE").status != 200:
                return
            client.setup(0)
            if client.ask("PLAY").status == 200:
                for _ in range(self.random.randrange(20)):
                    client.next_rtp()
            if self.random.random() < 0.5:
                client.ask("TEARDOWN")
            self.leave(client.peer)

    def publish(self):
        """A stream of a few frames with a player, by any protocol; some take a name that is taken."""
        self.number += 1
        way = self.random.choice(["http", "flv", "rtsp"])
        name = "live/a-1" if way == "http" and self.random.random() < 0.5 else "live/x-%d" % self.number
        with relay.Source(self.daemon, name if way != "flv" else None, way, 0) as source:
            source.send(self.random.randrange(1, 60))
            if self.random.random() < 0.5 and way == "http":
                source.publisher.finish()
            else:
                self.leave(source.peer)

    def garbage(self):
        beginnings = {"http": [b"", b"POST /live/g.flv HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
                               b"GET /live/a-1.flv HTTP/1.1\r\nHost: t\r\n"],
                      "rtsp": [b"", b"DESCRIBE rtsp://t/live/a-1 RTSP/1.0\r\nCSeq: 1\r\n\r\n$\0\xff\xff"],
                      "flv": [b"", flv.stream(10)[0]]}
        protocol = self.random.choice(list(beginnings))
        with self.daemon.connect(protocol) as peer:
            peer.sendall(self.random.choice(beginnings[protocol]) + self.random.randbytes(self.random.randrange(3000)))
            self.leave(peer)


class SoakTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.config = os.path.join(self.folder, "sluiced.conf")
        with open(self.config, "w", encoding="ascii"):
            pass

    def run_acts(self, soak):
        """Every act once; in the long form, again and again in any order."""
        for act in soak.acts:
            soak.act(act)
        soak.upgrade()
        until, upgraded = time.monotonic() + SECONDS, time.monotonic()
        while time.monotonic() < until:
            soak.act(soak.random.choice(soak.acts))
            if time.monotonic() - upgraded > UPGRADE_EVERY:
                soak.upgrade()
                upgraded = time.monotonic()

    def check_end(self, soak):
        """Nobody is left; then a publisher and a player are served, and everything has been given back."""
        soak.write_config(pull=False)
        soak.ask("POST", "/api/v1/reload")
        with Steady(soak.daemon) as steady:
            steady.go_on(50)
        soak.daemon.blocks_settled()

    def test_soak(self):
        media = harness.make_media(harness.find_ffmpeg(), MEDIA)
        options = ("--config", self.config, "--record", "live/*=" + self.folder, "--record-segment", "2", "--workers", "3",
                   "--memory", "64M", "--wait", "1", "--drain", "1")
        with Upgraded(*options, listen=LISTEN) as upgraded:
            load = Load(upgraded.daemon, media, self.folder)
            soak = Soak(upgraded, load, self.config, self.folder)
            try:
                harness.wait_until(lambda: sum(stream["state"] == "live" for stream in upgraded.daemon.api()["streams"]) >= 7,
                                   "the load")
                self.run_acts(soak)
            finally:
                load.end()
            self.check_end(soak)
            # Those before have ended.
            upgraded.pids[:] = upgraded.pids[-1:]
        print("seed %d: %s" % (SEED, ", ".join("%s %d" % pair for pair in sorted(soak.done.items()))), flush=True)


if __name__ == "__main__":
    tool.main("sluice-push")
