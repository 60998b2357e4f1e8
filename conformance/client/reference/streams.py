"""Public streams of words, and the source of secrets."""

import os

import numpy as np

from .errors import Malformed

# wire.md 1.4: "expand 32-byte k".
CONSTANTS = np.array([0x61707865, 0x3320646E, 0x79622D32, 0x6B206574], np.uint32)


class OsRandom:
    """Randomness of the operating system, without a generator in between (wire.md 14)."""

    def words(self, count):
        """Draws uniform numbers of 64 bits."""
        return np.frombuffer(self.bytes(8 * count), "<u8")

    def bytes(self, count):
        return os.urandom(count)


def _quarter(x, a, b, c, d):
    for to, other, mixed, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[to] += x[other]
        word = x[mixed] ^ x[to]
        x[mixed] = (word << np.uint32(turn)) | (word >> np.uint32(32 - turn))


def chacha20(key, nonces, words):
    """Returns the first words of the keystream for each nonce, one row each (wire.md 1.4)."""
    blocks = -(-words // 16)
    nonces = np.repeat(np.asarray(nonces, np.uint64), blocks)
    counters = np.tile(np.arange(blocks, dtype=np.uint64), len(nonces) // blocks)
    lanes = np.ones(len(nonces), np.uint32)
    state = [word * lanes for word in (*CONSTANTS, *np.frombuffer(key, "<u4"))]
    for number in (counters, nonces):
        state += [(number & np.uint64(0xFFFFFFFF)).astype(np.uint32), (number >> np.uint64(32)).astype(np.uint32)]
    x = [word.copy() for word in state]
    for _ in range(10):
        for i in range(4):
            _quarter(x, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            _quarter(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    keystream = np.stack([word + initial for word, initial in zip(x, state)], axis=1)
    return keystream.reshape(-1, 16 * blocks)[:, :words]


def residues(seed, streams, prime, count):
    """Returns the first `count` residues of each stream of a seed, one row each (wire.md 1.5)."""
    mask = np.uint32((1 << prime.bit_length()) - 1)
    words = count + count // 16 + 64
    while True:
        candidates = chacha20(seed, streams, words) & mask
        below = candidates < prime
        if below.sum(axis=1).min() >= count:
            return np.stack([row[keep][:count] for row, keep in zip(candidates, below)])
        words *= 2


def take_length(data, at):
    """Decodes a length of at most five bytes. Also returns the position after it (wire.md 1.2)."""
    value = 0
    for i in range(5):
        if at + i >= len(data):
            break
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if byte == 0 and i > 0:
                break
            return value, at + i + 1
    raise Malformed("a length is cut off or not in its shortest form")


def length_bytes(value):
    """Encodes a length (wire.md 1.2)."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))
