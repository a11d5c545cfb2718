"""RTMP servers that are not ours, for tests of clients: nginx with its RTMP module, and ffmpeg, which serves one client."""

import contextlib
import os
import socket
import subprocess
import tempfile

import harness

PEERS = os.path.join(harness.SOURCE_DIR, "build", "peers", "usr")
NGINX = os.path.join(PEERS, "sbin", "nginx")
MODULE = os.path.join(PEERS, "lib", "nginx", "modules", "ngx_rtmp_module.so")

CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit; load_module {module};
events {{ worker_connections 64; }}
rtmp {{ access_log off; server {{ listen 127.0.0.1:{port}; {settings} application live {{ live on; }} }} }}
"""


def free_port():
    """One that nobody has now, for servers that cannot be told to take any."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_listening(port):
    """Without connecting: ffmpeg serves the first one that does."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        return any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "0A" for line in file.readlines()[1:])


def has_nginx():
    return os.access(NGINX, os.X_OK) and os.path.exists(MODULE)


@contextlib.contextmanager
def nginx(settings=""):
    """Its URL without the stream's name. @settings: of nginx' server block."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        path = os.path.join(folder, "conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(folder=folder, module=MODULE, port=port, settings=settings))
        process = subprocess.Popen([NGINX, "-p", folder, "-c", path], stdin=subprocess.DEVNULL)
        try:
            harness.wait_until(lambda: is_listening(port), "nginx")
            yield "rtmp://127.0.0.1:%d/live/" % port
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def ffmpeg_server(ffmpeg, *arguments, target=False, name="live/a"):
    """An ffmpeg that waits for a client at a URL: (its URL, the ffmpeg). The URL stands in front of the arguments as what it
    reads, or with @target behind them as what it writes."""
    url = "rtmp://127.0.0.1:%d/%s" % (free_port(), name)
    if target:
        process = harness.Ffmpeg(ffmpeg, *arguments, "-f", "flv", "-listen", "1", url)
    else:
        process = harness.Ffmpeg(ffmpeg, "-f", "flv", "-listen", "1", "-i", url, *arguments)
    try:
        harness.wait_until(lambda: is_listening(int(url.split(":")[2].split("/")[0])), "ffmpeg")
        yield url, process
    finally:
        process.kill()
