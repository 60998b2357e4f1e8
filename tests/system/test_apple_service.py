"""Look-ups of the Python client of Apple's protocol (conformance/client/apple.py) over HTTP, in a table of caller ID."""

import json
import time
import urllib.error
import urllib.request

import pytest

import apple
from system.programs import Folder

BUNDLE = "net.example.lookup"
IDENTITY, BLOCK = f"{BUNDLE}.identity", f"{BUNDLE}.block"
# Shards by parameter set.
SETS = {"n_4096_logq_27_28_28_logt_4": 1, "n_4096_logq_27_28_28_logt_5": 2, "n_4096_logq_27_28_28_logt_6": 1}
NUMBERS = 300
USER = "5f9e3b0c"


def number(i):
    return f"+4144668{i:04}"


def write_table(folder, edition, numbers=NUMBERS):
    """Writes a table in which every third number is without a name, and odd numbers are blocked."""
    names = ["" if i % 3 == 0 else f"{edition} {i}" for i in range(numbers)]
    rows = [f"044 668 {i // 100:02} {i % 100:02},{name},business,{i % 2}" for i, name in enumerate(names)]
    folder.write("numbers.csv", "\n".join(["number,name,category,block", *rows, ""]))


def build(folder, *more):
    folder.run(
        *["build", "--input", "numbers.csv", "--key", "number", "--value", "name", "category", "block"],
        *["--normalise", "e164:CH", "--protocol", "simple", "--out", "numbers", "--for", "apple", "--bundle", BUNDLE, *more],
    )


def identity(edition, i):
    return None if i % 3 == 0 else apple.field(1, f"{edition} {i}".encode()) + apple.field(4, 2)


class Phone:
    """A device that asks a server."""

    def __init__(self, url, user=USER):
        self.url, self.user, self.now = url, user, int(time.time())

    def post(self, path, body, **headers):
        """Returns the status and the body of a response."""
        headers = {"User-Identifier": self.user, "User-Agent": "lookup iOS/18.0", **headers}
        headers = {name: value for name, value in headers.items() if value}
        # No content type: urllib would add one.
        request = urllib.request.Request(self.url + path, body, headers | {"Content-Type": ""})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            self.retry_after = error.headers["Retry-After"]
            return error.code, error.read()

    def ask(self, path, body):
        status, answer = self.post(path, body)
        assert status == 200, answer
        return answer

    def client(self, use_case, make=apple.Client):
        """Returns a client with the use case's configuration, whose keys are stored."""
        client = make(use_case, self.ask("/config", apple.field(1, use_case.encode())))
        assert self.ask("/key", client.evaluation_keys(self.now)) == b""
        return client

    def look_up(self, client, i):
        request, pending = client.request(number(i).encode(), self.now)
        return client.value(pending, self.ask("/queries", request))


