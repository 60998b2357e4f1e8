"""Tables of all kinds are built into the same snapshot."""

import json
from pathlib import Path

import numpy
import pandas
import polars
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

import spirea

ROOT = Path(__file__).parents[2]
ROWS = [("example.org", b"fine", 1), ("example.net", b"\x00\xff", 2), ("字", b"", 3)]
COLUMNS = {name: [row[i] for row in ROWS] for i, name in enumerate(["domain", "verdict", "n"])}


def served(snapshot):
    """Serves a table with keys and looks up all its values."""
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        return [dict(value) for value in client.get_many(COLUMNS["domain"])]


EXPECTED = [{"verdict": verdict, "n": str(n).encode()} for _, verdict, n in ROWS]


@pytest.mark.parametrize(
    "table",
    [
        pandas.DataFrame(COLUMNS),
        pandas.DataFrame(COLUMNS, index=["x", "y", "z"]).astype({"domain": "category"}),
        polars.DataFrame(COLUMNS),
        polars.DataFrame(COLUMNS).lazy(),
        pyarrow.table(COLUMNS),
        pyarrow.table(COLUMNS).to_reader(max_chunksize=1),
        COLUMNS,
        {**COLUMNS, "n": numpy.array(COLUMNS["n"])},
        [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
    ],
    ids=lambda table: f"{type(table).__module__.partition('.')[0]} {type(table).__name__}",
)
def test_tables_with_columns(table):
    snapshot = spirea.build(table, key="domain")
    assert (snapshot.fields, snapshot.rows, snapshot.keyed) == (("verdict", "n"), 3, True)
    assert served(snapshot) == EXPECTED


def test_columns_whose_labels_are_numbers_go_by_their_text():
    frame = pandas.DataFrame([row[:2] for row in ROWS])
    snapshot = spirea.build(frame, key="0", value="1")
    assert (snapshot.fields, snapshot.keyed) == (("1",), True)
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        assert client.get("example.net")["1"] == b"\x00\xff"
    assert spirea.build(frame, key="0").fields == ("1",)
    for options in ({"key": 0}, {"value": [1]}):
        with pytest.raises(spirea.OptionError, match="named by text, such as '[01]': not by [01]"):
            spirea.build(frame, **options)


def test_files(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "table.parquet")
    assert served(spirea.build(tmp_path / "table.parquet", key="domain", value=["verdict", "n"])) == EXPECTED
    pyarrow.feather.write_feather(pyarrow.table(COLUMNS), tmp_path / "table.feather")
    assert served(spirea.build(tmp_path / "table.feather", key="domain", value=["verdict", "n"])) == EXPECTED
    (tmp_path / "table.txt").write_text("k;v\na;1\n")
    snapshot = spirea.build(str(tmp_path / "table.txt"), tmp_path / "out", key="k", value="v", delimiter=";")
    assert snapshot.path == str(tmp_path / "out") and snapshot.name == "out"
    assert spirea.open_snapshot(snapshot).version == snapshot.version
    assert json.loads((tmp_path / "out/manifest.json").read_text()) == snapshot.manifest


def test_text_of_any_encoding(tmp_path):
    latin1 = tmp_path / "latin1.csv"
    latin1.write_bytes("k,v\nM\u00fcnchen,1\n".encode("latin1"))
    with pytest.raises(spirea.TableError, match="latin1.csv:2: its text is not UTF-8"):
        spirea.build(latin1, key="k", value="v")
    with pytest.raises(spirea.OptionError, match="encoding belongs to tables in files"):
        spirea.build({"k": ["a"]}, key="k", encoding="latin1")
    raw, quoted = tmp_path / "raw.csv", tmp_path / "quoted.tsv"
    raw.write_bytes(b"k,v\n\xff\x01,1\n")
    quoted.write_text('k\tv\n"a"\t1\n')
    for path, key, options in [
        (latin1, "M\u00fcnchen", {"encoding": "latin1"}),
        (raw, b"\xff\x01", {"bytes": True}),
        (quoted, '"a"', {}),
        (quoted, "a", {"quote": True}),
    ]:
        snapshot = spirea.build(path, key="k", value="v", **options)
        with spirea.Server(snapshot) as server, spirea.Client(server) as client:
            assert client.get(key)["v"] == b"1"


def values(snapshot, indices):
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        return [bytes(value) for value in client.get_indices(indices)]


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(60, dtype=numpy.int16).reshape(20, 3),
        numpy.arange(120, dtype=numpy.float64).reshape(40, 3)[::2],
        numpy.asfortranarray(numpy.arange(60, dtype=numpy.uint8).reshape(20, 3)),
        numpy.arange(20, dtype=">u4"),
        numpy.array([f"{i:06}" for i in range(20)], dtype="S6"),
        numpy.arange(20).astype("datetime64[s]"),
        numpy.arange(40, dtype=numpy.int8).reshape(20, 2) % 2 == 0,
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_arrays_are_their_rows_bytes(array):
    rows = array.astype(array.dtype.newbyteorder("<"))
    assert values(spirea.build(array), [0, 7, 19]) == [rows[i : i + 1].tobytes() for i in (0, 7, 19)]


def test_rows_of_numbers_are_bytes_wherever_they_lie(matrix):
    lists = pyarrow.FixedSizeListArray.from_arrays(matrix.reshape(-1), 16)
    expected = [matrix[i].tobytes() for i in (3, 999)]
    for table in (
        pyarrow.table({"row": lists}),
        {"row": matrix},
        polars.DataFrame({"row": matrix}),
        polars.Series(matrix),
        pyarrow.table({"row": pyarrow.chunked_array([lists.slice(0, 500), lists.slice(500)])}),
    ):
        assert values(spirea.build(table), [3, 999]) == expected
    assert values(spirea.build(pyarrow.table({"row": lists}).slice(2)), [1]) == expected[:1]
    floats = numpy.asarray(matrix.tolist())
    assert values(spirea.build(matrix.tolist()), [5]) == [floats[5].tobytes()]


def test_a_build_in_memory_is_the_build_of_the_file(tmp_path, matrix):
    numpy.save(tmp_path / "matrix.npy", matrix)
    [memory, file] = [spirea.build(table, protocol="dpf-xor") for table in (matrix, tmp_path / "matrix.npy")]
    same = ["record_bytes", "records", "rows", "protocol", "servers", "fields"]
    assert [getattr(memory, name) for name in same] == [getattr(file, name) for name in same]


def test_progress_is_told_and_may_end_a_build(tmp_path, matrix):
    phases = []
    spirea.build(numpy.tile(matrix, (200, 1)), progress=lambda phase, done, total: phases.append(phase))
    assert set(phases) <= {"read", "plan", "encode", "hint", "verify", "test"}

    class Enough(Exception):
        pass

    def end(phase, done, total):
        raise Enough

    with pytest.raises(Enough):
        spirea.build(numpy.tile(matrix, (3000, 1)), tmp_path / "out", progress=end)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_not_named_goes_with_its_snapshot():
    import os

    snapshot = spirea.build(COLUMNS, key="domain", name="gone")
    path = snapshot.path
    assert os.path.isdir(path) and snapshot.name == "gone"
    del snapshot
    assert not os.path.exists(path)


def test_a_build_without_a_protocol_follows_the_planner_and_a_rebuild_keeps_it(tmp_path):
    assert spirea.build(COLUMNS, key="domain").protocol == "simple"
    # Rates of a machine that scans so slowly that a protocol without a scan is best.
    rates = json.loads((ROOT / "crates/cli/tests/rates.json").read_text())
    rates["seconds"]["scanned-byte"] = 1e-2
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(rates))
    out = tmp_path / "table"
    assert spirea.build(COLUMNS, out, key="domain", rates=slow).protocol == "onion"
    assert spirea.build(COLUMNS, out, key="domain", overwrite=True).protocol == "onion"
    assert spirea.build(COLUMNS, out, key="domain", overwrite=True, protocol="auto").protocol == "simple"
    with pytest.raises(spirea.OptionError, match="rates is for protocol auto"):
        spirea.build(COLUMNS, key="domain", protocol="simple", rates=slow)
    with pytest.raises(spirea.OptionError, match="prf is for dpf-xor, dpf-sum, and hybrid has no use for it"):
        spirea.build(COLUMNS, key="domain", protocol="hybrid", prf="aes-128")


def test_several_files(tmp_path):
    for year, row in [("2024", "a,1"), ("2025", "b,2")]:
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}/rows.csv").write_text(f"k,v\n{row}\n")
    paths = sorted(tmp_path.glob("*/*.csv"))
    expected = [{"v": b"1", "year": b"2024"}, {"v": b"2", "year": b"2025"}]
    for table in [tmp_path, str(tmp_path / "*/*.csv"), paths, [str(path) for path in paths]]:
        snapshot = spirea.build(table, key="k", value=["v", "year"])
        with spirea.Server(snapshot) as server, spirea.Client(server) as client:
            assert [dict(value) for value in client.get_many(["a", "b"])] == expected
    paths[1].write_text("k,w\nb,2\n")
    with pytest.raises(spirea.TableError, match=r"year=2025/rows.csv:1: no column .v"):
        spirea.build(paths, key="k", value="v")
