"""Becomes a program under the seccomp profile of a container engine, as in a container without capabilities:

    within_profile.py PROFILE -- PROGRAM...

PROFILE is a JSON file in the format of moby's profiles/seccomp/default.json. The filter is made by libseccomp, as engines make
it: rules for other architectures, or for capabilities that the container would have, do not apply.
"""

import ctypes
import json
import os
import platform
import sys

from within_unit import Filter, check, fail_with, libc, ALLOW, EQ, MASKED_EQ, NE, PR_SET_NO_NEW_PRIVS

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OPERATIONS = {"SCMP_CMP_NE": NE, "SCMP_CMP_EQ": EQ, "SCMP_CMP_MASKED_EQ": MASKED_EQ}


def action_of(rule, name, number):
    if rule[name] == "SCMP_ACT_ALLOW":
        return ALLOW
    if rule[name] != "SCMP_ACT_ERRNO":
        sys.exit("%s is not known here" % rule[name])
    return fail_with(rule.get(number) or 1)


def kernel():
    return tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])


def applies(rule):
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    if includes.get("caps") or ARCHITECTURE in excludes.get("arches", ()):
        return False
    least = includes.get("minKernel")
    if least and kernel() < tuple(int(part) for part in least.split(".")[:2]):
        return False
    return ARCHITECTURE in includes.get("arches", (ARCHITECTURE,))


def comparisons_of(rule):
    return [(argument["index"], OPERATIONS[argument["op"]], argument["value"], argument.get("valueTwo", 0))
            for argument in rule.get("args") or ()]


def load(profile):
    default = action_of(profile, "defaultAction", "defaultErrnoRet")
    made = Filter(default)
    for rule in profile["syscalls"]:
        action = action_of(rule, "action", "errnoRet")
        # What the default does anyway is not a rule for libseccomp.
        if applies(rule) and action != default:
            for name in rule["names"]:
                made.add(action, name, *comparisons_of(rule))
    made.load()


def main():
    end = sys.argv.index("--")
    path, = sys.argv[1:end]
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)
    ctypes.set_errno(0)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    load(profile)
    program = sys.argv[end + 1:]
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
