"""Redis for the tests of clusters: servers, Sentinels, a small client; and servers that do what no engine should."""

import contextlib
import hashlib
import itertools
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import harness

REDIS = os.environ.get("SLUICE_TEST_ENGINE") or shutil.which("redis-server") or shutil.which("valkey-server")
# Ports at an address that is this process's alone.
_ports = itertools.count(6379)


class Reply(Exception):
    """An error that the server has reported."""


def command(*words):
    """A command as it is sent."""
    parts = [str(word).encode() if not isinstance(word, bytes) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def read_reply(file):
    """One reply of RESP 2: text, number, list, None."""
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server has ended the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise Reply(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"+":
        return rest.decode()
    count = int(rest)
    if count < 0:
        return None
    if kind == b"$":
        return file.read(count + 2)[:-2].decode("latin-1")
    return [read_reply(file) for _ in range(count)]


def free_address():
    """A host and port at which nobody else listens."""
    return harness.own_host(), next(_ports)


class Redis:
    """A running server, without a file. As a context it is stopped at the end."""

    def __init__(self, *options, address=None, password=None, sentinel=None, certificate=None, environment=None):
        """sentinel: lines of a Sentinel's file; certificate: (chain, key), for TLS alone; environment: more of it."""
        self.host, self.port = address or free_address()
        self.password, self._certificate, self.environment = password, certificate, environment
        self._folder = tempfile.TemporaryDirectory()
        words = [REDIS]
        if sentinel is not None:
            path = os.path.join(self._folder.name, "sentinel.conf")
            with open(path, "w", encoding="ascii") as file:
                file.write("\n".join(sentinel) + "\n")
            words += [path, "--sentinel"]
        else:
            words += ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]
        words += ["--bind", self.host, "--dir", self._folder.name]
        if certificate:
            words += ["--port", "0", "--tls-port", str(self.port), "--tls-cert-file", certificate[0], "--tls-key-file",
                      certificate[1], "--tls-ca-cert-file", certificate[0], "--tls-auth-clients", "no"]
        else:
            words += ["--port", str(self.port)]
        if password:
            words += ["--requirepass", password]
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*words, *options], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                                        env=dict(os.environ, **(environment or {})))
        harness.wait_until(self._answers, lambda: "Redis at %s:%d; %s" % (self.host, self.port, self.log()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def log(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]

    @property
    def url(self):
        return "redis%s://%s%s:%d" % ("s" if self._certificate else "", ":%s@" % self.password if self.password else "",
                                      self.host, self.port)

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError("Redis has ended:\n" + self.log())
        with contextlib.suppress(OSError):
            with contextlib.suppress(Reply):
                return self.ask("PING") == "PONG"
        return False

    def _connect(self):
        peer = socket.create_connection((self.host, self.port), harness.PATIENCE)
        if not self._certificate:
            return peer
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(peer)

    def ask(self, *words):
        """One command on its own connection."""
        with self._connect() as peer, peer.makefile("rb") as file:
            if self.password:
                peer.sendall(command("AUTH", self.password))
                read_reply(file)
            peer.sendall(command(*words))
            return read_reply(file)

    def keys(self):
        return sorted(self.ask("KEYS", "*"))

    def stop(self):
        """Kills it, so that it says nothing to its clients."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()
        self._folder.cleanup()


class Failover:
    """A master, its replica, and a Sentinel that watches both; what a master has not passed on is lost when it is killed."""

    USER = "replica"

    def __init__(self):
        self.name = "master"
        self.master = Redis()
        self.master.ask("ACL", "SETUSER", self.USER, "on", ">" + self.USER, "~*", "&*", "+@all")
        self.replica = Redis("--replicaof", self.master.host, str(self.master.port), "--masteruser", self.USER, "--masterauth",
                             self.USER, "--replica-announce-ip", harness.own_host())
        harness.wait_until(lambda: self.replica.ask("ROLE")[3] == "connected", "the replica to follow")
        self.sentinel = Redis(sentinel=[
            "sentinel monitor %s %s %d 1" % (self.name, self.master.host, self.master.port),
            "sentinel down-after-milliseconds %s 500" % self.name, "sentinel failover-timeout %s 3000" % self.name])
        # It asks the master for its replicas every ten seconds.
        harness.wait_until(lambda: self.sentinel.ask("SENTINEL", "REPLICAS", self.name), "the Sentinel to know the replica")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in (self.sentinel, self.replica, self.master):
            server.stop()

    @property
    def url(self):
        return self.sentinel.url

    def stop_replication(self):
        """The replica hears of nothing any more."""
        self.master.ask("ACL", "SETUSER", self.USER, "off")
        self.master.ask("CLIENT", "KILL", "TYPE", "replica")
        harness.wait_until(lambda: self.replica.ask("ROLE")[3] != "connected", "the replica to be without its master")

    def _is_promoted(self):
        """Sentinel has all connections of a server closed when it promotes it, this one, too."""
        try:
            return self.replica.ask("ROLE")[0] == "master"
        except ConnectionError:
            return False

    def kill_master(self):
        """Returns when the replica is the master."""
        self.master.stop()
        harness.wait_until(self._is_promoted, "the replica to be promoted")


class Hostile:
    """A server that greets as an engine does, and then answers each command in its own way.

    The way is a name of those below; it may be changed meanwhile.
    """

    HELLO = {"server": "redis", "version": "7.9.9", "proto": 3, "id": 1, "mode": "standalone", "role": "master"}

    def __init__(self, way, hello=None, greets=True):
        """greets: the way begins behind the greeting and the scripts; else with the first byte."""
        self.way, self.hello, self.greets = way, dict(self.HELLO, **(hello or {})), greets
        self.connections, self.commands, self.sent = 0, 0, 0
        self._ending = threading.Event()
        self._peers = []
        self._listener = socket.create_server(free_address())
        self.host, self.port = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def url(self):
        return "redis://%s:%d" % (self.host, self.port)

    def _accept(self):
        while not self._ending.is_set():
            try:
                peer = self._listener.accept()[0]
            except OSError:
                return
            self._peers.append(peer)
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=(peer,), daemon=True))
            self._threads[-1].start()

    def _serve(self, peer):
        with contextlib.suppress(OSError, ConnectionError), peer, peer.makefile("rb") as file:
            while not self._ending.is_set():
                words = read_reply(file)
                if self.greets and words[0] == "HELLO":
                    peer.sendall(b"%%%d\r\n" % len(self.hello) + b"".join(
                        command(key)[4:] + (b":%d\r\n" % value if isinstance(value, int) else command(value)[4:])
                        for key, value in self.hello.items()))
                elif self.greets and words[0] == "SUBSCRIBE":
                    peer.sendall(b">3\r\n" + command("subscribe")[4:] + command(words[1])[4:] + b":1\r\n")
                elif self.greets and words[0] == "SCRIPT":
                    peer.sendall(command(hashlib.sha1(words[2].encode("latin-1")).hexdigest())[4:])
                else:
                    self.commands += 1
                    getattr(self, "_" + self.way)(peer)

    def _flood(self, peer, data):
        while not self._ending.is_set():
            peer.sendall(data)
            self.sent += len(data)

    # Ways

    def _slow(self, peer):
        """Five seconds for each reply."""
        if not self._ending.wait(5):
            peer.sendall(b"*0\r\n")

    def _silent(self, _peer):
        self._ending.wait()

    def _garbage(self, peer):
        peer.sendall(bytes(range(256)) * 16)

    def _http(self, peer):
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    def _error(self, peer):
        peer.sendall(b"-ERR no, said with geheim\r\n")

    def _endless(self, peer):
        """A string that is announced as one of a gigabyte."""
        peer.sendall(b"$1000000000\r\n")
        self._flood(peer, b"x" * 65536)

    def _line(self, peer):
        """A line that does not end."""
        peer.sendall(b"+")
        self._flood(peer, b"x" * 65536)

    def _array(self, peer):
        """An array of which each element is another one."""
        self._flood(peer, b"*1\r\n" * 4096)

    def _many(self, peer):
        """More replies than there were commands."""
        self._flood(peer, b"+OK\r\n" * 4096)

    def _dribble(self, peer):
        """A reply, byte by byte."""
        peer.sendall(b"$1000000\r\n")
        while not self._ending.wait(0.01):
            peer.sendall(b"x")

    def _pushes(self, peer):
        """Events without end, which are none."""
        data = b">3\r\n$7\r\nmessage\r\n$13\r\nsluice:events\r\n$7\r\nnothing\r\n" * 1000
        end = time.monotonic() + 3
        while time.monotonic() < end and not self._ending.is_set():
            peer.sendall(data)
            self.sent += len(data)

    def _close(self, peer):
        peer.shutdown(socket.SHUT_RDWR)

    def _wrong(self, peer):
        """A reply of another form than the command's."""
        peer.sendall(b"%1\r\n+a\r\n*2\r\n:1\r\n_\r\n")
