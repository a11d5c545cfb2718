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


def cpu(which):
    """The option that keeps a program on one of our processors, where there are two."""
    ours = sorted(os.sched_getaffinity(0))
    return ["--cpu", str(ours[which])] if len(ours) > 1 else []


class NetworkBench:
    """A receiver and the sender, and what perf can count of the receiver."""

    def __init__(self, folder, perf):
        self.receive = os.path.join(folder, "bench-receive")
        self.send = os.path.join(folder, "bench-send")
        self.perf = perf

    def plan(self, scenario, seconds):
        """What will be sent, and what the receivers must find in it."""
        done = subprocess.run([self.send, "--describe", *scenario.send_options(seconds)], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise RunError(done.stderr.strip())
        return json.loads(done.stdout.removeprefix("plan "))

    def run(self, scenario, variant, seconds, plan):
        """The figures of one run."""
        return figures(plan, *self._execute(scenario, variant, seconds, plan, self.perf.timed))

    def count(self, scenario, variant, seconds, plan):
        """What is too dear to be counted while time is taken: in a run of its own."""
        if not self.perf.traced:
            return {}
        *_, counted = self._execute(scenario, variant, seconds, plan, self.perf.traced)
        values = {event.removeprefix("io_uring:") + "_per_packet": count / plan["packets"]
                  for event, count in counted.items()}
        if counters.SYSCALLS[0] in counted:
            values["syscalls_per_packet"] = values.pop(counters.SYSCALLS[0] + "_per_packet")
        return values

    def _execute(self, scenario, variant, seconds, plan, events):
        """What the programs and perf stat have to say after a run; events are what perf is to count."""
        deadline = time.monotonic() + 20 * seconds + GRACE
        with contextlib.ExitStack() as stack:
            counting = stack.enter_context(counters.Counting(self.perf, events)) if events else None
            command = [self.receive, "--variant", variant, "--connections", str(plan["connections"]),
                       "--bytes", str(plan["bytes"]), *cpu(RECEIVER_CPU)]
            if counting:
                command = counting.prefix + command + counting.option
            receiver = stack.enter_context(Program(command, deadline, counting.pass_fds if counting else ()))
            port = receiver.expect("listening")
            sender = stack.enter_context(Program([self.send, "--port", port, *cpu(SENDER_CPU),
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
            return result, detail, sent, counting.values() if counting else {}

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
        "peak_resident_kib": result["peak_resident_kib"],
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
    return values


class MemoryBench:
    """Work without sockets. The program counts its own span by getrusage(2): there is nothing to wait for in it."""

    COUNTED = 20000, 60000  # Operations of the two runs under callgrind.

    def __init__(self, folder, perf):
        self.program = os.path.join(folder, "bench-memory")
        self.perf = perf
        self.checksums = {}

    def plan(self, scenario, seconds):
        return {"operations": scenario.operations(seconds)}

    def _command(self, scenario, variant, operations):
        return [self.program, "--scenario", scenario.name, "--variant", variant, "--operations", str(operations),
                *cpu(RECEIVER_CPU)]

    def run(self, scenario, variant, seconds, plan):
        with Program(self._command(scenario, variant, plan["operations"]), time.monotonic() + 50 * seconds + GRACE) as it:
            result = json.loads(it.expect("result"))
            it.finish()
        first = self.checksums.setdefault((scenario.name, plan["operations"]), result["checksum"])
        if result["checksum"] != first:
            raise RunError(f"{variant}: checksum {result['checksum']} where the others have {first}")
        operations, used = result["operations"], result["user_s"] + result["system_s"]
        values = {
            "ns_per_operation": used / operations * 1e9,
            "million_operations_per_s": operations / result["wall_s"] / 1e6,
            "allocations_per_operation": result["allocations"] / operations,
            "page_faults": result["page_faults"],
            "resident_kib": result["peak_resident_kib"],
            "wall_s": result["wall_s"],
        }
        if result["bytes"]:
            values["cpu_s_per_gb"] = used / result["bytes"] * 1e9
        return values

    def count(self, scenario, variant, _seconds, _plan):
        """Instructions of an operation: two runs, so that what comes before and after them falls out."""
        if not self.perf.valgrind:
            return {}
        instructions, operations = [], []
        for amount in self.COUNTED:
            count, output = counters.instructions(self.perf.valgrind, self._command(scenario, variant, amount))
            if count is None:
                return {}
            instructions.append(count)
            operations.append(json.loads(output.removeprefix("result "))["operations"])
        return {"instructions_per_operation":
                (instructions[1] - instructions[0]) / (operations[1] - operations[0])}
