"""Where and of what figures were taken."""

import datetime
import os
import platform
import subprocess
import time

from compare import network

IDLE, PATIENCE, LOOK_S = 0.05, 60, 1.0  # A processor may be busy by so much in the second before; how many seconds that is waited for.


def _jiffies():
    """Of all processors since they started: those in which they did something, and all."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, idle, waiting, *others = map(int, file.readline().split()[1:9])
    return user + nice + system + sum(others), user + nice + system + idle + waiting + sum(others)


def _busy():
    """The part of the processors' time that is used while nothing of ours runs."""
    before = _jiffies()
    time.sleep(LOOK_S)
    used, passed = (after - earlier for after, earlier in zip(_jiffies(), before))
    return used / passed if passed else 0.0


def settled(patience):
    """That part, when it is small, as it may not be where a build has just ended; what is left of it after so many seconds."""
    end = time.monotonic() + patience
    while (busy := _busy()) > IDLE and time.monotonic() < end:
        pass
    return busy


def is_busy(described):
    return float(described["busy"]) > IDLE


def _field(path, key):
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return "unknown"


def _git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def describe(root, perf, seconds, patience=PATIENCE):
    """A line of the machine file, for recordings of runs of so many seconds; @patience: seconds that may be waited until it is idle."""
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src", "include", "bench", "cmake",
                   "CMakeLists.txt", ":(exclude)bench/results", ":(exclude)bench/**.md")
    busy = settled(patience)
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "sitting": f"{now:%Y%m%dT%H%M%S}",
        "date": now.isoformat(timespec="seconds"),
        "commit": (commit or "unknown") + (" with changes" if changed else ""),
        "seconds": f"{seconds:g}",
        "busy": f"{busy:.3f}",
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count(),
        "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "counters": perf.describe(),
        "network": network.describe(),
    }
