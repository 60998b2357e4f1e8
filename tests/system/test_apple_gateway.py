"""Look-ups through the OHTTP gateway, by the client conformance/client/ohttp.py."""

import base64
import hashlib
import json
import re
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

import apple
import ohttp
import privacy_pass
from spirea_ports import free_ports
from system.programs import PATIENCE, ROOT, Folder, run
from system.test_apple_service import BLOCK, IDENTITY, Phone, build, identity, number, write_table
from system.test_apple_tokens import ISSUER, make_key, token
from system.test_balancers import command

PATH = "/.well-known/ohttp-gateway"
VECTORS = Path(__file__).parents[2] / "conformance/vectors/ohttp.json"
DEPLOY = ROOT / "deploy" / "apple"
CERTIFICATE, KEY = "certificate.pem", "certificate.key"
HOSTS = ["gateway.example.net", "issuer.example.net", "service.example.net"]


def vectors():
    return {name: bytes.fromhex(text) for name, text in json.loads(VECTORS.read_text(encoding="utf-8")).items()}


def test_the_client_computes_the_example_of_the_rfc():
    known = vectors()
    config = ohttp.KeyConfig.read(known["key_config"])
    assert (config.id, config.public) == (known["key_id"][0], known["pkR"])
    private = X25519PrivateKey.from_private_bytes(known["skE"])
    sealed, pending = config.encapsulate(known["request"], private)
    assert sealed == known["encapsulated_request"]
    assert pending.open(known["encapsulated_response"]) == known["response"]
    assert pending.seal(known["response"], known["response_nonce"]) == known["encapsulated_response"]
    assert ohttp.read_response(known["response"]) == ohttp.Response(200)


@given(st.binary())
def test_any_bytes_are_a_response_or_an_error(message):
    with suppress(ohttp.Malformed, UnicodeDecodeError):
        ohttp.read_response(message)


class Relay:
    """A relay: it forwards encapsulated requests, and reads nothing in them."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.forwarded = []

    def post(self, body):
        self.forwarded.append(body)
        request = urllib.request.Request(self.gateway + PATH, body, {"Content-Type": "message/ohttp-req"})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                assert response.headers["Content-Type"] == "message/ohttp-res"
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


class HTTP2Relay(Relay):
    """A relay that forwards over TLS and HTTP/2, as Apple's does. Python's library has no HTTP/2, so curl sends."""

    def __init__(self, host, port, folder):
        super().__init__(f"https://{host}:{port}")
        self.folder = folder
        # The name leads to this machine, and its certificate is the only one that counts.
        self.options = ["--silent", "--show-error", "--http2", "--cacert", CERTIFICATE]
        self.options += ["--resolve", f"{host}:{port}:127.0.0.1"]

    def curl(self, *arguments):
        """Returns the version of HTTP, the status and the body of a response."""
        report = ["--output", "response", "--write-out", "%{http_version} %{http_code}"]
        version, status = run("curl", *self.options, *report, *arguments, cwd=self.folder).stdout.split()
        return version, int(status), (self.folder / "response").read_bytes()

    def post(self, body):
        self.forwarded.append(body)
        (self.folder / "request").write_bytes(body)
        content_type = ["--header", "Content-Type: message/ohttp-req"]
        version, status, answer = self.curl("--data-binary", "@request", *content_type, self.gateway + PATH)
        assert version == "2"
        return status, answer


class ObliviousPhone(Phone):
    """A device whose requests go through a relay. Its answers are those of the requests inside."""

    def __init__(self, relay, keys, form=None, **options):
        super().__init__(None, **options)
        self.relay, self.form = relay, form or {}
        [self.config, *_] = ohttp.KeyConfig.read_list(keys)

    def post(self, path, body, **headers):
        fields = {"user-identifier": self.user, "user-agent": "lookup iOS/18.0"}
        fields |= {name.lower(): value for name, value in headers.items() if value}
        sealed, pending = self.config.encapsulate(ohttp.request("POST", path, fields, body, **self.form))
        status, answer = self.relay.post(sealed)
        assert status == 200, answer
        response = ohttp.read_response(pending.open(answer))
        self.retry_after = response.fields.get("retry-after")
        return response.status, response.content


def make_gateway(folder, name="gateway.key"):
    """Makes a gateway's key. Returns the printed key configuration."""
    printed = folder.run("key", "gateway", name).stdout
    assert (folder.path / name).stat().st_mode & 0o777 == 0o600
    return base64.b64decode(printed, validate=False)


def get(url, **headers):
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60).read()


def make_certificate(folder, *hosts):
    """Makes a certificate that vouches for itself."""
    names = ",".join(f"DNS:{host}" for host in hosts)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=gateway", "-addext", f"subjectAltName={names}"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", KEY, "-out", CERTIFICATE]
    run(*command, cwd=folder.path)


