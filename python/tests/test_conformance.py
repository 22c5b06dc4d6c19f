"""The documented store, line by line: which tests show each of its promises, and those that
stand nowhere else."""

import contextlib
import inspect
import threading
import time
import unittest
from unittest import mock

import test_blobstore_contract
from support import await_that
from test_blobstore import StoreCase

from slabyard import blobstore, errors
from slabyard.blobstore import UnitSlabStore
from slabyard.errors import DataPlaneTimeout, UnitFull

# name: {promise: the test that fails without it}
LINES = {
    "__init__": {
        "directory is an address or a Directory": "test_blobstore.Units.test_directory_by_address",
        "fetches the unit list at once": "test_conformance.Lines.test_refreshes_at_start_only",
        "lock is held around every use of ep": "test_blobstore.Puts"
        ".test_lock_is_held_around_the_endpoint",
        "timeout_s caps each operation": "test_conformance.Lines.test_timeout_s_caps",
        "ssd": "test_conformance.Lines.test_ssd",
        "TransportPolicyError": "test_blobstore.Units.test_constructor_raises",
    },
    "_refresh_units": {
        "at start and when a unit is unknown, never on the op path": "test_conformance.Lines"
        ".test_refreshes_at_start_only",
    },
    "_unit": {
        "a dict; LostBlobs if unknown": "test_blobstore.Units.test_unit",
        "LostBlobs if DEAD": "test_blobstore.DeadUnits.test_a_dead_unit",
        "refreshed once if marked dead": "test_store_faults.Deaths.test_a_unit_is_replaced",
        "refreshed once if listed dead": "test_store_faults.Deaths"
        ".test_a_unit_that_was_dead_when_the_store_was_made",
        "connects its remote": "test_blobstore.Units.test_endpoint",
    },
    "_addr": {
        "str; LostBlobs": "test_blobstore.Units.test_unit",
        "LostBlobs if DEAD": "test_blobstore.DeadUnits.test_a_dead_unit",
    },
    "put_segments": {
        "alloc, WRITE, commit; the blob's id": "test_blobstore.Puts.test_put_segments",
        "no id: the one in the index": "test_blob_ids.Ids.test_none_is_the_one_in_the_index",
        "an id is one blob of a unit": "test_blob_ids.Ids.test_two_that_are_the_same",
        "a wrong id: TransferFailed": "test_blob_ids.Ids.test_a_wrong_one",
        "UnitFull, TransferFailed, DataPlaneTimeout": "test_blobstore.Puts"
        ".test_put_segments_raises",
        "DataPlaneTimeout while Busy": "test_store_faults.Busy.test_a_unit_that_stays_busy",
    },
    "_commit": {
        "bool; reasons appended": "test_blobstore.Puts.test_commit",
        "asks again on a lost reply": "test_store_faults.Commits.test_the_call_was_interrupted",
        "False and aborted": "test_store_faults.Commits.test_its_deadline_passed",
        "of a dead unit": "test_blobstore.DeadUnits.test_a_dead_unit",
        "of one that was replaced": "test_store_faults.Deaths"
        ".test_a_commit_of_a_unit_that_was_replaced",
    },
    "put_many": {
        "all units at once, several blobs a unit": "test_blobstore.Puts.test_put_many",
        "tries all, then names all not known published": "test_blobstore.Puts"
        ".test_put_many_tries_all_and_names_what_failed",
        "no unit waits for another": "test_blobstore.Puts.test_a_stopped_unit",
        "the first of Fatal, UnitFull, Timeout, TransferFailed": "test_store_faults.Precedence"
        ".test_full_before_timeout_before_transfer",
        "a dead unit: TransferFailed": "test_blobstore.DeadUnits.test_a_dead_unit",
    },
    "_put_round": {"the committed ids": "test_blobstore.Puts.test_put_round"},
    "_failed": {
        "retryable": "test_blobstore.Units.test_unit_dead_and_failed",
        "lost if the unit is dead": "test_blobstore.DeadUnits.test_a_dead_unit",
        "not lost while the directory is silent": "test_store_faults.Deaths"
        ".test_lost_is_said_only_by_the_directory",
    },
    "_unit_dead": {
        "False of one that lives": "test_blobstore.Units.test_unit_dead_and_failed",
        "True, and marks it": "test_blobstore.DeadUnits.test_a_dead_unit",
        "of the incarnation that was used": "test_store_faults.Deaths.test_a_unit_is_replaced",
        "only by the directory's word": "test_store_faults.Deaths"
        ".test_lost_is_said_only_by_the_directory",
    },
    "resolve_keys": {
        "what it returns": "test_blobstore.Gets.test_resolve_keys",
        "pins": "test_blobstore.Gets.test_what_is_resolved_stays",
        "on failure unpins those that resolved": "test_blobstore.Gets"
        ".test_a_failed_resolve_leaves_no_pin",
        "LostBlobs whose ids are the keys, DataPlaneTimeout": "test_blobstore.Gets"
        ".test_resolve_keys_raises",
        "LostBlobs of a dead unit": "test_blobstore.DeadUnits.test_a_dead_unit",
        "each time at once": "test_store_faults.Deaths"
        ".test_a_dead_unit_is_told_at_once_each_time",
        "one that nobody reads is given back": "test_store_faults.ShortPins"
        ".test_a_pin_that_nobody_read_runs_out",
    },
    "read_entries": {
        "ranges inside entries": "test_blobstore.Gets.test_what_is_resolved_stays",
        "StaleRead: nothing covers it": "test_blobstore.Gets.test_reads_that_nothing_covers",
        "StaleRead: the pin was outlived": "test_store_faults.ShortPins"
        ".test_a_pin_that_nobody_read_runs_out",
        "StaleRead: another incarnation lives": "test_store_faults.Deaths.test_a_unit_is_replaced",
        "LostBlobs by keys_of": "test_blobstore.DeadUnits.test_a_dead_unit",
        "TransferFailed while the directory is silent": "test_store_faults.Deaths"
        ".test_lost_is_said_only_by_the_directory",
        "DataPlaneTimeout": "test_conformance.Lines.test_a_read_past_its_deadline",
    },
    "unpin_all": {
        "gives the memory back": "test_blobstore.Gets.test_all_pins_come_back",
        "never raises, repeatable": "test_blobstore.Gets.test_reads_that_nothing_covers",
    },
    "release_rows": {
        "whole rows, idempotent; TransferFailed": "test_blobstore.Gets.test_release_rows",
        "rows of a dead unit are gone": "test_blobstore.DeadUnits.test_a_dead_unit",
        "DataPlaneTimeout": "test_blobstore.Puts.test_a_stopped_unit",
    },
    "_call_units": {
        "every unit at once; an unknown one is not asked": "test_blobstore.Gets.test_call_units",
    },
    "close": {
        "refuses new calls": "test_blobstore.Gets.test_close",
        "waits at most timeout_s": "test_conformance.Lines.test_close_waits_for_copies",
        "never for views": "test_lifecycle.Ends.test_a_view_outlives_client_and_cluster",
    },
    "remaining": {
        "min(cap, left); DataPlaneTimeout": "test_blobstore_contract.Contract.test_remaining"
    },
    "busy_wait": {
        "the next backoff; DataPlaneTimeout": "test_blobstore_contract.Contract.test_busy_wait"
    },
    "BUSY_RETRY_S": {"0.2": "test_blobstore_contract.Contract.test_names"},
    "BUSY_RETRY_MAX_S": {"2.0": "test_blobstore_contract.Contract.test_names"},
    "PENDING_POLL_S": {"0.01": "test_blobstore_contract.Contract.test_names"},
    "DataPlaneLostKeys": {
        "global_indexes() and fields()": "test_errors.Values.test_global_indexes_and_fields",
        "raised by the client, naming the keys": "test_client.Units.test_a_dead_unit",
    },
}


