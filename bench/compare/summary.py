"""Tables, in Markdown, of what was last measured: they are in the READMEs.

Each takes the recordings by their names. targets() and lines() show what there is; the others need those that they show.
"""

import textwrap

from compare import plot, report, scenarios, statistics


def figure(value):
    """Three digits that mean something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def thousands(value):
    """A whole number, with a comma where it has five digits and more."""
    return f"{value:.0f}" if value < 9999.5 else f"{value:,.0f}"


def milliseconds(microseconds):
    """Two digits; more only of what takes a tenth of a second."""
    return f"{microseconds / 1000:.{1 if microseconds < 9950 else 0}f}"


def table(heading, rows):
    """Of cells that are text."""
    first, *others = ("| " + " | ".join(row) + " |" for row in (heading, *rows))
    return [first.replace("|  |", "| |"), "|" + "---|" * len(heading), *others]


def medians(recordings, name):
    """Of each variant: medians of the rounds, and what was counted."""
    return report.summary(recordings[name].rounds, recordings[name].counted)


def targets(recordings):
    """Every target of the scenarios that have recordings."""
    rows = []
    met = 0
    for name, scenario in scenarios.BY_NAME.items():
        recording = recordings.get(name)
        for target in statistics.judge(scenario, recording.rounds, recording.counted) if recording else ():
            known = report.WHAT if target["theirs"] and not target["added"] else {}
            unit = known.get(target["figure"]) or report.UNITS.get(target["figure"], target["figure"])
            rows.append((f"`{name}`", f"{report.compared(target, '`{}`')}, {unit}", f"{'>=' if target['least'] else '<='} {figure(target['bound'])}",
                         figure(target["measured"]), "met" if target["met"] else "**missed**"))
            met += target["met"]
    return [*table(("scenario", "what", "target", "measured", ""), rows), "", f"{met} of {len(rows)} are met."]


def sweep(recordings, name):
    """Processor time with each value of a setting, the default's being 1."""
    variants, chosen = scenarios.SWEEPS[name]
    ours, *others = variants
    rows = []
    for one in chosen:
        ratios = statistics.ratios(scenarios.BY_NAME[one], recordings[scenarios.swept(name, one)].rounds)[ours]
        rows.append([f"`{one}`", *(f"{1 / ratios[other]['of_medians']:.2f} "
                                   f"({1 / ratios[other]['most']:.2f} to {1 / ratios[other]['least']:.2f})"
                                   for other in others)])
    return table((name, *(f"`{one.rpartition('=')[2]}`" for one in others)), rows)


def sweeps(recordings):
    """All of them, an empty line between."""
    lines = [line for name in scenarios.SWEEPS for line in ("", *sweep(recordings, name))]
    return lines[1:]


def kernels(recordings):
    """Both backends on each kernel, by instructions: of each pair with the same window the figures, and their quotient."""
    rows = []
    for name, variants in scenarios.KERNEL_SCENARIOS.items():
        for ours, theirs in zip(variants[::2], variants[1::2]):
            window = ours.partition("+")[2] or "default"
            cells = []
            for kernel in scenarios.KERNELS:
                recorded = scenarios.on_kernel(kernel, name)
                figures = medians(recordings, recorded) if recorded in recordings else {}
                one, other = (figures.get(variant, {}).get("cpu_s_per_gb") for variant in (ours, theirs))
                cells.append(f"{one:.2f}, {other:.2f}: {one / other:.2f}" if one and other else "-")
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


PUBLISHERS = ("peers-publishers", "peers-publishers-ticks", "peers-publishers-500", "peers-rtsp-publishers")
PLAYERS = ("peers-players", "peers-players-ticks", "peers-players-2000", "peers-rtsp-players")
CAPACITIES = ("capacity-publishers", "capacity-players")


