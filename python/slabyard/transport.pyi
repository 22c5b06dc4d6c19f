from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal

from slabyard import _core

__all__ = ["Directory", "Endpoint", "Remote"]

def check_transport(transport: str, policy: str | None) -> tuple[int, int]: ...

class Remote:
    unit_id: int
    def __init__(self, store: _core.Store, unit_id: int) -> None: ...

class Endpoint:
    policy: str | None
    transport: str
    def __init__(
        self,
        policy: Literal["same-host", "rdma", "allow-tcp"] | None = None,
        *,
        transport: Literal["auto", "shm", "ucx"] = "auto",
    ) -> None: ...
    def register(self, addr: int, nbytes: int) -> None: ...
    def deregister(self, addr: int, nbytes: int) -> None: ...
    def transfer(
        self,
        op: Literal["READ", "WRITE"],
        remote: Remote,
        ranges: Iterable[tuple[int, int, int]],
        deadline: float | None = None,
    ) -> None: ...

class Directory:
    def __init__(
        self,
        address: str | None = None,
        *,
        run_dir: str | PathLike[str] | None = None,
        timeout_s: float | None = None,
        keys: str | PathLike[str] | None = None,
    ) -> None: ...
    @property
    def address(self) -> str: ...
    def units(
        self, min_epoch: int = 0, deadline: float | None = None
    ) -> list[dict[str, Any]]: ...
    def epoch(self, deadline: float | None = None) -> int: ...
    def unit_count(self, deadline: float | None = None) -> int: ...
    def is_dead(self, unit_id: int, incarnation: int, deadline: float | None = None) -> bool: ...
    def exited(self, unit_id: int, incarnation: int, deadline: float | None = None) -> None: ...
