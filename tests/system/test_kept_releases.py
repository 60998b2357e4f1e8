"""Tests that today's program serves the tables of every release, and answers the client of every release.

`scripts/release/keep.py` makes what is kept of a release, in conformance/releases.
"""

import json
import shutil
import subprocess
import sys
import tarfile

import pytest

from system.programs import ROOT, Folder

KEPT = sorted(path for path in (ROOT / "conformance/releases").iterdir() if path.is_dir())
# Values of the tables, and a change that the test publishes into them.
VALUES = {"k1": {"note": "first", "size": "1"}, "k2": {"note": "changed", "size": "7"}, "k3": None}
CHANGE = {"key": "k3", "value": {"note": "again", "size": "9"}}
# Protocols of the short form: one with a hint; one with evaluation keys and packing; one with two servers.
SHORT = ("simple", "hybrid", "dpf-xor")


def names(archive):
    with tarfile.open(archive) as tables:
        return sorted({path.split("/")[1] for path in tables.getnames() if path.count("/") > 1})


CASES = [
    pytest.param(kept, name, id=f"{kept.name}-{name}", marks=[] if name in SHORT else pytest.mark.full)
    for kept in KEPT
    for name in names(kept / "tables.tar.xz")
]


def values(status, output):
    """Returns the values that a client printed as JSON, by key."""
    lines = [json.loads(line) for line in output.splitlines()]
    assert status == int(any(not line["found"] for line in lines)), output
    return {line["key"]: line.get("value") for line in lines}


class Release(Folder):
    """A release's table and client in a folder, with today's program."""

    def __init__(self, spirea, path, kept, name):
        super().__init__(spirea, path)
        self.kept, self.name = kept, name
        with tarfile.open(kept / "tables.tar.xz") as tables:
            members = [it for it in tables if it.name == "./operator.pub" or it.name.split("/")[1:2] == [name]]
            tables.extractall(path, members, filter="data")
        self.public = (path / "operator.pub").read_text(encoding="utf-8").split()[0]

    def found_by(self, *clients):
        """Serves the table, and returns what each client finds."""
        if not self.name.startswith("dpf"):
            with self.serving(self.name) as [url]:
                return [self.look_up(client, [url]) for client in clients]
        # A repository belongs to one process, so the other party has a copy.
        shutil.copytree(self.path / self.name, self.path / "copy", dirs_exist_ok=True)
        with self.serving(self.name, "--party", "0") as [first], self.serving("copy", "--party", "1") as [second]:
            return [self.look_up(client, [first, second]) for client in clients]

    def look_up(self, client, urls):
        other = ["--other", urls[1]] if len(urls) == 2 else []
        command = [*client, *other, "--json", "--pin-key", self.public, urls[0], self.name, *VALUES]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return values(done.returncode, done.stdout)


def test_a_release_is_kept():
    assert KEPT
    assert all(sorted(path.name for path in kept.iterdir()) == ["client.pyz", "tables.tar.xz"] for kept in KEPT)


@pytest.mark.drawn("tables of former releases", 4)
@pytest.mark.parametrize(("kept", "name"), CASES)
def test_the_table_is_served_and_takes_changes_for_both_clients(spirea, tmp_path, kept, name):
    release = Release(spirea, tmp_path, kept, name)
    today, former = [spirea, "get", "--cache", "cache"], [sys.executable, kept / "client.pyz"]
    assert release.found_by(today) == [VALUES]
    release.write("more.jsonl", json.dumps(CHANGE) + "\n")
    key = release.run("key", "new", "new.key").stdout
    release.public = key.split()[0]
    release.run("publish", "--repository", name, "--changes", "more.jsonl", "--sign", "new.key", "--threads", "1")
    assert release.found_by(today, former) == [VALUES | {"k3": CHANGE["value"]}] * 2
