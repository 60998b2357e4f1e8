"""Memory of a worker: the controller reserves it at Ray, and the worker gives its program limits that fit into it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..errors import ClusterError
from .files import Wanted

_FACTOR = 1.1
"""Memory of a share, as a multiple of its bytes."""
_BESIDE = 1 << 30
"""Memory for requests and clients' keys if the configuration gives no memory, in bytes."""
_LEAST = 64 << 20
"""Minimum for requests and keys, in bytes."""


def _share(files: Sequence[Wanted]) -> int:
    """Returns the memory of a share with these files, in bytes."""
    return int(sum(file.bytes() for file in files) * _FACTOR)


def _mapped(options: Sequence[str]) -> bool:
    """True if the options have the share mapped from its file, so that the system can reclaim its memory."""
    return "--memory=mapped" in options or ("--memory", "mapped") in pairwise(options)


def planned(files: Sequence[Wanted], given: int | None, options: Sequence[str]) -> int:
    """Returns the memory to reserve for the worker of a share with these files, in bytes: `given`, or enough.

    Raises `ClusterError` if the share is not mapped and leaves less than 64 MiB of `given`.
    """
    if given is None:
        return _share(files) + _BESIDE
    if given - _share(files) < _LEAST and not _mapped(options):
        least = -(-(_share(files) + _LEAST) >> 20)
        raise ClusterError(
            f"workers.memory: {given} bytes are too few for a share of this snapshot and for requests; give at least "
            f"{least}MiB, or the database more shards"
        )
    return given


def limits(memory: int, files: Sequence[Wanted], options: Sequence[str]) -> tuple[str, ...]:
    """Returns the program's options that bound its memory for requests and for clients' keys, three to one. Beside the share,
    or instead of a larger one that is mapped, both fit into `memory`. Omits those that `options` has."""
    beside = memory - _share(files)
    quarter = (beside if beside >= _LEAST else memory) // 4
    made = (("--request-memory", 3 * quarter), ("--keys-memory", quarter))
    given = {option.partition("=")[0] for option in options}
    return tuple(part for name, size in made if name not in given for part in (name, str(size)))
