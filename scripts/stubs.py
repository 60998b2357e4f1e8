#!/usr/bin/env python3
"""The stub of the Python package's compiled part, made of the module.

Usage: stubs.py PYTHON

PYTHON is that of a virtual environment with maturin. PyO3 writes into the module what its functions take and give; where it
cannot know, `signature` in the sources says it. This script adds that a job is of what it gives, and types that have a name
in the stub alone. tests/system/test_package.py compares.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python/spirea/_spirea.pyi"
IMPORTS = """from collections.abc import Sequence
from typing import Final, final
"""
ALL_IMPORTS = """# Written by scripts/stubs.py.

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, final
"""
BEFORE = """__version__: Final[str]
"""
TYPES = """
_T = TypeVar("_T", covariant=True)

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

# For each value its fields, None where there is none, or False where it was dropped; for each value the version that
# answered; and what it cost: requests, bytes sent, bytes received, bytes of keys; seconds of the query, the server, the
# network, decoding, and sending the keys.
_Answers = tuple[
    list[tuple[bytes, ...] | None | bool],
    list[str],
    tuple[int, int, int, int, float, float, float, float, float],
]
"""


def building(python):
    """The environment in which maturin builds the extension with the tests of the workspace, which cargo has built."""
    return os.environ | {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "CARGO": str(ROOT / "scripts/cargo-with-tests.sh"),
        "SPIREA_CARGO": os.environ.get("CARGO", "cargo"),
    }


def stub(python):
    """The stub's text."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python.parent / "maturin", "generate-stubs", "--quiet", "--profile", "dev", "--out", folder]
        subprocess.run(command, cwd=ROOT, env=building(python), stderr=subprocess.DEVNULL, check=True)
        text = (Path(folder) / "spirea/_spirea.pyi").read_text()
    for said, instead in ((IMPORTS, ALL_IMPORTS), (BEFORE, BEFORE + TYPES), ("class Job:\n", "class Job(Generic[_T]):\n")):
        assert text.count(said) == 1, f"the stub has {said!r} {text.count(said)} times"
        text = text.replace(said, instead)
    return text


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # Not resolved: a virtual environment's interpreter is a link.
    STUB.write_text(stub(Path(sys.argv[1]).absolute()))


if __name__ == "__main__":
    main()
