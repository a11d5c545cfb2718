"""perf stat around a program that says itself when the counting begins and ends."""

import os
import shutil
import signal
import subprocess
import tempfile

from compare.profile import Recording

SOFTWARE = ("task-clock", "context-switches", "page-faults")
SYSCALLS = ("raw_syscalls:sys_enter",)
# What io_uring does beside its system calls.
URING = ("io_uring:io_uring_complete", "io_uring:io_uring_submit_req", "io_uring:io_uring_poll_arm",
         "io_uring:io_uring_task_add", "io_uring:io_uring_task_work_run", "io_uring:io_uring_local_work_run",
         "io_uring:io_uring_cqring_wait", "io_uring:io_uring_queue_async_work")
HARDWARE = ("cycles", "instructions")


def parse(text):
    """Event and value of each line of perf stat -x, that has one; the kernel's part excluded does not count."""
    values = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) < 3 or line.startswith("#"):
            continue
        try:
            value = float(fields[0])
        except ValueError:
            continue  # <not supported>, <not counted>
        if not fields[2].endswith(":u"):
            values[fields[2]] = value
    return values


class Perf:
    """What perf can count here. Timed runs count what is free to count; tracepoints cost those most who make most system
    calls, so they are counted in runs of their own."""

    def __init__(self, allowed=True, thorough=True):
        """thorough: count what io_uring does, and instructions under callgrind, which takes a second and more a run."""
        self.program = shutil.which("perf") if allowed else None
        self.timed = self._counts(SOFTWARE)
        self.traced = self._counts(SYSCALLS) + (self._counts(URING) if thorough else ())
        if self.timed != SOFTWARE:
            self.program, self.timed, self.traced = None, (), ()
        self.hardware = self._counts(HARDWARE)
        self.valgrind = shutil.which("valgrind") if thorough and allowed and not self.hardware else None

    def _counts(self, events):
        if not self.program:
            return ()
        with tempfile.NamedTemporaryFile("r") as output:
            for some in (events, *((event,) for event in events)):
                done = subprocess.run([self.program, "stat", "-x,", "-o", output.name, "-e", ",".join(some), "true"],
                                      capture_output=True, check=False)
                found = parse(output.read()) if done.returncode == 0 else {}
                if len(found) == len(events):
                    return tuple(events)
                output.seek(0)
        return ()

    def describe(self):
        if not self.program:
            missing = "" if shutil.which("perf") else " (tools/install-deps bench)"
            return ("perf stat is missing or not permitted" + missing +
                    ": times are those of getrusage(2), system calls not counted")
        parts = ["perf stat: " + ", ".join(self.timed)]
        parts.append("tracepoints in runs of their own" if self.traced else "no tracepoints (not permitted)")
        parts.append("hardware counters" if self.hardware else "no hardware counters on this machine")
        if not self.hardware and not shutil.which("valgrind"):
            parts.append("no valgrind (tools/install-deps bench), so instructions are not counted")
        if self.valgrind:
            parts.append("instructions of what needs no socket by callgrind")
        return "; ".join(parts)


def command(perf, events, output):
    """perf for a program: counts events to @output; or records, where a profile is wanted in their place."""
    if isinstance(events, Recording):
        return events.command()
    return [perf.program, "stat", "-x,", "-o", output, "-e", ",".join(events)]


class Counting:
    """The command that counts events of a program, and the descriptors by which the program switches the counting."""

    def __init__(self, perf, events):
        self.output = tempfile.NamedTemporaryFile("r", prefix="perf-compare-")
        self.control = os.pipe()
        self.answer = os.pipe()
        self.pass_fds = self.control + self.answer
        self.prefix = [*command(perf, events, self.output.name), "-D", "-1",
                       "--control", f"fd:{self.control[0]},{self.answer[1]}", "--"]
        self.option = ["--perf-control", f"{self.control[1]},{self.answer[0]}"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.output.close()
        for descriptor in self.pass_fds:
            os.close(descriptor)

    def values(self):
        self.output.seek(0)
        return parse(self.output.read())


class Attached:
    """Counts events of a process that runs, from the with statement's begin, or later from begin(), to its end; then values() has them."""

    def __init__(self, perf, events, pid, later=False):
        self.later = later
        self.output = tempfile.NamedTemporaryFile("r", prefix="perf-compare-")
        self.command = [*command(perf, events, self.output.name), "-p", str(pid)]
        self.process = None

    def __enter__(self):
        """It says when it counts: "enable" is answered when that is done. perf record writes nothing once that way is shut."""
        (control, self.control), (self.answer, answer) = os.pipe(), os.pipe()
        try:
            self.process = subprocess.Popen([*self.command, "-D", "-1", "--control", f"fd:{control},{answer}"],
                                            start_new_session=True, pass_fds=(control, answer), stderr=subprocess.DEVNULL)
        finally:
            os.close(control)
            os.close(answer)
        if not self.later:
            self.begin()
        return self

    def begin(self):
        try:
            os.write(self.control, b"enable\n")
            if not os.read(self.answer, 16):
                raise OSError("perf does not answer")
        except OSError:
            self.__exit__()
            raise

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()

    def __exit__(self, *_):
        self.stop()
        os.close(self.control)
        os.close(self.answer)
        self.output.close()

    def values(self):
        self.stop()
        self.output.seek(0)
        return parse(self.output.read())


def instructions(valgrind, command):
    """Instructions that a program executes from its start to its end, None when that cannot be said; and its output."""
    with tempfile.NamedTemporaryFile() as output:
        done = subprocess.run([valgrind, "--tool=callgrind", f"--callgrind-out-file={output.name}", *command],
                              capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        _, found, count = line.partition("Collected :")
        if found and done.returncode == 0:
            return int(count), done.stdout
    return None, done.stdout
