"""TransferQueue's batches on our units: what goes in comes out, and what else holds of them."""

import argparse
import asyncio
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
import torch
import transfer_queue as tq
from tensordict import NonTensorData, NonTensorStack, TensorDict
from tq_support import QueueCase, bits, calls_of

import slabyard
from slabyard.errors import DataPlaneLostKeys, DataPlaneTimeout, DataPlaneTransferFailed, UnitFull
from slabyard.transfer_queue import (
    KeysNotFound,
    SlabyardStorageManager,
    SlabyardStoreClient,
    stacks,
)


def jagged(*rows):
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


class Kinds(QueueCase):
    def check_tensors(self, given, rows):
        """Rows come back with the bits, dtype and shape they had, in any order, and writable."""
        keys, _ = self.put({"x": given}, len(rows))
        for order in (keys, keys[::-1], [keys[-1], keys[0], keys[-1]]):
            back = self.get(order)["x"]
            self.assertTrue(back.is_nested)
            self.assertIs(back.layout, torch.jagged)
            for key, row in zip(order, back.unbind()):
                want = rows[keys.index(key)]
                self.assertEqual((row.dtype, row.shape), (want.dtype, want.shape))
                self.assertEqual(bits(row), bits(want))
            back.values().zero_()
        self.assertEqual(bits(self.get(keys)["x"].unbind()[0]), bits(rows[0]))

    def test_dense_of_every_dtype(self):
        for name in (
            *("bool", "uint8", "int8", "int16", "int32", "int64"),
            *("float16", "bfloat16", "float32", "float64", "complex64", "float8_e4m3fn"),
        ):
            with self.subTest(name):
                x = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
                self.check_tensors(x, list(x))

    def test_dense_of_many_dimensions(self):
        x = torch.randn(3, 2, 5, 4)
        self.check_tensors(x, list(x))
        self.check_tensors(x.transpose(1, 3), list(x.transpose(1, 3)))

    def test_jagged_with_nan_and_inf_and_empty_rows(self):
        rows = [
            torch.tensor([float("nan"), float("inf"), -0.0]),
            torch.empty(0),
            torch.tensor([float("-inf")]),
        ]
        self.check_tensors(jagged(*rows), rows)
        rows = [torch.randn(k, 3).to(torch.bfloat16) for k in (2, 0, 4)]
        self.check_tensors(jagged(*rows), rows)

    def test_strided_nested(self):
        rows = [torch.full((3, 4), float(k)) for k in range(4)]
        self.check_tensors(torch.nested.nested_tensor(rows, layout=torch.strided), rows)

    def test_strided_nested_of_rows_that_differ_in_all(self):
        rows = [torch.randn(2, 3), torch.randn(4, 1)]
        keys, _ = self.put({"x": torch.nested.nested_tensor(rows, layout=torch.strided)}, 2)
        back = self.get(keys)["x"]
        self.assertIs(back.layout, torch.strided)
        for row, want in zip(back.unbind(), rows):
            self.assertEqual((row.shape, bits(row)), (want.shape, bits(want)))

    def test_rows_without_dimensions(self):
        x = torch.tensor([3, 1, 2])
        keys, _ = self.put({"x": x}, 3)
        back = self.get(keys[::-1])["x"]
        self.assertFalse(back.is_nested)
        self.assertEqual((back.dtype, back.tolist()), (torch.int64, [2, 1, 3]))

    def test_objects(self):
        columns = {
            "text": ["a", "", "ü"],
            "dicts": [{"a": 1}, {"b": [1.0, None]}, {}],
            "mixed": [None, (1, 2), {3}],
            "bytes": NonTensorStack(b"a", b"", b"\0"),
            "arrays": NonTensorStack(np.zeros(2), np.arange(3), np.float32(1)),
            "classes": NonTensorStack(complex(1, 2), slabyard.errors.UnitFull, range(3)),
        }
        keys, _ = self.put(columns, 3)
        back = self.get(keys[::-1])
        for field, given in columns.items():
            got = back[field]
            want = list(TensorDict({"x": given}, batch_size=3)["x"])[::-1]
            self.assertEqual(list(map(type, got)), list(map(type, want)), field)
            self.assertEqual(list(map(repr, got)), list(map(repr, want)), field)

    def test_numpy_columns(self):
        columns = {
            "numbers": np.arange(6.0).reshape(3, 2),
            "bytes": np.array([b"x", b"yy", b"z"], dtype="|S10"),
            "objects": np.array(["a", {"b": 1}, None], dtype=object),
        }
        keys, _ = self.put(columns, 3)
        back = self.get(keys)
        rows = [row.tolist() for row in back["numbers"].unbind()]
        self.assertEqual(rows, columns["numbers"].tolist())
        for field in ("bytes", "objects"):
            self.assertEqual(list(back[field]), list(columns[field]))

    def test_one_object_for_a_batch(self):
        listed = NonTensorData(data=[{"i": k} for k in range(3)], batch_size=(3,))
        keys, _ = self.put({"one": NonTensorData(data="all", batch_size=(3,)), "each": listed}, 3)
        back = self.get(keys)
        self.assertEqual(list(back["one"]), ["all"] * 3)
        self.assertEqual(list(back["each"]), [{"i": 0}, {"i": 1}, {"i": 2}])


