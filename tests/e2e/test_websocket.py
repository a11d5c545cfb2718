"""WebSocket against an independent implementation, the Python package websockets, in both roles.

The other end is tests/e2e/websocket_echo.c, on the library's loop: it sends every message back, from the blocks in
which it was received.

Environment: WEBSOCKET_ECHO, the program; SLUICE_TEST_MESSAGES, how many are exchanged in a case.
"""

import asyncio
import base64
import contextlib
import os
import random
import socket
import struct
import subprocess
import unittest

import harness

try:
    import websockets
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve
except ImportError:
    websockets = None

ECHO = os.environ.get("WEBSOCKET_ECHO") or os.path.join(harness.BUILD_DIR, "tests", "echo_messages")
MESSAGES = int(os.environ.get("SLUICE_TEST_MESSAGES", 10000))
LONGEST = 200 << 10  # Bytes.
LIMIT = 1 << 20  # What websocket_echo takes unless told otherwise, bytes.
PATIENCE = 240  # Seconds for a whole run.


class Echo:
    """A running websocket_echo. As a context it ends well: every block is back, nothing was copied."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([ECHO, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.port = int(self.line().split()[1]) if arguments[0] == "serve" else None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        status = self.process.wait(harness.PATIENCE)
        if kind is None and (status != 0 or "pool clean" not in rest):
            raise AssertionError("status %d: %s" % (status, rest))

    def line(self):
        return self.process.stdout.readline().strip()

    def uri(self, target="/"):
        return "ws://127.0.0.1:%d%s" % (self.port, target)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


ALPHABET = "abcdefghijklmnopqrstuvwxyz \n" + "äöüßéñ" + "λόγος" + "漢字仮名" + "€☃\uffff\ud7ff\ue000" + "😀🎉\U0010ffff"


def random_message(source):
    """Text or bytes of up to LONGEST bytes, short ones as frequent as long ones."""
    size = int(LONGEST ** source.random()) - 1
    if source.random() < 0.5:
        return source.randbytes(size)
    some = "".join(source.choices(ALPHABET, k=1000)).encode()
    return (some * (size // len(some) + 1))[:size].decode(errors="ignore")


def fragments(source, message):
    """The message as a whole, or cut into a list: of text between its characters."""
    if source.random() < 0.6:
        return message
    cuts = sorted(source.randint(0, len(message)) for _ in range(source.randint(1, 6)))
    return [message[begin:end] for begin, end in zip([0] + cuts, cuts + [len(message)])]


async def exchange(websocket, seed):
    """Sends the messages and expects each of them back; pings are answered between."""
    source = random.Random(seed)
    expected = asyncio.Queue(200)
    pongs = []

    async def send():
        for number in range(MESSAGES):
            message = random_message(source)
            await expected.put(message)
            await websocket.send(fragments(source, message))
            if number % 100 == 0:
                pongs.append(await websocket.ping(b"%d" % number))

    async def receive():
        for number in range(MESSAGES):
            message = await expected.get()
            answer = await websocket.recv()
            if answer != message:
                raise AssertionError("message %d came back another one" % number)

    await asyncio.gather(send(), receive())
    await asyncio.gather(*pongs)


def frame(first, payload=b"", key=b"\x12\x34\x56\x78", length=None):
    """A frame by hand; not masked where the key is None."""
    size = len(payload) if length is None else length
    head = bytes([first])
    bit = 0 if key is None else 0x80
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += struct.pack("!BH", bit | 126, size)
    else:
        head += struct.pack("!BQ", bit | 127, size)
    if key is None:
        return head + payload
    return head + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))


# What a peer may not send, and the close code that says so. For a server; a client's frames come without a mask.
ERRORS = [
    ("reserved bit", 1002, [(0xC1, b"x")]),
    ("reserved opcode", 1002, [(0x83, b"x")]),
    ("reserved control opcode", 1002, [(0x8B, b"")]),
    ("continuation of nothing", 1002, [(0x80, b"x")]),
    ("message in a message", 1002, [(0x01, b"x"), (0x81, b"y")]),
    ("ping in fragments", 1002, [(0x09, b"x")]),
    ("ping of 126 bytes", 1002, [(0x89, b"x" * 126)]),
    ("close of one byte", 1002, [(0x88, b"\x03")]),
    ("close code 999", 1002, [(0x88, b"\x03\xe7")]),
    ("close code 1005", 1002, [(0x88, b"\x03\xed")]),
    ("close code 5000", 1002, [(0x88, b"\x13\x88")]),
    ("close reason", 1007, [(0x88, b"\x03\xe8\xff")]),
    ("text", 1007, [(0x81, b"abc\xff")]),
    ("text that ends early", 1007, [(0x81, b"abc\xe2\x82")]),
    ("text in fragments", 1007, [(0x01, b"abc\xe2"), (0x00, b"\x28")]),
    ("surrogate", 1007, [(0x81, b"\xed\xa0\x80")]),
]

RAW_ERRORS = [
    ("length 125 in two bytes", 1002, b"\x82\xfe\x00\x7d"),
    ("length 65535 in eight bytes", 1002, b"\x82\xff" + struct.pack("!Q", 65535)),
    ("length 2^63", 1002, b"\x82\xff" + struct.pack("!Q", 1 << 63)),
    ("length 2^63 - 1", 1009, b"\x82\xff" + struct.pack("!Q", (1 << 63) - 1)),
    ("a byte too long", 1009, b"\x82\xff" + struct.pack("!Q", LIMIT + 1)),
]


def read_close(peer):
    """The code of the close frame that the peer sends last, then it closes. Frames before it are short."""
    data = b""
    while True:
        more = peer.recv(65536)
        if not more:
            break
        data += more
    while data:
        first, size = data[0], data[1] & 0x7F
        start = 6 if data[1] & 0x80 else 2
        payload, key = data[start:start + size], data[2:6]
        if data[1] & 0x80:
            payload = bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))
        data = data[start + size:]
        if first == 0x88:
            if data:
                raise AssertionError("something behind a close frame")
            return struct.unpack("!H", payload[:2])[0] if payload else 1005
    raise AssertionError("no close frame")


class ServerTest(unittest.TestCase):
    """Our server, their client."""

    def check_exchange(self, *options):
        async def go(echo):
            async with connect(echo.uri("/"), max_size=None, ping_interval=None) as websocket:
                await exchange(websocket, 1)
        with Echo("serve", *options) as echo:
            run(go(echo))
            self.assertEqual(echo.line(), "closed 1000")

    def test_exchange(self):
        self.check_exchange()

    def test_exchange_in_pieces(self):
        self.check_exchange("--pieces")

    def test_longest_message(self):
        async def go(echo, size):
            async with connect(echo.uri(), max_size=None) as websocket:
                message = random.Random(2).randbytes(size)
                await websocket.send(message)
                self.assertEqual(await websocket.recv(), message)
        with Echo("serve") as echo:
            run(go(echo, LIMIT))
            self.assertEqual(echo.line(), "closed 1000")
            with self.assertRaises(websockets.ConnectionClosedError) as caught:
                run(go(echo, LIMIT + 1))
            self.assertEqual(caught.exception.rcvd.code, 1009)
            self.assertEqual(echo.line(), "closed EMSGSIZE")

    def test_our_ping(self):
        async def go(echo):
            async with connect(echo.uri("/ping")) as websocket:
                self.assertEqual(await websocket.recv(), "the pong has come")
        with Echo("serve") as echo:
            run(go(echo))

    def test_their_close(self):
        async def go(echo, code, reason):
            websocket = await connect(echo.uri())
            await websocket.close(code, reason)
            self.assertEqual(websocket.protocol.close_rcvd.code, code)
        with Echo("serve") as echo:
            for code in (1000, 1001, 1003, 1008, 1011, 1012, 1014, 3000, 3999, 4000, 4999):
                run(go(echo, code, "gr\u00fcnde" * 10))
                self.assertEqual(echo.line(), "closed %d" % code)

    def test_our_close(self):
        async def go(echo, code):
            async with connect(echo.uri("/close/%d" % code)) as websocket:
                with self.assertRaises(websockets.ConnectionClosed) as caught:
                    await websocket.recv()
            close = caught.exception.rcvd
            self.assertEqual((close.code, close.reason), (code, "as asked" if code != 1005 else ""))
        with Echo("serve") as echo:
            for code in (1000, 1001, 1005, 1011, 3000, 4999):
                run(go(echo, code))
                self.assertEqual(echo.line(), "closed %d" % code)

    def test_many_clients(self):
        async def one(echo, number):
            async with connect(echo.uri()) as websocket:
                for i in range(20):
                    await websocket.send(b"%d " % number * i)
                    self.assertEqual(await websocket.recv(), b"%d " % number * i)

        async def go(echo):
            await asyncio.gather(*(one(echo, number) for number in range(100)))
        with Echo("serve") as echo:
            run(go(echo))

    @staticmethod
    def open_raw(echo):
        peer = socket.create_connection(("127.0.0.1", echo.port), harness.PATIENCE)
        peer.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\n\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += peer.recv(1)
        return peer

    def check_error(self, echo, data, code, bytewise):
        with self.open_raw(echo) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for piece in ([data[i:i + 1] for i in range(len(data))] if bytewise else [data]):
                    peer.sendall(piece)
            self.assertEqual(read_close(peer), code)

    def test_errors(self):
        cases = [(name, code, b"".join(frame(*part) for part in parts)) for name, code, parts in ERRORS]
        cases += [(name, code, data + b"\0\0\0\0") for name, code, data in RAW_ERRORS]
        cases += [("not masked", 1002, frame(0x81, b"x", None)), ("ping not masked", 1002, frame(0x89, b"", None))]
        for options in ((), ("--pieces", "--limit", LIMIT)):
            with Echo("serve", *options) as echo:
                for name, code, data in cases:
                    for bytewise in (False, True):
                        with self.subTest(name, options=options, bytewise=bytewise):
                            self.check_error(echo, data, code, bytewise)
                            self.assertIn(echo.line(), {1002: ["closed EPROTO"], 1007: ["closed EILSEQ"],
                                                        1009: ["closed EMSGSIZE"]}[code])

    def test_close_without_a_code(self):
        with Echo("serve") as echo:
            self.check_error(echo, frame(0x88), 1005, False)
            self.assertEqual(echo.line(), "closed 1005")

    def test_subprotocol(self):
        async def go(echo, wanted):
            async with connect(echo.uri(), subprotocols=wanted) as websocket:
                return websocket.subprotocol
        with Echo("serve") as echo:
            self.assertEqual(run(go(echo, ["soap", "sluice", "echo"])), "sluice")
            self.assertEqual(run(go(echo, ["echo"])), "echo")
            self.assertIsNone(run(go(echo, ["soap"])))
            self.assertIsNone(run(go(echo, None)))

    def test_refused_upgrades(self):
        def ask(echo, headers):
            with socket.create_connection(("127.0.0.1", echo.port), harness.PATIENCE) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n")
                return harness.read_head(peer)[0]
        upgrade, version, key = (b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Sec-WebSocket-Version: 13\r\n",
                                 b"Sec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\n")
        with Echo("serve") as echo:
            self.assertEqual(ask(echo, b""), 426)
            self.assertEqual(ask(echo, upgrade + version), 400)
            self.assertEqual(ask(echo, upgrade + key), 400)
            self.assertEqual(ask(echo, upgrade + key + b"Sec-WebSocket-Version: 12\r\n"), 426)


class ClientTest(unittest.TestCase):
    """Our client, their server."""

    async def with_client(self, handler, target, options=(), **server_options):
        """Runs the handler with our client's connection; returns what the client said of its end."""
        done = asyncio.get_running_loop().create_future()

        async def handle(websocket):
            try:
                done.set_result(await handler(websocket))
            except BaseException as error:
                done.set_exception(error)
                raise

        async with serve(handle, "127.0.0.1", 0, max_size=None, **server_options) as server:
            port = server.sockets[0].getsockname()[1]
            with Echo("connect", port, target, *options) as echo:
                await done
                return await asyncio.to_thread(echo.line)

    def test_exchange(self):
        for options in ((), ("--pieces",)):
            with self.subTest(options=options):
                line = run(self.with_client(lambda websocket: exchange(websocket, 3), "/", options, ping_interval=None))
                self.assertEqual(line, "closed 1000")

    def test_our_ping(self):
        async def handler(websocket):
            self.assertEqual(await websocket.recv(), "the pong has come")
        self.assertEqual(run(self.with_client(handler, "/ping")), "closed 1000")

    def test_their_close(self):
        for code in (1000, 1001, 3000, 4999):
            async def handler(websocket, code=code):
                await websocket.close(code, "over")
                self.assertEqual(websocket.protocol.close_rcvd.code, code)
            self.assertEqual(run(self.with_client(handler, "/")), "closed %d" % code)

    def test_our_close(self):
        for code in (1000, 1005, 3000, 4999):
            async def handler(websocket, code=code):
                with self.assertRaises(websockets.ConnectionClosed) as caught:
                    await websocket.recv()
                self.assertEqual(caught.exception.rcvd.code, code)
            self.assertEqual(run(self.with_client(handler, "/close/%d" % code)), "closed %d" % code)

    def test_errors(self):
        cases = [(name, code, b"".join(frame(first, payload, None) for first, payload in parts))
                 for name, code, parts in ERRORS]
        cases += [(name, code, bytes([data[0], data[1] & 0x7F]) + data[2:]) for name, code, data in RAW_ERRORS]
        cases += [("masked", 1002, frame(0x81, b"x"))]
        for name, code, data in cases:
            async def handler(websocket, data=data, code=code):
                websocket.transport.write(data)
                with self.assertRaises(websockets.ConnectionClosed) as caught:
                    await websocket.recv()
                self.assertEqual(caught.exception.rcvd.code, code)
            with self.subTest(name):
                line = run(self.with_client(handler, "/"))
                self.assertEqual(line, {1002: "closed EPROTO", 1007: "closed EILSEQ", 1009: "closed EMSGSIZE"}[code])


if __name__ == "__main__":
    if websockets is None:
        harness.skip_file("no Python package websockets")
    if not os.access(ECHO, os.X_OK):
        harness.skip_file("no program at %s (environment variable WEBSOCKET_ECHO)" % ECHO)
    harness.run_cases()
