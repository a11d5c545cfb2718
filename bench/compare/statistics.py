"""Medians, ratios of interleaved runs, and whether targets are met."""

import statistics


def medians(rounds):
    """Of each figure that every round has."""
    shared = set(rounds[0]).intersection(*rounds[1:])
    return {key: statistics.median(run[key] for run in rounds) for key in rounds[0] if key in shared}


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
    }


def ratios(scenario, rounds):
    """Each variant of ours against each other variant."""
    found = {}
    for ours in filter(scenario.is_ours, rounds):
        found[ours] = {theirs: ratio(rounds[ours], rounds[theirs], scenario.figure)
                       for theirs in rounds if theirs != ours}
        found[ours] = {theirs: value for theirs, value in found[ours].items() if value}
    return found


def judge(scenario, rounds, counted):
    """Each target with what was measured; those whose variants were not run, or not counted, are left out."""
    judged = []
    for target in scenario.targets:
        if target.ours not in rounds or (target.theirs and target.theirs not in rounds):
            continue
        if target.theirs:
            value = ratio(rounds[target.ours], rounds[target.theirs], target.figure)
            measured = value and value["of_medians"]
        else:
            measured = {**medians(rounds[target.ours]), **counted.get(target.ours, {})}.get(target.figure)
        if measured is not None:
            judged.append({"figure": target.figure, "ours": target.ours, "theirs": target.theirs,
                           "at_most": target.at_most, "measured": measured, "met": measured <= target.at_most})
    return judged
