//! VAES on 512-bit vectors: four blocks a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind};

use super::aes::{AesLanes, RoundKeys, aes_tree};
use super::aesni::{AesNi, block};
use crate::isa::Avx512;

/// Proof that AVX-512 F and BW, and VAES, are there, with the round keys.
#[derive(Clone, Copy)]
pub(crate) struct Vaes512(&'static RoundKeys);

impl Vaes512 {
    /// The proof, where the processor and the system have them.
    pub(crate) fn detect(_: Avx512) -> Option<Self> {
        let keys = AesNi::detect()?.keys();
        is_x86_feature_detected!("vaes").then_some(Self(keys))
    }
}

impl AesLanes for Vaes512 {
    type Vector = __m512i;
    const BLOCKS: usize = 4;

    #[inline(always)]
    fn round_keys(self) -> &'static RoundKeys {
        self.0
    }

    #[inline(always)]
    fn splat(self, value: Block) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_broadcast_i32x4(block(&value)) }
    }

    #[inline(always)]
    fn load(self, blocks: &[Block]) -> __m512i {
        let blocks = &blocks[..4];
        // SAFETY: `self` proves AVX-512 F; the slice has 64 bytes.
        unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) }
    }

    #[inline(always)]
    fn repeat<const N: usize>(self, blocks: &[Block]) -> __m512i {
        if N == 4 {
            return self.splat(blocks[0]);
        }
        let pair = &blocks[..2];
        // SAFETY: `self` proves AVX-512 F; the slice has 32 bytes.
        unsafe {
            let pair = _mm512_castsi256_si512(_mm256_loadu_si256(pair.as_ptr().cast()));
            _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), pair)
        }
    }

    #[inline(always)]
    fn store(self, vector: __m512i, blocks: &mut [Block]) {
        let blocks = &mut blocks[..4];
        // SAFETY: `self` proves AVX-512 F; the slice has 64 bytes.
        unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn sigma(self, nodes: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F and BW.
        unsafe {
            let seeds = _mm512_and_si512(nodes, _mm512_set_epi64(-1, -2, -1, -2, -1, -2, -1, -2));
            _mm512_xor_si512(_mm512_shuffle_epi32::<0xEE>(seeds), _mm512_bslli_epi128::<8>(seeds))
        }
    }

    #[inline(always)]
    fn round(self, state: __m512i, key: __m512i) -> __m512i {
        // SAFETY: `self` proves VAES.
        unsafe { _mm512_aesenc_epi128(state, key) }
    }

    #[inline(always)]
    fn last_round(self, state: __m512i, key: __m512i) -> __m512i {
        // SAFETY: `self` proves VAES.
        unsafe { _mm512_aesenclast_epi128(state, key) }
    }

    #[inline(always)]
    fn add32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add64(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    fn add128(self, a: __m512i, b: __m512i, not_b: __m512i) -> __m512i {
        // SAFETY: `self` proves AVX-512 F and BW. A carry is all ones, which is subtracted from the upper half.
        unsafe {
            let carry = _mm512_maskz_set1_epi64(_mm512_cmpgt_epi64_mask(a, not_b), -1);
            _mm512_sub_epi64(_mm512_add_epi64(a, b), _mm512_bslli_epi128::<8>(carry))
        }
    }
}

aes_tree!(Vaes512, "avx512f,avx512bw,vaes");
