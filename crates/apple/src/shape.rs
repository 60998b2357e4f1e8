//! The shape of a shard: the places of its buckets in plaintexts, and the query that selects them.

use crate::messages::PirShardConfig;
use crate::set::{DEGREE, LOG2_DEGREE};
use crate::{AppleError, Set};

/// Compression of evaluation keys: fewer Galois elements are smaller to upload, and take the server
/// more key switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// An element for each level of the expansion.
    #[default]
    None,
    /// The elements of the lower half of the levels, and one for the other levels.
    Hybrid,
    /// The elements of the lower half of the levels.
    Max,
}

/// Shape of a shard. All of its tables have the same number of buckets of the same size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    set: Set,
    tables: usize,
    entries: usize,
    entry_size: usize,
    dimensions: Vec<usize>,
}

/// Maximum number of buckets of a table.
const MAX_ENTRIES: usize = 1 << 30;
/// Maximum number of tables: the number of hash functions.
pub const MAX_TABLES: usize = 8;

impl Shape {
    /// Returns the shape of `tables` tables of `entries` buckets of `entry_size` bytes, in two
    /// dimensions that Apple's server would choose.
    ///
    /// # Errors
    /// [`AppleError::Table`] if a number is 0 or too large.
    pub fn new(set: Set, tables: usize, entries: usize, entry_size: usize) -> Result<Self, AppleError> {
        let mut shape = Self { set, tables, entries, entry_size, dimensions: vec![1, 1] };
        shape.check()?;
        let plaintexts = shape.used_plaintexts();
        let mut dimensions = [plaintexts.isqrt(); 2];
        for axis in [0, 1] {
            if dimensions[0] * dimensions[1] < plaintexts {
                dimensions[axis] += 1;
            }
        }
        // Columns are more expensive than rows. Further leaves of a query are free up to the next
        // power of two.
        let leaves = |dimensions: [usize; 2]| (tables * (dimensions[0] + dimensions[1])).next_power_of_two();
        let limit = leaves(dimensions);
        while dimensions[1] > 1 {
            let fewer = dimensions[1] - 1;
            let candidate = [plaintexts.div_ceil(fewer), fewer];
            if leaves(candidate) > limit {
                break;
            }
            dimensions = candidate;
        }
        shape.dimensions = dimensions.to_vec();
        Ok(shape)
    }

    /// Returns the shape with these dimensions, one or two, whose product must suffice for the
    /// plaintexts.
    ///
    /// # Errors
    /// [`AppleError::Table`] if the dimensions do not suffice or are too large.
    pub fn with_dimensions(mut self, dimensions: &[usize]) -> Result<Self, AppleError> {
        let product = dimensions.iter().try_fold(1usize, |product, &d| product.checked_mul(d));
        let suffices = product.is_some_and(|product| product >= self.used_plaintexts());
        if !(1..=2).contains(&dimensions.len()) || !suffices || product > Some(2 * MAX_ENTRIES) {
            return Err(AppleError::Table(format!("the dimensions {dimensions:?} do not fit the buckets")));
        }
        self.dimensions = dimensions.to_vec();
        Ok(self)
    }

    fn check(&self) -> Result<(), AppleError> {
        let limits = [
            ("tables", self.tables, MAX_TABLES),
            ("buckets of a table", self.entries, MAX_ENTRIES),
            ("bytes of a bucket", self.entry_size, 1 << 24),
        ];
        for (what, number, limit) in limits {
            if !(1..=limit).contains(&number) {
                return Err(AppleError::Table(format!("{number} {what}, not 1 to {limit}")));
            }
        }
        Ok(())
    }

    /// Returns the parameter set.
    pub fn set(&self) -> Set {
        self.set
    }

    /// Returns the number of tables.
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Returns the number of buckets of a table.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the bytes of a bucket.
    pub fn entry_size(&self) -> usize {
        self.entry_size
    }

    /// Returns the numbers of plaintexts along the dimensions.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// Returns the number of rows: the first dimension.
    pub fn rows(&self) -> usize {
        self.dimensions[0]
    }

    /// Returns the number of columns: the second dimension, or 1.
    pub fn columns(&self) -> usize {
        self.dimensions.get(1).copied().unwrap_or(1)
    }

    /// Returns the number of whole buckets in a plaintext; 1 if a bucket takes several plaintexts.
    pub fn entries_in_plaintext(&self) -> usize {
        (self.set.plaintext_bytes() / self.entry_size).max(1)
    }

    /// Returns the number of plaintexts of a bucket, which is also the number of a table's chunks:
    /// each chunk has one plaintext of a bucket.
    pub fn chunks(&self) -> usize {
        self.entry_size.div_ceil(self.set.plaintext_bytes())
    }

    /// Returns the number of a chunk's plaintexts that hold buckets.
    pub fn used_plaintexts(&self) -> usize {
        self.entries.div_ceil(self.entries_in_plaintext())
    }

