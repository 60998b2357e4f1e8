"""Servers on threads of this process, or as a separate process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import ssl
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
from .errors import OptionError, ServerError

if TYPE_CHECKING:
    from types import TracebackType

Source: TypeAlias = "Snapshot | str | os.PathLike[str]"

_PAUSE = 0.02
_ANNOUNCED = "listening on "
# Bytes at the end of a log that an error message quotes.
_TAIL_BYTES = 4096


def _snapshots(sources: Source | Sequence[Source]) -> list[Source]:
    return [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)


def _database(sources: list[Source]) -> str | None:
    """Returns the name of the database if there is exactly one source."""
    if len(sources) != 1:
        return None
    [source] = sources
    return source.name if isinstance(source, Snapshot) else open_snapshot(source).name


class Server:
    """A server on threads of this process, for tests, notebooks and applications that serve beside other work.

    It serves snapshots, or the folders of repositories. When the constructor returns, the server answers. For a protocol with
    two servers, `party` is the number of this server, 0 or 1. An operator who runs both servers, for example for a trial, can
    find out what is looked up.

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
        # Keeps the snapshots alive, because a temporary folder is removed with its snapshot.
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
        """The server's address for clients."""
        return self._server.url

    @property
    def admin_url(self) -> str | None:
        """The server's address for publishing and administration; `None` without one."""
        return self._server.admin_url

    @property
    def database(self) -> str | None:
        """The name of the database; `None` unless there is exactly one source."""
        return _database(self._sources)

    def __repr__(self) -> str:
        return f"<Server at {self.url}>"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Finishes accepted requests and stops. Does nothing if the server has stopped."""
        self._server.stop().wait()


class ServerProcess:
    """`spirea serve` as a separate process, used like `Server`; `options` are further options of the command.

    When the constructor returns, the server answers. It ends with `stop`, with this object, and when the interpreter exits.
    `ca` is a file of trusted certificates for a server with TLS, which clients need too; the default is the public
    authorities. The log is written to the file `log`; the default is a temporary file, removed when the server has ended.

    Raises `ServerError`, with the end of the log, if it cannot be started or has not answered after `timeout` seconds;
    `OptionError`.
    """

    def __init__(
        self,
        snapshots: Source | Sequence[Source],
        *options: str,
        listen: str = "127.0.0.1:0",
        party: int | None = None,
        ca: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] | None = None,
        timeout: float = 600.0,
    ) -> None:
        self._sources = _snapshots(snapshots)
        command = [sys.executable, "-m", "spirea", "serve", "--listen", listen, *options]
        command += [] if party is None else ["--party", str(party)]
        command += ["--", *(os.fspath(source) for source in self._sources)]
        opener = _opener(ca)
        # The log is a file: a pipe that nobody reads would fill up and block the server.
        with (
            tempfile.NamedTemporaryFile(prefix="spirea-", suffix=".log", delete=False) if log is None else open(log, "ab")
        ) as file:
            self._log = os.fspath(file.name)
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, start_new_session=True
            )
        self._stop = weakref.finalize(self, _end, process, os.getpid(), self._log if log is None else None)
        self.pid = process.pid
        self.url = ""
        if cause := self._cause_of_silence(process, opener, timeout):
            said = _tail(self._log)
            self.stop()
            raise ServerError(f"{cause}; its log ends with:\n{said}" if said else cause)

    def _cause_of_silence(
        self, process: subprocess.Popen[bytes], opener: urllib.request.OpenerDirector, timeout: float
    ) -> str | None:
        """Waits until the server answers and returns `None`, or returns the reason why it does not answer."""
        deadline = time.monotonic() + timeout
        said = _first_line(process, deadline)
        if said.startswith(_ANNOUNCED):
            self.url = said.removeprefix(_ANNOUNCED)
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0))
        while self.url and process.poll() is None and (left := deadline - time.monotonic()) > 0:
            try:
                with opener.open(f"{self.url}/readyz", timeout=left):
                    return None
            except urllib.error.HTTPError as error:
                states = json.loads(error.read())["databases"]
                if causes := [f"{state['name']}: {state['error']}" for state in states if "error" in state]:
                    return "; ".join(causes)
            except OSError as error:
                if isinstance(reason := getattr(error, "reason", None), ssl.SSLCertVerificationError):
                    return f"the server's certificate is not trusted: name its authority's with ca ({reason.verify_message})"
            time.sleep(_PAUSE)
        if process.returncode is None:
            return f"the server has not answered after {timeout} seconds"
        return f"the server ended with exit code {process.returncode} before it answered"

    @property
    def database(self) -> str | None:
        """The name of the database; `None` unless there is exactly one source."""
        return _database(self._sources)

    @property
    def log(self) -> str:
        """The path of the log. A temporary log is removed when the server has ended."""
        return self._log

    def __repr__(self) -> str:
        return f"<ServerProcess {self.pid} at {self.url}>"

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Asks the server to finish accepted requests, and waits until it has ended.

        Does nothing if the server has ended, or in a process that was forked from the one that started it.
        """
        self._stop()


def _opener(ca: str | os.PathLike[str] | None) -> urllib.request.OpenerDirector:
    """Returns the opener for readiness checks. It uses no proxy, because the server is on this machine."""
    try:
        trust = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise OptionError(f"ca: {os.fspath(ca or '')}: {error}") from error
    # The check uses the address that the server listens on; the certificate may be for another name.
    trust.check_hostname = False
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))


def _first_line(process: subprocess.Popen[bytes], deadline: float) -> str:
    """Returns the first line that a process prints, or its beginning at the deadline or at the end of the process."""
    assert process.stdout is not None
    said = b""
    while b"\n" not in said and select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
        if not (piece := os.read(process.stdout.fileno(), _TAIL_BYTES)):
            break
        said += piece
    return said.partition(b"\n")[0].decode()


def _tail(log: str) -> str:
    """Returns the last bytes of a log, as text."""
    with open(log, "rb") as file:
        file.seek(max(os.path.getsize(log) - _TAIL_BYTES, 0))
        return file.read().decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes], owner: int, log: str | None) -> None:
    if os.getpid() != owner:
        return
    process.terminate()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    if log is not None:
        os.unlink(log)
