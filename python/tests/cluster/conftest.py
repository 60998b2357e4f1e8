"""What the tests of clusters share: programs that are started again soon, and a Ray of several nodes."""

import bed
import pytest


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Shortens the pause before a program is started again."""
    monkeypatch.setattr("spirea.cluster.program._LEAST_PAUSE", 0.01)


@pytest.fixture
def controller():
    """A controller that has only what a test gives it; nothing of Ray runs. The full form alone has Ray."""
    from spirea.cluster.controller import Controller

    return Controller.__new__(Controller)


@pytest.fixture(scope="module")
def nodes():
    """Ray: a head without room for workers, and nodes with room."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": bed.MEMORY}
    )
    for _ in range(bed.NODES):
        cluster.add_node(num_cpus=2, object_store_memory=bed.MEMORY)
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
