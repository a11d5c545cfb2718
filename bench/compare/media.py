"""Publishers and players of real streams through the daemon or another server, which alone is measured, from outside."""

import contextlib
import json
import os
import subprocess
import time

from compare import certificate, perf as counters
from compare.measure import GRACE, SENDER_CPU, Bench, cpu, memory_kib, processor_seconds, wake_ups, workers
from compare.peers import OTHERS
from compare.processes import Lost, Program, RunError
from compare.scenarios import REAL
from compare.servers import Sluiced

PROTOCOLS = ("flv", "rtsp", "rtmp")
SECURE = "tls"
COOL_DOWN = 40  # Frames of a stream behind those that count: a server may hold up to 350 ms, and some more, until others come.
PREROLL = 2  # Frames of a stream before anything is measured: the first of each track.


def parts_of(scenario, variant):
    """The server's part of a variant, and how is published and played: "+flv", "+rtsp" and "+rtmp" mean that on both sides,
    whatever the scenario has. "+tls", which means TLS on both sides, is left in it."""
    parts = variant.split("+")
    both = [part for part in parts if part in PROTOCOLS]
    settings = "+".join(part for part in parts if part not in PROTOCOLS)
    if both:
        return settings, both[0], both[0]
    publish, play = scenario.publish, scenario.play
    if parts[0] in OTHERS and OTHERS[parts[0]].only:
        publish = play = OTHERS[parts[0]].only
    return settings, publish, play


def is_secure(settings):
    return SECURE in settings.split("+")


def secure_options(settings):
    """Of the programs that make the load."""
    return ["--tls", certificate.SUITE] if is_secure(settings) else []


class Behind(RunError):
    """A server, or the load, that was not done in time; figures: the parts of both processors that were used meanwhile."""

    def __init__(self, text, figures=None):
        super().__init__(text)
        self.figures = figures


class Clock:
    """Processor time of a server and of the programs that make the load, since it was made."""

    def __init__(self, server, others):
        self.server, self.others = server, others
        self.begin, self.begun, self.others_begin = processor_seconds(server.pid), time.monotonic(), self._others()
        self.wake_ups_begin = wake_ups(server.pid)

    def _others(self):
        return sum(processor_seconds(other.process.pid)[0] for other in self.others)

    def read(self):
        """Of the server, in all and by mode; of the others; and seconds that have passed."""
        wall, end = time.monotonic() - self.begun, processor_seconds(self.server.pid)
        return [after - before for after, before in zip(end, self.begin)], self._others() - self.others_begin, wall

    def wake_ups_per_s(self):
        """Of the server's threads."""
        return (wake_ups(self.server.pid) - self.wake_ups_begin) / (time.monotonic() - self.begun)

    def load(self):
        (used, *_), others, wall = self.read()
        return {"load": used / wall, "load_of_others": others / wall}


