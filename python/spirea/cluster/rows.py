"""Builds a snapshot of Parquet files in an object store: Ray Data makes parts on all nodes, one builder reads them in order.

Every node reads and decodes Parquet, one row group at a time, and selects the columns of the table. One machine reads the
parts in order and builds. It needs the memory that docs/snapshots.md states, and disk for the spool and the snapshot. A
finished part has a note beside it. A snapshot stays on the machine that built it until it is in the store. So a second start
continues where the first one stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow
import pyarrow.parquet

from .._build import build
from ..errors import ClusterError, TableError
from .files import MANIFEST, Folder, shown, upload

Telling = Callable[[str, int, int], None]
_BATCH_ROWS = 1 << 14


@dataclass(frozen=True)
class Unit:
    """A row group of a file, which is made into a part."""

    number: int
    path: str
    group: int
    rows: int


@dataclass(frozen=True)
class Table:
    """A table in an object store: its row groups in order, and the selected columns."""

    url: str
    columns: tuple[str, ...]
    units: tuple[Unit, ...]
    name: str

    @classmethod
    def of(cls, url: str, key: str | None, values: Sequence[str]) -> Table:
        """Finds the Parquet files that match a URL with wildcards, or all in a folder, ordered by name.

        Raises `ClusterError` if there are none, `TableError` if a file lacks a column or has other types.
        """
        files, root = fsspec.core.url_to_fs(url)
        found = files.glob(root) if "*" in root else [root] if root.endswith(".parquet") else files.glob(f"{root}/*.parquet")
        if not found:
            raise ClusterError(
                f"{shown(url)}: there are no Parquet files; name a folder, or a pattern such as {shown(url)}/*.parquet"
            )
        columns = tuple(([] if key is None else [key]) + list(values))
        units: list[Unit] = []
        said = hashlib.blake2b(json.dumps(columns).encode(), digest_size=16)
        schema = None
        for path in sorted(found):
            with files.open(path, "rb") as file:
                parquet = pyarrow.parquet.ParquetFile(file)
                names = parquet.schema_arrow.names
                if missing := [column for column in columns if column not in names]:
                    raise TableError(f"{path}: there is no column {missing[0]}; it has {', '.join(names)}")
                own = pyarrow.schema([parquet.schema_arrow.field(column) for column in columns])
                if schema is not None and not schema.equals(own):
                    raise TableError(f"{path}: its columns have other types than those of the first file; write them alike")
                schema = own
                groups = [parquet.metadata.row_group(i).num_rows for i in range(parquet.metadata.num_row_groups)]
            info = files.info(path)
            # Detects changed files by the store's tag, or by the time of the last change.
            tag = info.get("ETag") or info.get("mtime") or info.get("created")
            said.update(json.dumps([path, info["size"], str(tag), groups]).encode())
            units += [Unit(len(units) + i, path, i, rows) for i, rows in enumerate(groups)]
        return cls(url, columns, tuple(units), said.hexdigest())


def _part(number: int) -> str:
    return f"part-{number:06}.arrow"


def _note(number: int) -> str:
    return f"part-{number:06}.json"


def make_part(unit: Unit, table_url: str, columns: Sequence[str], parts: str) -> dict[str, int]:
    """Reads a row group and writes its part, then its note: a note means that its part is complete."""
    files, _ = fsspec.core.url_to_fs(table_url)
    with files.open(unit.path, "rb") as file:
        group = pyarrow.parquet.ParquetFile(file).read_row_group(unit.group, columns=list(columns)).select(list(columns))
    if group.num_rows != unit.rows:
        raise ClusterError(f"{unit.path}: it has changed since the build began; start again")
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, group.schema) as writer:
        writer.write_table(group, max_chunksize=_BATCH_ROWS)
    content = sink.getvalue()
    folder = Folder(parts)
    folder.write(_part(unit.number), content)
    note = {"rows": group.num_rows, "bytes": len(content), "blake2b": hashlib.blake2b(content).hexdigest()}
    folder.write(_note(unit.number), json.dumps(note | asdict(unit)).encode())
    return {"rows": group.num_rows, "bytes": len(content)}


def make_parts(table: Table, parts: Folder, telling: Telling) -> int:
    """Makes the missing parts, on all nodes of the connected Ray cluster. Returns the number of parts made."""
    import ray

    noted = {name for name, _ in parts.names()}
    left = [unit for unit in table.units if _note(unit.number) not in noted]
    done, of = len(table.units) - len(left), len(table.units)
    telling("parts", done, of)
    if not left:
        return 0
    ray.data.DataContext.get_current().enable_progress_bars = False
    url, columns, folder = table.url, table.columns, parts.url

    def made(row: dict[str, Any]) -> dict[str, int]:
        return make_part(Unit(**row), url, columns, folder)

    rows = ray.data.from_items([asdict(unit) for unit in left], override_num_blocks=len(left))
    for _ in rows.map(made).iter_rows():
        done += 1
        telling("parts", done, of)
    return len(left)


class Parts:
    """The parts of a table in order, as a stream of Arrow batches that can be read repeatedly."""

    def __init__(self, table: Table, parts: Folder) -> None:
        self._table, self._parts = table, parts
        self.schema = self._reader(0).schema

    def __len__(self) -> int:
        return sum(unit.rows for unit in self._table.units)

    def _reader(self, number: int) -> Any:
        noted = json.loads(self._parts.read(_note(number)))
        content = self._parts.head(_part(number), noted["bytes"])
        if hashlib.blake2b(content).hexdigest() != noted["blake2b"]:
            raise ClusterError(f"{self._parts}/{_part(number)}: it is damaged; remove it and its note, and start again")
        return pyarrow.ipc.open_stream(content)

    def _batches(self) -> Iterator[Any]:
        for unit in self._table.units:
            reader = self._reader(unit.number)
            if not reader.schema.equals(self.schema):
                place = f"{self._parts}/{_part(unit.number)}"
                raise TableError(f"{place}: its columns differ from those of the first part; remove the parts and build again")
            for batch in reader:
                # An Arrow capsule carries no buffer lengths, so the builder cannot validate the batch.
                batch.validate(full=True)
                yield batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pyarrow.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)


def build_from_store(
    url: str,
    store: Folder,
    scratch: Path,
    *,
    name: str,
    key: str | None,
    values: Sequence[str],
    telling: Telling = lambda phase, done, of: None,
    **options: Any,
) -> tuple[str, str]:
    """Builds a snapshot of Parquet files into a store. Returns its version and its URL. `options` are those of `build`.

    An interrupted build continues with the parts that exist, or with the snapshot if it was built. The parts and the local
    snapshot are removed when the snapshot is in the store.

    Raises `ClusterError`, `BuildError`.
    """
    table = Table.of(url, key, values)
    parts = store.inner(f"{name}/parts-{table.name}")
    scratch.mkdir(parents=True, exist_ok=True)
    asked = hashlib.blake2b(json.dumps([table.name, key, options], sort_keys=True).encode(), digest_size=16)
    out = scratch / f"{name}-{asked.hexdigest()}"
    with (scratch / f".{out.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ClusterError(f"{out}: another build of the same table goes on; wait for it") from error
        if not (out / MANIFEST).exists():
            make_parts(table, parts, telling)
            for left in scratch.glob(f".{out.name}.partial-*"):
                shutil.rmtree(left)
            build(Parts(table, parts), out, key=key, value=list(values), name=name, progress=telling, **options)
        version = Folder(str(out)).version()
        target = store.inner(f"{name}/{version}")
        upload(out, target, lambda done, of: telling("copy to the store", done, of))
        if parts.names():
            parts.files.rm(parts.root, recursive=True)
        shutil.rmtree(out)
    return version, target.url
