"""A worker on its node, without Ray: fetching, fetching again, and removal of files."""

import fcntl
import os
import shutil
import time

import pytest

from spirea.cluster import authority
from spirea.cluster.files import Folder, fetch
from spirea.cluster.work import Task, Work


@pytest.fixture
def start(tmp_path, keyed):
    """Function that starts workers of a share on one node; they end with the test."""
    url = str(tmp_path / "store")
    shutil.copytree(os.fspath(keyed), url)
    started = []

    def started_with(number, share=0, shards=1):
        version = Folder(url).version()
        task = Task(number, "library", "keyed", version, url, share, shards, 1 << 28, 1, (), str(tmp_path / "work"))
        started.append(Work(task, "127.0.0.1"))
        return started[-1]

    yield started_with
    for work in started:
        work.stop()


@pytest.fixture
def certify(tmp_path):
    """Function that gives a worker its certificate, which starts its program."""
    authorities = {role: authority.Authority(tmp_path / "state", role) for role in authority.ROLES}

    def certified(work):
        request = work.report()["request"]
        signed = authorities[authority.WORKERS].sign(request, 3600.0, "127.0.0.1")
        work.certify(signed, authorities[authority.COORDINATORS].certificate)

    return certified


def eventually(work, holds, seconds=300):
    deadline = time.monotonic() + seconds
    while not holds(work.report()):
        assert time.monotonic() < deadline, work.report()
        time.sleep(0.05)


def is_fetched(report):
    return report["fetched"] == report["of"] > 0


def is_ready(report):
    return report["phase"] == "ready"


def test_a_byte_that_is_damaged_here_is_fetched_again(start, certify):
    work = start(0)
    # A file gets its name after its last byte has been reported.
    eventually(work, lambda report: is_fetched(report) and (work.folder / "matrix.bin").exists())
    with (work.folder / "matrix.bin").open("r+b") as matrix:
        matrix.seek(100)
        [before] = matrix.read(1)
        matrix.seek(100)
        matrix.write(bytes([before ^ 1]))
    certify(work)
    eventually(work, is_ready)
    assert (work.folder / "matrix.bin").read_bytes()[100] == before


def test_what_is_damaged_in_the_store_is_said_and_fetched_no_third_time(start, certify, tmp_path, monkeypatch):
    fetched = []
    monkeypatch.setattr("spirea.cluster.work.fetch", lambda *given: fetched.append(1) or fetch(*given))
    matrix = tmp_path / "store" / "matrix.bin"
    matrix.write_bytes(matrix.read_bytes()[:-1] + b"\xff")
    work = start(0)
    certify(work)
    eventually(work, lambda report: report["restarts"] >= 3)
    report = work.report()
    assert report["phase"] == "starting" and "copy the snapshot again" in report["trouble"]
    assert len(fetched) == 2


def test_files_go_with_the_last_worker_of_the_node_that_has_them(start, certify):
    first, second = start(0), start(1)
    for work in (first, second):
        certify(work)
        eventually(work, is_ready)
    assert first.folder == second.folder
    first.stop(forget=True)
    assert (first.folder / "matrix.bin").exists()
    third = start(2)
    eventually(third, is_fetched)
    second.stop(forget=True)
    assert (first.folder / "matrix.bin").exists()
    third.stop(forget=True)
    assert not first.folder.exists()


def test_what_another_version_has_left_behind_goes(start, tmp_path):
    first = start(0)
    eventually(first, is_fetched)
    left = tmp_path / "work" / "library" / "shares" / "keyed" / "0123456789abcdef" / "0-of-1"
    used = left.with_name("0-of-2")
    for folder in (left, used):
        folder.mkdir(parents=True)
        (folder / "matrix.bin").write_bytes(b"m")
    with (used.parent / ".0-of-2.use").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_SH)
        eventually(start(1), is_fetched)
        assert not left.exists() and used.exists() and (first.folder / "matrix.bin").exists()


def test_one_that_stays_on_the_node_keeps_the_files(start):
    work = start(0)
    eventually(work, is_fetched)
    work.stop()
    assert (work.folder / "matrix.bin").exists()


def test_a_verified_manifest_says_what_each_share_needs(keyed):
    manifest = Folder(keyed.path).manifest()
    shares = [manifest.share(share, 3) for share in range(3)]
    assert all("matrix.bin" in {file.path for file in files} for files in shares)
    assert all("manifest.json" not in {file.path for file in files} for files in shares)
