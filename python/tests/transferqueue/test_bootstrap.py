"""Units under Ray: placed or refused with a word, watched, and ended with those they are for."""

import contextlib
import os
import signal
import subprocess
import sys
import unittest

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from tq_support import SMALL_NODE, await_that, cluster, conf_of, start_ray

import slabyard
from slabyard.errors import DataPlaneLostKeys
from slabyard.transfer_queue import bootstrap, config
from slabyard.transfer_queue.cluster import Found, open_client

JOB = """
import os, signal, sys
from tq_support import *
patiently(lambda: ray.init("local", log_to_driver=False, **SMALL_RAY))
conf = tq.init(conf_of())
print(conf.backend.SlabyardStore.cluster.run_dir, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill_if_there(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def living_nodes():
    return sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])


def slabs_of(run_dir):
    found = []
    for name in os.listdir(run_dir):
        if name.endswith(".lock") and name.startswith("unit-"):
            with open(os.path.join(run_dir, name)) as file:
                found += [line.split()[1] for line in file if line.startswith("slab ")]
    return found


class Watched(unittest.TestCase):
    def start(self, **block):
        conf = conf_of(**block)
        bootstrap.initialize(conf)
        self.addCleanup(bootstrap.shutdown, conf)
        self.found = conf.backend.SlabyardStore.cluster
        self.actors = bootstrap._running[self.found.run_id]
        return conf

    def units(self):
        return slabyard.Directory(run_dir=self.found.run_dir, timeout_s=20).units()

    def states(self):
        return [unit["state"] for unit in self.units()]

    def events(self):
        return ray.get(self.actors[0].events.remote())

    def nodes_of_units(self):
        """Where Ray says that the actors of the units run."""
        seen = [actor.node.remote() for actor in self.actors[1:]]
        return ray.get(seen)


class OneNode(Watched):
    @classmethod
    def setUpClass(cls):
        start_ray()
        cls.addClassCleanup(ray.shutdown)

    def test_a_unit_that_dies_is_reported(self):
        self.start(num_storage_units=3)
        with slabyard.Client(self.found.run_dir, timeout_s=20) as client:
            client.put({f"{row}@a": row for row in range(3)})
            os.kill(self.units()[1]["pid"], signal.SIGKILL)
            await_that("the directory knows", lambda: self.states()[1] == "dead")
            with self.assertRaises(DataPlaneLostKeys) as caught:
                client.get(["0@a", "1@a", "2@a"])
            self.assertEqual(caught.exception.keys, ["1@a"])
            self.assertEqual(client.get(["0@a", "2@a"]), [0, 2])

    def test_an_actor_that_is_killed_takes_its_unit_along(self):
        """Also one that stands still: what lives is not called dead, what is dead is."""
        self.start()
        pids = [unit["pid"] for unit in self.units()]
        os.kill(pids[1], signal.SIGSTOP)
        for actor in self.actors[1:]:
            ray.kill(actor)
        await_that("both are known", lambda: self.states() == ["dead", "dead"])
        self.assertFalse(any(map(is_alive, pids)))
        await_that("both are told of", lambda: len(self.events()) == 2)
        self.assertTrue(all("ended with its actor" in text for text in self.events()))

    def test_shutdown_leaves_nothing(self):
        conf = self.start()
        pids, slabs = [unit["pid"] for unit in self.units()], slabs_of(self.found.run_dir)
        self.assertEqual(len(slabs), 2)
        for _ in range(2):
            bootstrap.shutdown(conf)
        self.assertFalse(any(map(is_alive, pids)))
        self.assertFalse(any(map(os.path.exists, [self.found.run_dir, *slabs])))

    def test_joining_a_running_cluster(self):
        with slabyard.local(slab_bytes="32MiB") as cluster:
            conf = conf_of()
            conf.backend.SlabyardStore = {"start_units": False, "run_dir": cluster.run_dir}
            bootstrap.initialize(conf)
            bootstrap.shutdown(conf)
            with slabyard.Client(conf.backend.SlabyardStore.cluster.run_dir) as client:
                self.assertEqual(client.unit_count, 1)
            address = slabyard.Directory(run_dir=cluster.run_dir).address
            block = {"start_units": False, "directory": address, "ssd": True}
            conf.backend.SlabyardStore = block
            bootstrap.initialize(conf)
            settings = config.settings(conf.backend.SlabyardStore)
            with open_client(settings) as client:
                self.assertEqual(client.unit_count, 1)
            # As if this were another host: by its address it is reached, by a path it is not.
            settings.cluster = Found(None, None, address)
            settings.cluster.boot_id = "another"
            with open_client(settings) as client:
                self.assertEqual(client.unit_count, 1)
            settings.cluster = Found(None, cluster.run_dir)
            settings.cluster.boot_id = "another"
            with self.assertRaisesRegex(RuntimeError, "another host, in /"):
                open_client(settings)

    def test_what_cannot_be_started_is_said(self):
        no_disk = ["--ssd-dir", "/nowhere/disk", "--ssd-bytes", "1GiB"]
        for block, text in (
            ({"unit_cpus": 64, "placement_timeout_s": 2}, r"0 of 2 .* needs 64 CPU on .*has 4"),
            ({"required_node_resource": "pool"}, "no node offers 'pool'"),
            ({"node_ids": ["0" * 56]}, "no living node 0000"),
            ({"slab_bytes": "100TiB"}, "did not start: .*"),
            ({"unit_options": no_disk}, "did not start: .*/nowhere/disk: No such file"),
        ):
            with self.subTest(block):
                with self.assertRaisesRegex((ValueError, RuntimeError), text):
                    bootstrap.initialize(conf_of(**block))
                self.assertEqual(bootstrap._running, {})


class TwoNodes(Watched):
    """Two raylets on this host."""

    def setUp(self):
        start_ray()
        self.addCleanup(ray.shutdown)
        self.second = cluster().add_node(resources={"pool": 1}, num_cpus=2, **SMALL_NODE)
        self.addCleanup(self.remove_second)

    def remove_second(self, gently=True):
        if self.second in cluster().worker_nodes:
            cluster().remove_node(self.second, allow_graceful=gently)
            await_that("Ray knows", lambda: len(living_nodes()) == 1)

    def test_placement(self):
        self.start(num_storage_units=3)
        first, second = living_nodes()
        self.assertEqual(self.nodes_of_units(), [first, second, first])
        bootstrap.shutdown()
        pool = self.second.node_id
        self.start(num_storage_units=None, storage_units_per_node=2, node_ids=[pool])
        self.assertEqual(self.nodes_of_units(), [pool, pool])
        bootstrap.shutdown()
        self.start(required_node_resource="pool")
        self.assertEqual(self.nodes_of_units(), [pool, pool])

    def test_a_lost_node(self):
        """Its units are nobody's to report: their leases run out, and their rows alone are lost,
        whether their processes are gone or stand still."""
        first, second = living_nodes()
        here = int(self.second.node_id == first)  # units of the node that stays: here, here + 2
        lease = {"suspect_after_s": 1, "fence_after_s": 10, "dead_after_s": 15}
        self.start(num_storage_units=4, control_timeout_s=1, **lease)
        lost = [1 - here, 3 - here]
        client = slabyard.Client(self.found.run_dir, timeout_s=60, control_timeout_s=1)
        self.addCleanup(client.close)
        keys = [f"{row}@a" for row in range(4)]
        client.put({key: row for row, key in enumerate(keys)})
        # Units of a node end with their actors and say so themselves, so these stand still first.
        pids = [unit["pid"] for unit in self.units()]
        for k in lost:
            os.kill(pids[k], signal.SIGSTOP)
            self.addCleanup(kill_if_there, pids[k])
        self.remove_second(gently=False)
        await_that("the loss is noticed", lambda: len(self.events()) == 2)
        self.assertTrue(all("nothing was reported" in text for text in self.events()))
        os.kill(pids[lost[0]], signal.SIGKILL)
        dead = ["dead" if k in lost else "active" for k in range(4)]
        await_that("their leases run out", lambda: self.states() == dead)
        with self.assertRaises(DataPlaneLostKeys) as caught:
            client.get(keys)
        self.assertEqual(caught.exception.global_indexes(), lost)
        stay = [key for row, key in enumerate(keys) if row not in lost]
        self.assertEqual(client.get(stay), [int(key[0]) for key in stay])
        client.clear(range(4))
        with self.assertRaises(DataPlaneLostKeys):
            client.get(stay)
        # What slept through its death ends when it goes on.
        os.kill(pids[lost[1]], signal.SIGCONT)
        await_that("it ends", lambda: not is_alive(pids[lost[1]]))


class Jobs(unittest.TestCase):
    def test_a_killed_job_leaves_nothing(self):
        job = subprocess.Popen(
            [sys.executable, "-c", JOB],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))},
        )
        try:
            run_dir = job.stdout.readline().strip()
            pids = [unit["pid"] for unit in slabyard.Directory(run_dir=run_dir).units()]
            slabs = slabs_of(run_dir)
            self.assertEqual((len(pids), len(slabs)), (2, 2))
        finally:
            job.stdin.close()
            job.wait(60)
            job.stdout.close()
        await_that("its units end", lambda: not any(map(is_alive, pids)))
        await_that("nothing is left", lambda: not any(map(os.path.exists, [run_dir, *slabs])))

    def test_the_other_names(self):
        start_ray()
        self.addCleanup(ray.shutdown)
        conf = tq.init(conf_of("NixlStore", num_storage_units=1))
        self.addCleanup(slabyard.transfer_queue.shutdown, conf)
        self.addCleanup(tq.close)
        tq.kv_batch_put(["k"], "p", TensorDict({"x": torch.ones(1, 2)}, batch_size=1))
        self.assertEqual(tq.kv_batch_get(["k"], "p")["x"].values().tolist(), [1.0, 1.0])


if __name__ == "__main__":
    unittest.main()
