"""What pages of other sites can have a browser do: send requests to any port of this host, and read what it is let read.

They may not publish, and what they send to the port of another protocol is nothing there, whatever is hidden in it. What they
may where --allow-origin names them is shown by test_cors.
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
FOREIGN = ("http://evil.example", "null", "http://127.0.0.1.evil.example", "http://evil.example:8080")


class PublishTest(unittest.TestCase):
    def publish(self, daemon, origin=None, headers=()):
        headers = {"Content-Type": "text/plain", **dict(headers)}
        if origin is not None:
            headers["Origin"] = origin
        return daemon.request("POST", PATH, MEDIA, headers)[0]

    def test_without_rules(self):
        with Daemon() as daemon:
            for origin in FOREIGN:
                self.assertEqual(self.publish(daemon, origin), 403, origin)
            self.assertEqual(daemon.log("publisher started"), [])
            self.assertEqual(self.publish(daemon), 200)
            self.assertEqual(self.publish(daemon, "http://127.0.0.1:%d" % daemon.address("http")[1]), 200)

    def test_rebinding(self):
        """The page's own name leads to this host: the browser takes it for its own site, and says so in both headers."""
        with Daemon("--allow-origin", "https://player.example") as daemon:
            for host, status in (("evil.example:%d", 403), ("player.example:%d", 403), ("localhost:%d", 200),
                                 ("127.0.0.1:%d", 200)):
                host = host % daemon.address("http")[1]
                self.assertEqual(self.publish(daemon, "http://" + host, {"Host": host}), status, host)
                if status == 403:
                    self.assertEqual(daemon.log("publisher started"), [])

    def test_remembered_passwords(self):
        """A browser adds them, whoever's page it is that asks."""
        with tempfile.TemporaryDirectory() as folder:
            users = os.path.join(folder, "users")
            with open(users, "w", encoding="ascii", opener=lambda *where: os.open(*where, 0o600)) as file:
                file.write("u:p\n")
            remembered = {"Authorization": "Basic " + base64.b64encode(b"u:p").decode()}
            with Daemon("--rtsp-users", users, "--rule", "all * user") as daemon:
                self.assertEqual(self.publish(daemon, headers=remembered), 200)
                for origin in FOREIGN:
                    self.assertEqual(self.publish(daemon, origin, remembered), 403, origin)


class OtherProtocolTest(unittest.TestCase):
    """A browser's request, with a body of the page's choice, at ports where no HTTP is spoken."""

    def test_ports(self):
        announce = "ANNOUNCE rtsp://127.0.0.1/live/a RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n" \
                   "Content-Length: %d\r\n\r\n%s" % (len(SDP), SDP)
        with Daemon(listen=("--flv", "127.0.0.1:0=live/a", "--rtsp", "127.0.0.1:0")) as daemon:
            for protocol, hidden, first in (("rtsp", announce.encode(), b"HTTP/1.1 501 "), ("flv", MEDIA, b"")):
                with self.subTest(protocol), daemon.connect(protocol) as peer:
                    peer.sendall(b"POST /live/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
                                 b"Content-Length: %d\r\n\r\n%s" % (len(hidden), hidden))
                    answer = harness.read_to_end(peer)
                    self.assertEqual(answer[:len(first)], first)
                    self.assertNotIn(b" 200 ", answer)
            self.assertEqual(daemon.log("publisher started"), [])


if __name__ == "__main__":
    harness.main()
