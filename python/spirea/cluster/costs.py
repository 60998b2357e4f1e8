"""Requirements of a cluster for a database: machines, memory, network, latency, and the cost of a query.

The planner's rows have the cost of each protocol for one query of the whole database, from rates measured on this machine.
Shards divide the scan; the coordinator does the steps after it. A batch's queries could share one scan, as far as the
processor can multiply in that time. This model ignores that gain: its throughput is that of single queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import PlanError
from .simulation import Model, Outcome, simulate

SHARED = ("scalar_fold", "share_fold")
"""Steps that shards divide. For `onion` they also divide the fold of polynomials and the tournament."""
_SHARED_OF_ONION = ("poly_fold", "rgsw_fold")
_TWO_SERVERS = ("dpf-xor", "dpf-sum")


@dataclass(frozen=True)
class Machine:
    """Resources of one machine, and its price per hour."""

    memory: int
    network: float
    """Bytes per second."""
    round_trip: float
    price: float


@dataclass(frozen=True)
class Workload:
    """A database: the number of records, and their size in bytes."""

    name: str
    records: int
    record_bytes: int


WORKLOADS = (
    Workload("288 GB", 1_000_000_000, 288),
    Workload("384 GB", 375_000_000, 1024),
    Workload("1.25 TB", 1_220_703_125, 1024),
)
"""Workloads of IVE's Table III. The paper gives records of 288 bytes for the first and no size for the others; 1,024 is our
choice."""


@dataclass(frozen=True)
class Plan:
    """Requirements of a protocol on a cluster."""

    protocol: str
    shards: int
    workers: int
    machines: int
    memory: int
    """Memory of a worker in bytes."""
    scan: float
    """Seconds of a worker for a query."""
    rest: float
    """Seconds of the coordinator for a query."""
    sent: int
    """Bytes from the coordinator to all workers for a query; every shard gets the whole query."""
    received: int
    """Bytes of all workers' parts of an answer."""
    part: int
    """Bytes that one more shard adds to `received`."""
    upload: int
    download: int
    latency: float
    queries_per_second: float
    cost: float
    """Cost of a query with all machines busy, in the currency of the machine's price."""

    @property
    def wire(self) -> int:
        """Bytes between the coordinator and all workers for a query."""
        return self.sent + self.received


def part_bytes(row: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the bytes of all shards' parts of an answer: a fixed number, and a number for each shard
    (docs/decisions/0012-shards.md)."""
    if row["protocol"] in _TWO_SERVERS or row["protocol"] == "onion":
        return 0, int(row["download_bytes"])
    return 4 * int(row["shape"][0]), 4 * 64


def plan(row: Mapping[str, Any], machine: Machine, *, shards: int | None, replicas: int) -> Plan:
    """Makes the plan of one of the planner's rows. The default of `shards` is the fewest that fit the machines' memory, of
    which four fifths are for the database.

    Raises `PlanError` for a protocol that has no shape for the table.
    """
    if row["refused"] is not None or row["server_seconds"] is None:
        raise PlanError(f"{row['protocol']}: {row['refused'] or 'it has no plan'}")
    divided = SHARED + (_SHARED_OF_ONION if row["protocol"] == "onion" else ())
    scan = sum(step["seconds"] for step in row["steps"] if step["name"] in divided)
    rest = row["server_seconds"] - scan
    usable = machine.memory * 4 // 5
    count = shards or math.ceil(row["memory_bytes"] / usable)
    memory = math.ceil(row["memory_bytes"] / count)
    if memory > usable:
        raise PlanError(f"{count} shards have {memory} bytes each and a machine {usable} for them: give more shards")
    sent, (parts, part) = row["upload_bytes"] * count, part_bytes(row)
    received, each = parts + part * count, scan / count
    latency = each + rest + (sent + received) / machine.network + machine.round_trip
    workers = count * replicas
    machines = workers + 1
    # The tightest limit counts: the workers' scans, the coordinator's steps, or its network in one direction.
    rate = 1 / max(each / replicas, rest, sent / machine.network, received / machine.network)
    cost = machines * machine.price / 3600 / rate
    return Plan(
        row["protocol"] + ("" if row["keys"] is None else f" {row['keys']}"), count, workers, machines, memory, each, rest,
        sent, received, part, row["upload_bytes"], row["download_bytes"], latency, rate, cost,
    )  # fmt: skip


def plans(
    rows: Iterable[Mapping[str, Any]], machine: Machine, *, shards: int | None, replicas: int, servers: int
) -> list[Plan]:
    """Returns the plans of all possible protocols, ordered by the cost of a query."""
    found = []
    for row in rows:
        if row["refused"] is None and (servers == 2) == (row["protocol"] in _TWO_SERVERS):
            found.append(plan(row, machine, shards=shards, replicas=replicas))
    return sorted(found, key=lambda each: each.cost)


def stragglers(
    chosen: Plan, machine: Machine, counts: Iterable[int], *, replicas: int, load: float, queries: int
) -> dict[int, Outcome]:
    """Simulates a database on each number of shards, with stragglers. A shard's time is proportional to its part of the
    database. `load` is a fraction of the highest throughput."""
    return {
        count: simulate(model(chosen, machine, count, replicas=replicas, load=load), queries, seed=count) for count in counts
    }


def model(chosen: Plan, machine: Machine, shards: int, *, replicas: int, load: float) -> Model:
    """Returns the model of a plan's database on `shards` shards. Queries are single, as in the plan."""
    received = chosen.received + (shards - chosen.shards) * chosen.part
    made = Model(
        shards, replicas, 1.0, chosen.scan * chosen.shards / shards, chosen.rest, chosen.upload * shards / machine.network,
        received / machine.network, machine.round_trip,
    )  # fmt: skip
    return replace(made, queries_per_second=load * made.most_per_second())
