"""Publishing a stream of changes: groups that become versions, each change exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._table import arguments_of
from .errors import OptionError, PublishError


@dataclass(frozen=True)
class PublishedVersion:
    """A version that was published."""

    version: str
    """Hash by which clients name the version, as hexadecimal digits."""
    sequence: int
    """Number of the version, which rises with every version that becomes current."""
    changes: int
    """Number of changes since the base."""
    cursor: str
    """Cursor of the last change in the version."""


def publish_stream(
    source: Callable[[str | None], Iterable[Mapping[str, Any]]],
    *,
    repository: str | os.PathLike[str] | None = None,
    server: str | None = None,
    database: str | None = None,
    every_changes: int | None = None,
    every_seconds: float | None = None,
    sign: str | os.PathLike[str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
) -> Iterator[PublishedVersion]:
    """Publishes changes in groups, each a version, and yields each version when it is current.

    The changes go to the folder `repository`, or to the `database` of a server, whose `server` is the address for
    administration. `source` is called once, on a thread of its own, with the cursor of the current version or `None`. It
    returns the changes that follow the cursor, without end if you like. A change is a mapping, such as
    `{"key": "alpha", "value": "first"}` or `{"key": "beta", "deleted": True}`. It has a `"cursor"` where the producer can
    resume: a text of at most 256 bytes in UTF-8. Only changes up to a cursor are published. After a kill, call the function
    again: each change is published exactly once.

    A group ends after `every_changes` changes (10,000), or when its first cursor is `every_seconds` (1) old. While a version
    is published, the source waits. Closing the iterator ends the stream. Versions that were not yielded may have been
    published then; the next call resumes behind them.

    Raises `OptionError`; `PublishError` if the changes are refused, with the number of the line, which is the number of the
    change, or if the last changes have no cursor; and every exception of `source`.
    """
    if (repository is None) == (server is None):
        raise OptionError("name either a repository or a server")
    if (server is None) != (database is None):
        raise OptionError("name the database of the server: server and database belong together")
    if sign is not None and server is not None:
        raise OptionError("sign belongs to a repository: a server signs with its own key")
    paths = {"repository": repository, "sign": sign, "token_file": token_file, "ca": ca}
    options: dict[str, Any] = {name: os.fspath(path) for name, path in paths.items() if path is not None}
    options |= {"server": server, "database": database, "every_changes": every_changes, "every_seconds": every_seconds}
    return _versions(source, [sys.executable, "-m", "spirea", "publish", "--stream", *arguments_of(options)])


def _versions(source: Callable[[str | None], Iterable[Mapping[str, Any]]], command: list[str]) -> Iterator[PublishedVersion]:
    # Standard error is a file: a pipe that nobody reads would fill up.
    with (
        tempfile.TemporaryFile(prefix="spirea-") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        failures: list[BaseException] = []
        try:
            if first := process.stdout.readline():
                sender = threading.Thread(
                    target=_send, args=(source, json.loads(first)["cursor"], process, failures), daemon=True
                )
                sender.start()
                for line in process.stdout:
                    yield PublishedVersion(**json.loads(line))
            status = process.wait()
        finally:
            # The iterator may be closed while the command runs.
            process.kill()
            with contextlib.suppress(OSError):
                process.stdin.close()
        if failures:
            raise failures[0]
        if status:
            errors.seek(0)
            raise PublishError(errors.read().decode(errors="replace").strip())


def _send(
    source: Callable[[str | None], Iterable[Mapping[str, Any]]],
    cursor: str | None,
    process: subprocess.Popen[str],
    failures: list[BaseException],
) -> None:
    """Writes the changes behind a cursor to the command, until it ends."""
    assert process.stdin is not None
    try:
        for change in source(cursor):
            line = json.dumps(change)
            try:
                process.stdin.write(f"{line}\n")
                # The command waits for the line: the next change may come much later.
                process.stdin.flush()
            except (OSError, ValueError):
                # The command has ended, or the iterator was closed.
                return
    except BaseException as error:
        failures.append(error)
        process.kill()
    with contextlib.suppress(OSError, ValueError):
        process.stdin.close()
