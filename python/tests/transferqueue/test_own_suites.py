"""TransferQueue's own end-to-end suites, which its wheel brings, with SlabyardStore chosen."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SUITES = {  # module: how many of its tests pass and, since they want a GPU, skip
    "test_kv_interface_e2e": (56, 0),
    "test_e2e_lifecycle_consistency": (8, 2),
}


class OwnSuites(unittest.TestCase):
    def test_they_pass(self):
        package = pathlib.Path(importlib.util.find_spec("transfer_queue").origin).parent
        for name, (passed, skipped) in SUITES.items():
            with self.subTest(name):
                path = package.parent / "tests" / "e2e" / f"{name}.py"
                self.assertTrue(path.exists(), "own suites not run: they are not installed")
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-q", "-p", "own_suites"]
                    + ["-p", "no:cacheprovider", "--tb=short", str(path)],
                    capture_output=True,
                    text=True,
                    timeout=600,
                    env={**os.environ, "PYTHONPATH": str(HERE)},
                )
                said = done.stdout.strip().splitlines()
                print(f"{name}: {said[-1] if said else done.stderr[-300:]}")
                self.assertEqual(done.returncode, 0, done.stdout[-4000:])
                counts = dict(
                    (word, int(number))
                    for number, word in re.findall(r"(\d+) (passed|skipped)", said[-1])
                )
                self.assertEqual((counts["passed"], counts.get("skipped", 0)), (passed, skipped))


if __name__ == "__main__":
    unittest.main()
