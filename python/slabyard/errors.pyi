from collections.abc import Iterable
from typing import Any

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

class UnitFull(Exception):
    msg: str
    resource: str
    need: int
    free: int
    largest_hole: int
    def __init__(
        self,
        msg: str = "",
        *,
        resource: str = "",
        need: int = 0,
        free: int = 0,
        largest_hole: int = 0,
    ) -> None: ...

class DataPlaneLostKeys(Exception):
    keys: list[str]
    reason: str
    def __init__(self, keys: Iterable[str], reason: str = "") -> None: ...
    def global_indexes(self) -> list[int]: ...
    def fields(self) -> list[str]: ...

class DataPlaneTransferFailed(Exception):
    keys: list[str]
    reason: str
    in_flight: bool
    def __init__(
        self, keys: Iterable[str], reason: str = "", *, in_flight: bool = False
    ) -> None: ...
    def global_indexes(self) -> list[int]: ...
    def fields(self) -> list[str]: ...

class DataPlaneTimeout(Exception): ...

class DataPlaneBusy(Exception):
    msg: str
    reason: str | None
    def __init__(self, msg: str = "", reason: str | None = None) -> None: ...

class DataPlaneFatal(RuntimeError): ...

class TransferError(Exception):
    msg: str
    in_flight: bool
    def __init__(self, msg: str = "", *, in_flight: bool = False) -> None: ...

class LostBlobs(Exception):
    blob_ids: list[Any]
    reason: str
    def __init__(self, blob_ids: Iterable[Any], reason: str) -> None: ...

class TransferFailed(Exception):
    blob_ids: list[Any]
    reason: str
    in_flight: bool
    def __init__(
        self, blob_ids: Iterable[Any], reason: str, *, in_flight: bool = False
    ) -> None: ...

class StaleRead(Exception): ...
class TransportPolicyError(RuntimeError): ...
