"""A client of Apple's protocol for keyword look-ups, written from docs/wire/apple.md; comments name its sections.

It makes keys and requests and reads responses. It sends nothing itself.
"""

import hashlib
import secrets
import struct
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

WORD = np.uint64
SEED_BYTES = 32
# Pairs of bits of a centred binomial of deviation 3.24 (section 1).
PAIRS = 21


class Malformed(Exception):
    """A message that is not as in docs/wire/apple.md."""


# Protobuf (section 3)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, content):
    """Encodes a field: an integer, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def take_varint(message, at):
    number = shift = 0
    while True:
        if at >= len(message):
            raise Malformed("a number is cut off")
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def fields(message):
    """Returns the contents of a message's fields by number."""
    found, at = {}, 0
    while at < len(message):
        key, at = take_varint(message, at)
        if key & 7 == 0:
            content, at = take_varint(message, at)
        elif key & 7 == 2:
            length, at = take_varint(message, at)
            content = message[at : at + length]
            at += length
            if at > len(message):
                raise Malformed("a field is cut off")
        else:
            raise Malformed(f"type {key & 7}")
        found.setdefault(key >> 3, []).append(content)
    return found


def only(message, number):
    """Returns the content of a field that must occur once."""
    contents = fields(message).get(number, [])
    if len(contents) != 1:
        raise Malformed(f"field {number} occurs {len(contents)} times")
    return contents[0]


def packed(message):
    numbers, at = [], 0
    while at < len(message):
        number, at = take_varint(message, at)
        numbers.append(number)
    return numbers


# Numbers (section 2)


def width(prime):
    return (prime - 1).bit_length()


def to_bits(numbers, bits):
    """Writes numbers of `bits` bits, the most significant bit first."""
    places = np.arange(bits - 1, -1, -1, dtype=WORD)
    return np.packbits((numbers[:, None] >> places & WORD(1)).astype(np.uint8).ravel()).tobytes()


def from_bits(content, count, bits):
    unpacked = np.unpackbits(np.frombuffer(content, np.uint8))
    if len(unpacked) < count * bits:
        raise Malformed("a polynomial is cut off")
    places = np.arange(bits - 1, -1, -1, dtype=WORD)
    return (unpacked[: count * bits].reshape(count, bits).astype(WORD) << places).sum(1, dtype=WORD)


