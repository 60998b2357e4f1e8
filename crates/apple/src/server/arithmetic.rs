use std::sync::Arc;

use spirea_backend::{BackendError, ResidueBackend};

use crate::set::RINGS;

/// A backend with its tables of the parameter sets' rings.
pub struct Arithmetic<B: ResidueBackend> {
    backend: Arc<B>,
    /// Tables of the ring modulo q.
    ciphertext: B::ResidueTables,
    /// Tables of the ring modulo q P.
    keys: B::ResidueTables,
    /// Tables of the ring modulo the extension primes.
    extension: B::ResidueTables,
}

/// One of the rings of [`Arithmetic`].
#[derive(Clone, Copy, Debug)]
pub enum Over {
    /// Modulo q.
    Ciphertext,
    /// Modulo q P.
    Keys,
    /// Modulo the extension primes.
    Extension,
}

impl<B: ResidueBackend> Arithmetic<B> {
    /// Prepares a backend.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the backend does not have the rings.
    pub fn new(backend: Arc<B>) -> Result<Self, BackendError> {
        Ok(Self {
            ciphertext: backend.residue_tables(&RINGS.ciphertext)?,
            keys: backend.residue_tables(&RINGS.keys)?,
            extension: backend.residue_tables(&RINGS.extension)?,
            backend,
        })
    }

    fn tables(&self, ring: Over) -> &B::ResidueTables {
        match ring {
            Over::Ciphertext => &self.ciphertext,
            Over::Keys => &self.keys,
            Over::Extension => &self.extension,
        }
    }

    /// Transforms polynomials to values, in place.
    pub(crate) fn forward(&self, ring: Over, words: &mut [u32]) {
        self.backend.forward(self.tables(ring), words);
    }

    /// Transforms polynomials to coefficients, in place.
    pub(crate) fn inverse(&self, ring: Over, words: &mut [u32]) {
        self.backend.inverse(self.tables(ring), words);
    }

    /// Returns the sum of the products of pairs of values, as coefficients.
    pub(crate) fn sum_of_products(&self, ring: Over, pairs: &[(&[u32], &[u32])]) -> Vec<u32> {
        let mut sum = self.backend.sum_of_products(self.tables(ring), pairs);
        self.inverse(ring, &mut sum);
        sum
    }
}
