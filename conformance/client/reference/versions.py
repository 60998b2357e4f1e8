"""Checked configurations of databases (wire.md 4)."""

import json
from dataclasses import dataclass

import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from . import table as tables
from .envelope import Message
from .errors import Malformed, Untrusted
from .protocols import protocol_of


@dataclass
class Part:
    """The base or the delta of a version."""

    table: dict
    protocol: object
    hint_hash: bytes
    # Version of the part's snapshot; None if the server does not send the manifest.
    snapshot: bytes | None


@dataclass
class Configuration:
    """Configuration of a version of a database."""

    version: bytes
    base: Part
    delta: Part | None
    max_batch: int
    party: int | None
    versions: list
    signature: dict | None
    bound: bool

    @property
    def parts(self):
        return [part for part in (self.base, self.delta) if part]


def parse_json(data):
    try:
        return json.loads(data)
    except ValueError as error:
        raise Malformed("the configuration has JSON that cannot be read") from error


def _part(message, name, delta_of):
    """Decodes and checks a part of a configuration (wire.md 4.2)."""
    params, table, hint = parse_json(message.bytes(1)), parse_json(message.bytes(2)), message.message(3)
    protocol, manifest = protocol_of(params), message.bytes(7)
    tables.check(table)
    if hint is None:
        raise Malformed("the configuration describes no hint")
    if (table["records"], tables.record_bytes(table)) != (protocol.grid.records, protocol.grid.record_bytes):
        raise Malformed("the table's records are not the protocol's")
    if (message.number(4), message.number(5), message.number(6), hint.number(1)) != protocol.lengths:
        raise Malformed("the configuration's lengths are not those of its parameters")
    if manifest:
        said = parse_json(manifest)
        same = [
            (said["name"], name),
            (said.get("delta_of"), delta_of.hex() if delta_of else None),
            (said["table"], table),
            (said["protocol"], params),
            ((said["hint"]["bytes"], said["hint"]["blake3"]), (hint.number(1), hint.hash(2).hex())),
        ]
        if any(a != b for a, b in same):
            raise Malformed("a manifest says other than what stands beside it")
    snapshot = blake3.blake3(manifest).digest() if manifest else None
    return Part(table, protocol, hint.hash(2), snapshot)


def version_of(base, delta):
    """Returns the version of a base and an optional delta (wire.md 4.1)."""
    if delta is None:
        return base
    context = "spirea 2026 version of a base and its delta"
    return blake3.blake3(base + delta, derive_key_context=context).digest()


def configuration(data, name):
    """Decodes and checks the configuration of the database `name` (wire.md 4.2)."""
    message = Message(data).checked()
    if message.text(2) != name or message.message(4) is None or not message.number(6):
        raise Malformed("the configuration belongs to another database or lacks a part")
    try:
        base = _part(message.message(4), name, None)
        delta = _part(message.message(5), name, base.snapshot) if message.message(5) else None
    except (KeyError, TypeError) as error:
        raise Malformed(f"the configuration lacks {error}") from error
    parts, version = [part for part in (base, delta) if part], message.hash(3)
    bound = all(part.snapshot for part in parts)
    if bound and version_of(*(part.snapshot for part in parts), *[None][: 2 - len(parts)]) != version:
        raise Malformed("the version is not that of the manifests")
    if not bound and any(part.table.get("proofs") for part in parts):
        raise Malformed("nothing binds the roots of inclusion proofs to the version")
    alike = ("fields", "types", "key_form")
    if delta and (
        (delta.table["kind"], delta.protocol.parties) != ("keyword", base.protocol.parties)
        or any(delta.table.get(member) != base.table.get(member) for member in alike)
    ):
        raise Malformed("the delta is not one of its base")
    party = message.number(7) - 1 if message.number(7) else None
    if party not in ((None,) if base.protocol.parties == 1 else (0, 1)):
        raise Malformed("the protocol has no such party")
    signature = parse_json(message.bytes(9)) if message.bytes(9) else None
    return Configuration(version, base, delta, message.number(6), party, message.all(8), signature, bound)


def statement(name, version, sequence, created):
    """Returns the bytes that a signature signs (wire.md 4.8)."""
    texts = b"".join(len(text).to_bytes(8, "little") + text for text in (name.encode(), created.encode()))
    return b"spirea 2026 signed version\0" + texts + version + sequence.to_bytes(8, "little")


def accept(found, name, pinned, least_sequence):
    """Checks that the pinned key has signed the version, and that the version is no older than those seen (wire.md 4.8)."""
    if not found.bound:
        raise Untrusted("the server does not show the manifests, without which a signature vouches for nothing")
    signature = found.signature
    if signature is None or signature["key"] != pinned:
        raise Untrusted(f"{name} is not signed by the pinned key")
    signed = statement(name, found.version, signature["sequence"], signature["created"])
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(pinned)).verify(bytes.fromhex(signature["ed25519"]), signed)
    except (InvalidSignature, ValueError) as error:
        raise Untrusted(f"the signature of {name} is not one of this version") from error
    if signature["sequence"] < least_sequence:
        raise Untrusted(f"the server offers {name} with a lower sequence number than has been seen")


def agree(found):
    """Checks that the servers' configurations agree, and returns one of them (wire.md 4.7)."""
    parties = found[0].base.protocol.parties
    if len(found) != parties:
        raise Malformed(f"this database has {parties} servers: give as many addresses")
    if parties == 2 and sorted(server.party for server in found) != [0, 1]:
        raise Malformed("both addresses are of one party")
    if any(server.version != found[0].version for server in found):
        raise Malformed("the servers do not serve the same version")
    if any(_told(server) != _told(found[0]) for server in found):
        raise Malformed("the servers describe one version differently")
    return found[0]


def _told(found):
    return [(part.table, part.protocol.params, part.hint_hash, part.snapshot) for part in found.parts]
