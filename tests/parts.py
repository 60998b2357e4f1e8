"""The parts of the tests, in the order in which they start: what a part runs, what it needs, and when it runs."""

import os
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
FULL = os.environ.get("CI_FULL") == "1"
PYTHON = ROOT / "target" / "venv" / "bin" / "python"
SPIREA = ROOT / "target" / "debug" / "spirea"


@dataclass(frozen=True)
class Part:
    """A part of the tests."""

    name: str
    about: str
    # Run one after another, until one fails.
    commands: list
    # Parts that must have passed before.
    needs: tuple = ()
    # Debian's packages that it needs, by a program that each brings ("one|another": any of them).
    programs: dict = field(default_factory=dict)
    # Files and folders: the short form runs the part only if one of them differs from the base commit.
    files: tuple = ()
    only_full: bool = False
    folder: str = "."
    environment: dict = field(default_factory=dict)

    def touched(self, changed):
        """Whether one of the changed files is one of the part's."""
        return any(file == own or file.startswith(own.rstrip("/") + "/") for own in self.files for file in changed)


def pytest(*arguments):
    """A run of pytest in the tests' environment. Without the cache, the checkout stays as it is."""
    return [PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *arguments]


def system(*modules):
    """A run of modules of tests/system."""
    return pytest(*(f"tests/system/test_{module}.py" for module in modules))


# The simulator's own files. Changes of the crates below it show in `lint`, which compiles it, and in the full form.
IVE = ("sim/ive",)
RTL = ("rtl", "tests/system/test_rtl.py")
KERNELS = ("crates/cuda/kernels", "crates/cuda/pack", "scripts/cuda_pack.py", "tests/system/test_cuda_pack.py")
EMULATION = ("crates/cuda", "tests/system/test_cuda_asan.py")
PROTO = ("proto", "crates/wire/src/generated")
