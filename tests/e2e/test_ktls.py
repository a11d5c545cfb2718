"""kTLS: the kernel encrypts what listeners and forwards send, to other programs; and what the administration shows of it.

What the kernel can do is found out here by system calls, apart from the daemon. Where it cannot encrypt, StatusTest checks that this is
shown, and that everything is relayed nevertheless; the other cases are left out, unless SLUICE_TEST_KTLS says that they must run. On
kernels that have the module, tools/kernels runs all of this file: tools/kernels 6.1 6.12 newest --tests kTLS
"""

import contextlib
import functools
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

import flv
import harness
import rtmp_servers
import settings
import test_tls_out
import tls
from harness import AAC, H264, VIDEO, tone

SLUICECTL = os.environ.get("SLUICECTL", os.path.join(harness.BUILD_DIR, "sluicectl"))
TCP_ULP, SOL_TLS, TLS_TX = 31, 282, 1
KEY = struct.pack("=HH", 0x0304, 51) + bytes(8 + 16 + 4 + 8)  # Of AES-128-GCM in TLS 1.3: the key is zeros.
SECONDS = 6
PLAIN = ("--flv", "127.0.0.1:0=live/x", "--http", "127.0.0.1:0")


@functools.lru_cache(maxsize=None)
def kernel():
    """What it cannot do: (step, errno); None: nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        try:
            peer.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError as error:
            return "TCP_ULP", error.errno
        peer.setsockopt(SOL_TLS, TLS_TX, KEY)
        try:
            peer.setsockopt(SOL_TLS, TLS_TX, KEY)
        except OSError as error:
            return "key change", error.errno
    return None


def sends():
    return kernel() is None or kernel()[0] == "key change"


def is_used(setting):
    return sends() if setting == "always" else setting == "auto" and kernel() is None


def load_tests(loader, _tests, _pattern):
    """Where the kernel does not encrypt, that this is shown is all there is to test."""
    cases = [StatusTest, ForwardTest]
    if sends() or os.environ.get("SLUICE_TEST_KTLS"):
        cases += [KeyTest, ForwardKeyTest, ForwardProgramTest, ProgramTest]
    else:
        print("The kernel does not encrypt: %s: %s" % (kernel()[0], os.strerror(kernel()[1])))
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))


def packet_hashes(path):
    """Of what ffmpeg has noted: [(kind, hash)]."""
    with open(path, encoding="ascii") as file:
        return [(kind, line.split(",")[-1].strip()) for kind, _, line in harness.packets(file.read())]


def shown_of(setting):
    """What /api/v1/tls shows where the kernel has been tried."""
    lacks = kernel() if setting != "off" else None
    return {"setting": setting, "used": is_used(setting), "sends": setting != "off" and sends(),
            "changes_keys": setting != "off" and kernel() is None, "failed": lacks and lacks[0],
            "reason": lacks and os.strerror(lacks[1])}


class KtlsCase(unittest.TestCase):
    def start(self, setting, *options):
        daemon = tls.Daemon("--workers", "2", "--ktls", setting, *options)
        self.addCleanup(daemon.stop)
        return daemon

    def forwarder(self, setting, url):
        """No listener of it has TLS."""
        daemon = harness.Daemon("--workers", "2", "--ktls", setting, "--tls-ca", tls.certificate().chain, "--forward",
                                "live/*=" + url, "--log-level", "debug", "--wait", "0", listen=PLAIN)
        self.addCleanup(daemon.stop)
        return daemon

    def ctl(self, daemon, command):
        return subprocess.run([SLUICECTL, "--admin", "127.0.0.1:%d" % daemon.address("admin")[1], command], capture_output=True,
                              timeout=harness.PATIENCE, check=True).stdout.decode().splitlines()

    def wait_counts(self, daemon, *counts):
        """Connections with TLS, and those of them that the kernel encrypts for; the same everywhere."""
        def look():
            state = daemon.api()
            shown = state["tls"]["connections"], state["tls"]["ktls_connections"]
            return state if shown == counts else None
        state = harness.wait_until(look, lambda: "counts of %s: %s" % (counts, daemon.api()["tls"]))
        workers = state["workers"]
        self.assertEqual(tuple(sum(worker[name] for worker in workers) for name in ("tls_connections", "ktls_connections")), counts)
        return state

    def check_metrics(self, daemon, setting, shown, *counts):
        text = daemon.admin("GET", "/metrics")[2].decode()
        used = re.findall(r'^sluice_ktls_used\{failed="(.*)",reason="(.*)"\} (\d)$', text, re.MULTILINE)
        self.assertEqual(used, [(shown["failed"] or "", shown["reason"] or "", str(int(shown["used"])))] if setting != "off" else [])
        for name, count in zip(("tls", "ktls"), counts):
            values = re.findall(r'^sluice_worker_%s_connections\{worker="(\d)"\} (\d+)$' % name, text, re.MULTILINE)
            self.assertEqual([worker for worker, _ in values], ["0", "1"])
            self.assertEqual(sum(int(value) for _, value in values), count)

    def check_status(self, daemon, setting, shown, *counts):
        """Of sluicectl."""
        wanted = ["tls       %d connections, %d encrypted by the kernel" % counts]
        if setting != "off" and not shown["used"]:
            wanted.append("warning   kTLS is not used: %s: %s" % (shown["failed"], shown["reason"]))
        self.assertEqual([line for line in self.ctl(daemon, "status") if line.startswith("tls") or "kTLS" in line], wanted)

    def wait_ktls(self, daemon, count):
        """So many players are sent by the kernel."""
        harness.wait_until(lambda: sum(player["ktls"] for player in daemon.api()["players"]) == count,
                           lambda: "%d players by the kernel: %s" % (count, daemon.api()["players"]))

    def wait_sent(self, daemon):
        harness.wait_until(lambda: [one["ktls"] for one in daemon.api("/api/v1/forwards")["forwards"]] == [True],
                           lambda: "a forward by the kernel: %s" % daemon.api("/api/v1/forwards"))


class EachSetting:
    """Cases for each value of --ktls, by check_shown()."""

    def test_off(self):
        self.check_shown("off")

    def test_auto(self):
        self.check_shown("auto")

    def test_always(self):
        self.check_shown("always")


class StatusTest(EachSetting, KtlsCase):
    def check_shown(self, setting):
        used, shown = is_used(setting), shown_of(setting)
        daemon = self.start(setting)
        self.assertEqual(daemon.api("/api/v1/tls"), {"partial": False, "connections": 0, "ktls_connections": 0, "ktls": shown})
        with harness.Steady(daemon, size=4000) as steady, daemon.connect() as idle:
            idle.sendall(b"OPTIONS /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(harness.read_head(idle)[0], 204)
            steady.go_on(40)  # Much more than 64 KiB.
            state = self.wait_counts(daemon, 3, int(used))
            self.assertEqual([player["ktls"] for player in state["players"]], [used])
            self.assertEqual(daemon.api("/api/v1/tls"), {"partial": False, "connections": 3, "ktls_connections": int(used), "ktls": shown})
            self.check_metrics(daemon, setting, shown, 3, int(used))
            self.check_status(daemon, setting, shown, 3, int(used))
        self.wait_counts(daemon, 0, 0)
        self.assertEqual([line.startswith("tls ") for line in self.ctl(daemon, "status")].count(True), setting != "off")
        daemon.blocks_settled()

    def test_version(self):
        """TLS 1.2 is OpenSSL's."""
        daemon = self.start("always")
        with harness.Steady(daemon, size=4000) as steady:
            daemon.client = {"of": tls.context(ssl.TLSVersion.TLSv1_2)}
            with harness.Player(daemon, steady.name) as old:
                old.wait_tags(40)
                steady.go_on(40)
                state = self.wait_counts(daemon, 3, int(sends()))
                self.assertEqual([player["ktls"] for player in state["players"]].count(True), int(sends()))

    def test_no_listener(self):
        """Without a listener that has TLS nothing is tried, and there is nothing to show."""
        with harness.Daemon("--ktls", "always") as daemon:
            shown = daemon.api("/api/v1/tls")
            self.assertEqual((shown["connections"], shown["ktls"]["setting"]), (0, "always"))
            self.assertEqual([shown["ktls"][name] for name in ("used", "sends", "failed", "reason")], [False, False, None, None])
            self.assertNotIn("sluice_ktls_used{", daemon.admin("GET", "/metrics")[2].decode())
            self.assertNotIn("warning", "\n".join(self.ctl(daemon, "status")))


