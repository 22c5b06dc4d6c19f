"""The block of the configuration: what is wrong or misplaced is named, with what is right."""

import unittest

import tq_support  # noqa: F401  (finds the package's modules)
from omegaconf import OmegaConf

from slabyard.transfer_queue import KEYS, config


class Configuration(unittest.TestCase):
    def conf(self, block=None, name="SlabyardStore", **more):
        backend = {"storage_backend": name, "SimpleStorage": {"num_data_storage_units": 2}}
        if block is not None:
            backend[name] = block
        return OmegaConf.create({"controller": {}, "backend": {**backend, **more}})

    def test_defaults(self):
        for name in ("SlabyardStore", "NixlStore"):
            for block in (None, {}):
                made = config.check(self.conf(block, name))
                self.assertEqual((made.num_storage_units, made.slab_bytes), (2, "1GiB"))
        self.assertTrue(all(text for _, text in KEYS.values()))

    def test_wrong_keys_and_values(self):
        for block, text in (
            ({"slab_byte": 1}, "SlabyardStore.slab_byte: no such key; did you mean slab_bytes?"),
            ({"num_data_storage_units": 2}, "the key is num_storage_units"),
            ({"transfer_timeout_s": 2}, "the key is op_timeout_s"),
            ({"total_storage_size": 2}, "the key is slab_bytes"),
            ({"client_staging_bytes": 2}, "on one host nothing is staged"),
            ({"zzz": 2}, "the keys are num_storage_units, "),
            ({"num_storage_units": 0}, "num_storage_units is a whole number over 0, not 0"),
            ({"num_storage_units": "2"}, "num_storage_units is a whole number over 0, not '2'"),
            ({"num_storage_units": 2.5}, "num_storage_units is a whole number over 0, not 2.5"),
            ({"op_timeout_s": True}, "op_timeout_s is a number over 0, not True"),
            ({"op_timeout_s": float("nan")}, "op_timeout_s is a number over 0, not nan"),
            ({"op_timeout_s": float("inf")}, "op_timeout_s is a number over 0, not inf"),
            ({"unit_cpus": -1}, "unit_cpus is a number, 0 or more, not -1"),
            ({"unit_cpus": "1"}, "unit_cpus is a number, 0 or more, not '1'"),
            ({"unit_options": 5}, "unit_options is a list, not 5"),
            ({"node_ids": 5}, "node_ids is a list, not 5"),
            ({"namespace": 5}, "namespace is text, not 5"),
            ({"namespace": ""}, "namespace is text, not ''"),
            ({"run_dir": 5}, "run_dir is text, not 5"),
            ({"num_storage_units": 1, "storage_units_per_node": 1}, "not both"),
            ({"node_ids": "abc"}, "node_ids is a list"),
            ({"start_units": "no"}, "start_units is true or false"),
            ({"start_units": False}, "name the run_dir"),
            ({"start_units": False, "run_dir": "a", "directory": "b"}, "or its directory"),
            ({"directory": "tcp://127.0.0.1:7400"}, "directory is of a cluster to join"),
            ({"keys": "keys"}, "keys is of a cluster to join"),
            ({"keys": 5}, "keys is text, not 5"),
            ({"ssd": 1}, "ssd is true or false, not 1"),
            ({"ssd_dir": "/x"}, "--ssd-dir"),
            ({"dead_after_s": 45}, "must rise"),
            ({"fence_after_s": 0}, "fence_after_s is a number over 0, not 0"),
            ("2", "backend.SlabyardStore is a block of keys"),
        ):
            with self.subTest(block), self.assertRaises(ValueError) as caught:
                config.check(self.conf(block))
            self.assertIn(text, str(caught.exception))

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
        ):
            with self.assertRaises(ValueError) as caught:
                config.check(conf)
            self.assertIn(text, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
