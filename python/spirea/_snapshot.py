"""Snapshots: tables that are built, each a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from typing import Any

from . import _spirea


class Folder:
    """A temporary folder that goes with this object, in the process that made it: a fork copies the object, not the folder."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="spirea-")
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class Snapshot(os.PathLike[str]):
    """A table that is built: a folder that `spirea serve` and `Server` serve."""

    def __init__(self, inner: _spirea.Snapshot, folder: Folder | None = None) -> None:
        self._inner, self._folder = inner, folder

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        servers = f"{self.servers} servers" if self.servers > 1 else "one server"
        return f"<Snapshot {self.name!r}: {self.rows} rows, {self.protocol}, {servers}, {self.path}>"

    @property
    def path(self) -> str:
        """Its folder. One that `build` was not told is removed with this object."""
        return self._inner.path

    @property
    def name(self) -> str:
        """What servers and clients call it."""
        return self._inner.name

    @property
    def version(self) -> str:
        """Its hash, in hexadecimal."""
        return self._inner.version

    @property
    def keyed(self) -> bool:
        """Whether it is looked up by key; otherwise by position."""
        return self._inner.keyed

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return self._inner.rows

    @property
    def records(self) -> int:
        """Records that hold them."""
        return self._inner.records

    @property
    def record_bytes(self) -> int:
        """Bytes of a record."""
        return self._inner.record_bytes

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a value's fields."""
        return tuple(self._inner.fields)

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the fields; none if the table does not tell them."""
        return tuple(self._inner.types)

    @property
    def protocol(self) -> str:
        """Its protocol."""
        return self._inner.protocol

    @property
    def servers(self) -> int:
        """Servers that its protocol has, which must not work together: 1 or 2."""
        return self._inner.servers

    @property
    def bins(self) -> int:
        """Bins of which a fetch brings a record each."""
        return self._inner.bins

    @property
    def manifest(self) -> dict[str, Any]:
        """All that its manifest says."""
        manifest: dict[str, Any] = json.loads(self._inner.manifest)
        return manifest


def open_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a folder. Its manifest is read alone: whether the other files are what it says, a server looks that is
    given them.

    Raises `BuildError` if there is no manifest, or if it is damaged.
    """
    return Snapshot(_spirea.Snapshot.open(os.fspath(path)))
