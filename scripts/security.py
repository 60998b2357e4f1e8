#!/usr/bin/env python3
"""Estimates the cost of attacks on the parameter sets by three models: the figures of each set in crates/lattice.

Needs Sage and the lattice-estimator (https://github.com/malb/lattice-estimator) on Python's module path:

    PYTHONPATH=lattice-estimator sage -python scripts/security.py [SET ...]

A set takes some minutes. Secrets are uniform ternary, noise has a standard deviation of 3.2, and samples are unlimited.
ML-KEM-512 is as the estimator defines it. The figures of MATZOV and BDGL16 are the least of primal uSVP, primal BDD and the
dual hybrid. Core-SVP is primal uSVP under ADPS16 and the geometric series assumption.
"""

import sys
from math import log2, prod

from estimator import LWE, ND, RC, schemes
from sage.all import oo

PACKING = [536608769, 533463041, 531628033]
SHORT = [1073692673, 1073668097]
ONION = [134176769, 134111233, 67084289, 67043329]
CONSERVATIVE = [1073692673, 1073668097, 1073651713]


def ternary(n, q):
    return LWE.Parameters(n=n, q=q, Xs=ND.Uniform(-1, 1), Xe=ND.DiscreteGaussian(3.2), m=oo)


SETS = {
    "module-1280, paper (LWE)": ternary(1280, 2**32),
    "module-1536": ternary(1536, 2**32),
    "fast, brief, paper (ring)": ternary(4096, prod(PACKING)),
    "small": ternary(4096, prod(SHORT)),
    "onion-30, onion-32": ternary(4096, prod(ONION)),
    "onion-26": ternary(4096, prod(CONSERVATIVE)),
    "ML-KEM-512": schemes.Kyber512,
}
ATTACKS = {"uSVP": LWE.primal_usvp, "BDD": LWE.primal_bdd, "dual hybrid": LWE.dual_hybrid}


def cost(attack, parameters, **models):
    return log2(float(attack(parameters, **models)["rop"]))


def main():
    for name in sys.argv[1:] or SETS:
        parameters, figures = SETS[name], []
        for model in (RC.MATZOV, RC.BDGL16):
            costs = {attack: cost(run, parameters, red_cost_model=model) for attack, run in ATTACKS.items()}
            least = min(costs, key=costs.get)
            figures.append(f"{type(model).__name__} {costs[least]:.2f} ({least})")
        core = cost(LWE.primal_usvp, parameters, red_cost_model=RC.ADPS16, red_shape_model="gsa")
        print(f"{name}: {', '.join(figures)}, core-SVP {core:.2f}", flush=True)


if __name__ == "__main__":
    main()
