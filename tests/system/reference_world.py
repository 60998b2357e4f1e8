"""Tables of all protocols for the reference client, which the program builds, changes and serves."""

import http.client
import http.server
import json
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import spirea_report
from reference import envelope
from reference.look_up import Client
from reference.protocols import PROTOCOLS
from reference.streams import OsRandom
from system.programs import ROOT, Folder

COMMAND = [sys.executable, str(ROOT / "conformance/client/spirea_reference.py")]
# Protocols whose queries can contain their keys, with the value of --keys.
ONE_SHOT = ("exppack-simple/per-query", "exppack-double/per-query", "hybrid/per-query")
# Protocols of the short form: one with a hint; one with evaluation keys and packing; one with two servers.
SHORT = ("simple", "hybrid", "dpf-xor")
NAMES = (*PROTOCOLS, *ONE_SHOT)
SERVED = NAMES if spirea_report.FULL else SHORT
# Protocols with inclusion proofs: one of each kind, by key and by index.
PROVEN = ("simple", "hybrid", "onion", "dpf-xor")
# Protocols with a table by index too. Rows and keys differ in finding a value in a record, which is the same for all
# protocols.
BY_INDEX = (*PROVEN, "double", "dpf-sum")
ROWS = 60
# In tables by index without proofs, this row is long, so that records are buckets of several rows.
LONG_ROW = 30
# Tables in bins: the protocol, the kind of table, and the number of bins.
BINNED = (("dpf-xor", "rows", "7"), ("dpf-sum", "keyed", "4"), ("exppack-simple", "rows", "4"))
IN_BINS = [of for of in BINNED if of[0] in SERVED]
# The protocol with a table by key in bins, with three copies of each entry.
COPIED = "dpf-xor"
CHANGED = {"note": "changed", "size": "7"}


def value(i):
    return f"value {i} " + "x" * (i % 5)


def database(protocol, kind):
    """Returns the name of a protocol's table."""
    return f"{protocol.replace('/', '-')}-{kind}"


def parties(protocol):
    return PROTOCOLS[protocol.partition("/")[0]].parties


def kinds(protocol):
    return ("keyed", "rows") if protocol in BY_INDEX else ("keyed",)


