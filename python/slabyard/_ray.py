"""The processes of a cluster under Ray: an actor for the directory and one for each unit.

An actor holds the writing end of its process's stdin, and the process ends when that closes: so
it does with its actor, however that went, and with the job, whose actors Ray ends.

Imports neither torch nor TransferQueue: an actor that starts in a moment is all a unit needs.
"""

import contextlib
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from slabyard.cluster import command_path
from slabyard.errors import DataPlaneTimeout
from slabyard.transport import Directory

# Ray kills the children of an actor that ends; this one is nobody's child soon, and so ends by
# its stdin, cleanly. It says its number first.
_APART = 'exec 3<&0; sh -c \'echo "$$"; exec "$@"\' sh "$@" <&3 3<&- &'
_END_S = 20  # a unit's clean end takes less
_POLL_S = 0.05


def boot_id():
    """Which start of which host this is."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid):
    """When the process began, in the kernel's ticks: with its pid it names the process. None:
    there is no such process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


class Process:
    """A slabyard process that ends when this object's process does, or by stop()."""

    def __init__(self, *words):
        self._said = tempfile.TemporaryFile()
        reading, self._writing = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _APART, "sh", command_path(), *words, "--end-with-stdin"],
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,
            )
        finally:
            os.close(reading)
        self.out = self._shell.stdout
        self.pid = int(self.out.readline())
        self._shell.wait()
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._pidfd = None

    def has_ended(self, timeout_s=0):
        """Waits for its end at most so long."""
        if self._pidfd is None:
            return True
        return bool(select.select([self._pidfd], [], [], timeout_s)[0])

    def last_words(self):
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def stop(self):
        """Ends it, by force if it does not end."""
        with contextlib.suppress(OSError):
            os.close(self._writing)
        if not self.has_ended(_END_S):
            end_by_force(self._pidfd)


def end_by_force(pidfd):
    """Kills the process behind it and waits for its end, which also a stopped one meets."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    if not select.select([pidfd], [], [], _END_S)[0]:
        raise RuntimeError("a killed unit did not end")


def report_exit(address, unit_id, incarnation, timeout_s):
    """Tells the directory that the unit's process has ended. DataPlaneTimeout: it is gone."""
    Directory(address, timeout_s=timeout_s).exited(unit_id, incarnation)


class UnitActor:
    """One unit."""

    def __init__(self, unit_id, words, timeout_s):
        self._unit_id, self._words, self._timeout_s = unit_id, words, timeout_s
        self._process = None

    def place(self):
        """Answers once Ray has placed the actor: which host this is."""
        return boot_id()

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def start(self, address):
        """Starts the unit, waits until it is registered, and says what names it."""
        self._address = address
        self._process = Process("unit", *self._words, "--directory", address)
        directory = Directory(address, timeout_s=self._timeout_s)
        end = time.monotonic() + self._timeout_s
        while time.monotonic() < end:
            entry = directory.units()[self._unit_id]
            if entry["pid"] == self._process.pid:
                self._incarnation = entry["incarnation"]
                began = start_time(self._process.pid)
                return self._unit_id, self._incarnation, self._process.pid, began
            if self._process.has_ended(_POLL_S):
                raise RuntimeError(self._process.last_words())
        self._process.stop()
        raise RuntimeError(f"the unit was not ready within {self._timeout_s} s")

    def watch(self):
        """Returns when the unit has ended by itself and its end was reported, saying what it
        said last."""
        while not self._process.has_ended(None):
            pass
        report_exit(self._address, self._unit_id, self._incarnation, self._timeout_s)
        return self._process.last_words()

    def stop(self):
        if self._process is not None:
            self._process.stop()


@ray.remote(num_cpus=0, max_retries=0)
def report_orphan(address, identity, timeout_s):
    """Runs on the node of a unit whose actor is gone: sees that the unit is, too, and says so."""
    unit_id, incarnation, pid, began = identity
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            ours = start_time(pid) == began
            if ours and not select.select([pidfd], [], [], _END_S)[0]:
                end_by_force(pidfd)
        finally:
            os.close(pidfd)
    report_exit(address, unit_id, incarnation, timeout_s)


class DirectoryActor:
    """The directory, and the watch over the units' actors."""

    def __init__(self, unit_count, run_dir, timeout_s, lease_s):
        """lease_s: after how many seconds a silent unit is (suspect, fenced, dead)."""
        self._unit_count, self._run_dir, self._timeout_s = unit_count, run_dir, timeout_s
        self._lease_s = lease_s
        self._top = self._process = None
        self._events = []

    def start(self):
        """Starts the directory; returns (address, run_dir)."""
        if self._run_dir is None:
            self._top = tempfile.mkdtemp(prefix="slabyard-")
            self._run_dir = os.path.join(self._top, "run")
        words = ["--run-dir", self._run_dir, "--units", str(self._unit_count), "--leases"]
        for name, seconds in zip(("suspect", "fence", "dead"), self._lease_s):
            words += [f"--{name}-after", f"{round(seconds * 1000)}ms"]
        self._process = Process("directory", *words)
        if not self._process.out.readline():
            self._clean()
            raise RuntimeError(self._process.last_words())
        return Directory(run_dir=self._run_dir).address, self._run_dir

    def guard(self, address, actors, identities, node_ids):
        """From now on an actor that is gone is looked after."""
        for one in zip(actors, identities, node_ids):
            threading.Thread(target=self._guard_one, args=(address, *one), daemon=True).start()

    def _guard_one(self, address, actor, identity, node_id):
        unit_id = identity[0]
        try:
            words = ray.get(actor.watch.remote())
            self._events.append(f"unit {unit_id} ended: {words}")
            return
        except ray.exceptions.RayError as e:
            why = type(e).__name__
        try:
            on_its_node = NodeAffinitySchedulingStrategy(node_id, soft=False)
            look = report_orphan.options(scheduling_strategy=on_its_node)
            ray.get(look.remote(address, identity, self._timeout_s))
            self._events.append(f"unit {unit_id} ended with its actor ({why})")
        except (ray.exceptions.RayError, DataPlaneTimeout) as e:
            # Whether it lives nobody here can know; its lease decides.
            self._events.append(
                f"unit {unit_id}: its actor and node are out of reach ({type(e).__name__}), "
                "so nothing was reported; it is dead if its lease runs out"
            )

    def events(self):
        """What became of units so far, a line each."""
        return list(self._events)

    def stop(self):
        if self._process is not None:
            self._process.stop()
        self._clean()

    def _clean(self):
        if self._top is not None:
            shutil.rmtree(self._top, ignore_errors=True)
