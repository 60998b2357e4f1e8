"""Reads YAML into dataclasses; errors name the place."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..errors import ConfigError

_T = TypeVar("_T")
_PARSE = "parse"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_DECIMAL = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class Place:
    """A node of a document, with its file and the path of its key."""

    def __init__(self, file: Path, node: yaml.Node, key: str) -> None:
        self.file, self.node, self.key = file, node, key

    def wrong(self, what: str) -> ConfigError:
        """Returns the error for this place; `what` has the cause and the remedy."""
        line = self.node.start_mark.line + 1
        return ConfigError(f"{self.file}:{line}: {self.key}: {what}" if self.key else f"{self.file}:{line}: {what}")

    def scalar(self, wanted: str) -> Any:
        """Returns the value of a scalar, typed by YAML."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.wrong(f"give {wanted}")
        return _plain(self.node)

    def items(self, wanted: str) -> list[Place]:
        """Returns the members of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.wrong(f"give a list of {wanted}")
        return [Place(self.file, node, f"{self.key}[{i}]") for i, node in enumerate(self.node.value)]

    def members(self, known: list[str]) -> dict[str, Place]:
        """Returns the members of a mapping; refuses keys that are not in `known`."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong(f"give a mapping with the keys {', '.join(known)}")
        found: dict[str, Place] = {}
        for name_node, node in self.node.value:
            name = str(getattr(name_node, "value", ""))
            key = f"{self.key}.{name}" if self.key else name
            place = Place(self.file, node, key)
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise Place(self.file, name_node, key).wrong(f"unknown key; {remedy}")
            if name in found:
                raise Place(self.file, name_node, key).wrong("it stands twice; keep one")
            found[name] = place
        return found


def _plain(node: yaml.ScalarNode) -> Any:
    """Returns a scalar, typed by YAML. A scalar that looks like a number or a date and is invalid is text."""
    try:
        return yaml.SafeLoader("").construct_object(node)
    # The loader raises the last three for tags that do not fit, such as `!!bool 3`, `!!timestamp 3` and `!!int ''`.
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, IndexError):
        return node.value


Parser = Callable[[Place], Any]


def setting(parse: Parser, *default: Any) -> Any:
    """Makes a field that `parse` reads. Without a default it is required."""
    if default:
        return dataclasses.field(default=default[0], metadata={_PARSE: parse})
    return dataclasses.field(metadata={_PARSE: parse})


def section(kind: type[_T]) -> Any:
    """Makes a field for a nested mapping, all of whose keys have defaults."""
    return dataclasses.field(default_factory=kind, metadata={_PARSE: lambda place: read(kind, place)})


def read(kind: type[_T], place: Place) -> _T:
    """Reads a mapping into a dataclass."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    members = place.members(list(fields))
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in members:
            raise place.wrong(f"the key {name} is missing; add it")
    made = kind(**{name: fields[name].metadata[_PARSE](member) for name, member in members.items()})
    if isinstance(made, Checked) and (wrong := made.wrong()) is not None:
        name, what = wrong
        raise members.get(name, place).wrong(what)
    return made


class Checked:
    """A section whose keys must be consistent."""

    def wrong(self) -> tuple[str, str] | None:
        """Returns the inconsistent key and the error; `None` if all keys are consistent."""
        raise NotImplementedError


def document(file: Path) -> Place:
    """Reads a file and returns the root of the document."""
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{file}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: it is not UTF-8; save it as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: its lists and mappings are nested too deeply; docs/scale-out.md has an example") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark is not None else str(file)
        raise ConfigError(f"{place}: this is not YAML: {getattr(error, 'problem', None) or error}") from error
    if node is None:
        raise ConfigError(f"{file}: it is empty; docs/scale-out.md has an example")
    return Place(file, node, "")


def text(place: Place) -> str:
    """Parses text that is not empty."""
    value = place.scalar("text")
    if value is None or not isinstance(place.node, yaml.ScalarNode) or not place.node.value.strip():
        raise place.wrong("give text that is not empty")
    if _UNPRINTABLE.search(place.node.value) is not None:
        raise place.wrong("give text without control characters")
    return str(place.node.value)


def texts(place: Place) -> tuple[str, ...]:
    """Parses a list of texts."""
    return tuple(text(item) for item in place.items("texts"))


def short_name(place: Place) -> str:
    """Parses a name of a cluster or a database."""
    value = text(place)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", value):
        raise place.wrong(f"{value!r} is no name: give small letters, digits, - and _, at most 63")
    return value


def choice(*among: str) -> Parser:
    """Returns a parser for one of some words."""

    def parse(place: Place) -> str:
        value = text(place)
        if value not in among:
            raise place.wrong(f"{value!r} is none of {', '.join(among)}")
        return value

    return parse


def integer(least: int, most: int = 1 << 20) -> Parser:
    """Returns a parser for an integer within bounds."""

    def parse(place: Place) -> int:
        value = place.scalar("an integer")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise place.wrong(f"give an integer from {least} to {most}")
        return value

    return parse


def number(least: float, most: float = 1e6) -> Parser:
    """Returns a parser for a number within bounds."""

    def parse(place: Place) -> float:
        value = place.scalar("a number")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise place.wrong(f"give a number from {least:g} to {most:g}")
        return float(value)

    return parse


def size_of(said: str) -> int:
    """Parses a size, such as `8GiB`. Returns bytes.

    Raises `ValueError`.
    """
    match = re.fullmatch(rf"({_DECIMAL}) ?([A-Za-z]*)", said)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError("give a size such as 8GiB or 500MB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def size(place: Place) -> int:
    """Parses a size, such as `8GiB`. Returns bytes."""
    try:
        return size_of(str(place.scalar("a size such as 8GiB")))
    except ValueError as error:
        raise place.wrong(str(error)) from error


def seconds(place: Place) -> float:
    """Parses a time, such as `30s`. Returns seconds."""
    value = place.scalar("a time such as 30s")
    match = re.fullmatch(rf"({_DECIMAL}) ?(ms|s|min|h)", str(value))
    if match is None:
        raise place.wrong("give a time with its unit, such as 500ms, 30s, 5min or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def socket(place: Place) -> str:
    """Parses an address to listen on, `HOST:PORT`."""
    value = text(place)
    host, colon, port = value.rpartition(":")
    if not colon or not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise place.wrong("give HOST:PORT, such as 127.0.0.1:7080")
    return value


def maybe(parse: Parser) -> Parser:
    """Returns a parser that also accepts null."""

    def parsed(place: Place) -> Any:
        null = isinstance(place.node, yaml.ScalarNode) and place.node.tag == "tag:yaml.org,2002:null"
        return None if null else parse(place)

    return parsed
