"""Look-ups under every protocol, blocking and asynchronous, single and by bins."""

import asyncio
import contextlib
import inspect
import socket
import threading
import time

import numpy
import pandas
import polars
import pyarrow
import pytest

import spirea

# A server of `double-pack` computes for seconds before it answers.
PROTOCOLS = [
    "simple",
    "double",
    "exppack-simple",
    "exppack-double",
    pytest.param("double-pack", marks=pytest.mark.full),
    "hybrid",
    "onion",
    "dpf-xor",
    "dpf-sum",
]  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol(protocol):
    table = {"key": [f"k{i}" for i in range(40)], "value": [f"v{i}" * (i % 3) for i in range(40)]}
    snapshot = spirea.build(table, key="key", protocol=protocol)
    assert snapshot.servers == (2 if protocol.startswith("dpf") else 1)
    servers = [spirea.Server(snapshot, party=i if snapshot.servers == 2 else None) for i in range(snapshot.servers)]
    with spirea.Client(servers) as client:
        found = client.get_many(["k7", "k8", "no such key"])
        assert [value and value["value"] for value in found] == [b"v7", b"v8v8", None]
        assert (client.protocol, client.servers, client.keyed, client.rows) == (protocol, snapshot.servers, True, 40)
        assert client.version == snapshot.version

    async def again():
        async with spirea.AsyncClient(servers) as client:
            return [value and value.text() for value in await client.get_many(["k7", "nobody"])]

    assert asyncio.run(again()) == ["v7", None]
    for server in servers:
        server.stop()


def test_keys_are_text_bytes_or_integers():
    table = {"id": numpy.arange(100), "value": [f"v{i}" for i in range(100)]}
    with spirea.Server(spirea.build(table, key="id")) as server, spirea.Client(server) as client:
        for key in (7, "7", b"7", numpy.int64(7)):
            assert client.get(key).text() == "v7"
        for key in (7.0, None, ["7"]):
            with pytest.raises(spirea.OptionError, match="text, bytes, an integer"):
                client.get(key)


def test_records(keyed_server):
    with spirea.Client(keyed_server) as client:
        record = client.get("k5")
    assert dict(record) == {"a": b"a5", "b": b"5"} and record.text("b") == "5" and len(record) == 2
    assert record == {"a": b"a5", "b": b"5"} and "c" not in record
    with pytest.raises(KeyError):
        record["c"]
    with pytest.raises(spirea.OptionError, match="name one"):
        bytes(record)


def test_fetches_bring_a_record_of_each_bin(pair, matrix):
    with spirea.Client(pair) as client:
        assert (client.bins, client.keyed) == (20, False)
        fetched = client.fetch_indices(numpy.array([3, 120, 7, 999]))
        assert [value is spirea.DROPPED for value in fetched] == [False, False, True, False]
        assert fetched.dropped == 1 and not spirea.DROPPED
        rows = fetched.to_numpy(numpy.float32, missing=numpy.nan)
        assert (rows[[0, 1, 3]] == matrix[[3, 120, 999]]).all() and numpy.isnan(rows[2]).all()
        # All fetches look alike to the servers.
        costs = [client.fetch_indices(indices).costs for indices in ([], [1], range(0, 1000, 10))]
        assert len({(cost.requests, cost.sent_bytes, cost.received_bytes) for cost in costs}) == 1
        assert client.costs.requests == 4
        assert (client.get_indices([5, 5, 6]).to_numpy("f4") == matrix[[5, 5, 6]]).all()


def test_joins(keyed_server):
    keys = ["k1", "nobody", "k2"]
    with spirea.Client(keyed_server) as client:
        for frame in (pandas.DataFrame({"key": keys}), polars.DataFrame({"key": keys}), pyarrow.table({"key": keys})):
            joined = client.join(frame, on="key")
            assert type(joined) is type(frame)
            rows = joined.to_dict("records") if isinstance(frame, pandas.DataFrame) else None
            rows = rows or (joined.to_dicts() if isinstance(frame, polars.DataFrame) else joined.to_pylist())
            assert [row["a"] for row in rows][::2] == ["a1", "a2"] and pandas.isna(rows[1]["a"])
        assert client.join(polars.DataFrame({"key": keys}), on="key", encoding=None)["a"].to_list()[0] == b"a1"
        for frame, on, cause in (
            (pandas.DataFrame({"key": ["k1", 2.0]}), "key", "row 2 has a float"),
            (pandas.DataFrame({"key": [1.0, float("nan")]}), "key", "row 1 has a float"),
            (pandas.DataFrame({"key": keys}), "id", "no column 'id'"),
            (pandas.DataFrame({"key": keys, "a": keys}), "key", "rename"),
            ({"key": keys}, "key", "no data frame"),
        ):
            with pytest.raises(spirea.OptionError, match=cause):
                client.join(frame, on=on)


