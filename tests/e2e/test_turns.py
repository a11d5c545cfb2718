"""A turn: whoever has sent much is handled piece by piece, and whoever has sent little is answered in between.

The daemon stands still while the first has its socket filled with small messages, the last of which is logged, and the
second asks for something that is logged, too: without a budget of work per turn the first is done before the second.
"""

import socket
import struct
import unittest

import flv
import harness
import rtmp
import rtsp
from camera import Camera
from harness import Daemon

# What fits into a socket that nobody reads, and is many times what a session may do in a turn.
TAGS, PINGS, PACKETS, REQUESTS = 4000, 8000, 2500, 1200
RTMP_MESSAGES, RTMP_CHUNKS = 45, 100  # Chunks of one byte of each message.
AUDIO = 64  # frames of a packet: as many as there may be

AUDIO_SDP = "\r\n".join([
    "v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=-", "c=IN IP4 127.0.0.1", "t=0 0",
    "m=audio 0 RTP/AVP 97", "a=rtpmap:97 MPEG4-GENERIC/44100/1",
    "a=fmtp:97 mode=AAC-hbr;%s;config=1208", "a=control:streamid=0", ""])
LENGTHS = "sizelength=13;indexlength=3;indexdeltalength=3"


def rtp(sequence, payload, timestamp=0, payload_type=97, channel=0):
    """One interleaved packet."""
    packet = struct.pack(">BBHII", 0x80, 0x80 | payload_type, sequence & 0xFFFF, timestamp & 0xFFFFFFFF, 0x1234) + payload
    return struct.pack(">BBH", 0x24, channel, len(packet)) + packet


def audio_packet(sequence, frames):
    """A packet of AAC-hbr: that many frames of one byte."""
    payload = struct.pack(">H", 16 * frames) + struct.pack(">H", 1 << 3) * frames + b"\x21" * frames
    return rtp(sequence, payload, sequence * frames * 1024)


def small_tags(count):
    """As small as they get: the header of an audio frame, and one byte of it."""
    return b"".join(flv.Tag(8, at, b"\xaf\x01\x21").pack() for at in range(count))


