use sha2::{Digest, Sha256};

use crate::messages::Sharding;

/// Hash of a keyword. A table stores it in place of the keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeywordHash(pub u64);

/// Largest counter that is tried to find a bucket number that differs from those of the earlier
/// tables.
const MAX_COUNTER: usize = 10;

impl KeywordHash {
    /// Returns the hash of a keyword: the first 8 bytes of SHA-256, little-endian.
    pub fn of(keyword: &[u8]) -> Self {
        Self(first_word(Sha256::digest(keyword).as_slice()))
    }

    /// Returns the number of the keyword's shard.
    ///
    /// # Panics
    /// If a number of shards is 0.
    pub fn shard(self, sharding: Sharding, shards: u64) -> u64 {
        match sharding {
            Sharding::Sha256(_) => self.0 % shards,
            Sharding::DoubleMod(parameter) => self.0 % parameter.other_shard_count % shards,
        }
    }

    /// Returns the number of the keyword's bucket in each of `tables` tables of `entries` buckets.
    ///
    /// Every table uses the same hash function with a counter. A table takes the first number that
    /// no earlier table has, or the last one that was tried.
    ///
    /// # Panics
    /// If `entries` is 0.
    pub fn buckets(self, tables: usize, entries: usize) -> Vec<usize> {
        let mut found = Vec::with_capacity(tables);
        // Bucket numbers by counter, computed once for all tables.
        let (mut candidates, mut known) = ([0; MAX_COUNTER + 1], 0);
        for _ in 0..tables {
            for (counter, candidate) in candidates.iter_mut().enumerate() {
                if counter == known {
                    *candidate = self.candidate(counter as u8, entries);
                    known += 1;
                }
                if counter == MAX_COUNTER || !found.contains(candidate) {
                    found.push(*candidate);
                    break;
                }
            }
        }
        found
    }

    fn candidate(self, counter: u8, entries: usize) -> usize {
        let mut message = [0; 9];
        message[..8].copy_from_slice(&self.0.to_be_bytes());
        message[8] = counter;
        let digest = Sha256::digest(message);
        (first_word(digest.as_slice()) % entries as u64) as usize
    }
}

fn first_word(digest: &[u8]) -> u64 {
    u64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::DoubleMod;

    #[test]
    fn hashes_and_buckets_are_those_of_recorded_queries() {
        for (keyword, hash, tables, entries, buckets) in [
            ("+19504899191", 9_096_147_989_795_007_090, 2, 51, &[18, 14][..]),
            ("+16049131257", 9_580_737_964_914_541_836, 2, 41, &[31, 19]),
            ("+17813239565", 15_132_479_366_750_465_295, 1, 106, &[100]),
            ("absent.example/none", 6_283_924_267_254_463_684, 2, 14, &[11, 0]),
            // The tables have a single bucket each, so both take the same number.
            ("absent.example/none", 6_283_924_267_254_463_684, 2, 1, &[0, 0]),
        ] {
            assert_eq!(KeywordHash::of(keyword.as_bytes()), KeywordHash(hash));
            assert_eq!(KeywordHash(hash).buckets(tables, entries), buckets, "{keyword}");
        }
    }

    #[test]
    fn a_shard_is_the_hash_modulo_the_numbers_of_shards() {
        let hash = KeywordHash::of(b"+17813239565");
        assert_eq!(hash.shard(Sharding::Sha256(crate::messages::Sha256 {}), 2), 1);
        let double = Sharding::DoubleMod(DoubleMod { other_shard_count: 10 });
        assert_eq!(hash.shard(double, 3), 15_132_479_366_750_465_295 % 10 % 3);
    }
}
