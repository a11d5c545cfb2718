"""Tests that write the files which a daemon's settings name."""

import os
import tempfile
import unittest

import harness


class FilesCase(unittest.TestCase):
    """A folder of the test's own, with files that are private to the user."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def check(self, *arguments):
        """What the daemon says to settings: nothing is wrong with them."""
        status, out, err = harness.run_daemon("--check", *arguments)
        self.assertEqual((status, out.strip(), err), (0, "OK", ""))
