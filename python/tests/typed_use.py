"""What a program with types may write; mypy --strict reads it, nobody runs it."""

import numpy as np

import slabyard
from slabyard.blobstore import UnitSlabStore, encode_index, remaining
from slabyard.errors import DataPlaneLostKeys, UnitFull


def columns(client: slabyard.Client) -> float:
    client.put_columns(np.arange(2), {"reward": np.zeros(2), "text": ["a", "b"]})
    client.put({"7@note": "hello"}, deadline=1.5)
    got, found = client.get_columns([1, 2], ["reward"], missing="mask", arrays="numpy")
    values: list[object] = client.get(["7@note"])
    rows: int = client.clear(range(2), fields=["reward"])
    return float(got["reward"][0] + found["reward"].sum()) + rows + len(values)


def lost(error: DataPlaneLostKeys) -> tuple[list[int], list[str]]:
    return error.global_indexes(), error.fields()


def blobs(run_dir: str) -> dict[int, dict[str, object]]:
    directory = slabyard.Directory(run_dir=run_dir)
    with UnitSlabStore(slabyard.Endpoint(), directory, namespace="n", timeout_s=5) as store:
        blob = encode_index([2, 4], {"x": np.zeros(2)})
        try:
            store.put_many([(blob.segments, blob.nbytes, blob.n_entries, 0, blob.blob_id)])
        except UnitFull as full:
            print(full.need - full.largest_hole, remaining(None, 1.0))
        return store.resolve_keys({0: ["2@x"]}, None)


def local() -> None:
    with slabyard.local(units=2) as cluster, cluster.client(namespace="a") as client:
        tensor: slabyard.Tensor = client.get(["1@a"], arrays="dlpack")[0]
        print(tensor.shape, columns(client), blobs(cluster.run_dir))
