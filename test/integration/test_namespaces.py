"""A cluster on hosts of its own: directory and units in network namespaces, keys, cut cables;
and values between hosts, by UCX and no other way: a unix socket would cross namespaces."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import namespaces

BUILD = os.environ.get("SLABYARD_BUILD", "build")
SLABYARD = os.path.join(os.path.abspath(BUILD), "slabyard")
PATIENCE_S = 120  # for what must happen; nothing waits that long where it does
PORT = 7400
UNIT_AFAR = ("--slab-bytes", "64MiB", "--policy", "allow-tcp", "--eager-max-bytes", "0")
BYTES = ["shm_put_bytes", "shm_get_bytes", "ucx_put_bytes", "ucx_get_bytes"]
AFAR = {"SLABYARD_TRANSPORT": "ucx", "SLABYARD_POLICY": "allow-tcp", "UCX_TLS": "tcp",
        "UCX_NET_DEVICES": "eth0"}  # fmt: skip


# Each port takes it, refuses it or never answers.
NONSENSE = """
import contextlib, socket, sys
to, source, *ports = sys.argv[1:]
for port in ports:
    for words in (bytes(64), bytes(range(64)), b"\\xff" * 64, b"GET / HTTP/1.0\\r\\n\\r\\n"):
        with contextlib.suppress(OSError), socket.create_connection(
            (to, int(port)), timeout=1, source_address=(source, 0)
        ) as one:
            one.sendall(words)
            one.shutdown(socket.SHUT_WR)
            while one.recv(4096):
                pass
