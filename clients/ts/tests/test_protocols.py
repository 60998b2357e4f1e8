"""Look-ups by every protocol, in a page and in Node, and what their servers see of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from middle import Middle, Seen
from runtimes import Runtime, done, failed
from servers import COMMON, FIELDS, PAIRS, PER_QUERY, PROTOCOLS, ROWS, Server, Spirea, value

ONE_SERVER = [*PROTOCOLS, *(f"{name}-per-query" for name in PER_QUERY)]
KEYED = ["exppack-simple", "exppack-double", "double-pack", "hybrid", "onion"]
HINTED = ["simple", "double"]


@pytest.fixture
def between(request: pytest.FixtureRequest) -> Iterator[list[Middle]]:
    """What stands before the servers of the table that the test is of."""
    name = request.getfixturevalue("name")
    of = "pair" if name.startswith("dpf-") else "server" if name in COMMON else "others"
    found = request.getfixturevalue(of)
    servers: list[Server] = found if isinstance(found, list) else [found]
    with ExitStack() as stack:
        yield [stack.enter_context(Middle(server.url)) for server in servers]


def shape(seen: list[Seen]) -> list[tuple[str, str, int, int, int]]:
    return [(one.method, one.what, len(one.body), one.status, len(one.answer)) for one in seen]


@pytest.mark.parametrize("name", [*ONE_SERVER, *PAIRS, "dpf-xor-bins"])
def test_what_is_there_is_found_and_what_is_not_looks_the_same(runtime: Runtime, between: list[Middle], name: str) -> None:
    urls = [one.url for one in between]
    # Two servers, in any order.
    standing = done(runtime.call("connect", "client", urls[::-1], {"database": name, "keep": "memory"}))
    description = standing["description"]
    assert description["protocol"] == name.removesuffix("-per-query").removesuffix("-bins")
    assert description["entries"] == ROWS and description["fields"] == FIELDS and description["keyword"]
    assert description["servers"] == len(between) and len(description["version"]) == 64
    assert (description["hintBytes"] > 0) == (name in HINTED or name.endswith("-per-query"))
    assert (description["keysBytes"] > 0) == (name in KEYED)
    assert standing["storage"] == {"kind": "memory", "keys": False}

    looked_up = []
    for key, expected in [("key-7", value(7)), ("key-7", value(7)), ("key-999", value(999)), ("key-1000", None), ("", None)]:
        for one in between:
            one.seen.clear()
        found = done(runtime.call("lookUp", "client", [key]))
        assert found["values"] == [expected]
        looked_up.append([list(one.seen) for one in between])
        timings = found["timings"]
        assert timings["requests"] == 1 and timings["sentBytes"] > 0 and timings["receivedBytes"] > 0
        for seen in looked_up[-1]:
            bodies = b"".join(one.body + one.path.encode() for one in seen)
            assert key == "" or key.encode() not in bodies
    # Keys go up once, and everything else is alike: as many requests, as long, whatever is asked for and found.
    first, *others = [[shape(seen) for seen in of_servers] for of_servers in looked_up]
    assert [[request[1] for request in seen] for seen in first] == [["keys", "query"] if name in KEYED else ["query"]] * len(between)
    queries = [[seen[-1:] for seen in of_servers] for of_servers in [first, *others]]
    assert all(one == queries[0] for one in queries)
    assert all(one == others[0] for one in others) and all(len(seen) == 1 for seen in others[0])
    # The same key was asked for twice: no run of bytes is in both, but for the versions and the keys' names before them.
    for server in range(len(between)):
        one, two = (looked_up[i][server][-1].body for i in (0, 1))
        middle = range(64, len(one) - 64, 16)
        assert len(one) == len(two) and not any(one[at : at + 16] == two[at : at + 16] for at in middle)

    many = [f"key-{row}" for row in (3, 1500, 3, 4)]
    found = done(runtime.call("lookUp", "client", many))
    assert found["values"] == [value(3), None, value(3), value(4)]
    requests = done({"done": runtime.call("told")})["requests"]
    sent = sum(len([seen for seen in one.seen if seen.what == "query"]) for one in between)
    # The page is shown every request, and nothing else was sent.
    assert [request["url"].rsplit("/", 1)[-1] for request in requests][-sent:] == ["query"] * sent
    done(runtime.call("close", "client"))


@pytest.mark.parametrize("name", ["dpf-xor-bins"])
def test_a_fetch_brings_one_of_each_bin(runtime: Runtime, between: list[Middle], name: str) -> None:
    done(runtime.call("connect", "client", [one.url for one in between], {"database": name}))
    keys = [f"key-{row}" for row in range(12)]
    bytes_sent = set()
    for asked in (keys, keys[:1], ["none"]):
        for one in between:
            one.seen.clear()
        found = done(runtime.call("fetchOnce", "client", asked))
        for row, got in enumerate(found):
            assert got in ("dropped", None if asked == ["none"] else value(row))
        assert found[0] != "dropped"
        bytes_sent.add(tuple(tuple(shape(one.seen)) for one in between))
    assert len(bytes_sent) == 1
    # Twelve keys in eight bins: some bin has two.
    assert "dropped" in done(runtime.call("fetchOnce", "client", keys))


def test_progress_is_told(runtime: Runtime, server: Server) -> None:
    done(runtime.call("connect", "hinted", server.url, {"database": "simple"}))
    events = runtime.call("told")["progress"]
    assert {event["phase"] for event in events} == {"hint"}
    dones = [event["done"] for event in events]
    assert dones == sorted(dones) and dones[-1] == events[-1]["total"] > 0
    done(runtime.call("connect", "keyed", server.url, {"database": "onion"}))
    events = runtime.call("told")["progress"]
    assert [(event["phase"], event["done"] == event["total"]) for event in events] == [("keys", False), ("keys", True)]
    assert events[-1]["total"] > 100_000


def test_what_is_no_key_of_the_table_is_refused(runtime: Runtime, server: Server) -> None:
    # An index is no key of a table with keys.
    done(runtime.call("connect", "client", server.url, {"database": "simple"}))
    assert runtime.call("lookUp", "client", [7])["failed"]["code"] == "bad-request"
    assert runtime.call("lookUp", "client", [-1])["failed"]["code"] == "bad-request"
    assert runtime.call("lookUp", "client", ["key-1", 7])["failed"]["code"] == "bad-request"
    assert done(runtime.call("lookUp", "client", []))["values"] == []
    assert done(runtime.call("lookUp", "client", ["key-7"]))["values"] == [value(7)]


def test_a_table_without_keys_is_asked_by_index(runtime: Runtime, spirea: Spirea) -> None:
    snapshot = spirea.folder / "rows"
    if not snapshot.exists():
        spirea.run("build", "--input", "table.csv", "--value", "value", "--out", snapshot)
    with Server(spirea, snapshot) as server:
        standing = done(runtime.call("connect", "client", server.url, {"database": "rows"}))
        assert not standing["description"]["keyword"]
        assert done(runtime.call("lookUp", "client", [7, 999, 0]))["values"] == [value(row)[:1] for row in (7, 999, 0)]
        failed(runtime.call("lookUp", "client", [1000]), "bad-request")
        failed(runtime.call("lookUp", "client", ["key-7"]), "bad-request")
