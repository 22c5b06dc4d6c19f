"""slabyard.blobstore: names, signatures, constants, and the two functions of time."""

import inspect
import time
import unittest

import slabyard
from slabyard import blobstore
from slabyard.blobstore import UnitSlabStore, busy_wait, remaining
from slabyard.errors import DataPlaneTimeout

SIGNATURES = {
    "__init__": "(self, ep, directory, *, namespace, timeout_s, ssd=False, lock=None)",
    "_refresh_units": "(self)",
    "_unit": "(self, unit_id)",
    "_addr": "(self, unit_id)",
    "put_segments": "(self, segments, nbytes, n_entries, unit_id, blob_id=None, deadline=None)",
    "_commit": "(self, u, blob_id, deadline, errs)",
    "put_many": "(self, blobs, deadline=None)",
    "_put_round": "(self, by_unit, deadline)",
    "_failed": "(self, unit_id, blobs, e)",
    "_unit_dead": "(self, unit_id)",
    "resolve_keys": "(self, by_unit, deadline)",
    "read_entries": "(self, reads, keys_of, deadline)",
    "unpin_all": "(self, resolved)",
    "release_rows": "(self, by_unit, deadline)",
    "_call_units": "(self, op, args_by_unit, deadline)",
    "close": "(self)",
}


class Contract(unittest.TestCase):
    def test_names(self):
        self.assertEqual(blobstore.__all__, ["LostBlobs", "TransferFailed", "UnitSlabStore"])
        self.assertEqual(
            (blobstore.BUSY_RETRY_S, blobstore.BUSY_RETRY_MAX_S, blobstore.PENDING_POLL_S),
            (0.2, 2.0, 0.01),
        )

    def test_signatures(self):
        for name, signature in SIGNATURES.items():
            with self.subTest(name):
                self.assertEqual(str(inspect.signature(getattr(UnitSlabStore, name))), signature)
        self.assertEqual(str(inspect.signature(remaining)), "(deadline, cap)")
        self.assertEqual(str(inspect.signature(busy_wait)), "(deadline, backoff)")
        self.assertEqual(
            str(inspect.signature(blobstore.TransferFailed)),
            "(blob_ids, reason, *, in_flight=False)",
        )
        for name in ("register", "deregister", "transfer"):
            self.assertTrue(callable(getattr(slabyard.Endpoint, name)))

    def test_remaining(self):
        now = time.monotonic()
        self.assertEqual(remaining(None, 3.0), 3.0)
        self.assertEqual(remaining(now + 1000, 3.0), 3.0)
        self.assertLessEqual(remaining(now + 2, 3.0), 2.0)
        for spent in (now, now - 1):
            with self.assertRaises(DataPlaneTimeout):
                remaining(spent, 3.0)

    def test_busy_wait(self):
        self.assertEqual(busy_wait(None, 0.001), 0.002)
        self.assertEqual(busy_wait(time.monotonic() + 0.001, 1.5), 2.0)
        with self.assertRaises(DataPlaneTimeout):
            busy_wait(time.monotonic() - 1, 0.2)


if __name__ == "__main__":
    unittest.main()
