#!/usr/bin/env python3
"""Runs every console block of the documents, so that what they tell a reader to type works.

Usage: run_docs.py [--without FILE] PATH_TO_SPIREA FILE_OR_FOLDER...

A block begins with ```console. Lines that begin with `$ ` are commands; a backslash continues one. The
commands of a document run in order, in one empty folder, in one shell with `spirea` on its path; a document
whose servers run in the background has them stopped at its end. A line of output that stands under a
command must appear in what the command printed; `...` stands for any text. Blocks marked ```sh are for the
reader alone.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def steps(block):
    """The commands of a block with the lines of output under each."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif found and line.strip():
            found[-1][1].append(line)
    return found


def matches(expected, printed):
    pattern = ".*".join(re.escape(part.strip()) for part in expected.split("..."))
    return any(re.search(pattern, line) for line in printed.splitlines())


def run(document, spirea):
    """Runs one document; returns the number of its commands."""
    commands = [step for block in BLOCK.findall(document.read_text(encoding="utf-8")) for step in steps(block)]
    if not commands:
        return 0
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="spirea-docs-") as folder:
        environment = dict(os.environ, PATH=f"{spirea.parent}:{os.environ['PATH']}", XDG_CACHE_HOME=f"{folder}/cache")
        environment["SPIREA_SOURCE"] = str(root)
        marker = "--- end of step ---"
        script = "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
        script += "".join(f"{command}\necho '{marker}'\n" for command, _ in commands)
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        printed = done.stdout.split(marker + "\n")
        if done.returncode != 0:
            failed = commands[min(len(printed) - 1, len(commands) - 1)][0]
            sys.exit(f"{document}: failed at\n$ {failed}\n{printed[-1]}{done.stderr}")
        for (command, expected), output in zip(commands, printed):
            for line in expected:
                if not matches(line, output):
                    sys.exit(f"{document}: after\n$ {command}\nexpected\n{line}\nbut it printed\n{output}{done.stderr}")
    return len(commands)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--without", type=Path, action="append", default=[])
    parser.add_argument("spirea", type=Path)
    parser.add_argument("places", type=Path, nargs="+")
    given = parser.parse_args()
    spirea, left_out = given.spirea.absolute(), {path.resolve() for path in given.without}
    total = 0
    for place in given.places:
        for document in sorted(place.rglob("*.md")) if place.is_dir() else [place]:
            if document.resolve() in left_out:
                continue
            count = run(document, spirea)
            total += count
            if count:
                print(f"{document}: {count} commands")
    print(f"{total} passed, 0 failed")


if __name__ == "__main__":
    main()