class Table(unittest.TestCase):
    def test_every_line_has_its_tests(self):
        loader = unittest.TestLoader()
        for name, promises in LINES.items():
            self.assertTrue(promises, name)
            for promise, test in promises.items():
                with self.subTest(f"{name}: {promise}"):
                    suite = loader.loadTestsFromName(test)
                    self.assertEqual((loader.errors, suite.countTestCases()), ([], 1))

    def test_every_name_has_its_line(self):
        documented = set(test_blobstore_contract.SIGNATURES)
        documented |= {name for name in vars(blobstore) if name.isupper() and name[0] != "_"}
        documented |= {"remaining", "busy_wait"}
        self.assertEqual(documented - set(LINES), set())
        own = {name for name, _ in inspect.getmembers(UnitSlabStore, inspect.isfunction)}
        self.assertEqual(set(LINES) & own, set(test_blobstore_contract.SIGNATURES))


class Lines(StoreCase):
    def brief_store(self, **options):
        """One whose timeout a busy host may need for opening it alone."""
        made = []

        def opens():
            with contextlib.suppress(DataPlaneTimeout):
                made.append(self.new_store(**options))
            return made

        await_that("it opens in its time", opens)
        return made[0]

    def test_refreshes_at_start_only(self):
        real = UnitSlabStore._refresh_units
        with mock.patch.object(
            UnitSlabStore, "_refresh_units", autospec=True, side_effect=real
        ) as refresh:
            self.store = self.new_store()
            self.assertEqual(refresh.call_count, 1)
            self.put(0, [0])
            self.put(1, [1])
            self.assertEqual(set(self.read(0, ["0@x", "2@x"])), {"0@x"})
            self.store.release_rows({0: [0], 1: [1]}, None)
            self.store._unit(1)
            self.store._addr(0)
            self.assertEqual(refresh.call_count, 1)
            with self.assertRaises(errors.LostBlobs):
                self.store._unit(2)
            self.assertEqual(refresh.call_count, 2)

    def test_timeout_s_caps(self):
        self.put(1, [1])
        blob = self.blob(1, [3], size=100000)[1]
        with self.assertRaisesRegex(TypeError, "timeout_s is seconds, more than 0, not None"):
            self.new_store(timeout_s=None)
        capped = self.brief_store(timeout_s=0.3)
        with self.stopped(1):
            for deadline in (None, time.monotonic() + 1000):
                for call in (
                    lambda end: capped.resolve_keys({1: ["1@x"]}, end),
                    lambda end: capped.release_rows({1: [9]}, end),
                    lambda end: capped.put_many([blob], end),
                ):
                    with self.assertRaises(DataPlaneTimeout):
                        call(deadline)

    def test_ssd(self):
        """A unit without an SSD tier is full when it is full, and says so at once."""
        self.store = self.new_store(ssd=True)
        self.put(0, [0])
        with self.assertRaises(UnitFull):
            self.put(0, [2], size=65 << 20)
        self.assertEqual(set(self.read(0, ["0@x"])), {"0@x"})

    def test_a_read_past_its_deadline(self):
        self.put(0, [0])
        resolved = self.store.resolve_keys({0: ["0@x"]}, None)
        slab_off, nbytes, *_ = resolved[0]["entries"]["0@x"]
        with self.assertRaises(DataPlaneTimeout):
            self.store.read_entries({0: [(slab_off, nbytes, 0)]}, {0: ["0@x"]}, 1.0)
        self.store.unpin_all(resolved)

    def test_close_waits_for_copies(self):
        """A copy that goes on past timeout_s is left to end by itself."""
        inside, go_on = threading.Event(), threading.Event()

        class Lock:
            def __enter__(self):
                inside.set()
                go_on.wait()

            def __exit__(self, *exc):
                pass

        store = self.brief_store(timeout_s=0.5, lock=Lock())
        ended = []

        def put():
            try:
                store.put_many([self.blob(0, [0], size=100000)[1]])
            except Exception as e:
                ended.append(e)

        thread = threading.Thread(target=put)
        thread.start()
        inside.wait()
        start = time.monotonic()
        store.close()
        self.assertGreaterEqual(time.monotonic() - start, 0.5)
        self.assertTrue(thread.is_alive())
        with self.assertRaises(errors.DataPlaneFatal):
            store.resolve_keys({0: ["0@x"]}, None)
        go_on.set()
        thread.join()


if __name__ == "__main__":
    unittest.main()
