"""The look-ups of `torch.nn.Embedding` and `torch.nn.EmbeddingBag`, fetched privately, on numpy arrays."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .fetchers import RowFetcher, Traffic, every
from .layout import Layout, StoredTable
from .retrieval import retrieve
from .traces import Traces, whole_numbers

if TYPE_CHECKING:
    from types import TracebackType


@dataclass(frozen=True)
class Report:
    """Report on an inference, or on all together. It must stay on the client, because it depends on the look-ups."""

    inferences: int = 0
    wanted: int = 0
    """Number of look-ups, without those of the padding index."""
    dropped: int = 0
    """Number of look-ups dropped because no query was left for them."""

    @property
    def share(self) -> float:
        """Share of look-ups that were retrieved."""
        return 1.0 - self.dropped / self.wanted if self.wanted else 1.0

    def __add__(self, other: Report) -> Report:
        return Report(self.inferences + other.inferences, self.wanted + other.wanted, self.dropped + other.dropped)


class PrivateRows:
    """Rows of an embedding matrix, fetched privately. Each call is one inference and sends the same messages. Calls of several
    threads run one after another. Close the connections with `close`, or use it as a context manager."""

    def __init__(self, layout: Layout, fetchers: Mapping[str, RowFetcher]):
        missing = [table.name for table in layout.tables if table.name not in fetchers]
        if missing:
            raise ValueError(f"there is nothing to fetch the table {missing[0]} from")
        self.layout = layout
        self.last = Report()
        self.total = Report()
        self._fetchers = [fetchers[table.name] for table in layout.tables]
        # Held while an inference's messages are exchanged and counted.
        self._turn = threading.Lock()

    def __enter__(self) -> PrivateRows:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Rows cannot be fetched afterwards."""
        for fetcher in self._fetchers:
            fetcher.close()

    @property
    def traffic(self) -> list[Traffic]:
        """Messages of each table."""
        return [fetcher.traffic for fetcher in self._fetchers]

    def fetch(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fetches the embeddings of one inference. Returns the embeddings, and an array that is True where one was retrieved.
        The others are the fallback.

        Raises `IndexError` for a number outside of the table and `TypeError` for numbers that are not integers, before
        anything is sent; and the exceptions of the fetchers.
        """
        layout = self.layout
        ids = whole_numbers(ids).reshape(-1)
        if len(ids) and not 0 <= ids.min() <= ids.max() < layout.rows:
            raise IndexError(f"an embedding's number is outside of the table's {layout.rows} rows")
        vectors = np.tile(layout.fallback, (len(ids), 1))
        found = np.zeros(len(ids), bool)
        if layout.padding_idx is not None:
            found = ids == layout.padding_idx
            vectors[found] = layout.padding_row
        wanted = np.flatnonzero(~found)
        chosen = retrieve(layout.tables, Traces(layout.rows, ids[wanted], np.array([0, len(wanted)])))
        asked = [dummies(table) for table in layout.tables]
        for table, chosen_of_it, rows in zip(layout.tables, chosen.asked, asked):
            rows[chosen_of_it.turn, chosen_of_it.row // table.bin_rows] = chosen_of_it.row
        report = Report(1, len(wanted), int((~chosen.found).sum()))
        with self._turn:
            # Between the first message and the last, nothing depends on the wanted rows or on an answer.
            answers = every(partial(fetcher.fetch, rows) for fetcher, rows in zip(self._fetchers, asked))
            brought = [self._embeddings(answer, rows) for answer, rows in zip(answers, asked)]
            self.last = report
            self.total += report
        for place, (table, rows) in enumerate(zip(layout.tables, asked)):
            held = table.members[rows.reshape(-1)]
            for at in wanted[chosen.source == place]:
                row, member = np.nonzero(held == ids[at])
                vectors[at] = brought[place][row[0], member[0]]
        found[wanted] = chosen.found
        return vectors, found

    def _embeddings(self, fetched: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Converts the bytes of rows to embeddings: an array of rows x members x numbers."""
        layout = self.layout
        width = (layout.design.neighbours + 1) * layout.embedding_bytes
        if fetched.shape != (*asked.shape, width) or fetched.dtype != np.uint8:
            raise ValueError(f"rows of {width} bytes were asked for, and {fetched.shape} came: another table's")
        return np.ascontiguousarray(fetched).view(layout.dtype).reshape(asked.size, -1, layout.dim)


def dummies(table: StoredTable) -> np.ndarray:
    """Draws a uniformly random row of each bin for each pass, with randomness from the operating system."""
    words = np.frombuffer(os.urandom(8 * table.queries), np.uint64).reshape(table.passes, table.bins)
    # The bias of a remainder of 64 bits is below 2^-32 for any table, and servers do not see these rows.
    return (words % np.uint64(table.bin_rows)).astype(np.int64) + np.arange(table.bins) * table.bin_rows


class Embedding:
    """`torch.nn.Embedding` with privately fetched rows, for an array of row numbers of any shape.

    A call is one inference. The client holds the embedding of the layout's `padding_idx`. `max_norm` and `norm_type` limit the
    norm of results, as in torch. The result of a dropped look-up is the layout's fallback.
    """

    def __init__(self, rows: PrivateRows, *, max_norm: float | None = None, norm_type: float = 2.0):
        self.rows = rows
        self.max_norm = max_norm
        self.norm_type = norm_type

    @property
    def padding_idx(self) -> int | None:
        return self.rows.layout.padding_idx

    def __call__(self, input: np.ndarray) -> np.ndarray:
        ids = whole_numbers(input)
        vectors, _ = self.rows.fetch(ids)
        return limited(vectors, self.max_norm, self.norm_type).reshape(*ids.shape, self.rows.layout.dim)


class EmbeddingBag:
    """`torch.nn.EmbeddingBag` with privately fetched rows: sums, means or maxima of bags of embeddings.

    A call is one inference, whatever its number of bags. Dropped look-ups are left out of their bag, like the padding index.
    """

    def __init__(
        self,
        rows: PrivateRows,
        *,
        mode: str = "mean",
        max_norm: float | None = None,
        norm_type: float = 2.0,
        include_last_offset: bool = False,
    ):
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"mode is sum, mean or max: not {mode}")
        self.rows = rows
        self.mode = mode
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.include_last_offset = include_last_offset

    @property
    def padding_idx(self) -> int | None:
        return self.rows.layout.padding_idx

    def __call__(
        self,
        input: np.ndarray,
        offsets: np.ndarray | None = None,
        per_sample_weights: np.ndarray | None = None,
    ) -> np.ndarray:
        ids = whole_numbers(input)
        ends = bag_ends(ids, offsets, self.include_last_offset)
        if per_sample_weights is not None:
            if self.mode != "sum":
                raise ValueError(f"per_sample_weights are for the mode sum: not {self.mode}")
            if np.shape(per_sample_weights) != ids.shape:
                raise ValueError("per_sample_weights have the shape of the input")
        ids = ids.reshape(-1)
        vectors, found = self.rows.fetch(ids)
        vectors = limited(vectors, self.max_norm, self.norm_type)
        if per_sample_weights is not None:
            vectors = vectors * np.asarray(per_sample_weights, vectors.dtype).reshape(-1, 1)
        used = found if self.padding_idx is None else found & (ids != self.padding_idx)
        bags = np.zeros((len(ends) - 1, vectors.shape[1]), vectors.dtype)
        for bag, (start, end) in enumerate(itertools.pairwise(ends)):
            held = vectors[start:end][used[start:end]]
            if len(held):
                bags[bag] = getattr(held, self.mode)(axis=0)
        return bags


