"""Tests of whole clusters with real Ray, several nodes on this machine, the real programs, and faults under load.

The tests need Ray, and belong to the full form: CI_FULL=1. The long form, `make test-cluster`, has more protocols, more faults
and more load, and prints its measurements.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.request

import bed
import pyarrow
import pyarrow.parquet
import pytest

import spirea
from spirea.cluster import rows
from spirea.cluster.files import Folder

pytestmark = pytest.mark.full

PROTOCOLS = ["simple", "hybrid", "onion", "double-pack"] if bed.LONG else ["simple", "hybrid"]


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    """Two editions of a table under each protocol."""
    folder = tmp_path_factory.mktemp("snapshots")
    return {
        (protocol, edition): bed.snapshot(folder, protocol, edition, protocol)
        for protocol in PROTOCOLS
        for edition in (1, 2)
        if edition == 1 or protocol == PROTOCOLS[0]
    }


@pytest.fixture(scope="module")
def cluster(nodes, snapshots, tmp_path_factory):
    """A cluster of two shards with two replicas each for every protocol."""
    databases = [
        {"name": protocol, "snapshot": os.fspath(snapshots[protocol, 1]), "shards": 2, "replicas": 2 if i == 0 else 1}
        for i, protocol in enumerate(PROTOCOLS)
    ]
    made = bed.Bed(tmp_path_factory.mktemp("cluster"), nodes.address, databases)
    printed = made.run("up", "--wait", 300)
    assert f"answers at {made.url}" in printed
    made.settle()
    yield made
    made.run("down")
    assert made.processes() == {}


@pytest.fixture
def load(cluster):
    """Clients of the first database. None of them may see a wrong answer or an error."""
    with bed.Load(cluster.url, PROTOCOLS[0], editions=(1, 2)) as asking:
        asking.await_answers(20)
        yield asking
    asking.check()
    assert len(asking.times) > 20


def ended(load, cluster, fault, normal, what, within=10):
    """Checks the end of a fault that the controller has noticed: all replicas are back, and queries are answered. In the long
    form, latencies are normal again.
    """
    cluster.settle()
    load.await_answers(20)
    time.sleep(5 if bed.LONG else 2)
    recovered = load.recovered(fault, normal, 0.05 if bed.LONG else 2.0)
    print(f"{what}: p99 before {1e3 * normal:.0f} ms, back to normal after {recovered} s, {len(load.times)} answers")
    # Outside the long form other tests share the processors, and times decide nothing.
    if bed.LONG:
        assert recovered is not None and recovered <= within


def before(load):
    """Measures for some seconds. Returns the current time and the p99."""
    began = time.monotonic()
    time.sleep(5 if bed.LONG else 1)
    now = time.monotonic()
    return now, load.p99(began, now) or 0.0


def test_replicas_of_a_share_are_on_different_nodes_and_have_their_share_alone(cluster):
    status = cluster.status()
    [first] = [database for database in status["databases"] if database["name"] == PROTOCOLS[0]]
    [version] = first["versions"]
    for share in version["shares"]:
        nodes = [replica["node"] for replica in share["replicas"]]
        assert len(nodes) == 2 and len(set(nodes)) == 2
    matrices = list(cluster.folder.glob(f"work/**/shares/{PROTOCOLS[0]}/**/matrix.bin"))
    # The nodes are on one machine, which has each share only once.
    assert len(matrices) == 2
    whole = os.path.getsize(next((cluster.folder / "store" / PROTOCOLS[0]).glob("*/matrix.bin")))
    assert all(path.stat().st_size == whole for path in matrices)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in cluster.folder.glob("work/**/key.pem"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_answers_are_those_of_a_server_of_the_whole(cluster, protocol):
    with spirea.Client(cluster.url, protocol, wait=30.0) as client:
        keys = [f"key-{i}" for i in (0, 1, 777, bed.ROWS - 1, bed.ROWS)]
        found = client.get_many(keys)
        assert [bytes(record) for record in found[:-1]] == [bed.value(key, 1) for key in keys[:-1]]
        assert found[-1] is None


def test_status_page_and_metrics_have_all_workers(cluster):
    assert f"{PROTOCOLS[0]}: answers with" in cluster.run("status")
    with urllib.request.urlopen(f"{cluster.operations}/", timeout=300) as page:
        shown = page.read().decode()
    numbers = [str(replica["number"]) for _, replica in cluster.replicas()]
    assert all(f">{number}<" in shown for number in numbers)
    with urllib.request.urlopen(f"{cluster.operations}/metrics", timeout=300) as page:
        metrics = page.read().decode()
    assert all(f'replica="{number}"' in metrics for number in numbers)
    assert 'component="coordinator"' in metrics and "spirea_cluster_replicas{" in metrics


def test_a_worker_takes_queries_from_the_coordinator_alone(cluster):
    address = cluster.replicas()[0][1]["address"]
    done = subprocess.run(
        ["curl", "--silent", "--insecure", "--max-time", "5", f"{address}/v1/share"], check=False, capture_output=True
    )
    assert done.returncode != 0 and done.stdout == b""


def test_a_killed_worker_process_comes_back(cluster, load):
    fault, normal = before(load)
    number, process = sorted(cluster.processes().items())[0]
    os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 300
    while cluster.processes().get(number, process) == process:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ended(load, cluster, fault, normal, "a worker's process killed")


def test_a_killed_actor_and_a_killed_controller_come_back(cluster, load):
    import ray

    fault, normal = before(load)
    numbers = {replica["number"] for _, replica in cluster.replicas()}
    ray.kill(ray.get_actor("controller", namespace=cluster.namespace), no_restart=False)
    ray.kill(ray.get_actor(f"worker-{min(numbers)}", namespace=cluster.namespace))
    cluster.notice(lambda status: min(numbers) not in {replica["number"] for _, replica in cluster.replicas(status)})
    ended(load, cluster, fault, normal, "a worker's actor and the controller killed")


def test_a_killed_coordinator_comes_back_with_what_it_answered(cluster, load):
    fault, normal = before(load)
    process, load.patient = cluster.status()["coordinator"]["pid"], True
    os.kill(process, signal.SIGKILL)
    cluster.notice(lambda status: status["coordinator"]["pid"] not in (None, process))
    ended(load, cluster, fault, normal, "the coordinator's process killed", 30)


def test_a_killed_gateway_comes_back_with_a_coordinator(cluster, load):
    import ray

    fault, normal = before(load)
    process, load.patient = cluster.status()["coordinator"]["pid"], True
    ray.kill(ray.get_actor("gateway", namespace=cluster.namespace), no_restart=False)
    cluster.notice(lambda status: status["coordinator"]["pid"] not in (None, process))
    ended(load, cluster, fault, normal, "the coordinator's actor killed", 30)
    # The program must end with its actor, because it would keep the port.
    assert not os.path.exists(f"/proc/{process}")


def test_a_killed_node_is_replaced_by_another(nodes, cluster, load):
    nodes.add_node(num_cpus=2, object_store_memory=bed.MEMORY)
    fault, normal = before(load)
    former = cluster.replicas()
    lost = former[0][1]["node"]
    gone = sum(replica["node"] == lost for _, replica in former)
    [node] = [node for node in nodes.worker_nodes if node.node_id == lost]
    nodes.remove_node(node, allow_graceful=False)
    cluster.notice(lambda status: lost not in {replica["node"] for _, replica in cluster.replicas(status)})
    ended(load, cluster, fault, normal, "a node killed")
    now = cluster.replicas()
    # Each lost replica has exactly one replacement, although Ray declares the node dead only later.
    assert max(replica["number"] for _, replica in now) == max(replica["number"] for _, replica in former) + gone


def test_a_version_takes_the_place_of_another_under_load(cluster, snapshots, load):
    new = snapshots[PROTOCOLS[0], 2]
    printed = cluster.run("publish", PROTOCOLS[0], os.fspath(new))
    assert f"{PROTOCOLS[0]}: version {new.version} answers" in printed
    load.editions = {1, 2}
    cluster.settle()
    load.await_answers(20)
    with spirea.Client(cluster.url, PROTOCOLS[0]) as client:
        assert bytes(client.get("key-5")) == bed.value("key-5", 2)
    assert len({path.parent.name for path in (cluster.folder / "store" / PROTOCOLS[0]).glob("*/manifest.json")}) == 2


def test_a_snapshot_is_built_of_parquet_on_all_nodes_and_served(nodes, cluster):
    folder = cluster.folder / "rows"
    folder.mkdir()
    for number in range(4):
        keys = [f"key-{i}" for i in range(500 * number, 500 * number + 500)]
        table = pyarrow.table({"key": keys, "value": [bed.value(key, 3).decode() for key in keys]})
        pyarrow.parquet.write_table(table, folder / f"{number}.parquet", row_group_size=250)
    name = PROTOCOLS[-1]
    version = cluster.run(
        "build", name, "--input", f"{folder}/*.parquet", "--key", "key", "--value", "value", "--protocol", name
    ).strip()
    assert Folder(str(cluster.folder / "store" / name / version)).version() == version
    cluster.run("publish", name, version)
    with spirea.Client(cluster.url, name) as client:
        assert bytes(client.get("key-1999")) == bed.value("key-1999", 3)


def test_no_part_is_made_twice_and_a_killed_build_goes_on(cluster):
    folder = cluster.folder / "many"
    folder.mkdir()
    table = pyarrow.table({"key": [f"key-{i}" for i in range(3000)], "value": ["v"] * 3000})
    pyarrow.parquet.write_table(table, folder / "rows.parquet", row_group_size=50)
    arguments = ["many", "--input", folder, "--key", "key", "--value", "value"]
    command = [sys.executable, "-m", "spirea", "cluster", "build", cluster.path, *arguments]
    store, many = Folder(str(cluster.folder / "store" / "many")), rows.Table.of(str(folder), "key", ["value"])
    parts = store.inner(f"parts-{many.name}")

    def notes():
        return {name: os.stat(parts.path(name)).st_mtime_ns for name, _ in parts.names() if name.endswith(".json")}

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as building:
        deadline = time.monotonic() + 300
        while len(notes()) < 5:
            assert building.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        building.kill()
    # Running tasks on the nodes end with the process that started them.
    before = None
    while (now := notes()) != before:
        before = now
        time.sleep(1)
    left = len(many.units) - len(before)
    assert 0 < left < len(many.units)
    assert rows.make_parts(many, parts, lambda *_: None) == left
    after = notes()
    assert len(after) == len(many.units) and before.items() <= after.items()
    assert rows.make_parts(many, parts, lambda *_: None) == 0 and notes() == after
    version = cluster.run("build", *arguments).strip()
    assert store.inner(version).version() == version and notes() == {}


def test_commands_say_what_is_wrong(cluster, tmp_path):
    def fails(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "spirea", "cluster", *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1 and "Traceback" not in done.stderr
        return done.stderr

    assert "has no database words" in fails("publish", cluster.path, "words", tmp_path)
    assert "there is no manifest.json" in fails("publish", cluster.path, PROTOCOLS[0], tmp_path)
    assert "it cannot be read" in fails("up", tmp_path / "absent.yaml")
    other = bed.Bed(tmp_path, cluster.config["ray"]["address"], cluster.config["databases"], name="other")
    assert "no cluster other runs here; start it with spirea cluster up" in fails("status", other.path)
    away = bed.Bed(tmp_path, "127.0.0.1:1", cluster.config["databases"])
    assert "there is no Ray at 127.0.0.1:1" in fails("status", away.path)
