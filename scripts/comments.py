#!/usr/bin/env python3
"""Checks the comments of the Rust code, and draws some for a reader.

usage: comments.py check
       comments.py draw NUMBER [SEED]

`check` fails if a comment is wider than 100 columns or begins with a word that hides its subject: CONTRIBUTING.md, "Prose".
`draw` prints random comments with the line of code below each, for a reader who did not write them.
"""

import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
COMMENT = re.compile(r"\s*(//[/!]?)(?: (.*)|())$")
# A subject comes first. These begin a clause in its place.
POOR = re.compile(r"(What|Who|Whoever|Whose|Whether|Which|That|How|As many|As what|Of which)\b")
# Copied from the .proto files, or texts of the command's help that start with a question's word.
GENERATED = "crates/wire/src/generated/"
# Code and sketches stand between fences. Rows of tables and links cannot be wrapped either.
FENCE = "```"
UNWRAPPABLE = re.compile(r"//[/!]? \||https?://")


@dataclass(frozen=True)
class Block:
    """Lines of comment that follow one another, with the line of code below them."""

    file: str
    line: int
    lines: tuple[str, ...]
    below: str

    @property
    def text(self):
        return " ".join(COMMENT.match(line)[2] or "" for line in self.lines).strip()


def blocks(file):
    """The blocks of a file, in order."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    start = None
    for place, line in enumerate([*lines, ""]):
        kind = (found := COMMENT.match(line)) and found[1]
        if start is not None and (not kind or kind != COMMENT.match(lines[start])[1]):
            yield Block(file, start + 1, tuple(lines[start:place]), line.strip())
            start = None
        if kind and start is None:
            start = place


def every():
    """All blocks of the Rust files but generated ones."""
    files = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [block for file in files.split() if not file.startswith(GENERATED) for block in blocks(file) if block.text]


def complaints(block):
    """The faults of a block, each with its file and line."""
    if POOR.match(block.text):
        yield f"{block.file}:{block.line}: begins with {POOR.match(block.text)[1]!r}: say the subject first: {block.text[:60]}"
    fenced = False
    for place, line in enumerate(block.lines):
        fenced ^= FENCE in line
        if len(line) > WIDTH and not fenced and not UNWRAPPABLE.search(line):
            yield f"{block.file}:{block.line + place}: {len(line)} columns, more than {WIDTH}"


def main():
    match sys.argv[1:]:
        case ["check"]:
            found = [complaint for block in every() for complaint in complaints(block)]
            if found:
                sys.exit("\n".join(found))
        case ["draw", number, *seed] if number.isdigit() and len(seed) <= 1:
            drawn = random.Random(seed[0] if seed else None).sample(every(), int(number))
            for block in drawn:
                print(f"{block.file}:{block.line}", *block.lines, f"    {block.below}", "", sep="\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
