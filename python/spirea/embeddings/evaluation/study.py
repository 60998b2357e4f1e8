"""Trains the models, and searches designs for each with every technique alone and with all of them."""

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
# Not the paper's, whose hot table is asked in addition to the full one: what is not hot is never retrieved.
ALONE = "hot table alone"
OURS_ALONE = "hot table alone (this package)"
BINS = (1, 4, 16, 64, 256)


@dataclass(frozen=True)
class Size:
    """How large an evaluation is."""

    words: int
    """Of the synthetic text."""
    users: int
    """Of the synthetic recommenders, and the most examples of the published ones."""
    steps: int
    """Of the language model's training."""
    epochs: int
    tested: int
    """Inferences that quality is measured by."""
    inferences: int
    """Inferences that designs are searched by."""
    judged: int
    """Designs of each technique whose quality is measured."""
    neighbours: tuple[int, ...] = (0, 1, 3, 7)
    part: int = 1
    """Tables are so many times smaller than the published ones."""


DEFAULT = Size(words=800_000, users=120_000, steps=600, epochs=2, tested=2000, inferences=150, judged=32)
SHORT = Size(words=20_000, users=1500, steps=20, epochs=1, tested=100, inferences=10, judged=4, neighbours=(0, 1), part=50)


def techniques(size: Size) -> dict[str, Space]:
    """What is searched under each technique. Those of the paper have their rows in an order drawn at random, so that
    bins of a table that is sorted by frequency do not collide more than they must."""
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


# What a technique's designs include besides its own.
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
    """What came of one data set and its model."""

    name: str
    source: Source
    about: str
    rows: int
    entry_bytes: int
    look_ups: float
    """The mean of an inference."""
    quality: str
    higher_is_better: bool
    baseline: float
    """Where nothing is dropped."""
    floor: float
    """Where everything is."""
    points: dict[str, list[Point]]
    """The designs of each technique whose quality was measured."""
    seconds: float
    """Of a processor: training, searching and judging."""
    _costs: dict[tuple[CostModel, Design], Cost] = field(default_factory=dict, repr=False, compare=False)

    @property
    def label(self) -> str:
        return f"{self.name} ({self.source.value})"

    @property
    def goal(self) -> float:
        """Within 2% of the baseline, as in the paper."""
        return within(self.baseline, 0.02, self.higher_is_better)

    def kept(self, quality: float) -> float:
        """How much of what look-ups bring the model at all a quality has: 1 of the baseline, 0 of the floor; all of it
        where they bring nothing."""
        brought = self.baseline - self.floor
        return (quality - self.floor) / brought if brought else 1.0

    def as_good(self, quality: float | None, goal: float) -> bool:
        return quality is not None and (quality >= goal if self.higher_is_better else quality <= goal)

    def priced(self, technique: str, model: CostModel) -> list[tuple[Point, Cost]]:
        """A technique's designs with their costs in a scheme."""
        names = (*INCLUDES[technique], technique)
        return [(point, self.cost(point, model)) for name in names for point in self.points[name]]

    def cost(self, point: Point, model: CostModel) -> Cost:
        """What a design costs in a scheme, computed once for each object that is one."""
        key = (model, point.design)
        if key not in self._costs:
            self._costs[key] = cost(model, point.design, self.rows, self.entry_bytes)
        return self._costs[key]

    def cheapest(self, technique: str, model: CostModel, goal: float, limits: Limits) -> tuple[Point, Cost] | None:
        """The least computation that reaches a quality within limits."""
        good = [
            (point, spent)
            for point, spent in self.priced(technique, model)
            if self.as_good(point.quality, goal) and limits.admit(spent)
        ]
        return min(good, key=lambda each: (model.computation(each[1]), each[1].communication), default=None)

    def equal_goal(self, model: CostModel, limits: Limits) -> float:
        """The goal, or what is nearest to it of all that plain batch retrieval reaches within the limits."""
        reached = [
            point.quality for point, spent in self.priced(PLAIN, model) if point.quality is not None and limits.admit(spent)
        ]
        if not reached or any(self.as_good(quality, self.goal) for quality in reached):
            return self.goal
        return max(reached) if self.higher_is_better else min(reached)


WINDOW = 32
# Inferences whose look-ups designs are made from, and those of which pairs are counted.
TRACED, PAIRED_INFERENCES = 20_000, 3000


def study_text(text: Text, size: Size, seed: int, progress: Progress) -> Study:
    """A language model whose inference is a window of 32 words."""
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
    """A recommender whose inference is one offer, and looks up the user's history."""
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
        # By the calls of GPU-DPF's scheme, which other schemes' work grows with; latency is looked at for each scheme.
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
    """Studies of data sets, each loaded when its turn comes."""
    studies = []
    for load in data:
        loaded = load()
        if isinstance(loaded, Text):
            studies.append(study_text(loaded, size, seed, progress))
        else:
            studies.append(study_interactions(loaded, size, seed, progress))
    return studies
