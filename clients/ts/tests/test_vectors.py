"""The committed vectors of whole look-ups, which Rust and the reference client compute too: the same bytes in a browser."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from runtimes import InBrowser, InNode, Runtime

CONFORMANCE = Path(__file__).resolve().parents[3] / "conformance"
sys.path.insert(0, str(CONFORMANCE / "client"))

import vectors as reference  # noqa: E402

NAMES = sorted(path.stem for path in (CONFORMANCE / "vectors" / "client").glob("*.json"))


@pytest.fixture(scope="module", autouse=True)
def _module(installed: Path) -> None:
    shutil.copy(Path(os.environ["SPIREA_WEB"]) / "vectors.wasm", installed)


def test_there_is_one_of_every_protocol() -> None:
    assert {name.removesuffix("-per-query").removesuffix("-bins") for name in NAMES} == set(reference.PROTOCOLS)


@dataclass
class Given:
    """A vector, its records, and the name of the file with its hint, which the reference client computes."""

    vector: dict[str, Any]
    contents: list[bytes]
    hint: str


@pytest.fixture(scope="module", params=NAMES)
def given(request: pytest.FixtureRequest, installed: Path) -> Given:
    name = request.param
    vector = json.loads((CONFORMANCE / "vectors" / "client" / f"{name}.json").read_text())
    protocol = reference.protocol_of(vector["params"])
    contents = reference.records(vector["content"], protocol.grid.records, protocol.grid.record_bytes)
    hint = bytes.fromhex(vector["hint"]) if "hint" in vector else reference.hint_of(protocol, contents)
    (installed / f"{name}.hint").write_bytes(hint)
    return Given(vector, contents, f"{name}.hint")


def test_a_vector(runtime: Runtime, given: Given) -> None:
    vector, contents = given.vector, given.contents
    arguments = {"vector": vector, "hint": given.hint}
    if isinstance(runtime, InNode):
        made = runtime.call("inNode", arguments)
    else:
        assert isinstance(runtime, InBrowser)
        made = runtime.page.evaluate("async (given) => (await import('/vectors.mjs')).inPage(given)", arguments)
    for part in ("keys_blake3", "queries_blake3", "record"):
        assert made[part] == vector[part], part
    assert made["record"] == contents[vector["index"]].hex()
    if "fetch" in vector:
        chosen = vector["fetch"]["chosen"]
        assert made["fetch"] == {"chosen": chosen, "queries_blake3": vector["fetch"]["queries_blake3"]}
        assert made["fetched"] == b"".join(contents[index] for index in chosen).hex()
