"""certbot and lego obtain and renew certificates for the daemon, from Pebble, an authority for tests (Let's Encrypt's)."""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.request

import certificates
import harness
from harness import Daemon

SLUICECTL = os.environ.get("SLUICECTL", os.path.join(harness.BUILD_DIR, "sluicectl"))
HOOK = os.path.join(harness.SOURCE_DIR, "packaging", "acme", "deploy-hook")
NAME = "stream.example.test"
API, MANAGEMENT, DNS = 14000, 15000, 8053  # At an address of this test alone.

for program in ("certbot", "lego", "pebble", "pebble-challtestsrv"):
    if not shutil.which(program):
        harness.skip_file("%s is not installed: tools/install-deps acme" % program)


class AcmeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.host = harness.own_host()
        # Where the challenges are asked for.
        with socket.create_server((cls.host, 0)) as server:
            cls.port = server.getsockname()[1]
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.authority = certificates.make(folder.name, "authority", names="IP:" + cls.host)
        config = os.path.join(folder.name, "pebble.json")
        with open(config, "w", encoding="ascii") as file:
            file.write('{"pebble": {"listenAddress": "%s:%d", "managementListenAddress": "%s:%d", "certificate": "%s", "privateKey": "%s", '
                       '"httpPort": %d, "tlsPort": 1}}' % (cls.host, API, cls.host, MANAGEMENT, cls.authority.chain, cls.authority.key,
                                                           cls.port))
        off = [word for option in ("http01", "https01", "tlsalpn01") for word in ("-" + option, "")]
        cls.run_server("pebble-challtestsrv", "-dns01", "%s:%d" % (cls.host, DNS), "-management", "%s:8055" % cls.host, "-defaultIPv4",
                       cls.host, "-defaultIPv6", "", *off)
        cls.run_server("pebble", "-config", config, "-dnsserver", "%s:%d" % (cls.host, DNS))
        cls.directory = "https://%s:%d/dir" % (cls.host, API)
        harness.wait_until(lambda: cls.fetch(cls.directory), "the authority")
        cls.root = cls.fetch("https://%s:%d/roots/0" % (cls.host, MANAGEMENT)).decode()

    @classmethod
    def run_server(cls, *command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(
            os.environ, PEBBLE_VA_NOSLEEP="1", PEBBLE_WFE_NONCEREJECT="0"))
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.send_signal, signal.SIGKILL)

    @classmethod
    def fetch(cls, url):
        """None while there is no answer."""
        context = ssl.create_default_context(cafile=cls.authority.chain)
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=harness.PATIENCE, context=context) as answer:
            return answer.read()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("acme", "tls", "bin"):
            os.mkdir(os.path.join(self.folder, name))
        os.symlink(SLUICECTL, os.path.join(self.folder, "bin", "sluicectl"))
        self.config = os.path.join(self.folder, "sluiced.conf")
        self.write('http = "%s:%d";' % (self.host, self.port))
        self.daemon = Daemon("--config", self.config, listen=())
        self.addCleanup(self.daemon.stop)

    def write(self, text):
        with open(self.config, "w", encoding="ascii") as file:
            file.write('acme-root = "%s/acme";\n%s\n' % (self.folder, text))

    def run_client(self, *command):
        done = subprocess.run(command, capture_output=True, timeout=2 * harness.PATIENCE, check=False, env=dict(
            os.environ, PATH="%s/bin:%s" % (self.folder, os.environ["PATH"]), SLUICE_TLS_DIR=os.path.join(self.folder, "tls"),
            SLUICE_TLS_GROUP=str(os.getgid()), SLUICED_ADMIN="127.0.0.1:%d" % self.daemon.address("admin")[1],
            REQUESTS_CA_BUNDLE=self.authority.chain, LEGO_CA_CERTIFICATES=self.authority.chain))
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr).decode(errors="replace"))

    def connect(self):
        """By TLS, verified as a browser would."""
        listener, = (one for one in self.daemon.api("/api/v1/config")["listeners"] if one["tls"])
        host, _, port = listener["address"].rpartition(":")
        peer = ssl.create_default_context(cadata=self.root).wrap_socket(
            socket.create_connection((host, int(port)), harness.PATIENCE), server_hostname=NAME)
        self.addCleanup(peer.close)
        return peer

    def check(self, obtain, renew):
        """A certificate, a listener that has it, and a renewal that reaches new connections alone."""
        obtain()
        self.write('http = ["%s:%d", "%s:0,tls"];\ntls-certificate = "%s/tls/%s.pem,%s/tls/%s.key";' % (
            self.host, self.port, self.host, self.folder, NAME, self.folder, NAME))
        self.assertEqual(self.daemon.admin("POST", "/api/v1/reload")[0], 200)
        running = self.connect()
        reloads = len(self.daemon.log("configuration reloaded"))
        renew()
        self.daemon.wait_log("configuration reloaded", reloads + 1)
        hashes = [hashlib.sha256(peer.getpeercert(binary_form=True)).hexdigest() for peer in (running, self.connect())]
        self.assertEqual([line.fields["hash"] for line in self.daemon.log("certificate loaded")], hashes)
        self.assertNotEqual(*hashes)
        self.assertEqual(self.daemon.complaints(), [])
        running.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(harness.read_head(running)[0], 404)

    def test_certbot(self):
        folders = [word for name in ("config", "work", "logs") for word in ("--%s-dir" % name, os.path.join(self.folder, name))]
        common = ["--server", self.directory, *folders, "--non-interactive"]
        self.check(lambda: self.run_client(
            "certbot", "certonly", *common, "--agree-tos", "--register-unsafely-without-email", "--webroot", "--webroot-path",
            os.path.join(self.folder, "acme"), "--domain", NAME, "--deploy-hook", HOOK),
                   lambda: self.run_client("certbot", "renew", *common, "--force-renewal", "--no-random-sleep-on-renew"))

    def test_lego(self):
        common = ["lego", "--server", self.directory, "--path", os.path.join(self.folder, "lego"), "--email", "a@example.test",
                  "--accept-tos", "--domains", NAME, "--http", "--http.webroot", os.path.join(self.folder, "acme")]
        self.check(lambda: self.run_client(*common, "run", "--run-hook", HOOK),
                   lambda: self.run_client(*common, "renew", "--days", "10000", "--no-random-sleep", "--renew-hook", HOOK))


if __name__ == "__main__":
    harness.main()
