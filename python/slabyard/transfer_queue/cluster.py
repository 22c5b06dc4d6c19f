"""A running cluster as processes of the job know it, and their way in."""

from slabyard._ray import boot_id
from slabyard.client import Client


class Found:
    """What the bootstrap found or made. It travels in TransferQueue's configuration; unpickling
    it imports this package, which registers the backend."""

    def __init__(self, run_id, run_dir):
        self.run_id, self.run_dir = run_id, run_dir
        self.boot_id = boot_id()

    def __repr__(self):
        return f"<slabyard cluster in {self.run_dir}>"


def open_client(settings):
    """A client of the cluster that the settings name. RuntimeError: it is another host's."""
    run_dir = settings.run_dir
    if settings.cluster is not None:
        run_dir = settings.cluster.run_dir
        if settings.cluster.boot_id != boot_id():
            raise RuntimeError(
                "the units run on another host: this version moves bytes within one host only"
            )
    return Client(
        run_dir,
        namespace=settings.namespace,
        timeout_s=settings.op_timeout_s,
        control_timeout_s=settings.control_timeout_s,
        allow_pickle=True,
    )
