"""Wrong tables, arguments and servers raise exceptions that name the cause."""

import socket
from http.server import BaseHTTPRequestHandler

import numpy
import pandas
import polars
import pyarrow
import pytest

import spirea

nan = float("nan")


@pytest.mark.parametrize(
    ("table", "key", "cause"),
    [
        (pandas.DataFrame({"k": [1.0, nan], "v": ["a", "b"]}), "k", "type Float64.*one is missing"),
        (polars.DataFrame({"k": [1.0, nan], "v": ["a", "b"]}), "k", "type Float64"),
        (pandas.DataFrame({"k": ["a", None], "v": ["a", "b"]}), "k", 'row 2: column "k" is null'),
        (pandas.DataFrame({"k": ["a", nan], "v": ["a", "b"]}), "k", 'row 2: column "k" is null'),
        (pandas.DataFrame({"k": ["a", "b"], "v": ["a", nan]}), "k", 'row 2: column "v" is null'),
        (pandas.DataFrame({"k": ["a", "b"], "v": ["a", 1]}), "k", "Expected bytes|gives no Arrow stream"),
        (polars.DataFrame({"k": [["a"], ["b"]], "v": ["a", "b"]}), "k", "make them text, bytes or integers"),
        (pyarrow.table({"k": [{"x": 1}], "v": ["a"]}), "k", "make them text, bytes or integers"),
        (pyarrow.table({"k": ["a"], "v": [{"x": b"1"}]}), "k", "bytes in them, which JSON cannot carry"),
        (pyarrow.table({"v": pyarrow.array([], pyarrow.string())}), None, "no rows"),
        (pyarrow.table([["a"], ["b"], ["c"]], names=["k", "v", "v"]), "k", "two columns are called"),
        ({"k": ["a", "b"], "v": ["a"]}, "k", "make no table"),
        ({"k": ["a", "b"], "v": ["a", 1]}, "k", "make no table"),
        ([[1.0, 2.0], [3.0]], None, "as long as the first"),
        (numpy.array([[1.0], [2.0, 3.0]], dtype=object), None, "several lengths"),
        (numpy.zeros((2, 2, 2)), None, "3 dimensions"),
        (numpy.array([["a", "b"]]), None, "text in 2 dimensions"),
        (numpy.zeros(3, dtype=[("a", "i4")]), None, "named fields"),
        (numpy.zeros((3, 0)), None, "no bytes"),
        (numpy.zeros((0, 3)), None, "no rows"),
        (numpy.zeros((1, 200_000)), None, "above the limit of 1048576"),
    ],
)
def test_tables_that_cannot_be_taken(tmp_path, table, key, cause):
    with pytest.raises(spirea.TableError, match=cause) as caught:
        spirea.build(table, tmp_path / "out", key=key)
    assert isinstance(caught.value, ValueError) and "--" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_number_of_rows_than_was_expected_is_refused():
    table = {"k": ["a", "b"], "v": ["1", "2"]}
    assert spirea.build(table, key="k", expect_rows=2).rows == 2
    with pytest.raises(spirea.TableError, match="it has 2 rows, and not at least 3"):
        spirea.build(table, key="k", expect_rows="3..")


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table, dict])
def test_keys_that_stand_twice_are_named_with_their_rows(tmp_path, make):
    table = make({"k": [f"k{i}" for i in range(100)] + ["k17"], "v": ["v"] * 101})
    with pytest.raises(spirea.DuplicateKeyError, match='"k17" in rows 18, 101'):
        spirea.build(table, tmp_path / "out", key="k")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("table", "options", "cause"),
    [
        (3, {}, "a int is no table"),
        (b"bytes", {}, "a bytes is no table"),
        (numpy.zeros(3), {"key": "k"}, "no named columns"),
        (numpy.zeros(3), {"format": "csv"}, "format belongs to tables in files"),
        (pandas.DataFrame(), {}, "at least one column of values"),
        (numpy.zeros(3), {"protocol": "garlic"}, "garlic"),
        (numpy.zeros(3), {"protocol": "dpf-xor", "bins": 4}, "bins"),
        (numpy.zeros(3), {"bins": 0}, "bins"),
        (numpy.zeros(3), {"threads": 10_000}, "threads"),
        (numpy.zeros(3), {"name": "No Name"}, "name"),
        (numpy.zeros(3), {"prf": "siphash", "protocol": "dpf-xor"}, "accept_weak_prf"),
        (numpy.zeros(3), {"max_value": 2 << 20}, "max_value"),
    ],
)
def test_arguments_that_cannot_be_used(tmp_path, table, options, cause):
    with pytest.raises(spirea.SpireaError, match=cause) as caught:
        spirea.build(table, tmp_path / "out", **options)
    assert isinstance(caught.value, ValueError) and "--" not in str(caught.value)


