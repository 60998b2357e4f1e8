//! Keyword look-up over any index protocol, in one round trip.
//!
//! A key hashes to a bucket; a bucket is one record of the index protocol; its entries carry 96 more bits
//! of the key's hash. A key that is absent matches an entry of its bucket with probability below 2^-96 for
//! each entry: below 2^-64 for any bucket of fewer than 2^32 entries.

mod bucket;
mod plan;

pub use bucket::{Bucket, entry_bytes, find};
pub use plan::{BucketPlan, BucketPlanner, MAX_PADDING, Overpadded};

/// Bytes of a tag.
pub const TAG_BYTES: usize = 12;

/// log2 of a bound on the probability that an absent key is found.
pub const FALSE_MATCH_LOG2: f64 = -64.0;

/// The hash of a key under a table's public salt: BLAKE3 keyed by the salt, 20 bytes of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash {
    /// Decides the bucket.
    pub place: u64,
    /// Tells the entry from others of its bucket.
    pub tag: [u8; TAG_BYTES],
}

impl KeyHash {
    /// The hash of `key`.
    pub fn new(salt: &[u8; 32], key: &[u8]) -> Self {
        let mut output = [0; 8 + TAG_BYTES];
        blake3::Hasher::new_keyed(salt).update(b"spirea key v1").update(key).finalize_xof().fill(&mut output);
        let (place, tag) = output.split_at(8);
        Self {
            place: u64::from_le_bytes(place.try_into().expect("8 bytes")),
            tag: tag.try_into().expect("12 bytes"),
        }
    }

    /// The bucket among `buckets`: the upper bits of a product, so that it grows with `place` and the
    /// buckets of any range of places are contiguous.
    pub fn bucket(&self, buckets: u64) -> u64 {
        ((u128::from(self.place) * u128::from(buckets)) >> 64) as u64
    }
}
