"""The tools, run by the end-to-end tests."""

import contextlib
import json
import os
import socket
import subprocess
import threading

import harness


def path(name):
    return os.path.join(harness.BUILD_DIR, name)


def _command(name, arguments):
    backend = ("--backend", harness.BACKEND) if harness.BACKEND else ()
    return [path(name), *backend, *map(str, arguments)]


def main(*names):
    """Runs a test file, where the tools are there to be tested."""
    for name in names:
        if not os.access(path(name), os.X_OK):
            harness.skip_file("no %s" % path(name))
    harness.main()


def run(name, *arguments, data=None, backend=True):
    """Runs a tool to its end: (status, standard output, standard error)."""
    command = _command(name, arguments) if backend else [path(name), *map(str, arguments)]
    done = subprocess.run(command, input=data, stdin=subprocess.DEVNULL if data is None else None,
                          capture_output=True, timeout=harness.PATIENCE, check=False)
    errors = done.stderr.decode()
    if "Sanitizer" in errors or "runtime error:" in errors:
        raise AssertionError(errors)
    return done.returncode, done.stdout.decode(), errors


class Running:
    """A tool that runs beside the test."""

    def __init__(self, name, *arguments):
        self.process = subprocess.Popen(_command(name, arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait(self):
        """Waits for its end: (status, standard output, standard error)."""
        out, errors = self.process.communicate(timeout=harness.PATIENCE)
        errors = errors.decode()
        if "Sanitizer" in errors or "runtime error:" in errors:
            raise AssertionError(errors)
        return self.process.returncode, out.decode(), errors


# What drives a terminal, or looks like something else on one: C0, C1, C1 as a byte, DEL, an override of the direction.
HOSTILE = "\x1b]0;x\x07\x9b2J\x7f\u202e\u2066".encode() + b"\x9b1m\xff"
HOSTILE_SHOWN = r"\x1b]0;x\x07\u009b2J\x7f\u202e\u2066\x9b1m\xff"


@contextlib.contextmanager
def hostile_server(answer):
    """Answers each connection's first bytes with these, and ends it. The port."""
    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer, contextlib.suppress(OSError):
                    peer.recv(65536)
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(65536):
                        pass
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def lines(out):
    """JSON lines."""
    return [json.loads(line) for line in out.splitlines()]
