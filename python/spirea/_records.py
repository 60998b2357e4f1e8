"""What look-ups bring."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ._text import Value, value_of
from .errors import OptionError

if TYPE_CHECKING:
    import numpy

    from ._spirea import _Answers


class Record(Mapping[str, bytes]):
    """A value: its fields by their names, as bytes. `version` is the version of the database that answered, in hexadecimal."""

    __slots__ = ("_names", "_types", "_values", "version")

    def __init__(self, names: tuple[str, ...], values: tuple[bytes, ...], version: str, types: tuple[str, ...] = ()) -> None:
        self._names, self._values, self.version, self._types = names, values, version, types

    def __getitem__(self, field: str) -> bytes:
        try:
            return self._values[self._names.index(field)]
        except ValueError:
            raise KeyError(field) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __bool__(self) -> bool:
        """True: a key of a set is found, although its record has no fields."""
        return True

    def __bytes__(self) -> bytes:
        return self._alone()

    def __hash__(self) -> int:
        return hash((self._names, self._values))

    def __repr__(self) -> str:
        return f"Record({dict(self)!r})"

    def text(self, field: str | None = None, encoding: str = "utf-8") -> str:
        """A field as text; without a name the only one."""
        return (self._alone() if field is None else self[field]).decode(encoding)

    def value(self, field: str | None = None) -> Value:
        """A field as the value of its type (docs/tables.md, "Types"), `None` for one that is missing; without a name the only
        field. Where the table tells no types, text, or bytes that are none. Times are exact to the microsecond."""
        cell = self._alone() if field is None else self[field]
        place = 0 if field is None else self._names.index(field)
        return value_of(self._types[place] if self._types else None, cell)

    def values_by_name(self) -> dict[str, Value]:
        """All fields as the values of their types."""
        return {name: self.value(name) for name in self._names}

    def array(self, dtype: numpy.typing.DTypeLike, field: str | None = None) -> numpy.ndarray[Any, Any]:
        """A field as an array of numbers, such as a row of a matrix that the table was built from."""
        import numpy

        return numpy.frombuffer(self._alone() if field is None else self[field], dtype=dtype)

    def _alone(self) -> bytes:
        if not self._values:
            raise OptionError("the table is a set: its records have no fields")
        if len(self._values) != 1:
            raise OptionError(f"the record has the fields {', '.join(self._names)}; name one")
        return self._values[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """The records of a domain name and of its parents in a table."""

    matches: dict[str, Record]
    """Records by the names that the table has, from the longest to the shortest."""
    asked: tuple[str, ...]
    """The names that were asked for: the name itself, then its parents."""
    unasked: tuple[str, ...]
    """Parents that were not asked for: the name has more labels than look-ups."""

    def __bool__(self) -> bool:
        """Tells if the table has any of the names."""
        return bool(self.matches)


class Dropped(enum.Enum):
    """The type of `DROPPED`."""

    DROPPED = "dropped"

    def __repr__(self) -> str:
        return "spirea.DROPPED"

    def __bool__(self) -> Literal[False]:
        return False


DROPPED: Final = Dropped.DROPPED
"""Stands in what was fetched for a value that lies in the bin of one before it: it was not brought."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """What calls cost, summed over their requests. Two servers are asked at the same time: time passes once."""

    requests: int = 0
    """Requests; those to two servers for the same values are one."""
    sent_bytes: int = 0
    """Bytes sent in bodies, to all servers."""
    received_bytes: int = 0
    """Bytes received in bodies, from all servers."""
    keys_bytes: int = 0
    """Bytes of evaluation keys, not among `sent_bytes`; 0 if the server had them or needs none."""
    query_seconds: float = 0.0
    """Making the queries."""
    server_seconds: float = 0.0
    """Computation on the server, as it says; of two servers, the longer."""
    network_seconds: float = 0.0
    """All between sending and the last answer that is not the server's computation."""
    decode_seconds: float = 0.0
    """Decoding the answers."""
    keys_seconds: float = 0.0
    """Sending the evaluation keys, not part of `network_seconds`."""

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


_Value: TypeAlias = "Record | Dropped | None"


def _matrix(values: Iterable[_Value], dtype: Any, missing: Any) -> Any:
    import numpy

    rows = [value.array(dtype) if isinstance(value, Record) else None for value in values]
    widths = {len(row) for row in rows if row is not None}
    if len(widths) > 1:
        raise OptionError(f"the values have {', '.join(map(str, sorted(widths)))} numbers: they are no matrix")
    matrix = numpy.full((len(rows), widths.pop() if widths else 0), missing, dtype=dtype)
    for i, row in enumerate(rows):
        if row is not None:
            matrix[i] = row
    return matrix


class Records(list["Record | None"]):
    """Values in the order asked for, `None` for a key that the table does not have or a row that was deleted.

    `versions` has the version of the database that answered, in hexadecimal, for each value, also for `None`.
    """

    def __init__(self, values: Iterable[Record | None] = (), costs: Costs = Costs(), versions: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.costs, self.versions = costs, tuple(versions)

    def to_numpy(self, dtype: numpy.typing.DTypeLike, missing: Any = 0) -> numpy.ndarray[Any, Any]:
        """The values' only field as the rows of a matrix; rows that are missing are filled with `missing`."""
        return _matrix(self, dtype, missing)  # type: ignore[no-any-return]


class Fetched(list["Record | Dropped | None"]):
    """What one query brought of several values: beside those of `Records`, `DROPPED` for what it did not bring.

    `versions` has the version of the database that answered, in hexadecimal, for each value.
    """

    def __init__(
        self, values: Iterable[Record | Dropped | None] = (), costs: Costs = Costs(), versions: Iterable[str] = ()
    ) -> None:
        super().__init__(values)
        self.costs, self.versions = costs, tuple(versions)

    @property
    def dropped(self) -> int:
        """How many values were dropped: each lies in the bin of one before it."""
        return sum(value is DROPPED for value in self)

    def to_numpy(self, dtype: numpy.typing.DTypeLike, missing: Any = 0) -> numpy.ndarray[Any, Any]:
        """The values' only field as the rows of a matrix; rows that are missing or dropped are filled with `missing`."""
        return _matrix(self, dtype, missing)  # type: ignore[no-any-return]


def records_of(fields: tuple[str, ...], types: tuple[str, ...], answers: _Answers) -> Records:
    """What a look-up brought."""
    values, versions, costs = answers
    records = (
        Record(fields, value, version, types) if isinstance(value, tuple) else None
        for value, version in zip(values, versions, strict=True)
    )
    return Records(records, Costs(*costs), versions)


def domains_of(keys: list[tuple[list[str], list[str], list[bytes]]], records: Records) -> list[Domain]:
    """The domains of a look-up, from the records of all their keys."""
    found = iter(records)
    domains = []
    for names, unasked, of_domain in keys:
        # Those of dummies are left out.
        values = [next(found) for _ in of_domain][: len(names)]
        matches = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        domains.append(Domain(matches, tuple(names), tuple(unasked)))
    return domains


def fetched_of(fields: tuple[str, ...], types: tuple[str, ...], answers: _Answers) -> Fetched:
    """What a fetch brought."""
    values, versions, costs = answers

    def of(value: tuple[bytes, ...] | bool | None, version: str) -> _Value:
        if isinstance(value, tuple):
            return Record(fields, value, version, types)
        return None if value is None else DROPPED

    return Fetched(map(of, values, versions), Costs(*costs), versions)