# Another program, whose own functions and classes nobody else finds.
PROGRAM = '''
import sys
from slabyard.transfer_queue import SlabyardStoreClient

class Mine:
    def __init__(self, number):
        self.number = number

    def doubled(self):
        return 2 * self.number

def local():
    class Local(Mine):
        pass
    return Local(4)

client = SlabyardStoreClient({"start_units": False, "run_dir": sys.argv[1], "namespace": "p"})
client.put(["1@main", "2@lambda", "3@local"], [[Mine(3)], lambda x: x + 1, local()])
client.close()
'''


class Programs(QueueCase):
    def test_what_only_the_program_that_puts_it_defines(self):
        subprocess.run([sys.executable, "-c", PROGRAM, self.found.run_dir], check=True)
        client = SlabyardStoreClient({"cluster": self.found, "namespace": "p"})
        self.addCleanup(client.close)
        (mine,), function, local = client.get(["1@main", "2@lambda", "3@local"])
        self.assertEqual((mine.doubled(), function(1), local.doubled()), (6, 2, 8))

    def test_functions_of_a_batch(self):
        functions = NonTensorStack(*((lambda x, k=k: x + k) for k in range(3)))
        keys, _ = self.put({"f": functions}, 3)
        self.assertEqual([f(10) for f in self.get(keys)["f"]], [10, 11, 12])


class Stacks(unittest.TestCase):
    """Made with loops in C they are what TensorDict makes."""

    def test_what_is_made(self):
        for values in (
            ["a", "b", "a"],
            [{"a": 1}, {}, {"b": [2]}],
            [1, None, "a", 2.5, b"b"],
            [torch.zeros(2), torch.ones(1, dtype=torch.int64)],
            [np.zeros(2), np.arange(3)],
            [NonTensorData("inside"), "outside"],
            [None],
        ):
            with self.subTest(values):
                self.check(stacks.stack_of(values), NonTensorStack(*values))

    def check(self, made, own):
        self.assertIs(type(made), type(own))
        self.assertEqual(vars(made).keys(), vars(own).keys())
        self.assertEqual((made.batch_size, made.device), (own.batch_size, own.device))
        self.assertEqual(repr(made.tolist()), repr(own.tolist()))
        for one, other in zip(made.tensordicts, own.tensordicts):
            self.assertIs(type(one), type(other))
            self.assertEqual(list(vars(one)), list(vars(other)))
            for name in ("_tensordict", "_non_tensordict"):
                mine, its = vars(one)[name], vars(other)[name]
                self.assertIs(type(mine), type(its))
                self.assertEqual(repr(mine), repr(its))
            self.assertEqual(repr(vars(one._tensordict)), repr(vars(other._tensordict)))
        self.assertEqual(repr(pickle.loads(pickle.dumps(made))), repr(own))
        self.assertEqual(repr(made[0]), repr(own[0]))
        listed = stacks.values_of(own)
        self.assertEqual(repr(listed), repr(own.tolist()))

    def test_members_share_nothing_that_changes(self):
        made = stacks.stack_of(["a", "b"])
        made[0].data = "c"
        made.tensordicts[0].batch_size = [1]
        self.assertEqual((made.tensordicts[1].data, made.tensordicts[1].batch_size), ("b", ()))

    def test_what_is_none_of_them(self):
        deep = torch.stack([NonTensorStack("a", "b"), NonTensorStack("c", "d")])
        for stack in (deep, NonTensorData("a", batch_size=[3]), "a", torch.zeros(2)):
            self.assertIsNone(stacks.values_of(stack))