def test_rows_whose_key_is_missing_keep_nothing(keyed_server):
    with spirea.Client(keyed_server) as client:
        for missing in (None, float("nan"), pandas.NA, pandas.NaT):
            frame = pandas.DataFrame({"key": pandas.Series(["k1", missing, "k2"], dtype=object)})
            joined = client.join(frame, on="key")["a"].tolist()
            assert joined[::2] == ["a1", "a2"] and pandas.isna(joined[1])
        joined = client.join(polars.DataFrame({"key": ["k1", None]}), on="key")
        assert joined["a"].to_list() == ["a1", None]
        # There is a query for each row, including rows with missing keys.
        before = client.costs.sent_bytes
        client.join(pyarrow.table({"key": ["k1", "k2"]}), on="key")
        between = client.costs.sent_bytes
        client.join(pyarrow.table({"key": ["k1", None]}), on="key")
        assert client.costs.sent_bytes - between == between - before


def test_options_are_named_and_typed():
    for made in (spirea.Client, spirea.AsyncClient, spirea.Server, spirea.build):
        for parameter in inspect.signature(made).parameters.values():
            assert parameter.kind is not inspect.Parameter.VAR_KEYWORD
            assert parameter.annotation is not inspect.Parameter.empty
    with pytest.raises(TypeError):
        spirea.Client("http://127.0.0.1:1", "t", replica=["http://127.0.0.1:1"])


def test_a_replica_answers_and_errors_tell_the_address(keyed_server):
    dead = "http://127.0.0.1:1"
    options = {"attempts": 1, "database": keyed_server.database}
    for replicas in ([keyed_server.url], [[keyed_server.url]]):
        with spirea.Client(dead, replicas=replicas, **options) as client:
            assert client.get("k1")["a"] == b"a1"
    for wrong in (keyed_server.url, [keyed_server.url, [keyed_server.url]]):
        with pytest.raises(spirea.OptionError, match="replicas"):
            spirea.Client(dead, replicas=wrong, **options)
    with pytest.raises(spirea.UnreachableError) as caught:
        spirea.Client(dead, **options)
    assert caught.value.url == dead
    with pytest.raises(spirea.RefusedError) as caught:
        spirea.Client(keyed_server.url, "nothing")
    assert caught.value.url == keyed_server.url


def test_every_result_has_the_version_that_answered(keyed_server, pair):
    with spirea.Client(keyed_server) as client:
        found = client.get_many(["k1", "nobody"])
        assert found[0].version == client.version and found.versions == (client.version,) * 2
    with spirea.Client(pair) as client:
        assert client.fetch_indices([0, 1]).versions == (client.version,) * 2


def test_nothing_is_kept_in_memory_only(keyed_server, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with spirea.Client(keyed_server, keep="memory") as client:
        assert client.get("k1")["a"] == b"a1"
    assert not list(tmp_path.iterdir())
    with pytest.raises(spirea.OptionError, match="persistent or memory"):
        spirea.Client(keyed_server, keep="nowhere")


def test_no_exception_of_a_join_has_a_key_or_a_value(keyed_server, tmp_path):
    with spirea.Client(keyed_server) as client:
        for secret in (271828.5, ["secret", "271828.5"]):
            with pytest.raises(
                spirea.OptionError, match=f"row 2 has a {type(secret).__name__}|not {type(secret).__name__}"
            ) as caught:
                client.join(pandas.DataFrame({"key": ["k1", secret]}), on="key")
            assert "271828" not in str(caught.value) and "secret" not in str(caught.value)
    # A table without types.
    table = tmp_path / "table.csv"
    table.write_bytes(b"key,value\nk1,secret \xff\n")
    snapshot = spirea.build(table, key="key", value="value", bytes=True, name="table")
    with spirea.Server(snapshot) as server, spirea.Client(server) as client:
        with pytest.raises(spirea.OptionError, match="'value' has values that are not utf-8") as caught:
            client.join(pandas.DataFrame({"key": ["k1"]}), on="key")
        assert "secret" not in str(caught.value) and caught.value.__cause__ is None


@pytest.fixture(scope="module", params=["dpf-xor", "exppack-simple"])
def keyed_bins(request):
    """The servers of a table with keys and bins: two, or one."""
    snapshot = spirea.build(
        {"key": [f"k{i}" for i in range(300)], "value": [f"v{i}" for i in range(300)]},
        key="key",
        protocol=request.param,
        bins=8,
        name="bins",
    )
    parties = [0, 1] if request.param == "dpf-xor" else [None]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(spirea.Server(snapshot, party=party)) for party in parties]


def test_fetches_by_key(keyed_bins):
    keys = [f"k{i}" for i in range(0, 300, 20)]

    def right(fetched):
        assert [value is spirea.DROPPED or value.text() for value in fetched] == [
            value is spirea.DROPPED or f"v{key[1:]}" for key, value in zip(keys, fetched, strict=True)
        ]
        assert 0 < fetched.dropped < len(keys) - 1

    with spirea.Client(keyed_bins) as client:
        right(client.fetch(keys))
        costs = [client.fetch(each).costs for each in ([], ["k1"], keys, ["nobody"])]
        assert len({(cost.requests, cost.sent_bytes, cost.received_bytes) for cost in costs}) == 1
        assert client.fetch(["nobody"])[0] is None

    async def for_asyncio():
        async with spirea.AsyncClient(keyed_bins) as client:
            right(await client.fetch(keys))
            joined = await client.join(pandas.DataFrame({"key": ["k1", "nobody"]}), on="key")
            return joined["value"].tolist()

    assert asyncio.run(for_asyncio())[0] == "v1"


