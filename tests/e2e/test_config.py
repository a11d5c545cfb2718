"""The configuration file: what it may say, what is wrong with it, and changing it while streams go on."""

import json
import os
import re
import signal
import socket
import subprocess
import unittest
import unittest.mock

import flv
import harness
from camera import Camera
from harness import Daemon, Player, Publisher, Steady
from private_files import FilesCase
from rtsp import Client

SAMPLE = os.path.join(harness.SOURCE_DIR, "src", "daemon", "sluiced.conf")

# Of every setting: a value that is not its default as the file has it, the command line, and --print-config.
VALUES = {
    "flv": ('["127.0.0.1:1", "[::1]:2=live/a"]', ["127.0.0.1:1", "[::1]:2=live/a"], None),
    "http": ('"[::1]:8081,merge-window=20"', ["[::1]:8081,merge-window=20"], '["[::1]:8081,merge-window=20"]'),
    "rtmp": ('["127.0.0.2:1936"]', ["127.0.0.2:1936"], None),
    "rtsp": ('["127.0.0.2:554"]', ["127.0.0.2:554"], None),
    "admin": ('["127.0.0.1:1", "unix:/run/x"]', ["127.0.0.1:1", "unix:/run/x"], None),
    "tls-certificate": ('["/a.pem,/a.key", "*.example.org=/b=c.pem,/b.key"]',
                        ["/a.pem,/a.key", "*.example.org=/b=c.pem,/b.key"], None),
    "tls-client-ca": ('"/ca.pem"', ["/ca.pem"], None),
    "tls-min": ('"1.3"', ["1.3"], None),
    "ktls": ('"auto"', ["auto"], None),
    "tls-handshakes": ("50", ["50"], None),
    "tls-handshakes-per-address": ("5", ["5"], None),
    "acme-root": ('"/acme"', ["/acme"], None),
    "admin-token-file": ('"/token"', ["/token"], None),
    "rtsp-users": ('"USERS"', ["USERS"], None),
    "pull": ('["rtsp://h:1/x=live/a", "rtsp://i/y=live/b,on-demand"]',
             ["rtsp://h:1/x=live/a", "rtsp://i/y=live/b,on-demand"],
             '["rtsp://h:1/...=live/a", "rtsp://i:554/...=live/b,on-demand"]'),
    "backup": ('["live/a=live/b", "tv=slate"]', ["live/a=live/b", "tv=slate"], None),
    "pull-file": ('"PULLS"', ["PULLS"], None),
    "forward": ('["live/*=http://h:1/x", "a=http://i/y"]', ["live/*=http://h:1/x", "a=http://i/y"],
                '["live/*=http://h:1/...", "a=http://i:80/..."]'),
    "forward-file": ('"FORWARDS"', ["FORWARDS"], None),
    "cluster": ('"rediss://u:geheim@h,[::1]:1/tv"', ["rediss://u:geheim@h,[::1]:1/tv"], '"rediss://h:6379,[::1]:1/tv"'),
    "cluster-sentinel": ('"master"', ["master"], None),
    "node": ('"n.1"', ["n.1"], None),
    "advertise": ('"10.0.0.1:80,tls"', ["10.0.0.1:80,tls"], None),
    "cluster-secret-file": ('"SECRET"', ["SECRET"], None),
    "cluster-down": ('"refuse"', ["refuse"], None),
    "linger": ("2.5", ["2.5"], None),
    "cluster-batch": ("0.5", ["0.5"], None),
    "cluster-parent": ('["a", "b,c"]', ["a,b", "c"], '["a", "b", "c"]'),
    "allow-remote": ("true", [], None),
    "proxy-from": ('["10.0.0.2", "fd00::/64"]', ["10.0.0.2,fd00::/64"], None),
    "obs-tracks": ("5", ["5"], None),
    "obs-bitrate": ("6000", ["6000"], None),
    "same-name": ('"take-over"', ["take-over"], None),
    "resume": ("2.5", ["2.5"], None),
    "allow-origin": ('["https://*.example.com", "http://[::1]:3000"]', ["https://*.example.com", "http://[::1]:3000"],
                     None),
    "first-data": ("7", ["7"], None),
    "time-jump": ('"0.5"', ["0.5"], "0.5"),
    "workers": ("7", ["7"], None),
    "rule": ('["play a/* from ::1 user=a,token=k", "all  * deny"]', ["play a/* from ::1 user=a,token=k", "all  * deny"],
             None),
    "hook-publish": ('"http://127.0.0.1/x?geheim"', ["http://127.0.0.1/x?geheim"], '"http://127.0.0.1:80/..."'),
    "hook-play": ('"https://[::1]:8/x"', ["https://[::1]:8/x"], '"https://[::1]:8/..."'),
    "hook-unpublish": ('"http://127.0.0.1:1/?geheim"', ["http://127.0.0.1:1/?geheim"], '"http://127.0.0.1:1/..."'),
    "hook-stop": ('"https://hooks.example/x"', ["https://hooks.example/x"], '"https://hooks.example:443/..."'),
    "hook-record": ('"http://127.0.0.1:3/x"', ["http://127.0.0.1:3/x"], '"http://127.0.0.1:3/..."'),
    "hook-timeout": ("0.5", ["0.5"], None),
    "tls-ca": ('["system", "CA"]', ["CA", "system"], None),
    "tls-pin": ('["h:1=%s", "[::1]=%s"]' % ("0f" * 32, "a0" * 32), ["h:1=" + ":".join(["0F"] * 32), "[::1]=" + "a0" * 32],
                None),
    "tls-client-certificate": ('"CERTIFICATE,KEY"', ["CERTIFICATE,KEY"], None),
    "token-keys": ('"KEYS"', ["KEYS"], None),
    "memory": ('"1G"', ["1G"], None),
    "gop-size": ("1000", ["1000"], None),
    "player-buffer": ("33554432", ["32M"], '"32M"'),
    "frame-limit": ('"64K"', ["65536"], None),
    "max-connections": ("7", ["7"], None),
    "max-connections-per-address": ("3", ["3"], None),
    "max-streams": ("100", ["100"], None),
    "max-players": ("5", ["5"], None),
    "spread": ("100", ["100"], None),
    "record": ('["live/*=/var/x", "*=/var/y"]', ["live/*=/var/x", "*=/var/y"], None),
    "record-segment": ("60", ["60"], None),
    "record-size": ('"1M"', ["1M"], None),
    "log-format": ('"json"', ["json"], None),
    "log-rate": ("0", ["0"], None),
    "batch": ("0.5", ["0.5"], None),
    "unwatched-interval": ("70", ["70"], None),
    "merge-window-max": ("100", ["100"], None),
    "merge-window": ('["100", "live/a=5"]', ["100", "live/a=5"], None),
    "wait": ("1", ["1"], None),
    "drain": ('"2.5"', ["2.5"], "2.5"),
    "idle": ('"2.5"', ["2.5"], "2.5"),
    "stall": ("3.0", ["3"], "3"),
    "behind": ("60", ["60"], None),
    "catch-up": ("2.5", ["2.5"], None),
    "backend": ('"epoll"', ["epoll"], None),
    "status": ("true", [], None),
    "log-level": ('"debug"', ["debug"], None),
}


