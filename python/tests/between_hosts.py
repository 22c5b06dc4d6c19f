"""Python's clients of units on another host; test_hosts runs it. Hosts are network namespaces.

UCX is forced: a unix socket crosses network namespaces."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import slabyard
from slabyard.blobstore import UnitSlabStore, encode_index
from slabyard.cluster import command_path
from slabyard.errors import TransferFailed, TransportPolicyError

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../test/integration"))
import namespaces  # noqa: E402

PATIENCE_S = 240  # for what must happen; nothing waits that long where it does
END_S = 60
BY_UCX = {"transport": "ucx", "policy": "allow-tcp"}
CHOSEN = ("SLABYARD_TRANSPORT", "SLABYARD_POLICY")  # what this test says by arguments


def environment():
    mine = {name: value for name, value in os.environ.items() if name not in CHOSEN}
    return {**mine, "UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}


class OnTheOtherHost(unittest.TestCase):
    """Runs on a host without units."""

    def moved(self):
        with slabyard.Client(**self.place, **BY_UCX, timeout_s=60) as client:
            counts = [report["counts"] for report in client.reports()]
        return [
            sum(one[f"{path}_{what}_bytes"] for one in counts)
            for path, what in (("shm", "put"), ("shm", "get"), ("ucx", "put"), ("ucx", "get"))
        ]

    def setUp(self):
        self.place = {"directory": os.environ["DIRECTORY"], "keys": os.environ["KEYS"]}

    def test_a_client(self):
        values = np.random.default_rng(1).random((4, 1 << 17))
        with slabyard.Client(**self.place, **BY_UCX, timeout_s=60) as client:
            client.put_columns(range(4), {"x": values, "t": list("abcd")})
            for copy in (True, False):
                got = client.get_columns([3, 0, 2], ["x", "t"], copy=copy)
                np.testing.assert_array_equal(list(got["x"]), values[[3, 0, 2]])
                self.assertEqual(list(got["t"]), ["d", "a", "c"])
        shm_put, shm_get, ucx_put, ucx_get = self.moved()
        self.assertEqual((shm_put, shm_get), (0, 0))
        self.assertGreaterEqual(ucx_put, values.nbytes)
        self.assertGreaterEqual(ucx_get, 2 * values[:3].nbytes)

    def test_a_store(self):
        ep = slabyard.Endpoint("allow-tcp", transport="ucx")
        self.assertEqual((ep.policy, ep.transport), ("allow-tcp", "ucx"))
        directory = slabyard.Directory(
            self.place["directory"], keys=self.place["keys"], timeout_s=60
        )
        values, before = np.arange(1 << 17), self.moved()
        with UnitSlabStore(ep, directory, namespace="s", timeout_s=60) as store:
            made = encode_index([1], {"x": [values]})
            store.put_many([(made.segments, made.nbytes, made.n_entries, 1, made.blob_id)])
            resolved = store.resolve_keys({1: ["1@x"]}, None)
            offset, nbytes, *_ = resolved[1]["entries"]["1@x"]
            into = np.zeros(len(values), values.dtype)
            ep.register(into.ctypes.data, into.nbytes)
            store.read_entries({1: [(offset, nbytes, into.ctypes.data)]}, {1: ["1@x"]}, None)
            store.unpin_all(resolved)
            np.testing.assert_array_equal(into, values)
            into[:] = values[::-1]
            where = [(into.ctypes.data, offset, nbytes)]
            ep.transfer("WRITE", store._unit(1)["remote"], where, None)
            into[:] = 0
            ep.transfer("READ", store._unit(1)["remote"], where, None)
            np.testing.assert_array_equal(into, values[::-1])
            ep.deregister(into.ctypes.data, into.nbytes)
        grown = [now - then for now, then in zip(self.moved(), before)]
        self.assertEqual(grown[:2], [0, 0])
        self.assertGreaterEqual(min(grown[2:]), values.nbytes)

    def test_what_is_not_allowed(self):
        with self.assertRaisesRegex(TransportPolicyError, "UCX_TLS=tcp allows TCP"):
            slabyard.Client(**self.place, transport="ucx", timeout_s=60)
        with self.assertRaisesRegex(ValueError, "exclude each other"):
            slabyard.Client(**self.place, transport="ucx", policy="same-host", timeout_s=60)


def sent_bytes():
    """By this host, on its only cable."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("eth0:"))
    return int(line.partition(":")[2].split()[8])


