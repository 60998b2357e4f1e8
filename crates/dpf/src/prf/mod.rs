//! Pseudorandom functions of a seed.
//!
//! Every function is F(seed, i): block i of what a seed of 127 bits (its lowest bit is 0) expands to. Blocks
//! 0 and 1 of an inner node's seed are its children, blocks 0 to 3 of a leaf's seed are the leaf. A seed
//! stands either inside the tree or at its end, so that no block ever has two meanings.

mod aes128;

use serde::{Deserialize, Serialize};

pub use aes128::Aes128;

use crate::Block;

/// A pseudorandom function as a type.
pub trait Prf: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const KIND: PrfKind;

    /// `expanded[j][i] = F(seeds[j], i)`: the first N blocks of each seed, which has its lowest bit 0.
    ///
    /// # Panics
    /// If there are not as many outputs as seeds.
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]);
}

/// The functions by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrfKind {
    /// [`Aes128`].
    #[default]
    #[serde(rename = "aes-128")]
    Aes128,
}
