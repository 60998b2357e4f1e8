"""What a browser keeps between visits, and what becomes of it when it is damaged, denied, full or used twice."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from middle import Middle, Reply, Seen
from playwright.sync_api import Browser
from runtimes import InBrowser, InNode, Runtime, Site, done, failed, printed_by, until
from servers import Server, Spirea, value
from wire import keys_named


@pytest.fixture
def between(server: Server) -> Iterator[Middle]:
    with Middle(server.url) as middle:
        yield middle


@pytest.fixture(scope="module")
def public(spirea: Spirea) -> str:
    """The key of an operator, whose private one is beside the tables."""
    return spirea.run("key", "new", "operator.pem").strip()


@pytest.fixture(scope="module")
def signed(spirea: Spirea, public: str) -> Iterator[Server]:
    with Server(spirea, spirea.build("signed", "simple", "--sign", "operator.pem")) as server:
        yield server


def long_table(spirea: Spirea, version: int) -> Path:
    """A table whose hint has several pieces, of 4 MiB each."""
    table, folder = spirea.folder / f"long-{version}.csv", f"long-{version}"
    with table.open("w") as file:
        file.write("key,value,note\n")
        file.writelines(f"key-{row},{row * version:0900},\n" for row in range(6000))
    return spirea.build(folder, "simple", "--name", "long", table=table.name)


@pytest.fixture(scope="module")
def long_ones(spirea: Spirea) -> Iterator[list[Server]]:
    """Servers of two versions of a table, each of which knows its own alone."""
    with ExitStack() as stack:
        yield [stack.enter_context(Server(spirea, long_table(spirea, version))) for version in (1, 2)]


def connect(page: InBrowser, middle: Middle, database: str, **options: object) -> dict[str, dict[str, object]]:
    standing: dict[str, dict[str, object]] = done(page.call("connect", "client", middle.url, {"database": database, **options}))
    return standing


def get(page: Runtime, key: str) -> list[str] | None:
    found: list[str] | None = done(page.call("lookUp", "client", [key]))["values"][0]
    return found


def settled(page: InBrowser) -> None:
    """Closes the client, so that all it keeps is stored."""
    done(page.call("close", "client"))


def test_a_hint_is_kept_and_a_damaged_one_is_fetched_again(page: InBrowser, signed: Server, public: str) -> None:
    with Middle(signed.url) as between:
        damage_hints(page, between, {"pinnedKey": public})


def damage_hints(page: InBrowser, between: Middle, options: dict[str, str]) -> None:
    name = "signed"
    standing = connect(page, between, name, **options)
    assert standing["storage"] == {"kind": "indexeddb", "keys": True}
    assert get(page, "key-5") == value(5)
    assert len(between.asked("hint")) == 1
    for how in ("flipped", "cut", "other", "gone"):
        for damaged in (True, False):
            fetched = len(between.asked("hint"))
            page.reload()
            if damaged:
                assert page.stored("damage", "hint", how) > 0
            connect(page, between, name, **options)
            assert get(page, "key-5") == value(5)
            # What may be a beginning is gone on with first. What was fetched in its place is whole.
            assert len(between.asked("hint")) - fetched in ((1, 2) if damaged else (0,)), how
    # Other records that are damaged are as good as none, and are made anew.
    for kind in ("latest", "seen"):
        for how in ("flipped", "other", "cut", "gone"):
            assert page.stored("damage", kind, how) == 1, (kind, how)
            page.reload()
            connect(page, between, name, **options)
            assert get(page, "key-5") == value(5)
            assert page.stored("counts")[kind] == 1


@pytest.mark.parametrize("name", ["hybrid", "onion"])
def test_keys_are_used_again_after_a_reload(page: InBrowser, between: Middle, name: str) -> None:
    connect(page, between, name)
    assert get(page, "key-5") == value(5)
    settled(page)
    stored = page.stored("sizes")
    assert stored["keys"] > 100_000 and 0 < stored["secret"] < 100_000
    page.reload()
    connect(page, between, name)
    assert get(page, "key-6") == value(6) and get(page, "key-1001") is None
    assert len(between.asked("keys")) == 1
    assert len({keys_named(query.body) for query in between.asked("query")}) == 1

    # A secret that is damaged, gone, or without its keys is used no more.
    for kind, how in [("secret", "flipped"), ("secret", "gone"), ("keys", "flipped"), ("secret", "other")]:
        settled(page)
        assert page.stored("damage", kind, how) == 1, kind
        page.reload()
        connect(page, between, name)
        assert get(page, "key-7") == value(7)
        assert page.stored("sizes")["keys"] == stored["keys"]
    assert len(between.asked("keys")) == 5
    assert len({keys_named(query.body) for query in between.asked("query")}) == 5


def test_nothing_of_what_was_asked_or_answered_is_stored(page: InBrowser, between: Middle) -> None:
    before = page.page.evaluate("Object.getOwnPropertyNames(globalThis).sort()")
    for name in ("simple", "hybrid"):
        connect(page, between, name)
        assert get(page, "key-5") == value(5)
        settled(page)
    held = json.dumps(page.stored("dump"))
    for text in ("key-5", "value 5", "note of 5"):
        assert text.encode().hex() not in held and text not in held
    assert page.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    assert page.page.evaluate("Object.getOwnPropertyNames(globalThis).sort()") == before
    assert page.said == []


def test_a_page_that_closes_in_the_middle_ends_its_keys(page: InBrowser, between: Middle) -> None:
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    settled(page)
    page.reload()
    connect(page, between, "hybrid")

    def never(seen: Seen, ask: object) -> Reply | None:
        between.stopping.wait(30)
        return None

    between.fate = never
    page.call("begin", "client", ["key-6"])
    between.wait_for("query", 2)
    # While it is asked under the secret, nobody else can have it.
    assert "secret" not in page.stored("sizes")
    page.page.close()
    between.fate = lambda seen, ask: ask()
    page.page = page.visit()
    connect(page, between, "hybrid")
    assert get(page, "key-6") == value(6)
    assert len(between.asked("keys")) == 2
    # Three queries, the last under other keys.
    first, second, third = (keys_named(query.body) for query in between.asked("query"))
    assert first == second != third


def half_a_hint(page: InBrowser, between: Middle) -> None:
    """A visit that ends in the middle of a download, when the first piece is stored."""
    cut = 5 << 20

    def half(seen: Seen, ask: object) -> Reply | None:
        reply: Reply = ask()  # type: ignore[operator]
        if seen.what != "hint":
            return reply
        assert len(reply.body) > cut
        length, body = len(reply.body), reply.body[:cut]
        return Reply(reply.status, reply.headers, body, length=length, pieces=cut - 1, pause=30)

    before = set(hints(page))
    between.fate = half
    page.call("begin", "client", [], between.url, {"database": "long"})
    until(lambda: set(hints(page)) - before != set())
    page.page.close()
    between.fate = lambda seen, ask: ask()
    page.page = page.visit()


def hints(page: InBrowser) -> dict[str, int]:
    """The bytes that are stored of each hint."""
    stored: dict[str, int] = page.stored("hints")
    return stored


def test_a_page_that_closes_while_a_hint_comes_goes_on_later(page: InBrowser, long_ones: list[Server]) -> None:
    with Middle(long_ones[0].url) as between:
        half_a_hint(page, between)
        connect(page, between, "long")
        assert get(page, "key-4") == ["4".zfill(900), ""]
        # The rest was asked for, and no more.
        asked = [(seen.path, seen.status, len(seen.answer)) for seen in between.seen]
        assert [seen.status for seen in between.asked("hint")] == [200, 206], asked


def test_halves_of_hints_do_not_heap_up(page: InBrowser, long_ones: list[Server]) -> None:
    first, second = (server.url for server in long_ones)
    with Middle(first) as between:
        half_a_hint(page, between)
        # There is a newer version before the download goes on.
        between.upstream = second
        standing = connect(page, between, "long")
        assert get(page, "key-4") == ["8".zfill(900), ""]
        whole = standing["description"]["hintBytes"]
        assert list(hints(page).values()) == [whole]
        # A half beside the whole one, and the half of another version in place of it.
        between.upstream = first
        half_a_hint(page, between)
        assert sorted(hints(page).values()) == [4 << 20, whole]
        page.reload()
        # What is more than may be read is not read, and is removed.
        refused = page.call("connect", "client", between.url, {"database": "long", "maxHintBytes": 1 << 20})
        failed(refused, "hint-too-large")
        assert hints(page) == {}


def test_of_five_versions_with_half_a_hint_one_half_is_left(installed: Path) -> None:
    program = f"""
        const {{ Keeper }} = await import("{installed}/node_modules/spirea/dist/worker/keeper.js");
        const records = new Map();
        const below = (prefix, name) => prefix.every((part, i) => name[i] === part);
        const store = {{
            kind: "folder",
            names: async (prefix) => [...records.keys()].map((name) => name.split("/")).filter((name) => below(prefix, name)),
            read: async (name) => records.get(name.join("/")),
            write: async (puts, drops) => {{
                for (const name of [...records.keys()]) if (drops.some((prefix) => below(prefix, name.split("/")))) records.delete(name);
                for (const [name, value] of puts) records.set(name.join("/"), value);
            }},
            close: () => undefined,
        }};
        const piece = (hint, index) => ({{ head: {{ change: "piece", hint, index }}, body: new Uint8Array(10) }});
        const hashes = Array.from("01234", (digit) => digit.repeat(64));
        const given = [];
        async function visit(changes, most = 1000) {{
            const give = ({{ stored, hint }}, body) => stored === "hint" && given.push([hint[0], body.length]);
            const keeper = new Keeper({{ give, takeChange: () => changes.shift() }}, "scope", most);
            await keeper.open(async () => store, false);
            await keeper.store();
        }}
        await visit([piece(hashes[0], 0), {{ head: {{ change: "latest", slot: "base", hint: hashes[0] }}, body: new Uint8Array() }}]);
        for (const hash of hashes) await visit([piece(hash, 0), piece(hash, 1)]);
        const left = () => [...records.keys()].filter((name) => name.startsWith("hint")).map((name) => name.split("/")[2][0]);
        console.log(left().join(""));
        // Of what is more than may be read, a slot's is the last to go.
        given.length = 0;
        await visit([], 25);
        console.log(left().join(""), JSON.stringify(given));
    """
    assert printed_by(program, installed).splitlines() == ["0044", '00 [["0",20]]']


def test_buffers_that_held_secrets_hold_zeros(installed: Path) -> None:
    program = f"""
        const worker = "{installed}/node_modules/spirea/dist/worker";
        const {{ Keeper }} = await import(`${{worker}}/keeper.js`);
        const {{ Instance, moduleUrl }} = await import(`${{worker}}/instance.js`);
        const {{ readFile }} = await import("node:fs/promises");
        const module = await WebAssembly.compile(await readFile(moduleUrl()));
        const instance = await Instance.of(module, {{ random: () => undefined, now: () => 0, progress: () => undefined }});
        const zeros = (bytes) => bytes.length > 0 && bytes.every((byte) => byte === 0);
        const given = new Uint8Array(100).fill(7);
        instance.give({{ stored: "secret" }}, given);
        // Keys are kept where there are locks.
        const request = async (name, options, granted) => granted({{}});
        Object.defineProperty(globalThis, "navigator", {{ value: {{ locks: {{ request }} }}, configurable: true }});
        const kept = new Uint8Array(10).fill(7);
        const keptKeys = () => [{{ head: {{ keys: "hash", record: 4 }}, body: kept }}];
        const [written, copies] = [[], []];
        const write = async (puts) => puts.forEach(([, value]) => (written.push(value), copies.push(value.join(""))));
        const store = {{ kind: "indexeddb", names: async () => [], read: async () => undefined, write, close: () => undefined }};
        const keeper = new Keeper({{ give: () => undefined, keptKeys }}, "scope", 1000);
        await keeper.open(async () => store, true);
        await keeper.keepKeys();
        console.log(copies.join(" "), [given, kept, ...written].every(zeros));
        keeper.close();
    """
    assert printed_by(program, installed) == "7777 777777 true"


def test_of_two_pages_one_has_the_kept_keys(page: InBrowser, between: Middle) -> None:
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    duplicate = page.visit()
    standing = done(page.call("connect", "client", between.url, {"database": "hybrid"}, page=duplicate))
    assert standing["storage"] == {"kind": "indexeddb", "keys": False}
    found = done(page.call("lookUp", "client", ["key-6"], page=duplicate))
    assert found["values"] == [value(6)]
    first, second = (keys_named(query.body) for query in between.asked("query"))
    assert first != second
    # The first goes on with its own, and so does whoever comes when both have gone.
    assert get(page, "key-7") == value(7)
    duplicate.close()
    settled(page)
    page.reload()
    assert connect(page, between, "hybrid")["storage"]["keys"]
    assert get(page, "key-8") == value(8)
    assert {keys_named(query.body) for query in between.asked("query")[2:]} == {first}


def test_a_profile_that_is_restored_repeats_no_randomness(page: InBrowser, between: Middle) -> None:
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    settled(page)
    copied = page.stored("dump")
    queries = []
    for key in ("key-5", "key-5"):
        page.stored("restore", copied)
        page.reload()
        connect(page, between, "hybrid")
        assert get(page, key) == value(5)
        queries.append(between.asked("query")[-1].body)
        page.page.close()
        page.page = page.visit()
    one, two = queries
    # Both went on with the keys of the copy, and have nothing else in common.
    assert len(between.asked("keys")) == 1 and len({keys_named(query.body) for query in between.asked("query")}) == 1
    body = range(64, len(one) - 64, 16)
    assert len(one) == len(two) and not any(one[at : at + 16] == two[at : at + 16] for at in body)


def test_storage_that_is_full_is_done_without(page: InBrowser, between: Middle) -> None:
    session = page.context.new_cdp_session(page.page)
    origin = page.url.rstrip("/")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 1000})
    standing = connect(page, between, "simple")
    assert standing["storage"] == {"kind": "memory", "keys": False, "reason": "full"}
    assert get(page, "key-5") == value(5) and get(page, "key-1001") is None
    settled(page)
    # With room again it is kept again.
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin})
    for fetched in (2, 2):
        page.reload()
        assert connect(page, between, "simple")["storage"]["kind"] == "indexeddb"
        assert get(page, "key-5") == value(5)
        assert len(between.asked("hint")) == fetched


def test_storage_that_becomes_full_keeps_no_used_secret(page: InBrowser, between: Middle) -> None:
    page.before_worker("""
        const { put } = IDBObjectStore.prototype;
        IDBObjectStore.prototype.put = function (...record) {
            if (globalThis.full) throw new DOMException("no room", "QuotaExceededError");
            return put.apply(this, record);
        };
    """)
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    settled(page)
    assert page.stored("counts")["secret"] == 1
    page.reload()
    connect(page, between, "hybrid")
    page.in_worker("globalThis.full = true")
    assert get(page, "key-5") == value(5)
    # The page hears of it, though it had its value before.
    until(lambda: page.call("standing", "client")["storage"] == {"kind": "memory", "keys": False, "reason": "full"})
    settled(page)
    # What was there has been used.
    assert "secret" not in page.stored("counts")
    page.reload()
    connect(page, between, "hybrid")
    assert get(page, "key-6") == value(6)
    first, second, third = (keys_named(query.body) for query in between.asked("query"))
    assert len(between.asked("keys")) == 2 and first == second != third


def test_a_secret_that_cannot_be_removed_is_not_used(page: InBrowser, between: Middle) -> None:
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    settled(page)
    page.reload()
    connect(page, between, "hybrid")
    page.stored("hold")
    error = failed(page.call("lookUp", "client", ["key-6"]), "storage")
    assert "key-6" not in json.dumps(error) and len(between.asked("query")) == 1
    page.stored("letGo")
    assert get(page, "key-6") == value(6)
    assert len(between.asked("keys")) == 1


def test_storage_that_is_cleared_is_made_again(page: InBrowser, between: Middle) -> None:
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    clear = "new Promise((done, not) => Object.assign(indexedDB.deleteDatabase('spirea'), { onsuccess: done, onerror: not }))"
    page.page.evaluate(f"async () => {{ await {clear}; }}")
    assert get(page, "key-6") == value(6) and get(page, "key-7") == value(7)
    settled(page)
    page.reload()
    connect(page, between, "hybrid")
    assert get(page, "key-8") == value(8)


def test_storage_that_is_denied_is_done_without(chromium: str, browser: Browser, site: Site, between: Middle, tmp_path: Path) -> None:
    # As who blocks the storage of pages has it.
    folder = tmp_path / "Default"
    folder.mkdir()
    (folder / "Preferences").write_text(json.dumps({"profile": {"default_content_setting_values": {"cookies": 2}}}))
    context = browser.browser_type.launch_persistent_context(tmp_path, executable_path=chromium, chromium_sandbox=False)
    page = InBrowser(context, site)
    try:
        for name in ("simple", "hybrid"):
            standing = connect(page, between, name)
            assert standing["storage"] == {"kind": "memory", "keys": False, "reason": "denied"}
            assert get(page, "key-5") == value(5)
    finally:
        page.close()


def test_who_wants_nothing_kept_has_nothing_kept(page: InBrowser, between: Middle) -> None:
    assert connect(page, between, "hybrid", keepKeys=False)["storage"] == {"kind": "indexeddb", "keys": False}
    assert get(page, "key-5") == value(5)
    settled(page)
    assert page.stored("dump") == []
    assert connect(page, between, "simple", keep="memory")["storage"] == {"kind": "memory", "keys": False}
    assert get(page, "key-5") == value(5)
    settled(page)
    assert page.stored("dump") == []


def test_a_program_keeps_hints_in_a_folder(node: InNode, between: Middle, tmp_path: Path) -> None:
    def connected() -> None:
        options = {"database": "simple", "cache": str(tmp_path / "cache")}
        standing = done(node.call("connect", "client", between.url, options))
        assert standing["storage"] == {"kind": "folder", "keys": False}
        assert done(node.call("lookUp", "client", ["key-5"]))["values"] == [value(5)]
        done(node.call("close", "client"))

    connected()
    connected()
    assert len(between.asked("hint")) == 1
    for file in (tmp_path / "cache").iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    connected()
    assert len(between.asked("hint")) == 2
    # A folder that cannot be: a file stands there.
    (tmp_path / "file").write_text("")
    standing = done(node.call("connect", "client", between.url, {"database": "simple", "cache": str(tmp_path / "file")}))
    assert standing["storage"] == {"kind": "memory", "keys": False, "reason": "denied"}
    assert done(node.call("lookUp", "client", ["key-5"]))["values"] == [value(5)]


@pytest.mark.parametrize("protocol", ["simple", "hybrid", "onion"])
def test_a_new_version_between_two_look_ups(page: InBrowser, spirea: Spirea, protocol: str) -> None:
    name = f"changing-{protocol}"
    repository = spirea.folder / f"{name}-repository"
    spirea.run("publish", "--repository", repository, "--base", spirea.build(name, protocol, fields=["value"]))
    changes = spirea.folder / "changes.jsonl"
    changes.write_text('{"key": "key-5", "value": "new"}\n{"key": "key-6", "deleted": true}\n')
    with Server(spirea, repository) as server, Middle(server.url) as between:
        connect(page, between, name)
        assert get(page, "key-5") == value(5)[:1]
        before = done(page.call("lookUp", "client", ["key-6"]))["description"]["version"]
        spirea.run("publish", "--server", server.admin, "--database", name, "--changes", changes)
        # An answer of the version that was asked for says that there is a newer one, which the next look-up asks.
        assert get(page, "key-5") == value(5)[:1]
        found = done(page.call("lookUp", "client", ["key-5", "key-6", "key-7"]))
        assert found["values"] == [["new"], None, value(7)[:1]]
        assert found["description"]["version"] != before
        # What was kept serves the version after, which has the same base.
        page.reload()
        connect(page, between, name)
        found = done(page.call("lookUp", "client", ["key-5", "key-8"]))
        assert found["values"] == [["new"], value(8)[:1]]
        # Base and delta, once each.
        assert len(between.asked("hint")) == (2 if protocol == "simple" else 0)

    # A client that outlives its server says so, and goes on with the next one.
    failed(page.call("lookUp", "client", ["key-5"]), "unreachable", "broken")


def test_a_new_version_of_two_servers_between_two_look_ups(page: InBrowser, spirea: Spirea) -> None:
    old = spirea.build("both", "dpf-xor", fields=["value"])
    new = spirea.build("both-new", "dpf-xor", "--name", "both", fields=["note"])
    with ExitStack() as stack:
        servers = []
        for party in (0, 1):
            repository = spirea.folder / f"both-{party}"
            spirea.run("publish", "--repository", repository, "--base", old)
            servers.append(stack.enter_context(Server(spirea, repository, "--party", party)))
        done(page.call("connect", "client", [server.url for server in servers], {"database": "both"}))
        before = done(page.call("lookUp", "client", ["key-5"]))
        assert before["values"] == [value(5)[:1]]
        for server in servers:
            # While one has it and the other has not, both answer of the one that they have in common.
            assert get(page, "key-5") == value(5)[:1]
            spirea.run("publish", "--server", server.admin, "--database", "both", "--base", new)
        # The first one has said by now that there is a newer one, and both have it.
        after = done(page.call("lookUp", "client", ["key-5"]))
        assert after["values"] == [value(5)[1:]]
        assert after["description"]["version"] != before["description"]["version"]


def test_a_version_that_is_older_than_what_was_seen_is_refused(page: InBrowser, spirea: Spirea, public: str) -> None:
    base = spirea.build("sealed", "simple", fields=["value"])
    old, new = (spirea.folder / f"sealed-{age}" for age in ("old", "new"))
    spirea.run("publish", "--repository", old, "--base", base, "--sign", "operator.pem")
    shutil.copytree(old, new)
    changes = spirea.folder / "sealed.jsonl"
    changes.write_text('{"key": "key-5", "value": "new"}\n')
    spirea.run("publish", "--repository", new, "--changes", changes, "--sign", "operator.pem")
    with Server(spirea, old) as older, Server(spirea, new) as newer, Middle(newer.url) as between:
        connect(page, between, "sealed", pinnedKey=public)
        assert get(page, "key-5") == ["new"]
        # Rolled back, and the page is loaded anew: what it has seen is kept.
        between.upstream = older.url
        page.reload()
        refused = page.call("connect", "client", between.url, {"database": "sealed", "pinnedKey": public})
        failed(refused, "untrusted-version")
        assert page.stored("damage", "seen", "gone") == 1
        connect(page, between, "sealed", pinnedKey=public)
        assert get(page, "key-5") == value(5)[:1]


# Keeps what is drawn, and has nothing to give where it is told so.
DRAWN = """
    globalThis.drawn = [];
    const draw = crypto.getRandomValues.bind(crypto);
    crypto.getRandomValues = (bytes) => {
        if (globalThis.dry) throw new Error("key-5");
        draw(bytes);
        drawn.push(Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""));
        return bytes;
    };
