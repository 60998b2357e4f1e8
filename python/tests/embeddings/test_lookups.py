"""The look-ups of torch's modules, compared with their definition, and with torch itself if it is installed."""

import itertools
import threading
import time

import numpy as np
import pytest

import spirea
from spirea.embeddings import Design, Embedding, EmbeddingBag, Layout, PlainFetcher, PrivateRows, Report, Traces


def private(weight, design=None, **options):
    """Returns rows of a matrix, fetched from memory. Under the default design every row is retrieved."""
    layout = Layout.of(weight, design or Design(full_bins=1, full_passes=64), Traces.of(len(weight), []), **options)
    return PrivateRows(layout, {table.name: PlainFetcher(table, table.stored(weight)) for table in layout.tables})


@pytest.fixture
def weight():
    return np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)


def bag_by_definition(weight, ids, start, end, mode, weights=None, padding_idx=None):
    held = [i for i in range(start, end) if ids[i] != padding_idx]
    if not held:
        return np.zeros(weight.shape[1], weight.dtype)
    rows = [weight[ids[i]] * (1 if weights is None else weights[i]) for i in held]
    return {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, axis=0)


@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 0), (2, 3, 2)])
def test_embeddings_of_any_shape(weight, shape):
    ids = np.random.default_rng(1).integers(0, 30, shape)
    given = Embedding(private(weight))(ids)
    assert given.shape == (*shape, 5) and given.dtype == np.float32
    assert (given == weight[ids]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_every_type_of_number_comes_back_exactly(dtype):
    weight = (np.random.default_rng(2).normal(size=(20, 3)) * 50).astype(dtype)
    ids = np.arange(20)[::-1]
    assert (Embedding(private(weight))(ids) == weight[ids]).all()


def test_the_padding_index_costs_no_query(weight):
    rows = private(weight, Design(full_bins=1), padding_idx=4)
    assert (Embedding(rows)(np.array([4, 4, 9])) == weight[[4, 4, 9]]).all()
    assert (rows.last.wanted, rows.last.dropped) == (1, 0)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 4])
def test_bags(weight, mode, padding_idx):
    rng = np.random.default_rng(3)
    bag = EmbeddingBag(private(weight, padding_idx=padding_idx), mode=mode)
    ids = rng.integers(0, 30, 12)
    ids[5:7] = 4
    offsets = np.array([0, 3, 3, 5, 7])
    weights = rng.normal(size=12).astype(np.float32) if mode == "sum" else None
    ends = [*offsets, 12]
    expected = [bag_by_definition(weight, ids, *pair, mode, weights, padding_idx) for pair in itertools.pairwise(ends)]
    assert np.allclose(bag(ids, offsets, weights), expected, atol=1e-6)
    square = ids.reshape(3, 4)
    expected = [bag_by_definition(weight, row, 0, 4, mode, None, padding_idx) for row in square]
    assert np.allclose(bag(square), expected, atol=1e-6)
    last = EmbeddingBag(private(weight, padding_idx=padding_idx), mode=mode, include_last_offset=True)
    assert (last(ids, np.array([0, 3, 12])) == bag(ids, np.array([0, 3]))).all()


def test_norms_are_limited(weight):
    ids = np.arange(10)
    given = Embedding(private(weight), max_norm=1.0)(ids)
    norms = np.linalg.norm(weight[ids], axis=1, keepdims=True)
    assert np.allclose(given, weight[ids] * np.minimum(1, 1 / norms), atol=1e-5)


