"""What a cluster shows of itself: hooks."""

import contextlib
import tempfile
import unittest

import harness
import redis_server
from cluster import Cluster, Marked, wait_order
from harness import Player, wait_until
from hook_server import Hook, reply

NAME = "live/a"


class ViewTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def test_hooks(self):
        """Each names the node that asks or reports."""
        hook = Hook(self, reply(200))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        options = [word for event in ("publish", "play", "unpublish", "stop", "record") for word in ("--hook-" + event, hook.url)]
        nodes = self.stack.enter_context(Cluster(*options))
        a, b = nodes.add("a", "--record", "*=" + folder.name), nodes.add("b")
        with Marked(a, NAME, 1):
            with Player(b, NAME) as player:
                wait_order(player, 1)
        expected = {("publish", "a"), ("play", "b"), ("unpublish", "a"), ("stop", "b"), ("record", "a")}
        wait_until(lambda: expected <= {(one["event"], one["node"]) for one in hook.asked}, lambda: "all hooks: %s" % hook.asked)
        for one in hook.asked:
            self.assertEqual((one["stream"], one["node"] in "ab"), (NAME, True))


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
