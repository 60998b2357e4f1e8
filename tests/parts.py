"""The parts of the tests, in the order in which they start: commands, requirements and conditions of each."""

import os
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
FULL = os.environ.get("CI_FULL") == "1"
VENV = ROOT / "target" / "venv"
PYTHON = VENV / "bin" / "python"


@dataclass(frozen=True)
class Part:
    """A part of the tests."""

    name: str
    about: str
    # Commands that run one after another, until one fails.
    commands: list
    # Parts that must pass before this one starts.
    needs: tuple = ()
    # Debian programs that the part runs, by their names in scripts/debian.py.
    programs: tuple = ()
    # Files and folders: the short form runs the part only if one of them differs from the base commit.
    files: tuple = ()
    only_full: bool = False
    environment: dict = field(default_factory=dict)

    def touched(self, changed):
        """True if one of the changed files belongs to the part."""
        return is_touched(self.files, changed)


def is_touched(files, changed):
    """True if one of the changed files is one of these files, or in one of these folders."""
    return any(file == own or file.startswith(f"{own}/") for own in files for file in changed)


def make(target):
    return ["make", "--no-print-directory", target]


def pytest(*arguments):
    """Returns a command of pytest in the tests' environment; pyproject.toml has its options."""
    return [PYTHON, "-m", "pytest", *arguments]


def contained(command):
    """Returns the command that runs a command with process numbers of its own."""
    return ["python3", "tests/contained.py", *command]


def system(*modules):
    """Returns the command that runs modules of tests/system."""
    return pytest(*(f"tests/system/test_{module}.py" for module in modules))


# Features that only builds for tests have. In the full form, clippy also checks tests and examples.
FUZZERS = "spirea-fuzz/libfuzzer"
FEATURES = f"spirea-constant-time/memcheck,spirea-wasm/timing,spirea-wasm/vectors,{FUZZERS}" if FULL else FUZZERS
TARGETS = ["--all-targets"] if FULL else []
# Nothing of the fuzzers is linked, so libFuzzer's sources need not be compiled. The path must exist for cargo.
UNLINKED = {"CUSTOM_LIBFUZZER_PATH": str(ROOT / "fuzz")}
DENIED = ["-D", "warnings"]
# Runs a command that takes the workspace's crates as clippy checked them, if arguments and features are the same.
AS_CLIPPY = [
    *("sh", "-c", 'RUSTC_WORKSPACE_WRAPPER="$(rustc --print sysroot)/bin/clippy-driver" exec "$@"', "sh"),
    *("env", f"CLIPPY_ARGS={''.join(f'{argument}__CLIPPY_HACKERY__' for argument in DENIED)}"),
]
# Files that affect clippy. Without a change in these, its result is that of the base commit, which passed.
RUST = (
    "Cargo.lock",
    "Cargo.toml",
    "bindings",
    "clippy.toml",
    "conformance",
    "crates",
    "examples",
    "fuzz",
    "papers",
    "proto",
    "rust-toolchain.toml",
    "sim",
)
# Packages that the short form tests only if their files changed. They are not separate parts: tests/rust.py skips them by
# the same rule as parts. The first of a package's files is its folder; the tests compare it with the others.
IF_CHANGED = {
    "spirea-ive": ("sim/ive", "papers/ive.toml"),
    "spirea-cuda": ("crates/cuda", "crates/backend", "crates/dpf", "crates/lattice", "crates/math"),
    "spirea-proto": ("proto/generate", "proto/spirea", "crates/wire/src/generated"),
}
# Tests of other packages on an emulated device, by test program: the beginnings of their names. The short form skips them
# together with the device's package.
EMULATIONS = {
    "spirea-cuda": {
        "cli/it": ["gpu::an_emulated_device_passes_every_check"],
        "conformance/conformance": ["cuda::"],
        "lab/it": ["gpu::an_emulated_device_is_measured"],
    },
}
PACK = (
    "crates/cuda/kernels",
    "crates/cuda/pack",
    "scripts/cuda_compiler.py",
    "scripts/cuda_pack.py",
    "scripts/cuda_sources.py",
    "scripts/emitted",
    "crates/cuda/emulation",
    "tests/system/test_cuda_pack.py",
    "tests/system/test_emitted.py",
)
# The kernels, their emulation, and the code that launches them.
EMULATED = ("crates/cuda", "tests/system/test_cuda_asan.py", "tests/system/cuda_asan.toml")
# Tests of the service for Apple's clients.
APPLE = ("apple_client", "apple_service", "apple_tokens", "apple_gateway")
RTL = ("rtl", "scripts/rtl_area.py", "tests/system/test_rtl.py")
RTL_PROGRAMS = ("g++", "iverilog", "verilator", "vvp", "yosys", "yosys-smtbmc", "z3")

