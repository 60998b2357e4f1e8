"""Runs every console block of the documents, to ensure that their commands work.

system.console describes the blocks. The commands of a document run in an empty folder, with `spirea` on the path. Blocks
marked ```sh are not run.
"""

import os
import re

import pytest

from system.console import run_steps, steps
from system.programs import ROOT

# Document whose commands need the Python package; test_package.py runs it.
OF_THE_PACKAGE = ROOT / "docs/scale-out.md"


def steps_of(document):
    return steps(document.read_text(encoding="utf-8"))


def run_document(document, spirea, folder):
    """Runs the commands of a document in a folder."""
    environment = os.environ | {
        "PATH": f"{spirea.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": f"{folder}/cache",
        "SPIREA_SOURCE": str(ROOT),
    }
    run_steps(steps_of(document), ["bash", "-c"], folder, environment)


EVERY = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
DOCUMENTS = [path for path in EVERY if steps_of(path)]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# A row of THREAT_MODEL.md: a folder with sources and the number of their lines.
COUNTED = re.compile(r"^\| \[[^]]*\]\(([^)]*)\) \| ([\d,]+) \|", re.MULTILINE)


@pytest.mark.parametrize("name", [str(path.relative_to(ROOT)) for path in DOCUMENTS if path != OF_THE_PACKAGE])
def test_document(name, spirea, tmp_path):
    run_document(ROOT / name, spirea, tmp_path)


def anchors(document):
    """The names by which other documents reach the headings of one, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title)).strip().lower().replace(" ", "-") for title in titles}


def test_links_of_documents_lead_somewhere():
    broken = []
    for document in [*EVERY, ROOT / "papers/README.md"]:
        text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for path, heading in LINK.findall(text):
            target = (document.parent / path).resolve() if path else document
            if not target.exists() or (heading and heading not in anchors(target)):
                broken.append(f"{document.relative_to(ROOT)}: {path}{heading and '#' + heading}")
    assert not broken, "\n".join(broken)


def packages():
    """Returns the folder of each Cargo package, by name."""
    manifests = [*ROOT.glob("crates/**/Cargo.toml"), *ROOT.glob("conformance/**/Cargo.toml")]
    named = ((re.search(r'^name = "(.*)"', file.read_text(encoding="utf-8"), re.MULTILINE), file.parent) for file in manifests)
    return {name[1]: folder for name, folder in named if name}


def names_of_tests(folder):
    """Yields the names of a package's functions and modules, as a filter of `cargo test` sees them."""
    for file in folder.rglob("*.rs"):
        module = "::".join(part for part in file.relative_to(folder).with_suffix("").parts[1:] if part != "mod")
        for name in re.findall(r"^ *(?:fn|mod) (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{module}::{name}"


def test_the_reference_of_the_python_package_has_every_error():
    defined = re.findall(r"^class (\w+Error)\(", (ROOT / "python/spirea/errors.py").read_text(encoding="utf-8"), re.MULTILINE)
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    assert len(defined) > 15 and not [name for name in defined if f"`{name}`" not in page]


def test_files_and_commands_of_the_page_on_soundness_exist():
    text = (ROOT / "docs/soundness.md").read_text(encoding="utf-8")
    quoted = re.findall(r"`([^`\n]+)`", text)
    files = [name for name in quoted if re.match(r"(crates|conformance|clients|scripts|tests)/[\w./-]*$", name)]
    wrong = [name for name in files if not (ROOT / name).exists()]
    folders = packages()
    commands = [command for command in quoted if "cargo test" in command or command.startswith("make ")]
    targets = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^[\w-][\w .-]*:|^\w+_TESTS = .*", MAKEFILE, re.MULTILINE))))
    for command in commands:
        if command.startswith("make "):
            wrong += [command for target in command.split()[1:] if target not in targets]
        elif package := re.search(r"-p (\S+)", command):
            words = command[package.end() :].split(" -- ")[0].split()
            program = words[words.index("--test") + 1] if "--test" in words else None
            filters = [word for word in words if not word.startswith("--") and word != program]
            names = list(names_of_tests(folders[package[1]]))
            wrong += [command for wanted in filters if not any(wanted in name for name in names)]
    assert len(files) > 20 and len(commands) > 20
    assert not wrong, "\n".join(wrong)


def test_the_reading_order_has_the_numbers_of_lines():
    """They are rounded, and may be out by a fifth."""
    rows = COUNTED.findall((ROOT / "THREAT_MODEL.md").read_text(encoding="utf-8"))
    assert len(rows) > 5
    for path, stated in rows:
        sources = [file for file in (ROOT / path).rglob("*") if file.suffix in (".rs", ".py")]
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in sources)
        assert 0.8 * lines <= int(stated.replace(",", "")) <= 1.2 * lines, f"{path}: {lines} lines, {stated} stated"
