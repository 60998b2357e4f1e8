"""Measures of quality for inferences with dropped look-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from .traces import Traces

# Number of inferences whose vectors are compared at once.
_CHUNK = 1024


class Quality(Protocol):
    """Quality of a model with dropped look-ups."""

    name: str
    higher_is_better: bool
    traces: Traces
    """Look-ups of the inferences for judging. They must differ from the traces that designs are made from."""
    baseline: float
    """Quality with nothing dropped."""

    def of(self, found: np.ndarray) -> float:
        """Returns the quality if only the traces' look-ups with `found` True are retrieved."""


class ShareRetrieved:
    """The share of look-ups that are retrieved: a quality that needs no model."""

    name = "share retrieved"
    higher_is_better = True
    baseline = 1.0

    def __init__(self, traces: Traces):
        self.traces = traces

    def of(self, found: np.ndarray) -> float:
        return float(found.mean()) if len(found) else 1.0


Encode: TypeAlias = Callable[[np.ndarray, Traces], np.ndarray]
"""Function that makes a vector of each inference. Its arguments are the embedding of each look-up of the traces, with the
fallback for dropped ones, and the traces. It returns one row for each inference."""


def mean_of(embeddings: np.ndarray, traces: Traces) -> np.ndarray:
    """Returns the mean of each inference's embeddings; zeros for an inference without look-ups."""
    sums = np.zeros((len(traces), embeddings.shape[1]))
    np.add.at(sums, traces.owners(), embeddings)
    means: np.ndarray = sums / np.maximum(traces.lengths(), 1)[:, None]
    return means


class MeanCosine:
    """The mean cosine between the vectors of inferences with and without dropped look-ups."""

    name = "mean cosine"
    higher_is_better = True
    baseline = 1.0

    def __init__(
        self, traces: Traces, weight: np.ndarray, *, encode: Encode = mean_of, fallback: np.ndarray | None = None
    ) -> None:
        """Judges by the vectors that `encode` makes of embeddings, the rows of `weight`. A dropped look-up is replaced by
        `fallback`, which is zero by default, as in the `Layout`."""
        if weight.ndim != 2 or len(weight) != traces.rows:
            raise ValueError(f"traces of {traces.rows} rows, an embedding matrix of the shape {weight.shape}")
        self.traces = traces
        self._weight, self._encode = weight, encode
        self._fallback = np.zeros(weight.shape[1]) if fallback is None else np.asarray(fallback)
        if self._fallback.shape != weight.shape[1:]:
            raise ValueError(f"fallback has {weight.shape[1]} numbers: not the shape {self._fallback.shape}")
        self._true = self._vectors(np.ones(len(traces.values), bool))

    def of(self, found: np.ndarray) -> float:
        return float((self._true * self._vectors(found)).sum(axis=1).mean()) if len(self.traces) else 1.0

    def _vectors(self, found: np.ndarray) -> np.ndarray:
        """Returns the vectors of all inferences, scaled to length 1; zero vectors stay zero."""
        parts = [np.zeros((0, self._weight.shape[1]))]
        for start in range(0, len(self.traces), _CHUNK):
            offsets = self.traces.offsets[start : start + _CHUNK + 1]
            inside = slice(int(offsets[0]), int(offsets[-1]))
            part = Traces(self.traces.rows, self.traces.values[inside], offsets - offsets[0])
            embeddings = np.where(found[inside, None], self._weight[part.values], self._fallback).astype(np.float64)
            vectors = np.asarray(self._encode(embeddings, part), np.float64)
            if vectors.ndim != 2 or len(vectors) != len(part):
                raise ValueError(f"encode made the shape {vectors.shape} of {len(part)} inferences; a row for each is wanted")
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            parts.append(vectors / np.where(lengths > 0, lengths, 1))
        return np.concatenate(parts if len(parts) == 1 else parts[1:])


class NeighbourRecall(MeanCosine):
    """The share of an inference's nearest neighbours that remain nearest neighbours with dropped look-ups, as in a search by
    these vectors. Nearness is the cosine."""

    name = "recall of nearest neighbours"

    def __init__(
        self,
        traces: Traces,
        weight: np.ndarray,
        *,
        neighbours: int = 10,
        encode: Encode = mean_of,
        fallback: np.ndarray | None = None,
    ) -> None:
        """Judges as `MeanCosine` does, by `neighbours` neighbours. Neighbours keep their true vectors, as in a search
        index."""
        super().__init__(traces, weight, encode=encode, fallback=fallback)
        if not 1 <= neighbours < len(traces):
            raise ValueError(f"{len(traces)} inferences have up to {len(traces) - 1} neighbours: not {neighbours}")
        self._neighbours = neighbours
        self._nearest = self._nearest_of(self._true)

    def of(self, found: np.ndarray) -> float:
        nearest = self._nearest_of(self._vectors(found))
        kept = [len(np.intersect1d(before, after)) for before, after in zip(self._nearest, nearest, strict=True)]
        return float(np.mean(kept)) / self._neighbours

    def _nearest_of(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the inferences whose true vectors are nearest to each vector, without its own; the first of equal ones."""
        nearest = []
        for start in range(0, len(vectors), _CHUNK):
            cosines = vectors[start : start + _CHUNK] @ self._true.T
            own = np.arange(len(cosines))
            cosines[own, start + own] = -np.inf
            nearest.append(np.argsort(-cosines, axis=1, kind="stable")[:, : self._neighbours])
        return np.concatenate(nearest)
