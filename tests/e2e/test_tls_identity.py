"""The same as test_rtsp_identity.py through TLS: what ffmpeg plays by https, rtsps and rtmps is what ffmpeg published so.

Two workers, so that connections go to their stream's, with their TLS, under way.
"""

import unittest

import harness
import test_rtsp_identity as plain
import tls

CASES = [
    plain.Case("tls_h264_aac", plain.media(harness.H264.replace("-bf 0", "-bf 2"), harness.AAC, 44100), late=True, ways=plain.ALL_WAYS),
    plain.Case("tls_audio_only", plain.media("", harness.AAC), ways=plain.ALL_WAYS),
]


class TlsIdentityTest(plain.IdentityTest):
    cases = CASES

    @classmethod
    def start(cls, *options):
        return tls.Daemon("--workers", "2", *options)

    @classmethod
    def urls(cls, daemon, case, way):
        name = case.stream(way)
        return {"flv": daemon.url(name), "rtsp": daemon.url(name, protocol="rtsp"), "rtmp": daemon.url(name, protocol="rtmp")}


for a_case in plain.CASES:
    setattr(TlsIdentityTest, "test_" + a_case.name, None)
for a_case in CASES:
    setattr(TlsIdentityTest, "test_" + a_case.name, lambda self, case=a_case: self.check(case))


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    harness.main()
