"""Other servers, each with a configuration that is written for the run: on the loopback interface alone, defaults unless the
variant says otherwise."""

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import xml.etree.ElementTree

from compare import certificate
from compare.measure import daemon_cpus
from compare.processes import Program
from compare.scenarios import asked_of
from compare.servers import Server, ask, ask_json

NGINX_MODULE, NGINX_STREAM = (f"/usr/lib/nginx/modules/ngx_{name}_module.so" for name in ("rtmp", "stream"))
SANITIZER = b"__asan_init"  # In a program that has been built with one.
GORTSPLIB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gortsplib")


def free_port():
    """One that nobody has now. For servers that cannot be told to take any."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listens(program, port):
    if program.process.poll() is not None:
        program.fail()
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", int(port))) == 0


def find(variable, *names):
    """A server that is in no package: the program that the variable names, or one of that name in PATH."""
    path = os.environ.get(variable)
    if path:
        return path if os.access(path, os.X_OK) else None
    return next(filter(None, map(shutil.which, names)), None)


VERSION = re.compile(r"\b(?:v?\d+(?:\.\d+)+|[0-9a-f]{7,40})\b")  # A number, or a commit.


def said(command):
    """What a program that is asked says its version is; "unknown": nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = VERSION.search(re.sub(r"\d{4}-\d\d-\d\d \S+", "", done.stdout + done.stderr))
    return found.group() if found else "unknown"


class Installed(Server):
    """One that is in no package: a program in PATH, or that the variable names."""

    PROGRAM = VARIABLE = None
    ASK = "--version"

    @classmethod
    def version(cls):
        return said([find(cls.VARIABLE, cls.PROGRAM), cls.ASK])

    @classmethod
    def missing(cls, _folder):
        return None if find(cls.VARIABLE, cls.PROGRAM) else f"there is no {cls.PROGRAM} in PATH, nor in {cls.VARIABLE} (bench/README.md)"

    def start(self, stack, deadline, options, prefix=()):
        """With its ports known; until it listens on all."""
        program = stack.enter_context(Program([*daemon_cpus(""), *prefix, find(self.VARIABLE, self.PROGRAM), *options], deadline,
                                              log=stack.enter_context(tempfile.NamedTemporaryFile()), quiet=True))
        self.pid = program.process.pid
        self.wait("ports", lambda: all(listens(program, port) for port in self.ports.values()))


class NginxRtmp(Server):
    """nginx with Debian's libnginx-mod-rtmp, one process: its statistics, as XML. It keeps no pictures, so to have players get
    all frames they must not wait for a key picture. "+buffer=N" holds pictures until the next frame of audio. Its module knows no TLS:
    "+tls" has nginx's stream module in front of it, in the same process, and "+proxy" has the same without TLS, so that the difference
    of both is that of TLS."""

    only = "rtmp"
    CONFIGURATION = """
        worker_rlimit_nofile 65536; daemon off; master_process off; pid {folder}/pid; error_log {folder}/log; load_module {module}; {load}
        events {{ worker_connections 60000; }}
        {stream}
        rtmp {{ access_log off; server {{ listen {address}; application live {{ live on; wait_key off; {buffer} }} }} }}
        http {{ access_log off; client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
                uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
                server {{ listen 127.0.0.1:{http}; location /stat {{ rtmp_stat all; }} }} }}
    """

    FRONT = """
        stream {{ proxy_timeout 600s; server {{ listen 127.0.0.1:{port}{ssl}; proxy_pass {address}; }} }}
    """
    SSL = " ssl; ssl_protocols TLSv1.3; ssl_certificate {}; ssl_certificate_key {}"

    @staticmethod
    def program():
        return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")

    @classmethod
    def version(cls):
        return said([cls.program(), "-v"])

    @classmethod
    def missing(cls, _folder):
        found = cls.program() and all(map(os.path.exists, (NGINX_MODULE, NGINX_STREAM)))
        return None if found else "there is no nginx with RTMP and streams: tools/install-deps bench"

    def __init__(self, stack, deadline, settings):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.ports = {"rtmp": str(free_port()), "http": str(free_port())}
        asked = asked_of(settings)
        front = asked.keys() & {"tls", "proxy"}
        address, load, stream = f"127.0.0.1:{self.ports['rtmp']}", "", ""
        if front:
            # Not by TCP: Nagle's algorithm, which the module leaves on, would merge frames on the way.
            address, load = f"unix:{folder}/rtmp", f"load_module {NGINX_STREAM};"
            ssl = self.SSL.format(*certificate.make(folder)) if "tls" in front else ""
            stream = self.FRONT.format(port=self.ports["rtmp"], ssl=ssl, address=address)
        held = f"buffer {asked['buffer']}ms;" if "buffer" in asked else ""
        with open(os.path.join(folder, "conf"), "w", encoding="ascii") as file:
            file.write(self.CONFIGURATION.format(folder=folder, module=NGINX_MODULE, load=load, stream=stream, address=address,
                                                 buffer=held, http=self.ports["http"]))
        program = stack.enter_context(Program([*daemon_cpus(""), self.program(), "-c", os.path.join(folder, "conf")], deadline,
                                              log=stack.enter_context(tempfile.NamedTemporaryFile())))
        self.pid = program.process.pid
        self.wait("ports", lambda: all(listens(program, port) for port in self.ports.values()))

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

    only = "rtsp"
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

    def __init__(self, stack, deadline, _settings):
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


