"""slabyard.blobstore: a behaviour for each line of what it promises."""

import os
import threading
import time
import unittest
from unittest import mock

import numpy as np
from support import ClusterCase

import slabyard
from slabyard import errors
from slabyard.blobstore import UnitSlabStore, encode_index
from slabyard.errors import (
    DataPlaneFatal,
    DataPlaneTimeout,
    StaleRead,
    TransferError,
    TransportPolicyError,
    UnitFull,
)


class StoreCase(ClusterCase):
    STORE = {}

    def setUp(self):
        super().setUp()
        self.kept = []
        self.ep = slabyard.Endpoint()
        self.directory = slabyard.Directory(run_dir=self.cluster.run_dir)
        self.store = self.new_store()

    def new_store(self, **options):
        made = UnitSlabStore(
            self.ep, self.directory, **{"namespace": self.id(), "timeout_s": 10} | options
        )
        self.addCleanup(made.close)
        return made

    def blob(self, unit_id, rows, size=10, field="x", fill=None):
        """A blob as put_many takes it, and the arrays in it."""
        arrays = [np.full(size, row if fill is None else fill, np.uint8) for row in rows]
        made = encode_index(rows, {field: arrays})
        self.kept.append(made)  # the segments point into its memory
        return made, (made.segments, made.nbytes, made.n_entries, unit_id, made.blob_id)

    def put(self, unit_id, rows, **options):
        made, blob = self.blob(unit_id, rows, **options)
        return self.store.put_segments(*blob[:4], blob[4])

    def read(self, unit_id, keys, store=None):
        """{key: bytes} of what is there."""
        store = store or self.store
        resolved = store.resolve_keys({unit_id: keys}, None)
        found = {}
        for key, (slab_off, nbytes, *_) in resolved[unit_id]["entries"].items():
            into = np.zeros(max(nbytes, 1), np.uint8)
            store.read_entries(
                {unit_id: [(slab_off, nbytes, into.ctypes.data)]}, {unit_id: keys}, None
            )
            found[key] = into[:nbytes].tobytes()
        store.unpin_all(resolved)
        return found


