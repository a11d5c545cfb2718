"""Hostile clients of every kind, in one process: each connection is opened again a moment after the daemon has ended it.

    python3 hostile.py JSON

JSON: {"http": [HOST, PORT], "rtsp": ..., "flv": ..., "connections": of each kind, "seconds": at most, "key": the secret of
streams hostile/*, "streams": how many load/N anybody may play, "part": bytes of an unfinished frame; "kinds": names of those
that take part, all of KINDS by default; "recording": path of a recording}. It prints "up" when each connection has been opened
once, and at SIGTERM or after `seconds` a JSON object: what became of each kind.
"""

import collections
import errno
import heapq
import json
import random
import resource
import select
import signal
import socket
import struct
import sys
import time

import flv

PIECE = 16
FRAME = 8 * 1048576 - 1024  # What an unfinished frame says that it will be; below the default --frame-limit.
AAC_FRAMES = 64  # In a packet: what an encoder may send; the daemon's own players get no more.
STALLED_ADDRESS = "127.0.0.2"  # Of players that never read, so that the API shows which they are.
AAC_SDP = "\r\n".join([
    "v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=-", "c=IN IP4 127.0.0.1", "t=0 0", "m=audio 0 RTP/AVP 97",
    "a=rtpmap:97 MPEG4-GENERIC/44100/1",
    "a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1208", "a=control:streamid=0", ""])


def aac_packet(frames, sequence):
    """An interleaved RTP packet with so many frames of a byte each."""
    payload = struct.pack(">H", frames * 16 & 0xFFFF) + struct.pack(">H", 1 << 3) * frames + bytes(frames)
    packet = struct.pack(">BBHII", 0x80, 0x80 | 97, sequence & 0xFFFF, sequence * 65536 & 0xFFFFFFFF, 1) + payload
    return struct.pack(">BBH", 0x24, 0, len(packet)) + packet


class Peer:
    """One connection after the other. What a kind does is in the classes below."""

    protocol = "http"
    pause = 1.0  # Seconds between two ticks.
    again = 1.0  # Seconds until it is opened again, on an average.
    reads = True
    small = False  # Sends each piece at once.
    source = None  # Address that it comes from.

    def __init__(self, attack, number):
        self.attack, self.number = attack, number
        self.socket = None
        self.rest = b""  # Of what it sends.
        self.times = 0  # Ticks of this connection.

    @classmethod
    def name(cls):
        return cls.__name__

    def opening(self):
        return b""

    def tick(self):
        """More to send; None: ends the connection itself."""
        return b""

    def received(self, data):
        """What is to be sent for that."""
        return b""

    def publish_head(self, name):
        return b"POST /hostile/%s.flv?token=%s HTTP/1.1\r\nHost: h\r\nContent-Type: video/x-flv\r\n\r\n" % (
            name.encode(), self.attack.key)

    @staticmethod
    def first_media():
        return flv.header() + b"".join(tag.pack() for tag in flv.first_tags()) + flv.video_frame(0, True, 0, 1000).pack()


class RtspBodies(Peer):
    """No right to publish; a body that does not end."""
    protocol = "rtsp"

    def opening(self):
        return (b"ANNOUNCE rtsp://h/other/a RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n"
                b"Content-Length: 65000\r\n\r\n" + b"a" * 60000)

    def tick(self):
        return b"a"


class RtspHeads(Peer):
    protocol = "rtsp"

    def opening(self):
        return b"OPTIONS * RTSP/1.0\r\n" + b"A: %s\r\n" % (b"a" * 1000) * 15

    def tick(self):
        return b"a"


class HttpHeads(Peer):
    def opening(self):
        return b"GET /load/1.flv HTTP/1.1\r\nHost: h\r\n" + b"A: %s\r\n" % (b"a" * 1000) * 6

    def tick(self):
        return b"a"


class HttpPuts(Peer):
    """No right to publish; a long body."""

    def opening(self):
        return b"PUT /other/a.flv HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n" + bytes(65536)

    def tick(self):
        return bytes(4096)


class WebSocketMessages(Peer):
    """With a right to play what SameName publishes; a message that does not end."""

    def opening(self):
        return (b"GET /hostile/one.flv?token=%s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % self.attack.key +
                b"\x82\xfe\x10\x00\0\0\0\0" + bytes(3500))

    def tick(self):
        return b"\0"


class UnfinishedFrames(Peer):
    """With a right; a large frame that does not end."""
    again = 5.0

    def opening(self):
        frame = struct.pack(">II", flv.VIDEO << 24 | FRAME, 40 << 8) + b"\0\0\0" + b"\x27\x01\0\0\0"
        return self.publish_head("frame-%d" % self.number) + self.first_media() + frame + self.attack.part

    def tick(self):
        return b"\0"


class TricklingFrames(UnfinishedFrames):
    """The same, a byte every five seconds."""
    pause = 5.0


class RtspOptions(Peer):
    """Asks on and on."""
    protocol = "rtsp"
    pause = 2.0

    def opening(self):
        return self.tick()

    def tick(self):
        return b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"


