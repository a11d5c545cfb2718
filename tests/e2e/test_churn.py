"""Whoever comes goes again: descriptors and memory stay level.

The short form runs in CI. SLUICE_TEST_LONG=1 runs the long one, and prints what it has measured: tests/reports/faults.md.
"""

import signal
import statistics
import time
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher, descriptors, resident_kib
from long_form import report, size


class ChurnTest(unittest.TestCase):
    MINUTES, ROUNDS = size("CHURN_MINUTES", 3, 60), 150  # So many rounds where there are no minutes.
    # Between two rounds: the short form runs beside many other tests.
    PAUSE = size("CHURN_PAUSE_MS", 100, 0) / 1000
    WARM_UP = 100
    MOST_GROWN = 5 << 10  # KiB: a slab of the pool, and some.
    MOST_GROWTH = 1.0  # MiB an hour, of the second half, where there was time enough to tell.

    def setUp(self):
        self.continued, self.continued_at = 0, 0
        signal.signal(signal.SIGCONT, self.on_continue)
        self.addCleanup(signal.signal, signal.SIGCONT, signal.SIG_DFL)
        self.daemon = Daemon(listen=("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0"))
        self.addCleanup(self.daemon.kill)

    def on_continue(self, *_):
        self.continued += 1
        self.continued_at = time.monotonic()

    def once(self, number, data):
        name = "live/churn-%d" % number
        with Publisher(self.daemon, name, "http") as publisher:
            publisher.send(data)
            with Player(self.daemon, name) as player:
                player.wait_tags(3)
                if number % 3:
                    publisher.finish()
        for protocol, text in (("http", b"GET /x HTTP/1.1\r\n"), ("rtsp", b"OPTIONS * RT"), ("flv", data[:5000])):
            with self.daemon.connect(protocol) as peer:
                peer.sendall(text)

    def timed(self, number, data):
        """
        One round: how long it took, seconds. One while test and daemon were stopped, by whoever measures, is none; nor is
        one just behind, since deadlines that the daemon sets in the turn that it was stopped in have passed.
        """
        before = time.monotonic()
        try:
            self.once(number, data)
        except (OSError, AssertionError):
            if self.continued_at + 1 < before:
                raise
            harness.Patience.renew()
        return time.monotonic() - before if self.continued_at + 1 < before else 0

    def settle(self):
        self.daemon.blocks_settled()
        harness.wait_until(lambda: self.daemon.connections() == 0, "all connections to end")
        return descriptors(self.daemon.process.pid), resident_kib(self.daemon.process.pid)

    def churn(self, data):
        """[(seconds that it has run, resident KiB)], of each round."""
        samples, ran, told = [], 0, 0
        while ran < 60 * self.MINUTES if self.MINUTES else len(samples) < self.ROUNDS:
            ran += self.timed(self.WARM_UP + len(samples), data)
            if self.MINUTES:
                time.sleep(self.PAUSE)
                ran += self.PAUSE
            samples.append((ran, resident_kib(self.daemon.process.pid)))
            if len(samples) % 1000 == 0:
                self.daemon.forget_log()
            if ran - told > 300:
                told = ran
                report("%d rounds in %.0f s, stopped %d times; memory %d KiB", len(samples), ran, self.continued,
                       samples[-1][1])
        return samples

    def test_churn(self):
        """Publishers, players, requests and half requests come and go: descriptors and memory stay level."""
        data = flv.stream(60)[0]
        for number in range(self.WARM_UP):
            self.once(number, data)
        level, memory = self.settle()
        samples = self.churn(data)
        after, grown = self.settle()
        # One connection of the administration's may still be closing.
        self.assertLessEqual(after, level + 1)
        half = samples[len(samples) // 2:]
        slope = statistics.linear_regression(*zip(*half)).slope * 3600 / 1024 if len(set(half)) > 2 else 0
        report("churn of %d rounds in %.0f s: descriptors %d, then %d; memory %d KiB, then %d KiB; in the second half "
               "%.2f MiB/h", len(samples), samples[-1][0], level, after, memory, grown, slope)
        if not harness.SANITIZED:
            self.assertLessEqual(grown - memory, self.MOST_GROWN)
            if self.MINUTES >= 30:
                self.assertLess(slope, self.MOST_GROWTH)
        self.daemon.stop()


if __name__ == "__main__":
    harness.main()
