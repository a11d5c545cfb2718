"""--frame-limit: a frame over it ends its publisher, whatever protocol it came by, and costs nobody else anything."""

import unittest

import flv
import harness
import rtsp
from camera import Camera
from harness import Daemon, Steady

LIMIT = 65536
HEAD = 9  # of a tag of one NAL unit: five bytes of FLV, and its length
REASON = "tag too large"
VIDEO_SDP = rtsp.SDP.partition("m=audio")[0]
FRAGMENT = 1400


def picture(size, key=True):
    """The payloads of a picture whose tag has that many bytes."""
    unit = bytes([0x65 if key else 0x41]) + bytes(size - HEAD - 1)
    if len(unit) <= FRAGMENT:
        return [unit]
    pieces = [unit[at:at + FRAGMENT] for at in range(1, len(unit), FRAGMENT)]
    return [bytes([0x60 | 28, (at == 0) << 7 | (at == len(pieces) - 1) << 6 | unit[0] & 31]) + piece
            for at, piece in enumerate(pieces)]


class FrameLimitTest(harness.SettledTest):
    def start_daemon(self, *options):
        daemon = self.start("--frame-limit", "64K", *options, listen=(*rtsp.listen(), "--flv", "127.0.0.1:0=live/c"))
        self.stack.enter_context(Steady(daemon, name="live/a"))
        return daemon

    @staticmethod
    def frame(client, size, number, **more):
        payloads = picture(size, **more)
        for at, payload in enumerate(payloads):
            client.send_rtp(0, payload, client.sequence, 3600 * number, at == len(payloads) - 1)
            client.sequence += 1

    def publish(self, daemon, name="live/b"):
        client = self.stack.enter_context(rtsp.Client(daemon, name))
        client.record(VIDEO_SDP)
        client.sequence = 0
        return client

    def ends(self, daemon, client, name, frames):
        """The publisher is ended, logged and counted, and its connection closed."""
        line = daemon.wait_log("publisher ended", stream=name)
        self.assertEqual((line.fields["reason"], line.fields["proto"], line.level), (REASON, "rtsp", "warning"))
        self.assertEqual(int(line.fields["video_frames"]), frames)
        line = daemon.wait_log("packets received", stream=name)
        self.assertEqual(line.fields["frames_dropped"], "1")
        client.read_to_end()

    def test_rtsp(self):
        """A frame of the limit is a frame like others; one byte more is not."""
        daemon = self.start_daemon()
        client = self.publish(daemon)
        for number in range(3):
            self.frame(client, LIMIT, number)
        daemon.wait_stream("live/b", lambda stream: stream["frames"]["video"] == 3, "with three frames")
        self.frame(client, LIMIT + 1, 3)
        self.ends(daemon, client, "live/b", 3)

    def test_rtsp_far_beyond(self):
        """It is not held up to its end."""
        daemon = self.start_daemon()
        client = self.publish(daemon)
        self.frame(client, 1000, 0)
        unit = bytes([0x60 | 28, 0x05]) + bytes(FRAGMENT)
        client.send_rtp(0, bytes([0x60 | 28, 0x85]) + bytes(FRAGMENT), client.sequence, 3600, False)
        with self.assertRaises(OSError):
            # Without an end: the connection ends instead.
            while True:
                client.sequence += 1
                client.send_rtp(0, unit, client.sequence, 3600, False)
        line = daemon.wait_log("publisher ended", stream="live/b")
        self.assertEqual((line.fields["reason"], line.fields["video_frames"]), (REASON, "1"))

    def test_as_with_flv(self):
        """The same by raw FLV and by HTTP, which has an answer for it."""
        daemon = self.start_daemon()
        big = flv.video_frame(40, False, 1, LIMIT + 1).pack()
        first = flv.header() + b"".join(tag.pack() for tag in flv.first_tags())
        with daemon.connect("flv", at=1) as peer:
            peer.sendall(first + big[:100])
            self.assertEqual(daemon.wait_log("publisher ended", proto="flv").fields["reason"], REASON)
            harness.read_to_end(peer)
        answer = harness.exchange(daemon, b"POST /live/d.flv HTTP/1.1\r\nHost: a\r\n\r\n" + first + big[:100])
        self.assertEqual(harness.status_of(answer), 413)

    def test_of_a_stream(self):
        """An exception is by the name that is announced."""
        daemon = self.start_daemon("--frame-limit", "big/*=128K")
        client = self.publish(daemon, "big/b")
        self.frame(client, LIMIT + 1, 0)
        self.frame(client, 2 * LIMIT, 1)
        daemon.wait_stream("big/b", lambda stream: stream["frames"]["video"] == 2, "with both frames")
        self.frame(client, 2 * LIMIT + 1, 2)
        self.ends(daemon, client, "big/b", 2)

    def pull(self, size):
        camera = Camera(self, media=False).start()
        daemon = self.start("--workers", "1", "--frame-limit", "64K", "--pull", camera.url() + "=live/p",
                            listen=rtsp.listen())
        camera.wait_request("PLAY")
        daemon.wait_log("publisher started")

        class Sender(rtsp.Client):
            def __init__(self):
                self.peer, self.sequence = camera.peer(), 0
        self.frame(Sender(), size, 0)
        return daemon

    def test_pull(self):
        daemon = self.pull(LIMIT)
        daemon.wait_stream("live/p", lambda stream: stream["frames"]["video"] == 1, "with its frame")

    def test_pull_beyond(self):
        daemon = self.pull(LIMIT + 1)
        line = daemon.wait_log("publisher ended", stream="live/p")
        self.assertEqual((line.fields["reason"], line.fields["video_frames"]), (REASON, "0"))
        # As after any other failure, it is pulled again, and the reason can be seen.
        pull = harness.wait_until(lambda: next((pull for pull in daemon.api()["pulls"] if pull["reason"]), None), "why")
        self.assertEqual(pull["reason"], REASON)

    def check_settled(self, daemon):
        if not daemon.api()["pulls"]:
            super().check_settled(daemon)


if __name__ == "__main__":
    harness.main()
