"""tools/test: what it installs, builds and runs for its arguments.

It runs in a tree of its own, where install-deps, cmake and ctest only write down how they were called. The needs of tests
are those of this build.

Usage: test_command.py ROOT NEEDS
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, NEEDS = sys.argv[1:3]
RECORDER = """#!/bin/sh
echo "${0##*/} $* case=$SLUICE_TEST_CASE" >>"$CALLS"
"""


class TestCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.makedirs(os.path.join(self.root, "tools"))
        os.makedirs(os.path.join(self.root, "bin"))
        os.makedirs(os.path.join(self.root, "build", "release", "tests"))
        shutil.copy(os.path.join(ROOT, "tools", "test"), os.path.join(self.root, "tools", "test"))
        shutil.copy(NEEDS, os.path.join(self.root, "build", "release", "tests", "needs"))
        for path in ("tools/install-deps", "bin/cmake", "bin/ctest"):
            with open(os.path.join(self.root, path), "w", encoding="ascii") as file:
                file.write(RECORDER)
            os.chmod(os.path.join(self.root, path), 0o755)

    def run_it(self, *arguments):
        """(status, output, calls of install-deps, cmake --build and ctest)"""
        calls = os.path.join(self.root, "calls")
        if os.path.exists(calls):
            os.remove(calls)
        environment = dict(os.environ, CALLS=calls, SLUICE_PRESET="release", SLUICE_TEST_CASE="",
                           PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])
        done = subprocess.run([os.path.join(self.root, "tools", "test"), *arguments], env=environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = []
        if os.path.exists(calls):
            with open(calls, encoding="utf-8") as file:
                lines = file.read().splitlines()
        return done.returncode, done.stdout, [line for line in lines if line != "cmake --preset release case="]

    def check(self, arguments, installed, built, run, case=""):
        status, output, calls = self.run_it(*arguments)
        self.assertEqual(status, 0, output)
        expected = ["install-deps %s" % name for name in installed]
        expected += ["cmake --build --preset release%s" % built] if built is not None else []
        expected.append("ctest --preset release %s" % run)
        self.assertEqual([call.partition(" case=")[0].rstrip() for call in calls], [line.rstrip() for line in expected])
        self.assertEqual(calls[-1].partition(" case=")[2], case)

    def test_essential(self):
        self.check([], ["test"], "", "-L ^essential$")
        self.check(["-R", "flv"], ["test"], "", "-L ^essential$ -R flv")
        self.check(["--", "-j", "2"], ["test"], "", "-L ^essential$ -j 2")

    def test_all(self):
        self.check(["--all"], ["all"], "", "")
        self.check(["--all", "-LE", "bench"], ["all"], "", "-LE bench")
        self.check(["--all", "--", "-L", "e2e"], ["all"], "", "-L e2e")

    def test_one_name(self):
        for name in ("test_chain", "unit-chain", "chain"):
            self.check([name], ["unit"], " --target test_chain", "-R ^test_chain(-epoll)?$")
        self.check(["test_conn-epoll"], ["unit"], " --target test_conn", "-R ^test_conn-epoll$")
        self.check(["fuzz-rtsp", "-V"], ["unit"], " --target fuzz_rtsp", "-R ^fuzz-rtsp(-epoll)?$ -V")
        self.check(["layers", "--", "-j", "2"], ["unit"], None, "-R ^layers(-epoll)?$ -j 2")

    def test_what_one_needs(self):
        self.check(["test_resp_redis"], ["unit", "redis"], " --target test_resp_redis", "-R ^test_resp_redis(-epoll)?$")
        self.check(["e2e-wait"], ["unit"], " --target sluiced", "-R ^e2e-wait(-epoll)?$")
        self.check(["e2e-cors"], ["unit", "browser"], " --target sluiced", "-R ^e2e-cors(-epoll)?$")
        self.check(["e2e-sluicectl"], ["unit"], " --target sluiced sluicectl", "-R ^e2e-sluicectl(-epoll)?$")

    def test_needs_are_sets_of_install_deps(self):
        with open(os.path.join(ROOT, "tools", "install-deps"), encoding="utf-8") as file:
            sets = set(re.findall(r"^    \[([a-z]+)\]=", file.read(), re.MULTILINE))
        with open(NEEDS, encoding="utf-8") as file:
            needed = {name for line in file for name in line.strip().split("|")[2].split()}
        self.assertTrue(needed)
        self.assertLessEqual(needed, sets)
        self.assertLessEqual({name[:-len(".txt")] for name in os.listdir(os.path.join(ROOT, "tests", "requirements"))}, sets)

    def test_one_case(self):
        self.check(["unit-chain:takes_*"], ["unit"], " --target test_chain", "-R ^test_chain(-epoll)?$", "takes_*")
        self.check(["e2e-wait:test_a", "-V"], ["unit"], " --target sluiced", "-R ^e2e-wait(-epoll)?$ -V", "test_a")

    def test_a_name_that_is_not_clear(self):
        # There are test_rtsp and e2e-rtsp.
        status, output, _ = self.run_it("rtsp")
        self.assertEqual(status, 2, output)
        self.assertIn("test_rtsp or e2e-rtsp", output)

    def test_mistakes(self):
        for arguments, words in ((["no_such"], "no test no_such"), (["test_cha"], "no test test_cha"),
                                 (["layers:x"], "layers has no cases"), (["chain:"], "no case"),
                                 (["chain", "conn"], "conn is neither"), (["--all", "chain"], "chain is neither")):
            status, output, calls = self.run_it(*arguments)
            self.assertEqual(status, 2, output)
            self.assertIn(words, output)
            self.assertFalse([call for call in calls if not call.startswith("install-deps unit")], calls)

    def test_failures_are_passed_on(self):
        for program in ("tools/install-deps", "bin/cmake", "bin/ctest"):
            with open(os.path.join(self.root, program), "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nexit 3\n")
            for arguments in ([], ["--all"], ["chain"]):
                self.assertNotEqual(self.run_it(*arguments)[0], 0, (program, arguments))
            with open(os.path.join(self.root, program), "w", encoding="ascii") as file:
                file.write(RECORDER)

    def test_names(self):
        status, output, _ = self.run_it("--list")
        self.assertEqual(status, 0, output)
        self.assertIn("test_chain\n", output)
        self.assertNotIn("-epoll", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
