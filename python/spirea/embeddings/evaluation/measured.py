"""A server's time for a table in bins: predicted, and measured by the server itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ..._build import build
from ..._client import Client
from ..._server import Server
from ..costs import Spirea
from ..layout import Shape

# A table of 16 MiB, larger than most caches, and a table with much evaluation for each byte.
SHAPES = (Shape("long rows", 1 << 16, 256, 64, 1), Shape("short rows", 1 << 16, 32, 256, 1))


@dataclass(frozen=True)
class Measured:
    """Seconds of one server for a pass over a table, on one thread."""

    shape: Shape
    predicted: float
    measured: float
    """Least time of several passes, reported by the servers; the longer of the two servers' times."""

    def __str__(self) -> str:
        shape = self.shape
        return (
            f"{shape.rows:,} rows of {shape.row_bytes} bytes in {shape.bins} bins: {self.predicted * 1e3:.3g} ms predicted, "
            f"{self.measured * 1e3:.3g} ms measured"
        )


def measure_tables(model: Spirea, shapes: Sequence[Shape] = SHAPES, passes: int = 9) -> list[Measured]:
    """Builds tables of random rows, serves them by two servers of this process, and reads the servers' times."""
    return [_measured(model, shape, passes) for shape in shapes]


def _measured(model: Spirea, shape: Shape, passes: int) -> Measured:
    rows = np.random.default_rng(0).integers(0, 256, (shape.bins * shape.bin_rows, shape.row_bytes), np.uint8)
    with ExitStack() as stack:
        snapshot = build(rows, protocol=model.name, bins=shape.bins, name="measured", progress=False)
        servers = [stack.enter_context(Server(snapshot, party=party, threads=1, progress=False)) for party in (0, 1)]
        client = stack.enter_context(Client(servers, progress=False))
        taken = min(client.fetch_indices([]).costs.server_seconds for _ in range(passes))
    return Measured(shape, model.of_table(shape).server_seconds / shape.passes, taken)
