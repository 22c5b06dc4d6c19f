"""Blobs on units that the caller names: the level below slabyard.Client.

A blob is what one put sends to one unit: an index (encode_index makes it) and entries. It is
published whole; its entries are then found by key, "<row>@<field>". Every call blocks until it
is done; `deadline` is time.monotonic() seconds or None, which is the store's timeout_s.
"""

import bisect
import contextlib
import operator
import os
import threading
import time
import weakref
from typing import NamedTuple

import numpy as np

from slabyard import _core, columns
from slabyard.errors import (
    DataPlaneFatal,
    DataPlaneTimeout,
    LostBlobs,
    StaleRead,
    TransferFailed,
)
from slabyard.transport import Directory, Endpoint, Remote

__all__ = ["LostBlobs", "TransferFailed", "UnitSlabStore"]

BUSY_RETRY_S = 0.2
BUSY_RETRY_MAX_S = 2.0
PENDING_POLL_S = 0.01

_ALIGN = 64


def remaining(deadline, cap):
    """Seconds left until the deadline, at most cap; cap if there is none. DataPlaneTimeout: none
    are left."""
    if deadline is None:
        return cap
    left = deadline - time.monotonic()
    if left <= 0:
        raise DataPlaneTimeout("the deadline is spent")
    return min(cap, left)


def busy_wait(deadline, backoff):
    """Sleeps one backoff, no further than the deadline, and returns the next one.
    DataPlaneTimeout: no time was left to sleep."""
    time.sleep(remaining(deadline, backoff))
    return min(backoff * 2, BUSY_RETRY_MAX_S)


class Blob(NamedTuple):
    """What encode_index made: the arguments of put_segments, and the memory they point into."""

    segments: list  # (local_addr, blob_off, n)
    nbytes: int
    n_entries: int
    blob_id: str
    memory: tuple  # must stay until the put returned


def _check_offsets(field, offsets, count, total):
    """A slice would take any two numbers, and give back less than was meant."""
    if len(offsets) != count + 1:
        raise ValueError(
            f"column {field!r} has {len(offsets)} offsets for {count} rows: one more than rows"
        )
    if any(a > b for a, b in zip(offsets[:-1], offsets[1:])) or offsets[0] < 0:
        raise ValueError(f"the offsets of column {field!r} do not ascend")
    if offsets[-1] > total:
        raise ValueError(
            f"the offsets of column {field!r} reach {offsets[-1]}, its values {total}"
        )


def _rows_of_column(field, value, count):
    """One array, or bytes-like, for each row, and the code of each."""
    value, code = columns.bits_of(value)
    values, offsets = value if isinstance(value, tuple) else (value, None)
    if getattr(values, "ndim", 1) == 0:
        raise ValueError(f"column {field!r} is a single value, and not one for each row")
    if offsets is not None:
        _check_offsets(field, offsets, count, len(values))
        value = [values[a:b] for a, b in zip(offsets[:-1], offsets[1:])]
    if len(value) != count:
        raise ValueError(f"column {field!r} has {len(value)} values for {count} rows")
    return list(value), code if isinstance(code, tuple) else (code,) * count


