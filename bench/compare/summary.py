"""Tables, in Markdown, of what was last measured: they are in the READMEs.

Each takes the recordings by their names. targets() and lines() show what there is; the others need those that they show.
"""

import re
import textwrap

from compare import causes, network, plot, report, scenarios, statistics


def figure(value):
    """Three digits that mean something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def beside(value, bound):
    """As many digits more as tell it from its bound."""
    return next((shown for shown in (figure(value), f"{value:.4g}", f"{value:.6g}") if shown != figure(bound)), figure(value))


def thousands(value):
    """A whole number, with a comma where it has five digits and more."""
    return f"{value:.0f}" if value < 9999.5 else f"{value:,.0f}"


def milliseconds(microseconds):
    """Two digits; more only of what takes a tenth of a second."""
    return f"{microseconds / 1000:.{1 if microseconds < 9950 else 0}f}"


def delays(figures, *keys):
    """In milliseconds; "-" where there is none."""
    return ", ".join(milliseconds(figures[key]) if key in figures else "-" for key in keys)


def table(heading, rows):
    """Of cells that are text."""
    first, *others = ("| " + " | ".join(row) + " |" for row in (heading, *rows))
    return [first.replace("|  |", "| |"), "|" + "---|" * len(heading), *others]


def fewer(recordings, *names, form=" ({})"):
    """Behind what has recordings of fewer rounds than usual: how many the least of them has. Otherwise nothing."""
    found = [len(runs) for name in names if name in recordings for runs in recordings[name].rounds.values()]
    least = min(found, default=scenarios.ROUNDS)
    return form.format(f"{least} round{'s' * (least > 1)}") if least < scenarios.ROUNDS else ""


def medians(recordings, name):
    """Of each variant: medians of the rounds, and what was counted."""
    return report.summary(recordings[name].rounds, recordings[name].counted)


def judged(recordings):
    """Every target of the scenarios that have recordings: the scenario's name, and what statistics.judge() has."""
    for name, scenario in scenarios.BY_NAME.items():
        if recording := recordings.get(name):
            for target in statistics.judge(scenario, recording.rounds, recording.counted):
                yield name, target


def why(name, target):
    """A link to the section that says why it is missed."""
    title = causes.cause_of(name, target)
    return f"[{title}](#{causes.anchor(title)})" if title else "cause not known"


def targets(recordings):
    """A line for each."""
    rows, found = [], dict.fromkeys((statistics.MET, statistics.TIED, statistics.MISSED), 0)
    for name, target in judged(recordings):
        known = report.WHAT if target["theirs"] and not target["added"] else {}
        unit = known.get(target["figure"]) or report.UNITS.get(target["figure"], target["figure"])
        each, verdict = target["each"], target["verdict"]
        rows.append((f"`{name}`", f"{report.compared(target, '`{}`')}, {unit}", f"{'>=' if target['least'] else '<='} {figure(target['bound'])}",
                     beside(target["measured"], target["bound"]), f"{figure(min(each))} to {figure(max(each))}" if len(each) > 1 else "",
                     "**missed**: " + why(name, target) if verdict == statistics.MISSED else verdict))
        found[verdict] += 1
    met, tied, missed = found.values()
    return [f"Of {len(rows)} targets, {met} are met, {tied} are ties, {missed} are missed.", "", *table(("scenario", "what", "target", "measured", "rounds", ""), rows)]


def sender_s_per_gb(figures):
    """CPU seconds of the program that has sent what was received; its own part before and behind the span among them."""
    if "sender_cpu_s" not in figures:  # Of scenarios with a server and the programs that load it.
        return figures["others_us_per_mbit"] * 8 / 1000
    return figures["sender_cpu_s"] * figures["cpu_s_per_gb"] / figures["cpu_s"]


