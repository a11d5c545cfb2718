"""Streams pulled by RTSP: from another sluiced, from GStreamer's server, and from cameras that misbehave."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import flv
import harness
import preload
from camera import SDP, Camera
from harness import AAC, H264, VIDEO, Daemon, Player, Publisher, Steady, tone

LISTEN = ("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
SECONDS = 6


def puller(test, *pulls, options=("--wait", "60"), stop=True, environment=None):
    """A daemon with these pulls, which ends when the test does."""
    arguments = [word for pull in pulls for word in ("--pull", pull)]
    daemon = Daemon("--log-level", "debug", *options, *arguments, listen=LISTEN, environment=environment)
    if stop:
        test.addCleanup(daemon.stop)
    return daemon


def pull_of(daemon, name="live/x"):
    return next(pull for pull in daemon.api()["pulls"] if pull["stream"] == name)


def wait_state(daemon, state, name="live/x", count=1):
    return daemon.wait_log("pull", count, stream=name, state=state)


def check_rising(test, tags):
    """Times rise, and what is played again is no picture that has come before."""
    times = [tag.timestamp for tag in tags]
    test.assertEqual(times, sorted(times))
    test.assertEqual(len(set(times)), len(times))


class PlayTest(unittest.TestCase):
    """The same frames for all players."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.ffmpeg = harness.find_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("no ffmpeg")
        self.file = harness.make_media(self.ffmpeg, " ".join(
            [VIDEO, tone(48000), "-t %d" % SECONDS, H264, AAC]))

        self.config = os.path.join(self.folder, "sluiced.conf")
        self.set_wait(600)

    def set_wait(self, seconds):
        with open(self.config, "w", encoding="ascii") as file:
            file.write("wait = %d;\n" % seconds)

    def end_players(self, daemon, reason="no media for too long"):
        """Nobody waits any more for media that has ended; up to here, for as long as programs take to start."""
        daemon.wait_log("pull", state="waiting", reason=reason)
        self.set_wait(0)
        daemon.process.send_signal(signal.SIGHUP)

    def hashes(self, name, source):
        """An ffmpeg that writes hashes: of video decoded, since its packets differ in form, and of audio as it came,
        since decoders of AAC make noise from all that came before."""
        target = os.path.join(self.folder, name)
        transport = ["-rtsp_transport", "tcp"] if source.startswith("rtsp:") else []
        reader = harness.Ffmpeg(self.ffmpeg, *transport, "-i", source, "-map", "0:v", "-fps_mode", "passthrough", "-f",
                                "framemd5", target + ".video", "-map", "0:a", "-c", "copy", "-f", "framemd5",
                                target + ".audio")
        self.addCleanup(reader.kill)
        return reader, target

    def read(self, reader, target):
        reader.wait()
        frames = {}
        for kind in ("video", "audio"):
            with open(target + "." + kind, encoding="ascii") as file:
                frames[kind] = [line.split(",")[4].strip() for _, _, line in harness.packets(file.read())]
        return frames

    def sent(self):
        return self.read(*self.hashes("sent", self.file))

    def check_played(self, daemon, players, sent, whole, again=False):
        """again: where it was asked again before it was killed, it has begun anew."""
        got = {name: self.read(*player) for name, player in players.items()}
        for name, frames in got.items():
            for kind, least in (("video", SECONDS * 25 - 10), ("audio", len(sent["audio"]) * 3 // 4)):
                with self.subTest(player=name, kind=kind):
                    begin = sent[kind].index(frames[kind][0])
                    if again:
                        del frames[kind][len(sent[kind]) - begin:]
                    if whole and kind == "video":
                        self.assertEqual(begin, 0)
                    harness.check_same(frames[kind], sent[kind][begin:begin + len(frames[kind])], kind)
                    self.assertGreater(len(frames[kind]), least)
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)

    def test_from_another_sluiced(self):
        """With a user and a password, which nobody gets to see."""
        users = os.path.join(self.folder, "users")
        with open(users, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("viewer:geheim\n")
        camera = Daemon("--wait", "60", "--rtsp-users", users, "--rule", "publish * allow", "--rule", "play * user",
                        listen=LISTEN)
        self.addCleanup(camera.stop)
        daemon = puller(self, "rtsp://viewer:geheim@%s:%d/live/a?x=y,z=live/x" % camera.address("rtsp"),
                        options=("--config", self.config))
        rtsp = "rtsp://%s:%d/live/x" % daemon.address("rtsp")
        players = {"http": self.hashes("http", daemon.url("live/x")), "rtsp": self.hashes("rtsp", rtsp)}
        daemon.wait_player("live/x", 2)
        camera.wait_player("live/a")
        publisher = harness.Ffmpeg(self.ffmpeg, "-re", "-i", self.file, "-c", "copy", "-f", "flv", "-method", "POST",
                                   camera.url("live/a"))
        self.addCleanup(publisher.kill)
        publisher.wait()
        self.end_players(daemon)
        self.check_played(daemon, players, self.sent(), True)
        shown = str(daemon.api()) + str(daemon.log())
        self.assertNotIn("geheim", shown)
        self.assertNotIn("viewer", shown)
        camera.stop()
        daemon.blocks_settled()

    def test_from_gstreamer(self):
        pipeline = ("( filesrc location=%s ! flvdemux name=d d.video ! queue ! h264parse ! rtph264pay name=pay0 pt=96 "
                    "d.audio ! queue ! aacparse ! rtpmp4gpay name=pay1 pt=97 )" % self.file)
        server = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "gst_camera.py"), pipeline],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        port = server.stdout.readline().decode().strip()
        if not port:
            self.assertEqual(server.wait(), harness.SKIPPED)
            self.skipTest("no gst-rtsp-server")
        daemon = puller(self, "rtsp://127.0.0.1:%s/cam=live/x" % port, options=("--config", self.config))
        rtsp = "rtsp://%s:%d/live/x" % daemon.address("rtsp")
        players = {"http": self.hashes("http", daemon.url("live/x")), "rtsp": self.hashes("rtsp", rtsp)}
        # GStreamer says goodbye, as cameras do.
        self.end_players(daemon, "the camera has ended its media (RTCP BYE)")
        server.kill()
        self.check_played(daemon, players, self.sent(), False, again=True)
        daemon.blocks_settled()


