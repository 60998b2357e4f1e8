//! ExpPack (S): SimplePIR without a hint for the client (VIPIR sections 2.6 and 3.5).
//!
//! The first fold leaves one LWE ciphertext for each row of the matrix. N of them at a time are packed into
//! one RLWE ciphertext: the query carries an encryption of its LWE secret, which the server expands to one
//! ciphertext for each entry and multiplies by what SimplePIR gives the client as the hint. Steps:
//! `scalar_fold`, `expand`, `pack`, `mod_switch`.
//!
//! A column is a unit. A record that is taller than the matrix takes several, and its query is as many
//! queries under secrets of their own.

mod params;

pub use params::{ExppackSimple, Params};
