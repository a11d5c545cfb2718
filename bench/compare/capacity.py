"""How many publishers or players a part of a processor serves: found by runs with more and fewer of them."""

import dataclasses
import time

from compare import share
from compare.media import Behind, MediaBench
from compare.peers import Srs
from compare.processes import Lost, RunError
from compare.scenarios import asked_of

SHARE = 0.2  # Of a processor: with a quarter or more, the programs that make the load are at their limit first.
TOLERANCE = 0.05  # The most that serve and the fewest that do not are this close in the end.
CONNECTS_PER_S = 100  # The slowest server connects more of them.
UNLIMITED = 0.4  # Of the time before the span: the server has a whole processor.
SLACK = 5  # Seconds that a run may take longer than it should, once all are connected: beyond that it is not served in time.
BUDGET = 420  # Seconds of a search: then what is known is the result, which is less close.
# The load's own part: of its processor, and of the delay at most so much of what is allowed. Beyond that, it is the limit.
MOST_LOAD = 0.9
MOST_OWN_DELAY = 0.2
NEAR = 1.1  # The step of a search that begins where another one has ended, and the least one.
MOST_STEP = 4.0
AIM = 0.97  # Of its share: so much of it a server may use that serves the most.
FULL = 0.95  # A server that does not serve and uses so much of its share needs no second try.


def reckoned(figures):
    """How many times as many would be served, as far as the processors' load tells."""
    load = max(figures["load"], figures["load_of_others"])
    return min(MOST_STEP, max(NEAR, AIM / load)) if load > 0 else MOST_STEP


def search(probe, first, most, step=None, tolerance=TOLERANCE, is_over=lambda: False):
    """The most for which probe() gives figures, what it gives, and the fewest for which it does not: None where all up to the
    most are served. Searches up or down from the first, by so many times if there is a step and otherwise by what the load tells,
    then halves what is between. A failure that is None is tried once more, because other work of the machine can cause one; False
    is certain. When the time is over, what was found so far. A result of None: not even one is served, or was."""
    good, best, bad = 0, None, None
    next_one = max(1, min(first, most))
    while not is_over():
        found = probe(next_one)
        if found is None:
            found = probe(next_one)
        if found:
            good, best = next_one, found
        else:
            bad = next_one
        if bad is None:
            if good == most:
                break
            next_one = min(most, max(good + 1, int((step or reckoned(best)) * good)))
        elif bad - good <= max(1, tolerance * good):
            break
        elif good == 0:
            next_one = int(bad / (step or 2.0))
        else:
            next_one = (good + bad) // 2
    return good, best, bad


def window_us(variant):
    """By how much a variant delays frames because it was asked to, or because that is its default; an automatic window counts as
    none."""
    asked = asked_of(variant)
    value = asked.get("merge-window", asked.get("mw", Srs.WINDOW_MS if variant.partition("+")[0] == "srs" else 0))
    return 0 if value == "auto" else 1000 * int(value)


# Of frames to the players that look; and of what the server has not read of all publishers when the span ends, most of which have no
# players: how old that is. A server that lets these wait serves them no better.
DELAYS = "p99_us", "unread_p99_us"


def is_served(figures, most_delay_us):
    return all(figures.get(one, most_delay_us + 1) <= most_delay_us for one in DELAYS)


def is_limited_by_load(figures, most_delay_us):
    """Whether the programs that make the load, and not the server, may be what is at its limit. A run that was ended early has the
    load alone."""
    own = figures.get("sender_late_p99_us", 0) + figures.get("player_turn_p99_us", 0)
    return figures["load_of_others"] > MOST_LOAD or own > MOST_OWN_DELAY * most_delay_us


def is_certain(figures):
    """Whether a server that does not serve has no time left, so that nothing else was the cause."""
    return figures["load"] >= FULL


MOST_TEXT = 60  # Characters of an error, in a table.


def why_failed(found):
    """Of a run that did not serve: what was missed, and the figures there are. @found: its figures, or the error that ended it."""
    if isinstance(found, Lost):
        return {"failed_by": "loss"}
    if not isinstance(found, dict):
        return {"failed_by": " ".join(str(found).split())[:MOST_TEXT]}
    known = {"failed_" + key: found[key] for key in (*DELAYS, "load", "load_of_others") if key in found}
    return {"failed_by": "delay" if "p99_us" in found else "time", **known}


class CapacityBench(MediaBench):
    """Each round of a variant is one search. @most: of the search, where that is not the scenario's. "load" is of the server's
    share."""

    def __init__(self, folder, perf, most=None):
        super().__init__(folder, perf)
        self.most, self.share = most, None

    def missing(self, scenario, variant):
        return super().missing(scenario, variant) or share.why_not(SHARE)

    def _server(self, stack, settings, deadline):
        self.share = stack.enter_context(share.Share(SHARE))
        return super()._server(stack, settings, deadline)

    def _begun(self, server, warm_up_s):
        """It has a whole processor until memory is touched for the first time and its caches are filled, which is no part of what it
        costs to serve, and then the time to settle with its share."""
        time.sleep(UNLIMITED * warm_up_s)
        self.share.add(server.pid)

    def plan(self, scenario, seconds):
        return {}

    def _options(self, settings):
        """Groups of 10,000 streams, whatever memory the machine has: other servers do not limit it."""
        return [*super()._options(settings), "--memory", "4G"]

    def with_load(self, scenario, count):
        """The scenario with so many publishers or players."""
        if scenario.what == "publishers":
            return dataclasses.replace(scenario, connections=count)
        return dataclasses.replace(scenario, players=count)

    def _probe(self, scenario, variant, seconds, count):
        """Figures of a run with so many: without a delay if it was behind. The error if it failed."""
        loaded = self.with_load(scenario, count)
        try:
            found = self.measure(loaded, variant, seconds, super().plan(loaded, seconds), (), 2 * count / CONNECTS_PER_S, SLACK)[0]
        except Behind as behind:
            found = behind.figures
        except RunError as error:
            return error
        return {**found, "load": found["load"] / SHARE}

    def run(self, scenario, variant, seconds, plan):
        runs, failures, end = [], {}, time.monotonic() + BUDGET  # Failures: the last one of each number.
        most_delay_us = scenario.most_delay_us + window_us(variant)

        def probe(count):
            runs.append(count)
            figures = self._probe(scenario, variant, seconds, count)
            if isinstance(figures, dict) and is_served(figures, most_delay_us):
                return figures
            failures[count] = figures
            return False if isinstance(figures, dict) and is_certain(figures) else None

        most = self.most or scenario.most
        near = {"first": plan[variant], "step": NEAR} if variant in plan else {"first": scenario.first}
        count, figures, bad = search(probe, most=most, is_over=lambda: time.monotonic() > end, **near)
        if not figures:
            why = ", ".join(f"{key} {value}" for key, value in why_failed(failures[runs[-1]]).items())
            raise RunError(f"serves none: {runs[-1]}: {why}")
        plan[variant] = count  # The next round begins there.
        limited = is_limited_by_load(figures, scenario.most_delay_us) or any(
            is_limited_by_load(one, scenario.most_delay_us) for one in failures.values() if isinstance(one, dict))
        return {**figures, "capacity": count, "failed": bad or 0, **(why_failed(failures[bad]) if bad else {}),
                "limited_by_load": float(limited), "runs": len(runs)}

    def count(self, _scenario, _variant, _seconds, _plan):
        return {}
