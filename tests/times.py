"""Writes the tables of parts and of times in docs/testing.md."""

import os
import platform
import re
from pathlib import Path

import parts

PAGE = Path(__file__).resolve().parent.parent / "docs" / "testing.md"


def processor():
    """Returns the processor's name, as Linux reports it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def replaced(text, name, lines):
    """Replaces the lines between the markers of a name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return "".join([before, begin, *(f"{line}\n" for line in lines), end, after])


def part_rows():
    """Returns the lines of the table of parts."""
    runs = {True: "`CI_FULL=1`", False: "always"}
    rows = [
        f"| `{part.name}` | {part.about} | {'if changed' if part.files else runs[part.only_full]} |" for part in parts.PARTS
    ]
    return ["| part | what it does | runs |", "|---|---|---|", *rows]


def write_times(results, full):
    """Replaces the table of parts, and the table of times of this run's form."""
    form = "full" if full else "short"
    rows = [
        f"| `{result.part.name}` | {result.seconds:.0f} | {result.cpu_seconds:.0f} | {result.tests or ''} |"
        for result in results
    ]
    head = [
        f"The {form} form on {os.cpu_count()} threads of {processor()}:",
        "",
        "| part | seconds | CPU seconds | tests |",
        "|---|---|---|---|",
    ]
    text = replaced(PAGE.read_text(), "parts", part_rows())
    PAGE.write_text(replaced(text, f"times: {form}", [*head, *rows]))
