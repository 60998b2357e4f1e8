//! DoublePIR (VIPIR sections 2.5 and 3.2; Henzinger et al., USENIX Security 2023): two folds.
//!
//! The first fold is SimplePIR's. A row of it, hint and answer, is an LWE ciphertext of a byte: its 1281
//! words, rounded to 16 bits, are bytes again. A column of the second matrix holds those of the rows of one
//! unit, and a second query folds the column that the unit's number names. The part of the second matrix that comes of
//! the hint depends on the database alone, and so does its own hint, which the client downloads: 13 MB for
//! each byte of a unit, however large the database. The part that comes of the answer depends on the query: its hint is
//! computed and sent along, 5 KiB for each byte of a record. Steps: `scalar_fold`, `reinterpret`,
//! `scalar_fold`.
//!
//! A record that is taller than a unit takes several columns, and its query as many first queries.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{Double, Params};
