"""How a client reaches its units: shared memory or ZeroMQ, and over tcp with keys."""

import os
import re
import subprocess
import tempfile
import unittest
from unittest import mock

import numpy as np
from support import PATIENCE_S, ClusterCase

import slabyard
from slabyard.blobstore import UnitSlabStore, encode_index
from slabyard.cluster import command_path
from slabyard.errors import DataPlaneTransferFailed


def bells():
    """What wakes this process when shared memory has a message for it."""
    with os.scandir("/proc/self/fd") as entries:
        links = [os.readlink(entry.path) for entry in entries]
    return sum("slabyard-bell" in link for link in links)


class Channels(ClusterCase):
    def test_each(self):
        for control, has_bells in (("auto", True), ("zmq", False), ("local", True)):
            before = bells()
            with self.subTest(control), self.cluster.client(control=control) as client:
                client.put(["1@a", "2@a"], [control, np.arange(3)])
                self.assertEqual(client.get(["1@a"]), [control])
                self.assertEqual(bells() > before, has_bells)
        with self.assertRaisesRegex(ValueError, "control is"):
            self.cluster.client(control="tcp")


class Keys(unittest.TestCase):
    """A directory and a unit that ask for keys over tcp, as on two hosts."""

    def begin(self, *words):
        process = subprocess.Popen(
            [command_path(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, PATIENCE_S)
        self.addCleanup(process.terminate)
        return process.stdout.readline()

    def test_a_cluster_over_tcp(self):
        top = tempfile.TemporaryDirectory(prefix="slabyard-")
        self.addCleanup(top.cleanup)
        keys, other = (os.path.join(top.name, name) for name in ("keys", "other"))
        for folder in (keys, other):
            subprocess.run([command_path(), "keygen", folder], check=True, capture_output=True)
        words = ["--run-dir", os.path.join(top.name, "run"), "--keys", keys]
        line = self.begin("directory", *words, "--units", "1", "--listen", "tcp://127.0.0.1:*")
        address = re.search(r"tcp://\S+", line)[0]
        words = ["--run-dir", os.path.join(top.name, "elsewhere"), "--keys", keys]
        self.begin("unit", *words, "--slab-bytes", "4MiB", "--directory", address)
        directory = slabyard.Directory(address, keys=keys, timeout_s=20)
        self.assertEqual([unit["state"] for unit in directory.units()], ["active"])
        with slabyard.Client(directory=address, keys=keys, timeout_s=20) as client:
            client.put(["0@a"], ["x"])
            self.assertEqual(client.get(["0@a"]), ["x"])
        with UnitSlabStore(
            slabyard.Endpoint(), directory, namespace=self.id(), timeout_s=20
        ) as store:
            made = encode_index([0], {"x": [np.arange(5)]})
            blob = (made.segments, made.nbytes, made.n_entries, 0, made.blob_id)
            store.put_many([blob])
            resolved = store.resolve_keys({0: ["0@x"]}, None)
            self.assertEqual(list(resolved[0]["entries"]), ["0@x"])
            store.unpin_all(resolved)
        with self.assertRaisesRegex(PermissionError, "asks for keys"):
            UnitSlabStore(slabyard.Endpoint(), address, namespace=self.id(), timeout_s=600)
        with self.assertRaisesRegex(PermissionError, f"{address} asks for keys"):
            slabyard.Client(directory=address, timeout_s=600)
        by_tcp = {"transport": "ucx", "policy": "allow-tcp", "timeout_s": 600}
        with (
            mock.patch.dict(os.environ, UCX_TLS="tcp", UCX_NET_DEVICES="lo"),
            slabyard.Client(os.path.join(top.name, "run"), **by_tcp) as client,
        ):  # the directory by its socket, the unit over tcp
            with self.assertRaisesRegex(PermissionError, "unit 0: .* asks for keys"):
                client.get(["0@a"])
            with self.assertRaisesRegex(DataPlaneTransferFailed, "unit 0: .* asks for keys"):
                client.put(["0@a"], ["x"])
        with self.assertRaises(slabyard.errors.DataPlaneTimeout):
            slabyard.Client(directory=address, keys=other, timeout_s=0.5)
        with self.assertRaises(OSError):
            slabyard.Client(directory=address, keys=os.path.join(top.name, "none"))


if __name__ == "__main__":
    unittest.main()
