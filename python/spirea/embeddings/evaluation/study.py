"""Trains the models, and searches designs for each model, with every technique alone and with all techniques."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..collocation import Collocation
from ..costs import Cost, CostModel, GpuDpf, cost
from ..layout import Design, Placement, Planner
from ..quality import Quality
from ..traces import Traces
from ..tuner import Limits, Point, Space, tune, within
from .data import Interactions, Source, Text
from .language import LanguageModel, Perplexity
from .recommending import AreaUnderCurve, Recommender

Progress = Callable[[str], None]

PLAIN = "plain batch retrieval"
HOT = "hot table (paper)"
COLLOCATION = "collocation (paper)"
CODESIGN = "co-design (paper)"
OURS = "co-design (this package)"
# Differs from the paper, whose hot table is asked in addition to the full one: here rows outside the hot table are never
# retrieved.
ALONE = "hot table alone"
OURS_ALONE = "hot table alone (this package)"
BINS = (1, 4, 16, 64, 256)


@dataclass(frozen=True)
class Size:
    """Size of an evaluation."""

    words: int
    """Words of the synthetic text."""
    users: int
    """Users of the synthetic recommenders, and most examples of the published data."""
    steps: int
    """Training steps of the language model."""
    epochs: int
    tested: int
    """Inferences for measuring quality."""
    inferences: int
    """Inferences for searching designs."""
    judged: int
    """Designs of each technique whose quality is measured."""
    neighbours: tuple[int, ...] = (0, 1, 3, 7)
    part: int = 1
    """Factor by which synthetic tables are smaller than the published ones."""


DEFAULT = Size(words=800_000, users=120_000, steps=600, epochs=2, tested=2000, inferences=150, judged=32)
SHORT = Size(words=20_000, users=1500, steps=20, epochs=1, tested=100, inferences=10, judged=4, neighbours=(0, 1), part=50)


def techniques(size: Size) -> dict[str, Space]:
    """Returns the search space of each technique.

    The paper's techniques get their rows in random order. Otherwise frequent rows of a table that is sorted by frequency would
    collide in the same bins.
    """
    ours = Space(bins=BINS, passes=(1,), neighbours=size.neighbours, full=(True,))
    paper = replace(ours, collocations=(Collocation.COPIES,), placement=Placement.SHUFFLED)
    return {
        PLAIN: replace(paper, hot_parts=(), neighbours=(0,)),
        HOT: replace(paper, neighbours=(0,)),
        COLLOCATION: replace(paper, hot_parts=()),
        CODESIGN: paper,
        OURS: ours,
        ALONE: replace(paper, neighbours=(0,), full=(False,)),
        OURS_ALONE: replace(ours, full=(False,)),
    }


# Techniques whose designs a technique includes besides its own.
INCLUDES: dict[str, tuple[str, ...]] = {
    PLAIN: (),
    HOT: (PLAIN,),
    COLLOCATION: (PLAIN,),
    CODESIGN: (PLAIN, HOT, COLLOCATION),
    OURS: (PLAIN, HOT, COLLOCATION, CODESIGN),
    ALONE: (),
    OURS_ALONE: (ALONE,),
}


@dataclass(frozen=True)
class Study:
    """Results for one data set and its model."""

    name: str
    source: Source
    about: str
    rows: int
    entry_bytes: int
    look_ups: float
    """Mean number of look-ups of an inference."""
    quality: str
    higher_is_better: bool
    baseline: float
    """Quality with nothing dropped."""
    floor: float
    """Quality with everything dropped."""
    points: dict[str, list[Point]]
    """Designs of each technique whose quality was measured."""
    seconds: float
    """Processor time of training, searching and judging."""
    _costs: dict[tuple[CostModel, Design], Cost] = field(default_factory=dict, repr=False, compare=False)

    @property
    def label(self) -> str:
        return f"{self.name} ({self.source.value})"

    @property
    def goal(self) -> float:
        """Quality goal: within 2% of the baseline, as in the paper."""
        return within(self.baseline, 0.02, self.higher_is_better)

    def kept(self, quality: float) -> float:
        """Returns the part of the look-ups' benefit that a quality keeps: 1 for the baseline, 0 for the floor. If look-ups
        have no benefit, the result is 1."""
        brought = self.baseline - self.floor
        return (quality - self.floor) / brought if brought else 1.0

    def as_good(self, quality: float | None, goal: float) -> bool:
        return quality is not None and (quality >= goal if self.higher_is_better else quality <= goal)

    def priced(self, technique: str, model: CostModel) -> list[tuple[Point, Cost]]:
        """Returns a technique's designs with their costs in a scheme."""
        names = (*INCLUDES[technique], technique)
        return [(point, self.cost(point, model)) for name in names for point in self.points[name]]

    def cost(self, point: Point, model: CostModel) -> Cost:
        """Returns the cost of a design in a scheme, cached by model object and design."""
        key = (model, point.design)
        if key not in self._costs:
            self._costs[key] = cost(model, point.design, self.rows, self.entry_bytes)
        return self._costs[key]

    def cheapest(self, technique: str, model: CostModel, goal: float, limits: Limits) -> tuple[Point, Cost] | None:
        """Returns the design with the least computation that reaches a quality within limits."""
        good = [
            (point, spent)
            for point, spent in self.priced(technique, model)
            if self.as_good(point.quality, goal) and limits.admit(spent)
        ]
        return min(good, key=lambda each: (model.computation(each[1]), each[1].communication), default=None)

    def equal_goal(self, model: CostModel, limits: Limits) -> float:
        """Returns the goal if plain batch retrieval reaches it within the limits, else the nearest quality that it reaches."""
        reached = [
            point.quality for point, spent in self.priced(PLAIN, model) if point.quality is not None and limits.admit(spent)
        ]
        if not reached or any(self.as_good(quality, self.goal) for quality in reached):
            return self.goal
        return max(reached) if self.higher_is_better else min(reached)


