"""Look-ups through real servers: rows are right, and messages do not depend on the look-ups."""

import os
import socket
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import spirea
from spirea.embeddings import (
    Design,
    Embedding,
    EmbeddingBag,
    Layout,
    PrivateRows,
    ServerFetcher,
    Spirea,
    Traces,
    build_tables,
    connect,
)

ROWS, DIM = 1200, 8
HOT_AND_FULL = Design(full_bins=16, full_passes=2, hot_rows=300, hot_bins=8, neighbours=1)


@pytest.fixture(scope="module")
def weight():
    return np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def training():
    rng = np.random.default_rng(1)
    chances = 1 / np.arange(1, ROWS + 1)
    return Traces.of(ROWS, [rng.choice(ROWS, 12, p=chances / chances.sum()) for _ in range(200)])


class Served:
    """One or two servers of the tables of a layout."""

    def __init__(self, weight, layout, protocol):
        self.layout = layout
        self.snapshots = build_tables(layout, weight, protocol=protocol)
        parties = (0, 1) if protocol.startswith("dpf") else (None,)
        self.servers = [spirea.Server([*self.snapshots.values()], party=party) for party in parties]
        self.addresses = [server.url for server in self.servers]

    def stop(self):
        for server in self.servers:
            server.stop()


SERVED = {
    "dpf-xor": ("dpf-xor", HOT_AND_FULL),
    # The paper's collocation: rows with copies of their companions.
    "copies": ("dpf-xor", replace(HOT_AND_FULL, neighbours=2, collocation="copies", placement="shuffled")),
    "dpf-sum": ("dpf-sum", HOT_AND_FULL),
    # A protocol with one server has no bins, but a pass for each query.
    "simple": ("simple", Design(full_bins=1, full_passes=3, hot_rows=300, hot_passes=4, neighbours=1)),
}


@pytest.fixture(scope="module", params=SERVED)
def served(request, weight, training):
    protocol, design = SERVED[request.param]
    layout = Layout.of(weight, design, training, padding_idx=7, fallback=weight.mean(axis=0))
    served = Served(weight, layout, protocol)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def rows(served):
    return connect(served.layout, served.addresses)


def test_rows_are_those_of_the_matrix(rows, weight):
    ids = np.random.default_rng(2).integers(0, ROWS, (3, 5))
    given = Embedding(rows)(ids)
    vectors, found = rows.fetch(ids)
    assert found.sum() > 3 and (vectors[found] == weight[ids.reshape(-1)][found]).all()
    assert (given.reshape(-1, DIM) == vectors).all()
    assert (vectors[~found] == weight.mean(axis=0)).all()
    assert rows.last.dropped == (~found).sum()
    few = np.array([0, 1, 7])
    assert (Embedding(rows)(few) == weight[few]).all()


def test_bags(rows, weight):
    bags = EmbeddingBag(rows, mode="sum")(np.array([0, 1, 7, 2]), np.array([0, 2]))
    assert np.allclose(bags, [weight[[0, 1]].sum(axis=0), weight[2]], atol=1e-6)


def test_modules_of_torch(rows, weight):
    torch = pytest.importorskip("torch")
    from spirea.embeddings import torch as private_torch

    module = torch.nn.Embedding.from_pretrained(torch.from_numpy(weight.copy()), padding_idx=7)
    ids = torch.tensor([[0, 7], [1, 2]])
    assert torch.equal(private_torch.replace(module, rows)(ids), module(ids))
    module = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(weight.copy()), mode="mean", padding_idx=7)
    assert torch.allclose(private_torch.replace(module, rows)(ids), module(ids), atol=1e-6)


def _received(source):
    try:
        return source.recv(1 << 16)
    except OSError:
        # The thread of the other direction has closed the socket.
        return b""


class Tap:
    """A proxy before a server that records the bytes of each turn: consecutive data in one direction of one connection."""

    def __init__(self, url):
        self.behind = url.removeprefix("http://").rsplit(":", 1)
        self.turns = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((self.behind[0], int(self.behind[1])))
            for name, source, target in (("up", client, server), ("down", server, client)):
                # Without TCP_NODELAY the proxy would delay the end of each answer.
                target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(name, source, target), daemon=True).start()

    def _carry(self, name, source, target):
        while data := _received(source):
            with self._lock:
                if self.turns and self.turns[-1][0] == name:
                    self.turns[-1][1] += len(data)
                else:
                    self.turns.append([name, len(data)])
            target.sendall(data)
        target.close()

    def take(self):
        """Returns the turns since the last call."""
        with self._lock:
            turns, self.turns = self.turns, []
        return tuple(map(tuple, turns))

    def close(self):
        self._listener.close()


