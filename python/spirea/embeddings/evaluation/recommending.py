"""Recommenders: a bag of the user's history, the offered item, and two layers that predict the outcome."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..traces import Traces
from .data import Examples
from .training import Adam, Table, sigmoid, uniform


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Returns the area under the ROC curve: the probability that an example with label 1 has a higher score than one with
    label 0. Equal scores count half."""
    positive = labels > 0.5
    count = int(positive.sum())
    if not 0 < count < len(labels):
        raise ValueError("both labels are needed")
    _, back, times = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[back.reshape(-1)]
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(labels) - count)))


class Recommender:
    """Two layers over the mean of the history's embeddings, the candidate's embedding, their product, and the user's features.
    The models of MovieLens and Taobao differ in the features only."""

    def __init__(self, rows: int, features: int, *, dim: int = 32, hidden: int = 64, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.table = Table(rows, dim, 0.05, rng)
        self.weights = {
            "first": uniform(rng, 3 * dim + features, hidden),
            "first_bias": np.zeros(hidden, np.float32),
            "second": uniform(rng, hidden, 1),
            "second_bias": np.zeros(1, np.float32),
        }

    def train(
        self,
        examples: Examples,
        *,
        epochs: int,
        batch: int = 256,
        rate: float = 2e-3,
        seed: int = 0,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        rng = np.random.default_rng(seed)
        adam = Adam(self.weights, rate)
        for epoch in range(epochs):
            order, losses = rng.permutation(len(examples)), []
            for start in range(0, len(order), batch):
                losses.append(self._step(examples.take(order[start : start + batch]), adam))
            progress(f"epoch {epoch + 1} of {epochs}, loss {np.mean(losses):.4f}")

    def scores(self, examples: Examples, found: np.ndarray | None = None) -> np.ndarray:
        """Returns the score of each example. Dropped look-ups are left out of their bag."""
        parts = []
        ends = examples.history.offsets
        for start in range(0, len(examples), 1024):
            places = np.arange(start, min(start + 1024, len(examples)))
            here = None if found is None else found[ends[places[0]] : ends[places[-1] + 1]]
            parts.append(self._forward(examples.take(places), here)[-1])
        return np.concatenate(parts)

    def _bags(self, history: Traces, found: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the means of the bags, and the weight of each value in its mean."""
        owners = history.owners()
        used = np.ones(len(owners), np.float32) if found is None else found.astype(np.float32)
        counts = np.bincount(owners, used, minlength=len(history))
        shares = (used / np.maximum(counts, 1)[owners]).astype(np.float32)
        bags = np.zeros((len(history), self.table.rows.shape[1]), np.float32)
        filled = np.flatnonzero(history.lengths())
        if len(filled):
            vectors = self.table.rows[history.values] * shares[:, None]
            bags[filled] = np.add.reduceat(vectors, history.offsets[filled], axis=0)
        return bags, shares

    def _forward(self, examples: Examples, found: np.ndarray | None) -> tuple[np.ndarray, ...]:
        bags, shares = self._bags(examples.history, found)
        offered = self.table.rows[examples.candidates]
        inputs = np.concatenate([bags, offered, 4 * bags * offered, examples.features], axis=1)
        first = np.maximum(inputs @ self.weights["first"] + self.weights["first_bias"], 0)
        scores = (first @ self.weights["second"] + self.weights["second_bias"])[:, 0]
        return bags, shares, offered, inputs, first, scores

    def _step(self, examples: Examples, adam: Adam) -> float:
        bags, shares, offered, inputs, first, scores = self._forward(examples, None)
        chances = sigmoid(scores)
        clipped = np.clip(chances, 1e-7, 1 - 1e-7)
        loss = -np.where(examples.labels > 0.5, np.log(clipped), np.log(1 - clipped)).mean()
        of_scores = ((chances - examples.labels) / len(examples))[:, None]
        of_first = (of_scores @ self.weights["second"].T) * (first > 0)
        gradients = {
            "second": first.T @ of_scores,
            "second_bias": of_scores.sum(axis=0),
            "first": inputs.T @ of_first,
            "first_bias": of_first.sum(axis=0),
        }
        dim = bags.shape[1]
        of_inputs = of_first @ self.weights["first"].T
        of_product = 4 * of_inputs[:, 2 * dim : 3 * dim]
        of_bags = of_inputs[:, :dim] + of_product * offered
        of_offered = of_inputs[:, dim : 2 * dim] + of_product * bags
        adam.step(gradients)
        owners = examples.history.owners()
        ids = np.concatenate([examples.history.values, examples.candidates])
        self.table.step(ids, np.concatenate([of_bags[owners] * shares[:, None], of_offered]))
        return float(loss)


class AreaUnderCurve:
    """Quality of a recommender, for the tuner."""

    name = "AUC"
    higher_is_better = True

    def __init__(self, model: Recommender, examples: Examples):
        self._model, self._examples = model, examples
        self.traces = examples.history
        self.baseline = auc(model.scores(examples), examples.labels)

    def of(self, found: np.ndarray) -> float:
        return auc(self._model.scores(self._examples, found), self._examples.labels)
