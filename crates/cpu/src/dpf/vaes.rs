//! VAES on 256-bit vectors: two blocks a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind};

use super::aes::{AesLanes, RoundKeys, aes_tree};
use super::aesni::{AesNi, block};
use crate::isa::Avx2;

/// Proof that AVX2 and VAES are there, with the round keys.
#[derive(Clone, Copy)]
pub(crate) struct Vaes(&'static RoundKeys);

impl Vaes {
    /// The proof, where the processor and the system have them.
    pub(crate) fn detect(_: Avx2) -> Option<Self> {
        let keys = AesNi::detect()?.keys();
        is_x86_feature_detected!("vaes").then_some(Self(keys))
    }
}

impl AesLanes for Vaes {
    type Vector = __m256i;
    const BLOCKS: usize = 2;

    #[inline(always)]
    fn round_keys(self) -> &'static RoundKeys {
        self.0
    }

    #[inline(always)]
    fn splat(self, value: Block) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_broadcastsi128_si256(block(&value)) }
    }

    #[inline(always)]
    fn load(self, blocks: &[Block]) -> __m256i {
        let blocks = &blocks[..2];
        // SAFETY: `self` proves AVX2; the slice has 32 bytes.
        unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) }
    }

    #[inline(always)]
    fn repeat<const N: usize>(self, blocks: &[Block]) -> __m256i {
        self.splat(blocks[0])
    }

    #[inline(always)]
    fn store(self, vector: __m256i, blocks: &mut [Block]) {
        let blocks = &mut blocks[..2];
        // SAFETY: `self` proves AVX2; the slice has 32 bytes.
        unsafe { _mm256_storeu_si256(blocks.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn sigma(self, nodes: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let seeds = _mm256_and_si256(nodes, _mm256_set_epi64x(-1, -2, -1, -2));
            _mm256_xor_si256(_mm256_shuffle_epi32::<0xEE>(seeds), _mm256_bslli_epi128::<8>(seeds))
        }
    }

    #[inline(always)]
    fn round(self, state: __m256i, key: __m256i) -> __m256i {
        // SAFETY: `self` proves VAES.
        unsafe { _mm256_aesenc_epi128(state, key) }
    }

    #[inline(always)]
    fn last_round(self, state: __m256i, key: __m256i) -> __m256i {
        // SAFETY: `self` proves VAES.
        unsafe { _mm256_aesenclast_epi128(state, key) }
    }

    #[inline(always)]
    fn add32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add64(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    fn add128(self, a: __m256i, b: __m256i, not_b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2. A carry is all ones, which is subtracted from the upper half.
        unsafe {
            let carry = _mm256_cmpgt_epi64(a, not_b);
            _mm256_sub_epi64(_mm256_add_epi64(a, b), _mm256_bslli_epi128::<8>(carry))
        }
    }
}

aes_tree!(Vaes, "avx2,vaes");
