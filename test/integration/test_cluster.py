"""up, down, status: clusters of real processes, started, watched, hurt and ended."""

import contextlib
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
SHM = "/dev/shm"
STATES = [
    "free", "allocated", "committing", "published", "demoting", "released", "retired",
    "quarantined", "loading", "staging", "rounding",
]  # fmt: skip


def await_that(what, check):
    """Polls, since files and processes of others tell nobody when they go."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"never came true: {what}")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def held_port():
    """A socket whose port nobody else is given. Bound and not listening, it leaves that to those
    who ask for this very port and may reuse addresses, as ZeroMQ does."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held


def without_waiting(told):
    """On a host that is very busy an answer may take so long that the command says so."""
    return re.sub(r"slabyard \w+: (unit \d+|the directory) does not answer; .*\n", "", told)


class ClusterCase(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.run_dir = os.path.join(self.top, "run")
        self.pids = set()
        self.slabs = set()
        self.addCleanup(self.clean_up)

    def clean_up(self):
        subprocess.run(
            [SLABYARD, "down", "--run-dir", self.run_dir], capture_output=True, timeout=PATIENCE_S
        )
        # Only where a test failed is anything left by now.
        for pid in self.pids - {None}:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        for slab in self.slabs:
            if os.path.exists(slab):
                os.unlink(slab)
        shutil.rmtree(self.top, ignore_errors=True)

    def slabyard(self, *words, status=0, env=None):
        done = subprocess.run(
            [SLABYARD, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
        )
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        done.stderr = without_waiting(done.stderr)
        if status != 0:
            self.assertEqual(done.stdout, "", words)
            self.assertEqual(done.stderr.count("\n"), 1, f"{words}: {done.stderr}")
            self.assertTrue(done.stderr.startswith("slabyard"), done.stderr)
        else:
            self.assertEqual(done.stderr, "", words)
        return done

    def up(self, units=3, size="4MiB", *more, status=0):
        done = self.slabyard(
            "up", "--run-dir", self.run_dir, "--units", str(units), "--slab-bytes", size,
            "--detach", *more, status=status,
        )  # fmt: skip
        if status == 0:
            self.note_what_runs()
        return done

    def down(self, status=0):
        return self.slabyard("down", "--run-dir", self.run_dir, status=status)

    def reports(self, timeout="60s"):
        """timeout: what units that stand still are waited for."""
        done = self.slabyard(
            "status", "--json", "--run-dir", self.run_dir, "--timeout", timeout
        )
        units = json.loads(done.stdout)["units"]
        for unit in units:
            if unit["answered"]:
                self.assertEqual(sorted(unit["bytes"]), sorted(STATES))
                self.assertEqual(sum(unit["bytes"].values()), unit["capacity_bytes"])
        return units

    def supervisor(self):
        """Whoever holds the lock: /proc/locks names it by the file's inode."""
        inode = os.stat(os.path.join(self.run_dir, "supervisor.lock")).st_ino
        with open("/proc/locks") as file:
            for line in file:
                words = line.split()
                if words[1] == "POSIX" and words[5].endswith(f":{inode}"):
                    return int(words[4])
        return None

    def note_what_runs(self):
        self.pids.add(self.supervisor())
        for name in os.listdir(self.run_dir):
            if re.fullmatch(r"unit-\d+\.lock", name):
                with open(os.path.join(self.run_dir, name)) as file:
                    lines = dict(line.split(" ", 1) for line in file.read().splitlines())
                self.pids.add(int(lines["pid"]))
                self.slabs.add(lines["slab"])
                self.assertTrue(os.path.exists(lines["slab"]))

    def assert_nothing_is_left(self, *but):
        self.assertNotIn(None, self.pids)
        for pid in self.pids:
            self.assertFalse(is_alive(pid), f"process {pid} lives")
        for slab in self.slabs:
            self.assertFalse(os.path.exists(slab), slab)
        left = os.listdir(self.run_dir) if os.path.exists(self.run_dir) else []
        self.assertEqual(sorted(left), sorted(but))

    def kill_supervisor(self):
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGKILL)
        self.await_end(supervisor)

    def kill_all(self):
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGSTOP)  # so that it sees none of the others end
        for pid in self.pids - {supervisor}:
            os.kill(pid, signal.SIGKILL)
        os.kill(supervisor, signal.SIGKILL)
        for pid in self.pids:
            self.await_end(pid)

    def await_end(self, pid):
        await_that(f"process {pid} ends", lambda: not is_alive(pid))