WINDOW = 32
# Inferences from whose look-ups designs are made, and inferences in which pairs are counted.
TRACED, PAIRED_INFERENCES = 20_000, 3000


def study_text(text: Text, size: Size, seed: int, progress: Progress) -> Study:
    """Studies a language model; an inference is a window of 32 words."""
    started = time.process_time()
    model = LanguageModel(text.rows, dim=128, hidden=64, outputs=1000, seed=seed)
    say = _under(text.label, progress)
    model.train(text, window=WINDOW, steps=size.steps, batch=32, rate=1e-2, seed=seed, progress=say)
    windows = text.windows(text.testing, WINDOW, max(size.tested // 8, 16), seed)
    quality = Perplexity(model, windows)
    training = text.windows(text.training, WINDOW, TRACED, seed)[:, :-1]
    traces = Traces.of(text.rows, list(training))
    return _study(text, traces, quality, 128 * 4, size, seed, say, started)


def study_interactions(data: Interactions, size: Size, seed: int, progress: Progress) -> Study:
    """Studies a recommender; an inference is one offer, and looks up the user's history."""
    started = time.process_time()
    model = Recommender(data.rows, data.training.features.shape[1], seed=seed)
    model.table.rate = 0.05 if data.training.features.shape[1] == 0 else 0.03
    say = _under(data.label, progress)
    model.train(data.training, epochs=size.epochs, seed=seed, progress=say)
    count = min(size.tested, len(data.testing))
    quality = AreaUnderCurve(model, data.testing.take(_spread(len(data.testing), count)))
    training = data.training.history.sample(TRACED, seed)
    return _study(data, training, quality, 32 * 4, size, seed, say, started)


def _spread(of: int, count: int) -> list[int]:
    return [place * of // count for place in range(count)]


def _study(
    data: Text | Interactions,
    training: Traces,
    quality: Quality,
    entry_bytes: int,
    size: Size,
    seed: int,
    progress: Progress,
    started: float,
) -> Study:
    planner = Planner(training, most_neighbours=max(size.neighbours), pair_inferences=PAIRED_INFERENCES, seed=seed)
    points: dict[str, list[Point]] = {}
    for name, space in techniques(size).items():
        # Searches by the PRF calls of GPU-DPF's scheme; the work of other schemes grows with them. Limits of latency are
        # applied later, for each scheme.
        found = tune(
            planner,
            quality,
            entry_bytes,
            model=GpuDpf(),
            space=space,
            limits=Limits(latency=float("inf")),
            inferences=size.inferences,
            judged=size.judged,
            seed=seed,
        )
        points[name] = found.front
        progress(f"{name}: {found.considered} designs, {len(found.front)} on the front")
    return Study(
        data.name,
        data.source,
        data.about,
        data.rows,
        entry_bytes,
        float(quality.traces.lengths().mean()),
        quality.name,
        quality.higher_is_better,
        quality.baseline,
        quality.of(np.zeros(len(quality.traces.values), bool)),
        points,
        time.process_time() - started,
    )


def _under(label: str, progress: Progress) -> Progress:
    return lambda said: progress(f"{label}: {said}")


def study_all(data: Sequence[Callable[[], Text | Interactions]], size: Size, seed: int, progress: Progress) -> list[Study]:
    """Studies data sets one after another; loads each when its turn comes."""
    studies = []
    for load in data:
        loaded = load()
        if isinstance(loaded, Text):
            studies.append(study_text(loaded, size, seed, progress))
        else:
            studies.append(study_interactions(loaded, size, seed, progress))
    return studies
