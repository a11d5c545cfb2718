"""RTSP by hand: what is answered in which state, what is sent between what, and that nothing stays behind."""

import base64
import contextlib
import hashlib
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, Steady
from rtsp import SDP, Client, Ended, Reply, listen

UDP = "RTP/AVP;unicast;client_port=5000-5001"
TCP = "RTP/AVP/TCP;unicast;interleaved=0-1"


def steady(daemon, **options):
    """A live stream "live/a" of H.264 and AAC in form."""
    return Steady(daemon, name="live/a", **options)


class PlayTest(unittest.TestCase):
    def setUp(self):
        # Of streams of these names nobody waits for a publisher for long.
        self.daemon = Daemon("--wait", "600", "--wait", "none/*=1", listen=listen())
        self.addCleanup(self.daemon.stop)

    def test_describe_setup_play(self):
        with steady(self.daemon), Client(self.daemon) as client:
            options = client.ask("OPTIONS", "*")
            self.assertEqual(options.status, 200)
            for method in ("DESCRIBE", "ANNOUNCE", "SETUP", "PLAY", "PAUSE", "RECORD", "TEARDOWN", "GET_PARAMETER"):
                self.assertIn(method, options.headers["public"].split(", "))
            describe = client.ask("DESCRIBE", Accept="application/sdp")
            self.assertEqual(describe.headers["content-type"], "application/sdp")
            self.assertEqual(describe.headers["content-base"], client.url + "/")
            self.assertIn("a=rtpmap:96 H264/90000", describe.body)
            self.assertIn("sprop-parameter-sets=Z2QACqzZQg2wEQAAAwABAAADABQPEiWW,aO+Pyw==", describe.body)
            self.assertIn("a=rtpmap:97 MPEG4-GENERIC/44100/2", describe.body)
            self.assertIn("config=1210", describe.body)
            for track in (0, 1):
                setup = client.setup(track)
                self.assertEqual(setup.status, 200)
                self.assertEqual(setup.headers["transport"],
                                 "RTP/AVP/TCP;unicast;interleaved=%d-%d" % (2 * track, 2 * track + 1))
                self.assertRegex(setup.headers["session"], r"\A[a-z0-9]{20,};timeout=60\Z")
            play = client.ask("PLAY", Range="npt=0.000-")
            self.assertEqual(play.status, 200)
            self.assertRegex(play.headers["rtp-info"], r"url=%s/trackID=0;seq=\d+;rtptime=\d+,url=" % client.url)
            first = client.next_rtp()
            self.assertIn(";seq=%d;rtptime=%d" % (first.sequence, first.timestamp), play.headers["rtp-info"])
            self.assert_begins_well(client, first)
            players = [(one["protocol"], one["state"]) for one in self.daemon.api()["players"]]
            self.assertEqual(sorted(players), [("http", "playing"), ("rtsp", "playing")])
            self.assertEqual(client.ask("TEARDOWN").status, 200)
            self.assertEqual([one for one in client.read_to_end() if isinstance(one, Reply)], [])
        self.daemon.blocks_settled()

    def assert_begins_well(self, client, packet):
        """The parameter sets, then a key frame; sequence numbers without a gap, on both tracks."""
        begin = [packet]
        while len(begin) < 60:
            begin.append(client.next_rtp())
        video = [one for one in begin if one.channel == 0]
        audio = [one for one in begin if one.channel == 2]
        self.assertEqual([one.payload.hex() for one in video[:2]], [flv.SPS.hex(), flv.PPS.hex()])
        self.assertFalse(video[0].marker or video[1].marker)
        for track in (video, audio):
            for one, other in zip(track, track[1:]):
                self.assertEqual((one.sequence + 1) & 0xFFFF, other.sequence)
                self.assertEqual(one.ssrc, other.ssrc)
        self.assertEqual({one.payload_type for one in video}, {96})
        self.assertEqual({one.payload_type for one in audio}, {97})

    def test_describe_while_playing(self):
        """A description changes no state: frames go on, also from the next publisher."""
        def send(publisher, client, frames):
            """Some frames, up to the last of which the player is sent all."""
            sent = [next(frames) for _ in range(20)]
            for frame in sent:
                publisher.send(frame)
            last = {}
            while True:
                packet = client.next_rtp()
                self.assertEqual(packet.sequence, last.get(packet.channel, packet.sequence - 1) + 1 & 0xFFFF)
                last[packet.channel] = packet.sequence
                if packet.payload.endswith(sent[-2].payload[-100:]):
                    return

        with Client(self.daemon) as client:
            for _ in range(2):
                with Publisher(self.daemon, "live/a", "http") as publisher:
                    frames = flv.frames()
                    publisher.send(flv.header())
                    for tag in flv.first_tags():
                        publisher.send(tag)
                    if not client.session:
                        publisher.send(next(frames))
                        publisher.send(next(frames))
                        client.play()
                    send(publisher, client, frames)
                    again = client.ask("DESCRIBE")
                    self.assertEqual(again.status, 200)
                    self.assertIn("a=rtpmap:96 H264/90000", again.body)
                    send(publisher, client, frames)
                self.daemon.wait_stream("live/a", lambda stream: stream["state"] != "live", "no publisher")
                self.assertEqual(client.ask("DESCRIBE").status, 404)

    def test_describe_while_paused(self):
        """Without a publisher it is answered at once, and what is set up stays: the next publisher is played."""
        with Client(self.daemon) as client:
            with steady(self.daemon):
                client.play()
                client.next_rtp()
                self.assertEqual(client.ask("PAUSE").status, 200)
            self.daemon.wait_stream("live/a", lambda stream: stream["state"] != "live", "no publisher")
            self.assertEqual(client.ask("DESCRIBE").status, 404)
            client.frames.clear()
            self.assertEqual(client.ask("PLAY").status, 200)
            with Publisher(self.daemon, "live/a", "http") as publisher:
                publisher.send(flv.header())
                for tag in (*flv.first_tags(), *(frame for frame, _ in zip(flv.frames(), range(20)))):
                    publisher.send(tag)
                client.next_rtp()
        self.daemon.blocks_settled()

    def test_reports_follow_the_media(self):
        """The publisher's time begins anywhere, and stands still for a while: reports are about what is sent then."""
        def ahead(client, last):
            """By how many seconds the next report is ahead of the last packet of its track."""
            while True:
                message = client.next()
                if isinstance(message, Reply):
                    continue
                channel, packet = message
                if channel % 2 == 0:
                    last[channel] = struct.unpack(">I", packet[4:8])[0]
                elif channel - 1 in last:
                    difference = struct.unpack(">I", packet[16:20])[0] - last[channel - 1] & 0xFFFFFFFF
                    return (difference - ((difference & 0x80000000) << 1)) / (90000 if channel == 1 else 44100)

        tags = [*flv.first_tags(), *(tag for tag, _ in zip(flv.frames(start=3600000, step=40), range(2000)))]
        with Publisher(self.daemon, "live/a", "http") as publisher, Client(self.daemon) as client:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in tags[:5]))
            client.play()
            last = {}
            publisher.send(b"".join(tag.pack() for tag in tags[5:30]))
            # Nothing comes up to the second report, which is 5 s behind the first.
            still = ahead(client, last)
            self.assertGreater(still, 4)
            self.assertLess(still, 60)
            stop = threading.Event()

            def go_on():
                for at in range(30, len(tags), 2):
                    if stop.wait(0.04):
                        return
                    publisher.send(tags[at].pack() + tags[at + 1].pack())
            sender = threading.Thread(target=go_on)
            sender.start()
            try:
                # The other track's report, one of each track that still may be ahead, and then none.
                found = [ahead(client, last) for _ in range(6)]
                self.assertLess(max(map(abs, found[-2:])), still / 2, found)
            finally:
                stop.set()
                sender.join()

    def test_tracks_that_rtp_does_not_carry(self):
        """They are named."""
        vp6 = [flv.Tag(flv.VIDEO, 40 * number, bytes([0x14 if number % 10 == 0 else 0x24]) + bytes(99))
               for number in range(20)]
        mp3 = [flv.Tag(flv.AUDIO, 40 * number, b"\x2f" + bytes(99)) for number in range(20)]
        for tags, flags, reason in (
                (vp6, flv.HAS_VIDEO, "video/vp6f is not supported by RTP"),
                (mp3, flv.HAS_AUDIO, "audio/mp3 is not supported by RTP"),
                ([tag for pair in zip(vp6, mp3) for tag in pair], flv.HAS_VIDEO | flv.HAS_AUDIO,
                 "video/vp6f, audio/mp3 are not supported by RTP")):
            with Publisher(self.daemon, "live/b", "http") as publisher, Client(self.daemon, "live/b") as client:
                publisher.send(flv.header(flags) + b"".join(tag.pack() for tag in tags))
                self.daemon.wait_stream("live/b")
                self.assertEqual((client.ask("DESCRIBE").status, client.reason), (415, reason))
                self.daemon.wait_log("request refused", status="415", reason=reason)
                self.assertEqual(publisher.finish(), 200)

    def test_one_track_alone(self):
        with steady(self.daemon), Client(self.daemon) as client:
            client.ask("DESCRIBE")
            self.assertEqual(client.setup(1, transport="RTP/AVP/TCP;unicast;interleaved=8-9").status, 200)
            self.assertEqual(client.ask("PLAY").status, 200)
            for _ in range(30):
                self.assertEqual(client.next_rtp().channel, 8)

    def test_audio_only(self):
        """There is no group to begin with: RTSP and HTTP players that come late get what comes next, and all of that."""
        data, tags = flv.stream(100, video=False)
        with Publisher(self.daemon, "live/a", "http") as publisher, Player(self.daemon, "live/a") as early:
            # Who has connected later may be later, and there is nothing cached for it.
            self.daemon.wait_player("live/a")
            publisher.send(data)
            early.wait_frame(tags[-1])
            with Client(self.daemon) as client, Player(self.daemon, "live/a") as late:
                client.play(tracks=(1,))
                self.daemon.wait_player("live/a", 3)
                source = flv.frames(video=False, start=4000, first=100)
                new = [next(source) for _ in range(20)]
                for tag in new:
                    publisher.send(tag)
                late.wait_frame(new[-1])
                harness.check_same(late.frames, new)
                for tag in new:
                    packet = client.next_rtp()
                    self.assertEqual((packet.channel, packet.payload[4:]), (2, tag.payload[2:]))
        self.daemon.blocks_settled()

    def test_two_players_share_frames(self):
        with steady(self.daemon), Client(self.daemon) as one, Client(self.daemon, at=1) as other:
            one.play()
            other.play()
            packets = [one.next_rtp() for _ in range(400)]
            seen = {(packet.channel, packet.sequence): packet for packet in packets}
            same = [packet for packet in (other.next_rtp() for _ in range(300))
                    if seen.get((packet.channel, packet.sequence)) == packet]
            self.assertGreater(len(same), 50)

    def test_before_the_publisher(self):
        with Client(self.daemon) as client:
            client.send("DESCRIBE")
            client.send("OPTIONS")
            self.daemon.wait_player("live/a")
            with steady(self.daemon):
                describe, options = client.reply(), client.reply()
                self.assertEqual((describe.status, describe.headers["cseq"]), (200, "1"))
                self.assertEqual((options.status, options.headers["cseq"]), (200, "2"))
                client.setup(0)
                client.ask("PLAY")
                client.next_rtp()
        self.daemon.blocks_settled()

    def test_no_publisher(self):
        with Client(self.daemon, "none/a") as client:
            self.assertEqual(client.ask("SETUP", client.url + "/trackID=0", Transport=TCP).status, 404)
            self.assertEqual(client.ask("DESCRIBE").status, 404)
            self.assertEqual(client.ask("OPTIONS").status, 200)
        self.daemon.blocks_settled()

    def test_pause_and_play(self):
        with steady(self.daemon) as stream, Client(self.daemon) as client:
            client.play()
            client.next_rtp()
            self.assertEqual(client.ask("PAUSE").status, 200)
            client.frames.clear()
            stream.go_on()
            self.assertEqual(client.ask("GET_PARAMETER").status, 200)
            self.assertEqual(client.frames, [])
            self.assertEqual(client.ask("PLAY").status, 200)
            packet = client.next_rtp()
            while packet.channel != 0:
                packet = client.next_rtp()
            self.assertEqual(packet.payload.hex(), flv.SPS.hex())
        self.daemon.blocks_settled()

    def test_publisher_comes_again(self):
        """The player goes on when the same publisher comes again, without a jump of its clock."""
        with Client(self.daemon) as client:
            with Publisher(self.daemon, "live/a", "http") as first:
                first.send(flv.stream(100)[0])
                self.daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] > 40, "full")
                client.play()
                before = client.next_rtp()
                while before.channel != 0:
                    before = client.next_rtp()
                first.finish()
            with Publisher(self.daemon, "live/a", "http") as second:
                second.send(flv.stream(100, start=500000)[0])
                after = client.next_rtp()
                while after.payload.hex() != flv.SPS.hex() or after.sequence == before.sequence:
                    after = client.next_rtp()
                second.finish()
        self.assertLess((after.timestamp - before.timestamp) & 0xFFFFFFFF, 90 * 10000)
        self.daemon.blocks_settled()

    def test_stream_ends(self):
        with Client(self.daemon, "none/a") as client, Publisher(self.daemon, "none/a", "http") as publisher:
            publisher.send(flv.stream(100)[0])
            self.daemon.wait_stream("none/a")
            client.play()
            publisher.finish()
            client.read_to_end()
        self.daemon.blocks_settled()

    def test_teardown_in_the_middle_of_a_frame(self):
        """A player that does not read gets what was under way as whole frames, then the reply, then the end."""
        with steady(self.daemon, size=60000) as stream, Client(self.daemon, receive_buffer=4096) as client:
            client.play()
            stream.go_on(300)
            client.send("TEARDOWN")
            messages = client.read_to_end()
            replies = [one for one in messages if isinstance(one, Reply)]
            self.assertEqual([(one.status, one.headers["cseq"]) for one in replies], [(200, "5")])
            self.assertIs(messages[-1], replies[0])
        self.daemon.blocks_settled()

    def test_requests_in_the_middle_of_frames(self):
        """A slow reader that goes on asking: replies in order, between frames, behind what the kernel has already."""
        with steady(self.daemon, size=60000), Client(self.daemon, receive_buffer=4096) as client:
            client.play()
            for _ in range(20):
                client.send("GET_PARAMETER")
                for _ in range(20):
                    client.next_rtp()
            while len(client.replies) < 20:
                client.next_rtp()
            self.assertEqual([int(reply.headers["cseq"]) for reply in client.replies], list(range(5, 25)))
        self.daemon.blocks_settled()

    def test_slow_player_loses_whole_frames(self):
        self.daemon.stop()
        self.daemon = Daemon("--player-buffer", "128K", "--gop-size", "64K", "--frame-limit", "64K", listen=listen())
        self.addCleanup(self.daemon.stop)
        # The player beside has no more room than the slow one.
        with steady(self.daemon, size=30000, behind=2) as stream, Client(self.daemon, receive_buffer=4096) as client:
            client.play()
            stream.go_on(400)
            timestamps, ended = set(), set()
            for _ in range(600):
                packet = client.next_rtp()
                if packet.channel == 0:
                    self.assertNotIn(packet.timestamp, ended, "the frame had ended")
                    if timestamps and packet.timestamp not in timestamps:
                        self.assertEqual(timestamps - ended, set(), "a frame was not ended")
                    timestamps.add(packet.timestamp)
                    if packet.marker:
                        ended.add(packet.timestamp)
            player = next(one for one in self.daemon.api()["players"] if one["frames_dropped"])
            self.assertEqual(player["stream"], "live/a")
        self.daemon.blocks_settled()

    def test_killed_players(self):
        with steady(self.daemon) as stream:
            for cut in (0, 1, 2, 3):
                client = Client(self.daemon)
                client.send("DESCRIBE")
                if cut > 0:
                    client.reply()
                    client.setup(0)
                if cut > 1:
                    client.ask("PLAY")
                if cut > 2:
                    client.next_rtp()
                client.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
            stream.go_on()
        self.daemon.blocks_settled()


