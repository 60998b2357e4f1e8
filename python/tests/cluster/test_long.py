"""Tests that take too long for `make test`, or need more rights: network partitions, and the simulation compared with a real
cluster."""

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import bed
import pytest

from spirea.cluster.simulation import Model, simulate

pytestmark = [pytest.mark.full, pytest.mark.skipif(not bed.LONG, reason="the long form has it: make test-cluster")]

TOLERANCE = 2.0
"""Factor by which the simulated median may differ from the measured one. It is large because the costs of a query beside its
scan are measured on single queries, and because clients, coordinator and workers share a few processors in the tests."""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def await_port(host, port, seconds=90):
    """Waits until a program listens. A node of Ray ends if its head does not listen yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), timeout=1).close()
            return
        time.sleep(0.2)
    pytest.fail(f"nobody listens at {host}:{port} after {seconds} s")


def not_here(why):
    """Fails, because the long form includes a partition; skips the test if SPIREA_WITHOUT_PARTITION=1."""
    if os.environ.get("SPIREA_WITHOUT_PARTITION") == "1":
        pytest.skip(why)
    pytest.fail(f"{why}; SPIREA_WITHOUT_PARTITION=1 leaves the partition out")


@pytest.fixture(scope="module")
def islands():
    """Nodes of Ray in network namespaces, connected by a bridge. The head is in this process's namespace."""
    if shutil.which("ip") is None or ip("netns", "add", "spirea-probe").returncode != 0:
        not_here("network namespaces are not allowed here")
    ip("netns", "del", "spirea-probe")
    names, started = [f"spirea-{i}" for i in range(3)], []
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}

    def ray_start(prefix, *arguments):
        command = [*prefix, sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *arguments]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    try:
        ip("link", "add", "spirea-br", "type", "bridge")
        ip("addr", "add", "10.77.0.1/24", "dev", "spirea-br")
        if ip("link", "set", "spirea-br", "up").returncode != 0:
            not_here("bridges are not allowed here")
        for i, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", f"spirea-v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"spirea-v{i}", "master", "spirea-br", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{i + 2}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            if ip("-n", name, "link", "set", "lo", "up").returncode != 0:
                not_here("network namespaces cannot be set up here")
        small = ["--object-store-memory=100000000"]
        ray_start(
            [], "--head", "--node-ip-address=10.77.0.1", "--port=6395", "--num-cpus=0", "--include-dashboard=false", *small
        )
        await_port("10.77.0.1", 6395)
        for i, name in enumerate(names):
            inside, host = ["ip", "netns", "exec", name], f"10.77.0.{i + 2}"
            where = ["--address=10.77.0.1:6395", f"--node-ip-address={host}", "--node-manager-port=6400"]
            ray_start(inside, *where, "--num-cpus=2", *small)
            # Starts one after another, because nodes that start at the same time use the same names of sockets in Ray's
            # folder.
            await_port(host, 6400)
        yield "10.77.0.1:6395"
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        for name in names:
            ip("netns", "del", name)
        ip("link", "del", "spirea-br")


