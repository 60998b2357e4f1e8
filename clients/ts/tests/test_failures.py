"""Networks and servers that fail, and servers that lie: typed errors that say nothing of the key, and nothing stalls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from middle import CORS, Fate, Middle, Reply, Seen
from runtimes import InBrowser, Runtime, done, failed
from servers import Server, value

KEY = "key-5"
# Quick to give up, as the tests are.
HASTY = {"attempts": 2, "maxPause": 50, "patience": 2000, "timeout": 1500}


@pytest.fixture
def between(server: Server) -> Iterator[Middle]:
    with Middle(server.url) as middle:
        yield middle


def connect(runtime: Runtime, url: object, database: str = "simple", **options: object) -> object:
    return done(runtime.call("connect", "client", url, {"database": database, **HASTY, **options}))


def get(runtime: Runtime, key: str = KEY) -> object:
    return done(runtime.call("lookUp", "client", [key]))["values"][0]


def on(what: str, change: Callable[[Reply], Reply | None]) -> Fate:
    """Changes the responses to requests of a kind."""

    def fate(seen: Seen, ask: Callable[[], Reply]) -> Reply | None:
        return change(ask()) if seen.what == what else ask()

    return fate


def instead(what: str, reply: Reply | None) -> Fate:
    """A reply in place of the server's."""
    return lambda seen, ask: reply if seen.what == what else ask()


def aborted(result: dict[str, dict[str, object]]) -> None:
    """A call ended with the signal's own reason."""
    assert result["failed"]["text"] == "enough" and not result["failed"]["typed"]


def silent(error: dict[str, str], key: str = KEY) -> None:
    assert key not in json.dumps(error)


def test_nothing_at_the_address_and_addresses_that_are_none(runtime: Runtime) -> None:
    with Middle(None) as middle:
        url = middle.url
    failed(runtime.call("connect", "client", url, {"database": "simple", **HASTY}), "unreachable")
    for bad in ("ftp://127.0.0.1/", "http://user:word@127.0.0.1/", "http://127.0.0.1/?x=1", "http://"):
        failed(runtime.call("connect", "client", bad, {"database": "simple"}), "bad-address")
    failed(runtime.call("connect", "client", url, {"database": "No Name"}), "bad-address", "bad-option")
    failed(runtime.call("connect", "client", url, {"database": "simple", "timeout": -1}), "bad-option")
    failed(runtime.call("connect", "client", "http://pir.example.org", {"database": "simple", "token": "t"}), "bad-option")


def test_offline(page: InBrowser, between: Middle) -> None:
    connect(page, between.url)
    assert get(page) == value(5)
    page.context.set_offline(True)
    error = failed(page.call("lookUp", "client", [KEY]), "unreachable", "broken")
    assert "offline" in error["message"]
    silent(error)
    page.context.set_offline(False)
    assert get(page) == value(5)


