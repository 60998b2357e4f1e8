"""Common fixtures of the system tests: the program, Debian packages, and work in parallel."""

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
    """Returns the programs that a test runs."""
    return [name for mark in item.iter_markers("needs") for name in mark.args]


# Runs after the plugin has deselected tests of other levels.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Installs all missing packages together, or skips the tests that need them."""
    missing = {name for item in items for name in needs(item) if not debian.find(name)}
    if missing and debian.may_install() and not config.option.collectonly:
        debian.install(missing)
    for item in items:
        for name in needs(item):
            if not debian.find(name):
                item.add_marker(pytest.mark.skip(reason=debian.remedy(name)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Fails instead of skipping for a missing package, if run by root with CI_FULL=1."""
    for name in needs(item):
        if FULL and os.geteuid() == 0 and not debian.find(name):
            pytest.fail(debian.remedy(name), pytrace=False)


@pytest.fixture(scope="session")
def spirea(request):
    """Path of the program."""
    said = request.config.getoption("--spirea") or os.environ.get("SPIREA")
    path = Path(said or ROOT / "target/debug/spirea").absolute()
    if not os.access(path, os.X_OK):
        pytest.fail(f"there is no program {path}: cargo build -p spirea-cli, or give --spirea PATH or SPIREA", pytrace=False)
    return path


@pytest.fixture(scope="session")
def lab(spirea):
    """Path of the program with the benchmarks, which lies beside the other."""
    path = spirea.with_name("spirea-lab")
    if not os.access(path, os.X_OK):
        pytest.fail(f"there is no program {path}: cargo build -p spirea-lab", pytrace=False)
    return path


@pytest.fixture(scope="session")
def pool():
    """Pool with one thread for each processor, for tests that start their work together."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def side_by_side(request, pool):
    """Starts work in parallel for every chosen test of a parametrised function in this module. Returns futures by parameter.

    Each test takes its own result, so that tests with single-threaded work use all processors.
    """

    def start(test, parameter, work):
        chosen = [
            item.callspec.params[parameter]
            for item in request.session.items
            if item.path == request.path and item.originalname == test and not item.get_closest_marker("skip")
        ]
        return {value: pool.submit(work, value) for value in chosen}

    return start
