"""Sources of tables: data frames, arrays, mappings and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import _spirea
from .errors import OptionError, TableError


def arguments_of(options: Mapping[str, Any]) -> list[str]:
    """Returns options as arguments of the command."""
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif isinstance(value, list):
            arguments += [f"{flag}={item}" for item in value]
        elif value is not None and value is not False:
            arguments.append(f"{flag}={value}")
    return arguments


def source_of(
    table: Any,
    key: str | None,
    value: str | Sequence[str] | None,
    said: Mapping[str, Any],
) -> tuple[_spirea.Source, list[str]]:
    """Returns the rows of a table and the names of its value columns; no names for rows without columns.

    `said` has the options for reading files.
    """
    wanted = [value] if isinstance(value, str) else None if value is None else list(value)
    for column in ([] if key is None else [key]) + (wanted or []):
        if not isinstance(column, str):
            raise OptionError(f"columns are named by text, such as {str(column)!r}: not by {column!r}")
    if (paths := _paths(table)) is not None:
        return _spirea.Source.files(paths, arguments_of(said)), wanted or []
    if given := [name for name, option in said.items() if option is not None and option is not False]:
        raise OptionError(f"{given[0]} belongs to tables in files")
    table, name = _with_columns(table), type(table).__name__
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(table, numpy.ndarray):
        if key is not None or wanted is not None:
            raise OptionError(
                "an array has no named columns: leave key and value away, the table is by position; or give columns by "
                'their names, such as {"key": keys, "value": array}'
            )
        if table.dtype.kind not in "UT":
            return _rows_of_array(numpy, table), []
        table, wanted = _column_of_text(table), ["value"]
    if not hasattr(table, "__arrow_c_stream__"):
        raise OptionError(
            f"a {name} is no table: give a data frame of pandas or polars, a pyarrow table, a numpy array, a mapping of "
            "columns by their names, or the paths of files"
        )
    columns = _columns(table)
    if wanted is None:
        wanted = [column for column in dict.fromkeys(columns or []) if column != key]
        if not wanted and key is None:
            raise OptionError("name at least one column of values with value")
    chosen = ([] if key is None else [key]) + wanted
    rows = len(table) if hasattr(table, "__len__") else 0
    return _spirea.Source.stream(_validated(_chosen(table, columns, chosen)), name, rows), wanted


def _paths(table: Any) -> list[str] | None:
    """Returns the paths of a table in files; `None` for other tables."""
    paths = [table] if isinstance(table, (str, os.PathLike)) else table
    if not isinstance(paths, (list, tuple)) or not paths:
        return None
    return [os.fspath(path) for path in paths] if all(isinstance(path, (str, os.PathLike)) for path in paths) else None


class _Validated:
    """Batches of pyarrow, each validated before export. An Arrow capsule carries no buffer lengths, so the receiver cannot
    validate them."""

    def __init__(self, reader: Callable[[], Any]) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow

        reader = self._reader()
        return pyarrow.RecordBatchReader.from_batches(reader.schema, _batches(reader)).__arrow_c_stream__(requested_schema)


def _batches(reader: Any) -> Iterator[Any]:
    for batch in reader:
        if not batch.schema.equals(reader.schema):
            raise TableError("its batches have columns of different types; give all of them one schema")
        batch.validate(full=True)
        yield batch


def _validated(table: Any) -> Any:
    """Wraps a table of pandas or pyarrow so that its batches are validated. Other producers' buffer lengths are unknown."""
    module = type(table).__module__.partition(".")[0]
    pyarrow = sys.modules.get("pyarrow")
    if module == "pandas":
        pyarrow = _pyarrow("a data frame of pandas")
        return _Validated(lambda: pyarrow.Table.from_pandas(table, preserve_index=False).to_reader())
    if pyarrow is None or module != "pyarrow":
        return table
    if isinstance(table, pyarrow.RecordBatchReader):
        return _Validated(lambda: table)
    if isinstance(table, pyarrow.RecordBatch):
        table = pyarrow.Table.from_batches([table])
    return _Validated(table.to_reader) if isinstance(table, pyarrow.Table) else table


