from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from slabyard.errors import LostBlobs as LostBlobs
from slabyard.errors import TransferFailed as TransferFailed
from slabyard.transport import Directory, Endpoint

__all__ = ["LostBlobs", "TransferFailed", "UnitSlabStore"]

BUSY_RETRY_S: float
BUSY_RETRY_MAX_S: float
PENDING_POLL_S: float

_Segments = Iterable[tuple[int, int, int]]
_Blob = tuple[_Segments, int, int, int, str | None]

def remaining(deadline: float | None, cap: float) -> float: ...
def busy_wait(deadline: float | None, backoff: float) -> float: ...

class Blob(NamedTuple):
    segments: list[tuple[int, int, int]]
    nbytes: int
    n_entries: int
    blob_id: str
    memory: tuple[Any, ...]

def encode_index(
    rows: Sequence[int], columns_of: Mapping[str, Any], *, blob_id: str | None = None
) -> Blob: ...

class UnitSlabStore:
    def __init__(
        self,
        ep: Endpoint,
        directory: Directory | str,
        *,
        namespace: str,
        timeout_s: float,
        ssd: bool = False,
        lock: Any = None,
    ) -> None: ...
    def _refresh_units(self) -> None: ...
    def _unit(self, unit_id: int) -> dict[str, Any]: ...
    def _addr(self, unit_id: int) -> str: ...
    def _unit_dead(self, unit_id: int) -> bool: ...
    def _failed(
        self, unit_id: int, blobs: list[Any], e: BaseException
    ) -> LostBlobs | TransferFailed: ...
    def put_segments(
        self,
        segments: _Segments,
        nbytes: int,
        n_entries: int,
        unit_id: int,
        blob_id: str | None = None,
        deadline: float | None = None,
    ) -> str: ...
    def put_many(self, blobs: Iterable[_Blob], deadline: float | None = None) -> None: ...
    def _put_round(self, by_unit: Mapping[int, _Blob], deadline: float | None) -> set[str]: ...
    def _commit(
        self,
        u: dict[str, Any] | int,
        blob_id: str,
        deadline: float | None,
        errs: list[str],
    ) -> bool: ...
    def resolve_keys(
        self, by_unit: Mapping[int, Sequence[str]], deadline: float | None
    ) -> dict[int, dict[str, Any]]: ...
    def read_entries(
        self,
        reads: Mapping[int, Iterable[tuple[int, int, int]]],
        keys_of: Mapping[int, Sequence[str]],
        deadline: float | None,
    ) -> None: ...
    def unpin_all(self, resolved: Mapping[int, dict[str, Any]]) -> None: ...
    def release_rows(
        self, by_unit: Mapping[int, Sequence[int]], deadline: float | None
    ) -> None: ...
    def _call_units(
        self, op: str, args_by_unit: Mapping[int, Any], deadline: float | None
    ) -> tuple[dict[int, Any], list[tuple[int, Exception]]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> UnitSlabStore: ...
    def __exit__(self, *exc: object) -> None: ...
