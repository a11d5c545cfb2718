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


def each_round(target, theirs, rounds):
    """What each round alone would have measured; those without the figure, and those in which a ratio means nothing, are left out."""
    names = (target.ours, *filter(None, (theirs,)), *target.bases)
    runs = [[run.get(target.figure) for run in round_] for round_ in zip(*(rounds[name] for name in names))]
    runs = [run for run in runs if None not in run]
    if target.bases:
        return [(ours - base) / (other - their_base) for ours, other, base, their_base in runs if other > their_base]
    if not theirs:
        return [ours for ours, in runs]
    if target.added:
        return [ours - other for ours, other in runs]
    return [ours / other for ours, other in runs if other > 0]


def measure(target, theirs, rounds, counted):
    """What the target is a bound on; None where it was not run, or not counted."""
    if target.ours not in rounds or (target.theirs and theirs not in rounds) or not set(target.bases) <= rounds.keys():
        return None
    if target.bases:
        ours, others = (medians(rounds[name])[target.figure] - medians(rounds[base])[target.figure]
                        for name, base in zip((target.ours, theirs), target.bases))
        return ours / others if others > 0 else None
    if theirs and not target.added:
        paired = ratio(rounds[target.ours], rounds[theirs], target.figure)
        return paired and paired["of_medians"]
    ours = {**medians(rounds[target.ours]), **counted.get(target.ours, {})}.get(target.figure)
    return ours - medians(rounds[theirs])[target.figure] if target.added else ours


MET, TIED, MISSED = "met", "tie", "missed"
TIE_WITHIN, TIE_ROUNDS = 0.10, 2  # The measured value is so close to the bound, and so many rounds meet it and miss it.


def verdict(target, measured, each):
    """Whether it is met; a tie where the rounds cannot decide it, which holds for targets that are met and missed alike."""
    def meets(value):
        return value >= target.bound if target.least else value <= target.bound

    met = sum(map(meets, each))
    if abs(measured - target.bound) <= TIE_WITHIN * abs(target.bound) and min(met, len(each) - met) >= TIE_ROUNDS:
        return TIED
    return MET if meets(measured) else MISSED


def judge(scenario, rounds, counted):
    """Each target with what was measured, as far as that is known."""
    judged = []
    for target in scenario.targets:
        is_best = target.theirs == BEST
        theirs = best(scenario, rounds, target.figure) if is_best else target.theirs
        measured = measure(target, theirs, rounds, counted)
        # Whoever is best may have a target of its own, with the same bound.
        known = is_best and any((one.figure, one.ours, one.theirs, one.bound) == (target.figure, target.ours, theirs, target.bound)
                                for one in scenario.targets)
        if measured is not None and not known:
            each = each_round(target, theirs, rounds)
            judged.append({"figure": target.figure, "ours": target.ours, "theirs": theirs, "best": is_best, "added": target.added,
                           "bases": target.bases, "bound": target.bound, "least": target.least, "measured": measured, "each": each,
                           "verdict": verdict(target, measured, each)})
    return judged
