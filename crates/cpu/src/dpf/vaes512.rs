//! VAES on 512-bit vectors: four blocks in each vector.

use std::arch::x86_64::*;

use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind};

use super::aes::{AesLanes, RoundKeys, aes_tree};
use super::aesni::{AesNi, block};
use crate::isa::{Avx512, load, operations};

/// Proof that the machine has AVX-512 F and BW, and VAES, with the round keys.
#[derive(Clone, Copy)]
pub(crate) struct Vaes512(&'static RoundKeys);

impl Vaes512 {
    /// Returns the proof if the processor and the system support these instructions.
    pub(crate) fn detect(_: Avx512) -> Option<Self> {
        let keys = AesNi::detect()?.keys();
        is_x86_feature_detected!("vaes").then_some(Self(keys))
    }

    operations! { Vaes512, __m512i:
        repeat_pair(pair: __m256i) = _mm512_permutexvar_epi64(
            _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3),
            _mm512_castsi256_si512(pair),
        );
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
    fn repeat<const N: usize>(self, blocks: &[Block]) -> __m512i {
        if N == 4 { self.splat(blocks[0]) } else { self.repeat_pair(load(&blocks[..2])) }
    }

    operations! { Vaes512, __m512i:
        splat(value: Block) = _mm512_broadcast_i32x4(block(&value));
        xor(a, b) = _mm512_xor_si512(a, b);
        and(a, b) = _mm512_and_si512(a, b);
        sigma(nodes) = {
            let seeds = _mm512_and_si512(nodes, _mm512_set_epi64(-1, -2, -1, -2, -1, -2, -1, -2));
            _mm512_xor_si512(_mm512_shuffle_epi32::<0xEE>(seeds), _mm512_bslli_epi128::<8>(seeds))
        };
        round(state, key) = _mm512_aesenc_epi128(state, key);
        last_round(state, key) = _mm512_aesenclast_epi128(state, key);
        add32(a, b) = _mm512_add_epi32(a, b);
        add64(a, b) = _mm512_add_epi64(a, b);
        // A carry is a word of all ones, which is -1, so it is subtracted from the upper half.
        add128(a, b, not_b) = {
            let carry = _mm512_maskz_set1_epi64(_mm512_cmpgt_epi64_mask(a, not_b), -1);
            _mm512_sub_epi64(_mm512_add_epi64(a, b), _mm512_bslli_epi128::<8>(carry))
        };
    }
}

aes_tree!(Vaes512);
