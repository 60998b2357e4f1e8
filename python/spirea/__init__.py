"""Private information retrieval: fetch rows of a server's table, and the server does not learn which.

snapshot = spirea.build(table, key="domain", value="verdict")
with spirea.Server(snapshot) as server, spirea.Client(server) as client:
    print(client.get("example.net")["verdict"])
"""

import atexit as _atexit
import os as _os

from . import _spirea
from ._build import build
from ._client import AsyncClient, Client
from ._plan import Rates, measure_rates, plan
from ._records import DROPPED, Costs, Domain, Dropped, Fetched, Record, Records
from ._server import Server, ServerProcess
from ._snapshot import Snapshot, open_snapshot
from ._stream import PublishedVersion, publish_stream
from .errors import (
    AnswerError,
    BuildError,
    ClusterError,
    ConfigError,
    DefectError,
    DuplicateKeyError,
    ForkError,
    LookUpError,
    OptionError,
    PlanError,
    PublishError,
    RefusedError,
    ServerError,
    SpireaError,
    StoppedError,
    TableError,
    UnreachableError,
    VersionError,
)

__version__: str = _spirea.__version__

# Stops all threads before the interpreter exits: a thread that still waits for the interpreter's lock would be cut off inside
# compiled code.
_atexit.register(_spirea.stop_all)
_os.register_at_fork(after_in_child=_spirea.forget_all)

__all__ = [
    "DROPPED",
    "AnswerError",
    "AsyncClient",
    "BuildError",
    "Client",
    "ClusterError",
    "ConfigError",
    "Costs",
    "DefectError",
    "Domain",
    "Dropped",
    "DuplicateKeyError",
    "Fetched",
    "ForkError",
    "LookUpError",
    "OptionError",
    "PlanError",
    "PublishError",
    "PublishedVersion",
    "Rates",
    "Record",
    "Records",
    "RefusedError",
    "Server",
    "ServerError",
    "ServerProcess",
    "Snapshot",
    "SpireaError",
    "StoppedError",
    "TableError",
    "UnreachableError",
    "VersionError",
    "build",
    "measure_rates",
    "open_snapshot",
    "plan",
    "publish_stream",
]
