from types import SimpleNamespace

from slabyard.client import Client

class Found:
    run_id: str | None
    run_dir: str
    boot_id: str
    def __init__(self, run_id: str | None, run_dir: str) -> None: ...

def open_client(settings: SimpleNamespace) -> Client: ...
