#!/usr/bin/env python3
"""Installs the Python package as its users do, and runs its tests from outside of the repository.

Usage: test_python.py PYTHON [PYTEST ARGUMENT ...]

PYTHON is that of a virtual environment with what python/tests/requirements.txt names. The package is compiled as the
tests of the workspace are, which are not compiled again: scripts/cargo-with-tests.sh.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stubs

ROOT = Path(__file__).resolve().parent.parent


class Installed:
    """The package, installed in a virtual environment."""

    def __init__(self, python):
        # Not resolved: a virtual environment's interpreter is a link.
        self.python = Path(python).absolute()
        self.environment = os.environ | {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}
        building = stubs.building(self.python) | {"MATURIN_PEP517_ARGS": "--profile dev"}
        install = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
        self.run("pip install .", *install, "--force-reinstall", ".", cwd=ROOT, env=building)

    def run(self, title, *command, **options):
        """Runs a module, which must succeed."""
        started = time.monotonic()
        options = {"env": self.environment} | options
        done = subprocess.run([self.python, "-m", *map(str, command)], check=False, **options)
        if done.returncode != 0:
            sys.exit(f"{title}: FAILED, exit code {done.returncode}")
        print(f"{title}: {time.monotonic() - started:.0f} s", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    package, arguments = Installed(sys.argv[1]), sys.argv[2:]
    subprocess.run([sys.executable, ROOT / "scripts/stubs.py", package.python, "--check"], check=True)
    tests = ["pytest", "-p", "no:cacheprovider", ROOT / "python/tests", "--ignore", ROOT / "python/tests/cluster"]
    with tempfile.TemporaryDirectory() as elsewhere:
        package.run("mypy", "mypy", "--config-file", ROOT / "pyproject.toml", "-p", "spirea", cwd=elsewhere)
        package.run("stubtest", "mypy.stubtest", "spirea._spirea", cwd=elsewhere)
        package.run("pytest", *tests, *arguments, cwd=elsewhere)


if __name__ == "__main__":
    main()
