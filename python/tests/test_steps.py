"""A whole column crosses into C once: as many calls for 512 rows as for 5,120."""

import argparse
import datetime
import json
import subprocess
import unittest

import numpy as np
from support import ClusterCase, calls_of
from test_columns import DTYPES, batch

import slabyard


class NoStepPerRow(ClusterCase):
    """A whole column crosses into C once."""

    def counts(self, columns_of, to_get=None, client=None, **options):
        client, found = client or self.client, []
        for n in (512, 5120):
            rows, columns = np.arange(n), columns_of(n)
            fields = to_get or list(columns)
            client.put_columns(rows, columns)  # whatever is imported or cached at first
            client.get_columns(rows, fields, **options)
            found.append(
                (
                    calls_of(lambda: client.put_columns(rows, columns)),
                    calls_of(lambda: client.get_columns(rows, fields, **options)),
                    calls_of(lambda: client.clear(rows)),
                )
            )
        self.assertEqual(found[0], found[1])
        self.assertGreater(min(found[0]), 0)

    def test_batch(self):
        self.counts(lambda n: batch(np.random.default_rng(2), n))

    def test_views(self):
        self.counts(lambda n: batch(np.random.default_rng(2), n), copy=False)

    def test_lists(self):
        self.counts(
            lambda n: {
                "arrays": [np.arange(i % 7) for i in range(n)],
                "text": [str(i) for i in range(n)],
                "bytes": [bytes(i % 5) for i in range(n)],
                "objects": [{"a": [i, None, 1.5]} for i in range(n)],
                "dtypes": [np.zeros(i % 3, DTYPES[i % 12]) for i in range(n)],
                "shapes": [np.zeros((i % 3, i % 4)) for i in range(n)],
                "kinds": [
                    (None, "a", b"b", i, np.arange(2), np.float32(1))[i % 6] for i in range(n)
                ],
            }
        )

    def test_pickles(self):
        """Of what calls no Python code itself: each is one call of pickle's C functions."""
        client = self.cluster.client(namespace=self.id(), allow_pickle=True, timeout_s=20)
        self.addCleanup(client.close)
        pickled = slabyard._core.Pickled
        self.counts(
            lambda n: {
                "tuples": [(i, {"a": {1}}, 2**70, 1j, range(3), bytearray(2)) for i in range(n)],
                "arrays": [{"pixels": np.arange(i % 3), "mean": np.float32(i)} for i in range(n)],
                "kept": [pickled(np.arange(i % 3)) for i in range(n)],
                "records": [np.zeros(i % 3, "i4, f4") for i in range(n)],
                "dates": [datetime.timedelta(i) for i in range(n)],
                "classes": [argparse.Namespace(i=i) for i in range(n)],
            },
            client=client,
        )

    def test_what_the_command_loaded(self):
        found = []
        for n in (512, 5120):
            lines = "".join(json.dumps({"a": [k], "b": {"c": [{}, k]}}) + "\n" for k in range(n))
            words = ["load", "-", "--run-dir", self.cluster.run_dir]
            subprocess.run(
                [slabyard.cluster.command_path(), *words],
                input=lines,
                text=True,
                check=True,
                capture_output=True,
            )
            with self.cluster.client() as client:
                fields = ["a", "b.c"]
                found.append(calls_of(lambda: client.get_columns(range(n), fields)))
                self.assertEqual(client.get(["7@b.c"]), [[{}, 7]])
                client.clear(range(n))
        self.assertEqual(found[0], found[1])

    def test_masks(self):
        self.counts(
            lambda n: {"a": np.arange(n)},
            to_get=["a", "nothing"],
            missing="mask",
            arrays="numpy",
        )

    def test_rows_as_a_list(self):
        found = []
        for n in (512, 5120):
            rows = list(range(n))
            found.append(calls_of(lambda: self.client.put_columns(rows, {"a": np.arange(n)})))
        self.assertEqual(found[0], found[1])


if __name__ == "__main__":
    unittest.main()