def test_hyphens_of_keys_paths_and_hosts_are_left_alone(tmp_path):
    for key in ("k--a", "a --nulls b", "--nulls"):
        with pytest.raises(spirea.DuplicateKeyError, match=f'"{key}" in rows 1, 2'):
            spirea.build({"k": [key, key], "v": ["a", "b"]}, tmp_path / "out", key="k")
    with pytest.raises(spirea.BuildError, match="my--table"):
        spirea.open_snapshot(tmp_path / "my--table")
    with pytest.raises(spirea.OptionError, match="xn--bcher-kva.example"):
        spirea.Client("xn--bcher-kva.example", "table")


def test_columns_that_are_not_there_are_named_with_those_that_are(tmp_path):
    for table in (pandas.DataFrame({"k": ["a"], "v": ["b"]}), polars.DataFrame({"k": ["a"], "v": ["b"]})):
        with pytest.raises(spirea.TableError, match='no column "x"; there are "k", "v"'):
            spirea.build(table, tmp_path / "out", key="x", value="v")


def test_snapshots_that_are_none(tmp_path, keyed):
    with pytest.raises(spirea.BuildError, match="not a complete snapshot"):
        spirea.open_snapshot(tmp_path)
    with pytest.raises(spirea.BuildError, match="exists; choose another out"):
        spirea.build(numpy.zeros(3), keyed.path)
    with pytest.raises(spirea.OptionError, match="databases"):
        spirea.Server([])
    with pytest.raises(spirea.SpireaError, match="manifest"):
        spirea.Server(tmp_path)
    with pytest.raises(spirea.ServerError, match="manifest"):
        spirea.ServerProcess(tmp_path)


def test_addresses_that_are_taken_or_exposed(keyed, keyed_server):
    address = keyed_server.url.removeprefix("http://")
    with pytest.raises(spirea.ServerError, match="choose another address"):
        spirea.Server(keyed, listen=address)
    with pytest.raises(spirea.OptionError, match="insecure_no_auth"):
        spirea.Server(keyed, listen="0.0.0.0:0")
    with pytest.raises(spirea.ServerError, match="party"):
        spirea.Server(spirea.build(numpy.zeros(300), protocol="dpf-xor"))


