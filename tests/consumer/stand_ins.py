#!/usr/bin/env python3
"""Checks that each stand-in of a test, __wrap_NAME, is linked in the place of NAME: CMake has a --wrap=NAME for it.

A stand-in whose function was renamed would be left out without a word, and the test would run the real one.
Usage: stand_ins.py [ROOT]
"""

import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def texts(ends):
    for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
        for name in files:
            if name.endswith(ends):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    yield os.path.relpath(os.path.join(folder, name), ROOT), file.read()


lists = "".join(text for _, text in texts(("CMakeLists.txt", ".cmake")))
words = set(re.findall(r"\w+", lists))
# As in --wrap=sluice_timer_${call}.
prefixes = set(re.findall(r"--wrap=(\w+)\$\{", lists))
wrapped = words | {prefix + word for prefix in prefixes for word in words}

stand_ins = {(name, path) for path, text in texts((".c", ".h")) for name in re.findall(r"__wrap_(\w+)", text)}
missing = sorted(f"{path}: __wrap_{name}() is linked nowhere: no --wrap={name}"
                 for name, path in stand_ins if name not in wrapped)
if not stand_ins:
    missing = ["no stand-in was found"]
sys.exit("\n".join(missing) or None)
