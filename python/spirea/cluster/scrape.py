"""Merges the metrics of many programs into one page: each sample gets the labels of its program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (.+)")
_SUFFIXES = ("_bucket", "_sum", "_count")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def merged(pages: Iterable[tuple[Mapping[str, str], str]]) -> str:
    """Merges pages in Prometheus' text format: the samples of a metric are grouped below one HELP and one TYPE.

    A page's label with the name of an added label is renamed to `exported_` and its name, as Prometheus does.
    """
    heads: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for labels, page in pages:
        histograms = set()
        for line in page.splitlines():
            words = line.split(" ", 3)
            if line.startswith("# ") and len(words) >= 4 and words[1] in ("HELP", "TYPE"):
                heads.setdefault(words[2], {}).setdefault(words[1], line)
                if words[1] == "TYPE" and words[3] in ("histogram", "summary"):
                    histograms.add(words[2])
            elif (match := _SAMPLE.fullmatch(line)) is not None:
                name, own, rest = match[1], match[2] or "", match[3]
                for label in labels:
                    own = re.sub(rf"(^|,){label}=", rf"\1exported_{label}=", own)
                added = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
                all_labels = ",".join(filter(None, [own.rstrip(","), added]))
                family = next((name.removesuffix(end) for end in _SUFFIXES if name.removesuffix(end) in histograms), name)
                samples.setdefault(family, []).append(f"{name}{{{all_labels}}} {rest}" if all_labels else f"{name} {rest}")
    lines = []
    for family, said in sorted(samples.items()):
        lines += [head for _, head in sorted(heads.get(family, {}).items())] + said
    return "".join(f"{line}\n" for line in lines)


def gauge(name: str, help: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> str:
    """Returns a page with one metric."""
    lines = [f"# HELP {name} {help}", f"# TYPE {name} gauge"]
    for labels, value in samples:
        said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{said}}} {value:g}" if said else f"{name} {value:g}")
    return "".join(f"{line}\n" for line in lines)