def peers_publishers(recordings):
    """Publishers without players: what a Mbit costs the server and the programs that make the load."""
    return table(("scenario", "server", "us/Mbit", "of the load", "load of its core", "of the other one", "bytes of memory a publisher"),
                 [(f"`{name}`", f"`{variant}`", cell(figures, "cpu_us_per_mbit"), cell(figures, "others_us_per_mbit"),
                   cell(figures, "load", "{:.2f}"), cell(figures, "load_of_others", "{:.2f}"),
                   thousands(figures["private_bytes_per_publisher"]) if "private_bytes_per_publisher" in figures else "-")
                  for name, variant, figures in variants_of(recordings, PUBLISHERS)])


def peers_players(recordings):
    """Players of one stream, with the delay of a frame."""
    return table(("scenario", "server", "us/Mbit", "of the load", "load of its core", "of the other one", "segments a frame",
                  "p50, p99 of the delay, ms", "bytes of memory a player"),
                 [(f"`{name}`", f"`{variant}`", cell(figures, "cpu_us_per_mbit"), cell(figures, "others_us_per_mbit"),
                   cell(figures, "load", "{:.2f}"), cell(figures, "load_of_others", "{:.2f}"),
                   cell(figures, "segments_per_frame", "{:.2f}"),
                   ", ".join(milliseconds(figures[key]) if key in figures else "-" for key in ("p50_us", "p99_us")),
                   thousands(figures["private_bytes_per_player"]) if "private_bytes_per_player" in figures else "-")
                  for name, variant, figures in variants_of(recordings, PLAYERS)])


SECURE = ("tls-publishers", "tls-players")


def tls(recordings):
    """What TLS adds to each server: to a Mbit, to the memory of a connection; and ours of nginx's."""
    rows = []
    for name in SECURE:
        figures = medians(recordings, name) if name in recordings else {}
        memory = "private_bytes_per_player" if scenarios.BY_NAME[name].players else "private_bytes_per_publisher"
        pairs = {target.ours: target.bases[0] for target in scenarios.BY_NAME[name].targets if target.bases}
        theirs, base = next((target.theirs, target.bases[1]) for target in scenarios.BY_NAME[name].targets if target.bases)
        added = {one: {key: figures[one][key] - figures[without][key] for key in (scenarios.PER_MBIT, memory)}
                 for one, without in {**pairs, theirs: base}.items() if {one, without} <= figures.keys()}
        for one, without in {**pairs, theirs: base}.items():
            costs = [cell(figures.get(variant, {}), scenarios.PER_MBIT) for variant in (without, one)]
            own, other = (added.get(variant, {}).get(scenarios.PER_MBIT) for variant in (one, theirs))
            rows.append((f"`{name}`", f"`{one}`", f"`{without}`", *costs, cell(added.get(one, {}), scenarios.PER_MBIT),
                         f"{own / other:.2f}" if own is not None and other and other > 0 and one != theirs else "-",
                         thousands(added[one][memory]) if one in added else "-"))
    return table(("scenario", "with TLS", "without", "us/Mbit without", "with", "added", "of nginx's", "bytes of memory added"), rows)


def capacity(recordings):
    """What a fifth of a processor serves. Where the programs that make the load were at their limit first, it is at least that."""
    return table(("scenario", "server", "serves", "p99 of the delay, ms", "us/Mbit", "of the load", "load of its part",
                  "of the other one", "sender late by, ms", "players' turn, ms"),
                 [(f"`{name}`", f"`{variant}`", ">= " * (figures.get("limited_by_load", 0) > 0) + cell(figures, "capacity"),
                   cell(figures, "p99_us", "{:.0f}", 1000), cell(figures, "cpu_us_per_mbit"), cell(figures, "others_us_per_mbit"),
                   cell(figures, "load", "{:.2f}"), cell(figures, "load_of_others", "{:.2f}"),
                   cell(figures, "sender_late_p99_us", "{:.1f}", 1000), cell(figures, "player_turn_p99_us", "{:.1f}", 1000))
                  for name, variant, figures in variants_of(recordings, CAPACITIES)])


