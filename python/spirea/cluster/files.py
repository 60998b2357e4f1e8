"""Snapshots in a shared path or an object store: their manifests, the files of a share, downloads and uploads."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from .. import _spirea
from ..errors import ClusterError
from . import local

MANIFEST = "manifest.json"
SIGNATURE = "signature.json"
GROUPS = "matrix.groups"
_PIECE = 16 << 20
"""Bytes of one fetch, which is noted when it is complete."""
_PARALLEL = 8
_SMALL = 4 << 20
"""Most bytes of a file that is read whole: a manifest, a signature or a note."""
NOTES = "fetched.txt"
"""File that lists the fetched pieces."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Wanted:
    """The needed parts of a file: the file's length, and ranges of bytes (start, and end, which is excluded)."""

    path: str
    size: int
    ranges: tuple[tuple[int, int], ...]
    optional: bool = False

    def __post_init__(self) -> None:
        local.component(self.path)

    def bytes(self) -> int:
        """Returns the bytes of all ranges."""
        return sum(end - start for start, end in self.ranges)


@dataclass(frozen=True)
class Manifest:
    """A snapshot's manifest: its bytes, read once, and their verified content."""

    content: bytes
    verified: _spirea.Manifest

    @classmethod
    def of(cls, content: bytes, place: str) -> Manifest:
        """Verifies a manifest's bytes.

        Raises `ClusterError`, which names the place.
        """
        try:
            return cls(content, _spirea.Manifest.parse(content))
        except ClusterError as error:
            raise ClusterError(f"{place}/{MANIFEST}: {error}; build or publish the snapshot again") from error

    @property
    def version(self) -> str:
        """The snapshot's version, in 64 hexadecimal digits."""
        return self.verified.version

    @property
    def entries(self) -> int:
        """Number of values of the table, or of its rows if it has no keys."""
        return self.verified.entries

    def share(self, share: int, shards: int) -> tuple[Wanted, ...]:
        """Returns the files that the worker of a share needs beside the manifest."""
        return tuple(
            Wanted(path, size, tuple(ranges), optional)
            for path, size, ranges, optional in self.verified.share_files(share, shards)
        )

    def beside_matrix(self) -> tuple[Wanted, ...]:
        """Returns the files that the coordinator needs beside the manifest: all but the database."""
        return tuple(Wanted(path, size, ((0, size),)) for path, size in self.verified.coordinator_files())


