//! Ciphertexts on a device.

use super::tables::Tables;
use crate::driver::{Buffer, View};

/// Ciphertexts of one query, in order: `[ciphertext][a, b][limb][N]`, values below the primes in the order of
/// [`spirea_math::NttPlan`]. The buffer may have room for more than there are.
#[derive(Debug)]
pub struct Ciphertexts {
    pub(super) buffer: Buffer<u32>,
    pub(super) count: usize,
}

impl Ciphertexts {
    /// All ciphertexts in a buffer, each of `tables.ciphertext()` words.
    pub(crate) fn new(tables: &Tables, buffer: Buffer<u32>) -> Self {
        Self { count: buffer.len() / tables.ciphertext(), buffer }
    }

    /// Their words.
    pub(crate) fn words(&self, tables: &Tables) -> View<'_, u32> {
        self.buffer.range(0..self.count * tables.ciphertext())
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }
}

/// The leaves of one expanded query, in order.
pub type Leaves = Ciphertexts;
