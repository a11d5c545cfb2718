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
            rows.append((f"`{name}`", f"{report.compared(target, '`{}`')}, {unit}", f"<= {figure(target['at_most'])}",
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
                figures = medians(recordings, scenarios.on_kernel(kernel, name))
                one, other = (figures[variant]["cpu_s_per_gb"] for variant in (ours, theirs))
                cells.append(f"{one:.2f}, {other:.2f}: {one / other:.2f}")
            rows.append((f"`{name}`", f"`{window}`", *cells))
    return table(("scenario", "setting", *(f"Linux {kernel}" for kernel in scenarios.KERNELS)), rows)


def peers_publishers(recordings):
    """The daemon beside other servers, without players."""
    return table(("100 publishers, no players", "CPU-s/Gbit", "system calls a frame", "bytes of memory a publisher"),
                 [(f"`{name}`", f"{figures['cpu_s_per_gbit']:.2f}", f"{figures['syscalls_per_packet']:.2f}",
                   thousands(figures["private_bytes_per_publisher"]))
                  for name, figures in medians(recordings, "peers-publishers").items()])


def peers_players(recordings):
    """The same with players. Servers that do not count their sends are shown with their system calls."""
    rows = []
    for name, figures in medians(recordings, "peers-players").items():
        counted = "sends_per_packet" in figures
        sends = f"{figures['sends_per_packet']:.2f}" if counted else f"{figures['syscalls_per_packet']:.2f} (system calls)"
        rows.append((f"`{name}`", f"{figures['cpu_s_per_gbit']:.2f}", sends, f"{figures['segments_per_frame']:.2f}",
                     f"{milliseconds(figures['p50_us'])}, {milliseconds(figures['p99_us'])}",
                     thousands(figures["private_bytes_per_player"])))
    return table(("one publisher, 500 players", "CPU-s/Gbit", "sends a frame", "segments a frame",
                  "p50, p99 of the delay, ms", "bytes of memory a player"), rows)


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


COMPARED = ("a read and a malloc per packet", "a 64 KiB buffer per connection", "libevent's bufferevent", "our epoll backend",
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
    """What is said beside that table, a point for each kind of use."""
    def median(name, variant, key):
        return medians(recordings, name)[variant][key]

    def ratio(name, ours, theirs, key=None):
        recording, key = recordings[name], key or scenarios.BY_NAME[name].figure
        return f"{statistics.ratio(recording.rounds[ours], recording.rounds[theirs], key)['of_medians']:.2f}"

    windows = [f"{median('merge-window', f'uring+merge-window={window}', scenarios.PER_MBIT):.0f}"
               for window in (0, 20, 100, 350)]
    player = median("merge-window", "uring+merge-window=0", "private_bytes_per_player") / 1000
    rtsp = [f"{median(name, variant, scenarios.PER_GBIT):.2f}" for name in ("rtsp-publishers", "rtsp-players")
            for variant in ("uring", "uring+flv")]
    delay = [f"{median('latency-10', 'uring', key) / 1000:.1f}" for key in ("p50_us", "p99_us")]
    memory = [ratio("peers-players", "uring", "nginx-rtmp", "private_bytes_per_player"),
              ratio("peers-publishers", "uring", "nginx-rtmp", "private_bytes_per_publisher")]
    points = (
        f"`sluiced`, one stream of 1 Mbit/s to 500 players: {windows[0]} microseconds of CPU per Mbit delivered without a merge "
        f"window, {windows[1]} with 20 ms, {windows[2]} with 100 ms, {windows[3]} with 350 ms (`--merge-window`); {player:.1f} KB of "
        f"memory per player. Beside nginx-rtmp on the same machine: {ratio('peers-players', 'uring', 'nginx-rtmp')} of its CPU for "
        f"players, {ratio('peers-publishers', 'uring', 'nginx-rtmp')} for publishers; {memory[0]} and {memory[1]} of its memory.",
        f"RTSP: {rtsp[0]} processors per Gbit/s received from 100 publishers of 1 Mbit/s (the same media in FLV: {rtsp[1]}); "
        f"{rtsp[2]} per Gbit/s delivered to 1,000 players (FLV: {rtsp[3]}).",
        "From publisher to player, default window of 2 ms, at a tenth of a core's capacity: "
        f"median {delay[0]} ms, 99 % within {delay[1]} ms.",
        f"GET of 1 MiB from Redis into the caller's memory: {ratio('resp-get-1m', 'uring', 'hiredis')} of hiredis. "
        f"WebSocket echo of 50-byte messages: {ratio('websocket', 'uring', 'evbuffer')} of libevent's bufferevent.",
    )
    return [line for point in points for line in textwrap.wrap("- " + point, 128, subsequent_indent="  ",
                                                               break_on_hyphens=False)]


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
