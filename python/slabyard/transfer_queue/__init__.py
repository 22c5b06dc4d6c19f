"""slabyard as a storage backend of TransferQueue.

Importing this module registers the backend `SlabyardStore` (client, manager and bootstrap), and
the same under the names `NixlStore` and `NixlStoreClient`, so that a job's configuration for
those goes on working. Processes that join through transfer_queue.init() need no import: the
configuration that they get brings it.

    import transfer_queue as tq
    import slabyard.transfer_queue

    conf = tq.init({"backend": {"storage_backend": "SlabyardStore",
                                "SlabyardStore": {"num_storage_units": 2, "slab_bytes": "1GiB"}}})
    ...
    tq.close()
    slabyard.transfer_queue.shutdown(conf)

`slabyard.transfer_queue.KEYS` lists the keys of the block. A key that is wrong, or stands in the
wrong place, or has a wrong value, is a ValueError before anything starts; it names the right key,
or what is allowed. After an init that failed call tq.close() before the next one: TransferQueue
leaves its controller running.

Objects that msgpack does not give back exactly are pickled, as TransferQueue's own backends do;
by cloudpickle what pickle cannot give to other processes (functions, what __main__ defines):
use it only among processes that trust each other. Checkpoints are not supported yet:
tq.save_checkpoint raises a RuntimeError that says so.
"""

from transfer_queue.storage.bootstrap import StorageBootstrapProvider
from transfer_queue.storage.clients.base import StorageClientFactory
from transfer_queue.storage.managers.base import StorageManagerFactory

from slabyard.transfer_queue.bootstrap import initialize, shutdown
from slabyard.transfer_queue.client import SlabyardStoreClient
from slabyard.transfer_queue.config import BACKENDS, KEYS
from slabyard.transfer_queue.manager import KeysNotFound, SlabyardStorageManager

__all__ = [
    "KEYS",
    "KeysNotFound",
    "SlabyardStorageManager",
    "SlabyardStoreClient",
    "initialize",
    "shutdown",
]

for _name in BACKENDS:
    StorageClientFactory.register(_name)(SlabyardStoreClient)
    StorageClientFactory.register(f"{_name}Client")(SlabyardStoreClient)
    StorageManagerFactory.register(_name)(SlabyardStorageManager)
    StorageBootstrapProvider.register_provider(_name)(initialize)
del _name