class FileCase(FilesCase):
    def setUp(self):
        super().setUp()
        self.config = self.write("sluiced.conf", "")

    def printed(self, *arguments):
        """What --print-config shows: {name: (value, where it comes from)}."""
        status, out, err = harness.run_daemon(*arguments, "--print-config")
        self.assertEqual((status, err), (0, ""))
        lines = [re.fullmatch(r"(?:# )?([a-z-]+) = (.*); # (.*)", line).groups() for line in out.splitlines()]
        return {name: (value, where) for name, value, where in lines}


def settings():
    """The names of all settings that the command line takes."""
    text = harness.run_daemon("--help")[1].partition("\nConfiguration file")[0]
    return re.findall(r"^  --([a-z-]+)", text, re.MULTILINE)


# What the help of an option begins with.
VERBS = set("""Accept Add Allow Ask Check Choose Collect Disconnect Drop Fetch Keep Let Limit Print Read Record Repair Report
    Join Present Require Reserve Select Send Serve Set Sign Spread Start Trust Wait""".split())


class HelpTest(unittest.TestCase):
    def test_form(self):
        """It fits a terminal of 80 columns; each option lies below a heading, and its text begins with a verb."""
        lines = harness.run_daemon("--help")[1].splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        options = [i for i, line in enumerate(lines) if line.startswith("  --")]
        headings = [i for i, line in enumerate(lines) if i and not lines[i - 1] and i + 1 in options]
        self.assertGreater(len(headings), 5)
        self.assertEqual(headings[0] + 1, options[0])
        for i in headings:
            self.assertRegex(lines[i], r"\A[A-Z].*:\Z")
        for i in options:
            with self.subTest(lines[i]):
                text = lines[i][30:] if lines[i][29:30] == " " and lines[i][30:] else lines[i + 1].strip()
                self.assertIn(text.split()[0], VERBS)


class SampleTest(FileCase):
    def test_names(self):
        """No setting is in one place alone."""
        with open(SAMPLE, encoding="ascii") as file:
            names = re.findall(r"^#?([a-z-]+) = ", file.read(), re.MULTILINE)
        self.assertEqual(names, settings())
        self.assertEqual(names, list(self.printed()))
        self.assertEqual(sorted(names), sorted(VALUES))

    def test_check(self):
        self.assertEqual(harness.run_daemon("--config", SAMPLE, "--check"), (0, "OK\n", ""))

    def test_defaults(self):
        """What the sample shows commented out is the default."""
        self.write("users", "a:b\n")
        self.write("pulls", "")
        self.write("forwards", "")
        self.write("keys", "a:b\n")
        self.write("cluster-secret", "0" * 32)
        subprocess.run(("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "client.key", "-out", "client.pem",
                        "-subj", "/CN=x"), cwd=self.folder, check=True, stderr=subprocess.DEVNULL)
        with open(SAMPLE, encoding="ascii") as file:
            text = re.sub(r"^#([a-z])", r"\1", file.read(), flags=re.MULTILINE)
        config = self.write("all.conf", text.replace("/etc/sluice", self.folder))
        self.assertEqual(harness.run_daemon("--config", config, "--check"), (0, "OK\n", ""))
        # How many workers there are, and how much memory, depends on the machine.
        shown, defaults = self.printed("--config", config), self.printed("--workers", "4")
        for name in settings():
            self.assertRegex(shown[name][1], r"all\.conf:\d+\Z")
            if name not in ("workers", "memory", "admin-token-file", "rtsp-users", "token-keys", "tls-client-ca", "acme-root",
                            "pull-file", "forward-file", "hook-publish", "hook-play", "hook-unpublish", "hook-stop", "hook-record",
                            "tls-client-certificate", "cluster", "cluster-sentinel", "node", "advertise", "cluster-secret-file"):
                self.assertEqual(shown[name][0], defaults[name][0], name)
                self.assertEqual(defaults[name][1], "default")


