"""Shared by the system tests: the program, Debian's packages, and work that runs side by side."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spirea_report import FULL

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "conformance/client")]

import debian  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--spirea", help="the program to test (default: $SPIREA, else target/debug/spirea)")


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*programs): Debian programs that a test runs, by their names in debian.WANTED")


def needs(item):
    """The programs that a test runs."""
    return [name for mark in item.iter_markers("needs") for name in mark.args]


# After the plugin has left out what is not of this level.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Installs what is missing at once, or skips the tests that need it."""
    missing = {name for item in items for name in needs(item) if not debian.find(name)}
    if missing and debian.may_install() and not config.option.collectonly:
        debian.install(missing)
    for item in items:
        for name in needs(item):
            if not debian.find(name):
                item.add_marker(pytest.mark.skip(reason=debian.remedy(name)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """With CI_FULL=1, root skips nothing for a missing package."""
    for name in needs(item):
        if FULL and os.geteuid() == 0 and not debian.find(name):
            pytest.fail(debian.remedy(name), pytrace=False)


@pytest.fixture(scope="session")
def spirea(request):
    """The path of the program."""
    said = request.config.getoption("--spirea") or os.environ.get("SPIREA")
    path = Path(said or ROOT / "target/debug/spirea").absolute()
    if not os.access(path, os.X_OK):
        pytest.fail(f"there is no program {path}: cargo build -p spirea-cli, or give --spirea PATH or SPIREA", pytrace=False)
    return path


@pytest.fixture(scope="session")
def pool():
    """Work at a time, for tests that start theirs together: as many as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def side_by_side(request, pool):
    """Starts work for every chosen test of a parametrised function of this module; gives the futures by the parameter.

    A test takes the result of its own, so that tests of one processor's work share all processors.
    """

    def start(test, parameter, work):
        chosen = [
            item.callspec.params[parameter]
            for item in request.session.items
            if item.path == request.path and item.originalname == test and not item.get_closest_marker("skip")
        ]
        return {value: pool.submit(work, value) for value in chosen}

    return start
