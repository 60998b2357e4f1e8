"""Real text and real sequences of items from Python's standard library, which every installation has: words and names."""

from __future__ import annotations

import ast
import builtins
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..traces import Traces
from .data import Examples, Interactions, Source, Text, numbered

WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")
# Folders that some installations do not have.
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip"}
LONGEST = 50


def _files(root: Path) -> Iterator[Path]:
    """Yields the Python files below `root`. Skips `LEFT_OUT`: installed packages may be many times the standard library."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _sources(most_files: int | None) -> list[ast.Module]:
    parsed = []
    for path in sorted(_files(Path(sysconfig.get_paths()["stdlib"])))[:most_files]:
        try:
            parsed.append(ast.parse(path.read_text(encoding="utf-8")))
        except (SyntaxError, ValueError):
            # Some files are examples of invalid syntax.
            continue
    return parsed


def standard_library_text(most_files: int | None = None) -> Text:
    """Reads English text: the docstrings of Python's standard library and the topics of its help. Every tenth piece is for
    testing."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for tree in _sources(most_files) for node in ast.walk(tree) if isinstance(node, documented))
    pieces = [text for node in nodes if (text := ast.get_docstring(node))]
    if most_files is None:
        from pydoc_data.topics import topics

        pieces += [topics[name] for name in sorted(topics)]
    # Removes duplicates, such as the docstrings of inherited methods, which would be in both parts.
    words = [WORD.findall(piece.lower()) for piece in dict.fromkeys(pieces)]
    training = [word for number, piece in enumerate(words) if number % 10 for word in piece]
    testing = [word for number, piece in enumerate(words) if number % 10 == 0 for word in piece]
    rows, in_training, in_testing = numbered(training, testing)
    about = f"docstrings and help of Python {sys.version_info.major}.{sys.version_info.minor}'s standard library"
    return Text("Python's documentation", Source.REAL, about, rows, in_training, in_testing)


def standard_library_names(most_files: int | None = None, *, seed: int = 0) -> Interactions:
    """Reads sequences of items: the names that functions of Python's standard library use, in order.

    An inference looks up the names in the first part of a function, and predicts if a name occurs in the rest. The name is
    drawn from the rest, or from the names in all functions. Every tenth function is for testing.
    """
    runs = []
    for tree in _sources(most_files):
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                used = list(dict.fromkeys(_names(node)))
                if len(used) >= 4:
                    runs.append(used)
    vocabulary = sorted({name for run in runs for name in run})
    numbers = {name: number for number, name in enumerate(vocabulary)}
    items = [np.array([numbers[name] for name in run]) for run in runs]
    everything = np.concatenate(items)
    rng = np.random.default_rng(seed)
    history, candidates, labels = [], [], []
    for run in items:
        cut = int(rng.integers(2, len(run)))
        for offered, label in ((rng.choice(run[cut:]), 1.0), (rng.choice(everything), 0.0)):
            history.append(run[:cut][-LONGEST:])
            candidates.append(int(offered))
            labels.append(label)
    examples = Examples(
        Traces.of(len(vocabulary), history),
        np.array(candidates),
        np.zeros((len(labels), 0), np.float32),
        np.array(labels, np.float32),
    )
    tested = np.arange(len(labels)) // 2 % 10 == 0
    about = f"names that functions of Python {sys.version_info.major}.{sys.version_info.minor}'s standard library use"
    training, testing = (examples.take(np.flatnonzero(where)) for where in (~tested, tested))
    return Interactions("Names in Python", Source.REAL, about, len(vocabulary), training, testing)


def _names(function: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            names.append(node.id)
    return names
