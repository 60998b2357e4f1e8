"""Qualities of inferences of which some look-ups are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from .traces import Traces

# Inferences whose vectors are compared at once.
_CHUNK = 1024


class Quality(Protocol):
    """The quality of a model of which some look-ups are dropped."""

    name: str
    higher_is_better: bool
    traces: Traces
    """The look-ups of the inferences that it is judged by: not those that designs are made from."""
    baseline: float
    """Its quality when nothing is dropped."""

    def of(self, found: np.ndarray) -> float:
        """Its quality where only these of the traces' look-ups are retrieved."""


class ShareRetrieved:
    """The share of look-ups that is retrieved: what there is to go by without a model."""

    name = "share retrieved"
    higher_is_better = True
    baseline = 1.0

    def __init__(self, traces: Traces):
        self.traces = traces

    def of(self, found: np.ndarray) -> float:
        return float(found.mean()) if len(found) else 1.0


Encode: TypeAlias = Callable[[np.ndarray, Traces], np.ndarray]
"""Makes a vector of each inference: takes the embedding of each of the traces' look-ups, those that were dropped replaced, and
the traces; returns as many rows as there are inferences."""


def mean_of(embeddings: np.ndarray, traces: Traces) -> np.ndarray:
    """The mean of each inference's embeddings; zeros for one without look-ups."""
    sums = np.zeros((len(traces), embeddings.shape[1]))
    np.add.at(sums, traces.owners(), embeddings)
    means: np.ndarray = sums / np.maximum(traces.lengths(), 1)[:, None]
    return means


class MeanCosine:
    """The mean cosine of inferences' vectors and of what they are when nothing is dropped."""

    name = "mean cosine"
    higher_is_better = True
    baseline = 1.0

    def __init__(
        self, traces: Traces, weight: np.ndarray, *, encode: Encode = mean_of, fallback: np.ndarray | None = None
    ) -> None:
        """Judges by the vectors that `encode` makes of the rows of `weight`, one for each embedding. A dropped look-up is
        `fallback`, zeros without it, as in the `Layout`."""
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
        """The vectors of all inferences, of length 1; zeros stay zeros."""
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
    """The share of an inference's nearest others, by the cosine of what they are when nothing is dropped, that is still among
    as many nearest when look-ups are dropped: what a search by these vectors keeps."""

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
        """As `MeanCosine`, of so many neighbours. The others keep their true vectors, as those of a search's index do."""
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
        """The inferences whose true vectors are nearest to each of these, itself left out; of equal ones the first."""
        nearest = []
        for start in range(0, len(vectors), _CHUNK):
            cosines = vectors[start : start + _CHUNK] @ self._true.T
            own = np.arange(len(cosines))
            cosines[own, start + own] = -np.inf
            nearest.append(np.argsort(-cosines, axis=1, kind="stable")[:, : self._neighbours])
        return np.concatenate(nearest)
