"""The client: rows, fields and columns of a cluster, in Python's terms."""

from slabyard import _core


class Client:
    def __init__(self, run_dir=None, *, directory=None, namespace=None, timeout_s=None,
                 control_timeout_s=None, ssd=False, allow_pickle=False):
        self._core = _core.Client(run_dir, directory, namespace, timeout_s, control_timeout_s, ssd)
        self._allow_pickle = allow_pickle

    def put(self, keys, values, *, deadline=None):
        self._core.put(keys, tuple(values), None, self._allow_pickle, deadline)

    def get(self, keys, *, deadline=None):
        return self._core.get(keys, 0, deadline).values(0, lambda t: t, None, None)
