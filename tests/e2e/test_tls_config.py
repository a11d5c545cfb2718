"""TLS of the daemon's listeners, as it is configured: certificates, reloads, days until they expire, challenges of ACME."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

import certificates
import flv
import harness
import rtmp
import rtsp
from harness import Daemon

SLUICECTL = os.environ.get("SLUICECTL", os.path.join(harness.BUILD_DIR, "sluicectl"))
LISTEN = ("--http", "127.0.0.1:0,tls")


class CertificateCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.one, cls.other = (cls.make(name) for name in ("one.example", "other.example"))

    @classmethod
    def make(cls, name, file=None, **form):
        return certificates.make(cls.folder.name, name, file, **form)

    def path(self, name, text=None, mode=0o600):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, mode)
        return path

    def put(self, certificate, name="live"):
        """The certificate in the place that the daemon reads, as a deploy hook puts it there; --tls-certificate's value."""
        for source, end in ((certificate.chain, "pem"), (certificate.key, "key")):
            with open(source, encoding="ascii") as file:
                self.path("%s.%s" % (name, end), file.read())
        return "%s,%s" % (self.path(name + ".pem"), self.path(name + ".key"))

    def shown(self, daemon):
        return daemon.api("/api/v1/certificates")["certificates"]

    def context(self, certificate=None, **settings):
        """Of a client that trusts anything: which certificate it gets is what the test looks at."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(certificate.chain, certificate.key)
        for name, value in settings.items():
            setattr(context, name, value)
        return context

    def secure(self, daemon, name=None, context=None, protocol="http", session=None):
        """A connection with a TLS listener, whose handshake is done."""
        peer = (context or self.context()).wrap_socket(daemon.connect(protocol), server_hostname=name, session=session)
        self.addCleanup(peer.close)
        return peer

    def presented(self, daemon, name=None, context=None):
        """The hash of the certificate that a client gets."""
        return hashlib.sha256(self.secure(daemon, name, context).getpeercert(binary_form=True)).hexdigest()

    def get(self, peer, path="/"):
        """A request on a connection that stays: (status, body)."""
        peer.sendall(("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path).encode())
        response = http.client.HTTPResponse(peer)
        response.begin()
        return response.status, response.read()


class StartTest(CertificateCase):
    def check(self, *arguments):
        """What --check says is what a start says."""
        checked, started = (harness.run_daemon(*arguments, *more) for more in (("--check",), ()))
        self.assertEqual(checked, started)
        status, out, err = checked
        self.assertEqual((status, out), (2, ""))
        return err.splitlines()

    def test_no_certificate(self):
        for listener in (("--http", "127.0.0.1:0,tls"), ("--rtmp", "127.0.0.1:0,tls,merge-window=5"), ("--rtsp", "127.0.0.1:0,tls"),
                         ("--flv", "127.0.0.1:0,tls=live/a"), ("--admin", "127.0.0.1:0,tls")):
            with self.subTest(listener):
                self.assertEqual(self.check(*listener), [
                    "sluiced: %s: expected a certificate (tls-certificate) for a TLS listener" % listener[0]])

    def test_wrong_files(self):
        one, other = self.one, self.other
        text = self.path("text.pem", "no certificate\n")
        shown, small = self.make("shown.example"), self.make("small.example", rsa=1024)
        os.chmod(shown.key, 0o644)
        locked = self.path("locked.key", certificates.openssl("pkey", "-in", one.key, "-aes256", "-passout", "pass:x").decode())
        for value, expected in (
                ("%s,%s" % (one.chain, other.key), "the key does not belong to the certificate, or one of them is too weak, got"),
                (one.chain + ",/nowhere/key", "/nowhere/key: No such file or directory"),
                ("/nowhere/pem," + one.key, "/nowhere/pem: No such file or directory"),
                ("%s,%s" % (text, one.key), "no certificate and key in PEM, got"),
                ("%s,%s" % (one.chain, locked), "permission denied, or the key has a password, got"),
                (small.option, "the key does not belong to the certificate, or one of them is too weak, got"),
                (shown.option, shown.key + ": others may read the key: chmod 640")):
            with self.subTest(value):
                line, = self.check(*LISTEN, "--tls-certificate", value)
                self.assertTrue(line.startswith("sluiced: --tls-certificate: " + expected), line)
        # All of them at once, each with its line.
        config = self.path("two.conf", 'http = "127.0.0.1:0,tls";\ntls-certificate = ["%s,%s",\n"x=%s,/nowhere/x"];\n' % (
            one.chain, other.key, one.chain))
        first, second = self.check("--config", config)
        self.assertTrue(first.startswith("sluiced: %s:2: tls-certificate: the key does not" % config), first)
        self.assertEqual(second, "sluiced: %s:3: tls-certificate: /nowhere/x: No such file or directory" % config)

    def test_twice(self):
        line, = self.check(*LISTEN, "--tls-certificate", "a=" + self.one.option, "--tls-certificate", "a=" + self.other.option)
        self.assertIn("a second certificate of this key type for the name", line)

    def test_client_ca(self):
        text = self.path("text.pem", "no certificate\n")
        for value, expected in ((text, "no certificate in PEM"), ("/nowhere/ca", "No such file or directory")):
            self.assertEqual(self.check(*LISTEN, "--tls-certificate", self.one.option, "--tls-client-ca", value),
                             ["sluiced: tls-client-ca: %s: %s" % (value, expected)])

    def test_forms(self):
        """What the setting takes, and what it does not."""
        for value in ("a", "a,", ",a", "a,b,c", "name=a", "", "name=a,b,c"):
            with self.subTest(value):
                line, = self.check("--tls-certificate", value)
                self.assertTrue(line.startswith("sluiced: --tls-certificate: expected [NAME=]CHAIN,KEY: files in PEM, got"), line)
        for value in ("=a,b", ".a=a,b", "a b=a,b", "*=a,b", "*.=a,b", "a.*=a,b", "x" * 260 + "=a,b"):
            with self.subTest(value):
                line, = self.check("--tls-certificate", value)
                self.assertIn("expected a server's name such as example.org or *.example.org before", line)
        for value, expected in (("127.0.0.1:0,tsl", '"tls" or "merge-window=MS" behind ","'), ("127.0.0.1:0,", '"tls" or'),
                                ("127.0.0.1:0,tls,", '"tls" or'), ("127.0.0.1:0,tls=", '"tls" or')):
            line, = self.check("--rtmp", value)
            self.assertIn("--rtmp: expected " + expected, line)
        line, = self.check("--flv", "127.0.0.1:0,merge-window=5=live/a")
        self.assertIn('--flv: expected "tls" behind ","', line)
        self.assertIn("--admin: expected ADDR:PORT", self.check("--admin", "127.0.0.1:0,tlsx")[0])

    def test_shown(self):
        """--print-config, and what it says is accepted again."""
        listeners = ("--flv", "127.0.0.1:1,tls=live/a", "--http", "127.0.0.1:2,tls,merge-window=100", "--http", "[::1]:3,tls",
                     "--rtmp", "127.0.0.1:4,merge-window=auto,tls", "--rtsp", "127.0.0.1:5", "--admin", "127.0.0.1:6,tls")
        names = ("--tls-certificate", self.one.option, "--tls-certificate", "*.other.example=" + self.other.option)
        status, out, err = harness.run_daemon(*listeners, *names, "--print-config")
        self.assertEqual((status, err), (0, ""))
        for line in ('flv = ["127.0.0.1:1,tls=live/a"]', 'http = ["127.0.0.1:2,tls,merge-window=100", "[::1]:3,tls"]',
                     'rtmp = ["127.0.0.1:4,tls,merge-window=auto"]', 'rtsp = ["127.0.0.1:5"]', 'admin = ["127.0.0.1:6,tls"]',
                     'tls-certificate = ["%s", "*.other.example=%s"]' % (self.one.option, self.other.option), 'tls-min = "1.2"'):
            self.assertIn(line + "; # the command line" if "tls-min" not in line else line, out)
        config = self.path("shown.conf", out)
        self.assertEqual(harness.run_daemon("--config", config, "--check"), (0, "OK\n", ""))

    def test_rule(self):
        """A rule that names client certificates needs issuers."""
        line, = self.check("--rule", "play * cert=wall")
        self.assertIn("expected issuers of client certificates (tls-client-ca)", line)
        self.assertEqual(harness.run_daemon("--rule", "play * cert=wall", "--tls-client-ca", self.one.chain, "--check"),
                         (0, "OK\n", ""))


class ReloadCase(CertificateCase):
    def start(self, *options):
        self.config = self.path("sluiced.conf", "")
        self.write()
        daemon = Daemon("--config", self.config, *options, listen=())
        self.addCleanup(daemon.stop)
        return daemon

    def write(self, listen='http = "127.0.0.1:0,tls";', more=""):
        self.path("sluiced.conf", '%s\ntls-certificate = "%s,%s";\n%s\n' % (
            listen, self.path("live.pem"), self.path("live.key"), more))

    def reload(self, daemon):
        status, _, body = daemon.admin("POST", "/api/v1/reload")
        return status, json.loads(body)


class ReloadTest(ReloadCase):
    """What the daemon says of a reload."""

    def test_another(self):
        """A reload reads the files again, by the API and by SIGHUP."""
        self.put(self.one)
        daemon = self.start()
        line, = daemon.log("certificate loaded")
        self.assertEqual((line.level, line.fields["subject"], line.fields["hash"]), ("info", "CN=one.example", self.one.sha256))
        self.assertEqual([one["sha256"] for one in self.shown(daemon)], [self.one.sha256])
        self.put(self.other)
        self.assertEqual(self.reload(daemon), (200, {"changes": []}))
        self.assertEqual(daemon.wait_log("certificate loaded", 2).fields["hash"], self.other.sha256)
        self.assertEqual([one["sha256"] for one in self.shown(daemon)], [self.other.sha256])
        self.put(self.one)
        daemon.process.send_signal(signal.SIGHUP)
        self.assertEqual(daemon.wait_log("certificate loaded", 3).fields["hash"], self.one.sha256)
        # What is the same is not said again.
        self.assertEqual(self.reload(daemon), (200, {"changes": []}))
        self.assertEqual(len(daemon.log("certificate loaded")), 3)

    def test_wrong(self):
        """A pair that does not fit, or is not there: everything stays as it is, and one line says why."""
        self.put(self.one)
        daemon = self.start()
        for damage, expected in ((lambda: self.path("live.key", open(self.other.key, encoding="ascii").read()),
                                  "the key does not belong to the certificate"),
                                 (lambda: os.remove(self.path("live.pem")), "live.pem: No such file or directory"),
                                 (lambda: self.path("live.pem", ""), "no certificate and key in PEM")):
            with self.subTest(expected):
                damage()
                self.write(more="idle = 99;")
                count = len(daemon.log("configuration refused"))
                status, problem = self.reload(daemon)
                self.assertEqual(status, 422)
                self.assertIn("%s:2: tls-certificate: " % self.config, problem["detail"])
                self.assertIn(expected, problem["detail"])
                line = daemon.wait_log("configuration refused", count + 1)
                self.assertEqual((line.level, len(daemon.log("configuration refused"))), ("error", count + 1))
                self.assertIn(expected, line.fields["error"])
                self.assertEqual([one["sha256"] for one in self.shown(daemon)], [self.one.sha256])
                self.assertEqual(daemon.api("/api/v1/config")["settings"]["idle"], 15)
        self.put(self.other)
        self.assertEqual(self.reload(daemon)[0], 200)
        self.assertEqual([one["sha256"] for one in self.shown(daemon)], [self.other.sha256])
        self.assertEqual(daemon.api("/api/v1/config")["settings"]["idle"], 99)

    def test_listener(self):
        """The same address with and without TLS; and without any, no certificate is needed."""
        with socket.create_server((harness.own_host(), 0)) as server:
            place = "%s:%d" % server.getsockname()
        self.put(self.one)
        self.write('http = "%s,tls";' % place)
        daemon = Daemon("--config", self.path("sluiced.conf"), listen=())
        self.addCleanup(daemon.stop)
        def listeners():
            return [(one["address"], one["tls"]) for one in daemon.api("/api/v1/config")["listeners"]]
        self.assertEqual(listeners(), [(place, True)])
        daemon.check_log(1, "listening", address=place, tls="yes")
        self.path("sluiced.conf", 'http = "%s";' % place)
        self.assertEqual(self.reload(daemon)[0], 200)
        self.assertEqual((listeners(), self.shown(daemon)), ([(place, False)], []))
        daemon.check_log(2, "listening", address=place)
        self.assertEqual(daemon.request("GET", "/")[0], 404)
        self.write('http = "%s,tls";' % place)
        self.assertEqual(self.reload(daemon)[0], 200)
        self.assertEqual(listeners(), [(place, True)])
        daemon.check_log(2, "listening", address=place, tls="yes")
        # A port of the system's choice is for one of both.
        ports = []
        for listen in ("127.0.0.1:0", "127.0.0.1:0,tls"):
            self.write('http = "%s";' % listen)
            self.assertEqual(self.reload(daemon)[0], 200)
            ports.append(listeners()[0])
        self.assertEqual([tls for _, tls in ports], [False, True])
        self.assertNotEqual(ports[0][0], ports[1][0])


class InheritedTest(CertificateCase):
    """Sockets of a service manager."""

    def given(self, name, *options):
        """The port of a daemon that is given one socket of that name, and asked by TLS."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            os.set_inheritable(server.fileno(), True)
            place = server.getsockname()
            shell = 'exec 3<&%d; LISTEN_FDS=1 LISTEN_FDNAMES=%s LISTEN_PID=$$ exec "$@"' % (server.fileno(), name)
            with Daemon("--tls-certificate", self.one.option, *(option % place[1] if "%d" in option else option for option in options),
                        listen=(), pass_fds=(server.fileno(),), within=("sh", "-c", shell, "sh")) as daemon:
                self.assertEqual([(one["address"], one["tls"]) for one in daemon.api("/api/v1/config")["listeners"]],
                                 [("%s:%d" % place, True)])
                self.assertEqual(self.presented(daemon), self.one.sha256)

    def test_by_name(self):
        self.given("http,tls")

    def test_by_address(self):
        """Where the configuration has a listener of that address, the name does not count."""
        for name in ("x", "http", "rtsp,tls"):
            self.given(name, "--http", "127.0.0.1:%d,tls")


