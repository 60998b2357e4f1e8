"""A language model: an LSTM that predicts the next word of a window of text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..traces import Traces
from .data import Text
from .training import Adam, Table, sigmoid, uniform


class LanguageModel:
    """An embedding for each word, an LSTM, and probabilities of the next word: one of the most frequent words, or
    "another"."""

    def __init__(self, rows: int, *, dim: int = 128, hidden: int = 128, outputs: int = 2000, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.outputs = min(outputs, rows)
        self.hidden = hidden
        self.table = Table(rows, dim, 0.1, rng)
        bias = np.zeros(4 * hidden, np.float32)
        # Forget gates start open.
        bias[hidden : 2 * hidden] = 1
        self.weights = {
            "input": uniform(rng, dim, 4 * hidden),
            "state": uniform(rng, hidden, 4 * hidden),
            "bias": bias,
            "output": uniform(rng, hidden, self.outputs),
            "output_bias": np.zeros(self.outputs, np.float32),
        }
        self.fallback = np.zeros(dim, np.float32)

    def train(
        self,
        text: Text,
        *,
        window: int,
        steps: int,
        batch: int = 64,
        rate: float = 3e-3,
        seed: int = 0,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Trains on windows of the training text, `batch` at a time."""
        windows = text.windows(text.training, window, len(text.training), seed)
        rng = np.random.default_rng(seed)
        adam = Adam(self.weights, rate)
        order = np.empty(0, np.int64)
        for step in range(steps):
            adam.rate = rate * min(1.0, 1.1 - step / steps)
            if len(order) < batch:
                order = rng.permutation(len(windows))
            chosen, order = windows[order[:batch]], order[batch:]
            loss = self._step(chosen[:, :-1], self.targets(chosen[:, 1:]), adam)
            if step % 50 == 0:
                progress(f"step {step} of {steps}, perplexity {np.exp(loss):.0f}")
        counts = np.bincount(text.training, minlength=text.rows)
        # Replacement for a dropped word: the mean of all embeddings, weighted by frequency.
        self.fallback = (counts @ self.table.rows / counts.sum()).astype(np.float32)

    def targets(self, words: np.ndarray) -> np.ndarray:
        """Returns the expected outputs: the word, or the last output for rarer words."""
        return np.asarray(np.minimum(words, self.outputs - 1))

    def perplexity(self, windows: np.ndarray, found: np.ndarray | None = None) -> float:
        """Returns the perplexity of the words after each word of the windows. Embeddings are dropped where `found` is
        False."""
        total = 0.0
        for start in range(0, len(windows), 64):
            part = windows[start : start + 64]
            vectors = self.table.rows[part[:, :-1]]
            if found is not None:
                vectors = np.where(found[start : start + 64, :, None], vectors, self.fallback)
            states, _ = self._forward(vectors)
            chances = self._chances(states.reshape(-1, self.hidden))
            said = chances[np.arange(len(chances)), self.targets(part[:, 1:]).reshape(-1)]
            total -= float(np.log(np.maximum(said, 1e-20)).sum(dtype=np.float64))
        return float(np.exp(total / windows[:, 1:].size))

    def _chances(self, states: np.ndarray) -> np.ndarray:
        scores = states @ self.weights["output"] + self.weights["output_bias"]
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return np.asarray(scores)

    def _forward(self, vectors: np.ndarray) -> tuple[np.ndarray, list[tuple[np.ndarray, ...]]]:
        """Returns the states after each word, and the values that back-propagation needs."""
        weights, hidden = self.weights, self.hidden
        batch, length = vectors.shape[:2]
        inputs = vectors @ weights["input"] + weights["bias"]
        state: np.ndarray = np.zeros((batch, hidden), np.float32)
        cell = state
        states = np.empty((batch, length, hidden), np.float32)
        kept: list[tuple[np.ndarray, ...]] = []
        for place in range(length):
            gates = inputs[:, place] + state @ weights["state"]
            opened = sigmoid(gates[:, : 3 * hidden])
            enter, keep, show = np.split(opened, 3, axis=1)
            new = np.tanh(gates[:, 3 * hidden :])
            before, before_state = cell, state
            cell = keep * cell + enter * new
            shown = np.tanh(cell)
            state = show * shown
            states[:, place] = state
            kept.append((enter, keep, show, new, before, before_state, shown))
        return states, kept

    def _step(self, words: np.ndarray, targets: np.ndarray, adam: Adam) -> float:
        weights, hidden = self.weights, self.hidden
        vectors = self.table.rows[words]
        states, kept = self._forward(vectors)
        flat = states.reshape(-1, hidden)
        chances = self._chances(flat)
        places = np.arange(len(chances)), targets.reshape(-1)
        loss = -float(np.log(np.maximum(chances[places], 1e-20)).mean())
        chances[places] -= 1
        chances /= len(chances)
        gradients = {"output": flat.T @ chances, "output_bias": chances.sum(axis=0)}
        of_states = (chances @ weights["output"].T).reshape(states.shape)
        of_gates = np.empty((*words.shape, 4 * hidden), np.float32)
        of_state = of_cell = np.zeros((len(words), hidden), np.float32)
        gradients["state"] = np.zeros_like(weights["state"])
        for place in range(words.shape[1] - 1, -1, -1):
            enter, keep, show, new, before, before_state, shown = kept[place]
            of_state = of_state + of_states[:, place]
            of_cell = of_cell + of_state * show * (1 - shown * shown)
            gates = of_gates[:, place]
            gates[:, :hidden] = of_cell * new * enter * (1 - enter)
            gates[:, hidden : 2 * hidden] = of_cell * before * keep * (1 - keep)
            gates[:, 2 * hidden : 3 * hidden] = of_state * shown * show * (1 - show)
            gates[:, 3 * hidden :] = of_cell * enter * (1 - new * new)
            gradients["state"] += before_state.T @ gates
            of_state = gates @ weights["state"].T
            of_cell = of_cell * keep
        flat_gates = of_gates.reshape(-1, 4 * hidden)
        gradients["input"] = vectors.reshape(len(flat_gates), -1).T @ flat_gates
        gradients["bias"] = flat_gates.sum(axis=0)
        of_vectors = flat_gates @ weights["input"].T
        length = np.sqrt(sum(float(np.square(gradient).sum()) for gradient in gradients.values()))
        if length > 5:
            gradients = {name: gradient * np.float32(5 / length) for name, gradient in gradients.items()}
        adam.step(gradients)
        self.table.step(words.reshape(-1), of_vectors)
        return loss


class Perplexity:
    """Quality of a language model, for the tuner. An inference is a window."""

    name = "perplexity"
    higher_is_better = False

    def __init__(self, model: LanguageModel, windows: np.ndarray):
        length = windows.shape[1] - 1
        self._model, self._windows = model, windows
        offsets = np.arange(len(windows) + 1) * length
        self.traces = Traces(len(model.table.rows), windows[:, :-1].reshape(-1), offsets)
        self.baseline = model.perplexity(windows)

    def of(self, found: np.ndarray) -> float:
        return self._model.perplexity(self._windows, found.reshape(len(self._windows), -1))
