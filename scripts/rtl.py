#!/usr/bin/env python3
"""The hardware of rtl/: simulated, proven, and measured.

usage: test_rtl.py smoke | all | area [LIBERTY]

`smoke` is the unit of 8 lanes by two simulators, and the proofs; `all` adds 16 and 64 lanes, and prints what `area` does:
gates, of no particular process unless a Liberty file is given. Either compares the intervals and latencies that it saw
with sim/ive/arch.toml, and fails if it takes longer than it may.

Needs Verilator, Icarus Verilog, Yosys and Z3; where they are not there and this may install packages, it installs
Debian's.
"""

import json
import os
import re
import resource
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "rtl"
OUT = ROOT / "target" / "rtl"
ARCH = ROOT / "sim" / "ive" / "arch.toml"
CARGO = os.environ.get("CARGO", "cargo")
PRIMES = range(4)
# Units with fewer lanes than IVE's have the same cells and stages.
ALL_LANES = [64, 16, 8]
# Cycles of a stage.
BUTTERFLY = 5
# Five minutes of two processors; counted in their time, so that other work on the machine makes no difference.
MOST_SECONDS = 600
# Faults that a proof must find: of which file what, and what stands in its place.
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


def tool(name, package=None):
    return debian.program([name], [package or name])


def run(*command, **options):
    """What a command printed; all of it and an error if it failed."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode != 0:
        raise RuntimeError(f"{done.stdout[-8000:]}\n{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def lint(lanes):
    run(tool("verilator"), "--lint-only", "-Wall", f"-I{RTL}/src", "--top-module", "sysnttu", f"-GLANES={lanes}",
        RTL / "src" / "sysnttu.v")
    return "no warnings"


def program(lanes):
    """The operations of a unit and their results, by the project's own arithmetic."""
    folder = OUT / str(lanes)
    folder.mkdir(parents=True, exist_ok=True)
    command = [CARGO, "run", "--quiet", "--locked", "--package", "spirea-math", "--example", "sysnttu_vectors", "--",
               str(lanes)]
    with (folder / "program").open("w") as out:
        subprocess.run(command, cwd=ROOT, stdout=out, check=True)
    return folder / "program"


