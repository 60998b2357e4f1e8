"""Costs of each protocol for a table on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any, Literal

from . import _spirea
from ._progress import Progress, reporting
from ._snapshot import Snapshot
from ._table import arguments_of
from .errors import OptionError

Rates = _spirea.Rates


def measure_rates(
    threads: int = 0, *, security: Literal["standard", "conservative"] = "standard", progress: Progress = None
) -> Rates:
    """Measures the time of a unit of each kind of work on this machine, which takes some seconds.

    The result serves for any number of plans. `Rates.seconds()` returns the rates by name.
    """
    with reporting(progress) as report:
        return Rates.measure(threads, security).wait(report)


def plan(
    table: Snapshot | str | os.PathLike[str] | None = None,
    *,
    records: int | None = None,
    record_bytes: int | None = None,
    servers: int = 1,
    bins: int = 1,
    copies: Literal[1, 3] = 1,
    qps: float | None = None,
    uplink: float = 5.0,
    downlink: float = 20.0,
    memory: int | None = None,
    lookups: float = 100.0,
    security: Literal["standard", "conservative"] = "standard",
    prefer: Literal["time", "communication", "balance"] = "balance",
    threads: int = 0,
    rates: Rates | None = None,
    frame: Literal["pandas", "polars", "pyarrow", "dicts"] | None = None,
    progress: Progress = None,
) -> Any:
    """Returns the costs of each protocol for a table, one row for each protocol, like `spirea plan`: the recommendation, bytes
    of a query, an answer, keys and hint, memory, seconds of the server and of a look-up.

    The table is that of a snapshot, or has `records` records of `record_bytes` bytes, each stored `copies` times. `uplink`
    and `downlink` are in Mbit/s, `memory` in bytes, `qps` in look-ups per second. Without `rates` the machine is measured
    first, which takes some seconds.

    The result is a data frame of the library `frame`. The default is the first of pandas, polars and pyarrow that is
    installed; without any of them, a list of dictionaries.

    Raises `OptionError`, `PlanError`.
    """
    options: dict[str, Any] = {
        "servers": servers,
        "bins": bins,
        "copies": copies,
        "qps": qps,
        "uplink": uplink,
        "downlink": downlink,
        "memory": memory,
        "lookups": lookups,
        "security": security,
        "prefer": prefer,
        "threads": threads,
    }
    if (table is None) == (records is None or record_bytes is None):
        raise OptionError("give a snapshot, or records and record_bytes")
    if table is not None:
        options["snapshot"] = os.fspath(table)
        del options["copies"]
    else:
        options |= {"records": records, "record_bytes": record_bytes}
    if rates is None:
        rates = measure_rates(threads, security=security, progress=progress)
    return _framed([json.loads(line) for line in _spirea.plan(arguments_of(options), rates)], frame)


def _framed(rows: list[dict[str, Any]], frame: str | None) -> Any:
    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in names} for row in rows]
    if frame is None:
        installed = (name for name in ("pandas", "polars", "pyarrow") if importlib.util.find_spec(name) is not None)
        frame = next(installed, "dicts")
    match frame:
        case "pandas":
            import pandas

            return pandas.DataFrame(rows)
        case "polars":
            import polars

            return polars.DataFrame(rows, infer_schema_length=None)
        case "pyarrow":
            import pyarrow

            return pyarrow.Table.from_pylist(rows)
        case "dicts":
            return rows
    raise OptionError(f"there is no frame {frame!r}: pandas, polars, pyarrow or dicts")
