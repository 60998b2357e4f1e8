#!/usr/bin/env python3
"""Computes the worked examples of docs/wire.md with the reference client.

Usage: examples.py --check | --write

An example is a block that begins with ```example NAME. --write puts the computed examples into the documents; --check fails if
they differ. conformance/tests/wire_examples.rs compares the examples with the implementation.
"""

import base64
import json
import re
import sys
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reference import envelope, forms, lwe, prf, ring, streams, table, versions
from reference.dpf import Domain
from reference.grid import Grid
from reference.protocols import PROTOCOLS, pad_key, protocol_of
from reference.rlwe import Expanded, Rotated, bit_fields, uniform_half

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
BLOCK = re.compile(r"^```example (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)

COUNTED = bytes(range(32))


def of(byte):
    """Returns 32 equal bytes."""
    return bytes([byte]) * 32


def listed(numbers):
    return ", ".join(str(int(number)) for number in numbers)


def words(numbers):
    return " ".join(f"{int(number):08x}" for number in numbers)


def lengths():
    return [f"{value}: {streams.length_bytes(value).hex()}" for value in (0, 127, 128, 300, 1 << 20)]


def stream():
    row = streams.chacha20(COUNTED, [7], 18)[0]
    said = [f"words 0 to 3 of stream 7: {words(row[:4])}", f"words 16 and 17 of stream 7: {words(row[16:])}"]
    return ["key: 00..1f", *said]


def residues():
    first = streams.residues(COUNTED, [5], 134176769, 4)[0]
    return ["seed: 00..1f", f"the first residues modulo 134176769 of stream 5: {listed(first)}"]


def keys_request():
    message = envelope.keys_request(of(0x11), bytes.fromhex("aabbcc"), True)
    return ["version: 32 bytes 11", "keys: aabbcc", "delta: true", f"message: {message.hex()}"]


def query_request():
    queries = [bytes.fromhex(text) for text in ("0102", "0304", "05", "06")]
    message = envelope.query_request(of(0x11), queries[:2], of(0x22), queries[2:], of(0x22))
    said = ["version: 32 bytes 11", "queries: 0102 and 0304", "keys: 32 bytes 22"]
    said += ["delta queries: 05 and 06", "delta keys: 32 bytes 22", f"message: {message.hex()}", "sent keys: aabbcc"]
    sent = envelope.with_keys(message, bytes.fromhex("aabbcc"), b"")
    return [*said, f"with the keys: the same bytes, then {sent[len(message) :].hex()}"]


def error():
    code = envelope.field(2, envelope.CODES.index("STALE_VERSION"))
    message = envelope.field(1, 1) + code + envelope.field(3, b"m") + envelope.field(4, b"r") + envelope.field(6, of(0x33))
    said = ["code: STALE_VERSION", "message: m", "remedy: r", "accepted: false", "current version: 32 bytes 33"]
    return [*said, f"bytes: {message.hex()}"]


def both_versions():
    version = versions.version_of(of(0x11), of(0x22))
    return ["base: 32 bytes 11", "delta: 32 bytes 22", f"version: {version.hex()}"]


def parameters(text):
    """Computes the lengths for the parameters in the document, one set for each protocol."""
    given = [line for line in text.splitlines() if line.startswith("{")]
    protocols = [protocol_of(json.loads(line)) for line in given]
    if [json.loads(line)["protocol"] for line in given] != list(PROTOCOLS):
        sys.exit("the parameters are not one of each protocol, in order")
    names = ("query", "answer", "keys", "hint")
    said = ["  " + ", ".join(f"{name} {of_it}" for name, of_it in zip(names, p.lengths)) for p in protocols]
    return [line for pair in zip(given, said) for line in pair]


def signature():
    name, created, version, sequence = "domains", "2026-01-31T23:59:59Z", of(0x11), 5
    statement, key = versions.statement(name, version, sequence, created), Ed25519PrivateKey.from_private_bytes(of(1))
    said = ["private key: 32 bytes 01", f"name: {name}", f"created: {created}", "version: 32 bytes 11", "sequence: 5"]
    signed = [f"statement: {statement.hex()}", f"key: {key.public_key().public_bytes_raw().hex()}"]
    return [*said, *signed, f"ed25519: {key.sign(statement).hex()}"]


def record():
    payload = bytes.fromhex("056669727374")
    sealed = payload.ljust(8, b"\0")
    whole = sealed + table.checksum(COUNTED, 3, sealed)
    said = {"kind": "index", "payload_bytes": 8, "salt": COUNTED.hex()}
    if table.index_value(table.unseal(said, 3, whole)) != b"first":
        sys.exit("the record of the example does not unseal")
    return ["salt: 00..1f", "payload bytes: 8", f"payload: {payload.hex()}", f"record 3: {whole.hex()}"]


def proof():
    payloads = [bytes([i]) * 4 for i in range(3)]
    salt = of(0x55)
    leaves = [table.leaf(salt, i, payload) for i, payload in enumerate(payloads)]
    roots = [table.node(salt, 1, 0, *leaves[:2]), table.node(salt, 1, 1, leaves[2], bytes(16))]
    proofs = {"levels": 1, "salt": salt.hex(), "roots": base64.b64encode(b"".join(roots)).decode()}
    said = {"payload_bytes": 4, "salt": COUNTED.hex(), "proofs": proofs}
    sealed = payloads[1] + leaves[0]
    whole = sealed + table.checksum(COUNTED, 1, sealed)
    table.unseal(said, 1, whole)
    return [
        "salt: 00..1f",
        "salt of the proofs: 32 bytes 55",
        "payloads of records 0 to 2: 00000000, 01010101, 02020202",
        "levels: 1",
        f"roots: {proofs['roots']}, which is {', '.join(root.hex() for root in roots)}",
        f"proof of record 1: {leaves[0].hex()}",
        f"record 1: {whole.hex()}",
        f"proof of record 2: {bytes(16).hex()}",
    ]


def fields():
    joined = b"".join(streams.length_bytes(len(part)) + part for part in (b"alpha", bytes(80)))
    if table.split_fields({"fields": ["a", "b"]}, joined) != [b"alpha", bytes(80)]:
        sys.exit("the fields of the example do not split")
    if table.split_fields({"fields": []}, b"") != []:
        sys.exit("a value of a set has fields")
    return ["fields: alpha and 80 zero bytes", f"value: {joined.hex()}"]


def keys():
    said = {"records": 1000, "places": of(0x44).hex()}
    lines = ["salt: 00..1f", "places: 32 bytes 44", "records: 1000"]
    for key in ("alpha", "beta"):
        tag = table.tag(COUNTED, key.encode())
        upper = table.places(said, tag)[0] >> 24
        lines.append(f"{key}: tag {tag.hex()}, place {upper:010x}..., record {table.buckets(said, tag)[0]}")
    return lines


def bucket():
    payload = b"\2" + b"\xaa" * 12 + b"\2\1\2" + b"\xbb" * 12 + b"\0"
    if [table.bucket_value(payload + bytes(9), tag) for tag in (b"\xaa" * 12, b"\xbb" * 12, bytes(12))] != [
        b"\1\2",
        b"",
        None,
    ]:
        sys.exit("the bucket of the example is read otherwise")
    entries = f"entries: {'aa' * 12} with 0102, {'bb' * 12} with nothing"
    return [entries, f"payload: {payload.hex()}"]


def key_forms():
    given = [
        (["trim", "nfc", "lower"], " Zoe\u0308@X"),
        (["lower", "nfc"], "I\u0316\u0307"),
        (["domain"], "Example.COM."),
        (["e164"], "+41446681800"),
        (["hex"], "0xAB"),
        (["hex"], "g"),
    ]
    lines = []
    for steps, text in given:
        key = text.encode()
        found = forms.in_form({"steps": steps}, key)
        said = "has no form" if steps == ["hex"] and found == key else f"is {found.hex()}"
        lines.append(f"{', '.join(steps)}: {key.hex()} {said}")
    return lines


WIDTHS = bytes([3, 1, 4, 2])


def widths():
    said = {"records": 4, "places": of(0x44).hex(), "widths": base64.b64encode(WIDTHS).decode()}
    lines = ["salt: 00..1f", "places: 32 bytes 44", f"widths: {said['widths']}, which is {WIDTHS.hex()}"]
    for key in ("alpha", "beta"):
        tag = table.tag(COUNTED, key.encode())
        unit = table.places(said, tag)[0] * sum(WIDTHS) >> 64
        lines.append(f"{key}: unit {unit}, record {table.buckets(said, tag)[0]}")
    said = {"entries": 25, "widths": said["widths"]}
    for index in (0, 9, 10, 24):
        record, number = table.row(said, index)
        lines.append(f"row {index} of 25: record {record}, number {number}")
    return lines


def copies():
    said = {"records": 4, "copies": 3, "places": of(0x44).hex()}
    lines = ["salt: 00..1f", "places: 32 bytes 44", "records: 4", "copies: 3"]
    for key in ("alpha", "beta", "gamma"):
        tag = table.tag(COUNTED, key.encode())
        upper = " ".join(f"{place >> 24:010x}..." for place in table.places(said, tag))
        records = table.buckets(said, tag)
        held = " ".join(str(record) for record in dict.fromkeys(records))
        lines.append(f"{key}: places {upper}, records {' '.join(map(str, records))}, held by {held}")
    return lines


def rows_per_record():
    said = {"entries": 20, "rows_per_record": 7}
    lines = ["entries: 20, records: 3, rows per record: 7"]
    for index in (0, 6, 7, 19):
        record, number = table.row(said, index)
        lines.append(f"row {index}: record {record}, number {number}")
    return lines


def rows():
    payload = b"\5first\x80\0\0\2\1\2"
    if [table.row_value(payload + bytes(3), number) for number in range(4)] != [b"first", None, b"", b"\1\2"]:
        sys.exit("the rows of the example are read otherwise")
    return ["rows: first, a deleted one, an empty one, 0102", f"payload: {payload.hex()}"]


def changes():
    row, put = (258).to_bytes(8, "little"), b"\1" + b"first"
    return [f"key of row 258: {row.hex()}", f"put of first: {put.hex()}", "delete: 00"]


def places():
    lines = []
    for size, across in ((100, True), (600, True), (600, False)):
        numbers = {"records": 60, "record_bytes": size, "unit_rows": 256, "groups": 3, "columns": 60}
        grid = Grid(numbers, across)
        column, group, offset = grid.place(17)
        where = f"column {column}, group {group}, offset {offset}, {grid.parts} part{'s' * (grid.parts > 1)}"
        spread = "across" if across else "down"
        lines.append(f"records of {size} bytes, unit 256, 3 groups, {spread}, record 17: {where}")
    return lines


def matrix():
    first, second = (lwe.PublicMatrix("module-1280", lwe.matrix_key(COUNTED, fold), 512) for fold in (0, 1))
    of_bin = lwe.PublicMatrix("module-1280", lwe.bin_matrix_key(COUNTED, 1), 512)
    uniform = lwe.PublicMatrix("paper", first.key, 256)
    secret = np.arange(1280) % 3 - 1
    return [
        "seed: 00..1f",
        "set: module-1280",
        f"row 0, columns 0 to 2, first fold: {words(first.rows(0)[0, :3])}",
        f"row 1, columns 0 to 2, first fold: {words(first.rows(0)[1, :3])}",
        f"row 257, columns 256 to 258, first fold: {words(first.rows(1)[1, 256:259])}",
        f"row 0, columns 0 to 2, second fold: {words(second.rows(0)[0, :3])}",
        f"rows 0 to 2 times the secret with entries (l mod 3) - 1, first fold: {words(first.times(secret)[:3])}",
        f"row 0, columns 0 to 2, bin 1: {words(of_bin.rows(0)[0, :3])}",
        f"uniform, row 1, columns 0 to 2, first fold: {words(uniform.rows(0)[1, :3])}",
    ]


def rounding():
    rounded = [((word + (1 << 15)) >> 16) & 0xFFFF for word in (0x7FFF, 0x8000, 0xFFFF8000)]
    lines = [
        f"{word:08x}: {number.to_bytes(2, 'little').hex()}" for word, number in zip((0x7FFF, 0x8000, 0xFFFF8000), rounded)
    ]
    for phase in (0x2A7FFFFF, 0x2A800000, 0xFF800000):
        byte = lwe.nearest_bytes(np.array([phase], np.uint32))[0]
        lines.append(f"byte of phase {phase:08x}: {byte:02x}")
    return lines


class Coins:
    """A generator of constant bytes in place of random ones."""

    def __init__(self, byte):
        self.byte = byte

    def bytes(self, count):
        return bytes([self.byte]) * count


def rounded_bodies():
    bodies = np.array([0xF, 0x10, 0x11, 0xFFFFFFEF, 0xFFFFFFF0, 0, 0x12345678, 0x80000000], np.uint32)
    down, up = (lwe.round_bodies(bodies, 5, Coins(byte)) for byte in (0, 255))
    return [
        f"d = 5: {words(bodies)}",
        f"with bits 0: {words(down)}",
        f"with bits 1: {words(up)}",
        f"bytes of those with bits 0: {lwe.upper_bits(down, 5).hex()}",
    ]


def rounded_hint():
    entries = np.array([0, 0x3FFF, 0x4000, 0xFFFFBFFF, 0xFFFFC000, 0x12345678, 0x80000000, 0xC0FFEE00], np.uint32)
    packed = lwe.round_hint(entries, 17)
    return [
        f"b = 17: {words(entries)}",
        f"bytes: {packed.hex()}",
        f"words for the client: {words(lwe.hint_rows(packed, 8, 17)[0])}",
    ]


def blinding():
    lines = []
    for c in (1, 128, 129, 256):
        factor = lwe.Blinding(c)
        lines.append(f"c = {c}: word {factor.word:08x}, inverse {factor.inverse}")
    phases = ((3, 0x2A7FFFFF), (3, 0x00FE0000), (3, 0xFF7F8080), (3, 0xFF808080), (256, 0x00FF00FF))
    for c, phase in phases:
        number = lwe.Blinding(c).numbers([phase], 32)[0]
        lines.append(f"c = {c}, phase {phase:08x} of 32 bits: {number}")
    return lines


def gadget_in_words(gadget):
    if isinstance(gadget, ring.Digits):
        return f"digits {gadget.levels} {gadget.base} {gadget.dropped}"
    return "residues"


def ring_sets():
    return [
        f"{name}: primes {' '.join(map(str, chosen.primes))}; p 2^{chosen.plaintext_bits}; "
        f"keys {gadget_in_words(chosen.expansion)}; selectors {gadget_in_words(chosen.selector)}; "
        f"response {' '.join(map(str, chosen.response_bits))}"
        + (f"; dropped {chosen.dropped_bits}" if chosen.dropped_bits else "")
        + (f"; of chunks {chosen.chunk_dropped_bits}" if chosen.chunk_dropped_bits != chosen.dropped_bits else "")
        for name, chosen in ring.SETS.items()
    ]


def transform():
    prime = 536608769
    values = ring.forward(prime, np.arange(ring.DEGREE, dtype=np.uint64)[None, :])[0]
    psi = ring.root_of_unity(prime, 2 * ring.DEGREE)
    # Checks the shown values against the definition, which the butterflies implement.
    for i in range(4):
        point = pow(psi, 2 * int(f"{i:012b}"[::-1], 2) + 1, prime)
        if sum(c * pow(point, c, prime) for c in range(ring.DEGREE)) % prime != values[i]:
            sys.exit("the transform is not the one of its definition")
    what = "values 0 to 3 of the polynomial with coefficients 0, 1, ..., 4095"
    return [f"prime: {prime}", f"psi: {psi}", f"{what}: {listed(values[:4])}"]


def halves():
    a = uniform_half(ring.SETS["fast"], COUNTED, 1)
    return ["seed: 00..1f", "ring: fast", f"ciphertext 1, prime 2, values 0 to 2 of a: {listed(a[2, :3])}"]


def gadgets():
    fast, onion = ring.SETS["fast"], ring.SETS["onion-32"]
    return [
        f"fast, keys: {listed(fast.expansion.factors(fast.primes))}",
        f"fast, selectors: {listed(fast.selector.factors(fast.primes))}",
        f"onion-32, keys, the first two: {listed(onion.expansion.factors(onion.primes)[:2])}",
    ]


def substitution():
    fast = ring.Ring(ring.SETS["fast"].primes)
    a = [0] * ring.DEGREE
    a[1], a[3] = 1, 2
    image = fast.centred(fast.substitute(fast.lift(a), 2049))
    signs = {1: "", 2: "2 ", -1: "-", -2: "-2 "}
    terms = [f"{signs[c]}X^{i}" for i, c in enumerate(image) if c]
    exponents = listed((ring.DEGREE >> level) + 1 for level in (0, 1, 10))
    said = ["ring: fast", f"exponents of levels 0, 1 and 10: {exponents}"]
    said.append(f"X + 2 X^3 at level 1: {' + '.join(terms).replace('+ -', '- ')}")
    few, many = (Rotated(ring.SETS["fast"], 1280, 1, packed).exponents[4:] for packed in (1, 11))
    return [*said, f"exponents of 8 and of 16 rotations: {listed(few)} and {listed(many)}"]


def leaves():
    fast = ring.SETS["fast"]
    shapes = [(groups, Expanded(fast, 1280, groups)) for groups in (1, 5)]
    lines = [
        f"fast, by expansion, 1280 columns, {groups} group{'s' * (groups > 1)}: {shape.leaves} leaves, {shape.levels} levels"
        for groups, shape in shapes
    ]
    coefficients = listed(shapes[0][1].coefficient(leaf) for leaf in (1, 2, 3, 1279))
    lines.append(f"coefficients of leaves 1, 2, 3 and 1279 of 11 levels: {coefficients}")
    return [*lines, f"floor(q / p) of fast: {fast.scale}"]


def rotations():
    fast = ring.SETS["fast"]
    packed = (1, 10, 11, 40, 41, 200)
    of_columns = [listed(Rotated(fast, columns, 1, results).rotations for results in packed) for columns in (1280, 1536)]
    shape = Rotated(fast, 1280, 5, 5)
    entries = listed(shape.place(256 * chunk + i) for chunk in (0, 1, 4) for i in (0, 1, 255))
    return [
        f"rotations for 1, 10, 11, 40, 41 and 200 packed ciphertexts of 1280 columns: {of_columns[0]}",
        f"those of 1536 columns: {of_columns[1]}",
        f"fast, 1280 columns, 5 groups: {shape.levels} levels",
        f"coefficients of entries 0, 1 and 255 of chunks 0, 1 and 4: {entries}",
        f"coefficients of rows 0, 1 and 8 of {shape.rows}: {listed(map(shape.place_of_row, (0, 1, 8)))}",
        f"floor(q / p) / 4096 of fast: {fast.scale * pow(4096, -1, fast.modulus) % fast.modulus}",
        f"numbers of b = 2^29 - 1, 2^29 and q - 1: {listed(map(shape.round, (2**29 - 1, 2**29, fast.modulus - 1)))}",
    ]


def one_shot(form):
    given = {
        "protocol": "exppack-simple",
        "set": "module-1280",
        "ring": "fast",
        "seed": COUNTED.hex(),
        "dropped_bits": 5,
        "keys": "per-query",
        **form,
        "grid": {"records": 1000, "record_bytes": 64, "unit_rows": 16384, "groups": 1, "columns": 256},
    }
    protocol = protocol_of(given)
    halves = protocol.shape.uniform(COUNTED)
    query, answer, keys, hint = protocol.lengths
    return [
        "seed: 00..1f",
        "fast, 1280 columns, 4 packed ciphertexts, 256 columns with 5 bits dropped: "
        f"query {query}, answer {answer}, keys {keys}, hint {hint}",
        f"halves: {len(halves)}, of {protocol.shape.key_bits} bits a word",
        f"half 1, prime 2, values 0 to 2: {listed(halves[1][2, :3])}",
        f"half {len(halves) - 1}, prime 0, values 0 to 2: {listed(halves[-1][0, :3])}",
    ]


def response():
    numbers = [1, 31, 16, 2, 3, 4, 5, 6]
    data = sum(number << 5 * i for i, number in enumerate(numbers)).to_bytes(5, "little")
    if bit_fields(data, 5) != numbers:
        sys.exit("the numbers of the example are read otherwise")
    return [f"numbers of 5 bits: {listed(numbers)}", f"bytes: {data.hex()}"]


def pad():
    unit = (1 * 3 + 2) * 256 + 4
    row = streams.chacha20(pad_key({"pad": COUNTED.hex()}), [unit], 3)[0] & np.uint32((1 << 30) - 1)
    said = ["pad: 00..1f", "ring: onion-30", f"part 1, group 2 of 3, column 4 of 256: unit {unit}"]
    return [*said, f"words 0 to 2 of its pad: {words(row)}"]


def functions():
    seed = bytes.fromhex("00112233445566778899aabbccddeeff")
    lines = [f"seed: {seed.hex()}"]
    for name in ("aes-128", "chacha20"):
        blocks = " ".join(prf.FUNCTIONS[name](seed, i).hex() for i in (0, 1))
        lines.append(f"{name}, blocks 0 and 1: {blocks}")
    return lines


class Drawn:
    """A generator that returns given numbers."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def words(self, count):
        taken, self.numbers = self.numbers[:count], self.numbers[count:]
        return np.array(taken, np.uint64)


# Roots of the vector in keys.json whose "rng" is 0.
ROOTS = ("a822fd6e7e8265fbb2f7f581d6de3c06", "34f5a6d2ff3f922fc00f8401696a5bdc")


def dpf_key():
    roots = [int.from_bytes(bytes.fromhex(root), "little") for root in ROOTS]
    drawn = Drawn(word for root in roots for word in (root >> 64, root & ((1 << 64) - 1)))
    keys_of = Domain("aes-128", 1027, 1).keys(1025, drawn)
    lines = ["prf, rows, row, shares: aes-128, 1027, 1025, bit"]
    lines += [f"root {party}: {root}" for party, root in enumerate(ROOTS)]
    return lines + [f"key {party}: {key.hex()}" for party, key in enumerate(keys_of)]


def bins():
    grid = {"records": 1000, "record_bytes": 64, "unit_rows": 64, "groups": 1, "columns": 1001}
    binned = protocol_of({"protocol": "dpf-xor", "prf": "aes-128", "shares": "bit", "grid": grid, "bins": 7})
    numbers = listed(binned.bin_of(index) for index in (0, 142, 143, 999))
    last = (binned.record(6, 0), binned.record(6, binned.records_of(6) - 1))
    return [
        "records, record_bytes, unit_rows, columns, bins: 1000, 64, 64, 1001, 7",
        f"rows of a bin: {binned.bin_rows}",
        f"bins of records 0, 142, 143 and 999: {numbers}",
        f"records of bin 6: {last[0]} to {last[-1]}",
        f"bit: query {binned.query_bytes}, answer {binned.answer_bytes}",
    ]


def packed_bins():
    grid = {"records": 1000, "record_bytes": 40, "unit_rows": 96, "groups": 5, "columns": 256}
    sets = {"protocol": "exppack-simple", "set": "module-1280", "ring": "brief", "seed": of(10).hex(), "dropped_bits": 4}
    binned = protocol_of({**sets, "grid": grid})
    places = ", ".join(f"{binned.bin_of(index)} at {binned.grid.place(index)[0]}" for index in (0, 1, 2, 10, 999))
    return [
        "records, record_bytes, unit_rows, groups, columns: 1000, 40, 96, 5, 256",
        f"bins and columns of records 0, 1, 2, 10 and 999: {places}",
        f"records of bin 4: {binned.records_of(4)}, the last is {binned.record(4, binned.records_of(4) - 1)}",
        f"brief, 4 bits dropped: query {binned.query_bytes}, answer {binned.answer_bytes}",
    ]


EXAMPLES = {
    "lengths": lengths,
    "stream": stream,
    "residues": residues,
    "keys-request": keys_request,
    "query-request": query_request,
    "error": error,
    "versions": both_versions,
    "parameters": parameters,
    "signature": signature,
    "record": record,
    "proof": proof,
    "fields": fields,
    "keys": keys,
    "bucket": bucket,
    "widths": widths,
    "copies": copies,
    "rows-per-record": rows_per_record,
    "key-forms": key_forms,
    "rows": rows,
    "changes": changes,
    "places": places,
    "matrix": matrix,
    "rounding": rounding,
    "rounded-hint": rounded_hint,
    "rounded-bodies": rounded_bodies,
    "blinding": blinding,
    "ring-sets": ring_sets,
    "transform": transform,
    "halves": halves,
    "gadgets": gadgets,
    "substitution": substitution,
    "leaves": leaves,
    "rotations": rotations,
    "one-shot": lambda: one_shot({}),
    "short": lambda: one_shot({"queries": "short"}),
    "response": response,
    "pad": pad,
    "prf": functions,
    "dpf-key": dpf_key,
    "bins": bins,
    "packed-bins": packed_bins,
}


def computed(name, text):
    """Computes the text of an example; `text` is its current text."""
    if name not in EXAMPLES:
        sys.exit(f"nobody computes the example {name}")
    lines = EXAMPLES[name](text) if name == "parameters" else EXAMPLES[name]()
    return "".join(f"{line}\n" for line in lines)


def documents():
    return [DOCS / "wire.md", *sorted((DOCS / "wire").glob("*.md"))]


def main():
    if sys.argv[1:] not in (["--check"], ["--write"]):
        sys.exit(__doc__)
    found = set()
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for name, said in BLOCK.findall(text):
            found.add(name)
            right = computed(name, said)
            if said != right and sys.argv[1] == "--check":
                sys.exit(f"{path}: example {name} says\n{said}but the reference client computes\n{right}")
            text = text.replace(f"```example {name}\n{said}```", f"```example {name}\n{right}```")
        if sys.argv[1] == "--write":
            path.write_text(text, encoding="utf-8")
    if found != set(EXAMPLES):
        sys.exit(f"the documents lack the examples {', '.join(sorted(set(EXAMPLES) - found))}")
    print(f"{len(found)} examples")


if __name__ == "__main__":
    main()
