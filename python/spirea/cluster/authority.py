"""Certificates of a cluster: two authorities, one for workers and one for the coordinator.

A worker accepts queries from holders of a certificate of the coordinator's authority. The coordinator sends queries to holders
of a certificate of the workers' authority. So no worker can pass for the coordinator. A private key stays on the node that
made it; only the signing request and the certificate travel. Certificates live for days, and are renewed after half of that.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import ClusterError

WORKERS = "workers"
COORDINATORS = "coordinators"
COORDINATOR = "spirea-coordinator"
"""The name in the coordinator's certificate."""
ROLES = (WORKERS, COORDINATORS)

_AUTHORITY_LIFE = datetime.timedelta(days=3650)
_SKEW = datetime.timedelta(minutes=10)
_LEAST_LIFE = datetime.timedelta(minutes=1)


def write_secret(path: Path, content: bytes) -> None:
    """Writes a file atomically. Only its owner can read it, from the first byte on."""
    _write(path, content, 0o600)


def _write(path: Path, content: bytes, mode: int) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem


def _named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(host: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


@dataclass(frozen=True)
class Request:
    """A key made on this node, and the request to sign it. Only the request may travel."""

    key: bytes
    request: bytes

    def fits(self, certificate: bytes) -> bool:
        """True if the certificate is for the request's key."""
        asked = x509.load_pem_x509_csr(self.request).public_key()
        return x509.load_pem_x509_certificate(certificate).public_key() == asked


def request(host: str) -> Request:
    """Makes a fresh key, and a request for a certificate of an address or name."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(_named("spirea"))
    builder = builder.add_extension(_alternative(host), critical=False)
    signed = builder.sign(key, hashes.SHA256())
    return Request(_pem(key), signed.public_bytes(serialization.Encoding.PEM))


class Authority:
    """The authority for the certificates of one role. Its key is in `folder`, which only the controller's user can read."""

    def __init__(self, folder: Path, role: str) -> None:
        self._role = role
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key_file, certificate_file = folder / f"{role}.key", folder / f"{role}.pem"
        if not key_file.exists() or not certificate_file.exists():
            self._create(key_file, certificate_file)
        if key_file.stat().st_mode & 0o077:
            raise ClusterError(f"{key_file}: others may read it; chmod 600 {key_file}")
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ClusterError(f"{key_file}: this is no key of this authority; remove it and {certificate_file}")
        self._key = key
        self.certificate = certificate_file.read_bytes()
        self._certificate = x509.load_pem_x509_certificate(self.certificate)

    def _create(self, key_file: Path, certificate_file: Path) -> None:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        named = _named(f"spirea {self._role}")
        builder = x509.CertificateBuilder(named, named, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + _AUTHORITY_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signed = builder.add_extension(subject, critical=False).sign(key, hashes.SHA256())
        write_secret(key_file, _pem(key))
        _write(certificate_file, signed.public_bytes(serialization.Encoding.PEM), 0o644)

    def sign(self, request: bytes, life: float, host: str) -> bytes:
        """Signs the key of a request. Returns a certificate for the address or name `host`, valid for `life` seconds. The name
        in the request is ignored.

        Raises `ClusterError` for a request that its own key did not sign, or that asks for more than one address.
        """
        try:
            asked = x509.load_pem_x509_csr(request)
            names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (ValueError, x509.ExtensionNotFound) as error:
            raise ClusterError(f"a request to sign cannot be read; it was refused: {error}") from error
        if not asked.is_signature_valid or len(asked.extensions) != 1 or len(names.value) != 1:
            raise ClusterError("a request to sign is not one that a worker makes; it was refused")
        now = datetime.datetime.now(datetime.UTC)
        until = now + max(datetime.timedelta(seconds=life), _LEAST_LIFE)
        public = asked.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise ClusterError("a request to sign has a key of another kind; it was refused")
        builder = x509.CertificateBuilder(self._certificate.subject, _named(self._role), public, x509.random_serial_number())
        builder = builder.not_valid_before(now - _SKEW).not_valid_after(until)
        builder = builder.add_extension(_alternative(host), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if self._role == WORKERS else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        pem: bytes = signed.public_bytes(serialization.Encoding.PEM)
        return pem


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


class Identity:
    """The files of one program: its certificate, its key, and the authority that it trusts. It requests its certificate, and
    another one after half of the certificate's life. `trouble` is the error of the last `install`, empty if there was none.
    Several threads may use it."""

    def __init__(self, folder: Path, host: str) -> None:
        """Creates the folder, which only the programs' user can read, and makes the first request, for the address `host`."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.certificate, self.key, self.trusted = folder / "certificate.pem", folder / "key.pem", folder / "trusted.pem"
        self._host = host
        self._pending: Request | None = request(host)
        self._installing = threading.Lock()
        self.trouble = ""

    def request(self) -> bytes | None:
        """Returns the request that waits for its certificate; `None` during the first half of a certificate's life."""
        # Does not wait for an `install` in progress: its request stays until all files are there.
        pending = self._pending
        if pending is None and time.time() >= self.renew_at():
            pending = self._pending = request(self._host)
        return None if pending is None else pending.request

    def install(self, certificate: bytes, trusted: bytes) -> None:
        """Replaces the certificate and key. The key is written first: a program that reads in between finds a mismatched pair,
        keeps its former pair, and reads again.

        Ignores a certificate whose request does not wait. The controller may sign a request twice, because it sees the request
        until the first certificate is installed. If a file cannot be written, `trouble` has the error, and the request waits
        for another certificate.
        """
        with self._installing:
            pending = self._pending
            if pending is None or not pending.fits(certificate):
                return
            try:
                write_secret(self.key, pending.key)
                _write(self.certificate, certificate, 0o644)
                _write(self.trusted, trusted, 0o644)
            except OSError as error:
                self.trouble = f"its certificate cannot be installed: {error}"
                return
            self._pending, self.trouble = None, ""

    def renew_at(self) -> float:
        """Returns the time at which half of the certificate's life is over, in seconds since 1970."""
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        begin, end = certificate.not_valid_before_utc + _SKEW, certificate.not_valid_after_utc
        half: float = (begin + (end - begin) / 2).timestamp()
        return half
