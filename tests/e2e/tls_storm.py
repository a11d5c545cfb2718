"""A storm of TLS handshakes: a client's first message again and again, each on a connection of its own that ends with the answer.

    python3 tls_storm.py [--rsa BITS] [--rounds N] RATE SECONDS [OPTION OF SLUICED]...

runs the daemon with 100 streams, each with a player, without TLS; prints how late their frames were, without the storm and beside it, and
what that adds to p99, whose bound is 20 ms. With --rsa the daemon's certificate has an RSA key of so many bits, which costs it three times
as much as one on a curve (2048). The client is on one processor, and sluice-push too; the daemon should have another one.
"""

import argparse
import json
import os
import select
import socket
import subprocess
import sys
import time

import harness
import tls

BURST = 50  # Connections that are begun before answers are looked at.
STREAMS = 100


class Storm:
    """One thread's: it costs a client little, and the daemon a signature and a key exchange each."""

    def __init__(self, address):
        self._address, self._hello = address, tls.client_hello()
        self._poll, self._open, self._said = select.epoll(), {}, set()
        self.begun = self.answered = self.refused = 0
        self.times = []  # Seconds until the first byte of an answer.

    def run(self, rate, seconds):
        start = time.monotonic()
        while time.monotonic() < start + seconds or self._open:
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
        peer.connect_ex(self._address)
        self._open[peer.fileno()] = peer, time.monotonic()
        self._poll.register(peer, select.EPOLLOUT)
        self.begun += 1

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


def late(daemon, seconds, file, storm=None, rate=0):
    """Milliseconds that frames were late: what sluice-push says of its players; and the daemon's window in the end."""
    push = subprocess.Popen([os.path.join(harness.BUILD_DIR, "sluice-push"), "-n", str(STREAMS), "--players", str(STREAMS), "--loop",
                             "--duration", str(seconds + 3), "--json", "--quiet", file,
                             "http://%s:%d/storm/%%d.flv" % daemon.address("http", 1)], stdout=subprocess.PIPE)
    time.sleep(2)
    if storm:
        storm.run(rate, seconds)
    else:
        time.sleep(seconds)
    seen = window(daemon)
    said = json.loads(push.communicate()[0].decode().strip().split("\n")[-1])
    return push.returncode, said["players"]["latency_ms"], seen


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tls_storm.py")
    parser.add_argument("--rsa", type=int, default=0, metavar="BITS")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("rate", type=int)
    parser.add_argument("seconds", type=float)
    options, daemon = parser.parse_known_args(arguments)
    return options, daemon


def main():
    options, more = parse(sys.argv[1:])
    file = harness.make_media(harness.find_ffmpeg(), " ".join([harness.VIDEO, harness.tone(48000), "-t 10", harness.H264, harness.AAC]))
    with tls.Daemon("--tls-handshakes", "100000", "--tls-handshakes-per-address", "0", *more, rsa=options.rsa,
                    listen=("--http", "127.0.0.1:0,tls", "--http", "127.0.0.1:0")) as daemon:
        for _ in range(options.rounds):
            status, without, seen = late(daemon, options.seconds, file)
            print("without:", status, without, seen)
            storm = Storm(daemon.address())
            status, beside, seen = late(daemon, options.seconds, file, storm, options.rate)
            print("beside:", status, beside, seen)
            print("added to p99: %d ms" % (beside["p99"] - without["p99"]))
            times = sorted(storm.times)
            print("handshakes: %d, answered %d, refused %d, p50 and p99 of the answer %.0f and %.0f ms" % (
                storm.begun, storm.answered, storm.refused, times[len(times) // 2] * 1000, times[len(times) * 99 // 100] * 1000))


if __name__ == "__main__":
    main()
