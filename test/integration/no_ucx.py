"""A build without UCX (-Ducx=disabled), given as argument: what is of one host works, and that
another host's slab is out of reach is told in one line."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SLABYARD = os.path.abspath(os.path.join(sys.argv.pop(), "slabyard"))
PATIENCE_S = 120
TOLD = "built without UCX"


class TestNoUcx(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.top)
        self.run_dir = os.path.join(self.top, "yard")

    def slabyard(self, *words, status=0, **env):
        done = subprocess.run(
            [SLABYARD, *words, "--run-dir", self.run_dir], capture_output=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL, env={**os.environ, **env},
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_one_host(self):
        value = os.path.join(self.top, "value")
        with open(value, "wb") as file:
            file.write(os.urandom(1 << 20))
        self.slabyard("up", "--units", "2", "--slab-bytes", "4MiB", "--detach")
        self.addCleanup(self.slabyard, "down")
        self.slabyard("put", "1", "note", value)
        with open(value, "rb") as file:
            self.assertEqual(self.slabyard("get", "1", "note").stdout, file.read())
        self.slabyard("demo", "--rows", "32", "--steps", "1")
        done = self.slabyard("get", "1", "note", status=1, SLABYARD_TRANSPORT="ucx")
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
        self.assertIn(TOLD.encode(), done.stderr)

    def test_other_hosts(self):
        for policy in ("rdma", "allow-tcp"):
            done = self.slabyard("up", "--units", "1", "--slab-bytes", "4MiB", "--detach",
                                 "--policy", policy, status=1, UCX_TLS="rc")  # fmt: skip
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertIn(TOLD.encode(), done.stderr)

    def test_doctor(self):
        done = subprocess.run(
            [SLABYARD, "doctor", "--rdma"], capture_output=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL, env={**os.environ, "UCX_TLS": "rc"},
        )  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, rb"wrong +ucx +this slabyard was built without UCX")


if __name__ == "__main__":
    unittest.main(verbosity=2)
