"""sluice-push and sluice-probe by TLS: the frames that arrive are the file's, and a server that is not the expected one gets nothing."""

import contextlib
import json
import socket
import tempfile
import unittest

import certificates
import flv
import harness
import test_load
import test_push
import tls
import tool
from test_probe import check_interrupted, frames_of

REAL = test_push.REAL
SCHEMES = {"flv": "flvs", "http": "https", "rtsp": "rtsps", "rtmp": "rtmps"}
MANY = 500  # Players at once.


def trusted():
    return "--tls-ca", tls.certificate().chain


def url_of(daemon, protocol, name="", host=None):
    own, port = daemon.address(protocol)
    return "%s://%s:%d/%s%s" % (SCHEMES[protocol], host or own, port, name, ".flv" if protocol == "http" else "")


def push(*arguments):
    """Status, and the last line's totals."""
    status, out, errors = tool.run("sluice-push", "--json", "--quiet", *arguments)
    if errors:
        raise AssertionError(errors)
    return status, json.loads(out.splitlines()[-1])


class PushTest(unittest.TestCase):
    def check_served(self, said, publishers, players):
        self.assertEqual((said["served"], said["failures"]), (True, []), said)
        self.assertEqual((said["publishers"]["served"], said["players"]["served"]), (publishers, players), said)
        self.assertEqual(said["payload_bytes_copied"], 0)
        for what in ("lost", "rtp_lost", "unmatched", "timestamps_back"):
            self.assertEqual(said["players"][what], 0, said)

    def test_publish(self):
        """Byte for byte, by each protocol: what a player without TLS gets."""
        with open(REAL, "rb") as file:
            tags = flv.parse(file.read())
        listen = ("--flv", "127.0.0.1:0,tls=live/flv", *tls.LISTEN[2:])
        with tls.Daemon("--wait", "30", "--workers", "2", listen=listen) as daemon:
            for protocol in SCHEMES:
                with self.subTest(protocol), harness.Player(daemon, "live/" + protocol) as player:
                    status, said = push(*trusted(), "--rate", 4, REAL, url_of(daemon, protocol, "live/" + protocol))
                    self.assertEqual(status, 0, said)
                    self.check_served(said, 1, 0)
                    test_push.check_frames(player, tags)
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_pairs(self):
        """Players look at every frame, whatever it came by and goes by, with TLS on either side, on both, or on none."""
        both = (*tls.LISTEN, *(word.replace(",tls", "") for word in tls.LISTEN))
        with tls.Daemon("--workers", "2", listen=both) as daemon:
            plain = {protocol: "%s://%s:%d/%%s" % (protocol, *daemon.address(protocol, 1)) for protocol in ("http", "rtsp", "rtmp")}
            for publish, play, by_tls in (("http", "http", (1, 1)), ("rtsp", "rtmp", (1, 1)), ("rtmp", "rtsp", (1, 1)),
                                          ("rtmp", "http", (0, 1)), ("http", "rtmp", (1, 0))):
                name = "%s%s%d%d/%%d" % (publish, play, *by_tls)
                urls = [url_of(daemon, protocol, name) if secure else
                        plain[protocol] % name + (".flv" if protocol == "http" else "")
                        for protocol, secure in zip((publish, play), by_tls)]
                with self.subTest(publish=urls[0], play=urls[1]):
                    status, said = test_push.push_until(
                        lambda: test_push.are_playing(daemon, 4, 80), "players", *trusted(), "-n", 2, "--players", 4, "--rate", 3,
                        "--loop", "--ramp", "0.2", "--play", urls[1], REAL, urls[0])
                    self.assertEqual(status, 0, said)
                    self.check_served(said, 2, 4)
            daemon.blocks_settled()
            self.assertEqual(daemon.complaints(), [])

    def test_many(self):
        """Five hundred players of one stream, by two protocols, and each gets all of it."""
        count = MANY // 10 if test_load.sanitized() else MANY
        with tls.Daemon("--workers", "2", "--tls-handshakes-per-address", "0") as daemon:
            for protocol in ("http", "rtmp"):
                with self.subTest(protocol):
                    status, said = test_push.push_until(
                        lambda: test_push.are_playing(daemon, count, 20), "players", *trusted(), "--players", count, "--loop",
                        "--ramp", 2, REAL, url_of(daemon, protocol, "many/" + protocol))
                    self.assertEqual(status, 0, said)
                    self.check_served(said, 1, count)
            daemon.blocks_settled()

    def test_logins(self):
        """A login by RTMP takes three connections, each with TLS of its own; by RTSP the URL in the digest is rtsps."""
        with tempfile.NamedTemporaryFile("w") as users:
            users.write("eve:secret\n")
            users.flush()
            with tls.Daemon("--rtsp-users", users.name, "--rule", "publish * user", "--rule", "play * allow") as daemon:
                for protocol in ("rtsp", "rtmp"):
                    with self.subTest(protocol):
                        url = url_of(daemon, protocol, "live/a").replace("://", "://eve:%s@")
                        status, said = push(*trusted(), "--rate", 4, REAL, url % "secret")
                        self.assertEqual(status, 0, said)
                        status, said = push(*trusted(), "--retries", 0, REAL, url % "wrong")
                        self.assertEqual(status, 1, said)
                        self.assertRegex(said["failures"][0], "password( is|$)")
                daemon.blocks_settled()

    def test_server_goes(self):
        """Without close_notify it is no regular end. Each by itself, since players have nothing to wait for without a publisher."""
        with tls.Daemon() as daemon:
            more, url = ("--json", "--retries", 0, *trusted()), url_of(daemon, "rtmp", "live/a")
            with tool.Running("sluice-push", "--loop", *more, REAL, url) as publisher:
                daemon.wait_stream("live/a")
                with tool.Running("sluice-push", "-n", 0, "--players", 1, *more, url) as player:
                    daemon.wait_stream("live/a", lambda stream: stream["subscribers"] == 1, "a player")
                    daemon.kill()
                    for running, what in ((publisher, "publishers"), (player, "players")):
                        status, out, _ = running.wait()
                        self.assertEqual((status, tool.lines(out)[-1][what]["failed"]), (1, 1), out)


