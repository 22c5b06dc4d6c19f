"""What can go wrong, as exceptions. Each keeps its arguments as attributes and survives pickle.

Which one is raised says what to do: DataPlaneTimeout, DataPlaneTransferFailed, DataPlaneBusy and
UnitFull ask for another try, perhaps later or elsewhere; StaleRead for another resolve;
DataPlaneLostKeys for new data; DataPlaneFatal for another process. `slabyard._core.STATUSES` is
the list these are checked against.
"""

__all__ = [
    "DataPlaneBusy",
    "DataPlaneFatal",
    "DataPlaneLostKeys",
    "DataPlaneTimeout",
    "DataPlaneTransferFailed",
    "LostBlobs",
    "StaleRead",
    "TransferError",
    "TransportPolicyError",
    "UnitFull",
]

_SHOWN = 3  # keys named in a message


def _remake(cls, args, state):
    """Undoes pickling: no __init__, so that text and attributes come back as they were."""
    made = cls.__new__(cls)
    BaseException.__init__(made, *args)
    made.__dict__.update(state)
    return made


class _Picklable:
    """Text in args, arguments in attributes; both travel."""

    def __reduce__(self):
        return _remake, (type(self), self.args, dict(self.__dict__))


def _listed(what, names, reason):
    """ "2 keys lost (1@a, 2@a): the unit is dead" """
    shown = ", ".join(str(name) for name in names[:_SHOWN])
    more = ", ..." if len(names) > _SHOWN else ""
    text = f"{len(names)} {what} ({shown}{more})" if names else f"no {what}"
    return f"{text}: {reason}" if reason else text


def _names(given):
    return [given] if isinstance(given, str) else list(given)


class UnitFull(_Picklable, Exception):
    """A unit has no room. resource names what ran out; need, free and largest_hole count it."""

    def __init__(self, msg="", *, resource="", need=0, free=0, largest_hole=0):
        super().__init__(msg)
        self.msg = msg
        self.resource, self.need, self.free = resource, need, free
        self.largest_hole = largest_hole


class _Keyed:
    """What the keys of a failure say of rows and fields."""

    def global_indexes(self):
        """The rows of the keys, each once, as first seen; a head that is no number gives none."""
        heads = (key.partition("@")[0] for key in self.keys)
        return list(dict.fromkeys(int(h) for h in heads if h.isascii() and h.isdigit()))

    def fields(self):
        """The fields of the keys, each once, as first seen; a key without an @ has none."""
        parts = (key.partition("@") for key in self.keys)
        return list(dict.fromkeys(field for _, at, field in parts if at))


class DataPlaneLostKeys(_Keyed, _Picklable, Exception):
    """The values of these keys are gone, or were never put: drop the rows and make them anew."""

    def __init__(self, keys, reason=""):
        self.keys, self.reason = _names(keys), reason
        super().__init__(_listed("keys lost", self.keys, reason))


class DataPlaneTransferFailed(_Keyed, _Picklable, Exception):
    """A get or put of these keys failed; the data is not lost: try again.

    in_flight: a transfer may still land, so the memory it was for must not be used again.
    """

    def __init__(self, keys, reason="", *, in_flight=False):
        self.keys, self.reason, self.in_flight = _names(keys), reason, in_flight
        super().__init__(_listed("keys not transferred", self.keys, reason))


class DataPlaneTimeout(_Picklable, Exception):
    """The deadline is spent; try again."""


class DataPlaneBusy(_Picklable, Exception):
    """A unit is temporarily unable, for a reason such as "starting" or "queue_full"."""

    def __init__(self, msg="", reason=None):
        super().__init__(msg)
        self.msg, self.reason = msg, reason


class DataPlaneFatal(_Picklable, RuntimeError):
    """This process (or this client: it is closed, or a fork's) can move no more data."""


class TransferError(_Picklable, Exception):
    """One transfer failed or timed out; in_flight: it may still land."""

    def __init__(self, msg="", *, in_flight=False):
        super().__init__(msg)
        self.msg, self.in_flight = msg, in_flight


class LostBlobs(_Picklable, Exception):
    """What these ids name (blobs, or keys) is gone."""

    def __init__(self, blob_ids, reason):
        self.blob_ids, self.reason = _names(blob_ids), reason
        super().__init__(_listed("lost", self.blob_ids, reason))


class TransferFailed(_Picklable, Exception):
    """The store could not move what these ids name; the unit still has it: try again."""

    def __init__(self, blob_ids, reason, *, in_flight=False):
        self.blob_ids, self.reason, self.in_flight = _names(blob_ids), reason, in_flight
        super().__init__(_listed("not transferred", self.blob_ids, reason))


TransferFailed.__module__ = "slabyard.blobstore"


class StaleRead(_Picklable, Exception):
    """The read outlived its pin; resolve again."""


class TransportPolicyError(_Picklable, RuntimeError):
    """The transport asked for is refused here, or is not there."""
