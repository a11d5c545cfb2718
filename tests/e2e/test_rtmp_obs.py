#!/usr/bin/env python3
"""OBS Studio as publisher, without a screen: run by tools/obs.

OBS has a profile with a custom service, as users make it in its settings, and a scene of one colour.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
import rtmp_servers
from harness import Daemon
from test_rights import KEYS, RightsCase, sign

LISTEN = ("--rtmp", "127.0.0.1:0", "--http", "127.0.0.1:0")
VERSION = 29 << 24  # Of the files: a newer OBS takes them, too.

GLOBAL = """[General]
FirstRun=true
LastVersion=%d
EnableAutoUpdates=false
[Basic]
Profile=Test
ProfileDir=Test
SceneCollection=Test
SceneCollectionFile=Test
[BasicWindow]
SysTrayEnabled=false
""" % VERSION

BASIC = """[General]
Name=Test
[Video]
BaseCX=320
BaseCY=240
OutputCX=320
OutputCY=240
FPSCommon=30
[Output]
Mode=Simple
Reconnect=true
RetryDelay=1
MaxRetries=20
[SimpleOutput]
StreamEncoder=x264
VBitrate=500
ABitrate=96
Preset=ultrafast
UseAdvanced=true
x264Settings=keyint=30
[Audio]
SampleRate=48000
"""

SCENES = {"name": "Test", "current_scene": "Scene", "current_program_scene": "Scene", "scene_order": [{"name": "Scene"}],
          "sources": [{"id": "color_source", "versioned_id": "color_source_v3", "name": "Color",
                       "settings": {"color": 0xff00ff00, "width": 320, "height": 240}},
                      {"id": "scene", "name": "Scene", "settings": {"items": [{"name": "Color", "visible": True}]}}]}


class Screen:
    """An X server that shows nothing."""

    def __init__(self):
        read, write = os.pipe()
        self.process = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1024x768x24", "-nolisten", "tcp"],
                                        pass_fds=(write,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as display:
            if not select.select([display], [], [], harness.PATIENCE)[0]:
                raise AssertionError("Xvfb does not start")
            self.name = ":" + display.readline().strip()

    def close(self):
        self.process.kill()
        self.process.wait()


class Obs:
    """A running OBS that streams to a server with a key. @login: user and password, as its settings have them"""

    def __init__(self, screen, server, key, login=None):
        self.folder = tempfile.mkdtemp()
        config = os.path.join(self.folder, ".config", "obs-studio")
        service = {"type": "rtmp_custom", "settings": {"server": server, "key": key, "use_auth": bool(login)}}
        if login:
            service["settings"].update(username=login[0], password=login[1])
        for path, text in (("global.ini", GLOBAL), ("basic/profiles/Test/basic.ini", BASIC),
                           ("basic/profiles/Test/service.json", json.dumps(service)),
                           ("basic/scenes/Test.json", json.dumps(SCENES))):
            path = os.path.join(config, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        self.path = os.path.join(self.folder, "log")
        environment = {**os.environ, "HOME": self.folder, "XDG_RUNTIME_DIR": self.folder, "DISPLAY": screen.name,
                       "LIBGL_ALWAYS_SOFTWARE": "1", "QT_QPA_PLATFORM": "xcb"}
        environment.pop("XDG_CONFIG_HOME", None)
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(
                ["obs", "--multi", "--startstreaming", "--minimize-to-tray", "--profile", "Test", "--collection", "Test",
                 "--disable-updater", "--verbose"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)

    def log(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_log(self, text, count=1):
        harness.wait_until(lambda: self.log().count(text) >= count, lambda: "OBS to say %r:\n%s" % (text, self.log()[-3000:]))

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class ObsTest(RightsCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("obs") or not shutil.which("Xvfb"):
            raise unittest.SkipTest("OBS and Xvfb are not installed: tools/install-deps obs")
        cls.screen = Screen()
        version = subprocess.run(["obs", "--version"], capture_output=True, text=True, check=True,
                                 env={**os.environ, "DISPLAY": cls.screen.name}).stdout
        print("obs: " + version.strip(), flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.screen.close()

    def obs(self, daemon, key, login=None, app="live"):
        obs = Obs(self.screen, "rtmp://%s:%d/%s" % (*daemon.address("rtmp"), app), key, login)
        self.addCleanup(obs.close)
        return obs

    def check_media(self, daemon, name):
        """ffprobe finds both tracks, and ffmpeg decodes a second without a complaint."""
        found = subprocess.run([harness.find_ffmpeg().replace("ffmpeg", "ffprobe"), "-v", "error", "-show_entries",
                                "stream=codec_name,width,height,sample_rate,channels", "-of", "json", daemon.url(name)],
                               capture_output=True, text=True, timeout=harness.PATIENCE, check=True).stdout
        streams = {stream["codec_name"]: stream for stream in json.loads(found)["streams"]}
        self.assertEqual(sorted(streams), ["aac", "h264"])
        self.assertEqual((streams["h264"]["width"], streams["h264"]["height"]), (320, 240))
        self.assertEqual((streams["aac"]["sample_rate"], streams["aac"]["channels"]), ("48000", 2))
        reader = harness.Ffmpeg(harness.find_ffmpeg(), "-i", daemon.url(name), "-map", "0", "-t", "1", "-f", "null", "-")
        self.addCleanup(reader.kill)
        reader.wait()

    def test_publish_kick_and_restart(self):
        """Without a login: the stream arrives whole. A publisher that is kicked comes again, and one whose server restarts."""
        port = rtmp_servers.free_port()
        listen = ("--rtmp", "127.0.0.1:%d" % port, "--http", "127.0.0.1:0")
        with Daemon(listen=listen) as daemon:
            obs = self.obs(daemon, "obs")
            daemon.wait_stream("live/obs", lambda stream: stream["state"] == "live", "live")
            self.check_media(daemon, "live/obs")
            self.assertEqual(daemon.stream("live/obs")["publisher"]["protocol"], "rtmp")
            self.assertEqual(daemon.api()["pool"]["payload_bytes_copied"], 0)
            self.assertEqual(daemon.admin("DELETE", "/api/v1/streams/live%2Fobs")[0], 204)
            daemon.wait_log("publisher ended", stream="live/obs", reason="kicked")
            daemon.wait_log("publisher started", 2, stream="live/obs")
            daemon.wait_stream("live/obs", lambda stream: stream["state"] == "live", "live")
            self.check_media(daemon, "live/obs")
            self.assertIn("econnect", obs.log())
        # The drain has told it: it comes to the next process.
        with Daemon(listen=listen) as daemon:
            daemon.wait_log("publisher started", stream="live/obs")
            daemon.wait_stream("live/obs", lambda stream: stream["state"] == "live", "live")
            self.check_media(daemon, "live/obs")

    def test_login(self):
        """With the user and the password of its settings; with a wrong one it says so, and nothing is published."""
        daemon = self.start(["publish live/* user", "play live/* allow"], LISTEN)
        self.obs(daemon, "obs", ("camera", "geheim2"))
        daemon.wait_stream("live/obs", lambda stream: stream["state"] == "live", "live")
        self.check_media(daemon, "live/obs")
        wrong = self.obs(daemon, "wrong", ("camera", "geheim3"))
        wrong.wait_log("Connection to rtmp://127.0.0.1:%d/live failed" % daemon.address("rtmp")[1])
        wrong.wait_log("wrong password")
        daemon.wait_log("request refused", status="401", proto="rtmp")
        self.assertEqual([line.fields["stream"] for line in daemon.log("publisher started")], ["live/obs"])
        self.check_secrets(daemon)

    def test_key(self):
        """With a token in the key, with user and password there, and with the whole path in the server field."""
        daemon = self.start(["publish live/token* token=k1", "publish live/user* user", "play live/* allow"], LISTEN)
        right = sign(KEYS["k1"], "publish", "live/token", int(time.time()) + 1000)
        for app, key, name in (("live", "token?token=" + right, "live/token"),
                               ("live", "user?user=camera&pass=geheim2", "live/user"),
                               ("live/token?token=" + right, "", "live/token")):
            with self.subTest(app=app.partition("?")[0], name=name):
                obs = self.obs(daemon, key, app=app)
                daemon.wait_stream(name, lambda stream: stream["state"] == "live", "live")
                self.check_media(daemon, name)
                obs.close()
                daemon.wait_log("publisher ended", stream=name)
                harness.wait_until(lambda: not daemon.stream(name), "the end of the stream")
        refused = self.obs(daemon, "token?token=x")
        daemon.wait_log("request refused", status="401", proto="rtmp")
        refused.wait_log("Streaming Stop")
        self.assertEqual(len(daemon.log("publisher started")), 3)


if __name__ == "__main__":
    harness.main()
