"""RTMP for the end-to-end tests: a client by hand, with any chunk size, which sees every message that the daemon sends."""

import collections
import contextlib
import os
import socket
import struct
import threading

import flv
import harness

CHUNK, ABORT, ACKNOWLEDGEMENT, USER, WINDOW, BANDWIDTH, AUDIO, VIDEO, DATA3, DATA, COMMAND, AGGREGATE = (
    1, 2, 3, 4, 5, 6, 8, 9, 15, 18, 20, 22)

Message = collections.namedtuple("Message", "type stream timestamp payload chunks")


class Ended(Exception):
    """The daemon has ended the connection."""


def amf(value):
    """One value in AMF 0: None, a truth, a number, a text, a dictionary (an object), a list (a strict array)."""
    if value is None:
        return b"\5"
    if isinstance(value, bool):
        return b"\1" + bytes([value])
    if isinstance(value, (int, float)):
        return b"\0" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\2" + struct.pack(">H", len(value.encode())) + value.encode()
    if isinstance(value, list):
        return b"\n" + struct.pack(">I", len(value)) + b"".join(map(amf, value))
    members = b"".join(struct.pack(">H", len(name)) + name.encode() + amf(member) for name, member in value.items())
    return b"\3" + members + b"\0\0\t"


def values(data):
    """All values of a payload."""
    found, at = [], 0
    while at < len(data):
        value, at = _value(data, at)
        found.append(value)
    return found


def _value(data, at):
    kind, at = data[at], at + 1
    if kind == 0:
        return struct.unpack_from(">d", data, at)[0], at + 8
    if kind == 1:
        return bool(data[at]), at + 1
    if kind == 2:
        end = at + 2 + struct.unpack_from(">H", data, at)[0]
        return data[at + 2:end].decode(), end
    if kind in (3, 8):
        return _members(data, at + (4 if kind == 8 else 0))
    if kind in (5, 6):
        return None, at
    assert kind == 10, kind
    count, at, found = struct.unpack_from(">I", data, at)[0], at + 4, []
    for _ in range(count):
        value, at = _value(data, at)
        found.append(value)
    return found, at


def _members(data, at):
    found = {}
    while data[at:at + 3] != b"\0\0\t":
        end = at + 2 + struct.unpack_from(">H", data, at)[0]
        name = data[at + 2:end].decode()
        found[name], at = _value(data, end)
    return found, at + 3


def chunked(kind, payload, size=128, stream=1, timestamp=0, channel=6, repeat=True):
    """The chunks of a message, in a list. repeat: the extended timestamp is in each, as the specification has it."""
    extended = struct.pack(">I", timestamp) if timestamp >= 0xffffff else b""
    first = (bytes([channel]) + struct.pack(">I", min(timestamp, 0xffffff))[1:] + struct.pack(">I", len(payload))[1:] +
             bytes([kind]) + struct.pack("<I", stream) + extended)
    further = bytes([0xc0 | channel]) + (extended if repeat else b"")
    parts = [payload[at:at + size] for at in range(0, len(payload), size)] or [b""]
    return [first + parts[0]] + [further + part for part in parts[1:]]