def _describe(value, code):
    """(form, bytes, extent) of one value: form is (dtype, kind, rank, tail)."""
    kinds = dict(_core.KINDS)
    if isinstance(value, str):
        value = value.encode()
        return (0, kinds["utf8"], 0, ()), np.frombuffer(value, np.uint8), len(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return (0, kinds["bytes"], 0, ()), np.frombuffer(value, np.uint8), len(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(
            f"a value of a blob is an array, bytes or str, not {type(value).__name__}"
        )
    array = np.asarray(value)
    array, own = columns.bits_of(array)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"an array of {value.dtype} is no value of a blob")
    array = np.ascontiguousarray(array).reshape(array.shape)
    dtype = max(own, code)
    if dtype < 0 and array.dtype.str[1:] not in _NAME_OF:
        raise TypeError(f"an array of {array.dtype} is no value of a blob")
    if dtype < 0:
        dtype = columns.CODES[_NAME_OF[array.dtype.str[1:]]]
    tail = array.shape[1:]
    lead = 0 if array.ndim == 0 else array.shape[0]
    hollow = array.ndim > 0 and 0 in tail
    return (dtype, kinds["tensor"], array.ndim, tail), array, lead if hollow else array.nbytes


_NAME_OF = {
    "b1": "bool",
    "u1": "u8",
    "u2": "u16",
    "u4": "u32",
    "u8": "u64",
    "i1": "i8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
    "f2": "f16",
    "f4": "f32",
    "f8": "f64",
    "c8": "c64",
    "c16": "c128",
}


def encode_index(rows, columns_of, *, blob_id=None):
    """A blob of rows (distinct, all of one unit) by columns, ready for put_segments.

    columns_of maps fields to columns as Client.put_columns takes them, of arrays, bytes or str.
    Nothing is copied but what is not contiguous: the segments point into the arrays given.
    """
    order = sorted(range(len(rows)), key=lambda k: rows[k])
    parts = []  # (field, form, ordinals, extents, arrays)
    for field in sorted(columns_of, key=lambda name: name.encode()):
        values, codes = _rows_of_column(field, columns_of[field], len(rows))
        forms = {}
        for ordinal, k in enumerate(order):
            form, array, extent = _describe(values[k], codes[k])
            forms.setdefault(form, []).append((ordinal, extent, array))
        for form, entries in sorted(forms.items()):
            parts.append((field, form, *map(list, zip(*entries))))
    blob_id = blob_id or _core.new_blob_id()
    specs = [(field, *form, extents, ordinals) for field, form, ordinals, extents, _ in parts]
    index, nbytes, n_entries, bases = _core.encode_index(
        blob_id, [operator.index(rows[k]) for k in order], specs
    )
    head = np.frombuffer(index, np.uint8)
    segments, memory = [(head.ctypes.data, 0, len(index))], [head]
    for base, (*_, arrays) in zip(bases, parts):
        for array in arrays:
            if array.nbytes > 0:
                segments.append((array.ctypes.data, base, array.nbytes))
                memory.append(array)
            base += -(-array.nbytes // _ALIGN) * _ALIGN
    return Blob(segments, nbytes, n_entries, blob_id, tuple(memory))


def _with_id(blob):
    """A blob of which none is given gets the id in its index. One that has no index gets any: its
    unit refuses it, and then it has a name."""
    segments, nbytes, n_entries, unit_id, blob_id = blob
    segments = list(segments)
    blob_id = blob_id or _core.blob_id_of(segments, nbytes) or _core.new_blob_id()
    return segments, nbytes, n_entries, unit_id, blob_id


def _about(e, ids):
    """A failed transfer, as of these blobs, keys or rows."""
    return TransferFailed(ids, e.reason, in_flight=e.in_flight)


def _name(unit_id, blob_id):
    """Two units may have a blob of one id each; hex digits are large or small."""
    return unit_id, str(blob_id).lower()


# A fork child's stores refuse every call, but they do come to it: whoever held a lock of theirs
# at the fork is not there to give it up.
_stores = weakref.WeakSet()


def _unlock_in_child():
    for store in _stores:
        store._guard = threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)


class UnitSlabStore:
    """A store of blobs in one namespace.

    ep: a slabyard.Endpoint. directory: a slabyard.Directory or an address; the unit list is
    fetched at once. Where it asks for keys, give a Directory that has them. timeout_s caps each
    operation. ssd: units with an SSD tier make room or spill where they would have said UnitFull,
    and the store waits for that. lock: if given (a threading.Lock or anything with
    __enter__ and __exit__), it is held around every use of ep. Threads may share a store.
    """

    def __init__(self, ep, directory, *, namespace, timeout_s, ssd=False, lock=None):
        if lock is not None and not (hasattr(lock, "__enter__") and hasattr(lock, "__exit__")):
            raise TypeError("lock has no __enter__ and __exit__: give a threading.Lock")
        if not isinstance(ep, Endpoint):
            raise TypeError(f"ep is a slabyard.Endpoint, not {type(ep).__name__}")
        if timeout_s is None:
            raise TypeError("timeout_s is seconds, more than 0, not None")
        if not isinstance(directory, Directory):
            directory = Directory(directory, timeout_s=timeout_s)
        self._ep, self._directory = ep, directory
        self._namespace, self._timeout_s, self._ssd = namespace, timeout_s, bool(ssd)
        self._lock = lock
        self._store = _core.Store(
            ep._core,
            directory.address,
            directory._keys,
            namespace,
            timeout_s,
            self._ssd,
            lock,
            *ep._choice,
        )
        self._guard = threading.Lock()  # of all below
        self._units = {}
        self._dead = {}  # unit_id: incarnation
        self._pins = {}  # pin_id: [core object, {unit: entries}]
        self._next_pin = 1
        _stores.add(self)
        self._refresh_units()

    # Units ------------------------------------------------------------------------------------

    def _refresh_units(self):
        """Fetches the unit list: at start, and when a unit is unknown; never on the op path."""
        deadline = time.monotonic() + self._timeout_s
        units = {unit["unit_id"]: unit for unit in self._directory.units(0, deadline)}
        self._store.refresh(deadline)
        with self._guard:
            self._units = units

    def _check_open(self):
        """For what is answered out of what is known here. DataPlaneFatal: the store is closed, or
        this is a forked child."""
        _ = self._store.unit_count

    def _is_dead(self, unit):
        """As far as the unit list and the marks tell."""
        marked = self._dead.get(unit["unit_id"])
        return unit["state"] == "dead" or marked == unit["incarnation"]

    def _unit(self, unit_id):
        """What is known of the unit, a dict; refreshed once if it is unknown or was marked dead.
        Connects its remote, which stands under "remote". LostBlobs: unknown, or dead."""
        self._check_open()
        unit = self._units.get(unit_id)
        if unit is None or unit["incarnation"] == 0 or self._is_dead(unit):
            self._refresh_units()
            unit = self._units.get(unit_id)
        if unit is None or unit["incarnation"] == 0:
            raise LostBlobs([], f"there is no unit {unit_id}")
        if self._is_dead(unit):
            raise LostBlobs([], f"unit {unit_id} is dead")
        if "remote" not in unit:
            self._store.connect(unit_id, None)
            unit["remote"] = Remote(self._store, unit_id)
        return unit

    def _addr(self, unit_id):
        """The address of the unit's control plane. Raises as _unit does."""
        return self._unit(unit_id)["control_address"]

    def _unit_dead(self, unit_id):
        """Asks the directory, only after a failure, whether the incarnation that was used is dead,
        and marks it then. An unknown unit has none, and a silent directory says nothing."""
        unit = self._units.get(unit_id)
        if unit is None or unit["incarnation"] == 0:
            return False
        if not self._store.unit_dead(unit_id, None):
            return False
        self._mark_dead(unit_id)
        return True

    def _mark_dead(self, unit_id):
        """What the list shows of it: _unit then fetches the list anew."""
        with self._guard:
            if unit_id in self._units:
                self._dead[unit_id] = self._units[unit_id]["incarnation"]

    def _failed(self, unit_id, blobs, e):
        """The exception to raise for blobs of a unit that failed with e: LostBlobs if the unit is
        dead, else TransferFailed, which may be tried again."""
        if self._unit_dead(unit_id):
            return LostBlobs(blobs, f"unit {unit_id} is dead: {e}")
        return TransferFailed(blobs, str(e), in_flight=getattr(e, "in_flight", False))

    # Puts -------------------------------------------------------------------------------------

    def put_segments(self, segments, nbytes, n_entries, unit_id, blob_id=None, deadline=None):
        """Puts one blob on a unit and returns its id.

        segments: [(local_addr, blob_off, n)], together the blob, its index first; zero-copy.
        blob_id: 32 hex digits, those that the index says; None: they are read there.
        alloc, one WRITE of all segments, flush, commit. An id names one blob for good: a blob
        that the unit has from this store already counts as put, and nothing moves.
        Raises UnitFull, TransferFailed, DataPlaneTimeout (also while the unit stays busy).
        """
        blob = _with_id((segments, nbytes, n_entries, unit_id, blob_id))
        self.put_many([blob], deadline)
        return blob[4]

    def put_many(self, blobs, deadline=None):
        """Puts blobs, (segments, nbytes, n_entries, unit_id, blob_id) each, as put_segments does.

        All units at once, a unit's blobs one after the other, and no unit waits for another; then
        once more those that may be tried again. All are tried. Then it raises the first there is
        of DataPlaneFatal, UnitFull, DataPlaneTimeout, TransferFailed, with an attribute blob_ids:
        all that are not known to be published. ValueError: one unit is given an id twice.
        """
        e, failed = self._put(blobs, deadline)
        if e is not None:
            e.blob_ids = failed
            raise e

    def _put(self, blobs, deadline):
        """(exception or None, ids of all not known published)"""
        known, named, nowhere = [], set(), []
        for blob in map(_with_id, blobs):
            *_, unit_id, blob_id = blob
            if not self._is_slot(unit_id):
                nowhere.append(blob)
                continue
            if _name(unit_id, blob_id) in named:
                raise ValueError(f"unit {unit_id} is given blob {blob_id} twice")
            named.add(_name(unit_id, blob_id))
            known.append(blob)
        e, failed = self._store.put(known, deadline)
        ids = [known[at][4] for at in failed] + [blob[4] for blob in nowhere]
        if e is None and nowhere:
            e = TransferFailed(ids, f"there is no unit {nowhere[0][3]}")
        elif isinstance(e, TransferFailed):
            e = _about(e, ids)
        return e, ids

    def _put_round(self, by_unit, deadline):
        """One blob for each unit, all at once: {unit: blob}; returns the committed ids."""
        blobs = list(map(_with_id, by_unit.values()))
        _, failed = self._put(blobs, deadline)
        return {blob[4] for blob in blobs} - set(failed)

    def _commit(self, u, blob_id, deadline, errs):
        """Asks unit u (its id, or what _unit says) whether the blob is published: again while it
        is "pending", and again where a reply was lost. False: it is not, and was aborted, which a
        unit ignores for a blob it did publish; the reason is appended to errs. A unit is asked by
        the generation of the blob's region: of its newest puts the store that put them has it.
        What was published on a unit that has gone since is not, also where another replaced it."""
        unit_id = u["unit_id"] if isinstance(u, dict) else u
        self._check_open()
        try:
            published = self._ask_commit(unit_id, blob_id, deadline)
        except (TransferFailed, LostBlobs, DataPlaneTimeout, DataPlaneFatal) as e:
            errs.append(str(e))
            return False
        if not published:
            errs.append(f"unit {unit_id}: the commit of blob {blob_id} is not known there")
        return published

    def _ask_commit(self, unit_id, blob_id, deadline):
        """Whether it is published. TransferFailed: this store has no put of it to ask for."""
        published = self._store.commit(unit_id, blob_id, deadline)
        if published is None:
            raise TransferFailed(
                [blob_id], f"unit {unit_id}: no put of blob {blob_id} is known here"
            )
        return published

    # Gets -------------------------------------------------------------------------------------

    def resolve_keys(self, by_unit, deadline):
        """Where keys lie, {unit: [key]}; asked of all units at once, and pinned.

        Returns {unit: {"pin_id", "incarnation", "entries": {key: (slab_off, nbytes, dtype, shape,
        kind)}, "missing": [key]}}. Give it to unpin_all when the reads are done; pins that nobody
        reads expire. On failure nothing stays pinned.
        Raises LostBlobs or TransferFailed whose ids are the keys, and DataPlaneTimeout.
        """
        asked = [(unit_id, list(keys)) for unit_id, keys in by_unit.items()]
        unknown = [unit_id for unit_id, _ in asked if not self._is_slot(unit_id)]
        if unknown:
            keys = [key for unit_id, keys in asked if unit_id in unknown for key in keys]
            raise LostBlobs(keys, f"there is no unit {unknown[0]}")
        held, answers = self._store.resolve(asked, deadline)
        resolved, live = {}, {}
        with self._guard:
            pin_id = self._next_pin
            self._next_pin += 1
            for (unit_id, _), (incarnation, entries, missing) in zip(asked, answers):
                live[unit_id] = entries
                resolved[unit_id] = {
                    "pin_id": pin_id,
                    "incarnation": incarnation,
                    "entries": dict(entries),
                    "missing": missing,
                }
            self._pins[pin_id] = [held, live]
        return resolved

    def _is_slot(self, unit_id):
        """A whole number of any type, numpy's too, as row % N has it."""
        whole = hasattr(unit_id, "__index__")
        return whole and 0 <= operator.index(unit_id) < self._store.unit_count

    def read_entries(self, reads, keys_of, deadline):
        """Reads ranges of slabs into memory: {unit: [(slab_off, nbytes, local_addr)]}.

        A range must lie inside an entry that a resolve of this store, not yet unpinned, returned
        for a key in keys_of[unit]. One READ a unit.
        Raises StaleRead (nothing covers it, the pin was outlived, or another incarnation lives:
        resolve again), LostBlobs or TransferFailed with keys_of, DataPlaneTimeout. After any of
        these a read may still land in memory that ep has registered: see Endpoint.deregister.
        """
        self._check_open()
        flat = []
        for unit_id, ranges in reads.items():
            covered = self._covered(unit_id, keys_of.get(unit_id, ()))
            for slab_off, nbytes, local_addr in ranges:
                if not _is_covered(covered, slab_off, nbytes):
                    raise StaleRead(
                        f"unit {unit_id}: no live resolve of these keys covers "
                        f"{nbytes} bytes at {slab_off}: resolve again"
                    )
                flat.append((unit_id, slab_off, nbytes, local_addr))
        failed = self._store.read(flat, deadline)
        if failed is None:
            return
        e, at = failed
        unit_id = flat[at][0]
        keys = list(keys_of.get(unit_id, ()))
        if isinstance(e, LostBlobs):
            self._mark_dead(unit_id)
            e = LostBlobs(keys, e.reason)
        elif isinstance(e, TransferFailed):
            e = _about(e, keys)
        raise e

    def _covered(self, unit_id, keys):
        """Ranges that live resolves let be read for these keys: [(start, end)], ascending."""
        ranges = set()
        with self._guard:
            for _, live in self._pins.values():
                entries = live.get(unit_id, {})
                for key in keys:
                    if key in entries:
                        slab_off, nbytes, *_ = entries[key]
                        ranges.add((slab_off, slab_off + nbytes))
        return sorted(ranges)

    def unpin_all(self, resolved):
        """Gives back what resolve_keys pinned. Never raises; may be repeated."""
        with contextlib.suppress(Exception):
            for unit_id, one in resolved.items():
                with self._guard:
                    pin = self._pins.get(one["pin_id"])
                    if pin is None:
                        continue
                    held, live = pin
                    live.pop(unit_id, None)
                    if live:
                        continue
                    del self._pins[one["pin_id"]]
                held.free()

    # Releases, named operations, the end ------------------------------------------------------

    def release_rows(self, by_unit, deadline):
        """Removes whole rows, {unit: [row]}; all units at once. Idempotent; rows of a dead unit
        are gone already. Raises TransferFailed, whose ids are rows, and DataPlaneTimeout."""
        known, nowhere = {}, {}
        for unit_id, rows in by_unit.items():
            (known if self._is_slot(unit_id) else nowhere)[unit_id] = rows
        left = [row for rows in nowhere.values() for row in rows]
        try:
            self._store.release(list(known.items()), deadline)
        except TransferFailed as e:
            raise _about(e, [*e.blob_ids, *left]) from None
        if nowhere:
            raise TransferFailed(left, f"there is no unit {next(iter(nowhere))}")

    def _call_one(self, op, unit_id, args, deadline):
        if op == "resolve_keys":
            return self.resolve_keys({unit_id: args}, deadline)[unit_id]
        if op == "release_rows":
            return self.release_rows({unit_id: args}, deadline)
        if op == "commit":
            return self._ask_commit(unit_id, args, deadline)
        if op == "put":
            if args[3] != unit_id:
                raise ValueError(f"a blob of unit {args[3]} is put on unit {unit_id}")
            return self.put_segments(*args, deadline=deadline)
        self._store.connect(unit_id, deadline)
        return {key: value for key, value in self._units[unit_id].items() if key != "remote"}

    def _call_units(self, op, args_by_unit, deadline):
        """One op on every unit at once: (results by unit, [(unit, error)]).

        op and its args, and what a unit's result is: "resolve_keys" ([key]) as resolve_keys has
        it, "release_rows" ([row]) None, "put" ((segments, nbytes, n_entries, unit, blob_id)) the
        blob's id, "commit" (blob_id) whether it is published, "info" (None) what _unit returns.
        A unit that the directory does not know fails without being asked.
        """
        if op not in ("resolve_keys", "release_rows", "commit", "put", "info"):
            raise ValueError(f"there is no op {op!r}")
        remaining(deadline, self._timeout_s)
        results, errors = {}, []

        def call(unit_id, args):
            try:
                results[unit_id] = self._call_one(op, unit_id, args, deadline)
            except Exception as e:
                errors.append((unit_id, e))

        threads = []
        for unit_id, args in args_by_unit.items():
            unit = self._units.get(unit_id)
            if unit is None or unit["incarnation"] == 0:
                errors.append((unit_id, LostBlobs([], f"there is no unit {unit_id}")))
                continue
            threads.append(threading.Thread(target=call, args=(unit_id, args), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results, errors

    def close(self):
        """Refuses new calls and waits at most timeout_s for running copies, never for views."""
        with self._guard:
            self._pins.clear()
        self._store.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def _is_covered(ranges, start, nbytes):
    """Entries do not overlap, so the last one that starts no later covers the range or none does;
    empty ones may start where another does."""
    at = bisect.bisect_right(ranges, (start, float("inf")))
    return any(
        first <= start and start + nbytes <= end for first, end in ranges[max(0, at - 2) : at]
    )
