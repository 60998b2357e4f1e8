"""Servers: on threads of this process, or as a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from . import _spirea
from ._progress import Progress, reporting
from ._snapshot import Snapshot, open_snapshot
from ._table import arguments_of
from .errors import ServerError

if TYPE_CHECKING:
    from types import TracebackType

Source: TypeAlias = "Snapshot | str | os.PathLike[str]"

_PAUSE = 0.02
_ANNOUNCED = "listening on "


def _snapshots(sources: Source | Sequence[Source]) -> list[Source]:
    return [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)


def _database(sources: list[Source]) -> str | None:
    """The name of the database, if there is one alone and its folder tells."""
    if len(sources) != 1:
        return None
    [source] = sources
    return source.name if isinstance(source, Snapshot) else open_snapshot(source).name


class Server:
    """A server on threads of this process, for tests, notebooks and applications that serve beside other work.

    It serves snapshots, or the folders of repositories, and answers when it is made. `party` says which of two servers this
    is, 0 or 1, for a protocol with two; whoever runs both, as one does to try it, can tell what is looked up.

    Raises `ServerError` if it cannot be started, `OptionError`.
    """

    def __init__(
        self,
        snapshots: Source | Sequence[Source],
        *,
        listen: str = "127.0.0.1:0",
        admin_listen: str | None = None,
        party: int | None = None,
        backend: str | None = None,
        threads: int = 0,
        mapped: bool = False,
        queue: int | None = None,
        tokens: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        insecure_no_auth: bool = False,
        progress: Progress = None,
    ) -> None:
        # Kept, so that a folder that goes with its snapshot stays.
        self._sources = _snapshots(snapshots)
        options = {
            "listen": listen,
            "admin_listen": admin_listen,
            "party": party,
            "backend": backend,
            "threads": threads,
            "memory": "mapped" if mapped else "copied",
            "queue": queue,
            "tokens": None if tokens is None else os.fspath(tokens),
            "tls_certificate": None if tls_certificate is None else os.fspath(tls_certificate),
            "tls_key": None if tls_key is None else os.fspath(tls_key),
            "insecure_no_auth": insecure_no_auth,
        }
        arguments = [*arguments_of(options), "--", *(os.fspath(source) for source in self._sources)]
        with reporting(progress) as report:
            self._server = _spirea.Server.start(arguments).wait(report)

    @property
    def url(self) -> str:
        """Its address, for clients."""
        return self._server.url

    @property
    def admin_url(self) -> str | None:
        """Its address for publishing and administration, if it has one."""
        return self._server.admin_url

    @property
    def database(self) -> str | None:
        """The name of its database, if it has one alone."""
        return _database(self._sources)

    def __repr__(self) -> str:
        return f"<Server at {self.url}>"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Finishes accepted requests and stops. Nothing happens if it has stopped."""
        self._server.stop().wait()


class ServerProcess:
    """`spirea serve` as a process of its own, with the same use as `Server`; `options` are further ones of the command.

    It answers when it is made, and ends with `stop`, with this object, and when the interpreter exits.

    Raises `ServerError` if it cannot be started.
    """

    def __init__(
        self,
        snapshots: Source | Sequence[Source],
        *options: str,
        listen: str = "127.0.0.1:0",
        party: int | None = None,
    ) -> None:
        self._sources = _snapshots(snapshots)
        command = [sys.executable, "-m", "spirea", "serve", "--listen", listen, *options]
        command += [] if party is None else ["--party", str(party)]
        command += ["--", *(os.fspath(source) for source in self._sources)]
        # A file takes any amount of log while nobody reads it.
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
            self._stop = weakref.finalize(self, _end, process)
            said = process.stdout.readline() if process.stdout is not None else ""
            if not said.startswith(_ANNOUNCED):
                process.wait()
                log.seek(0)
                raise ServerError(log.read().strip() or f"the server ended with exit code {process.returncode}")
        self.url = said.removeprefix(_ANNOUNCED).strip()
        self.pid = process.pid
        self._await_ready(process)

    def _await_ready(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz"):
                    return
            except urllib.error.HTTPError as error:
                states = json.loads(error.read())["databases"]
                if causes := [f"{state['name']}: {state['error']}" for state in states if "error" in state]:
                    self.stop()
                    raise ServerError("; ".join(causes)) from None
            time.sleep(_PAUSE)
        raise ServerError(f"the server ended with exit code {process.returncode} before it answered")

    @property
    def database(self) -> str | None:
        """The name of its database, if it has one alone."""
        return _database(self._sources)

    def __repr__(self) -> str:
        return f"<ServerProcess {self.pid} at {self.url}>"

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Has it finish accepted requests and end. Nothing happens if it has ended."""
        self._stop()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
