"""Recording switched on and off by an operator: against the rules, for streams that are there or yet to come."""

import glob
import os
import shutil
import subprocess
import tempfile
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady

SLUICECTL = os.environ.get("SLUICECTL") or os.path.join(os.path.dirname(harness.SLUICED), "sluicectl")

LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0")


def ask(daemon, method, name, query=""):
    """The status of one request about a stream's recording."""
    return daemon.admin(method, "/api/v1/recordings/%s%s" % (name, query))[0]


def shown(daemon):
    """What the list says: {stream: (wish, whether it is recorded)}."""
    return {one["stream"]: (one["record"], one["recording"] is not None)
            for one in daemon.api("/api/v1/recordings")["recordings"]}


class SwitchTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def daemon(self, *options, pattern="ruled/*"):
        return Daemon("--record", "%s=%s" % (pattern, self.folder), *options, listen=LISTEN)

    def files(self, name, suffix=".flv"):
        return sorted(glob.glob(os.path.join(self.folder, name, "*" + suffix)))

    @staticmethod
    def publish(daemon, name, count=30):
        """A stream from its beginning to its end: the frames."""
        data, tags = flv.stream(count)
        with Publisher(daemon, name, "http") as publisher:
            publisher.send(data)
            if publisher.finish() != 200:
                raise AssertionError("%s is not published" % name)
        return [tag for tag in tags if tag.is_frame]

    def test_in_the_middle(self):
        """A live stream is recorded from the group that players would begin with, until it is not to be any more."""
        with self.daemon() as daemon:
            with Steady(daemon, name="live/raw", pause=0.001) as steady:
                self.assertIsNone(daemon.stream(steady.name)["recording"])
                self.assertEqual(ask(daemon, "POST", steady.name), 204)
                stream = daemon.stream(steady.name)
                self.assertEqual((stream["record"], stream["recording"]["state"]), ("on", "recording"))
                self.assertEqual(shown(daemon), {steady.name: ("on", True)})
                steady.go_on(200)
                self.assertEqual(ask(daemon, "DELETE", steady.name.replace("/", "%2F")), 204)
                daemon.wait_log("recorded")
                stream = daemon.stream(steady.name)
                self.assertEqual((stream["record"], stream["recording"]), ("off", None))
                steady.go_on(100)
                [path] = self.files(steady.name)
                with open(path, "rb") as file:
                    recorded = [tag.payload for tag in flv.parse(file.read()) if tag.is_frame]
                self.assertEqual(self.files(steady.name, ".part"), [])
                sent = [tag.payload for tag in steady.sent if tag.is_frame]
            first = sent.index(recorded[0])
            self.assertGreaterEqual(len(recorded), 200)
            self.assertLess(len(recorded), len(sent) - first)
            harness.check_same(recorded, sent[first:first + len(recorded)], "recorded frames")
            self.assertEqual(daemon.complaints(), [])
            daemon.blocks_settled()

    def test_it_stays(self):
        """It holds for the name: before its first publisher, for each one, and against the rule; until it is reset."""
        with self.daemon("--workers", "3") as daemon:
            names = ["live/%d" % i for i in range(8)] + ["ruled/%d" % i for i in range(8)]
            for name in names:
                self.assertEqual(ask(daemon, "POST" if name.startswith("live") else "DELETE", name), 204)
            self.assertEqual(shown(daemon), {name: ("on" if name.startswith("live") else "off", False)
                                             for name in names})
            frames = {name: self.publish(daemon, name) + self.publish(daemon, name) for name in names}
            daemon.wait_log("recorded", 16)
            for name in names:
                count = 2 if name.startswith("live") else 0
                self.assertEqual(len(self.files(name)), count, name)
                recorded = []
                for path in self.files(name):
                    with open(path, "rb") as file:
                        recorded += [tag.payload for tag in flv.parse(file.read()) if tag.is_frame]
                self.assertEqual(recorded, [tag.payload for tag in frames[name]][:len(recorded)])
            for name in names:
                self.assertEqual(ask(daemon, "POST", name, "?by=rule"), 204)
            self.assertEqual(shown(daemon), {})
            self.publish(daemon, "ruled/0")
            self.publish(daemon, "live/0")
            daemon.wait_log("recorded", 17)
            self.assertEqual((len(self.files("ruled/0")), len(self.files("live/0"))), (1, 2))
            self.assertEqual(daemon.complaints(), [])
            daemon.blocks_settled()

    def test_by_rule_again(self):
        """Of a live stream: what the rule says holds at once."""
        data, _ = flv.stream(30)
        with self.daemon("--idle", "600") as daemon:
            with Publisher(daemon, "ruled/a", "http") as publisher, Player(daemon, "ruled/a") as player:
                publisher.send(data)
                player.wait_tags(30)
                self.assertEqual(shown(daemon), {"ruled/a": ("rule", True)})
                for method, query, now in (("DELETE", "", ("off", False)), ("POST", "?by=rule", ("rule", True)),
                                           ("POST", "", ("on", True)), ("POST", "?by=rule", ("rule", True))):
                    self.assertEqual(ask(daemon, method, "ruled/a", query), 204)
                    self.assertEqual(shown(daemon), {"ruled/a": now})
                publisher.finish()
            daemon.wait_log("recorded", 2)
            self.assertEqual(len(self.files("ruled/a")), 2)

    def test_refusals(self):
        with self.daemon() as daemon:
            for method, path, status in (
                    ("POST", "a%00b", 404), ("POST", "../x", 404), ("DELETE", "a//b", 404), ("POST", "x" * 500, 404),
                    ("POST", "live/a?by=x", 400), ("DELETE", "live/a?by=rule", 400), ("POST", "live/a?ban=1", 400),
                    ("POST", "live/a?by=rule&x", 400), ("PUT", "live/a", 405), ("GET", "live/a", 405)):
                with self.subTest(method + " " + path):
                    answer, headers, _ = daemon.admin(method, "/api/v1/recordings/" + path)
                    self.assertEqual((answer, headers["Content-Type"]), (status, "application/problem+json"))
            # A page of another site cannot, either.
            self.assertEqual(daemon.admin("POST", "/api/v1/recordings/live/a", headers={
                "Origin": "http://evil.example"})[0], 403)
            self.assertEqual(shown(daemon), {})
        with Daemon() as daemon:
            for method in ("POST", "DELETE"):
                self.assertEqual(ask(daemon, method, "live/a"), 409)

    def test_so_many(self):
        """There is a bound; what has been wished for before holds, and giving up one makes room."""
        with self.daemon("--workers", "1") as daemon:
            connection = daemon.connection(protocol="admin")
            self.addCleanup(connection.close)

            def switch(method, name):
                connection.request(method, "/api/v1/recordings/" + name)
                response = connection.getresponse()
                response.read()
                return response.status
            for number in range(1024):
                self.assertEqual(switch("POST", "live/%d" % number), 204)
            self.assertEqual(switch("POST", "live/more"), 503)
            self.assertEqual(switch("DELETE", "live/7"), 204)
            self.assertEqual(switch("POST", "live/8?by=rule"), 204)
            self.assertEqual(switch("DELETE", "live/more"), 204)
            wishes = shown(daemon)
            self.assertEqual((len(wishes), wishes["live/7"][0], wishes["live/more"][0]), (1024, "off", "off"))

    def test_sluicectl(self):
        def run(*arguments):
            done = subprocess.run([SLUICECTL, "--admin", "%s:%d" % daemon.address("admin"), *arguments],
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False)
            return done.returncode, done.stdout.decode(), done.stderr.decode()
        with self.daemon() as daemon:
            with Steady(daemon, name="live/raw") as steady:
                for word in ("on", "off", "rule"):
                    self.assertEqual(run("record", steady.name, word), (0, "", ""))
                    self.assertEqual(daemon.stream(steady.name)["record"], word)
                self.assertEqual(run("record", steady.name, "on")[0], 0)
                status, out, err = run("recordings")
                self.assertEqual((status, err), (0, ""))
                name, wish, state, count = out.splitlines()[1].split()[:4]
                self.assertEqual((name, wish, state, count), (steady.name, "on", "recording", "1"))
                # It is being made by another thread.
                file = out.splitlines()[1].split()[-1]
                harness.wait_until(lambda: file in [os.path.relpath(path, self.folder).removesuffix(".part") for path in
                                                    self.files(steady.name, ".part")], "the part of " + file)
            for arguments in ((), ("live/a",), ("live/a", "yes"), ("live/a", "on", "x")):
                status, out, err = run("record", *arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertIn("record: expected", err)
            self.assertEqual(run("record", "../x", "on")[0], 1)


if __name__ == "__main__":
    harness.main()
