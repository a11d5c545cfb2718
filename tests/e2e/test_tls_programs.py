"""Programs that are not ours as clients of listeners with TLS: they publish, and play what was published, frame by frame.

tests/reports/tls.md lists them. ffmpeg's protocols are in test_tls_identity.py, openssl s_client is in test_tls.py.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

import flv
import harness
import settings
import test_rtsp_gortsplib as gortsplib
import tls
from harness import AAC, H264, VIDEO, tone
from test_rtsp_gstreamer import gstreamer_lacks

SECONDS = 4
UNVERIFIED = "tls-validation-flags=0"  # Of GStreamer's elements: they know no other store than the system's.


def has(*programs):
    """A decorator: the test needs these programs."""
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, "not installed: " + " ".join(missing))


def has_elements(*elements):
    missing = gstreamer_lacks() or " ".join(element for element in elements if subprocess.run(
        ["gst-inspect-1.0", "--exists", element], check=False).returncode != 0)
    return unittest.skipIf(missing, "GStreamer lacks " + missing)


class ProgramCase(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.ffmpeg = harness.find_ffmpeg()
        self.file = harness.make_media(self.ffmpeg, " ".join([VIDEO, tone(48000), "-t %d" % SECONDS, H264, AAC]))
        self.wait = settings.long_wait(self.addCleanup)
        self.daemon = tls.Daemon("--workers", "2", *self.wait.options)
        self.addCleanup(self.daemon.stop)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, *command, **options):
        """To its end, which has to be well: what it has printed."""
        done = subprocess.run(command, stdin=options.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=harness.PATIENCE, check=False, env=tls.environment(), **options)
        self.assertEqual(done.returncode, 0, (command, done.stdout[-500:], done.stderr.decode(errors="replace")[-2000:]))
        return done.stdout

    def start_program(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=tls.environment())
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def launch(self, pipeline):
        return self.start_program("gst-launch-1.0", "-q", *pipeline.split())

    def end_well(self, process):
        _, error = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 0, error.decode(errors="replace")[-2000:])

    def frames(self, source, name="frames"):
        """An ffmpeg that notes each packet, and a function for the video's hashes that it has noted."""
        path = self.path(name)
        process = harness.frame_hashes(self.ffmpeg, source, path)
        self.addCleanup(process.kill)

        def read():
            process.wait()
            with open(path, encoding="ascii") as file:
                return [line.split(",")[-1].strip() for kind, _, line in harness.packets(file.read()) if kind == "video"]
        return read

    def check_file(self, path):
        """All that was published is there."""
        harness.check_same(self.frames(path, "got")(), self.frames(self.file, "sent")(), "frames")

    def publish(self, *speed):
        publisher = harness.Ffmpeg(self.ffmpeg, *speed, "-i", self.file, "-c", "copy", "-f", "flv", "-method", "PUT",
                                   self.daemon.url("live/a"))
        self.addCleanup(publisher.kill)
        publisher.wait()
        settings.end_wait(self.wait, self.daemon)

    def play_and_publish(self, program, taken):
        """A player that is there first gets everything."""
        self.daemon.wait_player("live/a")
        self.publish()
        self.end_well(program)
        self.check_file(taken)
        self.check_end()

    def check_end(self):
        self.daemon.blocks_settled()
        self.assertEqual(self.daemon.complaints(), [])


class CurlTest(ProgramCase):
    def curl(self, *arguments):
        return ["curl", "-sS", "--fail", "--cacert", tls.certificate().chain, *arguments]

    @has("curl")
    def test_play(self):
        taken = self.path("taken.flv")
        self.play_and_publish(self.start_program(*self.curl("-o", taken, self.daemon.url("live/a"))), taken)

    @has("curl")
    def test_publish(self):
        """By both versions of the protocol, chunked and with a length."""
        for i, more in enumerate((["--tls-max", "1.2"], ["--tlsv1.3"], ["--tlsv1.3", "-H", "Transfer-Encoding: chunked"])):
            name = "live/p%d" % i
            played = self.frames(self.daemon.url(name), "played")
            self.daemon.wait_player(name)
            self.assertEqual(self.run_program(*self.curl("-T", self.file, *more, self.daemon.url(name))), b"published\n")
            if i == 0:
                settings.end_wait(self.wait, self.daemon)
            harness.check_same(played(), self.frames(self.file, "sent")(), "frames")
        self.check_end()

    @has("curl")
    def test_requests(self):
        """Several on a connection; and curl says what was negotiated."""
        url = self.daemon.url("live/none")
        out = self.run_program("curl", "-sS", "--cacert", tls.certificate().chain, "-X", "OPTIONS", "-w",
                               "%{http_code} %{http_version} %{num_connects} %{ssl_verify_result}\\n", url, url, url)
        self.assertEqual(out, b"204 1.1 1 0\n204 1.1 0 0\n204 1.1 0 0\n")


