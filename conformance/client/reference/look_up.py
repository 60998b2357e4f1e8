"""Look-ups: queries to base and delta, and the combination of their answers (wire.md 6, 14)."""

import os

import blake3

from . import envelope, forms, table, versions
from .errors import BadRequest, Malformed, Refused
from .prf import WEAK
from .transport import Server

MAX_REQUEST_BYTES = 64 << 20
AFFINITY = "spirea 2026 affinity of keys"  # wire.md 2.2
# Result of a fetch for a value that the query did not bring.
DROPPED = "dropped"


class Client:
    """A client of one version of a database, for a single look-up of any number of keys."""

    def __init__(self, urls, name, rng, options):
        self.name, self.rng, self.options = name, rng, options
        self.servers = [Server(url, name, options.token) for url in urls]
        self.connect()

    def connect(self):
        """Fetches configurations and hints, and draws secrets. The keys are uploaded with the first query."""
        found = [versions.configuration(server.config(), self.name) for server in self.servers]
        if len(found) == 2 and found[0].version != found[1].version:
            common = [version for version in found[0].versions if version in found[1].versions]
            if common:
                described = [server.config(common[0]) for server in self.servers]
                found = [versions.configuration(data, self.name) for data in described]
        self.found = versions.agree(found)
        if len(found) == 2:
            self.servers = [server for _, server in sorted(zip([f.party for f in found], self.servers))]
        self.max_batch = min(f.max_batch for f in found)
        if self.options.pin_key:
            versions.accept(self.found, self.name, self.options.pin_key, self.options.least_sequence)
        secrets = {}
        for part in self.found.parts:
            prf = part.protocol.params.get("prf")
            if prf in WEAK and not self.options.accept_weak_prf:
                raise BadRequest(f"the database is asked under {prf}, which has little analysis: --accept-weak-prf")
            length = part.protocol.hint_bytes
            hint = self.servers[0].hint(part.hint_hash, length) if length else b""
            part.protocol.open(hint, secrets, self.rng)

    def register(self):
        """Uploads the evaluation keys; if base and delta have the same keys, only once (wire.md 2.5)."""
        uploaded = set()
        for part in self.found.parts:
            keys = part.protocol.keys
            if keys and keys not in uploaded:
                request = envelope.keys_request(self.found.version, keys, part is self.found.delta)
                for server in self.servers:
                    server.register(request, keys, self.affinity())
                uploaded.add(keys)

    def look_up(self, keys=(), indices=()):
        """Looks up keys or indices. Returns each value as a list of fields; None for a key or row that the table does not
        have.

        All requests are sent before the first answer is decoded, so a server's view does not depend on whether its answers
        verify (wire.md 14).
        """
        kind = self.found.base.table["kind"]
        if (kind == "keyword") != bool(keys):
            raise BadRequest(f"this table is looked up by {'key' if kind == 'keyword' else 'index'}")
        wanted = [(self.in_form(key), None) for key in keys] or [(index.to_bytes(8, "little"), index) for index in indices]
        each = sum(part.protocol.query_bytes for part in self.found.parts)
        most = max(1, min(self.max_batch, MAX_REQUEST_BYTES // each))
        if any(part.protocol.keys for part in self.found.parts):
            self.register()
        answered = []
        for start in range(0, len(wanted), most):
            answered += self.request(wanted[start : start + most])
        return [self.decode(*one) for one in answered]

    def fetch(self, keys=(), indices=()):
        """Fetches values with one query, which brings one of each bin; DROPPED for a value whose bins earlier ones use.

        The records of all bins are verified, including dummies, so a server does not learn from a refusal which records were
        wanted (wire.md 13.7).
        """
        part = self.found.base
        if self.found.delta is not None or not hasattr(part.protocol, "fetch"):
            raise BadRequest("a version with a delta, or of a protocol without bins, is asked for one value at a time")
        wanted = [self.place(part, self.in_form(key), None) for key in keys] or [
            self.place(part, None, index) for index in indices
        ]
        if part.protocol.keys:
            self.register()
        queries, _, state = part.protocol.fetch([copies for copies, _ in wanted], self.rng)
        responses = self.exchange([[queries]], 1)
        records = part.protocol.decode_fetch(state, [response[0][0] for response in responses])
        payloads = {record: table.unseal(part.table, record, sealed) for record, sealed in records.items()}
        held = [next((payloads[record] for record in copies if record in payloads), None) for copies, _ in wanted]
        return [self.brought(part, payload, entry) for payload, (_, entry) in zip(held, wanted)]

    def in_form(self, key):
        """Returns the normal form of a key (wire.md 5.11)."""
        return forms.in_form(self.found.base.table.get("key_form"), key)

    def brought(self, part, payload, entry):
        """Returns the fields of an entry in a fetched payload; DROPPED without a payload."""
        if payload is None:
            return DROPPED
        value = self.entry_of(part, payload, entry)
        return None if value is None else table.split_fields(part.table, value)

    def ask(self, part, key, index):
        """Makes the queries of one look-up to one part. Also returns the state for decoding (wire.md 5.6, 6.1)."""
        copies, entry = self.place(part, key, index)
        queries, state = part.protocol.query(copies[0], self.rng)
        return queries, (part, copies[0], entry, state)

    def place(self, part, key, index):
        """Returns the records with the copies of a key or row in a part, and its entry in them (wire.md 5.6, 5.12, 6.1)."""
        if part.table["kind"] == "keyword":
            entry = table.tag(bytes.fromhex(part.table["salt"]), key)
            return table.buckets(part.table, entry), entry
        if self.beyond_base(index):
            record, entry = table.row(part.table, 0)
        elif index < part.table["entries"]:
            record, entry = table.row(part.table, index)
        else:
            raise BadRequest(f"no such record: the table has records 0 to {part.table['entries'] - 1}")
        return [record], entry

    def beyond_base(self, index):
        """True if only the delta can have the row; the base is then asked for row 0 (wire.md 6.3)."""
        return self.found.delta is not None and index is not None and index >= self.found.base.table["entries"]

    def request(self, wanted):
        """Sends one request with some look-ups to all servers. Returns the states with the answers."""
        asked = [[self.ask(part, key, index) for key, index in wanted] for part in self.found.parts]
        responses = self.exchange([[queries for queries, _ in of_part] for of_part in asked], len(wanted))
        answered = []
        for i, (_, index) in enumerate(wanted):
            parts = [(of_part[i][1], [response[p][i] for response in responses]) for p, of_part in enumerate(asked)]
            answered.append((index, parts))
        return answered

    def exchange(self, asked, count):
        """Sends the queries of each part, by look-up and party. Returns the answers of each server for each part."""
        keys = [part.protocol.keys for part in self.found.parts]
        hashes = [blake3.blake3(bytes_of).digest() if bytes_of else b"" for bytes_of in keys]
        lengths = [part.protocol.answer_bytes for part in self.found.parts]
        if len(asked) == 1:
            asked, hashes, lengths = [*asked, []], [*hashes, b""], [*lengths, None]
        responses = []
        for party, server in enumerate(self.servers):
            base, delta = ([queries[party] for queries in of_part] for of_part in asked)
            request = envelope.query_request(self.found.version, base, hashes[0], delta, hashes[1])
            limit = 1024 + count * sum(length + 11 for length in lengths if length is not None)
            data = self.send(server, request, limit)
            responses.append(envelope.query_response(data, self.found.version, count, *lengths))
        return responses

    def send(self, server, request, limit):
        """Sends a request. If the server does not know the keys, sends it once more with the keys (wire.md 2.5)."""
        request_id = os.urandom(16).hex()
        try:
            return server.query(request, request_id, limit, self.affinity())
        except Refused as refused:
            keys = [part.protocol.keys or b"" for part in self.found.parts]
            if refused.code != "UNKNOWN_KEYS" or refused.accepted or not any(keys):
                raise
        base, delta = (*keys, b"")[:2]
        request = envelope.with_keys(request, base, b"" if delta == base else delta)
        return server.query(request, request_id, limit, self.affinity())

    def affinity(self):
        """Returns the value of the header by which a balancer may choose the replica (wire.md 2.2); None without keys."""
        keys = [part.protocol.keys for part in self.found.parts if part.protocol.keys]
        if not keys:
            return None
        digest = blake3.blake3(blake3.blake3(keys[0]).digest(), derive_key_context=AFFINITY).digest()
        return digest[:16].hex()

    def decode(self, index, parts):
        """Decodes the answers of all parts; the delta overrides the base (wire.md 6.2)."""
        values = [self.value(*state, answers) for state, answers in parts]
        value = values[0]
        if len(values) == 2 and values[1] is not None:
            kind, rest = values[1][:1], values[1][1:]
            if kind not in (b"\0", b"\1") or (kind == b"\0" and rest):
                raise Malformed("a change is neither a value nor a deletion")
            value = rest if kind == b"\1" else None
        elif self.beyond_base(index):
            raise BadRequest("the table has no such entry")
        return None if value is None else table.split_fields(self.found.base.table, value)

    def value(self, part, record, entry, state, answers):
        """Decodes the answer of one part. Checks the whole answer before using any of it (wire.md 5)."""
        payload = table.unseal(part.table, record, part.protocol.decode(state, answers))
        return self.entry_of(part, payload, entry)

    @staticmethod
    def entry_of(part, payload, entry):
        """Returns the value of an entry in a payload."""
        if part.table["kind"] == "keyword":
            return table.bucket_value(payload, entry)
        return table.row_value(payload, entry)