class Units(StoreCase):
    def test_directory_by_address(self):
        store = UnitSlabStore(self.ep, self.directory.address, namespace="n", timeout_s=10)
        self.assertEqual(store._addr(0), self.store._addr(0))
        store.close()

    def test_constructor_raises(self):
        for choice in ({"policy": "tcp"}, {"transport": "rdma"}):
            with self.assertRaisesRegex(ValueError, "not '(tcp|rdma)'"):
                slabyard.Endpoint(**choice)
        with mock.patch.dict(os.environ, UCX_TLS="tcp"):
            ep = slabyard.Endpoint("rdma", transport="ucx")
            with self.assertRaisesRegex(TransportPolicyError, "UCX_TLS=tcp allows TCP: export"):
                UnitSlabStore(ep, self.directory, namespace="n", timeout_s=10)
        with self.assertRaises(DataPlaneTimeout):
            UnitSlabStore(self.ep, "ipc:///tmp/slabyard-nobody", namespace="n", timeout_s=0.2)
        with self.assertRaises(ValueError):
            UnitSlabStore(self.ep, "no address", namespace="n", timeout_s=1)
        with self.assertRaises(TypeError):
            UnitSlabStore(self.ep, self.directory, namespace="n", timeout_s=1, lock=object())
        with self.assertRaisesRegex(TypeError, "slabyard.Endpoint"):
            UnitSlabStore(None, self.directory, namespace="n", timeout_s=1)
        with self.assertRaises(TypeError):
            UnitSlabStore(self.ep, self.directory, "n", 1)

    def test_unit(self):
        unit = self.store._unit(1)
        self.assertIsInstance(unit, dict)
        self.assertEqual((unit["unit_id"], unit["state"]), (1, "active"))
        self.assertEqual(unit["slab_bytes"], 64 << 20)
        self.assertTrue(self.store._addr(1).startswith("ipc://"))
        self.assertIsNone(self.store._refresh_units())
        for unknown in (2, -1, "0"):
            with self.assertRaises(errors.LostBlobs):
                self.store._unit(unknown)
        with self.assertRaises(errors.LostBlobs):
            self.store._addr(2)

    def test_unit_dead_and_failed(self):
        self.assertFalse(self.store._unit_dead(0))
        self.assertFalse(self.store._unit_dead(7))
        cause = TransferError("cut", in_flight=True)
        failed = self.store._failed(0, ["a", "b"], cause)
        self.assertIsInstance(failed, errors.TransferFailed)
        self.assertEqual(
            (failed.blob_ids, failed.reason, failed.in_flight), (["a", "b"], "cut", True)
        )

    def test_directory(self):
        units = self.directory.units()
        self.assertEqual([u["unit_id"] for u in units], [0, 1])
        self.assertEqual(self.directory.unit_count(), 2)
        self.assertGreater(self.directory.epoch(), 0)
        self.assertEqual(self.directory.units(self.directory.epoch() + 1), [])
        self.assertFalse(self.directory.is_dead(0, units[0]["incarnation"]))
        with self.assertRaises(ValueError):
            self.directory.is_dead(9, 1)
        with self.assertRaises(ValueError):
            slabyard.Directory()
        with self.assertRaises(OSError):
            slabyard.Directory(run_dir="/nonexistent/slabyard")

    def test_endpoint(self):
        array = np.arange(4, dtype=np.uint8)
        self.ep.register(array.ctypes.data, array.nbytes)
        self.put(0, [2], size=4)
        resolved = self.store.resolve_keys({0: ["2@x"]}, None)
        slab_off = resolved[0]["entries"]["2@x"][0]
        # Of a store that has done nothing yet: asking for the unit connects its remote.
        remote = self.new_store()._unit(0)["remote"]
        self.ep.transfer("READ", remote, [(array.ctypes.data, slab_off, 4)])
        self.assertEqual(array.tolist(), [2, 2, 2, 2])
        remote = self.store._unit(0)["remote"]
        array[:] = 9
        self.ep.transfer(
            "WRITE", remote, [(array.ctypes.data, slab_off, 4)], time.monotonic() + 5
        )
        self.assertEqual(self.read(0, ["2@x"]), {"2@x": b"\t" * 4})
        with self.assertRaises(TransferError) as caught:
            self.ep.transfer("READ", remote, [(array.ctypes.data, 64 << 20, 4)])
        self.assertFalse(caught.exception.in_flight)
        self.assertRaises(ValueError, self.ep.transfer, "COPY", remote, [])
        self.store.unpin_all(resolved)
        self.ep.deregister(array.ctypes.data, array.nbytes)
        self.assertRaises(ValueError, self.ep.deregister, array.ctypes.data, array.nbytes)