class ForwardTest(EachSetting, KtlsCase):
    """Of a daemon of which no listener has TLS: its forwards alone try the kernel."""

    def check_shown(self, setting):
        used, shown = is_used(setting), shown_of(setting)
        target = self.start("off", "--wait", "60")
        daemon = self.forwarder(setting, "rtmps://localhost:%d/copy/*" % target.address("rtmp")[1])
        self.assertEqual(daemon.api("/api/v1/tls")["ktls"], {**shown, "used": False, "sends": False, "changes_keys": False,
                                                            "failed": None, "reason": None})
        with harness.Player(target, "copy/x") as player, harness.Steady(daemon, name="live/x", size=4000) as steady:
            steady.go_on(60)  # Much more than 64 KiB.
            harness.wait_until(lambda: [one["ktls"] for one in daemon.api("/api/v1/forwards")["forwards"]] == [used],
                               lambda: "a forward: %s" % daemon.api("/api/v1/forwards"))
            self.wait_counts(daemon, 1, int(used))
            self.wait_ktls(daemon, int(used))  # It is a player, too.
            self.assertEqual(daemon.api("/api/v1/tls"), {"partial": False, "connections": 1, "ktls_connections": int(used), "ktls": shown})
            self.check_metrics(daemon, setting, shown, 1, int(used))
            self.check_status(daemon, setting, shown, 1, int(used))
            count = len(player.frames) + 100
            player.wait(lambda player: len(player.frames) >= count, "%d frames" % count)
            begin = steady.sent.index(player.frames[0])
            harness.check_same(player.frames[:count], [tag for tag in steady.sent[begin:] if tag.is_frame][:count])
        self.check_log(daemon, setting, shown)
        self.wait_counts(daemon, 0, 0)
        self.assertEqual(daemon.complaints(), [])

    def check_log(self, daemon, setting, shown):
        """One line, whatever the number of connections."""
        lines = [line.fields for line in daemon.log("ktls")]
        wanted = {"for": "forwards", "used": "yes" if shown["used"] else "no", "failed": shown["failed"] or "none"}
        self.assertEqual([{name: line[name] for name in wanted} for line in lines], [wanted] if setting != "off" else [])

    def test_pull(self):
        """A pull receives: the kernel is not tried."""
        origin = self.start("off")
        with harness.Steady(origin, size=4000) as steady, \
                harness.Daemon("--ktls", "always", "--tls-ca", tls.certificate().chain, "--pull",
                               "rtmps://localhost:%d/%s=copy/x" % (origin.address("rtmp")[1], steady.name)) as daemon:
            daemon.wait_stream("copy/x")
            self.wait_counts_of_pull(daemon)
            self.assertEqual(daemon.log("ktls"), [])

    def wait_counts_of_pull(self, daemon):
        state = harness.wait_until(lambda: daemon.api()["tls"]["connections"] == 1 and daemon.api(), "a connection with TLS")
        self.assertEqual((state["tls"]["ktls_connections"], state["tls"]["ktls"]["sends"]), (0, False))

    def test_reload(self):
        """Later connections follow the new setting; what the kernel can do is logged once."""
        target = self.start("off", "--wait", "60")
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            def write(setting):
                file.seek(0)
                file.truncate()
                file.write('ktls = "%s";\n' % setting)
                file.flush()
            write("off")
            daemon = harness.Daemon("--config", file.name, "--workers", "2", "--tls-ca", tls.certificate().chain, "--wait", "0",
                                    "--forward", "live/*=rtmps://localhost:%d/copy/*" % target.address("rtmp")[1], listen=PLAIN)
            self.addCleanup(daemon.stop)
            for setting in ("off", "always", "off", "always"):
                write(setting)
                daemon.admin("POST", "/api/v1/reload")
                with harness.Steady(daemon, name="live/x", size=4000) as steady:
                    steady.go_on(60)
                    self.wait_counts(daemon, 1, int(is_used(setting)))
                    self.assertEqual(daemon.api("/api/v1/tls")["ktls"], shown_of(setting))
                self.wait_counts(daemon, 0, 0)
            self.check_log(daemon, "always", shown_of("always"))


