"""Stacks of objects as TensorDict keeps them: one NonTensorData a row.

Its own ways take dozens of steps of Python's for each row. Here the loops are in C, for the stacks
that lists and columns come as; all others go its own way.
"""

from collections import deque
from itertools import repeat
from operator import attrgetter, itemgetter

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict

_NOTHING = torch.Size([])
_INNER, _OTHER = "_tensordict", "_non_tensordict"  # where a NonTensorData keeps what it has


def values_of(stack):
    """The list that a stack was made of; None: it is none that is told here."""
    if type(stack) is not NonTensorStack or stack.stack_dim != 0:
        return None
    members = stack.tensordicts
    if set(map(type, members)) != {NonTensorData}:
        return None
    if set(map(attrgetter(f"{_INNER}._batch_size"), members)) != {_NOTHING}:
        return None
    try:
        return list(map(itemgetter("data"), map(attrgetter(_OTHER), members)))
    except KeyError:
        return None


def _is_shared(value):
    """Whether two members may have it in common: it never changes."""
    return value is None or isinstance(value, (bool, torch.Size, torch.device))


def _copies(one, count, own):
    """Copies of an object, where `own` maps names of attributes to those of each copy. None: it
    has others that change."""
    attributes = vars(one)
    if not own.keys() <= attributes.keys():
        return None
    if not all(name in own or _is_shared(value) for name, value in attributes.items()):
        return None
    made = list(map(object.__new__, repeat(type(one), count)))
    for name, value in attributes.items():
        values = own.get(name, repeat(value))
        deque(map(object.__setattr__, made, repeat(name), values), 0)
    return made


def _model(values):
    """A NonTensorData as TensorDict makes it, if it is the same of every type in values but for
    the value itself."""
    first = None
    for value in dict(zip(map(type, values), values)).values():
        one = NonTensorStack(value).tensordicts[0]
        if type(one) is not NonTensorData:
            return None
        data = vars(one)[_OTHER].get("data")
        # Of a tensor it keeps another one of the same memory.
        if data is not value and not (type(data) is type(value) is torch.Tensor):
            return None
        other = {**vars(one)[_OTHER], "data": None}
        if first is not None and other != {**vars(first)[_OTHER], "data": None}:
            return None
        first = one
    return first


def stack_of(values):
    """NonTensorStack(*values)."""
    one, count = _model(values), len(values)
    inner = getattr(one, _INNER, None)
    if type(inner) is not TensorDict or inner._tensordict or inner._batch_size != _NOTHING:
        return NonTensorStack(*values)
    others = list(map(dict, repeat(vars(one)[_OTHER], count)))
    deque(map(dict.__setitem__, others, repeat("data"), values), 0)
    empty = map(type(inner._tensordict), repeat((), count))
    inners = _copies(inner, count, {"_tensordict": empty})
    members = None if inners is None else _copies(one, count, {_INNER: inners, _OTHER: others})
    if members is None:
        return NonTensorStack(*values)
    # A stack of one, whose members are then these: its own way looks at each of them.
    stack = NonTensorStack(values[0])
    stack.tensordicts, stack._batch_size = members, torch.Size([count])
    return stack
