#!/usr/bin/env python3
"""Makes the files of a release of the commit that is checked out.

KIND, of which there are all by default, is one of:
  archive  the command with its manual, completions, unit and sample settings, linked to glibc 2.17
  debian   the same as a Debian package
  wheel    the Python package, compiled, with the command
  sdist    the Python package as sources
  npm      the package for browsers and Node
  image    a container's image with the static command alone; it cannot load a GPU's driver

The folder, target/release-files by default, gets them, the list of what each command is made of (CycloneDX), and SHA256SUMS.
SHA256SUMS.sig is its signature if there is a key, which is an SSH key of the publisher's:
  ssh-keygen -Y verify -f allowed_signers -I releases@spirea -n spirea -s SHA256SUMS.sig < SHA256SUMS

Two runs on one commit with one version of the tools give the same bytes. A checkout with changes is refused unless they are
allowed, for a trial.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import archives
import installation
import sources
import wheels
from installation import File

import reproducible

ROOT = installation.ROOT
TARGET = ROOT / "target"
TOOLS = TARGET / "release-tools"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"
KINDS = ("archive", "debian", "wheel", "sdist", "npm", "image")
# The oldest C library that the commands and wheels run with.
GLIBC = "2.17"
# The names of an architecture elsewhere.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
DESCRIPTION = """private information retrieval: serve a table, look records up
 A client fetches a record from a server's table, by key or by index, and the
 server does not learn which. One command builds, serves and looks up."""
# The group of the unit, at once and not only at the next start of the machine.
AFTER_INSTALLATION = """#!/bin/sh
set -e
if command -v systemd-sysusers > /dev/null; then systemd-sysusers spirea.conf || true; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
"""


def say(text):
    print(f"release: {text}", flush=True)


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def standard_library(triple):
    """Installs the standard library for a target if rustup lacks it. Without rustup, the compiler names what is missing."""
    if not shutil.which("rustup"):
        return
    if triple not in output("rustup", "target", "list", "--installed").split():
        say(f"installing Rust's standard library for {triple}")
        output("rustup", "target", "add", triple)


@dataclass
class Release:
    """What is released: the version, the commit and its time, and how it is compiled."""

    version: str
    commit: str
    time: int
    cargo: str

    def environment(self, triple):
        """The variables of the environment with which everything of this release is compiled for a target."""
        flags = " ".join(reproducible.remapped("rustc", ROOT))
        return {
            **os.environ,
            "PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "CARGO_TARGET_DIR": str(TARGET / "release-build"),
            "SOURCE_DATE_EPOCH": str(self.time),
            "SPIREA_COMMIT": self.commit,
            reproducible.variable(triple, "RUSTFLAGS"): flags,
        }

    def command(self, triple, library=""):
        """Compiles the command for a target, with the C library of a version if it is dynamic; returns its path."""
        say(f"compiling the command for {triple}{library and f' with glibc {library}'}")
        standard_library(triple)
        target = f"{triple}.{library}" if library else triple
        command = [self.cargo, "zigbuild", "--locked", "--quiet", "--profile", "dist", "--target", target]
        command += ["--package", "spirea-cli"]
        subprocess.run(command, cwd=ROOT, env=self.environment(triple), check=True)
        return TARGET / "release-build" / triple / "dist" / "spirea"

    def wheel(self, triple, out):
        say(f"compiling the wheel for {triple}")
        standard_library(triple)
        tag = f"manylinux_{GLIBC.replace('.', '_')}"
        command = ["maturin", "build", "--profile", "dist", "--zig", "--target", triple, "--compatibility", tag]
        command += ["--out", out]
        subprocess.run(command, cwd=ROOT, env=self.environment(triple), check=True)
        (wheel,) = out.glob(f"spirea-*_{triple.split('-')[0]}.whl")
        found = json.loads(output(TOOLS / "bin/auditwheel", "show", "--json", wheel))["overall_tag"]
        if not wheels.runs_with(found, GLIBC):
            sys.exit(f"release: {wheel.name} needs {found}, not {tag}: see auditwheel show {wheel}")

    def source_distribution(self, out):
        say("packing the sources of the Python package")
        subprocess.run(["maturin", "sdist", "--out", out], cwd=ROOT, env=self.environment("none"), check=True)
        sources.lock(out / f"spirea-{self.version}.tar.gz", self.cargo)

    def npm_package(self, out):
        say("making the package for JavaScript")
        subprocess.run([sys.executable, ROOT / "scripts/web.py"], cwd=ROOT, check=True)
        command = ["npm", "pack", "--pack-destination", out, "--loglevel=error"]
        subprocess.run(command, cwd=ROOT / "clients/ts", check=True, stdout=subprocess.DEVNULL)


def of_checkout(allow_changes):
    """The release that is checked out."""
    changed = output("git", "status", "--porcelain")
    if changed and not allow_changes:
        sys.exit(f"release: the checkout has changes:\n{changed}\ncommit them, or pass --allow-changes for a trial")
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    commit = output("git", "rev-parse", "HEAD") + ("-changed" if changed else "")
    time = int(output("git", "log", "-1", "--format=%ct"))
    return Release(manifest["workspace"]["package"]["version"], commit, time, os.environ.get("CARGO", "cargo"))


def in_tools():
    """Runs this program again with the tools at their locked versions, unless it has them."""
    mark = TOOLS / "installed"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    python = TOOLS / "bin/python"
    if not mark.is_file() or mark.read_text() != wanted:
        say(f"installing tools into {TOOLS.relative_to(ROOT)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", TOOLS], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", REQUIREMENTS], check=True)
        mark.write_text(wanted)
    if Path(sys.prefix) != TOOLS:
        os.execv(python, [python, *sys.argv])


def write(out, name, content):
    (out / name).write_bytes(content)


def bill_of_materials(release, out, triple, label):
    """Writes the list of what the command for a target is made of."""
    import sbom

    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    text = sbom.of_package(release.cargo, ROOT, lock, "spirea-cli", triple, release.time)
    write(out, f"spirea-{release.version}-{label}.cdx.json", text.encode())


def dynamic_files(release, out, kinds, architecture, host):
    """The files with the command that is linked to glibc."""
    triple = f"{architecture}-unknown-linux-gnu"
    binary = release.command(triple, GLIBC)
    label = f"{architecture}-linux"
    # A program for another machine writes no manual here; that for this one writes the same.
    program = binary if architecture == host else release.command(f"{host}-unknown-linux-gnu", GLIBC)
    if "archive" in kinds:
        files = installation.files(binary, "/usr/local", program)
        files["README.md"] = File((ROOT / "README.md").read_bytes())
        top = f"spirea-{release.version}"
        packed = archives.tar({f"{top}/{path}": file for path, file in files.items()}, release.time)
        write(out, f"{top}-{label}.tar.xz", archives.xz(packed, architecture))
    if "debian" in kinds:
        files = {f"usr/{path}": file for path, file in installation.files(binary, "/usr", program).items()}
        settings = "etc/spirea/spirea.toml"
        files[settings] = files.pop(f"usr/{installation.SETTINGS}")
        files["usr/share/doc/spirea/copyright"] = files.pop("usr/share/doc/spirea/LICENSE")
        size = sum(len(file.content) for file in files.values())
        control = {
            "Package": "spirea",
            "Version": release.version,
            "Architecture": DEBIAN[architecture],
            "Maintainer": "Spirea <releases@spirea.invalid>",
            "Installed-Size": size // 1024,
            "Depends": f"libc6 (>= {GLIBC})",
            "Section": "net",
            "Priority": "optional",
            "Homepage": "https://github.com/spirea-pir/spirea",
            "Description": DESCRIPTION,
        }
        scripts = {"postinst": AFTER_INSTALLATION}
        packed = archives.debian_package(control, scripts, [settings], files, release.time)
        write(out, f"spirea_{release.version}_{DEBIAN[architecture]}.deb", packed)
    if "wheel" in kinds:
        release.wheel(triple, out)
    bill_of_materials(release, out, triple, label)


def image(release, out, architecture):
    """The image of a container, and the list of what its command is made of."""
    triple = f"{architecture}-unknown-linux-musl"
    binary = release.command(triple).read_bytes()
    packed = archives.image(binary, DEBIAN[architecture], release.version, release.time)
    write(out, f"spirea-{release.version}-{architecture}-image.tar.gz", packed)
    bill_of_materials(release, out, triple, f"{architecture}-image")


def check_sums(out, key):
    """Writes SHA256SUMS, and its signature by a key."""
    files = sorted(path for path in out.iterdir() if not path.name.startswith("SHA256SUMS"))
    lines = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    write(out, "SHA256SUMS", lines.encode())
    if key:
        (out / "SHA256SUMS.sig").unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "spirea", out / "SHA256SUMS"], check=True)
    for path in files:
        say(f"{path.stat().st_size / 1e6:8.1f} MB  {path.name}")


def main():
    parser = argparse.ArgumentParser(prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--target", nargs="+", choices=sorted(DEBIAN), default=sorted(DEBIAN, reverse=True))
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--out", type=Path, default=TARGET / "release-files")
    parser.add_argument("--allow-changes", action="store_true")
    options = parser.parse_args()
    in_tools()
    release, out, kinds = of_checkout(options.allow_changes), options.out.absolute(), set(options.only)
    say(f"spirea {release.version} of commit {release.commit}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for architecture in options.target:
        if kinds & {"archive", "debian", "wheel"}:
            dynamic_files(release, out, kinds, architecture, os.uname().machine)
        if "image" in kinds:
            image(release, out, architecture)
    if "sdist" in kinds:
        release.source_distribution(out)
    if "npm" in kinds:
        release.npm_package(out)
    check_sums(out, options.key)


if __name__ == "__main__":
    main()