class ForwardKeyTest(KtlsCase):
    """openssl s_server takes a forward by HTTPS, while the kernel encrypts it."""

    def begin(self):
        server = tls.OpensslServer(self)
        return server, self.forwarder("always", "https://localhost:%d/in" % server.port)

    def play(self):
        server, daemon = self.begin()
        steady = self.enterContext(harness.Steady(daemon, name="live/x", size=4000))
        self.wait_sent(daemon)
        return server, daemon, steady

    def wait_frame(self, server, steady, count=0):
        steady.go_on(4)
        end = steady.sent[-5]
        harness.wait_until(lambda: end.payload in server.received(count), "frame at %d" % end.timestamp)

    def test_same_bytes(self):
        server, daemon = self.begin()
        with harness.Steady(daemon, name="live/x", size=4000) as steady:
            self.wait_sent(daemon)
            steady.go_on(100)
        harness.wait_until(lambda: b"\r\n0\r\n\r\n" in server.received(), "the last chunk")
        head, _, body = server.received().partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"POST /in HTTP/1.1\r\n"), head[:100])
        tags = flv.Parser().feed(harness.Dechunker().feed(body))
        frames = [tag for tag in tags if tag.is_frame]
        begin = steady.sent.index(frames[0])
        self.assertGreater(len(frames), 60)
        harness.check_same(frames, [tag for tag in steady.sent[begin:] if tag.is_frame])
        self.assertEqual(daemon.complaints(), [])

    def test_own_keys(self):
        """The target's new keys are for what it sends."""
        server, daemon, steady = self.play()
        for _ in range(3):
            server.set_key(False)
            self.wait_frame(server, steady)
        self.assertEqual(daemon.api("/api/v1/forwards")["forwards"][0]["failures"], 0)
        self.assertEqual(daemon.complaints(), [])

    def test_requested_keys(self):
        """Where the kernel changes keys, the connection goes on. Elsewhere it ends with close_notify, the reason is shown, and the
        forward connects again."""
        server, daemon, steady = self.play()
        server.set_key(True)
        if kernel() is None:
            for requests in (True, False, True):
                self.wait_frame(server, steady)
                server.set_key(requests)
            self.wait_frame(server, steady)
            self.assertEqual(daemon.api("/api/v1/forwards")["forwards"][0]["failures"], 0)
        else:
            line = daemon.wait_log("forward", state="waiting")
            self.assertEqual(": ".join(filter(None, (line.fields["reason"], line.fields.get("detail")))),
                             "TLS: a new key is due, and the kernel cannot change it")
            self.wait_sent(daemon)
            self.wait_frame(server, steady, 1)
            self.assertIn(b"\nDONE\n", server.output)
            self.assertNotIn(b"unexpected eof", server.complaints)


