"""Follows the first page of the npm package to the first look-up of a page in Chromium, whose script a bundler has made.

The bundler and the program that drives Chromium are those of clients/ts/package-lock.json.
"""

from pathlib import Path

import pytest

import debian
from system.newcomer import roots
from system.newcomer.pages import SERVER, javascript, look_up, packed, with_archive
from system.programs import ROOT

pytestmark = [pytest.mark.long, pytest.mark.needs("bwrap", "chromium")]

PACKAGES = ROOT / "clients/ts/node_modules"
DRIVER = Path(__file__).with_name("visit.mjs")
PAGE = """<!doctype html>
<title>A look-up</title>
<script type="module" src="/look-up.js"></script>
"""
SITE = "http://127.0.0.1:8000"


def test_bundled_page(release, tmp_path, timed):
    if not PACKAGES.is_dir():
        pytest.fail(f"there is no {PACKAGES.relative_to(ROOT)}: make web", pytrace=False)
    root = roots.with_browser(roots.equipped(tmp_path), PACKAGES, DRIVER)
    name = release.place("spirea-*[0-9].tgz", root.home)
    (root.home / "look-up.js").write_text(javascript(packed(root.home / name, "package/README.md")), encoding="utf-8")
    (root.home / "index.html").write_text(PAGE, encoding="utf-8")
    bundle = [
        f"npm install --silent ./{name}",
        f"node {roots.TOOLS}/node_modules/vite/bin/vite.js build --outDir site",
        "python3 -m http.server 8000 --bind 127.0.0.1 --directory site 2> site.log &",
    ]
    visit = f"node {roots.TOOLS}/{DRIVER.name} {debian.find('chromium')} {SITE}/"
    look_up(root, [*bundle, with_archive(release, root), SERVER], visit)
    timed()
    # The page got everything from the bundler's folder.
    made = {path.suffix for path in (root.home / "site").rglob("*") if path.is_file()}
    assert made == {".html", ".js", ".wasm"}, made
