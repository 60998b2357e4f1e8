//! Bounds on the growth of words in a transform.

use crate::ring::RingTables;

/// Bounds on words in multiples of q, as powers of two. `WORD` is the number of multiples that a
/// word holds. The forward transform reduces the words that a layer does not multiply to below
/// `FIRST` or `SECOND`; a bound of `WORD` means no reduction. Layers come in pairs.
pub(super) trait Headroom {
    const WORD: u32;
    /// Bound before the first layer of a pair.
    const FIRST: u32;
    /// Bound before the second layer of a pair.
    const SECOND: u32;
    /// Bound between the pairs of the inverse transform.
    const BETWEEN: u32;
    /// Bound before any layer of the inverse transform, and the multiple added to a difference of
    /// two words.
    const TERM: u32 = Self::WORD / 2;
    /// Bounds of a block's words, for values below 2q: `[layer][i]` applies before the layer that
    /// joins words 2^layer apart.
    const BLOCK: [[u32; MOST_WORDS]; MOST_LAYERS + 1] = {
        let mut bounds = [[PRODUCT; MOST_WORDS]; MOST_LAYERS + 1];
        let mut layer = 0;
        while layer < MOST_LAYERS {
            let mut i = 0;
            while i < MOST_WORDS {
                // This word is a sum, whose bound doubles. All others are products, whose bound is
                // [`PRODUCT`].
                if i >> layer & 1 == 0 {
                    bounds[layer + 1][i] = least(2 * bounds[layer][i], Self::TERM);
                }
                i += 1;
            }
            layer += 1;
        }
        bounds
    };
}

/// Bound of a product, in multiples of q.
pub(super) const PRODUCT: u32 = 2;
/// Maximum number of words of a vector, which is also the number of vectors of a block, and maximum
/// number of layers inside a block.
const MOST_WORDS: usize = 1 << MOST_LAYERS;
const MOST_LAYERS: usize = 4;

pub(super) const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// Primes below 2^30.
pub(super) struct FourMultiples;

impl Headroom for FourMultiples {
    const WORD: u32 = 4;
    const FIRST: u32 = 2;
    const SECOND: u32 = 2;
    const BETWEEN: u32 = 2;
}

/// Primes below 2^29: every other layer needs no reduction.
pub(super) struct EightMultiples;

impl Headroom for EightMultiples {
    const WORD: u32 = 8;
    const FIRST: u32 = 4;
    const SECOND: u32 = 8;
    const BETWEEN: u32 = 4;
}

/// Primes below 2^27: none of [`Self::LAYERS`] layers needs a reduction.
pub(super) struct ManyMultiples;

impl ManyMultiples {
    pub const LAYERS: u32 = (Self::WORD - 4) / 2;
}

impl Headroom for ManyMultiples {
    const WORD: u32 = 32;
    const FIRST: u32 = 32;
    const SECOND: u32 = 32;
    const BETWEEN: u32 = 8;
}

const _: () = {
    assert!(FourMultiples::WORD as u64 * ((1 << 30) - 1) < 1 << 32);
    assert!(EightMultiples::WORD as u64 * ((1 << 29) - 1) < 1 << 32);
    assert!(ManyMultiples::WORD as u64 * ((1 << 27) - 1) < 1 << 32);
    // Each layer adds 2q.
    assert!(
        FourMultiples::FIRST + 2 <= FourMultiples::WORD && FourMultiples::SECOND + 2 <= FourMultiples::WORD
    );
    assert!(EightMultiples::FIRST + 2 + 2 <= EightMultiples::WORD);
    assert!(FourMultiples::BETWEEN <= FourMultiples::TERM && EightMultiples::BETWEEN <= EightMultiples::TERM);
    assert!(ManyMultiples::BETWEEN <= ManyMultiples::TERM);
};

/// Returns [`Headroom::WORD`] for a prime.
pub(super) fn headroom(tables: &RingTables, prime: usize) -> u32 {
    match (tables.primes()[prime].q.value(), tables.degree().ilog2()) {
        (q, layers) if q < 1 << 27 && layers <= ManyMultiples::LAYERS => ManyMultiples::WORD,
        (q, _) if q < 1 << 29 => EightMultiples::WORD,
        _ => FourMultiples::WORD,
    }
}
