"""The blocking client and the client for asyncio."""

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
    """Returns the further addresses of each server. For one server, a flat list of addresses is enough."""
    if isinstance(replicas, str):
        raise OptionError("replicas is a list of addresses, not one of them")
    alone = [address for address in replicas if isinstance(address, str)]
    if alone and len(alone) < len(replicas):
        raise OptionError("replicas is a list of addresses, or a list of them for each server, and not both")
    return [alone] if alone else [list(further) for further in replicas]


class _Connection:
    """Common base of both clients: options of the connection, and properties of the table."""

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
        """Connects, or prepares to connect; called at the end of the constructor."""
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
        not_ready = isinstance(error, UnreachableError) or error.status == _UNAVAILABLE
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
        """The version last seen, in hexadecimal."""
        return self._core.version

    @property
    def keyed(self) -> bool:
        """True if the table is looked up by key, False if by position."""
        return self._core.keyed

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return self._core.rows

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a value's fields."""
        return tuple(self._core.fields)

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the fields; empty if the table does not have them."""
        return tuple(self._core.types)

    @property
    def protocol(self) -> str:
        """The table's protocol."""
        return self._core.protocol

    @property
    def servers(self) -> int:
        """Number of servers of the protocol: 1 or 2."""
        return self._core.servers

    @property
    def bins(self) -> int:
        """Number of bins; a fetch brings one record of each bin."""
        return self._core.bins

    @property
    def costs(self) -> Costs:
        """Total costs of all calls of this client so far."""
        return self._costs


_Counted = TypeVar("_Counted", Records, Fetched)


