"""Qualities of vectors, compared with their definitions, and their use by the tuner."""

import numpy as np
import pytest

from spirea.embeddings import (
    Design,
    GpuDpf,
    Layout,
    Limits,
    MeanCosine,
    NeighbourRecall,
    ShareRetrieved,
    Space,
    Traces,
    mean_of,
    tune,
)


def skewed(inferences, seed, rows=500, length=12):
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, rows + 1)
    runs = [rng.choice(rows, rng.integers(0, length), p=chances / chances.sum()) for _ in range(inferences)]
    return Traces.of(rows, runs)


def matrix(rows=500, dim=8, seed=3):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


def vector(weight, run, found, fallback):
    """Computes the mean of an inference's embeddings by definition."""
    total = np.zeros(weight.shape[1])
    for row, is_found in zip(run, found, strict=True):
        total = total + (weight[row] if is_found else fallback)
    return total / max(len(run), 1)


def cosine(a, b):
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / lengths) if lengths else 0.0


def by_definition(traces, weight, found, fallback):
    owners = traces.owners()
    return [vector(weight, traces[i], found[owners == i], fallback) for i in range(len(traces))]


@pytest.mark.parametrize("fallback", [None, np.full(8, 0.25)])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_measures_are_those_of_their_definitions(share, fallback):
    # More inferences than are compared at once.
    traces, weight = skewed(1100, 1), matrix()
    found = np.random.default_rng(2).random(len(traces.values)) < share
    stand_in = np.zeros(8) if fallback is None else fallback
    true = by_definition(traces, weight, np.ones(len(found), bool), stand_in)
    got = by_definition(traces, weight, found, stand_in)
    expected = np.mean([cosine(a, b) for a, b in zip(true, got, strict=True)])
    assert MeanCosine(traces, weight, fallback=fallback).of(found) == pytest.approx(expected, abs=1e-6)

    few = traces.take(np.arange(60))
    inside = found[: len(few.values)]
    kept = []
    for i in range(60):
        others = [j for j in range(60) if j != i]
        before, after = (sorted(others, key=lambda j: -cosine(of[i], true[j]))[:5] for of in (true, got))
        kept.append(len(set(before) & set(after)) / 5)
    recall = NeighbourRecall(few, weight, neighbours=5, fallback=fallback).of(inside)
    # Ties between inferences without look-ups may be broken in another way.
    assert recall == pytest.approx(np.mean(kept), abs=0.02)


def test_nothing_dropped_is_the_baseline():
    traces, weight = skewed(80, 1, length=30), matrix()
    everything = np.ones(len(traces.values), bool)
    with_look_ups = traces.take(np.flatnonzero(traces.lengths() > 0))
    assert MeanCosine(with_look_ups, weight).of(everything) == pytest.approx(1.0)
    assert NeighbourRecall(traces, weight).of(everything) == 1.0


def test_a_model_of_its_own_makes_the_vectors():
    traces, weight = skewed(40, 1), matrix()
    seen = []

    def first_two(embeddings, part):
        seen.append((embeddings.shape, len(part)))
        return mean_of(embeddings, part)[:, :2]

    quality = MeanCosine(traces, weight, encode=first_two)
    assert quality.of(np.zeros(len(traces.values), bool)) == 0.0
    assert seen == [((len(traces.values), 8), 40)] * 2
    with pytest.raises(ValueError, match="a row for each is wanted"):
        MeanCosine(traces, weight, encode=lambda embeddings, part: embeddings[:3])


def test_what_does_not_belong_together_is_refused():
    traces = skewed(20, 1)
    with pytest.raises(ValueError, match="traces of 500 rows, an embedding matrix"):
        MeanCosine(traces, matrix(rows=499))
    with pytest.raises(ValueError, match="fallback has 8 numbers"):
        MeanCosine(traces, matrix(), fallback=np.zeros(7))
    for neighbours in (0, 20):
        with pytest.raises(ValueError, match="up to 19 neighbours"):
            NeighbourRecall(traces, matrix(), neighbours=neighbours)


def test_the_full_table_is_dropped_only_where_that_is_allowed():
    training, testing = skewed(400, 1), skewed(80, 2)
    # A goal that a design with a hot table only reaches at the least cost.
    search = dict(model=GpuDpf(), goal=0.7, limits=Limits(communication=100_000))
    space = Space(bins=(4, 16), passes=(1,), hot_parts=(4, 16), neighbours=(0,))
    allowed = Space(bins=(4, 16), passes=(1,), hot_parts=(4, 16), neighbours=(0,), full=(True, False))
    found = tune(training, ShareRetrieved(testing), 64, space=allowed, **search)
    assert found.chosen.design.full_bins == 0
    found = tune(training, ShareRetrieved(testing), 64, space=space, **search)
    assert all(point.design.full_bins for point in found.points)


def test_designs_beside_the_chosen_one_are_told_with_their_costs():
    traces, weight = skewed(300, 1), matrix()
    found = tune(traces, MeanCosine(skewed(80, 2), weight), 32, space=Space(bins=(4, 16, 64), neighbours=(0, 1)))
    words = found.explain()
    assert "The mean cosine is" in words
    told = [line for line in words.splitlines() if line.startswith("- ")]
    assert len(told) == min(4, len(found.front) - 1) > 0
    beside = [point for point in found.front if any(line.startswith(f"- {point.design}: ") for line in told)]
    assert len(beside) == len(told) and found.chosen not in beside
    for point in beside:
        assert any(f"{point.cost.upload / 1e3:.1f} kB up" in line and f"cosine {point.quality:.4g}." in line for line in told)


def test_a_tensor_is_a_matrix():
    weight = matrix()

    class Tensor:
        """The methods of torch's tensors that the package calls."""

        def detach(self):
            return self

        def cpu(self):
            return self

        def numpy(self):
            return weight

    layout = Layout.of(Tensor(), Design(full_bins=4), skewed(50, 1))
    assert (layout.rows, layout.dim, layout.dtype) == (500, 8, np.float32)
