"""FLV for the end-to-end tests: a reader, and made-up streams whose every frame can be told from the others.

Only for what ffmpeg cannot tell: which tags came in which order with which bytes, and the flags of the header.
"""

import collections
import struct

AUDIO, VIDEO, SCRIPT = 8, 9, 18
HAS_VIDEO, HAS_AUDIO = 1, 4


class Tag(collections.namedtuple("Tag", "type timestamp payload")):
    """One tag: its type, its timestamp in milliseconds, its payload."""

    @property
    def packet(self):
        """What an audio or video payload is: its packet type; frames of codecs without packet types count as 1."""
        first = self.payload[0]
        if self.type == VIDEO:
            if first & 0x80:
                return first & 0x0F
            return self.payload[1] if first & 0x0F in (7, 12) else 1
        if first >> 4 == 9:
            return first & 0x0F
        return self.payload[1] if first >> 4 == 10 else 1

    @property
    def is_sequence_header(self):
        return self.type in (AUDIO, VIDEO) and self.packet == 0

    @property
    def is_frame(self):
        return self.type in (AUDIO, VIDEO) and self.packet in (1, 3)

    @property
    def is_key_frame(self):
        return self.type == VIDEO and self.is_frame and self.payload[0] & 0x70 == 0x10

    def pack(self):
        size = len(self.payload)
        header = struct.pack(">I", self.type << 24 | size) + struct.pack(">I", self.timestamp & 0xFFFFFF)[1:]
        return header + bytes([self.timestamp >> 24, 0, 0, 0]) + self.payload + struct.pack(">I", 11 + size)


class Broken(Exception):
    """The bytes are not the FLV that a strict writer makes."""


class Parser:
    """Bytes in, tags out; strict, since what the daemon writes is to be right."""

    def __init__(self):
        self.flags = None
        self._rest = bytearray()

    @property
    def rest(self):
        """Bytes that are not a whole tag yet."""
        return len(self._rest)

    def feed(self, data):
        self._rest += data
        tags = []
        at = 0
        if self.flags is None:
            if len(self._rest) < 13:
                return tags
            if self._rest[:4] != b"FLV\x01" or self._rest[5:13] != b"\0\0\0\x09\0\0\0\0":
                raise Broken("file header %r" % bytes(self._rest[:13]))
            self.flags = self._rest[4]
            at = 13
        while len(self._rest) - at >= 11:
            size = int.from_bytes(self._rest[at + 1:at + 4], "big")
            end = at + 11 + size
            if len(self._rest) < end + 4:
                break
            tags.append(self._tag(at, end))
            at = end + 4
        del self._rest[:at]
        return tags

    def _tag(self, at, end):
        kind = self._rest[at]
        if kind not in (AUDIO, VIDEO, SCRIPT) or self._rest[at + 8:at + 11] != b"\0\0\0":
            raise Broken("tag header %r" % bytes(self._rest[at:at + 11]))
        if int.from_bytes(self._rest[end:end + 4], "big") != end - at:
            raise Broken("trailer %r of a tag of %d bytes" % (bytes(self._rest[end:end + 4]), end - at))
        timestamp = self._rest[at + 7] << 24 | int.from_bytes(self._rest[at + 4:at + 7], "big")
        return Tag(kind, timestamp, bytes(self._rest[at + 11:end]))


def parse(data):
    """All tags of a file's bytes; the file must end with a whole tag."""
    parser = Parser()
    tags = parser.feed(data)
    if parser.flags is None or parser.rest:
        raise Broken("%d bytes behind the last tag" % parser.rest)
    return tags


def header(flags=HAS_VIDEO | HAS_AUDIO):
    return b"FLV\x01" + bytes([flags]) + b"\0\0\0\x09\0\0\0\0"


def _amf_name(name):
    return struct.pack(">H", len(name)) + name.encode()


def metadata(**values):
    """An onMetaData tag: numbers and booleans."""
    body = b"\x02" + _amf_name("onMetaData") + b"\x08" + struct.pack(">I", len(values))
    for name, value in values.items():
        body += _amf_name(name)
        body += bytes([1, value]) if isinstance(value, bool) else b"\0" + struct.pack(">d", value)
    return Tag(SCRIPT, 0, body + b"\0\0\x09")


# Of 128x96 pixels at 10 frames a second, by x264; the frames below are none of it.
SPS = bytes.fromhex("6764000aacd9420db011000003000100000300140f122596")
PPS = bytes.fromhex("68ef8fcb")
VIDEO_HEADER = Tag(VIDEO, 0, b"\x17\0\0\0\0\x01" + SPS[1:4] + b"\xff\xe1" + struct.pack(">H", len(SPS)) + SPS +
                   b"\x01" + struct.pack(">H", len(PPS)) + PPS)
AUDIO_HEADER = Tag(AUDIO, 0, b"\xaf\0\x12\x10")


def video_frame(timestamp, key, number, size):
    """A frame of H.264 in form; its bytes are its number over and over."""
    unit = (struct.pack(">I", number) * (size // 4 + 1))[:max(size - 9, 4)]
    return Tag(VIDEO, timestamp, (b"\x17" if key else b"\x27") + b"\x01\0\0\0" + struct.pack(">I", len(unit)) + unit)


def audio_frame(timestamp, number, size):
    return Tag(AUDIO, timestamp, b"\xaf\x01" + (struct.pack(">I", number) * (size // 4 + 1))[:max(size - 2, 4)])


def first_tags(video=True, audio=True, with_metadata=True):
    """What an encoder sends before the first frame."""
    tags = []
    if with_metadata:
        values = {}
        if video:
            values.update(videocodecid=7.0, width=320.0, height=180.0, framerate=25.0)
        if audio:
            values.update(audiocodecid=10.0)
        tags.append(metadata(**values))
    return tags + ([VIDEO_HEADER] if video else []) + ([AUDIO_HEADER] if audio else [])


def frames(video=True, audio=True, start=0, step=40, gop=25, size=1500, audio_size=200, first=0):
    """Frames without end: each video frame is followed by its audio frame. `first` numbers them on."""
    number, timestamp = first, start
    while True:
        if video:
            yield video_frame(timestamp, (number - first) % gop == 0, number, size)
        if audio:
            yield audio_frame(timestamp, number, audio_size)
        number, timestamp = number + 1, timestamp + step


def number_of(tag):
    """The number that a made-up frame was made with."""
    return int.from_bytes(tag.payload[9:13] if tag.type == VIDEO else tag.payload[2:6], "big")


def stream(count, flags=None, video=True, audio=True, with_metadata=True, **options):
    """A whole stream of that many frames: (bytes, tags)."""
    if flags is None:
        flags = (HAS_VIDEO if video else 0) | (HAS_AUDIO if audio else 0)
    tags = first_tags(video, audio, with_metadata)
    source = frames(video, audio, **options)
    tags += [next(source) for _ in range(count)]
    return header(flags) + b"".join(tag.pack() for tag in tags), tags
