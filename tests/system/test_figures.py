"""Tests of the tables of figures in the documents: they show the lines of bench/results, and a missing line is an error."""

import json
import tomllib

import pytest

import figures
from figures import FiguresError
from system.programs import ROOT

PAGE = "# Page\n\n<!-- figures: one -->\n<!-- end -->\n\nText.\n"
TABLE = """
[[tables]]
name = "one"
document = "page.md"
results = "one.jsonl"
columns = ["what", "command", "time", "rate", "runs", "limit", "ratio", "peer"]
rows = [
    {rows}
]
"""
SCAN = '{ what = "scan", command = "scan", where = { name = "scan" } },'
LINE = {"name": "scan", "batch": 1, "seconds": 0.04, "floor": "memory", "floor_seconds": 0.03, "ratio": 0.75}


def tree(folder, rows=SCAN, lines=(LINE,), page=PAGE, more=""):
    """Writes a repository with one table, and returns its folder."""
    (folder / "bench/results").mkdir(parents=True)
    (folder / figures.SETTINGS).write_text(TABLE.replace("{rows}", rows) + more)
    (folder / "bench/results/one.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "page.md").write_text(page)
    return folder


def written(folder, **parts):
    """Returns the cells of the rows of the table that is written."""
    root = tree(folder, **parts)
    figures.write(root)
    figures.check(root)
    lines = [line for line in (root / "page.md").read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_documents_have_the_figures_of_the_results():
    figures.check(ROOT)


def test_every_file_of_results_has_lines_of_json_and_published_lines_name_their_document():
    for path in sorted((ROOT / "bench/results").glob("*.jsonl")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            line = json.loads(text)
            ranged = [key for key in line if key.endswith("_range")]
            assert not ranged or "transcribed" in line, f"{path.name}:{number}: only a published line has {ranged}"
            assert (ROOT / line.get("transcribed", "README.md").split(" of ")[0]).exists(), f"{path.name}:{number}"


def test_a_row_is_the_median_of_its_runs_with_their_range(tmp_path):
    lines = [LINE | {"seconds": seconds, "ratio": 0.03 / seconds} for seconds in (0.04, 0.06, 0.05)]
    assert written(tmp_path, lines=lines) == [
        ["scan", "`scan`", "50.0 ms (40.0 to 60.0)", "20.0", "3", "memory 30.0 ms", "0.60", ""]
    ]


def test_a_batch_is_shown_for_each_query_or_as_a_whole(tmp_path):
    rows = f'{SCAN} {{ what = "whole", each = "batch", where = {{ name = "scan" }} }},'
    lines = [LINE | {"batch": 32, "seconds": 0.64, "floor": "vpdpbusd", "floor_seconds": 0.32, "ratio": 0.5}]
    each, whole = written(tmp_path, rows=rows, lines=lines)
    assert each[2:7] == ["20.0 ms", "50.0", "1", "`vpdpbusd` 10.0 ms", "0.50"]
    assert whole[1:7] == ["", "640 ms", "50.0", "1", "`vpdpbusd` 320 ms", "0.50"]


def test_a_step_stands_for_its_line(tmp_path):
    rows = '{ what = "half", step = "fold", limit = "none", where = { name = "scan" } },'
    lines = [LINE | {"steps": [{"name": "pack", "seconds": 0.01}, {"name": "fold", "seconds": 2.5e-5}]}]
    assert written(tmp_path, rows=rows, lines=lines)[0][2:7] == ["25.0 us", "40,000", "1", "none", ""]
    with pytest.raises(FiguresError, match="no step 'fold'"):
        written(tmp_path / "other", rows=rows)


def test_published_figures_have_a_mark_and_no_false_precision(tmp_path):
    line = {"name": "scan", "batch": 32, "seconds_range": [0.0928, 0.1088], "floor": "memory", "ratio_range": [0.46, 0.53]}
    row = written(tmp_path, lines=[line | {"transcribed": "page.md of 2026"}])[0]
    assert row[2:7] == ["2.9 to 3.4 ms †", "317", "", "memory", "0.46 to 0.53"]
    assert figures.FOOTNOTE in (tmp_path / "page.md").read_text()


def test_a_peer_has_its_time_over_that_of_the_row(tmp_path):
    rows = SCAN.replace("what =", 'peer = "other", what =')
    peer = '\n[peers.other]\nname = "Other"\nresults = "one.jsonl"\nwhere = { name = "other" }\n'
    others = [{"name": "other", "over": over, "seconds": 0.04 * over} for over in (1.5, 2.0)]
    row = written(tmp_path, rows=rows, lines=[LINE, *others], more=peer)[0]
    assert row[7] == "Other: 60 to 80 ms, 1.75 times as long (1.50 to 2.00)"
    with pytest.raises(FiguresError, match="no line has"):
        written(tmp_path / "without", rows=rows, more=peer)
    with pytest.raises(FiguresError, match="have no time"):
        written(tmp_path / "untimed", rows=rows, lines=[LINE, {"name": "other", "over": 1.5}], more=peer)
    with pytest.raises(FiguresError, match="there is no peer 'other'"):
        written(tmp_path / "unknown", rows=rows)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"lines": [LINE | {"name": "other"}]}, 'one.jsonl: no line has {"name": "scan"}'),
        ({"lines": [LINE, LINE | {"batch": 2}]}, "fits several measurements"),
        ({"lines": [LINE, LINE | {"program": "before"}]}, "fits several measurements"),
        ({"lines": [{"name": "scan", "batch": 1, "floor": "memory", "ratio": 0.5}]}, "have no time"),
        ({"lines": [{"name": "scan", "batch": 1, "seconds": 1.0}]}, "have no limit"),
        ({"lines": [{"name": "scan", "batch": 1, "seconds": 1.0, "floor": "memory"}]}, "have no ratio"),
        ({"rows": SCAN.replace("what =", "has = 'keys', what =")}, "and the field 'keys'"),
        ({"rows": SCAN.replace("what =", "unit = 's', what =")}, "unknown keys"),
        ({"rows": SCAN.replace("what =", "each = 'row', what =")}, "not query or batch"),
        ({"rows": SCAN.replace("what =", "results = 'none.jsonl', what =")}, "no file bench/results/none.jsonl"),
        ({"page": "# Page\n"}, "page.md: 0 marks"),
        ({"page": PAGE + PAGE}, "page.md: 2 marks"),
        ({"page": PAGE.replace("<!-- end -->\n", "")}, "there is no '<!-- end -->'"),
        ({"page": PAGE + PAGE.replace("one", "two")}, "has no table 'two'"),
    ],
)
def test_a_figure_without_lines_is_an_error_and_no_empty_cell(change, message, tmp_path):
    root = tree(tmp_path, **change)
    with pytest.raises(FiguresError) as error:
        figures.write(root)
    assert message in str(error.value)
    assert (root / "page.md").read_text() == change.get("page", PAGE)


