#!/usr/bin/env python3
"""Builds the package for JavaScript with the demo page: clients/ts/dist, and a copy in target/share/spirea/web, where
`spirea serve --demo` looks for it.

usage: web.py [--check-reproducible | --page | --timing | --vectors]

Compiles two modules of WebAssembly: the client, with 128-bit vectors, and the rules for forms of keys, which a page loads only
for tables that need them. Caches each module in target/web under the hash of its sources, together with a copy that has the
names of its functions, for the check of constant time.
Uses rustup's target wasm32-unknown-unknown if it is installed or can be added; otherwise builds the standard library from
Debian's rustc-web, rust-web-src and lld-19.

With --page it makes what a page of tables without forms needs: it leaves out the rules for forms, unless they are compiled
already. With --check-reproducible it compiles both modules again in a fresh folder, and they must have the same bytes. With
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
from dataclasses import dataclass
from pathlib import Path

import debian
import reproducible

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients" / "ts"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
KEPT = TARGET / "web"
TRIPLE = "wasm32-unknown-unknown"
# Sources of every module.
COMMON = ["Cargo.lock", "Cargo.toml", "rust-toolchain.toml", "scripts/reproducible.py", "scripts/web.py"]
# Folders of the crates that both modules are made of.
SHARED = ["bindings/wasm-memory", *(f"crates/{name}" for name in ("math", "lattice", "dpf", "backend", "protocols"))]


@dataclass(frozen=True)
class Module:
    """A compiled module: its file in the package, its Cargo package, and the folders of its crates."""

    file: str
    package: str
    crates: list[str]

    @property
    def named(self):
        """File of the same module with the names of its functions."""
        return self.file.replace(".wasm", "-named.wasm")

    @property
    def compiled(self):
        """File that Cargo makes."""
        return f"{self.package.replace('-', '_')}.wasm"


CLIENT_MODULE = Module("spirea.wasm", "spirea-wasm", ["bindings/wasm", *SHARED, "crates/wire", "crates/client"])
FORMS_MODULE = Module("forms.wasm", "spirea-wasm-forms", ["bindings/wasm-forms", *SHARED, "crates/normalise"])
MODULES = [CLIENT_MODULE, FORMS_MODULE]
# Further sources of the package.
PACKAGE = [
    "LICENSE",
    *(f"clients/ts/{name}" for name in ("src", "demo", "package.json", "package-lock.json", "tsconfig.json")),
]
OLDEST_NODE = 20
# Limits in compressed bytes: the packed package without FORMS_MODULE, the first visit of a page, and FORMS_MODULE.
MOST_PACKED = 360_000
MOST_LOADED = 400_000
MOST_FORMS = 300_000


def say(text):
    print(f"web: {text}", flush=True)


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Toolchain:
    """The toolchain that compiles Rust to WebAssembly on this machine."""

    def __init__(self):
        self.cargo, self.environment, self.arguments = os.environ.get("CARGO", "cargo"), {}, []
        if self.rustup_has_target():
            self.name = "rustup's target"
            self.rustc = "rustc"
        else:
            self.name = "Debian's rustc-web, its standard library built with it"
            linker = debian.program("wasm-ld")
            self.rustc = next(filter(None, map(shutil.which, ["/usr/lib/rust-web/bin/rustc", "rustc-web", "rustc"])))
            self.environment = {"RUSTC": self.rustc, "RUSTC_BOOTSTRAP": "1", reproducible.variable(TRIPLE, "LINKER"): linker}
            self.arguments = ["-Zbuild-std=std,panic_abort"]
        self.version = output(self.rustc, "-vV", cwd=ROOT)

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

    def compile(self, module, folder, *features):
        """Compiles a module into a target folder; returns it with the names of its functions."""
        target_flags = ['--cfg getrandom_backend="custom"', "-C target-feature=+simd128"]
        flags = " ".join([*target_flags, *reproducible.remapped(self.rustc, ROOT)])
        command = [
            self.cargo,
            "build",
            "--quiet",
            "--locked",
            "--profile",
            "wasm",
            "--package",
            module.package,
            "--target",
            TRIPLE,
            "--target-dir",
            folder,
            *self.arguments,
            *features,
        ]
        environment = {**os.environ, **self.environment, reproducible.variable(TRIPLE, "RUSTFLAGS"): flags}
        environment.pop("RUSTFLAGS", None)
        before = processor_seconds()
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
            sys.exit(f"web: {module.file} could not be compiled; the compiler's message is above")
        say(f"compiled in {processor_seconds() - before:.0f} s of processor time")
        return (Path(folder) / TRIPLE / "wasm" / module.compiled).read_bytes()


def stripped(module):
    """Returns the module to ship, without its custom sections, which contain only names."""
    kept, rest = bytearray(module[:8]), memoryview(module)[8:]
    while rest:
        length = place = 0
        # LEB128: seven bits per byte, the lowest first.
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
    """Yields the names and contents of files that git tracks or does not ignore."""
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
    """Returns the processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def source(toolchain, module):
    """Returns the hash of a module's sources and compiler."""
    names = [*COMMON, *(f"{crate}/{part}" for crate in module.crates for part in ("Cargo.toml", "src"))]
    parts = [part for name, content in files(names) for part in (name.encode(), content)]
    return hash_of(toolchain.version.encode(), *parts)


