"""The pytest plugin of all tests in Python: levels of tests, and the output of failing tests.

Without CI_FULL=1 in the environment, tests marked `full` are left out. Without SPIREA_CONFORMANCE=long, tests marked `long`
are left out. A failing test prints the logs of its servers and the command that runs it alone.
"""

import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

FULL = os.environ.get("CI_FULL") == "1"
LONG = os.environ.get("SPIREA_CONFORMANCE") == "long"
# Variables that change the choice of tests or their behaviour.
SETTINGS = (
    *("CI_FULL", "SPIREA_CONFORMANCE", "SPIREA_CLUSTER", "SPIREA_OPENAPI_EXAMPLES", "SPIREA_RELEASE_FILES"),
    *("SPIREA_APPLE_SOURCES", "SPIREA_SWIFT_ROOT", "SPIREA"),
)
# Number of characters at the end of a log that a failing test prints.
SHOWN = 8000
# Logs that are being written (True), and logs that the current test has closed (False).
_logs: dict[Path, bool] = {}
_left_out = pytest.StashKey[dict[str, int]]()


@contextmanager
def log(path):
    """Registers a log that is being written. Tests that fail in the meantime print its end."""
    _logs[path] = True
    try:
        yield path
    finally:
        _logs[path] = False


def pytest_configure(config):
    # By default, Ray reports its usage and looks for clouds.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_IMPORT_WARNING="1")
    config.addinivalue_line("markers", "full: runs with CI_FULL=1 only")
    config.addinivalue_line("markers", "long: runs with SPIREA_CONFORMANCE=long only")


def pytest_collection_modifyitems(config, items):
    """Deselects the tests that are not of this level."""
    levels = {"full": FULL, "long": LONG}
    left_out = {
        level: [item for item in items if item.get_closest_marker(level)] for level, runs in levels.items() if not runs
    }
    config.stash[_left_out] = {level: len(those) for level, those in left_out.items() if those}
    without = {item for those in left_out.values() for item in those}
    if without:
        config.hook.pytest_deselected(items=list(without))
        items[:] = [item for item in items if item not in without]


def pytest_terminal_summary(terminalreporter, config):
    settings = {"full": "CI_FULL=1", "long": "SPIREA_CONFORMANCE=long"}
    for level, count in config.stash.get(_left_out, {}).items():
        terminalreporter.write_line(f"{count} tests left out; {settings[level]} runs them")


def pytest_runtest_logstart():
    for path in [path for path, is_open in _logs.items() if not is_open]:
        del _logs[path]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        for path in _logs:
            if path.exists():
                report.sections.append((str(path), path.read_text(errors="replace")[-SHOWN:]))
        report.sections.append(("to run it alone", alone(item)))
    return report


def alone(item):
    """Returns the command that runs a test alone, in the root of the repository."""
    python = Path(sys.executable)
    root = item.config.rootpath
    python = python.relative_to(root) if python.is_relative_to(root) else python
    settings = [f"{name}={shlex.quote(os.environ[name])}" for name in SETTINGS if name in os.environ]
    return " ".join([*settings, str(python), "-m", "pytest", shlex.quote(item.nodeid)])