class MediaBench(Bench):
    """Variants are the daemon's backends, with its options (epoll+batch=0), and other servers with theirs."""

    def __init__(self, folder, perf):
        self.daemon = os.path.join(os.path.dirname(folder), "sluiced")
        self.folder = folder
        self.send = os.path.join(folder, "bench-rtsp-send")
        self.play = os.path.join(folder, "bench-rtsp-play")
        self.perf = perf

    def plan(self, scenario, seconds):
        """What all streams have: frames, of these those of the span, and bytes of media; and each one's frames."""
        frames, warm_up = scenario.packets(seconds), scenario.warm_up(seconds)
        shared = ["--rate", str(scenario.kbits), "--key-times", str(scenario.key_times), "--arrivals", scenario.arrivals,
                  "--streams", str(scenario.connections)]
        sending = [*shared, "--frames", str(frames), "--warm-up", str(warm_up), "--cool-down", str(COOL_DOWN)]
        done = subprocess.run([self.send, "--describe", *sending], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(done.stderr.strip())
        playing = [*shared, "--frames", str(frames + warm_up), "--warm-up", str(warm_up), "--cool-down", str(COOL_DOWN),
                   "--look", str(scenario.looking), "--read-every", str(scenario.read_every)]
        return {**json.loads(done.stdout.removeprefix("plan ")), "frames": frames, "warm_up": warm_up, "sending": sending,
                "preroll": PREROLL, "playing": playing}

    def missing(self, scenario, variant):
        server = OTHERS.get(variant.partition("+")[0])
        return server.missing(self.folder) if server else None

    def _options(self, settings):
        """Of the daemon."""
        backend, *others = settings.split("+")
        options = ["--backend", backend]
        if not workers(settings):
            options += ["--workers", "1"]  # The figures are those of one thread on one processor.
        for setting in others:
            if setting == SECURE:
                continue
            name, _, value = setting.partition("=")
            options += [f"--{name}", value]
        return options

    def _server(self, stack, settings, deadline):
        if server := OTHERS.get(settings.partition("+")[0]):
            return server(stack, deadline, settings)
        return Sluiced(stack, deadline, self.daemon, self._options(settings), settings, is_secure(settings))

    def _begun(self, server, warm_up_s):
        """All has just begun, for so long before the span."""

    def run(self, scenario, variant, seconds, plan):
        return self.measure(scenario, variant, seconds, plan, ())[0]

    def count(self, scenario, variant, seconds, plan):
        if not self.perf.traced:
            return {}
        _, counted = self.measure(scenario, variant, seconds, plan, counters.SYSCALLS)
        frames = (plan["warm_up"] + plan["frames"] + COOL_DOWN) * scenario.copies
        return {"syscalls_per_packet": counted[counters.SYSCALLS[0]] / frames} if counted else {}

    def profile(self, scenario, variant, seconds, plan, recording):
        self.measure(scenario, variant, seconds, plan, recording)

    @staticmethod
    def _expect(program, word, clock, slack):
        """What a program has to say. @slack: None, or it may be late."""
        try:
            said = program.expect(word)
            return json.loads(said) if said else None
        except RunError as error:
            if slack is None or time.monotonic() < program.deadline or program.process.poll() is not None:
                raise
            raise Behind(str(error), clock.load()) from None

    def measure(self, scenario, variant, seconds, plan, events, connecting=None, slack=None):
        """Figures of the server, and what perf has counted. @connecting, @slack: seconds that all may take to connect, and that the
        run may take longer than it should then."""
        deadline = time.monotonic() + 20 * seconds + GRACE + (connecting or 0)
        settings, publish, play = parts_of(scenario, variant)
        with contextlib.ExitStack() as stack:
            server = self._server(stack, settings, deadline)
            listening = memory_kib(server.pid)[1]
            sender = stack.enter_context(Program([self.send, "--port", server.ports[publish], "--protocol", publish,
                                                  *secure_options(settings), *plan["sending"], *cpu(SENDER_CPU)], deadline))
            streams = sender.expect("connected").split()
            server.wait("streams", lambda: server.published(len(streams), plan))
            published = memory_kib(server.pid)[1]
            player = None
            if scenario.players:
                player = stack.enter_context(self._players(scenario, plan, server, play, secure_options(settings),
                                                             streams[:scenario.played], deadline))
            played = memory_kib(server.pid)[1]
            sends = server.sends()
            # A profile is of the span alone.
            attached = events and stack.enter_context(counters.Attached(self.perf, events, server.pid, not isinstance(events, tuple)))
            load = [one for one in (sender, player) if one]
            sender.say("go")
            for one in load if slack is not None else ():
                one.deadline = time.monotonic() + (plan["warm_up"] + plan["frames"] + COOL_DOWN) / REAL + slack
            self._begun(server, plan["warm_up"] / REAL)
            clock = Clock(server, load)
            if plan["warm_up"]:
                self._expect(sender, "warm", clock, slack)
                clock = Clock(server, load)
            if attached and attached.later:
                attached.begin()
            sent = self._expect(sender, "result", clock, slack)
            # What is under way now stands for what was under way in the beginning.
            spans, others_used, wall = clock.read()
            waking = clock.wake_ups_per_s()
            arrived = self._expect(player, "result", clock, slack) if player else {}
            for one in load:
                one.deadline = deadline  # All was done in time: what follows only asks for it.
            unread = json.loads(sender.expect("unread"))
            counted = attached.values() if attached else {}
            finished = memory_kib(server.pid)
            server.wait("frames", lambda: server.received(len(streams), plan))
            own = server.finish(plan)
            if player:
                if arrived["without_all"]:
                    raise Lost(f"{arrived['without_all']} of {arrived['players']} players have not got all")
                player.say(str(sent["start_ns"]))
                own.update(json.loads(player.expect("delays")))
            if sends is not None:
                sends = server.sends() - sends
            for one in filter(None, (player, sender)):
                one.finish()
        values = figures(scenario, plan, spans, others_used, wall, sends)
        values.update({
            "wake_ups_per_s": waking,
            "resident_kib": finished[0],
            "private_kib": finished[1],
            "private_bytes_per_publisher": 1024 * (published - listening) / len(streams),
            "sender_latest_us": sent["latest_us"],
            "sender_late_p99_us": sent["late_p99_us"],
            **unread,
            **own,
        })
        if player:
            members = len(streams[:scenario.played]) * scenario.players
            values["private_bytes_per_player"] = 1024 * (played - published) / members
            values["wire_per_media"] = arrived["wire_bytes"] / arrived["media_bytes"]
            values["segments_per_frame"] = arrived["segments"] / (plan["warm_up"] + plan["frames"]) / members
            values["player_turn_p99_us"] = arrived["turn_p99_us"]
        return values, counted

    def _players(self, scenario, plan, server, play, options, streams, deadline):
        """All of them, playing: they have what was sent before the span, or it is on its way."""
        port = server.ports["http" if play == "flv" else play]
        player = Program([self.play, "--port", port, "--protocol", play, *options, *(["--join"] if server.is_late else []),
                          "--players", str(scenario.players), *plan["playing"], *cpu(SENDER_CPU),
                          *(server.played_as(stream, play) for stream in streams)], deadline)
        try:
            player.expect("connected")
            server.wait("players", lambda: server.playing(len(streams) * scenario.players))
        except RunError:
            player.end()
            raise
        return player


def figures(scenario, plan, spans, others_used, wall, sends):
    """Of the span. All is by media: bytes and frames delivered (received, where there are no players), without what any
    protocol puts around them."""
    used, user, system = spans
    copies = scenario.copies / scenario.connections
    gigabits = plan["span_bytes"] * copies * 8 / 1e9
    frames = plan["frames"] * scenario.copies
    share = user / (user + system) if user + system else 0
    values = {
        "cpu_s": used,
        "frames": frames,
        "load": used / wall,
        "load_of_others": others_used / wall,
        "cpu_us_per_mbit": used / gigabits * 1000,
        "others_us_per_mbit": others_used / gigabits * 1000,
        "user_us_per_mbit": used * share / gigabits * 1000,
        "system_us_per_mbit": used * (1 - share) / gigabits * 1000,
        "cpu_s_per_gb": used / gigabits * 8,
        "us_per_frame": used / frames * 1e6,
        "user_us_per_frame": used * share / frames * 1e6,
        "mbit_per_s": gigabits / wall * 1000,
        "wall_s": wall,
    }
    if scenario.players and sends is not None:
        # With those around the span: the daemon is not to be asked while its time is taken.
        values["sends_per_packet"] = sends / (plan["warm_up"] + plan["frames"] + COOL_DOWN) / scenario.copies
        if sends:
            values["us_per_send"] = values["us_per_frame"] / values["sends_per_packet"]
    return values
