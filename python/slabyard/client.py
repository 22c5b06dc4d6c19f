"""The client: rows, fields and columns of a cluster, in Python's terms."""

import os
import pickle
import time

import numpy as np

from slabyard import _core
from slabyard import columns as _columns
from slabyard.errors import DataPlaneLostKeys
from slabyard.transport import check_transport

RUN_DIR_VARIABLE = "SLABYARD_RUN_DIR"
_VIEW = 1
_CONTROLS = ("auto", "zmq", "local")  # sy_control, in its order


def _check_missing(missing):
    if missing not in ("raise", "mask"):
        raise ValueError(f'missing is "raise" or "mask", not {missing!r}')


class Client:
    """A client of the cluster in run_dir (or of the directory at an address).

    run_dir: default is the variable SLABYARD_RUN_DIR. namespace: keys of others are not seen.
    timeout_s: caps every operation (120 s). control_timeout_s: one wait for a unit's reply (30 s).
    ssd: puts may wait for room on a unit's SSD tier. allow_pickle: objects that msgpack does not
    give back exactly are pickled, and pickles are loaded; only for data you trust. dumps: a
    function that pickles what pickle.dumps refuses, or keeps by its name in __main__ alone, such
    as cloudpickle.dumps; called with an object and a protocol.
    keys: the folder of client.key, for a directory and units that ask for keys over tcp.
    control: what carries messages to units of this host: "auto" is shared memory or else ZeroMQ,
    "zmq" and "local" (shared memory) are that alone.
    transport: what carries values: "auto" is shared memory with units of this host and UCX with
    those of others; "shm" and "ucx" are that alone. policy: what UCX may use: "same-host" nothing,
    "rdma" RDMA alone (UCX_TLS in the environment must say so), "allow-tcp" also TCP, for
    development. Where they are "auto" and None, SLABYARD_TRANSPORT and SLABYARD_POLICY decide, and
    without these shared memory where it reaches, and "rdma". A unit must offer it, too:
    `slabyard unit --policy`.

    Threads may share it; a forked child opens one of its own. `deadline` of every call is
    time.monotonic() seconds, None: the timeout. Ctrl-C ends a call that waits. Every call may
    raise DataPlaneTimeout, DataPlaneTransferFailed (the data is not lost: try again),
    DataPlaneFatal (the client is closed, or this is a forked child) and, where values of other
    hosts are reached, TransportPolicyError, which says what to set; its with block closes it.
    """

    def __init__(
        self,
        run_dir=None,
        *,
        directory=None,
        namespace=None,
        timeout_s=None,
        control_timeout_s=None,
        ssd=False,
        allow_pickle=False,
        dumps=None,
        keys=None,
        control="auto",
        transport="auto",
        policy=None,
    ):
        if control not in _CONTROLS:
            raise ValueError(f'control is "auto", "zmq" or "local", not {control!r}')
        choice = check_transport(transport, policy)
        if dumps is not None and not (allow_pickle and callable(dumps)):
            raise ValueError("dumps is a function, and goes with allow_pickle=True")
        if run_dir is None and directory is None:
            run_dir = os.environ.get(RUN_DIR_VARIABLE)
            if run_dir is None:
                raise ValueError(
                    f"name the run directory of the cluster, or set {RUN_DIR_VARIABLE}"
                )
        if run_dir is not None:
            run_dir = os.fspath(run_dir)
        self._core = _core.Client(
            run_dir,
            directory,
            namespace,
            timeout_s,
            control_timeout_s,
            bool(ssd),
            None if keys is None else os.fspath(keys),
            _CONTROLS.index(control),
            *choice,
        )
        self._allow_pickle = bool(allow_pickle)
        self._dumps = (dumps or pickle.dumps) if allow_pickle else None

    def put(self, keys, values=None, *, deadline=None):
        """Puts values under keys, "<row>@<field>"; put({key: value}) does, too.

        A value is an array in main memory (numpy, torch, DLPack; 0 to 8 dimensions), str, bytes,
        or None, bool, int, float and lists and dicts of these, which come back as they were. What
        goes to one unit appears together; the put as a whole is not atomic. Nothing is kept of
        the values after the call.
        Raises UnitFull, DataPlaneTransferFailed (naming the keys not known to be published),
        ValueError for a key twice or not a key, TypeError for a value that cannot be kept.
        """
        if values is None:
            if not hasattr(keys, "values"):
                raise TypeError("give values beside keys, or one dict of both")
            keys, values = tuple(keys.keys()), keys.values()
        if isinstance(keys, str):
            raise TypeError("keys are a sequence of str, not one str")
        values, code = _columns.value_specs(values)
        self._core.put(keys, values, code, self._dumps, deadline)

    def get(self, keys, *, missing="raise", copy=True, arrays="numpy", deadline=None):
        """The values of keys, a list in their order.

        missing: "raise" raises DataPlaneLostKeys that names the keys no unit has; "mask" returns
        (values, found) with None where found, an array of bool, is False. All fields of one row
        come from one state of that row. copy, arrays: as in get_columns; with copy=False arrays
        are read-only views. Objects that were pickled raise ValueError unless allow_pickle, and
        so does text that another program put and that is no UTF-8; a note says which value it is.
        """
        _check_missing(missing)
        lib = _columns.library(arrays, copy)
        keys = tuple(keys) if not isinstance(keys, str) else keys
        result = self._core.get(keys, 0 if copy else _VIEW, deadline)
        absent = result.absent()
        if absent and missing == "raise":
            raise DataPlaneLostKeys([keys[k] for _, k in absent], "no unit has them")
        values = _columns.take_values(
            result, 0, lib, _columns.makers(lib, self._allow_pickle)
        )
        if missing == "raise":
            return values
        found = np.ones(len(keys), np.bool_)
        found[[k for _, k in absent]] = False
        return values, found

    def put_columns(self, rows, columns, *, deadline=None):
        """Puts a batch: columns maps fields to columns, each with one value for each of rows.

        rows: distinct numbers 0 .. 2^64 - 1, in any order. A column is
          an array of shape (rows, ...): numpy, torch or DLPack, any strides; (rows,) are scalars
          (values, offsets), a Jagged or a jagged torch tensor: row k is
            values[offsets[k]:offsets[k + 1]]
          a list with one value a row, each of any kind that put takes, arrays of any shape.
        Raises as put does; keys in errors are those of whole rows.
        """
        self._core.put_columns(
            rows_of(rows), _columns.column_specs(columns), self._dumps, deadline
        )

    def get_columns(
        self,
        rows,
        fields,
        *,
        missing="raise",
        copy=True,
        arrays="numpy",
        jagged=(),
        deadline=None,
    ):
        """A dict of columns by field, in the order of rows (any rows, also twice).

        A column of tensors is an array of shape (rows, ...) where all its rows have one shape,
        else a Jagged (a nested tensor of torch); fields named in jagged are always that. Columns
        of text, bytes and objects are lists, and so is one whose rows differ in dtype or in more
        than the first dimension.

        missing: "raise" raises DataPlaneLostKeys that names what no unit has; "mask" returns
        (columns, found), found mapping fields to arrays of bool. Rows that are not found are
        zero, empty or None.
        copy: True gives memory of the caller's own, writable, independent of the store. False
        gives Views: read-only arrays that lie in the slab and keep it pinned until dropped.
        arrays: "numpy", "torch", or "dlpack" (slabyard.Tensor, also for dtypes that numpy lacks).
        Raises DataPlaneLostKeys for rows of a dead unit whatever missing says, TypeError for a
        dtype that numpy lacks, and as get does.
        """
        _check_missing(missing)
        if isinstance(jagged, str):
            raise TypeError("jagged is a collection of fields, not one str")
        jagged = tuple(jagged)
        lib = _columns.library(arrays, copy)
        fields = tuple(fields) if not isinstance(fields, str) else fields
        rows = rows_of(rows)
        if not isinstance(rows, (range, np.ndarray)):
            rows = list(rows)  # looked at again to say what is lost
        result = self._core.get_columns(rows, fields, 0 if copy else _VIEW, deadline)
        count = result.row_count
        infos = [result.column(c) for c in range(len(fields))]
        if missing == "raise" and any(info[4] < count for info in infos):
            raise _lost(result, rows, fields)
        makers_of = _columns.makers(lib, self._allow_pickle)
        if copy:
            total = sum(info[8] for info in infos)
            made = {}
            for c, field in enumerate(fields):
                try:
                    made[field] = _columns.take_column(
                        result, c, count, lib, makers_of, field in jagged, total
                    )
                except (ValueError, TypeError) as fault:
                    fault.add_note(f"(in the column {field!r})")
                    raise
        else:
            made = {
                field: _columns.Views(result, c, count, makers_of)
                for c, field in enumerate(fields)
            }
        if missing == "raise":
            return made
        return made, {
            field: _columns.NumpyArrays.array(result.found(c)) for c, field in enumerate(fields)
        }

    def clear(self, rows, fields=None, *, deadline=None):
        """Removes rows, or only these fields of them; returns how many entries went.

        fields None: all of them; an empty collection names none, and nothing goes.
        rows may also be keys ("12@prompt"). Idempotent; rows of a dead unit are gone already.
        After it returned no get finds them unless they are put again. Raises
        DataPlaneTransferFailed, naming the keys whose removal is not known; it may be repeated.
        """
        if isinstance(rows, np.ndarray) and rows.dtype.kind in "UOT":
            rows = rows.tolist()
        if isinstance(rows, (str, bytes)):
            raise TypeError(f"rows are numbers or keys, not one {type(rows).__name__}")
        if not isinstance(rows, (range, np.ndarray)) and not hasattr(rows, "__dlpack__"):
            rows = list(rows)
            if rows and isinstance(rows[0], str):
                if fields is not None:
                    raise ValueError("keys name their fields already")
                return self._clear_keys(rows, deadline)
        if fields is not None and not isinstance(fields, str):
            fields = tuple(fields)
            if not fields:
                return 0
        return self._core.clear(rows_of(rows), fields, deadline)

    def _clear_keys(self, keys, deadline):
        """One call a field, and one deadline for all."""
        end = time.monotonic() + self._core.timeout_s
        deadline = end if deadline is None else min(deadline, end)
        rows_of_field = {}
        for row, field in _core.parse_keys(keys):
            rows_of_field.setdefault(field, []).append(row)
        return sum(self._core.clear(rows, (f,), deadline) for f, rows in rows_of_field.items())

    def reports(self, *, deadline=None):
        """What each unit says of itself: a list of dicts, one a unit.

        unit_id, incarnation, pid, capacity_bytes; state: "active", "suspect", "draining", "dead"
        or "none"; answered, and a message where it is False; bytes by what they are used for,
        which sum to capacity_bytes; counts. A unit that does not answer is no error.
        """
        return self._core.reports(deadline)

    @property
    def unit_count(self):
        """N: row r lives on unit r % N."""
        return self._core.unit_count

    @property
    def closed(self):
        """Whether close was called; calls then raise DataPlaneFatal."""
        return self._core.closed

    def close(self):
        """Refuses new calls, waits at most the timeout for running ones, never for views."""
        self._core.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def rows_of(rows):
    """Rows as C takes them: an integer array or a sequence of ints."""
    tensor = _columns.torch_tensor_type()
    if tensor is not None and isinstance(rows, tensor):
        from slabyard import _torch

        return _torch.rows(rows)
    if hasattr(rows, "__dlpack__") and not isinstance(rows, np.ndarray):
        return np.from_dlpack(rows)  # as a buffer a slabyard.Tensor is its bytes
    return rows


def _lost(result, rows, fields):
    keys = [
        f"{int(rows[r])}@{fields[c]}" for c, r in sorted(result.absent(), key=lambda a: a[::-1])
    ]
    return DataPlaneLostKeys(keys, "no unit has them")
