"""Columns of data frames, with the types of a table's fields."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ._text import Value, nanoseconds_of, value_of

_WIDE = 1 << 63
_DIGITS = 38


def column_of(library: str, kind: str, cells: Sequence[bytes | None]) -> Any:
    """Makes a column of pandas, polars or pyarrow from texts of a type; `None` becomes null.

    The result is a column of text if a cell is not of the type, or out of the library's range.
    """
    values = [None if cell is None else value_of(kind, cell) for cell in cells]
    if kind == "text" and any(isinstance(value, bytes) for value in values):
        values, kind = list(cells), "bytes"
    elif kind in ("uuid", "json"):
        values, kind = [cell.decode() if cell else None for cell in cells], "text"
    elif kind not in ("text", "bytes") and not _fits(kind, values):
        return column_of(library, "text", [cell or None for cell in cells])
    if kind in ("time", "datetime", "instant", "duration"):
        values, unit = _counted(kind, cells)
    else:
        unit = ""
    return _MAKERS[library](kind, values, unit)


def _integers(values: Sequence[Value]) -> str | None:
    """Returns the 64-bit type that can hold all values; `None` if there is none."""
    numbers = [value for value in values if value is not None]
    least, most = min(numbers, default=0), max(numbers, default=0)
    if least >= -_WIDE and most < _WIDE:
        return "Int64"
    return "UInt64" if least >= 0 and most < 2 * _WIDE else None


def _fraction_digits(values: Sequence[Value]) -> int:
    """Returns the largest number of digits after the decimal point."""
    return max((-value.as_tuple().exponent for value in values if value is not None), default=0)


def _fits(kind: str, values: Sequence[Value]) -> bool:
    """True if all values are of the type, and the libraries' numbers can hold all their digits."""
    if any(isinstance(value, (str, bytes)) for value in values):
        return False
    if kind == "integer":
        return _integers(values) is not None
    if kind == "decimal":
        whole = max((value.adjusted() + 1 for value in values if value is not None), default=0)
        return max(whole, 0) + _fraction_digits(values) <= _DIGITS
    return True


def _counted(kind: str, cells: Sequence[bytes | None]) -> tuple[list[int | None], str]:
    """Converts times to integers and their unit: nanoseconds if a time needs them, else microseconds."""
    counts = [nanoseconds_of(kind, cell.decode()) if cell else None for cell in cells]
    if any(count is not None and count % 1000 for count in counts):
        return counts, "ns"
    return [None if count is None else count // 1000 for count in counts], "us"


def _pandas(kind: str, values: list[Value], unit: str) -> Any:
    import numpy
    import pandas

    match kind:
        case "integer":
            return pandas.Series(values, dtype=_integers(values))
        case "number":
            return pandas.Series(values, dtype="float64")
        case "boolean":
            return pandas.Series(values, dtype="boolean")
        case "datetime" | "instant":
            times = pandas.Series(_counts(numpy, values, f"datetime64[{unit}]"))
            return times.dt.tz_localize("UTC") if kind == "instant" else times
        case "duration":
            return pandas.Series(_counts(numpy, values, f"timedelta64[{unit}]"))
        case "time":
            # Python's times end at microseconds.
            per_microsecond = 1000 if unit == "ns" else 1
            midnight = datetime(1970, 1, 1)
            times = [
                None if value is None else (midnight + timedelta(microseconds=value // per_microsecond)).time()
                for value in values
            ]
            return pandas.Series(times, dtype=object)
        case _:
            return pandas.Series(values, dtype=object)


def _counts(numpy: Any, values: list[int | None], of: str) -> Any:
    missing = numpy.iinfo("int64").min
    return numpy.array([missing if value is None else value for value in values], "int64").view(of)


def _polars(kind: str, values: list[Value], unit: Any) -> Any:
    import polars

    match kind:
        case "bytes":
            of: Any = polars.Binary
        case "integer":
            of = polars.UInt64 if _integers(values) == "UInt64" else polars.Int64
        case "number":
            of = polars.Float64
        case "decimal":
            of = polars.Decimal(_DIGITS, _fraction_digits(values))
        case "boolean":
            of = polars.Boolean
        case "date":
            of = polars.Date
        case "time":
            # polars' Time is always in nanoseconds.
            per_count = 1 if unit == "ns" else 1000
            counts = [None if value is None else value * per_count for value in values]
            return polars.Series(counts, dtype=polars.Int64).cast(polars.Time)
        case "datetime":
            return polars.Series(values, dtype=polars.Int64).cast(polars.Datetime(unit))
        case "instant":
            return polars.Series(values, dtype=polars.Int64).cast(polars.Datetime(unit, "UTC"))
        case "duration":
            return polars.Series(values, dtype=polars.Int64).cast(polars.Duration(unit))
        case _:
            of = polars.String
    return polars.Series(values, dtype=of)


def _pyarrow(kind: str, values: list[Value], unit: str) -> Any:
    import pyarrow

    match kind:
        case "bytes":
            of: Any = pyarrow.binary()
        case "integer":
            of = pyarrow.uint64() if _integers(values) == "UInt64" else pyarrow.int64()
        case "number":
            of = pyarrow.float64()
        case "decimal":
            of = pyarrow.decimal128(_DIGITS, _fraction_digits(values))
        case "boolean":
            of = pyarrow.bool_()
        case "date":
            of = pyarrow.date32()
        case "time":
            of = pyarrow.time64(unit)
        case "datetime":
            of = pyarrow.timestamp(unit)
        case "instant":
            of = pyarrow.timestamp(unit, "UTC")
        case "duration":
            of = pyarrow.duration(unit)
        case _:
            of = pyarrow.string()
    return pyarrow.array(values, of)


_MAKERS = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}
