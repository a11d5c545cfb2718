"""One run of one variant, and the figures that come of it."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from compare import perf as counters
from compare.processes import Program, RunError

RECEIVER_CPU, SENDER_CPU = 0, 1
TAG = 15  # Bytes of a tag around its payload.
GO_SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "go")
GRACE = 60  # Seconds that a run may take longer than it should.


def cpu(which):
    """The option that keeps a program on one of our processors, where there are two."""
    ours = sorted(os.sched_getaffinity(0))
    return ["--cpu", str(ours[which])] if len(ours) > 1 else []


def workers(variant):
    """Threads of the daemon that a variant asks for, or None."""
    asked = [setting.partition("=")[2] for setting in variant.split("+") if setting.startswith("workers=")]
    return int(asked[-1]) if asked else None


def daemon_cpus(variant):
    """What keeps the daemon on as many of our processors as it has workers, where there are two at least."""
    ours = sorted(os.sched_getaffinity(0))
    own = ours[RECEIVER_CPU:][:workers(variant) or 1]
    return ["taskset", "-c", ",".join(map(str, own))] if len(ours) > 1 else []


class Bench:
    """One way to measure: what comes of a scenario's variants."""

    def missing(self, scenario, variant):
        """Why a variant cannot be run here and is left out, or None."""

    # Each has plan(), run(), count(), and profile(), which is a run that a Recording looks at.


