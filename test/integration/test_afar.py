"""Large transfers between hosts, and a unit that is killed, stopped or cut off in their middle:
afar.c does it, and says so when the cable is to be cut or mended."""

import os
import subprocess
import unittest

import namespaces

BUILD = os.environ.get("SLABYARD_BUILD", "build")
PROGRAM = os.path.join(os.path.abspath(BUILD), "test", "integration", "afar")
PATIENCE_S = 300


class TestAfar(unittest.TestCase):
    def hurt(self, fault):
        ours, unit, others = namespaces.make(self, 3)
        env = {
            "SLABYARD_TRANSPORT": "ucx", "SLABYARD_POLICY": "allow-tcp", "UCX_TLS": "tcp",
            "UCX_NET_DEVICES": "eth0", "SLABYARD_TEST_UNIT_POLICY": "allow-tcp",
            "SLABYARD_TEST_UNIT_LISTEN": f"tcp://{unit.address}:*",
            "SLABYARD_TEST_UNIT_HOST": str(unit.holder.pid),
            "SLABYARD_TEST_OTHERS_HOST": str(others.holder.pid),
            # The leak sanitizer breaks at the thread-local memory of libraries loaded late.
            "LSAN_OPTIONS": "use_tls=0",
        }  # fmt: skip
        process = subprocess.Popen(
            ours.words(PROGRAM, fault), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, **env},
        )  # fmt: skip
        self.addCleanup(process.communicate, timeout=PATIENCE_S)
        self.addCleanup(process.terminate)
        orders = {"runner: cut\n": ours.cut, "runner: mend\n": ours.mend}
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line in orders:
                orders[line]()
                process.stdin.write("done\n")
                process.stdin.flush()
        self.assertEqual(process.wait(PATIENCE_S), 0, "".join(lines))

    def test_a_unit_is_killed(self):
        self.hurt("killed")

    def test_a_unit_is_stopped(self):
        self.hurt("stopped")

    def test_a_unit_is_cut_off(self):
        self.hurt("cut-off")


if __name__ == "__main__":
    namespaces.enter()
    unittest.main(verbosity=2)
