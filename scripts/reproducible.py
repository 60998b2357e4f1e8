"""Flags and variables that make compiled files depend on the sources and the compiler alone."""

import os
import subprocess
from pathlib import Path


def remapped(rustc, root):
    """Flags of rustc that keep this machine's paths out of what it compiles. `root` is the folder of the sources."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    print_sysroot = [rustc, "--print", "sysroot"]
    sysroot = subprocess.run(print_sysroot, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    names = {root: "spirea", home: "cargo", sysroot: "rust"}
    return [f"--remap-path-prefix={path}={name}" for path, name in names.items()]


def variable(triple, name):
    """The variable of the environment that sets an option of Cargo for one target: LINKER or RUSTFLAGS."""
    return f"CARGO_TARGET_{triple.upper().replace('-', '_')}_{name}"
