"""A guest: QEMU with a kernel, the host's files below a file system in memory, and one command."""

import ctypes
import os
import pathlib
import platform
import re
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from guest import image
from guest.packages import Failed

QEMU = "qemu-system-x86_64"
# The host's programs run inside, so what they are told of their environment is what the host's programs are told.
ENVIRONMENT = re.compile(r"(PATH|LANG|LC_\w+|TERM|SLUICE\w*|FUZZ\w*|PYTHON\w*|[ALTU]+SAN_OPTIONS)")
CPU = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"],
    # The guest's clock counts instructions, one a nanosecond: its processor time is a number of instructions, kernel's
    # and program's, whatever else this machine does. Waits are not skipped: one for the host's files would be, too.
    "icount": ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=on", "-cpu", "max,la57=off,-erms,-fsrm"],
}
STARTED = "guest: running"
PROBED = "guest: probe"
# A machine where a stock kernel starts takes a second for that.
PROBE_SECONDS = 20


def _end_with_parent():
    """No guest outlives the tool, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _qemu(kernel, initramfs, acceleration, options, append=""):
    return [QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35",
            *CPU[acceleration],
            "-kernel", str(kernel.image), "-initrd", str(initramfs),
            # A processor that is not scheduled for a while is no defect of the guest. Nor is a timer that is late:
            # without no_timer_check an emulated kernel panicked at its start, on a machine with 13 times the load.
            "-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr nowatchdog random.trust_cpu=on "
            "no_timer_check rcupdate.rcu_cpu_stall_suppress=1 tsc=nowatchdog " + append, *options]


class Host:
    """What guests are made of: the initramfs of each kernel, and whether KVM starts it."""

    def __init__(self, store, acceleration="auto"):
        self.store, self.acceleration = store, acceleration

    @staticmethod
    def check():
        if platform.machine() not in ("x86_64", "AMD64"):
            raise Failed("this machine is %s; the guests are x86-64, and run its programs" % platform.machine())
        if not shutil.which(QEMU):
            raise Failed("%s is missing: tools/install-deps kernels" % QEMU)
        if not os.access("/sbin/depmod", os.X_OK):
            raise Failed("depmod is missing: tools/install-deps kernels")

    def initramfs(self, kernel):
        """Made again each time, which takes less than a second: the files that it consists of may have changed."""
        path = kernel.folder / "initramfs"
        made = pathlib.Path("%s.%d" % (path, os.getpid()))
        made.write_bytes(image.make(kernel, self.store.busybox()))
        made.replace(path)
        return path

    def choose(self, kernel):
        """kvm, where this kernel is seen to start with it, or tcg."""
        if self.acceleration != "auto":
            return self.acceleration
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return "tcg"
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        known = kernel.folder / "acceleration"
        if known.exists() and known.read_text(encoding="ascii").split()[0] == boot:
            return known.read_text(encoding="ascii").split()[1]
        found = "kvm" if self._starts_with_kvm(kernel) else "tcg"
        known.write_text("%s %s\n" % (boot, found), encoding="ascii")
        return found

    def _starts_with_kvm(self, kernel):
        command = _qemu(kernel, self.initramfs(kernel), "kvm", ["-m", "512M", "-serial", "stdio"], "guest.probe")
        try:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  preexec_fn=_end_with_parent) as process:
                timer = threading.Timer(PROBE_SECONDS, process.kill)
                timer.start()
                shown = process.stdout.read().decode(errors="replace")
                timer.cancel()
        except OSError:
            return False
        return PROBED in shown


class Guest:
    """One run of a command."""

    def __init__(self, host, kernel, *, tree, output, memory="4G", processors=2):
        self.host, self.kernel, self.tree, self.output = host, kernel, pathlib.Path(tree), pathlib.Path(output)
        self.memory, self.processors = memory, processors
        self.acceleration = host.choose(kernel)
        self.seconds = 0

    def _write_control(self, folder, command, environment):
        settings = {"TREE": self.tree, "OUTPUT": self.output, "MODULES": self.kernel.modules}
        # Those of this machine: a kernel by itself allows 4096.
        settings["DESCRIPTORS"], settings["MOST_DESCRIPTORS"] = resource.getrlimit(resource.RLIMIT_NOFILE)
        (folder / "settings").write_text("".join("%s=%s\n" % (name, shlex.quote(str(value)))
                                                 for name, value in settings.items()), encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if ENVIRONMENT.fullmatch(name)}
        kept |= {"HOME": "/root", "SLUICE_KERNEL": self.kernel.name, "SLUICE_OUTPUT": str(self.output), **environment}
        here = pathlib.Path.cwd()
        if self.tree not in (here, *here.parents):
            here = self.tree
        (folder / "command").write_text("".join("export %s=%s\n" % (name, shlex.quote(value))
                                                for name, value in kept.items()) +
                                        "cd %s && exec %s\n" % (shlex.quote(str(here)), shlex.join(command)),
                                        encoding="utf-8")

    def _options(self, control):
        def share(tag, path, more=""):
            return ["-virtfs", "local,path=%s,mount_tag=%s,security_model=none,multidevs=remap%s" % (
                str(path).replace(",", ",,"), tag, more)]
        return ["-m", self.memory, "-smp", str(self.processors), "-serial", "file:%s" % (control / "console"),
                *share("host", "/", ",readonly=on"), *share("control", control), *share("output", self.output),
                "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
                "-chardev", "file,id=output,path=/dev/stdout", "-device", "virtserialport,chardev=output"]

    def run(self, command, limit, write, environment=None):
        """The command's status. write: takes pieces of what it prints, as they come."""
        self.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="sluice-guest-") as name:
            control = pathlib.Path(name)
            self._write_control(control, command, environment or {})
            begin = time.monotonic()
            over = self._run_qemu(_qemu(self.kernel, self.host.initramfs(self.kernel), self.acceleration,
                                        self._options(control)), limit, write)
            self.seconds = time.monotonic() - begin
            return self._status(control, over and limit)

    @staticmethod
    def _run_qemu(command, limit, write):
        """Whether its time was over before it ended."""
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              preexec_fn=_end_with_parent) as process:
            over = threading.Event()

            def end():
                over.set()
                process.kill()
            timer = threading.Timer(limit, end)
            timer.start()
            try:
                while data := os.read(process.stdout.fileno(), 65536):
                    write(data)
            except BaseException:
                process.kill()
                raise
            finally:
                timer.cancel()
        return over.is_set()

    def _status(self, control, limit):
        status, console = control / "status", control / "console"
        if status.exists():
            return int(status.read_text(encoding="ascii"))
        shown = console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""
        what = "ran" if STARTED in shown else "did not come to run"
        why = "within %d s" % limit if limit else "to its end: the guest ended before"
        raise Failed("Linux %s (%s): the command %s %s%s; the console's end:\n%s" % (
            self.kernel.name, self.acceleration, what, "longer than " if limit and what == "ran" else "",
            why.replace("within ", "") if limit and what == "ran" else why, shown[-3000:] or "(nothing)"))
