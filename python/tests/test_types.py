"""Every type has a canonical text: a key is found by the object that it was built from."""

import datetime
from decimal import Decimal
from uuid import UUID

import numpy
import pandas
import polars
import pyarrow
import pytest

import spirea
from spirea._columns import column_of
from spirea._text import bytes_of_key

DAY = datetime.date(2024, 5, 1)
NOON = datetime.datetime(2024, 5, 1, 12, 34, 56, 500_000)
BERLIN = datetime.timezone(datetime.timedelta(hours=2))
ID = UUID("01234567-89ab-cdef-fedc-ba9876543210")

TEXTS = [
    ("caf\u00e9", "caf\u00e9"),
    (b"caf\xc3\xa9", "caf\u00e9"),
    (bytearray(b"a"), "a"),
    (True, "true"),
    (numpy.False_, "false"),
    (-128, "-128"),
    (numpy.uint64(2**64 - 1), "18446744073709551615"),
    (Decimal("5.00"), "5"),
    (Decimal("-12.50"), "-12.5"),
    (Decimal("1E+3"), "1000"),
    (Decimal("-0.0"), "0"),
    (DAY, "2024-05-01"),
    (datetime.date(1, 1, 1), "0001-01-01"),
    (datetime.time(12, 34, 56, 500_000), "12:34:56.5"),
    (datetime.time(0), "00:00:00"),
    (NOON, "2024-05-01T12:34:56.5"),
    (NOON.replace(microsecond=0, tzinfo=BERLIN), "2024-05-01T10:34:56Z"),
    (numpy.datetime64(NOON, "ns"), "2024-05-01T12:34:56.5"),
    (numpy.datetime64("2024-05-01T12", "h"), "2024-05-01T12:00:00"),
    (numpy.datetime64(DAY), "2024-05-01"),
    (pandas.Timestamp("2024-05-01T12:34:56.000000001", tz="UTC"), "2024-05-01T12:34:56.000000001Z"),
    (datetime.timedelta(seconds=-3.5), "-PT3.5S"),
    (datetime.timedelta(), "P0D"),
    (pandas.Timedelta(1, "ns"), "PT0.000000001S"),
    (numpy.timedelta64(90, "s"), "PT90S"),
    (ID, "01234567-89ab-cdef-fedc-ba9876543210"),
]


@pytest.mark.parametrize(("key", "text"), TEXTS)
def test_key_has_this_text(key, text):
    assert bytes_of_key(key) == text.encode()


@pytest.mark.parametrize(
    "key",
    [
        1.0,
        numpy.float32(1),
        None,
        ["a"],
        Decimal("NaN"),
        pandas.NaT,
        pandas.NA,
        pandas.Period("2024-05"),
        numpy.datetime64("2024-05"),
        numpy.datetime64("NaT"),
        datetime.time(12, tzinfo=datetime.UTC),
    ],
)
def test_object_without_one_text_is_no_key(key):
    with pytest.raises(spirea.OptionError, match=f"a key is text, .*not {type(key).__name__}$"):
        bytes_of_key(key)


def found(table, keys, **options):
    """Looks up the values of keys in a table with columns `k` and `v`."""
    snapshot = spirea.build(table, key="k", value="v", **options)
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        return [None if value is None else value["v"] for value in client.get_many(keys)]


KEYS = [
    [True, False],
    [5, -7],
    [DAY, datetime.date(1969, 12, 31)],
    [NOON, NOON.replace(microsecond=0)],
    [NOON.replace(tzinfo=datetime.UTC), NOON.replace(microsecond=0, tzinfo=BERLIN)],
    [datetime.time(1, 2, 3), datetime.time(1, 2, 3, 4)],
    [datetime.timedelta(seconds=1.5), datetime.timedelta(days=2)],
    [Decimal("5.00"), Decimal("-12.50")],
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: type(keys[0]).__name__)
@pytest.mark.parametrize("frame", [pyarrow.table, polars.DataFrame, pandas.DataFrame], ids=lambda frame: frame.__module__)
def test_key_is_found_by_the_object_that_it_was_built_of(frame, keys):
    assert found(frame({"k": keys, "v": ["a", "b"]}), keys) == [b"a", b"b"]


def test_joins_have_nanoseconds():
    moments = [1714566896000000001, None, 1714566896000000000]
    polars_frame = polars.DataFrame({"k": polars.Series(moments, dtype=polars.Int64).cast(polars.Datetime("ns", "UTC"))})
    times = pyarrow.array([1, None, 0], pyarrow.time64("ns"))
    for frame, keys in (
        (polars_frame, ["2024-05-01T12:34:56.000000001Z", "2024-05-01T12:34:56Z"]),
        (pyarrow.table({"k": times}), ["00:00:00.000000001", "00:00:00"]),
    ):
        with spirea.Server(spirea.build({"k": keys, "v": ["a", "b"]}, key="k")) as server, spirea.Client(server) as client:
            joined = client.join(frame, on="k")["v"]
            assert (joined.to_pylist() if isinstance(frame, pyarrow.Table) else joined.to_list()) == ["a", None, "b"]


