"""What is measured: the load of each scenario, the variants that are compared, and the targets."""

import dataclasses

CPU = "cpu_s_per_gb"
PER_MBIT = "cpu_us_per_mbit"
TIME = "ns_per_operation"
CPU_PER_PACKET = "cpu_s_per_mpackets"
LATENCY = "p99_us"
CAPACITY = "capacity"
MISSES = "second_level_misses"
PLAYER_BYTES, PUBLISHER_BYTES = "bytes_per_player", "bytes_per_publisher"
BLOCK_BYTES = "block_bytes_per_publisher"  # Blocks that it holds besides: those of its decoder headers.
PUBLISHER_ALL = "all_bytes_per_publisher"

ROUNDS = 5  # Of a recording, unless it says otherwise.
REAL = 68.0  # Frames of a real stream in a second: 25 pictures and 43 of audio.


def asked_of(variant):
    """The settings of a variant by their names; those without a value are empty."""
    return dict(setting.partition("=")[::2] for setting in variant.split("+")[1:])


BEST = "best"
FLOORS = ("raw", "both-buffer")  # They do less than all of the work.


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound: on ours / theirs where theirs is named, on ours - theirs where it says what is added, else on the figure. Where it
    has bases, on what ours adds to its base divided by what theirs adds to its own."""
    figure: str
    ours: str
    theirs: str | None  # BEST: whoever is best of those that do the same work.
    bound: float
    added: bool = False
    least: bool = False  # The bound is the least, and not the most.
    bases: tuple = ()  # Variants: of ours, and of theirs.


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What all kinds have: a figure by which variants are compared, and the variants that are ours."""
    name: str
    title: str
    variants: tuple
    targets: tuple = ()
    slow: bool = False  # Left out of a quick look.
    along: str = ""  # The setting whose values the variants differ in, where the plot is a curve.
    more_is_better = False  # Of the figure.
    paced = False  # Whether the load takes its time, however fast the variant is.

    def is_ours(self, variant):
        return variant.split("+")[0] in ("uring", "library")

    def is_baseline(self, variant):
        return not self.is_ours(variant) and variant not in FLOORS


@dataclasses.dataclass(frozen=True)
class Memory(Scenario):
    """Work of bench-memory: no sockets, one process."""
    operations_per_second: float = 1e6
    figure = TIME

    MOST = (1 << 32) - 1  # Operations of a run.

    def operations(self, seconds):
        return min(self.MOST, max(100, round(self.operations_per_second * seconds)))


@dataclasses.dataclass(frozen=True)
class Network(Scenario):
    """A load of bench-send: its options, and how many packets each stream sends in a second of measured time."""
    connections: int = 1
    payload: int = 1024
    write: str = "65536"
    packets_per_second: float = 0.0
    paced: bool = False
    keep: str = ""  # "second", "thread": what becomes of each frame.
    unmeasured: float = 0  # Of the measured time: so long the load lasts before it, until as much is held as ever.
    kbits: int = 0  # Of each of real streams, whose packets are frames; 0: packets of one size.
    key_times: int = 10  # Of real streams: a key picture is as large as so many others.
    arrivals: str = "even"  # When paced packets are sent: --arrivals of bench-send.
    figure = CPU
    sender = "bench-send"
    protocol = "flv"

    def packets(self, seconds):
        """Of each stream, for a run whose measured span is about so long."""
        return max(1, round(self.packets_per_second * seconds * (1 + self.unmeasured)))

    def send_options(self, seconds):
        interval = round(1e6 / self.packets_per_second) if self.paced else 0
        load = (["--rate", str(self.kbits), "--key-times", str(self.key_times)] if self.kbits else
                ["--payload", str(self.payload), "--interval", str(interval)])
        return ["--connections", str(self.connections), "--write", self.write, "--packets", str(self.packets(seconds)),
                "--arrivals", self.arrivals, *load]


@dataclasses.dataclass(frozen=True)
class Echo(Network):
    """WebSocket messages that are sent back; so many of a connection are under way at a time."""
    payload: int = 50
    window: int = 1
    figure = CPU_PER_PACKET
    sender = "bench-chat"
    protocol = "websocket"

    def send_options(self, seconds):
        return ["--connections", str(self.connections), "--payload", str(self.payload), "--window", str(self.window),
                "--messages", str(self.packets(seconds))]