def inferences(count):
    """Yields inferences: an empty one, two with the most collisions, and random ones of any length and skew."""
    rng = np.random.default_rng(3)
    yield np.empty(0, np.int64)
    yield np.zeros(40, np.int64)
    yield np.arange(ROWS)
    for _ in range(count - 3):
        span = int(rng.integers(1, ROWS + 1))
        yield rng.integers(0, span, int(rng.integers(0, 60)))


def assert_inferences_send_the_same(served, count):
    """Checks on the wire that all inferences have the same turns in both directions, with the same bytes."""
    taps = [Tap(url) for url in served.addresses]
    rows = connect(served.layout, [tap.url for tap in taps])
    seen, accounts = set(), set()
    for tap in taps:
        tap.take()
    for ids in inferences(count):
        before = [len(traffic.messages) for traffic in rows.traffic]
        rows.fetch(ids)
        account = tuple(tuple(each.messages[start:]) for each, start in zip(rows.traffic, before))
        accounts.add(account)
        seen.update((number, tap.take()) for number, tap in enumerate(taps))
    for tap in taps:
        tap.close()
    assert len(accounts) == 1, accounts
    assert len(seen) == len(taps), seen
    assert all(len(turns) >= 2 and turns[0][0] == "up" for _, turns in seen)


def test_inferences_send_the_same(served):
    assert_inferences_send_the_same(served, 30)


@pytest.mark.full
@pytest.mark.parametrize(
    ("served", "count"), [("dpf-xor", 1000), ("copies", 200), ("dpf-sum", 200), ("simple", 60)], indirect=["served"]
)
def test_many_inferences_send_the_same(served, count):
    assert_inferences_send_the_same(served, count)


def test_what_is_sent_is_what_the_cost_model_says(rows, served):
    protocol = next(iter(served.snapshots.values())).protocol
    if protocol == "simple":
        pytest.skip("one server is priced by the planner, whose figures have tests of their own")
    before = [(traffic.sent, traffic.received) for traffic in rows.traffic]
    rows.fetch(np.array([1, 2, 3]))
    model = Spirea(protocol)
    shapes = served.layout.design.shapes(ROWS, DIM * 4)
    for shape, traffic, (sent, received) in zip(shapes, rows.traffic, before, strict=True):
        priced = model.of_table(shape)
        # Each message also has a frame of at most a hundred bytes for each server and pass.
        assert 0 < traffic.sent - sent - priced.upload <= 200 * shape.passes
        assert 0 < traffic.received - received - priced.download <= 200 * shape.passes


def test_tables_of_another_layout_are_refused(weight, training, served, tmp_path):
    layout, protocol = served.layout, next(iter(served.snapshots.values())).protocol
    with pytest.raises(spirea.OptionError, match="1200 x 8 numbers of float32: not of 1200 x 8 of float64"):
        build_tables(layout, weight.astype(np.float64))
    if protocol == "simple":
        with pytest.raises(spirea.OptionError, match="16 bins, and embeddings have none under simple"):
            build_tables(Layout.of(weight, Design(full_bins=16), training), weight, protocol="simple")
        return
    if layout.design != HOT_AND_FULL:
        pytest.skip("what is refused is said beside the other design")
    other = Layout.of(weight, Design(full_bins=16, full_passes=2, hot_rows=240, hot_bins=8, neighbours=1), training)
    with pytest.raises(spirea.OptionError, match="not the hot table of the layout, of 120 rows"):
        connect(other, served.addresses)
    other = Layout.of(weight, Design(full_bins=19, full_passes=2, neighbours=1), training)
    assert len(other.tables[0].members) == len(layout.tables[1].members)
    with pytest.raises(spirea.OptionError, match="16 bins, and the layout 19"):
        connect(other, served.addresses)
    wide = Layout.of(np.zeros((ROWS, 2 * DIM), np.float32), HOT_AND_FULL, training)
    with pytest.raises(ValueError, match="rows of 128 bytes were asked for"):
        connect(wide, served.addresses).fetch(np.array([1]))


def test_rows_are_closed(served, weight):
    with connect(served.layout, served.addresses) as rows:
        assert (rows.fetch(np.array([1]))[0] == weight[[1]]).all()
    with pytest.raises(spirea.StoppedError, match="closed"):
        rows.fetch(np.array([1]))


