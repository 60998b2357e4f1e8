"""What the tests of the package share: tables, servers, and a cache of their own."""

import os
import subprocess
import sys

import numpy
import pytest

import spirea


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    """Hints go into a folder of the tests, not into the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def matrix():
    """A table of 1,000 rows of 16 numbers."""
    return numpy.random.default_rng(1).standard_normal((1000, 16)).astype(numpy.float32)


@pytest.fixture(scope="session")
def keyed():
    """A snapshot with keys."""
    return spirea.build([{"key": f"k{i}", "a": f"a{i}", "b": i} for i in range(300)], key="key", name="keyed")


@pytest.fixture(scope="session")
def keyed_server(keyed):
    with spirea.Server(keyed) as server:
        yield server


@pytest.fixture(scope="session")
def pair(matrix):
    """Two servers of one snapshot in bins."""
    snapshot = spirea.build(matrix, protocol="dpf-xor", bins=20, name="pair")
    with spirea.Server(snapshot, party=0) as zero, spirea.Server(snapshot, party=1) as one:
        yield [zero, one]


@pytest.fixture
def script(tmp_path):
    """Runs a Python program in an interpreter of its own; it must end by itself."""

    def run(text, *arguments, **options):
        path = tmp_path / "script.py"
        path.write_text(text)
        return subprocess.run(
            [sys.executable, path, *map(str, arguments)],
            capture_output=True, text=True, timeout=60, check=False, env=os.environ | options,
        )

    return run
