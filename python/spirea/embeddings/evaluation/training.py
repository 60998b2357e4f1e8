"""Common parts of the models: optimisers, and embedding tables of which a step touches few rows."""

from __future__ import annotations

import numpy as np


class Adam:
    """Optimiser Adam, by Kingma and Ba, for weights that every step changes."""

    def __init__(self, weights: dict[str, np.ndarray], rate: float):
        self.weights = weights
        self.rate = rate
        self._step = 0
        self._moments = {name: (np.zeros_like(weight), np.zeros_like(weight)) for name, weight in weights.items()}

    def step(self, gradients: dict[str, np.ndarray]) -> None:
        self._step += 1
        rate = self.rate * np.sqrt(1 - 0.999**self._step) / (1 - 0.9**self._step)
        for name, gradient in gradients.items():
            mean, square = self._moments[name]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient * gradient - square)
            self.weights[name] -= (rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)


class Table:
    """An embedding matrix, with Adagrad for the rows that a step touches."""

    def __init__(self, rows: int, dim: int, rate: float, rng: np.random.Generator):
        self.rows = (rng.standard_normal((rows, dim), np.float32) * 0.1).astype(np.float32)
        self.rate = rate
        self._squares = np.full(rows, 1e-6, np.float32)

    def step(self, ids: np.ndarray, gradients: np.ndarray) -> None:
        """Takes a step by the gradients of rows. A row may occur several times in `ids`."""
        order = np.argsort(ids, kind="stable")
        touched, starts = np.unique(ids[order], return_index=True)
        if not len(touched):
            return
        sums = np.add.reduceat(gradients[order], starts, axis=0)
        self._squares[touched] += np.square(sums).mean(axis=1)
        self.rows[touched] -= self.rate * sums / np.sqrt(self._squares[touched])[:, None]


def sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -30, 30))), np.float32)


def uniform(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray:
    """Draws initial weights of a layer, after Glorot and Bengio."""
    limit = np.sqrt(6 / (inputs + outputs))
    return rng.uniform(-limit, limit, (inputs, outputs)).astype(np.float32)
