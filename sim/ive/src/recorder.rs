//! Recorder of the operations that a server's backend executes: a protocol that runs on
//! `Observed<B, Recorder>` needs no second description here.

use parking_lot::Mutex;
use spirea_backend::{BackendError, Observer, Operation};
use spirea_math::Rotations;

use crate::error::IveError;

/// Records the successful operations, in their order.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Operation>>);

impl Recorder {
    /// Returns the operations since the last call.
    pub fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Observer for Recorder {
    fn observe<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let result = work()?;
        self.0.lock().push(operation);
        Ok(result)
    }
}

/// Phase of a batch, with its shape: an operation of a backend that takes time on the machine. Each
/// phase needs the results of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Product of a matrix of bytes and a column of words for each query.
    ScalarFold {
        /// Rows of the matrix.
        rows: u64,
        /// Columns of the matrix.
        columns: u64,
        /// Number of queries.
        queries: u64,
    },
    /// Expansion of each query's ciphertext, or of a leaf of another expansion.
    Expand {
        /// Number of leaves of each expansion.
        leaves: u64,
        /// Number of queries.
        queries: u64,
    },
    /// Images under small automorphisms.
    Rotate {
        /// Rotations of the packing.
        rotations: Rotations,
        /// Number of queries.
        queries: u64,
    },
    /// Product of a matrix of plaintext polynomials and leaves.
    PolyFold {
        /// Rows of the matrix.
        rows: u64,
        /// Columns of the matrix.
        columns: u64,
        /// Number of queries.
        queries: u64,
    },
    /// Sums of images under big automorphisms.
    SumRotated {
        /// Rotations of the packing.
        rotations: Rotations,
        /// Number of sums of each query.
        sums: u64,
        /// Number of queries.
        queries: u64,
    },
    /// External products of leaves with the key, for selectors.
    Assemble {
        /// Number of leaves of each query.
        leaves: u64,
        /// Number of queries.
        queries: u64,
    },
    /// Tournament among rows.
    Tournament {
        /// Number of rows of each query.
        rows: u64,
        /// Number of queries.
        queries: u64,
    },
}

impl Phase {
    /// Returns the number of queries.
    pub fn queries(&self) -> u64 {
        match *self {
            Self::ScalarFold { queries, .. }
            | Self::Expand { queries, .. }
            | Self::Rotate { queries, .. }
            | Self::PolyFold { queries, .. }
            | Self::SumRotated { queries, .. }
            | Self::Assemble { queries, .. }
            | Self::Tournament { queries, .. } => queries,
        }
    }

    /// Returns the name of the protocol's step.
    pub fn name(self) -> &'static str {
        match self {
            Self::ScalarFold { .. } => "scalar_fold",
            Self::Expand { .. } => "expand",
            Self::Rotate { .. } => "rotate",
            Self::PolyFold { .. } => "poly_fold",
            Self::SumRotated { .. } => "sum_rotated",
            Self::Assemble { .. } => "selectors",
            Self::Tournament { .. } => "rgsw_fold",
        }
    }
}

fn refuse(node: usize, problem: String) -> IveError {
    IveError::Graph {
        node,
        problem,
        remedy: "record one batch of simple, exppack-simple, hybrid or onion: its server's operations from the first \
                 to the last"
            .into(),
    }
}

/// Converts the operations of one batch, and of the database before it, to phases. Each fold of
/// polynomials processes a part of all encoded polynomials; the parts have equal sizes.
///
/// # Errors
/// [`IveError::Graph`] with the number of an operation that the machine does not execute, or that
/// comes at a wrong time.
pub fn phases(operations: &[Operation]) -> Result<Vec<Phase>, IveError> {
    let count = |is: fn(&Operation) -> bool| operations.iter().filter(|operation| is(operation)).count();
    let batches = count(|it| matches!(it, Operation::Expand { .. })).max(1);
    let parts = (count(|it| matches!(it, Operation::PolyFold)) / batches).max(1) as u64;
    let (mut found, mut encoded, mut columns) = (Vec::new(), 0, 0);
    // State of the latest expansion (queries, leaves, and leaves used as columns), then the number
    // of rows that the latest fold left.
    let (mut queries, mut leaves, mut taken, mut left) = (0, 0, 0, 0);
    for (number, &operation) in operations.iter().enumerate() {
        let too_early = || refuse(number, format!("{operation:?} is not what comes next in a batch"));
        match operation {
            Operation::Upload(_)
            | Operation::Open(_)
            | Operation::Tables
            | Operation::Keys
            | Operation::ModuleFold { .. }
            | Operation::Words
            | Operation::AddBodies { .. }
            | Operation::CiphertextWords
            | Operation::ModSwitch(_) => {}
            Operation::Encode { rows, columns: of_row } if queries == 0 => {
                encoded += rows as u64;
                columns = of_row as u64;
            }
            Operation::ScalarFold { layout, words } => found.push(Phase::ScalarFold {
                rows: layout.rows() as u64,
                columns: layout.columns() as u64,
                queries: (words / layout.columns()) as u64,
            }),
            Operation::Expand { queries: of_batch, leaves: wanted } => {
                (queries, leaves, taken) = (of_batch as u64, wanted as u64, columns);
                found.push(Phase::Expand { leaves, queries });
            }
            Operation::ExpandLeaf { leaves: wanted, .. } if queries > 0 => {
                (leaves, taken) = (wanted as u64, 0);
                found.push(Phase::Expand { leaves, queries });
            }
            Operation::Rotate { rotations, .. } if queries > 0 => {
                found.push(Phase::Rotate { rotations, queries });
            }
            Operation::Selectors { depth, .. } if queries > 0 => {
                let digits = leaves.checked_sub(taken).filter(|&digits| digits > 0 && depth > 0);
                let digits = digits.filter(|digits| digits.is_multiple_of(depth as u64));
                let leaves = digits.ok_or_else(too_early)?;
                found.push(Phase::Assemble { leaves, queries });
            }
            Operation::PolyFold if queries > 0 && encoded > 0 => {
                left = encoded / parts;
                found.push(Phase::PolyFold { rows: left, columns, queries });
            }
            Operation::SumRotated { rotations, .. } if left > 0 => {
                left /= rotations.big() as u64;
                found.push(Phase::SumRotated { rotations, sums: left, queries });
            }
            Operation::RgswFold if left > 0 => {
                found.push(Phase::Tournament { rows: left, queries });
                left = 0;
            }
            _ => return Err(too_early()),
        }
    }
    if found.is_empty() {
        Err(refuse(operations.len(), "the batch ends too early".into()))
    } else {
        Ok(found)
    }
}
