"""slabyard: a storage data plane for LLM reinforcement learning.

>>> import numpy as np, slabyard
>>> with slabyard.local(units=2, slab_bytes="64MiB") as cluster, cluster.client() as client:
...     client.put_columns([1, 2], {"reward": np.array([0.5, 1.0])})
...     client.get_columns([2, 1], ["reward"])["reward"]
array([1. , 0.5])
"""

from slabyard import errors
from slabyard._core import Tensor
from slabyard.client import Client
from slabyard.cluster import Cluster, local
from slabyard.columns import Jagged, Views
from slabyard.transport import Directory, Endpoint

__all__ = [
    "Client",
    "Cluster",
    "Directory",
    "Endpoint",
    "Jagged",
    "Tensor",
    "Views",
    "errors",
    "local",
]
