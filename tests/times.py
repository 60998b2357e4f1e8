"""The table of times in docs/testing.md, which a run writes."""

import os
import platform
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "testing.md"


def processor():
    """The processor's name, as Linux gives it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def write_times(results, full):
    """Replaces the table of this run's form, between its markers."""
    form = "full" if full else "short"
    rows = [f"| `{result.part.name}` | {result.seconds:.0f} | {result.tests or ''} |" for result in results]
    table = "\n".join(
        [
            f"The {form} form on {os.cpu_count()} threads of {processor()}:",
            "",
            "| part | seconds | tests |",
            "|---|---|---|",
            *rows,
        ]
    )
    begin, end = f"<!-- times: {form} -->", f"<!-- end of times: {form} -->"
    text = PAGE.read_text()
    before, rest = text.split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}")
