#!/usr/bin/env python3
"""Builds the tests of the workspace and runs their programs side by side.

Usage: test_rust.py [--build]

What `cargo test --workspace` runs one after another, though many wait for a timeout, a socket or a single thread, but for
what tests/system/test_cuda_asan.py runs under the sanitizer. Says what each took, and all that a failing program said.
With --build nothing is run.
"""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What runs under the sanitizer, with the same oracles.
SANITIZED = tomllib.loads((ROOT / "tests/system/cuda_asan.toml").read_text())["tests"]
CARGO = os.environ.get("CARGO", "cargo")
# Programs at a time: each has as many threads as there are processors.
AT_ONCE = min(4, os.cpu_count())
RUNNING = re.compile(r"^running \d+ tests?$", re.MULTILINE)
PASSED = re.compile(r"^test result: ok\. (\d+) passed", re.MULTILINE)
# The longest come first, so that none of them is alone at the end: packages and their programs.
LONGEST = ["store/repository", "conformance/conformance", "cli/torture", "cli/cli", "server/server", "cli/gpu",
           "cuda/group", "cuda/ring"]


def build():
    """The test programs of all packages: their names, their files, and the folders that they run in."""
    command = [CARGO, "test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    programs = []
    for message in map(json.loads, done.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
            folder, target = Path(message["manifest_path"]).parent, message["target"]["name"]
            elsewhere = SANITIZED.get(target, []) if folder.name == "cuda" else []
            skipped = [f"--skip={test}" for test in elsewhere] if elsewhere != "all" else []
            command = [message["executable"], *(["--exact", *skipped] if skipped else [])]
            if elsewhere != "all":
                programs.append((f"{folder.name}/{target}", command, folder))
    assert len({command[0] for _, command, _ in programs}) == len(programs) > 0, "cargo names each program once"
    unknown = set(LONGEST) - {name for name, _, _ in programs}
    assert not unknown, f"there are no test programs {', '.join(sorted(unknown))}"
    return programs


def run(program):
    """Whether a program's tests passed, and how many there were."""
    name, command, folder = program
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    seconds, said = time.monotonic() - started, done.stdout.decode(errors="replace")
    results = PASSED.findall(said)
    # A program that ends before its tests do may have the exit code 0 all the same; one without a harness has it alone.
    passed = done.returncode == 0 and len(results) == len(RUNNING.findall(said))
    count = sum(map(int, results))
    print(f"{name}: {count} passed, {seconds:.0f} s" if passed else f"{said}{name}: FAILED, exit code {done.returncode}",
          flush=True)
    return passed, count


def main():
    if sys.argv[1:] not in ([], ["--build"]):
        sys.exit(__doc__)
    programs = build()
    if sys.argv[1:]:
        return
    order = {name: place for place, name in enumerate(LONGEST)}
    programs.append(("doctests", [CARGO, "test", "--workspace", "--locked", "--doc"], ROOT))
    programs.sort(key=lambda program: order.get(program[0], len(order)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run, programs))
    failed = [name for (name, _, _), (passed, _) in zip(programs, results) if not passed]
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")
    print(f"{sum(count for _, count in results)} tests of {len(programs)} programs passed")


if __name__ == "__main__":
    main()
