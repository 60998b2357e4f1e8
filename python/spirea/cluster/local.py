"""Files with untrusted names: single components, opened relative to their folder, never through links."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..errors import ClusterError

PARTIAL = ".partial"
"""Suffix of an incomplete file."""
_COPIED = 16 << 20
"""Bytes of one copy step."""
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def component(name: str) -> str:
    """Returns `name` if it is a single path component of a fixed alphabet.

    Raises `ClusterError` for any other name.
    """
    if _COMPONENT.fullmatch(name) is None:
        raise ClusterError(
            f"{name!r} is no name of a file or folder here: use letters, digits, '.', '_' and '-', at most 128, "
            "with a letter or a digit first"
        )
    return name


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """Opens a folder as a descriptor; refuses a symbolic link.

    Raises `ClusterError`.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(str(folder), error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_in(folder: int, name: str, flags: int) -> int:
    """Opens a regular file in an open folder; refuses a symbolic link.

    Raises `ClusterError`, or `FileNotFoundError` if there is none.
    """
    return _open(component(name), flags, folder)


def open_path(path: str, flags: int) -> int:
    """Opens the regular file at a path; refuses a symbolic link as the path's last component.

    Raises `ClusterError`, or `FileNotFoundError` if there is none.
    """
    return _open(path, flags, None)


def _open(name: str, flags: int, folder: int | None) -> int:
    try:
        # A FIFO would block the call without O_NONBLOCK.
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, 0o644, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refused(name, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ClusterError(f"{name}: it is not a regular file; put the file itself there")
    return descriptor


def is_whole(folder: int, name: str, size: int) -> bool:
    """True if an open folder has a regular file with this name and length."""
    try:
        found = os.stat(component(name), dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def allocated(folder: int, name: str) -> int:
    """Returns the bytes that a file occupies on disk, without its holes."""
    try:
        return os.stat(component(name), dir_fd=folder, follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0


def rename(folder: int, partial: str, name: str) -> None:
    """Gives a complete and synced file its final name. Programs that have mapped the former file keep it."""
    os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def write(folder: Path, name: str, content: bytes) -> None:
    """Writes a file atomically.

    Raises `ClusterError`.
    """
    with _replacing(folder, name) as file:
        file.write(content)


def copy(folder: Path, name: str, descriptor: int) -> None:
    """Copies an open file from its first byte, atomically.

    Raises `ClusterError`.
    """
    with _replacing(folder, name) as file, os.fdopen(os.dup(descriptor), "rb") as source:
        source.seek(0)
        shutil.copyfileobj(source, file, _COPIED)


@contextlib.contextmanager
def _replacing(folder: Path, name: str) -> Iterator[IO[bytes]]:
    """Provides a new file, which replaces the file of this name when it is complete."""
    partial = f"{component(name)}.{os.getpid()}{PARTIAL}"
    with opened_folder(folder) as within:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=within)
        descriptor = open_in(within, partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        rename(within, partial, name)


def _refused(name: str, error: OSError) -> ClusterError:
    # With O_DIRECTORY, a symbolic link is reported as ENOTDIR.
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return ClusterError(f"{name}: a symbolic link is refused; put the file or folder itself there")
    return ClusterError(f"{name}: it cannot be opened: {error}")
