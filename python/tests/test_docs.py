"""Runs the Python in README.md and in docs/: every block of a page, in order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if BLOCK.search(page.read_text())]
# Page whose code measures the machine, which takes seconds.
MEASURING = ROOT / "docs/private-data-frame.md"


def test_there_are_some():
    assert {ROOT / "docs/start.md", MEASURING, ROOT / "docs/embeddings.md"} <= set(PAGES)


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=[pytest.mark.full] * (page == MEASURING)) for page in PAGES]
)
def test_a_page(page, tmp_path, script, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = script("\n".join(BLOCK.findall(page.read_text())))
    assert done.returncode == 0, done.stderr
