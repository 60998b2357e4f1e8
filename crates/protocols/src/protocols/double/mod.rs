//! DoublePIR (VIPIR sections 2.5 and 3.2; Henzinger et al., USENIX Security 2023): two folds.
//!
//! The first fold is SimplePIR's. Each of its rows, in hint and answer, is an LWE ciphertext of a
//! byte: its 1281 words, rounded to 16 bits, become bytes again. A column of the second matrix
//! holds these bytes for the rows of one unit, and a second query selects the wanted unit's column.
//!
//! The *fixed* rows of the second matrix come from the hint, so they depend on the database alone.
//! The client downloads the hint of these rows, 7 MB for each byte of a unit, independent of the
//! database's size. The *moving* rows come from the answer, so they depend on the query. Their hint
//! is computed and sent with the answer, 5 KiB for each byte of a record. Steps: `scalar_fold`,
//! `reinterpret`, `scalar_fold`.
//!
//! A record that is taller than a unit takes several columns, and its query contains a first query
//! for each of them.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{Double, Params};
