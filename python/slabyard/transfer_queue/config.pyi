from types import SimpleNamespace
from typing import Any

BACKENDS: tuple[str, ...]
KEYS: dict[str, tuple[Any, str]]
FOUND: str
UNITS_MAX: int

def settings(block: Any, where: str = "backend.SlabyardStore") -> SimpleNamespace: ...
def block_of(conf: Any) -> tuple[str, Any]: ...
def check(conf: Any) -> SimpleNamespace: ...
