#!/usr/bin/env python3
"""Pulls and forwards by HTTP with a login by Digest, at lighttpd: with MD5 and SHA-256, and with a wrong password."""

import contextlib
import os
import subprocess
import tempfile
import unittest

import flv
import harness
import rtmp_servers
from harness import Daemon, Player, Publisher
from test_forward import LISTEN, wait_state

LIGHTTPD = os.path.join(rtmp_servers.PEERS, "sbin", "lighttpd")
MODULES = os.path.join(rtmp_servers.PEERS, "lib", "lighttpd")
USER, PASSWORD = "us er", "geheim:%"
URL_LOGIN = "us%20er:geheim%3a%25"

# What is posted is kept, as it comes.
CGI = """#!/bin/sh
to=$DOCUMENT_ROOT/../posted
cat > "$to.part" && mv "$to.part" "$to"
printf 'Status: 200\\r\\n\\r\\n'
"""

CONFIGURATION = """
server.modules = ("mod_auth", "mod_authn_file", "mod_cgi")
server.document-root = "{folder}/root"
server.port = {port}
server.bind = "127.0.0.1"
server.errorlog = "{folder}/errors"
server.upload-dirs = ("{folder}")
mimetype.assign = (".flv" => "video/x-flv")
cgi.assign = (".sh" => "/bin/sh")
auth.backend = "plain"
auth.backend.plain.userfile = "{folder}/users"
auth.require = ("/" => ("method" => "{method}", "realm" => "a realm", "require" => "valid-user", "algorithm" => "{algorithm}"))
"""


@contextlib.contextmanager
def lighttpd(files, algorithm="MD5", method="digest"):
    """Its address, and its folder: files are served from root there."""
    with tempfile.TemporaryDirectory() as folder:
        port = rtmp_servers.free_port()
        os.mkdir(os.path.join(folder, "root"))
        texts = {"conf": CONFIGURATION.format(folder=folder, port=port, algorithm=algorithm, method=method),
                 "users": "%s:%s\n" % (USER, PASSWORD), "root/in.sh": CGI}
        for name, data in {**files, **{name: text.encode() for name, text in texts.items()}}.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        process = subprocess.Popen([LIGHTTPD, "-D", "-f", os.path.join(folder, "conf"), "-m", MODULES],
                                   stdin=subprocess.DEVNULL)
        try:
            harness.wait_until(lambda: rtmp_servers.is_listening(port), "lighttpd")
            yield "127.0.0.1:%d" % port, folder
        finally:
            process.kill()
            process.wait()


class DigestTest(unittest.TestCase):
    def setUp(self):
        if not os.access(LIGHTTPD, os.X_OK):
            self.skipTest("lighttpd is not there: tools/install-deps proxies")
        self.data, self.tags = flv.stream(100)

    def daemon(self, *options):
        daemon = Daemon("--wait", "60", "--log-level", "debug", *options, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    def test_pull(self):
        """Each algorithm, and Basic; the path has a query. The file is pulled more than once: an old
        challenge is used, or answered anew."""
        for algorithm, method in (("MD5", "digest"), ("SHA-256", "digest"), ("MD5|SHA-256", "digest"), ("MD5", "basic")):
            with self.subTest(algorithm=algorithm, method=method), \
                    lighttpd({"root/a.flv": self.data}, algorithm, method) as (place, _):
                daemon = self.daemon("--pull", "http://%s@%s/a.flv?x=1,2=live/a" % (URL_LOGIN, place))
                with Player(daemon, "live/a") as player:
                    player.wait_frame(self.tags[-1])
                    daemon.wait_log("pull", 2, stream="live/a", state="playing")
                self.assertEqual(daemon.log("pull", state="waiting", reason="GET answered 401"), [])
                self.assertNotIn(PASSWORD, str(daemon.log()))
                daemon.stop()

    def test_wrong_password(self):
        with lighttpd({"root/a.flv": self.data}) as (place, _):
            daemon = self.daemon("--pull", "http://us%%20er:other@%s/a.flv=live/a" % place,
                                 "--pull", "http://%s/a.flv=live/b" % place,
                                 "--forward", "live/x=http://us%%20er:other@%s/in.sh" % place)
            daemon.wait_log("pull", stream="live/a", state="waiting", reason="GET answered 401",
                            detail="wrong user or password")
            daemon.wait_log("pull", stream="live/b", state="waiting", reason="GET answered 401",
                            detail="the server needs credentials, and the pull has none for that host and port")
            with Publisher(daemon, "live/x", "http") as publisher:
                publisher.send(self.data)
                wait_state(daemon, "waiting", 2, reason="POST answered 401", detail="wrong user or password")

    def test_forward(self):
        """A chunked body behind a challenge: what arrives is the whole stream."""
        for algorithm, method in (("MD5", "digest"), ("SHA-256", "digest"), ("MD5", "basic")):
            with self.subTest(algorithm=algorithm, method=method), lighttpd({}, algorithm, method) as (place, folder):
                daemon = self.daemon("--forward", "live/*=http://%s@%s/in.sh?name=*" % (URL_LOGIN, place), "--wait", "0")
                with Publisher(daemon, "live/x", "http") as publisher:
                    publisher.send(flv.header() + b"".join(tag.pack() for tag in self.tags[:20]))
                    wait_state(daemon, "sending")
                    publisher.send(b"".join(tag.pack() for tag in self.tags[20:]))
                    publisher.finish()
                path = os.path.join(folder, "posted")
                harness.wait_until(lambda: os.path.exists(path), "the end of the body")
                with open(path, "rb") as file:
                    tags = flv.parse(file.read())
                harness.check_same([tag for tag in tags if tag.is_frame], [tag for tag in self.tags if tag.is_frame])
                self.assertEqual(daemon.log("forward", state="waiting"), [])
                self.assertNotIn(PASSWORD, str(daemon.log()))
                daemon.stop()


if __name__ == "__main__":
    harness.main()
