"""What the command says of units that are dead or do not answer."""

import json
import os
import signal
import struct
import subprocess
import unittest

from test_cluster import PATIENCE_S, SLABYARD
from test_commands import CommandCase


class TestAbsent(CommandCase):
    def test_a_dead_unit_is_told(self):
        self.load(['{"a":1}\n'] * 6)
        os.kill(self.reports()[1]["pid"], 9)
        lost = (
            "unit 1: the unit is dead, and its rows, those with row % 3 = 1, are lost; put them "
            "again once the unit runs anew: `slabyard down`, then `slabyard up`, where --restart"
        )
        refused = (
            "unit 1: the unit is dead; it takes no rows until it runs anew: `slabyard down`, then "
            "`slabyard up`, where --restart"
        )
        for words, part in [(["dump"], lost), (["ls"], lost), (["get", "1", "a"], lost),
                            (["put", "1", "a"], refused), (["load", "-"], refused)]:  # fmt: skip
            done = subprocess.run(
                [SLABYARD, "--run-dir", self.run_dir, *words], input=b'{"a":1}\n{"a":2}\n',
                capture_output=True, timeout=PATIENCE_S,
            )  # fmt: skip
            self.assertEqual(done.returncode, 1, words)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertIn(part, done.stderr.decode())
        self.assertEqual(self.command("get", "0", "a").encode(), struct.pack("<q", 1))

    def test_a_silent_unit_is_told_and_the_timeout_ends_it(self):
        self.load(['{"a":1}\n'] * 6)
        pid = self.reports()[1]["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        commands = [["dump"], ["ls"], ["get", "1", "a"], ["put", "1", "a"], ["rm", "1"],
                    ["load", "-"]]  # fmt: skip
        for words, child in [(words, self.begin(words)) for words in commands]:
            out, err = child.communicate(timeout=PATIENCE_S)
            self.assertEqual((child.returncode, out), (1, b""), words)
            told = err.decode().splitlines()
            self.assertEqual(len(told), 2, told)
            self.assertEqual(
                told[0],
                f"slabyard {words[0]}: unit 1 does not answer; waiting up to 7500ms",
            )
            self.assertIn("unit 1: no answer", told[1])
            self.assertIn("; try again, and see `slabyard status`", told[1])
        self.assertIn("takes a time of at least", self.command("ls", "--timeout", "0", status=2))

    def begin(self, words):
        """All of them wait at the same time, long enough for a busy host to say that they do."""
        rows = os.path.join(self.top, "rows")
        with open(rows, "w") as file:
            file.write('{"a":1}\n{"a":2}\n')
        with open(rows) as file:
            child = subprocess.Popen(
                [SLABYARD, "--run-dir", self.run_dir, *words, "--timeout", "7.5s"],
                stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        self.addCleanup(child.wait, PATIENCE_S)
        return child

    def test_a_slow_unit_is_waited_for(self):
        """By status, as long as --timeout says, and by a demo, which asks again: both outlast two
        that wait their usual time and are told nothing."""
        pid = self.reports()[1]["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        patient = []
        for words in (["status", "--json", "--timeout", "10m"], ["demo", "--rows", "6"]):
            child = subprocess.Popen(
                [SLABYARD, *words, "--run-dir", self.run_dir],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.addCleanup(child.communicate)
            self.addCleanup(child.terminate)
            patient.append(child)
        for _ in range(2):
            usual = json.loads(self.command("status", "--json"))["units"]
            self.assertEqual([unit["answered"] for unit in usual], [True, False, True])
        self.assertEqual([child.poll() for child in patient], [None, None])
        os.kill(pid, signal.SIGCONT)
        told = [child.communicate(timeout=PATIENCE_S) for child in patient]
        self.assertEqual([child.returncode for child in patient], [0, 0], told)
        self.assertTrue(all(unit["answered"] for unit in json.loads(told[0][0])["units"]))

    def test_a_silent_directory_is_told(self):
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        self.addCleanup(os.kill, supervisor, signal.SIGCONT)
        done = subprocess.run(
            [SLABYARD, "--run-dir", self.run_dir, "ls", "--timeout", "7.5s"],
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        told = done.stderr.splitlines()
        self.assertEqual((done.returncode, len(told)), (1, 2), told)
        self.assertEqual(
            told[0], "slabyard ls: the directory does not answer; waiting up to 7500ms"
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
