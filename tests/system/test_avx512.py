"""Tests of the CPU backend's AVX-512 path, on an emulated processor with AVX-512.

A processor with AVX-512 runs them with all other tests. The results are exact; the timings mean nothing.
"""

import os
from pathlib import Path

import pytest

import spirea_report
from system.programs import ROOT, cargo_messages, run, rust_tests

# Tests of each program, as few as reach every kernel: the emulator runs about 30 million instructions per second. The full
# form draws some of them. The long form has them all and further ones, with more cases of each property.
CHOSEN = {
    "spirea_cpu": ["aes_expands"],
    "it": [
        "scalar_fold::every_batch",
        "scalar_fold::random_shapes",
        "module_fold::random_shapes",
        "module_fold::the_largest_integers",
        "ring::random_pipelines",
        "share_fold::any_shape",
        "share_fold::every_function",
    ],
}
# Number of a program's tests that the full form draws.
DRAWN = 4
LONG = {"it": ["scalar_fold::", "module_fold::"]}
CASES, SECONDS = (6, 3600) if spirea_report.LONG else (3, 1200)


def has_avx512():
    return "avx512_vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()


pytestmark = [
    pytest.mark.skipif(has_avx512(), reason="this processor has AVX-512: the tests of spirea-cpu use it"),
    *([] if has_avx512() else [pytest.mark.needs("bochs")]),
]


@pytest.fixture(scope="module")
def programs():
    return rust_tests(cargo_messages(), "crates/cpu")


@pytest.mark.parametrize("name", CHOSEN)
def test_program(programs, name):
    environment = os.environ | {"SPIREA_PROPERTY_CASES": str(CASES), "AVX512_EMULATED_TIMEOUT": str(SECONDS)}
    emulated = ROOT / "scripts/avx512-emulated.sh"
    chosen = spirea_report.drawn(f"tests of {name} with AVX-512", CHOSEN[name], DRAWN)
    chosen = chosen + (LONG.get(name, []) if spirea_report.LONG else [])
    said = run(emulated, programs[name], "--test-threads", "1", *chosen, env=environment).stdout
    assert "test result: ok." in said and " 0 passed" not in said, said
