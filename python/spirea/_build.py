"""Building a snapshot of a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _spirea
from ._progress import Progress, reporting
from ._snapshot import Folder, Snapshot
from ._table import arguments_of, source_of


def build(
    table: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    key: str | None = None,
    value: str | Sequence[str] | None = None,
    name: str | None = None,
    protocol: str | None = None,
    rates: str | os.PathLike[str] | None = None,
    bins: int | None = None,
    copies: Literal[1, 3] | None = None,
    security: Literal["standard", "conservative"] | None = None,
    prefer: Literal["time", "communication", "balance"] | None = None,
    set: str | None = None,
    ring: str | None = None,
    prf: str | None = None,
    accept_weak_prf: bool = False,
    word_bits: Literal[32, 64] | None = None,
    nulls: Literal["refuse", "empty", "skip"] = "refuse",
    on_duplicate: Literal["refuse", "first", "last"] = "refuse",
    expect_rows: int | str | None = None,
    types: Mapping[str, str] | None = None,
    normalise: str | None = None,
    max_value: int | None = None,
    proofs: Literal["include", "omit"] | None = None,
    key_queries: int | None = None,
    overwrite: bool = False,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    bytes: bool = False,
    quote: bool = False,
    no_header: bool = False,
    columns: Sequence[str] | None = None,
    comment: str | None = None,
    skip_rows: int | None = None,
    skip_blank: bool = False,
    trim: bool = False,
    record_bytes: int | None = None,
    threads: int = 0,
    progress: Progress = None,
) -> Snapshot:
    """Builds a snapshot of `table` in the folder `out`. The default is a temporary folder, removed with the snapshot object.

    The table is
    - a data frame of pandas or polars, a pyarrow table, or whatever else gives Arrow streams (`__arrow_c_stream__`): `key`
      names the column of keys, and `value` those of values, all others if it is left away;
    - a mapping of columns by their names, or a list of rows as mappings;
    - a numpy array of one or two dimensions: row i is value i, as its bytes, and there are no keys;
    - the path of a CSV, TSV, JSON, JSONL, Arrow, Parquet, npy or fixed-width file, of a folder of such files, a pattern such
      as `logs/*.csv`, or a list of paths: all files make one table, and folders called `column=value` give columns. Text is
      UTF-8 unless `encoding` names another one by its label on the web, such as `windows-1252`. With `bytes`, keys and values
      of CSV and TSV need not be text. Quotes in TSV are characters like any other unless `quote` is given. `no_header`,
      `columns`, `comment`, `skip_rows`, `skip_blank` and `trim` say which lines of CSV and TSV are rows, as the options of
      `spirea build` do.

    Without `key` the table is looked up by position. A table with `key` and without columns of values is a set: `key in
    client` tells if the set has the key. Strings and bytes are stored unchanged, rows of arrays as the bytes of their numbers,
    nested values as JSON, other values as their text.

    `types` gives the types of fields whose type the table itself does not have, such as `{"price": "number"}`. `normalise`
    gives the form of the keys, such as `"trim,lower"`, `"domain"` or `"e164:CH"` (docs/tables.md).

    `protocol` is one of `simple`, `double`, `exppack-simple`, `exppack-double`, `double-pack`, `hybrid`, `onion` (one server);
    `dpf-xor` or `dpf-sum` (two servers); or `auto`, the protocol of one server that `plan` recommends. By default a replaced
    snapshot keeps its protocol, and any other build is `auto`. If the size of the table does not settle the choice, `auto`
    measures this machine for some seconds, once: the cache folder keeps the rates. `rates` is a file of rates, written by
    `spirea plan --save-rates`, to use instead. `bins` divides a table of `exppack-simple`, `dpf-xor` or `dpf-sum` into bins;
    one query then brings a record of each bin. With `copies=3`, a table with `key` and `bins` holds each entry in three
    buckets, and is stored three times: a fetch then brings nearly all of 50 keys from 75 bins. The other arguments are the
    options of `spirea build`; an option that the protocol does not use is refused.

    Raises `TableError` for an invalid table (`DuplicateKeyError` names the keys and their rows), `OptionError` for an invalid
    argument, and `BuildError` for any other failure. After a failure the target folder is unchanged.
    """
    said = {
        "format": format,
        "delimiter": delimiter,
        "encoding": encoding,
        "bytes": bytes,
        "quote": quote,
        "no_header": no_header,
        "columns": None if columns is None else list(columns),
        "comment": comment,
        "skip_rows": skip_rows,
        "skip_blank": skip_blank,
        "trim": trim,
        "record_bytes": record_bytes,
    }
    source, values = source_of(table, key, value, said)
    options: dict[str, Any] = {
        "key": key,
        "value": values,
        "name": name,
        "protocol": protocol,
        "rates": None if rates is None else os.fspath(rates),
        "bins": bins,
        "copies": copies,
        "security": security,
        "prefer": prefer,
        "set": set,
        "ring": ring,
        "prf": prf,
        "accept_weak_prf": accept_weak_prf,
        "word_bits": word_bits,
        "nulls": nulls,
        "on_duplicate": on_duplicate,
        "expect_rows": expect_rows,
        "types": None if types is None else [f"{field}={kind}" for field, kind in types.items()],
        "normalise": normalise,
        "max_value": max_value,
        "proofs": proofs,
        "key_queries": key_queries,
        "overwrite": overwrite,
        "threads": threads,
    }
    folder = None
    if out is None:
        folder = Folder()
        out = os.path.join(folder.path, name or "table")
    options["out"] = os.fspath(out)
    with reporting(progress) as report:
        return Snapshot(_spirea.build(source, arguments_of(options)).wait(report), folder)
