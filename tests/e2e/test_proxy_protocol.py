"""The PROXY protocol: rules, bans, limits and logs see the client behind a proxy, and nobody else can claim to be one.

The proxies are haproxy, nginx and curl, which are not ours; and headers by hand, for what no proxy sends.
"""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import unittest

import flv
import harness
import rtsp
from harness import Daemon, Player, Publisher
from test_request_smuggling import PEERS, find, proxy

LISTEN = ("--flv", "127.0.0.1:0=live/raw", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
CLIENT = "127.0.0.77"  # Of those who connect to a proxy of this host.
GET = b"GET /live/a.flv HTTP/1.1\r\nHost: test\r\n\r\n"
STREAM_MODULE = os.path.join(os.path.dirname(PEERS), "lib", "nginx", "modules", "ngx_stream_module.so")


def v1(host="10.1.2.3", port=4000):
    return b"PROXY TCP%c %s %s %d 443\r\n" % (b"6" if ":" in host else b"4", host.encode(),
                                              b"fd00::1" if ":" in host else b"10.0.0.1", port)


def v2(host="10.1.2.3", port=4000, command=1, more=b""):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    addresses = 2 * socket.inet_pton(family, host) + struct.pack(">HH", port, 443)
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, 0x21 if ":" in host else 0x11, len(addresses + more)) \
        + addresses + more


LOCAL = SIGNATURE + b"\x20\0\0\0"

