//! Hashes of a hint's rows, by which a client that holds another version's hint finds the rows to
//! fetch.
//!
//! A list has 16 bytes of BLAKE3 for each row, which has as many numbers as an LWE secret has
//! entries: 0.6% of a hint with 17 bits a number, and 0.3% of a hint of whole words. The manifest
//! authenticates the list, the list authenticates the rows, and finally the hint's own hash
//! authenticates the result.

use std::ops::Range;

use spirea_lattice::LweSet;

use crate::ProtocolError;

/// Bytes of a row's hash.
pub const HASH_BYTES: usize = 16;

/// Returns the hash of one row.
pub fn hash(row: &[u8]) -> [u8; HASH_BYTES] {
    *blake3::hash(row).as_bytes().first_chunk().expect("a hash is longer")
}

/// The rows of hints under an LWE set, as clients download them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintRows {
    row_bytes: usize,
}

impl HintRows {
    /// Returns rows under `set`: n numbers of `bits` bits each, without gaps. n is a multiple of
    /// 256, so rows are whole bytes.
    pub fn of(set: LweSet, bits: u32) -> Self {
        Self { row_bytes: set.degree() / 8 * bits as usize }
    }

    /// Returns the number of bytes of a row.
    pub fn row_bytes(self) -> usize {
        self.row_bytes
    }

    /// Returns the number of bytes of the list for a hint of `hint_bytes` bytes.
    pub fn list_bytes(self, hint_bytes: u64) -> u64 {
        hint_bytes.div_ceil(self.row_bytes as u64) * HASH_BYTES as u64
    }

    /// Returns the list of a hint: the hashes of its rows, concatenated.
    pub fn list(self, hint: &[u8]) -> Vec<u8> {
        hint.chunks(self.row_bytes).flat_map(hash).collect()
    }

    /// Returns the byte ranges in which the hint of list `new` differs from `held`, the client's
    /// hint. Neighbouring rows are merged.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if `new` is not the list of a hint of the length of `held`.
    pub fn differing(self, held: &[u8], new: &[u8]) -> Result<Vec<Range<u64>>, ProtocolError> {
        let (hashes, rest) = new.as_chunks::<HASH_BYTES>();
        if !rest.is_empty() || hashes.len() != held.len().div_ceil(self.row_bytes) {
            let detail = "it is not of a hint as long as the one held";
            return Err(ProtocolError::malformed("list of the hint's rows", detail));
        }
        let mut ranges = Vec::<Range<u64>>::new();
        for (i, (row, new)) in held.chunks(self.row_bytes).zip(hashes).enumerate() {
            if hash(row) == *new {
                continue;
            }
            let start = (i * self.row_bytes) as u64;
            let end = start + row.len() as u64;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_differs_is_found_and_nothing_else(
            set in proptest::sample::select(LweSet::ALL.to_vec()),
            bits in 16u32..33, rows in 1usize..40, changed in proptest::collection::btree_set(0usize..40, 0..20),
        ) {
            let of_set = HintRows::of(set, bits);
            let old = vec![7; rows * of_set.row_bytes()];
            let mut new = old.clone();
            changed.iter().filter(|&&row| row < rows).for_each(|row| new[row * of_set.row_bytes() + 5] ^= 1);
            let ranges = of_set.differing(&old, &of_set.list(&new)).unwrap();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let mut patched = old;
            let mut bytes = 0;
            for range in ranges {
                let range = range.start as usize..range.end as usize;
                bytes += range.len();
                patched[range.clone()].copy_from_slice(&new[range]);
            }
            prop_assert!(patched == new);
            prop_assert_eq!(bytes, changed.iter().filter(|&&row| row < rows).count() * of_set.row_bytes());
        }
    }

    #[test]
    fn a_list_of_another_hint_is_refused() {
        let rows = HintRows::of(LweSet::Module1280, 32);
        let hint = |rows: usize| vec![0; rows * 5120];
        let list = rows.list(&hint(3));
        assert!(rows.differing(&hint(2), &list).is_err());
        assert!(rows.differing(&hint(3), &list[1..]).is_err());
        assert_eq!(rows.differing(&hint(3), &list).unwrap(), []);
        assert!(HintRows::of(LweSet::Module1536, 32).differing(&hint(6), &rows.list(&hint(6))).is_err());
        assert_eq!([17, 32].map(|bits| HintRows::of(LweSet::Module1280, bits).row_bytes()), [2720, 5120]);
        assert!(HintRows::of(LweSet::Module1280, 17).differing(&hint(3), &list).is_err());
    }
}
