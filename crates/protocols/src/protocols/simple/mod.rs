//! SimplePIR (VIPIR sections 2.5 and 4.1; Henzinger et al., USENIX Security 2023).
//!
//! The database is a matrix of bytes. A query is the encrypted unit vector of a column, one word for each
//! column; the answer is the matrix times it (step `scalar_fold`), one word for each row: encryptions of the
//! column's bytes. The part of the ciphertexts that does not depend on the query, the matrix times the public A, is the
//! hint, which a client downloads once for a version of the database.
//!
//! Records lie down the columns. Several small ones share a column; a record that is taller than the matrix
//! takes several columns, and its query is as many encrypted unit vectors, each under a secret of its own.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::Params;
