"""SECURITY.md: the tests that it names exist; and what only the tree and the program together can show.

Usage: security.py ROOT BUILD
"""

import glob
import os
import re
import subprocess
import sys

FORBIDDEN = ("setuid", "setgid", "seteuid", "setegid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "system",
             "popen", "execve", "execvp", "wordexp")
# Of programs it starts its own, for an upgrade.
STARTS = {"spawn.c"}
SECRETS = re.compile(r"^\s*(admin-token-file|token-keys|rtsp-users|pull|pull-file)\s*=", re.MULTILINE)
KINDS = ("unit/%s.c", "e2e/%s.py", "fuzz/%s.c", "consumer/%s.py")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def texts_of(root, name):
    paths = [os.path.join(root, "tests", kind % name) for kind in KINDS]
    return "".join(read(path) for path in paths if os.path.exists(path))


def is_case(text, case):
    """Whether it is run: a function or class of unittest, or in a list of cmocka's."""
    return re.search(r"^\s*(def|class) %s\b" % case, text, re.MULTILINE) or \
        re.search(r"^static void %s\(void \*\*" % case, text, re.MULTILINE) and len(re.findall(r"\b%s\b" % case, text)) > 1


def check_rows(root, wrong):
    """How many promises there are."""
    section = read(os.path.join(root, "SECURITY.md")).split("## What is promised", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0].strip() != "promise"]
    for row in rows:
        named = re.findall(r"`(\w+)`((?:: `\w+`(?:, `(?!test_\w+`:|fuzz_)\w+`)*)?)", row[-1])
        if not named:
            wrong.append("no test: %s" % row[0].strip())
        for name, cases in named:
            text = texts_of(root, name)
            if not text:
                wrong.append("%s: no test %s" % (row[0].strip(), name))
            for case in re.findall(r"`(\w+)`", cases):
                if not is_case(text, case):
                    wrong.append("%s: %s has no %s" % (row[0].strip(), name, case))
    return len(rows)


def check_imports(root, build, wrong):
    """It neither changes its user nor starts programs, but for its own."""
    out = subprocess.run(["nm", "-D", "--undefined-only", os.path.join(build, "sluiced")], stdout=subprocess.PIPE, check=True,
                         text=True).stdout
    imported = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    if "getrandom" not in imported:
        wrong.append("nm says too little of sluiced")
    wrong += ["sluiced calls %s()" % name for name in sorted(imported & set(FORBIDDEN))]
    starts = {os.path.basename(path) for path in glob.glob(os.path.join(root, "src", "daemon", "**", "*.c"), recursive=True)
              if "posix_spawn" in read(path)}
    if starts != STARTS:
        wrong.append("programs are started in %s" % ", ".join(sorted(starts)))


def check_secrets(root, wrong):
    """The sample sets no secret, and what is shown by clients is compared in constant time."""
    for setting in SECRETS.findall(read(os.path.join(root, "src", "daemon", "sluiced.conf"))):
        wrong.append("sluiced.conf sets %s" % setting)
    for path in glob.glob(os.path.join(root, "src", "daemon", "**", "*.c"), recursive=True):
        for line in read(path).splitlines():
            if re.search(r"\b(strn?cmp|memcmp)\(.*\b(password|token|expected|mac|secret)\b", line) and \
                    "strncmp(token, version" not in line and not re.search(r"\b[ab]->(engine\.)?(password|secret)|one->password", line):
                wrong.append("%s: %s" % (os.path.basename(path), line.strip()))


def main(root, build):
    wrong = []
    rows = check_rows(root, wrong)
    check_imports(root, build, wrong)
    check_secrets(root, wrong)
    print("%d promises, %d wrong" % (rows, len(wrong)), *wrong, sep="\n")
    return 1 if wrong or rows < 25 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