class Puts(StoreCase):
    def test_put_segments(self):
        made, (segments, nbytes, n_entries, _, blob_id) = self.blob(1, [1, 3], size=100)
        self.assertEqual(
            self.store.put_segments(segments, nbytes, n_entries, 1, blob_id), blob_id
        )
        self.assertEqual(
            self.read(1, ["3@x", "1@x", "5@x"]), {"3@x": b"\3" * 100, "1@x": b"\1" * 100}
        )
        # The client finds what a store put.
        self.assertEqual(self.client.get(["3@x"])[0].tolist(), [3] * 100)

    def test_offsets_that_are_none(self):
        for offsets in ([0, 5, 9], [3, 1, 0], [-2, -1, 3], [0, 1], [0, 1, 2, 3]):
            with self.assertRaisesRegex(ValueError, "offsets"):
                encode_index([0, 2], {"x": (np.arange(3.0), offsets)})

    def test_put_segments_raises(self):
        made, (segments, nbytes, n_entries, _, blob_id) = self.blob(0, [0], size=65 << 20)
        with self.assertRaises(UnitFull) as full:
            self.store.put_segments(segments, nbytes, n_entries, 0, blob_id)
        self.assertEqual(
            (full.exception.resource, full.exception.blob_ids), ("bytes", [blob_id])
        )
        made, (segments, nbytes, n_entries, _, blob_id) = self.blob(0, [0])
        with self.assertRaises(errors.TransferFailed) as failed:
            self.store.put_segments(segments, nbytes, n_entries, 5, blob_id)
        self.assertEqual(failed.exception.blob_ids, [blob_id])
        with self.assertRaises(DataPlaneTimeout) as late:
            self.store.put_segments(
                segments, nbytes, n_entries, 0, blob_id, time.monotonic() - 1
            )
        self.assertEqual(late.exception.blob_ids, [blob_id])
        with self.assertRaises(errors.TransferFailed):  # no blob
            self.store.put_segments([(np.zeros(100).ctypes.data, 0, 100)], 100, 1, 0, blob_id)
        with self.assertRaises(ValueError):
            self.store.put_segments([(0, 90, 20)], 100, 1, 0, blob_id)
        with self.assertRaises(ValueError):
            self.store.put_segments(segments, nbytes, n_entries, 0, "short")
        with self.assertRaises(TypeError):
            self.store.put_segments([("a", 0, 1)], nbytes, n_entries, 0, blob_id)
        # Nothing of it is left.
        self.assertEqual(
            self.store.put_segments(segments, nbytes, n_entries, 0, blob_id), blob_id
        )

    def test_numbers(self):
        """Whole numbers of numpy's are numbers; what does not fit is refused, not cut."""
        made, (segments, nbytes, n_entries, _, blob_id) = self.blob(0, [0])
        unit, where = np.int64(0), [tuple(np.int64(n) for n in one) for one in segments]
        self.store.put_segments(where, np.int64(nbytes), np.int32(n_entries), unit, blob_id)
        self.assertEqual(self.read(unit, ["0@x"]), {"0@x": b"\0" * 10})
        self.assertEqual(self.store._unit(unit)["unit_id"], 0)
        self.store.release_rows({unit: [np.int64(0)]}, None)
        for wrong in (
            (segments, -1, n_entries),
            (segments, nbytes, -1),
            (segments, nbytes, 2**32),
            ([(-1, 0, 1)], nbytes, n_entries),
            ([(2**64, 0, 1)], nbytes, n_entries),
        ):
            with self.assertRaises(ValueError):
                self.store.put_segments(*wrong, 0, blob_id)
        with self.assertRaises(TypeError):
            self.store.put_segments(segments, 1.5, n_entries, 0, blob_id)
        with self.assertRaises(ValueError):
            self.ep.register(-1, 4)
        with self.assertRaises(ValueError):
            self.directory.units(-1)

    def test_put_many(self):
        made = [self.blob(unit, [unit + 2 * k], size=1000) for k in range(5) for unit in (0, 1)]
        self.assertIsNone(self.store.put_many([blob for _, blob in made]))
        self.assertEqual(len(self.read(0, [f"{2 * k}@x" for k in range(5)])), 5)
        self.assertEqual(len(self.read(1, [f"{2 * k + 1}@x" for k in range(5)])), 5)
        self.store.put_many([])

    def test_put_many_tries_all_and_names_what_failed(self):
        good, big = self.blob(0, [0]), self.blob(1, [1], size=65 << 20)
        after, nowhere = self.blob(1, [3]), self.blob(9, [5])
        with self.assertRaises(UnitFull) as caught:
            self.store.put_many([good[1], big[1], after[1], nowhere[1]])
        self.assertEqual(set(caught.exception.blob_ids), {big[0].blob_id, nowhere[0].blob_id})
        self.assertEqual(
            (set(self.read(0, ["0@x"])), set(self.read(1, ["1@x", "3@x"]))), ({"0@x"}, {"3@x"})
        )
        with self.assertRaises(errors.TransferFailed) as caught:
            self.store.put_many([self.blob(0, [2])[1], nowhere[1]])
        self.assertEqual(caught.exception.blob_ids, [nowhere[0].blob_id])
        self.assertEqual(set(self.read(0, ["2@x"])), {"2@x"})

    def test_put_round(self):
        made = {0: self.blob(0, [0]), 1: self.blob(1, [1], size=65 << 20)}
        done = self.store._put_round({unit: blob for unit, (_, blob) in made.items()}, None)
        self.assertEqual(done, {made[0][0].blob_id})
        self.assertEqual(self.store._put_round({}, None), set())

    def test_commit(self):
        errs = []
        blob_id = self.put(0, [0])
        self.assertIs(self.store._commit(0, blob_id, None, errs), True)
        self.assertIs(self.store._commit(self.store._unit(0), blob_id, None, errs), True)
        self.assertEqual(errs, [])
        self.assertIs(self.store._commit(1, blob_id, None, errs), False)
        self.assertIs(self.store._commit(0, "0" * 32, None, errs), False)
        self.assertEqual(len(errs), 2)

    def test_a_stopped_unit(self):
        """Others go on; the put of the stopped one is Timeout and its commit is asked for."""
        self.put(0, [0])
        self.put(1, [1])  # connected
        made = {unit: self.blob(unit, [unit + 2], size=100000) for unit in (0, 1)}
        with self.stopped(1):
            with self.assertRaises(DataPlaneTimeout) as caught:
                self.store.put_many([made[0][1], made[1][1]], time.monotonic() + 2)
            self.assertEqual(caught.exception.blob_ids, [made[1][0].blob_id])
            self.assertEqual(set(self.read(0, ["2@x"])), {"2@x"})
            self.assertFalse(self.store._unit_dead(1))
            with self.assertRaises(DataPlaneTimeout):
                self.store.resolve_keys({1: ["1@x"]}, time.monotonic() + 0.2)
            with self.assertRaises(DataPlaneTimeout):
                self.store.release_rows({1: [9]}, time.monotonic() + 0.2)
        self.assertEqual(self.read(1, ["1@x"]), {"1@x": b"\1" * 10})

    def test_lock_is_held_around_the_endpoint(self):
        class Lock:
            def __init__(self):
                self.lock, self.held, self.entered = threading.Lock(), False, 0

            def __enter__(self):
                self.lock.acquire()
                self.held, self.entered = True, self.entered + 1

            def __exit__(self, *exc):
                self.held = False
                self.lock.release()

        lock = Lock()
        store = self.new_store(lock=lock)
        made, blob = self.blob(0, [0], size=100000)
        store.put_many([blob])
        self.assertEqual((lock.entered, lock.held), (1, False))
        self.read(0, ["0@x"], store)
        self.assertEqual((lock.entered, lock.held), (2, False))
        # While somebody else holds it nothing moves.
        with lock.lock:
            thread = threading.Thread(target=store.put_many, args=([self.blob(0, [2])[1]],))
            thread.start()
            thread.join(0.2)
            self.assertTrue(thread.is_alive())
        thread.join()
        self.assertEqual(lock.entered, 3)
        plain = self.new_store(lock=threading.RLock())
        plain.put_many([self.blob(0, [4])[1]])