def chunked(data, size):
    pieces = [data[at:at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class Turns(harness.SettledTest):
    def check(self, hostile, burst, end, message, hang_up=False, **fields):
        """The burst and its end, which the daemon logs, are behind what another connection asks for."""
        other = self.stack.enter_context(self.daemon.connect())
        other.sendall(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(harness.read_head(other)[0], 404)
        other.close()
        other = self.stack.enter_context(self.daemon.connect())
        # It has been accepted when one that came later is known.
        self.daemon.request("OPTIONS", "/a")
        address = harness.address_text(other)
        with self.daemon.standing_still():
            hostile.setblocking(False)
            sent = hostile.send(burst + end)
            self.assertEqual(sent, len(burst + end), "the socket does not hold so much")
            hostile.settimeout(harness.PATIENCE)
            if hang_up:
                hostile.shutdown(socket.SHUT_WR)
            other.sendall(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
        line = self.daemon.wait_log(message, **fields)
        texts = [line.text for line in self.daemon.log()]
        answered = self.daemon.wait_log("request refused", peer=address)
        self.assertLess(texts.index(answered.text) if answered.text in texts else len(texts), texts.index(line.text))
        return line


    @staticmethod
    def play(peer):
        """By WebSocket."""
        peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


class TurnsTest(Turns):
    def setUp(self):
        self.daemon = self.start("--workers", "1", "--wait", "60", listen=rtsp.listen())

    def test_flv(self):
        with self.daemon.connect("flv") as peer:
            peer.sendall(flv.header() + flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack())
            self.daemon.wait_log("publisher started", proto="flv")
            line = self.check(peer, small_tags(TAGS), b"\xff" * 11, "publisher ended", proto="flv")
            self.assertEqual(int(line.fields["audio_frames"]), TAGS)

    def publish(self, body, peer):
        peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: a\r\n" + body + b"\r\n\r\n")

    def test_http(self):
        first = flv.header() + flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack()
        data = small_tags(TAGS)
        with self.daemon.connect() as peer:
            self.publish(b"Content-Length: %d" % (len(first) + len(data)), peer)
            peer.sendall(first)
            self.daemon.wait_log("publisher started", proto="http")
            line = self.check(peer, data, b"", "publisher ended", proto="http")
            self.assertEqual(int(line.fields["audio_frames"]), TAGS)
            self.assertEqual(harness.read_head(peer)[0], 200)

    def test_http_in_chunks(self):
        first = flv.header() + flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack()
        with self.daemon.connect() as peer:
            self.publish(b"Transfer-Encoding: chunked", peer)
            peer.sendall(b"%x\r\n%s\r\n" % (len(first), first))
            self.daemon.wait_log("publisher started", proto="http")
            line = self.check(peer, chunked(small_tags(TAGS), 1800), b"", "publisher ended", proto="http")
            self.assertEqual(int(line.fields["audio_frames"]), TAGS)
            self.assertEqual(harness.read_head(peer)[0], 200)

    def test_websocket(self):
        with self.daemon.connect() as peer:
            self.play(peer)
            self.daemon.wait_player("live/a")
            pings = b"\x89\x80\0\0\0\0" * PINGS
            self.check(peer, pings, b"\x88\x80\0\0\0\0", "player ended", peer=harness.address_text(peer))

    def record(self, client, sdp):
        client.record(sdp)
        self.daemon.wait_log("publisher started", proto="rtsp")

    def test_rtp(self):
        """Packets that come to nothing, but for the time that they take."""
        with rtsp.Client(self.daemon) as client:
            self.record(client, AUDIO_SDP % LENGTHS)
            burst = b"".join(rtp(number, b"\0\x10\0") for number in range(PACKETS))
            end = b"TEARDOWN %s RTSP/1.0\r\nCSeq: 99\r\nSession: %s\r\n\r\n" % (
                client.url.encode(), client.session.encode())
            self.check(client.peer, burst, end, "publisher ended", proto="rtsp")
            line = self.daemon.wait_log("packets received")
            self.assertEqual(int(line.fields["packets"]), PACKETS)
            self.assertEqual(client.reply().status, 200)

    def test_packets_of_many_frames(self):
        """The frames of a packet are parted between turns, and none is lost by that."""
        packets = 140
        with rtsp.Client(self.daemon) as client:
            self.record(client, AUDIO_SDP % LENGTHS)
            burst = b"".join(audio_packet(number, AUDIO) for number in range(packets))
            end = b"TEARDOWN %s RTSP/1.0\r\nCSeq: 99\r\nSession: %s\r\n\r\n" % (
                client.url.encode(), client.session.encode())
            line = self.check(client.peer, burst, end, "publisher ended", proto="rtsp")
            self.assertEqual(int(line.fields["audio_frames"]), packets * AUDIO)

    def test_rtsp_requests(self):
        with rtsp.Client(self.daemon) as client:
            self.assertEqual(client.ask("OPTIONS").status, 200)
            burst = b"OPTIONS * RTSP/1.0\r\nCSeq: 7\r\n\r\n" * REQUESTS
            self.check(client.peer, burst, b"NOTHING * RTSP/1.0\r\nCSeq: 8\r\n\r\n", "request refused",
                       peer=harness.address_text(client.peer))
            statuses = [client.reply().status for _ in range(REQUESTS + 1)]
            self.assertEqual(statuses, [200] * REQUESTS + [501])


class ChunksTest(Turns):
    """Small chunks are copied together."""

    def setUp(self):
        self.daemon = self.start("--workers", "1", listen=("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0"))

    def check_settled(self, daemon):
        daemon.blocks_settled(may_copy=True)

    def test_rtmp_chunks(self):
        """Few messages, each of many chunks: chunks are what counts."""
        with rtmp.Client(self.daemon) as client:
            self.assertEqual(client.begin("publish", "a")["code"], "NetStream.Publish.Start")
            client.set_chunk_size(1)
            client.send(rtmp.AUDIO, b"\xaf\x00\x12\x08", channel=4)
            tags = b"".join(b"".join(rtmp.chunked(rtmp.AUDIO, b"\xaf\x01" + bytes(RTMP_CHUNKS - 2), 1, timestamp=at, channel=4))
                            for at in range(RTMP_MESSAGES))
            end = b"".join(rtmp.chunked(rtmp.COMMAND, b"".join(map(rtmp.amf, ("deleteStream", 4, None, 1))), 1, 0, channel=3))
            line = self.check(client.peer, tags, end, "publisher ended", proto="rtmp")
            self.assertEqual(int(line.fields["audio_frames"]), RTMP_MESSAGES)


class BacklogTest(harness.SettledTest):
    """Who sends faster than its turns come waits: what is received and not handled does not grow."""

    MOST = 4 << 20  # of blocks at once: 28 MiB without a limit

    def check(self, protocol, request, data):
        daemon = self.start("--workers", "1", "--gop-size", "64K", listen=rtsp.listen())
        first = flv.header() + flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack()
        with daemon.connect(protocol) as peer:
            peer.sendall(request + first)
            for _ in range(40):
                peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            daemon.wait_log("publisher ended", proto=protocol)
        pool = daemon.api()["pool"]
        self.assertLessEqual(pool["blocks_held_peak"] * pool["block_size"], self.MOST)

    def test_flv(self):
        self.check("flv", b"", small_tags(40000))

    def test_http(self):
        self.check("http", b"POST /live/a.flv HTTP/1.0\r\n\r\n", small_tags(40000))


class PullTest(Turns):
    """The same of a camera that is pulled from, which hangs up behind its burst."""

    def test_burst(self):
        camera = Camera(self, media=False, DESCRIBE=lambda request: Camera.reply(
            request, 200, AUDIO_SDP % LENGTHS, Content_Type="application/sdp", Content_Base=request.url + "/")).start()
        self.daemon = self.start("--workers", "1", "--pull", camera.url() + "=live/p", listen=rtsp.listen())
        camera.wait_request("PLAY")
        self.daemon.wait_log("publisher started")
        packets = 140
        burst = b"".join(audio_packet(number, AUDIO) for number in range(packets))
        line = self.check(camera.peer(), burst, b"", "publisher ended", hang_up=True)
        self.assertEqual(int(line.fields["audio_frames"]), packets * AUDIO)

    def check_settled(self, daemon):
        """It is pulled again and again."""


class EndTest(harness.SettledTest):
    """The end of a connection does not overtake what came before it."""

    def setUp(self):
        self.daemon = self.start("--workers", "1", listen=rtsp.listen())

    def test_flv(self):
        with self.daemon.connect("flv") as peer:
            with self.daemon.standing_still():
                peer.sendall(flv.header() + flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack() + small_tags(TAGS))
                peer.shutdown(socket.SHUT_WR)
            line = self.daemon.wait_log("publisher ended")
        self.assertEqual((line.fields["reason"], int(line.fields["audio_frames"])), ("end of stream", TAGS))

    def test_rtp(self):
        packets = 140
        with rtsp.Client(self.daemon) as client:
            client.record(AUDIO_SDP % LENGTHS)
            with self.daemon.standing_still():
                client.send_raw(b"".join(audio_packet(number, AUDIO) for number in range(packets)))
                client.peer.shutdown(socket.SHUT_WR)
            line = self.daemon.wait_log("publisher ended")
        self.assertEqual(int(line.fields["audio_frames"]), packets * AUDIO)


class EndedTest(Turns):
    """A publisher that ends with work left from an earlier turn, and stays connected: nobody waits for it any more."""

    def setUp(self):
        self.daemon = self.start("--workers", "1", listen=rtsp.listen())

    def check_order(self):
        """One that has had much lately is not put behind those that come later, since nobody has work left."""
        with rtsp.Client(self.daemon) as busy, self.daemon.connect() as later:
            self.daemon.request("OPTIONS", "/a")
            requests = 128
            busy.peer.sendall(b"OPTIONS * RTSP/1.0\r\nCSeq: 7\r\n\r\n" * requests)
            self.assertEqual({busy.reply().status for _ in range(requests)}, {200})
            # The turns for this end what it may have left itself.
            self.daemon.request("OPTIONS", "/a")
            addresses = [harness.address_text(peer) for peer in (busy.peer, later)]
            with self.daemon.standing_still():
                busy.peer.sendall(b"NOTHING * RTSP/1.0\r\nCSeq: 8\r\n\r\n")
                later.sendall(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
            for address in addresses:
                self.daemon.wait_log("request refused", peer=address)
            found = [line.fields["peer"] for line in self.daemon.log("request refused")]
            self.assertEqual([peer for peer in found if peer in addresses], addresses)

    def test_rtsp(self):
        with rtsp.Client(self.daemon) as client:
            client.record(AUDIO_SDP % LENGTHS)
            self.daemon.wait_log("publisher started", proto="rtsp")
            with self.daemon.standing_still():
                client.send_raw(b"".join(rtp(number, b"\0\x10\0") for number in range(PACKETS)) + b"\xff\r\n\r\n")
            self.daemon.wait_log("publisher ended", proto="rtsp", reason="malformed RTSP")
            self.check_order()

    def test_http(self):
        tags = small_tags(TAGS) + b"\xff" * 11
        with self.daemon.connect() as peer:
            peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + flv.header() +
                         flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack())
            self.daemon.wait_log("publisher started", proto="http")
            with self.daemon.standing_still():
                peer.sendall(tags)
            self.daemon.wait_log("publisher ended", proto="http", reason="not FLV")
            self.check_order()

    def test_websocket(self):
        """A player, whose messages are no better."""
        with self.daemon.connect("flv") as publisher, self.daemon.connect() as peer:
            publisher.sendall(flv.header(flv.HAS_AUDIO) + flv.Tag(8, 0, b"\xaf\x00\x12\x08").pack() + small_tags(3))
            self.daemon.wait_stream("live/a")
            self.play(peer)
            self.assertEqual(harness.read_head(peer)[0], 101)
            with self.daemon.standing_still():
                peer.sendall(b"\x89\x80\0\0\0\0" * PINGS + b"\x81\x01a")
            self.daemon.wait_log("player ended", peer=harness.address_text(peer))
            self.check_order()


class LengthsTest(harness.SettledTest):
    """What no encoder says or sends of AAC."""

    def setUp(self):
        self.daemon = self.start(listen=rtsp.listen())

    def test_lengths(self):
        for size, index, status in ((6, 2, 200), (13, 3, 200), (16, 0, 200), (13, 0, 200), (1, 0, 415), (5, 2, 415),
                                    (7, 2, 415), (12, 3, 415), (14, 3, 415), (17, 0, 415), (13, 1, 415), (13, 4, 415)):
            with self.subTest(size=size, index=index), rtsp.Client(self.daemon) as client:
                lengths = "sizelength=%d;indexlength=%d;indexdeltalength=%d" % (size, index, index)
                self.assertEqual(client.ask("ANNOUNCE", body=AUDIO_SDP % lengths).status, status)
                client.ask("TEARDOWN")
            harness.wait_until(lambda: not self.daemon.stream("live/a"), "the publisher's end")

    def test_frames_of_a_packet(self):
        for frames, malformed in ((AUDIO, 0), (AUDIO + 1, 1), (1000, 1)):
            with self.subTest(frames=frames), rtsp.Client(self.daemon) as client:
                count = len(self.daemon.log("publisher ended"))
                client.record(AUDIO_SDP % LENGTHS)
                client.send_raw(audio_packet(0, 1) + audio_packet(1, frames))
                self.assertEqual(client.ask("TEARDOWN").status, 200)
                line = self.daemon.wait_log("publisher ended", count + 1)
                self.assertEqual(int(line.fields["audio_frames"]), 1 if malformed else 1 + frames)
                line = self.daemon.wait_log("packets received", count + 1)
                self.assertEqual(int(line.fields["malformed"]), malformed)


if __name__ == "__main__":
    harness.main()