class StatusTest(unittest.TestCase):
    """Each thing that is wrong gets the status that the standard names."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--wait", "0", listen=listen())
        cls.addClassCleanup(cls.daemon.stop)
        cls.stream = steady(cls.daemon)
        cls.stream.__enter__()
        cls.addClassCleanup(cls.stream.__exit__, None, None, None)

    def client(self):
        client = Client(self.daemon)
        self.addCleanup(client.close)
        return client

    def raw(self, data, status):
        """The reply to broken bytes, behind which the connection ends."""
        client = self.client()
        client.send_raw(data)
        replies = client.read_to_end()
        self.assertEqual([one.status for one in replies], [status], data[:80])

    def test_broken_bytes(self):
        self.raw("no request at all\r\n\r\n", 400)
        self.raw("OPTIONS * RTSP/1.0\r\nno colon\r\n\r\n", 400)
        self.raw("OPTIONS * RTSP/3.0\r\nCSeq: 1\r\n\r\n", 505)
        self.raw("OPTIONS * HTTP/1.1\r\nCSeq: 1\r\n\r\n", 400)
        self.raw("OPTIONS rtsp://h/" + "a" * 3000 + " RTSP/1.0\r\nCSeq: 1\r\n\r\n", 414)
        self.raw("ANNOUNCE rtsp://h/live/x RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 999999\r\n\r\n", 413)

    def test_tunnels(self):
        """RTSP over HTTP is answered in HTTP, with what to do instead, at both ports; however the request is cut."""
        for protocol in ("rtsp", "http"):
            for request in (b"GET /live/a HTTP/1.0\r\nx-sessioncookie: 1\r\nAccept: application/x-rtsp-tunnelled\r\n\r\n",
                            b"POST /live/a HTTP/1.1\r\nHost: x\r\nx-sessioncookie: 1\r\n"
                            b"Content-Type: application/x-rtsp-tunnelled\r\nContent-Length: 32767\r\n\r\nT1BUSU9OUw=="):
                for cut in (0, 3, 20, 40):
                    with self.subTest((protocol, request[:4], cut)), self.daemon.connect(protocol) as peer:
                        peer.sendall(request[:cut])
                        peer.sendall(request[cut:])
                        answer = harness.read_to_end(peer)
                        self.assertEqual(harness.status_of(answer), 501)
                        self.assertIn(b"-rtsp_transport tcp", answer)

    def test_tunnel_of_ffmpeg(self):
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("ffmpeg is not installed")
        for protocol in ("rtsp", "http"):
            url = "rtsp://%s:%d/live/a" % self.daemon.address(protocol)
            done = subprocess.run([ffmpeg, "-v", "warning", "-rtsp_transport", "http", "-i", url, "-f", "null", "-"],
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=harness.PATIENCE)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr.decode(), "5XX|501")

    def test_no_cseq(self):
        self.assertEqual(self.client().ask("OPTIONS", CSeq=None).status, 400)
        self.assertEqual(self.client().ask("OPTIONS", CSeq="x").status, 400)

    def test_methods(self):
        client = self.client()
        unknown = client.ask("FROBNICATE")
        self.assertEqual(unknown.status, 501)
        self.assertIn("SETUP", unknown.headers["public"])
        redirect = client.ask("REDIRECT")
        self.assertEqual(redirect.status, 405)
        self.assertIn("SETUP", redirect.headers["allow"])
        require = client.ask("OPTIONS", Require="implicit-play")
        self.assertEqual((require.status, require.headers["unsupported"]), (551, "implicit-play"))
        self.assertEqual(client.ask("SET_PARAMETER", body="volume: 1\r\n").status, 451)
        self.assertEqual(client.ask("OPTIONS").status, 200)

    def test_states(self):
        client = self.client()
        for method in ("PLAY", "PAUSE", "RECORD", "TEARDOWN"):
            self.assertEqual(client.ask(method).status, 454)
        client.ask("DESCRIBE")
        self.assertEqual(client.ask("ANNOUNCE").status, 455)
        client.setup(0)
        record = client.ask("RECORD")
        self.assertEqual(record.status, 455)
        self.assertIn("PLAY", record.headers["allow"].split(", "))
        self.assertNotIn("RECORD", record.headers["allow"].split(", "))
        client.ask("PLAY")
        self.assertEqual(client.setup(1).status, 455)
        self.assertEqual(client.ask("PLAY").status, 200)

    def test_sessions(self):
        one, other = self.client(), self.client()
        one.play()
        for method in ("PLAY", "PAUSE", "TEARDOWN", "GET_PARAMETER"):
            self.assertEqual(other.ask(method, Session=one.session).status, 454)
        other.ask("DESCRIBE")
        self.assertEqual(other.setup(0, Session=one.session).status, 454)
        self.assertEqual(one.ask("GET_PARAMETER", Session=one.session + "x").status, 454)
        self.assertEqual(one.ask("GET_PARAMETER", Session="a b").status, 400)
        self.assertEqual(one.ask("PAUSE", Session=None).status, 454)
        self.assertEqual(one.ask("GET_PARAMETER").status, 200)

    def test_transports(self):
        client = self.client()
        client.ask("DESCRIBE")
        self.assertEqual(client.setup(0, transport=UDP).status, 461)
        self.assertEqual(client.setup(0, transport="RTP/AVP;multicast;port=5000-5001").status, 461)
        self.assertEqual(client.setup(0, transport=TCP + ";mode=record").status, 461)
        self.assertEqual(client.setup(0, transport="RTP/SAVP/TCP;unicast;interleaved=0-1").status, 461)
        self.assertEqual(client.setup(0, transport="interleaved=0-1").status, 400)
        self.assertEqual(client.setup(0, transport="RTP/AVP/TCP;interleaved=0-256").status, 400)
        both = client.setup(0, transport=UDP + "," + TCP)
        self.assertEqual((both.status, both.headers["transport"]), (200, TCP))
        taken = client.setup(1, transport=TCP)
        self.assertEqual((taken.status, taken.headers["transport"]), (200, "RTP/AVP/TCP;unicast;interleaved=2-3"))

    def test_targets(self):
        client = self.client()
        base = client.url[:-len("live/a")]
        self.assertEqual(client.ask("DESCRIBE", base + "live/../a").status, 404)
        self.assertEqual(client.ask("DESCRIBE", base + "api").status, 404)
        self.assertEqual(client.ask("DESCRIBE", base).status, 404)
        self.assertEqual(client.ask("DESCRIBE", base + "live/none").status, 404)
        self.assertEqual(client.ask("DESCRIBE", "http://localhost/live/a").status, 400)
        self.assertEqual(client.ask("DESCRIBE", "*").status, 400)
        self.assertEqual(client.ask("DESCRIBE", Accept="text/plain").status, 406)
        self.assertEqual(client.ask("DESCRIBE", client.url + "/", Accept="text/x, application/sdp").status, 200)
        self.assertEqual(client.ask("SETUP", Transport=TCP).status, 459)
        self.assertEqual(client.ask("SETUP", client.url + "/trackID=2", Transport=TCP).status, 404)
        self.assertEqual(client.ask("SETUP", client.url + "?token=1/trackID=0", Transport=TCP).status, 200)
        self.assertEqual(client.ask("SETUP", client.url + "/trackID=1?token=1", Transport=TCP).status, 200)
        self.assertEqual(client.ask("PLAY", client.url + "/trackID=0").status, 460)
        self.assertEqual(client.ask("PLAY", base + "live/b").status, 404)
        self.assertEqual(client.ask("PLAY", Range="clock=19961108T142300Z-").status, 457)
        self.assertEqual(client.ask("PLAY", client.url + "/", Range="npt=now-").status, 200)

    def test_frames_around_and_between_requests(self):
        client = self.client()
        client.ask("DESCRIBE")
        frames = b"$\x07\0\0$\0\0\x05abcde" + b"$\x01" + struct.pack(">H", 65535) + bytes(65535)
        for track in (0, 1):
            client.send_raw(frames)
            self.assertEqual(client.setup(track).status, 200)
        client.send_raw(frames)
        client.send_raw("OPTIONS * RTSP/1.0\r\nCSeq: 90\r\n\r\n$\0\0\0OPTIONS * RTSP/1.0\r\nCSeq: 91\r\n\r\n")
        self.assertEqual([client.reply().headers["cseq"] for _ in range(2)], ["90", "91"])

    def test_random_methods(self):
        """Whatever comes in whatever order, each request gets a reply with its CSeq, or the connection's end."""
        choice = random.Random(20261121)
        methods = ["OPTIONS", "DESCRIBE", "SETUP", "PLAY", "PAUSE", "GET_PARAMETER", "ANNOUNCE", "RECORD", "X"]
        for _ in range(60):
            client = self.client()
            for number in range(choice.randrange(2, 30)):
                method = "TEARDOWN" if choice.random() < 0.04 else choice.choice(methods)
                url = client.url + choice.choice(["", "", "/trackID=0", "/trackID=1", "/"])
                headers = {"Transport": choice.choice([TCP, TCP, UDP])} if method == "SETUP" else {}
                try:
                    reply = client.ask(method, url, **headers)
                except Ended:
                    self.assertEqual(last, "TEARDOWN")
                    break
                self.assertEqual(reply.headers["cseq"], str(number + 1))
                self.assertIn(reply.status, (200, 400, 404, 454, 455, 459, 460, 461, 501))
                last = method if reply.status == 200 else None
            client.close()



