"""Networks and servers that fail, and servers that lie: typed errors that say nothing of the key, and nothing stalls."""

from __future__ import annotations

import json
import datetime
import ipaddress
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from middle import CORS, Fate, Middle, Reply, Seen
from runtimes import InBrowser, Runtime, done, failed, printed_by
from servers import Server, value
from wire import UNKNOWN_KEYS, flipped, keys_named, of_another_version, one_at_a_time, with_newest

ROOT = Path(__file__).resolve().parents[3]
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
    for bad in ("ftp://127.0.0.1/", "http://user:word@127.0.0.1/", "http://127.0.0.1/?x=1", "http://", 7, [7]):
        failed(runtime.call("connect", "client", bad, {"database": "simple"}), "bad-address")
    failed(runtime.call("connect", "client", url, {"database": "No Name"}), "bad-address")
    failed(runtime.call("connect", "client", "http://pir.example.org", {"database": "simple", "token": "t"}), "bad-option")


OPTIONS = {
    "database": [7, None],
    "timeout": [-1, 0, 0.5, "7", 2**31],
    "maxPause": [-1, 2**31],
    "attempts": [0, 2**32],
    "patience": [-1, 2**53],
    "maxHintBytes": [-1, "much"],
    "pinnedKey": [7, "no key", "0" * 63],
    "token": [7, "", "a b", "a\nb", "\x7f", "\u20ac"],
    "cache": [7],
    "keep": ["forever"],
    "keepKeys": ["no"],
    "acceptWeakPrf": [1],
    "replicas": [7, "http://127.0.0.1", ["http://127.0.0.1"], [[], []]],
}


def test_options_that_cannot_be(runtime: Runtime, between: Middle) -> None:
    for name, values in OPTIONS.items():
        for wrong in values:
            options = {"database": "simple", "keep": "memory", name: wrong}
            error = failed(runtime.call("connect", "client", between.url, options), "bad-option")
            assert name in error["message"] or name in ("replicas", "pinnedKey"), error
    failed(runtime.call("connect", "client", between.url, {"database": "simple", "replicas": [[7]]}), "bad-address")
    assert between.seen == []
    # The most that can be: a timer that is set for longer ends at once.
    most = {"timeout": 2**31 - 1, "maxPause": 2**31 - 1, "attempts": 2**32 - 1, "patience": 2**53 - 1, "token": "~!"}
    connect(runtime, between.url, **most)
    assert get(runtime) == value(5)


