#!/usr/bin/env python3
"""Makes the stub of the Python package's compiled part from the module.

Usage: stubs.py PYTHON

PYTHON is the interpreter of a virtual environment with maturin. PyO3 writes the types of functions into the module; types that
it cannot know are stated by `signature` in the sources. This script makes the class of jobs generic in its result, and adds
types that have a name only in the stub. tests/system/test_package.py compares the stub with the module.
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
    """Returns the environment in which maturin builds the extension with the artefacts of the workspace's tests."""
    return os.environ | {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "CARGO": str(ROOT / "scripts/cargo-with-tests.sh"),
        "SPIREA_CARGO": os.environ.get("CARGO", "cargo"),
    }


def stub(python):
    """Generates the stub's text."""
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
    # The path is not resolved, because a virtual environment's interpreter is a symbolic link.
    STUB.write_text(stub(Path(sys.argv[1]).absolute()))


if __name__ == "__main__":
    main()
