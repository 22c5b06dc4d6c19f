"""TransferQueue's own end-to-end suites, which its wheel brings, with SlabyardStore chosen."""

import collections
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

from tq_support import cluster

HERE = pathlib.Path(__file__).resolve().parent
SUITES = {  # module: how many of its tests pass and, since they want a GPU, skip
    "test_kv_interface_e2e": (56, 0),
    "test_e2e_lifecycle_consistency": (8, 2),
}


class OwnSuites(unittest.TestCase):
    def test_they_pass(self):
        package = pathlib.Path(importlib.util.find_spec("transfer_queue").origin).parent
        paths = [package.parent / "tests" / "e2e" / f"{name}.py" for name in SUITES]
        for path in paths:
            self.assertTrue(path.exists(), "own suites not run: they are not installed")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "own_suites"]
            + ["-p", "no:cacheprovider", "--tb=short", *map(str, paths)],
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": str(HERE), "RAY_ADDRESS": cluster().address},
        )
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-300:])
        said = re.findall(r"(\w+)\.py::\S+ (PASSED|SKIPPED|FAILED|ERROR)", done.stdout)
        counts = collections.Counter(said)
        for name, wanted in SUITES.items():
            with self.subTest(name):
                got = counts[name, "PASSED"], counts[name, "SKIPPED"]
                print(f"{name}: {got[0]} passed, {got[1]} skipped")
                self.assertEqual(got, wanted)


if __name__ == "__main__":
    unittest.main()
