"""Runs every CUDA kernel on the CPU emulation under AddressSanitizer, and compares with the oracles.

Planted accesses out of bounds must be reported. The tests of cuda_asan.toml must pass, and must run every kernel to its end.
With SPIREA_CONFORMANCE=long there are more tests, and every kernel runs in three orders of threads. CXX is the compiler; the
default is g++.
"""

import ctypes
import functools
import os
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import spirea_report
from system.programs import ROOT, cargo_messages, run, rust_tests

ORDERS = ["forward", "reversed", "shuffled"]
CHOSEN = tomllib.loads(Path(__file__).with_name("cuda_asan.toml").read_text(encoding="utf-8"))
CXX = os.environ.get("CXX", "g++")
pytestmark = [] if "CXX" in os.environ else pytest.mark.needs("g++")


@pytest.fixture(scope="module")
def built():
    """Test programs of spirea-cuda, by name, and the folder of the emulation's libraries."""
    messages = cargo_messages(SPIREA_EMULATION_ASAN="1")
    [libraries] = [
        Path(message["out_dir"])
        for message in messages
        if message["reason"] == "build-script-executed" and "cuda/emulation" in message["package_id"]
    ]
    return SimpleNamespace(programs=rust_tests(messages, "crates/cuda"), libraries=libraries)


def runtime_library(name):
    """Returns the path of one of the compiler's libraries."""
    path = run(CXX, f"-print-file-name={name}").stdout.strip()
    assert "/" in path, f"{CXX} has no {name}: install its AddressSanitizer (libasan), or set CXX to a compiler that has one"
    return path


def kernels(library):
    """Returns the names of all kernels of an emulation."""
    kernel = ctypes.CDLL(str(library)).spirea_emulation_kernel
    kernel.restype, kernel.argtypes = ctypes.c_char_p, [ctypes.c_size_t]
    names = []
    while name := kernel(len(names)):
        names.append(name.decode())
    return names


@pytest.fixture(scope="module")
def sanitized(built, tmp_path_factory):
    """Function that runs a program's tests under the sanitizer once, and the file that lists the kernels that ran."""
    ran = tmp_path_factory.mktemp("asan") / "ran"
    environment = os.environ | {
        "SPIREA_CUDA_DRIVER": str(built.libraries / "asan/libcuda.so"),
        "SPIREA_EMULATION_RAN": str(ran),
        "LD_PRELOAD": " ".join(map(runtime_library, ["libasan.so", "libstdc++.so"])),
        # The emulation and the test harness never free some memory, which is not a leak.
        "ASAN_OPTIONS": "detect_leaks=0",
    }

    @functools.cache
    def once(name):
        tests = CHOSEN["tests"][name]
        if tests == "all":
            run(built.programs[name], cwd=ROOT / "crates/cuda", env=environment)
            return
        tests = tests + (CHOSEN["long"].get(name, []) if spirea_report.LONG else [])
        said = run(built.programs[name], "--exact", *tests, cwd=ROOT / "crates/cuda", env=environment).stdout
        assert f"test result: ok. {len(tests)} passed" in said, f"{name} has not all of {', '.join(tests)}\n{said}"

    return SimpleNamespace(run=once, ran=ran)


def test_planted_accesses_are_reported(built):
    run(built.programs["address_sanitizer"], cwd=ROOT / "crates/cuda")


@pytest.mark.parametrize("name", CHOSEN["tests"])
def test_program(sanitized, name):
    sanitized.run(name)


def test_every_kernel_has_run(built, sanitized):
    for name in CHOSEN["tests"]:
        sanitized.run(name)
    lines = set(sanitized.ran.read_text(encoding="utf-8").splitlines())
    names = kernels(built.libraries / "libcuda.so")
    assert names
    wanted = len(ORDERS) if spirea_report.LONG else 1
    orders = {name: [order for order in ORDERS if f"{name} {order}" in lines] for name in names}
    missing = {name: ran for name, ran in orders.items() if len(ran) < wanted}
    assert not missing, f"the tests of cuda_asan.toml ran these in no more orders: {missing}"
