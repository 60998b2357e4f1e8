"""Traces: the row numbers that inferences look up. Designs are made from traces and judged by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


def whole_numbers(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns numbers of embeddings as int64. Raises `TypeError` for numbers that are not integers, instead of rounding."""
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu" and ids.size:
        raise TypeError(f"numbers of embeddings are whole: not {ids.dtype}")
    return np.asarray(ids, np.int64)


@dataclass(frozen=True)
class Traces:
    """Look-ups of inferences in an embedding table of `rows` rows.

    Inference i looked up `values[offsets[i]:offsets[i + 1]]`, in this order, including repetitions.
    """

    rows: int
    values: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.ascontiguousarray(whole_numbers(self.values)))
        object.__setattr__(self, "offsets", np.ascontiguousarray(whole_numbers(self.offsets)))
        if self.rows < 1:
            raise ValueError(f"an embedding table has rows: not {self.rows}")
        ends = self.offsets
        if ends.ndim != 1 or len(ends) < 1 or ends[0] != 0 or ends[-1] != len(self.values) or (np.diff(ends) < 0).any():
            raise ValueError("offsets begin with 0, do not fall, and end with the number of values")
        if len(self.values) and not 0 <= self.values.min() <= self.values.max() < self.rows:
            raise IndexError(f"a look-up is outside of the table's {self.rows} rows")

    @classmethod
    def of(cls, rows: int, inferences: Iterable[Sequence[int] | np.ndarray]) -> Traces:
        """Makes traces from inferences given as sequences of row numbers."""
        runs = [whole_numbers(run).reshape(-1) for run in inferences]
        values = np.concatenate(runs) if runs else np.empty(0, np.int64)
        return cls(rows, values, np.concatenate([[0], np.cumsum([len(run) for run in runs], dtype=np.int64)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, inference: int) -> np.ndarray:
        return self.values[self.offsets[inference] : self.offsets[inference + 1]]

    def lengths(self) -> np.ndarray:
        """Returns the number of look-ups of each inference."""
        return np.diff(self.offsets)

    def owners(self) -> np.ndarray:
        """Returns the inference of each value."""
        return np.repeat(np.arange(len(self)), self.lengths())

    def counts(self) -> np.ndarray:
        """Returns the number of look-ups of each row."""
        return np.bincount(self.values, minlength=self.rows)

    def take(self, inferences: np.ndarray) -> Traces:
        """Returns the traces of some inferences, in the given order."""
        return Traces.of(self.rows, [self[i] for i in inferences])

    def sample(self, inferences: int, seed: int) -> Traces:
        """Draws at most `inferences` inferences without repetition, and keeps their order."""
        if inferences >= len(self):
            return self
        drawn = np.random.default_rng(seed).choice(len(self), inferences, replace=False)
        return self.take(np.sort(drawn))