class HttpKeepAlive(Peer):
    pause = 2.0

    def opening(self):
        return self.tick()

    def tick(self):
        return b"OPTIONS /other/none.flv HTTP/1.1\r\nHost: h\r\n\r\n"


class Stalled(Peer):
    """Plays and never reads. A full window hides that the daemon has ended it, so it comes again after a while."""
    reads, small, pause = False, True, 45.0
    source = STALLED_ADDRESS

    def opening(self):
        return b"GET /load/%d.flv HTTP/1.1\r\nHost: h\r\n\r\n" % (self.number % self.attack.streams + 1)

    def tick(self):
        return None


class Downloads(Stalled):
    """Ask for a recording and never read it."""

    def opening(self):
        return b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % self.attack.recording


class Pieces(Peer):
    """Each piece of what it sends comes by itself."""
    pause, small = 0.1, True

    def opening(self):
        self.left = self.whole()
        return self.tick()

    def whole(self):
        raise NotImplementedError

    def tick(self):
        piece, self.left = self.left[:PIECE], self.left[PIECE:]
        return piece or None


class PiecesOfFrames(Pieces):
    """With a right."""

    def opening(self):
        self.left = self.whole()
        return self.publish_head("piece-%d" % self.number)

    def whole(self):
        frames = [flv.video_frame(40 * i, False, i, 5000) for i in range(1, 100)]
        return self.first_media() + b"".join(tag.pack() for tag in frames)


class PiecesOfHeads(Pieces):
    def whole(self):
        return b"GET /load/1.flv HTTP/1.1\r\nHost: h\r\n" + (b"A: " + b"a" * 59 + b"\r\n") * 100


class Rejected(Peer):
    """Asks with a wrong token, again and again: each time a line of the log, if there is room for it."""
    pause = 0.25

    def __init__(self, attack, number):
        super().__init__(attack, number)
        if number % 2:
            self.protocol = "rtsp"

    def opening(self):
        return self.tick()

    def tick(self):
        if self.protocol == "rtsp":
            return b"DESCRIBE rtsp://h/hostile/a?token=wrong RTSP/1.0\r\nCSeq: 1\r\n\r\n"
        return b"GET /hostile/a.flv?token=wrong HTTP/1.1\r\nHost: h\r\n\r\n"


class SameName(Peer):
    """All of them publish one stream."""

    def opening(self):
        return self.publish_head("one") + self.first_media()

    def tick(self):
        return flv.audio_frame(40 * self.times, self.times, 100).pack()


class ManyAacFrames(Peer):
    """With a right; packets of as many frames as there may be, and now and then of a thousand times as many."""
    protocol = "rtsp"
    pause = 0.5

    def opening(self):
        url = "rtsp://h/hostile/aac-%d?token=%s" % (self.number, self.attack.key.decode())
        head = "%s %s RTSP/1.0\r\nCSeq: %d\r\n%s\r\n"
        self.steps = [
            head % ("SETUP", url.replace("?", "/streamid=0?"), 2,
                    "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n"),
            head % ("RECORD", url, 3, "%s")]
        self.session, self.sequence = "", 0
        return ("ANNOUNCE %s RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s" % (
            url, len(AAC_SDP), AAC_SDP)).encode()

    def received(self, data):
        for line in data.split(b"\r\n"):
            if line.lower().startswith(b"session:"):
                self.session = line.split(b":")[1].split(b";")[0].strip().decode()
        if not data.startswith(b"RTSP/1.0 200") or not self.steps:
            return b""
        step = self.steps.pop(0)
        return (step.replace("%s", "Session: %s\r\n" % self.session) if "%s" in step else step).encode()

    def tick(self):
        if self.steps:
            return b""
        self.sequence += 1
        return aac_packet(20000 if self.times % 20 == 0 else AAC_FRAMES, self.sequence)


class SmallTags(Peer):
    """With a right; as little in a tag as there may be."""
    pause = 0.5
    tag = flv.Tag(flv.AUDIO, 0, b"\xaf\x01\0").pack()

    def opening(self):
        return self.publish_head("small-%d" % self.number) + self.first_media() + self.tag * 3000

    def tick(self):
        return flv.Tag(flv.AUDIO, 500 * self.times, b"\xaf\x01\0").pack() * 100


class Idle(Peer):
    def __init__(self, attack, number):
        super().__init__(attack, number)
        self.protocol = ("flv", "http", "rtsp")[number % 3]


KINDS = (RtspBodies, RtspHeads, HttpHeads, HttpPuts, WebSocketMessages, UnfinishedFrames, RtspOptions, HttpKeepAlive, Stalled,
         PiecesOfFrames, PiecesOfHeads, Rejected, SameName, ManyAacFrames, SmallTags, Idle)
OTHERS = (TricklingFrames, Downloads)  # Those that have tests of their own.