class TestLife(ClusterCase):
    def test_up_status_down(self):
        done = self.up(3, "64MiB")
        self.assertEqual(
            done.stdout,
            f"3 units up, 192 MiB in all, run dir {os.path.realpath(self.run_dir)}\n",
        )
        self.assertEqual(len(self.pids), 4)
        units = self.reports()
        self.assertEqual([unit["unit_id"] for unit in units], [0, 1, 2])
        for unit in units:
            self.assertEqual(unit["state"], "active")
            self.assertEqual(unit["capacity_bytes"], 64 << 20)
            self.assertEqual(unit["bytes"]["free"], 64 << 20)
            self.assertEqual((unit["rows"], unit["entries"], unit["pins"]), (0, 0, 0))
            self.assertIn("sessions", unit)
            self.assertIn(unit["pid"], self.pids)
        self.assertEqual(len({unit["incarnation"] for unit in units}), 3)
        table = self.slabyard("status", "--run-dir", self.run_dir).stdout.splitlines()
        self.assertEqual(len(table), 4)
        self.assertIn("capacity", table[0])
        self.assertRegex(table[3], r"^ +2 +active +\d+ +64 MiB +0 B ")
        self.assertEqual(self.down().stdout, "the cluster is down\n")
        self.assert_nothing_is_left()
        self.assertFalse(os.path.exists(self.run_dir))

    def test_only_its_user_is_let_in(self):
        self.up(1)
        self.assertEqual(os.stat(self.run_dir).st_mode & 0o777, 0o700)
        for name in os.listdir(self.run_dir):
            mode = os.lstat(os.path.join(self.run_dir, name)).st_mode
            self.assertEqual(mode & 0o077, 0, f"{name} has mode {mode:o}")
        for slab in self.slabs:
            self.assertEqual(os.stat(slab).st_mode & 0o077, 0)

    def test_another_user_is_told_so(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        self.up(1)
        for words in (["status"], ["ls"]):
            try:
                done = subprocess.run(
                    [SLABYARD, *words, "--run-dir", self.run_dir], user=12345, group=12345,
                    extra_groups=[], capture_output=True, text=True, timeout=PATIENCE_S,
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as fault:
                self.skipTest(f"only root can become another user, who runs this: {fault}")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(
                done.stderr,
                f"slabyard {words[0]}: may not look into {self.run_dir}: be the user whose "
                "cluster runs there, or root\n",
            )

    def test_hurried_by_two_signals(self):
        """Whoever asks for it twice, as two 'down' at once do, has nothing to be told of."""
        self.up(2)
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            os.kill(supervisor, number)
        self.await_end(supervisor)
        self.assert_nothing_is_left()

    def test_foreground(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            command = [SLABYARD, "up", "--units", "2", "--slab-bytes", "4MiB"]
            with subprocess.Popen(
                [*command, "--run-dir", self.run_dir],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                try:
                    line = process.stdout.readline()
                    self.assertTrue(line.startswith("2 units up, 8 MiB in all"), line)
                    self.note_what_runs()
                    self.assertIn(process.pid, self.pids)
                    self.assertEqual(len(self.reports()), 2)
                finally:
                    process.send_signal(number)
                out, err = process.communicate(timeout=PATIENCE_S)
            self.assertEqual((process.returncode, out, err), (0, "", ""))
            self.assert_nothing_is_left()

    def test_detached_means_detached(self):
        self.up(1)
        supervisor = self.supervisor()
        self.assertNotEqual(os.getsid(supervisor), os.getsid(0))
        self.assertEqual(os.readlink(f"/proc/{supervisor}/cwd"), "/")
        for number in ("0", "1", "2"):
            target = os.readlink(f"/proc/{supervisor}/fd/{number}")
            self.assertIn(target, ("/dev/null", os.path.realpath(self.run_dir) + "/slabyard.log"))

    def test_stopped_at_any_instant_of_its_start(self):
        slab_bytes = (8 << 20) + 4096 * (os.getpid() % 1000)  # whose slab one is, its size tells
        for delay in range(4):
            command = [SLABYARD, "up", "--units", "4", "--slab-bytes", str(slab_bytes)]
            with subprocess.Popen(
                [*command, "--run-dir", self.run_dir],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                want = ["VERSION", "supervisor.lock", "unit-0.lock", "unit-3.sock"][delay]
                path = os.path.join(self.run_dir, want)
                await_that(want, lambda: os.path.exists(path) or process.poll() is not None)
                process.terminate()
                _, err = process.communicate(timeout=PATIENCE_S)
            self.assertIn(process.returncode, (0, 1, -signal.SIGTERM), err)
            if process.returncode == -signal.SIGTERM:  # before it had taken signals over
                subprocess.run(
                    [SLABYARD, "down", "--run-dir", self.run_dir],
                    capture_output=True,
                    timeout=PATIENCE_S,
                )
            self.assert_nothing_is_left()
            for entry in os.scandir(SHM):
                with contextlib.suppress(FileNotFoundError):
                    self.assertNotEqual(entry.stat().st_size, slab_bytes, entry.name)


class TestRefusals(ClusterCase):
    def test_one_cluster_a_directory(self):
        self.up(2)
        before = [unit["incarnation"] for unit in self.reports()]
        done = self.up(2, "4MiB", status=1)
        self.assertIn("a cluster already runs in", done.stderr)
        self.assertIn(f"(process {self.supervisor()})", done.stderr)
        self.slabyard(
            "up", "--run-dir", self.run_dir, "--units", "2", "--slab-bytes", "4MiB", status=1
        )
        self.assertEqual([unit["incarnation"] for unit in self.reports()], before)

    def test_one_unit_an_id(self):
        self.up(2)
        done = self.slabyard(
            "unit", "--run-dir", self.run_dir, "--id", "1", "--units", "2",
            "--slab-bytes", "4MiB", status=1,
        )  # fmt: skip
        self.assertIn("unit 1 already runs", done.stderr)
        self.assertEqual([unit["state"] for unit in self.reports()], ["active", "active"])

    def test_bad_sizes(self):
        for size, status, part in [
            ("-1", 2, "is negative"),
            ("", 2, "is empty"),
            ("12 apples", 2, "has an unknown unit"),
            ("0.3", 2, "is not a whole number of bytes"),
            ("99999999999999999999", 2, "is over 2^63 - 1"),
            ("0", 2, "--slab-bytes takes a size of at least 64 KiB, not 0 B"),
            ("1", 2, "--slab-bytes takes a size of at least 64 KiB, not 1 B"),
        ]:
            done = self.up(1, size, status=status)
            self.assertIn(part, done.stderr)
            self.assert_nothing_is_left()
        for size in ("1.5MiB", "4mib", "4096000", "8192k"):
            self.up(1, size)
            self.down()
        self.assert_nothing_is_left()

    def test_sizes_are_of_whole_pages(self):
        for size, want in [("1000001", 999424), ("5mb", 4997120)]:
            out = self.up(1, size).stdout
            self.assertRegex(out, rf"\({want} bytes each: \d+ in whole pages\)")
            self.assertEqual([unit["capacity_bytes"] for unit in self.reports()], [want])
            self.down()
        self.assertNotIn("whole pages", self.up(1, "1.5MiB").stdout)

    def test_options_of_units_are_named(self):
        for words, status, part in [
            (["--listen", ""], 2, "--listen is empty: give --listen ADDRESS"),
            (["--heartbeat", "60s"], 1,
             "--session-expire 20s is not over 3 times --heartbeat 60s: give a longer"),
            (["--heartbeat", "1ms"], 2, "--heartbeat takes a time of at least 10ms, not 1ms"),
            (["--session-expire", "6s"], 1,
             "--session-expire 6s is not over 3 times --heartbeat 2s: give a longer"),
            (["--eager-max-bytes", "3MiB"], 2,
             "--eager-max-bytes takes a size of 0 B to 2 MiB, not 3 MiB"),
            (["--read-pin", "0"], 2, "--read-pin takes a time of at least 1ns, not 0s"),
            (["--max-entries", "0"], 2, "--max-entries takes a number of 1 to 10000000, not 0"),
            (["--max-sessions", "0"], 2, "--max-sessions takes a number of 1 to 65535, not 0"),
        ]:  # fmt: skip
            self.assertIn(part, self.up(1, "4MiB", *words, status=status).stderr)
        self.up(
            1, "4MiB", "--heartbeat", "10ms", "--session-expire", "31ms", "--read-pin", "1ns",
            "--eager-max-bytes", "2MiB", "--max-entries", "1", "--max-sessions", "2",
        )  # fmt: skip
        self.assertTrue(self.reports()[0]["answered"])

    def test_full_memory(self):
        space = os.statvfs(SHM)  # what is free changes with what else runs: more than there is
        size = (space.f_blocks * space.f_frsize // 4096 + 1024) * 4096
        done = self.up(3, str(size), status=1)
        self.assertRegex(done.stderr, r"^slabyard up: unit \d: /dev/shm has .* free")
        self.assertFalse(os.path.exists(self.run_dir))

    def test_occupied_port(self):
        """Kind: retry loop with no end on an occupied port."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = self.up(3, "4MiB", "--listen", f"tcp://127.0.0.1:{port}", status=1)
        self.assertRegex(
            done.stderr,
            rf"^slabyard up: unit \d: cannot listen at tcp://127.0.0.1:{port}: Address already",
        )
        self.assertFalse(os.path.exists(self.run_dir))

    def test_listening_to_the_world_is_asked_for_twice(self):
        done = self.up(1, "4MiB", "--listen", "tcp://192.0.2.1:*", status=1)
        self.assertIn("--insecure", done.stderr)

    def test_no_room_for_names(self):
        self.run_dir = os.path.join(self.top, "long" * 30)
        done = self.up(1, status=1)
        self.assertIn("use a shorter --run-dir", done.stderr)
        self.run_dir = os.path.join(self.top, "no", "such")
        self.assertIn("No such file", self.up(1, status=1).stderr)
        self.run_dir = os.path.join(self.top, "file")
        with open(self.run_dir, "w"):
            pass
        self.assertIn("is no directory", self.up(1, status=1).stderr)

    def test_no_cluster(self):
        self.assertIn("no cluster runs in", self.down(status=1).stderr)
        done = self.slabyard("status", "--run-dir", self.run_dir, status=1)
        self.assertIn(f"`slabyard up --run-dir {self.run_dir}` starts one", done.stderr)
        self.up(1)
        self.down()
        self.assertIn("no cluster runs in", self.down(status=1).stderr)

    def test_wrong_usage(self):
        for words, part in [
            (["stauts"], 'no command "stauts"; did you mean status?'),
            (["frobnicate"], 'no command "frobnicate"'),
            ([], "name a command"),
            (["--run-di", "x", "status"], "no option --run-di; did you mean --run-dir?"),
            (["up", "--slab-byte", "4MiB"], "no option --slab-byte; did you mean --slab-bytes?"),
            (["up", "--deatch"], "did you mean --detach?"),
            (["up", "--run-dir", "x"], "give --slab-bytes SIZE"),
            (["unit", "--run-dir", "x"], "give --slab-bytes SIZE"),
            (["up", "--run-dir", "x", "--units", "0"], "--units takes a number of 1 to 1024"),
            (["up", "--run-dir", "x", "--units", "two"], "is not a whole decimal number"),
            (["status", "--jsn"], "did you mean --json?"),
            (["status", "--run-dir", "x", "y"], '"y" is one argument too many'),
            (["status", "--run-dir", "x", "--timeout", "0"], "takes a time of at least"),
            (["down", "--run-dir"], "--run-dir needs a value"),
            (["down"], "give --run-dir DIR or set SLABYARD_RUN_DIR"),
        ]:
            done = self.slabyard(*words, status=2, env={"SLABYARD_RUN_DIR": ""})
            self.assertIn(part, done.stderr)
            self.assertIn("--help)", done.stderr)

    def test_help(self):
        top = self.slabyard("--help").stdout
        names = re.findall(r"^  ([a-z]+) +[a-z]", top, re.M)
        self.assertTrue({"up", "down", "status"} <= set(names), names)
        for name in [*names, "unit", "directory"]:
            text = self.slabyard(name, "--help").stdout
            self.assertTrue(text.startswith(f"Usage: slabyard {name} [OPTIONS]"), text)
            self.assertEqual(self.slabyard(name, "-h").stdout, text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, line)
            self.assertNotIn("--worker", text)  # is for a demo to its own workers
        self.assertRegex(self.slabyard("--version").stdout, r"^slabyard \d+\.\d+\.\d+\n$")

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([SLABYARD, "--help"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the output", done.stderr)


class TestHarm(ClusterCase):
    def test_a_killed_unit_is_dead_and_the_others_serve_on(self):
        self.up(3)
        before = self.reports()
        os.kill(before[1]["pid"], signal.SIGKILL)
        after = await_that(
            "the directory knows",
            lambda: (lambda units: units[1]["state"] == "dead" and units)(self.reports()),
        )
        self.assertFalse(after[1]["answered"])
        self.assertIsNone(after[1]["bytes"])
        self.assertEqual(after[1]["incarnation"], before[1]["incarnation"])
        for i in (0, 2):
            self.assertEqual(after[i]["state"], "active")
            self.assertTrue(after[i]["answered"])
        with open(os.path.join(self.run_dir, "slabyard.log")) as file:
            log = file.read()
        self.assertEqual(log.count("\n"), 1, log)
        self.assertIn(f"unit 1 (process {before[1]['pid']}) was killed by signal 9", log)
        table = self.slabyard("status", "--run-dir", self.run_dir).stdout
        self.assertRegex(table, r"(?m)^ +1 +dead .* its rows are gone$")
        self.assertIn("slabyard.log tells of what went wrong", self.down().stdout)
        self.assert_nothing_is_left("slabyard.log")

    def test_a_stopped_unit_is_alive_and_holds_nobody_up(self):
        self.up(3)
        pid = self.reports()[0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            units = self.reports("5s")
            self.assertEqual([unit["state"] for unit in units], ["active"] * 3)
            self.assertEqual([unit["answered"] for unit in units], [False, True, True])
            self.assertTrue(units[0]["message"])
        finally:
            os.kill(pid, signal.SIGCONT)
        await_that("it answers again", lambda: self.reports()[0]["answered"])

    def test_down_ends_stopped_processes(self):
        self.up(3)
        os.kill(self.reports()[2]["pid"], signal.SIGSTOP)
        os.kill(self.supervisor(), signal.SIGSTOP)
        self.down()
        self.assert_nothing_is_left()

    def test_down_waits_for_nobody_else(self):
        """Files and processes of another cluster stay."""
        self.up(1)
        other_dir = os.path.join(self.top, "other")
        words = ["--run-dir", other_dir]
        self.slabyard("up", *words, "--slab-bytes", "4MiB", "--detach")
        try:
            self.down()
            self.assert_nothing_is_left()
            done = self.slabyard("status", "--json", *words)
            self.assertTrue(json.loads(done.stdout)["units"][0]["answered"])
        finally:
            self.slabyard("down", *words)

    def test_units_end_with_their_supervisor(self):
        self.up(3)
        os.kill(self.supervisor(), signal.SIGKILL)
        for pid in self.pids:
            self.await_end(pid)
        for slab in self.slabs:
            self.assertFalse(os.path.exists(slab))
        done = self.slabyard("status", "--run-dir", self.run_dir, status=1)
        self.assertIn("no cluster runs in", done.stderr)

    def test_up_again_after_a_killed_supervisor(self):
        self.up(2)
        before = self.reports()
        self.kill_supervisor()
        # What one leaves that is killed while it makes the directory.
        with open(os.path.join(self.run_dir, f"VERSION.{before[0]['pid']}"), "w"):
            pass
        self.up(2)
        after = self.reports()
        self.assertEqual([unit["state"] for unit in after], ["active"] * 2)
        for old, new in zip(before, after):
            self.assertNotEqual(old["incarnation"], new["incarnation"])
            self.assertFalse(is_alive(old["pid"]))
        self.down()
        self.assert_nothing_is_left()

    def test_everything_killed_at_once(self):
        self.up(3)
        self.kill_all()
        self.assertTrue(all(os.path.exists(slab) for slab in self.slabs))
        done = self.slabyard("status", "--run-dir", self.run_dir, status=1)
        self.assertIn("no cluster runs in", done.stderr)
        self.up(3)
        self.assertEqual([unit["state"] for unit in self.reports()], ["active"] * 3)
        self.assertEqual(len(self.slabs), 6)
        self.down()
        self.assert_nothing_is_left()

    def test_down_removes_what_a_killed_cluster_left(self):
        self.up(3)
        supervisor = self.supervisor()
        stopped = self.reports()[1]["pid"]
        os.kill(stopped, signal.SIGSTOP)
        os.kill(supervisor, signal.SIGKILL)
        self.await_end(supervisor)
        self.assertIn("what a killed one had left is removed", self.down().stdout)
        self.assert_nothing_is_left()
        self.assertFalse(os.path.exists(self.run_dir))
        self.down(status=1)

    def test_n_is_fixed(self):
        self.up(2)
        self.kill_supervisor()
        done = self.up(3, status=1)
        self.assertIn("the cluster has 2 units, not 3; `slabyard down", done.stderr)
        self.up(2)
        self.down()
        self.up(3)
        self.assertEqual(len(self.reports()), 3)

    def test_damaged_state_is_told(self):
        self.up(1)
        self.kill_supervisor()
        with open(os.path.join(self.run_dir, "directory.state"), "r+b") as file:
            file.seek(20)
            file.write(b"\xff\xff")
        done = self.up(1, status=1)
        self.assertIn("directory.state is damaged; `slabyard down", done.stderr)
        self.down()
        self.up(1)


if __name__ == "__main__":
    unittest.main()
