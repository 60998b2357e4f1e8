"""Tests of the installed Python package: its stub, its types, and the commands of docs/scale-out.md.

This module installs the package as users do. python/tests, which run afterwards, test its behaviour.
"""

import os
import sys
import tempfile
from pathlib import Path

import pytest

import install_package
import stubs
from system.programs import ROOT, run
from system.test_docs import OF_THE_PACKAGE, run_document

# The path is not resolved, because a virtual environment's interpreter is a symbolic link.
PYTHON = Path(sys.executable).absolute()


@pytest.fixture(scope="module", autouse=True)
def installed():
    install_package.install(PYTHON)


def outside(folder, *command):
    """Runs a module outside of the repository, so that only the installed package is found."""
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    return run(PYTHON, "-m", *command, cwd=folder, env=os.environ | {"PATH": path})


def test_package_is_the_installed_one(tmp_path):
    said = run(PYTHON, "-c", "import spirea; print(spirea.__file__)", cwd=tmp_path).stdout
    assert Path(said.strip()).is_relative_to(PYTHON.parent.parent)


def test_stub_is_what_the_module_says():
    assert stubs.STUB.read_text() == stubs.stub(PYTHON), "scripts/stubs.py PYTHON writes it"


@pytest.mark.parametrize("package", ["spirea", pytest.param("spirea.cluster", marks=pytest.mark.full)])
def test_types(package, tmp_path):
    outside(tmp_path, "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / "target/mypy", "-p", package)


def test_stub_and_module_have_the_same_types(tmp_path):
    outside(tmp_path, "mypy.stubtest", "spirea._spirea")


@pytest.mark.full
def test_scale_out_document():
    """The document's commands work, with whole clusters on Ray. Needs tests/requirements.cluster.txt."""
    # Ray creates sockets below the folder, and the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="spirea-") as folder:
        try:
            run_document(OF_THE_PACKAGE, PYTHON.parent / "spirea", folder)
        except pytest.fail.Exception:
            print_logs([*Path(folder).glob("work/**/log"), *Path("/tmp/ray/session_latest/logs").glob("*")])
            raise


def print_logs(files):
    """Prints the ends of logs: those of the cluster's programs and those of Ray."""
    for file in files:
        if file.is_file() and (text := file.read_text(errors="replace").strip()):
            print(f"--- {file}", *text.splitlines()[-20:], sep="\n")