def test_one_party_down_in_the_middle(weight, training):
    layout = Layout.of(weight, HOT_AND_FULL, training)
    served = Served(weight, layout, "dpf-xor")
    rows = connect(layout, served.addresses, attempts=1)
    rows.fetch(np.array([1, 2, 3]))
    served.servers[1].stop()
    total = rows.total
    with pytest.raises(spirea.UnreachableError, match="party 1"):
        rows.fetch(np.array([1, 2, 3]))
    # A failed inference is not counted, and returns nothing.
    assert rows.total == total
    served.stop()


def test_a_table_that_has_changed_since(weight, training):
    """Rows of another version, which may lie in other places, are refused."""
    layout = Layout.of(weight, HOT_AND_FULL, training)
    served = Served(weight, layout, "dpf-xor")

    class Later:
        """A client whose table changes after the connection."""

        def __init__(self, client):
            self._client, self.version = client, client.version

        def __getattr__(self, name):
            return getattr(self._client, name)

    client = Later(spirea.Client(served.addresses, "embeddings-hot"))
    fetcher = ServerFetcher(layout.tables[0], client)
    rows = np.arange(8)[None, :] * layout.tables[0].bin_rows
    assert fetcher.fetch(rows).shape == (1, 8, 2 * DIM * 4)
    client.version = "another"
    with pytest.raises(spirea.VersionError, match="connect with the layout of the new one"):
        fetcher.fetch(rows)
    with pytest.raises(spirea.RefusedError, match="no database"):
        connect(layout, served.addresses, name="others")
    served.stop()


def test_a_fork_with_live_rows(rows, weight):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            rows.fetch(np.array([1]))
            said = "fetched"
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "ForkError"
    assert os.waitpid(child, 0)[1] == 0
    assert (rows.fetch(np.array([1]))[0] == weight[[1]]).all()


def test_the_interpreter_exits_while_a_thread_fetches(served, script, tmp_path):
    served.layout.save(tmp_path / "layout.npz")
    done = script(
        """
import sys, threading, time
import numpy as np
from spirea.embeddings import Layout, connect

rows = connect(Layout.load(sys.argv[1]), sys.argv[2:])
first = threading.Event()

def forever():
    while True:
        rows.fetch(np.array([1, 2, 3]))
        first.set()

threading.Thread(target=forever, daemon=True).start()
first.wait()
""",
        tmp_path / "layout.npz",
        *served.addresses,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        (np.array([np.nan]), TypeError),
        (np.array([True]), TypeError),
        (np.array(["1"]), TypeError),
        ([[1, 2], [3]], ValueError),
        (np.array([1 << 63], np.uint64), IndexError),
        (np.array([ROWS]), IndexError),
        (np.array([-1]), IndexError),
    ],
)
def test_wrong_inputs_send_nothing(rows, ids, error):
    before = [len(traffic.messages) for traffic in rows.traffic]
    with pytest.raises(error):
        Embedding(rows)(ids)
    assert [len(traffic.messages) for traffic in rows.traffic] == before


def test_names_and_folders(weight, training, tmp_path):
    layout = Layout.of(weight, HOT_AND_FULL, training)
    snapshots = build_tables(layout, weight, tmp_path, name="words")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["words-full", "words-hot"]
    assert {name: (each.bins, each.rows) for name, each in snapshots.items()} == {
        table.name: (table.bins, len(table.members)) for table in layout.tables
    }
    assert isinstance(PrivateRows(layout, dict.fromkeys(snapshots, None)), PrivateRows)
    assert ServerFetcher.__doc__


def test_all_passes_are_sent_whatever_the_first_one_brings():
    class Damaged:
        """A client whose first answer is damaged."""

        keyed, rows, bins, name, version = False, 12, 4, "full", "a version"

        def __init__(self):
            self.asked = []

        def fetch_indices(self, rows):
            self.asked.append(rows)
            if len(self.asked) == 1:
                raise spirea.AnswerError("damaged")
            raise spirea.UnreachableError("gone")

    table = SimpleNamespace(name="full", members=range(12), bins=4, bin_rows=3, passes=3)
    client = Damaged()
    asked = np.arange(4) * 3 + np.arange(3)[:, None]
    with pytest.raises(spirea.AnswerError, match="damaged"):
        ServerFetcher(table, client).fetch(asked)
    assert client.asked == asked.tolist()
