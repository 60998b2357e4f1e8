"""Charts. They need matplotlib, which is installed with `spirea[embeddings]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tuner import Point, Tuning


def figure(columns: int, height: float = 3.6) -> Any:
    """Makes a figure with panels side by side, without opening a window."""
    import matplotlib

    matplotlib.use("Agg")
    # Makes files reproducible: text stays text, and ids in the file are derived from its content.
    matplotlib.rcParams.update({"svg.hashsalt": "spirea", "svg.fonttype": "none"})
    from matplotlib import pyplot

    return pyplot.subplots(1, columns, figsize=(4.6 * columns, height), squeeze=False, layout="constrained")


def save(drawn: Any, path: str | Path) -> None:
    """Writes a figure to a file and closes it."""
    from matplotlib import pyplot

    drawn.savefig(path, dpi=130, metadata={"Date": None} if str(path).endswith(".svg") else None)
    pyplot.close(drawn)


def steps(
    panel: Any, series: Mapping[str, Sequence[tuple[float, float]]], higher_is_better: bool, more_is_better: bool = False
) -> None:
    """Draws each series of (cost, quality) as steps: the best quality for at most this cost, or for at least this value with
    `more_is_better`. Lines have different widths, the first the widest, so that coinciding series remain visible."""
    styles = ("s-", "o-", "^-", "D-", "v-", "P-", "X-")
    for place, ((name, points), style) in enumerate(zip(series.items(), styles, strict=True)):
        best: list[tuple[float, float]] = []
        signs = (-1 if more_is_better else 1, -1 if higher_is_better else 1)
        for spent, quality in sorted(points, key=lambda point: (signs[0] * point[0], signs[1] * point[1])):
            if not best or (quality > best[-1][1] if higher_is_better else quality < best[-1][1]):
                best.append((spent, quality))
        if best:
            behind = len(styles) - place
            panel.plot(
                *zip(*best),
                style,
                color=f"C{place}",
                label=name,
                markersize=2 + behind,
                markerfacecolor="none",
                linewidth=0.5 + 0.6 * behind,
                alpha=0.8,
                drawstyle="steps-post",
            )
    panel.set_xscale("log")
    panel.grid(True, which="major", alpha=0.3)


def draw_tuning(tuning: Tuning, path: str | Path) -> None:
    """Draws a search: quality against computation and against communication, with the front and the choice."""
    drawn, ((left, right),) = figure(2)
    quality = tuning.quality
    axes: list[tuple[Any, Callable[[Point], float], str]] = [
        (left, lambda point: point.computation, f"computation of an inference ({tuning.model.unit})"),
        (right, lambda point: point.cost.communication / 1e3, "communication of an inference (kB)"),
    ]
    for panel, of, label in axes:
        spent = [of(point) for point in tuning.front]
        colours = panel.scatter(
            spent, [point.quality for point in tuning.front], c=[point.share for point in tuning.front], s=22, zorder=3
        )
        panel.axhline(quality.baseline, color="teal", linewidth=1, label="nothing dropped")
        panel.axhline(tuning.goal, color="grey", linewidth=1, linestyle=":", label="goal")
        chosen: Point = tuning.chosen
        panel.scatter([of(chosen)], [chosen.quality], marker="*", s=170, color="crimson", zorder=4, label="chosen")
        panel.set_xscale("log")
        panel.set_xlabel(label)
        panel.set_ylabel(f"{quality.name} ({'higher' if quality.higher_is_better else 'lower'} is better)")
        panel.grid(True, alpha=0.3)
    left.legend(fontsize=8, loc="best")
    drawn.colorbar(colours, ax=right, label="share of look-ups retrieved")
    drawn.suptitle(f"Designs that no other beats, by the costs of {tuning.model.name}", fontsize=10)
    save(drawn, path)
