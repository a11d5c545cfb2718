"""Recordings on disks that do not answer, and parts that a recovery finds before they are locked: by preloaded libraries."""

import contextlib
import glob
import os
import shutil
import tempfile
import unittest

import flv
import harness
import preload
from harness import Daemon, Publisher

REASON = "the disk does not answer"


class PreloadCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tools = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.tools)

    def environment(self, library, **more):
        return {**preload.environment(preload.build(self.tools, library)), **more}

    def daemon(self, *options, environment):
        daemon = Daemon("--record", "*=" + self.folder, *options, environment=environment)
        self.addCleanup(daemon.kill)
        return daemon

    def files(self, suffix):
        return sorted(glob.glob(os.path.join(self.folder, "live/cam", "*" + suffix)))


class HangTest(PreloadCase):
    """A stop takes no longer than it may, whoever waits for the disk then."""

    def hold(self, gate):
        """Waits until somebody is at the gate, who stays there for ever."""
        def look():
            with contextlib.suppress(OSError):
                return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
            return None
        self.addCleanup(os.close, harness.wait_until(look, "an operation of the disk"))

    def check_stop(self, daemon, **fields):
        """It ends with status 0, has said why, and its last line is the last."""
        daemon.stop()
        [complaint] = daemon.complaints()
        self.assertEqual((complaint.message, complaint.fields["reason"]), ("file operations abandoned", REASON))
        for name, value in fields.items():
            self.assertEqual(complaint.fields[name], value)
        self.assertEqual(daemon.log()[-1].message, "stopped")

    def test_a_part_that_is_not_opened(self):
        gate = os.path.join(self.folder, "gate")
        os.mkfifo(gate)
        daemon = self.daemon(environment=self.environment("hold_parts", SLUICE_TEST_HOLD=gate))
        data, _ = flv.stream(100)
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            self.hold(gate)
            self.check_stop(daemon, recordings="1")

    def test_a_folder_that_is_not_listed(self):
        gate = os.path.join(self.tools, "gate")
        os.mkdir(os.path.join(self.folder, "live"))
        # In the directory that the repair looks into last: it has looked into all folders then.
        last = os.path.join(self.tools, "last")
        os.makedirs(os.path.join(last, "live"))
        with open(os.path.join(last, "live", "2026-01-01T00-00-00.000Z.flv.part"), "wb"):
            pass
        daemon = self.daemon("--record", "none=" + last,
                             environment=self.environment("hold_folders", SLUICE_TEST_HOLD=gate))
        daemon.wait_log("empty recording removed")
        with daemon.connect() as peer:
            os.mkfifo(gate)
            peer.sendall(b"GET /recordings/live HTTP/1.1\r\nHost: x\r\n\r\n")
            self.hold(gate)
            self.check_stop(daemon, recordings="0")

    def test_a_repair_that_hangs(self):
        gate = os.path.join(self.tools, "gate")
        os.mkfifo(gate)
        daemon = self.daemon(environment=self.environment("hold_folders", SLUICE_TEST_HOLD=gate))
        self.hold(gate)
        self.check_stop(daemon, action="repair")


class TakenTest(PreloadCase):
    def has_bytes(self):
        """Whether a part is written: the one that is taken never is."""
        with contextlib.suppress(FileNotFoundError):
            return any(os.path.getsize(part) > 0 for part in self.files(".part"))
        return False

    def check_taken(self, way):
        data, tags = flv.stream(100)
        daemon = self.daemon(environment=self.environment("take_parts", SLUICE_TEST_TAKE=way))
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            daemon.wait_stream("live/cam", lambda stream: stream["recording"] and stream["recording"]["bytes"] > 0)
            harness.wait_until(self.has_bytes, "a part that stays")
            self.assertEqual(publisher.finish(), 200)
        daemon.wait_log("recorded")
        daemon.stop()
        self.assertEqual(daemon.complaints(), [])
        self.assertEqual(self.files(".part"), [])
        [file] = self.files(".flv")
        with open(file, "rb") as recorded:
            self.assertEqual([(tag.type, tag.payload) for tag in flv.parse(recorded.read()) if tag.is_frame],
                             [(tag.type, tag.payload) for tag in tags if tag.is_frame])

    def test_a_part_that_has_been_removed(self):
        """Before, all of the recording was written to a file without a name, and its rename failed."""
        self.check_taken("removed")

    def test_a_part_that_somebody_else_has_locked(self):
        self.check_taken("locked")


if __name__ == "__main__":
    if not preload.find_compiler():
        harness.skip_file("no compiler for what is preloaded")
    harness.main()
