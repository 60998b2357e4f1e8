//! Double packing (VIPIR section 3.4): fold and pack, then fold and pack the packed ciphertexts
//! again.
//!
//! The first fold and packing are those of the hybrid protocol: one ciphertext for each block of N
//! rows. The switched bytes of these ciphertexts become plaintext again, a matrix with a column for
//! each block, which a second query folds and packs. Both queries have the same secret under
//! different public matrices, so the leaves of one expansion serve both packings. Steps:
//! `scalar_fold`, `expand`, `pack`, `mod_switch`, `reinterpret`, `scalar_fold`, `pack`,
//! `mod_switch`.
//!
//! The second matrix depends on the query, and so does its hint: the fold treats the n columns of
//! the second public matrix as additional queries.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{DoublePack, Params};
