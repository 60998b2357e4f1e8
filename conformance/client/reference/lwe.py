"""Learning with errors modulo 2^32: encrypted unit vectors, and phases of bytes (wire.md 8)."""

import blake3
import numpy as np

from .errors import Malformed
from .sample import noise, ternary
from .streams import chacha20

RING = 256  # wire.md 8.1: degree of the structured matrix's ring
# wire.md 8.1: the length of a secret, and True if the matrix is structured.
SETS = {"module-1280": (1280, True), "module-1536": (1536, True), "paper": (1280, False)}
MAX_COLUMNS = 1 << 20
PANEL_ROWS = 32  # wire.md 12.1
MAX_COLUMNS_OF_BINS = 1 << 22  # wire.md 12.1
MAX_DROPPED_BITS = 8  # wire.md 8.7
LEAST_HINT_BITS = 16  # wire.md 8.6
FIELD = 257  # wire.md 8.8


def matrix_key(seed, fold):
    """Returns the key of the stream of the public matrix of a first or second fold (wire.md 8.2)."""
    context = f"spirea v2: public matrix of the {('first', 'second')[fold]} fold"
    return blake3.blake3(seed, derive_key_context=context).digest()


def bin_matrix_key(seed, bin_number):
    """Returns the key of the stream of the public matrix of a bin (wire.md 8.2)."""
    if bin_number == 0:
        return matrix_key(seed, 0)
    context = "spirea v2: public matrix of a bin"
    return blake3.blake3(seed + bin_number.to_bytes(8, "little"), derive_key_context=context).digest()


