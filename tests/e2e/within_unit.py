"""Becomes a program under what a systemd unit takes away, as far as one can have it without systemd:

    within_unit.py UNIT WRITABLE [--refuse ERRNO SYSCALL...] -- PROGRAM...

System calls, address families, memory that is written and executed, namespaces, privileges, capabilities, limits, and,
for root, another user and a file system that is read-only but for WRITABLE. The lists are systemd's own, by
systemd-analyze syscall-filter; the filters are made by libseccomp, as systemd makes them. --refuse: further system
calls fail, as in a container whose profile does not know them.
"""

import ctypes
import errno
import os
import resource
import socket
import subprocess
import sys

NOBODY = 65534
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_BIND = 0x20000, 0x4000, 0x40000, 0x1000
MOUNT_ATTR_RDONLY, AT_FDCWD, AT_RECURSIVE, SYS_MOUNT_SETATTR = 1, -100, 0x8000, 442
NAMESPACES = (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80)
WRITE, EXECUTE = 2, 4
ALLOW, NE, EQ, GE, MASKED_EQ = 0x7fff0000, 1, 4, 5, 7

libc = ctypes.CDLL(None, use_errno=True)


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operation", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def check(result, what):
    if result < 0:
        number = ctypes.get_errno() if result == -1 else -result
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def fail_with(number):
    return 0x00050000 | number


class Filter:
    """A seccomp filter."""

    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                               ctypes.POINTER(Comparison)]
    library.seccomp_load.argtypes = [ctypes.c_void_p]

    def __init__(self, default):
        self.context = self.library.seccomp_init(ctypes.c_uint32(default))

    def add(self, action, name, *comparisons):
        number = self.library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # not of this architecture
        array = (Comparison * max(len(comparisons), 1))(*(Comparison(*one) for one in comparisons))
        check(self.library.seccomp_rule_add_array(self.context, action, number, len(comparisons), array), name)

    def load(self):
        check(self.library.seccomp_load(self.context), "seccomp_load")


def read_unit(path):
    """The settings of [Service]: {name: [values]}."""
    settings = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith("#"):
                settings.setdefault(name, []).append(value)
    return settings


def members(name, seen):
    """The system calls of a set, and of those in it."""
    if not name.startswith("@"):
        return {name}
    if name in seen:
        return set()
    seen.add(name)
    text = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
    words = [line.strip() for line in text.splitlines()[1:]]
    return set().union(*(members(word, seen) for word in words if word and not word.startswith("#")))


def allowed_calls(settings):
    allowed = members("@default", set())
    for value in settings["SystemCallFilter"]:
        for word in value.lstrip("~").split():
            if value.startswith("~"):
                allowed -= members(word, set())
            else:
                allowed |= members(word, set())
    return allowed


def restrict(settings, refuse):
    """Two filters, the strictest of which holds: what is denied for its arguments, and what is allowed at all."""
    denied = fail_with(errno.EPERM)
    arguments = Filter(ALLOW)
    families = {getattr(socket, name) for name in settings["RestrictAddressFamilies"][0].split()}
    for family in set(range(1, 46)) - families:
        arguments.add(fail_with(errno.EAFNOSUPPORT), "socket", (0, EQ, family, 0))
    arguments.add(fail_with(errno.EAFNOSUPPORT), "socket", (0, GE, 46, 0))
    if settings["MemoryDenyWriteExecute"] == ["yes"]:
        arguments.add(denied, "mmap", (2, MASKED_EQ, WRITE | EXECUTE, WRITE | EXECUTE))
        for name in ("mprotect", "pkey_mprotect"):
            arguments.add(denied, name, (2, MASKED_EQ, EXECUTE, EXECUTE))
    if settings["RestrictNamespaces"] == ["yes"]:
        for namespace in NAMESPACES:
            arguments.add(denied, "clone", (0, MASKED_EQ, namespace, namespace))
        arguments.add(fail_with(errno.ENOSYS), "clone3")
        arguments.add(denied, "unshare")
        arguments.add(denied, "setns")
    if settings["RestrictSUIDSGID"] == ["yes"]:
        for name, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2)):
            for bit in (0o4000, 0o2000):
                arguments.add(denied, name, (argument, MASKED_EQ, bit, bit))
        # Its flags and mode lie in memory, where no filter looks.
        arguments.add(fail_with(errno.ENOSYS), "openat2")
    if settings["LockPersonality"] == ["yes"]:
        arguments.add(denied, "personality", (0, NE, 0, 0))
    for number, name in refuse:
        arguments.add(fail_with(number), name)
    calls = Filter(fail_with(getattr(errno, settings["SystemCallErrorNumber"][0])))
    for name in allowed_calls(settings):
        calls.add(ALLOW, name)
    arguments.load()
    calls.load()


def read_only_but(writable):
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    none = (ctypes.c_uint64 * 4)(0, MOUNT_ATTR_RDONLY, 0, 0)
    path = os.fsencode(writable)
    check(libc.unshare(CLONE_NEWNS), "unshare")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    check(libc.mount(path, path, None, MS_BIND, None), "mount")
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, 32), "mount_setattr")
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path, 0, none, 32), "mount_setattr")


def set_limit(name, value):
    hard = resource.getrlimit(name)[1]
    most = resource.RLIM_INFINITY if value == "infinity" else int(value)
    if os.geteuid() != 0 and hard != resource.RLIM_INFINITY:
        most = hard if most == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(name, (most, most))
    except ValueError:
        resource.setrlimit(name, (hard, hard))


def drop_privileges(settings, writable):
    set_limit(resource.RLIMIT_MEMLOCK, settings["LimitMEMLOCK"][0])
    set_limit(resource.RLIMIT_NOFILE, settings["LimitNOFILE"][0])
    if os.geteuid() == 0:
        os.chown(writable, NOBODY, NOBODY)
        read_only_but(writable)
        for capability in range(64):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    os.umask(int(settings["UMask"][0], 8))
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def main():
    end = sys.argv.index("--")
    unit, writable, *more = sys.argv[1:end]
    refuse = [(getattr(errno, more[1]), name) for name in more[2:]] if more else []
    settings = read_unit(unit)
    calls = sys.argv[end + 1:]
    drop_privileges(settings, writable)
    restrict(settings, refuse)
    os.execv(calls[0], calls)


if __name__ == "__main__":
    main()
