"""The block of the configuration: what is wrong or misplaced is named, with what is right."""

import unittest

import tq_support  # noqa: F401  (finds the package's modules)
from omegaconf import OmegaConf

from slabyard.transfer_queue import KEYS, bootstrap, config, initialize


class Configuration(unittest.TestCase):
    def conf(self, block=None, name="SlabyardStore", **more):
        backend = {"storage_backend": name, "SimpleStorage": {"num_data_storage_units": 2}}
        if block is not None:
            backend[name] = block
        return OmegaConf.create({"controller": {}, "backend": {**backend, **more}})

    def top(self, **more):
        return OmegaConf.merge(self.conf({}), more)

    def test_defaults(self):
        for name in ("SlabyardStore", "NixlStore"):
            for block in (None, {}):
                made = config.check(self.conf(block, name))
                self.assertEqual((made.num_storage_units, made.slab_bytes), (2, "1GiB"))
        self.assertTrue(all(text for _, text in KEYS.values()))

    def refused(self, conf, *parts):
        """By the bootstrap, before anything starts: Ray does not run here."""
        with self.assertRaises(ValueError) as caught:
            initialize(conf)
        text = str(caught.exception)
        for part in parts:
            self.assertIn(part, text)
        self.assertNotIn("\n", text)
        self.assertLess(len(text), 500)

    def test_wrong_keys(self):
        for block, text in (
            ({"slab_byte": 1}, "SlabyardStore.slab_byte: no such key; did you mean slab_bytes?"),
            ({"num_data_storage_units": 2}, "the key is num_storage_units"),
            ({"transfer_timeout_s": 2}, "the key is op_timeout_s"),
            ({"total_storage_size": 2}, "the key is slab_bytes"),
            ({"client_staging_bytes": 2}, "on one host nothing is staged"),
            ({"zzz": 2}, "the keys are num_storage_units, "),
            ({"cluster": 2}, "SlabyardStore.cluster: no such key"),
            ({"ssd_dir": "/x"}, "--ssd-dir"),
            ({"num_storage_units": 1, "storage_units_per_node": 1}, "not both"),
            ({"start_units": False}, "name the run_dir"),
            ({"start_units": False, "run_dir": "a", "directory": "ipc://b"}, "or its directory"),
            ({"directory": "tcp://127.0.0.1:7400"}, "directory is of a cluster to join"),
            ({"keys": "keys"}, "keys is of a cluster to join"),
            ("2", "backend.SlabyardStore is a block of keys"),
        ):
            with self.subTest(block):
                self.refused(self.conf(block), text)

    def test_wrong_values(self):
        whole, seconds = "a whole number of 1 to 1024", "a number of seconds, 0.001 to 1e8"
        text, flag = "text of 1 to 1024 bytes without NUL", "true or false"
        words, cpus = "a list of words", "a number of 0 to 1, or a whole one up to 65536"
        counts = ("num_storage_units", "storage_units_per_node", "client_threads")
        times = [name for name in KEYS if name.endswith("_s")]
        texts = ("required_node_resource", "run_dir", "keys", "namespace")
        cases = [(name, value, whole) for name in counts for value in (0, "2", 2.5, True, 5000)]
        cases += [
            (name, value, seconds)
            for name in times
            for value in (0, -1, True, "5", float("nan"), float("inf"), 1e300, 1e-9, [5])
        ]
        cases += [
            (name, value, text)
            for name in texts
            for value in (5, "", "a\0b", "\ud800", "x" * 1025, ["x"], {})
        ]
        cases += [(name, value, flag) for name in ("start_units", "ssd") for value in (1, "no")]
        cases += [("unit_cpus", value, cpus) for value in (-1, "1", 1.5, float("nan"), True)]
        cases += [("unit_options", value, words) for value in (5, "--zmq-only", [None], [{}])]
        cases += [("node_ids", value, "node ids") for value in (5, "abc", [5], [""], ["a", "a"])]
        sizes = (1.5, True, "", ["1GiB"], -5, "5 zB", "many", "-1GiB")
        cases += [("slab_bytes", value, "such as 64MiB") for value in sizes]
        cases += [("slab_bytes", value, "") for value in (0, 5, 1 << 62, "0")]
        places = (5, "here", "tcp://x", "", "a\nb")
        cases += [("directory", value, "tcp://10.0.0.5") for value in places]
        cases += [("transport", value, "auto, shm or ucx") for value in (5, "tcp", "", ["shm"])]
        cases += [("policy", value, "rdma or allow-tcp") for value in (5, "tcp", "", ["rdma"])]
        cases += [
            ("unit_options", ["--read-pn", "60s"], "did you mean --read-pin?"),
            ("unit_options", ["--read-pin"], "--read-pin needs a value"),
            ("unit_options", ["--read-pin", "soon"], "soon"),
            ("unit_options", ["--policy", "all"], "same-host, rdma or allow-tcp"),
            ("unit_options", ["--ssd-dir", "/tmp"], "needs both"),
            ("unit_options", ["--heartbeat", "9s"], "is not over 3 times"),
            ("unit_options", ["--run-dir", "x"], "run_dir"),
            ("unit_options", ["--slab-bytes=1"], "slab_bytes"),
            ("unit_options", ["--help"], "the unit gets that word"),
            ("unit_options", ["x"], "too many"),
        ]
        for name, value, allowed in cases:
            with self.subTest(name, value=value):
                conf = self.conf({name: value})
                shown = str(value[0] if isinstance(value, list) else value)
                shown = shown if shown.isprintable() and len(shown) < 30 else ""
                self.refused(conf, f"backend.SlabyardStore.{name} is ", shown, allowed)
        self.refused(self.conf({"dead_after_s": 45}), "dead_after_s", "[5, 45, 45]", "rise")
        self.refused(self.conf({"fence_after_s": 5}), "fence_after_s", "[5, 5, 60]", "rise")

    def test_units_of_all_nodes(self):
        chosen = config.settings({"storage_units_per_node": 600})
        self.assertEqual(len(bootstrap._slots(chosen, ["a"])), 600)
        with self.assertRaisesRegex(ValueError, "_per_node is 600, .* 1200 units: 1024 are"):
            bootstrap._slots(chosen, ["a", "b"])

    def test_right_values(self):
        for block in (
            {"num_storage_units": 1024, "client_threads": 1024},
            {"slab_bytes": 1 << 26, "unit_options": ["--max-entries", 1000, "--zmq-only"]},
            {"slab_bytes": "1.5GiB", "unit_cpus": 0.5, "namespace": "ü" * 512},
            {"unit_options": ["--ssd-dir", "/tmp", "--ssd-bytes", "1GiB"], "ssd": True},
            {"start_units": False, "directory": "tcp://host:7400", "keys": "/keys"},
            {"start_units": False, "directory": "tcp://[::1]:7400"},
            {"start_units": False, "directory": "ipc:///tmp/x"},
        ):
            with self.subTest(block):
                config.check(self.conf(block))

    def test_misplaced_keys(self):
        top = self.conf({})
        top.slab_bytes = "1GiB"
        block = self.conf({})
        block.SlabyardStore = {"slab_bytes": "1GiB"}
        for conf, text in (
            (self.conf({}, slab_bytes=1), "write backend.SlabyardStore.slab_bytes"),
            (top, "slab_bytes is misplaced: write backend.SlabyardStore.slab_bytes"),
            (block, "SlabyardStore is misplaced: write backend.SlabyardStore"),
            (self.conf(None, Slabyardstore={}), "Slabyardstore: write backend.SlabyardStore"),
            (self.conf({}, NixlStore={}), "backend.NixlStore is not used"),
            (self.conf(None, SlabyardStor={}), "did you mean SlabyardStore?"),
            (self.conf(None, slabyard={}), "did you mean SlabyardStore?"),
            (self.conf({}, storage_backnd="x"), "did you mean storage_backend?"),
            (self.conf({}, zzz={}), "backend.zzz: no such key; there are "),
            (self.conf({}, slab_byte=1), "backend.slab_byte: no such key; did you mean"),
            (self.conf({}, "slabyardstore"), "write SlabyardStore"),
            (self.top(slab_byte=1), "did you mean backend.SlabyardStore.slab_bytes?"),
            (self.top(SlabyardStor={}), "did you mean backend.SlabyardStore?"),
            (self.top(controler={}), "did you mean controller?"),
            (self.top(controller={"num_storage_units": 1}), "write backend.SlabyardStore.num_st"),
            (self.top(controller={"slab_byte": 1}), "controller.slab_byte: no such key; did"),
            (self.top(controller={"poling_mode": True}), "did you mean polling_mode?"),
            (self.conf({}, Simplestorage={}), "did you mean SimpleStorage?"),
        ):
            with self.subTest(text):
                self.refused(conf, text)
        config.check(self.top(trainer={"slab_bytes": 1}, epochs=3))  # a job's own


if __name__ == "__main__":
    unittest.main()
