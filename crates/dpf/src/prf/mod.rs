//! Pseudorandom functions of a seed.
//!
//! Every function is F(seed, i): block i of the expansion of a seed of 127 bits, whose lowest bit
//! is 0. Blocks 0 and 1 of an inner node's seed are its children; blocks 0 to 3 of a leaf's seed
//! are the leaf. A seed is either inside the tree or at its end, so no block ever has two meanings.
//!
//! If a function takes or returns bytes, seeds, counters and blocks are little-endian.

mod aes128;
mod chacha;
mod highwayhash;
mod kind;
mod lanes;
mod salsa;
mod sha256;
mod siphash;
mod stream;
mod visit;

pub use aes128::{Aes128, KEY as AES_KEY};
pub use chacha::{ChaCha, ChaCha12, ChaCha20};
pub use highwayhash::HighwayHash;
pub use kind::PrfKind;
pub use salsa::{Salsa, Salsa12, Salsa20};
pub use sha256::Sha256;
pub use siphash::SipHash24;
pub use stream::Stream;
pub use visit::PrfVisitor;

use crate::Block;

/// A pseudorandom function as a type.
///
/// Functions without hardware instructions are written over several seeds at once and inlined into
/// their caller, which decides the instruction set.
pub trait Prf: Copy + Default + Send + Sync + 'static {
    /// Kind of the function.
    const KIND: PrfKind;

    /// Computes `expanded[j][i] = F(seeds[j], i)`: the first N blocks of each seed, whose lowest
    /// bit must be 0.
    ///
    /// # Panics
    /// If the numbers of outputs and seeds differ.
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]);
}
