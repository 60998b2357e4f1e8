//! Databases with pseudorandom content, filled on the device, for measurements where only the size
//! matters.

use spirea_backend::{BackendError, PanelLayout, RowLayout};

use super::fill;
use crate::{CudaBackend, CudaMatrix, CudaRows};

impl CudaBackend {
    /// Creates a matrix of pseudorandom bytes.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for the matrix.
    pub fn random_matrix(&self, layout: PanelLayout, seed: u64) -> Result<CudaMatrix, BackendError> {
        let matrix = CudaMatrix::held(self.device(), layout)?;
        fill(&matrix.bytes().range(0..layout.bytes()), seed)?;
        matrix.loaded()
    }

    /// Creates rows of pseudorandom bytes.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is no room for the rows.
    pub fn random_rows(&self, layout: RowLayout, seed: u64) -> Result<CudaRows, BackendError> {
        let rows = self.rows(layout)?;
        let length = rows.bytes().len() / 16 * 16;
        fill(&rows.bytes().range(0..length), seed)?;
        Ok(rows)
    }
}
