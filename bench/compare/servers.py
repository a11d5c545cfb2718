"""Servers that pass streams on, and what the benchmark has to know of each: when it has what, and what it says afterwards."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
import xml.etree.ElementTree

from compare.measure import GRACE, daemon_cpus
from compare.processes import Program, RunError

NGINX_MODULE = "/usr/lib/nginx/modules/ngx_rtmp_module.so"
GORTSPLIB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gortsplib")


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=GRACE) as answer:
            return answer.read().decode()
    except OSError as error:
        raise RunError(f"the server does not answer: {error}") from None


class Server:
    """One that has been started: its process and its ports by protocol. Players get what was sent before they came
    (is_late is False) or not."""

    is_late = True
    pid, ports = None, None

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
    is_late = False

    def __init__(self, stack, deadline, daemon, options, variant):
        command = [daemon, "--max-connections", "100000", *options]
        for listener in self.LISTENERS:
            command += [f"--{listener}", "127.0.0.1:0"]
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
        return sum(one["frames_sent"] >= 2 for one in self._state()["players"]) == players

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
            raise RunError(f"{found[0]} pictures and {found[1]} frames of audio, {found[2]} dropped, "
                           f"where {plan['video']} and {plan['audio']} were sent")
        return {"payload_bytes_copied": state["pool"]["payload_bytes_copied"],
                "peak_held_blocks": state["pool"]["blocks_held_peak"]}


def free_port():
    """One that nobody has now. For servers that cannot be told to take any."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class NginxRtmp(Server):
    """nginx with Debian's libnginx-mod-rtmp, one process: its statistics, as XML. It keeps no pictures, so to have players get
    all frames they must not wait for a key picture."""

    CONFIGURATION = """
        daemon off; master_process off; pid {folder}/pid; error_log {folder}/log; load_module {module};
        events {{ worker_connections 20000; }}
        rtmp {{ access_log off; server {{ listen 127.0.0.1:{rtmp}; application live {{ live on; wait_key off; }} }} }}
        http {{ access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
                uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
                server {{ listen 127.0.0.1:{http}; location /stat {{ rtmp_stat all; }} }} }}
    """

    @staticmethod
    def missing():
        nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        return None if nginx and os.path.exists(NGINX_MODULE) else "there is no nginx with RTMP: tools/install-deps bench"

    def __init__(self, stack, deadline):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.ports = {"rtmp": str(free_port()), "http": str(free_port())}
        with open(os.path.join(folder, "conf"), "w", encoding="ascii") as file:
            file.write(self.CONFIGURATION.format(folder=folder, module=NGINX_MODULE, **self.ports))
        nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        program = stack.enter_context(Program([*daemon_cpus(""), nginx, "-c", os.path.join(folder, "conf")], deadline,
                                              log=stack.enter_context(tempfile.NamedTemporaryFile())))
        self.pid = program.process.pid
        self.wait("ports", lambda: self._listens(program))

    def _listens(self, program):
        if program.process.poll() is not None:
            program.fail()
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", int(self.ports["http"]))) == 0

    def _streams(self):
        root = xml.etree.ElementTree.fromstring(ask(f"http://127.0.0.1:{self.ports['http']}/stat"))
        return root.findall("./server/application/live/stream")

    def _taken(self):
        return [int(one.findtext("bytes_in")) for one in self._streams()]

    def published(self, streams, plan):
        return sum(size >= plan["flv_preroll_bytes"] for size in self._taken()) == streams

    def playing(self, players):
        return sum(int(one.findtext("nclients")) - 1 for one in self._streams()) == players

    def received(self, streams, plan):
        return sum(self._taken()) >= plan["flv_bytes"]


class Gortsplib(Server):
    """The Go program in bench/gortsplib, which says itself what it has."""

    program = missing_because = None

    @classmethod
    def missing(cls, folder):
        """Go's own tool builds it, when it is wanted; its modules may have to be fetched."""
        if cls.program or cls.missing_because:
            return cls.missing_because
        go, program = shutil.which("go"), os.path.abspath(os.path.join(folder, "bench-gortsplib"))
        if not go:
            cls.missing_because = "there is no go: tools/install-deps bench"
            return cls.missing_because
        done = subprocess.run([go, "build", "-o", program, "."], cwd=GORTSPLIB, capture_output=True, text=True, check=False,
                              env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"})
        cls.program = program
        if done.returncode:
            cls.missing_because = "go build: " + " ".join(done.stderr.split())
        return cls.missing_because

    def __init__(self, stack, deadline):
        self._process = stack.enter_context(Program([*daemon_cpus(""), self.program], deadline,
                                                    log=stack.enter_context(tempfile.NamedTemporaryFile())))
        self.ports, self.pid = {"rtsp": self._process.expect("ready")}, self._process.process.pid

    def _state(self, what):
        self._process.say("state")
        return json.loads(self._process.expect("state"))[what]

    def published(self, streams, plan):
        return self._state("frames") == plan["preroll"] * streams

    def playing(self, players):
        return self._state("players") == players

    def received(self, streams, plan):
        return self._state("frames") == plan["video"] + plan["audio"]
