#!/usr/bin/env python3
"""Makes files of a release again, in another checkout and another folder, and compares them with those that are there.

usage: again.py FILES [--target ...] [--only ...]

FILES is the folder of the first release, made of the commit that is checked out. The options are those of `make release`, and
choose what is made again. Files that differ are named, and kept in target/release-again. Each differing archive is listed with
the members that differ.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
AGAIN = ROOT / "target/release-again"


def digests(path):
    """Returns the hashes of an archive's members by name, or nothing for other files."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            files = [member for member in archive if member.isfile()]
            return {member.name: hashlib.sha256(archive.extractfile(member).read()).hexdigest() for member in files}
    return {}


def differences(first, second):
    """Returns a line for each file of `second` that `first` lacks or has with other bytes."""
    found = []
    for path in sorted(second.iterdir()):
        other = first / path.name
        if path.name.startswith("SHA256SUMS"):
            continue
        if not other.is_file():
            found.append(f"{path.name} is not in {first}")
        elif other.read_bytes() != path.read_bytes():
            one, two = digests(other), digests(path)
            members = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
            found.append(f"{path.name} differs{': ' if members else ''}{', '.join(members)}")
    return found


def main():
    match sys.argv[1:]:
        case [first, *options] if not first.startswith("-"):
            first = Path(first).absolute()
        case _:
            sys.exit(__doc__)
    checkout, files = AGAIN / "checkout", AGAIN / "files"
    shutil.rmtree(AGAIN, ignore_errors=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, checkout], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit.strip()], cwd=checkout, check=True)
    subprocess.run([sys.executable, checkout / "scripts/release", "--out", files, *options], cwd=checkout, check=True)
    if differ := differences(first, files):
        sys.exit("\n".join(differ))
    made = len([path for path in files.iterdir() if not path.name.startswith("SHA256SUMS")])
    print(f"{made} files have the same bytes")


if __name__ == "__main__":
    main()