class PublishTest(unittest.TestCase):
    """Publishers by hand; what they send is watched by a player by HTTP and one by RTSP."""

    AUDIO = b"\x00\x10"  # one AU header of 16 bits

    def setUp(self):
        self.daemon = Daemon("--idle", "600", "--idle", "short/*=1", listen=listen())
        self.addCleanup(self.daemon.stop)

    def send_frames(self, client, count, first=0):
        """Video of one NAL unit at 25 frames a second, every tenth a key frame; audio of 21 bytes beside."""
        for number in range(first, first + count):
            unit = bytes([0x65 if number % 10 == 0 else 0x41]) + struct.pack(">I", number) * 50
            client.send_rtp(0, unit, number, number * 3600)
            frame = struct.pack(">I", number) * 5 + b"a"
            client.send_rtp(2, self.AUDIO + struct.pack(">H", len(frame) << 3) + frame, number, number * 1764,
                            payload_type=97)

    def test_record(self):
        with Client(self.daemon) as client:
            announce, video, audio, record = client.record()
            self.assertNotIn("session", announce.headers)
            self.assertEqual(video.headers["transport"], "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record")
            self.assertEqual(audio.headers["session"], record.headers["session"])
            self.send_frames(client, 40)
            stream = self.daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] >= 39, "39 pictures")
            self.assertEqual(stream["publisher"]["protocol"], "rtsp")
            self.assertEqual((stream["video"]["codec"], stream["audio"]["codec"]), ("h264", "aac"))
            with harness.Player(self.daemon, "live/a") as player, Client(self.daemon) as other:
                other.play()
                self.daemon.wait_player("live/a", 2)
                self.send_frames(client, 40, 40)
                player.wait_tags(60)
                self.assertEqual(player.flags, flv.HAS_VIDEO | flv.HAS_AUDIO)
                packets = [other.next_rtp() for _ in range(60)]
                units = {packet.payload for packet in packets if packet.channel == 0 and packet.payload[0] & 31 < 7}
                tags = {tag.payload[9:] for tag in player.tags if tag.type == flv.VIDEO and tag.is_frame}
                self.assertGreater(len(units & tags), 10)
                self.assertEqual(client.ask("TEARDOWN").status, 200)
            self.assertEqual(client.read_to_end(), [])
        self.daemon.blocks_settled()

    def test_second_publisher(self):
        with Client(self.daemon) as one, Client(self.daemon) as other:
            one.record()
            self.assertEqual(other.ask("ANNOUNCE", body=SDP).status, 403)
            with Publisher(self.daemon, "live/a", "http") as third:
                self.assertEqual(harness.read_head(third.peer)[0], 409)
            one.close()
            harness.wait_until(lambda: other.ask("ANNOUNCE", body=SDP).status == 200, "the name to be free")
        with steady(self.daemon), Client(self.daemon) as late:
            self.assertEqual(late.ask("ANNOUNCE", body=SDP).status, 403)
        self.daemon.blocks_settled()

    def check_unsupported(self):
        """What is not carried is named: to the client, in the log, and by the API where something else is carried."""
        media = "m=%s 0 RTP/AVP 98\r\na=rtpmap:98 %s/90000\r\na=control:streamid=%s\r\n"
        video = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:streamid=0\r\n"
        many = "".join(media % ("audio", "X-%02d-%s" % (number, 40 * "y"), number) for number in range(16))
        for body, reason in [
                (media % ("video", "AV1", "x"), "video/AV1 is not supported"),
                (media % ("video", "VP9", "x") + media % ("audio", "AC3", "y"),
                 "video/VP9, audio/AC3 are not supported"),
                ("m=video 0 RTP/AVP 35\r\n", "video/35 is not supported"),
                (media % ("vid\x1beo", "A\"\xe4<V", "x"), "vid?eo/A???<V is not supported".replace("<", "?")),
                (many, "audio/X-00-%s, audio/X-01-%s, ... are not supported" % (27 * "y", 27 * "y"))]:
            with Client(self.daemon) as client:
                self.assertEqual(client.ask("ANNOUNCE", body="v=0\r\n" + body).status, 415, body)
                self.assertEqual(client.reason, reason)
                self.daemon.wait_log("request refused", status="415", reason=reason)
        with Client(self.daemon) as client:
            client.record("v=0\r\n" + video + media % ("video", "AV1", "1") + media % ("audio", "AC3", "2"))
            client.send_rtp(0, b"\x67" + flv.SPS[1:], 0, 0, False)
            client.send_rtp(0, flv.PPS, 1, 0, False)
            client.send_rtp(0, b"\x65" * 99, 2, 0)
            stream = self.daemon.wait_stream("live/a", lambda stream: stream["publisher"], "a publisher")
            self.assertEqual(stream["publisher"]["tracks_ignored"], ["video/AV1", "audio/AC3"])
            self.daemon.wait_log("tracks ignored", stream="live/a", tracks="video/AV1, audio/AC3")
            client.ask("TEARDOWN")
        self.daemon.wait_log("publisher ended", stream="live/a")

    def test_descriptions(self):
        video = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:v\r\n"
        unknown = "m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\na=control:m\r\n"
        for body, status in [
                ("v=0\r\ns=-\r\n", 400), ("no description", 400), ("v=0\r\n" + unknown, 415),
                ("v=0\r\nm=audio 0 RTP/AVP 96\r\na=rtpmap:96 MPEG4-GENERIC/44100\r\n", 415),
                ("v=0\r\n" + 17 * video, 413), ("v=0\r\na=" + 9000 * "x", 413), ("v=1\r\n", 400)]:
            with Client(self.daemon) as client:
                self.assertEqual(client.ask("ANNOUNCE", body=body).status, status, body[:60])
                self.assertEqual(client.ask("ANNOUNCE", body="v=0\r\n" + video).status, 200)
        self.check_unsupported()
        with Client(self.daemon) as client:
            self.assertEqual(client.ask("ANNOUNCE").status, 400)
            self.assertEqual(client.ask("ANNOUNCE", body="v=0\r\n" + video, Content_Type="text/plain").status, 415)
            # Two of a kind, and one of no kind: all are set up, and the first is what counts.
            self.assertEqual(client.ask("ANNOUNCE", body="v=0\r\n" + unknown + video + video.replace(
                "control:v", "control:w")).status, 200)
            self.assertEqual(client.ask("SETUP", Transport=TCP).status, 459)
            for number, control in enumerate(("m", "v", "w")):
                transport = "RTP/AVP/TCP;interleaved=%d-%d;mode=\"RECORD\"" % (2 * number, 2 * number + 1)
                self.assertEqual(client.ask("SETUP", client.url + "/" + control, Transport=transport).status, 200)
            self.assertEqual(client.ask("RECORD", client.url + "/v").status, 460)
            self.assertEqual(client.ask("RECORD").status, 200)
            for number in range(20):
                for channel in (0, 2, 4):
                    client.send_rtp(channel, b"\x67" + flv.SPS[1:], 3 * number, number * 3600, False)
                    client.send_rtp(channel, flv.PPS, 3 * number + 1, number * 3600, False)
                    client.send_rtp(channel, b"\x65" + bytes([channel]) * 99, 3 * number + 2, number * 3600)
            with harness.Player(self.daemon, "live/a") as player:
                player.wait_tags(5)
                self.assertEqual({tag.payload[-1] for tag in player.tags if tag.is_frame}, {2})
        self.daemon.blocks_settled()

    def test_states(self):
        with Client(self.daemon) as client:
            client.ask("ANNOUNCE", body=SDP)
            self.assertEqual(client.ask("DESCRIBE").status, 455)
            self.assertEqual(client.setup(0, True, transport=UDP + ";mode=record").status, 461)
            self.assertEqual(client.setup(0, True, transport=TCP).status, 461)
            self.assertEqual(client.setup(2, True).status, 404)
            self.assertEqual(client.setup(0, True).status, 200)
            self.assertEqual(client.ask("PLAY").status, 455)
            self.assertEqual(client.ask("RECORD").status, 200)
            self.assertEqual(client.setup(1, True).status, 455)
            self.assertEqual(client.ask("PAUSE").status, 200)
            self.assertEqual(client.ask("RECORD").status, 200)
        self.daemon.blocks_settled()

    def test_publisher_that_stops_sending(self):
        with Client(self.daemon, "short/a") as client:
            client.record()
            self.send_frames(client, 5)
            client.read_to_end()
        ended = self.daemon.wait_log("publisher ended", proto="rtsp")
        self.assertEqual(ended.fields["reason"], "receive timeout")
        self.daemon.blocks_settled()

    def test_broken_packets(self):
        """What is no RTP, of no channel, too short or lost is dropped, and the stream goes on."""
        choice = random.Random(5)
        with Client(self.daemon) as client:
            client.record()
            for number in range(60):
                for _ in range(3):
                    packet = bytes(choice.randrange(256) for _ in range(choice.randrange(40)))
                    client.send_raw(struct.pack(">BBH", 0x24, choice.randrange(6), len(packet)) + packet)
                self.send_frames(client, 2, number * 3)
            self.daemon.wait_stream("live/a", lambda stream: stream["frames"]["audio"] > 50, "with audio")
            client.send_raw("garbage\r\n\r\n")
            self.assertEqual(client.reply().status, 400)
            client.read_to_end()
        counted = self.daemon.wait_log("packets received").fields
        self.assertGreater(int(counted["malformed"]), 20)
        self.assertGreater(int(counted["lost"]), 20)
        self.daemon.blocks_settled()

    def test_killed_publishers(self):
        for cut in range(4):
            client = Client(self.daemon)
            client.record()
            self.send_frames(client, 10)
            client.send_raw(struct.pack(">BBH", 0x24, 0, 1000)[:2 * cut] + b"x" * (200 if cut == 3 else 0))
            client.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            self.daemon.wait_log("publisher ended", cut + 1)
        self.daemon.blocks_settled()

    def test_daemon_stops(self):
        with Client(self.daemon) as publisher, Client(self.daemon) as player, Client(self.daemon, "live/b") as waiting:
            publisher.record()
            self.send_frames(publisher, 20)
            player.play()
            waiting.send("DESCRIBE")
            self.daemon.wait_player("live/b")
            self.daemon.stop()
            self.assertEqual(waiting.reply().status, 503)
            player.read_to_end()



