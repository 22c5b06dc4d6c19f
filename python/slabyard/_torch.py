"""Torch tensors in and out. Imported only where torch is."""

from functools import partial
from itertools import compress, count, repeat
from operator import attrgetter, eq, is_, is_not

import torch
from torch.nested._internal.nested_tensor import NestedTensor

from slabyard import columns

# dtypes that numpy has not, and the integers that carry their bits.
_AS_BITS = {
    name: bits
    for name, bits in (
        ("bfloat16", torch.int16),
        ("float8_e4m3fn", torch.uint8),
        ("float8_e5m2", torch.uint8),
        ("float8_e4m3fnuz", torch.uint8),
        ("float8_e5m2fnuz", torch.uint8),
    )
    if hasattr(torch, name)
}
_OURS = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8_e4m3fn",
    "float8_e5m2": "f8_e5m2",
    "float8_e4m3fnuz": "f8_e4m3fnuz",
    "float8_e5m2fnuz": "f8_e5m2fnuz",
}
_BITS = {
    getattr(torch, name): (bits, columns.CODES[_OURS[name]]) for name, bits in _AS_BITS.items()
}
_TORCH = {
    ours: getattr(torch, name)
    for ours, name in {
        "bool": "bool",
        "u8": "uint8",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "f16": "float16",
        "f32": "float32",
        "f64": "float64",
        "c64": "complex64",
        "c128": "complex128",
        **{ours: name for name, ours in _OURS.items()},
    }.items()
    if hasattr(torch, name)
}


def _plain(tensor):
    """Without gradient, with its bytes as they look. What lies elsewhere than in main memory is
    refused: moving it waits for the device, which is the caller's to decide."""
    if tensor.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} cannot be stored")
    if not tensor.is_cpu:
        raise TypeError(
            f"the tensor lies on {tensor.device}: move it to main memory first, as .cpu() does"
        )
    return tensor.detach().resolve_conj().resolve_neg()


def bits(tensor):
    """(array, code) of a dense tensor; ((values, offsets), code) or (list, code) of a nested."""
    if type(tensor) is NestedTensor or tensor.is_nested:
        return _nested_bits(tensor)
    tensor = _plain(tensor)
    as_bits, code = _BITS.get(tensor.dtype, (None, -1))
    if as_bits is not None:
        tensor = tensor.view(as_bits)
    return tensor.numpy(), code


def nested_rows(tensor):
    """The rows of a nested tensor, a list; the loop is in C, as that of unbind of jagged ones is
    not."""
    if type(tensor) is not NestedTensor:
        return list(tensor.unbind())
    offsets, lengths = tensor._offsets, tensor._lengths
    if lengths is None:
        lengths = offsets.diff()
    cuts = repeat(tensor._values), repeat(tensor._ragged_idx - 1)
    return list(map(torch.narrow, *cuts, offsets[:-1].tolist(), lengths.tolist()))


def _nested_bits(tensor):
    """A jagged tensor whose rows lie side by side goes as it is; others row by row."""
    # Its parts are taken as attributes: each of its methods costs as much as a whole column.
    if type(tensor) is NestedTensor and tensor._lengths is None and tensor._ragged_idx == 1:
        values, code = bits(tensor._values)
        return (values, _plain(tensor._offsets).numpy()), code
    rows = nested_rows(tensor)
    return list_bits(rows, set(map(type, rows)))


def list_bits(values, types):
    """(list of arrays, code or tuple of codes) of a list that holds tensors. Loops are in C."""
    ours = {one for one in types if issubclass(one, torch.Tensor)}
    chosen = list(map(ours.__contains__, map(type, values)))
    tensors = list(compress(values, chosen))
    _refuse(tensors)
    dtypes = list(map(attrgetter("dtype"), tensors))
    distinct = set(dtypes)
    if len(distinct) == 1 and len(tensors) == len(values):
        return _uniform(tensors, dtypes[0])
    made, codes = list(values), [-1] * len(values)
    places = list(compress(count(), chosen))
    for dtype in distinct:
        same = list(map(is_, dtypes, repeat(dtype)))
        arrays, code = _uniform(compress(tensors, same), dtype)
        columns.scatter(made, compress(places, same), arrays)
        columns.scatter(codes, compress(places, same), repeat(code))
    return made, tuple(codes)


def _refuse(tensors):
    """TypeError: one of them is nested, or no strided one in main memory."""
    if any(map(attrgetter("is_nested"), tensors)):
        raise TypeError("a nested tensor is a column, not one value of a list")
    for name, good in (("layout", torch.strided), ("is_cpu", True)):
        each = list(map(attrgetter(name), tensors))
        if each.count(good) < len(each):
            _plain(next(compress(tensors, map(is_not, each, repeat(good)))))


def _uniform(tensors, dtype):
    tensors = map(torch.Tensor.detach, tensors)
    if dtype.is_complex:
        tensors = map(torch.Tensor.resolve_conj, tensors)
    tensors = map(torch.Tensor.resolve_neg, tensors)
    as_bits, code = _BITS.get(dtype, (None, -1))
    if as_bits is not None:
        tensors = map(torch.Tensor.view, tensors, repeat(as_bits))
    return list(map(torch.Tensor.numpy, tensors)), code


def rows(tensor):
    """Row numbers as an array."""
    return _plain(tensor).numpy()


def _dtype(name):
    dtype = _TORCH.get(name)
    if dtype is None:
        raise TypeError(f"this torch has no {name}")
    return dtype


class TorchArrays:
    """Makes torch tensors over the memory of a result."""

    @staticmethod
    def array(tensor):
        dtype = _dtype(tensor.dtype)
        if tensor.nbytes == 0:
            return torch.empty(tensor.shape, dtype=dtype)
        return torch.frombuffer(tensor, dtype=dtype).reshape(tensor.shape)

    @staticmethod
    def each(tensors):
        """The same of many; loops are in C."""
        made, shapes = list(tensors), list(map(attrgetter("shape"), tensors))
        filled = map(bool, map(attrgetter("nbytes"), tensors))
        kinds = list(zip(map(attrgetter("dtype"), tensors), filled))
        for kind in set(kinds):
            dtype, has_bytes = _dtype(kind[0]), kind[1]
            same = list(map(eq, kinds, repeat(kind)))
            kind_shapes = compress(shapes, same)
            if has_bytes:
                flat = map(partial(torch.frombuffer, dtype=dtype), compress(tensors, same))
                group = map(torch.Tensor.reshape, flat, kind_shapes)
            else:
                group = map(partial(torch.empty, dtype=dtype), kind_shapes)
            columns.scatter(made, compress(count(), same), group)
        return made

    @staticmethod
    def jagged(values, offsets):
        # What nested_tensor_from_jagged makes, at a fourth of its cost: it is no view of a tensor
        # that anybody else has.
        return NestedTensor(values, torch.from_numpy(offsets))

    @staticmethod
    def spread(values, found):
        rows = torch.zeros(len(found), dtype=values.dtype)
        rows[torch.from_numpy(found)] = values
        return rows
