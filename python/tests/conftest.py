"""Common fixtures of the package's tests: tables, servers, and a separate cache."""

import contextlib
import http.client
import itertools
import os
import subprocess
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

# The tests' matrices are small, so BLAS threads would only wait for each other. BLAS reads the variable when it loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy

import spirea


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    """Redirects the cache of hints from the user's folder to a folder of the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def matrix():
    """A table of 1,000 rows of 16 numbers."""
    return numpy.random.default_rng(1).standard_normal((1000, 16)).astype(numpy.float32)


@pytest.fixture(scope="session")
def keyed():
    """A snapshot with keys."""
    return spirea.build([{"key": f"k{i}", "a": f"a{i}", "b": i} for i in range(300)], key="key", name="keyed")


@pytest.fixture(scope="session")
def keyed_server(keyed):
    with spirea.Server(keyed) as server:
        yield server


@pytest.fixture(scope="session")
def measurement():
    """This machine's rates, measured once because it takes seconds, and the reported progress."""
    told = []
    rates = spirea.measure_rates(progress=lambda *said: told.append(said))
    return types.SimpleNamespace(rates=rates, told=told)


@pytest.fixture
def measured(measurement, monkeypatch):
    """Replaces the measurement by its result, for callers that would measure again."""
    monkeypatch.setattr(spirea, "measure_rates", lambda **options: measurement.rates)


@contextlib.contextmanager
def _answering(handler):
    """Runs an HTTP server of this process on a thread, and yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # The interval is short because `shutdown` waits for the next poll.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def answering():
    """Context manager that runs an HTTP server with a given handler, and yields its address."""
    return _answering


class Relay:
    """A proxy before a server, in Python and in this process. It calls `before_query` with each query's number, from 0."""

    def __init__(self, behind):
        self.url = None
        self.before_query = lambda number: None
        self.queries = itertools.count()
        relay = self

        class Carrying(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path.endswith("/query"):
                    relay.before_query(next(relay.queries))
                connection = http.client.HTTPConnection(behind.removeprefix("http://"))
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                        self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                connection.close()

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.handler = Carrying


@pytest.fixture
def relay(keyed_server):
    relay = Relay(keyed_server.url)
    with _answering(relay.handler) as relay.url:
        yield relay


@pytest.fixture(scope="session")
def pair(matrix):
    """Two servers of one snapshot with bins."""
    snapshot = spirea.build(matrix, protocol="dpf-xor", bins=20, name="pair")
    with spirea.Server(snapshot, party=0) as zero, spirea.Server(snapshot, party=1) as one:
        yield [zero, one]


@pytest.fixture
def script(tmp_path):
    """Function that runs a Python program in a separate interpreter. The program must end by itself."""

    def run(text, *arguments, **options):
        path = tmp_path / "script.py"
        path.write_text(text)
        return subprocess.run(
            [sys.executable, path, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=os.environ | options,
        )

    return run
