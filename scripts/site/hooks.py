"""Hooks of MkDocs: pages from outside docs/, generated pages, and links to files of the repository.

Documents link to each other as GitHub resolves links, relative to the repository. The site has other addresses, so every link
is resolved in the repository first. Links to pages stay in the site; links to other files lead to REPOSITORY.
A link that leads nowhere is left as it is, and MkDocs refuses it.
"""

import os
import posixpath
import re
import subprocess
import tempfile
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/spirea-pir/spirea"
# Documents outside docs/ that are pages of the site.
INCLUDED = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "overview.md",
    "SECURITY.md": "security.md",
    "THREAT_MODEL.md": "threat-model.md",
    "clients/ts/README.md": "reference/typescript.md",
    "papers/README.md": "papers.md",
}
PYTHON = """# Python: every name

This page is made from the package's documentation strings. [The reference](../python.md) has the overview.

::: spirea
"""
TYPESCRIPT = """# TypeScript: every name

This page is made from the package's sources. [The reference](typescript.md) has the overview.

"""
CLIENT = ROOT / "clients/ts"
TYPEDOC = CLIENT / "node_modules/.bin/typedoc"
# Fenced blocks, indented blocks and spans of code, which stay as they are.
CODE = re.compile(r"(^```.*?^```|^    [^\n]*$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
# Opening of a fenced block with more than a language, which Python-Markdown does not take as a block.
OPENING = re.compile(r"^```(\w+) .*")
# Target of an inline link or image.
TARGET = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]*)(#[^)\s]*)?(?=\))")
# Commands without a section: `help` repeats the others, and `cluster` needs the Python package.
OMITTED = ("cluster", "help")
# Subcommands in the help of a command: lines of a name and its summary below "Commands:".
COMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.MULTILINE)


def page(path):
    """Returns the site's source path of a file of the repository; None if it is not a page."""
    if path in INCLUDED:
        return INCLUDED[path]
    return path[len("docs/") :] if path.startswith("docs/") and path.endswith(".md") else None


def origin(source):
    """Returns the repository's path of a page; None for a generated page."""
    for path, included in INCLUDED.items():
        if included == source:
            return path
    return f"docs/{source}" if (ROOT / "docs" / source).is_file() else None


def resolve(path, target, fragment):
    """Returns the site's address for a link of the document at `path`; the link itself if it leads nowhere."""
    if not target:
        return fragment
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if to := page(place):
        return posixpath.relpath(to, posixpath.dirname(page(path)) or ".") + fragment
    file = ROOT / place
    if not file.exists():
        return target + fragment
    if place.startswith("docs/") and file.is_file():
        return posixpath.relpath(place, posixpath.dirname(f"docs/{page(path)}")) + fragment
    return f"{REPOSITORY}/{'tree' if file.is_dir() else 'blob'}/main/{place}{fragment}"


def rewrite(path, text):
    """Returns a document with its links resolved, and with indices such as a[i][j] escaped, which are no links here."""

    def link(match):
        return resolve(path, match[1], match[2] or "")

    def part(number, text):
        return OPENING.sub(r"```\1", text, count=1) if number % 2 else TARGET.sub(link, text).replace("][", "]\\[")

    return "".join(part(number, text) for number, text in enumerate(CODE.split(text)))


def command_line(program):
    """Returns the page of all commands, as the program describes them."""

    def help_of(*names):
        done = subprocess.run([program, *names, "--help"], capture_output=True, text=True, check=True)
        return done.stdout

    def section(*names):
        text = help_of(*names)
        yield f"## spirea {' '.join(names)}".rstrip() + f"\n\n```text\n{text.strip()}\n```\n"
        found = COMMANDS.search(text)
        for line in found[1].splitlines() if found else []:
            # Continuation lines are indented further.
            if re.match(r"  [a-z]", line) and line.split()[0] not in OMITTED:
                yield from section(*names, line.split()[0])

    about = "The program's own help. [Scale-out](../scale-out.md) describes `spirea cluster`."
    return f"# Commands\n\n{about}\n\n" + "\n".join(section())


def typescript():
    """Returns the page of all names of the JavaScript package, as TypeDoc reads them from its sources."""
    if not TYPEDOC.is_file():
        raise PluginError("there is no TypeDoc: make web, or npm ci in clients/ts")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([TYPEDOC, "--out", folder], cwd=CLIENT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PluginError(f"TypeDoc: {done.stdout}{done.stderr}")
        return TYPESCRIPT + (Path(folder) / "README.md").read_text(encoding="utf-8")


def on_files(files, config):
    """Adds the pages that are not below docs/."""
    program = Path(os.environ.get("SPIREA", ROOT / "target/debug/spirea")).absolute()
    if not os.access(program, os.X_OK):
        raise PluginError(f"there is no program {program}: cargo build -p spirea-cli, or set SPIREA")
    pages = {included: (ROOT / path).read_text(encoding="utf-8") for path, included in INCLUDED.items()}
    settings = (ROOT / "deploy/spirea.toml").read_text(encoding="utf-8")
    pages["reference/cli.md"] = command_line(program)
    pages["reference/settings.md"] = f"# Settings\n\nEvery setting with its default.\n\n```toml\n{settings}```\n"
    pages["reference/python.md"] = PYTHON
    pages["reference/typescript-names.md"] = typescript()
    pages["assets/iframe-worker.js"] = (Path(__file__).parent / "iframe-worker.js").read_text(encoding="utf-8")
    for source, content in pages.items():
        files.append(File.generated(config, source, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Resolves the links of a page."""
    path = origin(page.file.src_uri)
    return rewrite(path, markdown) if path else markdown
