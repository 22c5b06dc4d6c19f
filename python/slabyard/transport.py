"""What a UnitSlabStore moves bytes with, and where it learns of units."""

import os

from slabyard import _core

__all__ = ["Directory", "Endpoint", "Remote"]

_TRANSPORTS = ("auto", "shm", "ucx")  # sy_path, in its order
_POLICIES = (None, "same-host", "rdma", "allow-tcp")  # sy_policy


def check_transport(transport, policy):
    """The two as numbers of the library. ValueError: there is no such transport or policy."""
    if transport not in _TRANSPORTS:
        raise ValueError(f'transport is "auto", "shm" or "ucx", not {transport!r}')
    if policy not in _POLICIES:
        raise ValueError(
            f'policy is "same-host", "rdma", "allow-tcp" or None, not {policy!r}'
        )
    return _TRANSPORTS.index(transport), _POLICIES.index(policy)


class Remote:
    """The slab of one unit as a store reaches it; `_unit` gives it out under "remote"."""

    __slots__ = ("_store", "unit_id")

    def __init__(self, store, unit_id):
        self._store, self.unit_id = store, unit_id

    def __repr__(self):
        return f"<slabyard.Remote of unit {self.unit_id}>"


class Endpoint:
    """Moves bytes between this process and slabs. One may serve several stores, and threads.

    policy, transport: as of slabyard.Client. Where UCX could take what the policy forbids, or none
    is allowed and a unit's slab is on another host, TransportPolicyError says what to set: as soon
    as a store is made with transport="ucx", else when that unit is first used.
    """

    def __init__(self, policy=None, *, transport="auto"):
        self._choice = check_transport(transport, policy)
        self.policy, self.transport = policy, transport
        self._core = _core.Endpoint()

    def register(self, addr, nbytes):
        """Registers memory that transfers to and from other hosts then use directly.

        That is what of it is put or read in pieces of 64 KiB or more, each wholly in one
        registration; all else goes through buffers of the library, which cost a copy. Within a
        host it changes nothing.

        addr: where it begins, as array.ctypes.data or tensor.data_ptr() say. The memory must stay
        until deregister.
        """
        self._core.register(addr, nbytes)

    def deregister(self, addr, nbytes):
        """Undoes a register of the same memory; calls that use it have returned.

        Raises TransferError with in_flight: a transfer that was given up may still read or write
        it. It stays registered, and must be kept; ask again, for it mostly takes milliseconds.
        Until then a transfer that would use what a READ may still write raises the same.
        ValueError: it is not registered.
        """
        self._core.deregister(addr, nbytes)

    def transfer(self, op, remote, ranges, deadline=None):
        """One transfer: "READ" from the slab of remote, or "WRITE" to it.

        ranges: [(local_addr, slab_off, nbytes)]. Whether the bytes are granted or pinned nobody
        looks at, as UnitSlabStore does; nor is a store's lock taken. Returns when it is finished.
        Raises TransferError(msg, in_flight): outside the slab, not connected, or the deadline.
        """
        if op not in ("READ", "WRITE"):
            raise ValueError(f'op is "READ" or "WRITE", not {op!r}')
        remote._store.transfer(op == "WRITE", remote.unit_id, list(ranges), deadline)


class Directory:
    """The directory of a cluster: where its units are. run_dir, or its address ("ipc://...").

    keys: the folder of client.key, where it asks for keys over tcp; a UnitSlabStore made with this
    object shows the same ones.
    Calls raise DataPlaneTimeout where it does not answer in time.
    """

    def __init__(self, address=None, *, run_dir=None, timeout_s=None, keys=None):
        if run_dir is not None:
            run_dir = os.fspath(run_dir)
        self._keys = None if keys is None else os.fspath(keys)
        self._core = _core.Directory(run_dir, address, timeout_s, self._keys)

    @property
    def address(self):
        return self._core.address

    def units(self, min_epoch=0, deadline=None):
        """Slots that changed at min_epoch or later, a list of dicts: unit_id, incarnation (0:
        nobody ever registered), state, epoch, slab_bytes, pid and addresses."""
        return self._core.units(min_epoch, deadline)[2]

    def epoch(self, deadline=None):
        """It grows with every change."""
        return self._core.units(2**64 - 1, deadline)[0]

    def unit_count(self, deadline=None):
        """N, how many slots there are."""
        return self._core.units(2**64 - 1, deadline)[1]

    def is_dead(self, unit_id, incarnation, deadline=None):
        """Whether that incarnation of the unit is dead, for ever."""
        return self._core.is_dead(unit_id, incarnation, deadline)

    def exited(self, unit_id, incarnation, deadline=None):
        """Says that this incarnation's process has ended: for ever, everyone is told that what it
        held is gone. Only for who saw the process end."""
        self._core.exited(unit_id, incarnation, deadline)

    def __repr__(self):
        return f"<slabyard.Directory {self.address}>"
