#!/usr/bin/env python3
"""Installs the compiled command with its manual, completions, unit and sample settings, or removes them.

usage: installation.py install BINARY PREFIX [DESTDIR]
       installation.py uninstall PREFIX [DESTDIR]

Writes below PREFIX alone: /usr/local, or a folder of your own. DESTDIR is put in front of every path, as packagers expect.
"""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = "share/spirea/spirea.toml"
# The completions of each shell, where its packages lie.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/spirea",
    "fish": "share/fish/vendor_completions.d/spirea.fish",
    "zsh": "share/zsh/site-functions/_spirea",
}


@dataclass(frozen=True)
class File:
    """The content of an installed file and its mode."""

    content: bytes
    mode: int = 0o644


def texts(program):
    """The manual and the completions that a program writes, by their paths below a prefix."""
    files = {}
    with tempfile.TemporaryDirectory(prefix="spirea-man-") as folder:
        subprocess.run([program, "man", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        for page in sorted(Path(folder).iterdir()):
            files[f"share/man/man1/{page.name}"] = File(page.read_bytes())
    for shell, path in COMPLETIONS.items():
        script = subprocess.run([program, "completions", shell], check=True, stdout=subprocess.PIPE).stdout
        files[path] = File(script)
    return files


def files(binary, prefix, program=None):
    """All files of an installation by their paths below the prefix.

    `program` is a build of the same command for this machine, where `binary` is for another one.
    """
    unit = (ROOT / "deploy/spirea.service").read_text(encoding="utf-8").replace("/usr/bin/spirea", f"{prefix}/bin/spirea")
    return {
        "bin/spirea": File(Path(binary).read_bytes(), 0o755),
        "lib/systemd/system/spirea.service": File(unit.encode()),
        "lib/sysusers.d/spirea.conf": File((ROOT / "deploy/spirea.sysusers.conf").read_bytes()),
        SETTINGS: File((ROOT / "deploy/spirea.toml").read_bytes()),
        "share/doc/spirea/LICENSE": File((ROOT / "LICENSE").read_bytes()),
        "share/doc/spirea/README.md": File((ROOT / "README.md").read_bytes()),
        "share/doc/spirea/CHANGELOG.md": File((ROOT / "CHANGELOG.md").read_bytes()),
        **texts(program or binary),
    }


def record(prefix):
    """The list of what was installed, which `uninstall` reads."""
    return prefix / "share/spirea/installed"


def install(binary, prefix, destination):
    """Writes the files and the list of them."""
    base = Path(f"{destination}{prefix}")
    installed = files(binary, prefix)
    for path, file in installed.items():
        target = base / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # A program that runs keeps its file: the new one has another.
        fresh = target.with_name(f".{target.name}.new")
        fresh.write_bytes(file.content)
        fresh.chmod(file.mode)
        fresh.replace(target)
    record(base).write_text("".join(f"{path}\n" for path in installed), encoding="utf-8")
    print(f"installed {len(installed)} files below {base}")
    print(f"  try: {base}/bin/spirea")
    print(f"  to serve at boot, copy {base / SETTINGS} to /etc/spirea/spirea.toml, edit it, and enable spirea.service")


def uninstall(prefix, destination):
    """Removes what `install` wrote, and folders that are empty then."""
    base = Path(f"{destination}{prefix}")
    if not record(base).is_file():
        sys.exit(f"{record(base)} is not there: nothing was installed below {base}")
    paths = [base / line for line in record(base).read_text(encoding="utf-8").splitlines()]
    for path in [*paths, record(base)]:
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == base or not folder.is_relative_to(base) or any(folder.iterdir()):
                break
            folder.rmdir()
    print(f"removed {len(paths)} files below {base}")


def main():
    match sys.argv[1:]:
        case ["install", binary, prefix, *rest] if len(rest) <= 1 and prefix.startswith("/"):
            install(Path(binary), Path(prefix), rest[0] if rest else "")
        case ["uninstall", prefix, *rest] if len(rest) <= 1 and prefix.startswith("/"):
            uninstall(Path(prefix), rest[0] if rest else "")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
