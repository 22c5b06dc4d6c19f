"""Columns in and out: what Python hands over to put_columns, and what get_columns makes.

Nothing here walks rows: an array, or a whole list, goes to C as it is.
"""

import pickle
import sys
from collections import deque
from collections.abc import Sequence
from itertools import compress, count, repeat
from operator import attrgetter, is_

import numpy as np

from slabyard import _core

CODES = {name: code for name, code, _ in _core.DTYPES}
NAMES = {code: name for name, code, _ in _core.DTYPES}
TENSOR = dict(_core.KINDS)["tensor"]

# What numpy has under its own names; the others it has only with ml_dtypes.
_NUMPY = {
    "bool": np.bool_,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}
_ML_DTYPES = {
    "bf16": "bfloat16",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
}
_CODE_OF_ML = {ml: CODES[name] for name, ml in _ML_DTYPES.items()}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def scatter(values, places, items):
    """values[place] = item for each two; the loop is in C."""
    deque(map(values.__setitem__, places, items), 0)


class Jagged(Sequence):
    """Rows of differing length: row k is values[offsets[k]:offsets[k + 1]].

    values has shape (sum of the lengths, ...), offsets one item more than there are rows.
    """

    __slots__ = ("values", "offsets")

    def __init__(self, values, offsets):
        self.values, self.offsets = values, offsets

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, k):
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(f"row {k} of {len(self)}")
        k %= len(self)
        return self.values[self.offsets[k] : self.offsets[k + 1]]

    @property
    def lengths(self):
        """How long each row is."""
        return self.offsets[1:] - self.offsets[:-1]

    def __repr__(self):
        shape = tuple(self.values.shape)
        return f"<slabyard.Jagged {len(self)} rows, values {shape} {self.values.dtype}>"


class Views(Sequence):
    """The rows of a column where they lie in the slabs: read-only arrays, made when asked for.

    They stay valid, whatever is cleared or overwritten meanwhile, until the last of them and this
    object are gone. Bytes, text and objects are made anew at each access.
    """

    __slots__ = ("_result", "_column", "_count", "_makers")

    def __init__(self, result, column, count, makers):
        self._result, self._column, self._count = result, column, count
        self._makers = makers

    def __len__(self):
        return self._count

    def __getitem__(self, k):
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(self._count))]
        if not -self._count <= k < self._count:
            raise IndexError(f"row {k} of {self._count}")
        return self._result.value(self._column, k % self._count, *self._makers)

    def __repr__(self):
        return f"<slabyard.Views of {self._count} rows>"


# In ------------------------------------------------------------------------------------------


def torch_tensor_type():
    """torch.Tensor, or None where nobody imported torch: then nobody has a tensor either."""
    torch = sys.modules.get("torch")
    return getattr(torch, "Tensor", None)


def from_dlpack(value):
    """A Tensor over the memory of any object that speaks DLPack and lies in main memory."""
    if value.__dlpack_device__()[0] != 1:
        raise TypeError("the tensor lies on a device: move it to main memory first")
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # it speaks an older DLPack
        capsule = value.__dlpack__()
    return _core.from_dlpack(capsule)


def _refuse_masked(kind):
    # numpy.ma is loaded late; where it is not nobody has a masked array either.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and issubclass(kind, masked):
        raise TypeError("a masked array would lose its mask: store its data and mask")


def _array_bits(array):
    """(array, code) where code says what its bits are, or -1 for what the array itself says."""
    _refuse_masked(type(array))
    code = _CODE_OF_ML.get(array.dtype.name, -1)
    if code >= 0:
        return array.view(_BITS[array.dtype.itemsize]), code
    if array.dtype.kind in "USOT":
        if array.ndim == 0:  # its item, such as bytes, would be taken for a column
            raise ValueError("an array of no dimension is a single value, and no column")
        return array.tolist(), -1
    if array.dtype.kind not in "biufc":
        raise TypeError(f"an array of {array.dtype} cannot be stored; store its integers")
    return (array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))), -1


def _tensor_bits(tensor):
    """The same of a Tensor of ours."""
    code = CODES[tensor.dtype]
    native = _NUMPY.get(tensor.dtype)
    if native is not None:
        return np.ndarray(tensor.shape, native, buffer=tensor), -1
    size = next(nbytes for _, one, nbytes in _core.DTYPES if one == code)
    return np.ndarray(tensor.shape, _BITS[size], buffer=tensor), code


def _list_bits(values):
    tensor = torch_tensor_type()
    types = set(map(type, values))
    for one in types:
        _refuse_masked(one)
    if tensor is not None and any(issubclass(one, tensor) for one in types):
        from slabyard import _torch

        return _torch.list_bits(values, types)
    foreign = tuple(
        one
        for one in types
        if hasattr(one, "__dlpack__")
        and not issubclass(one, (np.ndarray, np.generic))
        and one is not _core.Tensor
    )
    if foreign:
        return [from_dlpack(v) if isinstance(v, foreign) else v for v in values], -1
    return values, -1


