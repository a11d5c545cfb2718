"""hostile.py's clients of every kind through TLS, and kinds that attack TLS itself.

    python3 hostile_tls.py JSON

JSON and what it prints are those of hostile.py; the addresses are of listeners with TLS. Of each kind it also counts the complete
handshakes.
"""

import functools
import os
import socket
import struct

import flv
import hostile
import tls_layer

ADDRESS = "127.0.0.3"  # Of the kinds below: their handshakes count for an address that nobody else has.
HANDSHAKES = 200  # A second, in the beginning: more at a time than this program completes would only be refused.
OTHERS_ADDRESS = "127.0.0.4"  # Of the other kinds; healthy clients have 127.0.0.1.


class Peer(hostile.Peer):
    layer = tls_layer.Layer  # None: without TLS, or what it sends of TLS is its own.


class TlsHello(Peer):
    """Nothing behind the first message."""
    layer, source = None, ADDRESS

    def opening(self):
        return tls_layer.hello()


class TlsHelloByBytes(Peer):
    """The first message, a byte at a time; with every other one it takes longer than a handshake may."""
    layer, source, small = None, ADDRESS, True

    def opening(self):
        self.pause = 0.04 if self.number % 2 else 0.015
        return b""

    def tick(self):
        return tls_layer.hello()[self.times - 1:self.times]


class TlsHalfHandshake(Peer):
    layer, source = tls_layer.HalfHandshake, ADDRESS


class TlsRenegotiation(Peer):
    """TLS 1.2; asks for another handshake on and on. Every other one does not read the answers."""
    layer, source, pause = tls_layer.RecordsOfAnyType, ADDRESS, 0.5

    def __init__(self, attack, number):
        super().__init__(attack, number)
        self.reads = number % 2 == 0

    def tick(self):
        if self.socket.is_open:
            self.socket.handshakes(50)
        return b"GET /other/none.flv HTTP/1.1\r\n" if self.times == 1 else b"A: b\r\n"


class TlsKeyUpdates(Peer):
    """New keys on and on, each of which asks for one of the daemon's. Every other one sends data between them, as many as there may
    be, and does not read the answers."""
    layer, source, pause = tls_layer.KeyUpdates, ADDRESS, 0.5

    def __init__(self, attack, number):
        super().__init__(attack, number)
        self.reads = number % 2 == 0

    def opening(self):
        return self.publish_head("key-%d" % self.number) + self.first_media()

    def tick(self):
        if self.socket.is_open:
            if self.reads:
                self.socket.update(1000)
            else:
                self.socket.update(50, flv.audio_frame(500 * self.times, self.times, 20).pack())
        return b""


class TlsRecordsOfOneByte(Peer):
    """With a right; a publisher."""
    layer, source, pause = tls_layer.SmallRecords, ADDRESS, 0.5

    def opening(self):
        return self.publish_head("record-%d" % self.number) + self.first_media()

    def tick(self):
        return flv.video_frame(500 * self.times, False, self.times, 500).pack()


class TlsPlaintext(Peer):
    """None of TLS."""
    layer, source, again = None, ADDRESS, 0.5

    def __init__(self, attack, number):
        super().__init__(attack, number)
        self.protocol = ("http", "rtsp", "rtmp", "flv")[number % 4]

    def opening(self):
        return {"http": b"GET /load/1.flv HTTP/1.1\r\nHost: h\r\n\r\n", "rtsp": b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n",
                "rtmp": b"\3" + bytes(1536), "flv": self.first_media()}[self.protocol]


class TlsGarbage(Peer):
    """Behind the handshake: a record that is not encrypted, or none at all."""
    source, pause = ADDRESS, 0.5

    def tick(self):
        if self.socket.is_open:
            self.socket.inject(b"\x17\3\3\4\0" * (self.number % 2) + os.urandom(1024))
        return b""


class TlsCut(Peer):
    """With a right; a publisher that ends without close_notify, or by a reset."""
    source, pause, again = ADDRESS, 0.5, 0.5

    def opening(self):
        return self.publish_head("cut-%d" % self.number) + self.first_media()

    def tick(self):
        if self.times < 2:
            return b""
        if self.number % 2:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return None


KINDS = (TlsHello, TlsHelloByBytes, TlsHalfHandshake, TlsRenegotiation, TlsKeyUpdates, TlsRecordsOfOneByte, TlsPlaintext,
         TlsGarbage, TlsCut)


class Attack(hostile.Attack):
    every = hostile.KINDS + hostile.RTMP_KINDS + KINDS

    def __init__(self, options):
        super().__init__(options)
        for kind in self.told.values():
            kind["handshakes"] = 0

    @staticmethod
    def spread(peers):
        return max(2, peers / HANDSHAKES)

    def new_socket(self, peer):
        made = super().new_socket(peer)
        if not peer.source:
            made.bind((OTHERS_ADDRESS, 0))
        layer = getattr(peer, "layer", tls_layer.Layer)
        return layer(made, functools.partial(self._count_handshake, peer)) if layer else made

    def _count_handshake(self, peer):
        self.told[peer.name()]["handshakes"] += 1

    def events(self, peer):
        if isinstance(peer.socket, tls_layer.Layer):
            return hostile.ENDED | peer.socket.wants(len(peer.rest) > 0, peer.reads)
        return super().events(peer)

    def send(self, peer, data=None):
        if isinstance(peer.socket, tls_layer.Layer):
            peer.socket.inject()
        super().send(peer, data)


if __name__ == "__main__":
    hostile.main(Attack)
