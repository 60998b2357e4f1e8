"""Tests of the operator's page in a headless browser."""

import re
from html.parser import HTMLParser

import pytest

import debian
from system.programs import Folder, run

pytestmark = pytest.mark.needs("chromium")
LOOK_UPS = 7


class Page(HTMLParser):
    """A parsed page: the text of elements by id, and the classes of all elements."""

    def __init__(self, dom):
        super().__init__()
        self.open, self.texts, self.hidden, self.classes = [], {}, set(), []
        self.feed(dom)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.classes += (attributes.get("class") or "").split()
        if "hidden" in attributes:
            self.hidden.add(attributes.get("id"))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data + " "

    def text(self, name):
        return " ".join(self.texts.get(name, "").split())

    def expect(self, name, *parts):
        text = self.text(name)
        for part in parts:
            assert part in text, f"{name} shows {text!r}, without {part!r}"


@pytest.fixture
def browse(tmp_path):
    """Function that returns the page of an address after five seconds of virtual time."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    flags += [f"--user-data-dir={tmp_path}/profile", "--window-size=1100,1000", "--virtual-time-budget=5000"]

    def dump(url):
        return Page(run(debian.find("chromium"), *flags, "--dump-dom", url, timeout=300).stdout)

    return dump


@pytest.fixture
def folder(spirea, tmp_path):
    """Folder with a repository of a table."""
    folder = Folder(spirea, tmp_path)
    folder.write("table.csv", "key,value\n" + "".join(f"key-{i},value {i}\n" for i in range(200)))
    columns = ("--key", "key", "--value", "value")
    folder.run("build", "--input", "table.csv", *columns, "--protocol", "simple", "--out", "numbers")
    folder.run("publish", "--repository", "repository", "--base", "numbers")
    return folder


def test_page_shows_what_the_server_did(folder, browse):
    folder.write("changes", '{"key": "key-1", "value": "changed"}\n{"key": "key-2", "deleted": true}\n')
    with folder.serving("repository", ports=2) as (data, admin):
        folder.run("get", data, "numbers", "key-1", "--wait", "60")
        published = folder.run("publish", "--server", admin, "--database", "numbers", "--changes", "changes").stdout
        version = re.search(r"version ([0-9a-f]{64})", published).group(1)
        for _ in range(LOOK_UPS - 1):
            folder.run("get", data, "numbers", "key-1")
        page = browse(admin + "/")
    page.expect("summary", "1 of 1 databases answer")
    page.expect("databases", "numbers", "ready", "simple", "199", "2", version[:12])
    page.expect("load", "waiting 0", "connections", "keys in memory 0", "up")
    page.expect("latency-quantiles", "half within", "99% within")
    page.expect("batches", f"up to 1 {LOOK_UPS}")
    page.expect("batches-mean", "1.0 on average")
    page.expect("rate-now", "now", "a second")
    assert "access" in page.hidden and "content" not in page.hidden
    assert page.classes.count("bar") >= 2
    shown = page.text("latency")
    counted = sum(int(count) for count in re.findall(r"[µm]?s ([0-9]+)", shown))
    assert counted == LOOK_UPS, f"{counted} of {LOOK_UPS} look-ups in {shown!r}"


def test_page_asks_for_a_token(folder, browse):
    lines = folder.run("token", "new", "--name", "operator", "--scope", "admin").stderr
    folder.write("tokens.toml", lines[lines.index("[[") :])
    with folder.serving("repository", "--tokens", "tokens.toml", ports=2) as (_, admin):
        page = browse(admin + "/")
    page.expect("summary", "the server asks for a token")
    assert "access" not in page.hidden and "content" in page.hidden
