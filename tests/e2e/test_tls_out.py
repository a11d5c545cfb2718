"""TLS of pulls, forwards and hooks: right servers are taken, others are refused with a reason before anything is sent to them.

The TLS of the servers is nginx's and Python's (OpenSSL with other calls than ours).
"""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import threading
import unittest

import certificates
import flv
import harness
import hook_server
import pulls
import rtmp_servers
from harness import Daemon, Player, Publisher, Steady
from settings import Settings
from test_pull_http import chunked, response
from test_request_smuggling import PEERS, find, free_port

STREAM_MODULE = os.path.join(os.path.dirname(PEERS), "lib", "nginx", "modules", "ngx_stream_module.so")
LISTEN = ("--flv", "127.0.0.1:0=live/x", "--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
SLUICECTL = os.environ.get("SLUICECTL") or os.path.join(harness.BUILD_DIR, "sluicectl")
SCHEMES = ("https", "rtmps", "rtsps")

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit; {modules}
events {{ worker_connections 64; }}
{more}
"""
HTTPS = """
http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {chain}; ssl_certificate_key {key}; root {folder}; }} }}
"""
TERMINATOR = """
stream {{ server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {chain}; ssl_certificate_key {key};
    proxy_pass 127.0.0.1:{behind}; }} }}
"""


def reason_of(line):
    """With its explanation."""
    return ": ".join(filter(None, (line.fields.get("reason"), line.fields.get("detail"))))


def check_payloads(frames, sent):
    """They are some of those, in a row."""
    payloads = [tag.payload for tag in sent if tag.is_frame]
    begin = payloads.index(frames[0].payload)
    harness.check_same([frame.payload for frame in frames], payloads[begin:begin + len(frames)])


class Server:
    """TLS by Python. Behind the handshake it passes everything to a server in plaintext, and back, or sends an answer, with
    close_notify or without, or nothing. The connection stays. What came of plaintext and of handshakes is kept."""

    def __init__(self, test, certificate, behind=None, answer=None, ca=None, port=0, notifies=False):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate.chain, certificate.key)
        if ca:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(ca.chain)
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.context.sni_callback = lambda peer, name, context: self.names.append(name) if name else None
        self.behind, self.answer, self.notifies = behind, answer, notifies
        self.received, self.names, self.alpn, self.failures, self.clients = b"", [], [], [], []
        self._ending = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._threads, self._peers = [], []
        self._start(self._accept)
        test.addCleanup(self.close)

    def url(self, scheme, path="", host="localhost"):
        return "%s://%s:%d/%s" % (scheme, host, self.port, path)

    def _start(self, work, *arguments):
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                self._start(self._serve, peer)

    def _serve(self, peer):
        with contextlib.suppress(OSError), peer:
            peer.settimeout(harness.PATIENCE)
            try:
                secure = self.context.wrap_socket(peer, server_side=True, suppress_ragged_eofs=False)
                # A client refuses behind the server's part of the handshake.
                first = secure.recv(1) if self.behind or self.answer is not None else b""
            except OSError as error:
                self.failures.append(error)
                return
            self._peers.append(secure)
            self.alpn.append(secure.selected_alpn_protocol())
            self.clients.append(secure.getpeercert() if self.context.verify_mode else None)
            self.received += first
            with secure:
                if self.behind:
                    self._pass(secure, first)
                else:
                    self._reply(secure)

    def _reply(self, secure):
        secure.setblocking(True)
        while self.answer is not None and b"\r\n\r\n" not in self.received:
            self.received += secure.recv(65536)
        if self.answer is not None:
            secure.sendall(self.answer)
        if self.notifies:
            secure.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):
                secure.unwrap()
        self._ending.wait()

    def _pass(self, secure, first):
        with socket.create_connection(self.behind) as plain:
            self._peers.append(plain)
            plain.sendall(first)
            self._start(self._copy, plain, secure)
            self._copy(secure, plain)

    def _copy(self, source, target):
        with contextlib.suppress(OSError):
            source.settimeout(None)
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if isinstance(source, ssl.SSLSocket) and len(self.received) < 65536:
                    self.received += data
                target.sendall(data)
        for peer in (source, target):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._ending.set()
        for peer in (self._listener, *self._peers):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def nginx(folder, certificate, more, modules="", **fields):
    """An nginx with this part of its configuration; its port."""
    port = free_port()
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, modules=modules, more=more.format(
            folder=folder, port=port, chain=certificate.chain, key=certificate.key, **fields)))
    process = harness.subprocess.Popen([find("nginx"), "-p", folder, "-c", path], stdin=harness.subprocess.DEVNULL)
    try:
        harness.wait_until(lambda: rtmp_servers.is_listening(port), "nginx")
        yield port
    finally:
        process.kill()
        process.wait()


class TlsTest(pulls.PullTest):
    @classmethod
    def setUpClass(cls):
        cls.files = cls.enterClassContext(harness.tempfile.TemporaryDirectory())
        names = "DNS:localhost,IP:127.0.0.1"
        cls.ca = certificates.make(cls.files, "ca", is_ca=True)
        cls.right = certificates.make(cls.files, "localhost", issuer=cls.ca, names=names)
        cls.other_name = certificates.make(cls.files, "other.example", issuer=cls.ca)
        cls.other_ca = certificates.make(cls.files, "other-ca", is_ca=True)
        cls.unknown = certificates.make(cls.files, "localhost", "unknown", issuer=cls.other_ca, names=names)
        cls.self_signed = certificates.make(cls.files, "localhost", "self-signed", names=names)
        cls.expired = certificates.make_expired(cls.files, "localhost")
        cls.client = certificates.make(cls.files, "camera7", issuer=cls.ca)

    def setUp(self):
        self.servers = []

    def serve(self, certificate=None, **options):
        self.servers.append(Server(self, certificate or self.right, **options))
        return self.servers[-1]

    def check_settled(self, daemon):
        """Streams that are pulled end with their servers."""
        for server in self.servers:
            server.close()
        super().check_settled(daemon)

    def origin(self, *options):
        origin = Daemon("--wait", "60", *options, listen=LISTEN)
        self.addCleanup(origin.stop)
        return origin

    def forwarder(self, *forwards, options=()):
        arguments = [word for one in forwards for word in ("--forward", one)]
        return self.start("--log-level", "debug", "--wait", "1", *options, *arguments,
                          listen=("--flv", "127.0.0.1:0=live/x", "--http", "127.0.0.1:0"))


class PullsTest(TlsTest):
    def test_each_scheme(self):
        """By name and by address: the frames of the origin, with its server's name and protocol as they should be."""
        origin = self.origin()
        servers = {scheme: self.serve(behind=origin.address(scheme[:-1])) for scheme in SCHEMES}
        hosts = {"https": "localhost", "rtmps": "127.0.0.1", "rtsps": "localhost"}
        paths = {"https": "live/x.flv", "rtmps": "live/x", "rtsps": "live/x"}
        with Steady(origin, name="live/x") as steady:
            daemon = self.puller({"live/" + scheme: servers[scheme].url(scheme, paths[scheme], hosts[scheme]) for scheme in SCHEMES},
                                 "--tls-ca", self.ca.chain)
            for scheme in SCHEMES:
                with Player(daemon, "live/" + scheme) as player:
                    player.wait(lambda player: len(player.frames) > 100, "100 frames")
                    if scheme != "rtsps":
                        check_payloads(player.frames[:100], steady.sent)
            for pull in daemon.api()["pulls"]:
                scheme = pull["stream"][5:]
                self.assertEqual((pull["type"], pull["from"], pull["state"]),
                                 (scheme[:-1], servers[scheme].url(scheme, "", hosts[scheme])[:-1], "playing"))
        self.assertEqual([(servers[scheme].names, servers[scheme].alpn) for scheme in SCHEMES],
                         [(["localhost"], ["http/1.1"]), ([], [None]), (["localhost"], [None])])

    def test_logins(self):
        """Passwords are for servers that have been verified; nothing shows them."""
        origin = self.origin("--rtsp-users", self.users("viewer:geheim"), "--rule", "publish * allow", "--rule", "play * user")
        servers = {scheme: self.serve(behind=origin.address(scheme[:-1])) for scheme in SCHEMES}
        daemon = self.puller({"live/" + scheme: server.url(scheme, "live/a" + (".flv" if scheme == "https" else "")).replace(
            "//", "//viewer:geheim@") for scheme, server in servers.items()}, "--tls-ca", self.ca.chain)
        with Publisher(origin, "live/a", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            frames = flv.frames()
            for scheme in SCHEMES:
                def plays(scheme=scheme):
                    publisher.send(next(frames))
                    return daemon.log("pull", stream="live/" + scheme, state="playing")
                harness.wait_until(plays, scheme)
        self.assertIn(b"Authorization: Basic ", servers["https"].received)
        self.check_secrets(daemon, "geheim", "viewer")

    def test_nginx(self):
        """A file by HTTPS; a stream by RTMPS."""
        if not find("nginx"):
            self.skipTest("no nginx")
        folder = self.folder()
        data, tags = flv.stream(300)
        with open(os.path.join(folder, "a.flv"), "wb") as file:
            file.write(data)
        with nginx(folder, self.right, HTTPS) as port:
            daemon = self.puller({"live/x": "https://localhost:%d/a.flv" % port}, "--tls-ca", self.ca.chain)
            with Player(daemon, "live/x") as player:
                player.wait(lambda player: len(player.frames) >= 250, "250 frames")
            daemon.wait_log("pull", stream="live/x", state="waiting", reason="the server has ended the stream")
        self.assertLess(250, len(tags))

    def test_nginx_rtmps(self):
        """What is sent to nginx by RTMPS is fetched from there by RTMPS."""
        if not rtmp_servers.has_nginx() or not os.path.exists(STREAM_MODULE):
            self.skipTest("no nginx with its RTMP and stream modules")
        with contextlib.ExitStack() as stack:
            behind = stack.enter_context(rtmp_servers.nginx()).split(":")[2].split("/")[0]
            port = stack.enter_context(nginx(self.folder(), self.right, TERMINATOR, "load_module %s;" % STREAM_MODULE, behind=behind))
            url = "rtmps://localhost:%d/live/a" % port
            daemon = self.start("--tls-ca", self.ca.chain, "--forward", "live/x=" + url, "--pull", url + "=live/y", "--wait", "1",
                                "--wait", "live/y=60", "--log-level", "debug", listen=("--flv", "127.0.0.1:0=live/x", "--http", "127.0.0.1:0"))
            with Player(daemon, "live/y") as player, Steady(daemon, name="live/x") as steady:
                daemon.wait_log("forward", state="sending", to="rtmps://localhost:%d" % port)
                player.wait(lambda player: len(player.frames) > 100, "100 frames")
                self.assertIn(player.frames[50], steady.sent)

    def test_resumed(self):
        """A pull that is tried again resumes its session, by both versions: openssl s_server counts."""
        for version in ("-tls1_2", "-tls1_3"):
            with self.subTest(version):
                port = free_port()
                server = harness.subprocess.Popen(["openssl", "s_server", "-www", "-accept", "127.0.0.1:%d" % port, version, "-cert",
                                                   self.right.chain, "-key", self.right.key], stdin=harness.subprocess.DEVNULL,
                                                  stdout=harness.subprocess.DEVNULL)
                self.addCleanup(server.wait)
                self.addCleanup(server.kill)
                harness.wait_until(lambda port=port: rtmp_servers.is_listening(port), "openssl")
                daemon = self.puller({"live/a": "https://localhost:%d/" % port}, "--tls-ca", self.ca.chain)
                daemon.wait_log("pull", 3, stream="live/a", state="waiting")
                context = ssl.create_default_context(cafile=self.ca.chain)
                with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost") as peer:
                    peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    page = b"".join(iter(lambda: peer.recv(65536), b"")).decode()
                hits = int(re.search(r"(\d+) session cache hits", page).group(1))
                self.assertGreaterEqual(hits, 2, page)

    def test_refused(self):
        """Each server that is not the right one, with its reason; none is sent anything."""
        pin = "localhost:%d=" + self.right.sha256
        plain = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(plain.close)
        first = b""

        def serve_plain():
            nonlocal first
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = plain.accept()
                    with peer:
                        first += peer.recv(65536)
                        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        threading.Thread(target=serve_plain, daemon=True).start()
        rows = {
            "name": (self.serve(self.other_name), "hostname mismatch"),
            "address": (self.serve(self.other_name), "IP address mismatch"),
            "issuer": (self.serve(self.unknown), "unable to get local issuer certificate"),
            "self": (self.serve(self.self_signed), "self-signed certificate"),
            "expired": (self.serve(self.expired), "certificate has expired"),
            "pin": (self.serve(self.unknown), "the certificate is not a pinned one"),
        }
        urls = {}
        for at, (name, (server, _)) in enumerate(rows.items()):
            urls["live/" + name] = server.url(SCHEMES[at % 3], "geheim/b?geheim", "127.0.0.1" if name == "address" else "localhost")
        urls["live/plain"] = "https://localhost:%d/geheim" % plain.getsockname()[1]
        daemon = self.puller({name: url.replace("//", "//geheim:geheim@") for name, url in urls.items()},
                             "--tls-ca", self.ca.chain, "--tls-ca", self.expired.chain,
                             "--tls-pin", pin % rows["pin"][0].port)
        for name, (server, reason) in rows.items():
            with self.subTest(name):
                line = daemon.wait_log("pull", stream="live/" + name, state="waiting")
                self.assertEqual(reason_of(line), "TLS: " + reason)
                harness.wait_until(lambda server=server: server.failures, "the end of a handshake")
                self.assertEqual(server.received, b"")
                pull, = [pull for pull in daemon.api()["pulls"] if pull["stream"] == "live/" + name]
                self.assertEqual(pull["reason"], "TLS: " + reason)
                daemon.wait_log("pull", 2, stream="live/" + name, state="waiting")
        line = daemon.wait_log("pull", stream="live/plain", state="waiting")
        self.assertTrue(reason_of(line).startswith("TLS: "), line)
        self.assertEqual(first[:1], b"\x16")
        self.assertNotIn(b"geheim", first)
        self.check_secrets(daemon, "geheim")

    def test_pins(self):
        """A pin is all that counts, of several one; with colons or without; at a port or at all of a host."""
        answer = response(200, flv.stream(100)[0])
        servers = [self.serve(certificate, answer=answer) for certificate in (self.expired, self.other_name, self.self_signed)]
        colons = ":".join(self.expired.sha256.upper()[at:at + 2] for at in range(0, 64, 2))
        daemon = self.puller({"live/%d" % at: server.url("https", "x") for at, server in enumerate(servers)},
                             "--tls-pin", "localhost:%d=%s" % (servers[0].port, colons),
                             "--tls-pin", "LOCALHOST=" + self.right.sha256, "--tls-pin", "localhost=" + self.other_name.sha256)
        for name in ("live/0", "live/1"):
            daemon.wait_log("pull", stream=name, state="playing")
        line = daemon.wait_log("pull", stream="live/2", state="waiting")
        self.assertEqual(reason_of(line), "TLS: the certificate is not a pinned one")
        self.assertEqual(servers[2].received, b"")

    def test_client_certificate(self):
        """A server that requires one gets it, and refuses others in its own words."""
        answer = response(200, flv.stream(100)[0])
        server = self.serve(answer=answer, ca=self.ca)
        daemon = self.puller({"live/x": server.url("https", "x")}, "--tls-ca", self.ca.chain,
                             "--tls-client-certificate", self.client.option)
        daemon.wait_log("pull", stream="live/x", state="playing")
        self.assertEqual(dict(item for group in server.clients[0]["subject"] for item in group), {"commonName": "camera7"})
        without = self.serve(answer=answer, ca=self.ca)
        daemon = self.puller({"live/x": without.url("https", "x")}, "--tls-ca", self.ca.chain)
        line = daemon.wait_log("pull", stream="live/x", state="waiting")
        self.assertRegex(reason_of(line), "TLS: .*certificate required")
        self.assertEqual(without.received, b"")

    def test_system(self):
        """The system's store is trusted unless files are; and with them if that is said."""
        answer = response(200, flv.stream(100)[0])
        environment = {"SSL_CERT_FILE": self.ca.chain, "SSL_CERT_DIR": "/nonexistent"}
        for options, trusted in (((), True), (("--tls-ca", self.other_ca.chain), False),
                                 (("--tls-ca", self.other_ca.chain, "--tls-ca", "system"), True)):
            with self.subTest(options):
                server = self.serve(answer=answer)
                daemon = Daemon("--pull", server.url("https", "x") + "=live/x", *options, environment=environment,
                                listen=pulls.LISTEN)
                self.addCleanup(daemon.stop)
                line = daemon.wait_log("pull", stream="live/x", state="playing" if trusted else "waiting")
                if not trusted:
                    self.assertEqual(reason_of(line), "TLS: unable to get local issuer certificate")
                    self.assertEqual(server.received, b"")

    def test_redirects(self):
        """From HTTP to HTTPS, and never back."""
        data = flv.stream(100)[0]
        target = self.serve(answer=response(200, data))
        down = self.serve(answer=response(302, Location="http://localhost:1/", Content_Length=0))
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)

        def redirect():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer:
                        peer.recv(65536)
                        peer.sendall(response(302, Location=target.url("https", "x"), Content_Length=0))
        threading.Thread(target=redirect, daemon=True).start()
        daemon = self.puller({"live/up": "http://localhost:%d/x" % server.getsockname()[1], "live/down": down.url("https", "x")},
                             "--tls-ca", self.ca.chain)
        daemon.wait_log("pull", stream="live/up", state="playing")
        line = daemon.wait_log("pull", stream="live/down", state="waiting")
        self.assertEqual(line.fields["reason"], "redirected from https:// to http://")

    def test_truncated(self):
        """An end of the connection is none of the stream, though the body lasts until then."""
        server = self.serve(answer=response(200, flv.stream(100)[0]))
        daemon = self.puller({"live/x": server.url("https", "x")}, "--tls-ca", self.ca.chain)
        daemon.wait_log("pull", stream="live/x", state="playing")
        server.close()
        line = daemon.wait_log("pull", stream="live/x", state="waiting")
        self.assertTrue(reason_of(line).startswith("TLS: "), line)

    def test_silent(self):
        """A server that says nothing of a handshake."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        daemon = self.puller({"live/x": "rtsps://127.0.0.1:%d/x" % server.getsockname()[1]}, "--tls-ca", self.ca.chain)
        daemon.wait_log("pull", stream="live/x", state="waiting", reason="no answer to the TLS handshake")

    def test_api(self):
        """A pull of the API, under the rules of the configuration."""
        server = self.serve(answer=response(200, flv.stream(100)[0]))
        daemon = self.puller({}, "--tls-ca", self.ca.chain)
        body = json.dumps({"url": server.url("https", "geheim").replace("//", "//u:geheim@"), "stream": "live/x"}).encode()
        status, _, text = daemon.admin("POST", "/api/v1/pulls", body, {"Content-Type": "application/json"})
        self.assertEqual(status, 201, text)
        daemon.wait_log("pull", stream="live/x", state="playing")
        self.check_secrets(daemon, "geheim")

    def test_reload(self):
        """Other files hold for new connections; one that cannot be used changes nothing."""
        answer = response(200, flv.stream(100)[0])
        server = self.serve(answer=answer)
        file = certificates.Certificate(self.folder(), "in-force").chain
        settings = Settings(self.addCleanup, pull='"%s=live/x"' % server.url("https", "x"), tls_ca='"%s"' % file)
        harness.shutil.copy(self.other_ca.chain, file)
        daemon = self.start(*settings.options, "--log-level", "debug", listen=pulls.LISTEN)
        line = daemon.wait_log("pull", stream="live/x", state="waiting")
        self.assertEqual(reason_of(line), "TLS: unable to get local issuer certificate")
        harness.shutil.copy(self.ca.chain, file)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        daemon.wait_log("pull", stream="live/x", state="playing")
        with open(file, "w", encoding="ascii") as broken:
            broken.write("no certificate\n")
        daemon.process.send_signal(signal.SIGHUP)
        line = daemon.wait_log("configuration refused")
        self.assertEqual(line.fields["error"], "tls-ca: %s: no certificate in PEM" % file)
        server.close()
        self.serve(answer=answer, port=server.port)
        daemon.wait_log("pull", 2, stream="live/x", state="playing")


class ForwardsTest(TlsTest):
    def test_each_scheme(self):
        """To another daemon: the same frames."""
        target = self.origin()
        servers = {scheme: self.serve(behind=target.address(scheme[:-1])) for scheme in SCHEMES}
        urls = {"https": servers["https"].url("https", "live/https.flv"), "rtmps": servers["rtmps"].url("rtmps", "live/rtmps"),
                "rtsps": servers["rtsps"].url("rtsps", "live/rtsps")}
        daemon = self.forwarder(*("live/x=" + url for url in urls.values()), options=("--tls-ca", self.ca.chain))
        with contextlib.ExitStack() as stack:
            players = {scheme: stack.enter_context(Player(target, "live/" + scheme)) for scheme in urls}
            steady = stack.enter_context(Steady(daemon, name="live/x"))
            for scheme, server in servers.items():
                daemon.wait_log("forward", state="sending", to="%s://localhost:%d" % (scheme, server.port))
            for player in players.values():
                player.wait(lambda player: len(player.frames) > 100, "100 frames")
            for scheme in ("https", "rtmps"):
                check_payloads(players[scheme].frames[:100], steady.sent)
        self.assertEqual(set(servers["https"].alpn), {"http/1.1"})

    def test_refused(self):
        """Nothing of the stream, its path or a password goes to another server."""
        rows = {"https": (self.serve(self.other_name), "hostname mismatch"),
                "rtmps": (self.serve(self.unknown), "unable to get local issuer certificate"),
                "rtsps": (self.serve(self.expired), "certificate has expired")}
        daemon = self.forwarder(*("live/x=" + server.url(scheme, "geheim/geheim").replace("//", "//u:geheim@")
                                  for scheme, (server, _) in rows.items()),
                                options=("--tls-ca", self.ca.chain, "--tls-ca", self.expired.chain))
        with Steady(daemon, name="live/x"):
            for scheme, (server, reason) in rows.items():
                with self.subTest(scheme):
                    line = daemon.wait_log("forward", 2, state="waiting", to="%s://localhost:%d" % (scheme, server.port))
                    self.assertEqual(reason_of(line), "TLS: " + reason)
                    self.assertEqual(daemon.log("forward", state="sending", to="%s://localhost:%d" % (scheme, server.port)), [])
                    harness.wait_until(lambda server=server: server.failures, "the end of a handshake")
                    self.assertEqual(server.received, b"")
        self.check_secrets(daemon, "geheim")


class HooksTest(TlsTest):
    def ask(self, daemon):
        """Whether a player is let in."""
        return {404: True, 403: False}[daemon.request("GET", "/live/a.flv")[0]]

    def hooked(self, url, *options):
        daemon = self.start("--hook-play", url, "--hook-unpublish", url, "--wait", "0", *options, listen=LISTEN)
        return daemon

    def test_answers(self):
        """Of a server behind TLS, and of one that is looked up by name without it."""
        for scheme in ("https", "http"):
            for reply, granted in ((hook_server.reply(200), True), (hook_server.reply(403), False),
                                   (hook_server.reply(200, b"Transfer-Encoding: chunked\r\n") + chunked(b"x" * 100, 10) + b"0\r\n\r\n", True)):
                with self.subTest((scheme, reply)):
                    hook = hook_server.Hook(self, reply)
                    address = ("127.0.0.1", int(hook.url.split(":")[2].split("/")[0]))
                    url = self.serve(behind=address).url("https", "geheim?x=geheim") if scheme == "https" \
                        else "http://localhost:%d/geheim?x=geheim" % address[1]
                    daemon = self.hooked(url, "--tls-ca", self.ca.chain)
                    self.assertIs(self.ask(daemon), granted)
                    question, = hook.asked
                    self.assertEqual((question["event"], question["stream"]), ("play", "live/a"))
                    self.assertTrue(hook.questions[0].startswith(b"POST /geheim?x=geheim HTTP/1.1\r\n"), hook.questions)
                    self.check_secrets(daemon, "geheim")

    def test_resumed(self):
        """Each query is a connection, and all but the first resume its session; not behind a reload, whose rules may be others."""
        server = self.serve(answer=hook_server.reply(200))
        daemon = self.hooked(server.url("https", "x"), "--tls-ca", self.ca.chain)
        for _ in range(4):
            self.assertTrue(self.ask(daemon))
        self.assertEqual(server.context.session_stats()["hits"], 3)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        for _ in range(2):
            self.assertTrue(self.ask(daemon))
        stats = server.context.session_stats()
        self.assertEqual((stats["hits"], stats["accept_good"]), (4, 6))

    def test_events(self):
        """An event is delivered; to the wrong server it is not, and the reason is logged."""
        hook = hook_server.Hook(self, hook_server.reply(200))
        server = self.serve(behind=("127.0.0.1", int(hook.url.split(":")[2].split("/")[0])))
        daemon = self.hooked(server.url("https", "x"), "--tls-ca", self.ca.chain)
        with Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(flv.stream(20)[0])
            self.assertEqual(publisher.finish(), 200)
        hook.wait(1)
        self.assertEqual((hook.asked[0]["event"], hook.asked[0]["stream"]), ("unpublish", "live/a"))

    def test_refused(self):
        """A hook that cannot be verified denies access, and is sent nothing."""
        rows = {"name": (self.other_name, "hostname mismatch"), "issuer": (self.unknown, "unable to get local issuer certificate"),
                "expired": (self.expired, "certificate has expired")}
        for name, (certificate, reason) in rows.items():
            with self.subTest(name):
                server = self.serve(certificate, answer=hook_server.reply(200))
                daemon = self.hooked(server.url("https", "geheim"), "--tls-ca", self.ca.chain, "--tls-ca", self.expired.chain)
                self.assertFalse(self.ask(daemon))
                line = daemon.wait_log("hook query failed", hook="play", host="localhost", stream="live/a")
                self.assertEqual(reason_of(line), "TLS: " + reason)
                self.assertEqual(server.received, b"")
                self.check_secrets(daemon, "geheim")

    def test_pin_and_client_certificate(self):
        server = self.serve(self.self_signed, answer=hook_server.reply(204, b""), ca=self.ca)
        daemon = self.hooked(server.url("https", "x"), "--tls-pin", "localhost=" + self.self_signed.sha256,
                             "--tls-client-certificate", self.client.option)
        self.assertTrue(self.ask(daemon))
        self.assertTrue(server.clients[0])

    def test_an_answer_without_a_length(self):
        """It ends with close_notify, whether or not the server closes its connection."""
        daemon = self.hooked(self.serve(answer=hook_server.reply(200, b"") + b"ok", notifies=True).url("https", "x"),
                             "--tls-ca", self.ca.chain)
        self.assertTrue(self.ask(daemon))

    def test_failures(self):
        """Each has its reason; none is an answer."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        silent = listener.getsockname()[1]
        short = hook_server.reply(200, b"Content-Length: 10\r\n") + b"x"
        rows = {"refused": ("https://127.0.0.1:1/", "Connection refused"), "nowhere": ("https://no-such-host.invalid/", "no such host"),
                "silent": ("https://127.0.0.1:%d/" % silent, "timeout"),
                "stopped": (self.serve(answer=short).url("https", "x"), "timeout"),
                "ended": (self.serve(answer=short, notifies=True).url("https", "x"), "the server has ended the connection")}
        for name, (url, reason) in rows.items():
            with self.subTest(name):
                daemon = self.hooked(url, "--tls-ca", self.ca.chain, "--hook-timeout", "1")
                self.assertFalse(self.ask(daemon))
                self.assertEqual(reason_of(daemon.wait_log("hook query failed")), reason)


