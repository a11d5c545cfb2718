"""Where and of what figures were taken."""

import datetime
import os
import platform
import subprocess

from compare import network


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


def describe(root, perf, seconds):
    """A line of the machine file, for recordings of runs of so many seconds."""
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src", "include", "bench", "cmake",
                   "CMakeLists.txt", ":(exclude)bench/results", ":(exclude)bench/**.md")
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "sitting": f"{now:%Y%m%dT%H%M%S}",
        "date": now.isoformat(timespec="seconds"),
        "commit": (commit or "unknown") + (" with changes" if changed else ""),
        "seconds": f"{seconds:g}",
        "load": f"{os.getloadavg()[0]:.2f}",
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count(),
        "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "counters": perf.describe(),
        "network": network.describe(),
    }
