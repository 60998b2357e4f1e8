"""A client of Privacy Pass tokens of type 2 (RFC 9578), written from the RFCs and docs/wire/apple.md.

It blinds and unblinds with Python's integers and is for tests: nothing here is constant-time.
"""

import base64
import hashlib
import secrets

TOKEN_TYPE = bytes([0, 2])
SALT = 48
RSA = 256
# SubjectPublicKeyInfo of an RSA key of 2048 bits with the exponent 65537: the bytes around its modulus.
HEAD = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b0609608648016503"
    "040202a2030201300382010f003082010a0282010100"
)
TAIL = bytes.fromhex("0203010001")


def challenge(issuer):
    """Returns the challenge that names an issuer, without a redemption context and without an origin."""
    return TOKEN_TYPE + len(issuer).to_bytes(2, "big") + issuer.encode() + bytes(3)


def mask(seed, length):
    """MGF1 with SHA-384."""
    blocks = (hashlib.sha384(seed + counter.to_bytes(4, "big")).digest() for counter in range(-(-length // 48)))
    return b"".join(blocks)[:length]


def encode(message, salt):
    """EMSA-PSS of RFC 8017 (9.1.1) with SHA-384, for 2047 bits."""
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = bytes(RSA - len(salt) - len(digest) - 2) + b"\1" + salt
    masked = bytes(a ^ b for a, b in zip(block, mask(digest, len(block)), strict=True))
    return bytes([masked[0] & 0x7F]) + masked[1:] + digest + b"\xbc"


class Key:
    """An issuer's public key."""

    def __init__(self, spki):
        assert spki.startswith(HEAD) and spki.endswith(TAIL) and len(spki) == len(HEAD) + RSA + len(TAIL)
        self.modulus = int.from_bytes(spki[len(HEAD) : -len(TAIL)], "big")
        self.id = hashlib.sha256(spki).digest()

    def power(self, number):
        return pow(number, 65537, self.modulus)


class Pending:
    """A request for a token that has no response yet."""

    def __init__(self, key, challenge, nonce=None, salt=None, blind=None):
        self.key = key
        self.signed = TOKEN_TYPE + (nonce or secrets.token_bytes(32)) + hashlib.sha256(challenge).digest() + key.id
        self.encoded = int.from_bytes(encode(self.signed, salt or secrets.token_bytes(SALT)), "big")
        self.blind = blind or secrets.randbelow(key.modulus - 2) + 2

    def request(self):
        """Returns the request that the issuer signs."""
        blinded = self.encoded * self.key.power(self.blind) % self.key.modulus
        return TOKEN_TYPE + self.key.id[-1:] + blinded.to_bytes(RSA, "big")

    def token(self, response):
        """Returns the token of a response, whose signature is checked."""
        assert len(response) == RSA
        signature = int.from_bytes(response, "big") * pow(self.blind, -1, self.key.modulus) % self.key.modulus
        assert self.key.power(signature) == self.encoded, "the issuer's signature is wrong"
        return self.signed + signature.to_bytes(RSA, "big")


def header(token):
    """Returns the value of `Authorization`."""
    return f"PrivateToken token={base64.urlsafe_b64encode(token).decode()}"