class GnutlsTest(ProgramCase):
    PRIORITIES = ("NORMAL:-VERS-ALL:+VERS-TLS1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.2")

    def start_client(self, priority):
        """Takes commands in place of what it sends."""
        host, port = self.daemon.address()
        client = subprocess.Popen(["gnutls-cli", "--x509cafile", tls.certificate().chain, "--priority", priority,
                                   "--inline-commands", "--port", str(port), host], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        return client

    def send(self, client, text, answer):
        client.stdin.write(text)
        client.stdin.flush()
        while not (line := client.stdout.readline()).startswith(answer):
            self.assertTrue(line)

    def ask(self, client):
        # It takes a command for one if nothing else comes with it.
        self.send(client, b"OPTIONS /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 204")

    def end(self, client):
        client.stdin.close()
        self.assertEqual(client.wait(harness.PATIENCE), 0)

    @has("gnutls-cli")
    def test_requests(self):
        """GnuTLS says so if a connection does not end with close_notify. Its own end is one, too."""
        host, port = self.daemon.address()
        for priority in self.PRIORITIES:
            with self.subTest(priority):
                done = subprocess.run(["gnutls-cli", "--x509cafile", tls.certificate().chain, "--priority", priority,
                                       "--port", str(port), host], input=b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=harness.PATIENCE, check=False)
                said = done.stdout.decode(errors="replace")
                self.assertEqual(done.returncode, 0, said)
                self.assertIn("HTTP/1.1 404 Not Found", said)
                self.assertNotIn("non-properly terminated", said)

    @has("gnutls-cli")
    def test_new_keys(self):
        """A new key of GnuTLS's before each request, with which it asks for one of the daemon's. It takes eight within a second."""
        client = self.start_client(self.PRIORITIES[0])
        self.ask(client)
        for _ in range(6):
            self.send(client, b"^rekey^\n", b"- Rekey was completed")
            self.ask(client)
        self.end(client)

    @has("gnutls-cli")
    def test_resume(self):
        """In TLS 1.3, the ticket comes with the first answer."""
        for priority in self.PRIORITIES:
            with self.subTest(priority):
                client = self.start_client(priority)
                self.ask(client)
                self.send(client, b"^resume^\n", b"*** This is a resumed session")
                self.ask(client)
                self.end(client)


class GstreamerTest(ProgramCase):
    @has_elements("souphttpsrc")
    def test_souphttpsrc(self):
        taken = self.path("taken.flv")
        self.play_and_publish(self.launch("souphttpsrc ssl-strict=false location=%s ! filesink location=%s" % (
            self.daemon.url("live/a"), taken)), taken)

    @has_elements("rtmp2src")
    def test_rtmp2src(self):
        taken = self.path("taken.flv")
        self.play_and_publish(self.launch("rtmp2src %s location=%s ! filesink location=%s" % (
            UNVERIFIED, self.daemon.url("live/a", protocol="rtmp"), taken)), taken)

    @has_elements("rtspsrc")
    def test_rtspsrc(self):
        taken = self.path("taken.h264")
        player = self.launch("rtspsrc %s protocols=tcp+tls location=%s ! application/x-rtp,media=video ! rtph264depay ! h264parse ! "
                             "video/x-h264,stream-format=byte-stream,alignment=au ! filesink location=%s" % (
                                 UNVERIFIED, self.daemon.url("live/a", protocol="rtsp"), taken))
        self.daemon.wait_player("live/a")
        self.publish("-re")
        self.end_well(player)
        self.daemon.blocks_settled()
        self.assertGreater(len(self.frames(taken, "got")()), SECONDS * 25 - 5)

    def publish_by(self, pipeline):
        played = self.frames(self.daemon.url("live/a"), "played")
        self.daemon.wait_player("live/a")
        publisher = self.launch(pipeline)
        sent = self.frames(self.file, "sent")()
        self.daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] >= len(sent), "all frames")
        self.end_well(publisher)
        settings.end_wait(self.wait, self.daemon)
        harness.check_same(played(), sent, "frames")
        self.daemon.blocks_settled(may_copy=True)  # It sends chunks of 128 bytes.

    MUX = "filesrc location=%s ! flvdemux name=d flvmux name=m streamable=true ! %s d.video ! queue ! h264parse ! m. " \
          "d.audio ! queue ! aacparse ! m."

    @has_elements("rtmp2sink", "flvmux")
    def test_rtmp2sink(self):
        self.publish_by(self.MUX % (self.file, "rtmp2sink %s location=%s" % (UNVERIFIED, self.daemon.url("live/a", protocol="rtmp"))))


    @has_elements("rtspclientsink")
    def test_rtspclientsink(self):
        """It is ended here, since when its source ends it sometimes waits for itself, for ever."""
        played = self.frames(self.daemon.url("live/a"), "played")
        self.daemon.wait_player("live/a")
        publisher = self.launch("rtspclientsink name=s %s protocols=tcp+tls location=%s filesrc location=%s ! flvdemux name=d "
                                "d.video ! queue ! h264parse ! identity sync=true ! s." % (
                                    UNVERIFIED, self.daemon.url("live/a", protocol="rtsp"), self.file))
        sent = self.frames(self.file, "sent")()
        self.daemon.wait_stream("live/a", lambda stream: stream["frames"]["video"] == len(sent), "all frames")
        publisher.kill()
        settings.end_wait(self.wait, self.daemon)
        harness.check_same(played(), sent, "frames")
        self.daemon.blocks_settled()


