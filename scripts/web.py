#!/usr/bin/env python3
"""Builds the package for JavaScript with the demo page: clients/ts/dist, and a copy in target/share/spirea/web, where
`spirea serve --demo` looks for it.

usage: web.py [--check-reproducible | --timing | --vectors]

Compiles the client to WebAssembly with 128-bit vectors, and keeps the module in target/web under the hash of its sources,
beside the same module with the names of its functions, which the check of constant time reads.
Takes rustup's target wasm32-unknown-unknown if it is there or can be added; otherwise builds the standard library from
Debian's rustc-web, rust-web-src and lld-19.

With --check-reproducible it compiles the client again in a fresh folder, and both modules must have the same bytes. With
--vectors it also makes target/web/vectors.wasm: the client with one more export, which computes the vectors of tests. With
--timing it makes target/web/timing.wasm, whose exports run the client's primitives.
"""

import fcntl
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients" / "ts"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
KEPT = TARGET / "web"
TRIPLE = "wasm32-unknown-unknown"
# What the compiled client is made of.
SOURCES = [
    "Cargo.lock",
    "Cargo.toml",
    "rust-toolchain.toml",
    "scripts/web.py",
    "bindings/wasm/Cargo.toml",
    "bindings/wasm/src",
    *(
        f"crates/{name}/{part}"
        for name in ("math", "lattice", "dpf", "backend", "protocols", "wire", "client")
        for part in ("Cargo.toml", "src")
    ),
]
MODULE = "spirea.wasm"
# The same with the names of its functions.
NAMED = "spirea-named.wasm"
# What the package is made of besides.
PACKAGE = [
    "LICENSE",
    *(f"clients/ts/{name}" for name in ("src", "demo", "package.json", "package-lock.json", "tsconfig.json")),
]
OLDEST_NODE = 20
# The most bytes that the packed package may have, and a page's first visit.
MOST_PACKED = 360_000
MOST_LOADED = 400_000


def say(text):
    print(f"web: {text}", flush=True)


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Toolchain:
    """How Rust is compiled to WebAssembly here."""

    def __init__(self):
        self.cargo, self.environment, self.arguments = os.environ.get("CARGO", "cargo"), {}, []
        if self.rustup_has_target():
            self.name = "rustup's target"
            self.rustc = "rustc"
        else:
            self.name = "Debian's rustc-web, its standard library built with it"
            linker = debian.program("wasm-ld")
            self.rustc = next(filter(None, map(shutil.which, ["/usr/lib/rust-web/bin/rustc", "rustc-web", "rustc"])))
            self.environment = {"RUSTC": self.rustc, "RUSTC_BOOTSTRAP": "1", f"CARGO_TARGET_{self.variable()}_LINKER": linker}
            self.arguments = ["-Zbuild-std=std,panic_abort"]
        self.version = output(self.rustc, "-vV", cwd=ROOT)

    @staticmethod
    def variable():
        return TRIPLE.upper().replace("-", "_")

    @staticmethod
    def rustup_has_target():
        if not shutil.which("rustup"):
            sysroot = subprocess.run(
                ["rustc", "--print", "target-libdir", "--target", TRIPLE], stdout=subprocess.PIPE, text=True, check=False
            ).stdout.strip()
            return bool(sysroot) and any(Path(sysroot).glob("libstd-*.rlib"))
        return (
            subprocess.run(
                ["rustup", "target", "add", TRIPLE],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            ).returncode
            == 0
        )

    def compile(self, folder, *features):
        """Compiles the client into a target folder; returns the module, with the names of its functions."""
        home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        # Paths of this machine are in no file that others are to make too.
        remapped = [
            f"--remap-path-prefix={source}={name}"
            for source, name in (
                (ROOT, "spirea"),
                (home, "cargo"),
                (output(self.rustc, "--print", "sysroot", cwd=ROOT).strip(), "rust"),
            )
        ]
        flags = " ".join(['--cfg getrandom_backend="custom"', "-C target-feature=+simd128", *remapped])
        command = [
            self.cargo,
            "build",
            "--quiet",
            "--locked",
            "--profile",
            "wasm",
            "--package",
            "spirea-wasm",
            "--target",
            TRIPLE,
            "--target-dir",
            folder,
            *self.arguments,
            *features,
        ]
        environment = {**os.environ, **self.environment, f"CARGO_TARGET_{self.variable()}_RUSTFLAGS": flags}
        environment.pop("RUSTFLAGS", None)
        before = processor_seconds()
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
            sys.exit("web: the client could not be compiled to WebAssembly; the compiler's message is above")
        say(f"compiled in {processor_seconds() - before:.0f} s of processor time")
        return (Path(folder) / TRIPLE / "wasm" / "spirea_wasm.wasm").read_bytes()


def stripped(module):
    """The module without its custom sections, which have names alone: what ships."""
    kept, rest = bytearray(module[:8]), memoryview(module)[8:]
    while rest:
        length = place = 0
        # LEB128: seven bits a byte, low ones first.
        for place, byte in enumerate(rest[1:6]):
            length |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        end = 2 + place + length
        if rest[0] != 0:
            kept += rest[:end]
        rest = rest[end:]
    return bytes(kept)


