"""Publishers whose frames are numbered, by any protocol; players by WebSocket and RTSP that keep what they get."""

import contextlib
import struct
import threading

import flv
import harness
import rtmp
import rtsp
import websockets.sync.client
from harness import Publisher


def number_of(tag):
    """Of a frame of a Source, whatever way it came."""
    return int.from_bytes(tag.payload[2:6], "big")


def wait_number(player, number):
    """Waits until a harness.Player has that frame of a Source."""
    player.wait(lambda player: any(tag.type == flv.AUDIO and number_of(tag) == number for tag in player.frames[-5:]),
                "frame %d" % number)


def check_rising(test, frames, paused=0):
    """Each track's time goes up, and they stay together: by RTSP, pictures are decoded a while before they are shown.
    paused: seconds that passed between the publisher's frames at most, which are in the times where those have jumped."""
    for kind in (flv.VIDEO, flv.AUDIO):
        times = [frame.timestamp for frame in frames if frame.type == kind]
        test.assertGreater(len(times), 10)
        test.assertEqual(times, sorted(set(times)))
    for one, other in zip(frames, frames[1:]):
        test.assertLess(abs(one.timestamp - other.timestamp), 400 + paused * 1000)


class Source:
    """A publisher by any protocol whose frames are numbered on, each video frame with its audio frame."""

    SDP = rtsp.SDP.replace("44100/1", "44100/2").replace("config=1208", "config=1210")

    def __init__(self, daemon, name, way, first, start=0):
        """@start: number that time counts from, in place of the frame's own"""
        self.way, self.number, self.key, self.start = way, first, True, start
        if way == "rtsp":
            self.client = rtsp.Client(daemon, name)
            self.client.record(self.SDP)
            # What belongs together, which the server else guesses by when it comes.
            for channel, rate in ((1, 3600), (3, 1764)):
                self.client.send_report(channel, (start + first) * rate)
            self.peer = self.client.peer
        elif way == "rtmp":
            self.publisher = rtmp.Publisher(daemon, name)
            self.peer = self.publisher.peer
        else:
            self.publisher = Publisher(daemon, name, way)
            self.peer = self.publisher.peer
            self.publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, count):
        for _ in range(count):
            number, at = self.number, self.start + self.number
            text = struct.pack(">I", number) * 20
            if self.way == "rtsp":
                self.client.send_rtp(0, (b"\x65" if self.key else b"\x41") + text, number, at * 3600)
                self.client.send_rtp(2, b"\0\x10" + struct.pack(">H", len(text) << 3) + text, number, at * 1764,
                                     payload_type=97)
            else:
                unit = (b"\x65" if self.key else b"\x41") + text
                self.publisher.send(flv.Tag(flv.VIDEO, at * 40, (b"\x17" if self.key else b"\x27") + b"\x01\0\0\0" +
                                            struct.pack(">I", len(unit)) + unit))
                self.publisher.send(flv.Tag(flv.AUDIO, at * 40, b"\xaf\x01" + text))
            self.key = False
            self.number += 1

    def check_ended(self, test, status, reason):
        """The connection is ended, by HTTP with an answer."""
        if self.way == "http":
            answer = harness.read_head(self.peer)
            test.assertEqual((answer[0], answer[2].decode().strip()), (status, reason))
        else:
            harness.read_to_end(self.peer)

    def close(self):
        self.peer.close()


class WebSocketPlayer:
    """Plays by WebSocket, with a client that is not ours."""

    def __init__(self, daemon, name):
        self.frames, self._parser, self._news = [], flv.Parser(), threading.Condition()
        self._peer = websockets.sync.client.connect("ws://%s:%d/%s.flv" % (*daemon.address(), name), max_size=None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._peer.close()
        self._thread.join()

    def _run(self):
        with contextlib.suppress(websockets.exceptions.ConnectionClosed):
            for message in self._peer:
                with self._news:
                    self.frames += [tag for tag in self._parser.feed(message) if tag.is_frame]
                    self._news.notify_all()

    def wait_number(self, number):
        with self._news:
            if not self._news.wait_for(lambda: any(tag.type == flv.AUDIO and number_of(tag) == number
                                                   for tag in self.frames[-5:]), harness.PATIENCE):
                raise AssertionError("frame %d never came by WebSocket" % number)


class RtspPlayer:
    """Plays by RTSP, and keeps what came."""

    def __init__(self, daemon, name):
        self.packets = []
        self._client = rtsp.Client(daemon, name)
        self._client.play()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.close()

    def wait_number(self, number):
        while not any(packet.channel == 2 and packet.payload[4:8] == struct.pack(">I", number)
                      for packet in self.packets[-5:]):
            self.packets.append(self._client.next_rtp())

    def check_rising(self, test, paused=0):
        """Of each track: one source, numbers without a gap, and times that go up and never far. paused: as above"""
        for channel, rate in ((0, 90000), (2, 44100)):
            packets = [packet for packet in self.packets if packet.channel == channel]
            test.assertEqual(len({packet.ssrc for packet in packets}), 1)
            for one, other in zip(packets, packets[1:]):
                test.assertEqual((other.sequence - one.sequence) & 0xFFFF, 1)
                step = (other.timestamp - one.timestamp) & 0xFFFFFFFF
                test.assertLessEqual(step, rate * (0.4 + paused))
                test.assertTrue(step > 0 or not one.marker, "time stands still")
