#!/usr/bin/env python3
"""The reference client against served tables of all protocols, and against vectors and examples.

Usage: test_reference_client.py PATH_TO_SPIREA [NAME...]

Without names, all tests run. Tables are built, changed and served by the binary; what the client says of them must be
what was put into them, and what is damaged on the way must be an error or change nothing.
"""

import http.client
import http.server
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import blake3

import examples
import vectors
from reference import envelope, table
from reference.errors import ClientError, Refused, Unverified
from reference.look_up import DROPPED, Client
from reference.protocols import PROTOCOLS
from reference.streams import OsRandom
from reference.transport import Server

HERE = Path(__file__).resolve().parent
COMMAND = [sys.executable, str(HERE / "spirea_reference.py")]
# Those whose queries can bring their keys, too: a protocol and the way of its keys.
ONE_SHOT = ("exppack-simple/per-query", "exppack-double/per-query", "hybrid/per-query")
NAMES = [*PROTOCOLS, *ONE_SHOT]
# Tables with inclusion proofs: one of each kind of protocol, by key and by index.
PROVEN = ("simple", "hybrid", "onion", "dpf-xor")
# Tables by index, too: rows differ from keys in how a value is found in a record, whatever the protocol.
BY_INDEX = (*PROVEN, "double", "dpf-sum")
ROWS = 60
# Under those without proofs one row of the tables by index is long, so that records are buckets of rows.
LONG_ROW = 30
# Tables in bins: the protocol, how values are found, and how many bins.
IN_BINS = (("dpf-xor", "rows", "7"), ("dpf-sum", "keyed", "4"))


def value(i):
    return f"value {i} " + "x" * (i % 5)


def database(protocol, kind):
    """The name of a protocol's table."""
    return f"{protocol.replace('/', '-')}-{kind}"


def parties(protocol):
    return PROTOCOLS[protocol.partition("/")[0]].parties


