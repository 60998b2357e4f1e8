//! Cuckoo tables: every keyword is in its bucket of one table.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::bucket::{BUCKET_BYTES, Bucket, MAX_SLOTS, MAX_VALUE_BYTES, slot_bytes, slot_bytes_of};
use super::hash::KeywordHash;
use crate::shape::MAX_TABLES;
use crate::{AppleError, Set, Shape};

/// Maximum number of evictions for one keyword; after them, the tables grow.
const MAX_EVICTIONS: usize = 100;
/// Maximum number of buckets for each keyword. The tables grow by a tenth until all keywords fit or
/// the tables exceed this number.
const MAX_BUCKETS_OF_KEYWORD: usize = 64;

/// Maximum serialised length of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BucketSize {
    /// Half of a plaintext if every value fits, else the fewest whole plaintexts that hold the
    /// longest value.
    #[default]
    ByPlaintexts,
    /// This number of bytes.
    Bytes(usize),
}

impl BucketSize {
    /// Returns the maximum length of a bucket; a bucket with only the longest slot has `needed`
    /// bytes.
    fn limit(self, set: Set, needed: usize) -> usize {
        match self {
            Self::Bytes(limit) => limit,
            Self::ByPlaintexts if needed <= set.plaintext_bytes() / 2 => set.plaintext_bytes() / 2,
            Self::ByPlaintexts => needed.next_multiple_of(set.plaintext_bytes()),
        }
    }
}

/// Returns the initial total number of buckets of all tables, for slots of `all` bytes in total.
/// Cuckoo tables fill to at most nine tenths.
fn least_buckets(all: usize, limit: usize, tables: usize) -> usize {
    (all.div_ceil(limit).saturating_mul(10)).div_ceil(9).next_multiple_of(tables.max(1))
}

/// The buckets of a shard's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    tables: Vec<Vec<Bucket>>,
}

impl Tables {
    /// Builds `tables` tables of equal size that hold the values of all keywords,
    /// deterministically.
    ///
    /// # Errors
    /// [`AppleError::Table`] if the number of tables is 0 or above 8, two keywords have the same
    /// hash (for example because they are equal), a value does not fit in a bucket, the length of a
    /// value does not fit in 16 bits, or the tables do not fill.
    pub fn build<'a>(
        set: Set,
        tables: usize,
        size: BucketSize,
        rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<Self, AppleError> {
        if !(1..=MAX_TABLES).contains(&tables) {
            return Err(AppleError::Table(format!("{tables} tables, not 1 to {MAX_TABLES}")));
        }
        let rows: Vec<_> = rows.into_iter().map(|(key, value)| (KeywordHash::of(key), value)).collect();
        let mut hashes: Vec<KeywordHash> = rows.iter().map(|&(hash, _)| hash).collect();
        hashes.sort_unstable();
        if hashes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(AppleError::Table("two keywords are equal or have the same hash".into()));
        }
        let longest = rows.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
        let needed = BUCKET_BYTES + rows.iter().map(|(_, value)| slot_bytes(value)).max().unwrap_or(0);
        let limit = size.limit(set, needed);
        if needed > limit || longest > MAX_VALUE_BYTES {
            return Err(AppleError::Table(format!(
                "a value of {longest} bytes does not fit a bucket of {limit} bytes"
            )));
        }
        let all = BUCKET_BYTES + rows.iter().map(|(_, value)| slot_bytes(value)).sum::<usize>();
        let mut buckets = least_buckets(all, limit, tables);
        while buckets <= MAX_BUCKETS_OF_KEYWORD * (rows.len() + 1) {
            if let Some(filled) = Filling::new(tables, buckets / tables, limit).fill(&rows) {
                return Ok(Self { tables: filled });
            }
            buckets = (buckets + buckets.div_ceil(10)).next_multiple_of(tables);
        }
        Err(AppleError::Table(format!("{} keywords do not fit {buckets} buckets", rows.len())))
    }

    /// Returns the smallest possible shape of tables for `keywords` keywords. Their values have
    /// `value_bytes` bytes in total, and the longest has `longest` bytes. If the keywords do not
    /// fit this shape, the built tables are larger.
    ///
    /// # Errors
    /// [`AppleError::Table`] if a number is too large.
    pub fn least_shape(
        set: Set,
        tables: usize,
        keywords: usize,
        value_bytes: usize,
        longest: usize,
    ) -> Result<Shape, AppleError> {
        let all = keywords
            .checked_mul(slot_bytes_of(0))
            .and_then(|bytes| bytes.checked_add(value_bytes)?.checked_add(BUCKET_BYTES));
        let all = all.filter(|_| longest <= MAX_VALUE_BYTES);
        let all = all.ok_or_else(|| AppleError::Table("the values are too many or too long".into()))?;
        let limit = BucketSize::ByPlaintexts.limit(set, BUCKET_BYTES + slot_bytes_of(longest));
        Shape::new(set, tables, least_buckets(all, limit, tables) / tables.max(1), limit)
    }

    /// Returns tables with these buckets.
    ///
    /// # Errors
    /// [`AppleError::Table`] if there are no tables or too many, or if they have different numbers
    /// of buckets.
    pub fn of_buckets(tables: Vec<Vec<Bucket>>) -> Result<Self, AppleError> {
        let equal = tables.iter().all(|table| table.len() == tables[0].len() && !table.is_empty());
        if !(1..=MAX_TABLES).contains(&tables.len()) || !equal {
            return Err(AppleError::Table("the tables have different numbers of buckets".into()));
        }
        Ok(Self { tables })
    }

    /// Returns the buckets, table by table.
    pub fn buckets(&self) -> &[Vec<Bucket>] {
        &self.tables
    }

    /// Returns the value of a keyword.
    pub fn value(&self, keyword: &[u8]) -> Option<&[u8]> {
        let hash = KeywordHash::of(keyword);
        let buckets = hash.buckets(self.tables.len(), self.tables[0].len());
        self.tables.iter().zip(buckets).find_map(|(table, bucket)| table[bucket].value(hash))
    }

    /// Returns the shape whose buckets have the length of these tables' longest bucket.
    ///
    /// # Errors
    /// [`AppleError::Table`] if there are too many buckets or they are too long.
    pub fn shape(&self, set: Set) -> Result<Shape, AppleError> {
        let longest =
            self.tables.iter().flatten().map(Bucket::serialized_bytes).max().unwrap_or(BUCKET_BYTES);
        self.shape_of(set, longest)
    }

    /// Returns the shape with buckets of `entry_size` bytes, for parameters that later versions of
    /// the tables keep.
    ///
    /// # Errors
    /// [`AppleError::Table`] if a bucket is longer, or the shape is too large.
    pub fn shape_of(&self, set: Set, entry_size: usize) -> Result<Shape, AppleError> {
        if self.tables.iter().flatten().any(|bucket| bucket.serialized_bytes() > entry_size) {
            return Err(AppleError::Table(format!("a bucket is longer than {entry_size} bytes")));
        }
        Shape::new(set, self.tables.len(), self.tables[0].len(), entry_size)
    }
}

