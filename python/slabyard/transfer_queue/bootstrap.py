"""Starting a cluster under Ray, for transfer_queue.init(), and stopping it."""

import contextlib
import time
import uuid

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from slabyard._ray import DirectoryActor, UnitActor, boot_id
from slabyard.transfer_queue import config
from slabyard.transfer_queue.cluster import Found

RAY_NAMESPACE = "slabyard"
_STOP_S = 60
_DIRECTORY_S = 30

_running = {}  # run_id: [actors], the directory's first; of clusters this process started


def _nodes(settings):
    """Ids of the nodes that may get units. ValueError: there is none, or a named one is gone."""
    resource = settings.required_node_resource
    alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    if settings.node_ids:
        gone = [one for one in settings.node_ids if one not in alive]
        if gone:
            raise ValueError(f"node_ids: no living node {gone[0]}; there are {', '.join(alive)}")
        alive = {one: alive[one] for one in settings.node_ids}
    fit = [
        one
        for one, node in alive.items()
        if resource is None or node["Resources"].get(resource, 0) > 0
    ]
    if not fit:
        raise ValueError(f"required_node_resource: no node offers {resource!r}")
    return fit if settings.node_ids else sorted(fit)


def _slots(settings, nodes):
    """The node of each unit."""
    if settings.storage_units_per_node is None:
        count = settings.num_storage_units
    else:
        count = settings.storage_units_per_node * len(nodes)
        if count > config.UNITS_MAX:
            raise ValueError(
                f"storage_units_per_node is {settings.storage_units_per_node}, which on "
                f"{len(nodes)} nodes makes {count} units: {config.UNITS_MAX} are the most"
            )
    return [nodes[k % len(nodes)] for k in range(count)]


def _on(node_id):
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


def _why_not_placed(settings, slots, unit_ids, said):
    """One line: what was asked for and what there is."""
    totals = {node["NodeID"]: node["Resources"] for node in ray.nodes()}
    unit_id = unit_ids[0]
    has = totals.get(slots[unit_id], {}).get("CPU", 0)
    free = ray.available_resources().get("CPU", 0)
    return (
        f"Ray placed {len(slots) - len(unit_ids)} of {len(slots)} units {said}: unit {unit_id} "
        f"needs {settings.unit_cpus:g} CPU on {slots[unit_id]}, which has {has:g} in all, "
        f"and {free:g} are free in the whole cluster; lower backend.SlabyardStore.unit_cpus"
    )


def _place(settings, slots, actors):
    """Waits until Ray has placed all units, and sees that they are on this host."""
    placed = [actor.place.remote() for actor in actors]
    _, waiting = ray.wait(placed, num_returns=len(placed), timeout=settings.placement_timeout_s)
    if waiting:
        unit_ids = [k for k, ref in enumerate(placed) if ref in waiting]
        within = f"within {settings.placement_timeout_s:g} s"
        raise RuntimeError(_why_not_placed(settings, slots, unit_ids, within))
    hosts, refused = {}, {}
    for k, ref in enumerate(placed):
        try:
            hosts[k] = ray.get(ref)
        except ray.exceptions.RayError as e:
            refused[k] = e
    if refused:
        cause = next(iter(refused.values()))
        said = f"({str(cause).strip().splitlines()[-1]})"
        raise RuntimeError(_why_not_placed(settings, slots, list(refused), said)) from cause
    for k, host in hosts.items():
        if host != boot_id():
            raise RuntimeError(
                f"unit {k} was placed on node {slots[k]}, another host: units of one host alone "
                "are started here; name its nodes in node_ids, or start them by other means and "
                "join them by their directory"
            )


def _started(actors, address, timeout_s):
    """Starts all units; their identities."""
    refs = [actor.start.remote(address) for actor in actors]
    identities = []
    end = time.monotonic() + timeout_s + _STOP_S  # an actor answers within timeout_s
    ray.wait(refs, num_returns=len(refs), timeout=timeout_s + _STOP_S, fetch_local=False)
    for k, ref in enumerate(refs):
        try:
            identities.append(ray.get(ref, timeout=max(0, end - time.monotonic())))
        except ray.exceptions.RayTaskError as e:
            raise RuntimeError(f"unit {k} did not start: {e.cause}") from None
        except ray.exceptions.RayError as e:
            raise RuntimeError(f"unit {k} did not start: {e}") from None
    return identities


