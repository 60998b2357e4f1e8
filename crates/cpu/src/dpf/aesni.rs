//! AES-NI: one block in each vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::sync::OnceLock;

use bytemuck::cast;
use spirea_dpf::prf::AES_KEY;
use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind};

use super::aes::{AesLanes, ROUNDS, RoundKeys, TURNED, aes_tree};
use crate::isa::{load, operations};

/// Proof that the processor has AES-NI, with the round keys by reference, since tokens are copied
/// often.
#[derive(Clone, Copy)]
pub(crate) struct AesNi(&'static RoundKeys);

impl AesNi {
    /// Returns the proof if the processor has AES-NI.
    pub(crate) fn detect() -> Option<Self> {
        if !is_x86_feature_detected!("aes") {
            return None;
        }
        static KEYS: OnceLock<RoundKeys> = OnceLock::new();
        // SAFETY: the processor has AES-NI.
        Some(Self(KEYS.get_or_init(|| unsafe { round_keys() })))
    }

    /// Returns the fixed key's round keys.
    pub(crate) fn keys(self) -> &'static RoundKeys {
        self.0
    }
}

/// Computes the round keys of the fixed key (FIPS 197, section 5.2).
#[target_feature(enable = "aes")]
fn round_keys() -> RoundKeys {
    let mut keys = [Block::from_le_bytes(AES_KEY); ROUNDS + 1];
    let mut constant = 1u8;
    for round in 1..=ROUNDS {
        let previous = keys[round - 1];
        let last_word = (previous >> 96) as u32;
        // The instruction substitutes and rotates words 1 and 3. Its constant is an immediate, so
        // the constant is added here.
        let turned = _mm_aeskeygenassist_si128::<0>(_mm_set1_epi32(last_word as i32));
        let mut word = _mm_extract_epi32_1(turned) ^ u32::from(constant);
        let mut key = 0;
        for i in 0..4 {
            word ^= (previous >> (32 * i)) as u32;
            key |= Block::from(word) << (32 * i);
        }
        keys[round] = key;
        constant = constant << 1 ^ if constant & 0x80 != 0 { 0x1b } else { 0 };
    }
    keys
}

/// Returns word 1 of a vector.
#[inline]
#[target_feature(enable = "sse2")]
fn _mm_extract_epi32_1(vector: __m128i) -> u32 {
    _mm_cvtsi128_si32(_mm_shuffle_epi32::<1>(vector)) as u32
}

/// Loads one block.
#[inline(always)]
pub(crate) fn block(block: &Block) -> __m128i {
    load(std::slice::from_ref(block))
}

impl AesLanes for AesNi {
    type Vector = __m128i;
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn round_keys(self) -> &'static RoundKeys {
        self.0
    }

    operations! { AesNi, __m128i:
        splat(value: Block) = block(&value);
        xor(a, b) = _mm_xor_si128(a, b);
        and(a, b) = _mm_and_si128(a, b);
        sigma(nodes) = {
            let seeds = _mm_and_si128(nodes, _mm_set_epi64x(-1, -2));
            _mm_xor_si128(_mm_shuffle_epi32::<0xEE>(seeds), _mm_bslli_si128::<8>(seeds))
        };
        round(state, key) = _mm_aesenc_si128(state, key);
        last_round(state, key) = _mm_aesenclast_si128(state, key);
        add32(a, b) = _mm_add_epi32(a, b);
        add64(a, b) = _mm_add_epi64(a, b);
        // SSE2 cannot compare 64-bit words, so the processor adds whole blocks with its carry flag.
        add128(a, b, _not_b) = {
            let (a, b): (Block, Block) = (cast(a), cast(b));
            cast((a ^ TURNED).wrapping_add(b ^ TURNED))
        };
    }
}

aes_tree!(AesNi);
