"""A cluster in virtual time: the coordinator's queues, shards, replicas, stragglers, and the rules for second requests.

Requests arrive at random times. A database may have one more running batch than a share has replicas. At this limit, requests
wait at the coordinator, and become a batch when a running one ends. Batches cross the network to every shard, one batch after
another. Each shard is asked for its part, at the replica with the least to do. If a part takes longer than 95 of 100 of the
shard's latest batches of its size, a second replica is asked too, for at most about one request in twenty. A replica answers
one batch after another. Its computation time is random: close to the expected time, or many times longer at a straggler. When
the last shard's part is there, the parts cross the network back and the coordinator combines them, again one batch after
another. The same seed gives the same run.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

# The coordinator's constants, from crates/cluster/src/times.rs. conformance/vectors/second_requests.json tests both.
KEPT, TELLING, SIZES, UNKNOWN_FACTOR, SLOW = 128, 16, 12, 3, 0.95
PER_REQUEST, MOST = 0.05, 10.0


@dataclass(frozen=True)
class Model:
    """Parameters of a simulation. Times are in seconds for one query; the time of a batch is proportional to its queries."""

    shards: int
    replicas: int
    queries_per_second: float
    scan: float
    """Time of a worker for its share of a query."""
    combine: float
    """Time of the coordinator for a query."""
    send: float = 0.0
    """Time of the coordinator's network to send a query to all shards."""
    receive: float = 0.0
    """Time of the coordinator's network to receive the parts of an answer."""
    round_trip: float = 0.0
    batch: int = 1
    """Most queries in a batch."""
    spread: float = 0.05
    """Standard deviation of the logarithm of a worker's time."""
    straggling: float = 0.01
    """Probability that a worker is a straggler."""
    slowness: float = 10.0
    """Factor by which a straggler is slower."""
    hedges: bool = True

    def most_per_second(self) -> float:
        """Returns the most queries per second: the tightest limit of workers, coordinator's network and its processor."""
        each = (self.scan / self.replicas, self.combine, self.send, self.receive)
        return 1.0 / max(each)


@dataclass(frozen=True)
class Outcome:
    """Result of a simulation: latencies of queries in order, number of second requests, and fraction of time that replicas
    computed."""

    latencies: tuple[float, ...]
    hedged: int
    busy: float

    def quantile(self, share: float) -> float:
        """Returns the latency that a fraction `share` of the queries does not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1]


@dataclass
class _Batch:
    queries: list[int]
    pending: int
    began: float = 0.0
    latest: float = 0.0

    def answered(self, at: float) -> bool:
        """Records the answer of one more shard. Returns True if it was the last."""
        self.latest, self.pending = max(self.latest, at), self.pending - 1
        return self.pending == 0


class _Line:
    """A resource that serves one batch after another."""

    def __init__(self) -> None:
        self._free = 0.0

    def through(self, now: float, time: float) -> float:
        """Returns the time at which a batch arriving at `now` is served; it takes `time`."""
        self._free = max(self._free, now) + time
        return self._free


class _Latest:
    """The latest times of batches of one size."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=KEPT)
        self._slow = 0.0
        self._since = TELLING

    def note(self, time: float) -> None:
        self._times.append(time)
        self._since += 1

    def longest(self) -> float:
        return max(self._times, default=0.0)

    def slow(self) -> float | None:
        """Returns the 95th percentile of the latest times; `None` while there are too few."""
        if len(self._times) < TELLING:
            return None
        # Sorting all times at each request would dominate the simulation, and the times change slowly.
        if self._since >= TELLING:
            ordered = sorted(self._times)
            self._slow, self._since = ordered[math.ceil((len(ordered) - 1) * SLOW)], 0
        return self._slow


class Times:
    """The latest times of a shard's batches, by their size."""

    def __init__(self) -> None:
        self._of_size = [_Latest() for _ in range(SIZES)]

    def note(self, queries: int, time: float) -> None:
        """Records the time of a batch of `queries` queries."""
        self._of(queries).note(time)

    def slow(self, queries: int) -> float | None:
        """Returns the time after which a second replica is asked; `None` while no time is known."""
        slow = self._of(queries).slow()
        return slow or UNKNOWN_FACTOR * max(times.longest() for times in self._of_size) or None

    def _of(self, queries: int) -> _Latest:
        return self._of_size[min(queries.bit_length() - 1, SIZES - 1)]


class Budget:
    """Budget of second requests: initially one. Each request adds a fraction of one more."""

    def __init__(self) -> None:
        self._earned = 1.0

    def earn(self) -> None:
        """Adds the contribution of a request."""
        self._earned = min(self._earned + PER_REQUEST, MOST)

    def pay(self) -> bool:
        """Pays for a second request. Returns False if the budget does not suffice."""
        paid = self._earned >= 1.0
        if paid:
            self._earned -= 1.0
        return paid


