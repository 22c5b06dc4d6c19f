"""A pytest plugin: TransferQueue's own end-to-end suites, with SlabyardStore chosen.

Their modules have a table of backends and take the one that TQ_TEST_BACKEND names; this puts ours
into it. Ray is started small, and what it and TransferQueue leave out is stopped at the end.
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
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")


def pytest_sessionstart(session):
    ray.init(
        address="local",
        num_cpus=8,
        object_store_memory=100 << 20,
        include_dashboard=False,
        namespace="TestKVInterfaceE2E",
    )




def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        module.BACKEND_CONFIGS["SlabyardStore"] = CONF


def pytest_sessionfinish(session):
    if ray.is_initialized():
        slabyard.transfer_queue.shutdown()
        ray.shutdown()
