"""What tools/perf-compare says of the recordings and of the READMEs' figures, in a copy of them in which one thing is wrong.

Usage: bench_figures.py ROOT
"""

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = ""
DOCUMENTS = "README.md", "bench/README.md", "bench/RESULTS.md", "bench/TARGETS.md"
COPIED = *DOCUMENTS, "bench/compare", "bench/results", "tools/perf-compare"


class Figures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path in COPIED:
            there = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(there), exist_ok=True)
            (shutil.copytree if os.path.isdir(os.path.join(ROOT, path)) else shutil.copy)(os.path.join(ROOT, path), there)

    def run_it(self, *options):
        """What it exits with, and all that it says."""
        done = subprocess.run([sys.executable, os.path.join(self.root, "tools", "perf-compare"), *options], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def replace(self, path, old, new):
        text = self.read(path)
        self.assertIn(old, text)
        self.write(path, text.replace(old, new, 1))

    def finds(self, *parts):
        status, said = self.run_it("--check")
        self.assertEqual(status, 1, said)
        for part in parts:
            self.assertIn(part, said)

    def edit(self, path, change):
        """A recording whose lines change() has been given."""
        rows = list(csv.DictReader(self.read(path).splitlines()))
        columns = list(rows[0])
        change(rows)
        with open(os.path.join(self.root, path), "w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, columns, lineterminator="\n")
            table.writeheader()
            table.writerows(rows)

    def test_all_is_right_as_it_is(self):
        self.assertEqual(self.run_it("--check"), (0, ""))

    def test_every_row_of_a_table_is_compared(self):
        """One figure of each region after the other, in all documents: the line is shown as it is there and as it is to be."""
        regions = 0
        for path in DOCUMENTS:
            text = self.read(path)
            for region in re.finditer(r"<!-- figures: [a-z-]+ -->\n(.*?)<!-- end of figures -->", text, re.DOTALL):
                line = region.group(1).rstrip("\n").splitlines()[-1]
                if not re.search(r"\d", line) and "| - |" not in line:
                    line = region.group(1).splitlines()[-2]
                changed = re.sub(r"\d", lambda digit: str((int(digit.group()) + 1) % 10), line, count=1)
                if changed == line:  # Not recorded yet.
                    changed = line.replace("| - |", "| 7 |", 1)
                at = region.start(1) + region.group(1).rindex(line)
                self.write(path, text[:at] + changed + text[at + len(line):])
                self.finds("--- " + path, "-" + changed, "+" + line)
                regions += 1
            self.write(path, text)
        self.assertEqual(regions, 17)

    def set_rounds(self, name, key, figures):
        """Of each variant the same in all rounds."""
        def change(rows):
            for row in rows:
                if row["round"] != "counted" and row["variant"] in figures:
                    row[key] = figures[row["variant"]]
        self.edit(f"bench/results/{name}.csv", change)

    def test_rounds_that_change_are_in_the_tables(self):
        """Recordings with other figures: the check finds them, and --update brings them into the documents and the plot."""
        self.set_rounds("saturated", "cpu_s_per_gb", {"uring": 3, "uring+plain=1": 3, "read-malloc": 12,
                                                    "shared-buffer": 2, "raw": 2})
        self.set_rounds("resp-get-1m", "cpu_s_per_gb", {"uring": 1, "hiredis": 8})
        found = ("--- README.md", "--- bench/TARGETS.md", "+| 100 streams as fast as they go", " | 3.00, ", " | 0.25, ", " | 1.50, ",
                 "+| `saturated` | `uring+plain=1` / `raw`, CPU per GB | <= 1.1 | 1.5 | 1.5 to 1.5 | **missed**: [A reference to each frame](#",
                 "into the caller's memory: 0.12 of hiredis")
        self.finds(*found, "--- bench/results/costs.svg")
        self.assertEqual(self.run_it("--update"), (0, ""))
        self.assertEqual(self.run_it("--check"), (0, ""))
        self.assertIn("into the caller's memory: 0.12 of hiredis", self.read("README.md"))

    def test_a_shown_plot_is_compared(self):
        self.replace("bench/results/costs.svg", "our epoll backend", "epoll")
        self.finds("--- bench/results/costs.svg")
        os.remove(os.path.join(self.root, "bench/results/costs.svg"))
        self.finds("--- bench/results/costs.svg")
        self.replace("bench/TARGETS.md", "## Why", "![flv](results/flv.svg)\n\n## Why")
        self.finds("--- bench/results/flv.svg", "library")

    def test_a_region_is_missed(self):
        self.replace("README.md", "<!-- figures: costs -->\n", "")
        self.finds("README.md: its regions are uring, others, and not costs, uring, others")

    def test_a_missed_target_has_a_cause(self):
        self.replace("bench/TARGETS.md", "### What TLS adds", "### What it adds")
        self.finds("bench/TARGETS.md: tls-players, ", "missed, without the section 'What TLS adds'")
        self.set_rounds("file-4096", "ns_per_operation", {"library": 30.25, "stdio": 20})
        self.finds("file-4096, library / stdio: missed, and bench/compare/causes.py knows no cause")

    def test_a_cause_names_its_scenarios(self):
        self.replace("bench/TARGETS.md", "(`peers-players-flv`)", "")
        self.finds("peers-players-flv, uring: missed, and the section 'The interval between audio frames' does not name peers-players-flv")

    def test_a_tie_is_neither_met_nor_missed(self):
        """Two rounds on either side of the bound and a median close to it, whichever side that is on; otherwise the median counts."""
        for ours, verdict in (((100, 100, 101, 104, 105), "tie"), ((100, 101, 103, 104, 105), "tie"), ((100, 103, 104, 104, 105), "**missed**"),
                              ((100, 100, 100, 101, 105), "met"), ((100, 101, 120, 120, 120), "**missed**"), ((50, 60, 70, 104, 105), "met")):
            with self.subTest(rounds=ours):
                each = {"uring": iter(ours), "epoll-pool": iter([100] * 5)}

                def change(rows, each=each):
                    for row in rows:
                        if row["round"] != "counted" and row["variant"] in each:
                            row["cpu_s_per_gb"] = next(each[row["variant"]])
                self.edit("bench/results/many.csv", change)
                self.finds(f"+| `many` | `uring` / `epoll-pool`, CPU per GB | <= 1.02 | {sorted(ours)[2] / 100:.3g} | "
                           f"{ours[0] / 100:.3g} to {ours[-1] / 100:.3g} | {verdict}")

    def test_a_server_that_falls_behind_is_compared_with_none(self):
        self.set_rounds("peers-players", "load", {"nginx-rtmp": 0.96})
        _, said = self.run_it("--check")
        row = next(line for line in said.splitlines() if line.startswith("+| the same, no merge window | "))
        self.assertRegex(row, r"ms \(core full\) \|")

    def test_a_server_that_its_delay_limits_is_compared_with_none(self):
        self.set_rounds("capacity-players", "load", {"nginx-rtmp": 0.79})
        _, said = self.run_it("--check")
        row = next(line for line in said.splitlines() if line.startswith("+| the same, no merge window (") and "; " in line)
        self.assertRegex(row, r"^\+\| [^|]* \| [^|:]* \| [0-9]+; [0-9]+ ms \|")

    def test_a_cause_has_a_profile(self):
        os.remove(os.path.join(self.root, "bench/results/profiles/kept-second.txt"))
        self.finds("bench/TARGETS.md: Frames that are kept: there is no profile of kept-second")
        self.write("bench/TARGETS.md", self.read("bench/TARGETS.md").replace("](results/profiles/text-1024.txt)", "]"))
        self.finds("bench/TARGETS.md: Long texts: no link to a profile")

    def test_what_is_shown_must_be_recorded(self):
        os.remove(os.path.join(self.root, "bench/results/saturated.csv"))
        self.finds("README.md: it shows 'saturated', which is not recorded")

    def test_a_recording_names_its_sitting(self):
        def another(rows):
            for row in rows:
                row["sitting"] = "20000101T000000"
        self.edit("bench/results/fat.csv", another)
        self.finds("fat.csv: machine.csv has no sitting 20000101T000000")
        self.edit("bench/results/fat.csv", lambda rows: rows[0].update(sitting="20000101T000001"))
        self.finds("fat.csv: not one sitting")

    def test_a_sitting_has_recordings(self):
        line = self.read("bench/results/machine.csv").splitlines()[1]
        self.write("bench/results/machine.csv", self.read("bench/results/machine.csv") + "20000101T000000" +
                   line[len("20000101T000000"):] + "\n")
        self.finds("machine.csv: no recording is of sitting 20000101T000000")

    def test_a_recording_is_whole(self):
        self.edit("bench/results/fat.csv", lambda rows: rows.pop(0))
        self.finds("fat.csv: not one sitting with as many rounds of each variant")
        self.edit("bench/results/fat.csv", lambda rows: rows[0].update(cpu_s="much"))
        self.finds("fat.csv: could not convert")
        self.edit("bench/results/fat.csv", lambda rows: rows.clear())
        self.finds("fat.csv: not one sitting")

    def test_a_recording_has_a_scenario(self):
        self.write("bench/results/other.csv", self.read("bench/results/flv.csv"))
        self.finds("other.csv: no scenario and no sweep of that name")

    def test_a_summary_has_what_was_shown(self):
        """The table of a scenario, with ratios and targets, from its rounds; and the plot of each recording."""
        self.set_rounds("flv", "ns_per_operation", {"library": 30.25, "read-malloc": 20, "buffer-malloc": 40})
        status, said = self.run_it("--summary", "flv")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"\nlibrary +30\.25 ")
        self.assertRegex(said, r"\n  buffer-malloc +0\.76 +0\.76 \(0\.76 to 0\.76\)\n")
        self.assertIn("  MISSED  library / read-malloc, the best: ns_per_operation 1.512, target 1.02\n", said)
        status, said = self.run_it("--plots")
        self.assertEqual(status, 0, said)
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(self.root, "bench/results"))
                 for name in names]
        recorded = {path[:-4] for path in paths if path.endswith(".csv") and not path.endswith("machine.csv")}
        several = {os.path.join(self.root, "bench/results/costs")}
        self.assertEqual({path[:-4] for path in paths if path.endswith(".svg")}, recorded | several)


if __name__ == "__main__":
    ROOT = os.path.abspath(sys.argv.pop(1))
    unittest.main()
