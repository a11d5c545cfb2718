"""What a frame costs the daemon's relay in instructions and cache lines: bench-lines under cachegrind."""

import collections
import json
import os
import shutil
import subprocess
import tempfile

from compare.processes import RunError

# The caches that are simulated, whatever the machine has: size, ways, bytes of a line. The last one is as large as a core's
# own second level.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
MILLISECONDS = 0, 2000  # Of the two runs, after what both begin with. A group of pictures is 2 s.
QUICK_MILLISECONDS = 0, 200
EVENTS = 9  # Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
# What makes the load, and what the kernel would do.
LOAD = ("kernel_copy", "write_tag", "send_frame", "tick", "main")
MOST = 25  # Functions.


def parse(text):
    """Counts of each function."""
    counts, function = collections.defaultdict(lambda: [0] * EVENTS), None
    for line in text.splitlines():
        if line.startswith("fn="):
            function = line[3:].strip()
        elif line[:1].isdigit():
            for i, value in enumerate(line.split()[1:EVENTS + 1]):
                counts[function][i] += int(value)
    return counts


def run(program, milliseconds, options):
    with tempfile.TemporaryDirectory(prefix="perf-compare-") as folder:
        path = os.path.join(folder, "counts")
        done = subprocess.run([shutil.which("valgrind"), "--tool=cachegrind", "--cache-sim=yes", *CACHES,
                               f"--cachegrind-out-file={path}", program, "--ms", str(milliseconds), *options],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(f"bench-lines: {done.stderr.strip()[-400:]}")
        with open(path, encoding="utf-8") as file:
            return json.loads(done.stdout.removeprefix("result "))["frames"], parse(file.read())


def per_frame(program, milliseconds, options):
    """Instructions, misses of the first level and of the last one of each function for a frame."""
    (frames, before), (all_frames, after) = (run(program, each, options) for each in milliseconds)
    rows = []
    for function, counts in after.items():
        if function.split(".")[0] not in LOAD:
            each = [(b - a) / (all_frames - frames) for a, b in zip(before.get(function, [0] * EVENTS), counts)]
            rows.append((function, each[0], each[4] + each[7], each[5] + each[8]))
    return sorted(rows, key=lambda row: (-row[3], -row[2]))


def show(folder, quick):
    """The table, with groups cached and without."""
    if not shutil.which("valgrind"):
        raise RunError("--lines needs valgrind: tools/install-deps bench")
    program = os.path.join(folder, "bench-lines")
    for name, options in (("cached groups of 2 s", ()), ("no cache", ("--no-cache",))):
        rows = per_frame(program, QUICK_MILLISECONDS if quick else MILLISECONDS, options)
        print(f"100 publishers, {name}\n{'instr':>10} {'L1 misses':>10} {'L2 misses':>10}  a frame")
        total = ("all", *(sum(row[i] for row in rows) for i in (1, 2, 3)))
        for function, instructions, first, last in (total, *rows[:MOST]):
            print(f"{instructions:10.1f} {first:10.2f} {last:10.2f}  {function}")
        print(flush=True)
