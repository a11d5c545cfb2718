"""Many publishers and players at once, some of which take nothing: nobody else loses anything, and memory keeps to its
budget. Players of HTTP and of RTSP, on all workers.

SLUICE_LOAD="PUBLISHERS PLAYERS STALLED SECONDS" asks for another size than CI's (tools/load does); SLUICE_LOAD_OPTIONS for
other options of the daemon. The figures are printed either way.
"""

import json
import os
import resource
import tempfile
import time
import unittest

import flv
import harness
import rtsp
import tool
from harness import Daemon

SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD", "50 200 20 6").split()]
# Two workers for each core of the test's machine would prove nothing more; one would leave out what they share.
OPTIONS = os.environ.get("SLUICE_LOAD_OPTIONS", "--workers 2 --memory 64M").split()
RTSP_SHARE = 10  # Of the players, one in so many plays by RTSP.
RAMP = 8  # Seconds within which all begin, in a long run.
MIB = 1 << 20


def sanitized():
    """Whether the daemon takes memory for checks of its own."""
    with open(harness.SLUICED, "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


class Usage:
    """What the daemon's process has used."""

    def __init__(self, daemon):
        self._folder = "/proc/%d/" % daemon.process.pid
        self._ticks, self._at = self._now(), time.monotonic()
        self.idle_memory = self.most_memory()

    def _now(self):
        with open(self._folder + "stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def processor(self):
        """Cores, on an average since the beginning."""
        seconds = (self._now() - self._ticks) / os.sysconf("SC_CLK_TCK")
        return seconds / (time.monotonic() - self._at)

    def most_memory(self):
        """The most that was resident, bytes."""
        with open(self._folder + "status", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024


class LoadTest(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        data, _ = flv.stream(500, step=40, gop=50, size=2000)
        file = tempfile.NamedTemporaryFile(suffix=".flv")
        self.addCleanup(file.close)
        file.write(data)
        file.flush()
        self.media = file.name
        self.most = {"blocks": 0, "described": 0, "held": 0}

    def start(self, *arguments):
        """A sluice-push that runs beside."""
        running = tool.Running("sluice-push", "--json", "--quiet", *arguments)
        self.addCleanup(running.__exit__, None, None, None)
        return running

    def note_memory(self, state, memory):
        """What the workers have: never more than there is."""
        blocks = state["pool"]["bytes_mapped"]
        described = sum(worker["packet_bytes"] for worker in state["workers"])
        self.assertLessEqual(blocks + described, memory)
        for key, value in (("blocks", blocks), ("described", described), ("held", state["pool"]["bytes_held"])):
            self.most[key] = max(self.most[key], value)

    def finished(self, running, daemon, memory):
        """Waits for its end, looking at the memory meanwhile: its totals."""
        while running.process.poll() is None:
            self.note_memory(daemon.api(), memory)
            time.sleep(0.5)
        status, out, errors = running.wait()
        self.assertEqual(errors, "")
        said = tool.lines(out)[-1]
        self.assertEqual((status, said["failures"]), (0, []), said)
        for what in ("failed", "reconnects", "lost", "rtp_lost", "unmatched", "timestamps_back"):
            self.assertEqual(said["players"][what], 0, said["players"])
        return said

    def test_load(self):
        publishers, players, stalled, seconds = SIZE
        ramp = min(RAMP, seconds / 4)
        by_rtsp, rtsp_stalled = players // RTSP_SHARE, stalled // RTSP_SHARE
        # Those who take nothing stay to the end.
        with Daemon("--stall", "86400", *OPTIONS, listen=rtsp.listen()) as daemon:
            memory = daemon.api("/api/v1/config")["settings"]["memory"]
            usage = Usage(daemon)
            first = self.start("-n", publishers, "--players", players - by_rtsp, "--stalled", stalled - rtsp_stalled,
                               "--loop", "--duration", seconds, "--ramp", ramp, self.media,
                               daemon.url("load/%d"))
            harness.wait_until(lambda: sum(stream["state"] == "live" for stream in daemon.api()["streams"]) ==
                               publishers, "all publishers", 0.2)
            host, port = daemon.address("rtsp")
            second = self.start("-n", 0, "--streams", publishers, "--players", by_rtsp, "--stalled", rtsp_stalled,
                                "--duration", max(seconds - 2 * ramp, 1), "--ramp", ramp / 4,
                                "rtsp://%s:%d/load/%%d" % (host, port))
            said_rtsp = self.finished(second, daemon, memory)
            others = said_rtsp["players"]
            said = self.finished(first, daemon, memory)
            self.report(daemon, said, others, usage)
            self.assertEqual(said["publishers"]["served"], publishers)
            self.assertEqual(said["players"]["served"] + others["served"], players)
            self.assertEqual(said["stalled"]["begun"], stalled - rtsp_stalled)
            self.assertEqual(said_rtsp["stalled"]["begun"], rtsp_stalled)
            if not sanitized():
                self.assertLessEqual(usage.most_memory() - usage.idle_memory, memory * 1.05)
            daemon.blocks_settled()

    def report(self, daemon, said, others, usage):
        drops, most = {}, usage.most_memory()
        for line in daemon.request("GET", "/metrics", protocol="admin")[2].decode().splitlines():
            if line.startswith("sluice_dropped_frames_total{"):
                drops[line.split('"')[1]] = int(float(line.split()[-1]))
        figures = {
            "publishers": said["publishers"]["count"],
            "players": said["players"]["count"] + others["count"],
            "of them by RTSP": others["count"],
            "stalled": SIZE[2],
            "seconds": said["seconds"],
            "in, Mbit/s": said["publishers"]["mbit_per_s"],
            "out, Mbit/s": said["players"]["mbit_per_s"] + others["mbit_per_s"],
            "frames players got": said["players"]["frames"] + others["frames"],
            "frames players lost": said["players"]["lost"],
            "tags sent late by the load generator": said["publishers"]["late"],
            "start-up ms, p50 and p99": (said["players"]["startup_ms"]["p50"], said["players"]["startup_ms"]["p99"]),
            "latency ms, p50 and p99": (said["players"]["latency_ms"]["p50"], said["players"]["latency_ms"]["p99"]),
            "daemon, cores": round(usage.processor(), 3),
            "daemon, most resident MiB": round(most / MIB, 1),
            "daemon, idle MiB": round(usage.idle_memory / MIB, 1),
            "blocks, most mapped MiB": round(self.most["blocks"] / MIB, 1),
            "blocks, most held MiB": round(self.most["held"] / MIB, 1),
            "packets, most MiB": round(self.most["described"] / MIB, 1),
            "frames that stalled players lost": drops,
            "options": " ".join(OPTIONS),
        }
        print("\n".join("%-38s %s" % (name, json.dumps(value) if isinstance(value, dict) else value)
                        for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    tool.main("sluice-push")
