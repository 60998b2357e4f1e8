"""Stores, folders and manifests of an attacker: no other file is read or written, and no other version is served."""

import contextlib
import json
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import work_bed

import spirea
from spirea.cluster import command, config, files
from spirea.cluster.files import MANIFEST, Folder, Wanted, fetch, upload
from spirea.cluster.gateway import Gateway
from spirea.cluster.state import State
from spirea.cluster.work import Task, Work


@pytest.fixture
def hostile(tmp_path):
    """An attacker's folder whose manifest contains a path, and the file that the attacker wants to overwrite."""
    victim = tmp_path / "home" / ".ssh" / "authorized_keys"
    victim.parent.mkdir(parents=True)
    victim.write_text("the owner's key")
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "authorized_keys").write_text("an attacker's key, of another length")
    (folder / MANIFEST).write_text(json.dumps({"blake3": "../../home/.ssh", "snapshot": {}}))
    return SimpleNamespace(folder=folder, victim=victim)


def conf(tmp_path, snapshot="/keyed"):
    places = (str(tmp_path / place) for place in ("store", "state", "work"))
    return config.Config("library", *places, (config.Database("keyed", str(snapshot), 1),))


@pytest.fixture(scope="module")
def other():
    """Another edition of the snapshot `keyed`, with files of the same lengths."""
    return spirea.build([{"key": f"k{i}", "a": f"b{i}", "b": i} for i in range(300)], key="key", name="keyed")


def copied(snapshot, folder):
    shutil.copytree(os.fspath(snapshot), folder)
    return Folder(str(folder))


def test_a_manifest_that_names_a_path_has_nothing_written_there(hostile, tmp_path):
    with pytest.raises(spirea.ClusterError, match="manifest"):
        command._stored(conf(tmp_path), "keyed", str(hostile.folder))
    assert hostile.victim.read_text() == "the owner's key"


@pytest.mark.parametrize("name", ["hint.bin", MANIFEST, "matrix.groups", "signature.json"])
def test_a_link_in_a_snapshot_is_refused_and_its_target_stays_here(keyed, tmp_path, name):
    secret, folder = tmp_path / "secret", tmp_path / "snapshot"
    copied(keyed, folder)
    secret.write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"a secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    target = Folder(str(tmp_path / "store"))
    with pytest.raises(spirea.ClusterError, match="link"):
        upload(folder, target)
    assert MANIFEST not in os.listdir(tmp_path / "store") if (tmp_path / "store").exists() else True
    assert not (tmp_path / "store" / name).exists()


def test_a_file_that_no_snapshot_has_is_not_copied(keyed, tmp_path):
    folder = tmp_path / "snapshot"
    copied(keyed, folder)
    (folder / "id_rsa").write_text("a secret")
    upload(folder, Folder(str(tmp_path / "store")))
    assert not (tmp_path / "store" / "id_rsa").exists()


@pytest.mark.full
def test_a_store_that_names_a_path_first_has_nothing_written_by_the_controller(
    controller, hostile, keyed, tmp_path, monkeypatch
):
    whole = (Path(os.fspath(keyed)) / MANIFEST).read_bytes()
    said = iter([json.dumps({"blake3": "../../evil"}).encode()])
    monkeypatch.setattr(Folder, "read", lambda self, name: next(said, whole))
    controller._config, controller._folder = conf(tmp_path), tmp_path / "state"
    controller._state, controller._lock, controller._keep = State(), threading.RLock(), lambda: None
    with pytest.raises(spirea.ClusterError):
        controller.publish("keyed", os.fspath(keyed), keyed.version)
    assert not (tmp_path / "evil").exists() and not list(tmp_path.glob("state/**/*.json"))


@pytest.mark.full
def test_the_controller_takes_the_published_version_only(controller, keyed, other, tmp_path):
    controller._config, controller._folder = conf(tmp_path), tmp_path / "state"
    controller._state, controller._lock, controller._keep = State(), threading.RLock(), lambda: None
    with pytest.raises(spirea.ClusterError, match=other.version[:16]):
        controller.publish("keyed", os.fspath(other), keyed.version)
    controller.publish("keyed", os.fspath(keyed), keyed.version)
    assert [version.version for version in controller._state.databases["keyed"].versions] == [keyed.version]


