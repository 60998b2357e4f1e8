#!/usr/bin/env python3
"""Compares the figures in the documents with the measured lines in bench/results/, or writes them.

figures.py --check
figures.py --write

bench/figures.toml has the tables, and its rows name the lines behind them. A table stands in its document between
`<!-- figures: NAME -->` and `<!-- end -->`. Sentences with a figure are listed in the same file and are only compared.
"""

import itertools
import json
import re
import statistics
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = "bench/figures.toml"
COMMAND = "python3 scripts/figures.py --write"
ENDS = "<!-- end -->\n"
# Headings of the columns. A row gives the text of a column that is not computed.
HEADINGS = {
    "what": "what",
    "command": "command",
    "time": "time",
    "rate": "a second",
    "runs": "runs",
    "limit": "limit",
    "ratio": "ratio",
    "peer": "peer",
    "goal": "goal for this card",
    "paper": "a paper's figure",
}
WRITTEN = ("goal", "paper")
# Marks a row whose time was copied from a document, because the line of its run was not kept.
TRANSCRIBED = "†"
FOOTNOTE = f"{TRANSCRIBED} Copied from an earlier edition of the documents: the line of the run was not kept."
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "us"))
# Lines of one row agree in all these fields: they are runs of one measurement.
SAME = ("name", "params", "shape", "backend", "threads", "batch", "keys", "program")


class FiguresError(Exception):
    """A figure without its lines, or a document that differs from them."""


@dataclass(frozen=True)
class Row:
    """A row of a table: a measurement, and how it is shown."""

    what: str
    # Conditions on a line: each field has this value.
    where: dict
    results: str
    command: str = ""
    # Field that the lines must have.
    has: str = ""
    # Step of the line that is shown in place of the whole.
    step: str = ""
    # Shows a query's time in place of the batch's: "query" or "batch".
    each: str = "query"
    # Text in place of the limit, for lines without one.
    limit: str = ""
    # Another program that ran in turns with this one, of `peers`.
    peer: str = ""
    goal: str = ""
    paper: str = ""


@dataclass(frozen=True)
class Measured:
    """The runs of a row: lists of values, one for each run, or the two ends of a published range."""

    seconds: list
    ratios: list
    runs: int
    batch: int
    floor: str
    floors: list
    # True if `seconds` holds a published range, whose median is unknown.
    ranged: bool
    transcribed: bool


def digits(value, count=3):
    """Formats a number with so many significant digits, and commas between thousands."""
    rounded = float(f"{value:.{count}g}")
    places = max(0, count - len(str(int(rounded)))) if rounded >= 1 else 2
    return f"{rounded:,.{places}f}"


def unit(seconds):
    """Returns the unit in which a time has at least one digit before the point."""
    return next(((size, name) for size, name in UNITS if seconds >= size), UNITS[-1])


def span(values, text):
    """Formats the ends of a range, or one value if the ends look the same."""
    least, most = text(min(values)), text(max(values))
    return least if least == most else f"{least} to {most}"


def times(measured):
    """Formats a median with the range of its runs, or a published range."""
    size, name = unit(statistics.median(measured.seconds))
    if measured.ranged:
        return f"{span(measured.seconds, lambda seconds: f'{seconds / size:.3g}')} {name}"
    ends = span(measured.seconds, lambda seconds: digits(seconds / size))
    middle = digits(statistics.median(measured.seconds) / size)
    return f"{middle} {name}" if ends == middle else f"{middle} {name} ({ends})"


def select(lines, where, source, has=""):
    """Returns the lines that meet all conditions, and have the field `has` if it is given."""
    found = [line for line in lines if all(line.get(key) == value for key, value in where.items())]
    found = [line for line in found if not has or has in line]
    if not found:
        field_of_all = f" and the field {has!r}" if has else ""
        raise FiguresError(f"bench/results/{source}: no line has {json.dumps(where)}{field_of_all}")
    return found


def ends(line, key):
    """Returns the values of a field: one, the two ends of its range, or none."""
    if key in line:
        return [line[key]]
    return line.get(f"{key}_range", [])


