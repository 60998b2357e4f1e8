//! The hybrid protocol (VIPIR sections 3.4 and 3.6): a fold of scalars, then a tournament of
//! ciphertexts.
//!
//! The first fold and the packing are those of ExpPack (S), over a tall matrix: N rows form a
//! block, and a column has many blocks. The answer contains only the packed block that the query
//! selects. The ciphertext that expands to the LWE secret also expands to RGSW encryptions of the
//! bits of the block's number, which select the block by external products. Steps: `scalar_fold`,
//! `expand`, `pack`, `rgsw_fold`, `mod_switch`.
//!
//! A block is a unit. The parts of a larger record lie below each other, and the blocks of each
//! part are contiguous, so that one query selects all parts.

mod params;

pub use params::{Hybrid, Params};
