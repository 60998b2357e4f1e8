"""Tests of the committed pack of CUDA kernels, and of scripts/cuda_pack.py: parsing of sources and tools, and errors."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import cuda_compiler
import cuda_pack
import cuda_sources
from system.programs import run

# nvcc needs g++ as its preprocessor.
COMPILES = pytest.mark.needs("g++")
WITH_MOST_KERNELS = "90a"

PTXAS = """\
ptxas info    : 4 bytes gmem, 256 bytes cmem[3], 8 bytes cmem[4]
ptxas info    : Compiling entry function 'fold' for 'sm_80'
ptxas info    : Function properties for fold
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compile time = 24.972 ms
ptxas info    : Compiling entry function 'tall' for 'sm_80'
ptxas info    : Function properties for tall
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for _ZN6spirea4stepEj
    40 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 40 bytes cumulative stack size, 1024+16 bytes smem, 8 bytes cmem[2]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in 'tall'
"""

SASS = """\
\t.section\t.text.fold,"ax",@progbits
.text.fold:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 IMAD.WIDE.U32 R2, R0, R3, c[0x0][0x160] ;
        /*0020*/                   IMMA.16832.U8.U8 R4, R4.ROW, R8.COL, RZ ;
        /*0030*/              @UP1 IMMA.16832.U8.U8 R4, R4.ROW, R8.COL, RZ ;
        /*0040*/                   NOP ;
\t.section\t.nv.info,"",@"SHT_CUDA_INFO"
        /*0000*/ \t.byte\t0x04, 0x2f
\t.section\t.text.tall,"ax",@progbits
        /*0000*/                   EXIT ;
"""

# A source that needs no header of the project.
PLAIN = """\
#define KERNEL(name, threads, blocks, params) extern "C" __global__ void __launch_bounds__(threads, blocks) name params
// budget: 16 registers
// uses: IMAD
KERNEL(scale, 128, 1, (unsigned* words, unsigned by)) { words[threadIdx.x] = words[threadIdx.x] * by + by; }
"""

# A kernel with more live values than registers for 512 threads.
SPILLING = (
    PLAIN
    + """
// budget: 128 registers
KERNEL(spilling, 512, 1, (unsigned* words)) {
    unsigned v[160];
#pragma unroll
    for (int i = 0; i < 160; ++i) v[i] = words[i * 512 + threadIdx.x];
    for (int round = 0; round < 9; ++round) {
#pragma unroll
        for (int i = 0; i < 160; ++i) v[i] = v[i] * v[(i + 7) % 160] + round;
    }
#pragma unroll
    for (int i = 0; i < 160; ++i) words[i * 512 + threadIdx.x] = v[i];
}
"""
)


def test_budgets_and_uses_are_found():
    source = cuda_sources.parse_source(
        "a.cu",
        """\