# The longest parts come first, as far as their needs allow.
PARTS = [
    Part(
        "environment",
        "installs the Python packages that tests need, locked, into target/venv",
        [make("target/venv/cluster-installed" if FULL else "target/venv/installed")],
    ),
    Part(
        "rust-build", "compiles the programs and the Rust tests", [["python3", "tests/rust.py", "--build"]], programs=("g++",)
    ),
    Part(
        "rust",
        "runs the Rust tests; those of the accelerator's simulator, the CUDA kernels and the .proto files only if these "
        "changed",
        [["python3", "tests/rust.py"]],
        needs=("rust-build",),
        programs=("redis-server",) if FULL else (),
    ),
    Part(
        "clippy",
        "clippy, for fuzzers too, and for tests in the full form; make fuzz runs the fuzzers",
        [[CARGO, "clippy", "--quiet", "--workspace", "--locked", *TARGETS, "--features", FEATURES, "--", *DENIED]],
        needs=("rust-build",),
        files=RUST,
        environment=UNLINKED,
    ),
    Part(
        "lint",
        "formatting, comments, sentences of documents, imports, and leftovers of merges",
        [
            [CARGO, "fmt", "--all", "--", "--check"],
            ["python3", "scripts/comments.py", "check"],
            ["python3", "scripts/prose.py", "check"],
            ["sh", "-c", "! git grep -nE '^(<<<<<<<|>>>>>>>) '"],
            system("imports", "runner"),
        ],
        needs=("environment", "rust-build"),
    ),
    Part(
        "constant-time",
        "client code under valgrind, with its secrets marked",
        [system("constant_time")],
        needs=("environment", "rust-build"),
        programs=("valgrind",),
    ),
    Part(
        "web",
        "the JavaScript package: in Node, and in Chromium",
        [["python3", "scripts/web.py", "--vectors"], ["npm", "--prefix", "clients/ts", "test"]],
        needs=("rust-build",),
        programs=("chromium",),
        environment={"SPIREA": str(ROOT / "target/debug/spirea")},
    ),
    Part(
        "constant-time-web",
        "the WebAssembly module that ships, interpreted with its secrets marked",
        [system("constant_time_web")],
        needs=("environment", "rust-build", "web"),
        environment={"SPIREA": str(ROOT / "target/debug/spirea")},
    ),
    Part(
        "python",
        "the Python package, installed as its users do",
        # Both start clusters of Ray.
        [contained(system("package")), contained(pytest("python/tests"))],
        needs=("environment", "rust-build"),
    ),
    Part(
        "documents",
        "every console block of README.md and docs/, and their tables of figures and of the languages' names",
        [system("docs", "figures", "languages")],
        needs=("environment", "rust-build", "web"),
    ),
    Part(
        "service",
        "the reference clients, the tables and clients of former releases, both ports by their OpenAPI documents, the "
        "operator's page, the files of deploy/, and a table that changes all the time",
        [system(*APPLE, "reference_client", "kept_releases", "openapi", "page", "deploy", "balancers", "chain")],
        needs=("environment", "rust-build"),
        programs=("chromium",),
    ),
    Part(
        "release",
        "archives, packages, images and crates of a release, made of the tests' program, an installation, the kit for GPUs",
        [system("release", "gpu_hour", "crates")],
        needs=("environment", "rust-build"),
    ),
    Part(
        "python-style",
        "ruff",
        [[VENV / "bin/ruff", "check"], [VENV / "bin/ruff", "format", "--check"]],
        needs=("environment",),
    ),
    Part(
        "workflows",
        "the workflows of continuous integration; in the full form by actionlint too, where Go is installed",
        [system("workflows")],
        needs=("environment",),
    ),
    Part(
        "pim",
        "the device program of processing in memory",
        [system("pim")],
        needs=("environment",),
        programs=("clang", "ld.lld"),
    ),
    Part(
        "cuda-pack",
        "the compiled CUDA kernels are those of their sources, and their machine code computes rightly on the processor",
        [system("cuda_pack", "emitted")],
        needs=("environment", "rust-build"),
        programs=("g++",),
        files=PACK,
    ),
    Part(
        "cuda-asan",
        "every CUDA kernel on the emulation under AddressSanitizer",
        [system("cuda_asan")],
        needs=("environment", "rust-build"),
        programs=("g++",),
        files=EMULATED,
    ),
    Part(
        "rtl",
        "the accelerator's hardware, simulated and proven",
        [system("rtl")],
        needs=("environment", "rust-build"),
        programs=RTL_PROGRAMS,
        files=RTL,
    ),
    Part(
        "interleavings",
        "every interleaving of threads that share a client's keys",
        [
            [
                CARGO,
                "test",
                "--quiet",
                "--locked",
                "--manifest-path",
                "conformance/interleavings/Cargo.toml",
                "--target-dir",
                "target/interleavings",
            ]
        ],
        files=("conformance/interleavings", "crates/protocols/src/life.rs"),
    ),
    Part(
        "licences",
        "licences, bans and sources of dependencies",
        [["scripts/cargo-deny.sh", "--locked", "check", "bans", "licenses", "sources"]],
    ),
    Part(
        "avx512",
        "the AVX-512 kernels under an emulated processor, if this one lacks it",
        [system("avx512")],
        needs=("environment", "rust-build"),
        only_full=True,
    ),
    Part(
        "examples",
        "the applications in examples/, each against a server of its own",
        [make("target/venv/examples-installed"), system("examples")],
        # The part `python` installs the package.
        needs=("environment", "rust-build", "web", "python"),
        only_full=True,
    ),
    Part(
        "site",
        "the documentation site, whose links and anchors lead somewhere",
        [make("target/site-venv/installed"), system("site")],
        # The part `web` installs TypeDoc.
        needs=("environment", "rust-build", "web"),
        only_full=True,
    ),
    Part(
        "rust-documentation",
        "the crates' documentation and its examples",
        [
            [*AS_CLIPPY, CARGO, "doc", "--quiet", "--workspace", "--no-deps", "--locked", "--features", FEATURES],
            [CARGO, "test", "--workspace", "--locked", "--doc"],
        ],
        needs=("rust-build", "clippy"),
        only_full=True,
        # The clients of examples keep hints.
        environment={
            **UNLINKED,
            "RUSTDOCFLAGS": "-D warnings",
            "XDG_CACHE_HOME": str(ROOT / "target/documentation-cache"),
        },
    ),
    Part(
        "targets",
        "the client compiles for machines of 32 bits, and the CPU backend with musl",
        [["scripts/check-targets.sh"]],
        only_full=True,
    ),
]


def sanitized(parts):
    """True if the emulated CUDA device must also be compiled with AddressSanitizer, for a part that needs it."""
    return any(part.name == "cuda-asan" for part in parts)
