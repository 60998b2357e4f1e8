"""Privacy Pass as Apple's devices use it, issuing and redemption, by the client conformance/client/privacy_pass.py."""

import base64
import json
import subprocess
import urllib.request
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key

import apple
import privacy_pass
from system.programs import Folder
from system.test_apple_service import BLOCK, Phone, build, number, write_table

ISSUER = "issuer.example.net"
VECTORS = Path(__file__).parents[2] / "conformance/vectors/privacy_pass.json"


def test_the_client_computes_the_vectors_of_the_rfc():
    for vector in json.loads(VECTORS.read_text(encoding="utf-8")):
        vector = {name: bytes.fromhex(text) for name, text in vector.items()}
        key = privacy_pass.Key(vector["pkS"])
        blind = int.from_bytes(vector["blind"], "big")
        pending = privacy_pass.Pending(key, vector["token_challenge"], vector["nonce"], vector["salt"], blind)
        assert pending.request() == vector["token_request"]
        assert pending.token(vector["token_response"]) == vector["token"]


def token(url, user):
    """Obtains a token as a device does, with the checks that it makes."""

    def ask(path, body=None):
        request = urllib.request.Request(url + path, body, {"Authorization": f"Bearer {user}"})
        return urllib.request.urlopen(request, timeout=60).read()

    directory = json.loads(ask("/.well-known/private-token-issuer-directory"))
    spki = ask("/token-key-for-user-token")
    assert base64.urlsafe_b64encode(spki).decode() in [key["token-key"] for key in directory["token-keys"]]
    pending = privacy_pass.Pending(privacy_pass.Key(spki), privacy_pass.challenge(ISSUER))
    return pending.token(ask(directory["issuer-request-uri"], pending.request()))


def make_key(folder, tier, seen):
    """Makes an issuer's key whose id ends with another byte than those of `seen`. Returns its lines for the server's file."""
    while True:
        lines = folder.run("token", "issuer", f"{tier}.pem", "--tier", tier, "--issues", "4/day").stdout
        path = folder.path / f"{tier}.pem"
        assert path.stat().st_mode & 0o777 == 0o600
        modulus = load_pem_private_key(path.read_bytes(), None).public_key().public_numbers().n
        key = privacy_pass.Key(privacy_pass.HEAD + modulus.to_bytes(256, "big") + privacy_pass.TAIL)
        if key.id[-1] not in seen:
            seen.add(key.id[-1])
            return lines
        # One pair of keys in 256 has a byte in common. The server refuses such a pair.
        path.unlink()


def test_a_device_obtains_tokens_and_pays_for_look_ups(spirea, tmp_path):
    folder = Folder(spirea, tmp_path)
    write_table(folder, "a", 20)
    build(folder)
    lines = [f'issuer = "{ISSUER}"\nspent = "spent"\n']
    users = {}
    seen = set()
    for tier in ["free", "paid"]:
        lines.append(make_key(folder, tier, seen))
        command = [spirea, "token", "user", "--tier", tier]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.append(made.stderr[made.stderr.index("[[user]]") :])
        users[tier] = made.stdout.strip()
        assert len(base64.b64decode(users[tier], validate=True)) == 32
    folder.write("apple-tokens.toml", "\n".join(lines))
    folder.write("spirea.toml", 'databases = [{ path = "numbers" }]\n[apple]\ntokens = "apple-tokens.toml"\n')
    with folder.serving("--config", "spirea.toml") as [url]:
        phone = Phone(url)
        status, answer = phone.post("/config", b"")
        assert (status, b"no private token" in answer) == (401, True)

        def pay(path, body, token):
            status, answer = phone.post(path, body, Authorization=privacy_pass.header(token))
            assert status == 200, answer
            return answer

        spent = token(url, users["free"])
        client = apple.Client(BLOCK, pay("/config", apple.field(1, BLOCK.encode()), spent))
        status, answer = phone.post("/config", b"", Authorization=privacy_pass.header(spent))
        assert (status, b"spent already" in answer) == (401, True)
        pay("/key", client.evaluation_keys(phone.now), token(url, users["free"]))
        for tier, i in [("free", 1), ("paid", 2)]:
            request, pending = client.request(number(i).encode(), phone.now)
            assert client.value(pending, pay("/queries", request, token(url, users[tier]))) == bytes([i % 2])
        metrics = urllib.request.urlopen(url + "/metrics").read().decode()
        assert 'spirea_spent_tokens{tier="free"} 3' in metrics and 'spirea_spent_tokens{tier="paid"} 1' in metrics
        log = (tmp_path / "server-0.log").read_text(encoding="utf-8")
        assert not any(user in log for user in users.values())
    # Spent tokens are known after a restart.
    with folder.serving("--config", "spirea.toml") as [url]:
        status, answer = Phone(url).post("/config", b"", Authorization=privacy_pass.header(spent))
        assert (status, b"spent already" in answer) == (401, True)
