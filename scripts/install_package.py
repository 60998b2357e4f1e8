#!/usr/bin/env python3
"""Installs the Python package as its users do, compiled as the tests of the workspace are.

Usage: install_package.py PYTHON

PYTHON is that of a virtual environment with what tests/requirements.txt names. Nothing of the workspace is compiled again
after its tests: scripts/cargo-with-tests.sh.
"""

import subprocess
import sys
from pathlib import Path

import stubs

ROOT = Path(__file__).resolve().parent.parent


def install(python):
    """Installs the package into the virtual environment of an interpreter."""
    options = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--force-reinstall"]
    environment = stubs.building(python) | {"MATURIN_PEP517_ARGS": "--profile dev"}
    subprocess.run([python, "-m", "pip", "install", *options, "."], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # Not resolved: a virtual environment's interpreter is a link.
    install(Path(sys.argv[1]).absolute())
