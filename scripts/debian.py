"""Debian packages of foreign programs that tests and tools run."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TARGET = Path(__file__).resolve().parent.parent / "target"


class Wanted(NamedTuple):
    """A program: its possible names, the packages that contain it, and the files that it needs."""

    names: tuple
    packages: tuple
    files: tuple = ()


WANTED = {
    "bwrap": Wanted(("bwrap",), ("bubblewrap",)),
    "bochs": Wanted(
        ("bochs-bin",),
        ("bochs", "bochs-term", "bochsbios", "vgabios", "isolinux", "syslinux-common", "xorriso", "busybox-static"),
        (
            "/usr/bin/xorriso",
            "/usr/lib/ISOLINUX/isolinux.bin",
            "/usr/lib/syslinux/modules/bios/ldlinux.c32",
            "/usr/share/bochs/BIOS-bochs-latest",
            "/usr/share/vgabios/vgabios.bin",
        ),
    ),
    "chromium": Wanted(("chromium", "chromium-browser", "google-chrome"), ("chromium",)),
    "clang": Wanted(("clang",), ("clang", "lld")),
    "g++": Wanted(("g++",), ("g++",)),
    "haproxy": Wanted(("haproxy",), ("haproxy",)),
    "iverilog": Wanted(("iverilog",), ("iverilog",)),
    "ld.lld": Wanted(("ld.lld",), ("clang", "lld")),
    "nginx": Wanted(("nginx",), ("nginx-light",)),
    "podman": Wanted(("podman",), ("podman", "runc")),
    "qemu-aarch64-static": Wanted(
        ("qemu-aarch64-static",),
        ("qemu-user-static", "libc6-arm64-cross"),
        ("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",),
    ),
    "redis-server": Wanted(("redis-server",), ("redis-server",)),
    "strace": Wanted(("strace",), ("strace",)),
    "systemd-analyze": Wanted(("systemd-analyze",), ("systemd",)),
    "valgrind": Wanted(("valgrind",), ("valgrind", "libc6-dbg")),
    "verilator": Wanted(("verilator",), ("verilator",)),
    "vvp": Wanted(("vvp",), ("iverilog",)),
    # Used if the installed Rust lacks the target wasm32-unknown-unknown: Debian's Rust, with sources of the standard library.
    "wasm-ld": Wanted(("wasm-ld-19", "wasm-ld"), ("rustc-web", "rust-web-src", "lld-19")),
    "yosys": Wanted(("yosys",), ("yosys",)),
    "yosys-smtbmc": Wanted(("yosys-smtbmc",), ("yosys",)),
    "z3": Wanted(("z3",), ("z3",)),
}


def find(name):
    """Returns the path of a program, or None if the program or a file that it needs is missing."""
    wanted = WANTED[name]
    if not all(map(os.path.exists, wanted.files)):
        return None
    return next(filter(None, map(shutil.which, wanted.names)), None)


def packages(names):
    """Returns the packages of programs."""
    return sorted({package for name in names for package in WANTED[name].packages})


def remedy(name):
    return f"there is no {name}: apt-get install {' '.join(WANTED[name].packages)}"


def may_install():
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(names):
    """Prints the packages of programs and installs them."""
    wanted = packages(names)
    print(f"installing Debian packages: {' '.join(wanted)}", file=sys.stderr, flush=True)
    TARGET.mkdir(exist_ok=True)
    # Tests run in parallel, and apt-get does not wait for another apt-get.
    with (TARGET / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *wanted]):
            done = subprocess.run(
                ["apt-get", *command],
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(f"apt-get {' '.join(command)}: exit code {done.returncode}\n{done.stdout}")


def program(name):
    """Returns the path of a program. If it is missing, installs it as root, or exits with the remedy."""
    if not find(name) and may_install():
        install([name])
    return find(name) or sys.exit(remedy(name))
