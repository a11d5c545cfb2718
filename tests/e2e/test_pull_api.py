"""Pulls that the API makes and removes while the server runs: by a camera and another sluiced, with a time to live."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import unittest

import harness
from camera import Camera
from harness import Daemon, Player
from stopped_thread import StoppedThread, is_idle
from test_upgrade import Upgraded

PULLS = "/api/v1/pulls"
JSON = {"Content-Type": "application/json"}
LISTEN = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
SLUICECTL = os.environ.get("SLUICECTL") or os.path.join(harness.BUILD_DIR, "sluicectl")


def post(daemon, body, headers=None):
    """(status, document)"""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, answer = daemon.admin("POST", PULLS, text, JSON if headers is None else headers)
    return status, json.loads(answer)


def pulls(daemon):
    return {pull["stream"]: pull for pull in daemon.api(PULLS)["pulls"]}


class PullTest(unittest.TestCase):
    def daemon(self, *options, **keywords):
        daemon = Daemon("--workers", "3", "--wait", "60", *options, listen=LISTEN, **keywords)
        self.addCleanup(daemon.stop)
        return daemon

    def create(self, daemon, url, stream="live/x", **members):
        status, answer = post(daemon, {"url": url, "stream": stream, **members})
        self.assertEqual(status, 201, answer)
        self.assertEqual(answer["stream"], stream)
        return answer["id"]

    def test_made_and_removed(self):
        """It plays at once, without a reload; deleted, it leaves the camera, and its name is free."""
        camera = Camera(self, user=("keeper", "p:@ s")).start()
        daemon = self.daemon()
        status, headers, answer = daemon.admin("POST", PULLS, json.dumps(
            {"url": camera.url("secretpath", "keeper:p%3A%40%20s"), "stream": "live/x"}).encode(), JSON)
        self.assertEqual(status, 201)
        made = json.loads(answer)
        self.assertEqual(headers["Location"], "%s/%d" % (PULLS, made["id"]))
        with Player(daemon, "live/x") as player:
            player.wait_tags(10)
            pull = daemon.api("%s/%d" % (PULLS, made["id"]))
            self.assertEqual((pull["stream"], pull["from"], pull["state"], pull["mode"], pull["source"],
                              pull["ttl_seconds"], pull["reason"]),
                             ("live/x", "rtsp://127.0.0.1:%d" % camera.port, "playing", "always", "api", None, None))
            shown = str(daemon.api()) + str(daemon.log()) + str(daemon.admin("GET", "/metrics"))
            for secret in ("keeper", "p:@", "p%3A", "secretpath"):
                self.assertNotIn(secret, shown)
            self.assertEqual(post(daemon, {"url": camera.url(), "stream": "live/x"})[0], 409)
            path = "%s/%d" % (PULLS, made["id"])
            self.assertEqual(daemon.admin("DELETE", path)[0], 204)
            camera.wait_request("TEARDOWN")
            self.assertEqual(pulls(daemon), {})
            self.assertEqual([daemon.admin(method, path)[0] for method in ("GET", "DELETE")], [404, 404])
            # The player waits for the next one.
            self.create(daemon, camera.url(user="keeper:p%3A%40%20s"))
            count = len(player.tags)
            player.wait_tags(count + 10)
        daemon.wait_log("pull removed", stream="live/x", reason="the API has removed it")
        camera.close()

    def test_from_another_sluiced(self):
        """On demand: the other one is not asked before somebody plays here."""
        other = self.daemon()
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        source = harness.Ffmpeg(ffmpeg, "-re", *harness.VIDEO.split(), *harness.H264.split(), "-f", "flv", "-method", "POST",
                                other.url("live/a"))
        self.addCleanup(source.kill)
        other.wait_stream("live/a")
        daemon = self.daemon()
        self.create(daemon, "rtsp://%s:%d/live/a" % other.address("rtsp"), on_demand=True)
        self.assertEqual((pulls(daemon)["live/x"]["mode"], pulls(daemon)["live/x"]["state"]), ("on-demand", "idle"))
        with Player(daemon, "live/x") as player:
            player.wait_tags(20)
            self.assertEqual(pulls(daemon)["live/x"]["state"], "playing")

    def test_time_to_live(self):
        """It ends by itself, whether it plays or waits for the camera."""
        camera = Camera(self).start()
        daemon = self.daemon()
        self.create(daemon, camera.url(), ttl=4)
        self.create(daemon, "rtsp://127.0.0.1:1/none", "live/y", ttl=3)
        self.create(daemon, "rtsp://127.0.0.1:1/none", "live/z", ttl=3600)
        left = pulls(daemon)["live/z"]["ttl_seconds"]
        self.assertTrue(3500 < left <= 3600, left)
        camera.wait_request("PLAY")
        daemon.wait_stream("live/x")
        camera.wait_request("TEARDOWN")
        for name in ("live/x", "live/y"):
            daemon.wait_log("pull removed", stream=name, reason="its time to live is over")
        self.assertEqual(list(pulls(daemon)), ["live/z"])
        camera.close()

    def test_wrong(self):
        """What is no pull is refused, and none of it is said again."""
        daemon = self.daemon()
        url, name = "rtsp://u:geheim@h/p", "live/x"
        wrong = [b"", b"x", b"[]", b"{}", b'{"url": "%s"}' % url.encode(), b'{"url": 1, "stream": "live/x"}',
                 json.dumps({"url": url, "stream": name})[:-1].encode(),
                 json.dumps({"url": url, "stream": name}).encode() + b"\0",
                 json.dumps({"url": url, "stream": name}).encode()[:-1] + b', "stream": "live/y"}',
                 b'{"url": "rtsp://h/p", "stream": "live/x\\u0000"}']
        wrong += [{"url": url, "stream": name, key: value}
                  for key, values in (("ttl", (0, -1, 1.5, "1", True, 31536001, 10 ** 30)), ("on_demand", (1, "yes")),
                                      ("geheim", (1,)), ("source", ("configuration",)), ("url", (None, [url], "geheim")),
                                      ("stream", (None, "", "../geheim", "a b")))
                  for value in values]
        wrong += [{"url": bad, "stream": name} for bad in (
            "", "h", "ftps://geheim/p", "rtmp://geheim/p", "rtsp:geheim", "rtsp://", "rtsp://u:geheim@", "rtsp://h:70000/p",
            "rtsp://u:geheim@h/p\r\nX: y", "rtsp://h/" + "geheim" * 500)]
        for body in wrong:
            with self.subTest(body):
                status, answer = post(daemon, body)
                self.assertEqual((status, answer["title"]), (400, "Bad Request"))
                self.assertNotIn("geheim", str(answer))
        good = {"url": url, "stream": name}
        self.assertEqual(post(daemon, good, {})[0], 415)
        self.assertEqual(post(daemon, good, {"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(post(daemon, good, dict(JSON, Origin="http://evil.example"))[0], 403)
        self.assertEqual(post(daemon, json.dumps(good).encode() + b" " * 20000)[0], 413)
        self.assertEqual(daemon.admin("POST", PULLS + "?x=y", json.dumps(good).encode(), JSON)[0], 400)
        self.assertEqual(daemon.admin("PUT", PULLS, b"{}", JSON)[0], 405)
        for path in ("/1", "/x", "/-1", "/1?ban=1"):
            self.assertEqual(daemon.admin("DELETE", PULLS + path)[0], 400 if "?" in path else 404)
        self.assertEqual(pulls(daemon), {})
        self.assertNotIn("geheim", str(daemon.log()))

    def test_written_in_any_way(self):
        """JSON is JSON: escapes, blanks, null; and as long as may be."""
        daemon = self.daemon()
        body = b' {\t"\\u0075rl" :\r\n"rtsp:\\/\\/\\u0068/\\"", "stream":"live/x" ,"ttl":null,"on_demand" : null } \n'.ljust(16384)
        self.assertEqual(post(daemon, body)[0], 201)
        self.assertEqual(pulls(daemon)["live/x"]["from"], "rtsp://h:554")

    def test_limit(self):
        """A thousand, and what ends makes room."""
        daemon = self.daemon()
        made = [self.create(daemon, "rtsp://127.0.0.1:1/x", "live/%d" % at, on_demand=True) for at in range(1000)]
        status, answer = post(daemon, {"url": "rtsp://127.0.0.1:1/x", "stream": "live/more"})
        self.assertEqual((status, answer["detail"]), (503, "there are 1000 pulls that the API has made"))
        self.assertEqual(daemon.admin("DELETE", "%s/%d" % (PULLS, made[500]))[0], 204)
        self.create(daemon, "rtsp://127.0.0.1:1/x", "live/more", on_demand=True)
        self.assertEqual(post(daemon, {"url": "rtsp://127.0.0.1:1/x", "stream": "live/500"})[0], 503)


class ConfigurationTest(unittest.TestCase):
    """Pulls of the configuration beside those of the API."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "sluiced.conf")

    def write(self, *lines):
        with open(self.path, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("http = \"127.0.0.1:0\";\nadmin = \"127.0.0.1:0\";\npull = [%s];\n" % ", ".join(map('"%s"'.__mod__, lines)))

    def reload(self, daemon):
        self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)

    def test_reload(self):
        """The API's stay, with their connections, but for a name that the configuration takes; its own are its own."""
        camera = Camera(self).start()
        idle = "rtsp://127.0.0.1:1/x=live/c,on-demand"
        self.write(idle)
        with Daemon("--config", self.path, listen=()) as daemon:
            configured = pulls(daemon)["live/c"]
            self.assertEqual((configured["source"], configured["ttl_seconds"]), ("configuration", None))
            status, _, answer = daemon.admin("DELETE", "%s/%d" % (PULLS, configured["id"]))
            self.assertEqual((status, json.loads(answer)["detail"]),
                             (409, "the configuration has this pull: remove it there, and reload"))
            self.assertEqual(post(daemon, {"url": camera.url(), "stream": "live/c"})[0], 409)
            for name in ("live/x", "live/y"):
                self.assertEqual(post(daemon, {"url": camera.url(), "stream": name, "ttl": 3600})[0], 201)
                daemon.wait_stream(name)
            ids = {name: pull["id"] for name, pull in pulls(daemon).items()}
            self.write(idle, "rtsp://127.0.0.1:1/x=live/y,on-demand")
            self.reload(daemon)
            daemon.wait_log("pull removed", stream="live/y", reason="the configuration has a pull of that stream")
            self.assertEqual({name: pull["source"] for name, pull in pulls(daemon).items()},
                             {"live/c": "configuration", "live/x": "api", "live/y": "configuration"})
            self.assertEqual((pulls(daemon)["live/x"]["id"], pulls(daemon)["live/c"]["id"]), (ids["live/x"], ids["live/c"]))
            self.assertEqual(camera.connections, 2)
            # What the configuration gives up is free again.
            self.write()
            self.reload(daemon)
            self.assertEqual(list(pulls(daemon)), ["live/x"])
            self.assertEqual(post(daemon, {"url": camera.url(), "stream": "live/c"})[0], 201)
        camera.close()


