"""Kernels of Debian: found, downloaded and unpacked below build/kernels. Nothing is installed, and the machine's own
lists of packages stay as they are: apt works on a folder of its own, with the suites below, signed by Debian's keys."""

import dataclasses
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

MIRROR = os.environ.get("SLUICE_DEBIAN_MIRROR", "http://deb.debian.org").rstrip("/")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SOURCES = [
    ("debian", "bookworm"),
    ("debian-security", "bookworm-security"),
    ("debian", "bookworm-backports"),
    ("debian", "trixie-backports"),
]
# A kernel itself: not linux-image-6.12-amd64, which depends on the newest, nor those for clouds or with hard deadlines.
NAME = re.compile(r"linux-image-\d+\.\d+\.\d+[\w.+~]*(-\d+)?-amd64")


class Failed(Exception):
    """Something that the user has to know, and can do something about."""


def run(command, what, **options):
    """Runs it, and returns what it prints; what it says is in the error, if it fails."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **options)
    except FileNotFoundError:
        raise Failed("%s: %s is missing: tools/install-deps kernels" % (what, command[0])) from None
    if done.returncode != 0:
        raise Failed("%s: %s ended with status %d:\n%s" % (
            what, command[0], done.returncode, done.stdout.strip()[-2000:]))
    return done.stdout


def numbers(version):
    """6.12.117-1~deb12u1 is (6, 12, 117)."""
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)*", version)[0].split("."))


def matches(version, wanted):
    """6.1 is any 6.1.N, but not 6.12.N; "newest" is any."""
    if wanted == "newest":
        return True
    some = numbers(wanted)
    return numbers(version)[:len(some)] == some


@dataclasses.dataclass(frozen=True)
class Kernel:
    version: str  # of the package: 6.1.192-2
    release: str  # 6.1.0-56-amd64
    folder: pathlib.Path

    @property
    def name(self):
        return ".".join(map(str, numbers(self.version)))

    @property
    def image(self):
        return self.folder / "vmlinuz"

    @property
    def modules(self):
        return self.folder / "lib" / "modules" / self.release


class Store:
    """The unpacked kernels, of which a process that adds one has the lock."""

    def __init__(self, folder):
        self.folder = folder
        self.apt = folder / "apt"
        self._updated = False

    def find(self, wanted, update=False):
        """The newest kernel that is wanted: of those that are there, or of Debian's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            have = [kernel for kernel in self._unpacked() if matches(kernel.version, wanted)]
            # Which one is the newest, only the archive knows.
            if have and wanted != "newest" and not update:
                return max(have, key=lambda kernel: numbers(kernel.version))
            try:
                version, package = self._offered(wanted)
            except Failed:
                if not have or update:
                    raise
                return max(have, key=lambda kernel: numbers(kernel.version))
            for kernel in have:
                if kernel.version == version:
                    return kernel
            return self._fetch(version, package)

    def busybox(self):
        """A static busybox, out of its package: it cannot be installed beside Debian's other one."""
        program = self.folder / "busybox"
        with open(self.folder / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                with self._downloaded(["busybox-static"]) as unpacked:
                    next(unpacked.glob("**/bin/busybox")).rename(program)
        return program

    def _unpacked(self):
        for mark in self.folder.glob("*/version"):
            version, release = mark.read_text(encoding="ascii").split()
            yield Kernel(version, release, mark.parent)

    # What Debian has

    def _options(self):
        def option(name, value):
            return ["-o", "%s=%s" % (name, value)]
        return [*option("Dir::Etc::SourceList", self.apt / "sources.list"),
                *option("Dir::Etc::SourceParts", "/dev/null"),
                *option("Dir::State", self.apt / "state"), *option("Dir::State::status", self.apt / "status"),
                *option("Dir::Cache", self.apt / "cache"), *option("APT::Sandbox::User", ""),
                *option("APT::Architecture", "amd64"), *option("APT::Architectures", "amd64"),
                *option("Acquire::Languages", "none"), *option("Acquire::Retries", "3"),
                # Only the packages' own lists, not what catalogues of software have.
                *option("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false"),
                *option("Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled", "false")]

    def _update(self):
        """The lists of packages, once."""
        if self._updated:
            return
        if not os.path.exists(KEYRING):
            raise Failed("%s is missing, with the keys of Debian's archive: tools/install-deps kernels" % KEYRING)
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (self.apt / folder).mkdir(parents=True, exist_ok=True)
        (self.apt / "status").touch()
        (self.apt / "sources.list").write_text("".join(
            "deb [arch=amd64 signed-by=%s] %s/%s %s main\n" % (KEYRING, MIRROR, archive, suite)
            for archive, suite in SOURCES), encoding="ascii")
        run(["apt-get", *self._options(), "update", "-qq", "-o", "APT::Update::Error-Mode=any"],
            "Debian's lists of packages (from %s, see SLUICE_DEBIAN_MIRROR)" % MIRROR)
        self._updated = True

    def _offered(self, wanted):
        """The newest version that is wanted, and its package."""
        self._update()
        found = []
        names = [name for name in run(["apt-cache", *self._options(), "pkgnames", "linux-image-"], "kernels").split()
                 if NAME.fullmatch(name)]
        for line in run(["apt-cache", *self._options(), "madison", *names], "kernels").splitlines():
            package, version, _ = (part.strip() for part in line.split("|", 2))
            if matches(version, wanted):
                found.append((numbers(version), version, package))
        if not found:
            raise Failed("Debian has no kernel %s in %s" % (wanted, ", ".join(suite for _, suite in SOURCES)))
        return max(found)[1:]

    # Downloads

    def _parts(self, package):
        """Of newer kernels the image and the modules are packages that this one depends on."""
        shown = run(["apt-cache", *self._options(), "depends", package], package)
        return [package, *re.findall(r"^ *Depends: (linux-(?:binary|modules)-[^\s<>]+)$", shown, re.MULTILINE)]

    def _downloaded(self, packages):
        """A folder with their files, for as long as it is needed."""
        return _Unpacked(self, packages)

    def unpack(self, packages, folder):
        self._update()
        downloads = folder / "downloads"
        downloads.mkdir(parents=True)
        run(["apt-get", *self._options(), "download", "-qq", *packages], "download", cwd=downloads)
        for file in downloads.glob("*.deb"):
            run(["dpkg-deb", "-x", file, folder / "files"], file.name)

    def _fetch(self, version, package):
        release = package[len("linux-image-"):]
        print("tools/kernels: downloading %s %s" % (package, version), flush=True)
        place = self.folder / ".".join(map(str, numbers(version)))
        with self._downloaded(self._parts(package)) as unpacked:
            files = unpacked
            image = [path for path in (files / "boot" / ("vmlinuz-" + release),
                                       files / "usr/lib/modules" / release / "vmlinuz") if path.exists()]
            modules = [path for path in (files / "lib/modules" / release, files / "usr/lib/modules" / release)
                       if (path / "kernel").exists()]
            if not image or not modules:
                raise Failed("%s has no kernel or no modules where they are expected" % package)
            shutil.rmtree(place, ignore_errors=True)
            (place / "lib/modules").mkdir(parents=True)
            image[0].rename(place / "vmlinuz")
            modules[0].rename(place / "lib/modules" / release)
        run(["/sbin/depmod", "-b", place, release], "modules of " + package)
        (place / "version").write_text("%s %s\n" % (version, release), encoding="ascii")
        return Kernel(version, release, place)


class _Unpacked:
    def __init__(self, store, packages):
        self.store, self.packages = store, packages
        self.folder = store.folder / "new"

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.store.unpack(self.packages, self.folder)
        return self.folder / "files"

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)
