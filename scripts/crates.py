#!/usr/bin/env python3
"""Packages the published crates as a registry would receive them, and compiles each from its package.

usage: crates.py

The packages are in target/package. `cargo publish --workspace` publishes these crates, in the order of their imports.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# Options of `cargo package`: without network, of the files as they are, in a folder of its own.
OPTIONS = ["--locked", "--offline", "--allow-dirty", "--target-dir", "target/package"]


def packages(metadata):
    """Returns the packages in cargo's metadata by their names."""
    return {package["name"]: package for package in json.loads(metadata)["packages"]}


def published(packages):
    """Returns the names of the packages that a registry may receive, in alphabetic order."""
    return sorted(name for name, package in packages.items() if package["publish"] is None)


def main():
    command = [CARGO, "metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"]
    metadata = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    names = [f"--package={name}" for name in published(packages(metadata))]
    sys.exit(subprocess.run([CARGO, "package", *names, *OPTIONS], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
