"""The environment variables that tests read are all described, in CONTRIBUTING.md or tests/README.md, and no others.

Usage: variables.py ROOT
"""

import glob
import os
import re
import sys

READS = re.compile(r"""getenv\("(\w+)"\)|environ(?:\.get\(|\[)"(\w+)"|\bsize\("(\w+)",""")
# What is the system's, or the daemon's own.
NOT_OURS = {"PATH", "SLUICED_UPGRADE"}
# What is read by scripts, by ctest or by the sanitizers.
NOT_IN_SOURCES = {"SLUICE_PRESET", "UBSAN_OPTIONS", "TSAN_OPTIONS"}
NAME = re.compile(r"`(_?[A-Z_]{2,})`")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def variables_of_sources(root):
    found = set()
    for path in glob.glob(os.path.join(root, "tests", "**", "*.[chp]*"), recursive=True):
        if path.endswith((".c", ".h", ".py")) and path != os.path.abspath(__file__):
            for plain, python, long_form in READS.findall(read(path)):
                found.add(plain or python or "SLUICE_TEST_" + long_form)
    return found - NOT_OURS - {"SLUICE_TEST_"}


def variables_of_tables(root):
    """Of rows of tables alone, in their first column; `_NAME` goes on with the name before it."""
    found = set()
    for document in ("CONTRIBUTING.md", os.path.join("tests", "README.md")):
        for line in read(os.path.join(root, document)).splitlines():
            if line.startswith("| `"):
                for name in NAME.findall(line.split("|")[1]):
                    found.add("SLUICE_TEST" + name if name.startswith("_") else name)
    return found


def main():
    root = os.path.abspath(sys.argv[1])
    read_by_tests, described = variables_of_sources(root), variables_of_tables(root)
    wrong = ["%s is read by a test, and no table has it" % name for name in sorted(read_by_tests - described)]
    wrong += ["%s is in a table, and no test reads it" % name for name in sorted(described - read_by_tests - NOT_IN_SOURCES)]
    if len(read_by_tests) < 20:
        wrong.append("only %d variables found" % len(read_by_tests))
    if wrong:
        sys.exit("\n".join(wrong))
    print("%d variables" % len(read_by_tests))


if __name__ == "__main__":
    main()
