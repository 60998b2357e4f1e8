#!/usr/bin/env python3
"""Checks what we depend on against deny.toml: licences, banned crates, wildcards and sources.

The same rules that `cargo deny check licenses bans sources` applies, over `cargo metadata --locked`, so that they hold
on every commit without building cargo-deny first. Advisories need a database from the network: `make audit` has them.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
TOKENS = re.compile(r"\s*(\(|\)|/|[A-Za-z0-9.+-]+)")


def satisfied(expression, allowed):
    """Whether licences that are allowed satisfy an SPDX expression; the old "MIT/Apache-2.0" is a choice."""
    tokens = TOKENS.findall(expression)
    if "".join(tokens) != re.sub(r"\s", "", expression):
        raise ValueError(f"{expression!r} is no SPDX expression")
    tokens.append("")

    def choice():
        met = both()
        while tokens[0] in ("OR", "/"):
            tokens.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one():
        token = tokens.pop(0)
        if token == "(":
            met = choice()
            if tokens.pop(0) != ")":
                raise ValueError(f"{expression!r} lacks a parenthesis")
            return met
        if not token or token in (")", "/", "AND", "OR", "WITH"):
            raise ValueError(f"{expression!r} is no SPDX expression")
        if tokens[0] == "WITH":
            tokens.pop(0)
            token = f"{token} WITH {tokens.pop(0)}"
        return token in allowed

    met = choice()
    if tokens != [""]:
        raise ValueError(f"{expression!r} is no SPDX expression")
    return met


def problems(packages, rules):
    """What breaks the rules, a line each."""
    allowed = set(rules["licenses"]["allow"])
    banned = {entry["crate"]: entry["reason"] for entry in rules["bans"]["deny"]}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] is None:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and dependency.get("path") is None:
                    yield f"{name}: the version of {dependency['name']} is a wildcard; name one"
            continue
        if package["source"] != CRATES_IO:
            yield f"{name}: it comes from {package['source']}; take it from crates.io"
        if package["name"] in banned:
            yield f"{name}: banned: {banned[package['name']]}"
        try:
            if not package["license"]:
                yield f"{name}: it names no licence; ask its authors, or do without"
            elif not satisfied(package["license"], allowed):
                yield f"{name}: {package['license']} is not among the licences of deny.toml"
        except ValueError as error:
            yield f"{name}: {error}"


def self_test():
    """The rules refuse what they must."""
    allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
    for expression, expected in [
        ("MIT", True),
        ("MIT/GPL-3.0", True),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0 AND MIT", False),
        ("(MIT OR GPL-3.0) AND Apache-2.0", True),
        ("MIT OR GPL-3.0 AND BSL-1.0", True),
        ("(GPL-3.0 OR ISC) AND MIT", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
    ]:
        assert satisfied(expression, allowed) == expected, expression
    rules = {"licenses": {"allow": ["MIT"]}, "bans": {"deny": [{"crate": "bad", "reason": "x"}]}}
    fine = {"name": "a", "version": "1", "source": CRATES_IO, "license": "MIT", "dependencies": []}
    wildcard = {"name": "b", "req": "*", "path": None}
    for change, count in [
        ({}, 0),
        ({"license": "GPL-3.0"}, 1),
        ({"license": None}, 1),
        ({"license": "MIT OR"}, 1),
        ({"source": "git+https://example.org/a"}, 1),
        ({"name": "bad"}, 1),
        ({"source": None, "license": None}, 0),
        ({"source": None, "dependencies": [wildcard]}, 1),
        ({"source": None, "dependencies": [{**wildcard, "path": "/b"}]}, 0),
    ]:
        found = list(problems([{**fine, **change}], rules))
        assert len(found) == count, (change, found)


def main():
    self_test()
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    packages = json.loads(done.stdout)["packages"]
    found = sorted(problems(packages, rules))
    if found:
        sys.exit("\n".join(found))
    names = Counter(package["name"] for package in packages)
    several = sorted(name for name, count in names.items() if count > 1)
    print(f"{len(packages)} packages keep to deny.toml; in several versions: {', '.join(several) or 'none'}")


if __name__ == "__main__":
    main()