@pytest.fixture
def folder(spirea, tmp_path):
    return Folder(spirea, tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_present_and_absent_numbers(folder, name):
    write_table(folder, "a")
    build(folder, "--apple-set", name, "--apple-shards", SETS[name])
    with folder.serving("numbers") as [url]:
        phone = Phone(url)
        identities = phone.client(IDENTITY)
        assert len(identities.shards) == SETS[name]
        for i in [0, 1, 2, 155, 299, NUMBERS, 9999]:
            assert phone.look_up(identities, i) == (identity("a", i) if i < NUMBERS else None), i
        blocks = phone.client(BLOCK)
        for i in [0, 1, 298, NUMBERS]:
            assert phone.look_up(blocks, i) == (bytes([i % 2]) if i < NUMBERS else None), i
        # The same table answers Spirea's clients.
        found = json.loads(folder.run("get", url, "numbers", "044 668 00 01", "--json").stdout)
        assert "a 1" in json.dumps(found)


def test_refusals(folder):
    write_table(folder, "a", 20)
    build(folder)
    with folder.serving("numbers") as [url]:
        phone = Phone(url)

        def refused(status, text, path, body, **headers):
            found, answer = phone.post(path, body, **headers)
            message = json.loads(answer)["error"]["message"]
            assert (found, text in message) == (status, True), message

        refused(400, "User-Identifier", "/config", b"", **{"User-Identifier": ""})
        refused(400, "User-Identifier", "/config", b"", **{"User-Identifier": "x" * 257})
        refused(404, "no use case", "/config", apple.field(1, b"other"))
        refused(400, "as many", "/config", apple.field(2, bytes(32)))
        for path in ["/config", "/key", "/queries"]:
            refused(400, "malformed", path, b"\x0a\xff")
        config = phone.ask("/config", b"")
        client = apple.Client(BLOCK, config)
        request, _ = client.request(number(1).encode(), phone.now)
        refused(400, "Evaluation key not found", "/queries", request)
        status = apple.fields(config)[2][0]
        assert apple.fields(status).get(1, [0]) == [0]

        keys = client.evaluation_keys(phone.now)
        refused(400, "no use case asks", "/key", keys.replace(client.key_hash, bytes(32)))
        refused(400, "lacks", "/key", apple.field(1, b""))
        refused(400, "malformed", "/key", keys[:-200] + bytes(200))
        phone.ask("/key", keys)
        assert phone.look_up(client, 1) == b"\1"
        # The key's time comes back to its client alone.
        known, strange = phone.ask("/config", b""), Phone(url, "another").ask("/config", b"")
        assert [apple.fields(apple.fields(c)[2][0]).get(1, [0])[0] for c in [known, strange]] == [phone.now, 0]
        found, answer = Phone(url, "another").post("/queries", request)
        assert (found, b"Evaluation key not found" in answer) == (400, True)
        # A client that has the configuration is told so.
        both = apple.field(1, BLOCK.encode()) + apple.field(2, client.config_id)
        entry = apple.fields(phone.ask("/config", both))[1][0]
        assert apple.only(entry, 2) == apple.field(4, 1)

        pir = apple.only(apple.only(request, 1), 2)
        query = lambda pir, name=BLOCK: apple.field(1, apple.field(1, name.encode()) + apple.field(2, pir))  # noqa: E731
        refused(400, "no use case", "/queries", query(pir, "other"))
        refused(410, "not the current one", "/queries", query(pir.replace(client.config_id, bytes(32))))
        refused(501, "not supported", "/queries", query(pir + apple.field(5, b"a")))
        refused(501, "not supported", "/queries", apple.field(1, apple.field(1, BLOCK.encode())))
        refused(400, "no shard 7", "/queries", query(apple.field(1, 7) + pir))
        refused(413, "longer", "/queries", bytes(11 << 20))
        assert phone.look_up(client, 1) == b"\1"
        metrics = urllib.request.urlopen(url + "/metrics").read().decode()
        assert 'spirea_keys{place="apple"} 1' in metrics and 'endpoint="/queries",status="410"' in metrics


def test_a_new_snapshot_takes_over_while_clients_ask(folder):
    write_table(folder, "first")
    build(folder)
    with folder.serving("numbers", ports=2) as [url, operators]:
        phone = Phone(url)
        client = phone.client(IDENTITY)
        assert phone.look_up(client, 1) == identity("first", 1)

        def replace(edition, numbers):
            write_table(folder, edition, numbers)
            build(folder, "--overwrite")
            urllib.request.urlopen(urllib.request.Request(f"{operators}/v1/admin/reload?shrinking=allow", b"")).read()

        replace("second", 700)
        # The former configuration goes on, with the former data; the new one has the new data, under the same keys.
        assert phone.look_up(client, 1) == identity("first", 1)
        newer = apple.Client(IDENTITY, phone.ask("/config", b""))
        assert newer.config_id != client.config_id
        newer = phone.client(IDENTITY)
        assert phone.look_up(newer, 1) == identity("second", 1)
        replace("third", 2000)
        request, _ = client.request(number(1).encode(), phone.now)
        status, answer = phone.post("/queries", request)
        assert status == 410, answer
        assert phone.look_up(phone.client(IDENTITY), 1999) == identity("third", 1999)


def test_an_address_has_a_quota(folder):
    write_table(folder, "a", 20)
    build(folder)
    folder.write("spirea.toml", 'databases = [{ path = "numbers" }]\n[apple]\nquota = "2/day"\nclient_keys = 1\n')
    with folder.serving("--config", "spirea.toml") as [url]:
        phone = Phone(url)
        client = phone.client(BLOCK)
        assert phone.look_up(client, 1) == b"\1"
        # Another name is the same address: its key displaces the first one.
        other = Phone(url, "another")
        assert other.look_up(other.client(BLOCK), 2) == b"\0"
        request, _ = client.request(number(1).encode(), phone.now)
        status, answer = phone.post("/queries", request)
        assert status == 429 and b"quota of 2/day" in answer and 0 < int(phone.retry_after) <= 86400
        entry = apple.fields(phone.ask("/config", b""))[2][0]
        assert apple.fields(entry).get(1, [0]) == [0]
