"""The simulation compared with queueing theory, and the plan's arithmetic."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

import spirea
from spirea.cluster import costs
from spirea.cluster.simulation import Budget, Model, Times, simulate

# A model with one shard and one replica, which the limit of running batches does not slow down.
ALONE = Model(1, 1, 5.0, 0.1, 0.0, spread=0.0, straggling=0.0)


def test_the_same_seed_gives_the_same_run_and_another_another():
    model = dataclasses.replace(ALONE, shards=8, replicas=2, spread=0.1, straggling=0.02)
    assert simulate(model, 300, 1) == simulate(model, 300, 1)
    assert simulate(model, 300, 1).latencies != simulate(model, 300, 2).latencies


def test_one_replica_is_the_queue_of_the_textbook():
    """M/D/1 at half load: the mean wait is rho / (2 (1 - rho)) times the service time."""
    outcome = simulate(ALONE, 20_000, 3)
    mean = sum(outcome.latencies) / len(outcome.latencies)
    assert mean == pytest.approx(0.1 * (1 + 0.5 / (2 * 0.5)), rel=0.03)
    assert outcome.busy == pytest.approx(0.5, rel=0.03)


def test_without_load_and_stragglers_a_query_takes_its_scan_and_what_follows():
    model = dataclasses.replace(ALONE, shards=16, replicas=2, queries_per_second=0.001, combine=0.02, hedges=False)
    outcome = simulate(model, 100, 4)
    assert outcome.quantile(0.5) == pytest.approx(0.12) and outcome.quantile(1.0) == pytest.approx(0.12)
    assert outcome.hedged == 0


def test_the_slowest_of_many_shards_is_what_a_query_waits_for():
    """With 100 shards and one straggler in a hundred parts, 63 of 100 queries meet a straggler."""
    model = Model(100, 2, 0.01, 0.1, 0.0, spread=0.0, straggling=0.01, slowness=10.0, hedges=False)
    outcome = simulate(model, 2000, 5)
    met = sum(latency > 0.5 for latency in outcome.latencies) / len(outcome.latencies)
    assert met == pytest.approx(1 - 0.99**100, abs=0.05)


def test_second_requests_cut_the_tail_and_are_few():
    model = Model(64, 2, 0.5, 0.1, 0.0, straggling=0.01, slowness=10.0)
    hedged = simulate(model, 1500, 6)
    alone = simulate(dataclasses.replace(model, hedges=False), 1500, 6)
    assert hedged.quantile(0.7) < 0.5 * alone.quantile(0.7)
    assert 0 < hedged.hedged <= 1500 * 64 * 0.06


@pytest.mark.parametrize("shards", [16, 64, 256, 1000])
def test_as_many_shards_as_are_promised_can_be_simulated(shards):
    outcome = simulate(Model(shards, 2, 2.0, 0.05, 0.01), 60, shards)
    assert len(outcome.latencies) == 54 and all(latency >= 0.04 for latency in outcome.latencies)


ROW = {
    "protocol": "hybrid", "refused": None, "keys": "registered", "server_seconds": 11.0, "memory_bytes": 800_000_000_000,
    "upload_bytes": 1_000_000, "download_bytes": 16_000, "shape": [300_000, 900_000],
    "steps": [{"name": "scalar_fold", "seconds": 10.0}, {"name": "expand", "seconds": 1.0}],
}  # fmt: skip
MACHINE = costs.Machine(100_000_000_000, 1e9, 0.001, 3.6)


def test_a_plan_divides_the_scan_and_its_memory_and_nothing_else():
    plan = costs.plan(ROW, MACHINE, shards=None, replicas=2)
    assert (plan.shards, plan.workers, plan.machines) == (10, 20, 21)
    assert plan.memory == 80_000_000_000 and plan.scan == pytest.approx(1.0) and plan.rest == pytest.approx(1.0)
    assert (plan.sent, plan.received, plan.part) == (10 * 1_000_000, 4 * (300_000 + 640), 4 * 64)
    assert plan.latency == pytest.approx(2.0 + plan.wire / 1e9 + 0.001)
    # Two replicas answer two queries per second; the coordinator only one.
    assert plan.queries_per_second == pytest.approx(1.0)
    assert plan.cost == pytest.approx(21 * 3.6 / 3600)


def test_the_rules_for_second_requests_are_the_coordinators():
    """The simulation computes the coordinator's vectors. A test in crates/cluster/src/times.rs computes them too."""
    path = Path(__file__).resolve().parents[3] / "conformance/vectors/second_requests.json"
    vectors = json.loads(path.read_text(encoding="utf-8"))
    times, budget = Times(), Budget()
    for step in vectors["times"]:
        for time in step["times"]:
            times.note(step["queries"], time)
        assert [[queries, times.slow(queries)] for queries, _ in step["slow"]] == step["slow"]
    for step in vectors["budget"]:
        for _ in range(step["earn"]):
            budget.earn()
        assert sum(budget.pay() for _ in range(step["ask"])) == step["paid"], step


