"""up --restart: units that die come back empty; and what a killed supervisor leaves."""

import os
import random
import re
import signal
import struct
import subprocess
import unittest

from test_cluster import PATIENCE_S, SLABYARD, ClusterCase, await_that, held_port, is_alive


class RestartCase(ClusterCase):
    def one(self, unit_id):
        return self.reports()[unit_id]

    def kill(self, unit_id):
        """Kills a unit and waits for the next one in its slot."""
        before = self.one(unit_id)
        os.kill(before["pid"], signal.SIGKILL)

        def has_changed():
            now = self.one(unit_id)
            return now["incarnation"] != before["incarnation"] and now["answered"] and now

        after = await_that(f"unit {unit_id} is restarted", has_changed)
        self.assertFalse(is_alive(before["pid"]))
        self.note_what_runs()
        return after

    def log(self):
        with open(os.path.join(self.run_dir, "slabyard.log")) as file:
            return file.read()


class TestRestart(RestartCase):
    def command(self, data, *words, status=0):
        done = subprocess.run(
            [SLABYARD, "--run-dir", self.run_dir, *words], input=data, capture_output=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def test_a_killed_unit_comes_back_empty(self):
        self.up(3, "4MiB", "--restart")
        for row in range(6):
            self.command(struct.pack("<q", row), "put", str(row), "f", "--dtype", "i64")
        before = self.reports()
        after = self.kill(1)
        self.assertEqual(after["state"], "active")
        self.assertEqual((after["rows"], after["bytes"]["published"]), (0, 0))
        self.assertEqual((before[1]["starts"], after["starts"]), (1, 2))
        for i in (0, 2):
            self.assertEqual(self.one(i)["incarnation"], before[i]["incarnation"])
            self.assertEqual(self.one(i)["starts"], 1)
        self.assertEqual(self.command(b"", "get", "2", "f"), struct.pack("<q", 2))
        self.command(b"", "get", "1", "f", status=1)  # absent: the new one never had it
        self.command(b"again", "put", "1", "f")
        self.assertEqual(self.command(b"", "get", "1", "f"), b"again")
        log = self.log()
        told = [rf"unit 1 \(process {before[1]['pid']}\) was killed by signal 9 .*"
                r": what it held is gone, it is restarted in 100ms",
                rf"unit 1 is restarted as process {after['pid']}"]  # fmt: skip
        self.assertEqual(log.count("\n"), 2, log)
        for line, part in zip(log.splitlines(), told):
            self.assertRegex(line, part)
        self.down()
        self.assert_nothing_is_left("slabyard.log")

    def test_again_and_again(self):
        self.up(2, "4MiB", "--restart")
        seen = {unit["incarnation"] for unit in self.reports()}
        for turn in range(4):
            self.kill(turn % 2)
            self.command(b"x", "put", str(turn), "f")
            seen.add(self.one(turn % 2)["incarnation"])
        self.assertEqual(len(seen), 6)
        self.assertEqual([unit["starts"] for unit in self.reports()], [3, 3])
        table = self.slabyard("status", "--run-dir", self.run_dir).stdout
        for unit in self.reports():
            self.assertIn(f"restarted 2 times, incarnation {unit['incarnation']}\n", table)
        # Each of the four ends is told once, and each slot waits longer the second time.
        log = self.log()
        self.assertEqual(log.count("was killed by signal 9"), 4, log)
        self.assertEqual(re.findall(r"restarted in (\w+)", log), ["100ms"] * 2 + ["200ms"] * 2)
        self.down()
        self.assert_nothing_is_left("slabyard.log")

    def test_not_for_ever(self):
        """A unit that cannot be started again: something else has its port."""
        with held_port() as port:
            listen = f"tcp://127.0.0.1:{port.getsockname()[1]}"
            self.up(1, "4MiB", "--restart", "--listen", listen)
            os.kill(self.supervisor(), signal.SIGSTOP)  # until we listen there
            os.kill(self.one_pid(), signal.SIGKILL)
            await_that("the port is free", lambda: self.listens(port))
            os.kill(self.supervisor(), signal.SIGCONT)
            await_that("it gives up", lambda: "now stays dead" in self.log())
            log = self.log()
            self.assertEqual(log.count("unit 0 is restarted as process"), 8, log)
            self.assertEqual(log.count("Address already in use"), 8, log)
            self.assertIn("it was restarted 8 times in a row and now stays dead", log)
            self.assertEqual(self.one(0)["state"], "dead")
        self.down()
        self.assert_nothing_is_left("slabyard.log")

    def one_pid(self):
        with open(os.path.join(self.run_dir, "unit-0.lock")) as file:
            return int(re.search(r"pid (\d+)", file.read())[1])

    def listens(self, port):
        try:
            port.listen()
        except OSError:
            return False
        return True

    def test_down_while_one_is_due(self):
        self.up(2, "4MiB", "--restart")
        for _ in range(3):
            self.kill(0)
        os.kill(self.one(0)["pid"], signal.SIGKILL)
        await_that("its end is told", lambda: "restarted in 800ms" in self.log())
        self.down()
        self.assert_nothing_is_left("slabyard.log")

    def test_without_it_the_dead_stay_dead(self):
        self.up(2)
        os.kill(self.one(1)["pid"], signal.SIGKILL)
        await_that("the directory knows", lambda: self.one(1)["state"] == "dead")
        self.assertNotIn("restarted", self.log())


class TestKilledSupervisor(RestartCase):
    def test_at_any_instant_of_a_restart(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        for _ in range(6):
            self.up(2, "4MiB", "--restart")
            before = self.one(0)
            os.kill(before["pid"], signal.SIGKILL)
            if chance.random() < 0.5:
                await_that("its end is told", lambda: "restarted in" in self.log())
            looks = chance.randrange(200)  # some way into the restart, or not yet at it
            for _ in range(looks):
                self.supervisor()
            self.kill_supervisor()
            self.up(2, "4MiB", "--restart")
            self.assertEqual([unit["state"] for unit in self.reports()], ["active"] * 2)
            self.assertNotEqual(self.one(0)["incarnation"], before["incarnation"])
            self.down()
            self.assert_nothing_is_left()

    def test_a_stopped_unit_is_let_be(self):
        """It may still write to its slab: nothing of it is taken away while it lives. Stopped
        children of a killed supervisor are set going by the system, so this one is another's."""
        self.up(2, "4MiB", "--restart")
        self.kill_supervisor()
        for pid in self.pids:
            self.await_end(pid)
        words = ["unit", "--run-dir", self.run_dir, "--id", "1", "--units", "2"]
        unit = subprocess.Popen([SLABYARD, *words, "--slab-bytes", "4MiB"])
        try:
            lock = os.path.join(self.run_dir, "unit-1.lock")
            await_that("it serves", lambda: os.path.exists(lock[:-4] + "sock"))
            with open(lock) as file:
                slab = re.search(r"slab (\S+)", file.read())[1]
            unit.send_signal(signal.SIGSTOP)
            done = self.up(2, "4MiB", "--restart", status=1)
            self.assertIn(
                f"unit 1 (process {unit.pid}) of a former cluster still runs", done.stderr
            )
            self.assertIn("`slabyard down` ends it", done.stderr)
            self.assertTrue(os.path.exists(slab) and is_alive(unit.pid))
            unit.terminate()
            unit.send_signal(signal.SIGCONT)
            self.assertEqual(unit.wait(timeout=PATIENCE_S), 0)
        finally:
            unit.kill()
            unit.wait()
        self.up(2, "4MiB", "--restart")
        self.assertEqual([unit["state"] for unit in self.reports()], ["active"] * 2)
        self.down()
        self.assert_nothing_is_left()

    def test_the_run_directory_goes_with_what_made_it(self):
        self.up(1)
        self.kill_supervisor()
        self.down()
        self.assert_nothing_is_left()
        self.assertFalse(os.path.exists(self.run_dir))
        self.up(1)
        os.kill(self.one(0)["pid"], signal.SIGKILL)
        await_that("its end is told", lambda: "killed by signal 9" in self.log())
        self.down()
        self.assert_nothing_is_left("slabyard.log")
        self.up(1)
        self.down()
        self.assertFalse(os.path.exists(self.run_dir))
        os.mkdir(self.run_dir)  # and this one is somebody's own
        self.up(1)
        self.down()
        self.assertEqual(os.listdir(self.run_dir), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
