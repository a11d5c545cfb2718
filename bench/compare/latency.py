"""Delay from publisher to player at parts of the load that the daemon can bear, which is found first."""

import dataclasses
import statistics

from compare.media import MediaBench

ENOUGH = 0.85  # Of a processor: from there on what is left is reckoned.
AIM = 0.95
STEPS = 6
FIRST_STREAMS = 20
MOST_STREAMS = 1000
MOST_GROWTH = 4  # From step to step: a light load tells little of a heavy one.
MOST_SECONDS = 0.5  # Of a step.
LOOKS = 3  # At the last step, whose median counts: the same load takes 0.6 to 0.9 of a processor from run to run.


class LatencyBench(MediaBench):
    """All variants have the same load: a part of what the weakest of them bears. @most: streams."""

    def __init__(self, folder, perf, most=None):
        super().__init__(folder, perf)
        self.borne, self.most = {}, min(most or MOST_STREAMS, MOST_STREAMS)

    def plan(self, scenario, seconds):
        for variant in scenario.variants:
            if variant not in self.borne:
                self.borne[variant] = self._ramp(scenario, variant, min(seconds, MOST_SECONDS))
        streams = round(scenario.part * min(self.borne[variant] for variant in scenario.variants))
        loaded = dataclasses.replace(scenario, connections=min(self.most, max(1, streams)))
        return {**super().plan(loaded, seconds), "scenario": loaded}

    def _ramp(self, scenario, variant, seconds):
        """Streams that keep one processor busy: the daemon's or, should that be earlier, that of the others."""
        streams, step = min(FIRST_STREAMS, self.most), 0
        while True:
            load = self._load(scenario, variant, seconds, streams)
            step += 1
            if load >= ENOUGH or step == STEPS or streams == self.most:
                looks = [load, *(self._load(scenario, variant, seconds, streams) for _ in range(LOOKS - 1))]
                return streams / statistics.median(looks)
            streams = min(self.most, MOST_GROWTH * streams, max(streams + 1, round(streams * AIM / load)))

    def _load(self, scenario, variant, seconds, streams):
        loaded = dataclasses.replace(scenario, connections=streams)
        figures = super().run(loaded, variant, seconds, super().plan(loaded, seconds))
        return max(figures["load"], figures["load_of_others"])

    def profile(self, scenario, variant, seconds, plan, recording):
        super().profile(plan["scenario"], variant, seconds, plan, recording)

    def run(self, scenario, variant, seconds, plan):
        figures = super().run(plan["scenario"], variant, seconds, plan)
        return {**figures, "streams": plan["scenario"].connections, "most_streams": self.borne.get(variant, 0),
                "p50_to_p99_us": figures["p99_us"] - figures["p50_us"]}

    def count(self, _scenario, _variant, _seconds, _plan):
        return {}