def verilator_bench(lanes):
    """Builds the bench of a unit."""
    tool("g++")
    folder = OUT / str(lanes) / "verilated"
    folder.parent.mkdir(parents=True, exist_ok=True)
    run(tool("verilator"), "--cc", "--exe", "--build", "-j", "2", "-O3", "-Wall", "--output-split", "20000",
        "-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1", f"-I{RTL}/src", "--top-module", "sysnttu",
        f"-GLANES={lanes}", "--Mdir", folder, "-o", "bench", RTL / "src" / "sysnttu.v", RTL / "bench" / "sysnttu.cpp",
        env={key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS")})
    return f"built {folder / 'bench'}"


def verilated(lanes):
    """Runs it; what it measured must be what the architecture's file has."""
    seen = json.loads(run(OUT / str(lanes) / "verilated" / "bench", OUT / str(lanes) / "program", lanes))
    compare(seen)
    return json.dumps(seen)


def compare(seen):
    """The measured intervals and latencies are those that the simulator of sim/ive counts with.

    A smaller unit is held to what its size makes of them: a row less to fill, a stage less to pass.
    """
    arch = tomllib.loads(ARCH.read_text())
    core, latency = arch["core"], arch["latency"]
    full, lanes = core["lanes"], seen["lanes"]
    stages = 2 * ((full // lanes).bit_length() - 1)
    expected = {
        "transform_interval": arch["scheme"]["degree"] // full // (full // lanes),
        "transform_latency": latency["ntt"] - stages * BUTTERFLY - (full - lanes),
        "rows": core["array_rows"] * lanes // full,
        "columns": core["array_columns"] - stages,
        "product_overhead": core["array_overhead"] - (full - lanes) // 2,
    }
    different = [f"{name} is {seen[name]}, and by {ARCH.relative_to(ROOT)} {value}"
                 for name, value in expected.items() if seen[name] != value]
    if different:
        raise RuntimeError(f"{lanes} lanes: {'; '.join(different)}")


def icarus(top, *arguments):
    """A bench in Verilog by the event simulator."""
    OUT.mkdir(parents=True, exist_ok=True)
    compiled = OUT / top
    run(tool("iverilog"), "-g2005-sv", f"-I{RTL}/src", "-y", RTL / "src", "-y", RTL / "baselines", "-s", top, "-o",
        compiled, RTL / "bench" / f"{top}.v")
    return run(tool("vvp", "iverilog"), "-n", compiled, *arguments).strip()


def formula(name, prime, fault=None):
    """What a solver is asked about a prime; with a fault, of sources that have it."""
    script, stem = (RTL / "formal" / f"{name}.ys").read_text(), f"{name}-{prime}"
    OUT.mkdir(parents=True, exist_ok=True)
    if fault is not None:
        file, right, wrong = FAULTS[name][fault]
        text, stem = (RTL / "src" / file).read_text(), f"{stem}-fault-{fault}"
        if text.count(right) != 1 or f"rtl/src/{file}" not in script:
            raise RuntimeError(f"rtl/src/{file} does not have the place of a fault once: {right}")
        planted = OUT / f"{stem}-{file}"
        planted.write_text(text.replace(right, wrong))
        script = script.replace(f"rtl/src/{file}", str(planted))
    (OUT / f"{stem}.ys").write_text(script)
    run(tool("yosys"), "-q", "-D", f"PRIME={prime}", "-s", OUT / f"{stem}.ys", "-b", "smt2 -wires", "-o",
        OUT / f"{stem}.smt2")
    return OUT / f"{stem}.smt2"


def solver(path, *options):
    """Whether all that was asked holds, of five cycles: all that a pipeline of four that begins with anything can show."""
    tool("z3")
    command = [tool("yosys-smtbmc", "yosys"), "-s", "z3", "--noprogress", "-t", "5", *options, path]
    said = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    passed, failed = "Status: PASSED" in said, "Status: FAILED" in said
    if passed == failed:
        raise RuntimeError(said[-8000:])
    return passed, said


def proof(name, prime):
    """Assertions of rtl/formal about a prime, for all inputs, and that there are inputs for which they say something."""
    path = formula(name, prime)
    for options in [], ["-c"]:
        passed, said = solver(path, *options)
        if not passed:
            raise RuntimeError(said[-8000:])
    return "holds, and is of something"


def planted(name, fault):
    """The proof finds a fault."""
    passed, _ = solver(formula(name, PRIMES[0], fault))
    if passed:
        raise RuntimeError(f"not found: {FAULTS[name][fault]}")
    return "found"


def conclusion():
    said = run(tool("z3"), RTL / "formal" / "conclusion.smt2").strip()
    if said != "unsat":
        raise RuntimeError(f"rtl/formal/conclusion.smt2: {said}")
    return "holds"


# Modules of which the area is shown, and what a unit of 64 lanes has of the cells.
AREAS = ["product", "modmul", "f1_modmul", "montgomery_modmul", "butterfly", "multiply_add", "dit_cell", "dif_cell",
         "product_cell"]
UNIT = {"dit_cell": 192, "dif_cell": 192, "product_cell": 128}
SEPARATE = {"butterfly": 384, "modmul": 128, "multiply_add": 512}


def area(liberty=None):
    """Areas by a Liberty file, in its unit."""
    library = Path(liberty).resolve() if liberty else RTL / "gates.lib"
    sources = [RTL / "src" / f"{name}.v" for name in
               ("product", "multiple", "reduction", "modmul", "modadd", "modsub", "dit_cell", "dif_cell", "product_cell")]
    sources += sorted((RTL / "baselines").glob("*.v"))
    # Modules are mapped one by one and stay apart, so that what they have in common counts the same in all.
    script = [
        f"read_verilog -I{RTL}/src {' '.join(map(str, sources))}", "proc", "hierarchy -check", "synth -noabc",
        "dfflegalize -cell $_DFF_P_ x", f"dfflibmap -liberty {library}",
        f"abc -liberty {library} -script +strash;ifraig;scorr;dc2;dch,-f;map,-a;topo", "opt_clean",
        *(f"tee -o {OUT}/area-{top} stat -top {top} -liberty {library}" for top in AREAS),
    ]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "area.ys").write_text("\n".join(script) + "\n")
    run(tool("yosys"), "-q", "-s", OUT / "area.ys")
    areas = {}
    for top in AREAS:
        said = (OUT / f"area-{top}").read_text()
        if re.search(r"Area for cell type \$\S+ is unknown", said):
            raise RuntimeError(f"{library} has no area for a cell of {top}:\n{said}")
        areas[top] = float(re.findall(rf"Chip area for (?:top )?module '\\{top}': ([0-9.]+)", said)[-1])
    lines = [f"areas by {os.path.relpath(library, ROOT)}", f"{'':<20}{'area':>12}{'of modmul':>12}{'of butterfly':>14}"]
    for top, value in areas.items():
        lines.append(f"{top:<20}{value:>12.1f}{value / areas['modmul']:>12.3f}{value / areas['butterfly']:>14.3f}")
    unit, separate = (sum(areas[cell] * count for cell, count in of.items()) for of in (UNIT, SEPARATE))
    lines.append(f"cells of a unit of 64 lanes: {unit:.0f}; a transform and an array apart: {separate:.0f}, "
                 f"{separate / unit:.2f} times as much")
    return "\n".join(lines)


def all_of(parts):
    """Runs parts two at a time and shows each when it has ended: pairs of a name and a function, which may give more."""
    failed = []

    def part(name, function, *arguments):
        started = time.monotonic()
        try:
            said = function(*arguments)
        except Exception as error:  # shown, and the others go on
            said = f"FAILED: {error}"
            failed.append(name)
        print(f"{name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)

    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(part, *of) for of in parts]:
            result.result()
    if failed:
        sys.exit(f"FAILED: {', '.join(failed)}")


def main(arguments):
    match arguments:
        case ["smoke"]:
            lanes, long = [8], []
        case ["all"]:
            lanes = ALL_LANES
            long = [("multipliers to compare with", icarus, "baselines"), ("area", area)]
        case ["area", *liberty] if len(liberty) <= 1:
            print(area(*liberty))
            return
        case _:
            sys.exit(__doc__)
    proofs = [(f"{name}, prime {i}", proof, name, i) for i in PRIMES for name in ("modmul", "add_subtract")]
    proofs.append(("what follows for modmul", conclusion))
    proofs += [(f"a fault in {of[0]}", planted, name, i) for name, faults in FAULTS.items() for i, of in enumerate(faults)]
    programs = [(f"program for {n} lanes", program, n) for n in lanes]
    all_of([(f"verilated {n} lanes", verilator_bench, n) for n in lanes] + programs + proofs + long
           + [(f"lint of {n} lanes", lint, n) for n in lanes])
    smoke = ("Icarus, 8 lanes", icarus, "smoke", f"+program={OUT / '8' / 'program'}")
    all_of([smoke] + [(f"bench of {n} lanes", verilated, n) for n in lanes])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = children.ru_utime + children.ru_stime
    if seconds > MOST_SECONDS:
        sys.exit(f"FAILED: {seconds:.0f} s of processor time, more than {MOST_SECONDS}")
    print(f"the hardware computes what the software does, at the intervals of the simulator ({seconds:.0f} s of processor time)")


if __name__ == "__main__":
    main(sys.argv[1:])
