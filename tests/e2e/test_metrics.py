"""/metrics, as Prometheus' own programs see it."""

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
import unittest

import flv
import harness
import tls
from harness import Daemon, Player, Publisher, Steady
from stopped_thread import StoppedThread

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    harness.skip_file("the Python package prometheus-client is not installed: tools/install-deps test")

PROMTOOL = os.path.join(harness.SOURCE_DIR, "build", "promtool", "usr", "bin", "promtool")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


def scrape(daemon):
    """The text, and the values by name and labels."""
    status, headers, body = daemon.admin("GET", "/metrics")
    if (status, headers["Content-Type"]) != (200, TYPE):
        raise AssertionError("%d %s" % (status, headers["Content-Type"]))
    values = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            if key in values:
                raise AssertionError("%s is there twice" % (key,))
            values[key] = sample.value
    return body, values


def scrape_all(daemon):
    """The values, when all workers have answered."""
    def look():
        values = scrape(daemon)[1]
        return values if all(value for key, value in values.items() if key[0] == "sluice_worker_up") else None
    return harness.wait_until(look, "an answer of all workers")


class LateTest(unittest.TestCase):
    """A worker that does not answer: Prometheus takes a counter that falls for a restart."""

    def start(self, stack):
        """A stream on each of two workers, with a player on each; a player that was refused, and a repaired recording."""
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.mkdir(os.path.join(folder, "none"))
        with open(os.path.join(folder, "none", "2026-01-01T00-00-00.000Z.flv.part"), "wb"):
            pass
        daemon = stack.enter_context(Daemon("--workers", "2", "--spread", "1", "--max-players", "2", "--record",
                                            "none=" + folder))
        data, tags = flv.stream(60)
        names = {}
        for number in itertools.count():
            name = "live/s%d" % number
            stack.enter_context(Publisher(daemon, name, "http")).send(data)
            names[daemon.wait_stream(name)["worker"]] = name
            if len(names) == 2:
                break
        for name in names.values():
            for count in (1, 2):
                player = stack.enter_context(Player(daemon, name))
                daemon.wait_player(name, count)
                player.wait_frame(tags[-1])
            self.assertEqual({player["worker"] for player in daemon.api("/api/v1/streams/" + name)["players"]}, {0, 1})
        self.assertEqual(daemon.request("GET", "/%s.flv" % names[0])[0], 503)
        harness.wait_until(lambda: daemon.api("/api/v1/recordings")["repairs"]["empty"] == 1, "the part that is empty")
        return daemon

    def check_counters(self, before, values):
        for key, value in before.items():
            if not key[0].endswith("_total"):
                continue
            # Those of single workers and streams may be missing: a gap is none.
            if not {"worker", "stream"} & dict(key[1:]).keys():
                self.assertIn(key, values)
            self.assertGreaterEqual(values.get(key, value), value, key)

    def check_documents(self, daemon, before):
        """The API's documents have the same totals."""
        def get(path):
            status, _, body = daemon.admin("GET", path)
            self.assertEqual(status, 200, body)
            return json.loads(body)
        self.assertGreaterEqual(get("/api/v1/overview")["counts"]["bytes_sent"], before["sluice_sent_bytes_total",])
        self.assertEqual(get("/api/v1/snapshot")["refused"]["max_players"], 1)
        self.assertEqual(get("/api/v1/recordings")["repairs"]["empty"], 1)

    def test_late_workers(self):
        with contextlib.ExitStack() as stack:
            daemon = self.start(stack)
            before = scrape_all(daemon)
            self.assertEqual(before["sluice_refused_total", ("cause", "max_players")], 1)
            self.assertEqual(before["sluice_recording_repairs_total", ("result", "empty")], 1)
            for worker in (1, 0):
                with self.subTest(worker=worker), StoppedThread(daemon, "worker %d" % worker):
                    during = scrape(daemon)[1]
                    self.assertEqual(during["sluice_worker_up", ("worker", str(worker))], 0)
                    self.check_counters(before, during)
                    self.check_documents(daemon, before)
                after = scrape_all(daemon)
                self.check_counters(before, after)
                self.check_counters(during, after)
                before = after


