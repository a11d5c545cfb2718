"""Enhanced RTMP: what is negotiated, newer codecs, several tracks, offsets in nanoseconds, requests to reconnect."""

import os
import signal
import tempfile
import unittest
import urllib.parse

import flv
import harness
import multitrack
import rtmp
import settings
from harness import VIDEO, Daemon, tone
from test_upgrade import Upgraded

LISTEN = ("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0")
RECONNECT, MULTITRACK, MODEX, NANOSECONDS = 1, 2, 4, 8
CODECS = {
    "hevc_ac3": "-c:v libx265 -preset ultrafast -x265-params keyint=25:log-level=error -pix_fmt yuv420p -c:a ac3",
    "av1_opus": "-c:v libsvtav1 -preset 11 -g 25 -pix_fmt yuv420p -c:a libopus",
    "vp9_flac": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -pix_fmt yuv420p -c:a flac",
}


class NegotiationTest(unittest.TestCase):
    def test_capabilities(self):
        with Daemon(listen=LISTEN) as daemon:
            with rtmp.Client(daemon) as client:
                properties = client.connect()[2]
                self.assertNotIn("capsEx", properties)
                self.assertNotIn("fourCcList", properties)
            for more in ({"fourCcList": ["hvc1"]}, {"videoFourCcInfoMap": {"*": 7}}, {"audioFourCcInfoMap": {"Opus": 1}},
                         {"capsEx": 0}):
                with self.subTest(more), rtmp.Client(daemon) as client:
                    answer = client.connect(**more)
                    self.assertEqual(answer[3]["code"], "NetConnection.Connect.Success")
                    self.assertEqual(answer[2]["capsEx"], RECONNECT | MULTITRACK | MODEX | NANOSECONDS)
                    self.assertEqual(answer[2]["videoFourCcInfoMap"], {"*": 4})
                    self.assertEqual(answer[2]["audioFourCcInfoMap"], {"*": 4})
                    self.assertLessEqual({"hvc1", "av01", "vp09", "Opus", "fLaC", "ac-3"}, set(answer[2]["fourCcList"]))


class CodecsTest(unittest.TestCase):
    def test_identity(self):
        ffmpeg = harness.find_current_ffmpeg()
        if not ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        wait = settings.long_wait(self.addCleanup)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        processes = {}

        def hashes(source, *what):
            path = os.path.join(folder.name, "-".join(what))
            processes[what] = harness.frame_hashes(ffmpeg, source, path)
            self.addCleanup(processes[what].kill)

        def read(*what):
            processes[what].wait()
            with open(os.path.join(folder.name, "-".join(what)), encoding="ascii") as file:
                return harness.packets(file.read())
        with Daemon(*wait.options, listen=LISTEN) as daemon:
            publishers = []
            for name, codecs in CODECS.items():
                file = harness.make_media(ffmpeg, " ".join([VIDEO, tone(48000), "-t 4", codecs]))
                hashes(file, name, "sent")
                hashes(rtmp.url(daemon, "live/" + name), name, "rtmp")
                hashes(daemon.url("live/" + name), name, "http")
                daemon.wait_player("live/" + name, 2)
                publishers.append(harness.Ffmpeg(ffmpeg, "-copyts", "-i", file, "-c", "copy", "-f", "flv",
                                                 rtmp.url(daemon, "live/" + name)))
                self.addCleanup(publishers[-1].kill)
            for publisher in publishers:
                publisher.wait()
            settings.end_wait(wait, daemon)
            for name in CODECS:
                sent = read(name, "sent")
                self.assertGreater(len(sent), 150)
                for way in ("rtmp", "http"):
                    with self.subTest(name=name, way=way):
                        harness.check_same(read(name, way), sent)


class TracksTest(unittest.TestCase):
    def play(self, daemon, name, publish=False, **more):
        client = rtmp.Client(daemon)
        self.addCleanup(client.peer.close)
        client.connect(publish=publish, **more)
        client.command("play", name, stream=client.create_stream(), transaction=3)
        return client

    def test_tracks(self):
        """All tracks for players that announce it or ask; one, in the old form, for others. A message of many tracks
        becomes one of each."""
        groups = [{0: tag, 1: tag} for tag in (flv.VIDEO_HEADER, *(
            flv.video_frame(40 * number, number == 0, number, 1000) for number in range(20)))]
        with Daemon(listen=LISTEN) as daemon, rtmp.Client(daemon) as publisher:
            able = self.play(daemon, "a", capsEx=MULTITRACK)
            asking = self.play(daemon, "a?tracks=all")
            plain = self.play(daemon, "a")
            declining = self.play(daemon, "a?tracks=default", capsEx=MULTITRACK)
            daemon.wait_player("live/a", 4)
            publisher.begin("publish", "a", capsEx=MULTITRACK)
            for group in groups:
                tag = multitrack.join(group)
                publisher.send(tag.type, tag.payload, timestamp=tag.timestamp)
            for player in (able, asking):
                got = [one for message in player.media(2 * len(groups))
                       for one in multitrack.split(flv.Tag(message.type, message.timestamp, message.payload))]
                self.assertEqual([one[1] for one in got[2:]], [0, 1] * (len(groups) - 1))
                self.assertEqual([one[4:] for one in got if one[1] == 0], [one[4:] for one in got if one[1] == 1])
            for player in (plain, declining):
                got = player.media(len(groups))
                self.assertEqual([one.payload for one in got], [group[0].payload for group in groups])
            publisher.finish()

    def test_wrong_choice(self):
        with Daemon(listen=LISTEN) as daemon:
            client = self.play(daemon, "a?tracks=2")
            self.assertEqual(client.wait_status()["code"], "NetStream.Play.Failed")
            client.wait_end()

    def test_nanoseconds(self):
        """ModEx with an offset goes through as it is."""
        header = b"\x90hvc1" + bytes(23)
        frames = [b"\x97\x02" + (1000 * number).to_bytes(3, "big") + b"\x03hvc1" + bytes([number] * 50) for number in range(5)]
        with Daemon(listen=LISTEN) as daemon, rtmp.Client(daemon) as publisher:
            player = self.play(daemon, "a")
            daemon.wait_player("live/a")
            publisher.begin("publish", "a", capsEx=MODEX | NANOSECONDS)
            publisher.send(rtmp.VIDEO, header)
            for number, frame in enumerate(frames):
                publisher.send(rtmp.VIDEO, frame, timestamp=200 * number)
            self.assertEqual([one.payload for one in player.media(6)], [header] + frames)
            publisher.finish()