def _with_columns(table: Any) -> Any:
    """Converts a table to an object with named columns, or to an array."""
    module = type(table).__module__.partition(".")[0]
    if module in ("pandas", "polars") and hasattr(table, "to_frame") and not hasattr(table, "columns"):
        return table.to_frame("value") if module == "pandas" else table.alias("value").to_frame()
    if module == "polars":
        import polars

        table = table.collect() if hasattr(table, "collect") else table
        # polars exports columns of only nulls in a form that other libraries cannot read.
        return table.cast({polars.Null: polars.String}) if hasattr(table, "cast") else table
    if hasattr(table, "__arrow_c_stream__"):
        return table
    if isinstance(table, Mapping):
        pyarrow = _pyarrow("a mapping of columns")
        try:
            return pyarrow.table({str(name): _column(pyarrow, column) for name, column in table.items()})
        except (pyarrow.ArrowException, ValueError, TypeError) as error:
            raise TableError(f"the columns make no table: {error}") from error
    if isinstance(table, Sequence) and len(table) > 0 and all(isinstance(row, Mapping) for row in table):
        pyarrow = _pyarrow("a list of rows")
        try:
            return pyarrow.Table.from_pylist(list(table))
        except (pyarrow.ArrowException, ValueError, TypeError) as error:
            raise TableError(f"the rows make no table: {error}") from error
    if hasattr(table, "__array__"):
        import numpy

        return numpy.asarray(table)
    if isinstance(table, Sequence) and not isinstance(table, (bytes, bytearray, memoryview)):
        import numpy

        try:
            return numpy.asarray(table)
        except ValueError as error:
            raise TableError(f"the rows make no array: {error}; rows of numbers must all be as long as the first") from error
    return table


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise OptionError(f"{what} needs pyarrow: pip install spirea[arrow]") from error
    return pyarrow


def _column(pyarrow: Any, column: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(column, numpy.ndarray):
        return column
    # pyarrow accepts only numbers in the machine's byte order.
    column = column.astype(column.dtype.newbyteorder("="), copy=False)
    if column.ndim == 1:
        return column
    if column.ndim != 2 or column.dtype.hasobject:
        raise TableError(f"a column of {column.ndim} dimensions of type {column.dtype}: reshape it to two, of numbers")
    return pyarrow.FixedSizeListArray.from_arrays(numpy.ascontiguousarray(column).reshape(-1), column.shape[1])


def _column_of_text(array: Any) -> Any:
    if array.ndim != 1:
        raise TableError(f"the array has text in {array.ndim} dimensions; give a column, or a data frame")
    pyarrow = _pyarrow("an array of text")
    return pyarrow.table({"value": pyarrow.array(array.tolist(), pyarrow.string())})


def _rows_of_array(numpy: Any, array: Any) -> _spirea.Source:
    if array.ndim not in (1, 2):
        raise TableError(f"the array has {array.ndim} dimensions; reshape it to one or two")
    if array.dtype.hasobject:
        raise TableError(
            "the array holds Python objects, perhaps rows of several lengths; give an array of numbers or of fixed-width "
            "bytes, or a data frame"
        )
    if array.dtype.names is not None:
        raise TableError("the array has named fields; give a plain array, or a data frame")
    # Numbers are stored in little-endian order.
    array = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    row_bytes = array.dtype.itemsize * (array.shape[1] if array.ndim == 2 else 1)
    if row_bytes == 0:
        raise TableError("the array's rows have no bytes")
    return _spirea.Source.buffer(array.reshape(-1).view(numpy.uint8), row_bytes, "ndarray")


def _columns(table: Any) -> list[str] | None:
    """Returns the names of the columns; `None` if the table does not have them."""
    if type(table).__module__.partition(".")[0] in ("pandas", "polars"):
        return list(map(str, table.columns))
    schema = getattr(table, "schema", None)
    names = getattr(schema, "names", None)
    return list(names) if isinstance(names, list) else None


def _chosen(table: Any, columns: list[str] | None, chosen: list[str]) -> Any:
    """Selects columns, so that no other column is converted. Returns the table unchanged if it has no such selection."""
    if columns is None or not set(chosen) <= set(columns) or len(set(columns)) < len(columns):
        return table
    module = type(table).__module__.partition(".")[0]
    if module == "pandas":
        # Selects by position: a label may be a number whose text is the name.
        return table.iloc[:, [columns.index(name) for name in chosen]]
    return table.select(chosen) if module in ("polars", "pyarrow") and hasattr(table, "select") else table
