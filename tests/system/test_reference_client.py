"""Tests of the reference client, with served tables of all protocols, and with vectors and examples.

The program builds, changes and serves the tables. The client must find their values. A damaged answer must be an error, or
change nothing.
"""

import json
import random

import blake3
import pytest

import examples
import vectors
from reference import envelope, table
from reference.errors import ClientError, Refused, Unverified
from reference.look_up import DROPPED, Client
from reference.streams import OsRandom
from reference.transport import Server
from system.programs import Folder
from system.reference_world import (
    BY_INDEX,
    CHANGED,
    NAMES,
    ROWS,
    SHORT,
    Damaging,
    command,
    damaging_proxy,
    database,
    flipped,
    http_says,
    inverted,
    options,
    served,
    value,
)

EXAMPLES = [
    (path.name, name, said)
    for path in examples.documents()
    for name, said in examples.BLOCK.findall(path.read_text(encoding="utf-8"))
]
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def chosen(names):
    """Returns protocols as parameters; the short form has only some of them."""
    return [pytest.param(name, marks=[] if name in SHORT else pytest.mark.full) for name in names]


@pytest.fixture(scope="module")
def world(spirea, tmp_path_factory):
    with served(spirea, tmp_path_factory.mktemp("reference")) as world:
        yield world


@pytest.mark.parametrize(("document", "name", "said"), EXAMPLES, ids=[name for _, name, _ in EXAMPLES])
def test_example(document, name, said):
    """The documents' examples equal the client's results."""
    assert examples.computed(name, said) == said, document


def test_every_example_is_in_a_document():
    assert {name for _, name, _ in EXAMPLES} == set(examples.EXAMPLES)


def test_vectors_of_functions():
    assert vectors.check_functions() > 0


def test_vectors_of_keys():
    assert vectors.check_keys() > 0


@pytest.mark.parametrize("name", vectors.NAMES)
def test_vector_of_a_look_up(name):
    vectors.check_look_up(name)


@pytest.mark.parametrize("protocol", chosen(NAMES))
def test_keys(world, protocol):
    """The client finds present, changed, deleted, added and absent keys, in a version signed by the pinned key."""
    keys = ["k17", "k1", "k2", "new", "never"]
    status, lines, said = command(world.urls(protocol), database(protocol, "keyed"), *keys, "--pin-key", world.tables.public)
    values = [{"note": value(17), "size": "17"}, CHANGED, None, CHANGED, None]
    assert [line.get("value") for line in lines] == values, said
    assert [line["key"] for line in lines] == keys
    assert status == 1


@pytest.mark.parametrize("protocol", chosen(BY_INDEX))
def test_rows(world, protocol):
    """The client finds present, changed, deleted and added rows by index."""
    wanted = [17, 1, 2, ROWS, ROWS - 1]
    arguments = [argument for index in wanted for argument in ("--index", str(index))]
    status, lines, said = command(world.urls(protocol), f"{protocol}-rows", *arguments)
    values = [{"note": value(17)}, {"note": "changed"}, None, {"note": "added"}, {"note": value(ROWS - 1)}]
    assert [line.get("value") for line in lines] == values, said
    assert status == 1


def test_types_and_forms_are_those_of_the_command(spirea, tmp_path):
    """The client shows the types of a file's values, and converts keys to their form, like the command."""
    folder = Folder(spirea, tmp_path)
    lines = [
        "key,price,digits,stock,sold,since,about,note",
        " Zo\u00cb ,1e3,12.50,,true,2024-05-01,{},x",
        "B,NaN,-0.5,18446744073709551616,false,,[1],",
    ]
    folder.write("table.csv", "\n".join(lines) + "\n")
    columns = lines[0].split(",")[1:]
    types = "price=number,digits=decimal,stock=integer,sold=boolean,since=date,about=json"
    named = ["--input", "table.csv", "--key", "key", "--value", *columns, "--out", "typed", "--threads", "1"]
    folder.run("build", *named, "--types", types, "--normalise", "trim,lower,nfc")
    keys = ["zo\u00eb", "ZOE\u0308 ", " b", "c"]
    with folder.serving("typed") as [url]:
        status, [*found, absent], said = command([url], "typed", *keys)
        told = folder.run("get", url, "typed", "--json", *keys[:-1]).stdout.splitlines()
    told = [{name: value for name, value in json.loads(line).items() if name != "version"} for line in told]
    assert (status, found) == (1, told), said
    assert not absent["found"] and all(line["found"] for line in found)
    assert found[2]["value"]["stock"] == 2**64 and found[2]["value"]["price"] is None


