"""slabyard.local and the command: clusters that end when they should."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import PATIENCE_S, await_that

import slabyard
from slabyard.cluster import command_path
from slabyard.errors import DataPlaneLostKeys, DataPlaneTimeout, DataPlaneTransferFailed

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def unit_pids(run_dir):
    return [unit["pid"] for unit in slabyard.Directory(run_dir=run_dir).units()]


class Local(unittest.TestCase):
    def test_starts_and_leaves_nothing(self):
        with slabyard.local(units=3, slab_bytes=64 << 20) as cluster:
            self.assertTrue(os.path.isdir(cluster.run_dir))
            pids = unit_pids(cluster.run_dir)
            self.assertEqual(len(pids), 3)
            with cluster.client() as client:
                client.put(["7@note"], ["hello"])
                self.assertEqual(client.get(["7@note"]), ["hello"])
        self.assertFalse(any(map(is_alive, pids)))
        self.assertFalse(os.path.exists(cluster.run_dir))
        cluster.close()

    def test_a_run_directory_of_the_callers(self):
        with tempfile.TemporaryDirectory() as top:
            run_dir = pathlib.Path(top) / "run"
            with slabyard.local(run_dir=run_dir, slab_bytes="64MiB") as cluster:
                self.assertEqual(cluster.run_dir, str(run_dir))
                with slabyard.Client(run_dir) as client:
                    self.assertEqual(client.unit_count, 1)

    def test_options(self):
        with slabyard.local(slab_bytes="64MiB", options=["--help"]) as cluster:
            self.assertIsInstance(cluster, slabyard.Cluster)

    def test_what_is_wrong_is_said(self):
        for options, text in (
            ({"units": 0}, "units"),
            ({"slab_bytes": "64 parsecs"}, "parsecs"),
            ({"slab_bytes": "100TiB"}, ""),
            ({"options": ["--nonsense"]}, "nonsense"),
        ):
            with self.assertRaises(RuntimeError) as caught:
                slabyard.local(**{"slab_bytes": "64MiB"} | options)
            self.assertIn(text, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def child(self, ending):
        source = (
            "import os, signal, sys, slabyard\n"
            "cluster = slabyard.local(units=1, slab_bytes='64MiB')\n"
            "print(cluster.run_dir, flush=True)\n" + ending
        )
        process = subprocess.Popen(
            [sys.executable, "-c", source],
            stdout=subprocess.PIPE,
            text=True,
            stdin=subprocess.PIPE,
        )
        run_dir = process.stdout.readline().strip()
        return process, run_dir

    def test_ends_with_its_process_however_that_goes(self):
        for ending, signum in (
            ("", None),
            ("del cluster; sys.stdin.read()", None),
            ("sys.exit(3)", None),
            ("raise ValueError", None),
            ("sys.stdin.read()", signal.SIGKILL),
            ("sys.stdin.read()", signal.SIGINT),
        ):
            with self.subTest(f"{ending} {signum}"):
                process, run_dir = self.child("sys.stderr = open(os.devnull, 'w')\n" + ending)
                self.assertTrue(run_dir)
                pids = []
                if signum:
                    pids = unit_pids(run_dir)
                    process.send_signal(signum)
                process.stdin.close()
                process.wait(PATIENCE_S)
                process.stdout.close()
                await_that("the units ended", lambda: not any(map(is_alive, pids)))
                await_that(
                    "the cluster ended",
                    lambda: not os.path.exists(os.path.dirname(run_dir)),
                )


class Command(unittest.TestCase):
    def run_python(self, *arguments):
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, timeout=PATIENCE_S
        )

    def test_module_is_the_command(self):
        done = self.run_python("-m", "slabyard", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("status", done.stdout)
        done = self.run_python("-m", "slabyard", "nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nonsense", done.stderr)

    def test_installed_script(self):
        script = pathlib.Path(sys.executable).with_name("slabyard")
        if not script.exists():
            self.skipTest("the package is not installed in this environment")
        done = subprocess.run([script, "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)


class Examples(unittest.TestCase):
    def test_they_run(self):
        examples = sorted(EXAMPLES.glob("*.py"))
        self.assertTrue(examples)
        for example in examples:
            with self.subTest(example.name):
                done = subprocess.run(
                    [sys.executable, example], capture_output=True, text=True, timeout=PATIENCE_S
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_readme(self):
        """Each python block of README.md is a program; comments say what it prints."""
        readme = (EXAMPLES.parents[1] / "README.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
        self.assertTrue(blocks)
        for block in blocks:
            done = subprocess.run(
                [sys.executable, "-c", block], capture_output=True, text=True, timeout=PATIENCE_S
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("[201 202 203] [1.  0.5]\n", done.stdout)
            self.assertIn("['hello', {'source': 'gsm8k', 'try': 2}]\nFalse\n", done.stdout)

    def test_docstrings(self):
        import doctest

        for module in (slabyard, slabyard.cluster):
            failed, tried = doctest.testmod(module, verbose=False)
            self.assertEqual(failed, 0)
            self.assertGreater(tried, 0)


class Apart(unittest.TestCase):
    """A directory alone, and units that somebody else starts and watches."""

    def setUp(self):
        top = tempfile.TemporaryDirectory(prefix="slabyard-")
        self.addCleanup(top.cleanup)
        self.run_dir = os.path.join(top.name, "run")
        self.processes = []
        self.addCleanup(self.end_all)
        self.directory = self.start("directory", "--units", "2")
        self.assertIn("directory up at ipc://", self.directory.stdout.readline())
        address = slabyard.Directory(run_dir=self.run_dir).address
        self.units = [
            self.start(
                *("unit", "--id", str(k), "--units", "2"),
                *("--directory", address, "--slab-bytes", "16MiB"),
            )
            for k in range(2)
        ]
        await_that("both serve", lambda: self.states() == ["active", "active"])

    def start(self, command, *words):
        process = subprocess.Popen(
            [command_path(), command, "--run-dir", self.run_dir, "--end-with-stdin", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def end_all(self):
        for process in self.processes:
            process.kill()
            process.wait(PATIENCE_S)
            process.stdin.close()
            process.stdout.close()
        subprocess.run([command_path(), "down", "--run-dir", self.run_dir], capture_output=True)

    def states(self):
        return [unit["state"] for unit in slabyard.Directory(run_dir=self.run_dir).units()]

    def test_an_end_is_known_once_it_is_reported(self):
        directory = slabyard.Directory(run_dir=self.run_dir)
        with slabyard.Client(self.run_dir, timeout_s=20, control_timeout_s=0.5) as client:
            client.put({"0@a": 1, "1@a": 2})
            unit = directory.units()[1]
            self.units[1].kill()
            self.units[1].wait(PATIENCE_S)
            self.assertEqual(self.states(), ["active", "active"])
            with self.assertRaises((DataPlaneTimeout, DataPlaneTransferFailed)):
                client.get(["1@a"], deadline=time.monotonic() + 1)
            for _ in range(2):
                directory.exited(1, unit["incarnation"])
            self.assertEqual(self.states(), ["active", "dead"])
            with self.assertRaises(DataPlaneLostKeys) as caught:
                client.get(["0@a", "1@a"])
            self.assertEqual(caught.exception.keys, ["1@a"])
            self.assertEqual(client.get(["0@a"]), [1])
        with self.assertRaises(ValueError):
            directory.exited(2, 1)

    def test_the_directory_ends_after_its_units(self):
        directory = slabyard.Directory(run_dir=self.run_dir)
        self.directory.terminate()

        def is_silent():
            try:
                directory.epoch(time.monotonic() + 0.2)
            except DataPlaneTimeout:
                return True

        await_that("it answers nobody", is_silent)
        self.assertIsNone(self.directory.poll())
        for unit in self.units:
            unit.terminate()
        self.assert_all_ended()

    def assert_all_ended(self):
        for process in self.processes:
            self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertFalse(os.path.exists(self.run_dir))

    def test_they_end_with_their_stdin(self):
        for process in self.processes:
            process.stdin.close()
        self.assert_all_ended()
        done = subprocess.run(
            [command_path(), "directory", "--run-dir", self.run_dir, "--end-with-stdin"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"stdin is no pipe", done.stderr)


if __name__ == "__main__":
    unittest.main()