def test_a_slow_network_is_waited_for_as_long_as_something_comes(runtime: Runtime, between: Middle) -> None:
    slow = on("query", lambda reply: Reply(reply.status, reply.headers, reply.body, pieces=len(reply.body) // 20 + 1, pause=0.1))
    connect(runtime, between.url)
    between.fate = slow
    # Longer than the time limit in all, and never silent for so long.
    assert get(runtime) == value(5)
    between.fate = on("query", lambda reply: Reply(reply.status, reply.headers, reply.body, pieces=100, pause=30))
    silent(failed(runtime.call("lookUp", "client", [KEY]), "timed-out"))
    between.fate = lambda seen, ask: ask()
    assert get(runtime) == value(5)


def test_a_server_that_says_nothing(runtime: Runtime, between: Middle) -> None:
    def mute(_: Seen, __: object) -> Reply | None:
        between.stopping.wait(30)
        return None

    connect(runtime, between.url)
    between.fate = mute
    silent(failed(runtime.call("lookUp", "client", [KEY]), "timed-out"))
    failed(runtime.call("connect", "other", between.url, {"database": "simple", **HASTY}), "timed-out")


@pytest.mark.parametrize("status", [500, 502, 404, 418, 302, 204])
def test_statuses_that_no_server_of_ours_gives(runtime: Runtime, between: Middle, status: int) -> None:
    connect(runtime, between.url)
    headers = {**CORS, "Content-Type": "text/html", **({"Location": "/elsewhere"} if status == 302 else {})}
    between.fate = instead("query", Reply(status, headers, b"" if status == 204 else b"<h1>no</h1>"))
    before = len(between.seen)
    error = failed(runtime.call("lookUp", "client", [KEY]), "unexpected-status")
    silent(error)
    # Browsers do not tell which redirection it was.
    assert error["status"] in ((302, 307) if status == 302 else (status,))
    assert all(seen.what == "query" for seen in between.seen[before:])
    between.fate = lambda seen, ask: ask()
    assert get(runtime) == value(5)


def test_a_refusal_is_passed_on_and_a_passing_one_is_tried_again(runtime: Runtime, server: Server, between: Middle) -> None:
    error = failed(runtime.call("connect", "client", server.url, {"database": "nothing", **HASTY}), "refused")
    assert error["status"] == 404 and error["refusal"] == "UNKNOWN_DATABASE"
    connect(runtime, between.url)
    # The message `Error`: format 1, code 9 LOADING as the server numbers it is of no matter for a 503 with a time.
    busy = [Reply(503, {**CORS, "Retry-After": "0"}, b"busy")]

    def once(seen: Seen, ask: Callable[[], Reply]) -> Reply | None:
        return busy.pop() if busy and seen.what == "query" else ask()

    between.fate = once
    before = len(between.asked("query"))
    found = runtime.call("lookUp", "client", [KEY])
    if "failed" in found:
        failed(found, "unexpected-status")
    else:
        # The same bytes came again.
        one, two = between.asked("query")[before:]
        assert one.body == two.body and done(found)["values"] == [value(5)]
    assert get(runtime) == value(5)


def test_a_look_up_that_is_aborted_and_the_next_one(page: InBrowser, between: Middle) -> None:
    def never(_: Seen, __: object) -> Reply | None:
        between.stopping.wait(30)
        return None

    for database in ("simple", "hybrid"):
        between.fate = lambda seen, ask: ask()
        connect(page, between.url, database, timeout=60_000)
        assert get(page) == value(5)
        between.fate = never
        queries = len(between.asked("query"))
        page.call("begin", "client", [KEY])
        between.wait_for("query", queries + 1)
        page.call("abort", "client", "enough")
        aborted(page.call("outcome", "client"))
        between.fate = lambda seen, ask: ask()
        assert get(page) == value(5)
    # One that is over before it begins sends nothing.
    seen = len(between.seen)
    page.page.evaluate("harness.begin('client', ['key-5']); harness.abort('client', 'enough')")
    aborted(page.call("outcome", "client"))
    assert get(page) == value(5)
    assert len(between.asked("query")) >= 1 and len(between.seen) <= seen + 2

    between.fate = never
    page.call("begin", "other", [], between.url, {"database": "simple"})
    between.wait_for("config", 3)
    page.call("abort", "other", "enough")
    aborted(page.call("outcome", "other"))


def test_a_client_that_is_closed(runtime: Runtime, between: Middle) -> None:
    connect(runtime, between.url)
    done(runtime.call("close", "client"))
    failed(runtime.call("lookUp", "client", [KEY]), "closed")
    done(runtime.call("close", "client"))


def test_a_server_of_another_version(runtime: Runtime, between: Middle) -> None:
    # Field 1 of every message is its format.
    other = lambda reply: reply.with_body(b"\x08\x02" + reply.body[2:])  # noqa: E731
    between.fate = on("config", other)
    error = failed(runtime.call("connect", "client", between.url, {"database": "simple", **HASTY}), "other-version")
    assert "format" in error["message"]
    between.fate = on("query", other)
    connect(runtime, between.url)
    silent(failed(runtime.call("lookUp", "client", [KEY]), "other-version"))
    between.fate = lambda seen, ask: ask()
    assert get(runtime) == value(5)


def answer_of(body: bytes) -> tuple[int, int]:
    """Where the first answer of a response lies: field 3, behind the format and the version."""
    at = 2 + 34
    assert body[at] == 0x1A
    at, length, shift = at + 1, 0, 0
    while True:
        length |= (body[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not body[at - 1] & 0x80:
            return at, at + length


def flipped(body: bytes) -> bytes:
    """Each byte of the answer is another one: whatever record was asked for, it is not right."""
    start, end = answer_of(body)
    return body[:start] + bytes(byte ^ 0x80 for byte in body[start:end]) + body[end:]


def other_version_answered(body: bytes) -> bytes:
    return body[:4] + bytes(32) + body[36:]


LIES: dict[str, tuple[Callable[[Reply], Reply], tuple[str, ...]]] = {
    "another answer": (lambda reply: reply.with_body(flipped(reply.body)), ("wrong-answer",)),
    "zeros": (lambda reply: reply.with_body(reply.body[:200] + bytes(len(reply.body) - 200)), ("wrong-answer", "unusable-response")),
    "half of it": (lambda reply: reply.with_body(reply.body[: len(reply.body) // 2]), ("unusable-response", "wrong-answer")),
    "nothing": (lambda reply: reply.with_body(b""), ("unusable-response", "other-version", "wrong-answer")),
    "twice": (lambda reply: reply.with_body(reply.body * 2), ("broken", "unusable-response")),
    "of another version": (lambda reply: reply.with_body(other_version_answered(reply.body)), ("wrong-config",)),
    "text": (lambda reply: reply.with_body(b"<html>"), ("unusable-response", "other-version")),
    "a length that is not so": (
        lambda reply: Reply(reply.status, reply.headers, reply.body, length=len(reply.body) + 100), ("broken", "timed-out", "unreachable"),
    ),
    "without end": (lambda reply: Reply(reply.status, reply.headers, reply.body, endless=bytes(1 << 16)), ("broken",)),
    "a connection that closes": (lambda reply: Reply(reply.status, reply.headers, b"", length=1000), ("broken", "unreachable")),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("database", ["simple", "hybrid"])
def test_answers_that_are_lies(page: InBrowser, between: Middle, database: str, lie: str) -> None:
    change, codes = LIES[lie]
    connect(page, between.url, database)
    assert get(page) == value(5)
    between.fate = on("query", change)
    for key in (KEY, "key-1001"):
        error = failed(page.call("lookUp", "client", [key]), *codes)
        silent(error, key)
        assert "value 5" not in json.dumps(error)
    between.fate = lambda seen, ask: ask()
    assert get(page) == value(5)
    assert page.page.evaluate("Object.keys(globalThis)").count("harness") == 1 and not page.errors


@pytest.mark.parametrize("database", ["hybrid", "onion"])
def test_a_wrong_answer_ends_the_keys_and_changes_no_request(runtime: Runtime, between: Middle, database: str) -> None:
    def looked_up(fate: Fate) -> list[tuple[str, int]]:
        between.fate = fate
        between.seen.clear()
        runtime.call("lookUp", "client", [f"key-{row}" for row in range(3)])
        return [(seen.what, len(seen.body)) for seen in between.seen]

    connect(runtime, between.url, database)
    assert get(runtime) == value(5)
    honest = looked_up(lambda seen, ask: ask())
    lied_to = looked_up(on("query", lambda reply: reply.with_body(flipped(reply.body))))
    assert lied_to == honest and all(what == "query" for what, _ in honest)
    # The look-up after it has other keys, which are sent first.
    after = looked_up(lambda seen, ask: ask())
    assert after == [("keys", after[0][1]), *honest]
    assert looked_up(lambda seen, ask: ask()) == honest


@pytest.mark.parametrize("what", ["config", "hint"])
def test_configurations_and_hints_that_are_lies(runtime: Runtime, between: Middle, what: str) -> None:
    def damaged(at: float) -> Fate:
        def change(reply: Reply) -> Reply:
            body = bytearray(reply.body)
            body[int(at * (len(body) - 1))] ^= 0x10
            return reply.with_body(bytes(body))

        return on(what, change)

    fates = [damaged(i / 7) for i in range(8)]
    fates += [on(what, lambda reply: reply.with_body(reply.body[: len(reply.body) // 2]))]
    fates += [on(what, lambda reply: reply.with_body(b"")), on(what, lambda reply: reply.with_body(reply.body * 2))]
    fates += [on(what, lambda reply: Reply(reply.status, reply.headers, reply.body, endless=bytes(1 << 16)))]
    codes = ("hint-corrupted", "unusable-response", "wrong-config", "other-version", "untrusted-version", "changing", "broken",
             "timed-out", "unexpected-status", "wrong-answer", "refused", "hint-too-large", "still-stale", "internal-lie")
    told = 0
    for fate in fates:
        between.fate = fate
        result = runtime.call("connect", "client", between.url, {"database": "simple", "keep": "memory", **HASTY})
        if "failed" in result:
            failed(result, *codes)
            told += 1
        else:
            # Of a hint no more is read than there is of it. In a configuration without a pinned key, what is no part of what
            # is checked may be another: an answer is right, or refused.
            found = runtime.call("lookUp", "client", [KEY])
            assert "failed" in found or found["done"]["values"] == [value(5)], found
            assert what == "config" or "done" in found, found
    assert told >= 10 if what == "hint" else told >= len(fates) // 2
    between.fate = lambda seen, ask: ask()
    connect(runtime, between.url)
    assert get(runtime) == value(5)


def test_a_hint_that_is_too_long_is_not_begun(runtime: Runtime, between: Middle) -> None:
    refused = runtime.call("connect", "client", between.url, {"database": "simple", "maxHintBytes": 1000, "keep": "memory"})
    failed(refused, "hint-too-large")
    assert between.asked("hint") == []


def test_two_servers_that_do_not_agree(runtime: Runtime, pair: list[Server], server: Server) -> None:
    options = {"database": "dpf-xor", **HASTY}
    zero, one = (party.url for party in pair)
    failed(runtime.call("connect", "client", zero, options), "bad-address", "bad-option", "wrong-config")
    failed(runtime.call("connect", "client", [zero, zero], options), "bad-address", "bad-option", "wrong-config", "different-snapshots")
    failed(runtime.call("connect", "client", [zero, server.url], options), "refused")
    with Middle(one) as between:
        connect(runtime, [zero, between.url], "dpf-xor")
        assert get(runtime) == value(5)
        between.fate = on("query", lambda reply: reply.with_body(flipped(reply.body)))
        silent(failed(runtime.call("lookUp", "client", [KEY]), "wrong-answer"))
        between.fate = lambda seen, ask: None
        error = failed(runtime.call("lookUp", "client", [KEY]), "unreachable", "broken")
        # It says which of the two.
        assert error["url"].rstrip("/") == between.url and error["party"] == 1
        between.fate = lambda seen, ask: ask()
        assert get(runtime) == value(5)