class ReconnectTest(unittest.TestCase):
    def test_killed_and_restarted(self):
        """A camera that dies and comes back at the same place; players stay."""
        camera = Daemon(listen=LISTEN)
        self.addCleanup(camera.kill)
        place = "%s:%d" % camera.address("rtsp")
        daemon = puller(self, "rtsp://%s/live/a=live/x" % place)
        with Player(daemon, "live/x") as player:
            with Steady(camera, name="live/a", pause=0.02) as stream:
                player.wait(lambda player: len(player.frames) > 100, "100 frames")
                stream.abandon()
                camera.kill()
            wait_state(daemon, "waiting")
            again = Daemon(listen=("--flv", "127.0.0.1:0=live/a", "--http", "127.0.0.1:0", "--rtsp", place))
            self.addCleanup(again.stop)
            count = len(player.frames)
            with Steady(again, name="live/a", pause=0.02):
                player.wait(lambda player: len(player.frames) > count + 100, "100 frames more")
            self.assertEqual(daemon.log("player ended"), [])
            frames = player.frames
        for kind in (flv.VIDEO, flv.AUDIO):
            times = [tag.timestamp for tag in frames if tag.type == kind]
            self.assertEqual(times, sorted(set(times)))
        again.kill()
        daemon.blocks_settled()

    def test_silence(self):
        camera = Camera(self).start()
        daemon = puller(self, camera.url() + "=live/x")
        with Player(daemon, "live/x") as player:
            player.wait(lambda player: len(player.frames) > 10, "10 frames")
            camera.media = False
            daemon.wait_log("pull", state="waiting", reason="no media for too long")
            camera.wait_request("TEARDOWN")
            camera.media = True
            count = len(player.frames)
            player.wait(lambda player: len(player.frames) > count + 10, "10 frames more")
            check_rising(self, player.frames)
        camera.close()
        daemon.blocks_settled()

    def test_no_frame(self):
        """Packets that never become a frame are not silence; the pull ends, and begins again."""
        camera = Camera(self, media=False).start()
        daemon = puller(self, camera.url() + "=live/x", options=("--first-data", "1"))
        wait_state(daemon, "playing")

        def end():
            with harness.contextlib.suppress(OSError):
                camera.send(0, struct.pack(">BBHII", 0x80, 0x80 | 97, 1, 1, 0x1234) + b"no picture")
            return daemon.log("pull", state="waiting")
        line, = harness.wait_until(end, "the end of the pull")
        self.assertEqual(line.fields["reason"], "frame timeout")
        camera.wait_request("TEARDOWN")
        wait_state(daemon, "playing", count=2)
        camera.close()

    def test_key_picture_a_minute(self):
        """Pictures that wait for a key picture are given a minute beyond --first-data, and no more."""
        first_data, minute, step = 1, 60, 5
        clock = preload.skewed_clock(self, "-DSKEW_MONOTONIC")
        camera = Camera(self, media=False).start()
        daemon = puller(self, camera.url() + "=live/x", options=("--first-data", str(first_data)), environment=clock.environment)
        wait_state(daemon, "playing")
        began, ahead, number, line = time.monotonic(), 0, 1, None
        while line is None and ahead < 4 * minute:
            for _ in range(5):
                with harness.contextlib.suppress(OSError):
                    camera.send(0, camera.picture(number))
                number += 1 + (number % 10 == 9)  # Every tenth is a key picture.
                time.sleep(0.1)
            line = next(iter(daemon.log("pull", state="waiting")), None)
            if ahead + time.monotonic() - began < minute:
                self.assertIsNone(line)
            ahead += step
            clock.set(ahead * 1000000)
        self.assertIsNotNone(line)
        self.assertEqual(line.fields["reason"], "frame timeout")
        camera.wait_request("TEARDOWN")
        wait_state(daemon, "playing", count=2)
        camera.close()

    def test_goodbye(self):
        """An RTCP BYE of the camera's only source ends the pull there and then; one of another's means nothing."""
        camera = Camera(self, media=False).start()
        daemon = puller(self, camera.url() + "=live/x")
        wait_state(daemon, "playing")
        for number in range(20):
            camera.send(0, camera.picture(number))
        daemon.wait_stream("live/x", lambda stream: stream["frames"]["video"] >= 18, "pictures")
        camera.goodbye(1, 0x77, 0x78)
        for number in range(20, 40):
            camera.send(0, camera.picture(number))
        daemon.wait_stream("live/x", lambda stream: stream["frames"]["video"] >= 38, "pictures behind a foreign BYE")
        camera.goodbye(1, 0x77, 0x1234)
        line = daemon.wait_log("pull", state="waiting")
        self.assertEqual(line.fields["reason"], "the camera has ended its media (RTCP BYE)")
        camera.wait_request("TEARDOWN")
        wait_state(daemon, "playing", count=2)
        camera.close()

    def test_goodbye_of_each_track(self):
        """Audio that ends leaves video going on; what is sent behind a BYE takes it back; both end the pull."""
        sdp = "\r\n".join([SDP.partition("m=application")[0] + "m=audio 0 RTP/AVP 8", "a=control:trackID=1", ""])
        camera = Camera(self, media=False, DESCRIBE=lambda request: Camera.reply(
            request, 200, sdp, Content_Base=request.url + "/")).start()
        daemon = puller(self, camera.url() + "=live/x")
        wait_state(daemon, "playing")

        def send(first, audio=True):
            for number in range(first, first + 20):
                camera.send(0, camera.picture(number))
                if audio:
                    camera.send(2, struct.pack(">BBHII", 0x80, 8, number, number * 320, 0x5678) + bytes(320))

        def wait(video, audio):
            daemon.wait_stream("live/x", lambda stream: stream["frames"]["video"] >= video and
                               stream["frames"]["audio"] >= audio, "%d pictures, %d sounds" % (video, audio))
        send(0)
        wait(15, 15)
        camera.goodbye(3, 0x5678)
        send(20, audio=False)
        wait(35, 15)
        camera.goodbye(1, 0x5678)  # Of the other's source.
        send(40)
        wait(55, 35)
        camera.goodbye(1, 0x1234)
        send(60)
        wait(75, 55)
        self.assertEqual(daemon.log("pull", state="waiting"), [])
        camera.goodbye(1, 0x1234)
        camera.goodbye(3, 0x5678)
        line = daemon.wait_log("pull", state="waiting")
        self.assertEqual(line.fields["reason"], "the camera has ended its media (RTCP BYE)")
        camera.close()

    def test_ignored_tracks(self):
        camera = Camera(self).start()
        daemon = puller(self, camera.url() + "=live/x")
        publisher = daemon.wait_stream("live/x", lambda stream: stream["publisher"], "a publisher")["publisher"]
        self.assertEqual(publisher["tracks_ignored"], ["application/vnd.onvif.metadata"])
        daemon.check_log(1, "tracks ignored")
        line, = daemon.log("tracks ignored")
        self.assertEqual((line.fields["stream"], line.fields["tracks"]), ("live/x", "application/vnd.onvif.metadata"))
        camera.close()

    def test_taken_name(self):
        """Whoever has the name keeps it; the camera is not even asked."""
        camera = Camera(self)
        with harness.contextlib.ExitStack() as stack:
            daemon = puller(self, camera.url() + "=live/x,on-demand")
            publisher = stack.enter_context(Publisher(daemon, "live/x", "http"))
            publisher.send(flv.stream(50)[0])
            daemon.wait_stream("live/x")
            with Player(daemon, "live/x") as player:
                player.wait_tags(10)
                camera.start()
                daemon.wait_log("pull", stream="live/x", state="waiting", reason="name in use")
                self.assertEqual(camera.connections, 0)
                publisher.finish()
                wait_state(daemon, "playing")
                other = Publisher(daemon, "live/x", "http")
                stack.enter_context(other)
                self.assertEqual(harness.read_head(other.peer)[0], 409)
                count = len(player.tags)
                player.wait_tags(count + 10)
        camera.close()
        daemon.blocks_settled()


