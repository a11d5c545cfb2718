"""What is measured: the load of each scenario, the variants that are compared, and the targets."""

import dataclasses

CPU = "cpu_s_per_gb"


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound: on ours / theirs where theirs is named, else on the figure itself."""
    figure: str
    ours: str
    theirs: str | None
    at_most: float


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    variants: tuple
    targets: tuple = ()
    slow: bool = False  # Left out of a quick look.
    # The options of bench-send, and how many packets each stream sends in a second of measured time.
    connections: int = 1
    payload: int = 1024
    write: str = "65536"
    packets_per_second: float = 0.0
    paced: bool = False

    def packets(self, seconds):
        """Of each stream, for a run of about so long."""
        return max(1, round(self.packets_per_second * seconds))

    def send_options(self, seconds):
        interval = round(1e6 / self.packets_per_second) if self.paced else 0
        return ["--connections", str(self.connections), "--payload", str(self.payload), "--write", self.write,
                "--packets", str(self.packets(seconds)), "--interval", str(interval)]


PLAIN = ("read-malloc", "read-buffer", "read-buffer+buffer=4096", "evbuffer", "raw")
SATURATED = ("uring", "epoll-pool") + PLAIN


def batched(window_us):
    """Ours with a batching window and without, and the same window for our epoll backend."""
    return (f"uring+batch={window_us}", "uring", "epoll-pool", f"epoll-pool+batch={window_us}") + PLAIN


def against(ours, theirs, extra=()):
    """Targets for CPU per GB: ours at most so many times each of theirs."""
    return tuple(Target(CPU, ours, name, most) for name, most in theirs.items()) + tuple(extra)


def no_worse(ours, names=("epoll-pool",)):
    return tuple(Target(CPU, ours, name, 1.02) for name in names)


PACED = against("uring+batch=5000", {
    "read-malloc": 0.50, "read-buffer": 0.45, "evbuffer": 0.35, "epoll-pool": 0.50, "epoll-pool+batch=5000": 0.90,
}, no_worse("uring"))
MANY = against("uring+batch=5000", {
    "read-malloc": 0.50, "read-buffer": 0.55, "evbuffer": 0.45, "epoll-pool": 0.52, "epoll-pool+batch=5000": 0.75,
}, no_worse("uring") + (Target("syscalls_per_packet", "uring+batch=5000", None, 0.01),))
WORST = against("uring+batch=2000", {
    "read-malloc": 0.25, "read-buffer": 0.25, "evbuffer": 0.25, "epoll-pool": 0.25, "epoll-pool+batch=2000": 0.75,
}, no_worse("uring"))

SCENARIOS = (
    Scenario("saturated", "100 streams as fast as they go, 1 KiB packets in 64 KiB writes", SATURATED,
             against("uring", {"read-malloc": 0.13, "read-buffer": 0.50, "evbuffer": 0.25, "epoll-pool": 1.00,
                               "raw": 1.10},
                     [Target("syscalls_per_packet", "uring", None, 0.02)]),
             connections=100, packets_per_second=16000),
    Scenario("saturated-small", "100 streams as fast as they go, a write for each 1 KiB packet", batched(5000),
             no_worse("uring"), connections=100, write="1039", packets_per_second=3000),
    Scenario("paced", "100 streams of 4 Mbit/s, 30 frames of 16 KiB a second", batched(5000), PACED,
             connections=100, payload=16384, packets_per_second=30, paced=True),
    Scenario("paced-1400", "100 streams of 4 Mbit/s, written 1400 bytes at a time", batched(5000), PACED,
             connections=100, payload=16384, write="1400", packets_per_second=30, paced=True),
    Scenario("fat", "One stream as fast as it goes, 1 KiB packets in 64 KiB writes", SATURATED,
             against("uring", {"read-malloc": 0.10, "read-buffer": 0.90, "evbuffer": 0.20, "epoll-pool": 1.02,
                               "raw": 1.10},
                     [Target("syscalls_per_packet", "uring", None, 0.02)]),
             packets_per_second=1000000),
    Scenario("network-good", "100 streams of 1 KiB packets in writes of 1024 to 4096 bytes", batched(2000),
             no_worse("uring"), connections=100, write="1024-4096", packets_per_second=4000),
    Scenario("network-normal", "100 streams of 1 KiB packets in writes of 256 to 2048 bytes", batched(2000),
             no_worse("uring"), connections=100, write="256-2048", packets_per_second=2000),
    Scenario("network-poor", "100 streams of 1 KiB packets in writes of 64 to 512 bytes", batched(2000),
             no_worse("uring"), connections=100, write="64-512", packets_per_second=600),
    Scenario("network-worst", "100 streams of 1 KiB packets in writes of 1 to 128 bytes", batched(2000), WORST,
             connections=100, write="1-128", packets_per_second=150),
    Scenario("many", "1000 streams of 30 packets of 1 KiB a second", batched(5000), MANY,
             connections=1000, write="1039", packets_per_second=30, paced=True),
    Scenario("idle-1000", "1000 mostly idle streams, one packet a second", batched(5000), no_worse("uring"),
             connections=1000, write="1039", packets_per_second=1, paced=True, slow=True),
    Scenario("idle-10000", "10,000 mostly idle streams, one packet in a second", batched(5000),
             (Target("private_bytes_per_connection", "uring", None, 1024),) + no_worse("uring"),
             connections=10000, write="1039", packets_per_second=1, paced=True, slow=True),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
