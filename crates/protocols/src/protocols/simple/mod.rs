//! SimplePIR (VIPIR sections 2.5 and 4.1; Henzinger et al., USENIX Security 2023).
//!
//! The database is a matrix of bytes. A query is the encrypted unit vector of a column, one word
//! for each column. The answer is the product of the matrix and the query (step `scalar_fold`), one
//! word for each row: encryptions of the column's bytes. The query-independent part of these
//! ciphertexts, the product of the matrix and the public A, is the hint, which a client downloads
//! once for a version of the database.
//!
//! Records lie down the columns. Several small records share a column. A record that is taller than
//! the matrix takes several columns, and its query has an encrypted unit vector for each of them,
//! under separate secrets.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{Form, Params, Simple};
