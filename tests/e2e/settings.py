"""Settings that change while a daemon runs.

Most are times: what a test has to get done first may take as long as it likes, and then nobody has to wait that long.
"""

import os
import shutil
import signal
import tempfile


class Settings:
    """A configuration file of one daemon; its options name it."""

    def __init__(self, add_cleanup, **settings):
        """add_cleanup: a test's or a class's, for the file."""
        folder = tempfile.mkdtemp()
        add_cleanup(shutil.rmtree, folder)
        self._path, self._changes = os.path.join(folder, "sluiced.conf"), 0
        self.options = ("--config", self._path)
        self._write(settings)

    def _write(self, settings):
        with open(self._path, "w", encoding="ascii") as file:
            file.write("".join("%s = %s;\n" % (name.replace("_", "-"), value) for name, value in settings.items()))

    def change(self, daemon, **settings):
        """Has the daemon take these, in place of what was in the file."""
        self._write(settings)
        self._changes += 1
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded", self._changes)


def long_wait(add_cleanup):
    """Players wait for a publisher for as long as a test takes to have one, until end_wait()."""
    return Settings(add_cleanup, wait=3600)


def end_wait(settings, daemon):
    """All publishers have ended: who is there has got everything, and need not wait for another one."""
    settings.change(daemon, wait=1)
