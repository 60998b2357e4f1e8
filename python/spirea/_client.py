"""Clients: blocking, and for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, SupportsIndex, TypeAlias, TypeVar

from . import _spirea
from ._frames import asked_of, joined, keys_of_column, matched
from ._progress import Progress, reporting
from ._records import Costs, Domain, Fetched, Records, domains_of, fetched_of, records_of
from ._server import Server, ServerProcess
from ._text import Key, bytes_of_key, whole
from .errors import OptionError, RefusedError, StoppedError, UnreachableError

if TYPE_CHECKING:
    from types import TracebackType

    from ._records import Record
    from ._spirea import Job, _Answers

_T = TypeVar("_T")
_Frame = TypeVar("_Frame")
Address: TypeAlias = "str | Server | ServerProcess"

_PAUSE = 0.1
_UNAVAILABLE = 503


def _index(index: SupportsIndex) -> int:
    if (number := whole(index)) is None:
        raise OptionError(f"an index is an integer, not {type(index).__name__}")
    if not 0 <= number < 1 << 64:
        raise OptionError("an index is from 0 up to the number of rows")
    return number


def _replicas(replicas: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    """Further addresses of each server; those of an only server may stand alone."""
    if isinstance(replicas, str):
        raise OptionError("replicas is a list of addresses, not one of them")
    alone = [address for address in replicas if isinstance(address, str)]
    if alone and len(alone) < len(replicas):
        raise OptionError("replicas is a list of addresses, or a list of them for each server, and not both")
    return [alone] if alone else [list(further) for further in replicas]


class _Connection:
    """What both clients have in common: how they connect, and what is known of the table."""

    def __init__(
        self,
        servers: Address | Sequence[Address],
        database: str | None = None,
        *,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        replicas: Sequence[str] | Sequence[Sequence[str]] = (),
        keep: Literal["persistent", "memory"] = "persistent",
        cache: str | os.PathLike[str] | None = None,
        pinned_key: str | None = None,
        accept_weak_prf: bool = False,
        accept_shared_proxy: bool = False,
        timeout: float = 60.0,
        attempts: int = 5,
        max_hint_bytes: int = 8 << 30,
        wait: float = 0.0,
        progress: Progress = None,
    ) -> None:
        addresses: Sequence[Address] = [servers] if isinstance(servers, (str, Server, ServerProcess)) else list(servers)
        self._urls = [address if isinstance(address, str) else address.url for address in addresses]
        if database is None:
            names = {address.database for address in addresses if not isinstance(address, str)}
            database = names.pop() if len(names) == 1 else None
        if database is None:
            raise OptionError("name the database, beside the address of the server")
        self._database = database
        self._options = {
            "token": token,
            "ca": None if ca is None else os.fspath(ca),
            "replicas": _replicas(replicas),
            "keep": keep,
            "cache": None if cache is None else os.fspath(cache),
            "pinned_key": pinned_key,
            "accept_weak_prf": accept_weak_prf,
            "accept_shared_proxy": accept_shared_proxy,
            "timeout": timeout,
            "attempts": 1 if wait > 0 else attempts,
            "max_hint_bytes": max_hint_bytes,
        }
        self._wait, self._progress = wait, progress
        self._client: _spirea.Client | None = None
        self._closed = False
        self._costs, self._counting = Costs(), threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """Begins as the options of a new client say."""
        raise NotImplementedError

    @property
    def _core(self) -> _spirea.Client:
        if self._client is None:
            raise StoppedError("this client is closed" if self._closed else "this client is not connected yet")
        return self._client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._database!r} at {' and '.join(self._urls)}>"

    def _connecting(self) -> Job[_spirea.Client]:
        return _spirea.Client.connect(self._urls, self._database, self._options)

    def _may_try_again(self, error: UnreachableError | RefusedError, deadline: float) -> bool:
        not_ready = isinstance(error, UnreachableError) or getattr(error, "status", None) == _UNAVAILABLE
        return not_ready and time.monotonic() < deadline

    def _records(self, answers: _Answers) -> Records:
        return self._counted(records_of(self.fields, self.types, answers))

    def _fetched(self, answers: _Answers) -> Fetched:
        return self._counted(fetched_of(self.fields, self.types, answers))

    def _counted(self, values: _Counted) -> _Counted:
        with self._counting:
            self._costs += values.costs
        return values

    @property
    def name(self) -> str:
        """The database's name."""
        return self._core.name

    @property
    def version(self) -> str:
        """The version that was last seen, in hexadecimal."""
        return self._core.version

    @property
    def keyed(self) -> bool:
        """Whether the table is looked up by key; otherwise by position."""
        return self._core.keyed

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return self._core.rows

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a value's fields."""
        return tuple(self._core.fields)

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the fields; none if the table does not tell them."""
        return tuple(self._core.types)

    @property
    def protocol(self) -> str:
        """The table's protocol."""
        return self._core.protocol

    @property
    def servers(self) -> int:
        """Servers that are asked: 1 or 2."""
        return self._core.servers

    @property
    def bins(self) -> int:
        """Bins of which a fetch brings a record each."""
        return self._core.bins

    @property
    def costs(self) -> Costs:
        """What all calls of this client have cost so far."""
        return self._costs


