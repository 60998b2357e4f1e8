"""Choice of the rows that an inference asks for: one for each bin and pass, to bring as many wanted embeddings as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .layout import StoredTable
from .traces import Traces


@dataclass(frozen=True)
class Retrieval:
    """Result of choosing rows for inferences."""

    found: np.ndarray
    """For each value of the traces, True if it is retrieved."""
    asked: tuple[Asked, ...]
    """For each table, the wanted rows that are asked for; all other queries are dummies."""
    source: np.ndarray
    """For each value, the index of the table that brings it, -1 if it is dropped."""

    @property
    def share(self) -> float:
        """Share of look-ups that are retrieved."""
        return float(self.found.mean()) if len(self.found) else 1.0


@dataclass(frozen=True)
class Asked:
    """Rows asked of one table: the inference, the row and the pass (`turn`) of each."""

    inference: np.ndarray
    row: np.ndarray
    turn: np.ndarray


def retrieve(tables: Sequence[StoredTable], traces: Traces) -> Retrieval:
    """Chooses the rows of every inference.

    The tables are asked in order, the hot one first. A value for which a table has no query left may come from the next table.
    Within a bin, rows that bring more of the inference's look-ups have priority, then lower row numbers.
    """
    owners = traces.owners()
    # Repeated look-ups are merged, and weighted by their number.
    keys, back, times = np.unique(owners * traces.rows + traces.values, return_inverse=True, return_counts=True)
    inference, wanted = keys // traces.rows, keys % traces.rows
    source = np.full(len(keys), -1, np.int8)
    asked = []
    for place, table in enumerate(tables):
        open_ = np.flatnonzero((source < 0) & (table.slots[wanted] >= 0))
        choose = _choose_exclusive if table.exclusive else _choose_copies
        rows, brought = choose(table, inference[open_], wanted[open_], times[open_])
        source[open_[brought]] = place
        asked.append(rows)
    source = source[back.reshape(-1)]
    return Retrieval(source >= 0, tuple(asked), source)


def _choose_exclusive(
    table: StoredTable, inference: np.ndarray, wanted: np.ndarray, times: np.ndarray
) -> tuple[Asked, np.ndarray]:
    """Chooses among rows that share no embedding: the best rows of each bin, for all inferences at once."""
    slots = table.slots[wanted].astype(np.int64)
    size = len(table.members)
    keys, back = np.unique(inference * size + slots, return_inverse=True)
    gain = np.bincount(back.reshape(-1), weights=times, minlength=len(keys))
    owner, row = keys // size, keys % size
    bins = row // table.bin_rows
    order = np.lexsort((row, -gain, bins, owner))
    group = (owner * table.bins + bins)[order]
    turn = np.arange(len(order)) - np.searchsorted(group, group)
    taken = order[turn < table.passes]
    kept = np.zeros(len(keys), bool)
    kept[taken] = True
    asked = Asked(owner[taken], row[taken], turn[turn < table.passes])
    return asked, kept[back.reshape(-1)]


def _choose_copies(
    table: StoredTable, inference: np.ndarray, wanted: np.ndarray, times: np.ndarray
) -> tuple[Asked, np.ndarray]:
    """Chooses among rows with copies, greedily and one inference at a time: the row with the most values still wanted."""
    brought = np.zeros(len(wanted), bool)
    owners, rows, turns = [], [], []
    for start, end in _runs(inference):
        # Sorts. Without an index, numpy 2.3 and later hash in C++, and take the interpreter's lock again in a destructor: if
        # the interpreter exits meanwhile, the process aborts.
        slots, _ = np.unique(table.slots[wanted[start:end]], return_index=True)
        covers = (table.members[slots][:, :, None] == wanted[start:end]).any(axis=1)
        worth = times[start:end].astype(np.float64)
        left = np.full(table.bins, table.passes)
        while True:
            gain = covers @ worth
            gain[left[slots // table.bin_rows] == 0] = 0
            best = int(gain.argmax()) if len(gain) else 0
            if not len(gain) or gain[best] == 0:
                break
            owners.append(inference[start])
            rows.append(slots[best])
            bin_ = slots[best] // table.bin_rows
            turns.append(table.passes - left[bin_])
            left[bin_] -= 1
            brought[start:end] |= covers[best]
            worth[covers[best]] = 0
    return Asked(*(np.array(each, np.int64) for each in (owners, rows, turns))), brought


def _runs(sorted_values: np.ndarray) -> Iterable[tuple[int, int]]:
    edges = (np.flatnonzero(np.diff(sorted_values)) + 1).tolist()
    return zip([0, *edges], [*edges, len(sorted_values)]) if len(sorted_values) else ()
