"""RTSP for the end-to-end tests: a client by hand, which sees every byte that the daemon sends."""

import collections
import contextlib
import socket
import struct
import threading

import harness

Reply = collections.namedtuple("Reply", "status headers body")
Rtp = collections.namedtuple("Rtp", "channel marker payload_type sequence timestamp ssrc payload")

SDP = "\r\n".join([
    "v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=-", "c=IN IP4 127.0.0.1", "t=0 0",
    "m=video 0 RTP/AVP 96", "a=rtpmap:96 H264/90000",
    "a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Pyw==", "a=control:streamid=0",
    "m=audio 0 RTP/AVP 97", "a=rtpmap:97 MPEG4-GENERIC/44100/1",
    "a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config=1208", "a=control:streamid=1", ""])


class Ended(Exception):
    """The daemon has ended the connection."""


class Client:
    """One connection: requests out; replies and interleaved frames in, told apart strictly."""

    def __init__(self, daemon, name="live/a", receive_buffer=0, at=0):
        host, port = daemon.address("rtsp", at)
        self.url = "rtsp://%s:%d/%s" % ("[%s]" % host if ":" in host else host, port, name)
        self.peer = daemon.connect("rtsp", at, receive_buffer)
        self.session = self.reason = None  # The reason is the last reply's.
        self.frames = []  # (channel, packet) that came before a reply
        self.replies = []  # that came before a frame
        self._data = b""
        self._cseq = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.peer.close()

    def _need(self, count):
        while len(self._data) < count:
            more = self.peer.recv(65536)
            if not more:
                raise Ended(self._data)
            self._data += more

    def _take(self, count):
        self._need(count)
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def send_raw(self, data):
        self.peer.sendall(data.encode() if isinstance(data, str) else data)

    def send(self, method, url=None, body="", cseq=None, version="1.0", **headers):
        """Sends a request; headers by keyword, with "_" for "-"; None leaves CSeq or Session out."""
        self._cseq += 1
        lines = {"CSeq": self._cseq if cseq is None else cseq}
        if self.session:
            lines["Session"] = self.session
        lines.update({name.replace("_", "-"): value for name, value in headers.items()})
        if body:
            lines.setdefault("Content-Type", "application/sdp")
            lines["Content-Length"] = len(body)
        text = "%s %s RTSP/%s\r\n" % (method, self.url if url is None else url, version)
        text += "".join("%s: %s\r\n" % line for line in lines.items() if line[1] is not None)
        self.send_raw(text + "\r\n" + body)

    def next(self):
        """The next message: a Reply, or a frame as (channel, packet)."""
        self._need(1)
        if self._data[:1] == b"$":
            _, channel, length = struct.unpack(">BBH", self._take(4))
            return channel, self._take(length)
        while b"\r\n\r\n" not in self._data:
            self._need(len(self._data) + 1)
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        version, status, self.reason = lines[0].split(" ", 2)
        if version != "RTSP/1.0":
            raise AssertionError("not a reply: %r" % lines[0])
        headers, challenges = {}, 0
        for line in lines[1:]:
            name, _, value = line.partition(":")
            name = name.lower()
            if name == "www-authenticate":
                name, challenges = "%s-%d" % (name, challenges), challenges + 1
            headers[name] = value.strip()
        body = self._take(int(headers.get("content-length", 0))).decode()
        return Reply(int(status), headers, body)

    def reply(self):
        """The next reply; frames before it are kept."""
        while True:
            message = self.next()
            if isinstance(message, Reply):
                return message
            self.frames.append(message)

    def ask(self, method, url=None, body="", **headers):
        """A request and its reply."""
        self.send(method, url, body, **headers)
        reply = self.reply()
        if "session" in reply.headers:
            self.session = reply.headers["session"].partition(";")[0]
        return reply

    def setup(self, track, record=False, transport=None, **headers):
        transport = transport or "RTP/AVP/TCP;unicast;interleaved=%d-%d%s" % (
            2 * track, 2 * track + 1, ";mode=record" if record else "")
        name = "streamid" if record else "trackID"
        return self.ask("SETUP", "%s/%s=%d" % (self.url, name, track), Transport=transport, **headers)

    def play(self, tracks=(0, 1)):
        """All requests of a player."""
        steps = [self.ask("DESCRIBE")] + [self.setup(track) for track in tracks] + [self.ask("PLAY")]
        if [step.status for step in steps] != [200] * len(steps):
            raise AssertionError("not played: %r" % steps)
        return steps

    def record(self, sdp=SDP):
        """All requests of a publisher."""
        steps = [self.ask("ANNOUNCE", body=sdp)]
        steps += [self.setup(track, True) for track in range(sdp.count("m="))] + [self.ask("RECORD")]
        if [step.status for step in steps] != [200] * len(steps):
            raise AssertionError("not recorded: %r" % steps)
        return steps

    def send_rtp(self, channel, payload, sequence, timestamp, marker=True, payload_type=96):
        packet = struct.pack(">BBHII", 0x80, marker << 7 | payload_type, sequence & 0xFFFF,
                             timestamp & 0xFFFFFFFF, 0x1234) + payload
        self.send_raw(struct.pack(">BBH", 0x24, channel, len(packet)) + packet)

    def send_report(self, channel, timestamp):
        """A sender report, always of the same moment."""
        packet = struct.pack(">BBHIQIII", 0x80, 200, 6, 0x1234, 0xE0000000 << 32, timestamp & 0xFFFFFFFF, 0, 0)
        self.send_raw(struct.pack(">BBH", 0x24, channel, len(packet)) + packet)

    def next_rtp(self):
        """The next RTP packet; RTCP is stepped over, replies are kept."""
        while True:
            message = self.frames.pop(0) if self.frames else self.next()
            if isinstance(message, Reply):
                self.replies.append(message)
                continue
            channel, packet = message
            if channel % 2 == 0:
                first, second, sequence, timestamp, ssrc = struct.unpack(">BBHII", packet[:12])
                if first != 0x80:
                    raise AssertionError("not an RTP packet: %r" % packet[:12])
                return Rtp(channel, bool(second & 0x80), second & 0x7F, sequence, timestamp, ssrc, packet[12:])

    def read_to_end(self):
        """All messages up to the end, which must not come within one."""
        messages = []
        with contextlib.suppress(ConnectionError):
            while True:
                try:
                    messages.append(self.next())
                except Ended as end:
                    if end.args[0]:
                        raise AssertionError("ended within a message: %r" % end.args[0][:100]) from None
                    break
        return messages