/// Tables while keywords are inserted.
struct Filling {
    tables: Vec<Vec<Bucket>>,
    sizes: Vec<Vec<usize>>,
    limit: usize,
    random: ChaCha20Rng,
}

impl Filling {
    fn new(tables: usize, entries: usize, limit: usize) -> Self {
        Self {
            tables: vec![vec![Bucket::default(); entries]; tables],
            sizes: vec![vec![BUCKET_BYTES; entries]; tables],
            limit,
            random: ChaCha20Rng::seed_from_u64(entries as u64),
        }
    }

    /// Returns the tables with all rows, or `None` if a row finds no place.
    fn fill(mut self, rows: &[(KeywordHash, &[u8])]) -> Option<Vec<Vec<Bucket>>> {
        rows.iter().all(|&(hash, value)| self.insert(hash, value.to_vec())).then_some(self.tables)
    }

    /// Inserts a row and evicts others as needed. Returns true if all of these rows found a place.
    fn insert(&mut self, mut hash: KeywordHash, mut value: Vec<u8>) -> bool {
        for _ in 0..=MAX_EVICTIONS {
            let buckets = hash.buckets(self.tables.len(), self.tables[0].len());
            let needed = slot_bytes(&value);
            let has_room = |&(table, bucket): &(usize, usize)| {
                self.sizes[table][bucket] + needed <= self.limit
                    && self.tables[table][bucket].slots.len() < MAX_SLOTS
            };
            let places = || buckets.iter().copied().enumerate();
            if let Some((table, bucket)) = places().find(has_room) {
                self.sizes[table][bucket] += needed;
                self.tables[table][bucket].slots.push((hash, value));
                return true;
            }
            // The slots whose eviction makes enough room for the value.
            let evictable: Vec<(usize, usize, usize)> = places()
                .flat_map(|(table, bucket)| {
                    let room = self.limit - self.sizes[table][bucket];
                    let slots = self.tables[table][bucket].slots.iter().enumerate();
                    let enough = slots.filter(move |(_, slot)| slot_bytes(&slot.1) + room >= needed);
                    enough.map(move |(slot, _)| (table, bucket, slot))
                })
                .collect();
            if evictable.is_empty() {
                return false;
            }
            let (table, bucket, slot) = evictable[self.random.next_u64() as usize % evictable.len()];
            let evicted = std::mem::replace(&mut self.tables[table][bucket].slots[slot], (hash, value));
            let size = &mut self.sizes[table][bucket];
            *size = *size + needed - slot_bytes(&evicted.1);
            (hash, value) = evicted;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn build(tables: usize, size: BucketSize, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<Tables, AppleError> {
        Tables::build(Set::Logt5, tables, size, rows.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    fn rows(count: usize, length: impl Fn(usize) -> usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..count).map(|i| (format!("+1555{i:07}").into_bytes(), vec![i as u8; length(i)])).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_keyword_is_in_a_bucket_of_its_own(
            tables in 1usize..4, count in 0usize..400, most in 1usize..200, limit in 400usize..1200,
        ) {
            let rows = rows(count, |i| i * 7 % most);
            let built = build(tables, BucketSize::Bytes(limit), &rows).unwrap();
            prop_assert!(rows.iter().all(|(key, value)| built.value(key) == Some(&value[..])));
            prop_assert_eq!(built.value(b"absent"), None);
            let buckets = || built.buckets().iter().flatten();
            prop_assert!(buckets().all(|bucket| bucket.serialized_bytes() <= limit));
            prop_assert_eq!(buckets().map(|bucket| bucket.slots.len()).sum::<usize>(), count);
            prop_assert_eq!(built.buckets().len(), tables);
        }
    }

    #[test]
    fn the_least_shape_is_a_lower_bound_and_near_where_buckets_hold_many_values() {
        // With one or two values in a bucket, tables fill to about half.
        for (count, length, most) in
            [(1, 0, 1.0), (300, 20, 1.4), (5000, 2, 1.2), (40, 1500, 2.5), (20, 5000, 2.5)]
        {
            let rows = rows(count, |_| length);
            let built = build(2, BucketSize::ByPlaintexts, &rows).unwrap().buckets()[0].len();
            let least = Tables::least_shape(Set::Logt5, 2, count, count * length, length).unwrap();
            let entries = least.entries();
            let limit = (entries as f64 * most).ceil() as usize;
            assert!((entries..=limit).contains(&built), "{count} of {length}: {built}, {entries}");
        }
        assert!(Tables::least_shape(Set::Logt5, 2, usize::MAX, 1, 1).is_err());
        assert!(Tables::least_shape(Set::Logt5, 2, 1, 1, usize::MAX).is_err());
    }

    #[test]
    fn two_tables_fill_to_most_of_their_room() {
        let rows = rows(5000, |_| 2);
        let built = build(2, BucketSize::ByPlaintexts, &rows).unwrap();
        let buckets = built.buckets()[0].len() * 2;
        // Slots have 12 bytes and buckets have 1024, so 59 full buckets would suffice.
        assert!(buckets <= 70, "{buckets}");
        assert_eq!(built, build(2, BucketSize::ByPlaintexts, &rows).unwrap(), "deterministic");
    }

    #[test]
    fn a_bucket_has_at_most_255_slots() {
        let rows = rows(1000, |_| 0);
        let built = build(2, BucketSize::Bytes(60_000), &rows).unwrap();
        assert!(built.buckets().iter().flatten().all(|bucket| bucket.slots.len() <= MAX_SLOTS));
        assert!(rows.iter().all(|(key, _)| built.value(key).is_some()));
    }

    #[test]
    fn bucket_sizes_follow_the_longest_value() {
        for (length, limit) in [(2, 1024), (1013, 1024), (1014, 2048), (2038, 4096), (3000, 4096)] {
            let built = build(2, BucketSize::ByPlaintexts, &rows(9, |_| length)).unwrap();
            let longest = built.buckets().iter().flatten().map(Bucket::serialized_bytes).max().unwrap();
            assert!(longest <= limit && length + 11 <= longest, "{length}");
            let shape = built.shape(Set::Logt5).unwrap();
            assert_eq!(shape.entry_size(), longest);
        }
    }

    #[test]
    fn rows_that_no_table_can_hold_are_refused() {
        let refused = |tables, size, rows: &[_]| build(tables, size, rows).unwrap_err().to_string();
        let twice = [rows(1, |_| 1), rows(1, |_| 2)].concat();
        assert!(refused(2, BucketSize::ByPlaintexts, &twice).contains("two keywords are equal"));
        assert!(refused(2, BucketSize::Bytes(20), &rows(3, |_| 10)).contains("10 bytes does not fit"));
        assert!(refused(2, BucketSize::ByPlaintexts, &rows(1, |_| 65_536)).contains("does not fit"));
        assert!(refused(0, BucketSize::ByPlaintexts, &[]).contains("0 tables"));
        assert!(refused(2, BucketSize::Bytes(0), &[]).contains("does not fit"));
    }

    #[test]
    fn tables_have_equal_numbers_of_buckets() {
        let buckets = |count| vec![Bucket::default(); count];
        assert!(Tables::of_buckets(vec![buckets(3), buckets(3)]).is_ok());
        for tables in [vec![], vec![buckets(0)], vec![buckets(2), buckets(3)], vec![buckets(1); 9]] {
            assert!(Tables::of_buckets(tables).is_err());
        }
    }
}
