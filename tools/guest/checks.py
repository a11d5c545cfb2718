"""The checks of a kernel: which there are, their run in a guest, and the table of their results."""

import datetime
import json
import re
import subprocess

from guest.packages import Failed

MARK = b"@check "
BUILD = "build it first: cmake --preset release && cmake --build --preset release"
# Emulation makes a test take ten times as long, and a machine that does more ten times that.
MOST_SECONDS = 1200
RELAYS = [("relay FLV on both backends, byte for byte", "flv"), ("relay RTSP on both backends, byte for byte", "rtsp"),
          ("relay FLV by TLS, encrypted by the kernel where it can (kTLS)", "ktls"),
          ("openssl s_client, curl and ffmpeg by TLS, encrypted by the kernel (kTLS)", "clients"),
          ("default backend: epoll without bundles and window, else io_uring", "choice"),
          ("io_uring disabled: --backend uring is refused, the default relays on epoll", "disabled")]
# Of the unit tests those that CI runs on an old kernel: each needs another operation of it.
SMOKE = r"^test_(backends|bundles|connect|embed|listener)$"
SMOKE_RELAYS = ("flv",)


def unit_tests(build, patterns):
    """Of a build, those that touch the kernel and match all patterns, as ctest knows them."""
    try:
        listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1", "-L", "^kernel$"],
                                stdout=subprocess.PIPE, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failed("%s: %s; %s" % (build, error, BUILD)) from None
    for test in json.loads(listed)["tests"]:
        properties = {one["name"]: one["value"] for one in test["properties"]}
        if all(re.search(pattern, test["name"]) for pattern in patterns):
            if not test.get("command"):
                raise Failed("%s has not been built: cmake --build --preset release" % test["name"])
            environment = dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
            environment["SLUICE_TEST_SLOWER"] = "4"
            yield {"name": test["name"], "command": test["command"], "folder": properties["WORKING_DIRECTORY"],
                   "environment": environment, "limit": MOST_SECONDS, "alone": False}


