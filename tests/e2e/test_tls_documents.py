"""What the documents say about TLS, to the letter: the daemon accepts their commands and configurations, and clients their URLs."""

import base64
import glob
import os
import re
import shlex

import flv
import harness
import tls
from private_files import FilesCase

try:
    from websockets.sync.client import connect as connect_websocket
except ImportError:
    harness.skip_file("the Python package websockets is not installed: tools/install-deps test")


README = ("src", "daemon", "README.md")


def read(*path):
    with open(os.path.join(harness.SOURCE_DIR, *path), encoding="utf-8") as file:
        return file.read()


def manual():
    """sluiced(8) as its reader sees it."""
    return re.sub(r"\\([-e])", lambda found: {"-": "-", "e": "\\"}[found[1]], read("src", "man", "sluiced.8"))


def commands(text):
    """The command lines of sluiced that have a listener with TLS."""
    found = re.findall(r"^ *(sluiced (?:[^\n]*\\\n)*[^\n]*)", text, re.MULTILINE)
    return [command.replace("\\\n", " ") for command in found if ",tls" in command]


def configurations(text):
    """The indented blocks that begin with the name of the configuration file, as they are."""
    return re.findall(r"^    # /etc/sluice/sluiced\.conf[^\n]*\n((?:    \S[^\n]*\n)+)", text, re.MULTILINE)


def urls():
    """Of the part about TLS in the daemon's README: {scheme: URL}."""
    part = read(*README).partition("## Listeners with TLS\n")[2].partition("\n## ")[0]
    return {url.partition(":")[0]: url for url in re.findall(r"^    (\w+://\S+)", part, re.MULTILINE)}


class DocumentCase(FilesCase):
    def setUp(self):
        super().setUp()
        self.users = self.write("users", "USER:PASSWORD\n")

    def with_files(self, text):
        """The text with files that exist in place of those that it names."""
        made = tls.certificate()
        text = re.sub(r"[\w./-]+\.(?:pem|key)",
                      lambda found: made.key if found[0].endswith(("privkey.pem", ".key")) else made.chain, text)
        text = re.sub(r"(?<=rtsp-users )[\w/]+", self.users, text).replace('"/etc/sluice/users"', '"%s"' % self.users)
        return text.replace("/var/lib/sluice-acme", self.folder)


class StartTest(DocumentCase):
    def test_commands(self):
        found = {"the daemon's README": commands(read(*README)), "sluiced(8)": commands(manual())}
        for document, texts in found.items():
            self.assertEqual(len(texts), 1, document)
            with self.subTest(document, command=texts[0]):
                self.check(*shlex.split(self.with_files(texts[0]))[1:])

    def test_acme(self):
        """With a certificate, and for the first one."""
        found = configurations(read("packaging", "acme", "README.md"))
        self.assertEqual([",tls" in text for text in found], [True, False])
        for text in found:
            with self.subTest(text):
                self.check("--config", self.write("sluiced.conf", self.with_files(text)))

    def test_samples(self):
        """The values of sluiced.conf's examples that have TLS."""
        found = re.findall(r"^# Example: (.*,tls.*)$", read("src", "daemon", "sluiced.conf"), re.MULTILINE)
        self.assertEqual(sorted({text.split()[0] for text in found}), ["admin", "advertise", "http"])
        token = self.write("token", "0123456789abcdef0123456789abcdef\n")
        for text in found:
            if not text.startswith("advertise"):  # It takes a cluster: test_config has its value.
                with self.subTest(text):
                    self.check("--tls-certificate", tls.certificate().option, "--rtsp-users", self.users, "--admin-token-file", token,
                               "--config", self.write("sluiced.conf", text.replace("/run/sluiced", self.folder)))

    def test_programs(self):
        """No man page says that a program cannot use TLS: all can."""
        for path in glob.glob(os.path.join(harness.SOURCE_DIR, "src", "man", "*.[18]")):
            with self.subTest(path):
                self.assertNotRegex(read(path), r"(?i)does not (?:speak|support) TLS")


class UrlTest(DocumentCase):
    """The README's URLs, with an address and ports of this test; the daemon has the README's options."""

    def setUp(self):
        super().setUp()
        self.urls = urls()
        self.assertEqual(sorted(self.urls), ["https", "rtmps", "rtsps", "wss"])
        self.daemon = tls.Daemon("--rtsp-users", self.users, "--wait", "1")
        self.addCleanup(self.daemon.stop)

    def url(self, scheme):
        protocol = {"https": "http", "wss": "http"}.get(scheme, scheme[:-1])
        place, _, path = self.urls[scheme].partition("@")[2].partition("/")
        self.assertEqual(place.partition(":")[0], "HOST")
        return "%s://USER:PASSWORD@127.0.0.1:%d/%s" % (scheme, self.daemon.address(protocol)[1], path)

    def test_ffmpeg(self):
        """Publishes by each and plays by each; without a user it does not."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        file = harness.make_media(ffmpeg, " ".join([harness.VIDEO, "-t 4", harness.H264]))
        form = {"https": ["-f", "flv", "-method", "POST"], "rtmps": ["-f", "flv"], "rtsps": ["-f", "rtsp"]}
        for published, target in form.items():
            publisher = harness.Ffmpeg(ffmpeg, "-re", "-i", file, "-c", "copy", *target, self.url(published))
            self.addCleanup(publisher.kill)
            self.daemon.wait_stream("live/NAME")
            players = [harness.Ffmpeg(ffmpeg, "-i", self.url(played), "-frames:v", "10", "-f", "null", "-") for played in form]
            for player in players:
                self.addCleanup(player.kill)
                player.wait()
            publisher.wait()
            harness.wait_until(lambda: not self.daemon.api("/api/v1/streams")["streams"], "the stream's end")
        started = len(self.daemon.log("player started"))
        for scheme in form:
            refused = harness.Ffmpeg(ffmpeg, "-i", self.url(scheme).replace("USER:PASSWORD@", ""), "-f", "null", "-")
            self.addCleanup(refused.kill)
            self.assertNotEqual(refused.process.wait(harness.PATIENCE), 0)
        self.assertEqual(len(self.daemon.log("player started")), started)

    def test_websocket(self):
        """A program that takes the user from the URL."""
        data, tags = flv.stream(20)
        with self.daemon.connect() as publisher:
            publisher.sendall(b"POST /live/NAME.flv HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nContent-Length: %d\r\n\r\n" % (
                base64.b64encode(b"USER:PASSWORD"), len(data) + 1))
            publisher.sendall(data)
            self.daemon.wait_stream("live/NAME")
            with connect_websocket(self.url("wss"), ssl=tls.context(), max_size=None, compression=None,
                                   open_timeout=harness.PATIENCE) as player:
                parser, got = flv.Parser(), []
                while not got or got[-1].payload != tags[-1].payload:
                    got += parser.feed(player.recv(harness.PATIENCE))


if __name__ == "__main__":
    harness.main()
