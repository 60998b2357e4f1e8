//! The hybrid protocol (VIPIR sections 3.4 and 3.6): a fold of scalars, then a tournament of ciphertexts.
//!
//! The first fold and the packing are those of ExpPack (S), over a tall matrix: N rows make a block, and a
//! column has many. In place of all packed blocks of the column, the answer is the one that the query names:
//! the ciphertext that expands to the LWE secret also expands to RGSW encryptions of the bits of the block's
//! number, which select it by external products. Steps: `scalar_fold`, `expand`, `pack`, `rgsw_fold`,
//! `mod_switch`.
//!
//! A block is a unit. The parts of a larger record lie below each other, each part's blocks by themselves, so
//! that one query selects them all.

mod params;

pub use params::{Hybrid, Params};
