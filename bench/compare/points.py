"""What README.md and bench/RESULTS.md show of the daemon beside other servers, and of other uses of the library."""

import math
import textwrap

from compare import scenarios, statistics, summary

PUBLISHERS, TICKS, PLAYERS, MORE_PLAYERS = "peers-publishers", "peers-publishers-500", "peers-players", "peers-players-2000"
FLV_PLAYERS = "peers-players-flv"
OTHERS = ("nginx-rtmp", "srs", "mediamtx", "zlmediakit")
SERVERS = ("sluiced", "nginx-rtmp", "SRS", "MediaMTX", "ZLMediaKit")
WINDOWLESS = ("mediamtx", "zlmediakit")
# What a row is called, its scenario, the variant of ours, those of others that it is compared with on equal terms, and those that
# are shown without a ratio: they have no window, or read frames as they come, and ours does not.
ROWS = (
    ("500 RTMP players, our default window of 24 ms, nginx-rtmp with `buffer`", PLAYERS, "uring", ("nginx-rtmp+buffer=350",), ("zlmediakit",)),
    ("the same, no merge window", PLAYERS, "uring+merge-window=0", ("nginx-rtmp", "zlmediakit"), ()),
    ("the same, 350 ms on both sides", PLAYERS, "uring+merge-window=350", ("srs", "zlmediakit+mw=350"), ()),
    ("2000 RTMP players, most of them read every 50 ms, 24 ms, nginx-rtmp with `buffer`", MORE_PLAYERS, "uring", ("nginx-rtmp+buffer=350",),
     ("zlmediakit",)),
    ("the same, no merge window", MORE_PLAYERS, "uring+merge-window=0", ("nginx-rtmp", "zlmediakit"), ()),
    ("the same, 350 ms on both sides", MORE_PLAYERS, "uring+merge-window=350", ("srs", "zlmediakit+mw=350"), ()),
    ("500 HTTP-FLV players, no merge window", FLV_PLAYERS, "uring+merge-window=0", ("zlmediakit",), ()),
    ("the same, 20 ms on both sides", FLV_PLAYERS, "uring+merge-window=20", ("srs+mw=20",), ()),
    ("the same, 350 ms on both sides", FLV_PLAYERS, "uring+merge-window=350", ("srs", "zlmediakit+mw=350"), ()),
    ("100 RTMP publishers, independent, read every 100 ms, by SRS too", PUBLISHERS, "uring", ("srs+mr=100",), ("nginx-rtmp", *WINDOWLESS)),
    ("the same, as frames come, no window", PUBLISHERS, scenarios.WITHOUT_WAITS, ("nginx-rtmp", "srs", *WINDOWLESS), ()),
    ("500 RTMP publishers in ticks of 5 ms, read every 100 ms, by SRS too", TICKS, "uring", ("srs+mr=100",), ("nginx-rtmp", *WINDOWLESS)),
    ("the same, as frames come, no window", TICKS, scenarios.WITHOUT_WAITS, ("nginx-rtmp", "srs", *WINDOWLESS), ()),
    ("500 RTSP players, 24 ms", "peers-rtsp-players", "uring", (), ("mediamtx",)),
    ("the same, no merge window", "peers-rtsp-players", "uring+merge-window=0", ("mediamtx",), ()),
    ("100 RTSP publishers, read every 100 ms", "peers-rtsp-publishers", "uring", (), WINDOWLESS),
    ("the same, as frames come, no window", "peers-rtsp-publishers", scenarios.WITHOUT_WAITS, WINDOWLESS, ()),
)


def median(recordings, name, variant, key, form="{:.0f}", scale=1.0):
    figures = summary.medians(recordings, name).get(variant, {}) if name in recordings else {}
    return summary.cell(figures, key, form, scale)


def ratio(recordings, name, ours, theirs):
    """Of the medians of the scenario's figure."""
    rounds = recordings[name].rounds if name in recordings else {}
    found = ours in rounds and theirs in rounds and statistics.ratio(rounds[ours], rounds[theirs], scenarios.BY_NAME[name].figure)
    return summary.in_text(found) if found else "-"


FULL = 0.95  # Of its core, where a server falls behind: its cost is then too low, and is compared with none.


def load(recordings, name, variant):
    """Of the server's core, or of its part of one; nan: not recorded, which is neither below nor above anything."""
    figures = summary.medians(recordings, name).get(variant, {}) if name in recordings else {}
    return figures.get("load", math.nan)


def both_sides(recordings, name, variant):
    """Microseconds per Mbit, of the server and of the publishers and players that load it; the delay, of publishers
    without players how old what is not read may be."""
    costs = ", ".join(median(recordings, name, variant, key) for key in (scenarios.PER_MBIT, "others_us_per_mbit"))
    figures = summary.medians(recordings, name).get(variant, {}) if name in recordings else {}
    delay = figures.get(scenarios.LATENCY, figures.get("unread_p99_us"))
    return (costs + (f"; {summary.milliseconds(delay)} ms" if delay else "") +
            " (core full)" * (load(recordings, name, variant) >= FULL))


