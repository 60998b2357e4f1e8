"""Fetchers of rows: a narrow protocol for servers of any kind, and an implementation without privacy for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from .costs import Spirea
from .layout import Shape, StoredTable

_Answer = TypeVar("_Answer")


@dataclass
class Traffic:
    """Exchanged messages in order, with the bytes sent and received of each. The messages to two servers for the same rows
    count as one."""

    messages: list[tuple[int, int]] = field(default_factory=list)
    keys: int = 0
    """Bytes of evaluation keys, sent to a protocol's only server once for each connection; not part of `messages`."""

    def add(self, sent: int, received: int) -> None:
        self.messages.append((sent, received))

    @property
    def sent(self) -> int:
        return sum(sent for sent, _ in self.messages)

    @property
    def received(self) -> int:
        return sum(received for _, received in self.messages)


def every(requests: Iterable[Callable[[], _Answer]]) -> list[_Answer]:
    """Makes all requests, even if some fail: the number of requests must not depend on answers.

    After the last request, raises the exception of the first that failed.
    """
    answers, failures = [], []
    for request in requests:
        try:
            answers.append(request())
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return answers


class RowFetcher(Protocol):
    """Protocol of objects that fetch rows of one stored table, privately or not."""

    traffic: Traffic

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Fetches rows of the table.

        `rows` are row numbers within the table, an array of `passes` x `bins`; column b must lie in bin b. Returns the rows as
        bytes in the same order, an array of `passes` x `bins` x bytes of a row.
        """

    def close(self) -> None:
        """Releases the connections to servers. The fetcher cannot be used afterwards."""


class PlainFetcher:
    """Fetches rows from memory, WITHOUT privacy: for tests, and for counting bytes by the formulas of
    docs/protocols/dpf.md."""

    def __init__(self, table: StoredTable, stored: np.ndarray, model: Spirea | None = None):
        self.traffic = Traffic()
        self._table = table
        self._stored = stored
        shape = Shape(table.name, len(stored), stored.shape[1], table.bins, 1)
        self._cost = (model or Spirea()).of_table(shape)

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        check_rows(self._table, rows)
        for _ in rows:
            self.traffic.add(self._cost.upload, self._cost.download)
        return np.asarray(self._stored[rows])

    def close(self) -> None:
        """Does nothing: there is no connection."""


def check_rows(table: StoredTable, rows: np.ndarray) -> None:
    """Checks that each pass asks for one row of each bin. Raises `ValueError`."""
    if rows.shape != (table.passes, table.bins) or (rows // table.bin_rows != np.arange(table.bins)).any():
        raise ValueError("one row of each bin in each pass")
