"""scripts/check must never count as passed what did not pass: each way to fail is tried here."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
from count_tests import count_output  # noqa: E402
from run_command import MARK, folders, is_alone, names_used, remove_folders  # noqa: E402

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] a
[       OK ] a
[ RUN      ] b
[  FAILED  ] b
[ RUN      ] c
[       OK ] c
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] b

 1 FAILED TEST(S)
"""


def counted(text, status):
    count = count_output(text, status, "x")
    return count.passed, count.failed, len(count.skips)


class Counting(unittest.TestCase):
    def test_exit_status_alone(self):
        self.assertEqual(counted("hello\n", 0), (1, 0, 0))
        self.assertEqual(counted("hello\n", 3), (0, 1, 0))
        self.assertEqual(counted("", -11), (0, 1, 0))
        self.assertEqual(counted("no such data\n", 77), (0, 0, 1))

    def test_out_of_time(self):
        self.assertEqual(counted("5 passed, 0 failed\n", None), (5, 1, 0))

    def test_plain_line(self):
        self.assertEqual(counted("x\n7 passed, 0 failed\n", 0), (7, 0, 0))
        self.assertEqual(counted("7 passed, 2 failed\n", 0), (7, 2, 0))
        self.assertEqual(counted("7 passed, 0 failed\n", 1), (7, 1, 0))
        self.assertEqual(counted("0 passed, 0 failed\n", 0), (0, 1, 0))
        self.assertEqual(counted("skip: no pidfd\n1 passed, 0 failed\n", 0), (1, 0, 1))

    def test_cmocka(self):
        self.assertEqual(counted(CMOCKA, 1), (2, 1, 0))
        skipped = (
            "[==========] Running 2 test(s).\n{}[  PASSED  ] 1 test(s).\n"
            "[  SKIPPED ] 1 test(s), listed below:\n"
        )
        with_reason = count_output(skipped.format("skip: no disk\n"), 0, "x")
        self.assertEqual((with_reason.passed, with_reason.failed), (1, 0))
        self.assertEqual(with_reason.skips, [("x", "no disk")])
        self.assertIn("no reason seen", count_output(skipped.format(""), 0, "x").skips[0][1])
        died = "[==========] tests: Running 4 test(s).\n[ RUN      ] a\n[       OK ] a\n"
        self.assertEqual(counted(died, -6), (0, 4, 0))
        left = "[  FAILED  ] GROUP TEARDOWN\n[==========] x: Running 1 test(s).\n"
        self.assertEqual(counted(left + "[  PASSED  ] 1 test(s).\n", 0), (1, 1, 0))
        self.assertEqual(
            counted("[==========] Running 0 test(s).\n[  PASSED  ] 0 test(s).\n", 0), (0, 1, 0)
        )

    def test_unittest(self):
        self.assertEqual(counted("Ran 5 tests in 0.1s\n\nOK\n", 0), (5, 0, 0))
        self.assertEqual(
            counted("Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n", 1), (3, 2, 0)
        )
        skipped = "test_a ... skipped 'no disk'\n\nRan 5 tests in 0.1s\n\nOK (skipped=1)\n"
        self.assertEqual(counted(skipped, 0), (4, 0, 1))
        self.assertEqual(counted("Ran 0 tests in 0.1s\n\nOK\n", 0), (0, 1, 0))

    def test_tap(self):
        self.assertEqual(counted("1..2\nok 1 - a\nnot ok 2 - b\n", 1), (1, 1, 0))
        self.assertEqual(counted("1..3\nok 1 - a\n", 0), (1, 2, 0))
        self.assertEqual(counted("1..1\nok 1 - a # SKIP no disk\n", 0), (0, 0, 1))