class ApiTest(FileCase):
    def test_settings(self):
        """The API shows every setting that --print-config does, with the same value and as few secrets."""
        self.write("users", "a:geheim\n")
        self.write("keys", "k:geheim\n")
        self.write("pulls", "rtsp://u:geheim@127.0.0.1:1/z?geheim=live/c,on-demand\n")
        self.write("forwards", "live/*=http://127.0.0.1:1/*?geheim\n")
        config = self.write("sluiced.conf", """
            flv = "127.0.0.1:0=live/a"; http = ["127.0.0.1:0,merge-window=20", "[::1]:0"]; rtsp = "127.0.0.1:0";
            rule = ["play * from 127.0.0.0/8 user=a", "all * token=k"]; workers = 2; memory = "64M"; gop-size = 1000;
            pull = "rtsp://u:geheim@127.0.0.1:1/x?geheim=live/b,on-demand"; status = false; batch = 0.5; idle = 2.5;
            hook-play = "http://127.0.0.1:1/x?geheim"; record = ["live/*=DIR", "tv/*=DIR/\\"x\\x09"];
            log-format = "text"; allow-remote = true; merge-window = ["100", "live/a=5"]; record-size = "1M";
            rtsp-users = "DIR/users"; token-keys = "DIR/keys"; pull-file = "DIR/pulls"; forward-file = "DIR/forwards";
            forward = "live/*=http://u:geheim@127.0.0.1:1/geheim/*";
        """.replace("DIR", self.folder))
        os.mkdir(self.folder + '/"x\t')
        options = ("--config", config, "--admin", "127.0.0.1:0", "--backend", harness.BACKEND or "auto")
        printed = self.printed(*options)
        with Daemon(*options, "--workers", "2", listen=()) as daemon:
            shown = daemon.api("/api/v1/config")
        self.assertEqual(list(shown["settings"]), settings())
        self.assertEqual(list(shown["settings"]), list(printed))
        for name, value in shown["settings"].items():
            with self.subTest(name):
                text = re.sub(r"\\x(..)", r"\\u00\1", printed[name][0])
                size = re.fullmatch(r'"(\d+)([KMG])"', text)
                if size:
                    text = str(int(size.group(1)) << {"K": 10, "M": 20, "G": 30}[size.group(2)])
                self.assertEqual(value, json.loads(text))
        self.assertEqual((shown["settings"]["memory"], shown["settings"]["idle"]), (64 << 20, 2.5))
        self.assertNotIn("geheim", json.dumps(shown))


class ValueTest(FileCase):
    def files(self, text):
        for name in ("users", "pulls", "forwards", "keys", "secret"):
            text = text.replace(name.upper(), os.path.join(self.folder, name))
        return text

    def setUp(self):
        super().setUp()
        self.write("users", "a:b\n")
        self.write("pulls", "rtsp://c/z=live/c\n")
        self.write("forwards", "live/a=http://c/z\n")
        self.write("keys", "k:geheim\n")
        self.write("secret", "geheim" * 6 + "\n")

    def test_each(self):
        """Each setting, by the file and by the command line, which wins."""
        defaults = self.printed()
        for name, (text, arguments, shown) in VALUES.items():
            with self.subTest(name):
                self.write("sluiced.conf", "\n%s = %s;\n" % (name, self.files(text)))
                # What a rule names, is to be there.
                more = self.files({"rule": "--rtsp-users=USERS --token-keys=KEYS", "cluster": "--cluster-secret-file=SECRET"
                                   }.get(name, "")).split()
                by_file = self.printed("--config", self.config, *more)[name]
                self.assertEqual(by_file, (self.files(shown or text), self.config + ":2"))
                self.assertNotEqual(by_file[0], defaults[name][0])
                options = ["--%s=%s" % (name, self.files(value)) for value in arguments] or ["--" + name]
                options += more
                self.assertEqual(self.printed(*options)[name], (by_file[0], "the command line"))
                self.write("sluiced.conf", "%s = %s;\n" % (
                    name, defaults[name][0] if defaults[name][0] != '""' else self.files(text)))
                self.assertEqual(self.printed("--config", self.config, *options)[name],
                                 (by_file[0], "the command line"))

    def test_by_stream(self):
        """Each setting that may be otherwise for some streams, by the file and by the command line; it is read as it is shown."""
        help_text = harness.run_daemon("--help")[1]
        names = re.findall(r"^  --([a-z-]+) \[STREAM=\]", help_text, re.MULTILINE)
        self.assertGreater(len(names), 10)
        defaults = self.printed()
        for name in names:
            with self.subTest(name):
                value = defaults[name][0].strip('[]').strip('"')
                other = (VALUES[name][2] or VALUES[name][0]).strip('"') if name != "merge-window" else "100"
                text = '["%s", "cam/*=%s", "live/a=%s"]' % (value, other, value)
                options = ["--%s=%s" % (name, one) for one in ("cam/*=" + value, "live/a=" + value, "cam/*=" + other)]
                self.assertEqual(self.printed(*options)[name], (text, "the command line"))
                self.write("sluiced.conf", "%s = %s;\n" % (name, text))
                self.assertEqual(self.printed("--config", self.config)[name], (text, self.config + ":1"))
                self.write("sluiced.conf", '%s = "cam/*=%s";\n' % (name, other))
                self.assertEqual(self.printed("--config", self.config)[name][0], '["%s", "cam/*=%s"]' % (value, other))

    def test_listeners(self):
        """The defaults hold when none is given; an empty list is given."""
        self.write("sluiced.conf", 'http = "127.0.0.1:0";')
        shown = self.printed("--config", self.config)
        self.assertEqual([shown[name][0] for name in ("flv", "http", "rtsp")], ["[]", '["127.0.0.1:0"]', "[]"])
        self.write("sluiced.conf", "flv = [];")
        self.assertEqual(self.printed("--config", self.config)["http"][0], "[]")
        shown = self.printed("--config", self.config, "--rtsp", "127.0.0.1:0")
        self.assertEqual([shown[name][0] for name in ("flv", "http", "rtsp")], ["[]", "[]", '["127.0.0.1:0"]'])

    def test_include(self):
        self.write("more.conf", "wait = 5;\nidle = 0;\n")
        self.write("sluiced.conf", '@include "more.conf"\nstall = 4;\n')
        status, _, err = harness.run_daemon("--config", self.config, "--check")
        self.assertEqual(status, 2)
        self.assertRegex(err, r"\Asluiced: \S*more\.conf:2: idle: expected seconds from 1 to 86400, got \"0\"\n\Z")
        self.write("more.conf", "wait = 5;\n")
        shown = self.printed("--config", self.config)
        self.assertEqual((shown["wait"][0], shown["stall"][0]), ("5", "4"))

    def test_secrets(self):
        self.write("sluiced.conf", 'pull = "rtsp://u:geheim@h/cam?auth=geheim=live/x";')
        self.write("pulls", "rtsp://u:geheim@c/z=live/c\n")
        self.write("users", "a:geheim\n")
        for arguments in (["--check"], ["--print-config"], ["--print-config", "--pull", "rtsp://u:geheim@h/=live/x"]):
            status, out, err = harness.run_daemon("--config", self.config, "--pull-file", self.folder + "/pulls",
                                                  "--rtsp-users", self.folder + "/users", *arguments)
            self.assertEqual((status, err), (0, ""))
            self.assertNotIn("geheim", out)
        os.chmod(self.config, 0o640)
        status, out, err = harness.run_daemon("--config", self.config, "--check")
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r":1: pull: a password in a file that others may read")
        self.assertNotIn("geheim", err)

    def test_credentials_of_the_unit(self):
        """What LoadCredential= gives to a dynamic user: root's, read by an access control list, which shows as the group's."""
        name = "users"
        self.write(name, "a:geheim\n")
        self.write("sluiced.conf", 'rtsp-users = "%s/users";\npull = "rtsp://u:geheim@h/cam=live/x";' % self.folder)
        def check(mode, folder):
            for file in (name, "sluiced.conf"):
                os.chmod(os.path.join(self.folder, file), mode)
            environment = dict(os.environ, **({"CREDENTIALS_DIRECTORY": folder} if folder else {}))
            return subprocess.run([harness.SLUICED, "--config", self.config, "--check"], env=environment,
                                  capture_output=True, check=False).returncode
        is_root = os.geteuid() == 0
        self.assertEqual(check(0o440, self.folder), 0 if is_root else 2)
        for mode, folder in ((0o440, None), (0o440, ""), (0o440, "/"), (0o440, self.folder + "x"), (0o440, self.folder[:-1]),
                             (0o440, os.path.dirname(self.folder)), (0o444, self.folder), (0o460, self.folder), (0o640, None)):
            self.assertEqual(check(mode, folder), 2, (oct(mode), folder))
        if is_root:
            os.chown(os.path.join(self.folder, name), 65534, 65534)
            self.assertEqual(check(0o440, self.folder), 2)


