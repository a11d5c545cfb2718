"""Who may publish and play: each action by each protocol with each kind of credentials, and what each is answered."""

import base64
import concurrent.futures
import contextlib
import hashlib
import hmac
import itertools
import os
import re
import signal
import socket
import tempfile
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher
from rtsp import SDP, Client, Ended

KEYS = {"k1": "schluessel-eins", "k2": "schluessel zwei"}
USERS = "both:geheim:1\npublish camera:geheim2\nplay viewer:geheim3\n"

RULES = [
    "all allow/* allow",
    "all deny/* deny",
    "all user/* user=both,user=viewer",
    "all any/* user",
    "all token/* token=k1,token=k2",
    "all secret/* secret=k1",
    "all mixed/* user=both,token=k1",
    "all near/* from 127.0.0.1,10.0.0.0/8 allow",
    "all near/* deny",
    "all far/* from 10.0.0.0/8,::1 allow",
    "play half/* allow",
]
LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
STREAMS = ["allow", "deny", "user", "any", "token", "secret", "mixed", "near", "far", "half", "other"]


def sign(key, action, stream, expiry):
    """A token, by another implementation."""
    text = "v1\n%s\n%s\n%d" % (action, stream, expiry)
    return "v1.%d.%s" % (expiry, hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest())


def credentials(action, stream):
    """What clients may show: name -> (a query's token or None, user and password or None)."""
    now = int(time.time())
    other = {"publish": "play", "play": "publish"}[action]
    return {
        "none": (None, None),
        "both": (None, "both:geheim:1"),
        "camera": (None, "camera:geheim2"),
        "viewer": (None, "viewer:geheim3"),
        "nobody": (None, "nobody:geheim:1"),
        "wrong password": (None, "both:geheim"),
        "no password": (None, "both:"),
        "token of k1": (sign(KEYS["k1"], action, stream, now + 1000), None),
        "token of k2": (sign(KEYS["k2"], action, stream, now + 1000), None),
        "expired": (sign(KEYS["k1"], action, stream, now - 1), None),
        "for another action": (sign(KEYS["k1"], other, stream, now + 1000), None),
        "for another stream": (sign(KEYS["k1"], action, stream + "x", now + 1000), None),
        "wrong key": (sign("schluessel", action, stream, now + 1000), None),
        "the secret": (KEYS["k1"], None),
        "another secret": (KEYS["k2"].replace(" ", "%20"), None),
        "half a secret": (KEYS["k1"][:-1], None),
    }


RIGHT = {
    "user": {"both": {"publish", "play"}, "viewer": {"play"}},
    "any": {"both": {"publish", "play"}, "viewer": {"play"}, "camera": {"publish"}},
    "token": {"token of k1": {"publish", "play"}, "token of k2": {"publish", "play"}},
    "secret": {"the secret": {"publish", "play"}},
    "mixed": {"both": {"publish", "play"}, "token of k1": {"publish", "play"}},
}


def expected(action, kind, shown):
    """0: granted; or the status."""
    if kind in ("allow", "near") or (kind, action) == ("half", "play"):
        return 0
    if kind not in RIGHT:
        return 403
    rights = RIGHT[kind].get(shown)
    if rights is None and kind in ("user", "any", "mixed") and shown in ("both", "camera", "viewer"):
        return 403  # a user, but none who may
    return 401 if rights is None else 0 if action in rights else 403


def basic(user):
    return "Basic " + base64.b64encode(user.encode()).decode()


class RightsCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.keys = self.write("keys", "".join("%s:%s\n" % pair for pair in KEYS.items()))
        self.users = self.write("users", USERS)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return path

    def arguments(self, rules):
        return ["--token-keys", self.keys, "--rtsp-users", self.users] + ["--rule=" + rule for rule in rules]

    def start(self, rules, listen=LISTEN, *options):
        daemon = Daemon(*self.arguments(rules), *options, listen=listen)
        self.addCleanup(daemon.stop)
        return daemon

    def check_secrets(self, daemon):
        text = "\n".join(line.text for line in daemon.log())
        for secret in ("geheim", "schluessel", basic("both:geheim:1")[6:], "v1."):
            self.assertNotIn(secret, text)


