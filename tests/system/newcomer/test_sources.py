"""Follows the first page of what a newcomer compiles, the Python package's sources and the Rust crate, to the first look-up.

The roots have this machine's Rust and the crates that it has downloaded, and no network. The Python package's sources are a
file of the release. The crates are packaged here, as a registry would receive them.
"""

import email
import re
import shutil
import sys

import pytest

import crates
from system.newcomer import roots
from system.newcomer.pages import ADDRESS, SERVER, blocks, follow, installation, look_up, packed, with_archive
from system.programs import ROOT, cargo, run

pytestmark = [pytest.mark.long, pytest.mark.needs("bwrap")]

# Most seconds of a compilation by one slow core.
SECONDS = 7200
REQUIREMENTS = ROOT / "tests/requirements.txt"
# A program that makes the look-up of the crate's page.
MAIN = f"""
fn main() -> Result<(), LookUpError> {{
    look_up("{ADDRESS}")
}}
"""


@pytest.fixture
def index(tmp_path):
    """Folder with the only package that pip needs to compile the sources, at its locked version."""
    folder = tmp_path / "index"
    locked = re.search(r"^maturin==.*?(?=^\S|\Z)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
    folder.mkdir()
    (folder / "requirements.txt").write_text(locked, encoding="utf-8")
    options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", folder]
    run(sys.executable, "-m", "pip", "download", *options, "--requirement", folder / "requirements.txt")
    return folder


def test_sources_of_the_python_package(release, index, tmp_path, timed):
    root = roots.with_rust(roots.equipped(tmp_path))
    shutil.copytree(index, root.home / "index")
    name = release.place("spirea-*[0-9].tar.gz", root.home)
    page = email.message_from_string(packed(root.home / name, "spirea-*/PKG-INFO")).get_payload()
    offline = f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={roots.HOME}/index"
    environment = ["python3 -m venv environment", ". environment/bin/activate", offline]
    follow(root, [*environment, installation(page, name)], page, SECONDS)
    timed()


@pytest.fixture
def unpacked(tmp_path):
    """The folders of the published crates by their names: packaged, and unpacked again."""
    packages = crates.packages(cargo("metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"))
    published = crates.published(packages)
    cargo("package", "--quiet", "--no-verify", *(f"--package={name}" for name in published), *crates.OPTIONS)
    found = {name: f"{name}-{packages[name]['version']}" for name in published}
    for crate in found.values():
        shutil.unpack_archive(ROOT / f"target/package/package/{crate}.crate", tmp_path / "crates", "gztar", filter="data")
    return {name: tmp_path / "crates" / crate for name, crate in found.items()}


def test_crate(release, unpacked, tmp_path, timed):
    root = roots.with_rust(roots.equipped(tmp_path))
    shutil.copytree(tmp_path / "crates", root.home / "crates")
    page = (unpacked["spirea"] / "README.md").read_text(encoding="utf-8")
    # Lines that begin with # are for the tests of documentation alone.
    client = re.sub(r"^# .*\n", "", blocks(page, "rust")[0], flags=re.MULTILINE)
    project = root.home / "look-up"
    (project / "src").mkdir(parents=True)
    (project / "src/main.rs").write_text(client + MAIN, encoding="utf-8")
    # These crates are in no registry yet.
    instead = "".join(f'{name} = {{ path = "../crates/{folder.name}" }}\n' for name, folder in unpacked.items())
    (project / "Cargo.toml").write_text(
        '[package]\nname = "look-up"\nversion = "0.1.0"\nedition = "2024"\n\n'
        f'[dependencies]\nspirea = "*"\n\n[patch.crates-io]\n{instead}',
        encoding="utf-8",
    )
    look_up(root, [with_archive(release, root), SERVER, "cd look-up"], "cargo run --quiet", SECONDS)
    timed()
    # pytest keeps the folders of several runs.
    shutil.rmtree(project / "target")
