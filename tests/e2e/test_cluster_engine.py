"""An engine that is slow, or hostile: streams, known locations and new publishers go on, and neither memory nor processor time grows."""

import contextlib
import os
import time
import unittest

import harness
import long_form
import redis_server
from cluster import Cluster, Marked, Wire, check_whole, wait_order
from harness import Player, wait_until

NAME = "live/a"
# Of one way.
SECONDS = long_form.size("ENGINE_SECONDS", 1, 10)
# MiB that a node may have more than before. Under sanitizers what is freed stays.
GROWTH = 400 if harness.SANITIZED else 16
# Of a core, of a node that relays one stream.
BUSY = 2 if harness.SANITIZED else 0.3


def processor_seconds(node):
    with open("/proc/%d/stat" % node.process.pid, encoding="ascii") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class HostileEngineTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.nodes = self.stack.enter_context(Cluster("--wait", "10"))
        engine = self.nodes.engine
        self.ways = [self.stack.enter_context(Wire((engine.host, engine.port))) for _ in range(2)]
        self.a, self.b = (self.nodes.add(name, engine=way.url) for name, way in zip("ab", self.ways))
        self.stack.enter_context(Marked(self.a, NAME, 1))
        self.player = self.stack.enter_context(Player(self.b, NAME))
        wait_order(self.player, 1)

    def lead_to(self, server):
        for way in self.ways:
            way.lead_to((server.host, server.port))
            way.cut()

    def check(self, hostile, way, number):
        """number: of the publisher that comes meanwhile. Returns it, with its stream's name."""
        name = "live/%d" % number
        hostile.way, seen = way, hostile.commands
        for link in self.ways:
            link.cut()
        wait_until(lambda: hostile.commands > seen + 1, "commands")
        spent, begun = [processor_seconds(node) for node in (self.a, self.b)], time.monotonic()
        count = len(self.player.frames)
        source = self.stack.enter_context(Marked(self.a, name, number))
        self.a.wait_stream(name)
        with Player(self.b, NAME) as late:
            wait_order(late, 1)
        while time.monotonic() < begun + SECONDS:
            time.sleep(0.05)
        self.player.wait(lambda player: len(player.frames) > count + 40, "more frames")
        self.assertEqual(self.b.request("HEAD", "/live/none.flv")[0], 404)
        for node, before in zip((self.a, self.b), spent):
            busy = (processor_seconds(node) - before) / (time.monotonic() - begun)
            long_form.report("%s: %.2f of a core", way, busy)
            self.assertLess(busy, BUSY, way)
        return name, source

    def check_all(self, ways, greets):
        memory = [harness.resident_kib(node.process.pid) for node in (self.a, self.b)]
        with redis_server.Hostile(ways[0], greets=greets) as hostile:
            self.lead_to(hostile)
            published = [(number, *self.check(hostile, way, number)) for number, way in enumerate(ways, 2)]
            for node, before in zip((self.a, self.b), memory):
                self.assertLess((harness.resident_kib(node.process.pid) - before) // 1024, GROWTH)
            self.lead_to(self.nodes.engine)
            # What was published meanwhile is known everywhere now.
            for number, name, source in published:
                self.assertIsNone(source.error)
                self.nodes.wait_owner(name, "a")
                with Player(self.b, name) as there:
                    wait_order(there, number)
        check_whole(self, self.player, [1])

    def test_replies(self):
        """It greets as an engine does, and then does not answer as one."""
        ways = ("slow", "pushes", "garbage", "endless", "line", "array", "many", "dribble", "wrong", "error")
        self.check_all(ways if long_form.LONG else ways[:2], True)

    def test_greeting(self):
        """It does not greet as an engine does."""
        ways = ("close", "silent", "http", "endless", "array")
        self.check_all(ways if long_form.LONG else ways[:1], False)


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
