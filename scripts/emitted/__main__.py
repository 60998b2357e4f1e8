#!/usr/bin/env python3
"""Runs the machine code of the CUDA pack on this machine's processor.

usage: python3 scripts/emitted check [--arch 80,90a] [--only SOURCE,...] [--spirea PATH] [--filter TEXT]
       python3 scripts/emitted faults [--spirea PATH]

The kernels of the emulated device are compiled from source by g++. `check` closes the gap to those that a GPU runs: it
translates the pack's machine code to C++ (docs/kernels/emitted.md), instruction by instruction, and compares every kernel's
results with the processor's, by `spirea gpu check`, for each architecture. `faults` plants a fault in the machine code, one
after another, and fails unless each is detected.

--only translates these sources alone, for checks that need no others. The default of --spirea is the program of the tests,
target/debug/spirea. The default of --arch leaves out 86 and 89, which differ little from 80.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cuda_compiler import ROOT
from cuda_sources import PackError, words
from emitted import build, faults
from emitted.operands import Refusal

# Orders in which the emulation runs a block's threads, where no barrier orders them.
ORDERS = ("forward", "reversed", "shuffled")


def checked(spirea, driver, architecture, order, text):
    """Compares the kernels of a driver with the processor. Returns the exit code and the lines."""
    settings = {
        "SPIREA_CUDA_DRIVER": str(driver),
        "SPIREA_EMULATION_COMPUTE": architecture.rstrip("a"),
        "SPIREA_EMULATION_ORDER": str(ORDERS.index(order)),
    }
    command = [spirea, "gpu", "check", "--scale", "tiny", "--filter", text]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()


def check(options):
    """Checks the machine code of each architecture; that of the first in all orders of threads."""
    wrong = []
    for architecture in options.arch:
        driver = build.linked(build.sources(architecture, options.only), build.FOLDER / architecture)
        for order in ORDERS if architecture == options.arch[0] else ORDERS[:1]:
            code, lines = checked(options.spirea, driver, architecture, order, options.filter)
            print(f"sm_{architecture}, threads {order}: {lines[-1] if lines else 'no output'}", flush=True)
            if code != 0:
                wrong.append(architecture)
                print("\n".join(line for line in lines if "FAILED" in line), flush=True)
    return f"wrong: {', '.join(dict.fromkeys(wrong))}" if wrong else None


def find_faults(options):
    """Plants each fault in the machine code. Fails if no check detects one of them."""
    architecture, missed = faults.ARCHITECTURE, []
    files = build.sources(architecture)
    for number, fault in enumerate(faults.FAULTS):
        folder = build.FOLDER / f"fault-{number}"
        planted = build.translated(fault.source, architecture, folder, fault.planted)
        driver = build.linked([planted if path.stem == fault.source else path for path in files], folder)
        found = [order for order in ORDERS if checked(options.spirea, driver, architecture, order, fault.check)[0]]
        print(f"{fault.kernel}: {fault.about}: {', '.join(found) or 'NOT DETECTED'}", flush=True)
        if not found:
            missed.append(fault.about)
    return f"not detected: {', '.join(missed)}" if missed else None


VERBS = {"check": check, "faults": find_faults}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--spirea", type=Path, default=ROOT / "target/debug/spirea")
    parser.add_argument("--arch", type=words, default=["90a", "75", "80", "100", "120"])
    parser.add_argument("--only", type=words, default=[])
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    if unknown := set(options.arch) - set(build.TARGETS):
        parser.error(f"no architecture {', '.join(unknown)}; there are {', '.join(build.TARGETS)}")
    try:
        return VERBS[options.verb](options)
    except (Refusal, PackError) as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
