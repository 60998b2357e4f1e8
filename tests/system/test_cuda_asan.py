#!/usr/bin/env python3
"""Runs every CUDA kernel on the CPU emulation under AddressSanitizer and compares what it makes with the oracles.

Usage: test_cuda_asan.py

Builds the tests with SPIREA_EMULATION_ASAN=1, runs the planted accesses out of bounds, which must be reported, and then
those tests of the product whose shapes cross the edges of tiles at little cost. A kernel that none of them has run to its
end fails the whole, so a new kernel needs a line in TESTS. With SPIREA_CONFORMANCE=long also those of LONG_TESTS are run,
and each kernel must have been run in three orders of threads. CXX names the compiler, g++ where it is not set.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDERS = ["forward", "reversed", "shuffled"]
# Of each test binary of spirea-cuda what runs here; None for all.
TESTS = {
    "spirea_cuda": [
        "ring::product::tests::chunks_share_lanes",
        "ring::product::tests::batches_beyond_one_product_and_graphs_used_again",
        "ring::product::tests::panels_of_columns_add_up",
    ],
    "fold": None,
    "probe": None,
    "ring": [
        "ends::bodies_agree",
        "expansions::expansions_by_residues_agree",
        "expansions::expansions_of_the_shorter_degree_agree",
        "expansions::subtrees_agree_with_whole_trees",
        "rotations::packings_by_residues_agree",
        "rotations::packings_of_the_shorter_degree_agree",
        "second_halves::second_halves_agree",
        "tournaments::batches_of_clients_agree",
        "tournaments::tournaments_agree",
        "tournaments::tournaments_of_the_shorter_degree_agree",
        "transforms::transforms_are_those_of_the_plans",
    ],
    "shares": [
        "blocks_meet_over_large_trees",
        "every_function_and_output",
        "every_function_evaluates_whole_domains",
        "every_number_of_keys",
        "every_order_of_threads",
        "every_width_of_rows",
        "parts_and_rows_from_anywhere",
        "rates_are_numbers",
    ],
}
# And what takes minutes there.
LONG_TESTS = {
    "spirea_cuda": ["ring::product::tests::products_of_every_shape"],
    "ring": [
        "ends::bodies_of_other_sets_agree",
        "ends::switching_agrees_with_its_definition",
        "rotations::packings_by_digits_agree",
        "second_halves::second_halves_of_other_sets_agree",
        "tournaments::tournaments_by_digits_agree",
    ],
}


def build():
    """The test binaries of the workspace, by name, and the folder of the emulation's libraries."""
    # All packages, as `make test-rust` builds them: a build of one alone has other features, and compiles all again.
    command = [os.environ.get("CARGO", "cargo"), "test", "--workspace", "--locked", "--no-run"]
    environment = dict(os.environ, SPIREA_EMULATION_ASAN="1")
    done = subprocess.run(
        [*command, "--message-format=json-render-diagnostics"],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    binaries, libraries = {}, None
    for message in map(json.loads, done.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            if "crates/cuda" in message["target"]["src_path"]:
                binaries[message["target"]["name"]] = message["executable"]
        elif message["reason"] == "build-script-executed" and "cuda/emulation" in message["package_id"]:
            libraries = Path(message["out_dir"])
    return binaries, libraries


def runtime_library(name):
    """Where the compiler has one of its libraries."""
    compiler = os.environ.get("CXX", "g++")
    path = subprocess.run([compiler, f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if "/" not in path:
        sys.exit(f"{compiler} has no {name}: install its AddressSanitizer (libasan), or set CXX to a compiler that has one")
    return path


def kernels(library):
    """The names of all kernels of an emulation."""
    kernel = ctypes.CDLL(str(library)).spirea_emulation_kernel
    kernel.restype, kernel.argtypes = ctypes.c_char_p, [ctypes.c_size_t]
    names = []
    while name := kernel(len(names)):
        names.append(name.decode())
    return names


def run(binary, tests, environment):
    """Runs a binary's tests; all of those named must be there and pass."""
    chosen = ["--exact", *tests] if tests else []
    done = subprocess.run(
        [binary, *chosen], cwd=ROOT / "crates/cuda", env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{binary}: exit code {done.returncode}\n{done.stdout}")
    if tests and f"test result: ok. {len(tests)} passed" not in done.stdout:
        sys.exit(f"{binary} has not all of {', '.join(tests)}\n{done.stdout}")


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    is_long = os.environ.get("SPIREA_CONFORMANCE") == "long"
    binaries, libraries = build()
    preload = " ".join(map(runtime_library, ["libasan.so", "libstdc++.so"]))
    run(binaries["address_sanitizer"], None, dict(os.environ))
    print("planted accesses out of bounds are reported", flush=True)

    with tempfile.TemporaryDirectory(prefix="spirea-asan-") as folder:
        ran = Path(folder) / "ran"
        environment = dict(
            os.environ,
            SPIREA_CUDA_DRIVER=str(libraries / "asan/libcuda.so"),
            SPIREA_EMULATION_RAN=str(ran),
            LD_PRELOAD=preload,
            # What the emulation and the test harness keep for ever is no leak.
            ASAN_OPTIONS="detect_leaks=0",
        )
        for name, tests in TESTS.items():
            tests = tests and tests + (LONG_TESTS.get(name, []) if is_long else [])
            started = time.monotonic()
            run(binaries[name], tests, environment)
            print(f"{name}: {len(tests) if tests else 'all'} tests, {time.monotonic() - started:.0f} s", flush=True)
        lines = set(ran.read_text(encoding="utf-8").splitlines())
    names = kernels(libraries / "libcuda.so")
    orders = {name: [order for order in ORDERS if f"{name} {order}" in lines] for name in names}
    missing = [name for name, ran in orders.items() if len(ran) < (len(ORDERS) if is_long else 1)]
    if not names or missing:
        sys.exit("\n".join(f"{name}: no test above ran it in other orders than {orders[name]}" for name in missing))
    whole = sum(len(ran) == len(ORDERS) for ran in orders.values())
    print(f"{len(names)} kernels, {whole} of them in {len(ORDERS)} orders: no access out of bounds")


if __name__ == "__main__":
    main()
