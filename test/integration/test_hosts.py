"""directory, unit, status, drain for a cluster of several hosts: each "host" a run directory."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BUILD = os.environ.get("SLABYARD_BUILD", "build")
SLABYARD = os.path.join(os.path.abspath(BUILD), "slabyard")
PATIENCE_S = 120  # for what must happen; nothing waits that long where it does


class TestHosts(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.processes = []
        self.addCleanup(self.clean_up)

    def clean_up(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=PATIENCE_S)
        for name in os.listdir(self.top):  # what a killed unit left
            self.command("down", "--run-dir", os.path.join(self.top, name))
        shutil.rmtree(self.top)

    def run_dir(self, host):
        return os.path.join(self.top, host)

    def command(self, *words):
        return subprocess.run(
            [SLABYARD, *words], capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def slabyard(self, *words, status=0):
        done = self.command(*words)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        if status != 0:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done

    def start(self, *words):
        process = subprocess.Popen(
            [SLABYARD, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def start_directory(self, listen="tcp://127.0.0.1:*", units=2):
        process = self.start(
            "directory", "--run-dir", self.run_dir("first"), "--units", str(units),
            "--listen", listen, "--suspect-after", "1s", "--fence-after", "3s",
            "--dead-after", "6s",
        )  # fmt: skip
        line = process.stdout.readline()
        found = re.fullmatch(r"directory up at (tcp://127\.0\.0\.1:\d+)\n", line)
        self.assertTrue(found, line)
        self.address = found.group(1)
        return process

    def begin_unit(self, unit_id, host):
        return self.start(
            "unit", "--id", str(unit_id), "--directory", self.address, "--slab-bytes", "4MiB",
            "--run-dir", self.run_dir(host),
        )  # fmt: skip

    def start_unit(self, unit_id, host):
        process = self.begin_unit(unit_id, host)
        self.assertIn(f"unit {unit_id}: up, registered at {self.address}",
                      process.stderr.readline())
        return process

    def states(self):
        """`status` waits for 3 s, which a busy host may need."""
        words = ("status", "--json", "--directory", self.address)
        end = time.monotonic() + PATIENCE_S
        while (done := self.command(*words)).returncode != 0:
            self.assertLess(time.monotonic(), end, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["directory"], self.address)
        return [unit["state"] for unit in said["units"]]

    def await_states(self, *states):
        end = time.monotonic() + PATIENCE_S
        while self.states() != list(states):
            self.assertLess(time.monotonic(), end, f"never came true: {states}")

    def test_start_watch_drain_lose_one_and_start_it_again(self):
        self.start_directory()
        self.start_unit(0, "first")
        second = self.start_unit(1, "second")
        self.await_states("active", "active")
        here = ("--run-dir", self.run_dir("first"))
        path = os.path.join(self.top, "value")
        with open(path, "w") as file:
            file.write("kept")
        for row in ("2", "3"):
            self.slabyard("put", row, "note", path, *here)
        os.unlink(path)

        done = self.slabyard("drain", "1", "--directory", self.address)
        self.assertEqual(done.stdout, "unit 1 drains\n")
        self.await_states("active", "draining")
        self.assertEqual(self.slabyard("get", "3", "note", *here).stdout, "kept")
        self.slabyard("drain", "1", "--undo", *here)
        self.await_states("active", "active")
        for unit, status, part in [
            ("2", 1, "no unit 2 was ever registered"),
            ("x", 2, "is no unit's number"),
        ]:
            done = self.slabyard("drain", unit, *here, status=status)
            self.assertIn(part, done.stderr)

        second.kill()
        second.wait(PATIENCE_S)
        self.await_states("active", "dead")
        done = self.slabyard("drain", "1", *here, status=1)
        self.assertIn("unit 1 is dead", done.stderr)
        done = self.slabyard("get", "3", "note", *here, status=1)
        self.assertIn("lost", done.stderr)
        self.start_unit(1, "second")
        self.await_states("active", "active")
        self.assertEqual(self.slabyard("get", "2", "note", *here).stdout, "kept")

    def test_several_units_in_a_process(self):
        self.start_directory(units=4)
        self.start_unit(0, "first")
        several = self.start(
            "unit", "--id", "1", "--count", "3", "--directory", self.address, "--slab-bytes",
            "4MiB", "--run-dir", self.run_dir("second"),
        )  # fmt: skip
        self.await_states(*["active"] * 4)
        here = ("--run-dir", self.run_dir("first"))
        rows = "".join(f'{{"a": {row}, "b": [{row}, 7]}}\n' for row in range(400))
        path = os.path.join(self.top, "rows.jsonl")
        with open(path, "w") as file:
            file.write(rows)
        self.slabyard("load", path, *here)
        os.unlink(path)
        for _ in range(3):  # a connection each time
            dumped = self.slabyard("dump", *here).stdout.splitlines()
            self.assertEqual([json.loads(line) for line in dumped],
                             [json.loads(line) for line in rows.splitlines()])
        said = json.loads(self.slabyard("status", "--json", *here).stdout)["units"]
        self.assertEqual([unit["pid"] for unit in said[1:]], [several.pid] * 3)
        self.assertTrue(all(unit["entries"] == 200 for unit in said), said)

        several.terminate()  # all leave, and say so
        self.assertEqual(several.wait(PATIENCE_S), 0)
        self.await_states("active", "dead", "dead", "dead")
        self.assertEqual(os.listdir(self.run_dir("second")), ["VERSION"])
        self.assertEqual(self.slabyard("get", "4", "a", *here).stdout, "\4" + "\0" * 7)

        done = self.slabyard("unit", "--id", "2", "--count", "3", "--directory", self.address,
                             "--slab-bytes", "4MiB", "--run-dir", self.run_dir("second"),
                             status=2)  # fmt: skip
        self.assertIn("--id 2 and --count 3: the cluster's units are 0 to 3", done.stderr)

    def test_a_directory_comes_back_as_it_was(self):
        directory = self.start_directory()
        unit = self.start_unit(0, "second")
        directory.send_signal(signal.SIGKILL)
        directory.wait(PATIENCE_S)
        self.assertIn("out of touch with the directory", unit.stderr.readline())
        self.start_directory(self.address)
        self.assertIn("in touch with the directory again", unit.stderr.readline())
        self.await_states("active", "none")

    def test_leases_without_another_host(self):
        """Whose end nobody reports is dead by its lease; without --leases no silence kills."""
        times = ("--suspect-after", "300ms", "--fence-after", "1s", "--dead-after", "2s")
        for name, words, state in (("with", ("--leases", *times), "dead"),
                                   ("without", times, "active")):
            run_dir = self.run_dir(name)
            process = self.start("directory", "--run-dir", run_dir, "--units", "2", *words)
            line = process.stdout.readline()
            self.assertEqual(line, f"directory up at ipc://{run_dir}/directory.ipc\n")
            self.address = f"ipc://{run_dir}/directory.ipc"
            units = [self.begin_unit(k, name) for k in range(2)]
            self.await_states("active", "active")
            units[1].kill()
            units[1].wait(PATIENCE_S)
            if state == "dead":
                self.await_states("active", "dead")
            else:
                # Twice 3 s for the unit that does not answer: longer than the times above.
                for _ in range(2):
                    self.assertEqual(self.states(), ["active", "active"])
        done = self.slabyard(
            "directory", "--run-dir", self.run_dir("no"), "--leases", "--dead-after", "45s",
            status=1,
        )  # fmt: skip
        self.assertIn("rise", done.stderr)

    def test_a_start_that_failed_fixes_nothing(self):
        """An address that was taken leaves no N that the next start would have to keep to."""
        first = self.run_dir("first")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            done = self.slabyard(
                "directory", "--run-dir", first, "--units", "3", "--listen", address, status=1
            )
        self.assertIn(f"cannot listen at {address}", done.stderr)
        self.start_directory()

    def test_what_does_not_fit_is_told(self):
        first = self.run_dir("first")
        done = self.slabyard("status", "--directory", "tcp://1.2.3", status=1)
        self.assertIn("; write ipc://PATH or tcp://HOST:PORT", done.stderr)
        self.start_directory()
        for words, part in [
            (("--listen", "tcp://127.0.0.1:*"), "a cluster already runs in"),
            (("--listen", "tcp://192.0.2.1:7400"), "--insecure"),
            (("--listen", "nowhere"), "cannot listen at"),
            (("--listen", "tcp://127.0.0.1:*", "--dead-after", "45s"), "rise"),
        ]:
            done = self.slabyard("directory", "--run-dir", first, *words, status=1)
            self.assertIn(part, done.stderr)
        done = self.slabyard(
            "unit", "--id", "2", "--directory", self.address, "--slab-bytes", "4MiB",
            "--run-dir", self.run_dir("third"), status=1,
        )  # fmt: skip
        self.assertIn("unit 2 of 2", done.stderr)
        self.processes[0].terminate()
        self.assertEqual(self.processes[0].wait(PATIENCE_S), 0)
        done = self.slabyard(
            "directory", "--run-dir", first, "--units", "2", "--listen", self.address, status=1
        )
        self.assertIn("other times", done.stderr)
        self.assertIn("`slabyard down", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
