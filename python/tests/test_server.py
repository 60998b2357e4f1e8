"""Servers as processes: logs, certificates and timeouts."""

import os
import shutil
import subprocess

import pytest

import spirea


def test_the_log_is_a_file_that_goes_with_the_process(keyed, tmp_path):
    with spirea.ServerProcess(keyed) as server:
        assert os.path.isfile(server.log)
    assert not os.path.exists(server.log)
    with spirea.ServerProcess(keyed, log=tmp_path / "server.log") as server:
        assert server.log == str(tmp_path / "server.log")
    with spirea.ServerProcess(keyed, log=tmp_path / "server.log"):
        pass
    assert (tmp_path / "server.log").read_text().count("keyed") >= 2


def test_a_server_that_does_not_start_says_what_it_logged(keyed, tmp_path):
    with pytest.raises(spirea.ServerError, match="exit code 2 before it answered; its log ends with:\n.*--garlic") as caught:
        spirea.ServerProcess(keyed, "--garlic", log=tmp_path / "log")
    assert len(str(caught.value)) < 5000 and "--garlic" in (tmp_path / "log").read_text()
    with pytest.raises(spirea.ServerError, match="has not answered after 0.0 seconds"):
        spirea.ServerProcess(keyed, timeout=0.0)


def test_no_proxy_is_asked_for_a_server_of_this_machine(keyed, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # The global opener may have cached an environment without proxies.
    monkeypatch.setattr("urllib.request._opener", None)
    with spirea.ServerProcess(keyed) as server:
        assert server.database == "keyed"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with the certificate of an unknown authority, and a certificate signed by it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    authority = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=nobody", *authority)
    openssl("req", *curve, "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "own.csr", "-out", "own.pem", *signed)
    return folder


def test_a_server_with_a_certificate_of_a_private_authority(keyed, certificates, tmp_path):
    tls = ["--tls-certificate", str(certificates / "own.pem"), "--tls-key", str(certificates / "own.key")]
    with spirea.ServerProcess(keyed, *tls, ca=certificates / "ca.pem") as server:
        address = server.url.replace("127.0.0.1", "localhost")
        assert spirea.Client(address, "keyed", ca=certificates / "ca.pem").get("k1").text("a") == "a1"
        with pytest.raises(spirea.UnreachableError, match="certificate with ca,"):
            spirea.Client(address, "keyed", attempts=1)
    with pytest.raises(spirea.ServerError, match="not trusted: name its authority's with ca"):
        spirea.ServerProcess(keyed, *tls)
    for wrong in (tmp_path / "none.pem", certificates / "own.key"):
        with pytest.raises(spirea.OptionError, match=f"ca: .*{wrong.name}"):
            spirea.ServerProcess(keyed, *tls, ca=wrong)
