"""A running cluster as processes of the job know it, and their way in."""

import cloudpickle

from slabyard._ray import boot_id
from slabyard.client import Client


class Found:
    """What the bootstrap found or made. It travels in TransferQueue's configuration; unpickling
    it imports this package, which registers the backend.

    run_dir, or directory and the keys that it asks for.
    """

    def __init__(self, run_id, run_dir, directory=None, keys=None):
        self.run_id, self.run_dir = run_id, run_dir
        self.directory, self.keys = directory, keys
        self.boot_id = boot_id()

    def __repr__(self):
        return f"<slabyard cluster in {self.run_dir or self.directory}>"


def open_client(settings):
    """A client of the cluster that the settings name. RuntimeError: it is another host's, and no
    address says how to reach it."""
    found = settings.cluster
    place = settings if found is None else found
    if found is not None and found.directory is None and found.boot_id != boot_id():
        raise RuntimeError(
            f"the units run on another host, in {found.run_dir} there: what the backend starts is "
            "for one host; to join a cluster of several give start_units: false and its directory"
        )
    return Client(
        place.run_dir,
        directory=place.directory,
        keys=place.keys,
        namespace=settings.namespace,
        timeout_s=settings.op_timeout_s,
        control_timeout_s=settings.control_timeout_s,
        ssd=settings.ssd,
        allow_pickle=True,
        # As TransferQueue does: also what __main__ defines, and functions, reach other processes.
        dumps=cloudpickle.dumps,
        transport=settings.transport,
        policy=settings.policy,
    )
