"""Certificates: trust between the roles, permissions of key files, and renewal."""

import os
import socket
import ssl
import threading
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import spirea
from spirea.cluster.authority import COORDINATORS, WORKERS, Authority, Identity, request


@pytest.fixture
def authorities(tmp_path):
    return {role: Authority(tmp_path / "state", role) for role in (WORKERS, COORDINATORS)}


def identity(folder, authorities, role, life=3600.0):
    other = COORDINATORS if role == WORKERS else WORKERS
    made = Identity(folder, "127.0.0.1")
    made.install(authorities[role].sign(made.request(), life, "127.0.0.1"), authorities[other].certificate)
    assert made.request() is None
    return made


def shake_hands(server, client):
    """Connects a client to a server that requires a certificate. Returns the server's message to the client."""
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(server.certificate, server.key)
    listening.load_verify_locations(server.trusted)
    listening.verify_mode = ssl.CERT_REQUIRED
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.load_cert_chain(client.certificate, client.key)
    asking.load_verify_locations(client.trusted)
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve():
            try:
                with listening.wrap_socket(door.accept()[0], server_side=True) as connection:
                    connection.sendall(b"ready")
            except (ssl.SSLError, OSError):
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with socket.create_connection(door.getsockname()) as plain:
                with asking.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                    return connection.recv(5)
        finally:
            thread.join()


def test_the_coordinator_and_workers_trust_each_other_and_no_worker_another(tmp_path, authorities):
    worker = identity(tmp_path / "worker", authorities, WORKERS)
    coordinator = identity(tmp_path / "coordinator", authorities, COORDINATORS)
    assert shake_hands(worker, coordinator) == b"ready"
    other = identity(tmp_path / "other", authorities, WORKERS)
    other.trusted.write_bytes(authorities[WORKERS].certificate)
    with pytest.raises((ssl.SSLError, OSError)):
        shake_hands(worker, other)


def test_authorities_of_another_cluster_are_strangers(tmp_path, authorities):
    others = {role: Authority(tmp_path / "elsewhere", role) for role in (WORKERS, COORDINATORS)}
    worker = identity(tmp_path / "worker", authorities, WORKERS)
    stranger = identity(tmp_path / "stranger", others, COORDINATORS)
    stranger.trusted.write_bytes(authorities[WORKERS].certificate)
    with pytest.raises((ssl.SSLError, OSError)):
        shake_hands(worker, stranger)


def test_keys_are_for_their_owner_alone_and_outlive_the_controller(tmp_path, authorities):
    for path in [tmp_path / "state" / f"{role}.key" for role in (WORKERS, COORDINATORS)]:
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    made = identity(tmp_path / "worker", authorities, WORKERS)
    assert made.key.stat().st_mode & 0o777 == 0o600
    assert Authority(tmp_path / "state", WORKERS).certificate == authorities[WORKERS].certificate
    os.chmod(tmp_path / "state" / "workers.key", 0o644)
    with pytest.raises(spirea.ClusterError, match="others may read it; chmod 600"):
        Authority(tmp_path / "state", WORKERS)


def test_certificates_are_made_anew_at_half_of_their_life(tmp_path, authorities, monkeypatch):
    made = identity(tmp_path / "worker", authorities, WORKERS, life=1000.0)
    assert 480 < made.renew_at() - time.time() < 501
    before = made.certificate.read_bytes()
    later = time.time() + 501
    monkeypatch.setattr("spirea.cluster.authority.time.time", lambda: later)
    asked = made.request()
    assert asked is not None and made.request() == asked
    made.install(authorities[WORKERS].sign(asked, 1000.0, "127.0.0.1"), authorities[COORDINATORS].certificate)
    assert made.certificate.read_bytes() != before
    coordinator = identity(tmp_path / "coordinator", authorities, COORDINATORS)
    assert shake_hands(made, coordinator) == b"ready"


def test_a_certificate_for_another_request_is_ignored(tmp_path, authorities):
    made, trusted = Identity(tmp_path / "worker", "127.0.0.1"), authorities[COORDINATORS].certificate
    made.install(authorities[WORKERS].sign(request("127.0.0.1").request, 60.0, "127.0.0.1"), trusted)
    assert made.request() is not None and not made.certificate.exists()
    asked = made.request()
    first, second = (authorities[WORKERS].sign(asked, 60.0, "127.0.0.1") for _ in range(2))
    made.install(first, trusted)
    made.install(second, trusted)
    assert made.request() is None and made.certificate.read_bytes() == first


def test_a_certificate_that_cannot_be_written_is_requested_again(tmp_path, authorities):
    made, trusted = Identity(tmp_path / "worker", "127.0.0.1"), authorities[COORDINATORS].certificate
    made.certificate.mkdir()
    made.install(authorities[WORKERS].sign(made.request(), 60.0, "127.0.0.1"), trusted)
    assert made.request() is not None and "cannot be installed" in made.trouble
    made.certificate.rmdir()
    made.install(authorities[WORKERS].sign(made.request(), 60.0, "127.0.0.1"), trusted)
    assert made.request() is None and made.trouble == ""


def test_a_request_for_more_than_an_address_is_refused(authorities):
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("node")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    asked = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(spirea.ClusterError, match="it was refused"):
        authorities[WORKERS].sign(asked, 60.0, "node")
