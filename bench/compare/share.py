"""A part of a processor for a server, by the kernel's bandwidth control: of each period it may run for so long. With the other part
idle, the programs that make the load have time to spare, on a machine that has a processor for either."""

import contextlib
import os
import subprocess

from compare.processes import RunError

# Short beside the delays that are measured: a server that has used its part waits for the rest of a period. And no multiple of the
# 5 ms in which publishers send, so that they come at any place in it.
PERIOD_US = 7000
MOUNTS = "/proc/mounts"


def _hierarchy():
    """Where groups with limits of the processor are made, and whether by the second version's files; or None."""
    with open(MOUNTS, encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for _, place, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpu" in options.split(","):
            return place, False
    for _, place, kind, *_ in mounts:
        if kind == "cgroup2":
            with open(os.path.join(place, "cgroup.controllers"), encoding="ascii") as file:
                if "cpu" in file.read().split():
                    return place, True
    return None


def _write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(str(text))


class Share:
    """A group of processes that has this part of a processor, from 0 to 1, and ends with the block. Processes that are in it then
    return to where all are."""

    def __init__(self, part):
        hierarchy = _hierarchy()
        if not hierarchy:
            raise RunError("no control group limits the processor here: the controller cpu is not mounted")
        self.root, second = hierarchy
        self.folder = os.path.join(self.root, f"sluice-bench-{os.getpid()}")
        quota = int(part * PERIOD_US)
        try:
            if second:
                _write(self.root, "cgroup.subtree_control", "+cpu")
            os.mkdir(self.folder)
            if second:
                _write(self.folder, "cpu.max", f"{quota} {PERIOD_US}")
            else:
                _write(self.folder, "cpu.cfs_period_us", PERIOD_US)
                _write(self.folder, "cpu.cfs_quota_us", quota)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
            raise RunError(f"a control group cannot be made: {error}") from None

    def add(self, pid):
        """The process, and the threads and children that it makes from now on."""
        try:
            _write(self.folder, "cgroup.procs", pid)
        except OSError as error:
            raise RunError(f"a process cannot be moved to a control group: {error}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with open(os.path.join(self.folder, "cgroup.procs"), encoding="ascii") as file:
            for pid in file.read().split():
                with contextlib.suppress(ProcessLookupError):  # It has just ended.
                    _write(self.root, "cgroup.procs", pid)
        os.rmdir(self.folder)


def why_not(part):
    """Why no process can be given such a part here, or None."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        with Share(part) as share:
            share.add(child.pid)
    except RunError as error:
        return str(error)
    finally:
        child.kill()
        child.wait()
    return None
