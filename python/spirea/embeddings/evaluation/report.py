"""Tables in the form of the paper's tables II, III and V, the gain of each technique, and all results as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..costs import TABLE_FIVE, Cost, CostModel, GpuDpf, Spirea
from ..tuner import Limits, Point
from .figures import LIMITS, PAPER
from .measured import Measured
from .study import ALONE, CODESIGN, OURS, OURS_ALONE, PAIRED_INFERENCES, PLAIN, TRACED, Study

# Results of the paper's table II: quality, kB, ms, inferences per second.
PUBLISHED = {
    ("Language model", "CPU, plain"): "92 ppl, 239 kB, 62 ms, 5.7 q/s",
    ("Language model", "V100, co-design"): "92 ppl, 425 kB, 8 ms, 1,230 q/s",
    ("MovieLens", "CPU, plain"): ".785 AUC, 154 kB, 30.6 ms, 44 q/s",
    ("MovieLens", "V100, co-design"): ".785 AUC, 52 kB, 82.4 ms, 4,200 q/s",
    ("Taobao", "CPU, plain"): ".595 AUC, 2.8 kB, 160 ms, 8,000 q/s",
    ("Taobao", "V100, co-design"): ".595 AUC, 5.4 kB, 150 ms, 256,000 q/s",
}
# Names of data sets in the paper's table, where they differ from ours.
NAMES = {"WikiText-2": "Language model", "MovieLens-20M": "MovieLens"}
# On the CPU only communication is limited: its time for an inference of the paper's tables exceeds the limit of latency.
CPU_LIMITS = Limits(LIMITS.communication, float("inf"))


def markdown(studies: Sequence[Study], ours: Spirea, measured: Sequence[Measured], seed: int, size: str) -> str:
    """Returns the report in Markdown."""
    parts = [
        "# Private embeddings: the designs of GPU-DPF, searched again",
        f"`spirea-embeddings reproduce --seed {seed} --size {size}`. The paper is GPU-DPF (arXiv 2301.10904), section V. "
        "SYNTHETIC data has the published sizes of tables; all else in it is generated. Compare only the shapes of its curves "
        "with the paper's, not its values of quality. Times of a V100 and of the paper's CPU are computed from the paper's "
        "tables III and V, so their quotient is a quotient of two published constants. papers/gpu-dpf.toml has the paper's "
        f"claims beside these results. Times of this package are predicted from its planner's rates ({ours.rates.source}).",
        _data(studies),
        _table_two(studies, ours),
        _techniques(studies, ours),
        _keys(),
        *([_measured(ours, measured)] if measured else []),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _data(studies: Sequence[Study]) -> str:
    head = (
        "data",
        "what it is",
        "rows",
        "entry",
        "look-ups of an inference",
        "quality, nothing dropped",
        "all dropped",
        "within 2%",
        "seconds",
    )
    rows = [
        (
            study.label,
            study.about,
            f"{study.rows:,}",
            f"{study.entry_bytes} B",
            f"{study.look_ups:.1f}",
            f"{study.baseline:.4g} {study.quality}",
            f"{study.floor:.4g}",
            f"{study.goal:.4g}",
            f"{study.seconds:.0f}",
        )
        for study in studies
    ]
    said = (
        "## Data and models\n\nIf there is more data than training needs, models are trained on a part of the data. Designs "
        f"are made from the look-ups of {TRACED:,} inferences, and groups of embeddings from co-occurrence in "
        f"{PAIRED_INFERENCES:,} of these inferences. If the quality with all look-ups dropped is near the quality with none "
        "dropped, equal quality is a lenient criterion. A table below therefore also shows the part of this difference that "
        f"each design keeps. Training, searching and evaluating took {sum(each.seconds for each in studies):.0f} seconds of "
        "processor time in all.\n\n"
    )
    return said + _table(head, rows)


def _table_two(studies: Sequence[Study], ours: Spirea) -> str:
    cpu, gpu = GpuDpf("aes-128", "CPU"), GpuDpf("salsa20")
    head = ("data", "method", "quality", "communication", "server time", "inferences a second", "times", "the paper has")
    rows = []
    for study in studies:
        goal = study.equal_goal(gpu, LIMITS)
        methods: list[tuple[str, str, CostModel, Limits]] = [
            ("CPU, plain", PLAIN, cpu, CPU_LIMITS),
            ("V100, plain", PLAIN, gpu, LIMITS),
            ("V100, co-design", CODESIGN, gpu, LIMITS),
            ("V100, hot table alone", ALONE, gpu, LIMITS),
            (f"{ours.name}, a core, plain", PLAIN, ours, LIMITS),
            (f"{ours.name}, a core, co-design", OURS, ours, LIMITS),
            (f"{ours.name}, a core, hot table alone", OURS_ALONE, ours, LIMITS),
        ]
        slowest = None
        for method, technique, model, limits in methods:
            found = study.cheapest(technique, model, goal, limits)
            published = PUBLISHED.get((NAMES.get(study.name, study.name), method), "")
            if found is None:
                rows.append((study.label, method, "not reached within the limits", "", "", "", "", published))
                continue
            point, spent = found
            slowest = slowest or spent.server_seconds
            rows.append(
                (
                    study.label,
                    method,
                    f"{point.quality:.4g} {study.quality}",
                    f"{spent.communication / 1e3:.1f} kB",
                    f"{spent.server_seconds * 1e3:.3g} ms",
                    f"{1 / spent.server_seconds:,.0f}",
                    f"{slowest / spent.server_seconds:,.0f}",
                    published,
                )
            )
    said = (
        "## In the form of table II\n\nThe table shows the designs with the least computation whose quality is within 2% of "
        "the baseline, or is the best that plain retrieval reaches. An inference takes at most 300 kB and, except on the "
        "paper's CPU, at most 100 ms. Server time is the time of a server divided by its inferences; a V100 answers 512 "
        "queries at once, so its latency is longer. On the CPU, the paper makes one query for each look-up and uses no "
        "bins.\n\n"
    )
    return said + _table(head, rows)


def _techniques(studies: Sequence[Study], ours: Spirea) -> str:
    head = (
        "data",
        "technique",
        "design",
        "retrieved",
        "quality",
        "kept of what look-ups bring",
        "PRF calls (GPU-DPF)",
        "times less",
        "of the server",
        "times less",
        "communication",
    )
    rows: list[tuple[str, ...]] = []
    for study in studies:
        goal = study.equal_goal(PAPER, LIMITS)
        plain = study.cheapest(PLAIN, PAPER, goal, LIMITS)
        for technique in study.points:
            found = study.cheapest(technique, PAPER, goal, LIMITS)
            if plain is None or found is None:
                rows.append((study.label, technique, "not reached within the limits", *[""] * (len(head) - 3)))
            else:
                rows.append(_line(study, technique, found, plain, ours))
    said = (
        "## What each technique gives\n\nThe table compares each technique with plain batch retrieval (one query for each "
        "bin), at equal quality and within the same limits. A pass over the full table costs one call of the pseudorandom "
        "function for each node of its trees, for any number of bins. Plain retrieval makes one such pass, so other designs "
        "that make one save few calls, unless a row holds several embeddings. The paper's hot table is queried in addition "
        "to the full table. A hot table alone is not a technique of the paper: rows outside the hot table are never "
        "retrieved, and the model's quality is measured without them.\n\n"
    )
    return said + _table(head, rows)


def _line(study: Study, name: str, found: tuple[Point, Cost], plain: tuple[Point, Cost], ours: Spirea) -> tuple[str, ...]:
    point, spent = found

    def seconds(of: Point) -> float:
        return study.cost(of, ours).server_seconds

    assert point.quality is not None
    return (
        study.label,
        name,
        str(point.design),
        f"{point.share:.1%}",
        f"{point.quality:.4g}",
        f"{study.kept(point.quality):.0%}",
        f"{spent.prf_calls:,}",
        f"{plain[1].prf_calls / spent.prf_calls:.1f}",
        f"{seconds(point) * 1e3:.3g} ms",
        f"{seconds(plain[0]) / seconds(point):.1f}",
        f"{spent.communication / 1e3:.0f} kB",
    )


def _keys() -> str:
    xor, total = Spirea("dpf-xor"), Spirea("dpf-sum")
    rows = [
        (
            name,
            f"{PAPER.key_bytes(1 << log):,} B",
            f"{xor.key_bytes(1 << log):,} B",
            f"{total.key_bytes(1 << log):,} B",
            f"{PAPER.key_calls(1 << log):,}",
            f"{xor.key_calls(1 << log):,}",
            f"{total.key_calls(1 << log):,}",
        )
        for name, log in (("16K", 14), ("64K", 16), ("1M", 20), ("4M", 22))
    ]
    head = ("rows", "key of GPU-DPF", "dpf-xor", "dpf-sum", "calls of GPU-DPF", "dpf-xor", "dpf-sum")
    prfs = [
        (name, f"{queries:,}", f"{milliseconds:.3g} ms", f"{1e3 * 512 / queries:,.0f} ms")
        for name, (queries, milliseconds) in TABLE_FIVE.items()
    ]
    return (
        "## Keys, in the form of table III\n\nThe table shows the bytes of a key for one server, and the calls of the "
        "pseudorandom function that compute the shares of all rows. GPU-DPF's bytes are those of the paper's table III.\n\n"
        + _table(head, rows)
        + "\n\n## Functions, as published in table V\n\nThe rates are of a V100 for 2^20 rows and 512 "
        "queries at once. `GpuDpf(prf)` computes a design's cost for any of these functions, from the published queries a "
        "second. The last column is the time of 512 queries at this rate; the published latency is longer.\n\n"
        + _table(("function", "queries a second, published", "latency, published", "512 queries, computed"), prfs)
    )


def _measured(ours: Spirea, measured: Sequence[Measured]) -> str:
    said = f"## Predicted and measured\n\n`{ours.name}` on this machine, one server, one thread, one pass.\n\n"
    return said + "\n".join(f"- {each}" for each in measured)


def as_json(studies: Sequence[Study], ours: Spirea, measured: Sequence[Measured], seed: int) -> dict[str, Any]:
    """Returns all data of the figures, for JSON."""
    return {
        "seed": seed,
        "rates": ours.rates.source,
        "measured": [dataclasses.asdict(each) for each in measured],
        "studies": [
            {
                "data": study.label,
                "about": study.about,
                "rows": study.rows,
                "entry_bytes": study.entry_bytes,
                "quality": study.quality,
                "baseline": study.baseline,
                "floor": study.floor,
                "points": {name: [_point(study, point, ours) for point in points] for name, points in study.points.items()},
            }
            for study in studies
        ],
    }


def _point(study: Study, point: Point, ours: Spirea) -> dict[str, Any]:
    spent = study.cost(point, ours)
    return {
        "design": str(point.design),
        "share": point.share,
        "quality": point.quality,
        "gpu_dpf": {"prf_calls": point.cost.prf_calls, "bytes": point.cost.communication},
        ours.name: {"prf_calls": spent.prf_calls, "bytes": spent.communication, "server_seconds": spent.server_seconds},
    }