    /// Returns the number of a chunk's plaintexts, including those of padding.
    pub fn plaintexts(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Returns the number of entries of the one-hot vectors of a table.
    pub fn table_leaves(&self) -> usize {
        self.dimensions.iter().sum()
    }

    /// Returns the number of ciphertexts to which a query expands: `expandedQueryCount`.
    pub fn leaves(&self) -> usize {
        self.tables * self.table_leaves()
    }

    /// Returns the number of leaves of each of a query's ciphertexts.
    pub fn leaves_of_ciphertexts(&self) -> impl ExactSizeIterator<Item = usize> {
        let leaves = self.leaves();
        (0..leaves.div_ceil(DEGREE)).map(move |i| (leaves - i * DEGREE).min(DEGREE))
    }

    /// Returns the Galois elements for the expansion of a query, ascending.
    pub fn galois_elements(&self, compression: Compression) -> Vec<u32> {
        let depth = self.leaves().min(DEGREE).next_power_of_two().ilog2();
        if depth == 0 {
            return Vec::new();
        }
        let largest = LOG2_DEGREE;
        let smallest = largest - depth + 1;
        let element = |exponent: u32| (1 << exponent) + 1;
        let most = smallest.max((largest + 1).div_ceil(2));
        match compression {
            Compression::None => (smallest..=largest).map(element).collect(),
            Compression::Max => (smallest..=most).map(element).collect(),
            Compression::Hybrid => {
                let middle = most.max((largest + most).div_ceil(2));
                let mut exponents: Vec<u32> = (smallest..=most).chain([middle]).collect();
                exponents.dedup();
                exponents.into_iter().map(element).collect()
            }
        }
    }

    /// Returns the shape as a message.
    pub fn config(&self) -> PirShardConfig {
        PirShardConfig {
            num_entries: self.entries as u64,
            entry_size: self.entry_size as u64,
            dimensions: self.dimensions.iter().map(|&d| d as u64).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dimensions_are_those_of_recorded_databases() {
        let cases = [
            (Set::Logt5, 2, 1, 601, [1, 1], 1),
            (Set::Logt5, 2, 51, 611, [9, 2], 1),
            (Set::Logt5, 2, 41, 3011, [11, 4], 2),
            (Set::Logt4, 1, 136, 651, [23, 3], 1),
            (Set::Logt4, 1, 106, 651, [11, 5], 1),
            (Set::Logt6, 2, 14, 1221, [7, 1], 1),
        ];
        for (set, tables, entries, entry_size, dimensions, chunks) in cases {
            let shape = Shape::new(set, tables, entries, entry_size).unwrap();
            assert_eq!((shape.dimensions(), shape.chunks()), (&dimensions[..], chunks), "{shape:?}");
        }
    }

    #[test]
    fn galois_elements_are_those_of_recorded_configurations() {
        let shape = |entries, entry_size| Shape::new(Set::Logt5, 2, entries, entry_size).unwrap();
        let elements = |shape: &Shape, compression| shape.galois_elements(compression);
        assert_eq!(elements(&shape(1, 601), Compression::None), [2049, 4097]);
        assert_eq!(elements(&shape(51, 611), Compression::None), [257, 513, 1025, 2049, 4097]);
        assert_eq!(elements(&shape(41, 3011), Compression::Hybrid), [257, 1025]);
        assert_eq!(elements(&shape(41, 3011), Compression::Max), [257]);
        // With many leaves, the lower half of the levels has several elements.
        let large = shape(100_000, 2048);
        assert_eq!(elements(&large, Compression::Max), [5, 9, 17, 33, 65, 129]);
        assert_eq!(elements(&large, Compression::Hybrid), [5, 9, 17, 33, 65, 129, 1025]);
        let single = Shape::new(Set::Logt5, 1, 1, 9).unwrap().with_dimensions(&[1]).unwrap();
        assert_eq!(elements(&single, Compression::None), [0u32; 0]);
    }

    #[test]
    fn long_queries_take_several_ciphertexts() {
        let shape = Shape::new(Set::Logt5, 2, 10_000, 2048).unwrap().with_dimensions(&[5000]).unwrap_err();
        assert!(matches!(shape, AppleError::Table(_)));
        let shape = Shape::new(Set::Logt5, 2, 5000, 2048).unwrap().with_dimensions(&[5000]).unwrap();
        assert_eq!(shape.leaves_of_ciphertexts().collect::<Vec<_>>(), [4096, 4096, 1808]);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let refused =
            |tables, entries, entry_size| Shape::new(Set::Logt5, tables, entries, entry_size).is_err();
        assert!(refused(0, 1, 1) && refused(9, 1, 1) && refused(1, 0, 1) && refused(1, 1, 0));
        assert!(refused(1, usize::MAX, 1) && refused(1, 1, usize::MAX));
        let shape = Shape::new(Set::Logt5, 1, 100, 2048).unwrap();
        for dimensions in [&[][..], &[99], &[10, 9], &[5, 5, 5], &[usize::MAX, 2], &[1 << 20, 1 << 20]] {
            assert!(shape.clone().with_dimensions(dimensions).is_err(), "{dimensions:?}");
        }
    }

    proptest! {
        #[test]
        fn plaintexts_hold_every_bucket(tables in 1..3usize, entries in 1..5000usize, entry_size in 1..9000usize) {
            let shape = Shape::new(Set::Logt6, tables, entries, entry_size).unwrap();
            prop_assert!(shape.plaintexts() >= shape.used_plaintexts());
            prop_assert!(shape.used_plaintexts() * shape.entries_in_plaintext() >= entries);
            prop_assert!(shape.chunks() * Set::Logt6.plaintext_bytes() >= entry_size);
            let again = shape.clone().with_dimensions(shape.dimensions()).unwrap();
            prop_assert_eq!(again, shape);
        }
    }
}
