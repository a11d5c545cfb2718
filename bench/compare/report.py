"""What is shown of a recording: the table, the plot."""

from compare import plot, scenarios, statistics

# Heading, figure, how it is written. Figures that a variant does not have are left empty.
NETWORK = (
    ("CPU-s/GB", "cpu_s_per_gb", "{:.3f}"), ("CPU-s", "cpu_s", "{:.3f}"), ("sender's", "sender_cpu_s", "{:.3f}"),
    ("user", "user_s_per_gb", "{:.3f}"),
    ("system", "system_s_per_gb", "{:.3f}"), ("CPU-s/Mpkt", "cpu_s_per_mpackets", "{:.2f}"),
    ("syscalls/pkt", "syscalls_per_packet", "{:.4f}"), ("switches", "context_switches", "{:.0f}"),
    ("faults", "page_faults", "{:.0f}"), ("RSS KiB", "resident_kib", "{:.0f}"),
    ("B/conn", "private_bytes_per_connection", "{:.0f}"), ("blocks", "peak_held_blocks", "{:.0f}"),
    ("allocs/pkt", "allocations_per_packet", "{:.3f}"), ("MB/s", "mb_per_s", "{:.0f}"),
)
RESP = tuple(column for column in NETWORK if column[0] not in ("B/conn", "blocks")) + (("us/pkt", "us_per_packet", "{:.1f}"),)
MEMORY = (
    ("ns/op", "ns_per_operation", "{:.2f}"), ("instr/op", "instructions_per_operation", "{:.1f}"),
    ("CPU-s/GB", "cpu_s_per_gb", "{:.3f}"), ("Mops/s", "million_operations_per_s", "{:.2f}"),
    ("allocs/op", "allocations_per_operation", "{:.3f}"), ("faults", "page_faults", "{:.0f}"),
    ("RSS KiB", "resident_kib", "{:.0f}"),
)
MEDIA = (
    ("us/Mbit", "cpu_us_per_mbit", "{:.0f}"), ("load's us/Mbit", "others_us_per_mbit", "{:.0f}"),
    ("user", "user_us_per_mbit", "{:.0f}"), ("system", "system_us_per_mbit", "{:.0f}"), ("us/frame", "us_per_frame", "{:.2f}"),
    ("us/send", "us_per_send", "{:.2f}"), ("syscalls/frame", "syscalls_per_packet", "{:.4f}"),
    ("sends/frame", "sends_per_packet", "{:.3f}"), ("segments/frame", "segments_per_frame", "{:.3f}"),
    ("copied B", "payload_bytes_copied", "{:.0f}"), ("wire/media", "wire_per_media", "{:.3f}"),
    ("B/player", "private_bytes_per_player", "{:.0f}"), ("B/publisher", "private_bytes_per_publisher", "{:.0f}"),
    ("p50 us", "p50_us", "{:.0f}"), ("p99 us", "p99_us", "{:.0f}"), ("RSS KiB", "resident_kib", "{:.0f}"),
    ("load", "load", "{:.2f}"), ("others' load", "load_of_others", "{:.2f}"), ("Mbit/s", "mbit_per_s", "{:.0f}"),
)
DELAY = (
    ("p50 us", "p50_us", "{:.0f}"), ("p90 us", "p90_us", "{:.0f}"), ("p99 us", "p99_us", "{:.0f}"),
    ("longest", "longest_us", "{:.0f}"), ("streams", "streams", "{:.0f}"),
    ("most streams", "most_streams", "{:.0f}"), ("load", "load", "{:.2f}"), ("others' load", "load_of_others", "{:.2f}"),
    ("us/Mbit", "cpu_us_per_mbit", "{:.0f}"), ("sender late us", "sender_late_p99_us", "{:.0f}"),
    ("player's turn us", "player_turn_p99_us", "{:.0f}"),
)
CAPACITY = (
    ("capacity", "capacity", "{:.0f}"), ("first failed", "failed", "{:.0f}"), ("by", "failed_by", "{}"),
    ("p99 us", "p99_us", "{:.0f}"), ("load", "load", "{:.2f}"), ("others' load", "load_of_others", "{:.2f}"), ("us/Mbit delivered", "cpu_us_per_mbit", "{:.0f}"),
    ("load's us/Mbit", "others_us_per_mbit", "{:.0f}"), ("sender late us", "sender_late_p99_us", "{:.0f}"),
    ("player's turn us", "player_turn_p99_us", "{:.0f}"), ("limited by the load", "limited_by_load", "{:.0f}"),
    ("runs", "runs", "{:.0f}"),
)
LINES = (("instr", "instructions", "{:.0f}"), ("L1 misses", "first_level_misses", "{:.2f}"), ("L2 misses", scenarios.MISSES, "{:.2f}"))
GROWTH = (("B/player", scenarios.PLAYER_BYTES, "{:.0f}"), ("B/publisher", scenarios.PUBLISHER_BYTES, "{:.0f}"),
          ("and of blocks", scenarios.BLOCK_BYTES, "{:.0f}"))
COLUMNS = {scenarios.Media: MEDIA, scenarios.Latency: DELAY, scenarios.Capacity: CAPACITY, scenarios.Network: NETWORK,
           scenarios.Echo: NETWORK, scenarios.Memory: MEMORY, scenarios.Resp: RESP, scenarios.Lines: LINES, scenarios.Growth: GROWTH}
