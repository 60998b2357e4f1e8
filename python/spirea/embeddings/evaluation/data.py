"""Data for training and judging models, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..traces import Traces


class Source(str, Enum):
    """Source of data, stated beside every figure."""

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
    """Number of words in the vocabulary."""
    training: np.ndarray
    testing: np.ndarray

    @property
    def label(self) -> str:
        return f"{self.name} ({self.source.value})"

    def windows(self, words: np.ndarray, length: int, most: int, seed: int) -> np.ndarray:
        """Returns at most `most` windows: `length` words that do not overlap, and the word after them."""
        count = (len(words) - 1) // length
        if count < 1:
            raise ValueError(f"{self.name}: a window has {length + 1} words, and the text {len(words)}")
        starts = np.arange(count) * length
        if count > most:
            starts = np.sort(np.random.default_rng(seed).choice(starts, most, replace=False))
        return np.asarray(words[starts[:, None] + np.arange(length + 1)])


@dataclass(frozen=True)
class Examples:
    """Inferences of a recommender: the user's history, the offered item, and the outcome."""

    history: Traces
    """Items that the client looks up privately."""
    candidates: np.ndarray
    """Offered items. An item's vector comes with the offer, from the party that chose it."""
    features: np.ndarray
    """Numbers about the user, known to the client."""
    labels: np.ndarray

    def __post_init__(self) -> None:
        count = len(self.history)
        if not len(self.candidates) == len(self.features) == len(self.labels) == count:
            raise ValueError("as many candidates, features and labels as inferences")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: np.ndarray | list[int]) -> Examples:
        """Returns the examples at `places`."""
        places = np.asarray(places, np.int64)
        history = self.history.take(places)
        return Examples(history, self.candidates[places], self.features[places], self.labels[places])


@dataclass(frozen=True)
class Interactions:
    """Interactions of users with items."""

    name: str
    source: Source
    about: str
    rows: int
    """Number of items."""
    training: Examples
    testing: Examples

    @property
    def label(self) -> str:
        return f"{self.name} ({self.source.value})"


def numbered(training: list[str], testing: list[str], most: int | None = None) -> tuple[int, np.ndarray, np.ndarray]:
    """Numbers words by decreasing frequency in the training text, then alphabetically. Returns the number of rows and both
    texts.

    Words that are not in the training text, or not among the `most` most frequent ones, get the last number.
    """
    words, counts = np.unique(np.array(training), return_counts=True)
    order = np.lexsort((words, -counts))[:most]
    numbers = {str(word): number for number, word in enumerate(words[order])}
    unknown = len(numbers)

    def of(text: list[str]) -> np.ndarray:
        return np.array([numbers.get(word, unknown) for word in text], np.int64)

    return unknown + 1, of(training), of(testing)
