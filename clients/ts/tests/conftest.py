"""What the tests share: the package as npm installs it, servers of every protocol, a browser, a program in Node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from runtimes import InBrowser, InNode, Runtime, Site, install_package, launched
from servers import COMMON, PAIRS, PER_QUERY, PROTOCOLS, Server, Spirea


@pytest.fixture(scope="session")
def spirea(tmp_path_factory: pytest.TempPathFactory) -> Spirea:
    return Spirea(Path(os.environ["SPIREA"]), tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh folder with the package as `npm install` of what `npm pack` makes leaves it, and the tests' pages."""
    return install_package(tmp_path_factory.mktemp("packed"), tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def site(installed: Path) -> Iterator[Site]:
    site = Site(installed)
    yield site
    site.stop()


@pytest.fixture(scope="session")
def chromium() -> str:
    return os.environ["CHROMIUM"]


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launched(playwright, chromium)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[InBrowser]:
    """A page with the package, in a browser with empty storage."""
    runtime = InBrowser(browser.new_context(), site)
    yield runtime
    runtime.close()


@pytest.fixture
def node(installed: Path) -> Iterator[InNode]:
    runtime = InNode(installed)
    yield runtime
    runtime.close()


@pytest.fixture(params=["page", "node"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def server(spirea: Spirea) -> Iterator[Server]:
    """A server of the tables that most tests need."""
    with Server(spirea, *(spirea.build(name, name) for name in COMMON)) as server:
        yield server


@pytest.fixture(scope="session")
def others(spirea: Spirea) -> Iterator[Server]:
    """A server of all other tables of one server."""
    # What takes longest comes first, two at a time.
    tables = [(name, name) for name in reversed(PROTOCOLS) if name not in COMMON]
    tables[2:2] = [(f"{name}-per-query", name, "--keys", "per-query") for name in PER_QUERY]
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(lambda table: spirea.build(*table), tables))
    with Server(spirea, *folders) as server:
        yield server


@pytest.fixture(scope="session")
def pair(spirea: Spirea) -> Iterator[list[Server]]:
    """Two servers of all tables of two servers."""
    folders = [spirea.build(name, name) for name in PAIRS]
    folders.append(spirea.build("dpf-xor-bins", "dpf-xor", "--bins", "8"))
    with Server(spirea, *folders, "--party", 0) as zero, Server(spirea, *folders, "--party", 1) as one:
        yield [zero, one]
