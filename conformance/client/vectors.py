"""Checks the committed vectors with the reference client: its queries equal the implementation's, bit for bit."""

import json
from pathlib import Path

import blake3
import numpy as np

from reference import lwe, prf
from reference.dpf import Domain
from reference.protocols import PROTOCOLS, protocol_of
from reference.streams import chacha20

FOLDER = Path(__file__).resolve().parent.parent / "vectors"


class Repeating:
    """The implementation's generator of secrets for tests: ChaCha20 under a key that PCG32 derives from a small seed."""

    def __init__(self, seed):
        self.key, self.taken, state = b"", 0, seed
        for _ in range(8):
            state = (state * 6364136223846793005 + 11634580027462260723) % 2**64
            self.key += prf.rotate(((state >> 18) ^ state) >> 27 & 0xFFFFFFFF, 32 - (state >> 59), 32).to_bytes(4, "little")

    def bytes(self, count):
        words = -(-count // 4)
        taken = chacha20(self.key, [0], self.taken + words)[0][self.taken :]
        self.taken += words
        return taken.astype("<u4").tobytes()[:count]

    def words(self, count):
        return np.frombuffer(self.bytes(8 * count), "<u8")


def records(seed, count, size):
    """Makes the records of a vector: record i is stream i under the key of the seed's 8 bytes and zeros."""
    key = seed.to_bytes(8, "little") + bytes(24)
    rows = chacha20(key, range(count), -(-size // 4)).astype("<u4")
    return [row.tobytes()[:size] for row in rows]


def times(matrix, a):
    """Multiplies bytes by words, modulo 2^32. Halves of words make the floating-point products exact."""
    halves = [matrix.astype(float) @ (a >> np.uint32(shift) & np.uint32(0xFFFF)).astype(float) for shift in (0, 16)]
    return sum((half.astype(np.uint64) << np.uint64(shift)) for half, shift in zip(halves, (0, 16))).astype(np.uint32)


def whole(a):
    """Returns all rows of a public matrix."""
    return np.concatenate([a.rows(block) for block in range(-(-a.columns // lwe.RING))])[: a.columns]


def matrix_of(grid, contents):
    """Makes the matrix of a protocol whose parts lie across (wire.md 7)."""
    matrix = np.zeros((grid.groups * grid.unit, grid.columns), np.uint8)
    for index, record in enumerate(contents):
        column, group, offset = grid.place(index)
        for part in range(grid.parts):
            piece = np.frombuffer(record[part * grid.unit : (part + 1) * grid.unit], np.uint8)
            start = group * grid.unit + offset
            matrix[start : start + len(piece), column + part] = piece
    return matrix


def hint_of(protocol, contents):
    """Computes the hint that clients download, for a small table (wire.md 9, 10)."""
    if not protocol.hint_bytes:
        return b""
    first = times(matrix_of(protocol.grid, contents), whole(protocol.first))
    if protocol.params["protocol"] == "simple":
        return lwe.round_hint(first, protocol.hint_bits)
    rounded = ((first.astype(np.uint64) + (1 << 15)) >> np.uint64(16)).astype("<u2").view(np.uint8)
    # Rows are (byte of a unit, entry, byte of the entry), and columns are groups (wire.md 10.1).
    fixed = rounded.reshape(protocol.grid.groups, -1).T
    return lwe.round_hint(times(fixed, whole(protocol.second)), protocol.hint_bits)


def check_functions():
    vectors = json.loads((FOLDER / "dpf" / "prf.json").read_text())
    for vector in vectors:
        blocks = [prf.FUNCTIONS[vector["prf"]](bytes.fromhex(vector["seed"]), i).hex() for i in range(8)]
        assert blocks == vector["blocks"], vector["prf"]
    return len(vectors)


def check_keys():
    """Checks keys of functions that are 1 at a row. Omits the leaves of vectors with another value."""
    checked = 0
    for vector in json.loads((FOLDER / "dpf" / "keys.json").read_text()):
        bits = {"bit": 1, "u32": 32, "u64": 64}.get(vector["output"])
        if bits is None:
            continue
        domain = Domain(vector["prf"], int(vector["points"]), bits)
        keys = domain.keys(int(vector["point"]), Repeating(vector["rng"]))
        value = len(keys[0]) if int(vector["value"]) == 1 else -64
        assert [key[:value].hex() for key in keys] == [key[: 2 * value] for key in vector["keys"]], vector
        checked += 1
    return checked


def check_fetch(name, protocol, fetch, contents):
    """Checks a fetch: one query for several records in different bins."""
    queries, chosen, state = protocol.fetch([[index] for index in fetch["wanted"]], Repeating(fetch["query"]))
    assert chosen == fetch["chosen"], f"what {name} brings"
    assert [blake3.blake3(query).hexdigest() for query in queries] == fetch["queries_blake3"], f"the fetch of {name}"
    found = protocol.decode_fetch(state, [bytes.fromhex(answer) for answer in fetch["answers"]])
    assert found == {index: contents[index] for index in chosen}, f"the fetched records of {name}"


def check_copies(name, protocol, copies):
    """Checks the choice among the copies of entries."""
    chosen = protocol.choose(copies["wanted"], Repeating(copies["query"]))
    assert chosen == copies["chosen"], f"the copies that {name} brings"
    # A later bin's record, if the query brings several copies of an entry.
    holders = [next((record for record in reversed(chosen) if record in entry), None) for entry in copies["wanted"]]
    assert holders == copies["holders"], f"the entries that {name} brings"


# Further vectors: protocols with tables in bins, the protocols whose queries can contain their keys, and those with hints
# that are rounded.
IN_BINS = ("dpf-xor-bins", "dpf-sum-bins", "exppack-simple-bins")
PACKED = ("exppack-simple", "exppack-double", "hybrid")
ONE_SHOT = (*(f"{name}-{form}" for form in ("per-query", "short") for name in PACKED), "exppack-simple-bins-short")
ROUNDED = ("simple-rounded", "double-rounded")


NAMES = (*PROTOCOLS, *IN_BINS, *ONE_SHOT, *ROUNDED)


def check_look_up(name):
    vector = json.loads((FOLDER / "client" / f"{name}.json").read_text())
    protocol = protocol_of(vector["params"])
    contents = records(vector["content"], protocol.grid.records, protocol.grid.record_bytes)
    # These hints need a server's packing, so they are in the vectors.
    hint = bytes.fromhex(vector["hint"]) if name in ONE_SHOT else hint_of(protocol, contents)
    assert blake3.blake3(hint).hexdigest() == vector["hint_blake3"], f"the hint of {name}"
    protocol.open(hint, {}, Repeating(vector["client"]))
    keys = blake3.blake3(protocol.keys).hexdigest() if protocol.keys else None
    assert keys == vector["keys_blake3"], f"the keys of {name}"
    queries, state = protocol.query(vector["index"], Repeating(vector["query"]))
    hashes = [blake3.blake3(query).hexdigest() for query in queries]
    assert hashes == vector["queries_blake3"], f"the queries of {name}"
    answers = [bytes.fromhex(answer) for answer in vector["answers"]]
    record = protocol.decode(state, answers)
    assert record.hex() == vector["record"] and record == contents[vector["index"]], f"the record of {name}"
    if "fetch" in vector:
        check_fetch(name, protocol, vector["fetch"], contents)
        check_copies(name, protocol, vector["copies"])
