"""The pinned CUDA compiler, and the kernels that it compiles, with a cache of its output."""

import collections
import dataclasses
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuda_sources import ARCHITECTURES, PTX, PackError

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "crates" / "cuda" / "pack" / "requirements.txt"
TOOLCHAINS = ROOT / "target" / "cuda-toolchain"
CACHE = ROOT / "target" / "cuda-cache"

COMPILE = ["-std=c++17", "-O3", "-gencode=arch=compute_{0},code=compute_{0}", "-ptx"]
ASSEMBLE = ["-arch=sm_{0}", "-m64", "-v"]
# Package with the assembler, and the newest PTX that its version takes.
ASSEMBLER, PTX_VERSION = "nvidia-cuda-nvcc-cu12", "8.8"
# Version of the cache's content. Raise it if the data kept with a cubin, or the parsing of the tools' output, changes.
CACHE_FORMAT = 3


def digest(data):
    return hashlib.sha256(data).hexdigest()


def pins():
    """Returns the compiler's packages with their versions."""
    return dict(re.findall(r"^([\w-]+)==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE))


def toolchain():
    """Returns the folder of the pinned compiler; installs it if it is missing."""
    wanted = digest(REQUIREMENTS.read_bytes())[:16]
    TOOLCHAINS.mkdir(parents=True, exist_ok=True)
    with open(TOOLCHAINS / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = TOOLCHAINS / wanted
        ready = folder / "ready"
        if not ready.exists():
            if (sys.platform, platform.machine()) != ("linux", "x86_64"):
                raise PackError("the kernels are compiled on Linux on x86-64; the pack itself is used anywhere")
            print(f"installing the compiler of {REQUIREMENTS.name}", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            for command in (
                [sys.executable, "-m", "venv", folder],
                [
                    folder / "bin" / "python",
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--require-hashes",
                    "--requirement",
                    REQUIREMENTS,
                ],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise PackError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
            ready.touch()
    (root,) = folder.glob("lib/python*/site-packages/nvidia")
    return root


def least_driver():
    """Returns the oldest CUDA version whose drivers load the cubins, such as 12000: any of the assembler's major version."""
    return int(pins()[ASSEMBLER].split(".")[0]) * 1000


def target(architecture):
    """Returns NVIDIA's name of a target, such as sm_90a, or compute_90 for PTX."""
    return "compute_" + architecture.removeprefix(PTX) if architecture.startswith(PTX) else f"sm_{architecture}"


def environment():
    """Returns a minimal environment: of the caller's, only the paths of programs and temporary files."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return kept | {"LC_ALL": "C"}


PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"ptxas info\s*: Used (\d+) registers")
SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
KNOWN = re.compile(r"ptxas info\s*: (?:Function properties for |Compile time = |\d+ bytes (?:gmem|cmem))")


def parse_ptxas(text):
    """Parses the assembler's resource lines. Returns the resources of each kernel, including the functions that it calls, and
    all other lines."""
    kernels, rest, current = {}, [], None
    for line in text.splitlines():
        if entry := re.match(r"ptxas info\s*: Compiling entry function '(\w+)'", line):
            current = kernels[entry[1]] = {"registers": None, "spills": 0, "stack": 0, "shared": 0}
        elif current is not None and (properties := PROPERTIES.search(line)):
            stack, stores, loads = map(int, properties.groups())
            current["stack"] = max(current["stack"], stack)
            current["spills"] += stores + loads
        elif current is not None and (used := USED.match(line)):
            current["registers"] = int(used[1])
            if shared := SHARED.search(line):
                current["shared"] = int(shared[1])
        elif line.strip() and not KNOWN.match(line):
            rest.append(line)
    for kernel, what in kernels.items():
        if what["registers"] is None:
            raise PackError(f"the assembler does not say how many registers {kernel} takes:\n{text}")
    return kernels, rest


INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?\w+\s+)?([A-Z][A-Z0-9_.]*)")


def parse_sass(text):
    """Counts the instructions of each kernel, without padding."""
    kernels, current = {}, None
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+(\S+?),", line):
            name = section[1].removeprefix(".text.")
            current = kernels.setdefault(name, collections.Counter()) if name != section[1] else None
        elif current is not None and (instruction := INSTRUCTION.match(line)) and instruction[1] != "NOP":
            current[instruction[1]] += 1
    return kernels


def run_tool(command, folder, what):
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackError(f"{what}:\n{done.stdout}{done.stderr}".rstrip())
    return done


@dataclasses.dataclass
class Built:
    """A cubin or PTX, the tools' output on it, and the hashes of the project's files that it was compiled from."""

    image: bytes
    kernels: dict
    sass: dict
    warnings: list
    files: dict


def file_digest(path):
    """Returns the hash of a file, cached because all sources share headers."""
    return digest_at(path, path.stat().st_mtime_ns)


@functools.cache
def digest_at(path, _changed):
    return digest(path.read_bytes())


PTX_HEAD = re.compile(r"^\.version \d+\.\d+$", re.MULTILINE)


def of_assembler(ptx):
    """Declares PTX to be of the assembler's version. The compiler is newer; the assembler refuses what it does not know."""
    changed, count = PTX_HEAD.subn(f".version {PTX_VERSION}", ptx, count=1)
    if not count:
        raise PackError("the compiler's PTX does not tell its version")
    return changed


def compile_one(tools, folder, source, architecture):
    """Compiles a source, or takes its cubin from the cache if none of its inputs has changed."""
    key = digest(
        json.dumps(
            [
                CACHE_FORMAT,
                digest(REQUIREMENTS.read_bytes()),
                [COMPILE, ASSEMBLE, PTX_VERSION],
                architecture,
                source.name,
                digest(source.text.encode()),
            ]
        ).encode()
    )
    kept, record = CACHE / f"{key}.image", CACHE / f"{key}.json"
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        image = kept.read_bytes()
        if found.pop("image") == digest(image) and all(
            file_digest(folder / path) == was for path, was in (found["files"] | found.pop("system")).items()
        ):
            return Built(image=image, **found)
    except (OSError, ValueError, KeyError):
        pass  # missing or incomplete

    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        place = Path(place)
        ptx, cubin, depends = place / "ptx", place / "cubin", place / "depends"
        number = architecture.removeprefix(PTX)
        compiled = run_tool(
            [
                tools / "cu13" / "bin" / "nvcc",
                *(flag.format(number) for flag in COMPILE),
                "-MD",
                "-MF",
                depends,
                "-o",
                ptx,
                source.name,
            ],
            folder,
            f"{source.name} does not compile for {target(architecture)}",
        )
        ptx.write_text(of_assembler(ptx.read_text(encoding="ascii")), encoding="ascii")
        # PTX is assembled too, to check it and its resources.
        assembled = run_tool(
            [tools / "cuda_nvcc" / "bin" / "ptxas", *(flag.format(number) for flag in ASSEMBLE), ptx, "-o", cubin],
            folder,
            f"{source.name}: {target(architecture)} cannot be assembled",
        )
        kernels, warnings = parse_ptxas("".join([compiled.stdout, compiled.stderr, assembled.stdout, assembled.stderr]))
        sass = parse_sass(
            run_tool(
                [tools / "cu13" / "bin" / "nvdisasm", "--print-code", cubin],
                folder,
                f"{source.name}: {target(architecture)} cannot be disassembled",
            ).stdout
        )
        # The driver takes PTX as text that ends with a zero.
        image = ptx.read_bytes() + b"\0" if architecture.startswith(PTX) else cubin.read_bytes()
        paths = depends.read_text(encoding="utf-8").replace("\\\n", " ").split(" : ", 1)[1].split()
        hashes = {path: file_digest(folder / path) for path in sorted(paths)}
        files = {path: value for path, value in hashes.items() if not path.startswith("/")}
        system = {path: value for path, value in hashes.items() if path.startswith("/")}
        found = {"kernels": kernels, "sass": sass, "warnings": warnings, "files": files}
        (place / "record").write_text(json.dumps({**found, "image": digest(image), "system": system}), encoding="utf-8")
        (place / "image").write_bytes(image)
        os.replace(place / "image", kept)
        os.replace(place / "record", record)
    return Built(image=image, **found)


def compile_all(folder, sources, architectures):
    """Compiles all sources in parallel. Returns {(name of the source, architecture): Built}."""
    tools = toolchain()
    tasks = [
        (source, architecture)
        for source in sources
        for architecture in ARCHITECTURES
        if architecture in source.architectures and architecture in architectures
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(compile_one, tools, folder, *task) for task in tasks]
        built, failed = {}, []
        for (source, architecture), task in zip(tasks, running):
            try:
                built[source.name, architecture] = task.result()
            except PackError as error:
                failed.append(str(error))
    if failed:
        raise PackError("\n".join(failed))
    return built
