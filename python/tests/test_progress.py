"""Progress bars."""

import asyncio
import io
import sys
import threading
import types

import numpy
import pytest

import spirea
from spirea import _progress

KEYS = [f"k{i}" for i in range(300)]


class Watched(io.StringIO):
    """A terminal that sets `filled` when it shows a bar that is not empty."""

    def __init__(self):
        super().__init__()
        self.filled = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        if "█" in text:
            self.filled.set()
        return super().write(text)


def hold_second_query(relay, event):
    """Holds the second query of a look-up back until `event` is set; the first query clears `event`."""
    relay.before_query = lambda number: event.clear() if number == 0 else event.wait(300)


@pytest.mark.parametrize(
    ("progress", "patience", "shown"), [(True, 3600, True), (None, 0, True), (None, 3600, False), (False, 0, False)]
)
def test_a_terminal_sees_a_bar_that_goes_away(monkeypatch, relay, progress, patience, shown):
    """By default a bar appears for calls that take longer than `_PATIENCE`."""
    screen = Watched()
    if shown:
        hold_second_query(relay, screen.filled)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(_progress, "_PATIENCE", patience)
    with spirea.Client(relay.url, "keyed", progress=progress) as client:
        client.get_many(KEYS)
    text = screen.getvalue()
    if shown:
        assert "█" in text and "%" in text and text.endswith("\r")
    else:
        assert text == ""


def test_a_program_sees_none(capfd):
    spirea.build(numpy.zeros((1000, 64), numpy.uint8))
    assert capfd.readouterr() == ("", "")


def test_a_notebook_sees_one_that_is_updated(monkeypatch, relay):
    shown, filled = [], threading.Event()
    hold_second_query(relay, filled)

    class Handle:
        def update(self, what):
            shown.append(what.data)
            filled.set()

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
    with spirea.Client(relay.url, "keyed", progress=True) as client:
        client.get_many(KEYS)
    assert "<progress" in shown[0] and "<progress" in shown[-2] and shown[-1] == ""


def test_a_measurement_tells_how_far_it_is(measurement):
    told = measurement.told
    phases, done, total = (set(each) for each in zip(*told, strict=True))
    assert phases == {"measure"} and len(total) == 1 and len(done) > 1
    assert [each for _, each, _ in told] == sorted(each for _, each, _ in told)


class Told:
    """Callback that records progress, and holds the second query back until progress after the first answer is reported."""

    def __init__(self, relay):
        self.said, self._answered = [], threading.Event()
        hold_second_query(relay, self._answered)

    def __call__(self, phase, done, total):
        self.said.append((phase, done, total))
        if 0 < done < total:
            self._answered.set()

    def was_told(self):
        looked_up = [(done, total) for phase, done, total in self.said if phase == "look up"]
        return {total for _, total in looked_up} == {300} and any(0 < done < 300 for done, _ in looked_up)


def test_a_look_up_of_many_keys_tells_how_far_it_is(relay):
    told = Told(relay)
    with spirea.Client(relay.url, "keyed", progress=told) as client:
        assert client.get_many(KEYS)[299].text("a") == "a299"
    assert told.was_told(), told.said


def test_a_look_up_for_asyncio_tells_how_far_it_is(relay):
    told = Told(relay)

    async def look_up():
        async with spirea.AsyncClient(relay.url, "keyed", progress=told) as client:
            return await client.get_many(KEYS)

    assert asyncio.run(look_up())[299].text("a") == "a299"
    assert told.was_told(), told.said
