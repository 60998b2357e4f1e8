"""Arrow tables with wrong offsets or schemas: each raises `TableError`, and no other memory is read."""

import pytest

import spirea

pyarrow = pytest.importorskip("pyarrow")

# Runs in a separate process, because reading other memory may crash it.
PREPARED = """
import struct, sys
import pyarrow as pa
import spirea

class Capsule:
    "A producer that is not pyarrow."
    def __init__(self, table):
        self.table = table
    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

def batches_of_two_schemas():
    first = pa.record_batch({"value": pa.array([b"one"], pa.binary())})
    second = pa.record_batch({"value": pa.array([1 << 40], pa.int64())})
    return pa.RecordBatchReader.from_batches(first.schema, iter([first, second]))

def ipc_file(offsets):
    sink = pa.BufferOutputStream()
    good = pa.table({"value": pa.array([b"01234567", b"89abcdef"], pa.binary())})
    with pa.ipc.new_stream(sink, good.schema) as writer:
        writer.write_table(good)
    content = sink.getvalue().to_pybytes()
    before, after = struct.pack("<3i", 0, 8, 16), struct.pack("<3i", *offsets)
    assert content.count(before) == 1
    return pa.ipc.open_stream(content.replace(before, after)).read_all()
"""
BUILDS = """
try:
    spirea.build(TABLE, value="value", name="lying")
except spirea.TableError as error:
    print("TableError", error)
else:
    print("built")
"""
TABLES = {
    "a last offset behind the data": "ipc_file([0, 8, 116_000])",
    "an offset behind the last one": "ipc_file([0, 116_000, 16])",
    "a negative offset": "ipc_file([0, -64, 16])",
    "a mapping": '{"value": ipc_file([0, 8, 116_000])["value"]}',
    "a reader": "ipc_file([0, 8, 116_000]).to_reader()",
    "a batch": "ipc_file([0, 8, 116_000]).to_batches()[0]",
    "a data frame": 'ipc_file([0, 8, 116_000]).to_pandas(types_mapper=__import__("pandas").ArrowDtype)',
    "another producer's offset behind the last one": "Capsule(ipc_file([0, 116_000, 16]))",
    "another producer's negative offset": "Capsule(ipc_file([0, -64, 16]))",
    "batches of two schemas": "batches_of_two_schemas()",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_a_table_that_lies_is_refused(script, table):
    if "pandas" in table:
        pytest.importorskip("pandas")
    done = script(PREPARED + BUILDS.replace("TABLE,", f"{table},"))
    assert done.returncode == 0 and done.stdout.startswith("TableError"), (done.returncode, done.stdout, done.stderr)


def test_a_reader_and_a_sliced_table_are_built_as_ever():
    table = pyarrow.table({"value": pyarrow.array([f"v{i}" for i in range(100)])}).slice(10, 50)
    for given in (table, table.to_reader(), table.combine_chunks().to_batches()[0]):
        assert spirea.build(given, value="value", name="good").rows == 50
