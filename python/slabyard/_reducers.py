"""How objects are taken apart for pickling: in C where pickle's own table has Python code."""

import copyreg

import numpy as np


class _Known(dict):
    """What a function returns for these keys; of others it is asked."""

    def __init__(self, known, function):
        super().__init__(known)
        self._function = function

    def __missing__(self, key):
        return self._function(key)


def table():
    """A dispatch_table for a Pickler: copyreg's, as it is now. Pickles are the same."""
    reducers = dict(copyreg.dispatch_table)
    if reducers.get(complex) is getattr(copyreg, "pickle_complex", None):
        from slabyard._core import complex_parts  # it imports this module

        reducers[complex] = complex_parts
    of_dtypes = reducers.get(type(np.dtype))
    if of_dtypes is not None:  # np.dtype itself is in the pickle of each array
        reducers[type(np.dtype)] = _Known({np.dtype: of_dtypes(np.dtype)}, of_dtypes).__getitem__
    return reducers
