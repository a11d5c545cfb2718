"""A type of pull that the daemon's sources do not know: tests/protocol/pull_flv.c, of which its table has a row. What pulls do
by RTSP they do by this one."""

import contextlib
import os
import socket
import subprocess
import threading

import flv
import harness
from camera import Camera
from harness import Player, Publisher
from test_pull_api import PULLS, SLUICECTL, post, pulls
from test_upgrade import Upgraded

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")


class Source:
    """A server that sends FLV to each client, without end; nothing before sends is set."""

    def __init__(self, test, sends=True):
        self.connections = 0
        self.sends = threading.Event()
        if sends:
            self.sends.set()
        self._ending, self._peers = threading.Event(), []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = "flv://127.0.0.1:%d" % self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        test.addCleanup(self.close)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._peers.append(peer)
                self.connections += 1
                self._threads.append(threading.Thread(target=self._send, args=(peer,), daemon=True))
                self._threads[-1].start()

    def _send(self, peer):
        with contextlib.suppress(OSError):
            while not self.sends.wait(0.01):
                if self._ending.is_set():
                    return
            peer.sendall(flv.header() + b"".join(tag.pack() for tag in flv.first_tags()))
            for tag in flv.frames():
                if self._ending.wait(0.01):
                    return
                peer.sendall(tag.pack())

    def hang_up(self):
        """Ends the connections that there are."""
        for peer in list(self._peers):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.hang_up()
        for thread in list(self._threads):
            thread.join()
        for peer in (self._listener, *self._peers):
            peer.close()


