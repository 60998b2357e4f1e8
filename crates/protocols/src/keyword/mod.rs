//! Keyword look-up over any index protocol, in one round trip.
//!
//! A key hashes to 96 bits, whose upper bits choose a bucket; a bucket is one record of the index protocol; its
//! entries carry the whole hash. A key that is absent matches an entry with probability 2^-96: below 2^-64 for any
//! table of at most [`MAX_ENTRIES`]. Since an entry has its whole hash, buckets can be made anew, of another number
//! or size, from a table alone: its keys are not needed.

mod bucket;
mod plan;

pub use bucket::{Bucket, entries, entry_bytes, find};
pub use plan::{BucketPlan, BucketPlanner, MAX_PADDING, Overpadded};

/// Bytes of a key's hash, the tag of its entry.
pub const TAG_BYTES: usize = 12;

/// The most entries of a table.
pub const MAX_ENTRIES: u64 = 1 << 32;

/// log2 of a bound on the probability that an absent key is found.
pub const FALSE_MATCH_LOG2: f64 = -64.0;

/// The hash of a key under a table's public salt: 12 bytes of BLAKE3 keyed by the salt. Their order is that of the
/// buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash {
    /// Tells the entry from others of its bucket.
    pub tag: [u8; TAG_BYTES],
}

impl KeyHash {
    /// The hash of `key`.
    pub fn new(salt: &[u8; 32], key: &[u8]) -> Self {
        let mut tag = [0; TAG_BYTES];
        blake3::Hasher::new_keyed(salt).update(b"spirea key v2").update(key).finalize_xof().fill(&mut tag);
        Self { tag }
    }

    /// Its upper 64 bits.
    pub fn place(&self) -> u64 {
        u64::from_be_bytes(*self.tag.first_chunk().expect("a tag is longer"))
    }

    /// The bucket among `buckets`: the upper bits of a product, so that it grows with the place and the
    /// buckets of any range of places are contiguous.
    pub fn bucket(&self, buckets: u64) -> u64 {
        ((u128::from(self.place()) * u128::from(buckets)) >> 64) as u64
    }
}