class MatrixTest(RightsCase):
    def check(self, daemon, action, ask, refused, at_a_time=1):
        asked = [(kind, shown, kind + "/x", *what) for kind in STREAMS
                 for shown, what in credentials(action, kind + "/x").items()]
        with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
            answers = list(pool.map(lambda one: ask(daemon, *one[2:]), asked))
        for (kind, shown, *_), (status, challenge) in zip(asked, answers):
            with self.subTest(action=action, stream=kind, shown=shown):
                wanted = expected(action, kind, shown)
                if wanted:
                    self.assertEqual(status, wanted)
                    self.assertEqual(bool(challenge), wanted == 401)
                else:
                    self.assertIn(status, refused)
                if challenge:
                    self.assertEqual("Basic" in challenge, kind in ("user", "any", "mixed"))
        daemon.blocks_settled()
        self.check_secrets(daemon)

    @staticmethod
    def http(method, kept=False, **more):
        """kept: the connection has asked for something before, and been answered."""
        def ask(daemon, stream, token, user):
            path = "/%s.flv%s" % (stream, "?a=b&token=%s" % token if token else "")
            headers = {name.replace("_", "-"): value for name, value in more.items()}
            if user:
                headers["Authorization"] = basic(user)
            with contextlib.closing(daemon.connection()) as connection:
                if kept:
                    connection.request("OPTIONS", "/allow/x.flv")
                    connection.getresponse().read()
                    if not connection.sock:
                        raise AssertionError("the connection is not kept")
                connection.request(method, path, headers=headers)
                response = connection.getresponse()
                return response.status, response.headers.get("WWW-Authenticate")
        return ask

    @staticmethod
    def rtsp(method):
        def ask(daemon, stream, token, user):
            with Client(daemon, stream) as client:
                url = client.url + ("?token=%s" % token if token else "")
                more = {"Authorization": basic(user)} if user else {}
                if method == "SETUP":
                    more["Transport"] = "RTP/AVP/TCP;unicast;interleaved=0-1"
                reply = client.ask(method, url, SDP if method == "ANNOUNCE" else "", **more)
                challenges = " ".join(value for name, value in reply.headers.items() if "www-authenticate" in name)
                return reply.status, challenges
        return ask

    def test_http_play(self):
        """Who may play a stream that is not there, is told that it is not."""
        self.check(self.start(RULES), "play", self.http("HEAD"), {404})

    def test_http_get(self):
        self.check(self.start(RULES, LISTEN, "--wait", "0"), "play", self.http("GET"), {404}, 16)

    def test_kept_connection(self):
        """What comes behind another request is judged, too."""
        self.check(self.start(RULES, LISTEN, "--wait", "0"), "play", self.http("GET", kept=True), {404}, 16)

    def test_websocket(self):
        upgrade = self.http("GET", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13",
                            Sec_WebSocket_Key=base64.b64encode(bytes(16)).decode())
        self.check(self.start(RULES, LISTEN, "--wait", "0"), "play", upgrade, {404}, 16)

    def test_http_publish(self):
        """Who may publish, and publishes nothing, is told that this is no stream."""
        self.check(self.start(RULES), "publish", self.http("POST"), {200, 400})

    def test_rtsp_play(self):
        self.check(self.start(RULES), "play", self.rtsp("SETUP"), {404})

    def test_rtsp_publish(self):
        self.check(self.start(RULES), "publish", self.rtsp("ANNOUNCE"), {200})

    def test_flv(self):
        """It can show nothing, so what asks for something is closed to it."""
        listen = ["--http", "127.0.0.1:0"] + ["--flv=127.0.0.1:0=%s/x" % kind for kind in STREAMS]
        daemon = self.start(RULES, listen)
        data = flv.header() + b"".join(tag.pack() for tag in flv.first_tags())
        for at, kind in enumerate(STREAMS):
            with self.subTest(kind), daemon.connect("flv", at) as peer:
                if expected("publish", kind, "none") == 0:
                    peer.sendall(data)
                    daemon.wait_stream(kind + "/x")
                else:
                    self.assertEqual(harness.read_to_end(peer), b"")
        daemon.wait_log("request refused", 9, proto="flv", status="403")
        daemon.blocks_settled()


