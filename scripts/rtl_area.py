#!/usr/bin/env python3
"""Prints the areas of the hardware in rtl/ (docs/rtl.md).

usage: rtl_area.py [LIBERTY]

Without a Liberty file, areas are in gates of no particular process. Needs Yosys.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
RTL = ROOT / "rtl"
OUT = ROOT / "target" / "rtl"
# Modules whose areas are printed. Below: the numbers of cells in a unit of 64 lanes, and in a separate transform and array.
AREAS = [
    "product",
    "modmul",
    "f1_modmul",
    "montgomery_modmul",
    "butterfly",
    "multiply_add",
    "dit_cell",
    "dif_cell",
    "product_cell",
]
UNIT = {"dit_cell": 192, "dif_cell": 192, "product_cell": 128}
SEPARATE = {"butterfly": 384, "modmul": 128, "multiply_add": 512}


def area(liberty=None):
    """Returns a table of areas by a Liberty file, in its unit."""
    library = Path(liberty).resolve() if liberty else RTL / "gates.lib"
    sources = [
        RTL / "src" / f"{name}.v"
        for name in ("product", "multiple", "reduction", "modmul", "modadd", "modsub", "dit_cell", "dif_cell", "product_cell")
    ]
    sources += sorted((RTL / "baselines").glob("*.v"))
    # Modules are mapped separately and not flattened, so that common parts have the same area in all modules.
    script = [
        f"read_verilog -I{RTL}/src {' '.join(map(str, sources))}",
        "proc",
        "hierarchy -check",
        "synth -noabc",
        "dfflegalize -cell $_DFF_P_ x",
        f"dfflibmap -liberty {library}",
        f"abc -liberty {library} -script +strash;ifraig;scorr;dc2;dch,-f;map,-a;topo",
        "opt_clean",
        *(f"tee -o {OUT}/area-{top} stat -top {top} -liberty {library}" for top in AREAS),
    ]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "area.ys").write_text("\n".join(script) + "\n")
    command = [debian.program("yosys"), "-q", "-s", OUT / "area.ys"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"yosys: exit code {done.returncode}\n{done.stdout[-8000:]}")
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
    lines.append(
        f"cells of a unit of 64 lanes: {unit:.0f}; a transform and an array apart: {separate:.0f}, "
        f"{separate / unit:.2f} times as much"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    print(area(*sys.argv[1:]))
