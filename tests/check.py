#!/usr/bin/env python3
"""Checks a change: the packages, documents and scripts of the changed files. `make test` checks everything.

usage: check.py

The changed files are those that differ from $BASE. Without $BASE they are those that differ from HEAD, or if there are none,
those of the last commit. Prints each command before it runs, and stops at the first one that fails.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import base
from parts import CARGO, DENIED, FUZZERS, PYTHON, ROOT, VENV

ENVIRONMENT = ["make", "--no-print-directory", "target/venv/installed"]
PROGRAM = [CARGO, "build", "--workspace", "--bin", "spirea", "--locked"]


def changed():
    """Returns the changed files that still exist."""
    asked = os.environ.get("BASE")
    new = base.git(ROOT, "ls-files", "--others", "--exclude-standard")
    differ = base.git(ROOT, "diff", "--name-only", asked or "HEAD")
    if differ is None:
        sys.exit(f"check.py: git knows no BASE={asked}")
    if not asked and not differ and not new:
        differ = base.git(ROOT, "diff", "--name-only", "HEAD~1") or ""
    return sorted(file for file in set(f"{differ}\n{new}".split("\n")) - {""} if (ROOT / file).exists())


def package(file):
    """Returns the workspace's package that a file belongs to; None if there is none."""
    for folder in Path(file).parents:
        manifest = ROOT / folder / "Cargo.toml"
        if folder != Path() and manifest.is_file():
            text = manifest.read_text()
            # conformance/interleavings is a separate workspace.
            return None if "[workspace]" in text else re.search(r'^name = "(.*)"', text, re.MULTILINE)[1]
    return None


def commands(files):
    """Yields the commands that check these files, in order."""
    packages = sorted({name for name in map(package, files) if name})
    for name in packages:
        yield [CARGO, "fmt", "--package", name, "--", "--check"]
        features = ["--features", FUZZERS] if FUZZERS.startswith(f"{name}/") else []
        yield [CARGO, "clippy", "--quiet", "--locked", "--package", name, "--all-targets", *features, "--", *DENIED]
        yield [CARGO, "test", "--quiet", "--locked", "--package", name]
    scripts = [file for file in files if file.endswith(".py")]
    documents = [file for file in files if file.endswith(".md") and "```console" in (ROOT / file).read_text()]
    if packages or scripts or documents:
        yield ENVIRONMENT
    if packages:
        yield [PYTHON, "-m", "pytest", "tests/system/test_imports.py"]
        yield [PYTHON, "scripts/comments.py", "check"]
    if any(file.endswith(".md") for file in files):
        yield ["python3", "scripts/prose.py", "check"]
    if scripts:
        yield [VENV / "bin/ruff", "check", *scripts]
        yield [VENV / "bin/ruff", "format", "--check", *scripts]
    modules = [file for file in scripts if re.fullmatch(r"tests/system/test_\w+\.py", file)]
    if documents or modules:
        yield PROGRAM
        tests = [*modules, *(f"tests/system/test_docs.py::test_document[{file}]" for file in documents)]
        yield [PYTHON, "-m", "pytest", *tests]
    if any(file.startswith("clients/ts/") for file in files):
        yield ["npm", "--prefix", "clients/ts", "exec", "--", "tsc", "--noEmit", "--project", "clients/ts"]


def main():
    if sys.argv[1:]:
        sys.exit(__doc__)
    files, started = changed(), time.monotonic()
    for command in commands(files):
        words = list(map(str, command))
        print(f"$ {' '.join(words)}", flush=True)
        code = subprocess.run(words, cwd=ROOT, check=False).returncode
        if code != 0:
            sys.exit(f"check.py: exit code {code}")
    print(f"{len(files)} changed files checked in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
