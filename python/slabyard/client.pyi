from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

import numpy as np

RUN_DIR_VARIABLE: str

_Arrays = Literal["numpy", "torch", "dlpack"]
_Rows = Any  # an integer array, a torch tensor, or a sequence of ints

def rows_of(rows: Any) -> Any: ...

class Client:
    def __init__(
        self,
        run_dir: str | PathLike[str] | None = None,
        *,
        directory: str | None = None,
        namespace: str | None = None,
        timeout_s: float | None = None,
        control_timeout_s: float | None = None,
        ssd: bool = False,
        allow_pickle: bool = False,
        dumps: Callable[[Any, int], bytes] | None = None,
        keys: str | PathLike[str] | None = None,
        control: Literal["auto", "zmq", "local"] = "auto",
        transport: Literal["auto", "shm", "ucx"] = "auto",
        policy: Literal["same-host", "rdma", "allow-tcp"] | None = None,
    ) -> None: ...
    def put(
        self,
        keys: Sequence[str] | Mapping[str, Any],
        values: Iterable[Any] | None = None,
        *,
        deadline: float | None = None,
    ) -> None: ...
    @overload
    def get(
        self,
        keys: Iterable[str],
        *,
        missing: Literal["raise"] = "raise",
        copy: bool = True,
        arrays: _Arrays = "numpy",
        deadline: float | None = None,
    ) -> list[Any]: ...
    @overload
    def get(
        self,
        keys: Iterable[str],
        *,
        missing: Literal["mask"],
        copy: bool = True,
        arrays: _Arrays = "numpy",
        deadline: float | None = None,
    ) -> tuple[list[Any], np.ndarray]: ...
    def put_columns(
        self, rows: _Rows, columns: Mapping[str, Any], *, deadline: float | None = None
    ) -> None: ...
    @overload
    def get_columns(
        self,
        rows: _Rows,
        fields: Iterable[str],
        *,
        missing: Literal["raise"] = "raise",
        copy: bool = True,
        arrays: _Arrays = "numpy",
        jagged: Collection[str] = (),
        deadline: float | None = None,
    ) -> dict[str, Any]: ...
    @overload
    def get_columns(
        self,
        rows: _Rows,
        fields: Iterable[str],
        *,
        missing: Literal["mask"],
        copy: bool = True,
        arrays: _Arrays = "numpy",
        jagged: Collection[str] = (),
        deadline: float | None = None,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...
    def clear(
        self, rows: Any, fields: Iterable[str] | None = None, *, deadline: float | None = None
    ) -> int: ...
    def reports(self, *, deadline: float | None = None) -> list[dict[str, Any]]: ...
    @property
    def unit_count(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Client: ...
    def __exit__(self, *exc: object) -> None: ...
