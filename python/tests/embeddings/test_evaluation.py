"""The evaluation: readers of published files, models, and the command in its short form."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from spirea.embeddings import Traces
from spirea.embeddings.evaluation import (
    AreaUnderCurve,
    Examples,
    LanguageModel,
    Perplexity,
    Recommender,
    Source,
    auc,
    published,
    real,
    synthetic,
)
from spirea.embeddings.evaluation import __main__ as command
from spirea.embeddings.evaluation.__main__ import main
from spirea.embeddings.evaluation.study import INCLUDES as TECHNIQUES


def write(path, header, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def test_wikitext_2(tmp_path):
    (tmp_path / "wiki.train.tokens").write_text(" \n = Title = \n \n the cat sat on the <unk> . \n the dog .\n")
    (tmp_path / "wiki.test.tokens").write_text(" the zebra sat .\n")
    text = published.wikitext2(tmp_path)
    # "<eos>" and "the" occur three times, "." and "=" twice, six words once. Words that are not in the training text are last.
    assert text.source is Source.PUBLISHED and text.rows == 11
    assert text.training.tolist()[:4] == [3, 5, 3, 0] and text.testing.tolist() == [1, 10, 9, 2, 0]
    with pytest.raises(FileNotFoundError, match="no wiki.train.tokens and no wiki.train.raw"):
        published.wikitext2(tmp_path / "other")


def test_movielens(tmp_path):
    rows = [(1, 10 * film, 4.5 if film % 2 else 2.0, 1000 + film) for film in range(1, 21)]
    rows += [(2, 30, 5.0, 5), (2, 10, 0.5, 4)]
    write(tmp_path / "ratings.csv", ["userId", "movieId", "rating", "timestamp"], rows)
    data = published.movielens(tmp_path, history=4)
    assert data.rows == 20 and data.source is Source.PUBLISHED
    # User 1 has 20 ratings, the last two of which are for testing. A user's first rating has no history.
    assert (len(data.training), len(data.testing)) == (17, 3)
    inferences = [
        (list(part.history[i]), int(part.candidates[i]), float(part.labels[i]))
        for part in (data.training, data.testing)
        for i in range(len(part))
    ]
    # Before film 50, user 1 liked films 10 and 30. Before film 190, the history has the last four liked films.
    assert ([0, 2], 4, 1.0) in inferences and ([0, 2], 3, 0.0) in inferences
    assert inferences[17][0] == [10, 12, 14, 16]
    # User 2's ratings are ordered by time: first film 10, which was not liked, then film 30.
    assert inferences[-1] == ([], 2, 1.0)
    with pytest.raises(ValueError, match="no column timestamp among userId"):
        write(tmp_path / "ratings.csv", ["userId", "movieId", "rating"], [(1, 2, 3.0)])
        published.movielens(tmp_path)
    for wrong, cause in (([("one", 2, 3.0, 4)], "ratings.csv: "), ([(1.5, 2, 3.0, 4)], "whole number"), ([], "no rows")):
        write(tmp_path / "ratings.csv", ["userId", "movieId", "rating", "timestamp"], wrong)
        with pytest.raises(ValueError, match=cause):
            published.movielens(tmp_path)


def test_taobao(tmp_path):
    day = 86_400
    shown = [(7, 100, 555, "430548_1007", 0, 1), (7, 200, 666, "430539_1007", 1, 0), (7, 300, 777, "430548_1007", 0, 1)]
    shown += [(8, 50, 555, "430548_1007", 1, 0), (7, 3 * day, 888, "430548_1007", 1, 0)]
    write(tmp_path / "raw_sample.csv", ["user", "time_stamp", "adgroup_id", "pid", "nonclk", "clk"], shown)
    header = ["userid", "cms_segid", "cms_group_id", "final_gender_code", "age_level", "pvalue_level", "shopping_level"]
    header += ["occupation", "new_user_class_level "]
    # The published file has empty levels, and a space in the last column's name.
    write(tmp_path / "user_profile.csv", header, [(7, 2, 5, 1, 4, "", 3, 0, ""), (9, 4, 5, 2, 2, 3, 1, 1, 2)])
    data = published.taobao(tmp_path)
    assert data.rows == 4 and len(data.testing) == 1
    assert (list(data.testing.history[0]), data.testing.candidates[0], data.testing.labels[0]) == ([0, 2], 3, 0.0)
    assert data.testing.features[0].tolist() == [0.5, 0.5, 1.0, 0.0, 1.0, 0.0]
    # User 8 has no profile.
    [alone] = [i for i in range(len(data.training)) if not data.training.features[i].any()]
    assert list(data.training.history[alone]) == []


def test_real_text_and_names():
    text = real.standard_library_text(30)
    assert text.source is Source.REAL and text.training.max() < text.rows and len(text.testing) > 500
    counts = np.bincount(text.training, minlength=text.rows)
    assert (np.diff(counts[:50]) <= 0).all()
    names = real.standard_library_names(30)
    assert names.rows == names.training.history.rows and set(names.training.labels) == {0.0, 1.0}
    # The two inferences of a function have the same look-ups.
    assert list(names.testing.history[0]) == list(names.testing.history[1])


@pytest.mark.parametrize("make", [synthetic.text, synthetic.films, synthetic.advertisements])
def test_synthetic_data_says_so_and_is_the_same_for_a_seed(make):
    first, again, other = make(500, 3000, seed=4), make(500, 3000, seed=4), make(500, 3000, seed=5)
    assert "SYNTHETIC" in first.label and first.rows == 500
    part = (lambda data: data.training) if make is synthetic.text else (lambda data: data.training.history.values)
    assert (part(first) == part(again)).all() and part(first).tolist() != part(other).tolist()
    # The most frequent tenth of the rows has most of the look-ups.
    counts = np.sort(np.bincount(part(first), minlength=500))[::-1]
    assert counts[:50].sum() > counts.sum() / 3


def test_the_curve_is_counted_right():
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 9, 60).astype(float), rng.integers(0, 2, 60).astype(float)
    positive, negative = scores[labels == 1], scores[labels == 0]
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc(scores, labels) == pytest.approx(np.mean(pairs))
    with pytest.raises(ValueError, match="both labels"):
        auc(scores, np.ones(60))


def numerically(model, weights, loss, places):
    """Computes slopes of a loss numerically, at some places of some weights."""
    slopes = []
    for name, place in places:
        at = weights[name]
        before = at[place]
        values = []
        for step in (1e-2, -1e-2):
            at[place] = before + step
            values.append(loss())
        at[place] = before
        slopes.append((values[0] - values[1]) / 2e-2)
    return slopes


class Recorded:
    """Replacement of Adam that records the gradients."""

    def step(self, gradients):
        self.gradients = gradients


def test_gradients_of_the_language_model_are_slopes():
    model = LanguageModel(20, dim=6, hidden=5, outputs=7, seed=1)
    words = np.random.default_rng(2).integers(0, 20, (4, 6))
    table = model.table.rows.copy()
    recorded, touched = Recorded(), {}
    model.table.step = lambda ids, gradients: touched.update(ids=ids, gradients=gradients)
    model._step(words[:, :-1], model.targets(words[:, 1:]), recorded)

    def loss():
        return float(np.log(model.perplexity(words)))

    places = [("input", (2, 3)), ("state", (1, 12)), ("state", (4, 17)), ("bias", 8), ("output", (3, 5)), ("output_bias", 1)]
    slopes = numerically(model, model.weights, loss, places)
    assert np.allclose([recorded.gradients[name][place] for name, place in places], slopes, atol=2e-4)
    word = int(words[0, 0])
    slope = numerically(model, {"rows": model.table.rows}, loss, [("rows", (word, 2))])
    assert np.isclose(touched["gradients"][touched["ids"] == word, 2].sum(), slope[0], atol=2e-4)
    assert (model.table.rows == table).all()


def test_gradients_of_the_recommender_are_slopes():
    rng = np.random.default_rng(3)
    model = Recommender(12, 2, dim=4, hidden=8, seed=1)
    model.table.rows *= 5
    history = Traces.of(12, [rng.integers(0, 12, length) for length in (3, 0, 5, 1)])
    examples = Examples(history, rng.integers(0, 12, 4), rng.normal(size=(4, 2)).astype(np.float32), np.array([1.0, 0, 0, 1]))

    def loss():
        scores = model.scores(examples).astype(np.float64)
        return float(np.mean(np.log1p(np.exp(np.where(examples.labels > 0.5, -scores, scores)))))

    recorded, touched = Recorded(), {}
    model.table.step = lambda ids, gradients: touched.update(ids=ids, gradients=gradients)
    model._step(examples, recorded)
    places = [("first", (1, 2)), ("first", (13, 4)), ("first_bias", 3), ("second", (5, 0)), ("second_bias", 0)]
    slopes = numerically(model, model.weights, loss, places)
    assert np.allclose([recorded.gradients[name][place] for name, place in places], slopes, atol=1e-3)
    row = int(history.values[0])
    slope = numerically(model, {"rows": model.table.rows}, loss, [("rows", (row, 1))])
    assert np.isclose(touched["gradients"][touched["ids"] == row, 1].sum(), slope[0], atol=1e-3)


def test_models_learn_and_miss_what_is_dropped():
    # Each word is determined by the word before, except every ninth.
    follows = np.random.default_rng(0).permutation(40)
    words = [0]
    for _ in range(6000):
        words.append(int(follows[words[-1]]) if len(words) % 9 else len(words) % 40)
    text = synthetic.text(40, 400)
    text = type(text)("circle", Source.SYNTHETIC, "", 40, np.array(words), np.array(words[:400]))
    model = LanguageModel(40, dim=16, hidden=16, outputs=40, seed=1)
    model.train(text, window=16, steps=150, rate=2e-2)
    quality = Perplexity(model, text.windows(text.testing, 16, 20, 0))
    nothing = quality.of(np.zeros(len(quality.traces.values), bool))
    assert quality.of(np.ones(len(quality.traces.values), bool)) == quality.baseline < 4 < nothing

    films = synthetic.films(300, 12_000, seed=1)
    recommender = Recommender(films.rows, 0, seed=1)
    recommender.train(films.training, epochs=3)
    curve = AreaUnderCurve(recommender, films.testing)
    nothing = curve.of(np.zeros(len(curve.traces.values), bool))
    assert curve.of(np.ones(len(curve.traces.values), bool)) == curve.baseline > nothing + 0.05


# The command with two of its data sets: a synthetic text and a real one.
TEXTS = """
from spirea.embeddings.evaluation import __main__ as command
data = command._data
command._data = lambda options, size: data(options, size)[::3]
command.main()
"""


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(["-c", TEXTS], id="texts"),
        pytest.param(["-m", "spirea.embeddings.evaluation"], id="all data", marks=pytest.mark.full),
    ],
)
def test_the_command_makes_the_same_tables_and_figures_for_a_seed(tmp_path, capsys, python):
    pytest.importorskip("matplotlib")
    names = ["figure12.svg", "figure13.svg", "figure14.svg", "figure15.svg", "results.json", "results.md"]
    command = [sys.executable, *python, "reproduce", "--size", "short", "--seed", "3", "--out"]
    running = [subprocess.Popen([*command, tmp_path / out]) for out in ("first", "again")]
    assert [each.wait(timeout=600) for each in running] == [0, 0]
    for out in ("first", "again"):
        assert sorted(path.name for path in (tmp_path / out).iterdir()) == names
    assert (tmp_path / "first/results.json").read_bytes() == (tmp_path / "again/results.json").read_bytes()
    assert all((tmp_path / "first" / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names[:4])
    report = (tmp_path / "first/results.md").read_text()
    for said in (
        "| Language model (SYNTHETIC)",
        "| Python's documentation (real)",
        "plain batch retrieval",
        "896 B",
        "82.3 ms",
    ):
        assert said in report
    results = json.loads((tmp_path / "first/results.json").read_text())
    for study in results["studies"]:
        assert list(study["points"]) == list(TECHNIQUES)
        for name, points in study["points"].items():
            assert all(0 < point["share"] <= 1 for point in points)
            # Only the techniques with "alone" in their names omit the full table.
            assert all(("no full table" in point["design"]) == ("alone" in name) for point in points)
    assert not results["measured"] and "Predicted and measured" not in report
    # Published files, if given, replace synthetic data.
    (tmp_path / "wiki").mkdir()
    assert main(["reproduce", "--size", "short", "--out", str(tmp_path), "--wikitext2", str(tmp_path / "wiki")]) == 1
    assert "wiki.train.tokens" in capsys.readouterr().err


def test_the_command_with_this_machines_rates(tmp_path, monkeypatch, capsys, measured):
    pytest.importorskip("matplotlib")

    def films(options, size):
        return [lambda: synthetic.films(500, size.users, seed=options.seed)]

    monkeypatch.setattr(command, "_data", films)
    assert main(["reproduce", "--size", "short", "--measure", "--protocol", "dpf-sum", "--out", str(tmp_path)]) == 0
    assert "ms measured" in capsys.readouterr().err
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["rates"] == "measured here by the planner"
    for table in results["measured"]:
        assert table["predicted"] > 0 and table["measured"] > 0 and table["shape"]["bins"] > 1
    report = (tmp_path / "results.md").read_text()
    assert "## Predicted and measured" in report and "65,536 rows of 256 bytes in 64 bins" in report