class Life(QueueCase):
    def test_partial_updates_over_both_units(self):
        keys, partition = self.put({"a": torch.arange(8).reshape(8, 1)}, 8)
        some = keys[1::3]
        data = TensorDict({"b": torch.ones(len(some), 2)}, batch_size=len(some))
        tq.kv_batch_put(some, partition, data)
        self.assertEqual(self.get(some)["b"].values().tolist(), [1.0] * 2 * len(some))
        zeros = torch.zeros(len(some), 3, dtype=torch.int64)
        data = TensorDict({"a": zeros}, batch_size=len(some))
        tq.kv_batch_put(some, partition, data)
        lengths = [len(row) for row in self.get(keys, "a")["a"].unbind()]
        self.assertEqual(lengths, [3 if key in some else 1 for key in keys])

    def test_what_is_overwritten_gives_its_room_back(self):
        free = sum(report["bytes"]["free"] for report in self.store().reports())
        x = torch.zeros(4, 1 << 18)
        for _ in range(100):  # 400 MiB into 128
            keys, partition = self.put({"x": x}, 4)
        tq.kv_clear(keys, partition)
        self.assertEqual(
            sum(report["bytes"]["free"] for report in self.store().reports()), free
        )

    def test_clear_is_whole_and_idempotent(self):
        before = self.entry_count()
        keys, partition = self.put({"a": torch.zeros(4, 2), "b": list("wxyz")}, 4)
        meta = self.client.kv_retrieve_meta(keys, partition)
        never = self.client.kv_retrieve_meta(["never"], partition, create=True)
        for one in (meta, meta.select_fields(["a"]), meta, never):
            asyncio.run(self.manager.clear_data(one))
            self.assertEqual(self.entry_count(), before)
        tq.kv_clear(keys, partition)

    def test_indexes_are_used_again(self):
        keys, partition = self.put({"old": torch.ones(4, 2), "x": torch.ones(4, 2)}, 4)
        first = self.client.kv_retrieve_meta(keys, partition).global_indexes
        tq.kv_clear(keys, partition)
        keys, _ = self.put({"x": torch.zeros(4, 1)}, 4, keys=list("abcd"))
        meta = self.client.kv_retrieve_meta(keys, partition)
        self.assertEqual(sorted(meta.global_indexes), sorted(first))
        self.assertEqual(self.get(keys)["x"].values().tolist(), [0.0] * 4)

    def test_a_key_left_behind_is_replaced(self):
        """A clean-up that did not finish leaves an entry under a row that is then given out."""
        keys, partition = self.put({"x": torch.ones(1, 1)}, 1)
        row = self.client.kv_retrieve_meta(keys, partition).global_indexes[0]
        store, count = self.store(), self.entry_count()
        store.put({f"{row}@x": "left behind"})
        keys, _ = self.put({"x": torch.full((1, 1), 7.0)}, 1)
        self.assertEqual(self.get(keys)["x"].values().tolist(), [7.0])
        self.assertEqual(self.entry_count(), count)

    def test_shape_hints_are_not_believed(self):
        keys, partition = self.put({"x": torch.arange(6).reshape(2, 3)}, 2)
        meta = self.client.kv_retrieve_meta(keys, partition)
        meta.field_schema["x"].update(shape=torch.Size([99]), dtype=torch.float64)
        back = asyncio.run(self.manager.get_data(meta))["x"]
        self.assertEqual((back.dtype, back.values().tolist()), (torch.int64, [0, 1, 2, 3, 4, 5]))

    def test_what_is_missing_is_named(self):
        keys, partition = self.put({"x": torch.ones(2, 1)}, 2)
        meta = self.client.kv_retrieve_meta(keys, partition)
        row = meta.global_indexes[1]
        self.store().clear([row])
        with self.assertRaises(KeysNotFound) as caught:
            self.client.get_data(meta)
        e = pickle.loads(pickle.dumps(caught.exception))
        self.assertIsInstance(e, DataPlaneLostKeys)
        self.assertIsInstance(e, tq.StorageKeyNotFoundError)
        self.assertEqual(e.keys, [f"{row}@x"])
        self.assertEqual(str(e), f"1 keys lost ({row}@x): no unit has them")

    def test_status_of_production_and_consumption(self):
        self.client.put(TensorDict({"a": torch.zeros(4, 2)}, batch_size=4), partition_id=self.id())
        self.assertTrue(self.client.check_production_status(["a"], self.id()))
        self.assertFalse(self.client.check_production_status(["a", "b"], self.id()))
        asked = {"data_fields": ["a"], "partition_id": self.id(), "task_name": "train"}
        meta = self.client.get_meta(batch_size=4, mode="fetch", **asked)
        self.assertEqual(self.client.get_data(meta)["a"].values().tolist(), [0.0] * 8)
        self.assertTrue(self.client.check_consumption_status("train", self.id()))
        self.client.clear_samples(meta)

    def test_refusals(self):
        keys, partition = self.put({"x": torch.ones(2, 1)}, 2)
        data = TensorDict({"x": torch.ones(2, 1)}, batch_size=2)
        with self.assertRaisesRegex(NotImplementedError, "data_parser"):
            tq.kv_batch_put(keys, partition, data, data_parser=print)
        meta = self.client.kv_retrieve_meta(keys[:1], partition)
        with self.assertRaisesRegex(ValueError, "2 rows of data for 1"):
            asyncio.run(self.manager.put_data(data, meta))
        with tempfile.TemporaryDirectory() as top:
            with self.assertRaisesRegex(RuntimeError, "does not support checkpoints yet"):
                tq.save_checkpoint(os.path.join(top, "made"))
            self.assertEqual(os.listdir(top), [])
        with self.assertRaisesRegex(RuntimeError, "does not support checkpoints yet"):
            self.client.load_storage_checkpoint("never")
        with self.assertRaises(UnitFull):
            self.put({"x": torch.zeros(2, 20 << 20)}, 2)

    def test_the_key_value_client(self):
        client = SlabyardStoreClient({"cluster": self.found, "namespace": "kv"})
        self.addCleanup(client.close)
        keys = ["1@a", "2@a", "1@b"]
        values = [torch.ones(2), np.zeros(3), {"c": (1,)}]
        self.assertIsNone(client.put(keys, values))
        back = client.get(keys[::-1], shapes=[None], dtypes=[None])
        self.assertEqual(list(map(type, back)), [dict, np.ndarray, torch.Tensor])
        self.assertEqual(back[0], values[2])
        for _ in range(2):
            client.clear([*keys, "9@never"])
        with self.assertRaises(DataPlaneLostKeys):
            client.get(["1@a"])


