"""What is otherwise for some streams: a setting's value by the stream's name, for publishers and players, and a reload of it."""

import contextlib
import os
import signal
import tempfile
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher
from relay import Source, wait_number

TAKEN = "replaced by another publisher"
LISTEN = 'http = "127.0.0.1:0"; rtsp = "127.0.0.1:0"; admin = "127.0.0.1:0"; flv = "127.0.0.1:0=cam/raw";\n'
FIRST = flv.header() + b"".join(tag.pack() for tag in flv.first_tags())


class PolicyTest(unittest.TestCase):
    def test_same_name(self):
        """Cameras take over, by each protocol; the event's publisher stays, and is kept when it goes."""
        with Daemon("--same-name", "refuse", "--same-name", "cam/*=take-over", "--same-name", "*/event=resume",
                    listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--flv", "127.0.0.1:0=cam/a")) as daemon:
            before = None
            for number, way in enumerate(("http", "rtsp", "flv")):
                comer = Source(daemon, "cam/a", way, number * 10)
                comer.send(10)
                daemon.wait_stream("cam/a", lambda stream, way=way: stream["state"] == "live" and
                                   stream["publisher"]["protocol"] == way, way)
                if before:
                    before.check_ended(self, 409, TAKEN)
                    before.close()
                before = comer
            before.close()
            with Source(daemon, "live/a", "http", 0) as holder, Source(daemon, "live/event", "http", 0) as event, \
                    contextlib.ExitStack() as stack:
                holder.send(10)
                # Two workers may take connections in any order.
                daemon.wait_stream("live/a", lambda stream: stream["state"] == "live", "live")
                other = stack.enter_context(Publisher(daemon, "live/a", "http"))
                stack.enter_context(Player(daemon, "live/a"))
                event.send(10)
                other.send(FIRST)
                self.assertEqual(harness.read_head(other.peer)[0], 409)
                daemon.wait_stream("live/event", lambda stream: stream["frames"]["video"] == 10, "all frames")
                holder.close()
                event.close()
                daemon.wait_stream("live/event", lambda stream: stream["kept_seconds"] > 0, "kept")
                self.assertEqual(daemon.wait_stream("live/a", lambda stream: stream["state"] == "waiting", "left")[
                    "kept_seconds"], 0)

    def test_silence(self):
        """One that sends nothing, or no frame, is ended where it may not; beside it another stream's is not."""
        with Daemon("--idle", "600", "--idle", "short/*=1", "--first-data", "600", "--first-data", "late/*=1",
                    listen=("--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0", "--flv", "127.0.0.1:0=short/raw",
                            "--flv", "127.0.0.1:0=live/raw")) as daemon, contextlib.ExitStack() as stack:
            ended = [stack.enter_context(Source(daemon, "short/" + way, way, 0)) for way in ("http", "rtsp")]
            others = [stack.enter_context(Source(daemon, "live/" + way, way, 0)) for way in ("http", "rtsp")]
            raw = stack.enter_context(Publisher(daemon, "short/raw"))
            stack.enter_context(Publisher(daemon, "live/raw", at=1)).send(FIRST)
            late = stack.enter_context(Publisher(daemon, "late/a", "http"))
            for source in ended + others:
                source.send(3)
            raw.send(FIRST)
            late.send(FIRST)
            daemon.wait_log("publisher ended", 3, reason="receive timeout")
            daemon.wait_log("publisher ended", 1, reason="frame timeout")
            self.assertEqual(harness.read_head(late.peer)[0], 408)
            # Looked at with the others, and behind them.
            names = {line.fields["stream"] for line in daemon.log("publisher ended")}
            self.assertEqual(names, {"short/http", "short/rtsp", "short/raw", "late/a"})
            for source in others:
                source.send(3)
                daemon.wait_stream("live/" + source.way, lambda stream: stream["frames"]["video"] == 6, "goes on")

    def test_players(self):
        """How many there may be, what is cached for them, and the largest frame."""
        with Daemon("--max-players", "few/*=1", "--gop-size", "cold/*=0", "--player-buffer", "small/*=64K",
                    "--frame-limit", "few/*=10K") as daemon, contextlib.ExitStack() as stack:
            for name in ("cold/a", "warm/a"):
                stack.enter_context(Publisher(daemon, name, "http")).send(flv.stream(20, size=6000)[0])
                shown = daemon.wait_stream(name, lambda stream: stream["frames"]["video"] > 5, "frames")
                self.assertEqual(shown["gop"]["bytes"] > 0, name == "warm/a", name)
            for name in ("few/a", "live/a"):
                stack.enter_context(Source(daemon, name, "http", 0)).send(10)
            with Player(daemon, "few/a") as player:
                wait_number(player, 9)
                self.assertEqual(daemon.request("GET", "/few/a.flv")[0], 503)
            with Player(daemon, "live/a") as player, Player(daemon, "live/a") as other:
                wait_number(player, 9)
                wait_number(other, 9)
            for name, size, status in (("few/b", 11 << 10, 413), ("small/b", 65 << 10, 413), ("live/b", 65 << 10, 200),
                                       ("small/c", 63 << 10, 200)):
                with Publisher(daemon, name, "http") as publisher:
                    publisher.send(FIRST)
                    publisher.send(flv.Tag(flv.VIDEO, 0, b"\x17\x01\0\0\0" + bytes(size)))
                    self.assertEqual(publisher.finish() if status == 200 else harness.read_head(publisher.peer)[0], status)
            stack.close()
            daemon.blocks_settled()

    def test_reload(self):
        """Streams that are there have it, too; and what is wrong in a list is said with its line."""
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "sluiced.conf")

            def write(text):
                with open(config, "w", encoding="ascii") as file:
                    file.write(LISTEN + text)

            write("wait = 600;")
            with Daemon("--config", config, listen=()) as daemon, Player(daemon, "cam/a") as player, \
                    Player(daemon, "live/a") as other:
                daemon.wait_player("cam/a")
                daemon.wait_player("live/a")
                write('wait = ["600", "cam/b=600",\n"cam/*=0"]; max-players = ["0", "live/*=1"];')
                daemon.process.send_signal(signal.SIGHUP)
                told = daemon.wait_log("configuration reloaded")
                self.assertIsNotNone(told)
                player.wait_end()
                self.assertEqual(daemon.request("GET", "/live/a.flv")[0], 503)
                self.assertEqual(daemon.api("/api/v1/config")["settings"]["wait"], ["600", "cam/b=600", "cam/*=0"])
                write('wait = ["600",\n"cam/*=no"];')
                daemon.process.send_signal(signal.SIGHUP)
                refused = daemon.wait_log("configuration refused")
                self.assertIn(config + ":3: wait: expected seconds from 0 to 86400, got \\\"cam/*=no\\\"", refused.text)
                daemon.wait_player("live/a")
                other.close()


if __name__ == "__main__":
    harness.main()