def shown(url: str) -> str:
    """Returns a URL without the parts before an @ and after a ?, which may be secret."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    place, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


_USER = re.compile(r"(\w://)[^/\s'\"]*@")
_QUERY = re.compile(r"(\w://[^\s'\"?]+)\?[^\s'\"]*")


def masked(text: str) -> str:
    """Removes secret parts of URLs from a foreign text, such as an error of a store."""
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


class Folder:
    """A folder, given by its path or URL: `/srv/words`, `s3://bucket/words`, `gs://bucket/words`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise ClusterError(f"{shown(url)}: {masked(str(error))}") from error
        self._is_local = isinstance(self._files, fsspec.get_filesystem_class("file"))
        # A cached listing would hide files that another node has added.
        self._files.use_listings_cache = False

    def __str__(self) -> str:
        return shown(self.url)

    def inner(self, name: str) -> Folder:
        """Returns a folder inside this one. `name` is one name, or several separated by slashes.

        Raises `ClusterError` for an invalid name.
        """
        return Folder("/".join([self.url, *map(local.component, name.split("/"))]))

    @property
    def root(self) -> str:
        """Path of the folder in its file system."""
        return str(self._root)

    def path(self, name: str) -> str:
        """Returns a file's path in the file system.

        Raises `ClusterError` if the name is not a single component.
        """
        return posixpath.join(self._root, local.component(name))

    @property
    def files(self) -> Any:
        """File system of the folder."""
        return self._files

    def exists(self, name: str) -> bool:
        """True if the folder has a file of this name."""
        self._files.invalidate_cache()
        return bool(self._files.exists(self.path(name)))

    def read(self, name: str) -> bytes:
        """Reads a small file.

        Raises `ClusterError` if it cannot be read, or is larger than a small file.
        """
        content = self.head(name, _SMALL + 1)
        if len(content) > _SMALL:
            raise ClusterError(f"{self}/{name}: it is longer than {_SMALL} bytes, so it is not a snapshot's; publish it again")
        return content

    def head(self, name: str, most: int) -> bytes:
        """Reads the first `most` bytes of a file, or all of a shorter one.

        Raises `ClusterError` if it cannot be read.
        """
        return self._bytes(name, 0, most)

    def _bytes(self, name: str, start: int, end: int) -> bytes:
        """Reads a range of a file, or less if the file ends before.

        Raises `ClusterError`.
        """
        path = self.path(name)
        try:
            if self._is_local:
                # The file system's own call would follow a symbolic link, and wait for the writer of a FIFO.
                with os.fdopen(local.open_path(path, os.O_RDONLY), "rb") as file:
                    file.seek(start)
                    return file.read(end - start)
            content: bytes = self._files.cat_file(path, start=start, end=end)
        except OSError as error:
            raise ClusterError(f"{self}/{name}: it cannot be read: {masked(str(error))}") from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """Writes a small file atomically."""
        path = self.path(name)
        with contextlib.suppress(OSError, NotImplementedError):
            self._files.makedirs(posixpath.dirname(path), exist_ok=True)
        if self._is_local:
            local.write(Path(self._root), name, content)
        else:
            self._files.pipe_file(path, content)

    def put(self, name: str, descriptor: int) -> None:
        """Copies an open file of this machine into the folder."""
        if self._is_local:
            local.copy(Path(self._root), name, descriptor)
        else:
            self._files.put_file(f"/proc/self/fd/{descriptor}", self.path(name))

    def names(self) -> list[tuple[str, int]]:
        """Returns the names of the files in the folder, and their lengths."""
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
        """Reads a range of bytes of a file.

        Raises `ClusterError` if the file is shorter or cannot be read.
        """
        content = self._bytes(name, start, end)
        if len(content) != end - start:
            raise ClusterError(f"{self}/{name}: it ends before byte {end}; publish the snapshot again")
        return content

    def manifest(self) -> Manifest:
        """Reads and verifies the manifest of the snapshot in the folder.

        Raises `ClusterError` if there is none, or if it is damaged.
        """
        if not self.exists(MANIFEST):
            raise ClusterError(f"{self}: there is no {MANIFEST}, so this is no snapshot; give the folder that has it")
        return Manifest.of(self.read(MANIFEST), str(self))

    def published(self, version: str) -> Manifest:
        """Reads and verifies the manifest of the snapshot in the folder.

        Raises `ClusterError`, also if the snapshot has another version.
        """
        manifest = self.manifest()
        if manifest.version != version:
            raise ClusterError(
                f"{self}: it has version {manifest.version[:16]}, not {version[:16]}; "
                "publish each version in a folder of its own"
            )
        return manifest

    def version(self) -> str:
        """Returns the version of the snapshot in the folder.

        Raises `ClusterError` if there is none.
        """
        return self.manifest().version


Piece = tuple[str, int, int]
"""A file's name, and a range of its bytes."""


def _pieces(file: Wanted) -> list[Piece]:
    return [(file.path, at, min(at + _PIECE, end)) for start, end in file.ranges for at in range(start, end, _PIECE)]


def _noted(folder: int) -> set[str]:
    """Returns the notes of fetched pieces, one a line of the file."""
    try:
        with os.fdopen(local.open_in(folder, NOTES, os.O_RDONLY), encoding="ascii") as notes:
            return set(notes.read().splitlines())
    except FileNotFoundError:
        return set()


def _line(piece: Piece) -> str:
    return " ".join(map(str, piece))


def _left(folder: int, files: Iterable[Wanted]) -> dict[Wanted, list[Piece]]:
    """Returns the files that are not complete under their final names, and the pieces that each lacks."""
    noted, left = _noted(folder), {}
    for file in files:
        pieces = _pieces(file)
        lacking = [piece for piece in pieces if _line(piece) not in noted]
        if not lacking and local.is_whole(folder, file.path, file.size):
            continue
        # Notes are void if neither the file nor its partial form is there.
        left[file] = lacking if local.is_whole(folder, file.path + local.PARTIAL, file.size) else pieces
    return left


def fetch(source: Folder, files: Iterable[Wanted], into: Path, progress: Progress = lambda done, of: None) -> int:
    """Fetches ranges of files into files of the same names and lengths, which have holes elsewhere.

    Pieces of an interrupted fetch are kept. A file has a temporary name until it is complete. Returns the number of bytes that
    this call has fetched.

    Raises `ClusterError`.
    """
    into.mkdir(parents=True, exist_ok=True)
    present = [file for file in files if not file.optional or source.exists(file.path)]
    with local.opened_folder(into) as folder:
        total = sum(file.bytes() for file in present)
        names = [name for file in present for name in (file.path, file.path + local.PARTIAL)]
        _room(into, total - sum(local.allocated(folder, name) for name in names))
        left = _left(folder, present)
        for file in left:
            # Unlinks a damaged file before it is fetched again; a program that has mapped the file keeps its mapping.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.path, dir_fd=folder)
        pieces = [piece for lacking in left.values() for piece in lacking]
        fetched = sum(end - start for _, start, end in pieces)
        _bring(source, folder, left, lambda now: progress(total - fetched + now, total))
        for file in left:
            local.rename(folder, file.path + local.PARTIAL, file.path)
    return fetched


