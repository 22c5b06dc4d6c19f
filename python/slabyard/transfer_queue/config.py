"""The configuration of the backend: its keys, and what is said of others."""

import difflib
import math
import types
from collections.abc import Mapping, Sequence
from importlib import resources

from omegaconf import OmegaConf
from transfer_queue.storage.managers.base import StorageManagerFactory

BACKENDS = ("SlabyardStore", "NixlStore")

# name: (default, what it says)
KEYS = {
    "num_storage_units": (2, "units in all, round-robin over the nodes"),
    "storage_units_per_node": (None, "instead: units on each node of node_ids"),
    "node_ids": (None, "Ray's ids of the nodes that get units; default: all that are alive"),
    "required_node_resource": (None, "only nodes with this Ray resource get units"),
    "slab_bytes": ("1GiB", "memory of each unit, in bytes or as 64MiB"),
    "unit_cpus": (0, "CPUs that Ray sets aside for each unit"),
    "unit_options": ((), "further words for `slabyard unit`"),
    "placement_timeout_s": (60, "how long Ray may take to place the units"),
    "start_timeout_s": (120, "how long a placed unit may take until it serves"),
    "suspect_after_s": (5, "a unit that the directory has not heard of so long is suspect"),
    "fence_after_s": (45, "one that cannot reach the directory so long answers nobody"),
    "dead_after_s": (60, "a silent one is dead, and its rows are lost: a lost node's"),
    "start_units": (True, "false: join the cluster that runs already in run_dir or at directory"),
    "run_dir": (None, "where the cluster lives; default: a temporary one"),
    "directory": (None, "to join: the directory's address, instead of run_dir"),
    "keys": (None, "to join: the folder of client.key, where the directory asks for keys"),
    "namespace": (None, "keys of other namespaces are not seen"),
    "op_timeout_s": (120, "caps every put, get and clear"),
    "control_timeout_s": (30, "one wait for a unit's reply, then it is asked again"),
    "client_threads": (4, "operations of one process that run at the same time"),
    "ssd": (False, "puts wait for room that units with an SSD tier make"),
}
FOUND = "cluster"  # what the bootstrap found, for the managers; no key of the user's

# What other backends call it.
_ELSEWHERE = {
    "num_data_storage_units": "num_storage_units",
    "num_units": "num_storage_units",
    "units": "num_storage_units",
    "units_per_node": "storage_units_per_node",
    "total_storage_size": "slab_bytes",
    "global_segment_size": "slab_bytes",
    "slab_size": "slab_bytes",
    "slab_size_bytes": "slab_bytes",
    "timeout_s": "op_timeout_s",
    "transfer_timeout_s": "op_timeout_s",
    "auto_init": "start_units",
}
_NOTHING = {
    "storage_unit_placement": "resolve it to node_ids and give storage_units_per_node",
    "client_staging_bytes": "on one host nothing is staged, so there is nothing to set",
    "client_staging_buffers": "on one host nothing is staged, so there is nothing to set",
    "client_pool_max_bytes": "on one host nothing is staged, so there is nothing to set",
    "read_pin_s": 'it is a unit\'s: unit_options=["--read-pin", "60s"]',
    "ssd_dir": 'it is a unit\'s: unit_options=["--ssd-dir", DIR, "--ssd-bytes", "10GiB"]',
    "client_name": "the manager names its client itself",
}


def _mapping(block, where):
    if block is None:
        return {}
    if not isinstance(block, Mapping) and not hasattr(block, "items"):
        raise ValueError(f"{where} is a block of keys, not {block!r}")
    return block


def _right_name(key):
    """What to do instead of a key that does not exist."""
    if key in _ELSEWHERE:
        return f"the key is {_ELSEWHERE[key]}"
    if key in _NOTHING:
        return _NOTHING[key]
    near = difflib.get_close_matches(key, KEYS, 1)
    return f"did you mean {near[0]}?" if near else f"the keys are {', '.join(KEYS)}"


def _positive(values, name, kinds=int):
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < math.inf:
        what = "whole number" if kinds is int else "number"
        raise ValueError(f"{name} is a {what} over 0, not {value!r}")


def _text(values, name):
    if not isinstance(values[name], str | None) or values[name] == "":
        raise ValueError(f"{name} is text, not {values[name]!r}")


