"""OBS's multitrack configuration: the request that OBS sends for it, and what it is answered; the address in it is one to
publish at."""

import http.client
import json
import os
import shutil
import socket
import tempfile

import harness

# As OBS 32 builds it (frontend/utility/GoLiveAPI_PostData.cpp).
REQUEST = {
    "authentication": "cam", "schema_version": "2025-01-25", "service": "IVS",
    "client": {"name": "obs-studio", "supported_codecs": ["h264", "av1"], "version": "32.0.1"},
    "capabilities": {
        "cpu": {"logical_cores": 8, "name": "Intel(R) Core(TM) i7", "physical_cores": 4, "speed": 2800},
        "gaming_features": None, "gpu": None, "memory": {"free": 8589934592, "total": 17179869184},
        "system": {"arm": False, "armEmulation": False, "bits": 64, "build": 0, "name": "Linux", "release": "6.1",
                   "revision": "", "version": "6.1"}},
    "preferences": {
        "audio_channels": 2, "audio_fixed_buffering": False, "audio_max_buffering_ms": 960, "audio_samples_per_sec": 48000,
        "canvases": [{"canvas_height": 1080, "canvas_width": 1920, "framerate": {"denominator": 1, "numerator": 30},
                      "height": 720, "width": 1280}],
        "composition_gpu_index": 0, "maximum_aggregate_bitrate": None, "maximum_video_tracks": None,
        "vod_track_audio": False}}
MOST = 16 * 1024


