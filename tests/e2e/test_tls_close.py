"""What a client reads that goes on sending behind a fatal error of TLS: the alert, or the answer in plaintext, and a regular end.

Within the bounds of a lingering close (server/linger.h, shared/tls_link.h) each of its sends succeeds; behind them it is reset.
And what is published of a client that resets the connection behind all that it has sent, or closes it before that is delivered.
"""

import contextlib
import fcntl
import socket
import ssl
import struct
import termios
import unittest

import flv
import harness
import rtmp
import tls

MOST = 256 * 1024
PIECE = 4096
ALERT = b"\x15"
UNEXPECTED = bytes((21, 3, 1, 0, 2, 2, 10))
GET = b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n"
PLAIN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")


def old_hello():
    """Of a client that knows TLS 1.1 alone."""
    body = b"\3\2" + bytes(32) + b"\0" + b"\0\2\xc0\x13" + b"\1\0"
    return b"\x16\3\1" + struct.pack(">HI", len(body) + 4, 1 << 24 | len(body)) + body


def unsent(peer):
    """Bytes that the other side has not acknowledged."""
    return struct.unpack("i", fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4)))[0]


class CloseTest(unittest.TestCase):
    def start(self, *options, **more):
        daemon = tls.Daemon("--workers", "2", "--log-rate", "0", *options, **more)
        self.addCleanup(daemon.stop)
        self.stack = self.enterContext(contextlib.ExitStack())
        return daemon

    def plain(self, daemon, protocol="http"):
        peer = self.stack.enter_context(daemon.connect_plain(protocol))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer

    def send_on(self, peer, most):
        """So many bytes, in pieces: what each of them meets is what the one before has led to."""
        for _ in range(most // PIECE):
            peer.sendall(bytes(PIECE))

    def check_read(self, daemon, peer, begin, cause, count):
        """It has failed by what it has sent; it sends on, and only then reads all."""
        answer = peer.recv(1)
        self.send_on(peer, MOST // 2)
        while more := peer.recv(65536):  # Without a reset.
            answer += more
        daemon.wait_refused(cause, count)
        self.assertTrue(answer.startswith(begin), answer[:100])
        return answer

    def wait_gone(self, daemon):
        harness.wait_until(lambda: sum(worker["connections"] for worker in daemon.api()["workers"]) == 0,
                           lambda: "no connections: %s" % daemon.api()["workers"])

    def test_handshake(self):
        daemon = self.start()
        peer = self.plain(daemon)
        peer.sendall(old_hello())
        self.assertEqual(self.check_read(daemon, peer, ALERT, "tls_handshake_failed", 1)[-2:], b"\2\x46")  # protocol_version
        peer.close()
        self.wait_gone(daemon)

    def test_plaintext(self):
        """On ports with TLS, and TLS on ports without."""
        daemon = self.start()
        for count, (protocol, request, begin) in enumerate((
                ("http", GET, b"HTTP/1.1 400 "), ("rtsp", b"OPTIONS rtsp://h/a RTSP/1.0\r\nCSeq: 1\r\n\r\n", b"RTSP/1.0 400 ")), 1):
            peer = self.plain(daemon, protocol)
            peer.sendall(request)
            self.check_read(daemon, peer, begin, "tls_plaintext", count)
            peer.close()
        self.wait_gone(daemon)
        daemon = self.start(listen=PLAIN)
        for count, (protocol, begin) in enumerate((("http", b"HTTP/1.1 400 "), ("rtsp", b"RTSP/1.0 400 "), ("rtmp", UNEXPECTED),
                                                   ("flv", UNEXPECTED)), 1):
            peer = self.plain(daemon, protocol)
            peer.sendall(tls.client_hello())
            self.check_read(daemon, peer, begin, "tls_hello", count)
            peer.close()
        self.wait_gone(daemon)

    def test_forged(self):
        """Behind the handshake: a publisher's record was changed. Its name is free at once."""
        daemon = self.start("--wait", "60")
        data, _ = flv.stream(30)
        peers = []
        for count in (1, 2):
            publisher = self.stack.enter_context(harness.Publisher(daemon, "live/a", "http"))
            publisher.send(data)
            daemon.wait_log("publisher started", count)
            record = bytearray(publisher.peer.encrypt(b"5\r\n12345\r\n"))
            record[-1] ^= 1
            publisher.peer.socket.sendall(record)
            daemon.wait_log("publisher ended", count)
            peers.append(publisher.peer)
        for peer in peers:
            self.send_on(peer.socket, MOST // 2)
            with self.assertRaisesRegex(ssl.SSLError, "(?i)bad record mac"):
                while peer.recv(65536):
                    pass
            peer.socket.close()
        self.wait_gone(daemon)

    def test_administration(self):
        daemon = self.start("--admin", "127.0.0.1:0", "--admin", "127.0.0.1:0,tls")
        address = daemon.log("listening", proto="admin")[1].fields["address"].rpartition(":")
        for cause, begin, request in (("tls_handshake_failed", ALERT, old_hello()), ("tls_plaintext", b"HTTP/1.1 400 ", GET)):
            peer = self.stack.enter_context(socket.create_connection((address[0], int(address[2])), harness.PATIENCE))
            peer.sendall(request)
            self.check_read(daemon, peer, begin, cause, 1)
            self.check_bounds(peer)
            # Its end is no other failure, by its time either.
            self.assertEqual(daemon.refused(cause), 1)
        self.assertEqual(len(daemon.log("request refused")), 2)

    def check_bounds(self, peer):
        """One that never stops is closed."""
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            while True:
                self.send_on(peer, MOST)

    def test_bounds(self):
        """Of bytes; and of time, for one that keeps the connection and is silent."""
        daemon = self.start()
        endless, silent = self.plain(daemon), self.plain(daemon)
        for count, peer in enumerate((endless, silent), 1):
            peer.sendall(old_hello())
            self.assertEqual(peer.recv(1), ALERT)
            daemon.wait_refused("tls_handshake_failed", count)
        self.check_bounds(endless)
        self.wait_gone(daemon)  # Of the two ends, the client's is still open.

    def test_slot(self):
        """While it lingers, its handshake counts for its address; that is over with its end."""
        daemon = self.start("--tls-handshakes-per-address", "1")

        def is_counted():
            """Unless the first is gone before the second comes."""
            with self.plain(daemon) as peer, self.plain(daemon) as other:
                peer.sendall(old_hello())
                self.assertEqual(peer.recv(1), ALERT)
                other.sendall(tls.client_hello())
                try:
                    return not other.recv(1)
                except ConnectionResetError:  # Of what was not read.
                    return True
        harness.wait_until(is_counted, "a handshake that is refused")
        self.assertGreaterEqual(daemon.refused("tls_handshakes"), 1)
        self.wait_gone(daemon)
        with daemon.connect() as again:
            again.sendall(GET)
            self.assertEqual(harness.read_head(again)[0], 404)

    def test_end(self):
        """A server that ends does not wait for it."""
        daemon = self.start()
        peer = self.plain(daemon)
        peer.sendall(old_hello())
        self.assertEqual(peer.recv(1), ALERT)
        daemon.stop()
        self.assertEqual(daemon.process.returncode, 0)


class ResetTest(unittest.TestCase):
    """Clients that send all they have and reset the connection: what has arrived is published, as of plain connections."""

    FRAMES = 20  # Less than the smallest buffer of a socket takes of a sender, which the daemon does not read from meanwhile.
    PROTOCOLS = ("flv", "http", "rtmp")

    def start(self, stack, secure, *options):
        """Of each stream, there is a player."""
        listen = [text if secure else text.replace(",tls", "") for text in tls.LISTEN]
        listen[1] += "=live/flv"
        made = (tls.Daemon if secure else harness.Daemon)("--wait", "60", "--log-rate", "0", *options, listen=listen)
        daemon = stack.enter_context(made)
        self.players = {}
        for protocol in self.PROTOCOLS:
            self.players[protocol] = stack.enter_context(harness.Player(daemon, "live/" + protocol))
            daemon.wait_player("live/" + protocol)
        self.players_alone = daemon.connections()
        return daemon

    def encrypted(self, daemon, plain, data):
        """With TLS 1.3, the client's last message of the handshake is in front."""
        return tls.Peer(plain, hold=True, **daemon.client).encrypt(data) if isinstance(daemon, tls.Daemon) else data

    def publish_at_once(self, daemon, protocol, data, send=None):
        """By a client that waits for nothing of the daemon but its part of the handshake."""
        # The publisher before may still be counted.
        harness.wait_until(lambda: daemon.connections() == self.players_alone, "the end of the one before")
        plain = daemon.connect_plain(protocol) if isinstance(daemon, tls.Daemon) else daemon.connect(protocol)
        # One that is reset before it is accepted has no address any more.
        harness.wait_until(lambda: daemon.connections() > self.players_alone, "the connection")
        head = b"PUT /live/http.flv HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(data) if protocol == "http" else b""
        (send or self.send_and_reset)(daemon, plain, self.encrypted(daemon, plain, head + data))

    def publish_later(self, daemon, tags):
        """By RTMP, where a client waits for answers before it sends media."""
        client = rtmp.Client(daemon)
        client.begin("publish", "rtmp")
        data = b"".join(part for tag in tags for part in rtmp.chunked(
            tag.type, tag.payload, 128, 1, tag.timestamp, 4 if tag.type == rtmp.AUDIO else 6))
        secure = isinstance(client.peer, tls.Peer)
        self.send_and_reset(daemon, client.peer.socket if secure else client.peer, client.peer.encrypt(data) if secure else data)

    def send_and_reset(self, daemon, plain, data):
        """The daemon finds all of it, and the reset behind it, at once."""
        with daemon.standing_still():
            plain.sendall(data)
            # A reset drops what is still to be sent.
            harness.wait_until(lambda: unsent(plain) == 0, "delivery")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            plain.close()

    def send_and_close(self, daemon, plain, data):
        """More than the daemon's socket takes meanwhile."""
        with daemon.standing_still():
            plain.sendall(data)
            self.assertGreater(unsent(plain), 0)
            plain.close()

    def check(self, daemon, protocol, tags, reason=None):
        """A request is complete with its length; the others have ended without an end."""
        ended = daemon.wait_log("publisher ended", stream="live/" + protocol)
        self.assertEqual(ended.fields["reason"], reason or ("end of stream" if protocol == "http" else "connection lost"))
        player = self.players[protocol]
        player.wait_tags(len(tags))
        harness.check_same(player.tags, tags, "tags")

    def check_all(self, secure, version=None):
        """Also where the connection goes to another worker, which has the stream, when it has failed already."""
        data, tags = flv.stream(self.FRAMES)
        for workers in "1", "3":
            with contextlib.ExitStack() as stack:
                daemon = self.start(stack, secure, "--workers", workers)
                if secure:
                    daemon.client = {"of": tls.context(version)}
                for protocol in self.PROTOCOLS:
                    with self.subTest(protocol, workers=workers):
                        if protocol == "rtmp":
                            self.publish_later(daemon, tags)
                        else:
                            self.publish_at_once(daemon, protocol, data)
                        self.check(daemon, protocol, tags)

    def test_plain(self):
        self.check_all(False)

    def test_with_the_handshake(self):
        """Its last message comes with all of the stream."""
        self.check_all(True, ssl.TLSVersion.TLSv1_3)

    def test_behind_the_handshake(self):
        self.check_all(True, ssl.TLSVersion.TLSv1_2)

    def test_closed_before_delivery(self):
        """The client's kernel goes on sending behind close(), until something comes of the daemon: that would be answered with a
        reset, and the rest be dropped. So nothing may come, no ticket either, until the daemon answers."""
        data, tags = flv.stream(self.FRAMES, size=100000)
        for secure, version in ((False, None), (True, ssl.TLSVersion.TLSv1_2), (True, ssl.TLSVersion.TLSv1_3)):
            with contextlib.ExitStack() as stack:
                daemon = self.start(stack, secure)
                if secure:
                    daemon.client = {"of": tls.context(version)}
                for protocol in ("flv", "http"):
                    with self.subTest(protocol, version=version):
                        self.publish_at_once(daemon, protocol, data, self.send_and_close)
                        self.check(daemon, protocol, tags, "connection lost" if secure and protocol == "flv" else "end of stream")

    def test_truncated(self):
        """What is whole of a stream that is cut within a frame is published, and the rest is no frame."""
        data, tags = flv.stream(self.FRAMES)
        with contextlib.ExitStack() as stack:
            daemon = self.start(stack, True)
            plain = daemon.connect_plain("flv")
            self.send_and_reset(daemon, plain, self.encrypted(daemon, plain, data[:-20]))
            self.check(daemon, "flv", tags[:-1])


if __name__ == "__main__":
    harness.main()
