#!/usr/bin/env python3
"""Forwards of streams with several tracks: all of them, or the default ones for targets that know no others.

What arrives is read by a current ffmpeg, behind a second sluiced and as the target itself; nginx is a target that knows no
tracks.
"""

import os
import tempfile
import unittest

import flv
import harness
import multitrack
import rtmp_servers
from harness import Daemon, Ffmpeg, Player, Publisher
from test_forward import LISTEN, wait_state
from test_tracks import MEDIA

NAME = "live/x"
FRAMES = (multitrack.CODED_FRAMES, multitrack.CODED_FRAMES_X)


def read_hashes(path):
    """The packets of each stream: {number: [(size, hash)]}"""
    found = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            if not line.startswith("#"):
                stream, _, _, _, size, digest = [part.strip() for part in line.split(",")[:6]]
                found.setdefault(int(stream), []).append((int(size), digest))
    return found


def frames(tags):
    """The frames of all tracks, with their numbers."""
    return [one for one in multitrack.split_all(tags) if one[4] in FRAMES]


class ForwardTracksTest(unittest.TestCase):
    def setUp(self):
        self.ffmpeg = harness.find_current_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("the Python package imageio-ffmpeg is not installed")
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.media = harness.make_media(self.ffmpeg, MEDIA)
        with open(self.media, "rb") as file:
            self.tags = flv.parse(file.read())
        reader = Ffmpeg(self.ffmpeg, "-i", self.media, *self.hashes("sent"))
        self.addCleanup(reader.kill)
        reader.wait()
        self.sent = read_hashes(self.path("sent"))
        self.assertEqual(len(self.sent), 4)

    def path(self, name):
        return os.path.join(self.folder, name)

    def hashes(self, name):
        return ["-map", "0", "-c", "copy", "-f", "framemd5", self.path(name)]

    def daemon(self, *forwards, options=()):
        arguments = [word for one in forwards for word in ("--forward", one)]
        daemon = Daemon("--log-level", "debug", "--wait", "0", *options, *arguments, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    def publish(self, daemon, sending=1):
        """The file: its beginning, of all tracks, and the rest when the forwards send."""
        begun = next(at for at, tag in enumerate(self.tags) if tag.is_frame and tag.timestamp > 0)
        with Publisher(daemon, NAME, "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in self.tags[:begun]))
            wait_state(daemon, "sending", sending)
            said = [forward["tracks"] for forward in daemon.api("/api/v1/forwards")["forwards"]]
            publisher.send(b"".join(tag.pack() for tag in self.tags[begun:]))
            publisher.finish()
        return said

    def test_second_daemon(self):
        """By each protocol, a second daemon gets all four tracks: frame by frame, with their numbers."""
        for scheme in ("http", "rtmp"):
            with self.subTest(scheme), Daemon("--wait", "60", listen=("--http", "127.0.0.1:0", "--rtmp",
                                                                      "127.0.0.1:0")) as target:
                url = "%s://%s:%d/copy/x%s" % (scheme, *target.address(scheme), ".flv" if scheme == "http" else "")
                daemon = self.daemon("live/*=" + url)
                with Player(target, "copy/x") as player:
                    reader = Ffmpeg(self.ffmpeg, "-i", "http://%s:%d/copy/x.flv" % target.address("http"),
                                    *self.hashes(scheme))
                    self.addCleanup(reader.kill)
                    target.wait_player("copy/x", 2)
                    self.assertEqual(self.publish(daemon), ["all"])
                    target.wait_log("publisher ended", stream="copy/x", reason="end of stream")
                    player.wait(lambda player: len(frames(player.tags)) >= len(frames(self.tags)), "all frames")
                    harness.check_same(frames(player.tags), frames(self.tags))
                    target.stop()
                    reader.wait()
                    harness.check_same(list(read_hashes(self.path(scheme)).items()), list(self.sent.items()))
                self.assertEqual(daemon.log("forward limited"), [])
                daemon.stop()

    def receive(self, scheme, choice, expected, said, limited):
        """ffmpeg as the target, which announces nothing: the tracks that it gets."""
        url = "%s://127.0.0.1:%d/app/in" % (scheme, rtmp_servers.free_port())
        receiver = Ffmpeg(self.ffmpeg, "-f", "flv", "-listen", "1", "-i", url, *self.hashes("got"))
        self.addCleanup(receiver.kill)
        harness.wait_until(lambda: rtmp_servers.is_listening(int(url.split(":")[2].split("/")[0])), "ffmpeg")
        daemon = self.daemon("live/x%s=%s" % (choice, url))
        self.assertEqual(self.publish(daemon), [said])
        receiver.wait()
        got = read_hashes(self.path("got"))
        harness.check_same(sorted(got.values()), sorted(self.sent[number] for number in expected))
        daemon.stop()
        self.assertEqual(len(daemon.log("forward limited", reason="the target has not announced multitrack")), limited)

    def test_ffmpeg_receives(self):
        """By HTTP it gets all unless the option says otherwise; by RTMP the default ones, since it announces nothing."""
        for scheme, choice, expected, said, limited in (("http", "", (0, 1, 2, 3), "all", 0),
                                                        ("http", "?tracks=default", (0, 2), "default", 0),
                                                        ("rtmp", "", (0, 2), "default", 1),
                                                        ("rtmp", "?tracks=all", (0, 1, 2, 3), "all", 0)):
            with self.subTest(scheme + choice):
                self.receive(scheme, choice, expected, said, limited)

    def test_reason_once(self):
        """A target without multitrack that comes again and again: the reason is logged once."""
        if not rtmp_servers.has_nginx():
            self.skipTest("nginx and its RTMP module are not installed: tools/install-deps rtmp")
        with rtmp_servers.nginx() as url:
            daemon = self.daemon(NAME + "=" + url + "key")
            frames = [flv.video_frame(40 * at, at % 10 == 0, at, 500) for at in range(60)]
            with Publisher(daemon, NAME, "http") as publisher:
                publisher.send(flv.header() + flv.VIDEO_HEADER.pack() + b"".join(tag.pack() for tag in frames[:20]))
                wait_state(daemon, "sending")
                self.assertEqual(daemon.log("forward limited"), [])
                # A second track comes later.
                publisher.send(b"".join(multitrack.wrap(tag, 5).pack() for tag in (flv.VIDEO_HEADER, frames[20])))
                daemon.wait_log("forward limited", tracks="default", reason="the target has not announced multitrack")
                player, = [one for one in daemon.api()["players"] if one["protocol"] == "rtmp"]
                self.assertEqual(daemon.admin("DELETE", "/api/v1/players/%d" % player["id"])[0], 204)
                wait_state(daemon, "sending", 2)
                publisher.send(b"".join(tag.pack() for pair in zip(frames[21:], (multitrack.wrap(tag, 5) for tag in frames[21:]))
                                        for tag in pair))
                publisher.finish()
            daemon.wait_log("forward removed")
            daemon.check_log(1, "forward limited")

    def test_codec(self):
        """A codec that servers of old do not know is sent to them, and the log says so once."""
        if not rtmp_servers.has_nginx():
            self.skipTest("nginx and its RTMP module are not installed: tools/install-deps rtmp")
        with rtmp_servers.nginx() as url, Daemon("--wait", "60", listen=("--http", "127.0.0.1:0", "--rtmp",
                                                                         "127.0.0.1:0")) as able:
            daemon = self.daemon(NAME + "=" + url + "key", "live/*=rtmp://%s:%d/copy/*" % able.address("rtmp"))
            header = flv.Tag(flv.VIDEO, 0, b"\x90hvc1" + bytes(23))
            frame = flv.Tag(flv.VIDEO, 0, b"\x91hvc1\0\0\0" + bytes(100))
            with Publisher(daemon, NAME, "http") as publisher:
                publisher.send(flv.header() + header.pack() + b"".join(
                    frame._replace(timestamp=40 * at).pack() for at in range(30)))
                wait_state(daemon, "sending", 2)
                daemon.wait_log("forward limited", codec="hevc", reason="the target has not announced enhanced RTMP")
                publisher.finish()
            able.wait_log("publisher ended", stream="copy/x")
            daemon.check_log(1, "forward limited")


if __name__ == "__main__":
    harness.main()
