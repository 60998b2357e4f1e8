"""The files of a release, and the times from each file to its first look-up."""

import hashlib
import os
import platform
import shutil
from pathlib import Path
from time import monotonic

import pytest

from system.programs import ROOT

SECONDS = pytest.StashKey[dict[str, float]]()


class Release:
    """A folder with the files of a release."""

    def __init__(self, folder):
        self.folder, self.architecture = folder, platform.machine()

    def find(self, pattern):
        """Returns the only file with a name. `{architecture}` is this machine's."""
        pattern = pattern.format(architecture=self.architecture)
        found = sorted(self.folder.glob(pattern))
        if len(found) != 1:
            remedy = "make release, or set SPIREA_RELEASE_FILES to a folder of its files"
            pytest.fail(f"{self.folder} has {len(found)} files {pattern}, not one: {remedy}", pytrace=False)
        return found[0]

    def place(self, pattern, folder):
        """Copies a file into a newcomer's folder. Returns its name."""
        path = self.find(pattern)
        shutil.copy(path, folder)
        return path.name


@pytest.fixture(scope="session")
def release():
    """The release, whose check sums are right."""
    release = Release(Path(os.environ.get("SPIREA_RELEASE_FILES", ROOT / "target/release-files")).absolute())
    sums = dict(reversed(line.split("  ")) for line in release.find("SHA256SUMS").read_text(encoding="utf-8").splitlines())
    files = {path.name: path for path in release.folder.iterdir() if not path.name.startswith("SHA256SUMS")}
    assert files.keys() == sums.keys()
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sums[name], name
    return release


@pytest.fixture
def timed(request):
    """Tells the time until it is called, of this test, in the summary."""
    begun, times = monotonic(), request.config.stash.setdefault(SECONDS, {})

    def done():
        times[request.node.name] = monotonic() - begun

    return done


def pytest_terminal_summary(terminalreporter, config):
    for name, seconds in config.stash.get(SECONDS, {}).items():
        terminalreporter.write_line(f"{name}: {seconds:.1f} s from the file to the first look-up")
