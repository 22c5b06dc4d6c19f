"""What carries values to units of other hosts is chosen from Python, too."""

import os
import subprocess
import sys
import unittest

import numpy as np
from support import ClusterCase

import slabyard

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "between_hosts.py")


class Hosts(unittest.TestCase):
    def test_between_hosts(self):
        done = subprocess.run(
            [sys.executable, SCRIPT], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Choice(ClusterCase):
    def test_shared_memory_alone(self):
        with self.cluster.client(transport="shm", policy="same-host") as client:
            client.put_columns([0, 1], {"x": np.zeros((2, 1 << 17))})
            counts = [report["counts"] for report in client.reports()]
        self.assertGreaterEqual(sum(one["shm_put_bytes"] for one in counts), 2 << 20)

    def test_what_there_is(self):
        wrong = (("transport", "tcp"), ("transport", None), ("policy", "tcp"), ("policy", 0))
        for name, value in wrong:
            with (
                self.subTest(name, value=value),
                self.assertRaisesRegex(ValueError, f"{name} is .*, not {value!r}"),
            ):
                self.cluster.client(**{name: value})


if __name__ == "__main__":
    unittest.main()
