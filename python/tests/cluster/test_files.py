"""Fetching ranges of files from a store: fetched pieces, resumed fetches, and errors."""

import os
import pathlib
import random
import shutil
import threading

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spirea
from spirea.cluster import files
from spirea.cluster.files import Folder, Wanted, fetch, upload


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    """A folder on this machine, or in an object store."""
    if request.param == "local":
        (tmp_path / "store").mkdir()
        return Folder(str(tmp_path / "store"))
    fsspec.filesystem("memory").store.clear()
    return Folder("memory://bucket/store")


@pytest.fixture
def snapshot(tmp_path, keyed):
    """A copy of a snapshot in a separate folder."""
    folder = tmp_path / "words"
    shutil.copytree(os.fspath(keyed), folder)
    return folder


def test_ranges_come_and_the_rest_is_holes(store, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PIECE", 1 << 16)
    content = random.Random(1).randbytes(1 << 20)
    store.write("matrix.bin", content)
    seen = []
    wanted = [Wanted("matrix.bin", len(content), ((5, 200_000), (900_001, 900_002)))]
    got = fetch(store, wanted, tmp_path / "here", lambda done, of: seen.append((done, of)))
    assert got == 199_996 and seen[0] == (0, 199_996) and seen[-1] == (199_996, 199_996)
    made = (tmp_path / "here" / "matrix.bin").read_bytes()
    assert len(made) == len(content)
    assert made[5:200_000] == content[5:200_000] and made[900_001] == content[900_001]
    assert not any(made[200_000:900_001]) and not any(made[:5])
    assert os.stat(tmp_path / "here" / "matrix.bin").st_blocks * 512 < 1 << 19


def test_what_was_fetched_is_not_fetched_again(store, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PIECE", 100)
    store.write("matrix.bin", bytes(range(256)) * 10)
    wanted = [Wanted("matrix.bin", 2560, ((0, 2560),))]
    whole, asked = Folder.piece, []

    def fails(self, name, start, end):
        asked.append(start)
        if start == 1000 and len(asked) < 30:
            raise spirea.ClusterError("the store went away")
        return whole(self, name, start, end)

    monkeypatch.setattr(Folder, "piece", fails)
    with pytest.raises(spirea.ClusterError, match="went away"):
        fetch(store, wanted, tmp_path / "here")
    asked += [0] * 30
    again = fetch(store, wanted, tmp_path / "here")
    assert 0 < again <= 2560 - 10 * 100
    assert (tmp_path / "here" / "matrix.bin").read_bytes() == bytes(range(256)) * 10
    assert fetch(store, wanted, tmp_path / "here") == 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 300)), max_size=8))
def test_any_ranges_come_as_they_are(tmp_path_factory, spans):
    folder = tmp_path_factory.mktemp("ranges")
    content = random.Random(2).randbytes(1000)
    store = Folder(str(folder / "store"))
    store.write("file", content)
    ranges = tuple((start, min(start + length, 1000)) for start, length in spans)
    fetch(store, [Wanted("file", 1000, ranges)], folder / "here")
    made = (folder / "here" / "file").read_bytes()
    assert len(made) == 1000 and all(made[a:b] == content[a:b] for a, b in ranges)


def test_a_file_that_is_short_or_absent_is_said(store, tmp_path):
    store.write("matrix.bin", b"123")
    with pytest.raises(spirea.ClusterError, match=r"matrix.bin: it ends before byte 9; publish the snapshot again"):
        fetch(store, [Wanted("matrix.bin", 9, ((0, 9),))], tmp_path / "here")
    with pytest.raises(spirea.ClusterError, match="absent.bin: it cannot be read"):
        fetch(store, [Wanted("absent.bin", 9, ((0, 9),))], tmp_path / "here")
    assert fetch(store, [Wanted("absent.bin", 9, ((0, 9),), optional=True)], tmp_path / "here") == 0


def test_secrets_in_a_url_are_not_shown():
    assert files.shown("s3://key:secret@bucket/a/b?token=x") == "s3://bucket/a/b"
    assert files.shown("s3://bucket/a") == "s3://bucket/a" and files.shown("/srv/a@b") == "/srv/a@b"
    with pytest.raises(spirea.ClusterError, match=r"^memory://bucket/store/absent: it cannot be read"):
        Folder("memory://me:secret@bucket/store").read("absent")


def test_what_is_on_disk_needs_no_room_when_it_is_fetched_again(store, tmp_path, monkeypatch):
    store.write("matrix.bin", bytes(1 << 16))
    wanted = [Wanted("matrix.bin", 1 << 16, ((0, 1 << 16),))]
    fetch(store, wanted, tmp_path / "here")
    (tmp_path / "here" / files.NOTES).unlink()
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 0}))
    assert fetch(store, wanted, tmp_path / "here") == 1 << 16


def test_files_are_copied_several_at_a_time(store, snapshot, keyed):
    target = store.inner("words")
    together, put = threading.Barrier(3, timeout=300), Folder.put

    def noted(self, name, descriptor):
        together.wait()
        return put(self, name, descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "put", noted)
        upload(snapshot, target)
    assert target.version() == keyed.version


def test_a_node_without_room_is_said_before_anything_is_fetched(store, tmp_path):
    store.write("matrix.bin", b"123")
    with pytest.raises(spirea.ClusterError, match="bytes are needed and .* are free; make room"):
        fetch(store, [Wanted("matrix.bin", 1 << 60, ((0, 1 << 60),))], tmp_path / "here")


def test_a_snapshot_is_copied_with_its_manifest_last(store, snapshot, keyed):
    target = store.inner("words")
    order = []
    put = Folder.put

    def noted(self, name, descriptor):
        order.append(name)
        assert not target.exists("manifest.json")
        return put(self, name, descriptor)

    sizes = {path.name: path.stat().st_size for path in snapshot.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "put", noted)
        assert upload(snapshot, target) == sum(sizes.values())
    assert sorted([*order, "manifest.json"]) == sorted(sizes) and target.version() == keyed.version
    assert upload(snapshot, target) == 0
    assert dict(target.names()) == sizes
    assert {wanted.path for wanted in target.manifest().beside_matrix()} == {"hint.bin", "hint.rows"}


def test_a_folder_of_the_store_with_another_version_is_not_taken_for_the_copy(store, snapshot):
    target = store.inner("words")
    other = spirea.build([{"key": "k", "a": "a"}], key="key", name="keyed")
    upload(pathlib.Path(other.path), target)
    with pytest.raises(spirea.ClusterError, match="it has version"):
        upload(snapshot, target)


def test_a_folder_that_is_no_snapshot_is_said(store, tmp_path):
    with pytest.raises(spirea.ClusterError, match=r"there is no manifest.json, so this is no snapshot"):
        store.inner("nothing").version()
    store.write("manifest.json", b"{")
    with pytest.raises(spirea.ClusterError, match="malformed manifest: .*; build or publish"):
        store.version()
    with pytest.raises(spirea.ClusterError, match="nowhere://x"):
        Folder("nowhere://x")
