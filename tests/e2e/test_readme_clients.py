"""What the READMEs show of other programs, as they show it: nginx in front of HTTP, and GStreamer's curlhttpsink."""

import os
import re
import shutil
import socket
import subprocess
import unittest

import flv
import harness
from harness import Daemon, Player, Publisher
from test_request_smuggling import find, proxy

PROXIES = os.path.join(harness.SOURCE_DIR, "src", "daemon", "README.md")

NGINX = """
daemon off; master_process off; pid %%(folder)s/pid; error_log stderr crit;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path %%(folder)s/a; proxy_temp_path %%(folder)s/b; fastcgi_temp_path %%(folder)s/c;
    uwsgi_temp_path %%(folder)s/d; scgi_temp_path %%(folder)s/e;
    server { listen 127.0.0.1:%%(port)d; location / { proxy_pass http://127.0.0.1:%%(behind)d; %s } }
}
"""


class Front:
    """In place of a daemon, for publishers and players: what stands before it."""

    def __init__(self, port):
        self._port = port

    def connect(self, *_):
        return socket.create_connection(("127.0.0.1", self._port), harness.PATIENCE)


class ReadmeTest(unittest.TestCase):
    def test_nginx(self):
        """With the directives that the daemon's README names, each tag goes through while the stream lasts, and more than 1 MB of them."""
        if not find("nginx"):
            self.skipTest("nginx is not installed: tools/install-deps test")
        with open(PROXIES, encoding="utf-8") as file:
            text = file.read()
        paragraph = text[text.index("nginx as an HTTP proxy"):].split("\n", 2)
        directives = " ".join(re.findall(r"`([a-z_][^`]*;)`", " ".join(paragraph[:2])))
        self.assertEqual(directives.count(";"), 4, directives)
        with Daemon() as daemon, proxy("nginx", NGINX % directives, ["-c"], daemon.address("http")[1]) as port:
            front = Front(port)
            with Publisher(front, "live/a", "http") as publisher, Player(front, "live/a") as player:
                daemon.wait_player("live/a")
                sent = flv.first_tags()
                publisher.send(flv.header() + b"".join(tag.pack() for tag in sent))
                source = flv.frames(size=20000)
                for _ in range(150):
                    sent += [next(source), next(source)]
                    publisher.send(sent[-2].pack() + sent[-1].pack())
                    # The publisher waits for its player: what nginx kept back would end that here.
                    player.wait_tags(len(sent) - 8)
                self.assertEqual(publisher.finish(), 200)
                harness.check_same(player.tags, sent[:len(player.tags)])
            daemon.blocks_settled()

    def test_curlhttpsink(self):
        launch = shutil.which("gst-launch-1.0")
        wanted = ("curlhttpsink", "flvmux", "voaacenc", "audiotestsrc")
        if not launch or any(subprocess.run(["gst-inspect-1.0", element], capture_output=True, check=False).returncode
                             for element in wanted):
            self.skipTest("GStreamer's %s are not installed" % ", ".join(wanted))
        with Daemon() as daemon:
            with Player(daemon, "live/a") as player:
                daemon.wait_player("live/a")
                pipeline = "audiotestsrc num-buffers=100 ! voaacenc ! flvmux streamable=true ! curlhttpsink location=%s" % (
                    daemon.url("live/a"))
                done = subprocess.run([launch, "-q", *pipeline.split()], stdin=subprocess.DEVNULL, capture_output=True,
                                      check=False, timeout=harness.PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr)
                line = daemon.wait_log("publisher ended", stream="live/a")
                self.assertEqual((line.fields["reason"], line.fields["frames_dropped"]), ("end of stream", "0"))
                frames = int(line.fields["audio_frames"])
                self.assertGreater(frames, 50)
                player.wait(lambda player: sum(tag.is_frame for tag in player.tags) >= frames, "all frames")
            daemon.blocks_settled()


if __name__ == "__main__":
    harness.main()
