"""What the end-to-end tests share: the daemon, players, publishers, ffmpeg, and media made once.

Environment: SLUICED, the daemon; SLUICE_BUILD_DIR, where media are kept, unless SLUICE_TEST_MEDIA names another folder;
SLUICE_SOURCE_DIR, the sources.
Exit status of a test file: 0 passed, 1 failed, 77 skipped.
"""

import contextlib
import faulthandler
import fcntl
import hashlib
import http.client
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import flv

SOURCE_DIR = os.environ.get("SLUICE_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD_DIR = os.environ.get("SLUICE_BUILD_DIR") or os.path.join(SOURCE_DIR, "build")
SLUICED = os.environ.get("SLUICED") or os.path.join(BUILD_DIR, "sluiced")
# Sanitizers keep what is freed, and more: what memory a process has says nothing then.
SANITIZED = "asan" in BUILD_DIR or "tsan" in BUILD_DIR
# Every test runs on either backend of the loop: "uring" or "epoll"; empty for the daemon's own choice.
BACKEND = os.environ.get("SLUICE_TEST_BACKEND", "")
# And with any number of workers; empty for what the test is about, or the daemon's own choice.
WORKERS = os.environ.get("SLUICE_TEST_WORKERS", "")
# What the daemon logs, where a test does not say it: its end is shown with each failure.
LOG_LEVEL = os.environ.get("SLUICE_TEST_LOG_LEVEL", "")

# Seconds after which a test file is ended that does not end by itself, so that it can be seen where it hangs; empty for never.
LIMIT = os.environ.get("SLUICE_TEST_LIMIT", "")
# The cases to run, as for unittest's -k: a part of the name, or a pattern with *.
CASE = os.environ.get("SLUICE_TEST_CASE", "")

# The longest that any condition is waited for, seconds. Far beyond what is needed: its end means a failure.
PATIENCE = 60
# The same once a wait has been in vain, so that one defect does not make every test of a file wait so long.
LESS_PATIENCE = 5
SKIPPED = 77

# Where tools/install-deps puts the Python packages of the tests.
sys.path.append(os.path.join(SOURCE_DIR, "build", "python"))


def skip_file(reason):
    """Ends the test file as skipped as a whole."""
    print("skipped: " + reason)
    sys.exit(SKIPPED)


def need_namespace(test, kind):
    """Skips the test where there can be no namespace of that kind: "net"; or "mount", with a file system."""
    command = {"net": ["true"], "mount": ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]}[kind]
    done = subprocess.run(["unshare", "--" + kind, *command], capture_output=True, check=False)
    if done.returncode != 0:
        test.skipTest("no %s namespace: %s" % (kind, done.stderr.decode().strip()))


class _Result(unittest.TextTestResult):
    """Says what has failed when it has, with what the daemons have logged: the end may not be seen."""

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._tell(self.failures)

    def addError(self, test, err):
        super().addError(test, err)
        self._tell(self.errors)

    def addSubTest(self, test, subtest, err):
        count = len(self.failures), len(self.errors)
        super().addSubTest(test, subtest, err)
        for told, kept in zip(count, (self.failures, self.errors)):
            if len(kept) > told:
                self._tell(kept)

    def _tell(self, kept):
        test, text = kept[-1]
        self.stream.writeln("\n%s\n%s" % (self.getDescription(test), text))
        for daemon in list(Daemon.running):
            self.stream.writeln("log of daemon %d:\n%s" % (daemon.process.pid, daemon.last_lines()))
        self.stream.flush()


def _end_hanging():
    """Says where each thread is, and what the daemons have logged; and ends all of them."""
    print("\nit does not end by itself:", file=sys.stderr, flush=True)
    faulthandler.dump_traceback()
    for daemon in list(Daemon.running):
        print("\nlog of daemon %d:\n%s" % (daemon.process.pid, daemon.last_lines()), file=sys.stderr, flush=True)
        daemon.process.kill()
    os._exit(1)


def main():
    """Runs a test file: skips it when there is no daemon to test."""
    if not os.access(SLUICED, os.X_OK):
        skip_file("no daemon at %s (environment variable SLUICED)" % SLUICED)
    if LIMIT:
        timer = threading.Timer(float(LIMIT), _end_hanging)
        timer.daemon = True
        timer.start()
    run_cases()