def test_links_where_files_are_fetched_to_are_not_followed(tmp_path):
    victim, into = tmp_path / "victim", tmp_path / "here"
    victim.write_bytes(b"untouched")
    into.mkdir()
    store = Folder(str(tmp_path / "store"))
    store.write("matrix.bin", b"evil" * 10)
    for name in ("matrix.bin", "matrix.bin.partial", files.NOTES):
        (into / name).symlink_to(victim)
    with pytest.raises((spirea.ClusterError, OSError)):
        fetch(store, [Wanted("matrix.bin", 40, ((0, 40),))], into)
    assert victim.read_bytes() == b"untouched"


@pytest.mark.parametrize("name", ["../victim", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a\0b", "a\nb", "x" * 200])
def test_a_name_from_elsewhere_is_one_component(name, tmp_path):
    with pytest.raises(spirea.ClusterError, match="name"):
        Wanted(name, 1, ((0, 1),))
    with pytest.raises(spirea.ClusterError, match="name"):
        Folder(str(tmp_path)).read(name)


def test_a_link_in_a_store_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "hint.bin").symlink_to(tmp_path / "secret")
    store = Folder(str(tmp_path / "store"))
    with pytest.raises(spirea.ClusterError, match="link is refused"):
        store.read("hint.bin")
    with pytest.raises(spirea.ClusterError, match="link is refused"):
        store.piece("hint.bin", 0, 3)


def test_a_fifo_in_a_store_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / MANIFEST)
    store, refused = Folder(str(tmp_path)), []

    def read():
        for reading in (store.manifest, lambda: store.piece(MANIFEST, 0, 3)):
            with pytest.raises(spirea.ClusterError, match="not a regular file"):
                reading()
            refused.append(reading)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert len(refused) == 2


@pytest.mark.parametrize("name", [MANIFEST, "signature.json", "part-000000.json"])
def test_a_small_file_of_any_length_takes_little_memory(tmp_path, name):
    """The file is a hole, longer than the memory of any machine."""
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(spirea.ClusterError, match=f"{name}: it is longer than"):
        Folder(str(tmp_path)).read(name)


def test_a_folder_with_an_endless_manifest_is_not_uploaded(tmp_path):
    (tmp_path / "snapshot").mkdir()
    with (tmp_path / "snapshot" / MANIFEST).open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(spirea.ClusterError, match="no snapshot"):
        upload(tmp_path / "snapshot", Folder(str(tmp_path / "store")))


def test_a_mapped_file_is_not_modified_in_place(tmp_path):
    store, into = Folder(str(tmp_path / "store")), tmp_path / "here"
    wanted = [Wanted("matrix.bin", 40, ((0, 40),))]
    store.write("matrix.bin", b"good" * 10)
    fetch(store, wanted, into)
    with (into / "matrix.bin").open("rb") as opened:
        (into / files.NOTES).unlink()
        store.write("matrix.bin", b"evil" * 10)
        fetch(store, wanted, into)
        assert os.pread(opened.fileno(), 40, 0) == b"good" * 10
    assert (into / "matrix.bin").read_bytes() == b"evil" * 10


def test_a_file_that_is_not_whole_has_another_name(tmp_path):
    store, into = Folder(str(tmp_path / "store")), tmp_path / "here"
    store.write("matrix.bin", b"short")
    with pytest.raises(spirea.ClusterError, match="ends before"):
        fetch(store, [Wanted("matrix.bin", 40, ((0, 40),))], into)
    assert not (into / "matrix.bin").exists()


def test_a_store_that_swaps_the_snapshot_is_not_served(keyed, other, tmp_path, monkeypatch):
    published = (Path(os.fspath(keyed)) / MANIFEST).read_bytes()
    url = copied(other, tmp_path / "store").url
    whole, asked = Folder.read, []

    def swapped(self, name):
        if name != MANIFEST:
            return whole(self, name)
        asked.append(name)
        return published if len(asked) == 1 else whole(self, name)

    monkeypatch.setattr(Folder, "read", swapped)
    work = Work(Task(0, "library", "keyed", keyed.version, url, 0, 1, 1 << 28, 1, (), str(tmp_path / "work")), "127.0.0.1")
    try:
        work_bed.certify(work, tmp_path / "state")
        # The program refuses the files. When they are fetched again, the manifest is refused.
        refusals = ("copy the snapshot again", "publish each version")
        work_bed.eventually(
            work, lambda report: report["phase"] == "ready" or any(refusal in report["trouble"] for refusal in refusals)
        )
        assert work.report()["phase"] != "ready"
    finally:
        work.stop()


