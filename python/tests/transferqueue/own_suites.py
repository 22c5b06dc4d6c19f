"""A pytest plugin: TransferQueue's own end-to-end suites, with SlabyardStore chosen.

Their modules have a table of backends and take the one that TQ_TEST_BACKEND names; this puts ours
into it. RAY_ADDRESS is where Ray is; what TransferQueue leaves running is stopped at the end.
"""

import os

import ray

import slabyard.transfer_queue

BLOCK = {"num_storage_units": 2, "slab_bytes": "64MiB", "op_timeout_s": 30}
CONF = {
    "controller": {"polling_mode": True},
    "backend": {"storage_backend": "SlabyardStore", "SlabyardStore": BLOCK},
}


def pytest_configure(config):
    os.environ["TQ_TEST_BACKEND"] = "SlabyardStore"


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        module.BACKEND_CONFIGS["SlabyardStore"] = CONF


def pytest_sessionfinish(session):
    if ray.is_initialized():
        slabyard.transfer_queue.shutdown()
        ray.shutdown()