def test_the_coordinator_is_a_queue_too():
    """If the coordinator's processor or network is busy half of the time, queries wait there as in M/D/1."""
    for busy in ("combine", "send", "receive"):
        model = dataclasses.replace(ALONE, shards=2, replicas=30, scan=1e-6, **{busy: 0.1}, hedges=False)
        outcome = simulate(model, 10_000, 7)
        mean = sum(outcome.latencies) / len(outcome.latencies)
        assert mean == pytest.approx(0.15, rel=0.05), busy
    # With all three together, the times add up.
    model = dataclasses.replace(ALONE, scan=0.001, combine=0.02, send=0.03, receive=0.04, queries_per_second=0.001)
    assert simulate(model, 100, 8).quantile(0.5) == pytest.approx(0.091)


def test_no_more_batches_are_at_hand_than_replicas_and_one():
    """Batches overlap: the coordinator combines one while the worker computes another."""
    model = dataclasses.replace(ALONE, scan=0.01, combine=0.0, send=0.0, queries_per_second=1000.0, round_trip=0.0)
    outcome = simulate(model, 2000, 9)
    # Two running batches keep the only replica busy all the time.
    assert outcome.busy == pytest.approx(1.0, rel=0.01)
    behind = dataclasses.replace(model, combine=0.09)
    # The coordinator combines one batch at a time, which is the bottleneck.
    assert simulate(behind, 2000, 9).busy == pytest.approx(1 / 9, rel=0.05)


def test_what_waits_becomes_a_batch():
    model = dataclasses.replace(ALONE, queries_per_second=1000.0, batch=32)
    outcome = simulate(model, 320, 10)
    # There are ten batches or a few more; the time of each is proportional to its queries.
    assert max(outcome.latencies) == pytest.approx(32.0, rel=0.1)
    assert len(set(round(latency) for latency in outcome.latencies)) > 5


RATES = {
    "288 GB": {"shape": [1_000_000, 288_000], "scan": 60.0, "rest": 0.5},
    "384 GB": {"shape": [600_000, 640_000], "scan": 80.0, "rest": 0.5},
    "1.25 TB": {"shape": [1_100_000, 1_130_000], "scan": 260.0, "rest": 0.8},
}
"""Times of one machine in round numbers, so that the test is the same everywhere."""


@pytest.mark.parametrize("workload", costs.WORKLOADS, ids=lambda workload: workload.name)
def test_each_workload_has_a_plan_and_a_tail(workload):
    said = RATES[workload.name]
    row = ROW | {
        "shape": said["shape"], "memory_bytes": workload.records * workload.record_bytes, "upload_bytes": 2_000_000,
        "server_seconds": said["scan"] + said["rest"],
        "steps": [{"name": "scalar_fold", "seconds": said["scan"]}, {"name": "expand", "seconds": said["rest"]}],
    }  # fmt: skip
    machine = costs.Machine(64 << 30, 10e9 / 8, 0.0002, 0.5)
    plan = costs.plan(row, machine, shards=None, replicas=2)
    assert plan.memory <= (64 << 30) * 4 // 5 and plan.shards == math.ceil(row["memory_bytes"] / ((64 << 30) * 4 // 5))
    outcomes = costs.stragglers(plan, machine, (plan.shards, 64, 1000), replicas=2, load=0.3, queries=100)
    for shards, outcome in outcomes.items():
        model = costs.model(plan, machine, shards, replicas=2, load=0.3)
        least = 0.8 * model.scan + model.combine + model.send + model.receive
        assert least < outcome.quantile(0.5) < outcome.quantile(0.99) < 30 * (least + model.scan)
    # With a thousand shards, sending the query's copies dominates, and the scan is negligible.
    model = costs.model(plan, machine, 1000, replicas=2, load=0.3)
    assert model.send == pytest.approx(1.6) and model.send > model.scan and outcomes[1000].quantile(0.5) > 1.6


def test_what_cannot_be_planned_is_said():
    with pytest.raises(spirea.PlanError, match="give more shards"):
        costs.plan(ROW, MACHINE, shards=4, replicas=1)
    with pytest.raises(spirea.PlanError, match="hybrid: too large"):
        costs.plan(ROW | {"refused": "too large"}, MACHINE, shards=4, replicas=1)


def test_the_workloads_have_the_size_that_they_are_called_by():
    for workload, size in zip(costs.WORKLOADS, (288e9, 384e9, 1.25e12), strict=True):
        assert workload.records * workload.record_bytes == pytest.approx(size, rel=1e-9)


def test_more_shards_of_the_same_database_take_less_time_each():
    plan = costs.plan(ROW, MACHINE, shards=None, replicas=2)
    outcomes = costs.stragglers(plan, MACHINE, (16, 64), replicas=2, load=0.3, queries=400)
    assert outcomes[64].quantile(0.5) < outcomes[16].quantile(0.5)
    assert all(math.isfinite(outcome.quantile(0.99)) for outcome in outcomes.values())