class PullTypeTest(harness.SettledTest):
    def start(self, *options):
        return super().start("--workers", "3", "--wait", "60", "--log-level", "debug", *options, listen=LISTEN)

    def create(self, daemon, url, stream="live/x", **members):
        status, answer = post(daemon, {"url": url, "stream": stream, **members})
        self.assertEqual(status, 201, answer)
        return "%s/%d" % (PULLS, answer["id"])

    def test_option(self):
        """The option and the API take its URLs beside the daemon's own, and name its form where they take none."""
        status, _, text = harness.run_daemon("--check", "--pull", "flv://127.0.0.1:9=live/x", "--pull",
                                             "rtsp://h/x=live/y,on-demand", "--http", "127.0.0.1:0")
        self.assertEqual((status, text), (0, ""))
        daemon = self.start()
        for url in ("flv:h:1", "flv://h", "flv://h:1/x", "flv://geheim@h:1", "http://h:1", "rtsp://"):
            with self.subTest(url):
                status, _, text = harness.run_daemon("--check", "--pull", url + "=live/x")
                self.assertEqual(status, 2)
                answer = post(daemon, {"url": url, "stream": "live/x"})
                self.assertEqual(answer[0], 400)
                for said in (text, answer[1]["detail"]):
                    self.assertIn("rtsp[s]://[USER:PASSWORD@]HOST[:PORT]/PATH or flv://HOST:PORT", said)
                    self.assertNotIn("geheim", said)
        self.assertEqual(pulls(daemon), {})

    def test_configured(self):
        """From the command line, on demand: it is not asked before there is a player."""
        source = Source(self)
        daemon = self.start("--pull", source.url + "=live/x,on-demand")
        pull = pulls(daemon)["live/x"]
        self.assertEqual((pull["type"], pull["state"], pull["mode"], pull["source"], pull["from"]),
                         ("flv", "idle", "on-demand", "configuration", source.url))
        self.assertEqual(source.connections, 0)
        with Player(daemon, "live/x") as player:
            player.wait_tags(20)
        self.assertEqual(source.connections, 1)
        source.close()

    def test_made_and_removed(self):
        """By the API and by sluicectl, beside one by RTSP."""
        source, camera = Source(self, sends=False), Camera(self).start()
        daemon = self.start()
        path = self.create(daemon, source.url)
        self.create(daemon, camera.url(), "live/y")
        step = harness.wait_until(lambda: daemon.api(path)["state"] == "negotiating" and daemon.api(path), "its step")
        self.assertEqual((step["type"], step["step"], step["ttl_seconds"]), ("flv", "FLV", None))
        source.sends.set()
        with Player(daemon, "live/x") as player:
            player.wait_tags(20)
            self.assertEqual((daemon.api(path)["state"], daemon.api(path)["step"]), ("playing", None))
            publisher = daemon.stream("live/x")["publisher"]
            self.assertEqual((publisher["address"], publisher["protocol"]), (source.url[len("flv://"):], "flv"))
            harness.wait_until(lambda: pulls(daemon)["live/y"]["state"] == "playing", "the other type's")
            self.assertEqual({name: pull["type"] for name, pull in pulls(daemon).items()},
                             {"live/x": "flv", "live/y": "rtsp"})
            listed = subprocess.run([SLUICECTL, "--admin", "%s:%d" % daemon.address("admin"), "pulls"], check=True,
                                    capture_output=True, text=True, timeout=harness.PATIENCE).stdout
            row, = [line.split() for line in listed.splitlines() if line.startswith("live/x ")]
            self.assertEqual(row[1:5], ["flv", source.url, "playing", "api"])
            self.assertEqual(daemon.admin("DELETE", path)[0], 204)
            harness.wait_until(lambda: not daemon.stream("live/x")["publisher"], "its end")
            self.create(daemon, source.url)
            count = len(player.tags)
            player.wait_tags(count + 20)
        self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
        source.close()
        camera.close()

    def test_retries(self):
        """A server that ends, is silent, or is gone is asked again; players stay, and a name that is in use stays."""
        source = Source(self)
        daemon = self.start()
        path = self.create(daemon, source.url)
        with Player(daemon, "live/x") as player:
            player.wait_tags(20)
            source.hang_up()
            line = daemon.wait_log("pull", stream="live/x", state="waiting")
            self.assertEqual((line.fields["reason"], line.fields["failures"]), ("the server has ended the connection", "1"))
            count = len(player.tags)
            player.wait_tags(count + 20)
            source.sends.clear()
            source.hang_up()
            daemon.wait_log("pull", stream="live/x", state="waiting", reason="no answer to FLV")
            self.assertGreaterEqual(daemon.api(path)["failures"], 2)
            source.sends.set()
            count = len(player.tags)
            player.wait_tags(count + 20)
            self.assertEqual(daemon.log("player ended"), [])
        source.close()
        daemon.wait_log("pull", stream="live/x", state="waiting", reason="Connection refused")
        self.assertEqual(daemon.admin("DELETE", path)[0], 204)
        with Publisher(daemon, "live/z", "http") as publisher:
            publisher.send(flv.stream(10)[0])
            daemon.wait_stream("live/z")
            self.create(daemon, Source(self).url, "live/z")
            daemon.wait_log("pull", stream="live/z", state="waiting", reason="name in use")

    def test_time_to_live(self):
        source = Source(self)
        daemon = self.start()
        self.create(daemon, source.url, ttl=3)
        daemon.wait_stream("live/x")
        daemon.wait_log("pull removed", stream="live/x", reason="its time to live is over")
        self.assertEqual(pulls(daemon), {})
        source.close()

    def test_upgrade(self):
        """The process that takes over knows the type, too, and pulls on."""
        source = Source(self)
        with Upgraded("--workers", "3", "--wait", "60", listen=LISTEN) as upgraded:
            daemon = upgraded.daemon
            self.create(daemon, source.url, ttl=3600)
            self.create(daemon, source.url, "live/y", on_demand=True)
            daemon.wait_stream("live/x")
            upgraded.upgrade()
            self.assertEqual({name: (pull["type"], pull["mode"], pull["source"], pull["ttl_seconds"] is None)
                              for name, pull in pulls(daemon).items()},
                             {"live/x": ("flv", "always", "api", False), "live/y": ("flv", "on-demand", "api", True)})
            with Player(daemon, "live/x") as player, Player(daemon, "live/y") as other:
                player.wait_tags(20)
                other.wait_tags(20)
        source.close()


if __name__ == "__main__":
    harness.SLUICED = os.environ.get("SLUICED_LINE") or os.path.join(harness.BUILD_DIR, "tests", "sluiced_line")
    harness.main()
