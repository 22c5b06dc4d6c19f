"""The configuration of the backend: its keys, and what is said of others."""

import difflib
import math
import re
import subprocess
import types
from collections.abc import Mapping, Sequence
from importlib import resources

from omegaconf import OmegaConf
from transfer_queue.storage.managers.base import StorageManagerFactory

from slabyard.cluster import command_path
from slabyard.transfer_queue.cluster import Found

BACKENDS = ("SlabyardStore", "NixlStore")
UNITS_MAX = 1024  # of a cluster

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
    "transport": ("auto", "auto, shm or ucx: what carries values"),
    "policy": (None, "same-host, rdma or allow-tcp: what ucx may use; default: rdma"),
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
    "protocol": "transport",
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


def _is_number(value, least, most, kinds=(int, float)):
    return isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most


def _is_whole(value):
    return _is_number(value, 1, UNITS_MAX, int)


def _is_time(value):
    return _is_number(value, 0.001, 1e8)


def _is_flag(value):
    return isinstance(value, bool)


def _is_text(value):
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return 1 <= len(value.encode()) <= 1024
    except UnicodeEncodeError:
        return False


def _is_list_of(is_item, value):
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return is_list and all(is_item(item) for item in value)


def _is_word(value):
    return _is_text(value) or _is_number(value, -math.inf, math.inf)


_WHOLE = (_is_whole, f"a whole number of 1 to {UNITS_MAX}")
_TIME = (_is_time, "a number of seconds, 0.001 to 1e8")
_FLAG = (_is_flag, "true or false")
_TEXT = (_is_text, "text of 1 to 1024 bytes without NUL")

# What each key may be. What a unit says of its memory and options it says itself (_check_unit).
_ALLOWED = {
    "num_storage_units": _WHOLE,
    "storage_units_per_node": _WHOLE,
    "client_threads": _WHOLE,
    "node_ids": (
        lambda value: _is_list_of(_is_text, value) and len(set(value)) == len(value),
        "a list of Ray's node ids, each once",
    ),
    "required_node_resource": _TEXT,
    "slab_bytes": (
        lambda value: _is_text(value) or _is_number(value, -math.inf, math.inf, int),
        "a number of bytes or a size such as 64MiB",
    ),
    "unit_cpus": (
        # As Ray has it.
        lambda value: _is_number(value, 0, 65536) and (value < 1 or value == int(value)),
        "a number of 0 to 1, or a whole one up to 65536",
    ),
    "unit_options": (
        lambda value: _is_list_of(_is_word, value),
        'a list of words, such as ["--read-pin", "60s"]',
    ),
    "start_units": _FLAG,
    "ssd": _FLAG,
    "run_dir": _TEXT,
    "directory": (
        lambda value: _is_text(value) and re.fullmatch(r"ipc://.+|tcp://.+:\d+", value),
        "an address such as tcp://10.0.0.5:7400 or ipc://PATH",
    ),
    "keys": _TEXT,
    "transport": (("auto", "shm", "ucx").__contains__, "auto, shm or ucx"),
    "policy": (
        ("same-host", "rdma", "allow-tcp").__contains__,
        "same-host, rdma or allow-tcp",
    ),
    "namespace": _TEXT,
    **{name: _TIME for name in KEYS if name.endswith("_s")},
}

# Words of `slabyard unit` that the bootstrap gives, and the key for each.
_GIVEN = {
    "--run-dir": "run_dir",
    "--id": "num_storage_units",
    "--units": "num_storage_units",
    "--slab-bytes": "slab_bytes",
    "--directory": "start_units: false and directory",
    "--end-with-stdin": "nothing",
    "--check": "nothing",
    "--help": "nothing",
    "-h": "nothing",
}


def _wrong(name, value, instead):
    shown = " ".join(repr(value).split())
    if len(shown) > 80:
        shown = f"{shown[:76]} ..."
    return ValueError(f"{name} is {shown}: {instead}")


