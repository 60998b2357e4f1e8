//! AES-NI: one block a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::sync::OnceLock;

use spirea_dpf::prf::AES_KEY;
use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind};

use super::aes::{AesLanes, ROUNDS, RoundKeys, TURNED, aes_tree};

/// Proof that AES-NI is there, with the round keys: by reference, since a token is copied wherever it goes.
#[derive(Clone, Copy)]
pub(crate) struct AesNi(&'static RoundKeys);

impl AesNi {
    /// The proof, where the processor has it.
    pub(crate) fn detect() -> Option<Self> {
        if !is_x86_feature_detected!("aes") {
            return None;
        }
        static KEYS: OnceLock<RoundKeys> = OnceLock::new();
        // SAFETY: AES-NI is there.
        Some(Self(KEYS.get_or_init(|| unsafe { round_keys() })))
    }

    /// The fixed key's round keys.
    pub(crate) fn keys(self) -> &'static RoundKeys {
        self.0
    }
}

/// FIPS 197, section 5.2.
#[target_feature(enable = "aes")]
fn round_keys() -> RoundKeys {
    let mut keys = [Block::from_le_bytes(AES_KEY); ROUNDS + 1];
    let mut constant = 1u8;
    for round in 1..=ROUNDS {
        let previous = keys[round - 1];
        let last_word = (previous >> 96) as u32;
        // The instruction substitutes and rotates words 1 and 3; its own constant is an immediate, so it is added
        // here.
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

/// Word 1 of a vector.
#[inline]
#[target_feature(enable = "sse2")]
fn _mm_extract_epi32_1(vector: __m128i) -> u32 {
    _mm_cvtsi128_si32(_mm_shuffle_epi32::<1>(vector)) as u32
}

/// One block.
#[inline(always)]
pub(crate) fn block(block: &Block) -> __m128i {
    // SAFETY: SSE2, which every x86-64 has; a block is 16 bytes.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(block).cast()) }
}

impl AesLanes for AesNi {
    type Vector = __m128i;
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn round_keys(self) -> &'static RoundKeys {
        self.0
    }

    #[inline(always)]
    fn splat(self, value: Block) -> __m128i {
        block(&value)
    }

    #[inline(always)]
    fn load(self, blocks: &[Block]) -> __m128i {
        block(&blocks[0])
    }

    #[inline(always)]
    fn repeat<const N: usize>(self, blocks: &[Block]) -> __m128i {
        block(&blocks[0])
    }

    #[inline(always)]
    fn store(self, vector: __m128i, blocks: &mut [Block]) {
        // SAFETY: SSE2; a block is 16 bytes.
        unsafe { _mm_storeu_si128(std::ptr::from_mut(&mut blocks[0]).cast(), vector) }
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: SSE2.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: SSE2.
        unsafe { _mm_and_si128(a, b) }
    }

    #[inline(always)]
    fn sigma(self, nodes: __m128i) -> __m128i {
        // SAFETY: SSE2.
        unsafe {
            let seeds = _mm_and_si128(nodes, _mm_set_epi64x(-1, -2));
            _mm_xor_si128(_mm_shuffle_epi32::<0xEE>(seeds), _mm_bslli_si128::<8>(seeds))
        }
    }

    #[inline(always)]
    fn round(self, state: __m128i, key: __m128i) -> __m128i {
        // SAFETY: `self` proves AES-NI.
        unsafe { _mm_aesenc_si128(state, key) }
    }

    #[inline(always)]
    fn last_round(self, state: __m128i, key: __m128i) -> __m128i {
        // SAFETY: `self` proves AES-NI.
        unsafe { _mm_aesenclast_si128(state, key) }
    }

    #[inline(always)]
    fn add32(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: SSE2.
        unsafe { _mm_add_epi32(a, b) }
    }

    #[inline(always)]
    fn add64(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: SSE2.
        unsafe { _mm_add_epi64(a, b) }
    }

    #[inline(always)]
    fn add128(self, a: __m128i, b: __m128i, _: __m128i) -> __m128i {
        let mut blocks = [[0; 1]; 2];
        self.store(a, &mut blocks[0]);
        self.store(b, &mut blocks[1]);
        block(&(blocks[0][0] ^ TURNED).wrapping_add(blocks[1][0] ^ TURNED))
    }
}

aes_tree!(AesNi, "aes");
