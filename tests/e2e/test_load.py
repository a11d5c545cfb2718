"""Many publishers and players at once, some of which take nothing: nobody else loses anything, and memory keeps to its
budget. Players of HTTP and of RTSP, on all workers.

SLUICE_LOAD="PUBLISHERS PLAYERS STALLED SECONDS" asks for another size than CI's (tools/load does); SLUICE_LOAD_OPTIONS for
other options of the daemon. The figures are printed either way.

HostileTest: the same beside clients of hostile.py. SLUICE_LOAD_HOSTILE="CONNECTIONS SECONDS PUBLISHERS PLAYERS" asks for
another size (tools/load --hostile does); CONNECTIONS are those of each kind.

RtmpTest: players and publishers by RTMP, alone in a long run, and beside hostile clients by RTMP. SLUICE_LOAD_RTMP in the same
way (tools/load --rtmp); SLUICE_LOAD_KINDS names the kinds of hostile clients that take part, all of them by default.

FramesTest, DownloadsTest: beside publishers whose frames trickle, and beside downloads that nobody takes. In the same way
SLUICE_LOAD_FRAMES and SLUICE_LOAD_DOWNLOADS (tools/load --frames, --downloads).
"""

import collections
import fcntl
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest

import flv
import harness
import hostile
import rtsp
import tool
from harness import Daemon

SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD", "50 200 20 6").split()]
# Two workers for each core of the test's machine would prove nothing more; one would leave out what they share.
OPTIONS = os.environ.get("SLUICE_LOAD_OPTIONS", "--workers 2 --memory 64M").split()
HOSTILE_SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD_HOSTILE", "20 10 10 40").split()]
RTMP_SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD_RTMP", "10 2 10 20").split()]
RTMP_ONLY = os.environ.get("SLUICE_LOAD_KINDS", "").split()
FRAMES_SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD_FRAMES", "28 6 5 10").split()]
DOWNLOADS_SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD_DOWNLOADS", "200 6 5 10").split()]
KEY = "hostile-key"
RTSP_SHARE = 10  # Of the players, one in so many plays by RTSP.
LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")
RAMP = 8  # Seconds within which all begin, in a long run.
MIB = 1 << 20
CONNECTION = 8192  # Bytes of a connection besides --memory: RTSP's are the largest (tests/reports/faults.md).


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


class Load(unittest.TestCase):
    """Publishers and players of sluice-push, and the memory of the daemon meanwhile."""

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

    def note_players(self, state):
        """For a test that asks more of them."""

    def finished(self, running, daemon, memory):
        """Waits for its end, looking at the memory meanwhile: its totals."""
        while running.process.poll() is None:
            state = daemon.api()
            self.note_memory(state, memory)
            self.note_players(state)
            time.sleep(0.5)
        status, out, errors = running.wait()
        self.assertEqual(errors, "")
        said = tool.lines(out)[-1]
        self.assertEqual((status, said["failures"]), (0, []), said)
        for what in ("failed", "reconnects", "lost", "rtp_lost", "unmatched", "timestamps_back"):
            self.assertEqual(said["players"][what], 0, said["players"])
        return said


class LoadTest(Load):
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


