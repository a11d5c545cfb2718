"""A cluster whose parts stop, are cut off from each other, forget, and come back: whatever happens, no player gets frames of two
publishers mixed, and times rise.

The short form runs in CI. tools/cluster --faults runs the long one (SLUICE_TEST_LONG=1), which is for minutes of faults by chance.
"""

import contextlib
import itertools
import random
import signal
import threading
import time
import unittest

import harness
import long_form
import preload
import redis_server
from cluster import EACH, Cluster, Marked, RtmpPlayer, RtspPlayer, Wire, check_never_mixed, check_whole, mark_of, wait_order
from harness import Player, wait_until

NAME = "live/a"
HOUR_US = 3600 * 1000000


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def cluster(self, *options, engine=None):
        return self.stack.enter_context(Cluster(*options, engine=engine))

    def player(self, node, name=NAME):
        return self.stack.enter_context(Player(node, name))

    def publish(self, node, order, name=NAME, way="http"):
        return self.stack.enter_context(Marked(node, name, order, way))

    def wire(self, target=None):
        return self.stack.enter_context(Wire(target))

    def skewed_engine(self):
        """An engine, and how far its clock is ahead."""
        clock = preload.skewed_clock(self)
        return redis_server.Redis(environment=clock.environment), clock


class FaultTest(Case):
    def test_node_without_its_engine(self):
        """It goes on with what it has, of which another node has become the origin; and learns it when the engine is back."""
        nodes = self.cluster("--same-name", "take-over")
        way = self.wire((nodes.engine.host, nodes.engine.port))
        a, b, c = nodes.add("a", engine=way.url), nodes.add("b"), nodes.add("c")
        players = [self.player(node) for node in (a, b, c)]
        first = self.publish(a, 1)
        for player in players:
            wait_order(player, 1)
        way.hold()
        self.publish(b, 2)
        for player in players[1:]:
            wait_order(player, 2)
        late = self.player(c)
        wait_order(late, 2)
        way.release()
        first.check_ended(self, 409, "published on another node")
        for player in players:
            wait_order(player, 2, 50)
            check_whole(self, player, [1, 2])
            check_never_mixed(self, player.frames)
        check_whole(self, late, [2])
        nodes.wait_owner(NAME, "b")

    def test_nodes_without_each_other(self):
        """The origin is there for the engine, but not for the edges. What was on its way arrives nowhere."""
        nodes = self.cluster("--same-name", "take-over")
        way = self.wire()
        a, b, c = nodes.add("a", way=way), nodes.add("b"), nodes.add("c")
        players = [self.player(node) for node in (a, b, c)]
        first = self.publish(a, 1)
        for player in players:
            wait_order(player, 1)
        way.hold()
        count = len(players[0].frames)
        players[0].wait(lambda player: len(player.frames) > count + 20, "frames at the origin")
        self.publish(b, 2)
        first.check_ended(self, 409, "published on another node")
        for player in players:
            wait_order(player, 2)
        way.release()
        self.publish(a, 3)
        for player in players:
            wait_order(player, 3, 30)
            check_whole(self, player, [1, 2, 3])
            check_never_mixed(self, player.frames)

    def test_edge_waits_for_its_origin(self):
        """A way that is held up for a while, and then goes on: so do the players."""
        nodes = self.cluster()
        way = self.wire()
        a, b = nodes.add("a", way=way), nodes.add("b")
        player = self.player(b)
        self.publish(a, 1)
        wait_order(player, 1)
        way.hold()
        time.sleep(0.5)
        way.release()
        for what in (lambda: None, way.cut):
            what()
            count = len(player.frames)
            player.wait(lambda player: len(player.frames) > count + 60, "more frames")
        check_never_mixed(self, player.frames)

    def test_failover_that_loses_writes(self):
        """The stream has moved, another one is new, and the engine forgets both. The origin of before stands still meanwhile."""
        failover = self.stack.enter_context(redis_server.Failover())
        nodes = self.cluster("--same-name", "take-over", engine=failover.master)
        a, b, c = (nodes.add(name, engine=failover.url) for name in "abc")
        players = [self.player(node) for node in (a, b, c)]
        self.publish(a, 1)
        for player in players:
            wait_order(player, 1)
        wait_until(lambda: failover.replica.ask("HGET", "sluice:stream:" + NAME, "node") == "a", "the replica to know it")
        failover.stop_replication()
        with a.standing_still():
            self.publish(b, 2)
            self.publish(b, 3, "live/lost")
            for player in players[1:]:
                wait_order(player, 2)
            failover.kill_master()
            nodes.engine = failover.replica
            self.assertEqual(nodes.engine.ask("HGET", "sluice:stream:" + NAME, "node"), "a")
            if long_form.LONG:
                nodes.wait_owner(NAME, "b")
        nodes.wait_owner(NAME, "b")
        nodes.wait_owner("live/lost", "b")
        for player in players:
            wait_order(player, 2, 50)
            check_whole(self, player, [1, 2])
            check_never_mixed(self, player.frames)
        for node in (a, c):
            with Player(node, "live/lost") as player:
                wait_order(player, 3)

    def test_origin_has_the_stream_again(self):
        """A failover takes the engine back to the first origin, which is still there and has heard of nothing; the second one dies.
        The first is accepted, but by a new epoch: nothing comes of what it has sent while the stream was elsewhere."""
        nodes = self.cluster("--same-name", "take-over")
        before = nodes.engine
        after = self.stack.enter_context(redis_server.Redis("--replicaof", before.host, str(before.port)))
        ways = [self.wire((before.host, before.port)) for _ in range(3)]
        a, b, c = (nodes.add(name, engine=way.url) for name, way in zip("abc", ways))
        player = self.player(c)
        # All that it sends is one group, with which another player would begin.
        first = self.stack.enter_context(Marked(a, NAME, 1, group=EACH))
        wait_order(player, 1)
        wait_until(lambda: after.ask("HGET", "sluice:stream:" + NAME, "node") == "a", "the replica to know it")
        after.ask("REPLICAOF", "NO", "ONE")
        ways[0].hold()
        self.publish(b, 2)
        wait_order(player, 2, 20)
        epoch = int(before.ask("HGET", "sluice:stream:" + NAME, "epoch"))
        b.kill()
        sent = first.number - EACH
        for way in (ways[0], ways[2]):
            way.lead_to((after.host, after.port))
            way.cut()
        ways[0].release()

        def is_back():
            return mark_of(player.frames[-1])[0] == 1
        wait_until(lambda: is_back() or int(after.ask("HGET", "sluice:stream:" + NAME, "epoch")) > epoch, "a new epoch")
        first.key = True
        wait_until(is_back, "frames of the first publisher")
        wait_order(player, 1, 20)
        self.assertEqual(check_never_mixed(self, player.frames), [1, 2, 1])
        marks = [mark_of(frame) for frame in player.frames]
        back = marks[max(at for at, (order, _) in enumerate(marks) if order == 2) + 1:]
        self.assertGreater(min(number for _, number in back), sent)

    def test_clock_of_the_engine_jumps(self):
        """By an hour, there and back: all leases end at once, or none does. Streams and lookups go on."""
        engine, clock = self.skewed_engine()
        nodes = self.cluster("--same-name", "take-over", engine=engine)
        a, b, c = nodes.add("a"), nodes.add("b"), nodes.add("c")
        players = [self.player(node) for node in (a, b, c)]
        current = self.publish(a, 1)
        jumps = (HOUR_US, 0, -HOUR_US, 0) if long_form.LONG else (HOUR_US, 0)
        for order, ahead in enumerate(jumps, 2):
            for player in players:
                wait_order(player, order - 1)
            clock.set(ahead)
            before = time.time() * 1e6 + ahead
            self.assertLess(abs(int(engine.ask("TIME")[0]) * 1e6 - before), 60e6)
            for player in players:
                count = len(player.frames)
                player.wait(lambda player: len(player.frames) > count + 20, "more frames")
            nodes.wait_node("abc"[order % 3])
            following = self.publish((a, b, c)[order % 3], order)
            current.check_ended(self, 409, "published on another node")
            current = following
        for player in players:
            wait_order(player, 1 + len(jumps), 30)
            check_whole(self, player, list(range(1, 2 + len(jumps))))
            check_never_mixed(self, player.frames)

    def contend(self, nodes, members, name, orders, same_name):
        """Two publishers of a name come to two nodes at once."""
        players = [self.player(node, name) for node in members]
        made = [None, None]
        start = threading.Barrier(2)

        def come(i):
            start.wait()
            made[i] = self.publish(members[i], orders[i], name)
        threads = [threading.Thread(target=come, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The one that has to go.
        lost = wait_until(lambda: next((source for source in made if source.is_ended()), None), "one of them to be ended")
        lost.check_ended(self, 409, "published on another node")
        winner = orders[1 - made.index(lost)]
        nodes.wait_owner(name, "ab"[1 - made.index(lost)])
        for player in players:
            wait_order(player, winner, 20)
            frames = check_never_mixed(self, player.frames)
            self.assertEqual(frames[-1], winner)
            if same_name == "refuse":
                self.assertEqual(frames, [winner])

    def test_two_publishers_at_once(self):
        for same_name in ("refuse", "take-over"):
            with self.subTest(same_name=same_name):
                nodes = self.cluster("--same-name", same_name)
                members = [nodes.add(name) for name in "abc"]
                for i in range(long_form.size("CONTESTS", 1, 40)):
                    self.contend(nodes, members, "live/%d" % i, (2 * i + 1, 2 * i + 2), same_name)

    def test_everything_restarts(self):
        """All at once, without anything of what there was; and two publishers come back, one at each node."""
        nodes = self.cluster("--same-name", "take-over")
        seen = []
        for turn in range(2):
            members = [nodes.add(name) for name in "abc"]
            players = [self.player(node) for node in members]
            sources = [self.publish(node, 10 * turn + i) for i, node in enumerate(members[:2], 1)]
            lost = wait_until(lambda: next((source for source in sources if source.is_ended()), None), "one to be ended")
            winner = 10 * turn + 2 - sources.index(lost)
            for player in players:
                wait_order(player, winner, 20)
                seen.append(player)
            if turn == 0:
                nodes.engine.stop()
                for node in members:
                    node.kill()
                nodes.nodes.clear()
                nodes.restart_engine()
        for player in seen:
            check_never_mixed(self, player.frames)


class Member:
    """A name in a cluster, the ways to its engine and to itself, and the process that has the name now, or had it last."""

    def __init__(self, nodes, name, stack, *options):
        self.nodes, self.name, self.options, self.daemon, self.is_stopped = nodes, name, options, None, False
        self.to_engine = stack.enter_context(Wire((nodes.engine.host, nodes.engine.port)))
        self.way = stack.enter_context(Wire())

    def is_running(self):
        return self.daemon is not None and self.daemon.process.poll() is None

    def start(self):
        if not self.is_running():
            self.daemon = self.nodes.start(self.name, *self.options, engine=self.to_engine.url, way=self.way)

    def stand_still(self, still):
        if self.is_running():
            self.daemon.process.send_signal(signal.SIGSTOP if still else signal.SIGCONT)
            self.is_stopped = still

    def end(self, number):
        if not self.is_running():
            return
        self.stand_still(False)
        self.nodes.nodes.remove(self.daemon)
        if number == signal.SIGKILL:
            self.daemon.kill()
        else:
            self.daemon.stop(number)


class Encoder(threading.Thread):
    """Publishes a stream, each time as another publisher: now on this node and now on that, until it is over; or on one, until
    all are gone."""

    def __init__(self, chaos, name, member=None):
        super().__init__(daemon=True)
        self.chaos, self.name, self.member, self.order = chaos, name, member, 0
        self.random = random.Random(chaos.random.random())

    def run(self):
        over = self.chaos.is_gone if self.member else self.chaos.is_over
        while not over.wait(self.random.uniform(0.1, 1)):
            member = self.member or self.random.choice(self.chaos.members)
            self.order = next(self.chaos.numbers)
            with contextlib.suppress(OSError), Marked(member.daemon, self.name, self.order,
                                                      group=self.random.choice((10, 200))) as source:
                end = time.monotonic() + self.random.uniform(1, 12)
                while (self.member or time.monotonic() < end) and not source.is_ended() and not over.wait(0.02):
                    pass


class Viewer(threading.Thread):
    """Plays a stream on a node, and comes again when it is ended."""

    def __init__(self, chaos, member, name):
        super().__init__(daemon=True)
        self.chaos, self.member, self.name = chaos, member, name
        self.players = []

    def run(self):
        while not self.chaos.is_gone.wait(0.1):
            with contextlib.suppress(OSError), Player(self.member.daemon, self.name) as player:
                self.players.append(player)
                while not player.finished and not self.chaos.is_gone.wait(0.05):
                    pass


class ProtocolTest(Case):
    """Publishers and players of each protocol, at an edge whose origin goes, stands still or cannot be reached: players go on with the
    next publisher, which is on the other one of two nodes. SLUICE_TEST_ORIGINS times."""

    WAYS = ("http", "rtmp", "rtsp")  # of publishers, in turn

    def setUp(self):
        super().setUp()
        self.count = long_form.size("ORIGINS", 2, 20)
        self.nodes = self.cluster("--same-name", "take-over")
        self.ways = [self.wire() for _ in "ab"]
        self.origins = [self.nodes.add(name, way=way) for name, way in zip("ab", self.ways)]
        edge = self.nodes.add("c")
        self.source = None
        self.come(1)
        self.nodes.wait_owner(NAME, "a")
        self.players = [self.stack.enter_context(kind(edge, NAME)) for kind in (Player, RtmpPlayer, RtspPlayer)]
        self.wait(1)

    def come(self, order):
        """The publisher of that number, on the node whose turn it is."""
        self.source = self.publish(self.origins[(order - 1) % 2], order, way=self.WAYS[(order - 1) % 3])

    def wait(self, order, count=10):
        for player in self.players:
            wait_order(player, order, count)

    def check(self, fault):
        """fault: what happens to an origin, by its index, until the players have frames of the next publisher; its publisher."""
        longest = 0
        for order in range(2, self.count + 2):
            with fault(order % 2, self.source):
                begun = time.monotonic()
                self.come(order)
                self.wait(order)
                longest = max(longest, time.monotonic() - begun)
            self.wait(order, 50)
        for player in self.players:
            self.assertEqual(check_never_mixed(self, player.frames), list(range(1, self.count + 2)))
        long_form.report("%d origins, 3 players: all have 10 frames of the next publisher after %.2f s at most", self.count, longest)

    def test_origin_is_killed(self):
        """And its node starts again."""
        @contextlib.contextmanager
        def kill(at, _):
            node = self.origins[at]
            node.kill()
            yield
            self.nodes.nodes.remove(node)
            lease = self.nodes.lease(node.name)
            self.origins[at] = self.nodes.start(node.name, way=self.ways[at])
            wait_until(lambda: self.nodes.lease(node.name) not in ("", lease), "%s to join again" % node.name)
        self.check(kill)

    def test_origin_stands_still(self):
        """In the long form for longer than its lease."""
        @contextlib.contextmanager
        def stop(at, source):
            with self.origins[at].standing_still():
                if long_form.LONG:
                    time.sleep(6)
                yield
            source.check_ended(self, 409, "published on another node")
        self.check(stop)

    def test_origin_is_cut_off(self):
        """From the edges, but not from the engine; what was on its way arrives afterwards, for nobody."""
        @contextlib.contextmanager
        def cut_off(at, source):
            self.ways[at].hold()
            yield
            source.check_ended(self, 409, "published on another node")
            self.ways[at].release()
        self.check(cut_off)


@long_form.alone
class ChaosTest(Case):
    """Faults by chance: SLUICE_TEST_CHAOS_SECONDS of them, by SLUICE_TEST_CHAOS_SEED."""

    STREAMS = ("live/a", "live/b")

    def setUp(self):
        super().setUp()
        self.seconds = long_form.size("CHAOS_SECONDS", 60, 60)
        seed = long_form.size("CHAOS_SEED", 1, 1)
        self.random = random.Random(seed)
        self.numbers = itertools.count(1)
        self.is_over, self.is_gone = threading.Event(), threading.Event()
        engine, self.clock = self.skewed_engine()
        self.other = self.stack.enter_context(redis_server.Redis(environment=engine.environment))
        options = ("--same-name", self.random.choice(("refuse", "take-over", "resume")),
                   "--cluster-down", self.random.choice(("accept", "refuse")), "--workers", self.random.choice("123"))
        parents = ("--cluster-parent", "n0,n1") if self.random.random() < 0.5 else ()
        self.nodes = self.cluster(*options, engine=engine)
        self.members = [Member(self.nodes, "n%d" % i, self.stack, *(parents if i > 1 else ())) for i in range(4)]
        for member in self.members:
            member.start()
        for member in self.members:
            self.nodes.wait_node(member.name)
        self.pending = []  # (when, what mends a fault)
        self.counts = {}
        print("seed %d: %s" % (seed, " ".join(options + parents)), flush=True)

    # Faults: what is done, and what mends it

    def stop(self, member):
        member.stand_still(True)
        return lambda: member.stand_still(False)

    def kill(self, member):
        member.end(signal.SIGKILL)
        return member.start

    def drain(self, member):
        if member.is_stopped:
            return None
        member.end(signal.SIGTERM)
        return member.start

    def cut_engine(self, member):
        member.to_engine.hold()
        return member.to_engine.release

    def break_engine(self, member):
        member.to_engine.cut()

    def cut_way(self, member):
        member.way.hold()
        return member.way.release

    def lose_way(self, member):
        member.way.hold()

        def mend():
            member.way.cut()
            member.way.release()
        return mend

    def forget(self, _):
        if self.nodes.engine.process.poll() is not None:
            return None
        self.nodes.engine.stop()
        return lambda: self.nodes.engine.process.poll() is None or self.nodes.restart_engine()

    def fail_over(self, _):
        """To a copy that has missed the last seconds."""
        engine = self.nodes.engine
        if engine.process.poll() is not None:
            return None
        copy = self.stack.enter_context(redis_server.Redis("--replicaof", engine.host, str(engine.port),
                                                           environment=engine.environment))
        wait_until(lambda: copy.ask("ROLE")[3] == "connected", "a copy of the engine")
        copy.ask("REPLICAOF", "NO", "ONE")

        def mend():
            self.nodes.engine.stop()
            self.nodes.engine = copy
            for member in self.members:
                member.to_engine.lead_to((copy.host, copy.port))
                member.to_engine.cut()
        return mend

    def split(self, member):
        """Some nodes find another engine, which knows nothing of what the others do: two masters."""
        gone = [member, *self.random.sample(self.members, self.random.randrange(3))]

        def lead_to(server):
            for one in gone:
                one.to_engine.lead_to((server.host, server.port))
                one.to_engine.cut()
        lead_to(self.other)
        return lambda: lead_to(self.nodes.engine)

    def jump(self, _):
        self.clock.set(self.random.choice((-HOUR_US, 0, HOUR_US)))

    FAULTS = (stop, stop, kill, kill, drain, cut_engine, cut_engine, break_engine, cut_way, lose_way, fail_over, fail_over,
              forget, split, jump)

    def mend(self, everything=False):
        now = time.monotonic()
        due = [what for when, what in self.pending if everything or when <= now]
        self.pending = [(when, what) for when, what in self.pending if not everything and when > now]
        for what in due:
            what()

    def make_trouble(self):
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            fault = self.random.choice(self.FAULTS)
            mend = fault(self, self.random.choice(self.members))
            self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
            if mend:
                self.pending.append((time.monotonic() + self.random.uniform(0.1, 9), mend))
            time.sleep(self.random.uniform(0.05, 2))
            self.mend()
        self.mend(True)

    def test_chaos(self):
        viewers = [Viewer(self, member, name) for member in self.members for name in self.STREAMS]
        encoders = [Encoder(self, name) for name in self.STREAMS for _ in range(2)]
        for thread in (*viewers, *encoders):
            thread.start()
        try:
            self.make_trouble()
            self.is_over.set()
            for encoder in encoders:
                encoder.join()
            self.check_healed(viewers)
        finally:
            self.is_over.set()
            self.is_gone.set()
            for viewer in viewers:
                viewer.join()
        mixed = sum(len(check_never_mixed(self, player.frames)) for viewer in viewers for player in viewer.players)
        long_form.report("%s; %d connections of %d players, %d changes of the publisher", self.counts,
                         sum(len(viewer.players) for viewer in viewers), len(viewers), mixed)

    def check_healed(self, viewers):
        """One encoder for each stream, which tries again as encoders do: it comes to all players."""
        for member in self.members:
            self.nodes.wait_node(member.name)
        begun = time.monotonic()
        for name, member in zip(self.STREAMS, self.members):
            encoder = Encoder(self, name, member)
            encoder.start()
            self.addCleanup(encoder.join)
            for viewer in viewers:
                if viewer.name == name:
                    wait_until(lambda at=viewer, by=encoder: self.plays(at, by.order),
                               lambda at=viewer, by=encoder: "publisher %d at %s; %s" % (
                                   by.order, at.member.name, at.member.daemon.last_lines()))
        long_form.report("healed after %.1f s", time.monotonic() - begun)

    @staticmethod
    def plays(viewer, order):
        frames = viewer.players[-1].frames[-20:] if viewer.players else []
        return any(mark_of(frame)[0] == order for frame in frames)


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
