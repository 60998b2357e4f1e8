"""Tests the OpenAPI documents against the server: Schemathesis makes requests from them, and checks the responses.

It tests both ports, without tokens and with tokens. Afterwards the server must answer look-ups, must not have panicked, and
must have no publication from a client without the permission. SPIREA_OPENAPI_EXAMPLES is the number of random requests for
each endpoint.
"""

import json
import os
import re
import sys
import tarfile
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import ohttp
import spirea_report
from reference import envelope
from system.programs import Folder, get, run

EXAMPLES = os.environ.get("SPIREA_OPENAPI_EXAMPLES", "3" if spirea_report.FULL else "1")
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
)
# One protocol needs a hint, the other evaluation keys.
TABLES = {"numbers": "simple", "rings": "exppack-simple"}
SCOPES = ("query", "publish", "admin", "follow")


class Workplace(Folder):
    """A folder with tables and tokens."""

    def __init__(self, spirea, path):
        super().__init__(spirea, path)
        self.write("table.csv", "key,value\n" + "".join(f"key-{i},value {i}\n" for i in range(100)))
        for name, protocol in TABLES.items():
            columns = ("--key", "key", "--value", "value")
            self.run("build", "--input", "table.csv", *columns, "--protocol", protocol, "--out", name)
            self.run("publish", "--repository", f"repository-{name}", "--base", name)
        self.tokens = {None: None}
        lines = ""
        for scope in SCOPES:
            made = self.run("token", "new", "--name", scope, "--scope", scope)
            self.tokens[scope] = made.stdout.strip()
            lines += made.stderr[made.stderr.index("[[") :]
        self.write("tokens.toml", lines)
        self.write("query.token", self.tokens["query"])
        self.run("key", "gateway", "gateway.key")
        self.write("spirea.toml", '[apple]\ngateway = "gateway.key"\n')

    def serving_tables(self, *options):
        return self.serving(*(f"repository-{name}" for name in TABLES), "--config", "spirea.toml", *options, ports=2)