class EndsUnit:
    """A lock of a store that, told to, ends the unit in the middle of the next transfer: the unit
    stands still before it, and is killed once some of it is on the cable."""

    def __init__(self, pid, then):
        self.pid, self.then, self.armed = pid, then, False
        self.thread = threading.Thread(target=self.kill, daemon=True)

    def __enter__(self):
        if self.armed:
            self.armed = False
            os.kill(self.pid, signal.SIGSTOP)
            self.before = sent_bytes()
            self.thread.start()

    def __exit__(self, *exc):
        pass

    def kill(self):
        end = time.monotonic() + PATIENCE_S
        while sent_bytes() < self.before + (16 << 10) and time.monotonic() < end:
            time.sleep(0.001)
        pidfd = os.pidfd_open(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        ended = select.select([pidfd], [], [], PATIENCE_S)[0]
        os.close(pidfd)
        if ended:
            self.then()


class LastOnTheOtherHost(unittest.TestCase):
    """Ends unit 1."""

    def test_a_write_that_was_cut_off(self):
        ep = slabyard.Endpoint("allow-tcp", transport="ucx")
        directory = slabyard.Directory(
            os.environ["DIRECTORY"], keys=os.environ["KEYS"], timeout_s=60
        )
        unit = directory.units()[1]
        slab = f"/dev/shm/slabyard-{os.geteuid()}-1-{unit['incarnation']:016x}"
        self.addCleanup(os.unlink, slab)  # nobody starts in its run directory again
        lock = EndsUnit(unit["pid"], lambda: directory.exited(1, unit["incarnation"]))
        with UnitSlabStore(ep, directory, namespace="s", timeout_s=60, lock=lock) as store:
            self.put(store, encode_index([1], {"x": [np.arange(1 << 17)]}))
            made = encode_index([3], {"x": [np.arange(1 << 22)]})  # more than sockets hold
            lock.armed = True
            with self.assertRaises(TransferFailed) as caught:
                self.put(store, made)
            lock.thread.join()
        self.assertEqual(caught.exception.blob_ids, [made.blob_id])
        self.assertIs(caught.exception.in_flight, True)

    def put(self, store, made):
        store.put_many([(made.segments, made.nbytes, made.n_entries, 1, made.blob_id)])


def end(process):
    """Also one that was left standing still."""
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


class Hosts(unittest.TestCase):
    def start(self, host, *words):
        process = subprocess.Popen(
            host.words(command_path(), *words, "--keys", self.keys),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
        self.addCleanup(end, process)
        for line in process.stdout:
            if " up" in line:
                return
        self.fail(f"it did not start: {words}")

    def test_both_units_from_a_third_host(self):
        top = tempfile.TemporaryDirectory(prefix="slabyard-", dir="/tmp")
        self.addCleanup(top.cleanup)
        self.keys = os.path.join(top.name, "keys")
        subprocess.run([command_path(), "keygen", self.keys], check=True, capture_output=True)
        hosts = namespaces.make(self, 3)
        directory = f"tcp://{hosts[0].address}:7400"
        words = ["--run-dir", os.path.join(top.name, "directory"), "--units", "2"]
        self.start(hosts[0], "directory", *words, "--listen", directory)
        for k in (0, 1):
            words = ["--run-dir", os.path.join(top.name, f"unit{k}"), "--id", str(k)]
            words += ["--directory", directory, "--listen", f"tcp://{hosts[k].address}:7410"]
            words += ["--slab-bytes", "64MiB", "--policy", "allow-tcp", "--eager-max-bytes", "0"]
            self.start(hosts[k], "unit", *words)
        done = subprocess.run(
            hosts[2].words(
                sys.executable,
                "-m",
                "unittest",
                "between_hosts.OnTheOtherHost",
                "between_hosts.LastOnTheOtherHost",
            ),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            env={**environment(), "DIRECTORY": directory, "KEYS": self.keys},
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Ran 4 tests", done.stderr)


if __name__ == "__main__":
    os.chdir(HERE)
    namespaces.enter()
    unittest.main(argv=[sys.argv[0], "Hosts"])
