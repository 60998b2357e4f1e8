#!/usr/bin/env python3
"""Runs test programs many times, every other time with a load on all processors, and lists the tests that failed.

usage: flaky.py [--runs N] [PROGRAM ...]

PROGRAM is a name as tests/rust.py prints it, such as server/server; the default is every program whose tests depend on time or
threads. A test that fails once is a defect: of the test, or of the tested code.
"""

import argparse
import collections
import os
import subprocess
import sys

import rust

# Programs with servers, processes, threads or clocks.
TIMED = [
    "batcher/batcher",
    "cli/it",
    "client/fork",
    "client/spirea_client",
    "cluster/cluster",
    "cluster/spirea_cluster",
    "engine/it",
    "engine/spirea_engine",
    "lab/it",
    "pim/it",
    "server/server",
    "server/spirea_server",
    "store/it",
]
LOAD = [sys.executable, "-c", "while True: pass"]


def times(program, runs):
    """Runs a program `runs` times. Returns the number of failures by test."""
    folder, _, executable = program
    failures = collections.Counter()
    for number in range(runs):
        load = [subprocess.Popen(LOAD) for _ in range(os.cpu_count())] if number % 2 else []
        try:
            done = subprocess.run(
                [executable],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        finally:
            for process in load:
                process.kill()
                process.wait()
        if done.returncode != 0:
            failed = rust.FAILED.findall(done.stdout) or ["the program"]
            failures.update(failed)
            print(f"{done.stdout}\nrun {number + 1}{' beside a load' if load else ''}: {', '.join(failed)}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = {f"{folder.name}/{target['name']}": (folder, target, file) for folder, target, file in rust.build()}
    wanted = options.programs or TIMED
    unknown = sorted(set(wanted) - set(programs))
    if unknown:
        sys.exit(f"flaky.py: there is no program {', '.join(unknown)}; there are {', '.join(sorted(programs))}")
    failed = False
    for name in wanted:
        failures = times(programs[name], options.runs)
        failed |= bool(failures)
        said = ", ".join(f"{test} {count} times" for test, count in failures.items()) or "none failed"
        print(f"{name}, {options.runs} runs: {said}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
