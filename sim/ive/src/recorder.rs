//! What a server has its backend do, written down: a protocol that runs on `Observed<B, Recorder>` needs no second copy
//! here.

use std::sync::{Mutex, PoisonError};

use spirea_backend::{BackendError, Observer, Operation};

use crate::arch::{Arch, Scheme};
use crate::error::IveError;
use crate::schedule::levels;
use crate::system::{Mapping, Workload};

/// Notes the operations that succeed, in their order.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Operation>>);

impl Recorder {
    /// The operations since this was last asked.
    pub fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Recorder {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let result = work()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
        Ok(result)
    }
}

/// A batch of a protocol that expands queries, selects rows, and plays a tournament: `onion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedBatch {
    /// Rows of the database.
    pub rows: u64,
    /// Its columns: the first dimension.
    pub columns: u64,
    /// Queries.
    pub queries: u64,
    /// Leaves of each.
    pub leaves: u64,
    /// Bits of its selectors.
    pub bits: u64,
}

impl RecordedBatch {
    /// Reads the operations of one batch, and of the database before it.
    ///
    /// # Errors
    /// [`IveError::Graph`] with the number of an operation that IVE does not execute or that comes at a wrong time, or
    /// that is missing at the end.
    pub fn read(operations: &[Operation]) -> Result<Self, IveError> {
        let refuse = |node: usize, problem: String| IveError::Graph {
            node,
            problem,
            remedy: "record one batch: expand, selectors, poly_fold, rgsw_fold".into(),
        };
        let (mut batch, mut selected, mut played) = (Self::default(), false, false);
        for (number, &operation) in operations.iter().enumerate() {
            match operation {
                Operation::Tables
                | Operation::Keys
                | Operation::CiphertextWords
                | Operation::ModSwitch(_) => {}
                Operation::Encode { rows, columns } if batch.rows == 0 => {
                    (batch.rows, batch.columns) = (rows as u64, columns as u64);
                }
                Operation::Expand { queries, leaves } if batch.queries == 0 => {
                    (batch.queries, batch.leaves) = (queries as u64, leaves as u64);
                }
                Operation::Selectors { queries, depth } if queries as u64 == batch.queries => {
                    batch.bits = depth as u64;
                }
                Operation::PolyFold if batch.queries > 0 && !selected => selected = true,
                Operation::RgswFold if selected && !played => played = true,
                other => {
                    return Err(refuse(number, format!("{other:?} is not what comes next in a batch")));
                }
            }
        }
        let whole = batch.rows > 0 && selected && (played || batch.rows == 1);
        if whole { Ok(batch) } else { Err(refuse(operations.len(), "the batch ends too early".into())) }
    }

    /// The batch on an architecture: its scheme with this database's first dimension and digits, and the workload. Sizes
    /// of polynomials are those of the architecture, whatever ring was recorded.
    ///
    /// # Errors
    /// [`IveError::Workload`] if the leaves are not columns and as many digits for each bit, or the bits are not those of
    /// the rows.
    pub fn on(&self, arch: &Arch) -> Result<(Arch, Workload), IveError> {
        let Self { rows, columns, queries, leaves, bits } = *self;
        let digits = leaves.saturating_sub(columns);
        if columns == 0 || leaves < columns || bits != u64::from(levels(rows)) || (bits == 0) != (digits == 0)
        {
            return Err(mismatch(self));
        }
        let gadget_levels = digits.checked_div(bits).unwrap_or(arch.scheme.gadget_levels);
        if gadget_levels * bits != digits {
            return Err(mismatch(self));
        }
        let scheme = Scheme { first_dimension: columns, gadget_levels, ..arch.scheme };
        let gib = (rows * columns * scheme.plaintext_bytes) as f64 / f64::from(1 << 30);
        let workload = Workload { gib, systems: 1, queries, mapping: Mapping::QueryPerCore };
        Ok((Arch { scheme, ..arch.clone() }, workload))
    }
}

fn mismatch(batch: &RecordedBatch) -> IveError {
    IveError::Workload {
        key: "recorded",
        problem: format!("{batch:?} are no columns with digits for each bit of the rows"),
        remedy: "record a protocol whose selectors are made of leaves behind those of the columns".into(),
    }
}
