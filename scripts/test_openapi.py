#!/usr/bin/env python3
"""The OpenAPI documents against the server that they describe: Schemathesis asks by them, and compares what comes back.

Usage: test_openapi.py PATH_TO_SPIREA

Both ports, without tokens and with them. Afterwards the server answers look-ups, has not panicked, and whoever may not
publish has published nothing. SPIREA_OPENAPI_EXAMPLES says how many requests are drawn for an endpoint.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from openapi_spec_validator import OpenAPIV31SpecValidator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "conformance/client"))
from reference import envelope  # noqa: E402

EXAMPLES = os.environ.get("SPIREA_OPENAPI_EXAMPLES", "3")
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method",
    "allow_header_conformance",
)
# One protocol needs evaluation keys of its clients, the other a hint.
TABLES = {"numbers": "simple", "rings": "exppack-simple"}
SCOPES = ("query", "publish", "admin")


class Workplace:
    """A folder with tables, tokens and what is asked."""

    def __init__(self, spirea, folder):
        self.spirea, self.folder = spirea, folder
        (folder / "table.csv").write_text("key,value\n" + "".join(f"key-{i},value {i}\n" for i in range(100)))
        for name, protocol in TABLES.items():
            columns = ("--key", "key", "--value", "value")
            self.run("build", "--input", "table.csv", *columns, "--protocol", protocol, "--out", name)
            self.run("publish", "--repository", f"repository-{name}", "--base", name)
        self.tokens = {}
        lines = ""
        for scope in SCOPES:
            made = self.run("token", "new", "--name", scope, "--scope", scope)
            self.tokens[scope] = made.stdout.strip()
            lines += made.stderr[made.stderr.index("[["):]
        (folder / "tokens.toml").write_text(lines)

    def run(self, *arguments):
        environment = {**os.environ, "XDG_CACHE_HOME": f"{self.folder}/cache"}
        done = subprocess.run(
            [self.spirea, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"spirea {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done

    @contextmanager
    def serving(self, *options):
        """A server of the tables, which is stopped at the end and must not have panicked."""
        repositories = [f"repository-{name}" for name in TABLES]
        ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
        log = self.folder / "server.log"
        with log.open("w") as lines:
            process = subprocess.Popen(
                [self.spirea, "serve", *repositories, *ports, *options],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=lines, text=True,
            )
            try:
                said = [process.stdout.readline() for _ in range(2)]
                data, admin = (re.search(r"http://\S+", line).group() for line in said)
                wait(f"{data}/readyz")
                yield SimpleNamespace(data=data, admin=admin, guarded=bool(options))
                assert process.poll() is None, "the server has ended"
            finally:
                process.terminate()
                process.wait(timeout=60)
        assert "panicked" not in log.read_text(), log.read_text()

    def write_bodies(self, server):
        """What clients and publishers send, for bodies.py."""
        changes = [{"key": "fuzz", "value": "v"}, {"key": "key-7", "value": "w"}, {"key": "key-8", "deleted": True}]
        bodies = {"x-ndjson": [(json.dumps(change) + "\n").encode() for change in changes], "x-tar": [], "x-protobuf": []}
        for name in TABLES:
            archive = self.folder / f"{name}.tar"
            with tarfile.open(archive, "w") as tar:
                for file in sorted((self.folder / name).iterdir(), key=lambda file: file.name != "manifest.json"):
                    tar.add(file, file.name)
            bodies["x-tar"].append(archive.read_bytes())
            config = envelope.Message(get(f"{server.data}/v1/databases/{name}/config"))
            version, base = config.hash(3), config.message(4)
            bodies["x-protobuf"] += [
                envelope.query_request(version, [bytes(base.number(4))], b"", [], b""),
                envelope.keys_request(version, bytes(base.number(6)), False),
            ]
        for kind, good in bodies.items():
            folder = self.folder / "bodies" / kind
            folder.mkdir(parents=True, exist_ok=True)
            for i, body in enumerate(good):
                (folder / str(i)).write_bytes(body)

    def fuzz(self, server, url, token=None, examples=EXAMPLES):
        """Asks a port by its document."""
        document = json.loads(get(f"{url}/openapi.json"))
        OpenAPIV31SpecValidator(document).validate()
        fit(document, server)
        path = self.folder / "document.json"
        path.write_text(json.dumps(document))
        command = [SCHEMATHESIS, "--no-color", "run", str(path), "--url", url, "--checks", ",".join(CHECKS)]
        command += ["--phases", "examples,coverage,fuzzing", "--max-examples", examples, "--continue-on-failure"]
        command += ["--seed", "1", "--generation-database", "none", "--warnings", "off", "--request-timeout", "60"]
        command += ["--header", f"Authorization: Bearer {token}"] if token else []
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "conformance/openapi"),
            "SCHEMATHESIS_HOOKS": "bodies",
            "SPIREA_OPENAPI_BODIES": str(self.folder / "bodies"),
        }
        started = time.monotonic()
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{document['info']['title']}\n{done.stdout}{done.stderr}")
        cases = re.search(r"([0-9]+) generated", done.stdout).group(1)
        print(f"{document['info']['title']}: {cases} requests in {time.monotonic() - started:.0f} s", flush=True)


def fit(document, server):
    """Lets the document say which databases the server has, for no other name leads far, and whether it has tokens."""
    for path in document["paths"].values():
        for operation in path.values():
            if not server.guarded:
                operation.pop("security", None)
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    parameter["schema"]["enum"] = list(TABLES)


def get(url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as response:
        return response.read()


def wait(url):
    """Waits until an address answers with success."""
    deadline = time.monotonic() + 120
    while True:
        try:
            get(url)
            return
        except urllib.error.HTTPError as error:
            assert time.monotonic() < deadline, f"{url} gives {error.code}"
        time.sleep(0.1)


def answered(server):
    """How many batches of queries have been answered."""
    counts = re.findall(r"^spirea_batch_queries_count\{.*\} ([0-9]+)$", get(f"{server.data}/metrics").decode(), re.MULTILINE)
    return sum(map(int, counts))


def published(server, token=None):
    """The versions of all tables."""
    return {name: json.loads(get(f"{server.admin}/v1/admin/databases/{name}/versions", token)) for name in TABLES}


def main():
    spirea = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="spirea-openapi-") as folder:
        workplace = Workplace(spirea, Path(folder))

        def look_up(server, *options):
            for name in TABLES:
                said = workplace.run("get", server.data, name, "key-1", *options).stdout
                assert said.strip() == "value 1", said

        with workplace.serving() as server:
            workplace.write_bodies(server)
            before = published(server)
            workplace.fuzz(server, server.data)
            assert answered(server), "no query was answered"
            assert published(server) == before, "the port for clients has published"
            workplace.fuzz(server, server.admin)
            after = published(server)
            assert all(after[name] != before[name] for name in TABLES), "no publication was taken"
            look_up(server)

        with workplace.serving("--tokens", "tokens.toml") as server:
            tokens = workplace.tokens
            before = published(server, tokens["publish"])
            workplace.fuzz(server, server.data, tokens["query"])
            for url, token in ((server.data, None), (server.admin, None), (server.admin, tokens["admin"])):
                workplace.fuzz(server, url, token, examples="2")
            assert published(server, tokens["publish"]) == before, "something was published without the scope"
            workplace.fuzz(server, server.admin, tokens["publish"])
            (workplace.folder / "query.token").write_text(tokens["query"])
            look_up(server, "--token-file", "query.token")
    print("the server does what its OpenAPI documents say")


if __name__ == "__main__":
    main()