class UpgradeTest(unittest.TestCase):
    def test_another_process(self):
        """The process that takes over pulls on, with the passwords and what is left of the time to live."""
        camera = Camera(self, user=("keeper", "p:@ s,=")).start()
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "sluiced.conf")

            def write(text):
                with open(config, "w", encoding="ascii") as file:
                    file.write(text)

            write("")
            with Upgraded("--workers", "3", "--config", config) as upgraded:
                daemon = upgraded.daemon
                url = camera.url("cam?a=b,c=d", "keeper:p%3A%40%20s,%3D")
                for stream, more in (("live/x", {"ttl": 3600}), ("live/y", {"on_demand": True}), ("live/z", {"ttl": 3})):
                    self.assertEqual(post(daemon, {"url": url, "stream": stream, **more})[0], 201)
                self.assertEqual(post(daemon, {"url": camera.url(), "stream": "live/taken"})[0], 201)
                daemon.wait_stream("live/x")
                write('pull = ["rtsp://127.0.0.1:1/x=live/taken,on-demand"];\n')
                upgraded.upgrade()
                daemon.wait_log("pull not taken over", stream="live/taken",
                                reason="the configuration has a pull of that stream")
                left = pulls(daemon)
                left.pop("live/z", None)
                self.assertEqual({name: (pull["source"], pull["mode"]) for name, pull in left.items()},
                                 {"live/x": ("api", "always"), "live/y": ("api", "on-demand"),
                                  "live/taken": ("configuration", "on-demand")})
                self.assertTrue(3000 < left["live/x"]["ttl_seconds"] < 3600, left["live/x"])
                self.assertIsNone(left["live/y"]["ttl_seconds"])
                with Player(daemon, "live/x") as player, Player(daemon, "live/y") as other:
                    player.wait_tags(10)
                    other.wait_tags(10)
                daemon.wait_log("pull removed", stream="live/z", reason="its time to live is over")
                # Once more: it has them to give away.
                upgraded.upgrade()
                self.assertEqual({name for name, pull in pulls(daemon).items() if pull["source"] == "api"},
                                 {"live/x", "live/y"})
                daemon.wait_stream("live/x")
                self.assertNotIn("keeper", str(daemon.log()) + str(daemon.api()))
        camera.close()

    def test_worker_that_stands_still(self):
        """Every pull is handed over, also those of a worker that does nothing from its leave on."""
        names = {"live/%d" % at for at in range(24)}
        with Upgraded("--workers", "3", "--log-level", "debug") as upgraded:
            daemon = upgraded.daemon
            for name in names:
                self.assertEqual(post(daemon, {"url": "rtsp://127.0.0.1:1/x", "stream": name, "on_demand": True})[0], 201)
            stopped = lambda: len(daemon.log("pull", state="stopped"))
            with contextlib.ExitStack() as control:
                # The last worker leaves, and stands still again, before the control thread hears of it.
                with StoppedThread(daemon, "worker 2"):
                    daemon.process.send_signal(signal.SIGUSR2)
                    harness.wait_until(lambda: 0 < stopped() < len(names), "the other workers' leave")
                    control.enter_context(StoppedThread(daemon, "sluiced"))
                harness.wait_until(lambda: stopped() == len(names) and is_idle(daemon, "worker 2"), "the last one's leave")
                with StoppedThread(daemon, "worker 2"):
                    control.close()
                    upgraded.taken_over()
                    self.assertEqual({name for name, pull in pulls(daemon).items() if pull["source"] == "api"}, names)
            self.assertEqual(daemon.log("state not handed over"), [])


