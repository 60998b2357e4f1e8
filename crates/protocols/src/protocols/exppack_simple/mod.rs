//! ExpPack (S): SimplePIR without a hint for the client (VIPIR sections 2.6 and 3.5).
//!
//! The first fold produces one LWE ciphertext for each row of the matrix. The server packs N of
//! them into one RLWE ciphertext. To this end, the query carries an encryption of its LWE secret.
//! The server expands it to one ciphertext for each entry, and multiplies these by the matrix that
//! is the client's hint in SimplePIR. Steps: `scalar_fold`, `expand`, `pack`, `mod_switch`.
//!
//! The records may lie in bins; then a query retrieves one record of each bin. The matrices of the
//! bins lie below each other. A query has a unit vector for each bin. Each of these vectors has a
//! separate public matrix; all have one secret. Rows of several bins are packed into one
//! ciphertext.
//!
//! A column is a unit. A record that is taller than the matrix takes several columns, and its query
//! contains a query for each of them, under separate secrets.

mod params;

pub use params::{ExppackSimple, Params};
