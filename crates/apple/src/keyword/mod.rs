//! Keywords: their hashes, their buckets, and tables of buckets.

mod bucket;
mod hash;
mod tables;

pub use bucket::{Bucket, MAX_SLOTS, MAX_VALUE_BYTES};
pub use hash::KeywordHash;
pub use tables::{BucketSize, Tables};
