"""What a frame costs the daemon's relay in instructions and cache lines: bench-lines and bench-lines-server under cachegrind."""

import collections
import json
import os
import shutil
import subprocess
import tempfile

from compare.processes import RunError
from compare.scenarios import LINES, MISSES

# The caches that are simulated, whatever the machine has: size, ways, bytes of a line. The last one is as large as a core's
# own second level.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
MILLISECONDS = 0, 2000  # Of the two runs, after what both begin with. A group of pictures is 2 s.
QUICK_MILLISECONDS = 0, 200
EVENTS = 9  # Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
# What makes the load, and what the kernel would do, by file; the simulated kernel's copies are the C library's.
LOAD = ("/bench/lines/", "/tests/sim/")
COPIES = ("mem", "__mem")
MOST = 25  # Functions.
RELAY = ("bench-lines", "the relay, from a receive's blocks on")
SERVER = ("bench-lines-server", "the data plane, from a receive's completion on")
PROGRAMS = dict(zip(LINES.variants, ((*one, options) for one in (RELAY, SERVER) for options in ((), ("--no-cache",)))))


def parse(text):
    """Counts of each function of the daemon and the library."""
    counts, load = collections.defaultdict(lambda: [0] * EVENTS), set()
    file = function = None
    for line in text.splitlines():
        if line.startswith("fl="):
            file = os.path.normpath(line[3:].strip())
        elif line.startswith("fn="):
            function = line[3:].strip()
            # Of headers that both use, such as those of lists, the load has what is in its own functions.
            if any(part in file for part in LOAD):
                load.add(function)
        elif line[:1].isdigit():
            where = counts[file, function]
            for i, value in enumerate(line.split()[1:EVENTS + 1]):
                where[i] += int(value)
    return merge(counts, load)


def is_counted(file, function, load):
    if any(part in file for part in LOAD) or function.startswith(COPIES):
        return False
    return not (file.endswith(".h") and function in load)


def merge(counts, load):
    """By function: what is inlined in it is in other files."""
    merged = collections.defaultdict(lambda: [0] * EVENTS)
    for (file, function), each in counts.items():
        if is_counted(file, function, load):
            merged[function] = [a + b for a, b in zip(merged[function], each)]
    return merged


def run(program, milliseconds, options):
    with tempfile.TemporaryDirectory(prefix="perf-compare-") as folder:
        path = os.path.join(folder, "counts")
        done = subprocess.run([shutil.which("valgrind"), "--tool=cachegrind", "--cache-sim=yes", *CACHES,
                               f"--cachegrind-out-file={path}", program, "--ms", str(milliseconds), *options],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(f"{os.path.basename(program)}: {done.stderr.strip()[-400:]}")
        with open(path, encoding="utf-8") as file:
            return json.loads(done.stdout.removeprefix("result "))["frames"], parse(file.read())


def per_frame(program, milliseconds, options):
    """Instructions, misses of the first level and of the last one of each function for a frame."""
    (frames, before), (all_frames, after) = (run(program, each, options) for each in milliseconds)
    rows = []
    for function, counts in after.items():
        each = [(b - a) / (all_frames - frames) for a, b in zip(before.get(function, [0] * EVENTS), counts)]
        rows.append((function, each[0], each[4] + each[7], each[5] + each[8]))
    return sorted(rows, key=lambda row: (-row[3], -row[2]))


def show(folder, quick):
    """The tables, with groups cached and without. The totals of each variant, as one round."""
    if not shutil.which("valgrind"):
        raise RunError("--lines needs valgrind: tools/install-deps bench")
    rounds = {}
    for variant, (program, what, options) in PROGRAMS.items():
        rows = per_frame(os.path.join(folder, program), QUICK_MILLISECONDS if quick else MILLISECONDS, options)
        print(f"{what}: 100 publishers, {'no cache' if options else 'cached groups of 2 s'}\n"
              f"{'instr':>10} {'L1 misses':>10} {'L2 misses':>10}  a frame")
        totals = [sum(row[i] for row in rows) for i in (1, 2, 3)]
        for function, instructions, first, last in (("all", *totals), *rows[:MOST]):
            print(f"{instructions:10.1f} {first:10.2f} {last:10.2f}  {function}")
        print(flush=True)
        rounds[variant] = [dict(zip(("instructions", "first_level_misses", MISSES), totals))]
    return rounds
