"""What the benchmark has to know of a server that passes streams on: when it has what, and what it says afterwards. The daemon."""

import json
import tempfile
import time
import urllib.request

from compare import certificate
from compare.measure import GRACE, daemon_cpus
from compare.processes import Lost, Program, RunError


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=GRACE) as answer:
            return answer.read().decode()
    except OSError as error:
        raise RunError(f"the server does not answer: {error}") from None


def ask_json(url):
    """What it answers, as JSON: a server that is busy may answer with nothing, and is asked again."""
    end = time.monotonic() + GRACE
    while True:
        answer = ask(url)
        try:
            return json.loads(answer)
        except ValueError:
            if time.monotonic() > end:
                raise RunError(f"the server answers what is no JSON: {answer[:100]!r}") from None
            time.sleep(0.02)


class Server:
    """One that has been started: its process and its ports by protocol. Players get what was sent before they came
    (is_late is False) or not."""

    is_late = True
    only = None  # The protocol that it is measured by, whatever the scenario has.
    pid, ports = None, None

    @staticmethod
    def played_as(stream, _protocol):
        """The name by which players ask for a stream."""
        return stream

    def published(self, streams, plan):
        """Whether it has the first frames of so many streams."""
        raise NotImplementedError

    def playing(self, players):
        """Whether so many players get the next frame."""
        raise NotImplementedError

    def received(self, streams, plan):
        """Whether it has all that was sent."""
        raise NotImplementedError

    def sends(self):
        """How often it has given the kernel something for a player, where it says so."""

    def finish(self, plan):
        """Looks whether all is right in the end. Figures that only it has."""
        return {}

    @staticmethod
    def wait(what, condition):
        end = time.monotonic() + GRACE
        while not condition():
            if time.monotonic() > end:
                raise RunError(f"the server has not all {what}")
            time.sleep(0.02)


class Sluiced(Server):
    """The daemon: the state of its administration."""

    LISTENERS = ("flv", "http", "rtsp", "rtmp", "admin")

    def __init__(self, stack, deadline, daemon, options, variant, secure=False):
        """secure: all but the administration by TLS."""
        self.is_late = "gop-size=0" in variant.split("+")  # Without a cached group, players wait for the next key picture.
        # Publishers wait while players connect.
        command = [daemon, "--max-connections", "100000", "--idle", "600", *options]
        for listener in self.LISTENERS:
            command += [f"--{listener}", "127.0.0.1:0" + ",tls" * (secure and listener != "admin")]
        if secure:
            # Players connect as fast as they can.
            files = certificate.make(stack.enter_context(tempfile.TemporaryDirectory()))
            command += ["--tls-certificate", ",".join(files), "--tls-handshakes", "100000", "--tls-handshakes-per-address", "0"]
        program = stack.enter_context(Program([*daemon_cpus(variant), *command], deadline,
                                              log=stack.enter_context(tempfile.NamedTemporaryFile())))
        found = program.find_in_log("".join(rf"proto={name} address=127.0.0.1:(\d+).*" for name in self.LISTENERS) + " ready ")
        self.ports, self.pid, self.log = dict(zip(self.LISTENERS, found)), program.process.pid, program.log

    def _state(self):
        return json.loads(ask(f"http://127.0.0.1:{self.ports['admin']}/api/v1/snapshot"))

    def published(self, streams, plan):
        found = [one["frames"] for one in self._state()["streams"]]
        return sum(bool(one["video"] and one["audio"]) for one in found) == streams

    def playing(self, players):
        state = self._state()
        if self.is_late:
            return sum(one["subscribers"] for one in state["streams"]) == players
        return sum(one["frames_sent"] >= 2 for one in state["players"]) == players

    def received(self, streams, plan):
        return sum(one["frames"]["video"] + one["frames"]["audio"] for one in self._state()["streams"]) >= (
            plan["video"] + plan["audio"])

    def sends(self):
        return sum(one["sends"] for one in self._state()["streams"])

    def finish(self, plan):
        """It must have taken every frame and no other; what players get, they look at themselves."""
        state = self._state()
        found = [sum(counts) for counts in zip(*((one["frames"]["video"], one["frames"]["audio"], one["frames_dropped"])
                                                 for one in state["streams"]))]
        if found != [plan["video"], plan["audio"], 0]:
            raise Lost(f"{found[0]} pictures and {found[1]} frames of audio, {found[2]} dropped, "
                       f"where {plan['video']} and {plan['audio']} were sent")
        return {"payload_bytes_copied": state["pool"]["payload_bytes_copied"],
                "peak_held_blocks": state["pool"]["blocks_held_peak"]}
