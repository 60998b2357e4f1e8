"""Parquet as parts for one builder: rows are unchanged and in order, and no part is made twice."""

import fcntl
import hashlib
import io
import json

import fsspec
import pyarrow
import pyarrow.parquet
import pytest

import spirea
from spirea.cluster import rows
from spirea.cluster.files import Folder, upload

KEYS = [f"k{i}" for i in range(1000)]


@pytest.fixture
def parquet(tmp_path):
    """Folder of three files with row groups of 100 rows."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, (start, end) in enumerate([(0, 350), (350, 400), (400, 1000)]):
        table = pyarrow.table(
            {"other": [0.5] * (end - start), "value": [f"v{i}" for i in range(start, end)], "key": KEYS[start:end]}
        )
        pyarrow.parquet.write_table(table, folder / f"{number}.parquet", row_group_size=100)
    return folder


def made(table, parts):
    for unit in table.units:
        rows.make_part(unit, table.url, table.columns, parts.url)


def test_parts_are_the_rows_in_order_with_the_columns_that_are_wanted(parquet, tmp_path):
    table = rows.Table.of(f"{parquet}/*.parquet", "key", ["value"])
    assert [unit.rows for unit in table.units] == [100, 100, 100, 50, 50, *[100] * 6]
    parts = Folder(str(tmp_path / "parts"))
    made(table, parts)
    stream = rows.Parts(table, parts)
    assert len(stream) == 1000
    for _ in range(2):
        read = pyarrow.RecordBatchReader.from_stream(stream).read_all()
        assert read.column_names == ["key", "value"] and read["key"].to_pylist() == KEYS
        assert read["value"].to_pylist() == [f"v{i}" for i in range(1000)]


def test_a_snapshot_of_parts_has_every_row(parquet, tmp_path):
    table = rows.Table.of(str(parquet), None, ["value"])
    parts = Folder(str(tmp_path / "parts"))
    made(table, parts)
    snapshot = spirea.build(rows.Parts(table, parts), tmp_path / "words", value=["value"])
    assert snapshot.rows == 1000
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        assert [bytes(client.get_index(i)) for i in (0, 399, 400, 999)] == [b"v0", b"v399", b"v400", b"v999"]


def test_a_change_of_the_input_makes_other_parts(parquet):
    first = rows.Table.of(str(parquet), "key", ["value"])
    assert rows.Table.of(str(parquet), "key", ["value"]).name == first.name
    assert rows.Table.of(str(parquet), "key", ["other"]).name != first.name
    pyarrow.parquet.write_table(pyarrow.table({"key": ["a"], "value": ["b"], "other": [0.1]}), parquet / "1.parquet")
    assert rows.Table.of(str(parquet), "key", ["value"]).name != first.name


KILLED = """
import os, pathlib, sys
from spirea.cluster import rows
from spirea.cluster.files import Folder

def made(table, parts, telling):
    for unit in table.units:
        rows.make_part(unit, table.url, table.columns, parts.url)

def upload(folder, target, telling):
    # The matrix is there, and the machine fails.
    target.write("matrix.bin", (folder / "matrix.bin").read_bytes())
    os._exit(9)

