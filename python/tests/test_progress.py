"""Bars, for people who watch."""

import io
import sys
import types

import numpy

import spirea


class Watched(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar_that_goes_away(monkeypatch):
    for progress, shown in ((True, True), (None, False), (False, False)):
        screen = Watched()
        monkeypatch.setattr(sys, "stderr", screen)
        spirea.build(numpy.zeros((200_000, 64), numpy.uint8), progress=progress)
        text = screen.getvalue()
        assert not shown or ("█" in text and "%" in text and text.endswith("\r"))
        assert shown or "%" not in text or progress is None


def test_a_program_sees_none(capfd):
    spirea.build(numpy.zeros((1000, 64), numpy.uint8))
    assert capfd.readouterr() == ("", "")


def test_a_notebook_sees_one_that_is_updated(monkeypatch):
    shown = []

    class Handle:
        def update(self, what):
            shown.append(what.data)

    class Html:
        def __init__(self, data):
            self.data = data

    def display(what, display_id):
        shown.append(what.data)
        return Handle()

    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=None)
    showing = types.ModuleType("IPython.display")
    showing.HTML, showing.display = Html, display
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", showing)
    spirea.build(numpy.zeros((200_000, 64), numpy.uint8), progress=True)
    assert "<progress" in shown[0] and shown[-1] == ""
