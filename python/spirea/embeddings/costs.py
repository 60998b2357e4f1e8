"""Costs of a design: the server's work and the bytes on the wire, in this project's scheme and in GPU-DPF's.

Communication counts both directions and both servers, as in the paper. Computation is that of one server. Passes over a table
are counted separately, although a server that answers them together reads the table once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .layout import Design, Shape

CHECKSUM_BYTES = 8


def record_bytes(row_bytes: int) -> int:
    """Returns the size of a row on servers: its length in 7 bits per byte, the row, and a checksum."""
    return -(-row_bytes.bit_length() // 7) + row_bytes + CHECKSUM_BYTES


@dataclass(frozen=True)
class Cost:
    """Costs of an inference."""

    prf_calls: int
    """Calls of the pseudorandom function on one server."""
    scanned_bytes: int
    """Bytes of tables that one server reads."""
    upload: int
    """Bytes that the client sends to all servers."""
    download: int
    """Bytes that the client receives from all servers."""
    server_seconds: float
    """Predicted time of one server, on one thread unless the rates say otherwise."""

    @property
    def communication(self) -> int:
        return self.upload + self.download

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.prf_calls + other.prf_calls,
            self.scanned_bytes + other.scanned_bytes,
            self.upload + other.upload,
            self.download + other.download,
            self.server_seconds + other.server_seconds,
        )


NOTHING = Cost(0, 0, 0, 0, 0.0)


class CostModel(Protocol):
    """Cost model of a scheme."""

    name: str
    binned: bool
    """True if a query can bring a row of each bin."""
    unit: str
    """Unit of computation."""

    def computation(self, cost: Cost) -> float:
        """Returns the computation of a cost, in the scheme's unit."""

    def of_table(self, shape: Shape) -> Cost:
        """Returns the cost of all queries to a table for one inference."""


def cost(model: CostModel, design: Design, rows: int, embedding_bytes: int) -> Cost:
    """Returns the cost of an inference under a design.

    Raises `ValueError` for bins in a scheme without bins, or for more bins than rows.
    """
    total = NOTHING
    for shape in design.shapes(rows, embedding_bytes):
        if shape.bins > 1 and not model.binned:
            raise ValueError(f"{model.name} has no bins: one bin, and a pass for each query")
        total += model.of_table(shape)
    return total


@dataclass(frozen=True)
class Rates:
    """A machine's rates, measured by the planner: seconds for the share of a row, and for each byte."""

    row_seconds: float
    byte_seconds: float
    source: str

    @classmethod
    def measure(cls, protocol: str = "dpf-xor", plan: Callable[[int, int], float] | None = None) -> Rates:
        """Computes the rates of this machine from the planner's predictions for long rows and for short ones.

        `plan(records, record_bytes)` returns the seconds of a query. The default is `spirea.plan`, which takes some seconds.
        """
        plan = plan or _server_seconds(protocol)
        records, short, long = 1 << 20, 32, 1024
        with_short, with_long = plan(records, short), plan(records, long)
        byte_seconds = max(with_long - with_short, 0.0) / (records * (long - short))
        row_seconds = max(with_short / records - short * byte_seconds, 0.0)
        return cls(row_seconds, byte_seconds, "measured here by the planner")


# Rates from bench/results/cpu-amd-epyc-zen3-avx2.jsonl. With these defaults, results are the same on every machine. `dpf-xor`:
# from the times for 1 GiB in rows of 32 bytes and of 256 bytes. `dpf-sum`: the time to expand shares of 32 bits for 2^20 rows,
# and the rest of the time for as many rows of 256 bytes.
_RECORDED = "recorded: one core of an AMD EPYC (Zen 3) with AVX2"
REFERENCE_RATES = {
    "dpf-xor": Rates(1.055e-10, 6.540e-11, _RECORDED),
    "dpf-sum": Rates(7.659e-10, 6.356e-11, _RECORDED),
}


def planned(protocol: str, servers: int) -> Callable[[int, int], dict[str, Any]]:
    """Returns a function from (records, record_bytes) to the planner's line for a protocol. Measures this machine once, on one
    thread."""
    import spirea

    rates = spirea.measure_rates(threads=1)

    def line(records: int, record_bytes: int) -> dict[str, Any]:
        lines = spirea.plan(records=records, record_bytes=record_bytes, servers=servers, threads=1, rates=rates, frame="dicts")
        found: dict[str, Any] = next(line for line in lines if line["protocol"] == protocol)
        if found.get("refused"):
            raise ValueError(f"{protocol} for {records} records of {record_bytes} bytes: {found['refused']}")
        return found

    return line


def _server_seconds(protocol: str) -> Callable[[int, int], float]:
    line = planned(protocol, 2)
    return lambda records, record_bytes: float(line(records, record_bytes)["server_seconds"])