class UsersTest(unittest.TestCase):
    """Basic and Digest: who may publish, who may play, and what is wrong with credentials."""

    USERS = "# who\n\nboth:a b:c\r\npublish camera:eye\nplay viewer:see\n"

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.file = os.path.join(folder, "users")
        self.write(self.USERS)

    def write(self, text, mode=0o600):
        with open(self.file, "wb") as file:
            file.write(text.encode())
        os.chmod(self.file, mode)

    def start(self, *options):
        daemon = Daemon("--wait", "2", "--rtsp-users", self.file, *options, listen=listen())
        self.addCleanup(daemon.stop)
        return daemon

    def credentials(self, client, method, user, password, algorithm="MD5", uri=None, nonce=None):
        """What a client says after it was challenged."""
        if algorithm == "Basic":
            return "Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()
        uri, nonce = uri or client.url, nonce or client.nonce
        made = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}[algorithm]
        digest = lambda *parts: made(":".join(parts).encode()).hexdigest()
        response = digest(digest(user, "sluiced", password), nonce, digest(method, uri))
        return 'Digest username="%s", realm="sluiced", nonce="%s", uri="%s", algorithm=%s, response="%s"' % (
            user, nonce, uri, algorithm, response)

    def challenged(self, daemon, method="DESCRIBE", body=""):
        client = Client(daemon)
        self.addCleanup(client.close)
        client.send(method, body=body)
        client.nonce = None
        reply = client.reply()
        self.assertEqual(reply.status, 401)
        client.nonce = re.search('nonce="([^"]+)"', reply.headers["www-authenticate-0"]).group(1)
        self.assertIn("algorithm=SHA-256", reply.headers["www-authenticate-0"])
        self.assertIn("algorithm=MD5", reply.headers["www-authenticate-1"])
        self.assertEqual(reply.headers["www-authenticate-2"], 'Basic realm="sluiced"')
        return client

    @contextlib.contextmanager
    def published(self, daemon):
        """A live stream that has begun, of a publisher that shows nothing."""
        with Publisher(daemon, "live/a") as publisher:
            publisher.send(flv.stream(50)[0])
            daemon.wait_stream("live/a")
            yield

    def test_each_algorithm(self):
        daemon = self.start("--rule", "publish * allow", "--rule", "play * user")
        with self.published(daemon):
            for algorithm in ("MD5", "SHA-256", "Basic"):
                for user, password in (("both", "a b:c"), ("viewer", "see")):
                    client = self.challenged(daemon)
                    said = self.credentials(client, "DESCRIBE", user, password, algorithm)
                    self.assertEqual(client.ask("DESCRIBE", Authorization=said).status, 200)
                    client.setup(0)
                    self.assertEqual(client.ask("PLAY").status, 200)
                    client.next_rtp()
        daemon.blocks_settled()

    def test_rights(self):
        daemon = self.start()
        for method, user, password, status in [
                ("ANNOUNCE", "camera", "eye", 200), ("ANNOUNCE", "viewer", "see", 403),
                ("DESCRIBE", "camera", "eye", 403), ("ANNOUNCE", "both", "a b:c", 200)]:
            body = SDP if method == "ANNOUNCE" else ""
            client = self.challenged(daemon, method, body)
            said = self.credentials(client, method, user, password)
            self.assertEqual(client.ask(method, body=body, Authorization=said).status, status, (method, user))
            client.close()
            daemon.blocks_settled()

    def test_wrong_credentials(self):
        daemon = self.start("--rule", "publish * allow", "--rule", "play * user")
        with self.published(daemon):
            other = self.challenged(daemon)
            client = self.challenged(daemon)
            self.assertNotEqual(client.nonce, other.nonce)
            for status, said in [
                    (401, self.credentials(client, "DESCRIBE", "nobody", "see")),
                    (401, self.credentials(client, "DESCRIBE", "viewer", "no")),
                    (401, self.credentials(client, "DESCRIBE", "viewer", "no", "Basic")),
                    (401, self.credentials(client, "DESCRIBE", "viewer", "see", nonce=other.nonce)),
                    (401, self.credentials(client, "PLAY", "viewer", "see")),
                    (400, self.credentials(client, "DESCRIBE", "viewer", "see", uri=client.url[:-1] + "b")),
                    (400, "Digest username")]:
                self.assertEqual(client.ask("DESCRIBE", Authorization=said).status, status, said)
            self.assertEqual(client.ask("DESCRIBE", Authorization="Basic !").status, 400)
            client.read_to_end()
            path = other.url[other.url.index("/live"):]
            said = self.credentials(other, "DESCRIBE", "viewer", "see", uri=path)
            self.assertEqual(other.ask("DESCRIBE", Authorization=said).status, 200)
            other.close()
        daemon.blocks_settled()
        self.assertNotIn("see", " ".join(line.text for line in daemon.log()).split())

    def test_ffmpeg(self):
        if not harness.find_ffmpeg():
            self.skipTest("no ffmpeg")
        daemon = self.start()
        file = harness.make_media(harness.find_ffmpeg(), " ".join([harness.VIDEO, "-t 5", harness.H264]))
        url = "rtsp://%s@" + "%s:%d/live/a" % daemon.address("rtsp")
        publisher = harness.Ffmpeg("ffmpeg", "-re", "-i", file, "-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp",
                                   url % "camera:eye")
        self.addCleanup(publisher.kill)
        daemon.wait_stream("live/a")
        player = harness.Ffmpeg("ffmpeg", "-rtsp_transport", "tcp", "-i", url % "viewer:see", "-frames:v", "20", "-f",
                                "null", "-")
        self.addCleanup(player.kill)
        player.wait()
        publisher.wait()

    def test_files(self):
        for text, mode, why in [
                (self.USERS, 0o644, "others may read it"), ("", 0o600, "no user in it"), ("a:b\nc\n", 0o600, ":2: "),
                ("a:b\na:c\n", 0o600, ":2: a second line"), ("a b:c\n", 0o600, "blanks"), (":b\n", 0o600, ":1: "),
                ("a:\n", 0o600, ":1: "), ("a:b\0\n", 0o600, "not text"), ("#" * 70000, 0o600, "64 KiB")]:
            self.write(text, mode)
            status, _, err = harness.run_daemon("--rtsp", "127.0.0.1:0", "--rtsp-users", self.file)
            self.assertEqual(status, 2)
            self.assertIn(why, err)
        status, _, err = harness.run_daemon("--rtsp", "127.0.0.1:0", "--rtsp-users", self.file + "x")
        self.assertEqual(status, 2)
        self.assertIn("No such file", err)


if __name__ == "__main__":
    harness.main()
