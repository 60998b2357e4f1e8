//! OnionPIRv2 (VIPIR section 3.2, GPIR section 2, IVE section II; Chen and Ren, 2025): folds of
//! polynomials.
//!
//! The database is a matrix of plaintext polynomials, kept in transformed form. A query is one
//! ciphertext, which the server expands to the encrypted unit vector of a column and to RGSW
//! encryptions of the bits of a row's number. The first dimension is a matrix product in every slot
//! of the transform; the other dimensions are a tournament. Steps: `encode` (when the database is
//! loaded), `expand`, `poly_fold`, `rgsw_fold`, `mod_switch`.
//!
//! A polynomial is a unit, stored under a public pad. Each part of a larger record lies in a
//! separate matrix; one query selects from all of them.

mod client;
mod pad;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::Params;
