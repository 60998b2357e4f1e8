"""Tests of the CPU backend's AVX-512 path, on an emulated processor with AVX-512.

A processor with AVX-512 runs them with all other tests. Elsewhere the tests are built as static programs for the emulator. The
results are exact; the timings mean nothing.
"""

import json
import os
from pathlib import Path

import pytest

from system.programs import ROOT, cargo, run, target_folder

# Each entry has the program, the number of cases, and the tests. The emulator runs about 30 million instructions per second,
# so there are only a few cases of each property, and for some modules only tests whose cases cover every kernel.
RUNS = {
    "aes": ("spirea_cpu", 4, ["aes_expands"]),
    "folds": ("it", 4, ["scalar_fold::", "module_fold::"]),
    "rings": ("it", 6, ["ring::random_pipelines"]),
    "shares": ("it", 4, ["share_fold::any_shape", "share_fold::every_function"]),
}
TARGET = target_folder() / "avx512"


def has_avx512():
    return "avx512_vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()


pytestmark = [
    pytest.mark.skipif(has_avx512(), reason="this processor has AVX-512: the tests of spirea-cpu use it"),
    *([] if has_avx512() else [pytest.mark.needs("bochs")]),
]


@pytest.fixture(scope="module")
def programs():
    """Static test programs, by name."""
    built = cargo(
        *("test", "--locked", "--release", "--package", "spirea-cpu", "--test", "it", "--lib", "--no-run"),
        *("--target", "x86_64-unknown-linux-gnu", "--message-format", "json-render-diagnostics"),
        CARGO_TARGET_DIR=str(TARGET),
        RUSTFLAGS="-C target-feature=+crt-static",
    )
    messages = [message for message in map(json.loads, built.splitlines()) if message.get("executable")]
    return {message["target"]["name"]: message["executable"] for message in messages}


@pytest.mark.parametrize("name", RUNS)
def test_program(programs, name):
    program, cases, chosen = RUNS[name]
    environment = os.environ | {"SPIREA_PROPERTY_CASES": str(cases), "AVX512_EMULATED_TIMEOUT": "600"}
    emulated = ROOT / "scripts/avx512-emulated.sh"
    said = run(emulated, programs[program], "--test-threads", "1", *chosen, env=environment).stdout
    assert "test result: ok." in said and " 0 passed" not in said, said
