"""A cluster for the end-to-end tests: redis-server, nodes, and publishers whose frames say who has sent them."""

import os
import shutil
import tempfile
import threading

import flv
import harness
import redis_server
import relay
from harness import Daemon, wait_until

# Of frames that one publisher sends, at most.
EACH = 100000


class Cluster:
    """An engine and nodes, which end with it."""

    SECRET = "0123456789abcdef0123456789abcdef"

    def __init__(self, *options):
        """options: of all nodes"""
        self.engine = redis_server.Redis()
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

    def restart_engine(self):
        """After engine.stop(), at the same address, without anything of what there was."""
        self.engine = redis_server.Redis(address=(self.engine.host, self.engine.port))

    def secret_file(self, secret=SECRET):
        path = os.path.join(self._folder, "secret-%d" % len(os.listdir(self._folder)))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secret + "\n")
        return path

    def add(self, name, *options, secret=SECRET):
        """Starts a node, and waits until it is one."""
        listen = ("--http", harness.own_host() + ":0", "--flv", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
        node = Daemon("--cluster", self.engine.url, "--node", name, "--cluster-secret-file", self.secret_file(secret),
                      *self.options, *options, listen=listen)
        self.nodes.append(node)
        self.wait_node(name)
        return node

    def wait_node(self, name, there=True):
        wait_until(lambda: bool(self.engine.ask("EXISTS", "sluice:node:" + name)) == there,
                   "node %s %s" % (name, "to join" if there else "to go"))

    def wait_owner(self, stream, name):
        """Waits until the engine says that this node has the stream; empty: none."""
        wait_until(lambda: (self.engine.ask("HGET", "sluice:stream:" + stream, "node") or "") == name,
                   "%s to be at %r" % (stream, name))


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