FORMS = [{}, {"padding": 777}, {"chunks": 1000}, {"chunks": 1 << 20, "padding": 5}]


@pytest.fixture
def folder(spirea, tmp_path):
    folder = Folder(spirea, tmp_path)
    write_table(folder, "a", 60)
    build(folder)
    return folder


def test_numbers_are_looked_up_through_the_gateway(folder):
    config = make_gateway(folder)
    folder.write("spirea.toml", 'databases = [{ path = "numbers" }]\n[apple]\ngateway = "gateway.key"\n')
    folder.run("serve", "--config", "spirea.toml", "--check-config")
    with folder.serving("--config", "spirea.toml") as [url]:
        keys = get(url + PATH, Accept="application/ohttp-keys")
        assert keys == len(config).to_bytes(2, "big") + config
        for form in FORMS:
            phone = ObliviousPhone(Relay(url), keys, form, user=f"phone {form}")
            for use_case, expected in [(IDENTITY, identity("a", 1)), (BLOCK, b"\1")]:
                assert phone.look_up(phone.client(use_case), 1) == expected
            # The relay reads nothing that it forwards.
            assert all(b"lookup" not in body and phone.user.encode() not in body for body in phone.relay.forwarded)
        # A device finds the keys that it sent without the gateway, and the reverse.
        direct = Phone(url, phone.user)
        assert direct.look_up(phone.client(BLOCK), 2) == b"\0"
        for path in ["/v1/databases", "/v1/admin/databases", "/metrics", PATH]:
            status, answer = phone.post(path, b"")
            assert (status, b"alone" in answer) == (404, True)
        metrics = get(url + "/metrics").decode()
        assert 'spirea_gateway_requests_total{outcome="answered"}' in metrics
        assert 'endpoint="/queries",status="200"' in metrics
    log = next(folder.path.glob("server-*.log")).read_text(encoding="utf-8")
    assert "request through the gateway" in log
    assert not any(text in log for text in ["lookup iOS", "phone {", "service.example.net"])


def test_private_tokens_pay_inside(folder, spirea):
    make_gateway(folder)
    lines = make_key(folder, "free", set())
    making = [spirea, "token", "user", "--tier", "free"]
    made = subprocess.run(making, capture_output=True, text=True, check=True)
    user = made.stdout.strip()
    entry = made.stderr[made.stderr.index("[[user]]") :]
    folder.write("apple-tokens.toml", f'issuer = "{ISSUER}"\nspent = "spent"\n{lines}\n{entry}')
    settings = '[apple]\ntokens = "apple-tokens.toml"\ngateway = "gateway.key"\n'
    folder.write("spirea.toml", 'databases = [{ path = "numbers" }]\n' + settings)
    with folder.serving("--config", "spirea.toml") as [url]:
        phone = ObliviousPhone(Relay(url), get(url + PATH))
        status, answer = phone.post("/config", b"")
        assert (status, b"no private token" in answer) == (401, True)

        def pay(path, body):
            status, answer = phone.post(path, body, Authorization=privacy_pass.header(token(url, user)))
            assert status == 200, answer
            return answer

        client = apple.Client(BLOCK, pay("/config", apple.field(1, BLOCK.encode())))
        pay("/key", client.evaluation_keys(phone.now))
        request, pending = client.request(number(1).encode(), phone.now)
        assert client.value(pending, pay("/queries", request)) == b"\1"
        # The relay sends the look-up again. It gets a response that it cannot read, and the token is not spent again.
        assert phone.relay.post(phone.relay.forwarded[-1])[0] == 200
        metrics = get(url + "/metrics").decode()
        assert 'spirea_spent_tokens{tier="free"} 3' in metrics
        assert 'spirea_private_tokens_total{outcome="spent_before"} 1' in metrics


