#!/usr/bin/env python3
"""The command where the host gives little or odd things: few descriptors, no locked memory, IPv6,
names with two addresses, run directories that cannot be written or belong to another version."""

import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import unittest

BUILD = os.environ.get("SLABYARD_BUILD", "build")
SLABYARD = os.path.join(os.path.abspath(BUILD), "slabyard")
PATIENCE_S = 120

# The thread sanitizer keeps descriptors of its own, for who names functions for it.
DESCRIPTORS = 48 if os.environ.get("SLABYARD_SANITIZER") == "tsan" else 32


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


class LimitsCase(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.run_dir = os.path.join(self.top, "run")
        self.addCleanup(self.clean_up)

    def clean_up(self):
        subprocess.run(
            [SLABYARD, "down", "--run-dir", self.run_dir], capture_output=True, timeout=PATIENCE_S
        )
        shutil.rmtree(self.top, ignore_errors=True)

    def slabyard(self, *words, status=0, before=""):
        """before: what a shell does first, such as a limit."""
        done = subprocess.run(
            ["bash", "-c", f'{before}\nexec "$0" "$@"', SLABYARD, *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        if status != 0:
            self.assertEqual(done.stderr.count("\n"), 1, f"{words}: {done.stderr}")
            self.assertTrue(done.stderr.startswith("slabyard"), done.stderr)
        return done

    def up(self, *more, status=0, before=""):
        return self.slabyard(
            "up", "--run-dir", self.run_dir, "--units", "2", "--slab-bytes", "4MiB", "--detach",
            *more, status=status, before=before,
        )  # fmt: skip

    def use(self, before=""):
        text = os.path.join(self.top, "text")
        with open(text, "w") as file:
            file.write("text")
        for row in ("0", "1"):
            self.slabyard("put", "--run-dir", self.run_dir, row, "x", text, before=before)
            done = self.slabyard("get", "--run-dir", self.run_dir, row, "x", before=before)
            self.assertIn("text", done.stdout)


class TestLimits(LimitsCase):
    def test_32_descriptors_and_64_kib_locked(self):
        small = f"ulimit -n {DESCRIPTORS}; ulimit -l 64"
        self.up(before=small)
        self.use(before=small)
        self.slabyard("status", "--run-dir", self.run_dir, before=small)

    def test_too_few_descriptors_are_told(self):
        done = self.up(status=1, before="ulimit -n 16")
        self.assertIn("Too many open files", done.stderr)
        self.up()
        done = self.slabyard(
            "get", "--run-dir", self.run_dir, "0", "x", status=1, before="ulimit -n 12"
        )
        self.assertIn("Too many open files", done.stderr)
        self.use()

    def test_every_number_of_descriptors(self):
        """A start with so few ends with one line, whatever it could not open, and leaves nothing;
        one that would have none for a client says how many it takes; one that comes up has."""
        said = set()
        for count in range(4, DESCRIPTORS):
            before = f"ulimit -n {count}"
            done = subprocess.run(
                ["bash", "-c", f'{before}\nexec "$0" "$@"', SLABYARD, "up", "--run-dir",
                 self.run_dir, "--units", "2", "--slab-bytes", "4MiB", "--detach"],
                capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            told = f"{count} descriptors: {done.stdout}{done.stderr}"
            if done.returncode == 0:
                self.use()
                self.slabyard("down", "--run-dir", self.run_dir)
            else:
                self.assertEqual(done.returncode, 1, told)
                self.assertEqual(done.stderr.count("\n"), 1, told)
                self.assertRegex(done.stderr, "Too many open files|open files are allowed", told)
            said |= set(re.findall(r"files are allowed, and (\d+) are needed", done.stderr))
            self.assertFalse(os.path.exists(self.run_dir), told)
        self.assertTrue(said)
        self.assertLessEqual(max(map(int, said)), DESCRIPTORS)  # so many are enough

    def test_more_clients_than_descriptors(self):
        """Who finds no place is told so, and whoever is in stays in: directory and units are all
        too short of descriptors here."""
        self.up(before=f"ulimit -n {DESCRIPTORS}")
        commands = [
            subprocess.Popen(
                [SLABYARD, "get", "--run-dir", self.run_dir, "0", "x"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(24)
        ]
        for command in commands:
            command.wait(timeout=PATIENCE_S)
        self.use()
        done = self.slabyard("status", "--run-dir", self.run_dir)
        self.assertEqual(done.stdout.count(" active "), 2, done.stdout)


class TestCrowd(LimitsCase):
    """More connections at the same instant than a process may have descriptors: it lives, hangs up
    on those that are too many, and serves again when the others have gone."""

    def crowd(self, *addresses):
        """Connects until each of these has greeted some and hung up on others, and leaves those
        that were greeted open."""
        with contextlib.ExitStack() as greeted:
            for address in addresses:
                counts = [0, 0]
                for _ in range(4 * DESCRIPTORS):
                    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
                    one = greeted.enter_context(socket.socket(family))
                    one.settimeout(PATIENCE_S)
                    one.connect(address)
                    try:  # ZeroMQ says its greeting first
                        heard = one.recv(1) != b""
                    except ConnectionResetError:
                        heard = False
                    counts[not heard] += 1
                self.assertTrue(all(counts), f"{address}: {counts} greeted and hung up on")
            return greeted.pop_all()

    def test_directory_and_units_of_a_supervisor(self):
        self.up(before=f"ulimit -n {DESCRIPTORS}")
        sockets = [
            os.path.join(self.run_dir, name)
            for name in ("directory.ipc", "unit-0.ipc", "unit-1.ipc")
        ]
        with self.crowd(*sockets):
            done = subprocess.run(
                [SLABYARD, "get", "--run-dir", self.run_dir, "--timeout", "1s", "0", "x"],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            # By the directory or by a unit, whichever has no place; the row is absent if both do.
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, "^slabyard get: .+\n$")
        self.use()
        done = self.slabyard("status", "--run-dir", self.run_dir)
        self.assertEqual(done.stdout.count(" active "), 2, done.stdout)

    def directory(self, before):
        """By itself; its pid and the port it listens at."""
        one = subprocess.Popen(
            ["bash", "-c", f'{before}\nexec "$0" "$@"', SLABYARD, "directory", "--run-dir",
             self.run_dir, "--listen", "tcp://127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(one.stdout.close)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        return one.pid, int(one.stdout.readline().rpartition(":")[2])

    def test_directory_by_itself(self):
        _, port = self.directory(f"ulimit -n {DESCRIPTORS}")
        for address in (os.path.join(self.run_dir, "directory.ipc"), ("127.0.0.1", port)):
            self.crowd(address).close()
            done = self.slabyard("status", "--run-dir", self.run_dir)
            self.assertIn(" none ", done.stdout)

    def test_a_directory_takes_what_it_may_have(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        pid, _ = self.directory(f"ulimit -Sn {DESCRIPTORS}")
        self.assertEqual(resource.prlimit(pid, resource.RLIMIT_NOFILE), (hard, hard))


class TestAddresses(LimitsCase):
    def test_ipv6(self):
        for address in ("tcp://[::1]:*", "tcp://[::1]:0"):
            if not has_ipv6():
                done = self.up("--listen", address, status=1)
                self.assertIn("this host has no such address", done.stderr)
                continue
            self.up("--listen", address)
            self.use()
            self.slabyard("down", "--run-dir", self.run_dir)

    def test_an_address_without_brackets_is_refused(self):
        done = self.up("--listen", "tcp://::1:0", status=1)
        self.assertIn("[::1]", done.stderr)

    def test_a_name_with_two_addresses(self):
        """localhost is ::1 and 127.0.0.1 on most hosts: units may listen there. That who calls by
        name gets through is for test_namespaces.py."""
        for port in ("*", "0"):
            self.up("--listen", f"tcp://localhost:{port}")
            self.use()
            self.slabyard("down", "--run-dir", self.run_dir)

    def test_a_name_whose_first_address_is_taken(self):
        """A unit listens at the next one. The name is of a mount namespace alone."""
        hosts = os.path.join(self.top, "hosts")
        with open(hosts, "w") as file:
            file.write("127.0.0.1 twice\n127.0.0.2 twice\n")
        mount = f'mount --bind {hosts} /etc/hosts && exec "$0" "$@"'
        inside = ["unshare", "-m", "sh", "-c", mount]
        done = subprocess.run(
            [*inside, "getent", "ahosts", "twice"], capture_output=True, text=True
        )
        if done.returncode != 0:
            self.skipTest("no mount may be made here")
        first, second = dict.fromkeys(line.split()[0] for line in done.stdout.splitlines())
        with socket.socket() as taken:
            taken.bind((first, 0))
            taken.listen()
            port = taken.getsockname()[1]
            words = ["--run-dir", self.run_dir, "--units", "1", "--slab-bytes", "4MiB", "-d"]
            done = subprocess.run(
                [*inside, SLABYARD, "up", *words, "--listen", f"tcp://twice:{port}", "--insecure"],
                capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            with socket.create_connection((second, port), timeout=PATIENCE_S) as greeted:
                self.assertEqual(greeted.recv(1), b"\xff")  # ZeroMQ's greeting


class TestRunDirectories(LimitsCase):
    def test_read_only(self):
        os.mkdir(self.run_dir, mode=0o700)
        words = ["up", "--run-dir", self.run_dir, "--units", "2", "--slab-bytes", "4MiB", "-d"]
        if os.geteuid() == 0:  # modes do not stop root: a mount of its own does
            mount = 'mount --bind -o ro "$3" "$3" && exec "$0" "$@"'
            command = ["unshare", "-m", "bash", "-c", mount, SLABYARD, *words]
        else:
            os.chmod(self.run_dir, 0o500)
            command = [SLABYARD, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        os.chmod(self.run_dir, 0o700)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, r"Read-only file system|Permission denied")
        self.assertIn(self.run_dir, done.stderr)
        self.assertEqual(os.listdir(self.run_dir), [])
        self.up()
        self.use()

    def test_of_another_version(self):
        self.up()
        self.slabyard("down", "--run-dir", self.run_dir)
        os.mkdir(self.run_dir, mode=0o700)
        with open(os.path.join(self.run_dir, "VERSION"), "w") as file:
            file.write("slabyard run directory, version 77\n")
        done = self.up(status=1)
        self.assertRegex(done.stderr, re.compile("another version of slabyard .* use another"))
        # Nothing of the other's was touched.
        self.assertEqual(os.listdir(self.run_dir), ["VERSION"])

    def try_up(self, name):
        """Of a run directory in which a file of ours is something else."""
        done = subprocess.run(
            [SLABYARD, "up", "--run-dir", self.run_dir, "--units", "2", "--slab-bytes", "4MiB",
             "-d"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode == 0:
            self.use()
        else:
            self.assertEqual(done.returncode, 1, f"{name}: {done.stderr}")
            self.assertEqual(done.stderr.count("\n"), 1, f"{name}: {done.stderr}")
            self.assertIn(name.removesuffix(".new"), done.stderr)
        subprocess.run(
            [SLABYARD, "down", "--run-dir", self.run_dir],
            capture_output=True,
            timeout=PATIENCE_S,
        )
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def test_with_files_of_other_forms(self):
        """What another version may have left under the names of ours: no crash, and a line that
        says what to do, or it is of no account."""
        for name in ("directory.state", "unit-0.lock", "unit-0.sock", "supervisor.lock"):
            os.mkdir(self.run_dir, mode=0o700)
            with open(os.path.join(self.run_dir, name), "wb") as file:
                file.write(b"slab /dev/shm/\n\xff\x00 pid -5\nincarnation x\n" * 9)
            self.try_up(name)

    def test_with_pipes_for_files(self):
        """Nobody waits for another end of it."""
        for name in ("VERSION", "directory.state", "directory.state.new", "slabyard.log"):
            os.mkdir(self.run_dir, mode=0o700)
            os.mkfifo(os.path.join(self.run_dir, name))
            self.try_up(name)


if __name__ == "__main__":
    unittest.main()
