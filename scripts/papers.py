#!/usr/bin/env python3
"""Compares the claims of papers, and their tables in the documents, with the models' values (papers/README.md).

papers.py --check
papers.py --write
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# With --write, the models and the reader of recorded values write the files. The last test writes tables from the files, so it
# must run last.
TESTS = [
    ("spirea-pim-figures", "--test=papers"),
    ("spirea-ive", "papers::"),
    ("spirea-ive", "reproduce::"),
    ("spirea-papers", "recorded"),
    ("spirea-papers", "documents"),
]


def main():
    if sys.argv[1:] not in (["--check"], ["--write"]):
        sys.exit(__doc__)
    environment = {**os.environ, **({"SPIREA_WRITE_DOCS": "1"} if "--write" in sys.argv else {})}
    for package, tests in TESTS:
        command = [CARGO, "test", "--locked", "--package", package, tests]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            sys.exit(f"{' '.join(command)}: failed")


if __name__ == "__main__":
    main()