"""


@pytest.mark.parametrize("name", ["simple", "hybrid", "dpf-xor"])
def test_every_round_draws_from_the_browser(page: InBrowser, server: Server, pair: list[Server], name: str) -> None:
    page.before_worker(DRAWN)
    servers = pair if name == "dpf-xor" else [server]
    with ExitStack() as stack:
        middles = [stack.enter_context(Middle(one.url)) for one in servers]
        done(page.call("connect", "client", [middle.url for middle in middles], {"database": name, "keep": "memory"}))
        assert get(page, "key-5") == value(5)
        page.in_worker("drawn = []")
        rounds = []
        for _ in range(3):
            assert get(page, "key-5") == value(5)
            rounds.append(page.in_worker("drawn.splice(0)"))
        # As much for each round, of 32 bytes or more, and none of it twice.
        assert len({tuple(map(len, drawn)) for drawn in rounds}) == 1 and sum(map(len, rounds[0])) >= 64
        every = [draw for drawn in rounds for draw in drawn]
        assert len(set(every)) == len(every)
        asked = len(middles[0].seen)
        page.in_worker("globalThis.dry = true")
        error = failed(page.call("lookUp", "client", ["key-5"]), "no-entropy")
        assert "key-5" not in json.dumps(error) and len(middles[0].seen) == asked
        page.in_worker("globalThis.dry = false")
        assert get(page, "key-5") == value(5)


def test_storage_of_another_format_is_made_anew_or_left_alone(page: InBrowser, between: Middle) -> None:
    connect(page, between, "simple")
    assert get(page, "key-5") == value(5)
    settled(page)
    # A package of a later format throws away what there is of this one.
    page.site.changes["worker/indexeddb.js"] = lambda text: text.replace("FORMAT = 1", "FORMAT = 2")
    for fetched in (2, 2):
        page.reload()
        assert connect(page, between, "simple")["storage"] == {"kind": "indexeddb", "keys": True}
        assert get(page, "key-5") == value(5)
        assert len(between.asked("hint")) == fetched
        settled(page)
    stored = page.stored("dump")
    # One of this format has no use for it, and does no harm to it.
    page.site.changes.clear()
    page.reload()
    assert connect(page, between, "simple")["storage"] == {"kind": "memory", "keys": False, "reason": "denied"}
    assert get(page, "key-5") == value(5)
    settled(page)
    assert page.stored("dump") == stored and len(between.asked("hint")) == 3


def test_two_clients_of_a_program_have_one_folder(node: InNode, long_ones: list[Server], tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    # What a program left that ended in the middle, and what another one is writing.
    abandoned, fresh = folder / "1.spirea1.tmp", folder / "2.spirea1.tmp"
    for file in (abandoned, fresh):
        file.write_text("half")
    os.utime(abandoned, (0, 0))
    with Middle(long_ones[0].url) as between:
        for i in range(2):
            node.call("begin", f"client-{i}", [], between.url, {"database": "long", "cache": str(folder)})
        for i in range(2):
            done(node.call("outcome", f"client-{i}"))
            standing = node.call("standing", f"client-{i}")
            assert standing["storage"] == {"kind": "folder", "keys": False}
            assert done(node.call("lookUp", f"client-{i}", ["key-4"]))["values"] == [["4".zfill(900), ""]]
        fetched = len(between.asked("hint"))
        done(node.call("connect", "next", between.url, {"database": "long", "cache": str(folder)}))
        assert len(between.asked("hint")) == fetched
    assert {path.name for path in folder.glob("*.tmp")} == {fresh.name}


def test_versions_of_another_key_are_refused(page: InBrowser, signed: Server, public: str) -> None:
    with Middle(signed.url) as between:
        connect(page, between, "signed", pinnedKey=public)
        assert get(page, "key-5") == value(5)
        other = ("0" if public[0] != "0" else "1") + public[1:]
        refused = page.call("connect", "client", between.url, {"database": "signed", "pinnedKey": other})
        failed(refused, "untrusted-version", "bad-option")
        refused = page.call("connect", "client", between.url, {"database": "signed", "pinnedKey": "no key"})
        failed(refused, "bad-option")
