"""Tests with a long form: how much of what, and what came of it."""

import os

LONG = os.environ.get("SLUICE_TEST_LONG") == "1"


def size(name, short, long):
    """How many: SLUICE_TEST_<name> says, or else whether this is the long form."""
    return int(os.environ.get("SLUICE_TEST_" + name) or (long if LONG else short))


def alone(cases):
    """Of a class of tests that the short form does not have."""
    return cases if LONG else None


def report(text, *values):
    print("measured: " + text % values, flush=True)