def sweep(recordings, name):
    """Processor time with each value of a setting, the default's being 1, and the sender's likewise."""
    variants, chosen = scenarios.SWEEPS[name]
    ours, *others = variants
    rows = []
    for one in chosen:
        recorded = scenarios.swept(name, one)
        ratios = statistics.ratios(scenarios.BY_NAME[one], recordings[recorded].rounds)[ours]
        senders = {variant: sender_s_per_gb(figures) for variant, figures in medians(recordings, recorded).items()}
        rows.append([f"`{one}`", *(f"{1 / ratios[other]['of_medians']:.2f} "
                                   f"({1 / ratios[other]['most']:.2f} to {1 / ratios[other]['least']:.2f}), "
                                   f"{senders[other] / senders[ours]:.2f}" for other in others)])
    return table((name, *(f"`{one.rpartition('=')[2]}`" for one in others)), rows)


def sweeps(recordings):
    """All of them, an empty line between."""
    lines = [line for name in scenarios.SWEEPS for line in ("", *sweep(recordings, name))]
    return lines[1:]


def kernels(recordings):
    """Both backends on each kernel, by instructions: of each pair with the same window the figures, and their quotient; behind it that
    of receiver and sender together."""
    rows = []
    for name, variants in scenarios.KERNEL_SCENARIOS.items():
        for ours, theirs in zip(variants[::2], variants[1::2]):
            window = ours.partition("+")[2] or "default"
            cells = []
            for kernel in scenarios.KERNELS:
                recorded = scenarios.on_kernel(kernel, name)
                figures = medians(recordings, recorded) if recorded in recordings else {}
                one, other = (figures.get(variant, {}) for variant in (ours, theirs))
                cells.append(f"{one[scenarios.CPU]:.2f}, {other[scenarios.CPU]:.2f}: {one[scenarios.CPU] / other[scenarios.CPU]:.2f}, "
                             f"{both_s_per_gb(one) / both_s_per_gb(other):.2f}" if one and other else "-")
            rows.append((f"`{name}`", f"`{window}`", *cells))
    return table(("scenario", "setting", *(f"Linux {kernel}" for kernel in scenarios.KERNELS)), rows)


def cell(figures, key, form="{:.0f}", scale=1.0):
    """A figure as text; "-" where there is none."""
    return form.format(figures[key] / scale) if key in figures else "-"


def variants_of(recordings, names):
    """Each scenario's title and variants with their figures; of what is not recorded, no figures."""
    for name in names:
        figures = medians(recordings, name) if name in recordings else {}
        for variant in figures or scenarios.BY_NAME[name].variants:
            yield name, variant, figures.get(variant, {})


PUBLISHERS = ("peers-publishers", "peers-publishers-ticks", "peers-publishers-500", "peers-publishers-500-independent",
              "peers-rtsp-publishers", "peers-rtsp-publishers-ticks")
PLAYERS = ("peers-players", "peers-players-ticks", "peers-players-2000", "peers-players-2000-ticks", "peers-players-flv",
           "peers-players-flv-ticks", "peers-rtsp-players")
CAPACITIES = ("capacity-publishers", "capacity-publishers-independent", "capacity-players")


def peers_publishers(recordings):
    """Publishers without players: what a Mbit costs the server and the programs that make the load."""
    return table(("scenario", "server", "us/Mbit", "of the load", "load of its core", "of the other one", "unread for, p50, p99, ms",
                  "wake-ups a second", "bytes of memory a publisher"),
                 [(f"`{name}`", f"`{variant}`", cell(figures, "cpu_us_per_mbit"), cell(figures, "others_us_per_mbit"),
                   cell(figures, "load", "{:.2f}"), cell(figures, "load_of_others", "{:.2f}"),
                   delays(figures, "unread_p50_us", "unread_p99_us"), cell(figures, "wake_ups_per_s"),
                   thousands(figures["private_bytes_per_publisher"]) if "private_bytes_per_publisher" in figures else "-")
                  for name, variant, figures in variants_of(recordings, PUBLISHERS)])