class Gets(StoreCase):
    def test_resolve_keys(self):
        made = encode_index(
            [2, 4],
            {
                "t": (np.arange(6, dtype=np.int32).reshape(3, 2), [0, 1, 3]),
                "s": np.array([0.5, 1.5]),
                "text": ["ab", ""],
                "raw": [b"abc", b""],
            },
        )
        self.store.put_segments(made.segments, made.nbytes, made.n_entries, 0, made.blob_id)
        self.put(1, [1])
        keys = ["4@t", "2@s", "2@text", "4@raw", "9@t", "2@none"]
        resolved = self.store.resolve_keys({0: keys, 1: ["1@x"]}, None)
        self.assertEqual(set(resolved), {0, 1})
        one = resolved[0]
        self.assertEqual(set(one), {"pin_id", "incarnation", "entries", "missing"})
        self.assertEqual(one["incarnation"], self.store._unit(0)["incarnation"])
        self.assertEqual(one["missing"], ["9@t", "2@none"])
        what = {key: entry[1:] for key, entry in one["entries"].items()}
        self.assertEqual(
            what,
            {
                "4@t": (16, "i32", (2, 2), "tensor"),
                "2@s": (8, "f64", (), "tensor"),
                "2@text": (2, "none", (), "utf8"),
                "4@raw": (0, "none", (), "bytes"),
            },
        )
        self.assertEqual(resolved[1]["entries"]["1@x"][1:], (10, "u8", (10,), "tensor"))
        self.store.unpin_all(resolved)
        self.assertEqual(self.store.resolve_keys({}, None), {})

    def test_resolve_keys_raises(self):
        with self.assertRaises(errors.LostBlobs) as caught:
            self.store.resolve_keys({0: ["0@x"], 5: ["5@x", "11@x"]}, None)
        self.assertEqual(caught.exception.blob_ids, ["5@x", "11@x"])
        with self.assertRaises(ValueError):
            self.store.resolve_keys({0: ["no key"]}, None)
        with self.assertRaises(DataPlaneTimeout):
            self.store.resolve_keys({0: ["0@x"]}, time.monotonic() - 1)

    def test_what_is_resolved_stays(self):
        self.put(0, [0], fill=7)
        resolved = self.store.resolve_keys({0: ["0@x"]}, None)
        for turn in range(20):
            self.put(0, [0], fill=100 + turn)
        self.store.release_rows({0: [0]}, None)
        slab_off, nbytes, *_ = resolved[0]["entries"]["0@x"]
        into = np.zeros(nbytes, np.uint8)
        self.store.read_entries({0: [(slab_off, nbytes, into.ctypes.data)]}, {0: ["0@x"]}, None)
        self.assertEqual(into.tolist(), [7] * 10)
        # A part of it, and nothing of it.
        self.store.read_entries(
            {0: [(slab_off + 3, 4, into.ctypes.data), (slab_off, 0, 0)]}, {0: ["0@x"]}, None
        )
        self.store.unpin_all(resolved)

    def test_reads_that_nothing_covers(self):
        self.put(0, [0, 2])
        self.put(1, [1])
        resolved = self.store.resolve_keys({0: ["0@x", "2@x"], 1: ["1@x"]}, None)
        slab_off, nbytes, *_ = resolved[0]["entries"]["0@x"]
        at = np.zeros(100, np.uint8).ctypes.data

        def read(unit_id, ranges, keys, store=self.store):
            store.read_entries({unit_id: ranges}, {unit_id: keys}, None)

        for unit_id, ranges, keys in (
            (0, [(slab_off, nbytes + 1, at)], ["0@x"]),
            (0, [(slab_off - 1, 1, at)], ["0@x"]),
            (0, [(slab_off, nbytes, at)], ["2@x"]),  # another key's
            (0, [(slab_off, nbytes, at)], []),
            (0, [(slab_off, nbytes, at)], ["4@x"]),
            (1, [(slab_off + 1, nbytes, at)], ["1@x"]),
            (5, [(slab_off, nbytes, at)], ["0@x"]),
        ):
            with self.subTest(f"{unit_id} {keys}"), self.assertRaises(StaleRead):
                read(unit_id, ranges, keys)
        with self.assertRaises(StaleRead):  # another store's resolve
            read(0, [(slab_off, nbytes, at)], ["0@x"], self.new_store())
        read(0, [(slab_off, nbytes, at)], ["2@x", "0@x"])
        self.store.unpin_all({0: resolved[0]})
        with self.assertRaises(StaleRead):
            read(0, [(slab_off, nbytes, at)], ["0@x"])
        where = resolved[1]["entries"]["1@x"]
        read(1, [(where[0], where[1], at)], ["1@x"])
        self.store.unpin_all(resolved)
        self.store.unpin_all(resolved)
        self.store.unpin_all({0: {"nonsense": 1}})
        self.store.unpin_all(None)
        with self.assertRaises(StaleRead):
            read(1, [(where[0], where[1], at)], ["1@x"])
        read(0, [], [])

    def test_all_pins_come_back(self):
        before = self.free_bytes()
        self.put(0, [0], size=200000)
        resolved = self.store.resolve_keys({0: ["0@x"]}, None)
        self.store.release_rows({0: [0]}, None)
        self.assertLess(self.free_bytes()[0], before[0])
        self.store.unpin_all(resolved)
        from support import await_that

        await_that("the bytes came back", lambda: self.free_bytes() == before)

    def test_a_failed_resolve_leaves_no_pin(self):
        before = self.free_bytes()
        self.put(0, [0], size=200000)
        with self.stopped(1):
            with self.assertRaises(DataPlaneTimeout):
                self.store.resolve_keys({0: ["0@x"], 1: ["1@x"]}, time.monotonic() + 0.3)
        self.store.release_rows({0: [0]}, None)
        from support import await_that

        await_that("the bytes came back", lambda: self.free_bytes() == before)

    def test_release_rows(self):
        self.put(0, [0, 2])
        self.put(0, [0], field="y")
        self.assertIsNone(self.store.release_rows({0: [0, 8], 1: [1]}, None))
        self.assertEqual(set(self.read(0, ["0@x", "0@y", "2@x"])), {"2@x"})
        self.store.release_rows({0: np.array([0, 2])}, None)
        self.store.release_rows({}, None)
        with self.assertRaises(errors.TransferFailed) as caught:
            self.store.release_rows({0: [0], 7: [7, 14]}, None)
        self.assertEqual(caught.exception.blob_ids, [7, 14])
        # Only those are left: the others went.
        self.put(0, [4])
        with self.assertRaises(errors.TransferFailed) as caught:
            self.store.release_rows({7: [7], 0: [4]}, None)
        self.assertEqual((caught.exception.blob_ids, self.read(0, ["4@x"])), ([7], {}))

    def test_call_units(self):
        self.put(0, [0])
        results, failed = self.store._call_units(
            "resolve_keys", {0: ["0@x"], 1: ["1@x"], 5: ["5@x"]}, None
        )
        self.assertEqual(set(results), {0, 1})
        self.assertEqual((set(results[0]["entries"]), results[1]["missing"]), ({"0@x"}, ["1@x"]))
        self.assertEqual([unit for unit, _ in failed], [5])
        self.assertIsInstance(failed[0][1], errors.LostBlobs)
        self.store.unpin_all(results)
        results, failed = self.store._call_units("info", {0: None, 1: None}, None)
        self.assertEqual((results[1]["unit_id"], failed), (1, []))
        made, blob = self.blob(1, [3])
        results, failed = self.store._call_units("put", {1: blob}, None)
        self.assertEqual((results, failed), ({1: made.blob_id}, []))
        results, failed = self.store._call_units("commit", {1: made.blob_id}, None)
        self.assertEqual((results, failed), ({1: True}, []))
        results, failed = self.store._call_units("commit", {0: made.blob_id}, None)
        self.assertEqual(results, {})
        self.assertEqual(failed[0][1].blob_ids, [made.blob_id])
        results, failed = self.store._call_units("put", {0: self.blob(1, [5])[1]}, None)
        self.assertEqual((results, failed[0][0]), ({}, 0))
        self.assertIsInstance(failed[0][1], ValueError)
        results, failed = self.store._call_units("release_rows", {0: [0], 1: [3]}, None)
        self.assertEqual((results, failed), ({0: None, 1: None}, []))
        with self.stopped(1):
            end = time.monotonic() + 2
            results, failed = self.store._call_units(
                "resolve_keys", {0: ["0@x"], 1: ["1@x"]}, end
            )
            self.assertEqual(set(results), {0})
            self.assertIsInstance(failed[0][1], DataPlaneTimeout)
        with self.assertRaises(ValueError):
            self.store._call_units("no such op", {0: None}, None)
        with self.assertRaises(DataPlaneTimeout):
            self.store._call_units("info", {0: None}, time.monotonic() - 1)

    def test_close(self):
        blob_id = self.put(0, [0], size=200000)
        self.assertTrue(self.store._unit(0))
        resolved = self.store.resolve_keys({0: ["0@x"]}, None)
        self.store.close()
        self.store.close()
        self.store.unpin_all(resolved)
        made, blob = self.blob(0, [0])
        for call in (
            lambda: self.store.put_many([blob]),
            lambda: self.store.resolve_keys({0: ["0@x"]}, None),
            lambda: self.store.release_rows({0: [0]}, None),
            lambda: self.store.read_entries({0: [(0, 1, 0)]}, {0: ["0@x"]}, None),
            lambda: self.store._commit(0, blob_id, None, []),
            lambda: self.store._refresh_units(),
            lambda: self.store._unit(0),
            lambda: self.store._addr(0),
        ):
            with self.assertRaises(DataPlaneFatal):
                call()


