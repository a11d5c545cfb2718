"""A camera by script: an RTSP server that sees every request, and answers it well, badly or not at all."""

import base64
import collections
import contextlib
import hashlib
import re
import secrets
import socket
import struct
import threading

import flv

Request = collections.namedtuple("Request", "method url headers")

SDP = "\r\n".join([
    "v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=-", "c=IN IP4 127.0.0.1", "t=0 0", "a=control:*",
    "m=video 0 RTP/AVP 96", "a=rtpmap:96 H264/90000",
    "a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Pyw==", "a=control:trackID=0",
    "m=application 0 RTP/AVP 107", "a=rtpmap:107 vnd.onvif.metadata/90000", "a=control:trackID=1", ""])


class Camera:
    """Listens from the beginning, and answers from start() on.

    What it answers to a method is to be had from the "replies" of that name, which is a status, bytes, a function of the
    request that gives either, or None for silence; without that it answers as it should.
    """

    def __init__(self, test, host="127.0.0.1", user=None, scheme="MD5", qop=False, timeout=60,
                 public="OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER", media=True, **replies):
        self.user, self.scheme, self.qop, self.timeout = user, scheme, qop, timeout
        self.public, self.media, self.replies = public, media, replies
        self.requests, self.connections, self.ended = [], 0, 0
        self.nonce, self.uses = secrets.token_hex(8), 0
        self.frame = 0
        self._news = threading.Condition()
        self._peers, self._threads, self._ending = set(), [], threading.Event()
        self._listener = socket.create_server((host, 0))
        self.host, self.port = self._listener.getsockname()
        test.addCleanup(self.close)

    def url(self, path="cam", user=""):
        return "rtsp://%s%s:%d/%s" % (user + "@" if user else "", self.host, self.port, path)

    def start(self):
        self._thread(self._accept)
        return self

    def _thread(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self):
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in list(self._threads):
            thread.join()

    def peer(self):
        """The only connection that there is."""
        peer, = self._peers
        return peer

    def hang_up(self):
        """Ends the connections that there are."""
        for peer in list(self._peers):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def send(self, channel, packet):
        """Sends a packet to all that are connected; not while it plays by itself, which is another thread."""
        for peer in list(self._peers):
            peer.sendall(struct.pack(">BBH", 0x24, channel, len(packet)) + packet)

    def goodbye(self, channel, *sources):
        """An RTCP BYE of these sources, behind an empty receiver report, as RFC 3550 wants it."""
        self.send(channel, struct.pack(">BBHI", 0x80, 201, 1, 0x99) + struct.pack(
            ">BBH%dI" % len(sources), 0x80 | len(sources), 203, len(sources), *sources))

    def wait(self, condition, what, patience=60):
        with self._news:
            if not self._news.wait_for(condition, patience):
                raise AssertionError("the camera waited in vain for %s; it was asked %s" % (
                    what, [request.method for request in self.requests]))

    def wait_request(self, method, count=1):
        """Waits for that many requests of the method; gives the last."""
        def asked():
            return [request for request in self.requests if request.method == method]
        self.wait(lambda: len(asked()) >= count, "%d %s" % (count, method))
        return asked()[-1]

    def _accept(self):
        while not self._ending.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with self._news:
                self._peers.add(peer)
                self.connections += 1
                self._news.notify_all()
            self._thread(self._serve, peer)

    def _serve(self, peer):
        playing = threading.Event()
        with peer, contextlib.suppress(OSError):
            data = b""
            while True:
                while not data or data[:1] == b"$" or b"\r\n\r\n" not in data:
                    if data[:1] == b"$" and len(data) >= 4 and len(data) >= 4 + struct.unpack(">H", data[2:4])[0]:
                        data = data[4 + struct.unpack(">H", data[2:4])[0]:]
                        continue
                    more = peer.recv(65536)
                    if not more:
                        raise ConnectionError
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                self._handle(peer, head.decode(), playing)
        playing.clear()
        with self._news:
            self._peers.discard(peer)
            self.ended += 1
            self._news.notify_all()

    def _handle(self, peer, head, playing):
        lines = head.split("\r\n")
        method, url, _ = lines[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        request = Request(method, url, headers)
        reply = self.replies.get(method, self._answer)
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, int):
            reply = self.reply(request, reply)
        if reply:
            peer.sendall(reply)
        with self._news:
            self.requests.append(request)
            self._news.notify_all()
        if method == "PLAY" and self.media and reply and b" 200 " in reply and not playing.is_set():
            playing.set()
            self._thread(self._play, peer, playing)

    @staticmethod
    def reply(request, status, body="", **headers):
        lines = {"CSeq": request.headers["cseq"], **headers}
        if body:
            lines.update({"Content-Type": "application/sdp", "Content-Length": len(body)})
        text = "RTSP/1.0 %d Said\r\n" % status + "".join(
            "%s: %s\r\n" % (name.replace("_", "-"), value) for name, value in lines.items())
        return (text + "\r\n" + body).encode()

    def _answer(self, request):
        if self.user and request.method != "OPTIONS" and not self._is_allowed(request):
            return self.challenge(request)
        if request.method == "OPTIONS":
            return self.reply(request, 200, Public=self.public)
        if request.method == "DESCRIBE":
            return self.reply(request, 200, SDP, Content_Base=request.url + "/")
        session = {"Session": "12345678;timeout=%d" % self.timeout}
        if request.method == "SETUP":
            return self.reply(request, 200, Transport=request.headers["transport"], **session)
        return self.reply(request, 200, **session)

    # Who asks

    def challenge(self, request, stale=False):
        if self.scheme == "Basic":
            return self.reply(request, 401, WWW_Authenticate='Basic realm="cam"')
        return self.reply(request, 401, WWW_Authenticate='Digest realm="cam", nonce="%s", algorithm=%s%s%s' % (
            self.nonce, self.scheme, ', qop="auth"' if self.qop else "", ", stale=true" if stale else ""))

    def _is_allowed(self, request):
        user, password = self.user
        said = request.headers.get("authorization", "")
        if self.scheme == "Basic":
            return said == "Basic " + base64.b64encode(b"%s:%s" % (user.encode(), password.encode())).decode()
        fields = {name: quoted or plain for name, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|([^\s,]+))', said)}
        if fields.get("nonce") != self.nonce or fields.get("uri") != request.url:
            return False
        algorithm = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}[self.scheme]

        def digest(*texts):
            return algorithm(":".join(texts).encode()).hexdigest()
        middle = [self.nonce]
        if self.qop:
            self.uses += 1
            if fields["nc"] != "%08x" % self.uses:
                return False
            middle += [fields["nc"], fields["cnonce"], "auth"]
        return fields["response"] == digest(digest(user, "cam", password), *middle,
                                            digest(request.method, request.url))

    def renew(self):
        """Another nonce, as servers do from time to time."""
        self.nonce, self.uses = secrets.token_hex(8), 0

    # What it sends

    @staticmethod
    def picture(number):
        """An RTP packet of a picture of one NAL unit; the parameter sets are in the description."""
        unit = (b"\x65" if number % 10 == 0 else b"\x41") + struct.pack(">I", number) * 50
        return struct.pack(">BBHII", 0x80, 0x80 | 96, number, number * 3600, 0x1234) + unit

    def _play(self, peer, playing):
        """25 pictures a second; their numbers go on from one connection to the next."""
        sequence = 0
        with contextlib.suppress(OSError):
            while playing.is_set() and self.media and not self._ending.wait(0.04):
                number, self.frame = self.frame, self.frame + 1
                units = [flv.SPS, flv.PPS, b"\x65"] if number % 10 == 0 else [b"\x41"]
                units[-1] += struct.pack(">I", number) * 50
                for at, unit in enumerate(units):
                    packet = struct.pack(">BBHII", 0x80, (at == len(units) - 1) << 7 | 96, sequence & 0xFFFF,
                                         number * 3600 & 0xFFFFFFFF, 0x1234) + unit
                    sequence += 1
                    peer.sendall(struct.pack(">BBH", 0x24, 0, len(packet)) + packet)
