"""The README's table of the reader names calls and tests that exist.

Usage: readme_parity.py ROOT
"""

import glob
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(root):
    headers = "".join(read(path) for path in glob.glob(os.path.join(root, "include", "sluice", "*.h")))
    section = read(os.path.join(root, "README.md")).split("## The reader, row by row", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    wrong = []
    for promise, calls, tests in rows:
        for call in re.findall(r"`(sluice_\w+)(?:\(\))?`", calls):
            if not re.search(r"\b%s\b" % call, headers):
                wrong.append("%s: no call %s" % (promise.strip(), call))
        for file, cases in re.findall(r"`(test_\w+)`((?:: |, |`\w+`(?!:))*)", tests):
            path = os.path.join(root, "tests", "unit", file + ".c")
            text = read(path) if os.path.exists(path) else ""
            for case in [""] + re.findall(r"`(\w+)`", cases):
                if not re.search(r"\b%s\b" % case, text):
                    wrong.append("%s: no test %s: %s" % (promise.strip(), file, case))
    print("%d rows, %d wrong" % (len(rows), len(wrong)), *wrong, sep="\n")
    return 1 if wrong or len(rows) < 25 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
