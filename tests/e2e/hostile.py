"""Hostile clients of every kind, in one process: each connection is opened again a moment after the daemon has ended it.

    python3 hostile.py JSON

JSON: {"http": [HOST, PORT], "rtsp": ..., "flv": ..., "rtmp": ..., "connections": of each kind, "seconds": at most, "key": the
secret of streams hostile/*, "streams": how many load/N anybody may play, "part": bytes of an unfinished frame; "kinds": names of
those that take part, all of KINDS by default, "rtmp" for those of RTMP_KINDS; "nice": as in nice(1); "recording": path of a
recording}. It prints "up" when each connection has been opened once, and at SIGTERM or after `seconds` a JSON object: what became
of each kind.
"""

import collections
import errno
import functools
import heapq
import json
import os
import random
import re
import resource
import select
import signal
import socket
import struct
import sys
import time

import flv
import rtmp

PIECE = 16
ENDED = select.EPOLLRDHUP
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

    @staticmethod
    def answers(data):
        """Names of the answers in what has been received."""
        return [data.split(b" ", 2)[1]] if data.startswith((b"HTTP/", b"RTSP/")) else []

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


class Rtmp(Peer):
    """Sends all steps at once: nothing of what the daemon answers has to be known for them."""
    protocol = "rtmp"
    pause = 0.25
    codes = re.compile(rb"Net(?:Stream|Connection)\.[A-Za-z.]+")

    @classmethod
    def answers(cls, data):
        return cls.codes.findall(data)

    # What is sent is made once, so that the attack costs the machine little besides.
    @staticmethod
    @functools.lru_cache(maxsize=256)
    def message(kind, payload, size=128, **more):
        return b"".join(rtmp.chunked(kind, payload, size, **more))

    @classmethod
    def command(cls, *arguments, stream=0):
        return cls.message(rtmp.COMMAND, b"".join(map(rtmp.amf, arguments)), stream=stream, channel=3)

    @classmethod
    def control(cls, kind, value, size=128):
        return cls.message(kind, struct.pack(">I", value), size, stream=0, channel=2)

    @classmethod
    def connecting(cls, app="hostile"):
        info = {"app": app, "tcUrl": "rtmp://h/" + app, "type": "nonprivate"}
        return b"\3" + bytes(1536) + bytes(1536) + cls.command("connect", 1, info) + cls.command("createStream", 2, None)

    def publishing(self, name, key=None):
        key = self.attack.key.decode() if key is None else key
        return self.connecting() + self.command("publish", 3, None, "%s-%d?token=%s" % (name, self.number, key), "live",
                                                stream=1)

    def headers(self):
        return b"".join(self.message(tag.type, tag.payload, channel=4 if tag.type == flv.AUDIO else 6)
                        for tag in flv.first_tags())

    def frame(self, key, size, chunk=128):
        data = self.message(rtmp.VIDEO, flv.video_frame(0, key, 0, size).payload, chunk)
        return data[:1] + (250 * self.times).to_bytes(3, "big") + data[4:]


class RtmpChunksOfOneByte(Rtmp):
    """With a right; frames in chunks of one byte."""

    def opening(self):
        return self.publishing("byte") + self.headers() + self.control(rtmp.CHUNK, 1)

    def tick(self):
        return self.frame(self.times % 10 == 0, 2500, 1)


class RtmpChangingSizes(Rtmp):
    """With a right; another chunk size for each message, and sizes from a byte to the largest message; every other one
    changes the size of a message inside it."""

    def opening(self):
        return self.publishing("size") + self.headers()

    def tick(self):
        chunk = (1, 7, 128, 4096, 65536, 2 ** 31 - 1)[self.times % 6]
        size = (5, 100, 1000, 60000)[self.times % 4]
        data = (self.control(rtmp.CHUNK, chunk) + self.frame(self.times % 20 == 1, size, chunk) +
                self.control(rtmp.CHUNK, 128, chunk))
        if self.number % 2 and self.times % 4 == 3:
            first, other = (rtmp.chunked(rtmp.VIDEO, bytes(count))[0] for count in (1000, 2000))
            data += first + other
        return data


