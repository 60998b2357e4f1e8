//! AVX-512 VNNI: `vpdpbusd` multiplies the four columns of a quad by four byte digits; 16 rows a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tile::{Tile, fold_tile, read};
use super::{Microkernel, PanelSums, Quad, RowLanes};
use crate::isa::Avx512;

impl RowLanes for Avx512 {
    type Vector = __m512i;
    const LANES: usize = 16;
    const PHASES: usize = 1;

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn load(self, quad: &Quad, first_row: usize, _phase: usize) -> __m512i {
        let rows = &quad[4 * first_row..4 * first_row + 64];
        // SAFETY: `self` proves AVX-512 F; the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn multiply_add(self, sums: __m512i, columns: __m512i, digits: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 VNNI. Columns are the unsigned operand, digits the signed one.
        unsafe { _mm512_dpbusd_epi32(sums, columns, digits) }
    }

    #[inline(always)]
    fn join<const BITS: i32>(self, low: __m512i, high: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_add_epi32(low, _mm512_sll_epi32(high, _mm_cvtsi32_si128(BITS))) }
    }

    #[inline(always)]
    fn add_to(self, vector: __m512i, sums: &mut PanelSums, first_row: usize) {
        let rows = &mut sums[first_row..first_row + 16];
        // SAFETY: `self` proves AVX-512 F; the slice has 16 words.
        unsafe {
            let total = _mm512_add_epi32(_mm512_loadu_si512(rows.as_ptr().cast()), vector);
            _mm512_storeu_si512(rows.as_mut_ptr().cast(), total);
        }
    }
}

impl Microkernel for Avx512 {
    const TILE: usize = 3;

    #[inline]
    fn fold(self, tile: Tile<'_>) {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { fold(self, tile) }
    }

    #[inline]
    fn read(self, quads: &[Quad], ahead: usize) -> u32 {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { read_all(self, quads, ahead) }
    }

    fn multiply_adds(self, rounds: u64) -> u64 {
        // SAFETY: `self` proves AVX-512 F, BW and VNNI.
        unsafe { multiply_adds(rounds) }
    }
}

/// 24 sums of 32 registers for 3 queries, 16 for 2 and, by two quads at a time, for 1: `vpdpbusd` has a
/// latency of 4 or 5 cycles at two a cycle.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn fold(lanes: Avx512, tile: Tile<'_>) {
    match tile.sums.len() {
        1 => fold_tile::<_, 2, 1, 2>(lanes, tile),
        2 => fold_tile::<_, 2, 2, 1>(lanes, tile),
        3 => fold_tile::<_, 2, 3, 1>(lanes, tile),
        _ => unreachable!("a tile has 1 to 3 queries"),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn read_all(lanes: Avx512, quads: &[Quad], ahead: usize) -> u32 {
    read(lanes, quads, ahead)
}

/// 24 independent chains of `vpdpbusd` a round. In assembly, so that no compiler sees that the sums are of
/// no use.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn multiply_adds(rounds: u64) -> u64 {
    let mut sums = [_mm512_setzero_si512(); 24];
    let (columns, digits) = (_mm512_set1_epi8(3), _mm512_set1_epi8(5));
    for _ in 0..rounds {
        for sum in &mut sums {
            // SAFETY: AVX-512 VNNI is enabled; the assembly touches only its operands.
            unsafe {
                std::arch::asm!(
                    "vpdpbusd {sum}, {columns}, {digits}",
                    columns = in(zmm_reg) columns,
                    digits = in(zmm_reg) digits,
                    sum = inout(zmm_reg) *sum,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
        }
    }
    std::hint::black_box(sums);
    rounds * sums.len() as u64 * 16
}