def plan(root, build, smoke, pattern):
    """All checks: the unit tests, and the relays, each with its environment."""
    if not (build / "sluiced").exists():
        raise Failed("no daemon in %s; %s" % (build, BUILD))
    environment = {"SLUICE_BUILD_DIR": str(build), "SLUICE_SOURCE_DIR": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    relays = [{"name": name, "command": ["python3", str(root / "tools/guest/relay.py"), what], "folder": str(root),
               "environment": environment | ({"SLUICE_RELAY_FRAMES": "120"} if smoke else {}), "limit": MOST_SECONDS,
               "alone": True} for name, what in RELAYS if not smoke or what in SMOKE_RELAYS]
    checks = list(unit_tests(build, [SMOKE if smoke else "", pattern or ""])) + relays
    checks = [check for check in checks if not pattern or re.search(pattern, check["name"])]
    if not checks:
        raise Failed("no check matches %s" % pattern)
    return {"checks": checks}


class _Results:
    """Takes the guest's output: results are kept, and told in a line; the rest is shown as it is."""

    def __init__(self, write):
        self.found, self._part, self._write = {}, b"", write

    def take(self, data):
        *lines, self._part = (self._part + data).split(b"\n")
        for line in lines:
            if not line.startswith(MARK):
                self._write(line + b"\n")
                continue
            result = json.loads(line[len(MARK):])
            self.found[result["name"]] = result
            self._write(b"%8.1f s  %-6s %s\n" % (result["seconds"], _word(result).encode(), result["name"].encode()))


def _word(result):
    """What the table has of a result."""
    if result is None:
        return "-"
    return {0: "passed", 77: "n/a", "time": "HANGS"}.get(result["status"], "FAILED")


def run(root, guest, checks, limit, write):
    """One kernel's results."""
    results = _Results(write)
    failed = None
    try:
        guest.run(["python3", str(root / "tools/guest/inside.py"), json.dumps(checks["checks"])], limit, results.take)
    except Failed as error:
        failed = str(error)
        write(failed.encode() + b"\n")
    names = [check["name"] for check in checks["checks"]]
    found = {name: results.found[name] for name in names if name in results.found}
    return {"kernel": guest.kernel.name, "release": guest.kernel.release, "version": guest.kernel.version,
            "acceleration": guest.acceleration, "seconds": guest.seconds, "results": found,
            "missing": [name for name in names if name not in found], "failed": failed, "features": _features(found)}


def _features(results):
    """What the daemon has logged of its loop on io_uring."""
    for result in results.values():
        found = re.search(r"^features uring: (.*)$", result["output"], re.MULTILINE)
        if found:
            return found[1]
    return "?"


def _names(runs):
    names = []
    for one in runs:
        for name in [*one["results"], *one["missing"]]:
            if name not in names:
                names.append(name)
    return names


def table(runs):
    """Tests by kernels, as text."""
    names = _names(runs)
    width = max(map(len, names))
    lines = ["%-*s  %s" % (width, "", "  ".join("%9s" % one["kernel"] for one in runs))]
    for name in names:
        lines.append("%-*s  %s" % (width, name, "  ".join("%9s" % _word(one["results"].get(name)) for one in runs)))
    lines += ["Linux %s: %s" % (one["kernel"], one["features"]) for one in runs]
    return "\n".join(lines)


def _failures(one):
    return [result for result in one["results"].values() if result["status"] not in (0, 77)]


def print_failures(runs):
    """1 if there is one."""
    status = 0
    for one in runs:
        for result in _failures(one):
            print("\nLinux %s: %s: %s\n%s" % (one["kernel"], result["name"], result["status"], result["output"]))
            status = 1
        if one["missing"] or one["failed"]:
            print("\nLinux %s: no result of: %s" % (one["kernel"], ", ".join(one["missing"]) or "-"))
            status = 1
    return status


def keep(folder, one):
    """Keeps a run's results beside those of earlier ones; a run with the latest result of each check."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (one["kernel"] + ".json")
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"results": {}, "features": "?"}
    today = datetime.date.today().isoformat()
    kept["results"] |= {name: {"status": result["status"], "date": today} for name, result in one["results"].items()}
    if one["features"] != "?":
        kept["features"] = one["features"]
    path.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
    return {**one, **kept}


def _cells(cells):
    return "| " + " | ".join(cells) + " |\n"


def report(runs, names):
    """tests/reports/kernels.md, of what keep() has returned; names: of all checks."""
    dates = sorted({result["date"] for one in runs for result in one["results"].values()})
    text = "# Kernels\n\nWritten by `tools/kernels --report`; `tools/guest/README.md` says what it runs. " \
        "Each result is the latest of its check on\nthat kernel (%s).\n\n" % " to ".join(sorted({dates[0], dates[-1]}))
    text += _cells(["", *(one["kernel"] for one in runs)]) + _cells(["---"] * (len(runs) + 1))
    rows = [("Debian's package", lambda one: "%s, %s" % (one["release"], one["version"])),
            ("started with", lambda one: "QEMU, %s" % {"kvm": "KVM", "tcg": "emulated (TCG)"}[one["acceleration"]]),
            ("features that the daemon found", lambda one: one["features"]),
            ("checks passed", lambda one: "%d of %d" % (
                sum(one["results"][name]["status"] == 0 for name in names if name in one["results"]), len(names)))]
    for name, cell in rows:
        text += _cells([name, *(cell(one) for one in runs)])
    text += "\n## Checks\n\n" + _cells(["check", *(one["kernel"] for one in runs)]) + _cells(["---"] * (len(runs) + 1))
    for name in names:
        text += _cells(["`%s`" % name if name.startswith("test_") else name,
                        *(_word(one["results"].get(name)) for one in runs)])
    text += "\n`n/a`: the kernel does not have what the check is about. `-`: it was not run.\n"
    return text