def measure(row, lines):
    """Returns the runs of a row."""
    found = select(lines, row.where, row.results, row.has)
    kinds = {json.dumps([line.get(key) for key in SAME]) for line in found}
    if len(kinds) > 1:
        raise FiguresError(f"bench/results/{row.results}: {json.dumps(row.where)} fits several measurements: {sorted(kinds)}")
    batch = found[0].get("batch", 1)
    if row.step:
        parts = [next((step for step in line.get("steps", []) if step["name"] == row.step), None) for line in found]
        if None in parts:
            raise FiguresError(f"bench/results/{row.results}: a line of {row.what!r} has no step {row.step!r}")
    else:
        parts = found
    share = batch if row.each == "query" else 1
    seconds = [value / share for part in parts for value in ends(part, "seconds")]
    if not seconds:
        raise FiguresError(f"bench/results/{row.results}: the lines of {row.what!r} have no time")
    floors = [part["floor_seconds"] / share for part in parts if "floor_seconds" in part]
    ratios = [value for part in parts for value in ends(part, "ratio")]
    floor = next((part["floor"] for part in parts if "floor" in part), "")
    return Measured(
        seconds=seconds,
        ratios=ratios,
        runs=len(found),
        batch=batch,
        floor=floor,
        floors=floors,
        ranged=any("seconds_range" in part for part in parts),
        transcribed=any("transcribed" in line for line in found),
    )


def limit(row, measured):
    """Formats the limit with its time."""
    if row.limit or not measured.floor:
        if not row.limit:
            raise FiguresError(f"{row.what!r}: its lines have no limit, and the row gives no text for it")
        return row.limit
    name = re.sub(r"^(vp\w+|IMAD[.\w]*)", r"`\1`", measured.floor)
    if not measured.floors:
        return name
    time = statistics.median(measured.floors)
    size, in_unit = unit(time)
    return f"{name} {digits(time / size)} {in_unit}"


def ratio(row, measured):
    """Formats the ratio of the limit's time to the measured time."""
    if not measured.ratios:
        if not row.limit:
            raise FiguresError(f"{row.what!r}: its lines have no ratio")
        return ""
    if measured.ranged:
        return span(measured.ratios, "{:.2f}".format)
    return f"{statistics.median(measured.ratios):.2f}"


def beside(name, lines, what):
    """Formats the time of a peer, alone and over that of the row `what`, from runs in turns."""
    over = [line["over"] for line in lines]
    seconds = [value for line in lines for value in ends(line, "seconds")]
    if not seconds:
        raise FiguresError(f"{SETTINGS}: the lines of the peer of {what!r} have no time")
    size, in_unit = unit(statistics.median(seconds))
    took = f"{span(seconds, lambda value: f'{value / size:.3g}')} {in_unit}"
    ranged = f" ({span(over, '{:.2f}'.format)})" if len(over) > 1 else ""
    mark = f" {TRANSCRIBED}" if any("transcribed" in line for line in lines) else ""
    return f"{name}: {took}, {statistics.median(over):.2f} times as long{ranged}{mark}"


def cells(row, measured):
    """Returns the texts of a row by column, except that of a peer."""
    mark = f" {TRANSCRIBED}" if measured.transcribed else ""
    a_query = statistics.median(measured.seconds) / (measured.batch if row.each == "batch" else 1)
    return {
        "what": row.what,
        "command": f"`{row.command}`" if row.command else "",
        "time": times(measured) + mark,
        "rate": digits(1 / a_query),
        "runs": "" if measured.ranged else str(measured.runs),
        "limit": limit(row, measured),
        "ratio": ratio(row, measured),
        **{name: getattr(row, name) for name in WRITTEN},
    }


def joined(texts):
    """Returns a line of a table."""
    return "".join(f"| {text} " if text else "| " for text in texts) + "|"