def bag_ends(ids: np.ndarray, offsets: np.ndarray | None, include_last_offset: bool) -> np.ndarray:
    """Returns the start of each bag and the end of the last, by torch's rules. `include_last_offset` is ignored for an input
    of two dimensions, which has no offsets."""
    if ids.ndim == 2:
        if offsets is not None:
            raise ValueError("an input of two dimensions has its bags in its rows, and no offsets")
        return np.arange(ids.shape[0] + 1, dtype=np.int64) * int(ids.shape[1])
    if ids.ndim != 1:
        raise ValueError(f"an input of bags has one or two dimensions: not {ids.ndim}")
    if offsets is None:
        raise ValueError("an input of one dimension needs offsets")
    offsets = whole_numbers(offsets)
    if offsets.ndim != 1 or (len(offsets) and offsets[0] != 0):
        raise ValueError("offsets have one dimension and begin with 0")
    ends = offsets if include_last_offset else np.append(offsets, len(ids))
    if not len(ends) or (np.diff(ends) < 0).any() or ends[-1] > len(ids):
        raise ValueError("offsets do not fall, and end within the input")
    return ends


def limited(vectors: np.ndarray, max_norm: float | None, norm_type: float) -> np.ndarray:
    """Scales vectors down to a norm of at most `max_norm`."""
    if max_norm is None:
        return vectors
    norms = np.linalg.norm(vectors, ord=norm_type, axis=1, keepdims=True)
    held = np.where(norms > max_norm, vectors * (max_norm / (norms + 1e-7)), vectors)
    return np.asarray(held, vectors.dtype)