class UseTest(RightsCase):
    def test_bearer(self):
        daemon = self.start(RULES)
        token = sign(KEYS["k1"], "play", "token/x", int(time.time()) + 1000)
        for said, status in (("Bearer " + token, 404), ("bearer  " + token, 404), ("Bearer " + token[:-1], 401),
                             ("Bearer", 401), ("Basic " + token, 401), ("Bearer " + "x" * 1000, 401)):
            self.assertEqual(daemon.request("HEAD", "/token/x.flv", headers={"Authorization": said})[0], status, said)

    def test_play(self):
        """A stream by HTTP, from a publisher with a token to a player with one, who goes on when it expires."""
        daemon = self.start(RULES)
        expiry = int(time.time()) + 3
        publish, play = (sign(KEYS["k1"], action, "token/x", expiry) for action in ("publish", "play"))
        with daemon.connect() as publisher, daemon.connect() as player:
            publisher.sendall(b"POST /token/x.flv?token=%s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" %
                              publish.encode())
            player.sendall(b"GET /token/x.flv?token=%s HTTP/1.0\r\n\r\n" % play.encode())
            daemon.wait_player("token/x")
            parser, source = flv.Parser(), flv.frames()
            sent = flv.first_tags()
            data = flv.header() + b"".join(tag.pack() for tag in sent)
            publisher.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            while time.time() <= expiry + 0.1:  # Clocks of whole seconds are some milliseconds behind.
                sent.append(next(source))
                data = sent[-1].pack()
                publisher.sendall(b"%x\r\n%s\r\n" % (len(data), data))
                time.sleep(0.05)
            status, _, rest = harness.read_head(player)
            self.assertEqual(status, 200)
            tags = parser.feed(rest)
            while len(tags) < len(sent):
                tags += parser.feed(player.recv(65536))
            harness.check_same(tags, sent, "tags")
            self.assertEqual(daemon.request("HEAD", "/token/x.flv?token=" + play)[0], 401)
        daemon.blocks_settled()

    def test_rtsp_connection(self):
        """What was granted once is the connection's; another stream is asked for anew."""
        daemon = self.start(RULES)
        with Publisher(daemon, "allow/y", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            for frame in itertools.islice(flv.frames(), 40):
                publisher.send(frame)
            daemon.wait_stream("allow/y")
            with Client(daemon, "allow/y") as client:
                self.assertEqual(client.ask("DESCRIBE").status, 200)
                self.assertEqual(client.ask("DESCRIBE", client.url.replace("allow/y", "user/x")).status, 401)
                self.assertEqual(client.setup(0).status, 200)
                self.assertEqual(client.ask("PLAY").status, 200)
        with Client(daemon, "token/x") as client:
            token = sign(KEYS["k2"], "publish", "token/x", int(time.time()) + 1000)
            self.assertEqual(client.ask("ANNOUNCE", client.url + "?token=" + token, SDP).status, 200)
            self.assertEqual(client.setup(0, record=True).status, 200)
            self.assertEqual(client.ask("RECORD").status, 200)
        daemon.blocks_settled()

    def test_rtsp_failures(self):
        """Who guesses is disconnected after eight times."""
        daemon = self.start(RULES)
        for url, more in (("?token=%d", {}), ("", {"Authorization": basic("both:x")})):
            with Client(daemon, "mixed/x") as client:
                with self.assertRaises(Ended):
                    for number in range(9):
                        reply = client.ask("DESCRIBE", client.url + (url % number if url else ""), **more)
                        self.assertEqual(reply.status, 401)

    def test_rtsp_reload(self):
        """For another stream on a connection that is authenticated, its user counts as it is by then."""
        config = self.write("r.conf", 'rtsp = "127.0.0.1:0";\nrtsp-users = "%s";\nwait = 0;\n' % self.users)
        with Daemon("--config", config, listen=()) as daemon, Client(daemon, "one") as client:
            def reload(users):
                self.write("users", users)
                daemon.process.send_signal(signal.SIGHUP)
                daemon.wait_log("configuration reloaded", len(daemon.log("configuration reloaded")) + 1)

            def ask(method, name, user=None, **more):
                shown = {"Authorization": basic(user)} if user else {}
                return client.ask(method, client.url[:-len("one")] + name, **shown, **more).status
            self.assertEqual(ask("DESCRIBE", "one"), 401)
            self.assertEqual(ask("DESCRIBE", "one", "both:geheim:1"), 404)
            self.assertEqual(ask("DESCRIBE", "two"), 404)
            reload(USERS.replace("both:", "play both:"))
            self.assertEqual(ask("ANNOUNCE", "three", body=SDP), 403)
            self.assertEqual(ask("DESCRIBE", "four"), 404)
            reload(USERS.replace("geheim:1", "other"))
            self.assertEqual(ask("DESCRIBE", "five"), 401)
            self.assertEqual(ask("DESCRIBE", "five", "both:geheim:1"), 401)
            self.assertEqual(ask("DESCRIBE", "five", "both:other"), 404)
            reload("viewer:geheim3\n")
            # What has been granted stays so.
            self.assertEqual(ask("DESCRIBE", "five"), 404)
            self.assertEqual(ask("DESCRIBE", "six"), 401)
            self.assertEqual(ask("DESCRIBE", "six", "viewer:geheim3"), 404)

    def test_ffmpeg(self):
        """Tokens in the URLs of others' programs, by RTSP and by HTTP."""
        if not harness.find_ffmpeg():
            self.skipTest("no ffmpeg")
        daemon = self.start(RULES, LISTEN, "--wait", "2")
        file = harness.make_media(harness.find_ffmpeg(), " ".join([harness.VIDEO, "-t 5", harness.H264]))
        expiry = int(time.time()) + 1000
        publish, play = (sign(KEYS["k1"], action, "token/x", expiry) for action in ("publish", "play"))
        rtsp = "rtsp://%s:%d/token/x?token=" % daemon.address("rtsp")
        publisher = harness.Ffmpeg("ffmpeg", "-re", "-i", file, "-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp",
                                   rtsp + publish)
        self.addCleanup(publisher.kill)
        daemon.wait_stream("token/x")
        players = [harness.Ffmpeg("ffmpeg", *options, "-i", url + play, "-frames:v", "20", "-f", "null", "-")
                   for options, url in ((("-rtsp_transport", "tcp"), rtsp), ((), daemon.url("token/x") + "?token="))]
        for player in players:
            self.addCleanup(player.kill)
            player.wait()
        publisher.wait()
        self.check_secrets(daemon)

    def test_sign(self):
        """What --sign makes is what others make, and is taken."""
        daemon = self.start(RULES)
        for key in ("k1", "k2"):
            status, out, err = harness.run_daemon("--token-keys", self.keys, "--sign", "play,token/x,100," + key)
            self.assertEqual((status, err), (0, ""))
            expiry = int(out.split(".")[1])
            self.assertEqual(out.rstrip("\n"), sign(KEYS[key], "play", "token/x", expiry))
            self.assertLessEqual(abs(expiry - time.time() - 100), 60)
            self.assertEqual(daemon.request("HEAD", "/token/x.flv?token=" + out.strip())[0], 404)
        self.assertEqual(harness.run_daemon("--token-keys", self.keys, "--sign", "play,token/x,100")[0], 0)
        for what in ("play", "play,token/x", "see,a,1", "play,,1", "play,a,0", "play,a,x", "play,a,1,k3", "play,a,-1"):
            status, out, err = harness.run_daemon("--token-keys", self.keys, "--sign", what)
            self.assertEqual((status, out), (2, ""))
            self.assertRegex(err, r"\Asluiced: --sign: expected .*\n\Z")
        self.assertEqual(harness.run_daemon("--sign", "play,a,1")[0], 2)

    def test_recordings(self):
        """Whoever may play a stream may see what was recorded of it, and nobody else."""
        with tempfile.TemporaryDirectory() as folder:
            daemon = self.start(["play live/open allow", "play live/shut user=viewer"], LISTEN,
                                "--record", "live/*=" + folder)
            for file in ("", "/", "/2026-01-01T00-00-00.000Z.flv"):
                path = "/recordings/live/%s" + file
                self.assertEqual(daemon.request("GET", path % "none")[0], 403)
                self.assertEqual(daemon.request("GET", path % "shut")[0], 401)
                good = daemon.request("GET", path % "shut", headers={"Authorization": basic("viewer:geheim3")})[0]
                self.assertEqual(good, 404)
                self.assertEqual(daemon.request("GET", path % "open")[0], 404)
            self.assertEqual(daemon.request("GET", "/recordings/live/open/../shut")[0], 404)
            os.makedirs(os.path.join(folder, "live", "open"))
            with contextlib.closing(daemon.connection()) as connection:
                for stream, status in (("open", 200), ("shut", 401)):
                    connection.request("GET", "/recordings/live/" + stream)
                    response = connection.getresponse()
                    response.read()
                    self.assertEqual((response.status, bool(connection.sock)), (status, status == 200))
            daemon = self.start(["all * allow"], LISTEN, "--record", "live/*=" + folder, "--hook-play", "http://127.0.0.1:9/")
            self.assertEqual(daemon.request("GET", "/recordings/live/open")[0], 403)

    def test_reload(self):
        """Rules and keys change for those who come; who is there stays."""
        config = self.write("r.conf", 'http = "127.0.0.1:0";\nflv = "127.0.0.1:0=live/a";\nrule = "all * allow";\n')
        with Daemon("--config", config, listen=()) as daemon, harness.Steady(daemon, name="live/a") as steady:
            self.write("r.conf", 'http = "127.0.0.1:0";\nflv = "127.0.0.1:0=live/a";\nrule = "play b allow";\n')
            daemon.process.send_signal(signal.SIGHUP)
            line = daemon.wait_log("setting changed")
            self.assertIn("rule: ", line.fields["setting"])
            daemon.wait_log("configuration reloaded")
            self.assertEqual(daemon.request("HEAD", "/live/a.flv")[0], 403)
            self.assertEqual(daemon.request("HEAD", "/b.flv")[0], 404)
            steady.go_on()

    def test_log(self):
        """So many lines, and then how many more there were."""
        daemon = self.start(RULES)
        count = 60
        for _ in range(count):
            self.assertEqual(daemon.request("HEAD", "/deny/x.flv")[0], 403)

        def told():
            """So many are told of one by one, and of how many more."""
            return len(daemon.log("request refused")), [int(line.fields["count"]) for line in
                                                        daemon.log("refusals not logged")]
        harness.wait_until(lambda: told()[0] + sum(told()[1]) == count, lambda: "all to be told of: %s" % (told(), ))
        # Twenty in ten seconds: a busy machine may need more than those for all.
        one_by_one, more = told()
        self.assertGreaterEqual(one_by_one, 20)
        self.assertGreater(sum(more), 0)

    def test_log_beside_other_refusals(self):
        """Requests that are refused for other reasons, which anybody can send, hide no wrong credentials."""
        daemon = self.start(RULES, LISTEN, "--log-rate", "2", "--workers", "1")
        wrong = {"Authorization": basic("both:x")}
        for number in range(200):
            self.assertEqual(daemon.request("GET", "/")[0], 404)
            if number % 20 == 19:
                self.assertEqual(daemon.request("HEAD", "/user/x.flv", headers=wrong)[0], 401)
        daemon.wait_log("request refused", 10, status="401")
        self.assertLess(len(daemon.log("request refused", status="404")), 200)


class RemoteTest(RightsCase):
    def check(self, *arguments):
        return harness.run_daemon(*arguments, "--check")[0]

    def test_remote(self):
        """Where anyone could come in without credentials, the daemon does not start."""
        for rules, status in [
                ([], {"flv": 0, "http": 0, "rtsp": 0}),  # There are users, and no rules: they alone may.
                (["all * user"], {"flv": 0, "http": 0, "rtsp": 0}),
                (["play a/* from 10.0.0.0/8 allow", "all * token=k1"], {"flv": 0, "http": 0, "rtsp": 0}),
                (["play a/* allow"], {"flv": 2, "http": 2, "rtsp": 2})]:
            for protocol, wanted in status.items():
                for address in ("0.0.0.0:0", "[::]:0"):
                    arguments = self.arguments(rules) + ["--%s=%s" % (protocol, address)]
                    self.assertEqual(self.check(*arguments), wanted, arguments)
                    self.assertEqual(self.check(*arguments, "--allow-remote"), 0)
        self.assertEqual(self.check("--rtsp", "0.0.0.0:0"), 2)

    def test_everyone_by_ranges(self):
        """Ranges that leave out no public address are everyone, in one rule or in several; and one less is not."""
        halves = ["0.0.0.0/1", "128.0.0.0/1"]
        public = ("1.0.0.0/8,2.0.0.0/7,4.0.0.0/6,8.0.0.0/7,11.0.0.0/8,12.0.0.0/6,16.0.0.0/4,32.0.0.0/3,64.0.0.0/3,"
                  "96.0.0.0/6,100.0.0.0/10,100.128.0.0/9,101.0.0.0/8").split(",")
        for rules, everyone in [
                (["all * from 0.0.0.0/0 allow"], True), (["play a from 0.0.0.0/0 allow"], True),
                (["all * from %s allow" % ",".join(halves)], True),
                (["all * from %s allow" % one for one in halves], True),
                (["publish a from 0.0.0.0/1 allow", "all * token=k1", "play b from 128.0.0.0/1 allow"], True),
                (["all * from 64.0.0.0/2,0.0.0.0/2 allow", "all * from 192.0.0.0/2,128.0.0.0/2 allow"], True),
                (["all * from %s allow" % ",".join(halves[:1])], False),
                (["all * from 0.0.0.0/1,128.0.0.0/2,192.0.0.0/3 allow"], True),  # But for multicast and reserved.
                (["all * from 0.0.0.0/1,128.0.0.0/2,192.0.0.0/4,208.0.0.0/5 allow"], False),
                (["all * from %s allow" % ",".join(public), "all * from 102.0.0.0/7,104.0.0.0/5,112.0.0.0/4,"
                  "128.0.0.0/1 allow"], True),  # But for 10/8, 127/8 and the like.
                (["all * from %s allow" % ",".join(public[1:]), "all * from 102.0.0.0/7,104.0.0.0/5,112.0.0.0/4,"
                  "128.0.0.0/1 allow"], False),
                (["all * from ::/0 allow"], True), (["all * from ::/1,8000::/1 allow"], True),
                (["all * from 2000::/4 allow", "all * from 3000::/4 allow"], True),
                (["all * from 2000::/4,3000::/5 allow"], False),
                (["all * from ::/1 allow"], True),  # All that is assigned.
                (["all * from 0.0.0.0/1 allow", "all * from 8000::/1 allow"], False),
                (["all * from 0.0.0.0/0 deny", "all * token=k1"], False),
                (["all * from 0.0.0.0/0 user"], False)]:
            status, _, errors = harness.run_daemon(*self.arguments(rules), "--http", "0.0.0.0:0", "--check")
            self.assertEqual((status, "or rules that ask for credentials" in errors), (2, True) if everyone else
                             (0, False), (rules, errors))

    def test_shadowed_rules(self):
        """--check says which rules never decide, and why; and nothing of others."""
        for rules, shadowed in [
                (["all * user", "play live/a allow"], [1]), (["play * user", "all live/a allow"], []),
                (["play * user", "publish live/* user", "all live/a allow"], [2]),
                (["play live/* user", "play live/*/a allow", "play live* allow", "play live/a/b allow"], [1, 3]),
                (["play *a* user", "play *b* allow", "play *ab* allow", "play xay allow"], [2, 3]),
                (["all a from 10.0.0.0/8 allow", "all a from 10.1.0.0/16 deny", "all a deny", "all a allow"], [1, 3]),
                (["all a from 10.0.0.0/9,10.128.0.0/9 allow", "all a from 10.0.0.0/8 deny"], [1]),
                (["all a from 10.0.0.0/9 allow", "all a from 10.0.0.0/8 deny"], []),
                (["all a from ::/0 allow", "all a from 10.0.0.0/8 deny"], []),
                (["all a from 10.0.0.0/8 allow", "all a deny", "all b deny"], [])]:
            status, out, errors = harness.run_daemon(*self.arguments(rules), "--check")
            self.assertEqual((status, out), (0, "OK\n"))
            lines = errors.splitlines()
            self.assertEqual(len(lines), len(shadowed), (rules, errors))
            for line, at in zip(lines, shadowed):
                self.assertTrue(line.startswith('sluiced: warning: --rule: "%s" never decides: ' % rules[at]), line)

    def test_users_without_rules(self):
        """They are asked for by each protocol; raw FLV, which can show nothing, gets nothing."""
        folder = os.path.join(self.folder, "recorded")
        os.mkdir(folder)
        daemon = self.start([], LISTEN, "--record", "*=" + folder)
        data = flv.stream(20)[0]
        with Publisher(daemon, "live/raw"):
            daemon.wait_log("request refused", proto="flv", status="403")
        both, camera, viewer = ({"Authorization": basic(one)} for one in ("both:geheim:1", "camera:geheim2",
                                                                         "viewer:geheim3"))
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw=="}
        for shown, published, played in (({}, 401, 401), (both, 200, 404), (camera, 200, 403), (viewer, 403, 404)):
            self.assertEqual(daemon.request("POST", "/live/a.flv", data, headers=shown)[0], published, shown)
            self.assertEqual(daemon.request("HEAD", "/live/none.flv", headers=shown)[0], played, shown)
            self.assertEqual(daemon.request("GET", "/recordings/live/none", headers=shown)[0], played, shown)
            if played != 404:
                self.assertEqual(daemon.request("GET", "/live/a.flv", headers=dict(upgrade, **shown))[0], played)
        with Client(daemon) as client:
            self.assertEqual(client.ask("DESCRIBE").status, 401)
            self.assertEqual(client.ask("ANNOUNCE", body=SDP).status, 401)
            self.assertEqual(client.ask("ANNOUNCE", body=SDP, **viewer).status, 403)
        daemon.blocks_settled()

    def test_addresses(self):
        """Of both families."""
        daemon = self.start(["all a from 127.0.0.0/8 allow", "all b from ::/0 allow"],
                            ("--http", "127.0.0.1:0", "--http", "[::1]:0"))
        for at, host in enumerate(("127.0.0.1", "[::1]")):
            for name, granted in (("a", at == 0), ("b", at == 1)):
                with daemon.connect("http", at) as peer:
                    peer.sendall(b"HEAD /%s.flv HTTP/1.0\r\n\r\n" % name.encode())
                    self.assertEqual(harness.read_head(peer)[0], 404 if granted else 403, (host, name))


if __name__ == "__main__":
    harness.main()