def run_cases():
    """Runs the cases of a test file: all, those that the arguments name, or those that SLUICE_TEST_CASE matches."""
    arguments = [*sys.argv, "-k", CASE] if CASE else sys.argv
    program = unittest.main(argv=arguments, verbosity=2, exit=False,
                            testRunner=unittest.TextTestRunner(verbosity=2, resultclass=_Result))
    if CASE and program.result.testsRun == 0:
        sys.exit("no case matches SLUICE_TEST_CASE=%s" % CASE)
    sys.exit(not program.result.wasSuccessful())


class Patience:
    """When waiting ends."""

    _most = PATIENCE

    def __init__(self):
        self._deadline = time.monotonic() + Patience._most

    def left(self):
        """Seconds that are left, 0 at the end."""
        left = max(self._deadline - time.monotonic(), 0)
        if left == 0:
            Patience._most = LESS_PATIENCE
        return left

    @classmethod
    def renew(cls):
        """After a wait that was in vain for a reason that is no defect."""
        cls._most = PATIENCE


def wait_until(condition, what, pause=0.02):
    """Asks again and again until the condition gives something true, and returns it."""
    patience = Patience()
    while True:
        result = condition()
        if result:
            return result
        if not patience.left():
            raise AssertionError("waited in vain for: %s" % (what() if callable(what) else what))
        time.sleep(pause)


def check_same(got, expected, what="packets"):
    """Two sequences are the same; says where they are not, which unittest takes minutes for with long ones."""
    for at, (one, other) in enumerate(zip(got, expected)):
        if one != other:
            raise AssertionError("%s differ from number %d on: %.300r instead of %.300r" % (what, at, one, other))
    if len(got) != len(expected):
        raise AssertionError("%d %s instead of %d" % (len(got), what, len(expected)))


class LogLine:
    """One line of the daemon's log, taken apart."""

    PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warning|info|debug) +(.*)")

    def __init__(self, text):
        self.text = text
        match = self.PATTERN.fullmatch(text)
        self.level = match.group(1) if match else None
        self.message, self.fields = "", {}
        if match:
            words = match.group(2)
            start = re.search(r"(?:^| )[a-z_]+=", words)
            self.message = words[:start.start()] if start else words
            for name, quoted, plain in re.findall(r'([a-z_]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))', words):
                self.fields[name] = quoted or plain

    def __repr__(self):
        return self.text


class NotStarted(Exception):
    """The daemon has not become ready."""


