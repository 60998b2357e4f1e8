"""Tests of the hardware in rtl/: simulation, proofs and areas.

The short form simulates the unit of 8 lanes by two simulators, and runs the proofs. CI_FULL=1 adds 16 and 64 lanes, and the
areas. The benches' intervals and latencies must equal those in sim/ive/arch.toml.
"""

import json
import os
import resource
import subprocess
import tomllib

import pytest

import debian
import rtl_area
from system.programs import ROOT, cargo, run

pytestmark = pytest.mark.needs("g++", "iverilog", "verilator", "vvp", "yosys", "yosys-smtbmc", "z3")

RTL = ROOT / "rtl"
OUT = ROOT / "target" / "rtl"
ARCH = ROOT / "sim" / "ive" / "arch.toml"
PRIMES = range(4)
# Smaller units than IVE's 64 lanes have the same cells and stages.
ALL_LANES = [8, pytest.param(16, marks=pytest.mark.full), pytest.param(64, marks=pytest.mark.full)]
# Cycles of a stage.
BUTTERFLY = 5
# Limit of processor time of all tests in this module, which does not depend on the load of the machine.
MOST_SECONDS = 600
# Faults that a proof must find: the file, the right text, and the wrong text in its place.
FAULTS = {
    "modmul": [
        ("reduction.v", "half[14:0]), .r(second_multiple)", "half[15:1]), .r(second_multiple)"),
        ("reduction.v", "(q & {`WORD{difference[28]}})", "`WORD'd0"),
        ("modmul.v", "assign prime_after_4 = primes[7:6];", "assign prime_after_4 = primes[5:4];"),
    ],
    "add_subtract": [
        ("modadd.v", "assign r = difference[`WORD] ?", "assign r = sum[`WORD] ?"),
        ("modsub.v", "{`WORD{difference[`WORD]}}", "{`WORD{1'b1}}"),
    ],
}
ALL_FAULTS = [(name, number) for name, faults in FAULTS.items() for number in range(len(faults))]


def tool(name, *arguments, **options):
    return run(debian.find(name), *arguments, cwd=ROOT, **options).stdout


@pytest.fixture(scope="module", autouse=True)
def processor_time():
    def seconds():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = seconds()
    yield
    took = seconds() - before
    assert took <= MOST_SECONDS, f"{took:.0f} s of processor time, more than {MOST_SECONDS}"


@pytest.fixture(scope="module")
def out():
    OUT.mkdir(parents=True, exist_ok=True)
    return OUT


@pytest.fixture(scope="module")
def program(out):
    """Function that writes the operations of a unit and their results, computed by the project's own arithmetic."""
    cargo("build", "--quiet", "--locked", "--package", "spirea-math", "--example", "sysnttu_vectors")

    def of(lanes):
        path = out / str(lanes) / "program"
        path.parent.mkdir(exist_ok=True)
        command = ("run", "--quiet", "--locked", "--package", "spirea-math", "--example", "sysnttu_vectors", "--", str(lanes))
        path.write_text(cargo(*command))
        return path

    return of


@pytest.mark.parametrize("lanes", ALL_LANES)
def test_lint(lanes):
    tool(
        "verilator",
        "--lint-only",
        "-Wall",
        f"-I{RTL}/src",
        "--top-module",
        "sysnttu",
        f"-GLANES={lanes}",
        RTL / "src/sysnttu.v",
    )