class Leaving(unittest.TestCase):
    """What tests that were killed leave in /tmp, here in a folder of this test's own."""

    def setUp(self):
        self.top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)

    def make(self, name):
        path = self.top / name
        path.mkdir()
        (path / "within").write_text("x")
        long_ago = time.time() - 3600
        os.utime(path, (long_ago, long_ago))
        return path

    def test_folders(self):
        """What was there before, is somebody's, or was touched just now stays."""
        self.make("slabyard-before")
        before = folders(self.top)
        self.make("slabyard-left")
        self.make("other")
        (self.make("slabyard-young") / "new").touch()
        bound = str(self.make("slabyard-bound") / "within.ipc")
        held = self.make("slabyard-held")
        wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with contextlib.ExitStack() as using:
            using.enter_context(socket.socket(socket.AF_UNIX)).bind(bound)
            os.utime(Path(bound).parent, (0, 0))
            for words, place in ((wait, held), ([*wait, self.make("slabyard-named")], None)):
                user = subprocess.Popen(words, stdin=subprocess.PIPE, cwd=place)
                using.callback(user.communicate)
            remove_folders(before, names_used(), self.top)
            left = sorted(path.name for path in self.top.iterdir())
        names = ["slabyard-before", "slabyard-bound", "slabyard-held", "slabyard-named"]
        self.assertEqual(left, ["other", *names, "slabyard-young"])

    def test_other_runs(self):
        """Each may be between two steps of a test of its own."""
        with mock.patch.dict(os.environ):
            os.environ.pop(MARK, None)
            self.assertTrue(is_alone(b"HOME=/\0"))
            wait = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
            other = subprocess.Popen(
                wait, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {MARK: "1-1"}
            )
            self.addCleanup(other.communicate)
            other.stdout.readline()
            self.assertFalse(is_alone(names_used()))
            os.environ[MARK] = "2-2"
            self.assertFalse(is_alone(b""))


