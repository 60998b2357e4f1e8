"""The canonical text of each type, under which keys are stored and looked up (docs/tables.md, "Types")."""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, SupportsIndex, TypeAlias
from uuid import UUID

from .errors import OptionError

Key: TypeAlias = str | bytes | SupportsIndex | date | time | timedelta | Decimal | UUID
"""A key: text, bytes, or a value with a canonical text, including numpy's and pandas' types (docs/tables.md, "Types")."""


Value: TypeAlias = Any
"""A field's value: `str`, `bytes`, `int`, `float`, `Decimal`, `bool`, `date`, `time`, `datetime`, `timedelta`, `UUID`, a JSON
value, or `None`."""


def whole(value: object) -> int | None:
    """Returns an integer of Python or numpy as `int`; `None` for anything else, including `bool`."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def bytes_of_key(key: Key) -> bytes:
    """Returns the bytes of a key: bytes unchanged, text in UTF-8, any other value as its canonical text."""
    if isinstance(key, bytes):
        return key
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    if isinstance(key, str):
        return key.encode()
    text = _text(key)
    if text is None:
        # The message omits the key, which is secret.
        raise OptionError(
            f"a key is text, bytes, an integer, a truth value, a decimal number, a date, a time, a duration or a UUID, "
            f"not {type(key).__name__}"
        )
    return text.encode()


def value_of(kind: str | None, cell: bytes) -> Value:
    """Converts the text `cell` of a field to a value of the field's type.

    A text that is not of the type, or out of Python's range, stays text. Bytes that are not UTF-8 stay bytes.
    """
    if kind == "bytes":
        return cell
    try:
        text = cell.decode()
    except UnicodeDecodeError:
        return cell
    if kind is None or kind == "text":
        return text
    if not text:
        return None
    try:
        return _READERS[kind](text)
    except (ArithmeticError, KeyError, RecursionError, ValueError):
        return text


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _timedelta(text: str) -> timedelta:
    return timedelta(microseconds=nanoseconds_of("duration", text) // 1000)


_READERS: dict[str, Callable[[str], Value]] = {
    "integer": int,
    "number": float,
    "decimal": Decimal,
    "boolean": _truth,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "datetime": datetime.fromisoformat,
    "instant": datetime.fromisoformat,
    "duration": _timedelta,
    "uuid": UUID,
    "json": json.loads,
}


def nanoseconds_of(kind: str, text: str) -> int:
    """Parses a duration, a time (counted from midnight) or a date and time (counted from 1970). Raises `ValueError`."""
    if kind == "duration":
        if text == "P0D":
            return 0
        sign = -1 if text.startswith("-") else 1
        if not (text.removeprefix("-").startswith("PT") and text.endswith("S")):
            raise ValueError("a duration is PT, seconds and S")
        return sign * int(Decimal(text.removeprefix("-")[2:-1]).scaleb(9))
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    nanoseconds = int(fraction.ljust(9, "0")[:9] or 0)
    if kind == "time":
        of_day = time.fromisoformat(seconds)
        return (of_day.hour * 3600 + of_day.minute * 60 + of_day.second) * 10**9 + nanoseconds
    since = datetime.fromisoformat(seconds) - datetime(1970, 1, 1)
    return (since.days * 86400 + since.seconds) * 10**9 + nanoseconds


def _text(key: Any) -> str | None:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(key, (numpy.bool_, numpy.datetime64, numpy.timedelta64)):
        return _numpy_text(numpy, key)
    if isinstance(key, bool):
        return str(key).lower()
    if (number := whole(key)) is not None:
        return str(number)
    match key:
        case datetime():
            # pandas' missing time is a datetime too, and not equal to itself.
            return _moment(key) if key == key else None
        case date() | time() if getattr(key, "tzinfo", None) is None:
            return _shortest(key.isoformat())
        case timedelta():
            nanoseconds = (key.days * 86400 + key.seconds) * 10**9 + key.microseconds * 1000
            return _duration(nanoseconds + getattr(key, "nanoseconds", 0))
        case Decimal() if key.is_finite():
            return _shortest(format(key, "f")) if key else "0"
        case UUID():
            return str(key)
    return None


def _numpy_text(numpy: Any, key: Any) -> str | None:
    if isinstance(key, numpy.bool_):
        return str(bool(key)).lower()
    unit, _ = numpy.datetime_data(key.dtype)
    if numpy.isnat(key) or unit in ("generic", "ps", "fs", "as", "Y", "M", "W"):
        return None
    if isinstance(key, numpy.timedelta64):
        return _duration(int(key.astype("timedelta64[ns]")))
    if unit in ("h", "m"):
        key = key.astype("datetime64[s]")
    return _shortest(str(numpy.datetime_as_string(key)))


def _moment(moment: datetime) -> str:
    aware = moment.tzinfo is not None
    if aware:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    # pandas' times have nanoseconds.
    precision = "nanoseconds" if hasattr(moment, "nanosecond") else "microseconds"
    return _shortest(moment.isoformat(timespec=precision)) + ("Z" if aware else "")


def _duration(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "P0D"
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    return f"{'-' if nanoseconds < 0 else ''}PT{_shortest(f'{seconds}.{rest:09}')}S"


def _shortest(text: str) -> str:
    """Removes trailing zeros from the fraction of a number or a time."""
    return text.rstrip("0").rstrip(".") if "." in text else text