WHAT = {scenarios.CPU: "CPU per GB", scenarios.CPU_PER_PACKET: "CPU per message", scenarios.LATENCY: "p99 of the delay",
        scenarios.TIME: "time per operation", scenarios.PER_MBIT: "CPU per Mbit",
        scenarios.CAPACITY: "capacity", scenarios.MISSES: "misses of the second level", scenarios.PLAYER_BYTES: "bytes a player"}
# Of figures that have a bound of their own.
UNITS = {
    "syscalls_per_packet": "system calls a packet", "private_bytes_per_connection": "bytes of memory a connection",
    scenarios.PLAYER_BYTES: "bytes a player", scenarios.PUBLISHER_BYTES: "bytes a publisher besides blocks",
    scenarios.PUBLISHER_ALL: "bytes a publisher with the blocks of its decoder headers",
    "private_bytes_per_player": "bytes of memory a player", "private_bytes_per_publisher": "bytes of memory a publisher",
    "allocations_per_operation": "allocations a packet", scenarios.LATENCY: "p99, us", scenarios.TIME: "ns",
    scenarios.PER_MBIT: "us/Mbit", scenarios.MISSES: "misses of the second level a frame", "user_us_per_frame": "us of user mode a frame",
}
# The parts of the figure that are plotted, and what they are.
PARTS = {
    scenarios.CPU: (("user_s_per_gb", "system_s_per_gb"), "Receiver's CPU seconds per GB: user (dark), system (light)"),
    scenarios.CPU_PER_PACKET: (("cpu_s_per_mpackets",), "Server's CPU seconds per million messages"),
    scenarios.LATENCY: (("p50_us", "p50_to_p99_us"), "Microseconds from publish to play: median (dark), 99th percentile (light)"),
    scenarios.PER_MBIT: (("user_us_per_mbit", "system_us_per_mbit"), "Server's CPU microseconds per Mbit: user (dark), system (light)"),
    scenarios.CAPACITY: (("capacity",), "Publishers or players that a fifth of a processor serves"),
    scenarios.MISSES: ((scenarios.MISSES,), "Misses of the second level a frame"),
    scenarios.PLAYER_BYTES: ((scenarios.PLAYER_BYTES,), "Bytes a player"),
    scenarios.TIME: (("ns_per_operation",), "Nanoseconds of CPU per operation"),
}


def table(columns, rows):
    """Lines of a table; the first column is text, the others are numbers. Rows: name and figures."""
    cells = [["variant"] + [heading for heading, _, _ in columns]]
    for name, figures in rows:
        cells.append([name] + [form.format(figures[key]) if key in figures else "-" for _, key, form in columns])
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return ["  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths)))
            for row in cells]


def summary(rounds, counted):
    return {name: {**statistics.medians(runs), **counted.get(name, {})} for name, runs in rounds.items()}


def compared(target, form="{}"):
    """Of what the target is a bound."""
    ours = form.format(target["ours"])
    if not target["theirs"]:
        return ours
    theirs = form.format(target["theirs"]) + (", the best" if target["best"] else "")
    if target["bases"]:
        return "({} - {}) / ({} - {})".format(*(form.format(name) for pair in zip((target["ours"], target["theirs"]), target["bases"])
                                                for name in pair))
    return f"{ours} {'-' if target['added'] else '/'} {theirs}"


def targets(judged):
    """A line for each target."""
    lines = []
    for one in judged:
        said = one["verdict"].upper() if one["verdict"] == statistics.MISSED else one["verdict"]
        lines.append(f"  {said:<6}  {compared(one)}: {one['figure']} {one['measured']:.3f}, "
                     f"target {'at least ' * one['least']}{one['bound']:g}")
    return lines


def show(scenario, rounds, counted):
    """The text of one scenario."""
    lines = [f"{scenario.name}: {scenario.title}", ""]
    lines += table(COLUMNS[type(scenario)], summary(rounds, counted).items())
    for ours, others in statistics.ratios(scenario, rounds).items():
        lines += ["", f"{WHAT[scenario.figure]}, {ours} / theirs: of medians, and paired: median (range)"]
        lines += [f"  {theirs:<26} {value['of_medians']:6.2f}   {value['median']:6.2f} "
                  f"({value['least']:.2f} to {value['most']:.2f})" for theirs, value in others.items()]
    judged = targets(statistics.judge(scenario, rounds, counted))
    if judged:
        lines += ["", "targets"] + judged
    return "\n".join(lines) + "\n"


def draw(scenario, rounds):
    """The plot of a recording, as SVG."""
    parts, what = PARTS[scenario.figure]
    rows = []
    for name, runs in rounds.items():
        each = [run[scenario.figure] for run in runs]
        median = statistics.medians(runs)
        shown = [median[part] for part in parts] if median.keys() >= set(parts) else [median[scenario.figure]]
        rows.append((name, scenario.is_ours(name), shown, min(each), max(each)))
    unit = f"{what}; range of {max(map(len, rounds.values()))} rounds. "
    better = "Longer is better." if scenario.more_is_better else "Shorter is better."
    return draw_curve(scenario, unit + "Lower is better.", rows) or plot.bars(scenario.title, unit + better, rows)


def draw_curve(scenario, unit, rows):
    """Of a scenario whose variants differ in the value of one setting, where that is a number; None for others."""
    if not scenario.along:
        return None
    series = {}
    for name, _, parts, low, high in rows:
        label, found, value = name.partition(f"+{scenario.along}=")
        if not found:
            return None
        if not value.isdigit():
            continue
        series.setdefault(label, []).append((int(value), sum(parts), low, high))
    return plot.curves(scenario.title, unit, f"{scenario.along}, milliseconds",
                       [(label, sorted(points)) for label, points in series.items()])
