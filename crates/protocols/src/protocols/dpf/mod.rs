//! Two servers and distributed point functions (GPU-DPF sections II and III, IM-PIR sections 2.3 and 3).
//!
//! Both servers hold the same records, each in a row. A query is a pair of keys ([`spirea_dpf::generate`]): each
//! server expands its key to a share for every row and folds its rows by the shares. The shares add up to 1 at the
//! wanted row and to 0 elsewhere, so the answers add up to that row. Each key alone looks random, so neither server
//! learns anything, as long as the two do not put their keys together.
//!
//! - `dpf-xor` ([`XorParams`]): shares are bits, and a share selects a row (step `xor_fold`).
//! - `dpf-sum` ([`SumParams`]): shares are words, and multiply the words of a row (step `sum_fold`): what sums of
//!   embeddings and of counters are made of.
//!
//! Records larger than a row take several, all folded by the same share: the query does not grow.
//!
//! Rows may be divided into bins (partial batch retrieval, GPU-DPF section IV-A): a query has a key for each, over the bin's
//! rows alone, and brings a record of each for one reading of the database and as many shares as there are rows.

mod client;
mod params;
mod prepare;
mod server;

pub use client::Client;
pub use params::{Bits, Params, Shares, SumParams, XorParams};

pub use crate::choice::Words;
