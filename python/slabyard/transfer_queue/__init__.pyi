from slabyard.transfer_queue.bootstrap import initialize as initialize
from slabyard.transfer_queue.bootstrap import shutdown as shutdown
from slabyard.transfer_queue.client import SlabyardStoreClient as SlabyardStoreClient
from slabyard.transfer_queue.config import KEYS as KEYS
from slabyard.transfer_queue.manager import KeysNotFound as KeysNotFound
from slabyard.transfer_queue.manager import SlabyardStorageManager as SlabyardStorageManager

__all__ = [
    "KEYS",
    "KeysNotFound",
    "SlabyardStorageManager",
    "SlabyardStoreClient",
    "initialize",
    "shutdown",
]