def test_threads_take_turns_and_every_inference_is_counted(weight, monkeypatch):
    added, order = Report.__add__, []

    def slowly(report, more):
        time.sleep(0.01)
        return added(report, more)

    class Noted(PlainFetcher):
        def fetch(self, rows):
            order.append(threading.get_ident())
            time.sleep(0.001)
            return super().fetch(rows)

    monkeypatch.setattr(Report, "__add__", slowly)
    layout = Layout.of(weight, Design(full_bins=1, hot_rows=8), Traces.of(len(weight), []))
    rows = PrivateRows(layout, {table.name: Noted(table, table.stored(weight)) for table in layout.tables})
    threads = [threading.Thread(target=lambda: [rows.fetch(np.array([1])) for _ in range(3)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (rows.total.inferences, rows.total.wanted) == (12, 12)
    # The messages of different inferences are not interleaved.
    assert len(order) == 24 and order[::2] == order[1::2]


def test_what_is_dropped_is_counted_falls_back_and_is_left_out_of_bags(weight):
    fallback = np.full(5, 7, np.float32)
    rows = private(weight, Design(full_bins=2, placement="natural"), fallback=fallback)
    # Rows 0 to 14 are in one bin, where the row that is wanted twice has priority.
    given = Embedding(rows)(np.array([3, 5, 5, 20]))
    assert (given == np.stack([fallback, weight[5], weight[5], weight[20]])).all()
    assert (rows.last.wanted, rows.last.dropped) == (4, 1) and rows.last.share == 0.75
    bag = EmbeddingBag(rows, mode="mean")
    assert np.allclose(bag(np.array([3, 5, 5, 20]), np.array([0]))[0], weight[[5, 5, 20]].mean(axis=0))
    assert (rows.total.inferences, rows.total.dropped) == (2, 2)


def test_messages_are_the_same_whatever_is_asked(weight):
    design = Design(full_bins=4, full_passes=2, hot_rows=8, hot_bins=2, neighbours=1)
    rows = private(weight, design)
    seen = set()
    for ids in (np.arange(30), np.zeros(9, int), np.empty(0, int), np.array([29])):
        before = [len(traffic.messages) for traffic in rows.traffic]
        Embedding(rows)(ids)
        seen.add(tuple(tuple(each.messages[start:]) for each, start in zip(rows.traffic, before)))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda rows: Embedding(rows)(np.array([30])), IndexError),
        (lambda rows: Embedding(rows)(np.array([-1])), IndexError),
        (lambda rows: Embedding(rows)(np.array([0.5])), TypeError),
        (lambda rows: EmbeddingBag(rows)(np.array([1, 2])), ValueError),
        (lambda rows: EmbeddingBag(rows)(np.array([1, 2]), np.array([1])), ValueError),
        (lambda rows: EmbeddingBag(rows)(np.array([1, 2]), np.array([0, 3])), ValueError),
        (lambda rows: EmbeddingBag(rows)(np.array([[1, 2]]), np.array([0])), ValueError),
        (lambda rows: EmbeddingBag(rows)(np.array([[1]]), None, np.array([[1.0]])), ValueError),
        (lambda rows: EmbeddingBag(rows, mode="sum")(np.array([[1]]), None, np.array([1.0])), ValueError),
        (lambda rows: EmbeddingBag(rows, mode="median"), ValueError),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_sent(weight, call, error):
    rows = private(weight)
    with pytest.raises(error):
        call(rows)
    assert not rows.traffic[0].messages


def test_against_torch():
    torch = pytest.importorskip("torch")
    from spirea.embeddings import torch as private_torch

    rng = np.random.default_rng(5)
    weight = rng.normal(size=(30, 5)).astype(np.float32)
    tensor = torch.from_numpy(weight)
    for padding_idx in (None, 4):
        rows = private(weight, padding_idx=padding_idx)
        module = torch.nn.Embedding.from_pretrained(tensor.clone(), padding_idx=padding_idx, max_norm=1.5)
        ids = torch.from_numpy(rng.integers(0, 30, (3, 6)))
        assert torch.allclose(private_torch.replace(module, rows)(ids), module(ids), atol=1e-6)
        for mode in ("sum", "mean", "max"):
            for last in (False, True):
                module = torch.nn.EmbeddingBag.from_pretrained(
                    tensor.clone(), mode=mode, padding_idx=padding_idx, include_last_offset=last
                )
                stands = private_torch.replace(module, rows)
                if not last:
                    # With include_last_offset, torch makes wrong bags of an input of two dimensions.
                    assert torch.allclose(stands(ids), module(ids), atol=1e-6)
                flat, offsets = ids.reshape(-1), torch.tensor([0, 4, 4, 9, 18] if last else [0, 4, 4, 9])
                weights = torch.from_numpy(rng.normal(size=18).astype(np.float32)) if mode == "sum" else None
                given = stands(flat, offsets, per_sample_weights=weights)
                assert torch.allclose(given, module(flat, offsets, per_sample_weights=weights), atol=1e-5)


class Failing(PlainFetcher):
    """A fetcher that records its requests and fails."""

    def __init__(self, *given):
        super().__init__(*given)
        self.asked = []

    def fetch(self, rows):
        self.asked.append(rows.shape)
        if self.failure is not None:
            raise self.failure
        return super().fetch(rows)


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("failure", [spirea.AnswerError("damaged"), ValueError("another table's"), OSError("gone")])
def test_all_tables_are_asked_whatever_one_of_them_answers(weight, failing, failure):
    design = Design(full_bins=2, full_passes=3, hot_rows=10, hot_bins=2)
    layout = Layout.of(weight, design, Traces.of(len(weight), [np.arange(10)]))
    fetchers = [Failing(table, table.stored(weight)) for table in layout.tables]
    for place, fetcher in enumerate(fetchers):
        fetcher.failure = failure if place == failing else None
    rows = PrivateRows(layout, {table.name: fetcher for table, fetcher in zip(layout.tables, fetchers)})
    with pytest.raises(type(failure), match=str(failure)):
        rows.fetch(np.array([3, 20]))
    assert [fetcher.asked for fetcher in fetchers] == [[(table.passes, table.bins)] for table in layout.tables]
    assert rows.total.inferences == 0


def test_all_tables_are_asked_where_one_gives_rows_of_another_width(weight):
    layout = Layout.of(weight, Design(full_bins=2, hot_rows=10, hot_bins=2), Traces.of(len(weight), [np.arange(10)]))
    fetchers = [Failing(table, table.stored(weight)[:, : 8 - 4 * place]) for place, table in enumerate(layout.tables)]
    for fetcher in fetchers:
        fetcher.failure = None
    rows = PrivateRows(layout, {table.name: fetcher for table, fetcher in zip(layout.tables, fetchers)})
    with pytest.raises(ValueError, match="another table's"):
        rows.fetch(np.array([3]))
    assert [len(fetcher.asked) for fetcher in fetchers] == [1, 1]