class Indexes(StoreCase):
    def test_rows_in_any_order(self):
        rows = [8, 2, 6]
        made = encode_index(rows, {"b": ["eight", "two", "six"], "a": np.array([8, 2, 6])})
        self.assertEqual(made.n_entries, 6)
        self.store.put_segments(made.segments, made.nbytes, made.n_entries, 0, made.blob_id)
        got = self.client.get_columns(rows, ["a", "b"])
        self.assertEqual((got["a"].tolist(), got["b"]), ([8, 2, 6], ["eight", "two", "six"]))

    def test_forms_that_differ(self):
        values = [
            np.zeros((2, 3)),
            b"abc",
            np.zeros((4, 0), np.int8),
            "text",
            np.float32(1),
            np.arange(6)[::2],
            np.zeros((2, 5)),
        ]
        rows = list(range(0, 2 * len(values), 2))
        made = encode_index(rows, {"x": values})
        self.store.put_segments(made.segments, made.nbytes, made.n_entries, 0, made.blob_id)
        got = self.client.get_columns(rows, ["x"])["x"]
        for a, b in zip(values, got):
            if isinstance(a, (bytes, str)):
                self.assertEqual(a, b)
            else:
                self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                np.testing.assert_array_equal(a, b)

    def test_a_given_id(self):
        self.assertEqual(encode_index([1], {"x": [b""]}, blob_id="ab" * 16).blob_id, "ab" * 16)

    def test_bad_calls(self):
        for rows, columns, error in (
            ([1, 1], {"x": [b"", b""]}, ValueError),
            ([1], {"x": [b"", b""]}, ValueError),
            ([1], {"": [b""]}, ValueError),
            ([-1], {"x": [b""]}, ValueError),
            ([1], {"x": [None]}, TypeError),
            ([1], {"x": [np.array([None])]}, TypeError),
            ([1], {"x": [np.zeros(2, np.longdouble)]}, TypeError),
            ([1.5], {"x": [b""]}, TypeError),
            ([1], {"x": np.array(5)}, ValueError),
            ([1], {"x": (np.array(5), [0, 1])}, ValueError),
        ):
            with self.assertRaises(error):
                encode_index(rows, columns)
        with self.assertRaises(ValueError):
            encode_index([1], {"x": [b""]}, blob_id="zz" * 16)