def test_row_behind_the_end_is_an_error(world):
    status, lines, said = command([world.one], "simple-rows", "--index", str(ROWS + 1))
    assert (status, lines) == (2, []) and "no such entry" in said


@pytest.fixture
def rows_in_bins(world):
    client = Client(world.urls("dpf-xor"), "dpf-xor-bins", OsRandom(), options())
    assert (client.found.delta, client.found.base.protocol.bins) == (None, 7), "a table in bins has no delta"
    return client


def test_fetch_of_rows(rows_in_bins):
    """One query fetches several values: changed, added, deleted and dropped ones. Single look-ups still work."""
    text = {1: b"changed", ROWS: b"added", **{i: value(i).encode() for i in (17, 30, 45)}}
    wanted = [17, 1, 30, 2, 45, ROWS, 1]
    # Rows 1 and 2 are in the same bin of nine rows.
    assert rows_in_bins.fetch(indices=wanted) == [DROPPED if index == 2 else [text[index]] for index in wanted]
    assert rows_in_bins.fetch(indices=[2, 1]) == [None, DROPPED], "a row that was deleted, and one behind it"
    assert rows_in_bins.fetch() == []
    assert rows_in_bins.look_up(indices=[17, 2]) == [[value(17).encode()], None], "rows one by one"


@pytest.mark.full
def test_fetch_of_keys(world):
    keyed = Client(world.urls("dpf-sum"), "dpf-sum-bins", OsRandom(), options())
    assert keyed.fetch([b"k17"]) == [[value(17).encode(), b"17"]]
    assert keyed.fetch([b"never"]) == [None]


def test_fetch_of_keys_with_copies(world):
    """One query fetches several keys, each from one of three bins: changed, added, deleted and absent ones."""
    client = Client(world.urls("dpf-xor"), "dpf-xor-copies", OsRandom(), options())
    assert client.found.base.table["copies"] == 3 and client.found.base.protocol.bins == 12
    expected = {"k17": [value(17).encode(), b"17"], "k1": [b"changed", b"7"], "k2": None, "new": [b"changed", b"7"]}
    wanted = ["k17", "k1", "k2", "k17", "new", "never"]
    for keys in (wanted, wanted[::-1]):
        found = client.fetch([key.encode() for key in keys])
        right = [expected.get(key) for key in keys]
        # Five keys of twelve bins fit, except by a draw of places as rare as one in some thousand.
        assert all(one in (it, DROPPED) for one, it in zip(found, right)) and found.count(DROPPED) <= 1
    assert client.look_up([key.encode() for key in wanted]) == [expected.get(key) for key in wanted], "keys one by one"


@pytest.mark.full
def test_fetch_under_registered_keys(world):
    """One query of one secret fetches a value of each bin. A lie anywhere in the answer is refused."""
    client = Client(world.urls("exppack-simple"), "exppack-simple-bins", OsRandom(), options())
    assert (client.found.delta, client.found.base.protocol.bin_count) == (None, 4)
    text = {1: b"changed", ROWS: b"added", **{i: value(i).encode() for i in (17, 30, 45)}}
    wanted = [17, 1, 30, 2, 45, ROWS, 1]
    first = {}
    for index in wanted:
        first.setdefault(client.found.base.protocol.bin_of(index), index)
    kept = {index for index in wanted if index in first.values()}
    assert len(kept) == len(first) and kept != set(wanted), "some are dropped"
    expected = [[text[index]] if index in text else None for index in wanted]
    assert client.fetch(indices=wanted) == [value if index in kept else DROPPED for index, value in zip(wanted, expected)]
    assert client.look_up(indices=[17, 2]) == [[value(17).encode()], None], "rows one by one"
    Damaging(client, inverted)
    with pytest.raises(Unverified):
        client.fetch(indices=[])


