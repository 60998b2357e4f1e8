//! What a server has its backend do, written down: a protocol that runs on `Observed<B, Recorder>` needs no second copy
//! here.

use std::sync::{Mutex, PoisonError};

use spirea_backend::{BackendError, Observer, Operation};
use spirea_math::Rotations;

use crate::error::IveError;

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

/// What is done for a batch, with its shape: an operation of a backend that takes time on the machine. Each needs what the
/// one before made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A matrix of bytes times a column of words for each query.
    ScalarFold {
        /// Of the matrix.
        rows: u64,
        /// Of the matrix.
        columns: u64,
        /// How many.
        queries: u64,
    },
    /// An expansion of each query's ciphertext, or of a leaf of another one.
    Expand {
        /// Leaves of each.
        leaves: u64,
        /// How many.
        queries: u64,
    },
    /// Images under small automorphisms.
    Rotate {
        /// Which.
        rotations: Rotations,
        /// How many.
        queries: u64,
    },
    /// A matrix of plaintext polynomials times leaves.
    PolyFold {
        /// Of the matrix.
        rows: u64,
        /// Of the matrix.
        columns: u64,
        /// How many.
        queries: u64,
    },
    /// Sums of images under big automorphisms.
    SumRotated {
        /// Which.
        rotations: Rotations,
        /// Of each query.
        sums: u64,
        /// How many.
        queries: u64,
    },
    /// External products with the key: of leaves, for selectors.
    Assemble {
        /// Of each query.
        leaves: u64,
        /// How many.
        queries: u64,
    },
    /// A tournament among rows.
    Tournament {
        /// How many take part.
        rows: u64,
        /// How many.
        queries: u64,
    },
}

impl Phase {
    /// Of how many queries.
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

    /// The step of a protocol that it is.
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

/// Reads the operations of one batch, and of the database before it. Each fold of polynomials is of its part of all that
/// were encoded, and parts are alike.
///
/// # Errors
/// [`IveError::Graph`] with the number of an operation that the machine does not execute or that comes at a wrong time.
pub fn phases(operations: &[Operation]) -> Result<Vec<Phase>, IveError> {
    let count = |is: fn(&Operation) -> bool| operations.iter().filter(|operation| is(operation)).count();
    let batches = count(|it| matches!(it, Operation::Expand { .. })).max(1);
    let parts = (count(|it| matches!(it, Operation::PolyFold)) / batches).max(1) as u64;
    let (mut found, mut encoded, mut columns) = (Vec::new(), 0, 0);
    // Of the latest expansion: queries, leaves, and how many of them columns take; then what the latest fold left.
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
