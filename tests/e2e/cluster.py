"""A cluster for the end-to-end tests: redis-server, nodes, and publishers whose frames say who has sent them."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import flv
import harness
import relay
from harness import Daemon, wait_until

# Of frames that one publisher sends, at most.
EACH = 100000
LEASE = 5


def find_engine():
    return shutil.which("redis-server") or shutil.which("valkey-server")


def free_port(host):
    """A port of an address that is this process's alone."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


class Engine:
    """A redis-server that keeps nothing on the disk."""

    def __init__(self, port=None):
        self.host = harness.own_host()
        self.port = port or free_port(self.host)
        self._log = tempfile.TemporaryFile()
        self.process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.process = subprocess.Popen(
            [find_engine(), "--port", str(self.port), "--bind", self.host, "--save", "", "--appendonly", "no",
             "--protected-mode", "no"], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        wait_until(self._answers, "redis-server to answer")

    def _answers(self):
        try:
            return self.command("PING") == b"+PONG"
        except OSError:
            return False

    def command(self, *words):
        """The first line of the reply."""
        with socket.create_connection((self.host, self.port), timeout=harness.PATIENCE) as peer:
            peer.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in
                                                            (str(word).encode() for word in words)))
            return peer.makefile("rb").readline().strip()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def url(self):
        return "redis://%s:%d" % (self.host, self.port)


class Cluster:
    """An engine and nodes, which end with it."""

    SECRET = "0123456789abcdef0123456789abcdef"

    def __init__(self, *options):
        """options: of all nodes"""
        self.engine = Engine()
        self.options = options
        self.nodes = []
        self._folder = tempfile.mkdtemp()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for node in self.nodes:
            if kind is None:
                node.stop()
            else:
                node.kill()
                print("\nlog of a node:\n" + node.last_lines())
        self.engine.stop()
        shutil.rmtree(self._folder)

    def secret_file(self, secret=SECRET):
        path = os.path.join(self._folder, "secret-%d" % len(os.listdir(self._folder)))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secret + "\n")
        return path

    def add(self, name, *options, secret=SECRET):
        """Starts a node, and waits until it is one."""
        host = harness.own_host()
        port = free_port(host)
        listen = ("--http", "%s:%d" % (host, port), "--flv", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
        node = Daemon("--cluster", self.engine.url, "--node", name, "--cluster-secret-file", self.secret_file(secret),
                      *self.options, *options, listen=listen)
        self.nodes.append(node)
        self.wait_node(name)
        return node

    def wait_node(self, name, there=True):
        wait_until(lambda: (self.engine.command("EXISTS", "sluice:node:" + name) == b":1") == there,
                   "node %s %s" % (name, "to join" if there else "to go"))

    def wait_owner(self, stream, name):
        """Waits until the engine says that this node has the stream; empty: none."""
        def look():
            with socket.create_connection((self.engine.host, self.engine.port), timeout=harness.PATIENCE) as peer:
                key = "sluice:stream:" + stream
                peer.sendall(b"*3\r\n$4\r\nHGET\r\n$%d\r\n%s\r\n$4\r\nnode\r\n" % (len(key), key.encode()))
                lines = peer.makefile("rb")
                first = lines.readline()
                return (b"" if first.startswith((b"$-1", b"_")) else lines.readline().strip()).decode() == name
        wait_until(look, "%s to be at %r" % (stream, name))


class Marked(relay.Source):
    """A publisher in real time whose frames say which publisher has sent them, in the order in which publishers come."""

    def __init__(self, daemon, name, order, way="http", pause=0.02, start=0):
        super().__init__(daemon, name, way, order * EACH, start - order * EACH)
        self._ending, self._pause, self.error = threading.Event(), pause, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._ending.wait(self._pause):
                self.key = self.number % 10 == 0
                self.send(1)
        except OSError as error:
            self.error = error

    def close(self):
        self._ending.set()
        self._thread.join()
        super().close()


def orders(frames):
    """Who has sent them, each once for all that follow each other."""
    found = []
    for frame in frames:
        order = relay.number_of(frame) // EACH
        if frame.type == flv.AUDIO and found[-1:] != [order]:
            found.append(order)
    return found


def wait_order(player, order, count=10):
    """Waits until a harness.Player has so many frames of that publisher."""
    player.wait(lambda player: sum(tag.type == flv.AUDIO and relay.number_of(tag) // EACH == order
                                   for tag in player.frames[-400:]) >= count, "frames of publisher %d" % order)


def check_whole(test, player, expected):
    """Frames of these publishers, one after the other and never back; each track's time goes up."""
    frames = player.frames
    test.assertEqual(orders(frames), expected)
    for kind in (flv.VIDEO, flv.AUDIO):
        times = [frame.timestamp for frame in frames if frame.type == kind]
        test.assertEqual(times, sorted(set(times)))


def seconds_until(condition, what):
    begun = time.monotonic()
    wait_until(condition, what)
    return time.monotonic() - begun
