"""Fields of a TensorDict as columns, and back.

A tensor goes and comes whole; nothing here takes a step a row for it. Other values are lists in
TensorDict, too, which it makes and walks itself.
"""

from itertools import repeat

import numpy as np
import torch
from tensordict import NonTensorStack, TensorDict


class Exact:
    """Has a value pickled that the store would otherwise keep as a tensor or bytes, and so give
    back as another type. What is unpickled is the value itself."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return _itself, (self.value,)


def _itself(value):
    return value


_FOREIGN = (np.ndarray, np.generic, bytearray, memoryview)


def exact(values):
    """The list with what would change its type wrapped."""
    if not any(issubclass(one, _FOREIGN) for one in set(map(type, values))):
        return values
    return [Exact(value) if isinstance(value, _FOREIGN) else value for value in values]


def _listed(field, value, count):
    """One value a row, of what is no tensor."""
    if isinstance(value, TensorDict):
        value = list(value.unbind(0))
    elif isinstance(value, (list, np.ndarray)):
        value = list(value)
    else:
        value = [value] * count  # one object for the whole batch
    if len(value) != count:
        raise ValueError(f"field {field!r} has {len(value)} values for {count} rows")
    return exact(value)


def _row_shapes(tensor):
    """The shape of each row of a nested tensor, as tuples."""
    if tensor.layout is torch.jagged and tensor.lengths() is None and tensor._ragged_idx == 1:
        lengths = tensor.offsets().diff().tolist()
        return list(zip(lengths, *map(repeat, tensor.values().shape[1:])))
    if tensor.layout is torch.jagged:
        return [tuple(row.shape) for row in tensor.unbind()]
    return list(map(tuple, tensor._nested_tensor_size().tolist()))


def to_columns(data, rows):
    """(columns, schema) of a TensorDict: what put_columns takes, and what TransferQueue's
    controller is told of each field."""
    columns, schema = {}, {}
    for field in data.keys():
        value = data[field]
        meta = {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": True}
        if not isinstance(value, torch.Tensor):
            value = _listed(field, value, len(rows))
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
    """A list as TransferQueue's own backends give it: nested if it can be, else a stack."""
    if all(issubclass(one, torch.Tensor) for one in set(map(type, values))):
        if all(value.dim() == 0 for value in values) and len({v.dtype for v in values}) == 1:
            return torch.stack(values)
        for layout in (torch.jagged, torch.strided):
            try:
                return torch.nested.as_nested_tensor(values, layout=layout)
            except (RuntimeError, TypeError):
                pass  # their shapes or dtypes differ in more than it can hold
    return NonTensorStack(*values)


def from_columns(columns, count):
    """The TensorDict of what get_columns gave."""
    made = {
        field: _packed(value) if isinstance(value, list) else value
        for field, value in columns.items()
    }
    return TensorDict(made, batch_size=count)
