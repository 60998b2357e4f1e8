"""The Python package as sources, with a lock file of its own."""

import gzip
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path


def lock(archive, cargo):
    """Rewrites a source distribution: its lock file gets the packages of its own workspace alone.

    The project's lock file has the packages of all crates. With it, cargo would refuse to compile with `locked`, since some
    crates are not in the archive.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (top,) = Path(folder).iterdir()
        command = [cargo, "metadata", "--offline", "--format-version", "1", "--manifest-path", "bindings/python/Cargo.toml"]
        subprocess.run(command, cwd=top, stdout=subprocess.DEVNULL, check=True)
        content = (top / "Cargo.lock").read_bytes()
    rewritten = io.BytesIO()
    with tarfile.open(archive) as packed, tarfile.open(fileobj=rewritten, mode="w", format=tarfile.GNU_FORMAT) as to:
        for member in packed:
            if member.name == f"{top.name}/Cargo.lock":
                member.size = len(content)
                to.addfile(member, io.BytesIO(content))
            else:
                to.addfile(member, packed.extractfile(member) if member.isfile() else None)
    Path(archive).write_bytes(gzip.compress(rewritten.getvalue(), 9, mtime=0))
