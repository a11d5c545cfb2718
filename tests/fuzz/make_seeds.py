#!/usr/bin/env python3
"""Writes the inputs with which fuzzing begins: tests/fuzz/corpus/TARGET/seed-*, from tests/vectors and from here.

What fuzzing has found besides is kept next to them; see tests/README.md.
"""

import hashlib
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parent
VECTORS = HERE.parent / "vectors"
LIMIT = 3000  # bytes of a vector that are taken

seeds = {}


def seed(target, name, data, *settings):
    """An input: the settings, zeros where there are none, and the stream."""
    head = bytes(settings) + bytes(2 - len(settings))
    seeds.setdefault(target, {})[name] = head + (data.encode("latin-1") if isinstance(data, str) else data)


def vector(name, size=LIMIT):
    return (VECTORS / name).read_bytes()[:size]


def lines(*text):
    return "".join(line + "\r\n" for line in text)


def record(kind, data):
    return bytes([kind]) + struct.pack(">H", len(data)) + data


def interleaved(name):
    """The frames of a session: channel and packet."""
    data = (VECTORS / name).read_bytes()
    at = data.index(b"\r\n\r\n", data.index(b"RECORD ")) + 4
    while data[at : at + 1] == b"$":
        length = struct.unpack(">H", data[at + 2 : at + 4])[0]
        yield data[at + 1], data[at + 4 : at + 4 + length]
        at += 4 + length


def fmtps(name):
    data = (VECTORS / name).read_bytes()
    return [line.split(b" ", 1)[1] for line in data.split(b"\r\n") if line.startswith(b"a=fmtp:")]


def records(name, channels, kind=lambda channel: channel, size=LIMIT):
    out = b""
    for channel, packet in interleaved(name):
        if channel in channels and len(out) + len(packet) < size:
            out += record(kind(channel), packet)
    return out


def flv():
    for name in ("flv-h264-aac", "flv-h265-aac", "flv-h264-opus", "flv-pcma"):
        seed("flv", name, vector(name + ".flv", 2000))
        seed("flv_rtp", name, vector(name + ".flv", 3500), 0 if "h264-aac" in name else 2)
    seed("flv", "skipped", b"FLV\1\5\0\0\0\x09\0\0\0\0" + b"\x08" + bytes(10) + b"\0\0\0\x0b" + b"\x0f\0\0\5" + bytes(7)
         + b"12345" + b"\0\0\0\x10" + b"\x09\0\0\1\0\0\1\0\0\0\0\x17\0\0\0\x0c", 1)
    seed("flv", "tracks", b"FLV\1\5\0\0\0\x09\0\0\0\0" + b"".join(multitrack_tags()))


def multitrack_tags():
    """Tags of one track, of many of one codec, and of many of many codecs; the last one breaks off within a track."""
    def track(number, data, codec=b""):
        return codec + bytes([number]) + struct.pack(">I", len(data))[1:] + data

    payloads = (
        (9, b"\x96\0avc1\1\1\x64"), (9, b"\xa6\1avc1\2\xff\xff\xfe\0\0\0\1\x41"), (9, b"\x96\3hvc1\0frame"),
        (9, b"\x96\x10avc1" + track(0, b"record") + track(3, b"other")),
        (9, b"\x97\0\1\6\x21" + track(0, b"\0\0\5h", b"hvc1") + track(255, b"v", b"av01")),
        (8, b"\x95\0mp4a\1\x12\x10"), (8, b"\x95\x11Opus" + track(0, b"one") + track(1, b"")),
        (8, b"\x95\x20" + track(1, b"\x12\x10", b"mp4a") + track(2, b"head", b"fLaC")),
        (9, b"\x96\x31avc1\0\1"), (9, b"\x96\x11avc1" + track(0, b"\0\0\0f") + b"\1\0\0\x09\0\0"))
    for kind, payload in payloads:
        yield (struct.pack(">I", kind << 24 | len(payload)) + bytes(7) + payload
               + struct.pack(">I", 11 + len(payload)))


def rtsp():
    for name in ("h264-aac.publish", "pcma.listen", "opus.publish"):
        data = vector(name, 1600)
        seed("rtsp", name, data)
    seed("rtsp", "skip", vector("pcma.publish", 700) + b"\0\1\2noise"
         + lines("OPTIONS * RTSP/1.0", "CSeq: 9", "").encode(), 1)
    seed("rtsp", "headers", lines(
        "SETUP rtsp://u:p@[::1]:8554/a/b?c RTSP/1.0", "CSeq: 3",
        "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record;ssrc=0A0B0C0D,RTP/AVP;multicast;client_port=5000-5001",
        "Session: abc;timeout=30", "Range: npt=0:01:30.5-now", "Folded: a", "  b",
        'Authorization: Digest username="u", realm="r", nonce="n", uri="x", response="y", qop=auth, nc=1, cnonce="q"',
        "Proxy-Authorization: Basic dTpw", ""), 2, 4)
    seed("rtsp", "reply", lines("RTSP/1.0 401 Unauthorized", "CSeq: 2", "Public: OPTIONS, DESCRIBE,PLAY",
                                'WWW-Authenticate: Digest realm="r", nonce="n", stale=TRUE, Basic realm="x"',
                                "Content-Length: 5", "") + "hello$\0\0\3abc" + "\r\n\r\n", 3)


def http():
    seed("http", "get", lines("GET /a/b?c=d HTTP/1.1", "Host: x", "Accept: */*", "") +
         lines("GET http://y/ HTTP/1.0", "Host: y", "Connection: keep-alive", "") +
         lines("CONNECT h:1 HTTP/1.1", "Host: h:1", ""))
    seed("http", "length", lines("POST /p HTTP/1.1", "Host: x", "Content-Length: 11", "Expect: 100-continue", "") +
         "hello world" + lines("OPTIONS * HTTP/1.1", "Host: x", "Connection: close", "") + "more", 2)
    seed("http", "chunked", lines("PUT /p HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "", "5;a=b", "hello",
                                  "00A \t;x", "0123456789", "0", "Trailer: v", "") +
         lines("GET / HTTP/1.1", "Host: x", ""))
    seed("http", "close", lines("POST /p HTTP/1.0", "") + "all the rest", 1)
    seed("http", "websocket", lines(
        "GET /chat HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: keep-alive, Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: superchat, chat", ""))