def compared(recordings, rows, cell, least_load, most_load):
    """Rows of a table: of each server the cell, and behind it ours divided by theirs where the terms are equal and the loads of both are
    between these."""
    shown = []
    for title, name, ours, equal, unequal in rows:
        cells = {other.partition("+")[0]: cell(recordings, name, other) for other in (*equal, *unequal)}
        for other in equal:
            if all(least_load <= load(recordings, name, one) < most_load for one in (ours, other)):
                cells[other.partition("+")[0]] += f": {ratio(recordings, name, ours, other)}"
        theirs = [cells.get(other, "") for other in OTHERS]
        shown.append((title + summary.fewer(recordings, name), cell(recordings, name, ours), *theirs))
    return shown


def servers(recordings):
    """The CPU of both sides, and ours divided by each other's where the terms are equal."""
    return summary.table(("streams of 1 Mbit/s", *SERVERS), compared(recordings, ROWS, both_sides, 0, FULL))


LIMITED = 0.8  # Of its part of a core: where a server used less, its delay was the limit, which says nothing of its cost.
CAPACITIES = (
    ("RTMP players that read every 50 ms, each server's defaults", "capacity-players", "uring", (), ("nginx-rtmp", "srs", "zlmediakit")),
    ("the same, no merge window", "capacity-players", "uring+merge-window=0", ("nginx-rtmp", "zlmediakit"), ()),
    ("the same, 20 ms on both sides", "capacity-players", "uring+merge-window=20", ("srs+mw=20",), ()),
    ("the same, 350 ms on both sides", "capacity-players", "uring+merge-window=350", ("srs", "zlmediakit+mw=350"), ()),
    # SRS merges what it sends to the 20 players for 350 ms, and may be later by as much.
    ("RTMP publishers in ticks of 5 ms, the first 20 with a player, the others read every 100 ms, by SRS too", "capacity-publishers", "uring",
     (), ("nginx-rtmp", "srs+mr=100", "zlmediakit")),
    ("the same, as frames come; no window, but SRS's of 350 ms", "capacity-publishers", scenarios.WITHOUT_WAITS, ("nginx-rtmp", "zlmediakit"),
     ("srs",)),
)


def served(recordings, name, variant):
    """How many, and the delay of the frames of so many."""
    number, delay = (median(recordings, name, variant, *form) for form in ((scenarios.CAPACITY,), (scenarios.LATENCY, "{:.0f} ms", 1000)))
    return number if delay == "-" else f"{number}; {delay}"


def capacity(recordings):
    """How many a fifth of a core serves, and ours divided by each other's where the terms are equal."""
    return summary.table(("a fifth of a core serves", *SERVERS), compared(recordings, CAPACITIES, served, LIMITED, math.inf))


def memory(recordings):
    figures = [median(recordings, scenarios.GROWTH.name, "uring+rtmp", key, "{:.1f}", 1000)
               for key in (scenarios.PLAYER_BYTES, scenarios.PUBLISHER_ALL)]
    return figures, (f"Memory of `sluiced`, by RTMP: {figures[0]} KB for each further player, {figures[1]} KB for each further publisher "
                     "besides its group of pictures.")


def protocols(recordings):
    names = ("rtmp-publishers", "rtsp-publishers", "rtmp-players", "rtsp-players")
    ratios = [ratio(recordings, name, "uring", "uring+flv") for name in names]
    return ratios, (f"The CPU of `sluiced` by other protocols, divided by that of the same media by FLV: 100 publishers by RTMP {ratios[0]}, by "
                    f"RTSP {ratios[1]}; 500 players by RTMP {ratios[2]}, 1,000 by RTSP {ratios[3]}{summary.fewer(recordings, *names)}.")


def delay(recordings):
    delays = [median(recordings, "latency-10", variant, key, "{:.1f}", 1000) for variant in ("uring", "uring+merge-window=0")
              for key in ("p50_us", "p99_us")]
    without = "" if "-" in delays[2:] else f"; without one {delays[2]} and {delays[3]} ms"
    streams = median(recordings, "latency-10", "uring", "streams")
    return delays, (f"Delay from publisher to player with {streams} streams to 10 players each, a tenth of what a core serves without a window: "
                    f"median {delays[0]} ms, 99 % within {delays[1]} ms, most of it the automatic merge window"
                    f"{without}{summary.fewer(recordings, 'latency-10')}.")


def clients(recordings):
    names = ("resp-get-1m", "websocket")
    ratios = [ratio(recordings, *one) for one in ((names[0], "uring", "hiredis"), (names[0], *scenarios.MALLOCED, "hiredis"),
                                                  (names[1], "uring", "evbuffer"))]
    return ratios, (f"GET of 1 MiB from Redis into the caller's memory: {ratios[0]} of hiredis if the memory starts on a page boundary, "
                    f"{ratios[1]} if it is from `malloc()`; more on AMD EPYC (\"Alignment\" in `bench/EXPERIMENTS.md`). WebSocket echo of 50-byte messages: "
                    f"{ratios[2]} of libevent's bufferevent, which reads 4 KiB at a time{summary.fewer(recordings, *names)}.")


def others(recordings):
    """A point for each kind of use; without those of which nothing is recorded. "-" is not recorded yet."""
    points = [one(recordings) for one in (memory, protocols, delay, clients)]
    return [line for figures, point in points if set(figures) != {"-"}
            for line in textwrap.wrap("- " + point, 128, subsequent_indent="  ", break_on_hyphens=False)]
