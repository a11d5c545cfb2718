"""TLS for the end-to-end tests: a daemon whose listeners have TLS, and clients by hand, by Python's ssl on buffers in memory, so
that records and segments can be cut, and a stream be ended in each way.
"""

import contextlib
import functools
import os
import re
import socket
import ssl
import struct
import subprocess
import tempfile
import threading

import certificates
import harness

LISTEN = ("--flv", "127.0.0.1:0,tls", "--http", "127.0.0.1:0,tls", "--rtsp", "127.0.0.1:0,tls", "--rtmp", "127.0.0.1:0,tls")
SCHEMES = {"http": "https", "rtmp": "rtmps", "rtsp": "rtsps", "flv": "tls", "ws": "wss"}


class Truncated(ConnectionResetError):
    """The daemon has ended the connection without close_notify."""


@functools.lru_cache(maxsize=None)
def _made(rsa):
    folder = tempfile.TemporaryDirectory()
    made = certificates.make(folder.name, "localhost", names="DNS:localhost,IP:127.0.0.1", rsa=rsa)
    made.folder = folder  # Which lives as long.
    return made


def certificate(rsa=0):
    """One for localhost and 127.0.0.1, for all tests of a file. rsa: bits of its key, in place of one on a curve."""
    return _made(rsa)


