#!/usr/bin/env python3
"""Times Apple's server (AppleServer, of build.py) and this one (apple-bench) in turns, on the same data: docs/apple.md.

Prints the programs' JSON lines. Those of Apple's server have `over`, their time over that of this server's single query in
the same round.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from build import Swift

SET = "n_4096_logq_27_28_28_logt_5"
VALUE_BYTES = 2
# Entries, and repetitions of a measurement, of which the least counts.
SIZES = {100_000: 20, 1_000_000: 10}
# Clients of a batch, and threads.
OURS = {"single": (1, 1), "batch": (8, 1), "threads": (1, 2)}


def measure(command):
    """Runs a program. Returns its line."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
    return {"program": "turns", **json.loads(done.stdout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("apple", type=Path, metavar="APPLE_SERVER", help="target/apple/programs/.build/release/AppleServer")
    parser.add_argument("bench", type=Path, metavar="APPLE_BENCH", help="target/release/examples/apple-bench")
    parser.add_argument("--root", type=Path, help="file system with Swift, as for build.py")
    parser.add_argument("--isa", default="avx512", help="path of the kernels: avx512, avx2 or portable")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    apple = [*Swift(arguments.root).command(arguments.apple.resolve().parent), arguments.apple.resolve()]
    for number in range(arguments.rounds):
        for entries, runs in SIZES.items():
            table = [entries, VALUE_BYTES, SET]
            ours = {}
            for name, (batch, threads) in OURS.items():
                ours[name] = measure([arguments.bench, *table, arguments.isa, threads, batch, runs])
            theirs = measure([*apple, *table, runs])
            theirs["over"] = theirs["seconds"] / ours["single"]["seconds"]
            for line in (*ours.values(), theirs):
                print(json.dumps(line), flush=True)
            print(f"round {number + 1}, {entries} entries: {theirs['over']:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