class Spirea:
    """This project's two-server protocols (docs/protocols/dpf.md)."""

    binned = True
    unit = "ms of one server"
    # Rows whose shares fit into a leaf of 512 bits.
    LEAF_ROWS = {"dpf-xor": 512, "dpf-sum": 16}

    def __init__(self, protocol: str = "dpf-xor", rates: Rates | None = None):
        if protocol not in self.LEAF_ROWS:
            raise ValueError(f"protocols in bins are {', '.join(self.LEAF_ROWS)}: not {protocol}")
        self.name = protocol
        self.rates = rates or REFERENCE_RATES[protocol]

    def computation(self, cost: Cost) -> float:
        return cost.server_seconds * 1e3

    def leaves(self, rows: int) -> int:
        return -(-rows // self.LEAF_ROWS[self.name])

    def key_bytes(self, rows: int) -> int:
        """Returns the size of a key for a domain of `rows` rows: party, root, a correction and a bit for each level, and the
        correction of the leaf."""
        depth = (self.leaves(rows) - 1).bit_length()
        return 1 + 16 + 16 * depth + -(-depth // 8) + 64

    def key_calls(self, rows: int) -> int:
        """Returns the AES calls to evaluate a whole key: two for each node above the leaves, four for each leaf."""
        leaves = self.leaves(rows)
        depth = (leaves - 1).bit_length()
        # A level has only the nodes above existing leaves.
        inner = sum(-(-leaves // (1 << up)) for up in range(1, depth + 1))
        return 2 * inner + 4 * leaves

    def of_table(self, shape: Shape) -> Cost:
        record = record_bytes(shape.row_bytes)
        answer = -(-record // 4) * 4 if self.name == "dpf-sum" else record
        rows = shape.bins * shape.bin_rows
        # Bins do not share leaves. The shares of a bin's last leaf are all evaluated, also those without rows.
        shares = shape.bins * self.leaves(shape.bin_rows) * self.LEAF_ROWS[self.name]
        return Cost(
            prf_calls=shape.queries * self.key_calls(shape.bin_rows),
            scanned_bytes=shape.passes * rows * record,
            upload=2 * shape.queries * self.key_bytes(shape.bin_rows),
            download=2 * shape.queries * answer,
            server_seconds=shape.passes * (shares * self.rates.row_seconds + rows * record * self.rates.byte_seconds),
        )


# GPU-DPF's measurements, table V, for a table of 2^20 rows on a V100 and 512 queries at once: queries per second, and
# milliseconds until they are answered.
TABLE_FIVE = {
    "aes-128": (965, 591.0),
    "salsa20": (3640, 174.0),
    "salsa12": (5598, 113.0),
    "sha-256": (921, 659.0),
    "siphash": (7447, 82.3),
    "highwayhash": (1973, 320.0),
}
# Table III: Google's library with 32 threads and AES-128, 2^20 rows.
CPU_QUERIES_PER_SECOND = 21.2


class GpuDpf:
    """GPU-DPF's scheme (Lam and others, arXiv 2301.10904): trees down to single rows, two codewords of two blocks for
    each level, answers as long as an entry. Times are the paper's measurements for 2^20 rows, scaled by the number of rows."""

    binned = True
    unit = "PRF calls"

    def __init__(self, prf: str = "aes-128", device: str = "V100"):
        if prf not in TABLE_FIVE or device not in ("V100", "CPU"):
            raise ValueError(f"no figures of the paper for {prf} on {device}")
        if device == "CPU" and prf != "aes-128":
            raise ValueError("the paper measured its CPU baseline with AES-128 alone")
        self.name = f"gpu-dpf, {prf} on {'a V100' if device == 'V100' else '32 threads'}"
        at_a_million = TABLE_FIVE[prf][0] if device == "V100" else CPU_QUERIES_PER_SECOND
        self.rows_per_second = at_a_million * (1 << 20)

    def computation(self, cost: Cost) -> float:
        return float(cost.prf_calls)

    def key_bytes(self, rows: int) -> int:
        """Returns the size of a key, 64 bytes for each level: table III has 896 bytes for 2^14 rows and 1,408 for 2^22."""
        return 64 * self._depth(rows)

    def key_calls(self, rows: int) -> int:
        """Returns the PRF calls of a key: one for each node below the root of the tree with a leaf for each row."""
        return 2 * ((1 << self._depth(rows)) - 1) if rows > 1 else 1

    @staticmethod
    def _depth(rows: int) -> int:
        return max(math.ceil(math.log2(rows)), 1) if rows > 1 else 1

    def of_table(self, shape: Shape) -> Cost:
        rows = shape.queries * shape.bin_rows
        return Cost(
            prf_calls=shape.queries * self.key_calls(shape.bin_rows),
            scanned_bytes=rows * shape.row_bytes,
            upload=2 * shape.queries * self.key_bytes(shape.bin_rows),
            download=2 * shape.queries * shape.row_bytes,
            server_seconds=rows / self.rows_per_second,
        )


class OneServer:
    """A lattice protocol with one server, with the planner's costs: a look-up for each query, no bins."""

    binned = False
    unit = "ms of the server"

    def __init__(self, protocol: str, plan: Callable[[int, int], dict[str, Any]] | None = None):
        self.name = protocol
        self._plan = plan or planned(protocol, 1)
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def computation(self, cost: Cost) -> float:
        return cost.server_seconds * 1e3

    def of_table(self, shape: Shape) -> Cost:
        key = (shape.rows, shape.row_bytes)
        if key not in self._known:
            self._known[key] = self._plan(*key)
        line = self._known[key]
        return Cost(
            prf_calls=0,
            scanned_bytes=shape.passes * shape.rows * shape.row_bytes,
            upload=shape.passes * line["upload_bytes"],
            download=shape.passes * line["download_bytes"],
            server_seconds=shape.passes * line["server_seconds"],
        )
