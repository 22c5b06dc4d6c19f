"""The suites of client and store with all units on other hosts: network namespaces, UCX forced
(the unix sockets of units would cross them), and nothing small enough to travel with a message.
Each program fails by itself unless units counted 0 bytes over shm, and over ucx at least what it
moved."""

import os
import subprocess
import unittest

import namespaces

BUILD = os.path.abspath(os.environ.get("SLABYARD_BUILD", "build"))
PATIENCE_S = 300


class TestSuitesAfar(unittest.TestCase):
    def run_suite(self, name, units):
        ours, *theirs = namespaces.make(self, 1 + units)
        env = {
            "SLABYARD_TRANSPORT": "ucx", "SLABYARD_POLICY": "allow-tcp", "UCX_TLS": "tcp",
            "UCX_NET_DEVICES": "eth0", "SLABYARD_TEST_UNIT_POLICY": "allow-tcp",
            "SLABYARD_TEST_NO_EAGER": "1",
            "SLABYARD_TEST_UNIT_LISTEN": ",".join(f"tcp://{host.address}:*" for host in theirs),
            "SLABYARD_TEST_UNIT_HOST": ",".join(str(host.holder.pid) for host in theirs),
            # The leak sanitizer breaks at the thread-local memory of libraries loaded late.
            "LSAN_OPTIONS": "use_tls=0",
        }  # fmt: skip
        done = subprocess.run(
            ours.words(os.path.join(BUILD, "test", "integration", name)), capture_output=True,
            text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
            env={**os.environ, **env},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"over shm 0 bytes, over ucx [1-9]")

    def test_client(self):
        self.run_suite("test_client", 2)

    def test_columns(self):
        self.run_suite("test_columns", 2)

    def test_store(self):
        self.run_suite("test_store", 2)

    def test_kinds(self):
        self.run_suite("test_kinds", 1)

    def test_chaos(self):
        self.run_suite("test_chaos", 2)

    def test_late_writers(self):
        self.run_suite("test_late_writers", 1)


if __name__ == "__main__":
    namespaces.enter()
    unittest.main(verbosity=2)
