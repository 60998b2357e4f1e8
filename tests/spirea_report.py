"""The pytest plugin of all tests in Python: levels of tests, and the output of failing tests.

Without CI_FULL=1 in the environment, tests marked `full` are left out. Without SPIREA_CONFORMANCE=long, tests marked `long`
are left out, and so are tests marked `drawn` that the commit's hash does not choose. A failing test prints the logs of its
servers and the command that runs it alone.
"""

import os
import random
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

FULL = os.environ.get("CI_FULL") == "1"
LONG = os.environ.get("SPIREA_CONFORMANCE") == "long"
# Variables that change the choice of tests or their behaviour.
SETTINGS = (
    *("CI_FULL", "SPIREA_CONFORMANCE", "SPIREA_CLUSTER", "SPIREA_OPENAPI_EXAMPLES", "SPIREA_RELEASE_FILES"),
    *("SPIREA_APPLE_SOURCES", "SPIREA_SWIFT_ROOT", "SPIREA", "SPIREA_DRAW"),
)
# Number of characters at the end of a log that a failing test prints.
SHOWN = 8000
# Logs that are being written (True), and logs that the current test has closed (False).
_logs: dict[Path, bool] = {}
_left_out = pytest.StashKey[dict[str, int]]()
# Draws by what they are of, each with a line that says what was drawn.
_draws: dict[str, str] = {}


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
    config.addinivalue_line(
        "markers", "drawn(what, count): a case of `what`, of which only `count` run; SPIREA_CONFORMANCE=long runs them all"
    )


def pytest_collection_modifyitems(config, items):
    """Deselects the tests that are not of this level."""
    levels = {"full": FULL, "long": LONG}
    left_out = {
        level: [item for item in items if item.get_closest_marker(level)] for level, runs in levels.items() if not runs
    }
    config.stash[_left_out] = {level: len(those) for level, those in left_out.items() if those}
    without = {item for those in left_out.values() for item in those}
    without |= not_drawn([item for item in items if item not in without])
    if without:
        config.hook.pytest_deselected(items=list(without))
        items[:] = [item for item in items if item not in without]


def seed_of_draws():
    """Returns SPIREA_DRAW, or the hash of the commit, so that commits test different cases."""
    if "SPIREA_DRAW" in os.environ:
        return os.environ["SPIREA_DRAW"]
    done = subprocess.run(["git", "rev-parse", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip()


def drawn(what, cases, count):
    """Returns `count` of the cases, drawn by the commit's hash; with SPIREA_CONFORMANCE=long all of them."""
    if LONG or count >= len(cases):
        return cases
    seed = seed_of_draws()
    those = random.Random(f"{seed}\n{what}").sample(cases, count)
    _draws[what] = (
        f"{what}: {count} of {len(cases)} are tested, {', '.join(those)}. To repeat: SPIREA_DRAW={seed}. "
        "All of them: SPIREA_CONFORMANCE=long."
    )
    return those


def not_drawn(items):
    """Returns the tests marked `drawn` that are not."""
    cases = {}
    for item in items:
        if mark := item.get_closest_marker("drawn"):
            cases.setdefault(mark.args, {})[item.callspec.id] = item
    chosen = {key: drawn(key[0], list(those), key[1]) for key, those in cases.items()}
    return {item for key, those in cases.items() for name, item in those.items() if name not in chosen[key]}


def pytest_terminal_summary(terminalreporter, config):
    for line in _draws.values():
        terminalreporter.write_line(line)
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
