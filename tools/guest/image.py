"""The initramfs of a kernel: busybox, the modules that reach the host's files, and init."""

import gzip
import lzma
import pathlib
import stat

HERE = pathlib.Path(__file__).resolve().parent
# What the guest needs before it has the host's files. A kernel may have some of them built in.
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console", "virtio_rng"]


def _entry(number, name, mode, data=b""):
    """Of an archive in cpio's "newc" form."""
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def _archive(files):
    """files: name -> None for a folder, or (permissions, data)."""
    entries = []
    for name in sorted(files):
        if files[name] is None:
            entries.append((name, stat.S_IFDIR | 0o755, b""))
        else:
            entries.append((name, stat.S_IFREG | files[name][0], files[name][1]))
    packed = [_entry(number, *entry) for number, entry in enumerate(entries, 1)]
    return b"".join(packed) + _entry(0, "TRAILER!!!", 0)


def _plain(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return data


def _ordered(kernel):
    """The files of the modules, each after those that it needs."""
    needs = {}
    for line in (kernel.modules / "modules.dep").read_text(encoding="ascii").splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    by_name = {pathlib.PurePath(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    order = []

    def add(path):
        for other in needs[path]:
            add(other)
        if path not in order:
            order.append(path)
    for name in MODULES:
        if name in by_name:
            add(by_name[name])
    return order


def make(kernel, busybox):
    """The compressed archive."""
    files = {name: None for name in ("bin", "dev", "proc", "sys", "modules")}
    files["bin/busybox"] = (0o755, busybox.read_bytes())
    files["init"] = (0o755, (HERE / "init").read_bytes())
    files["guest-command"] = (0o755, (HERE / "guest-command").read_bytes())
    names = []
    for path in _ordered(kernel):
        name = pathlib.PurePath(path).name.split(".")[0] + ".ko"
        files["modules/" + name] = (0o644, _plain(kernel.modules / path))
        names.append(name)
    files["modules/order"] = (0o644, "".join(name + "\n" for name in names).encode())
    return gzip.compress(_archive(files), compresslevel=1)
