#!/usr/bin/env python3
"""Makes test vectors of the noise of ring steps and of onion's bound with a second implementation, from the documents'
formulas.

Usage: noise_vectors.py --write | --check

--write makes crates/lattice/tests/vectors/noise.txt; --check computes it again and fails if a number differs. A line has the
name of a number, its arguments, and its value. docs/protocols/ring.md has the closed forms, and onion.md the bound. Step
numbers in the comments are those of the theorem in onion.md.
"""

import math
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "crates" / "lattice" / "tests" / "vectors" / "noise.txt"
N = 4096
VARIANCE = 3.2**2
TERNARY = 2 / 3
EXCEPTION = -128.0
# Factor for small terms of squares, and weights of the roundings of substitutions and of a response.
SMALL, DROPPED, SWITCHED = 1.01, 66, 1.1

PACKING = [536608769, 533463041, 531628033]
SHORT = [1073692673, 1073668097]
ONION = [134176769, 134111233, 67084289, 67043329]
CONSERVATIVE = [1073692673, 1073668097, 1073651713]
# Sets of parameters: primes, bits of plaintexts, gadgets of the expansion and of selectors (digits, their bits, dropped bits;
# None for residues), bits of a response's halves, and bits that a rounded query drops, and a chunk's own ciphertext.
SETS = {
    "paper": (PACKING, 18, (5, 18, 0), (5, 18, 0), (18, 14), 0, 0),
    "fast": (PACKING, 18, None, (3, 16, 39), (18, 14), 30, 30),
    "brief": (PACKING, 18, (2, 29, 29), (3, 16, 39), (18, 14), 30, 41),
    "small": (SHORT, 17, (8, 7, 6), (3, 9, 33), (18, 14), 8, 8),
    "onion-30": (ONION, 30, (5, 19, 12), (3, 22, 42), (41, 37), 0, 0),
    "onion-32": (ONION, 32, (6, 16, 10), (3, 22, 42), (43, 39), 0, 0),
    "onion-26": (CONSERVATIVE, 26, (8, 10, 10), (3, 17, 39), (37, 33), 0, 0),
}


def excess(freedom, log2):
    """Returns the x > 1 with exp(-freedom (x - 1 - ln x) / 2) = 2^log2."""
    needed, low, high = -2 * log2 * math.log(2) / freedom, 1.0, 1e9
    for _ in range(300):
        middle = (low + high) / 2
        if middle - 1 - math.log(middle) < needed:
            low = middle
        else:
            high = middle
    return high


class Set:
    """A set of parameters, with the mean squares of its gadgets."""

    def __init__(self, name):
        self.name = name
        self.primes, self.bits, self.expansion, self.selector, self.response, *dropped = SETS[name]
        self.dropped = dict(zip(("rounded", "apart"), dropped, strict=True))
        self.q = math.prod(self.primes)

    def highest(self, gadget):
        """Returns log2 of the width of a gadget's highest digit."""
        digits, bits, dropped = gadget
        return math.log2(self.q) - dropped - (digits - 1) * bits

    def squares(self, gadget):
        """Returns the mean squares of a gadget's digits, and of its dropped part."""
        if gadget is None:
            return [prime**2 / 12 for prime in self.primes], 0.0
        digits, bits, dropped = gadget
        squares = [4.0**bits / 12] * (digits - 1) + [4 ** self.highest(gadget) / 12]
        return squares, 4.0**dropped / 12 if dropped else 0.0

    def ragged(self, gadget):
        """Step 6: returns the logarithm of the factor by which digits are likelier than independent ones."""
        return 0.0 if gadget is None else 2 * N / 2 ** self.highest(gadget)