def peers_players(recordings):
    """Players of one stream, with the delay of a frame."""
    return table(("scenario", "server", "us/Mbit", "of the load", "load of its core", "of the other one", "segments a frame",
                  "p50, p99 of the delay, ms", "wake-ups a second", "bytes of memory a player"),
                 [(f"`{name}`", f"`{variant}`", cell(figures, "cpu_us_per_mbit"), cell(figures, "others_us_per_mbit"),
                   cell(figures, "load", "{:.2f}"), cell(figures, "load_of_others", "{:.2f}"),
                   cell(figures, "segments_per_frame", "{:.2f}"),
                   delays(figures, "p50_us", "p99_us"), cell(figures, "wake_ups_per_s"),
                   thousands(figures["private_bytes_per_player"]) if "private_bytes_per_player" in figures else "-")
                  for name, variant, figures in variants_of(recordings, PLAYERS)])


SECURE = ("tls-publishers", "tls-publishers-ticks", "tls-players")


def with_and_without(scenario):
    """Variants with TLS and what each has without, ours first; and theirs alone."""
    targets_of = [target for target in scenario.targets if target.bases]
    theirs = targets_of[0].theirs
    return {**{target.ours: target.bases[0] for target in targets_of}, theirs: targets_of[0].bases[1]}, theirs


def tls(recordings):
    """What TLS adds to each server: to a Mbit, to the memory of a connection; and ours of nginx's. Pairs are without TLS and with."""
    rows = []
    for name in SECURE:
        figures = medians(recordings, name) if name in recordings else {}
        memory = "private_bytes_per_player" if scenarios.BY_NAME[name].players else "private_bytes_per_publisher"
        pairs, theirs = with_and_without(scenarios.BY_NAME[name])
        added = {one: {key: figures[one][key] - figures[without][key] for key in (scenarios.PER_MBIT, memory)}
                 for one, without in pairs.items() if {one, without} <= figures.keys()}
        for one, without in pairs.items():
            both = [figures.get(variant, {}) for variant in (without, one)]
            own, other = (added.get(variant, {}).get(scenarios.PER_MBIT) for variant in (one, theirs))
            rows.append((f"`{name}`{fewer(recordings, name)}", f"`{one}`", f"`{without}`",
                         *(", ".join(cell(each, key, form) for each in both)
                           for key, form in ((scenarios.PER_MBIT, "{:.0f}"), ("others_us_per_mbit", "{:.0f}"), ("load", "{:.2f}"),
                                             ("load_of_others", "{:.2f}"))),
                         ", ".join(delays(each, scenarios.LATENCY) for each in both),
                         cell(added.get(one, {}), scenarios.PER_MBIT),
                         f"{own / other:.2f}" if own is not None and other and other > 0 and one != theirs else "-",
                         thousands(added[one][memory]) if one in added else "-"))
    return table(("scenario", "with TLS", "without", "us/Mbit", "of the load", "load of its core", "of the other one",
                  "p99 of the delay, ms", "us/Mbit added", "of nginx's", "bytes of memory added"), rows)


def not_served(figures):
    """The fewest that are not served, and what is known of why: older recordings have the number alone."""
    if not figures.get("failed"):
        return "-"
    parts = [figures.get("failed_by", "-"),
             *(f"{heading} {cell(figures, key, form, scale)}" for heading, key, form, scale in
               (("p99 of", "failed_p99_us", "{:.0f} ms", 1000), ("unread for", "failed_unread_p99_us", "{:.0f} ms", 1000),
                ("load", "failed_load", "{:.2f}", 1),
                ("of the other one", "failed_load_of_others", "{:.2f}", 1)) if key in figures)]
    return cell(figures, "failed") + ": " + ", ".join(parts)


def by_sent(name, figures, key):
    """A cost of a Mbit of what publishers send; it is recorded by what is delivered, of which publishers are not all."""
    played = scenarios.BY_NAME[name].played
    if key not in figures or played is None:
        return cell(figures, key)
    return f"{figures[key] * min(1, played / figures['capacity']):.0f}"


