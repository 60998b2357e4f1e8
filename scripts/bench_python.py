#!/usr/bin/env python3
"""Measures the overhead of Python: for building a table from an array, and for a look-up.

Usage: bench_python.py [MIB [ROUNDS]]

Run it with an interpreter that has a release build of the package: make bench-python. A build from an array of MIB (1024) is
timed alternately with `spirea build` of the same array in a file, to the same folder. The least time of ROUNDS (3) counts.
Python's overhead of a look-up is the time of the call minus the times that the Rust client measures: query, network, server,
decoding and sending keys. The exit code is 1 if a build takes more than 1.3 times as long, or a look-up more than 1 ms longer.
"""

import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

import spirea

ROW_BYTES = 256
MOST_TIMES, MOST_MS = 1.3, 1.0


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def builds(array, folder, protocol, rounds):
    """Returns the least seconds of the command and of the package."""
    numpy.save(folder / "array.npy", array)
    out = folder / "out"
    command = [sys.executable, "-m", "spirea", "build", "--input", folder / "array.npy", "--protocol", protocol]
    command += ["--out", out, "--overwrite"]
    times = {"rust": [], "python": []}
    for _ in range(rounds):
        times["rust"].append(timed(lambda: subprocess.run(command, check=True, capture_output=True)))
        times["python"].append(timed(lambda: spirea.build(array, out, protocol=protocol, overwrite=True, progress=False)))
    return {name: min(seconds) for name, seconds in times.items()}


def look_ups(protocol, count=300):
    """Returns the median overhead of a call over the Rust client's own times, in milliseconds."""
    array = numpy.zeros((4096, ROW_BYTES), numpy.uint8)
    snapshot = spirea.build(array, protocol=protocol, name="rows")
    parties = (0, 1) if snapshot.servers == 2 else (None,)
    servers = [spirea.Server(snapshot, party=party) for party in parties]
    added = []
    with spirea.Client(servers) as client:
        client.get_index(0)
        for index in range(count):
            before = client.costs
            whole = timed(functools.partial(client.get_index, index))
            after = client.costs
            parts = ("query_seconds", "server_seconds", "network_seconds", "decode_seconds", "keys_seconds")
            added.append(whole - sum(getattr(after, part) - getattr(before, part) for part in parts))
    for server in servers:
        server.stop()
    return statistics.median(added) * 1e3


def main():
    mebibytes, rounds = (int(given) for given in (sys.argv[1:] + ["1024", "3"][len(sys.argv) - 1 :])[:2])
    rng = numpy.random.default_rng(0)
    array = rng.integers(0, 256, (mebibytes << 20) // ROW_BYTES * ROW_BYTES, numpy.uint8).reshape(-1, ROW_BYTES)
    within = True
    for protocol in ("dpf-xor", "simple"):
        with tempfile.TemporaryDirectory() as folder:
            seconds = builds(array, Path(folder), protocol, rounds)
        ratio = seconds["python"] / seconds["rust"]
        print(json.dumps({"name": "build", "protocol": protocol, "mib": mebibytes, **seconds, "ratio": ratio}), flush=True)
        added = look_ups(protocol)
        print(json.dumps({"name": "look-up", "protocol": protocol, "added_ms": added}), flush=True)
        within = within and ratio <= MOST_TIMES and added <= MOST_MS
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
