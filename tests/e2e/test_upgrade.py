"""Upgrades: another process takes over the listening sockets, and nobody who connects or is connected notices."""

import contextlib
import glob
import hashlib
import json
import os
import resource
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import certificates
import flv
import harness
from harness import Daemon, Player, Publisher, Steady
from stopped_thread import StoppedThread
import tool

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
UPGRADES = 3
SLUICED = harness.SLUICED  # While a test has another program in its place.
STREAM, TAGS = flv.stream(60)
WRAPPER = """#!{python}
import os, socket, sys
with open("{left}", "r+") as file:
    left = int(file.read())
    file.seek(0)
    file.write(str(left - 1))
if left <= 0:
    os.execv("{sluiced}", sys.argv)
with socket.socket(fileno=int(os.environ["SLUICED_UPGRADE"].split(":")[0])) as channel:
    channel.setblocking(True)
    channel.sendall(b"r")
    if left % 2:
        channel.recv(1)
    os._exit(7)
"""
# Becomes ready, and never begins.
NEVER = """#!{python}
import os, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with socket.socket(fileno=int(os.environ["SLUICED_UPGRADE"].split(":")[0])) as channel:
    channel.setblocking(True)
    channel.sendall(b"r")
    channel.recv(1)
    print("may begin", file=sys.stderr, flush=True)
    while True:
        signal.pause()
"""

# Says what it is given, and ends before it begins.
TELLS = """#!{python}
import os, socket, sys
with socket.socket(fileno=int(os.environ["SLUICED_UPGRADE"].split(":")[0])) as channel:
    channel.setblocking(True)
    channel.sendall(b"r")
    _, files, _, _ = socket.recv_fds(channel, 1, 1)
    for line in os.pread(files[0], 1 << 20, 0).decode().splitlines():
        print("given:", line, file=sys.stderr)
    sys.stderr.flush()
    os._exit(7)
"""
# The daemon before, of another version: gives what lies in the file "state".
BEFORE = """#!{python}
import os, signal, socket, subprocess, sys
here, there = socket.socketpair()
number = there.fileno()
daemon = subprocess.Popen(["{sluiced}", *sys.argv[1:]], pass_fds=[number],
                          env=dict(os.environ, SLUICED_UPGRADE="%d:%d" % (number, os.getpid())))
signal.signal(signal.SIGTERM, lambda *_: daemon.terminate())
there.close()
with here:
    here.recv(1)
    file = os.memfd_create("state")
    with open("{state}", "rb") as state:
        os.sendfile(file, state.fileno(), 0, os.fstat(state.fileno()).st_size)
    socket.send_fds(here, [b"g"], [file])
    here.recv(1)
sys.exit(daemon.wait())
"""


