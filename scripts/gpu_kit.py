#!/usr/bin/env python3
"""Packs what a machine without a toolchain needs to check and measure its GPU.

Usage: gpu_kit.py PATH_TO_SPIREA PATH_TO_SPIREA_LAB FOLDER

Writes FOLDER/spirea-gpu-kit.tar.xz: both programs without their symbols, gpu_hour.py and README.txt. Prints the archive's size
and the version of glibc that the programs need.
"""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

NAME = "spirea-gpu-kit"
README = f"""\
1. Unpack the archive on a machine with an NVIDIA GPU and a driver for CUDA 12 or later: tar xf {NAME}.tar.xz && cd {NAME}
2. Run everything, which takes some minutes: python3 gpu_hour.py all
3. Send back gpu-hour/results.tar.xz. It has the results, and the descriptions that nvidia-smi, lscpu and uname give.
"""


def stripped(program):
    """Returns the program's bytes without symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "program"
        shutil.copyfile(program, copy)
        subprocess.run(["strip", copy], check=True)
        return copy.read_bytes()


def glibc(*programs):
    """Returns the oldest version of glibc with all symbols that the programs import; None if they import none."""
    command = ["objdump", "-T", *programs]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    versions = re.findall(r"\bGLIBC_([0-9.]+)", symbols)
    return max(versions, key=lambda version: [int(number) for number in version.split(".")], default=None)


def write(spirea, lab, archive):
    """Writes the archive."""
    script = Path(__file__).with_name("gpu_hour.py")
    files = {
        "spirea": (0o755, stripped(spirea)),
        "spirea-lab": (0o755, stripped(lab)),
        script.name: (0o755, script.read_bytes()),
        "README.txt": (0o644, README.encode()),
    }
    with tarfile.open(archive, "w:xz") as packed:
        for name, (mode, content) in files.items():
            header = tarfile.TarInfo(f"{NAME}/{name}")
            header.mode, header.size, header.mtime = mode, len(content), int(spirea.stat().st_mtime)
            packed.addfile(header, io.BytesIO(content))


def main():
    spirea, lab, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{NAME}.tar.xz"
    write(spirea, lab, archive)
    version = glibc(spirea, lab)
    needs = f"glibc {version} or later" if version else "no glibc"
    print(f"wrote {archive}: {archive.stat().st_size / 2**20:.1f} MiB; the programs need {needs}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