class ForwardProgramTest(KtlsCase):
    """nginx takes a forward by RTMPS, while the kernel encrypts it, for RTMP servers that are not ours: each frame arrives.

    ffmpeg has no RTMPS as a server (5.1 and 9.0: "rtmp_listen not available for rtmps"), so nginx decrypts for it, too.
    """

    TERMINATOR = test_tls_out.TERMINATOR.replace("ssl_certificate ", "ssl_protocols TLSv1.3; ssl_certificate ", 1)
    REST = 50  # Tags that are sent when the kernel encrypts, at least.

    def setUp(self):
        if not rtmp_servers.has_nginx() or not os.path.exists(test_tls_out.STREAM_MODULE):
            self.skipTest("no nginx with its RTMP and stream modules: tools/install-deps test")
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def forward(self, url, tags):
        """All that is published goes to that RTMP server."""
        port, _, path = url.split(":")[2].partition("/")
        secure = self.enterContext(test_tls_out.nginx(self.folder, tls.certificate(), self.TERMINATOR,
                                                      "load_module %s;" % test_tls_out.STREAM_MODULE, behind=port))
        daemon = self.forwarder("always", "rtmps://localhost:%d/%s" % (secure, path))
        with harness.Publisher(daemon, "live/x", "http") as publisher:
            # Both tracks, so that it begins.
            begun = next(at for at, tag in enumerate(tags) if tag.is_frame and tag.timestamp > 0)
            publisher.send(flv.header() + b"".join(tag.pack() for tag in tags[:begun]))
            daemon.wait_log("forward", state="sending")
            for tag in tags[begun:-self.REST]:
                publisher.send(tag)
            self.wait_sent(daemon)
            for tag in tags[-self.REST:]:
                publisher.send(tag)
            publisher.finish()
        daemon.wait_log("forward ended", reason="end of stream", frames_dropped="0")
        self.assertEqual(daemon.complaints(), [])

    def test_nginx(self):
        """Its RTMP module records."""
        tags = flv.stream(200, size=4000)[1]
        frames = [tag.payload for tag in tags if tag.is_frame]
        os.chmod(self.folder, 0o777)
        recording = "application rec { live on; record all; record_path %s; }" % self.folder

        def recorded():
            with contextlib.suppress(OSError, flv.Broken), open(os.path.join(self.folder, "x.flv"), "rb") as file:
                got = [tag.payload for tag in flv.parse(file.read()) if tag.is_frame]
                return len(got) >= len(frames) and got
            return None
        with rtmp_servers.nginx(recording) as url:
            self.forward(url.replace("/live/", "/rec/x"), tags)
            got = harness.wait_until(recorded, "a whole recording")
        harness.check_same(got, frames, "frames")

    def test_ffmpeg(self):
        """It notes the hash of each packet."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        media = harness.make_media(ffmpeg, " ".join([VIDEO, tone(48000), "-t %d" % SECONDS, H264, AAC]))
        got, sent = os.path.join(self.folder, "got"), os.path.join(self.folder, "sent")
        with open(media, "rb") as file:
            tags = flv.parse(file.read())
        with rtmp_servers.ffmpeg_server(ffmpeg, "-map", "0", "-c", "copy", "-f", "framemd5", got) as (url, receiver):
            self.forward(url, tags)
            receiver.wait()
        harness.frame_hashes(ffmpeg, media, sent).wait()
        harness.check_same(packet_hashes(got), packet_hashes(sent), "frames")


class KeyTest(KtlsCase):
    """openssl s_client's k and K, while the kernel encrypts the stream that it plays."""

    def play(self):
        daemon = self.start("always")
        steady = self.enterContext(harness.Steady(daemon, size=4000))
        player = tls.OpensslPlayer(self, daemon, steady.name)
        daemon.wait_player(steady.name, 2)
        self.wait_ktls(daemon, 2)
        return daemon, steady, player

    def wait_frame(self, steady, player):
        steady.go_on(4)
        end = steady.sent[-5]
        player.wait_bytes(end.payload, "frame at %d behind a new key" % end.timestamp)

    def test_own_keys(self):
        """The client's new keys are for what it sends, which OpenSSL decrypts: any kernel will do."""
        daemon, steady, player = self.play()
        for _ in range(6):
            player.set_key(False)
            self.wait_frame(steady, player)
        self.wait_ktls(daemon, 2)
        self.assertEqual(daemon.complaints(), [])

    def test_requested_keys(self):
        """Where the kernel changes keys, the stream goes on; elsewhere it ends with close_notify, and only for that client."""
        daemon, steady, player = self.play()
        if kernel() is None:
            for requests in (True, True, False) * 3:
                player.set_key(requests)
                self.wait_frame(steady, player)
            self.wait_ktls(daemon, 2)
        else:
            player.set_key(True)
            harness.wait_until(lambda: player.process.poll() is not None, "the end of the connection")
            status, error = player.wait_end()
            self.assertEqual(status, 0, error)
            self.assertNotIn("unexpected eof", error)
            self.assertIn(b"HTTP/1.1 200", player.got)
            self.wait_ktls(daemon, 1)
            # It may come again.
            again = tls.OpensslPlayer(self, daemon, steady.name)
            daemon.wait_player(steady.name, 2)
            self.wait_frame(steady, again)
        steady.go_on(20)
        self.assertEqual(daemon.complaints(), [])


