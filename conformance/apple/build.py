#!/usr/bin/env python3
"""Builds the programs of this folder, which call swift-homomorphic-encryption, Apple's library.

docs/apple.md has the command. SOURCES is a folder of git repositories: swift-homomorphic-encryption and, where Swift has
no network, the packages that Package.swift names. Nothing is written into it.
"""

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = "swift-homomorphic-encryption"
VERSION = "1.0.7"
ADDRESS = "https://github.com/apple/"


class Unusable(Exception):
    """Sources or a Swift that cannot build the programs."""


class Swift:
    """Swift of this machine, or of the file system below `root`, in which bubblewrap runs it."""

    def __init__(self, root=None):
        self.root = root and Path(root).resolve()
        # Links of another file system may lead nowhere in this one.
        there = os.path.lexists(self.root / "usr/bin/swift") if self.root else shutil.which("swift")
        if not there:
            raise Unusable(f"there is no Swift in {self.root or 'the PATH'}; Debian 13 has it in the package swiftlang")

    def command(self, *folders):
        """Returns the beginning of a command to which `folders` are visible under their own paths."""
        if not self.root:
            return []
        mounts = [part for folder in folders for part in ("--bind", str(folder), str(folder))]
        system = ["--dev", "/dev", "--proc", "/proc", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]
        return ["bwrap", "--die-with-parent", "--bind", str(self.root), "/", *system, *mounts]


def redirections(repositories):
    """Returns the variables with which git takes packages from `repositories` instead of their addresses."""
    urls = [(f"url.file://{path}.insteadOf", f"{ADDRESS}{path.name}{end}") for path in repositories for end in ("", ".git")]
    # Git refuses repositories of another owner otherwise.
    settings = [*urls, ("safe.directory", "*")]
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for i, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value}
    return variables


def without_tools(manifest):
    """Returns the library's manifest without its plugin for documentation and its benchmarks, which need more packages."""
    manifest, plugins = re.subn(r".*swift-docc-plugin.*\n", "", manifest)
    manifest, benchmarks = re.subn(r"(?s)// MARK: - Benchmarks\n.*?(?=// Set the minimum macOS version)", "", manifest)
    if (plugins, benchmarks) != (1, 1):
        raise Unusable(f"Package.swift of {LIBRARY} {VERSION} has another form; give unchanged sources")
    return manifest


def build(sources, out, swift):
    """Builds the programs in the folder `out`, which keeps what is built for the next time. Returns their folder."""
    sources, out = Path(sources).resolve(), Path(out).resolve()
    if not (sources / LIBRARY).is_dir():
        raise Unusable(f"{sources} has no repository {LIBRARY}; clone https://github.com/apple/{LIBRARY} into it")
    out.mkdir(parents=True, exist_ok=True)
    repositories = [path for path in sorted(sources.iterdir()) if (path / "HEAD").is_file() or (path / ".git").exists()]
    environment = os.environ | redirections(repositories) | {"HOME": str(out)}
    if not (out / LIBRARY).exists():
        part = out / f"{LIBRARY}.part"
        shutil.rmtree(part, ignore_errors=True)
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", VERSION, f"file://{sources / LIBRARY}", str(part)]
        subprocess.run(clone, check=True, env=environment)
        manifest = part / "Package.swift"
        manifest.write_text(without_tools(manifest.read_text(encoding="utf-8")), encoding="utf-8")
        part.rename(out / LIBRARY)
    package = out / "programs"
    # Times of the files decide about what is compiled again.
    for path in [HERE / "Package.swift", *HERE.glob("Sources/*/*.swift")]:
        copy = package / path.relative_to(HERE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    command = [*swift.command(sources, out), "swift", "build", "--configuration", "release", "--package-path", str(package)]
    subprocess.run(command, check=True, env=environment)
    return package / ".build/release"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path, metavar="SOURCES", help="folder of git repositories")
    parser.add_argument("--root", type=Path, help="file system with Swift, made by debootstrap; default: this machine's")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "target/apple", help="folder for what is built")
    arguments = parser.parse_args()
    try:
        print(build(arguments.sources, arguments.out, Swift(arguments.root)))
    except Unusable as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
