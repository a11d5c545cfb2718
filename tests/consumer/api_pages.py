"""Checks the man pages of the library: every function of the public headers has one, and groff has nothing to complain of.

Usage: api_pages.py SOURCE_DIR FOLDER
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


def look_at(path, folder):
    """What is wrong with a page."""
    text = read(path)
    name = os.path.basename(path).removesuffix(".3")
    if text.startswith(".so "):
        target = os.path.join(folder, os.path.basename(text[4:].strip()))
        if not os.path.exists(target):
            return [f"{path}: there is no {target}"]
        text = read(target)
    else:
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-rLL=120n", "-z", path], capture_output=True, text=True,
                              timeout=20, check=False)
        if done.returncode != 0 or done.stderr:
            return [done.stderr.strip() or f"{path}: groff ends with {done.returncode}"]
    # What whatis and apropos read.
    names = re.search(r"^\.SH NAME\n([^\n]*) \\- \S", text, re.MULTILINE)
    if not names or name not in names[1].split(", "):
        return [f"{path}: its NAME is not {name}"]
    return []


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("groff"):
        print("skipped: no groff")
        return SKIPPED
    source, folder = arguments
    wrong = []
    pages = sorted(glob.glob(os.path.join(folder, "*.3")))
    for page in pages:
        wrong += look_at(page, folder)
    functions = set()
    for header in glob.glob(os.path.join(source, "include", "sluice", "*.h*")):
        functions |= set(re.findall(r"^(?:SLUICE_API|static inline) [^;(]*?(sluice_\w+)\(", read(header), re.MULTILINE))
    have = {os.path.basename(page).removesuffix(".3") for page in pages}
    wrong += [f"{function} has no page" for function in sorted(functions - have)]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"api_pages: {len(pages)} pages, {len(functions)} functions, {len(wrong)} errors")
    return 1 if wrong or not functions else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