def test_uuids_and_nanoseconds_are_found():
    ids = pyarrow.array([ID.bytes, bytes(16)], pyarrow.uuid())
    assert found(pyarrow.table({"k": ids, "v": ["a", "b"]}), [ID, UUID(int=0)]) == [b"a", b"b"]
    moments = pandas.Series(
        pandas.to_datetime(["2024-05-01T12:34:56.000000001", "2024-05-01T00:00:00.0"]).tz_localize("Europe/Berlin")
    )
    assert found(pandas.DataFrame({"k": moments, "v": ["a", "b"]}), list(moments)) == [b"a", b"b"]


@pytest.mark.parametrize("frame", [pyarrow.table, polars.DataFrame, pandas.DataFrame], ids=lambda frame: frame.__module__)
def test_columns_of_nulls_are_nulls(frame):
    table = frame({"k": ["a", "b"], "v": [None, None]})
    with pytest.raises(spirea.TableError, match='row 1: column "v" is null'):
        spirea.build(table, key="k", value="v")
    assert found(table, ["a", "b"], nulls="empty") == [b"", b""]
    with pytest.raises(spirea.TableError):
        spirea.build(table, key="v", value="k", nulls="empty")


@pytest.mark.parametrize("frame", [pyarrow.table, polars.DataFrame, pandas.DataFrame], ids=lambda frame: frame.__module__)
def test_nested_values_are_json(frame):
    table = frame({"k": ["a", "b"], "v": [["a, b"], ["a", "b"]], "w": [{"x": 1.0, "y": None}, {"x": 0.5, "y": "z"}]})
    with spirea.Server(spirea.build(table, key="k")) as server, spirea.Client(server) as client:
        assert dict(client.get("a")) == {"v": b'["a, b"]', "w": b'{"x":1,"y":null}'}
        assert dict(client.get("b")) == {"v": b'["a","b"]', "w": b'{"x":0.5,"y":"z"}'}


def test_types_that_pandas_alone_knows_are_refused():
    frame = pandas.DataFrame({"k": pandas.period_range("2024-05", periods=2, freq="M"), "v": ["a", "b"]})
    with pytest.raises(spirea.TableError, match=r"of type pandas.period; make them text first, such as with astype\(str\)"):
        spirea.build(frame, key="k", value="v")


def test_arrays_of_other_byte_orders_and_of_text():
    numbers = numpy.array([[1, 2], [3, 4]])
    for other in (numbers.astype(">i4"), {"value": numbers.astype(">i4")}):
        snapshot = spirea.build(other)
        with spirea.Server(snapshot) as server, spirea.Client(server) as client:
            assert client.get_index(1)["value"] == numbers[1].astype("<i4").tobytes()
    for text in (numpy.array(["caf\u00e9", "z"]), numpy.array(["caf\u00e9", "z"], dtype=">U7")):
        snapshot = spirea.build(text)
        with spirea.Server(snapshot) as server, spirea.Client(server) as client:
            assert [value["value"] for value in client.get_indices([0, 1])] == ["caf\u00e9".encode(), b"z"]


VALUES = {
    "text": (["caf\u00e9", "b", None], pyarrow.string(), "caf\u00e9"),
    "bytes": ([b"\xff", b"b", None], pyarrow.binary(), b"\xff"),
    "integer": ([-128, 2**62, None], pyarrow.int64(), -128),
    "number": ([0.1, 1e21, None], pyarrow.float64(), 0.1),
    "decimal": ([Decimal("12.5"), Decimal("-0.25"), None], pyarrow.decimal128(38, 2), Decimal("12.5")),
    "boolean": ([True, False, None], pyarrow.bool_(), True),
    "date": ([DAY, datetime.date(1, 1, 1), None], pyarrow.date32(), DAY),
    "time": (
        [datetime.time(12, 34, 56, 500_000), datetime.time(0), None],
        pyarrow.time64("us"),
        datetime.time(12, 34, 56, 500_000),
    ),
    "datetime": ([NOON, datetime.datetime(1, 1, 1), None], pyarrow.timestamp("us"), NOON),
    "instant": (
        [NOON.replace(tzinfo=datetime.UTC), datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), None],
        pyarrow.timestamp("us", "UTC"),
        NOON.replace(tzinfo=datetime.UTC),
    ),
    "duration": (
        [datetime.timedelta(seconds=-3.5), datetime.timedelta(), None],
        pyarrow.duration("us"),
        datetime.timedelta(seconds=-3.5),
    ),
}


@pytest.fixture(scope="module")
def typed():
    columns = {kind: pyarrow.array(values, of) for kind, (values, of, _) in VALUES.items()}
    nested = pyarrow.array([{"x": 1}, None, None])
    table = pyarrow.table({"key": ["a", "b", "c"], **columns, "json": nested})
    snapshot = spirea.build(table, key="key", nulls="empty", name="typed")
    assert snapshot.types == (*VALUES, "json")
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        yield client


