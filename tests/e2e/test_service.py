"""What a service manager sees: the messages of sd_notify(3), on a socket that the test listens at."""

import contextlib
import os
import re
import select
import signal
import socket
import tempfile
import threading
import time
import unittest

import harness

LISTEN = 'http = "127.0.0.1:0";\n'


class ServiceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.config = os.path.join(folder.name, "sluiced.conf")
        self.write(LISTEN)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.path = os.path.join(folder.name, "notify")
        self.socket.bind(self.path)
        self.socket.settimeout(harness.PATIENCE)

    def write(self, text):
        with open(self.config, "w", encoding="ascii") as file:
            file.write(text)

    def start(self, **environment):
        daemon = harness.Daemon("--config", self.config, listen=(), environment=dict(
            environment, NOTIFY_SOCKET=self.path))
        self.addCleanup(daemon.kill)
        return daemon

    def message(self):
        return self.socket.recv(4096).decode().split("\n")

    def test_life(self):
        daemon = self.start()
        self.assertEqual(self.message(), ["READY=1"])
        for text, log in ((LISTEN + "idle = 20;", "configuration reloaded"), ("nonsense", "configuration refused")):
            self.write(text)
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            daemon.process.send_signal(signal.SIGHUP)
            state, since = self.message()
            self.assertEqual(state, "RELOADING=1")
            self.assertGreaterEqual(int(re.fullmatch(r"MONOTONIC_USEC=(\d+)", since)[1]), before)
            self.assertEqual(self.message(), ["READY=1"])
            daemon.wait_log(log)
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.message(), ["STOPPING=1"])
        daemon.process.wait(harness.PATIENCE)

    def test_watchdog(self):
        """It says that it is alive, again and again."""
        daemon = self.start(WATCHDOG_USEC="200000")
        self.assertEqual(self.message(), ["READY=1"])
        for _ in range(5):
            self.assertEqual(self.message(), ["WATCHDOG=1"])
        daemon.process.send_signal(signal.SIGTERM)
        while self.message() != ["STOPPING=1"]:
            pass

    def test_upgrade(self):
        """The manager hears of the process that takes over before that one speaks; which then says that it is alive."""
        daemon = harness.Daemon("--config", self.config, listen=(), within=(
            "sh", "-c", 'WATCHDOG_PID=$$ exec "$0" "$@"'), environment={
                "WATCHDOG_USEC": "200000", "NOTIFY_SOCKET": self.path})
        self.addCleanup(daemon.kill)
        self.assertEqual(self.message(), ["READY=1"])
        daemon.process.send_signal(signal.SIGUSR2)

        def next_message():
            while True:
                message = self.message()
                if message != ["WATCHDOG=1"]:
                    return message

        (name, _, pid), = [line.partition("=") for line in next_message()]
        self.assertEqual(name, "MAINPID")
        handle = os.pidfd_open(int(pid))
        self.addCleanup(os.close, handle)
        self.assertEqual(next_message(), ["READY=1"])
        daemon.wait_end()
        # What the one before has said is read; these are the other one's.
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.message()
        self.socket.settimeout(harness.PATIENCE)
        for _ in range(3):
            self.assertEqual(self.message(), ["WATCHDOG=1"])
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        self.assertEqual(next_message(), ["STOPPING=1"])
        self.assertTrue(select.select([handle], [], [], harness.PATIENCE)[0])

    def test_successor_waits(self):
        """It says nothing to the manager until the process before, which is the test, has told of it."""
        before, channel = socket.socketpair()
        self.addCleanup(before.close)
        before.settimeout(harness.PATIENCE)
        early = []

        def pass_on():
            with channel:
                before.recv(1)
            before.send(b"g")
            before.recv(1)
            # This one serves from now on. If it spoke at once, it would be heard within that time.
            early.extend(select.select([self.socket], [], [], 0.3)[0])
            before.close()

        thread = threading.Thread(target=pass_on, daemon=True)
        thread.start()
        daemon = harness.Daemon("--config", self.config, listen=(), pass_fds=[channel.fileno()], environment={
            "SLUICED_UPGRADE": "%d:%d" % (channel.fileno(), os.getpid()), "NOTIFY_SOCKET": self.path})
        self.addCleanup(daemon.kill)
        self.assertEqual(self.message(), ["READY=1"])
        thread.join()
        self.assertEqual(early, [])

    def test_without(self):
        """Not told where, or where nobody listens, it runs all the same."""
        for environment in ({}, {"NOTIFY_SOCKET": self.path + "x"}):
            with harness.Daemon("--config", self.config, listen=(), environment=environment):
                pass


if __name__ == "__main__":
    harness.main()
