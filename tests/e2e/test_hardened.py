"""The daemon under what its systemd unit takes away, and where io_uring is refused."""

import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import Daemon, Player, Steady

UNIT = os.path.join(harness.BUILD_DIR, "sluiced.service")
HERE = os.path.dirname(os.path.abspath(__file__))
URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
# The leak sanitizer looks at other threads with ptrace, which the unit does not allow.
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}


class HardenedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        self.state = os.path.join(self.folder, "state")
        os.mkdir(self.state)

    def within(self, *refuse):
        return (sys.executable, os.path.join(HERE, "within_unit.py"), UNIT, self.state, *refuse, "--")

    @staticmethod
    def status(pid):
        with open("/proc/%d/status" % pid, encoding="ascii") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)

    def check_restricted(self, pid):
        """It really is."""
        status = self.status(pid)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertNotEqual(status["Uid"].split()[1], "0")

    def check_recording(self, daemon, path):
        """It is served, and what a link names is not."""
        with open(path, "rb") as file:
            data = file.read()
        stream = os.path.dirname(path)
        for link, target in ((stream + "/2026-01-01T00-00-00.000Z.flv", path), (self.state + "/live/link", stream)):
            os.symlink(target, link)
        name = os.path.basename(path)
        status, _, body = daemon.request("GET", "/recordings/live/%s/%s" % (os.path.basename(stream), name))
        self.assertEqual((status, len(body)), (200, len(data)))
        for wrong in ("%s/2026-01-01T00-00-00.000Z.flv" % os.path.basename(stream), "link/" + name):
            self.assertEqual(daemon.request("GET", "/recordings/live/" + wrong)[0], 404, wrong)

    def test_everything(self):
        """Publishing, playing, recording, pulling by name, reloading and upgrading: nothing of it needs more."""
        config = os.path.join(self.folder, "sluiced.conf")

        def write(text):
            with open(config, "w", encoding="ascii") as file:
                file.write('flv = "127.0.0.1:0";\nhttp = "127.0.0.1:0";\nrtsp = "127.0.0.1:0";\n' + text)

        write("")
        with Daemon("--config", config, "--record", "live/*=" + self.state, listen=(), within=self.within(), environment=NO_LEAKS) as daemon:
            self.check_restricted(daemon.process.pid)
            self.assertEqual(daemon.log("loop created")[0].fields["backend"],
                             {"epoll": "epoll"}.get(harness.BACKEND, "io_uring"))
            with Steady(daemon, name=None) as steady:
                write('pull = ["rtsp://localhost:%d/%s=pulled/a"];\n' % (daemon.address("rtsp")[1], steady.name))
                daemon.process.send_signal(signal.SIGHUP)
                daemon.wait_log("configuration reloaded")
                daemon.wait_stream("pulled/a")
                with Player(daemon, "pulled/a") as player:
                    player.wait_tags(20)
                harness.wait_until(lambda: glob.glob(self.state + "/live/*/*.part"), "a recording")
                daemon.process.send_signal(signal.SIGUSR2)
                pid = int(daemon.wait_log("replaced").fields["pid"])
                daemon.wait_log("ready", 2)
                self.check_restricted(pid)
                steady.go_on()
            daemon.wait_end()
            self.check_recording(daemon, *glob.glob(self.state + "/live/*/*.flv"))
            os.kill(pid, signal.SIGTERM)
            daemon.wait_log("stopped", 2)

    def test_what_is_taken_away(self):
        """The filter is what it is said to be: what the unit does not allow fails, so the test above says something."""
        tries = ("import ctypes, socket, os\n"
                 "def tried(call):\n"
                 "    try:\n"
                 "        call()\n"
                 "    except OSError as error:\n"
                 "        return error.errno\n"
                 "libc = ctypes.CDLL(None, use_errno=True)\n"
                 "print(tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),\n"
                 "      tried(lambda: os.mkdir('/etc/sluice-test')), tried(lambda: os.chroot('/')),\n"
                 "      libc.unshare(0x10000000), ctypes.get_errno(),\n"
                 "      libc.syscall(101, 0, 0, 0, 0), ctypes.get_errno())\n")
        # Which that user can read.
        python = next(path for path in ("/usr/bin/python3", sys.executable) if os.access(path, os.X_OK))
        done = subprocess.run([*self.within(), python, "-c", tries], capture_output=True, text=True, check=True)
        family, folder, root, unshare, why, ptrace, reason = done.stdout.split()
        self.assertEqual((family, root, unshare, why, ptrace, reason), ("97", "1", "-1", "1", "-1", "1"))
        self.assertIn(folder, ("13", "30"))

    def test_io_uring_refused(self):
        """As in containers, or where the kernel has none: epoll, with one line that says why; asked for, it is an error."""
        for number, reason, detail in (
                ("EPERM", "io_uring forbidden", "see sysctl kernel.io_uring_disabled, or the container's seccomp profile"),
                ("ENOSYS", "io_uring missing", "use Linux 5.19 or newer, or allow io_uring in the seccomp profile")):
            with self.subTest(number):
                within = self.within("--refuse", number, *URING)
                with Daemon("--backend", "auto", within=within, environment=NO_LEAKS) as daemon:
                    complaint, = daemon.check_complaints(1)
                    self.assertEqual((complaint.message, complaint.fields["reason"], complaint.fields["detail"]),
                                     ("io_uring unavailable", reason, detail))
                    with Steady(daemon) as steady:
                        steady.go_on(50)
                    daemon.blocks_settled()
                with self.assertRaises(harness.NotStarted) as caught:
                    Daemon("--backend", "uring", within=within, environment=NO_LEAKS)
                self.assertIn('cannot use io_uring reason="%s" detail="%s"' % (reason, detail), str(caught.exception))

    def test_no_locked_memory(self):
        """Without a byte of memory to lock it goes on with what the kernel gives: streams are relayed."""
        unit = os.path.join(self.folder, "unit.service")
        with open(UNIT, encoding="utf-8") as file, open(unit, "w", encoding="utf-8") as other:
            other.write(file.read().replace("LimitMEMLOCK=infinity", "LimitMEMLOCK=0"))
        within = (sys.executable, os.path.join(HERE, "within_unit.py"), unit, self.state, "--")
        with Daemon("--backend", "auto", within=within, environment=NO_LEAKS) as daemon:
            with open("/proc/%d/limits" % daemon.process.pid, encoding="ascii") as limits:
                self.assertRegex(limits.read(), r"Max locked memory +0 +0 ")
            made = daemon.log("loop created")[0].fields
            self.assertTrue(made["backend"] == "epoll" or "fixed-buffers" not in made["features"].split(), made)
            self.assertLessEqual(len(daemon.complaints()), 1)
            with Steady(daemon) as steady:
                steady.go_on(50)
            daemon.blocks_settled()


if __name__ == "__main__":
    if not shutil.which("systemd-analyze") or not os.path.exists(UNIT):
        harness.skip_file("no systemd-analyze, or no unit at %s" % UNIT)
    harness.main()