def test_values_are_those_of_their_types(typed):
    first, second, missing = typed.get_many(["a", "b", "c"])
    for kind, (values, _, value) in VALUES.items():
        assert (first.value(kind), type(first.value(kind))) == (value, type(value))
        assert second.value(kind) == values[1]
        # An empty text is a valid value, not a missing one.
        assert missing.value(kind) == {"text": "", "bytes": b""}.get(kind)
    assert first.value("json") == {"x": 1}
    assert missing.values_by_name()["integer"] is None
    with pytest.raises(KeyError):
        first.value("none")


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_joins_have_columns_of_the_types(typed, frame):
    joined = typed.join(frame({"key": ["a", "none", "b", "c"]}), on="key")
    library = frame.__module__.partition(".")[0]
    expected = {"pyarrow": pyarrow.table, "polars": polars.from_arrow}.get(library)
    for kind, (values, of, _) in VALUES.items():
        wanted = [values[0], None, values[1], {"text": "", "bytes": b""}.get(kind)]
        if library == "pandas":
            cells = [None if pandas.isna(cell) else cell for cell in joined[kind]]
            assert cells == wanted, kind
        elif library == "polars":
            assert joined[kind].to_list() == wanted, kind
            assert joined.schema[kind] == polars.from_arrow(pyarrow.table({kind: pyarrow.array(values, of)})).schema[kind]
        else:
            assert joined[kind].to_pylist() == wanted, kind
            assert joined.schema.field(kind).type == of
    dtypes = {"integer": "Int64", "number": "float64", "boolean": "boolean", "instant": "datetime64[us, UTC]"}
    if library == "pandas":
        assert {kind: str(joined[kind].dtype) for kind in dtypes} == dtypes
    assert expected is not None or library == "pandas"
    whole = typed.join(frame({"key": ["a"]}), on="key", encoding=None)
    assert next(iter(whole["integer"])) in (b"-128", pyarrow.scalar(b"-128"))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_what_is_not_of_the_type_are_text(library):
    for kind, cell in [("integer", b"five"), ("integer", str(2**70).encode()), ("date", b"+12345-01-01"), ("boolean", b"yes"),
                       ("decimal", b"1" * 40), ("json", b"{"), ("instant", b"9" * 30)]:  # fmt: skip
        column = column_of(library, kind, [cell, None, b""])
        values = column.to_pylist() if library == "pyarrow" else list(column)
        assert values == [cell.decode(), None, None]
    nanoseconds = column_of(library, "datetime", [b"2024-05-01T12:34:56.000000001", None])
    last = {"pandas": lambda: nanoseconds[0].nanosecond, "polars": lambda: nanoseconds.dt.nanosecond()[0],
            "pyarrow": lambda: nanoseconds[0].value % 1000}[library]  # fmt: skip
    assert last() == 1


def test_keys_have_the_form_that_the_table_demands():
    people = pyarrow.table({"email": [" Zoe@Example.ORG"], "name": ["Zoe"]})
    snapshot = spirea.build(people, key="email", normalise="trim,lower", name="people")
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        assert client.get("ZOE@example.org ").value() == "Zoe"
        joined = client.join(pandas.DataFrame({"at": ["zoe@EXAMPLE.org", "x"]}), on="at")
        assert list(joined["name"]) == ["Zoe", None]
    with pytest.raises(spirea.OptionError, match="no form of keys"):
        spirea.build(people, key="email", normalise="upper")
    with pytest.raises(spirea.TableError, match="is no domain name"):
        spirea.build(people, key="email", normalise="domain")
    typed = spirea.build({"k": ["a"], "v": ["5"]}, key="k", types={"v": "integer"})
    assert typed.types == ("integer",)


def test_domains_are_asked_for_with_their_parents():
    table = {"name": ["Ads.Example.com", "org"], "why": ["ads", "all of it"]}
    snapshot = spirea.build(table, key="name", normalise="domain", name="domains")
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        found = client.get_domain("x.ADS.example.com.")
        assert list(found.matches) == ["ads.example.com"] and found.matches["ads.example.com"].value() == "ads"
        assert found.asked == ("x.ads.example.com", "ads.example.com", "example.com", "com") and found.unasked == ()
        before = client.costs
        long, none, short = client.get_domains(["a.b.ads.example.com", "example.net", "org"], parents=2)
        assert (bool(long), long.unasked) == (False, ("b.ads.example.com", "ads.example.com", "example.com"))
        assert (bool(none), list(short.matches)) == (False, ["org"])
        # Every name has the same number of look-ups.
        first = client.costs.sent_bytes - before.sent_bytes
        client.get_domains(["com", "com", "com"], parents=2)
        assert client.costs.sent_bytes - before.sent_bytes == 2 * first
        with pytest.raises(spirea.OptionError):
            client.get_domain("com", parents=0)
