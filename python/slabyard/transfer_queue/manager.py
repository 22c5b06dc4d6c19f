"""The storage manager: TransferQueue's batches, whole columns at a time."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from tensordict import TensorDict
from transfer_queue.storage.managers.base import StorageManager
from transfer_queue.storage.simple_storage import StorageKeyNotFoundError

from slabyard.errors import DataPlaneLostKeys
from slabyard.transfer_queue import fields
from slabyard.transfer_queue.cluster import open_client
from slabyard.transfer_queue.config import settings


class KeysNotFound(DataPlaneLostKeys, StorageKeyNotFoundError):
    """The store has not these keys: a DataPlaneLostKeys that is also TransferQueue's own error
    for it."""

    __str__ = Exception.__str__  # a KeyError quotes its text


class SlabyardStorageManager(StorageManager):
    """Puts, gets and clears on a slabyard cluster.

    Each operation runs in one of client_threads threads, where C works without the interpreter's
    lock, so the event loop goes on whatever a unit does. It ends by op_timeout_s, counted from
    the call. An operation whose task is cancelled ends in its thread by then, too.
    Raises KeysNotFound, UnitFull, DataPlaneTimeout, DataPlaneTransferFailed, DataPlaneFatal.
    """

    def __init__(self, controller_info, config, zmq_context=None):
        self._settings = settings(config)
        self._client = open_client(self._settings)
        self._threads = ThreadPoolExecutor(
            self._settings.client_threads, thread_name_prefix="slabyard"
        )
        super().__init__(controller_info, config, zmq_context=zmq_context)

    async def _run(self, work, *arguments):
        deadline = time.monotonic() + self._settings.op_timeout_s
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work, *arguments, deadline)

    async def put_data(self, data, metadata, data_parser=None):
        """Stores the fields of data for the rows of metadata, then tells the controller."""
        if data_parser is not None:
            raise NotImplementedError(
                "SlabyardStore runs no data_parser: parse before the put, or use SimpleStorage"
            )
        if data.batch_size[0] != metadata.size:
            raise ValueError(f"{data.batch_size[0]} rows of data for {metadata.size} of metadata")
        if metadata.size == 0:
            return
        schema = await self._run(self._put, data, metadata.global_indexes)
        await self.notify_data_update(
            metadata.partition_ids[0], metadata.global_indexes, schema
        )

    def _put(self, data, rows, deadline):
        columns, schema = fields.to_columns(data, rows)
        self._client.put_columns(rows, columns, deadline=deadline)
        return schema

    async def get_data(self, metadata):
        """The fields of metadata for its rows. What TransferQueue believes of shapes is not
        asked: the store has its own index."""
        if metadata.size == 0 or not metadata.field_names:
            return TensorDict({}, batch_size=metadata.size)
        return await self._run(self._get, metadata.global_indexes, metadata.field_names)

    def _get(self, rows, names, deadline):
        try:
            columns = self._client.get_columns(
                rows, names, arrays="torch", jagged=names, deadline=deadline
            )
        except DataPlaneLostKeys as e:
            raise KeysNotFound(e.keys, e.reason) from None
        return fields.from_columns(columns, len(rows))

    async def clear_data(self, metadata):
        """Removes whole rows, whatever fields are named; done when it returns. Rows that were
        never put are no error."""
        if metadata.size > 0:
            await self._run(self._clear, metadata.global_indexes)

    def _clear(self, rows, deadline):
        self._client.clear(rows, deadline=deadline)

    # Not a NotImplementedError: TransferQueue only logs that, and saves all but the data.
    async def save_checkpoint(self, checkpoint_dir):
        raise RuntimeError(
            "SlabyardStore does not support checkpoints yet; save_checkpoint(..., "
            "include_storage=False) saves the controller alone"
        )

    async def load_checkpoint(self, checkpoint_dir):
        raise RuntimeError("SlabyardStore does not support checkpoints yet")

    def close(self):
        super().close()
        # The base calls this from __del__, too, also where __init__ raised.
        if getattr(self, "_threads", None) is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if getattr(self, "_client", None) is not None:
            self._client.close()
