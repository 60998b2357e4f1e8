//! Keyword look-up over any index protocol, in one round trip.
//!
//! A key hashes to 96 bits, the tag of its entry; the tag hashes to a place, which determines a
//! bucket; a bucket is one record of the index protocol. An absent key matches an entry with
//! probability 2^-96, so it is found with probability below 2^-64 in any table of at most
//! [`MAX_ENTRIES`]. Since an entry contains its whole tag, buckets can be rebuilt from a table
//! alone, with another number, size or places, without its keys.
//!
//! The two hashes have separate hash keys. Tags keep their hash key while the table is rebuilt from
//! itself. A contributor of keys could search for keys that crowd one bucket. Every build therefore
//! draws a new hash key for places, which nobody knows before the content of the table is fixed.
//!
//! An entry may have three places ([`Copies`]). Each bucket with one of them holds a copy.

mod bucket;
mod copies;

pub use bucket::{Bucket, entries, entry_bytes, find};
pub use copies::Copies;

use crate::{PlaceSalt, Salt};

/// Bytes of a key's hash, the tag of its entry.
pub const TAG_BYTES: usize = 12;

/// Maximum number of entries of a table.
pub const MAX_ENTRIES: u64 = 1 << 32;

/// log2 of a bound on the probability that an absent key is found.
pub const FALSE_MATCH_LOG2: f64 = -64.0;

/// The hash of a key under a table's public salt: 12 bytes of BLAKE3 keyed by the salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash {
    /// Distinguishes the entry from others in its bucket.
    pub tag: [u8; TAG_BYTES],
}

impl KeyHash {
    /// Returns the hash of `key`.
    pub fn new(salt: &Salt, key: &[u8]) -> Self {
        let mut tag = [0; TAG_BYTES];
        blake3::Hasher::new_keyed(salt.as_bytes())
            .update(b"spirea key v2")
            .update(key)
            .finalize_xof()
            .fill(&mut tag);
        Self { tag }
    }
}

/// Position of a tag's entry, independent of the number of buckets: 64 bits of BLAKE3 keyed by a
/// table's public `places`. Buckets follow the order of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryPlace(u64);

impl EntryPlace {
    /// Returns the place of the entry with this tag, that of its first copy.
    pub fn new(places: &PlaceSalt, tag: &[u8; TAG_BYTES]) -> Self {
        Self::all(places, tag)[0]
    }

    /// Returns the places of the entry's copies: the 64-bit words of one hash, so that places are
    /// independent. Two copies may lie in the same bin or bucket.
    pub fn of_copies(
        places: &PlaceSalt,
        tag: &[u8; TAG_BYTES],
        copies: Copies,
    ) -> impl Iterator<Item = Self> + use<> {
        Self::all(places, tag).into_iter().take(copies.number())
    }

    fn all(places: &PlaceSalt, tag: &[u8; TAG_BYTES]) -> [Self; 4] {
        const NAME: &[u8; 15] = b"spirea place v1";
        let mut named = [0; NAME.len() + TAG_BYTES];
        let (name, rest) = named.split_at_mut(NAME.len());
        name.copy_from_slice(NAME);
        rest.copy_from_slice(tag);
        let hash = *blake3::keyed_hash(places.as_bytes(), &named).as_bytes();
        let (words, _) = hash.as_chunks();
        std::array::from_fn(|copy| Self(u64::from_be_bytes(words[copy])))
    }

    /// Returns the part that contains the place if the range is divided into `parts` equal parts:
    /// the upper bits of a product. It increases with the place, so each part is a contiguous range
    /// of places. Parts are buckets, or the units of buckets' widths.
    pub fn part(self, parts: u64) -> u64 {
        ((u128::from(self.0) * u128::from(parts)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_aimed_at_a_bucket_of_known_places_are_spread_by_others() {
        const BUCKETS: u64 = 64;
        let (salt, known, fresh) = ([1; 32], [2; 32], [3; 32]);
        let tags = (0u64..).map(|i| KeyHash::new(&Salt::new(salt), &i.to_le_bytes()).tag);
        let aimed: Vec<_> = tags
            .filter(|tag| EntryPlace::new(&PlaceSalt::new(known), tag).part(BUCKETS) == 7)
            .take(640)
            .collect();
        let mut loads = [0; BUCKETS as usize];
        aimed
            .iter()
            .for_each(|tag| loads[EntryPlace::new(&PlaceSalt::new(fresh), tag).part(BUCKETS) as usize] += 1);
        let fullest = loads.into_iter().max().unwrap();
        assert!(fullest < 30, "{fullest} of 640 in one of 64 buckets");
    }

    #[test]
    fn a_place_is_the_beginning_of_a_hash_and_its_upper_bits_are_the_bucket() {
        let (places, tag) = ([5; 32], [6; TAG_BYTES]);
        let hash =
            *blake3::Hasher::new_keyed(&places).update(b"spirea place v1").update(&tag).finalize().as_bytes();
        let place = EntryPlace::new(&PlaceSalt::new(places), &tag);
        for bits in [1, 4, 8] {
            assert_eq!(place.part(1 << bits), u64::from(hash[0] >> (8 - bits)));
        }
        assert_eq!(place.part(1), 0);
        let parts = |copies| {
            EntryPlace::of_copies(&PlaceSalt::new(places), &tag, copies).map(|place| place.part(256))
        };
        assert!(parts(Copies::One).eq([hash[0]].map(u64::from)));
        assert!(parts(Copies::Three).eq([hash[0], hash[8], hash[16]].map(u64::from)));
    }
}