@pytest.mark.parametrize("bin_number", range(6))
def test_lie_about_any_bin_is_refused(rows_in_bins, bin_number):
    at = bin_number * rows_in_bins.found.base.protocol.row_bytes
    Damaging(rows_in_bins, lambda answer: answer[:at] + inverted(answer[at : at + 1]) + answer[at + 1 :])
    with pytest.raises(Unverified):
        rows_in_bins.fetch(indices=[17])


def test_version_with_a_delta_is_not_fetched_from(world):
    with pytest.raises(ClientError):
        world.client("dpf-xor").fetch([b"k1"])


@pytest.mark.parametrize("protocol", chosen(NAMES))
def test_inverted_answers_are_refused(world, protocol):
    client = world.client(protocol)
    Damaging(client, inverted)
    with pytest.raises(Unverified):
        client.look_up([b"k17"])


@pytest.mark.parametrize("protocol", chosen(NAMES))
def test_flipped_bit_is_refused_or_changes_nothing(world, protocol):
    client = world.client(protocol)
    Damaging(client, flipped(random.Random(protocol)))
    try:
        found = client.look_up([b"k17"])
    except Unverified:
        return
    assert found == [[value(17).encode(), b"17"]]


@pytest.mark.parametrize("protocol", chosen(NAMES))
def test_shorter_answer_is_refused(world, protocol):
    client = world.client(protocol)
    Damaging(client, lambda answer: answer[:-1])
    with pytest.raises(ClientError):
        client.look_up([b"k17"])


def lying(world, protocol):
    """Returns a client whose server changes row 17, with a valid checksum by the public salt."""
    client = world.client(protocol, "rows")
    part = client.found.base
    honest, (record, _) = part.protocol.decode, table.row(part.table, 17)

    def decode(state, answers):
        sealed = bytearray(honest(state, answers)[: -table.CHECKSUM_BYTES])
        sealed[sealed.index(value(17).encode())] ^= 1
        salt = bytes.fromhex(part.table["salt"])
        return bytes(sealed) + table.checksum(salt, record, bytes(sealed))

    part.protocol.decode = decode
    return client


def test_lie_is_refused_where_records_carry_proofs(world):
    with pytest.raises(Unverified, match="sealed"):
        lying(world, "simple").look_up(indices=[17])


@pytest.mark.full
def test_lie_is_taken_where_records_carry_no_proofs(world):
    lie = bytearray(value(17).encode())
    lie[0] ^= 1
    assert lying(world, "double").look_up(indices=[17]) == [[bytes(lie)]]


def test_changed_configuration_is_refused(world):
    """A configuration with any changed byte is refused, or has the same content."""
    generator, refused, draws = random.Random(2), 0, 120
    name = "simple-keyed"
    config = Server(world.one, name).config()
    signature = envelope.Message(config).bytes(9)
    covered = [i for i in range(len(config)) if not config.find(signature) <= i < config.find(signature) + len(signature)]

    class Changing(Server):
        def config(self, version=None):
            at = generator.choice(covered)
            return config[:at] + bytes([config[at] ^ 1 << generator.randrange(8)]) + config[at + 1 :]

    base = envelope.Message(config).message(4)
    for _ in range(draws):
        client = Client.__new__(Client)
        client.name, client.rng, client.options = name, OsRandom(), options(pin_key=world.tables.public)
        client.servers = [Changing(world.one, name)]
        try:
            client.connect()
        except ClientError:
            refused += 1
            continue
        assert [part.table for part in client.found.parts] == [json.loads(base.bytes(2)), client.found.delta.table]
    assert refused > 100, f"{refused} of {draws} changed configurations were refused"


def test_other_key_or_older_version_is_refused(world):
    right = world.tables.public
    sequence = world.client("simple", pin_key=right).found.signature["sequence"]
    for given in (["--pin-key", "11" * 32], ["--pin-key", right, "--least-sequence", str(sequence + 1)]):
        status, lines, said = command([world.one], "simple-keyed", "k17", *given)
        assert (status, lines) == (2, []), f"{given}: {said}"