class Srs(Installed):
    """SRS, one process: its HTTP API. "srs" has its defaults, a merge window of 350 ms and at least 8 messages and a cached group;
    "srs+mw=N" a window of N ms however few the messages are, "srs+gop=0" no cached group, "srs+mr=N" reads publishers every N ms."""

    WINDOW_MS = 350  # By default.
    PROGRAM, VARIABLE, ASK, OTHER_DESCRIPTORS = "srs", "SLUICE_BENCH_SRS", "-v", 200
    CONFIGURATION = """
        listen 127.0.0.1:{rtmp}; max_connections {connections}; daemon off; pid {folder}/pid; srs_log_tank console;
        srs_log_level_v2 error; work_dir {folder}; heartbeat {{ enabled off; }}
        http_api {{ enabled on; listen 127.0.0.1:{api}; }} http_server {{ enabled on; listen 127.0.0.1:{http}; }}
        vhost __defaultVhost__ {{ {vhost} http_remux {{ enabled on; mount [vhost]/[app]/[stream].flv; }}
                                 play {{ {play} }} publish {{ normal_timeout 600000; {publish} }} }}
    """

    @classmethod
    def missing(cls, folder):
        """Its configure makes a program for debugging unless it is told otherwise, which none that is compared may be."""
        if why := super().missing(folder):
            return why
        program = find(cls.VARIABLE, cls.PROGRAM)
        with open(program, "rb") as file:
            return f"{program} is built with a sanitizer: bench/README.md says how to build it" if SANITIZER in file.read() else None

    def __init__(self, stack, deadline, settings):
        asked = asked_of(settings)
        vhost, play, publish = [], [], []
        if "mw" in asked:
            vhost += ["min_latency on;"] * (asked["mw"] == "0")
            play += [f"mw_latency {asked['mw']};", "mw_msgs 0;"]
        if "gop" in asked:
            play.append("gop_cache off;")
        if "mr" in asked:
            publish += ["mr on;", f"mr_latency {asked['mr']};"]
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.ports = {name: str(free_port()) for name in ("rtmp", "api", "http")}
        path = os.path.join(folder, "conf")
        with open(path, "w", encoding="ascii") as file:
            # It does not start with more than it may have.
            connections = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - self.OTHER_DESCRIPTORS
            file.write(self.CONFIGURATION.format(folder=folder, connections=connections, vhost=" ".join(vhost), play=" ".join(play),
                                                 publish=" ".join(publish), **self.ports))
        self.start(stack, deadline, ["-c", path])

    def _streams(self):
        return ask_json(f"http://127.0.0.1:{self.ports['api']}/api/v1/streams/?count=100000")["streams"]

    def published(self, streams, plan):
        return sum(one["publish"]["active"] for one in self._streams()) == streams

    def playing(self, players):
        return sum(one["clients"] - 1 for one in self._streams()) == players

    def received(self, streams, plan):
        """It counts what it has received every few seconds: that would be too late here."""
        return True

    def finish(self, plan):
        self.wait("bytes", lambda: sum(one["recv_bytes"] for one in self._streams()) >= plan["flv_bytes"])
        return {}


