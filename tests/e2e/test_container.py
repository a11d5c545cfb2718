"""The daemon under a container engine's seccomp profile, as the engine has it and with io_uring added to it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import Daemon, Steady

HERE = os.path.dirname(os.path.abspath(__file__))
# Podman's, out of Debian's package: tools/install-deps.
PROFILE = os.path.join(harness.SOURCE_DIR, "build", "peers", "usr", "share", "containers", "seccomp.json")
ADD_IO_URING = os.path.join(harness.SOURCE_DIR, "packaging", "container", "add-io-uring")
URING = {"io_uring_setup", "io_uring_enter", "io_uring_register"}
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}


def names(profile, action):
    return {name for rule in profile["syscalls"] if rule["action"] == action for name in rule["names"]}


class ProfileTest(unittest.TestCase):
    def setUp(self):
        with open(PROFILE, encoding="utf-8") as file:
            self.engines = json.load(file)
        self.assertFalse(URING & names(self.engines, "SCMP_ACT_ALLOW"), "this profile allows io_uring by itself")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "profile.json")

    def within(self, profile):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(profile, file)
        return (sys.executable, os.path.join(HERE, "within_profile.py"), self.path, "--")

    def added(self, profile):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(profile, file)
        done = subprocess.run([ADD_IO_URING, self.path], capture_output=True, check=True)
        return json.loads(done.stdout)

    def relay(self, daemon):
        with Steady(daemon) as steady:
            steady.go_on(50)
        daemon.blocks_settled()

    def denied(self, profile, reason, detail):
        """One line says that io_uring is denied and what to do; streams are relayed; io_uring alone is an error."""
        within = self.within(profile)
        with Daemon("--backend", "auto", within=within, environment=NO_LEAKS) as daemon:
            complaint, = daemon.check_complaints(1)
            self.assertEqual(complaint.message, "io_uring unavailable")
            self.assertEqual((complaint.fields["reason"], complaint.fields["detail"]), (reason, detail))
            self.assertEqual(daemon.log("loop created")[0].fields["backend"], "epoll")
            self.relay(daemon)
        with self.assertRaises(harness.NotStarted) as caught:
            Daemon("--backend", "uring", within=within, environment=NO_LEAKS)
        self.assertIn('cannot use io_uring reason="%s" detail="%s"' % (reason, detail), str(caught.exception))
        with Daemon("--backend", "epoll", within=within, environment=NO_LEAKS) as daemon:
            self.assertEqual(daemon.complaints(), [])

    def test_denied_as_podman_does(self):
        self.assertEqual(self.engines["defaultErrnoRet"], 38)
        self.denied(self.engines, "io_uring missing",
                    "use Linux 5.19 or newer, or allow io_uring in the seccomp profile")

    def test_denied_as_docker_does(self):
        """Docker's profile is the same but for the error: EPERM."""
        self.denied(dict(self.engines, defaultErrnoRet=1), "io_uring forbidden",
                    "see sysctl kernel.io_uring_disabled, or the container's seccomp profile")

    def test_added(self):
        """The profile that add-io-uring makes allows io_uring, and nothing else that was denied."""
        added = self.added(self.engines)
        before, now = (names(profile, "SCMP_ACT_ALLOW") for profile in (self.engines, added))
        self.assertEqual(now - before, URING)
        self.assertEqual(before - now, set())
        self.assertEqual({key: value for key, value in added.items() if key != "syscalls"},
                         {key: value for key, value in self.engines.items() if key != "syscalls"})
        with Daemon("--backend", "uring", within=self.within(added), environment=NO_LEAKS) as daemon:
            self.assertEqual(daemon.complaints(), [])
            self.assertEqual(daemon.log("loop created")[0].fields["backend"], "io_uring")
            self.relay(daemon)

    def test_added_where_it_was_denied_by_name(self):
        """An explicit denial does not stay beside the permission."""
        explicit = dict(self.engines, syscalls=self.engines["syscalls"] + [
            {"names": [*sorted(URING), "kexec_load"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}])
        added = self.added(explicit)
        self.assertFalse(URING & names(added, "SCMP_ACT_ERRNO"))
        self.assertEqual(names(added, "SCMP_ACT_ERRNO"), names(explicit, "SCMP_ACT_ERRNO") - URING)
        with Daemon("--backend", "uring", within=self.within(added), environment=NO_LEAKS) as daemon:
            self.relay(daemon)


if __name__ == "__main__":
    if not os.path.exists(PROFILE):
        harness.skip_file("no profile at %s: tools/install-deps containers" % PROFILE)
    harness.main()
