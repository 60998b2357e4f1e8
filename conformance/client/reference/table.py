"""Tables: records with checksums and proofs, values, keys (wire.md 5)."""

import base64
import binascii
from bisect import bisect_right
from itertools import accumulate

import blake3

from . import forms
from .errors import Malformed, Unverified
from .streams import take_length

TAG_BYTES, CHECKSUM_BYTES, HASH_BYTES = 12, 8, 16
# wire.md 5.8: most widths in bytes, of a table with one copy of each entry and with several, and most characters of base64.
MAX_WIDTHS, MAX_WIDTHS_OF_COPIES, MAX_WIDTHS_TEXT = 65536, 1 << 21, 2796204
# wire.md 5.9.
MAX_ROWS_PER_RECORD = 4096
MAX_FIELDS = 4096
# wire.md 5.12: copies of each entry, if there are several.
COPIES = 3
# wire.md 4.4.
MIN_KEY_QUERIES, MAX_KEY_QUERIES = 64, 1024
# wire.md 4.4: most levels, most roots, and most characters of the roots in base64.
MAX_LEVELS, MAX_ROOTS, MAX_ROOTS_TEXT = 40, 4096, 87384


# Members of every table (wire.md 4.4).
MEMBERS = {"kind", "entries", "records", "payload_bytes", "salt", "fields"}