def http_response():
    length = lines("HTTP/1.1 200 OK", "Server: x", "Content-Length: 5", "") + "12345"
    chunked = lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "5;a=b", "hello", "00A", "0123456789", "0", "A: b", "")
    seed("http_response", "length", lines("HTTP/1.1 100 Continue", "") + length + chunked + length)
    seed("http_response", "bare", lines("HTTP/1.1 200 OK", "Content-Length: 5", "") + lines("HTTP/1.1 304", "ETag: x", "") +
         lines("HTTP/1.1 204 No Content", "") + chunked, 1)
    seed("http_response", "connect", lines("HTTP/1.0 407 Login", "Connection: keep-alive", "Content-Length: 0", "") +
         lines("HTTP/1.1 200 Connected", "Content-Length: 5", "") + "tunnel", 10, 1)
    seed("http_response", "switched", lines("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "") + "\x81\0")
    seed("http_response", "close", lines("HTTP/1.0 404 Not Found", "Connection: close", "") + "all the rest", 3)


def frame(opcode, payload, masked=True, last=True, width=0):
    head = bytes([opcode | (0x80 if last else 0)])
    mask = 0x80 if masked else 0
    if width == 8:
        head += bytes([mask | 127]) + struct.pack(">Q", len(payload))
    elif width == 2 or len(payload) > 125:
        head += bytes([mask | 126]) + struct.pack(">H", len(payload))
    else:
        head += bytes([mask | len(payload)])
    if not masked:
        return head + payload
    key = b"\x37\xfa\x21\x3d"
    return head + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))


def websocket():
    text = "κόσμε".encode()
    for role, masked in ((0, True), (1, False)):
        for pieces in (0, 2):
            data = (frame(1, b"Hello", masked) + frame(2, bytes(range(200)), masked)
                    + frame(1, text[:3], masked, last=False) + frame(9, b"ping", masked)
                    + frame(0, text[3:7], masked, last=False) + frame(10, b"", masked) + frame(0, text[7:], masked)
                    + frame(8, b"\x03\xe8bye", masked) + b"behind")
            seed("websocket", f"messages-{role}{pieces}", data, role | pieces)
        seed("websocket", f"long-{role}", frame(2, b"x" * 130, masked, width=0) + frame(2, b"x" * 70000, masked, width=8)
             [:400], role)


def resp():
    reply = ("+OK\r\n-ERR no\r\n:-12\r\n$5\r\nhello\r\n$-1\r\n*3\r\n:1\r\n*2\r\n+a\r\n+b\r\n$0\r\n\r\n_\r\n#t\r\n,1.5e3\r\n"
             ",-inf\r\n(12345678901234567890\r\n!5\r\nERR x\r\n=7\r\ntxt:abc\r\n%1\r\n+k\r\n~1\r\n:1\r\n|1\r\n+a\r\n+b\r\n"
             ">2\r\n+message\r\n+x\r\n*-1\r\n")
    for how in (0, 4, 12, 3):
        seed("resp", f"all-{how}", reply, how)
    seed("resp", "command", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 16, 3)
    seed("resp", "bulk", "$300\r\n" + "v" * 300 + "\r\n$2\r\nab\r\n*1\r\n$1\r\nx\r\n", 4)
    hello = "%2\r\n+server\r\n+redis\r\n+proto\r\n:3\r\n"
    seed("resp_client", "resp2", "+OK\r\n$5\r\nhello\r\n:7\r\n$40\r\n" + "w" * 40 + "\r\n", 3 << 2, 0b1010)
    seed("resp_client", "resp3", hello + "+OK\r\n>3\r\n+message\r\n+a\r\n+x\r\n$5\r\nhello\r\n_\r\n", 1 | 4 << 2, 2)
    seed("resp_client", "subscribe", "+OK\r\n+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n"
         "$1\r\nb\r\n:2\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n+PONG\r\n", 2 | 3 << 2)
    seed("resp_client", "error", hello.replace("%2", "-ERR") + "+OK\r\n", 1)


