"""The key-value client: TransferQueue's keys and lists of values."""

from transfer_queue.storage.clients.base import StorageKVClient

from slabyard.transfer_queue import fields
from slabyard.transfer_queue.cluster import open_client
from slabyard.transfer_queue.config import settings


class SlabyardStoreClient(StorageKVClient):
    """put, get and clear by keys ("<row>@<field>"), for whoever has values one by one. The
    manager does not go through it: it hands over whole columns.

    Shapes and dtypes that callers pass along are not needed: the store knows its own. Nothing is
    returned to be kept beside the keys.
    """

    def __init__(self, config):
        super().__init__(config)
        self._client = open_client(settings(config))

    def put(self, keys, values):
        self._client.put(list(keys), fields.exact(list(values)))

    def get(self, keys, shapes=None, dtypes=None, custom_backend_meta=None):
        return self._client.get(list(keys), arrays="torch")

    def clear(self, keys, custom_backend_meta=None):
        """Idempotent; keys that were never put are no error."""
        self._client.clear(list(keys))

    def close(self):
        self._client.close()