class Loop(QueueCase):
    def batch(self, count):
        lengths = [1 + k % 7 for k in range(count)]
        rows = torch.arange(sum(lengths)).split(lengths)
        strided = torch.nested.nested_tensor([torch.zeros(2, 2)] * count, layout=torch.strided)
        dtypes = (torch.int64, torch.bfloat16, torch.float32)
        objects = {
            "text": [f"row {k}" for k in range(count)],
            "bytes": [bytes(k % 5) for k in range(count)],
            "dicts": [{"k": k, "of": [1.5, None]} for k in range(count)],
            "tuples": [(k, {"a"}) for k in range(count)],
            "arrays": [np.arange(k % 3) for k in range(count)],
            "deep": [{"pixels": np.zeros(k % 3), "at": (k,)} for k in range(count)],
            "classes": [argparse.Namespace(k=k) for k in range(count)],
            "kinds": [(None, "a", b"b", 1.5, torch.zeros(2))[k % 5] for k in range(count)],
            "dtypes": [torch.zeros(k % 3, dtype=dtypes[k % 3]) for k in range(count)],
            "dimensions": [torch.zeros((2,) * (k % 3)) for k in range(count)],
        }
        shapes = [torch.zeros(k % 3, k % 4) for k in range(count)]
        return TensorDict(
            {
                **{field: NonTensorStack(*values) for field, values in objects.items()},
                "shapes": torch.nested.nested_tensor(shapes, layout=torch.strided),
                "jagged": jagged(*rows),
                "jagged_bf16": jagged(*(row.to(torch.bfloat16) for row in rows)),
                "strided": strided,
                "dense": torch.zeros(count, 5),
                "scalar": torch.zeros(count),
            },
            batch_size=count,
        )

    def test_no_step_takes_a_row(self):
        """The manager's put, get and clear make as many calls for 512 rows as for 5,120."""
        counts = []
        for count in (512, 512, 5120):  # the first warms up what torch and we keep
            data, rows = self.batch(count), list(range(10**6, 10**6 + count))
            end = time.monotonic() + 60
            counts.append(
                [
                    calls_of(self.manager._put, data, rows, end),
                    calls_of(self.manager._get, rows, sorted(data.keys()), end),
                    calls_of(self.manager._clear, rows, end),
                ]
            )
        print("calls of put, get, clear:", counts[1], counts[2])
        self.assertEqual(counts[1], counts[2])

    def test_the_loop_goes_on_while_a_unit_stands_still(self):
        keys, partition = self.put({"x": torch.ones(4, 2)}, 4)
        data = TensorDict({"x": torch.ones(4, 2)}, batch_size=4)
        meta = self.client.kv_retrieve_meta(keys, partition)
        block = {"cluster": self.found, "op_timeout_s": 2, "control_timeout_s": 0.3}
        manager = SlabyardStorageManager(self.conf.controller.zmq_info, block)
        self.addCleanup(manager.close)
        pid = self.store().reports()[0]["pid"]

        async def ticks_during(operation):
            ticks, done = 0, asyncio.ensure_future(operation)
            while not done.done():
                await asyncio.sleep(0.005)
                ticks += 1
            self.assertIsInstance(
                done.exception(), (DataPlaneTimeout, DataPlaneTransferFailed)
            )
            return ticks

        os.kill(pid, signal.SIGSTOP)
        try:
            for operation in (
                lambda: manager.put_data(data, meta),
                lambda: manager.get_data(meta),
                lambda: manager.clear_data(meta),
            ):
                # Two at most, if the operation held the loop.
                self.assertGreater(asyncio.run(ticks_during(operation())), 10)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.put({"x": torch.ones(4, 2)}, 4)
        self.assertEqual(len(self.get(keys)["x"].unbind()), 4)


if __name__ == "__main__":
    unittest.main()
