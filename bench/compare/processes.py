"""Starts the programs of a run, talks to them by lines with a deadline, and ends them whatever happens."""

import os
import re
import select
import signal
import subprocess
import time

REFUSED = 77  # Exit status of the benchmark programs: this machine does not allow what the run needs.


class RunError(Exception):
    """A run that has failed; the text says why."""


class Refused(RunError):
    """A run that this machine does not allow."""


class Lost(RunError):
    """Not all that was sent has come."""


class Program:
    """A child whose output is read line by line. It is in a session of its own, so Ctrl-C reaches it through us only."""

    def __init__(self, command, deadline, pass_fds=(), log=None, quiet=False):
        """log: a file for what it says on its standard error, where that may be more than a pipe holds; quiet: and on its
        output, which is not read."""
        self.name = os.path.basename(command[0])
        self.deadline = deadline
        self.pending = b""
        self.log = log and log.name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log if quiet else subprocess.PIPE,
                                        stderr=log or subprocess.PIPE,
                                        start_new_session=True, pass_fds=pass_fds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def read_line(self):
        """The next line without its end; None at the end of the output."""
        stdout = self.process.stdout.fileno()
        while b"\n" not in self.pending:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise RunError(f"{self.name} has not answered in time")
            some = os.read(stdout, 65536)
            if not some:
                return None
            self.pending += some
        line, _, self.pending = self.pending.partition(b"\n")
        return line.decode()

    def expect(self, word):
        """The rest of the next line, which begins with the word."""
        line = self.read_line()
        if line is None:
            self.fail()
        first, _, rest = line.partition(" ")
        if first != word:
            raise RunError(f"{self.name} said {line!r} and not {word!r}")
        return rest

    def fail(self):
        """Raises with what the program has said on its way out."""
        try:
            _, errors = self.process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.name} has closed its output, and goes on") from None
        if self.log:
            with open(self.log, "rb") as file:
                errors = file.read()[-1000:]
        text = (errors or b"").decode(errors="replace").strip() or f"ended with status {self.process.returncode}"
        raise (Refused if self.process.returncode == REFUSED else RunError)(text)

    def find_in_log(self, pattern):
        """The groups of a pattern, when the log has it."""
        while time.monotonic() < self.deadline:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if found := re.search(pattern, text, re.DOTALL):
                return found.groups()
            if self.process.poll() is not None:
                raise RunError(f"{self.name} has ended: {text.strip()}")
            time.sleep(0.01)
        raise RunError(f"{self.name} is not ready in time")

    def say(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail()

    def finish(self):
        """Closes the program's input, and waits for its end, which must be a good one."""
        self.process.stdin.close()
        self.process.stdin = None
        try:
            status = self.process.wait(max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.name} does not end") from None
        if status:
            self.fail()

    def end(self):
        """The program and what it has started are gone afterwards."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            os.killpg(self.process.pid, number)
            try:
                self.process.wait(5)  # perf stat waits for its own child in turn.
            except subprocess.TimeoutExpired:
                continue
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
