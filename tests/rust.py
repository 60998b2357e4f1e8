#!/usr/bin/env python3
"""Builds the Rust tests of the workspace, and runs their programs in parallel.

usage: rust.py [--build]

`cargo test --workspace` would run the programs one after another, although many wait for a timeout, a socket or a single
thread. Prints the wall time and the CPU time of each program, the output of failing programs, and the command that repeats a
failed test alone. With --build it only builds. The short form skips the packages of
parts.IF_CHANGED unless their files changed (tests/base.py). With SPIREA_EMULATION_ASAN=1 it skips the tests that
tests/system/test_cuda_asan.py runs.
"""

import functools
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import base
from parts import EMULATIONS, FULL, IF_CHANGED, ROOT, is_touched
from usage import wait

CARGO = os.environ.get("CARGO", "cargo")
# Number of programs that run at the same time. Each has as many threads as there are processors, and many of them wait.
AT_ONCE = min(4, os.cpu_count())
RUNNING = re.compile(r"^running \d+ tests?$", re.MULTILINE)
PASSED = re.compile(r"^test result: ok\. (\d+) passed", re.MULTILINE)
FAILED = re.compile(r"^test (\S+) .*\.\.\. FAILED$", re.MULTILINE)
# The longest programs start first, so that none of them runs alone at the end.
LONGEST = ["conformance/conformance", "cli/it", "lab/it", "store/it", "server/server", "cuda/ring", "cuda/group"]


@functools.cache
def left_out():
    """Returns the packages whose tests the short form skips: their folders by name."""
    _, changed = base.changed_files(ROOT)
    if FULL or changed is None:
        return {}
    return {package: files[0] for package, files in IF_CHANGED.items() if not is_touched(files, changed)}


def workspace():
    """Returns cargo's options for the packages to test. Skipping packages does not change the features of others."""
    return ["--workspace", *(f"--exclude={package}" for package in left_out())]


def build():
    """Builds the test programs of all packages. Returns for each its working folder, its target and its file."""
    command = [CARGO, "test", *workspace(), "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    programs = []
    for message in map(json.loads, done.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
            folder, target = Path(message["manifest_path"]).parent, message["target"]
            programs.append((folder, target, message["executable"]))
    assert programs, "cargo names the programs"
    names = {f"{folder.name}/{target['name']}" for folder, target, _ in programs}
    absent = {Path(folder).name for folder in left_out().values()}
    unknown = {name for name in LONGEST if name.split("/")[0] not in absent} - names
    assert not unknown, f"there are no test programs {', '.join(sorted(unknown))}"
    return programs


def sanitized_elsewhere(folder, target):
    """Returns the arguments that skip the tests of the sanitizer's run; None if that run has the whole program."""
    if os.environ.get("SPIREA_EMULATION_ASAN") != "1" or folder.name != "cuda":
        return []
    tests = tomllib.loads((ROOT / "tests/system/cuda_asan.toml").read_text())["tests"].get(target["name"], [])
    return None if tests == "all" else ["--exact", *(f"--skip={test}" for test in tests)] if tests else []


def emulations(name):
    """Returns the arguments that skip a program's tests on emulated devices whose packages are left out."""
    tests = [test for package in left_out() for test in EMULATIONS.get(package, {}).get(name, [])]
    return [f"--skip={test}" for test in tests]


def repeat(folder, target, test):
    """Returns the command that runs one test alone."""
    kind = {"lib": "--lib", "bin": f"--bin {target['name']}"}.get(target["kind"][0], f"--test {target['name']}")
    package = re.search(r'^name = "(.*)"', (folder / "Cargo.toml").read_text(), re.MULTILINE)[1]
    return f"cargo test --package {package} {kind} -- --exact {test} --nocapture"


def run(program):
    """Runs a program. Returns its name, True if its tests passed, and the number of passed tests."""
    folder, target, executable = program
    name = f"{folder.name}/{target['name']}"
    started = time.monotonic()
    skipped = sanitized_elsewhere(folder, target)
    if skipped is None:
        return name, True, 0
    process = subprocess.Popen(
        [executable, *skipped, *emulations(name)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process.stdout as output:
        said = output.read().decode(errors="replace")
    code, cpu_seconds = wait(process)
    seconds = time.monotonic() - started
    results = PASSED.findall(said)
    # A program that ends before its tests may still exit with 0, so results are counted. A program without a harness has only
    # its exit code.
    passed = code == 0 and len(results) == len(RUNNING.findall(said))
    count = sum(map(int, results))
    if passed:
        # Random choices of the short form, each with the variable that repeats it.
        drawn = "".join(f"{line}\n" for line in said.splitlines() if "SPIREA_DRAW=" in line)
        print(f"{drawn}{name}: {count} passed, {seconds:.0f} s, {cpu_seconds:.0f} CPU s", flush=True)
    else:
        alone = "".join(f"to repeat it alone: {repeat(folder, target, test)}\n" for test in FAILED.findall(said))
        print(f"{said}{name}: FAILED, exit code {code}\n{alone}", flush=True)
    return name, passed, count


def main():
    if sys.argv[1:] not in ([], ["--build"]):
        sys.exit(__doc__)
    programs = build()
    if sys.argv[1:]:
        return
    order = {name: place for place, name in enumerate(LONGEST)}
    programs.sort(key=lambda program: order.get(f"{program[0].name}/{program[1]['name']}", len(order)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run, programs))
    failed = [name for name, passed, _ in results if not passed]
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")
    print(f"{sum(count for _, _, count in results)} tests of {len(results)} programs passed")


if __name__ == "__main__":
    main()
