"""The crates as packages for a registry: their manifests, their content, and the comparison of interfaces."""

import os
import re
import subprocess
import sys
import tarfile

import pytest

from system.programs import ROOT, cargo, run

sys.path.insert(0, str(ROOT / "scripts"))

import crates

BLOCK = re.compile(r"^```rust\n(.*?)^```", re.MULTILINE | re.DOTALL)
SEMVER = ROOT / "scripts/check-semver.sh"


@pytest.fixture(scope="module")
def packages():
    """The packages of the workspace by their names."""
    return crates.packages(cargo("metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"))


def imports(packages, name):
    """The names of the workspace's crates that a crate imports, directly or not."""
    found, todo = set(), [name]
    while todo:
        name = todo.pop()
        own = {each["name"] for each in packages[name]["dependencies"] if each["kind"] is None and each["name"] in packages}
        todo += own - found
        found |= own
    return found


def test_the_published_crates_are_the_facade_and_what_it_imports(packages):
    assert set(crates.published(packages)) == {"spirea"} | imports(packages, "spirea")


def test_published_crates_have_what_a_registry_shows(packages):
    for name in crates.published(packages):
        package = packages[name]
        for key in ("description", "license", "repository", "readme", "rust_version", "keywords", "categories"):
            assert package[key], f"{name}: {key}"
        for dependency in package["dependencies"]:
            if dependency.get("path") and dependency["kind"] is None:
                assert dependency["req"] == f"={package['version']}", f"{name}: {dependency['name']}"


def test_all_crates_can_be_packaged():
    # cargo resolves private crates from the registry to write their locks, and they are not there.
    cargo("package", "--workspace", "--no-verify", "--exclude-lockfile", *crates.OPTIONS)


def test_published_crates_can_be_packaged_and_need_no_file_of_others(packages):
    names = crates.published(packages)
    cargo("package", "--no-verify", *(f"--package={name}" for name in names), *crates.OPTIONS)
    for name in names:
        archive = ROOT / f"target/package/package/{name}-{packages[name]['version']}.crate"
        with tarfile.open(archive) as opened:
            sources = {
                member.name.split("/", 1)[1]: opened.extractfile(member).read().decode()
                for member in opened
                if member.isfile() and member.name.endswith(".rs")
            }
        assert sources
        for source, text in sources.items():
            # Modules of tests are not compiled where the package is used.
            if source.endswith("tests.rs") or "/tests/" in source:
                continue
            above = "../" * (source.count("/") + 1)
            assert f'include_str!("{above}' not in text and f'include_bytes!("{above}' not in text, f"{name}: {source}"


def test_examples_of_the_document_are_those_of_the_crate():
    readme = (ROOT / "crates/facade/README.md").read_text(encoding="utf-8")
    tested = [re.sub(r"^# .*\n", "", block, flags=re.MULTILINE) for block in BLOCK.findall(readme)]
    shown = BLOCK.findall((ROOT / "docs/rust.md").read_text(encoding="utf-8"))
    assert shown and shown == tested


@pytest.fixture
def repository(tmp_path):
    """A repository with a commit, and a stand-in for cargo that prints its arguments."""
    run("git", "init", "--quiet", tmp_path)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    run("git", "-C", tmp_path, *identity, "commit", "--quiet", "--allow-empty", "--message", "first")
    stand_in = tmp_path / "cargo"
    stand_in.write_text('#!/bin/sh\necho "$@"\n')
    stand_in.chmod(0o755)
    return tmp_path


def semver(repository):
    environment = os.environ | {"CARGO": str(repository / "cargo")}
    return subprocess.run([SEMVER], cwd=repository, env=environment, capture_output=True, text=True, check=False)


def test_without_a_release_there_is_no_interface_to_compare_with(repository):
    done = semver(repository)
    assert done.returncode == 0 and done.stdout == ""
    assert "nothing was compared" in done.stderr


def test_the_interface_is_compared_with_the_newest_release(repository):
    for tag in ("v0.9.0", "v0.10.0", "not-a-release"):
        run("git", "-C", repository, "tag", tag)
    done = semver(repository)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "semver-checks --package spirea --all-features --baseline-rev v0.10.0"