class HookTest(ReloadCase):
    """The deploy hook for ACME's clients."""

    HOOK = os.path.join(harness.SOURCE_DIR, "packaging", "acme", "deploy-hook")

    def run_hook(self, daemon, **environment):
        bin_folder = os.path.join(self.folder.name, "bin")
        os.makedirs(bin_folder, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(SLUICECTL, os.path.join(bin_folder, "sluicectl"))
        return subprocess.run([self.HOOK], capture_output=True, timeout=harness.PATIENCE, check=False, env=dict(
            os.environ, PATH=bin_folder + ":" + os.environ["PATH"], SLUICE_TLS_DIR=self.folder.name, SLUICE_TLS_GROUP=str(os.getgid()),
            SLUICED_ADMIN="127.0.0.1:%d" % daemon.address("admin")[1], **environment))

    def test_clients(self):
        """certbot's environment, and lego's; and none."""
        self.put(self.one)
        daemon = self.start()
        lineage = os.path.join(self.folder.name, "archive", "live")
        os.makedirs(lineage)
        for source, name in ((self.other.chain, "fullchain.pem"), (self.other.key, "privkey.pem")):
            os.symlink(source, os.path.join(lineage, name))
        done = self.run_hook(daemon, RENEWED_LINEAGE=lineage)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.presented(daemon), self.other.sha256)
        self.assertEqual(os.stat(self.path("live.key")).st_mode & 0o777, 0o640)
        self.assertFalse(os.path.islink(self.path("live.pem")))
        done = self.run_hook(daemon, LEGO_CERT_DOMAIN="live", LEGO_CERT_PATH=self.one.chain, LEGO_CERT_KEY_PATH=self.one.key)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.presented(daemon), self.one.sha256)
        # One that does not fit is an error, and changes nothing.
        done = self.run_hook(daemon, LEGO_CERT_DOMAIN="live", LEGO_CERT_PATH=self.other.chain, LEGO_CERT_KEY_PATH=self.one.key)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"the key does not belong to the certificate", done.stderr)
        self.assertEqual(self.presented(daemon), self.one.sha256)
        self.assertEqual(self.run_hook(daemon).returncode, 2)