@dataclass(frozen=True)
class Figures:
    """The settings, with a reader of results."""

    settings: dict
    results: Callable

    def rows(self, table):
        """Returns the rows of a table, with its defaults."""
        defaults = {key: table[key] for key in ("results", "each", "limit") if key in table}
        rows = []
        for given in table["rows"]:
            where = table.get("where", {}) | given.get("where", {})
            unknown = set(given) - set(Row.__dataclass_fields__)
            if unknown:
                raise FiguresError(f"{SETTINGS}: {table['name']}: a row has the unknown keys {sorted(unknown)}")
            row = Row(**{**defaults, **given, "where": where})
            if row.each not in ("query", "batch"):
                raise FiguresError(f"{SETTINGS}: {row.what!r}: each is {row.each!r}, not query or batch")
            rows.append(row)
        return rows

    def peer(self, row):
        """Returns the name of a row's peer and its lines; none without a peer."""
        if not row.peer:
            return "", []
        peer = self.settings.get("peers", {}).get(row.peer)
        if peer is None:
            raise FiguresError(f"{SETTINGS}: {row.what!r}: there is no peer {row.peer!r}")
        return peer["name"], select(self.results(peer["results"]), peer["where"], peer["results"])

    def table(self, table):
        """Returns the lines of a table."""
        columns = table["columns"]
        lines = [joined(HEADINGS[column] for column in columns), "|" + "---|" * len(columns)]
        for row in self.rows(table):
            name, others = self.peer(row)
            texts = cells(row, measure(row, self.results(row.results)))
            texts["peer"] = beside(name, others, row.what) if others else ""
            lines.append(joined(texts[column] for column in columns))
        return [*lines, "", FOOTNOTE] if any(TRANSCRIBED in line for line in lines) else lines

    def quotes(self):
        """Returns the sentences with figures, each with its document."""
        named = {table["name"]: table for table in self.settings["tables"]}
        found = []
        for quote in self.settings.get("quotes", []):
            row = next((row for row in self.rows(named[quote["table"]]) if row.what == quote["what"]), None)
            if row is None:
                raise FiguresError(f"{SETTINGS}: {quote['table']} does not have the row {quote['what']!r} of a quote")
            found.append((quote["document"], quote["text"].format(**self.words(row))))
        return found

    def words(self, row):
        """Returns a row's figures with two digits, as sentences have them."""
        measured = measure(row, self.results(row.results))
        seconds = statistics.median(measured.seconds)
        size, name = unit(seconds)
        words = {"time": f"{digits(seconds / size, 2)} {name}"}
        if measured.ratios:
            words["slower"] = digits(1 / statistics.median(measured.ratios), 2)
        _, others = self.peer(row)
        if others:
            words["over"] = digits(statistics.median(line["over"] for line in others), 2)
        return words


def reader(folder):
    """Returns a function that reads a file of results once."""
    known = {}

    def read(name):
        if name not in known:
            path = folder / name
            if not path.exists():
                raise FiguresError(f"{SETTINGS}: there is no file bench/results/{name}")
            known[name] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return known[name]

    return read


def replaced(text, name, lines, document):
    """Returns a document with the lines of a table between its marks."""
    begins = f"<!-- figures: {name} -->\n"
    if text.count(begins) != 1:
        raise FiguresError(f"{document}: {text.count(begins)} marks {begins.strip()!r} in place of one")
    before, rest = text.split(begins)
    _, mark, after = rest.partition(ENDS)
    if not mark:
        raise FiguresError(f"{document}: there is no {ENDS.strip()!r} after {begins.strip()!r}")
    return before + begins + "".join(f"{line}\n" for line in lines) + mark + after


def documents(root):
    """Returns the expected text of every document with tables, and the sentences of others."""
    settings = tomllib.loads((root / SETTINGS).read_text(encoding="utf-8"))
    figures = Figures(settings, reader(root / "bench/results"))
    texts = {}
    for table in settings["tables"]:
        document = table["document"]
        text = texts.get(document) or (root / document).read_text(encoding="utf-8")
        texts[document] = replaced(text, table["name"], figures.table(table), document)
    for document, text in texts.items():
        for name in re.findall(r"<!-- figures: (.*?) -->", text):
            if name not in [table["name"] for table in settings["tables"]]:
                raise FiguresError(f"{document}: {SETTINGS} has no table {name!r}")
    return texts, figures.quotes()


def check(root):
    """Raises the first difference between the documents and the results."""
    texts, quotes = documents(root)
    for document, expected in texts.items():
        found = (root / document).read_text(encoding="utf-8")
        if found == expected:
            continue
        pairs = itertools.zip_longest(found.splitlines(), expected.splitlines(), fillvalue="")
        place, line = next((place, line) for place, (had, line) in enumerate(pairs, 1) if had != line)
        raise FiguresError(f"{document}:{place}: the results say\n{line}\nWrite the tables: {COMMAND}")
    for document, text in quotes:
        if " ".join(text.split()) not in " ".join((root / document).read_text(encoding="utf-8").split()):
            raise FiguresError(f"{document}: the results say {text!r}. Change the sentence, or its quote in {SETTINGS}")


def write(root):
    """Writes the tables into their documents."""
    for document, text in documents(root)[0].items():
        (root / document).write_text(text, encoding="utf-8")


def main():
    if sys.argv[1:] not in (["--check"], ["--write"]):
        sys.exit(__doc__)
    try:
        if "--write" in sys.argv:
            write(ROOT)
        check(ROOT)
    except FiguresError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
