"""Builds a driver of the emulated device whose kernels are translated from the pack's machine code."""

import functools
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import cuda_pack
from cuda_compiler import ROOT, toolchain
from cuda_sources import ARCHITECTURES, PTX
from emitted import translate

EMULATION = ROOT / "crates/cuda/emulation"
FOLDER = ROOT / "target/emitted"
RUNTIME = [*sorted((EMULATION / "runtime").glob("*.cpp")), EMULATION / "emitted/emitted.cpp"]
HEADERS = sorted(EMULATION.glob("*/*.hpp"))
COMPILER = [os.environ.get("CXX", "g++"), "-std=c++20", "-fno-strict-aliasing", "-fPIC", "-fvisibility=hidden", "-pthread"]
INCLUDE = [f"-I{EMULATION / name}" for name in ("runtime", "emitted")]
# The translation has thousands of variables that are not used, and the optimiser's work grows with a function's length.
GENERATED = ["-O1", "-w"]
TARGETS = [architecture for architecture in ARCHITECTURES if not architecture.startswith(PTX)]


def run(*command, **options):
    """Runs a command. Fails with its output."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def disassembler():
    """Returns the path of the pinned disassembler."""
    (program,) = (path for path in toolchain().rglob("nvdisasm") if path.is_file())
    return program


@functools.cache
def pack():
    """Returns the images of the committed pack."""
    return cuda_pack.unpack((ROOT / "crates/cuda/pack/kernels.pack").read_bytes())


@functools.cache
def disassembly(name, architecture):
    """Returns the disassembly of a source's kernels for an architecture, and their cubin."""
    image = pack()[name, architecture].data
    path = FOLDER / architecture / f"{name}.cubin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image)
    return run(disassembler(), "-c", path), image


def translated(name, architecture, folder, change=lambda text: text):
    """Translates a source's kernels into a folder, after a change of their disassembly. Returns the file of C++."""
    text, image = disassembly(name, architecture)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.cpp"
    path.write_text(translate.source(change(text), image, architecture), encoding="utf-8")
    return path


def sources(architecture, only=()):
    """Translates all kernels for an architecture, or those of some sources. Returns the files of C++."""
    names = [name for name, of in pack() if of == architecture and (not only or name in only)]
    return [translated(name, architecture, FOLDER / architecture) for name in names]


def compiled(source, flags, folder):
    """Compiles a file unless its object is there. The object's name has a hash of everything that it depends on."""
    command = [*COMPILER, *flags, *INCLUDE]
    inputs = [source.read_bytes(), *(header.read_bytes() for header in HEADERS), repr(command).encode()]
    name = f"{source.stem}-{hashlib.sha256(b''.join(inputs)).hexdigest()[:16]}.o"
    made = folder / name
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = made.with_suffix(".fresh")
        run(*command, "-c", source, "-o", fresh)
        fresh.rename(made)
    return made


def linked(files, folder):
    """Compiles and links a driver with the kernels of translated files. Returns its path."""
    units = [(path, ["-O3"]) for path in RUNTIME] + [(path, GENERATED) for path in files]
    # The longest first.
    units.sort(key=lambda unit: -unit[0].stat().st_size)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(lambda unit: compiled(*unit, FOLDER / "objects"), units))
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / "libcuda.so"
    run(*COMPILER, "-shared", "-Wl,-soname,libcuda.so", "-o", made, *objects)
    return made