class Daemon:
    """A running sluiced. As a context it is stopped at the end, and has to stop well."""

    running = []  # Those whose end the tests have not seen yet.
    _UNANSWERED = ("the workers do not answer", "not all workers have answered: it may be there",
                   "not all workers have answered: it may yet be done")

    def __init__(self, *options, listen=("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0"), environment=None,
                 within=(), **popen):
        """within: a command line that becomes the daemon; popen: more arguments of subprocess.Popen."""
        self.listening = []
        self._lines, self._part = [], b""
        self._news = threading.Condition()
        self._closed = self._killed = self._unread = False
        if BACKEND and "--backend" not in options:
            options = (*options, "--backend", BACKEND)
        if "--admin" not in options:
            options = (*options, "--admin", "127.0.0.1:0")
        if WORKERS and "--workers" not in options:
            options = (*options, "--workers", WORKERS)
        if LOG_LEVEL and "--log-level" not in options:
            options = (*options, "--log-level", LOG_LEVEL)
        self.process = subprocess.Popen([*within, SLUICED, *listen, *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env=dict(os.environ, **(environment or {})), **popen)
        self.running.append(self)
        self._thread = threading.Thread(target=self._read_log, daemon=True)
        self._thread.start()
        try:
            self.wait_log("ready")
        except AssertionError as error:
            self.kill()
            raise NotStarted(str(error)) from None
        for line in self.log("listening"):
            host, _, port = line.fields["address"].rpartition(":")
            if host != "unix":
                self.listening.append((line.fields["proto"], host.strip("[]"), int(port)))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.stop()
            return
        self.kill()
        print("\nlog of the daemon:\n" + self.last_lines(), file=sys.stderr, flush=True)

    # The log

    def _read_log(self):
        ready = select.poll()
        ready.register(self.process.stderr.fileno(), select.POLLIN)
        while not self._closed:
            ready.poll()
            with self._news:
                while self._unread:
                    self._news.wait()
                self._take_log()

    @contextlib.contextmanager
    def unread_log(self):
        """Nobody reads what the daemon logs meanwhile. Only what was read before is known then."""
        with self._news:
            self._unread = True
        try:
            yield
        finally:
            with self._news:
                self._unread = False
                self._news.notify_all()

    def _take_log(self):
        """Takes what has been logged by now: so who has seen what the daemon did sees what it has said of it before.

        The lock is held.
        """
        if self._closed or self._unread:
            return
        ready = select.poll()
        ready.register(self.process.stderr, select.POLLIN)
        while not self._closed and ready.poll(0):
            data = os.read(self.process.stderr.fileno(), 65536)
            *lines, self._part = (self._part + data).split(b"\n")
            self._closed = not data
            if self._closed and self._part:
                lines.append(self._part)
            self._lines += [LogLine(line.decode(errors="replace")) for line in lines]
            self._news.notify_all()

    def _texts(self):
        with self._news:
            self._take_log()
            return [line.text for line in self._lines]

    def last_lines(self):
        return "\n".join(self._texts()[-60:])

    def log(self, message=None, levels=None, **fields):
        """The lines so far with that message, one of those levels, and those fields."""
        with self._news:
            self._take_log()
            lines = list(self._lines)
        return [line for line in lines if (message is None or line.message == message)
                and (levels is None or line.level in levels)
                and all(line.fields.get(name) == value for name, value in fields.items())]

    def forget_log(self):
        """Forgets all lines so far: in a long run they would be too many."""
        with self._news:
            self._take_log()
            self._lines.clear()

    def complaints(self):
        """Warnings and errors so far, and lines that are no log lines."""
        return self.log(levels=("warning", "error", None))

    def check_complaints(self, count):
        """There are so many of them, and no more: those. What a client has been told may be in the log a moment later."""
        wait_until(lambda: len(self.complaints()) >= count or self._closed, "%d complaints" % count)
        found = self.complaints()
        if len(found) != count:
            raise AssertionError("%d complaints, not %d: %s" % (len(found), count, found))
        return found

    def check_log(self, count, message, **fields):
        """There are so many such lines, and no more, as above."""
        self.wait_log(message, count, **fields)
        found = len(self.log(message, **fields))
        if found != count:
            raise AssertionError("%d lines %r %r, not %d" % (found, message, fields, count))

    def wait_log(self, message, count=1, **fields):
        """Waits until there are that many such lines; returns the last."""
        patience = Patience()
        with self._news:
            while True:
                self._take_log()
                lines = [line for line in self._lines if line.message == message
                         and all(line.fields.get(name) == value for name, value in fields.items())]
                if len(lines) >= count:
                    return lines[-1]
                left = patience.left()
                if self._closed or not left:
                    raise AssertionError("no line %r %r %d times in the log:\n%s" % (
                        message, fields, count, "\n".join(line.text for line in self._lines[-60:])))
                self._news.wait(left)

    # Where it is

    def address(self, protocol="http", at=0):
        host, port = [(host, port) for proto, host, port in self.listening if proto == protocol][at]
        return host, port

    def url(self, name, at=0):
        host, port = self.address("http", at)
        return "http://%s:%d/%s.flv" % ("[%s]" % host if ":" in host else host, port, name)

    def connect(self, protocol="http", at=0, receive_buffer=0, source=None):
        """A socket that is connected to a listener; from that address of this host."""
        host, port = self.address(protocol, at)
        peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer.settimeout(PATIENCE)
        if source:
            peer.bind((source, 0))
        peer.connect((host, port))
        return peer

    def connection(self, at=0, protocol="http"):
        host, port = self.address(protocol, at)
        return http.client.HTTPConnection(host, port, timeout=PATIENCE)

    def request(self, method, path, body=None, headers=None, protocol="http"):
        """One request on its own connection: (status, headers, body)."""
        connection = self.connection(protocol=protocol)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    # What it says of itself

    def admin(self, method, path, body=None, headers=None, patient=True):
        """One request to the administration: (status, headers, body).

        patient: asked again while a worker has not answered in time, which does it later. So what is to be ended may be
        gone by then: 204.
        """
        answer, patience, asked = self.request(method, path, body, headers, "admin"), Patience(), 1
        while patient and answer[0] == 503 and patience.left() and json.loads(answer[2])["detail"] in self._UNANSWERED:
            time.sleep(0.02)
            answer, asked = self.request(method, path, body, headers, "admin"), asked + 1
        if method == "DELETE" and asked > 1 and answer[0] == 404:
            return 204, answer[1], b""
        return answer

    def api(self, path="/api/v1/snapshot"):
        """A document of the API; by default the one that has everything, of all workers."""
        patience = Patience()
        while True:
            status, _, body = self.admin("GET", path)
            if status != 200:
                raise AssertionError("the API answers %d %r" % (status, body))
            document = json.loads(body)
            workers = document.get("workers", ()) if path != "/api/v1/health" else ()
            if all(worker["answers"] for worker in workers) or not patience.left():
                return document

    @contextlib.contextmanager
    def standing_still(self):
        """It does nothing meanwhile, so that what is done to it comes all at once."""
        def all_stopped():
            for task in os.listdir("/proc/%d/task" % self.process.pid):
                with open("/proc/%d/task/%s/stat" % (self.process.pid, task), encoding="ascii") as file:
                    if file.read().rpartition(") ")[2][0] != "T":
                        return False
            return True

        self.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(all_stopped, "the daemon to stand still")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def connections(self):
        """Of all workers."""
        return sum(worker["connections"] for worker in self.api()["workers"])

    def stream(self, name):
        """What the API says of one stream; None when there is no such."""
        return next((stream for stream in self.api()["streams"] if stream["name"] == name), None)

    def wait_stream(self, name, condition=lambda stream: stream["state"] == "live", what="live"):
        """Waits until the API shows the stream in that condition, and returns what it shows."""
        def look():
            stream = self.stream(name)
            return stream if stream and condition(stream) else None
        return wait_until(look, lambda: "stream %s %s; it is %s" % (name, what, self.stream(name)))

    def wait_player(self, name, count=1):
        """Waits until that many players are at the stream, whether it is live or not."""
        return self.wait_stream(name, lambda stream: stream["subscribers"] >= count, "%d players" % count)

    def blocks_settled(self, may_copy=False):
        """Waits until every block and view is back in the pool, and checks that no payload was copied all the while.

        may_copy: there were chunks so small that copies of them are right.
        """
        def look():
            state = self.api()
            pool = state["pool"]
            # Blocks of all sizes. A view may come back after the block it is of: where two threads release their views of
            # one block, the last one gives back the block, and the other one may have been interrupted before its view.
            idle = pool["blocks_held"] == 0 and pool["bytes_held"] == 0 and pool["views"] == 0
            return state if idle and not state["streams"] else None
        state = wait_until(look, lambda: "all blocks back; " + json.dumps(self.api()))
        pool = state["pool"]
        if pool["payload_bytes_copied"] != 0 and not may_copy:
            raise AssertionError("%d payload bytes were copied" % pool["payload_bytes_copied"])
        if pool["blocks_free"] + pool["blocks_kernel"] != pool["blocks_total"]:
            raise AssertionError("the pool's counts do not add up: %s" % pool)
        return state

    # Its end

    def wait_end(self):
        """Waits until it has ended by itself, which has to be well."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError("the daemon does not end:\n" + self.last_lines()) from None
        if status != 0:
            raise AssertionError("the daemon ended with status %d:\n%s" % (status, self.last_lines()))

    def kill(self):
        """Kills it, which it cannot help; there is nothing to stop any more."""
        self._killed = True
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        # What it writes to is also that of the processes that it has started to take over.
        patience = Patience()
        while self._thread.is_alive() and patience.left():
            for line in self.log("upgrading"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.fields["pid"]), signal.SIGKILL)
            self._thread.join(0.1)
        self._end_log()

    def _end_log(self):
        if self in self.running:
            self.running.remove(self)
        if self._thread.is_alive():
            raise AssertionError("somebody still writes to the log of process %d:\n%s" % (
                self.process.pid, self.last_lines()))
        self.process.stderr.close()

    def stop(self, number=signal.SIGTERM):
        """Stops it by a signal: it has to end with status 0, without a sanitizer's report."""
        if self._killed:
            return
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("the daemon does not stop:\n" + self.last_lines()) from None
        self._thread.join(PATIENCE)
        self._end_log()
        texts = self._texts()
        report = [text for text in texts if "Sanitizer" in text or "runtime error:" in text]
        if report or status != 0:
            raise AssertionError("the daemon ended with status %d:\n%s" % (status, "\n".join(texts[-200:])))


def resident_kib(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


class SettledTest(unittest.TestCase):
    """Tests with a daemon each. What a test leaves in its stack ends first; then the daemon has to have let go of it."""

    def start(self, *options, listen):
        daemon = Daemon(*options, listen=listen)
        self.addCleanup(self.stop, daemon)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        return daemon

    def stop(self, daemon):
        try:
            self.check_settled(daemon)
        finally:
            daemon.stop()

    def check_settled(self, daemon):
        daemon.blocks_settled()


def start_again(*options, **more):
    """A daemon in the place of one that was killed, whose sockets the kernel may keep for a while."""
    def start():
        try:
            return Daemon(*options, **more)
        except NotStarted as error:
            if "Address already in use" not in str(error):
                raise
            return None
    return wait_until(start, "the sockets of a daemon that was killed")


def own_host():
    """A loopback address that is this process's alone: a port that is free there is not taken by somebody else meanwhile."""
    pid = os.getpid()
    return "127.%d.%d.%d" % (64 + (pid >> 16), pid >> 8 & 255, pid & 255)


def run_daemon(*arguments):
    """Runs sluiced to its end, for options that make it end: (status, standard output, standard error)."""
    done = subprocess.run([SLUICED, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                          check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def in_thread(test, work):
    """Does some work beside the test, which waits for it at its end; a broken connection ends the work."""
    def run():
        with contextlib.suppress(OSError):
            work()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    test.addCleanup(thread.join)


# Peers by hand


def address_text(peer):
    """A socket's own address as the daemon writes it."""
    host, port = peer.getsockname()[:2]
    return "%s:%d" % ("[%s]" % host if ":" in host else host, port)


def read_head(peer):
    """Reads a response's head: (status, headers in lower case, what came behind it)."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = peer.recv(65536)
        if not more:
            raise AssertionError("the connection ended in the head: %r" % data)
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split(" ")[1]), headers, rest


def read_to_end(peer):
    """Reads until the peer ends, in whatever way."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while True:
            more = peer.recv(65536)
            if not more:
                break
            data += more
    return data


def exchange(daemon, data):
    """Sends bytes to the HTTP port and reads to the end: what came back, whole."""
    with daemon.connect() as peer:
        peer.sendall(data)
        return read_to_end(peer)


def status_of(answer):
    """The status of an answer's first line."""
    match = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    if not match:
        raise AssertionError("not an HTTP answer: %r" % answer[:200])
    return int(match.group(1))


class Dechunker:
    """Chunked bytes in, the body's bytes out."""

    def __init__(self):
        self._rest = b""
        self._left = 0
        self.ended = False

    def feed(self, data):
        self._rest += data
        body = b""
        while self._rest and not self.ended:
            if self._left > 2:
                part = self._rest[:self._left - 2]
                body += part
                self._rest = self._rest[len(part):]
                self._left -= len(part)
                continue
            if self._left:
                if len(self._rest) < 2:
                    break
                if self._rest[:2] != b"\r\n":
                    raise AssertionError("no line end behind a chunk")
                self._rest, self._left = self._rest[2:], 0
                continue
            line, found, behind = self._rest.partition(b"\r\n")
            if not found:
                break
            size = int(line, 16)
            self._rest, self._left = behind, size + 2
            self.ended = size == 0
        return body


class Player:
    """A player of our own: reads a stream in a thread, and keeps its tags."""

    REQUEST = b"GET /%s.flv HTTP/%s\r\nHost: test\r\n\r\n"

    def __init__(self, daemon, name, version="1.1", receive_buffer=0, reading=True, at=0):
        self.tags, self.error, self.status, self.headers = [], None, None, None
        self.finished = False
        self._parser, self._news = flv.Parser(), threading.Condition()
        self.peer = daemon.connect("http", at, receive_buffer)
        self.address = address_text(self.peer)
        self.peer.settimeout(None)
        self.peer.sendall(self.REQUEST % (name.encode(), version.encode()))
        self._thread = threading.Thread(target=self._run, daemon=True)
        if reading:
            self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Begins to read, for one that was made not to."""
        self._thread.start()

    def _run(self):
        try:
            self.status, self.headers, data = read_head(self.peer)
            chunks = Dechunker() if self.headers.get("transfer-encoding") == "chunked" else None
            while True:
                tags = self._parser.feed(chunks.feed(data) if chunks else data) if self.status == 200 else []
                with self._news:
                    self.tags += tags
                    self._news.notify_all()
                if chunks and chunks.ended:
                    break
                data = self.peer.recv(65536)
                if not data:
                    if chunks:
                        raise AssertionError("the connection ended without the last chunk")
                    break
        except (OSError, AssertionError, flv.Broken) as error:
            self.error = error
        with self._news:
            self.finished = True
            self._news.notify_all()

    @property
    def flags(self):
        return self._parser.flags

    @property
    def rest(self):
        """Bytes behind the last whole tag."""
        return self._parser.rest

    @property
    def frames(self):
        with self._news:
            return [tag for tag in self.tags if tag.is_frame]

    def wait(self, condition, what):
        """Waits until the condition on this player holds."""
        patience = Patience()
        with self._news:
            while not condition(self):
                if self.finished or not patience.left():
                    raise AssertionError("the player never came to %s: %d tags, ended %s, error %r" % (
                        what, len(self.tags), self.finished, self.error))
                self._news.wait(1)

    def wait_tags(self, count):
        self.wait(lambda player: len(player.tags) >= count, "%d tags" % count)

    def wait_frame(self, frame):
        """Waits until this frame has come."""
        self.wait(lambda player: player.tags and frame in player.tags[-400:], "frame at %d" % frame.timestamp)

    def wait_end(self):
        """Waits until the daemon has ended the stream."""
        with self._news:
            if not self._news.wait_for(lambda: self.finished, Patience().left()):
                raise AssertionError("the player's stream does not end")

    def close(self):
        with contextlib.suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()
        self.peer.close()


class Publisher:
    """A publisher of our own, on raw TCP or by HTTP with a chunked body."""

    def __init__(self, daemon, name=None, protocol="flv", at=0, method="POST"):
        self.protocol = protocol
        self.peer = daemon.connect(protocol, at)
        self.address = address_text(self.peer)
        self.name = name or "live/flv-%d" % self.peer.getsockname()[1]
        if protocol == "http":
            self.peer.sendall(b"%s /%s.flv HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" % (
                method.encode(), name.encode()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        if isinstance(data, flv.Tag):
            data = data.pack()
        self.peer.sendall(b"%x\r\n%s\r\n" % (len(data), data) if self.protocol == "http" else data)

    def finish(self):
        """Ends the stream well; the status by HTTP, None on raw TCP."""
        if self.protocol == "http":
            self.peer.sendall(b"0\r\n\r\n")
            answer = read_head(self.peer)[0]
        else:
            self.peer.shutdown(socket.SHUT_WR)
            answer = None
            read_to_end(self.peer)
        self.close()
        return answer

    def close(self):
        self.peer.close()


class Steady:
    """A stream with a player that must not notice what the test does beside it.

    It is sent no faster than its player takes it, however busy the machine is.
    """

    def __init__(self, daemon, pause=0.004, name=None, behind=40, **options):
        """behind: tags that the player may be, which have to fit into what the daemon keeps for one."""
        self._behind = behind
        self._pause = pause
        self._ending = threading.Event()
        self._error = None
        self._abandoned = False
        self.publisher = Publisher(daemon, name)
        self.name = self.publisher.name
        self.sent = flv.first_tags()
        self._source = flv.frames(**options)
        self.publisher.send(flv.header() + b"".join(tag.pack() for tag in self.sent))
        daemon.wait_stream(self.name)
        self.player = Player(daemon, self.name)
        daemon.wait_player(self.name)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.player.wait_tags(20)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._ending.set()
        self._thread.join()
        if kind is None:
            self._check()
        self.publisher.close()
        self.player.close()

    def _run(self):
        try:
            while not self._ending.wait(self._pause):
                # There is nothing to be had before the first frame.
                if len(self.sent) > len(flv.first_tags()):
                    self.player.wait_tags(len(self.sent) - self._behind)
                tag = next(self._source)
                self.sent.append(tag)
                self.publisher.send(tag)
        except (OSError, AssertionError) as error:
            self._error = error

    def go_on(self, count=20):
        """Waits until so many tags more have been relayed."""
        self.player.wait_tags(len(self.player.tags) + count)

    def abandon(self):
        """The daemon has been killed: whatever came of the stream is right."""
        self._abandoned = True

    def _check(self):
        if self._abandoned:
            return
        if self._error:
            raise AssertionError("the stream beside was disturbed: %r" % self._error)
        self.player.wait_frame(self.sent[-1])
        check_same(self.player.tags, self.sent, "tags beside")
        self.publisher.finish()


# ffmpeg


def find_ffmpeg():
    """The system's ffmpeg, or None."""
    return shutil.which("ffmpeg")


def find_current_ffmpeg():
    """The ffmpeg of the PyPI package imageio-ffmpeg, which knows the codecs of Enhanced RTMP; or None."""
    try:
        import imageio_ffmpeg  # pylint: disable=import-outside-toplevel
        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        return None


class Ffmpeg:
    """A running ffmpeg that says only what is wrong."""

    def __init__(self, ffmpeg, *arguments, **options):
        self._complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen([ffmpeg, "-v", "error", "-nostdin", "-y", *map(str, arguments)],
                                        stdin=options.pop("stdin", subprocess.DEVNULL), stdout=subprocess.DEVNULL,
                                        stderr=self._complaints, **options)

    def wait(self, patience=PATIENCE):
        """Waits until it ends, which has to be well."""
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if status != 0:
            raise AssertionError("status %d of %s:\n%s" % (status, shlex.join(self.process.args), self.complaints()))

    def complaints(self):
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")

    def kill(self):
        """Kills it, if it still runs, and forgets it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self._complaints.close()


def frame_hashes(ffmpeg, source, target):
    """An ffmpeg that writes one line for each packet of all tracks of the source: stream, times, size and hash."""
    return Ffmpeg(ffmpeg, "-copyts", "-i", source, "-map", "0", "-c", "copy", "-f", "framemd5", target)


def packets(text):
    """The packets in framemd5's text: [("video" or "audio", dts, all that is said of the packet)]."""
    kinds, lines = {}, []
    for line in text.splitlines():
        if line.startswith("#media_type "):
            stream, _, kind = line[len("#media_type "):].partition(":")
            kinds[stream] = kind.strip()
        elif line and not line.startswith("#"):
            stream, _, rest = line.partition(",")
            lines.append((kinds[stream], int(rest.split(",")[0]), rest.strip()))
    return lines


# Media, made once

VIDEO = "-f lavfi -i testsrc=size=320x180:rate=25"
H264 = "-c:v libx264 -preset ultrafast -g 50 -bf 0 -pix_fmt yuv420p"
AAC = "-c:a aac -b:a 64k"


def tone(rate):
    return "-f lavfi -i sine=frequency=440:sample_rate=%d" % rate


def make_media(ffmpeg, arguments):
    """The path of an FLV file that ffmpeg makes from these arguments, unless an earlier run has made it."""
    folder = os.environ.get("SLUICE_TEST_MEDIA") or os.path.join(BUILD_DIR, "media")
    os.makedirs(folder, exist_ok=True)
    version = subprocess.run([ffmpeg, "-version"], capture_output=True, check=True).stdout.split(b"\n")[0]
    name = hashlib.sha256(version + arguments.encode()).hexdigest()[:16]
    path = os.path.join(folder, name + ".flv")
    with open(os.path.join(folder, name + ".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            part = path + ".part"
            maker = Ffmpeg(ffmpeg, *shlex.split(arguments), "-f", "flv", part)
            try:
                maker.wait(300)
            finally:
                maker.kill()
            os.rename(part, path)
    return path
