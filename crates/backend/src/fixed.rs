//! Packing of queries whose uniform halves, and those of their keys, are constants of a database.

use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::BackendError;

/// Packing of queries that bring their keys: the expansion to chunks, then their rotations, with
/// keys for both.
///
/// The polynomials of a query are, in this order:
///
/// - those of its keys: for each level of the expansion, then for each of [`Rotations::keys`], one
///   ciphertext for each digit of the gadget;
/// - that of the ciphertext to expand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedPacking {
    /// The gadget of all substitutions.
    pub gadget: Gadget,
    /// The expansion to chunks, from the first level on.
    pub expansion: Expansion,
    /// The rotations.
    pub rotations: Rotations,
}

impl FixedPacking {
    /// Returns the number of substitutions, each with its key.
    pub fn keys(&self) -> usize {
        self.expansion.levels() as usize + Rotations::KEYS
    }

    /// Returns the number of polynomials of a query.
    pub fn polynomials(&self, ring: &Ring) -> usize {
        self.keys() * self.gadget.levels(ring) + 1
    }

    /// Returns the number of substitutions of a query with `results` results.
    pub fn substitutions(&self, results: usize) -> usize {
        self.expansion.substitutions() + self.rotations.substitutions(results)
    }

    /// Returns the number of bytes of all digits of a query with `results` results.
    pub fn digits_bytes(&self, ring: &Ring, results: usize) -> usize {
        self.substitutions(results) * self.gadget.levels(ring) * ring.words() * size_of::<u32>()
    }

    /// Checks that `words` are the polynomials of a query.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not, or the expansion does not give the chunks.
    pub fn check(&self, ring: &Ring, words: &[u32]) -> Result<(), BackendError> {
        let (polynomials, found) = (self.polynomials(ring), words.len());
        let rotated = self.rotations.chunks() <= self.expansion.leaves() && self.expansion.first() == 0;
        if found == polynomials * ring.words() && rotated {
            return Ok(());
        }
        Err(BackendError::Shape(format!("{found} words of {polynomials} polynomials, for {self:?}")))
    }

    /// Splits `words` into the polynomials of each substitution's key, in order, and the polynomial
    /// to expand.
    pub fn split<'a>(&self, ring: &Ring, words: &'a [u32]) -> (std::slice::ChunksExact<'a, u32>, &'a [u32]) {
        let of_key = self.gadget.levels(ring) * ring.words();
        let (keys, query) = words.split_at(self.keys() * of_key);
        (keys.chunks_exact(of_key), query)
    }
}
