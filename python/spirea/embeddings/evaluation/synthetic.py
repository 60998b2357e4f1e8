"""SYNTHETIC stand-ins for the published data: the published sizes of tables, similarly skewed access, and rows that occur
together. Results on them are no evidence about people or language."""

from __future__ import annotations

import numpy as np

from ..traces import Traces
from .data import Examples, Interactions, Source, Text


def zipf(rows: int, exponent: float, shift: float = 0.0) -> np.ndarray:
    """Returns the cumulative probabilities of rows by rank, after Zipf's and Mandelbrot's law."""
    chances = (np.arange(1, rows + 1) + shift) ** -exponent
    return np.asarray(np.cumsum(chances) / chances.sum())


def drawn(chances: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return np.minimum(np.searchsorted(chances, rng.random(shape)), len(chances) - 1)


def text(rows: int = 131_000, words: int = 800_000, *, seed: int = 0) -> Text:
    """Draws words by Zipf's law with exponent 1. A fifth depend on the topic of a stretch of 256 words. Two fifths are one of
    the four followers of the word before."""
    rng = np.random.default_rng(seed)
    chances = zipf(rows, 1.0)
    topics = min(64, rows)
    follow = drawn(chances, (rows, 4), rng)
    length = 256
    streams = -(-words // length) + max(words // length // 10, 1)
    topic = rng.integers(0, topics, streams)
    written = np.empty((streams, length), np.int64)
    before = drawn(chances, (streams,), rng)
    for place in range(length):
        kind = rng.random(streams)
        fresh = drawn(chances, (streams,), rng)
        # The topic's words are spread over all ranks.
        of_topic = np.minimum(fresh // topics * topics + topic, rows - 1)
        followed = follow[before, np.minimum(rng.geometric(0.5, streams) - 1, 3)]
        before = np.where(kind < 0.4, followed, np.where(kind < 0.6, of_topic, fresh))
        written[:, place] = before
    split = -(-words // length)
    about = f"{rows} words by Zipf's law, with topics and followers"
    return Text("Language model", Source.SYNTHETIC, about, rows, written[:split].reshape(-1), written[split:].reshape(-1))


def films(rows: int = 27_000, users: int = 20_000, *, history: int = 50, seed: int = 0) -> Interactions:
    """Makes a table of MovieLens-20M's size. The popularity of films is (rank + 550)^-2.5, which falls about as in that data.
    A user likes three of 40 genres; half of the offered films are drawn from these."""
    rng = np.random.default_rng(seed)
    chances = zipf(rows, 2.5, min(550.0, rows / 49))
    genres = min(40, rows)
    tastes = rng.integers(0, genres, (users, 3))
    lengths = np.clip(rng.lognormal(3.4, 0.7, users), 5, history).astype(np.int64)
    owner = np.repeat(np.arange(users), lengths)

    def of_genre(who: np.ndarray) -> np.ndarray:
        rank = drawn(chances, (len(who),), rng)
        genre = tastes[who, rng.integers(0, 3, len(who))]
        return np.asarray(np.minimum(rank // genres * genres + genre, rows - 1))

    looked_up = np.where(rng.random(len(owner)) < 0.75, of_genre(owner), drawn(chances, (len(owner),), rng))
    offered_to = np.arange(users)
    liked = rng.random(users) < 0.5
    suits = liked ^ (rng.random(users) < 0.15)
    candidates = np.where(suits, of_genre(offered_to), drawn(chances, (users,), rng))
    history_of = Traces(rows, looked_up, np.concatenate([[0], np.cumsum(lengths)]))
    features = np.zeros((users, 0), np.float32)
    examples = Examples(history_of, candidates, features, liked.astype(np.float32))
    return _split("MovieLens", f"{rows} films in {genres} genres", rows, examples)


def advertisements(rows: int = 900_000, users: int = 40_000, *, history: int = 20, seed: int = 0) -> Interactions:
    """Makes a table of Taobao's size. A user has clicked few advertisements, mostly of two of 30 categories. The click on a
    shown one depends on its category, the categories that the user likes, six known numbers, and chance."""
    rng = np.random.default_rng(seed)
    chances = zipf(rows, 1.1, 10.0)
    categories = min(30, rows)
    tastes = rng.integers(0, categories, (users, 2))
    lengths = np.minimum(rng.geometric(0.25, users) - 1, history)
    owner = np.repeat(np.arange(users), lengths)

    def of_category(who: np.ndarray) -> np.ndarray:
        rank = drawn(chances, (len(who),), rng)
        category = tastes[who, rng.integers(0, 2, len(who))]
        return np.asarray(np.minimum(rank // categories * categories + category, rows - 1))

    looked_up = np.where(rng.random(len(owner)) < 0.8, of_category(owner), drawn(chances, (len(owner),), rng))
    shown_to = np.arange(users)
    suits = rng.random(users) < 0.4
    candidates = np.where(suits, of_category(shown_to), drawn(chances, (users,), rng))
    features = rng.normal(size=(users, 6)).astype(np.float32)
    matters = features @ rng.normal(size=6) / np.sqrt(6)
    # Users who like certain categories click more than others.
    ready = rng.normal(size=categories)[tastes].sum(axis=1)
    clicked = rng.random(users) < 1 / (1 + np.exp(1.0 - 0.5 * suits - 0.3 * matters - 0.5 * ready))
    history_of = Traces(rows, looked_up, np.concatenate([[0], np.cumsum(lengths)]))
    examples = Examples(history_of, candidates, features, clicked.astype(np.float32))
    return _split("Taobao", f"{rows} advertisements in {categories} categories", rows, examples)


def _split(name: str, about: str, rows: int, examples: Examples) -> Interactions:
    """Splits examples into training and testing: every tenth user is for testing."""
    tested = np.arange(len(examples)) % 10 == 0
    training, testing = (examples.take(np.flatnonzero(where)) for where in (~tested, tested))
    return Interactions(name, Source.SYNTHETIC, about, rows, training, testing)