class ReconnectTest(unittest.TestCase):
    """Those that have announced it are asked to connect again; the others are not."""

    def begin(self, daemon):
        able, plain, player = (rtmp.Client(daemon) for _ in range(3))
        for client in (able, plain, player):
            self.addCleanup(client.peer.close)
        able.begin("publish", "a", capsEx=RECONNECT)
        plain.begin("publish", "b", capsEx=MULTITRACK)
        for client in (able, plain):
            for tag in (flv.VIDEO_HEADER, flv.video_frame(0, True, 1, 1000), flv.video_frame(600, True, 2, 1000)):
                client.send(tag.type, tag.payload, timestamp=tag.timestamp)
        player.begin("play", "a", capsEx=RECONNECT)
        return able, plain, player

    def test_drain(self):
        with Daemon(listen=LISTEN) as daemon:
            able, plain, player = self.begin(daemon)
            daemon.process.send_signal(signal.SIGTERM)
            for client in (able, player):
                self.assertEqual(client.wait_status()["code"], "NetConnection.Connect.ReconnectRequest")
            self.assertEqual(plain.wait_status()["code"], "NetStream.Failed")
            self.assertEqual(able.wait_status()["code"], "NetStream.Failed")
            self.assertEqual(player.wait_status()["code"], "NetStream.Play.UnpublishNotify")
            for client in (able, plain, player):
                client.wait_end()
            daemon.wait_end()

    def test_upgrade(self):
        """Once: and the stream goes on until the client leaves."""
        with Upgraded(listen=LISTEN) as upgraded:
            daemon = upgraded.daemon
            able, plain, player = self.begin(daemon)
            upgraded.upgrade()
            for client in (able, player):
                self.assertEqual(client.wait_status()["code"], "NetConnection.Connect.ReconnectRequest")
            tag = flv.video_frame(1200, True, 3, 1000)
            able.send(tag.type, tag.payload, timestamp=tag.timestamp)
            while True:
                message = player.next()
                self.assertNotEqual(message.type, rtmp.COMMAND)
                if message.payload == tag.payload:
                    break
            for client in (player, able, plain):
                client.finish()
            daemon.wait_end()

    def kick(self, daemon, path, to):
        query = urllib.parse.urlencode({"to": to})
        return daemon.admin("DELETE", "/api/v1/%s?%s" % (path, query))[0]

    def test_kick_to_another_server(self):
        """Those that can are asked, stay for a while, and are then disconnected; the others are disconnected at once."""
        with Daemon(listen=LISTEN) as daemon:
            able, plain, player = self.begin(daemon)
            url = "rtmp://127.0.0.1:1/live"
            publishers = {one["stream"]: one["id"] for one in daemon.api("/api/v1/publishers")["publishers"]}
            self.assertEqual(self.kick(daemon, "publishers/%d" % publishers["live/b"], url), 204)
            self.assertEqual(plain.wait_status()["code"], "NetStream.Publish.Denied")
            plain.wait_end()
            self.assertEqual(self.kick(daemon, "streams/live%2Fa", url), 204)
            for client in (able, player):
                status = client.wait_status()
                self.assertEqual((status["code"], status["tcUrl"]), ("NetConnection.Connect.ReconnectRequest", url))
            tag = flv.video_frame(1200, True, 3, 1000)
            able.send(tag.type, tag.payload, timestamp=tag.timestamp)
            while player.next().payload != tag.payload:
                pass
            able.wait_end()
            player.wait_end()
            for wrong in ("", "http://127.0.0.1/live", "rtmp://", "rtmp://a b", "rtmp://" + "a" * 505, "/live"):
                self.assertEqual(self.kick(daemon, "streams/live%2Fa", wrong), 400, wrong)
            self.assertEqual(self.kick(daemon, "streams/live%2Fnone", "rtmp://" + "a" * 504), 404)


if __name__ == "__main__":
    harness.main()
