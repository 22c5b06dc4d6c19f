"""Fields of a TensorDict as columns, and back.

A tensor goes and comes whole; nothing here takes a step a row for it. Other values are lists in
TensorDict, too, which it makes and walks itself.
"""

from itertools import compress, count, repeat
from operator import attrgetter

import numpy as np
import torch
from tensordict import TensorDict
from torch.nested._internal.nested_tensor import NestedTensor

from slabyard import _torch
from slabyard._core import Pickled
from slabyard.columns import scatter
from slabyard.transfer_queue import stacks

# What the store would keep as a tensor or bytes, and so give back as another type.
_FOREIGN = (np.ndarray, np.generic, bytearray, memoryview)


def exact(values):
    """The list with what would change its type marked to be pickled."""
    types = list(map(type, values))
    foreign = {one for one in set(types) if issubclass(one, _FOREIGN)}
    if not foreign:
        return values
    chosen = list(map(foreign.__contains__, types))
    marked = list(values)
    scatter(marked, compress(count(), chosen), map(Pickled, compress(values, chosen)))
    return marked


def _listed(field, value, rows):
    """One value a row, of what is no tensor."""
    if isinstance(value, TensorDict):
        value = list(value.unbind(0))
    elif isinstance(value, (list, np.ndarray)):
        value = list(value)
    else:
        value = [value] * rows  # one object for the whole batch
    if len(value) != rows:
        raise ValueError(f"field {field!r} has {len(value)} values for {rows} rows")
    return exact(value)


def _row_shapes(tensor):
    """The shape of each row of a nested tensor, as tuples."""
    is_jagged = type(tensor) is NestedTensor
    if is_jagged and tensor.lengths() is None and tensor._ragged_idx == 1:
        lengths = tensor.offsets().diff().tolist()
        return list(zip(lengths, *map(repeat, tensor.values().shape[1:])))
    if is_jagged:
        return list(map(tuple, map(attrgetter("shape"), _torch.nested_rows(tensor))))
    return list(map(tuple, tensor._nested_tensor_size().tolist()))


def to_columns(data, rows):
    """(columns, schema) of a TensorDict: what put_columns takes, and what TransferQueue's
    controller is told of each field."""
    columns, schema = {}, {}
    for field in data.keys():
        value = data.get(field)
        meta = {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": True}
        if not isinstance(value, torch.Tensor):
            listed = stacks.values_of(value)
            value = _listed(field, data[field] if listed is None else listed, len(rows))
        elif value.size(0) != len(rows):
            raise ValueError(f"field {field!r} has {value.size(0)} rows, not {len(rows)}")
        elif value.is_nested:
            shapes = _row_shapes(value)
            meta.update(dtype=value.dtype, is_nested=True, is_non_tensor=False)
            meta.update(shape=torch.Size(shapes[0]), per_sample_shapes=dict(zip(rows, shapes)))
        else:
            # The controller takes a row without dimensions for one of one item.
            shape = value.shape[1:] or torch.Size([1])
            meta.update(dtype=value.dtype, shape=shape, is_non_tensor=False)
        columns[field], schema[field] = value, meta
    return columns, schema


def _packed(values):
    """A list as TransferQueue's own backends give it: nested if it can be, else a stack. What can
    be jagged, or has no dimensions, is no list: the store gives it as one tensor."""
    types = set(map(type, values))
    if types == {torch.Tensor} and len(set(map(attrgetter("dtype"), values))) == 1:
        try:
            return torch._nested_tensor_from_tensor_list(values, None, None, None, None)
        except RuntimeError:
            pass  # their dimensions differ in number
    return stacks.stack_of(values)


def from_columns(columns, count):
    """The TensorDict of what get_columns gave."""
    made = {
        field: _packed(value) if isinstance(value, list) else value
        for field, value in columns.items()
    }
    return TensorDict(made, batch_size=count)