class ServeTest(CertificateCase):
    """Which certificate, version and protocol a client gets."""

    def start(self, *options):
        daemon = Daemon(*options, listen=LISTEN)
        self.addCleanup(daemon.stop)
        return daemon

    def test_names(self):
        """SNI selects: by the names in a certificate, or by the name that the setting has."""
        both = self.make("both.example", names="DNS:both.example,DNS:*.both.example,IP:127.0.0.1")
        daemon = self.start("--tls-certificate", self.one.option, "--tls-certificate", "other.example=" + self.other.option,
                            "--tls-certificate", "*.wild.example=" + self.other.option, "--tls-certificate", both.option)
        for name, expected in (("one.example", self.one), ("other.example", self.other), ("OTHER.example", self.other),
                               ("a.wild.example", self.other), ("wild.example", self.one), ("a.b.wild.example", self.one),
                               ("both.example", both), ("x.both.example", both), ("unknown.example", self.one), (None, self.one)):
            with self.subTest(name):
                self.assertEqual(self.presented(daemon, name), expected.sha256)

    def test_key_types(self):
        """A name may have a certificate of each type: the client's abilities select."""
        rsa = self.make("one.example", "rsa", rsa=2048)
        daemon = self.start("--tls-certificate", "one.example=" + self.one.option, "--tls-certificate", "one.example=" + rsa.option)
        for authentication, expected in (("ECDSA", self.one), ("RSA", rsa)):
            context = self.context(maximum_version=ssl.TLSVersion.TLSv1_2)
            context.set_ciphers("a" + authentication)
            self.assertEqual(self.presented(daemon, "one.example", context), expected.sha256)

    def test_openssl(self):
        """s_client verifies the chain, with intermediates, and the name."""
        root = self.make("root", is_ca=True)
        middle = self.make("middle", is_ca=True, issuer=root)
        leaf = self.make("leaf.example", issuer=middle)
        with open(leaf.chain, "a", encoding="ascii") as file, open(middle.chain, encoding="ascii") as more:
            file.write(more.read())
        daemon = self.start("--tls-certificate", leaf.option)
        for version in ("-tls1_2", "-tls1_3"):
            done = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % daemon.address("http"), "-servername", "leaf.example",
                                   "-verify_return_error", "-verify_hostname", "leaf.example", "-CAfile", root.chain, version, "-brief"],
                                  input=b"", capture_output=True, timeout=harness.PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"Verification: OK", done.stderr)

    def test_obs(self):
        """The configuration for OBS names an RTMP listener with TLS as one."""
        daemon = Daemon("--tls-certificate", self.one.option, listen=(*LISTEN, "--rtmp", "127.0.0.1:0,tls"))
        self.addCleanup(daemon.stop)
        status, body = self.get(self.secure(daemon), "/obs/live/a")
        self.assertEqual(status, 200)
        self.assertRegex(body.decode(), r'"rtmps://127\.0\.0\.1:\d+/live')

    def test_versions(self):
        for least, refused in (("1.2", (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)), ("1.3", (ssl.TLSVersion.TLSv1_2,))):
            daemon = self.start("--tls-certificate", self.one.option, "--tls-min", least)
            self.assertEqual(self.secure(daemon).version(), "TLSv1.3")
            for version in refused:
                context = self.context(minimum_version=version, maximum_version=version)
                context.set_ciphers("DEFAULT@SECLEVEL=0")
                with self.assertRaises(ssl.SSLError):
                    self.secure(daemon, context=context)
            if least == "1.2":
                peer = self.secure(daemon, context=self.context(maximum_version=ssl.TLSVersion.TLSv1_2))
                self.assertEqual(peer.version(), "TLSv1.2")

    def test_ciphers(self):
        """Of all that OpenSSL has, these are accepted: the list of sluiced(8)."""
        with open(os.path.join(harness.SOURCE_DIR, "src", "man", "sluiced.8"), encoding="ascii") as file:
            text = file.read()
        listed = set(re.findall(r"\b(?:TLS_[A-Z0-9_]+|ECDHE(?:-[A-Z0-9]+)+)\b", text.replace("\\-", "-")))
        rsa = self.make("rsa.example", rsa=2048)
        daemon = self.start("--tls-certificate", "x=" + self.one.option, "--tls-certificate", "x=" + rsa.option)
        accepted = set()
        everything = self.context()
        everything.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
        for cipher in everything.get_ciphers():
            context = self.context(maximum_version=ssl.TLSVersion.TLSv1_2)
            with contextlib.suppress(ssl.SSLError):
                context.set_ciphers(cipher["name"] + ":@SECLEVEL=0")
                accepted.add(self.secure(daemon, "x", context).cipher()[0])
        for suite in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256", "AES_128_CCM_SHA256",
                      "AES_128_CCM_8_SHA256"):
            done = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % daemon.address("http"), "-ciphersuites", "TLS_" + suite,
                                   "-tls1_3", "-brief"], input=b"", capture_output=True, timeout=harness.PATIENCE, check=False)
            if done.returncode == 0:
                accepted.add("TLS_" + suite)
        self.assertEqual(accepted, listed)

    def test_alpn(self):
        """Browsers offer HTTP/2 as well; who offers that alone, is rejected."""
        daemon = self.start("--tls-certificate", self.one.option)
        for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None)):
            context = self.context()
            if offered:
                context.set_alpn_protocols(offered)
            peer = self.secure(daemon, context=context)
            self.assertEqual(peer.selected_alpn_protocol(), chosen)
            self.assertEqual(self.get(peer)[0], 404)
        context = self.context()
        context.set_alpn_protocols(["h2"])
        with self.assertRaisesRegex(ssl.SSLError, "(?i)alert no application protocol|no_application_protocol"):
            self.secure(daemon, context=context)