class Player:
    """A player of our own: reads a stream in a thread, and keeps what its packets carry, as (channel, payload)."""

    def __init__(self, daemon, name="live/a"):
        self.payloads, self.error = [], None
        self._news = threading.Condition()
        self._client = Client(daemon, name)
        self.address = harness.address_text(self._client.peer)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._client.play()
            while True:
                packet = self._client.next_rtp()
                with self._news:
                    self.payloads.append((packet.channel, packet.payload))
                    self._news.notify_all()
        except (OSError, AssertionError, Ended) as error:
            with self._news:
                self.error = error
                self._news.notify_all()

    def wait(self, condition, what):
        """Waits until the condition on this player holds, which must be playing still."""
        patience = harness.Patience()
        with self._news:
            while self.error or not condition(self):
                if self.error or not patience.left():
                    raise AssertionError("the RTSP player never came to %s: %d packets, error %r" % (
                        what, len(self.payloads), self.error))
                self._news.wait(1)

    def wait_packets(self, count):
        self.wait(lambda player: len(player.payloads) >= count, "%d packets" % count)

    def wait_frame(self, frame):
        """Waits until this frame's last packet has come."""
        self.wait(lambda player: any(payload.endswith(frame.payload[2:]) for _, payload in player.payloads[-20:]),
                  "frame at %d" % frame.timestamp)

    def close(self):
        with contextlib.suppress(OSError):
            self._client.peer.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._client.close()


def listen():
    return ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtsp", "[::1]:0")