class Tables:
    """Repositories of every protocol, each with a base and a delta, by key and, of some, by index."""

    def __init__(self, spirea, folder):
        self.spirea, self.folder = spirea, folder
        self.run("key", "new", "operator.key", out="operator.pub")
        self.public = (folder / "operator.pub").read_text().split()[0]
        self.write()
        self.in_bins()
        jobs = [(name, kind) for name in NAMES for kind in self.kinds(name)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda job: self.publish(*job), jobs))

    def run(self, *arguments, out=None):
        done = subprocess.run([self.spirea, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"spirea {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        if out:
            (self.folder / out).write_text(done.stdout)

    def write(self):
        """The tables and their changes."""
        keyed, rows, uneven = ["key,note,size"], ["note"], ["note"]
        for i in range(ROWS):
            keyed.append(f"k{i},{value(i)},{i}")
            rows.append(value(i))
            uneven.append("x" * 900 if i == LONG_ROW else value(i))
        (self.folder / "keyed.csv").write_text("\n".join(keyed) + "\n")
        (self.folder / "rows.csv").write_text("\n".join(rows) + "\n")
        (self.folder / "uneven.csv").write_text("\n".join(uneven) + "\n")
        changed = {"note": "changed", "size": "7"}
        changes = {
            "keyed": [{"key": "k1", "value": changed}, {"key": "k2", "deleted": True}, {"key": "new", "value": changed}],
            "rows": [
                {"key": 1, "value": "changed"},
                {"key": 2, "deleted": True},
                {"key": ROWS, "value": "added"},
            ],
        }
        for kind, lines in changes.items():
            (self.folder / f"{kind}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def publish(self, protocol, kind):
        name = database(protocol, kind)
        columns = ["--key", "key", "--value", "note", "size"] if kind == "keyed" else ["--value", "note"]
        named, _, keys = protocol.partition("/")
        options = ["--protocol", named] + ["--keys", keys] * bool(keys) + ["--proofs"] * (protocol in PROVEN)
        table_file = "uneven.csv" if kind == "rows" and protocol not in PROVEN else f"{kind}.csv"
        self.run("build", "--input", table_file, *columns, *options, "--out", f"base-{name}", "--name", name, "--threads", "1")
        repository = ["--repository", f"repository-{name}", "--sign", "operator.key", "--threads", "1"]
        self.run("publish", *repository, "--base", f"base-{name}")
        self.run("publish", *repository, "--changes", f"{kind}.jsonl")

    def in_bins(self):
        """Tables in bins, whose changes make a new base: by index and by key."""
        for protocol, kind, bins in IN_BINS:
            columns = ["--key", "key", "--value", "note", "size"] if kind == "keyed" else ["--value", "note"]
            name = f"{protocol}-bins"
            options = ["--protocol", protocol, "--bins", bins, "--out", f"base-{name}", "--name", name, "--threads", "1"]
            self.run("build", "--input", f"{kind}.csv", *columns, *options)
            repository = ["--repository", f"repository-{name}", "--threads", "1"]
            self.run("publish", *repository, "--base", f"base-{name}")
            self.run("publish", *repository, "--changes", f"{kind}.jsonl")

    @staticmethod
    def kinds(protocol):
        return ("keyed", "rows") if protocol in BY_INDEX else ("keyed",)

    def folders(self, protocols):
        return [f"repository-{database(name, kind)}" for name in protocols for kind in self.kinds(name)]

    def copied(self, folders):
        for name in folders:
            shutil.copytree(self.folder / name, self.folder / f"copy-of-{name}")
        return [f"copy-of-{name}" for name in folders]


class Serving:
    """A server on a free port, stopped at the end."""

    def __init__(self, tables, folders, *options):
        self.log = open(tables.folder / f"server-{len(folders)}{''.join(options)}.log", "w", encoding="utf-8")
        command = [tables.spirea, "serve", *folders, "--listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, cwd=tables.folder, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline().strip()
        self.url = line.removeprefix("listening on ")
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=10).close()
                return
            except (OSError, ValueError):
                time.sleep(0.5)
        self.stop()
        sys.exit(f"the server is not ready: {line}\n{Path(self.log.name).read_text()[-2000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


class World:
    """All that is served: the protocols with one server by one, and those with two by two."""

    def __init__(self):
        self.one, self.two = None, []

    def begin(self, spirea, folder):
        self.tables = Tables(spirea, folder)
        pairs = [name for name in NAMES if parties(name) == 2]
        alone = [name for name in NAMES if name not in pairs]
        self.one = Serving(self.tables, self.tables.folders(alone))
        # A repository belongs to one process: the other party has a copy.
        folders = self.tables.folders(pairs) + [f"repository-{protocol}-bins" for protocol, _, _ in IN_BINS]
        copies = self.tables.copied(folders)
        for folders, party in ((copies, "1"), (folders, "0")):
            self.two.append(Serving(self.tables, folders, "--party", party))

    def urls(self, protocol):
        return [server.url for server in self.two] if parties(protocol) == 2 else [self.one.url]

    def stop(self):
        for server in filter(None, (self.one, *self.two)):
            server.stop()


def get(urls, database, *arguments):
    """What the command says of a database: its status, its lines as JSON, and its errors."""
    other = ["--other", urls[1]] if len(urls) == 2 else []
    command = [*COMMAND, urls[0], database, *arguments, *other, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def options(**given):
    return SimpleNamespace(**{"token": None, "pin_key": None, "least_sequence": 0, "accept_weak_prf": False, **given})


def expect(got, wanted, what):
    if got != wanted:
        sys.exit(f"{what}: {got!r} where {wanted!r} was expected")


def test_examples(_):
    """The documents' examples are what the client computes."""
    for path in examples.documents():
        for name, said in examples.BLOCK.findall(path.read_text(encoding="utf-8")):
            expect(said, examples.computed(name, said), f"example {name}")
    return f"{len(examples.EXAMPLES)} examples"


def test_vectors(_):
    return vectors.check()


def test_keys(world):
    """Present, changed, deleted, added and absent keys under every protocol, signed by the pinned key."""
    changed = {"note": "changed", "size": "7"}
    for protocol in NAMES:
        keys = ["k17", "k1", "k2", "new", "never"]
        status, lines, said = get(world.urls(protocol), database(protocol, "keyed"), *keys, "--pin-key", world.tables.public)
        values = [{"note": value(17), "size": "17"}, changed, None, changed, None]
        expect([line.get("value") for line in lines], values, f"keys under {protocol}: {said}")
        expect([line["key"] for line in lines], keys, protocol)
        expect(status, 1, f"the status of {protocol}")
    return f"{len(NAMES)} protocols"


def test_rows(world):
    """The same by index; a row that nobody has is an error."""
    for protocol in BY_INDEX:
        wanted = [17, 1, 2, ROWS, ROWS - 1]
        arguments = [argument for index in wanted for argument in ("--index", str(index))]
        status, lines, said = get(world.urls(protocol), f"{protocol}-rows", *arguments)
        values = [{"note": value(17)}, {"note": "changed"}, None, {"note": "added"}, {"note": value(ROWS - 1)}]
        expect([line.get("value") for line in lines], values, f"rows under {protocol}: {said}")
        expect(status, 1, f"the status of {protocol}")
    status, lines, said = get([world.one.url], "simple-rows", "--index", str(ROWS + 1))
    expect((status, lines, "no such entry" in said), (2, [], True), f"a row that nobody has: {said}")
    return f"{len(BY_INDEX)} protocols"


def test_bins(world):
    """Several values with one query: brought, deleted, absent and dropped; each alone as ever; lies about any bin refused."""
    rows = Client(world.urls("dpf-xor"), "dpf-xor-bins", OsRandom(), options())
    part = rows.found.base
    expect((rows.found.delta, part.protocol.bins), (None, 7), "a table in bins has no delta")
    text = {1: b"changed", ROWS: b"added", **{i: value(i).encode() for i in (17, 30, 45)}}
    wanted = [17, 1, 30, 2, 45, ROWS, 1]
    # Rows 1 and 2 have one bin, of nine.
    told = [DROPPED if index == 2 else [text[index]] for index in wanted]
    expect(rows.fetch(indices=wanted), told, "a fetch of rows")
    expect(rows.fetch(indices=[2, 1]), [None, DROPPED], "a row that was deleted, and one behind it")
    expect(rows.fetch(), [], "a fetch of nothing")
    expect(rows.look_up(indices=[17, 2]), [[value(17).encode()], None], "rows one by one")
    keyed = Client(world.urls("dpf-sum"), "dpf-sum-bins", OsRandom(), options())
    expect(keyed.fetch([b"k17"]), [[value(17).encode(), b"17"]], "a fetch of a key")
    expect(keyed.fetch([b"never"]), [None], "a fetch of an absent key")
    row_bytes, refused = part.protocol.row_bytes, 0
    for bin_number in range(6):
        lying = Client(world.urls("dpf-xor"), "dpf-xor-bins", OsRandom(), options())
        at = bin_number * row_bytes
        Damaging(lying, lambda answer, at=at: answer[:at] + inverted(answer[at : at + 1]) + answer[at + 1 :])
        try:
            lying.fetch(indices=[17])
        except Unverified:
            refused += 1
    expect(refused, 6, "lies about any bin")
    try:
        client_of(world, "dpf-xor").fetch([b"k1"])
        sys.exit("a version with a delta was fetched from")
    except ClientError:
        return "2 tables, 6 lies refused"


def client_of(world, protocol, kind="keyed", **given):
    return Client(world.urls(protocol), database(protocol, kind), OsRandom(), options(**given))


class Damaging:
    """Passes a client's queries on and damages the answers in the responses."""

    def __init__(self, client, damage):
        self.damage, self.honest = damage, client.servers[0]
        client.servers[0] = self

    def __getattr__(self, name):
        return getattr(self.honest, name)

    def query(self, request, request_id, limit):
        return damaged(self.honest.query(request, request_id, limit), self.damage)


def damaged(response, damage):
    """A response with its answers damaged."""
    message = envelope.Message(response)
    parts = [[damage(answer) for answer in message.all(number)] for number in (3, 5)]
    head = envelope.field(1, 1) + envelope.field(2, message.hash(2))
    return head + envelope.repeated(3, parts[0]) + envelope.repeated(5, parts[1])


def inverted(answer):
    return bytes(byte ^ 0xFF for byte in answer)


def flipped(generator):
    """Flips one bit of an answer."""

    def damage(answer):
        bit = generator.randrange(8 * len(answer))
        return answer[: bit // 8] + bytes([answer[bit // 8] ^ 1 << bit % 8]) + answer[bit // 8 + 1 :]

    return damage


def test_damage(world):
    """Answers that were damaged are errors; a bit that changes nothing changes nothing; none is another value."""
    generator, flips, refused = random.Random(1), 1, 0
    for protocol in NAMES:
        for damage in [inverted] + [flipped(generator)] * flips:
            client = client_of(world, protocol)
            Damaging(client, damage)
            try:
                found = client.look_up([b"k17"])
                expect(damage is not inverted, True, f"inverted answers under {protocol} were taken")
                expect(found, [[value(17).encode(), b"17"]], f"a flipped bit under {protocol}")
            except Unverified:
                refused += 1
        client = client_of(world, protocol)
        Damaging(client, lambda answer: answer[:-1])
        try:
            client.look_up([b"k17"])
            sys.exit(f"a shorter answer under {protocol} was taken")
        except ClientError:
            refused += 1
    return f"{refused} of {len(NAMES) * (flips + 2)} refused"


def test_proofs(world):
    """A server that seals a record of its own with the public salt is refused where records carry proofs."""
    for protocol, lies in (("simple", True), ("double", False)):
        client = client_of(world, protocol, "rows")
        part = client.found.base
        honest, (record, _) = part.protocol.decode, table.row(part.table, 17)

        def lying(state, answers, table_of=part.table, honest=honest, record=record):
            """The record as if the server had changed it, and the checksum with it."""
            sealed = bytearray(honest(state, answers)[: -table.CHECKSUM_BYTES])
            sealed[1] ^= 1
            salt = bytes.fromhex(table_of["salt"])
            return bytes(sealed) + table.checksum(salt, record, bytes(sealed))

        part.protocol.decode = lying
        try:
            client.look_up(indices=[17])
            expect(lies, False, "a lie where records carry proofs")
        except Unverified as error:
            expect((lies, "sealed" in str(error)), (True, True), str(error))
    return "a lie is refused with proofs, and is not without"


def test_configurations(world):
    """A configuration with a changed byte is refused, with a pinned key whatever byte it is."""
    generator, changed = random.Random(2), 0
    name = "simple-keyed"
    config = Server(world.one.url, name).config()
    signature = envelope.Message(config).bytes(9)
    covered = [i for i in range(len(config)) if not config.find(signature) <= i < config.find(signature) + len(signature)]

    class Changing(Server):
        def config(self, version=None):
            at = generator.choice(covered)
            return config[:at] + bytes([config[at] ^ 1 << generator.randrange(8)]) + config[at + 1 :]

    base = envelope.Message(config).message(4)
    for _ in range(120):
        client = Client.__new__(Client)
        client.name, client.rng, client.options = name, OsRandom(), options(pin_key=world.tables.public)
        client.servers = [Changing(world.one.url, name)]
        try:
            client.connect()
            same = [part.table for part in client.found.parts] == [json.loads(base.bytes(2)), client.found.delta.table]
            expect(same, True, "a changed configuration was taken")
        except ClientError:
            changed += 1
    expect(changed > 100, True, f"{changed} of 120 changed configurations were refused")
    return f"{changed} of 120 refused"


def test_signatures(world):
    """A version is refused that is unsigned, signed by another key, or older than what was seen."""
    database, right = "simple-keyed", world.tables.public
    sequence = client_of(world, "simple", pin_key=right).found.signature["sequence"]
    for given in (["--pin-key", "11" * 32], ["--pin-key", right, "--least-sequence", str(sequence + 1)]):
        status, lines, said = get([world.one.url], database, "k17", *given)
        expect((status, lines), (2, []), f"{given}: {said}")
    unsigned = Serving(world.tables, ["base-simple-keyed"])
    try:
        status, lines, said = get([unsigned.url], database, "k17", "--pin-key", right)
        expect((status, lines, "not signed" in said), (2, [], True), said)
        expect(get([unsigned.url], database, "k17")[0], 0, "a version without a delta")
    finally:
        unsigned.stop()
    return "4 versions"


def test_refusals(world):
    """What a client cannot do is an error, and never an absence."""
    one, (first, second) = world.one.url, [server.url for server in world.two]
    for urls, database, *arguments in (
        ([one], "nothing", "k1"),
        ([one], "simple-rows", "k1"),
        ([one], "simple-keyed", "--index", "1"),
        ([first], "dpf-xor-keyed", "k1"),
        ([first, first], "dpf-xor-keyed", "k1"),
        ([one, second], "simple-keyed", "k1"),
        (["http://127.0.0.1:9"], "simple-keyed", "k1"),
    ):
        status, lines, said = get(urls, database, *arguments)
        expect((status, lines), (2, []), f"{urls} {database} {arguments}: {said}")
    client = client_of(world, "hybrid")
    client.register = lambda: None
    try:
        client.look_up([b"k1"])
        sys.exit("keys that the server does not have were taken")
    except Refused as refused:
        expect((refused.status, refused.code), (424, "UNKNOWN_KEYS"), "unknown keys")
    return "8 errors"


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on, damages answers to queries, and keeps the requests' lengths."""

    upstream, seen = None, []

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection(self.upstream)
        headers = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "connection")}
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        if self.path.endswith("/query"):
            self.seen.append(len(body))
            content = damaged(content, inverted)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        upstream.close()

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        """Silent."""


def test_proxy(world):
    """The command behind a proxy that damages answers: it says so, prints nothing, and asks nothing again."""
    Proxy.upstream = urllib.parse.urlsplit(world.one.url).netloc
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    for protocol in ("simple", "hybrid"):
        Proxy.seen.clear()
        status, lines, said = get([f"http://127.0.0.1:{proxy.server_port}"], f"{protocol}-keyed", "k17")
        expect((status, lines, "withheld" in said), (2, [], True), said)
        expect(len(Proxy.seen), 1, "requests")
    proxy.shutdown()
    return "2 protocols"


def http_says(url, method="GET", headers=None, body=None):
    """The status and the headers of a response."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_http(world):
    """Statuses, headers, ranges and JSON are what section 2 says."""
    database = f"{world.one.url}/v1/databases/simple-rows"
    found = client_of(world, "simple", "rows").found
    status, headers, config = http_says(f"{database}/config")
    tag = f'"{found.version.hex()}"'
    expect((status, headers["ETag"], headers["Cache-Control"]), (200, tag, "no-cache"), "a configuration")
    expect(headers["Content-Type"], "application/x-protobuf", "a configuration")
    expect(http_says(f"{database}/config", headers={"If-None-Match": tag})[0], 304, "a known configuration")
    expect(http_says(f"{database}/config?version={found.version.hex()}")[2], config, "a named configuration")
    expect(http_says(f"{database}/config?version={'00' * 32}")[0], 409, "a version that is not there")

    name, length = found.base.hint_hash.hex(), found.base.protocol.hint_bytes
    hint = f"{database}/hint?blake3={name}"
    status, headers, whole = http_says(hint)
    expect((status, len(whole), headers["ETag"]), (200, length, f'"{name}"'), "a hint")
    expect((headers["Accept-Ranges"], headers["Content-Type"]), ("bytes", "application/octet-stream"), "a hint")
    for asked, start, end in (("bytes=5-9", 5, 10), (f"bytes={length - 3}-", length - 3, length), ("bytes=-4", length - 4, length)):
        status, headers, part = http_says(hint, headers={"Range": asked, "If-Range": f'"{name}"'})
        expect((status, part), (206, whole[start:end]), asked)
        expect(headers["Content-Range"], f"bytes {start}-{end - 1}/{length}", asked)
    expect(http_says(hint, headers={"Range": "bytes=5-9", "If-Range": '"other"'})[0], 200, "a range of another hint")
    expect(http_says(hint, headers={"Range": "bytes=0-1,3-4"})[0], 200, "two ranges")
    status, headers, _ = http_says(hint, headers={"Range": f"bytes={length}-"})
    expect((status, headers["Content-Range"]), (416, f"bytes */{length}"), "a range behind the end")
    expect(http_says(f"{database}/hint?blake3={'00' * 32}")[0], 410, "a hint that is not served")
    rows = http_says(f"{database}/hint/rows?blake3={name}")[2]
    row = 4 * found.base.protocol.degree
    hashes = [blake3.blake3(whole[at : at + row]).digest()[:16] for at in range(0, length, row)]
    expect(rows, b"".join(hashes), "hashes of rows")

    protobuf = {"Content-Type": "application/x-protobuf"}
    for method, path, given, body, wanted, code in (
        ("POST", "query", {"Content-Type": "text/plain"}, b"x", 415, "WRONG_CONTENT_TYPE"),
        ("POST", "query", protobuf, b"\xff", 400, "MALFORMED"),
        ("POST", "query", protobuf, b"\x08\x02", 400, "WRONG_FORMAT"),
        ("POST", "query", protobuf, bytes(1 << 26), 413, "TOO_LARGE"),
        ("POST", "query", protobuf, envelope.query_request(bytes([1] * 32), [b"x"], b"", [], b""), 409, "STALE_VERSION"),
        ("POST", "keys", protobuf, b"x", 404, "NO_KEYS_NEEDED"),
        ("DELETE", "query", {}, None, 405, "METHOD_NOT_ALLOWED"),
        ("GET", "nothing", {}, None, 404, "NO_SUCH_ENDPOINT"),
    ):
        try:
            status, headers, said = http_says(f"{database}/{path}", method, given, body)
        except OSError:
            # A body that is too long may meet a connection that is closed.
            expect(wanted, 413, f"{method} {path}")
            continue
        message = envelope.Message(said).checked()
        expect((status, envelope.CODES[message.number(2)]), (wanted, code), f"{method} {path}")
        expect(message.number(5), 0, "accepted")
    stale = http_says(f"{database}/query", "POST", protobuf, envelope.query_request(bytes([1] * 32), [b"x"], b"", [], b""))
    expect(envelope.Message(stale[2]).bytes(6), found.version, "the current version")

    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    preflight["Access-Control-Request-Headers"] = "content-type,spirea-request-id"
    status, headers, _ = http_says(f"{database}/query", "OPTIONS", preflight)
    expect((status, headers["Access-Control-Allow-Origin"]), (200, "*"), "a preflight")
    expect(headers["Access-Control-Allow-Methods"], "GET,HEAD,POST", "a preflight")
    expect(headers["Access-Control-Allow-Headers"], "content-type,spirea-request-id", "a preflight")
    expect(headers["Access-Control-Max-Age"], "86400", "a preflight")
    exposed = http_says(f"{database}/config", headers={"Origin": "https://a.example"})[1]
    expect(exposed["Access-Control-Expose-Headers"], "accept-ranges,content-range,etag,retry-after", "exposed headers")

    listed = json.loads(http_says(f"{world.one.url}/v1/databases")[2])["databases"]
    entry = next(entry for entry in listed if entry["name"] == "simple-rows")
    wanted = {"version": found.version.hex(), "protocol": "simple", "entries": ROWS, "changes": 3, "state": "ready"}
    expect({name: entry[name] for name in wanted}, wanted, "a list")
    expect(entry["versions"][0], found.version.hex(), "a list")
    status, _, ready = http_says(f"{world.one.url}/readyz")
    said = json.loads(ready)
    expect((status, said["ready"], said["leaving"], said["databases"]), (200, True, False, listed), "readiness")
    message = envelope.Message(http_says(f"{world.one.url}/v1/databases", headers={"Accept": "application/x-protobuf"})[2])
    summaries = [envelope.Message(summary) for summary in message.checked().all(2)]
    expect([summary.text(1) for summary in summaries], [entry["name"] for entry in listed], "a list as a message")
    expect({summary.number(2) for summary in summaries}, {2}, "states")
    return "statuses, headers, ranges, lists"


TESTS = [
    test_examples,
    test_vectors,
    test_keys,
    test_rows,
    test_bins,
    test_damage,
    test_proofs,
    test_configurations,
    test_signatures,
    test_refusals,
    test_proxy,
    test_http,
]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    spirea, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    chosen = [test for test in TESTS if not names or test.__name__.removeprefix("test_") in names]
    alone = {test_examples, test_vectors}
    world = World()
    with tempfile.TemporaryDirectory(prefix="spirea-reference-") as folder:
        try:
            for test in chosen:
                if test not in alone and world.one is None:
                    started = time.perf_counter()
                    world.begin(spirea, Path(folder))
                    print(f"tables: built and served in {time.perf_counter() - started:.1f} s", flush=True)
                started = time.perf_counter()
                said = test(world)
                print(f"{test.__name__.removeprefix('test_')}: {said}, {time.perf_counter() - started:.1f} s", flush=True)
        finally:
            world.stop()
    print(f"{len(chosen)} passed, 0 failed")


if __name__ == "__main__":
    main()