class ProbeTest(unittest.TestCase):
    def test_frames(self):
        """The same frames by each protocol, with and without TLS."""
        with open(REAL, "rb") as file:
            tags = flv.parse(file.read())
        both = (*tls.LISTEN, *(word.replace(",tls", "") for word in tls.LISTEN))
        with tls.Daemon("--workers", "2", "--wait", "0", listen=both) as daemon, \
                harness.Publisher(daemon, "live/a", "http") as publisher:
            head = tags[:12]
            publisher.send(flv.header() + b"".join(tag.pack() for tag in head))
            runs = []
            for protocol in ("http", "rtsp", "rtmp"):
                plain = "%s://%s:%d/live/a%s" % (protocol, *daemon.address(protocol, 1), ".flv" if protocol == "http" else "")
                for url in (plain, url_of(daemon, protocol, "live/a")):
                    running = tool.Running("sluice-probe", "--json", "--frames", *trusted(), url)
                    self.addCleanup(running.__exit__)
                    runs.append(running)
            harness.wait_until(lambda: len([player for player in daemon.api()["players"] if player["state"] == "playing"]) == 6,
                               "six players")
            for tag in tags[len(head):]:
                publisher.send(tag)
            publisher.finish()
            seen = []
            for running in runs:
                status, out, errors = running.wait()
                self.assertEqual((status, errors), (0, ""), out[-1000:])
                seen.append((frames_of(out), tool.lines(out)[-1]))
            for (plain, plain_end), (secure, secure_end) in zip(seen[::2], seen[1::2]):
                self.assertGreater(len(plain["video"]), 5)
                for kind in plain:
                    # RTP's times begin at random, and a millisecond is not a whole number of them.
                    for one, other in zip(secure[kind], plain[kind]):
                        self.assertEqual((one[1] - one[0], *one[2:]), (other[1] - other[0], *other[2:]))
                        self.assertAlmostEqual(one[0], other[0], delta=1 if plain_end["container"] == "RTSP" else 0)
                    self.assertEqual(len(secure[kind]), len(plain[kind]))
                self.assertEqual((secure_end["container"], secure_end["ended"]), (plain_end["container"], plain_end["ended"]))
            daemon.blocks_settled()

    def test_interrupt(self):
        """It leaves in an orderly way: the daemon has nothing to complain of."""
        with tls.Daemon() as daemon, harness.Steady(daemon) as steady:
            for protocol in ("http", "rtsp", "rtmp"):
                check_interrupted(self, *trusted(), url_of(daemon, protocol, steady.name))
            self.assertEqual(daemon.complaints(), [])