def free_port():
    """The address has to be known before the start: that is what the answer names."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def request(**members):
    return dict(REQUEST, **members)


class ObsTest(harness.SettledTest):
    def daemon(self, *options):
        self.port = free_port()
        return self.start("--log-level", "debug", *options,
                          listen=("--http", "127.0.0.1:0", "--rtmp", "127.0.0.1:%d" % self.port))

    def ask(self, daemon, body, path="/obs/live", method="POST", headers=None):
        """(status, document or text)"""
        connection = http.client.HTTPConnection(*daemon.address("http"), timeout=harness.PATIENCE)
        self.addCleanup(connection.close)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method, path, data, dict({"Content-Type": "application/json"}, **(headers or {})),
                           encode_chunked=bool(headers and "Transfer-Encoding" in headers))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.status == 200 else text.decode()

    def test_answer(self):
        """Encoders within the limits of both, and an address at which ffmpeg can publish."""
        daemon = self.daemon("--obs-tracks", "2", "--obs-bitrate", "4000")
        status, config = self.ask(daemon, REQUEST)
        self.assertEqual(status, 200)
        self.assertEqual([(video["type"], video["width"], video["height"], video["settings"]["bitrate"])
                          for video in config["encoder_configurations"]],
                         [("obs_x264", 1280, 720, 2857), ("obs_x264", 852, 480, 1142)])
        self.assertEqual(config["meta"], {"service": "sluiced", "schema_version": "2025-01-25", "config_id": ""})
        self.assertEqual(config["status"]["result"], "success")
        endpoint, = config["ingest_endpoints"]
        self.assertEqual(endpoint, {"protocol": "RTMP", "authentication": "",
                                    "url_template": "rtmp://127.0.0.1:%d/live/{stream_key}" % self.port})
        wish = dict(REQUEST["preferences"], maximum_video_tracks=1, maximum_aggregate_bitrate=2000)
        status, config = self.ask(daemon, request(preferences=wish))
        self.assertEqual([video["settings"]["bitrate"] for video in config["encoder_configurations"]], [2000])
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        source = harness.Ffmpeg(ffmpeg, "-re", *harness.VIDEO.split(), *harness.H264.split(), "-f", "flv",
                                endpoint["url_template"].replace("{stream_key}", REQUEST["authentication"]))
        self.addCleanup(source.kill)
        daemon.wait_stream("live/cam")
        self.assertEqual(daemon.stream("live/cam")["publisher"]["protocol"], "rtmp")
        source.kill()

    def test_to_be_pasted(self):
        """The answer for a client that says nothing, which fits OBS's field for it."""
        daemon = self.daemon()
        status, config = self.ask(daemon, None, "/obs/live/cam", "GET")
        self.assertEqual((status, len(config["encoder_configurations"])), (200, 3))
        for path, wrong in (("/obs/live", "/obs/APP/NAME"), ("/obs/", "/obs/APP/NAME"), ("/obs/live/../x", "/obs/APP/NAME")):
            status, text = self.ask(daemon, None, path, "GET")
            self.assertEqual((status, wrong in text), (404, True))
        self.assertEqual(self.ask(daemon, b"", "/obs/live", "PUT")[0], 405)
        with harness.Daemon(listen=("--http", "127.0.0.1:0")) as other:
            self.assertEqual(self.ask(other, REQUEST)[0], 404)

    def test_bodies(self):
        """Up to the bound, in any form, byte by byte, and one step beyond."""
        daemon = self.daemon()
        text = json.dumps(REQUEST).encode()
        self.assertEqual(self.ask(daemon, text.ljust(MOST))[0], 200)
        self.assertEqual(self.ask(daemon, text.ljust(MOST + 1))[0], 413)
        chunked = {"Transfer-Encoding": "chunked"}
        self.assertEqual(self.ask(daemon, iter([text.ljust(MOST)]), headers=chunked)[0], 200)
        self.assertEqual(self.ask(daemon, iter([text.ljust(MOST), b" "]), headers=chunked)[0], 413)
        for body in (b"x", b"{}", text[:-1], text + b"}", b"[" * MOST, json.dumps(request(authentication="a b")).encode(),
                     json.dumps(request(authentication="")).encode(), json.dumps(request(authentication="../x")).encode()):
            with self.subTest(body[:40]):
                self.assertEqual(self.ask(daemon, body)[0], 400)
        head = b"POST /obs/live HTTP/1.1\r\nHost: h.example:1\r\n%s\r\n"
        with daemon.connect() as peer:
            peer.sendall(head % b"")
            self.assertEqual(harness.read_head(peer)[0], 411)
        with daemon.connect() as peer:
            peer.sendall(head % (b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(text)))
            self.assertEqual(harness.read_head(peer)[0], 100)
            for at in range(len(text)):
                peer.sendall(text[at:at + 1])
            status, headers, data = harness.read_head(peer)
            self.assertEqual((status, headers["content-type"]), (200, "application/json"))
            while len(data) < int(headers["content-length"]):
                data += peer.recv(65536)
        self.assertEqual(json.loads(data)["ingest_endpoints"][0]["url_template"],
                         "rtmp://h.example:%d/live/{stream_key}" % self.port)
        with daemon.connect() as peer:
            peer.sendall(b"POST /obs/live HTTP/1.1\r\nHost: \"h\"\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
            self.assertEqual(harness.read_head(peer)[0], 400)
        # One that ends in the middle of its body leaves nothing behind.
        with daemon.connect() as peer:
            peer.sendall(head % (b"Content-Length: %d\r\n" % len(text)) + text[:100])

    def test_rights(self):
        """Those of publishing, with the token where OBS's users have it: in the stream key."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        keys = os.path.join(folder, "keys")
        with open(keys, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("web:0123456789abcdef0123456789abcdef\n")
        token = harness.run_daemon("--token-keys", keys, "--sign", "publish,live/cam,3600")[1].strip()
        daemon = self.daemon("--token-keys", keys, "--rule", "publish live/* token=web", "--rule", "publish tv/* deny")
        self.assertEqual(self.ask(daemon, REQUEST)[0], 401)
        self.assertEqual(self.ask(daemon, request(authentication="cam?token=x"))[0], 401)
        self.assertEqual(self.ask(daemon, request(authentication="other?token=" + token))[0], 401)
        self.assertEqual(self.ask(daemon, request(authentication="cam?token=" + token))[0], 200)
        self.assertEqual(self.ask(daemon, REQUEST, "/obs/live?token=" + token)[0], 200)
        self.assertEqual(self.ask(daemon, REQUEST, "/obs/tv")[0], 403)
        self.assertEqual(self.ask(daemon, None, "/obs/live/cam", "GET")[0], 401)
        self.assertEqual(self.ask(daemon, None, "/obs/live/cam?token=" + token, "GET")[0], 200)
        self.assertNotIn(token, str(daemon.log()))


if __name__ == "__main__":
    harness.main()