MALFORMED = (GET, b"PROXY TCP4 10.1.2.3 10.0.0.1 4000\r\n" + GET, b"PROXY TCP4 10.1.2.3 10.0.0.1 4000 443\n" + GET,
             b"PROXY UNKNOWN" + b" x" * 60 + b"\r\n" + GET, SIGNATURE[:-1] + b"X" + GET, SIGNATURE + b"\x31\x11\0\x0c" + GET,
             SIGNATURE + b"\x21\x11\0\x0b" + GET, SIGNATURE + b"\x21\x11\xff\xff" + GET, v2(more=b"\x03\0\x04abcd") + GET,
             b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", b"FLV\1\5\0\0\0\x09\0\0\0\0")


class ProxyTest(harness.SettledTest):
    """Headers by hand."""

    def start(self, *options, workers="2", ranges="127.0.0.1"):
        return super().start("--workers", workers, "--proxy-from", ranges, *options, listen=LISTEN)

    def connect(self, daemon, data, protocol="http", source="127.0.0.1"):
        peer = self.stack.enter_context(socket.socket())
        peer.bind((source, 0))
        peer.settimeout(harness.PATIENCE)
        peer.connect(daemon.address(protocol))
        peer.sendall(data)
        return peer

    def answer(self, daemon, data, protocol="http", source="127.0.0.1"):
        return harness.read_to_end(self.connect(daemon, data, protocol, source))

    def refused(self, daemon, cause="proxy_from"):
        return daemon.api()["refused"][cause]

    def test_every_protocol_sees_the_client(self):
        """By HTTP, RTSP and raw FLV, in both versions and families: rules let in by the client's address."""
        daemon = self.start("--rule", "all live/* from 10.1.2.0/24,2001:db8::/64 allow", "--wait", "0")
        data, _ = flv.stream(10)
        for header, peer in ((v1(), "10.1.2.3:4000"), (v2(), "10.1.2.3:4000"), (v2("2001:db8::5"), "[2001:db8::5]:4000"),
                             (v1("2001:db8::5"), "[2001:db8::5]:4000"), (v2("::ffff:10.1.2.3", 7), "10.1.2.3:7"),
                             (v2(more=b"\x02\0\x04host\x04\0\0"), "10.1.2.3:4000")):
            post = b"POST /live/a.flv HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(data)
            with self.subTest(peer):
                started = len(daemon.log("publisher started", peer=peer))
                answer = self.connect(daemon, header + post + data)
                self.assertEqual(harness.read_head(answer)[0], 200)
                raw = self.connect(daemon, header + data, "flv")
                raw.shutdown(socket.SHUT_WR)
                self.assertEqual(harness.read_to_end(raw), b"")
                described = self.connect(daemon, header + b"DESCRIBE rtsp://h/live/a RTSP/1.0\r\nCSeq: 1\r\n\r\n", "rtsp")
                self.assertIn(b"404", described.recv(4096))
                daemon.wait_log("publisher started", started + 2, peer=peer)
        for header in (v1("10.1.3.3"), v2("2001:db8:0:1::5")):
            self.assertEqual(harness.status_of(self.answer(daemon, header + GET)), 403)
        daemon.wait_log("request refused", peer="10.1.3.3:4000", status="403")
        self.assertEqual(self.refused(daemon), 0)
        self.stack.close()

    def test_cut_anywhere(self):
        """The header and the request behind it, at every cut."""
        daemon = self.start("--log-rate", "0")
        count = 0
        for header in (v1(), v2(more=b"\x02\0\x04host")):
            whole = header + b"GET /nothing HTTP/1.1\r\nHost: test\r\n\r\n"
            for cut in range(1, len(whole)):
                peer = self.connect(daemon, whole[:cut])
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.sendall(whole[cut:])
                self.assertEqual(harness.status_of(harness.read_to_end(peer)), 404)
                peer.close()
                count += 1
        daemon.check_log(count, "request refused", peer="10.1.2.3:4000")
        daemon.check_log(count, "request refused")
        self.stack.close()

    def test_the_header_is_required(self):
        """Without it, or with a malformed one, nothing behind it is read; it is logged and counted."""
        daemon = self.start("--rule", "all * allow", "--log-rate", "0")
        for number, data in enumerate(MALFORMED):
            with self.subTest(data[:40]):
                answer = self.answer(daemon, data)
                self.assertEqual((harness.status_of(answer), answer.count(b"HTTP/1.1")), (400, 1))
                self.assertIn(b"PROXY header", answer)
                self.assertEqual(self.refused(daemon), number + 1)
        self.assertTrue(self.answer(daemon, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", "rtsp").startswith(b"RTSP/1.0 400 "))
        self.assertEqual(self.answer(daemon, b"FLV\1\5\0\0\0\x09\0\0\0\0", "flv"), b"")
        self.assertEqual(self.refused(daemon), len(MALFORMED) + 2)
        daemon.check_log(len(MALFORMED) + 2, "connection refused")
        self.assertIn('sluice_refused_total{cause="proxy_from"} %d\n' % (len(MALFORMED) + 2),
                      daemon.admin("GET", "/metrics")[2].decode())
        # One that ends before it was whole is a port scan, or a check that only connects: no refusal.
        for part in (b"", v1()[:9], v2()[:20]):
            peer = self.connect(daemon, part)
            peer.shutdown(socket.SHUT_WR)
            self.assertEqual(harness.read_to_end(peer), b"")
        self.assertEqual(self.refused(daemon), len(MALFORMED) + 2)
        self.stack.close()

    def test_the_header_in_time(self):
        """A part of it, and no more, ends at the deadline; and the others are served meanwhile."""
        daemon = self.start("--wait", "0")
        slow = [self.connect(daemon, part) for part in (b"", v1()[:-1], v2()[:-1])]
        self.assertEqual(harness.status_of(self.answer(daemon, v1() + GET)), 404)
        for peer in slow:
            self.assertEqual(harness.status_of(harness.read_to_end(peer)), 400)
        self.assertEqual(self.refused(daemon), 3)
        daemon.wait_log("connection refused", 3, reason="PROXY header timeout", detail="see --proxy-from")
        self.stack.close()

    def test_from_other_addresses_it_is_not_read(self):
        daemon = self.start("--rule", "all * from 10.0.0.0/8 allow")
        for header in (v1(), v2()):
            answer = self.answer(daemon, header + GET, source="127.0.0.2")
            self.assertEqual(harness.status_of(answer), 400)
        self.assertEqual(harness.status_of(self.answer(daemon, GET, source="127.0.0.2")), 403)
        daemon.check_log(3, "request refused")
        self.assertEqual([line.fields["peer"].split(":")[0] for line in daemon.log("request refused")], ["127.0.0.2"] * 3)
        self.assertEqual(self.refused(daemon), 0)
        self.stack.close()

    def test_connections_of_the_proxy_itself(self):
        """LOCAL and UNKNOWN: the proxy's own address counts. Health checks are of no stream."""
        daemon = self.start("--rule", "play live/* from 127.0.0.1 allow", "--wait", "0")
        for header in (LOCAL, v2("10.1.2.3", command=0), b"PROXY UNKNOWN\r\n", SIGNATURE + b"\x21\0\0\0"):
            self.assertEqual(harness.status_of(self.answer(daemon, header + GET)), 404)
        self.assertEqual(harness.status_of(self.answer(daemon, v1() + GET)), 403)
        self.stack.close()

    def test_limits_are_the_clients(self):
        """The proxy may have any number of connections; each client behind it as many as an address may have."""
        daemon = self.start("--max-connections-per-address", "2", "--wait", "60")
        for client in ("10.0.0.1", "10.0.0.2", "2001:db8::1"):
            for header in (v1(client), v2(client)):
                self.connect(daemon, header + GET)
        daemon.wait_player("live/a", 6)
        for client in ("10.0.0.1", "10.0.0.2", "2001:db8::2"):
            self.assertEqual(harness.status_of(self.answer(daemon, v1(client) + GET)), 429)
        daemon.wait_log("connection refused", peer="10.0.0.1:4000", reason="too many connections from this address")
        self.assertEqual(self.refused(daemon, "max_connections_per_address"), 3)
        self.stack.close()
        harness.wait_until(lambda: not daemon.api()["players"], "their end")
        # What has ended is not counted any more.
        for header in (v1("10.0.0.1"), v2("10.0.0.1")):
            self.connect(daemon, header + GET)
        daemon.wait_player("live/a", 2)
        self.stack.close()

    def test_connections_without_a_header_are_limited(self):
        daemon = self.start("--max-connections", "3")
        for _ in range(3):
            self.connect(daemon, b"")
        harness.wait_until(lambda: sum(worker["connections"] for worker in daemon.api()["workers"]) == 3, "three")
        self.assertEqual(harness.status_of(self.answer(daemon, v1() + GET)), 503)
        self.stack.close()

    def test_bans_are_the_clients(self):
        daemon = self.start()
        data, _ = flv.stream(10)
        post = b"POST /live/a.flv HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(data), data)
        first = self.connect(daemon, v1() + post)
        stream = daemon.wait_stream("live/a") or daemon.stream("live/a")
        self.assertEqual(stream["publisher"]["address"], "10.1.2.3:4000")
        self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/live%2Fa?ban=3600")[0], 204)
        self.assertEqual(harness.read_head(first)[0], 403)
        self.assertEqual(harness.read_head(self.connect(daemon, v2(port=5000) + post))[0], 403)
        self.assertEqual(harness.read_head(self.connect(daemon, v1("10.1.2.4") + post + b"0\r\n\r\n"))[0], 200)
        self.stack.close()

    def test_not_all_addresses(self):
        """A range of all addresses would let any client claim to be another."""
        for ranges in ("0.0.0.0/0", "::/0", "10.0.0.1,::/0"):
            with self.assertRaisesRegex(harness.NotStarted, "range of all addresses"):
                Daemon("--proxy-from", ranges).kill()

    def test_at_the_end(self):
        """Connections whose header has not come do not hold up the end."""
        with contextlib.ExitStack() as self.stack, Daemon("--proxy-from", "127.0.0.1", listen=LISTEN) as daemon:
            peers = [self.connect(daemon, v1()[:7]) for _ in range(20)]
            harness.wait_until(lambda: sum(worker["connections"] for worker in daemon.api()["workers"]) == 20, "twenty")
            daemon.stop()
            for peer in peers:
                self.assertEqual(harness.read_to_end(peer), b"")


HAPROXY = """
global
    maxconn 512
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend in
    bind 127.0.0.1:%%(port)d
    default_backend out
backend out
    server sluiced 127.0.0.1:%%(behind)d %s check inter 100ms
"""

NGINX = """
load_module """ + STREAM_MODULE + """;
daemon off; master_process off; pid %(folder)s/pid; error_log stderr crit;
events { worker_connections 512; }
stream { server { listen 127.0.0.1:%(port)d; proxy_pass 127.0.0.1:%(behind)d; proxy_protocol on; } }
"""


class OthersTest(unittest.TestCase):
    """Proxies that are not ours, for each protocol; their own checks disturb nothing."""

    def relay(self, daemon, port, protocol):
        """Publishes by the proxy from an address that may, and is refused from another one."""
        data, tags = flv.stream(40)
        name = "live/raw" if protocol == "flv" else "live/a"
        with Player(daemon, name) as player:
            daemon.wait_player(name)
            peer = socket.create_connection(("127.0.0.1", port), harness.PATIENCE, (CLIENT, 0))
            with peer:
                if protocol == "http":
                    peer.sendall(b"PUT /%s.flv HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (name.encode(), len(data)))
                peer.sendall(data)
                player.wait_tags(len(tags))
                harness.check_same(player.tags, tags)
                daemon.wait_log("publisher started", peer=harness.address_text(peer), stream=name)
        if protocol == "http":
            with socket.create_connection(("127.0.0.1", port), harness.PATIENCE, ("127.0.0.78", 0)) as peer:
                peer.sendall(b"PUT /live/a.flv HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
                self.assertEqual(harness.read_head(peer)[0], 403)
                daemon.wait_log("request refused", peer=harness.address_text(peer), status="403")

    def through(self, program, text, arguments):
        if not find(program):
            self.skipTest("%s is not installed: tools/install-deps test" % program)
        rules = ("--rule", "publish live/* from %s allow" % CLIENT, "--rule", "play live/* from 127.0.0.9 allow")
        with Daemon("--proxy-from", "127.0.0.1", *rules, listen=LISTEN) as daemon:
            daemon.connect = lambda *_, **__: self.connect_from("127.0.0.9", daemon)
            for protocol in ("http", "flv"):
                with self.subTest(protocol), proxy(program, text, arguments, daemon.address(protocol)[1]) as port:
                    self.relay(daemon, port, protocol)
            self.assertEqual(daemon.api()["refused"]["proxy_from"], 0)
            daemon.blocks_settled()

    @staticmethod
    def connect_from(host, daemon):
        peer = socket.create_connection(daemon.address("http"), harness.PATIENCE, (host, 0))
        return peer

    def test_haproxy_version_1(self):
        self.through("haproxy", HAPROXY % "send-proxy", ["-f"])

    def test_haproxy_version_2(self):
        self.through("haproxy", HAPROXY % "send-proxy-v2", ["-f"])

    def test_haproxy_version_2_with_checksum(self):
        self.through("haproxy", HAPROXY % "send-proxy-v2 proxy-v2-options crc32c,unique-id", ["-f"])

    def test_nginx(self):
        if not os.access(STREAM_MODULE, os.R_OK):
            self.skipTest("nginx's stream module is not installed: tools/install-deps test")
        self.through("nginx", NGINX, ["-c"])

    def test_curl(self):
        curl = shutil.which("curl")
        if not curl:
            self.skipTest("curl is not installed")
        with Daemon("--proxy-from", "127.0.0.1", "--wait", "0", listen=LISTEN) as daemon:
            command = [curl, "-sS", "-o", os.devnull, "-w", "%{http_code} %{local_port}", "--haproxy-protocol",
                       daemon.url("live/a")]
            done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=harness.PATIENCE)
            status, port = done.stdout.split()
            self.assertEqual(status, "404")
            daemon.wait_log("request refused", peer="127.0.0.1:" + port)
            without = [word for word in command if word != "--haproxy-protocol"]
            done = subprocess.run(without, capture_output=True, check=True, text=True, timeout=harness.PATIENCE)
            self.assertTrue(re.fullmatch(r"400 \d+", done.stdout), done.stdout)


if __name__ == "__main__":
    harness.main()