def bits_of(value):
    """What C takes of one column: (array, code), ((values, offsets), code) or (list, code)."""
    if isinstance(value, list):
        return _list_bits(value)
    if isinstance(value, Jagged):
        value = (value.values, value.offsets)
    if isinstance(value, tuple):
        if len(value) != 2:
            raise TypeError("a tuple is (values, offsets); a list has one value a row")
        values, code = bits_of(value[0])
        if not isinstance(values, np.ndarray):
            raise TypeError("the values of (values, offsets) are an array")
        offsets = value[1] if isinstance(value[1], np.ndarray) else bits_of(value[1])[0]
        return (values, offsets), code
    if isinstance(value, np.ndarray):
        return _array_bits(value)
    tensor = torch_tensor_type()
    if tensor is not None and isinstance(value, tensor):
        from slabyard import _torch

        return _torch.bits(value)
    if isinstance(value, _core.Tensor):
        return _tensor_bits(value)
    if isinstance(value, Views):
        return list(value), -1
    if hasattr(value, "__dlpack__"):
        return _tensor_bits(from_dlpack(value))
    if isinstance(value, (str, bytes, bytearray)) or not hasattr(value, "__array__"):
        try:
            view = memoryview(value)
        except TypeError:
            view = None
        if view is None or view.format == "B":
            raise TypeError(
                f"a column is an array, a list with one value a row, or (values, offsets), "
                f"not {type(value).__name__}"
            )
    return _array_bits(np.asarray(value))


def column_specs(columns):
    """What _core.Client.put_columns takes: [(field, value, code)]."""
    if not hasattr(columns, "items"):
        raise TypeError(f"columns are a dict, not {type(columns).__name__}: give them by field")
    specs = []
    for field, value in columns.items():
        if not isinstance(field, str):
            raise TypeError(f"fields are str, not {type(field).__name__}")
        try:
            specs.append((field, *bits_of(value)))
        except (TypeError, ValueError) as e:
            raise type(e)(f"column {field!r}: {e}") from None
    return specs


def value_specs(values):
    """What _core.Client.put takes: a tuple of values, and their code or a tuple of codes."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"values are a sequence, one for each key, not one {type(values).__name__}"
        )
    values, code = _list_bits(list(values))
    return tuple(values), code


# Out -----------------------------------------------------------------------------------------


def numpy_dtype(name):
    native = _NUMPY.get(name)
    if native is not None:
        return np.dtype(native)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f'numpy has no {name}: take arrays="torch" or arrays="dlpack", or install ml_dtypes'
        ) from None
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))


class NumpyArrays:
    """Makes numpy arrays over the memory of a result."""

    @staticmethod
    def array(tensor):
        return np.ndarray(tensor.shape, numpy_dtype(tensor.dtype), buffer=tensor)

    @staticmethod
    def each(tensors):
        """The same of many; the loop is in C."""
        names = list(map(attrgetter("dtype"), tensors))
        dtypes = {name: numpy_dtype(name) for name in set(names)}
        shapes = map(attrgetter("shape"), tensors)
        return map(np.ndarray, shapes, map(dtypes.__getitem__, names), tensors)

    @staticmethod
    def jagged(values, offsets):
        return Jagged(values, offsets)

    @staticmethod
    def spread(values, found):
        """One value a row, zero where there is none."""
        rows = np.zeros(len(found), values.dtype)
        rows[found] = values
        return rows


class DlpackArrays:
    """Hands out Tensors: for any library that takes DLPack, and for dtypes numpy lacks."""

    @staticmethod
    def array(tensor):
        return tensor

    @staticmethod
    def each(tensors):
        return tensors

    @staticmethod
    def jagged(values, offsets):
        return Jagged(values, offsets)

    @staticmethod
    def spread(values, found):
        raise ValueError('missing="mask" with arrays="dlpack" needs every scalar to be there')


def library(name, copy):
    """What makes arrays of the kind asked for."""
    if name == "numpy":
        return NumpyArrays
    if name == "dlpack":
        return DlpackArrays
    if name == "torch":
        if not copy:
            raise ValueError(
                "torch has no read-only tensors, and what lies in a slab must not be written: "
                'take copies, or copy=False with arrays="numpy" or "dlpack"'
            )
        from slabyard import _torch

        return _torch.TorchArrays
    raise ValueError(f'arrays is "numpy", "torch" or "dlpack", not {name!r}')


def makers(arrays, allow_pickle):
    """What _core.Result makes objects with."""
    return arrays.array, pickle.loads if allow_pickle else None


def take_values(result, c, arrays, makers_of):
    """Values of column c of a result that was copied, or of a get of keys: a list."""
    values = result.values(c, None, makers_of[1])
    tensors = list(map(is_, map(type, values), repeat(_core.Tensor)))
    if any(tensors):
        made = arrays.each(list(compress(values, tensors)))
        scatter(values, compress(count(), tensors), made)
    return values


# Below this share of what one get brought, a column gets memory of its own, so that keeping a
# small one does not keep all.
_OWN_SHARE = 16


def take_column(result, c, row_count, arrays, makers_of, as_jagged, total_bytes):
    """Column c of a result that was copied."""
    code, kind, rank, tail, found, dense, mixed, lead, nbytes = result.column(c)
    if mixed or kind != TENSOR:
        return take_values(result, c, arrays, makers_of)
    if rank == 0:
        shape = (found,)
    elif dense and not as_jagged:
        shape = (row_count, lead, *tail)
    else:
        offsets = result.offsets(c)
        sums = np.ndarray(offsets.shape, np.int64, buffer=offsets)
        shape = (int(sums[-1]), *tail)
    array = arrays.array(result.tensor(c, shape, nbytes * _OWN_SHARE < total_bytes))
    if rank == 0:
        if found < row_count:
            array = arrays.spread(array, NumpyArrays.array(result.found(c)))
        return array
    if dense and not as_jagged:
        return array
    return arrays.jagged(array, sums)
