"""Snapshots: built tables, each a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from typing import Any

from . import _spirea


class Folder:
    """A temporary folder, removed with this object. Only the process that created it removes it: a fork copies the object, not
    the folder."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="spirea-")
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class Snapshot(os.PathLike[str]):
    """A built table: a folder that `spirea serve` and `Server` serve."""

    def __init__(self, inner: _spirea.Snapshot, folder: Folder | None = None) -> None:
        self._inner, self._folder = inner, folder

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        servers = f"{self.servers} servers" if self.servers > 1 else "one server"
        return f"<Snapshot {self.name!r}: {self.rows} rows, {self.protocol}, {servers}, {self.path}>"

    @property
    def path(self) -> str:
        """The snapshot's folder. A temporary folder is removed with this object."""
        return self._inner.path

    @property
    def name(self) -> str:
        """The database's name, for servers and clients."""
        return self._inner.name

    @property
    def version(self) -> str:
        """The snapshot's hash, in hexadecimal."""
        return self._inner.version

    @property
    def keyed(self) -> bool:
        """True if the table is looked up by key, False if by position."""
        return self._inner.keyed

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return self._inner.rows

    @property
    def records(self) -> int:
        """Number of records that hold the rows."""
        return self._inner.records

    @property
    def record_bytes(self) -> int:
        """Size of a record in bytes."""
        return self._inner.record_bytes

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a value's fields."""
        return tuple(self._inner.fields)

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the fields; empty if the table does not have them."""
        return tuple(self._inner.types)

    @property
    def protocol(self) -> str:
        """The table's protocol."""
        return self._inner.protocol

    @property
    def servers(self) -> int:
        """Number of servers of the protocol: 1 or 2. Two servers must not work together."""
        return self._inner.servers

    @property
    def bins(self) -> int:
        """Number of bins; a fetch brings one record of each bin."""
        return self._inner.bins

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of the manifest."""
        manifest: dict[str, Any] = json.loads(self._inner.manifest)
        return manifest


def open_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Opens the snapshot in a folder. Reads only the manifest; a server verifies the other files when it loads them.

    Raises `BuildError` if there is no manifest, or if it is damaged.
    """
    return Snapshot(_spirea.Snapshot.open(os.fspath(path)))
