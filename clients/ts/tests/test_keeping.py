"""What a browser keeps between visits, and what becomes of it when it is damaged, denied, full or used twice."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from middle import Middle, Reply, Seen
from playwright.sync_api import Browser, Error
from runtimes import InBrowser, InNode, Site, done, failed
from servers import Server, Spirea, value

NAME_OF_KEYS = slice(2 + 2 + 32, None)


@pytest.fixture
def between(server: Server) -> Iterator[Middle]:
    with Middle(server.url) as middle:
        yield middle


def connect(page: InBrowser, middle: Middle, database: str, **options: object) -> dict[str, dict[str, object]]:
    standing: dict[str, dict[str, object]] = done(page.call("connect", "client", middle.url, {"database": database, **options}))
    return standing


def get(page: InBrowser, key: str) -> list[str] | None:
    found: list[str] | None = done(page.call("lookUp", "client", [key]))["values"][0]
    return found


def until(holds: Callable[[], bool]) -> None:
    """Waits until something holds; whoever cannot be asked yet says no."""
    for _ in range(600):
        with contextlib.suppress(Error):
            if holds():
                return
        time.sleep(0.05)
    raise AssertionError("it never held")


def settled(page: InBrowser) -> None:
    """Closes the client, so that all it keeps is stored."""
    done(page.call("close", "client"))


def test_a_hint_is_kept_and_a_damaged_one_is_fetched_again(page: InBrowser, between: Middle) -> None:
    name = "simple"
    standing = connect(page, between, name)
    assert standing["storage"] == {"kind": "indexeddb", "keys": True}
    assert get(page, "key-5") == value(5)
    assert len(between.asked("hint")) == 1
    for how in ("flipped", "cut", "other", "gone"):
        for damaged in (True, False):
            fetched = len(between.asked("hint"))
            page.reload()
            if damaged:
                assert page.stored("damage", "hint", how) > 0
            connect(page, between, name)
            assert get(page, "key-5") == value(5)
            # What may be a beginning is gone on with first. What was fetched in its place is whole.
            assert len(between.asked("hint")) - fetched in ((1, 2) if damaged else (0,)), how
    # Other records that are damaged are as good as none.
    for kind in ("latest", "seen"):
        for how in ("flipped", "other"):
            page.stored("damage", kind, how)
            page.reload()
            connect(page, between, name)
            assert get(page, "key-5") == value(5)


def keys_named(query: Seen) -> bytes:
    """Field 4 of a query, which stands behind the queries."""
    at = query.body.rindex(b"\x22\x20")
    return query.body[at + 2 : at + 34]


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
    assert len({keys_named(query) for query in between.asked("query")}) == 1

    # A secret that is damaged, gone, or without its keys is used no more.
    for kind, how in [("secret", "flipped"), ("secret", "gone"), ("keys", "flipped"), ("secret", "other")]:
        settled(page)
        assert page.stored("damage", kind, how) == 1, kind
        page.reload()
        connect(page, between, name)
        assert get(page, "key-7") == value(7)
        assert page.stored("sizes")["keys"] == stored["keys"]
    assert len(between.asked("keys")) == 5
    assert len({keys_named(query) for query in between.asked("query")}) == 5


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
    first, second, third = map(keys_named, between.asked("query"))
    assert first == second != third


def test_a_page_that_closes_while_a_hint_comes_goes_on_later(page: InBrowser, spirea: Spirea) -> None:
    # Of several pieces, of 4 MiB each: the first that is whole is kept.
    with (spirea.folder / "long.csv").open("w") as file:
        file.write("key,value,note\n")
        file.writelines(f"key-{row},{row:0900},\n" for row in range(6000))
    snapshot = spirea.build("long", "simple", table="long.csv")
    with Server(spirea, snapshot) as server, Middle(server.url) as between:
        cut = 5 << 20

        def half(seen: Seen, ask: object) -> Reply | None:
            reply: Reply = ask()  # type: ignore[operator]
            if seen.what != "hint":
                return reply
            assert len(reply.body) > cut
            length, body = len(reply.body), reply.body[:cut]
            return Reply(reply.status, reply.headers, body, length=length, pieces=cut - 1, pause=30)

        between.fate = half
        page.call("begin", "client", [], between.url, {"database": "long"})
        until(lambda: page.stored("sizes").get("hint", 0) > 0)
        page.page.close()
        between.fate = lambda seen, ask: ask()
        page.page = page.visit()
        connect(page, between, "long")
        assert get(page, "key-4") == ["4".zfill(900), ""]
        # The rest was asked for, and no more.
        asked = [(seen.path, seen.status, len(seen.answer)) for seen in between.seen]
        hints = [seen.status for seen in between.asked("hint")]
        assert hints == [200, 206], asked


def test_of_two_pages_one_has_the_kept_keys(page: InBrowser, between: Middle) -> None:
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    duplicate = page.visit()
    standing = done(page.call("connect", "client", between.url, {"database": "hybrid"}, page=duplicate))
    assert standing["storage"] == {"kind": "indexeddb", "keys": False}
    found = done(page.call("lookUp", "client", ["key-6"], page=duplicate))
    assert found["values"] == [value(6)]
    first, second = map(keys_named, between.asked("query"))
    assert first != second
    # The first goes on with its own, and so does whoever comes when both have gone.
    assert get(page, "key-7") == value(7)
    duplicate.close()
    settled(page)
    page.reload()
    assert connect(page, between, "hybrid")["storage"]["keys"]
    assert get(page, "key-8") == value(8)
    assert {keys_named(query) for query in between.asked("query")[2:]} == {first}


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
    assert len(between.asked("keys")) == 1 and len({keys_named(query) for query in between.asked("query")}) == 1
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
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    settled(page)
    page.reload()
    session = page.context.new_cdp_session(page.page)
    origin = page.url.rstrip("/")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": 1})
    connect(page, between, "hybrid")
    assert get(page, "key-5") == value(5)
    settled(page)
    kept = "secret" in page.stored("sizes")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin})
    page.reload()
    connect(page, between, "hybrid")
    assert get(page, "key-6") == value(6)
    assert len(between.asked("keys")) == (1 if kept else 2)


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
    page = InBrowser(context, site.url)
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


@pytest.mark.parametrize("protocol", ["simple", "hybrid"])
def test_a_new_version_between_two_look_ups(page: InBrowser, spirea: Spirea, protocol: str) -> None:
    name = f"changing-{protocol}"
    repository = spirea.folder / f"{name}-repository"
    spirea.run("publish", "--repository", repository, "--base", spirea.build(name, protocol, fields=["value"]))

    def publish(server: Server, *lines: dict[str, object]) -> None:
        changes = spirea.folder / "changes.jsonl"
        changes.write_text("".join(json.dumps(line) + "\n" for line in lines))
        spirea.run("publish", "--server", server.admin, "--database", name, "--changes", changes)

    with Server(spirea, repository) as server, Middle(server.url) as between:
        connect(page, between, name)
        assert get(page, "key-5") == value(5)[:1]
        before = done(page.call("lookUp", "client", ["key-6"]))["description"]["version"]
        publish(server, {"key": "key-5", "value": "new"}, {"key": "key-6", "deleted": True})
        # What was published when it is asked is answered by the next look-up or the one after.
        assert get(page, "key-5") in (value(5)[:1], ["new"])
        found = done(page.call("lookUp", "client", ["key-5", "key-6", "key-7"]))
        assert found["values"] == [["new"], None, value(7)[:1]]
        assert found["description"]["version"] != before
        # What was kept serves the version after, which has the same base.
        page.reload()
        connect(page, between, name)
        found = done(page.call("lookUp", "client", ["key-5", "key-8"]))
        assert found["values"] == [["new"], value(8)[:1]]
        assert len(between.asked("hint")) <= 2

    # A client that outlives its server says so, and goes on with the next one.
    failed(page.call("lookUp", "client", ["key-5"]), "unreachable", "broken")


def test_versions_of_another_key_are_refused(page: InBrowser, spirea: Spirea) -> None:
    public = spirea.run("key", "new", "operator.pem").strip()
    snapshot = spirea.build("signed", "simple", "--sign", "operator.pem")
    with Server(spirea, snapshot) as server, Middle(server.url) as between:
        connect(page, between, "signed", pinnedKey=public)
        assert get(page, "key-5") == value(5)
        other = ("0" if public[0] != "0" else "1") + public[1:]
        refused = page.call("connect", "client", between.url, {"database": "signed", "pinnedKey": other})
        failed(refused, "untrusted-version", "bad-option")
        refused = page.call("connect", "client", between.url, {"database": "signed", "pinnedKey": "no key"})
        failed(refused, "bad-option")
