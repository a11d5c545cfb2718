#!/usr/bin/env python3
"""Compares --help with the man page and the completions: every option of each is in all of them. --help fits 80 columns.

Usage: man_pages.py SOURCE_DIR BUILD_DIR [PREFIX]

Each src/man/NAME.SECTION is about the program NAME. With PREFIX, what was installed there is looked for as well.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def of_help(program, wrong):
    """The options that a program's --help has, each at the beginning of a line."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    options = set()
    for line in text.splitlines():
        if len(line) > 80:
            wrong.append("%s --help has a line of more than 80 columns: %s" % (program, line))
        match = re.match(r"  ((?:-\w, )?--[a-z][a-z-]*)", line)
        if match:
            options |= set(match.group(1).split(", "))
    return options


def of_man_page(path):
    """The options that have a paragraph: behind .TP, a line .B or .BI that begins with one."""
    options = set()
    lines = read(path).splitlines()
    for before, line in zip(lines, lines[1:]):
        if before == ".TP" and re.match(r"\.BI? \\-", line):
            text = re.sub(r"\\f.", "", line).replace(r"\-", "-")
            options |= set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))
    return options


def of_bash(path, name):
    """What bash completes a dash to; and that nothing but that is in the file."""
    script = """
        compopt() { :; }
        source "$1"
        COMP_WORDS=("$2" -) COMP_CWORD=1
        "$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script, "bash", path, name], capture_output=True, text=True, timeout=20,
                          check=True)
    if done.stderr:
        raise SystemExit("%s: %s" % (path, done.stderr))
    completed = set(done.stdout.split())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", read(path))) - {"--"}
    return completed, named


def of_zsh(path):
    text = read(path)
    return set(re.findall(r"(--[a-z][a-z-]*)\[", text)) | {
        option for group in re.findall(r"\{([^}]*)\}'\[", text) for option in group.split(",")}


def of_fish(path):
    text = read(path)
    return {"--" + option for option in re.findall(r" -l ([a-z-]+)", text)} | {
        "-" + option for option in re.findall(r" -s (\w)", text)}


class Check:
    """Collects what is wrong."""

    def __init__(self):
        self.wrong = []

    def same(self, what, options, expected):
        for option in sorted(expected - options):
            self.wrong.append("%s lacks %s, which --help has" % (what, option))
        for option in sorted(options - expected):
            self.wrong.append("%s has %s, which --help lacks" % (what, option))

    def there(self, path):
        if not os.path.exists(path):
            self.wrong.append("%s was not installed" % path)

    def formatted(self, path):
        """groff has nothing to complain of, at the width of a terminal."""
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-rLL=100n", "-z", path], capture_output=True,
                              text=True, timeout=20, check=False)
        if done.returncode != 0 or done.stderr:
            self.wrong.append("%s: %s" % (path, done.stderr.strip() or "groff ends with %d" % done.returncode))


def look_at(check, page, source, build, prefix):
    name, _, section = os.path.basename(page).rpartition(".")
    expected = of_help(os.path.join(build, name), check.wrong)
    if len(expected) < 3:
        check.wrong.append("%s --help names no options" % name)
    places = {kind: os.path.join(source, "src", "completions", kind, file) for kind, file in (
        ("bash", name), ("zsh", "_" + name), ("fish", name + ".fish"))}
    check.formatted(page)
    check.same(page, of_man_page(page), expected)
    completed, named = of_bash(places["bash"], name)
    check.same(places["bash"], completed, expected)
    check.same(places["bash"], named, {option for option in expected if option.startswith("--")})
    check.same(places["zsh"], of_zsh(places["zsh"]), expected)
    check.same(places["fish"], of_fish(places["fish"]), expected)
    if prefix:
        for path in ("bin/" + name, "share/man/man%s/%s.%s" % (section, name, section),
                     "share/bash-completion/completions/" + name, "share/zsh/site-functions/_" + name,
                     "share/fish/vendor_completions.d/%s.fish" % name):
            check.there(os.path.join(prefix, path))


def main(arguments):
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("groff"):
        print("skipped: no groff")
        return SKIPPED
    source, build = arguments[:2]
    check = Check()
    pages = sorted(glob.glob(os.path.join(source, "src", "man", "*.[1-8]")))
    for page in pages:
        look_at(check, page, source, build, arguments[2] if len(arguments) == 3 else None)
    for line in check.wrong:
        print(line, file=sys.stderr)
    print("man_pages: %d pages, %d errors" % (len(pages), len(check.wrong)))
    return 1 if check.wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
