"""One run of one variant, and the figures that come of it."""

import contextlib
import json
import os
import subprocess
import time

from compare import perf as counters
from compare.processes import Program, RunError

RECEIVER_CPU, SENDER_CPU = 0, 1
GRACE = 60  # Seconds that a run may take longer than it should.


class Bench:
    """The built programs, and what perf can count."""

    def __init__(self, folder, perf):
        self.receive = os.path.join(folder, "bench-receive")
        self.send = os.path.join(folder, "bench-send")
        self.perf = perf
        self.pinned = len(os.sched_getaffinity(0)) > 1

    def cpu(self, which):
        return ["--cpu", str(sorted(os.sched_getaffinity(0))[which])] if self.pinned else []

    def plan(self, scenario, seconds):
        """What will be sent, and what the receivers must find in it."""
        done = subprocess.run([self.send, "--describe", *scenario.send_options(seconds)], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise RunError(done.stderr.strip())
        return json.loads(done.stdout.removeprefix("plan "))

    def run(self, scenario, variant, seconds, plan, events):
        """The figures of one run; events are what perf stat is to count."""
        deadline = time.monotonic() + 20 * seconds + GRACE
        with contextlib.ExitStack() as stack:
            counting = stack.enter_context(counters.Counting(self.perf, events)) if events else None
            command = [self.receive, "--variant", variant, "--connections", str(plan["connections"]),
                       "--bytes", str(plan["bytes"]), *self.cpu(RECEIVER_CPU)]
            if counting:
                command = counting.prefix + command + counting.option
            receiver = stack.enter_context(Program(command, deadline, counting.pass_fds if counting else ()))
            port = receiver.expect("listening")
            sender = stack.enter_context(Program([self.send, "--port", port, *self.cpu(SENDER_CPU),
                                                  *scenario.send_options(seconds)], deadline))
            try:
                sender.expect("connected")
                receiver.expect("ready")
                sender.say("go")
                sent = json.loads(sender.expect("result"))
            except RunError:
                if receiver.process.poll() is not None:
                    receiver.fail()  # It went first, and knows why.
                raise
            detail, result = self._results(receiver)
            receiver.finish()
            sender.finish()
            check(variant, result, plan)
            return figures(plan, result, detail, sent, counting.values() if counting else {})

    @staticmethod
    def _results(receiver):
        detail = {}
        while True:
            line = receiver.read_line()
            if line is None:
                receiver.fail()
            word, _, rest = line.partition(" ")
            if word == "result":
                return detail, json.loads(rest)
            detail = json.loads(rest)


def check(variant, result, plan):
    """The same work must have been done: every byte received and, where they are looked for, every packet found."""
    wrong = [key for key in ("bytes", "packets", "checksum") if result[key] != plan[key]]
    if not result["parses"]:
        wrong = [key for key in wrong if key == "bytes"]
    if wrong:
        raise RunError(f"{variant}: wrong " + ", ".join(f"{key} {result[key]} for {plan[key]}" for key in wrong))


def figures(plan, result, detail, sent, counted):
    """Of one run: what it cost, by gigabyte (10^9 bytes) and by packet."""
    gigabytes, packets = result["bytes"] / 1e9, plan["packets"]
    rusage = result["user_s"] + result["system_s"]
    cpu = counted["task-clock"] / 1000 if "task-clock" in counted else rusage
    user = cpu * result["user_s"] / rusage if rusage else 0.0
    memory = result["memory"]
    grown = 1024 * (memory["connected"]["private_kib"] - memory["listening"]["private_kib"])
    values = {
        "cpu_s": cpu,
        "cpu_s_per_gb": cpu / gigabytes,
        "user_s_per_gb": user / gigabytes,
        "system_s_per_gb": (cpu - user) / gigabytes,
        "cpu_s_per_mpackets": cpu / packets * 1e6,
        "context_switches": counted.get("context-switches", result["context_switches"]),
        "page_faults": counted.get("page-faults", result["page_faults"]),
        "allocations_per_packet": result["allocations"] / packets,
        "resident_kib": memory["finished"]["resident_kib"],
        "private_kib": memory["finished"]["private_kib"],
        "private_bytes_per_connection": grown / result["connections"],
        "private_bytes_per_connection_after":
            1024 * (memory["finished"]["private_kib"] - memory["listening"]["private_kib"]) / result["connections"],
        "mb_per_s": result["bytes"] / 1e6 / result["wall_s"],
        "wall_s": result["wall_s"],
        "sender_cpu_s": sent["user_s"] + sent["system_s"],
        "sender_latest_us": sent["latest_us"],
    }
    if detail:
        values["peak_held_blocks"] = detail["peak_held"]
        values["peak_held_kib"] = detail["peak_held"] * detail["block_size"] / 1024
        values.update({key: detail[key] for key in ("turns", "enters", "completions", "starved", "aimed", "overflows",
                                                    "bytes_copied")})
    if "raw_syscalls:sys_enter" in counted:
        values["syscalls_per_packet"] = counted["raw_syscalls:sys_enter"] / packets
    for event, count in counted.items():
        if event.startswith("io_uring:"):
            values[event.removeprefix("io_uring:") + "_per_packet"] = count / packets
    return values