@pytest.fixture(scope="module")
def benches(out, program, side_by_side):
    """Measurements of the chosen units, by benches in Verilator."""

    def bench(lanes):
        folder = out / str(lanes) / "verilated"
        folder.parent.mkdir(exist_ok=True)
        tool(
            *("verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "-Wall", "--output-split", "20000"),
            *("-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1", f"-I{RTL}/src", "--top-module", "sysnttu"),
            *(f"-GLANES={lanes}", "--Mdir", folder, "-o", "bench", RTL / "src/sysnttu.v", RTL / "bench/sysnttu.cpp"),
            env={key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS")},
        )
        return json.loads(run(folder / "bench", program(lanes), lanes, cwd=ROOT).stdout)

    return side_by_side("test_bench", "lanes", bench)


@pytest.mark.drawn("benches of the accelerator's unit", 1)
@pytest.mark.parametrize("lanes", ALL_LANES)
def test_bench(benches, lanes):
    """The measured intervals and latencies equal those of the simulator in sim/ive.

    For a smaller unit they are adjusted to its size: fewer rows to fill, and fewer stages to pass.
    """
    seen = benches[lanes].result()
    arch = tomllib.loads(ARCH.read_text(encoding="utf-8"))
    core, latency = arch["core"], arch["latency"]
    full = core["lanes"]
    stages = 2 * ((full // lanes).bit_length() - 1)
    expected = {
        "lanes": lanes,
        "transform_interval": arch["scheme"]["degree"] // full // (full // lanes),
        "transform_latency": latency["ntt"] - stages * BUTTERFLY - (full - lanes),
        "rows": core["array_rows"] * lanes // full,
        "columns": core["array_columns"] - stages,
        "product_overhead": core["array_overhead"] - (full - lanes) // 2,
    }
    assert {name: seen[name] for name in expected} == expected, f"the bench, and {ARCH.relative_to(ROOT)}"


def icarus(out, top, *arguments):
    """Runs a bench in Verilog with the event simulator."""
    compiled = out / top
    sources = ("-y", RTL / "src", "-y", RTL / "baselines", "-s", top, "-o", compiled, RTL / f"bench/{top}.v")
    tool("iverilog", "-g2005-sv", f"-I{RTL}/src", *sources)
    return tool("vvp", "-n", compiled, *arguments)


def test_unit_by_icarus(out, program):
    icarus(out, "smoke", f"+program={program(8)}")


@pytest.mark.full
def test_multipliers_to_compare_with(out):
    icarus(out, "baselines")


def formula(out, name, prime, fault=None):
    """Writes the formula for the solver about a prime; with a fault, from sources with that fault."""
    script, stem = (RTL / f"formal/{name}.ys").read_text(), f"{name}-{prime}"
    if fault is not None:
        file, right, wrong = FAULTS[name][fault]
        text, stem = (RTL / "src" / file).read_text(), f"{stem}-fault-{fault}"
        assert text.count(right) == 1 and f"rtl/src/{file}" in script, f"rtl/src/{file} does not have this once: {right}"
        planted = out / f"{stem}-{file}"
        planted.write_text(text.replace(right, wrong))
        script = script.replace(f"rtl/src/{file}", str(planted))
    (out / f"{stem}.ys").write_text(script)
    smt2 = out / f"{stem}.smt2"
    tool("yosys", "-q", "-D", f"PRIME={prime}", "-s", out / f"{stem}.ys", "-b", "smt2 -wires", "-o", smt2)
    return smt2


def solve(path, *options):
    """Asks a solver about five cycles, which cover all states of a pipeline of four. Returns True if all assertions hold, and
    the log."""
    command = [debian.find("yosys-smtbmc"), "-s", "z3", "--noprogress", "-t", "5", *options, str(path)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    passed, failed = "Status: PASSED" in done.stdout, "Status: FAILED" in done.stdout
    assert passed != failed, done.stdout[-8000:]
    return passed, done.stdout


@pytest.fixture(scope="module")
def proofs(out, side_by_side):
    def prove(of):
        path = formula(out, *of)
        return [solve(path), solve(path, "-c")]

    return side_by_side("test_proof", "of", prove)


@pytest.mark.parametrize("of", [(name, prime) for prime in PRIMES for name in FAULTS], ids=lambda of: f"{of[0]}-{of[1]}")
def test_proof(proofs, of):
    """The assertions of rtl/formal about a prime hold for all inputs, and are not vacuous."""
    for passed, said in proofs[of].result():
        assert passed, said[-8000:]


@pytest.fixture(scope="module")
def faults(out, side_by_side):
    return side_by_side("test_fault_is_found", "of", lambda of: solve(formula(out, of[0], PRIMES[0], of[1])))


@pytest.mark.parametrize("of", ALL_FAULTS, ids=lambda of: f"{of[0]}-{of[1]}")
def test_fault_is_found(faults, of):
    passed, said = faults[of].result()
    assert not passed, said[-8000:]


def test_conclusion():
    """The solver proves the conclusion for modmul."""
    assert tool("z3", RTL / "formal/conclusion.smt2").strip() == "unsat"


@pytest.mark.full
def test_areas():
    assert rtl_area.area()
