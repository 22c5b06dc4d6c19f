"""A running cluster as processes of the job know it, and their way in."""

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
    """A client of the cluster that the settings name. RuntimeError: it is another host's."""
    place = settings if settings.cluster is None else settings.cluster
    if settings.cluster is not None and settings.cluster.boot_id != boot_id():
        raise RuntimeError(
            "the units run on another host: this version moves bytes within one host only"
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
    )
