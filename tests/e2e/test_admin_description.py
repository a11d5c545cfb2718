"""The API's description is true: every route, every answer and every problem is as openapi.json has it.

The description is checked with OpenAPI's own schema, answers with the schemas that it gives for them; a field that is not
described, or described and not there, is an error.
"""

import concurrent.futures
import contextlib
import importlib.util
import json
import os
import re
import socket
import tempfile
import unittest

import cluster
import flv
import harness
import redis_server
from harness import Daemon, Player, Publisher, Steady
from stopped_thread import StoppedThread

try:
    import jsonschema
except ImportError:
    harness.skip_file("the Python package jsonschema is not installed: tools/install-deps test")


JSON = {"Content-Type": "application/json"}
LOCATION = "/api/v1/cluster/streams/{name}"
# Of requests that need one.
BODIES = {("POST", "/api/v1/pulls"): b'{"url": "rtsp://127.0.0.1:1/x", "stream": "live/x"}'}


def openapi_schema():
    """OpenAPI's schema of 3.1, out of a package of which nothing else is used."""
    package = importlib.util.find_spec("openapi_spec_validator")
    if not package:
        harness.skip_file("the Python package openapi-spec-validator is not installed: tools/install-deps test")
    path = os.path.join(os.path.dirname(package.origin), "resources", "schemas", "v3.1", "schema.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class DescriptionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = os.path.join(harness.SOURCE_DIR, "src", "daemon", "admin", "openapi.json")
        with open(path, encoding="utf-8") as file:
            cls.text = file.read()
        cls.description = json.loads(cls.text)
        cls.seen = set()

    def resolve(self, node):
        while "$ref" in node:
            at = self.description
            for key in node["$ref"].removeprefix("#/").split("/"):
                at = at[key]
            node = at
        return node

    def find(self, path):
        for template, item in self.description["paths"].items():
            if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), path):
                return template, item
        self.fail("%s is not described" % path)

    def check(self, daemon, method, path, status, body=None, headers=None):
        """One exchange: its status and its body are among those that are described."""
        got, answer, content = daemon.admin(method, path, body, headers, patient=status != 503)
        self.assertEqual(got, status, (method, path, content))
        template, item = self.find(path.partition("?")[0])
        response = self.resolve(item[method.lower()]["responses"][str(status)])
        self.seen.add((template, method.lower(), str(status)))
        if "content" not in response:
            self.assertEqual(content, b"")
            return None
        (media, described), = response["content"].items()
        self.assertEqual(answer["Content-Type"], media)
        document = json.loads(content) if media.endswith("json") else content.decode()
        schema = {"$ref": "#/schema", "schema": described["schema"], "components": self.description["components"]}
        jsonschema.Draft202012Validator(schema).validate(document)
        return document

    def test_is_openapi(self):
        jsonschema.Draft202012Validator(openapi_schema()).validate(self.description)
        for name, schema in self.description["components"]["schemas"].items():
            with self.subTest(name):
                jsonschema.Draft202012Validator.check_schema(schema)

    def test_is_served(self):
        with Daemon() as daemon:
            self.assertEqual(daemon.admin("GET", "/api/v1/openapi.json")[2].decode(), self.text)

    def test_answers(self):
        """All routes, with every kind of object there: streams with and without publisher, players, a pull, a forward."""
        data, tags = flv.stream(40)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # Publishers and players may be silent for as long as this takes.
        with Daemon("--idle", "600", "--wait", "600", "--record", "live/a=" + folder.name, "--pull", "rtsp://127.0.0.1:1/none=live/pulled",
                    "--forward", "live/a=http://127.0.0.1:1/none",
                    listen=("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http", "127.0.0.1:0,merge-window=20")) as daemon:
            with Steady(daemon) as steady, Player(daemon, "live/waits"), Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(data)
                daemon.wait_stream("live/a")
                daemon.wait_player("live/waits")
                daemon.wait_log("pull", state="waiting")
                daemon.wait_log("forward", state="waiting")
                self.check(daemon, "POST", "/api/v1/recordings/live%2Flater", 204)
                self.check(daemon, "DELETE", "/api/v1/recordings/live%2Fwaits", 204)
                for path in self.description["paths"]:
                    if "{" not in path and "get" in self.description["paths"][path]:
                        with self.subTest(path):
                            self.check(daemon, "GET", path, 200)
                for path in ("/api/v1/streams", "/api/v1/overview"):
                    self.check(daemon, "GET", path + "?limit=1&sort=players&order=desc", 200)
                    self.check(daemon, "GET", path + "?limit=0", 400)
                for path in ("/api/v1/pulls", "/api/v1/forwards"):
                    self.check(daemon, "GET", path + "?limit=1", 200)
                    self.check(daemon, "GET", path + "?limit=0", 400)
                self.check(daemon, "GET", "/api/v1/streams/live%2Fwaits?players=0", 400)
                players = self.check(daemon, "GET", "/api/v1/players", 200)["players"]
                self.assertEqual(len(players), 2)
                self.check(daemon, "GET", "/api/v1/players/%d" % players[0]["id"], 200)
                self.check(daemon, "GET", "/api/v1/streams/live%2Fwaits", 200)
                self.check(daemon, "GET", "/api/v1/streams/" + steady.name.replace("/", "%2F"), 200)
                pull, = self.check(daemon, "GET", "/api/v1/pulls", 200)["pulls"]
                self.assertEqual(pull["stream"], "live/pulled")
                forward, = self.check(daemon, "GET", "/api/v1/forwards", 200)["forwards"]
                self.assertEqual((forward["stream"], forward["to"]), ("live/a", "http://127.0.0.1:1"))
                self.check_pulls(daemon, "/api/v1/pulls/%d" % pull["id"])
                waiting, = [one for one in players if one["stream"] == "live/waits"]
                self.check(daemon, "DELETE", "/api/v1/players/%d" % waiting["id"], 204)
                self.check(daemon, "GET", "/api/v1/publishers/%d" % daemon.stream("live/a")["publisher"]["id"], 200)
                self.check(daemon, "DELETE", "/api/v1/publishers/%d" % daemon.stream("live/a")["publisher"]["id"], 204)
                self.check(daemon, "DELETE", "/api/v1/streams/" + steady.name.replace("/", "%2F") + "?ban=x", 400)
                steady.go_on()
            with Publisher(daemon, "live/b", "http") as publisher:
                publisher.send(data)
                daemon.wait_stream("live/b")
                self.check(daemon, "DELETE", "/api/v1/streams/live%2Fb?ban=60", 204)
            self.assertEqual([ban["stream"] for ban in self.check(daemon, "GET", "/api/v1/bans", 200)["bans"]], ["live/b"])
            self.check(daemon, "DELETE", "/api/v1/bans/live%2Fb?host=x", 400)
            for status in (204, 404):
                self.check(daemon, "DELETE", "/api/v1/bans/live%2Fb", status)
            self.check_problems(daemon)

    def check_pulls(self, daemon, configured):
        request = {"url": "rtsp://u:p@127.0.0.1:1/x", "stream": "live/made", "on_demand": True, "ttl": 60}
        jsonschema.Draft202012Validator(self.description["components"]["schemas"]["PullRequest"]).validate(request)
        body = json.dumps(request).encode()
        made = "/api/v1/pulls/%d" % self.check(daemon, "POST", "/api/v1/pulls", 201, body, JSON)["id"]
        self.check(daemon, "POST", "/api/v1/pulls", 409, body, JSON)
        self.check(daemon, "POST", "/api/v1/pulls", 400, b"{}", JSON)
        self.check(daemon, "POST", "/api/v1/pulls", 413, b" " * 20000, JSON)
        self.check(daemon, "POST", "/api/v1/pulls", 415, body)
        self.check(daemon, "GET", "/api/v1/pulls", 200)
        self.assertEqual(self.check(daemon, "GET", made, 200)["source"], "api")
        self.check(daemon, "DELETE", made + "?x=y", 400)
        self.check(daemon, "DELETE", made, 204)
        for method in ("GET", "DELETE"):
            self.check(daemon, method, made, 404)
        self.check(daemon, "DELETE", configured, 409)

    def check_problems(self, daemon):
        for path in ("/api/v1/streams/none", "/api/v1/players/1", "/api/v1/publishers/1", "/api/v1/cluster/streams/none"):
            self.check(daemon, "GET", path, 404)
        for path in ("/api/v1/streams/none", "/api/v1/players/1", "/api/v1/publishers/1", "/api/v1/recordings/.."):
            self.check(daemon, "DELETE", path, 404)
        self.check(daemon, "POST", "/api/v1/recordings/..", 404)
        for method in ("POST", "DELETE"):
            self.check(daemon, method, "/api/v1/recordings/live%2Fa?by=x", 400)
        for path in ("/api/v1/players/1?ban=1", "/api/v1/publishers/1?ban=-1"):
            self.check(daemon, "DELETE", path, 400)
        self.assertEqual(self.check(daemon, "POST", "/api/v1/reload", 200), {"changes": []})
        for path in ("/api/v1/reload", "/api/v1/upgrade"):
            self.check(daemon, "POST", path, 413, b"x" * 70000)
        for method, path, _ in self.every("403"):
            self.check(daemon, method, path, 403, headers={"Host": "evil.example"})
        self.check_guarded()
        self.check_cluster()
        # All but what test_upgrade.py sees.
        self.assertEqual({(template, method, status) for template, item in self.description["paths"].items()
                          for method in ("get", "delete", "post") if method in item
                          for status in item[method]["responses"]} - self.seen,
                         {("/api/v1/upgrade", "post", "200"), ("/api/v1/upgrade", "post", "503")})

    def check_cluster(self):
        """What is null without a cluster; and where a stream is, with its engine and without."""
        with cluster.Cluster("--wait", "600") as nodes:
            a, b = nodes.add("a"), nodes.add("b", secret="f" * 32)
            with cluster.Marked(a, "live/a", 1), Player(b, "live/a"):
                a.wait_stream("live/a")
                harness.wait_until(lambda: any(pull["failures"] for pull in b.api("/api/v1/cluster/pulls")["pulls"]), "a failure")
                self.assertTrue(self.check(a, "GET", "/api/v1/cluster/streams", 200)["streams"])
                self.assertEqual(self.check(b, "GET", LOCATION.replace("{name}", "live%2Fa"), 200)["node"], "a")
                nodes.engine.stop()
                harness.wait_until(lambda: b.api("/api/v1/health")["status"] == "degraded", "the engine's end")
                for path in ("/api/v1/cluster", "/api/v1/cluster/pulls", "/api/v1/health", "/api/v1/snapshot", "/api/v1/overview"):
                    for node in (a, b):
                        self.check(node, "GET", path, 200)
                for path in ("/api/v1/cluster/pulls?limit=0", "/api/v1/cluster/streams?limit=0"):
                    self.check(b, "GET", path, 400)
                self.check(b, "GET", LOCATION.replace("{name}", "none"), 503)

    def every(self, status):
        """Each (method, path) for which that status is described, and its template."""
        return [(method.upper(), template.replace("{name}", "none").replace("{id}", "1"), template)
                for template, item in self.description["paths"].items() for method in ("get", "delete", "post")
                if status in item.get(method, {}).get("responses", ())]

    def check_guarded(self):
        """Of a daemon with a token, and with a configuration that goes wrong."""
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            token, config = os.path.join(folder, "token"), os.path.join(folder, "sluiced.conf")

            def write(path, text):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                os.chmod(path, 0o600)

            write(token, "secret-of-the-test\n")
            write(config, "idle = 20;\n")
            headers = {"Authorization": "Bearer secret-of-the-test"}
            daemon = stack.enter_context(Daemon("--workers", "1", "--admin", "127.0.0.1:0", "--admin-token-file", token,
                                                "--config", config))
            for method, path, _ in self.every("401"):
                self.check(daemon, method, path, 401)
            for method in ("POST", "DELETE"):
                self.check(daemon, method, "/api/v1/recordings/live%2Fa", 409, headers=headers)
            write(config, "idle = -1;\n")
            self.check(daemon, "POST", "/api/v1/reload", 422, headers=headers)
            write(config, 'rtsp = "127.0.0.1:%d";\n' % taken.getsockname()[1])
            self.check(daemon, "POST", "/api/v1/reload", 503, headers=headers)
            write(config, "idle = 21;\n")
            self.check_hanging(daemon, headers)

    def check_hanging(self, daemon, headers):
        """A worker that does not answer: what it has to do with is 503, and a reload is under way until it does."""
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            with StoppedThread(daemon, "worker 0"):
                waiting = [pool.submit(self.check, daemon, method, path, 503, BODIES.get((method, template)),
                                       dict(JSON, **headers))
                           for method, path, template in self.every("503")
                           if template not in ("/api/v1/reload", "/api/v1/upgrade", LOCATION)]
                # Of two at a time one is refused, whichever came later.
                reloads = [pool.submit(daemon.admin, "POST", "/api/v1/reload", None, headers) for _ in range(2)]
                done, _ = concurrent.futures.wait(reloads, harness.PATIENCE, concurrent.futures.FIRST_COMPLETED)
                self.assertEqual([one.result()[0] for one in done], [409])
                self.check(daemon, "POST", "/api/v1/reload", 409, headers=headers)
                self.check(daemon, "POST", "/api/v1/upgrade", 409, headers=headers)
                for one in waiting:
                    one.result(harness.PATIENCE)
            self.assertEqual(sorted(one.result(harness.PATIENCE)[0] for one in reloads), [200, 409])

    def test_no_route_is_left_out(self):
        """The routes of the source, read there, are those of the description."""
        with open(os.path.join(harness.SOURCE_DIR, "src", "daemon", "admin", "admin.c"), encoding="utf-8") as file:
            source = file.read()
        table = source[source.index("static const struct route routes[]"):]
        table = table[:table.index("};")]
        names = dict(re.findall(r'(\w+_path)\[\] = "([^"]+)"', source))
        paths = [text or names[name] for text, name in re.findall(r'\{(?:"([^"]+)"|(\w+_path)), ', table)]
        self.assertGreater(len(paths), 10)
        described = {re.sub(r"\{\w+\}", "", path) for path in self.description["paths"]}
        self.assertEqual(described, set(paths) | {"/api/v1/openapi.json"})


if __name__ == "__main__":
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
