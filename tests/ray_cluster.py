"""What several tests of engines need."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Ray with a head that does no work and two nodes that do, a raylet each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    memory = 100 * 2**20
    found = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "object_store_memory": memory, "include_dashboard": False},
    )
    for _ in range(2):
        found.add_node(num_cpus=1, object_store_memory=memory)
    yield found
    found.shutdown()
