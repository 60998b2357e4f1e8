"""Snapshots in a shared path or an object store: what is there, what a share needs of it, and how it gets to a node."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from ..errors import ClusterError

MANIFEST = "manifest.json"
MATRIX = "matrix.bin"
_PIECE = 16 << 20
"""Bytes that are fetched, and noted as fetched, at once."""
_PARALLEL = 8
NOTES = "fetched.txt"
"""What says which pieces were fetched."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Wanted:
    """What is needed of a file: its length, and ranges of its bytes, from and up to."""

    path: str
    size: int
    ranges: tuple[tuple[int, int], ...]
    optional: bool = False

    @classmethod
    def all_of(cls, said: str) -> tuple[Wanted, ...]:
        """What `spirea worker-files --json` says."""
        files = json.loads(said)["files"]
        return tuple(
            cls(file["path"], file["size"], tuple((a, b) for a, b in file["ranges"]), file.get("optional", False))
            for file in files
        )

    def bytes(self) -> int:
        """Bytes of all ranges."""
        return sum(end - start for start, end in self.ranges)


def shown(url: str) -> str:
    """A URL as it may be shown: what stands before an @ or behind a ? may be a secret."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    place, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


class Folder:
    """A folder by its path or URL: `/srv/words`, `s3://bucket/words`, `gs://bucket/words`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise ClusterError(f"{shown(url)}: {error}") from error
        # What is remembered of a folder would hide what another node has put there.
        self._files.use_listings_cache = False

    def __str__(self) -> str:
        return shown(self.url)

    def inner(self, name: str) -> Folder:
        """A folder in it."""
        return Folder(f"{self.url}/{name}")

    def path(self, name: str) -> str:
        """A file's path, as its file system has it."""
        return posixpath.join(self._root, name)

    @property
    def files(self) -> Any:
        """The file system."""
        return self._files

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        self._files.invalidate_cache()
        return bool(self._files.exists(self.path(name)))

    def read(self, name: str) -> bytes:
        """A small file.

        Raises `ClusterError` if it cannot be read.
        """
        try:
            content: bytes = self._files.cat_file(self.path(name))
        except OSError as error:
            raise ClusterError(f"{self}/{name}: it cannot be read: {error}") from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """A small file, there as a whole or not at all."""
        path = self.path(name)
        with contextlib.suppress(OSError, NotImplementedError):
            self._files.makedirs(posixpath.dirname(path), exist_ok=True)
        if isinstance(self._files, fsspec.get_filesystem_class("file")):
            partial = f"{path}.{os.getpid()}.partial"
            Path(partial).write_bytes(content)
            os.rename(partial, path)
        else:
            self._files.pipe_file(path, content)

    def names(self) -> list[tuple[str, int]]:
        """The files in it, and their lengths."""
        self._files.invalidate_cache()
        try:
            found = self._files.ls(self._root, detail=True)
        except FileNotFoundError:
            return []
        return sorted(
            (posixpath.basename(entry["name"].rstrip("/")), int(entry["size"] or 0))
            for entry in found
            if entry["type"] == "file"
        )

    def piece(self, name: str, start: int, end: int) -> bytes:
        """Bytes of a file.

        Raises `ClusterError` if there are fewer.
        """
        try:
            content: bytes = self._files.cat_file(self.path(name), start=start, end=end)
        except OSError as error:
            raise ClusterError(f"{self}/{name}: it cannot be read: {error}") from error
        if len(content) != end - start:
            raise ClusterError(f"{self}/{name}: it ends before byte {end}; publish the snapshot again")
        return content

    def version(self) -> str:
        """The version of the snapshot in it.

        Raises `ClusterError` if there is none.
        """
        if not self.exists(MANIFEST):
            raise ClusterError(f"{self}: there is no {MANIFEST}, so this is no snapshot; give the folder that has it")
        try:
            version = json.loads(self.read(MANIFEST))["blake3"]
        except (ValueError, KeyError, TypeError) as error:
            raise ClusterError(f"{self}/{MANIFEST}: it is damaged; build or publish the snapshot again") from error
        return str(version)


