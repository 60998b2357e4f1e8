"""Debian's packages that parts of the tests need besides this project's programs.

They are installed in a run of root, as in a container or in CI, after one line that names them. Other runs skip the parts
that lack one, and say so at their end.
"""

import os
import shutil
import subprocess


def lacking(part):
    """The packages that a part needs and that are not installed."""
    return [package for program, package in part.programs.items() if not any(map(shutil.which, program.split("|")))]


def install(names):
    print(f"installing Debian's packages {' '.join(names)}", flush=True)
    subprocess.run(["apt-get", "update", "-qq"], check=True, stdout=subprocess.DEVNULL)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})


def provide(parts):
    """Installs what is missing if it may; returns the parts that still lack a package, with the reason of each."""
    wanted = sorted({name for part in parts for names in lacking(part) for name in names.split()})
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        install(wanted)
    return {part.name: f"needs {' '.join(names)} (Debian: apt-get install {' '.join(names)})"
            for part in parts if (names := lacking(part))}
