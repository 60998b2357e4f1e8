"""A cluster in virtual time: shards, replicas, stragglers, and the coordinator's rules for second requests.

Requests come at random times. Each shard is asked for its part, at the replica with the least to do; one that takes longer
than 95 of 100 of the shard's latest is asked of a second replica too, as often as one request in twenty earns. A replica
answers one after another; how long it computes is drawn: mostly as long as it should, sometimes, at a straggler, many times
as long. The answer is there when the last shard's part is, and the coordinator has combined them. The same seed gives the
same run.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_KEPT, _TELLING, _UNKNOWN_FACTOR = 128, 16, 3.0
_EARNED, _MOST_EARNED = 0.05, 10.0


@dataclass(frozen=True)
class Model:
    """What is simulated. Times are in seconds."""

    shards: int
    replicas: int
    queries_per_second: float
    scan: float
    """What a worker takes for its share of a query."""
    combine: float
    """What the coordinator takes for a query, and the network for both ways."""
    spread: float = 0.05
    """The standard deviation of the logarithm of a worker's time."""
    straggling: float = 0.01
    """How often a worker is a straggler."""
    slowness: float = 10.0
    """How many times as long a straggler takes."""
    hedges: bool = True


@dataclass(frozen=True)
class Outcome:
    """What came of it: latencies of queries in order, second requests, and how much of the time replicas computed."""

    latencies: tuple[float, ...]
    hedged: int
    busy: float

    def quantile(self, share: float) -> float:
        """The latency that so large a part of the queries does not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1]


class _Shard:
    """The replicas of a shard: when each is free, and what they took of late."""

    def __init__(self, model: Model, draw: random.Random) -> None:
        self._model, self._draw = model, draw
        self._free = [0.0] * model.replicas
        self._times: deque[float] = deque(maxlen=_KEPT)
        self._slow: float | None = None
        self._noted = 0
        self._earned = 1.0
        self.computed = 0.0

    def _time(self) -> float:
        model = self._model
        factor = model.slowness if self._draw.random() < model.straggling else 1.0
        return model.scan * factor * math.exp(self._draw.gauss(0.0, model.spread))

    def _give(self, replica: int, now: float) -> float:
        time = self._time()
        self.computed += time
        self._free[replica] = max(self._free[replica], now) + time
        return self._free[replica]

    def slow(self) -> float | None:
        """After how long a second replica is asked."""
        if len(self._times) < _TELLING:
            return max(self._times) * _UNKNOWN_FACTOR if self._times else None
        # Ordering all times at each request would be most of the simulation's work; they change slowly.
        if self._slow is None or self._noted >= _TELLING:
            ordered = sorted(self._times)
            self._slow, self._noted = ordered[math.ceil((len(ordered) - 1) * 0.95)], 0
        return self._slow

    def ask(self, now: float, later: Callable[[float, int, float], None]) -> float | None:
        """Asks the replica with the least to do. The time of its answer; nothing if it will be late, and `later` was told
        when to ask a second one, which the first was, and when that will answer."""
        first = min(range(len(self._free)), key=self._free.__getitem__)
        done, slow = self._give(first, now), self.slow()
        if self._model.hedges and len(self._free) > 1 and slow is not None and done - now > slow:
            later(now + slow, first, done)
            return None
        self.note(done - now)
        return done

    def second(self, now: float, asked: float, first: int, done: float) -> tuple[float, bool]:
        """Asks another replica beside the first; when the earlier of both answers, and whether it was asked."""
        if self._earned < 1.0:
            self.note(done - asked)
            return done, False
        self._earned -= 1.0
        others = [replica for replica in range(len(self._free)) if replica != first]
        earlier = min(done, self._give(min(others, key=self._free.__getitem__), now))
        self.note(earlier - asked)
        return earlier, True

    def earn(self) -> None:
        """What a request adds to what second ones are paid with."""
        self._earned = min(self._earned + _EARNED, _MOST_EARNED)

    def note(self, time: float) -> None:
        self._times.append(time)
        self._noted += 1


def simulate(model: Model, queries: int, seed: int) -> Outcome:
    """Runs so many queries, of which the first tenth is not counted: queues and times of late fill in it."""
    draw = random.Random(seed)
    shards = [_Shard(model, draw) for _ in range(model.shards)]
    pending = [model.shards] * queries
    came, latest, hedged = [0.0] * queries, [0.0] * queries, 0
    # Arrivals and second requests in the order of time; the counter keeps equal times in order.
    events: list[tuple[float, int, int, int, int, float]] = []
    now, counter = 0.0, 0
    for query in range(queries):
        now += draw.expovariate(model.queries_per_second)
        came[query] = now
        events.append((now, query, query, -1, 0, 0.0))
    counter = queries
    heapq.heapify(events)
    end = now
    while events:
        now, _, query, which, first, done = heapq.heappop(events)
        if which >= 0:
            answered, asked = shards[which].second(now, came[query], first, done)
            hedged += asked
            latest[query] = max(latest[query], answered)
            pending[query] -= 1
            continue
        for index, shard in enumerate(shards):
            shard.earn()

            def later(at: float, replica: int, due: float, index: int = index, query: int = query) -> None:
                nonlocal counter
                counter += 1
                heapq.heappush(events, (at, counter, query, index, replica, due))

            answer = shard.ask(now, later)
            if answer is not None:
                latest[query] = max(latest[query], answer)
                pending[query] -= 1
    assert not any(pending)
    warm = queries // 10
    latencies = tuple(latest[query] - came[query] + model.combine for query in range(warm, queries))
    busy = sum(shard.computed for shard in shards) / (max(end, max(latest)) * model.shards * model.replicas)
    return Outcome(latencies, hedged, busy)