def _pieces(files: Iterable[Wanted]) -> list[tuple[str, int, int]]:
    found = []
    for file in files:
        for start, end in file.ranges:
            found += [(file.path, at, min(at + _PIECE, end)) for at in range(start, end, _PIECE)]
    return found


def fetch(source: Folder, files: Iterable[Wanted], into: Path, progress: Progress = lambda done, of: None) -> int:
    """Fetches ranges of files into files of the same names and lengths, which have holes elsewhere; what is there from a
    fetch that was cut off stays. Returns the bytes that were fetched now.

    Raises `ClusterError`.
    """
    into.mkdir(parents=True, exist_ok=True)
    present = [file for file in files if not file.optional or source.exists(file.path)]
    notes = into / NOTES
    noted = set(notes.read_text(encoding="ascii").splitlines()) if notes.exists() else set()
    total = sum(file.bytes() for file in present)
    _room(into, total - sum(_allocated(into / file.path) for file in present))
    pieces = [piece for piece in _pieces(present) if " ".join(map(str, piece)) not in noted]
    done, fetched = total - sum(end - start for _, start, end in pieces), 0
    with contextlib.ExitStack() as stack:
        opened: dict[str, int] = {}
        for file in present:
            descriptor = os.open(into / file.path, os.O_RDWR | os.O_CREAT, 0o644)
            stack.callback(os.close, descriptor)
            if os.fstat(descriptor).st_size != file.size:
                os.ftruncate(descriptor, file.size)
            opened[file.path] = descriptor
        pool = stack.enter_context(ThreadPoolExecutor(_PARALLEL))
        log = stack.enter_context(notes.open("a", encoding="ascii"))

        def bring(piece: tuple[str, int, int]) -> tuple[str, int, int]:
            path, start, end = piece
            content, at = memoryview(source.piece(path, start, end)), start
            while at < end:
                at += os.pwrite(opened[path], content[at - start :], at)
            return piece

        progress(done, total)
        for piece in pool.map(bring, pieces):
            # The piece is on disk before it is noted: a machine that fails shall not leave a note without it.
            os.fsync(opened[piece[0]])
            log.write(" ".join(map(str, piece)) + "\n")
            log.flush()
            done += piece[2] - piece[1]
            fetched += piece[2] - piece[1]
            progress(done, total)
    return fetched


def _allocated(path: Path) -> int:
    """Bytes that a file has on disk, which holes have not."""
    return path.stat().st_blocks * 512 if path.exists() else 0


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ClusterError(f"{folder}: {needed} bytes are needed and {free} are free; make room, or set work elsewhere")


def all_but_matrix(source: Folder) -> tuple[Wanted, ...]:
    """What the coordinator needs of a snapshot: all of its files but the database."""
    return tuple(Wanted(name, size, ((0, size),)) for name, size in source.names() if name != MATRIX)


def upload(folder: Path, target: Folder, progress: Progress = lambda done, of: None) -> int:
    """Copies a snapshot into a store, several files at a time; what is there with the same length stays. The manifest comes
    last: a folder that has one is complete. Returns the bytes that were copied.

    Raises `ClusterError`.
    """
    if target.exists(MANIFEST):
        return 0
    found = dict(target.names())
    local = [(path, path.stat().st_size) for path in folder.iterdir() if path.is_file()]
    total, done, copied = sum(size for _, size in local), 0, 0
    with contextlib.suppress(OSError, NotImplementedError):
        target.files.makedirs(target.path("").rstrip("/"), exist_ok=True)

    def put(entry: tuple[Path, int]) -> tuple[int, int]:
        path, size = entry
        if found.get(path.name) == size:
            return size, 0
        try:
            target.files.put_file(str(path), target.path(path.name))
        except OSError as error:
            raise ClusterError(f"{target}/{path.name}: it cannot be written: {error}") from error
        return size, size

    with ThreadPoolExecutor(_PARALLEL) as pool:
        for last in (False, True):
            for size, new in pool.map(put, [entry for entry in local if (entry[0].name == MANIFEST) == last]):
                done, copied = done + size, copied + new
                progress(done, total)
    return copied
