#!/usr/bin/env python3
"""scripts/bench without what it measures: the names of its cases, wrong arguments, which are told
before anything is installed or built, and that nothing outlives a contender."""

import os
import select
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

SOURCE = os.environ.get("SLABYARD_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
BENCH = os.path.join(SOURCE, "scripts", "bench")
PATIENCE_S = 60
sys.path.insert(0, os.path.join(SOURCE, "bench"))

import plot  # noqa: E402
import table  # noqa: E402
from servers import Apart  # noqa: E402

# Starts a process that would not end, makes a file, and says where and what.
LEAVES_ALL = """
import subprocess, sys, tempfile
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(child.pid, tempfile.mkdtemp(), flush=True)
"""


def run(*words):
    return subprocess.run([BENCH, *words], capture_output=True, text=True, timeout=PATIENCE_S)


class TestArguments(unittest.TestCase):
    def names(self, *words):
        done = run("--list", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_all_is_listed(self):
        names = self.names()
        self.assertEqual(len(names), len(set(names)))
        for name in ("put-4KiB", "get-1GiB", "view-64MiB", "overwrite-64B", "mput-1024x4KiB",
                     "cget-1024x64KiB", "grpo-get", "clear-10000", "put-4KiB-processes-4",
                     "attach", "units-1", "units-256", "resolve-10M", "spill-8MiB", "roundtrip",
                     "untouched", "ucx-put-64MiB", "transferqueue-put"):  # fmt: skip
            self.assertIn(name, names)

    def test_only_what_is_asked_for_is_listed(self):
        self.assertEqual(self.names("--suite", "clear"), ["clear-10000"])
        self.assertEqual(len(self.names("--suite", "transferqueue")), 3)
        self.assertEqual(self.names("--case", "units-25*"), ["units-256"])
        self.assertEqual(self.names("--suite", "resolve", "--case", "*-1M"), ["resolve-1M"])
        self.assertEqual(self.names("--suite", "units", "--units-max", "4"),
                         ["units-1", "units-4"])  # fmt: skip

    def test_wrong_arguments_are_told_first(self):
        with tempfile.TemporaryDirectory(prefix="slabyard-", dir="/tmp") as top:
            for words in (("--suite", "none"), ("--case", "none"), ("--rounds", "0"),
                          ("--rounds", "x"), ("--rounds", "65"), ("--units-max", "0"),
                          ("--cpus", "a"), ("--cpus", "0,99999"), ("--peers", "redsi"),
                          ("--json", top), ("--svg", f"{top}/none/x"),
                          ("--ssd-dir", f"{top}/none"), ("--lis",),
                          ("--suite", "clear", "--case", "put-*")):  # fmt: skip
                with self.subTest(words=words):
                    done = run(*words)
                    self.assertEqual(done.returncode, 2, done.stdout)
                    self.assertEqual(done.stdout, "")
                    self.assertIn("scripts/bench: error: ", done.stderr.splitlines()[-1])

    def test_help(self):
        done = run("--suite", "small", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("roundtrip", done.stdout)


class TestGoals(unittest.TestCase):
    """Of the batch of 4 KiB one of two goals is enough, and of a contender's settings the faster
    count."""

    def words(self, **ratios):
        records = [{"case": "mput-1024x4KiB", "who": who.replace("_", "-"), "ours_over_theirs": r}
                   for who, r in ratios.items()]  # fmt: skip
        return [line.split()[0] for line in table.goals(records, 2).splitlines()]

    def test_one_of_two_is_enough(self):
        self.assertEqual(self.words(memcached=0.5, memcpy=1.2), ["-", "met"])
        self.assertEqual(self.words(memcached=0.3, memcpy=1.4), ["met", "-"])
        self.assertEqual(self.words(memcached=0.5, memcpy=1.4), ["MISSED", "MISSED"])
        self.assertEqual(self.words(memcached=0.5), ["MISSED"])
        self.assertEqual(self.words(redis=0.5, memcached=0.3), ["MISSED", "met"])

    def test_the_faster_settings_count(self):
        self.assertEqual(self.words(redis=0.1, redis_tuned=0.3), ["MISSED"])
        self.assertEqual(self.words(redis=0.3, redis_tuned=0.1), ["MISSED"])
        self.assertEqual(self.words(redis=0.1, redis_tuned=0.2), ["met"])


class TestPlot(unittest.TestCase):
    def test_every_contender_is_drawn_inside(self):
        ratios = {who: 0.01 * n for n, who in enumerate(plot.COLORS, 1)} | {"slabyard": 1}
        records = [
            {"case": f"put-{size}", "who": who, "ours_over_theirs": ratio}
            for size in ("64B", "4KiB") for who, ratio in ratios.items()
        ]  # fmt: skip
        drawn = ElementTree.fromstring(plot.svg(records))
        circles = [e for e in drawn.iter() if e.tag.endswith("circle")]
        self.assertEqual(len(circles), 3 * len(ratios))  # two cases and what the colors mean
        for circle in circles:
            self.assertLess(float(circle.get("cx")), float(drawn.get("width")))
            self.assertLess(float(circle.get("cy")), float(drawn.get("height")))


class TestApart(unittest.TestCase):
    def test_nothing_outlives_a_contender(self):
        with tempfile.TemporaryDirectory(prefix="slabyard-", dir="/tmp") as top:
            one = Apart([sys.executable, "-c", LEAVES_ALL], os.path.join(top, "apart"))
            self.addCleanup(one.end)
            self.assertEqual(one.process.wait(PATIENCE_S), 0)
            pid, folder = one.said()[0].split()
            self.assertTrue(os.path.exists(folder))
            one.end()
            self.assertEqual(os.listdir(top), [])
        try:
            process = os.pidfd_open(int(pid))
        except ProcessLookupError:
            pass
        else:
            self.addCleanup(os.close, process)
            self.assertTrue(select.select([process], [], [], PATIENCE_S)[0], "it runs on")
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
