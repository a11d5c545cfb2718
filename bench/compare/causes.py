"""Why targets are missed: of each the title of a section of bench/TARGETS.md, which has the profile and what another design would
achieve. A missed target without one fails the check of the documents."""

import fnmatch
import re

from compare.scenarios import LATENCY, MISSES, WITHOUT_WAITS

# A title, and what it explains: patterns of scenarios, our variants, others' variants and figures. The first that matches is it.
CAUSES = (
    ("A loaded core without a window", ("latency-90", "uring+merge-window=0", "*", LATENCY)),
    ("The interval between audio frames", ("*", "*", "*", LATENCY)),
    ("Cold memory of cached groups", ("*publishers*", "*", "uring+gop-size=0", "*"), ("lines", "*", "*", MISSES)),
    ("Slabs in the memory of few connections", ("tls-*", "*", "*", "private_bytes_*")),
    ("What TLS adds", ("tls-*", "*", "*", "*")),
    ("The kernel's part of a send", *((name, "*", "*", "*") for name in ("peers-players*", "capacity-players", "merge-window")),
     *((name, "*", "epoll", "*") for name in ("fanout-*", "*players", "*-to-*"))),
    ("The capacity of publishers", ("capacity-publishers*", "*", "*", "*")),
    ("Slabs in the memory of few connections", ("*", "*", "*", "private_bytes_*")),
    ("Publishers that are read as frames come", ("*publishers*", WITHOUT_WAITS, "*", "*")),
    ("Two backends that read alike", ("*publishers*", "*", "epoll", "*")),
    ("RTMP beside FLV", ("rtmp-*", "*", "*+flv", "*")),
    ("Frames that are kept", ("kept-*", "*", "*", "*")),
    ("A window receives before it delivers", *((name, "*+batch=*", "*", "*") for name in ("network-good", "saturated-small"))),
    ("io_uring gathers less", ("paced-1400", "*", "epoll-pool*", "*"), ("network-*", "*+batch=*", "*", "*")),
    ("A window receives before it delivers", ("paced*", "*+batch=*", "*", "*")),
    ("One request at a time", ("resp-*", "*", "*", "*")),
    ("A reference to each frame", *(("*", "*", theirs, "*") for theirs in ("shared-buffer*", "raw", "go-*", "read-*", "evbuffer*")),
     *((name, "*", "*", "*") for name in ("flv", "streaming-*", "pressure"))),
    ("io_uring gathers less", ("*", "*", "epoll-pool*", "*"), ("many", "*", "*", "syscalls_per_packet")),
    ("Long texts", ("text-*", "*", "*", "*")),
)


# Their figures are no processor time, or are not of one scenario.
WITHOUT_PROFILE = ("Slabs in the memory of few connections",)


def cause_of(scenario, target):
    """Of a target that statistics.judge() finds missed; None: there is none."""
    of = scenario, target["ours"], str(target["theirs"]), target["figure"]
    return next((title for title, *patterns in CAUSES
                 if any(all(map(fnmatch.fnmatchcase, of, pattern)) for pattern in patterns)), None)


def anchor(title):
    """What a section of that title is called in a link."""
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")