class PublicMatrix:
    """The public matrix A, with a row for each column of the database (wire.md 8.2)."""

    def __init__(self, name, key, columns):
        if name not in SETS:
            raise Malformed(f"no LWE set is called {name}")
        self.key, self.columns = key, columns
        self.degree, self.structured = SETS[name]

    def rows(self, block):
        """Returns rows 256 block to 256 block + 255."""
        if not self.structured:
            return chacha20(self.key, range(RING * block, RING * (block + 1)), self.degree)
        stream = chacha20(self.key, [block], self.degree)[0].reshape(-1, RING)
        i, j = np.arange(RING)[:, None], np.arange(RING)[None, :]
        # Row i of the square matrix of polynomial a: a[i - j] for j <= i, and -a[256 + i - j] for j > i.
        squares = [np.where(i >= j, a[(i - j) % RING], -a[(i - j) % RING]) for a in stream]
        return np.concatenate(squares, axis=1)

    def times(self, secret):
        """Returns A s modulo 2^32, for whole blocks of 256 columns."""
        blocks = -(-self.columns // RING)
        return np.concatenate([inner(self.rows(block), secret) for block in range(blocks)])


def inner(rows, secret):
    """Multiplies rows of words by a secret, modulo 2^32."""
    return rows @ secret.astype(np.uint32)


class Blinding:
    """A secret factor of a unit vector, in the field with 257 elements (wire.md 8.8)."""

    def __init__(self, factor):
        self.factor, self.inverse = factor, pow(factor, -1, FIELD)

    @classmethod
    def drawn(cls, rng):
        return cls(rng.bytes(1)[0] + 1)

    @property
    def word(self):
        return (2 * self.factor * 2**32 + FIELD) // (2 * FIELD)

    def numbers(self, phases, bits):
        """Decodes phases, fractions of 2^bits, to numbers: bytes, or 256."""
        nearest = ((2 * FIELD * int(phase) + 2**bits) >> bits + 1 for phase in phases)
        return np.array([number * self.inverse % FIELD for number in nearest], np.uint16)


class BlindingOfBins:
    """The factors of the unit vectors under one secret, one for the rows of each bin (wire.md 12.1)."""

    def __init__(self, factors, rows):
        self.factors, self.rows = factors, rows

    def numbers(self, phases, bits):
        """Decodes the phases of all rows as `Blinding.numbers` does; those after the last bin are dropped."""
        phases = list(phases)
        each = (phases[first * self.rows : (first + 1) * self.rows] for first in range(len(self.factors)))
        return np.concatenate([factor.numbers(own, bits) for factor, own in zip(self.factors, each)])


def encrypt_unit(matrix, position, rng, secret=None, dropped=0):
    """Encrypts the unit vector of a position. Returns the bodies as bytes, without their lowest bits; the secret; the factor.

    The vector is multiplied by the factor (wire.md 8.7, 8.8). The secret is fresh unless given.
    """
    if secret is None:
        secret = ternary(rng, matrix.degree)
    factor = Blinding.drawn(rng)
    bodies = encrypted(matrix, position, factor.word, secret, rng)
    return upper_bits(round_bodies(bodies, dropped, rng)[: matrix.columns], dropped), secret, factor


def encrypt_plain_unit(matrix, position, rng):
    """Encrypts the unit vector of a position. Returns the bodies as bytes, and the secret (wire.md 8.3)."""
    secret = ternary(rng, matrix.degree)
    return upper_bits(encrypted(matrix, position, 1 << 24, secret, rng)[: matrix.columns], 0), secret


def encrypted(matrix, position, word, secret, rng):
    """Returns the bodies of whole blocks of columns, with a word added at the position."""
    product = matrix.times(secret)
    bodies = noise(rng, len(product)).astype(np.uint32) - product
    bodies[position : position + 1] += np.uint32(word)
    return bodies


def round_bodies(bodies, dropped, rng):
    """Rounds bodies to multiples of 2^dropped, halves up or down at random (wire.md 8.7)."""
    if dropped == 0:
        return bodies
    coins = np.unpackbits(np.frombuffer(rng.bytes(len(bodies) // 8), np.uint8), bitorder="little")
    raised = bodies + np.uint32((1 << dropped - 1) - 1) + coins
    return raised >> np.uint32(dropped) << np.uint32(dropped)


def upper_bits(bodies, dropped):
    """Encodes bodies for the wire, without their dropped bits (wire.md 8.7)."""
    bits = np.unpackbits((bodies >> np.uint32(dropped)).astype("<u4").view(np.uint8), bitorder="little")
    return np.packbits(bits.reshape(-1, 32)[:, : 32 - dropped], bitorder="little").tobytes()


def bodies_bytes(bodies, dropped):
    """Returns the bytes of `bodies` bodies on the wire (wire.md 8.7)."""
    return bodies * (32 - dropped) // 8


def words(data):
    """Decodes rounded words (wire.md 8.5)."""
    return np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)


def nearest_bytes(phases):
    """Decodes phases to bytes (wire.md 8.4)."""
    return ((phases + np.uint32(1 << 23)) >> np.uint32(24)).astype(np.uint8)


def hint_bytes(entries, bits):
    """Returns the bytes of `entries` numbers of a hint (wire.md 8.6)."""
    return entries * bits // 8


def hint_rows(data, degree, bits):
    """Decodes the rows of a hint with `bits` bits a number to words (wire.md 8.6)."""
    # Eight numbers take `bits` bytes. A number lies in at most five of them.
    groups = np.frombuffer(data, np.uint8).reshape(-1, bits)
    rows = np.empty((len(groups), 8), np.uint32)
    for i in range(8):
        start = i * bits // 8
        loaded = np.zeros(len(groups), np.uint64)
        for at, column in enumerate(groups[:, start : start + 5].T):
            loaded |= column.astype(np.uint64) << np.uint64(8 * at)
        rows[:, i] = (loaded >> np.uint64(i * bits % 8)).astype(np.uint32) << np.uint32(32 - bits)
    return rows.reshape(-1, degree)


def round_hint(entries, bits):
    """Encodes words as a hint with `bits` bits a number, rounded to the nearest (wire.md 8.6)."""
    half = np.uint32(1 << 32 - bits >> 1)
    return upper_bits(entries.reshape(-1) + half, 32 - bits)
