"""Sockets that a service manager has opened: by sd_listen_fds(3), as systemd-socket-activate and systemd do."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher

# Becomes the daemon: with the sockets from 3 on, and the environment that says so.
GIVE = """
import os, sys
count = int(sys.argv[1])
fds = [os.dup2(int(fd), 100 + at) for at, fd in enumerate(sys.argv[3:3 + count])]
for at, fd in enumerate(fds):
    os.dup2(fd, 3 + at)
    os.close(fd)
os.environ.update(LISTEN_FDS=str(count), LISTEN_FDNAMES=sys.argv[2], LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[3 + count], sys.argv[3 + count:])
"""
PORT_WORDS = {"http": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
              "rtsp": b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"}


def listening(host="127.0.0.1"):
    """A socket as systemd makes one: it does not block."""
    family = socket.AF_UNIX if "/" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(host if family == socket.AF_UNIX else (host, 0))
    made.listen(64)
    made.setblocking(False)
    return made


def text_of(made):
    return "%s:%d" % made.getsockname()


class ActivationTest(unittest.TestCase):
    def given(self, sockets, *options, names=None, **more):
        """A daemon that is given sockets by names."""
        names = ":".join(name for name, _ in sockets) if names is None else names
        numbers = [str(made.fileno()) for _, made in sockets]
        within = (sys.executable, "-c", GIVE, str(len(sockets)), names, *numbers)
        return Daemon(*options, listen=(), within=within, pass_fds=[made.fileno() for _, made in sockets], **more)

    def listen(self, *hosts):
        made = [listening(host) for host in hosts]
        for one in made:
            self.addCleanup(one.close)
        return made

    def ask(self, address, protocol):
        with socket.create_connection(address, harness.PATIENCE) as peer:
            peer.sendall(PORT_WORDS[protocol])
            return peer.recv(64)

    def test_by_name(self):
        """A name says what a socket is for; and only those are listened at."""
        flv_socket, http, rtsp = self.listen(*["127.0.0.1"] * 3)
        with self.given([("flv", flv_socket), ("http", http), ("rtsp", rtsp)]) as daemon:
            self.assertEqual([(proto, port) for proto, _, port in daemon.listening if proto != "admin"],
                             [(name, made.getsockname()[1]) for name, made in
                              (("flv", flv_socket), ("http", http), ("rtsp", rtsp))])
            data, tags = flv.stream(60)
            with Publisher(daemon) as publisher:
                publisher.send(data)
                daemon.wait_stream(publisher.name)
                with Player(daemon, publisher.name) as player:
                    player.wait_frame(tags[-1])
            self.assertIn(b" 200 ", self.ask(rtsp.getsockname(), "rtsp"))
            self.assertEqual(daemon.complaints(), [])

    def test_who_came_before_is_answered(self):
        """The socket listens before the daemon does: who connects meanwhile waits."""
        http, = self.listen("127.0.0.1")
        with socket.create_connection(http.getsockname(), harness.PATIENCE) as early:
            early.sendall(PORT_WORDS["http"])
            with self.given([("http", http)]):
                self.assertIn(b" 404 ", early.recv(64))

    def test_by_address(self):
        """Where the configuration has a listener of that address, the name does not count."""
        http, = self.listen("127.0.0.1")
        with self.given([("sluiced.socket", http)], "--http", text_of(http) + ",merge-window=20") as daemon:
            self.assertIn(b" 404 ", self.ask(http.getsockname(), "http"))
            self.assertEqual(len(daemon.log("listening", proto="http")), 1)

    def test_admin(self):
        """The administration's too, also a Unix socket; its file is not the daemon's to remove."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "admin")
            self.addCleanup(os.umask, os.umask(0o077))
            http, admin, by_path = self.listen("127.0.0.1", "127.0.0.1", path)
            with self.given([("http", http), ("admin", admin), ("admin", by_path)], "--admin", text_of(admin)) as daemon:
                self.assertIn("version", daemon.api("/api/v1/version"))
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.settimeout(harness.PATIENCE)
                    peer.connect(path)
                    peer.sendall(b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertIn(b" 200 ", peer.recv(64))
            self.assertTrue(os.path.exists(path))

    def test_admin_of_others(self):
        """A Unix socket that others may write to, as systemd makes it by itself, is refused, or asks for the token."""
        with tempfile.TemporaryDirectory() as folder:
            path, token = os.path.join(folder, "admin"), os.path.join(folder, "token")
            admin, = self.listen(path)
            with open(token, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write("a-token-that-is-long-enough\n")
            for mode in (0o666, 0o660, 0o602):
                os.chmod(path, mode)
                with self.assertRaises(harness.NotStarted) as caught:
                    self.given([("admin", admin)], "--http", "127.0.0.1:0")
                self.assertIn("socket unix:%s of the service manager: expected one that is its owner's alone" % path,
                              str(caught.exception))
            request = b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n"
            for mode, more, status in ((0o660, b"", 401), (0o660, b"Authorization: Bearer a-token-that-is-long-enough\r\n", 200),
                                       (0o600, b"", 200)):
                os.chmod(path, mode)
                with self.given([("admin", admin)], "--http", "127.0.0.1:0", "--admin-token-file", token), \
                        socket.socket(socket.AF_UNIX) as peer:
                    peer.settimeout(harness.PATIENCE)
                    peer.connect(path)
                    peer.sendall(request % more)
                    self.assertEqual(harness.read_head(peer)[0], status)

    def test_reload_and_upgrade(self):
        """They outlive both; and nobody is refused in between."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "sluiced.conf")
            http, = self.listen("127.0.0.1")

            def write(text):
                with open(config, "w", encoding="ascii") as file:
                    file.write(text)

            write("")
            daemon = self.given([("http", http)], "--config", config)
            self.addCleanup(daemon.kill)
            write('rtsp = "127.0.0.1:0";')
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_log("configuration reloaded")
            self.assertIn(b" 404 ", self.ask(http.getsockname(), "http"))
            daemon.process.send_signal(signal.SIGUSR2)
            pid = int(daemon.wait_log("replaced").fields["pid"])
            daemon.wait_log("ready", 2)
            daemon.wait_end()
            # Also where the process that goes on has been given it by the one before.
            daemon.wait_log("listening", 2, proto="http", address=text_of(http))
            write("")
            os.kill(pid, signal.SIGHUP)
            daemon.wait_log("configuration reloaded", 2)
            self.assertIn(b" 404 ", self.ask(http.getsockname(), "http"))
            os.kill(pid, signal.SIGTERM)
            daemon.wait_log("stopped", 2)

    def test_wrong_sockets(self):
        """What is of no use is refused at the start, with its name and address."""
        one, = self.listen("127.0.0.1")
        remote, = self.listen("0.0.0.0")
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        for made, name, expected in (
                (one, "sluiced.socket", "socket %s of the service manager: expected the address of a listener, or one of "
                 "the names flv, http, rtmp, rtsp and admin, got \"sluiced.socket\"" % text_of(one)),
                (datagrams, "http", "expected a stream socket that listens, got descriptor 3"),
                (remote, "http", "the service manager's socket: expected a loopback address, or rules")):
            with self.subTest(name=name, made=made):
                with self.assertRaises(harness.NotStarted) as caught:
                    self.given([(name, made)])
                self.assertIn(expected, str(caught.exception))

    def test_meant_for_another_process(self):
        """Variables that were inherited from somebody else say nothing."""
        with Daemon("--http", "127.0.0.1:0", listen=(), environment={
                "LISTEN_FDS": "1", "LISTEN_PID": "1", "LISTEN_FDNAMES": "http", "SLUICED_UPGRADE": "3:1"}) as daemon:
            self.assertEqual(len(daemon.log("listening", proto="http")), 1)

    def test_systemd_socket_activate(self):
        """systemd's own tool, which starts the daemon when the first connection comes."""
        activate = shutil.which("systemd-socket-activate")
        if not activate:
            self.skipTest("no systemd-socket-activate")
        with socket.socket() as free:
            free.bind((harness.own_host(), 0))
            address = free.getsockname()
        process = subprocess.Popen(
            [activate, "--listen=%s:%d" % address, "--fdname=http", harness.SLUICED, "--admin", "127.0.0.1:0",
             *(("--backend", harness.BACKEND) if harness.BACKEND else ())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def connect():
            try:
                return socket.create_connection(address, harness.PATIENCE)
            except ConnectionRefusedError:
                return None

        with harness.wait_until(connect, "systemd-socket-activate to listen") as peer:
            peer.sendall(PORT_WORDS["http"])
            self.assertIn(b" 404 ", peer.recv(64))


if __name__ == "__main__":
    harness.main()
