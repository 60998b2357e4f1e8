"""Costs of designs, and the tuner."""

import json
from pathlib import Path

import numpy as np
import pytest

import spirea
from spirea.embeddings import (
    Design,
    GpuDpf,
    Limits,
    Link,
    OneServer,
    Planner,
    Rates,
    Shape,
    ShareRetrieved,
    Space,
    Spirea,
    Traces,
    cost,
    tune,
)
from spirea.embeddings.costs import REFERENCE_RATES
from spirea.embeddings.evaluation.measured import measure_tables
from spirea.embeddings.tuner import pareto


def skewed(inferences, seed, rows=2000):
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, rows + 1)
    return Traces.of(rows, [rng.choice(rows, 20, p=chances / chances.sum()) for _ in range(inferences)])


SMALL = Space(bins=(4, 16, 64), passes=(1,), hot_parts=(4, 16), neighbours=(0, 3))


def test_keys_and_calls_are_those_of_the_protocols_page():
    """The costs equal the tables of docs/protocols/dpf.md for 2^20 rows."""
    xor = Spirea("dpf-xor")
    for bins, query, calls in [
        (1, 259, 12286),
        (16, 3104, 12256),
        (64, 10368, 12160),
        (256, 33280, 11776),
        (1024, 100352, 10240),
    ]:
        assert bins * xor.key_bytes((1 << 20) // bins) == query
        assert bins * xor.key_calls((1 << 20) // bins) == calls
    assert [Spirea("dpf-sum").key_bytes(1 << log) for log in (10, 20, 30)] == [178, 339, 501]


def test_gpu_dpf_has_the_papers_keys_and_throughput():
    """The costs equal the uploads of table III, and the 2.8 kB of one query of Taobao in table II."""
    paper = GpuDpf()
    assert [paper.key_bytes(1 << log) for log in (14, 16, 20, 22)] == [896, 1024, 1280, 1408]
    taobao = cost(paper, Design(full_bins=1), 900_000, 128)
    assert taobao.communication == 2816
    assert 1 / cost(paper, Design(full_bins=1), 1 << 20, 256).server_seconds == pytest.approx(965)
    assert paper.key_calls(1 << 20) == 2 * (1 << 20) - 2


def test_a_cost_is_the_sum_of_its_tables():
    model = Spirea("dpf-sum", Rates(1e-9, 1e-10, "of this test"))
    design = Design(full_bins=8, full_passes=2, hot_rows=100, hot_bins=4, neighbours=1)
    whole = cost(model, design, 1000, 64)
    hot, full = (model.of_table(shape) for shape in design.shapes(1000, 64))
    assert whole == hot + full
    assert full.scanned_bytes == 2 * 8 * 63 * (2 + 128 + 8)
    assert full.download == 2 * 16 * (128 + 12)
    # A bin of 63 rows has four leaves of 16 shares.
    assert full.server_seconds == pytest.approx(2 * (8 * 64 * 1e-9 + 504 * 138 * 1e-10))


def test_rates_of_this_machine_and_a_table_beside_them(measured):
    for protocol in ("dpf-xor", "dpf-sum"):
        rates = Rates.measure(protocol)
        assert rates.byte_seconds > 0 and rates.row_seconds >= 0 and rates.source == "measured here by the planner"
        shapes = [Shape("long", 1000, 64, 8, 1), Shape("short", 500, 8, 4, 2)]
        tables = measure_tables(Spirea(protocol, rates), shapes, passes=2)
        assert [each.shape for each in tables] == shapes
        assert all(each.predicted > 0 and each.measured > 0 and "ms predicted" in str(each) for each in tables)


def test_one_server_is_priced_by_the_planner(measured):
    model = OneServer("simple")
    few, many = (model.of_table(Shape("full", 2000, 64, 1, passes)) for passes in (1, 3))
    assert many.communication == 3 * few.communication > 0 and many.server_seconds == pytest.approx(3 * few.server_seconds)
    assert few.server_seconds > 0 and model.computation(few) == few.server_seconds * 1e3
    space = Space(bins=(1,), passes=(1, 4), hot_parts=(4,), neighbours=(0,))
    found = tune(skewed(200, 1), ShareRetrieved(skewed(60, 2)), 64, model=model, space=space, limits=Limits(10**9, 10.0))
    assert found.chosen.design.full_bins <= 1 and "simple" in found.explain()
    with pytest.raises(spirea.PlanError, match="split it"):
        model.of_table(Shape("full", 10**15, 64, 1, 1))


def test_rates_are_read_off_the_planner():
    rates = Rates.measure(plan=lambda records, record_bytes: records * (3e-9 + record_bytes * 5e-11))
    assert rates.row_seconds == pytest.approx(3e-9) and rates.byte_seconds == pytest.approx(5e-11)


def test_the_recorded_rates_are_those_of_the_recorded_benches():
    path = Path(__file__).resolve().parents[3] / "bench/results/cpu-amd-epyc-zen3-avx2.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]

    def seconds(name, params, shape):
        found = (line for line in lines if (line["name"], line["shape"], line["batch"]) == (name, shape, 1))
        return next(line["seconds"] for line in found if params in line["params"])

    short, long = (seconds("dpf-xor", "aes-128", shape) for shape in ([1 << 25, 32], [1 << 22, 256]))
    row = (short - long) / ((1 << 25) - (1 << 22))
    recorded = REFERENCE_RATES["dpf-xor"]
    assert recorded.row_seconds == pytest.approx(row, rel=1e-3)
    assert recorded.byte_seconds == pytest.approx((long - (1 << 22) * row) / (1 << 30), rel=1e-3)
    expanded = seconds("dpf memory-bounded", "u32", [1 << 20, 1])
    recorded = REFERENCE_RATES["dpf-sum"]
    assert recorded.row_seconds == pytest.approx(expanded / (1 << 20), rel=1e-3)
    of_bytes = seconds("dpf-sum", "u32", [1 << 20, 256]) - expanded
    assert recorded.byte_seconds == pytest.approx(of_bytes / (1 << 28), rel=1e-3)


def test_one_server_has_passes_in_place_of_bins():
    figures = dict(upload_bytes=1000, download_bytes=500, server_seconds=0.001)
    model = OneServer("simple", plan=lambda records, record_bytes: figures)
    assert model.of_table(Shape("full", 100, 64, 1, 5)).communication == 7500
    with pytest.raises(ValueError, match="no bins"):
        cost(model, Design(full_bins=2), 100, 64)
    found = tune(skewed(200, 1), ShareRetrieved(skewed(60, 2)), 64, model=model, space=SMALL, limits=Limits(60_000, 1.0))
    assert found.chosen.design.full_bins <= 1 and found.chosen.cost.communication <= 60_000


def test_the_front_has_what_no_other_beats():
    found = tune(skewed(300, 1), ShareRetrieved(skewed(80, 2)), 64, model=GpuDpf(), space=SMALL)
    points = found.front
    assert len(points) > 3

    def better(a, b):
        return (
            a.computation <= b.computation
            and a.cost.communication <= b.cost.communication
            and a.share >= b.share
            and a.quality >= b.quality
            and a != b
        )

    assert not any(better(a, b) for a in points for b in points)
    assert pareto(points) == points
    limits = found.limits
    assert all(limits.admit(point.cost) for point in found.points)
    assert found.chosen == found.cheapest() and found.chosen.share >= 0.98


def test_the_same_seed_gives_the_same_choice_and_words():
    runs = [
        tune(skewed(300, 1), ShareRetrieved(skewed(80, 2)), 64, space=SMALL, limits=Limits(60_000), inferences=40, seed=7)
        for _ in range(2)
    ]
    assert runs[0].front == runs[1].front and runs[0].chosen == runs[1].chosen
    words = runs[0].explain()
    assert words == runs[1].explain()
    for said in ("Chosen: ", str(runs[0].chosen.design), "60 kB and 100 ms", "of the look-ups", "Without"):
        assert said in words


def test_limits_hold_with_a_link_and_impossible_ones_are_explained():
    training, quality = skewed(200, 1), ShareRetrieved(skewed(40, 2))
    slow = Limits(latency=0.5, link=Link(uplink=20_000, downlink=80_000))
    found = tune(training, quality, 64, space=SMALL, limits=slow)
    assert found.chosen.latency <= 0.5 and found.chosen.cost.upload <= 10_000
    with pytest.raises(ValueError, match="least communication is"):
        tune(training, quality, 64, space=SMALL, limits=Limits(communication=10))


def test_a_quality_that_falls_is_held_within_its_goal():
    class Perplexity(ShareRetrieved):
        name, higher_is_better, baseline = "perplexity", False, 100.0

        def of(self, found):
            return 100.0 + 100.0 * (1 - found.mean())

    found = tune(skewed(300, 1), Perplexity(skewed(80, 2)), 64, space=SMALL)
    assert found.chosen.quality <= 102 and found.reaches(found.chosen)
    poor = tune(skewed(300, 1), Perplexity(skewed(80, 2)), 64, space=SMALL, limits=Limits(communication=3000))
    assert not poor.reaches(poor.chosen) and "No design within the limits reaches" in poor.explain()


def test_collocation_and_a_hot_table_cut_the_work():
    """Both techniques together reach the same retrieved share with at most a fifth of the computation."""
    training, quality = Planner(skewed(600, 1)), ShareRetrieved(skewed(100, 2))
    plain = Space(bins=(4, 16, 32, 64, 128), hot_parts=(), neighbours=(0,), placement="shuffled")
    limits = Limits(communication=100_000)
    without = tune(training, quality, 64, model=GpuDpf(), space=plain, limits=limits)
    best = max(without.front, key=lambda point: point.quality)
    with_all = tune(training, quality, 64, model=GpuDpf(), limits=limits, goal=best.quality)
    assert with_all.reaches(with_all.chosen)
    assert with_all.chosen.computation * 5 <= best.computation


def test_the_search_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    found = tune(skewed(200, 1), ShareRetrieved(skewed(40, 2)), 64, space=SMALL)
    found.plot(tmp_path / "front.png")
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
