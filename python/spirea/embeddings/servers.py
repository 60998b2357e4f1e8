"""Embedding tables on servers: snapshots of a layout's tables, and clients that fetch from them.

snapshots = build_tables(layout, weight)
with Server([*snapshots.values()], party=0) as zero, Server([*snapshots.values()], party=1) as one:
    with connect(layout, [zero, one]) as rows:
        vectors, found = rows.fetch(ids)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._build import build
from .._client import Address, Client
from .._records import Fetched, Records
from .._snapshot import Snapshot
from ..errors import OptionError, VersionError
from .costs import Spirea
from .fetchers import RowFetcher, Traffic, check_rows, every
from .layout import Layout, StoredTable, as_array
from .lookups import PrivateRows

if TYPE_CHECKING:
    import torch


def database(name: str, table: StoredTable) -> str:
    """Returns the database name of a table of the embeddings `name`."""
    return f"{name}-{table.name}"


def build_tables(
    layout: Layout,
    weight: np.ndarray | torch.Tensor,
    out: str | os.PathLike[str] | None = None,
    *,
    protocol: str = "dpf-xor",
    name: str = "embeddings",
    **options: Any,
) -> dict[str, Snapshot]:
    """Builds a snapshot of each of a layout's tables, below the folder `out`. Returns the snapshots by the tables' names.

    `dpf-xor` and `dpf-sum` are served by two servers, which scan a table once for all of its bins. Under any other protocol,
    an embedding table has one bin. `options` are those of `spirea.build`.

    Raises `OptionError` for bins under another protocol, and for a matrix that does not fit the layout; and the
    exceptions of `spirea.build`.
    """
    weight = as_array(weight)
    if weight.shape != (layout.rows, layout.dim) or weight.dtype != layout.dtype:
        raise OptionError(
            f"the layout is of {layout.rows} x {layout.dim} numbers of {layout.dtype}: "
            f"not of {' x '.join(map(str, weight.shape))} of {weight.dtype}"
        )
    binned = [table for table in layout.tables if table.bins > 1]
    if binned and protocol not in Spirea.LEAF_ROWS:
        raise OptionError(
            f"the {binned[0].name} table has {binned[0].bins} bins, and embeddings have none under {protocol}: choose "
            f"a design with one bin and a pass for each query, or {' or '.join(Spirea.LEAF_ROWS)}"
        )
    snapshots = {}
    for table in layout.tables:
        folder = None if out is None else Path(out) / database(name, table)
        snapshots[table.name] = build(
            table.stored(weight), folder, protocol=protocol, bins=table.bins, name=database(name, table), **options
        )
    return snapshots


class ServerFetcher:
    """Fetches rows of a stored table through a client of one or two servers. Every fetch has the same number of queries."""

    def __init__(self, table: StoredTable, client: Client):
        if client.keyed or client.rows != len(table.members):
            raise OptionError(f"{client.name} is not the {table.name} table of the layout, of {len(table.members)} rows")
        if client.bins != table.bins:
            raise OptionError(f"{client.name} has {client.bins} bins, and the layout {table.bins}: build it for this layout")
        self.traffic = Traffic()
        self._table = table
        self._client = client
        self._version = client.version

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        check_rows(self._table, rows)
        if self._table.bins == 1:
            # One query for each pass, in as few requests as possible: the server scans the table once for a request.
            found: Sequence[Records | Fetched] = [self._client.get_indices(rows[:, 0].tolist())]
        else:
            found = every(partial(self._client.fetch_indices, row_of_each_bin.tolist()) for row_of_each_bin in rows)
        if self._client.version != self._version:
            raise VersionError(
                f"{self._client.name} is not the table any more that this layout was made for: connect with the layout of "
                "the new one"
            )
        for each in found:
            self.traffic.add(each.costs.sent_bytes, each.costs.received_bytes)
            self.traffic.keys += each.costs.keys_bytes
        values = b"".join(bytes(record) for each in found for record in each if record)
        fetched = np.frombuffer(values, np.uint8)
        if fetched.size % rows.size:
            raise OptionError(f"{self._client.name} has not as many bytes in each row: build it for this layout")
        return fetched.reshape(*rows.shape, -1)

    def close(self) -> None:
        self._client.close()


def connect(layout: Layout, servers: Address | Sequence[Address], *, name: str = "embeddings", **options: Any) -> PrivateRows:
    """Connects to the servers of a matrix's tables: one address, or two for `dpf-xor` and `dpf-sum`. `options` are those of
    `spirea.Client`.

    Raises `OptionError` for tables of another layout, and the exceptions of the client.
    """
    with contextlib.ExitStack() as opened:
        fetchers: dict[str, RowFetcher] = {}
        for table in layout.tables:
            client = opened.enter_context(Client(servers, database(name, table), **options))
            fetchers[table.name] = ServerFetcher(table, client)
        opened.pop_all()
    return PrivateRows(layout, fetchers)
