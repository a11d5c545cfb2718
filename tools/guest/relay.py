"""What the daemon does on this kernel: relay.py flv|rtsp|ktls|clients|choice|disabled. All but disabled run outside of a
guest as well.

flv, rtsp: the same stream through either backend; a player gets exactly what was published. choice: the backend that
it chooses by itself, with a window and without. clients: tests/e2e/test_ktls.py, of which nothing may be skipped.
disabled: io_uring is disabled by sysctl, and the daemon says so and relays on epoll. Exit status: 77 if this kernel
cannot disable io_uring, or has no kTLS for clients.
"""

import contextlib
import hashlib
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
sys.dont_write_bytecode = True

import flv  # noqa: E402
import harness  # noqa: E402
import rtsp  # noqa: E402
import tls  # noqa: E402

STATISTICS = pathlib.Path("/proc/net/tls_stat")
DISABLED = pathlib.Path("/proc/sys/kernel/io_uring_disabled")
# Emulated, on a machine that does more: nothing here is about time.
harness.PATIENCE = harness.Patience._most = 240
FRAMES = int(os.environ.get("SLUICE_RELAY_FRAMES", "400"))


def sent_frames():
    """Pictures of all sizes: of one piece of a block, and of many blocks."""
    source = flv.frames(size=1500)
    for number in range(FRAMES):
        tag = next(source)
        if number % 50 == 0:
            tag = flv.video_frame(tag.timestamp, True, number, 150000)
        yield tag


def play_flv(daemon):
    """All bytes that a player gets; they are those that were published."""
    tags = [*flv.first_tags(), *sent_frames()]
    with harness.Publisher(daemon, None, "flv") as publisher:
        publisher.send(flv.header() + b"".join(tag.pack() for tag in tags[:3]))
        daemon.wait_stream(publisher.name)
        with harness.Player(daemon, publisher.name) as player:
            daemon.wait_player(publisher.name)
            for at, tag in enumerate(tags[3:], 4):
                publisher.send(tag)
                # The publisher is never far ahead, or a slow guest's player would lose frames by the rules.
                if at % 20 == 0 or at == len(tags):
                    player.wait(lambda player, at=at: len(player.tags) >= at, "tag %d" % at)
            got = list(player.tags)
    harness.check_same(got, tags, "tags")
    return b"".join(tag.pack() for tag in got)


