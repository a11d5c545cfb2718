"""How many publishers or players one processor serves: found by runs with more and fewer of them."""

import dataclasses

from compare.media import MediaBench
from compare.peers import Srs
from compare.processes import RunError

TOLERANCE = 0.05  # The most that serve and the fewest that do not are this close in the end.
GRACE = 20  # Seconds that a run may take longer than it should, and what connecting takes besides.
CONNECTS_PER_S = 500
# The load's own part: of its processor, and of the delay at most so much of what is allowed. Beyond that, it is the limit.
MOST_LOAD = 0.9
MOST_OWN_DELAY = 0.2
NEAR = 1.25  # The step of a search that begins where another one has ended.


def search(probe, first, most, step=2.0, tolerance=TOLERANCE):
    """The most for which probe() gives something, what it gives, and the fewest for which it does not: None where all up to the
    most are served. Searches up or down from the first by so many times, then halves what is between. Each failure is tried once
    more, because other work of the machine can cause one. A result of None: not even one is served."""
    good, best, bad = 0, None, None
    next_one = max(1, min(first, most))
    while True:
        found = probe(next_one) or probe(next_one)
        if found:
            good, best = next_one, found
        else:
            bad = next_one
        if bad is None:
            if good == most:
                return good, best, None
            next_one = min(most, max(good + 1, int(step * good)))
        elif bad - good <= max(1, tolerance * good):
            return good, best, bad
        elif good == 0:
            next_one = int(bad / step)
        else:
            next_one = (good + bad) // 2


def window_us(variant):
    """By how much a variant delays frames because it was asked to, or because that is its default; an automatic window counts as
    none."""
    name, *settings = variant.split("+")
    asked = dict(setting.partition("=")[::2] for setting in settings)
    value = asked.get("merge-window", asked.get("mw", Srs.WINDOW_MS if name == "srs" else 0))
    return 0 if value == "auto" else 1000 * int(value)


def is_served(figures, most_delay_us):
    return figures["p99_us"] <= most_delay_us


def is_limited_by_load(figures, most_delay_us):
    """Whether the programs that make the load, and not the server, may be what is at its limit."""
    own = figures["sender_late_p99_us"] + figures["player_turn_p99_us"]
    return figures["load_of_others"] > MOST_LOAD or own > MOST_OWN_DELAY * most_delay_us


class CapacityBench(MediaBench):
    """Each round of a variant is one search. @most: of the search, where that is not the scenario's."""

    def __init__(self, folder, perf, most=None):
        super().__init__(folder, perf)
        self.most = most

    def plan(self, scenario, seconds):
        return {}

    def _options(self, settings):
        """The daemon's default memory is too little for the groups of 2,000 streams, and the first publishers wait for the last
        ones. Other servers limit neither."""
        return [*super()._options(settings), "--memory", "4G", "--first-data", "600"]

    def with_load(self, scenario, count):
        """The scenario with so many publishers or players."""
        if scenario.what == "publishers":
            return dataclasses.replace(scenario, connections=count)
        return dataclasses.replace(scenario, players=count)

    def run(self, scenario, variant, seconds, plan):
        runs, failures, most_delay_us = [], [], scenario.most_delay_us + window_us(variant)

        def probe(count):
            loaded = self.with_load(scenario, count)
            grace = GRACE + 2 * count / CONNECTS_PER_S
            runs.append(count)
            try:
                figures, _ = self.measure(loaded, variant, seconds, super(CapacityBench, self).plan(loaded, seconds), (), grace)
            except RunError as error:
                failures.append(f"{count}: {error}")
                return None
            if is_served(figures, most_delay_us):
                return figures
            failures.append(figures)
            return None

        most = self.most or scenario.most
        near = {"first": plan[variant], "step": NEAR} if variant in plan else {"first": scenario.first}
        count, figures, bad = search(probe, most=most, **near)
        if not figures:
            last = failures[-1]
            raise RunError("serves none: " + (last if isinstance(last, str) else f"a delay of {last['p99_us']:.0f} us"))
        plan[variant] = count  # The next round begins there.
        limited = is_limited_by_load(figures, scenario.most_delay_us) or any(
            is_limited_by_load(one, scenario.most_delay_us) for one in failures if isinstance(one, dict))
        return {**figures, "capacity": count, "failed": bad or 0, "limited_by_load": float(limited), "runs": len(runs)}

    def count(self, _scenario, _variant, _seconds, _plan):
        return {}
