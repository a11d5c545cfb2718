"""kTLS: what the administration shows of it, where the kernel encrypts and where it does not.

What the kernel can do is found out here by system calls, apart from the daemon.
"""

import functools
import os
import re
import socket
import struct
import subprocess
import unittest

import harness
import tls

SLUICECTL = os.environ.get("SLUICECTL", os.path.join(harness.BUILD_DIR, "sluicectl"))
TCP_ULP, SOL_TLS, TLS_TX = 31, 282, 1
KEY = struct.pack("=HH", 0x0304, 51) + bytes(8 + 16 + 4 + 8)  # Of AES-128-GCM in TLS 1.3: the key is zeros.


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

    def test_no_listener(self):
        """Without a listener that has TLS nothing is tried, and there is nothing to show."""
        with harness.Daemon("--ktls", "always") as daemon:
            shown = daemon.api("/api/v1/tls")
            self.assertEqual((shown["connections"], shown["ktls"]["setting"]), (0, "always"))
            self.assertEqual([shown["ktls"][name] for name in ("used", "sends", "failed", "reason")], [False, False, None, None])
            self.assertNotIn("sluice_ktls_used{", daemon.admin("GET", "/metrics")[2].decode())
            self.assertNotIn("warning", "\n".join(self.ctl(daemon, "status")))


if __name__ == "__main__":
    harness.main()
