"""Where a variant's processor time goes: one run of it under perf record."""

import os
import re
import subprocess
import tempfile

from compare.processes import RunError

FREQUENCY = 1999  # Of the processor's clock, a second: no multiple of what the kernel does a hundred times.
LEAST = 2.0  # Percent of the samples: functions that have less are left out.
MOST = 40  # Functions.


class Recording:
    """In place of the events that perf stat counts; as a with statement, the file that perf record writes."""

    def __init__(self, perf):
        self.program = perf.program

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="perf-compare-")
        self.path = os.path.join(self.folder.name, "perf.data")
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def command(self):
        return [self.program, "record", "-q", "-g", "-e", "cpu-clock", "-F", str(FREQUENCY), "-o", self.path]

    def lines(self):
        """The part of user mode, and a table of functions, those above that call those below: their part of the time with all that they
        call, and by themselves."""
        done = subprocess.run([self.program, "report", "-i", self.path, "--stdio", "--children", "-g", "none", "--sort",
                               "symbol", "--percent-limit", "0"], capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            raise RunError(f"perf report: {done.stderr.strip()}")
        return parse(done.stdout)


def parse(text):
    """Of perf report's table, whose columns are both parts, [k] or [.], and the symbol; those without a name are left out."""
    rows = [row for row in (line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")) if len(row) >= 4]
    user = sum(percent(alone) for _, alone, kind, *_ in rows if kind != "[k]")
    found = [f"{total:>8} {alone:>9}  {'kernel' if kind == '[k]' else '':<6}  {symbol}"
             for total, alone, kind, symbol, *_ in rows if percent(total) >= LEAST and not symbol.startswith("0x")]
    seconds = sum(int(count) for count in re.findall(r"^# Event count \(approx\.\): (\d+)", text, re.MULTILINE)) / 1e9
    return [f"{seconds:.3f} s of processor time, {user:.1f} % of it in user mode", f"{'with all':>8} {'by itself':>9}"] + found[:MOST]


def percent(text):
    return float(text.rstrip("%"))