class MetricsTest(unittest.TestCase):
    def test_values(self):
        data, tags = flv.stream(60)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with Daemon("--record", "live/a=" + folder.name) as daemon:
            with Publisher(daemon, "live/a", "http") as publisher, Player(daemon, "live/a") as player:
                daemon.wait_player("live/a")
                publisher.send(data)
                player.wait_tags(len(tags))
                _, values = scrape(daemon)
                self.assertEqual(values["sluice_streams", ("state", "live")], 1)
                self.assertEqual(values["sluice_players",], 1)
                self.assertEqual(values["sluice_stream_players", ("stream", "live/a")], 1)
                self.assertEqual(values["sluice_received_bytes_total",], len(data) - 13)
                self.assertEqual(values["sluice_stream_received_bytes_total", ("stream", "live/a")], len(data) - 13)
                self.assertEqual(values["sluice_stream_recording", ("stream", "live/a")], 1)
                self.assertGreater(values["sluice_stream_recorded_bytes_total", ("stream", "live/a")], 60 * 200)
                frames = sum(values["sluice_received_frames_total", ("kind", kind)] for kind in ("audio", "video"))
                self.assertEqual(frames, sum(tag.is_frame for tag in tags))
                self.assertGreaterEqual(values["sluice_sent_bytes_total",], len(data))
                # The stream is one worker's.
                owner = ("worker", str(daemon.stream("live/a")["worker"]))
                workers = [("worker", str(worker["worker"])) for worker in daemon.api()["workers"]]
                self.assertGreater(values["sluice_pool_held_bytes", owner], 0)
                for worker in workers:
                    self.assertEqual(values["sluice_payload_copied_bytes_total", worker], 0)
                    self.assertEqual(values["sluice_worker_up", worker], 1)
            daemon.blocks_settled()

    def test_totals_only_go_up(self):
        """Publishers and players come and go: what they counted stays in the totals."""
        data, tags = flv.stream(60)
        with Daemon() as daemon:
            before = scrape(daemon)[1]
            for turn in range(3):
                with Publisher(daemon, "live/a", "http") as publisher, Player(daemon, "live/a") as player:
                    daemon.wait_player("live/a")
                    publisher.send(data)
                    player.wait_tags(len(tags))
                    self.assertEqual(publisher.finish(), 200)
                daemon.blocks_settled()
                values = scrape(daemon)[1]
                for key, value in before.items():
                    if key[0].endswith("_total") and key in values:
                        self.assertGreaterEqual(values[key], value, key)
                self.assertEqual(values["sluice_received_bytes_total",], (turn + 1) * (len(data) - 13))
                self.assertEqual((values["sluice_players_total",], values["sluice_publishers_total",]),
                                 (turn + 1, turn + 1))
                self.assertFalse(any(key[0].startswith("sluice_stream_") for key in values))
                before = values

    def test_drops_of_all_workers(self):
        """The drops of players on two workers are added up, cause by cause."""
        data, _ = flv.stream(2000, size=4000)
        options = ("--workers", "2", "--player-buffer", "256K", "--gop-size", "64K", "--frame-limit", "64K",
                   "--catch-up", "600", "--stall", "600", "--wait", "600")
        with Daemon(*options) as daemon, contextlib.ExitStack() as stack:
            names = ["live/s%d" % i for i in range(8)]
            for name in names:
                stack.enter_context(Player(daemon, name, receive_buffer=4096, reading=False))
            for name in names:
                daemon.wait_player(name)
                with Publisher(daemon, name, "http") as publisher:
                    publisher.send(data)
                    self.assertEqual(publisher.finish(), 200)

            def look():
                """Drops by worker and cause; None while they still change."""
                before = daemon.api()
                values = scrape(daemon)[1]
                after = daemon.api()
                if drops(before) != drops(after):
                    return None
                return drops(after), {dict(key[1:])["cause"]: value for key, value in values.items()
                                      if key[0] == "sluice_dropped_frames_total"}

            def drops(state):
                owners = {stream["name"]: stream["worker"] for stream in state["streams"]}
                found = {0: {}, 1: {}}
                for player in state["players"]:
                    counts = found[owners[player["stream"]]]
                    for cause, count in player["drops"].items():
                        counts[cause] = counts.get(cause, 0) + count
                return found
            by_worker, metrics = harness.wait_until(look, "drops that stand still")
            for counts in by_worker.values():
                self.assertGreater(sum(counts.values()), 0, by_worker)
            for cause, value in metrics.items():
                self.assertEqual(value, by_worker[0][cause] + by_worker[1][cause], cause)

    def test_tls_bytes(self):
        """What TLS copies is counted where it happens, and stays counted when connections move and end."""
        data, tags = flv.stream(60, size=20000)

        def counts(daemon):
            values = scrape(daemon)[1]
            sums = {name: sum(value for key, value in values.items() if key[0] == "sluice_worker_tls_%s_bytes_total" % name)
                    for name in ("decrypted", "encrypted", "gathered", "copied")}
            self.assertEqual(values["sluice_payload_copied_bytes_total", ("worker", "0")], 0)
            return sums

        with tls.Daemon("--workers", "2", "--wait", "1") as daemon:
            self.assertEqual(set(counts(daemon).values()), {0})
            for name in ("live/a", "live/b", "live/c"):
                before = counts(daemon)
                with Publisher(daemon, name, "http") as publisher, Player(daemon, name) as player:
                    publisher.send(data[:1000])
                    daemon.wait_player(name)
                    publisher.send(data[1000:])
                    player.wait_frame(tags[-1])
                    during = counts(daemon)
                    publisher.finish()
                    player.wait_end()
                harness.wait_until(lambda: daemon.connections() == 0, "the end of both connections")
                after = counts(daemon)
                new = {key: after[key] - before[key] for key in after}
                self.assertTrue(all(before[key] <= during[key] <= after[key] for key in after), (before, during, after))
                for key in ("decrypted", "encrypted"):
                    self.assertTrue(len(data) <= new[key] <= 1.05 * len(data) + 2000, (new, len(data)))
                # Frames are longer than a block, so nearly all of what is sent is put together.
                self.assertTrue(0.9 * len(data) < new["gathered"] <= new["encrypted"], new)
                payload = 2 * new["decrypted"] + 2 * new["encrypted"] + new["gathered"]
                self.assertTrue(payload <= new["copied"] <= 1.02 * payload + 10000, new)
            workers = daemon.api("/api/v1/workers")["workers"]
            self.assertEqual({key: sum(worker["tls_bytes"][key] for worker in workers) for key in after}, after)

    def test_promtool(self):
        """The checker that comes with Prometheus finds nothing to complain of."""
        if not os.access(PROMTOOL, os.X_OK):
            self.skipTest("promtool is not installed: tools/install-deps test")
        with Daemon("--pull", "rtsp://127.0.0.1:1/none=live/pulled", "--forward", "*=http://127.0.0.1:1/none",
                    "--forward", "*=http://127.0.0.1:1/another") as daemon:
            with Steady(daemon):
                text, _ = scrape(daemon)
                done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False,
                                      timeout=harness.PATIENCE)
                self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    def test_rules(self):
        """The rules for Prometheus: alerts of certificates, on the day on which the daemon warns, too."""
        if not os.access(PROMTOOL, os.X_OK):
            self.skipTest("promtool is not installed: tools/install-deps test")
        case = """
rule_files: [%s]
tests:
  - interval: 1m
    input_series:
      - {series: 'sluice_certificate_expiry_days{subject="CN=good",instance="a"}', values: 22.1+0x20}
      - {series: 'sluice_certificate_expiry_days{subject="CN=soon",instance="a"}', values: 21.5+0x20}
      - {series: 'sluice_certificate_expiry_days{subject="CN=over",instance="a"}', values: -1+0x20}
    alert_rule_test:
      - eval_time: 15m
        alertname: SluiceCertificateExpiresSoon
        exp_alerts:
          - exp_labels: {severity: warning, subject: CN=soon, instance: a}
            exp_annotations: {summary: Certificate CN=soon of sluiced at a has 21 days left}
      - eval_time: 15m
        alertname: SluiceCertificateExpired
        exp_alerts:
          - exp_labels: {severity: critical, subject: CN=over, instance: a}
            exp_annotations: {summary: Certificate CN=over of sluiced at a has expired}
"""
        rules = os.path.join(harness.SOURCE_DIR, "packaging", "prometheus", "sluice.rules.yml")
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(case % rules)
            file.flush()
            for arguments in (("check", "rules", rules), ("test", "rules", file.name)):
                done = subprocess.run([PROMTOOL, *arguments], capture_output=True, check=False, timeout=harness.PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)


if __name__ == "__main__":
    harness.main()