// A file.
// architectures: 80, 90a
// Folds rows.
// budget: 64 registers
// uses: IMMA, LDGSTS
// uses(90a): IGMMA
KERNEL(fold, 256, 2, (int* a)) {}
#define TILE(n) \\
    KERNEL(tile_##n, 256, 1, (int* a)) {}
// budget tile_8: 128 registers
// uses tile_8(80): IDP
TILE(8)
""",
    )
    assert source.problems == []
    assert source.architectures == ["80", "90a"]
    assert {name: kernel.registers for name, kernel in source.kernels.items()} == {"fold": 64, "tile_8": 128}
    assert source.kernels["fold"].uses == [(None, "IMMA"), (None, "LDGSTS"), ("90a", "IGMMA")]
    assert source.kernels["tile_8"].uses == [("80", "IDP")]


@COMPILES
@pytest.mark.parametrize(
    "architecture",
    [pytest.param(name, marks=[] if name == WITH_MOST_KERNELS else pytest.mark.long) for name in cuda_sources.ARCHITECTURES],
)
def test_committed_pack(architecture):
    """The pack matches the compiled sources for this architecture, and its manifest for the others."""
    run(sys.executable, cuda_pack.__file__, "check", "--arch", architecture)


def problems(text):
    return cuda_sources.parse_source("a.cu", text).problems


def test_a_missing_budget_names_file_and_line():
    (problem,) = problems("// A kernel.\n// budget: 8 registers\n\nint x;\nKERNEL(fold, 1, 1, ()) {}")[1:]
    assert problem.startswith("a.cu:5: kernel fold has no budget"), problem


def test_what_is_misspelt_is_a_problem():
    kernel = "\nKERNEL(fold, 1, 1, ()) {}"
    for text, expected in (
        ("// budget: many registers" + kernel, "a.cu:1: a budget reads"),
        ("// budget: 64" + kernel, "a.cu:1: a budget reads"),
        ("// budget: 64 registers\n", "a.cu:1: this line stands above no KERNEL"),
        ("// budget: 1 registers\n// budget: 2 registers" + kernel, "a.cu:2: a second budget"),
        ("// budget: 1 registers\n// uses(90): IGMMA" + kernel, "a.cu:2: no architecture '90'"),
        ("// architectures: 70\n// budget: 1 registers" + kernel, "a.cu:1: no architecture '70'"),
    ):
        assert problems(text)[0].startswith(expected), problems(text)


def test_the_assembler_is_read_with_functions_that_are_called():
    kernels, rest = cuda_compiler.parse_ptxas(PTXAS)
    assert kernels == {
        "fold": {"registers": 16, "spills": 0, "stack": 0, "shared": 0},
        "tall": {"registers": 255, "spills": 24, "stack": 40, "shared": 1024},
    }
    assert len(rest) == 1
    assert "Potential Performance Loss" in rest[0]
    assert not cuda_pack.is_remark(rest[0])
    assert cuda_pack.is_remark("ptxas info    : (C7519) warpgroup.arrive is injected in around line 5")
    with pytest.raises(cuda_sources.PackError):
        cuda_compiler.parse_ptxas(PTXAS.replace("Used 16", "Takes 16"))


def test_instructions_are_counted():
    assert cuda_compiler.parse_sass(SASS) == {
        "fold": {"MOV": 1, "IMAD.WIDE.U32": 1, "IMMA.16832.U8.U8": 2},
        "tall": {"EXIT": 1},
    }
    kernel = cuda_sources.Kernel(1, [(None, "IMMA"), ("90a", "IGMMA"), (None, "IMAD.WIDE"), (None, "IM")])
    counts = cuda_compiler.parse_sass(SASS)["fold"]
    assert cuda_pack.uses_of(kernel, "80", counts) == {"IMMA": 2, "IMAD.WIDE": 1, "IM": 0}


def test_any_flipped_bit_of_a_pack_is_seen():
    images = {
        ("fold", "80"): cuda_pack.Image(b"one" * 9, ["fold"]),
        ("fold", "90a"): cuda_pack.Image(b"two" * 9, ["fold", "fold_twice"]),
        ("fold", "ptx90"): cuda_pack.Image(b"three\0", ["fold"]),
        ("tile", "120"): cuda_pack.Image(b"", ["tile"]),
    }
    packed = cuda_pack.pack(images)
    assert cuda_pack.unpack(packed) == images
    for bit in range(8 * len(packed)):
        flipped = bytearray(packed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(cuda_sources.PackError):
            cuda_pack.unpack(bytes(flipped))
    for length in range(len(packed)):
        with pytest.raises(cuda_sources.PackError):
            cuda_pack.unpack(packed[:length])


class Script:
    """The script as a program, with its own kernels and pack."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "kernels").mkdir()

    def write(self, text, name="plain.cu"):
        (self.folder / "kernels" / name).write_text(text, encoding="utf-8")

    def run(self, verb, *options, status=0):
        done = subprocess.run(
            [
                sys.executable,
                cuda_pack.__file__,
                verb,
                "--kernels",
                self.folder / "kernels",
                "--pack",
                self.folder / "pack",
                *options,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def budgets(self, text, status=1, architectures="80"):
        self.write(text)
        return self.run("budgets", "--arch", architectures, status=status)


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path)


@COMPILES
def test_kernels_beyond_their_budgets_fail(script):
    assert "plain/scale" in script.budgets(PLAIN, status=0)
    said = script.budgets(PLAIN.replace("16 registers", "4 registers"))
    assert re.search(r"plain\.cu: sm_80: scale takes \d+ registers, its budget is 4", said)
    said = script.budgets(SPILLING, architectures="80,90a")
    assert re.search(r"plain\.cu: sm_90a: spilling has spills of \d+ bytes; none is allowed", said)
    assert re.search(r"plain\.cu: sm_80: spilling has stack of \d+ bytes; none is allowed", said)
    assert "scale has" not in said
    said = script.budgets(
        PLAIN.replace(
            "{ words", "{ __shared__ unsigned s[32]; s[threadIdx.x % 32] = by;__syncthreads(); by += s[by % 32]; words"
        )
    )
    assert "scale has shared of 128 bytes of static memory; none is allowed" in said


@COMPILES
def test_kernels_without_what_they_need_fail(script):
    assert "plain.cu:4: kernel scale has no budget" in script.budgets(PLAIN.replace("// budget", "// badget"))
    assert "plain.cu: sm_80: scale has no IGMMA" in script.budgets(PLAIN.replace("IMAD", "IGMMA"))
    both = "80,90a"
    said = script.budgets(PLAIN.replace("uses: IMAD", "uses(90a): IGMMA"), architectures=both)
    assert "sm_90a: scale has no IGMMA" in said
    assert "sm_80: scale has no IGMMA" not in said
    guarded = PLAIN.replace("// budget", "#if __CUDA_ARCH__ < 900\n// budget") + "#endif\n"
    assert "90a" not in script.budgets(guarded, status=0, architectures=both)
    said = script.budgets(guarded.replace("uses:", "uses(90a):"), architectures=both)
    assert "must use IMAD on sm_90a but is not there" in said
    bare = 'extern "C" __global__ void bare() {}\n'
    assert "kernel bare has no budget" in script.budgets(PLAIN + bare)
    assert "plain.cu does not compile for sm_80" in script.budgets(PLAIN + "int x = ;")
    assert "declared but never referenced" in script.budgets(PLAIN.replace("{ words", "{ int unused; words"))
    table = "namespace spirea { extern __constant__ const unsigned table[32] = {1}; }\n"
    kernel = PLAIN.replace("+ by", "+ spirea::table[by]")
    script.budgets(table + kernel, status=0)
    assert "is named after the folder" in script.budgets(table.replace("extern ", "") + kernel)
    script.write(PLAIN, "other.cu")
    assert "plain.cu: kernel scale is in other.cu too" in script.budgets(PLAIN)


@COMPILES
def test_a_pack_is_the_same_in_another_folder_and_without_the_cache(script):
    script.write("// architectures: 80, 90a\n" + PLAIN)
    script.run("build")
    pack = script.folder / "pack"
    written = [(pack / name).read_bytes() for name in ("kernels.pack", "manifest.json")]
    assert list(json.loads(written[1])["cubins"]["plain"]) == ["80", "90a"]
    assert os.fsencode(script.folder) not in b"".join(written)
    assert os.fsencode(script.folder) not in b"".join(image.data for image in cuda_pack.unpack(written[0]).values())
    with tempfile.TemporaryDirectory(prefix="spirea-other-") as other:
        # Runs the script with another cache.
        program = (
            "import sys, pathlib, cuda_compiler, cuda_pack\n"
            "cuda_compiler.CACHE = pathlib.Path(sys.argv.pop())\n"
            "cuda_pack.main()"
        )
        kernels = Path(other) / "deeper" / "kernels"
        kernels.mkdir(parents=True)
        (kernels / "plain.cu").write_text("// architectures: 80, 90a\n" + PLAIN, encoding="utf-8")
        subprocess.run(
            [sys.executable, "-c", program, "check", "--kernels", kernels, "--pack", pack, Path(other) / "cache"],
            cwd=Path(cuda_pack.__file__).parent,
            check=True,
            stdout=subprocess.DEVNULL,
        )


@COMPILES
def test_a_change_is_named(script, monkeypatch):
    script.write("// architectures: 80\n" + PLAIN)
    assert "No such file" in script.run("check", status=1)
    script.run("build")
    script.run("check")
    pack, manifest = script.folder / "pack" / "kernels.pack", script.folder / "pack" / "manifest.json"
    whole, text = pack.read_bytes(), manifest.read_text(encoding="utf-8")

    damaged = bytearray(whole)
    damaged[-9] ^= 1
    pack.write_bytes(damaged)
    said = script.run("check", status=1)
    assert "kernels.pack: the pack is damaged" in said
    assert "make cuda-pack" in said

    # Changes a byte of the kernel's code, with correct hashes.
    ((key, image),) = cuda_pack.unpack(whole).items()
    code = image.data.index(cuda_pack.sections(image.data)[".text.scale"])
    changed = bytearray(image.data)
    changed[code + 3] ^= 1
    pack.write_bytes(cuda_pack.pack({key: cuda_pack.Image(bytes(changed), image.kernels)}))
    assert "plain.cu: sm_80 differs: kernel scale" in script.run("check", status=1)
    pack.write_bytes(cuda_pack.pack({key: cuda_pack.Image(image.data, ["scales"])}))
    assert "plain.cu: sm_80 differs: the names of its kernels" in script.run("check", status=1)

    # A pack with the same cubin in another compression counts as the same.
    monkeypatch.setitem(cuda_pack.LZMA, "preset", 0)
    other = cuda_pack.pack({key: image})
    monkeypatch.undo()
    assert other != whole
    pack.write_bytes(other)
    script.run("check")
    script.run("build")
    assert pack.read_bytes() == other

    manifest.write_text(re.sub(r'"registers": \d+', '"registers": 1', text), encoding="utf-8")
    said = script.run("check", status=1)
    assert re.search(r"manifest\.json: cubins plain 80 kernels scale registers: 1, now \d+", said)
    manifest.write_text(text[:-9], encoding="utf-8")
    assert "manifest.json: " in script.run("check", status=1)
    manifest.write_text(text, encoding="utf-8")

    script.write("// architectures: 80\n" + PLAIN.replace("+ by", "- by"))
    said = script.run("check", status=1)
    assert "plain.cu: sm_80 differs: kernel scale" in said
    assert "manifest.json: sources plain.cu: " in said
    script.write("// architectures: 86\n" + PLAIN)
    said = script.run("check", status=1)
    assert "plain.cu: sm_86 is not in the pack" in said
    assert "plain.cu: sm_80 is in the pack, but not among the sources" in said


@COMPILES
def test_ptx_is_packed_and_held_to_the_budgets(script):
    script.write("// architectures: 80, ptx90\n" + PLAIN)
    script.run("build")
    script.run("check")
    images = cuda_pack.unpack((script.folder / "pack" / "kernels.pack").read_bytes())
    ptx = images["plain", "ptx90"]
    assert ptx.kernels == ["scale"]
    text = ptx.data.decode("ascii")
    assert text.endswith("\0")
    assert f"\n.version {cuda_compiler.PTX_VERSION}\n.target sm_90\n" in text
    assert ".entry scale(" in text
    said = script.budgets("// architectures: ptx90\n" + PLAIN.replace("16 registers", "4 registers"), architectures="ptx90")
    assert re.search(r"plain\.cu: compute_90: scale takes \d+ registers, its budget is 4", said)
    script.write("// architectures: 80, ptx90\n" + PLAIN.replace("+ by", "- by"))
    assert "plain.cu: compute_90 differs: " in script.run("check", status=1)


def test_ptx_is_declared_to_be_of_the_assemblers_version():
    text = "// compiler\n\n.version 9.0\n.target sm_90\n// .version 9.0\n"
    assert cuda_compiler.of_assembler(text) == text.replace("\n.version 9.0", f"\n.version {cuda_compiler.PTX_VERSION}")
    with pytest.raises(cuda_sources.PackError):
        cuda_compiler.of_assembler(".target sm_90\n")


def test_targets_are_written_as_they_are_read():
    for architecture in cuda_sources.ARCHITECTURES:
        assert cuda_pack.joined_target(*cuda_pack.split_target(architecture)) == architecture
    assert cuda_pack.split_target("ptx90") == (9, 0, 2)
    assert cuda_pack.split_target("120") == (12, 0, 0)
    assert [cuda_compiler.target(name) for name in ("90a", "ptx90")] == ["sm_90a", "compute_90"]
    with pytest.raises(cuda_sources.PackError):
        cuda_pack.joined_target(9, 0, 3)


@COMPILES
def test_some_architectures_can_be_checked_alone(script):
    script.write("// architectures: 80, 90a\n" + PLAIN)
    script.run("build")
    assert "1 sources, 1 images" in script.run("check", "--arch", "90a")
    assert "all architectures" in script.run("build", "--arch", "90a", status=2)
    pack = script.folder / "pack" / "kernels.pack"
    whole = pack.read_bytes()
    images = cuda_pack.unpack(whole)
    images["plain", "80"].data = images["plain", "80"].data[:-1]
    pack.write_bytes(cuda_pack.pack(images))
    said = script.run("check", "--arch", "90a", status=1)
    assert "plain.cu: sm_80 is another in the pack than in the manifest" in said
    assert "90a" not in said
    assert "sm_90a" not in script.run("check", "--arch", "80", status=1)
    pack.write_bytes(whole)
    script.write("// architectures: 80, 90a\n" + PLAIN.replace("+ by", "- by"))
    said = script.run("check", "--arch", "90a", status=1)
    assert "plain.cu: sm_90a differs: kernel scale" in said
    assert "manifest.json: sources plain.cu: " in said


@COMPILES
def test_a_changed_header_is_compiled_again(script):
    script.write("#define BY 3\n", "by.cuh")
    text = '#include "by.cuh"\n// architectures: 80\n' + PLAIN.replace("+ by", "+ BY")
    script.write(text)
    script.run("build")
    script.write("#define BY 5\n", "by.cuh")
    said = script.run("check", status=1)
    assert "plain.cu: sm_80 differs: kernel scale" in said