def for_tests(toolchain, feature):
    """Makes the client's module with a feature for tests, unless it is cached."""
    kept, mark, digest = KEPT / f"{feature}.wasm", KEPT / feature, source(toolchain, CLIENT_MODULE)
    if kept.is_file() and mark.is_file() and mark.read_text() == digest:
        return
    say(f"compiling the module with {feature}")
    # Reuses the build folder, where the client's dependencies are compiled already.
    compiled = toolchain.compile(CLIENT_MODULE, KEPT / "build", "--features", feature)
    mark.unlink(missing_ok=True)
    kept.write_bytes(stripped(compiled))
    mark.write_text(digest)


def kept_in(toolchain, module):
    """The folder that has or will have the module as its sources are now."""
    return KEPT / source(toolchain, module)


def made(toolchain, module):
    """The paths of a module as it ships and of the same with names, from what is kept or made now."""
    kept = kept_in(toolchain, module)
    if not (kept / module.file).is_file():
        say(f"compiling {module.file} by {toolchain.name}")
        compiled = toolchain.compile(module, KEPT / "build")
        for other in KEPT.glob(f"{'?' * 32}/{module.file}"):
            shutil.rmtree(other.parent)
        fresh = KEPT / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (fresh / module.file).write_bytes(stripped(compiled))
        (fresh / module.named).write_bytes(compiled)
        fresh.rename(kept)
    return kept / module.file, kept / module.named


def check_node():
    node = shutil.which("node")
    version = output(node, "--version").strip() if node else "none"
    if not node or int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        sys.exit(f"web: Node {OLDEST_NODE} or newer is needed, and there is {version}: https://nodejs.org")


def install():
    """Installs the tools that compile and test the package, as pinned in package-lock.json."""
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
    """Makes clients/ts/dist with the `compiled` modules, given by file name, and the page."""
    dist = CLIENT / "dist"
    sources = [part for name, content in files(PACKAGE) for part in (name.encode(), content)]
    digest = hash_of(*sources, *compiled.values())
    mark = KEPT / "packed"
    page = TARGET / "share" / "spirea" / "web"
    if mark.is_file() and mark.read_text() == digest and dist.is_dir() and page.is_dir():
        return
    shutil.rmtree(dist, ignore_errors=True)
    subprocess.run([CLIENT / "node_modules" / ".bin" / "tsc"], cwd=CLIENT, check=True)
    for file, content in compiled.items():
        (dist / file).write_bytes(content)
    shutil.copy(ROOT / "LICENSE", CLIENT)
    shutil.rmtree(page, ignore_errors=True)
    shutil.copytree(dist, page, ignore=shutil.ignore_patterns("*.d.ts", "node.js", "thread.js", "folder.js"))
    shutil.copytree(CLIENT / "demo", page, dirs_exist_ok=True)
    mark.write_text(digest)


def check_size():
    """Checks the sizes of the npm package, and of the files that a page loads."""
    import gzip
    import json

    packed = json.loads(output("npm", "pack", "--dry-run", "--json", "--loglevel=error", cwd=CLIENT))[0]["size"]
    dist = CLIENT / "dist"
    needed = [file for file in dist.rglob("*.js") if not {"demo.js", "node.js", "thread.js", "folder.js"} & {file.name}]

    def compressed(file):
        return len(gzip.compress(file.read_bytes(), 9))

    forms = compressed(dist / FORMS_MODULE.file)
    loaded = sum(map(compressed, [*needed, dist / CLIENT_MODULE.file]))
    say(f"npm packs {packed:,} bytes; a page loads {loaded:,}, compressed, and {forms:,} for forms of keys")
    sizes = [(packed - forms, MOST_PACKED), (loaded, MOST_LOADED), (forms, MOST_FORMS)]
    for size, most in sizes:
        if size > most:
            sys.exit(f"web: {size:,} is more than {most:,}")


def check_reproducible(toolchain, compiled):
    with tempfile.TemporaryDirectory(prefix="spirea-web-") as folder:
        for module in MODULES:
            if stripped(toolchain.compile(module, folder)) != compiled[module.file]:
                sys.exit(f"web: {module.file} is not what was compiled before of the same sources")
    say("compiled again, the modules have the same bytes")


@contextmanager
def alone():
    """Excludes other processes: parts of the tests that need the package run in parallel."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main():
    if sys.argv[1:] not in ([], ["--check-reproducible"], ["--page"], ["--timing"], ["--vectors"]):
        sys.exit(__doc__)
    check_node()
    with alone():
        toolchain, modules = Toolchain(), list(MODULES)
        if sys.argv[1:] == ["--page"] and not (kept_in(toolchain, FORMS_MODULE) / FORMS_MODULE.file).is_file():
            modules.remove(FORMS_MODULE)
        compiled = {module.file: made(toolchain, module)[0].read_bytes() for module in modules}
        install()
        package(compiled)
        if FORMS_MODULE.file in compiled:
            check_size()
        if sys.argv[1:] == ["--check-reproducible"]:
            check_reproducible(toolchain, compiled)
        if sys.argv[1:] in (["--timing"], ["--vectors"]):
            for_tests(toolchain, sys.argv[1].removeprefix("--"))


if __name__ == "__main__":
    main()