class Client(_Connection):
    """A client of one database, served by one server or by two, as its protocol requires. Calls block; threads may share a
    client.

    The arguments are addresses, such as `https://pir.example.org`, and the database's name, or `Server` objects. Two servers
    are given as a list, in any order. Neither learns what is looked up, unless they work together. The servers learn when a
    look-up happens, and the number of values.

    `wait` is the time in seconds to wait for a server that is unreachable or still loading. `replicas` has further addresses
    of the server, or one list of them for each of two servers. `cache` is the folder for hints; the default is the user's
    cache folder. If the folder is not writable, hints stay in memory; with `keep="memory"` nothing is written to disk.
    `pinned_key` is the operator's public key: versions that this key did not sign are refused. `accept_shared_proxy` allows
    asking two servers over `http://` through one proxy of the environment, which can then read both shares. `progress` shows
    or reports the download of a hint ("hint") and the number of values that a call has ("look up").

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
        """Closes the connections and erases all secrets. The client cannot be used afterwards."""
        self._client, self._closed = None, True

    def _waited(self, job: Job[_T]) -> _T:
        with reporting(self._progress) as report:
            return job.wait(report)

    def get(self, key: Key) -> Record | None:
        """Looks up a key. Returns its value, or `None` if the table does not have the key."""
        return self.get_many([key])[0]

    def __contains__(self, key: Key) -> bool:
        """Looks up a key. Returns True if the table has it."""
        return self.get(key) is not None

    def get_many(self, keys: Iterable[Key]) -> Records:
        """Looks up keys, with one query for each key and as few requests as possible. Returns their values."""
        return self._records(self._waited(self._core.look_up_keys([bytes_of_key(key) for key in keys])))

    def get_domain(self, name: str, parents: int = 4) -> Domain:
        """Looks up a domain name and its shortest parents, such as `example.com` and `com` for `www.example.com`.

        The number of look-ups is always `parents`, padded with dummies.
        """
        return self.get_domains([name], parents)[0]

    def get_domains(self, names: Iterable[str], parents: int = 4) -> list[Domain]:
        """Looks up several domain names as `get_domain` does, with `parents` look-ups for each."""
        keys = _spirea.domain_keys(list(names), parents)
        return domains_of(keys, self.get_many(key for _, _, of_domain in keys for key in of_domain))

    def get_index(self, index: SupportsIndex) -> Record | None:
        """Looks up an index, counted from 0. Returns the value, or `None` for a deleted row."""
        return self.get_indices([index])[0]

    def get_indices(self, indices: Iterable[SupportsIndex]) -> Records:
        """Looks up indices, with one query for each index and as few requests as possible. Returns their values."""
        return self._records(self._waited(self._core.look_up_indices([_index(index) for index in indices])))

    def fetch(self, keys: Iterable[Key]) -> Fetched:
        """Fetches values of several keys with one query, for the server's work of one look-up.

        A query brings one value of each of the table's bins, whatever the number of keys, even 0. A value that the query
        cannot bring is `DROPPED`. All fetches look alike to the servers.
        """
        return self._fetched(self._waited(self._core.fetch_keys([bytes_of_key(key) for key in keys])))

    def fetch_indices(self, indices: Iterable[SupportsIndex]) -> Fetched:
        """Fetches the values at several indices with one query, as `fetch` does."""
        return self._fetched(self._waited(self._core.fetch_indices([_index(index) for index in indices])))

    def join(self, frame: _Frame, on: str, *, encoding: str | None = "utf-8") -> _Frame:
        """Looks up the keys in the column `on` of a data frame of pandas, polars or pyarrow. Returns the frame with the fields
        of the values as further columns.

        A cell is null if the table does not have the key, or if the key is missing. The columns have the types of the table's
        fields. If the table has no types, bytes are decoded to text. With `encoding=None` all columns stay bytes. There is one
        query for each row, so the servers learn the number of rows.
        """
        keys = keys_of_column(frame, on)
        return joined(frame, matched(keys, self.get_many(asked_of(keys))), self.fields, self.types, encoding)


class AsyncClient(_Connection):
    """`Client` for asyncio: `async with spirea.AsyncClient(server) as client`, or `await client.connect()` first.

    Work that takes longer than microseconds does not run on the loop's thread. Cancelling a call stops its work. Calls of one
    client run one after another.
    """

    def _begin(self) -> None:
        self._turn = asyncio.Lock()

    async def connect(self) -> AsyncClient:
        """Connects, as the constructor of `Client` does. Does nothing if the client is connected."""
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
        """Closes the connections and erases all secrets. The client cannot be used afterwards."""
        self._client, self._closed = None, True

    async def get(self, key: Key) -> Record | None:
        """Like `Client.get`."""
        return (await self.get_many([key]))[0]

    async def get_many(self, keys: Iterable[Key]) -> Records:
        """Like `Client.get_many`."""
        wanted = [bytes_of_key(key) for key in keys]
        async with self._turn:
            return self._records(await self._done(self._core.look_up_keys(wanted)))

    async def get_domain(self, name: str, parents: int = 4) -> Domain:
        """Like `Client.get_domain`."""
        return (await self.get_domains([name], parents))[0]

    async def get_domains(self, names: Iterable[str], parents: int = 4) -> list[Domain]:
        """Like `Client.get_domains`."""
        keys = _spirea.domain_keys(list(names), parents)
        return domains_of(keys, await self.get_many(key for _, _, of_domain in keys for key in of_domain))

    async def get_index(self, index: SupportsIndex) -> Record | None:
        """Like `Client.get_index`."""
        return (await self.get_indices([index]))[0]

    async def get_indices(self, indices: Iterable[SupportsIndex]) -> Records:
        """Like `Client.get_indices`."""
        wanted = [_index(index) for index in indices]
        async with self._turn:
            return self._records(await self._done(self._core.look_up_indices(wanted)))

    async def fetch(self, keys: Iterable[Key]) -> Fetched:
        """Like `Client.fetch`."""
        wanted = [bytes_of_key(key) for key in keys]
        async with self._turn:
            return self._fetched(await self._done(self._core.fetch_keys(wanted)))

    async def fetch_indices(self, indices: Iterable[SupportsIndex]) -> Fetched:
        """Like `Client.fetch_indices`."""
        wanted = [_index(index) for index in indices]
        async with self._turn:
            return self._fetched(await self._done(self._core.fetch_indices(wanted)))

    async def join(self, frame: _Frame, on: str, *, encoding: str | None = "utf-8") -> _Frame:
        """Like `Client.join`."""
        keys = keys_of_column(frame, on)
        return joined(frame, matched(keys, await self.get_many(asked_of(keys))), self.fields, self.types, encoding)

    async def _done(self, job: Job[_T]) -> _T:
        """Waits for a job and returns its result. The loop watches the job's descriptor, so that no thread of the job ever
        needs the interpreter's lock."""
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
