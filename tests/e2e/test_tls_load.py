"""Hostile clients by TLS: those of every kind in hostile.py, with HTTP, RTSP and RTMP, through TLS, and those of hostile_tls.py, which
attack TLS itself. Publishers and players by https, rtsps and rtmps beside them lose nothing.

SLUICE_LOAD_TLS="CONNECTIONS SECONDS PUBLISHERS PLAYERS" asks for another size than CI's (tools/load --tls does); CONNECTIONS are those
of each kind. SLUICE_LOAD_KINDS names the kinds that take part, all of them by default; SLUICE_LOAD_OPTIONS are other options of the
daemon. The figures are printed either way.
"""

import fcntl
import json
import os

import harness
import hostile_tls
import test_load
import tls
import tool

SIZE = [int(word) for word in os.environ.get("SLUICE_LOAD_TLS", "4 5 10 20").split()]
TLS_CONNECTION = 100 << 10  # Bytes of a connection besides --memory: OpenSSL's, with what is encrypted at a time.
# Kinds whose handshakes are never complete.
CLOSED = [kind.name() for kind in hostile_tls.KINDS if not kind.layer]


class TlsLoadTest(test_load.HostileTest):
    script = hostile_tls.__file__

    test_hostile = None

    def healthy(self, daemon, memory):
        """Publishers and players by HTTP, and players by RTSP and RTMP, to their end."""
        _, seconds, publishers, players = SIZE
        ramp, share = min(test_load.RAMP, seconds / 4), players // test_load.RTSP_SHARE
        trust = ("--tls-ca", tls.certificate().chain)
        first = self.start("-n", publishers, "--players", players - 2 * share, "--loop", "--duration", seconds, "--ramp", ramp, *trust,
                           self.media, daemon.url("load/%d"))
        harness.wait_until(lambda: sum(stream["state"] == "live" and stream["name"].startswith("load/")
                                       for stream in daemon.api()["streams"]) == publishers, "all publishers", 0.2)
        others = [self.start("-n", 0, "--streams", publishers, "--players", share, "--duration", max(seconds - 2 * ramp, 1),
                             "--ramp", ramp / 4, *trust, daemon.url("load/%d", protocol=protocol)) for protocol in ("rtsp", "rtmp")]
        said = [self.finished(running, daemon, memory) for running in (*others, first)]
        self.assertEqual([one["players"]["served"] for one in said], [share, share, players - 2 * share])
        self.assertEqual(said[-1]["publishers"]["served"], publishers)
        return said[-1]

    def test_tls(self):
        connections, seconds, publishers, _ = SIZE
        rules = ("--token-keys", self.keys, "--rule=all load/* allow", "--rule=all hostile/* secret=k1",
                 "--rule=all * token=k1", "--log-rate", "0")
        with tls.Daemon(*rules, *test_load.OPTIONS) as daemon:
            fcntl.fcntl(daemon.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
            memory = daemon.api("/api/v1/config")["settings"]["memory"]
            usage = test_load.Usage(daemon)
            kinds = test_load.RTMP_ONLY or [kind.name() for kind in hostile_tls.Attack.every]
            with daemon.unread_log():
                # They are to compete with the others for the daemon, not for the processor.
                attack = self.attack(daemon, connections, 2 * seconds + 2 * harness.PATIENCE, publishers, memory,
                                     rtmp=daemon.address("rtmp"), kinds=kinds, nice=10)
                said = self.healthy(daemon, memory)
                for cause, name in (("memory", "UnfinishedFrames"), ("tls_plaintext", "TlsPlaintext")):
                    if name in kinds:
                        harness.wait_until(lambda cause=cause: daemon.api()["refused"][cause], "a refusal for %s" % cause)
                self.assertIsNone(attack.poll())
                attack.terminate()
                kinds = json.loads(attack.communicate(timeout=harness.PATIENCE)[0])
                refused = daemon.api()["refused"]
            most = usage.most_memory()
            figures = {"hostile connections": connections * len(kinds), "publishers, players, seconds": SIZE[2:] + [seconds],
                       **test_load.RtmpTest.delays(said, usage),
                       "most resident, idle, MiB": [round(of / test_load.MIB, 1) for of in (most, usage.idle_memory)],
                       "blocks: most mapped, most held; packets, MiB": [round(value / test_load.MIB, 1) for value in (
                           self.most["blocks"], self.most["held"], self.most["described"])],
                       "frames the daemon dropped of or for them": self.dropped, "rejected": refused,
                       "log lines lost": daemon.api()["log_lines_lost"], "options": " ".join(test_load.OPTIONS), **kinds}
            print("\n".join("%-46s %s" % (name, json.dumps(value)) for name, value in figures.items()), flush=True)
            self.assertEqual(self.dropped, {})
            self.check_tls_kinds(kinds, connections)
            if not test_load.sanitized():
                self.assertLessEqual(most - usage.idle_memory, memory * 1.05 + connections * len(kinds) * TLS_CONNECTION)
            daemon.blocks_settled(may_copy=True)

    def check_tls_kinds(self, kinds, connections):
        """The attack was what it is meant to be."""
        for name, kind in kinds.items():
            self.assertGreaterEqual(kind["opened"], connections, name)
            self.assertEqual(kind["failed"], 0, name)
            self.assertEqual(kind["handshakes"] == 0, name in CLOSED, (name, kind))
        for name, answer in (("RtspBodies", "401"), ("HttpPuts", "401"), ("WebSocketMessages", "101"), ("Rejected", "401"),
                             ("RtspOptions", "200"), ("HttpKeepAlive", "204"), ("SameName", "409"), ("ManyAacFrames", "200"),
                             ("RtmpChunksOfOneByte", "NetStream.Publish.Start"), ("RtmpRejected", "NetStream.Publish.Denied"),
                             ("TlsPlaintext", "400")):
            if name in kinds:
                self.assertGreater(kinds[name]["answers"].get(answer, 0), 0, (name, kinds[name]))
        for name in ("TlsKeyUpdates", "TlsPlaintext", "TlsGarbage"):
            if name in kinds:
                self.assertGreater(kinds[name]["ended"], 0, (name, kinds[name]))


if __name__ == "__main__":
    tool.main("sluice-push")