class HostileTest(Load):
    """Nobody else notices hostile clients of every kind, while nobody reads the log."""

    script = hostile.__file__

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.keys = os.path.join(folder.name, "keys")
        with open(os.open(self.keys, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("k1:%s\n" % KEY)
        self.dropped = {}

    def note_players(self, state):
        """Frames that the daemon dropped of healthy streams, or for players that read.

        What is skipped until the first key frame is not lost: the player began when there was no cached group.
        """
        for stream in state["streams"]:
            if stream["name"].startswith("load/") and stream["frames_dropped"]:
                self.dropped[stream["name"]] = stream["frames_dropped"]
        for player in state["players"]:
            drops = {cause: count for cause, count in player["drops"].items() if count and cause != "until_key_frame"}
            if drops and not player["address"].startswith(hostile.STALLED_ADDRESS + ":"):
                self.dropped[player["id"]] = (player["stream"], drops)

    def attack(self, daemon, connections, seconds, streams, memory, **more):
        """hostile.py, once all of it is there."""
        options = {protocol: daemon.address(protocol) for protocol in ("http", "rtsp", "flv")}
        options.update(more)
        # Of unfinished frames twice as much as there is memory, as far as a frame may be so large.
        options.update(connections=connections, seconds=seconds, streams=streams, key=KEY, part=2 * memory // connections)
        process = subprocess.Popen([sys.executable, self.script, json.dumps(options)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, text=True)

        def end():
            """After a failure: what may explain it."""
            if process.poll() is None:
                process.terminate()
                print("hostile:", process.communicate(timeout=harness.PATIENCE)[0])
                print("frames the daemon dropped:", self.dropped, flush=True)
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), "up\n")
        return process

    def test_hostile(self):
        connections, seconds, publishers, players = HOSTILE_SIZE
        ramp = min(RAMP, seconds / 4)
        by_rtsp = players // RTSP_SHARE
        rules = ("--token-keys", self.keys, "--rule=all load/* allow", "--rule=all hostile/* secret=k1",
                 "--rule=all * token=k1", "--log-rate", "0")
        with Daemon(*rules, *OPTIONS, listen=LISTEN) as daemon:
            fcntl.fcntl(daemon.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            memory = daemon.api("/api/v1/config")["settings"]["memory"]
            usage = Usage(daemon)
            with daemon.unread_log():
                attack = self.attack(daemon, connections, 2 * seconds + 2 * harness.PATIENCE, publishers, memory)
                first = self.start("-n", publishers, "--players", players - by_rtsp, "--loop", "--duration", seconds,
                                   "--ramp", ramp, self.media, daemon.url("load/%d"))
                harness.wait_until(lambda: sum(stream["state"] == "live" and stream["name"].startswith("load/")
                                               for stream in daemon.api()["streams"]) == publishers, "all publishers", 0.2)
                second = self.start("-n", 0, "--streams", publishers, "--players", by_rtsp, "--duration",
                                    max(seconds - 2 * ramp, 1), "--ramp", ramp / 4,
                                    "rtsp://%s:%d/load/%%d" % daemon.address("rtsp"))
                others = self.finished(second, daemon, memory)["players"]
                said = self.finished(first, daemon, memory)
                self.assertIsNone(attack.poll())
                attack.terminate()
                kinds = json.loads(attack.communicate(timeout=harness.PATIENCE)[0])
                lost_lines = daemon.api()["log_lines_lost"]
            self.report_hostile(daemon, kinds, said, others, usage, lost_lines)
            self.assertEqual(self.dropped, {})
            self.assertEqual(said["publishers"]["served"], publishers)
            self.assertEqual(said["players"]["served"] + others["served"], players)
            self.check_kinds(daemon, kinds, connections)
            if not sanitized():
                most = memory * 1.05 + connections * len(kinds) * CONNECTION
                self.assertLessEqual(usage.most_memory() - usage.idle_memory, most)
            daemon.blocks_settled()

    def check_kinds(self, daemon, kinds, connections):
        """The attack was what it is meant to be."""
        for name, kind in kinds.items():
            self.assertGreaterEqual(kind["opened"], connections, name)
            self.assertEqual(kind["failed"], 0, name)
        for name, status in (("RtspBodies", "401"), ("HttpPuts", "401"), ("WebSocketMessages", "101"), ("Rejected", "401"),
                             ("RtspOptions", "200"), ("HttpKeepAlive", "204"), ("SameName", "409"), ("ManyAacFrames", "200")):
            self.assertGreater(kinds[name]["answers"].get(status, 0), 0, (name, kinds[name]))
        self.assertGreater(daemon.api()["refused"]["memory"], 0)

    def report_hostile(self, daemon, kinds, said, others, usage, lost_lines):
        causes = collections.Counter()
        for line in daemon.request("GET", "/metrics", protocol="admin")[2].decode().splitlines():
            if line.startswith("sluice_dropped_frames_total{"):
                causes[line.split('"')[1]] += int(float(line.split()[-1]))
        figures = {
            "hostile connections": HOSTILE_SIZE[0] * len(kinds),
            "publishers": said["publishers"]["count"],
            "players": said["players"]["count"] + others["count"],
            "of them by RTSP": others["count"],
            "seconds": said["seconds"],
            "in, Mbit/s": said["publishers"]["mbit_per_s"],
            "out, Mbit/s": said["players"]["mbit_per_s"] + others["mbit_per_s"],
            "frames players got": said["players"]["frames"] + others["frames"],
            "frames players lost": said["players"]["lost"] + others["lost"],
            "frames the daemon dropped of or for them": self.dropped,
            "tags sent late by the load generator": said["publishers"]["late"],
            "start-up ms, p50 and p99": (said["players"]["startup_ms"]["p50"], said["players"]["startup_ms"]["p99"]),
            "latency ms, p50 and p99": (said["players"]["latency_ms"]["p50"], said["players"]["latency_ms"]["p99"]),
            "daemon, cores": round(usage.processor(), 3),
            "daemon, most resident MiB": round(usage.most_memory() / MIB, 1),
            "daemon, idle MiB": round(usage.idle_memory / MIB, 1),
            "blocks, most mapped MiB": round(self.most["blocks"] / MIB, 1),
            "blocks, most held MiB": round(self.most["held"] / MIB, 1),
            "packets, most MiB": round(self.most["described"] / MIB, 1),
            "frames dropped for players that never read": dict(causes),
            "rejected": daemon.api()["refused"],
            "log lines lost": lost_lines,
            "options": " ".join(OPTIONS),
        }
        figures.update(kinds)
        print("\n".join("%-42s %s" % (name, json.dumps(value) if isinstance(value, dict) else value)
                        for name, value in figures.items()), flush=True)


class RtmpTest(HostileTest):
    """The same by RTMP."""

    test_hostile = None

    def healthy(self, daemon, size, memory):
        """Publishers and players by RTMP, to their end."""
        _, seconds, publishers, players = size
        running = self.start("-n", publishers, "--players", players, "--loop", "--duration", seconds, "--ramp",
                             min(RAMP, seconds / 4), self.media, "rtmp://%s:%d/load/%%d" % daemon.address("rtmp"))
        said = self.finished(running, daemon, memory)
        self.assertEqual((said["publishers"]["served"], said["players"]["served"]), (publishers, players))
        return said

    @staticmethod
    def delays(said, usage):
        return {"frames players got, lost": (said["players"]["frames"], said["players"]["lost"]),
                "tags sent late by the load generator": said["publishers"]["late"],
                "start-up ms": said["players"]["startup_ms"], "latency ms": said["players"]["latency_ms"],
                "daemon, cores": round(usage.processor(), 3)}

    def test_rtmp(self):
        connections, seconds, publishers, players = RTMP_SIZE
        rules = ("--token-keys", self.keys, "--rule=all load/* allow", "--rule=all * secret=k1", "--log-rate", "0")
        with Daemon(*rules, *OPTIONS, listen=(*LISTEN, "--rtmp", "127.0.0.1:0")) as daemon:
            fcntl.fcntl(daemon.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            memory = daemon.api("/api/v1/config")["settings"]["memory"]
            figures = {}
            with daemon.unread_log():
                if "SLUICE_LOAD_RTMP" in os.environ:
                    usage = Usage(daemon)
                    figures["without hostile connections"] = self.delays(self.healthy(daemon, RTMP_SIZE, memory), usage)
                usage = Usage(daemon)
                # They are to compete with the others for the daemon, not for the processor.
                attack = self.attack(daemon, connections, 2 * seconds + 2 * harness.PATIENCE, publishers, memory,
                                     rtmp=daemon.address("rtmp"), kinds=RTMP_ONLY or "rtmp", nice=10)
                figures["with them"] = self.delays(self.healthy(daemon, RTMP_SIZE, memory), usage)
                self.assertIsNone(attack.poll())
                attack.terminate()
                kinds = json.loads(attack.communicate(timeout=harness.PATIENCE)[0])
                lost_lines = daemon.api()["log_lines_lost"]
            most = usage.most_memory()
            figures.update({"hostile connections": connections * len(kinds),
                            "publishers, players, seconds": (publishers, players, seconds),
                            "most resident, idle, MiB": (round(most / MIB, 1), round(usage.idle_memory / MIB, 1)),
                            "blocks: most mapped, most held; packets, MiB": [round(value / MIB, 1) for value in (
                                self.most["blocks"], self.most["held"], self.most["described"])],
                            "frames the daemon dropped of or for them": self.dropped, "rejected": daemon.api()["refused"],
                            "log lines lost": lost_lines, "options": " ".join(OPTIONS), **kinds})
            print("\n".join("%-46s %s" % (name, json.dumps(value)) for name, value in figures.items()), flush=True)
            self.assertEqual(self.dropped, {})
            self.check_rtmp_kinds(kinds, connections)
            if not sanitized():
                self.assertLessEqual(most - usage.idle_memory, memory * 1.05 + connections * len(kinds) * CONNECTION)
            daemon.blocks_settled(may_copy=True)

    def check_rtmp_kinds(self, kinds, connections):
        """The attack was what it is meant to be."""
        for name, kind in kinds.items():
            self.assertGreaterEqual(kind["opened"], connections, name)
            self.assertEqual(kind["failed"], 0, name)
        for name, code in (("RtmpChunksOfOneByte", "Publish.Start"), ("RtmpChangingSizes", "Publish.Start"),
                           ("RtmpChunkStreams", "Publish.Start"), ("RtmpDeepValues", "Publish.Start"),
                           ("RtmpAcknowledgements", "Play.Start"), ("RtmpWithoutKeyFrames", "Publish.Start"),
                           ("RtmpCommands", "Publish.Start"), ("RtmpRejected", "Publish.Denied"),
                           ("RtmpUnfinished", "Publish.Start")):
            if name in kinds:
                self.assertGreater(kinds[name]["answers"].get("NetStream." + code, 0), 0, (name, kinds[name]))
        for name in ("RtmpChangingSizes", "RtmpChunkStreams", "RtmpDeepValues", "RtmpCommands", "RtmpRejected"):
            if name in kinds:
                self.assertGreater(kinds[name]["ended"], 0, (name, kinds[name]))


class AloneTest(HostileTest):
    """Beside hostile clients of one kind."""

    test_hostile = None

    def attack_alone(self, daemon, connections, seconds, kind, recording=""):
        options = {protocol: daemon.address(protocol) for protocol in ("http", "rtsp", "flv")}
        options.update(connections=connections, seconds=seconds + 2 * harness.PATIENCE, streams=1, key=KEY, part=hostile.FRAME,
                       kinds=[kind], recording=recording)
        process = subprocess.Popen([sys.executable, hostile.__file__, json.dumps(options)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "up\n")
        return process

    def check(self, daemon, kind, size, recording=""):
        """The attack comes when all publishers and players are there; the figures are printed whatever came of it."""
        connections, seconds, publishers, players = size
        healthy = self.start("-n", publishers, "--players", players, "--loop", "--duration", seconds, self.media,
                             daemon.url("load/%d"))
        harness.wait_until(lambda: sum(player["stream"].startswith("load/") for player in daemon.api()["players"]) == players,
                           "all players", 0.2)
        attack = self.attack_alone(daemon, connections, seconds, kind, recording)
        most = 0
        while healthy.process.poll() is None:
            state = daemon.api()
            self.note_players(state)
            most = max(most, state["pool"]["bytes_held"])
            time.sleep(0.2)
        status, out, errors = healthy.wait()
        said = tool.lines(out)[-1] if out.strip() else {}
        attack.terminate()
        kinds = json.loads(attack.communicate(timeout=harness.PATIENCE)[0])
        ended = collections.Counter(line.fields["reason"] for line in daemon.log("publisher ended")
                                    if line.fields["stream"].startswith("load/") and line.level != "info")
        figures = {"publishers, players, seconds": (publishers, players, seconds), "status": (status, errors.strip()),
                   "publishers": said.get("publishers"), "players": said.get("players"), "failures": said.get("failures"),
                   "healthy publishers that the daemon ended": ended,
                   "frames the daemon dropped of or for them": self.dropped, "most held, MiB": round(most / MIB, 1),
                   "refused": daemon.api().get("refused"), "options": " ".join(OPTIONS), **kinds}
        print("\n".join("%-42s %s" % (name, json.dumps(value)) for name, value in figures.items()), flush=True)
        self.assertEqual((status, errors, said["failures"], ended, self.dropped), (0, "", [], {}, {}))
        self.assertEqual((said["publishers"]["served"], said["players"]["served"]), (publishers, players))
        for what in ("failed", "reconnects", "lost", "unmatched", "timestamps_back"):
            self.assertEqual(said["players"][what], 0, said["players"])
        self.assertEqual(kinds[kind]["failed"], 0)
        self.assertGreater(daemon.api()["refused"]["memory"], 0)


class FramesTest(AloneTest):
    def test_trickling_frames(self):
        """Authorized publishers, each with a frame that is not whole, and a byte of it every five seconds."""
        rules = ("--token-keys", self.keys, "--rule=all load/* allow", "--rule=all * secret=k1")
        with Daemon(*rules, *OPTIONS, listen=LISTEN) as daemon:
            self.check(daemon, "TricklingFrames", FRAMES_SIZE)


class DownloadsTest(AloneTest):
    def test_downloads(self):
        """One recording, asked for by many clients at once, which take none of it."""
        with tempfile.TemporaryDirectory() as folder, \
                Daemon("--record", "recorded/a=" + folder, *OPTIONS, listen=LISTEN) as daemon:
            with harness.Publisher(daemon, "recorded/a", protocol="http") as publisher:
                tags = flv.first_tags() + [flv.video_frame(40 * i, True, i, 20000) for i in range(200)]
                publisher.send(flv.header() + b"".join(tag.pack() for tag in tags))
                publisher.finish()
            daemon.wait_log("recorded")
            path = json.loads(daemon.request("GET", "/recordings/recorded/a")[2])["recordings"][0]["path"]
            self.check(daemon, "Downloads", DOWNLOADS_SIZE, path)


if __name__ == "__main__":
    tool.main("sluice-push")
