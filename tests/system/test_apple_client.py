"""Look-ups of the Python client of Apple's protocol (conformance/client/apple.py) at the example server of crates/apple."""

import random
import struct
import subprocess
import time
from contextlib import contextmanager

import pytest

import apple
from spirea_report import FULL, LONG
from system.programs import cargo, target_folder

USE_CASE = "net.example.lookup.block"
# Keywords, bytes of a value, parameter set, compression of keys, shards.
CASES = {
    "thin": (5000, 2, "n_4096_logq_27_28_28_logt_5", "none", 1),
    "shards": (600, 120, "n_4096_logq_27_28_28_logt_4", "max", 3),
    "chunks": (60, 3000, "n_4096_logq_27_28_28_logt_6", "hybrid", 1),
}
# Look-ups of each case: 10,002 in all in the long form.
LOOK_UPS = 3334 if LONG else 300 if FULL else 34


@pytest.fixture(scope="module")
def program():
    cargo("build", "--locked", "--workspace", "--example", "apple-look-ups")
    return target_folder() / "debug/examples/apple-look-ups"


class Server:
    """The example server as a process."""

    def __init__(self, process):
        self.process = process

    def ask(self, kind, message):
        """Returns the response to a message, or raises its error."""
        self.process.stdin.write(struct.pack("<I", len(message) + 1) + kind + message)
        self.process.stdin.flush()
        length = struct.unpack("<I", self.process.stdout.read(4))[0]
        response = self.process.stdout.read(length)
        if response[0]:
            raise RuntimeError(response[1:].decode())
        return response[1:]


@contextmanager
def processes():
    """Yields a function that starts a command with pipes. At the end all of them end without an error."""
    started = []

    def start(command):
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        assert process.wait(60) == 0


@pytest.fixture
def server(program):
    with processes() as start:
        yield lambda *arguments: Server(start([program, *map(str, arguments)]))


def keyword(number):
    return f"+1555{number:07}".encode()


def value(number, length):
    return (struct.pack("<I", number) * length)[:length]


@pytest.mark.parametrize("name", CASES)
def test_look_ups(server, name):
    keywords, length, *_ = CASES[name]
    asked = server(*CASES[name])
    client = apple.Client(USE_CASE, asked.ask(b"c", b""))
    now = int(time.time())
    asked.ask(b"k", client.evaluation_keys(now))
    chosen = [*random.Random(name).choices(range(keywords), k=LOOK_UPS - 2), keywords, keywords + 1]
    for number in chosen:
        request, pending = client.request(keyword(number), now)
        found = client.value(pending, asked.ask(b"q", request))
        assert found == (value(number, length) if number < keywords else None), number


def test_requests_are_refused_without_a_key_and_for_other_configurations(server):
    asked = server(20, 2, "n_4096_logq_27_28_28_logt_5", "max", 1)
    client = apple.Client(USE_CASE, asked.ask(b"c", b""))
    request, _ = client.request(keyword(1), 1)
    with pytest.raises(RuntimeError, match="Evaluation key not found"):
        asked.ask(b"q", request)
    client.config_id = bytes(32)
    request, _ = client.request(keyword(1), 1)
    with pytest.raises(RuntimeError, match="not the current one"):
        asked.ask(b"q", request)
    with pytest.raises(RuntimeError, match="malformed Requests"):
        asked.ask(b"q", b"\x0a\xff")
