"""The systemd services: their command lines make a cluster, and systemd finds no fault in them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

BUILD = os.path.abspath(os.environ.get("SLABYARD_BUILD", "build"))
SOURCE = os.environ.get("SLABYARD_SOURCE", ".")
SLABYARD = os.path.join(BUILD, "slabyard")
PATIENCE_S = 120  # for what must happen; nothing waits that long where it does
SERVICES = ["slabyard-directory.service", "slabyard-unit@.service"]


def built(name):
    return os.path.join(BUILD, "packaging", name)


def settings(path):
    """The lines of a service or of what it reads, names to values; the last of a name counts."""
    with open(path) as file:
        text = file.read().replace("\\\n", " ")
    return dict(re.findall(r"^([A-Za-z_]+)=(.*)$", text, re.M))


class TestServices(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.top)
        self.conf = settings(os.path.join(SOURCE, "packaging", "systemd", "cluster.conf"))
        self.keys = os.path.join(self.top, "keys")

    def environment(self):
        """What systemd gives the services of it, and what clients of other hosts would say."""
        return {**os.environ, **self.conf, "SLABYARD_TRANSPORT": "ucx"}

    def command(self, *words):
        return subprocess.run(
            [SLABYARD, *words], capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL, env=self.environment(),
        )  # fmt: skip

    def reported(self, *there):
        """What the unit says of itself; `status` waits for 3 s, which a busy host may need."""
        end = time.monotonic() + PATIENCE_S
        while True:
            done = self.command("status", "--json", *there)
            if done.returncode == 0:
                (unit,) = json.loads(done.stdout)["units"]
                if unit["answered"]:
                    return unit
            self.assertLess(time.monotonic(), end, done.stdout + done.stderr)

    def start(self, name, instance=""):
        """Runs ExecStart as systemd would, with this test's folders in place of the system's."""
        line = settings(built(name))["ExecStart"].replace("%i", instance)
        line = re.sub(r"\$\{(\w+)\}", lambda match: self.conf[match[1]], line)
        line = line.replace("/etc/slabyard/keys", self.keys)
        line = re.sub(r"/(?:var/lib|run)/slabyard", self.top, line)
        program, *words = shlex.split(line)
        self.assertEqual(os.path.basename(program), "slabyard")
        process = subprocess.Popen(
            [SLABYARD, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            stdin=subprocess.DEVNULL, env=self.environment(),
        )  # fmt: skip
        self.addCleanup(process.communicate, timeout=PATIENCE_S)
        self.addCleanup(process.terminate)
        return process.stdout

    def test_their_command_lines_make_a_cluster(self):
        self.assertEqual(self.command("keygen", self.keys).returncode, 0)
        self.conf |= {"SLABYARD_DIRECTORY": "tcp://127.0.0.1:*", "SLABYARD_UNITS": "1",
                      "SLABYARD_LISTEN": "tcp://127.0.0.1:*", "SLABYARD_SLAB_BYTES": "4MiB",
                      "SLABYARD_POLICY": "allow-tcp", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
        line = self.start("slabyard-directory.service").readline()
        found = re.fullmatch(r"directory up at (tcp://127\.0\.0\.1:\d+)\n", line)
        self.assertTrue(found, line)
        self.conf["SLABYARD_DIRECTORY"] = found[1]
        said = self.start("slabyard-unit@.service", "0")
        self.assertIn("policy allow-tcp", said.readline())
        self.assertIn(f"up, registered at {found[1]}", said.readline())
        there = ("--directory", found[1], "--keys", self.keys)
        value = os.path.join(self.top, "value")
        with open(value, "wb") as file:
            file.write(os.urandom(1 << 17))
        done = self.command("put", "0", "note", value, *there)
        self.assertEqual(done.returncode, 0, done.stderr)
        unit = self.reported(*there)
        self.assertEqual((unit["state"], unit["shm_put_bytes"]), ("active", 0))
        self.assertGreaterEqual(unit["ucx_put_bytes"], 1 << 17)

    def test_their_settings_ask_for_rdma_alone(self):
        checks = json.loads(self.command("doctor", "--rdma", "--json").stdout)["checks"]
        self.assertEqual([c["state"] for c in checks if c["name"] == "ucx"], ["ok"], checks)
        self.assertEqual(self.conf["SLABYARD_POLICY"], "rdma")

    def test_systemd_finds_no_fault_in_them(self):
        tool = shutil.which("systemd-analyze")
        if tool is None:
            self.skipTest("no systemd here")
        for name in SERVICES:
            target = os.path.join(self.top, name.replace("@", "@0"))
            with open(built(name)) as file:
                text = re.sub(r"ExecStart=\S+", f"ExecStart={SLABYARD}", file.read())
            with open(target, "w") as file:
                file.write(text)
            done = subprocess.run(
                [tool, "verify", "--man=no", target], capture_output=True, text=True,
                timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            faults = [line for line in done.stderr.splitlines() if name.split("@")[0] in line]
            self.assertEqual(faults, [], name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
