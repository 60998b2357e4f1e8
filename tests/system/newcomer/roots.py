"""Roots in which a newcomer's commands run: without the checkout, without network, and without this machine's settings.

bubblewrap makes them, which needs no root where user namespaces are allowed.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import debian
from system.programs import CARGO, ROOT, run

# Folder of the newcomer, inside.
HOME = "/home/newcomer"
# Folder of cargo, inside.
CARGO_HOME = "/cargo"
# Folder of the tools that the checkout locks, inside.
TOOLS = "/tools"
# Libraries of glibc that a program for glibc 2.17 may ask for.
GLIBC = ("ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1")


@dataclass(frozen=True)
class Root:
    """A root: what bubblewrap mounts, the folder of the newcomer, and variables of the environment."""

    mounts: list
    home: Path
    variables: dict = field(default_factory=dict)

    def shell(self):
        """Returns the arguments of a shell inside, which takes a script as its next argument."""
        variables = {"HOME": HOME, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **self.variables}
        return [
            debian.find("bwrap"),
            *("--unshare-all", "--uid", "0", "--gid", "0", "--die-with-parent", "--clearenv"),
            *self.mounts,
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
            *("--bind", str(self.home), HOME, "--chdir", HOME),
            *(part for name, value in variables.items() for part in ("--setenv", name, value)),
            *("bash", "-c"),
        ]


def libraries(program):
    """Returns the libraries of a program, by the paths at which the loader looks for them."""
    said = run("ldd", program).stdout
    return [Path(path) for path in re.findall(r"(?:=> |^\s*)(/\S+)", said, re.MULTILINE)]


def copy(root, path, source=None):
    to = root / str(path).lstrip("/")
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source or path, to)


def bare(folder, *programs):
    """Makes a root with bash, the named programs of this machine and glibc, and nothing else."""
    root, home = folder / "root", folder / "home"
    home.mkdir()
    for name in ("bash", *programs):
        source = Path(shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")).resolve()
        copy(root, f"/usr/bin/{name}", source)
        for library in libraries(source):
            copy(root, library)
    (library,) = [path for path in libraries(source) if path.name == "libc.so.6"]
    for name in GLIBC:
        if (found := library.with_name(name)).exists():
            copy(root, found)
    (root / "bin").mkdir()
    (root / "bin/sh").symlink_to("/usr/bin/bash")
    return Root(["--bind", str(root), "/"], home)


def equipped(folder):
    """Makes a root with this machine's /usr, without /usr/local, and with the Python that runs the tests."""
    home, python = folder / "home", Path(sys.base_prefix)
    home.mkdir()
    mounts = ["--ro-bind", "/usr", "/usr", "--tmpfs", "/usr/local"]
    for name in ("bin", "lib", "lib64", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            mounts += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            mounts += ["--ro-bind", str(path), str(path)]
    if not python.is_relative_to("/usr"):
        mounts += ["--ro-bind", str(python), str(python)]
    elif python.is_relative_to("/usr/local"):
        mounts += ["--ro-bind", "/usr/local", "/usr/local"]
    path = f"{python}/bin:/usr/bin:/bin"
    return Root(mounts, home, {"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NO_UPDATE_NOTIFIER": "1"})


def with_rust(root):
    """Adds this machine's Rust, and the crates that it has downloaded, all of them read-only. Cargo unpacks them inside."""
    toolchain = Path(run("rustc", "--print", "sysroot", cwd=ROOT).stdout.strip())
    registry = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"), "registry")
    # Downloads what is missing.
    run(CARGO, "fetch", "--locked", "--quiet", cwd=ROOT)
    # The linker `cc` is one of Debian's alternatives.
    mounts = [*root.mounts, "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]
    if not toolchain.is_relative_to("/usr"):
        mounts += ["--ro-bind", str(toolchain), str(toolchain)]
    for name in ("cache", "index"):
        mounts += ["--ro-bind", str(registry / name), f"{CARGO_HOME}/registry/{name}"]
    path = f"{toolchain}/bin:{root.variables['PATH']}"
    # Builds take gigabytes, and the root's /tmp lies in memory.
    cargo = {"CARGO_HOME": CARGO_HOME, "CARGO_NET_OFFLINE": "true", "TMPDIR": HOME}
    return replace(root, mounts=mounts, variables={**root.variables, **cargo, "PATH": path})


def with_browser(root, packages, driver):
    """Adds the settings of this machine's Chromium, npm packages, and a program that drives the browser by them: read-only."""
    mounts = ["--ro-bind", str(packages), f"{TOOLS}/node_modules", "--ro-bind", str(driver), f"{TOOLS}/{driver.name}"]
    for name in ("/etc/chromium.d", "/etc/fonts"):
        mounts += ["--ro-bind-try", name, name]
    return replace(root, mounts=[*root.mounts, *mounts])


def installed_packages(root, *names):
    """Tells dpkg inside a bare root that packages of this machine are installed there."""
    folder = Path(root.mounts[1]) / "var/lib/dpkg"
    for name in ("info", "triggers", "updates"):
        (folder / name).mkdir(parents=True)
    status = subprocess.run(["dpkg-query", "--status", *names], check=True, stdout=subprocess.PIPE, text=True).stdout
    # dpkg would ask for the rest of what these packages need.
    left_out = ("Depends:", "Pre-Depends:", "Recommends:", "Suggests:")
    kept = [line for line in status.splitlines() if not line.startswith(left_out)]
    (folder / "status").write_text("\n".join(kept) + "\n\n", encoding="utf-8")
