//! Ciphertexts on a device.

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, check_batches};

use super::tables::Tables;
use crate::driver::{Arg, Buffer, View};

/// Ciphertexts of a batch: `[query][place][a, b][limb][N]`, values below the primes in the order of
/// [`spirea_math::NttPlan`]. Every query has the same number of places; its ciphertexts are in the
/// first places, in order.
#[derive(Debug)]
pub struct Ciphertexts {
    buffer: Buffer<u32>,
    queries: usize,
    /// Number of places of a query.
    places: usize,
    /// Number of ciphertexts of a query.
    count: usize,
}

/// Ciphertexts of a batch as kernels take them (`ring_ends.cu`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Batch {
    words: u64,
    count: u32,
    places: u32,
}

/// Leaves of a batch of expanded queries, in order.
pub type Leaves = Ciphertexts;

impl Ciphertexts {
    /// Allocates room for `count` ciphertexts of each query.
    pub(crate) fn room(tables: &Tables, queries: usize, count: usize) -> Result<Self, BackendError> {
        let words = queries.checked_mul(count).and_then(|all| all.checked_mul(tables.ciphertext()));
        let buffer = tables.device.alloc(words.unwrap_or(usize::MAX))?;
        Ok(Self { buffer, queries, places: count, count })
    }

    /// Uploads `count` ciphertexts of each query; all words must be below the primes.
    pub(super) fn of_words(
        tables: &Tables,
        queries: usize,
        count: usize,
        words: &[u32],
    ) -> Result<Self, BackendError> {
        Ok(Self { buffer: tables.device.upload(words)?, queries, places: count, count })
    }

    /// Views the words of one query.
    pub(crate) fn of(&self, tables: &Tables, query: usize) -> View<'_, u32> {
        let (start, one) = (query * self.places, tables.ciphertext());
        self.buffer.range(start * one..(start + self.count) * one)
    }

    /// Pairs each query's words with its element of `others`.
    pub(super) fn with<'a, T>(
        &'a self,
        tables: &Tables,
        others: &[&'a T],
    ) -> Result<Vec<(&'a T, View<'a, u32>)>, BackendError> {
        check_batches(others.len(), self.queries)?;
        Ok((0..).zip(others).map(|(query, &other)| (other, self.of(tables, query))).collect())
    }

    /// Returns the first `count` ciphertexts of every query as a kernel argument.
    ///
    /// # Panics
    /// If a query has fewer ciphertexts.
    pub(super) fn arg(&self, count: usize) -> Arg {
        assert!(count <= self.count, "ciphertexts that are there");
        // Each ciphertext has at least 16 KiB, so no device has room for 2^32 of them.
        let [count, places] = [count, self.places].map(|n| n as u32);
        Arg::structure(&Batch { words: self.buffer.all().address(), count, places })
    }

    /// Keeps only the first ciphertext of each query.
    pub(super) fn firsts(self) -> Self {
        Self { count: self.count.min(1), ..self }
    }

    /// Returns the number of queries.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// Returns the number of ciphertexts of each query.
    pub fn count(&self) -> usize {
        self.count
    }
}
