"""Tests of the workflows in .github/workflows: actionlint, bounds, permissions, and that they call targets of the Makefile."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from system.programs import ROOT, target_folder

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTIONLINT = "1.7.12"

workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def actionlint():
    """Path of actionlint, compiled from the Go module of a locked version, whose hash Go checks.

    Go is not installed for this: the machines that run the workflows have it.
    """
    go = shutil.which("go")
    if not go:
        pytest.skip("there is no go, which compiles actionlint")
    folder = target_folder() / f"actionlint-{ACTIONLINT}"
    program = folder / "actionlint"
    if not program.exists():
        module = f"github.com/rhysd/actionlint/cmd/actionlint@v{ACTIONLINT}"
        environment = os.environ | {"GOBIN": str(folder.absolute()), "GOFLAGS": "-p=2"}
        done = subprocess.run([go, "install", module], env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"actionlint cannot be had: {done.stderr}")
    return program


def lint(actionlint, path):
    # Without shellcheck and pyflakes, which are not installed everywhere.
    command = [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", path]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.full
@workflows
def test_actionlint(path, actionlint, tmp_path):
    done = lint(actionlint, path)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / path.name
    wrong.write_text(path.read_text(encoding="utf-8").replace("runs-on:", "run-on:"), encoding="utf-8")
    assert lint(actionlint, wrong).returncode == 1


@workflows
def test_bounds_and_permissions(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}, "the default is all permissions; a job asks for more"
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 360, name
        for step in job["steps"]:
            # Text of others, such as a branch's name, would be part of the script: pass it through the environment.
            assert "${{" not in step.get("run", ""), name
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


def test_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^\.PHONY: (.*)$|^([\w-]+):", makefile, re.MULTILINE))
    known = {name for group in targets for names in group for name in names.split()}
    called = set()
    for path in WORKFLOWS:
        for line in re.findall(r"\bmake ([a-z][^\n]*)", "\n".join(runs(path))):
            called |= {word for word in line.split(" RELEASE=")[0].split()}
    assert {"test", "test-all", "docs", "release"} <= called
    assert called <= known, called - known


def runs(path):
    """Yields the scripts of a workflow."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    for job in workflow["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)