@dataclasses.dataclass(frozen=True)
class Media(Network):
    """Real streams through the daemon, or through other servers. Variants are the daemon's backends with its options
    (epoll+batch=0), or the names of other servers; "+flv", "+rtsp", "+rtmp" in a variant: by that on both sides."""
    publish: str = "rtmp"
    play: str = "rtmp"
    players: int = 1  # Of each stream; without any, figures are of what is received.
    played: int | None = None  # So many of the streams have players; None: all.
    look: int = 0  # So many players compare every byte, all streams together; the others throw away what they get. 0: all.
    read_every: int = 0  # Milliseconds: the others are read so often; 0: when something has come.
    kbits: int = 1000
    packets_per_second: float = REAL
    paced: bool = True
    arrivals: str = "independent"
    figure = PER_MBIT
    FEWEST = 8  # Frames of a stream, so that both tracks have some.
    WARM_UP = 150  # Frames: a group of pictures and more, so that the daemon has grown to what it caches.

    def packets(self, seconds):
        return max(self.FEWEST, super().packets(seconds))

    def warm_up(self, seconds):
        """Frames; none where no time is to be taken."""
        return self.WARM_UP if self.packets(seconds) > self.FEWEST or self.looking_late else 0

    @property
    def looking_late(self):
        """Whether players may have to wait for a key picture."""
        return any("gop-size=0" in variant or "gop=0" in variant for variant in self.variants) and self.players > 0

    @property
    def looking(self):
        """Players of each stream that compare every byte; 0: all."""
        streams = self.connections if self.played is None else min(self.played, self.connections)
        return max(1, self.look // streams) if self.look else 0

    @property
    def copies(self):
        """How often each frame is delivered, or received where there are no players."""
        if not self.players:
            return self.connections
        return self.players * (self.connections if self.played is None else min(self.played, self.connections))

    def is_ours(self, variant):
        return variant.split("+")[0] in ("uring", "epoll")

    def is_baseline(self, variant):
        return variant == "epoll"


@dataclasses.dataclass(frozen=True)
class Lines(Scenario):
    """Work of bench-lines and bench-lines-server under cachegrind, which perf-compare --lines records: no time, one round."""
    figure = MISSES


@dataclasses.dataclass(frozen=True)
class Growth(Scenario):
    """What perf-compare --growth records: no time, one round. Variants are a backend and a protocol."""
    figure = PLAYER_BYTES


@dataclasses.dataclass(frozen=True)
class Resp(Scenario):
    """Commands to a Redis server, one after the other: GET or SET of values of one size."""
    command: str = "get"
    size: int = 1 << 20
    commands_per_second: float = 1000.0
    figure = CPU

    def commands(self, seconds):
        return max(1, round(self.commands_per_second * seconds))


@dataclasses.dataclass(frozen=True)
class Latency(Media):
    """From when a frame was due at the publisher to its arrival at each player, at a part of the load that the daemon can
    bear: so many streams as make that load, of 10 players each."""
    part: float = 0.5
    figure = LATENCY


@dataclasses.dataclass(frozen=True)
class Capacity(Media):
    """How many publishers or players a fifth of a processor serves, without loss and with a delay of at most so much beyond the
    merge window of the variant."""
    what: str = "players"
    first: int = 500  # Of the search.
    most: int = 18000
    fewest: int = 8
    most_delay_us: float = 250e3  # Of 99 % of the frames.
    settling: int = 612  # Frames, 9 seconds: all begin at once, which is no load that a server has for long.
    figure = CAPACITY
    more_is_better = True

    def warm_up(self, seconds):
        return self.settling if self.packets(seconds) > self.FEWEST else super().warm_up(seconds)


PLAIN = ("shared-buffer", "read-malloc", "read-buffer", "evbuffer", "raw")
SATURATED = ("uring+plain=1", "uring", "epoll-pool+plain=1", "epoll-pool") + PLAIN


OTHERS = PLAIN[:-1]


def batched(window_us):
    """All with a batching window and without; ours without one as the others are (plain), and as they are by default."""
    window = f"+batch={window_us}"
    return (f"uring{window}", "uring+plain=1", "uring", "epoll-pool+plain=1", "epoll-pool", f"epoll-pool{window}", *PLAIN,
            *(name + window for name in OTHERS))


def against(ours, theirs, extra=()):
    """Targets for CPU per GB: ours at most so many times each of theirs."""
    return tuple(Target(CPU, ours, name, most) for name, most in theirs.items()) + tuple(extra)


def no_worse_than_best(ours, figure=CPU):
    return (Target(figure, ours, BEST, 1.02),)


def no_worse(ours, names):
    return tuple(Target(CPU, ours, name, 1.02) for name in names)


def on_equal_terms(window_us):
    """Of the variants of batched(): with the same window or none, with SO_RCVLOWAT on both sides or on none."""
    terms = (("uring+plain=1", "+plain=1", ""), (f"uring+batch={window_us}", *[f"+batch={window_us}"] * 2))
    return against("uring", {"epoll-pool": 1.02}) + tuple(
        target for ours, pool, others in terms
        for target in against(ours, {"shared-buffer" + others: 1.05, "epoll-pool" + pool: 1.02}))


UNPAUSED = against("uring+plain=1", {"shared-buffer": 1.05, "epoll-pool+plain=1": 1.02})
MANY = on_equal_terms(5000) + (Target("syscalls_per_packet", "uring+batch=5000", None, 0.01),)

ECHOES = ("uring", "epoll-pool", "read-write", "read-buffer", "both-buffer", "evbuffer")
ECHO_TARGETS = tuple(Target(CPU_PER_PACKET, "uring", name, 1.02) for name in ECHOES[1:] if name not in FLOORS)

CLIENTS = ("uring", "epoll-pool", "hiredis", "raw")
MALLOCED = ("uring+page-byte=16",)  # Where malloc() puts large memory: see "Alignment" in bench/EXPERIMENTS.md.
RESP_SIZES = (("1k", 1 << 10, 7000), ("64k", 64 << 10, 5000), ("1m", 1 << 20, 1000), ("4m", 4 << 20, 250))
RESP_QUICK = ("resp-get-1m", "resp-set-1m")
RESP_TARGETS = {"resp-get-1m": against("uring", {"hiredis": 0.70, "raw": 1.10})}


def resp(command, label, size, rate):
    name = f"resp-{command}-{label}"
    return Resp(name, f"{command.upper()} of {size >> 10} KiB, one after the other, on a redis-server", CLIENTS + MALLOCED * (command == "get"),
                RESP_TARGETS.get(name, no_worse("uring", ("hiredis",))) + no_worse_than_best("uring"),
                name not in RESP_QUICK, command=command, size=size, commands_per_second=rate)


COPIES = ("library", "read-malloc", "buffer-malloc")
GO = ("go-bufio", "go-pooled")
# A fifth of the time; a fiftieth of the allocations.
GO_TARGETS = tuple(Target(*target) for name in GO
                   for target in ((TIME, "library", name, 0.20), ("allocations_per_operation", "library", name, 0.02)))
COPIES_TARGETS = no_worse_than_best("library", TIME)
INLINE = (Target("allocations_per_operation", "library", None, 0.0),)
FILES = ("library", "stdio", "read")


KEPT = ("uring", "epoll-pool", "shared-buffer", "read-malloc", "read-buffer", "evbuffer")
# References against the copies of the strongest baseline.
KEPT_TARGETS = against("uring", {"shared-buffer": 0.50, "epoll-pool": 1.02})
KEPT_BEFORE = 0.5  # Of 3 s, the first 1.5: frames are held for a second.
KEPT_WINDOW = tuple(name + "+batch=5000" for name in KEPT)
KEPT_PACED_TARGETS = KEPT_TARGETS + against("uring+batch=5000", {"shared-buffer+batch=5000": 0.50, "epoll-pool+batch=5000": 1.02})
KEPT_HOW = {"second": "each held for a second", "thread": "each read and released by another thread"}


def no_slower(variants):
    return tuple(Target(TIME, "library", name, 1.02) for name in variants[1:])


# By default a merge window of 24 ms is open from an eighth of a core on, which misses the first; the second is without.
LATENCY_TARGETS = (Target(LATENCY, "uring", None, 10000), Target(LATENCY, "uring+merge-window=0", None, 10000),
                   Target(LATENCY, "uring", "uring+batch=0", 2000, added=True))

WINDOWS = ("0", "20", "100", "350")
BY_WINDOW = (*(f"uring+merge-window={window}" for window in (*WINDOWS, "auto")), "epoll+merge-window=0", "epoll+merge-window=350")

WAYS = ("uring", "epoll", "uring+batch=0", "epoll+batch=0")
AND_FLV = ("uring", "epoll", "uring+flv", "epoll+flv")
AS_FLV = (*(Target(PER_MBIT, way, way + "+flv", 1.05) for way in ("uring", "epoll")), Target(PER_MBIT, "uring", "epoll", 1.02))
BACKENDS = (Target(PER_MBIT, "uring", "epoll", 1.02),)

# With the daemon's cache of a group of pictures and without; by HTTP-FLV, for the difference.
RECEIVING = WAYS + ("uring+gop-size=0", "uring+flv")
CACHE = (Target(PER_MBIT, "uring", "uring+gop-size=0", 1.05),)

# When frames are sent, and how many times as large as the others a key picture is.
SENT_IN = (("", "independent", "independent", 10), ("-ticks", "in ticks of 5 ms, key pictures 3 times as large", "ticks", 3))
LATE = ("-poisson", "late at random", "poisson", 10)
# Other servers by RTMP on both sides. nginx-rtmp has no cache of groups; SRS has one, as the daemon has.
# Publishers without players are read every 100 ms, by SRS with mr=100; as they come; and without a window, as by the others.
AS_IT_COMES = "uring+unwatched-interval=0"
WITHOUT_WAITS = AS_IT_COMES + "+batch=0"
RECEIVERS = ("uring", "uring+gop-size=0", AS_IT_COMES, WITHOUT_WAITS, "epoll", "nginx-rtmp", "srs", "srs+mr=100", "srs+gop=0+mr=100",
             "mediamtx", "zlmediakit")
RECEIVERS_TARGETS = (Target(PER_MBIT, "uring", "nginx-rtmp", 0.70), Target(PER_MBIT, "uring+gop-size=0", "nginx-rtmp", 0.70),
                     Target(PER_MBIT, WITHOUT_WAITS, "nginx-rtmp", 1.0),
                     Target(PER_MBIT, "uring", "epoll", 1.02), Target(PER_MBIT, "uring", "uring+gop-size=0", 1.05))
# By default with the automatic merge window; without one, as nginx-rtmp; with those of SRS.
SENDERS = ("uring", "epoll", "uring+gop-size=0", "uring+merge-window=0", "nginx-rtmp", "nginx-rtmp+buffer=350", "uring+merge-window=20", "srs+mw=20",
           "uring+merge-window=350", "uring+gop-size=0+merge-window=350", "srs", "srs+gop=0", "zlmediakit", "zlmediakit+mw=350")
SENDERS_TARGETS = (Target(PER_MBIT, "uring", "nginx-rtmp", 0.50), Target(PER_MBIT, "uring+gop-size=0", "nginx-rtmp", 0.50),
                   Target(LATENCY, "uring", None, 25000), Target(PER_MBIT, "uring", "epoll", 1.02),
                   Target(PER_MBIT, "uring+merge-window=350", "srs", 0.40),
                   Target(PER_MBIT, "uring+gop-size=0+merge-window=350", "srs+gop=0", 0.40))
# By HTTP-FLV: Debian's nginx-rtmp has none, nor has MediaMTX.
FLV_SENDERS = ("uring", "epoll", "uring+gop-size=0", "uring+merge-window=20", "srs+mw=20", "uring+merge-window=350", "srs", "srs+gop=0",
               "uring+merge-window=0", "zlmediakit", "zlmediakit+mw=350")
FLV_SENDERS_TARGETS = (Target(PER_MBIT, "uring+merge-window=350", "srs", 0.40), Target(PER_MBIT, "uring", "epoll", 1.02),
                       Target(LATENCY, "uring", None, 25000))
# gortsplib reads and sends each frame as it comes.
RTSP_RECEIVERS = ("uring", AS_IT_COMES, WITHOUT_WAITS, "epoll", "gortsplib", "mediamtx", "zlmediakit")
RTSP_SENDERS = ("uring", "uring+merge-window=0", "epoll", "gortsplib", "mediamtx")


# Each with and without TLS. nginx-rtmp has none of its own: its stream module is in front of it, in "+proxy" without TLS. Our windows
# are off in the second pair, since nginx has none.
SECURE_RECEIVERS = ("uring", "uring+tls", WITHOUT_WAITS, WITHOUT_WAITS + "+tls", "nginx-rtmp", "nginx-rtmp+proxy", "nginx-rtmp+tls")
SECURE_SENDERS = ("uring", "uring+tls", "uring+merge-window=0", "uring+merge-window=0+tls", "nginx-rtmp", "nginx-rtmp+proxy",
                  "nginx-rtmp+tls")
IDLE_BYTES = 20 << 10  # That TLS may add to the memory of a connection.


def secure(variants, memory):
    """What TLS adds, ours of nginx's, whose hop is on both sides or, as an operator pays for it, on one; and to a connection's memory."""
    return (*(Target(PER_MBIT, f"{ours}+tls", "nginx-rtmp+tls", 0.80, bases=(ours, theirs))
              for theirs in ("nginx-rtmp+proxy", "nginx-rtmp") for ours in variants),
            Target(memory, "uring+tls", "uring", IDLE_BYTES, added=True))


def rtsp_peers(memory, as_frames_come):
    return (*(Target(PER_MBIT, ours, "gortsplib", 0.50) for ours in ("uring", as_frames_come)), *BACKENDS,
            Target(memory, "uring", "gortsplib", 0.50))


def in_each_way(name, title, *compared, slow=False, ways=SENT_IN, **load):
    """A scenario for each way in which frames are sent. @title: with "how", where that is said; @slow: the first, as all others are."""
    return tuple(Media(name + suffix, title.format(how=how), *compared, arrivals=arrivals, key_times=key_times, slow=slow or bool(suffix), **load)
                 for suffix, how, arrivals, key_times in ways)


def capacity(*ratios):
    """At least so many times what each of the others serves."""
    return tuple(Target(CAPACITY, ours, name, ratio, least=True) for ours, name, ratio in ratios)


SCENARIOS = (
    Network("saturated", "100 streams as fast as they go, 1 KiB packets in 64 KiB writes", SATURATED,
            UNPAUSED + against("uring+plain=1", {"read-malloc": 0.13, "read-buffer": 0.50, "evbuffer": 0.25, "raw": 1.10}) +
            against("uring", {"epoll-pool": 1.00}, [Target("syscalls_per_packet", "uring", None, 0.02)]),
            connections=100, packets_per_second=16000),
    Network("saturated-small", "100 streams as fast as they go, a write for each 1 KiB packet", batched(5000),
            on_equal_terms(5000), connections=100, write="1039", packets_per_second=3000),
    Network("paced", "100 streams of 4 Mbit/s, 30 frames of 16 KiB a second",
            batched(5000) + ("uring+block=16384+batch=5000",), on_equal_terms(5000),
            connections=100, payload=16384, packets_per_second=30, paced=True),
    Network("paced-1400", "100 streams of 4 Mbit/s, written 1400 bytes at a time", batched(5000), on_equal_terms(5000),
            connections=100, payload=16384, write="1400", packets_per_second=30, paced=True),
    *(Network("paced-real" + name, f"100 real streams of 4 Mbit/s, {what}", batched(5000), on_equal_terms(5000), connections=100,
              kbits=4000, packets_per_second=REAL, paced=True, arrivals=arrivals, key_times=key_times, slow=bool(name))
      for name, what, arrivals, key_times in (
          ("", "independent, key pictures 10 times as large", "independent", 10),
          ("-ticks", "sent in ticks of 5 ms, key pictures 10 times as large", "ticks", 10),
          ("-poisson", "frames late at random, key pictures 3 times as large", "poisson", 3))),
    Network("fat", "One stream as fast as it goes, 1 KiB packets in 64 KiB writes", SATURATED,
            UNPAUSED + against("uring+plain=1", {"read-malloc": 0.10, "read-buffer": 0.90, "evbuffer": 0.20, "raw": 1.10}) +
            against("uring", {"epoll-pool": 1.02}, [Target("syscalls_per_packet", "uring", None, 0.02)]),
            packets_per_second=1000000),
    Network("network-good", "100 streams of 1 KiB packets in writes of 1024 to 4096 bytes", batched(2000),
            on_equal_terms(2000), connections=100, write="1024-4096", packets_per_second=4000),
    Network("network-normal", "100 streams of 1 KiB packets in writes of 256 to 2048 bytes", batched(2000),
            on_equal_terms(2000), connections=100, write="256-2048", packets_per_second=2000),
    Network("network-poor", "100 streams of 1 KiB packets in writes of 64 to 512 bytes", batched(2000),
            on_equal_terms(2000), connections=100, write="64-512", packets_per_second=600),
    Network("network-worst", "100 streams of 1 KiB packets in writes of 1 to 128 bytes", batched(2000), on_equal_terms(2000),
            connections=100, write="1-128", packets_per_second=150),
    Network("many", "1000 streams of 30 packets of 1 KiB a second", batched(5000), MANY,
            connections=1000, write="1039", packets_per_second=30, paced=True),
    Network("idle-1000", "1000 mostly idle streams, one packet a second", batched(5000), on_equal_terms(5000),
            connections=1000, write="1039", packets_per_second=1, paced=True, slow=True),
    Network("idle-10000", "10,000 mostly idle streams, one packet in a second", batched(5000),
            (Target("private_bytes_per_connection", "uring", None, 1024),) + on_equal_terms(5000),
            connections=10000, write="1039", packets_per_second=1, paced=True, slow=True),
    *(Network(f"kept-{keep}", f"100 streams of 4 Mbit/s, 30 frames of 16 KiB a second, {how}", KEPT + KEPT_WINDOW,
              KEPT_PACED_TARGETS, connections=100, payload=16384, packets_per_second=30, paced=True, keep=keep, unmeasured=KEPT_BEFORE)
      for keep, how in KEPT_HOW.items()),
    *(Network(f"kept-{keep}-saturated", f"100 streams of frames of 16 KiB as fast as they go, {how}", KEPT, KEPT_TARGETS,
              connections=100, payload=16384, packets_per_second=700, keep=keep,
              unmeasured=KEPT_BEFORE)
      for keep, how in KEPT_HOW.items()),
    *(Media(f"fanout-1x{players}", f"1 publisher of 4 Mbit/s to {players} player{'s' * (players > 1)} each by RTMP, through sluiced",
            WAYS + ("uring+flv",), BACKENDS, players=players, kbits=4000, look=50, slow=players != 100)
      for players in (1, 10, 100, 1000)),
    *in_each_way("fanout-100x10", "100 publishers of 4 Mbit/s, {how}, to 10 players each by RTMP, through sluiced",
                 WAYS + ("uring+flv",), BACKENDS, connections=100, players=10, kbits=4000, look=50, slow=True),
    Media("fanout-hot", "One publisher of 40 Mbit/s to 1000 players, about what one worker of sluiced bears, spread or not",
          ("uring+workers=2", "uring+workers=2+spread=1", "uring+workers=1"), (), players=1000, kbits=40000, key_times=3,
          look=10, slow=True),
    Media("merge-window", "One publisher of 1 Mbit/s to 500 players by RTMP, through sluiced, by merge window", BY_WINDOW,
          tuple(Target(PER_MBIT, f"uring+merge-window={window}", f"epoll+merge-window={window}", 1.02) for window in (0, 350)),
          along="merge-window", players=500, look=50),
    *in_each_way("publishers", "100 RTMP publishers of 1 Mbit/s, {how}, and no players, through sluiced", RECEIVING, BACKENDS + CACHE,
                 ways=(*SENT_IN, LATE), connections=100, players=0),
    *in_each_way("rtsp-publishers", "100 RTSP publishers of 1 Mbit/s, {how}, and no players, through sluiced", AND_FLV, BACKENDS,
                 connections=100, players=0, publish="rtsp", play="rtsp"),
    Media("rtsp-players", "One RTSP publisher of 1 Mbit/s to 1000 RTSP players, through sluiced", AND_FLV,
          BACKENDS, players=1000, publish="rtsp", play="rtsp"),
    *in_each_way("rtsp-to-flv", "10 RTSP publishers of 4 Mbit/s, {how}, to 20 HTTP-FLV players each, through sluiced", AND_FLV,
                 BACKENDS, connections=10, players=20, kbits=4000, publish="rtsp", play="flv"),
    *in_each_way("flv-to-rtsp", "10 FLV publishers of 4 Mbit/s, {how}, to 20 RTSP players each, through sluiced", AND_FLV,
                 BACKENDS, connections=10, players=20, kbits=4000, publish="flv", play="rtsp"),
    *in_each_way("rtmp-publishers", "100 RTMP publishers of 1 Mbit/s, {how}, and no players, through sluiced", AND_FLV, AS_FLV,
                 connections=100, players=0, slow=True),
    Media("rtmp-players", "One RTMP publisher of 1 Mbit/s to 500 RTMP players, through sluiced", AND_FLV, AS_FLV,
          players=500, slow=True),
    *in_each_way("peers-publishers", "100 RTMP publishers of 1 Mbit/s, {how}, and no players: sluiced and other servers", RECEIVERS,
                 RECEIVERS_TARGETS, connections=100, players=0, slow=True),
    Media("peers-publishers-500", "500 RTMP publishers of 1 Mbit/s, in ticks of 5 ms, and no players: sluiced and other servers",
          RECEIVERS, RECEIVERS_TARGETS, connections=500, players=0, arrivals="ticks", slow=True),
    Media("peers-publishers-500-independent", "500 RTMP publishers of 1 Mbit/s, independent, and no players: sluiced and other servers",
          RECEIVERS, RECEIVERS_TARGETS, connections=500, players=0, slow=True),
    *in_each_way("peers-players", "One RTMP publisher of 1 Mbit/s, {how}, to 500 RTMP players: sluiced and other servers", SENDERS,
                 SENDERS_TARGETS, players=500, look=50, slow=True),
    *in_each_way("peers-players-2000", "One RTMP publisher of 1 Mbit/s, {how}, to 2000 RTMP players, most of them read every 50 ms: sluiced and "
                 "other servers", SENDERS, SENDERS_TARGETS, players=2000, look=50, read_every=50, slow=True),
    *in_each_way("peers-players-flv", "One RTMP publisher of 1 Mbit/s, {how}, to 500 HTTP-FLV players: sluiced and other servers", FLV_SENDERS,
                 FLV_SENDERS_TARGETS, play="flv", players=500, look=50, slow=True),
    *in_each_way("peers-rtsp-publishers", "100 RTSP publishers of 1 Mbit/s, {how}, and no players: sluiced and other servers", RTSP_RECEIVERS,
                 rtsp_peers("private_bytes_per_publisher", WITHOUT_WAITS), connections=100, players=0, publish="rtsp", play="rtsp", slow=True),
    Media("peers-rtsp-players", "One RTSP publisher of 1 Mbit/s to 500 RTSP players: sluiced and other servers", RTSP_SENDERS,
          rtsp_peers("private_bytes_per_player", "uring+merge-window=0"), players=500, publish="rtsp", play="rtsp", slow=True),
    *in_each_way("tls-publishers", "100 RTMP publishers of 1 Mbit/s, {how}, and no players, with TLS 1.3 and without: sluiced and nginx",
                 SECURE_RECEIVERS, secure(("uring", WITHOUT_WAITS), "private_bytes_per_publisher"), connections=100, players=0, slow=True),
    Media("tls-players", "One RTMP publisher of 1 Mbit/s to 500 RTMP players, with TLS 1.3 and without: sluiced and nginx",
          SECURE_SENDERS, secure(("uring", "uring+merge-window=0"), "private_bytes_per_player"), players=500, look=50, slow=True),
    Media("ktls-players", "One FLV publisher of 4 Mbit/s to 50 players by HTTPS, encrypted by the kernel and by OpenSSL",
          ("uring+tls+ktls=always", "uring+tls", "uring"), (), players=50, kbits=4000, slow=True),
    *(Capacity(f"capacity-publishers{name}", f"RTMP publishers of 1 Mbit/s{how}, the first 20 with a player each, that a fifth of a processor "
               "serves", ("uring", "uring+gop-size=0", WITHOUT_WAITS, "nginx-rtmp", "srs", "srs+mr=100", "srs+gop=0", "srs+gop=0+mr=100",
                          "zlmediakit"),
               capacity(("uring", "uring+gop-size=0", 0.95), ("uring", "nginx-rtmp", 1.5), ("uring+gop-size=0", "nginx-rtmp", 1.5),
                        (WITHOUT_WAITS, "nginx-rtmp", 1.5), ("uring", "srs", 3.0), ("uring", "srs+mr=100", 3.0)),
               what="publishers", played=20, arrivals=arrivals, first=1000, most=10000, slow=True)
      for name, how, arrivals in (("", "", "ticks"), ("-independent", ", independent", "independent"))),
    Capacity("capacity-players", "RTMP players of one stream of 1 Mbit/s, read every 50 ms, that a fifth of a processor serves",
             ("uring", "uring+merge-window=0", "uring+merge-window=20", "uring+merge-window=350", "nginx-rtmp", "srs",
              "srs+mw=20", "zlmediakit", "zlmediakit+mw=350"),
             capacity(("uring", "nginx-rtmp", 3.0), ("uring", "srs", 2.0), ("uring", "srs+mw=20", 2.0),
                      ("uring+merge-window=350", "srs", 2.0)),
             look=50, read_every=50, first=2000, settling=1020, slow=True),
    Echo("websocket", "WebSocket echo of messages of 50 bytes, 10 connections, up to 256 of each under way", ECHOES,
         ECHO_TARGETS, connections=10, window=256, packets_per_second=50000),
    Echo("websocket-single", "WebSocket echo of messages of 50 bytes, 100 connections, one of each at a time", ECHOES,
         ECHO_TARGETS, connections=100, window=1, packets_per_second=1000, slow=True),
    *(resp(command, *size) for command in ("get", "set") for size in RESP_SIZES),
    *(Latency(f"latency-{part}{name}", f"RTMP publisher to player through sluiced, {part} % of the load that one core bears{how}",
              WAYS + ("uring+merge-window=0",), LATENCY_TARGETS, players=10, kbits=4000, look=1, read_every=50, part=part / 100,
              arrivals=arrivals, key_times=key_times, slow=True)
      for part, name, how, arrivals, key_times in (
          (10, "", "", "independent", 10), (50, "", "", "independent", 10), (90, "", "", "independent", 10),
          (50, "-ticks", ", in ticks of 5 ms", "ticks", 3))),
    Memory("flv", "FLV tags of 1 KiB, in pieces of 64 KiB, without sockets", COPIES + GO,
           GO_TARGETS + COPIES_TARGETS, operations_per_second=1e7),
    Memory("streaming-good", "100 streams of 1 KiB packets in pieces of 1024 to 4096 bytes, without sockets", COPIES,
           COPIES_TARGETS, operations_per_second=1e7),
    Memory("streaming-normal", "100 streams of 1 KiB packets in pieces of 256 to 2048 bytes, without sockets", COPIES,
           COPIES_TARGETS, operations_per_second=1e7),
    Memory("streaming-poor", "100 streams of 1 KiB packets in pieces of 64 to 512 bytes, without sockets", COPIES,
           COPIES_TARGETS, operations_per_second=5e6),
    Memory("streaming-worst", "100 streams of 1 KiB packets in pieces of 1 to 128 bytes, without sockets", COPIES,
           COPIES_TARGETS, operations_per_second=1.5e6),
    Memory("pressure", "100 streams of 1 KiB packets, the last 64 of each held, without sockets", COPIES,
           COPIES_TARGETS, operations_per_second=5e6),
    Memory("file-1", "A file of 10 MiB, a byte at a time", FILES + ("library-alone",),
           (Target(TIME, "library", None, 1.0),),
           operations_per_second=2e6),
    Memory("file-4096", "A file of 10 MiB, 4 KiB at a time", FILES, no_slower(FILES), operations_per_second=1e6),
    Memory("file-65536", "A file of 10 MiB, 64 KiB at a time", FILES, no_slower(FILES), operations_per_second=7e4),
    *(Memory(f"text-{size}", f"Text of {size} bytes put together and given up", ("library", "malloc"),
             no_slower(("library", "malloc")) + INLINE * (size <= 64), operations_per_second=rate)
      for size, rate in ((0, 5e7), (5, 5e7), (64, 4e7), (128, 2e7), (1024, 4e6))),
)


# Half of the misses before the daemon's packets were laid out by cache lines: 7.6 behind the completion, 17.3 with it.
LINES = Lines("lines", "A frame of 100 publishers in the daemon, without system calls, by cachegrind",
              ("relay", "relay+no-cache", "data-plane", "data-plane+no-cache"),
              (Target(MISSES, "relay", None, 3.8), Target(MISSES, "data-plane", None, 8.65)), slow=True)


GROWING = tuple(f"{backend}+{protocol}" for backend in ("uring", "epoll") for protocol in ("flv", "rtmp", "rtsp"))
GROWTH = Growth("growth", "The daemon's private memory, by 1,000 publishers or players more", GROWING,
                tuple(Target(figure, variant, None, bound) for variant in GROWING
                      for figure, bound in ((PLAYER_BYTES, 3072), (PUBLISHER_ALL, 8192))), slow=True)
# Recorded by options of their own.
BY_OPTION = LINES, GROWTH


def settings(name, values, base="uring"):
    """Our default against other values of one setting."""
    return (base, *(f"{base}+{name}={value}" for value in values))


# By what they vary: variants, and the scenarios that show it. What is written beside the library's defaults comes of these.
SWEEPS = {
    "block": (settings("block", (2048, 8192, 16384, 65536)), ("saturated", "fat", "paced", "network-worst")),
    "stock": (settings("stock", (131072, 262144, 1048576, 4194304)), ("saturated", "many")),
    "stock-batched": (settings("stock", (262144, 524288, 2097152, 4194304), "uring+batch=2000"),
                      ("saturated", "fat", "network-good", "many")),
    "batch": (settings("batch", (500, 1000, 2000, 5000, 10000)), ("paced", "many", "network-worst")),
}
# On other kernels, by instructions (tools/kernels --accel icount): both backends, with the same window or none.
KERNELS = ("6.1", "6.12", "7.3")
KERNEL_WINDOWS = ("", "+batch=2000")
KERNEL_SCENARIOS = {name: tuple(f"{backend}{window}" for window in KERNEL_WINDOWS for backend in ("uring", "epoll-pool"))
                    for name in ("saturated", "fat", "paced", "paced-real", "paced-real-poisson", "many", "network-good",
                                 "network-normal", "network-worst")}
KERNEL_SCENARIOS |= {name: tuple(f"{backend}{window}" for window in ("+batch=0", "") for backend in ("uring", "epoll"))
                     for name in ("publishers", "fanout-100x10")}
# Likewise, if they are named: one protocol beside another.
KERNEL_PROTOCOLS = {name: AND_FLV for name in ("rtmp-publishers", "rtmp-players")}


def on_kernel(kernel, name):
    """What the recording of a scenario on a kernel is called."""
    return f"kernel-{kernel}/{name}"


ON_KERNELS = tuple((kernel, name) for kernel in KERNELS for name in KERNEL_SCENARIOS)
# Several scenarios by one name.
TOGETHER = {"capacity": ("capacity-publishers", "capacity-publishers-independent", "capacity-players")}
SWEPT = tuple((sweep, name) for sweep, (_, chosen) in SWEEPS.items() for name in chosen)
BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, *BY_OPTION)}


def swept(sweep, name):
    """What the recording of a scenario in a sweep is called."""
    return f"sweep-{sweep}/{name}"