class ErrorTest(FileCase):
    # What the file says, and the errors in it: line, and what is said of it.
    WRONG = [
        ("gop-sise = 4;", [(1, "gop-sise: unknown setting, did you mean gop-size")]),
        ("xyzzy = 4;", [(1, "xyzzy: unknown setting")]),
        ("help = true;", [(1, "help: unknown setting")]),
        ("config = \"x\";", [(1, "config: unknown setting")]),
        ("\nmemory = \"3M\";", [(2, 'memory: expected a size from 4M to 64G, got "3M"')]),
        ("memory = 1;", [(1, 'memory: expected a size from 4M to 64G, got "1"')]),
        ("memory = -1;", [(1, 'memory: expected a size from 4M to 64G, got "-1"')]),
        ("memory =\n 4294967296;", [(1, 'memory: expected a size from 4M to 64G; numbers over 2147483647 in quotes')]),
        ("memory = true;", [(1, 'memory: expected a size from 4M to 64G, got "true"')]),
        ("drain = [1, 2];", [(1, "drain: expected seconds from 0 to 86400, got a list")]),
        ("wait = [1, 2];", [(1, "wait: expected one value for all streams, and STREAM=VALUE for some, got \"2\"")]),
        ("wait = ([1]);", [(1, "wait: expected seconds from 0 to 86400, got a list")]),
        ("idle = [\"9\",\n\"cam/*=0\"];", [(2, 'idle: expected seconds from 1 to 86400, got "cam/*=0"')]),
        ("idle = \"cam *=1\";", [(1, "idle: expected a stream's name before \"=\", such as live/cam or live/*, got")]),
        ("idle = \"=1\";", [(1, "idle: expected a stream's name before \"=\"")]),
        ("same-name = [\"cam/*=resume\",\n\"live/*=resumed\"];", [(2, "same-name: expected refuse, take-over or resume")]),
        ("memory = \"8M\"; workers = 1;\nframe-limit = [\"1M\", \"big/*=5M\"];",
         [(2, "frame-limit: expected at most half of a worker's share of memory (4194304 bytes), got 5242880 for big/*")]),
        ("wait = { a = 1; };", [(1, "wait: expected seconds from 0 to 86400, got a group")]),
        ("http = ([\"127.0.0.1:0\"]);", [(1, "http: expected ADDR:PORT, such as")]),
        ("http = [\n\"127.0.0.1:0\",\n\"127.0.0.1\"\n\n];", [(3, 'http: expected ADDR:PORT, such as')]),
        ("pull = [ # two\n'x', \"y\"\n];", [(2, "syntax error")]),
        ("http = [\"x\",\n\"y\",\n\"127.0.0.1:0\", \"z\"\n];", [(1, "http: "), (2, "http: "), (3, "http: ")]),
        ("status = 1;", [(1, 'status: expected true or false, got "1"')]),
        ("log-level = \"loud\";", [(1, "log-level: expected error, warning, info or debug")]),
        ("\n\nrtsp-users = \"/nowhere\";", [(3, "rtsp-users: /nowhere: No such file or directory")]),
        ("pull = [\"rtsp://h/x=live/a\",\n\"rtsp://h/y=live/a\"];", [(2, "pull: a second pull of that name")]),
        ("rtsp = [\"127.0.0.1:0\",\n\"0.0.0.0:0\"];", [(2, "rtsp: expected a loopback address, or rules that")]),
        ("player-buffer = \"1M\";\ngop-size = \"2M\";", [(2, "gop-size: expected at most player-buffer (1048576 bytes")]),
        ("memory = \"8M\"; workers = 1;\nframe-limit = \"5M\";",
         [(2, "frame-limit: expected at most player-buffer and half of a worker's share of memory")]),
        ("memory = \"8M\";\nworkers = 9;", [(1, "memory: expected at least 1M for each of 9 workers, got 8388608 bytes")]),
        ("wait = 1;\nwait = 2;", [(2, "duplicate setting name")]),
        ("wait 1;", [(1, "syntax error; expected NAME = VALUE;")]),
        ("wait = 1;\nidle = ;", [(2, "syntax error; expected NAME = VALUE;")]),
        ("wait = \"1;\n\n", [(3, "syntax error")]),
        ("hook-play = \"http://a:0/geheim\";", [(1, "hook-play: expected http[s]://HOST[:PORT]/PATH")]),
        ("hook-play = \"http://u:geheim@a/\";", [(1, "hook-play: expected http[s]://HOST[:PORT]/PATH")]),
        ("hook-play = \"http://1.2.3/geheim\";", [(1, "hook-play: expected http[s]://HOST[:PORT]/PATH")]),
        ("hook-play = \"https://1.1.1.1\";", [(1, "hook-play: expected http[s]://HOST[:PORT]/PATH")]),
        ("tls-ca = \"\";", [(1, "tls-ca: expected a file name, or system")]),
        ("tls-pin = \"a\";", [(1, "tls-pin: expected HOST[:PORT]=SHA256, got \"a\"")]),
        ("tls-pin = \"[::1=%s\";" % ("00" * 32), [(1, "tls-pin: expected HOST[:PORT]=SHA256")]),
        ("tls-pin = \"a:0=%s\";" % ("00" * 32), [(1, "tls-pin: expected HOST[:PORT]=SHA256")]),
        ("tls-pin = \"a:1=%s\";" % ("00" * 31), [(1, "tls-pin: expected 64 hexadecimal digits")]),
        ("tls-pin = \"a:1=%sx\";" % ("00" * 32), [(1, "tls-pin: expected 64 hexadecimal digits")]),
        ("tls-client-certificate = \"a\";", [(1, "tls-client-certificate: expected CHAIN,KEY: files in PEM")]),
        ("tls-client-certificate = \"a,b,c\";", [(1, "tls-client-certificate: expected CHAIN,KEY: files in PEM")]),
        ("cluster = \"http://geheim\";", [(1, "cluster: expected redis[s]://[USER:PASSWORD@]HOST[:PORT]")]),
        ("cluster = \"redis://geheim@h\";", [(1, "cluster: expected USER:PASSWORD, or :PASSWORD, before \"@\"")]),
        ("cluster = \"redis://u:%s@h\";" % ("geheim" * 43), [(1, "cluster: expected a user and a password of at most 255")]),
        ("cluster = \"redis://:geheim%00@h\";", [(1, "cluster: expected a user and a password of at most 255 bytes")]),
        ("cluster = \"redis://\";", [(1, "cluster: expected redis[s]://")]),
        ("cluster = \"redis://h,\";", [(1, "cluster: expected redis[s]://")]),
        ("cluster = \"redis://h:0\";", [(1, "cluster: expected redis[s]://")]),
        ("cluster = \"redis://%s\";" % ",".join(["h"] * 17), [(1, "cluster: expected at most 16 hosts")]),
        ("cluster = \"redis://h/a/b\";", [(1, "cluster: expected a prefix of at most 63 characters")]),
        ("cluster = \"redis://h/%s\";" % ("p" * 64), [(1, "cluster: expected a prefix of at most 63 characters")]),
        ("cluster-sentinel = \"a b\";", [(1, "cluster-sentinel: expected a name of at most 63 characters of [A-Za-z0-9._-]")]),
        ("node = \"\";", [(1, "node: expected a name of at most 63 characters of [A-Za-z0-9._-], got \"\"")]),
        ("node = \"%s\";" % ("n" * 64), [(1, "node: expected a name of at most 63 characters")]),
        ("advertise = \"0.0.0.0:80\";", [(1, "advertise: expected ADDR:PORT or ADDR:PORT,tls that other nodes can connect")]),
        ("advertise = \"h\";", [(1, "advertise: expected ADDR:PORT or ADDR:PORT,tls")]),
        ("advertise = \"h:80,ssl\";", [(1, "advertise: expected ADDR:PORT or ADDR:PORT,tls")]),
        ("advertise = \"h:80,\";", [(1, "advertise: expected ADDR:PORT or ADDR:PORT,tls")]),
        ("cluster-secret-file = \"/nowhere\";", [(1, "cluster-secret-file: /nowhere: No such file or directory")]),
        ("cluster-down = \"wait\";", [(1, "cluster-down: expected accept or refuse")]),
        ("linger = 3601;", [(1, "linger: expected seconds from 0 to 3600")]),
        ("cluster-parent = \"a,,b\";", [(1, "cluster-parent: expected names of nodes, separated by commas, got")]),
        ("cluster-parent = \"%s\";" % ",".join("abcdefghijklmnopq"), [(1, "cluster-parent: expected at most 16 parents")]),
        ("cluster = \"redis://h\"; http = [];", [(1, "cluster: expected a listener of HTTP (http), which other nodes")]),
        ("cluster = \"redis://h\"; http = [\"127.0.0.1:0\", \"127.0.0.1:0\"];",
         [(1, "cluster: expected the address that other nodes pull from (advertise), since http is not one listener")]),
        ("cluster = \"redis://h\"; advertise = \"node:80\";", [(1, "cluster: expected a secret of all nodes (cluster-secret-file)")]),
        ("cluster = \"redis://h\"; advertise = \"[::1]:80\"; http = \"0.0.0.0:0\"; allow-remote = true;",
         [(1, "cluster: expected a secret of all nodes (cluster-secret-file), since the advertised address or a listener")]),
        ("cluster = \"redis://h\"; node = \"b\";\ncluster-parent = [\"a\", \"b\"];",
         [(2, "cluster-parent: expected other nodes, got \"b\", which is this one")]),
        ("rule = \"see * allow\";", [(1, "rule: expected publish, play or all at the beginning")]),
        ("rule = [\"play *\"];", [(1, "rule: expected ACTIONS STREAM [from RANGES] WAYS")]),
        ("rule = [\"play * from 10.0.0.1/8 allow\"];", [(1, "rule: expected an address or a range such as")]),
        ("rule = [\"play * allow\",\n\"play * user\",\n\"all * token=k\"];",
         [(2, "rule: expected a file of users"), (3, "rule: expected a file of keys")]),
        ("rtsp = \"0.0.0.0:0\";\nrule = [\"play * allow\"];", [(1, "rtsp: expected a loopback address, or rules")]),
        # All of them at once.
        ("wait = -1;\nidle = 0;\nfoo = 1;\nstall = 1;\nhttp = \"1.2.3.4:5\";\n",
         [(1, "wait: "), (2, "idle: "), (3, "foo: "), (5, "http: expected a loopback address")]),
    ]

    def test_wrong(self):
        for text, expected in self.WRONG:
            with self.subTest(text):
                self.write("sluiced.conf", text)
                for arguments in (["--check"], ["--print-config"], []):
                    status, out, err = harness.run_daemon("--config", self.config, *arguments)
                    self.assertEqual((status, out), (2, ""))
                    lines = err.splitlines()
                    self.assertEqual(len(lines), len(expected), err)
                    for line, (number, what) in zip(lines, expected):
                        self.assertTrue(line.startswith("sluiced: %s:%d: %s" % (self.config, number, what)), line)

    def test_cluster_secret(self):
        """One line of 32 to 64 characters, in a file of the user's own; with it, other addresses may be advertised."""
        text = 'cluster = "redis://h"; advertise = "node:80"; cluster-secret-file = "%s/secret";' % self.folder
        self.write("sluiced.conf", text)
        for secret, mode, wrong in [("g" * 32, 0o600, None), ("g" * 64 + "\n", 0o600, None), ("# of a\n" + "g" * 40, 0o400, None),
                                    ("g" * 31, 0o600, "secret:1: expected a secret of 32 to 64 characters"),
                                    ("g" * 65, 0o600, "secret:1: expected a secret of 32 to 64 characters"),
                                    ("g" * 32 + " g", 0o600, "secret:1: expected a secret without blanks"),
                                    ("g" * 32 + "\n" + "g" * 32, 0o600, "secret:2: expected one line"),
                                    ("", 0o600, "secret: expected a secret of 32 to 64 characters"),
                                    ("g" * 32, 0o640, "secret: others may read it: chmod 600")]:
            with self.subTest(secret=secret, mode=mode):
                self.write("secret", secret, mode)
                status, out, err = harness.run_daemon("--config", self.config, "--check")
                if not wrong:
                    self.assertEqual((status, out, err), (0, "OK\n", ""))
                    continue
                self.assertEqual((status, out), (2, ""))
                self.assertIn("sluiced.conf:1: cluster-secret-file: " + self.folder + "/" + wrong, err)
                self.assertNotIn("ggg", err)
            os.chmod(self.folder + "/secret", 0o600)

    def test_cluster_password(self):
        """Not in a file that others may read; never shown."""
        self.write("sluiced.conf", 'cluster = "redis://u:geheim@h";')
        self.assertEqual(harness.run_daemon("--config", self.config, "--check"), (0, "OK\n", ""))
        self.assertNotIn("geheim", harness.run_daemon("--config", self.config, "--print-config")[1])
        os.chmod(self.config, 0o644)
        status, out, err = harness.run_daemon("--config", self.config, "--check")
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r":1: cluster: a password in a file that others may read: chmod 600\n\Z")

    def test_replaced(self):
        """What the command line replaces is to be right all the same: without it, it would count."""
        self.write("sluiced.conf", "wait = -1;")
        self.assertEqual(harness.run_daemon("--config", self.config, "--wait", "1", "--check")[0], 2)

    def test_no_file(self):
        for path, why in ((self.folder + "/x", "No such file"), (self.folder, "not a file")):
            status, out, err = harness.run_daemon("--config", path, "--check")
            self.assertEqual((status, out), (2, ""))
            self.assertRegex(err, r"\Asluiced: %s: %s" % (re.escape(path), why))

    def test_command_line(self):
        for arguments, expected in [
                (["--gop-sise", "1"], "--gop-sise: unknown option, did you mean --gop-size;"),
                (["--chek"], "--chek: unknown option, did you mean --check;"),
                (["--status=yes"], "--status: expected no value;"), (["--wait"], "--wait: a value is missing;")]:
            status, _, err = harness.run_daemon(*arguments)
            self.assertEqual(status, 2)
            self.assertTrue(err.startswith("sluiced: " + expected) and err.count("\n") == 1, err)

    def test_opens_nothing(self):
        """--check of an address that is taken."""
        with socket.create_server(("127.0.0.1", 0)) as holder:
            self.write("sluiced.conf", 'http = "127.0.0.1:%d";' % holder.getsockname()[1])
            self.assertEqual(harness.run_daemon("--config", self.config, "--check"), (0, "OK\n", ""))


