"""
The compiled part: thin classes over the Rust crates. Use the package `spirea`, which this is the inside of.
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
        What one query brings of the values at indices.
        """
    def fetch_keys(self, /, keys: "Sequence[bytes]") -> "Job[_Answers]":
        """
        What one query brings of the values of keys.
        """
    @property
    def fields(self, /) -> list[str]: ...
    @property
    def keyed(self, /) -> bool: ...
    def look_up_indices(self, /, indices: Sequence[int]) -> "Job[_Answers]":
        """
        The values at indices, a query for each.
        """
    def look_up_keys(self, /, keys: "Sequence[bytes]") -> "Job[_Answers]":
        """
        The values of keys, a query for each.
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
        Types of the fields; empty if the table does not tell them.
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
        A descriptor that becomes readable when the work is done. It belongs to the job.
        """
    def is_done(self, /) -> bool:
        """
        Whether the work is done.
        """
    def progress(self, /) -> tuple[str, int, int] | None:
        """
        The phase that was last told, what is done, and of what.
        """
    def stop(self, /) -> None:
        """
        Has the work end, as soon as it looks.
        """
    def take(self, /) -> "_T":
        """
        The result of work that is done.
        """
    def wait(self, /, report: "Callable[[str, int, int], object] | None" = None) -> "_T":
        """
        Waits without the lock, runs signal handlers meanwhile, and tells `report` the phase, what is done, and of what.
        """

@final
class Manifest:
    """
    A verified manifest of a snapshot.
    """
    def coordinator_files(self, /) -> list[tuple[str, int]]:
        """
        The name and the length of each file that a coordinator reads beside the manifest.
        """
    @property
    def entries(self, /) -> int:
        """
        Values of the table, or its rows if it has no keys.
        """
    @property
    def files(self, /) -> list[tuple[str, int]]:
        """
        The name and the length of each file beside the manifest.
        """
    @staticmethod
    def parse(content: bytes) -> Manifest:
        """
        Parses and verifies a manifest's file.
        """
    def share_files(self, /, index: int, count: int) -> list[tuple[str, int, list[tuple[int, int]], bool]]:
        """
        The files that the server of a share reads beside the manifest: name, length, ranges, and whether the file is optional.
        """
    @property
    def version(self, /) -> str: ...

@final
class Rates:
    """
    What a unit of each kind of work takes on this machine, measured.
    """
    @staticmethod
    def measure(threads: int = 0, security: str = "standard") -> "Job[Rates]":
        """
        Measures this machine.
        """
    def seconds(self, /) -> dict[str, float]:
        """
        Seconds of each unit of work that was measured.
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
        Starts a server as the options of `spirea serve` say, and waits until it answers.
        """
    def stop(self, /) -> "Job[None]":
        """
        Finishes accepted requests and stops.
        """
    @property
    def url(self, /) -> str: ...

@final
class Snapshot:
    """
    A table that is built.
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
        The snapshot in a folder.
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
        Rows of so many bytes each, one after another.
        """
    @staticmethod
    def files(paths: Sequence[str], arguments: Sequence[str]) -> Source:
        """
        Rows of files, folders or patterns, of which the command's options say the rest.
        """
    @staticmethod
    def stream(table: "_ArrowStream", name: str, rows: int) -> Source:
        """
        Rows of an object that gives Arrow streams, each time it is asked for one; `rows` of them, or 0 if nobody knows.
        """

def build(source: Source, arguments: Sequence[str]) -> "Job[Snapshot]":
    """
    Builds a snapshot of `source` as the options of `spirea build` say.
    """

def domain_keys(domains: Sequence[str], count: int) -> list[tuple[list[str], list[str], list[bytes]]]:
    """
    For each domain its names that are asked for, those that are not, and `count` keys to look up: of the names, then of dummies.
    """

def forget_all() -> None:
    """
    Forgets the jobs of the process from which this one was just forked: their threads did not come along, and who ends here
    waits for none of them.
    """

def keys_of(source: Source, column: str) -> list[bytes | None]:
    """
    The bytes of the keys in a column of a stream, as a table is built of them; `None` where one is missing.
    """

def plan(arguments: Sequence[str], rates: Rates) -> list[str]:
    """
    The lines of `spirea plan --json` with these options.
    """

def run_command(arguments: Sequence[str]) -> int:
    """
    Runs the command line, and gives its exit code.
    """

def stop_all() -> None:
    """
    Stops all jobs of this process, and waits for a moment until they have ended and nobody waits for them: for the
    interpreter that exits, which would cut off threads that wait for its lock.
    """

def verify_beside_matrix(folder: str) -> None:
    """
    Verifies all files but the matrix of the snapshot in a folder.
    """