class ProgramTest(KtlsCase):
    """curl and ffmpeg play what ffmpeg publishes, all of it."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.ffmpeg = harness.find_ffmpeg()
        if not self.ffmpeg:
            self.skipTest("no ffmpeg")
        self.file = harness.make_media(self.ffmpeg, " ".join([VIDEO, tone(48000), "-t %d" % SECONDS, H264, AAC]))
        self.wait = settings.long_wait(self.addCleanup)
        self.daemon = self.start("always", *self.wait.options)

    def hashes(self, source):
        path = os.path.join(self.folder, "frames")
        harness.frame_hashes(self.ffmpeg, source, path).wait()
        return packet_hashes(path)

    def play(self, *command):
        """The command, which is there before the publisher, gets everything, and most of it by the kernel."""
        taken = os.path.join(self.folder, "taken.flv")
        player = subprocess.Popen([*command, taken], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=tls.environment())
        self.addCleanup(player.stderr.close)
        self.addCleanup(player.wait)
        self.addCleanup(player.kill)
        self.daemon.wait_player("live/a")
        publisher = harness.Ffmpeg(self.ffmpeg, "-re", "-i", self.file, "-c", "copy", "-f", "flv", "-method", "PUT",
                                   self.daemon.url("live/a"))
        self.addCleanup(publisher.kill)
        self.wait_ktls(self.daemon, 1)
        publisher.wait()
        settings.end_wait(self.wait, self.daemon)
        _, error = player.communicate(timeout=harness.PATIENCE)
        self.assertEqual(player.returncode, 0, error.decode(errors="replace")[-2000:])
        harness.check_same(self.hashes(taken), self.hashes(self.file), "frames")
        self.wait_counts(self.daemon, 0, 0)
        self.daemon.blocks_settled()
        self.assertEqual(self.daemon.complaints(), [])

    @unittest.skipUnless(shutil.which("curl"), "not installed: curl")
    def test_curl(self):
        self.play("curl", "-sS", "--fail", "--tlsv1.3", "--cacert", tls.certificate().chain, self.daemon.url("live/a"), "-o")

    def test_ffmpeg(self):
        self.play(self.ffmpeg, "-v", "error", "-nostdin", "-y", "-i", self.daemon.url("live/a"), "-c", "copy", "-f", "flv")


if __name__ == "__main__":
    harness.main()
