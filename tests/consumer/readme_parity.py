"""The tables of the reader and of the daemon, in their READMEs, name calls, options and tests that exist; and what the
documents quote of options is an option.

Usage: readme_parity.py ROOT
"""

import glob
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def options_of(root):
    """The daemon's options: those of the man page, which tools/settings-docs writes from the table of settings."""
    options = re.findall(r"^\.BI? ([a-z\\-]+)", read(os.path.join(root, "src", "man", "sluiced.8")), re.MULTILINE)
    return {option.replace("\\", "").strip("-") for option in options}


def section_of(root, folder, title):
    return read(os.path.join(root, "src", folder, "README.md")).split("## " + title, 1)[1].split("\n## ", 1)[0]


def check_daemon(root, wrong):
    """How many rows the daemon's tables have."""
    section = section_of(root, "daemon", "Features and tests")
    settings = options_of(root)
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[2].strip() != "test"]
    for promise, here, tests in rows:
        for option in re.findall(r"`--([a-z-]+)`", here):
            if option not in settings:
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


# Options of other programs that the documents quote, and a prefix.
OTHERS = {"gc-sections", "static", "no-demo", "seconds", "variants", "max-", "config-url"}


def check_options(root, wrong):
    """How many options README.md, SECURITY.md and the documents of the daemon quote."""
    known = options_of(root) | OTHERS
    count = 0
    documents = [os.path.join(root, name) for name in ("README.md", "SECURITY.md")]
    for path in documents + sorted(glob.glob(os.path.join(root, "src", "daemon", "**", "*.md"), recursive=True)):
        # Code spans, and lines that call the daemon.
        quoted = re.findall(r"`[^`]*`", read(path)) + re.findall(r"^    .*sluiced -.*$", read(path), re.MULTILINE)
        options = re.findall(r"(?<![\w-])--([a-z][a-z-]*)", " ".join(quoted))
        wrong += ["%s: no option --%s" % (os.path.relpath(path, root), option) for option in sorted(set(options) - known)]
        count += len(options)
    return count


def main(root):
    headers = "".join(read(path) for path in glob.glob(os.path.join(root, "include", "sluice", "*.h")))
    section = section_of(root, "libsluice/reader", "Calls and tests")
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
    daemon_rows, options = check_daemon(root, wrong), check_options(root, wrong)
    print("%d and %d rows, %d options, %d wrong" % (len(rows), daemon_rows, options, len(wrong)), *wrong, sep="\n")
    return 1 if wrong or len(rows) < 25 or daemon_rows < 30 or options < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
