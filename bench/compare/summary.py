"""Tables, in Markdown, of what was last measured: they are in bench/README.md."""

import glob
import json
import os

from compare import report, scenarios


def read(folder):
    """The contents of all results of a folder, by the scenario's name."""
    contents = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        contents[content["scenario"]] = content
    return contents


def figure(value):
    """Three digits that mean something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def targets(folder):
    """Every target of the scenarios that have results."""
    contents = read(folder)
    rows = ["| scenario | what | target | measured | |", "|---|---|---|---|---|"]
    met = all_of_them = 0
    for name in scenarios.BY_NAME:
        for target in contents.get(name, {}).get("targets", ()):
            known = report.WHAT if target["theirs"] and not target["added"] else {}
            unit = known.get(target["figure"]) or report.UNITS.get(target["figure"], target["figure"])
            rows.append(f"| `{name}` | {report.compared(target, '`{}`')}, {unit} | <= {figure(target['at_most'])} | "
                        f"{figure(target['measured'])} | {'met' if target['met'] else '**missed**'} |")
            met += target["met"]
            all_of_them += 1
    return [*rows, "", f"{met} of {all_of_them} are met."]


def sweep(folder, name):
    """Processor time with each value of a setting, the default's being 1."""
    contents = read(os.path.join(folder, "sweep-" + name))
    variants, chosen = scenarios.SWEEPS[name]
    ours, *others = variants
    if not all(one in contents for one in chosen):
        return []
    rows = [f"| {name} | " + " | ".join(f"`{one.rpartition('=')[2]}`" for one in others) + " |",
            "|---|" + "---|" * len(others)]
    for one in chosen:
        ratios = contents[one]["ratios"][ours]
        rows.append(f"| `{one}` | " + " | ".join(f"{1 / ratios[other]['of_medians']:.2f} "
                                                f"({1 / ratios[other]['most']:.2f} to {1 / ratios[other]['least']:.2f})"
                                                for other in others) + " |")
    return ["", *rows]


def lines(folder):
    """All of it."""
    return [*targets(folder), *(line for name in scenarios.SWEEPS for line in sweep(folder, name))]
