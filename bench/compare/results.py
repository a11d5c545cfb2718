"""What was measured, as it is kept: NAME.csv for each recording, a line for each round and variant, and machine.csv, which says
where and of what all of them were taken.

A recording names its sitting, which is a line of machine.csv. Everything else is derived: medians, ratios, bounds, plots.
"""

import csv
import dataclasses
import glob
import os

MACHINE = "machine.csv"
KEYS = ("sitting", "round", "variant")
TEXTS = ("failed_by",)  # Figures that are words.
COUNTED = "counted"  # In place of the round's number: what was counted in a run of its own.


class Unsound(Exception):
    """A file that cannot be a recording."""


@dataclasses.dataclass(frozen=True)
class Recording:
    machine: dict  # The line of its sitting.
    rounds: dict  # By variant: the figures of each round.
    counted: dict  # By variant: what was counted in a run of its own; variants without any are not in it.


def path_of(folder, name):
    return os.path.join(folder, name + ".csv")


def names(folder):
    """Of all recordings in a folder and in those of the sweeps below it: "fat", "sweep-block/fat"."""
    paths = glob.glob(os.path.join(folder, "**", "*.csv"), recursive=True)
    return sorted(os.path.relpath(path, folder).removesuffix(".csv") for path in paths
                  if path != os.path.join(folder, MACHINE))


def written(value):
    """Words and whole numbers as they are, others to nine digits: more than any clock here has."""
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == int(value) else f"{value:.9g}"


def write_table(path, columns, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n", restval="")
        table.writeheader()
        table.writerows(rows)


def read_table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read(folder, name, machine):
    """The recording of that name; machine is what machine_of() gives."""
    sittings, rounds, counted = set(), {}, {}
    for row in read_table(path_of(folder, name)):
        try:
            sitting, number, variant = (row.pop(key) for key in KEYS)
            figures = {key: value if key in TEXTS else float(value) for key, value in row.items() if value}
        except (KeyError, TypeError, ValueError) as error:
            raise Unsound(f"{name}.csv: {error}") from None
        sittings.add(sitting)
        if number == COUNTED:
            counted[variant] = figures
        else:
            rounds.setdefault(variant, []).append(figures)
    if len(sittings) != 1 or len({len(runs) for runs in rounds.values()}) != 1 or not counted.keys() <= rounds.keys():
        raise Unsound(f"{name}.csv: not one sitting with as many rounds of each variant")
    if not sittings <= machine.keys():
        raise Unsound(f"{name}.csv: {MACHINE} has no sitting {', '.join(sittings)}")
    return Recording(machine[sittings.pop()], rounds, counted)


def machine_of(folder):
    """The lines of the machine file by their sitting."""
    path = os.path.join(folder, MACHINE)
    return {row["sitting"]: row for row in read_table(path)} if os.path.exists(path) else {}


def read_all(folder):
    """Recordings by their names."""
    machine = machine_of(folder)
    return {name: read(folder, name, machine) for name in names(folder)}


def profile_of(folder, name):
    """Where the profiles of a scenario's variants are, as text."""
    return os.path.join(folder, "profiles", f"{name}.txt")


def write_profile(folder, name, text):
    path = profile_of(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write(folder, name, rounds, counted, machine):
    """NAME.csv, and its sitting to the machine file, which keeps those that a recording names."""
    lines = [(number + 1, variant, runs[number]) for number in range(max(map(len, rounds.values())))
             for variant, runs in rounds.items()]
    lines += [(COUNTED, variant, figures) for variant, figures in counted.items() if figures]
    columns = list(dict.fromkeys(key for _, _, figures in lines for key in figures))
    write_table(path_of(folder, name), [*KEYS, *columns],
                [{**dict(zip(KEYS, (machine["sitting"], number, variant))),
                  **{key: written(value) for key, value in figures.items()}} for number, variant, figures in lines])
    known = {**machine_of(folder), machine["sitting"]: machine}
    used = {row["sitting"] for one in names(folder) for row in read_table(path_of(folder, one))[:1]}
    rows = [known[one] for one in sorted(used & known.keys())]
    write_table(os.path.join(folder, MACHINE), list(dict.fromkeys(key for row in (machine, *rows) for key in row)), rows)
