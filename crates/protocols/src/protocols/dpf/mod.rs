//! Two servers and distributed point functions (GPU-DPF sections II and III, IM-PIR sections 2.3
//! and 3).
//!
//! Both servers hold the same records, each in a row. A query is a pair of keys
//! ([`spirea_dpf::generate`]). Each server expands its key to a share for every row and folds its
//! rows by the shares. The shares add up to 1 at the wanted row and to 0 elsewhere, so the answers
//! add up to that row. Each key alone looks random, so a server learns nothing unless the two
//! servers combine their keys.
//!
//! - `dpf-xor` ([`XorParams`]): shares are bits, and a share selects a row (step `xor_fold`).
//! - `dpf-sum` ([`SumParams`]): shares are words and multiply the words of a row (step `sum_fold`),
//!   for sums of embeddings and of counters.
//!
//! A record larger than a row takes several rows, all folded by the same share: the query does not
//! grow.
//!
//! Rows may be divided into bins (partial batch retrieval, GPU-DPF section IV-A). A query then has
//! a key for each bin, over the bin's rows alone, and retrieves a record of each bin. The server
//! still reads the database once and expands one share for each row.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{Bits, Params, Shares, SumParams, XorParams};

pub use crate::choice::Words;
