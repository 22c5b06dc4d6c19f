from types import SimpleNamespace

from slabyard.client import Client

class Found:
    run_id: str | None
    run_dir: str | None
    directory: str | None
    keys: str | None
    boot_id: str
    def __init__(
        self,
        run_id: str | None,
        run_dir: str | None,
        directory: str | None = None,
        keys: str | None = None,
    ) -> None: ...

def open_client(settings: SimpleNamespace) -> Client: ...
