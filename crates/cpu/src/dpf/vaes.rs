//! VAES on 256-bit vectors: two blocks in each vector.

use std::arch::x86_64::*;

use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind};

use super::aes::{AesLanes, RoundKeys, aes_tree};
use super::aesni::{AesNi, block};
use crate::isa::{Avx2, operations};

/// Proof that the machine has AVX2 and VAES, with the round keys.
#[derive(Clone, Copy)]
pub(crate) struct Vaes(&'static RoundKeys);

impl Vaes {
    /// Returns the proof if the processor and the system support these instructions.
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

    operations! { Vaes, __m256i:
        splat(value: Block) = _mm256_broadcastsi128_si256(block(&value));
        xor(a, b) = _mm256_xor_si256(a, b);
        and(a, b) = _mm256_and_si256(a, b);
        sigma(nodes) = {
            let seeds = _mm256_and_si256(nodes, _mm256_set_epi64x(-1, -2, -1, -2));
            _mm256_xor_si256(_mm256_shuffle_epi32::<0xEE>(seeds), _mm256_bslli_epi128::<8>(seeds))
        };
        round(state, key) = _mm256_aesenc_epi128(state, key);
        last_round(state, key) = _mm256_aesenclast_epi128(state, key);
        add32(a, b) = _mm256_add_epi32(a, b);
        add64(a, b) = _mm256_add_epi64(a, b);
        // A carry is a word of all ones, which is -1, so it is subtracted from the upper half.
        add128(a, b, not_b) = {
            let carry = _mm256_cmpgt_epi64(a, not_b);
            _mm256_sub_epi64(_mm256_add_epi64(a, b), _mm256_bslli_epi128::<8>(carry))
        };
    }
}

aes_tree!(Vaes);