def test_unsigned_version_is_refused(world):
    with world.tables.serving("base-simple-keyed") as unsigned:
        status, lines, said = command(unsigned, "simple-keyed", "k17", "--pin-key", world.tables.public)
        assert (status, lines) == (2, []) and "not signed" in said, said
        assert command(unsigned, "simple-keyed", "k17")[0] == 0, "a version without a delta"


@pytest.mark.parametrize(
    ("servers", "database", "arguments"),
    [
        (["one"], "nothing", ["k1"]),
        (["one"], "simple-rows", ["k1"]),
        (["one"], "simple-keyed", ["--index", "1"]),
        (["first"], "dpf-xor-keyed", ["k1"]),
        (["first", "first"], "dpf-xor-keyed", ["k1"]),
        (["one", "second"], "simple-keyed", ["k1"]),
        (["nobody"], "simple-keyed", ["k1"]),
    ],
)
def test_error_is_no_absence(world, servers, database, arguments):
    urls = {"one": world.one, "first": world.two[0], "second": world.two[1], "nobody": "http://127.0.0.1:9"}
    status, lines, said = command([urls[server] for server in servers], database, *arguments)
    assert (status, lines) == (2, []), said


def test_keys_that_the_server_does_not_have_travel_with_the_queries(world):
    client = world.client("hybrid")
    client.register = lambda: None
    assert client.look_up([b"k17"]) == [[value(17).encode(), b"17"]]


def test_keys_that_are_not_those_of_the_queries_are_refused(world):
    client = world.client("hybrid")
    client.register = lambda: None
    client.send = lambda server, request, limit: server.query(
        envelope.with_keys(request, bytes(len(client.found.base.protocol.keys)), b""), "0" * 32, limit
    )
    with pytest.raises(Refused) as refused:
        client.look_up([b"k17"])
    assert (refused.value.status, refused.value.code) == (400, "MALFORMED")


@pytest.mark.parametrize("protocol", ["simple", "hybrid"])
def test_command_behind_a_damaging_proxy(world, protocol):
    """The command reports the damage, prints no value, and does not retry."""
    with damaging_proxy(world.one) as (url, seen):
        status, lines, said = command([url], f"{protocol}-keyed", "k17")
    assert (status, lines) == (2, []) and "withheld" in said, said
    assert len(seen) == 1


@pytest.fixture(scope="module")
def found(world):
    return world.client("simple", "rows").found


@pytest.fixture(scope="module")
def endpoint(world):
    return f"{world.one}/v1/databases/simple-rows"


def test_configuration_over_http(endpoint, found):
    status, headers, config = http_says(f"{endpoint}/config")
    tag = f'"{found.version.hex()}"'
    assert (status, headers["ETag"], headers["Cache-Control"]) == (200, tag, "no-cache")
    assert headers["Content-Type"] == "application/x-protobuf"
    assert http_says(f"{endpoint}/config", headers={"If-None-Match": tag})[0] == 304, "a known configuration"
    assert http_says(f"{endpoint}/config?version={found.version.hex()}")[2] == config, "a named configuration"
    assert http_says(f"{endpoint}/config?version={'00' * 32}")[0] == 409, "a version that is not there"


def test_hint_over_http(endpoint, found):
    name, length = found.base.hint_hash.hex(), found.base.protocol.hint_bytes
    hint = f"{endpoint}/hint?blake3={name}"
    status, headers, whole = http_says(hint)
    assert (status, len(whole), headers["ETag"]) == (200, length, f'"{name}"')
    assert (headers["Accept-Ranges"], headers["Content-Type"]) == ("bytes", "application/octet-stream")
    for asked, start, end in (
        ("bytes=5-9", 5, 10),
        (f"bytes={length - 3}-", length - 3, length),
        ("bytes=-4", length - 4, length),
    ):
        status, headers, part = http_says(hint, headers={"Range": asked, "If-Range": f'"{name}"'})
        assert (status, part) == (206, whole[start:end]), asked
        assert headers["Content-Range"] == f"bytes {start}-{end - 1}/{length}"
    assert http_says(hint, headers={"Range": "bytes=5-9", "If-Range": '"other"'})[0] == 200, "a range of another hint"
    assert http_says(hint, headers={"Range": "bytes=0-1,3-4"})[0] == 200, "two ranges"
    status, headers, _ = http_says(hint, headers={"Range": f"bytes={length}-"})
    assert (status, headers["Content-Range"]) == (416, f"bytes */{length}"), "a range behind the end"
    assert http_says(f"{endpoint}/hint?blake3={'00' * 32}")[0] == 410, "a hint that is not served"
    rows = http_says(f"{endpoint}/hint/rows?blake3={name}")[2]
    row = found.base.protocol.degree * found.base.protocol.hint_bits // 8
    hashes = [blake3.blake3(whole[at : at + row]).digest()[:16] for at in range(0, length, row)]
    assert rows == b"".join(hashes), "hashes of rows"