def check(table):
    """Checks a table's members (wire.md 4.4)."""
    optional = {"proofs", "widths", "rows_per_record", "max_value_bytes", "key_queries", "types", "key_form", "copies"}
    others = set(table) - optional
    if others != (MEMBERS | {"places"} if table["kind"] == "keyword" else MEMBERS):
        raise Malformed("the table has other members than those of its kind")
    if table["kind"] not in ("index", "keyword") or min(table["records"], table["payload_bytes"]) < 1:
        raise Malformed("the table's kind or one of its numbers is out of range")
    if not (0 if table["kind"] == "keyword" else 1) <= len(table["fields"]) <= MAX_FIELDS:
        raise Malformed("the table has too many fields or too few")
    of_widths, in_record = widths(table), table.get("rows_per_record", 1)
    if "rows_per_record" in table and (of_widths or table["kind"] != "index" or not 2 <= in_record <= MAX_ROWS_PER_RECORD):
        raise Malformed("the table's rows_per_record is out of range, or it has none")
    if of_widths:
        if len(of_widths) != table["records"] or (table["kind"] == "index" and sum(of_widths) > table["entries"]):
            raise Malformed("the table's widths are not those of its records")
    elif table["kind"] == "index" and -(-table["entries"] // in_record) != table["records"]:
        raise Malformed("an index table without widths has rows_per_record rows in each record")
    if "copies" in table and (table["copies"] != COPIES or table["kind"] != "keyword"):
        raise Malformed("the table's copies are out of range, or it has no keys")
    if not MIN_KEY_QUERIES <= table.get("key_queries", MAX_KEY_QUERIES) <= MAX_KEY_QUERIES:
        raise Malformed("the table's key_queries is out of range")
    forms.check(table)
    if table.get("proofs"):
        levels = table["proofs"]["levels"]
        expected = -(-table["records"] // 2**levels) if levels <= MAX_LEVELS else 0
        if len(roots(table)) != expected or not 1 <= expected <= MAX_ROOTS:
            raise Malformed("the table's proofs do not have the roots of its records")


def keyed(key, *parts):
    """Returns a BLAKE3 hasher under a key, after the parts (wire.md 1.3)."""
    hasher = blake3.blake3(key=key)
    for part in parts:
        hasher.update(part)
    return hasher


def tag(salt, key):
    """Returns the tag of a key (wire.md 5.6)."""
    return keyed(salt, b"spirea key v2", key).digest(length=TAG_BYTES)


def places(table, key_tag):
    """Returns the places of a tag's copies, numbers of 64 bits (wire.md 5.6, 5.12)."""
    copies = table.get("copies", 1)
    hashed = keyed(bytes.fromhex(table["places"]), b"spirea place v1", key_tag).digest(length=8 * copies)
    return [int.from_bytes(hashed[8 * i : 8 * i + 8], "big") for i in range(copies)]


def widths(table):
    """Returns the widths of the table's buckets; empty if it has none (wire.md 5.8)."""
    text = table.get("widths", "")
    try:
        found = base64.b64decode(text, validate=True) if len(text) <= MAX_WIDTHS_TEXT else b""
    except binascii.Error as error:
        raise Malformed("the widths are no base64") from error
    most = MAX_WIDTHS_OF_COPIES if "copies" in table else MAX_WIDTHS
    if ("widths" in table and not 1 <= len(found) <= most) or 0 in found:
        raise Malformed("the widths are out of range")
    return found


def buckets(table, key_tag):
    """Returns the buckets of a tag's copies (wire.md 5.6, 5.8, 5.12)."""
    of_widths = widths(table)
    units = [place * (sum(of_widths) or table["records"]) >> 64 for place in places(table, key_tag)]
    ends = list(accumulate(of_widths))
    return [bisect_right(ends, unit) for unit in units] if of_widths else units


def row(table, index):
    """Returns the record of a row, and the row's number in the record (wire.md 5.4, 5.8, 5.9)."""
    of_widths, rows = widths(table), table["entries"]
    if not of_widths:
        return divmod(index, table.get("rows_per_record", 1))
    units = sum(of_widths)
    ends = [-(-end * rows // units) for end in accumulate(of_widths)]
    record = bisect_right(ends, index)
    return record, index - (ends[record - 1] if record else 0)


def proof_bytes(table):
    """Returns the size of an inclusion proof in bytes (wire.md 5.3)."""
    return HASH_BYTES * table["proofs"]["levels"] if table.get("proofs") else 0


def record_bytes(table):
    """Returns the size of a record in bytes (wire.md 5.1)."""
    return table["payload_bytes"] + proof_bytes(table) + CHECKSUM_BYTES


def checksum(salt, index, sealed):
    """Returns the checksum of a record (wire.md 5.2)."""
    return keyed(salt, b"spirea record v1", index.to_bytes(8, "little"), sealed).digest(length=CHECKSUM_BYTES)


def roots(table):
    """Decodes the roots of the table's proofs (wire.md 4.4)."""
    text = table["proofs"]["roots"]
    try:
        found = base64.b64decode(text, validate=True) if len(text) <= MAX_ROOTS_TEXT else b"none"
    except binascii.Error as error:
        raise Malformed("the roots are no base64") from error
    if len(found) % HASH_BYTES:
        raise Malformed("the roots are no hashes")
    return [found[at : at + HASH_BYTES] for at in range(0, len(found), HASH_BYTES)]


def leaf(salt, index, payload):
    """Returns the leaf of a record with this padded payload (wire.md 5.3)."""
    return keyed(salt, b"spirea leaf v2", index.to_bytes(8, "little"), payload).digest(length=HASH_BYTES)


def node(salt, level, at, left, right):
    """Returns the hash of a node from its level, its place and its children (wire.md 5.3)."""
    named = level.to_bytes(4, "little") + at.to_bytes(8, "little")
    return keyed(salt, b"spirea node v2", named, left, right).digest(length=HASH_BYTES)


def proven(table, index, payload, proof):
    """True if a proof leads from a record to its root (wire.md 5.3)."""
    salt = bytes.fromhex(table["proofs"]["salt"])
    here, at = leaf(salt, index, payload), index
    for level, start in enumerate(range(0, len(proof), HASH_BYTES), 1):
        sibling = proof[start : start + HASH_BYTES]
        pair = (sibling, here) if at & 1 else (here, sibling)
        at >>= 1
        here = node(salt, level, at, *pair)
    known = roots(table)
    return at < len(known) and here == known[at]


def unseal(table, index, record):
    """Verifies a record and returns its padded payload (wire.md 5.1 to 5.3)."""
    payload_bytes, salt = table["payload_bytes"], bytes.fromhex(table["salt"])
    sealed, found = record[:-CHECKSUM_BYTES], record[-CHECKSUM_BYTES:]
    if len(record) != record_bytes(table) or checksum(salt, index, sealed) != found:
        raise Unverified("the answer fails its checksum: it is withheld")
    payload, proof = sealed[:payload_bytes], sealed[payload_bytes:]
    if table.get("proofs") and not proven(table, index, payload, proof):
        raise Unverified("the record is not the one that the operator sealed: it is withheld")
    return payload


def _take(data, at):
    """Decodes bytes with a length prefix. Also returns the position after them."""
    length, at = take_length(data, at)
    if at + length > len(data):
        raise Malformed("a value is cut off")
    return data[at : at + length], at + length


def index_value(payload):
    """Returns the value of a row; None if it was deleted (wire.md 5.4)."""
    if payload[:1] == b"\x80" and payload[1:2] in (b"", b"\0"):
        return None
    return _take(payload, 0)[0]


def row_value(payload, number):
    """Returns the value of a row in a record of several rows; None if it was deleted (wire.md 5.4)."""
    at = 0
    for _ in range(number):
        at = at + 2 if payload[at : at + 2] == b"\x80\0" else _take(payload, at)[1]
    return index_value(payload[at:])


def bucket_value(payload, key_tag):
    """Returns the value under a tag in a bucket; None if there is none (wire.md 5.7)."""
    count, at = take_length(payload, 0)
    found = None
    for _ in range(count):
        entry, at = payload[at : at + TAG_BYTES], at + TAG_BYTES
        value, at = _take(payload, at)
        if entry == key_tag:
            found = value
    return found


def split_fields(table, value):
    """Splits a value into its fields (wire.md 5.5)."""
    if len(table["fields"]) == 1:
        return [value]
    parts, at = [], 0
    for _ in table["fields"]:
        part, at = _take(value, at)
        parts.append(part)
    if at != len(value):
        raise Malformed("a value has bytes behind its fields")
    return parts