def reader():
    program = bytes([12, 80, 0, 0, 1, 4, 2, 3, 3, 0, 4, 9, 10, 40, 13, 1, 5, 6, 6, 9, 7, 20, 8, 5, 9, 7, 11, 40, 14, 0,
                     13, 0, 10, 40])
    stream = (b"\x01\x00\x00\x00\x02abc\x81\x01" + b"a line\r\n" + b"0123456789" * 6 + b"\nanother line\n"
              + b"Host: x\r\nKey: value\r\n\r\n" + b"tail" * 20)
    seed("reader", "all", program + stream, len(program) // 2)
    seed("reader", "headers", bytes([14, 0, 14, 0]) + b"Host: x\r\nA:b\n\r\nBad : c\r\n\r\n", 2, 1)
    seed("reader", "skip", bytes([12, 200, 5, 50, 13, 1, 5, 250, 0, 0, 13, 0, 3, 0]) + b"\x80\x80\x01" * 40, 7)


def chain():
    every = bytes(value for call in range(12) for value in (call | call % 3 << 4, call, 37 * call % 256))
    seed("chain", "every", every * 4, 0, 1)
    seed("chain", "receive", bytes([2, 0, 60, 18, 0, 60, 3, 1, 90, 2, 0, 99, 5, 1, 30, 4, 0, 20]) * 6, 2)
    seed("chain", "large", bytes([0, 4, 255, 3, 2 | 0x20, 44, 6, 2, 0, 7, 3, 9, 5, 1, 80, 10, 2, 0]) * 5, 5)


SDP = lines("v=0", "o=- 1 1 IN IP4 192.0.2.1", "s=x", "i=info", "c=IN IP4 0.0.0.0", "t=0 0", "a=tool:t", "a=control:*",
            "a=range:npt=0-", "m=video 0 RTP/AVP 96 97", "a=rtpmap:96 H264/90000",
            "a=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Py/34+A==; "
            "profile-level-id=64000A", "a=framerate:25.5", "a=recvonly", "a=control:streamid=0",
            "m=audio 5004 RTP/AVP 98", "a=rtpmap:98 MPEG4-GENERIC/44100/2",
            "a=fmtp:98 profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3; config=121056E500",
            "m=audio 0 RTP/AVP 8")


def sdp():
    seed("sdp", "all", SDP)
    seed("sdp", "lf", SDP.replace("\r\n", "\n").replace("MPEG4-GENERIC/44100/2", "MP4A-LATM/44100/2")
         .replace("config=121056E500", "config=400024203fc0;cpresent=0"))
    seed("sdp", "h265", "v=0\nm=video 0 RTP/AVP 99\na=rtpmap:99 H265/90000\na=fmtp:99 " + fmtps("h265.publish")[0].decode())
    for name in ("flv-h264-aac", "flv-h265-aac", "opus"):
        for i, text in enumerate(fmtps(name + ".publish")):
            seed("codec", f"fmtp-{name}-{i}", text, {"flv-h264-aac": (0, 2), "flv-h265-aac": (1, 2),
                                                       "opus": (3, 3)}[name][i], 1)


def codec():
    avc = bytes.fromhex("0164000affe100186764000aacd9420db01100000300010000030014 0f12259601000468ef8fcbfdf8f800")
    seed("codec", "avc", avc, 0, 0)
    seed("codec", "aac", bytes.fromhex("120856e500"), 2, 0)
    seed("codec", "opus", b"OpusHead\1\2\x38\1\x80\xbb\0\0\0\0\0", 3, 0)
    data = (VECTORS / "flv-h265-aac.flv").read_bytes()
    at = data.index(b"\x90hvc1") if b"\x90hvc1" in data else -1
    if at >= 0:
        seed("codec", "hevc", data[at : at + 700], 1, 15)
    seed("codec", "sets", record(0, avc[8:32]) + record(0, avc[35:39]) + record(0, avc[8:32]), 0, 2)


def rtp():
    for name, channels, how in (("h264-aac", (0, 1), 0), ("h265", (0, 1), 1), ("h264-aac", (2, 3), 2), ("opus", (0, 1), 3)):
        data = records(name + ".publish", channels)
        seed("rtp", f"{name}-{channels[0]}", data, how)
        seed("rtp", f"{name}-{channels[0]}-limits", records(name + ".publish", channels, size=1000), how | 8 | 16 | 32)
    aggregate = bytes.fromhex("80e0000100000001000000ff") + bytes.fromhex("7800056764000a11000468ef8fcb0003658801")
    fragments = [bytes.fromhex(f"806000020000000200 0000ff7c{flags}aabbcc") for flags in ("85", "05", "45")]
    seed("rtp", "aggregate", record(0, aggregate) + b"".join(record(0, packet) for packet in fragments))
    seed("rtp", "rtcp", record(1, bytes.fromhex(
        "81c8000c00000001e1e1e1e180000000000003e80000000a000000ff"
        "000000020a0000050000000100000002000000030000000481ca00040000000101036140620000000000000081cb0002000000010362796500")))
    for name, settings in (("flv-h264-aac", (0, 2)), ("flv-h265-aac", (1, 2)), ("flv-h264-opus", (0, 3)),
                           ("flv-pcma", (4, 5))):
        heads = b"".join(record(ord("f"), text) for text in fmtps(name + ".publish"))
        kinds = {0: 0, 1: 1, 2: 2, 3: 3}
        data = records(name + ".publish", (0, 1, 2, 3), lambda channel: kinds[channel] | 4, 3500)
        seed("rtp_flv", name, heads + data, *settings)


SESSION = b"j" * 24  # of the daemon, where random numbers are none
NONCE = "29" * 16


def say(connection, data, what=0):
    """A record of the session target: what a peer sends, and what else happens."""
    return record(connection | what << 3, data.encode("latin-1") if isinstance(data, str) else data)


FINISH, BREAK, STALL, WAIT = 4, 5, 6, 7
NOBODY, GRANT, REFUSE, KICK, KICK_ALL, LOOK, WAIT_LONG, DRAIN = 7, 0, 1, 2, 3, 4, 5, 6


AVC = bytes.fromhex("0164000affe100186764000aacd9420db01100000300010000030014 0f12259601000468ef8fcbfdf8f800")


def tag(kind, time, data):
    head = bytes([kind]) + struct.pack(">I", len(data))[1:] + struct.pack(">I", time)[1:] + bytes([time >> 24, 0, 0, 0])
    return head + data + struct.pack(">I", 11 + len(data))


def stream(frames=16):
    """A small one that lasts long enough to be sent on."""
    out = b"FLV\1\5\0\0\0\x09\0\0\0\0" + tag(9, 0, b"\x17\0\0\0\0" + AVC) + tag(8, 0, b"\xaf\0\x12\x08\x56\xe5\0")
    for i in range(frames):
        key = i % 6 == 0
        nal = (b"\x65" if key else b"\x41") + bytes(range(i, i + 8))
        out += tag(9, 40 * i, (b"\x17" if key else b"\x27") + b"\1\0\0\0" + struct.pack(">I", len(nal)) + nal)
        out += tag(8, 40 * i, b"\xaf\1" + bytes(range(i, i + 6)))
    return out


def chunked(data, size=700):
    out = b""
    for at in range(0, len(data), size):
        out += b"%x\r\n%s\r\n" % (len(data[at : at + size]), data[at : at + size])
    return out + b"0\r\n\r\n"


def published(name, size, stream):
    """What an RTSP publisher sends, as this daemon has to be told."""
    data = re.sub(rb"Session: \d+", b"Session: " + SESSION, vector(name + ".publish", size))
    return re.sub(rb"rtsp://[^/]*/live/[a-z0-9-]*", b"rtsp://h/" + stream, data)


def packets(frames=16):
    """What an RTSP publisher sends behind its requests."""
    out = b""
    for i in range(frames):
        nal = (b"\x65" if i % 6 == 0 else b"\x41") + bytes(range(i, i + 8))
        unit = bytes(range(i, i + 6))
        for channel, kind, step, payload in ((0, 0xE0, 3600, nal), (2, 0xE1, 1764, struct.pack(">HH", 16, len(unit) << 3) + unit)):
            packet = bytes([0x80, kind]) + struct.pack(">HII", i, step * i, 7 + channel) + payload
            out += b"$" + bytes([channel]) + struct.pack(">H", len(packet)) + packet
    return out


def digest(method, url, user, password):
    def md5(text):
        return hashlib.md5(text.encode()).hexdigest()
    response = md5(md5(f"{user}:sluiced:{password}") + f":{NONCE}:" + md5(f"{method}:{url}"))
    return f'Digest username="{user}", realm="sluiced", nonce="{NONCE}", uri="{url}", response="{response}"'


def rtsp_play(connection, stream, authorization=""):
    url = f"rtsp://h/{stream}"
    session = f"Session: {SESSION.decode()}"
    ways = [f"Authorization: {authorization}"] if authorization else []
    return (say(connection, lines(f"OPTIONS {url} RTSP/1.0", "CSeq: 1", "") +
                lines(f"DESCRIBE {url} RTSP/1.0", "CSeq: 2", "Accept: application/sdp", *ways, "")) +
            say(connection, lines(f"SETUP {url}/trackID=0 RTSP/1.0", "CSeq: 3",
                                  "Transport: RTP/AVP/TCP;unicast;interleaved=0-1", *ways, "") +
                lines(f"SETUP {url}/trackID=1 RTSP/1.0", "CSeq: 4", session,
                      "Transport: RTP/AVP/TCP;unicast;interleaved=2-3", *ways, "")) +
            say(connection, lines(f"PLAY {url} RTSP/1.0", "CSeq: 5", session, "Range: npt=0-", *ways, "")))


def session():
    get = lines("GET /live/a.flv HTTP/1.1", "Host: x", "")
    post = lines("POST /live/a.flv HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "Expect: 100-continue", "")
    media = stream()
    websocket = lines("GET /live/a.flv HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade",
                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", "")
    for settings in (0, 1, 2, 0x20):
        seed("session", f"http-{settings}", say(1, get) + say(5, websocket) + say(0, post) + say(0, chunked(media)[:1500])
             + say(NOBODY, b"", LOOK) + say(5, frame(9, b"hi")) + say(1, b"", STALL if settings == 0x20 else 0)
             + say(0, chunked(media)[1500:]) + say(5, frame(8, b"\x03\xe8")) + say(0, get) + say(1, b"", FINISH)
             + say(NOBODY, b"\x05", WAIT_LONG), settings)
    seed("session", "pipeline", say(0, lines("OPTIONS * HTTP/1.1", "Host: x", "") +
         lines("HEAD /live/a.flv HTTP/1.1", "Host: x", "") + lines("GET /nothing HTTP/1.1", "Host: x", "") +
         lines("DELETE /live/a.flv HTTP/1.1", "Host: x", "") + lines("POST /live/a.flv HTTP/1.1", "Host: x",
                                                                    "Content-Length: 5", "") + "GET / "))
    seed("session", "raw", say(1, get) + say(4, media[:900]) + say(4, media[900:], WAIT) + say(4, b"", FINISH)
         + say(4, stream(3), BREAK) + say(NOBODY, b"", LOOK), 1)
    for settings in (0, 1, 2):
        announced = published("flv-h264-aac", 3500, b"live/a").split(b"$", 1)[0]
        seed("session", f"rtsp-{settings}", say(2, announced) + say(2, packets())
             + rtsp_play(3, "live/a") + say(2, packets(3))
             + say(NOBODY, b"", LOOK) + say(1, get) + say(0, post.replace("/a", "/b") + chunked(media).decode("latin-1"))
             + rtsp_play(3, "live/b") + say(3, "$\1\0\x08\x81\xc9\0\1\0\0\0\1" + lines("GET_PARAMETER rtsp://h/live/a RTSP/1.0", "CSeq: 6",
                                                              "Session: " + SESSION.decode(), "") +
                   lines("TEARDOWN rtsp://h/live/a RTSP/1.0", "CSeq: 7", "Session: " + SESSION.decode(), ""))
             + say(2, b"", FINISH), settings)
    # Memory is scarce: pieces of one byte hold a block each, and the largest holders give way.
    for settings in (0x40, 0x41, 0x42, 0x43):
        announced = published("flv-h264-aac", 3500, b"live/a").split(b"$", 1)[0]
        seed("session", f"scarce-{settings}", say(2, announced) + say(2, packets()) + rtsp_play(3, "live/a")
             + say(0, post) + say(0, chunked(media)[:300]) + say(1, "GET /live/a.flv HTTP/1.1\r\nA: " + "a" * 400)
             + say(3, b"$\0\x0f\xff" + bytes(1000)) + say(5, websocket) + say(5, frame(2, bytes(300))[:200])
             + say(2, packets(3)[:200]) + say(NOBODY, b"", LOOK) + say(NOBODY, b"\x05", WAIT_LONG) + say(2, packets(3)[200:])
             + say(1, get) + say(3, lines("OPTIONS * RTSP/1.0", "CSeq: 9", "")) + say(0, chunked(media)[300:900])
             + say(2, b"", FINISH), settings)
    # All are evicted in the middle of what they do.
    for settings in (0, 1):
        announced = published("flv-h264-aac", 3500, b"live/a").split(b"$", 1)[0]
        evict = say(NOBODY, b"!", KICK_ALL)
        seed("session", f"evicted-{settings}", say(2, announced) + say(2, packets()) + rtsp_play(3, "live/a") + say(5, websocket)
             + say(1, get) + say(2, packets(3)[:200]) + evict + say(2, announced[:-100]) + say(1, get[:20]) + say(3, lines(
                 "DESCRIBE rtsp://h/live/c RTSP/1.0", "CSeq: 1", "Accept: application/sdp", "")) + evict + say(0, post)
             + say(0, chunked(media)[:400]) + say(1, get) + say(3, b"$\0\x0f\xff" + bytes(50)) + say(4, media[:400]) + evict
             + say(1, get) + say(2, announced) + say(2, packets()), settings)
    seed("session", "rtsp-wrong", say(2, lines("SETUP rtsp://h/live/a/0 RTSP/1.0", "CSeq: 1",
                                               "Transport: RTP/AVP;unicast;client_port=1-2", "") +
         lines("PLAY rtsp://h/live/a RTSP/1.0", "CSeq: 2", "Session: other", "") +
         lines("RECORD rtsp://h/live/a RTSP/1.0", "CSeq: 3", "Session: " + SESSION.decode(), "") +
         lines("PAUSE rtsp://h/live/a RTSP/1.0", "CSeq: 4", "") + lines("ANNOUNCE rtsp://h/../a RTSP/1.0", "CSeq: 5", "")))
    url = "rtsp://h/live/a"
    seed("session", "rights", rtsp_play(3, "live/a", digest("DESCRIBE", url, "u", "p"))
         + say(0, lines("PUT /live/a.flv?token=key-of-tokens HTTP/1.1", "Host: x", "Authorization: Basic dTpw",
                        f"Content-Length: {len(media)}", "")) + say(0, media) + say(1, get)
         + say(1, lines("GET /live/a.flv?token=%61nother HTTP/1.1", "Host: x", "")), 4)
    seed("session", "hooks", say(1, get) + say(0, post) + say(0, chunked(media)) + say(4, media[:500])
         + say(NOBODY, b"", GRANT) + say(2, published("pcma", 1200, b"live/b")) + say(NOBODY, b"", REFUSE)
         + say(5, websocket) + say(NOBODY, b"", GRANT), 8)
    camera = (lines("RTSP/1.0 401 Unauthorized", "CSeq: 1", 'WWW-Authenticate: Digest realm="c", nonce="n", qop="auth"', "")
              + lines("RTSP/1.0 200 OK", "CSeq: 2", "Public: DESCRIBE, SETUP, PLAY, GET_PARAMETER", ""))
    media_sdp = SDP.split("m=audio 5004")[0]
    seed("session", "camera", say(1, get) + say(6, b"") + say(6, camera) + say(6, lines(
        "RTSP/1.0 200 OK", "CSeq: 3", "Content-Type: application/sdp", f"Content-Length: {len(media_sdp)}", "")
        + media_sdp) + say(6, lines("RTSP/1.0 200 OK", "CSeq: 4", "Session: 1;timeout=10",
                                    "Transport: RTP/AVP/TCP;unicast;interleaved=0-1", "")
                           + lines("RTSP/1.0 200 OK", "CSeq: 5", ""))
         + say(6, packets()) + say(6, b"", WAIT)
         + say(NOBODY, b"\x20", WAIT_LONG), 3)
    seed("session", "operator", say(0, post + chunked(media[:1500]).decode("latin-1")) + say(1, get)
         + say(NOBODY, b"live/a", KICK) + say(0, post) + say(NOBODY, b"live/a1", KICK) + say(5, get)
         + say(NOBODY, b"", KICK_ALL) + say(1, get) + say(NOBODY, b"", DRAIN) + say(0, post), 1)


def rtmp_session():
    """A publisher and a player by RTMP, with and without what rules, hooks and several workers make of them."""
    def text(value):
        return b"\2" + struct.pack(">H", len(value)) + value

    def number(value):
        return b"\0" + struct.pack(">d", value)

    def begin(app, command, name):
        connect = (text(b"connect") + number(1) + b"\3\0\3app" + text(app) + b"\0\4type" + text(b"nonprivate")
                   + b"\0\6capsEx" + number(3) + b"\0\0\x09")
        return (rtmp_message(2, 0, 1, struct.pack(">I", 4096), number=0)
                + rtmp_message(3, 0, 20, connect, chunk=4096, number=0)
                + rtmp_message(3, 0, 20, text(b"createStream") + number(2) + b"\5", number=0)
                + rtmp_message(8, 0, 20, text(command) + number(3) + b"\5" + text(name)))

    shake = b"\3" + bytes(1536) + bytes(1536)
    media = rtmp_message(4, 0, 18, text(b"@setDataFrame") + text(b"onMetaData") + b"\x08\0\0\0\0\0\0\x09")
    media += rtmp_message(6, 0, 9, b"\x17\0\0\0\0" + AVC) + rtmp_message(4, 0, 8, b"\xaf\0\x12\x08\x56\xe5\0")
    for i in range(16):
        nal = (b"\x65" if i % 6 == 0 else b"\x41") + bytes(range(i, i + 8))
        frame = (b"\x17" if i % 6 == 0 else b"\x27") + b"\1\0\0\0" + struct.pack(">I", len(nal)) + nal
        media += rtmp_message(6, 40 * i, 9, frame) + rtmp_message(4, 40 * i, 8, b"\xaf\1" + bytes(range(i, i + 6)))
    parts = b"".join(bytes([9, 0, 0, 9, 0, 3, i, 0, 0, 0, 0]) + b"\x27\1\0\0\0abcd" + struct.pack(">I", 20) for i in range(9))
    pause, seek, over = (rtmp_message(8, 0, 20, text(name) + number(4) + b"\5" + more)
                         for name, more in ((b"pause", b"\1\1"), (b"seek", number(9)), (b"deleteStream", number(1))))
    for settings in (0, 1, 2, 4, 5, 8, 9, 0x20, 0x40):
        query = b"?user=u&pass=p" if settings & 4 else b""
        seed("session", f"rtmp-{settings}",
             say(3, shake) + say(3, begin(b"live", b"play", b"a" + query)) + say(NOBODY, b"", GRANT) + say(2, shake)
             + say(2, begin(b"live", b"publish", b"a" + query)) + say(NOBODY, b"", GRANT) + say(2, media[:700])
             + say(NOBODY, b"", LOOK) + say(3, b"", STALL if settings == 0x20 else 0) + say(3, pause)
             + say(2, media[700:] + rtmp_message(6, 900, 22, parts)) + say(3, pause[:-1] + b"\0" + seek)
             + say(1, lines("GET /live/a.flv HTTP/1.1", "Host: x", "")) + say(2, over) + say(3, over, FINISH)
             + say(2, shake + begin(b"live?authmod=adobe&user=u", b"publish", b"a")) + say(2, b"", BREAK)
             + say(NOBODY, b"\x05", WAIT_LONG), settings | 0x80)
    seed("session", "rtmp-operator",
         say(2, shake + begin(b"live", b"publish", b"a") + media) + say(3, shake + begin(b"live", b"play", b"a"))
         + say(NOBODY, b"live/a", KICK) + say(2, shake + begin(b"live/a", b"publish", b"?k=v")) + say(2, media[:500])
         + say(NOBODY, b"1", KICK_ALL) + say(2, shake[:2000]) + say(3, shake) + say(NOBODY, b"1", KICK_ALL)
         + say(2, shake + begin(b"live", b"play", b"a")) + say(3, shake + begin(b"live", b"publish", b"a") + media)
         + say(NOBODY, b"", DRAIN), 0x81)


def config():
    shipped = (HERE.parents[1] / "src/daemon/sluiced.conf").read_text()
    seed("config", "shipped", shipped[:2900], 0)
    everything = "\n".join(re.sub(r"^# ?(?=[a-z-]+ = )", "", line) for line in shipped.split("\n")
                           if re.match(r"# ?[a-z-]+ = |[a-z-]+ = ", line))
    seed("config", "settings", everything[:2900], 0)
    seed("config", "rights", 'rule = ["publish live/* from 10.0.0.0/8,fd00::/8 allow", "all * deny"];\nhook-play = '
         '"http://[::1]:8000/x";\nmerge-window = ["10", "live/a=100"];\nmemory = "64M"; gop-size = 65536;\n', 0)
    seed("config", "wrong", 'gop = 5;\nmemory = [1, 2];\nworkers = 5000000000;\nidle = "x";\nhttp = {};\n', 0)
    seed("config", "reload", 'workers = 1; idle = 5.5;\n\0workers = 2; wait = 60; flv = [];\n', 1)
    seed("config", "words", "--flv\n127.0.0.1:0=live/a\n--http=[::1]:0,merge-window=5\n--memory=64M\n--status\n--pull\n"
         "rtsp://u:p@h:55/a?b=c\n=live/b,on-demand\n--batch=0.5\n", 2)
    seed("config", "wrong-words", "--memroy=1\n--idle\n-x\nmore\n--check\n", 2)
    seed("config", "users", "# users\nu:p\npublish v:q:r\r\n\nplay w:s\n", 3)
    seed("config", "pulls", "# pulls\nrtsp://u:p%40@h:554/a = live/a\nrtsp://[::1]/x=live/b,on-demand\n", 4)


def cluster_sign():
    good = "from=edge; to=origin; epoch=1700000000000000; expires=1700000060000; via=a,b; mode=parent"
    values = (good, good + "; signature=" + 64 * "0", good.replace("a,b", "").replace("parent", "origin"),
              good.replace("a,b", "1,2,3,4,5,6,7,8,9"), good.replace("=17", "=017"), good + ";", "from=; to=",
              good.replace("expires=1700000060000", "expires=5"))
    for i, value in enumerate(values):
        seed("cluster_sign", f"{i}", record(7 * i, (value + "\n/live/a.flv").encode()))
    seed("cluster_sign", "all", b"".join(record(i, value.encode()) for i, value in enumerate(values)))


def cluster_reply():
    """Answers to each command, events, and answers to a script: in the order of fuzz_cluster_reply.c's kinds."""
    incarnation, host = "0006440000000abc", "live/a 00000000000000000000ffff7f000001"

    def bulk(*words):
        return "".join("$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def array(*words, kind="*"):
        return "%s%d\r\n%s" % (kind, len(words), "".join(word if word[-1:] == "\n" else bulk(word) for word in words))

    item = array(":0\r\n", "n1", incarnation, "http", "h:1", "7", incarnation, "9")
    none = array(":0\r\n", "", "", "", "", "3", "", "0")
    node = " ".join(("n1", incarnation, "5 http h:1 1 2 3 4"))
    events = ("claim live/a n1 %s 7 http h:1", "release live/a n1 %s 7", "ask live/a n1 %s 7", "leave n1 %s",
              "kick live/a n1 %s 1000 publisher", "ban live/a n1 %s " + host[7:] + " 1000", "unban live/a n1 %s")
    answers = (
        ("renew", 0, array(":0\r\n", "1764150000000001", incarnation, "12")),
        ("take", 2, array(":0\r\n", incarnation, item.replace(":0", ":1"), none) + array(":1\r\n", "")),
        ("drop", 1, ":1\r\n"),
        ("find", 2, array(item, none)),
        ("list", 0, bulk("1764150000000001 0\n" + node + "\n" + node.replace("n1", "n2").replace("http", "https"))),
        ("leave", 0, ":0\r\n"),
        ("notify", 0, ":7\r\n-NOSCRIPT No matching script.\r\n-ERR unknown command 'EVALSHA'\r\n"),
        ("ban", 0, ":1\r\n"),
        ("bans", 0, array("17", host, "86400000", host.replace("/a", "/b"), "1")),
        ("events", 0, "".join(array("message", "P:events", event % incarnation, kind=">") for event in events)
         + array("subscribe", "P:events", ":1\r\n", kind=">")),
        ("script", 3, bulk(40 * "a") + "-NOAUTH Authentication required.\r\n"))
    for kind, (name, count, text) in enumerate(answers):
        seed("cluster_reply", name, text.encode(), kind, count)


def words():
    said = ["publish,play live/*b from 10.0.0.0/8,fd00::/8 user=u,token=k,secret=k;live/aab", "live/a;v1.5.00ff",
            "10.0.0.0/8;10.1.2.3", "http://[::1]:8000/a?b", "bytes=5-10;\"3e8-1\"", "live/cam-1.x",
            "rtsp://u:p%3d@h:5/a?b=live/a,on-demand", "rtsp://h/a/;trackID=1", "[::1]:9000", "a=b&token=v1.%41",
            "line\r\n2026-01-01 \x1b[2J\"\\"]
    for i, text in enumerate(said):
        seed("words", f"{i}", record(i, text.encode("latin-1")), i % 2)
    seed("words", "more", b"".join(record(i, t) for i, t in (
        (0, b"all * allow;x"), (2, b"::/0;1.2.3.4"), (2, b"::ffff:0:0/96;1.2.3.4"), (4, b"bytes=-5"), (4, b"bytes=0-"),
        (5, b"live/../a"), (5, b"a/b/c/d"), (8, b"unix:/run/x"), (9, b"2026-11-21T20-15-03.123Z.flv"), (10, b"\xff\0x"))))
    seed("words", "pull-requests", b"".join(record(6, t) for t in (
        b'{"url":"rtsp://u:p%3d@h/a","stream":"live/a","on_demand":true,"ttl":60}', b'{"stream":"a","url":"rtsp:\\/\\/h\\u002fa","ttl":null}',
        b' { "url" : "rtsp://h/\\"\\\\" , "stream" : "\\ud83d\\ude00" } ', b'{"a":[1]}', b'{"url":1,"stream":-2.5}')))


def recording():
    metadata = b"\2\0\x0aonMetaData\x08\0\0\0\1\0\7padding\x0a\0\0\0\2\2\2\0" + b"x" * 512 + b"\2\2\0" + b"x" * 512 + b"\0\0\x09"
    media = stream()[13:]
    head = b"FLV\1\5\0\0\0\x09\0\0\0\0" + tag(18, 0, metadata)
    seed("recording", "cut", head + media[:-5])
    seed("recording", "whole", head + media)
    seed("recording", "broken", head + media[:500] + b"\0" * 60 + media[500:])
    seed("recording", "small", b"FLV\1\5\0\0\0\x09\0\0\0\0" + tag(18, 0, metadata[:14] + b"\0\0\0\0\0\0\x09") + media)
    seed("recording", "other", vector("flv-h264-aac.flv", 2500))


def amf():
    """What encoders send, and the classes of defects that parsers have had, with one CVE of each where there is one."""
    connect = (b"\2\0\7connect\0\x3f\xf0\0\0\0\0\0\0\3\0\3app\2\0\4live\0\x0bcapabilities\0\x40\x6d\xe0\0\0\0\0\0"
               b"\0\x0afourCcList\x0a\0\0\0\2\2\0\4av01\2\0\4hvc1\0\x12videoFourCcInfoMap\3\0\1*\0\x3f\xf0\0\0\0\0\0\0\0\0\x09"
               b"\0\0\x09")
    metadata = b"\2\0\x0aonMetaData\x08\0\0\0\2\0\5width\0\x40\x94\0\0\0\0\0\0\0\6stereo\1\1"
    for name, data in {
            "connect": connect, "metadata": metadata + b"\0\0\x09", "metadata-without-end": metadata,
            "publish": b"\2\0\7publish\0\x40\x14\0\0\0\0\0\0\5\2\0\1a\2\0\4live",
            "markers": b"\6\7\1\2\x0d\x0b\x40\0\0\0\0\0\0\0\0\0\x0c\0\0\0\3abc\x0f\0\0\0\4<a/>\x10\0\3Foo\0\1x\5\0\0\x09",
            "mixed": b"\x11\6\3a\5\x11\x09\3\1\6\0\3\0\1k\x11\x0a\x0b\1\3m\1\1\0\0\x09",
            "length-beyond-end": b"\2\xff\xffabc", "long-length-beyond-end-cve-2005-3901": b"\x0c\xff\xff\xff\xffabc",
            "field-beyond-end-cve-2017-11665": connect[:40] + b"\xff\xffapp", "count-beyond-end": b"\x0a\xff\xff\xff\xff\5\5",
            "no-value-cve-2015-8272": b"\3\0\1a\0\0\x09", "deep-objects": b"\3\0\1a" * 700, "deep-arrays": b"\x0a\0\0\0\1" * 500,
            "long-name-nginx-http-flv-170": b"\3\x03\xe8" + b"n" * 1000 + b"\5\0\0\x09"}.items():
        seed("amf", name, data, 0)
    for name, data in {
            "markers3": b"\0\1\2\3\4\5\5\x40\0\0\0\0\0\0\0\6\7abc\7\7<a>\x0b\7<b>\x0c\5\1\2\x08\1\x40\0\0\0\0\0\0\0\x08\6",
            "integers": b"\4\x7f\4\x81\0\4\xff\xff\x7f\4\xbf\xff\xff\xff\4\xc0\x80\x80\0\4\xff\xff\xff\xff",
            "arrays": b"\x09\5\3x\4\1\3a\x09\1\1\1\4\2\4\3\x0d\5\0\0\0\0\1\0\0\0\2\x0f\3\0\x40\0\0\0\0\0\0\0",
            "vectors": b"\x10\5\0\3C\1\4\1\x11\3\0\6\3k\6\5vv",
            "classes": b"\x0a\x2b\3P\3x\3a\4\1\4\2\3z\4\3\1\x0a\1\4\4\4\5\1\x0a\x0b\1\2\4\6\1",
            "references": b"\6\3a\6\1\6\3b\6\2\6\0\x09\1\1\x09\0\x0a\2",
            "string-beyond-end-cve-2015-8270": b"\6\xff\xff\xff\xff", "reference-beyond-table": b"\6\x7e\x0a\x7d",
            "properties-beyond-end-cve-2015-8271": b"\x0a\xff\xff\xff\xfb\1\3a", "external": b"\x0a\7\3P\1",
            "itself": b"\x09\1\3a\x09\0\1", "deep3": b"\x09\3\1" * 800}.items():
        seed("amf", name, data, 1)
    seed("amf", "limit-depth", connect, 2)
    seed("amf", "limit-values", connect, 4)
    seed("amf", "limit-bytes", connect, 6)


def rtmp_message(stream, time, kind, data, form=0, chunk=128, number=1):
    """A message in chunks; of a form other than 0 the time is a difference."""
    first = bytes([form << 6 | stream]) + struct.pack(">I", min(time, 0xffffff))[1:]
    first += struct.pack(">I", len(data))[1:] + bytes([kind]) if form < 2 else b""
    first += struct.pack("<I", number) if form == 0 else b""
    more = struct.pack(">I", time) if time >= 0xffffff else b""
    parts = [data[at : at + chunk] for at in range(0, len(data), chunk)] or [b""]
    return first + more + (bytes([0xc0 | stream]) + more).join(parts)


def rtmp():
    """A publisher's conversation, and the classes of defects that servers have had."""
    def text(value):
        return b"\2" + struct.pack(">H", len(value)) + value

    def number(value):
        return b"\0" + struct.pack(">d", value)

    def control(kind, value):
        return rtmp_message(2, 0, kind, struct.pack(">I", value), number=0)

    connect = text(b"connect") + number(1) + b"\3\0\3app" + text(b"live") + b"\0\5tcUrl" + text(b"rtmp://h/live") + b"\0\0\x09"
    commands = (rtmp_message(3, 0, 20, connect, number=0) + control(1, 300)
                + rtmp_message(3, 0, 20, text(b"createStream") + number(2) + b"\5", chunk=300, number=0)
                + rtmp_message(8, 0, 20, text(b"publish") + number(3) + b"\5" + text(b"name") + text(b"live"), chunk=300))
    frame = bytes(range(256)) * 2
    media = (rtmp_message(4, 0, 18, text(b"@setDataFrame") + text(b"onMetaData") + b"\x08\0\0\0\0\0\0\x09")
             + rtmp_message(6, 40, 9, b"\x27\1" + frame) + rtmp_message(4, 40, 8, b"\xaf\1abc")
             + rtmp_message(6, 40, 9, b"\x27\1" + frame, 1) + rtmp_message(4, 23, 8, b"\xaf\1def", 1)
             + rtmp_message(4, 23, 8, b"\xaf\1ghi", 2) + b"\xc4\xaf\1jkl")
    pieces = rtmp_message(6, 0, 9, frame[:200])
    late = rtmp_message(6, 0x1020304, 9, frame[:300])
    aggregate = b"".join(bytes([kind, 0, 0, len(data), 0, 1, at, 0, 0, 0, 0]) + data + struct.pack(">I", 11 + len(data))
                         for kind, at, data in ((9, 0, b"\x27\1ab"), (8, 5, b"\xaf\1"), (9, 40, b"")))
    for how in range(4):
        seed("rtmp", f"publish-{how}", commands + media, how)
    for name, data in {
            "interleaved": pieces[:140] + rtmp_message(4, 5, 8, b"audio") + pieces[140:], "late": late,
            "late-left-out": late.replace(b"\xc6\1\2\3\4", b"\xc6"),
            "late-absolute": rtmp_message(6, 5, 9, b"x") + rtmp_message(6, 0x1000000, 9, frame[:200], 1)
                             .replace(b"\xc6\1\0\0\0", b"\xc6\1\0\0\5"),
            "size-changes-cve-2016-10191": pieces[:140] + b"\x46\0\0\0\0\xff\xff\x09" + frame,
            "type-changes": pieces[:140] + b"\x46\0\0\0\0\0\xc8\x08" + frame, "abort": pieces[:140] + control(2, 6) + pieces,
            "chunk-size-1-red5-475": control(1, 1) + rtmp_message(6, 0, 9, frame[:60], chunk=1),
            "chunk-size-largest-nginx-rtmp-1042": control(1, 0x7fffffff) + rtmp_message(6, 0, 9, frame, chunk=1000),
            "chunk-size-0": control(1, 0), "chunk-size-signed": control(1, 0xffffffff),
            "message-largest-red5-456": b"\6\0\0\0\xff\xff\xff\x09\1\0\0\0" + frame,
            "chunk-streams-red5-479": b"".join(b"\1" + struct.pack("<H", at) + bytes(11) for at in range(60)),
            "amf-nested-zlmediakit-4787": rtmp_message(3, 0, 20, text(b"connect") + number(1) + b"\3\0\1a" * 600),
            "amf3-command": rtmp_message(3, 0, 17, b"\0" + text(b"connect") + number(1) + b"\x11\x0a\x0b\1\7app\6\x09live\1"),
            "aggregate": rtmp_message(6, 1000, 22, aggregate) + rtmp_message(6, 1000, 22, aggregate[:30]),
            "controls": b"".join(control(kind, 50) for kind in (3, 5, 6)) + rtmp_message(2, 0, 4, b"\0\3\0\0\0\1\0\0\x0b\xb8")
                        + rtmp_message(2, 0, 4, b"\0\x20\0\0\0\1") + rtmp_message(2, 0, 6, b"\0\0\1\0\2") + media,
            "fresh-type-1": b"\x42\0\0\0\0\0\x0a\4\0\3\0\0\0\0\0\0\0\0", "fresh-type-3": b"\xc5abc"}.items():
        seed("rtmp", name, data, 2 if "chunk-size" in name else 0)


def rtmp_client():
    """What servers answer to a publisher and to a player: in order, refused, asking for a login, and on without end."""
    def text(value):
        return b"\2" + struct.pack(">H", len(value)) + value

    def number(value):
        return b"\0" + struct.pack(">d", value)

    def info(level, code, description=b""):
        return (b"\5\3\0\5level" + text(level) + b"\0\4code" + text(code) + b"\0\x0bdescription" + text(description)
                + b"\0\0\x09")

    def command(name, transaction, *values):
        return rtmp_message(3, 0, 20, text(name) + number(transaction) + b"".join(values), number=0)

    def control(kind, value):
        return rtmp_message(2, 0, kind, value, number=0)

    connected = (control(5, b"\0\0\0\x40") + control(6, b"\0\0\0\x40\2")
                 + command(b"_result", 1, info(b"status", b"NetConnection.Connect.Success")) + control(1, b"\0\0\x10\0"))
    created = command(b"_result", 4, b"\5", number(1))
    started = {0: command(b"onStatus", 0, info(b"status", b"NetStream.Play.Start")),
               1: command(b"onStatus", 0, info(b"status", b"NetStream.Publish.Start"))}
    media = (rtmp_message(5, 0, 18, text(b"|RtmpSampleAccess") + b"\1\0\1\0") + rtmp_message(5, 0, 18, text(b"onMetaData") + b"\5")
             + rtmp_message(5, 0, 15, b"\0" + text(b"onMetaData") + b"\5") + rtmp_message(6, 40, 9, b"\x17\1\0\0\0frame")
             + rtmp_message(4, 40, 8, b"\xaf\1abc") + rtmp_message(4, 50, 8, b"")
             + rtmp_message(6, 60, 22, b"\x08\0\0\3\0\0\5\0\0\0\0\xaf\1a\0\0\0\x0e\x09\0\0\2\0\0\7\0\0\0\0\x17\1\0\0\0\x0d"))
    ping = control(4, b"\0\6\0\0\0\1")
    for how in (0, 1):
        seed("rtmp_client", "runs-%d" % how, connected + created + started[how] + media + ping, how)
    seed("rtmp_client", "stops", connected + created + media + command(b"onStatus", 0, info(b"status", b"NetStream.Play.Stop")))
    seed("rtmp_client", "pings", connected + 500 * ping)
    for name, code, description in (("app", b"NetConnection.Connect.InvalidApp", b""), ("key", b"rtmp://host/live/name?key=1", b""),
                                    ("name", b"", b"[ code=403 need auth; authmod=adobe ]"),
                                    ("challenge", b"", b"authmod=adobe : ?reason=needauth&user=u&salt=a&challenge=b&opaque=c"),
                                    ("long", b"", b"authmod=adobe" + bytes(1100))):
        seed("rtmp_client", "refused-" + name, command(b"_error", 1, info(b"error", code, description)), 2)
    seed("rtmp_client", "not-found", connected + created + command(b"onStatus", 0, info(b"error", b"NetStream.Play.StreamNotFound")))
    seed("rtmp_client", "no-transaction", connected + rtmp_message(3, 0, 20, text(b"onFCPublish")) + created, 1)
    seed("rtmp_client", "too-long", connected + created + rtmp_message(6, 0, 9, bytes(5000), chunk=4096), 4)


def rtmp_handshake():
    """Blocks without digests, and with what the target takes for one, in both places."""
    def signed(key, base):
        block = bytearray(b"\0\0\0\0\4\5\0\1" + bytes(i * 5 & 255 for i in range(1528)))
        at = base + 4 + sum(block[base : base + 4]) % 728
        total = 0
        for byte in key + block[:at] + block[at + 32 :]:
            total = total * 31 + byte & 0xffffffff
        block[at : at + 32] = struct.pack("<I", total) * 8
        return b"\3" + bytes(block)

    keys = (b"Genuine Adobe Flash Player 001", b"Genuine Adobe Flash Media Server 001")
    simple = b"\3" + bytes(8) + bytes(i & 255 for i in range(1528))
    for role in range(2):
        seed("rtmp_handshake", f"simple-{role}", simple + bytes(1536) + b"behind", role)
        seed("rtmp_handshake", f"simple-here-{role}", simple + bytes(1536), role | 2)
        for place, base in enumerate((8, 772)):
            seed("rtmp_handshake", f"digest-{role}-{place}", signed(keys[role], base) + bytes(1540), role | 2 | 4 << place)
        seed("rtmp_handshake", f"wrong-digest-{role}", signed(b"", 8) + bytes(1536), role | 2)
        seed("rtmp_handshake", f"http-{role}", "GET / HTTP/1.1\r\n\r\n", role)
        seed("rtmp_handshake", f"rtmpe-{role}", b"\6" + bytes(1536), role)
        seed("rtmp_handshake", f"cut-{role}", simple[:1000], role)


def tls():
    """First messages of clients; what others say on the port; and rules for two stages: nothing, cuts, losses, changes."""
    def block(data, size):
        return len(data).to_bytes(size, "big") + data

    def extension(kind, data):
        return struct.pack(">H", kind) + block(data, 2)

    def hello(*extensions):
        body = b"\3\3" + bytes(range(32)) + block(b"", 1) + block(bytes.fromhex("130113021303c02bc02fcca9"), 2) + block(b"\0", 1)
        body += block(b"".join(extensions), 2)
        message = b"\1" + block(body, 3)
        return b"\x16\3\1" + block(message, 2)

    name = extension(0, block(b"\0" + block(b"fuzz", 2), 2))
    groups = extension(10, block(bytes.fromhex("001d0017"), 2))
    algorithms = extension(13, block(bytes.fromhex("040308040401"), 2))
    protocols = extension(16, block(block(b"h2", 1) + block(b"http/1.1", 1), 2))
    versions = extension(43, block(b"\3\4\3\3", 1))
    share = extension(51, block(bytes.fromhex("001d") + block(bytes([9] + [0] * 31), 2), 2))
    modern = hello(name, groups, algorithms, protocols, versions, share)
    for version in range(2):
        seed("tls", f"hello-{version}", modern, version)
        seed("tls", f"hello-old-{version}", hello(name, groups, algorithms), version)
        seed("tls", f"hello-retry-{version}", hello(name, groups, algorithms, versions, extension(51, block(b"", 2))), version)
        seed("tls", f"alert-{version}", b"\x15\3\3\0\2\1\0", version)
        seed("tls", f"ccs-{version}", modern + b"\x14\3\3\0\1\1" * 3 + b"\x17\3\3\0\x20" + bytes(32), version)
        seed("tls", f"client-{version}", b"\x16\3\3\0\4\x0e\0\0\0", version | 4)
        seed("tls", f"http-{version}", "GET / HTTP/1.1\r\n\r\n", version)
        seed("tls", f"rtmp-{version}", b"\3" + bytes(40), version)
        seed("tls", f"pass-{version}", b"", version | 2)
        seed("tls", f"cuts-{version}", bytes(range(0, 64)) * 6, version | 2)
        seed("tls", f"loss-{version}", b"\x3f" * 9 + b"\x85", version | 2)
        seed("tls", f"change-{version}", b"\x3f" * 6 + b"\xd3\x21" + b"\xff" * 9 + b"\xc1\7", version | 2)


def text():
    seed("text", "utf8", "κόσμε \U0001F600 é".encode())
    seed("text", "base64", "aGVsbG8gd29ybGQ=")
    seed("text", "hex", "0123456789abcdefABCDEF")
    seed("text", "bytes", bytes(range(120, 256)))


for make in (flv, rtsp, http, http_response, websocket, resp, amf, rtmp, rtmp_client, rtmp_handshake, reader, chain, sdp, codec, rtp, tls, text, session, rtmp_session, config, cluster_sign, cluster_reply, words, recording):
    make()
for target, inputs in seeds.items():
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("seed-*"):
        old.unlink()
    for name, data in inputs.items():
        (folder / f"seed-{name}").write_bytes(data)
