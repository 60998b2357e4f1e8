"""What look-ups take in Chromium: a JSON object for each protocol. See scripts/test_web.py.

usage: bench.py [--without-vectors] [PROTOCOL ...]

Ends with status 1 if something takes longer than LIMITS say, and says what.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from runtimes import WITHOUT_VECTORS, InBrowser, Site, install_package, launched
from servers import FIELDS, PAIRS, PER_QUERY, PROTOCOLS, Server, Spirea

ENTRIES = 100_000
LOOK_UPS = 21
# Milliseconds that a query and its decoding, the making of keys, and any task of the page's own thread may take. What has no
# limit of its own is measured alone.
LIMITS = {"simple": 30, "hybrid": 150, "onion": 150, "dpf-xor": 5, "dpf-sum": 5}
KEYS_LIMIT = 1500
TASK_LIMIT = 50

# Watches the page's own thread: the longest time in which it did nothing that it was asked to, beside long tasks as the
# browser counts them (from 50 ms on).
WATCH = """() => {
  globalThis.watched = { gap: 0, longTask: 0 };
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) watched.longTask = Math.max(watched.longTask, duration);
  }).observe({ type: "longtask" });
  let last = performance.now();
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    const now = performance.now();
    watched.gap = Math.max(watched.gap, now - last);
    last = now;
    setTimeout(() => port2.postMessage(0), 1);
  };
  port2.postMessage(0);
}"""

# Connects, and says how long keys were in the making.
CONNECT = """async ([url, database]) => {
  const { Client } = await import("spirea");
  let begun, keys = null;
  globalThis.client = await Client.connect(url, { database, onProgress: ({ phase, done, total }) => {
    if (phase !== "keys") return;
    if (done === 0) begun = performance.now();
    if (done === total) keys = performance.now() - begun;
  } });
  return keys;
}"""


def measured(browser: Browser, site: Site, name: str, urls: list[str], vectors: bool) -> dict[str, Any]:
    page = InBrowser(browser.new_context(), site)
    if not vectors:
        page.before_worker(WITHOUT_VECTORS)
    page.page.evaluate(WATCH)
    keys = page.page.evaluate(CONNECT, [urls, name])
    look_up = "async (key) => { const { values, timings } = await client.lookUp([key]); return [values[0]?.text('note'), timings]; }"
    # The first meets code that is not compiled to the end.
    first, *timings = [page.page.evaluate(look_up, f"key-{997 * i}") for i in range(LOOK_UPS + 1)]
    assert all(note == f"note of {997 * i}" for i, (note, _) in enumerate([first, *timings])), timings
    of = {part: [timing[part] for _, timing in timings] for part in ("queryMs", "decodeMs")}
    both = [query + decode for query, decode in zip(of["queryMs"], of["decodeMs"])]
    watched = [page.page.evaluate("watched")]
    about = page.page.evaluate("client.description")
    page.page.evaluate("client.close()")
    # Another visit, which has the hint and the keys from IndexedDB.
    page.reload()
    page.page.evaluate(WATCH)
    page.page.evaluate(CONNECT, [urls, name])
    assert page.page.evaluate(look_up, "key-5")[0] == "note of 5"
    watched.append(page.page.evaluate("watched"))
    page.close()
    return {
        "name": name,
        "vectors": vectors,
        "entries": about["entries"],
        "look_ups": LOOK_UPS,
        "query_ms": round(statistics.median(of["queryMs"]), 2),
        "decode_ms": round(statistics.median(of["decodeMs"]), 2),
        "query_and_decode_ms": round(statistics.median(both), 2),
        "worst_query_and_decode_ms": round(max(both), 2),
        "first_query_and_decode_ms": round(first[1]["queryMs"] + first[1]["decodeMs"], 2),
        "keys_ms": keys and round(keys, 1),
        "longest_task_ms": round(max(visit["longTask"] for visit in watched), 1),
        "longest_gap_ms": round(max(visit["gap"] for visit in watched), 1),
        **{part: about[part] for part in ("hintBytes", "queryBytes", "answerBytes", "keysBytes")},
    }


def exceeded(found: dict[str, Any]) -> list[str]:
    """What of a measurement is over its limit."""
    limits = {
        "query_and_decode_ms": LIMITS.get(found["name"].removesuffix("-per-query")),
        "keys_ms": KEYS_LIMIT,
        "longest_task_ms": TASK_LIMIT,
    }
    over = [(part, limit) for part, limit in limits.items() if limit is not None and (found[part] or 0) > limit]
    return [f"{found['name']}: {part} is {found[part]}, and may be {limit}" for part, limit in over]


def main() -> None:
    over: list[str] = []
    vectors = sys.argv[1:2] != ["--without-vectors"]
    names = sys.argv[1 if vectors else 2 :] or [*PROTOCOLS, *(f"{name}-per-query" for name in PER_QUERY), *PAIRS]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parts = [folder / part for part in ("tables", "packed", "installed")]
        for part in parts:
            part.mkdir()
        tables, packed, installed = parts
        spirea = Spirea(Path(os.environ["SPIREA"]), tables)
        with (tables / "table.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["key", *FIELDS])
            table.writerows([f"key-{row}", f"value {row}", f"note of {row}"] for row in range(ENTRIES))
        site = Site(install_package(packed, installed))
        browser = launched(stack.enter_context(sync_playwright()), os.environ["CHROMIUM"])
        for name in names:
            options = ["--keys", "per-query"] if name.endswith("-per-query") else []
            snapshot = spirea.build(name, name.removesuffix("-per-query"), *options)
            parties = [["--party", party] for party in (0, 1)] if name.startswith("dpf-") else [[]]
            with ExitStack() as serving:
                servers = [serving.enter_context(Server(spirea, snapshot, *party)) for party in parties]
                found = measured(browser, site, name, [server.url for server in servers], vectors)
            print(json.dumps(found), flush=True)
            over += exceeded(found)
        browser.close()
        site.stop()
    if over:
        sys.exit("\n".join(over))


if __name__ == "__main__":
    main()
