"""Publishers and players of RTSP, and of the same media as FLV, through the real daemon, which alone is measured."""

import contextlib
import json
import os
import subprocess
import tempfile
import time

from compare import perf as counters
from compare.measure import GRACE, SENDER_CPU, FanoutBench, cpu, daemon_cpus, memory_kib, processor_seconds
from compare.processes import Program, RunError

LISTENERS = ("flv", "http", "rtsp", "admin")


class RtspBench(FanoutBench):
    """Variants are as those of the fan-out; those with "+flv" have FLV on both sides, whatever the scenario has."""

    def __init__(self, folder, perf):
        super().__init__(folder, perf)
        self.send = os.path.join(folder, "bench-rtsp-send")
        self.play = os.path.join(folder, "bench-rtsp-play")

    def plan(self, scenario, seconds):
        """What a stream has: frames, of these those of the span, and bytes of media."""
        frames, warm_up = scenario.packets(seconds), scenario.warm_up(seconds)
        media = ["--rate", str(scenario.kbits)]
        sending = [*media, "--frames", str(frames), "--warm-up", str(warm_up)]
        done = subprocess.run([self.send, "--describe", *sending], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(done.stderr.strip())
        return {**json.loads(done.stdout.removeprefix("plan ")), "frames": frames, "warm_up": warm_up, "sending": sending,
                "playing": [*media, "--frames", str(frames + warm_up)]}

    @staticmethod
    def ways(scenario, variant):
        """The daemon's part of the variant, and how is published and played."""
        parts = variant.split("+")
        if "flv" not in parts:
            return variant, scenario.publish, scenario.play
        return "+".join(part for part in parts if part != "flv"), "flv", "flv"

    def run(self, scenario, variant, seconds, plan):
        return self.measure(scenario, variant, seconds, plan, ())[0]

    def count(self, scenario, variant, seconds, plan):
        if not self.perf.traced:
            return {}
        _, counted = self.measure(scenario, variant, seconds, plan, counters.SYSCALLS)
        frames = (plan["warm_up"] + plan["frames"]) * scenario.copies
        return {"syscalls_per_packet": counted[counters.SYSCALLS[0]] / frames} if counted else {}

    def measure(self, scenario, variant, seconds, plan, events):
        """Figures of the daemon, and what perf has counted."""
        deadline = time.monotonic() + 20 * seconds + GRACE
        settings, publish, play = self.ways(scenario, variant)
        with contextlib.ExitStack() as stack:
            ports, pid = self._daemon(stack, settings, deadline)
            listening = memory_kib(pid)[1]
            sender = stack.enter_context(Program([self.send, "--port", ports[publish], "--protocol", publish, "--streams",
                                                  str(scenario.connections), *plan["sending"], *cpu(SENDER_CPU)], deadline))
            streams = sender.expect("connected").split()
            self._wait_for(ports["admin"], "streams", lambda state: sum(
                one["frames"]["video"] and one["frames"]["audio"] and 1 for one in state["streams"]) == len(streams))
            published = memory_kib(pid)[1]
            player = None
            if scenario.players:
                player = stack.enter_context(self._media_players(scenario, plan, ports, play, streams, deadline))
            played = memory_kib(pid)[1]
            sends = -self._sends(ports)
            attached = stack.enter_context(counters.Attached(self.perf, events, pid)) if events else None
            others = [one.process.pid for one in (sender, player) if one]
            sender.say("go")
            if plan["warm_up"]:
                sender.expect("warm")
            begin, begun = processor_seconds(pid), time.monotonic()
            others_begin = sum(processor_seconds(other)[0] for other in others)
            sent = json.loads(sender.expect("result"))
            arrived = json.loads(player.expect("result")) if player else {}
            if not player:
                # The asking is in the figures: some turns of a daemon that has nothing else to do.
                self._wait_for(ports["admin"], "frames", lambda state: all(
                    one["frames"]["video"] + one["frames"]["audio"] >= plan["video"] + plan["audio"]
                    for one in state["streams"]))
            wall, end = time.monotonic() - begun, processor_seconds(pid)
            others_used = sum(processor_seconds(other)[0] for other in others) - others_begin
            counted = attached.values() if attached else {}
            finished, state = memory_kib(pid), self._state(ports["admin"])
            check(state, plan)
            sends += self._sends(ports)
            for one in filter(None, (player, sender)):
                one.finish()
        spans = [after - before for after, before in zip(end, begin)]
        values = figures(scenario, plan, spans, wall, sends)
        values.update({
            "load_of_others": others_used / wall,
            "resident_kib": finished[0],
            "private_kib": finished[1],
            "private_bytes_per_publisher": 1024 * (published - listening) / len(streams),
            "payload_bytes_copied": state["pool"]["payload_bytes_copied"],
            "peak_held_blocks": state["pool"]["blocks_held_peak"],
            "sender_latest_us": sent["latest_us"],
        })
        if player:
            values["private_bytes_per_player"] = 1024 * (played - published) / (len(streams) * scenario.players)
            values["wire_per_media"] = arrived["wire_bytes"] / arrived["media_bytes"]
        return values, counted

    def _daemon(self, stack, settings, deadline):
        """Ports of its listeners, and its process id."""
        command = [self.daemon, "--max-connections", "100000", *self._options(settings)]
        for listener in LISTENERS:
            command += [f"--{listener}", "127.0.0.1:0"]
        daemon = stack.enter_context(Program([*daemon_cpus(settings), *command], deadline,
                                             log=stack.enter_context(tempfile.NamedTemporaryFile())))
        found = daemon.find_in_log("".join(rf"proto={name} address=127.0.0.1:(\d+).*" for name in LISTENERS) + " ready ")
        return dict(zip(LISTENERS, found)), daemon.process.pid

    def _media_players(self, scenario, plan, ports, play, streams, deadline):
        """All of them, playing: they have what was sent before the span, or it is on its way."""
        player = Program([self.play, "--port", ports["rtsp" if play == "rtsp" else "http"], "--protocol", play, "--players",
                          str(scenario.players), *plan["playing"], *cpu(SENDER_CPU), *streams], deadline)
        try:
            player.expect("connected")
            self._wait_for(ports["admin"], "players", lambda state: sum(
                one["frames_sent"] >= 2 for one in state["players"]) == len(streams) * scenario.players)
        except RunError:
            player.end()
            raise
        return player

    def _sends(self, ports):
        return sum(one["sends"] for one in self._state(ports["admin"])["streams"])


def check(state, plan):
    """The daemon must have taken every frame and no other; what players get, they look at themselves."""
    for one in state["streams"]:
        found = one["frames"]["video"], one["frames"]["audio"], one["frames_dropped"]
        if found != (plan["video"], plan["audio"], 0):
            raise RunError(f"{one['name']}: {found[0]} pictures and {found[1]} frames of audio, {found[2]} dropped, where "
                           f"{plan['video']} and {plan['audio']} were sent")


def figures(scenario, plan, spans, wall, sends):
    """Of the span. All is by media: bytes and frames delivered (received, where there are no players), without what any
    protocol puts around them."""
    used, user, system = spans
    gigabits = plan["span_bytes"] * scenario.copies * 8 / 1e9
    frames = plan["frames"] * scenario.copies
    share = user / (user + system) if user + system else 0
    values = {
        "cpu_s": used,
        "frames": frames,
        "load": used / wall,
        "cpu_s_per_gbit": used / gigabits,
        "user_s_per_gbit": used * share / gigabits,
        "system_s_per_gbit": used * (1 - share) / gigabits,
        "us_per_frame": used / frames * 1e6,
        "gbit_per_s": gigabits / wall,
        "wall_s": wall,
    }
    if scenario.players:
        # With those of the warm-up: the daemon is not to be asked while its time is taken.
        values["sends_per_packet"] = sends / (plan["warm_up"] + plan["frames"]) / scenario.copies
        values["us_per_send"] = values["us_per_frame"] / values["sends_per_packet"]
    return values
