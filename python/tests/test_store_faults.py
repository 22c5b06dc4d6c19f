"""slabyard.blobstore where units stop, die, are replaced, and pins run out."""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import threading
import time
import unittest

import numpy as np
from support import PATIENCE_S, await_that
from test_blobstore import StoreCase

from slabyard import errors
from slabyard.blobstore import encode_index
from slabyard.cluster import command_path
from slabyard.errors import DataPlaneTimeout, StaleRead, UnitFull


class StopsUnit:
    """A lock of a store that lets a unit stand still while the store writes to its slab: the
    unit has answered the alloc then, and does not answer the commit."""

    def __init__(self, pid):
        self.pid = pid
        self.written = threading.Event()

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        # Until then it may still carry out the commit, though not answer it any more.
        await_that("the unit stands", lambda: _state(self.pid) == "T")

    def __exit__(self, *exc):
        self.written.set()


class Commits(StoreCase):
    """A commit that comes to no answer."""

    def setUp(self):
        super().setUp()
        self.pid = self.unit_pid(0)
        self.stopper = StopsUnit(self.pid)
        self.store = self.new_store(lock=self.stopper)
        self.addCleanup(os.kill, self.pid, signal.SIGCONT)

    def test_its_deadline_passed(self):
        made, blob = self.blob(0, [0], size=100000)
        with self.assertRaises(DataPlaneTimeout) as caught:
            self.store.put_many([blob], time.monotonic() + 0.5)
        self.assertEqual(caught.exception.blob_ids, [made.blob_id])
        os.kill(self.pid, signal.SIGCONT)
        errs = []
        self.assertIs(self.store._commit(0, made.blob_id, None, errs), False)
        self.assertEqual(len(errs), 1)
        results, failed = self.store._call_units("commit", {0: made.blob_id}, None)
        self.assertEqual((results, failed), ({0: False}, []))
        self.assertEqual(self.read(0, ["0@x"]), {})

    def test_the_call_was_interrupted(self):
        """The put was left by Ctrl-C, its deadline lies ahead: the unit commits, and says so."""
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)
        made, blob = self.blob(0, [0], size=100000)
        main = os.getpid()

        def press():
            await_that("the unit stands", lambda: _state(self.pid) == "T")
            self.stopper.written.wait(60)
            time.sleep(0.5)  # the commit is on its way; nothing is asserted about time
            os.kill(main, signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            self.store.put_many([blob])
        thread.join()
        os.kill(self.pid, signal.SIGCONT)
        errs = []
        self.assertIs(self.store._commit(0, made.blob_id, None, errs), True)
        self.assertIs(self.store._commit(0, made.blob_id, None, errs), True)
        self.assertEqual(errs, [])
        self.assertEqual(set(self.read_plainly(["0@x"])), {"0@x"})

    def read_plainly(self, keys):
        """By a store whose lock stops nobody."""
        return self.read(0, keys, self.new_store())


def _state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def kill_and_await(pid):
    """Until all of the process is gone, though its parent does not look at it."""
    pidfd = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        if not select.select([pidfd], [], [], PATIENCE_S)[0]:
            raise AssertionError("it did not end")
    finally:
        os.close(pidfd)


class Precedence(StoreCase):
    """Of several failures put_many raises the first of Fatal, UnitFull, Timeout, Transfer."""

    def test_full_before_timeout_before_transfer(self):
        full, slow = self.blob(0, [0], size=65 << 20), self.blob(1, [1], size=100000)
        nowhere = self.blob(7, [7])
        ids = {one[0].blob_id for one in (full, slow, nowhere)}
        self.put(0, [2])  # connected: the full one's answer is there long before the deadline
        self.put(1, [3])
        with self.stopped(1):
            with self.assertRaises(UnitFull) as caught:
                self.store.put_many([nowhere[1], slow[1], full[1]], time.monotonic() + 2)
            self.assertEqual(set(caught.exception.blob_ids), ids)
            with self.assertRaises(DataPlaneTimeout) as caught:
                self.store.put_many([nowhere[1], slow[1]], time.monotonic() + 0.5)
            self.assertEqual(set(caught.exception.blob_ids), ids - {full[0].blob_id})

    def test_a_release_names_the_rows_of_no_unit_beside_those_that_failed(self):
        real = self.store._store

        class Fails:  # as where a unit is gone and the directory does not say so
            unit_count = real.unit_count

            def release(self, by_unit, deadline):
                raise errors.TransferFailed([row for _, rows in by_unit for row in rows], "cut")

        self.store._store = Fails()
        try:
            with self.assertRaises(errors.TransferFailed) as caught:
                self.store.release_rows({7: [7, 14], 1: [1, 3]}, None)
        finally:
            self.store._store = real
        self.assertEqual(caught.exception.blob_ids, [1, 3, 7, 14])
        self.assertIn("cut", str(caught.exception))


class Busy(StoreCase):
    """A unit that drains takes no puts, for a time: Busy, until the deadline."""

    WORDS = ("--heartbeat", "100ms")  # so soon the unit hears of it

    def refuses(self):
        try:
            self.store.put_many([self.blob(1, [5])[1]], time.monotonic() + 0.3)
        except DataPlaneTimeout as e:
            return "busy" in str(e)
        return False

    def test_a_unit_that_stays_busy(self):
        self.put(1, [1])
        self.drain()
        await_that("the unit knows", self.refuses)
        made, blob = self.blob(1, [3], size=100000)
        with self.assertRaisesRegex(DataPlaneTimeout, "busy") as caught:
            self.store.put_segments(*blob[:4], blob[4], time.monotonic() + 1)
        self.assertEqual(caught.exception.blob_ids, [made.blob_id])
        self.assertEqual(set(self.read(1, ["1@x", "3@x"])), {"1@x"})
        self.put(0, [0])
        # One that ends while the put is tried again is no failure at all.
        undo = threading.Timer(0.5, self.drain, ["--undo"])
        undo.start()
        self.store.put_many([blob])
        undo.join()
        self.assertEqual(set(self.read(1, ["3@x"])), {"3@x"})

    def drain(self, *words):
        command = [command_path(), "drain", "1", "--run-dir", self.cluster.run_dir, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Texts(StoreCase):
    def test_text_that_is_none(self):
        """What is kept as text is not looked at before somebody wants it as such."""
        made = encode_index([2, 4, 6], {"t": ["text", "true", "text"]})
        for addr, _, nbytes in made.segments:
            if ctypes.string_at(addr, nbytes) == b"true":
                ctypes.memset(addr, 0xFF, nbytes)
        self.store.put_segments(made.segments, made.nbytes, made.n_entries, 0, made.blob_id)
        with self.assertRaises(UnicodeDecodeError) as caught:
            self.client.get(["2@t", "4@t"])
        self.assertIn("that at index 1", caught.exception.__notes__[0])
        with self.assertRaises(UnicodeDecodeError) as caught:
            self.client.get_columns([4, 6], ["t"])
        self.assertIn("that at index 0", caught.exception.__notes__[0])
        self.assertIn("in the column 't'", caught.exception.__notes__[1])
        self.assertEqual(self.client.get(["2@t", "6@t"]), ["text", "text"])


class ShortPins(StoreCase):
    WORDS = ("--read-pin", "1s")

    def test_a_pin_that_nobody_read_runs_out(self):
        self.put(0, [0], size=100000)
        resolved = self.store.resolve_keys({0: ["0@x"]}, None)
        slab_off, nbytes, *_ = resolved[0]["entries"]["0@x"]
        free = self.free_bytes()[0]
        self.store.release_rows({0: [0]}, None)
        await_that("the pin was given back", lambda: self.free_bytes()[0] > free)
        into = np.zeros(nbytes, np.uint8)
        with self.assertRaises(StaleRead):
            self.store.read_entries(
                {0: [(slab_off, nbytes, into.ctypes.data)]}, {0: ["0@x"]}, None
            )
        self.store.unpin_all(resolved)


class Deaths(StoreCase):
    """Each test ends a unit of a cluster of its own."""

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        self.cluster = self.new_cluster()
        self.addCleanup(self.cluster.close)
        super().setUp()

    def test_lost_is_said_only_by_the_directory(self):
        """The unit is gone and the directory stands still: that is no loss yet."""
        self.store = self.new_store(timeout_s=2)
        self.put(1, [1])
        blob = self.blob(1, [3])[1]
        pid = self.unit_pid(1)
        resolved = self.store.resolve_keys({1: ["1@x"]}, None)
        read = self.read_of(resolved, "1@x")
        with self.directory_stopped(pid):
            kill_and_await(pid)
            for call in (
                lambda: self.store.read_entries(*read, None),
                lambda: self.store.resolve_keys({1: ["1@x"]}, None),
                lambda: self.store.put_many([blob]),
                lambda: self.store.release_rows({1: [1]}, None),
            ):
                with self.assertRaises((errors.TransferFailed, DataPlaneTimeout)):
                    call()
            self.assertFalse(self.store._unit_dead(1))
            failed = self.store._failed(1, ["a"], errors.TransferError("cut"))
            self.assertIsInstance(failed, errors.TransferFailed)
        await_that("it is dead", lambda: self.store._unit_dead(1))
        with self.assertRaises(errors.LostBlobs):
            self.store.read_entries(*read, None)
        with self.assertRaises(errors.LostBlobs):
            self.store.resolve_keys({1: ["1@x"]}, None)
        self.assertIsNone(self.store.release_rows({1: [1]}, None))

    def read_of(self, resolved, key):
        """What read_entries takes to read a key of unit 1, but the deadline."""
        slab_off, nbytes, *_ = resolved[1]["entries"][key]
        self.into = np.zeros(nbytes, np.uint8)
        return {1: [(slab_off, nbytes, self.into.ctypes.data)]}, {1: [key]}

    @contextlib.contextmanager
    def directory_stopped(self, unit_pid):
        """The directory's process, which is the units' parent, stands still."""
        with open(f"/proc/{unit_pid}/stat") as file:
            supervisor = int(file.read().rpartition(")")[2].split()[1])
        os.kill(supervisor, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(supervisor, signal.SIGCONT)

    def test_a_unit_is_replaced(self):
        self.put(1, [1], size=1000)
        old = self.store._unit(1)
        resolved = self.store.resolve_keys({1: ["1@x"]}, None)
        read = self.read_of(resolved, "1@x")
        self.kill_unit(1)
        with self.assertRaises(errors.LostBlobs) as caught:
            self.store.read_entries(*read, None)
        self.assertEqual(caught.exception.blob_ids, ["1@x"])
        with self.assertRaises(errors.LostBlobs):
            self.store.resolve_keys({1: ["1@x"]}, None)
        self.assertTrue(self.store._unit_dead(1))
        with self.assertRaises(errors.LostBlobs):
            self.store._unit(1)
        self.start_unit(1)
        with self.assertRaises(StaleRead):
            self.store.read_entries(*read, None)
        new = self.store._unit(1)
        self.assertEqual(new["state"], "active")
        self.assertNotEqual(new["incarnation"], old["incarnation"])
        self.assertTrue(self.store._addr(1))
        self.assertFalse(self.store._unit_dead(1))
        self.assertEqual(self.store.resolve_keys({1: ["1@x"]}, None)[1]["missing"], ["1@x"])
        # What was pinned in the old slab is no entry of the new one.
        with self.assertRaises(StaleRead):
            self.store.read_entries(*read, None)
        self.assertFalse(self.into.any())
        self.store.unpin_all(resolved)
        self.put(1, [3])
        self.assertEqual(set(self.read(1, ["3@x"])), {"3@x"})

    def test_a_commit_of_a_unit_that_was_replaced(self):
        """What the old one published is not there, whoever asks first; others keep theirs."""
        ids = {unit: self.put(unit, [unit]) for unit in (0, 1)}
        stores = [self.store, self.new_store()]
        self.store = stores[1]
        made, blob = self.blob(1, [3])
        other = made.blob_id
        self.store.put_many([blob])
        self.kill_unit(1)
        self.start_unit(1)
        errs = []
        self.assertIs(stores[0]._commit(1, ids[1], None, errs), False)
        self.assertEqual(len(errs), 1)
        answers, failed = stores[0]._call_units("commit", ids, None)
        self.assertEqual((answers, failed), ({0: True, 1: False}, []))
        answers, failed = stores[1]._call_units("commit", {1: other}, None)
        self.assertEqual((answers, failed), ({1: False}, []))
        # Put again, it is: the newest put of a blob counts.
        stores[1].put_many([blob])
        self.assertIs(stores[1]._commit(1, other, None, errs), True)
        self.assertEqual(len(errs), 1)

    def test_a_dead_unit_is_told_at_once_each_time(self):
        self.put(1, [1])
        self.kill_unit(1)
        end = time.monotonic() + 30  # of all the calls; one that waits for anything is too slow
        store = self.new_store(timeout_s=60)
        for _ in range(100):
            with self.assertRaises(errors.LostBlobs):
                store.resolve_keys({1: ["1@x"]}, end)
            self.assertIsNone(store.release_rows({1: [1]}, end))
            with self.assertRaisesRegex(errors.TransferFailed, "dead"):
                store.put_many([self.blob(1, [3])[1]], end)

    def test_a_unit_that_was_dead_when_the_store_was_made(self):
        self.kill_unit(1)
        store = self.new_store()
        with self.assertRaises(errors.LostBlobs):
            store._unit(1)
        self.start_unit(1)
        self.assertEqual(store._unit(1)["state"], "active")

    def start_unit(self, unit_id):
        command = [
            command_path(), "unit", "--run-dir", self.cluster.run_dir,
            "--id", str(unit_id), "--units", str(self.UNITS),
            "--directory", self.directory.address, "--slab-bytes", self.SLAB,
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        await_that(
            "the unit serves",
            lambda: self.directory.units()[unit_id]["state"] == "active",
        )


if __name__ == "__main__":
    unittest.main()