def capacity(recordings):
    """What a fifth of a processor serves. Where the programs that make the load were at their limit first, it is at least that."""
    return table(("scenario", "server", "serves", "not served, by", "p99 of the delay, ms", "unread for, ms", "us/Mbit", "of the load",
                  "load of its part", "of the other one", "sender late by, ms", "players' turn, ms"),
                 [(f"`{name}`{fewer(recordings, name)}", f"`{variant}`",
                   ">= " * (figures.get("limited_by_load", 0) > 0) + cell(figures, "capacity"), not_served(figures),
                   cell(figures, "p99_us", "{:.0f}", 1000), cell(figures, "unread_p99_us", "{:.0f}", 1000), by_sent(name, figures, "cpu_us_per_mbit"),
                   by_sent(name, figures, "others_us_per_mbit"),
                   cell(figures, "load", "{:.2f}"), cell(figures, "load_of_others", "{:.2f}"),
                   cell(figures, "sender_late_p99_us", "{:.1f}", 1000), cell(figures, "player_turn_p99_us", "{:.1f}", 1000))
                  for name, variant, figures in variants_of(recordings, CAPACITIES)])


# What the load is called, the scenario, which variant of ours, and which of theirs has the same window.
COSTS = (
    ("100 streams as fast as they go", "saturated", "uring+plain=1", "epoll-pool+plain=1"),
    ("one such stream", "fat", "uring+plain=1", "epoll-pool+plain=1"),
    ("100 real streams of 4 Mbit/s, independent", "paced-real", "uring+plain=1", "epoll-pool+plain=1"),
    ("the same, window of 5 ms", "paced-real", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("the same, sent in ticks of 5 ms", "paced-real-ticks", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("the same, late at random", "paced-real-poisson", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("100 streams of 4 Mbit/s in frames of 16 KiB, 5 ms", "paced", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("the same, each frame held for a second", "kept-second", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("the same, each frame read by another thread", "kept-thread", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("frames of 16 KiB written 1400 bytes at a time, 5 ms", "paced-1400", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("1000 streams of 30 packets of 1 KiB a second, 5 ms", "many", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("1 KiB in writes of 256 to 2048 bytes, 2 ms", "network-normal", "uring+batch=2000", "epoll-pool+batch=2000"),
    ("1 KiB in writes of 1 to 128 bytes, 2 ms", "network-worst", "uring+batch=2000", "epoll-pool+batch=2000"),
)


COMPARED = ("two reads and a malloc per packet", "a 64 KiB buffer per connection", "libevent's evbuffer",
            "one 64 KiB buffer for all, parsed in place", "our epoll backend")
BASELINES = "read-malloc", "read-buffer", "evbuffer", "shared-buffer"
PLAIN = "+plain=1"  # Without SO_RCVLOWAT, which the others do not set.


def compared_with(ours, pool):
    """Variants with the same window as ours, or none."""
    window = ours.removeprefix("uring").removeprefix(PLAIN)
    return (*(other + window for other in BASELINES), pool)


def cost_ratios(recordings):
    """CPU per GB, ours divided by each other's with the same window: the load, and what statistics.ratio() finds, or None if it is
    not recorded."""
    for load, name, ours, pool in COSTS:
        ratios = statistics.ratios(scenarios.BY_NAME[name], recordings[name].rounds)[ours]
        yield load, [ratios.get(theirs) for theirs in compared_with(ours, pool)]


def both_s_per_gb(figures):
    """Of receiver and sender together."""
    return figures[scenarios.CPU] + sender_s_per_gb(figures)


def costs(recordings):
    """The same as a table; behind each ratio that of receiver and sender together, which share the work of a loopback."""
    rows = []
    for (load, ratios), (_, name, ours, pool) in zip(cost_ratios(recordings), COSTS):
        figures = medians(recordings, name)
        rows.append((load + fewer(recordings, name), f"{figures[ours][scenarios.CPU]:.2f}, {sender_s_per_gb(figures[ours]):.2f}",
                     *(f"{in_text(found)}, {both_s_per_gb(figures[ours]) / both_s_per_gb(figures[theirs]):.2f}" if found else "-"
                       for found, theirs in zip(ratios, compared_with(ours, pool)))))
    return table(("load", "CPU s/GB: our receiver, its sender", *COMPARED), rows)


def costs_plot(recordings):
    """The same as SVG."""
    return plot.groups("CPU per GB received: libsluice on io_uring divided by others",
                       "Medians. Shorter is less CPU; the red line is equal cost.", COMPARED,
                       [(load, [found and found["of_medians"] for found in ratios]) for load, ratios in cost_ratios(recordings)])


def cache_lines(recordings):
    """What cachegrind has counted for a frame."""
    figures = medians(recordings, scenarios.LINES.name) if scenarios.LINES.name in recordings else {}
    return table(("100 publishers", "instructions a frame", "misses of the first level", "misses of the second level"),
                 [(f"`{variant}`", cell(each, "instructions"), cell(each, "first_level_misses", "{:.1f}"),
                   cell(each, scenarios.MISSES, "{:.1f}")) for variant, each in figures.items()])


def growth(recordings):
    """Bytes of the daemon's private memory for each player, and for each publisher besides blocks and of blocks."""
    figures = medians(recordings, scenarios.GROWTH.name) if scenarios.GROWTH.name in recordings else {}
    return table(("1,000 to 2,000", "bytes a player", "a publisher", "and of blocks"),
                 [(f"`{variant}`", *(thousands(each[key]) for key in (scenarios.PLAYER_BYTES, scenarios.PUBLISHER_BYTES,
                                                                         scenarios.BLOCK_BYTES))) for variant, each in figures.items()])


TIE = 0.10


def is_less(found):
    """Whether a ratio says less (True), more (False), or is a tie (None): a difference of less than a tenth, or rounds on both sides of 1."""
    if abs(found["of_medians"] - 1) <= TIE or found["least"] <= 1 <= found["most"]:
        return None
    return found["of_medians"] < 1


def in_text(found):
    """A ratio as text, in italics if it is a tie."""
    return f"{found['of_medians']:.2f}" if is_less(found) is not None else f"*{found['of_medians']:.2f}*"


def both_sides(scenario, figures):
    """The CPU of both sides together; None where only one side is measured, or something else than CPU by the amount of data."""
    measured = figures.keys() & {"sender_cpu_s", "others_us_per_mbit"}
    return both_s_per_gb(figures) if measured and scenario.figure in (scenarios.CPU, scenarios.PER_MBIT, scenarios.LATENCY) else None


def uring_compared(recordings):
    """Gains, ties and losses against our epoll backend with the same window or none: the scenario, what, the
    ratio, and that of both sides."""
    gains, ties, losses = [], [], []
    for name, scenario in scenarios.BY_NAME.items():
        if scenario in scenarios.BY_OPTION:
            continue
        rounds = recordings[name].rounds if name in recordings else {}
        for ours in rounds:
            backend, _, settings = ours.partition("+")
            theirs = [one for one in rounds if one.partition("+")[0] in ("epoll", "epoll-pool") and one.partition("+")[2] == settings]
            cost = scenarios.PER_MBIT if scenario.figure == scenarios.LATENCY else scenario.figure
            found = backend == "uring" and theirs and statistics.ratio(rounds[ours], rounds[theirs[0]], cost)
            if not found or scenario.more_is_better or settings == "plain=1":
                continue
            kind = {True: gains, None: ties, False: losses}[is_less(found)]
            figures = medians(recordings, name)
            sides = [both_sides(scenario, figures[one]) for one in (ours, theirs[0])]
            kind.append((name, f"`{name}{'+' * bool(settings)}{settings}`", found["of_medians"], sides[0] / sides[1] if all(sides) else None))
    return gains, ties, losses


def uring_says(gains, ties, losses):
    """One sentence; what is said of each."""
    found = (("costs less in", gains), ("costs more in", losses), ("gains nothing in", ties))
    text = ("Compared with our epoll backend with the same window or none, io_uring "
            + "; it ".join(f"{verb} {said}" for verb, said in found if said) + ".")
    return textwrap.wrap(text, 128, break_on_hyphens=False)


def others(ties):
    return f"the {len(ties)} others (a difference under 10 %, or rounds on both sides of 1)"


def uring(recordings):
    """With all that it gains and loses in."""
    gains, ties, losses = uring_compared(recordings)
    listed = [", ".join(f"{what} {ratio:.2f}{'' if both is None else f' ({both:.2f})'}" for _, what, ratio, both in found)
              for found in (gains, losses)]
    return uring_says(listed[0], others(ties), listed[1])


MOST_NAMED = 3


def span(found):
    """How many, by how much, and which the most; @found: what is farthest from a tie first."""
    if not found:
        return ""
    ratios, named = [ratio for _, _, ratio, _ in found], ", ".join(what for _, what, *_ in found[:MOST_NAMED])
    return f"{len(found)} comparisons ({min(ratios):.2f} to {max(ratios):.2f}, most in {named})"


def family(name, others):
    """What a scenario is called, or all whose names begin with the same words, as few as there may be, if none of the others' does."""
    words = name.split("-")
    for count in range(1, len(words) + 1):
        start = "-".join(words[:count])
        members = {one for one in scenarios.BY_NAME if one == start or one.startswith(start + "-")}
        if len(members) > 1 and not others & members:
            return f"`{start}*`"
    return f"`{name}`"


def uring_short(recordings):
    """With how much, how often, and where the most; and the scenarios all of whose comparisons are ties."""
    gains, ties, losses = uring_compared(recordings)
    telling = {name for name, *_ in gains + losses}
    tied = dict.fromkeys(family(name, telling) for name, *_ in ties if name not in telling)
    among = f", among them all of {', '.join(tied)}" if tied else ""
    return uring_says(span(sorted(gains, key=lambda one: one[2])), others(ties) + among,
                      span(sorted(losses, key=lambda one: -one[2])))


def sittings(recordings):
    """When and of what each scenario was recorded; those of sweeps by the name of the sweep."""
    ordered = [*scenarios.BY_NAME, *(scenarios.swept(*one) for one in scenarios.SWEPT),
               *(scenarios.on_kernel(*one) for one in scenarios.ON_KERNELS)]
    found = {}
    for name in filter(recordings.get, ordered):
        machine = recordings[name].machine
        found.setdefault(machine["sitting"], (machine, {}))[1][f"`{name.partition('/')[0]}`"] = None
    rows = []
    for _, (machine, shown) in sorted(found.items()):
        commit, _, changed = machine["commit"].partition(" ")
        maker = re.sub(r"\((R|TM)\)| Processor$", "", machine["processor"])
        rows.append((machine["date"][:16].replace("T", " "), f"{commit[:7]} {changed}".strip(), maker, machine["seconds"],
                     ", ".join(shown)))
    return table(("taken (UTC)", "commit", "processor", "seconds a run", "scenarios and sweeps"), rows)


LEAST_S = 3  # A run should last.


def unrecorded(recordings):
    """Scenarios that have no recording, those whose recordings are without some of their variants, with another congestion control or
    with short runs."""
    without = [name for name in scenarios.BY_NAME if name not in recordings]
    partly = [name for name, scenario in scenarios.BY_NAME.items()
              if name in recordings and not set(scenario.variants) <= recordings[name].rounds.keys()]
    brief = [name for name, scenario in scenarios.BY_NAME.items() if name in recordings and scenario not in scenarios.BY_OPTION
             and min(run.get("wall_s", LEAST_S) for runs in recordings[name].rounds.values() for run in runs) < 0.98 * LEAST_S]
    paced = [name for name, scenario in scenarios.BY_NAME.items() if name in recordings and scenario not in scenarios.BY_OPTION
             and not isinstance(scenario, scenarios.Memory) and not network.is_as_recorded(recordings[name].machine.get("network", ""))]
    points = (("Not recorded yet", without),
              ("Recorded without variants that were added later or were not installed", partly),
              ("Recorded with BBR, which this machine has by default", paced),
              (f"Recorded with runs, or one at least, of less than {LEAST_S} s", brief))
    return [line for heading, found in points
            for line in textwrap.wrap(f"- {heading}: {', '.join(f'`{name}`' for name in found) or 'none'}.", 128,
                                      subsequent_indent="  ", break_on_hyphens=False)]


def lines(recordings):
    """What --summary shows."""
    whole = [name for name, (_, chosen) in scenarios.SWEEPS.items()
             if all(scenarios.swept(name, one) in recordings for one in chosen)]
    return [*targets(recordings), *(line for name in whole for line in ("", *sweep(recordings, name)))]
