//! Folds by shares of distributed point functions: the evaluation of trees is fused with the fold
//! of the rows.
//!
//! `plan` divides a batch into blocks, `keys` copies its keys to the device and expands the tops of
//! their trees, `fold` multiplies, `evaluate` writes shares to memory, for measurements. Kernels:
//! `kernels/share_*.cuh`, one file for one or two functions.

mod constants;
mod evaluate;
mod fold;
mod functions;
mod keys;
mod plan;

use spirea_backend::{BackendError, FileLayout, FileRows, RowLayout, ShareBackend, ShareFold};
use spirea_dpf::{Key, PrfKind};

pub use evaluate::Evaluation;
pub use plan::{Tops, multiplies_bits};

use crate::CudaBackend;
use crate::driver::Buffer;
use crate::upload::upload_file;
use constants::Constants;

/// Bytes after the last row that kernels read together with the row.
const SLACK: usize = 32;

/// Rows of bytes on a device.
#[derive(Debug)]
pub struct CudaRows {
    layout: RowLayout,
    bytes: Buffer<u8>,
    constants: Constants,
}

impl CudaBackend {
    /// Allocates rows.
    pub(crate) fn rows(&self, layout: RowLayout) -> Result<CudaRows, BackendError> {
        let bytes = self.device().hold(layout.bytes() + SLACK)?;
        Ok(CudaRows { layout, bytes, constants: Constants::new(self.device())? })
    }
}

impl CudaRows {
    pub(crate) fn bytes(&self) -> &Buffer<u8> {
        &self.bytes
    }
}

impl ShareBackend for CudaBackend {
    type Rows = CudaRows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<CudaRows, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        let rows = self.rows(layout)?;
        self.device().main().upload(bytes, &rows.bytes.range(0..bytes.len()))?;
        Ok(rows)
    }

    /// Copies the rows to the device, whatever the residence: kernels would read a mapped file over
    /// the bus every time.
    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<CudaRows, BackendError> {
        upload_file(self.device(), &stored, |layout| self.rows(layout), CudaRows::bytes)
    }

    fn row_layout(&self, rows: &CudaRows) -> RowLayout {
        rows.layout
    }

    fn share_fold(
        &self,
        rows: &CudaRows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.share_folds(rows, prf, &[ShareFold { first_row, keys }])
    }

    fn share_folds(
        &self,
        rows: &CudaRows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let task = |&ShareFold { first_row, keys }| {
            Ok(fold::Task { batch: rows.layout.check_keys(first_row, keys)?, keys })
        };
        let tasks = folds.iter().map(task).collect::<Result<Vec<_>, BackendError>>()?;
        fold::share_folds(rows, &self.answers, prf, &tasks)
    }
}
