"""Pseudorandom functions: block i of the expansion of a seed of 16 bytes (wire.md 13.2)."""

import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

MASK = (1 << 64) - 1
# wire.md 13.2: the first 16 bytes of the fractional part of pi.
AES_KEY = bytes.fromhex("243f6a8885a308d313198a2e03707344")
# wire.md 13.2: functions that a client must accept explicitly.
WEAK = ("siphash", "highwayhash")


def rotate(word, by, width):
    return (word << by | word >> (width - by)) & ((1 << width) - 1)


def to_words(data, size):
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def to_bytes(words, size):
    return b"".join(word.to_bytes(size, "little") for word in words)


def aes(seed, i):
    low, high = to_words((int.from_bytes(seed, "little") ^ i).to_bytes(16, "little"), 8)
    sigma = to_bytes([high, low ^ high], 8)
    encryptor = Cipher(algorithms.AES128(AES_KEY), modes.ECB()).encryptor()
    return bytes(a ^ b for a, b in zip(encryptor.update(sigma), sigma))


def _core(initial, rounds, quarter, rings):
    """Runs the rounds common to ChaCha and Salsa20, and adds the initial state."""
    x = list(initial)
    for number in range(rounds):
        for i in range(4):
            quarter(x, rings(number % 2, i))
    return to_bytes([(a + b) & 0xFFFFFFFF for a, b in zip(x, initial)], 4)


def chacha(seed, call, rounds):
    def quarter(x, ring):
        a, b, c, d = ring
        for to, other, mixed, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[to] = (x[to] + x[other]) & 0xFFFFFFFF
            x[mixed] = rotate(x[mixed] ^ x[to], by, 32)

    initial = to_words(b"expand 16-byte k" + seed * 2 + call.to_bytes(8, "little") + bytes(8), 4)
    return _core(initial, rounds, quarter, lambda odd, i: [4 * row + (i + odd * row) % 4 for row in range(4)])


def salsa(seed, call, rounds):
    def quarter(x, ring):
        a, b, c, d = ring
        for to, last, before, by in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
            x[to] ^= rotate((x[last] + x[before]) & 0xFFFFFFFF, by, 32)

    def rings(odd, i):
        return [4 * i + (i + step) % 4 if odd else (5 * i + 4 * step) % 16 for step in range(4)]

    c, s = to_words(b"expand 16-byte k", 4), to_words(seed, 4)
    middle = [0, 0, *to_words(call.to_bytes(8, "little"), 4)]
    return _core([c[0], *s, c[1], *middle, c[2], *s, c[3]], rounds, quarter, rings)


def siphash(seed, call):
    start = to_words(b"uespemosmodnarodarenegylsetybdet", 8)
    v = [a ^ b for a, b in zip(start, to_words(seed * 2, 8))]

    def rounds(count):
        for _ in range(count):
            for a, b, turn_b, c, d, turn_d in ((0, 1, 13, 2, 3, 16), (2, 1, 17, 0, 3, 21)):
                v[a] = (v[a] + v[b]) & MASK
                v[b] = rotate(v[b], turn_b, 64) ^ v[a]
                v[c] = (v[c] + v[d]) & MASK
                v[d] = rotate(v[d], turn_d, 64) ^ v[c]
                v[a] = rotate(v[a], 32, 64)

    v[1] ^= 0xEE
    for word in (call, 8 << 56):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    tag = []
    for place, constant in ((2, 0xEE), (1, 0xDD)):
        v[place] ^= constant
        rounds(4)
        tag.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return to_bytes(tag, 8)


MULTIPLIERS = (
    (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3),
    (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377),
)
# Source of each of the 16 bytes of two words.
ZIPPER = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)


def highwayhash(seed, call):
    mul0, mul1 = map(list, MULTIPLIERS)
    key = to_words(seed * 2, 8)
    v0 = [a ^ b for a, b in zip(mul0, key)]
    v1 = [a ^ rotate(b, 32, 64) for a, b in zip(mul1, key)]

    def zipped(words):
        data = to_bytes(words, 8)
        return to_words(bytes(data[half + place] for half in (0, 16) for place in ZIPPER), 8)

    def update(packet):
        for i in range(4):
            v1[i] = (v1[i] + mul0[i] + packet[i]) & MASK
            mul0[i] ^= (v1[i] & 0xFFFFFFFF) * (v0[i] >> 32)
            v0[i] = (v0[i] + mul1[i]) & MASK
            mul1[i] ^= (v0[i] & 0xFFFFFFFF) * (v1[i] >> 32)
        v0[:] = [(a + b) & MASK for a, b in zip(v0, zipped(v1))]
        v1[:] = [(a + b) & MASK for a, b in zip(v1, zipped(v0))]

    # The only packet: 8 bytes, with their length in the state.
    v0[:] = [(a + (8 << 32) + 8) & MASK for a in v0]
    v1[:] = [rotate(a >> 32, 8, 32) << 32 | rotate(a & 0xFFFFFFFF, 8, 32) for a in v1]
    update([call, 0, 0, 0])
    for _ in range(10):
        update([rotate(v0[i], 32, 64) for i in (2, 3, 0, 1)])
    a, b = ([(x + y) & MASK for x, y in zip(v, mul)] for v, mul in ((v0, mul0), (v1, mul1)))
    digest = b""
    for i in (0, 2):
        # Reduces modulo x^128 + x^2 + x, and drops bits above 128.
        high = (b[i + 1] << 64 | b[i]) & ((1 << 126) - 1)
        folded = (a[i + 1] << 64 | a[i]) ^ high << 1 ^ high << 2
        digest += (folded & ((1 << 128) - 1)).to_bytes(16, "little")
    return digest


def sha256(seed, call):
    return hashlib.sha256(seed + call.to_bytes(8, "little")).digest()


def in_calls(function, size):
    """Returns a function for block i, from a `function` that returns `size` bytes per call (wire.md 13.2)."""

    def block(seed, i):
        call, place = divmod(16 * i, size)
        return function(seed, call)[place : place + 16]

    return block


FUNCTIONS = {
    "aes-128": aes,
    "chacha20": in_calls(lambda seed, call: chacha(seed, call, 20), 64),
    "chacha12": in_calls(lambda seed, call: chacha(seed, call, 12), 64),
    "salsa20": in_calls(lambda seed, call: salsa(seed, call, 20), 64),
    "salsa12": in_calls(lambda seed, call: salsa(seed, call, 12), 64),
    "siphash": in_calls(siphash, 16),
    "highwayhash": in_calls(highwayhash, 32),
    "sha-256": in_calls(sha256, 32),
}
