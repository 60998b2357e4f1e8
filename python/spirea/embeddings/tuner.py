"""Chooses a design: searches bins, hot rows, queries and neighbours, and reports cost and quality of designs.

The search is deterministic: the same traces, limits, rates and seed give the same designs on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .collocation import Collocation
from .costs import Cost, CostModel, Spirea, cost
from .layout import Design, Placement, Planner
from .quality import Quality
from .retrieval import retrieve
from .traces import Traces


@dataclass(frozen=True)
class Link:
    """A client's connection, in bytes per second."""

    uplink: float
    downlink: float


@dataclass(frozen=True)
class Limits:
    """Limits on the cost of an inference."""

    communication: int = 300_000
    """Most bytes, for both directions and all servers."""
    latency: float = 0.1
    """Most seconds: the server's time, and the link's if one is given."""
    link: Link | None = None

    def latency_of(self, cost: Cost) -> float:
        if self.link is None:
            return cost.server_seconds
        return cost.server_seconds + cost.upload / self.link.uplink + cost.download / self.link.downlink

    def admit(self, cost: Cost) -> bool:
        return cost.communication <= self.communication and self.latency_of(cost) <= self.latency


@dataclass(frozen=True)
class Space:
    """Designs to search: a coarse grid, and designs near its best ones. A technique is off if its list is empty or only 0."""

    bins: Sequence[int] = (4, 16, 64, 256)
    passes: Sequence[int] = (1, 2)
    hot_parts: Sequence[int] = (4, 16, 64, 256)
    """Sizes of the hot table as divisors of the rows: 4 is a quarter."""
    neighbours: Sequence[int] = (0, 1, 3, 7)
    collocations: Sequence[Collocation] = (Collocation.GROUPS, Collocation.COPIES)
    placement: Placement = Placement.DEALT
    full: Sequence[bool] = (True,)
    """True for designs that ask the full table. `(True, False)` also allows designs with a hot table only. These never
    retrieve other rows: rare rows are lost in every inference, however large the retrieved share of look-ups is."""

    def designs(self, rows: int, binned: bool) -> Iterable[Design]:
        """Yields the designs of the grid."""
        if binned:
            queries = [(bins, passes) for bins in self.bins for passes in self.passes]
        else:
            # Without bins each query is a pass.
            queries = [(1, passes) for passes in sorted({bins * more for bins in self.bins for more in self.passes})]
        hots = sorted({max(rows // part, 1) for part in self.hot_parts})
        for neighbours in self.neighbours:
            common = Design(neighbours=neighbours, collocation=self.collocations[0], placement=self.placement)
            full = [replace(common, full_bins=bins, full_passes=passes) for bins, passes in queries if True in self.full]
            yield from full
            for hot_rows in hots:
                alone = [replace(common, full_bins=0, hot_rows=hot_rows)] if False in self.full else []
                for hot_bins, hot_passes in [(bins, 1) for bins in self.bins] if binned else queries:
                    for design in [*alone, *full]:
                        yield replace(design, hot_rows=hot_rows, hot_bins=hot_bins, hot_passes=hot_passes)

    def near(self, design: Design, factor: float, rows: int, binned: bool) -> Iterable[Design]:
        """Yields designs that differ from `design` in one property, by about `factor`."""
        changing = [f"{table}_{'bins' if binned else 'passes'}" for table in ("full", "hot")]
        for name in changing[: 1 + (design.hot_rows > 0)]:
            value = getattr(design, name)
            for changed in sorted({round(value * factor), round(value / factor)} - {0, value}):
                if design.full_bins or name != changing[0]:
                    yield replace(design, **{name: changed})
        if design.hot_rows:
            for changed in _hot_sizes_beside(design.hot_rows, rows):
                yield replace(design, hot_rows=changed)
            if binned and len(self.passes) > 1:
                yield replace(design, hot_passes=3 - design.hot_passes)

    def twins(self, design: Design) -> Iterable[Design]:
        """Yields the design with the other kinds of collocation. They are searched last, because copies take long to judge."""
        if design.neighbours:
            for style in self.collocations[1:]:
                yield replace(design, collocation=style)


def _hot_sizes_beside(hot_rows: int, rows: int) -> set[int]:
    """Returns the neighbouring sizes of hot tables, in steps of the square root of 2 down from all rows. There are few sizes,
    because each table must be made."""
    step = round(2 * math.log2(rows / hot_rows))
    return {max(int(rows * 2 ** (-other / 2)), 1) for other in (step - 1, step + 1) if other > 0} - {hot_rows}


# Number of designs that the explanation lists beside the chosen one.
BESIDE = 4
# Factors by which designs near the best ones differ from them, one for each round.
FACTORS = (2.0, 1.4, 1.2)


@dataclass(frozen=True)
class Point:
    """A design with its cost, its retrieved share and its quality."""

    design: Design
    cost: Cost
    computation: float
    latency: float
    share: float
    quality: float | None = None


@dataclass
class Tuning:
    """Result of a search."""

    model: CostModel
    quality: Quality
    limits: Limits
    goal: float
    points: list[Point]
    """All searched designs within the limits, with their shares."""
    front: list[Point]
    """Pareto front by computation, communication, share and quality, ordered by computation."""
    chosen: Point
    considered: int
    refused: int
    client_bytes: int = 0
    seconds_by: str = field(default="")

    def reaches(self, point: Point) -> bool:
        """True if a point's quality reaches the goal."""
        if point.quality is None:
            return False
        return point.quality >= self.goal if self.quality.higher_is_better else point.quality <= self.goal

    def cheapest(self, where: Callable[[Design], bool] = lambda _: True) -> Point | None:
        """Returns the point of the front with the least computation that reaches the goal and fulfils `where`."""
        good = [point for point in self.front if self.reaches(point) and where(point.design)]
        return min(good, key=lambda point: (point.computation, point.cost.communication), default=None)

    def explain(self) -> str:
        """Explains the choice as text."""
        point, unit = self.chosen, self.model.unit
        limits = f"{self.limits.communication / 1e3:.0f} kB and {self.limits.latency * 1e3:.0f} ms"
        lines = [
            f"Of {self.considered} designs, {self.considered - self.refused} keep within {limits} an inference, by the "
            f"costs of {self.model.name}{self.seconds_by}; {len(self.front)} are beaten by none.",
            f"Chosen: {point.design}.",
            f"It costs {_number(point.computation)} {unit}, {point.cost.upload / 1e3:.1f} kB up, "
            f"{point.cost.download / 1e3:.1f} kB down, {point.latency * 1e3:.1f} ms, and retrieves "
            f"{point.share:.1%} of the look-ups. Clients keep an index of {self.client_bytes / 1e3:.0f} kB.",
            f"The {self.quality.name} is {point.quality:.4g}, and {self.quality.baseline:.4g} where nothing is dropped.",
        ]
        if self.reaches(point):
            lines.append(f"No cheaper design reaches the goal of {self.goal:.4g}.")
        else:
            lines.append(f"No design within the limits reaches the goal of {self.goal:.4g}: this one comes nearest.")
        without: dict[str, Callable[[Design], bool]] = {
            "a hot table": lambda design: design.hot_rows == 0,
            "collocation": lambda design: design.neighbours == 0,
            "either": lambda design: design.hot_rows == 0 and design.neighbours == 0,
        }
        lines += self._beside()
        for name, where in without.items():
            if where(point.design):
                continue
            other = self.cheapest(where)
            if other is None:
                lines.append(f"Without {name}: no design of the front reaches the goal.")
            else:
                times = other.computation / point.computation
                lines.append(f"Without {name}: {times:.1f} times the computation, with {other.design}.")
        return "\n".join(lines)

    def _beside(self) -> list[str]:
        """Returns lines for the designs of the front with a cost near that of the chosen one, ordered by computation."""

        def distance(point: Point) -> float:
            chosen = self.chosen
            spent = (point.computation / chosen.computation, point.cost.communication / chosen.cost.communication)
            return sum(abs(math.log(part)) for part in spent)

        others = sorted((point for point in self.front if point is not self.chosen), key=distance)[:BESIDE]
        if not others:
            return []
        lines = ["Designs of about the same cost:"]
        for point in sorted(others, key=lambda point: point.computation):
            lines.append(
                f"- {point.design}: {_number(point.computation)} {self.model.unit}, {point.cost.upload / 1e3:.1f} kB up, "
                f"{point.cost.download / 1e3:.1f} kB down, {point.latency * 1e3:.1f} ms, {point.share:.1%} of the look-ups, "
                f"{self.quality.name} {point.quality:.4g}."
            )
        return lines

    def plot(self, path: str | Path) -> None:
        """Draws the front. Needs matplotlib."""
        from .charts import draw_tuning

        draw_tuning(self, path)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def within(baseline: float, part: float, higher_is_better: bool) -> float:
    """Returns the quality that is worse than a baseline by the fraction `part`."""
    return baseline * (1 - part) if higher_is_better else baseline * (1 + part)


def pareto(points: Sequence[Point], higher_is_better: bool = True) -> list[Point]:
    """Returns the Pareto front, ordered by computation: no other point is at least as good in computation, communication,
    share and quality. Of equal points it has one."""
    sign = 1.0 if higher_is_better else -1.0
    of = [(p.computation, p.cost.communication, -p.share, -sign * (p.quality or 0.0)) for p in points]
    if not of:
        return []
    array = np.array(of)
    order = np.lexsort(array.T[::-1])
    kept: list[int] = []
    for i in order:
        beaten = kept and (array[kept] <= array[i]).all(axis=1).any()
        if not beaten:
            kept.append(int(i))
    return [points[i] for i in kept]


def tune(
    training: Traces | Planner,
    quality: Quality,
    embedding_bytes: int,
    *,
    limits: Limits = Limits(),
    model: CostModel | None = None,
    space: Space = Space(),
    goal: float | None = None,
    inferences: int = 200,
    judged: int = 48,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Tuning:
    """Searches designs for an embedding table.

    Designs are made from `training`. The share that each retrieves is measured on `inferences` of the quality's traces. The
    model itself judges at most `judged` designs of the Pareto front. `goal` is the wanted quality; the default is within 2% of
    the baseline. The chosen design is the one with the least computation that reaches the goal; if none does, the one with the
    best quality.

    Raises `ValueError` if no design keeps within the limits.
    """
    model = model or Spirea()
    planner = training if isinstance(training, Planner) else Planner(training, seed=seed)
    goal = within(quality.baseline, 0.02, quality.higher_is_better) if goal is None else goal
    sample = quality.traces.sample(inferences, seed)
    judge = _Judge(planner, model, limits, sample, embedding_bytes)
    judge.all(space.designs(planner.rows, model.binned), progress, "designs")
    if not judge.points:
        raise ValueError(
            f"no design keeps within {limits.communication} bytes and {limits.latency} seconds: the least "
            f"communication is {judge.least_communication} bytes, the least latency {judge.least_latency:.3g} seconds"
        )
    for factor in FACTORS:
        best = [point.design for point in _thinned(pareto(judge.points), judged)]
        near = (each for design in best for each in space.near(design, factor, planner.rows, model.binned))
        judge.all(near, progress, f"designs within {factor} times of the best")
    best = [point.design for point in _thinned(pareto(judge.points), judged // 2)]
    judge.all((each for design in best for each in space.twins(design)), progress, "designs with copies")
    front = _thinned(pareto(judge.points), judged)
    finished = []
    for done, point in enumerate(front):
        progress(f"model quality {done + 1} of {len(front)}")
        retrieval = retrieve(planner.tables(point.design), quality.traces)
        finished.append(replace(point, share=retrieval.share, quality=quality.of(retrieval.found)))
    front = pareto(finished, quality.higher_is_better)
    found = Tuning(model, quality, limits, goal, judge.points, front, front[0], judge.considered, judge.refused)
    sign = 1.0 if quality.higher_is_better else -1.0
    found.chosen = found.cheapest() or max(front, key=lambda point: sign * (point.quality or 0.0))
    tables = planner.tables(found.chosen.design)
    found.client_bytes = sum(table.client_bytes(found.chosen.design.placement) for table in tables)
    rates = getattr(model, "rates", None)
    found.seconds_by = f" ({rates.source})" if rates else ""
    planner.forget()
    return found


class _Judge:
    """Computes costs and shares of designs, once for each design."""

    def __init__(self, planner: Planner, model: CostModel, limits: Limits, sample: Traces, embedding_bytes: int):
        self.points: list[Point] = []
        self.considered = self.refused = 0
        self.least_communication, self.least_latency = float("inf"), float("inf")
        self._known: set[Design] = set()
        self._of = (planner, model, limits, sample, embedding_bytes)

    def all(self, designs: Iterable[Design], progress: Callable[[str], None], name: str) -> None:
        planner, model, limits, sample, embedding_bytes = self._of
        admitted = []
        for design in designs:
            if design in self._known:
                continue
            self._known.add(design)
            try:
                price = cost(model, design, planner.rows, embedding_bytes)
            except ValueError:
                # The design has more bins than rows.
                continue
            self.considered += 1
            self.least_communication = min(self.least_communication, price.communication)
            self.least_latency = min(self.least_latency, limits.latency_of(price))
            if limits.admit(price):
                admitted.append((design, price))
            else:
                self.refused += 1
        for done, (design, price) in enumerate(admitted):
            if done % 100 == 0:
                progress(f"{name} {done} of {len(admitted)}")
            share = retrieve(planner.tables(design), sample).share
            self.points.append(Point(design, price, model.computation(price), limits.latency_of(price), share))


def _thinned(front: list[Point], most: int) -> list[Point]:
    """Returns at most `most` points: the best share in each step of computation, and in each step of communication. Steps are
    even on a logarithmic scale."""
    if len(front) <= most:
        return front
    best: dict[tuple[int, int], Point] = {}
    axes: list[list[float]] = [[point.computation for point in front], [point.cost.communication for point in front]]
    for axis, spent in enumerate(axes):
        logs = [math.log(each) for each in spent]
        least, step = min(logs), (max(logs) - min(logs)) / (most // 2) or 1.0
        for point, log in zip(front, logs):
            place = (axis, min(int((log - least) / step), most // 2 - 1))
            if place not in best or point.share > best[place].share:
                best[place] = point
    kept = {point.design for point in best.values()}
    return [point for point in front if point.design in kept]