def play_rtsp(daemon):
    """What the packets carry that a player gets."""
    units = [(b"\x65" if number % 10 == 0 else b"\x41") + number.to_bytes(4, "big") * (20 if number % 7 else 300)
             for number in range(FRAMES // 2)]
    with contextlib.closing(rtsp.Client(daemon, "live/a")) as publisher:
        publisher.record(rtsp.SDP)
        for channel, rate in ((1, 3600), (3, 1764)):
            publisher.send_report(channel, 1000 * rate)

        def send(numbers):
            for number in numbers:
                publisher.send_rtp(0, units[number], number, (1000 + number) * 3600)
                publisher.send_rtp(2, b"\0\x10\0\xa0" + number.to_bytes(4, "big") * 5, number, (1000 + number) * 1764,
                                   payload_type=97)
        send(range(5))
        with contextlib.closing(rtsp.Player(daemon, "live/a")) as player:
            def wait_picture(number):
                player.wait(lambda player: any(payload == units[number] for _, payload in player.payloads[-60:]),
                            "picture %d" % number)
            # The last picture may be held back until the next one's time is known.
            wait_picture(3)
            for begin in range(5, len(units), 10):
                end = min(begin + 10, len(units))
                send(range(begin, end))
                wait_picture(end - 2)
            got = list(player.payloads)
    pictures = [payload for channel, payload in got if channel == 0 and payload[0] & 31 in (1, 5)]
    last = pictures.index(units[-2])
    harness.check_same(pictures[:last + 1], units[:-1], "pictures")
    sound = [payload for channel, payload in got if channel == 2]
    return b"".join(pictures[:last + 1]) + b"".join(sound[:len(units) - 10])


def on_both(play, listen, *options, kind=harness.Daemon):
    digests = {}
    for backend in ("uring", "epoll"):
        with kind("--backend", backend, "--wait", "600", "--workers", "1", *options, listen=listen) as daemon:
            line = daemon.wait_log("loop created")
            print("features %s: %s" % (backend, line.fields["features"]))
            if line.fields["backend"] != ("io_uring" if backend == "uring" else "epoll"):
                raise AssertionError("the backend is %s" % line.fields["backend"])
            data = play(daemon)
            digests[backend] = hashlib.sha256(data).hexdigest()
            print("%s: %d bytes, SHA-256 %s" % (backend, len(data), digests[backend]))
            # What the log says besides is what is wrong.
            if daemon.log(levels=("error", None)):
                raise AssertionError("the daemon complains: %s" % daemon.log(levels=("error", None)))
    if digests["uring"] != digests["epoll"]:
        raise AssertionError("the backends' bytes differ")


def without_io_uring():
    if "SLUICE_KERNEL" not in os.environ:
        sys.exit("not in a guest: for this machine's other programs nothing is disabled")
    if not DISABLED.exists():
        print("this kernel has no kernel.io_uring_disabled")
        sys.exit(77)
    before = DISABLED.read_text(encoding="ascii")
    DISABLED.write_text("2", encoding="ascii")
    try:
        command = [harness.SLUICED, "--backend", "uring", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        done = subprocess.run(command,
                              stderr=subprocess.PIPE, timeout=harness.PATIENCE, check=False, text=True)
        print(done.stderr)
        if done.returncode != 1 or "kernel.io_uring_disabled" not in done.stderr:
            raise AssertionError("--backend uring: status %d, and the reason is not named" % done.returncode)
        with harness.Daemon("--wait", "600", "--workers", "1") as daemon:
            line = daemon.wait_log("io_uring unavailable")
            if "kernel.io_uring_disabled" not in line.fields.get("detail", ""):
                raise AssertionError("the reason is not named: %s" % line)
            if daemon.wait_log("loop created").fields["backend"] != "epoll":
                raise AssertionError("it is not epoll")
            play_flv(daemon)
    finally:
        DISABLED.write_text(before, encoding="ascii")


def sockets_of_kernel():
    """How many sockets have had their records encrypted by the kernel, of all processes."""
    counters = dict(line.split() for line in STATISTICS.read_text(encoding="ascii").splitlines())
    return int(counters["TlsTxSw"])


def ktls():
    """By TLS, as play_flv() does; a player is sent its records by the kernel, if that has the module."""
    subprocess.run(["modprobe", "tls"], check=False)
    before = sockets_of_kernel() if STATISTICS.exists() else 0

    def play(daemon):
        fields = daemon.wait_log("ktls").fields
        print("ktls: %s" % fields)
        if (fields["sends"] == "yes") != STATISTICS.exists():
            raise AssertionError("the daemon is wrong about the kernel")
        return play_flv(daemon)
    on_both(play, tls.LISTEN, "--ktls", "always", kind=tls.Daemon)
    # Of each daemon the probe's and the player's.
    if STATISTICS.exists() and sockets_of_kernel() - before < 4:
        raise AssertionError("the kernel has encrypted for %d sockets" % (sockets_of_kernel() - before))


def clients():
    """Other programs' connections, whose records the kernel encrypts."""
    subprocess.run(["modprobe", "tls"], check=False)
    if not STATISTICS.exists():
        print("this kernel has no module tls")
        sys.exit(77)
    os.environ["SLUICE_TEST_KTLS"] = "1"
    result = unittest.main(module="test_ktls", argv=["test_ktls"], verbosity=2, exit=False).result
    if not result.wasSuccessful() or result.skipped:
        sys.exit("failed, or skipped: %s" % result.skipped)


def choice():
    """What the daemon chooses, by what it finds: epoll where a kernel has no bundles and there is no window."""
    for window in ("0", "2"):
        with harness.Daemon("--backend", "uring", "--batch", window, "--workers", "1") as daemon:
            bundles = "bundle" in daemon.wait_log("loop created").fields["features"].split()
        with harness.Daemon("--batch", window, "--wait", "600", "--workers", "1") as daemon:
            fields = daemon.wait_log("loop created").fields
            print("auto with a window of %s ms: %s, %s" % (window, fields["backend"], fields["reason"]))
            if fields["backend"] != ("io_uring" if bundles or window != "0" else "epoll"):
                raise AssertionError("bundles: %s, chosen: %s" % (bundles, fields))
            play_flv(daemon)


def main():
    what = sys.argv[1]
    if what == "flv":
        on_both(play_flv, ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0"))
    elif what == "rtsp":
        on_both(play_rtsp, ("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0"))
    elif what == "ktls":
        ktls()
    elif what == "clients":
        clients()
    elif what == "choice":
        choice()
    else:
        without_io_uring()


main()
