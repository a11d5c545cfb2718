"""What the tests of pulls have in common, whatever the protocol."""

import os
import shutil
import tempfile

import harness

LISTEN = ("--flv", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rtsp", "127.0.0.1:0")


class PullTest(harness.SettledTest):
    def puller(self, pulls, *options):
        """A daemon that pulls: {name: URL}."""
        arguments = [word for name, url in pulls.items() for word in ("--pull", "%s=%s" % (url, name))]
        return self.start("--wait", "60", "--log-level", "debug", *options, *arguments, listen=LISTEN)

    def folder(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def users(self, *lines):
        """A file of users, for its owner alone."""
        path = os.path.join(self.folder(), "users")
        with open(path, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("".join(line + "\n" for line in lines))
        return path

    def media(self):
        """ffmpeg, and two seconds of H.264 and AAC."""
        ffmpeg = harness.find_ffmpeg()
        if not ffmpeg:
            self.skipTest("no ffmpeg")
        return ffmpeg, harness.make_media(ffmpeg, " ".join([harness.VIDEO, harness.tone(48000), "-t 2", harness.H264,
                                                            harness.AAC]))

    def check_secrets(self, daemon, *secrets):
        shown = str(daemon.api()) + str(daemon.log()) + str(daemon.admin("GET", "/metrics"))
        for secret in secrets:
            self.assertNotIn(secret, shown)
