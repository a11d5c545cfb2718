"""The search of tools/perf-compare capacity, with servers that are functions.

Usage: bench_capacity.py ROOT
"""

import itertools
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True


class Server:
    """Serves up to so many; the runs of these numbers fail once although they could be served."""

    def __init__(self, most, disturbed=(), is_certain=False):
        self.most, self.disturbed, self.is_certain, self.runs = most, set(disturbed), is_certain, []

    def __call__(self, count):
        self.runs.append(count)
        if count in self.disturbed:
            self.disturbed.remove(count)
            return None
        if count > self.most:
            return False if self.is_certain else None
        return {"count": count, "load": 0.97 * count / self.most, "load_of_others": 0.1}


class Search(unittest.TestCase):
    def find(self, server, first=1000, most=18000, step=2.0, **more):
        count, found, bad = capacity.search(server, first, most, step, **more)
        if found:
            self.assertEqual(found["count"], count)
        return count, bad

    def test_it_is_within_the_tolerance_wherever_it_begins(self):
        for truth in (1, 2, 3, 17, 99, 100, 101, 999, 1000, 1001, 2345, 9999, 17999):
            for first, step in itertools.product((1, 10, 1000, 18000, 50000), (2.0, None)):
                server = Server(truth)
                count, bad = self.find(server, first, step=step)
                self.assertLessEqual(count, truth)
                self.assertGreater(bad, truth)
                self.assertLessEqual(bad - count, max(1, count * capacity.TOLERANCE))
                self.assertLessEqual(len(server.runs), 50)

    def test_it_ends_where_all_are_served(self):
        for truth in (18000, 18001, 10**9):
            self.assertEqual(self.find(Server(truth)), (18000, None))

    def test_none_is_served(self):
        server = Server(0)
        count, found, bad = capacity.search(server, 1000, 18000)
        self.assertEqual((count, found, bad), (0, None, 1))

    def test_one_failure_is_no_failure(self):
        server = Server(4000, disturbed=(1000, 2000, 4000))
        count, bad = self.find(server)
        self.assertTrue(3800 <= count <= 4000 < bad, (count, bad))
        self.assertEqual(server.runs[:4], [1000, 1000, 2000, 2000])

    def test_a_second_failure_is_one(self):
        server = Server(1500)
        self.find(server)
        self.assertEqual(server.runs[:4], [1000, 2000, 2000, 1500])

    def test_a_certain_failure_is_not_tried_again(self):
        server = Server(1500, is_certain=True)
        self.find(server)
        self.assertEqual(server.runs[:3], [1000, 2000, 1500])

    def test_the_load_tells_the_next_step(self):
        server = Server(3000, is_certain=True)
        count, bad = self.find(server, step=None)
        self.assertEqual(server.runs[:2], [1000, 3000])
        self.assertTrue(count == 3000 < bad, (count, bad))
        self.assertLessEqual(len(server.runs), 4)
        for figures, times in (({"load": 0.01, "load_of_others": 0.02}, 4), ({"load": 0.97, "load_of_others": 0.1}, capacity.NEAR),
                               ({"load": 0.1, "load_of_others": 0.97}, capacity.NEAR), ({"load": 0.485, "load_of_others": 0.2}, 2),
                               ({"load": 0.0, "load_of_others": 0.0}, 4)):
            self.assertAlmostEqual(capacity.reckoned(figures), times)

    def test_the_time_is_over(self):
        server = Server(5000)
        self.assertEqual(self.find(server, is_over=lambda: len(server.runs) >= 2), (2000, None))
        server = Server(0)
        self.assertEqual(self.find(server, is_over=lambda: len(server.runs) >= 2), (0, 1000))
        self.assertEqual(self.find(Server(5000), is_over=lambda: True), (0, None))

    def test_the_next_round_begins_near_the_result(self):
        server = Server(5000)
        count, bad = self.find(server, 4950, step=capacity.NEAR)
        self.assertEqual(server.runs[:2], [4950, 5445])
        self.assertTrue(4950 <= count <= 5000 < bad, (count, bad))
        self.assertLessEqual(len(server.runs), 5)
        server = Server(4000)
        count, bad = self.find(server, 4400, step=capacity.NEAR)
        self.assertEqual(server.runs[:3], [4400, 4400, 3999])

    def test_the_figures_that_count(self):
        figures = {"p99_us": 250e3, "unread_p99_us": 250e3, "sender_late_p99_us": 30e3, "player_turn_p99_us": 20e3, "load_of_others": 0.9}
        self.assertTrue(capacity.is_served(figures, 250e3))
        self.assertFalse(capacity.is_served({**figures, "p99_us": 250001}, 250e3))
        self.assertFalse(capacity.is_served({**figures, "unread_p99_us": 250001}, 250e3))
        self.assertFalse(capacity.is_limited_by_load(figures, 250e3))
        self.assertTrue(capacity.is_limited_by_load({**figures, "player_turn_p99_us": 20001}, 250e3))
        self.assertTrue(capacity.is_limited_by_load({**figures, "load_of_others": 0.91}, 250e3))

    def test_a_run_that_was_ended_early(self):
        behind = {"load": 0.99, "load_of_others": 0.5}
        self.assertFalse(capacity.is_served(behind, 250e3))
        self.assertFalse(capacity.is_limited_by_load(behind, 250e3))
        self.assertTrue(capacity.is_limited_by_load({**behind, "load_of_others": 0.91}, 250e3))
        self.assertTrue(capacity.is_certain(behind))
        self.assertFalse(capacity.is_certain({**behind, "load": 0.94}))

    def test_why_it_does_not_serve(self):
        figures = {"p99_us": 312e3, "unread_p99_us": 90e3, "load": 1.0, "load_of_others": 0.5}
        known = {"failed_load": 1.0, "failed_load_of_others": 0.5}
        self.assertEqual(capacity.why_failed(figures), {"failed_by": "delay", "failed_p99_us": 312e3, "failed_unread_p99_us": 90e3, **known})
        del figures["p99_us"], figures["unread_p99_us"]  # It was ended early.
        self.assertEqual(capacity.why_failed(figures), {"failed_by": "time", **known})
        self.assertEqual(capacity.why_failed(processes.Lost("3 of 500 players have not got all")), {"failed_by": "loss"})
        said = capacity.why_failed(processes.RunError("the server\nhas not all " + "x" * 100))["failed_by"]
        self.assertEqual(said, ("the server has not all " + "x" * 100)[:capacity.MOST_TEXT])

    def run_with(self, bound, most=None):
        """A search whose runs are a function: up to the bound all are served, beyond it some frames are lost, far beyond it all are late."""
        class Bench(capacity.CapacityBench):
            def _probe(self, scenario, variant, seconds, count):
                if bound < count <= 2 * bound:
                    return processes.Lost("some")
                late = count > bound
                return {"load": 1.2 if late else 0.5, "load_of_others": 0.1, "p99_us": 300e3 if late else 50e3, "unread_p99_us": 10e3}
        return Bench("", None, most).run(scenarios.BY_NAME["capacity-players"], "uring", 3, {})

    def test_a_result_says_what_failed_first(self):
        figures = self.run_with(1400)
        self.assertEqual((figures["failed_by"], figures["limited_by_load"]), ("loss", 0))
        self.assertNotIn("failed_p99_us", figures)
        self.assertTrue(figures["capacity"] <= 1400 < figures["failed"], figures)
        self.assertEqual(self.run_with(600, most=500)["failed"], 0)
        with self.assertRaisesRegex(processes.RunError, "serves none: 1: failed_by delay, failed_p99_us 300000"):
            self.run_with(0)

    def test_words_are_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            rounds = {"uring": [{"capacity": 7, "failed_by": "delay"}, {"capacity": 9, "failed_by": "loss, of 3"}],
                      "srs": [{"capacity": 7}, {"capacity": 8}]}
            results.write(folder, "capacity-players", rounds, {}, {"sitting": "1"})
            read = results.read_all(folder)["capacity-players"].rounds
            self.assertEqual(read, rounds)
            self.assertEqual(statistics.medians(read["uring"]), {"capacity": 8, "failed_by": "delay; loss, of 3"})

    def test_a_window_is_allowed_for(self):
        windows = {"uring": 0, "uring+merge-window=auto": 0, "uring+merge-window=20": 20000, "epoll+batch=0+merge-window=350": 350000,
                   "nginx-rtmp": 0, "srs": 350000, "srs+mw=20": 20000, "srs+gop=0": 350000}
        self.assertEqual({name: capacity.window_us(name) for name in windows}, windows)

    def test_each_round_is_judged_as_all_are(self):
        """Targets that are differences, and what one variant adds in comparison with another; ties of these, and of a least figure."""
        rounds = {"ours": [{"x": 12, "n": 3}, {"x": 14, "n": 3}], "base": [{"x": 10}, {"x": 10}],
                  "theirs": [{"x": 9}, {"x": 5}], "their base": [{"x": 5}, {"x": 5}]}

        def each(**settings):
            target = scenarios.Target("x", "ours", bound=1, **settings)
            return statistics.each_round(target, target.theirs, rounds)
        self.assertEqual(each(theirs=None), [12, 14])
        self.assertEqual(each(theirs="base"), [1.2, 1.4])
        self.assertEqual(each(theirs="base", added=True), [2, 4])
        # Of the second round nothing can be said: theirs adds nothing to its base.
        self.assertEqual(each(theirs="theirs", bases=("base", "their base")), [0.5])

        least = scenarios.Target("x", "ours", "base", 2.0, least=True)
        for measured, of_rounds, verdict in ((1.9, [1.9, 1.9, 2.0, 2.1, 1.8], statistics.TIED), (2.0, [1.9, 1.9, 2.0, 2.1, 2.2], statistics.TIED),
                                             (2.0, [1.9, 2.0, 2.0, 2.1, 2.2], statistics.MET), (1.9, [1.9, 1.9, 1.9, 2.1, 1.8], statistics.MISSED),
                                             (1.7, [1.7, 1.7, 1.7, 2.1, 2.0], statistics.MISSED), (1.9, [], statistics.MISSED)):
            self.assertEqual(statistics.verdict(least, measured, of_rounds), verdict, of_rounds)

    def test_a_gain_is_one_in_all_rounds(self):
        for of_medians, least, most, less in ((0.8, 0.7, 0.9, True), (0.8, 0.7, 1.0, None), (0.91, 0.9, 0.95, None), (1.2, 1.1, 1.3, False),
                                              (1.2, 0.9, 1.3, None)):
            self.assertIs(summary.is_less({"of_medians": of_medians, "least": least, "most": most}), less)

    def test_sittings_keep_what_they_say(self):
        """Also where older ones say something else of the machine."""
        with tempfile.TemporaryDirectory() as folder:
            rounds = {"uring": [{"capacity": 7}]}
            results.write(folder, "capacity-players", rounds, {}, {"sitting": "1", "load": "2.00"})
            results.write(folder, "capacity-publishers", rounds, {}, {"sitting": "2", "busy": "0.010"})
            self.assertEqual(results.machine_of(folder), {"1": {"sitting": "1", "load": "2.00", "busy": ""},
                                                          "2": {"sitting": "2", "load": "", "busy": "0.010"}})

    def test_a_target_of_at_least(self):
        scenario = scenarios.BY_NAME["capacity-players"]
        rounds = {"uring": [{"capacity": 5999}], "nginx-rtmp": [{"capacity": 2000}], "srs": [{"capacity": 2900}]}
        judged = {one["theirs"]: one for one in statistics.judge(scenario, rounds, {})}
        self.assertEqual(judged["nginx-rtmp"]["verdict"], statistics.MISSED)
        self.assertEqual(judged["srs"]["verdict"], statistics.MET)
        rounds["uring"] = [{"capacity": 6000}]
        self.assertEqual({one["verdict"] for one in statistics.judge(scenario, rounds, {})}, {statistics.MET})


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.abspath(sys.argv.pop(1)), "bench"))
    from compare import capacity, processes, results, scenarios, statistics, summary
    unittest.main()
