"""Progress bars in terminals and in notebooks, without a dependency."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Report: TypeAlias = Callable[[str, int, int], object]
"""Callback for progress: the phase, the amount done, and the total."""
Progress: TypeAlias = "bool | Report | None"
"""`None` shows a bar after one second, in a terminal or notebook only; `True` shows it at once; `False` shows none."""

_PATIENCE = 1.0
_WIDTH = 40


def _in_notebook() -> bool:
    shell: Any = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


class _Terminal:
    def show(self, phase: str, share: float) -> None:
        full = round(share * _WIDTH)
        print(f"\r{phase:>8} {'█' * full}{'░' * (_WIDTH - full)} {share:4.0%} ", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        print("\r" + " " * (_WIDTH + 16) + "\r", end="", file=sys.stderr, flush=True)


class _Notebook:
    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, phase: str, share: float) -> None:
        from IPython.display import HTML, display

        bar = HTML(f"{html.escape(phase)} <progress value='{share:.3f}' max='1'></progress> {share:.0%}")
        if self._handle is None:
            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def clear(self) -> None:
        from IPython.display import HTML

        self._handle.update(HTML(""))


@contextmanager
def reporting(progress: Progress) -> Iterator[Report | None]:
    """Provides the callback that shows the progress of a call; removes the bar at the end."""
    if callable(progress):
        yield progress
        return
    notebook = _in_notebook()
    if progress is False or not (progress or notebook or sys.stderr.isatty()):
        yield None
        return
    bar: _Terminal | _Notebook = _Notebook() if notebook else _Terminal()
    due = time.monotonic() + (0 if progress else _PATIENCE)
    shown = False

    def report(phase: str, done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() >= due:
            bar.show(phase, min(done / total, 1.0) if total else 0.0)
            shown = True

    try:
        yield report
    finally:
        if shown:
            bar.clear()
