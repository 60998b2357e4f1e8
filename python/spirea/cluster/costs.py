"""What a cluster for a database takes: machines, memory, network, latency, and the cost of a query.

The planner's rows say what each protocol does for one query of the whole database, from rates that are measured on this
machine. The scan is divided by shards; what follows it is the coordinator's. A batch's queries share one scan, up to what
the processor can multiply meanwhile: that gain is not assumed here, so throughput is that of queries one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    sent: int
    """Bytes from the coordinator to all workers for a query, which goes to every shard."""
    received: int
    """Bytes of all workers' parts of its answer."""
    part: int
    """Bytes of these that one more shard adds."""
    upload: int
    download: int
    latency: float
    queries_per_second: float
    cost: float
    """Of a query, in the currency of the machine's price, with all machines busy."""

    @property
    def wire(self) -> int:
        """Bytes between the coordinator and all workers for a query."""
        return self.sent + self.received


def part_bytes(row: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of all shards' parts of an answer: so many, and so many more of each shard (docs/decisions/0012-shards.md)."""
    if row["protocol"] in _TWO_SERVERS or row["protocol"] == "onion":
        return 0, int(row["download_bytes"])
    return 4 * int(row["shape"][0]), 4 * 64


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
    sent, (parts, part) = row["upload_bytes"] * count, part_bytes(row)
    received, each = parts + part * count, scan / count
    latency = each + rest + (sent + received) / machine.network + machine.round_trip
    workers = count * replicas
    machines = workers + 1
    # Whichever is reached first: the workers' scans, the coordinator's steps, its network in either direction.
    rate = 1 / max(each / replicas, rest, sent / machine.network, received / machine.network)
    cost = machines * machine.price / 3600 / rate
    return Plan(
        row["protocol"] + ("" if row["keys"] is None else f" {row['keys']}"), count, workers, machines, memory, each, rest,
        sent, received, part, row["upload_bytes"], row["download_bytes"], latency, rate, cost,
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
    """The same database on more and more shards, each with as much time as its part takes, with stragglers; `load` is the
    part of what whatever is first busy can do."""
    return {
        count: simulate(model(chosen, machine, count, replicas=replicas, load=load), queries, seed=count) for count in counts
    }


def model(chosen: Plan, machine: Machine, shards: int, *, replicas: int, load: float) -> Model:
    """What is simulated of a plan's database on so many shards, queries one by one as in the plan."""
    received = chosen.received + (shards - chosen.shards) * chosen.part
    made = Model(
        shards, replicas, 1.0, chosen.scan * chosen.shards / shards, chosen.rest, chosen.upload * shards / machine.network,
        received / machine.network, machine.round_trip,
    )  # fmt: skip
    return replace(made, queries_per_second=load * made.most_per_second())
