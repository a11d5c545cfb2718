"""The same as test_rtsp_identity.py through two nodes of a cluster: what ffmpeg plays at one is what it published at the other."""

import cluster
import harness
import redis_server
import test_rtsp_identity as plain

# Of a stream without video nothing is cached, so an edge begins a few frames later than the origin.
CASES = [
    plain.Case("cluster_h264_aac", plain.media(harness.H264.replace("-bf 0", "-bf 2"), harness.AAC, 44100), late=True,
               ways=plain.ALL_WAYS),
]


class ClusterIdentityTest(plain.IdentityTest):
    cases = CASES

    @classmethod
    def start(cls, *options):
        nodes = cluster.Cluster(*options)
        cls.addClassCleanup(nodes.__exit__, None, None, None)
        cls.origin = nodes.add("origin", "--workers", "2")
        return nodes.add("edge", "--workers", "2")

    @classmethod
    def target_urls(cls, daemon, case, way):
        return super().urls(cls.origin, case, way)


for a_case in plain.CASES:
    setattr(ClusterIdentityTest, "test_" + a_case.name, None)
for a_case in CASES:
    setattr(ClusterIdentityTest, "test_" + a_case.name, lambda self, case=a_case: self.check(case))


if __name__ == "__main__":
    if not harness.find_ffmpeg():
        harness.skip_file("no ffmpeg")
    if not redis_server.REDIS:
        harness.skip_file("no redis-server")
    harness.main()
