"""Faults to plant in the machine code: what an assembler could do wrong without a sign."""

import re
from dataclasses import dataclass

ARCHITECTURE = "90a"


@dataclass(frozen=True)
class Fault:
    """A fault in a kernel of a source: a pattern, which of its occurrences are replaced, and a text that selects checks."""

    source: str
    kernel: str
    about: str
    pattern: str
    replacement: str
    check: str
    # Counted from 0; empty for all.
    occurrences: tuple = (0,)

    def planted(self, text):
        """Returns the disassembly with the fault."""
        start = text.index(f".text.{self.kernel}:")
        end = text.find("\t.section", start)
        end = len(text) if end < 0 else end
        code = text[start:end]
        found_all = list(re.finditer(self.pattern, code))
        for found in [found_all[i] for i in self.occurrences[::-1]] or found_all[::-1]:
            code = code[: found.start()] + found.expand(self.replacement) + code[found.end() :]
        return text[:start] + code + text[end:]


FAULTS = [
    Fault(
        "scalar_fold_wgmma",
        "scalar_fold_wgmma_32",
        "copies of a stage are not awaited",
        r"DEPBAR\.LE SB0, 0x1",
        "DEPBAR.LE SB0, 0x2",
        "scalar_fold wgmma",
    ),
    Fault(
        "scalar_fold_wgmma",
        "scalar_fold_wgmma_32",
        "a group of products is not awaited",
        r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1",
        "WARPGROUP.DEPBAR.LE gsb0, 0x2",
        "scalar_fold wgmma",
        # The assembler repeats each of these instructions.
        occurrences=(),
    ),
    Fault(
        "scalar_fold_wgmma",
        "scalar_fold_wgmma_32",
        "the stride in a descriptor is half of what it should be",
        r"UMOV (UR\d+), 0x10 ",
        r"UMOV \1, 0x8 ",
        "scalar_fold wgmma",
    ),
    Fault(
        "scalar_fold_mma",
        "scalar_fold_mma_8",
        "a matrix is loaded from 128 bytes further on",
        r"LDSM\.16\.M88\.4 (R\d+), \[(R\d+)\+0x200\]",
        r"LDSM.16.M88.4 \1, [\2+0x280]",
        "scalar_fold mma",
    ),
    Fault(
        "ntt",
        "ntt_forward_shoup_4096",
        "no barrier between the halves of the exchange",
        r"BAR\.SYNC\.DEFER_BLOCKING 0x0",
        "VIADD RZ, RZ, 0x0",
        "transforms",
        occurrences=(1,),
    ),
    Fault(
        "ntt",
        "ntt_inverse_shoup_4096",
        "a warp's barrier is left out",
        r"NOP ;",
        "VIADD RZ, RZ, 0x0 ;",
        "transforms",
        occurrences=(1,),
    ),
    Fault(
        "product_bytes",
        "product_octets",
        "the columns of a stage are not awaited",
        r"DEPBAR\.LE SB0, 0x2",
        "DEPBAR.LE SB0, 0x3",
        "poly_fold",
    ),
    Fault(
        "share_fold_aes",
        "share_fold_bits_aes128",
        "no barrier after the shares are stored",
        r"BAR\.SYNC\.DEFER_BLOCKING 0x0",
        "VIADD RZ, RZ, 0x0",
        "share_fold aes-128 bit",
    ),
]