class Client:
    """One connection, behind the handshake."""

    def __init__(self, daemon, at=0, handshake=True, receive_buffer=0):
        self.peer = daemon.connect("rtmp", at, receive_buffer)
        self.address = daemon.address("rtmp", at)
        self.size = self.own_size = 128
        self._data, self._at = b"", 0
        self._part = {}
        if handshake:
            self.shake_hands()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.peer.close()

    def shake_hands(self):
        self.peer.sendall(b"\3" + bytes(8) + os.urandom(1528))
        answer = self._take(1 + 2 * 1536)
        assert answer[0] == 3
        self.peer.sendall(answer[1:1537])

    def _take(self, count):
        while len(self._data) - self._at < count:
            try:
                data = self.peer.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Ended()
            self._data, self._at = self._data[self._at:] + data, 0
        self._at += count
        return self._data[self._at - count:self._at]

    # To the daemon

    def send(self, kind, payload, stream=1, timestamp=0, channel=6, repeat=True):
        self.peer.sendall(b"".join(chunked(kind, payload, self.own_size, stream, timestamp, channel, repeat)))

    def set_chunk_size(self, size):
        self.send(CHUNK, struct.pack(">I", size), stream=0, channel=2)
        self.own_size = size

    def command(self, name, *arguments, stream=0, transaction=0, info=None):
        self.send(COMMAND, b"".join(map(amf, (name, transaction, info, *arguments))), stream, channel=3)

    # From the daemon

    def next(self):
        """The next message; what comes of the protocol itself is applied."""
        while True:
            first = self._take(1)[0]
            form, channel = first >> 6, first & 63
            assert channel >= 2, "a chunk stream of more than one byte"
            timestamp, size, kind, stream, payload, chunks = self._part.get(channel, (0, 0, 0, 0, b"", 0))
            if form < 3:
                assert form == 0, "the daemon sends full headers"
                header = self._take(11)
                timestamp, size, kind = (int.from_bytes(header[:3], "big"), int.from_bytes(header[3:6], "big"), header[6])
                stream = struct.unpack("<I", header[7:])[0]
                if timestamp == 0xffffff:
                    timestamp = struct.unpack(">I", self._take(4))[0]
            elif timestamp >= 0xffffff:
                self._take(4)
            payload += self._take(min(self.size, size - len(payload)))
            chunks += 1
            if len(payload) < size:
                self._part[channel] = (timestamp, size, kind, stream, payload, chunks)
                continue
            self._part.pop(channel, None)
            if kind == CHUNK:
                self.size = struct.unpack(">I", payload)[0]
            return Message(kind, stream, timestamp, payload, chunks)

    def wait(self, name):
        """The values of the next command of that name."""
        while True:
            message = self.next()
            if message.type == COMMAND and values(message.payload)[0] == name:
                return values(message.payload)

    def wait_status(self):
        return self.wait("onStatus")[3]

    def wait_end(self):
        try:
            while True:
                self.next()
        except Ended:
            pass

    def media(self, count):
        """So many messages of audio, video and data."""
        found = []
        while len(found) < count:
            message = self.next()
            if message.type in (AUDIO, VIDEO, DATA):
                found.append(message)
        return found

    # Steps

    def connect(self, app="live", url=None, publish=True, **more):
        info = {"app": app, "tcUrl": url or "rtmp://%s:%d/%s" % (*self.address, app), **more}
        if publish:
            info["type"] = "nonprivate"
        self.command("connect", transaction=1, info=info)
        while True:
            message = self.next()
            if message.type == COMMAND:
                return values(message.payload)

    def create_stream(self, transaction=2):
        self.command("createStream", transaction=transaction)
        return int(self.wait("_result")[3])

    def begin(self, command, name, app="live", url=None, **more):
        """Up to the answer to publish or play, which is returned."""
        answer = self.connect(app, url, command == "publish", **more)
        if answer[0] == "_error":
            return answer[3]
        stream = self.create_stream()
        self.command(command, name, *(["live"] if command == "publish" else []), stream=stream, transaction=3)
        status = self.wait_status()
        return self.wait_status() if status["code"] == "NetStream.Play.Reset" else status

    def finish(self):
        """Ends the stream, and the connection."""
        self.command("deleteStream", 1, transaction=4)
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_WR)
        self.wait_end()


class Player:
    """Plays in a thread, and keeps the tags."""

    def __init__(self, daemon, name):
        self.tags, self.error = [], None
        self._client, self._news = Client(daemon), threading.Condition()
        self.peer = self._client.peer
        self.address = harness.address_text(self.peer)
        app, _, key = name.rpartition("/")
        self._client.connect(app, publish=False)
        self._client.command("play", key, stream=self._client.create_stream(), transaction=3)
        self.peer.settimeout(None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while True:
                message = self._client.next()
                if message.type in (AUDIO, VIDEO, DATA):
                    with self._news:
                        self.tags.append(flv.Tag(message.type, message.timestamp, message.payload))
                        self._news.notify_all()
        except (Ended, OSError) as error:
            with self._news:
                self.error = error
                self._news.notify_all()

    def _wait(self, condition, what):
        with self._news:
            if not self._news.wait_for(lambda: condition() or self.error, harness.PATIENCE) or not condition():
                raise AssertionError("no %s: %d tags, %r" % (what, len(self.tags), self.error))

    def wait_tags(self, count):
        self._wait(lambda: len(self.tags) >= count, "%d tags" % count)

    def wait_frame(self, frame):
        self._wait(lambda: any(tag.payload == frame.payload for tag in self.tags[-400:]), "frame")

    def close(self):
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.peer.close()


class Publisher:
    """Publishes tags in chunks of that size."""

    def __init__(self, daemon, name, size=65536):
        self._client = Client(daemon)
        self.peer = self._client.peer
        app, _, key = name.rpartition("/")
        status = self._client.begin("publish", key, app)
        assert status["level"] == "status", status
        self._client.set_chunk_size(size)
        for tag in flv.first_tags():
            self.send(tag)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.peer.close()

    def send(self, tag):
        self._client.send(tag.type, tag.payload, timestamp=tag.timestamp, channel=4 if tag.type == AUDIO else 6)


def url(daemon, name, at=0, user=None):
    host, port = daemon.address("rtmp", at)
    return "rtmp://%s%s:%d/%s" % (user + "@" if user else "", host, port, name)
