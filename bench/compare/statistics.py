"""Medians, ratios of interleaved runs, and whether targets are met."""

import statistics

from compare.scenarios import BEST


def middle(values):
    """The median; of words all that there are."""
    return "; ".join(dict.fromkeys(values)) if isinstance(values[0], str) else statistics.median(values)


def medians(rounds):
    """Of each figure that every round has."""
    shared = set(rounds[0]).intersection(*rounds[1:])
    return {key: middle([run[key] for run in rounds]) for key in rounds[0] if key in shared}


def ratio(ours, theirs, figure):
    """Of the medians, and of each round's pair: its median and range. None where it means nothing."""
    pairs = [(one[figure], other[figure]) for one, other in zip(ours, theirs) if figure in one and figure in other]
    if not pairs or any(other <= 0 for _, other in pairs):
        return None
    each = [one / other for one, other in pairs]
    return {
        "of_medians": statistics.median(one for one, _ in pairs) / statistics.median(other for _, other in pairs),
        "median": statistics.median(each),
        "least": min(each),
        "most": max(each),
        "each": each,
    }


def ratios(scenario, rounds):
    """Each variant of ours against each other variant."""
    found = {}
    for ours in filter(scenario.is_ours, rounds):
        found[ours] = {theirs: ratio(rounds[ours], rounds[theirs], scenario.figure)
                       for theirs in rounds if theirs != ours}
        found[ours] = {theirs: value for theirs, value in found[ours].items() if value}
    return found


def best(scenario, rounds, figure):
    """Of those who do the same work, the name of the one with the least; None without any."""
    others = {name: medians(runs).get(figure) for name, runs in rounds.items() if scenario.is_baseline(name)}
    return min((name for name, value in others.items() if value is not None), key=others.get, default=None)


def measure(target, theirs, rounds, counted):
    """What the target is a bound on, None where it was not run, or not counted; and of a ratio of two variants what ratio() has."""
    if target.ours not in rounds or (target.theirs and theirs not in rounds) or not set(target.bases) <= rounds.keys():
        return None, None
    if target.bases:
        ours, others = (medians(rounds[name])[target.figure] - medians(rounds[base])[target.figure]
                        for name, base in zip((target.ours, theirs), target.bases))
        return (ours / others if others > 0 else None), None
    if theirs and not target.added:
        paired = ratio(rounds[target.ours], rounds[theirs], target.figure)
        return paired and paired["of_medians"], paired
    ours = {**medians(rounds[target.ours]), **counted.get(target.ours, {})}.get(target.figure)
    return (ours - medians(rounds[theirs])[target.figure] if target.added else ours), None


def judge(scenario, rounds, counted):
    """Each target with what was measured, as far as that is known."""
    judged = []
    for target in scenario.targets:
        is_best = target.theirs == BEST
        theirs = best(scenario, rounds, target.figure) if is_best else target.theirs
        measured, paired = measure(target, theirs, rounds, counted)
        if measured is not None:
            judged.append({"figure": target.figure, "ours": target.ours, "theirs": theirs, "best": is_best, "added": target.added,
                           "bases": target.bases, "bound": target.bound, "least": target.least, "measured": measured, "paired": paired,
                           "met": measured >= target.bound if target.least else measured <= target.bound})
    return judged
