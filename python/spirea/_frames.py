"""Data frames of several optional libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from . import _spirea
from ._columns import column_of
from ._table import source_of
from .errors import OptionError, TableError

if TYPE_CHECKING:
    from ._records import Record, Records
    from ._text import Key

_Frame = TypeVar("_Frame")


def _kind(frame: Any) -> str:
    kind = type(frame).__module__.partition(".")[0]
    if kind not in ("pandas", "polars", "pyarrow"):
        raise OptionError(f"a {type(frame).__name__} is no data frame of pandas, polars or pyarrow")
    return kind


def keys_of_column(frame: Any, on: str) -> list[Key | None]:
    """Returns the keys in a column; `None` for a missing key."""
    names = frame.column_names if _kind(frame) == "pyarrow" else list(frame.columns)
    if on not in names:
        raise OptionError(f"no column {on!r}; there are {', '.join(map(repr, names))}")
    if _kind(frame) != "pandas":
        # Reads the column with its own type: Python's objects would lose nanoseconds.
        return _typed_keys(frame, on)
    keys = [None if _is_missing(cell) else cell for cell in frame[on].to_list()]
    for row, key in enumerate(keys, 1):
        if isinstance(key, float):
            # The message omits the key, which is secret.
            raise OptionError(f"column {on!r}: row {row} has a {type(key).__name__}: keys are text, bytes or integers")
    return keys


def _typed_keys(frame: Any, on: str) -> list[Key | None]:
    source, _ = source_of(frame.select([on]), on, (), {})
    try:
        return list(_spirea.keys_of(source, on))
    except TableError as error:
        raise OptionError(str(error)) from None


def _is_missing(cell: Any) -> bool:
    """True if a cell is one of pandas' nulls: `None`, NaN, `NA` or `NaT`."""
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType")


def asked_of(keys: list[Key | None]) -> list[Key]:
    """Returns the keys to look up, one for each row: the servers must not learn the number of missing keys."""
    return ["" if key is None else key for key in keys]


def matched(keys: list[Key | None], records: Records) -> list[Record | None]:
    """Returns the record of each key; `None` where the key is missing."""
    return [None if key is None else record for key, record in zip(keys, records, strict=True)]


def joined(
    frame: _Frame, records: list[Record | None], fields: tuple[str, ...], types: tuple[str, ...], encoding: str | None
) -> _Frame:
    """Returns the frame with a further column for each field."""

    table: Any = frame
    kind = _kind(frame)
    names = table.column_names if kind == "pyarrow" else list(table.columns)
    if twice := sorted(set(names) & set(fields)):
        raise OptionError(f"the frame has columns {', '.join(map(repr, twice))} already; rename them")
    columns = {}
    for place, field in enumerate(fields):
        cells = [None if record is None else record[field] for record in records]
        if encoding is None:
            columns[field] = column_of(kind, "bytes", cells)
        elif types:
            columns[field] = column_of(kind, types[place], cells)
        else:
            columns[field] = column_of(kind, "text", _recoded(field, cells, encoding))
    match kind:
        case "pandas":
            return table.assign(**{field: column.set_axis(table.index) for field, column in columns.items()})  # type: ignore[no-any-return]
        case "polars":
            return table.with_columns(**columns)  # type: ignore[no-any-return]
        case _:
            for field, column in columns.items():
                table = table.append_column(field, column)
            return table  # type: ignore[no-any-return]


def _recoded(field: str, cells: list[bytes | None], encoding: str) -> list[bytes | None]:
    """Converts cells from `encoding` to UTF-8."""
    try:
        return [None if cell is None else cell.decode(encoding).encode() for cell in cells]
    except UnicodeDecodeError:
        # The message omits the value, which would reveal the key.
        raise OptionError(f"the field {field!r} has values that are not {encoding}: join with encoding=None") from None