def files(names):
    """Files that git knows or would take, with what they hold."""
    listed = output("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *names, cwd=ROOT)
    for name in sorted(set(listed.splitlines())):
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_bytes()


def hash_of(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:32]


def processor_seconds():
    """Processor time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def source(toolchain):
    """The hash of what the compiled client is made of."""
    parts = [part for name, content in files(SOURCES) for part in (name.encode(), content)]
    return hash_of(toolchain.version.encode(), *parts)


def for_tests(toolchain, feature):
    """Makes the module with a feature for tests, if it is not kept."""
    made, mark, digest = KEPT / f"{feature}.wasm", KEPT / feature, source(toolchain)
    if made.is_file() and mark.is_file() and mark.read_text() == digest:
        return
    say(f"compiling the module with {feature}")
    # The client's dependencies are compiled already.
    compiled = toolchain.compile(KEPT / "build", "--features", feature)
    mark.unlink(missing_ok=True)
    made.write_bytes(stripped(compiled))
    mark.write_text(digest)


def module(toolchain):
    """The folder with the compiled client, MODULE and NAMED, from what is kept or made now."""
    kept = KEPT / source(toolchain)
    if not (kept / MODULE).is_file():
        say(f"compiling the client to WebAssembly by {toolchain.name}")
        made = toolchain.compile(KEPT / "build")
        for other in KEPT.glob("?" * 32):
            shutil.rmtree(other)
        fresh = KEPT / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (fresh / MODULE).write_bytes(stripped(made))
        (fresh / NAMED).write_bytes(made)
        fresh.rename(kept)
    return kept


def check_node():
    node = shutil.which("node")
    version = output(node, "--version").strip() if node else "none"
    if not node or int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        sys.exit(f"web: Node {OLDEST_NODE} or newer is needed, and there is {version}: https://nodejs.org")


def install():
    """What the package is compiled and tested with, as package-lock.json has it."""
    mark, lock = CLIENT / "node_modules" / ".spirea-installed", (CLIENT / "package-lock.json").read_bytes()
    if not mark.is_file() or mark.read_bytes() != lock:
        say("installing what the package is compiled and tested with (npm ci)")
        subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
            cwd=CLIENT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        mark.write_bytes(lock)


def package(compiled):
    """clients/ts/dist, and the page."""
    dist = CLIENT / "dist"
    sources = [part for name, content in files(PACKAGE) for part in (name.encode(), content)]
    digest = hash_of(*sources, compiled)
    mark = KEPT / "packed"
    page = TARGET / "share" / "spirea" / "web"
    if mark.is_file() and mark.read_text() == digest and dist.is_dir() and page.is_dir():
        return
    shutil.rmtree(dist, ignore_errors=True)
    subprocess.run([CLIENT / "node_modules" / ".bin" / "tsc"], cwd=CLIENT, check=True)
    (dist / MODULE).write_bytes(compiled)
    shutil.copy(ROOT / "LICENSE", CLIENT)
    shutil.rmtree(page, ignore_errors=True)
    shutil.copytree(dist, page, ignore=shutil.ignore_patterns("*.d.ts", "node.js", "thread.js", "folder.js"))
    shutil.copytree(CLIENT / "demo", page, dirs_exist_ok=True)
    mark.write_text(digest)


def check_size():
    """What npm would pack, and what a page loads."""
    import gzip
    import json

    packed = json.loads(output("npm", "pack", "--dry-run", "--json", "--loglevel=error", cwd=CLIENT))[0]["size"]
    dist = CLIENT / "dist"
    needed = [file for file in dist.rglob("*.js") if not {"demo.js", "node.js", "thread.js", "folder.js"} & {file.name}]
    loaded = sum(len(gzip.compress(file.read_bytes(), 9)) for file in [*needed, dist / MODULE])
    say(f"npm packs {packed:,} bytes; a page loads {loaded:,}, compressed")
    if packed > MOST_PACKED or loaded > MOST_LOADED:
        sys.exit(f"web: that is more than {MOST_PACKED:,} or {MOST_LOADED:,}")


def check_reproducible(toolchain, compiled):
    with tempfile.TemporaryDirectory(prefix="spirea-web-") as folder:
        again = stripped(toolchain.compile(folder))
    if again != compiled:
        sys.exit(f"web: {MODULE} is not what was compiled before of the same sources")
    say("compiled again, the module has the same bytes")


@contextmanager
def alone():
    """Keeps other processes from making the same: parts of the tests that need the package run side by side."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main():
    if sys.argv[1:] not in ([], ["--check-reproducible"], ["--timing"], ["--vectors"]):
        sys.exit(__doc__)
    check_node()
    with alone():
        toolchain = Toolchain()
        compiled = (module(toolchain) / MODULE).read_bytes()
        install()
        package(compiled)
        check_size()
        if sys.argv[1:] == ["--check-reproducible"]:
            check_reproducible(toolchain, compiled)
        if sys.argv[1:] in (["--timing"], ["--vectors"]):
            for_tests(toolchain, sys.argv[1].removeprefix("--"))


if __name__ == "__main__":
    main()
