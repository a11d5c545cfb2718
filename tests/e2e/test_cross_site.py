"""What pages of other sites can have a browser do: send requests to any port of this host, and read what it is let read.

They may play, as players on such pages do, where no rule is against it. They may not publish without a token, and what they
send to the port of another protocol is nothing there, whatever is hidden in it.
"""

import base64
import os
import tempfile
import unittest

import flv
import harness
from harness import Daemon
from rtsp import SDP

PATH = "/live/a.flv"
MEDIA = flv.header() + b"".join(tag.pack() for tag in flv.first_tags())
FOREIGN = ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "http://127.0.0.1.evil.example", "")


def basic(name, password):
    return "Basic " + base64.b64encode(("%s:%s" % (name, password)).encode()).decode()


class PublishTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def private(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii", opener=lambda *where: os.open(*where, 0o600)) as file:
            file.write(text)
        return path

    def publish(self, daemon, origin=None, more="", authorization=None):
        headers = {"Content-Type": "text/plain"}
        if origin is not None:
            headers["Origin"] = origin
        if authorization:
            headers["Authorization"] = authorization
        return daemon.request("POST", PATH + more, MEDIA, headers)[0]

    def test_without_rules(self):
        with Daemon() as daemon:
            for origin in FOREIGN:
                self.assertEqual(self.publish(daemon, origin), 403, origin)
            self.assertEqual(daemon.log("publisher started"), [])
            self.assertEqual(self.publish(daemon), 200)
            self.assertEqual(self.publish(daemon, "http://127.0.0.1:%d" % daemon.address("http")[1]), 200)

    def test_remembered_passwords(self):
        users, keys = self.private("users", "u:p\n"), self.private("keys", "k:given-to-the-page\n")
        with Daemon("--rtsp-users", users, "--token-keys", keys, "--rule", "all * user,secret=k") as daemon:
            self.assertEqual(self.publish(daemon, authorization=basic("u", "p")), 200)
            for origin in FOREIGN:
                self.assertEqual(self.publish(daemon, origin, authorization=basic("u", "p")), 403, origin)
                self.assertEqual(self.publish(daemon, origin), 403, origin)
                self.assertEqual(self.publish(daemon, origin, "?token=given-to-the-page"), 200, origin)

    def test_players(self):
        """They are on pages of other sites; a rule closes the door."""
        with Daemon("--wait", "0") as daemon:
            status, headers, _ = daemon.request("GET", PATH, headers={"Origin": FOREIGN[0]})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (404, "*"))
        with Daemon("--rule", "publish * allow", "--rule", "play * deny") as daemon:
            self.assertEqual(daemon.request("GET", PATH, headers={"Origin": FOREIGN[0]})[0], 403)


class OtherProtocolTest(unittest.TestCase):
    """A browser's request, with a body of the page's choice, at ports where no HTTP is spoken."""

    def test_ports(self):
        announce = "ANNOUNCE rtsp://127.0.0.1/live/a RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n" \
                   "Content-Length: %d\r\n\r\n%s" % (len(SDP), SDP)
        with Daemon(listen=("--flv", "127.0.0.1:0=live/a", "--rtsp", "127.0.0.1:0")) as daemon:
            for protocol, hidden, first in (("rtsp", announce.encode(), b"RTSP/1.0 400 "), ("flv", MEDIA, b"")):
                with self.subTest(protocol), daemon.connect(protocol) as peer:
                    peer.sendall(b"POST /live/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
                                 b"Content-Length: %d\r\n\r\n%s" % (len(hidden), hidden))
                    answer = harness.read_to_end(peer)
                    self.assertEqual(answer[:len(first)], first)
                    self.assertNotIn(b" 200 ", answer)
            self.assertEqual(daemon.log("publisher started"), [])


if __name__ == "__main__":
    harness.main()
