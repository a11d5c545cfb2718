"""Publishers and players of RTSP, and of the same media as FLV, through the real daemon, which alone is measured."""

import contextlib
import json
import os
import subprocess
import time

from compare import perf as counters
from compare.measure import GRACE, SENDER_CPU, FanoutBench, cpu, memory_kib, processor_seconds
from compare.processes import Program, RunError
from compare.servers import Gortsplib, NginxRtmp, Sluiced

PROTOCOLS = ("flv", "rtsp", "rtmp")
OTHERS = {"nginx-rtmp": "rtmp", "gortsplib": "rtsp"}  # Other servers, and what they speak.
PREROLL = 2  # Frames of a stream before anything is measured: the first of each track.


class RtspBench(FanoutBench):
    """Variants are as those of the fan-out; those with "+flv", "+rtsp" or "+rtmp" have that on both sides, whatever the scenario
    has; and there are other servers."""

    def __init__(self, folder, perf):
        super().__init__(folder, perf)
        self.folder = folder
        self.send = os.path.join(folder, "bench-rtsp-send")
        self.play = os.path.join(folder, "bench-rtsp-play")

    def plan(self, scenario, seconds):
        """What all streams have: frames, of these those of the span, and bytes of media; and each one's frames."""
        frames, warm_up = scenario.packets(seconds), scenario.warm_up(seconds)
        media = ["--rate", str(scenario.kbits), "--key-times", str(scenario.key_times), "--arrivals", scenario.arrivals,
                 "--streams", str(scenario.connections)]
        sending = [*media, "--frames", str(frames), "--warm-up", str(warm_up)]
        done = subprocess.run([self.send, "--describe", *sending], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(done.stderr.strip())
        return {**json.loads(done.stdout.removeprefix("plan ")), "frames": frames, "warm_up": warm_up, "sending": sending,
                "preroll": PREROLL, "playing": [*media, "--frames", str(frames + warm_up), "--warm-up", str(warm_up)]}

    def missing(self, scenario, variant):
        if variant == "nginx-rtmp":
            return NginxRtmp.missing()
        return Gortsplib.missing(self.folder) if variant == "gortsplib" else None

    @staticmethod
    def ways(scenario, variant):
        """The daemon's part of the variant, and how is published and played."""
        if variant in OTHERS:
            return variant, OTHERS[variant], OTHERS[variant]
        parts = variant.split("+")
        both = [part for part in parts if part in PROTOCOLS]
        settings = "+".join(part for part in parts if part not in PROTOCOLS)
        return (settings, both[0], both[0]) if both else (settings, scenario.publish, scenario.play)

    def _server(self, stack, settings, deadline):
        if settings == "nginx-rtmp":
            return NginxRtmp(stack, deadline)
        if settings == "gortsplib":
            return Gortsplib(stack, deadline)
        return Sluiced(stack, deadline, self.daemon, self._options(settings), settings)

    def run(self, scenario, variant, seconds, plan):
        return self.measure(scenario, variant, seconds, plan, ())[0]

    def count(self, scenario, variant, seconds, plan):
        if not self.perf.traced:
            return {}
        _, counted = self.measure(scenario, variant, seconds, plan, counters.SYSCALLS)
        frames = (plan["warm_up"] + plan["frames"]) * scenario.copies
        return {"syscalls_per_packet": counted[counters.SYSCALLS[0]] / frames} if counted else {}

    def profile(self, scenario, variant, seconds, plan, recording):
        self.measure(scenario, variant, seconds, plan, recording)

    def measure(self, scenario, variant, seconds, plan, events):
        """Figures of the daemon, and what perf has counted."""
        deadline = time.monotonic() + 20 * seconds + GRACE
        settings, publish, play = self.ways(scenario, variant)
        with contextlib.ExitStack() as stack:
            server = self._server(stack, settings, deadline)
            listening = memory_kib(server.pid)[1]
            sender = stack.enter_context(Program([self.send, "--port", server.ports[publish], "--protocol", publish,
                                                  *plan["sending"],
                                                  *cpu(SENDER_CPU)], deadline))
            streams = sender.expect("connected").split()
            server.wait("streams", lambda: server.published(len(streams), plan))
            published = memory_kib(server.pid)[1]
            player = None
            if scenario.players:
                player = stack.enter_context(self._media_players(scenario, plan, server, play, streams, deadline))
            played = memory_kib(server.pid)[1]
            sends = server.sends()
            attached = stack.enter_context(counters.Attached(self.perf, events, server.pid)) if events else None
            others = [one.process.pid for one in (sender, player) if one]
            sender.say("go")
            if plan["warm_up"]:
                sender.expect("warm")
            begin, begun = processor_seconds(server.pid), time.monotonic()
            others_begin = sum(processor_seconds(other)[0] for other in others)
            sent = json.loads(sender.expect("result"))
            arrived = json.loads(player.expect("result")) if player else {}
            if not player:
                # The asking is in the figures: some turns of a server that has nothing else to do.
                server.wait("frames", lambda: server.received(len(streams), plan))
            wall, end = time.monotonic() - begun, processor_seconds(server.pid)
            others_used = sum(processor_seconds(other)[0] for other in others) - others_begin
            counted = attached.values() if attached else {}
            finished = memory_kib(server.pid)
            own = server.finish(plan)
            if player:
                player.say(str(sent["start_ns"]))
                own.update(json.loads(player.expect("delays")))
            if sends is not None:
                sends = server.sends() - sends
            for one in filter(None, (player, sender)):
                one.finish()
        spans = [after - before for after, before in zip(end, begin)]
        values = figures(scenario, plan, spans, wall, sends)
        values.update({
            "load_of_others": others_used / wall,
            "resident_kib": finished[0],
            "private_kib": finished[1],
            "private_bytes_per_publisher": 1024 * (published - listening) / len(streams),
            "sender_latest_us": sent["latest_us"],
            **own,
        })
        if player:
            values["private_bytes_per_player"] = 1024 * (played - published) / (len(streams) * scenario.players)
            values["wire_per_media"] = arrived["wire_bytes"] / arrived["media_bytes"]
            values["segments_per_frame"] = arrived["segments"] / (plan["warm_up"] + plan["frames"]) / scenario.copies
        return values, counted

    def _media_players(self, scenario, plan, server, play, streams, deadline):
        """All of them, playing: they have what was sent before the span, or it is on its way."""
        port = server.ports["http" if play == "flv" else play]
        player = Program([self.play, "--port", port, "--protocol", play, *(["--join"] if server.is_late else []), "--players",
                          str(scenario.players), *plan["playing"], *cpu(SENDER_CPU), *streams], deadline)
        try:
            player.expect("connected")
            server.wait("players", lambda: server.playing(len(streams) * scenario.players))
        except RunError:
            player.end()
            raise
        return player


def figures(scenario, plan, spans, wall, sends):
    """Of the span. All is by media: bytes and frames delivered (received, where there are no players), without what any
    protocol puts around them."""
    used, user, system = spans
    gigabits = plan["span_bytes"] * max(scenario.players, 1) * 8 / 1e9
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
    if scenario.players and sends is not None:
        # With those of the warm-up: the daemon is not to be asked while its time is taken.
        values["sends_per_packet"] = sends / (plan["warm_up"] + plan["frames"]) / scenario.copies
        values["us_per_send"] = values["us_per_frame"] / values["sends_per_packet"]
    return values
