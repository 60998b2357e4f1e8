"""Look-ups of the client in Apple's library, swift-homomorphic-encryption, which conformance/apple builds.

The tests need Swift 6 and the library's sources: docs/apple.md says how to run them.
"""

import os
import random
import struct
import sys

import pytest

from system.programs import ROOT, Folder, target_folder
from system.test_apple_client import CASES, USE_CASE, Server, keyword, processes, program, server, value  # noqa: F401
from system.test_apple_service import BLOCK, IDENTITY, SETS, Phone, build, identity, write_table

sys.path.insert(0, str(ROOT / "conformance/apple"))
import build as programs

SOURCES, SWIFT_ROOT = os.environ.get("SPIREA_APPLE_SOURCES"), os.environ.get("SPIREA_SWIFT_ROOT")
NUMBERS = 10_000
# Look-ups of each parameter set over HTTP, half of them of each use case.
LOOK_UPS = 1000


def unusable():
    """Returns why the tests cannot run; None if they can."""
    if not SOURCES:
        return "SPIREA_APPLE_SOURCES names no folder with the sources of swift-homomorphic-encryption: docs/apple.md"
    try:
        programs.Swift(SWIFT_ROOT)
    except programs.Unusable as error:
        return f"{error}, or SPIREA_SWIFT_ROOT names a file system with it"
    return None


pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(unusable()), reason=str(unusable()))]


@pytest.fixture(scope="module")
def client_command():
    """The command of the client, without its use case."""
    swift, out = programs.Swift(SWIFT_ROOT), target_folder() / "apple"
    folder = programs.build(SOURCES, out, swift)
    return [*swift.command(out.resolve()), folder / "AppleClient"]


@pytest.fixture
def library(client_command):
    """Makes clients of Apple's library with a use case and a `ConfigResponse`, as `apple.Client` does."""
    with processes() as start:
        yield lambda use_case, config_response: Client(start([*client_command, use_case]), config_response)


class Client(Server):
    """A client of Apple's library as a process: its messages have the frames of the example server."""

    def __init__(self, process, config_response):
        super().__init__(process)
        self.keys = self.ask(b"c", config_response)

    def evaluation_keys(self, _timestamp):
        """Returns `EvaluationKeys`; the library's client has its own time."""
        return self.keys

    def request(self, keyword, _timestamp):
        """Returns `Requests` for a keyword. The process remembers what its response is read with."""
        return self.ask(b"q", keyword), None

    def value(self, _pending, responses):
        found = self.ask(b"r", responses)
        return found[1:] if found[0] else None


@pytest.mark.parametrize("parameters", SETS)
def test_look_ups_at_a_server(spirea, tmp_path, library, parameters):
    folder = Folder(spirea, tmp_path)
    write_table(folder, "a", NUMBERS)
    build(folder, "--apple-set", parameters, "--apple-shards", str(SETS[parameters]))
    expected = {IDENTITY: lambda i: identity("a", i), BLOCK: lambda i: bytes([i % 2])}
    choose = random.Random(parameters)
    with folder.serving("numbers") as [url]:
        for use_case, value_of in expected.items():
            phone = Phone(url)
            client = phone.client(use_case, library)
            # One number in five is absent.
            for i in choose.choices(range(NUMBERS * 5 // 4), k=LOOK_UPS // 2):
                assert phone.look_up(client, i) == (value_of(i) if i < NUMBERS else None), i


@pytest.mark.parametrize("name", CASES)
def test_look_ups_with_each_compression_of_keys(server, library, name):  # noqa: F811
    keywords, length, *_ = CASES[name]
    asked = server(*CASES[name])
    client = library(USE_CASE, asked.ask(b"c", b""))
    asked.ask(b"k", client.evaluation_keys(None))
    for number in [*random.Random(name).choices(range(keywords), k=98), keywords, keywords + 1]:
        request, _ = client.request(keyword(number), None)
        found = client.value(None, asked.ask(b"q", request))
        assert found == (value(number, length) if number < keywords else None), number


def test_a_client_goes_on_after_an_error(server, library):  # noqa: F811
    asked = server(*CASES["thin"])
    client = library(USE_CASE, asked.ask(b"c", b""))
    with pytest.raises(RuntimeError):
        client.value(None, struct.pack("<I", 0))
    request, _ = client.request(keyword(1), None)
    with pytest.raises(RuntimeError, match="Evaluation key not found"):
        asked.ask(b"q", request)
    asked.ask(b"k", client.evaluation_keys(None))
    assert client.value(None, asked.ask(b"q", request)) == value(1, 2)
