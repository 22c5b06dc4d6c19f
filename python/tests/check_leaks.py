"""Memory that the package leaks, counted by the leak sanitizer; `scripts/python asan` runs it.

The interpreter and numpy leak a fixed number of allocations at their start. What other tests,
run in a process of their own, leak beyond that is ours. `scripts/python asan` runs them nowhere
else.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TESTS = (
    "test_errors",
    "test_client",
    "test_columns",
    "test_steps",
    "test_blobstore",
    "test_conformance.Lines",
)


def leaked(*arguments):
    """Allocations that a process of this interpreter leaks; the leaks; what it said."""
    with tempfile.TemporaryDirectory() as top:
        env = dict(os.environ, ASAN_OPTIONS="detect_leaks=1")
        env["LSAN_OPTIONS"] = f"exitcode=0:log_path={top}/leaks"
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = process.communicate()
        if process.returncode != 0:
            raise AssertionError(said)
        log = pathlib.Path(top) / f"leaks.{process.pid}"
        text = log.read_text() if log.exists() else ""
        total = re.search(r"leaked in (\d+) allocation", text)
        return int(total.group(1)) if total else 0, text, said


class Leaks(unittest.TestCase):
    def test_nothing_is_leaked(self):
        alone, _, _ = leaked("-c", "import numpy, unittest, subprocess, doctest")
        ours, text, said = leaked("-m", "unittest", "-v", *TESTS)
        print(said, flush=True)  # they are counted as those of any other run
        self.assertEqual(said.splitlines()[-1], "OK", "none of them is to be left out")
        self.assertLessEqual(ours, alone, text)

    def test_a_leak_is_seen(self):
        code = "import ctypes; ctypes.CDLL(None).malloc(100); import numpy"
        self.assertGreater(leaked("-c", code)[0], leaked("-c", "import ctypes, numpy")[0])


if __name__ == "__main__":
    unittest.main()
