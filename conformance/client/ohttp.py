"""A client of Oblivious HTTP, written from RFC 9458, RFC 9292 and RFC 9180; comments name their sections.

It makes requests and reads responses. It sends nothing itself.
"""

import secrets
import struct
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM (RFC 9180, section 7).
KEM, KDF, AEAD = 0x20, 1, 1
KEY_BYTES, NONCE_BYTES, HASH_BYTES = 16, 12, 32


class Malformed(Exception):
    """A message that is not as in the RFCs."""


# HKDF and its labelled form (RFC 9180, section 4)


def mac(key, data):
    context = hmac.HMAC(key, hashes.SHA256())
    context.update(data)
    return context.finalize()


def extract(salt, material):
    return mac(salt or bytes(HASH_BYTES), material)


def expand(key, info, length):
    out, block = b"", b""
    while len(out) < length:
        block = mac(key, block + info + bytes([len(out) // HASH_BYTES + 1]))
        out += block
    return out[:length]


def labelled_extract(suite, salt, label, material):
    return extract(salt, b"HPKE-v1" + suite + label + material)


def labelled_expand(suite, key, label, info, length):
    return expand(key, struct.pack(">H", length) + b"HPKE-v1" + suite + label + info, length)


def shared_secret(private, public):
    """Returns the secret that a KEM shares with the owner of a public key (section 4.1), and the encapsulated key."""
    suite = b"KEM" + struct.pack(">H", KEM)
    encapsulated = private.public_key().public_bytes_raw()
    exchanged = private.exchange(X25519PublicKey.from_public_bytes(public))
    key = labelled_extract(suite, b"", b"eae_prk", exchanged)
    return labelled_expand(suite, key, b"shared_secret", encapsulated + public, HASH_BYTES), encapsulated


def context(secret, info):
    """Returns the key, the nonce and the exporter's secret of a context in base mode (section 5.1)."""
    suite = b"HPKE" + struct.pack(">HHH", KEM, KDF, AEAD)
    hashed = [labelled_extract(suite, b"", label, text) for label, text in [(b"psk_id_hash", b""), (b"info_hash", info)]]
    schedule = b"\0" + b"".join(hashed)
    key = labelled_extract(suite, secret, b"secret", b"")
    parts = [(b"key", KEY_BYTES), (b"base_nonce", NONCE_BYTES), (b"exp", HASH_BYTES)]
    return [labelled_expand(suite, key, label, schedule, length) for label, length in parts]


def export(secret, label, length):
    """Exports a secret of a context (section 5.3)."""
    suite = b"HPKE" + struct.pack(">HHH", KEM, KDF, AEAD)
    return labelled_expand(suite, secret, b"sec", label, length)


# Binary HTTP (RFC 9292, section 3)


def number(value):
    for code, size in enumerate([1, 2, 4, 8]):
        if value < 1 << 8 * size - 2:
            return (value | code << 8 * size - 2).to_bytes(size, "big")
    raise ValueError(value)


def prefixed(content):
    return number(len(content)) + content


def fields_section(fields):
    return b"".join(prefixed(name.encode()) + prefixed(value.encode()) for name, value in fields.items())


def request(method, path, fields, content, authority="service.example.net", chunks=None, padding=0):
    """Returns a request: of known length, or of indeterminate length with content in chunks of `chunks` bytes."""
    control = b"".join(prefixed(part.encode()) for part in [method, "https", authority, path])
    if chunks is None:
        body = b"\0" + control + prefixed(fields_section(fields)) + prefixed(content) + b"\0"
    else:
        parts = [content[i : i + chunks] for i in range(0, len(content), chunks)]
        body = b"\2" + control + fields_section(fields) + b"\0" + b"".join(map(prefixed, parts)) + b"\0\0"
    return body + bytes(padding)


@dataclass
class Reader:
    """A message that is read from its start."""

    message: bytes
    at: int = 0

    def take(self, length):
        part = self.message[self.at : self.at + length]
        if len(part) != length:
            raise Malformed("the message is cut off")
        self.at += length
        return part

    def number(self):
        first = self.take(1)[0]
        return int.from_bytes(bytes([first & 0x3F]) + self.take((1 << (first >> 6)) - 1), "big")

    def prefixed(self):
        return self.take(self.number())

    def is_over(self):
        return self.at == len(self.message)


@dataclass
class Response:
    """A response with a status, fields by name, and content."""

    status: int
    fields: dict = field(default_factory=dict)
    content: bytes = b""


def read_response(message):
    """Reads a response of known length. Parts that are cut off at the end are empty (section 3.8)."""
    reader = Reader(message)
    if reader.number() != 1:
        raise Malformed("this is no response of known length")
    response = Response(reader.number())
    if not 200 <= response.status <= 599:
        raise Malformed(f"status {response.status}")
    section = Reader(b"" if reader.is_over() else reader.prefixed())
    while not section.is_over():
        name, value = section.prefixed().decode(), section.prefixed().decode()
        if name != name.lower() or not name:
            raise Malformed(f"a field is called {name!r}")
        response.fields[name] = value
    response.content = b"" if reader.is_over() else reader.prefixed()
    return response


# Oblivious HTTP (RFC 9458, sections 3 and 4)


@dataclass(frozen=True)
class KeyConfig:
    """A key configuration: identifier and public key of a gateway with the algorithms of this client."""

    id: int
    public: bytes

    @classmethod
    def read(cls, message):
        """Reads a configuration; None if it is for other algorithms."""
        reader = Reader(message)
        identifier, kem = reader.take(1)[0], int.from_bytes(reader.take(2), "big")
        if kem != KEM:
            return None
        public = reader.take(32)
        suites = Reader(reader.take(int.from_bytes(reader.take(2), "big")))
        listed = set()
        while not suites.is_over():
            listed.add(struct.unpack(">HH", suites.take(4)))
        if not reader.is_over():
            raise Malformed("a key configuration goes on after its end")
        return cls(identifier, public) if (KDF, AEAD) in listed else None

    @classmethod
    def read_list(cls, message):
        """Reads `application/ohttp-keys`. Configurations for other algorithms are left out."""
        reader, configs = Reader(message), []
        while not reader.is_over():
            configs.append(cls.read(reader.take(int.from_bytes(reader.take(2), "big"))))
        return [config for config in configs if config]

    def encapsulate(self, message, private=None):
        """Returns an encapsulated request, and what opens its response."""
        secret, encapsulated = shared_secret(private or X25519PrivateKey.generate(), self.public)
        header = struct.pack(">BHHH", self.id, KEM, KDF, AEAD)
        key, nonce, exporter = context(secret, b"message/bhttp request\0" + header)
        sealed = AESGCM(key).encrypt(nonce, message, b"")
        return header + encapsulated + sealed, Pending(exporter, encapsulated)


@dataclass(frozen=True)
class Pending:
    """A request whose response is awaited."""

    exporter: bytes
    encapsulated: bytes

    def keys(self, nonce):
        length = max(KEY_BYTES, NONCE_BYTES)
        secret = export(self.exporter, b"message/bhttp response", length)
        key = extract(self.encapsulated + nonce, secret)
        return AESGCM(expand(key, b"key", KEY_BYTES)), expand(key, b"nonce", NONCE_BYTES)

    def open(self, message):
        """Returns the message of an encapsulated response."""
        nonce, sealed = message[:KEY_BYTES], message[KEY_BYTES:]
        aead, iv = self.keys(nonce)
        try:
            return aead.decrypt(iv, sealed, b"")
        except InvalidTag as error:
            raise Malformed("the response cannot be decrypted") from error

    def seal(self, message, nonce=None):
        """Encrypts a response as a gateway does, for tests of this client."""
        nonce = nonce or secrets.token_bytes(KEY_BYTES)
        aead, iv = self.keys(nonce)
        return nonce + aead.encrypt(iv, message, b"")