"""

# `late`: nobody answers at the first ones of either family; `partly`: at the first.
NAMES = """\
fd00::5 both six late
10.0.0.5 both four late partly
fd00::99 late
10.0.0.99 late partly
fd00::6 unit
10.0.0.6 unit
"""


class TestNamespaces(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.top)
        os.mkdir(os.path.join(self.top, "run"))
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
        return os.path.join(self.top, "run", f"host{number}")

    def on(self, host, *words):
        return subprocess.run(
            host.words(SLABYARD, *words), capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL, env={**os.environ, **AFAR},
        )  # fmt: skip

    def slabyard(self, number, *words, status=0):
        done = self.on(self.hosts[number], *words)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        return done

    def start(self, number, *words):
        process = subprocess.Popen(
            self.hosts[number].words(SLABYARD, *words), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, **AFAR},
        )  # fmt: skip
        self.processes.append(process)
        return process

    def start_directory(self, bound=None):
        """bound: where it then says that it is, if not at the very address."""
        if not os.path.exists(self.keys):
            self.slabyard(0, "keygen", self.keys)
        process = self.start(
            0, "directory", "--run-dir", self.run_dir(0), "--units", "2",
            "--listen", self.directory, "--keys", self.keys,
            "--suspect-after", "300ms", "--fence-after", "1s", "--dead-after", "2s",
        )  # fmt: skip
        bound = bound or self.directory
        self.assertEqual(process.stdout.readline(), f"directory up at {bound}\n")

    def start_unit(self, unit_id, number, *more):
        process = self.start(
            number, "unit", "--id", str(unit_id), "--directory", self.directory,
            "--slab-bytes", "4MiB", "--run-dir", self.run_dir(number), "--keys", self.keys,
            "--listen", f"tcp://{self.hosts[number].address}:{PORT + 10 + unit_id}", *more,
        )  # fmt: skip
        line = process.stderr.readline()
        if "--policy" in more:
            self.assertIn("allow-tcp, for development", line)
            line = process.stderr.readline()
        self.assertIn(f"unit {unit_id}: up, registered at {self.directory}", line)
        return process

    def status(self, number):
        """`status` waits for 3 s, which a busy host may need."""
        words = ("status", "--json", "--directory", self.directory, "--keys", self.keys)
        end = time.monotonic() + PATIENCE_S
        while (done := self.on(self.hosts[number], *words)).returncode != 0:
            self.assertLess(time.monotonic(), end, done.stderr)
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
        here = ("--run-dir", self.run_dir(0), "--transport", "shm")
        self.slabyard(0, "put", "1", "note", value, *here)
        # As long as the directory stands still no lease ends, however long the cable is out.
        self.processes[0].send_signal(signal.SIGSTOP)
        self.hosts[1].cut()
        self.assertIn("out of touch with the directory", unit.stderr.readline())
        self.hosts[1].mend()
        self.processes[0].send_signal(signal.SIGCONT)
        self.assertIn("in touch with the directory again", unit.stderr.readline())
        self.await_states(2, "active", "active")
        self.assertEqual(self.slabyard(0, "get", "1", "note", *here).stdout, "kept")

    def start_three(self):
        """The directory on the first host, units on the first two; the third has none."""
        self.start_directory()
        self.start_unit(0, 0, *UNIT_AFAR)
        self.start_unit(1, 1, *UNIT_AFAR)
        return ("--directory", self.directory, "--keys", self.keys)

    def took_ucx(self, puts, gets):
        """Of all units: no byte by shared memory, and at least so many by UCX."""
        end = time.monotonic() + PATIENCE_S
        units = self.status(2)
        while not all(unit["answered"] for unit in units):
            self.assertLess(time.monotonic(), end, units)
            units = self.status(2)
        sums = {name: sum(unit[name] for unit in units) for name in BYTES}
        self.assertEqual((sums["shm_put_bytes"], sums["shm_get_bytes"]), (0, 0), sums)
        self.assertGreaterEqual(sums["ucx_put_bytes"], puts)
        self.assertGreaterEqual(sums["ucx_get_bytes"], gets)

    def test_values_travel_between_hosts(self):
        there = self.start_three()
        values = {}
        for row, size in enumerate([1 << 16, 1 << 20, 300001]):
            values[row] = os.path.join(self.top, f"value{row}")
            with open(values[row], "wb") as file:
                file.write(os.urandom(size))
            self.slabyard(2, "put", str(row), "note", values[row], *there)
        for row, path in values.items():
            done = subprocess.run(
                self.hosts[row].words(SLABYARD, "get", str(row), "note", *there),
                capture_output=True, timeout=PATIENCE_S, env={**os.environ, **AFAR},
            )  # fmt: skip
            with open(path, "rb") as file:
                self.assertEqual(done.stdout, file.read(), done.stderr)
        size = sum(os.path.getsize(path) for path in values.values())
        self.took_ucx(size, size)

    def talk_nonsense(self, source):
        """From the third host to every port of the first."""
        ports = subprocess.run(
            self.hosts[0].words("ss", "-Hltn"), capture_output=True, text=True, check=True
        ).stdout
        ports = sorted({line.split()[3].rpartition(":")[2] for line in ports.splitlines()})
        self.assertGreaterEqual(len(ports), 4, ports)  # directory, unit, UCX's two
        to = self.hosts[0].address.strip("[]")
        talk = [sys.executable, "-c", NONSENSE, to, source, *ports]
        namespaces.quiet(self.hosts[2].words(*talk))
        self.assertEqual([process.poll() for process in self.processes], [None] * 3)

    def test_nonsense_from_a_host_without_a_session(self):
        """That of UCX's connection manager is reached only from where a session came. The unit
        serves on."""
        there = self.start_three()
        value = os.path.join(self.top, "value")
        with open(value, "wb") as file:
            file.write(os.urandom(1 << 20))
        self.slabyard(1, "put", "0", "note", value, *there)
        self.talk_nonsense(self.hosts[2].address)
        self.slabyard(1, "put", "0", "again", value, *there)
        self.took_ucx(2 << 20, 0)

    def in_container(self, words, *command, **env):
        """On the first host, where it sees no run directory, and with what `words` add to that."""
        script = 'mount -t tmpfs none "$0" && exec "$@"'
        return subprocess.run(
            self.hosts[0].words("unshare", "--mount", *words, "sh", "-c", script,
                                os.path.join(self.top, "run"), SLABYARD, *command),
            capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            env={**os.environ, **AFAR, "SLABYARD_TRANSPORT": "auto", **env},
        )  # fmt: skip

    def test_containers_on_the_host_of_a_unit(self):
        """Without the unit's files: over UCX, or told why not."""
        self.start_directory()
        self.start_unit(0, 0, *UNIT_AFAR)
        self.start_unit(1, 1, *UNIT_AFAR)
        value = os.path.join(self.top, "value")
        with open(value, "wb") as file:
            file.write(os.urandom(1 << 20))
        put = ("put", "0", "note", value, "--timeout", "4s", "--directory", self.directory,
               "--keys", self.keys)  # fmt: skip
        done = self.in_container([], *put)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.took_ucx(1 << 20, 0)
        for env, told in [
            ({"SLABYARD_POLICY": "rdma"}, "UCX_TLS=tcp allows TCP"),
            ({"SLABYARD_POLICY": "same-host"}, "no unit listens at"),
            ({"SLABYARD_TRANSPORT": "shm"}, "no unit listens at"),
        ]:
            done = self.in_container([], *put, **env)
            self.assertEqual(done.returncode, 1, env)
            self.assertIn(told, done.stderr)

    def test_a_unit_that_offers_its_values_to_no_other_host(self):
        self.start_directory()
        self.start_unit(0, 0, "--eager-max-bytes", "0")
        there = ("--directory", self.directory, "--keys", self.keys)
        value = os.path.join(self.top, "value")
        with open(value, "wb") as file:
            file.write(bytes(1 << 20))
        here = ("--run-dir", self.run_dir(0), "--transport", "shm")
        self.slabyard(0, "put", "0", "theirs", value, *here)
        for words in (("put", "0", "ours", value), ("get", "0", "theirs")):
            done = self.slabyard(2, *words, *there, status=1)
            self.assertIn("unit 0: it offers its values to no other host", done.stderr)
            self.assertIn("--policy rdma", done.stderr)

    def add_ipv6(self):
        if not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6 here")
        for number, host in enumerate(self.hosts):
            namespaces.quiet(host.words("ip", "-6", "address", "add", f"fd00::{5 + number}/64",
                                        "dev", "eth0", "nodad"))  # fmt: skip

    def test_ipv6(self):
        """On hosts that have addresses of both families, what is listened at is of one."""
        self.add_ipv6()
        for number, host in enumerate(self.hosts):
            host.address = f"[fd00::{5 + number}]"
        self.directory = f"tcp://{self.hosts[0].address}:{PORT}"
        there = self.start_three()
        done = self.slabyard(2, "demo", "--rows", "32", "--steps", "1", "--json", *there)
        self.assertTrue(json.loads(done.stdout)["ok"], done.stdout)
        # One that is told a run directory, whose socket has no family.
        here = ("--run-dir", self.run_dir(0), "--keys", self.keys, "--transport", "ucx")
        self.slabyard(0, "demo", "--rows", "32", "--steps", "1", *here)
        self.took_ucx(1 << 18, 1 << 18)
        # Of this family it is networks that are told apart.
        namespaces.quiet(self.hosts[2].words("ip", "-6", "address", "add", "fd01::7/64", "dev",
                                             "eth0", "nodad"))  # fmt: skip
        namespaces.quiet(self.hosts[0].words("ip", "-6", "route", "add", "fd01::/64", "dev",
                                             "eth0"))  # fmt: skip
        self.talk_nonsense("fd01::7")
        for process in reversed(self.processes):
            process.terminate()
        self.assertEqual([p.wait(PATIENCE_S) for p in self.processes], [0, 0, 0])

    def name_hosts(self, text):
        """Names that every host knows, and none but these."""
        path = os.path.join(self.top, "hosts")
        with open(path, "w") as file:
            file.write(text)
        for host in self.hosts:
            namespaces.quiet(host.words("mount", "--bind", path, "/etc/hosts"))

    def reach_by(self, *names):
        """A unit that listens at a name, too, and what a third host sees: by each of the names."""
        for name in names:
            self.directory = f"tcp://{name}:{PORT}"
            unit = self.start_unit(1, 1)
            self.await_states(2, "none", "active")
            unit.terminate()
            self.assertEqual(unit.wait(PATIENCE_S), 0)

    def test_names(self):
        """Of a host with addresses of both families, of one, and with such as nobody answers at:
        whatever the system finds first."""
        self.add_ipv6()
        self.name_hosts(NAMES)
        self.hosts[1].address = "unit"
        for name, at, reached in (
            ("both", "[fd00::5]", ("both", "six", "four", "late", "partly")),
            ("partly", "10.0.0.5", ("partly", "four", "both")),
            ("six", "[fd00::5]", ("six", "both", "late")),
            ("four", "10.0.0.5", ("four", "both", "late")),
        ):
            self.directory = f"tcp://{name}:{PORT}"
            self.start_directory(f"tcp://{at}:{PORT}")
            directory = self.processes[-1]
            self.reach_by(*reached)
            self.directory = f"tcp://{reached[-1]}:{PORT}"
            done = self.slabyard(2, "get", "0", "note", "--directory", self.directory,
                                 "--timeout", f"{PATIENCE_S // 2}s", status=1)  # fmt: skip
            self.assertIn("asks for keys", done.stderr)
            directory.terminate()
            self.assertEqual(directory.wait(PATIENCE_S), 0, directory)

    def test_the_demo_on_a_host_without_units(self):
        there = self.start_three()
        done = self.slabyard(2, "demo", "--rows", "64", "--steps", "2", "--json", *there)
        moved = json.loads(done.stdout)
        self.assertTrue(moved["ok"], moved)
        self.took_ucx(1 << 20, 1 << 20)

    def test_the_demo_with_each_part_on_its_own_host(self):
        """Producers on the first host, trainers on the second, units on the third, and on the
        first the one that starts and checks it all."""
        self.start_directory()
        for unit_id in (0, 1):
            self.start_unit(unit_id, 2, *UNIT_AFAR)
        there = ("--directory", self.directory, "--keys", self.keys)
        by = " ".join(self.hosts[1].words())
        done = self.slabyard(0, "demo", "--rows", "64", "--steps", "2", "--json",
                             "--producers-by", "env LONG=" + 2000 * "a",
                             "--trainers-by", by, *there)  # fmt: skip
        moved = json.loads(done.stdout)
        self.assertTrue(moved["ok"], moved)
        self.took_ucx(moved["phases"]["put"]["bytes"], moved["phases"]["read"]["bytes"])


if __name__ == "__main__":
    namespaces.enter()
    unittest.main(verbosity=2)
