"""Answers that a client does not read make its requests wait, in a bounded memory; and those that it is owed when it has ended."""

import contextlib
import socket
import struct
import unittest

import flv
import harness
import rtmp
import rtsp
from harness import Daemon

LISTEN = ("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
REQUESTS = 12000  # Answers of 2 MB: more than the daemon's kernel takes, and many times what may be owed.
PINGS = 30000
HALF = 3000  # Of 500 KB, which a client that has ended its side is sent in some turns.
WAITING = 16384  # Bytes of requests that have not been answered.


def options(numbers):
    return b"".join(b"OPTIONS * RTSP/1.0\r\nCSeq: %d\r\n\r\n" % number for number in numbers)


class RepliesTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--wait", "600", listen=LISTEN)
        self.addCleanup(self.daemon.stop)

    def wait_held_back(self):
        """Until requests wait; or the connection has been ended, which is seen by who reads."""
        harness.wait_until(lambda: self.daemon.api()["pool"]["bytes_held"] > WAITING or self.daemon.connections() == 0,
                           "requests that wait")

    def test_rtsp_requests_wait(self):
        """Each is answered, in its place, when the replies before it are read."""
        with rtsp.Client(self.daemon, receive_buffer=4096) as client:
            harness.in_thread(self, lambda: client.send_raw(options(range(REQUESTS))))
            self.wait_held_back()
            for number in range(REQUESTS):
                reply = client.reply()
                self.assertEqual((reply.status, reply.headers["cseq"]), (200, str(number)))
            self.assertEqual(client.ask("OPTIONS", "*").status, 200)

    def test_rtmp_messages_wait(self):
        """A player's pings; and it goes on to play."""
        with rtmp.Client(self.daemon, receive_buffer=4096) as client:
            client.connect(publish=False)
            client.command("play", "a", stream=client.create_stream(), transaction=3)
            self.daemon.wait_player("live/a")
            pings = b"".join(rtmp.chunked(rtmp.USER, struct.pack(">HI", 6, number), stream=0, channel=2)[0]
                             for number in range(PINGS))
            harness.in_thread(self, lambda: client.peer.sendall(pings))
            self.wait_held_back()
            for number in range(PINGS):
                message = client.next()
                while message.type != rtmp.USER:
                    message = client.next()
                self.assertEqual(message.payload, struct.pack(">HI", 7, number))
            with rtmp.Publisher(self.daemon, "live/a") as publisher:
                frame = flv.video_frame(0, True, 0, 1000)
                publisher.send(frame)
                self.assertEqual(client.media(4)[-1].payload, frame.payload)

    def check_half_closed(self, count):
        """What has come with the end is answered before the connection is closed."""
        with rtsp.Client(self.daemon) as client:
            with self.daemon.standing_still():
                client.send_raw(options(range(count)))
                client.peer.shutdown(socket.SHUT_WR)
            replies = client.read_to_end()
            self.assertEqual([reply.headers["cseq"] for reply in replies], [str(number) for number in range(count)])
            self.assertEqual({reply.status for reply in replies}, {200})

    def test_rtsp_half_closed(self):
        self.check_half_closed(1)

    def test_rtsp_half_closed_behind_many(self):
        self.check_half_closed(HALF)

    def test_rtmp_half_closed(self):
        with rtmp.Client(self.daemon) as client:
            with self.daemon.standing_still():
                client.command("connect", transaction=1, info={"app": "live", "tcUrl": "rtmp://h/live"})
                client.peer.shutdown(socket.SHUT_WR)
            self.assertEqual(client.wait("_result")[3]["code"], "NetConnection.Connect.Success")
            client.wait_end()

    def test_players_that_close(self):
        """One that waits, and closes its connection, is gone at once: it is owed nothing."""
        with rtsp.Client(self.daemon, "live/none") as client:
            client.send("DESCRIBE")
            self.daemon.wait_player("live/none")
            with contextlib.suppress(OSError):
                client.peer.shutdown(socket.SHUT_WR)
            self.assertEqual(client.read_to_end(), [])


if __name__ == "__main__":
    harness.main()
