"""Layout of an embedding table for private retrieval: bins, a hot table, collocation, and the place of each row.

A layout is public, and is chosen before any client asks. Servers learn from it about the training traces, and nothing about an
inference.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .collocation import Collocation, collocate, companions
from .traces import Traces

if TYPE_CHECKING:
    import torch

FORMAT = 1
# Most bytes of an array in a layout's file: enough for 2^30 embeddings.
MOST_BYTES = 1 << 32


class Placement(str, Enum):
    """Assignment of stored rows to bins."""

    NATURAL = "natural"
    """In the order of row numbers, as in the paper."""
    SHUFFLED = "shuffled"
    """In a random order drawn from the seed."""
    DEALT = "dealt"
    """By frequency, one row to each bin in turn. The most frequent rows, one for each bin, never collide."""


@dataclass(frozen=True)
class Design:
    """Design of a layout, chosen by the tuner. The queries of every inference are bins times passes, for both tables."""

    full_bins: int = 1
    """Bins of the table with all embeddings. With 0, this table is not asked, and rows that are not hot are never
    retrieved."""
    full_passes: int = 1
    """Queries for each bin."""
    hot_rows: int = 0
    """Embeddings of the hot table (the paper's K); 0 for no hot table."""
    hot_bins: int = 1
    hot_passes: int = 1
    neighbours: int = 0
    """Embeddings of a stored row besides the first (the paper's C)."""
    collocation: Collocation = Collocation.GROUPS
    placement: Placement = Placement.DEALT

    def __post_init__(self) -> None:
        object.__setattr__(self, "collocation", Collocation(self.collocation))
        object.__setattr__(self, "placement", Placement(self.placement))
        smallest = dict(full_bins=0, full_passes=1, hot_rows=0, hot_bins=1, hot_passes=1, neighbours=0)
        for name, least in smallest.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is at least {least}: not {getattr(self, name)}")
        if self.full_bins == 0 and self.hot_rows == 0:
            raise ValueError("a design without full_bins has hot_rows: nothing is asked otherwise")

    def shapes(self, rows: int, embedding_bytes: int) -> list[Shape]:
        """Returns the shapes of the servers' tables for `rows` embeddings.

        Raises `ValueError` for more bins than rows.
        """
        per_row = self.neighbours + 1 if self.collocation is Collocation.GROUPS else 1

        def stored(ids: int) -> int:
            return -(-ids // per_row)

        width = (self.neighbours + 1) * embedding_bytes
        shapes = []
        if self.hot_rows:
            shapes.append(Shape("hot", stored(min(self.hot_rows, rows)), width, self.hot_bins, self.hot_passes))
        if self.full_bins:
            shapes.append(Shape("full", stored(rows), width, self.full_bins, self.full_passes))
        for shape in shapes:
            if shape.bins > shape.rows:
                raise ValueError(f"the {shape.name} table has {shape.rows} rows: too few for {shape.bins} bins")
        return shapes

    def __str__(self) -> str:
        def queries(bins: int, passes: int) -> str:
            return f"{bins} bins" + (f" x {passes}" if passes > 1 else "")

        parts = []
        if self.hot_rows:
            parts.append(f"hot {self.hot_rows} in {queries(self.hot_bins, self.hot_passes)}")
        parts.append(f"full in {queries(self.full_bins, self.full_passes)}" if self.full_bins else "no full table")
        if self.neighbours:
            parts.append(f"{self.neighbours} neighbours as {self.collocation.value}")
        return ", ".join([*parts, self.placement.value])


@dataclass(frozen=True)
class Shape:
    """Shape of a table on servers."""

    name: str
    rows: int
    row_bytes: int
    bins: int
    passes: int

    @property
    def bin_rows(self) -> int:
        return -(-self.rows // self.bins)

    @property
    def queries(self) -> int:
        return self.bins * self.passes


@dataclass(frozen=True)
class StoredTable:
    """A stored table: consecutive bins of equally many rows, and the embeddings of each row."""

    name: str
    bins: int
    passes: int
    members: np.ndarray
    """Embeddings of each row, -1 for empty places. The number of rows is bins times rows of a bin."""
    rows: int
    """Number of embeddings in the whole matrix."""
    slots: np.ndarray = field(init=False, repr=False)
    """The row of each embedding: the row that begins with it, or its only row; -1 if it has none."""
    exclusive: bool = field(init=False)
    """True if no embedding is in two rows."""

    def __post_init__(self) -> None:
        members = self.members
        if members.ndim != 2 or len(members) % self.bins:
            raise ValueError(f"{self.name}: {self.bins} bins do not divide {len(members)} rows")
        slots = np.full(self.rows, -1, np.int32)
        # The row that begins with an embedding overrides rows with a copy of it.
        for column in range(members.shape[1] - 1, -1, -1):
            there = members[:, column] >= 0
            slots[members[there, column]] = np.flatnonzero(there)
        object.__setattr__(self, "slots", slots)
        object.__setattr__(self, "exclusive", int((members >= 0).sum()) == int((slots >= 0).sum()))

    @property
    def bin_rows(self) -> int:
        return len(self.members) // self.bins

    @property
    def queries(self) -> int:
        return self.bins * self.passes

    def stored(self, weight: np.ndarray) -> np.ndarray:
        """Returns the rows as bytes for a database: embeddings side by side, zeros in empty places."""
        vectors = np.where((self.members >= 0)[:, :, None], weight[np.maximum(self.members, 0)], 0)
        wide = np.ascontiguousarray(vectors.astype(weight.dtype)).reshape(len(self.members), -1)
        return wide.view(np.uint8)

    def client_bytes(self, placement: Placement) -> int:
        """Returns the size of the index that a client keeps to find rows."""
        if not self.exclusive:
            return self.members.size * 4 + self.rows * 4
        embeddings = int((self.slots >= 0).sum())
        if embeddings < self.rows:
            return embeddings * 8
        found_by_number = self.members.shape[1] == 1 and placement is not Placement.DEALT
        return 0 if found_by_number else self.rows * 4


class Planner:
    """Makes the tables of designs from training traces; caches parts that designs share."""

    def __init__(self, training: Traces, *, most_neighbours: int = 8, pair_inferences: int = 3000, seed: int = 0):
        self.rows = training.rows
        self.weights = training.counts()
        self.seed = seed
        self._training = training.sample(pair_inferences, seed)
        self._most = most_neighbours
        self._pairs: tuple[np.ndarray, ...] | None = None
        self._members: dict[tuple[object, ...], np.ndarray] = {}
        self._tables: dict[tuple[object, ...], StoredTable] = {}
        self._ranked = np.lexsort((np.arange(self.rows), -self.weights))

    @property
    def pairs(self) -> tuple[np.ndarray, ...]:
        """Pairs of rows looked up together in a sample of the training traces."""
        if self._pairs is None:
            # Groups skip companions that are in other groups, so they need more candidates than places.
            self._pairs = companions(self._training, 3 * self._most)
        return self._pairs

    def tables(self, design: Design) -> tuple[StoredTable, ...]:
        """Returns the tables of a design, the hot one first."""
        shapes = design.shapes(self.rows, 1)
        return tuple(self._table(shape, design) for shape in shapes)

    def _held(self, ids: int, design: Design) -> np.ndarray:
        key = (ids, design.neighbours, design.collocation if design.neighbours else None)
        if key not in self._members:
            if design.neighbours > self._most:
                raise ValueError(f"at most {self._most} neighbours, not {design.neighbours}")
            pairs = self.pairs if design.neighbours else (np.empty(0, np.int64),) * 3
            chosen = np.sort(self._ranked[:ids])
            self._members[key] = collocate(chosen, self.weights, pairs, design.neighbours, design.collocation)
        return self._members[key]

    def _table(self, shape: Shape, design: Design) -> StoredTable:
        ids = self.rows if shape.name == "full" else min(design.hot_rows, self.rows)
        key = (shape.name, ids, shape.bins, design.neighbours, design.collocation, design.placement)
        if key not in self._tables:
            held = self._held(ids, design)
            held = held[self._order(held, design.placement)]
            size = -(-len(held) // shape.bins)
            padding = np.full((size * shape.bins - len(held), held.shape[1]), -1, np.int32)
            held = np.concatenate([held, padding])
            if design.placement is Placement.DEALT:
                # Row k of the order goes to bin k modulo the number of bins.
                held = held.reshape(size, shape.bins, -1).swapaxes(0, 1).reshape(len(held), -1)
            self._tables[key] = StoredTable(shape.name, shape.bins, 1, np.ascontiguousarray(held), self.rows)
        return replace(self._tables[key], passes=shape.passes)

    def _order(self, held: np.ndarray, placement: Placement) -> np.ndarray:
        if placement is Placement.NATURAL:
            return np.argsort(held[:, 0], kind="stable")
        if placement is Placement.SHUFFLED:
            return np.random.default_rng(self.seed).permutation(len(held))
        weights = np.append(self.weights, 0)[held].sum(axis=1)
        return np.argsort(-weights, kind="stable")

    def forget(self) -> None:
        """Drops the cached tables; keeps the parts that they were made of."""
        self._tables.clear()


def as_array(weight: np.ndarray | torch.Tensor) -> np.ndarray:
    """Returns the matrix as a numpy array, without a copy if possible.

    Raises `TypeError` for a tensor of a type that numpy does not have.
    """
    if isinstance(weight, np.ndarray):
        return weight
    return np.asarray(weight.detach().cpu().numpy() if hasattr(weight, "detach") else weight)


@dataclass(frozen=True)
class Layout:
    """A client's description of an embedding table: its stored tables, and the fallback for rows that were not retrieved."""

    rows: int
    dim: int
    dtype: np.dtype
    design: Design
    tables: tuple[StoredTable, ...]
    fallback: np.ndarray
    """Result of a dropped look-up."""
    padding_idx: int | None = None
    padding_row: np.ndarray | None = None
    """Embedding of `padding_idx`. The client holds it and never asks for it."""

    @classmethod
    def of(
        cls,
        weight: np.ndarray | torch.Tensor,
        design: Design,
        training: Traces | Planner,
        *,
        padding_idx: int | None = None,
        fallback: np.ndarray | None = None,
    ) -> Layout:
        """Makes the layout of an embedding matrix, of numpy or of torch, under a design."""
        weight = as_array(weight)
        if weight.ndim != 2 or weight.dtype.kind not in "fiu":
            raise TypeError(f"an embedding matrix has two dimensions and numbers: not {weight.dtype} {weight.shape}")
        planner = training if isinstance(training, Planner) else Planner(training)
        rows, dim = weight.shape
        if rows != planner.rows:
            raise ValueError(f"traces of {planner.rows} rows, an embedding matrix of {rows}")
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise ValueError(f"padding_idx {padding_idx} is outside of {rows} rows")
        padding_idx = None if padding_idx is None else padding_idx % rows
        empty = np.zeros(dim, weight.dtype) if fallback is None else np.asarray(fallback, weight.dtype)
        if empty.shape != (dim,):
            raise ValueError(f"fallback has {dim} numbers: not the shape {empty.shape}")
        padding = None if padding_idx is None else np.array(weight[padding_idx])
        return cls(rows, dim, weight.dtype, design, planner.tables(design), empty, padding_idx, padding)

    @property
    def embedding_bytes(self) -> int:
        return self.dim * np.dtype(self.dtype).itemsize

    @property
    def queries(self) -> int:
        """Number of queries of every inference."""
        return sum(table.queries for table in self.tables)

    @property
    def client_bytes(self) -> int:
        """Size of the index that a client keeps, in bytes."""
        return sum(table.client_bytes(self.design.placement) for table in self.tables)

    def save(self, path: str | Path) -> None:
        """Writes the client's file, a numpy archive without pickles."""
        about = dict(
            format=FORMAT,
            rows=self.rows,
            dim=self.dim,
            dtype=np.dtype(self.dtype).str,
            design={key: getattr(value, "value", value) for key, value in asdict(self.design).items()},
            tables=[dict(name=table.name, bins=table.bins, passes=table.passes) for table in self.tables],
            padding_idx=self.padding_idx,
        )
        arrays = {f"members_{table.name}": table.members for table in self.tables}
        if self.padding_row is not None:
            arrays["padding_row"] = self.padding_row
        arrays |= {"about": np.array(json.dumps(about)), "fallback": self.fallback}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)

    @classmethod
    def load(cls, path: str | Path) -> Layout:
        """Reads a file written by `save`.

        Raises `ValueError`, with the file's name, for invalid content.
        """
        try:
            file = _arrays(path)
            about = json.loads(str(file["about"]))
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}, and this program reads {FORMAT}")
            rows, dim, dtype = int(about["rows"]), int(about["dim"]), np.dtype(about["dtype"])
            # The index of all rows, made below, may be far larger than a file that has only a hot table.
            if dtype.kind not in "fiu" or min(rows, dim) < 1 or 4 * rows > MOST_BYTES:
                raise ValueError(f"no embeddings of {dtype} {rows} x {dim}")
            design = Design(**about["design"])
            shapes = design.shapes(rows, dim * dtype.itemsize)
            if about["tables"] != [dict(name=each.name, bins=each.bins, passes=each.passes) for each in shapes]:
                raise ValueError("the tables are not those of the design")
            tables = tuple(_stored(shape, file[f"members_{shape.name}"], design, rows) for shape in shapes)
            fallback, padding_idx = file["fallback"], about["padding_idx"]
            padding = None if padding_idx is None else file["padding_row"]
            if padding_idx is not None and padding_idx not in range(rows):
                raise ValueError(f"padding_idx {padding_idx} is outside of {rows} rows")
            if any(vector.shape != (dim,) or vector.dtype != dtype for vector in (fallback, padding) if vector is not None):
                raise ValueError(f"a vector is not {dim} numbers of {dtype}")
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"{path}: no layout of embeddings: {error}") from error
        return cls(rows, dim, dtype, design, tables, fallback, padding_idx, padding)


def _stored(shape: Shape, members: np.ndarray, design: Design, rows: int) -> StoredTable:
    """Returns a table of a file. Raises `ValueError` if its members do not fit the design, before using them."""
    expected = (shape.bins * shape.bin_rows, design.neighbours + 1)
    if members.shape != expected or members.dtype != np.int32:
        raise ValueError(f"the {shape.name} table holds {members.dtype} {members.shape}: not numbers of the shape {expected}")
    if shape.queries * shape.row_bytes > MOST_BYTES:
        raise ValueError(f"the {shape.name} table has {shape.queries} queries, for more than {MOST_BYTES} bytes")
    return StoredTable(shape.name, shape.bins, shape.passes, members, rows)


def _arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Reads the arrays of an archive, none larger than its entry. Raises `ValueError` for an invalid archive."""
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise ValueError(str(error)) from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, columns_first, dtype = read(file)
        # Checked before allocation, because an entry can state any shape.
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or columns_first or size > min(entry.file_size, MOST_BYTES):
            raise ValueError(f"{entry.filename} is not an array of numbers")
        return np.frombuffer(file.read(size), dtype).reshape(shape)
