//! Folds by shares of distributed point functions: trees fused with the rows that they select.
//!
//! [`driver`] and [`traverse`] contain the control flow, once. A function's tree ([`trees`]) and
//! the folds ([`fold`]) are compiled for each instruction set.

mod aes;
#[cfg(target_arch = "x86_64")]
mod aesni;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
#[cfg(target_arch = "x86_64")]
mod compiled;
#[cfg(test)]
mod defined;
mod driver;
mod evaluate;
mod fold;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod lanes;
mod portable;
mod products;
#[cfg(test)]
mod tests;
mod traverse;
mod tree;
mod trees;
#[cfg(target_arch = "x86_64")]
mod vaes;
#[cfg(target_arch = "x86_64")]
mod vaes512;

use spirea_backend::{BackendError, FileRows, RowLayout, ShareBackend, ShareFold};
use spirea_dpf::{Key, PrfKind};

pub use evaluate::Traversal;
pub(crate) use trees::tree;

use crate::isa::{Found, Portable, with_token};
use crate::{CpuBackend, CpuRows};
use driver::Task;
use fold::MultiplyAdds32;
use lanes::ByteLanes as _;
use products::BitProducts;

/// Multiplies and adds words of 32 bits in registers for a number of rounds; returns the number of
/// products.
pub(crate) fn multiply_adds32(found: Found, rounds: u64) -> u64 {
    with_token!(found, Portable::<8>, lanes => lanes.run(MultiplyAdds32 { rounds }))
}

impl ShareBackend for CpuBackend {
    type Rows = CpuRows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<CpuRows, BackendError> {
        self.install(|| CpuRows::copy_of(layout, bytes))
    }

    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<CpuRows, BackendError> {
        self.install(|| CpuRows::open(&stored))
    }

    fn row_layout(&self, rows: &CpuRows) -> RowLayout {
        rows.layout()
    }

    fn share_fold(
        &self,
        rows: &CpuRows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.share_folds(rows, prf, &[ShareFold { first_row, keys }])
    }

    fn share_folds(
        &self,
        rows: &CpuRows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let task = |&ShareFold { first_row, keys }| {
            Ok(Task { batch: rows.layout().check_keys(first_row, keys)?, keys })
        };
        let tasks = folds.iter().map(task).collect::<Result<Vec<_>, BackendError>>()?;
        let (tree, products) = (tree(self.isa(), prf), BitProducts::detect(self.found));
        Ok(self.install(|| driver::share_folds(&*tree, self.found, products, rows, &tasks)))
    }
}
