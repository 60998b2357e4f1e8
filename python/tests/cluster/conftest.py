"""Common fixtures of the tests of clusters: quick restarts of programs, and Ray with several nodes."""

import bed
import pytest


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Shortens the pause before a program is restarted."""
    monkeypatch.setattr("spirea.cluster.program._LEAST_PAUSE", 0.01)


@pytest.fixture
def controller():
    """A controller without attributes, which a test sets as needed. Ray does not run: only the full form has Ray."""
    from spirea.cluster.controller import Controller

    return Controller.__new__(Controller)


@pytest.fixture(scope="module")
def nodes():
    """Ray with a head that has no room for workers, and nodes that have room."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # As docs/scale-out.md has it. Else actors hardly run while other tests use the processors.
        patch.setenv("RAY_worker_niceness", "0")
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": bed.MEMORY}
        )
        for _ in range(bed.NODES):
            cluster.add_node(num_cpus=2, object_store_memory=bed.MEMORY)
    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
