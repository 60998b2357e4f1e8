use std::sync::Arc;

use spirea_backend::{BackendError, ProductRings, ResidueBackend};

use super::memory::Memory;
use crate::set::RINGS;

/// A backend with its tables of the parameter sets' rings.
pub struct Arithmetic<B: ResidueBackend> {
    pub(super) backend: Arc<B>,
    /// Tables of the ring modulo q.
    pub(super) ciphertext: B::Tables,
    /// Tables of the ring modulo q P.
    pub(super) keys: B::Tables,
    /// Constants of products of ciphertexts.
    pub(super) products: B::ProductTables,
    pub(super) memory: Memory,
}

impl<B: ResidueBackend> Arithmetic<B> {
    /// Prepares a backend.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the backend does not have the rings.
    pub fn new(backend: Arc<B>) -> Result<Self, BackendError> {
        Ok(Self {
            ciphertext: backend.tables(&RINGS.ciphertext)?,
            keys: backend.tables(&RINGS.keys)?,
            products: backend.product_tables(&ProductRings {
                ciphertext: Arc::clone(&RINGS.ciphertext),
                extension: Arc::clone(&RINGS.extension),
            })?,
            backend,
            memory: Memory::default(),
        })
    }

    /// Returns a matrix of plaintexts; `fill` writes the coefficients of one.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for the matrix.
    pub(crate) fn encode(
        &self,
        rows: usize,
        columns: usize,
        fill: &(dyn Fn(usize, usize, &mut [i32]) + Sync),
    ) -> Result<B::Plain, BackendError> {
        self.backend.encode(&self.ciphertext, rows, columns, fill)
    }
}
