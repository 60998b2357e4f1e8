"""The compiled part: thin classes over the Rust crates. Use the package `spirea`, which this is the inside of."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, final

__all__ = ["Client", "Job", "Rates", "Server", "Snapshot", "Source", "__version__", "build", "plan", "run_command", "stop_all"]

_T = TypeVar("_T", covariant=True)

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

__version__: str

@final
class Job(Generic[_T]):
    """Work on a thread of its own, which never needs the interpreter's lock for long."""

    def wait(self, report: Callable[[str, int, int], object] | None = None) -> _T:
        """Waits without the lock, runs signal handlers meanwhile, and tells `report` the phase, what is done, and of what."""

    def take(self) -> _T:
        """The result of work that is done."""

    def is_done(self) -> bool: ...
    def fileno(self) -> int:
        """A descriptor that becomes readable when the work is done. It belongs to the job."""

    def progress(self) -> tuple[str, int, int] | None: ...
    def stop(self) -> None: ...

@final
class Source:
    """Rows of a table."""

    @staticmethod
    def file(path: str, arguments: Sequence[str]) -> Source:
        """Rows of a file, of which the command's options say the rest."""

    @staticmethod
    def stream(table: _ArrowStream, name: str, rows: int) -> Source:
        """Rows of an object that gives Arrow streams, each time it is asked for one; `rows` of them, or 0 if nobody knows."""

    @staticmethod
    def buffer(bytes: object, row_bytes: int, name: str) -> Source:
        """Rows of so many bytes each, one after another."""

@final
class Snapshot:
    """A table that is built."""

    @staticmethod
    def open(path: str) -> Snapshot: ...
    @property
    def path(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def keyed(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def record_bytes(self) -> int: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def protocol(self) -> str: ...
    @property
    def servers(self) -> int: ...
    @property
    def bins(self) -> int: ...
    @property
    def manifest(self) -> str: ...

def build(source: Source, arguments: Sequence[str]) -> Job[Snapshot]:
    """Builds a snapshot of `source` as the options of `spirea build` say."""


@final
class Server:
    """A server on threads of this process."""

    @staticmethod
    def start(arguments: Sequence[str]) -> Job[Server]:
        """Starts a server as the options of `spirea serve` say, and waits until it answers."""

    @property
    def url(self) -> str: ...
    @property
    def admin_url(self) -> str | None: ...
    def stop(self) -> Job[None]:
        """Finishes accepted requests and stops."""

@final
class Client:
    """A client of one database."""

    @staticmethod
    def connect(urls: Sequence[str], database: str, options: dict[str, Any]) -> Job[Client]: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def keyed(self) -> bool: ...
    @property
    def rows(self) -> int: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def protocol(self) -> str: ...
    @property
    def servers(self) -> int: ...
    @property
    def bins(self) -> int: ...
    def look_up_keys(self, keys: Sequence[bytes]) -> Job[_Answers]: ...
    def look_up_indices(self, indices: Sequence[int]) -> Job[_Answers]: ...
    def fetch_keys(self, keys: Sequence[bytes]) -> Job[_Answers]: ...
    def fetch_indices(self, indices: Sequence[int]) -> Job[_Answers]: ...

# For each value its fields, None where there is none, or False where it was dropped; and what it cost: requests, bytes
# sent, bytes received, bytes of keys; seconds of the query, the server, the network, decoding, and sending the keys.
_Answers = tuple[
    list[tuple[bytes, ...] | None | bool], tuple[int, int, int, int, float, float, float, float, float]
]

@final
class Rates:
    """What a unit of each kind of work takes on this machine, measured."""

    @staticmethod
    def measure(threads: int = 0, security: str = "standard") -> Job[Rates]: ...
    def seconds(self) -> dict[str, float]: ...

def plan(arguments: Sequence[str], rates: Rates) -> list[str]:
    """The lines of `spirea plan --json`."""

def run_command(arguments: Sequence[str]) -> int:
    """Runs the command line, and gives its exit code."""

def stop_all() -> None:
    """Stops all jobs of this process, and waits for a moment until they have ended."""
