"""doctor: what it says of this host, and of one with a limit set for the test."""

import json
import os
import resource
import subprocess
import unittest

from test_cluster import PATIENCE_S, SLABYARD

NAMES = ["shm", "memory", "huge-pages", "descriptors", "processes", "memlock", "rdma", "ucx"]


class TestDoctor(unittest.TestCase):
    def doctor(self, *words, status=0, env=None, limits=()):
        def bound():
            for limit, value in limits:
                resource.setrlimit(limit, (value, value))

        done = subprocess.run(
            [SLABYARD, "doctor", *words], capture_output=True, text=True, timeout=PATIENCE_S,
            env={**os.environ, "UCX_TLS": "", "UCX_NET_DEVICES": "all", **(env or {})},
            preexec_fn=bound,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def checks(self, *words, status=0, **how):
        report = json.loads(self.doctor("--json", *words, status=status, **how))
        self.assertEqual([check["name"] for check in report["checks"]], NAMES)
        self.assertEqual(report["ok"], status == 0)
        wrong = [check for check in report["checks"] if check["state"] == "wrong"]
        self.assertEqual(report["ok"], not wrong)
        return {check["name"]: check for check in report["checks"]}

    def test_this_host(self):
        """The other tests run here, so it is well enough for a small cluster."""
        checks = self.checks("--slab-bytes", "4MiB", "--units", "3")
        self.assertEqual(checks["shm"]["state"], "ok")
        self.assertEqual(checks["processes"]["state"], "ok")
        table = self.doctor().splitlines()
        for name, line in zip(NAMES, [line for line in table if not line.startswith(" ")]):
            self.assertRegex(line, rf"^(ok|note) +{name} +\S")

    def test_what_does_not_fit(self):
        checks = self.checks("--slab-bytes", "512TiB", "--units", "2", status=1)
        self.assertEqual(checks["memory"]["state"], "wrong")
        self.assertIn("slabyard up --units 2 --slab-bytes ", checks["memory"]["mend"])
        self.assertIn("wrong  memory ", self.doctor("--slab-bytes", "512TiB", status=1))

    def test_limits(self):
        few = [(resource.RLIMIT_NOFILE, 40)]
        checks = self.checks(status=1, limits=few)
        self.assertIn("40 open files a process, 1 unit wants 68", checks["descriptors"]["says"])
        locked = [(resource.RLIMIT_MEMLOCK, 65536)]
        checks = self.checks(limits=locked)
        self.assertEqual(checks["memlock"]["state"], "note")
        checks = self.checks("--rdma", status=1, limits=locked)
        self.assertEqual(checks["memlock"]["state"], "wrong")
        self.assertIn("64 KiB may be locked", checks["memlock"]["says"])

    def test_ucx(self):
        for tls, state in [("tcp", "wrong"), ("", "wrong"), ("rc,self", "ok"), ("^tcp", "ok")]:
            how = {"env": {"UCX_TLS": tls}}
            report = json.loads(self.doctor_either("--rdma", **how))
            self.assertEqual({c["name"]: c["state"] for c in report["checks"]}["ucx"], state)
        checks = self.checks(env={"UCX_TLS": "tcp"})
        self.assertEqual(checks["ucx"]["state"], "note")
        self.assertEqual(checks["ucx"]["mend"], "export UCX_TLS=rc,sm,self")

    def doctor_either(self, *words, env):
        """Whether there is an RDMA device here the test does not know."""
        done = subprocess.run(
            [SLABYARD, "doctor", "--json", *words], capture_output=True, text=True,
            timeout=PATIENCE_S, env={**os.environ, "UCX_NET_DEVICES": "all", **env},
        )  # fmt: skip
        self.assertIn(done.returncode, (0, 1))
        return done.stdout


if __name__ == "__main__":
    unittest.main(verbosity=2)
