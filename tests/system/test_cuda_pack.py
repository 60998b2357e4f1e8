#!/usr/bin/env python3
"""Tests of cuda_pack.py: how sources and tools are read, and that what must fail does.

Usage: test_cuda_pack.py
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cuda_pack

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

# It needs no header of the project.
PLAIN = """\
#define KERNEL(name, threads, blocks, params) extern "C" __global__ void __launch_bounds__(threads, blocks) name params
// budget: 16 registers
// uses: IMAD
KERNEL(scale, 128, 1, (unsigned* words, unsigned by)) { words[threadIdx.x] = words[threadIdx.x] * by + by; }
"""

# More live values than 512 threads leave registers for.
SPILLING = PLAIN + """
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


class Reading(unittest.TestCase):
    """Of sources and of what the tools print."""

    def test_budgets_and_uses_are_found(self):
        source = cuda_pack.parse_source("a.cu", """\
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
""")
        self.assertEqual(source.problems, [])
        self.assertEqual(source.architectures, ["80", "90a"])
        self.assertEqual({name: kernel.registers for name, kernel in source.kernels.items()},
                         {"fold": 64, "tile_8": 128})
        self.assertEqual(source.kernels["fold"].uses, [(None, "IMMA"), (None, "LDGSTS"), ("90a", "IGMMA")])
        self.assertEqual(source.kernels["tile_8"].uses, [("80", "IDP")])

    def problems(self, text):
        return cuda_pack.parse_source("a.cu", text).problems

    def test_a_missing_budget_names_file_and_line(self):
        (problem,) = self.problems("// A kernel.\n// budget: 8 registers\n\nint x;\nKERNEL(fold, 1, 1, ()) {}")[1:]
        self.assertTrue(problem.startswith("a.cu:5: kernel fold has no budget"), problem)

    def test_what_is_misspelt_is_a_problem(self):
        kernel = "\nKERNEL(fold, 1, 1, ()) {}"
        for text, expected in (
            ("// budget: many registers" + kernel, "a.cu:1: a budget reads"),
            ("// budget: 64" + kernel, "a.cu:1: a budget reads"),
            ("// budget: 64 registers\n", "a.cu:1: this line stands above no KERNEL"),
            ("// budget: 1 registers\n// budget: 2 registers" + kernel, "a.cu:2: a second budget"),
            ("// budget: 1 registers\n// uses(90): IGMMA" + kernel, "a.cu:2: no architecture '90'"),
            ("// architectures: 70\n// budget: 1 registers" + kernel, "a.cu:1: no architecture '70'"),
        ):
            self.assertTrue(self.problems(text)[0].startswith(expected), self.problems(text))

    def test_the_assembler_is_read_with_functions_that_are_called(self):
        kernels, rest = cuda_pack.parse_ptxas(PTXAS)
        self.assertEqual(kernels, {
            "fold": {"registers": 16, "spills": 0, "stack": 0, "shared": 0},
            "tall": {"registers": 255, "spills": 24, "stack": 40, "shared": 1024},
        })
        self.assertEqual(len(rest), 1)
        self.assertIn("Potential Performance Loss", rest[0])
        self.assertFalse(cuda_pack.is_remark(rest[0]))
        self.assertTrue(cuda_pack.is_remark("ptxas info    : (C7519) warpgroup.arrive is injected in around line 5"))
        with self.assertRaises(cuda_pack.PackError):
            cuda_pack.parse_ptxas(PTXAS.replace("Used 16", "Takes 16"))

    def test_instructions_are_counted(self):
        self.assertEqual(cuda_pack.parse_sass(SASS), {
            "fold": {"MOV": 1, "IMAD.WIDE.U32": 1, "IMMA.16832.U8.U8": 2},
            "tall": {"EXIT": 1},
        })
        kernel = cuda_pack.Kernel(1, [(None, "IMMA"), ("90a", "IGMMA"), (None, "IMAD.WIDE"), (None, "IM")])
        counts = cuda_pack.parse_sass(SASS)["fold"]
        self.assertEqual(cuda_pack.uses_of(kernel, "80", counts), {"IMMA": 2, "IMAD.WIDE": 1, "IM": 0})

    def test_any_flipped_bit_of_a_pack_is_seen(self):
        cubins = {("fold", "80"): b"one" * 9, ("fold", "90a"): b"two" * 9, ("tile", "120"): b""}
        packed = cuda_pack.pack(cubins)
        self.assertEqual(cuda_pack.unpack(packed), cubins)
        for bit in range(8 * len(packed)):
            flipped = bytearray(packed)
            flipped[bit // 8] ^= 1 << bit % 8
            with self.assertRaises(cuda_pack.PackError):
                cuda_pack.unpack(bytes(flipped))
        for length in range(len(packed)):
            with self.assertRaises(cuda_pack.PackError):
                cuda_pack.unpack(packed[:length])


class Running(unittest.TestCase):
    """The script as a program, with the real compiler."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="spirea-pack-")))
        (self.folder / "kernels").mkdir()

    def write(self, text, name="plain.cu"):
        (self.folder / "kernels" / name).write_text(text, encoding="utf-8")

    def run_script(self, verb, *options, status=0):
        done = subprocess.run(
            [sys.executable, cuda_pack.__file__, verb, "--kernels", self.folder / "kernels", "--pack",
             self.folder / "pack", *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def budgets(self, text, status=1, architectures="80"):
        self.write(text)
        return self.run_script("budgets", "--arch", architectures, status=status)

    def test_kernels_beyond_their_budgets_fail(self):
        self.assertIn("plain/scale", self.budgets(PLAIN, status=0))
        said = self.budgets(PLAIN.replace("16 registers", "4 registers"))
        self.assertRegex(said, r"plain\.cu: sm_80: scale takes \d+ registers, its budget is 4")
        said = self.budgets(SPILLING, architectures="80,90a")
        self.assertRegex(said, r"plain\.cu: sm_90a: spilling has spills of \d+ bytes; none is allowed")
        self.assertRegex(said, r"plain\.cu: sm_80: spilling has stack of \d+ bytes; none is allowed")
        self.assertNotIn("scale has", said)
        said = self.budgets(PLAIN.replace("{ words", "{ __shared__ unsigned s[32]; s[threadIdx.x % 32] = by;"
                                          "__syncthreads(); by += s[by % 32]; words"))
        self.assertIn("scale has shared of 128 bytes of static memory; none is allowed", said)

    def test_kernels_without_what_they_need_fail(self):
        self.assertIn("plain.cu:4: kernel scale has no budget", self.budgets(PLAIN.replace("// budget", "// badget")))
        self.assertIn("plain.cu: sm_80: scale has no IGMMA", self.budgets(PLAIN.replace("IMAD", "IGMMA")))
        both = "80,90a"
        said = self.budgets(PLAIN.replace("uses: IMAD", "uses(90a): IGMMA"), architectures=both)
        self.assertIn("sm_90a: scale has no IGMMA", said)
        self.assertNotIn("sm_80: scale has no IGMMA", said)
        guarded = PLAIN.replace("// budget", "#if __CUDA_ARCH__ < 900\n// budget") + "#endif\n"
        self.assertNotIn("90a", self.budgets(guarded, status=0, architectures=both))
        said = self.budgets(guarded.replace("uses:", "uses(90a):"), architectures=both)
        self.assertIn("must use IMAD on sm_90a but is not there", said)
        bare = 'extern "C" __global__ void bare() {}\n'
        self.assertIn("kernel bare has no budget", self.budgets(PLAIN + bare))
        self.assertIn("plain.cu does not compile for sm_80", self.budgets(PLAIN + "int x = ;"))
        self.assertIn("declared but never referenced", self.budgets(PLAIN.replace("{ words", "{ int unused; words")))
        table = "namespace spirea { extern __constant__ const unsigned table[32] = {1}; }\n"
        kernel = PLAIN.replace("+ by", "+ spirea::table[by]")
        self.budgets(table + kernel, status=0)
        self.assertIn("is named after the folder", self.budgets(table.replace("extern ", "") + kernel))
        self.write(PLAIN, "other.cu")
        self.assertIn("plain.cu: kernel scale is in other.cu too", self.budgets(PLAIN))

    def test_a_pack_is_the_same_in_another_folder_and_without_the_cache(self):
        self.write("// architectures: 80, 90a\n" + PLAIN)
        self.run_script("build")
        pack = self.folder / "pack"
        written = [(pack / name).read_bytes() for name in ("kernels.pack", "manifest.json")]
        self.assertEqual(list(json.loads(written[1])["cubins"]["plain"]), ["80", "90a"])
        self.assertNotIn(os.fsencode(self.folder), b"".join(written))
        self.assertNotIn(os.fsencode(self.folder), b"".join(cuda_pack.unpack(written[0]).values()))
        with tempfile.TemporaryDirectory(prefix="spirea-other-") as other:
            # As the script itself, with a cache of its own.
            script = ("import sys, pathlib, cuda_pack\n"
                      "cuda_pack.CACHE = pathlib.Path(sys.argv.pop())\n"
                      "cuda_pack.main()")
            kernels = Path(other) / "deeper" / "kernels"
            kernels.mkdir(parents=True)
            (kernels / "plain.cu").write_text("// architectures: 80, 90a\n" + PLAIN, encoding="utf-8")
            subprocess.run([sys.executable, "-c", script, "check", "--kernels", kernels, "--pack", pack,
                            Path(other) / "cache"], cwd=Path(cuda_pack.__file__).parent, check=True,
                           stdout=subprocess.DEVNULL)

    def test_a_change_is_named(self):
        self.write("// architectures: 80\n" + PLAIN)
        self.assertIn("No such file", self.run_script("check", status=1))
        self.run_script("build")
        self.run_script("check")
        pack, manifest = self.folder / "pack" / "kernels.pack", self.folder / "pack" / "manifest.json"
        whole, text = pack.read_bytes(), manifest.read_text(encoding="utf-8")

        damaged = bytearray(whole)
        damaged[-9] ^= 1
        pack.write_bytes(damaged)
        said = self.run_script("check", status=1)
        self.assertIn("kernels.pack: the pack is damaged", said)
        self.assertIn("make cuda-pack", said)

        # A byte of the kernel's code, everything else put right.
        ((key, cubin),) = cuda_pack.unpack(whole).items()
        code = cubin.index(cuda_pack.sections(cubin)[".text.scale"])
        changed = bytearray(cubin)
        changed[code + 3] ^= 1
        pack.write_bytes(cuda_pack.pack({key: bytes(changed)}))
        self.assertIn("plain.cu: sm_80 differs: kernel scale", self.run_script("check", status=1))

        # The same cubin, compressed otherwise, is the same pack.
        compress, cuda_pack.zlib.compress = cuda_pack.zlib.compress, lambda data, level: compress(data, 1)
        try:
            other = cuda_pack.pack({key: cubin})
        finally:
            cuda_pack.zlib.compress = compress
        self.assertNotEqual(other, whole)
        pack.write_bytes(other)
        self.run_script("check")
        self.run_script("build")
        self.assertEqual(pack.read_bytes(), other)

        manifest.write_text(re.sub(r'"registers": \d+', '"registers": 1', text), encoding="utf-8")
        said = self.run_script("check", status=1)
        self.assertRegex(said, r"manifest\.json: cubins plain 80 kernels scale registers: 1, now \d+")
        manifest.write_text(text[:-9], encoding="utf-8")
        self.assertIn("manifest.json: ", self.run_script("check", status=1))
        manifest.write_text(text, encoding="utf-8")

        self.write("// architectures: 80\n" + PLAIN.replace("+ by", "- by"))
        said = self.run_script("check", status=1)
        self.assertIn("plain.cu: sm_80 differs: kernel scale", said)
        self.assertIn("manifest.json: sources plain.cu: ", said)
        self.write("// architectures: 86\n" + PLAIN)
        said = self.run_script("check", status=1)
        self.assertIn("plain.cu: sm_86 is not in the pack", said)
        self.assertIn("plain.cu: sm_80 is in the pack, but not among the sources", said)

    def test_some_architectures_can_be_checked_alone(self):
        self.write("// architectures: 80, 90a\n" + PLAIN)
        self.run_script("build")
        self.assertIn("1 sources, 1 cubins", self.run_script("check", "--arch", "90a"))
        self.assertIn("all architectures", self.run_script("build", "--arch", "90a", status=2))
        pack = self.folder / "pack" / "kernels.pack"
        whole = pack.read_bytes()
        cubins = cuda_pack.unpack(whole)
        cubins["plain", "80"] = cubins["plain", "80"][:-1]
        pack.write_bytes(cuda_pack.pack(cubins))
        said = self.run_script("check", "--arch", "90a", status=1)
        self.assertIn("plain.cu: sm_80 is another in the pack than in the manifest", said)
        self.assertNotIn("90a", said)
        self.assertNotIn("sm_90a", self.run_script("check", "--arch", "80", status=1))
        pack.write_bytes(whole)
        self.write("// architectures: 80, 90a\n" + PLAIN.replace("+ by", "- by"))
        said = self.run_script("check", "--arch", "90a", status=1)
        self.assertIn("plain.cu: sm_90a differs: kernel scale", said)
        self.assertIn("manifest.json: sources plain.cu: ", said)

    def test_a_changed_header_is_compiled_again(self):
        self.write("#define BY 3\n", "by.cuh")
        text = '#include "by.cuh"\n// architectures: 80\n' + PLAIN.replace("+ by", "+ BY")
        self.write(text)
        self.run_script("build")
        self.write("#define BY 5\n", "by.cuh")
        said = self.run_script("check", status=1)
        self.assertIn("plain.cu: sm_80 differs: kernel scale", said)


if __name__ == "__main__":
    unittest.main()
