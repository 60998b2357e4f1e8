"""Joint storage of rows that occur together (GPU-DPF, section IV-B).

A stored row holds `neighbours + 1` embeddings, and one query brings all of them. The choice depends on training traces only,
never on a client's look-ups.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from .traces import Traces

# Most distinct rows of an inference among which pairs are counted; the number of pairs grows with the square.
PAIRED = 64


class Collocation(str, Enum):
    """Ways in which embeddings share stored rows."""

    COPIES = "copies"
    """The paper's way: a stored row for each embedding, followed by copies of its most frequent companions. The number of rows
    is unchanged, and each is `neighbours + 1` times as long."""
    GROUPS = "groups"
    """Each embedding is in exactly one stored row, together with companions. There are `neighbours + 1` times fewer rows, each
    as many times longer, so a server reads no more bytes and evaluates fewer shares."""


def companions(traces: Traces, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the pairs of rows that inferences looked up together, as arrays: row, other row, number of inferences.

    Pairs are ordered by row, then by decreasing frequency, then by the other row. There are at most `most` for each row.
    """
    rows, others = [], []
    for inference in range(len(traces)):
        distinct = np.unique(traces[inference])
        if len(distinct) > PAIRED:
            # Chooses rows evenly and without randomness.
            distinct = distinct[np.linspace(0, len(distinct) - 1, PAIRED).astype(np.int64)]
        first, second = np.nonzero(~np.eye(len(distinct), dtype=bool))
        rows.append(distinct[first])
        others.append(distinct[second])
    if not rows:
        return (np.empty(0, np.int64),) * 3
    keys, times = np.unique(np.concatenate(rows) * traces.rows + np.concatenate(others), return_counts=True)
    row, other = keys // traces.rows, keys % traces.rows
    order = np.lexsort((other, -times, row))
    row, other, times = row[order], other[order], times[order]
    starts = np.searchsorted(row, row)
    kept = np.arange(len(row)) - starts < most
    return row[kept], other[kept], times[kept]


def collocate(
    ids: np.ndarray, weights: np.ndarray, pairs: tuple[np.ndarray, ...], neighbours: int, style: Collocation
) -> np.ndarray:
    """Returns the embeddings of each stored row: an array of their numbers, `neighbours + 1` wide, with -1 for empty places.

    `ids` are the embeddings to store, `weights` the look-ups of each embedding of the whole table, and `pairs` is the result
    of `companions`.
    """
    if neighbours == 0:
        return ids[:, None].astype(np.int32)
    row, other, _ = pairs
    here = np.zeros(len(weights), bool)
    here[ids] = True
    kept = here[row] & here[other]
    row, other = row[kept], other[kept]
    if style is Collocation.COPIES:
        members = np.full((len(ids), neighbours + 1), -1, np.int32)
        members[:, 0] = ids
        at = np.full(len(weights), -1, np.int64)
        at[ids] = np.arange(len(ids))
        place = np.arange(len(row)) - np.searchsorted(row, row)
        near = place < neighbours
        members[at[row[near]], place[near] + 1] = other[near]
        return members
    return _groups(ids, weights, row, other, neighbours + 1)


def _groups(ids: np.ndarray, weights: np.ndarray, row: np.ndarray, other: np.ndarray, width: int) -> np.ndarray:
    """Makes a group around the most frequent embedding without a group, repeatedly. Ungrouped embeddings fill the empty
    places."""
    free = np.zeros(len(weights), bool)
    free[ids] = True
    starts = np.searchsorted(row, np.arange(len(weights) + 1))
    order = ids[np.lexsort((ids, -weights[ids]))]
    groups = np.full((-(-len(ids) // width), width), -1, np.int64)
    made = 0
    # An embedding without companions starts no group. In a large table most embeddings have none.
    for leader in order[np.diff(starts)[order] > 0]:
        near = other[starts[leader] : starts[leader + 1]]
        near = near[free[near]][: width - 1]
        if not free[leader] or not len(near) or made == len(groups):
            continue
        groups[made, 0] = leader
        groups[made, 1 : len(near) + 1] = near
        free[groups[made, : len(near) + 1]] = False
        made += 1
    rest = order[free[order]]
    groups[np.nonzero(groups < 0)[0][: len(rest)], np.nonzero(groups < 0)[1][: len(rest)]] = rest
    return groups.astype(np.int32)