class DeadUnits(StoreCase):
    def test_a_dead_unit(self):
        """One test, for it ends a unit of its cluster."""
        self.put(0, [0])
        self.put(1, [1])
        resolved = self.store.resolve_keys({1: ["1@x"]}, None)
        self.kill_unit(1)
        self.assertTrue(self.store._unit_dead(1))
        self.assertFalse(self.store._unit_dead(0))
        with self.assertRaises(errors.LostBlobs):
            self.store._unit(1)
        with self.assertRaises(errors.LostBlobs):
            self.store._addr(1)
        lost = self.store._failed(1, ["a"], TransferError("cut"))
        self.assertIsInstance(lost, errors.LostBlobs)
        self.assertEqual(lost.blob_ids, ["a"])
        with self.assertRaises(errors.LostBlobs) as caught:
            self.store.resolve_keys({0: ["0@x"], 1: ["1@x", "3@x"]}, None)
        self.assertEqual(set(caught.exception.blob_ids), {"1@x", "3@x"})
        self.assertIsNone(self.store.release_rows({1: [1]}, None))
        blobs = [self.blob(0, [2])[1], self.blob(1, [3])[1]]
        with self.assertRaises(errors.TransferFailed) as caught:
            self.store.put_many(blobs)
        self.assertEqual(caught.exception.blob_ids, [blobs[1][4]])
        self.assertIn("dead", str(caught.exception))
        errs = []
        self.assertFalse(self.store._commit(1, blobs[1][4], None, errs))
        self.assertEqual(len(errs), 1)
        # What was pinned lies in memory that this process still has, and is lost all the same.
        slab_off, nbytes, *_ = resolved[1]["entries"]["1@x"]
        into = np.zeros(nbytes, np.uint8)
        reads = {1: [(slab_off, nbytes, into.ctypes.data)]}
        for deadline in (None, time.monotonic() + 60):
            with self.assertRaises(errors.LostBlobs) as caught:
                self.store.read_entries(reads, {1: ["1@x"]}, deadline)
            self.assertEqual(caught.exception.blob_ids, ["1@x"])
        self.assertEqual(into.tolist(), [0] * 10)
        self.store.unpin_all(resolved)
        with self.assertRaises(errors.StaleRead):
            self.store.read_entries(reads, {1: ["1@x"]}, None)
        self.assertEqual(set(self.read(0, ["0@x", "2@x"])), {"0@x", "2@x"})


if __name__ == "__main__":
    unittest.main()
