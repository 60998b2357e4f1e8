//! GFNI: products of bit matrices on vectors of 32 and 64 bytes.

use std::arch::x86_64::*;

use bytemuck::{Zeroable as _, bytes_of};

use super::bits::{BitKernel, BitLanes, MIRROR, SIDE};
use crate::isa::{Avx2, Avx512, compiled, operations};

/// Proof that the machine has AVX2 and GFNI.
#[derive(Clone, Copy)]
pub(crate) struct Gfni256(());

/// Proof that the machine has AVX-512 F and BW, AVX2 and GFNI.
#[derive(Clone, Copy)]
pub(crate) struct Gfni512(());

impl Gfni256 {
    /// Returns the proof if the processor and the system support these instructions, and if their
    /// products are right.
    pub fn detect(_: Avx2) -> Option<Self> {
        is_x86_feature_detected!("gfni").then_some(Self(())).filter(|&lanes| keeps_identity(lanes))
    }
}

impl Gfni512 {
    /// Returns the proof if the processor and the system support these instructions, and if their
    /// products are right.
    pub fn detect(_: Avx512) -> Option<Self> {
        let supported = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni");
        supported.then_some(Self(())).filter(|&lanes| keeps_identity(lanes))
    }
}

/// Returns true if a matrix is unchanged by a product with the identity. In the emulator Bochs 2.7,
/// the product is the complement.
fn keeps_identity(lanes: impl BitLanes) -> bool {
    let matrix = lanes.splat(0x0123_4567_89ab_cdef);
    bytes_of(&lanes.multiply(matrix, lanes.splat(MIRROR))) == bytes_of(&matrix)
}

impl BitLanes for Gfni256 {
    type Vector = __m256i;
    type Stripe = __m256i;
    const SETS: usize = 1;

    compiled! { Gfni256:
        fn run<K: BitKernel>(lanes, kernel: K) {
            kernel.run(lanes)
        }
    }

    operations! { Gfni256, __m256i:
        splat(word: u64) = _mm256_set1_epi64x(word as i64);
        xor(a, b) = _mm256_xor_si256(a, b);
        multiply(bits, matrices) = _mm256_gf2p8affine_epi64_epi8::<0>(bits, matrices);
    }

    #[inline(always)]
    fn load_stripes(self, bytes: &[u8], stride: usize) -> [__m256i; SIDE] {
        load_stripes(bytes, stride)
    }

    operations! { Gfni256, [__m256i; SIDE]:
        interleave(stripes) = interleaved(stripes);
        slice(rows) = sliced(rows);
    }
}

impl BitLanes for Gfni512 {
    type Vector = __m512i;
    type Stripe = __m256i;
    const SETS: usize = 4;

    compiled! { Gfni512:
        fn run<K: BitKernel>(lanes, kernel: K) {
            kernel.run(lanes)
        }
    }

    operations! { Gfni512, __m512i:
        splat(word: u64) = _mm512_set1_epi64(word as i64);
        xor(a, b) = _mm512_xor_si512(a, b);
        multiply(bits, matrices) = _mm512_gf2p8affine_epi64_epi8::<0>(bits, matrices);
    }

    #[inline(always)]
    fn load_stripes(self, bytes: &[u8], stride: usize) -> [__m256i; SIDE] {
        load_stripes(bytes, stride)
    }

    operations! { Gfni512, [__m256i; SIDE]:
        interleave(stripes) = interleaved(stripes);
        slice(rows) = sliced(rows);
    }
}

/// Implements [`BitLanes::load_stripes`] with a single check of bounds: sixteen checks would take
/// half of the time.
#[inline(always)]
#[allow(unsafe_code)]
fn load_stripes(bytes: &[u8], stride: usize) -> [__m256i; SIDE] {
    let last = stride.checked_mul(SIDE - 1).and_then(|last| last.checked_add(size_of::<__m256i>()));
    assert!(last.is_some_and(|end| end <= bytes.len()), "eight stripes");
    let first = bytes.as_ptr();
    let mut stripes = [__m256i::zeroed(); SIDE];
    for (i, stripe) in stripes.iter_mut().enumerate() {
        // SAFETY: the last stripe ends within `bytes`, and all others before it. Any bytes form a
        // valid vector.
        *stripe = unsafe { first.add(i * stride).cast::<__m256i>().read_unaligned() };
    }
    stripes
}

/// Implements [`BitLanes::interleave`].
#[inline]
#[target_feature(enable = "avx2,gfni")]
fn interleaved(stripes: [__m256i; SIDE]) -> [__m256i; SIDE] {
    let [a, b, c, d, e, f, g, h] = stripes;
    let pairs = [interleave8(a, b), interleave8(c, d), interleave8(e, f), interleave8(g, h)];
    let mut words = stripes;
    for high in 0..2 {
        let first = interleave16(pairs[0][high], pairs[1][high]);
        let second = interleave16(pairs[2][high], pairs[3][high]);
        for i in 0..2 {
            words[4 * high + 2 * i] = _mm256_unpacklo_epi32(first[i], second[i]);
            words[4 * high + 2 * i + 1] = _mm256_unpackhi_epi32(first[i], second[i]);
        }
    }
    words
}

/// Interleaves bytes: the lower halves of lanes, then the upper ones.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave8(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)]
}

/// Interleaves words of 16 bits: the lower halves of lanes, then the upper ones.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave16(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
}

/// Implements [`BitLanes::slice`]: multiplies the mirror matrix by each word of the rows. The
/// product reverses the order of the rows, so they are interleaved in reverse order.
#[inline]
#[target_feature(enable = "avx2,gfni")]
fn sliced(mut rows: [__m256i; SIDE]) -> [__m256i; SIDE] {
    rows.reverse();
    let mut words = interleaved(rows);
    let mirror = _mm256_set1_epi64x(MIRROR as i64);
    for words in &mut words {
        *words = _mm256_gf2p8affine_epi64_epi8::<0>(mirror, *words);
    }
    words
}