@pytest.mark.parametrize(("protocol", "bins", "wanted"), [("dpf-xor", 75, 50), ("exppack-simple", 12, 6)])
def test_copies_bring_nearly_all_keys(protocol, bins, wanted):
    keys = [f"k{i}" for i in range(2000)]
    rows = {"key": keys, "value": [f"v{i}" for i in range(2000)]}
    snapshot = spirea.build(rows, key="key", protocol=protocol, bins=bins, copies=3, name="copies")
    assert snapshot.manifest["snapshot"]["table"]["copies"] == 3 and snapshot.rows == 2000
    parties = [0, 1] if protocol == "dpf-xor" else [None]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(spirea.Server(snapshot, party=party)) for party in parties]
        client = stack.enter_context(spirea.Client(servers))
        asked = [*keys[7 :: 2000 // wanted][: wanted - 1], "nobody"]
        fetched = client.fetch(asked)
        # One in 270,000 lists of 50 keys has a key without a place.
        assert fetched.dropped == 0
        assert [value and value.text() for value in fetched] == [*(f"v{key[1:]}" for key in asked[:-1]), None]
        assert client.get("k1").text() == "v1"
    with pytest.raises(spirea.OptionError, match="copies 3 is for tables in bins"):
        spirea.build(rows, key="key", protocol="hybrid", copies=3)


def test_copies_in_a_table_that_is_built_in_partitions():
    """The copies of an entry lie in several partitions of the builder's files, 16 MiB each."""
    keys = [f"k{i}" for i in range(20_000)]
    values = [f"v{i}".ljust(1000) for i in range(20_000)]
    options = {"key": "key", "protocol": "dpf-xor", "bins": 75, "copies": 3}
    snapshot = spirea.build({"key": keys, "value": values}, name="copies", **options)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(spirea.Server(snapshot, party=party)) for party in (0, 1)]
        client = stack.enter_context(spirea.Client(servers))
        for first in range(0, 400, 40):
            fetched = client.fetch(keys[first::400])
            assert [value.text() for value in fetched] == values[first::400]
    with pytest.raises(spirea.DuplicateKeyError, match='"k77" in rows 78, 20001;'):
        spirea.build({"key": [*keys, "k77"], "value": [*values, "again"]}, **options)


def test_threads_count_every_call(keyed_server, monkeypatch):
    added = spirea.Costs.__add__

    def slowly(costs, more):
        time.sleep(0.01)
        return added(costs, more)

    monkeypatch.setattr(spirea.Costs, "__add__", slowly)
    with spirea.Client(keyed_server) as client:
        threads = [threading.Thread(target=lambda: [client.get("k1") for _ in range(3)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.costs.requests == 12


def test_waiting_with_progress_makes_no_tasks(monkeypatch):
    timeout, pauses = asyncio.timeout, []
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: pauses.append(seconds) or timeout(seconds))
    monkeypatch.setattr("spirea._client._PAUSE", 0.001)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        async def tasks():
            client = spirea.AsyncClient(url, "table", timeout=3600, progress=lambda *_: None)
            connecting = asyncio.create_task(client.connect())
            async with timeout(300):
                while len(pauses) < 5:
                    await asyncio.sleep(0.001)
            there = len(asyncio.all_tasks())
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            return there

        assert asyncio.run(tasks()) == 2


def test_many_coroutines_share_a_client(pair, matrix):
    async def all_of_them():
        client = spirea.AsyncClient(pair)
        with pytest.raises(spirea.StoppedError, match="not connected"):
            await client.get_index(0)
        async with client:
            rows = await asyncio.gather(*(client.get_index(i) for i in range(20)))
            fetched = await client.fetch_indices([5])
            assert (fetched.to_numpy("f4") == matrix[[5]]).all()
        with pytest.raises(spirea.StoppedError, match="closed"):
            await client.get_index(0)
        return rows

    assert (spirea.Records(asyncio.run(all_of_them())).to_numpy("f4") == matrix[:20]).all()


def test_a_loop_goes_on_while_a_client_looks_up(keyed_server):
    async def count():
        ticks, done = 0, False

        async def tick():
            nonlocal ticks
            while not done:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        async with spirea.AsyncClient(keyed_server) as client:
            await client.get_many([f"k{i}" for i in range(50)])
        done = True
        await ticking
        return ticks

    assert asyncio.run(count()) > 10


def test_a_client_waits_for_a_server_that_is_not_there_yet(keyed, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    servers, may_try_again = [], spirea.Client._may_try_again

    def begins(client, error, deadline):
        """Starts the server after the client's first failure."""
        if not servers:
            servers.append(spirea.Server(keyed, listen=address))
        return may_try_again(client, error, deadline)

    monkeypatch.setattr(spirea.Client, "_may_try_again", begins)
    assert spirea.Client(f"http://{address}", "keyed", wait=300).get("k3").text("a") == "a3"
    [server] = servers
    server.stop()
