"""Tests of scripts/emitted, which runs the pack's machine code on the processor. Its checks are `make check-emitted`."""

import subprocess
import sys

import pytest

from emitted import build, faults, sass, translate
from emitted.meanings import meaning
from emitted.operands import Operands, Refusal
from system.programs import ROOT

SCRIPT = ROOT / "scripts/emitted"
# The sources of the kernels that the self-tests launch.
SELF_TESTS = "selftest,rates,probe_wgmma"
CODE = """\
\t.section\t.text.fold,"ax",@progbits
.text.fold:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 IMAD.WIDE.U32 R2, R0.reuse, R3, c[0x0][0x160] ;
.L_x_1:
        /*0020*/                   LDG.E R4, desc[UR4][R2.64+0x10] ;
        /*0030*/               @P1 BRA `(.L_x_1) ;
        /*0040*/                   EXIT ;
\t.section\t.nv.info,"",@"SHT_CUDA_INFO"
        /*0000*/ \t.byte\t0x04, 0x2f
"""


def statement(text):
    """Returns the statement of an instruction."""
    one = sass.instruction(f"        /*0000*/                   {text} ;")
    return meaning(Operands(in_memory=False), one)


def test_disassembly_is_read():
    (code,) = sass.kernels(CODE).values()
    assert [str(one) for one in code if isinstance(one, sass.Instruction)] == [
        "/*0000*/ MOV R1, c[0x0][0x28]",
        "/*0010*/ @!P0 IMAD.WIDE.U32 R2, R0, R3, c[0x0][0x160]",
        "/*0020*/ LDG.E R4, desc[UR4][R2.64+0x10]",
        "/*0030*/ @P1 BRA `(.L_x_1)",
        "/*0040*/ EXIT",
    ]
    assert code[2] == sass.Label(".L_x_1")


def test_branches_are_jumps_and_guards_are_conditions():
    lines = translate.Body(sass.kernels(CODE)["fold"]).lines
    assert lines[1].startswith("    if (!p0) { ")
    assert lines[2] == "at__L_x_1:;" and lines[4] == "    if (p1) { goto at__L_x_1; }" and lines[5] == "    { return; }"


@pytest.mark.parametrize(
    "text",
    [
        "FROBNICATE R1, R2",
        "IMAD.WIDE.U32 R2, -R3, R4, R6",
        "IMMA.16832.S8.S8 R8, R8.ROW, R14.COL, RZ",
        "MOV R1, c[0x4][0x0]",
        "S2R R0, SR_CLOCKLO",
        "VOTE.ALL P0, P1",
        "ATOMG.E.MAX.STRONG.GPU PT, R2, [R4.64], R6",
        "DEPBAR.LE SB1, 0x0",
    ],
)
def test_instructions_without_a_meaning_are_refused_by_name(text):
    with pytest.raises(Refusal, match=text.split(" ")[0].split(".")[0]):
        statement(text)


def test_statements_of_a_sum_with_carries():
    assert statement("IADD3 R8, P0, R23, -R12, RZ") == (
        "const uint64_t sum = uint64_t(r23) + uint64_t(uint32_t(~r12)) + 1 + uint64_t(0u); "
        "p0 = (sum >> 32) >= 1; r8 = uint32_t(sum);"
    )


def test_addresses_of_turing_are_wide_without_a_mark():
    assert "global_at(emitted::join(r4, r5) + uint64_t(8ll), 4)" in statement("LDG.E.SYS R2, [R4+0x8]")
    assert "global_at(emitted::join(r4, r5) + emitted::join(u6, u7), 4)" in statement("ST.E.SYS [R4.64+UR6], R2")
    assert "shared_at((r4 * 4u) + 0x8u, 4)" in statement("LDS.U R2, [R4.X4+0x8]")


def test_a_product_of_turing_is_a_quarter_of_a_product():
    assert statement("IMMA.8816.U8.U8 R8, R4.ROW, R5.COL, R8") == (
        "const uint32_t a[4] = {r4}, b[2] = {r5}; uint32_t d[4] = {r8, r9}; spirea::mma_u8u8(d, a, b); r8 = d[0]; r9 = d[1];"
    )


# Each takes a minute of a processor.
ARCHITECTURES = ["90a", *(pytest.param(other, marks=pytest.mark.long) for other in ("75", "80", "120"))]


@pytest.mark.needs("g++")
@pytest.mark.full
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_machine_code_of_the_self_tests_computes_rightly(spirea, architecture):
    command = [sys.executable, SCRIPT, "check", "--arch", architecture, "--only", SELF_TESTS, "--filter", "self-test"]
    done = subprocess.run([*command, "--spirea", spirea], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"sm_{architecture}, threads shuffled: " in done.stdout


@pytest.mark.full
@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: f"{fault.kernel}-{fault.about}")
def test_faults_can_be_planted(fault, tmp_path):
    sound, _ = build.disassembly(fault.source, faults.ARCHITECTURE)
    assert fault.planted(sound) != sound
    build.translated(fault.source, faults.ARCHITECTURE, tmp_path, fault.planted)