def damaged(keyed, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(keyed, copy)
    matrix = bytearray((copy / "matrix.bin").read_bytes())
    matrix[0] ^= 1
    (copy / "matrix.bin").write_bytes(matrix)
    return copy


@pytest.mark.parametrize("server", [spirea.Server, spirea.ServerProcess])
def test_a_damaged_snapshot_is_not_served(keyed, tmp_path, server):
    with pytest.raises(spirea.ServerError, match="matrix.bin"):
        server(damaged(keyed, tmp_path))


class Answers(BaseHTTPRequestHandler):
    """A server that is not a Spirea server."""

    status, body = 200, b"hello"

    def do_GET(self):
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(params=[(200, b"hello"), (200, b""), (404, b"not here"), (301, b"")], ids=str)
def stranger(request, answering):
    status, body = request.param
    with answering(type("Strange", (Answers,), {"status": status, "body": body})) as url:
        yield url


def test_a_server_of_another_kind_or_version(stranger):
    with pytest.raises(spirea.VersionError, match="is this the address of a Spirea server|give the final address"):
        spirea.Client(stranger, "keyed")


def test_a_server_whose_wire_is_newer(keyed_server, answering):
    """A configuration of a later release, with unknown parameters, is refused."""
    import urllib.request

    with urllib.request.urlopen(f"{keyed_server.url}/v1/databases/keyed/config") as response:
        config = response.read()
    newer = config.replace(b"module-1280", b"module-9999")
    assert newer != config
    with answering(type("Newer", (Answers,), {"body": newer})) as url:
        with pytest.raises(spirea.VersionError, match='no LWE set is called "module-9999"'):
            spirea.Client(url, "keyed")


def test_servers_that_cannot_be_reached(keyed_server):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(spirea.UnreachableError, match="cannot reach the server") as caught:
        spirea.Client(f"http://127.0.0.1:{port}", "keyed", attempts=1)
    assert isinstance(caught.value, ConnectionError)
    with pytest.raises(spirea.RefusedError, match="no database") as caught:
        spirea.Client(keyed_server.url, "other")
    assert caught.value.status == 404
    for address, options, cause in (
        ("localhost:80", {}, "must begin with http"),
        (keyed_server.url, {"timeout": -1.0}, "timeout"),
        (keyed_server.url, {"pinned_key": "nonsense"}, "pinned_key"),
        (keyed_server.url, {"ca": "/no/such/file"}, "certificates"),
        ([keyed_server.url] * 2, {}, "server"),
    ):
        with pytest.raises(spirea.OptionError, match=cause):
            spirea.Client(address, "keyed", **options)
    with pytest.raises(spirea.OptionError, match="name the database"):
        spirea.Client(keyed_server.url)


def test_a_server_that_is_too_slow():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(spirea.UnreachableError, match="took too long"):
            spirea.Client(url, "keyed", timeout=0.2, attempts=1)


def test_one_party_down_or_of_another_table(matrix):
    snapshot = spirea.build(matrix, protocol="dpf-xor", name="rows")
    zero, one = (spirea.Server(snapshot, party=party) for party in (0, 1))
    client = spirea.Client([zero, one], attempts=1)
    assert (client.get_index(1).array("f4") == matrix[1]).all()
    with pytest.raises(spirea.OptionError, match="address"):
        spirea.Client(zero)
    with pytest.raises(spirea.OptionError):
        spirea.Client([zero, zero])
    one.stop()
    with pytest.raises(spirea.UnreachableError, match=f"party 1 .{one.url}"):
        client.get_index(1)
    with pytest.raises(spirea.UnreachableError, match=one.url):
        spirea.Client([zero, one], attempts=1)
    other = spirea.build(matrix + 1, protocol="dpf-xor", name="rows")
    with spirea.Server(other, party=1) as one:
        with pytest.raises(spirea.VersionError, match="party 0 serves version .*, party 1 serves"):
            spirea.Client([zero, one])
    zero.stop()


def test_look_ups_of_the_wrong_kind(keyed_server, pair):
    with spirea.Client(keyed_server) as client, spirea.Client(pair) as indexed:
        for wrong in (lambda: client.get_index(3), lambda: indexed.get("k"), lambda: indexed.get_index(1000)):
            with pytest.raises(spirea.OptionError):
                wrong()
        for index in (-1, 1 << 64, 1.0, "1", True):
            with pytest.raises(spirea.OptionError, match="an index is"):
                indexed.get_index(index)
    with pytest.raises(spirea.StoppedError, match="closed"):
        client.get("k")


def test_values_of_several_lengths_are_no_matrix():
    with spirea.Server(spirea.build({"v": ["abcd", "abcdefgh"]})) as server, spirea.Client(server) as client:
        with pytest.raises(spirea.OptionError, match="no matrix"):
            client.get_indices([0, 1]).to_numpy("f4")
