"""kTLS: the kernel encrypts what listeners send, to clients that are other programs; and what the administration shows of it.

What the kernel can do is found out here by system calls, apart from the daemon. Where it cannot encrypt, StatusTest checks that this is
shown, and that everything is relayed nevertheless; the other cases are left out, unless SLUICE_TEST_KTLS says that they must run. On
kernels that have the module, tools/kernels runs all of this file: tools/kernels 6.1 6.12 newest --tests kTLS
"""

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

import harness
import settings
import tls
from harness import AAC, H264, VIDEO, tone

SLUICECTL = os.environ.get("SLUICECTL", os.path.join(harness.BUILD_DIR, "sluicectl"))
TCP_ULP, SOL_TLS, TLS_TX = 31, 282, 1
KEY = struct.pack("=HH", 0x0304, 51) + bytes(8 + 16 + 4 + 8)  # Of AES-128-GCM in TLS 1.3: the key is zeros.
SECONDS = 6


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
    cases = [StatusTest]
    if sends() or os.environ.get("SLUICE_TEST_KTLS"):
        cases += [KeyTest, ProgramTest]
    else:
        print("The kernel does not encrypt: %s: %s" % (kernel()[0], os.strerror(kernel()[1])))
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))


class KtlsCase(unittest.TestCase):
    def start(self, setting, *options):
        daemon = tls.Daemon("--workers", "2", "--ktls", setting, *options)
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

    def wait_ktls(self, daemon, count):
        """So many players are sent by the kernel."""
        harness.wait_until(lambda: sum(player["ktls"] for player in daemon.api()["players"]) == count,
                           lambda: "%d players by the kernel: %s" % (count, daemon.api()["players"]))


class StatusTest(KtlsCase):
    def check_shown(self, setting):
        used, lacks = is_used(setting), kernel() if setting != "off" else None
        daemon = self.start(setting)
        shown = {"setting": setting, "used": used, "sends": setting != "off" and sends(),
                 "changes_keys": setting != "off" and kernel() is None, "failed": lacks and lacks[0],
                 "reason": lacks and os.strerror(lacks[1])}
        self.assertEqual(daemon.api("/api/v1/tls"), {"connections": 0, "ktls_connections": 0, "ktls": shown})
        with harness.Steady(daemon, size=4000) as steady, daemon.connect() as idle:
            idle.sendall(b"OPTIONS /live/a.flv HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(harness.read_head(idle)[0], 204)
            steady.go_on(40)  # Much more than 64 KiB.
            state = self.wait_counts(daemon, 3, int(used))
            self.assertEqual([player["ktls"] for player in state["players"]], [used])
            self.assertEqual(daemon.api("/api/v1/tls"), {"connections": 3, "ktls_connections": int(used), "ktls": shown})
            self.check_metrics(daemon, setting, shown, 3, int(used))
            wanted = ["tls       3 connections, %d encrypted by the kernel" % used]
            if setting != "off" and not used:
                wanted.append("warning   kTLS is not used: %s: %s" % (shown["failed"], shown["reason"]))
            self.assertEqual([line for line in self.ctl(daemon, "status") if line.startswith("tls") or "kTLS" in line], wanted)
        self.wait_counts(daemon, 0, 0)
        self.assertEqual([line.startswith("tls ") for line in self.ctl(daemon, "status")].count(True), setting != "off")
        daemon.blocks_settled()

    def check_metrics(self, daemon, setting, shown, *counts):
        text = daemon.admin("GET", "/metrics")[2].decode()
        used = re.findall(r'^sluice_ktls_used\{failed="(.*)",reason="(.*)"\} (\d)$', text, re.MULTILINE)
        self.assertEqual(used, [(shown["failed"] or "", shown["reason"] or "", str(int(shown["used"])))] if setting != "off" else [])
        for name, count in zip(("tls", "ktls"), counts):
            values = re.findall(r'^sluice_worker_%s_connections\{worker="(\d)"\} (\d+)$' % name, text, re.MULTILINE)
            self.assertEqual([worker for worker, _ in values], ["0", "1"])
            self.assertEqual(sum(int(value) for _, value in values), count)

    def test_off(self):
        self.check_shown("off")

    def test_auto(self):
        self.check_shown("auto")

    def test_always(self):
        self.check_shown("always")

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
        with open(path, encoding="ascii") as file:
            return [(kind, line.split(",")[-1].strip()) for kind, _, line in harness.packets(file.read())]

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
