"""What a unit's disk tier alone had and lost: the keys are named, with the reason."""

import glob
import os
import tempfile
import unittest

import support

from slabyard.errors import DataPlaneLostKeys

ROWS = 512
FIELD = "response"


def value_of(row):
    return bytes([row % 251]) * 65536


class Disk(support.ClusterCase):
    UNITS = 1
    SLAB = "16MiB"
    OPTIONS = {"ssd": True}

    @classmethod
    def new_cluster(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.WORDS = ("--ssd-dir", folder.name, "--ssd-bytes", "64MiB")
        return super().new_cluster()

    def test_lost_keys_are_named(self):
        keys = [f"{row}@{FIELD}" for row in range(ROWS)]
        for row, key in enumerate(keys):
            self.client.put([key], [value_of(row)])
        for path in glob.glob(os.path.join(self.folder, "*.seg")):
            os.truncate(path, 0)
        kept, lost = [], []
        for row, key in enumerate(keys):
            try:
                self.assertEqual(self.client.get([key]), [value_of(row)])
                kept.append(key)
            except DataPlaneLostKeys as error:
                self.assertEqual(error.keys, [key])
                self.assertIn(f"the disk of unit 0 lost the value of row {row}", error.reason)
                lost.append(key)
        self.assertTrue(kept and lost)
        # Beside others they alone are named, whatever is missing; until they are put again.
        with self.assertRaises(DataPlaneLostKeys) as caught:
            self.client.get([kept[0], lost[0], lost[1], "9@never"], missing="mask")
        self.assertEqual(caught.exception.keys, lost[:2])
        self.client.put([lost[0]], [b"again"])
        self.assertEqual(self.client.get([lost[0], kept[0]])[0], b"again")
        self.client.clear([lost[1]])
        values, found = self.client.get([lost[1]], missing="mask")
        self.assertEqual((values, found.tolist()), ([None], [False]))


if __name__ == "__main__":
    unittest.main()
