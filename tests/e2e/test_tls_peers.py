"""The TLS stage of the library with other implementations as its peers: OpenSSL's s_client, GnuTLS, curl, Python's ssl (OpenSSL
with other calls) and tlslite-ng, which is Python alone and shares no code with it.

Environment: TLS_STAGE, the program.
"""

import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

import harness

try:
    from tlslite.api import HandshakeSettings, TLSConnection
except ImportError:
    harness.skip_file("the Python package tlslite-ng is not installed: tools/install-deps tls")

SECONDS = 60
PIECE = 16384  # Bytes, less than sockets hold.
STAGE = os.environ.get("TLS_STAGE", os.path.join(os.environ["SLUICE_BUILD_DIR"], "tests", "tls_stage"))
TEXT = bytes(range(256)) * 4096
ROUNDS = 40


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, check=False, **options)
    if done.returncode:
        raise AssertionError((command, done))
    return done.stdout


class Stage:
    """A server that echoes, and says of each connection how it was."""

    def __init__(self, case, *options):
        self.process = subprocess.Popen([STAGE, *options], stdout=subprocess.PIPE, text=True)
        case.addCleanup(self.process.stdout.close)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        self.address = ("127.0.0.1", self.port)

    def closed(self):
        """What it says of the next connection that has ended."""
        timer = threading.Timer(SECONDS, self.process.send_signal, [signal.SIGKILL])
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        return dict(word.split("=", 1) for word in line.split()[1:])


class PeersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.rsa = cls.make("localhost", "rsa:2048", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        cls.ecdsa = cls.make("other.example", "ec", "subjectAltName=DNS:other.example")
        cls.client = cls.make("camera7", "ec", "extendedKeyUsage=clientAuth")

    @classmethod
    def make(cls, name, kind, extension):
        key, certificate = (os.path.join(cls.folder.name, f"{name}.{what}") for what in ("key", "pem"))
        curve = ["-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else []
        run("openssl", "req", "-x509", "-newkey", kind, *curve, "-nodes", "-keyout", key, "-out", certificate, "-subj", f"/CN={name}",
            "-addext", extension)
        return certificate, key

    def serve(self, *options):
        return Stage(self, "--certificate", "", *self.rsa, "--certificate", "other.example", *self.ecdsa, *options)

    def client_process(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def say(self, process, text):
        """Bytes to a client's standard input, which come back on its standard output."""
        thread = threading.Thread(target=lambda: (process.stdin.write(text), process.stdin.flush()))
        thread.start()
        self.assertEqual(process.stdout.read(len(text)), text)
        thread.join()

    # -- OpenSSL --

    def test_s_client_with_each_cipher(self):
        stage = self.serve()
        ciphers = [("1_3", suite) for suite in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")]
        ciphers += [("1_2", f"ECDHE-RSA-{suite}") for suite in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")]
        for version, suite in ciphers:
            process = self.client_process("openssl", "s_client", "-quiet", "-no_ign_eof", "-verify_return_error", "-CAfile",
                                          self.rsa[0], "-tls" + version, "-ciphersuites" if version == "1_3" else "-cipher", suite,
                                          "-connect", f"127.0.0.1:{stage.port}")
            self.say(process, b"hello\n")
            self.say(process, TEXT.replace(b"Q", b"q").replace(b"R", b"r"))
            process.stdin.close()
            closed = stage.closed()
            self.assertEqual((closed["version"], closed["end"], closed["detail"]), ("30" + version.replace("1_2", "3").replace("1_3", "4"), "0", "0"))
            self.assertIn("CHACHA20" if "CHACHA20" in suite else suite[-13:-7].replace("-", "_").strip("_"), closed["cipher"])

    def test_s_client_updates_keys(self):
        stage = self.serve()
        process = subprocess.Popen(["openssl", "s_client", "-tls1_3", "-CAfile", self.rsa[0], "-connect", f"127.0.0.1:{stage.port}"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            for number, command in enumerate((b"k\n", b"K\n") * 10):
                # It takes a line that begins with such a letter, and comes alone, for a command; and says so.
                process.stdin.write(command)
                process.stdin.flush()
                while process.stderr.readline() != b"KEYUPDATE\n":
                    pass
                line = b"line %d\n" % number
                process.stdin.write(line)
                process.stdin.flush()
                while process.stdout.readline() != line:
                    pass
            process.stdin.write(b"Q\n")
            process.stdin.flush()
            process.wait(SECONDS)
        closed = stage.closed()
        self.assertEqual((closed["end"], closed["keys_in"], closed["keys_out"]), ("0", "20", "10"))

    def test_ciphers_and_versions_that_are_not_spoken(self):
        stage = self.serve()
        for options in (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], ["-tls1_2", "-cipher", "AES128-GCM-SHA256"],
                        ["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA"], ["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"],
                        ["-tls1_3", "-groups", "P-521"]):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{stage.port}", *options], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
            self.assertIn(b"alert", done.stdout)
            self.assertIn(stage.closed()["detail"], ("3", "4"))

    # -- GnuTLS --

    def test_gnutls(self):
        stage = self.serve("--rekey", "20")
        for priority in ("NORMAL:-VERS-ALL:+VERS-TLS1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.2"):
            process = self.client_process("gnutls-cli", "--x509cafile", self.rsa[0], "--priority", priority, "--logfile", "/dev/null",
                                          "-p", str(stage.port), "localhost")
            lines = ROUNDS if priority.endswith("3") else 5
            for number in range(lines):
                self.say(process, b"line %d\n" % number)
            process.stdin.close()
            closed = stage.closed()
            self.assertEqual(closed["name"], "localhost")
            self.assertEqual((closed["end"], closed["detail"]), ("0", "0"))
            if lines == ROUNDS:
                # GnuTLS follows our keys, and sets new ones when it is asked to.
                self.assertGreaterEqual(int(closed["keys_out"]), 2)
                self.assertGreaterEqual(int(closed["keys_in"]), 1)

    # -- curl --

    def test_curl(self):
        stage = self.serve("--alpn", "http/1.1")
        answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
        out = run("curl", "-sS", "--cacert", self.rsa[0], "-X", answer, f"https://localhost:{stage.port}/")
        self.assertEqual(out, b"hello")
        closed = stage.closed()
        self.assertEqual((closed["alpn"], closed["name"]), ("http/1.1", "localhost"))

    # -- Python's ssl --

    def context(self, trusted, version=None):
        context = ssl.create_default_context(cafile=trusted[0])
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def echo(self, connection, text):
        """Piece by piece: Python's connections are not for two threads at once."""
        received = b""
        for begin in range(0, len(text), PIECE):
            connection.sendall(text[begin:begin + PIECE])
            while len(received) < min(begin + PIECE, len(text)):
                part = connection.recv(65536)
                self.assertTrue(part)
                received += part
        self.assertEqual(received, text)

    def test_names_tickets_and_the_end(self):
        stage = self.serve("--alpn", "h2,http/1.1")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for name, trusted in (("localhost", self.rsa), ("other.example", self.ecdsa)):
                context, session = self.context(trusted, version), None
                context.set_alpn_protocols(["spdy", "http/1.1"])
                for resumed in (False, True, True):
                    with socket.create_connection(stage.address, SECONDS) as plain:
                        with context.wrap_socket(plain, server_hostname=name, session=session) as connection:
                            self.assertEqual(connection.session_reused, resumed)
                            self.assertEqual(connection.selected_alpn_protocol(), "http/1.1")
                            self.echo(connection, b"x" * 1000)
                            session = connection.session
                            connection.unwrap()
                    closed = stage.closed()
                    self.assertEqual((closed["name"], closed["resumed"], closed["end"]), (name, str(int(resumed)), "0"))

    def test_a_stream_that_is_cut(self):
        stage = self.serve()
        with socket.create_connection(stage.address, SECONDS) as plain:
            connection = self.context(self.rsa).wrap_socket(plain, server_hostname="localhost")
            self.echo(connection, b"abc")
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        closed = stage.closed()
        self.assertEqual((closed["end"], closed["detail"]), ("-104", "16"))

    def test_client_certificates(self):
        stage = self.serve("--client-ca", self.client[0])
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(self.rsa, version)
            context.load_cert_chain(*self.client)
            with socket.create_connection(stage.address, SECONDS) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as connection:
                    self.echo(connection, b"abc")
                    connection.unwrap()
            closed = stage.closed()
            self.assertEqual((closed["peer"], closed["verified"], closed["end"]), ("camera7", "1", "0"))
            for wrong, detail in ((None, "10"), (self.ecdsa, "6")):
                context = self.context(self.rsa, version)
                if wrong:
                    context.load_cert_chain(*wrong)
                with self.assertRaises(OSError):
                    with socket.create_connection(stage.address, SECONDS) as plain:
                        with context.wrap_socket(plain, server_hostname="localhost") as connection:
                            connection.recv(1)
                self.assertEqual(stage.closed()["detail"], detail)

    # -- tlslite-ng --

    def test_tlslite(self):
        stage = self.serve("--rekey", "30")
        for version in ((3, 3), (3, 4)):
            settings = HandshakeSettings()
            settings.minVersion = settings.maxVersion = version
            for size in (1, 100, 16384):
                with socket.create_connection(stage.address, SECONDS) as plain:
                    connection = TLSConnection(plain)
                    connection.closeSocket = False
                    connection.handshakeClientCert(settings=settings, serverName="other.example")
                    rounds = 2 if size > 100 else 5 if version == (3, 3) else ROUNDS  # it encrypts in Python
                    for number in range(rounds):
                        text = bytes([number]) * size
                        connection.sendall(text)
                        received = b""
                        while len(received) < size:
                            received += connection.recv(size - len(received))
                        self.assertEqual(received, text)
                        if version == (3, 4) and number % 10 == 5:
                            for _ in connection.send_keyupdate_request(number % 2):
                                pass
                    connection.close()
                closed = stage.closed()
                self.assertEqual((closed["version"], closed["name"], closed["end"]), ("30%d" % version[1], "other.example", "0"))
                if rounds == ROUNDS:
                    self.assertGreaterEqual(int(closed["keys_in"]), 4)
                    self.assertGreaterEqual(int(closed["keys_out"]), 1)


if __name__ == "__main__":
    harness.main()
