"""What the tests with TransferQueue share: Ray, started small, and TransferQueue on our units."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # workers nobody may want
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers

import ray  # noqa: E402
import torch  # noqa: E402
import transfer_queue as tq  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from support import await_that, calls_of  # noqa: E402, F401
from tensordict import TensorDict  # noqa: E402

import slabyard  # noqa: E402
import slabyard.transfer_queue  # noqa: E402

SMALL_NODE = {"object_store_memory": 100 << 20}
SMALL_RAY = {**SMALL_NODE, "num_cpus": 4, "include_dashboard": False}
BLOCK = {"num_storage_units": 2, "slab_bytes": "64MiB", "op_timeout_s": 30}


def conf_of(name="SlabyardStore", **block):
    return OmegaConf.create(
        {
            "controller": {"polling_mode": True},
            "backend": {"storage_backend": name, name: {**BLOCK, **block}},
        },
        flags={"allow_objects": True},
    )


def patiently(start):
    """Ray gives itself 30 s to start, which a busy machine may not have for it at once."""
    for attempt in range(3):
        try:
            return start()
        except Exception as e:
            if "timed out" not in str(e).lower() or attempt == 2:
                raise
            ray.shutdown()


_cluster = []  # the Ray of a process's tests: to start one takes longer than most of them


def cluster():
    """Of one node, which starts at the first call and stays until the process ends."""
    if not _cluster:
        head = {**SMALL_RAY, "no_monitor": True}
        _cluster.append(patiently(lambda: Cluster(initialize_head=True, head_node_args=head)))
    return _cluster[0]


def start_ray():
    """Until ray.shutdown(), which leaves the cluster running for the tests after this one."""
    ray.init(cluster().address, log_to_driver=False)


_queue = []  # the configuration of the one TransferQueue of a module


def queue(backend):
    """TransferQueue on slabyard units, started once for a module's tests."""
    if not _queue:
        start_ray()
        unittest.addModuleCleanup(ray.shutdown)
        _queue.append(tq.init(conf_of(backend)))
        unittest.addModuleCleanup(lambda: slabyard.transfer_queue.shutdown(_queue.pop()))
        unittest.addModuleCleanup(tq.close)
    return _queue[0]


class QueueCase(unittest.TestCase):
    """Tests on TransferQueue. Each has a partition."""

    BACKEND = "SlabyardStore"

    @classmethod
    def setUpClass(cls):
        cls.conf = queue(cls.BACKEND)
        cls.client = tq.get_client()
        cls.manager = cls.client.storage_manager
        cls.found = cls.conf.backend[cls.BACKEND].cluster

    def put(self, fields, count, keys=None):
        """Puts under keys "0", "1", ... of the test's partition; (keys, partition)."""
        keys = keys or [str(k) for k in range(count)]
        data = TensorDict(fields, batch_size=count)
        tq.kv_batch_put(keys, self.id(), data)
        return keys, self.id()

    def get(self, keys, fields=None):
        return tq.kv_batch_get(keys, self.id(), fields)

    def store(self):
        """A client of the units, past TransferQueue."""
        client = slabyard.Client(self.found.run_dir, allow_pickle=True, timeout_s=20)
        self.addCleanup(client.close)
        return client

    def entry_count(self):
        return sum(report["counts"]["entries"] for report in self.store().reports())


def bits(tensor):
    """The bytes of a tensor as a list, so that NaN equals NaN."""
    return tensor.contiguous().view(torch.uint8).reshape(-1).tolist() if tensor.numel() else []