def closed_forms(name, levels, kind):
    """Returns the values of the table in ring.md."""
    ring, secret = Set(name), TERNARY * N
    squares, dropped = ring.squares(ring.expansion)
    digits = sum(squares)
    substitution = N * VARIANCE * digits + dropped * secret
    expanded = (2**levels - 1) * substitution
    encrypted = 0.0 if kind == "new" else VARIANCE + 4.0 ** ring.dropped[kind] / 12
    leaf = expanded + 4.0**levels * encrypted
    converted = leaf * secret + 2 * N * digits * VARIANCE + dropped * (1 + secret) * secret
    selector, lost = ring.squares(ring.selector)
    uniform = 4.0**ring.bits / 12
    a, b = ring.response

    def fold(columns, square):
        return columns * N * square * leaf

    def rotated(entries, chunks, steps, images=N, row=VARIANCE):
        """Returns the noise of packing by rotations. A leaf of a chunk is an image under 5^i or -5^i: i substitutions, and one
        for the sign. Encryption adds to `images` of N products. `row` is the variance of a row of the big step's key."""
        small = 2 * steps
        big = entries // small
        products = sum(expanded + (i + sign) * substitution for i in range(steps) for sign in (0, 1))
        of_query = encrypted * N * images * chunks * entries * uniform
        big_step = N * row * digits + dropped * secret
        return N * entries * uniform * chunks * big * products + of_query + (big - 1) * big_step

    def apart(entries, chunks, steps):
        """Returns the noise of packing chunks that have their own ciphertexts, with a derived key for the big step."""
        return rotated(entries, chunks, steps, images=entries, row=VARIANCE + (steps - 1) * substitution)

    return {
        "leaf": leaf,
        "fold 7 5": fold(7, 5),
        "pack module-1280": fold(1280, uniform),
        "pack module-1536": fold(1536, uniform),
        "pack_rotated 256 5 8": rotated(256, 5, 8),
        "pack_rotated 256 6 32": rotated(256, 6, 32),
        "pack_apart 256 5 8": apart(256, 5, 8),
        "pack_apart 256 6 32": apart(256, 6, 32),
        "converted": converted,
        "tournament_level": N * sum(selector) * (leaf + converted) + lost * (1 + secret),
        "response": leaf / ring.q**2 + secret / 12 / 4.0**a + 1 / 12 / 4.0**b,
    }


