#!/usr/bin/env python3
"""Installs the Python package by pip, as users do, compiled with the settings of the workspace's tests.

Usage: install_package.py PYTHON

PYTHON is the interpreter of a virtual environment with the packages of tests/requirements.txt. After the workspace's tests,
only the extension is compiled, by scripts/cargo-with-tests.sh.
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
    # The path is not resolved, because a virtual environment's interpreter is a symbolic link.
    install(Path(sys.argv[1]).absolute())
