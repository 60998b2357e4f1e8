"""The client's names in Rust, Python and TypeScript are those of docs/languages.md."""

import ast
import re

from system.programs import ROOT

PAGE = ROOT / "docs/languages.md"
# A name of Rust, Python or TypeScript, perhaps with the error inside, or a code of an error.
NAME = re.compile(r"`([A-Za-z_]\w*(?:\(\w+\))?|[a-z]+(?:-[a-z]+)+)`")


def tables():
    """Returns the tables of the page by their headings: for each, the columns of names."""
    found = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, text = section.split("\n", 1)
        rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
        found[heading] = [[NAME.findall(cell) for cell in column] for column in zip(*rows[2:], strict=True)]
    return found


TABLES = tables()


def column(heading, number):
    """Returns the names in a column, from the right: 3 for Rust, 2 for Python, 1 for TypeScript."""
    return {name for cell in TABLES[heading][-number] for name in cell}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def block(text, opening):
    """Returns the lines of a Rust or TypeScript item, from its opening line to the brace that ends it."""
    (start,) = re.finditer(rf"^{re.escape(opening)}.*\{{$", text, re.MULTILINE)
    return text[start.end() : text.index("\n}", start.end())]


def rust_methods(path, name):
    return set(re.findall(r"^    pub fn (\w+)", block(read(path), f"impl {name}"), re.MULTILINE))


def typescript_members(path, name):
    """Returns the public methods, getters and fields of a class, or the members of an interface."""
    text = block(read(path), name)
    members = re.findall(r"^  (?:static |async |get |readonly |declare )*([a-z]\w*)[?(:]", text, re.MULTILINE)
    return {member for member in members if member not in ("constructor", "private")}


def python_class(path, name):
    (found,) = [node for node in ast.parse(read(path)).body if isinstance(node, ast.ClassDef) and node.name == name]
    return found


def python_members(path, *names, kinds=(True, False)):
    """Returns the public methods and properties of classes; with one kind, properties (True) or methods (False) alone."""
    return {
        node.name
        for name in names
        for node in python_class(path, name).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and bool(node.decorator_list) in kinds
    }


def test_options():
    options = block(read("crates/client/src/http/options.rs"), "pub struct ClientOptions")
    assert column("Options of a connection", 3) == set(re.findall(r"^    pub (\w+):", options, re.MULTILINE))
    (constructor,) = [
        node
        for node in python_class("python/spirea/_client.py", "_Connection").body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    arguments = {argument.arg for argument in [*constructor.args.args, *constructor.args.kwonlyargs]} - {"self"}
    assert column("Options of a connection", 2) == arguments
    interface = typescript_members("clients/ts/src/options.ts", "export interface ConnectOptions")
    assert column("Options of a connection", 1) == interface


def test_calls_and_descriptions():
    calls, database = "Calls", "The database"
    assert column(calls, 3) | column(database, 3) == rust_methods("crates/facade/src/client.rs", "Client")
    path = "python/spirea/_client.py"
    assert column(calls, 2) == python_members(path, "_Connection", "Client", kinds=[False])
    assert column(database, 2) == python_members(path, "_Connection", "Client", kinds=[True])
    assert python_members(path, "Client") | {"connect"} == python_members(path, "AsyncClient")
    client = typescript_members("clients/ts/src/client.ts", "export class Client")
    assert column(calls, 1) | {"description", "storage"} == client
    assert column(database, 1) == typescript_members("clients/ts/src/worker/heads.ts", "export interface Description")


def test_values():
    assert column("Values", 3) == rust_methods("crates/facade/src/record.rs", "Record")
    assert column("Values", 2) == python_members("python/spirea/_records.py", "Record") | {"version"}
    assert column("Values", 1) == typescript_members("clients/ts/src/value.ts", "export class Value")


def arms(path, opening, enum):
    """Returns the results of a match of errors by pattern, which is written as the page writes it. A result is a text, or a
    code by its variant."""
    body = read(path).split(opening, 1)[1].split("_ =>", 1)[0]
    pattern = re.compile(rf"{enum}::(\w+)(?:\(\w+Error::(\w+))?")
    return {
        f"{outer}({inner})" if inner else outer: text or re.sub("(?<!^)([A-Z])", r"-\1", variant).lower()
        for patterns, text, variant in re.findall(r"([^=]+)=> (?:\"([\w-]+)\"|Code::(\w+)),", body)
        for outer, inner in pattern.findall(patterns)
    }


def check_errors(number, mapped, otherwise):
    """Compares a column of errors with a match. An error without an arm of its own has that of the error around it."""
    for names, (said,) in zip(TABLES["Errors"][0], TABLES["Errors"][-number], strict=True):
        for name in names:
            assert said == mapped.get(name, mapped.get(name.split("(")[0], otherwise)), name


def test_errors_of_python():
    mapped = arms("bindings/python/src/errors.rs", "let class = match error.cause() {", "ClientError")
    check_errors(2, mapped, "LookUpError")


def test_errors_of_typescript():
    path = "bindings/wasm/src/errors.rs"
    mapped = arms(path, "fn code(", "ClientError")
    mapped |= {f"Protocol({name})": code for name, code in arms(path, "fn protocol_code(", "ProtocolError").items()}
    check_errors(1, mapped, "internal")


def test_every_error_is_listed():
    errors = block(read("crates/client/src/error.rs"), "pub enum ClientError")
    variants = set(re.findall(r"^    (\w+)(?:\(| \{|,)", errors, re.MULTILINE))
    listed = {name.split("(")[0] for name in column("Errors", 3)}
    assert listed == variants - {"Server", "Party"}
    generated = read("clients/ts/src/worker/heads.ts").split("export type ErrorCode =", 1)[1].split("\n\n", 1)[0]
    codes = set(re.findall(r"^  \| \"([a-z-]+)\"", generated, re.MULTILINE))
    assert column("Errors", 1) | {"closed", "no-worker"} == codes
