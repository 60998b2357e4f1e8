"""Tests of the documentation site: it builds strictly, stays offline, and refuses links and anchors that lead nowhere."""

import os
import re
import shutil
import subprocess

import pytest

from system.programs import ROOT

MKDOCS = ROOT / "target/site-venv/bin/mkdocs"
# Scripts, images, frames and styles that a page would load from another server.
LOADED = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:[^>]*|<link[^>]*rel=\"?(?:stylesheet|preconnect)[^>]*http")

pytestmark = pytest.mark.full


def build(config, site, spirea):
    """Builds the site as `make docs` does. Returns the completed process."""
    command = [MKDOCS, "build", "--strict", "--config-file", config, "--site-dir", site]
    environment = os.environ | {"SPIREA": str(spirea), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_site(spirea, tmp_path):
    done = build(ROOT / "mkdocs.yml", tmp_path, spirea)
    assert done.returncode == 0, done.stderr
    for name, text in {
        "architecture": "A PIR protocol is a short pipeline",
        "reference/cli": "spirea publish",
        "reference/python": 'id="spirea.Client"',
        "reference/settings": "admin_listen",
        "reference/typescript-names": "getDomain()",
    }.items():
        assert text in (tmp_path / f"{name}.html").read_text(encoding="utf-8"), name
    assert (tmp_path / "search/search_index.js").is_file(), "search needs a server"
    for page in tmp_path.rglob("*.html"):
        assert not LOADED.findall(page.read_text(encoding="utf-8")), page.relative_to(tmp_path)


@pytest.mark.parametrize("link", ["nowhere.md", "start.md#nowhere", "../NOWHERE.md", "images/nowhere.svg"])
def test_a_link_that_leads_nowhere(link, spirea, tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs/start.md").open("a", encoding="utf-8") as page:
        page.write(f"\n[A link]({link})\n")
    config = tmp_path / "mkdocs.yml"
    # Paths are relative to this file.
    (tmp_path / "python").symlink_to(ROOT / "python")
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: [{ROOT / 'scripts/site/hooks.py'}]\n", encoding="utf-8")
    done = build(config, tmp_path / "site", spirea)
    assert done.returncode != 0
    assert "Doc file 'start.md' contains a link" in done.stderr, done.stderr
