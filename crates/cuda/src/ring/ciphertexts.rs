//! Ciphertexts on a device.

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, check_batches};

use super::tables::Tables;
use crate::driver::{Arg, Buffer, View};

/// Ciphertexts of a batch: `[query][place][a, b][limb][N]`, values below the primes in the order of
/// [`spirea_math::NttPlan`]. Every query has as many places, and ciphertexts in the first ones, in order.
#[derive(Debug)]
pub struct Ciphertexts {
    buffer: Buffer<u32>,
    queries: usize,
    /// Places of a query.
    places: usize,
    /// Ciphertexts of a query.
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

/// The leaves of a batch of expanded queries, in order.
pub type Leaves = Ciphertexts;

impl Ciphertexts {
    /// Room for `count` ciphertexts of each query.
    pub(crate) fn room(tables: &Tables, queries: usize, count: usize) -> Result<Self, BackendError> {
        let words = queries.checked_mul(count).and_then(|all| all.checked_mul(tables.ciphertext()));
        let buffer = tables.device.alloc(words.unwrap_or(usize::MAX))?;
        Ok(Self { buffer, queries, places: count, count })
    }

    /// `count` ciphertexts of each query, of words below the primes.
    pub(super) fn of_words(
        tables: &Tables,
        queries: usize,
        count: usize,
        words: &[u32],
    ) -> Result<Self, BackendError> {
        Ok(Self { buffer: tables.device.upload(words)?, queries, places: count, count })
    }

    /// The words of one query.
    pub(crate) fn of(&self, tables: &Tables, query: usize) -> View<'_, u32> {
        let (start, one) = (query * self.places, tables.ciphertext());
        self.buffer.range(start * one..(start + self.count) * one)
    }

    /// Each query's words, with what else it has: one of `others` for each.
    pub(super) fn with<'a, T>(
        &'a self,
        tables: &Tables,
        others: &[&'a T],
    ) -> Result<Vec<(&'a T, View<'a, u32>)>, BackendError> {
        check_batches(others.len(), self.queries)?;
        Ok((0..).zip(others).map(|(query, &other)| (other, self.of(tables, query))).collect())
    }

    /// The first `count` ciphertexts of every query as an argument of kernels.
    ///
    /// # Panics
    /// If there are not as many.
    pub(super) fn arg(&self, count: usize) -> Arg {
        assert!(count <= self.count, "ciphertexts that are there");
        // Ciphertexts of 16 KiB at least: no device has room for 2^32 of them.
        let [count, places] = [count, self.places].map(|n| n as u32);
        Arg::structure(&Batch { words: self.buffer.all().address(), count, places })
    }

    /// Keeps the first ciphertext of each query alone.
    pub(super) fn firsts(self) -> Self {
        Self { count: self.count.min(1), ..self }
    }

    /// How many queries.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// How many ciphertexts each query has.
    pub fn count(&self) -> usize {
        self.count
    }
}