class ToolTest(unittest.TestCase):
    def run_tool(self, daemon, *arguments, text=""):
        done = subprocess.run([SLUICECTL, "--admin", "%s:%d" % daemon.address("admin"), *arguments], input=text,
                              capture_output=True, check=False, timeout=harness.PATIENCE, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_sluicectl(self):
        camera = Camera(self, user=("keeper", "secret")).start()
        with Daemon("--pull", "rtsp://127.0.0.1:1/x=live/c,on-demand") as daemon:
            self.assertEqual(self.run_tool(daemon, "pull", camera.url(user="keeper:secret"), "live/x", "--ttl", "3600"),
                             (0, "", ""))
            self.assertEqual(self.run_tool(daemon, "pull", "-", "live/y", "--on-demand", text=camera.url() + "\n"), (0, "", ""))
            daemon.wait_stream("live/x")
            status, out, _ = self.run_tool(daemon, "pulls")
            rows = {row[0]: row for row in map(str.split, out.splitlines())}
            self.assertEqual(rows["live/x"][1:5], ["rtsp", "rtsp://127.0.0.1:%d" % camera.port, "playing", "api"])
            self.assertEqual((rows["live/x"][6:], rows["live/y"][5:]), (["min", "0", "-", "-"], ["-", "0", "-", "-"]))
            self.assertEqual((rows["live/y"][3], rows["live/c"][4]), ("idle", "configuration"))
            self.assertEqual(self.run_tool(daemon, "pull", "rtsp://u:geheim@127.0.0.1:1/geheim", "live/z")[0], 0)
            daemon.wait_log("pull", stream="live/z", state="waiting", failures="2")
            row = harness.wait_until(lambda: next((line for line in self.run_tool(daemon, "pulls")[1].splitlines()
                                                   if line.startswith("live/z ") and " waiting " in line), None), "a failure")
            self.assertRegex(row, r" waiting +api +- +[2-9] +\d+ s  Connection refused\Z")
            self.assertNotIn("geheim", row)
            self.assertEqual(self.run_tool(daemon, "unpull", "live/z"), (0, "", ""))
            for name, begin in (("live/none", "sluicectl: there is no pull"), ("live/c", "sluicectl: 409: ")):
                status, out, err = self.run_tool(daemon, "unpull", name)
                self.assertEqual((status, out), (1, ""))
                self.assertTrue(err.startswith(begin), err)
            for name in ("live/x", "live/y"):
                self.assertEqual(self.run_tool(daemon, "unpull", name), (0, "", ""))
            self.assertEqual(list(pulls(daemon)), ["live/c"])
            for arguments in (("pull",), ("pull", "rtsp://h/x"), ("unpull",), ("pull", "-", "live/x"), ("--ttl", "0"),
                              ("--ttl", "-1"), ("--ttl", "x")):
                self.assertEqual(self.run_tool(daemon, *arguments)[:2], (2, ""), arguments)
            self.assertEqual(self.run_tool(daemon, "pull", "ftps://h/x", "live/x")[0], 1)
        camera.close()


if __name__ == "__main__":
    harness.main()