def _bring(source: Folder, folder: int, left: dict[Wanted, list[Piece]], fetched: Callable[[int], None]) -> None:
    """Fetches pieces of files in parallel, and notes each one."""
    with contextlib.ExitStack() as stack:
        opened: dict[str, int] = {}
        for file in left:
            descriptor = local.open_in(folder, file.path + local.PARTIAL, os.O_RDWR | os.O_CREAT)
            stack.callback(os.close, descriptor)
            os.ftruncate(descriptor, file.size)
            opened[file.path] = descriptor
        pool = stack.enter_context(ThreadPoolExecutor(_PARALLEL))
        notes = local.open_in(folder, NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        log = stack.enter_context(os.fdopen(notes, "a", encoding="ascii"))

        def bring(piece: Piece) -> Piece:
            path, start, end = piece
            content, at = memoryview(source.piece(path, start, end)), start
            while at < end:
                at += os.pwrite(opened[path], content[at - start :], at)
            return piece

        done = 0
        fetched(done)
        for piece in pool.map(bring, [piece for lacking in left.values() for piece in lacking]):
            # The piece is synced before it is noted, so that a crash cannot leave a note without its piece.
            os.fsync(opened[piece[0]])
            log.write(_line(piece) + "\n")
            log.flush()
            done += piece[2] - piece[1]
            fetched(done)
        for descriptor in opened.values():
            os.fsync(descriptor)


def _room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ClusterError(f"{folder}: {needed} bytes are needed and {free} are free; make room, or set work elsewhere")


def upload(folder: Path, target: Folder, progress: Progress = lambda done, of: None) -> int:
    """Copies the files of a snapshot into a store, in parallel.

    Files that are there with the same length are kept. The manifest is copied last, so a folder with a manifest is complete.
    Returns the number of bytes copied.

    Raises `ClusterError`.
    """
    with contextlib.ExitStack() as stack:
        # The folder's path comes from the operator and may be a link. Names inside the folder are untrusted.
        within = stack.enter_context(local.opened_folder(folder.resolve()))
        manifest = Manifest.of(_content(within, MANIFEST), str(folder))
        opened = dict(_opened(stack, within, manifest))
        if target.exists(MANIFEST):
            target.published(manifest.version)
            return 0
        found = dict(target.names())
        sizes = {name: os.fstat(descriptor).st_size for name, descriptor in opened.items()}
        total, done, copied = sum(sizes.values()) + len(manifest.content), 0, 0
        with contextlib.suppress(OSError, NotImplementedError):
            target.files.makedirs(target.root, exist_ok=True)

        def put(name: str) -> tuple[int, int]:
            if found.get(name) == sizes[name]:
                return sizes[name], 0
            try:
                target.put(name, opened[name])
            except OSError as error:
                raise ClusterError(f"{target}/{name}: it cannot be written: {masked(str(error))}") from error
            return sizes[name], sizes[name]

        with ThreadPoolExecutor(_PARALLEL) as pool:
            for size, new in pool.map(put, opened):
                done, copied = done + size, copied + new
                progress(done, total)
        target.write(MANIFEST, manifest.content)
        progress(total, total)
    return copied + len(manifest.content)


def _content(folder: int, name: str) -> bytes:
    """Reads a small file of an open folder.

    Raises `ClusterError`.
    """
    try:
        with os.fdopen(local.open_in(folder, name, os.O_RDONLY), "rb") as file:
            content = file.read(_SMALL + 1)
    except FileNotFoundError as error:
        raise ClusterError(f"{name}: there is no such file, so this is no snapshot; give the folder that has it") from error
    if len(content) > _SMALL:
        raise ClusterError(f"{name}: it is longer than {_SMALL} bytes, so this is no snapshot; build the snapshot again")
    return content


def _opened(stack: contextlib.ExitStack, folder: int, manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Opens the files of a snapshot other than its manifest: the files that the manifest names, and the optional ones.

    Raises `ClusterError` for a file that is absent, a link, or has another length than the manifest says.
    """
    for name, size in [*manifest.verified.files, (SIGNATURE, None), (GROUPS, None)]:
        try:
            descriptor = local.open_in(folder, name, os.O_RDONLY)
        except FileNotFoundError as error:
            if size is None:
                continue
            raise ClusterError(f"{name}: the manifest names it and it is not there; build the snapshot again") from error
        stack.callback(os.close, descriptor)
        found = os.fstat(descriptor).st_size
        if size not in (None, found):
            raise ClusterError(f"{name}: it has {found} bytes where the manifest says {size}; build the snapshot again")
        yield name, descriptor
