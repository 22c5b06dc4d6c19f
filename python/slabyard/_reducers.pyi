from collections.abc import Callable
from typing import Any

def table() -> dict[type, Callable[[Any], Any]]: ...