class NetworkBench(Bench):
    """A receiver and the sender, and what perf can count of the receiver."""

    def __init__(self, folder, perf):
        self.receive = os.path.join(folder, "bench-receive")
        self.folder = folder
        self.perf = perf

    def _sender(self, scenario):
        return os.path.join(self.folder, scenario.sender)

    def plan(self, scenario, seconds):
        """What will be sent, and what the receivers must find in it."""
        sending = scenario.send_options(seconds)
        done = subprocess.run([self._sender(scenario), "--describe", *sending], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(done.stderr.strip())
        plan = json.loads(done.stdout.removeprefix("plan "))
        span = {f"span_{key}": round(plan[key] / (1 + scenario.unmeasured)) for key in ("bytes", "packets")}
        return {**plan, **span, "sending": sending}

    def run(self, scenario, variant, seconds, plan):
        """The figures of one run."""
        return figures(plan, *self._execute(scenario, variant, seconds, plan, self.perf.timed))

    def count(self, scenario, variant, seconds, plan):
        """What is too dear to be counted while time is taken: in a run of its own."""
        if not self.perf.traced:
            return {}
        *_, counted = self._execute(scenario, variant, seconds, plan, self.perf.traced)
        return counts(counted, plan["span_packets"])

    def profile(self, scenario, variant, seconds, plan, recording):
        self._execute(scenario, variant, seconds, plan, recording)

    def _execute(self, scenario, variant, seconds, plan, events):
        """What the programs and perf stat have to say after a run; events are what perf is to count."""
        deadline = time.monotonic() + 20 * seconds + GRACE
        with contextlib.ExitStack() as stack:
            counting = stack.enter_context(counters.Counting(self.perf, events)) if events else None
            command = [self.receive, "--protocol", scenario.protocol, "--variant", variant, "--connections", str(plan["connections"]),
                       "--bytes", str(plan["bytes"]), *cpu(RECEIVER_CPU)]
            if scenario.keep:
                command += ["--keep", scenario.keep]
            if scenario.unmeasured:
                command += ["--unmeasured", str(plan["bytes"] - plan["span_bytes"])]
            if "opening" in plan:
                command += ["--opening", str(plan["opening"])]
            if counting:
                command = counting.prefix + command + counting.option
            receiver = stack.enter_context(Program(command, deadline, counting.pass_fds if counting else ()))
            port = receiver.expect("listening")
            sender = stack.enter_context(Program([self._sender(scenario), "--port", port, *cpu(SENDER_CPU),
                                                  *plan["sending"]], deadline))
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


def costs(result, size, packets, counted):
    """Of the span that a program has measured, with so many bytes: by gigabyte (10^9 bytes) and by packet."""
    gigabytes = size / 1e9
    rusage = result["user_s"] + result["system_s"]
    cpu = counted["task-clock"] / 1000 if "task-clock" in counted else rusage
    user = cpu * result["user_s"] / rusage if rusage else 0.0
    return {
        "cpu_s": cpu,
        "cpu_s_per_gb": cpu / gigabytes,
        "user_s_per_gb": user / gigabytes,
        "system_s_per_gb": (cpu - user) / gigabytes,
        "cpu_s_per_mpackets": cpu / packets * 1e6,
        "context_switches": counted.get("context-switches", result["context_switches"]),
        "page_faults": counted.get("page-faults", result["page_faults"]),
        "allocations_per_packet": result["allocations"] / packets,
        "peak_resident_kib": result["peak_resident_kib"],
        "mb_per_s": size / 1e6 / result["wall_s"],
        "us_per_packet": result["wall_s"] / packets * 1e6,
        "wall_s": result["wall_s"],
    }


def counts(counted, packets):
    """Of what perf has counted in a run of its own: by packet."""
    values = {event.removeprefix("io_uring:") + "_per_packet": count / packets for event, count in counted.items()}
    if counters.SYSCALLS[0] in counted:
        values["syscalls_per_packet"] = values.pop(counters.SYSCALLS[0] + "_per_packet")
    return values


def figures(plan, result, detail, sent, counted):
    """Of one run of a receiver: what it cost, and what it held."""
    memory = result["memory"]
    grown = 1024 * (memory["connected"]["private_kib"] - memory["listening"]["private_kib"])
    values = {
        **costs(result, plan["span_bytes"], plan["span_packets"], counted),
        "packets": plan["span_packets"],
        "resident_kib": memory["finished"]["resident_kib"],
        "private_kib": memory["finished"]["private_kib"],
        "private_bytes_per_connection": grown / result["connections"],
        "private_bytes_per_connection_after":
            1024 * (memory["finished"]["private_kib"] - memory["listening"]["private_kib"]) / result["connections"],
        "sender_cpu_s": (sent["user_s"] + sent["system_s"]) * plan["span_bytes"] / plan["bytes"],
        "sender_latest_us": sent["latest_us"],
    }
    if detail:
        values["peak_held_blocks"] = detail["peak_held"]
        values["peak_held_kib"] = detail["peak_held"] * detail["block_size"] / 1024
        values.update({key: detail[key] for key in ("turns", "enters", "completions", "starved", "aimed", "overflows",
                                                    "bytes_copied")})
    return values


def processor_seconds(pid):
    """Of all threads of a process: in all, and the part of it that it was in user mode (sampled)."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        user, system = (int(field) for field in file.read().rpartition(")")[2].split()[11:13])
    return total / 1e9, user, system


def wake_ups(pid):
    """How often the threads of a process have slept, by the kernel's count."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
            total += next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches:"))
    return total


def memory_kib(pid):
    """Resident, and resident and shared with nobody."""
    values = {"Rss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in values:
                values[name] = int(rest.split()[0])
    return values["Rss"], values["Private_Clean"] + values["Private_Dirty"]


class MemoryBench(Bench):
    """Work without sockets. The program counts its own span by getrusage(2): there is nothing to wait for in it."""

    COUNTED = 20000, 60000  # Operations of the two runs under callgrind.

    def __init__(self, folder, perf):
        self.program = os.path.join(folder, "bench-memory")
        self.go_program = os.path.join(folder, "bench-go")
        self.go_missing = False  # Why there is no such program, None when there is one, False before it is known.
        self.perf = perf
        self.checksums = {}

    def missing(self, scenario, variant):
        if not variant.startswith("go-"):
            return None
        if self.go_missing is False:
            self.go_missing = self._build_go()
        return self.go_missing

    def _build_go(self):
        """Go's own tool builds it, when it is wanted: nothing else needs Go."""
        go = shutil.which("go")
        if not go:
            return "there is no go: tools/install-deps bench"
        done = subprocess.run([go, "build", "-o", os.path.abspath(self.go_program), "."], cwd=GO_SOURCES,
                              env={**os.environ, "GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False)
        return f"go build: {done.stderr.strip()}" if done.returncode else None

    def plan(self, scenario, seconds):
        return {"operations": scenario.operations(seconds)}

    def _command(self, scenario, variant, operations):
        if variant.startswith("go-"):
            pinning = ["taskset", "-c", cpu(RECEIVER_CPU)[-1]] if cpu(RECEIVER_CPU) else []
            return [*pinning, self.go_program, "-variant", variant, "-operations", str(operations)]
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
            "operations": operations,
            "page_faults": result["page_faults"],
            "resident_kib": result["peak_resident_kib"],
            "wall_s": result["wall_s"],
        }
        if result["bytes"]:
            values["cpu_s_per_gb"] = used / result["bytes"] * 1e9
        return values

    def profile(self, scenario, variant, seconds, plan, recording):
        """Of the whole program: it does nothing else for long."""
        command = recording.command() + ["--"] + self._command(scenario, variant, plan["operations"])
        with Program(command, time.monotonic() + 50 * seconds + GRACE) as it:
            it.expect("result")
            it.finish()

    def count(self, scenario, variant, _seconds, _plan):
        """Instructions of an operation: two runs, so that what comes before and after them falls out."""
        if not self.perf.valgrind or variant.startswith("go-"):
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
