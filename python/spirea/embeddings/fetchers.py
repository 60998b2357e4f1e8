"""What brings rows: a narrow protocol that servers of any kind stand behind, and one without privacy for tests."""

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
    """Messages that were exchanged: the bytes sent and received of each, in order. Those to two servers for the same rows
    are one."""

    messages: list[tuple[int, int]] = field(default_factory=list)
    keys: int = 0
    """Bytes of evaluation keys that one server was sent beside, once for a connection."""

    def add(self, sent: int, received: int) -> None:
        self.messages.append((sent, received))

    @property
    def sent(self) -> int:
        return sum(sent for sent, _ in self.messages)

    @property
    def received(self) -> int:
        return sum(received for _, received in self.messages)


def every(requests: Iterable[Callable[[], _Answer]]) -> list[_Answer]:
    """Makes all requests, whatever comes of each: how many are sent must not depend on answers.

    Raises what the first that failed raised, after the last one.
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
    """Brings rows of one stored table, privately or not."""

    traffic: Traffic

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """The rows of a table in the order of the request: row numbers within the table, an array of
        `passes` x `bins` whose column b lies in bin b; bytes, `passes` x `bins` x bytes of a row."""

    def close(self) -> None:
        """Lets go of what it has of a server. It cannot be used any more."""


class PlainFetcher:
    """Rows from memory, WITHOUT privacy: for tests and for counting bytes by the formulas of docs/protocols/dpf.md."""

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
        """Nothing is held."""


def check_rows(table: StoredTable, rows: np.ndarray) -> None:
    """That a row of each bin is asked for in each pass, or a `ValueError`."""
    if rows.shape != (table.passes, table.bins) or (rows // table.bin_rows != np.arange(table.bins)).any():
        raise ValueError("one row of each bin in each pass")
