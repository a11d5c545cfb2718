"""The figures in the documents: regions between comments, and the plots that are shown. They are what the recordings yield.

    <!-- figures: NAME -->
    ...
    <!-- end of figures -->
"""

import difflib
import fnmatch
import os
import re

from compare import causes, points, report, results, scenarios, statistics, summary

# Each region stands in its document once.
REGIONS = {
    "README.md": {"costs": summary.costs, "uring": summary.uring_short, "others": points.others},
    "bench/README.md": {"sittings": summary.sittings, "unrecorded": summary.unrecorded},
    "bench/RESULTS.md": {"servers": points.servers, "peers-publishers": summary.peers_publishers, "peers-players": summary.peers_players,
                         "capacities": points.capacity, "capacity": summary.capacity, "tls": summary.tls, "growth": summary.growth,
                         "lines": summary.cache_lines, "uring": summary.uring, "sweeps": summary.sweeps, "kernels": summary.kernels},
    "bench/TARGETS.md": {"targets": summary.targets},
}
TARGETS = "bench/TARGETS.md"
# Plots of several recordings, shown in README.md.
PLOTS = {"costs": summary.costs_plot}
REGION = re.compile(r"(<!-- figures: ([a-z-]+) -->\n)(.*?)(<!-- end of figures -->\n)", re.DOTALL)
SHOWN = re.compile(r"\]\(results/(\S+)\.svg\)")  # In the documents of bench.


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def scenario_of(name):
    """That of a recording; None for what is neither a scenario's, nor a sweep's, nor one on another kernel."""
    swept = {scenarios.swept(*one): one[1] for one in scenarios.SWEPT}
    swept |= {scenarios.on_kernel(*one): one[1] for one in scenarios.ON_KERNELS}
    return scenarios.BY_NAME.get(swept.get(name, name))


def derived(text, tables, recordings):
    """A document with each of its regions as it is to be, and what its regions are called."""
    found = []

    def region(match):
        begin, name, _, end = match.groups()
        found.append(name)
        return begin + "".join(line + "\n" for line in tables[name](recordings)) + end if name in tables else match.group()

    return REGION.sub(region, text), found


def causes_in(text):
    """The sections of bench/TARGETS.md that are causes: title and text."""
    return dict(section.split("\n", 1) for section in text.split("\n### ")[1:])


def names(text, scenario):
    """Whether it speaks of a scenario, by its name or by that of its family (`latency-*`), or shows its profile."""
    words = re.findall(r"`([a-z0-9*-]+)`|\[([a-z0-9-]+)\]\(", text)
    return any(fnmatch.fnmatchcase(scenario, pattern) for pattern in map("".join, words))


def without_cause(root, recordings):
    """A line for each missed target of which bench/TARGETS.md does not say why."""
    sections = causes_in(read(os.path.join(root, TARGETS)))
    wrong = []
    for name, target in summary.judged(recordings):
        if target["verdict"] != statistics.MISSED:
            continue
        title = causes.cause_of(name, target)
        lacks = ("and bench/compare/causes.py knows no cause" if not title else
                 f"without the section '{title}'" if title not in sections else
                 f"and the section '{title}' does not name {name}" if not names(sections[title], name) else None)
        wrong += [f"{TARGETS}: {name}, {report.compared(target)}: missed, {lacks}"] * bool(lacks)
    return wrong


def without_profile(root, folder):
    """A line for each section that is a cause and has no link to a profile that is there."""
    wrong = []
    for title, text in causes_in(read(os.path.join(root, TARGETS))).items():
        if title in causes.WITHOUT_PROFILE:
            continue
        linked = re.findall(r"\(results/profiles/([a-z0-9-]+)\.txt\)", text)
        wrong += [f"{TARGETS}: {title}: no link to a profile"] if not linked else [
            f"{TARGETS}: {title}: there is no profile of {name}" for name in linked if not os.path.exists(results.profile_of(folder, name))]
    return wrong


def expected(root, folder):
    """What documents and shown plots are to be, by path; and a line for each thing that is wrong by itself."""
    recordings = results.read_all(folder)
    used = {one.machine["sitting"] for one in recordings.values()}
    wrong = [f"{name}.csv: no scenario and no sweep of that name" for name in recordings if not scenario_of(name)]
    wrong += [f"{results.MACHINE}: no recording is of sitting {one}" for one in results.machine_of(folder) if one not in used]
    contents = {}
    for document, tables in REGIONS.items():
        path = os.path.join(root, document)
        try:
            contents[path], found = derived(read(path), tables, recordings)
        except KeyError as missing:
            wrong.append(f"{document}: it shows {missing}, which is not recorded")
            continue
        if sorted(found) != sorted(tables):
            wrong.append(f"{document}: its regions are {', '.join(found)}, and not {', '.join(tables)}")
    for name, draw in PLOTS.items():
        try:
            contents[os.path.join(folder, name + ".svg")] = draw(recordings)
        except KeyError as missing:
            wrong.append(f"{name}.svg: it shows {missing}, which is not recorded")
    for document in REGIONS:
        for name in SHOWN.findall(read(os.path.join(root, document))):
            if name in recordings and scenario_of(name):
                contents[os.path.join(folder, name + ".svg")] = report.draw(scenario_of(name), recordings[name].rounds)
            else:
                wrong.append(f"{document}: it shows {name}, which is not recorded")
    return contents, wrong + without_cause(root, recordings) + without_profile(root, folder)


def check(root, folder):
    """A line for each thing that is wrong: differences are shown with the text that is there first."""
    contents, wrong = expected(root, folder)
    for path, content in contents.items():
        there = read(path) if os.path.exists(path) else ""
        name = os.path.relpath(path, root)
        wrong += [line.rstrip("\n") for line in difflib.unified_diff(there.splitlines(True), content.splitlines(True), name,
                                                                    "of the recordings", n=0)]
    return wrong


def update(root, folder):
    """Writes what check() would find to differ; a line for each thing that is wrong by itself, which stops it."""
    contents, wrong = expected(root, folder)
    if wrong:
        return wrong
    for path, content in contents.items():
        if not os.path.exists(path) or read(path) != content:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
    return []
