"""What the tests share: a cluster of real units, and ways to hurt it."""

import contextlib
import os
import signal
import sys
import time
import unittest

import slabyard

PATIENCE_S = 60  # for what must happen; nothing waits that long where it does


def await_that(what, check):
    """Polls, since files and processes of others tell nobody when they change."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"never came true: {what}")


class ClusterCase(unittest.TestCase):
    """A cluster for all tests of a class; each test gets a namespace, a client in it."""

    UNITS = 2
    SLAB = "64MiB"
    WORDS = ()  # more of `slabyard up`
    OPTIONS = {}

    @classmethod
    def new_cluster(cls):
        return slabyard.local(units=cls.UNITS, slab_bytes=cls.SLAB, options=cls.WORDS)

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.new_cluster()
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        self.client = self.cluster.client(namespace=self.id(), timeout_s=20, **self.OPTIONS)
        self.addCleanup(self.client.close)

    def unit_pid(self, unit_id):
        return self.client.reports()[unit_id]["pid"]

    @contextlib.contextmanager
    def stopped(self, unit_id):
        """The unit's process stands still."""
        pid = self.unit_pid(unit_id)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill_unit(self, unit_id):
        """Ends a unit's process, and waits until the directory knows."""
        pid = self.unit_pid(unit_id)
        os.kill(pid, signal.SIGKILL)
        directory = slabyard.Directory(run_dir=self.cluster.run_dir)
        await_that("the directory knows", lambda: directory.units()[unit_id]["state"] == "dead")

    def free_bytes(self):
        return [report["bytes"]["free"] for report in self.client.reports()]


def torch_or_skip():
    """torch, which the package does without."""
    try:
        import torch
    except ImportError:
        raise unittest.SkipTest("no torch here: it is no dependency of the package") from None
    return torch


def calls_of(function, *arguments):
    """How many calls of Python and C functions it makes in this thread."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return count
