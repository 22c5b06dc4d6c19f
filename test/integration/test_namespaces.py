"""A cluster on hosts of its own: directory and units in network namespaces, keys, cut cables."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import namespaces

BUILD = os.environ.get("SLABYARD_BUILD", "build")
SLABYARD = os.path.join(os.path.abspath(BUILD), "slabyard")
PATIENCE_S = 120  # for what must happen; nothing waits that long where it does
PORT = 7400


class TestNamespaces(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.top)
        self.hosts = namespaces.make(self, 3)
        self.keys = os.path.join(self.top, "keys")
        self.processes = []
        self.addCleanup(self.end_all)
        self.directory = f"tcp://{self.hosts[0].address}:{PORT}"

    def end_all(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=PATIENCE_S)
        for number, host in enumerate(self.hosts):  # what a killed unit left
            self.on(host, "down", "--run-dir", self.run_dir(number))

    def run_dir(self, number):
        return os.path.join(self.top, f"host{number}")

    def on(self, host, *words):
        return subprocess.run(
            host.words(SLABYARD, *words), capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def slabyard(self, number, *words, status=0):
        done = self.on(self.hosts[number], *words)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        return done

    def start(self, number, *words):
        process = subprocess.Popen(
            self.hosts[number].words(SLABYARD, *words), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def start_directory(self):
        self.slabyard(0, "keygen", self.keys)
        process = self.start(
            0, "directory", "--run-dir", self.run_dir(0), "--units", "2",
            "--listen", self.directory, "--keys", self.keys,
            "--suspect-after", "300ms", "--fence-after", "1s", "--dead-after", "2s",
        )  # fmt: skip
        self.assertEqual(process.stdout.readline(), f"directory up at {self.directory}\n")

    def start_unit(self, unit_id, number):
        process = self.start(
            number, "unit", "--id", str(unit_id), "--directory", self.directory,
            "--slab-bytes", "4MiB", "--run-dir", self.run_dir(number), "--keys", self.keys,
            "--listen", f"tcp://{self.hosts[number].address}:{PORT + 10 + unit_id}",
        )  # fmt: skip
        self.assertIn(f"unit {unit_id}: up, registered at {self.directory}",
                      process.stderr.readline())
        return process

    def status(self, number):
        done = self.slabyard(
            number, "status", "--json", "--directory", self.directory, "--keys", self.keys
        )
        return json.loads(done.stdout)["units"]

    def await_states(self, number, *states):
        end = time.monotonic() + PATIENCE_S
        while [unit["state"] for unit in self.status(number)] != list(states):
            self.assertLess(time.monotonic(), end, f"never came true: {states}")

    def test_a_third_host_watches_and_drains(self):
        self.start_directory()
        self.start_unit(0, 0)
        self.start_unit(1, 1)
        units = self.status(2)
        self.assertEqual([unit["state"] for unit in units], ["active", "active"])
        self.assertEqual([unit["answered"] for unit in units], [True, True])
        done = self.slabyard(2, "drain", "1", "--directory", self.directory, "--keys", self.keys)
        self.assertEqual(done.stdout, "unit 1 drains\n")
        self.await_states(2, "active", "draining")
        self.slabyard(
            2, "drain", "1", "--undo", "--directory", self.directory, "--keys", self.keys
        )
        self.await_states(2, "active", "active")

    def test_a_stranger_on_the_network_is_told_nothing(self):
        self.start_directory()
        self.start_unit(0, 0)
        other = os.path.join(self.top, "other")
        self.slabyard(2, "keygen", other)
        for words in [(), ("--keys", other)]:
            done = self.slabyard(
                2, "status", "--directory", self.directory, *words, status=1
            )
            self.assertNotIn("active", done.stdout + done.stderr)

    def test_a_cut_host_is_dead_after_its_lease_and_its_unit_ends(self):
        self.start_directory()
        self.start_unit(0, 0)
        unit = self.start_unit(1, 1)
        self.hosts[1].cut()
        self.await_states(0, "active", "dead")
        self.assertIn("out of touch with the directory", unit.stderr.readline())
        self.hosts[1].mend()
        # It learns that it was buried, and what it held is not believed any more.
        self.assertNotEqual(unit.wait(PATIENCE_S), 0)
        self.start_unit(1, 1)
        self.await_states(2, "active", "active")

    def test_a_short_cut_loses_nothing(self):
        self.start_directory()
        self.start_unit(0, 0)
        unit = self.start_unit(1, 1)
        value = os.path.join(self.top, "value")
        with open(value, "w") as file:
            file.write("kept")
        self.slabyard(0, "put", "1", "note", value, "--run-dir", self.run_dir(0))
        # As long as the directory stands still no lease ends, however long the cable is out.
        self.processes[0].send_signal(signal.SIGSTOP)
        self.hosts[1].cut()
        self.assertIn("out of touch with the directory", unit.stderr.readline())
        self.hosts[1].mend()
        self.processes[0].send_signal(signal.SIGCONT)
        self.assertIn("in touch with the directory again", unit.stderr.readline())
        self.await_states(2, "active", "active")
        done = self.slabyard(0, "get", "1", "note", "--run-dir", self.run_dir(0))
        self.assertEqual(done.stdout, "kept")


if __name__ == "__main__":
    namespaces.enter()
    unittest.main(verbosity=2)
