"""Merges the metrics of many programs into one page: each sample gets the labels of its program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*"
# Names that begin with two underscores are reserved for Prometheus.
_LABEL = re.compile(r'((?!__)[A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\\0]|\\[\\"n])*)",?')
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? ((?:{_NUMBER}|[+-]?(?i:inf)|(?i:nan))(?: -?[0-9]{{1,18}})?)")
_HEAD = re.compile(rf"# (?:(HELP) ({_NAME}) [^\0]*|(TYPE) ({_NAME}) (counter|gauge|histogram|summary|untyped))")
_SUFFIXES = ("_bucket", "_sum", "_count")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _labels(text: str) -> dict[str, str] | None:
    """Parses the labels of a sample; values stay escaped. Returns `None` if they are malformed or a name repeats."""
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        # Labels are separated by commas; the last one may have a comma as well.
        if match is None or match[1] in labels or not (match[0].endswith(",") or match.end() == len(text)):
            return None
        labels[match[1]], at = match[2], match.end()
    return labels


def _renamed(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Adds labels to a sample's own ones, which are renamed if the names are equal."""
    labels: dict[str, str] = {}
    for name, value in own.items():
        if name in added:
            name = f"exported_{name}"
            while name in own or name in added:
                name = f"exported_{name}"
        labels[name] = value
    return labels | {name: _escaped(value) for name, value in added.items()}


def merged(pages: Iterable[tuple[Mapping[str, str], str]]) -> str:
    """Merges pages in Prometheus' text format: the samples of a metric are grouped below one HELP and one TYPE.

    A page's label with the name of an added label is renamed to `exported_` and its name, as Prometheus does. Malformed lines
    are omitted, because Prometheus would refuse the metrics of all programs for one such line.
    """
    heads: dict[str, dict[str, str]] = {}
    samples: dict[str, list[str]] = {}
    for added, page in pages:
        histograms = set()
        # Only a line feed ends a line: a value may have the other characters at which `splitlines` splits.
        for line in page.split("\n"):
            if (head := _HEAD.fullmatch(line)) is not None:
                name = head[2] or head[4]
                heads.setdefault(name, {}).setdefault(head[1] or head[3], line)
                if head[5] in ("histogram", "summary"):
                    histograms.add(name)
            elif (match := _SAMPLE.fullmatch(line)) is not None and (own := _labels(match[2] or "")) is not None:
                name, rest = match[1], match[3]
                labels = ",".join(f'{label}="{value}"' for label, value in _renamed(own, added).items())
                family = next((name.removesuffix(end) for end in _SUFFIXES if name.removesuffix(end) in histograms), name)
                samples.setdefault(family, []).append(f"{name}{{{labels}}} {rest}" if labels else f"{name} {rest}")
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