def _start(settings, run_id, actors):
    """Starts everything; `actors` is filled as they are made, so that a failure can end them."""
    slots = _slots(settings, _nodes(settings))
    # Where the driver runs: clients of this host find it by its run directory.
    here = ray.get_runtime_context().get_node_id()

    def make(cls, name, node_id, cpus, *arguments):
        options = {
            "num_cpus": cpus,
            "max_concurrency": 4,  # watch() waits for the end beside the other calls
            "scheduling_strategy": _on(node_id),
            "name": f"{run_id}-{name}",
            "namespace": RAY_NAMESPACE,
        }
        actors.append(ray.remote(cls).options(**options).remote(*arguments))
        return actors[-1]

    timeout_s = settings.start_timeout_s
    lease_s = (settings.suspect_after_s, settings.fence_after_s, settings.dead_after_s)
    directory = make(
        DirectoryActor, "directory", here, 0, len(slots), settings.run_dir, timeout_s, lease_s
    )
    try:
        address, run_dir = ray.get(directory.start.remote(), timeout=_DIRECTORY_S + timeout_s)
    except ray.exceptions.RayTaskError as e:
        raise RuntimeError(f"the directory did not start: {e.cause}") from None
    except ray.exceptions.RayError as e:
        raise RuntimeError(f"Ray did not start the directory on node {here}: {e}") from None
    units = []
    for k, node_id in enumerate(slots):
        words = ["--run-dir", run_dir, "--id", str(k), "--units", str(len(slots))]
        words += ["--slab-bytes", str(settings.slab_bytes), *settings.unit_options]
        units.append(
            make(UnitActor, f"unit-{k}", node_id, settings.unit_cpus, k, words, timeout_s)
        )
    _place(settings, slots, units)
    identities = _started(units, address, timeout_s)
    ray.get(directory.guard.remote(address, units, identities, slots))
    return Found(run_id, run_dir)


def initialize(conf):
    """TransferQueue's bootstrap: starts directory and units, or joins a running cluster, and
    notes in conf where they are. ValueError: a key of conf is wrong; RuntimeError says why the
    cluster did not start, after all that had started was ended."""
    settings = config.check(conf)
    name, block = config.block_of(conf)
    if block is None:
        conf.backend[name] = {}
    if not settings.start_units:
        conf.backend[name][config.FOUND] = Found(
            None, settings.run_dir, settings.directory, settings.keys
        )
        return {}
    run_id = f"slabyard-{uuid.uuid4().hex[:12]}"
    actors = []
    try:
        found = _start(settings, run_id, actors)
    except BaseException:
        _end(actors)
        raise
    # Kept here: an actor that nobody refers to is ended by Ray, and transfer_queue.close()
    # drops what it was given.
    _running[run_id] = actors
    conf.backend[name][config.FOUND] = found
    return {}


def _end(actors):
    """Units first, then the directory, which removes the run directory."""
    for group in (actors[1:], actors[:1]):
        stops = [actor.stop.remote() for actor in group]
        with contextlib.suppress(ray.exceptions.RayError):
            ray.wait(stops, num_returns=len(stops), timeout=_STOP_S) if stops else None
        for actor in group:
            ray.kill(actor)


def _find(run_id):
    """The actors of a cluster that another process of the job started."""
    found = []
    for name in ("directory", *(f"unit-{k}" for k in range(1024))):
        try:
            found.append(ray.get_actor(f"{run_id}-{name}", namespace=RAY_NAMESPACE))
        except ValueError:
            if name != "directory":
                break
    return found


def shutdown(conf=None):
    """Stops the directory and the units, which transfer_queue.close() does not; what they held is
    gone. conf: what transfer_queue.init() returned; without it, or where it only joined, all
    clusters that this process started. Idempotent. A cluster that was only joined stays."""
    found = None
    if conf is not None:
        _, block = config.block_of(conf)
        found = (block or {}).get(config.FOUND)
    for run_id in list(_running) if found is None else [found.run_id]:
        if run_id is not None:
            _end(_running.pop(run_id, None) or _find(run_id))