class ReloadTest(FileCase):
    LISTEN = 'flv = "127.0.0.1:0=live/a";\nhttp = ["127.0.0.1:0"];\nrtsp = "127.0.0.1:0";\n'

    def start(self, text="", *options):
        self.write("sluiced.conf", self.LISTEN + text)
        daemon = Daemon("--config", self.config, *options, listen=())
        self.addCleanup(daemon.stop)
        return daemon

    def reload(self, daemon, text, expected="configuration reloaded"):
        """Another file, and SIGHUP; the lines of what was changed, or of what is wrong."""
        self.write("sluiced.conf", text)
        count = len(daemon.log(expected))
        changes = len(daemon.log("setting changed"))
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log(expected, count + 1)
        lines = daemon.log("setting changed")[changes:] if expected == "configuration reloaded" else \
            daemon.log(expected)[count:]
        return [line.fields.get("setting") or line.fields.get("error") for line in lines]

    def test_nothing(self):
        daemon = self.start()
        self.assertEqual(self.reload(daemon, self.LISTEN), [])
        self.assertEqual(self.reload(daemon, self.LISTEN + "# a comment\nwait = 30;"), [])

    def test_without_file(self):
        with Daemon() as daemon:
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_log("configuration reloaded", changes="0")

    def test_under_load(self):
        """Streams do not notice."""
        daemon = self.start()
        with Steady(daemon, name="live/a") as steady:
            for turn in range(12):
                changes = self.reload(daemon, self.LISTEN + "wait = %d;\nidle = 20;\nplayer-buffer = \"%dM\";" % (
                    turn + 1, turn + 16))
                self.assertIn("wait: ", " ".join(changes))
                steady.go_on(5)
        daemon.blocks_settled()

    def test_wrong(self):
        """Nothing of a file that is wrong is taken; it says where."""
        daemon = self.start("max-connections = 100;")
        with Steady(daemon, name="live/a") as steady:
            for text, line, what in [("max-connections = 1;\nwait = x;", 5, "syntax error"),
                                     ("max-connections = 1;\nwait = -1;", 5, "wait: expected seconds"),
                                     ("max-connections = 1;\nwaits = 1;", 5, "waits: unknown setting")]:
                reasons = self.reload(daemon, self.LISTEN + text, "configuration refused")
                self.assertEqual(len(reasons), 1)
                self.assertTrue(reasons[0].startswith("%s:%d: %s" % (self.config, line, what)), reasons)
                steady.go_on()
            os.unlink(self.config)
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_log("configuration refused", 4)
            self.assertEqual(daemon.request("GET", "/nothing")[0], 404)
            # What was in force is what the next reload begins with.
            self.assertEqual(self.reload(daemon, self.LISTEN + "max-connections = 200;"),
                             ["max-connections: 100 -> 200 (now)"])
        daemon.blocks_settled()

    def test_effects(self):
        with unittest.mock.patch.object(harness, "WORKERS", ""):
            daemon = self.start('workers = 3;\nmemory = "256M";')
        other = self.LISTEN + 'memory = "8M";\nstall = 9;\nframe-limit = "2M";\nworkers = 2;'
        self.assertEqual(
            self.reload(daemon, other + "batch = 5;"),
            ['memory: \\"256M\\" -> \\"8M\\" (needs a restart)', "workers: 3 -> 2 (needs a restart)",
             "batch: 2 -> 5 (needs a restart)", 'frame-limit: \\"8M\\" -> \\"2M\\" (for those who come)',
             "stall: 30 -> 9 (now)"])
        state = daemon.api()
        self.assertEqual([worker["pool"]["blocks_max"] for worker in state["workers"]], [((256 << 20) // 3 * 7 + 7) // 8 // 4096] * 3)
        # What is not in force, is told again.
        self.assertEqual(len(self.reload(daemon, other)), 2)

    def test_frame_limit(self):
        """A publisher keeps what it began with; the next one has the new limit."""
        daemon = self.start()
        big = flv.Tag(9, 0, b"\x17\x01\0\0\0" + bytes(200 << 10))
        with Publisher(daemon, "live/b", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            daemon.wait_stream("live/b")
            self.reload(daemon, self.LISTEN + 'frame-limit = "100K";')
            publisher.send(big)
            daemon.wait_stream("live/b", lambda stream: stream["frames"]["video"] >= 1, "with the frame")
            self.assertEqual(publisher.finish(), 200)
        with Publisher(daemon, "live/b", "http") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            publisher.send(big)
            self.assertEqual(harness.read_head(publisher.peer)[0], 413)
        daemon.blocks_settled()

    def test_listeners(self):
        """One more, and one less, whose connections stay."""
        daemon = self.start()
        port = daemon.address("http")[1]
        with Steady(daemon, name="live/a") as steady:
            more = self.LISTEN.replace('["127.0.0.1:0"]', '["127.0.0.1:0", "[::1]:0"]')
            self.reload(daemon, more)
            line = daemon.wait_log("listening", 5)
            host, _, other = line.fields["address"].rpartition(":")
            self.assertEqual((line.fields["proto"], host), ("http", "[::1]"))
            with socket.create_connection(("::1", int(other)), harness.PATIENCE) as peer:
                peer.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
                self.assertEqual(harness.read_head(peer)[0], 404)
            self.assertEqual(daemon.request("GET", "/nothing")[0], 404)
            self.reload(daemon, more.replace('"127.0.0.1:0", ', ""))
            self.assertEqual(daemon.wait_log("listener closed").fields["address"], "127.0.0.1:%d" % port)
            harness.wait_until(lambda: self.refuses(port), "the port is closed")
            steady.go_on()
        daemon.blocks_settled()

    @staticmethod
    def refuses(port):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return False
        except ConnectionRefusedError:
            return True

    def test_listener_changes(self):
        """The name that raw publishers get, and a port that becomes another protocol's."""
        daemon = self.start()
        self.reload(daemon, self.LISTEN.replace("live/a", "live/b"))
        with Publisher(daemon, "live/b") as publisher:
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            daemon.wait_stream("live/b")
        with socket.create_server(("127.0.0.1", 0)) as holder:
            free = holder.getsockname()[1]
        self.reload(daemon, 'http = ["127.0.0.1:0", "127.0.0.1:%d"];' % free)
        self.reload(daemon, 'http = "127.0.0.1:0";\nrtsp = "127.0.0.1:%d";' % free)
        with socket.create_connection(("127.0.0.1", free), harness.PATIENCE) as peer:
            peer.sendall(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
            self.assertTrue(peer.recv(100).startswith(b"RTSP/1.0 200"))
        daemon.blocks_settled()

    def test_port_in_use(self):
        """Then nothing changes, neither the other listeners."""
        daemon = self.start()
        with socket.create_server(("127.0.0.1", 0)) as holder:
            address = "127.0.0.1:%d" % holder.getsockname()[1]
            reasons = self.reload(daemon, 'http = ["127.0.0.2:0", "%s"];\nmax-connections = 1;' % address,
                                  "configuration refused")
            self.assertEqual(reasons, ["cannot listen at %s: Address already in use" % address])
            gone = daemon.wait_log("listener closed").fields["address"]
            self.assertTrue(gone.startswith("127.0.0.2:"))
        for protocol in ("flv", "http", "rtsp"):
            daemon.connect(protocol).close()
        self.assertEqual(self.reload(daemon, self.LISTEN), [])
        daemon.blocks_settled()

    def test_merge_window(self):
        """Players that are there have the new window at once, and lose nothing."""
        daemon = self.start()
        with Steady(daemon, name="live/a") as steady:
            for text, window in (('["100"]', 100), ('["auto", "live/a=20"]', 20), ('["0"]', 0),
                                 ('["auto"]; merge-window-max = 0', 0), ('["20", "live/*=auto"]; merge-window-max = 0', 0)):
                self.reload(daemon, self.LISTEN + "merge-window = %s;" % text)
                self.assertEqual(daemon.api()["players"][0]["merge_window_ms"], window)
                self.assertEqual(daemon.stream("live/a")["merge_window_ms"], window)
                self.assertEqual(daemon.api()["players"][0]["merge_window_auto"], text.endswith("max = 0"))
                steady.go_on()
        daemon.blocks_settled()

    def test_log_level(self):
        daemon = self.start()
        with Player(daemon, "live/a"):
            daemon.wait_log("player started", 1)
        self.write("sluiced.conf", self.LISTEN + 'log-level = "warning";')
        daemon.process.send_signal(signal.SIGHUP)
        # Nothing is said of it at that level; so a file that is wrong shows when it has been read.
        harness.wait_until(lambda: self.is_silent(daemon), "no more lines of players")
        self.reload(daemon, "nonsense", "configuration refused")
        self.write("sluiced.conf", self.LISTEN)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        daemon.blocks_settled()

    @staticmethod
    def is_silent(daemon):
        before = len(daemon.log("player started"))
        with Player(daemon, "live/a"):
            daemon.wait_player("live/a")
            return len(daemon.log("player started")) == before

    def test_max_connections(self):
        daemon = self.start()
        with daemon.connect() as held:
            held.sendall(b"GET /live/x.flv HTTP/1.1\r\n")
            self.reload(daemon, self.LISTEN + "max-connections = 1;")
            with daemon.connect() as refused:
                self.assertEqual(harness.status_of(harness.read_to_end(refused)), 503)
            self.reload(daemon, self.LISTEN)
            self.assertEqual(daemon.request("GET", "/nothing")[0], 404)
        daemon.blocks_settled()

    def test_users(self):
        """The file of users is read again; who is connected stays."""
        users = self.write("users", "a:one\n")
        rest = 'rtsp-users = "%s"; rule = ["publish * allow", "play * user"];' % users
        text = self.LISTEN + rest
        daemon = self.start(rest)
        one, two = "Basic YTpvbmU=", "Basic YTp0d28="
        with Publisher(daemon, "live/a") as publisher, Client(daemon) as client:
            source = flv.frames()
            publisher.send(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            publisher.send(next(source))
            daemon.wait_stream("live/a")
            self.assertEqual(client.ask("DESCRIBE", Authorization=one).status, 200)
            self.write("users", "a:two\n")
            changes = self.reload(daemon, text)
            self.assertEqual(len(changes), 1)
            self.assertTrue(changes[0].startswith("rtsp-users: "))
            client.setup(0)
            self.assertEqual(client.ask("PLAY").status, 200)
            with Client(daemon) as other:
                self.assertEqual(other.ask("DESCRIBE", Authorization=one).status, 401)
                self.assertEqual(other.ask("DESCRIBE", Authorization=two).status, 200)
        self.write("users", "a\n")
        reasons = self.reload(daemon, text, "configuration refused")
        self.assertTrue(reasons[0].endswith("users:1: expected NAME:PASSWORD"), reasons)
        self.assertNotIn("two", " ".join(line.text for line in daemon.log()))
        daemon.blocks_settled()

    def test_pulls(self):
        """One more begins, one less ends, one that is another begins anew; the others go on."""
        cameras = [Camera(self) for _ in range(3)]
        for camera in cameras:
            camera.start()
        line = lambda *which: self.LISTEN + "pull = [%s];" % ", ".join(
            '"%s=live/%s"' % (cameras[at].url(), name) for at, name in which)
        self.write("sluiced.conf", line((0, "x"), (1, "y")))
        daemon = Daemon("--config", self.config, listen=())
        self.addCleanup(daemon.stop)
        daemon.wait_stream("live/x")
        daemon.wait_stream("live/y")
        self.reload(daemon, line((0, "x"), (2, "y"), (1, "z")))
        daemon.wait_stream("live/z")
        harness.wait_until(lambda: [(pull["stream"], pull["state"]) for pull in daemon.api()["pulls"]] == [
            ("live/x", "playing"), ("live/y", "playing"), ("live/z", "playing")], "three pulls play")
        daemon.check_log(1, "pull", stream="live/x", state="playing")
        cameras[1].wait_request("TEARDOWN")
        self.reload(daemon, self.LISTEN)
        self.assertEqual(daemon.api()["pulls"], [])
        daemon.blocks_settled()

    def test_pull_that_connects(self):
        """A pull that is taken away while its name is looked up, or its address does not answer."""
        daemon = self.start('pull = ["rtsp://192.0.2.1/x=live/x", "rtsp://no-such-host.invalid/y=live/y"];')
        self.reload(daemon, self.LISTEN + 'pull = ["rtsp://192.0.2.2/x=live/x"];')
        self.assertEqual([pull["from"] for pull in daemon.api()["pulls"]], ["rtsp://192.0.2.2:554"])
        self.reload(daemon, self.LISTEN)
        self.assertEqual(daemon.api()["pulls"], [])

    def test_stop(self):
        """A reload that comes with the end."""
        for _ in range(5):
            self.write("sluiced.conf", self.LISTEN)
            daemon = Daemon("--config", self.config, listen=())
            for turn in range(20):
                self.write("sluiced.conf", self.LISTEN + "wait = %d;" % turn)
                daemon.process.send_signal(signal.SIGHUP)
            daemon.stop()


if __name__ == "__main__":
    harness.main()
