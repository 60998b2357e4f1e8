"""The client's ring secret: keys, queries, responses (wire.md 11.5 to 11.7)."""

import blake3
import numpy as np

from .errors import Malformed
from .ring import DEGREE, Ring
from .sample import noise, ternary
from .streams import residues

SEED_BYTES = 32
CHUNK = 256  # wire.md 11.6


def reverse(number, bits):
    """Reverses the lowest bits of a number."""
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


class Shape:
    """Content of a query's ciphertext: numbers for columns, and rows for the selectors of `groups` (wire.md 11.6)."""

    rotations = None

    def __init__(self, ring_set, groups):
        self.set = ring_set
        self.depth = (groups - 1).bit_length()
        self.factors = ring_set.selector.factors(ring_set.primes)
        self.rows = self.depth * len(self.factors)

    def rows_of(self, group):
        return [factor * (group >> bit & 1) for bit in range(self.depth) for factor in self.factors]

    @property
    def key(self):
        """The properties that keys depend on. Parts with equal properties share keys (wire.md 11.5)."""
        return self.set, self.levels, self.rotations, self.depth > 0

    @property
    def exponents(self):
        """Exponents of the substitutions that have keys (wire.md 11.5)."""
        rotations = (5, 2 * DEGREE - 1, pow(5, self.rotations, 2 * DEGREE)) if self.rotations else ()
        return [(DEGREE >> level) + 1 for level in range(self.levels)] + list(rotations)

    @property
    def query_bytes(self):
        return SEED_BYTES + self.set.half_bytes

    @property
    def result_bytes(self):
        """Size of a packed ciphertext in an answer, in bytes (wire.md 11.7)."""
        return self.set.response_bytes

    def half(self, ring, b):
        """Encodes the values of a query's b half (wire.md 11.6)."""
        return join_words(b, self.set.word_bits)

    @property
    def keys_bytes(self):
        """Size of the evaluation keys in bytes (wire.md 11.5)."""
        ciphertexts = (len(self.exponents) + 2 * (self.depth > 0)) * len(self.set.expansion.factors(self.set.primes))
        return SEED_BYTES + ciphertexts * self.set.half_bytes


class Expanded(Shape):
    """Shape of a query by expansion: columns and rows are leaves (wire.md 11.6)."""

    def __init__(self, ring_set, columns, groups):
        super().__init__(ring_set, groups)
        self.leaves = columns + self.rows
        self.levels = (self.leaves - 1).bit_length()

    def coefficient(self, leaf):
        return reverse(leaf, self.levels)

    def blinded(self, ring, numbers, group, noise):
        """The message of scaled numbers, with its noise."""
        message = [0] * DEGREE
        for leaf, number in enumerate([*numbers, *self.rows_of(group)]):
            message[self.coefficient(leaf)] = number
        return ring.scale(ring.add(ring.lift(message), noise), pow(2, -self.levels, self.set.modulus))


