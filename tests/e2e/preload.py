"""Libraries that are preloaded into a program to count something (preload.h), and what they have counted."""

import mmap
import os
import shutil
import struct
import subprocess
import tempfile

import harness


def is_sanitized():
    """Whether the daemon has a sanitizer's runtime, which has its own malloc."""
    with open(harness.SLUICED, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(name) >= 0 for name in (b"__asan_init", b"__tsan_init", b"__msan_init"))


def find_compiler():
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def build(folder, name, *flags):
    """The library of NAME.c, in that folder."""
    library = os.path.join(folder, name + ".so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".c")
    subprocess.run([find_compiler(), "-std=gnu11", "-fno-builtin", "-fPIC", "-shared", *flags, "-o", library, source],
                   check=True)
    return library


def environment(library):
    """For the program that it is preloaded into, in front of a sanitizer's runtime, if there is one."""
    return {"LD_PRELOAD": library, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Counter:
    """A count from 0 on, and the environment for the program that is counted."""

    def __init__(self, folder, library):
        path = os.path.join(folder, "counter")
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self.environment = {"SLUICE_TEST_COUNTER": path, **environment(library)}

    def reset(self):
        self.set(0)

    def set(self, value):
        self._map[:8] = struct.pack("=q", value)

    def count(self):
        return struct.unpack("=Q", self._map[:8])[0]

    def close(self):
        self._map.close()


def skewed_clock(test, *flags):
    """A count of the microseconds by which the clock of a program is ahead. Without a compiler the test is skipped. @flags:
    -DSKEW_MONOTONIC for the monotonic clock instead of the wall clock."""
    if not find_compiler():
        test.skipTest("no compiler")
    folder = tempfile.mkdtemp()
    test.addCleanup(shutil.rmtree, folder)
    clock = Counter(folder, build(folder, "skew_clock", "-O1", *flags))
    test.addCleanup(clock.close)
    return clock
