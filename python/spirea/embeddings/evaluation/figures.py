"""Figures in the form of the paper's figures 12 to 15."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..charts import figure, save, steps
from ..costs import Cost, GpuDpf
from ..tuner import Limits, Point
from .study import PLAIN, Study

# Limits of communication and latency in the paper's section V.
LIMITS = Limits(300_000, 0.1)
COMMUNICATION_ALONE = Limits(300_000, float("inf"))
NONE = Limits(1 << 62, float("inf"))
# GPU-DPF's scheme; its PRF calls are the computation by which designs are searched.
PAPER = GpuDpf()
# The paper's limit of PRF calls, and its limit for Taobao.
CALLS, CALLS_OF_TAOBAO = 100_000, 5_000_000

Axis = Callable[[Cost], float]


def calls_limit(study: Study) -> int:
    """Returns the paper's limit of PRF calls, doubled until a plain design keeps within it."""
    limit = CALLS_OF_TAOBAO if study.name == "Taobao" else CALLS
    least = min(spent.prf_calls for _, spent in study.priced(PLAIN, PAPER))
    while limit < least:
        limit *= 2
    return limit


def draw(studies: Sequence[Study], folder: Path, suffix: str = "svg") -> list[Path]:
    """Draws the four figures and returns their files."""
    gpu = GpuDpf("salsa20")

    def at_most_communication(_: Study, __: Point, spent: Cost) -> bool:
        return COMMUNICATION_ALONE.admit(spent)

    def at_most_calls(study: Study, _: Point, spent: Cost) -> bool:
        return spent.prf_calls <= calls_limit(study)

    def good(study: Study, point: Point, _: Cost) -> bool:
        return study.as_good(point.quality, study.goal)

    drawn = [
        _quality(
            "12",
            "Quality against computation, at most 300 kB an inference",
            studies,
            lambda c: c.prf_calls,
            "PRF calls of an inference",
            at_most_communication,
        ),
        _quality(
            "13",
            "Quality against communication, within the limit of PRF calls",
            studies,
            lambda c: c.communication / 1e3,
            "communication of an inference (kB)",
            at_most_calls,
        ),
        _communication(studies, good),
        _quality(
            "15",
            "Quality against throughput on a V100 by the paper's figures: at most 300 kB, 100 ms",
            studies,
            lambda c: 1 / c.server_seconds,
            "inferences a second",
            lambda _, __, spent: LIMITS.admit(spent),
            gpu,
        ),
    ]
    paths = []
    for number, picture in zip((12, 13, 14, 15), drawn):
        path = folder / f"figure{number}.{suffix}"
        save(picture, path)
        paths.append(path)
    return paths


def _panels(studies: Sequence[Study], number: str, title: str) -> tuple[Any, Any]:
    picture, (panels,) = figure(len(studies), 3.4)
    picture.suptitle(f"As figure {number} of the paper. {title}", fontsize=10)
    for panel, study in zip(panels, studies):
        panel.set_title(study.label, fontsize=9)
    return picture, panels


def _quality(
    number: str,
    title: str,
    studies: Sequence[Study],
    axis: Axis,
    label: str,
    where: Callable[[Study, Point, Cost], bool],
    model: GpuDpf = PAPER,
) -> Any:
    picture, panels = _panels(studies, number, title)
    for panel, study in zip(panels, studies):
        series = {
            name: [
                (axis(spent), point.quality or 0.0) for point, spent in study.priced(name, model) if where(study, point, spent)
            ]
            for name in study.points
        }
        steps(panel, series, study.higher_is_better, more_is_better=number == "15")
        panel.axhline(study.baseline, color="teal", linewidth=1, label="nothing dropped")
        panel.set_xlabel(label, fontsize=8)
        panel.set_ylabel(f"{study.quality} ({'higher' if study.higher_is_better else 'lower'} is better)", fontsize=8)
    panels[0].legend(fontsize=6)
    return picture


def _communication(studies: Sequence[Study], where: Callable[[Study, Point, Cost], bool]) -> Any:
    picture, panels = _panels(studies, "14", "Communication against computation, quality within 2% of the baseline")
    for panel, study in zip(panels, studies):
        series = {
            name: [
                (float(spent.prf_calls), spent.communication / 1e3)
                for point, spent in study.priced(name, PAPER)
                if where(study, point, spent)
            ]
            for name in study.points
        }
        steps(panel, series, higher_is_better=False)
        panel.set_yscale("log")
        panel.set_xlabel("PRF calls of an inference", fontsize=8)
        panel.set_ylabel("communication of an inference (kB)", fontsize=8)
    panels[0].legend(fontsize=6)
    return picture
