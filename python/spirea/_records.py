"""Results of look-ups."""

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
    """A value: its fields by name, as bytes. `version` is the version of the database that answered, in hexadecimal."""

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
        """Returns True always: a record without fields means that a set has the key."""
        return True

    def __bytes__(self) -> bytes:
        return self._alone()

    def __hash__(self) -> int:
        return hash((self._names, self._values))

    def __repr__(self) -> str:
        return f"Record({dict(self)!r})"

    def text(self, field: str | None = None, encoding: str = "utf-8") -> str:
        """Returns a field as text. `field` may be omitted if there is only one."""
        return (self._alone() if field is None else self[field]).decode(encoding)

    def value(self, field: str | None = None) -> Value:
        """Returns a field as a value of its type (docs/tables.md, "Types"); `None` if it is missing.

        `field` may be omitted if there is only one. If the table has no types, the result is text, or bytes if they are not
        UTF-8. Times are exact to the microsecond.
        """
        cell = self._alone() if field is None else self[field]
        place = 0 if field is None else self._names.index(field)
        return value_of(self._types[place] if self._types else None, cell)

    def values_by_name(self) -> dict[str, Value]:
        """Returns all fields as values of their types, by name."""
        return {name: self.value(name) for name in self._names}

    def array(self, dtype: numpy.typing.DTypeLike, field: str | None = None) -> numpy.ndarray[Any, Any]:
        """Returns a field as an array of numbers, such as a row of the matrix that the table was built from."""
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
    """Records by name, for the names that the table has, from the longest name to the shortest."""
    asked: tuple[str, ...]
    """The names that were looked up: the name itself, then its parents."""
    unasked: tuple[str, ...]
    """Parents that were not looked up because the name has more labels than there are look-ups."""

    def __bool__(self) -> bool:
        """True if the table has any of the names."""
        return bool(self.matches)


class Dropped(enum.Enum):
    """The type of `DROPPED`."""

    DROPPED = "dropped"

    def __repr__(self) -> str:
        return "spirea.DROPPED"

    def __bool__(self) -> Literal[False]:
        return False


DROPPED: Final = Dropped.DROPPED
"""Placeholder in the result of a fetch for a value that the query did not bring: an earlier value uses its bin."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """Costs of calls, summed over their requests. Two servers are asked in parallel, so their time counts once."""

    requests: int = 0
    """Number of requests; the requests to two servers for the same values count as one."""
    sent_bytes: int = 0
    """Bytes of bodies sent to all servers."""
    received_bytes: int = 0
    """Bytes of bodies received from all servers."""
    keys_bytes: int = 0
    """Bytes of evaluation keys sent, not part of `sent_bytes`; 0 if the server had them already or needs none."""
    query_seconds: float = 0.0
    """Time to make the queries."""
    server_seconds: float = 0.0
    """Computation time that the server reports; for two servers, the longer of the two."""
    network_seconds: float = 0.0
    """Time from sending to the last answer, without the server's computation."""
    decode_seconds: float = 0.0
    """Time to decode the answers."""
    keys_seconds: float = 0.0
    """Time to send the evaluation keys, not part of `network_seconds`."""

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
    """Values in the order of the call; `None` for a key that the table does not have, or for a deleted row.

    `costs` has the costs of the call. `versions` has, for each value including `None`, the version of the database that
    answered, in hexadecimal.
    """

    def __init__(self, values: Iterable[Record | None] = (), costs: Costs = Costs(), versions: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.costs, self.versions = costs, tuple(versions)

    def to_numpy(self, dtype: numpy.typing.DTypeLike, missing: Any = 0) -> numpy.ndarray[Any, Any]:
        """Returns the values' only field as the rows of a matrix; missing rows are filled with `missing`."""
        return _matrix(self, dtype, missing)  # type: ignore[no-any-return]


class Fetched(list["Record | Dropped | None"]):
    """Result of a fetch: values as in `Records`, and `DROPPED` for each value that the query did not bring.

    `costs` has the costs of the call. `versions` has, for each value, the version of the database that answered, in
    hexadecimal.
    """

    def __init__(
        self, values: Iterable[Record | Dropped | None] = (), costs: Costs = Costs(), versions: Iterable[str] = ()
    ) -> None:
        super().__init__(values)
        self.costs, self.versions = costs, tuple(versions)

    @property
    def dropped(self) -> int:
        """Number of dropped values. A value is dropped if an earlier value uses its bin."""
        return sum(value is DROPPED for value in self)

    def to_numpy(self, dtype: numpy.typing.DTypeLike, missing: Any = 0) -> numpy.ndarray[Any, Any]:
        """Returns the values' only field as the rows of a matrix; missing and dropped rows are filled with `missing`."""
        return _matrix(self, dtype, missing)  # type: ignore[no-any-return]


def records_of(fields: tuple[str, ...], types: tuple[str, ...], answers: _Answers) -> Records:
    """Converts the answers to a look-up."""
    values, versions, costs = answers
    records = (
        Record(fields, value, version, types) if isinstance(value, tuple) else None
        for value, version in zip(values, versions, strict=True)
    )
    return Records(records, Costs(*costs), versions)


def domains_of(keys: list[tuple[list[str], list[str], list[bytes]]], records: Records) -> list[Domain]:
    """Groups the records of all keys by domain name."""
    found = iter(records)
    domains = []
    for names, unasked, of_domain in keys:
        # Skips the records of dummies, which come last.
        values = [next(found) for _ in of_domain][: len(names)]
        matches = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        domains.append(Domain(matches, tuple(names), tuple(unasked)))
    return domains


def fetched_of(fields: tuple[str, ...], types: tuple[str, ...], answers: _Answers) -> Fetched:
    """Converts the answers to a fetch."""
    values, versions, costs = answers

    def of(value: tuple[bytes, ...] | bool | None, version: str) -> _Value:
        if isinstance(value, tuple):
            return Record(fields, value, version, types)
        return None if value is None else DROPPED

    return Fetched(map(of, values, versions), Costs(*costs), versions)
