"""A daemon of which one thread stands still."""

import ctypes
import os
import platform

FUTEX = {"x86_64": 202, "aarch64": 98}  # futex(2)


def _find(daemon, name):
    folder = "/proc/%d/task" % daemon.process.pid
    names = {}
    for number in os.listdir(folder):
        with open("%s/%s/comm" % (folder, number), encoding="ascii") as file:
            names[file.read().strip()] = int(number)
    return names[name]


def is_idle(daemon, name):
    """Whether the thread waits in the kernel, for something else than a lock."""
    with open("/proc/%d/task/%d/syscall" % (daemon.process.pid, _find(daemon, name)), encoding="ascii") as file:
        call = file.read().split()[0]
    return call != "running" and int(call) != FUTEX[platform.machine()]


class StoppedThread:
    """One thread of a daemon, which does nothing any more until the end of the context; the others go on."""

    # ptrace(2), waitpid(2)
    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, daemon, name):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._libc.ptrace.restype = ctypes.c_long
        self._id = _find(daemon, name)

    def __enter__(self):
        self._trace(self.SEIZE)
        self._trace(self.INTERRUPT)
        os.waitpid(self._id, self.WALL)
        return self

    def __exit__(self, *_):
        self._trace(self.DETACH)

    def _trace(self, request):
        if self._libc.ptrace(request, self._id, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace: " + os.strerror(ctypes.get_errno()))