def test_a_key_is_replaced_in_the_same_file(folder):
    make_gateway(folder, "first.key")
    first = (folder.path / "first.key").read_text()
    while True:
        make_gateway(folder, "second.key")
        second = (folder.path / "second.key").read_text()
        [old, new] = [folder.path / name for name in ["first.key", "second.key"]]
        if key_id(old) != key_id(new):
            break
        # One pair of keys in 256 has the same id. The server refuses such a pair.
        new.unlink()
    (folder.path / "gateway.key").touch(mode=0o600)
    folder.write("gateway.key", second + first)
    folder.write("spirea.toml", 'databases = [{ path = "numbers" }]\n[apple]\ngateway = "gateway.key"\n')
    with folder.serving("--config", "spirea.toml") as [url]:
        configs = ohttp.KeyConfig.read_list(get(url + PATH))
        assert [config.id for config in configs] == [key_id(new), key_id(old)]
        for config in configs:
            phone = ObliviousPhone(Relay(url), get(url + PATH))
            phone.config = config
            assert phone.ask("/config", b"")
        strange = ohttp.KeyConfig(configs[0].id, X25519PrivateKey.generate().public_key().public_bytes_raw())
        status, answer = Relay(url).post(strange.encapsulate(b"")[0])
        assert (status, json.loads(answer)["type"].rpartition("#")[2]) == (400, "ohttp-key")
    refused = subprocess.run(
        [folder.spirea, "key", "gateway", "gateway.key"], cwd=folder.path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2 and "name a new file" in refused.stderr
    assert (folder.path / "gateway.key").read_text() == second + first


def key_id(path):
    """Returns the id of a key file's key: the first byte of the hash of its public key, which openssl computes."""
    made = subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"], capture_output=True, check=True)
    return hashlib.sha256(made.stdout[-32:]).digest()[0]


def test_a_relay_forwards_over_tls_and_http_2(folder):
    make_gateway(folder)
    make_certificate(folder, "localhost")
    settings = 'databases = [{ path = "numbers" }]\n[apple]\ngateway = "gateway.key"\n'
    folder.write("spirea.toml", settings + f'[tls]\ncertificate = "{CERTIFICATE}"\nkey = "{KEY}"\n')
    serve = [folder.spirea, "serve", "--config", "spirea.toml", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, cwd=folder.path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            port = re.search(r"https://127.0.0.1:(\d+)", server.stdout.readline()).group(1)
            look_up_by_http_2(HTTP2Relay("localhost", port, folder.path))
        finally:
            server.terminate()
            server.wait(PATIENCE)


def look_up_by_http_2(relay):
    """Looks a number up as soon as the server has its tables."""
    retry = ["--retry", "100", "--retry-delay", "1", "--retry-connrefused"]
    version, status, keys = relay.curl(*retry, relay.gateway + PATH)
    assert (version, status) == ("2", 200)
    phone = ObliviousPhone(relay, keys)
    deadline = monotonic() + PATIENCE
    while phone.post("/config", apple.field(1, BLOCK.encode()))[0] == 503:
        assert monotonic() < deadline
        sleep(0.1)
    assert phone.look_up(phone.client(BLOCK), 1) == b"\1"


@pytest.mark.needs("nginx")
def test_the_example_gives_each_part_a_host_name(folder):
    make_gateway(folder)
    make_certificate(folder, *HOSTS)
    folder.write("apple-tokens.toml", f'issuer = "{HOSTS[1]}"\nspent = "spent"\n{make_key(folder, "free", set())}')
    text = (DEPLOY / "spirea.toml").read_text(encoding="utf-8")
    for path in ["/var/lib/spirea/numbers", "/etc/spirea/apple-tokens.toml", "/etc/spirea/gateway.key"]:
        assert text.count(f'"{path}"') == 1
        text = text.replace(path, path.rpartition("/")[2])
    folder.write("spirea.toml", text)
    folder.run("serve", "--config", "spirea.toml", "--check-config")
    with folder.serving("--config", "spirea.toml") as [url]:
        [port] = free_ports(1)
        conf = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
        assert conf.count("listen 443 ssl http2") == len(HOSTS) + 1
        for former, new in [
            ("listen 443", f"listen 127.0.0.1:{port}"),
            ("127.0.0.1:8080", url.removeprefix("http://")),
            ("/etc/ssl/example.net.pem", folder.path / CERTIFICATE),
            ("/etc/ssl/private/example.net.key", folder.path / KEY),
        ]:
            assert former in conf
            conf = conf.replace(former, str(new))
        # The name of each folder for temporary files is below the test's.
        folder.write("nginx.conf", conf.replace("access_log off;", ""))
        nginx = command("nginx.conf", folder.path / "nginx.conf", folder.path)
        with subprocess.Popen(nginx, cwd=folder.path) as process:
            try:
                gateway, issuer, service = (HTTP2Relay(host, port, folder.path) for host in HOSTS)
                retry = ["--retry", "100", "--retry-delay", "1", "--retry-connrefused"]
                version, status, keys = gateway.curl(*retry, gateway.gateway + PATH)
                assert (version, status) == ("2", 200)
                status, answer = ObliviousPhone(gateway, keys).post("/config", b"")
                assert (status, b"no private token" in answer) == (401, True)
                assert issuer.curl(issuer.gateway + "/.well-known/private-token-issuer-directory")[1] == 200
                assert service.curl("--data-binary", "", "--user-agent", "a", service.gateway + "/config")[1] == 400
                for part in [gateway, issuer, service]:
                    for path in ["/", "/metrics", "/readyz", "/v1/databases"]:
                        assert part.curl(part.gateway + path)[1] == 404
                # Each name has its own part alone.
                assert gateway.curl("--data-binary", "", gateway.gateway + "/config")[1] == 404
                assert service.curl(service.gateway + PATH)[1] == 404
            finally:
                process.terminate()
                process.wait(PATIENCE)
