"""The guide's examples with TransferQueue print what stands below them."""

import subprocess
import sys
import unittest

import tq_support  # noqa: F401  (finds test_docs)
from test_docs import examples


class Guide(unittest.TestCase):
    def test_examples(self):
        ran = 0
        for line, needs, code, output in examples():
            if "transfer_queue" in needs:
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", "-c", code],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    timeout=300,
                )
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertEqual(done.stdout, output, f"line {line}")
                ran += 1
        self.assertGreater(ran, 0)


if __name__ == "__main__":
    unittest.main()