class Server:
    """The served tables, with valid bodies of clients and publishers."""

    def __init__(self, workplace, urls, guarded):
        self.workplace, (self.data, self.admin), self.guarded = workplace, urls, guarded

    def bodies(self, folder):
        """Writes valid bodies for openapi_bodies.py."""
        query = self.workplace.tokens["query"] if self.guarded else None
        changes = [{"key": "fuzz", "value": "v"}, {"key": "key-7", "value": "w"}, {"key": "key-8", "deleted": True}]
        lines = [(json.dumps(change) + "\n").encode() for change in changes]
        bodies = {"application/x-ndjson": lines, "application/x-tar": [], "application/x-protobuf": []}
        bodies["application/private-token-request"] = [bytes([0, 2, *range(256), 0])]
        [key] = ohttp.KeyConfig.read_list(get(f"{self.data}/.well-known/ohttp-gateway"))
        fields = {"user-agent": "a", "user-identifier": "1"}
        inside = [ohttp.request("POST", path, fields, b"") for path in ["/config", "/queries", "/v1/databases"]]
        bodies["message/ohttp-req"] = [key.encapsulate(request)[0] for request in inside]
        for name in TABLES:
            archive = folder / f"{name}.tar"
            with tarfile.open(archive, "w") as tar:
                files = (self.workplace.path / name).iterdir()
                for file in sorted(files, key=lambda file: file.name != "manifest.json"):
                    tar.add(file, file.name)
            bodies["application/x-tar"].append(archive.read_bytes())
            config = envelope.Message(get(f"{self.data}/v1/databases/{name}/config", query))
            version, base = config.hash(3), config.message(4)
            bodies["application/x-protobuf"] += [
                envelope.query_request(version, [bytes(base.number(4))], b"", [], b""),
                envelope.keys_request(version, bytes(base.number(6)), False),
            ]
        for kind, good in bodies.items():
            (folder / "bodies" / kind).mkdir(parents=True)
            for i, body in enumerate(good):
                (folder / "bodies" / kind / str(i)).write_bytes(body)
        return folder / "bodies"

    def fuzz(self, folder, url, scope=None, examples=EXAMPLES):
        """Fuzzes a port by its document."""
        document = json.loads(get(f"{url}/openapi.json"))
        OpenAPIV31SpecValidator(document).validate()
        self.fit(document)
        path = folder / "document.json"
        path.write_text(json.dumps(document))
        command = [SCHEMATHESIS, "--no-color", "run", path, "--url", url, "--checks", ",".join(CHECKS)]
        command += ["--phases", "examples,coverage,fuzzing", "--max-examples", examples, "--continue-on-failure"]
        command += ["--seed", "1", "--generation-database", "none", "--warnings", "off", "--request-timeout", "60"]
        token = self.workplace.tokens[scope]
        command += ["--header", f"Authorization: Bearer {token}"] if token else []
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "SCHEMATHESIS_HOOKS": "openapi_bodies",
            "SPIREA_OPENAPI_BODIES": str(self.bodies(folder)),
        }
        said = run(*command, cwd=folder, env=environment).stdout
        assert int(re.search(r"([0-9]+) generated", said).group(1)) > 0, said

    def fit(self, document):
        """Adapts the document to the server: names of databases, because other names only reach an error, and tokens."""
        for path in document["paths"].values():
            for operation in path.values():
                if not self.guarded:
                    operation.pop("security", None)
                for parameter in operation["parameters"]:
                    if (parameter["in"], parameter["name"]) == ("path", "name"):
                        parameter["schema"]["enum"] = list(TABLES)

    def answered(self):
        """Returns the number of answered batches of queries."""
        metrics = get(f"{self.data}/metrics").decode()
        return sum(map(int, re.findall(r"^spirea_batch_queries_count\{.*\} ([0-9]+)$", metrics, re.MULTILINE)))

    def published(self):
        """Returns the versions of all tables."""
        token = self.workplace.tokens["publish"] if self.guarded else None
        return {name: json.loads(get(f"{self.admin}/v1/admin/databases/{name}/versions", token)) for name in TABLES}

    def look_up(self, *options):
        for name in TABLES:
            said = self.workplace.run("get", self.data, name, "key-1", *options).stdout
            assert said.strip() == "value 1", said


@pytest.fixture(scope="module")
def workplace(spirea, tmp_path_factory):
    return Workplace(spirea, tmp_path_factory.mktemp("openapi"))


class TestWithoutTokens:
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, workplace):
        with workplace.serving_tables() as urls:
            yield Server(workplace, urls, guarded=False)

    def test_clients_port(self, server, tmp_path):
        before = server.published()
        server.fuzz(tmp_path, server.data)
        assert server.answered(), "no query was answered"
        assert server.published() == before, "the port for clients has published"
        server.look_up()

    def test_operators_port(self, server, tmp_path):
        before = server.published()
        server.fuzz(tmp_path, server.admin)
        after = server.published()
        assert all(after[name] != before[name] for name in TABLES), "no publication was taken"
        server.look_up()


class TestWithTokens:
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, workplace):
        # Both classes serve the same repositories, one after the other.
        with workplace.serving_tables("--tokens", "tokens.toml") as urls:
            yield Server(workplace, urls, guarded=True)

    def test_clients_port(self, server, tmp_path):
        before = server.published()
        server.fuzz(tmp_path, server.data, "query")
        assert server.published() == before, "the port for clients has published"
        server.look_up("--token-file", "query.token")

    @pytest.mark.parametrize(("port", "scope"), [("data", None), ("admin", None), ("admin", "admin")])
    def test_without_the_scope(self, server, port, scope, tmp_path):
        before = server.published()
        server.fuzz(tmp_path, getattr(server, port), scope, examples="2")
        assert server.published() == before, "something was published without the scope"

    def test_operators_port(self, server, tmp_path):
        before = server.published()
        server.fuzz(tmp_path, server.admin, "publish")
        after = server.published()
        assert all(after[name] != before[name] for name in TABLES), "no publication was taken"
        server.look_up("--token-file", "query.token")