class Attack:
    """All of them, and what has become of them."""

    def __init__(self, options):
        self.addresses = {name: tuple(options[name]) for name in ("http", "rtsp", "flv")}
        self.key, self.streams = options["key"].encode(), options["streams"]
        self.part = bytes(min(options["part"], FRAME - 1024))
        self.recording = options.get("recording", "").encode()
        kinds = [kind for kind in KINDS + OTHERS if kind.name() in options["kinds"]] if "kinds" in options else KINDS
        self._until = time.monotonic() + options["seconds"]
        self._random = random.Random(1)
        self._epoll = select.epoll()
        self._timers, self._number, self._peers = [], 0, {}
        self._up, self._unopened = collections.Counter(), set()
        self.told = {kind.name(): {"opened": 0, "ended": 0, "failed": 0, "most_up": 0, "sent": 0,
                                   "answers": collections.Counter()} for kind in kinds}
        # All begin within two seconds.
        for kind in kinds:
            for number in range(options["connections"]):
                peer = kind(self, number)
                self._unopened.add(peer)
                self._later(2 * self._random.random(), peer, None)
        self._ending = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_):
        self._ending = True

    def _later(self, seconds, peer, opened):
        """opened: the socket whose tick it is; None: to open the next one."""
        self._number += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._number, peer, opened))

    def _open(self, peer):
        peer.socket = socket.socket()
        peer.socket.setblocking(False)
        if peer.small:
            peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not peer.reads:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if peer.source:
            peer.socket.bind((peer.source, 0))
        told = self.told[peer.name()]
        if peer.socket.connect_ex(self.addresses[peer.protocol]) not in (0, errno.EINPROGRESS):
            told["failed"] += 1
            peer.socket.close()
            self._later(1, peer, None)
            return
        told["opened"] += 1
        self._unopened.discard(peer)
        self._up[peer.name()] += 1
        told["most_up"] = max(told["most_up"], self._up[peer.name()])
        peer.times, peer.rest = 0, memoryview(peer.opening())
        self._peers[peer.socket.fileno()] = peer
        self._epoll.register(peer.socket.fileno(), self._events(peer))
        self._later(peer.pause * (0.5 + self._random.random()), peer, peer.socket)

    @staticmethod
    def _events(peer):
        return select.EPOLLRDHUP | (select.EPOLLIN if peer.reads else 0) | (select.EPOLLOUT if len(peer.rest) else 0)

    def _close(self, peer):
        del self._peers[peer.socket.fileno()]
        peer.socket.close()
        peer.socket, peer.rest = None, b""
        self._up[peer.name()] -= 1
        self._later(peer.again * (0.5 + self._random.random()), peer, None)

    def _send(self, peer, data=None):
        if data:
            peer.rest = memoryview(data)
        if len(peer.rest):
            try:
                count = peer.socket.send(peer.rest[:262144])
            except BlockingIOError:
                count = 0
            self.told[peer.name()]["sent"] += count
            peer.rest = peer.rest[count:]
        self._epoll.modify(peer.socket.fileno(), self._events(peer))

    def _receive(self, peer):
        """False at the end."""
        try:
            data = peer.socket.recv(65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        if data.startswith((b"HTTP/", b"RTSP/")):
            self.told[peer.name()]["answers"][data.split(b" ", 2)[1].decode(errors="replace")] += 1
        more = peer.received(data)
        if more and not len(peer.rest):
            self._send(peer, more)
        return True

    def _ready(self, peer, events):
        try:
            going = not events & (select.EPOLLERR | select.EPOLLHUP)
            if events & select.EPOLLIN and peer.reads:
                going = self._receive(peer)
            elif events & select.EPOLLRDHUP:
                going = False
            if going and events & select.EPOLLOUT:
                self._send(peer)
        except OSError:
            going = False
        if not going:
            self.told[peer.name()]["ended"] += 1
            self._close(peer)

    def _timer(self, peer, opened):
        if opened is None:
            self._open(peer)
            return
        if peer.socket is not opened:
            return
        peer.times += 1
        if not len(peer.rest):
            more = peer.tick()
            if more is None:
                self._close(peer)
                return
            try:
                if more:
                    self._send(peer, more)
            except OSError:
                self.told[peer.name()]["ended"] += 1
                self._close(peer)
                return
        self._later(peer.pause, peer, opened)

    def run(self):
        announced = False
        while not self._ending and time.monotonic() < self._until:
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                _, _, peer, opened = heapq.heappop(self._timers)
                self._timer(peer, opened)
            if not announced and not self._unopened:
                print("up", flush=True)
                announced = True
            wait = min(max(self._timers[0][0] - time.monotonic(), 0), 0.1) if self._timers else 0.1
            for file, events in self._epoll.poll(wait, 512):
                if file in self._peers:
                    self._ready(self._peers[file], events)
        for name, count in self._up.items():
            self.told[name]["up"] = count


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(json.loads(sys.argv[1]))
    attack.run()
    print(json.dumps(attack.told), flush=True)


if __name__ == "__main__":
    main()
