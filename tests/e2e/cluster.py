"""A cluster for the end-to-end tests: redis-server, nodes, the ways between them, and publishers with a mark in each
frame."""

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import threading

import flv
import harness
import redis_server
import relay
import rtmp
import rtsp
from harness import Daemon, wait_until

# Of frames that one publisher sends, at most.
EACH = 100000


class Cluster:
    """An engine and nodes, which end with it."""

    SECRET = "0123456789abcdef0123456789abcdef"

    def __init__(self, *options, engine=None):
        """options: of all nodes; engine: a Redis in place of one of its own"""
        self.engine = engine or redis_server.Redis()
        self.options = options
        self.nodes = []
        self._folder = tempfile.mkdtemp()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        # Whichever of them does not end well, the others do end.
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self._folder)
            stack.callback(self.engine.stop)
            for node in self.nodes:
                stack.callback(self._end, node, kind is None)

    @staticmethod
    def _end(node, is_well):
        if is_well:
            # At once: by SIGTERM it would send its clients to the others first.
            node.stop(signal.SIGINT)
        else:
            node.kill()
            print("\nlog of a node:\n" + node.last_lines())

    def restart_engine(self):
        """After engine.stop(), at the same address, without anything of what there was."""
        self.engine = redis_server.Redis(address=(self.engine.host, self.engine.port), environment=self.engine.environment)

    def secret_file(self, secret=SECRET):
        path = os.path.join(self._folder, "secret-%d" % len(os.listdir(self._folder)))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secret + "\n")
        return path

    def add(self, name, *options, **how):
        """As start(), and waits until it is a node."""
        node = self.start(name, *options, **how)
        self.wait_node(name)
        return node

    def start(self, name, *options, secret=SECRET, engine=None, way=None, http=None, others=()):
        """Starts a node. engine: its URL in place of the engine's own; way: a Wire by which the other nodes come to it; http: its
        listener of HTTP, which it advertises otherwise; others: options of those of other protocols."""
        others = others or ("--flv", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
        listen = ("--http", http or harness.own_host() + ":0", *others)
        advertised = ("--advertise", "%s:%d" % way.address) if way else ()
        node = Daemon("--cluster", engine or self.engine.url, "--node", name, "--cluster-secret-file",
                      self.secret_file(secret), *advertised, *self.options, *options, listen=listen)
        if way:
            way.lead_to(node.address("http"))
        node.name = name
        self.nodes.append(node)
        return node

    def wait_node(self, name, there=True):
        wait_until(lambda: bool(self.engine.ask("EXISTS", "sluice:node:" + name)) == there,
                   "node %s %s" % (name, "to join" if there else "to go"))

    def lease(self, name):
        """The incarnation of the process that is this node; empty: none is."""
        return (self.engine.ask("GET", "sluice:node:" + name) or "").split(" ")[0]

    def wait_acquainted(self):
        """Waits until each node has looked for the others: it does with each renewal of its lease."""
        def beats():
            return {node.name: int(self.engine.ask("GET", "sluice:node:" + node.name).split(" ")[1]) for node in self.nodes}
        before = beats()
        wait_until(lambda: all(beat > before[name] for name, beat in beats().items()), "nodes to renew their leases")

    def wait_owner(self, stream, name):
        """Waits until the engine says that this node has the stream; empty: none."""
        wait_until(lambda: (self.engine.ask("HGET", "sluice:stream:" + stream, "node") or "") == name,
                   "%s to be at %r" % (stream, name))


class Wire:
    """A way by TCP to a server, which can be held up: what is sent meanwhile arrives afterwards. As a context it ends with it."""

    def __init__(self, target=None):
        """target: the address it leads to; None: that is said later"""
        self.connections = 0
        self._target, self._pairs, self._lock = target, set(), threading.Lock()
        self._cuts = 0
        self._open = threading.Event()
        self._listener = socket.create_server((harness.own_host(), 0), backlog=1024)
        self.address = self._listener.getsockname()
        self._is_ending = False
        if target:
            self._open.set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._is_ending = True
        self.release()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        self.cut()

    @property
    def url(self):
        return "redis://%s:%d" % self.address

    def lead_to(self, target):
        """New connections go there, when they may pass."""
        if self._target is None:
            self._open.set()
        self._target = target

    def hold(self):
        """Nothing passes from now on, and nobody is told."""
        self._open.clear()

    def release(self):
        """Everything passes again, with what has been held up."""
        self._open.set()

    def cut(self):
        """Breaks all connections; what is held up is lost."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
            self._cuts += 1
        for pair in pairs:
            for peer in pair:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                peer = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._connect, args=(peer,), daemon=True).start()

    def _connect(self, peer):
        cuts = self._cuts
        self._open.wait()
        try:
            if self._is_ending:
                raise OSError
            other = socket.create_connection(self._target, harness.PATIENCE)
        except OSError:
            peer.close()
            return
        other.settimeout(None)
        pair = (peer, other)
        # One that was made meanwhile is cut, too.
        with self._lock:
            if cuts == self._cuts:
                self._pairs.add(pair)
        threads = [threading.Thread(target=self._carry, args=(*way, pair), daemon=True) for way in (pair, pair[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            end.close()

    def _carry(self, one, other, pair):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                while not self._open.wait(0.05) and pair in self._pairs:
                    pass
                if pair not in self._pairs:
                    break
                other.sendall(data)
        while not self._open.wait(0.05) and pair in self._pairs:
            pass
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)


class Marked(relay.Source):
    """A publisher in real time whose frames say which publisher has sent them, in the order in which publishers come."""

    def __init__(self, daemon, name, order, way="http", pause=0.02, start=0, group=10):
        """group: of how many frames each has one key frame"""
        super().__init__(daemon, name, way, order * EACH, start - order * EACH)
        self._ending, self._pause, self._group, self.error = threading.Event(), pause, group, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._ending.wait(self._pause):
                self.key = self.key or self.number % self._group == 0
                self.send(1)
        except OSError as error:
            self.error = error

    def is_ended(self):
        """Whether the node has answered or ended the connection."""
        return bool(select.select([self.peer], [], [], 0)[0])

    def close(self):
        self._ending.set()
        self._thread.join()
        super().close()


class RtspPlayer:
    """Plays what a Marked sends by RTSP, in a thread, and keeps the frames of its audio track as if they had come by FLV."""

    def __init__(self, daemon, name):
        self._frames, self._news, self.error = [], threading.Condition(), None
        self._client = rtsp.Client(daemon, name)
        self._client.play()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._client.peer.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._client.close()

    @property
    def frames(self):
        with self._news:
            return list(self._frames)

    def wait(self, condition, what):
        """As of a harness.Player."""
        with self._news:
            if not self._news.wait_for(lambda: self.error or condition(self), harness.PATIENCE) or self.error:
                raise AssertionError("the player never came to %s: %d frames, %r" % (what, len(self._frames), self.error))

    def _run(self):
        last = time = 0
        try:
            while True:
                packet = self._client.next_rtp()
                if packet.channel != 2:
                    continue
                # Against the first one: the times of RTP begin anywhere, and end at 2^32.
                step = (packet.timestamp - last) & 0xFFFFFFFF if self._frames else 0
                time += step - ((step & 0x80000000) << 1)
                last = packet.timestamp
                with self._news:
                    self._frames.append(flv.Tag(flv.AUDIO, time, b"\xaf\x01" + packet.payload[4:]))
                    self._news.notify_all()
        except (OSError, AssertionError, rtsp.Ended) as error:
            with self._news:
                self.error = error
                self._news.notify_all()


class RtmpPlayer(rtmp.Player):
    """As a harness.Player."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def frames(self):
        return [tag for tag in list(self.tags) if tag.is_frame]

    def wait(self, condition, what):
        self._wait(lambda: condition(self), what)


def mark_of(frame):
    """(publisher, number) of a frame that a Marked has sent."""
    at = 10 if frame.type == flv.VIDEO else 2
    return divmod(int.from_bytes(frame.payload[at:at + 4], "big"), EACH)


def check_never_mixed(test, frames):
    """For whatever has happened: frames of two publishers never alternate, and each track's time goes up. One that has been
    superseded may be accepted again, by a new epoch: then it goes on behind what there was of it. Returns the publishers in turn."""
    runs, last, times = [], {}, {}
    for frame in frames:
        order, number = mark_of(frame)
        if not runs or runs[-1][0] != order:
            runs.append((order, last.get(order, -1)))
        test.assertGreater(number, runs[-1][1], "a frame of publisher %d from before it was superseded; %s" % (order, runs))
        last[order] = max(number, last.get(order, -1))
        test.assertGreater(frame.timestamp, times.get(frame.type, -1), "times of publisher %d, frame %d" % (order, number))
        times[frame.type] = frame.timestamp
    return [order for order, _ in runs]


def orders(frames):
    """Their publishers, each once for all frames that follow each other."""
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
