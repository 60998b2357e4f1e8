#!/usr/bin/env python3
"""Keeps small tables and a client of a release. Later versions must serve these tables and answer this client.

usage: keep.py SPIREA

SPIREA is the release's program. The script writes two files into conformance/releases/VERSION:

- tables.tar.xz: for each protocol a repository with a base of three keys and a delta, signed by an operator's key; and the
  operator's public key;
- client.pyz: the reference client, which Python runs: `python3 client.pyz --help`.

tests/system/test_kept_releases.py uses the files of every kept version. A version that was released is never kept again.
"""

import io
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import archives
from installation import File

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "conformance/client"
# The files' time in seconds since 1970: 2000-01-01.
TIME = 946_684_800
# Code that Python runs first in an archive of a client.
MAIN = "import sys\n\nfrom spirea_reference import main\n\nsys.exit(main())\n"
TABLE = "key,note,size\nk1,first,1\nk2,second,2\nk3,third,3\n"
CHANGES = [{"key": "k2", "value": {"note": "changed", "size": "7"}}, {"key": "k3", "deleted": True}]
# Options of the tables by their names. Tables of each protocol, of each delivery of keys, and with proofs.
TABLES = {
    "simple": ["--protocol", "simple", "--proofs"],
    "double": ["--protocol", "double"],
    "exppack-simple": ["--protocol", "exppack-simple", "--keys", "per-query"],
    "exppack-double": ["--protocol", "exppack-double"],
    "double-pack": ["--protocol", "double-pack"],
    "hybrid": ["--protocol", "hybrid"],
    "onion": ["--protocol", "onion", "--proofs"],
    "dpf-xor": ["--protocol", "dpf-xor", "--proofs"],
    "dpf-sum": ["--protocol", "dpf-sum"],
}


def tables(spirea, folder):
    """Builds and publishes the tables in a folder."""

    def run(*arguments):
        return subprocess.run([spirea, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

    (folder / "operator.pub").write_text(run("key", "new", "operator.key"), encoding="utf-8")
    (folder / "table.csv").write_text(TABLE, encoding="utf-8")
    (folder / "changes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in CHANGES), encoding="utf-8")
    for name, options in TABLES.items():
        columns = ["--key", "key", "--value", "note", "size", "--name", name]
        run("build", "--input", "table.csv", *columns, *options, "--out", f"base-{name}", "--threads", "1")
        publish = ["publish", "--repository", name, "--sign", "operator.key", "--threads", "1"]
        run(*publish, "--base", f"base-{name}")
        run(*publish, "--changes", "changes.jsonl")


def archive_of_tables(spirea):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        tables(spirea, folder)
        paths = [path for name in TABLES for path in (folder / name).rglob("*") if path.is_file()]
        paths.append(folder / "operator.pub")
        files = {str(path.relative_to(folder)): File(path.read_bytes()) for path in paths}
        return archives.xz(archives.tar(files, TIME))


def archive_of_client():
    """Returns the reference client as an archive that Python runs."""
    modules = [CLIENT / "spirea_reference.py", *sorted((CLIENT / "reference").glob("*.py"))]
    files = {str(path.relative_to(CLIENT)): path.read_text(encoding="utf-8") for path in modules}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in (files | {"__main__.py": MAIN}).items():
            archive.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    spirea = Path(sys.argv[1]).absolute()
    version = subprocess.run([spirea, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    folder = ROOT / "conformance/releases" / version
    tag = subprocess.run(["git", "tag", "--list", f"v{version}"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    if tag and folder.exists():
        sys.exit(f"keep.py: {version} was released; what it keeps in {folder.relative_to(ROOT)} must not change")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("tables.tar.xz", archive_of_tables(spirea)), ("client.pyz", archive_of_client())):
        (folder / name).write_bytes(content)
        print(f"{folder.relative_to(ROOT) / name}: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