# What the load is called, the scenario, which variant of ours, and which of theirs has the same window.
COSTS = (
    ("100 streams as fast as they go", "saturated", "uring", "epoll-pool"),
    ("one such stream", "fat", "uring", "epoll-pool"),
    ("100 streams of 4 Mbit/s, window of 5 ms", "paced", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("the same, written 1400 bytes at a time", "paced-1400", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("1000 streams of 30 packets of 1 KiB a second, 5 ms", "many", "uring+batch=5000", "epoll-pool+batch=5000"),
    ("1 KiB in writes of 256 to 2048 bytes, 2 ms", "network-normal", "uring+batch=2000", "epoll-pool+batch=2000"),
    ("1 KiB in writes of 1 to 128 bytes, 2 ms", "network-worst", "uring+batch=2000", "epoll-pool+batch=2000"),
)


COMPARED = ("a read and a malloc per packet", "a 64 KiB buffer per connection", "libevent's evbuffer", "our epoll backend",
            "one buffer for all, no parsing", "the same, parsed in place")


def cost_ratios(recordings):
    """CPU per GB, ours divided by each other's with the same window: the load, and a ratio, or None if it is not recorded."""
    for load, name, ours, pool in COSTS:
        window = ours.removeprefix("uring")
        ratios = statistics.ratios(scenarios.BY_NAME[name], recordings[name].rounds)[ours]
        others = ("read-malloc", "read-buffer", "evbuffer")
        yield load, [ratios[theirs]["of_medians"] if theirs in ratios else None
                     for theirs in (*(other + window for other in others), pool, "raw" + window, "shared-buffer" + window)]


def costs(recordings):
    """The same as a table."""
    return table(("load", *COMPARED), [[load, *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)]
                                       for load, ratios in cost_ratios(recordings)])


def costs_plot(recordings):
    """The same as SVG."""
    return plot.groups("CPU per GB received: libsluice on io_uring divided by others",
                       "Medians. Shorter is less CPU; the red line is equal cost.", COMPARED, list(cost_ratios(recordings)))


def others(recordings):
    """What is said beside that table, a point for each kind of use; without those of which nothing is recorded. "-" is not
    recorded yet."""
    def median(name, variant, key, form="{:.0f}", scale=1.0):
        return cell(medians(recordings, name).get(variant, {}), key, form, scale) if name in recordings else "-"

    def ratio(name, ours, theirs, key=None):
        rounds, key = recordings[name].rounds if name in recordings else {}, key or scenarios.BY_NAME[name].figure
        found = ours in rounds and theirs in rounds and statistics.ratio(rounds[ours], rounds[theirs], key)
        return f"{found['of_medians']:.2f}" if found else "-"

    windows = [median("merge-window", f"uring+merge-window={window}", scenarios.PER_MBIT) for window in scenarios.WINDOWS]
    publishers, ticks, players = "peers-publishers", "peers-publishers-500", "peers-players"
    rtsp = [median(name, variant, scenarios.PER_MBIT) for name in ("rtsp-publishers", "rtsp-players")
            for variant in ("uring", "uring+flv")]
    served = [median(name, variant, "capacity") for name in reversed(CAPACITIES) for variant in ("uring", "nginx-rtmp", "srs")]
    delays = [median("latency-10", "uring", key, "{:.1f}", 1000) for key in ("p50_us", "p99_us")]
    nginx = [ratio(players, "uring", "nginx-rtmp"), ratio(players, "uring+merge-window=0", "nginx-rtmp"),
             ratio("peers-players-2000", "uring", "nginx-rtmp"),
             *(ratio(name, variant, "nginx-rtmp") for variant in ("uring", scenarios.AS_IT_COMES) for name in (publishers, ticks))]
    gortsplib = [ratio(name, "uring", "gortsplib") for name in ("peers-rtsp-players", "peers-rtsp-publishers")]
    srs = [ratio(players, "uring+merge-window=350", "srs"), ratio(publishers, "uring", "srs")]
    clients = [ratio("resp-get-1m", "uring", "hiredis"), ratio("websocket", "uring", "evbuffer")]
    memory = median("merge-window", "uring+merge-window=0", "private_bytes_per_player", "{:.1f}", 1000)
    points = (
        (windows, f"`sluiced` by RTMP, one real stream of 1 Mbit/s to 500 players: {windows[0]} microseconds of CPU per Mbit delivered "
         f"without a merge window, {windows[1]} with 20 ms, {windows[2]} with 100 ms, {windows[3]} with 350 ms (`--merge-window`); "
         f"{memory} KB of memory per player."),
        (nginx, f"Beside nginx-rtmp, the same streams by RTMP on both sides: {nginx[0]} of its CPU for 500 players ({nginx[1]} without "
         f"a merge window), {nginx[2]} for 2000; {nginx[3]} for 100 publishers that are independent, and {nginx[4]} for 500 whose frames "
         f"come in ticks of 5 ms. These have no players, so they are read every 100 ms; as frames come ({nginx[5]} and {nginx[6]}) with "
         "`--unwatched-interval 0`."),
        (gortsplib, f"Beside gortsplib, by RTSP: {gortsplib[0]} of its CPU for players, {gortsplib[1]} for publishers."),
        (srs, f"Beside SRS: {srs[0]} of its CPU for players at 350 ms on both sides, {srs[1]} for publishers."),
        (served, f"A fifth of a core serves {served[0]} players of 1 Mbit/s that read every 50 ms (nginx-rtmp {served[1]}, SRS at 350 ms "
         f"{served[2]}), and {served[3]} publishers, the first 20 with a player (nginx-rtmp {served[4]}, SRS {served[5]})."),
        (rtsp, f"RTSP: {rtsp[0]} microseconds per Mbit received from 100 publishers of 1 Mbit/s (the same media in FLV: {rtsp[1]}); "
         f"{rtsp[2]} per Mbit delivered to 1,000 players (FLV: {rtsp[3]})."),
        (delays, f"From publisher to player, default window of 2 ms, at a tenth of a core's capacity: median {delays[0]} ms, 99 % within "
         f"{delays[1]} ms."),
        (clients, f"GET of 1 MiB from Redis into the caller's memory: {clients[0]} of hiredis. WebSocket echo of 50-byte messages: "
         f"{clients[1]} of libevent's bufferevent."),
    )
    return [line for figures, point in points if set(figures) != {"-"} for line in textwrap.wrap("- " + point, 128, subsequent_indent="  ",
                                                               break_on_hyphens=False)]


TIE = 0.10


def uring(recordings):
    """One sentence: what io_uring itself gains, against our epoll backend with the same window or none."""
    gains, ties, losses = [], [], []
    for name, scenario in scenarios.BY_NAME.items():
        rounds = recordings[name].rounds if name in recordings else {}
        for ours in rounds:
            backend, _, settings = ours.partition("+")
            theirs = [one for one in rounds if one.partition("+")[0] in ("epoll", "epoll-pool") and one.partition("+")[2] == settings]
            found = backend == "uring" and theirs and statistics.ratio(rounds[ours], rounds[theirs[0]], scenario.figure)
            if not found or scenario.more_is_better or settings == "plain=1":
                continue
            kind = gains if found["of_medians"] < 1 - TIE else losses if found["of_medians"] > 1 + TIE else ties
            kind.append(f"`{name}{'+' * bool(settings)}{settings}` {found['of_medians']:.2f}")
    parts = [f"{verb} {', '.join(found)}" for verb, found in (("gains in", gains), ("loses in", losses)) if found]
    parts.append(f"gains nothing in the {len(ties)} others, whose difference is under 10 %")
    text = "io_uring itself, compared with our epoll backend and the same window or none, " + "; it ".join(parts) + "."
    return textwrap.wrap(text, 128, break_on_hyphens=False)


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
        rows.append((machine["date"][:16].replace("T", " "), f"{commit[:7]} {changed}".strip(), machine["seconds"],
                     ", ".join(shown)))
    return table(("taken (UTC)", "commit", "seconds a run", "scenarios and sweeps"), rows)


def lines(recordings):
    """What --summary shows."""
    whole = [name for name, (_, chosen) in scenarios.SWEEPS.items()
             if all(scenarios.swept(name, one) in recordings for one in chosen)]
    return [*targets(recordings), *(line for name in whole for line in ("", *sweep(recordings, name)))]
