//! Distributed point functions: keys of two parties whose evaluations differ at one secret point.
//!
//! The tree of Boyle, Gilboa and Ishai ("Function secret sharing: improvements and extensions", CCS 2016,
//! section 3): a key is the seed of a binary tree with a correction word for each level; each party expands
//! its tree, and the two trees are equal off the path to the secret point and independent on it.
//! ([GPU-DPF section III-A] and [IM-PIR section 2.3] use the same.)
//!
//! - [`prf`]: the pseudorandom functions that expand seeds, as types; [`PrfKind`] names them at run time.
//! - [`Domain`]: how many points there are, what a point's output is, and what a key's bytes are.
//! - [`generate`]: the keys of a point; [`evaluate`]: one party's share at a point.
//!
//! [GPU-DPF section III-A]: https://arxiv.org/abs/2301.10904
//! [IM-PIR section 2.3]: https://arxiv.org/abs/2502.12516

#[cfg(target_endian = "big")]
compile_error!("leaves are read as little-endian words");

mod domain;
mod error;
mod evaluate;
mod generate;
mod key;
mod output;
mod party;
pub mod prf;

pub use domain::{Domain, MAX_POINTS};
pub use error::DpfError;
pub use evaluate::{Subtree, evaluate, evaluate_all};
pub use generate::{Select, generate};
pub use key::{Key, Level};
pub use output::{Bit, Output, OutputKind};
pub use party::Party;
pub use prf::{Prf, PrfKind, PrfVisitor};

/// A node of a tree: 127 bits of seed, and in the lowest bit whether the node is corrected.
///
/// 128 bits in little-endian order wherever they are bytes.
pub type Block = u128;

/// The lowest bit of a [`Block`].
pub const CONTROL: Block = 1;

/// Blocks of a leaf.
pub const LEAF_BLOCKS: usize = 4;

/// What the seed at the end of a path expands to: a cache line, one call of a stream cipher, four calls of a
/// block cipher. A tree ends as soon as the outputs that are left fit (early termination, CCS 2016 section
/// 3.2.1): wider leaves need fewer levels and so fewer calls for each output, 6 for 4 blocks where leaves of
/// one block would need 12, for a key that is 16 bytes longer.
pub type Leaf = [Block; LEAF_BLOCKS];
