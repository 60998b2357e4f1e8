"""Designs, layouts and retrieval, compared with slow definitions."""

import json
import tracemalloc

import numpy as np
import pytest

from spirea.embeddings import Collocation, Design, Layout, Placement, Planner, Traces, retrieve
from spirea.embeddings.collocation import companions


def zipf(rows, inferences, length, seed):
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, rows + 1)
    runs = [rng.choice(rows, rng.integers(0, length + 1), p=chances / chances.sum()) for _ in range(inferences)]
    return Traces.of(rows, runs)


def by_definition(tables, wanted):
    """Returns the wanted rows that one inference retrieves, by definition. Table by table, it takes the row that brings most
    look-ups, then the lowest row, while its bin has a query left."""
    times = {row: list(wanted).count(row) for row in wanted}
    left = set(times)
    for table in tables:
        queries = [table.passes] * table.bins
        slots = {int(table.slots[row]) for row in left if table.slots[row] >= 0}
        while True:
            offers = []
            for slot in slots:
                brings = left & set(table.members[slot].tolist())
                if brings and queries[slot // table.bin_rows]:
                    offers.append((-sum(times[row] for row in brings), slot, brings))
            if not offers:
                break
            _, slot, brings = min(offers, key=lambda offer: offer[:2])
            queries[slot // table.bin_rows] -= 1
            left -= brings
    return [row not in left for row in wanted]


DESIGNS = [
    Design(full_bins=16, placement="natural"),
    Design(full_bins=7, full_passes=2, placement="shuffled"),
    Design(full_bins=9, hot_rows=40, hot_bins=5),
    Design(full_bins=0, hot_rows=60, hot_bins=8, hot_passes=2),
    Design(full_bins=6, hot_rows=50, hot_bins=3, neighbours=3, collocation="groups"),
    Design(full_bins=6, full_passes=2, hot_rows=50, hot_bins=3, neighbours=2, collocation="copies"),
    Design(full_bins=1, full_passes=4, hot_rows=1, hot_bins=1),
]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_what_is_retrieved_is_what_the_definition_says(design):
    training, testing = zipf(300, 200, 20, 1), zipf(300, 60, 30, 2)
    tables = Planner(training).tables(design)
    found = retrieve(tables, testing).found
    expected = [each for i in range(len(testing)) for each in by_definition(tables, testing[i].tolist())]
    assert found.tolist() == expected
    assert 0 < found.mean() <= 1


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_no_bin_is_asked_for_more_than_its_queries_and_what_is_asked_holds_what_is_found(design):
    testing = zipf(300, 60, 30, 3)
    tables = Planner(zipf(300, 200, 20, 1)).tables(design)
    retrieval = retrieve(tables, testing)
    for place, (table, asked) in enumerate(zip(tables, retrieval.asked)):
        assert (asked.turn < table.passes).all()
        places = list(zip(asked.inference, asked.row // table.bin_rows, asked.turn))
        assert len(places) == len(set(places))
        for value in np.flatnonzero(retrieval.source == place):
            rows = asked.row[asked.inference == testing.owners()[value]]
            assert testing.values[value] in table.members[rows]


def test_every_embedding_is_stored_once_but_in_copies_and_in_the_hot_table_again():
    planner = Planner(zipf(300, 200, 20, 1))
    for design in DESIGNS:
        for table in planner.tables(design):
            assert len(table.members) == table.bins * table.bin_rows
            held = table.members[table.members >= 0]
            ids = 300 if table.name == "full" else design.hot_rows
            assert len(set(held.tolist())) == ids
            if design.collocation is Collocation.GROUPS:
                assert len(held) == ids and table.exclusive
            if table.name == "hot":
                least = planner.weights[np.unique(held)].min()
                assert (planner.weights[np.setdiff1d(np.arange(300), held)] <= least).all()


def test_dealt_rows_of_the_head_never_collide():
    planner = Planner(zipf(1000, 300, 20, 1))
    table = planner.tables(Design(full_bins=32))[0]
    head = np.argsort(-planner.weights, kind="stable")[:32]
    assert len(set(table.slots[head] // table.bin_rows)) == 32


def test_companions_are_counted_in_inferences_and_sorted():
    traces = Traces.of(9, [[1, 2, 2, 3], [2, 1], [1, 2], [4], []])
    row, other, times = companions(traces, 8)
    assert list(zip(row, other, times)) == [(1, 2, 3), (1, 3, 1), (2, 1, 3), (2, 3, 1), (3, 1, 1), (3, 2, 1)]
    assert [len(each) for each in companions(traces, 1)] == [3, 3, 3]


def test_rows_that_occur_together_are_stored_together():
    rng = np.random.default_rng(4)
    # Clusters of four rows that are always looked up together.
    training = Traces.of(80, [np.repeat(rng.permutation(20)[:3] * 4, 4) + np.tile(np.arange(4), 3) for _ in range(400)])
    for style in Collocation:
        design = Design(full_bins=10, neighbours=3, collocation=style)
        table = Planner(training).tables(design)[0]
        clusters = [set(row[row >= 0] // 4) for row in table.members]
        assert all(len(cluster) == 1 for cluster in clusters if cluster)
        assert retrieve([table], training).share > 0.8
    alone = Planner(training).tables(Design(full_bins=10))
    assert retrieve(alone, training).share < 0.7


def test_layouts_are_files_and_wrong_files_are_named(tmp_path):
    training = zipf(50, 40, 10, 5)
    weight = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    design = Design(full_bins=5, hot_rows=9, hot_bins=2, neighbours=1)
    layout = Layout.of(weight, design, training, padding_idx=3, fallback=weight.mean(axis=0))
    layout.save(tmp_path / "layout.npz")
    again = Layout.load(tmp_path / "layout.npz")
    assert again.design == design and (again.rows, again.dim, again.dtype) == (50, 4, np.float32)
    assert all((a.members == b.members).all() for a, b in zip(again.tables, layout.tables))
    assert (again.padding_row == weight[3]).all() and (again.fallback == weight.mean(axis=0)).all()
    assert again.client_bytes == layout.client_bytes > 0

    whole = (tmp_path / "layout.npz").read_bytes()
    rng = np.random.default_rng(1)
    for length in rng.integers(0, len(whole), 20):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cut.npz"):
            Layout.load(tmp_path / "cut.npz")
    for _ in range(60):
        bad = bytearray(whole)
        bad[rng.integers(0, len(bad))] ^= 1 << rng.integers(0, 8)
        (tmp_path / "bad.npz").write_bytes(bad)
        try:
            Layout.load(tmp_path / "bad.npz")
        except ValueError as error:
            assert "bad.npz" in str(error)


def rewritten(source, target, **changes):
    """Writes a layout's file with changed content."""
    with np.load(source) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"]))
    for name, value in changes.items():
        part, _, key = name.partition("__")
        (about[part] if key else about)[key or part] = value
    np.savez(target, **arrays | {"about": np.array(json.dumps(about))})


@pytest.mark.parametrize(
    ("design", "changes", "cause"),
    [
        (Design(full_bins=5), dict(rows=1 << 29), "holds int32"),
        (Design(full_bins=5), dict(dim=5), "is not 5 numbers"),
        (Design(full_bins=5), dict(dim=1 << 40), "queries, for more than"),
        (Design(full_bins=5), dict(design__neighbours=8), "holds int32"),
        (Design(full_bins=5), dict(padding_idx=50), "padding_idx 50 is outside"),
        (Design(full_bins=5), dict(padding_idx="3"), "padding_idx 3 is outside"),
        (Design(full_bins=5), dict(design__full_bins=10), "not those of the design"),
        (Design(full_bins=5), dict(tables=[]), "not those of the design"),
        (
            Design(full_bins=5),
            dict(design__full_passes=1 << 40, tables=[dict(name="full", bins=5, passes=1 << 40)]),
            "queries",
        ),
        (Design(full_bins=0, hot_rows=9), dict(rows=1 << 40), "no embeddings of float32 1099511627776 x 4"),
        (Design(full_bins=0, hot_rows=9), dict(rows=0), "no embeddings"),
    ],
)
def test_a_layout_is_checked_before_anything_is_allocated(tmp_path, design, changes, cause):
    weight = np.zeros((50, 4), np.float32)
    Layout.of(weight, design, zipf(50, 40, 10, 5), padding_idx=3).save(tmp_path / "layout.npz")
    rewritten(tmp_path / "layout.npz", tmp_path / "bad.npz", **changes)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"bad.npz: no layout of embeddings: .*{cause}"):
            Layout.load(tmp_path / "bad.npz")
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "arguments",
    [dict(full_bins=-1), dict(full_bins=0), dict(full_passes=0), dict(hot_rows=5, hot_bins=0), dict(placement="round")],
)
def test_designs_that_are_none_are_refused(arguments):
    with pytest.raises(ValueError):
        Design(**arguments)


@pytest.mark.parametrize(
    ("weight", "options", "error", "cause"),
    [
        (np.zeros((50, 4), bool), {}, TypeError, "numbers: not bool"),
        (np.zeros((50, 4), complex), {}, TypeError, "numbers: not complex"),
        (np.zeros((50, 4), object), {}, TypeError, "numbers: not object"),
        (np.zeros(50), {}, TypeError, "two dimensions"),
        (np.zeros((49, 4)), {}, ValueError, "traces of 50 rows, an embedding matrix of 49"),
        (np.zeros((50, 4)), {"padding_idx": 50}, ValueError, "padding_idx 50 is outside"),
        (np.zeros((50, 4)), {"fallback": np.zeros(3)}, ValueError, "fallback has 4 numbers"),
    ],
)
def test_matrices_that_have_no_layout(weight, options, error, cause):
    with pytest.raises(error, match=cause):
        Layout.of(weight, Design(), Traces.of(50, [[1]]), **options)


def test_more_bins_than_rows_are_refused():
    with pytest.raises(ValueError, match="too few for 64 bins"):
        Planner(Traces.of(50, [[1]])).tables(Design(full_bins=64))


def test_traces_say_what_is_wrong_with_them():
    with pytest.raises(IndexError, match="5 rows"):
        Traces.of(5, [[1, 5]])
    with pytest.raises(ValueError, match="offsets"):
        Traces(5, np.array([1, 2]), np.array([0, 1]))
    for values in ([1.0, 2.0], [float("nan")], [True], ["a"], [None]):
        with pytest.raises(TypeError, match="whole"):
            Traces.of(5, [values])
    with pytest.raises(ValueError):
        Traces.of(5, [[[1, 2], [3]]])
    assert len(Traces.of(5, [])) == 0
    placed = Planner(Traces.of(5, [])).tables(Design(full_bins=2, placement=Placement.DEALT))
    assert retrieve(placed, Traces.of(5, [[], []])).share == 1.0
