"""The demo page on a phone, dark and light: its structure, what it says, and that it can be read and used."""

from __future__ import annotations

import gzip
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from middle import Middle, Reply, Seen
from playwright.sync_api import Browser, Page, expect
from servers import Server, Spirea

PHONE = {"width": 360, "height": 740}
PICTURES = Path(os.environ["SPIREA_WEB"]) / "pictures"

# What assistive technology is told of the page behind a look-up.
STRUCTURE = """
- banner:
  - heading "Is it on the list?" [level=1]
  - paragraph
- main:
  - text: List
  - combobox "List":
    - option "bad domains" [selected]
    - option "leaked passwords"
  - text: Domain
  - textbox "Domain": ads-7.example
  - paragraph: /hidden among all 300 entries/
  - button "Look up privately"
  - paragraph: On the list
  - paragraph: "verdict: advertising"
  - region "What left this browser":
    - heading "What left this browser" [level=2]
    - paragraph: /[0-9,]+ bytes of encrypted query. As many for every key, listed or not./
    - figure "From the middle of this query": /([0-9a-f]{2} ){47}[0-9a-f]{2}/
    - figure "From the middle of the one before": /([0-9a-f]{2} ){47}[0-9a-f]{2}/
    - paragraph
    - heading "What a plain look-up would have sent" [level=3]
    - text: GET /lists/bad-domains/
    - mark: ads-7.example
    - paragraph
  - region "Where the time went":
    - heading "Where the time went" [level=2]
    - table:
      - rowgroup:
        - row "Phase Where Time":
          - columnheader "Phase"
          - columnheader "Where"
          - columnheader "Time"
      - rowgroup:
        - row /Making the query this browser [0-9.,]+ ms/
        - row /On the way, and waiting network [0-9.,]+ ms/
        - row /Computing over the whole list server [0-9.,]+ ms/
        - row /Decoding the answer this browser [0-9.,]+ ms/
        - row /All of it [0-9.,]+ ms/
    - paragraph: /Protocol simple, 300 entries, version [0-9a-f]{12}/
- contentinfo:
  - paragraph: /This page is a demo/
"""

# Contrast of every text with what is behind it, by WCAG 2, and the least height of what a finger touches.
READABLE = """() => {
  const channel = (value) => (value /= 255, value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const rgb = (color) => color.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const shown = [...document.body.querySelectorAll('*')].filter((element) => element.checkVisibility());
  const texts = shown.filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const contrast = texts.map((element) => {
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))];
    return [element.id || element.tagName, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
  const touched = shown.filter((element) => ['BUTTON', 'INPUT', 'SELECT'].includes(element.tagName));
  return {
    contrast: contrast.filter(([, ratio]) => ratio < 4.5),
    texts: texts.length,
    low: touched.map((element) => [element.id, element.getBoundingClientRect().height]).filter(([, height]) => height < 44),
    touched: touched.length,
    small: texts.map((element) => parseFloat(getComputedStyle(element).fontSize)).filter((size) => size < 12).length,
    wide: document.documentElement.scrollWidth - innerWidth,
    ground: light(ground(document.body)),
  };
}"""


@pytest.fixture(scope="module")
def demo(spirea: Spirea) -> Iterator[Server]:
    domains, passwords = spirea.folder / "domains.csv", spirea.folder / "passwords.csv"
    domains.write_text("key,verdict\n" + "".join(f"ads-{i}.example,advertising\n" for i in range(300)))
    passwords.write_text("key,times\n" + "".join(f"password{i},{i}\n" for i in range(300)))
    folders = []
    for name, table, field, protocol in [("bad-domains", domains, "verdict", "simple"), ("leaked-passwords", passwords, "times", "onion")]:
        path = spirea.folder / name
        spirea.run("build", "--input", table, "--key", "key", "--value", field, "--protocol", protocol, "--out", path)
        folders.append(path)
    # The page that lies beside the program's folder.
    with Server(spirea, *folders, "--demo") as server:
        yield server


def opened(browser: Browser, url: str, **options: object) -> Page:
    page = browser.new_context(**options).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(60_000)
    page.goto(f"{url}/demo/")
    expect(page.locator("#ask")).to_be_enabled(timeout=60_000)
    return page


def ask(page: Page, key: str, verdict: str) -> None:
    page.locator("#key").fill(key)
    page.locator("#key").press("Enter")
    expect(page.locator("#verdict")).to_have_text(verdict, timeout=60_000)
    expect(page.locator("#ask")).to_be_enabled()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_on_a_phone(browser: Browser, demo: Server, scheme: str) -> None:
    page = opened(browser, demo.url, viewport=PHONE, color_scheme=scheme, device_scale_factor=2, has_touch=True)
    errors: list[object] = []
    page.on("pageerror", lambda error: errors.append(error))
    page.on("console", lambda message: errors.append(message.text))
    ask(page, "ads-9.example", "On the list")
    first = page.locator("#now").inner_text()
    ask(page, "ads-7.example", "On the list")
    # Another hex excerpt, and the one before beside it.
    assert page.locator("#now").inner_text() != first == page.locator("#before").inner_text()
    expect(page.locator("body")).to_match_aria_snapshot(STRUCTURE)
    found = page.evaluate(READABLE)
    assert found["texts"] > 20 and found["touched"] >= 3
    assert {name: found[name] for name in ("contrast", "low", "small", "wide")} == {"contrast": [], "low": [], "small": 0, "wide": 0}
    assert found["ground"] < 0.1 if scheme == "dark" else found["ground"] > 0.9
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"phone-{scheme}.png", full_page=True)
    # Capitals make no difference to a domain.
    ask(page, " Ads-8.Example", "On the list")
    ask(page, "absent.example", "Not on the list")
    assert not errors
    page.context.close()


