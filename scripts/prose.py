#!/usr/bin/env python3
"""Checks the sentences of the documents, and draws some for a reader.

usage: prose.py check
       prose.py draw NUMBER [SEED]

`check` fails if a sentence has more than LONGEST words between stops and semicolons, or begins with a word that hides its
subject: CONTRIBUTING.md, "Prose".
`draw` prints random sentences with the section and the sentence before each, for a reader who did not write them.
"""

import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from comments import POOR

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 45
FENCE = re.compile(r"\s*(```|~~~)")
# Tables, HTML, admonitions' heads, and the markers of generated text.
OTHER = re.compile(r"\s*(\||<|!!!|\?\?\?|===|---|!\[)")
HEADING = re.compile(r"#+ (.*)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.) +(.*)")
# A full stop, then a capital or a mark-up that begins a sentence. Abbreviations with a stop inside are not in use.
END = re.compile(r"(?<=[.!?:])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!Fig\.)(?<!Sec\.) +(?=[A-Z0-9`*\[(])")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# An enumeration of names in the program's letters reads as a list, however long it is.
NAMES = re.compile(r"`[^`]*`(?:(?:,| and|/)? ?(?:\([^)]*\)|\d+)?,? ?`[^`]*`)+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document, with the heading above it and the sentence before it in its paragraph."""

    file: str
    line: int
    section: str
    before: str
    text: str

    @property
    def words(self):
        """Number of words of the longest part between semicolons. Addresses of links do not count; an enumeration of names is
        one word."""
        text = NAMES.sub("names", LINK.sub(r"\1", self.text))
        return max(len(part.split()) for part in text.split(";"))


def paragraphs(file):
    """Yields the paragraphs and list items of a document: line, heading and text."""
    section, start, lines, fenced = "", 0, [], False
    for place, line in enumerate([*(ROOT / file).read_text(encoding="utf-8").splitlines(), ""], 1):
        item = ITEM.match(line)
        ends = fenced or not line.strip() or FENCE.match(line) or OTHER.match(line) or HEADING.match(line) or item
        if ends and lines:
            yield start, section, " ".join(lines)
            lines = []
        if FENCE.match(line):
            fenced = not fenced
        elif fenced or not line.strip() or OTHER.match(line):
            continue
        elif heading := HEADING.match(line):
            section = heading[1]
        else:
            start = start if lines else place
            lines.append(item[1] if item else line.strip())


def sentences(file):
    """Yields the sentences of a document, in order."""
    for line, section, text in paragraphs(file):
        before = ""
        for sentence in END.split(text):
            yield Sentence(file, line, section, before, sentence)
            before = sentence


def every():
    """All sentences of the documents. Fragments of fewer than four words are not sentences."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [sentence for file in listed.split() for sentence in sentences(file) if sentence.words >= 4]


def complaints(sentence):
    """Returns the rules that a sentence breaks. Questions may begin with a question's word."""
    found = []
    if sentence.words > LONGEST:
        found.append(f"{sentence.words} words")
    if (poor := POOR.match(sentence.text)) and not sentence.text.rstrip("*_").endswith("?"):
        found.append(f'begins with "{poor[0]}"')
    return found


def main():
    match sys.argv[1:]:
        case ["check"]:
            found = [f"{s.file}:{s.line}: {text}: {s.text}" for s in every() for text in complaints(s)]
            if found:
                sys.exit("\n".join(found))
        case ["draw", number, *seed] if len(seed) <= 1:
            for sentence in random.Random(seed[0] if seed else None).sample(every(), int(number)):
                print(f"{sentence.file}:{sentence.line} ({sentence.section})")
                if sentence.before:
                    print(f"    before: {sentence.before}")
                print(f"    {sentence.text}\n")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
