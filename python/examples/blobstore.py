"""Blobs by hand: alloc, write, commit, resolve, read and release, with memory of numpy's.

Run it with nothing, and it starts a cluster of its own; or name a run directory.
"""

import contextlib
import sys

import numpy as np

import slabyard
from slabyard.blobstore import UnitSlabStore, encode_index


def work(run_dir):
    ep = slabyard.Endpoint()
    directory = slabyard.Directory(run_dir=run_dir)
    with UnitSlabStore(ep, directory, namespace="example", timeout_s=10) as store:
        # Two rows of one unit: a jagged column and a scalar one. The memory is registered, so
        # that a transport to another host can write from it directly.
        tokens = np.arange(5, dtype=np.int64)
        rewards = np.array([0.5, 1.0], dtype=np.float32)
        for array in (tokens, rewards):
            ep.register(array.ctypes.data, array.nbytes)
        unit_id = 0
        blob = encode_index([2, 4], {"tokens": (tokens, [0, 2, 5]), "reward": rewards})
        store.put_segments(blob.segments, blob.nbytes, blob.n_entries, unit_id, blob.blob_id)

        # Any reader: where do the entries lie? They stay there until they are unpinned.
        keys = ["4@tokens", "2@reward", "4@nothing"]
        resolved = store.resolve_keys({unit_id: keys}, None)
        entries = resolved[unit_id]["entries"]
        assert resolved[unit_id]["missing"] == ["4@nothing"]
        slab_off, nbytes, dtype, shape, kind = entries["4@tokens"]
        assert (nbytes, dtype, shape, kind) == (24, "i64", (3,), "tensor")
        got = np.zeros(3, np.int64)
        store.read_entries(
            {unit_id: [(slab_off, nbytes, got.ctypes.data)]}, {unit_id: keys}, None
        )
        store.unpin_all(resolved)
        print("row 4 has the tokens", got.tolist())

        store.release_rows({unit_id: [2, 4]}, None)
        gone = store.resolve_keys({unit_id: keys}, None)
        assert len(gone[unit_id]["missing"]) == 3
        store.unpin_all(gone)
        for array in (tokens, rewards):
            ep.deregister(array.ctypes.data, array.nbytes)
    print("released")


def main():
    with contextlib.ExitStack() as stack:
        if len(sys.argv) > 1:
            work(sys.argv[1])
        else:
            work(stack.enter_context(slabyard.local(units=2, slab_bytes="64MiB")).run_dir)


if __name__ == "__main__":
    main()
