"""A daemon of which one thread stands still."""

import ctypes
import os
import platform

import harness

# The calls in which a thread waits for something to do, or sleeps: epoll_wait, epoll_pwait, epoll_pwait2, io_uring_enter, poll,
# ppoll, nanosleep, clock_nanosleep.
WAITS = {"x86_64": {232, 281, 441, 426, 7, 271, 35, 230}, "aarch64": {22, 441, 426, 73, 101, 115}}


def _find(daemon, name):
    folder = "/proc/%d/task" % daemon.process.pid
    names = {}
    for number in os.listdir(folder):
        with open("%s/%s/comm" % (folder, number), encoding="ascii") as file:
            names[file.read().strip()] = int(number)
    return names[name]


def _waits(process, thread):
    """Whether it waits in the kernel for something to do: there it has no lock, not even the allocator's."""
    with open("/proc/%d/task/%d/syscall" % (process, thread), encoding="ascii") as file:
        call = file.read().split()[0]
    return call != "running" and int(call) in WAITS[platform.machine()]


def is_idle(daemon, name):
    """Whether the thread waits for something to do."""
    return _waits(daemon.process.pid, _find(daemon, name))


class StoppedThread:
    """One thread of a daemon, which does nothing any more until the end of the context; the others go on.

    It is stopped where it waits: with a lock, say of the log or of a sanitizer's allocator, it would stop the others, too.
    """

    # ptrace(2), waitpid(2)
    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, daemon, name):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._libc.ptrace.restype = ctypes.c_long
        self._process, self._id = daemon.process.pid, _find(daemon, name)

    def __enter__(self):
        harness.wait_until(self._stop, "the thread to wait for something", pause=0.001)
        return self

    def __exit__(self, *_):
        self._trace(self.DETACH)

    def _stop(self):
        if not _waits(self._process, self._id):
            return False
        self._trace(self.SEIZE)
        self._trace(self.INTERRUPT)
        os.waitpid(self._id, self.WALL)
        # It may have gone on meanwhile.
        if _waits(self._process, self._id):
            return True
        self._trace(self.DETACH)
        return False

    def _trace(self, request):
        if self._libc.ptrace(request, self._id, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace: " + os.strerror(ctypes.get_errno()))
