"""What a cluster shows of itself: the API, health, metrics, sluicectl, hooks."""

import contextlib
import json
import os
import subprocess
import tempfile
import unittest

import harness
import redis_server
from cluster import Cluster, Marked, wait_order
from harness import Daemon, Player, wait_until
from hook_server import Hook, reply
from test_metrics import PROMTOOL, scrape

NAME = "live/a"
CTL = os.environ.get("SLUICECTL") or os.path.join(harness.BUILD_DIR, "sluicectl")


def ctl(node, *arguments):
    """(status, standard output, standard error)"""
    done = subprocess.run([CTL, "--admin", "%s:%d" % node.address("admin"), *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, timeout=harness.PATIENCE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def located(node, name):
    """(status, document) of one stream's location."""
    status, _, body = node.admin("GET", "/api/v1/cluster/streams/" + name.replace("/", "%2F"), patient=False)
    return status, json.loads(body)


class ViewTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def start(self, names, *options):
        nodes = self.stack.enter_context(Cluster(*options))
        return (nodes, *(nodes.add(name) for name in names))

    def publish(self, node, name=NAME, order=1):
        """Until the node has the stream: with the engine's consent."""
        self.stack.enter_context(Marked(node, name, order))
        node.wait_stream(name, lambda stream: stream["state"] == "live" and stream["publisher"]["protocol"] == "http", "live there")

    def play(self, node, name=NAME, order=1):
        player = self.stack.enter_context(Player(node, name))
        wait_order(player, order)
        return player

    def test_api(self):
        """Nodes with their load, where streams are, and what is pulled from where: from each node's view."""
        nodes, a, b, c = self.start("abc")
        self.publish(a)
        self.play(b)
        self.play(b)
        def loaded():
            cluster = b.api("/api/v1/cluster")
            one = {node["name"]: node for node in cluster["nodes"]}
            return len(one) == 3 and one["a"]["streams"] == 1 and one["b"]["players"] == 2 and one["a"]["bits_per_second"] and cluster
        cluster = wait_until(loaded, "the load of all nodes")
        self.assertTrue(cluster["enabled"])
        self.assertEqual((cluster["node"]["name"], cluster["node"]["state"]), ("b", "online"))
        self.assertEqual(cluster["node"]["address"], "%s:%d" % b.address("http"))
        engine = cluster["engine"]
        self.assertEqual((engine["available"], engine["state"], engine["connections"], engine["last_error"]), (True, "ready", 1, None))
        self.assertEqual(engine["address"], "%s:%d" % (nodes.engine.host, nodes.engine.port))
        for node in cluster["nodes"]:
            self.assertEqual((node["self"], node["alive"]), (node["name"] == "b", True))
            self.assertLess(node["beat_seconds"], 5)
        self.assertEqual(cluster["streams"], {"own": 0, "remote": 1})
        self.assertEqual((cluster["pulls"]["playing"], cluster["pulls"]["failing"], cluster["pulls"]["failures"]), (1, 0, 0))
        self.assertEqual(cluster["lookups"]["found"], 1)
        self.assertEqual(a.api("/api/v1/cluster")["claims"]["granted"], 1)
        pulls = b.api("/api/v1/cluster/pulls")
        own, = a.api("/api/v1/cluster/streams")["streams"]
        remote, = b.api("/api/v1/cluster/streams")["streams"]
        self.assertEqual((own["own"], remote["own"]), (True, False))
        for one in (own, remote):
            self.assertEqual((one["name"], one["node"], one["address"], one["confirmed"]), (NAME, "a", "%s:%d" % a.address("http"), True))
        self.assertEqual((own["epoch"], own["incarnation"]), (remote["epoch"], remote["incarnation"]))
        self.assertEqual(pulls, {"partial": False, "total": 1, "pulls": [{
            "stream": NAME, "state": "playing", "node": "a", "address": own["address"], "from": "origin", "epoch": own["epoch"],
            "failures": 0, "reason": None}]})
        # A node that nobody has asked for it looks it up.
        self.assertEqual(c.api("/api/v1/cluster/streams"), {"streams": [], "matching": 0})
        status, one = located(c, NAME)
        self.assertEqual((status, one["node"], one["epoch"]), (200, "a", own["epoch"]))
        for name in ("live/none", "no//name"):
            self.assertEqual(located(c, name)[0], 404)

    def test_pages(self):
        _, a = self.start("a")
        for at in range(3):
            self.publish(a, "live/%d" % at, at + 1)
        wait_until(lambda: a.api("/api/v1/cluster")["streams"]["own"] == 3, "three streams")
        def names(query):
            page = a.api("/api/v1/cluster/streams?" + query)
            return [one["name"] for one in page["streams"]], page["matching"]
        self.assertEqual(names("limit=2"), (["live/0", "live/1"], 3))
        self.assertEqual(names("limit=500&offset=2"), (["live/2"], 3))
        self.assertEqual(names("offset=3"), ([], 3))
        self.assertEqual(names("search=VE%2F1"), (["live/1"], 1))
        self.assertEqual(names("node=a&search=live"), (["live/0", "live/1", "live/2"], 3))
        self.assertEqual(names("node=b"), ([], 0))
        for query in ("limit=0", "limit=501", "offset=x", "search=" + "x" * 260, "node=" + "x" * 64, "sort=name"):
            self.assertEqual(a.admin("GET", "/api/v1/cluster/streams?" + query)[0], 400, query)
        for query in ("limit=0", "limit=501", "offset=1"):
            self.assertEqual(a.admin("GET", "/api/v1/cluster/pulls?" + query)[0], 400, query)

    def test_engine_is_down(self):
        """The node is degraded, and not dead: its health says so with 200; what is known stays known."""
        nodes, a, b = self.start("ab")
        self.publish(a)
        self.play(b)
        wait_until(lambda: b.api("/api/v1/health")["status"] == "ok", "a whole node")
        nodes.engine.stop()
        health = wait_until(lambda: (lambda health: health["status"] == "degraded" and health)(b.api("/api/v1/health")), "its health")
        self.assertEqual((health["cluster"]["node"], health["cluster"]["engine_available"]), ("b", False))
        engine = b.api("/api/v1/cluster")["engine"]
        self.assertFalse(engine["available"])
        self.assertTrue(engine["last_error"])
        self.assertEqual(scrape(b)[1]["sluice_cluster_engine_up",], 0)
        status, one = located(b, NAME)
        self.assertEqual((status, one["node"], one["confirmed"]), (200, "a", False))
        self.assertEqual(located(b, "live/none")[0], 503)
        status, out, err = ctl(b, "status")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("cluster   node b, offline, 2 nodes alive, engine UNAVAILABLE", out)
        nodes.restart_engine()
        wait_until(lambda: b.api("/api/v1/health")["status"] == "ok", "a whole node again")
        self.assertEqual(b.api("/api/v1/cluster")["engine"]["connections"], 2)
        values = scrape(b)[1]
        self.assertEqual((values["sluice_cluster_engine_up",], values["sluice_cluster_engine_connections_total",]), (1, 2))
        self.assertGreaterEqual(values["sluice_cluster_engine_failures_total",], 1)
        wait_until(lambda: located(b, NAME)[1].get("confirmed"), "the location to be confirmed")

    def test_batch_window(self):
        """Of a worker that fetches half of its streams or more it is longer, until it does not any more."""
        def window(node):
            found = [line.split(" ")[1] for line in node.admin("GET", "/metrics")[2].decode().splitlines()
                     if line.startswith("sluice_worker_batch_window_seconds{")]
            return [float(value) for value in found]
        nodes, a, b = self.start("ab", "--workers", "1", "--linger", "0")
        self.publish(a)
        self.assertEqual(window(b), [0.002])
        player = self.play(b)
        wait_until(lambda: window(b) == [0.005], "a longer window")
        self.assertEqual(window(a), [0.002])
        for i in range(2):
            self.publish(b, "live/own-%d" % i, i + 2)
        wait_until(lambda: window(b) == [0.002], "the usual window beside two streams of its own")
        self.play(b, "live/own-0", 2)
        player.close()
        nodes.add("c", "--cluster-batch", "100")
        c = nodes.nodes[-1]
        self.play(c)
        wait_until(lambda: window(c) == [0.1], "a window by --cluster-batch")

    def test_metrics(self):
        _, a, b = self.start("ab", "--same-name", "take-over")
        self.publish(a)
        self.play(b)
        self.assertEqual(b.request("HEAD", "/live/none.flv")[0], 404)
        values = scrape(b)[1]
        self.assertEqual(values["sluice_cluster_info", ("node", "b")], 1)
        self.assertEqual(values["sluice_cluster_state", ("state", "online")], 1)
        self.assertEqual(values["sluice_cluster_nodes", ("state", "alive")], 2)
        self.assertEqual(values["sluice_cluster_streams", ("place", "remote")], 1)
        self.assertEqual(values["sluice_cluster_pulls", ("state", "playing")], 1)
        self.assertEqual(values["sluice_cluster_lookups_total", ("result", "found")], 1)
        self.assertGreaterEqual(values["sluice_cluster_lookups_total", ("result", "absent")], 1)
        lookups = sum(value for key, value in values.items() if key[0] == "sluice_cluster_lookups_total")
        self.assertEqual(values["sluice_cluster_lookup_seconds_count",], lookups)
        self.assertEqual(values["sluice_cluster_lookup_seconds_bucket", ("le", "+Inf")], lookups)
        self.assertGreater(values["sluice_cluster_lookup_seconds_sum",], 0)
        for command in ("renew", "list", "find"):
            self.assertGreaterEqual(values["sluice_cluster_commands_total", ("command", command), ("result", "ok")], 1)
        self.assertGreaterEqual(values["sluice_cluster_command_seconds_count",], 3)
        self.publish(b, NAME, 2)
        def superseded():
            return scrape(a)[1]["sluice_cluster_publishers_superseded_total",] == 1
        wait_until(superseded, "the publisher to be superseded")
        self.assertEqual(scrape(a)[1]["sluice_cluster_claims_lost_total",], 1)
        self.assertEqual(scrape(b)[1]["sluice_cluster_claims_total", ("result", "granted")], 1)
        if not os.access(PROMTOOL, os.X_OK):
            self.skipTest("promtool is not installed: tools/install-deps test")
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=scrape(a)[0], capture_output=True, check=False,
                              timeout=harness.PATIENCE)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    def test_failing_pull(self):
        """A pull that fails is shown first, with its reason; a claim that is refused is counted."""
        nodes, a = self.start("a", "--same-name", "refuse")
        b = nodes.add("b", "--wait", "60", secret="f" * 32)
        self.publish(a)
        nodes.wait_owner(NAME, "a")
        self.stack.enter_context(Player(b, NAME))
        pull, = wait_until(lambda: [one for one in b.api("/api/v1/cluster/pulls")["pulls"] if one["failures"] > 1], "failures")
        self.assertEqual((pull["stream"], pull["node"], pull["reason"]), (NAME, "a", "GET answered 403: the signature is not accepted"))
        pulls = b.api("/api/v1/cluster")["pulls"]
        self.assertEqual((pulls["failing"], pulls["playing"]), (1, 0))
        values = scrape(b)[1]
        self.assertEqual(values["sluice_cluster_pulls_failing",], 1)
        self.assertGreaterEqual(values["sluice_cluster_pull_failures_total",], 2)
        self.assertIn("GET answered 403", ctl(b, "cluster", "pulls")[1])
        with b.connect() as peer:
            peer.sendall(b"POST /%s.flv HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % NAME.encode())
            self.assertEqual(harness.read_head(peer)[0], 409)
        self.assertEqual(b.api("/api/v1/cluster")["claims"]["held"], 1)
        for secret in (Cluster.SECRET, "f" * 32):
            self.assertNotIn(secret, json.dumps([b.api("/api/v1/cluster"), b.api("/api/v1/cluster/pulls"), b.api("/api/v1/config")]))

    def test_sluicectl(self):
        nodes, a, b = self.start("ab")
        self.publish(a)
        self.play(b)
        wait_until(lambda: {one["name"]: one["streams"] for one in b.api("/api/v1/cluster")["nodes"]} == {"a": 1, "b": 1}, "the load")
        status, out, err = ctl(b, "cluster")
        self.assertEqual((status, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], "node      b, online, at %s:%d" % b.address("http"))
        self.assertIn("engine    available for", lines[1])
        rows = [line.split() for line in lines[lines.index(next(line for line in lines if line.startswith("NODE "))) + 1:]]
        self.assertEqual([(row[0], row[1]) for row in rows], [("a", "alive"), ("b", "alive")])
        self.assertIn("(this node)", lines[-1])
        self.assertEqual(json.loads(ctl(b, "--json", "cluster")[1])["node"]["name"], "b")
        for arguments in (("cluster", "streams"), ("cluster", "streams", "LIVE/"), ("locate", NAME)):
            status, out, err = ctl(b, *arguments)
            self.assertEqual((status, err, out.splitlines()[1].split()[:2]), (0, "", [NAME, "a"]))
        self.assertEqual(len(ctl(b, "cluster", "streams", "none")[1].splitlines()), 1)
        self.assertEqual(ctl(b, "locate", "live/none")[0], 1)
        self.assertEqual(ctl(b, "cluster", "pulls")[1].splitlines()[1].split()[:4], [NAME, "playing", "a", "origin"])
        status, out, err = ctl(b, "top", "--cluster", "--count", "1")
        self.assertEqual((status, err), (0, ""))
        for word in ("node      b, online", "NODE ", "\na  ", "\nb  "):
            self.assertIn(word, out)
        document = json.loads(ctl(b, "top", "--cluster", "--json", "--count", "1")[1])
        self.assertEqual([one["name"] for one in document["nodes"]], ["a", "b"])
        for arguments in (("cluster", "x"), ("cluster", "pulls", "x"), ("cluster", "streams", "x", "y"), ("locate",)):
            self.assertEqual(ctl(b, *arguments)[0], 2, arguments)

    def test_replaced(self):
        """Another node with the same name is not "this node" for the one that it has replaced."""
        nodes, old = self.start("a")
        wait_until(lambda: [one["self"] for one in old.api("/api/v1/cluster")["nodes"]] == [True], "the node to see itself")
        replaced = nodes.lease("a")
        new = nodes.start("a")
        old.wait_log("cluster node replaced", node="a")
        lease = nodes.lease("a")
        self.assertNotEqual(lease, replaced)
        for node, incarnation, state, is_self in ((old, replaced, "replaced", False), (new, lease, "online", True)):
            wait_until(lambda node=node: [one["incarnation"] for one in node.api("/api/v1/cluster")["nodes"]] == [lease],
                       "the new one in the list of nodes")
            cluster = node.api("/api/v1/cluster")
            self.assertEqual((cluster["node"]["incarnation"], cluster["node"]["state"]), (incarnation, state))
            self.assertEqual([(one["name"], one["alive"], one["self"]) for one in cluster["nodes"]], [("a", True, is_self)])
            status, out, err = ctl(node, "cluster")
            self.assertEqual((status, err), (0, ""))
            lines = out.splitlines()
            self.assertEqual(lines[0], "node      a, %s, at %s:%d" % (state, *node.address("http")))
            self.assertTrue(lines[-1].startswith("a  "), lines[-1])
            self.assertEqual("(this node)" in lines[-1], is_self, lines[-1])

    def test_sluicectl_without_cluster(self):
        with Daemon() as daemon:
            for arguments in (("cluster",), ("top", "--cluster", "--count", "1")):
                status, _, err = ctl(daemon, *arguments)
                self.assertEqual((status, err), (1, "sluicectl: this node is in no cluster\n"), arguments)
            self.assertNotIn("cluster", ctl(daemon, "status")[1])
            self.assertEqual(ctl(daemon, "locate", NAME)[0], 1)
            self.assertFalse(any(key[0].startswith("sluice_cluster") for key in scrape(daemon)[1]))
            self.assertEqual(daemon.api("/api/v1/health")["cluster"], None)

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
