"""Polynomials over several primes: transforms and gadgets (wire.md 11.1 to 11.4)."""

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from .errors import Malformed

DEGREE = 4096  # wire.md 11.1


@dataclass(frozen=True)
class Digits:
    """A gadget of digits in base 2^base; it drops the lowest bits (wire.md 11.4)."""

    levels: int
    base: int
    dropped: int

    def factors(self, primes):
        return [2 ** (self.dropped + i * self.base) % prod(primes) for i in range(self.levels)]


class Residues:
    """A gadget with one digit for each prime (wire.md 11.4)."""

    def factors(self, primes):
        return [prod(primes) // prime for prime in primes]


@dataclass(frozen=True)
class RingSet:
    """A row of the table in wire.md 11.1."""

    primes: tuple
    plaintext_bits: int
    expansion: object
    selector: object
    response_bits: tuple
    dropped_bits: int = 0
    # Bits that the ciphertext of a chunk drops, if that is another number (wire.md 11.8).
    other_dropped_bits: int | None = None
    # Bits of a value of b in keys, and in queries by expansion (wire.md 11.3).
    word_bits: int = 32

    @property
    def chunk_dropped_bits(self):
        return self.dropped_bits if self.other_dropped_bits is None else self.other_dropped_bits

    @property
    def modulus(self):
        return prod(self.primes)

    @property
    def scale(self):
        """Factor of plaintexts, floor(q / p) (wire.md 11.6)."""
        return self.modulus >> self.plaintext_bits

    @property
    def packs(self):
        """True if the set packs bytes, False if its plaintexts are the database's (wire.md 11.1)."""
        return self.plaintext_bits < 20

    @property
    def half_bytes(self):
        """Size of a ciphertext's b half as values, in bytes (wire.md 11.3)."""
        return DEGREE * len(self.primes) * self.word_bits // 8

    @property
    def response_bytes(self):
        """Size of a response's ciphertext in bytes (wire.md 11.7)."""
        return sum(self.response_bits) * DEGREE // 8


# wire.md 11.1.
_PACKING = (536608769, 533463041, 531628033)
_ONION = (134176769, 134111233, 67084289, 67043329)
_CONSERVATIVE = (1073692673, 1073668097, 1073651713)
_ONION_SELECTOR = Digits(3, 22, 42)
SETS = {
    "paper": RingSet(_PACKING, 18, Digits(5, 18, 0), Digits(5, 18, 0), (18, 14)),
    "fast": RingSet(_PACKING, 18, Residues(), Digits(3, 16, 39), (18, 14), 30),
    "brief": RingSet(_PACKING, 18, Digits(2, 29, 29), Digits(3, 16, 39), (18, 14), 30, 41, 29),
    "small": RingSet((1073692673, 1073668097), 17, Digits(8, 7, 6), Digits(3, 9, 33), (18, 14), 8),
    "onion-30": RingSet(_ONION, 30, Digits(5, 19, 12), _ONION_SELECTOR, (41, 37)),
    "onion-32": RingSet(_ONION, 32, Digits(6, 16, 10), _ONION_SELECTOR, (43, 39)),
    "onion-26": RingSet(_CONSERVATIVE, 26, Digits(8, 10, 10), Digits(3, 17, 39), (37, 33)),
}


def ring_set(name, packs):
    """Returns the set of a name, if it is of the right kind (wire.md 11.1)."""
    if name not in SETS or SETS[name].packs != packs:
        raise Malformed(f"no ring set of this protocol is called {name}")
    return SETS[name]


def root_of_unity(prime, order):
    """Returns the canonical root of unity of an order (wire.md 11.2)."""
    candidates = (pow(g, (prime - 1) // order, prime) for g in range(2, prime))
    return next(root for root in candidates if pow(root, order // 2, prime) == prime - 1)


@cache
def twiddles(prime, degree, sign):
    """Returns the powers of the root, or of its inverse, in bit-reversed order."""
    root = pow(root_of_unity(prime, 2 * degree), sign, prime)
    powers = [1]
    for _ in range(degree - 1):
        powers.append(powers[-1] * root % prime)
    bits = degree.bit_length() - 1
    return np.array([powers[int(f"{i:0{bits}b}"[::-1], 2)] for i in range(degree)], np.uint64)


def forward(prime, a):
    """Transforms coefficients to values, along the last axis (wire.md 11.2)."""
    degree, q, groups = a.shape[-1], np.uint64(prime), 1
    table, a = twiddles(prime, degree, 1), a.astype(np.uint64)
    while groups < degree:
        pairs = a.reshape(-1, groups, 2, degree // groups // 2)
        u, v = pairs[:, :, 0], pairs[:, :, 1] * table[groups : 2 * groups, None] % q
        a = np.stack([(u + v) % q, (u + q - v) % q], axis=2).reshape(a.shape)
        groups *= 2
    return a


def inverse(prime, a):
    """Transforms values to coefficients, along the last axis (wire.md 11.2)."""
    degree, q = a.shape[-1], np.uint64(prime)
    table, a, groups = twiddles(prime, degree, -1), a.astype(np.uint64), degree // 2
    while groups:
        pairs = a.reshape(-1, groups, 2, degree // groups // 2)
        u, v = pairs[:, :, 0], pairs[:, :, 1]
        difference = (u + q - v) % q * table[groups : 2 * groups, None] % q
        a = np.stack([(u + v) % q, difference], axis=2).reshape(a.shape)
        groups //= 2
    return a * np.uint64(pow(degree, -1, prime)) % q


class Ring:
    """Arithmetic on polynomials, each an array of residues for each prime."""

    def __init__(self, primes):
        self.primes, self.q = primes, np.array(primes, np.uint64)[:, None]

    def lift(self, integers):
        """Returns the residues of integers, which may be negative and of any size."""
        return np.array([[int(c) % prime for c in integers] for prime in self.primes], np.uint64)

    def forward(self, a):
        return np.stack([forward(prime, row) for prime, row in zip(self.primes, a)])

    def inverse(self, a):
        return np.stack([inverse(prime, row) for prime, row in zip(self.primes, a)])

    def add(self, a, b):
        return (a + b) % self.q

    def subtract(self, a, b):
        return (a + self.q - b) % self.q

    def multiply(self, a, b):
        """Multiplies element by element; on values this is the product of polynomials (wire.md 11.2)."""
        return a * b % self.q

    def scale(self, a, factor):
        return a * np.array([factor % prime for prime in self.primes], np.uint64)[:, None] % self.q

    def substitute(self, a, k):
        """Returns the coefficients of a(X^k) from those of a (wire.md 11.5)."""
        exponents = np.arange(DEGREE) * k % (2 * DEGREE)
        out = np.zeros_like(a)
        out[:, exponents % DEGREE] = np.where(exponents >= DEGREE, (self.q - a) % self.q, a)
        return out

    def centred(self, a):
        """Returns the coefficients as integers of least magnitude."""
        modulus = prod(self.primes)
        parts = [modulus // prime * pow(modulus // prime, -1, prime) for prime in self.primes]
        sums = sum(row.astype(object) * part for row, part in zip(a, parts)) % modulus
        return [int(c) - modulus if c > modulus // 2 else int(c) for c in sums]
