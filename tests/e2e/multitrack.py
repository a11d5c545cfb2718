"""Enhanced FLV's multitrack, written and read by its specification: none of the daemon's code is asked."""

import struct

import flv

ONE, MANY, MANY_CODECS = 0, 1, 2
SEQUENCE_START, CODED_FRAMES, SEQUENCE_END, CODED_FRAMES_X = 0, 1, 2, 3
MULTITRACK = {flv.VIDEO: 6, flv.AUDIO: 5}
CODECS = {flv.VIDEO: b"avc1", flv.AUDIO: b"mp4a"}


def parts(tag):
    """The frame type, packet type and bytes of a tag of H.264 or AAC in the form before FourCCs."""
    packet = tag.payload[1]
    if tag.type == flv.AUDIO:
        return 0, packet, tag.payload[2:]
    return tag.payload[0] >> 4 & 7, packet, tag.payload[2:] if packet == CODED_FRAMES else tag.payload[5:]


def _head(kind, frame, packet, form, codec=b""):
    first = 0x80 | frame << 4 | MULTITRACK[kind] if kind == flv.VIDEO else 0x90 | MULTITRACK[kind]
    return bytes([first, form << 4 | packet]) + codec


def alone(tag, without_time=False):
    """The same as a tag with a FourCC, without a track. @without_time: for a frame at its time, CodedFramesX"""
    frame, packet, data = parts(tag)
    if tag.type == flv.AUDIO:
        return flv.Tag(tag.type, tag.timestamp, bytes([0x90 | packet]) + CODECS[tag.type] + data)
    if without_time:
        packet, data = CODED_FRAMES_X, data[3:]
    return flv.Tag(tag.type, tag.timestamp, bytes([0x80 | frame << 4 | packet]) + CODECS[tag.type] + data)


def modified(tag):
    """A tag of alone() of video with nanoseconds, by ModEx."""
    first = tag.payload[0]
    return tag._replace(payload=bytes([first & 0xF0 | 7, 2, 0, 1, 2, first & 0x0F]) + tag.payload[1:])


def wrap(tag, number):
    """The same as a tag that names its track."""
    frame, packet, data = parts(tag)
    return flv.Tag(tag.type, tag.timestamp, _head(tag.type, frame, packet, ONE, CODECS[tag.type]) + bytes([number]) + data)


def join(tags, codecs=False):
    """Tags of several tracks, {number: tag}, in one; @codecs: with a FourCC for each."""
    first = next(iter(tags.values()))
    frame, packet, _ = parts(first)
    payload = _head(first.type, frame, packet, MANY_CODECS if codecs else MANY, b"" if codecs else CODECS[first.type])
    for number, tag in tags.items():
        data = parts(tag)[2]
        payload += (CODECS[tag.type] if codecs else b"") + bytes([number]) + struct.pack(">I", len(data))[1:] + data
    return flv.Tag(first.type, first.timestamp, payload)


def split(tag):
    """What is in a tag: [(its type, track, codec, packet type, bytes)]; of video frames with a composition time."""
    payload, kind = tag.payload, tag.type
    extended = payload[0] & 0x80 if kind == flv.VIDEO else payload[0] >> 4 == 9
    if not extended:
        return [(kind, 0, CODECS[kind], *parts(tag)[1:])]
    packet, at, form = payload[0] & 0x0F, 1, None
    if packet == MULTITRACK[kind]:
        form, packet, at = payload[1] >> 4, payload[1] & 0x0F, 2
    codec, found = None, []
    if form != MANY_CODECS:
        codec, at = payload[at:at + 4], at + 4
    while True:
        if form == MANY_CODECS:
            codec, at = payload[at:at + 4], at + 4
        number, end = 0, len(payload)
        if form is not None:
            number, at = payload[at], at + 1
        if form in (MANY, MANY_CODECS):
            size, at = int.from_bytes(payload[at:at + 3], "big"), at + 3
            end = at + size
            if end > len(payload):
                raise flv.Broken("a track goes beyond its tag")
        data = payload[at:end]
        if packet == CODED_FRAMES_X:
            found.append((kind, number, codec, CODED_FRAMES, b"\0\0\0" + data))
        else:
            found.append((kind, number, codec, packet, data))
        if end == len(payload):
            return found
        at = end


def split_all(tags):
    """The same of all tags but scripts, each with its time."""
    return [(tag.timestamp, *one) for tag in tags if tag.type != flv.SCRIPT for one in split(tag)]