class AskTest(unittest.TestCase):
    def test_what_is_asked(self):
        camera = Camera(self).start()
        daemon = puller(self, camera.url("cam?a=b,c=d") + "=live/x")
        camera.wait_request("PLAY")
        asked = [(request.method, request.url, request.headers.get("session")) for request in camera.requests]
        url = camera.url("cam?a=b,c=d")
        self.assertEqual(asked, [("OPTIONS", url, None), ("DESCRIBE", url, None),
                                 ("SETUP", url + "/trackID=0", None), ("PLAY", url + "/", "12345678")])
        self.assertEqual(camera.requests[2].headers["transport"], "RTP/AVP/TCP;unicast;interleaved=0-1")
        pull = harness.wait_until(lambda: pull_of(daemon)["state"] == "playing" and pull_of(daemon), "playing")
        self.assertEqual((pull["from"], pull["mode"], pull["failures"], pull["reason"]),
                         ("rtsp://127.0.0.1:%d" % camera.port, "always", 0, None))
        stream = daemon.wait_stream("live/x")
        publisher = stream["publisher"]
        self.assertEqual((publisher["address"], publisher["protocol"]), ("127.0.0.1:%d" % camera.port, "rtsp"))
        daemon.stop()
        self.assertEqual(camera.wait_request("TEARDOWN").url, url + "/")
        self.assertEqual([line.text for line in daemon.complaints()], [])

    def test_credentials(self):
        kinds = [("MD5", False), ("MD5", True), ("SHA-256", False), ("SHA-256", True), ("Basic", False)]
        cameras = [Camera(self, user=("keeper", "p:@ s"), scheme=scheme, qop=qop, timeout=2) for scheme, qop in kinds]
        daemon = puller(self, *(camera.url(user="keeper:p%3A%40%20s") + "=live/%d" % at
                                for at, camera in enumerate(cameras)))
        for at, camera in enumerate(cameras):
            camera.start()
            wait_state(daemon, "playing", "live/%d" % at)
            camera.wait_request("PLAY")
            self.assertEqual([request.method for request in camera.requests][:5],
                             ["OPTIONS", "DESCRIBE", "DESCRIBE", "SETUP", "PLAY"])
        for camera in cameras:
            count = len([request for request in camera.requests if request.method == "GET_PARAMETER"])
            camera.renew()
            camera.wait_request("GET_PARAMETER", count + 4)
        self.assertEqual(daemon.log("pull", state="waiting"), [])
        shown = str(daemon.api()) + str(daemon.log())
        for secret in ("keeper", "p:@", "p%3A", "a2VlcGVy"):
            self.assertNotIn(secret, shown)

    def test_digest_is_not_given_up(self):
        """A camera, or whoever has come between, that offers Digest and then Basic is not shown the password."""
        camera = Camera(self, user=("keeper", "secret"), media=False).start()
        daemon = puller(self, camera.url(user="keeper:secret") + "=live/x")
        wait_state(daemon, "playing")
        camera.scheme = "Basic"
        camera.hang_up()
        daemon.wait_log("pull", state="waiting", reason="DESCRIBE answered 401 with Basic in place of Digest",
                        detail="the password is not shown")
        # Nor with both at once, where Digest is answered; nor with a Digest that nobody knows beside it.
        both = ['Basic realm="x"', 'Digest realm="cam", nonce="1"']
        unknown = [both[0], 'Digest realm="cam", nonce="1", algorithm=SHA-512']
        others = [Camera(self, DESCRIBE=lambda request, offers=offers: Camera.reply(
            request, 401, WWW_Authenticate=", ".join(offers))).start() for offers in (both, both[::-1], unknown)]
        other = puller(self, *(one.url(user="keeper:secret") + "=live/%d" % at for at, one in enumerate(others)))
        for at in range(3):
            wait_state(other, "waiting", "live/%d" % at)
        said = [request.headers.get("authorization", "") for one in [camera, *others] for request in one.requests]
        self.assertEqual([one for one in said if one.startswith("Basic")], [])
        self.assertTrue([one for one in said if one.startswith("Digest")])
        for one in [camera, *others]:
            one.close()

    def test_keep_alive(self):
        """With what the camera knows, and without when it turns out not to."""
        knows = Camera(self, timeout=2)
        knows_not = Camera(self, timeout=2, public="OPTIONS, DESCRIBE, SETUP, PLAY")
        lies = Camera(self, timeout=2, GET_PARAMETER=501)
        forgets = Camera(self, timeout=2, GET_PARAMETER=454)
        cameras = (knows, knows_not, lies, forgets)
        daemon = puller(self, *(camera.url() + "=live/%d" % at for at, camera in enumerate(cameras)))
        for camera in cameras:
            camera.start()
        self.assertEqual(knows.wait_request("GET_PARAMETER", 3).headers["session"], "12345678")
        knows_not.wait_request("OPTIONS", 3)
        lies.wait_request("OPTIONS", 3)
        self.assertEqual(len([1 for request in lies.requests if request.method == "GET_PARAMETER"]), 1)
        self.assertEqual(len([1 for request in knows.requests if request.method == "OPTIONS"]), 1)
        daemon.wait_log("pull", stream="live/3", state="waiting", reason="the camera has forgotten the session")
        self.assertEqual({line.fields["stream"] for line in daemon.log("pull", state="waiting")}, {"live/3"})

    def test_redirects(self):
        target = Camera(self)
        first = Camera(self, DESCRIBE=lambda request: Camera.reply(request, 302, Location=target.url("other")))
        circle = Camera(self)
        circle.replies["OPTIONS"] = lambda request: Camera.reply(request, 301, Location=circle.url())
        leads_out = Camera(self, DESCRIBE=lambda request: Camera.reply(request, 302, Location="http://127.0.0.1/"))
        leads_nowhere = Camera(self, DESCRIBE=302)
        stranger = Camera(self, "127.0.0.2", user=("admin", "pass"), scheme="Basic")
        leads_away = Camera(self, DESCRIBE=lambda request: Camera.reply(request, 302, Location=stranger.url()))
        leads_to_bytes = Camera(self, DESCRIBE=b"RTSP/1.0 302 Found\r\nCSeq: 2\r\nLocation: rtsp://a\xc2\x9b2J\xff/\r\n\r\n")
        cameras = (first, circle, leads_out, leads_nowhere, leads_away, leads_to_bytes)
        daemon = puller(self, *(camera.url(user="admin:pass") + "=live/%d" % at for at, camera in enumerate(cameras)))
        for camera in (*cameras, target, stranger):
            camera.start()
        self.assertEqual(target.wait_request("PLAY").url, target.url("other/"))
        wait_state(daemon, "playing", "live/0")
        self.assertEqual(pull_of(daemon, "live/0")["from"], "rtsp://127.0.0.1:%d" % target.port)
        for at, reason in [(1, "too many redirects"), (2, "redirected to what is no rtsp:// URL"),
                           (3, "redirected to what is no rtsp:// URL"),
                           (4, "redirected to another host"), (5, "redirected to another host")]:
            daemon.wait_log("pull", stream="live/%d" % at, state="waiting", reason=reason)
        self.assertEqual(stranger.connections, 0)
        # A name of the camera's choice would be shown: control bytes, and what is no UTF-8.
        self.assertEqual(pull_of(daemon, "live/5")["from"], "rtsp://127.0.0.1:%d" % leads_to_bytes.port)

    def test_on_demand(self):
        camera = Camera(self)
        daemon = puller(self, camera.url() + "=live/x,on-demand")
        camera.start()
        for turn in (1, 2):
            self.assertEqual(pull_of(daemon)["state"], "idle")
            self.assertEqual(camera.connections, turn - 1)
            with Player(daemon, "live/x") as player:
                player.wait(lambda player: len(player.frames) > 10, "10 frames")
            # How long after is test_pull.c's.
            camera.wait_request("TEARDOWN", turn)
            wait_state(daemon, "idle", count=turn)
            daemon.blocks_settled()

    def test_names(self):
        camera = Camera(self)
        daemon = puller(self, "rtsp://localhost:%d/cam=live/x" % camera.port,
                        "rtsp://no-such-host.invalid/cam=live/y")
        camera.start()
        wait_state(daemon, "playing")
        line = wait_state(daemon, "waiting", "live/y")
        self.assertIn(line.fields["reason"], ("no such host", "no connection in time"))


