"""slabyard.Client by keys: what is put comes back, what is wrong is said."""

import array
import json
import math
import tempfile
import time
import unittest
from unittest import mock

import numpy as np
from support import ClusterCase

import slabyard
from slabyard.errors import DataPlaneFatal, DataPlaneLostKeys, DataPlaneTimeout, UnitFull

OBJECTS = [
    None,
    True,
    False,
    0,
    1,
    -1,
    127,
    128,
    -32,
    -33,
    -128,
    -129,
    255,
    256,
    2**16 - 1,
    2**16,
    -(2**15),
    -(2**15) - 1,
    2**31,
    2**32 - 1,
    2**32,
    -(2**31) - 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
    0.0,
    -0.0,
    1.5,
    math.inf,
    -math.inf,
    5e-324,
    [],
    {},
    [None],
    [[]],
    {"a": {}},
    {"a": [1, 2.0, "x", b"y", None, {"b": True}]},
    {1: "one", None: 2, b"k": 3, 1.5: 4},
    ["x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 65536],
    [b"y" * 255, b"y" * 256, b"y" * 65536],
    list(range(15)),
    list(range(16)),
    list(range(65536)),
    {str(i): i for i in range(16)},
    {str(i): i for i in range(65536)},
    [["deep"] * 3] * 3,
    "text alone is utf8",
    "",
    b"",
    b"\0",
    "ü€😀",
    "nul \0 inside",
]


class Keys(ClusterCase):
    def put_get(self, value, **options):
        self.client.put(["5@v"], [value])
        return self.client.get(["5@v"], **options)[0]

    def same(self, a, b):
        """Equal, and of the same types all through."""
        self.assertIs(type(a), type(b))
        if isinstance(a, dict):
            self.assertEqual(list(a), list(b))
            for (ka, va), (kb, vb) in zip(a.items(), b.items()):
                self.same(ka, kb)
                self.same(va, vb)
        elif isinstance(a, list):
            self.assertEqual(len(a), len(b))
            for one, other in zip(a, b):
                self.same(one, other)
        elif isinstance(a, float):
            self.assertEqual(np.float64(a).tobytes(), np.float64(b).tobytes())
        else:
            self.assertEqual(a, b)

    def test_objects_come_back_exactly(self):
        for value in OBJECTS:
            with self.subTest(repr(value)[:60]):
                self.same(self.put_get(value), value)

    def test_many_keys(self):
        keys = [f"{row}@{field}" for row in (0, 1, 2**64 - 1) for field in ("a", "b@c", "ü")]
        values = [f"value of {key}" for key in keys]
        self.client.put(keys, values)
        self.assertEqual(self.client.get(keys[::-1]), values[::-1])
        self.client.put(dict(zip(keys, values[::-1])))
        self.assertEqual(self.client.get(keys + keys[:1]), values[::-1] + values[-1:])

    def test_arrays(self):
        for value in (
            np.arange(24, dtype=np.int16).reshape(2, 3, 4),
            np.array(1.5, np.float16),
            np.zeros((0, 3), np.uint8),
            np.zeros((3, 0), np.complex64),
            np.arange(10)[::-3],
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.array([True, False]),
            np.broadcast_to(np.float32(3), (2, 2)),
        ):
            with self.subTest(f"{value.dtype}{value.shape}"):
                got = self.put_get(value)
                self.assertEqual((got.dtype, got.shape), (value.dtype, value.shape))
                np.testing.assert_array_equal(got, value)
                self.assertTrue(got.flags.writeable)
                got[...] = 0

    def test_numpy_scalars_are_arrays_without_dimensions(self):
        got = self.put_get(np.float32(2.5))
        self.assertEqual((got.dtype, got.shape, float(got)), (np.float32, (), 2.5))

    def test_views(self):
        self.client.put(["5@v", "5@t"], [np.arange(3), "text"])
        view, text = self.client.get(["5@v", "5@t"], copy=False)
        self.client.clear([5])
        self.client.put(["5@v"], [np.zeros(3, int)])
        self.assertEqual((view.tolist(), view.flags.writeable, text), ([0, 1, 2], False, "text"))

    def test_other_buffers(self):
        self.assertEqual(self.put_get(bytearray(b"abc")), b"abc")
        self.assertEqual(self.put_get(memoryview(b"abcdef")[::2]), b"ace")
        np.testing.assert_array_equal(self.put_get(array.array("h", [1, -2])), [1, -2])

    def test_nothing(self):
        self.client.put([], [])
        self.assertEqual(self.client.get([]), [])
        self.assertEqual(self.client.clear([]), 0)

    def test_absent(self):
        self.client.put(["1@a"], [""])
        with self.assertRaises(DataPlaneLostKeys) as caught:
            self.client.get(["1@a", "1@b", "2@a"])
        self.assertEqual(caught.exception.keys, ["1@b", "2@a"])
        self.assertEqual(caught.exception.global_indexes(), [1, 2])
        values, found = self.client.get(["1@b", "1@a"], missing="mask")
        self.assertEqual(values, [None, ""])
        self.assertEqual(found.tolist(), [False, True])

    def test_overwrite_and_clear(self):
        keys = ["1@a", "1@b", "2@a"]
        self.client.put(keys, [1, 2, 3])
        self.client.put(["1@a"], ["new"])
        self.assertEqual(self.client.get(keys), ["new", 2, 3])
        self.assertEqual(self.client.clear(["1@a", "2@a", "9@z"]), 2)
        self.assertEqual(self.client.get(keys, missing="mask")[1].tolist(), [False, True, False])
        self.assertEqual(self.client.clear([1, 2], fields=["b"]), 1)
        self.client.put(keys, [1, 2, 3])
        self.assertEqual(self.client.clear(range(3)), 3)
        self.assertEqual(self.client.clear(np.array([1, 2])), 0)
        self.client.put(keys, [1, 2, 3])
        self.assertEqual(self.client.clear(np.array(["1@a", "9@z"])), 1)
        self.assertEqual(self.client.clear(np.array(["1@b", "2@a"], object)), 2)
        for one in ("1@a", b"1@a", np.array("1@a")):
            with self.assertRaisesRegex(TypeError, "rows are numbers or keys, not one"):
                self.client.clear(one)

    def test_keys_of_several_fields_have_one_deadline(self):
        keys = [f"7@{field}" for field in "abc"]
        start = time.monotonic()
        for given, latest in ((None, 20), (start + 5, 5), (start + 1e6, 20)):
            self.client.put(keys, [1, 2, 3])
            with mock.patch.object(self.client, "_core", mock.Mock(wraps=self.client._core)) as c:
                c.timeout_s = c._mock_wraps.timeout_s
                self.assertEqual(self.client.clear(keys, deadline=given), 3)
            ends = {call.args[2] for call in c.clear.call_args_list}
            self.assertEqual(len(ends), 1)
            self.assertLessEqual(ends.pop(), time.monotonic() + latest)
        self.assertEqual(self.client._core.timeout_s, 20)
        with self.cluster.client() as client:
            self.assertEqual(client._core.timeout_s, 120)

    def test_no_fields_are_not_all_of_them(self):
        self.client.put(["70@a", "70@b"], [1, 2])
        for none in ([], (), set(), iter([])):
            self.assertEqual(self.client.clear([70], none), 0)
        self.assertEqual(self.client.get(["70@a", "70@b"]), [1, 2])
        self.assertEqual(self.client.clear([70], iter(["a"])), 1)
        self.assertEqual(self.client.clear([70]), 1)

    def test_bad_keys_and_values(self):
        put, get = self.client.put, self.client.get
        for call, error in (
            (lambda: put(["1a"], [1]), ValueError),
            (lambda: put(["01@a"], [1]), ValueError),
            (lambda: put(["-1@a"], [1]), ValueError),
            (lambda: put(["18446744073709551616@a"], [1]), ValueError),
            (lambda: put(["1@"], [1]), ValueError),
            (lambda: put(["1@a\0b"], [1]), ValueError),
            (lambda: put(["1@" + "x" * 1025], [1]), ValueError),
            (lambda: put(["1@a", "1@a"], [1, 2]), ValueError),
            (lambda: put(["1@a", "2@a"], [1]), ValueError),
            (lambda: put(["1@\ud800"], [1]), UnicodeEncodeError),
            (lambda: put("1@a", [1]), TypeError),
            (lambda: put(["1@a"]), TypeError),
            (lambda: put(["1@a"], [np.ma.array([1, 2], mask=[0, 1])]), TypeError),
            (lambda: put([1], [1]), TypeError),
            (lambda: get("1@a"), TypeError),
            (lambda: put(["1@a"], "x"), TypeError),
            (lambda: put(["1@a"], b"x"), TypeError),
            (lambda: put(["1@a"], 1), TypeError),
            (lambda: self.client.put_columns([1], {1: [1]}), TypeError),
            (lambda: get(["1@a"], missing="no"), ValueError),
            (lambda: get(["1@a"], arrays="tensorflow"), ValueError),
            (lambda: put(["1@a"], [np.zeros((1,) * 9)]), ValueError),
            (lambda: self.client.clear(["1@a"], fields=["a"]), ValueError),
            (lambda: self.client.clear([1.5]), TypeError),
            (lambda: self.client.clear([True]), TypeError),
            (lambda: self.client.clear(["1a"]), ValueError),
            (lambda: self.client.clear([-1]), ValueError),
            (lambda: self.client.clear([2**64]), ValueError),
            (lambda: self.client.clear(np.array([-1])), ValueError),
            (lambda: self.client.clear(np.array([1.0])), TypeError),
            (lambda: get(["1@a"], deadline=math.nan), ValueError),
            (lambda: get(["1@a"], deadline="soon"), TypeError),
        ):
            with self.assertRaises(error):
                call()
        self.assertEqual(self.client.clear(range(3)), 0)

    def test_what_is_not_exact_is_refused(self):
        own = []
        own.append(own)
        for value in (
            (1, 2),
            {1, 2},
            2**64,
            -(2**63) - 1,
            object(),
            [(1,)],
            {"a": 1j},
            own,
            {(1, 2): 3},
            "\ud800",
            ["\ud800"],
            np.array([1, None]),
            np.datetime64("2020"),
        ):
            with self.subTest(repr(value)), self.assertRaisesRegex(TypeError, "allow_pickle"):
                self.put_get(value)

    def test_deadline_in_the_past(self):
        with self.assertRaises(DataPlaneTimeout):
            self.client.get(["1@a"], deadline=time.monotonic() - 1)
        with self.assertRaises(DataPlaneTimeout):
            self.client.put(["1@a"], [1], deadline=0)

    def test_unit_full(self):
        with self.assertRaises(UnitFull) as caught:
            self.client.put(["1@a"], [bytes(65 << 20)])
        full = caught.exception
        self.assertEqual(full.resource, "bytes")
        self.assertGreater(full.need, 65 << 20)
        self.assertGreaterEqual(full.free, full.largest_hole)
        self.assertGreater(full.largest_hole, 0)

    def test_namespaces_are_apart(self):
        self.client.put(["1@a"], ["mine"])
        with self.cluster.client(namespace="other") as other:
            other.put(["1@a"], ["theirs"])
            self.assertEqual(self.client.get(["1@a"]), ["mine"])
            self.assertEqual(other.get(["1@a"]), ["theirs"])

    def test_what_the_command_loaded(self):
        import subprocess

        line = {
            "s": "x",
            "i": 3,
            "f": 1.5,
            "b": True,
            "n": None,
            "li": [1, 2],
            "e": [],
            "m": [1, "a"],
        }
        subprocess.run(
            [slabyard.cluster.command_path(), "load", "-", "--run-dir", self.cluster.run_dir],
            input=json.dumps(line),
            text=True,
            check=True,
            capture_output=True,
        )
        with self.cluster.client() as client:
            got = client.get([f"0@{field}" for field in line])
            plain = [v.tolist() if isinstance(v, np.ndarray) else v for v in got]
            self.assertEqual(dict(zip(line, plain)), line)


class Pickles(ClusterCase):
    OPTIONS = {"allow_pickle": True}

    def test_what_msgpack_cannot_keep(self):
        values = [(1, 2), {1, 2}, 2**64, {"a": 1j}, [(1,)], "\ud800", np.array([1, None])]
        keys = [f"{i}@p" for i in range(len(values))]
        self.client.put(keys, values)
        got = self.client.get(keys)
        self.assertEqual(got[:-1], values[:-1])
        self.assertEqual(got[-1].tolist(), [1, None])

    def test_a_pickle_is_not_loaded_unasked(self):
        self.client.put(["1@p"], [(1, 2)])
        with self.cluster.client(namespace=self.id()) as other:
            with self.assertRaisesRegex(ValueError, "allow_pickle"):
                other.get(["1@p"])

    def test_an_object_that_fails_to_pickle(self):
        for value in (lambda: None, [lambda: None]):
            with self.assertRaisesRegex(TypeError, "cannot be pickled: .*lambda.*cloudpickle"):
                self.client.put(["1@p"], [value])

        class Angry:
            def __reduce__(self):
                raise RuntimeError("not me")

        with self.assertRaisesRegex(RuntimeError, "not me"):
            self.client.put(["1@p"], [Angry()])


class Opening(unittest.TestCase):
    def test_no_cluster_named(self):
        import os
        from unittest import mock

        with (
            mock.patch.dict(os.environ, clear=True),
            self.assertRaisesRegex(ValueError, "SLABYARD"),
        ):
            slabyard.Client()

    def test_no_such_directory(self):
        with self.assertRaisesRegex(OSError, "no run directory"):
            slabyard.Client("/nonexistent/slabyard")
        with tempfile.TemporaryDirectory() as empty:
            with self.assertRaisesRegex(OSError, f"no cluster runs in {empty}"):
                slabyard.Client(empty)
        with self.assertRaises(ValueError):
            slabyard.Client("/tmp", directory="ipc:///tmp/x")
        with self.assertRaises(DataPlaneTimeout):
            slabyard.Client(directory="ipc:///tmp/slabyard-nobody", timeout_s=0.2)
        for wrong in (0, -1, math.nan, "x"):
            with self.assertRaises((ValueError, TypeError)):
                slabyard.Client("/tmp", timeout_s=wrong)


class Closing(ClusterCase):
    def test_closed(self):
        client = self.cluster.client()
        self.assertFalse(client.closed)
        self.assertEqual(client.unit_count, 2)
        client.close()
        client.close()
        self.assertTrue(client.closed)
        for call in (
            lambda: client.get(["1@a"]),
            lambda: client.put(["1@a"], [1]),
            lambda: client.clear([1]),
            client.reports,
            lambda: client.unit_count,
            lambda: client.put_columns([1], {"a": [1]}),
            lambda: client.get_columns([1], ["a"]),
        ):
            with self.assertRaises(DataPlaneFatal):
                call()


class Units(ClusterCase):
    def test_a_dead_unit(self):
        """Last of its cluster: it ends a unit."""
        self.client.put(["0@a", "1@a"], ["even", "odd"])
        self.kill_unit(1)
        with self.assertRaises(DataPlaneLostKeys) as caught:
            self.client.get(["0@a", "1@a"])
        self.assertEqual(caught.exception.keys, ["1@a"])
        self.assertEqual(self.client.get(["0@a"]), ["even"])
        with self.assertRaises(DataPlaneLostKeys) as caught:
            self.client.get_columns([0, 1, 3], ["a", "b"])
        self.assertEqual(caught.exception.keys, ["1@a", "1@b", "3@a", "3@b"])
        with self.assertRaises(slabyard.errors.DataPlaneTransferFailed) as failed:
            self.client.put_columns([2, 3], {"a": ["x", "y"], "b": ["x", "y"]})
        self.assertEqual(failed.exception.keys, ["3@a", "3@b"])
        self.assertEqual(self.client.clear([1]), 0)
        self.assertEqual([r["state"] for r in self.client.reports()], ["active", "dead"])


if __name__ == "__main__":
    unittest.main()
