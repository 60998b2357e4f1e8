"""Debian's packages, for what the tests run besides this project's programs."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "target"


def program(names, packages):
    """The path of the first program of these names; where there is none and this may install packages, it does."""
    found = next(filter(None, map(shutil.which, names)), None)
    if not found and os.geteuid() == 0 and shutil.which("apt-get"):
        TARGET.mkdir(exist_ok=True)
        # Tests run side by side, and apt-get does not wait for itself.
        with (TARGET / "apt.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            subprocess.run(["apt-get", "update", "-qq"], check=True)
            install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
            subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        sys.exit(f"there is no {names[0]}: install it (Debian: apt-get install {' '.join(packages)})")
    return found
