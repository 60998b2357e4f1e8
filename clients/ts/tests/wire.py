"""Messages as docs/wire.md has them, as far as the tests look into them."""

from __future__ import annotations

from collections.abc import Iterator

# `Error` with code 16, UNKNOWN_KEYS: the server has forgotten the keys that a query names.
UNKNOWN_KEYS = b"\x08\x01\x10\x10\x1a\x04gone\x22\x05again"


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at


def fields(message: bytes) -> Iterator[tuple[int, slice]]:
    """The fields of a message: the number of each, and where its content lies."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        if tag & 7 == 0:
            end = varint(message, at)[1]
        elif tag & 7 == 1:
            end = at + 8
        else:
            length, at = varint(message, at)
            end = at + length
        yield tag >> 3, slice(at, end)
        at = end


def field(message: bytes, number: int) -> bytes:
    """The content of the first field of a number; nothing if there is none."""
    return next((message[place] for found, place in fields(message) if found == number), b"")


def replaced(message: bytes, number: int, content: bytes) -> bytes:
    """The message with another content, as long, in all fields of a number."""
    changed = bytearray(message)
    for found, place in fields(message):
        if found == number:
            assert place.stop - place.start == len(content)
            changed[place] = content
    return bytes(changed)


def keys_named(query: bytes) -> bytes:
    """The hash of the evaluation keys that a query names."""
    return field(query, 4)


def flipped(response: bytes) -> bytes:
    """Each byte of every answer is another one: whatever record was asked for, it is not right."""
    changed = bytearray(response)
    for found, place in fields(response):
        if found == 3:
            changed[place] = bytes(byte ^ 0x80 for byte in changed[place])
    return bytes(changed)


def of_another_version(response: bytes) -> bytes:
    return replaced(response, 2, bytes(32))


def with_newest(response: bytes, version: bytes) -> bytes:
    """As if the server had this version by now."""
    return replaced(response, 6, version)


def one_at_a_time(config: bytes) -> bytes:
    """A configuration that allows a single look-up in a request."""
    at = next(place for number, place in fields(config) if number == 6)
    return config[: at.start] + b"\x01" + config[at.stop :]
