"""The configuration of a cluster, which `spirea cluster up` reads."""

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
    """The connection to Ray."""

    address: str = setting(text, "auto")


@dataclass(frozen=True)
class Coordinator(Checked):
    """The server that clients ask. It runs on the node where `spirea cluster up` was called."""

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
    """Resources of each worker. The default of `memory` is computed from the size of its share: `cluster.memory`."""

    cpus: float = setting(number(0.01), 1.0)
    gpus: float = setting(number(0.0), 0.0)
    memory: int | None = setting(maybe(size), None)
    threads: int | None = setting(maybe(integer(1)), None)
    spread: str = setting(choice("strict", "preferred"), "strict")
    options: tuple[str, ...] = setting(texts, ())


@dataclass(frozen=True)
class Scale(Checked):
    """Bounds on the replicas of a shard, and rules for changing their number by the requests that wait for each replica."""

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
    """Parses a number of replicas, or a mapping of bounds and rules."""
    if isinstance(place.node.value, str):
        number = integer(1, 1000)(place)
        return Scale(least=number, most=number)
    return read(Scale, place)


@dataclass(frozen=True)
class Database:
    """A database: its snapshot, its shards and their replicas."""

    name: str = setting(short_name)
    snapshot: str = setting(text)
    shards: int = setting(integer(1, 4096))
    replicas: Scale = setting(_replicas, Scale())


@dataclass(frozen=True)
class RollOver:
    """Rules for replacing a version by another."""

    surge: int = setting(integer(1, 4096), 2)
    keep: float = setting(seconds, 60.0)
    """Seconds for which the former version still answers clients that name it."""
    finish: float = setting(seconds, 60.0)
    """Most seconds beyond `keep`, if requests still wait for the former version."""
    room_after: float = setting(seconds, 30.0)


@dataclass(frozen=True)
class Timing:
    """Timeouts of workers, and other times of the controller, in seconds."""

    tick: float = setting(seconds, 0.5)
    silent: float = setting(seconds, 5.0)
    """Seconds without a report after which a worker is silent and gets a replacement."""
    give_up: float = setting(seconds, 60.0)
    """Seconds after which a silent worker is ended."""
    opening: float = setting(seconds, 1200.0)
    """Seconds without progress after which a starting worker is ended, and another one placed elsewhere."""
    drain: float = setting(seconds, 2.0)
    certificates: float = setting(seconds, 24 * 3600.0)


@dataclass(frozen=True)
class Operations:
    """The port for the page, the state and the metrics of the whole cluster. It shows no secrets and changes nothing."""

    listen: str = setting(socket, "127.0.0.1:7082")
    hosts: tuple[str, ...] = setting(texts, ())
    """Host names that browsers and scrapers may use, beside addresses and localhost."""


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
    """The configuration of a cluster."""

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
        """Ray's namespace of the cluster's actors."""
        return f"spirea-{self.name}"

    def database(self, named: str) -> Database | None:
        """Returns the database of this name; `None` if there is none."""
        return next((database for database in self.databases if database.name == named), None)


def _located(folder: Path, path: str) -> str:
    """Resolves a path relative to the configuration's folder; returns URLs unchanged."""
    return path if "://" in path else os.path.normpath(folder / os.path.expanduser(path))


def load(file: Path) -> Config:
    """Reads the configuration in a file, and makes its paths absolute.

    Raises `ConfigError`, which names file, line, key and remedy.
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
    """Returns a configuration as text for `from_json`."""
    return json.dumps(asdict(config))


def from_json(text: str) -> Config:
    """Parses the output of `to_json`, also that of another release: unknown keys are ignored, missing keys have their
    defaults."""
    made: Config = _made(Config, json.loads(text))
    return made


def _made(kind: Any, said: Any) -> Any:
    if isinstance(said, list):
        return tuple(_made(get_args(kind)[0], each) for each in said)
    if not is_dataclass(kind):
        return said
    hints, known = get_type_hints(kind), {field.name for field in fields(kind)}
    return kind(**{name: _made(hints[name], value) for name, value in said.items() if name in known})  # type: ignore[operator]