def test_a_worker_is_told_the_version_and_its_limits(keyed, tmp_path):
    url, told = copied(keyed, tmp_path / "store").url, []

    def noted(*arguments):
        told.append(arguments)
        return ["false"]

    work = Work(
        Task(0, "library", "keyed", keyed.version, url, 0, 1, 1 << 28, 1, (), str(tmp_path / "work")), "127.0.0.1", noted
    )
    try:
        work_bed.certify(work, tmp_path / "state")
        work_bed.eventually(work, lambda report: told)
    finally:
        work.stop()
    assert told[0][told[0].index("--snapshot-version") + 1] == keyed.version
    # The share has some kilobytes, and the worker 256 MiB.
    limits = [int(told[0][told[0].index(name) + 1]) for name in ("--request-memory", "--keys-memory")]
    assert 250 << 20 < sum(limits) <= 1 << 28


def test_the_coordinators_files_are_those_of_the_version(keyed, other, tmp_path):
    store, gateway = copied(keyed, tmp_path / "store"), Gateway(conf(tmp_path))
    hint = tmp_path / "store" / "hint.bin"
    shutil.copy(Path(os.fspath(other)) / "hint.bin", hint)
    gateway.prepare(keyed.version, store.url)
    work_bed.eventually(gateway, lambda report: report["folders"] or report["trouble"])
    report = gateway.report()
    assert not report["folders"] and "hint.bin" in report["trouble"]
    shutil.copy(Path(os.fspath(keyed)) / "hint.bin", hint)
    gateway.prepare(keyed.version, store.url)
    work_bed.eventually(gateway, lambda report: report["folders"] or not gateway.prepare(keyed.version, store.url))


def test_the_coordinator_takes_no_other_version_from_a_store(keyed, other, tmp_path):
    store, gateway = copied(other, tmp_path / "store"), Gateway(conf(tmp_path))
    gateway.prepare(keyed.version, store.url)
    work_bed.eventually(gateway, lambda report: report["folders"] or report["trouble"])
    assert not gateway.report()["folders"]


def test_a_damaged_version_is_fetched_ever_more_seldom(keyed, tmp_path, monkeypatch):
    store, gateway, pauses = copied(keyed, tmp_path / "store"), Gateway(conf(tmp_path)), []
    (tmp_path / "store" / "hint.rows").write_bytes(bytes((tmp_path / "store" / "hint.rows").stat().st_size))
    monkeypatch.setattr("spirea.cluster.gateway.time", SimpleNamespace(sleep=pauses.append))
    for _ in range(8):
        gateway.prepare(keyed.version, store.url)
        for thread in list(gateway._fetching.values()):
            thread.join(300)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    gateway.prepare(keyed.version, "nowhere://x")
    for thread in list(gateway._fetching.values()):
        thread.join(300)
    assert not gateway._fetching and "nowhere" in gateway.report()["trouble"]


@pytest.mark.parametrize("name", ["matrix.bin", "hint.bin", MANIFEST])
def test_links_in_a_store_are_not_written_through(keyed, tmp_path, name):
    victim, target = tmp_path / "victim", tmp_path / "store"
    victim.write_bytes(b"untouched")
    target.mkdir()
    for planted in (name, f"{name}.{os.getpid()}.partial", f"{name}.partial"):
        if name != MANIFEST or planted != name:
            (target / planted).symlink_to(victim)
    with contextlib.suppress(spirea.ClusterError):
        upload(Path(os.fspath(keyed)), Folder(str(target)))
    with contextlib.suppress(spirea.ClusterError):
        Folder(str(target)).write(name, b"evil")
    assert victim.read_bytes() == b"untouched"
    (tmp_path / "linked").symlink_to(victim.parent / "elsewhere")
    (victim.parent / "elsewhere").mkdir()
    with pytest.raises(spirea.ClusterError, match="link"):
        Folder(str(tmp_path / "linked")).write("part.arrow", b"evil")


def test_a_snapshot_may_be_named_by_a_link_of_the_operator(keyed, tmp_path):
    (tmp_path / "current").symlink_to(os.fspath(keyed))
    target = Folder(str(tmp_path / "store"))
    upload(tmp_path / "current", target)
    assert target.version() == keyed.version
