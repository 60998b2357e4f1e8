"""
Compiled part of the package `spirea`: thin classes over the Rust crates. Use the package
instead.
"""

# Written by scripts/stubs.py.

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, final

__all__ = ["__version__", "Client", "Job", "Manifest", "Rates", "Server", "Snapshot", "Source", "build", "domain_keys", "forget_all", "keys_of", "plan", "run_command", "stop_all", "verify_beside_matrix"]

__version__: Final[str]

_T = TypeVar("_T", covariant=True)

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

# For each value its fields, None where there is none, or False where it was dropped; for each value the version that
# answered; and what it cost: requests, bytes sent, bytes received, bytes of keys; seconds of the query, the server, the
# network, decoding, and sending the keys.
_Answers = tuple[
    list[tuple[bytes, ...] | None | bool],
    list[str],
    tuple[int, int, int, int, float, float, float, float, float],
]

@final
class Client:
    """
    A client of one database.
    """
    @property
    def bins(self, /) -> int: ...
    @staticmethod
    def connect(urls: Sequence[str], database: str, options: "dict[str, Any]") -> "Job[Client]":
        """
        Connects to a database of these servers.
        """
    def fetch_indices(self, /, indices: Sequence[int]) -> "Job[_Answers]":
        """
        Fetches the values at indices with one query, which may drop some.
        """
    def fetch_keys(self, /, keys: "Sequence[bytes]") -> "Job[_Answers]":
        """
        Fetches the values of keys with one query, which may drop some.
        """
    @property
    def fields(self, /) -> list[str]: ...
    @property
    def keyed(self, /) -> bool: ...
    def look_up_indices(self, /, indices: Sequence[int]) -> "Job[_Answers]":
        """
        Looks up the values at indices, with a query for each.
        """
    def look_up_keys(self, /, keys: "Sequence[bytes]") -> "Job[_Answers]":
        """
        Looks up the values of keys, with a query for each.
        """
    @property
    def name(self, /) -> str: ...
    @property
    def protocol(self, /) -> str: ...
    @property
    def rows(self, /) -> int: ...
    @property
    def servers(self, /) -> int: ...
    @property
    def types(self, /) -> list[str]:
        """
        Types of the fields; empty if the table has none.
        """
    @property
    def version(self, /) -> str: ...

@final
class Job(Generic[_T]):
    """
    Work on a thread of its own.
    """
    def fileno(self, /) -> int:
        """
        Returns a descriptor that becomes readable when the work is done. It belongs to the job.
        """
    def is_done(self, /) -> bool:
        """
        True if the work is done.
        """
    def progress(self, /) -> tuple[str, int, int] | None:
        """
        Returns the phase, the amount done and the total that were last reported.
        """
    def stop(self, /) -> None:
        """
        Asks the work to end. The work stops at its next check.
        """
    def take(self, /) -> "_T":
        """
        Takes the result of completed work.
        """
    def wait(self, /, report: "Callable[[str, int, int], object] | None" = None) -> "_T":
        """
        Waits without the lock, and meanwhile runs signal handlers and calls `report` with the
        phase, the amount done, and the total.
        """

@final
class Manifest:
    """
    A verified manifest of a snapshot.
    """
    def coordinator_files(self, /) -> list[tuple[str, int]]:
        """
        Returns the name and the length of each file that a coordinator reads besides the manifest.
        """
    @property
    def entries(self, /) -> int:
        """
        Number of values of the table, or of its rows if it has no keys.
        """
    @property
    def files(self, /) -> list[tuple[str, int]]:
        """
        Returns the name and the length of each file besides the manifest.
        """
    @staticmethod
    def parse(content: bytes) -> Manifest:
        """
        Parses and verifies a manifest's file.
        """
    def share_files(self, /, index: int, count: int) -> list[tuple[str, int, list[tuple[int, int]], bool]]:
        """
        Returns the files that the server of a share reads besides the manifest: name, length,
        ranges, and true if the file is optional.
        """
    @property
    def version(self, /) -> str: ...

@final
class Rates:
    """
    Measured time of each unit of work on this machine.
    """
    @staticmethod
    def measure(threads: int = 0, security: str = "standard") -> "Job[Rates]":
        """
        Measures this machine.
        """
    def seconds(self, /) -> dict[str, float]:
        """
        Seconds of each measured unit of work.
        """

@final
class Server:
    """
    A server on threads of this process.
    """
    @property
    def admin_url(self, /) -> str | None: ...
    @staticmethod
    def start(arguments: Sequence[str]) -> "Job[Server]":
        """
        Starts a server with options of `spirea serve`, and waits until it answers.
        """
    def stop(self, /) -> "Job[None]":
        """
        Stops after finishing accepted requests.
        """
    @property
    def url(self, /) -> str: ...

@final
class Snapshot:
    """
    A built table.
    """
    @property
    def bins(self, /) -> int: ...
    @property
    def fields(self, /) -> list[str]: ...
    @property
    def keyed(self, /) -> bool: ...
    @property
    def manifest(self, /) -> str: ...
    @property
    def name(self, /) -> str: ...
    @staticmethod
    def open(path: str) -> Snapshot:
        """
        Opens the snapshot in a folder.
        """
    @property
    def path(self, /) -> str: ...
    @property
    def protocol(self, /) -> str: ...
    @property
    def record_bytes(self, /) -> int: ...
    @property
    def records(self, /) -> int: ...
    @property
    def rows(self, /) -> int: ...
    @property
    def servers(self, /) -> int: ...
    @property
    def types(self, /) -> list[str]: ...
    @property
    def version(self, /) -> str: ...

@final
class Source:
    """
    Rows of a table.
    """
    @staticmethod
    def buffer(bytes: "object", row_bytes: int, name: str) -> Source:
        """
        Rows of `row_bytes` bytes each, one after another.
        """
    @staticmethod
    def files(paths: Sequence[str], arguments: Sequence[str]) -> Source:
        """
        Rows of files, folders or patterns, with further options of the command.
        """
    @staticmethod
    def stream(table: "_ArrowStream", name: str, rows: int) -> Source:
        """
        Rows of an object that returns an Arrow stream each time it is asked. `rows` is the number
        of rows, or 0 if it is unknown.
        """

def build(source: Source, arguments: Sequence[str]) -> "Job[Snapshot]":
    """
    Builds a snapshot of `source` with options of `spirea build`.
    """

def domain_keys(domains: Sequence[str], count: int) -> list[tuple[list[str], list[str], list[bytes]]]:
    """
    Returns for each domain the names that are asked for, the names that are not, and `count` keys
    to look up: keys of the names, then dummies.
    """

def forget_all() -> None:
    """
    Forgets the jobs of the parent process, in a newly forked child. Their threads do not exist
    here, so an exit of this process must not wait for them.
    """

def keys_of(source: Source, column: str) -> list[bytes | None]:
    """
    Returns the keys in a column of a stream, as bytes like those of a built table; `None` for a
    missing key.
    """

def plan(arguments: Sequence[str], rates: Rates) -> list[str]:
    """
    Returns the lines of `spirea plan --json` for these options.
    """

def run_command(arguments: Sequence[str]) -> int:
    """
    Runs the command line, and returns its exit code.
    """

def stop_all() -> None:
    """
    Stops all jobs of this process when the interpreter exits. Waits a moment until they have ended
    and no thread waits for them, because the interpreter would cut off threads that wait for its
    lock.
    """

def verify_beside_matrix(folder: str) -> None:
    """
    Verifies all files except the matrix of the snapshot in a folder.
    """