class TrustTest(unittest.TestCase):
    """Both tools, and what they say of a server that they do not trust. It hears nothing of the request."""

    def probe(self, url, *arguments):
        status, _, errors = tool.run("sluice-probe", "--json", "--count", 10, *arguments, url)
        return status, errors

    def check_rejected(self, url, words, *arguments):
        status, errors = self.probe(url, *arguments)
        self.assertEqual(status, 3, errors)
        self.assertIn(words, errors)
        status, said = push(*arguments, "-n", 0, "--players", 1, "--retries", 0, url)
        self.assertEqual(status, 1, said)
        self.assertIn(words, said["failures"][0])

    def test_servers(self):
        with tls.Daemon() as daemon, harness.Steady(daemon) as steady:
            for protocol in ("http", "rtsp", "rtmp"):
                url, own = url_of(daemon, protocol, steady.name), tls.certificate()
                with self.subTest(protocol):
                    # The certificate has the host's address and its name.
                    self.assertEqual(self.probe(url, *trusted()), (0, ""))
                    self.assertEqual(self.probe(url_of(daemon, protocol, steady.name, "localhost"), *trusted()), (0, ""))
                    # The system does not know it.
                    self.check_rejected(url, "TLS: self-signed certificate")
                    # Pins, of which one is enough, whatever the name.
                    other = "00" * 32
                    for pins in ([own.sha256], [other, own.sha256.upper()], [":".join(own.sha256[at:at + 2] for at in range(0, 64, 2))]):
                        pins = [word for pin in pins for word in ("--tls-pin", pin)]
                        self.assertEqual(self.probe(url, *pins), (0, ""))
                    self.check_rejected(url, "TLS: ", "--tls-pin", other)
                    self.check_rejected(url, "TLS: ", "--tls-pin", other, *trusted())
            self.assertEqual([player for player in daemon.api()["players"] if not player["frames_sent"]], [])

    def test_name(self):
        """A host that is not in the certificate."""
        with tls.Daemon(listen=(*tls.LISTEN[:2], "--http", harness.own_host() + ":0,tls")) as daemon, harness.Steady(daemon) as steady:
            url = url_of(daemon, "http", steady.name)
            self.check_rejected(url, "TLS: IP address mismatch", *trusted())
            # By its hash it is the expected one all the same.
            self.assertEqual(self.probe(url, "--tls-pin", tls.certificate().sha256), (0, ""))

    def test_untrusted_publisher(self):
        """It gives up after its retries, also where it need not wait for an answer to begin."""
        with tls.Daemon() as daemon, contextlib.ExitStack() as stack:
            runs = [stack.enter_context(tool.Running("sluice-push", "--json", "--quiet", "--retries", 1, REAL,
                                                     url_of(daemon, protocol, "live/a"))) for protocol in SCHEMES]
            for protocol, running in zip(SCHEMES, runs):
                with self.subTest(protocol):
                    status, out, _ = running.wait()
                    said = tool.lines(out)[-1]
                    self.assertEqual((status, said["publishers"]["failed"], said["publishers"]["failures"]), (1, 1, 2), said)
                    self.assertIn("TLS: self-signed certificate", said["failures"][0])
            self.assertEqual(daemon.api()["streams"], [])

    def test_expired(self):
        with tempfile.TemporaryDirectory() as folder:
            made = certificates.make_expired(folder, "localhost")
            with harness.Daemon("--tls-certificate", made.option, listen=("--http", "127.0.0.1:0,tls")) as daemon:
                self.check_rejected("https://localhost:%d/live/a.flv" % daemon.address()[1], "TLS: certificate has expired", "--tls-ca",
                                    made.chain)

    def test_not_tls(self):
        """A server without TLS, one that says nothing, and TLS that is not expected."""
        with harness.Daemon(listen=("--http", "127.0.0.1:0")) as daemon:
            self.check_rejected("https://%s:%d/live/a.flv" % daemon.address(), "TLS: ", *trusted())
        with tls.Daemon() as daemon:
            status, errors = self.probe("http://%s:%d/live/a.flv" % daemon.address())
            self.assertEqual(status, 3, errors)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            status, errors = self.probe("https://127.0.0.1:%d/live/a.flv" % silent.getsockname()[1], *trusted(), "--timeout", 1)
            self.assertEqual(status, 3)
            self.assertIn("nothing has come", errors)

    def test_usage(self):
        """Files are read, and hashes looked at, before anything is connected."""
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write("no certificate")
            file.flush()
            for name, words in (("sluice-probe", ["https://127.0.0.1:1/a.flv"]),
                                ("sluice-push", ["-n", 0, "--players", 1, "rtmps://127.0.0.1:1/live/a"])):
                with self.subTest(name):
                    status, _, errors = tool.run(name, "--tls-ca", file.name, *words)
                    self.assertEqual((status, errors), (3, "%s: %s: no certificate in PEM\n" % (name, file.name)))
                    status, _, errors = tool.run(name, "--tls-ca", "/nonexistent.pem", *words)
                    self.assertEqual((status, errors), (3, "%s: /nonexistent.pem: No such file or directory\n" % name))
                    status, _, errors = tool.run(name, "--tls-pin", "ab" * 31, *words)
                    self.assertEqual(status, 2)
                    self.assertIn("--tls-pin wants 64 hexadecimal digits", errors)


if __name__ == "__main__":
    tool.main("sluice-push", "sluice-probe")
