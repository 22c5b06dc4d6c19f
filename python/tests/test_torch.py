"""Torch tensors in and out."""

import unittest

import numpy as np
from support import ClusterCase, calls_of, torch_or_skip

from slabyard import Jagged


class Torch(ClusterCase):
    @classmethod
    def setUpClass(cls):
        cls.torch = torch_or_skip()
        super().setUpClass()

    def round_trip(self, columns, n=4, **options):
        rows = [11 * k for k in range(n)]
        self.client.put_columns(rows, columns)
        return self.client.get_columns(rows, list(columns), arrays="torch", **options)

    def check(self, a, b):
        self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
        self.assertTrue(self.torch.equal(a.detach().contiguous(), b))

    def test_dtypes(self):
        torch = self.torch
        for name in (
            "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 "
            "float32 float64 complex64 complex128"
        ).split():
            for shape in ((4,), (4, 3), (4, 2, 3), (4, 0), (4, 0, 2)):
                with self.subTest(f"{name}{shape}"):
                    size = int(np.prod(shape))
                    values = torch.arange(size).to(getattr(torch, name)).reshape(shape)
                    self.check(values, self.round_trip({"x": values})["x"])

    def test_f8(self):
        torch = self.torch
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
            with self.subTest(name):
                values = (
                    torch.arange(8, dtype=torch.float32).to(getattr(torch, name)).reshape(4, 2)
                )
                got = self.round_trip({"x": values})["x"]
                self.assertEqual(got.dtype, values.dtype)
                self.check(values.view(torch.uint8), got.view(torch.uint8))

    def test_strides_and_gradients(self):
        torch = self.torch
        base = torch.arange(4 * 6 * 5, dtype=torch.float32).reshape(4, 6, 5)
        for values in (
            base[:, ::2],
            base.transpose(1, 2),
            base[:, :, 0],
            base.expand(4, 6, 5),
            base[:, 2],
            base.clone().requires_grad_(),
            base.bfloat16()[:, ::3],
        ):
            self.check(values, self.round_trip({"x": values})["x"])
        values = torch.view_as_complex(torch.rand(4, 3, 2)).conj()
        self.check(values.resolve_conj(), self.round_trip({"x": values})["x"])
        values = torch.view_as_complex(torch.rand(4, 3, 2)).conj().imag
        self.check(values.resolve_neg(), self.round_trip({"x": values})["x"])
        self.check(values.resolve_neg(), self.round_trip({"x": list(values)})["x"])

    def test_jagged_nested(self):
        torch = self.torch
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            rows = [torch.arange(k * 2).reshape(k, 2).to(dtype) for k in (1, 0, 3, 2)]
            nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
            got = self.round_trip({"x": nested})["x"]
            self.assertTrue(got.is_nested)
            self.assertIs(got.layout, torch.jagged)
            self.assertEqual(got.dtype, dtype)
            for a, b in zip(rows, got.unbind()):
                self.check(a, b)

    def test_nested_results_are_like_torchs_own(self):
        torch = self.torch
        values, offsets = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 1, 4, 6])
        own = torch.nested.nested_tensor_from_jagged(values, offsets)
        got = self.round_trip({"x": own})["x"]
        self.assertIs(type(got), type(own))
        self.assertEqual((got.dim(), got.size(0), got.size(2)), (3, 4, 2))
        self.check(own.to_padded_tensor(-1), got.to_padded_tensor(-1))
        self.check((own * 2 + 1).values(), (got * 2 + 1).values())
        self.check(own.offsets(), got.offsets())
        got.requires_grad_()
        (got * got).values().sum().backward()
        self.check(got.grad.values(), 2 * values)
        got.detach().values().zero_()
        self.check(torch.zeros(6, 2), got.detach().values())
        again = self.client.get_columns([0, 11, 22, 33], ["x"], arrays="torch")["x"]
        self.check(values, again.values())
        self.check(values, self.round_trip({"y": again})["y"].values())

    def test_other_nested(self):
        torch = self.torch
        rows = [torch.rand(k, 3) for k in (1, 2, 3, 2)]
        for nested in (
            torch.nested.nested_tensor(rows),
            torch.nested.narrow(
                torch.rand(4, 5, 3),
                1,
                torch.tensor([0, 1, 0, 2]),
                torch.tensor([1, 2, 3, 2]),
                layout=torch.jagged,
            ),
        ):
            got = self.round_trip({"x": nested})["x"]
            for a, b in zip(nested.unbind(), got.unbind()):
                self.check(a, b)

    def test_lists(self):
        torch = self.torch
        for dtype in (torch.float32, torch.bfloat16, torch.complex64):
            rows = [torch.arange(k).to(dtype) for k in (2, 0, 1, 5)]
            got = self.round_trip({"x": rows})["x"]
            for a, b in zip(rows, got.unbind()):
                self.check(a, b)
        scalars = [torch.tensor(float(k), dtype=torch.bfloat16) for k in range(4)]
        got = self.round_trip({"x": scalars})["x"]
        self.check(torch.stack(scalars), got)
        mixed = [torch.arange(2), torch.rand(2, 3), torch.ones(2, dtype=torch.bfloat16), None]
        got = self.round_trip({"x": mixed})["x"]
        for a, b in zip(mixed[:3], got):
            self.check(a, b)
        self.assertIsNone(got[3])

    def test_values_and_offsets(self):
        torch = self.torch
        values, offsets = torch.arange(6, dtype=torch.bfloat16), torch.tensor([0, 1, 1, 4, 6])
        got = self.round_trip({"x": (values, offsets)})["x"]
        self.check(values, got.values())
        got = self.round_trip({"x": Jagged(values, offsets)})["x"]
        self.assertEqual(got.offsets().tolist(), offsets.tolist())

    def test_keys_and_rows(self):
        torch = self.torch
        put = [torch.ones(2, dtype=torch.bfloat16), torch.tensor(3), "x"]
        self.client.put(["1@a", "1@b", "1@c"], put)
        got = self.client.get(["1@a", "1@b", "1@c"], arrays="torch")
        self.check(put[0], got[0])
        self.check(put[1], got[1])
        self.assertEqual(got[2], "x")
        self.client.put(["2@a", "3@a"], put[:1] * 2)
        self.check(put[0], self.client.get(["3@a"], arrays="torch")[0])
        rows = torch.tensor([1, 2, 3])
        got = self.client.get_columns(rows, ["a"], arrays="torch")["a"]
        self.check(torch.stack(put[:1] * 3), got)
        self.assertEqual(self.client.clear(rows), 5)

    def test_torch_and_numpy_meet(self):
        torch = self.torch
        self.client.put_columns([1, 2], {"x": torch.arange(4).reshape(2, 2)})
        np.testing.assert_array_equal(
            self.client.get_columns([1, 2], ["x"])["x"], [[0, 1], [2, 3]]
        )
        taken = torch.from_dlpack(self.client.get_columns([1, 2], ["x"], arrays="dlpack")["x"])
        self.check(torch.arange(4).reshape(2, 2), taken)
        self.client.put_columns([1, 2], {"x": torch.ones(2, dtype=torch.bfloat16)})
        taken = torch.from_dlpack(self.client.get_columns([1, 2], ["x"], arrays="dlpack")["x"])
        self.check(torch.ones(2, dtype=torch.bfloat16), taken)

    def test_results_are_writable_and_independent(self):
        torch = self.torch
        values = torch.arange(4000.0).reshape(4, 1000)
        got = self.round_trip({"x": values, "y": values})
        got["x"].zero_()
        self.check(values, got["y"])
        self.check(values, self.client.get_columns([0, 11, 22, 33], ["x"], arrays="torch")["x"])
        self.client.close()
        self.check(values, got["y"])

    def test_masks(self):
        torch = self.torch
        self.client.put_columns([1], {"s": torch.tensor([2.5]), "j": [torch.arange(2)]})
        got, found = self.client.get_columns(
            [0, 1], ["s", "j", "n"], missing="mask", arrays="torch"
        )
        self.assertEqual(got["s"].tolist(), [0.0, 2.5])
        self.assertEqual([r.tolist() for r in got["j"].unbind()], [[], [0, 1]])
        self.assertEqual(got["n"], [None, None])

    def test_other_devices_are_refused(self):
        torch = self.torch
        away = torch.zeros(4, 2, device="meta")
        jagged = torch.nested.nested_tensor_from_jagged(
            torch.zeros(3, device="meta"), torch.tensor([0, 1, 1, 2, 3], device="meta")
        )
        for column in (away, jagged, list(away), [away[0], torch.zeros(2), 1, None]):
            with self.assertRaisesRegex(TypeError, "column 'x'.*lies on meta.*cpu"):
                self.client.put_columns([1, 2, 3, 4], {"x": column})
        with self.assertRaisesRegex(TypeError, "lies on meta"):
            self.client.put(["1@a"], [away])
        with self.assertRaisesRegex(TypeError, "lies on meta"):
            self.client.clear(torch.zeros(2, dtype=torch.int64, device="meta"))

    def test_a_view_is_taken_as_a_copy(self):
        """torch minds no read-only flag of DLPack: it would write, and the process end."""
        torch = self.torch
        values = torch.arange(4000.0).reshape(1, 4000)
        self.client.put_columns([1], {"x": values})
        view = self.client.get_columns([1], ["x"], copy=False, arrays="dlpack")["x"][0]
        for take in (torch.from_dlpack, torch.utils.dlpack.from_dlpack):
            taken = take(view)
            self.check(values[0], taken)
            taken.zero_()
        self.check(values, self.client.get_columns([1], ["x"], arrays="torch")["x"])

    def test_views_are_refused(self):
        with self.assertRaisesRegex(ValueError, "read-only"):
            self.client.get_columns([1], ["x"], copy=False, arrays="torch")

    def test_sparse_is_refused(self):
        with self.assertRaisesRegex(TypeError, "layout"):
            self.client.put_columns([0, 1], {"x": self.torch.eye(2).to_sparse()})

    def test_no_step_per_row(self):
        torch = self.torch

        found = []
        dtypes = (torch.bool, torch.int64, torch.bfloat16, torch.float32, torch.complex64)
        for n in (512, 5120):
            rows = np.arange(n)
            lengths = torch.arange(n) % 7
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(lengths, 0)])
            values = torch.rand(int(offsets[-1])).bfloat16()
            columns = {
                "jagged": torch.nested.nested_tensor_from_jagged(values, offsets),
                "dense": torch.rand(n, 4),
                "list": [torch.zeros(k % 5, dtype=torch.bfloat16) for k in range(n)],
                "floats": [torch.zeros(k % 5) for k in range(n)],
                "dtypes": [torch.zeros(k % 3, dtype=dtypes[k % 5]) for k in range(n)],
                "kinds": [
                    (None, "a", torch.zeros(2), {"k": k}, np.zeros(3))[k % 5] for k in range(n)
                ],
                "strided": torch.nested.nested_tensor(
                    [torch.zeros(2, 2 + k % 2) for k in range(n)]
                ),
                "holes": torch.nested.narrow(
                    torch.zeros(n, 8), 1, torch.zeros(n).long(), lengths, layout=torch.jagged
                ),
                "turned": torch.nested.nested_tensor_from_jagged(
                    torch.rand(int(offsets[-1]), 3), offsets
                ).transpose(1, 2),
            }
            self.client.put_columns(rows, columns)
            self.client.get_columns(rows, list(columns), arrays="torch")
            found.append(
                (
                    calls_of(lambda: self.client.put_columns(rows, columns)),
                    calls_of(lambda: self.client.get_columns(rows, list(columns), arrays="torch")),
                )
            )
        self.assertEqual(found[0], found[1])


if __name__ == "__main__":
    unittest.main()
