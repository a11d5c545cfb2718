"""A storm of TLS handshakes: a client's first message again and again, each on a connection of its own that ends with the answer.

    python3 tls_storm.py [--rsa BITS] [--ticket] [--rounds N] RATE SECONDS [OPTION OF SLUICED]...

runs the daemon with 100 streams, each with a player, without TLS; prints how late their frames were, without the storm and beside it, and
what that adds to p99, whose bound is 20 ms. With --rsa the daemon's certificate has an RSA key of so many bits, which costs it three times
as much as one on a curve (2048). With --ticket each first message has the same ticket: a session is resumed, without a signature. It fails
if a frame is lost, if a handshake gets no answer, if the storm has not had its rate, or if it adds more. The client is on one processor, and
sluice-push too; the daemon should have another one.
"""

import argparse
import contextlib
import errno
import json
import multiprocessing
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import time

import harness
import tls

BURST = 50  # Connections that are begun before answers are looked at.
STREAMS = 100
MOST_MS = 20
RATE_REACHED = 0.98  # Of the rate that was asked for.
AHEAD = 1  # Seconds for which the storm goes on before the first frame, and behind the last.


class Storm:
    """One thread's: it costs a client little, and the daemon a signature and a key exchange each."""

    def __init__(self, address, hello=None):
        self._address, self._hello = address, hello or tls.client_hello()
        self._poll, self._open, self._said = select.epoll(), {}, set()
        self.begun = self.answered = self.refused = 0
        self._start = self.took = 0  # took: seconds until the last was begun.
        self.times = []  # Seconds until the first byte of an answer.

    def run(self, rate, seconds):
        self._start = start = time.monotonic()
        while time.monotonic() < start + seconds or self.begun < int(seconds * rate) or self._open:
            due = int(min(time.monotonic() - start, seconds) * rate)
            for _ in range(min(due - self.begun, BURST)):
                self._begin()
            for descriptor, _ in self._poll.poll(0.002):
                self._advance(*self._open[descriptor])
            if time.monotonic() > start + seconds + harness.PATIENCE:
                raise AssertionError("%d handshakes without an answer" % len(self._open))
        self._poll.close()

    def _begin(self):
        peer = socket.socket()
        peer.setblocking(False)
        # It ends by a reset: no port waits behind it.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        error = peer.connect_ex(self._address)
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, os.strerror(error))
        self._open[peer.fileno()] = peer, time.monotonic()
        self._poll.register(peer, select.EPOLLOUT)
        self.begun += 1
        self.took = time.monotonic() - self._start

    def _advance(self, peer, since):
        """The hello, once connected, and then the answer."""
        try:
            if peer.fileno() not in self._said:
                peer.send(self._hello)
                self._said.add(peer.fileno())
                self._poll.modify(peer, select.EPOLLIN)
                return
            data = peer.recv(65536)
        except OSError:
            data = b""
        self.answered += bool(data)
        self.refused += not data
        self.times.append(time.monotonic() - since)
        self._said.discard(peer.fileno())
        self._poll.unregister(peer)
        del self._open[peer.fileno()]
        peer.close()


def window(daemon):
    """Of the first worker: its automatic merge window in milliseconds, and its load."""
    text = daemon.admin("GET", "/metrics")[2].decode()
    values = [float(line.split()[1]) for name in ("merge_window_seconds", "load_ratio") for line in text.splitlines()
              if line.startswith('sluice_worker_%s{worker="0"}' % name)]
    return "window %.0f ms, load %.2f" % (values[0] * 1000, values[1])


def late(daemon, seconds, file):
    """Milliseconds that frames were late: what sluice-push says of its players; and the daemon's window in the end."""
    push = subprocess.Popen([os.path.join(harness.BUILD_DIR, "sluice-push"), "-n", str(STREAMS), "--players", str(STREAMS), "--loop",
                             "--duration", str(seconds), "--json", "--quiet", file,
                             "http://%s:%d/storm/%%d.flv" % daemon.address("http", 1)], stdout=subprocess.PIPE)
    time.sleep(seconds)
    seen = window(daemon)
    said = json.loads(push.communicate()[0].decode().strip().split("\n")[-1])
    if push.returncode:
        sys.exit("not every frame has arrived: %s" % said)
    return said["players"]["latency_ms"], seen


def hello_with_ticket(daemon):
    """Of a session that the daemon has had with another client; it may be said again and again."""
    of = tls.context(verify=False)
    with daemon.connect(of=of) as peer:
        peer.sendall(b"OPTIONS /a.flv HTTP/1.1\r\nHost: test\r\n\r\n")
        assert harness.read_head(peer)[0] == 204
        session = peer.tls.session
    with daemon.connect(of=of, session=session) as peer:
        assert peer.tls.session_reused
    return tls.client_hello(of, session)


@contextlib.contextmanager
def storming(storm, rate, seconds, said):
    """In a process of its own; said: how it was, when it has ended."""
    here, there = multiprocessing.Pipe(duplex=False)

    def run():
        storm.run(rate, seconds)
        there.send((storm.begun, storm.answered, storm.refused, sorted(storm.times), storm.took))
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    there.close()
    time.sleep(AHEAD)
    yield
    said.extend(here.recv())
    process.join()


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tls_storm.py")
    parser.add_argument("--rsa", type=int, default=0, metavar="BITS")
    parser.add_argument("--ticket", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("rate", type=int)
    parser.add_argument("seconds", type=float)
    options, daemon = parser.parse_known_args(arguments)
    return options, daemon


def used(daemon):
    """Seconds of the processor that the daemon has had."""
    with open("/proc/%d/stat" % daemon.process.pid, encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_round(daemon, options, hello, file):
    """False if it was not as it has to be."""
    begin = used(daemon)
    without, seen = late(daemon, options.seconds, file)
    print("without:", without, seen, flush=True)
    streams, said = used(daemon) - begin, []
    with storming(Storm(daemon.address(), hello), options.rate, options.seconds + 2 * AHEAD, said):
        beside, seen = late(daemon, options.seconds, file)
        print("beside:", beside, seen)
    begun, answered, refused, times, took = said
    print("added to p99: %d ms" % (beside["p99"] - without["p99"]))
    print("handshakes: %d, %.0f a second, answered %d, refused %d, p50 and p99 of the answer %.0f and %.0f ms, %.0f us of the daemon's "
          "time each" % (begun, begun / took, answered, refused, times[len(times) // 2] * 1000, times[len(times) * 99 // 100] * 1000,
                         (used(daemon) - begin - 2 * streams) / begun * 1e6), flush=True)
    return beside["p99"] - without["p99"] <= MOST_MS and not refused and begun / took >= RATE_REACHED * options.rate


def main():
    options, more = parse(sys.argv[1:])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    file = harness.make_media(harness.find_ffmpeg(), " ".join([harness.VIDEO, harness.tone(48000), "-t 10", harness.H264, harness.AAC]))
    with tls.Daemon("--tls-handshakes", "100000", "--tls-handshakes-per-address", "0", *more, rsa=options.rsa,
                    listen=("--http", "127.0.0.1:0,tls", "--http", "127.0.0.1:0")) as daemon:
        hello = hello_with_ticket(daemon) if options.ticket else tls.client_hello()
        good = [one_round(daemon, options, hello, file) for _ in range(options.rounds)]
    if not all(good):
        sys.exit("not as it has to be")


if __name__ == "__main__":
    main()