def certificate_of_nobody(path: Path) -> Path:
    """A file with a certificate that nobody has signed, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem) + secret)
    return path


def test_a_host_that_is_not_known_and_a_server_that_is_not_trusted(runtime: Runtime, tmp_path: Path) -> None:
    patient = {"database": "simple", **HASTY, "timeout": 60_000}
    error = failed(runtime.call("connect", "client", "http://x.invalid", patient), "unknown-host", "unreachable")
    # Browsers do not tell.
    assert error["code"] == ("unknown-host" if runtime.name == "node" else "unreachable")
    with Middle(None, certificate=certificate_of_nobody(tmp_path / "nobody.pem")) as middle:
        error = failed(runtime.call("connect", "client", middle.url, patient), "untrusted-server", "unreachable")
        assert error["code"] == ("untrusted-server" if runtime.name == "node" else "unreachable")
        assert ("browser" in error["message"]) == (runtime.name == "browser")
        assert middle.seen == []


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


def test_an_upload_is_waited_for_by_its_length(runtime: Runtime, between: Middle) -> None:
    # Hundreds of kilobytes of keys, which take longer to come in than a server may be silent.
    between.upload = 2 * HASTY["timeout"] / 1000
    connect(runtime, between.url, "onion", keep="memory")
    assert get(runtime) == value(5)
    (keys,) = between.asked("keys")
    assert len(keys.body) > 1 << 19


def test_a_server_that_says_nothing(runtime: Runtime, between: Middle) -> None:
    def mute(_: Seen, __: object) -> Reply | None:
        between.stopping.wait(30)
        return None

    connect(runtime, between.url)
    between.fate = mute
    silent(failed(runtime.call("lookUp", "client", [KEY]), "timed-out"))
    failed(runtime.call("connect", "other", between.url, {"database": "simple", **HASTY}), "timed-out")


def test_a_late_failure_of_a_request_leaves_the_next_one_alone(installed: Path) -> None:
    program = f"""
        const {{ Line }} = await import("{installed}/node_modules/spirea/dist/worker/line.js");
        const asked = [];
        globalThis.fetch = (url, {{ signal }}) => new Promise((resolve, reject) => asked.push({{ signal, resolve, reject }}));
        const line = new Line(0, {{ timeout: 60000 }});
        const send = () => line.send({{ server: 0, method: "GET", url: "http://127.0.0.1/", headers: [] }}, new Uint8Array());
        const [first, second] = [send(), send()];
        asked[0].reject(new TypeError("late"));
        const late = (await first) ?? null;
        asked[1].resolve(new Response("body"));
        const {{ head }} = await second;
        const {{ body }} = await line.read();
        console.log(JSON.stringify([late, head.status, asked.map(({{ signal }}) => signal.aborted), new TextDecoder().decode(body)]));
    """
    assert json.loads(printed_by(program, installed)) == [None, 200, [True, False], "body"]


def test_a_line_gives_the_heads_that_the_instance_reads(installed: Path) -> None:
    """The instance's own test reads the same heads."""
    heads = json.loads((ROOT / "bindings/wasm/src/shim/heads.json").read_text(encoding="utf-8"))
    program = f"""
        const {{ Line }} = await import("{installed}/node_modules/spirea/dist/worker/line.js");
        const toSend = {{ server: 1, method: "GET", url: "http://127.0.0.1/", headers: [] }};
        const line = new Line(1, {{ timeout: 60000 }});
        globalThis.fetch = async () => new Response("body", {{ status: 503, headers: {{ etag: '"5"', "retry-after": "7" }} }});
        const {{ head }} = await line.send(toSend, new Uint8Array());
        const {{ head: piece }} = await line.read();
        const failed = async (timeout, fetched) => {{
            globalThis.fetch = fetched;
            const {{ head }} = await new Line(1, {{ timeout }}).send(toSend, new Uint8Array());
            return [head.received, head.server, typeof head.words, head.kind];
        }};
        const coded = (code) => failed(60000, async () => {{ throw new TypeError("failed", {{ cause: {{ code }} }}); }});
        const failures = [
            await failed(60000, async () => {{ throw new TypeError("failed"); }}),
            await coded("ENOTFOUND"),
            await failed(1, () => new Promise(() => undefined)),
            await coded("ECONNRESET"),
            await coded("CERT_HAS_EXPIRED"),
        ];
        console.log(JSON.stringify([head, piece, failures]));
    """
    head, piece, failures = json.loads(printed_by(program, installed))
    assert (head, piece) == (heads["head"], heads["piece"])
    assert failures == [["failed", 1, "string", kind] for kind in heads["kinds"]]


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
    # What a balancer of loads says while a server is being replaced.
    busy = [Reply(503, {**CORS, "Retry-After": "0"}, b"busy")]

    def once(seen: Seen, ask: Callable[[], Reply]) -> Reply | None:
        return busy.pop() if busy and seen.what == "query" else ask()

    between.fate = once
    assert get(runtime) == value(5)
    # The same bytes came again.
    one, two = between.asked("query")
    assert one.body == two.body
    # Who asks for more time than the client has is not asked again.
    between.fate = instead("query", Reply(503, {**CORS, "Retry-After": "3600"}, b"busy"))
    assert failed(runtime.call("lookUp", "client", [KEY]), "unexpected-status")["status"] == 503
    assert len(between.asked("query")) == 3


def test_a_look_up_that_is_aborted_and_the_next_one(runtime: Runtime, between: Middle) -> None:
    def never(_: Seen, __: object) -> Reply | None:
        between.stopping.wait(30)
        return None

    for database in ("simple", "hybrid"):
        between.fate = lambda seen, ask: ask()
        connect(runtime, between.url, database, timeout=60_000)
        assert get(runtime) == value(5)
        between.fate = never
        queries = len(between.asked("query"))
        runtime.call("begin", "client", [KEY])
        between.wait_for("query", queries + 1)
        runtime.call("abort", "client", "enough")
        aborted(runtime.call("outcome", "client"))
        between.fate = lambda seen, ask: ask()
        assert get(runtime) == value(5)
    # One that is over before it begins sends nothing.
    seen = len(between.seen)
    runtime.call("beginAborted", "client", [KEY], "enough")
    aborted(runtime.call("outcome", "client"))
    assert get(runtime) == value(5)
    assert [one.what for one in between.seen[seen:]] == ["query"]

    between.fate = never
    runtime.call("begin", "other", [], between.url, {"database": "simple"})
    between.wait_for("config", 3)
    runtime.call("abort", "other", "enough")
    aborted(runtime.call("outcome", "other"))


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


