"""What a player and a publisher take of the daemon's private memory, by protocol: by how much it grows from 1,000 of them to
2,000, so that what the daemon has in any case falls out."""

import contextlib
import os
import time

from compare.measure import GRACE, SENDER_CPU, cpu, processor_seconds
from compare.processes import Program, RunError
from compare.scenarios import BLOCK_BYTES, GROWTH, PLAYER_BYTES, PUBLISHER_ALL, PUBLISHER_BYTES
from compare.servers import Sluiced

COUNTS = 1000, 2000
QUICK_COUNTS = 200, 400
FRAMES, SECONDS = 34, 0.5  # Of each stream behind the first of each track: so many last so long.
# Every line is logged, and publishers may wait until all are there, which no window delays.
OPTIONS = "--log-rate", "0", "--first-data", "3600", "--idle", "3600", "--batch", "0"
CALM = 0.7  # Seconds in which the daemon does nothing and its memory does not change: more than a tick.


class Daemon(Sluiced):
    """One that is not asked for its state, since the answers would be in its memory: its log says what it has."""

    def logged(self, what):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read().count(what)

    def besides_blocks(self):
        """Private KiB without the slabs of blocks, which are the mappings that ask for huge pages: streams share those."""
        total, private = 0, 0
        with open(f"/proc/{self.pid}/smaps", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("Private_Clean", "Private_Dirty"):
                    private += int(rest.split()[0])
                elif name == "VmFlags":
                    total += 0 if "hg" in rest.split() else private
                    private = 0
        return total

    def settled(self):
        """Its bytes besides blocks, when nothing is under way, and those of held blocks."""
        end, last = time.monotonic() + GRACE, None
        while time.monotonic() < end:
            now = self.besides_blocks(), round(processor_seconds(self.pid)[0], 2)
            if now == last:
                return 1024 * now[0], self._state()["pool"]["bytes_held"]
            last = now
            time.sleep(CALM)
        raise RunError("the daemon's memory does not settle")


class Growth:
    def __init__(self, folder, backend):
        self.daemon = os.path.join(os.path.dirname(folder), "sluiced")
        self.send = os.path.join(folder, "bench-rtsp-send")
        self.play = os.path.join(folder, "bench-rtsp-play")
        self.backend = backend

    def _daemon(self, stack, deadline, *options):
        return Daemon(stack, deadline, self.daemon, ["--backend", self.backend, "--workers", "1", *OPTIONS, *options], "")

    def _sender(self, stack, deadline, daemon, protocol, streams):
        sender = stack.enter_context(Program([self.send, "--port", daemon.ports[protocol], "--protocol", protocol, "--streams",
                                              str(streams), "--frames", str(FRAMES), *cpu(SENDER_CPU)], deadline))
        names = sender.expect("connected").split()
        daemon.wait("publishers", lambda: daemon.logged(" publisher started ") >= streams)
        return sender, names

    def publishers(self, protocol, count):
        """Bytes with so many of them behind half a second of media, without groups that are kept."""
        with contextlib.ExitStack() as stack:
            deadline = time.monotonic() + 4 * GRACE
            daemon = self._daemon(stack, deadline, "--gop-size", "0")
            sender, _ = self._sender(stack, deadline, daemon, protocol, count)
            sender.say("go")
            sender.expect("result")
            return daemon.settled()

    def players(self, protocol, count):
        """Likewise of players of one stream, which is kept."""
        with contextlib.ExitStack() as stack:
            deadline = time.monotonic() + 4 * GRACE
            daemon = self._daemon(stack, deadline)
            sender, names = self._sender(stack, deadline, daemon, "flv", 1)
            port = daemon.ports["http" if protocol == "flv" else protocol]
            players = stack.enter_context(Program([self.play, "--port", port, "--protocol", protocol, "--players", str(count),
                                                   "--frames", str(FRAMES), *cpu(SENDER_CPU), *names], deadline))
            players.expect("connected")
            daemon.wait("players", lambda: daemon.logged(" player started ") >= count)
            sender.say("go")
            sender.expect("result")
            players.expect("result")
            return daemon.settled()


def slope(measure, protocol, counts):
    """Bytes of each: besides blocks, and of held blocks."""
    few, many = (measure(protocol, count) for count in counts)
    return [(b - a) / (counts[1] - counts[0]) for a, b in zip(few, many)]


def show(folder, quick):
    """The table. The figures of each variant, as one round."""
    counts, rounds = QUICK_COUNTS if quick else COUNTS, {}
    print(f"Private bytes of the daemon for each, from {counts[0]} to {counts[1]} of them\n\n"
          f"{'':<8} {'player':>9} {'publisher':>10} {'and blocks':>11}")
    for variant in GROWTH.variants:
        backend, protocol = variant.split("+")
        growth = Growth(folder, backend)
        player, publisher = slope(growth.players, protocol, counts), slope(growth.publishers, protocol, counts)
        print(f"{backend:<6} {protocol:<5} {sum(player):>5.0f} {publisher[0]:>10.0f} {publisher[1]:>11.0f}", flush=True)
        rounds[variant] = [{PLAYER_BYTES: sum(player), PUBLISHER_BYTES: publisher[0], BLOCK_BYTES: publisher[1],
                            PUBLISHER_ALL: sum(publisher)}]
    return rounds
