"""What a cluster for a database takes: machines, memory, network, latency, and the cost of a query.

The planner's rows say what each protocol does for one query of the whole database, from rates that are measured on this
machine. The scan is divided by shards; what follows it is the coordinator's. A batch's queries share one scan, up to what
the processor can multiply meanwhile: that gain is not assumed here, so throughput is that of queries one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import PlanError
from .simulation import Model, Outcome, simulate

SHARED = ("scalar_fold", "share_fold")
"""Steps that shards divide; of `onion` the fold of polynomials and the tournament are divided too."""
_SHARED_OF_ONION = ("poly_fold", "rgsw_fold")
_TWO_SERVERS = ("dpf-xor", "dpf-sum")


@dataclass(frozen=True)
class Machine:
    """What one machine has, and costs an hour."""

    memory: int
    network: float
    """Bytes a second."""
    round_trip: float
    price: float


@dataclass(frozen=True)
class Workload:
    """A database: how many records, of how many bytes."""

    name: str
    records: int
    record_bytes: int


WORKLOADS = (
    Workload("288 GB", 1_000_000_000, 288),
    Workload("384 GB", 375_000_000, 1024),
    Workload("1.25 TB", 1_220_703_125, 1024),
)
"""Of IVE's Table III. The first has records of 288 bytes there; the text says no size for the others, and 1,024 is ours."""


@dataclass(frozen=True)
class Plan:
    """What a protocol takes on a cluster."""

    protocol: str
    shards: int
    workers: int
    machines: int
    memory: int
    """Bytes of a worker."""
    scan: float
    """Seconds of a worker for a query."""
    rest: float
    """Seconds of the coordinator for a query."""
    wire: int
    """Bytes between the coordinator and all workers for a query."""
    upload: int
    download: int
    latency: float
    queries_per_second: float
    cost: float
    """Of a query, in the currency of the machine's price, with all machines busy."""


def wire_bytes(row: Mapping[str, Any], shards: int) -> int:
    """Bytes between the coordinator and the workers for a query: the query to each, and their parts of an answer
    (docs/decisions/0012-shards.md)."""
    query = row["upload_bytes"] * shards
    rows = row["shape"][0]
    if row["protocol"] in _TWO_SERVERS or row["protocol"] == "onion":
        return int(query + row["download_bytes"] * shards)
    return int(query + 4 * (rows + 64 * shards))


def plan(row: Mapping[str, Any], machine: Machine, *, shards: int | None, replicas: int) -> Plan:
    """The plan of one of the planner's rows. Without `shards`, as many as the machines' memory asks for, four fifths of it
    for the database.

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
    wire = wire_bytes(row, count)
    each = scan / count
    latency = each + rest + wire / machine.network + machine.round_trip
    workers = count * replicas
    machines = workers + 1
    # Whichever is reached first: the workers' scans, the coordinator's steps, its network.
    rate = min(replicas / each, 1 / rest if rest > 0 else math.inf, machine.network / wire)
    cost = machines * machine.price / 3600 / rate
    return Plan(
        row["protocol"] + ("" if row["keys"] is None else f" {row['keys']}"), count, workers, machines, memory, each, rest,
        wire, row["upload_bytes"], row["download_bytes"], latency, rate, cost,
    )  # fmt: skip


def plans(
    rows: Iterable[Mapping[str, Any]], machine: Machine, *, shards: int | None, replicas: int, servers: int
) -> list[Plan]:
    """Those of all protocols that can be had, the cheapest query first."""
    found = []
    for row in rows:
        if row["refused"] is None and (servers == 2) == (row["protocol"] in _TWO_SERVERS):
            found.append(plan(row, machine, shards=shards, replicas=replicas))
    return sorted(found, key=lambda each: each.cost)


def stragglers(
    chosen: Plan, machine: Machine, counts: Iterable[int], *, replicas: int, load: float, queries: int
) -> dict[int, Outcome]:
    """The same database on more and more shards, each with as much time as its part takes, with stragglers."""
    whole = chosen.scan * chosen.shards
    outcomes = {}
    for count in counts:
        scan = whole / count
        model = Model(count, replicas, load * replicas / scan, scan, chosen.rest + machine.round_trip)
        outcomes[count] = simulate(model, queries, seed=count)
    return outcomes
