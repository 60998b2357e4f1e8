"""What models are trained and judged on, and where it is from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..traces import Traces


class Source(str, Enum):
    """Where data is from: it stands beside every figure."""

    PUBLISHED = "published files"
    REAL = "real"
    SYNTHETIC = "SYNTHETIC"


@dataclass(frozen=True)
class Text:
    """Words of a text as numbers, from 0 for the most frequent word of the training text."""

    name: str
    source: Source
    about: str
    rows: int
    """Words of the vocabulary."""
    training: np.ndarray
    testing: np.ndarray

    @property
    def label(self) -> str:
        return f"{self.name} ({self.source.value})"

    def windows(self, words: np.ndarray, length: int, most: int, seed: int) -> np.ndarray:
        """At most so many windows of `length` words and the one that follows, which do not overlap."""
        count = (len(words) - 1) // length
        if count < 1:
            raise ValueError(f"{self.name}: a window has {length + 1} words, and the text {len(words)}")
        starts = np.arange(count) * length
        if count > most:
            starts = np.sort(np.random.default_rng(seed).choice(starts, most, replace=False))
        return np.asarray(words[starts[:, None] + np.arange(length + 1)])


@dataclass(frozen=True)
class Examples:
    """Inferences of a recommender: what a user has had to do with, what is offered, and what came of it."""

    history: Traces
    """What the client looks up privately."""
    candidates: np.ndarray
    """What is offered: its vector comes with the offer, from whoever chose it."""
    features: np.ndarray
    """Numbers about the user that the client has."""
    labels: np.ndarray

    def __post_init__(self) -> None:
        count = len(self.history)
        if not len(self.candidates) == len(self.features) == len(self.labels) == count:
            raise ValueError("as many candidates, features and labels as inferences")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: np.ndarray | list[int]) -> Examples:
        """Some of the examples."""
        places = np.asarray(places, np.int64)
        history = self.history.take(places)
        return Examples(history, self.candidates[places], self.features[places], self.labels[places])


@dataclass(frozen=True)
class Interactions:
    """Users and items."""

    name: str
    source: Source
    about: str
    rows: int
    """Items."""
    training: Examples
    testing: Examples

    @property
    def label(self) -> str:
        return f"{self.name} ({self.source.value})"


def numbered(training: list[str], testing: list[str], most: int | None = None) -> tuple[int, np.ndarray, np.ndarray]:
    """Words as numbers by their frequency in the training text, then by the alphabet; what is not in it, or beyond the
    `most` most frequent, is the last number."""
    words, counts = np.unique(np.array(training), return_counts=True)
    order = np.lexsort((words, -counts))[:most]
    numbers = {str(word): number for number, word in enumerate(words[order])}
    unknown = len(numbers)

    def of(text: list[str]) -> np.ndarray:
        return np.array([numbers.get(word, unknown) for word in text], np.int64)

    return unknown + 1, of(training), of(testing)