class RefusalTest(unittest.TestCase):
    """Cameras that do not do what they should: each is tried again, and none disturbs another stream."""

    def cases(self):
        closed = Camera(self)
        closed.close()
        # Bound, so that the port is given to no other camera, and refused, since nobody listens.
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind((closed.host, closed.port))
        sdp = "v=0\r\ns=-\r\nm=%s\r\na=rtpmap:96 %s/90000\r\n"
        return {
            "404": (Camera(self, DESCRIBE=404), "DESCRIBE answered 404 Not Found"),
            "453": (Camera(self, SETUP=453), "SETUP answered 453 Not Enough Bandwidth"),
            "461": (Camera(self, SETUP=461), "SETUP answered 461 Unsupported transport"),
            "454": (Camera(self, PLAY=454), "PLAY answered 454 Session Not Found"),
            "password": (Camera(self, user=("admin", "right")), "DESCRIBE answered 401: wrong user or password"),
            "nonces": (Camera(self, DESCRIBE=self.endless_challenge), "DESCRIBE answered 401: wrong user or password"),
            "stale": (Camera(self, DESCRIBE=self.stale_challenge), "DESCRIBE answered 401: wrong user or password"),
            "bare": (Camera(self, DESCRIBE=self.bare_refusal), "DESCRIBE answered 401: wrong user or password"),
            "forbidden": (Camera(self, DESCRIBE=self.forbidding), "DESCRIBE answered 403 Forbidden: wrong user or password"),
            "hang-up": (self.camera_that_hangs_up(), "in answer to the credentials: wrong user or password"),
            "bearer": (Camera(self, DESCRIBE=lambda request: Camera.reply(request, 401, WWW_Authenticate="Bearer x")),
                       "DESCRIBE answered 401 without a challenge that is known"),
            "refused": (closed, "Connection refused"),
            "silent": (Camera(self, OPTIONS=None), "no answer to OPTIONS"),
            "half": (Camera(self, DESCRIBE=b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Len"), "no answer to DESCRIBE"),
            "half-body": (Camera(self, DESCRIBE=b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: 99\r\n\r\nv=0"),
                          "no answer to DESCRIBE"),
            "other": (Camera(self, SETUP=lambda request: b"RTSP/1.0 200 OK\r\nCSeq: 99\r\n\r\n"), "no answer to SETUP"),
            "garbage": (Camera(self, OPTIONS=b"\xff\x00garbage" * 10000), "malformed RTSP"),
            "headers": (Camera(self, OPTIONS=b"RTSP/1.0 200 OK\r\n" + b"A: b\r\n" * 10000), "malformed RTSP"),
            "header": (Camera(self, OPTIONS=b"RTSP/1.0 200 OK\r\nA: " + b"b" * 100000), "malformed RTSP"),
            "body": (Camera(self, DESCRIBE=b"RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Length: 999999\r\n\r\n"),
                     "malformed RTSP"),
            "no-sdp": (Camera(self, DESCRIBE=200), "malformed description"),
            "bad-sdp": (Camera(self, DESCRIBE=lambda request: Camera.reply(request, 200, "hello")),
                        "malformed description"),
            "no-media": (Camera(self, DESCRIBE=lambda request: Camera.reply(
                request, 200, sdp % ("text 0 RTP/AVP 96", "T140"))), "text/T140 is not supported"),
            "av1": (Camera(self, DESCRIBE=lambda request: Camera.reply(
                request, 200, sdp % ("video 0 RTP/AVP 96", "AV1"))), "video/AV1 is not supported"),
            "udp": (Camera(self, SETUP=lambda request: Camera.reply(
                request, 200, Transport="RTP/AVP;unicast;client_port=1-2", Session="1")),
                    "the camera does not send over the connection"),
            "session": (Camera(self, SETUP=lambda request: Camera.reply(request, 200, Session="x" * 300)),
                        "malformed Session"),
            "no-frames": (Camera(self, media=False), "no media for too long"),
        }

    CHALLENGE = 'Digest realm="r", nonce="1"'

    @classmethod
    def bare_refusal(cls, request):
        """Says 401 to a wrong password without another challenge."""
        challenge = {} if "authorization" in request.headers else {"WWW_Authenticate": cls.CHALLENGE}
        return Camera.reply(request, 401, **challenge)

    @classmethod
    def forbidding(cls, request):
        if "authorization" in request.headers:
            return Camera.reply(request, 403)
        return Camera.reply(request, 401, WWW_Authenticate=cls.CHALLENGE)

    def camera_that_hangs_up(self):
        """Ends the connection at a wrong password."""
        camera = Camera(self)

        def describe(request):
            if "authorization" in request.headers:
                return camera.hang_up()
            return Camera.reply(request, 401, WWW_Authenticate=self.CHALLENGE)
        camera.replies["DESCRIBE"] = describe
        return camera

    @staticmethod
    def endless_challenge(request):
        return Camera.reply(request, 401, WWW_Authenticate='Digest realm="r", nonce="%s"' % request.headers["cseq"])

    @staticmethod
    def stale_challenge(request):
        return Camera.reply(request, 401, WWW_Authenticate='Digest realm="r", nonce="%s", stale=true' % (
            request.headers["cseq"]))

    def test_refusals(self):
        cases = self.cases()
        daemon = puller(self, *(camera.url(user="admin:wrong") + "=live/" + name
                                for name, (camera, _) in cases.items()))
        with Steady(daemon, name="live/a"):
            for name, (camera, _) in cases.items():
                if name != "refused":
                    camera.start()
            for name, (camera, reason) in cases.items():
                with self.subTest(name):
                    wait_state(daemon, "waiting", "live/" + name)
                    daemon.wait_log("pull", stream="live/" + name, state="waiting")
                    line = daemon.log("pull", stream="live/" + name, state="waiting")[0]
                    self.assertIn(reason, ": ".join(filter(None, map(line.fields.get, ("reason", "detail")))))
                    wait_state(daemon, "connecting", "live/" + name, 2)
                    self.assertIn(int(line.fields["retry_ms"]), range(1000, 1251))
        for name in ("password", "nonces"):
            wait_state(daemon, "waiting", "live/" + name, 2)
            asked = [request.method for request in cases[name][0].requests]
            self.assertEqual(asked[:4], ["OPTIONS", "DESCRIBE", "DESCRIBE", "OPTIONS"])
        for camera, _ in cases.values():
            camera.close()
        daemon.blocks_settled()

    def test_without_credentials(self):
        """A camera that asks for a password, and a pull without one: that is told from a wrong one, in the log and the API."""
        camera = Camera(self, user=("admin", "right")).start()
        daemon = puller(self, camera.url() + "=live/open", camera.url(user="admin:wrong") + "=live/wrong")
        for name, reason in (("live/open", "the camera needs credentials"), ("live/wrong", "wrong user or password")):
            self.assertIn(reason, wait_state(daemon, "waiting", name).fields["detail"])
            self.assertIn(reason, pull_of(daemon, name)["reason"])

    def test_hangs_up_at_every_step(self):
        cameras = {}
        for method in ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER"):
            camera = cameras[method] = Camera(self, timeout=2)
            camera.replies[method] = lambda request, camera=camera: camera.hang_up()
        daemon = puller(self, *(camera.url() + "=live/" + name for name, camera in cameras.items()))
        for camera in cameras.values():
            camera.start()
        for name, camera in cameras.items():
            wait_state(daemon, "waiting", "live/" + name, 2)
            camera.close()
        daemon.blocks_settled()


class StopTest(unittest.TestCase):
    """The daemon ends well whatever a pull is about, and takes leave where there is a session."""

    def stop_at(self, state, camera, url=None, **fields):
        daemon = puller(self, (url or camera.url()) + "=live/x", stop=False)
        try:
            daemon.wait_log("pull", stream="live/x", state=state, **fields)
        finally:
            daemon.stop()
        self.assertEqual(daemon.log("pull", state="stopped")[0].fields["stream"], "live/x")
        return daemon

    def test_each_state(self):
        for method in ("OPTIONS", "DESCRIBE", "SETUP", "PLAY"):
            with self.subTest(method):
                camera = Camera(self, **{method: None}).start()
                self.stop_at("negotiating", camera, step=method)
                camera.wait(lambda camera=camera: camera.ended == camera.connections > 0, "the end")
                asked = [request.method for request in camera.requests]
                self.assertEqual("TEARDOWN" in asked, method == "PLAY")

    def test_playing(self):
        for replies in ({}, {"TEARDOWN": None}):
            camera = Camera(self, **replies).start()
            self.stop_at("playing", camera)
            camera.wait_request("TEARDOWN")
            camera.wait(lambda camera=camera: camera.ended == camera.connections == 1, "the end")

    def test_waiting(self):
        self.stop_at("waiting", Camera(self, OPTIONS=404).start())

    def test_connecting(self):
        """To a host that does not answer, and to a name that is being looked up."""
        self.stop_at("connecting", None, "rtsp://192.0.2.1/cam")
        self.stop_at("connecting", None, "rtsp://no-such-host.invalid/cam")

    def test_idle(self):
        daemon = puller(self, "rtsp://127.0.0.1:1/cam=live/x,on-demand", stop=False)
        daemon.stop()


class OptionTest(unittest.TestCase):
    def write(self, text, mode=0o600):
        handle, path = tempfile.mkstemp()
        self.addCleanup(os.unlink, path)
        with open(handle, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_wrong(self):
        good = "rtsp://u:geheim@127.0.0.1:1/cam=live/x"
        for arguments in (["--pull", good[:-7]], ["--pull", good.replace("rtsp:", "srt:")], ["--pull", good + ",now"],
                          ["--pull", good, "--pull", good], ["--pull-file", self.write(good, 0o644)],
                          ["--pull-file", self.write("\n" + good + "?\n")], ["--pull-file", "/nowhere"]):
            status, _, err = harness.run_daemon(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertRegex(err, r"\Asluiced: --pull(-file)?: .+\n\Z")
            self.assertNotIn("geheim", err)

    def test_file_and_words(self):
        """What a file says; and a name that is a word of its own."""
        one, other = Camera(self, user=("u", "geheim")), Camera(self)
        daemon = puller(self, options=("--pull-file", self.write("# all\n%s =live/x\n" % one.url(user="u:geheim")),
                                       "--pull", other.url(), "=live/y"))
        one.start()
        other.start()
        wait_state(daemon, "playing", "live/x")
        wait_state(daemon, "playing", "live/y")


if __name__ == "__main__":
    harness.main()
