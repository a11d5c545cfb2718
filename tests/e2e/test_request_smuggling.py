"""Request smuggling: what the HTTP framer makes of requests that may be read in several ways, beside other parsers.

The others are programs that are not ours: nginx and haproxy, as proxies in front of Node.js; Node.js' own parser (llhttp); and
h11. Ours must be among the strictest: where it takes what another one refuses, or reads it in another way, EXPLAINED says why
that hides no request. And the daemon does with each connection what its framer says.

    test_request_smuggling.py --table       the verdicts, where they are not all the same, as Markdown
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import harness
import smuggling

try:
    import h11
except ImportError:
    h11 = None

HERE = os.path.dirname(os.path.abspath(__file__))
REQUESTS = os.path.join(harness.BUILD_DIR, "tests", "http_requests")
PEERS = os.path.join(harness.SOURCE_DIR, "build", "peers", "usr", "sbin")
REFUSED = "refused"
TOGETHER = 24  # Connections at a time.

# Cases of which ours takes what somebody else refuses, or reads otherwise than somebody does, and why that is no harm.
EXPLAINED = {
    "TE tab before": "blanks around a value are spaces and tabs: RFC 9110, 5.6.3",
    "TE tab behind": "blanks around a value are spaces and tabs: RFC 9110, 5.6.3",
    "CL tab before": "blanks around a value are spaces and tabs: RFC 9110, 5.6.3",
    "chunk blank before the extension": "a recipient must accept it: RFC 9112, 7.1.1; before anything but \";\" we refuse it",
    "chunk trailer Content-Length": "trailers are dropped, and never become headers: RFC 9110, 6.5.1",
    "chunk trailer Transfer-Encoding": "trailers are dropped, and never become headers: RFC 9110, 6.5.1",
    "empty line before": "one is stepped over, as it should be: RFC 9112, 2.2; it is no request",
    "another Host in the target": "the target's counts: RFC 9112, 3.2.2; nothing here depends on either",
}


class Verdict:
    """What was taken: requests, and then nothing (all was taken), or a refusal of the rest."""

    def __init__(self, requests, refused):
        self.requests, self.refused = tuple(requests), refused

    def __eq__(self, other):
        return (self.requests, self.refused) == (other.requests, other.refused)

    def __hash__(self):
        return hash((self.requests, self.refused))

    def __str__(self):
        def short(request):
            method, target, body = request.split(" ")
            text = bytes.fromhex(body[1:])
            return "%s %s%s" % (method, target, " %d" % len(text) if text else "")
        return ", ".join([short(request) for request in self.requests if "/last" not in request]
                         + (["refused"] if self.refused else []))


def is_last(request):
    return request.startswith("GET /last ")


def framer_verdicts():
    """Of our framer. Who waits for more than there is has not taken the last request, which is what a refusal means here."""
    text = b"".join(b"%d\n%s" % (len(case), case) for case in smuggling.CASES.values())
    out = subprocess.run([REQUESTS], input=text, stdout=subprocess.PIPE, check=True, timeout=harness.PATIENCE).stdout
    verdicts, requests = [], []
    for line in out.decode("latin-1").splitlines():
        if line.startswith("="):
            verdicts.append(Verdict(requests, not (requests and is_last(requests[-1]))))
            requests = []
        else:
            requests.append(line)
    return verdicts


def h11_verdict(case):
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(case)
    requests, body = [], b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = "%s %s" % (event.method.decode(), event.target.decode("latin-1")), b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                requests.append("%s .%s" % (head, body.hex()))
                connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.states[h11.SERVER] is not h11.DONE:
                    break
                connection.start_next_cycle()
            elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                break
    except h11.RemoteProtocolError:
        pass
    return Verdict(requests, not (requests and is_last(requests[-1])))


def exchange(port, case):
    """All that a server answers, until it ends the connection: at its own deadline, where it waits for more."""
    with socket.create_connection(("127.0.0.1", port), harness.PATIENCE) as peer:
        answer = b""
        with contextlib.suppress(ConnectionError):
            peer.sendall(case)
            while more := peer.recv(65536):
                answer += more
    return answer


def server_verdict(port, case):
    requests = []
    for line in re.findall(rb"^([A-Z]+ \S+ \.[0-9a-f]*)$", exchange(port, case), re.MULTILINE):
        requests.append(line.decode("latin-1"))
    return Verdict(requests, not (requests and is_last(requests[-1])))


@contextlib.contextmanager
def node():
    """Says what it takes requests for."""
    with subprocess.Popen(["node", os.path.join(HERE, "http_node.js")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        yield int(process.stdout.readline().split()[1])
        process.stdin.close()


NGINX = """
daemon off; master_process off; pid %(folder)s/pid; error_log stderr crit;
events { worker_connections 512; }
http {
    access_log off; client_body_timeout 2s; client_header_timeout 2s; keepalive_timeout 2s;
    client_body_temp_path %(folder)s/a; proxy_temp_path %(folder)s/b; fastcgi_temp_path %(folder)s/c;
    uwsgi_temp_path %(folder)s/d; scgi_temp_path %(folder)s/e;
    server { listen 127.0.0.1:%(port)d; location / { proxy_pass http://127.0.0.1:%(behind)d; proxy_http_version 1.1; } }
}
"""

HAPROXY = """
global
    maxconn 512
defaults
    mode http
    timeout connect 5s
    timeout client 2s
    timeout http-request 2s
    timeout server 5s
frontend in
    bind 127.0.0.1:%(port)d
    default_backend out
backend out
    server node 127.0.0.1:%(behind)d
"""


def free_port():
    """Of a program that cannot say which one it has got. Taken by nobody else, as long as ports are given out in turn."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def proxy(name, text, arguments, behind):
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        path = os.path.join(folder, "config")
        with open(path, "w", encoding="utf-8") as config:
            config.write((text % {"port": port, "behind": behind, "folder": folder}).lstrip())
        with subprocess.Popen([find(name), *arguments, path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as process:
            def listens():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    return True
                return process.poll() is not None
            harness.wait_until(listens, "%s to listen" % name)
            if process.poll() is not None:
                raise AssertionError("%s has not started" % name)
            try:
                yield port
            finally:
                process.terminate()


def find(name):
    """The program, installed or out of its package; None where there is none."""
    own = os.path.join(PEERS, name)
    return own if os.access(own, os.X_OK) else shutil.which(name) or shutil.which(name, path="/usr/sbin")


def others():
    """Verdicts of the other parsers by their names, of those that are there, on all cases."""
    cases = list(smuggling.CASES.values())
    verdicts = {}
    if h11:
        verdicts["h11"] = [h11_verdict(case) for case in cases]
    if not shutil.which("node"):
        return verdicts
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(TOGETHER))
        ports = {"node": stack.enter_context(node())}
        if find("nginx"):
            ports["nginx"] = stack.enter_context(proxy("nginx", NGINX, ["-c"], ports["node"]))
        if find("haproxy"):
            ports["haproxy"] = stack.enter_context(proxy("haproxy", HAPROXY, ["-f"], ports["node"]))
        for name, port in ports.items():
            verdicts[name] = list(pool.map(lambda case, port=port: server_verdict(port, case), cases))
    return verdicts


def needs_explanation(own, other):
    """Another one is stricter, or takes something else for the same bytes."""
    return not own.refused and own != other


class SmugglingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.own = dict(zip(smuggling.CASES, framer_verdicts()))
        cls.others = {name: dict(zip(smuggling.CASES, verdicts)) for name, verdicts in others().items()}

    def test_the_framer_is_among_the_strictest(self):
        for name in ("h11", "node", "nginx", "haproxy"):
            with self.subTest(name):
                if name not in self.others:
                    self.skipTest("%s is not installed" % name)
                for case, own in self.own.items():
                    if case not in EXPLAINED:
                        self.assertFalse(needs_explanation(own, self.others[name][case]),
                                         "%s: ours: %s; %s: %s" % (case, own, name, self.others[name][case]))

    def test_what_is_explained_differs(self):
        self.assertLessEqual(set(EXPLAINED), set(smuggling.CASES))
        if len(self.others) < 4:
            self.skipTest("needs all parsers")
        for case in EXPLAINED:
            self.assertTrue(any(needs_explanation(self.own[case], other[case]) for other in self.others.values()), case)

    def test_nothing_is_both_chunked_and_of_a_length(self):
        """But where one of the lines is another header, by its name."""
        taken = {case for case, own in self.own.items() if case.startswith("TE ") and case.endswith(", CL 5") and own.requests}
        self.assertEqual(taken, {"TE name underscore, CL 5"})

    def test_the_daemon_does_as_its_framer_says(self):
        """As many answers as requests, and for what is refused one more, behind which the connection ends."""
        with harness.Daemon() as daemon, ThreadPoolExecutor(TOGETHER) as pool:
            port = next(port for protocol, _, port in daemon.listening if protocol == "http")
            answers = pool.map(lambda case: exchange(port, case), smuggling.CASES.values())
            for (name, own), answer in zip(self.own.items(), answers):
                statuses = [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d+) ", answer, re.MULTILINE)]
                self.assertTrue(statuses, name)
                self.assertLessEqual(len(statuses), len(own.requests) + own.refused, name)
                self.assertTrue(all(status >= 400 for status in statuses), (name, statuses))


class AdministrationTest(unittest.TestCase):
    """The administration's port takes the same requests, by the same framer."""

    REFUSED = {400, 413, 414, 431, 501, 505}

    def test_it_does_as_the_framer_says(self):
        """An answer for each request that the framer takes, 403 for its Host; one for what it refuses, and nothing behind."""
        own = dict(zip(smuggling.CASES, framer_verdicts()))
        with harness.Daemon() as daemon, ThreadPoolExecutor(TOGETHER) as pool:
            port = daemon.address("admin")[1]
            answers = pool.map(lambda case: exchange(port, case), smuggling.CASES.values())
            wrong = []
            for (name, verdict), answer in zip(own.items(), answers):
                statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]
                # A method that is not known, such as that of "helloGET", is 501.
                expected = [403 if request.split()[0] in ("GET", "POST") else 501 for request in verdict.requests]
                taken = len(expected)
                # What waits for more is ended without an answer.
                if (statuses[:taken] != expected or len(statuses) > taken + verdict.refused
                        or not set(statuses[taken:]) <= self.REFUSED):
                    wrong.append((name, str(verdict), statuses))
            self.assertEqual(wrong, [])


def print_table():
    own, found = framer_verdicts(), others()
    same = 0
    print("| request | ours | %s | why ours takes it |" % " | ".join(found))
    print("|---|---|%s---|" % ("---|" * len(found)))
    for i, case in enumerate(smuggling.CASES):
        verdicts = [own[i]] + [verdicts[i] for verdicts in found.values()]
        if len(set(verdicts)) == 1:
            same += 1
            continue
        print("| %s | %s | %s |" % (case, " | ".join(str(verdict) or "-" for verdict in verdicts), EXPLAINED.get(case, "")))
    print("\nIn %d of %d cases all verdicts are the same." % (same, len(smuggling.CASES)))


if __name__ == "__main__":
    if "--table" in sys.argv:
        print_table()
    else:
        harness.main()