class Running(unittest.TestCase):
    """The real runner on a small tree of its own."""

    def setUp(self):
        self.tree = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tree)
        (self.tree / "scripts").mkdir()
        for name in ("run_suites.py", "run_command.py", "count_tests.py"):
            shutil.copy(SCRIPTS / name, self.tree / "scripts")
        self.write(
            "HACKING.md",
            "## Allowed skips\n- `no such kernel`: why\n\n## Next\n- `not a reason`\n",
        )

    def write(self, name, text):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text)

    def check(self, suites, *words, **env):
        self.write("scripts/suites", suites)
        done = subprocess.run(
            [sys.executable, "scripts/run_suites.py", *words],
            cwd=self.tree,
            text=True,
            capture_output=True,
            env=os.environ | env,
        )
        lines = done.stdout.splitlines()
        return done.returncode, lines[-1] if lines else "", done.stdout + done.stderr

    def test_passes_and_failures_are_added(self):
        status, last, _ = self.check(
            "suite a - 9 run echo 3 passed, 0 failed\nsuite b - 9 run false\n"
        )
        self.assertEqual((status, last), (1, "3 passed, 1 failed"))
        status, last, _ = self.check(
            "suite a - 9 run echo 3 passed, 0 failed\nsuite b - 9 run true\n"
        )
        self.assertEqual((status, last), (0, "4 passed, 0 failed"))

    def test_missing_things_fail(self):
        for line in ("run no-such-program", "each test/none_*.py", "run python3 no/such.py"):
            status, last, _ = self.check(f"suite a - 9 {line}\n")
            self.assertEqual((status, last), (1, "0 passed, 1 failed"), line)

    def test_broken_build_fails_its_suites(self):
        self.write("meson.build", "this is not meson")
        status, last, text = self.check(
            "build b CC=gcc\nsuite u b 9 meson unit\nsuite l b 9 run true {build}\n"
        )
        self.assertEqual((status, last), (1, "0 passed, 3 failed"), text)

    def test_a_build_is_counted_once(self):
        self.write("meson.build", "project('x', 'c')")
        suites = "build b CC=gcc\nsuite u b 9 run true {build}\nsuite v b 9 run true {build}\n"
        self.assertEqual(self.check(suites, "u", "v")[:2], (0, "3 passed, 0 failed"))

    def test_a_long_suite_waits_to_be_asked_for(self):
        self.write("meson.build", "project('x', 'c')")
        suites = "build b CC=gcc\nsuite u - 9 run true\nlong v b 9 run true {build}\n"
        self.assertEqual(self.check(suites)[:2], (0, "1 passed, 0 failed"))
        self.assertEqual(self.check(suites, "--long")[:2], (0, "3 passed, 0 failed"))
        self.assertEqual(self.check(suites, "v")[:2], (0, "2 passed, 0 failed"))

    def test_warning_fails_the_build(self):
        self.write("meson.build", "project('x', 'c')\nexecutable('x', 'x.c')\n")
        self.write("x.c", "#warning look\nint main(void) { return 0; }\n")
        status, last, text = self.check("build b CC=gcc\n", "build-b")
        self.assertEqual((status, last), (1, "0 passed, 1 failed"), text)

    def test_meson_tests_are_counted_one_by_one(self):
        self.write(
            "meson.build",
            "project('x', 'c')\nsh = find_program('sh')\n"
            "test('a', sh, args: ['-c', 'echo 4 passed, 1 failed; exit 1'], suite: 'unit')\n"
            "test('b', sh, args: ['-c', 'kill -9 $$'], suite: 'unit')\n"
            "test('c', sh, args: ['-c', 'true'], suite: 'unit')\n",
        )
        status, last, text = self.check(
            "build b CC=gcc\nsuite u b 60 meson unit\nsuite v b 9 meson none\n"
        )
        self.assertEqual((status, last), (1, "6 passed, 3 failed"), text)

    def test_out_of_time_fails(self):
        status, last, text = self.check("suite a - 0.2 run sleep 60\n")
        self.assertEqual((status, last), (1, "0 passed, 1 failed"), text)

    def test_what_is_left_is_ended_and_removed(self):
        """A program of a session of its own, and the slab of a unit that is gone; what somebody
        has stays."""
        slab = f"/dev/shm/slabyard-test-{os.getpid()}"
        mine = Path(slab + "-used")
        self.write(
            "leave.sh",
            f"setsid sleep 600 9<>{slab}-held & echo $! >pid; echo x >{slab}; echo x >{mine}\n",
        )
        self.addCleanup(mine.unlink, missing_ok=True)
        with mine.open("a"):
            status, last, text = self.check("suite a - 60 run bash leave.sh\n")
        self.assertEqual((status, last), (0, "1 passed, 0 failed"), text)
        left = Path("/proc", (self.tree / "pid").read_text().strip(), "status")
        self.assertTrue(not left.exists() or "\nState:\tZ" in left.read_text())
        self.assertEqual([*Path("/dev/shm").glob(Path(slab).name + "*")], [mine])

    def test_the_end_says_what_failed(self):
        self.write("test_it.sh", "echo FAILED: the third thing; seq 200; exit 1\n")
        status, _, text = self.check("suite a - 9 each test_*.sh\nsuite b - 9 run true\n")
        end = text.splitlines()[-3:]
        self.assertEqual(end[:2], ["FAILED   a", "  | FAILED: the third thing"], text)
        self.assertEqual((status, end[2]), (1, "1 passed, 1 failed"), text)

    def test_two_lanes_run_two_suites_at_a_time(self):
        meet = "touch $1; for i in $(seq 2000); do [ -e $2 ] && exit 0; sleep 0.01; done; exit 1\n"
        self.write("meet.sh", meet)
        suites = "suite a - 60 run sh meet.sh a b\nsuite b - 60 run sh meet.sh b a\n"
        status, last, text = self.check(suites, "--lanes", "2")
        self.assertEqual((status, last), (0, "2 passed, 0 failed"), text)

    def test_what_waits_runs_beside_both(self):
        meet = "touch $1; for i in $(seq 2000); do [ -e a ] && [ -e b ] && [ -e c ] && exit 0; "
        self.write("meet.sh", meet + "sleep 0.01; done; exit 1\n")
        self.write("test_c.sh", "sh meet.sh c\n")
        suites = (
            "suite a - 60 run sh meet.sh a\nsuite b - 60 run sh meet.sh b\n"
            "suite c - 60 each test_*.sh\n"
        )
        status, last, text = self.check(suites, "--lanes", "2")
        self.assertEqual((status, last), (0, "3 passed, 0 failed"), text)

    def test_work_runs_beside_all_and_gives_way(self):
        """One that keeps all processors busy does beside other such ones, one of which is no work.
        It has its niceness, and so has its session where the kernel counts by sessions."""
        meet = "touch $1; for i in $(seq 2000); do [ -e a ] && [ -e b ] && [ -e c ] && "
        self.write("meet.sh", meet + "[ -e d ] && exit 0; sleep 0.01; done; exit 1\n")
        behind = (
            "g=/proc/self/autogroup; for i in $(seq 2000); do"
            ' [ "$(nice)" -ge 5 ] && { [ ! -e $g ] || grep -q "nice 5$" $g; } && break;'
            " sleep 0.01; done; [ $i -lt 2000 ] && sh meet.sh c"
        )
        self.write("behind.sh", behind + "\n")
        suites = (
            "suite a - 60 run sh meet.sh a {jobs}\nsuite b - 60 run sh meet.sh b\n"
            "suite c - 60 work sh behind.sh {jobs}\nsuite d - 60 work sh meet.sh d {jobs}\n"
        )
        status, last, text = self.check(suites, "--lanes", "2")
        self.assertEqual((status, last), (0, "4 passed, 0 failed"), text)

    def test_what_fails_fails_as_work(self):
        for line in ("false", "no-such-program", "sleep 60"):
            status, last, _ = self.check(f"suite a - 0.2 work {line}\n", "--lanes", "2")
            self.assertEqual((status, last), (1, "0 passed, 1 failed"), line)

    def test_one_that_keeps_all_processors_busy_is_alone_among_its_kind(self):
        self.write("wide.sh", "mkdir here && seq 100000 >here/x && rm -r here\n")
        lines = [f"suite {name} - 60 run sh wide.sh {{jobs}}\n" for name in "abcdef"]
        status, last, text = self.check("".join(lines), "--lanes", "4")
        self.assertEqual((status, last), (0, "6 passed, 0 failed"), text)

    def test_each_suite_prints_in_one_piece(self):
        self.write("test_a.sh", "echo 2 passed, 0 failed\n")
        self.write("test_b.sh", "echo 3 passed, 0 failed\n")
        lines = [f"suite {name} - 60 each test_*.sh\n" for name in "abcd"]
        status, last, text = self.check("".join(lines), "--lanes", "4")
        self.assertEqual((status, last), (0, "20 passed, 0 failed"), text)
        words = [line.split()[:2] for line in text.splitlines()[:12]]
        for i in range(0, 12, 3):
            self.assertEqual([words[i][0], words[i + 1][0]], ["test_a.sh", "test_b.sh"], text)
            self.assertEqual(words[i + 2][0], "ok", text)

    def test_skips(self):
        skip = "#!/bin/sh\necho {}\nexit 77\n"
        for reason, data, result in (
            ("no such kernel here", "/nowhere", (1, "0 passed, 0 failed")),
            ("not a reason", "/nowhere", (1, "0 passed, 1 failed")),
            ("no shared data", "/nowhere", (1, "0 passed, 0 failed")),
            ("no shared data", "/", (1, "0 passed, 1 failed")),
        ):
            self.write("test_it.sh", skip.format(reason))
            status, last, text = self.check("suite a - 9 each test_*.sh\n", SLABYARD_DATA=data)
            self.assertEqual((status, last), result, text)
            self.assertIn(f"skip     test_it.sh: {reason}", text)

    def test_bad_tables_and_names_are_refused(self):
        self.assertNotEqual(self.check("suite a - 9 walk true\n")[0], 0)
        self.assertNotEqual(self.check("suite a nowhere 9 run true\n")[0], 0)
        self.assertNotEqual(self.check("suite a - 9 run true\n", "b")[0], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