class _Shard:
    """The replicas of a shard: the time at which each is free, and their latest times."""

    def __init__(self, model: Model, draw: random.Random) -> None:
        self._model, self._draw = model, draw
        self._free = [0.0] * model.replicas
        self._times, self._budget = Times(), Budget()
        self._may_hedge = model.hedges and model.replicas > 1
        self.computed = 0.0

    def _give(self, replica: int, now: float, queries: int) -> float:
        model = self._model
        factor = model.slowness if self._draw.random() < model.straggling else 1.0
        time = queries * model.scan * factor * math.exp(self._draw.gauss(0.0, model.spread))
        self.computed += time
        self._free[replica] = max(self._free[replica], now) + time
        return self._free[replica]

    def ask(self, now: float, queries: int, later: Callable[[float, int, float], None]) -> float | None:
        """Asks the replica with the least to do. Returns the time of its answer.

        If the answer will be late, returns `None`, and calls `later` with the time to ask a second replica, the first replica,
        and the time of the first one's answer.
        """
        self._budget.earn()
        first = self._free.index(min(self._free))
        done = self._give(first, now, queries)
        slow = self._times.slow(queries) if self._may_hedge else None
        if slow is not None and done - now > slow:
            later(now + slow, first, done)
            return None
        self._times.note(queries, done - now)
        return done

    def second(self, now: float, asked: float, queries: int, first: int, done: float) -> tuple[float, bool]:
        """Asks another replica if the budget allows. Returns the time of the earlier answer, and True if it was asked."""
        paid = self._budget.pay()
        if paid:
            others = [replica for replica in range(len(self._free)) if replica != first]
            done = min(done, self._give(min(others, key=self._free.__getitem__), now, queries))
        self._times.note(queries, done - asked)
        return done, paid


@dataclass
class _Run:
    """A run: events ordered by time, and by their creation if times are equal."""

    model: Model
    draw: random.Random
    came: list[float] = field(default_factory=list)
    took: dict[int, float] = field(default_factory=dict)
    hedged: int = 0
    now: float = 0.0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0
    _waiting: deque[int] = field(default_factory=deque)
    _running: int = 0

    def __post_init__(self) -> None:
        self.shards = [_Shard(self.model, self.draw) for _ in range(self.model.shards)]
        self._out, self._in, self._processor = _Line(), _Line(), _Line()

    def at(self, time: float, what: Callable[[], None]) -> None:
        """Schedules an event."""
        self._count += 1
        heapq.heappush(self._events, (time, self._count, what))

    def arrive(self, query: int) -> None:
        """Accepts a query."""
        self._waiting.append(query)
        self._launch()

    def go(self) -> None:
        """Runs until no event is left."""
        while self._events:
            self.now, _, what = heapq.heappop(self._events)
            what()

    def _launch(self) -> None:
        model = self.model
        while self._waiting and self._running <= model.replicas:
            queries = [self._waiting.popleft() for _ in range(min(model.batch, len(self._waiting)))]
            batch = _Batch(queries, model.shards)
            self._running += 1
            self.at(self._out.through(self.now, len(queries) * model.send), lambda batch=batch: self._ask(batch))  # type: ignore[misc]

    def _ask(self, batch: _Batch) -> None:
        batch.began = self.now
        for shard in self.shards:

            def later(at: float, first: int, done: float, shard: _Shard = shard) -> None:
                self.at(at, lambda: self._second(batch, shard, first, done))

            answer = shard.ask(self.now, len(batch.queries), later)
            if answer is not None:
                self._answered(batch, answer)

    def _second(self, batch: _Batch, shard: _Shard, first: int, done: float) -> None:
        answer, asked = shard.second(self.now, batch.began, len(batch.queries), first, done)
        self.hedged += asked
        self._answered(batch, answer)

    def _answered(self, batch: _Batch, at: float) -> None:
        if batch.answered(at):
            self.at(batch.latest, lambda: self._join(batch))

    def _join(self, batch: _Batch) -> None:
        """Sends all parts over the network and combines them, when the last one has been computed."""
        count = len(batch.queries)
        there = self._in.through(self.now, count * self.model.receive)
        self.at(
            there, lambda: self.at(self._processor.through(self.now, count * self.model.combine), lambda: self._end(batch))
        )

    def _end(self, batch: _Batch) -> None:
        for query in batch.queries:
            self.took[query] = self.now - self.came[query] + self.model.round_trip
        self._running -= 1
        self._launch()


def simulate(model: Model, queries: int, seed: int) -> Outcome:
    """Simulates `queries` queries. Excludes the first tenth, in which queues and the records of latest times fill."""
    run, time = _Run(model, random.Random(seed)), 0.0
    for query in range(queries):
        time += run.draw.expovariate(model.queries_per_second)
        run.came.append(time)
        run.at(time, lambda query=query: run.arrive(query))  # type: ignore[misc]
    run.go()
    latencies = tuple(run.took[query] for query in range(queries // 10, queries))
    computed = sum(shard.computed for shard in run.shards)
    return Outcome(latencies, run.hedged, computed / (run.now * model.shards * model.replicas))
