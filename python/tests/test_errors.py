"""slabyard.errors: names, bases, signatures, attributes, text, pickle."""

import builtins
import copy
import inspect
import pickle
import unittest

from slabyard import _core, blobstore, errors

SIGNATURES = {
    "UnitFull": "(msg='', *, resource='', need=0, free=0, largest_hole=0)",
    "DataPlaneLostKeys": "(keys, reason='')",
    "DataPlaneTransferFailed": "(keys, reason='', *, in_flight=False)",
    "DataPlaneTimeout": None,
    "DataPlaneBusy": "(msg='', reason=None)",
    "DataPlaneFatal": None,
    "TransferError": "(msg='', *, in_flight=False)",
    "LostBlobs": "(blob_ids, reason)",
    "TransferFailed": "(blob_ids, reason, *, in_flight=False)",
    "StaleRead": None,
    "TransportPolicyError": None,
}
BASES = {"DataPlaneFatal": RuntimeError, "TransportPolicyError": RuntimeError}


def made():
    """One of each, with every argument set."""
    yield errors.UnitFull("full", resource="bytes", need=10, free=4, largest_hole=2)
    yield errors.DataPlaneLostKeys(["1@a", "2@b"], "the unit is dead")
    yield errors.DataPlaneTransferFailed(["1@a"], "no answer", in_flight=True)
    yield errors.DataPlaneTimeout("late")
    yield errors.DataPlaneBusy("busy", "starting")
    yield errors.DataPlaneFatal("closed")
    yield errors.TransferError("cut", in_flight=True)
    yield errors.LostBlobs(["0" * 32], "gone")
    yield errors.TransferFailed(["0" * 32], "again", in_flight=True)
    yield errors.StaleRead("stale")
    yield errors.TransportPolicyError("tcp")


class Contract(unittest.TestCase):
    def test_names(self):
        self.assertEqual(
            set(errors.__all__) - {"LostBlobs"},
            set(SIGNATURES) - {"LostBlobs", "TransferFailed"},
        )
        self.assertIs(blobstore.LostBlobs, errors.LostBlobs)
        self.assertEqual(blobstore.TransferFailed.__module__, "slabyard.blobstore")

    def test_signatures(self):
        for name, signature in SIGNATURES.items():
            if signature is not None:
                with self.subTest(name):
                    self.assertEqual(str(inspect.signature(getattr(errors, name))), signature)

    def test_bases(self):
        for name in SIGNATURES:
            with self.subTest(name):
                found = getattr(errors, name)
                base = BASES.get(name, Exception)
                self.assertTrue(issubclass(found, base))
                foreign = [one for one in found.__mro__ if one.__module__ == "builtins"]
                self.assertEqual(foreign[0], base)

    def test_every_status_has_its_class(self):
        for name, value, python, meaning in _core.STATUSES:
            with self.subTest(name):
                if value == 0:
                    continue
                found = getattr(errors, python, None) or getattr(builtins, python)
                self.assertTrue(issubclass(found, Exception))
                self.assertTrue(meaning)
        statuses = {python for _, _, python, _ in _core.STATUSES}
        self.assertLessEqual(set(errors.__all__) - {"LostBlobs"}, statuses)


class Values(unittest.TestCase):
    def test_attributes(self):
        full, lost, failed, _, busy, _, cut, blobs, again, *_ = made()
        self.assertEqual(
            (full.msg, full.resource, full.need, full.free, full.largest_hole),
            ("full", "bytes", 10, 4, 2),
        )
        self.assertEqual((lost.keys, lost.reason), (["1@a", "2@b"], "the unit is dead"))
        self.assertEqual((failed.keys, failed.in_flight), (["1@a"], True))
        self.assertEqual((busy.msg, busy.reason), ("busy", "starting"))
        self.assertEqual((cut.msg, cut.in_flight), ("cut", True))
        self.assertEqual((blobs.blob_ids, blobs.reason), (["0" * 32], "gone"))
        self.assertEqual(
            (again.blob_ids, again.reason, again.in_flight), (["0" * 32], "again", True)
        )

    def test_text(self):
        texts = [str(e) for e in made()]
        self.assertEqual(texts[1], "2 keys lost (1@a, 2@b): the unit is dead")
        self.assertEqual(texts[2], "1 keys not transferred (1@a): no answer")
        self.assertEqual(texts[4], "busy")
        many = errors.DataPlaneLostKeys([f"{i}@a" for i in range(1000)])
        self.assertEqual(str(many), "1000 keys lost (0@a, 1@a, 2@a, ...)")

    def test_pickle_and_copy(self):
        ways = [lambda e, p=p: pickle.loads(pickle.dumps(e, p)) for p in range(6)]
        for e in made():
            e.note = "an attribute of the caller's"
            for way in (*ways, copy.copy, copy.deepcopy):
                with self.subTest(type(e).__name__):
                    back = way(e)
                    self.assertIs(type(back), type(e))
                    self.assertEqual(back.args, e.args)
                    self.assertEqual(str(back), str(e))
                    self.assertEqual(back.__dict__, e.__dict__)

    def test_pickle_of_a_subclass(self):
        back = pickle.loads(pickle.dumps(Narrower(["1@a"], "why", in_flight=True)))
        self.assertEqual((type(back), back.keys, back.in_flight), (Narrower, ["1@a"], True))

    def test_global_indexes_and_fields(self):
        keys = ["12@b", "7@a@x", "12@c", "no number@b", "@b", "5", "-3@d", "٣@e", "7@a@x", "00@"]
        for kind in (errors.DataPlaneLostKeys, errors.DataPlaneTransferFailed):
            e = kind(keys)
            self.assertEqual(e.global_indexes(), [12, 7, 5, 0])
            self.assertEqual(e.fields(), ["b", "a@x", "c", "d", "e", ""])


class Narrower(errors.DataPlaneTransferFailed):
    pass


if __name__ == "__main__":
    unittest.main()
