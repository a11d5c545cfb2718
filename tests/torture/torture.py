#!/usr/bin/env python3
"""The daemon while its calls fail: the Nth allocation or system call, once or from then on, at every N or a sample.

The daemon is the built one, but for its calls, which go through tests/torture/faults.c. What is promised at every point:

- it does not crash, and no sanitizer has anything to say;
- while it starts, it becomes ready, or ends with a line that says why;
- later it goes on: when calls succeed again, every block and descriptor is back, and the next publisher and player are
  served;
- it stops when it is told to.

Environment: SLUICED, the daemon with faults; the others as in tests/e2e/harness.py.
"""

import argparse
import collections
import contextlib
import glob
import http.client
import itertools
import mmap
import os
import shutil
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

# pylint: disable=wrong-import-position
import certificates
import flv
import harness
import rtmp
import rtsp
from harness import Daemon, Publisher

KINDS = {"allocations": 1, "system": 2}
LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0",
          "--rtmp", "127.0.0.1:0")
MEDIA = flv.header() + b"".join(tag.pack() for tag in flv.first_tags()) + b"".join(
    tag.pack() for tag in itertools.islice(flv.frames(), 12))
TAGS = 10  # that a player waits for
WEBSOCKET = (b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")

Point = collections.namedtuple("Point", "scenario kind forever number")


class Broken(Exception):
    """A promise that was not kept."""


class Faults:
    """The state in tests/torture/faults.h, in a file that the daemon maps."""

    NAMES = ("kinds", "fail_at", "forever", "variant", "calls", "failed", "live", "error")
    FRAMES = 16
    SIZE = 8 * len(NAMES) + 32 + 8 + 8 * FRAMES

    def __init__(self, folder):
        self.path = os.path.join(folder, "faults")
        with open(self.path, "wb") as file:
            file.write(bytes(self.SIZE))
        with open(self.path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.SIZE)

    def __getattr__(self, name):
        at = 8 * self.NAMES.index(name)
        return struct.unpack("=Q", self._map[at:at + 8])[0]

    def set(self, **values):
        for name, value in values.items():
            at = 8 * self.NAMES.index(name)
            self._map[at:at + 8] = struct.pack("=Q", value)

    def arm(self, point, variant=0):
        self.set(kinds=0)
        self._map[:] = bytes(self.SIZE - 8 * (self.FRAMES + 1)) + self._map[self.SIZE - 8 * (self.FRAMES + 1):]
        self.set(fail_at=point.number, forever=int(point.forever), variant=variant)
        self.set(kinds=KINDS[point.kind])

    def disarm(self):
        self.set(kinds=0)

    def told(self):
        """What has failed, and where: the innermost frames, with lines where addr2line knows them."""
        if not self.failed:
            return "nothing has failed"
        at = 8 * len(self.NAMES)
        name = self._map[at:at + 32].rstrip(b"\0").decode()
        base, *frames = struct.unpack("=%dQ" % (1 + self.FRAMES), self._map[at + 32:at + 32 + 8 * (1 + self.FRAMES)])
        addresses = ["%#x" % (frame - base - 1) for frame in frames if base <= frame < base + (1 << 32)]
        done = subprocess.run(["addr2line", "-sfe", harness.SLUICED, *addresses], capture_output=True, check=False)
        words = done.stdout.decode().split("\n")
        places = ["%s (%s)" % pair for pair in zip(words[::2], words[1::2])]
        return "%s: %s, %d failed; at %s" % (name, os.strerror(self.error), self.failed, " < ".join(places[:9]))


# What is done with a daemon that runs. Peers bear everything, but for waiting in vain, and bytes that are not FLV.



IMPATIENCE = 0.2  # seconds that a peer waits while all system calls fail, and with them, perhaps, every accept


@contextlib.contextmanager
def bearing():
    """Whatever the daemon does to its peers, but for leaving them without an answer."""
    try:
        yield
    except TimeoutError:
        if harness.PATIENCE != IMPATIENCE:
            raise
    except (OSError, rtsp.Ended, rtmp.Ended, http.client.HTTPException):
        pass


def connect(daemon, protocol="http"):
    peer = daemon.connect(protocol)
    peer.settimeout(harness.PATIENCE)
    return peer


def is_served(player, publisher):
    """Waits for what a player is sent first; in vain, where its publisher is turned away."""
    readable = select.select([player, publisher.peer], [], [], harness.PATIENCE)[0]
    if not readable:
        raise TimeoutError("neither the player nor the publisher is answered")
    return player in readable


def read_tags(peer, count, publisher=None):
    """Reads a response up to so many tags, or its end; how many there were."""
    data, parser, seen, chunks = b"", flv.Parser(), 0, harness.Dechunker()
    if publisher and not is_served(peer, publisher):
        return 0
    while b"\r\n\r\n" not in data:
        more = peer.recv(65536)
        if not more:
            return 0
        data += more
    head, _, data = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return 0
    while True:
        seen += len(parser.feed(chunks.feed(data)))
        if seen >= count or chunks.ended:
            return seen
        data = peer.recv(65536)
        if not data:
            return seen


@contextlib.contextmanager
def published(daemon, name="live/a", protocol="http"):
    """A stream, if the daemon takes it."""
    with Publisher(daemon, name, protocol) as publisher:
        publisher.peer.settimeout(harness.PATIENCE)
        with bearing():
            publisher.send(MEDIA)
        with bearing():
            yield publisher
        with bearing():
            if protocol == "http":
                publisher.peer.sendall(b"0\r\n\r\n")
            publisher.peer.shutdown(socket.SHUT_WR)
            harness.read_to_end(publisher.peer)


def play_http(daemon):
    with published(daemon) as publisher, connect(daemon) as player:
        player.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
        return read_tags(player, TAGS, publisher)
    return 0


def play_tls(daemon):
    """With a certificate that rules may name. Records need memory: while there is none, the player waits."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(daemon.certificate.chain, daemon.certificate.key)
    with published(daemon) as publisher, daemon.connect("http", 1) as plain:
        plain.settimeout(IMPATIENCE)
        with contextlib.suppress(TimeoutError), context.wrap_socket(plain) as player:
            player.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
            read_tags(player, TAGS, publisher)


def play_raw(daemon):
    with published(daemon, "live/raw", "flv") as publisher, connect(daemon) as player:
        player.sendall(b"GET /live/raw.flv HTTP/1.0\r\nHost: test\r\n\r\n")
        if is_served(player, publisher):
            player.recv(100)


def play_websocket(daemon):
    with published(daemon) as publisher, connect(daemon) as player:
        player.sendall(WEBSOCKET)
        data = b""
        while len(data) < 4000 and is_served(player, publisher):
            more = player.recv(65536)
            if not more:
                break
            data += more
        player.sendall(b"\x88\x82\0\0\0\0\x03\xe8")  # close, 1000
        harness.read_to_end(player)


def rtsp_steps(client, steps):
    """Requests up to the first that is refused."""
    return all(step().status == 200 for step in steps)


def play_rtsp(daemon):
    with published(daemon), rtsp.Client(daemon) as client:
        if rtsp_steps(client, (lambda: client.ask("OPTIONS"), lambda: client.ask("DESCRIBE"), lambda: client.setup(0),
                               lambda: client.setup(1), lambda: client.ask("PLAY"))):
            for _ in range(5):
                client.next_rtp()
            client.ask("TEARDOWN")


def publish_rtsp(daemon):
    with bearing(), rtsp.Client(daemon) as client:
        if not rtsp_steps(client, (lambda: client.ask("ANNOUNCE", body=rtsp.SDP), lambda: client.setup(0, True),
                                   lambda: client.setup(1, True), lambda: client.ask("RECORD"))):
            return
        for number in range(20):
            client.send_rtp(0, b"\x65" + bytes(900), number, number * 3600)
            client.send_rtp(2, struct.pack(">HH", 16, 100 << 3) + bytes(100), number, number * 1024, payload_type=97)
        with connect(daemon) as player:
            player.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
            read_tags(player, 4)
        client.ask("TEARDOWN")


@contextlib.contextmanager
def rtmp_client(daemon):
    with rtmp.Client(daemon, handshake=False) as client:
        client.peer.settimeout(harness.PATIENCE)
        client.shake_hands()
        yield client


def play_rtmp(daemon):
    with published(daemon), rtmp_client(daemon) as client:
        if client.begin("play", "a")["code"] == "NetStream.Play.Start":
            client.media(5)


def publish_rtmp(daemon):
    with bearing(), rtmp_client(daemon) as client:
        if client.begin("publish", "a")["code"] != "NetStream.Publish.Start":
            return
        client.set_chunk_size(1000)
        for tag in flv.stream(20)[1]:
            client.send(tag.type, tag.payload, timestamp=tag.timestamp)
        with connect(daemon) as player:
            player.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
            read_tags(player, 4)
        client.finish()


def record(daemon):
    with published(daemon, "rec/a"):
        pass


def get(daemon, path, protocol="admin", method="GET"):
    with bearing():
        return daemon.request(method, path, protocol=protocol)
    return None


def play_recordings(daemon):
    files = glob.glob(os.path.join(daemon.folder, "rec", "b", "*.flv"))
    get(daemon, "/recordings/rec/b", "http")
    get(daemon, "/recordings/rec/b/" + os.path.basename(files[0]), "http")


def api(daemon):
    for path in ("snapshot", "streams", "streams/live%2Fa", "players", "publishers", "pulls", "pool", "workers", "config",
                 "health", "version", "openapi.json", "nothing"):
        get(daemon, "/api/v1/" + path)
    get(daemon, "/metrics")
    get(daemon, "/")


def challenge(daemon):
    for token in ("token", "none"):
        get(daemon, "/.well-known/acme-challenge/" + token, "http")


def kick(daemon):
    with published(daemon) as publisher, connect(daemon) as player:
        player.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
        read_tags(player, 4, publisher)
        get(daemon, "/api/v1/streams/live%2Fa", method="DELETE")
        harness.read_to_end(player)


def reload(daemon):
    daemon.turn += 1
    daemon.write_config(pull=daemon.turn % 2)
    get(daemon, "/api/v1/reload", method="POST")


RUNNING = {work.__name__: work for work in (play_http, play_tls, play_raw, play_websocket, play_rtsp, publish_rtsp,
                                            play_rtmp, publish_rtmp, record, play_recordings, api, challenge, kick, reload)}


class Tortured(Daemon):
    """A daemon whose calls may fail, with streams to record and a file to reload."""

    def __init__(self, faults, folder, backend, certificate):
        self.folder, self.turn, self.certificate = folder, 0, certificate
        self.config = os.path.join(folder, "sluiced.conf")
        self.write_config(pull=0)
        faults.disarm()
        super().__init__("--config", self.config, "--record", "rec/*=" + folder, "--workers", "1", "--wait", "1", "--idle", "1",
                         "--memory", "16M", "--log-rate", "0", "--backend", backend, "--acme-root", folder,
                         listen=(*LISTEN, "--http", "127.0.0.1:0,tls"),
                         environment={"SLUICE_FAULTS": faults.path})
        if not glob.glob(os.path.join(folder, "rec", "b", "*.flv")):
            with published(self, "rec/b"):
                pass
            harness.wait_until(lambda: glob.glob(os.path.join(folder, "rec", "b", "*.flv")), "a recording")

    def write_config(self, pull):
        """With a pull of a stream that is not there, where that is asked for; at a port that nobody listens at."""
        with open(self.config, "w", encoding="ascii") as file:
            file.write('stall = %d;\n' % (10 + pull))
            file.write('tls-certificate = "%s";\ntls-client-ca = "%s";\n' % (self.certificate.option, self.certificate.chain))
            if pull:
                file.write('pull = [ "rtsp://127.0.0.1:1/a=pull/a,on-demand" ];\n')

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def is_dead(self):
        return self.process.poll() is not None

    def settle(self, descriptors=None):
        """Everything is back: blocks, connections, descriptors."""
        self.blocks_settled()
        if descriptors is not None:
            harness.wait_until(lambda: self.descriptors() <= descriptors,
                               lambda: "%d descriptors; there are %d" % (descriptors, self.descriptors()))


class Torture:
    """Runs points, and keeps what went wrong."""

    def __init__(self, folder, backend, variant):
        self.folder, self.backend, self.variant = folder, backend, variant
        self.faults = Faults(folder)
        self.certificate = certificates.make(folder, "client")
        challenges = os.path.join(folder, ".well-known", "acme-challenge")
        os.makedirs(challenges)
        with open(os.path.join(challenges, "token"), "w", encoding="ascii") as file:
            file.write("token.hash")
        self.output = os.path.join(folder, "output")
        self.outputs = {}  # of each command, when nothing fails
        self.failures = []
        self.daemon, self.baseline = None, 0
        self.outcomes = collections.Counter()
        self.verbose = False

    # A daemon that runs

    def open(self):
        self.daemon = Tortured(self.faults, self.folder, self.backend, self.certificate)
        for work in RUNNING.values():
            work(self.daemon)
        self.daemon.settle()
        self.baseline = self.daemon.descriptors()

    def close(self):
        """Ends the daemon, which must have nothing to say of leaks."""
        daemon, self.daemon = self.daemon, None
        self.faults.disarm()
        if daemon:
            daemon.stop()

    def run_running(self, point):
        if not self.daemon:
            self.open()
        daemon = self.daemon
        patience = harness.PATIENCE
        if point.forever and point.kind == "system":
            harness.PATIENCE = IMPATIENCE
        self.faults.arm(point, self.variant)
        try:
            with bearing():
                RUNNING[point.scenario](daemon)
        except (OSError, AssertionError, flv.Broken) as error:
            self.faults.disarm()
            if daemon.is_dead():
                raise Broken("the daemon has ended") from error
            raise Broken("a peer: %r" % error) from error
        finally:
            harness.PATIENCE = patience
        calls, failed = self.faults.calls, self.faults.failed
        self.faults.disarm()
        self.check_running(daemon)
        self.outcomes["went on" if failed else "nothing failed"] += 1
        return calls

    def check_running(self, daemon):
        try:
            # Connections that were not accepted in time are now, and may have the stream for a moment.
            harness.wait_until(lambda: play_http(daemon) >= TAGS, "the next player is served")
            daemon.settle(self.baseline)
        except (OSError, AssertionError, http.client.HTTPException) as error:
            if daemon.is_dead():
                raise Broken("the daemon has ended") from error
            raise Broken("afterwards: %.1000s" % error) from error

    def give_up(self):
        """After a failure: the daemon's last words, and another one for the next point."""
        daemon, self.daemon = self.daemon, None
        self.faults.disarm()
        if not daemon:
            return ""
        daemon.kill()
        return "\n".join(line.text for line in daemon.log()[-40:])

    # A daemon that starts, and one that stops

    def begin(self, *arguments):
        """A process, and what it says up to "ready", or its end."""
        with open(self.output, "wb") as output:
            process = subprocess.Popen([harness.SLUICED, *arguments], stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.PIPE, env=dict(os.environ, SLUICE_FAULTS=self.faults.path))
        guard = threading.Timer(harness.PATIENCE, process.kill)
        guard.start()
        lines = []
        for line in process.stderr:
            lines.append(line.decode(errors="replace").rstrip())
            if " ready" in lines[-1]:
                break
        return process, guard, lines

    @staticmethod
    def end(process, guard, lines, stop):
        """Stops it, where it is to be; its status."""
        if stop:
            process.send_signal(signal.SIGTERM)
        lines += [line.decode(errors="replace").rstrip() for line in process.stderr]
        status = process.wait()
        guard.cancel()
        process.stderr.close()
        text = "\n".join(lines)
        if "Sanitizer" in text or "runtime error:" in text or status < 0:
            raise Broken("status %d\n%s" % (status, text))
        return status

    def options(self):
        """Every kind of setting."""
        folder = self.folder
        for name, text in (("users", "publish a:b\nplay c:d\n"), ("keys", "k:0123456789abcdef0123456789abcdef\n"),
                           ("token", "0123456789abcdef0123456789abcdef\n"), ("pulls", "rtsp://127.0.0.1:1/b =pull/b\n")):
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                with open(path, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                    file.write(text)
        path = os.path.join(folder, "start.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write('memory = "16M";\nmerge-window = [ "live/a=20", "30" ];\nlog-level = "info";\nwait = 1;\n'
                       'rule = [ "all live/* allow", "play * user", "publish b/* token=k,cert=client" ];\n'
                       'tls-certificate = [ "%s", "*.x=%s" ];\ntls-client-ca = "%s";\nacme-root = "%s";\n'
                       'token-keys = "%s/keys";\nrtsp-users = "%s/users";\nadmin-token-file = "%s/token";\n'
                       'pull-file = "%s/pulls";\nrecord = [ "rec/*=%s" ];\n'
                       'hook-publish = "http://127.0.0.1:1/hook";\n' % (
                           self.certificate.option, self.certificate.option, self.certificate.chain, folder, *(folder,) * 5))
        return [*LISTEN, "--http", "127.0.0.1:0,tls", "--admin", "127.0.0.1:0", "--workers", "2", "--config", path, "--backend", self.backend]

    def run_start(self, point):
        arguments = self.options() + {"start": [], "check": ["--check"], "print": ["--print-config"],
                                      "sign": ["--sign", "play,live/a,60"]}[point.scenario]
        self.faults.arm(point, self.variant)
        process, guard, lines = self.begin(*arguments)
        calls, failed = self.faults.calls, self.faults.failed
        self.faults.disarm()
        ready = bool(lines) and " ready" in lines[-1]
        status = self.end(process, guard, lines, ready)
        # Who is ready has all its threads, each of which has made a turn.
        if ready and status != 0:
            raise Broken("status %d after its stop\n%s" % (status, "\n".join(lines)))
        if not ready and status != 0 and not lines:
            raise Broken("status %d without a word" % status)
        if not ready and status == 0:
            self.check_output(point, lines)
        self.outcomes["nothing failed" if not failed else "ready" if ready else "well" if status == 0 else "said why"] += 1
        return calls

    def check_output(self, point, lines):
        """What ends well says all that it says when nothing fails, signatures aside, whose time is in them."""
        if point.scenario == "start":
            raise Broken("ends by itself, and well\n" + "\n".join(lines))
        with open(self.output, encoding="ascii") as file:
            said = len(file.read()) if point.scenario == "sign" else file.read()
        if self.outputs.setdefault(point.scenario, said) != said:
            raise Broken("ends well, and has said:\n%s" % said)

    def run_stop(self, point):
        self.faults.disarm()
        process, guard, lines = self.begin(*LISTEN, "--admin", "127.0.0.1:0", "--workers", "2", "--backend",
                                           self.backend, "--record", "live/*=" + self.folder)
        daemon = _Listening(lines)
        with Publisher(daemon, "live/a", "http") as publisher, daemon.connect("http") as player:
            publisher.send(MEDIA)
            player.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
            read_tags(player, 4)
            self.faults.arm(point, self.variant)
            process.send_signal(signal.SIGTERM)
        self.end(process, guard, lines, False)
        calls, failed = self.faults.calls, self.faults.failed
        self.faults.disarm()
        self.outcomes["stopped" if failed else "nothing failed"] += 1
        return calls

    # Points

    def run(self, point):
        """Runs a point: how many calls there were; None after a failure."""
        try:
            if point.scenario in RUNNING:
                return self.run_running(point)
            if point.scenario == "stop":
                return self.run_stop(point)
            return self.run_start(point)
        except Broken as broken:
            told = self.faults.told()
            words = self.give_up()
            self.failures.append(point)
            print("BROKEN %s: %s\n  %s\n  again: %s\n%s" % (name_of(point), broken, told, self.command(point), words),
                  flush=True)
            return None

    def command(self, point):
        return "tools/torture --backend %s --kind %s%s --variant %d --at %d %s" % (
            self.backend, point.kind, " --forever" if point.forever else "", self.variant, point.number,
            point.scenario)

    def run_scenario(self, scenario, kind, forever, choose):
        """Runs the chosen points of a scenario, and prints a line."""
        self.outcomes.clear()
        begun, points, failed = time.monotonic(), 0, len(self.failures)
        if scenario in RUNNING and not self.daemon:
            self.open()
        calls = self.run(Point(scenario, kind, forever, 0)) or 0
        self.outcomes.clear()
        for number in choose(calls):
            since = time.monotonic()
            self.run(Point(scenario, kind, forever, number))
            points += 1
            if self.verbose:
                print("%d, %.1f s: %s" % (number, time.monotonic() - since, self.faults.told()), flush=True)
        print("| %s | %s | %s | %s | %d | %d | %s | %d | %.0f s |" % (
            scenario, self.backend, kind, "from then on" if forever else "once", calls, points,
            ", ".join("%s %d" % item for item in sorted(self.outcomes.items())), len(self.failures) - failed,
            time.monotonic() - begun), flush=True)
        return points


class _Listening:
    """Of a process that has said where it listens: what publishers and players ask of a daemon."""

    address, connect = Daemon.address, Daemon.connect

    def __init__(self, lines):
        self.listening = []
        for line in map(harness.LogLine, lines):
            if line.message == "listening":
                host, _, port = line.fields["address"].rpartition(":")
                self.listening.append((line.fields["proto"], host, int(port)))


def name_of(point):
    return "%s, %s %s %d" % (point.scenario, point.kind, "from" if point.forever else "at", point.number)


SCENARIOS = ["check", "print", "sign", "start", *RUNNING, "stop"]


def sample(count):
    """So many of the calls, evenly; all of them for None."""
    def choose(calls):
        if count is None or calls <= count:
            return range(1, calls + 1)
        return sorted({1 + index * calls // count for index in range(count)})
    return choose


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="every point, not a sample")
    parser.add_argument("--points", type=int, default=4, help="of each scenario, kind and manner (4)")
    parser.add_argument("--at", type=int, help="this point alone")
    parser.add_argument("--kind", choices=KINDS, help="allocations or system calls alone")
    parser.add_argument("--forever", action="store_true", help="only with all later calls failing as well")
    parser.add_argument("--once", action="store_true", help="only with a single call failing")
    parser.add_argument("--variant", type=int, default=0, help="where a call may give several errors: another one (0)")
    parser.add_argument("--backend", choices=("uring", "epoll"), help="one backend alone")
    parser.add_argument("--verbose", action="store_true", help="tell of each point what has failed")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    options = parser.parse_args()
    unknown = set(options.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error("no such scenario: " + " ".join(sorted(unknown)))
    choose = sample(None if options.all else options.points)
    if options.at is not None:
        choose = lambda calls: [options.at]
    manners = [True] if options.forever else [False] if options.once or options.at is not None else [False, True]
    points, failures = 0, []
    print("| scenario | backend | calls that fail | | calls | points | outcomes | broken | |\n|" + "---|" * 9)
    for backend in [options.backend] if options.backend else ["uring", "epoll"]:
        folder = tempfile.mkdtemp(prefix="sluice-torture-")
        try:
            torture = Torture(folder, backend, options.variant)
            torture.verbose = options.verbose
            for scenario in options.scenarios or SCENARIOS:
                for kind in [options.kind] if options.kind else KINDS:
                    for forever in manners:
                        points += torture.run_scenario(scenario, kind, forever, choose)
            try:
                torture.close()
            except AssertionError as error:
                failures.append(error)
                print("BROKEN at the end: %s" % error)
            failures += torture.failures
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print("%d points, %d broken" % (points, len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    if not os.access(harness.SLUICED, os.X_OK):
        harness.skip_file("no daemon with faults at %s (environment variable SLUICED)" % harness.SLUICED)
    sys.exit(main())
