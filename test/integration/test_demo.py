"""The demo: its work, what it tells, and how it fails when bytes are damaged or processes die."""

import glob
import json
import os
import re
import signal
import subprocess
import time
import unittest

from test_cluster import PATIENCE_S, SHM, SLABYARD, ClusterCase, await_that, is_alive
from test_commands import ROLLOUTS

PHASES = ["put", "read", "write_back", "read_again", "clear"]


def processes():
    """pid: (parent, name) of all that run."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                head, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        words = rest.split()
        if words[0] != "Z":
            found[int(head.split()[0])] = (int(words[1]), head.partition("(")[2])
    return found


def descendants(pid):
    """pid: name of the children of a process, and of theirs."""
    every, found = processes(), {pid: ""}
    for _ in range(4):
        for child, (parent, name) in every.items():
            if parent in found:
                found[child] = name
    del found[pid]
    return found


class DemoCase(ClusterCase):
    def setUp(self):
        super().setUp()
        self.env = {**os.environ, "TMPDIR": self.top, "SLABYARD_RUN_DIR": ""}

    def demo(self, *words, status=0):
        done = subprocess.run(
            [SLABYARD, "demo", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=self.env,
        )
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        self.assertEqual(os.listdir(self.top), [])
        if status == 0:
            self.assertEqual(done.stderr, "")
        return done

    def report(self, *words):
        report = json.loads(self.demo("--json", *words).stdout)
        self.assertEqual((report["ok"], report["problem"]), (True, None))
        self.assertEqual(report["leaked_bytes"], 0)
        self.assertEqual(report["steps_done"], report["steps"])
        self.assertEqual(list(report["phases"]), PHASES)
        put, read, back, again, clear = (report["phases"][name] for name in PHASES)
        for part in ("rows", "values", "bytes"):
            self.assertEqual(put[part], read[part], part)
        self.assertEqual(back["rows"], put["rows"])
        self.assertEqual(back["values"], put["rows"])
        self.assertEqual(clear["values"], put["values"] + back["values"])
        self.assertEqual(report["checked_bytes"], read["bytes"] + again["bytes"])
        self.assertGreater(report["peak_bytes"], 0)
        for phase in report["phases"].values():
            self.assertGreater(phase["rows_per_s"], 0)
            self.assertGreater(phase["gb_per_s"], 0)
        return report


class TestWork(DemoCase):
    def test_from_a_seed(self):
        done = self.demo()
        for words in ("put by producers", "read by trainers", "written back", "read again"):
            self.assertRegex(done.stdout, rf"(?m)^{words} +2048 +\d+ +\S+ \S+ +\d+ +\d+\.\d+$")
        self.assertIn("every byte is right: ", done.stdout)
        self.assertIn("every byte came back: ", done.stdout)

    def test_numbers(self):
        report = self.report("--rows", "100", "--steps", "3", "--units", "2", "--producers", "3",
                             "--trainers", "1")  # fmt: skip
        self.assertEqual(report["phases"]["put"]["rows"], 300)
        self.assertEqual(report["phases"]["put"]["values"], 2100)
        self.assertEqual(
            [report[name] for name in ("units", "producers", "trainers", "rows", "source")],
            [2, 3, 1, 100, "seed 1"],
        )

    def test_few_and_many(self):
        self.assertEqual(self.report("--rows", "1", "--steps", "1")["phases"]["put"]["rows"], 1)
        report = self.report("--rows", "17", "--units", "7", "--producers", "5", "--trainers", "9")
        self.assertEqual(report["phases"]["read"]["rows"], 68)
        report = self.report("--rows", "20000", "--steps", "1", "--units", "1")
        self.assertEqual(report["phases"]["clear"]["rows"], 20000)

    def test_seeds_differ(self):
        a, b, c = (self.report("--seed", s, "--steps", "1")["phases"]["put"] for s in "556")
        self.assertEqual(a["bytes"], b["bytes"])
        self.assertNotEqual(a["bytes"], c["bytes"])

    def test_in_a_cluster_that_runs(self):
        self.up(3, "16MiB")
        before = self.reports()
        subprocess.run(
            [SLABYARD, "load", "-", "--run-dir", self.run_dir],
            input=b'{"mine":1}\n' * 600, capture_output=True, check=True,
        )  # fmt: skip
        mine = [unit["bytes"]["free"] for unit in self.reports()]
        done = subprocess.run(
            [SLABYARD, "demo", "--run-dir", self.run_dir, "--steps", "2"],
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        after = self.reports()
        self.assertEqual([unit["pid"] for unit in after], [unit["pid"] for unit in before])
        self.assertEqual([unit["bytes"]["free"] for unit in after], mine)
        self.assertEqual(sum(unit["rows"] for unit in after), 600)

    def test_which_cluster(self):
        """Only one that the command line names: the environment may name that of real work."""
        self.env["SLABYARD_RUN_DIR"] = os.path.join(self.top, "none")
        self.demo("--steps", "1")
        named = ["--run-dir", self.env["SLABYARD_RUN_DIR"] + "/"]
        self.assertIn("no cluster runs in", self.demo(*named, status=1).stderr)
        for words in (["--units", "3"], ["--slab-bytes", "16MiB"]):
            done = self.demo(*named, *words, status=2)
            self.assertIn("are of a cluster of its own: leave them or --run-dir", done.stderr)

    @unittest.skipUnless(os.path.exists(ROLLOUTS), "no shared data")
    def test_real_rollouts(self):
        report = self.report("--rollouts", ROLLOUTS, "--units", "3", "--producers", "2",
                             "--trainers", "2")  # fmt: skip
        self.assertEqual(report["steps"], 11)
        self.assertEqual(report["phases"]["put"]["rows"], 5276)
        with open(ROLLOUTS) as file:
            lines = [json.loads(line) for line in file]
        size = 0
        for line in lines:
            common = [v for v in line.values() if isinstance(v, str)]
            for name, rollout in line.items():
                if isinstance(rollout, dict):
                    texts = [*common, name, rollout["solution"]]
                    size += 1 + sum(len(text.encode()) for text in texts)
        self.assertEqual(report["phases"]["put"]["bytes"], size)

    def test_other_files(self):
        path = os.path.join(self.top, "r.jsonl")

        def run(text, *words, status=0):
            with open(path, "w") as file:
                file.write(text)
            done = subprocess.run(
                [SLABYARD, "demo", "--json", "--rollouts", path, *words],
                capture_output=True, text=True, timeout=PATIENCE_S, env=self.env,
            )  # fmt: skip
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertEqual(os.listdir(self.top), ["r.jsonl"])
            return done

        # Rollouts that differ in fields and types, lines without any, empty values.
        odd = [{"q": "x", "a": {"s": "1", "n": 1}, "b": {"s": "", "n": 1.5, "m": [1, 2]}},
               {"q": 5, "s": [], "advantages": 1}, {"only": None},
               {"a": {"deep": {"er": 1}, "q": True}, "q": "hidden"}]  # fmt: skip
        done = run("".join(json.dumps(line) + "\n\n" for line in odd * 5), "--rows", "3")
        put = json.loads(done.stdout)["phases"]["put"]
        self.assertEqual((put["rows"], put["values"]), (25, 5 * (4 + 5 + 3 + 1 + 3)))
        for text, part in [
            ("", "has no line"),
            ('{"a":1}\n{"a":\n', "line 2: no JSON"),
            (json.dumps({f"f{i}": i for i in range(65)}), "more than 64 fields"),
        ]:
            self.assertIn(part, run(text, status=1).stderr)
        os.unlink(path)
        done = self.demo("--rollouts", path, status=1)
        self.assertIn("No such file", done.stderr)

    def test_no_room(self):
        done = self.demo("--slab-bytes", "2MiB", "--units", "1", status=1)
        self.assertRegex(
            done.stderr,
            r"^slabyard demo: producer \d: step 1, row \d+, field \w+: not put: .*no room .*\n$",
        )
        done = self.demo("--slab-bytes", "64TiB", status=1)
        self.assertRegex(done.stderr, r"unit \d: .* give a smaller --slab-bytes")
        done = self.demo("--slab-bytes", "0", status=2)
        self.assertIn("--slab-bytes takes a size of at least 64 KiB", done.stderr)
        self.env["TMPDIR"] = os.path.join(self.top, "x" * 90)
        self.assertIn("$TMPDIR is too long", self.demo(status=1).stderr)


class TestHarm(DemoCase):
    """The demo runs for as long as it takes to hurt it."""

    def begin(self, *words):
        self.child = subprocess.Popen(
            [SLABYARD, "demo", "--steps", "1000000", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env,
        )  # fmt: skip
        self.addCleanup(self.end_child)
        self.family = await_that("all work", self.whole_family)
        (self.home,) = glob.glob(os.path.join(self.top, "slabyard-demo-*"))
        self.slab_files = [path for path in glob.glob(f"{SHM}/slabyard-*") if self.is_ours(path)]
        self.slabs.update(self.slab_files)
        self.assertEqual(len(self.slab_files), 3)

    def end_child(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.communicate()

    def named(self, name):
        return sorted(pid for pid, one in self.family.items() if one == name)

    def whole_family(self):
        self.assertIsNone(self.child.poll(), "it ended by itself")
        found = descendants(self.child.pid)
        names = sorted(found.values())
        want = ["demo-producer", "demo-trainer", "slabyard-unit"]
        complete = all(names.count(name) == n for name, n in zip(want, (2, 2, 3)))
        # A trainer has mapped the slabs once the first step is read.
        return complete and self.has_mapped(found) and found

    def has_mapped(self, family):
        trainers = [pid for pid, name in family.items() if name == "demo-trainer"]
        for pid in trainers:
            with open(f"/proc/{pid}/maps") as file:
                if len(set(re.findall(rf"{SHM}/slabyard-\S+", file.read()))) < 3:
                    return False
        return True

    def is_ours(self, path):
        with open(f"/proc/{self.named('demo-trainer')[0]}/maps") as file:
            return path in file.read()

    def end(self, part):
        out, err = self.child.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.child.returncode, 1, out + err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("slabyard demo: "), err)
        self.assertRegex(err, part)
        self.assert_gone()
        return out

    def assert_gone(self):
        await_that("all end", lambda: not any(is_alive(pid) for pid in self.family))
        self.assertEqual(os.listdir(self.top), [])
        self.assertEqual([path for path in self.slab_files if os.path.exists(path)], [])

    def scribble(self):
        """Overwrites bytes all over what is in use, as fast as it can, until the demo ends."""
        files = [os.open(path, os.O_RDWR) for path in self.slab_files]
        try:
            at, end = 0, time.monotonic() + PATIENCE_S
            while self.child.poll() is None and time.monotonic() < end:
                for fd in files:
                    os.pwrite(fd, b"\xa5", at)
                at = (at + 4099) % (3 << 20)
        finally:
            for fd in files:
                os.close(fd)

    def test_scribbled_bytes_are_seen(self):
        self.begin()
        self.scribble()
        self.end(r"(producer|trainer) \d: step \d+, row \d+, field \w+: .")

    def test_scribbled_bytes_of_real_rollouts_are_seen(self):
        if not os.path.exists(ROLLOUTS):
            self.skipTest("no shared data")
        self.begin("--json", "--rollouts", ROLLOUTS)
        self.scribble()
        report = json.loads(self.end(r"(producer|trainer) \d: step \d+, row \d+, field \w+: ."))
        self.assertFalse(report["ok"])
        self.assertRegex(report["problem"], r"row \d+, field \w+")

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                self.begin()
                self.child.send_signal(number)
                self.end(rf"stopped by signal {int(number)} ")

    def test_killed_worker(self):
        for name, part in [("demo-producer", "producer"), ("demo-trainer", "trainer")]:
            with self.subTest(name):
                self.begin()
                os.kill(self.named(name)[1], signal.SIGKILL)
                self.end(rf"{part} 1 was killed by signal 9 ")

    def test_killed_unit(self):
        self.begin()
        os.kill(self.named("slabyard-unit")[0], signal.SIGKILL)
        self.end(r"unit \d: .*; unit \d \(process \d+\) was killed by signal 9 ")

    def test_killed_cluster(self):
        self.begin()
        supervisor, _ = processes()[self.named("slabyard-unit")[0]]
        os.kill(supervisor, signal.SIGKILL)
        self.end("the demo's cluster has ended|unit")

    def test_killed_demo(self):
        self.begin()
        self.child.kill()
        self.child.communicate()
        self.assert_gone()

    def hurt_among_others(self, hurt):
        """A demo in a cluster that runs; returns what it told after `hurt` was done to it."""
        child = subprocess.Popen(
            [SLABYARD, "demo", "--steps", "1000000", "--run-dir", self.run_dir],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            await_that("it puts", lambda: sum(unit["rows"] for unit in self.reports()) > 0)
            hurt(child)
            out, err = child.communicate(timeout=PATIENCE_S)
        finally:
            if child.poll() is None:
                child.kill()
                child.communicate()
        self.assertEqual(child.returncode, 1, out + err)
        if os.environ.get("SLABYARD_SANITIZER") == "tsan":
            # Its symbolizer complains when the process ends under it.
            err = "".join(f"{line}\n" for line in err.splitlines() if line.startswith("slabyard"))
        self.assertEqual(err.count("\n"), 1, err)
        return err

    def free_bytes(self):
        return [unit["bytes"]["free"] for unit in self.reports()]

    def test_stopped_among_others(self):
        self.up(3, "16MiB")
        before = self.free_bytes()
        err = self.hurt_among_others(lambda child: child.terminate())
        self.assertIn("stopped by signal 15", err)
        await_that("all memory is back", lambda: self.free_bytes() == before)

    def test_a_leak_is_seen(self):
        """What another puts meanwhile looks the same as what a unit does not give back."""
        self.up(3, "16MiB")
        before = self.free_bytes()
        put = [SLABYARD, "put", "4", "f", "--run-dir", self.run_dir]
        err = self.hurt_among_others(
            lambda child: subprocess.run(put, input=b"x", capture_output=True, check=True)
        )
        self.assertRegex(
            err,
            r"after the clear of step \d+ unit 1 has \d+ bytes less free than before the first",
        )
        self.slabyard("rm", "4", "--run-dir", self.run_dir)
        await_that("all memory is back", lambda: self.free_bytes() == before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
