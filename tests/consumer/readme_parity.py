"""The tables of the reader and of the daemon, in their READMEs, name calls, options and tests that exist.

Usage: readme_parity.py ROOT
"""

import glob
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def section_of(root, folder, title):
    return read(os.path.join(root, "src", folder, "README.md")).split("## " + title, 1)[1].split("\n## ", 1)[0]


def check_daemon(root, wrong):
    """How many rows the daemon's tables have."""
    section = section_of(root, "daemon", "The daemon, row by row")
    settings = read(os.path.join(root, "src", "daemon", "setting.c"))
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[2].strip() != "test"]
    for promise, here, tests in rows:
        for option in re.findall(r"`--([a-z-]+)`", here):
            if '{"%s",' % option not in settings:
                wrong.append("%s: no option --%s" % (promise.strip(), option))
        if not tests.strip() and "not yet" not in here:
            wrong.append("%s: no test" % promise.strip())
        for file, cases in re.findall(r"`(test_\w+)`((?:: |, |`\w+`(?!:))*)", tests):
            path = os.path.join(root, "tests", "e2e", file + ".py")
            text = read(path) if os.path.exists(path) else ""
            for case in [""] + re.findall(r"`(\w+)`", cases):
                if not text or (case and "def %s(" % case not in text):
                    wrong.append("%s: no test %s: %s" % (promise.strip(), file, case))
    return len(rows)


def main(root):
    headers = "".join(read(path) for path in glob.glob(os.path.join(root, "include", "sluice", "*.h")))
    section = section_of(root, "reader", "The reader, row by row")
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    wrong = []
    for promise, calls, tests in rows:
        for call in re.findall(r"`(sluice_\w+)(?:\(\))?`", calls):
            if not re.search(r"\b%s\b" % call, headers):
                wrong.append("%s: no call %s" % (promise.strip(), call))
        for file, cases in re.findall(r"`(test_\w+)`((?:: |, |`\w+`(?!:))*)", tests):
            path = os.path.join(root, "tests", "unit", file + ".c")
            found = read(path) if os.path.exists(path) else ""
            for case in [""] + re.findall(r"`(\w+)`", cases):
                if not found or not re.search(r"\b%s\b" % case, found):
                    wrong.append("%s: no test %s: %s" % (promise.strip(), file, case))
    daemon_rows = check_daemon(root, wrong)
    print("%d and %d rows, %d wrong" % (len(rows), daemon_rows, len(wrong)), *wrong, sep="\n")
    return 1 if wrong or len(rows) < 25 or daemon_rows < 30 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