class Rotated(Shape):
    """Shape of a query by rotations: columns are chunks of an LWE secret (wire.md 11.6)."""

    def __init__(self, ring_set, columns, groups, packed):
        super().__init__(ring_set, groups)
        self.chunks = columns // CHUNK
        self.levels = 4 + (self.rows - 1).bit_length() if self.rows else 4
        half = CHUNK // 2
        self.rotations = min(
            (1 << log for log in range(3, 8)),
            key=lambda h: self.chunks * (2 * h - 1) + packed * (half // h - 1),
        )

    def place(self, entry):
        chunk, i = divmod(entry, CHUNK)
        return reverse(chunk, 4) + 16 * i

    def place_of_row(self, row):
        return reverse(self.chunks, 4) + 16 * reverse(row, self.levels - 4)

    def blinded(self, ring, numbers, group, noise):
        """The message of scaled numbers, with its noise."""
        message = [0] * DEGREE
        for entry, number in enumerate(numbers):
            message[self.place(entry)] = number * pow(DEGREE, -1, self.set.modulus)
        for row, number in enumerate(self.rows_of(group)):
            message[self.place_of_row(row)] = number * pow(2, -self.levels, self.set.modulus)
        return ring.add(ring.lift(message), noise)

    @property
    def query_bytes(self):
        return SEED_BYTES + DEGREE * self.kept_bits // 8

    @property
    def kept_bits(self):
        return self.round(self.set.modulus - 1).bit_length()

    @property
    def dropped(self):
        """Number of low bits that a coefficient loses."""
        return self.set.dropped_bits

    def round(self, number):
        return (number + (1 << self.dropped - 1)) >> self.dropped

    def half(self, ring, b):
        """Encodes a query's b half, given as values, as rounded coefficients (wire.md 11.6)."""
        coefficients = (number % self.set.modulus for number in ring.centred(ring.inverse(b)))
        return join_bits([self.round(number) for number in coefficients], self.kept_bits)


class OneShot(Rotated):
    """Shape of a query by rotations that contains its keys (wire.md 11.8)."""

    keys_bytes = 0
    # Number of ciphertexts behind the keys.
    ciphertexts = 1

    def messages(self, ring, numbers, noise):
        """Yields the messages of the ciphertexts behind the keys. `noise` returns the noise of the next one."""
        yield self.blinded(ring, numbers, 0, noise())

    @property
    def key_bits(self):
        return max(self.set.primes).bit_length()

    @property
    def factors_of_keys(self):
        return self.set.expansion.factors(self.set.primes)

    @property
    def query_bytes(self):
        keys = len(self.exponents) * len(self.factors_of_keys) * len(self.set.primes) * DEGREE * self.key_bits // 8
        return keys + self.ciphertexts * (super().query_bytes - SEED_BYTES)

    @property
    def uniform_bytes(self):
        """Size of the half of a packed ciphertext that clients download in advance, in bytes."""
        return DEGREE * self.set.response_bits[0] // 8

    @property
    def result_bytes(self):
        return self.set.response_bytes - self.uniform_bytes

    def uniform(self, seed):
        """Returns the uniform halves of the keys, followed by those of the ciphertexts behind them."""
        key = blake3.blake3(seed, derive_key_context="spirea v1: uniform halves of queries that bring their keys").digest()
        count = len(self.exponents) * len(self.factors_of_keys) + self.ciphertexts
        return [uniform_half(self.set, key, i) for i in range(count)]


class Short(OneShot):
    """Shape of a short query that contains its keys (wire.md 11.8)."""

    exponents = (5, 2 * DEGREE - 1)

    @property
    def ciphertexts(self):
        return self.chunks

    @property
    def dropped(self):
        return self.set.chunk_dropped_bits

    def messages(self, ring, numbers, noise):
        inverse = pow(CHUNK, -1, self.set.modulus)
        for chunk in range(self.chunks):
            message = [0] * DEGREE
            for i, number in enumerate(numbers[chunk * CHUNK : (chunk + 1) * CHUNK]):
                message[16 * i] = number * inverse
            yield ring.add(ring.lift(message), noise())


def uniform_half(ring_set, seed, number):
    """Returns the values of a for ciphertext `number` of a seed (wire.md 11.3)."""
    primes = ring_set.primes
    streams = [residues(seed, [number * len(primes) + j], prime, DEGREE)[0] for j, prime in enumerate(primes)]
    return np.stack(streams).astype(np.uint64)


class RingSecret:
    """A ternary secret with the evaluation keys of a shape."""

    def __init__(self, shape, rng):
        self.set, self.ring = shape.set, Ring(shape.set.primes)
        self.coefficients = self.ring.lift(ternary(rng, DEGREE))
        self.values = self.ring.forward(self.coefficients)
        self.keys = self._evaluation_keys(shape, rng)

    def _masked(self, message, uniform):
        """Returns the b half of a ciphertext as values: the message with its noise, minus a s (wire.md 11.3)."""
        return self.ring.subtract(message, self.ring.multiply(uniform, self.values))

    def _encrypt(self, message, seed, number):
        return self._masked(message, uniform_half(self.set, seed, number))

    def _noise(self, rng):
        return self.ring.lift(noise(rng, DEGREE))

    def _evaluation_keys(self, shape, rng):
        """Makes the evaluation keys of a shape (wire.md 11.5)."""
        seed, ring, halves = rng.bytes(SEED_BYTES), self.ring, []
        targets = [ring.forward(ring.substitute(self.coefficients, exponent)) for exponent in shape.exponents]
        if shape.depth:
            targets += [self.values, ring.multiply(self.values, self.values)]
        for target in targets:
            for factor in self.set.expansion.factors(self.set.primes):
                message = ring.add(ring.forward(self._noise(rng)), ring.scale(target, factor))
                halves.append(join_words(self._encrypt(message, seed, len(halves)), self.set.word_bits))
        return seed + b"".join(halves)

    def _scaled(self, numbers):
        return [self.set.scale * int(number) for number in numbers]

    def query(self, shape, numbers, group, rng):
        """Encrypts numbers, one for each column, and the selectors of a group (wire.md 11.6)."""
        blinded = self.ring.forward(shape.blinded(self.ring, self._scaled(numbers), group, self._noise(rng)))
        seed = rng.bytes(SEED_BYTES)
        return seed + shape.half(self.ring, self._encrypt(blinded, seed, 0))

    def decode(self, ciphertext, bits):
        """Decrypts a response's ciphertext. Returns its coefficients as numbers of `bits` bits (wire.md 11.7)."""
        phases = self.phases(ciphertext)
        return [((phase + (1 << (63 - bits))) >> (64 - bits)) & ((1 << bits) - 1) for phase in phases]

    def phases(self, ciphertext):
        """Returns the phases of a response's ciphertext, fractions of 2^64 (wire.md 11.7)."""
        if len(ciphertext) != self.set.response_bytes:
            raise Malformed("a ciphertext of an answer has another length")
        a_bits, b_bits = self.set.response_bits
        end = DEGREE * a_bits // 8
        a, b = bit_fields(ciphertext[:end], a_bits), bit_fields(ciphertext[end:], b_bits)
        signed = [number - (1 << a_bits) if number >> (a_bits - 1) else number for number in a]
        ring = self.ring
        product = ring.centred(ring.inverse(ring.multiply(ring.forward(ring.lift(signed)), self.values)))
        pairs = zip(product, b)
        return [((p << (64 - a_bits)) + (number << (64 - b_bits))) % 2**64 for p, number in pairs]


class OneShotSecret(RingSecret):
    """A secret for a single query, with the bytes of that query (wire.md 11.8)."""

    def __init__(self, shape, uniform, numbers, rng):
        self.set, self.ring, uniform = shape.set, Ring(shape.set.primes), iter(uniform)
        self.coefficients = self.ring.lift(ternary(rng, DEGREE))
        self.values = self.ring.forward(self.coefficients)
        self.asked = b""
        for exponent in shape.exponents:
            target = self.ring.forward(self.ring.substitute(self.coefficients, exponent))
            for factor in shape.factors_of_keys:
                message = self.ring.add(self.ring.forward(self._noise(rng)), self.ring.scale(target, factor))
                self.asked += join_words(self._masked(message, next(uniform)), shape.key_bits)
        for message in shape.messages(self.ring, self._scaled(numbers), lambda: self._noise(rng)):
            self.asked += shape.half(self.ring, self._masked(self.ring.forward(message), next(uniform)))


def join_words(words, bits):
    """Encodes the lowest bits of words, as `join_bits` does."""
    places = np.unpackbits(words.astype("<u4").reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
    return np.packbits(places[:, :bits].reshape(-1), bitorder="little").tobytes()


def bit_fields(data, bits):
    """Decodes numbers of `bits` bits, lowest bit first, without gaps (wire.md 11.7)."""
    places = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, bits)
    return [int(number) for number in places.astype(object) @ np.array([1 << i for i in range(bits)], object)]


def join_bits(numbers, bits):
    """Encodes numbers of `bits` bits, lowest bit first, without gaps (wire.md 12.5)."""
    places = np.array([[number >> i & 1 for i in range(bits)] for number in numbers], np.uint8)
    return np.packbits(places.reshape(-1), bitorder="little").tobytes()