class Prime:
    """A prime with the tables of its transform: the value at place i is at psi^(2 r + 1), r being i reversed."""

    def __init__(self, prime, degree):
        self.q, self.degree = prime, degree
        self.psi = self.least_root()
        self.inverse_degree = pow(degree, -1, prime)
        self.twiddles = self.powers(self.psi)
        self.inverse_twiddles = self.powers(pow(self.psi, -1, prime))

    def least_root(self):
        q, order = self.q, 2 * self.degree
        candidates = (pow(base, (q - 1) // order, q) for base in range(2, q))
        root = next(root for root in candidates if pow(root, order // 2, q) == q - 1)
        roots, square = [root], root * root % q
        while len(roots) < self.degree:
            roots.append(roots[-1] * square % q)
        return min(roots)

    def powers(self, root):
        bits = self.degree.bit_length() - 1
        powers = [1]
        while len(powers) < self.degree:
            powers.append(powers[-1] * root % self.q)
        return np.array([powers[int(f"{i:0{bits}b}"[::-1], 2)] for i in range(self.degree)], WORD)

    def forward(self, coefficients):
        a, q, groups = coefficients % WORD(self.q), WORD(self.q), 1
        while groups < self.degree:
            halves = a.reshape(groups, 2, -1)
            low, high = halves[:, 0].copy(), halves[:, 1] * self.twiddles[groups : 2 * groups, None] % q
            halves[:, 0], halves[:, 1] = (low + high) % q, (low + q - high) % q
            groups *= 2
        return a

    def inverse(self, values):
        a, q, groups = values.copy(), WORD(self.q), self.degree // 2
        while groups:
            halves = a.reshape(groups, 2, -1)
            low, high = halves[:, 0].copy(), halves[:, 1].copy()
            halves[:, 0] = (low + high) % q
            halves[:, 1] = (low + q - high) % q * self.inverse_twiddles[groups : 2 * groups, None] % q
            groups //= 2
        return a * WORD(self.inverse_degree) % q


class Generator:
    """CTR_DRBG with AES-128, asked for 4096 bytes at a time (section 2)."""

    REQUEST = 4096

    def __init__(self, seed):
        self.key, self.counter = bytes(16), 0
        self.update(seed)

    def stream(self, length):
        start = (self.counter + 1) % (1 << 128)
        encryptor = Cipher(algorithms.AES(self.key), modes.CTR(start.to_bytes(16, "big"))).encryptor()
        self.counter = (self.counter + length // 16) % (1 << 128)
        return encryptor.update(bytes(length))

    def update(self, data):
        state = bytes(a ^ b for a, b in zip(self.stream(32), data, strict=True))
        self.key, self.counter = state[:16], int.from_bytes(state[16:], "big")

    def request(self):
        out = self.stream(self.REQUEST)
        self.update(bytes(32))
        return out


def uniform(seed, primes):
    """Returns the values of a seed's polynomial, prime by prime."""
    generator, rows = Generator(seed), []
    for prime in primes:
        drawn = b"".join(generator.request() for _ in range(16 * prime.degree // Generator.REQUEST))
        halves = np.frombuffer(drawn, "<u8").reshape(-1, 2)
        q, two_64 = WORD(prime.q), WORD((1 << 64) % prime.q)
        rows.append((halves[:, 1] % q * two_64 + halves[:, 0] % q) % q)
    return rows


# The client


@dataclass(frozen=True)
class Shard:
    """A `PIRShardConfig`."""

    entries: int
    entry_size: int
    dimensions: tuple


@dataclass(frozen=True)
class Pending:
    """A request whose response is awaited."""

    shard: Shard
    hash: int
    buckets: tuple


def keyword_hash(keyword):
    return int.from_bytes(hashlib.sha256(keyword).digest()[:8], "little")


def buckets(number, tables, entries):
    """Returns the bucket in each table of a keyword with this hash (section 4)."""
    found = []
    for _ in range(tables):
        for counter in range(11):
            digest = hashlib.sha256(struct.pack(">QB", number, counter)).digest()
            index = int.from_bytes(digest[:8], "little") % entries
            if index not in found:
                break
        found.append(index)
    return tuple(found)


class Client:
    """A client with a fresh secret, for a use case in a `ConfigResponse`."""

    def __init__(self, use_case, config_response):
        self.use_case = use_case
        response = fields(config_response)
        configs = {only(entry, 1).decode(): only(entry, 2) for entry in response[1]}
        config = fields(configs[use_case])
        self.config_id = config[3][0]
        pir = fields(config[1][0])
        self.key_hash = pir[6][0]
        self.tables = only(pir[3][0], 1)
        self.shards = [self.shard(message) for message in pir[2]]
        # The keys are named by the hash of their configuration.
        key_configs = [only(status, 2) for status in response[2]]
        key_config = next(c for c in key_configs if hashlib.sha256(c).digest() == self.key_hash)
        self.elements = packed(only(key_config, 2))
        parameters = fields(pir[1][0])
        self.degree, self.t = parameters[1][0], parameters[2][0]
        self.primes = [Prime(q, self.degree) for q in packed(parameters[3][0])]
        self.own, self.special = self.primes[:-1], self.primes[-1]
        self.bits = self.t.bit_length() - 1
        self.plaintext_bytes = self.degree * self.bits // 8
        self.secret = np.array([secrets.randbelow(3) - 1 for _ in range(self.degree)], np.int64)
        self.secret_values = [self.values(self.secret, prime) for prime in self.primes]

    @staticmethod
    def shard(message):
        content = fields(message)
        return Shard(content[1][0], content[2][0], tuple(packed(content[3][0])))

    @staticmethod
    def values(coefficients, prime):
        return prime.forward((coefficients % prime.q).astype(WORD))

    def noise(self):
        drawn = np.frombuffer(secrets.token_bytes(16 * self.degree), np.uint64).reshape(2, -1)
        mask = np.uint64((1 << PAIRS) - 1)
        count = [np.unpackbits((row & mask).view(np.uint8).reshape(-1, 8), axis=1).sum(1, dtype=np.int64) for row in drawn]
        return count[0] - count[1]

    def encrypt(self, message, primes, form):
        """Returns a seeded `SerializedCiphertext` of the coefficients `message`, prime by prime (section 2)."""
        seed, noise, poly0 = secrets.token_bytes(SEED_BYTES), self.noise(), b""
        for i, (prime, a) in enumerate(zip(primes, uniform(seed, primes), strict=True)):
            q = WORD(prime.q)
            phase = prime.forward(((message[i].astype(np.int64) + noise) % prime.q).astype(WORD))
            c0 = (phase + q - a * self.secret_values[i] % q) % q
            poly0 += to_bits(c0 if form == "values" else prime.inverse(c0), width(prime.q))
        return field(1, field(1, poly0) + field(2, seed))

    def switch_key(self, coefficients):
        """Returns a `SerializedKeySwitchKey` from a secret, given by its coefficients for each prime (section 7)."""
        ciphertexts = b""
        for digit, prime in enumerate(self.own):
            message = [np.zeros(self.degree, WORD) for _ in self.primes]
            message[digit] = coefficients[digit] * WORD(self.special.q % prime.q) % WORD(prime.q)
            ciphertexts += field(1, self.encrypt(message, self.primes, "values"))
        return field(1, ciphertexts)

    def image(self, element):
        """Returns the coefficients of the secret under X -> X^element."""
        places = np.arange(self.degree, dtype=np.int64) * element % (2 * self.degree)
        out = np.empty(self.degree, np.int64)
        out[places % self.degree] = np.where(places < self.degree, self.secret, -self.secret)
        return out

    def evaluation_keys(self, timestamp):
        """Returns `EvaluationKeys` with this client's key."""
        switch_keys = b""
        for element in self.elements:
            image = self.image(element)
            key = self.switch_key([(image % prime.q).astype(WORD) for prime in self.primes])
            switch_keys += field(1, field(1, element) + field(2, key))
        squares = zip(self.primes, self.secret_values, strict=True)
        square = self.switch_key([prime.inverse(s * s % WORD(prime.q)) for prime, s in squares])
        key = field(1, switch_keys) + field(2, field(1, square))
        return field(1, field(1, self.metadata(timestamp)) + field(2, key))

    def metadata(self, timestamp):
        return field(1, timestamp) + field(2, self.key_hash)

    def request(self, keyword, timestamp):
        """Returns `Requests` for a keyword, and what its response is read with (section 6)."""
        number = keyword_hash(keyword)
        index = number % len(self.shards)
        shard = self.shards[index]
        chosen = buckets(number, self.tables, shard.entries)
        in_plaintext = max(1, self.plaintext_bytes // shard.entry_size)
        ones = []
        for bucket in chosen:
            rest = bucket // in_plaintext
            columns = shard.dimensions[1] if len(shard.dimensions) > 1 else 1
            for length, coordinate in zip(shard.dimensions, (rest // columns, rest % columns), strict=False):
                ones += [int(i == coordinate) for i in range(length)]
        q, ciphertexts = 1, b""
        for prime in self.own:
            q *= prime.q
        for start in range(0, len(ones), self.degree):
            part = ones[start : start + self.degree]
            one = pow(2, -(len(part) - 1).bit_length(), self.t)
            scaled = (q * one + self.t // 2) // self.t
            row = np.zeros(self.degree, np.int64)
            row[: len(part)] = part
            message = [row.astype(WORD) * WORD(scaled % prime.q) for prime in self.own]
            ciphertexts += field(1, self.encrypt(message, self.own, "coefficients"))
        query = ciphertexts + field(2, self.tables)
        shard_index = field(1, index) if index else b""
        request = shard_index + field(2, query) + field(3, self.metadata(timestamp)) + field(4, self.config_id)
        message = field(1, field(1, self.use_case.encode()) + field(2, request))
        return message, Pending(shard, number, chosen)

    def value(self, pending, responses):
        """Returns the value in `Responses` to a request; None if the keyword is absent (sections 4 and 7)."""
        replies = fields(only(only(responses, 1), 1))[1]
        if len(replies) != self.tables:
            raise Malformed(f"{len(replies)} replies")
        found = [self.slot(pending, bucket, reply) for bucket, reply in zip(pending.buckets, replies, strict=True)]
        return next((value for value in found if value is not None), None)

    def slot(self, pending, bucket, reply):
        size = pending.shard.entry_size
        content = b"".join(self.plaintext(ciphertext) for ciphertext in fields(reply)[1])
        start = bucket % max(1, self.plaintext_bytes // size) * size
        content, at = content[start : start + size], 1
        for _ in range(content[0]):
            number, length = struct.unpack_from("<QH", content, at)
            at += 10 + length
            if number == pending.hash:
                return content[at - length : at]
        return None

    def plaintext(self, ciphertext):
        full = fields(only(ciphertext, 2))
        content, dropped = full[1][0], packed(full[2][0])
        if content[:2] != b"\2\0" or len(dropped) != 2:
            raise Malformed("a response has two polynomials")
        prime, at, polynomials = self.own[0], 2, []
        for skip in dropped:
            bits = width(prime.q) - skip
            polynomials.append(from_bits(content[at:], self.degree, bits) << WORD(skip))
            at += (self.degree * bits + 7) // 8
        q = WORD(prime.q)
        product = prime.inverse(prime.forward(polynomials[1]) * self.secret_values[0] % q)
        phase = (polynomials[0] + product) % q
        numbers = (phase * WORD(2 * self.t) + q) // (WORD(2) * q) % WORD(self.t)
        return to_bits(numbers, self.bits)
