//! Packing of queries whose uniform halves, and those of their keys, are constants of a database.

use std::slice::ChunksExact;

use spirea_math::{Gadget, Ring, Rotations, SentChunks};

use crate::BackendError;

/// Packing of queries that include their keys: computes the chunks, then their rotations.
///
/// The polynomials of a query are, in this order:
///
/// - those of its keys, in the order of [`SentChunks::exponents`]: one ciphertext for each digit of
///   the gadget;
/// - those of the ciphertexts after the keys ([`SentChunks::ciphertexts`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedPacking {
    /// The gadget of all substitutions.
    pub gadget: Gadget,
    /// The form of the chunks. An expansion begins at the first level.
    pub chunks: SentChunks,
    /// The rotations.
    pub rotations: Rotations,
}

impl FixedPacking {
    /// Returns the number of polynomials of a query.
    pub fn polynomials(&self, ring: &Ring) -> usize {
        self.chunks.keys() * self.gadget.levels(ring) + self.chunks.ciphertexts(self.rotations)
    }

    /// Returns the number of substitutions of a query with `results` results.
    pub fn substitutions(&self, ring: &Ring, results: usize) -> usize {
        let before = self.chunks.substitutions(self.rotations, self.gadget.levels(ring));
        before + self.rotations.substitutions(results)
    }

    /// Returns the number of bytes of all digits of a query with `results` results.
    pub fn digits_bytes(&self, ring: &Ring, results: usize) -> usize {
        let of_one = self.gadget.levels(ring) * ring.words() * size_of::<u32>();
        self.substitutions(ring, results) * of_one
    }

    /// Checks that `words` are the polynomials of a query.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not, or if an expansion to the chunks does not begin at
    /// the first level or has too few leaves.
    pub fn check(&self, ring: &Ring, words: &[u32]) -> Result<(), BackendError> {
        let (polynomials, found) = (self.polynomials(ring), words.len());
        let rotated = match self.chunks {
            SentChunks::Expanded(expansion) => {
                self.rotations.chunks() <= expansion.leaves() && expansion.first() == 0
            }
            SentChunks::Apart => true,
        };
        if found == polynomials * ring.words() && rotated {
            return Ok(());
        }
        Err(BackendError::Shape(format!("{found} words of {polynomials} polynomials, for {self:?}")))
    }

    /// Splits `words` into the polynomials of each substitution's key, in order, and those of the
    /// ciphertexts after the keys.
    pub fn split<'a>(&self, ring: &Ring, words: &'a [u32]) -> (ChunksExact<'a, u32>, &'a [u32]) {
        let of_key = self.gadget.levels(ring) * ring.words();
        let (keys, ciphertexts) = words.split_at(self.chunks.keys() * of_key);
        (keys.chunks_exact(of_key), ciphertexts)
    }
}