class Upgraded:
    """A daemon, and whoever takes over from it: stopped at the end, all of them."""

    def __init__(self, *options, kind=Daemon, **more):
        self.daemon = kind(*options, **more)
        self.pids = []
        self._killed = False

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for pid in self.pids:
            if not self.stop(pid):
                kind = kind or AssertionError
        if self._killed and kind is None:
            self.daemon.kill()
        else:
            self.daemon.__exit__(kind, error, trace)
        if kind is None:
            reports = [line for line in self.daemon.log() if "Sanitizer" in line.text or "runtime error" in line.text]
            if reports:
                raise AssertionError("a process that took over: %s" % reports)

    @staticmethod
    def stop(pid, number=signal.SIGTERM):
        """Stops a process that is not ours, and waits for its end."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            return bool(select.select([handle], [], [], harness.PATIENCE)[0])
        finally:
            os.close(handle)

    def kill_first(self):
        """Kills the first process, which has been replaced by now."""
        self._killed = True
        self.daemon.process.kill()
        self.daemon.process.wait()

    def taken_over(self):
        """Waits until the next process has taken over: its id."""
        count = len(self.pids) + 1
        pid = int(self.daemon.wait_log("replaced", count).fields["pid"])
        self.pids.append(pid)
        self.daemon.wait_log("ready", count + 1)
        return pid

    def upgrade(self):
        """By signal, of whoever is the server now."""
        os.kill(self.pids[-1] if self.pids else self.daemon.process.pid, signal.SIGUSR2)
        return self.taken_over()


class Crowd:
    """Clients that connect to one port again and again, one after the other, each with one question."""

    def __init__(self, daemon, protocol, question, answer):
        self.answered, self.error = 0, None
        self._address = daemon.address(protocol)
        self._question, self._answer = question, answer
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._ending.is_set():
                with socket.create_connection(self._address, harness.PATIENCE) as peer:
                    peer.sendall(self._question)
                    answer = b""
                    while self._answer not in answer:
                        more = peer.recv(4096)
                        if not more:
                            raise AssertionError("ended behind %r" % answer)
                        answer += more
                self.answered += 1
        except (OSError, AssertionError) as error:
            self.error = error

    def go_on(self, count=5):
        goal = self.answered + count
        harness.wait_until(lambda: self.answered >= goal or self.error, "%d answers" % goal)

    def end(self):
        self._ending.set()
        self._thread.join()


class UpgradeTest(unittest.TestCase):
    def test_nobody_is_refused(self):
        """Who connects in a tight loop is answered each time, at every port, while one process follows the other."""
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with Upgraded(listen=LISTEN) as upgraded:
            crowds = [Crowd(upgraded.daemon, "http", request, b" 404 "),
                      Crowd(upgraded.daemon, "http", request, b" 404 "),
                      Crowd(upgraded.daemon, "admin", request.replace(b"/ ", b"/api/v1/version "), b'"version"'),
                      Crowd(upgraded.daemon, "rtsp", b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", b" 200 ")]
            try:
                for _ in range(UPGRADES):
                    for crowd in crowds:
                        crowd.go_on()
                    upgraded.upgrade()
                for crowd in crowds:
                    crowd.go_on()
            finally:
                for crowd in crowds:
                    crowd.end()
            self.assertEqual([crowd.error for crowd in crowds], [None] * len(crowds))
            # Each has ended behind the last of its connections.
            for count in range(1, UPGRADES + 1):
                upgraded.daemon.wait_log("stopped", count)
            upgraded.daemon.wait_end()
            print("%d connections during %d upgrades" % (sum(crowd.answered for crowd in crowds), UPGRADES))

    def test_tls(self):
        """Ports of the system's choice stay those with TLS and those without; the certificate is read again."""
        with tempfile.TemporaryDirectory() as folder:
            first, second = (certificates.make(folder, name) for name in ("first.example", "second.example"))
            option = "%s/live.pem,%s/live.key" % (folder, folder)
            def put(certificate):
                for source, end in ((certificate.chain, "pem"), (certificate.key, "key")):
                    os.replace(source, os.path.join(folder, "live." + end))
            hashes = [first.sha256, second.sha256]
            put(first)
            with Upgraded("--tls-certificate", option, "--admin", "127.0.0.1:0,tls", "--admin", "127.0.0.1:0",
                          listen=("--http", "127.0.0.1:0", "--http", "127.0.0.1:0,tls", "--rtsp", "127.0.0.1:0,tls")) as upgraded:
                daemon = upgraded.daemon
                places = [(daemon.address("http", 1), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b" 404 "),
                          (daemon.address("rtsp"), b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", b" 200 "),
                          (daemon.address("admin", 0), b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", b" 200 ")]
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                for expected in hashes:
                    for place, question, answer in places:
                        with socket.create_connection(place, harness.PATIENCE) as plain, context.wrap_socket(plain) as peer:
                            self.assertEqual(hashlib.sha256(peer.getpeercert(binary_form=True)).hexdigest(), expected)
                            peer.sendall(question)
                            self.assertIn(answer, peer.recv(4096))
                    self.assertEqual(daemon.request("GET", "/")[0], 404)
                    if expected == hashes[0]:
                        put(second)
                        upgraded.upgrade()

    def test_streams_go_on(self):
        """Old players and publishers stay with the old process, and miss nothing; new ones meet in the new one."""
        with Upgraded(listen=LISTEN) as upgraded:
            daemon = upgraded.daemon
            with Steady(daemon, name=None) as steady:
                upgraded.upgrade()
                steady.go_on(50)
                # Here a stream of that name is another one.
                self.assertEqual(daemon.api()["streams"], [])
                with Publisher(daemon, steady.name, "http") as publisher:
                    publisher.send(STREAM)
                    daemon.wait_stream(steady.name)
                    with Player(daemon, steady.name) as player:
                        player.wait_tags(10)
                        steady.go_on(50)
                        self.assertEqual(daemon.stream(steady.name)["subscribers"], 1)
                        publisher.finish()
                self.assertIsNone(daemon.process.poll())
            # The publisher has gone, and with it the player: there is nothing left to wait for.
            daemon.wait_log("stopping", reason="no connections left")
            daemon.wait_end()
            daemon.blocks_settled()

    def test_nobody_waits(self):
        """Publishers come to the new process: so who waits for one in the old process is sent there."""
        with Upgraded() as upgraded:
            daemon = upgraded.daemon
            with Player(daemon, "live/none") as early, Publisher(daemon, "live/a", "http") as publisher:
                daemon.wait_player("live/none")
                publisher.send(STREAM)
                daemon.wait_stream("live/a")
                with Player(daemon, "live/a") as player:
                    player.wait_tags(5)
                    upgraded.upgrade()
                    early.wait_end()
                    self.assertEqual(early.status, 404)
                    self.assertFalse(player.finished)
                    publisher.finish()
                    player.wait_end()
                    self.assertIsNone(player.error)
            daemon.wait_end()

    def test_drain(self):
        """For so long, and not longer."""
        with Upgraded("--drain", "0.5") as upgraded:
            daemon = upgraded.daemon
            with Publisher(daemon, "live/a", "http") as publisher:
                publisher.send(STREAM)
                daemon.wait_stream("live/a")
                with Player(daemon, "live/a") as player:
                    player.wait_tags(5)
                    upgraded.upgrade()
                    daemon.wait_log("stopping", reason="--drain expired", connections="2")
                    # It ends with whole tags, and as a response ends.
                    player.wait_end()
                    self.assertIsNone(player.error)
                    self.assertEqual(player.rest, 0)
            daemon.wait_end()

    def test_stopped_meanwhile(self):
        """One that has been replaced stops at once when it is told to, and the other does not."""
        with Upgraded() as upgraded:
            daemon = upgraded.daemon
            with Steady(daemon) as steady:
                pid = upgraded.upgrade()
                steady.abandon()
                daemon.process.send_signal(signal.SIGTERM)
                daemon.wait_end()
                self.assertEqual(daemon.request("GET", "/")[0], 404)
                os.kill(pid, 0)

    def test_recordings(self):
        """What the old process records, it alone records; and the new one what comes there."""
        with tempfile.TemporaryDirectory() as folder:
            with Upgraded("--record", "live/*=%s" % folder, listen=LISTEN) as upgraded:
                daemon = upgraded.daemon

                def parts():
                    return glob.glob(folder + "/live/**/*.part", recursive=True)

                def kept():
                    return sorted(glob.glob(folder + "/live/**/*.flv", recursive=True))

                with Steady(daemon) as steady:
                    part = harness.wait_until(parts, "a part")
                    upgraded.upgrade()
                    steady.go_on(50)
                    # The new one has not taken it for one that was left behind.
                    self.assertEqual((parts(), kept()), (part, []))
                daemon.wait_end()
                self.assertEqual((len(kept()), parts()), (1, []))
                with Publisher(daemon, steady.name, "http") as publisher:
                    publisher.send(STREAM)
                    self.assertEqual(publisher.finish(), 200)
                harness.wait_until(lambda: len(kept()) == 2 and not parts(), "the second recording")
            for path, tags in zip(kept(), (steady.sent, TAGS)):
                with open(path, "rb") as file:
                    harness.check_same([tag.payload for tag in flv.parse(file.read()) if tag.is_frame],
                                       [tag.payload for tag in tags if tag.is_frame], "frames of " + path)
                subprocess.run(["ffprobe", "-v", "fatal", "-count_packets", path], check=True, capture_output=True)

    def check_killed(self, upgrades):
        """What the first process was recording is repaired when it is killed, by the process that is the server then; also
        what it has begun to record since the upgrade."""
        with tempfile.TemporaryDirectory() as folder:
            def files(end):
                return sorted(glob.glob(folder + "/live/**/*" + end, recursive=True))

            with Upgraded("--record", "live/*=" + folder, "--record-segment", "5", "--drain", "600", listen=LISTEN) as upgraded:
                daemon = upgraded.daemon

                def killed():
                    with daemon.standing_still():
                        # With frames: what is before them has less.
                        if sum(map(os.path.getsize, files(".part"))) < 20000:
                            return False
                        upgraded.kill_first()
                        return True

                with Steady(daemon) as steady:
                    for _ in range(upgrades):
                        upgraded.upgrade()
                    # Those between have nothing to wait for.
                    if upgrades > 1:
                        daemon.wait_log("stopped", upgrades - 1)
                    count = len(daemon.log("recorded"))
                    daemon.wait_log("recorded", count + 2)
                    steady.abandon()
                    harness.wait_until(killed, "a part with frames")
                daemon.wait_log("recording repaired")
                daemon.wait_log("previous process ended", pid=str(daemon.process.pid))
                self.assertEqual(files(".part"), [])
            recorded = []
            for path in files(".flv"):
                with open(path, "rb") as file:
                    recorded += [tag.payload for tag in flv.parse(file.read()) if tag.is_frame]
                subprocess.run(["ffprobe", "-v", "fatal", "-count_packets", path], check=True, capture_output=True)
            sent = [tag.payload for tag in steady.sent if tag.is_frame]
            harness.check_same(recorded, sent[:len(recorded)], "recorded frames")

    def test_killed_after_an_upgrade(self):
        self.check_killed(1)

    def test_killed_after_two_upgrades(self):
        self.check_killed(2)

    @staticmethod
    def publish(daemon, name):
        """A whole stream, by HTTP: the status."""
        return daemon.request("POST", "/%s.flv" % name, STREAM, {"Content-Type": "video/x-flv"})[0]

    @staticmethod
    def banned(daemon, name):
        """Publishes until the API has banned its host."""
        with Publisher(daemon, name, "http") as publisher:
            publisher.send(STREAM)
            daemon.wait_stream(name)
            if daemon.admin("DELETE", "/api/v1/streams/%s?ban=3600" % name.replace("/", "%2F"))[0] != 204:
                raise AssertionError("%s is not kicked" % name)

    def test_choices_of_an_operator(self):
        """Bans, and what is recorded against the rules, are those of the new process, too; and of the one behind it."""
        with tempfile.TemporaryDirectory() as folder:
            def files(name):
                return len(glob.glob("%s/%s/*.flv" % (folder, name)))

            with Upgraded("--workers", "3", "--record", "ruled/*=%s" % folder, listen=LISTEN) as upgraded:
                daemon = upgraded.daemon
                for name in ("live/cam", "live/lifted"):
                    self.banned(daemon, name)
                self.assertEqual(daemon.admin("DELETE", "/api/v1/bans/live/lifted")[0], 204)
                for method, names in (("DELETE", ("ruled/off", "ruled/reset")), ("POST", ("live/on", "live/reset"))):
                    for name in names:
                        self.assertEqual(daemon.admin(method, "/api/v1/recordings/" + name)[0], 204)
                for name in ("ruled/reset", "live/reset"):
                    self.assertEqual(daemon.admin("POST", "/api/v1/recordings/%s?by=rule" % name)[0], 204)
                [before] = daemon.api("/api/v1/bans")["bans"]
                for count in (1, 2):
                    upgraded.upgrade()
                    [ban] = daemon.api("/api/v1/bans")["bans"]
                    self.assertEqual((ban["stream"], ban["host"], ban["scope"]), ("live/cam", "127.0.0.1", "node"))
                    self.assertTrue(before["age_seconds"] <= ban["age_seconds"] < 600, (before, ban))
                    self.assertTrue(3000 < ban["ends_in_seconds"] <= before["ends_in_seconds"], (before, ban))
                    self.assertEqual(self.publish(daemon, "live/cam"), 403)
                    for name in ("live/lifted", "live/on", "live/reset", "ruled/off", "ruled/reset"):
                        self.assertEqual(self.publish(daemon, name), 200, name)
                    daemon.wait_log("recorded", 2 * count)
                    self.assertEqual({name: files(name) for name in ("live/on", "live/reset", "ruled/off", "ruled/reset")},
                                     {"live/on": count, "live/reset": 0, "ruled/off": 0, "ruled/reset": count})
                self.assertEqual(daemon.admin("DELETE", "/api/v1/bans/live/cam")[0], 204)
                self.assertEqual(self.publish(daemon, "live/cam"), 200)
                self.assertEqual(daemon.log("ban not taken over") + daemon.log("recording override not taken over"), [])

    def test_an_older_program(self):
        """It knows lines of pulls alone, which begin with a number: so these are as they were, and come first."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "sluiced")
            os.symlink(SLUICED, program)
            with mock.patch.object(harness, "SLUICED", program), Upgraded("--record", "ruled/*=" + folder) as upgraded:
                daemon = upgraded.daemon
                self.banned(daemon, "live/cam")
                self.assertEqual(daemon.admin("DELETE", "/api/v1/recordings/ruled/off")[0], 204)
                pull = {"url": "rtsp://127.0.0.1:1/x", "stream": "live/p", "on_demand": True}
                self.assertEqual(daemon.admin("POST", "/api/v1/pulls", json.dumps(pull).encode(),
                                              {"Content-Type": "application/json"})[0], 201)
                os.unlink(program)
                with open(program, "w", encoding="ascii") as file:
                    file.write(TELLS.format(python=sys.executable))
                os.chmod(program, 0o755)
                self.assertEqual(daemon.admin("POST", "/api/v1/upgrade")[0], 503)
                first, *others = [line.text.removeprefix("given: ") for line in daemon.log() if line.text.startswith("given: ")]
                self.assertEqual(first, "0 rtsp://127.0.0.1:1/x=live/p,on-demand")
                ban, record = sorted(others)
                self.assertRegex(ban, r"\Aban 3[56]\d{5} \d+ live/cam 127\.0\.0\.1\Z")
                self.assertEqual(record, "record off ruled/off")
                # It goes on as if nothing had been.
                self.assertEqual(self.publish(daemon, "live/cam"), 403)
                self.assertEqual(daemon.admin("POST", "/api/v1/recordings/ruled/off?by=rule")[0], 204)

    @contextlib.contextmanager
    def behind(self, state, *options):
        """A daemon that has taken over from one that gives it this."""
        with tempfile.TemporaryDirectory() as folder:
            program, path = os.path.join(folder, "sluiced"), os.path.join(folder, "state")
            with open(path, "wb") as file:
                file.write(state)
            with open(program, "w", encoding="ascii") as file:
                file.write(BEFORE.format(python=sys.executable, sluiced=SLUICED, state=path))
            os.chmod(program, 0o755)
            with mock.patch.object(harness, "SLUICED", program), Daemon(*options) as daemon:
                yield daemon

    def test_behind_an_older_program(self):
        """It gives its pulls."""
        with self.behind(b"0 rtsp://127.0.0.1:1/x=live/p,on-demand\n60000 rtsp://127.0.0.1:1/y=live/q\n") as daemon:
            self.assertEqual({pull["stream"] for pull in daemon.api("/api/v1/pulls")["pulls"]}, {"live/p", "live/q"})
            self.assertEqual(daemon.log("state not taken over"), [])

    def test_behind_a_newer_program(self):
        """What is not understood is left out, and said; everything else counts."""
        wrong = [b"ban", b"ban ", b"ban x", b"ban 1 2 live/a", b"ban 5000 1 ../a 127.0.0.1",
                 b"ban 9999999999 1 live/a 127.0.0.1"]
        wrong_records = [b"record maybe live/a", b"record on ../a", b"record on", b"record rule live/a"]
        lines = [b"spell live/a 7", *wrong, *wrong_records, b"process 0", b"process x", b"process 2147483647", b"0x", b"",
                 b"another \xff", b"ban 3600000 5000 live/a 127.0.0.1 more", b"ban 3600000 0 live/six [2001:db8::]",
                 b"record on live/a"]
        with tempfile.TemporaryDirectory() as folder:
            with self.behind(b"\n".join(lines), "--record", "ruled/*=" + folder) as daemon:
                # "ban" alone is no kind.
                daemon.wait_log("state not taken over", lines="3", reason="unknown kind")
                self.assertEqual(len(daemon.log("ban not taken over", reason="malformed")), len(wrong) - 1)
                self.assertEqual(len(daemon.log("recording override not taken over", reason="malformed")), len(wrong_records))
                self.assertEqual(len(daemon.log("previous process not watched", reason="malformed")), 2)
                self.assertEqual(len(daemon.log("pull not taken over", reason="malformed")), 1)
                self.assertEqual({(ban["stream"], ban["host"]) for ban in daemon.api("/api/v1/bans")["bans"]},
                                 {("live/a", "127.0.0.1"), ("live/six", "[2001:db8::]")})
                self.assertEqual([one["stream"] for one in daemon.api("/api/v1/recordings")["recordings"]], ["live/a"])
                self.assertEqual(self.publish(daemon, "live/a"), 403)

    def test_behind_too_much(self):
        """Bounds hold: of the file, of bans and of overrides; what is beyond is left out, and said."""
        bans = [b"ban 3600000 0 live/%d 10.0.0.1" % number for number in range(257)]
        overrides = [b"record on live/%d" % number for number in range(1025)]
        with tempfile.TemporaryDirectory() as folder:
            state = b"\n".join([*bans, *overrides, b"x" * (8 << 20), b"record on live/behind", b""])
            with self.behind(state, "--workers", "1", "--log-rate", "0", "--record", "ruled/*=" + folder) as daemon:
                self.assertEqual([line.fields["stream"] for line in daemon.log("ban not taken over", reason="too many bans")],
                                 ["live/256"])
                self.assertEqual([line.fields["stream"] for line in daemon.log("recording override not taken over",
                                                                               reason="too many overrides")], ["live/1024"])
                self.assertEqual(len(daemon.api("/api/v1/bans")["bans"]), 256)
                daemon.wait_log("state not taken over", reason="too much of it")
                self.assertEqual(daemon.log("state not taken over", reason="unknown kind"), [])

    def test_one_that_does_not_start(self):
        """Nothing changes then, and it may be tried again: by signal, by the API and by sluicectl."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "sluiced.conf")

            def write(text):
                with open(config, "w", encoding="ascii") as file:
                    # The publisher is silent for as long as this takes.
                    file.write('http = "127.0.0.1:0";\nidle = 600;\n' + text)

            write("")
            with Upgraded("--config", config, listen=()) as upgraded:
                daemon = upgraded.daemon
                with Publisher(daemon, "live/a", "http") as publisher:
                    publisher.send(STREAM)
                    daemon.wait_stream("live/a")
                    write("nonsense")
                    daemon.process.send_signal(signal.SIGUSR2)
                    daemon.wait_log("cannot upgrade", reason="new process failed", detail="exit status 2")
                    status, headers, body = daemon.admin("POST", "/api/v1/upgrade")
                    self.assertEqual((status, headers["Content-Type"]), (503, "application/problem+json"))
                    self.assertEqual(json.loads(body)["detail"], "new process failed: exit status 2")
                    # It still is the server, and takes a configuration.
                    self.assertEqual(daemon.stream("live/a")["state"], "live")
                    write("stall = 20;")
                    daemon.process.send_signal(signal.SIGHUP)
                    daemon.wait_log("configuration reloaded")
                    host, port = daemon.address("admin")
                    status, out, errors = tool.run("sluicectl", "--admin", "%s:%d" % (host, port), "upgrade",
                                                   backend=False)
                    self.assertEqual((status, errors), (0, ""))
                    self.assertEqual(out, "process %d has taken over\n" % upgraded.taken_over())
                    # The one before is not the server any more.
                    daemon.process.send_signal(signal.SIGUSR2)
                    daemon.wait_log("cannot upgrade", reason="reload or upgrade in progress")
                    daemon.process.send_signal(signal.SIGHUP)
                    daemon.wait_log("cannot reload", reason="upgrade in progress")
                    self.assertIsNone(daemon.process.poll())

    def test_one_that_cannot_listen(self):
        """The running server's Unix socket is not taken away by one that has been lent it, and has failed to start."""
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
            config, path = os.path.join(folder, "sluiced.conf"), os.path.join(folder, "admin")
            text = 'http = "127.0.0.1:0";\nadmin = ["127.0.0.1:0", "unix:%s"%s];\n'
            with open(config, "w", encoding="ascii") as file:
                file.write(text % (path, ""))
            # The file alone says where the administration is.
            program = os.path.join(folder, "program")
            with open(program, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nexec %s --config %s --backend %s\n" % (SLUICED, config, harness.BACKEND or "auto"))
            os.chmod(program, 0o755)
            with mock.patch.object(harness, "SLUICED", program), Upgraded(listen=()) as upgraded:
                daemon = upgraded.daemon
                with open(config, "w", encoding="ascii") as file:
                    file.write(text % (path, ', "127.0.0.1:%d"' % taken.getsockname()[1]))
                daemon.process.send_signal(signal.SIGUSR2)
                daemon.wait_log("cannot upgrade", reason="new process failed", detail="exit status 1")
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(path)
                with open(config, "w", encoding="ascii") as file:
                    file.write(text % (path, ""))
                upgraded.upgrade()
                daemon.wait_end()
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(path)
            self.assertFalse(os.path.exists(path))

    def test_one_that_ends_before_it_has_begun(self):
        """Nothing is accepted any more by then: so this process accepts again, answers those that have come meanwhile, and
        may be replaced by a better one."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "sluiced")
            os.symlink(SLUICED, program)
            with mock.patch.object(harness, "SLUICED", program), Upgraded(listen=LISTEN) as upgraded:
                daemon = upgraded.daemon
                with Steady(daemon, name=None) as steady:
                    crowd = Crowd(daemon, "http", b"GET / HTTP/1.0\r\n\r\n", b" 404 ")
                    self.replace(folder, 1)
                    status, _, body = daemon.admin("POST", "/api/v1/upgrade")
                    self.assertEqual((status, json.loads(body)["detail"]),
                                     (503, "new process failed: exit status 7"))
                    self.assertEqual(daemon.log("replaced"), [])
                    crowd.go_on()
                    self.assertEqual(daemon.stream(steady.name)["state"], "live")
                    self.assertEqual(daemon.admin("POST", "/api/v1/upgrade")[0], 200)
                    upgraded.taken_over()
                    crowd.go_on()
                    crowd.end()
                    self.assertIsNone(crowd.error)
                    steady.go_on(20)
                daemon.wait_end()

    @contextlib.contextmanager
    def replaced_by(self, text):
        """A daemon in whose place another program lies by now."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "sluiced")
            os.symlink(SLUICED, program)
            with mock.patch.object(harness, "SLUICED", program), Daemon() as daemon:
                os.unlink(program)
                with open(program, "w", encoding="ascii") as file:
                    file.write(text)
                os.chmod(program, 0o755)
                yield daemon

    def test_stopped_before_the_other_is_ready(self):
        """Who stops the one means the other, too, which could yet become ready while connections are ended."""
        with self.replaced_by("#!/bin/sh\nexec sleep 600\n") as daemon:
            daemon.process.send_signal(signal.SIGUSR2)
            daemon.wait_log("upgrading")
            daemon.process.send_signal(signal.SIGTERM)
            daemon.wait_log("cannot upgrade", reason="server shutting down")
            daemon.wait_end()

    def check_stopped(self, daemon):
        """It ends by a signal during an upgrade, and leaves no process behind that has its log."""
        daemon.stop()
        self.assertEqual(daemon.log("replaced"), [])
        self.assertEqual(len(daemon.log("cannot upgrade", reason="server shutting down")), 1)

    def test_stopped_before_there_is_another(self):
        """The signals come together, and a player that takes nothing makes the end last: another process would be ready."""
        with Daemon() as daemon, Publisher(daemon, "live/a", "http") as publisher:
            publisher.send(STREAM)
            with Player(daemon, "live/a", receive_buffer=4096, reading=False):
                daemon.wait_player("live/a")
                source = flv.frames(start=10000, size=100000)
                for _ in range(20):
                    publisher.send(next(source))
                daemon.wait_stream("live/a", lambda stream: sum(stream["frames"].values()) >= 70, "with 70 frames")
                with daemon.standing_still():
                    daemon.process.send_signal(signal.SIGUSR2)
                    daemon.process.send_signal(signal.SIGTERM)
                self.check_stopped(daemon)

    def test_stopped_while_it_leaves(self):
        """The other is ready, and waits until nothing is accepted here any more."""
        with Daemon("--workers", "2") as daemon:
            with StoppedThread(daemon, "worker 0"):
                daemon.process.send_signal(signal.SIGUSR2)
                daemon.process.send_signal(signal.SIGTERM)
            self.check_stopped(daemon)
        with Daemon("--workers", "2") as daemon:
            with StoppedThread(daemon, "worker 1"):
                daemon.process.send_signal(signal.SIGUSR2)
                daemon.wait_log("taking over")
                daemon.process.send_signal(signal.SIGTERM)
                daemon.wait_log("cannot upgrade", reason="server shutting down")
            self.check_stopped(daemon)

    def test_stopped_before_the_other_has_begun(self):
        """It may begin, and has not said that it has."""
        with self.replaced_by(NEVER.format(python=sys.executable)) as daemon:
            daemon.process.send_signal(signal.SIGUSR2)
            harness.wait_until(lambda: "may begin" in "".join(line.text for line in daemon.log()), "the other's turn")
            self.check_stopped(daemon)

    @staticmethod
    def replace(folder, count):
        """Puts a program in the daemon's place that says that it is ready, and ends, so often; then it is the daemon."""
        program = os.path.join(folder, "sluiced")
        os.unlink(program)
        with open(program, "w", encoding="ascii") as file:
            file.write(WRAPPER.format(python=sys.executable, left=os.path.join(folder, "left"), sluiced=SLUICED))
        os.chmod(program, 0o755)
        with open(os.path.join(folder, "left"), "w", encoding="ascii") as file:
            file.write(str(count))

    def test_no_descriptors(self):
        """Why the sockets cannot be given away is said; and then they can."""
        with Upgraded() as upgraded:
            daemon = upgraded.daemon
            limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (8, limits[1]))
            daemon.process.send_signal(signal.SIGUSR2)
            daemon.wait_log("cannot upgrade", reason="socket handoff failed", detail="Too many open files")
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, limits)
            daemon.process.send_signal(signal.SIGUSR2)
            upgraded.taken_over()

    def test_another_configuration(self):
        """The new process listens where its configuration says: also elsewhere, and not where it says so no more."""
        with tempfile.TemporaryDirectory() as folder:
            config, path = os.path.join(folder, "sluiced.conf"), os.path.join(folder, "admin")
            with open(config, "w", encoding="ascii") as file:
                file.write('http = ["127.0.0.1:0", "127.0.0.2:0"];\n')
            with Upgraded("--config", config, "--admin", "127.0.0.1:0", "--admin", "unix:" + path,
                          listen=()) as upgraded:
                daemon = upgraded.daemon
                gone = daemon.address("http", 1)
                with open(config, "w", encoding="ascii") as file:
                    file.write('http = ["127.0.0.1:0", "127.0.0.3:0"];\n')
                upgraded.upgrade()
                daemon.wait_end()
                self.assertEqual(daemon.request("GET", "/")[0], 404)
                added = [line.fields["address"] for line in daemon.log("listening") if "127.0.0.3" in line.text]
                with socket.create_connection(("127.0.0.3", int(added[0].rpartition(":")[2])), harness.PATIENCE):
                    pass
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(gone, harness.PATIENCE)
                # The file is the new process's now.
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(path)
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    tool.main("sluicectl")