class Tables(Folder):
    """Repositories of every served protocol, each with a base and a delta: by key, and for some also by index."""

    def __init__(self, spirea, path):
        super().__init__(spirea, path)
        self.write("operator.pub", self.run("key", "new", "operator.key").stdout)
        self.public = (path / "operator.pub").read_text().split()[0]
        self.write_tables()
        self.publish_bins()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda job: self.publish(*job), [(name, kind) for name in SERVED for kind in kinds(name)]))

    def write_tables(self):
        """Writes the tables and their changes."""
        keyed, rows, uneven = ["key,note,size"], ["note"], ["note"]
        for i in range(ROWS):
            keyed.append(f"k{i},{value(i)},{i}")
            rows.append(value(i))
            uneven.append("x" * 900 if i == LONG_ROW else value(i))
        for name, lines in (("keyed", keyed), ("rows", rows), ("uneven", uneven)):
            self.write(f"{name}.csv", "\n".join(lines) + "\n")
        changes = {
            "keyed": [{"key": "k1", "value": CHANGED}, {"key": "k2", "deleted": True}, {"key": "new", "value": CHANGED}],
            "rows": [{"key": 1, "value": "changed"}, {"key": 2, "deleted": True}, {"key": ROWS, "value": "added"}],
        }
        for kind, lines in changes.items():
            self.write(f"{kind}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def publish(self, protocol, kind):
        named, _, keys = protocol.partition("/")
        options = ["--protocol", named] + ["--keys", keys] * bool(keys) + ["--proofs"] * (protocol in PROVEN)
        file = "uneven" if kind == "rows" and protocol not in PROVEN else kind
        self.publish_table(database(protocol, kind), file, kind, options, ["--sign", "operator.key"])

    def publish_bins(self):
        """Publishes tables in bins, by index and by key. Their changes make a new base."""
        for protocol, kind, bins in IN_BINS:
            self.publish_table(f"{protocol}-bins", kind, kind, ["--protocol", protocol, "--bins", bins], [])
        options = ["--protocol", COPIED, "--bins", "12", "--copies", "3"]
        self.publish_table(f"{COPIED}-copies", "keyed", "keyed", options, [])

    def publish_table(self, name, file, kind, options, publishing):
        columns = ["--key", "key", "--value", "note", "size"] if kind == "keyed" else ["--value", "note"]
        threads = ["--threads", "1"]
        self.run("build", "--input", f"{file}.csv", *columns, *options, "--out", f"base-{name}", "--name", name, *threads)
        repository = ["--repository", f"repository-{name}", *publishing, *threads]
        self.run("publish", *repository, "--base", f"base-{name}")
        self.run("publish", *repository, "--changes", f"{kind}.jsonl")

    def copied(self, folders):
        for name in folders:
            shutil.copytree(self.path / name, self.path / f"copy-of-{name}")
        return [f"copy-of-{name}" for name in folders]


class World:
    """The served tables: one server for the protocols with one server, two for the others."""

    def __init__(self, tables, one, two):
        self.tables, self.one, self.two = tables, one, two

    def urls(self, protocol):
        return self.two if parties(protocol) == 2 else [self.one]

    def client(self, protocol, kind="keyed", **given):
        return Client(self.urls(protocol), database(protocol, kind), OsRandom(), options(**given))


@contextmanager
def served(spirea, path):
    tables = Tables(spirea, path)
    repositories = {
        count: [f"repository-{database(name, kind)}" for name in SERVED if parties(name) == count for kind in kinds(name)]
        for count in (1, 2)
    }
    for protocol, _, _ in IN_BINS:
        repositories[parties(protocol)].append(f"repository-{protocol}-bins")
    repositories[parties(COPIED)].append(f"repository-{COPIED}-copies")
    # A repository belongs to one process, so the other party has a copy.
    copies = tables.copied(repositories[2])
    with (
        tables.serving(*repositories[1]) as [one],
        tables.serving(*copies, "--party", "1") as [second],
        tables.serving(*repositories[2], "--party", "0") as [first],
    ):
        yield World(tables, one, [second, first])


def options(**given):
    return SimpleNamespace(**{"token": None, "pin_key": None, "least_sequence": 0, "accept_weak_prf": False, **given})


def command(urls, database, *arguments):
    """Runs the client's command. Returns its status, its lines as JSON, and its errors."""
    other = ["--other", urls[1]] if len(urls) == 2 else []
    full = [*COMMAND, urls[0], database, *arguments, *other, "--json"]
    done = subprocess.run(full, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


class Damaging:
    """Forwards a client's queries, and damages the answers in the responses."""

    def __init__(self, client, damage):
        self.damage, self.honest = damage, client.servers[0]
        client.servers[0] = self

    def __getattr__(self, name):
        return getattr(self.honest, name)

    def query(self, *request):
        return damaged(self.honest.query(*request), self.damage)


def damaged(response, damage):
    """Returns a response with damaged answers."""
    message = envelope.Message(response)
    parts = [[damage(answer) for answer in message.all(number)] for number in (3, 5)]
    head = envelope.field(1, 1) + envelope.field(2, message.hash(2))
    return head + envelope.repeated(3, parts[0]) + envelope.repeated(5, parts[1])


def inverted(answer):
    return bytes(byte ^ 0xFF for byte in answer)


def flipped(generator):
    """Returns a function that flips one random bit of an answer."""

    def damage(answer):
        bit = generator.randrange(8 * len(answer))
        return answer[: bit // 8] + bytes([answer[bit // 8] ^ 1 << bit % 8]) + answer[bit // 8 + 1 :]

    return damage


@contextmanager
def damaging_proxy(upstream):
    """Runs a proxy that inverts the answers to queries. Yields its address, and the lengths of the queries that it saw."""
    seen = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def pass_on(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(upstream).netloc)
            headers = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "connection")}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
            if self.path.endswith("/query"):
                seen.append(len(body))
                content = damaged(content, inverted)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.getheader("Content-Type"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_POST = pass_on

        def log_message(self, *_):
            """Logs nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}", seen
        finally:
            proxy.shutdown()
            thread.join()


def http_says(url, method="GET", headers=None, body=None):
    """Sends a request. Returns the status, the headers and the body of the response."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
