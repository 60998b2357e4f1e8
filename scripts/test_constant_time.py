#!/usr/bin/env python3
"""Client code under valgrind, its secrets marked as undefined: no branch and no address depends on one.

usage: test_constant_time.py

Checks that the check finds planted faults, and that docs/constant-time.md lists what is declassified. Needs valgrind;
where there is none and this may install packages, it installs Debian's. On processors other than x86-64 it says that
nothing was checked.
"""

import os
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
# What valgrind exits with where a secret steers the program.
STEERED = 9


def build():
    """The program, with the code that ships."""
    profile = "constant-time"
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--profile", profile, "--features", "memcheck"]
    subprocess.run([*command, "--package", "spirea-constant-time"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), profile, "constant-time")


def main():
    if platform.machine() not in ("x86_64", "AMD64"):
        print(f"nothing was checked: secrets are marked on x86-64 alone, and this is {platform.machine()}")
        return
    checker, program = debian.program(["valgrind"], ["valgrind", "libc6-dbg"]), build()

    def run(*arguments):
        command = [checker, "-q", f"--error-exitcode={STEERED}", "--num-callers=30", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    for fault in ("branch", "address", "slice"):
        done = run("--plant", fault)
        assert done.returncode == STEERED, f"a planted {fault} on a secret was not found: {done.stderr}"

    reasons, steered = set(), []
    # The longest come last in the list.
    kinds = run("--list").stdout.split()[::-1]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for what, done in zip(kinds, pool.map(run, kinds)):
            reasons.update(re.findall(r"^declassified: (.*)$", done.stdout, re.MULTILINE))
            if done.returncode != 0:
                steered.append(what)
                print(f"{what}: exit code {done.returncode}\n{done.stderr}", file=sys.stderr)
    assert not steered, f"a secret steers client code: {', '.join(steered)}"

    section = (ROOT / "docs/constant-time.md").read_text().split("## What is declassified, and why")[1].split("\n## ")[0]
    listed = set(re.findall(r"^- (.*)\.$", section, re.MULTILINE))
    assert reasons == listed, (
        f"docs/constant-time.md leaves out {sorted(reasons - listed)} and has besides {sorted(listed - reasons)}"
    )
    print(f"no secret steers client code of {len(kinds)} kinds; {len(reasons)} reasons are listed")


if __name__ == "__main__":
    main()
