//! Operations on single polynomials, for protocols whose ciphertexts are not those of
//! [`RingBackend`](crate::RingBackend).

use std::sync::Arc;

use spirea_math::Ring;

use crate::BackendError;

/// Transforms and products of polynomials in the form of [`Ring`]: for each prime its residues, as
/// coefficients or as values of the ring's transform.
///
/// # Panics
/// Every operation panics if a slice does not consist of whole polynomials of the ring.
pub trait ResidueBackend: Send + Sync {
    /// Tables of a ring.
    type ResidueTables: Send + Sync;

    /// Prepares the operations on a ring.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the backend does not have this ring.
    fn residue_tables(&self, ring: &Arc<Ring>) -> Result<Self::ResidueTables, BackendError>;

    /// Transforms each polynomial in `words` from coefficients to values, in place. The
    /// coefficients are below 4 times their primes, the values below their primes.
    fn forward(&self, tables: &Self::ResidueTables, words: &mut [u32]);

    /// Transforms each polynomial in `words` from values to coefficients, in place. All are below
    /// their primes.
    fn inverse(&self, tables: &Self::ResidueTables, words: &mut [u32]);

    /// Returns the sum of the products of pairs of polynomials, all as values below their primes.
    fn sum_of_products(&self, tables: &Self::ResidueTables, pairs: &[(&[u32], &[u32])]) -> Vec<u32>;
}