class RtmpdumpTest(ProgramCase):
    @has("rtmpdump")
    def test_play(self):
        """librtmp, which verifies nothing. It takes a ticket of TLS 1.3 for a failure, so its GnuTLS is told to speak 1.2."""
        taken, settings_path = self.path("taken.flv"), self.path("gnutls")
        with open(settings_path, "w", encoding="ascii") as file:
            file.write("[overrides]\ndisabled-version = tls1.3\n")
        player = self.start_program("env", "GNUTLS_SYSTEM_PRIORITY_FILE=" + settings_path, "rtmpdump", "-q", "--live", "-r",
                                    self.daemon.url("live/a", protocol="rtmp"), "-o", taken)
        self.daemon.wait_player("live/a")
        self.publish()
        player.communicate(timeout=harness.PATIENCE)
        self.check_file(taken)
        self.daemon.blocks_settled()


class RawTest(ProgramCase):
    def test_ffmpeg(self):
        """FLV as it is, by ffmpeg's tls:."""
        host, port = self.daemon.address("flv")
        publisher = harness.Ffmpeg(self.ffmpeg, "-re", "-i", self.file, "-c", "copy", "-f", "flv", "tls://%s:%d" % (host, port))
        self.addCleanup(publisher.kill)
        name = self.daemon.wait_log("publisher started").fields["stream"]
        played = self.frames(self.daemon.url(name), "played")
        publisher.wait()
        settings.end_wait(self.wait, self.daemon)
        harness.check_same(played(), self.frames(self.file, "sent")(), "frames")
        self.daemon.blocks_settled()


class GortsplibTest(ProgramCase):
    FRAMES = 300

    def test_both(self):
        """One publishes by rtsps, and another plays what it has published."""
        go = gortsplib.find_go()
        if not go:
            self.skipTest("no go of version 1.21")
        program = self.path("peer")
        fetched = gortsplib.go(go, "mod", "download")
        if fetched.returncode:
            self.skipTest("the Go modules cannot be had: " + fetched.stdout.decode().strip()[-300:])
        built = gortsplib.go(go, "build", "-o", program, ".")
        self.assertEqual(built.returncode, 0, built.stdout.decode()[-3000:])
        url = self.daemon.url("live/a", protocol="rtsp")
        player = subprocess.Popen([program, "play", url, str(self.FRAMES)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(player.kill)
        publisher = subprocess.Popen([program, "publish", url, str(10 * self.FRAMES)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(publisher.kill)
        out, error = player.communicate(timeout=harness.PATIENCE)
        self.assertEqual(player.returncode, 0, error.decode())
        publisher.kill()
        publisher.communicate()
        frames = gortsplib.Frames(out.decode())
        made = [gortsplib.made(number) for number in range(10 * self.FRAMES)]
        units = [unit for _, unit in frames.video if unit not in (flv.SPS, flv.PPS)]
        self.assertGreater(len(units), self.FRAMES // 4)
        begin = [video[1] for video, _ in made].index(units[0])
        harness.check_same(units, [video[1] for video, _ in made[begin:begin + len(units)]], "pictures")


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    harness.main()
