"""slabyard.blobstore: what names a blob."""

import unittest

import numpy as np
from test_blobstore import StoreCase

from slabyard import errors
from slabyard.blobstore import encode_index
from slabyard.errors import UnitFull


class Ids(StoreCase):
    def test_none_is_the_one_in_the_index(self):
        made = [self.blob(0, [2 * k])[0] for k in range(4)]
        head, *rest = made[0].segments
        cut = [(head[0] + at, at, min(24, head[2] - at)) for at in range(0, head[2], 24)]
        self.assertEqual(
            self.store.put_segments(iter(rest + cut), made[0].nbytes, made[0].n_entries, 0),
            made[0].blob_id,
        )
        blobs = [(one.segments, one.nbytes, one.n_entries, 0, None) for one in made]
        self.store.put_many(iter(blobs[1:2]))
        self.assertEqual(self.store._put_round({0: blobs[2]}, None), {made[2].blob_id})
        results, failed = self.store._call_units("put", {0: blobs[3][:4]}, None)
        self.assertEqual((results, failed), ({0: made[3].blob_id}, []))
        self.assertEqual(len(self.read(0, [f"{2 * k}@x" for k in range(4)])), 4)
        for one in made:
            self.assertIs(self.store._commit(0, one.blob_id, None, []), True)

    def test_a_wrong_one(self):
        made = encode_index([0], {"x": [b"abc"]})
        nothing = np.zeros(100, np.uint8)
        for blob, blob_id in (
            (made, "ab" * 16),
            (([(nothing.ctypes.data, 0, 100)], 100, 1), None),  # no index
            (([(made.segments[0][0], 0, 40)], 100, 1), None),  # a part of one
        ):
            with self.assertRaises(errors.TransferFailed) as caught:
                self.store.put_segments(*blob[:3], 0, blob_id)
            self.assertRegex(caught.exception.blob_ids[0], blob_id or "^[0-9a-f]{32}$")
            self.assertIn(caught.exception.blob_ids[0], str(caught.exception))
        self.assertEqual(self.read(0, ["0@x"]), {})

    def test_two_that_are_the_same(self):
        """Units have a blob of one id each; of one unit an id is one blob."""
        made = {
            unit: encode_index([unit], {"x": [bytes(size)]}, blob_id="AB" * 16)
            for unit, size in ((0, 10), (1, 65 << 20))
        }
        blobs = [(*made[unit][:3], unit, "AB" * 16) for unit in (0, 1)]
        with self.assertRaises(UnitFull) as full:
            self.store.put_many(blobs)
        self.assertEqual(full.exception.blob_ids, ["AB" * 16])
        for blob_id in ("AB" * 16, "ab" * 16):
            self.assertIs(self.store._commit(0, blob_id, None, []), True)
            self.assertIs(self.store._commit(1, blob_id, None, []), False)
        small = encode_index([1], {"x": [b"abc"]}, blob_id="ab" * 16)
        self.store.put_segments(*small[:3], 1, "ab" * 16)
        for unit in (0, 1):
            self.assertIs(self.store._commit(unit, "ab" * 16, None, []), True)
        with self.assertRaisesRegex(ValueError, "twice"):
            self.store.put_many([blobs[0], (*blobs[0][:4], "ab" * 16)])
        # Again is no failure and moves nothing; another blob of that id is refused.
        self.store.put_many([blobs[0]])
        other = encode_index([0], {"x": [b"other"], "y": [b""]}, blob_id="ab" * 16)
        with self.assertRaises(errors.TransferFailed) as refused:
            self.store.put_segments(*other[:3], 0)
        self.assertEqual(refused.exception.blob_ids, ["ab" * 16])
        with self.assertRaises(errors.TransferFailed):
            self.new_store().put_segments(*made[0][:3], 0)
        self.assertEqual(self.read(0, ["0@x"]), {"0@x": bytes(10)})
        self.assertEqual(self.read(1, ["1@x"]), {"1@x": b"abc"})


if __name__ == "__main__":
    unittest.main()