class RenewTest(ReloadCase):
    """What connections see of a reload."""

    def play(self, daemon):
        """A player by HTTPS, before its publisher."""
        peer = self.secure(daemon)
        peer.sendall(b"GET /live/a.flv HTTP/1.1\r\nHost: x\r\n\r\n")
        daemon.wait_player("live/a")
        return peer

    def publish(self, daemon):
        peer = self.secure(daemon)
        peer.sendall(b"POST /live/a.flv HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        return peer

    def test_running(self):
        """New connections get the new certificate; publisher and player go on with what they have."""
        self.put(self.one)
        daemon = self.start("--wait", "60")
        data, tags = flv.stream(40)
        player, publisher = self.play(daemon), self.publish(daemon)
        publisher.sendall(b"%x\r\n%s\r\n" % (len(data), data))
        status, _, rest = harness.read_head(player)
        self.assertEqual(status, 200)
        chunks, parser = harness.Dechunker(), flv.Parser()
        got = parser.feed(chunks.feed(rest))
        sent = list(tags)
        more = [tag for tag in tags if tag.is_frame]
        for certificate in (self.other, self.one):
            self.put(certificate)
            self.assertEqual(self.reload(daemon)[0], 200)
            self.assertEqual(self.presented(daemon), certificate.sha256)
            more = [tag._replace(timestamp=tag.timestamp + 1600) for tag in more]
            sent += more
            data = b"".join(tag.pack() for tag in more)
            publisher.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            while len(got) < len(sent):
                data = player.recv(65536)
                self.assertTrue(data, "the player goes on")
                got += parser.feed(chunks.feed(data))
            harness.check_same([tag.payload for tag in got], [tag.payload for tag in sent])
        publisher.sendall(b"0\r\n\r\n")
        self.assertEqual(harness.read_head(publisher)[0], 200)

    def test_kept(self):
        """After a reload that is rejected, new connections get the old certificate."""
        self.put(self.one)
        daemon = self.start()
        with open(self.other.key, encoding="ascii") as file:
            self.path("live.key", file.read())
        daemon.process.send_signal(signal.SIGHUP)
        line = daemon.wait_log("configuration refused")
        self.assertIn("the key does not belong to the certificate", line.fields["error"])
        self.assertEqual(self.presented(daemon), self.one.sha256)
        self.put(self.other)
        self.assertEqual(self.reload(daemon)[0], 200)
        self.assertEqual(self.presented(daemon), self.other.sha256)

    def test_tickets(self):
        """A ticket from before the reload is accepted after it; in front of another rule for clients, it is not."""
        self.put(self.one)
        daemon = self.start()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(maximum_version=version)
            peer = self.secure(daemon, context=context)
            self.get(peer)
            session = peer.session
            self.assertTrue(session.has_ticket)
            self.put(self.other)
            self.assertEqual(self.reload(daemon)[0], 200)
            self.assertTrue(self.secure(daemon, context=context, session=session).session_reused)
            self.write(more='tls-client-ca = "%s";' % self.one.chain)
            self.assertEqual(self.reload(daemon)[0], 200)
            self.assertFalse(self.secure(daemon, context=context, session=session).session_reused)
            self.write()
            self.assertEqual(self.reload(daemon)[0], 200)

    def test_listener(self):
        """The same port by TLS and without, by turns."""
        with socket.create_server((harness.own_host(), 0)) as server:
            place = "%s:%d" % server.getsockname()
        self.put(self.one)
        self.write('http = "%s,tls";' % place)
        daemon = Daemon("--config", self.path("sluiced.conf"), listen=())
        self.addCleanup(daemon.stop)
        for _ in range(2):
            self.assertEqual(self.get(self.secure(daemon))[0], 404)
            self.write('http = "%s";' % place)
            self.assertEqual(self.reload(daemon)[0], 200)
            with daemon.connect() as peer:
                self.assertEqual(self.get(peer)[0], 404)
            self.write('http = "%s,tls";' % place)
            self.assertEqual(self.reload(daemon)[0], 200)

    def test_admin(self):
        """The administration's certificate changes with the others."""
        self.put(self.one)
        self.write()
        with open(os.path.join(self.folder.name, "sluiced.conf"), "a", encoding="ascii") as file:
            file.write('admin = ["127.0.0.1:0", "127.0.0.1:0,tls"];\n')
        daemon = Daemon("--config", self.path("sluiced.conf"), "--admin", "127.0.0.1:0", "--admin", "127.0.0.1:0,tls", listen=())
        self.addCleanup(daemon.stop)
        place = [line.fields["address"] for line in daemon.log("listening", proto="admin")][1]
        def ask():
            with socket.create_connection(("127.0.0.1", int(place.rpartition(":")[2])), harness.PATIENCE) as plain, \
                    self.context().wrap_socket(plain) as peer:
                status, body = self.get(peer, "/api/v1/certificates")
                return hashlib.sha256(peer.getpeercert(binary_form=True)).hexdigest(), status, json.loads(body)["certificates"][0]["sha256"]
        self.assertEqual(ask(), (self.one.sha256, 200, self.one.sha256))
        self.put(self.other)
        self.assertEqual(self.reload(daemon)[0], 200)
        self.assertEqual(ask(), (self.other.sha256, 200, self.other.sha256))

    def test_admin_needs_one(self):
        """The administration's listeners stay until a restart, so a certificate has to."""
        self.put(self.one)
        self.write('http = "127.0.0.1:0";', 'admin = ["127.0.0.1:0", "127.0.0.1:0,tls"];')
        self.config = self.path("sluiced.conf")
        daemon = Daemon("--config", self.config, "--admin", "127.0.0.1:0", "--admin", "127.0.0.1:0,tls", listen=())
        self.addCleanup(daemon.stop)
        self.path("sluiced.conf", 'http = "127.0.0.1:0";')
        status, problem = self.reload(daemon)
        self.assertEqual((status, problem["detail"]),
                         (422, "--admin: expected a certificate (tls-certificate) for a TLS listener\n"))
        self.assertEqual(len(self.shown(daemon)), 1)

    def test_versions(self):
        """The lowest version is that of new connections."""
        self.put(self.one)
        daemon = self.start()
        old = self.context(maximum_version=ssl.TLSVersion.TLSv1_2)
        peer = self.secure(daemon, context=old)
        self.write(more='tls-min = "1.3";')
        self.assertEqual(self.reload(daemon), (200, {"changes": ['tls-min: "1.2" -> "1.3" (for those who come)']}))
        with self.assertRaises(ssl.SSLError):
            self.secure(daemon, context=old)
        self.assertEqual(self.secure(daemon).version(), "TLSv1.3")
        self.assertEqual(self.get(peer)[0], 404)


class ClientTest(CertificateCase):
    """Rules that name client certificates."""

    RULES = ("--rule", "publish live/* cert=cam7", "--rule", "play live/* cert=cam7,cert=wall,user", "--rule", "all open/* allow")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.issuer = cls.make("issuer", is_ca=True)
        cls.cam, cls.wall, cls.eve = (cls.make(name, issuer=cls.issuer) for name in ("cam7", "wall", "eve"))
        cls.stranger = cls.make("cam7", "stranger")

    def start(self, listen=LISTEN, *options):
        users = self.path("users", "ann:secret\n")
        daemon = Daemon("--tls-certificate", self.one.option, "--tls-client-ca", self.issuer.chain, "--rtsp-users", users, *self.RULES,
                        "--wait", "0", *options, listen=listen)
        self.addCleanup(daemon.stop)
        return daemon

    def status(self, daemon, certificate, path, method="GET", headers=""):
        peer = self.secure(daemon, context=self.context(certificate))
        peer.sendall(("%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (method, path, headers)).encode())
        return harness.read_head(peer)[0]

    def test_http(self):
        daemon = self.start()
        # The stream is not there, for those who may know.
        for certificate, expected in ((self.cam, 404), (self.wall, 404), (self.eve, 401), (None, 401)):
            self.assertEqual(self.status(daemon, certificate, "/live/a.flv"), expected)
        self.assertEqual(self.status(daemon, None, "/live/a.flv", headers="Authorization: Basic YW5uOnNlY3JldA==\r\n"), 404)
        self.assertEqual(self.status(daemon, None, "/open/a.flv"), 404)
        post = "Content-Length: 0\r\n"
        for certificate in (self.wall, self.eve, None):
            self.assertEqual(self.status(daemon, certificate, "/live/a.flv", "POST", post), 403)
        self.assertEqual(self.status(daemon, self.cam, "/other/a.flv"), 403)
        self.assertNotIn(self.status(daemon, self.cam, "/live/a.flv", "POST", post), (401, 403))

    def test_not_verified(self):
        """A certificate of the right name and of another issuer, of none, or that has expired: no connection."""
        daemon = self.start()
        for certificate in (self.stranger, self.one, certificates.make_expired(self.folder.name, "cam7", self.issuer)):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with self.assertRaises((ssl.SSLError, ConnectionError)):
                    peer = self.secure(daemon, context=self.context(certificate, maximum_version=version))
                    peer.sendall(b"GET /open/a.flv HTTP/1.1\r\nHost: x\r\n\r\n")
                    # With TLS 1.3 it is the first read that says so.
                    if not peer.recv(1):
                        raise ConnectionError("closed")

    def test_resumed(self):
        """A ticket stands for the certificate that was verified."""
        daemon = self.start()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(self.cam, maximum_version=version)
            peer = self.secure(daemon, context=context)
            self.assertEqual(self.get(peer, "/live/a.flv")[0], 404)
            again = self.secure(daemon, context=context, session=peer.session)
            self.assertTrue(again.session_reused)
            self.assertEqual(self.get(again, "/live/a.flv")[0], 404)

    def test_plain(self):
        """Without TLS there is no certificate."""
        daemon = self.start(("--http", "127.0.0.1:0"))
        self.assertEqual(daemon.request("GET", "/live/a.flv")[0], 401)
        self.assertEqual(daemon.request("POST", "/live/a.flv", b"")[0], 403)

    @contextlib.contextmanager
    def by(self, daemon, certificate):
        """Clients by hand connect by TLS, with that certificate."""
        plain = daemon.connect
        def connect(*arguments, **more):
            return self.context(certificate).wrap_socket(plain(*arguments, **more))
        daemon.connect = connect
        try:
            yield
        finally:
            daemon.connect = plain

    def test_rtsp(self):
        daemon = self.start(("--rtsp", "127.0.0.1:0,tls"))
        for certificate, expected in ((self.cam, 404), (self.wall, 404), (self.eve, 401), (None, 401)):
            with self.by(daemon, certificate), rtsp.Client(daemon, "live/a") as client:
                self.assertEqual(client.ask("DESCRIBE")[0], expected)
        for certificate, expected in ((self.cam, 200), (self.wall, 403), (None, 403)):
            with self.by(daemon, certificate), rtsp.Client(daemon, "live/a") as client:
                self.assertEqual(client.ask("ANNOUNCE", body=rtsp.SDP)[0], expected)

    def test_rtmp(self):
        daemon = self.start(("--rtmp", "127.0.0.1:0,tls"))
        for certificate, expected in ((self.cam, True), (self.wall, False), (None, False)):
            with self.by(daemon, certificate), rtmp.Client(daemon) as client:
                self.assertEqual(client.begin("publish", "a")["code"] == "NetStream.Publish.Start", expected, certificate)

    def test_flv(self):
        """Raw FLV has no other credentials."""
        data, _ = flv.stream(20)
        daemon = self.start(("--flv", "127.0.0.1:0,tls=live/a"))
        for certificate in (self.wall, None):
            peer = self.secure(daemon, context=self.context(certificate), protocol="flv")
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                peer.sendall(data)
                self.assertEqual(harness.read_to_end(peer), b"")
            self.assertIsNone(daemon.stream("live/a"))
        peer = self.secure(daemon, context=self.context(self.cam), protocol="flv")
        peer.sendall(data)
        daemon.wait_stream("live/a")

    def test_reload(self):
        """Another rule holds for new requests."""
        config = self.path("rules.conf", 'rule = "play live/* cert=cam7";\n')
        daemon = Daemon("--config", config, "--tls-certificate", self.one.option, "--tls-client-ca", self.issuer.chain, "--wait", "0",
                        listen=LISTEN)
        self.addCleanup(daemon.stop)
        self.assertEqual([self.status(daemon, one, "/live/a.flv") for one in (self.cam, self.wall)], [404, 403])
        self.path("rules.conf", 'rule = "play live/* cert=wall";\n')
        self.assertEqual(daemon.admin("POST", "/api/v1/reload")[0], 200)
        self.assertEqual([self.status(daemon, one, "/live/a.flv") for one in (self.cam, self.wall)], [403, 404])


class ExpiryTest(CertificateCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A second later it is a day less.
        cls.soon, cls.later = cls.make("soon.example", days=21), cls.make("later.example", days=40)
        cls.expired = certificates.make_expired(cls.folder.name, "expired.example")

    def start(self):
        daemon = Daemon(*LISTEN, "--tls-certificate", self.soon.option, "--tls-certificate", "later.example=" + self.later.option,
                        "--tls-certificate", "*.expired.example=" + self.expired.option, listen=())
        self.addCleanup(daemon.stop)
        return daemon

    def test_log(self):
        daemon = self.start()
        soon, later, _ = daemon.log("certificate loaded")
        self.assertEqual((soon.fields["name"], later.fields["name"]), ("", "later.example"))
        self.assertIn(soon.fields["days"], ("20", "21"))
        self.assertIn(later.fields["days"], ("39", "40"))
        soon, expired = daemon.complaints()
        self.assertEqual((soon.level, soon.message, soon.fields["subject"]),
                         ("warning", "certificate expires soon", "CN=soon.example"))
        self.assertEqual((expired.level, expired.message, expired.fields["name"], expired.fields["expires"]),
                         ("warning", "certificate expired", "*.expired.example", "2020-01-31T00:00:00Z"))
        # A reload of the same says it again, since nothing has been done about it.
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        self.assertEqual(len(daemon.complaints()), 4)
        self.assertEqual(len(daemon.log("certificate loaded")), 3)

    def test_api(self):
        soon, later, expired = self.shown(self.start())
        self.assertEqual((soon["name"], soon["subject"], soon["state"], soon["sha256"]),
                         (None, "CN=soon.example", "expiring", self.soon.sha256))
        self.assertIn(soon["days"], (20, 21))
        self.assertEqual((later["name"], later["state"]), ("later.example", "valid"))
        self.assertEqual((expired["name"], expired["expires"], expired["state"]),
                         ("*.expired.example", "2020-01-31T00:00:00Z", "expired"))
        self.assertLess(expired["days"], -2000)
        text = certificates.openssl("x509", "-in", self.soon.chain, "-noout", "-enddate", "-dateopt", "iso_8601").decode()
        self.assertEqual("notAfter=%s\n" % soon["expires"].replace("T", " "), text)

    def test_metrics(self):
        text = self.start().admin("GET", "/metrics")[2].decode()
        values = re.findall(r'^sluice_certificate_expiry_days\{number="(\d)",name="(.*)",subject="(.*)"\} (\S+)$', text, re.MULTILINE)
        self.assertEqual([value[:3] for value in values], [
            ("0", "", "CN=soon.example"), ("1", "later.example", "CN=later.example"), ("2", "*.expired.example", "CN=expired.example")])
        self.assertAlmostEqual(float(values[0][3]), 21, delta=0.1)
        self.assertLess(float(values[2][3]), -2000)

    def test_sluicectl(self):
        daemon = self.start()
        def ctl(command):
            return subprocess.run([SLUICECTL, "--admin", "127.0.0.1:%d" % daemon.address("admin")[1], command], capture_output=True,
                                  timeout=harness.PATIENCE, check=True).stdout.decode().splitlines()
        _, soon, later, expired = (line.split() for line in ctl("certificates"))
        self.assertEqual((soon[:2], soon[-1]), (["-", "expiring"], "CN=soon.example"))
        self.assertEqual(later[:2], ["later.example", "valid"])
        self.assertEqual(expired[:2], ["*.expired.example", "expired"])
        self.assertEqual([re.sub(r"2[01]", "N", line) for line in ctl("status") if line.startswith("warning")],
                         ["warning   certificate of CN=soon.example expires in N days",
                          "warning   certificate of *.expired.example has expired"])

    def test_no_keys(self):
        """Nothing that is shown or logged is a key."""
        daemon = self.start()
        said = "\n".join(line.text for line in daemon.log())
        for path in ("/api/v1/certificates", "/api/v1/snapshot", "/api/v1/config", "/metrics"):
            said += daemon.admin("GET", path)[2].decode()
        for certificate in (self.soon, self.later, self.expired):
            with open(certificate.key, encoding="ascii") as file:
                for line in file.read().splitlines()[1:-1]:
                    self.assertNotIn(line, said)


class AcmeTest(CertificateCase):
    TOKEN = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"

    def start(self, *options, listen=("--http", "127.0.0.1:0")):
        root = os.path.join(self.folder.name, "acme")
        self.challenges = os.path.join(root, ".well-known", "acme-challenge")
        os.makedirs(self.challenges, exist_ok=True)
        daemon = Daemon("--acme-root", root, *options, listen=listen)
        self.addCleanup(daemon.stop)
        return daemon

    def challenge(self, token, text):
        with open(os.path.join(self.challenges, token), "w", encoding="ascii") as file:
            file.write(text)

    def get(self, daemon, token, method="GET"):
        status, headers, body = daemon.request(method, "/.well-known/acme-challenge/" + token)
        return status, body

    def test_challenge(self):
        # Rules are for streams.
        daemon = self.start("--rule", "all * deny")
        text = self.TOKEN + ".9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"
        self.assertEqual(self.get(daemon, self.TOKEN)[0], 404)
        self.challenge(self.TOKEN, text)
        self.assertEqual(self.get(daemon, self.TOKEN), (200, text.encode()))
        self.assertEqual(self.get(daemon, self.TOKEN, "POST")[0], 405)
        os.remove(os.path.join(self.challenges, self.TOKEN))
        self.assertEqual(self.get(daemon, self.TOKEN)[0], 404)
        daemon.blocks_settled()

    def test_one_connection(self):
        """Many on one connection, those that are not there as well, sent at once."""
        daemon = self.start()
        self.challenge("a", "1")
        self.challenge("b", "")
        with daemon.connect() as peer:
            for token in "abcab":
                peer.sendall(("GET /.well-known/acme-challenge/%s HTTP/1.1\r\nHost: x\r\n\r\n" % token).encode())
            peer.shutdown(socket.SHUT_WR)
            answers = harness.read_to_end(peer)
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", answers)[:1], [b"200"])
        connection = daemon.connection()
        self.addCleanup(connection.close)
        for token, expected in (("a", (200, b"1")), ("c", (404, b"no such challenge\n")), ("b", (200, b"")), ("a", (200, b"1"))):
            connection.request("GET", "/.well-known/acme-challenge/" + token)
            response = connection.getresponse()
            self.assertEqual((response.status, response.read()), expected)

    def test_bounds(self):
        """Nothing else is served: no other folders, no links, no large files, no long names."""
        daemon = self.start()
        secret = self.path("secret", "secret")
        os.symlink(secret, os.path.join(self.challenges, "link"))
        os.mkdir(os.path.join(self.challenges, "folder"))
        os.mkfifo(os.path.join(self.challenges, "fifo"))
        self.challenge("x.y", "secret")
        self.challenge("large", "s" * 1025)
        self.challenge("most", "s" * 1024)
        self.assertEqual(self.get(daemon, "most"), (200, b"s" * 1024))
        for token in ("link", "folder", "fifo", "x.y", "..", "../acme-challenge/most", "%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret", "folder/",
                      "", "most/", "mo%73t", "m" * 129, "m\0st", "most%00"):
            with self.subTest(token):
                data = ("GET /.well-known/acme-challenge/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % token).encode()
                answer = harness.exchange(daemon, data)
                self.assertIn(harness.status_of(answer), (400, 404))
                self.assertNotIn(b"secret", answer)
        self.assertEqual(self.get(daemon, "large")[0], 503)
        for path in ("/.well-known/acme-challenge", "/.well-known/x", "/secret"):
            self.assertEqual(daemon.request("GET", path)[0], 404)
        daemon.blocks_settled()

    def test_off(self):
        """Without the setting there is no such path."""
        with Daemon() as daemon:
            self.assertEqual(self.get(daemon, self.TOKEN)[0], 404)
            self.assertEqual(self.get(daemon, self.TOKEN, "POST")[0], 404)


if __name__ == "__main__":
    harness.main()
