"""Threads, signals, forks, closing, memory: what a long-lived process meets."""

import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import numpy as np
from support import PATIENCE_S, ClusterCase, await_that

import slabyard
from slabyard.blobstore import UnitSlabStore
from slabyard.errors import DataPlaneFatal, DataPlaneTimeout

# scripts/check: a hundred thousand; scripts/check-long: a million.
CALLS = 100 * int(os.environ.get("SLABYARD_SEEDS") or 1000)


def resident_kib(pid="self"):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * (resource.getpagesize() // 1024)


class Threads(ClusterCase):
    def test_the_gil_is_free_while_a_call_waits(self):
        self.client.get(["0@a"], missing="mask")
        with self.stopped(0):
            caught = []

            def wait():
                try:
                    self.client.get(["0@a"], deadline=time.monotonic() + 2)
                except DataPlaneTimeout as e:
                    caught.append(e)

            thread = threading.Thread(target=wait)
            thread.start()
            ticks = 0
            while thread.is_alive():
                ticks += 1
                time.sleep(0.001)
            thread.join()
        self.assertEqual(len(caught), 1)
        self.assertGreater(ticks, 10)  # one, if the call held the lock

    def test_many_threads_one_client(self):
        faults = []

        def work(k):
            try:
                rng = np.random.default_rng(k)
                rows = np.arange(20) * 8 + k
                for turn in range(30):
                    values = rng.random((20, 50))
                    self.client.put_columns(rows, {"x": values, "t": [str(turn)] * 20})
                    got = self.client.get_columns(rows, ["x", "t"], copy=bool(turn % 2))
                    for row in range(20):
                        if not np.array_equal(got["x"][row], values[row]) or got["t"][
                            row
                        ] != str(turn):
                            faults.append((k, turn))
                    if turn % 5 == 4:
                        self.client.clear(rows)
            except Exception as e:
                faults.append(e)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_close_waits_for_running_calls(self):
        client = self.cluster.client(namespace=self.id(), timeout_s=10)
        client.get(["0@a"], missing="mask")
        ended = []
        end = time.monotonic() + 0.5

        def wait():
            try:
                client.get(["0@a"], deadline=end)
            except DataPlaneTimeout:
                ended.append("timeout")

        with self.stopped(0):
            thread = threading.Thread(target=wait)
            thread.start()
            await_that("the call runs", lambda: not thread.is_alive() or _waits(thread))
            client.close()
            self.assertGreaterEqual(time.monotonic(), end)  # the call cannot end before
            # Closing tells the stopped unit its last words: close waits for that, not the call.
            self.assertEqual(ended, ["timeout"])
            thread.join()
        with self.assertRaises(DataPlaneFatal):
            client.get(["0@a"])


def _waits(thread):
    """The thread sleeps in the kernel: it is inside its call."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "S"
    except FileNotFoundError:
        return True


class Signals(ClusterCase):
    def setUp(self):
        super().setUp()
        # Whoever runs the tests in the background has Ctrl-C ignored for them.
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, old)

    def interrupt(self, call):
        """Ctrl-C while the call waits: it ends early, as KeyboardInterrupt."""
        main = threading.main_thread()

        def press():
            await_that("the call waits", lambda: _waits(main))
            time.sleep(0.05)  # deeper into it; nothing is asserted about time
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        started = time.monotonic()
        try:
            with self.assertRaises(KeyboardInterrupt):
                thread.start()  # on a busy host it may come before the call
                call()
        finally:
            thread.join()
        self.assertLess(time.monotonic() - started, 15)  # the timeout is 20

    def test_ctrl_c_ends_a_wait(self):
        self.client.put(["0@a"], ["before"])
        store = UnitSlabStore(
            slabyard.Endpoint(),
            slabyard.Directory(run_dir=self.cluster.run_dir),
            namespace=self.id(),
            timeout_s=20,
        )
        with self.stopped(0):
            self.interrupt(lambda: self.client.get(["0@a"]))
            self.interrupt(lambda: self.client.put(["0@b"], ["x"]))
            self.interrupt(lambda: self.client.put(["0@c"], [bytes(1 << 20)]))
            self.interrupt(lambda: self.client.get_columns([0], ["a"]))
            self.interrupt(lambda: self.client.clear([2]))
            self.interrupt(lambda: store.resolve_keys({0: ["0@a"]}, None))
        # The client goes on.
        self.assertEqual(self.client.get(["0@a"]), ["before"])
        self.client.put(["0@a"], ["after"])
        self.assertEqual(self.client.get(["0@a"]), ["after"])
        store.close()

    def test_ctrl_c_ends_opening(self):
        self.interrupt(
            lambda: slabyard.Client(directory="ipc:///tmp/slabyard-nobody", timeout_s=20)
        )

    def test_a_handler_that_raises_nothing_does_not_disturb(self):
        came = []
        old = signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
        self.addCleanup(signal.signal, signal.SIGUSR1, old)
        thread = threading.Thread(
            target=lambda: [
                (time.sleep(0.01), os.kill(os.getpid(), signal.SIGUSR1)) for _ in range(20)
            ]
        )
        thread.start()
        for turn in range(100):
            self.client.put(["0@a"], [turn])
            self.assertEqual(self.client.get(["0@a"]), [turn])
        thread.join()
        await_that("the handler ran", lambda: came)


class Forks(ClusterCase):
    def in_child(self, function):
        """Runs it in a forked child; its faults are this test's."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = b""
            try:
                function()
            except BaseException as e:
                said = repr(e).encode() or b"failed"
            os.write(write, said)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            said = file.read()
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(said, b"")

    def test_a_child_is_refused_and_may_open_its_own(self):
        self.client.put(["0@a"], ["parent"])
        views = self.client.get_columns([0], ["a"], copy=False)
        store = UnitSlabStore(
            slabyard.Endpoint(),
            slabyard.Directory(run_dir=self.cluster.run_dir),
            namespace=self.id(),
            timeout_s=20,
        )
        resolved = store.resolve_keys({0: ["0@a"]}, None)
        store._guard.acquire()  # as another thread may have it when the process forks

        def child():
            signal.alarm(PATIENCE_S)
            for call in (
                lambda: self.client.get(["0@a"]),
                lambda: self.client.put(["0@a"], [1]),
                lambda: store.resolve_keys({0: ["0@a"]}, None),
                lambda: store._refresh_units(),
            ):
                try:
                    call()
                except DataPlaneFatal:
                    continue
                raise AssertionError("a child used its parent's client")
            store.unpin_all(resolved)
            with self.cluster.client(namespace=self.id()) as own:
                assert own.get(["0@a"]) == ["parent"]
                own.put(["0@b"], ["child"])
            nonlocal views
            del views
            self.client.close()
            store.close()
            self.cluster.close()  # the parent's: nothing happens
            gc.collect()

        self.in_child(child)
        store._guard.release()
        self.assertEqual(self.client.get(["0@a", "0@b"]), ["parent", "child"])
        self.assertEqual(list(views["a"]), ["parent"])
        store.unpin_all(resolved)
        store.close()

    def test_forks_while_threads_work(self):
        """Whatever lock a thread held when the process forked, its child finds its way out."""
        end = threading.Event()
        faults = []

        def work(k):
            try:
                rows = np.arange(16) * 4 + k
                while not end.is_set():
                    self.client.put_columns(rows, {"w": np.full((16, 300), k)})
                    views = self.client.get_columns(rows, ["w"], copy=False)["w"]
                    if int(views[3][0]) != k:
                        faults.append(k)
                    with self.cluster.client(namespace="brief") as brief:
                        brief.get([f"{k}@none"], missing="mask")
            except Exception as e:
                faults.append(e)

        self.client.put_columns([1000], {"w": np.zeros((1, 5))})
        held = self.client.get_columns([1000], ["w"], copy=False)

        def child():
            signal.alarm(PATIENCE_S)  # one that hangs ends by it, which is seen
            try:
                self.client.get(["0@a"])
            except DataPlaneFatal:
                pass
            nonlocal held
            del held
            self.client.close()
            gc.collect()
            with self.cluster.client(namespace=self.id()) as own:
                assert own.get(["1000@w"])[0].shape == (5,)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(40):
                self.in_child(child)
        finally:
            end.set()
            for thread in threads:
                thread.join()
        self.assertEqual(faults, [])
        self.assertEqual(held["w"][0].tolist(), [0.0] * 5)

    def test_multiprocessing(self):
        run_dir, namespace = self.cluster.run_dir, self.id()
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            process = context.Process(
                target=_put_in_a_process, args=(run_dir, namespace, method)
            )
            process.start()
            process.join(PATIENCE_S)
            self.assertEqual(process.exitcode, 0)
            self.assertEqual(self.client.get([f"0@{method}"])[0].tolist(), [1, 2, 3])


def _put_in_a_process(run_dir, namespace, method):
    with slabyard.Client(run_dir, namespace=namespace) as client:
        client.put([f"0@{method}"], [np.array([1, 2, 3])])


class Ends(ClusterCase):
    def test_a_view_outlives_client_and_cluster(self):
        with slabyard.local(units=2, slab_bytes="64MiB") as cluster:
            client = cluster.client()
            client.put_columns([1, 2], {"x": np.arange(2000).reshape(2, 1000)})
            views = client.get_columns([1, 2], ["x"], copy=False)["x"]
            one = views[1]
            client.close()
            np.testing.assert_array_equal(one, np.arange(1000, 2000))
            del client
            gc.collect()
            np.testing.assert_array_equal(views[0], np.arange(1000))
        np.testing.assert_array_equal(one, np.arange(1000, 2000))
        del views
        np.testing.assert_array_equal(one, np.arange(1000, 2000))

    def test_an_interpreter_that_ends_with_everything_open(self):
        source = f"""
            import threading, numpy as np, slabyard
            client = slabyard.Client({self.cluster.run_dir!r})
            client.put_columns([1], {{"x": np.arange(3)[None]}})
            views = client.get_columns([1], ["x"], copy=False)
            one = views["x"][0]
            result = client.get_columns([1], ["x"])
            store = slabyard.blobstore.UnitSlabStore(
                slabyard.Endpoint(), slabyard.Directory(run_dir={self.cluster.run_dir!r}),
                namespace="x", timeout_s=5)
            pins = store.resolve_keys({{1: ["1@x"]}}, None)
            print("end")
            """
        done = subprocess.run(
            [sys.executable, "-c", "import slabyard.blobstore\n" + textwrap.dedent(source)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

    def test_no_object_is_left(self):
        """References, counted: everything that a call made is gone after it."""
        rows = np.arange(10)

        def turn():
            self.client.put_columns(
                rows, {"x": np.zeros((10, 5)), "l": [[1]] * 10, "t": ["a"] * 10}
            )
            self.client.get_columns(rows, ["x", "l", "t"])
            self.client.get_columns(rows, ["x", "t"], copy=False)
            self.client.get_columns(rows, ["x", "q"], missing="mask")
            self.client.get_columns(rows, ["x"], arrays="dlpack")["x"].__dlpack__()
            self.client.put(["3@k"], [{"a": [1, 2.5, None]}])
            self.client.get(["3@k", "4@k"], missing="mask")
            for bad in (
                lambda: self.client.get(["5@zz"]),
                lambda: self.client.put(["x"], [1]),
                lambda: self.client.put(["1@a"], [object()]),
                lambda: self.client.put_columns([1], {"a": (np.zeros(1), [0, 5])}),
            ):
                with self.assertRaises(Exception):
                    bad()
            self.client.clear(rows)

        turn()
        gc.collect()
        before = sys.gettotalrefcount() if hasattr(sys, "gettotalrefcount") else None
        counts = [sys.getrefcount(one) for one in (None, "x", rows, True)]
        blocks = sys.getallocatedblocks()
        for _ in range(50):
            turn()
        gc.collect()
        for one, count in zip((None, "x", rows, True), counts):
            self.assertLess(abs(sys.getrefcount(one) - count), 100)
        self.assertLess(sys.getallocatedblocks() - blocks, 200)
        if before is not None:
            self.assertLess(sys.gettotalrefcount() - before, 100)

    def test_nothing_grows(self):
        """Puts and gets in their number: memory, descriptors, threads, objects, and what the
        units hold, are what they were."""
        keys, rows = ["0@a", "1@a"], [0, 1]
        column = {"x": np.arange(4.0).reshape(2, 2), "t": ["ab", "cd"]}

        def loop(count):
            for _ in range(count // 5):
                self.client.put(keys, ["text", {"n": [1]}])
                self.client.get(keys)
                self.client.put_columns(rows, column)
                self.client.get_columns(rows, ["x", "t"])
                self.client.get_columns(rows, ["x"], copy=False)

        def held():
            gc.collect()
            reports = self.client.reports()
            return {
                "descriptors": len(os.listdir("/proc/self/fd")),
                "threads": len(os.listdir("/proc/self/task")),
                "objects": len(gc.get_objects()),
                "entries": [one["counts"]["entries"] for one in reports],
                "sessions": [one["counts"]["sessions"] for one in reports],
            }

        def unit_kib():
            return sum(resident_kib(one["pid"]) for one in self.client.reports())

        loop(CALLS // 5)
        self.client.clear(rows)
        before, free, own, units = held(), self.free_bytes(), resident_kib(), unit_kib()
        blocks = sys.getallocatedblocks()
        loop(CALLS)
        self.client.clear(rows)
        await_that("all pins are back", lambda: self.free_bytes() == free)
        after = held()
        self.assertLess(after["objects"] - before["objects"], 50)
        # The library's own come and go by a few, as it connects anew.
        self.assertLess(after["descriptors"] - before["descriptors"], 8)
        for what in ("threads", "entries", "sessions"):
            self.assertLessEqual(after[what], before[what], what)
        self.assertLess(sys.getallocatedblocks() - blocks, 500)
        self.assertLess(resident_kib() - own, 2048, f"after {CALLS} calls")
        self.assertLess(unit_kib() - units, 4096, f"units, after {CALLS} calls")

    def test_clients_that_come_and_go(self):
        def turn():
            with self.cluster.client() as client:
                client.put(["0@a", "1@a"], [1, 2])
                client.get_columns([0], ["a"], copy=False)
            UnitSlabStore(
                slabyard.Endpoint(),
                slabyard.Directory(run_dir=self.cluster.run_dir),
                namespace="n",
                timeout_s=5,
            ).close()

        turn()
        files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
        before = resident_kib()
        for _ in range(20):
            turn()
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertEqual(threading.active_count(), threads)
        self.assertLess(resident_kib() - before, 16384)


if __name__ == "__main__":
    unittest.main()
