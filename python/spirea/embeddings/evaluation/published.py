"""Reads the published files of WikiText-2, MovieLens-20M and Taobao's display advertisements, if the user has them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..traces import Traces
from .data import Examples, Interactions, Source, Text, numbered

# Least rating that counts as liked, on a scale from 0.5 to 5.
LIKED = 4.0


def wikitext2(folder: str | Path) -> Text:
    """Reads WikiText-2 (Merity and others, 2016): `wiki.train.tokens` and `wiki.test.tokens`, or the same as `.raw`."""
    words = {}
    for part in ("train", "test"):
        path = _one_of(folder, f"wiki.{part}.tokens", f"wiki.{part}.raw")
        lines = path.read_text(encoding="utf-8").splitlines()
        words[part] = [word for line in lines if line.strip() for word in [*line.split(), "<eos>"]]
        if not words[part]:
            raise ValueError(f"{path}: there are no words in it")
    rows, training, testing = numbered(words["train"], words["test"])
    return Text("WikiText-2", Source.PUBLISHED, "the published text", rows, training, testing)


def movielens(folder: str | Path, *, history: int = 50, most: int = 60_000, seed: int = 0) -> Interactions:
    """Reads MovieLens-20M (Harper and Konstan, 2015): `ratings.csv`.

    An inference looks up the last `history` films that a user liked before, and predicts if the user likes the next rated
    film. The last tenth of each user's ratings is for testing.
    """
    path = _one_of(folder, "ratings.csv")
    ratings = _columns(path, {"userId": np.int64, "movieId": np.int64, "rating": np.float64, "timestamp": np.int64})
    order = np.lexsort((ratings["movieId"], ratings["timestamp"], ratings["userId"]))
    user, rating = ratings["userId"][order], ratings["rating"][order]
    films, item = np.unique(ratings["movieId"][order], return_inverse=True)
    liked = rating >= LIKED
    starts = np.searchsorted(user, user)
    ends = np.searchsorted(user, user, side="right")
    place = np.arange(len(user)) - starts
    late = place >= np.maximum((ends - starts) * 9 // 10, 1)
    rng = np.random.default_rng(seed)

    def examples(where: np.ndarray, count: int) -> Examples:
        chosen = np.sort(rng.permutation(np.flatnonzero(where & (place >= 1)))[:count])
        runs = [item[start:at][liked[start:at]][-history:] for start, at in zip(starts[chosen], chosen)]
        traces = Traces.of(len(films), runs)
        return Examples(traces, item[chosen], np.zeros((len(chosen), 0), np.float32), liked[chosen].astype(np.float32))

    training, testing = examples(~late, most), examples(late, max(most // 20, 1))
    return Interactions("MovieLens-20M", Source.PUBLISHED, "the published ratings", len(films), training, testing)


PROFILE = ("cms_segid", "final_gender_code", "age_level", "pvalue_level", "shopping_level", "occupation")


def taobao(folder: str | Path, *, history: int = 50, most: int = 60_000, seed: int = 0) -> Interactions:
    """Reads Taobao's display advertisements: `raw_sample.csv` and `user_profile.csv`.

    An inference looks up the last `history` advertisements that a user clicked before, and predicts if the user clicks the
    shown one. The last day is for testing, as usual.
    """
    shown = _columns(
        _one_of(folder, "raw_sample.csv"),
        {"user": np.int64, "time_stamp": np.int64, "adgroup_id": np.int64, "clk": np.float64},
    )
    order = np.lexsort((shown["adgroup_id"], shown["time_stamp"], shown["user"]))
    user, time, clicked = shown["user"][order], shown["time_stamp"][order], shown["clk"][order] > 0
    advertisements, item = np.unique(shown["adgroup_id"][order], return_inverse=True)
    people, features = _profiles(_one_of(folder, "user_profile.csv"))
    starts = np.searchsorted(user, user)
    late = time >= time.max() - 86_400
    rng = np.random.default_rng(seed)
    known = np.searchsorted(people, user).clip(0, len(people) - 1)

    def examples(where: np.ndarray, count: int) -> Examples:
        chosen = np.sort(rng.permutation(np.flatnonzero(where))[:count])
        runs = [item[start:at][clicked[start:at]][-history:] for start, at in zip(starts[chosen], chosen)]
        of_user = np.where((people[known[chosen]] == user[chosen])[:, None], features[known[chosen]], 0)
        traces = Traces.of(len(advertisements), runs)
        return Examples(traces, item[chosen], of_user.astype(np.float32), clicked[chosen].astype(np.float32))

    training, testing = examples(~late, most), examples(late, max(most // 20, 1))
    return Interactions("Taobao", Source.PUBLISHED, "the published clicks", len(advertisements), training, testing)


def _profiles(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads users, and numbers about each user: known numbers scaled to at most 1, 0 for unknown ones."""
    columns = _columns(path, {"userid": np.int64, **dict.fromkeys(PROFILE, np.float64)})
    order = np.argsort(columns["userid"], kind="stable")
    numbers = np.stack([np.nan_to_num(columns[name][order]) for name in PROFILE], axis=1)
    return columns["userid"][order], (numbers / np.maximum(numbers.max(axis=0), 1)).astype(np.float32)


def _one_of(folder: str | Path, *names: str) -> Path:
    for name in names:
        if (path := Path(folder) / name).is_file():
            return path
    raise FileNotFoundError(f"{folder}: there is no {' and no '.join(names)} in it")


def _columns(path: Path, types: dict[str, type]) -> dict[str, np.ndarray]:
    """Reads columns of a CSV file by the names in its first line. Empty numbers are NaN.

    Raises `ValueError`, which names the cause.
    """

    def number(text: str) -> float:
        return float(text or "nan")

    with path.open(encoding="utf-8") as file:
        # One of the published files has a space after a column name.
        header = [name.strip() for name in file.readline().split(",")]
        missing = [name for name in types if name not in header]
        if missing:
            raise ValueError(f"{path}: there is no column {missing[0]} among {', '.join(header)}")
        try:
            with warnings.catch_warnings():
                # numpy warns of files without rows, which are an error below.
                warnings.simplefilter("ignore", UserWarning)
                places = [header.index(name) for name in types]
                # Without converters numpy reads in compiled code, which millions of numbers need.
                converters = number if types.keys() & set(PROFILE) else None
                table = np.loadtxt(file, delimiter=",", usecols=places, ndmin=2, converters=converters)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    if not len(table):
        raise ValueError(f"{path}: there are no rows in it")
    columns: dict[str, np.ndarray] = {}
    for place, (name, kind) in enumerate(types.items()):
        column = table[:, place]
        if kind is np.int64 and not (np.isfinite(column).all() and (column == np.floor(column)).all()):
            raise ValueError(f"{path}: {name} has what is no whole number")
        columns[name] = column.astype(kind)
    return columns
