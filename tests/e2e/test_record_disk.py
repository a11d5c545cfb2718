"""Recordings beside a recovery that finds their parts before they are locked: by a preloaded library."""

import glob
import os
import shutil
import tempfile
import unittest

import flv
import harness
import preload
from harness import Daemon, Publisher


class PreloadCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tools = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.tools)

    def environment(self, library, **more):
        return {"LD_PRELOAD": preload.build(self.tools, library), **more,
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def daemon(self, *options, environment):
        daemon = Daemon("--record", "*=" + self.folder, *options, environment=environment)
        self.addCleanup(daemon.kill)
        return daemon

    def files(self, suffix):
        return sorted(glob.glob(os.path.join(self.folder, "live/cam", "*" + suffix)))


class TakenTest(PreloadCase):
    def check_taken(self, way):
        data, tags = flv.stream(100)
        daemon = self.daemon(environment=self.environment("take_parts", SLUICE_TEST_TAKE=way))
        with Publisher(daemon, "live/cam", "http") as publisher:
            publisher.send(data)
            daemon.wait_stream("live/cam", lambda stream: stream["recording"] and stream["recording"]["bytes"] > 0)
            harness.wait_until(lambda: self.files(".part"), "a part that stays")
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