LIES: dict[str, tuple[Callable[[Reply], Reply], tuple[str, ...]]] = {
    "another answer": (lambda reply: reply.with_body(flipped(reply.body)), ("wrong-answer",)),
    "zeros": (lambda reply: reply.with_body(reply.body[:200] + bytes(len(reply.body) - 200)), ("wrong-answer", "unusable-response")),
    "half of it": (lambda reply: reply.with_body(reply.body[: len(reply.body) // 2]), ("unusable-response", "wrong-answer")),
    "nothing": (lambda reply: reply.with_body(b""), ("unusable-response", "other-version", "wrong-answer")),
    "twice": (lambda reply: reply.with_body(reply.body * 2), ("broken", "unusable-response")),
    "of another version": (lambda reply: reply.with_body(of_another_version(reply.body)), ("wrong-config",)),
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


# What a server does with the so-many-th query of a look-up of four requests.
FATES: dict[str, Callable[[Reply], Reply]] = {
    "damaged": lambda reply: reply.with_body(flipped(reply.body)),
    "damaged and replaced": lambda reply: reply.with_body(with_newest(flipped(reply.body), bytes(32))),
    "forgotten": lambda reply: Reply(424, reply.headers, UNKNOWN_KEYS),
}
# As crates/client/src/http/tests/lies.rs has them: what becomes of which queries, what is asked then, whether it is answered.
HONEST = ["query"] * 4
LIES_OF_MANY: list[tuple[dict[int, str], list[str], bool]] = [
    ({0: "damaged"}, HONEST, False),
    ({3: "damaged"}, HONEST, False),
    ({0: "damaged", 2: "damaged"}, HONEST, False),
    ({2: "forgotten"}, ["query", "query", "query", "keys", "query", "query"], True),
    ({0: "damaged", 2: "forgotten"}, ["query", "query", "query", "keys", "query", "query"], False),
    ({0: "damaged and replaced"}, ["query", "config", "query", "query", "query"], False),
]


@pytest.mark.parametrize("database", ["hybrid", "onion"])
def test_what_a_lying_server_sees_of_a_look_up_of_many_requests(page: InBrowser, between: Middle, database: str) -> None:
    one = on("config", lambda reply: reply.with_body(one_at_a_time(reply.body)))
    keys = [f"key-{row}" for row in range(4)]
    between.fate = one
    connect(page, between.url, database, keep="memory")
    assert get(page) == value(5)
    for fates, asked, answered in LIES_OF_MANY:
        between.seen.clear()

        def fate(seen: Seen, ask: Callable[[], Reply], fates: dict[int, str] = fates) -> Reply | None:
            reply = one(seen, ask)
            # Of those before it, and not of itself.
            what = fates.get(len(between.asked("query")) - 1) if seen.what == "query" else None
            return FATES[what](reply) if what and reply else reply

        between.fate = fate
        found = page.call("lookUp", "client", keys)
        if answered:
            assert done(found)["values"] == [value(row) for row in range(4)]
        else:
            failed(found, "wrong-answer")
        assert [seen.what for seen in between.seen] == asked, fates
        queries = between.asked("query")
        # All name the same keys, whatever becomes of them, and are as long.
        assert len({keys_named(query.body) for query in queries}) == len({len(query.body) for query in queries}) == 1
        between.fate = one
        between.seen.clear()
        assert get(page) == value(5)
        # Keys end with an answer that does not verify.
        (next_query,) = between.asked("query")
        renewed = keys_named(next_query.body) != keys_named(queries[0].body)
        assert renewed == (not answered) == (len(between.asked("keys")) == 1)


def cut(reply: Reply) -> Reply:
    return reply.with_body(reply.body[: len(reply.body) // 2])


def emptied(reply: Reply) -> Reply:
    return reply.with_body(b"")


def doubled(reply: Reply) -> Reply:
    return reply.with_body(reply.body * 2)


def endless(reply: Reply) -> Reply:
    return Reply(reply.status, reply.headers, reply.body, endless=bytes(1 << 16))


def damaged(at: float) -> Callable[[Reply], Reply]:
    def change(reply: Reply) -> Reply:
        body = bytearray(reply.body)
        body[int(at * (len(body) - 1))] ^= 0x10
        return reply.with_body(bytes(body))

    return change


# What comes of each. Of a hint no more is read than there is of it; a configuration that comes twice says the same.
LIES_TO_CONNECT: dict[str, list[tuple[Callable[[Reply], Reply], tuple[str, ...]]]] = {
    "config": [
        *((damaged(i / 7), ("wrong-config", "unusable-response", "right")) for i in range(8)),
        (cut, ("unusable-response", "wrong-config")),
        (emptied, ("other-version",)),
        (doubled, ("right",)),
        (endless, ("broken",)),
    ],
    "hint": [
        *((damaged(i / 7), ("hint-corrupted",)) for i in range(8)),
        (cut, ("broken",)),
        (emptied, ("broken",)),
        (doubled, ("right",)),
        (endless, ("right",)),
    ],
}


@pytest.mark.parametrize("what", LIES_TO_CONNECT)
def test_configurations_and_hints_that_are_lies(runtime: Runtime, between: Middle, what: str) -> None:
    wrong = 0
    for change, outcomes in LIES_TO_CONNECT[what]:
        between.fate = on(what, change)
        result = runtime.call("connect", "client", between.url, {"database": "simple", "keep": "memory", **HASTY})
        if "failed" in result:
            failed(result, *outcomes)
            wrong += 1
        else:
            # What is no part of what a configuration vouches for may be another.
            assert "right" in outcomes and get(runtime) == value(5)
    # Without a pinned key that is the list of versions, at the end, alone.
    assert wrong == 10
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