rows.make_parts, rows.upload = made, upload
table, store, scratch = sys.argv[1:]
rows.build_from_store(table, Folder(store), pathlib.Path(scratch), name="words", key="key", values=["value"])
"""


def test_a_build_that_is_killed_while_it_copies_goes_on_with_the_snapshot_that_it_had(parquet, tmp_path, script, monkeypatch):
    store, scratch = tmp_path / "store", tmp_path / "scratch"
    done = script(KILLED, parquet, store, scratch)
    assert done.returncode == 9, done.stderr
    [half] = [path.parent for path in store.glob("words/*/matrix.bin")]
    assert not (half / "manifest.json").exists()
    copied = []

    def refused(*_, **__):
        raise AssertionError("it is built again")

    monkeypatch.setattr(rows, "build", refused)
    monkeypatch.setattr(rows, "make_parts", refused)
    monkeypatch.setattr(rows, "upload", lambda *given: copied.append(upload(*given)))
    version, url = rows.build_from_store(str(parquet), Folder(str(store)), scratch, name="words", key="key", values=["value"])
    assert url == str(half) and Folder(url).version() == version
    assert copied == [sum(path.stat().st_size for path in half.iterdir() if path.name != "matrix.bin")]
    with spirea.Server(half) as server, spirea.Client(server.url, "words") as client:
        assert bytes(client.get("k999")) == b"v999"
    assert [path for path in scratch.iterdir() if path.is_dir()] == [] and not list(store.glob("words/parts-*"))


def test_a_build_with_other_options_is_another_one_and_the_same_one_waits(parquet, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "make_parts", lambda table, parts, telling: made(table, parts))
    store, scratch = Folder(str(tmp_path / "store")), tmp_path / "scratch"

    def built(protocol):
        return rows.build_from_store(
            str(parquet), store, scratch, name="words", key="key", values=["value"], protocol=protocol
        )

    first = built("simple")
    [lock] = scratch.glob(".*.lock")
    assert built("hybrid") != first
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(spirea.ClusterError, match="another build of the same table goes on"):
            built("simple")


def test_what_is_wrong_with_the_input_is_said(parquet, tmp_path):
    with pytest.raises(spirea.TableError, match=r"0.parquet: there is no column valeu; it has other, value, key"):
        rows.Table.of(str(parquet), "key", ["valeu"])
    with pytest.raises(spirea.ClusterError, match="there are no Parquet files"):
        rows.Table.of(str(tmp_path), "key", ["value"])
    pyarrow.parquet.write_table(pyarrow.table({"key": [1], "value": ["b"]}), parquet / "3.parquet")
    with pytest.raises(spirea.TableError, match="3.parquet: its columns have other types"):
        rows.Table.of(str(parquet), "key", ["value"])


def test_a_part_that_is_damaged_is_said(parquet, tmp_path):
    table = rows.Table.of(str(parquet), "key", ["value"])
    parts = Folder(str(tmp_path / "parts"))
    made(table, parts)
    (tmp_path / "parts" / "part-000003.arrow").write_bytes(b"nonsense")
    with pytest.raises(spirea.SpireaError, match="part-000003.arrow: it is damaged"):
        spirea.build(rows.Parts(table, parts), tmp_path / "words", key="key", value="value")


def test_an_object_store_holds_parts_as_well(tmp_path):
    store = fsspec.filesystem("memory")
    store.store.clear()
    with store.open("bucket/rows/0.parquet", "wb") as file:
        pyarrow.parquet.write_table(pyarrow.table({"key": ["a", "b"], "value": ["c", "d"]}), file)
    table = rows.Table.of("memory://bucket/rows", "key", ["value"])
    parts = Folder("memory://bucket/parts")
    made(table, parts)
    assert pyarrow.RecordBatchReader.from_stream(rows.Parts(table, parts)).read_all()["key"].to_pylist() == ["a", "b"]


def test_a_part_of_another_schema_is_refused(tmp_path):
    table = rows.Table("memory://rows", ("value",), tuple(rows.Unit(i, "rows", i, 1) for i in range(2)), "name")
    parts = Folder(str(tmp_path / "parts"))
    for number, column in enumerate([pyarrow.array([b"one"]), pyarrow.array([1 << 40])]):
        sink = io.BytesIO()
        batch = pyarrow.record_batch({"value": column})
        with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        content = sink.getvalue()
        parts.write(f"part-{number:06}.arrow", content)
        note = {"bytes": len(content), "blake2b": hashlib.blake2b(content).hexdigest()}
        parts.write(f"part-{number:06}.json", json.dumps(note).encode())
    with pytest.raises(spirea.TableError, match="part-000001.arrow: .*columns"):
        spirea.build(rows.Parts(table, parts), tmp_path / "out", value="value", name="words")
