"""The tools, run by the end-to-end tests."""

import json
import os
import subprocess

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


def lines(out):
    """JSON lines."""
    return [json.loads(line) for line in out.splitlines()]
