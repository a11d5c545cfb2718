"""A loopback of our own with the settings that a kernel has if nobody changes them, whatever this machine's are.

With BBR, which some machines have by default, a socket with something left to send has a timer, which on loopback runs on the
receiver's processor: `saturated` costs 1.2 to 1.5 times as much, and one program more than another."""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
SETTINGS = {"tcp_congestion_control": "cubic", "tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304"}
CONTROL, *BUFFERS = SETTINGS
FOLDER = "/proc/sys/net/ipv4"


def _raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(one, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def enter():
    """This thread and what it starts from now on are alone in a network of their own, with those settings. Where that is not allowed,
    all stays as it is: why_not() says so. A network of its own has only the congestion controls that all users may have."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) < 0:
        return
    _raise_loopback()
    for name, value in SETTINGS.items():
        with contextlib.suppress(OSError), open(os.path.join(FOLDER, name), "w", encoding="ascii") as file:
            file.write(value)


def _in_force():
    found = {}
    for name in SETTINGS:
        with open(os.path.join(FOLDER, name), encoding="ascii") as file:
            found[name] = " ".join(file.read().split())
    return found


def describe():
    """The settings in force, as a line of the machine file has them."""
    found = _in_force()
    buffers = all(found[name] == SETTINGS[name] for name in BUFFERS)
    return found[CONTROL] + ("" if buffers else f", buffers {found['tcp_rmem']} and {found['tcp_wmem']}")


def is_as_recorded(described):
    """Whether a line of the machine file has those settings; older lines do not say."""
    return described == SETTINGS[CONTROL]


def why_not():
    """What is not as in the recordings, and what to do; None: all is."""
    found = _in_force()
    if found[CONTROL] != SETTINGS[CONTROL]:
        return (f"the congestion control is {found[CONTROL]}, not {SETTINGS[CONTROL]}: root may allow that to networks of their own by "
                f"sysctl -w net.ipv4.tcp_allowed_congestion_control='reno {found[CONTROL]} {SETTINGS[CONTROL]}'")
    return None if found == SETTINGS else "buffers of sockets are those of this machine"
