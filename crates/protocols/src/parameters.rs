//! What the parameters of every protocol tell.

use spirea_backend::PanelLayout;
use spirea_lattice::rlwe::KeyShape;

use crate::grid::{Grid, Spread};
use crate::planner::Work;
use crate::{ProtocolError, Sizes};

/// How a database lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A matrix of bytes in panel layout.
    Panels {
        /// The layout.
        layout: PanelLayout,
        /// Where the records lie in the matrix.
        grid: Grid,
        /// Where the parts of large records lie.
        spread: Spread,
    },
    /// Units one after another, in the order (part, group, column): each the bytes of a plaintext polynomial.
    Units {
        /// Where the records lie.
        grid: Grid,
    },
}

impl Stored {
    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Panels { layout, .. } => layout.bytes() as u64,
            Self::Units { grid } => grid.rows(Spread::Rows) as u64 * grid.columns as u64,
        }
    }

    /// Rows and columns: of bytes in a matrix, of units otherwise.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Panels { layout, .. } => [layout.rows(), layout.columns()],
            Self::Units { grid } => [grid.groups * grid.parts(), grid.columns],
        }
    }

    /// The offset in the file of byte `byte` of record `index`.
    pub fn offset(&self, index: u64, byte: usize) -> u64 {
        match self {
            Self::Panels { layout, grid, spread } => {
                let place = grid.place(*spread, index);
                let (part, within) = (byte / grid.unit_rows, byte % grid.unit_rows);
                let row = grid.row(*spread, part, place.group) + place.offset + within;
                let column = if *spread == Spread::Columns { place.column + part } else { place.column };
                layout.offset(row, column) as u64
            }
            Self::Units { grid } => {
                let place = grid.place(Spread::Rows, index);
                let (part, within) = (byte / grid.unit_rows, byte % grid.unit_rows);
                let unit = (part * grid.groups + place.group) * grid.columns + place.column;
                (unit * grid.unit_rows + place.offset + within) as u64
            }
        }
    }
}

/// Parameters of a database under some protocol: public, part of a snapshot's identity.
pub trait Parameters {
    /// The protocol's name.
    fn name(&self) -> &'static str;

    /// Names of the parameter sets.
    fn set(&self) -> String;

    /// Servers of the protocol, each with the whole database: 1, or 2 that must not work together.
    fn parties(&self) -> usize {
        1
    }

    /// How the database lies in its file.
    fn stored(&self) -> Stored;

    /// Where the records lie.
    fn grid(&self) -> Grid;

    /// Bytes of what the server precomputes of the database and keeps for itself; 0 if nothing.
    fn server_bytes(&self) -> u64;

    /// What the server does for one query.
    fn work(&self) -> Vec<Work>;

    /// Bytes of memory that the server needs: the database, what it keeps, and one query in flight.
    fn memory_bytes(&self) -> u64;

    /// Checks parameters read from untrusted bytes: shapes, capacity, security and the failure bound.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] that names what is out of range.
    fn validate(&self) -> Result<(), ProtocolError>;

    /// The shape of the evaluation keys that the server needs of its clients; `None` if it needs none.
    fn key_shape(&self) -> Option<KeyShape> {
        None
    }

    /// Bytes of queries, answers, hint and keys.
    fn sizes(&self) -> Sizes;

    /// log2 of a bound on the probability that a record decodes wrongly, whatever the database holds.
    fn failure_log2(&self) -> f64;

    /// Security in bits: the least of its parts.
    fn security_bits(&self) -> f64;
}
