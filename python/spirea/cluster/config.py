"""The configuration of a cluster: what `spirea cluster up` reads."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from .reader import (
    Checked,
    Place,
    choice,
    document,
    integer,
    maybe,
    number,
    read,
    seconds,
    section,
    setting,
    short_name,
    size,
    socket,
    text,
    texts,
)


@dataclass(frozen=True)
class Ray:
    """How Ray is reached."""

    address: str = setting(text, "auto")


@dataclass(frozen=True)
class Coordinator(Checked):
    """The server that clients ask. It runs on the node where `spirea cluster up` is given."""

    listen: str = setting(socket, "127.0.0.1:7080")
    admin: str = setting(socket, "127.0.0.1:7081")
    certificate: str | None = setting(maybe(text), None)
    key: str | None = setting(maybe(text), None)
    tokens: str | None = setting(maybe(text), None)
    admin_token_file: str | None = setting(maybe(text), None)
    options: tuple[str, ...] = setting(texts, ())

    def wrong(self) -> tuple[str, str] | None:
        if (self.certificate is None) != (self.key is None):
            return "certificate", "certificate and key belong together; give both or none"
        if self.tokens is not None and self.admin_token_file is None:
            return "tokens", "with tokens the controller needs one of scope admin; name its file as admin_token_file"
        return None


@dataclass(frozen=True)
class Workers:
    """What each worker gets of its node. Without `memory` it is what its share takes."""

    cpus: float = setting(number(0.01), 1.0)
    gpus: float = setting(number(0.0), 0.0)
    memory: int | None = setting(maybe(size), None)
    threads: int | None = setting(maybe(integer(1)), None)
    spread: str = setting(choice("strict", "preferred"), "strict")
    options: tuple[str, ...] = setting(texts, ())


@dataclass(frozen=True)
class Scale(Checked):
    """Between how many replicas a shard has, and when that changes: by requests that wait for each replica."""

    least: int = setting(integer(1, 1000), 1)
    most: int = setting(integer(1, 1000), 1)
    high: float = setting(number(0.0), 8.0)
    low: float = setting(number(0.0), 1.0)
    up_after: float = setting(seconds, 10.0)
    down_after: float = setting(seconds, 300.0)
    pause: float = setting(seconds, 60.0)

    def wrong(self) -> tuple[str, str] | None:
        if self.most < self.least:
            return "most", f"it is below least, {self.least}; give at least that"
        if self.low >= self.high:
            return "low", f"it is not below high, {self.high:g}: replicas would come and go; give at most half of it"
        return None


def _replicas(place: Place) -> Scale:
    """A number of replicas, or bounds and rules."""
    if isinstance(place.node.value, str):
        number = integer(1, 1000)(place)
        return Scale(least=number, most=number)
    return read(Scale, place)


@dataclass(frozen=True)
class Database:
    """A database, its snapshot, and how it is divided."""

    name: str = setting(short_name)
    snapshot: str = setting(text)
    shards: int = setting(integer(1, 4096))
    replicas: Scale = setting(_replicas, Scale())


@dataclass(frozen=True)
class RollOver:
    """How a version takes another's place."""

    surge: int = setting(integer(1, 4096), 2)
    keep: float = setting(seconds, 60.0)
    """How long the former version answers clients that name it."""
    finish: float = setting(seconds, 60.0)
    """How much longer at most, where requests still wait for it."""
    room_after: float = setting(seconds, 30.0)


@dataclass(frozen=True)
class Timing:
    """When the controller takes a worker for lost, and how long things may take."""

    tick: float = setting(seconds, 0.5)
    silent: float = setting(seconds, 5.0)
    """After which a worker that says nothing is replaced."""
    give_up: float = setting(seconds, 60.0)
    """After which one that still says nothing is ended."""
    opening: float = setting(seconds, 1200.0)
    """After which one that starts and does not get on is ended, and another one placed elsewhere."""
    drain: float = setting(seconds, 2.0)
    certificates: float = setting(seconds, 24 * 3600.0)


@dataclass(frozen=True)
class Operations:
    """The page, the state and the metrics of the whole cluster, without secrets and without a way to change it."""

    listen: str = setting(socket, "127.0.0.1:7082")
    hosts: tuple[str, ...] = setting(texts, ())
    """Names under which browsers and scrapers ask, beside addresses and localhost."""


def _databases(place: Place) -> tuple[Database, ...]:
    items = place.items("databases")
    found = tuple(read(Database, item) for item in items)
    if not found:
        raise place.wrong("name at least one database")
    names = [database.name for database in found]
    for item, database in zip(items, found, strict=True):
        if names.count(database.name) > 1:
            raise item.wrong(f"two databases are called {database.name}; give each a name of its own")
    return found


@dataclass(frozen=True)
class Config:
    """A cluster."""

    name: str = setting(short_name)
    store: str = setting(text)
    state: str = setting(text)
    work: str = setting(text)
    databases: tuple[Database, ...] = setting(_databases)
    ray: Ray = section(Ray)
    coordinator: Coordinator = section(Coordinator)
    workers: Workers = section(Workers)
    roll_over: RollOver = section(RollOver)
    timing: Timing = section(Timing)
    operations: Operations = section(Operations)

    @property
    def namespace(self) -> str:
        """Where Ray has the cluster's actors."""
        return f"spirea-{self.name}"

    def database(self, named: str) -> Database | None:
        """The database of this name."""
        return next((database for database in self.databases if database.name == named), None)


def _located(folder: Path, path: str) -> str:
    """A path beside the configuration; URLs stay as they are."""
    return path if "://" in path else os.path.normpath(folder / os.path.expanduser(path))


def load(file: Path) -> Config:
    """The configuration in a file, with its paths made absolute.

    Raises `ConfigError` that names file, line, key and remedy.
    """
    folder = file.resolve().parent
    config = read(Config, document(file))
    coordinator = config.coordinator

    def beside(path: str | None) -> str | None:
        return None if path is None else _located(folder, path)

    coordinator = replace(
        coordinator,
        certificate=beside(coordinator.certificate),
        key=beside(coordinator.key),
        tokens=beside(coordinator.tokens),
        admin_token_file=beside(coordinator.admin_token_file),
    )
    databases = tuple(replace(each, snapshot=_located(folder, each.snapshot)) for each in config.databases)
    return replace(
        config,
        store=_located(folder, config.store),
        state=_located(folder, config.state),
        work=_located(folder, config.work),
        databases=databases,
        coordinator=coordinator,
    )


def to_json(config: Config) -> str:
    """A configuration as text for `from_json`."""
    return json.dumps(asdict(config))


def from_json(text: str) -> Config:
    """The configuration that `to_json` wrote, perhaps of another release: what this one does not know is left out, and what
    that one did not know has its default."""
    made: Config = _made(Config, json.loads(text))
    return made


def _made(kind: Any, said: Any) -> Any:
    if isinstance(said, list):
        return tuple(_made(get_args(kind)[0], each) for each in said)
    if not is_dataclass(kind):
        return said
    hints, known = get_type_hints(kind), {field.name for field in fields(kind)}
    return kind(**{name: _made(hints[name], value) for name, value in said.items() if name in known})  # type: ignore[operator]