def context(version=None, verify=True, rsa=0):
    """Of a client that trusts that certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if verify:
        made.load_verify_locations(certificate(rsa).chain)
    else:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if version:
        made.minimum_version = made.maximum_version = version
    return made


class Peer:
    """A client's connection, with the calls of a socket that the tests use.

    One thread may read while another writes. record: bytes of plaintext in a record; segment: bytes that are given to the
    kernel at a time, each of which is a segment of its own.
    """

    def __init__(self, plain, of=None, name="localhost", session=None, record=16384, segment=0, hold=False):
        """hold: the handshake's last message is not sent by itself, but with what follows."""
        self.socket, self.record, self.segment = plain, record, segment
        self._in, self._out, self._lock = ssl.MemoryBIO(), ssl.MemoryBIO(), threading.Lock()
        self._sending = threading.Lock()
        self.tls = (of or context()).wrap_bio(self._in, self._out, server_hostname=name, session=session)
        if segment:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._shake_hands()
        if not hold:
            self.flush()

    def _shake_hands(self):
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.flush()
                data = self.socket.recv(65536)
                if not data:
                    raise Truncated("in the handshake") from None
                self._in.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getattr__(self, name):
        return getattr(self.socket, name)

    def flush(self):
        """What OpenSSL has to say goes out."""
        with self._sending:
            with self._lock:
                data = self._out.read()
            step = self.segment or len(data) or 1
            for at in range(0, len(data), step):
                self.socket.sendall(data[at:at + step])

    def encrypt(self, data):
        """Records, which are not sent."""
        with self._lock:
            for at in range(0, len(data), self.record):
                self.tls.write(data[at:at + self.record])
            return self._out.read()

    def sendall(self, data):
        for at in range(0, len(data), 1 << 18):
            with self._lock:
                for begin in range(at, min(at + (1 << 18), len(data)), self.record):
                    self.tls.write(data[begin:min(begin + self.record, at + (1 << 18))])
            self.flush()

    def recv(self, most):
        while True:
            with self._lock:
                try:
                    return self.tls.read(most)
                except ssl.SSLZeroReturnError:
                    return b""
                except ssl.SSLEOFError:
                    raise Truncated("without close_notify") from None
                except ssl.SSLWantReadError:
                    pass
            # A new key of ours that was asked for, or the handshake's last message.
            self.flush()
            data = self.socket.recv(65536)
            with self._lock:
                if data:
                    self._in.write(data)
                else:
                    self._in.write_eof()

    def notify(self):
        """close_notify; the other direction goes on."""
        with self._lock, contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        self.flush()

    def shutdown(self, how):
        """As of a plain socket: the end is a regular one."""
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self.notify()
        self.socket.shutdown(how)

    def reset(self):
        """It is gone, as with its machine."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        """As of a program that ends in an orderly way."""
        if self.socket.fileno() >= 0:
            with contextlib.suppress(OSError):
                self.socket.settimeout(1)
                self.notify()
        self.socket.close()


class Daemon(harness.Daemon):
    """With TLS at all listeners but the administration's; what connects to it, as the harness's players do, uses TLS."""

    def __init__(self, *options, listen=LISTEN, rsa=0, **more):
        self.client = {"of": context(rsa=rsa)} if rsa else {}  # Arguments for Peer.
        super().__init__("--tls-certificate", certificate(rsa).option, *options, listen=listen, **more)

    def url(self, name, at=0, protocol="http"):
        return "%s://%s:%d/%s%s" % (SCHEMES[protocol], *self.address("http" if protocol == "ws" else protocol, at), name,
                                    ".flv" if protocol in ("http", "ws") else "")

    def connect(self, protocol="http", at=0, receive_buffer=0, source=None, **client):
        plain = self.connect_plain(protocol, at, receive_buffer, source)
        return plain if protocol == "admin" else Peer(plain, **{**self.client, **client})

    def connect_plain(self, protocol="http", at=0, receive_buffer=0, source=None):
        return super().connect(protocol, at, receive_buffer, source)

    def refused(self, cause):
        """How many, as of /metrics: what the API says, unless it is counted between the two."""
        wanted = 'sluice_refused_total{cause="%s"} ' % cause
        before = self.api()["refused"][cause]
        text = self.admin("GET", "/metrics")[2].decode()
        found, = [int(line[len(wanted):]) for line in text.splitlines() if line.startswith(wanted)]
        assert before <= found <= self.api()["refused"][cause]
        return found

    def wait_refused(self, cause, count):
        harness.wait_until(lambda: self.refused(cause) >= count, lambda: "%d of %s, not %d" % (self.refused(cause), cause, count))
        if self.refused(cause) != count:
            raise AssertionError("%d of %s, not %d" % (self.refused(cause), cause, count))


class OpensslPlayer:
    """openssl s_client, which plays a stream of an HTTPS listener, and sets and requests new keys."""

    def __init__(self, test, daemon, name):
        """test: stops it at its end."""
        self.process = subprocess.Popen(["openssl", "s_client", "-tls1_3", "-connect", "%s:%d" % daemon.address()],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for stream in (self.process.stdout, self.process.stderr, self.process.stdin):
            test.addCleanup(stream.close)
        self.got = bytearray()
        self._write(b"GET /%s.flv HTTP/1.1\r\nHost: test\r\n\r\n" % name.encode())
        # The thread ends with the process.
        harness.in_thread(test, self._read)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def _write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def _read(self):
        while more := os.read(self.process.stdout.fileno(), 65536):
            self.got.extend(more)

    def set_key(self, requests):
        """A new key of its own; with requests it wants one of the daemon, too."""
        self._write(b"K\n" if requests else b"k\n")
        while self.process.stderr.readline() != b"KEYUPDATE\n":
            pass

    def wait_bytes(self, data, what):
        harness.wait_until(lambda: data in self.got, what)

    def wait_end(self):
        """Until the daemon has ended the connection: (status, what it complains of)."""
        _, error = self.process.stdin.close(), self.process.stderr.read()
        return self.process.wait(harness.PATIENCE), error.decode(errors="replace")


class OpensslServer:
    """openssl s_server, which keeps what clients send, and sets and requests new keys."""

    def __init__(self, test):
        """test: stops it at its end."""
        made = certificate()
        self.process = subprocess.Popen(["openssl", "s_server", "-tls1_3", "-accept", "127.0.0.1:0", "-cert", made.chain, "-key",
                                         made.key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for stream in (self.process.stdout, self.process.stderr, self.process.stdin):
            test.addCleanup(stream.close)
        self.output, self.complaints = bytearray(), bytearray()
        # The threads end with the process.
        for stream, kept in ((self.process.stdout, self.output), (self.process.stderr, self.complaints)):
            harness.in_thread(test, functools.partial(self._read, stream.fileno(), kept))
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        self.port = int(harness.wait_until(lambda: re.search(rb"^ACCEPT \S+:(\d+)$", self.output, re.MULTILINE), "s_server")[1])

    def _read(self, descriptor, kept):
        while more := os.read(descriptor, 65536):
            kept.extend(more)

    def received(self, count=0):
        """From the client's request number count on, from 0: what came by that connection and later ones. It says itself what it
        does in between, such as DONE."""
        parts = bytes(self.output).split(b"\nSecure Renegotiation IS supported\n")
        return b"".join(parts[count + 1:])

    def set_key(self, requests):
        """A new key of its own; with requests it wants one of the client, too."""
        before = self.output.count(b"SSL_do_handshake -> 1\n")
        self.process.stdin.write(b"K\n" if requests else b"k\n")
        self.process.stdin.flush()
        harness.wait_until(lambda: self.output.count(b"SSL_do_handshake -> 1\n") > before, "a new key of s_server")


def client_hello(of=None, session=None):
    """A client's first message, by OpenSSL."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = (of or context()).wrap_bio(incoming, outgoing, server_hostname="localhost", session=session)
    with contextlib.suppress(ssl.SSLWantReadError):
        made.do_handshake()
    return outgoing.read()


def environment():
    """For programs that trust what OpenSSL's variables name."""
    return dict(os.environ, SSL_CERT_FILE=certificate().chain)
