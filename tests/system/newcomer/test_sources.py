"""Follows the first page of the Rust crate to the first look-up.

The root has this machine's Rust and the crates that it has downloaded, and no network. The crates are packaged here, as a
registry would receive them.
"""

import re
import shutil

import pytest

import crates
from system.newcomer import roots
from system.newcomer.pages import ADDRESS, SERVER, blocks, look_up, with_archive
from system.programs import ROOT, cargo

pytestmark = [pytest.mark.long, pytest.mark.needs("bwrap")]

# Most seconds of a compilation by one slow core.
SECONDS = 7200
# A program that makes the look-up of the crate's page.
MAIN = f"""
fn main() -> Result<(), LookUpError> {{
    look_up("{ADDRESS}")
}}
"""


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