_Counted = TypeVar("_Counted", Records, Fetched)


class Client(_Connection):
    """A client of one database, from the one server or the two that its protocol has. Blocking; several threads may share it.

    It is made of addresses, such as `https://pir.example.org`, and the database's name, or of `Server`s. Two servers come as
    a list, in any order; neither learns what is asked for, unless they work together. What they learn is that and when
    something is asked for, and how many values.

    `wait` is how many seconds to wait for a server that is not reachable or still loads. `replicas` has further addresses of
    the server, or a list of them for each of two servers. `cache` is a folder for hints, the user's cache folder without it;
    memory serves where that cannot be written to, and with `keep="memory"` nothing is written. `pinned_key` is the operator's
    public key: versions that it did not sign are refused.
    `accept_shared_proxy` asks two servers over `http://` through one proxy of the environment, which reads both shares.
    `progress` shows, or is told, how far the download of a hint is ("hint"), and how many values of a call there are
    ("look up").

    Raises `UnreachableError`, `RefusedError`, `VersionError`, `AnswerError` (all `LookUpError`), `OptionError`.
    """

    def _begin(self) -> None:
        deadline = time.monotonic() + self._wait
        while True:
            try:
                self._client = self._waited(self._connecting())
                return
            except (UnreachableError, RefusedError) as error:
                if not self._may_try_again(error, deadline):
                    raise
            time.sleep(_PAUSE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and erases what is secret. The client cannot be used any more."""
        self._client, self._closed = None, True

    def _waited(self, job: Job[_T]) -> _T:
        with reporting(self._progress) as report:
            return job.wait(report)

    def get(self, key: Key) -> Record | None:
        """The value of a key; `None` if the table does not have it."""
        return self.get_many([key])[0]

    def __contains__(self, key: Key) -> bool:
        """Looks a key up; returns whether the table has it."""
        return self.get(key) is not None

    def get_many(self, keys: Iterable[Key]) -> Records:
        """The values of keys, a query for each, in as few requests as they fit."""
        return self._records(self._waited(self._core.look_up_keys([bytes_of_key(key) for key in keys])))

    def get_domain(self, name: str, parents: int = 4) -> Domain:
        """The values of a domain name and of its parents, in `parents` look-ups whatever the name: itself and its shortest
        parents, such as `example.com` and `com` for `www.example.com`, and dummies."""
        return self.get_domains([name], parents)[0]

    def get_domains(self, names: Iterable[str], parents: int = 4) -> list[Domain]:
        """The same of several names, as many look-ups for each."""
        keys = _spirea.domain_keys(list(names), parents)
        return domains_of(keys, self.get_many(key for _, _, of_domain in keys for key in of_domain))

    def get_index(self, index: SupportsIndex) -> Record | None:
        """The value at an index, from 0; `None` for a row that was deleted."""
        return self.get_indices([index])[0]

    def get_indices(self, indices: Iterable[SupportsIndex]) -> Records:
        """The values at indices, a query for each, in as few requests as they fit."""
        return self._records(self._waited(self._core.look_up_indices([_index(index) for index in indices])))

    def fetch(self, keys: Iterable[Key]) -> Fetched:
        """What one query brings of the values of keys, for the work of one look-up: a value of each of the table's bins,
        however many keys there are, even none. What is dropped is `DROPPED`. Servers see the same of every fetch."""
        return self._fetched(self._waited(self._core.fetch_keys([bytes_of_key(key) for key in keys])))

    def fetch_indices(self, indices: Iterable[SupportsIndex]) -> Fetched:
        """The same of the values at indices."""
        return self._fetched(self._waited(self._core.fetch_indices([_index(index) for index in indices])))

    def join(self, frame: _Frame, on: str, *, encoding: str | None = "utf-8") -> _Frame:
        """A data frame of pandas, polars or pyarrow with the values of the keys in its column `on` as further columns, null
        where the table has none or the key is missing. Columns have the types of the table's fields; where it tells none,
        bytes become text. With `encoding=None` all stay bytes. A query for each row, so that the servers learn how many there
        are."""
        keys = keys_of_column(frame, on)
        return joined(frame, matched(keys, self.get_many(asked_of(keys))), self.fields, self.types, encoding)


class AsyncClient(_Connection):
    """The same for asyncio: `async with spirea.AsyncClient(server) as client`, or `await client.connect()` first.

    Nothing runs on the loop's thread but what takes microseconds. One that is cancelled ends what it was doing; calls of one
    client take their turns.
    """

    def _begin(self) -> None:
        self._turn = asyncio.Lock()

    async def connect(self) -> AsyncClient:
        """Connects, as making a `Client` does. Nothing happens if it is connected."""
        deadline = time.monotonic() + self._wait
        while self._client is None and not self._closed:
            try:
                self._client = await self._done(self._connecting())
            except (UnreachableError, RefusedError) as error:
                if not self._may_try_again(error, deadline):
                    raise
                await asyncio.sleep(_PAUSE)
        return self

    async def __aenter__(self) -> AsyncClient:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and erases what is secret. The client cannot be used any more."""
        self._client, self._closed = None, True

    async def get(self, key: Key) -> Record | None:
        """As `Client.get`."""
        return (await self.get_many([key]))[0]

    async def get_many(self, keys: Iterable[Key]) -> Records:
        """As `Client.get_many`."""
        wanted = [bytes_of_key(key) for key in keys]
        async with self._turn:
            return self._records(await self._done(self._core.look_up_keys(wanted)))

    async def get_domain(self, name: str, parents: int = 4) -> Domain:
        """As `Client.get_domain`."""
        return (await self.get_domains([name], parents))[0]

    async def get_domains(self, names: Iterable[str], parents: int = 4) -> list[Domain]:
        """As `Client.get_domains`."""
        keys = _spirea.domain_keys(list(names), parents)
        return domains_of(keys, await self.get_many(key for _, _, of_domain in keys for key in of_domain))

    async def get_index(self, index: SupportsIndex) -> Record | None:
        """As `Client.get_index`."""
        return (await self.get_indices([index]))[0]

    async def get_indices(self, indices: Iterable[SupportsIndex]) -> Records:
        """As `Client.get_indices`."""
        wanted = [_index(index) for index in indices]
        async with self._turn:
            return self._records(await self._done(self._core.look_up_indices(wanted)))

    async def fetch(self, keys: Iterable[Key]) -> Fetched:
        """As `Client.fetch`."""
        wanted = [bytes_of_key(key) for key in keys]
        async with self._turn:
            return self._fetched(await self._done(self._core.fetch_keys(wanted)))

    async def fetch_indices(self, indices: Iterable[SupportsIndex]) -> Fetched:
        """As `Client.fetch_indices`."""
        wanted = [_index(index) for index in indices]
        async with self._turn:
            return self._fetched(await self._done(self._core.fetch_indices(wanted)))

    async def join(self, frame: _Frame, on: str, *, encoding: str | None = "utf-8") -> _Frame:
        """As `Client.join`."""
        keys = keys_of_column(frame, on)
        return joined(frame, matched(keys, await self.get_many(asked_of(keys))), self.fields, self.types, encoding)

    async def _done(self, job: Job[_T]) -> _T:
        """The result of a job, whose descriptor the loop watches: no thread of it ever asks for the interpreter's lock."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        descriptor = job.fileno()
        loop.add_reader(descriptor, ended.set)
        try:
            with reporting(self._progress) as report:
                while not ended.is_set():
                    if report is not None and (progress := job.progress()) is not None:
                        report(*progress)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(None if report is None else _PAUSE):
                            await ended.wait()
        except BaseException:
            job.stop()
            raise
        finally:
            loop.remove_reader(descriptor)
        return job.take()