class RtmpChunkStreams(Rtmp):
    """With a right; a message that does not end on each of 65,536 chunk streams. Every other one opens as many as the daemon
    allows."""
    pause = 1.0
    allowed = 28  # Besides those of headers and commands: SLUICE_RTMP_DEFAULT_STREAMS less 4.

    @staticmethod
    def begun(number):
        """The first byte of a message of 1000."""
        return b"\1" + struct.pack("<H", number) + b"\0\0\0" + (1000).to_bytes(3, "big") + b"\x09\1\0\0\0" + b"\x27"

    @classmethod
    @functools.lru_cache
    def all_begun(cls, count):
        return b"".join(map(cls.begun, range(count)))

    def opening(self):
        return (self.publishing("streams") + self.headers() + self.control(rtmp.CHUNK, 1) +
                self.all_begun(self.allowed if self.number % 2 else 65536))

    def tick(self):
        return b"".join(b"\xc1" + struct.pack("<H", number) + b"\0" for number in range(self.allowed))


class RtmpDeepValues(Rtmp):
    """Objects and arrays nested 10,000 deep: in connect, and, with a right, in metadata."""
    depth = 10000
    forms = (b"\3\0\1a" * depth, b"\n\0\0\0\1" * depth, b"\x11" + b"\x09\3\1" * depth)

    def opening(self):
        if self.number % 2:
            return self.publishing("deep") + self.headers()
        connect = b"".join(map(rtmp.amf, ("connect", 1))) + self.forms[self.number // 2 % 3]
        return b"\3" + bytes(1536) + bytes(1536) + self.message(rtmp.COMMAND, connect[:(16 if self.number % 4 else 64) << 10],
                                                               stream=0, channel=3)

    def tick(self):
        if not self.number % 2:
            return b""
        return self.message(rtmp.DATA, rtmp.amf("onMetaData") + self.forms[self.times % 3], channel=4) + self.frame(
            self.times % 10 == 1, 100)


class RtmpAcknowledgements(Rtmp):
    """Half of them play and never acknowledge. The others publish, want each byte acknowledged, and read nothing."""
    source = STALLED_ADDRESS

    def __init__(self, attack, number):
        super().__init__(attack, number)
        self.reads = number % 2 == 0

    def opening(self):
        if self.reads:
            return (self.connecting("load").replace(b"\0\4type\2\0\x0anonprivate", b"\0\4tipe\2\0\x0anonprivate") +
                    self.control(rtmp.WINDOW, 1) +
                    self.command("play", 3, None, str(self.number % self.attack.streams + 1), stream=1))
        return self.publishing("window") + self.control(rtmp.WINDOW, 1) + self.headers()

    def tick(self):
        if self.reads:
            return b""
        return self.message(rtmp.AUDIO, b"\xaf\1\0", channel=4) * 500


class RtmpWithoutKeyFrames(Rtmp):
    """With a right."""

    def opening(self):
        return self.publishing("keyless") + self.headers()

    def tick(self):
        return self.frame(False, 5000)


class RtmpCommands(Rtmp):
    """Commands without end: before publish, and, with a right, behind it."""
    many = (Rtmp.command("createStream", 9, None) + Rtmp.command("noSuchCommand", 10, None, "a" * 100) +
            Rtmp.message(rtmp.USER, b"\0\6\0\0\0\1", stream=0, channel=2)) * 40

    def opening(self):
        return (self.publishing("commands") + self.headers() if self.number % 2 else self.connecting()) + self.many

    def tick(self):
        return self.many + self.frame(self.times % 10 == 0, 100)


class RtmpTrickle(Rtmp):
    """No right; a handshake that is never whole, or pings instead of a request."""
    pause = 1.0

    def opening(self):
        return self.connecting() if self.number % 2 else b"\3" + bytes(1500)

    def tick(self):
        return self.message(rtmp.USER, b"\0\6\0\0\0\1", stream=0, channel=2) if self.number % 2 else b"\0"


class RtmpRejected(Rtmp):
    """A wrong token, again and again."""
    again = 0.5

    def opening(self):
        return self.publishing("rejected", "wrong")


class RtmpUnfinished(Rtmp):
    """With a right; a large message that does not end, in chunks of 128 bytes."""
    pause, again = 1.0, 5.0

    def opening(self):
        part = self.message(rtmp.VIDEO, b"\x27\1\0\0\0" + self.attack.part)
        return self.publishing("unfinished") + self.headers() + part[:4] + FRAME.to_bytes(3, "big") + part[7:-128]

    def tick(self):
        return self.control(rtmp.ACKNOWLEDGEMENT, 1)


KINDS = (RtspBodies, RtspHeads, HttpHeads, HttpPuts, WebSocketMessages, UnfinishedFrames, RtspOptions, HttpKeepAlive, Stalled,
         PiecesOfFrames, PiecesOfHeads, Rejected, SameName, ManyAacFrames, SmallTags, Idle)
OTHERS = (TricklingFrames, Downloads)  # Those that have tests of their own.
RTMP_KINDS = (RtmpChunksOfOneByte, RtmpChangingSizes, RtmpChunkStreams, RtmpDeepValues, RtmpAcknowledgements,
              RtmpWithoutKeyFrames, RtmpCommands, RtmpTrickle, RtmpRejected, RtmpUnfinished)


class Attack:
    """All of them, and what has become of them."""

    every = KINDS + OTHERS + RTMP_KINDS

    def __init__(self, options):
        self.addresses = {name: tuple(options[name]) for name in ("http", "rtsp", "flv", "rtmp") if name in options}
        self.key, self.streams = options["key"].encode(), options["streams"]
        self.part = bytes(min(options["part"], FRAME - 1024))
        self.recording = options.get("recording", "").encode()
        names = options.get("kinds", [kind.name() for kind in KINDS])
        kinds = [kind for kind in self.every
                 if kind.name() in names or (names == "rtmp" and kind in RTMP_KINDS)]
        self._until = time.monotonic() + options["seconds"]
        self._random = random.Random(1)
        self._epoll = select.epoll()
        self._timers, self._number, self._peers = [], 0, {}
        self._up, self._unopened = collections.Counter(), set()
        self.told = {kind.name(): {"opened": 0, "ended": 0, "failed": 0, "most_up": 0, "sent": 0,
                                   "answers": collections.Counter()} for kind in kinds}
        spread = self.spread(len(kinds) * options["connections"])
        for kind in kinds:
            for number in range(options["connections"]):
                peer = kind(self, number)
                self._unopened.add(peer)
                self._later(spread * self._random.random(), peer, None)
        self._ending = False
        signal.signal(signal.SIGTERM, self._end)

    @staticmethod
    def spread(peers):
        """Seconds within which so many begin."""
        del peers
        return 2

    def _end(self, *_):
        self._ending = True

    def _later(self, seconds, peer, opened):
        """opened: the socket whose tick it is; None: to open the next one."""
        self._number += 1
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._number, peer, opened))

    def new_socket(self, peer):
        made = socket.socket()
        made.setblocking(False)
        if peer.small:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not peer.reads:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if peer.source:
            made.bind((peer.source, 0))
        return made

    def _open(self, peer):
        peer.socket = self.new_socket(peer)
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
        self._epoll.register(peer.socket.fileno(), self.events(peer))
        self._later(peer.pause * (0.5 + self._random.random()), peer, peer.socket)

    def events(self, peer):
        return ENDED | (select.EPOLLIN if peer.reads else 0) | (select.EPOLLOUT if len(peer.rest) else 0)

    def _close(self, peer):
        del self._peers[peer.socket.fileno()]
        peer.socket.close()
        peer.socket, peer.rest = None, b""
        self._up[peer.name()] -= 1
        self._later(peer.again * (0.5 + self._random.random()), peer, None)

    def send(self, peer, data=None):
        if data:
            peer.rest = memoryview(data)
        if len(peer.rest):
            try:
                count = peer.socket.send(peer.rest[:262144])
            except BlockingIOError:
                count = 0
            self.told[peer.name()]["sent"] += count
            peer.rest = peer.rest[count:]
        self._epoll.modify(peer.socket.fileno(), self.events(peer))

    def _receive(self, peer):
        """False at the end."""
        try:
            data = peer.socket.recv(65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        for answer in peer.answers(data):
            self.told[peer.name()]["answers"][answer.decode(errors="replace")] += 1
        more = peer.received(data)
        if more and not len(peer.rest):
            self.send(peer, more)
        return True

    def _ready(self, peer, events):
        try:
            going = not events & (select.EPOLLERR | select.EPOLLHUP)
            if events & select.EPOLLIN and self.events(peer) & select.EPOLLIN:
                going = self._receive(peer)
            elif events & ENDED:
                going = False
            if going:
                self.send(peer)
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
            try:
                more = peer.tick()
                if more:
                    self.send(peer, more)
            except OSError:
                self.told[peer.name()]["ended"] += 1
                more = None
            if more is None:
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


def main(kind=Attack):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options = json.loads(sys.argv[1])
    os.nice(options.get("nice", 0))
    attack = kind(options)
    attack.run()
    print(json.dumps(attack.told), flush=True)


if __name__ == "__main__":
    main()