class MediaMtx(Installed):
    """MediaMTX on one processor: its HTTP API. By RTMP it has a stream when it has seen 2 s of it, and players of a stream that it has not
    are refused, so it has no part in scenarios with RTMP players, who connect before."""

    PROGRAM, VARIABLE = "mediamtx", "SLUICE_BENCH_MEDIAMTX"
    CONFIGURATION = {
        "logLevel": "error", "readTimeout": "600s", "api": True, "hls": False, "webrtc": False, "srt": False, "moq": False,
        "rtspTransports": ["tcp"], "paths": {"all_others": {}},
    }

    def __init__(self, stack, deadline, _settings):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.ports = {name: str(free_port()) for name in ("rtmp", "rtsp", "api")}
        addresses = {f"{name}Address": f"127.0.0.1:{port}" for name, port in self.ports.items()}
        path = os.path.join(folder, "mediamtx.yml")
        with open(path, "w", encoding="ascii") as file:
            json.dump({**self.CONFIGURATION, **addresses}, file)  # JSON is YAML.
        self.start(stack, deadline, [path])

    def _list(self, what):
        found, pages, page = [], 1, 0
        while page < pages:
            answer = ask_json(f"http://127.0.0.1:{self.ports['api']}/v3/{what}/list?itemsPerPage=1000&page={page}")
            found += answer["items"]
            pages, page = answer["pageCount"], page + 1
        return found

    def _paths(self):
        return self._list("paths")

    def published(self, streams, plan):
        return sum(one["ready"] for one in self._paths()) == streams or len(self._list("rtmpconns")) == streams

    def playing(self, players):
        return sum(len(one["readers"]) for one in self._paths()) == players

    def received(self, streams, plan):
        return sum(one["bytesReceived"] for one in self._paths()) >= plan["bytes"]


class ZlMediaKit(Installed):
    """ZLMediaKit with one thread, and without the conversions to other protocols that it makes by default: its HTTP API. "zlmediakit"
    sends each frame as it comes, as by default; "zlmediakit+mw=N" gathers for N ms."""

    PROGRAM, VARIABLE, ASK, SECRET = "MediaServer", "SLUICE_BENCH_ZLMEDIAKIT", "-v", "bench"
    CONFIGURATION = {
        "api": {"apiDebug": 0, "secret": SECRET},
        "general": {"listen_ip": "127.0.0.1", "mergeWriteMS": 0},
        "protocol": {"add_mute_audio": 0, **{f"enable_{name}": 0 for name in ("hls", "hls_fmp4", "mp4", "rtsp", "rtmp", "ts", "fmp4")}},
        "rtmp": {"keepAliveSecond": 600}, "rtsp": {"keepAliveSecond": 600}, "http": {"keepAliveSecond": 600},
        "rtp_proxy": {"port": 0}, "rtc": {"port": 0, "tcpPort": 0}, "srt": {"port": 0}, "onvif": {"port": 0}, "shell": {"port": 0},
    }

    def __init__(self, stack, deadline, settings):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.ports = {name: str(free_port()) for name in ("rtmp", "rtsp", "http")}
        sections = {name: dict(section) for name, section in self.CONFIGURATION.items()}
        sections["general"]["mergeWriteMS"] = asked_of(settings).get("mw", 0)
        for name, port in self.ports.items():
            sections[name].update(port=port, sslport=0)
        path = os.path.join(folder, "config.ini")
        with open(path, "w", encoding="ascii") as file:
            for name, section in sections.items():
                file.write("\n".join([f"[{name}]", *(f"{key}={value}" for key, value in section.items()), ""]))
        # With leave to, it runs with a real-time priority, which no other server has.
        alike = ["setpriv", "--bounding-set", "-sys_nice"] if os.geteuid() == 0 else []
        self.start(stack, deadline, ["-c", path, "-t", "1", "-l", "4", "--log-dir", folder + "/"], alike)

    @staticmethod
    def played_as(stream, protocol):
        return stream + ".live" if protocol == "flv" else stream

    def _streams(self):
        url = f"http://127.0.0.1:{self.ports['http']}/index/api/getMediaList?secret={self.SECRET}"
        return ask_json(url).get("data", [])

    def published(self, streams, plan):
        return sum(bool(one["tracks"]) for one in self._streams()) == streams

    def playing(self, players):
        return sum(one["readerCount"] for one in self._streams()) == players

    def received(self, streams, plan):
        return sum(one["totalBytes"] for one in self._streams()) >= plan["bytes"]


OTHERS = {"mediamtx": MediaMtx, "nginx-rtmp": NginxRtmp, "srs": Srs, "gortsplib": Gortsplib,
          "zlmediakit": ZlMediaKit}  # By the first word of a variant.


def versions(names):
    """Of those of these servers that say which they are, as text."""
    return ", ".join(f"{name} {OTHERS[name].version()}" for name in sorted(names & OTHERS.keys()) if hasattr(OTHERS[name], "version"))
