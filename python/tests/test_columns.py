"""put_columns and get_columns: whole columns, whatever they are made of."""

import os
import unittest

import numpy as np
from support import ClusterCase

import slabyard
from slabyard import Jagged, Views
from slabyard.errors import DataPlaneLostKeys

DTYPES = "? u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16".split()


def batch(rng, n):
    """A batch as a job has it: 4 jagged columns and others."""
    lengths = rng.integers(0, 50, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    return {
        "input_ids": (rng.integers(0, 50000, total), offsets),
        "logprobs": (rng.random(total).astype(np.float32), offsets),
        "mask": (rng.integers(0, 2, total).astype(np.bool_), offsets),
        "routed": (rng.integers(0, 64, (total, 4, 2)).astype(np.int16), offsets),
        "lengths": lengths,
        "reward": rng.random(n),
        "pixels": rng.random((n, 3, 4)).astype(np.float16),
        "prompt": [f"prompt {i}" for i in range(n)],
    }


def permissions_at(address):
    """Of the mapping that the byte lies in."""
    with open("/proc/self/maps") as file:
        for line in file:
            where, permissions = line.split()[:2]
            first, end = (int(number, 16) for number in where.split("-"))
            if first <= address < end:
                return permissions
    return None


class Columns(ClusterCase):
    def check(self, put, got):
        if isinstance(put, tuple):
            put = Jagged(*put)
        if isinstance(put, Jagged):
            self.assertEqual(len(put), len(got))
            for a, b in zip(put, got):
                self.assertEqual(a.dtype, b.dtype)
                np.testing.assert_array_equal(a, b)
        elif isinstance(put, np.ndarray):
            self.assertEqual((put.dtype, put.shape), (got.dtype, got.shape))
            np.testing.assert_array_equal(put, got)
        else:
            self.assertEqual(put, got)

    def round_trip(self, rows, columns, **options):
        self.client.put_columns(rows, columns)
        return self.client.get_columns(rows, list(columns), **options)

    def test_a_batch(self):
        rng = np.random.default_rng(1)
        rows = rng.permutation(1000)[:512]
        columns = batch(rng, 512)
        got = self.round_trip(rows, columns)
        self.assertEqual(list(got), list(columns))
        for field in columns:
            with self.subTest(field):
                self.check(columns[field], got[field])
        order = rng.permutation(512)[:100]
        some = self.client.get_columns(rows[order], ["reward", "input_ids", "prompt"])
        np.testing.assert_array_equal(some["reward"], columns["reward"][order])
        jagged = Jagged(*columns["input_ids"])
        for k, row in enumerate(order):
            np.testing.assert_array_equal(some["input_ids"][k], jagged[row])
        self.assertEqual(some["prompt"], [columns["prompt"][row] for row in order])
        before = self.free_bytes()
        self.assertEqual(self.client.clear(rows), 512 * 8)
        self.assertTrue(all(a >= b for a, b in zip(self.free_bytes(), before)))

    def test_dtypes(self):
        for name in DTYPES:
            for shape in ((4,), (4, 1), (4, 2, 3), (4, 0), (4, 0, 2), (4, 2, 0)):
                with self.subTest(f"{name}{shape}"):
                    values = np.arange(np.prod(shape)).reshape(shape).astype(name)
                    self.check(values, self.round_trip([9, 2, 7, 4], {"x": values})["x"])

    def test_big_endian(self):
        values = np.arange(4, dtype=">i4")
        got = self.round_trip([1, 2, 3, 4], {"x": values})["x"]
        self.assertEqual(got.tolist(), [0, 1, 2, 3])
        for kind in (">u2", ">i4", ">i8", ">u8"):
            rows = np.array([3, 1, 2, 300], kind)
            offsets = np.array([0, 1, 1, 3, 4], kind)
            self.client.put_columns(rows, {"y": values, "j": (values, offsets)})
            got = self.client.get_columns([1, 2, 3, 300], ["y", "j"])
            self.assertEqual(got["y"].tolist(), [1, 2, 0, 3])
            self.assertEqual([row.tolist() for row in got["j"]], [[], [1, 2], [0], [3]])
            self.assertEqual(self.client.clear(rows, ["y", "j"]), 8)
        with self.assertRaisesRegex(ValueError, "row number at position 1 is below zero"):
            self.client.clear(np.array([1, -1], ">i4"))

    def test_strides(self):
        base = np.arange(4 * 6 * 5).reshape(4, 6, 5)
        for values in (
            base[::-1],
            base[:, ::2],
            base[:, :, 1:3],
            base[::2].repeat(2, 0)[::2],
            np.asfortranarray(base),
            base.T[:4].copy().T[:4],
            base.swapaxes(1, 2),
            np.broadcast_to(np.arange(5), (4, 5)),
            base[:, 0, 0],
        ):
            rows = list(range(len(values)))
            self.check(np.ascontiguousarray(values), self.round_trip(rows, {"x": values})["x"])

    def test_jagged_forms(self):
        values, offsets = np.arange(10.0), [0, 0, 4, 4, 9, 10]
        rows = [1, 2, 3, 4, 5]
        listed = [values[a:b] for a, b in zip(offsets, offsets[1:])]
        for column in (
            (values, offsets),
            (values, np.array(offsets, np.int32)),
            Jagged(values, np.array(offsets)),
            listed,
        ):
            got = self.round_trip(rows, {"x": column})["x"]
            self.assertEqual(got.offsets.tolist(), offsets)
            self.assertEqual(got.values.tolist(), values.tolist())
            self.assertEqual(got.lengths.tolist(), [0, 4, 0, 5, 1])
            self.assertEqual(got[-1].tolist(), [9.0])
            self.assertEqual([r.tolist() for r in got[1:3]], [[0.0, 1.0, 2.0, 3.0], []])
            with self.assertRaises(IndexError):
                got[5]
        # Offsets need not begin at 0, nor end at the end.
        got = self.round_trip([1, 2], {"x": (values, [2, 3, 5])})["x"]
        self.assertEqual([r.tolist() for r in got], [[2.0], [3.0, 4.0]])
        # Rows without bytes keep their lengths.
        got = self.round_trip([1, 2], {"x": (np.zeros((5, 0)), [0, 2, 5])})["x"]
        self.assertEqual([r.shape for r in got], [(2, 0), (3, 0)])
        # Strided values.
        got = self.round_trip([1, 2], {"x": (np.arange(10)[::2], [0, 1, 5])})["x"]
        self.assertEqual(got.values.tolist(), [0, 2, 4, 6, 8])

    def test_equal_lengths_are_dense_unless_asked(self):
        column = (np.arange(6), [0, 2, 4, 6])
        self.assertEqual(self.round_trip([1, 2, 3], {"x": column})["x"].shape, (3, 2))
        got = self.client.get_columns([1, 2, 3], ["x"], jagged=["x"])["x"]
        self.assertIsInstance(got, Jagged)
        self.assertEqual(got.offsets.tolist(), [0, 2, 4, 6])

    def test_lists(self):
        rows = [5, 6, 7]
        for column in (
            ["a", "", "ü"],
            [b"", b"x", b"\0"],
            [{"a": 1}, {"b": [2]}, {}],
            [1, 2.5, None],
            [True, False, None],
            [[1, 2], [], [3]],
        ):
            got = self.round_trip(rows, {"x": column})["x"]
            self.assertEqual(got, column)
            self.assertEqual([type(v) for v in got], [type(v) for v in column])
        mixed = ["a", np.arange(2), None]
        got = self.round_trip(rows, {"x": mixed})["x"]
        self.assertEqual((got[0], got[1].tolist(), got[2]), ("a", [0, 1], None))
        shapes = [np.zeros((2, 3)), np.ones((2, 4)), np.zeros(5, np.int8)]
        got = self.round_trip(rows, {"x": shapes})["x"]
        for a, b in zip(shapes, got):
            self.check(a, b)
        scalars = [np.float32(1), np.float32(2), np.float32(3)]
        got = self.round_trip(rows, {"x": scalars})["x"]
        self.assertEqual((got.dtype, got.tolist()), (np.float32, [1, 2, 3]))

    def test_text_arrays(self):
        rows = [1, 2]
        self.assertEqual(self.round_trip(rows, {"x": np.array(["a", "bc"])})["x"], ["a", "bc"])
        self.assertEqual(
            self.round_trip(rows, {"x": np.array([b"a", b"bc"])})["x"], [b"a", b"bc"]
        )
        objects = np.array([{"a": 1}, None], dtype=object)
        self.assertEqual(self.round_trip(rows, {"x": objects})["x"], [{"a": 1}, None])

    def test_a_list_that_changes_while_it_is_read(self):
        column = []

        class Turns:
            def __reduce__(self):
                column.clear()
                return (str, ())

        column[:] = [Turns(), "b", "c"]
        with self.cluster.client(namespace=self.id(), allow_pickle=True) as client:
            client.put_columns([1, 2, 3], {"x": column})
            self.assertEqual(client.get_columns([1, 2, 3], ["x"])["x"], ["", "b", "c"])

    def test_rows_and_offsets_that_change_while_they_are_read(self):
        numbers = []

        class Turns:
            def __index__(self):
                numbers.clear()
                return 0

        numbers[:] = [Turns(), *range(1, 1000)]
        self.client.put_columns(numbers, {"x": np.arange(1000)})
        self.assertEqual(self.client.get_columns([0, 999], ["x"])["x"].tolist(), [0, 999])
        numbers[:] = [Turns(), *range(1, 1001)]
        jagged = (np.zeros((1000, 0)), numbers)
        with self.assertRaisesRegex(ValueError, "changed"):
            self.client.put_columns(range(1000), {"y": jagged})

    def test_nothing(self):
        self.client.put_columns([], {"x": np.zeros(0), "y": []})
        got = self.client.get_columns([], ["x"])
        self.assertEqual(len(got["x"]), 0)
        with self.assertRaises(ValueError):
            self.client.put_columns([1], {})
        with self.assertRaises(ValueError):
            self.client.get_columns([1], [])

    def test_absent(self):
        columns = {"s": np.array([1.5, 2.5]), "j": (np.arange(3), [0, 1, 3]), "t": ["a", "b"]}
        self.client.put_columns([1, 2], columns)
        with self.assertRaises(DataPlaneLostKeys) as caught:
            self.client.get_columns([1, 5, 2, 6], ["s", "t"])
        self.assertEqual(caught.exception.keys, ["5@s", "5@t", "6@s", "6@t"])
        got, found = self.client.get_columns([5, 1, 2], ["s", "j", "t", "u"], missing="mask")
        self.assertEqual(got["s"].tolist(), [0.0, 1.5, 2.5])
        self.assertEqual([r.tolist() for r in got["j"]], [[], [0], [1, 2]])
        self.assertEqual(got["t"], [None, "a", "b"])
        self.assertEqual(got["u"], [None, None, None])
        self.assertEqual(found["s"].tolist(), [False, True, True])
        self.assertFalse(found["u"].any())

    def test_results_are_the_callers_own(self):
        values = np.arange(1000.0)
        rows = np.arange(1000)
        got = self.round_trip(rows, {"x": values, "y": values})
        again = self.client.get_columns(rows, ["x"])["x"]
        got["x"][:] = -1
        np.testing.assert_array_equal(got["y"], values)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(self.client.get_columns(rows, ["x"])["x"], values)
        self.client.clear(rows)
        np.testing.assert_array_equal(got["y"], values)

    def test_a_small_column_does_not_keep_a_large_batch(self):
        rows = np.arange(64)
        self.client.put_columns(rows, {"big": np.zeros((64, 10000)), "small": np.arange(64)})
        for fields in (["big", "small"], ["small", "big"]):
            got = self.client.get_columns(rows, fields)
            big, small = (got[field].ctypes.data for field in ("big", "small"))
            near = range(big - (1 << 20), big + got["big"].nbytes + (1 << 20))
            self.assertNotIn(small, near)
            self.assertEqual(got["small"].tolist(), list(range(64)))
            got["small"][:] = 0

    def test_views(self):
        rows = [1, 2, 3]
        self.client.put_columns(rows, {"x": np.arange(6).reshape(3, 2), "t": ["a", "b", "c"]})
        views = self.client.get_columns(rows, ["x", "t"], copy=False)
        self.assertIsInstance(views["x"], Views)
        one = views["x"][1]
        self.assertFalse(one.flags.writeable)
        with self.assertRaises(ValueError):
            one[0] = 5
        with self.assertRaises(ValueError):
            one.flags.writeable = True
        self.assertEqual(views["t"][-1], "c")
        # Cleared, put again, client gone: the view stands.
        self.client.clear(rows)
        for turn in range(50):
            self.client.put_columns(rows, {"x": np.full((3, 2), turn), "t": ["z"] * 3})
        self.assertEqual(one.tolist(), [2, 3])
        self.assertEqual([v.tolist() for v in views["x"][:]], [[0, 1], [2, 3], [4, 5]])
        self.assertEqual(list(views["t"]), ["a", "b", "c"])
        with self.assertRaises(IndexError):
            views["x"][3]
        # What was viewed can be put as it is.
        self.client.put_columns(rows, {"copy": views["x"]})
        np.testing.assert_array_equal(
            self.client.get_columns(rows, ["copy"])["copy"], np.arange(6).reshape(3, 2)
        )

    def test_views_give_their_memory_back(self):
        before = self.free_bytes()
        self.client.put_columns([1, 2], {"x": np.zeros((2, 100000))})
        views = self.client.get_columns([1, 2], ["x"], copy=False)
        one = views["x"][0]
        self.client.clear([1, 2])
        del views
        self.assertLess(sum(self.free_bytes()), sum(before))
        del one
        from support import await_that

        await_that("the bytes came back", lambda: self.free_bytes() == before)

    def test_what_is_lost_is_named_however_rows_were_given(self):
        self.client.put_columns([61], {"lost": np.arange(1.0)})
        rows = np.array([61, 99])
        for given in (iter([61, 99]), slabyard.columns.from_dlpack(rows), rows, [61, 99]):
            with self.assertRaises(DataPlaneLostKeys) as caught:
                self.client.get_columns(given, ["lost"])
            self.assertEqual(caught.exception.keys, ["99@lost"])

    def test_bad_calls(self):
        put, get = self.client.put_columns, self.client.get_columns
        for call, error, text in (
            (lambda: put([1, 2], {"x": np.zeros(3)}), ValueError, "3 rows"),
            (lambda: put([1, 2], {"x": ["a"]}), ValueError, "1 values for 2 rows"),
            (lambda: put([1, 1], {"x": ["a", "b"]}), ValueError, "twice"),
            (lambda: put([1], {"x": "a"}), TypeError, "one value a row"),
            (lambda: put([1], {"x": b"a"}), TypeError, "one value a row"),
            (lambda: put([1], {"x": 5}), TypeError, "one value a row"),
            (lambda: put([1], {"x": {"a": 1}}), TypeError, "one value a row"),
            (lambda: put([1], {"x": np.float32(1)}), ValueError, "'x' is a single value"),
            (lambda: put([1, 2], {"x": np.array(b"ab")}), ValueError, "'x': an array of no dim"),
            (lambda: put([1], [("x", ["a"])]), TypeError, "columns are a dict, not list"),
            (lambda: put([1], {"x": (np.zeros(1),)}), TypeError, "offsets"),
            (lambda: put([1], {"x": (np.zeros(1), [0, 2])}), ValueError, "past"),
            (lambda: put([1, 2], {"x": (np.zeros(3), [0, 2, 1])}), ValueError, "backwards"),
            (lambda: put([1], {"x": (np.zeros(1), [0, 1, 1])}), ValueError, "3 offsets"),
            (lambda: put([1], {"x": (np.zeros(1), [-1, 1])}), ValueError, "offset -1"),
            (
                lambda: put([1], {"x": (np.zeros(1), np.array([-1, 1]))}),
                ValueError,
                "offset at position 0",
            ),
            (lambda: put([1], {"x": (np.zeros(1), [0.0, 1.0])}), TypeError, None),
            (lambda: put([1], {"x": (np.zeros(()), [0, 1])}), ValueError, "dimensions"),
            (lambda: put([1], {"x": np.zeros((1,) * 10)}), ValueError, "dimensions"),
            (lambda: put([1], {"x": np.array(["2020"], "M8")}), TypeError, "datetime"),
            (lambda: put([1], {"x": np.zeros(1, [("a", "i4")])}), TypeError, "column 'x'"),
            (lambda: put([1], {"x": np.zeros(1, np.longdouble)}), TypeError, None),
            (lambda: put([1], {"x": np.ma.zeros((1, 2))}), TypeError, "'x': a masked"),
            (lambda: put([1], {"x": [np.ma.zeros(2)]}), TypeError, "a masked array"),
            (lambda: get([1], ["x"], jagged="xy"), TypeError, "jagged is a collection"),
            (lambda: put([1], {"": ["a"]}), ValueError, "field"),
            (lambda: put([1], {"a\0": ["a"]}), ValueError, "field"),
            (lambda: put([1], {3: ["a"]}), TypeError, None),
            (lambda: put(5, {"x": ["a"]}), TypeError, None),
            (lambda: put("12", {"x": ["a"]}), TypeError, None),
            (lambda: put(np.zeros((1, 1), int), {"x": ["a"]}), TypeError, "one dimension"),
            (lambda: get([1], "x"), TypeError, "not one str"),
            (lambda: get([1], ["x"], missing=None), ValueError, "mask"),
        ):
            with self.assertRaises(error) as caught:
                call()
            if text:
                self.assertIn(text, str(caught.exception))

    def test_dlpack(self):
        class Foreign:
            """An array of a library that speaks DLPack and nothing else."""

            def __init__(self, array, old=False):
                self.array, self.old = array, old

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            def __dlpack__(self, **options):
                if self.old and options:
                    raise TypeError("unexpected keyword")
                return self.array.__dlpack__()

        values = np.arange(12, dtype=np.float32).reshape(3, 4)
        for old in (False, True):
            got = self.round_trip(
                [1, 2, 3],
                {
                    "x": Foreign(values, old),
                    "y": Foreign(values[:, ::2]),
                    "z": [Foreign(row) for row in values],
                },
            )
            self.check(values, got["x"])
            self.check(np.ascontiguousarray(values[:, ::2]), got["y"])
            self.check(values, got["z"])
        out = self.client.get_columns([1, 2, 3], ["x"], arrays="dlpack")["x"]
        self.assertIsInstance(out, slabyard.Tensor)
        self.assertEqual((out.dtype, out.shape, out.readonly), ("f32", (3, 4), False))
        self.check(values, np.from_dlpack(out))
        back = self.round_trip([1, 2, 3], {"again": out})["again"]
        self.check(values, back)
        self.check(
            values,
            np.from_dlpack(self.client.get(["1@x"], arrays="dlpack")[0])[None]
            + values
            - values[0],
        )
        for _ in range(1000):
            out.__dlpack__()  # a capsule that nobody takes lets go of all

    def test_dlpack_of_views_is_read_only(self):
        self.client.put_columns([1], {"x": np.arange(3.0)[None]})
        view = self.client.get_columns([1], ["x"], copy=False, arrays="dlpack")["x"][0]
        self.assertTrue(view.readonly)
        self.assertTrue(memoryview(view).readonly)
        # Whoever may write gets a copy.
        for options in ({}, {"copy": True}, {"max_version": (1, 0)}, {"copy": None}):
            taken = slabyard._core.from_dlpack(view.__dlpack__(**options))
            copied = np.frombuffer(taken, np.float64)
            self.assertEqual(copied.tolist(), [0.0, 1.0, 2.0])
            self.assertNotEqual(copied.ctypes.data, np.frombuffer(view, np.uint8).ctypes.data)
        copied = np.from_dlpack(view)
        copied[:] = 9
        # Whoever says that he only reads gets the memory, if he can be told that it is so.
        shared = np.from_dlpack(view, copy=False)
        self.assertEqual(shared.ctypes.data, np.frombuffer(view, np.uint8).ctypes.data)
        self.assertFalse(shared.flags.writeable)
        with self.assertRaisesRegex(BufferError, "copy=False"):
            view.__dlpack__(copy=False)
        self.assertEqual(self.client.get(["1@x"])[0].tolist(), [0.0, 1.0, 2.0])

    def test_views_lie_where_nobody_can_write(self):
        """Whatever library they are handed on to, and whatever that thinks of flags."""
        self.client.put_columns([1, 2], {"x": np.ones((2, 100))})
        for arrays in ("numpy", "dlpack"):
            views = self.client.get_columns([1, 2], ["x"], copy=False, arrays=arrays)["x"]
            for view in views:
                at = np.frombuffer(view, np.uint8).ctypes.data
                self.assertEqual(permissions_at(at), "r--s")

    def test_items_of_tensors(self):
        rows = [1, 2, 3]
        values = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
        self.client.put_columns(
            rows, {"x": values, "j": [values[0], values[0, :1], values[0, :0]]}
        )
        got = self.client.get_columns(rows, ["x", "j"], arrays="dlpack")
        tensor, jagged = got["x"], got["j"]
        self.assertEqual((len(tensor), len(tensor[0]), len(jagged)), (3, 2, 3))
        for k in (0, 2, -1, np.int64(1)):
            self.assertEqual((tensor[k].dtype, tensor[k].shape), ("f32", (2, 4)))
            self.check(values[k], np.from_dlpack(tensor[k]))
        self.check(values[1, 1, 3], np.from_dlpack(tensor[1][1][3]))
        for part in (slice(None), slice(1, 2), slice(-2, None), slice(2, 1), slice(9)):
            self.check(values[part], np.from_dlpack(tensor[part]))
        self.check(values, np.stack([np.from_dlpack(item) for item in tensor]))
        tensor[1][0][2:3].__dlpack__()
        np.from_dlpack(tensor[1])[:] = 7  # of the same memory
        self.assertEqual(np.from_dlpack(tensor)[1].max(), 7)
        for k, lead in enumerate((2, 1, 0)):
            self.check(values[0, :lead], np.from_dlpack(jagged[k]))
        self.assertEqual([row.shape for row in jagged[1:]], [(1, 4), (0, 4)])
        back = self.client.get_columns(rows, ["j"])["j"]
        self.client.put_columns(rows, {"again": jagged, "list": list(jagged)})
        for field in ("again", "list"):
            again = self.client.get_columns(rows, [field])[field]
            self.check(back.values, again.values)
        view = self.client.get_columns(rows, ["x"], copy=False, arrays="dlpack")["x"][0][1]
        self.assertTrue(view.readonly)
        scalar = tensor[0][0][0]
        for call, error in (
            (lambda: tensor[3], IndexError),
            (lambda: tensor[-4], IndexError),
            (lambda: tensor[2**70], IndexError),
            (lambda: tensor[::2], ValueError),
            (lambda: tensor[::-1], ValueError),
            (lambda: tensor["a"], TypeError),
            (lambda: tensor[0, 1], TypeError),
            (lambda: scalar[0], TypeError),
            (lambda: len(scalar), TypeError),
        ):
            with self.assertRaises(error):
                call()

    def test_dtypes_that_numpy_lacks(self):
        bits = np.array([0x3F80, 0xC000], np.uint16)
        self.client._core.put_columns(
            [1, 2], [("x", bits, slabyard.columns.CODES["bf16"])], None, None
        )
        out = self.client.get_columns([1, 2], ["x"], arrays="dlpack")["x"]
        self.assertEqual((out.dtype, bytes(out)), ("bf16", bits.tobytes()))
        try:
            import ml_dtypes
        except ImportError:
            with self.assertRaisesRegex(TypeError, "ml_dtypes"):
                self.client.get_columns([1, 2], ["x"])
            return
        got = self.client.get_columns([1, 2], ["x"])["x"]
        self.assertEqual((got.dtype, got.tolist()), (ml_dtypes.bfloat16, [1.0, -2.0]))
        self.check(got, self.round_trip([1, 2], {"y": got})["y"])
        self.check(got, self.round_trip([1, 2], {"y": list(got)})["y"])


class Random(ClusterCase):
    """Batches of random forms against what numpy says."""

    def test_random(self):
        seed = int(os.environ.get("SLABYARD_SEED", "0")) or int.from_bytes(
            os.urandom(4), "little"
        )
        rng = np.random.default_rng(seed)
        with self.subTest(seed=seed):
            for _ in range(60):
                self.one(rng)

    def one(self, rng):
        n = int(rng.integers(1, 40))
        rows = rng.choice(2**40, n, replace=False).astype(np.uint64)
        model = {}
        for c in range(int(rng.integers(1, 6))):
            name = str(rng.choice(DTYPES))
            tail = tuple(int(d) for d in rng.integers(0, 4, rng.integers(0, 3)))
            if rng.random() < 0.5:
                values = (rng.random((n, *tail)) * 100).astype(name)
                model[f"c{c}"] = list(values)
                column = values if rng.random() < 0.5 else list(values)
            else:
                lengths = rng.integers(0, 6, n)
                offsets = np.concatenate([[0], np.cumsum(lengths)])
                values = (rng.random((int(offsets[-1]), *tail)) * 100).astype(name)
                column = (values, offsets)
                model[f"c{c}"] = [values[a:b] for a, b in zip(offsets, offsets[1:])]
            self.client.put_columns(rows, {f"c{c}": column})
        order = rng.integers(0, n, int(rng.integers(1, 60)))
        copy = bool(rng.random() < 0.7)
        got = self.client.get_columns(rows[order], list(model), copy=copy)
        for field, values in model.items():
            for k, row in enumerate(order):
                self.assertEqual(got[field][k].dtype, values[row].dtype)
                self.assertEqual(np.shape(got[field][k]), values[row].shape)
                np.testing.assert_array_equal(got[field][k], values[row])
        self.client.clear(rows)


if __name__ == "__main__":
    unittest.main()