def test_the_page_by_keyboard_on_a_desk_with_keys_and_progress(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo.url, viewport={"width": 1100, "height": 900})
    page.locator("#list").select_option("leaked-passwords")
    expect(page.locator("#key-label")).to_have_text("Password")
    page.locator("#list").press("Tab")
    assert page.evaluate("document.activeElement.id") == "key"
    page.keyboard.type("password17")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "ask"
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_have_text("On the list")
    expect(page.locator("#detail")).to_have_text("times: 17")
    expect(page.locator("#sent-summary")).to_contain_text("bytes of evaluation keys, once")
    expect(page.locator("#time")).to_contain_text("Uploading evaluation keys, once")
    page.screenshot(path=PICTURES / "desk.png", full_page=True)
    ask(page, "Password17", "Not on the list")
    expect(page.locator("#sent-summary")).not_to_contain_text("evaluation keys")
    page.context.close()


def test_the_page_stops_and_says_what_failed(browser: Browser, demo: Server) -> None:
    with Middle(demo.url) as between:
        page = opened(browser, between.url, viewport=PHONE)

        def never(seen: Seen, answer: object) -> Reply | None:
            if seen.what != "query":
                return answer()  # type: ignore[operator, no-any-return]
            between.stopping.wait(60)
            return None

        between.fate = never
        page.locator("#key").fill("ads-1.example")
        page.locator("#ask").click()
        between.wait_for("query")
        page.locator("#stop").click()
        expect(page.locator("#verdict")).to_have_text("Stopped")
        expect(page.locator("#stop")).to_be_hidden()
        between.fate = lambda seen, answer: answer() if seen.what != "query" else Reply(500, {}, b"")
        ask(page, "ads-1.example", "No answer")
        assert "500" in page.locator("#detail").inner_text()
        page.screenshot(path=PICTURES / "failed.png", full_page=True)
        between.fate = lambda seen, answer: answer()
        ask(page, "ads-1.example", "On the list")
        page.context.close()


def test_the_policy_of_the_page_lets_nothing_else_in(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo.url)
    loaded = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin)")
    assert set(loaded) == {demo.url}
    blocked = page.evaluate(
        "() => new Promise((told) => { document.addEventListener('securitypolicyviolation', (event) => told(event.violatedDirective));"
        " const script = document.createElement('script'); script.textContent = '1'; document.body.append(script); })"
    )
    assert blocked.startswith("script-src")
    # Its own pictures are let in: the icon.
    drawn = "new Promise((done) => { const image = new Image(); image.onload = () => done(true); image.onerror = () => done(false);"
    assert page.evaluate(f"() => {drawn} image.src = 'icon.svg'; }})")
    page.context.close()


def test_a_client_that_stops_is_followed_by_another(browser: Browser, demo: Server) -> None:
    page = opened(browser, demo.url)
    ask(page, "ads-1.example", "On the list")
    with page.workers[-1].expect_event("close"):
        page.workers[-1].evaluate("setTimeout(() => { throw new Error('stopped'); })")
    ask(page, "ads-1.example", "No answer")
    ask(page, "ads-1.example", "On the list")
    page.context.close()


def test_a_list_may_be_named_in_the_address(browser: Browser, demo: Server) -> None:
    page = browser.new_context().new_page()
    for named, chosen in [("leaked-passwords", "leaked-passwords"), ("nothing", "bad-domains")]:
        page.goto(f"{demo.url}/demo/?list={named}")
        expect(page.locator("#ask")).to_be_enabled(timeout=60_000)
        expect(page.locator("#list")).to_have_value(chosen)
    page.context.close()


def test_files_are_compressed_and_sent_once(demo: Server) -> None:
    def fetched(**headers: str) -> tuple[int, dict[str, str], bytes]:
        asked = urllib.request.Request(f"{demo.url}/demo/demo.js", headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, dict(answer.headers.items()), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers.items()), error.read()

    status, headers, plain = fetched()
    assert status == 200 and "content-encoding" not in headers
    status, headers, packed = fetched(accept_encoding="gzip, br")
    assert status == 200 and headers["content-encoding"] == "gzip" and gzip.decompress(packed) == plain
    assert len(packed) < len(plain) / 2
    assert fetched(if_none_match=headers["etag"])[::2] == (304, b"")
