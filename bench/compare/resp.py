"""Commands to a real Redis server, which is started for each run and gone after it."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from compare import perf as counters
from compare.measure import GRACE, RECEIVER_CPU, SENDER_CPU, Bench, costs, counts, cpu
from compare.processes import Program, Refused, RunError
from compare.scenarios import asked_of

INSTALL = "tools/install-deps bench"
TRIES = 5


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A redis-server without files on a port of its own, on the processor of the senders."""

    def __init__(self, deadline):
        self.deadline = deadline
        self.port = 0
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-redis-"))
            for _ in range(TRIES):
                try:
                    self._start(stack, folder)
                    break
                except RunError as error:
                    failure = error  # Somebody else may have taken the port meanwhile.
            else:
                raise failure
            self.stack = stack.pop_all()
        return self

    def _start(self, stack, folder):
        self.port = free_port()
        pinning = ["taskset", "-c", cpu(SENDER_CPU)[-1]] if cpu(SENDER_CPU) else []
        server = stack.enter_context(Program(
            [*pinning, "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
             "--appendonly", "no", "--daemonize", "no"], self.deadline))
        while "eady to accept connections" not in (line := server.read_line() or ""):
            if not line:
                server.fail()

    def __exit__(self, *_):
        self.stack.close()


class RespBench(Bench):
    def __init__(self, folder, perf):
        self.program = os.path.join(folder, "bench-resp")
        self.perf = perf
        self.known = None

    def missing(self, scenario, variant):
        if self.known is None:
            self.known = subprocess.run([self.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
        if variant == "hiredis" and variant not in self.known:
            return f"it is not built: {INSTALL}, and configure again"
        return None

    def plan(self, scenario, seconds):
        if not shutil.which("redis-server"):
            raise Refused(f"there is no redis-server: {INSTALL}")
        return {"packets": scenario.commands(seconds), "bytes": scenario.commands(seconds) * scenario.size}

    def run(self, scenario, variant, seconds, plan):
        result, counted = self._execute(scenario, variant, seconds, plan, self.perf.timed)
        return {**costs(result, result["bytes"], plan["packets"], counted), "packets": plan["packets"], "resident_kib": result["peak_resident_kib"]}

    def count(self, scenario, variant, seconds, plan):
        if not self.perf.traced:
            return {}
        return counts(self._execute(scenario, variant, seconds, plan, self.perf.traced)[1], plan["packets"])

    def profile(self, scenario, variant, seconds, plan, recording):
        self._execute(scenario, variant, seconds, plan, recording)

    def _execute(self, scenario, variant, seconds, plan, events):
        deadline = time.monotonic() + 20 * seconds + GRACE
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(Server(deadline))
            counting = stack.enter_context(counters.Counting(self.perf, events)) if events else None
            command = [self.program, "--port", str(server.port), "--variant", variant.partition("+")[0], "--command", scenario.command,
                       "--size", str(scenario.size), "--commands", str(plan["packets"]), *cpu(RECEIVER_CPU)]
            for name, value in asked_of(variant).items():
                command += [f"--{name}", value]
            if counting:
                command = counting.prefix + command + counting.option
            client = stack.enter_context(Program(command, deadline, counting.pass_fds if counting else ()))
            result = json.loads(client.expect("result"))
            client.finish()
            if any(result[key] != plan[key] for key in plan):
                raise RunError(f"{variant}: {result} for {plan}")
            return result, counting.values() if counting else {}