class Fold:
    """A fold by the first leaves of an expansion, and a tournament by the next ones."""

    def __init__(self, name, columns, depth):
        self.set, self.columns, self.depth = Set(name), columns, depth
        self.rows = 3 * depth
        self.levels = (columns + self.rows - 1).bit_length()

    def substitutions(self):
        """Returns the number of inner nodes above a wanted leaf."""
        leaves = range(self.columns + self.rows)
        return sum(len({leaf >> self.levels - level for leaf in leaves}) for level in range(self.levels))

    def leaves(self, first, count):
        """Steps 4 and 5: returns W and w of some leaves."""
        digits, dropped = self.set.squares(self.set.expansion)
        parts = [square * VARIANCE for square in digits] + [DROPPED * TERNARY * dropped]
        log2 = EXCEPTION - self.levels - self.set.ragged(self.set.expansion) / math.log(2)
        freedom = sum(parts) / max(parts)
        of_value, of_all = excess(2 * freedom, log2 - math.log2(N / 2)), excess(N * freedom, log2)
        means = N / math.pi * math.sqrt(len(digits) * VARIANCE + DROPPED * TERNARY)
        value = math.sqrt(N * sum(parts) * of_value) + means
        heights = range(self.levels)
        above = sum(len({leaf >> h for leaf in range(first, first + count)}) * 4**h for h in heights)
        whole = SMALL * N * N * sum(parts) * of_all * max(1, count * (2**self.levels - 1))
        return whole, SMALL * value**2 * max(1, above)

    def selected(self):
        """Step 8: returns V_t."""
        if self.depth == 0:
            return 0.0
        whole, worst = self.leaves(self.columns, self.rows)
        leaves = whole * excess(whole / worst, EXCEPTION)
        squares, _ = self.set.squares(self.set.expansion)
        secret = TERNARY * N * excess(2, EXCEPTION - math.log2(N / 2))
        keys = 2 * len(squares) * N
        noise = VARIANCE * keys * excess(keys, EXCEPTION)
        rounding = N * (2.0 ** self.set.expansion[2] / 2) ** 2 * (math.sqrt(secret) + secret) ** 2
        conversion = math.sqrt(2 * 3 * N**2 * sum(squares) * noise) + math.sqrt(rounding)
        converted = math.sqrt(secret * leaves) + math.sqrt(self.rows) * conversion
        digits, _ = self.set.squares(self.set.selector)
        return SMALL * max(digits) * (math.sqrt(leaves) + converted) ** 2

    def switched(self):
        """Step 7: returns V_r."""
        return SWITCHED * TERNARY * N * (self.set.q / 2 ** self.set.response[0]) ** 2 / 4

    def vanishing(self):
        """Step 6: returns the probability that all digits of a node vanish in a value modulo a prime."""
        digits = self.set.expansion[0]
        return self.substitutions() * sum(N * float(prime) ** -digits for prime in self.set.primes)

    def exceedance(self, coefficients, share):
        """The theorem: returns log2 of the bound, where B is `share` times half a step."""
        q, p = self.set.q, 2.0**self.set.bits
        drops = self.depth * (N + 1) * 2.0 ** self.set.selector[2] / 2
        tolerated = share * q / p / 2 - (p / 2 + q / 2 ** (self.set.response[1] + 1) + drops)
        if tolerated <= 0:
            return 0.0
        whole, worst = self.leaves(0, self.columns)
        added, plaintext = self.switched() + self.selected(), p * p / 12

        def exponent(t):
            return -t * tolerated + t * t * added / 2 - whole / worst / 2 * math.log1p(-t * t * plaintext * worst)

        low, high = 0.0, (1 - 1e-9) / math.sqrt(plaintext * worst)
        for _ in range(400):
            one, other = low + (high - low) * 0.382, low + (high - low) * 0.618
            low, high = (low, other) if exponent(one) < exponent(other) else (one, high)
        ragged = 2 * self.depth * self.set.ragged(self.set.selector)
        log2 = (min(0.0, exponent(low)) + ragged) / math.log(2) + math.log2(2 * coefficients)
        return min(0.0, math.log2(2**log2 + 5 * 2**EXCEPTION + self.vanishing()))


def lines():
    for name in SETS:
        for levels, kind in [(0, "new"), (3, "new"), (8, "new"), (4, "rounded"), (0, "apart")]:
            for number, value in closed_forms(name, levels, kind).items():
                yield f"noise {name} {kind} {levels} {number}", value
    for name in ["onion-30", "onion-32", "onion-26"]:
        for columns, depth in [(1, 0), (2, 0), (100, 3), (256, 7), (384, 7), (512, 0), (512, 7), (512, 14)]:
            fold, of = Fold(name, columns, depth), f"{name} {columns} {depth}"
            for first, count in [(0, columns), (columns, 3 * depth)]:
                if count:
                    whole, worst = fold.leaves(first, count)
                    yield f"sum {of} {first} {count}", whole
                    yield f"greatest {of} {first} {count}", worst
            yield f"selected {of}", fold.selected()
            yield f"switched {of}", fold.switched()
            yield f"vanishing {of}", fold.vanishing()
            for coefficients, share in [(N, 1.0), (N, 0.75), (1, 0.5), (3 * N, 0.25)]:
                yield f"exceedance {of} {coefficients} {share}", fold.exceedance(coefficients, share)


def main():
    text = "".join(f"{name} {value!r}\n" for name, value in lines())
    if sys.argv[1:] == ["--write"]:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text)
    elif sys.argv[1:] == ["--check"]:
        known = [line.rsplit(" ", 1) for line in FILE.read_text().splitlines()]
        found = [line.rsplit(" ", 1) for line in text.splitlines()]
        same = [name for name, _ in known] == [name for name, _ in found]
        if not same or any(not math.isclose(float(x), float(y)) for (_, x), (_, y) in zip(known, found)):
            sys.exit(f"{FILE} is not what this computes: --write")
        print(f"{FILE.name}: {len(known)} vectors")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