def settings(block, where="backend.SlabyardStore"):
    """The checked block as a namespace with all keys. ValueError names what is wrong."""
    block = _mapping(block, where)
    for key in block:
        if key not in KEYS and key != FOUND:
            raise ValueError(f"{where}.{key}: no such key; {_right_name(key)}")
    given = {name for name in KEYS if block.get(name) is not None}
    values = {
        name: block[name] if name in given else default for name, (default, _) in KEYS.items()
    }
    for name in KEYS:
        if name.endswith("_s"):
            _positive(values, name, (int, float))
    if not values["suspect_after_s"] < values["fence_after_s"] < values["dead_after_s"]:
        raise ValueError("suspect_after_s, fence_after_s and dead_after_s must rise")
    for name in ("num_storage_units", "client_threads"):
        _positive(values, name)
    if "storage_units_per_node" in given:
        _positive(values, "storage_units_per_node")
        if "num_storage_units" in given:
            raise ValueError("give num_storage_units or storage_units_per_node, not both")
    for name in ("start_units", "ssd"):
        if not isinstance(values[name], bool):
            raise ValueError(f"{name} is true or false, not {values[name]!r}")
    for name in ("node_ids", "unit_options"):
        if isinstance(values[name], str) or not isinstance(values[name], Sequence | None):
            raise ValueError(f"{name} is a list, not {values[name]!r}")
        values[name] = [str(one) for one in values[name] or ()]
    cpus = values["unit_cpus"]
    if isinstance(cpus, bool) or not isinstance(cpus, (int, float)) or not 0 <= cpus < math.inf:
        raise ValueError(f"unit_cpus is a number, 0 or more, not {cpus!r}")
    for name in ("required_node_resource", "namespace", "run_dir", "directory", "keys"):
        _text(values, name)
    values["cluster"] = block.get(FOUND)
    _check_place(values)
    return types.SimpleNamespace(**values)


def _check_place(values):
    """Where the cluster is, or is to be."""
    if values["start_units"]:
        for name in ("directory", "keys"):
            if values[name] is not None:
                raise ValueError(f"{name} is of a cluster to join: give start_units: false, too")
    elif (values["run_dir"] is None) == (values["directory"] is None):
        raise ValueError(
            "start_units is false: name the run_dir of the cluster to join, or its directory"
        )


def block_of(conf):
    """(name, block) of the backend that a whole configuration chooses."""
    backend = _mapping(conf.get("backend"), "backend")
    name = backend.get("storage_backend")
    # The bootstrap's registry of TransferQueue ignores case, its other ones do not.
    exact = {one.lower(): one for one in BACKENDS}.get(str(name).lower())
    if exact is None:
        raise ValueError(f"backend.storage_backend is {name!r}, not {' or '.join(BACKENDS)}")
    if name != exact:
        raise ValueError(f"backend.storage_backend is {name!r}: write {exact}")
    return name, backend.get(name)


def _neighbours():
    """What else may stand under backend: TransferQueue's own names, and those of plug-ins."""
    own = OmegaConf.load(resources.files("transfer_queue") / "config.yaml").backend
    return {"storage_backend", *BACKENDS, *own, *StorageManagerFactory._registry}


def check(conf):
    """The settings of a whole configuration. ValueError: a key is wrong or misplaced."""
    name, block = block_of(conf)
    backend = conf["backend"]
    known = _neighbours()
    for where, place in (("", conf), ("backend.", backend)):
        for key in place:
            if key in KEYS:
                raise ValueError(f"{where}{key} is misplaced: write backend.{name}.{key}")
            if key != name and str(key).lower() == name.lower():
                raise ValueError(f"{where}{key}: write backend.{name}")
            if key in BACKENDS and place is conf:
                raise ValueError(f"{key} is misplaced: write backend.{key}")
            if key in BACKENDS and key != name:
                raise ValueError(
                    f"backend.{key} is not used, since storage_backend is {name}: "
                    f"write backend.{name}"
                )
            if key not in known and place is backend:
                raise ValueError(f"backend.{key}: no such key; {_near(key, name, known)}")
    return settings(block, f"backend.{name}")


def _near(key, name, known):
    """What was meant by a key right under backend."""
    folded = {one.lower(): one for one in (*known, *KEYS, *_ELSEWHERE, *_NOTHING)}
    near = difflib.get_close_matches(str(key).lower(), folded, 1)
    if not near:
        return f"there are {', '.join(sorted(known))}"
    meant = folded[near[0]]
    return f"did you mean {meant if meant in known else f'{name}.{meant}'}?"