CUTS = {
    # No packets pass in either direction.
    "whole": (("link", "set", "spirea-v{}", "down"), ("link", "set", "spirea-v{}", "up")),
    # Packets to the node arrive, but its answers do not.
    "one-way": (
        ("-n", "spirea-{}", "route", "add", "blackhole", "10.77.0.1/32"),
        ("-n", "spirea-{}", "route", "del", "blackhole", "10.77.0.1/32"),
    ),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_partition_loses_no_answer(islands, tmp_path, cut):
    """A node becomes unreachable and comes back; in the meantime others serve its shares."""
    snapshot = bed.snapshot(tmp_path, "words", 1, "simple")
    databases = [{"name": "words", "snapshot": os.fspath(snapshot), "shards": 2, "replicas": 2}]
    cluster = bed.Bed(tmp_path, islands, databases)
    cluster.run("up", "--wait", 120)
    cluster.settle()
    lost = int(cluster.replicas()[0][1]["address"].removeprefix("https://10.77.0.").partition(":")[0]) - 2
    begin, end = ([word.format(lost) for word in command] for command in CUTS[cut])
    with bed.Load(cluster.url, "words") as load:
        load.await_answers(50)
        began = time.monotonic()
        time.sleep(5)
        fault = time.monotonic()
        normal = load.p99(began, fault)
        assert ip(*begin).returncode == 0
        time.sleep(20)
        load.await_answers(20)
        assert ip(*end).returncode == 0
        cluster.settle(120)
        load.await_answers(20)
        time.sleep(5)
        recovered = load.recovered(fault, normal, 0.05)
    print(f"{cut} partition: p99 before {1e3 * normal:.0f} ms, back to normal after {recovered} s, {len(load.times)} answers")
    cluster.run("down")
    load.check()
    assert recovered is not None and recovered <= 10


CLIENTS = 3


def measured(cluster, clients, rest=0.0):
    """Measures queries for some seconds. Returns the median latency, and the number of queries per second."""
    with bed.Load(cluster.url, "words", clients=clients, rest=rest) as load:
        load.await_answers(50)
        began = time.monotonic()
        time.sleep(8)
        ended = time.monotonic()
    times = sorted(took for asked, took in load.times if began <= asked < ended)
    return times[len(times) // 2], len(times) / (ended - began)


def rest_at_a_third(most):
    """Returns the mean pause of clients for a third of the highest rate of one client, `most`.

    Clients without pauses would saturate the cluster. The simulation has random arrivals, whose queue would grow without bound
    at that load.
    """
    return 3 * CLIENTS / most


@pytest.mark.parametrize("shards", [1, 2])
def test_the_simulation_is_near_a_real_cluster(nodes, tmp_path, shards):
    """The costs of a query are measured with one client; with them the simulation predicts the median of several clients."""
    snapshot = bed.snapshot(tmp_path, "words", 1, "simple")
    databases = [{"name": "words", "snapshot": os.fspath(snapshot), "shards": shards, "replicas": 1}]
    cluster = bed.Bed(tmp_path, nodes.address, databases)
    cluster.run("up", "--wait", 120)
    cluster.settle()

    alone, most = measured(cluster, 1)
    median, rate = measured(cluster, CLIENTS, rest_at_a_third(most))
    [parts] = [database["versions"][0]["shares"] for database in cluster.status()["databases"]]
    scan = max(share["replicas"][0]["coordinator"]["p50_ms"] for share in parts) / 1e3
    cluster.run("down")
    outcome = simulate(Model(shards, 1, rate, scan, max(alone - scan, 0.0)), 4000, seed=1)
    simulated = outcome.quantile(0.5)
    print(f"{shards} shards, {rate:.0f} queries a second: median {1e3 * median:.1f} ms, simulated {1e3 * simulated:.1f} ms")
    assert median / TOLERANCE <= simulated <= median * TOLERANCE


def test_replicas_come_with_load_and_go_without_it(nodes, tmp_path):
    snapshot = bed.snapshot(tmp_path, "words", 1, "simple")
    rules = {"least": 1, "most": 2, "high": 0.4, "low": 0.1, "up_after": "1s", "down_after": "4s", "pause": "2s"}
    databases = [{"name": "words", "snapshot": os.fspath(snapshot), "shards": 2, "replicas": rules}]
    cluster = bed.Bed(tmp_path, nodes.address, databases)
    cluster.run("up", "--wait", 120)
    cluster.settle()

    def become(count, seconds=90):
        deadline = time.monotonic() + seconds
        while [len(found) for found in by_share(cluster.settle())] != [count, count]:
            assert time.monotonic() < deadline, cluster.status()
            time.sleep(0.5)

    def by_share(status):
        replicas = cluster.replicas(status)
        return [{replica["node"] for number, replica in replicas if number == share} for share in (0, 1)]

    with bed.Load(cluster.url, "words", clients=12) as load:
        load.await_answers(50)
        became = time.monotonic()
        become(2)
        print(f"replicas by load: two of each share after {time.monotonic() - became:.0f} s")
        load.await_answers(50)
    become(1)
    with bed.Load(cluster.url, "words") as after:
        after.await_answers(20)
    cluster.run("down")
    load.check()
    after.check()


STOPPED = 2.0
"""Seconds for which a worker is stopped in the test below."""


def test_second_requests_save_queries_from_a_worker_that_stands_still(nodes, tmp_path):
    """One of two replicas is stopped repeatedly; the result is compared with the simulation."""
    snapshot = bed.snapshot(tmp_path, "words", 1, "simple")
    databases = [{"name": "words", "snapshot": os.fspath(snapshot), "shards": 1, "replicas": 2}]
    cluster = bed.Bed(tmp_path, nodes.address, databases)
    cluster.run("up", "--wait", 120)
    cluster.settle()

    def second_requests():
        return sum(replica["coordinator"]["hedges"] for _, replica in cluster.replicas())

    _, most = measured(cluster, 1)
    with bed.Load(cluster.url, "words", clients=CLIENTS, rest=rest_at_a_third(most)) as load:
        load.await_answers(300)
        before, began, stops = second_requests(), time.monotonic(), 8
        scan = min(replica["coordinator"]["p50_ms"] for _, replica in cluster.replicas()) / 1e3
        stopped = cluster.processes()[min(cluster.processes())]
        for _ in range(stops):
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(STOPPED)
            os.kill(stopped, signal.SIGCONT)
            time.sleep(1.5)
        ended = time.monotonic()
    asked = [took for at, took in load.times if began <= at < ended]
    late, second = sum(took >= 0.8 * STOPPED for took in asked), second_requests() - before
    cluster.run("down")
    load.check()
    model = Model(1, 2, len(asked) / (ended - began), scan, 0.0, straggling=stops / len(asked), slowness=STOPPED / scan)
    simulated = [simulate(dataclasses.replace(model, hedges=hedges), 4 * len(asked), 1) for hedges in (True, False)]
    shares = [sum(took >= 0.8 * STOPPED for took in each.latencies) / len(each.latencies) for each in simulated]
    print(
        f"{stops} stops of {STOPPED:g} s, {len(asked)} queries: {late} were late, {second} second requests; simulated "
        f"{100 * shares[0]:.1f} % late with {simulated[0].hedged} second requests, {100 * shares[1]:.1f} % without"
    )
    # Without second requests, all queries in flight would wait during a stop: two or three.
    assert second >= stops // 2 and late <= stops // 2
