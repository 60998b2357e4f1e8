//! Double packing (VIPIR section 3.4): fold, pack, and the same again over what was packed.
//!
//! The first fold and packing are those of the hybrid protocol: one ciphertext for each block of N rows. The
//! switched bytes of these ciphertexts are plaintext again: a matrix with a column for each block, which a
//! second query folds and packs. Its secret is that of the first query, under another public matrix, so the
//! leaves of one expansion serve both packings. Steps: `scalar_fold`, `expand`, `pack`, `mod_switch`,
//! `reinterpret`, `scalar_fold`, `pack`, `mod_switch`.
//!
//! The second matrix depends on the query, and so does its hint: the fold takes the n columns of the
//! second public matrix along as if they were queries.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{DoublePack, Params};