@pytest.mark.parametrize("stale", ["0.0400 s", "41.0 ms"])
def test_a_check_names_the_first_difference_and_the_command(stale, tmp_path):
    root = tree(tmp_path)
    figures.write(root)
    text = (root / "page.md").read_text()
    (root / "page.md").write_text(text.replace("40.0 ms", stale))
    with pytest.raises(FiguresError) as error:
        figures.check(root)
    assert "page.md:6: the results say\n| scan | `scan` | 40.0 ms |" in str(error.value)
    assert "python3 scripts/figures.py --write" in str(error.value)


def test_a_check_sees_rows_that_are_missing(tmp_path):
    root = tree(tmp_path)
    with pytest.raises(FiguresError, match=r"page.md:4: the results say"):
        figures.check(root)


def test_a_sentence_repeats_the_figure_of_its_row(tmp_path):
    quote = '\n[[quotes]]\ndocument = "read.md"\ntable = "one"\nwhat = "scan"\ntext = "takes {time}, {slower} reads"\n'
    root = tree(tmp_path, more=quote)
    (root / "read.md").write_text("A scan takes 40\nms, 1.3 reads.\n")
    figures.write(root)
    figures.check(root)
    (root / "read.md").write_text("A scan takes 38 ms, 1.3 reads.\n")
    with pytest.raises(FiguresError, match=r"read.md: the results say 'takes 40 ms, 1.3 reads'"):
        figures.check(root)
    with pytest.raises(FiguresError, match="one does not have the row"):
        figures.documents(tree(tmp_path / "other", more=quote.replace('"scan"', '"fold"')))


@pytest.mark.parametrize(
    "value, text",
    [
        (0.97, "0.97"),
        (1.0, "1.00"),
        (9.523, "9.52"),
        (39.66, "39.7"),
        (99.6, "99.6"),
        (999.6, "1,000"),
        (1510.4, "1,510"),
        (7.72e7, "77,200,000"),
    ],
)
def test_figures_have_three_digits(value, text):
    assert figures.digits(value) == text


def test_every_table_has_a_heading_for_its_columns():
    for table in tomllib.loads((ROOT / figures.SETTINGS).read_text(encoding="utf-8"))["tables"]:
        assert set(table["columns"]) <= set(figures.HEADINGS), table["name"]
