"""The step of GRPO runs, and a wrong byte is caught."""

import os
import pathlib
import subprocess
import sys
import unittest

from tq_support import cluster

TOP = pathlib.Path(__file__).resolve().parents[3]
DATA = pathlib.Path(os.environ.get("SLABYARD_DATA", TOP.parent / "shared" / "data"))
SOURCE = DATA / "gsm8k" / "example_model_solutions.jsonl"
STEP = TOP / "python" / "examples" / "transferqueue" / "grpo_step.py"


@unittest.skipUnless(SOURCE.exists(), "no shared data")
class Step(unittest.TestCase):
    def run_step(self, *options):
        return subprocess.run(
            [sys.executable, STEP, SOURCE, "--address", cluster().address, *options],
            capture_output=True,
            text=True,
            timeout=600,
        )

    def test_every_byte_is_right(self):
        done = self.run_step()
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("512 rows of 128 problems: 4 producers, 2 trainers", done.stdout)
        self.assertIn("every byte is right", done.stdout)

    def test_a_wrong_byte_is_caught(self):
        done = self.run_step("--spoil", "--problems", "8", "--producers", "1", "--trainers", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong values: generation_logprobs of 0-0", done.stderr)


if __name__ == "__main__":
    unittest.main()
