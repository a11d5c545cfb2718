"""Where and of what figures were taken."""

import datetime
import os
import platform
import subprocess


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


def describe(root, perf):
    commit = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "src", "include", "bench", "cmake",
                   "CMakeLists.txt")
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count(),
        "virtual": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "commit": (commit or "unknown") + (" with changes" if changed else ""),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "counters": perf.describe(),
        "load": os.getloadavg()[0],
    }