class ToolTest(TlsTest):
    def run_tool(self, daemon, host, *arguments):
        address = "https://%s:%d" % (host, daemon.address("admin")[1])
        done = harness.subprocess.run([SLUICECTL, "--admin", address, *arguments], stdin=harness.subprocess.DEVNULL,
                                      capture_output=True, timeout=harness.PATIENCE, text=True, check=False)
        return done.returncode, done.stdout, done.stderr.replace(address, "SERVER")

    def test_sluicectl(self):
        """It verifies the server, and sends a token to no other one."""
        token = os.path.join(self.folder(), "token")
        with open(token, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("geheim" * 4 + "\n")
        daemon = Daemon("--admin", "127.0.0.1:0,tls", "--admin", "127.0.0.1:0", "--tls-certificate", self.right.option,
                        "--admin-token-file", token, listen=LISTEN)
        self.addCleanup(daemon.process.wait)
        self.addCleanup(daemon.kill)
        more = ("--token-file", token, "--tls-ca", self.ca.chain)
        for host in ("localhost", "127.0.0.1"):
            status, out, err = self.run_tool(daemon, host, "version", *more)
            self.assertEqual((status, err, "version" in json.loads(out)), (0, "", True))
        self.assertEqual(self.run_tool(daemon, "localhost", "reload", *more)[::2], (0, ""))
        self.assertEqual(self.run_tool(daemon, "127.0.0.2", "version", *more)[:2], (3, ""))
        self.assertEqual(self.run_tool(daemon, "localhost", "version", "--tls-ca", self.ca.chain)[0], 1)
        for certificate, reason in ((self.other_name, "hostname mismatch"), (self.unknown, "unable to get local issuer certificate"),
                                    (self.self_signed, "self-signed certificate")):
            server = self.serve(certificate, answer=response(200))
            done = harness.subprocess.run([SLUICECTL, "--admin", server.url("https")[:-1], "version", *more],
                                          capture_output=True, text=True, timeout=harness.PATIENCE, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (3, "", "sluicectl: %s: TLS: %s\n" % (server.url("https")[:-1], reason)))
            self.assertEqual(server.received, b"")


class FilesTest(TlsTest):
    def test_wrong_files(self):
        """They are named, and nothing starts."""
        text = os.path.join(self.folder(), "text")
        with open(text, "w", encoding="ascii") as file:
            file.write("geheim")
        open_key = certificates.make(self.folder(), "open")
        os.chmod(open_key.key, 0o644)
        for options, said in ((("--tls-ca", text), "tls-ca: %s: no certificate in PEM" % text),
                              (("--tls-ca", "/nonexistent"), "tls-ca: /nonexistent: No such file or directory"),
                              (("--tls-ca", self.files), "tls-ca: %s: not a file" % self.files),
                              (("--tls-client-certificate", self.client.chain + "," + self.ca.key),
                               "tls-client-certificate: the key does not belong to the certificate, or one of them is too weak"),
                              (("--tls-client-certificate", text + "," + self.ca.key),
                               "tls-client-certificate: no certificate and key in PEM"),
                              (("--tls-client-certificate", open_key.option),
                               "tls-client-certificate: %s: others may read the key: chmod 640" % open_key.key)):
            for more in ((), ("--check",)):
                with self.subTest((options, more)):
                    self.assertEqual(harness.run_daemon(*options, *more), (2, "", "sluiced: %s\n" % said))


if __name__ == "__main__":
    harness.main()