def settings(block, where="backend.SlabyardStore"):
    """The checked block as a namespace with all keys. ValueError names what is wrong."""
    block = _mapping(block, where)
    found = block.get(FOUND)
    for key in block:
        if key not in KEYS and not (key == FOUND and isinstance(found, Found)):
            raise ValueError(f"{where}.{key}: no such key; {_right_name(key)}")
    given = {name: block[name] for name in KEYS if block.get(name) is not None}
    for name, value in given.items():
        is_right, allowed = _ALLOWED[name]
        if not is_right(value):
            raise _wrong(f"{where}.{name}", value, f"give {allowed}")
    values = {name: default for name, (default, _) in KEYS.items()} | given
    for name in ("node_ids", "unit_options"):
        values[name] = [str(one) for one in values[name] or ()]
    for word in values["unit_options"]:
        if word.partition("=")[0] in _GIVEN:
            name = _GIVEN[word.partition("=")[0]]
            raise _wrong(f"{where}.unit_options", [word], f"give {name}; the unit gets that word")
    times = [values[f"{name}_after_s"] for name in ("suspect", "fence", "dead")]
    if not times[0] < times[1] < times[2]:
        names = "suspect_after_s, fence_after_s and dead_after_s"
        raise ValueError(f"{where}: {names} are {times}: give times that rise")
    if "num_storage_units" in given and "storage_units_per_node" in given:
        raise ValueError(f"{where}: give num_storage_units or storage_units_per_node, not both")
    values["cluster"] = found
    _check_place(values, where)
    return types.SimpleNamespace(**values)


def _check_place(values, where):
    """Where the cluster is, or is to be."""
    if values["start_units"]:
        for name in ("directory", "keys"):
            if values[name] is not None:
                raise ValueError(
                    f"{where}.{name} is of a cluster to join: give start_units: false, too"
                )
    elif (values["run_dir"] is None) == (values["directory"] is None):
        raise ValueError(
            f"{where}.start_units is False: name the run_dir of the cluster to join, or its "
            "directory"
        )


def _check_unit(values, where):
    """Asks the unit's own program, which starts nothing, what it thinks of memory and options."""
    memory = ["--slab-bytes", str(values.slab_bytes)]
    for name, words in (("slab_bytes", memory), ("unit_options", memory + values.unit_options)):
        done = subprocess.run(
            [command_path(), "unit", "--check", "--run-dir", values.run_dir or "/tmp", *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            said = done.stderr.strip().removeprefix("slabyard unit: ").partition(" (see ")[0]
            raise _wrong(f"{where}.{name}", getattr(values, name), f"a unit says: {said}")


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


def _own():
    """TransferQueue's own configuration."""
    return OmegaConf.load(resources.files("transfer_queue") / "config.yaml")


def _check_key(key, where, name, known):
    """A key that stands outside the block of `name`, beside those that may stand there."""
    place = f"{where}." if where else ""
    if key in known and key not in BACKENDS:
        return
    if key in KEYS:
        raise ValueError(f"{place}{key} is misplaced: write backend.{name}.{key}")
    if key != name and str(key).lower() == name.lower():
        raise ValueError(f"{place}{key}: write backend.{name}")
    if key in BACKENDS and where != "backend":
        raise ValueError(f"{place}{key} is misplaced: write backend.{key}")
    if key in BACKENDS and key != name:
        raise ValueError(
            f"backend.{key} is not used, since storage_backend is {name}: write backend.{name}"
        )
    if key in BACKENDS:
        return
    # Elsewhere jobs may keep what is theirs alone.
    near = _near(key, name, known, 0.6 if where == "backend" else 0.85)
    if near is not None:
        raise ValueError(f"{place}{key}: no such key; did you mean {near}?")
    if where == "backend":
        raise ValueError(f"{place}{key}: no such key; there are {', '.join(sorted(known))}")


def _near(key, name, known, likeness):
    """What was meant by a key that nobody knows."""
    folded = {one.lower(): one for one in (*KEYS, *_ELSEWHERE, *_NOTHING, *BACKENDS, *known)}
    near = difflib.get_close_matches(str(key).lower(), folded, 1, likeness)
    if not near:
        return None
    meant = folded[near[0]]
    if meant in known:
        return meant
    return f"backend.{meant}" if meant in BACKENDS else f"backend.{name}.{meant}"


def check(conf):
    """The settings of a whole configuration. ValueError: a key is wrong or misplaced, or may not
    have its value; one line says which, and what it may be."""
    name, block = block_of(conf)
    own = _own()
    # Under backend also the names of plug-ins.
    own.backend.update({one: {} for one in (*BACKENDS, *StorageManagerFactory._registry)})
    for where, known in (("", own), *((where, own[where]) for where in own)):
        place = conf if where == "" else conf.get(where)
        for key in place if hasattr(place, "items") else ():
            _check_key(key, where, name, known)
    checked = settings(block, f"backend.{name}")
    if checked.start_units:
        _check_unit(checked, f"backend.{name}")
    return checked