def stale_query():
    return envelope.query_request(bytes([1] * 32), [b"x"], b"", [], b"")


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "wanted", "code"),
    [
        ("POST", "query", {"Content-Type": "text/plain"}, b"x", 415, "WRONG_CONTENT_TYPE"),
        ("POST", "query", PROTOBUF, b"\xff", 400, "MALFORMED"),
        ("POST", "query", PROTOBUF, b"\x08\x02", 400, "WRONG_FORMAT"),
        ("POST", "query", PROTOBUF, bytes(1 << 26), 413, "TOO_LARGE"),
        ("POST", "query", PROTOBUF, stale_query(), 409, "STALE_VERSION"),
        ("POST", "keys", PROTOBUF, b"x", 404, "NO_KEYS_NEEDED"),
        ("DELETE", "query", {}, None, 405, "METHOD_NOT_ALLOWED"),
        ("GET", "nothing", {}, None, 404, "NO_SUCH_ENDPOINT"),
    ],
    ids=lambda said: said if isinstance(said, str) and said.isupper() and len(said) > 6 else "",
)
def test_error_over_http(endpoint, method, path, headers, body, wanted, code):
    try:
        status, _, said = http_says(f"{endpoint}/{path}", method, headers, body)
    except OSError:
        # The server may close the connection before it has received a body that is too long.
        assert wanted == 413
        return
    message = envelope.Message(said).checked()
    assert (status, envelope.CODES[message.number(2)]) == (wanted, code)
    assert message.number(5) == 0, "accepted"


def test_stale_query_is_told_the_current_version(endpoint, found):
    stale = http_says(f"{endpoint}/query", "POST", PROTOBUF, stale_query())
    assert envelope.Message(stale[2]).bytes(6) == found.version


def test_preflight(endpoint):
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    preflight["Access-Control-Request-Headers"] = "content-type,spirea-request-id"
    status, headers, _ = http_says(f"{endpoint}/query", "OPTIONS", preflight)
    assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
    assert headers["Access-Control-Allow-Methods"] == "GET,HEAD,POST"
    assert headers["Access-Control-Allow-Headers"] == "content-type,spirea-request-id"
    assert headers["Access-Control-Max-Age"] == "86400"
    exposed = http_says(f"{endpoint}/config", headers={"Origin": "https://a.example"})[1]
    assert exposed["Access-Control-Expose-Headers"] == "accept-ranges,content-range,etag,retry-after"


def test_list_over_http(world, found):
    listed = json.loads(http_says(f"{world.one}/v1/databases")[2])["databases"]
    [entry] = [entry for entry in listed if entry["name"] == "simple-rows"]
    wanted = {"version": found.version.hex(), "protocol": "simple", "entries": ROWS + 1, "changes": 3, "state": "ready"}
    assert {name: entry[name] for name in wanted} == wanted
    assert entry["versions"][0] == found.version.hex()
    status, _, ready = http_says(f"{world.one}/readyz")
    said = json.loads(ready)
    assert (status, said["ready"], said["leaving"], said["databases"]) == (200, True, False, listed)
    message = envelope.Message(http_says(f"{world.one}/v1/databases", headers={"Accept": "application/x-protobuf"})[2])
    summaries = [envelope.Message(summary) for summary in message.checked().all(2)]
    assert [summary.text(1) for summary in summaries] == [entry["name"] for entry in listed]
    assert {summary.number(2) for summary in summaries} == {2}, "states"
